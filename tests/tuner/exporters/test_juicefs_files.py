"""JuiceFS' files: written, read back as the baseline, merged into a user's, and linted."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spaces.juicefs import SPACE
from tuner.errors import WrongUsage
from tuner.exporters import juicefs as exporter
from tuner.exporters.juicefs.words import size
from tuner.recommendation import Gain, Recommendation

MIB = 1 << 20
BEST = {**SPACE.default, "max_readahead": 64 * MIB, "buffer_size": 512 * MIB, "prefetch": 0}


def answer(config: dict[str, object] = BEST, **options: object) -> Recommendation:
    told = {"meta": "redis://meta:6379/1", "pattern": "random", "jobs": 2, **options}
    gain = Gain(1.5, 1.4, 1.6, 0.9)
    return Recommendation(
        "j-1",
        "juicefs",
        "fio",
        "adopt",
        config,
        SPACE.default,
        gain,
        "r",
        {"x": 1.0},
        {"x": 0.8},
        options=told,
    )


@pytest.mark.parametrize("form", [form.name for form in exporter.FORMATS])
@pytest.mark.parametrize(("ahead", "background"), [(128 << 10, 0), (4 * MIB, 0), (128 << 10, 64), (4 * MIB, 64)])
def test_every_format_reads_back(form: str, ahead: int, background: int) -> None:
    config = {**BEST, "kernel_read_ahead": ahead, "max_background": background}
    (text,) = exporter.render(answer(config), form, {}).values()
    assert exporter.present(text, {}) == config
    assert exporter.lint(text, {}) == []
    assert "1.50x the speed of the baseline" in text


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_script_is_sound(tmp_path: Path) -> None:
    config = {**BEST, "kernel_read_ahead": MIB, "max_background": 64}
    texts = exporter.render(answer(config, meta="sqlite3:///a b/it's.db"), "script", {})
    (tmp_path / "mount.sh").write_text(texts["mount.sh"])
    done = subprocess.run(["shellcheck", "-S", "warning", tmp_path / "mount.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (tmp_path / "juicefs").write_text("#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done\n")
    (tmp_path / "juicefs").chmod(0o755)
    script = texts["mount.sh"].replace('\nmkdir -p "$point"', "").rpartition("# The kernel")[0]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-2:] == ["sqlite3:///a b/it's.db", "/mnt/juicefs"]


FSTAB = "UUID=1 / ext4 defaults 0 1\nredis://meta/1 /jfs juicefs _netdev,max-readahead=4,writeback 0 0\n"


def test_merging_changes_the_settings_and_nothing_else() -> None:
    merged = exporter.merge(FSTAB, answer(), {})
    assert exporter.present(merged.text, {}) == BEST
    assert merged.text.startswith(
        "UUID=1 / ext4 defaults 0 1\nredis://meta/1 /jfs juicefs _netdev,max-readahead=64,writeback,"
    )
    assert merged.notes == ()


def test_what_a_line_can_not_set_is_told() -> None:
    merged = exporter.merge(FSTAB, answer({**BEST, "kernel_read_ahead": MIB, "max_background": 64}), {})
    ahead, background = merged.notes
    assert "echo 1024 >" in ahead
    assert "echo 64 >" in background
    assert "echo 48 >" in background


def test_files_without_a_mount_are_refused() -> None:
    with pytest.raises(WrongUsage, match="juicefs mount"):
        exporter.merge("juicefs format x y\n", answer(), {})
    with pytest.raises(WrongUsage, match="--buffer-size: 'lots' is no size"):
        exporter.present("juicefs mount --buffer-size lots x y\n", {})


def test_a_unit_that_sets_the_kernels_side_is_changed_there() -> None:
    first = {**BEST, "kernel_read_ahead": MIB, "max_background": 64}
    other = {**BEST, "kernel_read_ahead": 2 * MIB, "max_background": 512}
    (text,) = exporter.render(answer(first), "systemd", {}).values()
    merged = exporter.merge(text, answer(other), {})
    assert merged.text == exporter.render(answer(other), "systemd", {})["juicefs-mount.service"]
    assert merged.notes == ()


BAD = (
    "juicefs mount --buffersize=300 --max-readahead 67108864 --buffer-size=16 --cache-size 0 --prefetch 3 redis://m /jfs -d\n"
)


def test_lint_finds_what_juicefs_refuses_or_misreads() -> None:
    found = {finding.key: finding for finding in exporter.lint(BAD, {}) if finding.key != "--prefetch"}
    assert found["--buffersize"].mend == "--buffer-size"
    assert "67108864 is 64 TiB" in found["--max-readahead"].message
    fixed = exporter.fix(BAD, {})
    assert "--max-readahead 64 " in fixed
    assert "--buffersize" not in fixed
    keys = [finding.key for finding in exporter.lint(fixed, {})]
    assert "--prefetch" in keys, "with --cache-size 0 it is turned off"
    assert "--max-readahead" in keys, "it does not fit the buffer"


@pytest.mark.parametrize(
    ("text", "count"), [("300", 300 * MIB), ("300M", 300 * MIB), ("1G", 1 << 30), ("64MiB", 64 * MIB), ("0", 0)]
)
def test_sizes_as_juicefs_counts(text: str, count: int) -> None:
    assert size(text) == count


@given(st.text(max_size=300))
def test_any_text_is_linted(text: str) -> None:
    for command in ("", "juicefs mount ", "x /y juicefs "):
        findings = exporter.lint(command + text, {})
        if any(finding.safe for finding in findings):
            assert exporter.fix(command + text, {}) != command + text
