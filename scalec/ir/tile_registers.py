"""Ops of `tile` that multiply out of registers: what a warp loads of a stage, and its products."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, at_least, fills, in_pages, in_step, maker, plainly_swizzled
from scalec.ir.tile_types import (
    I1,
    I32,
    ByteScalesType,
    CursorType,
    FragmentType,
    MultiplicandType,
    SharedType,
    WordsType,
    bits_of,
    element_of,
    int_of,
    optional,
    shape_of,
    str_of,
    wave_rows,
)
from scalec.ir.verify import Count, Flag, Natural, refuse

STEP_BYTES = 32
"""Bytes of a row of A or B that one instruction takes, whatever the type (PTX ISA 9.7.14.5: m16n8k8 of tf32, k16 of
bf16 and f16, k32 of 8 bits and of what is stored so, k64 of packed 4 bits)."""

WORD_LAYOUTS = ("row", "col", "blocked", "packed")


class MultiplicandOp(Op, name="multiplicand"):
    """Registers for a warp's share of A or B over the K of one instruction."""

    result: ext.Result[MultiplicandType]

    def verify_invariants(op: ir.OpView) -> None:
        (rows, depth), side = shape_of(op.result.type), str_of(op.result.type.side)
        if side not in ("a", "b"):
            refuse(f"side {side}, expected a or b")
        unit = 16 if side == "a" else 8
        if rows < 1 or rows % unit or depth < 1:
            refuse(f"{rows} rows by {depth} of K, expected rows by {unit}")


class LoadOp(Op, name="load"):
    """Brings a warp's rows of the cursor's stage, over the `step`-th slice of K, into registers.

    The tile is [rows, K], or with `transpose` 1 [K, rows]. Elements of less than 8 bits lie in tiles of bytes: packed,
    or one to a byte. A slice of the latter is only as deep as it has bytes; transposed, 4-bit ones may be packed on the
    way, and it is then twice as deep. `first`, an optional number of rows by 16: the warps' rows lie side by side from
    there on; not with `transpose`.
    """

    target: ext.Operand[MultiplicandType]
    source: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    step: Natural
    transpose: Flag

    def verify_invariants(op: ir.OpView) -> None:
        in_step(op, None, op.source)
        plainly_swizzled(op, op.source)
        (rows, depth), tile = shape_of(op.target.type), shape_of(op.source.type)
        tile_rows, tile_k = tile[::-1] if int_of(op.transpose) else tile
        if tile_rows % rows:
            refuse(f"{rows} rows for each warp of a tile of {tile_rows} rows")
        if (first := optional(op, "first")) and (first % 16 or first > tile_rows - rows or int_of(op.transpose)):
            refuse(f"rows from {first} on of a tile of {tile_rows}, expected a multiple of 16, not transposed")
        stored, element = element_of(op.source.type), element_of(op.target.type)
        if stored != element and not (str(stored) == "i8" and bits_of(element) < 8):
            refuse(f"loads {stored} into registers for {element}")
        bits = bits_of(stored)
        if int_of(op.transpose) and rows % 16:
            refuse(f"transposes {rows} rows, expected rows by 16")
        if int_of(op.transpose):
            packs = bits_of(element) == 4 and depth == 2 * STEP_BYTES
            if not packs and bits * depth != 8 * STEP_BYTES:
                what = f"{depth} elements of K, of {bits_of(element)} bits, from {stored}"
                refuse(f"transposes slices of {what}")
            if (int_of(op.step) + 1) * depth > tile_k:
                refuse(f"step {int_of(op.step)} of {depth} elements of K is outside {tile_k}")
        elif (int_of(op.step) + 1) * 8 * STEP_BYTES > tile_k * bits:
            refuse(f"step {int_of(op.step)} of {STEP_BYTES} bytes is outside rows of {tile_k * bits // 8}")


class CutOp(Op, name="cut"):
    """Makes zero of the K element `element` of a slice in registers, in each row, where `condition` holds."""

    target: ext.Operand[MultiplicandType]
    condition: ext.Operand[I1]
    element: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        depth, element = shape_of(op.target.type)[1], element_of(op.target.type)
        if bits_of(element) * depth != 8 * STEP_BYTES or bits_of(element) >= 8:
            refuse(f"cuts {depth} elements of {element}, expected {STEP_BYTES} bytes of packed ones")
        if not 0 <= int_of(op.element) < depth:
            refuse(f"element {int_of(op.element)} of {depth}")


class WordsOp(Op, name="words"):
    """Registers for the scale bytes of two stages: those in use, and those that `load_words` brought since `turn`."""

    result: ext.Result[WordsType]


class LoadWordsOp(Op, name="load_words"):
    """Brings the scale bytes of a warp's rows at the cursor's stage into registers; `turn` puts them to use. `first`,
    optional: as that of `tile.load`."""

    target: ext.Operand[WordsType]
    source: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]

    def verify_invariants(op: ir.OpView) -> None:
        (words, rows), (tile_words, tile_rows) = shape_of(op.target.type), shape_of(op.source.type)
        if words != tile_words or tile_rows % rows or optional(op, "first") > tile_rows - rows:
            refuse(f"loads [{words}, {rows}] of a stage of [{tile_words}, {tile_rows}] words")
        if bits_of(element_of(op.source.type)) != 32:
            refuse(f"a stage of {element_of(op.source.type)}, expected words of 32 bits")
        in_step(op, None, op.source)


class TurnOp(Op, name="turn"):
    """The scale bytes loaded last are in use from here on."""

    words: ext.Operand[WordsType]


