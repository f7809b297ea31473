"""The common load options as numbers, and what is refused."""

from dataclasses import replace

import pytest

from runners.mount.loads import LOADS, create
from runners.mount.options import LoadOptions, work_of
from runners.runner import UsageError


def test_the_defaults_are_a_cold_sequential_load() -> None:
    work = work_of(LoadOptions())
    assert (work.pattern, work.block_size, work.jobs, work.seconds) == ("sequential", 262144, 4, 5.0)
    assert (work.warm, work.direct, work.data, work.memory, work.extra) == (False, False, "", None, ())


def test_numbers_and_pairs() -> None:
    work = work_of(
        LoadOptions(block_size="4K", read_time="90s", memory="2G", warm=True, load_option=["reader.read_threads=8", "a=b=c"])
    )
    assert (work.block_size, work.seconds, work.memory, work.warm) == (4096, 90.0, 2 << 30, True)
    assert work.extra == (("reader.read_threads", "8"), ("a", "b=c"))


@pytest.mark.parametrize(
    ("changed", "option", "said"),
    [
        ({"cold": True, "warm": True}, "warm", "two studies"),
        ({"jobs": 0}, "jobs", "from 1 to 4096"),
        ({"accelerators": -1}, "accelerators", "from 1 to 4096"),
        ({"block_size": "100"}, "block-size", "multiple of 512"),
        ({"block_size": "big"}, "block-size", "is not a size"),
        ({"read_time": "0.1s"}, "read-time", "from 0.5s"),
        ({"read_time": "soon"}, "read-time", "is not a duration"),
        ({"memory": "12"}, "memory", "at least 1M"),
        ({"generate": "1M"}, "generate", "from 16M to 4T"),
        ({"generate": "1G", "data": "mine"}, "generate", "--data names something else"),
        ({"generate": "1G", "load": "unet3d"}, "generate", "tune mlperf run"),
        ({"data": "../etc/passwd"}, "data", "inside the mount"),
        ({"data": "/etc/passwd"}, "data", "inside the mount"),
        ({"load_option": ["threads"]}, "load-option", "NAME=VALUE"),
    ],
)
def test_bad_values_are_named(changed: dict[str, object], option: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        work_of(replace(LoadOptions(), **changed))
    assert caught.value.option == option
    assert said in str(caught.value)


def test_an_unknown_load_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"--load iozone: is none of auto, fio"):
        create("iozone", work_of(LoadOptions()))


def test_every_load_but_dlio_is_made_without_starting_anything() -> None:
    for name in ("auto", *LOADS):
        if LOADS.get(name) != "dlio":
            load = create(name, work_of(LoadOptions(jobs=3)))
            assert load.open_files == 3
            assert load.largest is None
            load.close()
