"""Rows that threads copy into shared memory, each 16 bytes at a time (cp.async, PTX ISA 9.7.9.27.3).

A thread has the same chunk of every row that it copies, and rows lie as many apart as the swizzle repeats after. So it
knows its place in shared memory once; of memory it has the indices of its rows, and an address takes two instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common.copies import NOTHING
from scalec.lowering.common.state import COMMON, State, swizzle
from scalec.targets import WARPGROUP


@dataclass(frozen=True)
class Chunks:
    """Indices of a tile's rows: of `chunks` threads each that share a row, and of as many rows as that are at once."""

    rows: int
    chunks: int
    indices: list[list[Variable]]

    @property
    def at_once(self) -> int:
        return WARPGROUP // self.chunks

    def place(self, s: State) -> tuple[ir.Value, ir.Value]:
        """The first row of this thread, and its chunk of each."""
        b = s.b
        thread = s.once("thread", lambda: b.sub(s.tid, b.constant(32 * s.first_warp)))
        row = s.once(("row of", self.chunks), lambda: b.div(thread, self.chunks))
        return row, s.once(("chunk of", self.chunks), lambda: b.and_(thread, self.chunks - 1))

    def first(self, s: State, i: int) -> tuple[ir.Value, ir.Value | None]:
        """The i-th row within the tile of a thread, and whether it is one."""
        b, (row, _), step = s.b, self.place(s), i * self.at_once
        return b.add(row, step), b.compare("lt", row, self.rows - step) if step + self.at_once > self.rows else None

    def each(self, s: State) -> Iterator[tuple[int, ir.Value, ir.Value | None]]:
        """(rows behind its first, index, whether it is a row of the tile) of each of a thread's rows."""
        for i, (index,) in enumerate(self.indices):
            yield i * self.at_once, index.get(), self.first(s, i)[1]


@COMMON.lowers("tile.row_chunks")
def row_chunks(s: State, op: ir.OpView) -> None:
    rows, chunks = tile.int_of(op.rows), tile.int_of(op.chunks)
    count = -(-rows * chunks // WARPGROUP)
    s.values[op.result] = Chunks(rows, chunks, [[s.b.variable(s.b.i32, NOTHING)] for _ in range(count)])


@COMMON.lowers("tile.copy_rows")
def copy_rows(s: State, op: ir.OpView) -> None:
    b, rows, k0, k, bits = s.b, s.get(op.rows), s.get(op.k0), s.get(op.k), tile.int_of(op.bits)
    (_, columns), swizzled = tile.shape_of(op.target.type), tile.swizzle_of(op.target.type)
    pitch = columns * tile.bits_of(tile.element_of(op.target.type)) // 8
    row, chunk = rows.place(s)

    def in_stage() -> ir.Value:
        at = b.xor(chunk, swizzle(b, row, pitch)) if swizzled else chunk
        return b.add(b.mul(row, pitch), b.shl(at, 4))

    place = b.add(s.get(op.target).address(b, s.get(op.cursor)), s.once(("in stage", op.rows), in_stage))
    own = b.widen(b.shl(chunk, 4))
    begins = b.add(_bytes(s, k0, bits), own)  # behind where a row does
    source = b.add(b.op("llvm.ptrtoint", [b.i64], [s.get(op.source)]), begins)
    stride = b.mul(s.get(op.stride), max(1, bits // 8))

    def issue(left: ir.Value | None) -> None:
        for behind, index, is_row in rows.each(s):
            address = b.add(source, b.mul(b.widen(index), stride))
            operands: list[ir.Value] = [place, address]
            guard = "" if is_row is None else "@$3 "
            copy = f"{guard}cp.async.cg.shared.global [$0 + {behind * pitch}], [$1], {tile.CHUNK}, "
            if left is None:  # a predicate says whose source is not looked at: one instruction, and no sizes
                text = f"{{\n.reg .pred P1;\nsetp.lt.s32 P1, $2, 0;\n{copy}P1;\n}}"
                operands.append(index)
            else:
                text = f"{copy}$2;"
                operands.append(b.select(b.compare("slt", index, 0), b.constant(0), left))
            b.asm(text, [], operands if is_row is None else [*operands, is_row])

    if "whole" in op.operation.attributes:
        issue(None)
        return
    depth = pitch * 8 // bits  # of K
    whole = b.compare("le", b.add(k0, depth), k)

    def partly() -> None:
        left = b.sub(_bytes(s, k, bits), begins)
        text = "{\n.reg .b64 D;\nmax.s64 D, $1, 0;\nmin.s64 D, D, 16;\ncvt.u32.u64 $0, D;\n}"
        issue(b.pure(text, b.i32, left))

    b.either(whole, lambda: issue(None), partly)


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
    step, block, row_block = (tile.int_of(x) for x in (op.step, op.block, op.row_block))
    vectors, length = tile.shape_of(op.target.type)
    place = b.add(s.get(op.target).address(b, s.get(op.cursor)), b.shl(rows.place(s)[0], 2))
    source = b.op("llvm.ptrtoint", [b.i64], [s.get(op.source)])
    for j in range(vectors):
        at = b.add(k0, j * step)
        beyond = b.compare("ge", at, k)
        column = b.add(source, b.mul(b.mul(b.widen(b.div(at, block)), s.get(op.k_stride)), 4))
        for behind, index, is_row in rows.each(s):
            address = b.add(column, b.mul(b.mul(b.widen(b.div(index, row_block)), s.get(op.row_stride)), 4))
            nothing = b.or_(b.compare("eq", index, NOTHING), beyond)
            operands = [place, address, nothing]
            guard = "" if is_row is None else "@$3 "
            offset = 4 * (j * length + behind)
            text = f"{guard}cp.async.ca.shared.global [$0 + {offset}], [$1], 4, $2;"
            b.asm(text, [], operands if is_row is None else [*operands, is_row])


@COMMON.lowers("tile.land")
def land(s: State, op: ir.OpView) -> None:
    barrier = s.b.add(s.get(op.ring).full, s.b.shl(s.get(op.cursor).at(), 3))
    s.b.asm("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];", [], [barrier])
