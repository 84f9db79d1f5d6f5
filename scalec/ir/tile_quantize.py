"""The ops of `tile` that find and store the scales of a quantised result, transform one, and round one by chance."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.formats import GRIDS, LAYOUTS, MOST_WORDS, QUANTISED, TRANSFORMED, element_spelled
from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import at_least, flag, gaps, in_step, maker, scattered
from scalec.ir.tile_types import (
    I32,
    CursorType,
    FragmentType,
    InputType,
    RingType,
    RowIndexType,
    Tile,
    gaps_of,
    int_of,
    shape_of,
    str_of,
)
from scalec.ir.verify import fail, verifier
from scalec.targets import WAVES


class QuantizeOp(Tile.Operation, name="quantize"):
    """Divides each `block` adjacent columns of a row by a scale, and stores the scales of rows below m, without those
    for which one of `skips` names nothing. `to` is as that of `tile.store_direct`.

    `by_rows` 1: `block` adjacent rows of a column, for columns below n; read rows for columns, and the reverse, in what
    follows.

    A block's scale is its largest magnitude over that of `element`, rounded to the type `scale`, as `scale.quantize`
    has it; the accumulator is multiplied by its reciprocal. Where there is an `inverse`, the reciprocal of the whole
    result's scale, the largest magnitudes are multiplied by its magnitude first, and the reciprocals by it, to a finite
    number. `layout` and `stride` say where a scale goes: see scalec.formats.Granularity; `stride` counts scales from
    row to row ("row"), from block to block ("col") or i32 from four blocks to the next four ("packed"). `ragged` 1: the
    last block may end beyond n, where values do not count. `padding`: the most scales that fill up the word of four in
    which a row's last one stands; they are 0. `together`: scales of adjacent blocks that are stored at once, 1, 2 or 4
    bytes. `exchange`: where in shared memory warps that share a tile's columns exchange an f32 for each of its rows and
    of them, as a block is wider than a warp's columns, or `by_rows` one for each of its columns and waves of 16 rows,
    as it is higher than a warp's; there the tiles of a CTA take turns with two places, one behind the other. -1 where
    neither is. `moved`, one or none: how much further a row is counted among those whose scales are stored.

    With `ctas`, an optional integer, a scale is of `block` columns of each of so many CTAs, a cluster along the
    columns. They send each other what each unit along the columns has of each of the tile's `rows`, an f32, to two
    places by turns behind `exchange`; that and an arrival of each warp complete the barrier of `ring` that `cursor` is
    at, which moves on.

    With `gaps`, an optional attribute of three integers, blocks go around gaps as columns of `tile.store_direct` do;
    those that are stored `together` lie on one side of each.
    """

    accumulator: ext.Operand[FragmentType]
    target: ext.Operand[Any]
    stride: ext.Operand[ir.IntegerType[64]]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    inverse: Sequence[ext.Operand[InputType]]
    skips: Sequence[ext.Operand[RowIndexType]]
    moved: Sequence[ext.Operand[I32]]
    ring: ext.Operand[RingType] | None
    cursor: ext.Operand[CursorType] | None
    block: ir.IntegerAttr
    by_rows: ir.IntegerAttr
    element: ir.TypeAttr
    scale: ir.StringAttr
    layout: ir.StringAttr
    ragged: ir.IntegerAttr
    padding: ir.IntegerAttr
    together: ir.IntegerAttr
    exchange: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        columns, block, exchange = shape_of(op.accumulator.type)[1], int_of(op.block), int_of(op.exchange)
        if exchange >= 0 and block > columns and block % columns == 0:
            columns = block
        if not isinstance(op.target.type, ir.MemRefType):
            return fail(op, f"stores scales into {op.target.type}, expected a memref")
        if not flag(op, "by_rows", "ragged"):
            return False
        ctas = op.operation.attributes.get("ctas")
        if (ctas is not None) != (op.ring is not None) or (op.ring is None) != (op.cursor is None):
            return fail(op, "shares blocks with other CTAs, or has a ring, expected ctas, a ring and a cursor, or none")
        if ctas is not None and not (at_least(op, 2, "ctas", "rows") and in_step(op, op.ring)):
            return False
        if ctas is not None and (exchange < 0 or int_of(op.by_rows)):
            return fail(op, f"exchanges at {exchange}, by_rows {int_of(op.by_rows)}, expected a place, and columns")
        if len(op.inverse) > 1 or any(maker(x, "tile.hold") is None for x in op.inverse):
            return fail(op, f"{len(op.inverse)} inverses, expected one that tile.hold made, or none")
        if len(op.moved) > 1:
            return fail(op, f"rows are moved by {len(op.moved)} numbers, expected one or none")
        along = "n" if int_of(op.by_rows) else "m"
        if any(str_of(made.axis) != along for x in op.skips if (made := maker(x, "tile.row_index")) is not None):
            return fail(op, f"skips some of a block's elements, expected whole blocks: indices along {along}")
        if not scattered(op, along) or not gaps(op):
            return False
        around, together = gaps_of(op), int_of(op.together)
        if around is not None and (int_of(op.by_rows) or any(x % together for x in around)):
            return fail(op, f"gaps {list(around)} between {together} blocks of columns, expected multiples of these")
        if str_of(op.layout) not in LAYOUTS:
            return fail(op, f"layout is {op.layout}, expected {', '.join(LAYOUTS)}")
        if str_of(op.scale) not in SCALES:
            return fail(op, f"scales are {op.scale}, expected {', '.join(SCALES)}")
        if int_of(op.by_rows):
            return _by_rows(op)
        if block < 8 or block % 8 or columns % block:
            return fail(op, f"blocks of {block} in {columns} columns, expected a divisor and a multiple of 8")
        if together not in (1, 2, 4) or columns % (block * together) or (together > 1 and str_of(op.scale) == "f32"):
            return fail(op, f"{together} {op.scale} at once in {columns} columns, expected 1, or 2 or 4 bytes")
        return at_least(op, 0, "padding")


def _by_rows(op: ir.OpView) -> bool:
    """Refuses blocks of rows that are no waves, that no warp has whole where warps do not exchange, or more at once."""
    rows, wave, block = shape_of(op.accumulator.type)[0], WAVES["warp"], int_of(op.block)
    of_warpgroup = str_of(op.accumulator.type.space) == "registers"
    most, alone = wave if of_warpgroup else rows, int_of(op.exchange) < 0
    if block < wave or block % wave or (alone and most % block):
        return fail(op, f"blocks of {block} rows, of which a warp has {most}, expected a divisor, a multiple of {wave}")
    if int_of(op.together) != 1 or not (alone or of_warpgroup):
        return fail(op, f"{op.together} at once, exchanged at {op.exchange}, expected 1 and -1 for blocks of rows")
    return at_least(op, 0, "padding")


class RoundSumsOp(Tile.Operation, name="round_sums"):
    """Rounds sums up or down to multiples of what numbers of `element` around each lie apart, by the random bits of
    where it is stored, as `tile.round_columns` does. `by_rows` 1: rows of the accumulator lie side by side in memory.
    `skips` and `to` are as those of `tile.store_direct`.

    A tensor's axes but the last, which lies side by side, have indices of which `at` are all but the one on axis
    `along`, where the accumulator's rows (or columns) are; -1: there is none. `extents` are of all axes but the first.
    The accumulator begins at a multiple of 4 along the last.
    """

    accumulator: ext.Operand[FragmentType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    at: Sequence[ext.Operand[I32]]
    extents: Sequence[ext.Operand[I32]]
    words: Sequence[ext.Operand[I32]]
    skips: Sequence[ext.Operand[RowIndexType]]
    by_rows: ir.IntegerAttr
    along: ir.IntegerAttr
    element: ir.TypeAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        along, outer = int_of(op.along), len(op.extents)
        if not -1 <= along < outer or len(op.at) + (along >= 0) != outer:
            return fail(op, f"{len(op.at)} indices beside axis {along}, and {outer} extents, expected one for each")
        if not flag(op, "by_rows") or not scattered(op, "n" if int_of(op.by_rows) else "m"):
            return False
        return rounds(op)


class TransformSumsOp(Tile.Operation, name="transform_sums"):
    """Transforms sums as `scale.hadamard` does, of adjacent columns or, `by_rows` 1, rows: each 16 from the first of
    the tensor on. `ragged` 1: the last ones may end beyond n, or m, where values do not count."""

    accumulator: ext.Operand[FragmentType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    by_rows: ir.IntegerAttr
    ragged: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        columns = shape_of(op.accumulator.type)[1]
        if flag(op, "by_rows", "ragged") and not int_of(op.by_rows) and columns % TRANSFORMED:
            return fail(op, f"transforms {columns} columns, expected a multiple of {TRANSFORMED}")
        return flag(op, "by_rows", "ragged")


def rounds(op: ir.OpView) -> bool:
    """Refuses words that are none of Philox's, and types that nothing is rounded to by chance."""
    if not 1 <= len(op.words) <= MOST_WORDS:
        return fail(op, f"has {len(op.words)} words, expected 1 to {MOST_WORDS}")
    row = element_spelled(str(op.element.value))
    if row is None or row.name not in GRIDS:
        return fail(op, f"rounds to {op.element.value}, expected {', '.join(GRIDS)}")
    return True


SCALES = QUANTISED
