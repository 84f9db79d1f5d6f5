"""Rows of K that threads copy into shared memory where indices along K are read from memory (cp.async, PTX ISA
9.7.9.27.3).

A thread has the same 16 bytes of each panel of every row that it copies, and rows lie as many apart as the swizzle
repeats after. What memory has for a row is asked for a stage ahead, and looked at when the row is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_gather import line_of
from scalec.lowering.builder import Variable
from scalec.lowering.common.copies import NOTHING, RowScales
from scalec.lowering.common.items import ballot
from scalec.lowering.common.row_copies import Shared
from scalec.lowering.common.state import COMMON, State, swizzle
from scalec.targets import WARPGROUP


@dataclass(frozen=True)
class KRows(Shared):
    """What indices have for the rows of a thread: each index for each row."""

    found: list[list[Variable]]


def _panels(of: ir.Type) -> tuple[int, int, list[int]]:
    """Of a tile bytes of a panel's row, from one row to the next, and where each panel begins."""
    (depth, columns), swizzled = tile.shape_of(of), tile.swizzle_of(of)
    width = columns * tile.bits_of(tile.element_of(of)) // 8
    line = line_of(width, swizzled)
    return line, line if swizzled else width, [i * (depth if swizzled else 1) * line for i in range(width // line)]


@COMMON.lowers("tile.k_rows")
def k_rows(s: State, op: ir.OpView) -> None:
    rows, chunks, count = (tile.int_of(x) for x in (op.rows, op.chunks, op.count))
    threads = tile.LANES if "alone" in op.operation.attributes else WARPGROUP
    each = -(-rows * chunks // threads)
    found = [[s.b.variable(s.b.i32, NOTHING) for _ in range(count)] for _ in range(each)]
    s.values[op.result] = KRows(rows, chunks, threads, found)


@COMMON.lowers("tile.look_up_k")
def look_up_k(s: State, op: ir.OpView) -> None:
    b, into, low, high = s.b, s.get(op.into), s.get(op.low), s.get(op.high)
    if isinstance(into, RowScales):
        own = tile.int_of(op.operation.attributes["own"])
        for variable, (row, is_row, _) in zip(into.indices or [], into.mine(s), strict=True):
            at = b.add(s.get(op.k0), row)
            inside = b.both(b.and_(b.compare("ge", at, low), b.compare("lt", at, high)), is_row)
            found = [(s.get(x), s.get(x).load(b, at, inside)) for x in op.index]
            named = reduce(b.and_, (index.names(b, value) for index, value in found))
            variable.set(b.select(named, found[own][1], b.constant(NOTHING)))
        return
    first = b.add(s.get(op.k0), into.place(s)[0])
    for i, behind, is_row in into.each(s):
        at = b.add(first, behind)
        inside = b.and_(b.compare("ge", at, low), b.compare("lt", at, high))
        inside = b.both(inside, is_row)
        for variable, index in zip(into.found[i], op.index, strict=True):
            variable.set(s.get(index).load(b, at, inside))


@COMMON.lowers("tile.copy_k_rows")
def copy_k_rows(s: State, op: ir.OpView) -> None:
    b, rows, attributes = s.b, s.get(op.rows), op.operation.attributes
    bits, (line, pitch, panels) = tile.bits_of(tile.element_of(op.target.type)), _panels(op.target.type)
    own = tile.int_of(attributes["own"]) if "own" in attributes else None
    row, chunk = rows.place(s)
    turned = chunk
    if swizzled := tile.swizzle_of(op.target.type):
        turned = s.once(("turned", line), lambda: b.xor(chunk, swizzle(b, row, swizzled)))
    place = b.add(s.get(op.target).address(b, s.get(op.cursor)), b.add(b.mul(row, pitch), b.shl(turned, 4)))
    begins = b.add(b.mul(b.widen(s.get(op.first)), bits // 8), b.widen(b.shl(chunk, 4)))
    source = b.add(b.integer(s.get(op.source)), begins)
    stride = b.mul(b.value(s.get(op.stride), b.i64), bits // 8)
    text = "{\n.reg .b64 D;\nmax.s64 D, $1, 0;\nmin.s64 D, D, 16;\ncvt.u32.u64 $0, D;\n}"
    behind_all = b.sub(b.mul(b.widen(s.get(op.end)), bits // 8), begins)
    left = [b.pure(text, b.i32, b.sub(behind_all, panel * line)) for panel in range(len(panels))]
    for i, behind, is_row in rows.each(s):
        values = [x.get() for x in rows.found[i]]
        named = reduce(b.and_, (s.get(x).names(b, v) for x, v in zip(op.index, values, strict=True)))
        at = b.add(s.get(op.k0), b.add(row, behind)) if own is None else values[own]
        address = b.add(source, b.mul(b.widen(b.select(named, at, b.constant(0))), stride))
        for panel, further in enumerate(panels):
            copy = f"cp.async.cg.shared.global [$0 + {further + behind * pitch}], [$1], {tile.CHUNK}, $2;"
            operands = [place, b.add(address, panel * line), b.select(named, left[panel], b.constant(0))]
            b.asm(copy, [], operands, only=is_row)


@COMMON.lowers("tile.cut_k_rows")
def cut_k_rows(s: State, op: ir.OpView) -> None:
    """A row each lane: the swizzle moves bytes within lines alone."""
    b, rows, (line, pitch, panels) = s.b, s.get(op.rows), _panels(op.tile.type)
    own = b.add(s.get(op.tile).address(b, s.get(op.cursor)), b.mul(rows.place(s)[0], pitch))
    for i, behind, is_row in rows.each(s):
        named = reduce(b.and_, (s.get(x).names(b, v.get()) for x, v in zip(op.index, rows.found[i], strict=True)))
        left_out = b.xor(named, b.constant(1, b.i1))
        with b.when(b.both(left_out, is_row)):
            for further in panels:
                for at in range(0, line, tile.CHUNK):
                    place = further + behind * pitch + at
                    b.asm(f"st.shared.v4.b32 [$0 + {place}], {{$1, $1, $1, $1}};", [], [own, b.constant(0)])


@COMMON.lowers("tile.cut_unnamed")
def cut_unnamed(s: State, op: ir.OpView) -> None:
    """A row each lane: what a vote says of 32 of them at a time."""
    b, rows, unit, source = s.b, s.get(op.rows), tile.int_of(op.unit), s.get(op.source)
    votes: list[ir.Value] = []
    for i, _, is_row in rows.each(s):
        named = reduce(b.and_, (s.get(x).names(b, v.get()) for x, v in zip(op.index, rows.found[i], strict=True)))
        votes.append(ballot(b, b.both(named, is_row)))

    def any_of(number: int) -> ir.Value:
        """Whether a unit has any."""
        found = b.constant(0)
        for i, vote in enumerate(votes):
            first, end = (min(max(x - tile.LANES * i, 0), tile.LANES) for x in (number * unit, (number + 1) * unit))
            mask = (1 << end) - (1 << first)
            found = b.or_(found, b.and_(vote, mask) if mask < 0xFFFFFFFF else vote) if mask else found
        return b.compare("ne", found, 0)

    if isinstance(op.source.type, tile.ByteScalesType):
        for word in range(len(source.registers[0])):
            kept = reduce(b.or_, (b.select(any_of(4 * word + i), 0xFF << 8 * i, b.constant(0)) for i in range(4)))
            for registers in source.registers:
                registers[word].set(b.and_(registers[word].get(), kept))
        return
    zero = 0.0 if source.element == "f32" else 0
    for number in range(len(source.registers[0])):
        kept = any_of(number)
        for registers in source.registers:
            registers[number].set(b.select(kept, registers[number].get(), zero))
