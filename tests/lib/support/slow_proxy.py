"""A TCP proxy on loopback, or on ADDRESS, that is slow on purpose: slow_proxy.py PORT TARGET_PORT DELAY RATE [LINK [ADDRESS]].

DELAY seconds pass before the first byte of each answer, RATE bytes a second go through each connection and LINK through all of
them (0: no limit). What the client sends is not held up.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import time
from contextlib import suppress

_PIECE = 32 << 10
_CREDIT = 0.03


class Pace:
    """Lets bytes through at a rate: each piece waits until those before it have had their time."""

    def __init__(self, rate: float) -> None:
        self._rate, self._free = rate, 0.0

    def wait(self, size: int) -> float:
        """Seconds until a piece of ``size`` bytes may go on."""
        if self._rate <= 0:
            return 0.0
        now = time.monotonic()
        # A sleep that lasted too long is made up for, an idle time is not.
        self._free = max(self._free, now - _CREDIT) + size / self._rate
        return self._free - now


class Proxy:
    def __init__(self, address: str, target: int, delay: float, rate: float, link: float) -> None:
        self._address, self._target, self._delay, self._rate = address, target, delay, rate
        self._link = Pace(link)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            far_reader, far_writer = await asyncio.open_connection(self._address, self._target)
            asked = asyncio.Event()
            ways = [
                asyncio.ensure_future(self._there(reader, far_writer, asked)),
                asyncio.ensure_future(self._back(far_reader, writer, asked)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            far_writer.close()
        writer.close()

    async def _there(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while data := await reader.read(_PIECE):
            asked.set()
            writer.write(data)
            await writer.drain()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        pace = Pace(self._rate)
        while data := await reader.read(_PIECE):
            if asked.is_set():
                asked.clear()
                await asyncio.sleep(self._delay)
            pause = max(pace.wait(len(data)), self._link.wait(len(data)))
            # Shorter sleeps than the event loop can keep add up to less than the rate.
            if pause > 0.002:
                await asyncio.sleep(pause)
            writer.write(data)
            await writer.drain()


async def main() -> None:
    port, target = int(sys.argv[1]), int(sys.argv[2])
    delay, rate = float(sys.argv[3]), float(sys.argv[4])
    link = float(sys.argv[5]) if len(sys.argv) > 5 else 0.0
    address = sys.argv[6] if len(sys.argv) > 6 else "127.0.0.1"
    proxy = Proxy(address, target, delay, rate, link)
    server = await asyncio.start_server(proxy.serve, address, port, limit=_PIECE)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() == parent:
        asyncio.run(main())
