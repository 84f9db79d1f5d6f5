"""Which bytes of a segment an access touches, and what arrays with one element a byte have for these."""

from __future__ import annotations

from functools import cache, cached_property

import numpy as np


class Pieces:
    """Bytes of a segment in pieces of so many bytes, each at a multiple of that.

    numpy's take and put copy a piece at once, in an eighth of the time that its bytes take one by one.

    Attributes:
        each: bytes of a piece.
        numbers: int64, any shape: the offsets of the pieces, by `each`.
        again: whether other accesses will have this very object.
    """

    def __init__(self, offsets: np.ndarray, each: int, *, again: bool = False) -> None:
        self.each, self.numbers, self.again = each, offsets // each, again
        self.size = offsets.size * each

    @cached_property
    def extent(self) -> tuple[int, int]:
        """The first byte, and the one behind the last."""
        if not self.numbers.size:
            return 0, 0
        return int(self.numbers.min()) * self.each, int(self.numbers.max() + 1) * self.each

    def offsets(self) -> np.ndarray:
        """Of each byte: (..., each)."""
        return self.numbers[..., None] * self.each + np.arange(self.each)

    def among(self, array: np.ndarray) -> np.ndarray:
        """An array that has one element for each byte of the segment, as a view of (pieces, each)."""
        return array[: len(array) // self.each * self.each].reshape(-1, self.each)

    def put(self, array: np.ndarray, value: np.ndarray | int) -> None:
        """Puts one value, or one for each byte, into such an array."""
        whole = self.among(array)
        if self.numbers.size <= _FEW:
            whole[self.numbers] = value
            return
        piece = _void(whole.itemsize * self.each)  # for numpy one element
        new = value if isinstance(value, np.ndarray) else np.full(self.each, value, array.dtype)
        whole.view(piece).put(self.numbers, np.ascontiguousarray(new).reshape(-1, self.each).view(piece))


_FEW = 64  # pieces, which numpy sooner puts into their place than it prepares to put them there quickly


@cache
def _void(size: int) -> np.dtype:
    return np.dtype((np.void, size))


Where = slice | np.ndarray | Pieces  # bytes of a segment: a range, or offsets of any shape, or pieces


def pieces(offsets: np.ndarray, count: int) -> Where:
    """`count` bytes from each of the offsets, in the largest pieces that begin at multiples of their size."""
    bits = int(np.bitwise_or.reduce(offsets, axis=None)) | count
    each = bits & -bits
    if each == count:
        return Pieces(offsets, count)
    if each < 4:
        return offsets[..., None] + np.arange(count)
    return Pieces(offsets[..., None] + np.arange(0, count, each), each)


def extent(at: Where) -> tuple[int, int]:
    """The first of the bytes, and the one behind the last."""
    if isinstance(at, Pieces):
        return at.extent
    if isinstance(at, slice):
        return at.start or 0, at.stop
    return (int(at.min()), int(at.max()) + 1) if at.size else (0, 0)


def pick(array: np.ndarray, at: Where) -> np.ndarray:
    """What an array has for these bytes of its segment."""
    return at.among(array).take(at.numbers, axis=0) if isinstance(at, Pieces) else array[at]


def fill(array: np.ndarray, at: Where, value: np.ndarray | int) -> None:
    """Puts something there for each of these bytes."""
    if isinstance(at, Pieces):
        at.put(array, value)
    else:
        array[at] = value
