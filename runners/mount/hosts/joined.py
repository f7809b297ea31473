"""What several hosts measured at the same time, as one figure; and what all of them allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from runners.runner import Failure, FailureKind, Json, Measurement, Outcome

# Rates add up over hosts; of these the host that is worst off counts, of all others the mean does.
_RATES = ("_mib_s", "_s")
_LEAST = ("utilisation",)
# A host that gets less than this of what the best one gets is worth a word.
_EVEN = 0.7
_LEAST_LIMITS = frozenset(("memory", "present", "fusectl"))
_MOST_LIMITS = frozenset(("largest", "file_size", "open_files"))
_CAUSES: tuple[FailureKind, ...] = ("environment", "wrong", "crash", "timeout", "infeasible")


def outcome(told: Mapping[str, Outcome], metric: str) -> Outcome:
    """One for all hosts, by their names: a failure where one of them has none to give, the likeliest cause first."""
    failures = {host: each for host, each in told.items() if isinstance(each, Failure)}
    if failures:
        host, first = min(failures.items(), key=lambda item: _CAUSES.index(item[1].kind))
        written = sum(each.bytes_written for each in told.values())
        return Failure(first.kind, named(host, first.reason), first.log, first.seconds, written)
    measured = {host: each for host, each in told.items() if isinstance(each, Measurement)}
    metrics = {name: _joined(name, [each.metrics.get(name, 0.0) for each in measured.values()]) for name in _names(measured)}
    return Measurement(
        metrics,
        (metrics[metric],),
        max(each.seconds for each in measured.values()),
        sum(each.bytes_written for each in measured.values()),
        _evidence(measured, metric),
    )


def outcome_of(answer: Mapping[str, Any]) -> Outcome:
    """What a host's program said of a measurement."""
    try:
        told = dict(answer["outcome"])
        if answer["failed"]:
            return Failure(**told)
        return Measurement(**{**told, "samples": tuple(told["samples"])})
    except (KeyError, TypeError):
        return Failure("environment", f"what it answers is not understood: {str(answer)[:80]}")


def named(host: str, sentence: str) -> str:
    return sentence if sentence.startswith(f"{host}: ") else f"{host}: {sentence}"


def _names(measured: Mapping[str, Measurement]) -> list[str]:
    """What every host has measured."""
    first, *others = measured.values()
    return [name for name in first.metrics if all(name in each.metrics for each in others)]


def _joined(name: str, values: Sequence[float]) -> float:
    if name in _LEAST:
        return min(values)
    return sum(values) if name.endswith(_RATES) and not name.startswith("first_step") else fmean(values)


def _evidence(measured: Mapping[str, Measurement], metric: str) -> dict[str, Json]:
    each = {host: one.evidence for host, one in measured.items()}
    first = next(iter(each.values()))
    hosts: dict[str, Json] = {
        host: {"metrics": dict(one.metrics), **{k: v for k, v in one.evidence.items() if k not in ("warnings", "live")}}
        for host, one in measured.items()
    }
    keeps = [str(one.get("keep") or "") for one in each.values()]
    warnings = _said({host: one.get("warnings") or [] for host, one in each.items()})
    figures = {host: one.metrics[metric] for host, one in measured.items()}
    slowest, best = min(figures, key=lambda host: figures[host]), max(figures.values())
    if figures[slowest] < _EVEN * best:
        warnings.append(f"{slowest} gets {figures[slowest] / best:.2f} times what the best host gets: the figure is their sum")
    read, left = (sum(int(str(one.get(name) or 0)) for one in each.values()) for name in ("bytes_read", "bytes_from_store"))
    return {
        "live": first.get("live"),
        "bytes_read": read,
        "bytes_from_store": left,
        "fetched_for_each_byte_read": round(left / read, 3) if read else None,
        "hosts": hosts,
        "warnings": list(warnings),
        **({"keep": "; ".join(dict.fromkeys(keeps))} if all(keeps) else {}),
    }


def _said(warnings: Mapping[str, Any]) -> list[str]:
    """What all hosts say, once; what some say, with their names."""
    found: dict[str, list[str]] = {}
    for host, sentences in warnings.items():
        for sentence in sentences if isinstance(sentences, list) else ():
            found.setdefault(str(sentence), []).append(host)
    return [
        sentence if len(hosts) == len(warnings) else f"{', '.join(hosts)}: {sentence}" for sentence, hosts in found.items()
    ]


def limits(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What holds on every host: the least memory, the most open files, the largest one (None: not known), else the first's."""
    found = dict(told[0])
    for names, choose in ((_LEAST_LIMITS, min), (_MOST_LIMITS, max)):
        for name in found.keys() & names:
            known = [each[name] for each in told if each[name] is not None]
            found[name] = choose(known) if known else None
    return found
