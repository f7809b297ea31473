"""The decoder of the engine torch: any number of ranks computes the same model, and each rank's program runs from text."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.xft.engines.sending import command, program
from runners.xft.engines.torch_shares import UNIT, Share, part

torch = pytest.importorskip("torch")

SHAPE = {
    "hidden": 96,
    "heads": 6,
    "kv_heads": 6,
    "head_size": 16,
    "inner": 5 * UNIT,
    "gated": True,
    "layers": 2,
    "vocabulary": 1500,
}


@given(count=st.integers(1, 300), ranks=st.integers(1, 40))
def test_parts_hold_everything_once_and_differ_by_one_at_most(count: int, ranks: int) -> None:
    parts = [part(count, ranks, rank) for rank in range(ranks)]
    assert [each for one in parts for each in one] == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(kv=st.integers(1, 16), group=st.integers(1, 8), ranks=st.integers(1, 16))
def test_every_query_head_finds_its_key_head(kv: int, group: int, ranks: int) -> None:
    shape = {**SHAPE, "heads": kv * group, "kv_heads": kv}
    if ranks > shape["heads"]:
        return
    for rank in range(ranks):
        share = Share(shape, ranks, rank)
        assert [share.kv_heads[place] for place in share.reads] == [head // group for head in share.heads]
        assert len(share.kv_heads) <= len(share.heads)


class Sums:
    """Sums over ranks that are threads here."""

    def __init__(self, ranks: int) -> None:
        self._barrier = threading.Barrier(ranks)
        self._parts: dict[int, Any] = {}

    def of(self, rank: int) -> Any:
        def add_up(tensor: Any) -> None:
            self._parts[rank] = tensor.clone()
            self._barrier.wait(60)
            whole = sum(self._parts[number] for number in sorted(self._parts))
            self._barrier.wait(60)
            tensor.copy_(whole)
            self._barrier.wait(60)

        return add_up


def words(shape: dict[str, Any], ranks: int, count: int = 4) -> tuple[list[list[int]], list[float]]:
    """What rank 0 says, after two prompts of five words: each request's next words, and the scores of the first ones."""
    from runners.xft.engines.torch_decoder import Decoder

    sums, said = Sums(ranks), {}

    def work(rank: int) -> None:
        decoder = Decoder(shape, ranks, rank, "fp32", 2, 5 + count, sums.of(rank))
        prompt = torch.arange(10).view(2, 5) * 7
        with torch.inference_mode():
            following, scores = decoder.step(prompt, 0)
            found, at = [following.tolist()], 5
            for _ in range(count - 1):
                following, _ = decoder.step(following, at)
                found.append(following.tolist())
                at += 1
        said[rank] = (found, scores.tolist())

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(said) == ranks
    assert all(each == said[0] for each in said.values()), "all ranks go on with the same words"
    return said[0]


@pytest.mark.parametrize(
    "shape",
    [SHAPE, {**SHAPE, "kv_heads": 2}, {**SHAPE, "kv_heads": 1, "gated": False}],
    ids=["every head its own", "grouped heads", "one key head, no gate"],
)
def test_any_number_of_ranks_computes_the_same_model(shape: dict[str, Any]) -> None:
    alone, scores = words(shape, 1)
    assert len({tuple(map(tuple, each)) for each in alone}) > 1, "it says something"
    for ranks in (2, 4):  # of six heads and five parts of the MLP four ranks have uneven ones
        again, same = words(shape, ranks)
        assert same == pytest.approx(scores, rel=1e-4)
        assert again == alone


def test_steps_after_a_prompt_are_what_the_whole_prompt_gives() -> None:
    """The cache of keys and values: one word after the other comes to the same as all at once."""
    from runners.xft.engines.torch_decoder import Decoder

    prompt = torch.arange(6).view(1, 6) * 11
    whole = Decoder(SHAPE, 1, 0, "fp32", 1, 8, lambda _: None)
    step = Decoder(SHAPE, 1, 0, "fp32", 1, 8, lambda _: None)
    with torch.inference_mode():
        _, at_once = whole.step(prompt, 0)
        step.step(prompt[:, :3], 0)
        for at in range(3, 6):
            _, one_by_one = step.step(prompt[:, at : at + 1], at)
    assert one_by_one.tolist() == pytest.approx(at_once.tolist(), rel=1e-4)


def test_programs_are_sent_without_importing_what_they_need() -> None:
    code = (
        "import sys; from runners.xft.engines.warm import _MODULES; from runners.xft.engines.sending import program;"
        "print(len(program(_MODULES)), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    size, imported = done.stdout.split()
    assert imported == "False"
    assert int(size) < 40_000, "each rank's words go into one command line"


def test_a_sent_program_runs_its_last_module_and_finds_the_others() -> None:
    words = command(sys.executable, ("runners.topology.probe", "runners.xft.engines.live", "runners.xft.engines.placing"))
    assert subprocess.run(words, capture_output=True, check=False, cwd="/").returncode == 0
    assert "'" not in program(("runners.xft.engines.placing",)), "shells quote with it"
