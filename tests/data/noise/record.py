"""Records how much one setting's throughput varies on a real disk: `python record.py FOLDER OUT.json [SAMPLES]`.

A 256 MiB file of random bytes is written and synced in FOLDER; then samples of one read and one write take turns, each the
rate of 64 requests of 1 MiB, O_DIRECT, one at a time, over a quarter of the file. The file is removed afterwards.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
import time
from pathlib import Path

BLOCK = 1 << 20
BLOCKS = 256
REQUESTS = 64


def rate(descriptor: int, buffer: mmap.mmap, start: int, write: bool) -> float:
    """GB/s (1e9 bytes) of REQUESTS whole blocks from block ``start`` on."""
    call = os.pwritev if write else os.preadv
    began = time.perf_counter()
    for block in range(start, start + REQUESTS):
        if call(descriptor, [buffer], block * BLOCK) != BLOCK:
            raise OSError("a request came back short")
    return REQUESTS * BLOCK / (time.perf_counter() - began) / 1e9


def record(folder: Path, samples: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        path = Path(scratch) / "noise.bin"
        with path.open("wb") as file:
            for _ in range(BLOCKS):
                file.write(os.urandom(BLOCK))
            file.flush()
            os.fsync(file.fileno())
        descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)
        buffer = mmap.mmap(-1, BLOCK)
        buffer.write(os.urandom(BLOCK))
        read: list[float] = []
        write: list[float] = []
        try:
            for sample in range(samples + 4):
                start = (sample * REQUESTS) % BLOCKS
                read.append(rate(descriptor, buffer, start, write=False))
                write.append(rate(descriptor, buffer, start, write=True))
        finally:
            os.close(descriptor)
            buffer.close()
    # The first samples pay for cold queues and lazily mapped buffers.
    return {"read": [round(x, 4) for x in read[4:]], "write": [round(x, 4) for x in write[4:]]}


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    samples = int(sys.argv[3]) if len(sys.argv) > 3 else 240
    made = f"record.py, {samples} samples each, 64 sequential O_DIRECT requests of 1 MiB a sample, read and write in turn"
    out.write_text(json.dumps({"made": made, "unit": "GB/s", **record(folder, samples)}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
