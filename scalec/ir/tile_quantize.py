"""The ops of `tile` that find and store the scales of a quantised result, transform one, and round one by chance."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.formats import GRIDS, LAYOUTS, MOST_WORDS, QUANTISED, TRANSFORMED, element_spelled
from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, at_least, flag, gaps, in_step, maker, scattered
from scalec.ir.tile_types import *
from scalec.ir.verify import refuse
from scalec.targets import WAVES


class QuantizeOp(Op, name="quantize"):
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

    def verify_invariants(op: ir.OpView) -> None:
        columns, block, exchange = shape_of(op.accumulator.type)[1], int_of(op.block), int_of(op.exchange)
        if exchange >= 0 and block > columns and block % columns == 0:
            columns = block
        if not isinstance(op.target.type, ir.MemRefType):
            refuse(f"stores scales into {op.target.type}, expected a memref")
        flag(op, "by_rows", "ragged")
        ctas = op.operation.attributes.get("ctas")
        if (ctas is not None) != (op.ring is not None) or (op.ring is None) != (op.cursor is None):
            refuse("shares blocks with other CTAs, or has a ring, expected ctas, a ring and a cursor, or none")
        if ctas is not None:
            at_least(op, 2, "ctas", "rows")
            in_step(op, op.ring)
        if ctas is not None and (exchange < 0 or int_of(op.by_rows)):
            refuse(f"exchanges at {exchange}, by_rows {int_of(op.by_rows)}, expected a place, and columns")
        if len(op.inverse) > 1 or any(maker(x, "tile.hold") is None for x in op.inverse):
            refuse(f"{len(op.inverse)} inverses, expected one that tile.hold made, or none")
        if len(op.moved) > 1:
            refuse(f"rows are moved by {len(op.moved)} numbers, expected one or none")
        along = "n" if int_of(op.by_rows) else "m"
        if any(str_of(made.axis) != along for x in op.skips if (made := maker(x, "tile.row_index")) is not None):
            refuse(f"skips some of a block's elements, expected whole blocks: indices along {along}")
        scattered(op, along)
        gaps(op)
        around, together = gaps_of(op), int_of(op.together)
        if around is not None and (int_of(op.by_rows) or any(x % together for x in around)):
            refuse(f"gaps {list(around)} between {together} blocks of columns, expected multiples of these")
        if str_of(op.layout) not in LAYOUTS:
            refuse(f"layout is {op.layout}, expected {', '.join(LAYOUTS)}")
        if str_of(op.scale) not in SCALES:
            refuse(f"scales are {op.scale}, expected {', '.join(SCALES)}")
        if int_of(op.by_rows):
            _by_rows(op)
            return
        if block < 8 or block % 8 or columns % block:
            refuse(f"blocks of {block} in {columns} columns, expected a divisor and a multiple of 8")
        if together not in (1, 2, 4) or columns % (block * together) or (together > 1 and str_of(op.scale) == "f32"):
            refuse(f"{together} {op.scale} at once in {columns} columns, expected 1, or 2 or 4 bytes")
        at_least(op, 0, "padding")


def _by_rows(op: ir.OpView) -> None:
    """Refuses blocks of rows that are no waves, that no warp has whole where warps do not exchange, or more at once."""
    rows, wave, block = shape_of(op.accumulator.type)[0], WAVES["warp"], int_of(op.block)
    of_warpgroup = str_of(op.accumulator.type.space) == "registers"
    most, alone = wave if of_warpgroup else rows, int_of(op.exchange) < 0
    if block < wave or block % wave or (alone and most % block):
        refuse(f"blocks of {block} rows, of which a warp has {most}, expected a divisor, a multiple of {wave}")
    if int_of(op.together) != 1 or not (alone or of_warpgroup):
        refuse(f"{op.together} at once, exchanged at {op.exchange}, expected 1 and -1 for blocks of rows")
    at_least(op, 0, "padding")


class RoundSumsOp(Op, name="round_sums"):
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

    def verify_invariants(op: ir.OpView) -> None:
        along, outer = int_of(op.along), len(op.extents)
        if not -1 <= along < outer or len(op.at) + (along >= 0) != outer:
            refuse(f"{len(op.at)} indices beside axis {along}, and {outer} extents, expected one for each")
        flag(op, "by_rows")
        scattered(op, "n" if int_of(op.by_rows) else "m")
        rounds(op)


class TransformSumsOp(Op, name="transform_sums"):
    """Transforms sums as `scale.hadamard` does, of adjacent columns or, `by_rows` 1, rows: each 16 from the first of
    the tensor on. `ragged` 1: the last ones may end beyond n, or m, where values do not count."""

    accumulator: ext.Operand[FragmentType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    by_rows: ir.IntegerAttr
    ragged: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        flag(op, "by_rows", "ragged")
        columns = shape_of(op.accumulator.type)[1]
        if not int_of(op.by_rows) and columns % TRANSFORMED:
            refuse(f"transforms {columns} columns, expected a multiple of {TRANSFORMED}")


def rounds(op: ir.OpView) -> None:
    """Refuses words that are none of Philox's, and types that nothing is rounded to by chance."""
    if not 1 <= len(op.words) <= MOST_WORDS:
        refuse(f"has {len(op.words)} words, expected 1 to {MOST_WORDS}")
    row = element_spelled(str(op.element.value))
    if row is None or row.name not in GRIDS:
        refuse(f"rounds to {op.element.value}, expected {', '.join(GRIDS)}")


SCALES = QUANTISED
