"""oneCCL jobs that went wrong for users because of a file, with what the tool must say of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from runners.hosts import parse_hosts
from runners.oneccl.benchmark_output import Table, read_csv, read_table
from runners.oneccl.combinations import Job, conflicts
from runners.oneccl.variables import check
from runners.runner import Failure, UsageError
from spaces.oneccl import SPACE, Limits, for_job
from tuner.errors import WrongUsage
from tuner.exporters import oneccl
from tuner.lint import fix_file, lint_file
from tuner.recommendation import Recommendation

DATA = Path(__file__).parents[1] / "data"


def printed(name: str) -> str:
    return (DATA / "oneccl" / name).read_text()


# bool-spelling


def test_spelling_that_ends_the_job(tmp_path: Path) -> None:
    said = check("CCL_FUSION", "yes")
    assert said is not None
    assert "only 0 and 1 are valid" in said
    with pytest.raises(WrongUsage, match="only 0 and 1 are valid"):
        oneccl.present("CCL_FUSION=yes\n", {})
    file = tmp_path / "job.env"
    file.write_text("CCL_FUSION=yes\n")
    (found,) = lint_file(file).findings
    assert (found.line, found.key, found.safe, found.mend) == (1, "CCL_FUSION", True, "CCL_FUSION=1")


# typo-name


def test_name_that_is_ignored_in_silence(tmp_path: Path) -> None:
    file = tmp_path / "job.env"
    file.write_text("# workers\nCCL_WORKERS_COUNT=4\n")
    linted = lint_file(file)
    assert linted.target == "oneccl"
    (found,) = linted.findings
    assert (found.line, found.key) == (2, "CCL_WORKERS_COUNT")
    assert "CCL_WORKER_COUNT" in found.message
    fixed = fix_file(file)
    assert fixed.left == ()
    assert file.read_text() == "# workers\nCCL_WORKER_COUNT=4\n"
    assert fixed.backup is not None
    assert fixed.backup.read_text() == "# workers\nCCL_WORKERS_COUNT=4\n"


# inventory


def test_inventory_as_people_have_it() -> None:
    hosts = parse_hosts(DATA / "hosts" / "inventory.ini")
    names = [f"192.0.2.{number}" for number in (1, 2, 3, 4)]
    assert [(host.name, host.user) for host in hosts] == [(name, "root") for name in names]
    machine = {"hosts": names, "ppn": 1}
    answer = Recommendation("s", "oneccl", "e", "keep", SPACE.default, SPACE.default, None, "r", {}, {}, machine=machine)
    files = {form.name: oneccl.render(answer, form.name, {}) for form in oneccl.FORMATS}
    assert files["machinefile"] == {"machinefile": "".join(f"{name}:1\n" for name in names)}
    everything = repr([dataclasses.asdict(host) for host in hosts]) + repr(files)
    assert "not-a-real-one" not in everything
    assert ",".join(names) in files["script"]["run_oneccl.sh"]


# option-as-host


def test_option_in_place_of_a_host(tmp_path: Path) -> None:
    touched = tmp_path / "x"
    file = tmp_path / "hosts.txt"
    file.write_text(f"192.0.2.1\n-oProxyCommand=touch {touched}\n")
    with pytest.raises(UsageError) as caught:
        parse_hosts(file)
    assert "line 2: " in str(caught.value)
    assert "begins with '-'" in str(caught.value)
    answer = Recommendation("s", "oneccl", "e", "keep", SPACE.default, SPACE.default, None, "r", {}, {})
    for given in (str(file), f"-oProxyCommand=touch {touched}"):
        with pytest.raises(WrongUsage, match="begins with '-'"):
            oneccl.render(answer, "script", {"hosts": given})
    assert not touched.exists()


# truncated-table


def test_rows_before_a_crash_are_not_used() -> None:
    text = printed("table_bus_error.txt")
    assert text.count("\n          1024 ") == text.count("\n         65536 ") == 1
    found = read_table(text, 255)
    assert isinstance(found, Failure)
    assert found.kind == "crash"
    assert "/dev/shm" in found.reason
    assert "none of its rows are used" in found.reason
    without_the_signal = read_table(text[: text.index("=====")], 0)
    assert isinstance(without_the_signal, Failure)
    assert without_the_signal.kind == "crash"


# worker-list-short


def test_list_that_must_cover_all_ranks() -> None:
    values = {"CCL_WORKER_COUNT": "2", "CCL_WORKER_AFFINITY": "3"}
    (found,) = conflicts(values, Job(ppn=2))
    assert found.name == "CCL_WORKER_AFFINITY"
    assert "names 1 core and 4 are needed: 2 ranks a host x 2 workers" in found.message
    text = "".join(f"{name}={value}\n" for name, value in values.items())
    assert [each.message for each in oneccl.lint(text, {"ppn": 2})] == [found.message]
    assert conflicts({**values, "CCL_WORKER_AFFINITY": "2-5"}, Job(ppn=2)) == []


# workers-over-cores


def test_more_workers_than_cores() -> None:
    (reason,) = for_job(SPACE, Limits(cores_per_rank=1)).broken({**SPACE.default, "worker_count": 2})
    assert reason == "2 workers a rank don't fit on the 1 core that a rank is pinned to"
    (found,) = conflicts({"CCL_WORKER_COUNT": "2", "CCL_WORKER_AFFINITY": "auto"}, Job(cores=1))
    assert "is 2 and a rank is pinned to 1 core" in found.message


# summed-collectives


def test_one_number_under_several_names() -> None:
    for found in (read_table(printed("table_summed.txt"), 0), read_csv(printed("csv_summed.csv"))):
        assert isinstance(found, Failure)
        assert found.kind == "wrong"
        assert "sums over allreduce and bcast" in found.reason


# one-iteration


def test_single_sample_is_counted_as_one() -> None:
    found = read_table(printed("table_auto.txt"), 0)
    assert isinstance(found, Table)
    assert (found.options["iter_policy"], found.options["iters"]) == ("auto", "16")
    assert {row.size: row.repetitions for row in found.rows} == {1024: 16, 4 << 20: 1}


# tcp-rxm, provider-typo-one-host, iface-lo


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ('I_MPI_OFI_PROVIDER="tcp;ofi_rxm"\n', {}, "tcp is what works"),
        ("FI_PROVIDER=foo\n", {"hosts": "1"}, "no provider of libfabric"),
        ("FI_TCP_IFACE=lo\n", {"hosts": "2"}, "reaches no other host"),
        ("FI_PROVIDER=shm\n", {"hosts": "2"}, "it hangs without a word"),
    ],
)
def test_values_of_old_recipes(text: str, options: dict[str, str], said: str) -> None:
    (found,) = oneccl.lint(text, options)  # type: ignore[arg-type]
    assert said in found.message
