"""The record: real SQLite files, whole, torn, foreign, newer, read-only and shared."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.synthetic import SPACE

from runners.runner import Failure, Measurement, Objective
from tuner.database import default_storage
from tuner.errors import NoStudies, NotUsable, TunerError, WrongUsage
from tuner.recommendation import Gain, Recommendation
from tuner.storage import Storage, new_name
from tuner.study import Header

OBJECTIVE = Objective("effective_gbs", "GB/s")
HEADER = Header(
    "aio", SPACE.fingerprint, OBJECTIVE, SPACE.default, {"threads": "1,2"}, {"device": ["/x"]}, {}, {"host": "h"}, 5.0
)
MEASURED = Measurement({"effective_gbs": 2.5, "read_gbs": 2.0}, (2.4, 2.6), 0.3, 77, {"verified": True})


def test_measurements_survive_as_they_were(tmp_path: Path) -> None:
    where = str(tmp_path / "new folder" / "é ?%{x}.db")
    failure = Failure("timeout", "over its limit", "log", 3.0, 5)
    with Storage(where) as storage:
        study = storage.create("s", HEADER)
        study.finish(study.begin(SPACE, SPACE.default, "baseline"), MEASURED, 1.0)
        study.finish(study.begin(SPACE, {**SPACE.default, "threads": 3}, "race", 4), failure, 2.5)
    with Storage(where, create=False) as storage:
        study = storage.open("s")
        first, second = study.trials(SPACE)
        assert study.header == HEADER
        assert study.elapsed() == 2.5
    assert (first.config, first.outcome, first.phase, first.round) == (SPACE.default, MEASURED, "baseline", -1)
    assert (second.config["threads"], second.outcome, second.phase, second.round) == (3, failure, "race", 4)


def test_a_running_trial_is_found_and_closed_without_an_invented_outcome(tmp_path: Path) -> None:
    with Storage(str(tmp_path / "s.db")) as storage:
        study = storage.create("s", HEADER)
        study.finish(study.begin(SPACE, SPACE.default, "search"), MEASURED, 1.0)
        study.begin(SPACE, SPACE.default, "search")
        assert study.abandon_running() == 1
        assert study.abandon_running() == 0
        assert len(study.trials(SPACE)) == 1


def test_optuna_reads_the_same_file(tmp_path: Path) -> None:
    import optuna

    path = tmp_path / "s.db"
    with Storage(str(path)) as storage:
        study = storage.create("s", HEADER)
        study.finish(study.begin(SPACE, SPACE.default, "search"), MEASURED, 1.0)
        study.finish(study.begin(SPACE, SPACE.default, "search"), Failure("crash", "died"), 2.0)
    theirs = optuna.load_study(study_name="s", storage=f"sqlite:///{path}")
    assert theirs.best_value == 2.5
    assert theirs.best_params == SPACE.default
    assert [t.state.name for t in theirs.trials] == ["COMPLETE", "FAIL"]


def test_the_answer_comes_back(tmp_path: Path) -> None:
    answer = Recommendation(
        "s", "aio", "native", "adopt", SPACE.default, SPACE.default, Gain(1.2, 1.1, 1.3, 0.9), "because",
        {"effective_gbs": 1.0}, {}, ({"threads": 2},), 7, {"crash": 1}, 3.5, 9, ("w",), {"rounds": 5}, {"host": "h"}, {},
    )  # fmt: skip
    with Storage(str(tmp_path / "s.db")) as storage:
        study = storage.create("s", HEADER)
        assert study.recommendation() is None
        study.answer(answer)
        assert study.recommendation() == answer
        assert [(line.name, line.decision) for line in storage.listing()] == [("s", "adopt")]
        storage.delete("s")
        assert storage.listing() == []


def test_names_are_taken_once(tmp_path: Path) -> None:
    with Storage(str(tmp_path / "s.db")) as storage:
        storage.create("s", HEADER)
        with pytest.raises(WrongUsage, match="--study s"):
            storage.create("s", HEADER)
        with pytest.raises(WrongUsage, match="no study 'other'"):
            storage.open("other")
    assert len({new_name("aio", 0.0) for _ in range(50)}) > 45


def test_a_newer_study_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Storage(str(path)) as storage:
        storage.create("s", HEADER)
    with sqlite3.connect(path) as raw:
        raw.execute("""UPDATE study_user_attributes SET value_json = replace(value_json, '"schema": 1', '"schema": 2')""")
    with Storage(str(path)) as storage, pytest.raises(WrongUsage, match="newer clustertune"):
        storage.open("s")


def test_a_newer_optuna_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    Storage(str(path)).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = 'v99.0.0.a'")
    with pytest.raises(WrongUsage, match="another Optuna version"):
        Storage(str(path))


def test_foreign_studies_are_left_alone(tmp_path: Path) -> None:
    import optuna

    path = tmp_path / "s.db"
    optuna.create_study(study_name="theirs", storage=f"sqlite:///{path}")
    with Storage(str(path)) as storage:
        assert storage.listing() == []
        with pytest.raises(WrongUsage, match="not made by clustertune"):
            storage.open("theirs")


@pytest.mark.parametrize("content", [b"not a database at all, just text", b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_file_that_is_no_study_file_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(content)
    with pytest.raises(TunerError, match="--storage") as caught:
        Storage(str(path))
    assert caught.value.exit_code == 2
    assert path.read_bytes() == content


def test_a_study_file_torn_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Storage(str(path)) as storage:
        study = storage.create("s", HEADER)
        for _ in range(30):
            study.finish(study.begin(SPACE, SPACE.default, "search"), MEASURED, 1.0)
    data = path.read_bytes()
    path.write_bytes(data[:8192] + b"\xaa" * (len(data) - 8192))
    with pytest.raises(TunerError) as caught, Storage(str(path)) as storage:
        storage.open("s").trials(SPACE)
    assert caught.value.exit_code in (2, 4)


def test_folders_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="is a folder"):
        Storage(str(tmp_path))
    with pytest.raises(WrongUsage, match="no studies yet"):
        Storage(str(tmp_path / "none.db"), create=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongUsage, match="folder can't be made"):
        Storage(str(tmp_path / "file" / "s.db"))


def test_a_read_only_file_gets_a_sentence(tmp_path: Path) -> None:
    """As a user without privileges: root writes whatever the mode says."""
    path = tmp_path / "s.db"
    Storage(str(path)).close()
    path.chmod(0o444)
    tmp_path.chmod(0o755)
    script = (
        "import os, sys\n"
        "from tuner.storage import Storage\n"
        "from tuner.errors import WrongUsage\n"
        "import optuna, sqlalchemy, alembic\n"
        "if os.getuid() == 0:\n"
        "    Storage(sys.argv[1]).close()  # all modules are there: they may lie where others can't read\n"
        "    os.setuid(65534)\n"
        "try: Storage(sys.argv[1])\n"
        "except WrongUsage as error: print(error.message)\n"
        "with Storage(sys.argv[1], reading=True) as storage: print('studies:', len(storage.listing()))\n"
    )
    parents = [p for p in tmp_path.parents if p.stat().st_uid == os.getuid() and len(p.parts) > 2]
    modes = [(p, p.stat().st_mode) for p in parents]
    try:
        for parent in parents:
            parent.chmod(0o755)
        done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    finally:
        for parent, mode in modes:
            parent.chmod(mode)
    assert "not readable and writable" in done.stdout, done.stderr
    # It can be looked at all the same, and nothing comes to lie beside it.
    assert "studies: 0" in done.stdout, done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["s.db"]


@pytest.mark.parametrize("left", [{"studies"}, {"studies", "trials", "version_info"}, {"studies", "trials"}])
def test_a_file_whose_first_start_was_killed_is_finished(tmp_path: Path, left: set[str]) -> None:
    path = tmp_path / "s.db"
    Storage(str(path)).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in tables - left:
            connection.execute(f"DROP TABLE {table}")
        connection.commit()
    with Storage(str(path)) as storage:
        assert storage.listing() == []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        again = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert again == tables


def test_first_starts_at_once_all_succeed(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from tuner.storage import Storage\n"
        "from tuner.study import Header\n"
        "from runners.runner import Objective\n"
        "while time.time() < float(sys.argv[2]): pass\n"
        "header = Header('aio', 'x', Objective('m', 'u'), {}, {}, {}, {}, {}, 1.0)\n"
        "with Storage(sys.argv[1]) as s: s.create(sys.argv[3], header)\n"
    )
    go = str(time.time() + 1.5)
    command = [sys.executable, "-c", script, str(tmp_path / "s.db"), go]
    running = [subprocess.Popen([*command, f"s{n}"], stderr=subprocess.PIPE) for n in range(4)]
    assert [process.wait() for process in running] == [0] * 4, [p.stderr.read() for p in running if p.stderr]
    with Storage(str(tmp_path / "s.db")) as storage:
        assert sorted(line.name for line in storage.listing()) == ["s0", "s1", "s2", "s3"]
    for process in running:
        if process.stderr:
            process.stderr.close()


def test_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CLUSTERTUNE_STORAGE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_storage() == str(tmp_path / "clustertune" / "studies.db")
    monkeypatch.setenv("CLUSTERTUNE_STORAGE", "postgresql://db/x")
    assert default_storage() == "postgresql://db/x"


def test_another_program_s_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE users (name TEXT)")
    before = path.read_bytes()
    for create in (False, True):
        with pytest.raises(WrongUsage, match="another program"):
            Storage(str(path), create=create)
    assert path.read_bytes() == before
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(NoStudies):
        Storage(str(empty), create=False)
    assert empty.stat().st_size == 0


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("/dev/null", "not a regular file"),
        ("x" * 300, "can't be used"),
        ("~nobody-of-that-name/x.db", "home"),
        ("  ", "empty"),
        ("postgresql://u:GEHEIM@localhost/db", "driver"),
        ("postgresql://u:GEHEIM@[::1/db", "kept"),
        ("foo://u:GEHEIM@h/x", "kept|driver"),
    ],
)
def test_storages_that_cannot_be_used_get_a_sentence_without_the_password(where: str, says: str) -> None:
    with pytest.raises(TunerError, match=says) as caught:
        Storage(where)
    assert "GEHEIM" not in caught.value.message + caught.value.mend


def test_a_named_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WrongUsage, match="not a regular file"):
        Storage(str(tmp_path / "pipe"))


def test_a_study_file_that_is_taken_away_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Storage(str(path)) as storage:
        study = storage.create("s", HEADER)
        study.finish(study.begin(SPACE, SPACE.default, "search"), MEASURED, 1.0)
        path.unlink()
        with pytest.raises(NotUsable, match="removed or replaced"):
            study.begin(SPACE, SPACE.default, "search")
