"""Six surfaces shaped like the real targets: aio on three devices, oneCCL, thread pinning, Alluxio."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
from surfaces.surface import Surface, space_of

from spaces.space import Config

K, M = 1 << 10, 1 << 20

# ---- aio --------------------------------------------------------------
AIO = {
    "block_size": ("log", [64 * K << k for k in range(8)]),
    "queue_depth": ("log", [1 << k for k in range(8)]),
    "threads": ("log", [1, 2, 4, 8, 16]),
    "single_submit": ("bool", [False, True]),
    "overlap_events": ("bool", [False, True]),
}
AIO_DEFAULT = (1 * M, 8, 1, False, True)


def aio_truth(Bmax, L0, c0, core_bw, cores, hwq, iops, split, split_pen, ov, ss_gain, S=400 * M):
    """Little's law device curve x CPU submit/copy cost x IOPS cap, with contention penalties."""

    def f(p):
        bs, qd, t = p["block_size"], p["queue_depth"], p["threads"]
        nreq = math.ceil(S / t / bs)
        q = min(qd, nreq)
        qe = q if p["overlap_events"] else max(1.0, q * ov)
        X = t * qe * bs
        dev = Bmax * (1 - math.exp(-X / (Bmax * (L0 + 0.35 * bs / Bmax) * 1.6)))
        batch = 1.0 if p["single_submit"] else min(1.0 + 0.10 * math.log2(q), 1.5)
        c = c0 / batch + bs / core_bw
        cpu = min(t, cores) * bs / c
        lim = iops * bs
        bw = (dev**-5 + cpu**-5 + lim**-5) ** -0.2
        if t > cores:
            bw *= 1 - 0.08 * math.log2(t / cores)
        if t * q > hwq:
            bw *= 1 - 0.04 * math.log2(t * q / hwq)
        if bs > split:
            bw *= 1 - split_pen * math.log2(bs / split)
        if p["single_submit"]:
            bw *= ss_gain if q >= 16 else 1.0
        if nreq % q and nreq < 4 * q:
            bw *= 0.97  # ragged last batch
        return bw / 1e9

    return f


def aio_machine(rng):
    return {
        "Bmax": 10 ** rng.uniform(8.3, 10.2),
        "L0": 10 ** rng.uniform(-4.1, -2.8),
        "c0": 10 ** rng.uniform(-5.4, -4.3),
        "core_bw": 10 ** rng.uniform(9.2, 10),
        "cores": int(rng.choice([2, 4, 8, 16])),
        "hwq": int(rng.choice([32, 64, 128, 256, 1024])),
        "iops": 10 ** rng.uniform(3.5, 6),
        "split": float(rng.choice([256 * K, 512 * K, 1 * M, 2 * M])),
        "split_pen": rng.uniform(0.005, 0.05),
        "ov": rng.uniform(0.4, 0.8),
        "ss_gain": rng.uniform(0.96, 1.03),
    }


# ---- oneCCL -----------------------------------------------------------
CCL = {
    "transport": ("cat", ["ofi", "mpi"]),
    "provider": ("cat", ["tcp", "shm", "verbs"]),
    "workers": ("log", [1, 2, 4, 8, 16]),
    "algo": ("cat", ["direct", "rabenseifner", "nreduce", "ring", "double_tree", "recursive_doubling", "2d"]),
    "affinity": ("cat", ["auto", "low", "high"]),
    "mnic": ("bool", [False, True]),
}
CCL_DEFAULT = ("ofi", "tcp", 1, "ring", "auto", False)


