"""The shape of a model, and what it takes in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

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
