"""Options of mount commands in scripts, units and fstab lines: found and changed, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from tuner.exporters.mountline import commands, put, renamed, settings

SCRIPT = """#!/bin/sh
# rclone mount --buffer-size 99M is what we had
/usr/bin/rclone mount --config=/etc/rclone.conf --buffer-size 32M \\
    --vfs-read-chunk-size=64M --allow-other "store:a b" /mnt/a \\
    --daemon
echo --buffer-size 7M
rclone copy --buffer-size 1M a: b:
"""
FSTAB = "UUID=1 / ext4 defaults 0 1\nstore:x /mnt/x rclone rw,vfs_cache_mode=full,buffer-size=8M,_netdev 0 0\n"


def test_options_of_the_mount_command_alone() -> None:
    found = [(each.name, each.value, each.line, each.bare) for each in settings(SCRIPT, "rclone", {"allow-other", "daemon"})]
    assert found == [
        ("config", "/etc/rclone.conf", 3, False),
        ("buffer-size", "32M", 3, False),
        ("vfs-read-chunk-size", "64M", 4, False),
        ("allow-other", "", 4, True),
        ("daemon", "", 5, True),
    ]


def test_an_option_is_set_where_it_stands() -> None:
    changed = put(SCRIPT, "rclone", "buffer-size", "0")
    assert changed == SCRIPT.replace("--buffer-size 32M", "--buffer-size 0")


def test_a_new_option_goes_behind_the_word_mount() -> None:
    changed = put(SCRIPT, "rclone", "vfs-read-chunk-streams", "8")
    assert changed == SCRIPT.replace("/usr/bin/rclone mount", "/usr/bin/rclone mount --vfs-read-chunk-streams=8")


def test_fstab_lines() -> None:
    assert [(each.name, each.value) for each in settings(FSTAB, "rclone")] == [
        ("rw", ""),
        ("vfs-cache-mode", "full"),
        ("buffer-size", "8M"),
        ("-netdev", ""),
    ]
    changed = put(put(FSTAB, "rclone", "vfs-cache-mode", "off"), "rclone", "async-read", "false")
    assert changed == FSTAB.replace("=full", "=off").replace("_netdev", "_netdev,async-read=false")
    assert commands(FSTAB, "juicefs") == []


def test_a_renamed_option_keeps_its_value() -> None:
    (_, each, *_) = settings(SCRIPT, "rclone")
    assert renamed(SCRIPT, each, "use-mmap") == SCRIPT.replace("--buffer-size 32M", "--use-mmap 32M")


def test_a_switch_takes_a_value_only_behind_a_sign() -> None:
    text = "rclone mount --async-read store:x /mnt --read-only=false\n"
    found = settings(text, "rclone", {"async-read", "read-only"})
    assert [(each.name, each.value, each.bare) for each in found] == [("async-read", "", True), ("read-only", "false", False)]
    assert put(text, "rclone", "async-read", "false", {"async-read"}).startswith("rclone mount --async-read=false store:x")


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    for each in settings(text, "rclone"):
        assert each.value == "" or text[each.start : each.end]


@given(st.text(alphabet="abrclone mount-=\n\\\"'#/ ", max_size=120))
def test_setting_an_option_reads_back(text: str) -> None:
    changed = put(text, "rclone", "buffer-size", "5M")
    if commands(text, "rclone"):
        values = [each.value for each in settings(changed, "rclone") if each.name == "buffer-size"]
        assert values
        assert set(values) == {"5M"}
    else:
        assert changed == text
