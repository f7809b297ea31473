"""Surfaces of other shapes; HELD_BACK were never looked at while the search's constants were chosen."""

from __future__ import annotations

import math
import random
from functools import cache

from surfaces.surface import Surface, space_of

from runners.runner import Objective

HELD_BACK = ("diagonal", "wide")


def latency() -> Surface:
    """Seconds, less is better: a bowl whose place along one knob depends on a choice, with a flag that only harms."""
    shape = {
        "backlog": ("log", [16 << k for k in range(9)]),
        "clients": ("log", [1 << k for k in range(8)]),
        "mode": ("cat", ["poll", "event", "libuv"]),
        "nodelay": ("bool", [False, True]),
        "retry_ms": ("int", [10, 20, 40, 60, 80, 100, 150, 200]),
    }
    shift = {"poll": 2.0, "event": 4.5, "libuv": 6.0}
    base = {"poll": 1.45, "event": 1.1, "libuv": 1.0}

    def truth(p):
        clients = math.log2(p["clients"])
        backlog = math.log2(p["backlog"] / 16)
        t = base[p["mode"]] * (1 + 0.05 * (clients - shift[p["mode"]]) ** 2)
        t *= 1 + 0.15 * max(0.0, clients - backlog) + 0.01 * backlog
        t *= 1 if p["nodelay"] else 1.35
        return 0.2 * t + 0.0004 * abs(p["retry_ms"] - 40)

    return Surface(
        "latency",
        space_of(shape, (128, 16, "poll", False, 100)),
        truth,
        0.04,
        objective=Objective("value", "s", maximise=False),
    )


def two_hills() -> Surface:
    """A broad hill of 85 % around the default's side and a narrower, higher one far away."""
    shape = {f"k{i}": ("int", list(range(7))) for i in range(3)} | {"kind": ("cat", list("abcd"))}

    def truth(p):
        x = [p[f"k{i}"] for i in range(3)]
        near = sum((v - 1.5) ** 2 for v in x) / 14
        far = sum((v - c) ** 2 for v, c in zip(x, (5, 4, 5), strict=True)) / 5
        gain = {"a": 1.0, "b": 0.9, "c": 0.75, "d": 0.95}[p["kind"]]
        other = {"a": 0.8, "b": 0.75, "c": 1.0, "d": 0.9}[p["kind"]]
        return 0.15 + 0.72 * gain * math.exp(-near) + 0.85 * other * math.exp(-far)

    return Surface("two-hills", space_of(shape, (1, 1, 0, "b")), truth, 0.05)


def switches() -> Surface:
    """Flags that pay only together, next to one knob that saturates; a quarter of the combinations can't run."""
    shape = {f"f{i}": ("bool", [False, True]) for i in range(7)} | {"size": ("log", [1 << k for k in range(10)])}

    def truth(p):
        if p["f0"] and p["f1"]:
            return math.nan
        size = math.log2(p["size"])
        y = 1 - math.exp(-(size + 1) / 3)
        y *= 1.25 if p["f2"] and p["f3"] else 0.92 if p["f2"] or p["f3"] else 1.0
        y *= 1.2 if p["f1"] and p["f4"] else 1.0
        y *= 0.97 if p["f5"] else 1.0
        y *= 1.04 if p["f6"] and size >= 6 else 1.0
        return y * (0.9 if size > 7 and not p["f4"] else 1.0)

    return Surface("switches", space_of(shape, (*[False] * 7, 4)), truth, 0.04, down=0.05)


def flat() -> Surface:
    """Nothing to gain above a low threshold: a slow device that any sensible setting fills."""
    shape = {
        "block": ("log", [64 << k for k in range(9)]),
        "depth": ("log", [1 << k for k in range(8)]),
        "threads": ("log", [1, 2, 4, 8, 16]),
        "batch": ("bool", [False, True]),
    }

    def truth(p):
        flight = p["block"] * p["depth"] * p["threads"]
        return 0.5 * (1 - math.exp(-flight / 900)) * (1 - 0.002 * math.log2(p["threads"]))

    return Surface("flat", space_of(shape, (1024, 8, 1, False)), truth, 0.06)


def diagonal() -> Surface:
    """A narrow ridge along a product of three knobs, with all above a memory limit infeasible. Held back."""
    shape = {
        "a": ("log", [1 << k for k in range(8)]),
        "b": ("log", [1 << k for k in range(8)]),
        "c": ("int", [1, 2, 3, 4, 5, 6, 8, 10]),
        "layout": ("cat", ["row", "column", "tile"]),
    }

    def truth(p):
        a, b = math.log2(p["a"]), math.log2(p["b"])
        flight = a + b + math.log2(p["c"])
        if flight > 12.5:
            return math.nan
        bonus = {"row": 1.0, "column": 0.8 + 0.03 * b, "tile": 0.9 + 0.025 * a}[p["layout"]]
        return bonus * math.exp(-(((flight - 10.5) / 2.2) ** 2)) * math.exp(-(((a - b - 2) / 5) ** 2)) * (1 - 0.01 * p["c"])

    return Surface("diagonal", space_of(shape, (4, 4, 1, "row")), truth, 0.05)


def wide() -> Surface:
    """Twelve knobs, more combinations than can be listed: a few matter, some interact, one pair can't run. Held back."""
    rng = random.Random(77)
    shape = {f"n{i}": ("log", [1 << k for k in range(6)]) for i in range(5)}
    shape |= {f"c{i}": ("cat", [f"v{j}" for j in range(4)]) for i in range(3)}
    shape |= {f"b{i}": ("bool", [False, True]) for i in range(4)}
    weight = {name: rng.choice([0.02, 0.05, 0.1, 0.3]) for name in shape}
    peak = {name: rng.randrange(len(values)) for name, (_, values) in shape.items()}
    pairs = [("n0", "n1"), ("n2", "c0"), ("c1", "b0")]

    def truth(p):
        if p["c0"] == "v3" and p["b1"]:
            return math.nan
        off = {}
        for name, (kind, values) in shape.items():
            distance = abs(values.index(p[name]) - peak[name])
            off[name] = min(1.0, distance / 3) ** 1.3 if kind == "log" else float(distance > 0)
        y = sum(weight[name] * off[name] for name in shape)
        y += sum(0.12 * off[a] * (1 - off[b]) for a, b in pairs)
        return math.exp(-y)

    return Surface("wide", space_of(shape, (*[4] * 5, *["v1"] * 3, *[False] * 4)), truth, 0.05)


@cache
def others() -> list[Surface]:
    return [latency(), two_hills(), switches(), flat(), diagonal(), wide()]
