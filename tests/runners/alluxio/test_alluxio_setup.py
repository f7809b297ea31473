"""Which Alluxio is here, and the options of a run: bad ones end with the option, the value and what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runners.alluxio.backend import AlluxioBackend
from runners.alluxio.install import Install
from runners.alluxio.options import Options
from runners.alluxio.secrets import values, without
from runners.alluxio.setup import Setup
from runners.mount.work import Bounds, Work
from runners.runner import Failure, UsageError
from spaces.alluxio import SPACE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "alluxio"
    script = made / "integration/fuse/bin/alluxio-fuse"
    for folder in (script.parent, made / "conf", made / "libexec", made / "assembly"):
        folder.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (made / "libexec/alluxio-config.sh").write_text('#!/bin/bash\nVERSION="2.9.5"\n')
    monkeypatch.setenv("ALLUXIO_HOME", str(made))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ALLUXIO_CONF_DIR", raising=False)
    return made


def of(**options: Any) -> Setup:
    return Setup.of(Options(**{"mount": "/mnt/alluxio", **options}))


def test_an_installation_is_found_by_its_variable_or_the_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Install.find().home == home
    assert Install.find().version() == "2.9.5"
    monkeypatch.delenv("ALLUXIO_HOME")
    found = Install.find(path=str(home / "integration/fuse/bin"))
    assert (found.home, found.script) == (home, home / "integration/fuse/bin/alluxio-fuse")


@pytest.mark.parametrize(
    ("name", "version"),
    [("alluxio-server-2.9.3.jar", "2.9.3"), ("alluxio-client-304.jar", "304"), ("alluxio-AI-3.6-12.0.1.jar", "3.6-12.0.1"),
     ("alluxio-assembly-client-2.10.0-jar-with-dependencies.jar", "2.10.0"), ("guava-31.jar", "2.9.5")],
)  # fmt: skip
def test_jars_tell_the_version(home: Path, name: str, version: str) -> None:
    (home / "assembly" / name).touch()
    assert Install.find().version() == version


def test_without_alluxio_nothing_is_made_up() -> None:
    nothing = Install.find({}, path="/nowhere")
    if nothing.home is None:
        assert (nothing.version(), nothing.script) == (None, None)


def test_the_site_file_is_the_first_that_alluxio_would_read(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / ".alluxio/alluxio-site.properties"
    own.parent.mkdir()
    own.touch()
    assert of().site == own
    named = home / "conf/alluxio-site.properties"
    named.touch()
    assert of().site == named
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("ALLUXIO_CONF_DIR", str(other))
    assert of().site == own
    (other / "alluxio-site.properties").touch()
    assert of().site == other / "alluxio-site.properties"


def test_where_there_is_none_it_will_be_made_where_alluxio_looks(home: Path) -> None:
    assert of().site == home / "conf/alluxio-site.properties"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mount": ""}, ["--mount", "mount point"]),
        ({"alluxio_version": "newest"}, ["--alluxio-version newest", "3.6, 2.9.5 or oss-3"]),
        ({"site_file": "/nowhere/alluxio-site.properties"}, ["--site-file /nowhere", "does not exist"]),
        ({"site_file": "/etc"}, ["--site-file /etc", "folder"]),
        ({"site_file": "/etc/site.properties"}, ["must be called alluxio-site.properties"]),
        ({"remount_cmd": "restart 'it"}, ["--remount-cmd", "can't be split"]),
        ({"remount_cmd": "no-such-program x"}, ["--remount-cmd no-such-program", "not given to a shell"]),
        ({"remount_cmd": "true --s3-secret-key=abc4711"}, ["--remount-cmd true …", "names a secret"]),
        ({"source": "s3://me:pw4711@host/x"}, ["--source …", "names a secret"]),
        ({"remount_time": "soon"}, ["--remount-time soon", "90s"]),
    ],
)
def test_bad_options_are_named(home: Path, options: dict[str, str], words: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        of(**options)
    for word in words:
        assert word in str(raised.value)
    assert "4711" not in str(raised.value)


def test_a_version_that_can_t_be_told_must_be_named(home: Path) -> None:
    (home / "libexec/alluxio-config.sh").unlink()
    with pytest.raises(UsageError, match="--alluxio-version"):
        of()
    named = of(alluxio_version="3.6")
    assert named.version is not None
    assert named.version.line == "enterprise"


def test_a_knob_that_the_version_does_not_have_is_refused_by_name(home: Path) -> None:
    backend = AlluxioBackend(Options(mount="/mnt/alluxio"))
    bounds = Bounds(Work(), 4, 1 << 30)
    assert backend.space(SPACE, bounds)["chunk_size"].domain == SPACE["chunk_size"].domain
    with pytest.raises(UsageError, match=r"--part-length .*2\.9\.5.*async\.prefetch\.part\.length; enterprise 3\.1"):
        backend.space(SPACE.narrow({"part_length": "4M,8M"}), bounds)


def test_the_doctor_tells_what_is_missing_and_how_to_mend_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLUXIO_HOME", str(tmp_path / "nowhere"))
    found = {problem.id: problem for problem in AlluxioBackend(Options(), doctor=True).problems()}
    assert found["alluxio"].severity == found["alluxio-fuse"].severity == "error"
    assert all(problem.mend for problem in found.values())
    assert "no mount was named" in found["mount"].message


def test_a_point_that_is_no_mount_and_a_broken_site_file_are_told(home: Path, tmp_path: Path) -> None:
    site = home / "conf/alluxio-site.properties"
    site.write_text("a=\\u12\n")
    found = {p.id: p for p in AlluxioBackend(Options(mount=str(tmp_path / "nothing"))).problems()}
    assert "line 1" in found["site-file"].message
    assert found["site-file"].mend == f"tune lint {site}"
    assert "is no folder" in found["mount"].message
    assert [path.name for path in site.parent.iterdir()] == [site.name]


def test_what_a_program_prints_of_credentials_stays_out_of_the_study(home: Path, tmp_path: Path) -> None:
    site = home / "conf/alluxio-site.properties"
    site.write_text("s3a.secretKey=abc\\=4711\n")
    script = home / "integration/fuse/bin/alluxio-fuse"
    script.write_text("#!/bin/sh\necho 'java -Ds3a.secretKey=abc=4711 failed'\nexit 3\n")
    point, scratch = tmp_path / "mnt", tmp_path / "scratch/backend"
    point.mkdir()
    scratch.mkdir(parents=True)
    backend = AlluxioBackend(Options(mount=str(point)))
    backend.prepare(scratch, warm=False)
    failed = backend.mount(SPACE.default, 20.0)
    backend.close()
    assert isinstance(failed, Failure)
    assert failed.kind == "crash"
    assert "java -Ds3a.secretKey=******** failed" in failed.reason
    assert "4711" not in failed.reason + failed.log
    assert site.read_text() == "s3a.secretKey=abc\\=4711\n"


def test_credentials_of_options_are_hidden_too() -> None:
    found = values("s3a.secretKey=long4711\nx.token=\nalluxio.user.file.buffer.bytes=8MB\n", ["fs.password=pw4711", "ro"])
    assert found == ["long4711", "pw4711"]
    assert without("-o fs.password=pw4711 long4711 8MB", found) == "-o fs.password=******** ******** 8MB"


def test_a_file_where_the_mount_point_should_be_is_not_to_be_made(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = {p.id: p for p in AlluxioBackend(Options(mount=str(tmp_path / "file"))).problems()}
    assert "is no folder" in found["mount"].message
    assert "mkdir" not in found["mount"].mend
