"""Which switch selects which server, by the way a job is started: found by starting jobs, and what was found so far.

``python -m runners.tcpstore.switches`` tries all of them with the torch that is installed and prints what it saw, as text or
(--module) as the module runners/tcpstore/seen.py with this torch's rows in it.
"""

from __future__ import annotations

import argparse
import json
import os
import pprint
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from runners.process import run
from runners.runner import Failure
from runners.tcpstore.network import free_ports
from runners.tcpstore.seen import SEEN

_ROOT = Path(__file__).resolve().parents[2]
_LIMIT = 90.0
_OWN = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"

# By launch path, what is tried: environment variables, parameters of the URL, options of torchrun.
Attempt = tuple[str, Mapping[str, str], str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Row:
    """One job that was started: how, with what set, and the server it got; ``said`` is the reason where it got none."""

    launch: str
    variables: dict[str, str]
    url: str
    options: list[str]
    server: str
    said: str = ""

    @property
    def shown(self) -> str:
        parts = [*(f"{name}={value}" for name, value in self.variables.items()), self.url, *self.options]
        return " ".join(part for part in parts if part) or "(nothing)"


def attempts() -> list[Attempt]:
    """Every combination worth knowing."""
    libuv = [{}, *({"USE_LIBUV": value} for value in ("0", "1", "True", "False"))]
    found: list[Attempt] = [("env", variables, "", ()) for variables in libuv]
    found += [("tcp", {}, url, ()) for url in ("", "use_libuv=0", "use_libuv=1", "use_libuv=True")]
    found += [("tcp", {"USE_LIBUV": "0"}, "use_libuv=1", ()), ("tcp", {"USE_LIBUV": "0"}, "", ())]
    found += [("tcp", {"USE_LIBUV": "1"}, "use_libuv=0", ())]
    for launch in ("torchrun --standalone", "torchrun --rdzv-backend=c10d", "torchrun --master-addr"):
        for variables in ({}, {"USE_LIBUV": "0"}, {_OWN: "1"}, {_OWN: "1", "USE_LIBUV": "0"}):
            found.append((launch, variables, "", ()))
    found += [("torchrun --rdzv-backend=c10d", {}, "", ("--rdzv-conf=use_libuv=0",))]
    found += [("torchrun --rdzv-backend=c10d", {}, "", ("--use_libuv=False",))]
    found += [("torchrun --rdzv-backend=c10d", {}, "use_libuv=0", ())]
    return found


def start(attempt: Attempt) -> Row:
    """Starts one job of one rank and looks at its server."""
    launch, variables, url, options = attempt
    port = free_ports(1)[0]
    kept = {
        name: value for name, value in os.environ.items() if not re.match(r"(MASTER|TORCH|RANK$|WORLD|LOCAL_|USE_LIBUV)", name)
    }
    environment = {**kept, "OMP_NUM_THREADS": "1", **variables}
    address = "env://"
    if launch == "tcp":
        address = f"tcp://127.0.0.1:{port}?rank=0&world_size=1{'&' if url else ''}{url}"
    elif url:
        address += f"?{url}"
    command = [sys.executable, "-m"]
    if launch.startswith("torchrun"):
        where = {
            "torchrun --standalone": ["--standalone"],
            "torchrun --rdzv-backend=c10d": ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--nnodes=1"],
            "torchrun --master-addr": ["--master-addr=127.0.0.1", f"--master-port={port}", "--nnodes=1"],
        }[launch]
        command += ["torch.distributed.run", *where, *options, "--nproc-per-node=1", "-m"]
    else:
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": "0", "WORLD_SIZE": "1"}
    done = run([*command, "runners.tcpstore.probe", address], limit=_LIMIT, env=environment, cwd=_ROOT)
    if isinstance(done, Failure):
        return Row(launch, dict(variables), url, list(options), "", done.reason)
    for line in done.stdout.splitlines():
        if line.startswith('{"server"'):
            return Row(launch, dict(variables), url, list(options), json.loads(line)["server"])
    lines = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines() or [""]
    return Row(launch, dict(variables), url, list(options), "", lines[-1].strip()[:200])


def release(version: str) -> str:
    """2.13.0+cpu -> 2.13: patches and builds of a release obey the same switches."""
    return ".".join(version.split("+")[0].split(".")[:2])


def cache_file(version: str) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "clustertune" / f"tcpstore-switches-{release(version)}.json"


def known(version: str) -> list[Row] | None:
    """What was seen with this torch, packaged or by this user; None where nobody tried."""
    rows = SEEN.get(release(version))
    if rows is None:
        try:
            rows = json.loads(cache_file(version).read_text(encoding="utf-8"))
            return [Row(**row) for row in rows]
        except (OSError, ValueError, TypeError):
            return None
    return [Row(**row) for row in rows]


def learn(version: str) -> list[Row]:
    """Tries everything with the torch of this Python, about a minute, and keeps it for this user."""
    rows = [start(attempt) for attempt in attempts()]
    place = cache_file(version)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    except OSError:
        pass  # the next run tries again
    return rows


def switch(rows: Sequence[Row], launch: str, backend: str) -> dict[str, str] | None:
    """The fewest variables with which a job that starts so was seen to get ``backend``; None where none was.

    ``launch`` is script or torchrun; for torchrun, what works with its c10d rendezvous.
    """
    paths = ("env",) if launch == "script" else ("torchrun --rdzv-backend=c10d",)
    fitting = [
        row.variables for row in rows if row.launch in paths and row.server == backend and not row.options and not row.url
    ]
    plain = [each for each in fitting if each.get("USE_LIBUV", "0") in ("0", "1")]
    return min(plain, key=len, default=None)


def refusal(version: str, backend: str) -> str:
    """Why a job under torchrun can't have ``backend``, "" when a switch for it was seen to work."""
    rows = known(version)
    if rows is None:
        return f"which switches torchrun obeys in torch {version} was not tried"
    if switch(rows, "torchrun", backend) is None:
        return f"under torchrun of torch {release(version)} no switch selects the {backend} server (all were tried)"
    return ""


def _module(found: Mapping[str, Sequence[Row]]) -> str:
    rows = {version: [asdict(row) for row in each] for version, each in sorted(found.items())}
    body = pprint.pformat(rows, width=125, sort_dicts=False)
    return (
        '"""What `python -m runners.tcpstore.switches --module` saw, by release of torch. Not written by hand."""\n\n'
        "from __future__ import annotations\n\nfrom typing import Any\n\n"
        f"SEEN: dict[str, list[dict[str, Any]]] = {body}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", action="store_true", help="print the module with this torch's rows added")
    asked = parser.parse_args()
    from runners.tcpstore.starting import torch_version

    version = torch_version()
    if version is None:
        raise SystemExit("PyTorch is not installed in this Python")
    rows = [start(attempt) for attempt in attempts()]
    if asked.module:
        before = {each: [Row(**row) for row in found] for each, found in SEEN.items()}
        sys.stdout.write(_module({**before, release(version): rows}))
        return
    for row in rows:
        sys.stdout.write(f"torch {version}  {row.launch:30} {row.shown:62} {row.server or '-'}  {row.said}\n")


if __name__ == "__main__":
    main()
