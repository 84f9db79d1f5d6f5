"""Ops of `tile` that sum in tensor memory: who allocates it, the products that one thread issues, and who reads it."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from math import prod

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, StageOp, in_step, maker, plainly_swizzled
from scalec.ir.tile_types import *
from scalec.ir.verify import Count, Few, Flag, Natural, refuse
from scalec.targets import ATOM, WAVES

WORD_ROWS = 128
"""Rows whose words one tcgen05.cp brings: 32 lanes of four columns (PTX ISA 9.7.16.9.2, .32x128b); as many as a tile of
a `blocked` tensor of scales has, in the order of that copy."""

LANES = 32
"""Rows of a column of scale words in tensor memory (PTX ISA 9.7.16.10.7)."""

SHIFT = 64
"""A tile that begins within the rows of a copy does so at a multiple of so many: its words lie two columns further on,
and products take them from there. So does CUTLASS, for 64 and 192 columns; the ISA draws no scale factors that begin at
an odd column."""

_PAIRS = WORD_ROWS // 2  # words of 128 rows, as i64

COLUMNS = 512
"""Columns of tensor memory, each 32 bits of 128 rows (PTX ISA 9.7.16.1)."""


class SumsOp(Op, name="sums"):
    """A ring of accumulators in tensor memory, and `beside` more columns, for scale words.

    A word of shared memory at byte `offset` keeps its address. `ctas` 2: a pair of CTAs, whose ranks in the cluster
    differ in the last bit, has it together. Each has the rows of its own tile, at the same address, and all products
    and copies are both's (PTX ISA 9.7.16.5.1). Stands behind what syncs the cluster then: each CTA's allocation stores
    into the shared memory of the other (ptxas 13.0: SYNCS.ARRIVE, STAS), which must have begun.
    """

    result: ext.Result[SumsType]
    offset: Natural
    beside: ir.IntegerAttr
    ctas: Few

    def verify_invariants(op: ir.OpView) -> None:
        shape, slots = shape_of(op.result.type), int_of(op.result.type.slots)
        if len(shape) != 2 or shape[0] != WAVES["tensor"] or shape[1] < 16 or shape[1] % 16:
            refuse(f"accumulators of {list(shape)}, expected {WAVES['tensor']} rows and columns by 16")
        if slots < 1 or int_of(op.beside) < 0 or slots * shape[1] + int_of(op.beside) > COLUMNS:
            what = f"{slots} accumulators of {shape[1]} columns and {int_of(op.beside)} beside them"
            refuse(f"{what}, tensor memory has {COLUMNS}")
        if int_of(op.offset) % 4:
            refuse(f"offset {int_of(op.offset)} is not a multiple of 4, the size of an address")
        kernel = op.operation.parent
        if int_of(op.ctas) == 2 and kernel is not None and kernel.name == "tile.kernel":
            ctas = prod(ints_of(kernel.attributes["cluster"]))
            if ctas % 2:
                refuse(f"is of two CTAs, in a cluster of {ctas}")
            if not _met(op):
                refuse("is of two CTAs that have not met: no tile.sync of the cluster stands before it")


def _met(op: ir.OpView) -> bool:
    """Whether the CTAs of the cluster meet before the op."""
    for other in op.operation.block.operations:
        if other == op:
            return False
        if other.operation.name == "tile.sync" and str_of(other.scope) == "cluster":
            return True
    return False


class PairRankOp(Op, name="pair_rank"):
    """0 in the leader of a pair of CTAs, the one that issues products for both; 1 in the other."""

    result: ext.Result[I32]


class LeaderOp(Op, name="leader"):
    """The ring at the same place in the leader of this CTA's pair: what both CTAs arrive at, and it waits for."""

    result: ext.Result[RingType]
    ring: ext.Operand[RingType]


class FreeSumsOp(Op, name="free_sums"):
    """Gives the tensor memory back; stands after the roles, and what syncs their threads."""

    sums: ext.Operand[SumsType]


