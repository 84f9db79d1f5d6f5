"""Sizes of dimensions as they are given: fixed, or anywhere in a range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MOST = 2**31 - 1
"""The largest size of a dimension: kernels count in 32 bits."""


class Range(NamedTuple):
    """Sizes from `low` to `high`, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}:{self.high}"

    def has(self, size: int) -> bool:
        """Whether a size lies within; 0 always does: nothing is launched for it."""
        return size == 0 or self.low <= size <= self.high


Size = int | Range
"""A size that is fixed, or that may differ from call to call within a range."""


def parse_size(text: str) -> Size:
    """Reads "4096" or "1:4096".

    Raises:
        ValueError: with a sentence for the user.
    """
    low, colon, high = (part.strip() for part in text.partition(":"))
    parts = (low, high) if colon else (low,)
    if not all(p.isascii() and p.isdigit() and 1 <= int(p) <= MOST for p in parts):
        raise ValueError(f"{text!r} is not a positive integer, nor a range such as 1:4096")
    if not colon:
        return int(low)
    if int(low) > int(high):
        raise ValueError(f"the range {text} has no sizes: {low} is more than {high}")
    return Range(int(low), int(high))


def fixed(dims: Mapping[str, Size]) -> dict[str, int]:
    """The sizes that are fixed."""
    return {name: size for name, size in dims.items() if not isinstance(size, Range)}


def ranges(dims: Mapping[str, Size]) -> dict[str, Range]:
    """The ranges of those that are not."""
    return {name: size for name, size in dims.items() if isinstance(size, Range)}
