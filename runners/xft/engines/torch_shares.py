"""Which part of a decoder each rank computes: query heads and columns of the MLP in order, as even as they divide.

Part of the text that is sent to ranks: standard library only, Python 3.7 or newer.
"""

from __future__ import annotations

from typing import Any

# The MLP is split in units of so many columns, each with random numbers of its own: the same model on any number of ranks.
UNIT = 64


def part(count: int, ranks: int, rank: int) -> range:
    """The rank's share of ``count`` things; the first ranks have one more where they don't divide."""
    each, more = divmod(count, ranks)
    first = rank * each + min(rank, more)
    return range(first, first + each + (rank < more))


class Share:
    """One rank's part of a decoder of ``shape`` (heads, kv_heads, inner, vocabulary).

    ``heads`` are its query heads, ``kv_heads`` the key and value heads that they read: on more ranks than these there are
    some that several ranks hold. ``reads`` has for each own query head the place of its key and value head in ``kv_heads``.
    """

    def __init__(self, shape: dict[str, Any], ranks: int, rank: int) -> None:
        self.heads = list(part(shape["heads"], ranks, rank))
        # Where key and value heads don't divide the query heads some serve one more.
        home = [head * shape["kv_heads"] // shape["heads"] for head in self.heads]
        self.kv_heads = sorted(set(home))
        self.reads = [self.kv_heads.index(head) for head in home]
        self.columns = list(part(max(1, shape["inner"] // UNIT), ranks, rank))
        self.words = part(shape["vocabulary"], ranks, rank)

    @property
    def even(self) -> bool:
        """Whether each own key and value head serves equally many neighbouring query heads."""
        each = len(self.heads) // len(self.kv_heads) if self.kv_heads else 0
        return bool(each) and self.reads == [index // each for index in range(len(self.heads))]
