"""All that a layout is made from, as data that a study keeps: with it, files for any of its settings can be written later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runners.runner import Json
from runners.topology import Topology
from runners.topology.record import BadRecord, record, topology
from runners.xft.layout import Layout, lay_out
from runners.xft.model import Demand, ModelShape
from spaces.space import Config
from spaces.xft import Software


class BadPlan(ValueError):
    """Data that is no plan; the message is the end of a sentence."""


@dataclass(frozen=True)
class Plan:
    """``topologies`` by host in the order of ranks, what the model takes, and the software that computes."""

    topologies: Mapping[str, Topology]
    demand: Demand
    software: Software

    def layout(self, config: Config) -> Layout | str:
        """Every rank of a setting, or why it can't be: a sentence."""
        return lay_out(config, self.topologies, self.demand, self.software)

    def json(self) -> dict[str, Json]:
        """For a runner's facts (under "plan"): no reading of the moment is in it."""
        return {
            "hosts": [{"name": name, "topology": record(host)} for name, host in self.topologies.items()],
            "demand": asdict(self.demand),
            "software": asdict(self.software),
        }

    @classmethod
    def of_json(cls, told: Any) -> Plan:
        """Raises BadPlan."""
        try:
            demand = {**told["demand"], "shape": ModelShape(**told["demand"]["shape"])}
            topologies = {str(each["name"]): topology(each["topology"]) for each in told["hosts"]}
            found = cls(topologies, Demand(**demand), Software(**told["software"]))
        except BadRecord as error:
            raise BadPlan(f"a host's topology can't be read: {error}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise BadPlan(f"{type(error).__name__}: {error}") from None
        if not topologies:
            raise BadPlan("it has no host")
        return found
