"""tfrecord2idx of our own, as a function and as the program that DLIO calls."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.mlperf import record_index
from runners.mlperf.record_index import index


def framed(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + b"crc1" + data + b"crc2"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=10))
def test_every_record_has_its_place_and_size(tmp_path: Path, records: list[bytes]) -> None:
    whole = b"".join(map(framed, records))
    (tmp_path / "records").write_bytes(whole)
    assert index(tmp_path / "records", tmp_path / "idx") == len(records)
    lines = [tuple(map(int, line.split())) for line in (tmp_path / "idx").read_text().splitlines()]
    assert [whole[start : start + size] for start, size in lines] == [framed(record) for record in records]


@pytest.mark.parametrize("cut", [1, 5, 11, 14])
def test_a_file_that_is_cut_off_is_no_data(tmp_path: Path, cut: int) -> None:
    (tmp_path / "records").write_bytes((framed(b"abc") * 2)[:-cut])
    with pytest.raises(ValueError, match="ends in the middle of record 1"):
        index(tmp_path / "records", tmp_path / "idx")


def test_it_is_a_program_that_needs_nothing_of_ours(tmp_path: Path) -> None:
    (tmp_path / "records").write_bytes(framed(b"abc") * 3)
    program = tmp_path / "tfrecord2idx"
    program.write_text(f"#!{sys.executable}\n{Path(record_index.__file__).read_text()}")
    program.chmod(0o755)
    subprocess.run([program, "records", "idx"], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "idx").read_text() == "0 19\n19 19\n38 19\n"
    done = subprocess.run([program, "nothing", "idx"], cwd=tmp_path, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 1
    assert "tfrecord2idx: " in done.stderr
