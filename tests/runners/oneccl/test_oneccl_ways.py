"""A way between ranks that hangs is not paid for twice; other failures hold nothing against it."""

from runners.oneccl.failures import NO_PROVIDER
from runners.oneccl.warm import NOT_TOGETHER
from runners.oneccl.ways import Ways
from runners.runner import Failure
from spaces.oneccl import SPACE

BASE = SPACE.default
OFI = {**BASE, "transport": "ofi"}
HUNG = Failure("timeout", f"{NOT_TOGETHER} within 20 s: CCL_ATL_TRANSPORT=ofi", "a log", 20.0)


def test_a_hang_ends_its_way_for_all_other_knobs() -> None:
    ways = Ways(BASE)
    ways.learn(OFI, HUNG)
    known = ways.known({**OFI, "yield": "sleep", "algorithm_small": "ring"})
    assert known == Failure("timeout", HUNG.reason), "at once, it takes no time"
    assert ways.known({**OFI, "shm": True}) is None
    assert ways.known(BASE) is None


def test_so_does_a_provider_that_does_not_start() -> None:
    ways = Ways(BASE)
    psm3 = {**BASE, "provider": "psm3"}
    ways.learn(psm3, Failure("infeasible", f"{NO_PROVIDER} psm3 can't be started here: no data"))
    known = ways.known({**psm3, "worker_count": 2})
    assert known is not None
    assert known.kind == "infeasible"


def test_nothing_is_held_against_the_baselines_way_nor_by_other_failures() -> None:
    ways = Ways(BASE)
    ways.learn(BASE, HUNG)
    ways.learn(OFI, Failure("crash", "rank 1 was ended by SIGSEGV"))
    ways.learn(OFI, Failure("timeout", "rank 0 on a gave no answer within 20.0 s"))
    ways.learn(OFI, Failure("infeasible", "oneCCL refuses the setting: the number of workers"))
    assert ways.known(BASE) is None
    assert ways.known(OFI) is None
