"""What a job and its hosts allow, which settings are the same in effect, and which of equal ones takes least."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from spaces import oneccl
from spaces.space import Config, Domain, Knob, Rule, Space, Value
from spaces.xft.environment import XFT, Software, assigned, ccl, runtime
from spaces.xft.knobs import CCL, DEFAULTS, PLACEMENT, XFT_ONLY


@dataclass(frozen=True, slots=True)
class Limits:
    """The job, and what its hosts allow; None is not known and rules nothing out.

    ``placed`` tells of a setting's placement knobs what comes of them, as something that equals that of other settings with
    the same effect, or why it can't be: a sentence. ``spare`` counts the cores that each rank leaves free then, ``cost`` says
    what the placement takes.
    ``refused`` gives for each knob's value that can't be had here the reason, as a sentence; ``idle`` values do nothing here.
    """

    software: Software = XFT
    hosts: int | None = None
    experts: bool | None = None
    input: int | None = None
    batch: int | None = None
    fp8: bool | None = None
    placed: Callable[[Config], object | str] | None = None
    spare: Callable[[Config], int] | None = None
    cost: Callable[[Config], float] | None = None
    refused: Mapping[tuple[str, Value], str] = field(default_factory=dict)
    idle: frozenset[tuple[str, Value]] = frozenset()


_LONG_PROMPT = 8192  # FLASH_ATTN_THRESHOLD by default
_CACHED_ROWS = 256  # XFT_PRIMITIVE_CACHE_M by default


def cost(config: Config, limits: Limits) -> float:
    """What a setting takes from the machine and to carry about: cores, then ranks, then variables."""
    spins = config["wait_policy"] == "active" or config["spin_count"] == "100000"
    workers = 0 if config["worker_offload"] == "0" else int(config["worker_count"])
    small = 0.01 * len(assigned(config, limits.software)) + 0.004 * spins + 0.001 * workers
    if limits.cost is not None:
        return limits.cost(config) + small
    # Where hosts are not known a count that is named stands for itself, and 0 for all that there is.
    ranks, threads = int(config["ranks"]) or 16, int(config["threads"]) or 128
    return (
        ranks * threads * (2 if config["siblings"] == "both" else 1) + 0.1 * ranks - 0.2 * int(config["spare_cores"]) + small
    )


def rules(limits: Limits) -> tuple[Rule, ...]:
    """What must hold before a setting is started; the rest only a run can tell."""

    def available(config: Config) -> str | None:
        reasons = (limits.refused.get((name, value)) for name, value in config.items())
        return next((reason for reason in reasons if reason is not None), None)

    def fits(config: Config) -> str | None:
        if limits.placed is None:
            return None
        placed = limits.placed(config)
        return placed if isinstance(placed, str) else None

    def spare(config: Config) -> str | None:
        if config["threads"] and config["spare_cores"]:
            return f"{config['threads']} threads are named, so that spare_cores has nothing to leave; name one of the two"
        return None

    def waits(config: Config) -> str | None:
        if config["wait_policy"] != "default" and (config["spin_count"] != "default" or config["blocktime"] != "default"):
            return "wait_policy and spin_count or blocktime say the same thing twice; name one of them"
        return None

    def understood(config: Config) -> str | None:
        have = runtime(config, limits.software)
        if have == "iomp5" and config["spin_count"] != "default":
            return "spin_count is libgomp's, and these ranks have libiomp5; blocktime is the same there"
        if have == "gomp" and config["blocktime"] != "default":
            return "blocktime is libiomp5's, and these ranks have libgomp; spin_count is the same there"
        return None

    def apart(config: Config) -> str | None:
        """Named workers need cores that nobody computes on; oneCCL's own default is left as the baseline has it."""
        count = int(config["worker_count"])
        named = config["worker_offload"] == "1" or count > 1
        if config["worker_offload"] == "0" or not named or limits.spare is None or limits.spare(config) >= count:
            return None
        workers = "1 communication worker" if count == 1 else f"{count} communication workers"
        return f"{workers} a rank would share the cores that compute; spare_cores {count} keeps them off"

    shared = oneccl.rules(oneccl.Limits(hosts=limits.hosts)) if limits.software.ccl else ()
    return (
        *(Rule(rule.name, partial(_of_ccl, rule)) for rule in shared),
        Rule("the hosts have it", available),
        Rule("threads or spare cores", spare),
        Rule("one way to wait", waits),
        Rule("the OpenMP runtime reads it", understood),
        Rule("communication workers off the compute cores", apart),
        Rule("the layout fits", fits),
    )


