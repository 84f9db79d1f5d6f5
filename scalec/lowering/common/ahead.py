"""What L2 is asked for, or shared memory receives, before a tile's results need it."""

from __future__ import annotations

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common import rounding
from scalec.lowering.common.copies import SECTOR
from scalec.lowering.common.epilogue import Reader
from scalec.lowering.common.state import COMMON, State


@COMMON.lowers("tile.prefetch_input")
def prefetch_input(s: State, op: ir.OpView) -> None:
    """A lane for each row or column; those of a sector ask for it together. Of both, a lane for each row."""
    b, source = s.b, s.get(op.input)
    both, by_row = source.kind == "both", source.kind != "col"
    reader, (rows, columns) = Reader(s, source), tile.ints_of(op.tile)
    first, last, count = (op.m0, op.m, rows) if by_row else (op.n0, op.n, columns)
    for i in range(0, count, tile.LANES):
        at = b.min(b.add(b.add(s.get(first), i), s.lane), b.sub(s.get(last), 1))
        if source.lookups:
            pointer, there = reader.of_row(at, b.constant(1, b.i1))
            b.asm("@$1 prefetch.global.L2 [$0];", [], [b.integer(pointer), there])
            continue
        for column in range(0, columns, 8 * SECTOR // rounding.bits_of(source.element)) if both else [0]:
            other = b.min(b.add(s.get(op.n0), column), b.sub(s.get(op.n), 1)) if both else None
            pointer = reader.pointer(at, other) if by_row else reader.pointer(None, at)
            b.asm("prefetch.global.L2 [$0];", [], [b.integer(pointer)])


@COMMON.lowers("tile.copy_input")
def copy_input(s: State, op: ir.OpView) -> None:
    """A lane for each row: of 0 bytes of memory a copy makes zeros (PTX ISA 9.7.9.25.3.1, src-size)."""
    b, (_, rows) = s.b, tile.shape_of(op.target.type)
    reader, target = Reader(s, s.get(op.input)), b.add(s.get(op.target).address(b, s.get(op.cursor)), b.shl(s.lane, 2))
    for i in range(0, rows, tile.LANES):
        at = b.add(b.add(s.get(op.m0), i), s.lane)
        pointer, there = reader.of_row(at, b.compare("lt", at, s.get(op.m)))
        text = f"cp.async.ca.shared.global [$0 + {4 * i}], [$1], 4, $2;"
        size = b.select(there, b.constant(4), 0)
        b.asm(text, [], [target, b.integer(pointer), size])
