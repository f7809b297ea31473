"""Finds the shape of a model: by a known name, from Hugging Face's config.json, or from xFT's config.ini."""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runners.runner import UsageError
from runners.xft.known_models import KNOWN
from runners.xft.model import ModelShape

_MOST_BYTES = 4 << 20


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
            why = "is a folder without a config.json or config.ini" if path.is_dir() else why
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