class WordSlotOp(Op, name="word_slot"):
    """The same tensor memory, where it holds the scale words of several K blocks: `columns` of each, from `column`
    beside the accumulators on, one after the other.

    Of these columns the first ones stand for those at the cursor, in what copies words or multiplies by them.
    """

    result: ext.Result[SumsType]
    sums: ext.Operand[SumsType]
    cursor: ext.Operand[CursorType]
    column: Natural
    columns: Count

    def verify_invariants(op: ir.OpView) -> None:
        if op.result.type != op.sums.type:
            refuse(f"makes {op.result.type} of {op.sums.type}")
        made, cursor = maker(op.sums, "tile.sums"), maker(op.cursor, "tile.cursor")
        if made is None or cursor is None:
            refuse("is not of tile.sums and tile.cursor")
        _beside(op, made, int_of(op.column) + int_of(cursor.depth) * int_of(op.columns))


class CopyWordsOp(Op, name="copy_words"):
    """Brings the scale words of the cursor's stage into tensor memory, from `column` beside the accumulators on.

    The products that this thread issues after it find them there. 32 rows of a word are a column. A stage is [words,
    rows] of 32 bits; or of 64 bits [rows of tiles, their bytes / 8] of a tensor of 128x4 scale bytes a tile. Of a pair
    of CTAs each brings its own.
    """

    sums: ext.Operand[SumsType]
    source: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    column: Natural

    def verify_invariants(op: ir.OpView) -> None:
        words, rows = words_of(op.source.type)
        if not words:
            (first, second), element = shape_of(op.source.type), element_of(op.source.type)
            expected = f"words of rows by {WORD_ROWS}, or i64 of rows of tiles by {_PAIRS}"
            refuse(f"copies {first} by {second} of {element}, expected {expected}")
        slot, first = maker(op.sums, "tile.word_slot"), int_of(op.column)
        end = first + words * rows // LANES
        if slot is not None:
            low, high = int_of(slot.column), int_of(slot.column) + int_of(slot.columns)
            if not low <= first < end <= high:
                refuse(f"columns {first} to {end} of a slot from {low} to {high}")
        _beside(op, maker(op.sums, "tile.sums"), end)
        in_step(op, None, op.source)


def _beside(op: ir.OpView, made: ir.OpView | None, end: int) -> None:
    """Refuses columns beside the accumulators that `made` has not."""
    fits = made is None or end <= int_of(made.beside)
    if not fits:
        refuse(f"columns up to {end} of {made and int_of(made.beside)} beside the accumulators")


class OnesOp(Op, name="ones"):
    """A warp of the CTA stores ones of scale type `scale`, as many words as one copy brings; what syncs its threads
    stands after it."""

    target: ext.Operand[SharedType]
    scale: ir.StringAttr

    def verify_invariants(op: ir.OpView) -> None:
        if words_of(op.target.type) != (1, WORD_ROWS):
            refuse(f"stores to {op.target.type}, expected a word of {WORD_ROWS} rows")


class FillWordsOp(Op, name="fill_words"):
    """Fills `columns` columns from `column` beside the accumulators on with one copy's words of shared memory.

    The products that this thread issues after it find them there: of operands without scales. Of a pair of CTAs each
    has its own.
    """

    sums: ext.Operand[SumsType]
    through: ext.Operand[SharedType]
    column: Natural
    columns: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        step = WORD_ROWS // LANES
        if int_of(op.columns) % step or int_of(op.columns) < step:
            refuse(f"fills {int_of(op.columns)} columns, expected a multiple of {step}")
        if words_of(op.through.type) != (1, WORD_ROWS):
            refuse(f"by way of {op.through.type}, expected a word of {WORD_ROWS} rows")
        _beside(op, maker(op.sums, "tile.sums"), int_of(op.column) + int_of(op.columns))


def words_of(stage: ir.Type) -> tuple[int, int]:
    """(words of a row, rows) of a buffer of scale words (`copy_words`); (0, 0) where it is none."""
    (first, second), bits = shape_of(stage), bits_of(element_of(stage))
    if bits == 64 and second % _PAIRS == 0:
        return second // _PAIRS, first * WORD_ROWS
    return (first, second) if bits == 32 and second % WORD_ROWS == 0 else (0, 0)


