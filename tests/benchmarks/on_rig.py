"""Runs a benchmark of oneCCL on the first of two hosts: name spaces of this machine, joined by a link of 1 Gbit/s. Needs root.

    python tests/benchmarks/on_rig.py bench_oneccl.py --sizes 64K --time 60s

The benchmark gets --hosts, --ppn 1, --python and --ssh besides its own options. The hosts go when it ends.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent.resolve()
sys.path.insert(0, str(_HERE.parent / "lib"))

from support.rig import rig  # noqa: E402


def main() -> int:
    if len(sys.argv) < 2 or not (_HERE / sys.argv[1]).is_file():
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="rig") as name, rig(Path(name), shm="1g") as hosts:
        listed = Path(name) / "hosts.txt"
        listed.write_text("".join(f"{host}\n" for host in hosts.names))
        python = sys.executable
        command = [*hosts[0].inside, python, str(_HERE / sys.argv[1]), *sys.argv[2:],
                   "--hosts", str(listed), "--ppn", "1", "--python", python, "--ssh", shlex.join(hosts.ssh)]  # fmt: skip
        # The name spaces don't keep the folder that this was started in.
        env = {**os.environ, "PYTHONPATH": str(_HERE.parents[1])}
        return subprocess.run(command, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
