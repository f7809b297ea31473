"""The data set that MLPerf Storage asks for, held against figures that its own tools have printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.mlperf.size import data_size, files_short, io_rate
from runners.mlperf.workloads import VERSIONS, WORKLOADS, accelerators, find, models, newest, threshold
from runners.runner import UsageError

GIB = 1 << 30


@pytest.mark.parametrize(
    ("version", "model", "accelerator", "number", "hosts", "memory", "files", "gib"),
    [
        ("v0.5", "unet3d", "v100", 4, 1, 32, 1600, 218.45),
        ("v0.5", "bert", "v100", 1, 1, 32, 219, 160),
        ("v2.0", "unet3d", "h100", 2, 1, 1, 7000, 955.73),
        # Printed by v1.0's script for published submissions.
        ("v1.0", "unet3d", "h100", 36, 1, 251, 126000, 17203),
        ("v1.0", "cosmoflow", "h100", 180, 3, 251, 1429258, 3764),
        # From the README of v2.0.
        ("v2.0", "resnet50", "h100", 16, 1, 64, 2557, 341.7),
        ("v2.0", "cosmoflow", "h100", 16, 1, 64, 121477, 320),
    ],
)
def test_the_data_set_is_as_large_as_their_tools_say(
    version: str, model: str, accelerator: str, number: int, hosts: int, memory: int, files: int, gib: float
) -> None:
    size = data_size(find(model, version, accelerator), number, memory * GIB, hosts)
    assert size.files == files
    assert size.gib == pytest.approx(gib, rel=1e-3)


@pytest.mark.parametrize(
    ("version", "model", "number", "hosts", "memory", "minutes"),
    [("v1.0", "unet3d", 36, 1, 251, 13), ("v1.0", "cosmoflow", 180, 3, 251, 2), ("v0.5", "bert", 1, 1, 32, 16)],
)
def test_the_shortest_run_is_what_the_steps_compute(
    version: str, model: str, number: int, hosts: int, memory: int, minutes: int
) -> None:
    accelerator = "v100" if version == "v0.5" else "h100"
    assert data_size(find(model, version, accelerator), number, memory * GIB, hosts).minutes == minutes


def test_it_says_which_rule_decides() -> None:
    unet3d = find("unet3d", "v2.0", "h100")
    assert data_size(unet3d, 2, GIB).by == "steps"
    assert data_size(unet3d, 2, 4096 * GIB).by == "memory"


def test_files_that_datasize_counted_may_be_too_few_for_the_run() -> None:
    """A run looks at the memory that hosts have; datasize at what it was told of them."""
    unet3d = find("unet3d", "v2.0", "h100")
    told = data_size(unet3d, 2, 64 * GIB).files
    assert files_short(unet3d, 2, 64 * GIB, told) == ""
    why = files_short(unet3d, 2, 4 * 512 * GIB, told)
    assert "7000 files are too few" in why
    assert str(data_size(unet3d, 2, 4 * 512 * GIB).files) in why
    assert "2048 GiB" in why


@pytest.mark.parametrize(("samples", "rate"), [(56.90265822935148, 7955.518180172248), (58.56862936440517, 8188.436361237563)])
def test_the_io_rate_is_theirs_to_the_last_digit(samples: float, rate: float) -> None:
    assert io_rate(samples, 146600628) == rate


@pytest.mark.parametrize(
    ("version", "model", "accelerator", "mib_s"),
    [
        ("v0.5", "unet3d", "v100", 411),
        ("v0.5", "bert", "v100", 0.12),
        ("v1.0", "unet3d", "a100", 1539),
        ("v2.0", "unet3d", "h100", 3030),
        ("v1.0", "resnet50", "a100", 100.5),
        ("v2.0", "resnet50", "h100", 195.3),
        ("v1.0", "cosmoflow", "a100", 490),
        ("v2.0", "cosmoflow", "h100", 771),
    ],
)
def test_an_accelerator_asks_for_no_more_than_this(version: str, model: str, accelerator: str, mib_s: float) -> None:
    assert find(model, version, accelerator).demand == pytest.approx(mib_s, rel=0.02)


def test_every_workload_is_found_by_its_names() -> None:
    for each in WORKLOADS:
        assert find(each.model, each.version, each.accelerator) is each
    assert newest("unet3d") == "v2.0"
    assert newest("bert") == "v0.5"
    assert find("unet3d").accelerator == "h100"
    assert find("unet3d", "v0.5", "v100-32gb").accelerator == "v100"
    assert {threshold(model) for model in models()} == {90.0, 70.0}
    assert threshold("cosmoflow") == 70.0
    assert accelerators("v0.5") == ("v100",)


@pytest.mark.parametrize(
    ("model", "version", "accelerator", "words"),
    [
        ("unet4d", "", "", ("--model unet4d", "cosmoflow")),
        ("bert", "v2.0", "", ("v2.0 has unet3d",)),
        ("unet3d", "v9", "", ("--mlperf-version v9", *VERSIONS)),
        ("unet3d", "v2.0", "v100", ("--accelerator v100", "a100, h100")),
    ],
)
def test_a_workload_that_is_not_there_is_named_with_those_that_are(
    model: str, version: str, accelerator: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as error:
        find(model, version, accelerator)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    ("number", "memory", "hosts", "option"), [(0, 1, 1, "accelerators"), (1, 0, 1, "memory"), (1, 1, -1, "hosts")]
)
def test_sizes_that_make_no_sense_are_refused_by_name(number: int, memory: int, hosts: int, option: str) -> None:
    with pytest.raises(UsageError) as error:
        data_size(find("unet3d"), number, memory, hosts)
    assert error.value.option == option


@given(st.sampled_from(WORKLOADS), st.integers(1, 2000), st.integers(1, 4096 * GIB), st.integers(1, 64))
def test_the_data_set_meets_both_rules_and_is_the_least_that_does(workload, number: int, memory: int, hosts: int) -> None:  # type: ignore[no-untyped-def]
    size = data_size(workload, number, memory, hosts)
    record = workload.sample.length
    steps, whole = workload.steps * workload.batch * number, 5 * hosts * memory / record
    assert size.samples >= steps
    assert size.samples >= whole - 1 - whole * 1e-9
    assert size.samples <= max(steps, whole * (1 + 1e-9))
    assert size.files * workload.sample.per_file <= size.samples
    assert files_short(workload, number, hosts * memory, size.files) == ""
