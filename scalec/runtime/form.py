"""A tensor of a call without its address."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.abi import TensorSpec
from scalec.runtime import checks, stored


@dataclass(frozen=True)
class Form:
    """Shape and strides in stored elements, bytes spanned, and for the overlap test the
    bytes of a row and between rows (0 where rows say nothing)."""

    spec: TensorSpec
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    span: int
    row: int
    step: int

    @staticmethod
    def of(t: TensorSpec, shape: tuple[int, ...], strides: tuple[int, ...]) -> Form:
        """The form of a tensor of this shape."""
        item = stored.itemsize(t.dtype)
        rows = [(e, s) for e, s in zip(shape, strides, strict=True) if e > 1 and s > 1]
        row = step = 0
        if len(rows) == 1 and t.shape:
            row, step = shape[stored.contiguous_axis(t)] * item, rows[0][1] * item
        return Form(t, shape, strides, checks.span(shape, strides, item), row, step)

    def at(self, address: int) -> tuple[int, int, int, int]:
        """What checks.overlap takes."""
        return address, self.span, self.row, self.step
