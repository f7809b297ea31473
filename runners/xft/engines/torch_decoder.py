"""A decoder in torch, one rank's part of it: the shape that was asked for, random weights, two sums over ranks a layer.

Part of the text that is sent to ranks. Weights depend on layer, head and column alone, so that any number of ranks computes
the same model, and its results can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as functional

from runners.xft.engines.torch_shares import UNIT, Share

Tensor = Any
# The sum over all ranks of a float32 tensor, in place.
AllReduce = Callable[[Tensor], None]
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_THETA = 10000.0
_BANK = 1024
_NOISE = 1_000_003


@cache
def _noise() -> Tensor:
    """Numbers from -1 to 1; of a length that is no multiple of any row's, so that rows of a matrix differ."""
    return torch.empty(_NOISE).uniform_(-1, 1, generator=torch.Generator().manual_seed(1))


def random(seed: tuple[int, int, int], rows: int, columns: int, fan_in: int, dtype: Any) -> Tensor:
    """Rows of weights that belong to ``seed`` (layer, kind, unit), of a size that keeps activations as they are.

    Copied out of one row of noise: drawing billions of numbers would take minutes.
    """
    layer, kind, unit = seed
    count, noise = rows * columns, _noise()
    begin = ((layer * 16 + kind) * 7919 + unit) * 104_729 % len(noise)
    times = -(-(begin + count) // len(noise))
    drawn = (noise if times == 1 else noise.repeat(times))[begin : begin + count]
    return (drawn * (3.0 / fan_in) ** 0.5).view(rows, columns).to(dtype)


class Layer:
    """Weights of one layer, as rows that are multiplied with a token's vector."""

    def __init__(self, number: int, shape: dict[str, Any], share: Share, dtype: Any) -> None:
        hidden, size = shape["hidden"], shape["head_size"]

        def heads(kind: int, numbers: list[int]) -> list[Tensor]:
            return [random((number, kind, head), size, hidden, hidden, dtype) for head in numbers]

        def columns(kind: int) -> list[Tensor]:
            return [random((number, kind, unit), UNIT, hidden, hidden, dtype) for unit in share.columns]

        self.attention = torch.cat([*heads(0, share.heads), *heads(1, share.kv_heads), *heads(2, share.kv_heads)])
        fan = shape["heads"] * size
        self.output = torch.cat([random((number, 3, head), size, hidden, fan, dtype) for head in share.heads]).t().contiguous()
        # Gate and up projection in one product, as xFT has them.
        self.gated = shape["gated"]
        self.up = torch.cat([*columns(4), *columns(5)] if self.gated else columns(5))
        down = [random((number, 6, unit), UNIT, hidden, shape["inner"], dtype) for unit in share.columns]
        self.down = torch.cat(down).t().contiguous()

    def mlp(self, vector: Tensor) -> Tensor:
        wide = functional.linear(vector, self.up)
        if self.gated:
            gate, up = wide.chunk(2, dim=-1)
            wide = functional.silu(gate) * up
        else:
            wide = functional.relu(wide)
        return functional.linear(wide, self.down)


class Decoder:
    """``shape`` holds hidden, heads, kv_heads, head_size, inner, gated, layers, vocabulary; ``length`` are the most tokens."""

    def __init__(
        self, shape: dict[str, Any], ranks: int, rank: int, dtype: str, batch: int, length: int, reduce: AllReduce
    ) -> None:
        self._shape, self._ranks, self._rank, self._reduce = shape, ranks, rank, reduce
        self._share = share = Share(shape, ranks, rank)
        self._type = TYPES[dtype]
        hidden, size = shape["hidden"], shape["head_size"]
        self._layers = [Layer(number, shape, share, self._type) for number in range(shape["layers"])]
        # Words have vectors from a bank of few: which words they are changes no time.
        self._embedding = random((0, 8, 0), min(shape["vocabulary"], _BANK), hidden, 3, self._type)
        bank = random((0, 9, 0), min(shape["vocabulary"], _BANK), hidden, hidden, self._type)
        self._head = bank[torch.arange(share.words.start, share.words.stop) % len(bank)]
        kv = len(share.kv_heads)
        self._keys = [torch.zeros(batch, kv, length, size, dtype=self._type) for _ in self._layers]
        self._values = [torch.zeros(batch, kv, length, size, dtype=self._type) for _ in self._layers]
        steps = torch.arange(length, dtype=torch.float32)
        rates = _THETA ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
        angles = torch.outer(steps, rates)
        self._cos, self._sin = angles.cos(), angles.sin()

    def step(self, words: Tensor, at: int) -> tuple[Tensor, Tensor]:
        """The next word of each sequence, and the best words' scores, after ``words`` (batch, count) at place ``at`` on."""
        stream = self._embedding[words % len(self._embedding)].float()
        for number, layer in enumerate(self._layers):
            part = self._attend(layer, number, _normal(stream).to(self._type), at)
            stream = stream + self._summed(part)
            stream = stream + self._summed(layer.mlp(_normal(stream).to(self._type)))
        return self._best(_normal(stream[:, -1]).to(self._type))

    def _summed(self, part: Tensor) -> Tensor:
        whole = part.float().contiguous()
        self._reduce(whole)
        return whole

    def _attend(self, layer: Layer, number: int, vector: Tensor, at: int) -> Tensor:
        share, size = self._share, self._shape["head_size"]
        batch, count, _ = vector.shape
        heads, kv = len(share.heads), len(share.kv_heads)
        split = functional.linear(vector, layer.attention).view(batch, count, heads + 2 * kv, size).transpose(1, 2)
        query, key, value = split.split([heads, kv, kv], dim=1)
        keys, values = self._keys[number], self._values[number]
        keys[:, :, at : at + count] = self._turned(key, at)
        values[:, :, at : at + count] = value
        seen, heard = keys[:, :, : at + count], values[:, :, : at + count]
        if not share.even:
            seen, heard = seen[:, share.reads], heard[:, share.reads]
        # Older torch has no such argument, and needs none where every head has its own key.
        grouped = {"enable_gqa": True} if share.even and heads != kv else {}
        turned = self._turned(query, at)
        found = functional.scaled_dot_product_attention(turned, seen, heard, is_causal=count > 1, **grouped)
        return functional.linear(found.transpose(1, 2).reshape(batch, count, heads * size), layer.output)

    def _turned(self, vector: Tensor, at: int) -> Tensor:
        """Rotary position embedding."""
        count = vector.shape[2]
        cos, sin = self._cos[at : at + count], self._sin[at : at + count]
        even, odd = vector.float().chunk(2, dim=-1)
        return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1).to(self._type)

    def _best(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Each rank has its part of the words; the best of all is found by one more sum."""
        score, place = functional.linear(vector, self._head).float().max(dim=-1)
        table = torch.zeros(self._ranks, 2, len(score))
        table[self._rank, 0], table[self._rank, 1] = score, place.float() + self._share.words.start
        self._reduce(table)
        scores, winner = table[:, 0].max(dim=0)
        return table[:, 1].gather(0, winner[None]).long().t(), scores


def _normal(vector: Tensor) -> Tensor:
    return vector * torch.rsqrt(vector.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
