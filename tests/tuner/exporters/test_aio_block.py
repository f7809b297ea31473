"""The aio block is written, merged and read as DeepSpeed loads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spaces.aio import SPACE
from tuner.errors import WrongUsage
from tuner.exporters import aio
from tuner.recommendation import Recommendation

DATA = Path(__file__).parents[2] / "data" / "aio"
BEST = {"block_size": 1 << 21, "queue_depth": 32, "intra_op_parallelism": 4, "single_submit": False, "overlap_events": True}
OLD = {"deepspeed_version": "0.16.3"}
PRESENT = {"deepspeed_version": "0.16.4"}


def recommendation(config=None):
    config = config or BEST
    return Recommendation("aio-1", "aio", "native", "adopt", config, SPACE.default, None, "faster", {}, {})


def read(name):
    return (DATA / name).read_bytes().decode()


def test_the_exported_file_is_the_block_and_nothing_else():
    assert aio.render(recommendation(), "aio", {}) == {
        "aio.json": '{\n  "aio": {\n    "block_size": 2097152,\n    "queue_depth": 32,\n    "intra_op_parallelism": 4,\n'
        '    "single_submit": false,\n    "overlap_events": true\n  }\n}\n'
    }


@pytest.mark.parametrize(
    ("version", "key"),
    [
        (None, "intra_op_parallelism"),
        ("0.16.4", "intra_op_parallelism"),
        ("0.17", "intra_op_parallelism"),
        ("v1.0.0+cu124", "intra_op_parallelism"),
        ("0.16.4rc1", "intra_op_parallelism"),
        ("0.16.3", "thread_count"),
        ("0.15.0", "thread_count"),
        ("0.9", "thread_count"),
    ],
)
def test_the_thread_key_is_the_one_that_the_version_reads(version, key):
    block = json.loads(aio.render(recommendation(), "aio", {"deepspeed_version": version})["aio.json"])["aio"]
    assert {"intra_op_parallelism", "thread_count"} & block.keys() == {key}
    assert block[key] == 4


def test_what_can_t_be_used_is_named():
    with pytest.raises(WrongUsage, match="--deepspeed-version new"):
        aio.render(recommendation(), "aio", {"deepspeed_version": "new"})
    with pytest.raises(WrongUsage, match="--format yaml"):
        aio.render(recommendation(), "yaml", {})
    with pytest.raises(WrongUsage, match="--ranks 0"):
        aio.lint("{}", {"ranks": 0})


@pytest.mark.parametrize("name", ["ds_printed.json", "ds_nested.json", "ds_old.json", "ds_elements.json"])
@pytest.mark.parametrize("options", [PRESENT, OLD])
def test_merging_sets_the_block_and_keeps_the_rest(name, options):
    text = read(name)
    merged = aio.merge(text, recommendation(), options)
    before, after = json.loads(text), json.loads(merged.text)
    before.pop("aio", None)
    before["zero_optimization"].pop("aio", None)
    block = after.pop("aio")
    assert after == before
    assert list(after) == list(before)
    assert block == json.loads(aio.render(recommendation(), "aio", options)["aio.json"])["aio"]
    kept = [
        line for line in text.split("\n") if "aio" not in line and "offload_param" not in line and "gradient_cl" not in line
    ]
    outside = [line for line in kept if not any(key in line for key in ("submit", "events", "threads", "queue", "block"))]
    assert all(line in merged.text.split("\n") for line in outside)
    assert aio.merge(merged.text, recommendation(), options).text == merged.text
    assert aio.present(merged.text, options) == BEST


def test_other_keys_of_the_block_and_its_layout_stay():
    block = '\r\n\t\t"use_gds" : false, "thread_count" : 8,\r\n\t\t"queue_depth" : 8\r\n\t'
    text = f'\ufeff{{\r\n\t"aio" : {{{block}}},\r\n\t"x" : 1\r\n}}'
    merged = aio.merge(text, recommendation(), {})
    assert merged.text == (
        '\ufeff{\r\n\t"aio" : {\r\n\t\t"use_gds" : false, "intra_op_parallelism" : 4,\r\n\t\t"queue_depth" : 32,\r\n'
        '\t\t"block_size" : 2097152,\r\n\t\t"single_submit" : false,\r\n\t\t"overlap_events" : true\r\n\t},\r\n\t"x" : 1\r\n}'
    )
    assert merged.notes == ("replaced thread_count in aio by intra_op_parallelism, the name that DeepSpeed reads",)


def test_a_nested_block_comes_up_with_its_other_keys():
    text = '{"zero_optimization": {"stage": 3, "aio": {"use_gds": false, "num_threads": 2}}, "aio": null}'
    merged = aio.merge(text, recommendation(), {})
    assert json.loads(merged.text) == {"zero_optimization": {"stage": 3}, "aio": {"use_gds": False, **BEST}}
    assert [note.split()[0] for note in merged.notes] == ["moved", "replaced"]


def test_of_two_blocks_the_one_at_the_top_stays():
    text = '{"zero_optimization": {"offload_param": {"aio": {"x": 1}}}, "aio": {"use_gds": false}}'
    merged = aio.merge(text, recommendation(), {})
    assert json.loads(merged.text) == {"zero_optimization": {"offload_param": {}}, "aio": {"use_gds": False, **BEST}}
    assert merged.notes == ("removed the aio inside zero_optimization.offload_param: DeepSpeed refuses it there",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{\n"a": }', r"not JSON \(line 2\)"),
        ("[1]", "no object"),
        ('{"zero_optimization": {"stage": 3,\n"stage": 2}}', r"zero_optimization\.stage appears twice \(line 2\)"),
    ],
)
def test_what_deepspeed_would_refuse_is_not_merged_into(text, why):
    with pytest.raises(WrongUsage, match=why):
        aio.merge(text, recommendation(), {})


BLOCKS = st.dictionaries(
    st.sampled_from(
        ["block_size", "queue_depth", "intra_op_parallelism", "thread_count", "num_threads", "single_submit", "use_gds", "é"]
    ),
    st.none() | st.booleans() | st.integers(-5, 1 << 33) | st.sampled_from(["1M", "true", 1e6, 0.5, [], {}]),
)
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "aio": st.none() | BLOCKS | st.just([]),
        "AIO": BLOCKS,
        "zero_optimisation": st.just({"stage": 3}),
        "fp16": st.just({"enabled": "auto"}),
        "zero_optimization": st.fixed_dictionaries(
            {},
            optional={
                "stage": st.integers(-1, 3) | st.sampled_from(["3", "auto", None, 2.5]),
                "offload_params": st.just({"device": "nvme"}) | st.none(),
                "aio": BLOCKS | st.none(),
                "offload_param": st.fixed_dictionaries(
                    {},
                    optional={
                        "device": st.sampled_from(["nvme", "NVMe", "cpu", None, "disk"]),
                        "nvme_pth": st.just("/x"),
                        "aio": BLOCKS,
                        "buffer_size": st.just(8e9) | st.sampled_from(["8e9", "1G", True, None]),
                        "pin_memory": st.sampled_from(["yes", " no", 2, None]),
                    },
                ),
                "offload_optimizer": st.fixed_dictionaries(
                    {"device": st.just("nvme")}, optional={"buffer_count": st.integers(0, 5)}
                ),
            },
        ),
    },
)
CONFIGURATIONS = st.builds(lambda value, indent: json.dumps(value, indent=indent), CONFIGS, st.sampled_from([None, 0, 4]))


@settings(deadline=None)
@given(CONFIGURATIONS, st.sampled_from([PRESENT, OLD]))
def test_after_a_merge_the_setting_is_the_recommended_one(text, options):
    merged = aio.merge(text, recommendation(), options).text
    assert aio.present(merged, options) == BEST
    assert '"aio"' not in json.dumps(json.loads(merged).get("zero_optimization"))


@settings(deadline=None)
@given(CONFIGURATIONS, st.sampled_from([PRESENT, OLD]))
def test_fixing_leaves_no_safe_finding_and_is_done_once(text, options):
    options = {**options, "memory": 1 << 30, "aio_max_nr": 65536, "cuda": False}
    fixed = aio.fix(text, options)
    left = aio.lint(fixed, options)
    assert not [finding for finding in left if finding.safe]
    assert aio.fix(fixed, options) == fixed
    before = aio.lint(text, options)
    assert len(left) <= len(before) + 8
    for finding in before:
        assert 1 <= finding.line <= text.count("\n") + 1
        assert finding.message
        assert finding.mend
    if not any(finding.safe for finding in before):
        assert fixed == text


def test_present_settings_are_those_that_deepspeed_takes():
    assert aio.present(read("ds_old.json"), {}) == {**SPACE.default, "block_size": 262144, "queue_depth": 32}
    assert aio.present(read("ds_old.json"), OLD)["intra_op_parallelism"] == 8
    assert aio.present(read("ds_nested.json"), {}) == SPACE.default
    assert aio.present('{"aio": {"block_size": 1e6, "overlap_events": null, "single_submit": 1}}', {}) == {
        **SPACE.default,
        "block_size": 1000000,
        "overlap_events": False,
        "single_submit": True,
    }
    with pytest.raises(WrongUsage, match=r'aio\.single_submit is "false"'):
        aio.present(read("ds_printed.json"), {})
    with pytest.raises(WrongUsage, match=r"aio\.queue_depth is 0"):
        aio.present('{"aio": {"queue_depth": 0}}', {})
    with pytest.raises(WrongUsage, match=r"aio\.block_size is true"):
        aio.present('{"aio": {"block_size": true}}', {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (read("ds_old.json"), ["thread_count 8 is not read by DeepSpeed 0.19.8"]),
        (read("ds_nested.json"), ["refuses the whole file"]),
        ('{"AIO": {"queue_depth": 32}}', ["the name is aio"]),
        ('{"aio": {"queue_dept": 32, "single_submit": null}}', ["takes the default of queue_depth", "counts as false"]),
        ('{"aio": {"queue_depth": 32, "queue_depth": 16}}', ["holds a key twice"]),
        ('{"aio": {"queue_depth": 32}, "fp16": {}}', ["read by nobody"]),
        ("{}", ["no aio block"]),
        ('{"aio": null}', []),
        ('{"aio": {"queue_depth": 32}}', []),
        ("{", []),
        ("[]", []),
    ],
)
def test_what_is_written_and_not_done_is_said(text, words):
    notes = aio.present_notes(text, {"deepspeed_version": "0.19.8"})
    assert len(notes) == len(words), notes
    assert all(word in note for word, note in zip(words, notes, strict=True))
    if words and text != "{}":
        assert notes[-1].endswith("`tune lint` says how to mend the file")


def test_a_block_of_a_wrong_name_gets_its_right_one():
    merged = aio.merge('{"AIO": {"use_gds": false, "thread_count": 2}}', recommendation(), {})
    assert json.loads(merged.text) == {"aio": {"use_gds": False, **BEST}}
    assert [note.split()[0] for note in merged.notes] == ["renamed", "replaced"]
    both = aio.merge('{"AIO": {"queue_depth": 2}, "aio": {}}', recommendation(), {})
    assert json.loads(both.text) == {"AIO": {"queue_depth": 2}, "aio": BEST}


def test_which_files_are_deepspeed_s():
    assert aio.matches("my.json", '{"AIO": {}}')
    assert aio.matches("my.json", '{"zero_optimisation": {}}')
    assert aio.matches("my.json", '{"offload_param": {}}')
    assert aio.matches("my.json", "[]")
    assert not aio.matches("my.txt", "[]")
    assert aio.matches("x.txt", '{"zero_optimization": {}}')
    assert aio.matches("ds_config.json", "{}")
    assert aio.matches("anything.json", "{")
    assert not aio.matches("package.json", '{"name": 1}')
    assert not aio.matches("alluxio-site.properties", "alluxio.user=1")