class MmaSumsOp(Op, name="mma_sums"):
    """sums[slot] (+)= A * B^T over the K of the cursor's stage, issued by one thread; asynchronous.

    `slot` is a position in the ring of accumulators. Where `accumulate` is false, the first product overwrites. `k` is
    the K of one instruction. The tile of A is [rows, K], or with `a_mn` 1 [K, rows]; of B likewise. `scale` is the type
    of the scale bytes that it applies, "" where it applies none: those of A lie from column `a_words` beside the
    accumulators on, a byte for `a_unit` elements of K; of B likewise, where there may be words of `before` columns that
    belong to rows before the tile's first. Of a pair of CTAs each has half of the rows of B.
    """

    sums: ext.Operand[SumsType]
    slot: ext.Operand[CursorType]
    a: ext.Operand[SharedType]
    b: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    accumulate: ext.Operand[I1]
    before: ext.Operand[I32] | None
    a_element: ir.TypeAttr
    b_element: ir.TypeAttr
    k: Count
    a_words: ir.IntegerAttr
    b_words: ir.IntegerAttr
    a_unit: ir.IntegerAttr
    b_unit: ir.IntegerAttr
    a_mn: Flag
    b_mn: Flag
    scale: ir.StringAttr

    def verify_invariants(op: ir.OpView) -> None:
        a, b = ((shape_of(v.type)[:: -1 if int_of(mn) else 1]) for v, mn in ((op.a, op.a_mn), (op.b, op.b_mn)))
        slot = maker(op.sums, "tile.word_slot")
        sums, made = shape_of(op.sums.type), maker(op.sums if slot is None else slot.sums, "tile.sums")
        ctas = 1 if made is None else int_of(made.ctas)
        if (a[0], ctas * b[0]) != sums:
            of = f" in each of {ctas} CTAs" if ctas > 1 else ""
            refuse(f"accumulators of {list(sums)} for {a[0]} rows of A and {b[0]} of B{of}")
        depths = [x[1] * bits_of(element_of(v.type)) for x, v in ((a, op.a), (b, op.b))]
        if depths[0] != depths[1]:
            refuse(f"rows of A are {depths[0] // 8} bytes, those of B {depths[1] // 8}")
        for side, words, unit in (("a", op.a_words, op.a_unit), ("b", op.b_words, op.b_unit)):
            if (int_of(words) < 0) != (not str_of(op.scale)) or (int_of(unit) < 1) != (not str_of(op.scale)):
                refuse(f"{side}_words {int_of(words)} and {side}_unit {int_of(unit)} with scale {op.scale}")
        if op.before is not None and not str_of(op.scale):
            refuse("words before those of B, with no scale")
        for side, mn, value in (("A", op.a_mn, op.a), ("B", op.b_mn, op.b)):
            if int_of(mn):
                _transposable(op, side, value.type)
            else:
                plainly_swizzled(op, value)
        for side, named in (("a", op.a_element), ("b", op.b_element)):
            stored, element = element_of((op.a if side == "a" else op.b).type), ir.TypeAttr(named).value
            if stored != element and not (str(stored) == "i8" and bits_of(element) < 8):
                refuse(f"{side}_element is {element}, in a tile of {stored}")
        _in_slot(op)
        in_step(op, None, op.a, op.b)


class CutRowsOp(Op, name="cut_rows"):
    """Makes zero of the 4-bit K element `element` of each row of the cursor's stage of a shared [rows, K], for products
    that are issued behind it. All lanes of a warp are here."""

    tile: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    element: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        (rows, depth), stored = shape_of(op.tile.type), element_of(op.tile.type)
        if str(stored) != "i8" or depth != swizzle_of(op.tile.type) or rows % LANES:
            refuse(f"cuts {rows} rows of {depth} {stored}, expected rows by {LANES}, of a swizzle's bytes each")
        if not 0 <= int_of(op.element) < 2 * depth:
            refuse(f"element {int_of(op.element)} of {2 * depth}")
        plainly_swizzled(op, op.tile)
        in_step(op, None, op.tile)


class HandOverOp(StageOp, name="hand_over"):
    """When all products that this thread has issued are done, the tensor core arrives at a barrier of the stage.

    side "empty": their operands may be overwritten, by any CTA of the cluster; "full": their sums may be read, by the
    CTAs that have them.
    """

    side: ir.StringAttr

    def verify_invariants(op: ir.OpView) -> None:
        if str_of(op.side) not in ("empty", "full"):
            refuse(f"side is {op.side}, expected empty or full")


