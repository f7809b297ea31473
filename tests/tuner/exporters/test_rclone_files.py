"""rclone's files: written, read back as the baseline, merged into a user's, and linted."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spaces.rclone import SPACE
from tuner.errors import WrongUsage
from tuner.exporters import rclone as exporter
from tuner.exporters.rclone.words import size
from tuner.recommendation import Gain, Recommendation

MIB = 1 << 20
BEST = {**SPACE.default, "vfs_read_chunk_streams": 8, "vfs_read_chunk_size": 4 * MIB, "buffer_size": 0}


def answer(chosen: dict[str, object] = BEST, **options: object) -> Recommendation:
    told = {"remote": "store:training data", "pattern": "sequential", "jobs": 4, **options}
    gain = Gain(3.1, 2.9, 3.4, 0.9)
    return Recommendation(
        "r-1",
        "rclone",
        "fio",
        "adopt",
        chosen,
        SPACE.default,
        gain,
        "r",
        {"x": 1.0},
        {"x": 0.8},
        options=told,
    )


def test_variables_with_units_and_what_was_gained() -> None:
    (text,) = exporter.render(answer(), "env", {}).values()
    assert "RCLONE_VFS_READ_CHUNK_STREAMS=8\nRCLONE_VFS_READ_CHUNK_SIZE=4M\nRCLONE_BUFFER_SIZE=0\n" in text
    assert "3.10x the speed of the baseline" in text
    assert "Each open file may hold 32 MiB" in text


@pytest.mark.parametrize("form", [form.name for form in exporter.FORMATS])
@pytest.mark.parametrize(("ahead", "background"), [(128 << 10, 0), (4 * MIB, 0), (128 << 10, 64), (4 * MIB, 64)])
def test_every_format_reads_back(form: str, ahead: int, background: int) -> None:
    config = {**BEST, "max_read_ahead": ahead, "max_background": background}
    (text,) = exporter.render(answer(config), form, {"mount_point": "/mnt/a b"}).values()
    assert exporter.present(text, {}) == config
    assert exporter.lint(text, {}) == []
    assert ("read_ahead_kb" in text) == (ahead > 128 << 10)
    assert ("/max_background" in text) == ("echo 48 >" in text) == (background > 0)


@pytest.mark.parametrize("form", ["script", "systemd"])
def test_a_program_that_is_on_no_usual_path_is_named_by_its_own(form: str) -> None:
    for path, shown in (
        ("/opt/my tools/rclone", "my tools/rclone"),
        ("/usr/bin/rclone", "rclone mount"),
        (None, "rclone mount"),
    ):
        told = replace(answer(), machine={"hosts": ["a", "b"]}, evidence={"measured": {"live": {"program": path}}})
        (text,) = exporter.render(told, form, {}).values()
        assert shown in text
        assert "by 4 at once on each of 2 hosts." in text
        assert ("/opt/" in text) == (path == "/opt/my tools/rclone")
        assert exporter.present(text, {}) == BEST
        assert exporter.lint(text, {}) == []


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("remote", ["store:x", "store:training data", "it's:$HOME`id`\"x"])
def test_the_script_is_sound(remote: str, tmp_path: Path) -> None:
    config = {**BEST, "max_read_ahead": MIB, "max_background": 64}
    texts = exporter.render(answer(config, remote=remote, config="/etc/r c.conf"), "script", {})
    (tmp_path / "mount.sh").write_text(texts["mount.sh"])
    done = subprocess.run(["shellcheck", "-S", "warning", tmp_path / "mount.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    # What the shell makes of it: a stand-in for rclone prints its arguments.
    (tmp_path / "rclone").write_text("#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done\n")
    (tmp_path / "rclone").chmod(0o755)
    script = (tmp_path / "mount.sh").read_text().replace('\nmkdir -p "$point"', "").rpartition("# The kernel")[0]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env=environment)
    words = done.stdout.splitlines()
    assert words[0] == "mount"
    assert words[-2:] == [remote, "/mnt/rclone"]
    assert "--config=/etc/r c.conf" in words


def test_a_mount_point_must_be_a_path() -> None:
    with pytest.raises(WrongUsage, match="--mount-point here"):
        exporter.render(answer(), "script", {"mount_point": "here"})


@pytest.mark.parametrize("form", ["env", "fstab"])
def test_what_root_runs_by_hand_is_quoted(form: str, tmp_path: Path) -> None:
    (text,) = exporter.render(answer({**BEST, "max_background": 64}), form, {"mount_point": "/mnt/it's $(x)"}).values()
    by_hand = text.partition("# Once mounted, as root: ")[2].partition("\n")[0]
    # A stand-in for mountpoint shows what it is asked for, and the mount is 0:7.
    script = f'mountpoint() {{ printf "%s\\n" "$2" >&2; echo 0:7; }}; {by_hand.replace("/sys/fs/fuse/connections", ".")}'
    (tmp_path / "7").mkdir()
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr == "/mnt/it's $(x)\n" * 2
    told = [(tmp_path / "7" / name).read_text() for name in ("max_background", "congestion_threshold")]
    assert told == ["64\n", "48\n"]


def test_a_unit_sets_the_kernels_side_once_it_is_mounted() -> None:
    config = {**BEST, "max_read_ahead": MIB, "max_background": 64}
    (text,) = exporter.render(answer(config), "systemd", {"mount_point": "/mnt/a b"}).values()
    folder = '/sys/fs/fuse/connections/$$(mountpoint -d "$$1" | cut -d: -f2)'
    assert (
        """ExecStartPost=+/bin/sh -c 'echo 1024 >"/sys/class/bdi/$$(mountpoint -d "$$1")/read_ahead_kb" """
        f"""&& echo 64 >"{folder}/max_background" && echo 48 >"{folder}/congestion_threshold"' sh "/mnt/a b"\n"""
    ) in text


