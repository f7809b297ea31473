"""How ranks add up what they computed: by gloo, by oneCCL, or not at all where there is one. Part of the text sent."""

from __future__ import annotations

import base64
import fcntl
import os
import socket
import struct
from time import perf_counter_ns
from typing import Any

from runners.oneccl.rank_wire import Wire

_SIOCGIFADDR = 0x8915
_FLOAT32 = 7  # oneCCL's number for it


class Alone:
    """One rank. ``spent`` are the nanoseconds in sums so far: of a slow rank the others' are many."""

    name = "none"

    def __init__(self) -> None:
        self.spent = 0

    def add_up(self, tensor: Any) -> None:
        """Leaves the sum over all ranks in a contiguous float32 tensor."""


class Gloo(Alone):
    """torch.distributed's own collectives over TCP; the ranks meet at a TCPStore on rank 0's host."""

    name = "gloo"

    def __init__(self, spec: dict[str, Any], wires: list[Wire]) -> None:
        super().__init__()
        from datetime import timedelta

        host = spec["host"] or "127.0.0.1"
        # Without it gloo takes the interface that the host's own name leads to, which may be none or the loopback one.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface(host))
        import torch.distributed as distributed

        patience, rank, ranks = timedelta(seconds=spec["patience"]), spec["rank"], spec["ranks"]
        if rank == 0:
            store = distributed.TCPStore(host, 0, ranks, True, patience, wait_for_workers=False)
            for wire in wires:
                wire.say({"port": store.port})
        else:
            store = distributed.TCPStore(host, wires[0].hear()["port"], ranks, False, patience)
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
        self._sum = distributed.all_reduce

    def add_up(self, tensor: Any) -> None:
        begun = perf_counter_ns()
        self._sum(tensor)
        self.spent += perf_counter_ns() - begun


class OneCcl(Alone):
    """oneCCL's C API on host buffers."""

    name = "oneccl"

    def __init__(self, spec: dict[str, Any], wires: list[Wire]) -> None:
        super().__init__()
        from runners.oneccl.rank_library import CallFailed, Library

        self._failed = CallFailed
        self._library = library = Library(spec["library"])
        if spec["rank"] == 0:
            unique = library.unique_id()
            for wire in wires:
                wire.say({"unique": base64.b64encode(unique).decode()})
        else:
            unique = base64.b64decode(wires[0].hear()["unique"])
        library.join(unique, spec["rank"], spec["ranks"])

    def add_up(self, tensor: Any) -> None:
        begun = perf_counter_ns()
        place = tensor.data_ptr()
        if self._library.call("allreduce", place, place, tensor.numel(), _FLOAT32)() != 0:
            raise self._failed(f"oneCCL could not add up {tensor.numel()} numbers")
        self.spent += perf_counter_ns() - begun


def talk(spec: dict[str, Any], wires: list[Wire]) -> Alone:
    """What ``spec`` asks for."""
    if spec["ranks"] == 1:
        return Alone()
    return OneCcl(spec, wires) if spec["talk"] == "oneccl" else Gloo(spec, wires)


def interface(host: str) -> str:
    """The interface by which this host reaches the address ``host``, its own included; "" where none is found."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # sends nothing
            own = probe.getsockname()[0]
        except OSError:
            return ""
        if own == host:  # a packet to oneself goes by the loopback one, and others would not get there
            return next((name for name in _interfaces() if _address(probe, name) == host), "")
        return next((name for name in _interfaces() if _address(probe, name) == own), "")


def _interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def _address(probe: socket.socket, name: str) -> str:
    try:
        told = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    except OSError:
        return ""
    return socket.inet_ntoa(told[20:24])