class MultiplyOp(Op, name="multiply"):
    """accumulator (+)= A B^T over the K of one instruction, from registers; `accumulate` 0 overwrites.

    `scale` is the type of the scale bytes that the instruction applies, "" where it applies none: of each row of A
    those from byte `a_byte` of its words on, of B likewise; -1 where a side has none, which counts as one.
    """

    accumulator: ext.Operand[FragmentType]
    a: ext.Operand[MultiplicandType]
    b: ext.Operand[MultiplicandType]
    a_words: ext.Operand[WordsType] | None
    b_words: ext.Operand[WordsType] | None
    a_byte: ir.IntegerAttr
    b_byte: ir.IntegerAttr
    scale: ir.StringAttr
    accumulate: Flag

    def verify_invariants(op: ir.OpView) -> None:
        at_least(op, -1, "a_byte", "b_byte")
        if str_of(op.accumulator.type.space) != "warp":
            refuse(f"an accumulator in {op.accumulator.type.space}, expected a warp's")
        (rows, columns), (a_rows, a_k), (b_rows, b_k) = (shape_of(v.type) for v in (op.accumulator, op.a, op.b))
        if (rows, columns) != (a_rows, b_rows) or rows % wave_rows(op.accumulator.type):
            refuse(f"an accumulator of {rows} by {columns}, of {a_rows} rows of A and {b_rows} of B")
        if a_k != b_k:
            refuse(f"{a_k} elements of K of A and {b_k} of B")
        for words, byte, rows in ((op.a_words, op.a_byte, a_rows), (op.b_words, op.b_byte, b_rows)):
            if (words is None) != (int_of(byte) < 0):
                refuse(f"scale byte {int_of(byte)} {'without' if words is None else 'with'} scale words")
            if words is not None and (shape_of(words.type)[1] != rows or int_of(byte) >= 4 * shape_of(words.type)[0]):
                refuse(f"scale byte {int_of(byte)} of {rows} rows in words of {list(shape_of(words.type))}")


class ByteScalesOp(Op, name="byte_scales"):
    """Registers for `words` words of scale bytes of `rows` rows, spread over the threads of `warps` warps."""

    result: ext.Result[ByteScalesType]
    rows: Count
    words: Count
    warps: Count


def together_of(op: ir.OpView) -> int:
    """Words that a `tile.load_bytes` loads at once."""
    attributes = op.operation.attributes
    return int_of(attributes["together"]) if "together" in attributes else 1


class LoadBytesOp(Op, name="load_bytes"):
    """Loads, for all rows i and bytes j of `into`, the scale of row row0 + i and K element k0 + j * unit, inside k.

    It stands at row / row_block and K / block of a tensor in `layout`, whose strides between rows and between K blocks
    (words of them where "packed", tiles where "blocked") are in its elements. `bytes` of each row are loaded; `whole` 1
    says that each four lie side by side at a multiple of four; with `pads` 1 some of them may be of no K, and those are
    replaced by zeros, as all bytes outside k are; or by ones where the optional attribute `ones` names the scales'
    type. `together` words lie side by side, all of them inside k or none, and
    are loaded at once where they are aligned so. Rows are clamped below `rows`; where `into` is looked up
    (`tile.look_up`), they are those that it names, or with `page` those of pages, as in `load_rows`.
    """

    into: ext.Operand[ByteScalesType]
    source: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    k_stride: ext.Operand[ir.IntegerType[64]]
    row0: ext.Operand[I32]
    rows: ext.Operand[I32]
    k0: ext.Operand[I32]
    k: ext.Operand[I32]
    page_stride: ext.Operand[ir.IntegerType[64]] | None
    bytes: Count
    unit: Count
    block: Count
    row_block: Count
    layout: ir.StringAttr
    whole: Flag
    pads: Flag

    def verify_invariants(op: ir.OpView) -> None:
        in_pages(op)
        if int_of(op.pads) and not int_of(op.whole):
            refuse("pads is 1 and whole 0: bytes that are loaded one by one are none that pad")
        words = together_of(op)
        beside = int_of(op.whole) and str_of(op.layout) == "row" and int_of(op.unit) == int_of(op.block)
        if words not in (1, 2, 4) or (words > 1 and (int_of(op.bytes) % (4 * words) or int_of(op.pads) or not beside)):
            refuse(f"{words} of {int_of(op.bytes)} bytes' words together, expected 1, or 2 or 4 side by side")
        if str_of(op.layout) not in WORD_LAYOUTS:
            refuse(f"layout is {op.layout}, expected {', '.join(WORD_LAYOUTS)}")
        room = maker(op.into, "tile.byte_scales")
        if room is not None and int_of(op.bytes) > 4 * int_of(room.words):
            refuse(f"{int_of(op.bytes)} bytes into {int_of(room.words)} words")
        if not isinstance(op.source.type, ir.MemRefType):
            refuse(f"reads scales from {op.source.type}, expected a memref")


class StoreBytesOp(Op, name="store_bytes"):
    """Stores the rows' words into the cursor's stage of a shared [words, rows], with `strips` as `store_rows`."""

    source: ext.Operand[ByteScalesType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]

    def verify_invariants(op: ir.OpView) -> None:
        room = maker(op.source, "tile.byte_scales")
        words, rows = shape_of(op.target.type)
        if room is not None and int_of(room.words) != words:
            refuse(f"stores {int_of(room.words)} words of {int_of(room.rows)} rows in {op.target.type}")
        if room is not None:
            fills(op, room, rows)
        in_step(op, None, op.target)
