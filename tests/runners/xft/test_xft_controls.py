"""One thread and one socket alone: laid out where that says something, measured once, and compared with every setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.sysfs import SHAPES, topology

from runners.runner import Failure
from runners.xft import controls
from runners.xft.engines.engine import Run
from runners.xft.goal import Goal, Request
from runners.xft.known_models import KNOWN
from runners.xft.layout import Layout, RankPlace
from runners.xft.model import Demand
from runners.xft.plan import Plan
from runners.xft.seats import Memory
from spaces.xft import Software

NEXT, RATE = Goal(1, 32, 32, "next-token"), Goal(1, 32, 32, "throughput")


class Engine:
    """Takes milliseconds by the number of threads, or fails."""

    def __init__(self, times: dict[int, Any], refusal: str = "") -> None:
        self.times, self.refusal = times, refusal
        self.seen: list[Layout] = []

    def refuses(self, _layout: Layout) -> str:
        return self.refusal

    def measure(self, layout: Layout, _limit: float) -> Run | Failure:
        self.seen.append(layout)
        taken = self.times[sum(rank.threads for rank in layout.ranks)]
        return taken if isinstance(taken, Failure) else Run((Request(100.0, (taken, taken)),), (), (3.5,))


def plan(tmp_path: Path, *shapes: str) -> Plan:
    hosts = {f"h{number}": topology(tmp_path / f"h{number}", SHAPES[shape]) for number, shape in enumerate(shapes)}
    return Plan(hosts, Demand(KNOWN["llama-2-7b"], "bf16"), Software("torch", "gomp"))


def test_both_are_on_the_first_host_alone(tmp_path: Path) -> None:
    engine: Any = Engine({1: 40.0, 48: 8.0})
    found = controls.measure(engine, NEXT, plan(tmp_path, "quad", "quad"))
    assert [(layout.hosts, len(layout.ranks)) for layout in engine.seen] == [(("h0",), 1), (("h0",), 1)]
    assert found.values == {"one_thread": 40.0, "one_socket": 8.0}
    assert found.digest == (3.5,)
    socket = engine.seen[1].ranks[0]
    assert (len(socket.cpus), socket.memory.nodes) == (48, (0,))


def test_a_control_that_says_nothing_new_or_cannot_be_is_told_why(tmp_path: Path) -> None:
    engine: Any = Engine({1: Failure("timeout", "late")})
    found = controls.measure(engine, NEXT, plan(tmp_path, "small"))
    assert found.json() == {"one_thread": "timeout: late", "one_socket": "it is what the scripts choose: the baseline"}
    refused: Any = Engine({}, "no heads left")
    assert set(controls.measure(refused, NEXT, plan(tmp_path / "x", "quad")).failed.values()) == {"no heads left"}


OTHER = Layout((RankPlace(0, "h0", 0, (0, 1), 2, Memory(), {}),))
SAME = Layout((RankPlace(0, "h0", 0, (0,), 1, Memory(), {"OMP_WAIT_POLICY": "passive"}),))


@pytest.mark.parametrize(
    ("goal", "value", "said"),
    [
        (NEXT, 10.0, ""),
        (NEXT, 39.0, "one thread alone did as well, measured once before the search: 40 ms against 39"),
        (NEXT, 41.0, "one thread alone did as well, measured once before the search: 40 ms against 41"),
        (NEXT, 80.0, "one thread alone was better, measured once before the search: 40 ms against 80"),
        (RATE, 20.0, "one thread alone was better, measured once before the search: 40 tokens/s against 20"),
        (RATE, 80.0, ""),
    ],
)
def test_a_setting_that_one_thread_beats_is_told_so(goal: Goal, value: float, said: str) -> None:
    found = controls.Controls({"one_thread": 40.0}, {"one_thread": (("h0", (0,)),)})
    assert found.against(value, goal, OTHER) == ([said] if said else [])
    assert found.against(value, goal, SAME) == [], "it is that control, at another time"
