"""Settings that were good on other machines: the user's own proven ones first, then a packaged table with sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from runners.runner import Json
from spaces.space import Config, Value

# Each wrong one costs a measurement.
_MOST = 4
_MOST_OF_ALL = 8


def packaged(target: str, facts: Mapping[str, Json]) -> list[Config]:
    """At most four known good settings of ``target``, those of devices like the one in ``facts`` first; [] for other targets.

    They may be illegal on this machine: the search passes those over.
    """
    kinds = _kinds(facts)
    rows = sorted(_table().get(target, ()), key=lambda row: row["device"] not in kinds)
    return _distinct(row["config"] for row in rows)[:_MOST]


def merge(user: Sequence[Config], packaged: Sequence[Config]) -> list[Config]:
    """``user``'s proven settings, then ``packaged`` ones, each once, eight in all."""
    return _distinct([*user, *packaged])[:_MOST_OF_ALL]


def _distinct(configs: Any) -> list[Config]:
    found: dict[tuple[tuple[str, Value], ...], Config] = {}
    for config in configs:
        found.setdefault(tuple(sorted(config.items())), dict(config))
    return list(found.values())


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    import yaml

    text = Path(__file__).with_name("priors.yaml").read_text(encoding="utf-8")
    return cast("dict[str, list[dict[str, Any]]]", yaml.safe_load(text))


def _kinds(facts: Mapping[str, Json]) -> set[str]:
    """Device classes of the table that the machine's devices belong to."""
    kinds: set[str] = set()
    devices = facts.get("devices")
    for device in devices if isinstance(devices, list) else []:
        if isinstance(device, dict):
            transport = str(device.get("transport") or "").lower()
            model = str(device.get("model") or "").lower()
            kinds.add("raid" if "raid" in (transport + model) or transport in ("md", "dm") else transport)
    return kinds
