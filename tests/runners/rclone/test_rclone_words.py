"""rclone's options and remotes as text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.rclone.words import absolute, check_remote, connection, differences, environment, flags, left_out, spelled
from runners.runner import UsageError
from spaces.rclone import SPACE


def test_sizes_carry_a_unit_because_a_number_alone_is_kib() -> None:
    config = {
        **SPACE.default,
        **{"vfs_read_chunk_streams": 8, "vfs_read_chunk_size": 4 << 20, "buffer_size": 0, "max_background": 64},
    }
    assert flags(config) == [
        "--vfs-read-chunk-streams=8",
        "--vfs-read-chunk-size=4M",
        "--buffer-size=0",
        "--max-read-ahead=128K",
        "--async-read=true",
    ]
    assert spelled(1000, "bytes") == "1000B"


def test_live_values_that_differ_are_named() -> None:
    live = {
        "vfs": {"ChunkStreams": 0, "ChunkSize": 128 << 20},
        "main": {"BufferSize": 16 << 20},
        "mount": {"MaxReadAhead": 128 << 10, "AsyncRead": True},
    }
    assert differences(SPACE.default, live) == []
    assert differences({**SPACE.default, "buffer_size": 1 << 20}, live) == ["--buffer-size was set to 1048576 and is 16777216"]
    assert len(differences(SPACE.default, {})) == 5


@pytest.mark.parametrize("remote", ["store:bucket/x", ":s3,provider=Other:bucket", "/tmp", "store:"])
def test_remotes_that_may_be_kept(remote: str) -> None:
    assert check_remote(remote) == remote


@pytest.mark.parametrize(
    "remote",
    [
        ":s3,access_key_id=AKIA77,secret_access_key=hush77:bucket",
        ":sftp,host=h,pass=hush77:x",
        'store,bearer_token="hush77:more":x',
    ],
)
def test_a_secret_in_a_remote_is_refused_and_not_repeated(remote: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_remote(remote)
    assert "hush77" not in str(caught.value)
    assert "rclone.conf" in str(caught.value)


@pytest.mark.parametrize("remote", ["", "--config=x", "no-such-folder", "a\nb:c"])
def test_what_is_no_remote(remote: str) -> None:
    with pytest.raises(UsageError):
        check_remote(remote)


def test_folders_are_named_from_the_root() -> None:
    assert absolute("data") == str(Path("data").absolute())
    assert absolute("store:data") == "store:data"
    assert absolute(":local:x") == ":local:x"


@given(st.text(alphabet="ab:,='\"", max_size=30))
def test_the_connection_is_a_beginning(remote: str) -> None:
    assert remote.startswith(connection(remote))


def test_what_a_shell_sets_for_reading_is_left_out_and_credentials_stay() -> None:
    shell = {"PATH": "/bin", "RCLONE_S3_ACCESS_KEY_ID": "k", "RCLONE_CONFIG_STORE_TYPE": "s3", "RCLONE_BUFFER_SIZE": "1G",
             "RCLONE_VFS_CACHE_MODE": "full"}  # fmt: skip
    assert left_out(shell) == ["RCLONE_BUFFER_SIZE", "RCLONE_VFS_CACHE_MODE"]
    assert environment(shell) == {
        "PATH": "/bin",
        "RCLONE_S3_ACCESS_KEY_ID": "k",
        "RCLONE_CONFIG_STORE_TYPE": "s3",
        "RCLONE_VFS_HANDLE_CACHING": "0s",
    }


@pytest.mark.parametrize(
    "remote",
    [
        ":http,url='https://user:not-to-be-shown@host/':x",
        ':webdav,url="https://user:not-to-be-shown@host":x',
        ":http,url='https://host/?sig=not-to-be-shown':x",
    ],
)
def test_secrets_in_an_address_are_refused_and_not_repeated(remote: str) -> None:
    with pytest.raises(UsageError, match="names a secret") as caught:
        check_remote(remote)
    assert "not-to-be-shown" not in str(caught.value)


def test_addresses_without_secrets_may_be_kept() -> None:
    check_remote(":http,url='http://127.0.0.1:8080/':x")
