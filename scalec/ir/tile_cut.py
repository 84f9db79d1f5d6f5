"""Ops of `tile` that leave of a K block what lies in a range of K, on the way from who copies to who multiplies."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, StageOp, at_least, flag, in_step
from scalec.ir.tile_tensor import words_of
from scalec.ir.tile_types import *
from scalec.ir.verify import Count, Depth, Flag, Offset, refuse

LINE = 128
"""Bytes of the widest swizzle, of which a row is interleaved."""

PAIRS_APART = 4
"""Registers of A that a word becomes whose eight elements are multiplied in pairs of two that are four apart."""

CHUNK = 16
"""Bytes that a swizzle keeps together at least, and one instruction moves."""


class CutRingOp(Op, name="cut_ring"):
    """A barrier for each of `depth` stages, at byte `offset`, of `full` arrivals: copies of a stage that warps change
    before others see it complete there.

    A stage that is not changed passes the barrier over; who waits keeps the parity of each stage's next round.
    """

    result: ext.Result[RingType]
    offset: Offset
    depth: Depth
    full: Count


class DetourOp(Op, name="detour"):
    """The ring as who copies sees it: where `condition` holds, copies complete at the barriers of `through`, a
    tile.cut_ring, and whoever waits there passes the stage on to the ring (`pass_on`)."""

    ring: ext.Operand[RingType]
    through: ext.Operand[RingType]
    condition: ext.Operand[I1] | None
    result: ext.Result[RingType]

    def verify_invariants(op: ir.OpView) -> None:
        made, through = op.ring.owner, op.through.owner
        if isinstance(through, ir.Block) or through.name != "tile.cut_ring":
            refuse("does not lead through a tile.cut_ring")
        if isinstance(made, ir.Block) or made.name not in ("tile.ring", "tile.cut_ring"):
            refuse("does not lead to a tile.ring: of CTAs that multiply together each cuts its own tiles")
        depths = [int_of(x.opview.depth) for x in (made, through)]
        if depths[0] != depths[1]:
            refuse(f"leads to {depths[0]} stages through {depths[1]}")


class CutKOp(Op, name="cut_k"):
    """Makes zero of the K elements outside [low, high) of a tile of an operand, of the cursor's stage; both are counted
    from the stage's first, and neither is beyond its last. All lanes of a warp are here.

    The tile is [rows, K], a row as wide as its swizzle, where `each` K elements of so many `bits`, from the lowest on,
    are in CHUNK bytes; or with `mn` 1 [K, rows], in panels as wide as the swizzle. One that is not swizzled has rows of
    whole CHUNKs.
    """

    tile: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    low: ext.Operand[I32]
    high: ext.Operand[I32]
    each: Count
    bits: Count
    mn: Flag

    def verify_invariants(op: ir.OpView) -> None:
        (_, width), swizzle = shape_of(op.tile.type), swizzle_of(op.tile.type)
        row = width * bits_of(element_of(op.tile.type)) // 8
        if not swizzle and row % CHUNK:
            refuse(f"cuts rows of {row} bytes, expected a multiple of {CHUNK}")
        if swizzle and (row % swizzle if int_of(op.mn) else row != swizzle):
            wanted = "a multiple of its swizzle" if int_of(op.mn) else "its swizzle"
            refuse(f"cuts rows of {row} bytes swizzled over {swizzle}, expected {wanted}")
        if int_of(op.each) * int_of(op.bits) > 8 * CHUNK:
            refuse(f"{int_of(op.each)} elements of {int_of(op.bits)} bits in {CHUNK} bytes")
        in_step(op, None, op.tile)


class WrapKOp(Op, name="wrap_k"):
    """Of each row of a tile of an operand, of the stage before the cursor's, the first `shift` elements of so many
    `bits`, fewer than CHUNK bytes, become those of the cursor's stage, of which those from `high` on count as zero. All
    lanes of a warp are here; tiles are those of `cut_k` with `mn` 0."""

    tile: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    shift: ext.Operand[I32]
    high: ext.Operand[I32]
    bits: Count

    def verify_invariants(op: ir.OpView) -> None:
        (_, width), swizzle = shape_of(op.tile.type), swizzle_of(op.tile.type)
        row = width * bits_of(element_of(op.tile.type)) // 8
        if row % CHUNK or swizzle not in (0, row):
            refuse(f"wraps rows of {row} bytes swizzled over {swizzle}, expected whole {CHUNK}, or its swizzle")
        in_step(op, None, op.tile)


class CutWordsOp(Op, name="cut_words"):
    """Makes zero of the scale bytes of the cursor's stage that scale no K element in [low, high), of which each has
    `unit`: what they are nobody says, and the zeros of the operands times NaN are NaN. All lanes of a warp are here.

    A stage is [words, rows] of 32 bits, or of 64 bits [rows of tiles, their bytes / 8] of a `blocked` tensor.
    """

    words: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    low: ext.Operand[I32]
    high: ext.Operand[I32]
    unit: Count

    def verify_invariants(op: ir.OpView) -> None:
        bits = bits_of(element_of(op.words.type))
        if bits != 32 and not words_of(op.words.type)[0]:
            refuse(f"cuts {op.words.type}, expected words of rows, or tiles of a blocked tensor")
        in_step(op, None, op.words)


class InterleaveKOp(Op, name="interleave_k"):
    """Of each LINE bytes of a row of a tile, of the cursor's stage, four bytes of number 8 i + j become those of number
    i + 4 j: what wgmma multiplies with the registers of one of the four threads that share a row of A was adjacent (PTX
    ISA 9.7.15.5.1.1). All lanes of a warp are here; rows are as wide as the swizzle, or several panels of that. With
    `apart`, a unit attribute, of each 16 bytes before that those two of number i and i + 4 become four, as threads make
    pairs of elements that are PAIRS_APART. With `ahead`, another, rows are loaded while those before them are on their
    way, which takes registers for both."""

    tile: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]

    def verify_invariants(op: ir.OpView) -> None:
        (_, width), swizzle = shape_of(op.tile.type), swizzle_of(op.tile.type)
        row = width * bits_of(element_of(op.tile.type)) // 8
        if swizzle != LINE or row % LINE:
            refuse(f"interleaves rows of {row} bytes swizzled over {swizzle}, expected {LINE} of its swizzle")
        if "apart" in op.operation.attributes and bits_of(element_of(op.tile.type)) != 16:
            refuse(f"pairs elements of {element_of(op.tile.type)}, expected 16 bits")
        in_step(op, None, op.tile)


class CutBytesOp(Op, name="cut_bytes"):
    """Likewise of scale bytes on their way through registers."""

    source: ext.Operand[ByteScalesType]
    low: ext.Operand[I32]
    high: ext.Operand[I32]
    unit: Count


class CutScalesOp(Op, name="cut_scales"):
    """Likewise of scales in registers, of which a row has one for each `unit` elements."""

    source: ext.Operand[RowScalesType]
    low: ext.Operand[I32]
    high: ext.Operand[I32]
    unit: Count


class PassOnOp(StageOp, name="pass_on"):
    """A warp arrives at the full barrier of the stage, or with `lag` 1 of the one before, once or in the place of so
    many `arrivals`: what its lanes stored before is seen by who waits there, the tensor core and later copies too."""

    def verify_invariants(op: ir.OpView) -> None:
        given = op.operation.attributes
        if "lag" in given:
            flag(op, "lag")
        if "arrivals" in given:
            at_least(op, 1, "arrivals")
