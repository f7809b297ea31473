"""What a mount's files hold and must not be printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner import targets
from tuner.exporters.mountsecrets import masked
from tuner.lint import hiding

SECRET = "not-to-be-shown"


@pytest.mark.parametrize(
    "line",
    [
        f"juicefs mount redis://:{SECRET}@meta:6379/1 /m",
        f"juicefs mount 'mysql://user:{SECRET}@(meta:3306)/jfs' /m",
        f"juicefs mount 'redis://meta/1?password={SECRET}&x=1' /m",
        f"export META_PASSWORD={SECRET}",
        f"META_PASSWORD='{SECRET} {SECRET}' juicefs mount redis://meta/1 /m",
        f'Environment="META_PASSWORD={SECRET} {SECRET}"',
        f"RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY={SECRET}/a+b=",
        f"rclone mount :s3,provider=Other,secret_access_key={SECRET}:b /m",
        f"rclone mount store:b /m --s3-secret-access-key {SECRET} --buffer-size 16M",
    ],
)
def test_secrets_are_hidden_and_the_rest_is_shown(line: str) -> None:
    text = masked(f"# a password goes into META_PASSWORD\n{line}\n--buffer-size=16M\n")
    assert SECRET not in text
    assert text.startswith("# a password goes into META_PASSWORD\n")
    assert text.endswith("\n--buffer-size=16M\n")


@pytest.mark.parametrize("target", ["rclone", "juicefs"])
def test_the_targets_whose_files_are_mounts_hide_them(target: str) -> None:
    hide = hiding(targets.load(target).exporter)  # type: ignore[arg-type]
    assert SECRET not in hide(f"META_PASSWORD={SECRET}\n")


@pytest.mark.parametrize("example", ["rclone/rclone.env", "juicefs/mount.sh"])
def test_a_file_without_secrets_is_shown_as_it_is(example: str) -> None:
    text = (Path(__file__).parents[3] / "examples" / example).read_text()
    assert masked(text) == text


@given(st.text(max_size=200))
def test_lines_stay_lines(text: str) -> None:
    assert masked(text).count("\n") == text.count("\n")