class CopiedOp(StageOp, name="copied"):
    """When all words that this thread has copied are in tensor memory, the tensor core arrives at the full barrier of
    the stage, in this CTA. The thread itself arrives at once: what it has waited for, those who wait there have too.
    """

    def verify_invariants(op: ir.OpView) -> None:
        ring = maker(op.ring, "tile.ring")
        if ring is not None and int_of(ring.full) != 2:
            refuse(f"arrives twice at a ring that counts {int_of(ring.full)}")


class VacateOp(StageOp, name="vacate"):
    """This warp has read its rows of the accumulator at the cursor: it arrives at its empty barrier."""


class TakeOp(Op, name="take"):
    """Brings a warp's rows of the accumulator at `slot`, from `column` on, into registers; asynchronous, see `taken`.

    The warps of a warpgroup have 32 rows each, in their order. Those of each further warpgroup take columns `apart`
    behind those of the one before.
    """

    target: ext.Operand[FragmentType]
    sums: ext.Operand[SumsType]
    slot: ext.Operand[CursorType]
    column: Natural
    apart: Count

    def verify_invariants(op: ir.OpView) -> None:
        (rows, columns), (_, all_columns) = shape_of(op.target.type), shape_of(op.sums.type)
        space, fine = str_of(op.target.type.space), rows == WAVES["tensor"] // 4 and columns in (16, 32, 64, 128)
        if space not in ("warp", "lane") or not fine:
            refuse(f"takes {rows} by {columns} into {space}, expected 32 by 16, 32, 64 or 128")
        if int_of(op.column) % columns or int_of(op.column) + columns > all_columns:
            refuse(f"columns from {int_of(op.column)} on, {columns} at once, of {all_columns}")
        if int_of(op.apart) % columns:
            refuse(f"columns {int_of(op.apart)} apart, expected a multiple of the {columns} taken at once")
        _in_slot(op)


class HasRowsOp(Op, name="has_rows"):
    """Whether this warp has rows of the tile that begins at row `m0` below `m`; it has `rows` of the tile's."""

    result: ext.Result[I1]
    m0: ext.Operand[I32]
    m: ext.Operand[I32]
    rows: Count


def _transposable(op: ir.OpView, side: str, tile: ir.Type) -> None:
    """Refuses a tile of [K, rows] that the tensor core cannot read so (PTX ISA 9.7.16.10.1, 9.7.16.10.3).

    Elements of 4 and 6 bits lie in tiles of i8; the swizzle of those of 32 bits keeps 32 bytes together.
    """
    (depth, rows), swizzle, element = shape_of(tile), swizzle_of(tile), element_of(tile)
    bits = bits_of(element)
    named = ir.TypeAttr(getattr(op, f"{side.lower()}_element")).value
    if bits not in (8, 16, 32) or (str(element) == "i8" and named != element):
        refuse(f"{side} is [K, rows] of {element}, expected a type of 8, 16 or 32 bits")
    if atom_of(tile) != (atom := 32 if bits == 32 else ATOM):
        refuse(f"{side} is [K, rows] of {element}, its swizzle keeps {atom_of(tile)} bytes, expected {atom}")
    if not swizzle or rows * bits // 8 % swizzle:
        refuse(f"K of {side} has rows of {rows * bits // 8} bytes, no panels of a swizzle of {swizzle}")
    if depth % int_of(op.k):
        refuse(f"{depth} of K of {side} in steps of {int_of(op.k)}")


class TakenOp(Op, name="taken"):
    """Waits for what this warp takes; `target` may then be read."""

    target: ext.Operand[FragmentType]


def _in_slot(op: ir.OpView) -> None:
    """Refuses a position of another depth than the ring of accumulators."""
    cursor, slots = maker(op.slot, "tile.cursor"), int_of(op.sums.type.slots)
    if cursor is not None and int_of(cursor.depth) != slots:
        refuse(f"the slot goes through {int_of(cursor.depth)} accumulators of {slots}")