def ccl_truth(cores, ranks, nicbw, shmbw, lat, has_verbs, msg, aff_good, algo_fac, mpi_gain):
    def f(p):
        w = p["workers"]
        if p["provider"] == "verbs" and not has_verbs:
            return float("nan")
        if p["algo"] == "direct" and p["transport"] != "mpi":
            return float("nan")
        if p["algo"] == "2d" and ranks < 4:
            return float("nan")
        if p["algo"] == "nreduce" and p["transport"] == "mpi" and p["provider"] == "shm":
            return float("nan")
        if w * ranks > 2 * cores and p["affinity"] != "auto":
            return float("nan")  # hang: timeout
        steps = dict(
            direct=math.log2(ranks),
            rabenseifner=2 * math.log2(ranks),
            nreduce=ranks,
            ring=2 * (ranks - 1),
            double_tree=2 * math.log2(ranks),
            recursive_doubling=math.log2(ranks),
            **{"2d": 2 * math.sqrt(ranks)},
        )[p["algo"]]
        vol = dict(
            direct=2.0,
            rabenseifner=2.0,
            nreduce=2.4,
            ring=2 * (ranks - 1) / ranks,
            double_tree=2.0,
            recursive_doubling=math.log2(ranks) * 1.0,
            **{"2d": 2.1},
        )[p["algo"]]
        bw = {"tcp": nicbw, "shm": shmbw, "verbs": nicbw * 2.5}[p["provider"]]
        eff = 1 - math.exp(-w / 1.6)
        if p["transport"] == "mpi":
            eff = mpi_gain * (1 - math.exp(-(w + 0.8) / 1.6))
        if w * ranks > cores:
            eff *= 0.72 ** math.log2(w * ranks / cores)
        if p["affinity"] == aff_good:
            eff *= 1.09
        elif p["affinity"] != "auto":
            eff *= 0.8
        if p["mnic"]:
            eff *= 1.05 if p["provider"] == "tcp" and w >= 4 else 0.985
        t = lat * steps * (1.5 if p["transport"] == "ofi" and p["provider"] == "tcp" else 1) + msg * vol * algo_fac[
            p["algo"]
        ] / (bw * eff)
        return msg / t / 1e9

    return f


def ccl_machine(rng):
    algos = CCL["algo"][1]
    return {
        "cores": int(rng.choice([8, 16, 28, 56])),
        "ranks": int(rng.choice([2, 4, 8])),
        "nicbw": 10 ** rng.uniform(8.8, 10),
        "shmbw": 10 ** rng.uniform(9, 10.3),
        "lat": 10 ** rng.uniform(-5, -3.7),
        "has_verbs": bool(rng.random() < 0.4),
        "msg": float(2 ** rng.integers(18, 27)),
        "aff_good": str(rng.choice(["low", "high"])),
        "algo_fac": {a: float(rng.uniform(0.85, 1.3)) for a in algos},
        "mpi_gain": float(rng.uniform(0.85, 1.1)),
    }


# ---- thread pinning (xft) ----------------------------------------------
XFT = {
    "threads": ("int", [4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64]),
    "instances": ("log", [1, 2, 4]),
    "pin": ("cat", ["none", "compact", "scatter", "numactl"]),
    "membind": ("cat", ["local", "interleave", "none"]),
    "smt": ("bool", [False, True]),
    "hugepages": ("bool", [False, True]),
}
XFT_DEFAULT = (32, 1, "none", "none", False, False)


def xft_truth(phys, sockets, membw, flops, hp):
    def f(p):
        t, n = p["threads"], p["instances"]
        if t * n > 4 * phys * sockets:
            return float("nan")
        total = t * n
        use = min(total, phys * sockets)
        comp = use * flops * (total / use) ** -0.35
        spans = t > phys
        bwf = 1.0
        if spans and p["membind"] == "local":
            bwf = 0.55
        if n == 1 and not spans and p["membind"] != "interleave":
            bwf = 0.52 * (1.0 if p["membind"] == "local" else 0.97)
        if n == 1 and not spans and p["membind"] == "interleave":
            bwf = 0.75
        if n >= 2 and p["membind"] == "local" and p["pin"] in ("numactl", "compact"):
            bwf = 1.12
        if n >= 2 and p["pin"] == "none":
            bwf = 0.8
        bw = membw * bwf * (1 - math.exp(-total / (0.45 * phys * sockets)))
        y = (comp**-3 + bw**-3) ** (-1 / 3)
        if p["pin"] == "compact" and p["smt"] is False and total <= phys * sockets:
            y *= 1.03
        if p["pin"] == "scatter" and n > 1:
            y *= 0.85
        if p["smt"] and total > phys * sockets:
            y *= 1.05
        elif total > phys * sockets:
            y *= 0.6  # cliff
        if p["smt"] and total <= phys * sockets:
            y *= 0.9
        if p["hugepages"]:
            y *= hp
        return y * n**0.05

    return f


def xft_machine(rng):
    return {
        "phys": int(rng.choice([16, 24, 28, 32])),
        "sockets": 2,
        "membw": float(rng.uniform(60, 140)),
        "flops": float(rng.uniform(1.5, 4)),
        "hp": float(rng.uniform(0.99, 1.06)),
    }


# ---- Alluxio -----------------------------------------------------------
ALX = {
    "async_prefetch": ("bool", [False, True]),
    "passive_cache": ("bool", [False, True]),
    "threads": ("log", [1 << k for k in range(8)]),
    "part_len": ("log", [M << k for k in range(7)]),
    "parts": ("log", [1, 2, 4, 8, 16, 32]),
}
ALX_DEFAULT = (False, True, 16, 8 * M, 8)


