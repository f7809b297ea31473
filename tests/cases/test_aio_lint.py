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
    assert "not read by present DeepSpeed" in found.message
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
    assert "1 handles x 31 ranks" in lint(plain, ranks=31)[0].message


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