def _of_ccl(rule: Rule, config: Config) -> str | None:
    """What a rule of `tune oneccl` says."""
    return rule.broken(ccl(config))


def for_job(space: Space, limits: Limits) -> Space:
    """``space`` (narrowed or not) with the rules of ``limits``, settings that are the same in effect folded, and the cost.

    Values that nothing here reads leave a knob's domain as long as others remain, so that a search draws none of them.
    """
    software = limits.software

    def preferred(name: str) -> Value:
        knob = space[name]
        return knob.default if knob.default in knob.domain.values else knob.domain.values[0]

    def canonical(config: Config) -> Config:
        folded = dict(config)

        def idle(*names: str) -> None:
            folded.update({name: preferred(name) for name in names})

        if folded["threads"] and folded["spare_cores"] and 0 in space["spare_cores"].domain.values:
            folded["spare_cores"] = 0
        if folded["openmp"] == software.openmp and preferred("openmp") == "default":
            folded["openmp"] = "default"
        idle("blocktime" if runtime(folded, software) == "gomp" else "spin_count")
        if limits.hosts is not None and limits.hosts > 1:
            idle("allreduce")  # across hosts there is oneCCL alone
        if limits.hosts == 1:
            idle("provider")  # within a host MPI takes shared memory
        if folded["spin_count"] != "default" or folded["blocktime"] != "default":
            idle("wait_policy")
        if limits.input is not None:
            long = limits.input > _LONG_PROMPT
            if folded["flash_attention"] == ("on" if long else "off"):
                idle("flash_attention")
        if folded["worker_offload"] == "0":
            idle("worker_count", "yield")
        if limits.placed is not None:
            folded = _folded_placement(folded, space, limits.placed)
        return folded

    def costs(config: Config) -> float:
        return cost(config, limits)

    knobs = tuple(_possible(knob, limits) for knob in space.knobs)
    return replace(space, knobs=knobs, rules=rules(limits), canonical=canonical, cost=costs)


def _folded_placement(config: dict[str, Value], space: Space, placed: Callable[[Config], object | str]) -> dict[str, Value]:
    """``config`` with each placement knob at the first value, its default before all, that comes to the same."""
    own = placed(config)
    if isinstance(own, str):
        return config
    for name in reversed(PLACEMENT):
        knob = space[name]
        for value in sorted(knob.domain.values, key=lambda value: value != knob.default):
            if value == config[name]:
                break
            if placed({**config, name: value}) == own:
                config = {**config, name: value}
                break
    return config


def _possible(knob: Knob, limits: Limits) -> Knob:
    """``knob`` without the values that nothing reads in this job, unless none would be left."""

    def can(value: Value) -> bool:
        if value == DEFAULTS[knob.name]:
            return True
        if (knob.name, value) in limits.refused or (knob.name, value) in limits.idle:
            return False
        software = limits.software
        if knob.name in XFT_ONLY and software.engine != "xft":
            return False
        if knob.name in CCL and not software.ccl:
            return False
        if knob.name == "openmp" and value == "iomp5" and not software.iomp5:
            return False
        if knob.name in ("moe_engine", "moe_balance") and limits.experts is False:
            return False
        if knob.name == "n64" and limits.experts is False and limits.fp8 is False:
            return False
        return not (knob.name == "primitive_cache" and limits.batch is not None and limits.batch <= _CACHED_ROWS)

    kept = tuple(value for value in knob.domain.values if can(value))
    return replace(knob, domain=Domain(knob.domain.kind, kept)) if kept else knob
