from __future__ import annotations

import pytest

from tuner.cli.app import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tcpstore", "--hosts", ""], "--hosts '': the value is empty"),
        (["tcpstore", "--hosts="], "--hosts '': the value is empty"),
        (["studies", "--storage", ""], "--storage '': the value is empty"),
        (["tcpstore", "--world-size", "abc"], "--world-size abc: must be a whole number"),
        (["tcpstore", "--world-size=1.5"], "--world-size 1.5: must be a whole number"),
        (["aio", "--device", "/", "--min-gain", "much"], "--min-gain much: must be a number"),
        (["verify", "x", "--rounds", "3000"], "--rounds 3000: must be less than or equal to 200"),
        (["tcpstore", "--launch", "slurm"], "'slurm' is not one of"),
        (["verify", "x", "--rounds"], "requires an argument"),
        (["export", "x", "-o", "no such/"], "-o no such/: there is no such folder\n      mkdir -p 'no such/'"),
        (["compare", "aio", "--output=nowhere/"], "--output nowhere/: there is no such folder"),
    ],
)
def test_words_that_cannot_be_used_are_named_with_what_would_be_right(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert said in capsys.readouterr().err