RAISED = """rclone mount --daemon a: /m
echo 32 >/sys/fs/fuse/connections/$(mountpoint -d /m | cut -d: -f2)/max_background
echo 24 >/sys/fs/fuse/connections/$(mountpoint -d /m | cut -d: -f2)/congestion_threshold
"""


def test_merging_changes_the_limit_of_requests_with_its_threshold() -> None:
    config = {**BEST, "max_background": 256}
    merged = exporter.merge(RAISED, answer(config), {})
    assert exporter.present(merged.text, {}) == config
    assert "echo 192 >" in merged.text
    assert merged.notes == ()
    (note,) = exporter.merge(UNIT, answer(config), {}).notes
    assert note.startswith("once mounted, as root: echo 256 >")
    (note,) = exporter.merge(RAISED, answer(), {}).notes
    assert note == "take out what sets max_background: it was best left alone"


def test_a_limit_without_its_threshold_is_found() -> None:
    assert exporter.lint(RAISED, {}) == []
    (finding,) = exporter.lint("".join(RAISED.splitlines(keepends=True)[:2]), {})
    assert (finding.line, finding.key) == (2, "max_background")
    assert "echo 24 >" in finding.mend


UNIT = """[Service]
Environment=RCLONE_CONFIG=/etc/rclone.conf
ExecStart=/usr/bin/rclone mount store:x /mnt/x \\
    --buffer-size 32M --vfs-read-chunk-size=64M
Restart=always
"""


def test_merging_changes_the_settings_and_nothing_else() -> None:
    merged = exporter.merge(UNIT, answer(), {}).text
    assert exporter.present(merged, {}) == BEST
    assert "--buffer-size 0 --vfs-read-chunk-size=4M\nRestart=always\n" in merged
    assert merged.startswith("[Service]\nEnvironment=RCLONE_CONFIG=/etc/rclone.conf\nExecStart=/usr/bin/rclone mount --")


def test_merging_into_an_env_file_keeps_its_other_lines() -> None:
    text = "# mine\nRCLONE_BUFFER_SIZE=64M\nOTHER='a b'\n"
    merged = exporter.merge(text, answer(), {}).text
    assert exporter.present(merged, {}) == BEST
    assert "# mine\n" in merged
    assert "OTHER='a b'\n" in merged
    assert merged.count("RCLONE_BUFFER_SIZE") == 1


