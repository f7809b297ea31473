"""Shapes of models by name, as their published config.json files have them."""

from __future__ import annotations

from collections.abc import Mapping

from runners.xft.model import ModelShape


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
