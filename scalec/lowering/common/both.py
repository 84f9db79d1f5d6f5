"""Arithmetic on two adjacent columns, one instruction for each: what sm100/arithmetic.py does with one for both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder, Variable


@dataclass(frozen=True)
class Two:
    """Two values."""

    values: tuple[ir.Value, ...]


class Both:
    """What the functions of scalar.OPS ask of a builder, on two values at once."""

    doubled = 0

    def __init__(self, b: Builder) -> None:
        self._b, self.f32 = b, b.f32

    def pair(self, values: tuple[ir.Value, ...]) -> Two:
        """Two values as what this computes with."""
        return Two(values)

    def of(self, registers: Sequence[Variable]) -> Two:
        """What two registers hold."""
        return Two(tuple(v.get() for v in registers))

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Code that does not dominate what is behind it: nothing is kept that others have in common."""
        yield

    def constant(self, value: float) -> Two:
        return Two((self._b.constant(value),) * 2)

    def fadd(self, x: Two, y: Two) -> Two:
        return self._each(self._b.fadd, x, y)

    def fmul(self, x: Two, y: Two) -> Two:
        return self._each(self._b.fmul, x, y)

    def fma(self, x: Two, y: Two, z: Two) -> Two:
        return self._each(self._b.fma, x, y, z)

    def op(self, name: str, results: Sequence[ir.Type], operands: Sequence[Two]) -> Two:
        return self._each(lambda *x: self._b.op(name, results, x), *operands)

    def asm(
        self, text: str, results: Sequence[ir.Type], operands: Sequence[Two], *, volatile: bool, memory: bool
    ) -> list[Two]:
        return [self._each(lambda *x: self._b.asm(text, results, x, volatile=volatile, memory=memory)[0], *operands)]

    def _each(self, made: Any, *operands: Two) -> Two:
        return Two(tuple(made(*x) for x in zip(*(o.values for o in operands), strict=True)))
