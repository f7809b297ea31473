"""Ends what is left of a job on hosts, found by the job's mark in each process's environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from runners.hosts.host import Host
from runners.launch.frames import Decoder
from runners.launch.reach import Reach, last_line, spoken
from runners.process import end_group

_LIMIT = 20.0


def sweep(reach: Reach, hosts: Sequence[Host], token: str, limit: float = _LIMIT) -> dict[Host, list[str] | str]:
    """For each host: names of the job's processes that can't be ended ([] is a clean host), or why it can't be reached."""
    if not hosts:
        return {}
    with ThreadPoolExecutor(min(64, len(hosts))) as pool:
        return dict(zip(hosts, pool.map(lambda host: _one(reach, host, token, limit), hosts), strict=True))


def _one(reach: Reach, host: Host, token: str, limit: float) -> list[str] | str:
    command = reach.command(None if reach.is_here(host) else host)
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    except OSError as error:
        return f"{command[0]} can't be started: {error.strerror or error}"
    try:
        output, complaints = process.communicate(spoken({"job": token, "sweep": token, "grace": 0.0}), timeout=limit)
    except subprocess.TimeoutExpired:
        end_group(process.pid, 0.0)
        process.communicate()
        return f"no answer within {limit:.0f} s"
    ends = [json.loads(frame.data) for frame in Decoder(token).feed(output) if frame.kind == "X"]
    return list(ends[-1]["left"]) if ends else last_line(complaints.decode(errors="replace")) or "ssh ended without a word"
