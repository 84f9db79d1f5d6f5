"""Results that are computed by columns, turned in shared memory: columns of the fragment are rows of the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common import rounding
from scalec.lowering.common.gather import placed
from scalec.lowering.common.global_elements import address_of
from scalec.lowering.common.staging import store_matrices
from scalec.lowering.common.state import COMMON, State
from scalec.lowering.common.stores import both_of_a_column

_OWN = 16  # rows of a wave that a warp holds


@dataclass(frozen=True)
class _Turned:
    """Where this thread's unit has them: under each other the columns of its first wave, of the next, ...

    Attributes:
        own: shared address of the unit's part.
        element: MLIR's name of their type.
        rows, columns: of a wave.
        pitch: bytes from one column to the next; those behind its rows let adjacent columns lie in different banks.
    """

    own: ir.Value
    element: str
    rows: int
    columns: int
    pitch: int

    @classmethod
    def of(cls, s: State, op: ir.OpView) -> Self:
        b, fragment, staging = s.b, s.get(op.accumulator), s.get(op.staging)
        element, (_, wide) = str(tile.element_of(op.staging.type)), tile.shape_of(op.staging.type)
        pitch = wide * rounding.bits_of(element) // 8
        own = b.add(staging.base, b.mul(s.unit_index, len(fragment.waves) * fragment.columns * pitch))
        if s.geometry.turns > 1:
            own = b.add(own, b.mul(s.turn, tile.stage_bytes(op.staging.type)))
        return cls(own, element, s.geometry.wave, fragment.columns, pitch)

    @property
    def bits(self) -> int:
        return rounding.bits_of(self.element)

    def place(self, s: State, column: ir.Value, row: ir.Value) -> ir.Value:
        """Shared address of an element of the first wave, or of one that lies in a byte with the row before."""
        b = s.b
        return b.add(self.own, b.add(b.mul(column, self.pitch), b.div(b.mul(row, self.bits), 8)))

    def put(self, s: State, fragment: Any) -> None:
        """Rounds them, and stores them."""
        store = {32: self._one_by_one, 16: self._by_matrix}.get(self.bits, self._by_pairs)
        for wave, registers in enumerate(fragment.waves):
            store(s, registers, wave * self.columns * self.pitch)

    def _by_matrix(self, s: State, registers: list[Any], above: int) -> None:
        """By 16 rows and 16 columns, or 8, which `stmatrix` turns: lanes 0 to 7 have the addresses of eight columns of
        the upper rows, 8 to 15 of the lower ones, the others those of the next eight columns."""
        b, which = s.b, s.b.shr(s.lane, 3)
        column = b.add(b.and_(s.lane, 7), b.shl(b.shr(which, 1), 3))
        at = self.place(s, column, b.add(b.mul(s.warp_in_unit, _OWN), b.shl(b.and_(which, 1), 3)))
        for g in range(0, self.columns // 8, 2):
            words = [
                rounding.word(s, self.element, [registers[4 * i + 2 * half + j].get() for j in (0, 1)])
                for i in range(g, min(g + 2, self.columns // 8))
                for half in (0, 1)
            ]
            store_matrices(s, b.add(at, 8 * g * self.pitch + above), words, "col")

    def _by_pairs(self, s: State, registers: list[Any], above: int) -> None:
        """Lanes of two adjacent rows exchange, and each stores both elements of a column."""
        b = s.b
        for g, half, below in self._pieces(above):
            odd, _, both = both_of_a_column(s, [registers[4 * g + 2 * half + i].get() for i in (0, 1)])
            at = self.place(s, b.add(s.first_column, odd), b.and_(s.row_in_wave, -2))
            b.asm(f"st.shared.b{2 * self.bits} [$0 + {below}], $1;", [], [at, rounding.pair(s, self.element, *both)])

    def _one_by_one(self, s: State, registers: list[Any], above: int) -> None:
        at = self.place(s, s.first_column, s.row_in_wave)
        for g, half, below in self._pieces(above):
            for i in (0, 1):
                value = registers[4 * g + 2 * half + i].get()
                s.b.asm(f"st.shared.f32 [$0 + {below + i * self.pitch}], $1;", [], [at, value])

    def _pieces(self, above: int) -> Iterator[tuple[int, int, int]]:
        """Each two columns of a row that a thread has: which eight columns, which of its two rows, and how many bytes
        below the first."""
        for g in range(self.columns // 8):
            for half in (0, 1):
                yield g, half, 8 * g * self.pitch + half * self.bits + above


@COMMON.lowers("tile.store_turned")
def store_turned(s: State, op: ir.OpView) -> None:
    """The threads of a unit share out what is adjacent in a row of the result, tile.VECTOR bytes each."""
    b, fragment, turned = s.b, s.get(op.accumulator), _Turned.of(s, op)
    turned.put(s, fragment)
    s.unit_barrier()
    m0, n0, m, n = (s.get(v) for v in (op.m0, op.n0, op.m, op.n))
    across = turned.rows * turned.bits // 8 // tile.VECTOR  # threads of a row
    together = 32 * s.geometry.warps // across  # rows
    thread = b.add(b.shl(s.warp_in_unit, 5), s.lane)
    which, vector = b.div(thread, across), b.and_(thread, across - 1)
    along = b.mul(vector, tile.VECTOR * 8 // turned.bits)
    first = b.add(n0, b.mul(s.unit(1), turned.columns))
    for wave in range(len(fragment.waves)):
        row = b.add(m0, b.add(b.add(b.mul(s.unit(0), len(fragment.waves) * turned.rows), wave * turned.rows), along))
        for start in range(0, turned.columns, together):
            column = b.add(which, start)
            at = b.add(first, column)
            inside = b.and_(b.compare("lt", row, m), b.compare("lt", at, n))
            if start + together > turned.columns:
                inside = b.and_(inside, b.compare("lt", column, turned.columns))
            at, inside = placed(s, op, "n", at, inside)
            index = b.add(b.mul(b.widen(at), s.get(op.stride)), b.widen(b.div(row, max(1, 8 // turned.bits))))
            target = address_of(s, s.get(op.target), index, turned.element)
            source = b.add(turned.own, b.add(b.mul(column, turned.pitch), b.shl(vector, 4)))
            source = b.add(source, wave * turned.columns * turned.pitch)
            text = "@$2 ld.shared.v4.b32 {W0, W1, W2, W3}, [$1];\n@$2 st.global.v4.b32 [$0], {W0, W1, W2, W3};"
            b.asm(f"{{\n.reg .b32 W<4>;\n{text}\n}}", [], [target, source, inside])
    s.unit_barrier()  # the next tile's are put in their place