def test_an_option_wins_over_a_variable() -> None:
    text = "export RCLONE_BUFFER_SIZE=1M\nrclone mount --buffer-size 2M a: /m\n"
    assert exporter.present(text, {})["buffer_size"] == 2 * MIB


def test_what_is_not_tuned_is_told() -> None:
    text = "rclone mount --vfs-cache-mode full --vfs-read-ahead 1G a: /m\n"
    assert exporter.present_notes(text, {}) == ["vfs-cache-mode, vfs-read-ahead: not tuned, and not part of the baseline"]


def test_values_that_can_not_be_read_are_named() -> None:
    with pytest.raises(WrongUsage, match="--buffer-size: '4 M' is no size"):
        exporter.present("rclone mount --buffer-size '4 M' a: /m\n", {})
    with pytest.raises(WrongUsage):
        exporter.present('{"a": 1}', {})


BAD = """#!/bin/sh
export RCLONE_BUFFER_SIZE=16777216
export RCLONE_VFS_READ_CHUNK_STREAM=8
export RCLONE_ASYNC_READ=yes
rclone mount --vfs-read-chunksize 4M --vfs-read-ahead 256M \\
    --max-read-ahead 1M --daemon store:x /mnt/x
"""


def test_lint_finds_what_rclone_refuses_or_misreads() -> None:
    found = {(finding.line, finding.key): finding for finding in exporter.lint(BAD, {})}
    assert set(found) == {
        (2, "RCLONE_BUFFER_SIZE"),
        (3, "RCLONE_VFS_READ_CHUNK_STREAM"),
        (4, "RCLONE_ASYNC_READ"),
        (5, "--vfs-read-chunksize"),
    }
    assert found[2, "RCLONE_BUFFER_SIZE"].message == "a size without a unit is KiB: 16777216 is 16G, not 16M"
    assert all(finding.safe for finding in found.values())
    fixed = exporter.fix(BAD, {})
    assert "RCLONE_BUFFER_SIZE=16M\n" in fixed
    assert "RCLONE_VFS_READ_CHUNK_STREAMS=8\n" in fixed
    assert "RCLONE_ASYNC_READ=true\n" in fixed
    assert "--vfs-read-chunk-size 4M" in fixed
    left = {finding.key: finding for finding in exporter.lint(fixed, {})}
    assert set(left) == {"vfs-read-ahead", "max-read-ahead"}
    assert "128K" in left["max-read-ahead"].message
    assert "--vfs-cache-mode full" in left["vfs-read-ahead"].message


def test_open_files_are_held_against_the_memory() -> None:
    text = "RCLONE_VFS_READ_CHUNK_STREAMS=32\nRCLONE_VFS_READ_CHUNK_SIZE=128M\n"
    assert exporter.lint(text, {}) == []
    (finding,) = exporter.lint(text, {"open_files": 4000})
    assert "4000 open files can hold 16062.5 GiB" in finding.message


def test_files_of_others_are_left_alone() -> None:
    assert not exporter.matches("job.sh", "rclone copy a: b:\n")
    assert not exporter.matches("rclone.conf", "[store]\ntype = s3\nsecret_access_key = x\n")
    assert exporter.matches("x.env", "RCLONE_BUFFER_SIZE=1M\n")
    assert exporter.matches("x.service", UNIT)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4M", 4 * MIB),
        ("4Mi", 4 * MIB),
        ("4MiB", 4 * MIB),
        ("512K", 512 << 10),
        ("1.5G", 3 << 29),
        ("7", 7 << 10),
        ("9B", 9),
        ("0", 0),
    ],
)
def test_sizes_as_rclone_counts(text: str, count: int) -> None:
    assert size(text) == count


@given(st.text(max_size=300))
def test_any_text_is_linted(text: str) -> None:
    findings = exporter.lint(text, {})
    if any(finding.safe for finding in findings):
        assert exporter.fix(text, {}) != text
