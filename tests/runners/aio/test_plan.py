import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.aio.figures import effective
from runners.aio.plan import MOST_FILES, MOST_OPERATIONS, ROUNDS, Job, Turns, Volume, files_per_size, plan
from runners.aio.plausible import implausible

M = 1 << 20
sizes = st.lists(st.sampled_from([512, 4096, M, 2 * M, 8 * M, 64 * M, 400 * M]), min_size=1, max_size=3, unique=True).map(
    lambda found: tuple(sorted(found, reverse=True))
)
jobs = st.builds(Job, sizes, st.integers(1, 8), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.booleans())
volumes = st.builds(Volume, st.integers(0, 512 * M), st.integers(0, 512 * M))


@given(jobs, volumes)
def test_a_measurement_moves_each_size_and_stays_within_its_volume(job: Job, volume: Volume) -> None:
    made = plan(job, volume)
    least = max(job.sizes) * len(job.sizes) * job.ranks
    for batch, rounds, amount, moved in (
        (made.read, made.read_rounds, volume.read, job.reads),
        (made.write, made.write_rounds, volume.write, job.writes),
    ):
        assert set(batch) == (set(job.sizes) if moved else set())
        assert (1 <= rounds <= ROUNDS) if moved else rounds == 0
        assert rounds * sum(batch) * job.ranks <= max(amount, least)
    assert made.written == made.write_rounds * sum(made.write)


@given(jobs, volumes)
def test_sizes_get_equal_bytes_as_near_as_whole_tensors_allow(job: Job, volume: Volume) -> None:
    made = plan(job, volume)
    for batch in filter(None, (made.read, made.write)):
        parts = [sum(size for size in batch if size == each) for each in job.sizes]
        capped = any(batch.count(each) == MOST_OPERATIONS for each in job.sizes)
        assert capped or max(parts) - min(parts) < max(job.sizes)


@given(jobs, volumes)
def test_every_operation_fits_its_buffer(job: Job, volume: Volume) -> None:
    made = plan(job, volume)
    for batch in (made.read, made.write):
        assert all(size <= slot for size, slot in zip(batch, made.slots, strict=False))
        assert len(batch) <= len(made.slots)


@given(jobs, st.integers(0, 4 << 30))
def test_work_files_fit_the_room_or_there_are_none(job: Job, room: int) -> None:
    counts = files_per_size(job, [room])
    if not counts:
        assert sum(job.sizes) > room
    else:
        assert set(counts) == set(job.sizes)
        assert all(1 <= count <= MOST_FILES for count in counts.values())
        assert sum(size * count for size, count in counts.items()) <= room


def test_the_usual_work_set() -> None:
    job = Job((64 * M,), 1, 0.5, False)
    assert files_per_size(job, [100 << 30]) == {64 * M: 4}
    assert files_per_size(job, [200 * M]) == {64 * M: 3}
    assert files_per_size(job, [70 * M]) == {64 * M: 1}
    assert files_per_size(job, [60 * M]) == {}
    assert files_per_size(Job((400 * M,), 4, 0.5, False), [100 << 30]) == {400 * M: 2}


def test_the_usual_measurement() -> None:
    made = plan(Job((64 * M,), 1, 0.5, False), Volume(256 * M, 128 * M))
    assert (made.read_rounds, made.read) == (4, (64 * M,))
    assert (made.write_rounds, made.write, made.written) == (2, (64 * M,), 128 * M)
    assert plan(Job((64 * M,), 1, 1.0, False), Volume()).written == 0
    small = plan(Job((2 * M,), 4, 0.5, False), Volume(256 * M, 128 * M))
    assert (small.read_rounds, len(small.read), len(small.write)) == (4, 8, 4)


@given(st.dictionaries(st.sampled_from([M, 2 * M]), st.integers(1, 7), min_size=1), st.integers(1, 4), st.data())
def test_files_take_turns(counts: dict[int, int], rounds: int, data: st.DataObject) -> None:
    turns = Turns(counts)
    known = dict(turns.files())
    assert len(known) == sum(counts.values())
    batch = tuple(size for size in counts for _ in range(data.draw(st.integers(1, 3))))
    seen: dict[int, list[int]] = {size: [] for size in counts}
    for _ in range(8):
        made = turns.rounds(rounds, batch)
        assert made == turns.rounds(rounds, batch)
        assert len(made) == rounds
        for operation in [operation for each in made for operation in each]:
            assert known[operation[0]] == operation[1]
            seen[operation[1]].append(operation[0])
        turns.advance(batch, rounds)
    for size, count in counts.items():
        first = seen[size][0]
        assert seen[size] == [first + (number % count) for number in range(len(seen[size]))]


def test_reads_cover_what_was_written_when_they_are_the_larger_part() -> None:
    made = plan(Job((64 * M,), 1, 0.5, False), Volume())
    turns = Turns({64 * M: 8})
    written = {file for batch in turns.rounds(made.write_rounds, made.write) for file, _ in batch}
    read = {file for batch in turns.rounds(made.read_rounds, made.read) for file, _ in batch}
    assert written < read


@given(st.floats(0.01, 1), st.floats(0.1, 50), st.floats(0.1, 50))
def test_the_objective_lies_between_reads_and_writes(share: float, read: float, write: float) -> None:
    value = effective(share, read, write)
    assert min(read, write) * 0.999 <= value <= max(read, write) * 1.001


def test_the_objective_is_the_time_of_both_directions() -> None:
    assert effective(0.5, 1.0, 3.0) == pytest.approx(1.5)
    assert effective(1.0, 2.0, None) == 2.0
    assert effective(0.0, None, 3.0) == 3.0


def test_a_rate_above_the_device_is_implausible() -> None:
    reason = implausible({"read_gbs": 24.74, "write_gbs": 1.0}, 3.2)
    assert reason is not None
    assert "24.74" in reason
    assert "3.20" in reason
    assert implausible({"read_gbs": 1.0, "write_gbs": 3.4}, 3.2) is not None
    assert implausible({"read_gbs": 3.15, "write_gbs": 3.0}, 3.2) is None
    assert implausible({"read_gbs": 24.74}, None) is None
