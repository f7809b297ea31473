"""JuiceFS' options, counters and META-URLs as text."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.juicefs.words import absolute, check_meta, differences, downloaded, flags, missing
from runners.runner import UsageError
from spaces.juicefs import SPACE

STATS = """\
juicefs_cpu_usage 0.31
juicefs_object_request_data_bytes_GET 134217728
juicefs_object_request_data_bytes_PUT 999
juicefs_object_request_durations_histogram_seconds_GET_total 32
"""
LABELLED = 'juicefs_object_request_data_bytes{method="GET",mp="/m"} 5e+06\njuicefs_object_request_data_bytes{method="PUT"} 7\n'


def test_sizes_are_mib() -> None:
    assert flags(SPACE.default) == ["--max-readahead=32", "--buffer-size=300", "--prefetch=1", "--max-downloads=200"]
    with pytest.raises(UsageError, match="whole MiB"):
        flags({**SPACE.default, "buffer_size": 1000})


def test_options_that_an_old_version_lacks() -> None:
    help = "   --buffer-size value  total\n   --prefetch value  n\n   --max-downloads value  n\n"
    assert missing(help) == ["--max-readahead"]


def test_live_values_that_differ_are_named() -> None:
    live = {"Readahead": 32 << 20, "BufferSize": 300 << 20, "Prefetch": 0, "MaxDownload": 200}
    assert differences(SPACE.default, live) == ["--prefetch was set to 1 and is 0"]
    assert len(differences(SPACE.default, {})) == 4


def test_bytes_that_left_the_store() -> None:
    assert downloaded(STATS) == 134217728
    assert downloaded(LABELLED) == 5_000_000
    assert downloaded("juicefs_cpu_usage 1\n") == 0
    with pytest.raises(OSError):
        downloaded("something else")


@given(st.text())
def test_any_stats_give_a_count_or_an_error(text: str) -> None:
    with suppress(OSError):
        assert downloaded(f"juicefs_x 1\n{text}") >= 0


@pytest.mark.parametrize(
    "meta", ["redis://meta:6379/1", "redis://user@meta/1", "sqlite3:///var/lib/j.db", "postgres://u@h:5432/j?sslmode=disable"]
)
def test_urls_that_may_be_kept(meta: str) -> None:
    assert check_meta(meta) == meta


@pytest.mark.parametrize(
    "meta", ["redis://:hush77@meta:6379/1", "mysql://jfs:hush77@(db:3306)/j", "postgres://h/j?user=u&password=hush77"]
)
def test_a_password_is_refused_and_not_repeated(meta: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_meta(meta)
    assert "hush77" not in str(caught.value)
    assert "META_PASSWORD" in str(caught.value)


@pytest.mark.parametrize("meta", ["", "--x", "just-a-name", "redis://a\nb"])
def test_what_is_no_url(meta: str) -> None:
    with pytest.raises(UsageError):
        check_meta(meta)


def test_database_files_are_named_from_the_root() -> None:
    assert absolute("sqlite3:///a/b.db") == "sqlite3:///a/b.db"
    assert absolute("sqlite3://b.db").startswith("sqlite3:///")
    assert absolute("redis://h/1") == "redis://h/1"
