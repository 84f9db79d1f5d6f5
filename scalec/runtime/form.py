"""A tensor of a call without its address."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.abi import TensorSpec
from scalec.runtime import checks, stored


@dataclass(frozen=True)
class Form:
    """Shape and strides in stored elements, bytes spanned, and for the overlap test the bytes of a row and between rows
    (0 where rows say nothing)."""

    spec: TensorSpec
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    span: int
    row: int
    step: int

    @staticmethod
    def of(t: TensorSpec, shape: tuple[int, ...], strides: tuple[int, ...]) -> Form:
        item = stored.itemsize(t.dtype)
        whole, row, step = checks.span(shape, strides, item), 0, 0
        rows = [(extent, stride) for extent, stride in _walked(shape, strides) if stride > 1]
        if len(rows) == 1:  # the rest is a row: of the contiguous axis, or where that has one element of another
            ((extent, stride),) = rows
            row, step = whole - (extent - 1) * stride * item, stride * item
        return Form(t, shape, strides, whole, row, step)

    def at(self, address: int) -> tuple[int, int, int, int]:
        """What checks.overlap takes."""
        return address, self.span, self.row, self.step


def _walked(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """(extent, stride) of the axes of several elements, the closest first; those that follow on one another as one."""
    made: list[tuple[int, int]] = []
    for stride, extent in sorted((s, e) for e, s in zip(shape, strides, strict=True) if e > 1):
        if made and stride == made[-1][0] * made[-1][1]:
            extent, stride = extent * made[-1][0], made.pop()[1]
        made.append((extent, stride))
    return made
