"""Alluxio's files: written by version, merged, read back, linted and mended, with credentials hidden in all that is shown."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runners.alluxio.properties import last
from runners.alluxio.secrets import HIDDEN, is_secret, masked
from spaces.alluxio import SPACE
from tuner.errors import WrongUsage
from tuner.exporters import alluxio
from tuner.exporters.alluxio.names import names, nearest, slips
from tuner.recommendation import Gain, Recommendation

P = "alluxio.user.position.reader.streaming.async.prefetch."
M = 1 << 20


def answer(version: str | None = None, study: str = "alluxio-20260131-142501-3f2a", **changes: Any) -> Recommendation:
    return Recommendation(
        study, "alluxio", "fio", "adopt", {**SPACE.default, **changes}, SPACE.default, Gain(1.31, 1.24, 1.39, 0.9), "r",
        {"read_mib_s": 100.0}, {"read_mib_s": 80.0}, machine={"alluxio": version} if version else {},
    )  # fmt: skip


def render(recommendation: Recommendation, format: str, **options: Any) -> str:
    (text,) = alluxio.render(recommendation, format, options).values()
    return text


def lines_of(text: str, **options: Any) -> dict[int, Any]:
    return {finding.line: finding for finding in alluxio.lint(text, options)}


# -- written -----------------------------------------------------------------------------------------------------------


def test_a_site_file_says_what_it_is_worth_and_for_which_version() -> None:
    text = render(answer("3.6", max_part_number=16), "site")
    assert "# study alluxio-20260131-142501-3f2a for Alluxio 3.6, 2026-01-31: 31 % faster (90 % interval 24 to 39 %)\n" in text
    assert "with -XX:MaxDirectMemorySize=4g or more (ALLUXIO_FUSE_JAVA_OPTS), which is no property\n" in text
    assert {key: entry.value for key, entry in last(text).items()} == {P + "max.part.number": "16"}


def test_a_default_that_beats_the_baseline_is_written_too() -> None:
    config = {**SPACE.default, "max_part_number": 16}
    back = Recommendation("s", "alluxio", "e", "adopt", SPACE.default, config, Gain(1.3, 1.2, 1.4, 0.9), "r", {}, {})
    assert {key: entry.value for key, entry in last(render(back, "site")).items()} == {P + "max.part.number": "8"}


def test_values_are_in_the_one_spelling_that_all_read() -> None:
    text = render(answer(part_length=256 << 10, prefetch=True, shared_reads=True, file_length_threshold=2**30), "site")
    values = {key: entry.value for key, entry in last(text).items()}
    assert values[P + "part.length"] == "256KB"
    assert values[P + "file.length.threshold"] == "1GB"
    assert values[P + "by.file.enabled"] == values[P + "shared.cache.enabled"] == "true"
    assert text.isascii()


@pytest.mark.parametrize("version", ["2.9.5", "oss-3", "3.1", "3.6"])
def test_a_user_s_word_on_the_version_counts_more_than_the_study_s(version: str) -> None:
    config = {**SPACE.pool(random.Random(4), 50)[7], "chunk_size": 4 * M, "multiplier": 4, "max_part_number": 2}
    text = render(answer("3.6", **config), "site", alluxio_version=version, alluxio_here="3.9")
    assert ("async.prefetch" in text) == version.startswith("3.")
    assert ("reader.chunk.size" in text) == (version == "2.9.5")
    assert ("multiplier" in text) == (version == "oss-3")


def test_the_name_of_a_study_can_t_break_out_of_a_comment() -> None:
    recommendation = answer(study="x\nalluxio.user.file.buffer.bytes=1 é")
    for form in alluxio.FORMATS:
        text = render(recommendation, form.name)
        assert "\nalluxio.user.file.buffer.bytes" not in text
        assert text.isascii()


def test_the_jvm_s_memory_goes_beside_the_properties() -> None:
    text = render(answer(direct_memory=16 << 30), "env")
    assert text.splitlines()[-1] == 'ALLUXIO_FUSE_JAVA_OPTS="${ALLUXIO_FUSE_JAVA_OPTS:-} -XX:MaxDirectMemorySize=16g"'
    assert render(answer(page_cache="direct_io"), "mount").splitlines()[-1] == "attr_timeout=600,entry_timeout=600,direct_io"


@pytest.mark.parametrize("form", ["operator", "fluid"])
def test_kubernetes_gets_strings(form: str) -> None:
    text = render(answer("3.6", prefetch_threads=128, shared_reads=True, page_cache="kernel_cache"), form)
    document = yaml.safe_load(text)
    properties = document["spec"]["properties"]
    assert properties[P + "thread"] == "128"
    assert all(isinstance(value, str) for value in properties.values())
    assert "alluxio.fuse.mount.options" not in properties
    assert document["spec"]["fuse"]["jvmOptions"] == ["-XX:MaxDirectMemorySize=4g"]
    shown = document["spec"]["fuse"].get("mountOptions") or document["spec"]["fuse"]["args"]
    assert "kernel_cache" in str(shown)


def test_the_operator_of_open_source_has_another_version() -> None:
    assert yaml.safe_load(render(answer("oss-3"), "operator"))["apiVersion"] == "k8s-operator.alluxio.com/v1alpha1"
    assert yaml.safe_load(render(answer("3.6"), "operator"))["apiVersion"] == "k8s-operator.alluxio.com/v1"


def test_settings_that_were_kept_are_called_so() -> None:
    kept = Recommendation("s", "alluxio", "e", "keep", SPACE.default, SPACE.default, None, "r", {}, {})
    assert "nothing beat the settings that were there" in render(kept, "site")


@pytest.mark.parametrize(
    ("options", "said"),
    [({"alluxio_version": "new"}, "--alluxio-version new"), ({"direct_memory": "much"}, "--direct-memory much"),
     ({"open_files": 0}, "--open-files 0")],
)  # fmt: skip
def test_options_that_can_t_be_used_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUsage, match=said):
        alluxio.lint("", options)
    with pytest.raises(WrongUsage, match="--format nope"):
        alluxio.render(answer(), "nope", {})


# -- merged and read ---------------------------------------------------------------------------------------------------


def test_a_second_export_replaces_the_first() -> None:
    user = f"# mine\n{P}thread=64\n"
    once = alluxio.merge(user, answer("3.6", prefetch_threads=128), {}).text
    twice = alluxio.merge(once, answer("3.6", max_part_number=16), {}).text
    assert twice.count(">>> clustertune") == 1
    assert alluxio.present(twice, {})["prefetch_threads"] == 64
    assert alluxio.present(twice, {})["max_part_number"] == 16


def test_what_is_no_properties_file_is_refused() -> None:
    for text in ('{"a": 1}', "<configuration/>", "\0"):
        with pytest.raises(WrongUsage, match="no properties file"):
            alluxio.merge(text, answer(), {})
    with pytest.raises(WrongUsage, match="line 2"):
        alluxio.merge("a=1\nb=\\u12\n", answer(), {})


def test_what_counts_for_nothing_is_told_beside_the_present_settings() -> None:
    (note,) = alluxio.present_notes(f"a=1\n{P}thread=64\n", {"alluxio_version": "2.9.5"})
    assert note.startswith(f"line 2: {P}thread does nothing in Alluxio 2.9.5 (2.x)")
    assert alluxio.present_notes(f"{P}thread=64\n", {}) == []


# -- lint --------------------------------------------------------------------------------------------------------------


def test_names_are_found_to_be_slips_only_where_they_are() -> None:
    assert nearest(P + "threads") == P + "thread"
    assert nearest(P.replace("prefetch", "prefecth") + "thread") == P + "thread"
    assert nearest(P.replace("alluxio.", "") + "thread") == P + "thread"
    assert nearest("Alluxio.User.File.Buffer.Bytes") == "alluxio.user.file.buffer.bytes"
    for other in ("s3a.secretKey", "alluxio.license", P.replace("async", "slow.async") + "max.part.number",
                  "alluxio.user.consistent.hash.virtual.node.count",
                  "alluxio.worker.s3.async.prefetch.part.length"):  # fmt: skip
        assert nearest(other) is None
    assert nearest(P + "thread") is None
    assert len(names()) > 200


@given(st.text("abc.", max_size=8), st.text("abc.", max_size=8))
def test_slips_are_a_distance(one: str, other: str) -> None:
    far = 99
    assert slips(one, other, far) == slips(other, one, far)
    assert (slips(one, other, far) == 0) == (one == other)
    assert slips(one, other, 2) == slips(one, other, far) or slips(one, other, far) > 2
    assert abs(len(one) - len(other)) <= slips(one, other, far) <= max(len(one), len(other))


def test_a_misspelt_key_is_renamed_or_dropped() -> None:
    text = f"{P}threads=128\n"
    assert lines_of(text)[1].safe
    assert alluxio.fix(text, {}) == f"{P}thread=128\n"
    both = f"{P}threads=128\n{P}thread=64\n"
    assert alluxio.fix(both, {}) == f"# {P}threads=128\n{P}thread=64\n"


def test_an_unknown_key_is_told_where_the_list_is_whole() -> None:
    text = "alluxio.user.made.up=1\nalluxio.master.something=1\ns3a.x=1\n"
    assert list(lines_of(text, alluxio_version="2.9.5")) == [1]
    assert lines_of(text, alluxio_version="3.6") == {}
    assert lines_of(text) == {}


@pytest.mark.parametrize(
    ("line", "version", "fixed"),
    [
        (f"{P}part.length=4 MB", "3.1", f"{P}part.length=4MB"),
        (f"{P}part.length=4MiB", None, f"{P}part.length=4MB"),
        ("alluxio.user.metrics.collection.enabled=1", None, "alluxio.user.metrics.collection.enabled=true"),
        (f"{P}thread=64 # pool", None, f"# pool\n{P}thread=64"),
        (f"{P}part.length = 4 MB # four", None, None),
        ("alluxio.user.metadata.cache.expiration.time=2 h", None, "alluxio.user.metadata.cache.expiration.time=2h"),
        (f"{P}thread=1,024", None, f"{P}thread=1024"),
        (f"{P}thread=many", None, None),
        (f"{P}thread=0", None, None),
        ("alluxio.fuse.mount.options=kernel_cache,direct_io", None, None),
        ("alluxio.fuse.mount.options=-o allow_other", None, "alluxio.fuse.mount.options=allow_other"),
        ("alluxio.conf.dir=/etc/alluxio", None, None),
        ("alluxio.logs.dir=/var/log", None, None),
        ("a=${b}\nb=${a}", None, None),
        (f"{P}enable=true", "3.6", f"# {P}enable=true"),
        (f"{P}thread=64", "2.9.5", f"# {P}thread=64"),
        ("alluxio.user.file.buffer.bytes=3GB", None, None),
    ],
)
def test_every_kind_of_trap_is_found(line: str, version: str | None, fixed: str | None) -> None:
    options = {"alluxio_version": version} if version else {}
    found = alluxio.lint(f"# head\n{line}\n", options)
    assert found
    assert all(finding.line >= 2 and finding.message and finding.mend for finding in found)
    assert any(finding.safe for finding in found) == (fixed is not None)
    mended = alluxio.fix(f"# head\n{line}\n", options)
    assert mended == f"# head\n{fixed or line}\n"
    if fixed is not None:
        assert alluxio.lint(mended, options) == []


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "alluxio.master.hostname=h\n", "alluxio.user.short.circuit.enabled=off\n", f"{P}part.length=1.5MB\n",
     "alluxio.user.file.buffer.bytes : 8m\r\n", "alluxio.work.dir=${alluxio.home}/w\n",
     f"{P}thread=${{my.threads}}\nmy.threads=4\n"],
)  # fmt: skip
def test_what_works_is_left_alone(text: str) -> None:
    assert alluxio.lint(text, {}) == []
    assert alluxio.fix(text, {}) == text


def test_duplicates_and_other_names_of_one_key() -> None:
    found = lines_of(f"{P}thread=1\n{P}thread=2\n{P}thread=3\n")
    assert list(found) == [3]
    assert "lines 1, 2" in found[3].message
    other = lines_of("alluxio.user.network.reader.chunk.size.bytes=1MB\nalluxio.user.streaming.reader.chunk.size.bytes=2MB\n")
    assert "another name" in other[2].message
    assert not other[2].safe


def test_windows_are_held_against_the_memory_that_is_known() -> None:
    text = f"{P}part.length=16MB\n{P}max.part.number=64\n"
    assert lines_of(text) == {}
    (finding,) = alluxio.lint(text, {"open_files": 80, "direct_memory": "8G"})
    assert finding.line == 2
    assert "80 GiB" in finding.message
    assert "-XX:MaxDirectMemorySize=81g" in finding.message
    assert alluxio.lint(text, {"open_files": 80, "direct_memory": "96G"}) == []


def test_letters_in_utf_8_are_told_and_escaped() -> None:
    text = "alluxio.user.hostname=caf\u00c3\u00a9\n"  # what ISO-8859-1 makes of UTF-8 bytes
    assert lines_of(text)[1].safe
    assert alluxio.fix(text, {}) == "alluxio.user.hostname=caf\\u00e9\n"
    assert alluxio.lint("alluxio.user.hostname=caf\u00e9\n", {}) == []
    secret = "s3a.secretKey=caf\u00c3\u00a9\n"
    assert not lines_of(secret)[1].safe


def test_a_byte_order_mark_is_told_and_taken_away() -> None:
    text = f"\xef\xbb\xbf{P}thread=64\n"
    assert alluxio.present(text, {})["prefetch_threads"] == 64
    found = alluxio.lint(text, {})
    assert found[0].line == 1
    assert found[0].safe
    assert alluxio.fix(text, {}) == f"{P}thread=64\n"


def test_only_alluxio_s_files_are_taken_for_them() -> None:
    assert alluxio.matches("alluxio-site.properties", "")
    assert alluxio.matches("x.properties", " alluxio.a=1\n")
    assert not alluxio.matches("x.properties", "log4j.root=1\n")
    assert not alluxio.matches("x.yaml", "alluxio.a: 1\n")


@given(st.text(st.sampled_from("al.uxio=: \\\n\r#!u0é"), max_size=80))
def test_any_text_is_linted_and_mended_once_and_for_all(text: str) -> None:
    if text.lstrip().startswith(("{", "[", "<")):
        return
    mended = alluxio.fix(text, {"alluxio_version": "2.9.5"})
    assert not [finding for finding in alluxio.lint(mended, {"alluxio_version": "2.9.5"}) if finding.safe]


# -- credentials -------------------------------------------------------------------------------------------------------

SECRETS = """\
s3a.accessKeyId=AKIA4711
s3a.secretKey=abc\\
   4711
#s3a.secretKey=old4711
alluxio.license=lic4711
fs.azure.account.key.x.blob.core.windows.net: key4711
fs.gcs.credential.path=/etc/4711.json
alluxio.underfs.hdfs.x=http://user:pw4711@host/
alluxio.user.file.buffer.bytes=8MB
"""


def test_credentials_are_hidden_with_the_lines_kept() -> None:
    hidden = masked(SECRETS)
    assert "4711" not in hidden
    assert len(hidden.splitlines()) == len(SECRETS.splitlines())
    assert "alluxio.user.file.buffer.bytes=8MB" in hidden
    assert hidden.count(HIDDEN) == 7


def test_nothing_that_lint_says_holds_a_credential() -> None:
    text = SECRETS + SECRETS.replace("4711", "4711 # c") + "s3a.secretkey=4711\nalluxio.user.tokens=4711\n"
    said = " ".join(f"{f.message} {f.mend} {f.key}" for f in alluxio.lint(text, {"alluxio_version": "2.9.5"}))
    assert "4711" not in said


def test_settings_of_ours_are_no_credentials() -> None:
    assert not any(is_secret(name) for name in names() if name.startswith(("alluxio.user.", "alluxio.fuse.")))
