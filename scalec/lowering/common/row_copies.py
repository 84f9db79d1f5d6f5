"""Rows that threads copy into shared memory, each 16 bytes at a time (cp.async, PTX ISA 9.7.9.27.3).

A thread has the same chunk of every row that it copies, and rows lie as many apart as the swizzle repeats after. So it
knows its place in shared memory once, and where its rows are in memory, two registers for each, when a tile begins: a
copy then takes four instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.state import COMMON, State, swizzle
from scalec.targets import WARPGROUP

_MISSING = ".reg .pred P1;\n.reg .b32 M;\nand.b32 M, $2, {bit};\nsetp.ne.b32 P1, M, 0;\n"
"""P1: nobody looks at the source of a copy, a row without an index."""


@dataclass(frozen=True)
class Shared:
    """A tile's rows, each of which `chunks` threads of a warpgroup share, or those of a warp: as many rows as that are
    at once."""

    rows: int
    chunks: int
    threads: int

    def place(self, s: State) -> tuple[ir.Value, ir.Value]:
        """The first row of this thread, and its chunk of each."""
        b = s.b
        if self.threads < WARPGROUP:
            return s.lane, b.constant(0)
        row = s.once(("row of", self.chunks), lambda: b.div(s.thread, self.chunks))
        return row, s.once(("chunk of", self.chunks), lambda: b.and_(s.thread, self.chunks - 1))

    def each(self, s: State) -> Iterator[tuple[int, int, ir.Value | None]]:
        """(its number, how many rows behind the thread's first, whether it is a row of the tile) of each row."""
        b, (row, _), at_once = s.b, self.place(s), self.threads // self.chunks
        for i, behind in enumerate(range(0, self.rows, at_once)):
            yield i, behind, b.compare("lt", row, self.rows - behind) if behind + at_once > self.rows else None


@dataclass(frozen=True)
class Chunks(Shared):
    """Where a tile's rows are, in bytes; bit i of `missing` is set where the thread's i-th row has no index, and is
    then said to be the tensor's first. An index leads to a row `stride` bytes further for each `row_block`."""

    offsets: list[Variable]
    missing: Variable
    stride: ir.Value
    row_block: int

    def offset(self, b: Builder, index: ir.Value) -> ir.Value:
        """Where the row of an index is that leads somewhere."""
        return b.mul(b.widen(b.div(index, self.row_block)), self.stride)


@COMMON.lowers("tile.row_chunks")
def row_chunks(s: State, op: ir.OpView) -> None:
    b, rows, chunks = s.b, tile.int_of(op.rows), tile.int_of(op.chunks)
    offsets = [b.variable(b.i64, b.constant(0, b.i64)) for _ in range(-(-rows * chunks // WARPGROUP))]
    missing = b.variable(b.i32, 0xFFFFFFFF)
    stride = b.mul(b.value(s.get(op.stride), b.i64), max(1, tile.int_of(op.bits) // 8))
    s.values[op.result] = Chunks(rows, chunks, WARPGROUP, offsets, missing, stride, tile.int_of(op.row_block))


@COMMON.lowers("tile.copy_rows")
def copy_rows(s: State, op: ir.OpView) -> None:
    b, rows, k0, k = s.b, s.get(op.rows), s.get(op.k0), s.get(op.k)
    bits = tile.int_of(op.rows.owner.opview.bits)
    (_, columns), swizzled = tile.shape_of(op.target.type), tile.swizzle_of(op.target.type)
    pitch = columns * tile.bits_of(tile.element_of(op.target.type)) // 8
    row, chunk = rows.place(s)

    def in_stage() -> ir.Value:
        at = b.xor(chunk, swizzle(b, row, pitch)) if swizzled else chunk
        return b.add(b.mul(row, pitch), b.shl(at, 4))

    place = b.add(s.get(op.target).address(b, s.get(op.cursor)), s.once(("in stage", op.rows), in_stage))
    begins = b.add(_bytes(s, k0, bits), b.widen(b.shl(chunk, 4)))  # behind where a row does
    source = b.add(b.integer(s.get(op.source)), begins)

    def issue(left: ir.Value | None) -> None:
        for i, behind, is_row in rows.each(s):
            copy, missing = f"cp.async.cg.shared.global [$0 + {behind * pitch}], [$1], {tile.CHUNK}, ", _missing(i)
            operands: list[ir.Value] = [place, b.add(source, rows.offsets[i].get()), rows.missing.get()]
            if left is None:
                text = f"{{\n{missing}{copy}P1;\n}}"
            else:
                text = f"{{\n.reg .b32 S;\n{missing}selp.b32 S, 0, $3, P1;\n{copy}S;\n}}"
                operands.append(left)
            _guarded(b, text, operands, is_row)

    if "whole" in op.operation.attributes:
        issue(None)
        return

    def partly() -> None:
        left = b.sub(_bytes(s, k, bits), begins)
        text = "{\n.reg .b64 D;\nmax.s64 D, $1, 0;\nmin.s64 D, D, 16;\ncvt.u32.u64 $0, D;\n}"
        issue(b.pure(text, b.i32, left))

    b.either(b.compare("le", b.add(k0, pitch * 8 // bits), k), lambda: issue(None), partly)


def _missing(i: int) -> str:
    return _MISSING.format(bit=1 << i)


def _guarded(b: Builder, text: str, operands: list[ir.Value], condition: ir.Value | None) -> None:
    """A copy, under a condition: no branch, so that all threads of a warp arrive together behind it."""
    if condition is not None:
        text = text.replace("cp.async", f"@${len(operands)} cp.async")
        operands = [*operands, condition]
    b.asm(text, [], operands)


def _bytes(s: State, count: ir.Value | int, bits: int) -> ir.Value:
    """So many elements of a row in bytes, as an i64; half of one is a whole one."""
    b = s.b
    if isinstance(count, int):
        return b.constant(-(-count * bits // 8), b.i64)
    wide = b.widen(count)
    return b.mul(wide, bits // 8) if bits >= 8 else b.shr(b.add(b.mul(wide, bits), 7), 3)


@COMMON.lowers("tile.copy_row_scales")
def copy_row_scales(s: State, op: ir.OpView) -> None:
    b, rows, k0, k = s.b, s.get(op.rows), s.get(op.k0), s.get(op.k)
    (vectors, length), step, block = tile.shape_of(op.target.type), tile.int_of(op.step), tile.int_of(op.block)
    place = b.add(s.get(op.target).address(b, s.get(op.cursor)), b.shl(rows.place(s)[0], 2))
    memory = b.integer(s.get(op.source))
    for j in range(vectors):
        at = b.add(k0, j * step)
        source = b.add(memory, b.mul(b.mul(b.widen(b.div(at, block)), s.get(op.k_stride)), 4))
        beyond = b.compare("ge", at, k)
        for i, behind, is_row in rows.each(s):
            copy = f"or.pred P1, P1, $3;\ncp.async.ca.shared.global [$0 + {4 * (j * length + behind)}], [$1], 4, P1;"
            operands = [place, b.add(source, rows.offsets[i].get()), rows.missing.get(), beyond]
            _guarded(b, f"{{\n{_missing(i)}{copy}\n}}", operands, is_row)


@COMMON.lowers("tile.land")
def land(s: State, op: ir.OpView) -> None:
    barrier = s.b.add(s.get(op.ring).full, s.b.shl(s.get(op.cursor).at(), 3))
    s.b.asm("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];", [], [barrier])
