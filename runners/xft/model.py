"""The shape of a model and what it takes in memory: from a name, Hugging Face's config.json, or xFT's config.ini.

Shapes of known names are those of the models' published config.json files.
"""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from runners.runner import UsageError

_MOST_BYTES = 4 << 20
# Bytes of a weight. A mixed dtype holds two copies of all weights: one for the first token, one for the next ones.
BYTES: Mapping[str, float] = {
    "fp32": 4, "fp16": 2, "bf16": 2, "int8": 1, "w8a8": 1, "int4": 0.5, "nf4": 0.5, "fp8_e4m3": 1,
    "bf16_fp16": 4, "bf16_int8": 3, "bf16_w8a8": 3, "bf16_int4": 2.5, "bf16_nf4": 2.5, "w8a8_int8": 2, "w8a8_int4": 1.5,
    "w8a8_nf4": 1.5,
}  # fmt: skip
DTYPES = tuple(BYTES)
KV_BYTES: Mapping[str, float] = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}
# What a rank takes besides: the runtime, libraries, buffers of messages.
_RUNTIME = 256 << 20


@dataclass(frozen=True)
class ModelShape:
    """A decoder: ``heads`` of the queries, ``kv_heads`` of keys and values, ``head_size`` each; ``inner`` is the MLP's width.

    ``gated``: the MLP has a gate projection too. ``experts`` 0 is one plain MLP a layer. ``tied``: the output layer is the
    embedding. ``total`` is the published number of parameters where layers are built in another way, ``kv_values`` what a
    token keeps in each layer then; 0: computed.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    vocabulary: int
    gated: bool = True
    experts: int = 0
    tied: bool = False
    total: int = 0
    kv_values: int = 0

    @cached_property
    def embedding(self) -> int:
        """Parameters of the embedding."""
        return self.vocabulary * self.hidden

    @cached_property
    def split(self) -> int:
        """Parameters that ranks share: all but the embedding, which each rank has whole."""
        if self.total:
            return self.total - self.embedding
        attention = self.hidden * self.head_size * (2 * self.heads + 2 * self.kv_heads)
        mlp = self.hidden * self.inner * (3 if self.gated else 2) * max(1, self.experts)
        head = 0 if self.tied else self.embedding
        return self.layers * (attention + mlp) + head

    @property
    def parameters(self) -> int:
        return self.split + self.embedding

    def heads_of(self, ranks: int) -> tuple[int, ...]:
        """Query heads of each rank: alike, or some with one more."""
        few, more = divmod(self.heads, ranks)
        return tuple(few + (rank < more) for rank in range(ranks))

    def cut(self, layers: int) -> ModelShape:
        """The same with fewer layers."""
        return self if not 0 < layers < self.layers else replace(self, layers=layers, total=0)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a model at work takes: ``dtype`` of its weights, ``batch`` sequences of ``input`` + ``output`` tokens."""

    shape: ModelShape
    dtype: str = "bf16"
    batch: int = 1
    input: int = 32
    output: int = 32
    kv_dtype: str = "fp16"

    def bytes_per_rank(self, ranks: int) -> int:
        """Memory that a rank takes at most, as computed: its share of weights, the embedding, keys and values, buffers."""
        shape = self.shape
        largest = max(shape.heads_of(ranks)) / shape.heads
        weights = shape.split * BYTES[self.dtype] * largest + shape.embedding * 2
        tokens = self.batch * (self.input + self.output)
        if shape.kv_values:
            kept = shape.layers * shape.kv_values
        else:  # a rank has at least one: with fewer heads than ranks they are doubled
            kept = shape.layers * 2 * shape.head_size * -(-shape.kv_heads // ranks)
        buffers = 4 * self.batch * self.input * (4 * shape.hidden + shape.inner)
        return int(weights + tokens * kept * KV_BYTES[self.kv_dtype] + buffers + _RUNTIME)


def _llama(name: str, layers: int, hidden: int, heads: int, kv_heads: int, inner: int, vocabulary: int) -> ModelShape:
    return ModelShape(name, layers, hidden, heads, kv_heads, hidden // heads, inner, vocabulary)


_KNOWN = (
    # Ours: a step of some milliseconds on a few cores, heads that 1, 2, 4 and 8 ranks share.
    _llama("tiny", 4, 512, 8, 8, 1408, 4096),
    _llama("llama-7b", 32, 4096, 32, 32, 11008, 32000),
    _llama("llama-13b", 40, 5120, 40, 40, 13824, 32000),
    _llama("llama-30b", 60, 6656, 52, 52, 17920, 32000),
    _llama("llama-65b", 80, 8192, 64, 64, 22016, 32000),
    _llama("llama-2-7b", 32, 4096, 32, 32, 11008, 32000),
    _llama("llama-2-13b", 40, 5120, 40, 40, 13824, 32000),
    _llama("llama-2-70b", 80, 8192, 64, 8, 28672, 32000),
    _llama("llama-3-8b", 32, 4096, 32, 8, 14336, 128256),
    _llama("llama-3-70b", 80, 8192, 64, 8, 28672, 128256),
    _llama("qwen-7b", 32, 4096, 32, 32, 11008, 151936),
    _llama("qwen-14b", 40, 5120, 40, 40, 13696, 152064),
    _llama("qwen-72b", 80, 8192, 64, 64, 24576, 152064),
    _llama("qwen1.5-72b", 80, 8192, 64, 64, 24576, 152064),
    _llama("qwen2-7b", 28, 3584, 28, 4, 18944, 152064),
    _llama("qwen2-72b", 80, 8192, 64, 8, 29568, 152064),
    _llama("qwen2.5-32b", 64, 5120, 40, 8, 27648, 152064),
    _llama("baichuan2-7b", 32, 4096, 32, 32, 11008, 125696),
    _llama("baichuan2-13b", 40, 5120, 40, 40, 13696, 125696),
    _llama("chatglm2-6b", 28, 4096, 32, 2, 13696, 65024),
    _llama("chatglm3-6b", 28, 4096, 32, 2, 13696, 65024),
    ModelShape("opt-1.3b", 24, 2048, 32, 32, 64, 8192, 50272, gated=False, tied=True),
    ModelShape("opt-13b", 40, 5120, 40, 40, 128, 20480, 50272, gated=False, tied=True),
    ModelShape("opt-30b", 48, 7168, 56, 56, 128, 28672, 50272, gated=False, tied=True),
    ModelShape("opt-66b", 64, 9216, 72, 72, 128, 36864, 50272, gated=False, tied=True),
    ModelShape("gemma-2b", 18, 2048, 8, 1, 256, 16384, 256000, tied=True),
    ModelShape("gemma-7b", 28, 3072, 16, 16, 256, 24576, 256000, tied=True),
    ModelShape("mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, experts=8),
    # Keys and values are kept as one compressed vector of 512 and 64 for the position.
    ModelShape("deepseek-r1", 61, 7168, 128, 128, 128, 2048, 129280, experts=256, total=671_026_419_200, kv_values=576),
)
KNOWN: Mapping[str, ModelShape] = {shape.name: shape for shape in _KNOWN}


def find(given: str) -> ModelShape:
    """The shape of ``--model given``: a known name, a config.json or config.ini, or a folder that holds one.

    Raises UsageError.
    """
    plain = re.sub(r"[\s_]+", "-", given.strip().lower())
    if not plain:
        raise UsageError("model", "''", "name a model, like llama-2-7b, or give its config.json")
    if plain in KNOWN:
        return KNOWN[plain]
    try:
        path = Path(given).expanduser()
        if path.is_dir():
            path = next((path / name for name in ("config.json", "config.ini") if (path / name).is_file()), path)
        if not path.is_file():
            like_a_file = "/" in given or given.endswith((".json", ".ini"))
            why = "there is no such file" if like_a_file else f"is no known name ({', '.join(KNOWN)}) and no file"
            raise UsageError("model", given, f"{why}; give the model's config.json, or xFT's config.ini")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        text = data.decode()
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, UsageError):
            raise
        why = getattr(error, "strerror", None) or "it is no text"
        raise UsageError("model", given, f"can't be read: {why}") from None
    if len(data) > _MOST_BYTES:
        raise UsageError("model", given, "is too large for a config.json")
    try:
        return of_json(text, path.name) if text.lstrip("\ufeff \t\r\n").startswith("{") else of_ini(text, path.name)
    except ValueError as error:
        raise UsageError("model", given, str(error)) from None


def of_json(text: str, name: str) -> ModelShape:
    """The shape that a config.json of Hugging Face gives; raises ValueError with what is missing or can't be."""
    try:
        found = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(found, dict):
        raise ValueError("holds no object")  # noqa: TRY004  all that is wrong with the text is told in one way
    inside = found.get("text_config")
    values: Mapping[str, Any] = {**found, **inside} if isinstance(inside, dict) else found
    heads = _number(values, "num_attention_heads", "n_head")
    hidden = _number(values, "hidden_size", "n_embd")
    kv_heads = _number(values, "num_key_value_heads", "multi_query_group_num", "num_kv_heads", default=heads)
    experts = _number(values, "num_local_experts", "n_routed_experts", "num_experts", default=0, least=0)
    inner = _number(values, "intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", default=4 * hidden)
    if experts:
        inner = _number(values, "moe_intermediate_size", default=inner)
    kind = str(values.get("model_type", ""))
    if kind == "qwen":  # its first generation counts gate and up together
        inner //= 2
    latent = values.get("kv_lora_rank")
    return _checked(
        ModelShape(
            str(values.get("_name_or_path") or kind or name)[:80],
            _number(values, "num_hidden_layers", "num_layers", "n_layer"),
            hidden,
            heads,
            kv_heads,
            _number(values, "head_dim", "kv_channels", default=max(1, hidden // heads)),
            inner,
            _number(values, "vocab_size", "padded_vocab_size"),
            gated=kind not in ("opt", "gpt2", "gptj", "gpt_neox", "chatglm1"),
            experts=experts,
            tied=values.get("tie_word_embeddings") is True,
            kv_values=_number(values, "kv_lora_rank") + _number(values, "qk_rope_head_dim", default=0, least=0)
            if latent
            else 0,
        )
    )


def of_ini(text: str, name: str) -> ModelShape:
    """The shape that xFT's config.ini gives; raises ValueError."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text.lstrip("\ufeff"))
    except configparser.Error:
        raise ValueError("is neither a config.json nor a config.ini") from None
    section = next((parser[each] for each in parser.sections() if "head_num" in parser[each]), None)
    if section is None:
        raise ValueError("has no section with head_num, as xFT's config.ini has")
    values: dict[str, Any] = {}
    for key, value in section.items():
        match = re.match(r"\s*(\d{1,12})\s*(?:[;#].*)?$", value or "")
        values[key] = int(match[1]) if match else value
    heads = _number(values, "head_num")
    size = _number(values, "size_per_head")
    return _checked(
        ModelShape(
            section.name[:80] or name,
            _number(values, "num_layer"),
            heads * size,
            heads,
            _number(values, "kv_head_num", default=heads),
            size,
            _number(values, "inter_size", "moe_intermediate_size"),
            _number(values, "vocab_size"),
            gated=section.name not in ("gpt", "opt", "chatglm"),
            experts=_number(values, "experts_num", "sparse_experts", default=0, least=0),
        )
    )


def _number(values: Mapping[str, Any], *names: str, default: int | None = None, least: int = 1) -> int:
    for name in names:
        value = values.get(name)
        if value is None:
            continue
        if isinstance(value, list) and value and all(each == value[0] for each in value):
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1 << 30:
            raise ValueError(f"{name} is {str(value)[:40]!r}, and a whole number of at least {least} is needed")
        return value
    if default is None:
        raise ValueError(f"has no {' or '.join(names)}")
    return default


def _checked(shape: ModelShape) -> ModelShape:
    if shape.kv_heads > shape.heads:
        raise ValueError(f"has {shape.kv_heads} key/value heads and only {shape.heads} query heads")
    return shape
