"""Runs a command in network and mount namespaces of its own: unshare --net --mount python inside.py JSON COMMAND …

The JSON object may hold "hosts", "resolv" and "nsswitch" (texts of these files), "somaxconn" (a number) and "silent" (an
address whose port 53 takes questions and never answers). Only loopback exists in there.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    plan = json.loads(sys.argv[1])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # The parent gave us a mount namespace; nothing that is mounted here may be seen outside.
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, place in (("hosts", "/etc/hosts"), ("resolv", "/etc/resolv.conf"), ("nsswitch", "/etc/nsswitch.conf")):
            if name in plan:
                file = Path(folder) / name
                file.write_text(plan[name])
                subprocess.run(["mount", "--bind", str(file), place], check=True)
        if "somaxconn" in plan:
            Path("/proc/sys/net/core/somaxconn").write_text(str(plan["somaxconn"]))
        if "silent" in plan:
            silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            silent.bind((plan["silent"], 53))
        done = subprocess.run(sys.argv[2:], check=False, env=os.environ)
        print("somaxconn after", Path("/proc/sys/net/core/somaxconn").read_text().strip(), file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
