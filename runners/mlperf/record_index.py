"""tfrecord2idx: where each record of a TFRecord file begins and how long it is. DLIO 2.0.0 calls a program of this name.

The program comes with NVIDIA's DALI, which needs no GPU for it and is hard to install without one. This module is a program
of its own too: it is copied to where DLIO finds it, and imports nothing of ours.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

_LENGTH = struct.Struct("<Q")
_CHECKSUM = 4


def index(records: Path, target: Path) -> int:
    """Writes a line "offset size" for each record, the size with its framing; returns how many. Raises ValueError."""
    size = records.stat().st_size
    count = position = 0
    with records.open("rb") as file, target.open("w", encoding="ascii") as lines:
        while position < size:
            head = file.read(_LENGTH.size)
            if len(head) < _LENGTH.size:
                raise ValueError(f"{records} ends in the middle of record {count}")
            whole = _LENGTH.size + _CHECKSUM + _LENGTH.unpack(head)[0] + _CHECKSUM
            if position + whole > size:
                raise ValueError(f"{records} ends in the middle of record {count}")
            lines.write(f"{position} {whole}\n")
            position += whole
            file.seek(position)
            count += 1
    return count


def main() -> None:
    try:
        index(Path(sys.argv[1]), Path(sys.argv[2]))
    except (OSError, ValueError, IndexError) as error:
        sys.exit(f"tfrecord2idx: {error}")


if __name__ == "__main__":
    main()
