"""Configurations from public reports, with the findings that they must give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuner.exporters import aio

DATA = Path(__file__).parents[1] / "data" / "aio"
MACHINE = {"memory": 64 << 30, "aio_max_nr": 65536, "cuda": False, "deepspeed_version": None}


def lint(text, **options):
    return aio.lint(text, {**MACHINE, **options})


def fix(text, **options):
    return aio.fix(text, {**MACHINE, **options})


def case(name):
    return (DATA / name).read_text()


def block(**keys):
    return json.dumps({"aio": keys})


def test_lint_printed_block():
    text = case("ds_printed.json")
    found = lint(text)
    assert [(f.line, f.key, f.safe) for f in found] == [
        (4, "aio.single_submit", True),
        (5, "aio.overlap_events", True),
        (6, "aio.num_threads", True),
    ]
    assert all("string" in f.message and "handle fails" in f.message for f in found[:2])
    assert "not read" in found[2].message
    assert "one thread is used" in found[2].message
    fixed = fix(text)
    assert lint(fixed) == []
    assert fixed == (
        text.replace('"false"', "false").replace('"true"', "true").replace('"num_threads"', '"intra_op_parallelism"')
    )


def test_lint_old_thread_key():
    text = case("ds_old.json")
    (found,) = lint(text)
    assert (found.line, found.key, found.safe) == (6, "aio.thread_count", True)
    assert "thread_count 8 is not read by today's DeepSpeed" in found.message
    assert "not read by DeepSpeed 0.19.8 " in lint(text, deepspeed_version="0.19.8")[0].message
    assert "intra_op_parallelism 8 is meant" in found.message
    assert lint(text, deepspeed_version="0.15.0") == []
    assert fix(text) == text.replace("thread_count", "intra_op_parallelism")
    assert fix(text, deepspeed_version="0.15.0") == text


def test_lint_nested():
    text = case("ds_nested.json")
    (found,) = lint(text)
    assert (found.line, found.key, found.safe) == (6, "zero_optimization.aio", True)
    assert "belongs at the top level" in found.message
    assert "refuses" in found.message
    fixed = fix(text)
    before, after = json.loads(text), json.loads(fixed)
    assert after["aio"] == before["zero_optimization"].pop("aio")
    assert {key: after[key] for key in before} == before
    assert list(after) == [*before, "aio"]
    line = next(line for line in text.split("\n") if "aio" in line)
    assert fixed.split("\n") == [
        *text.split("\n")[:4],
        '    "offload_param": {"device": "nvme", "nvme_path": "/data/nvme0"}',
        "  },",
        '  "gradient_clipping": 1.0,',
        line[2:],
        "}",
        "",
    ]


def test_lint_elements():
    text = case("ds_elements.json")
    (found,) = lint(text)
    assert (found.line, found.key, found.safe) == (5, "zero_optimization.offload_param.buffer_size", False)
    assert "counts elements, not bytes" in found.message
    assert "8 buffers x 8000000000 elements x 2 bytes = 119.2 GiB of pinned memory" in found.message
    assert "this machine has 64.0 GiB" in found.message
    assert fix(text) == text
    (large,) = lint(text, memory=1 << 40)
    assert "this machine has 1024.0 GiB" in large.message
    (four_ranks,) = lint(text.replace("8e9", "1e9"), ranks=4)
    assert "8 buffers x 1000000000 elements x 2 bytes x 4 ranks = 59.6 GiB" in four_ranks.message
    assert lint(text.replace("8e9", "1e9")) == []
    assert "x 4 bytes" in lint(text.replace('"enabled": true', '"enabled": false'))[0].message


@pytest.mark.parametrize(
    ("value", "word", "right"),
    [
        ("1M", "TypeError", 1048576),
        ("1048576", "TypeError", 1048576),
        ("much", "TypeError", None),
        ("auto", "TypeError", None),
        (1048576.0, "passed as a dict", 1048576),
        (1.5, "TypeError", None),
        (None, "TypeError", 1048576),
        (True, "takes for 1", None),
        ([1], "TypeError", None),
        ({}, "TypeError", None),
        (0, "without any I/O", None),
        (-512, "without any I/O", None),
        (2**31, "C int", None),
        (1e10, "TypeError", None),
        (1000, "the data are wrong", None),
        (1 << 20, None, None),
    ],
)
def test_a_block_size_that_is_none(value, word, right):
    text = block(block_size=value)
    found = lint(text)
    assert [word in f.message and f.key == "aio.block_size" and f.safe == (right is not None) for f in found] == [True] * bool(
        word
    )
    expected = {"block_size": value if right is None else right}
    assert json.loads(fix(text)) == {"aio": expected}
    assert type(json.loads(fix(text))["aio"]["block_size"]) is type(expected["block_size"])


@pytest.mark.parametrize(
    ("value", "word", "right"),
    [
        ("FALSE", "string", False),
        ("yes", "string", True),
        ("maybe", "string", None),
        (None, "counts as false", False),
        (2, "counts as true", None),
        ({}, "object", None),
        ([], "array", None),
        (0, None, None),
        (True, None, None),
    ],
)
def test_a_flag_that_is_none(value, word, right):
    text = block(overlap_events=value)
    found = lint(text)
    assert [word in f.message and f.safe == (right is not None) for f in found] == [True] * bool(word)
    assert json.loads(fix(text))["aio"]["overlap_events"] == (value if right is None else right)


def test_keys_that_deepspeed_drops():
    text = block(queue_dept=32, Block_Size=1048576, threads=4, colour="red")
    assert [(f.key, f.safe) for f in lint(text)] == [
        ("aio.queue_dept", True),
        ("aio.Block_Size", True),
        ("aio.threads", True),
        ("aio.colour", False),
    ]
    assert json.loads(fix(text))["aio"] == {
        "queue_depth": 32,
        "block_size": 1048576,
        "intra_op_parallelism": 4,
        "colour": "red",
    }
    both = block(queue_depth=8, queue_dept=32)
    assert [(f.key, f.safe) for f in lint(both)] == [("aio.queue_dept", False)]


def test_two_thread_keys():
    same = block(thread_count=8, intra_op_parallelism=8)
    assert [(f.key, f.safe) for f in lint(same)] == [("aio.thread_count", True)]
    assert json.loads(fix(same)) == {"aio": {"intra_op_parallelism": 8}}
    assert json.loads(fix(same, deepspeed_version="0.16.3")) == {"aio": {"thread_count": 8}}
    differ = block(thread_count=8, intra_op_parallelism=4)
    assert [(f.key, f.safe) for f in lint(differ)] == [("aio.thread_count", False)]
    dead = block(thread_count=8, num_threads=4)
    assert [f.safe for f in lint(dead)] == [False, False]
    assert fix(dead) == dead
    assert json.loads(fix(block(thread_count=8, num_threads=8))) == {"aio": {"intra_op_parallelism": 8}}


def test_two_blocks():
    nested = {"block_size": 1048576}
    same = json.dumps({"aio": nested, "zero_optimization": {"stage": 3, "offload_param": {"aio": nested}}})
    assert [(f.key, f.safe) for f in lint(same)] == [("zero_optimization.offload_param.aio", True)]
    assert json.loads(fix(same)) == {"aio": nested, "zero_optimization": {"stage": 3, "offload_param": {}}}
    differ = json.dumps({"aio": {}, "zero_optimization": {"aio": nested}})
    assert [f.safe for f in lint(differ)] == [False]
    assert lint('{"aio": null}') == []
    assert [f.key for f in lint('{"aio": [1]}')] == ["aio"]


def offload(param=None, optimizer=None, stage=3, **rest):
    zero = {"stage": stage}
    if param is not None:
        zero["offload_param"] = {"device": "nvme", "nvme_path": "/nvme", **param}
    if optimizer is not None:
        zero["offload_optimizer"] = {"device": "nvme", "nvme_path": "/nvme", **optimizer}
    return json.dumps({"zero_optimization": zero, **rest}, indent=1)


@pytest.mark.parametrize(
    ("text", "key", "word"),
    [
        (offload(param={"nvme_path": None}), "zero_optimization.offload_param.nvme_path", "no nvme_path"),
        (
            '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}}',
            "zero_optimization.offload_optimizer.device",
            "no nvme_path",
        ),
        (
            offload(optimizer={}, stage=2),
            "zero_optimization.offload_optimizer.device",
            "stage 2: it parses fine and does nothing",
        ),
        (offload(optimizer={"buffer_count": 3}), "zero_optimization.offload_optimizer.buffer_count", "too few for Adam"),
        (offload(param={}, aio={"block_size": 1 << 24}), "aio.block_size", "partitions smaller than 16M stay in memory"),
        (offload(param={"buffer_size": 1000}), "zero_optimization.offload_param.buffer_size", "too small to be swapped"),
        (offload(param={}, aio={"use_gds": True}), "aio.use_gds", "needs a CUDA device"),
        (offload(param={}, aio={"use_gds": "no"}), "aio.use_gds", "counts as true"),
        ('{"aio": {"queue_depth": 8, "queue_depth": 16}}', "aio.queue_depth", "holds a key twice"),
        ("[]", "", "JSON object"),
        (offload(param={"nvme_path": ""}), "zero_optimization.offload_param.nvme_path", "swaps into the folder"),
        (offload(param={"nvme_path": "auto"}), "zero_optimization.offload_param.nvme_path", "no nvme_path"),
        (offload(param={}, stage="2.0"), "zero_optimization.offload_param.device", "stage 2: it parses fine"),
        (offload(param={}, stage="auto"), "zero_optimization.offload_param.device", "DeepSpeed takes 0"),
        ('{"aio": {} // default\n}', "", "comments"),
    ],
)
def test_offload_that_can_t_work(text, key, word):
    (found,) = lint(text)
    assert found.key == key
    assert word in found.message
    line = text.split("\n")[found.line - 1]
    assert not key or key.rsplit(".")[-1] in line


def test_offload_that_is_right_gives_nothing():
    assert lint(offload(param={}, optimizer={}, aio={"block_size": 8 << 20}, bf16={"enabled": True})) == []
    assert (
        lint(offload(param={"device": "cpu", "buffer_size": 8e9}, optimizer={"device": "cpu", "nvme_path": None}, stage=2))
        == []
    )
    assert lint(offload(param={}, aio={"use_gds": True}), cuda=True) == []
    assert lint("{}") == []


def test_queue_depths_against_the_kernel_s_limit():
    text = offload(param={}, optimizer={"pipeline_read": True}, aio={"queue_depth": 128, "intra_op_parallelism": 16})
    assert lint(text, ranks=7) == []
    (found,) = lint(text, ranks=8)
    assert found.key == "aio.queue_depth"
    assert "(16 threads + 1) x 128 deep x 4 handles x 8 ranks = 69632" in found.message
    assert "fs.aio-max-nr is 65536" in found.message
    assert lint(text, ranks=8, handles=2) == []
    assert lint(text, ranks=8, aio_max_nr=None) == []
    plain = offload(optimizer={}, aio={"queue_depth": 128, "intra_op_parallelism": 16})
    assert "128 deep x 1 handle x 31 ranks" in lint(plain, ranks=31)[0].message
    deep = plain.replace("128", "70000").replace("16", "1")
    assert "(1 thread + 1) x 70000 deep x 1 handle x 1 rank =" in lint(deep)[0].message


def test_a_file_that_is_no_json_has_one_finding():
    text = '{\n  "aio": {\n    "block_size": 1048576\n    "queue_depth": 8\n  }\n}'
    (found,) = lint(text)
    assert (found.line, found.key, found.safe) == (3, "", False)
    assert fix(text) == text


def test_what_only_deepspeed_s_own_loader_takes():
    text = '\ufeff{\n  "aio": {"queue_depth": 8,},\n}\n'
    assert [(f.line, f.safe) for f in lint(text)] == [(1, True), (2, True), (2, True)]
    fixed = fix(text)
    assert fixed == '{\n  "aio": {"queue_depth": 8}\n}\n'
    assert lint(fixed) == []


def test_the_same_key_with_the_same_value_goes():
    text = '{\n  "aio": {"queue_depth": 8, "block_size": 512, "queue_depth": 8}\n}'
    assert fix(text) == '{\n  "aio": {"queue_depth": 8, "block_size": 512}\n}'


def zero(**sections):
    return json.dumps({"train_batch_size": 8, "zero_optimization": {"stage": 3, **sections}}, indent=1)


NVME = {"device": "nvme", "nvme_path": "/nvme"}


@pytest.mark.parametrize(
    ("section", "key", "value", "right"),
    [
        ("offload_param", "device", "NVMe", "nvme"),
        ("offload_optimizer", "device", " CPU", "cpu"),
        ("offload_param", "device", None, "none"),
        ("offload_param", "device", "disk", None),
        ("offload_param", "device", True, None),
        ("offload_param", "buffer_count", "1e1", 10),
        ("offload_param", "buffer_size", "100M", None),
        ("offload_param", "buffer_size", -1, None),
        ("offload_param", "max_in_cpu", 0.5, None),
        ("offload_param", "max_in_cpu", None, None),
        ("offload_param", "pin_memory", " true", True),
        ("offload_param", "pin_memory", "maybe", None),
        ("offload_param", "pin_memory", 2, None),
        ("offload_optimizer", "fast_init", None, None),
        ("offload_optimizer", "ratio", "50%", None),
        ("offload_optimizer", "ratio", 1.5, None),
        ("offload_param", "nvme_path", 1, None),
        ("offload_param", "nvme_path", ["/a"], None),
    ],
)
def test_a_value_that_deepspeed_s_models_refuse(section, key, value, right):
    text = zero(**{section: {**NVME, key: value}})
    (found,) = lint(text)
    assert (found.key, found.safe) == (f"zero_optimization.{section}.{key}", right is not None)
    assert "DeepSpeed refuses the file" in found.message
    assert key in text.split("\n")[found.line - 1]
    fixed = json.loads(fix(text))["zero_optimization"][section]
    assert fixed[key] == (value if right is None else right)


@pytest.mark.parametrize(
    ("key", "value"),
    [("buffer_count", "4"), ("buffer_count", " +4.0 "), ("buffer_size", 1e8), ("buffer_size", "100_000_000")]
    + [("pin_memory", value) for value in ("yes", "OFF", "t", 1, 0.0)]
    + [("ratio", "1e-1"), ("ratio", 1), ("buffer_count", "auto"), ("ratio", "auto"), ("pin_memory", "auto")],
)
def test_a_value_that_they_take(key, value):
    assert lint(zero(offload_optimizer={**NVME, key: value})) == [] or key == "buffer_size"
    if key != "ratio":
        assert lint(zero(offload_param={**NVME, key: value})) == []


def test_values_that_count_as_something_else():
    (found,) = lint(zero(offload_param={**NVME, "buffer_count": True}))
    assert ("counts as 1" in found.message, found.safe) == (True, False)
    assert [f.message for f in lint(zero(stage=True))] == ["stage is true, which counts as 1"]


@pytest.mark.parametrize("stage", ["3", "3.0", " 3", 3.0, 2, "0", "auto"])
def test_a_stage_that_deepspeed_takes(stage):
    assert lint(zero(stage=stage)) == []


@pytest.mark.parametrize("stage", ["three", "", 4, -1, 2.5, None, [3]])
def test_a_stage_that_it_refuses(stage):
    (found,) = lint(zero(stage=stage))
    assert (found.key, found.safe) == ("zero_optimization.stage", False)
    assert "DeepSpeed refuses the file" in found.message


@pytest.mark.parametrize("section", ["nvme", True, [], 1])
def test_a_section_that_is_no_object(section):
    (found,) = lint(zero(offload_param=section))
    assert found.key == "zero_optimization.offload_param"
    assert "refuses" in found.message
    (whole,) = lint(json.dumps({"zero_optimization": section})) if section is not True else [None]
    assert whole is None or "fails on anything but an object" in whole.message
    assert lint(zero(offload_param=None)) == lint(zero(offload_param="auto")) == []


def test_keys_that_deepspeed_s_models_refuse():
    text = zero(offload_param={"device": "nvme", "nvme_pth": "/x", "Buffer-Count": 6, "pipeline_read": True, "colour": 1})
    found = {f.key.rsplit(".")[-1]: f for f in lint(text)}
    assert {key: f.safe for key, f in found.items()} == {
        "nvme_pth": True,
        "Buffer-Count": True,
        "pipeline_read": False,
        "colour": False,
    }
    assert "one of offload_optimizer" in found["pipeline_read"].mend
    assert "offload_param knows device" in found["colour"].mend
    fixed = json.loads(fix(text))["zero_optimization"]["offload_param"]
    assert (fixed["nvme_path"], fixed["buffer_count"]) == ("/x", 6)
    two = zero(offload_param={"device": "nvme", "nvme_pth": "/x", "nvme_paht": "/y"})
    assert [f.safe for f in lint(two)] == [False, False]
    both = zero(offload_param={**NVME, "nvme_pth": "/y"})
    assert [(f.safe, f.mend) for f in lint(both)] == [(False, "remove it, nvme_path is there too")]


def test_misspelt_and_misplaced_keys_of_zero():
    text = zero(offload_params=NVME)
    assert [(f.key, f.safe) for f in lint(text)] == [("zero_optimization.offload_params", True)]
    assert json.loads(fix(text))["zero_optimization"]["offload_param"] == NVME
    assert lint(fix(text)) == []
    assert [f.mend for f in lint(zero(nvme_path="/x"))] == ["move it into offload_param or offload_optimizer"]
    assert [f.mend for f in lint(zero(max_in_cpu=1))] == ["move it into offload_param"]
    assert [f.mend for f in lint(zero(queue_depth=8))] == ["move it into aio, at the top level"]
    assert [f.safe for f in lint('{"zero_optimization": {"Stage": 3}}')] == [True]
    assert lint(zero(cpu_offload=True, cpu_offload_param=False, sub_group_size=1e9, legacy_stage1=False)) == []


def test_sections_that_deepspeed_drops():
    text = json.dumps({"AIO": {"thread_count": 4}, "zero_optimization": {"stage": 3, "offload_param": NVME}})
    assert [(f.key, f.safe) for f in lint(text)] == [("AIO", True), ("AIO.thread_count", True)]
    assert json.loads(fix(text))["aio"] == {"intra_op_parallelism": 4}
    # Under the right name it would count, and stop the program.
    failing = json.dumps({"async_io": {"queue_depth": "deep"}})
    assert [(f.key, f.safe) for f in lint(failing)] == [("async_io", False), ("async_io.queue_depth", False)]
    assert [f.safe for f in lint('{"AIO": {}, "aio": {}}') if f.key == "AIO"] == [False]

    for name in ("zero_optimisation", "Zero_Optimization", "zero-optimization", "zero_optimizer"):
        (found,) = lint(json.dumps({name: {"stage": 3, "offload_param": NVME}, "aio": {"queue_depth": 8}}))
        assert (found.key, found.safe, found.mend) == (name, False, "rename it to zero_optimization")
    for name in ("offload_optimizer", "Offload_Param", "offload_params"):
        (found,) = lint(json.dumps({name: NVME, "zero_optimization": {"stage": 3}, "aio": {"queue_depth": 8}}))
        assert (found.key, found.safe) == (name, False)
        assert "nothing is offloaded by it" in found.message
    assert [f.key for f in lint('{"stage": 3, "zero_optimization": {}}')] == ["stage"]
    assert [f.key for f in lint('{"queue_depth": 8, "single_submit": true, "fp16": {}}')] == ["queue_depth", "single_submit"]
    assert lint('{"block_size": 1024, "zero_allow_untested_optimizer": true, "zero_force_ds_cpu_optimizer": false}') == []


@pytest.mark.parametrize(
    "rest",
    [
        {"train_batch_size": 8},
        {"zero_optimization": {"stage": 3}},
        {"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "none"}}},
        {"zero_optimization": {"stage": 3, "offload_param": {"pin_memory": True}, "offload_optimizer": None}},
        {"checkpoint": {"writer": None}},
    ],
)
def test_an_aio_block_that_nobody_reads(rest):
    (found,) = lint(json.dumps({"aio": {"queue_depth": 8}, **rest}))
    assert (found.key, found.safe) == ("aio", False)
    assert "read by nobody" in found.message


@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"zero_optimization": {"stage": 3, "offload_param": NVME}},
        {"zero_optimization": {"stage": 3, "offload_param": {"device": "auto"}}},
        {"zero_optimization": {"stage": 3, "offload_optimizer": "auto"}},
        {"checkpoint": {"writer": {"type": "fast"}}},
    ],
)
def test_an_aio_block_that_has_a_reader_or_is_a_piece(rest):
    assert lint(json.dumps({"aio": {"queue_depth": 8}, **rest})) == []


def test_a_path_without_a_device():
    (found,) = lint(json.dumps({"aio": {"queue_depth": 8}, "zero_optimization": {"offload_param": {"nvme_path": "/x"}}}))
    assert found.key == "zero_optimization.offload_param.nvme_path"
    assert "no device" in found.message


@pytest.mark.parametrize("value", ["auto", "many", 0, -1, 1.5, None, 2**31])
def test_a_dead_thread_key_whose_value_would_fail_stays_dead(value):
    """The file works today, with one thread; under the right name the value would stop the program."""
    text = block(thread_count=value)
    if value is None:
        assert json.loads(fix(text)) == {"aio": {"intra_op_parallelism": 1}}
        return
    (found,) = lint(text)
    assert (found.safe, "would not work either" in found.message) == (False, True)
    assert fix(text) == text
    misspelt = block(queue_dept=value)
    assert [f.safe for f in lint(misspelt)] == [False]


def test_auto_is_nothing_that_anybody_fills_in():
    (found,) = lint(block(intra_op_parallelism="auto"))
    assert "TypeError" in found.message
    assert "no program fills it in" in found.message
    assert json.loads(fix(block(thread_count="8"))) == {"aio": {"intra_op_parallelism": 8}}


def test_duplicates_hide_nothing_else():
    text = """{
  "aio": {"thread_count": 8, "thread_count": 4, "single_submit": "false"},
  "zero_optimization": {"stage": 3, "stage": 2, "offload_param": {"device": "NVMe", "nvme_path": "/x"}}
}"""
    found = [(f.key, f.safe) for f in lint(text)]
    assert found == [
        ("aio.thread_count", False),
        ("aio.thread_count", False),
        ("aio.single_submit", True),
        ("zero_optimization.stage", False),
        ("zero_optimization.offload_param.device", True),
    ]
    fixed = fix(text)
    # Which of two is meant stays open: renaming the last one would decide it.
    assert fixed == text.replace('"false"', "false").replace("NVMe", "nvme")
    last = lint('{"aio": {}, "aio": {"num_threads": 4}}')
    assert [(f.key, f.safe) for f in last] == [("aio", False), ("aio.num_threads", True)]