def alx_truth(netbw, rtt, cpus, memcap, cache_gain, pf):
    def f(p):
        t, L, n = p["threads"], p["part_len"], p["parts"]
        if t * L * n > memcap:
            return float("nan")
        X = min(t, 4 * cpus) * L * min(n, 8 if not p["async_prefetch"] else 32) ** 0.7
        bw = netbw * (1 - math.exp(-X / (netbw * (rtt + L / (netbw / 3)) * 1.2)))
        if t > 2 * cpus:
            bw *= 1 - 0.08 * math.log2(t / (2 * cpus))
        if p["async_prefetch"]:
            bw *= pf if n * L >= 32 * M else 0.93
        if p["passive_cache"]:
            bw *= cache_gain
        if L >= 32 * M:
            bw *= 0.95
        return bw / 1e9

    return f


def alx_machine(rng):
    return {
        "netbw": 10 ** rng.uniform(8.5, 9.8),
        "rtt": 10 ** rng.uniform(-2.5, -1.2),
        "cpus": int(rng.choice([2, 4, 8, 16])),
        "memcap": float(2 ** rng.integers(32, 35)),
        "cache_gain": float(rng.uniform(0.9, 1.15)),
        "pf": float(rng.uniform(1.0, 1.25)),
    }


def best_of(shape, truth):
    names = list(shape)
    best, found = -1.0, None
    for values in itertools.product(*[values for _, values in shape.values()]):
        y = truth(dict(zip(names, values, strict=True)))
        if not math.isnan(y) and y > best:
            best, found = y, dict(zip(names, values, strict=True))
    return found


def priors_for(shape, truth_of, machine, seed, count=4) -> list[Config]:
    """What was best on ``count`` random machines of the same kind: a table of known good settings, right or wrong here."""
    rng = np.random.default_rng(seed)
    found: list[Config] = []
    while len(found) < count:
        config = best_of(shape, truth_of(**machine(rng)))
        if config not in found:
            found.append(config)
    return found


@cache
def reference() -> list[Surface]:
    aio, ccl, xft, alx = (
        space_of(AIO, AIO_DEFAULT),
        space_of(CCL, CCL_DEFAULT),
        space_of(XFT, XFT_DEFAULT),
        space_of(ALX, ALX_DEFAULT),
    )
    known = priors_for(AIO, aio_truth, aio_machine, 101)
    factors = {
        "direct": 1.05,
        "rabenseifner": 1.0,
        "nreduce": 0.93,
        "ring": 1.1,
        "double_tree": 1.2,
        "recursive_doubling": 0.98,
    }
    factors["2d"] = 1.15
    return [
        Surface("aio-nvme", aio, aio_truth(6.5e9, 1.3e-4, 1.2e-5, 1.9e9, 8, 128, 4e5, 1 * M, 0.03, 0.55, 0.985), 0.03, known),
        Surface("aio-cloud", aio, aio_truth(0.26e9, 4e-3, 2.5e-5, 1.5e9, 2, 32, 1.2e3, 512 * K, 0.02, 0.6, 1.01), 0.08, known),
        Surface("aio-raid", aio, aio_truth(24e9, 4e-4, 3e-5, 2.4e9, 16, 256, 1.5e6, 2 * M, 0.05, 0.5, 0.97), 0.05, known),
        Surface(
            "oneccl",
            ccl,
            ccl_truth(16, 4, 2.4e9, 7e9, 4e-5, False, 16e6, "high", factors, 1.0),
            0.05,
            priors_for(CCL, ccl_truth, ccl_machine, 202),
        ),
        Surface("xft-pin", xft, xft_truth(24, 2, 100.0, 2.6, 1.03), 0.025, priors_for(XFT, xft_truth, xft_machine, 303)),
        Surface(
            "alluxio", alx, alx_truth(1.1e9, 1.8e-2, 4, 6e9, 0.97, 1.16), 0.07, priors_for(ALX, alx_truth, alx_machine, 404)
        ),
    ]


def ds_grid() -> list[dict[str, Any]]:
    """ds_nvme_tune's 64 default settings in its order, as settings of AIO."""
    names = list(AIO)
    found = []
    for block, depth, sequential, single, threads in itertools.product(
        (1 * M, 8 * M), (32, 128), (True, False), (False, True), (1, 2, 4, 8)
    ):
        found.append(dict(zip(names, (block, depth, threads, single, not sequential), strict=True)))
    return found
