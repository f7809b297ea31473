"""Kills a run that has raised the backlogs, and starts the next one: killed.py SIGNAL. Prints somaxconn after both."""

import json
import subprocess
import sys
import time
from pathlib import Path

SOMAXCONN = Path("/proc/sys/net/core/somaxconn")
ASKED = ("--world-size", "8", "--time", "200s", "--start", "listening", "--barrier", "keys", "--backlog", "raised", "--system")


def main(number: int) -> None:
    run = subprocess.Popen([sys.executable, "-m", "tuner", "tcpstore", *ASKED, "--study", "k"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 100
    while SOMAXCONN.read_text() != "4096\n":
        assert time.monotonic() < deadline
        assert run.poll() is None
        time.sleep(0.02)
    run.send_signal(number)
    told = {"code": run.wait(60), "after": int(SOMAXCONN.read_text())}
    # The study's own host: had somaxconn changed, it would be refused. There is no time for more than to find that out.
    resume = [sys.executable, "-m", "tuner", "resume", "k", "--time", "2s"]
    told["next"] = subprocess.run(resume, stdout=subprocess.DEVNULL, check=False).returncode
    print(json.dumps({**told, "then": int(SOMAXCONN.read_text())}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
