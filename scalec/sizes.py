"""Sizes of dimensions as they are given: fixed, or anywhere in a range."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

MOST = 2**31 - 1
"""The largest size of a dimension: kernels count in 32 bits."""


class Range(NamedTuple):
    """Sizes from `low` to `high`, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}:{self.high}"

    def has(self, size: int) -> bool:
        """Whether a size lies within; 0 always does, which takes no kernel of its own (scalec.runtime.plan)."""
        return size == 0 or self.low <= size <= self.high


Size = int | Range
"""A size that is fixed (0 too), or that may differ from call to call within a range."""


def natural(text: str) -> int:
    """The number that `text` writes in plain digits, at most 18 of them; -1 where it writes none."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1


def parse_size(text: str) -> Size:
    """Reads "4096" or "1:4096".

    Raises:
        ValueError: with a sentence for the user.
    """
    written, colon, end = text.partition(":")
    parts = [written, end] if colon else [written]
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise ValueError(f"{text!r:.80} is no number in digits, nor a range such as 1:4096")
    low, high = natural(parts[0]), natural(parts[-1])
    if not (0 <= low <= MOST and 0 <= high <= MOST):
        raise ValueError(f"{text:.80} is more than {MOST}, the largest size: kernels count in 32 bits")
    if colon and low == 0:
        raise ValueError(f"the range {text} begins at 0, which belongs to every range: begin at 1")
    if low > high:
        raise ValueError(f"the range {text} has no sizes: {low} is more than {high}")
    return Range(low, high) if colon else low


def fixed(dims: Mapping[str, Size]) -> dict[str, int]:
    return {name: size for name, size in dims.items() if not isinstance(size, Range)}


def ranges(dims: Mapping[str, Size]) -> dict[str, Range]:
    return {name: size for name, size in dims.items() if isinstance(size, Range)}


AnySize = TypeVar("AnySize", bound=Size)


def of_later(text: str, dims: Mapping[str, AnySize]) -> dict[str, AnySize]:
    """The sizes that the program of another launch than the one that multiplies speaks of."""
    return {name: size for name, size in dims.items() if speaks_of(text, name)}


def axis_of(name: str) -> str:
    """The tensor of a dimension that only indices from memory reach, as it is called, `A` of `A_0`; "" of others."""
    tensor, _, axis = name.rpartition("_")
    return tensor if axis.isdecimal() else ""


def speaks_of(text: str, name: str) -> bool:
    """Whether a program has a dimension, by its name or by a tensor of which indices from memory reach it."""
    words = rf"\b{re.escape(name)}\b" + (rf"|\b{re.escape(axis_of(name))}\s*\[" if axis_of(name) else "")
    return re.search(words, text) is not None
