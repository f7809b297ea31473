"""Reads what keepers tell out of a stream in which others may talk too."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass

from runners.launch.marks import FRAME, HEAD

_NOISE = 65536


@dataclass(frozen=True, slots=True)
class Frame:
    """``kind``: S started, O and E output and error, H a sign of life, X the end."""

    rank: int
    kind: str
    data: bytes


class Decoder:
    """Frames of one job. Everything else is ``noise`` (its tail); frames that are cut, wrong or lost make it ``damaged``."""

    def __init__(self, job: str) -> None:
        self._magic = b"\x1e" + job[:8].encode()
        self._rest = b""
        self._numbers: dict[int, int] = {}
        self._parts: dict[tuple[int, str], list[bytes]] = {}
        self._noise = b""
        self.damaged = 0

    @property
    def noise(self) -> str:
        return self._noise.decode(errors="replace")

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that end in ``data``."""
        data = self._rest + data
        self._rest = b""
        at = 0  # up to here all is taken
        while True:
            begins = data.find(self._magic, at)
            if begins < 0:
                begins = data.rfind(b"\x1e", at)  # a frame may begin here
                begins = begins if begins >= 0 and len(data) - begins < len(self._magic) else len(data)
            self._aside(data[at:begins])
            if len(data) - begins < FRAME:
                self._rest = data[begins:]
                return
            parsed = _parse(data[begins : begins + FRAME])
            if parsed is None:
                self.damaged += 1
                self._aside(data[begins : begins + 1])
                at = begins + 1
                continue
            at = begins + FRAME
            yield from self._take(*parsed)

    def _aside(self, noise: bytes) -> None:
        if noise:
            self._noise = (self._noise + noise)[-_NOISE:]

    def _take(self, rank: int, number: int, kind: str, last: bool, data: bytes) -> Iterator[Frame]:
        if number != self._numbers.get(rank, 0):
            self.damaged += 1
        self._numbers[rank] = (number + 1) % 10**8
        if kind in "OE":
            yield Frame(rank, kind, data)
            return
        parts = self._parts.setdefault((rank, kind), [])
        parts.append(data)
        if last:
            del self._parts[rank, kind]
            yield Frame(rank, kind, b"".join(parts))


def _parse(frame: bytes) -> tuple[int, int, str, bool, bytes] | None:
    try:
        check, head = int(frame[9:17], 16), frame[17:37]
        text = frame[HEAD : HEAD + int(head[16:20])]
        # The padding as well: a frame that was cut there would swallow the beginning of the next.
        if binascii.crc32(head + text) & 0xFFFFFFFF != check or frame[HEAD + len(text) :].strip(b" ") != b"\n":
            return None
        return int(head[:6]), int(head[6:14]), chr(head[14]), head[15:16] == b".", base64.b64decode(text, validate=True)
    except ValueError:
        return None
