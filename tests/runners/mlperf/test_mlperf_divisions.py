"""What may be changed in CLOSED and in OPEN, by version."""

import pytest

from runners.mlperf.divisions import CLOSED, OPEN, division_of
from runners.mlperf.workloads import VERSIONS, Version


@pytest.mark.parametrize(
    ("version", "model", "names", "division"),
    [
        ("v0.5", "unet3d", ("reader.read_threads",), "closed"),
        ("v0.5", "bert", ("reader.transfer_size",), "open"),
        ("v0.5", "unet3d", ("reader.prefetch_size",), "none"),
        ("v1.0", "unet3d", ("reader.read_threads", "reader.prefetch_size", "reader.transfer_size"), "closed"),
        ("v2.0", "unet3d", ("reader.odirect",), "closed"),
        ("v2.0", "cosmoflow", ("reader.odirect",), "none"),
        ("v2.0", "unet3d", ("reader.data_loader",), "open"),
        ("v2.0", "unet3d", ("reader.data_loader", "reader.file_shuffle"), "none"),
        ("v2.0", "unet3d", ("reader.batch_size",), "none"),
        ("v2.0", "unet3d", ("workflow.train", "profiling.profiler", "dataset.num_files_train"), "closed"),
        ("v2.0", "unet3d", (), "closed"),
    ],
)
def test_parameters_keep_to_a_division(version: Version, model: str, names: tuple[str, ...], division: str) -> None:
    found = division_of(version, model, names)
    assert found.division == division
    assert bool(found.why) == (division != "closed")


def test_the_parameter_that_leaves_a_division_is_named() -> None:
    assert "reader.data_loader" in division_of("v2.0", "unet3d", ["reader.data_loader", "reader.read_threads"]).why
    assert "reader.read_threads" not in division_of("v2.0", "unet3d", ["reader.data_loader", "reader.read_threads"]).why


def test_open_allows_whatever_closed_does() -> None:
    for version in VERSIONS:
        assert CLOSED[version] < OPEN[version]
