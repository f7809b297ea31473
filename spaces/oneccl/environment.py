"""The environment variables of a setting; what is measured and what is emitted both come from here."""

from __future__ import annotations

from dataclasses import dataclass

from spaces.oneccl.knobs import DEFAULTS, PINNING, PROVIDER_NAMES, SIZE_CLASSES, variable_of
from spaces.space import Config


@dataclass(frozen=True, slots=True)
class Assigned:
    """One environment variable of a setting, and the knobs that it comes from."""

    name: str
    value: str
    knobs: tuple[str, ...]


def variables(collective: str) -> tuple[str, ...]:
    """All variables that settings of a collective can set."""
    return (
        "CCL_ATL_TRANSPORT", "FI_PROVIDER", "I_MPI_OFI_PROVIDER", "CCL_ATL_SHM", "I_MPI_FABRICS", "CCL_WORKER_OFFLOAD",
        "CCL_WORKER_COUNT", "CCL_YIELD", "CCL_SPIN_COUNT", variable_of(collective), "CCL_CHUNK_COUNT", "CCL_RS_CHUNK_COUNT",
        "CCL_ALLREDUCE_2D_CHUNK_COUNT", "CCL_FUSION", "I_MPI_PIN", "I_MPI_PIN_DOMAIN", "CCL_MNIC",
    )  # fmt: skip


def transport_of(config: Config, default: str = "mpi") -> str:
    """mpi or ofi, where ``default`` is what oneCCL takes by itself."""
    return default if config["transport"] == "default" else str(config["transport"])


def algorithm_table(config: Config, collective: str = "allreduce") -> str:
    """The value of the collective's variable, as ``ring:0-16384;2d:1048577-max``; "" where no size has an algorithm set.

    Sizes that no range names keep oneCCL's own choice. A barrier has no sizes: its algorithm is that of small messages.
    """
    if collective == "barrier":
        algorithm = str(config["algorithm_small"])
        return "" if algorithm == "default" else algorithm
    ranges: list[tuple[str, int, int | None]] = []
    for knob, first, last in SIZE_CLASSES:
        algorithm = str(config[knob])
        if algorithm == "default":
            continue
        if ranges and ranges[-1][0] == algorithm and ranges[-1][2] == first - 1:
            ranges[-1] = (algorithm, ranges[-1][1], last)
        else:
            ranges.append((algorithm, first, last))
    return ";".join(f"{algorithm}:{first}-{'max' if last is None else last}" for algorithm, first, last in ranges)


def assigned(config: Config, collective: str = "allreduce", default_transport: str = "mpi") -> tuple[Assigned, ...]:
    """The variables of a setting; a knob at its default sets none."""
    found: list[Assigned] = []

    def put(name: str, value: str, *knobs: str) -> None:
        found.append(Assigned(name, value, knobs))

    if config["transport"] != "default":
        put("CCL_ATL_TRANSPORT", str(config["transport"]), "transport")
    if config["provider"] != "default":
        name = PROVIDER_NAMES.get(str(config["provider"]), str(config["provider"]))
        put("FI_PROVIDER", name, "provider")
        if transport_of(config, default_transport) == "mpi":
            put("I_MPI_OFI_PROVIDER", name, "provider")
    if config["shm"]:
        put("CCL_ATL_SHM", "1", "shm")
    if config["fabrics"] != "default":
        put("I_MPI_FABRICS", str(config["fabrics"]), "fabrics")
    for knob, name in (("worker_offload", "CCL_WORKER_OFFLOAD"), ("worker_count", "CCL_WORKER_COUNT"), ("yield", "CCL_YIELD"),
                       ("spin_count", "CCL_SPIN_COUNT")):  # fmt: skip
        if config[knob] != DEFAULTS[knob]:
            put(name, str(config[knob]), knob)
    if table := algorithm_table(config, collective):
        put(variable_of(collective), table, *(knob for knob, _, _ in SIZE_CLASSES if config[knob] != "default"))
    if config["chunk_count"] != 1:
        names = ["CCL_CHUNK_COUNT", "CCL_RS_CHUNK_COUNT"]
        if collective == "allreduce" and "2d" in algorithms(config):
            names.append("CCL_ALLREDUCE_2D_CHUNK_COUNT")
        for name in names:
            put(name, str(config["chunk_count"]), "chunk_count")
    if config["fusion"]:
        put("CCL_FUSION", "1", "fusion")
    if config["pinning"] != "default":
        put(*PINNING[str(config["pinning"])], "pinning")
    if config["mnic"] != "none":
        put("CCL_MNIC", str(config["mnic"]), "mnic")
    return tuple(found)


def environment(config: Config, collective: str = "allreduce", default_transport: str = "mpi") -> dict[str, str]:
    """The environment variables of a setting, by name; those of SPACE.default are none."""
    return {each.name: each.value for each in assigned(config, collective, default_transport)}


def interface_environment(iface: str, config: Config) -> dict[str, str]:
    """The variables that keep a job on the network interface ``iface``; none where it is ""."""
    if not iface:
        return {}
    named = {"CCL_KVS_IFACE": iface}
    if config["provider"] == "verbs":
        return {**named, "FI_VERBS_IFACE": iface}
    return {**named, "FI_TCP_IFACE": iface} if config["provider"] in ("default", "tcp") else named


def algorithms(config: Config) -> set[str]:
    """What the three classes of sizes have, "default" among it."""
    return {str(config[knob]) for knob, _, _ in SIZE_CLASSES}
