import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from runners.launch.frames import Decoder, Frame
from runners.launch.marks import FRAME, frames

JOB = "0123456789abcdef01234567"


def joined(decoder: Decoder, data: bytes, cuts: list[int] | None = None) -> list[Frame]:
    edges = [0, *sorted(cuts or []), len(data)]
    return [frame for low, high in pairwise(edges) for frame in decoder.feed(data[low:high])]


def test_every_frame_has_the_size_that_readers_on_the_way_cut_at() -> None:
    for size in (0, 1, 734, 735, 736, 5000):
        for frame in frames(JOB, 7, 0, "O", b"x" * size):
            assert len(frame) == FRAME
            assert frame.endswith(b"\n")


@settings(deadline=None)
@given(st.binary(max_size=4000), st.lists(st.integers(0, 6000), max_size=5))
def test_what_was_told_comes_back_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    stream = b"".join([*frames(JOB, 3, 0, "O", data), *frames(JOB, 3, len(frames(JOB, 3, 0, "O", data)), "X", b"{}")])
    decoder = Decoder(JOB)
    got = joined(decoder, stream, [min(cut, len(stream)) for cut in cuts])
    assert b"".join(frame.data for frame in got if frame.kind == "O") == data
    assert [frame for frame in got if frame.kind == "X"] == [Frame(3, "X", b"{}")]
    assert decoder.damaged == 0
    assert decoder.noise.strip() == ""


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=6))
def test_what_others_print_between_frames_is_kept_apart(noises: list[bytes]) -> None:
    noises = [noise.replace(b"\x1e", b"") for noise in noises]
    stream = b"".join(noise + frames(JOB, 0, number, "O", b"%d" % number)[0] for number, noise in enumerate(noises))
    decoder = Decoder(JOB)
    got = joined(decoder, stream)
    assert [frame.data for frame in got] == [b"%d" % number for number in range(len(noises))]
    assert decoder.noise == b"".join(noises).decode(errors="replace")


def test_another_job_is_noise() -> None:
    decoder = Decoder(JOB)
    assert joined(decoder, frames("f" * 24, 0, 0, "O", b"x")[0]) == []


def test_a_torn_and_a_missing_frame_are_noticed() -> None:
    one, two, three = (frames(JOB, 0, number, "O", b"abc")[0] for number in range(3))
    torn = Decoder(JOB)
    assert len(joined(torn, one + two[:500] + three)) >= 1
    assert torn.damaged
    missing = Decoder(JOB)
    assert len(joined(missing, one + three)) == 2
    assert missing.damaged


@given(st.binary(max_size=3000))
def test_garbage_makes_no_frame_and_no_error(garbage: bytes) -> None:
    assert joined(Decoder(JOB), b"\x1e" + JOB[:8].encode() + garbage) == []


def test_ranks_may_talk_across_each_other() -> None:
    streams = {rank: frames(JOB, rank, 0, "X", b"%d" % rank * 2000) for rank in range(4)}
    order = [rank for rank, parts in streams.items() for _ in parts]
    random.Random(1).shuffle(order)
    decoder = Decoder(JOB)
    got = joined(decoder, b"".join(streams[rank].pop(0) for rank in order))
    assert {frame.rank: frame.data for frame in got} == {rank: b"%d" % rank * 2000 for rank in range(4)}
    assert decoder.damaged == 0
