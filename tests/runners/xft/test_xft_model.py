"""Shapes of models and the memory that they take."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.runner import UsageError
from runners.xft.known_models import KNOWN
from runners.xft.model import Demand, ModelShape
from runners.xft.model_files import find, of_ini, of_json

QWEN = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 8192, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 29568, "vocab_size": 152064,
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-2-7b", 6.74), ("llama-2-13b", 13.0), ("llama-2-70b", 69.0), ("llama-3-8b", 8.03), ("qwen-72b", 72.3),
        ("qwen2-72b", 72.7), ("qwen2-7b", 7.6), ("baichuan2-13b", 13.9), ("chatglm2-6b", 6.2), ("mixtral-8x7b", 46.7),
        ("opt-13b", 12.9), ("gemma-7b", 8.5), ("deepseek-r1", 671.0),
    ],
)  # fmt: skip
def test_known_models_have_their_published_number_of_weights(name: str, billions: float) -> None:
    assert KNOWN[name].parameters / 1e9 == pytest.approx(billions, rel=0.02)


def test_names_are_forgiving() -> None:
    assert find("Qwen-72B") is KNOWN["qwen-72b"]
    assert find("llama_2_7b") is KNOWN["llama-2-7b"]


def test_a_config_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    expected = replace(KNOWN["qwen2-72b"], name="qwen2")
    assert find(str(tmp_path / "config.json")) == expected
    assert find(str(tmp_path)) == expected


def test_configs_of_many_families() -> None:
    glm = {"model_type": "chatglm", "hidden_size": 4096, "num_layers": 28, "num_attention_heads": 32, "ffn_hidden_size": 13696,
           "multi_query_group_num": 2, "padded_vocab_size": 65024, "kv_channels": 128}  # fmt: skip
    assert of_json(json.dumps(glm), "x") == replace(KNOWN["chatglm2-6b"], name="chatglm")
    gpt = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}
    assert of_json(json.dumps(gpt), "x").inner == 3072
    qwen1 = {"model_type": "qwen", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
             "intermediate_size": 49152, "vocab_size": 152064, "kv_channels": 128}  # fmt: skip
    assert of_json(json.dumps(qwen1), "x") == replace(KNOWN["qwen-72b"], name="qwen")
    inside = {"model_type": "many", "text_config": QWEN}
    assert of_json(json.dumps(inside), "x").heads == 64
    experts = {**QWEN, "num_experts": 64, "moe_intermediate_size": 1408}
    assert (of_json(json.dumps(experts), "x").experts, of_json(json.dumps(experts), "x").inner) == (64, 1408)


def test_a_config_ini(tmp_path: Path) -> None:
    text = ("[llama]\nmodel_name = x\nhead_num = 32\nkv_head_num = 8\nsize_per_head = 128\ninter_size = 14336\n"
            "num_layer = 32\nvocab_size = 128256\nweight_data_type = fp16\n")  # fmt: skip
    (tmp_path / "config.ini").write_text(text)
    assert find(str(tmp_path)) == replace(KNOWN["llama-3-8b"], name="llama")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "has no num_attention_heads or n_head"),
        ("{", "is not JSON"),
        (json.dumps({**QWEN, "num_attention_heads": "64"}), "num_attention_heads is '64', and a whole number"),
        (json.dumps({**QWEN, "num_attention_heads": True}), "num_attention_heads is 'True'"),
        (json.dumps({**QWEN, "num_attention_heads": 0}), "num_attention_heads is '0'"),
        (json.dumps({**QWEN, "num_key_value_heads": 65}), "65 key/value heads and only 64"),
        ("{" * 100_000, "is not JSON"),
    ],
)
def test_a_json_that_is_no_model(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=why) as raised:
        find(str(tmp_path / "config.json"))
    assert raised.value.option == "model"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("nosuch-7b", "no known name"),
        ("./nosuch.json", "there is no such file"),
        ("a\0b", "can't be read|no known name"),
        ("", "name a model"),
    ],
)
def test_what_is_no_model(given: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        find(given)


def test_a_folder_that_holds_no_model_is_named_as_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is a folder without a config\.json"):
        find(str(tmp_path))


def test_binary_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\x80\x02\xff" * 100)
    with pytest.raises(UsageError, match="it is no text"):
        find(str(tmp_path / "config.json"))
    (tmp_path / "config.ini").write_text("hello")
    with pytest.raises(UsageError, match="neither a config"):
        find(str(tmp_path / "config.ini"))


_VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 100)
    | st.floats()
    | st.text(max_size=4)
    | st.lists(st.integers(0, 9), max_size=2)
)


@given(st.dictionaries(st.sampled_from([*QWEN, "head_dim", "n_routed_experts", "kv_lora_rank", "text_config"]), _VALUES))
def test_any_values_make_a_shape_or_a_sentence(changed: dict[str, Any]) -> None:
    with suppress(ValueError):
        shape = of_json(json.dumps({**QWEN, **changed}), "config.json")
        assert min(shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.head_size) >= 1
        assert Demand(shape).bytes_per_rank(1) > 0


@given(st.text())
def test_any_text_is_an_ini_or_is_refused(text: str) -> None:
    with suppress(ValueError):
        assert of_ini(text, "config.ini").heads >= 1


def test_heads_are_shared_as_evenly_as_they_can_be() -> None:
    assert KNOWN["qwen-72b"].heads_of(4) == (16, 16, 16, 16)
    assert KNOWN["qwen2-7b"].heads_of(3) == (10, 9, 9)
    assert sum(KNOWN["qwen2-7b"].heads_of(5)) == 28


def test_memory_of_a_rank() -> None:
    one = Demand(KNOWN["llama-2-7b"], "bf16", 1, 1, 1)
    assert one.bytes_per_rank(1) / 2**30 == pytest.approx(12.8, abs=0.3)  # 6.74e9 weights of 2 bytes, and 256 MiB
    assert one.bytes_per_rank(2) < 0.6 * one.bytes_per_rank(1)
    assert replace(one, dtype="int8").bytes_per_rank(1) < 0.6 * one.bytes_per_rank(1)
    assert replace(one, dtype="bf16_int8").bytes_per_rank(1) > 1.4 * one.bytes_per_rank(1)


def test_keys_and_values_grow_with_tokens_and_are_doubled_for_many_ranks() -> None:
    shape = KNOWN["llama-2-70b"]
    short, long = Demand(shape, input=1, output=1), Demand(shape, input=1, output=4097)
    grown = long.bytes_per_rank(1) - short.bytes_per_rank(1)
    assert grown == 4096 * 80 * 2 * 128 * 8 * 2
    assert long.bytes_per_rank(16) - short.bytes_per_rank(16) == grown // 8


def test_fewer_layers() -> None:
    shape = KNOWN["deepseek-r1"]
    assert shape.cut(0) is shape
    assert shape.cut(2).layers == 2
    assert shape.cut(2).parameters < shape.parameters / 10
    assert isinstance(shape.cut(99), ModelShape)
    assert shape.cut(99).layers == shape.layers
