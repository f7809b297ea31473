"""What may be asked of every run: refused with the option, the value and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.database import check_storage
from tuner.errors import WrongUsage
from tuner.request import Request, check


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (Request(seed=-1), "--seed -1"),
        (Request(study="a\nb"), "--study 'a\\nb'"),
        (Request(study="x" * 201), "--study 'xxx"),
        (Request(study="-x"), "--study '-x'"),
        (Request(study="  "), "--study '  '"),
        (Request(trials=0), "--trials 0"),
        (Request(time="soon"), "--time soon"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(request_: Request, told: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        check(request_)
    assert told in caught.value.message
    assert len(caught.value.message) < 400


def test_ordinary_names_pass() -> None:
    check(Request(study="aio-20260131 größer", seed=0))


def test_a_storage_that_is_none_is_refused_before_anything_is_looked_at(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    with pytest.raises(WrongUsage, match="is not a SQLite file"):
        check_storage(str(other))
    assert other.read_text() == "mine"
    check_storage("postgresql://u:p@192.0.2.1/x")
