import time
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.aio.content import MAX_FILES, Sectors, fill_random, next_generation, tags
from runners.aio.plain import aligned

files = st.integers(0, MAX_FILES - 1)
generations = st.integers(1, 65535)


@given(files, generations, st.integers(0, 2**32 - 5), files, generations, st.integers(0, 2**32 - 5))
def test_a_tag_names_file_generation_and_sector(f: int, g: int, s: int, f2: int, g2: int, s2: int) -> None:
    one, other = tags(f, g, s, 4), tags(f2, g2, s2, 4)
    assert 0 not in one
    assert (int(one[0]) == int(other[0])) == ((f, g, s) == (f2, g2, s2))
    assert [int(tag) - int(one[0]) for tag in one] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("file", "generation", "first"), [(-1, 1, 0), (MAX_FILES, 1, 0), (0, 0, 0), (0, 65536, 0), (0, 1, 2**32)]
)
def test_what_does_not_fit_a_tag_is_refused(file: int, generation: int, first: int) -> None:
    with pytest.raises(ValueError, match="no tag"):
        tags(file, generation, first, 1)


@given(generations)
def test_generations_go_on_for_ever_and_skip_the_cleared_one(generation: int) -> None:
    following = next_generation(generation)
    assert following != generation
    assert 0 < following < 65536


@settings(deadline=None)
@given(st.integers(8, 9000), st.sampled_from([512, 4096]), files, generations)
def test_stamped_is_right_and_anything_else_is_wrong(size: int, sector: int, file: int, generation: int) -> None:
    buffer = aligned(16384)[:size]
    fill_random(buffer, 1)
    sectors = Sectors(buffer, sector)
    assert sectors.count == -(-size // sector) or size % sector < 8
    sectors.stamp(file, generation)
    assert sectors.wrong(file, generation) == 0
    assert sectors.wrong(file, next_generation(generation)) == sectors.count
    assert sectors.wrong((file + 1) % MAX_FILES, generation) == sectors.count
    assert sectors.wrong(file, generation, first=1) == sectors.count
    sectors.clear()
    assert sectors.wrong(file, generation) == sectors.count


@given(st.integers(0, 15), st.sampled_from([0, 504]))
def test_a_torn_sector_shows_at_either_end(number: int, offset: int) -> None:
    buffer = aligned(16 * 512)
    sectors = Sectors(buffer, 512)
    sectors.stamp(3, 7)
    buffer[number * 512 + offset] ^= 1
    assert sectors.wrong(3, 7) == 1


def test_two_sectors_that_changed_places_are_both_wrong() -> None:
    buffer = aligned(8192)
    sectors = Sectors(buffer, 512)
    sectors.stamp(1, 1)
    buffer[:512], buffer[512:1024] = buffer[512:1024].copy(), buffer[:512].copy()
    assert sectors.wrong(1, 1) == 2


def test_a_shorter_last_sector_counts() -> None:
    buffer = aligned(4096)[:1000]
    sectors = Sectors(buffer, 512)
    assert sectors.count == 2
    sectors.stamp(1, 1)
    buffer[512] ^= 1
    assert sectors.wrong(1, 1) == 1


def test_the_filling_does_not_compress_or_repeat() -> None:
    buffer = aligned((20 << 20) + 12)
    fill_random(buffer, 5)
    raw = buffer.tobytes()
    assert len(zlib.compress(raw[: 1 << 20], 1)) > 0.99 * (1 << 20)
    blocks = {raw[start : start + 4096] for start in range(0, len(raw), 4096)}
    assert len(blocks) == -(-len(raw) // 4096)
    again = aligned(buffer.size)
    fill_random(again, 6)
    assert np.count_nonzero(again == buffer) < buffer.size / 100


def test_tags_of_64_mib_cost_milliseconds() -> None:
    buffer = aligned(64 << 20)
    buffer[:] = 1
    sectors = Sectors(buffer, 512)
    best = 1.0
    for generation in range(1, 9):
        begun = time.perf_counter()
        sectors.stamp(1, generation)
        assert sectors.wrong(1, generation) == 0
        sectors.clear()
        best = min(best, time.perf_counter() - begun)
    assert best < 0.02
