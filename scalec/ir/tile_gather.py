"""Ops of `tile` for rows that an index read from memory names: copied row by row, and left out where it names none."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from math import gcd
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, StageOp, in_step, maker, memory_of, plainly_swizzled, reads_numbers
from scalec.ir.tile_cut import CHUNK
from scalec.ir.tile_types import *
from scalec.ir.verify import Count, Natural, Sharers, refuse

COPY_ALIGN = 128
"""Of a tensor copy's place in shared memory, whatever the swizzle (PTX ISA 5.5.6, and measured on an H200)."""

GATHERED_TOGETHER = (1, 4)
"""Rows that one copy brings: a box of one row, or four with `.tile::gather4` (PTX ISA 5.5.3.4)."""


class RowIndexOp(Op, name="row_index"):
    """An index for each row of a tile (`axis` "m"), column ("n") or element of K ("k"): that of the i-th of the tensors
    is source[i * stride]. One that is negative, or not below all `extents`, names nothing.

    `block`, an optional integer: there is one for each so many rows or columns, source[i / block * stride]."""

    source: ext.Operand[Any]
    stride: ext.Operand[ir.IntegerType[64]]
    extents: Sequence[ext.Operand[I32]]
    result: ext.Result[RowIndexType]
    axis: ir.StringAttr

    def verify_invariants(op: ir.OpView) -> None:
        memory_of(op, "source", "i32")
        if str_of(op.axis) not in ("m", "n", "k"):
            refuse(f"axis is {op.axis}, expected m, n or k")
        if not bool(len(op.extents)):
            refuse("has no extents, expected one or more")


class OwnIndexOp(Op, name="own_index"):
    """An index of rows of which each lane has what there is for its own row alone, read here: of tiles at row m0, whose
    rows end at m, where each lane of a warp has a row."""

    index: ext.Operand[RowIndexType]
    m0: ext.Operand[I32]
    m: ext.Operand[I32]
    result: ext.Result[RowIndexType]

    def verify_invariants(op: ir.OpView) -> None:
        made = maker(op.index, "tile.row_index")
        if made is not None and str_of(made.axis) != "m":
            refuse(f"axis of the index is {made.axis}, expected m")


class AskNamedOp(Op, name="ask_named"):
    """Loads what `index` has for the `count` rows that a unit has of a tile which begins at `first`, or for the `count`
    columns of the tile, of those below `end`; each warp has all of them. Nobody waits for them here."""

    index: ext.Operand[RowIndexType]
    first: ext.Operand[I32]
    end: ext.Operand[I32]
    result: ext.Result[ScalarsType]
    count: Count


class AllNamedOp(Op, name="all_named"):
    """Whether all that was `asked` (tile.ask_named) names something; what is not below the end counts as if it did."""

    asked: ext.Operand[ScalarsType]
    result: ext.Result[I1]

    def verify_invariants(op: ir.OpView) -> None:
        asked = maker(op.asked, "tile.ask_named") is not None
        if not asked:
            refuse("what is asked is not made by tile.ask_named")


class GatheredOp(Op, name="gathered"):
    """Registers for the indices of `rows` rows, spread over a warp's threads, `together` adjacent ones in each.

    `page`, an optional integer: indices are those of pages of so many rows, and row i is row i % page of its own. One
    is copied at a time then."""

    result: ext.Result[GatheredType]
    rows: Count
    together: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        rows, together = int_of(op.rows), int_of(op.together)
        if together not in GATHERED_TOGETHER or rows % together:
            able = " or ".join(map(str, GATHERED_TOGETHER))
            refuse(f"{rows} rows, {together} together, expected {able} that divide the rows")
        if "page" in op.operation.attributes and (together > 1 or optional(op, "page") < 1):
            refuse(f"{together} rows together, of pages of {optional(op, 'page')}, expected one, of 1 or more")


class LookUpOp(Op, name="look_up"):
    """Loads the indices of rows row0 + i, for all rows i of `into`; of rows from `rows` on, none.

    `into` are registers of their own, or those of scales: these are then loaded of the rows that the indices name.
    """

    into: ext.Operand[Any]
    index: ext.Operand[RowIndexType]
    row0: ext.Operand[I32]
    rows: ext.Operand[I32]

    def verify_invariants(op: ir.OpView) -> None:
        if isinstance(op.into.type, (GatheredType, RowScalesType, ByteScalesType)):
            return
        refuse(f"looks up into {op.into.type}, expected gathered rows, or rows of scales")


class GatherOp(Op, name="gather"):
    """Bulk copies of rows into the cursor's stage, those that `rows` names, from element x of each; they complete on
    the ring's full barrier. A whole warp's: each thread copies the rows whose indices it has. A row that has none is
    zeros.

    The box is one row of the tile, as wide as the swizzle; where there is none, rows of the tile may be longer. Of
    pages it is one of three extents: the third is that of pages. The
    ring may be the one of a leader, as that of `tile.copy`.
    """

    source: ext.Operand[DescriptorType]
    target: ext.Operand[SharedType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    rows: ext.Operand[GatheredType]
    x: ext.Operand[I32]

    def verify_invariants(op: ir.OpView) -> None:
        source, target, made = op.source.type, op.target.type, maker(op.rows, "tile.gathered")
        box, (rows, columns) = shape_of(source), shape_of(target)
        plain = not swizzle_of(target)
        single = (1, 1) if made is not None and "page" in made.operation.attributes else (1,)
        if box[1:] != single or not (box[0] == columns or (plain and 0 < box[0] < columns)):
            refuse(f"box {list(box)} (innermost first), expected one row of a tile of {[rows, columns]}")
        for what, of in (("elements", element_of), ("swizzles", swizzle_of), ("what swizzles keep together", atom_of)):
            if of(source) != of(target):
                refuse(f"{what} differ: {of(source)} and {of(target)}")
        width = columns * bits_of(element_of(target)) // 8
        if width != swizzle_of(target) and not plain:
            refuse(f"a row is {width} bytes and the swizzle {swizzle_of(target)}, expected as many")
        if made is not None and int_of(made.rows) != rows:
            refuse(f"{int_of(made.rows)} indices, of a tile of {rows} rows")
        together = 1 if made is None else int_of(made.together)
        if together > 1 and box[0] != columns:
            refuse(f"{together} rows of {box[0]} are adjacent, and those of the tile have {columns}")
        if together * width % COPY_ALIGN:
            refuse(f"copies {together} x {width} bytes, expected a multiple of {COPY_ALIGN}")
        in_step(op, None, op.target)


class RowChunksOp(Op, name="row_chunks"):
    """Registers for where `rows` rows are that are looked up, spread over a warpgroup's threads: `chunks` adjacent ones
    share a row, of which each copies a part, and each has every so-many-th row.

    The row of index i begins at element i / row_block * stride of memory. Elements have `bits`; those of less than 8
    lie in bytes, which `stride` counts.
    """

    stride: ext.Operand[ir.IntegerType[64]]
    result: ext.Result[GatheredType]
    rows: Count
    chunks: Sharers
    bits: Count
    row_block: Count


class CopyRowsOp(Op, name="copy_rows"):
    """Copies of rows into the cursor's stage, those that `rows` names, a warpgroup's: each thread copies its 16 bytes
    of each of its rows (cp.async), which is read from element k0 on, a multiple of 16 bytes. What a row has beyond
    element `k`, and a row without an index, is zeros.

    `whole`, an optional unit attribute: no tile reaches beyond `k`. The copies are the stage's when they have landed
    (`tile.land`).
    """

    source: ext.Operand[Any]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    rows: ext.Operand[GatheredType]
    k0: ext.Operand[I32]
    k: ext.Operand[I32]

    def verify_invariants(op: ir.OpView) -> None:
        target, made = op.target.type, maker(op.rows, "tile.row_chunks")
        rows, columns = shape_of(target)
        width = columns * bits_of(element_of(target)) // 8
        if not isinstance(op.source.type, ir.MemRefType):
            refuse(f"copies from {op.source.type}, expected memory")
        if swizzle_of(target) not in (0, width):
            refuse(f"a row is {width} bytes and the swizzle {swizzle_of(target)}, expected as many, or none")
        if made is not None and int_of(made.rows) != rows:
            refuse(f"{int_of(made.rows)} rows are looked up, of a tile of {rows}")
        if made is not None and int_of(made.chunks) * CHUNK != width:
            refuse(f"{int_of(made.chunks)} threads copy {CHUNK} bytes each of a row of {width}")
        plainly_swizzled(op, op.target)
        in_step(op, None, op.target)


class KRowsOp(Op, name="k_rows"):
    """Registers for the `count` indices of each of `rows` rows of K, spread over a warpgroup's threads: `chunks`
    adjacent ones share a row, of which each copies 16 bytes of each panel, and each has every so-many-th row. With
    `alone`, an optional unit attribute, over a warp's."""

    result: ext.Result[GatheredType]
    rows: Count
    chunks: Sharers
    count: Count


class LookUpKOp(Op, name="look_up_k"):
    """Loads what each `index` has for the elements k0 + i of K, for all rows i of `into`; for those below `low`, and
    from `high` on, none. Nobody waits for them here. With `own`, an optional number, `into` are scale bytes, which are
    then loaded of the rows that the index of that number names, where each names something."""

    into: ext.Operand[Any]
    index: Sequence[ext.Operand[RowIndexType]]
    k0: ext.Operand[I32]
    low: ext.Operand[I32]
    high: ext.Operand[I32]

    def verify_invariants(op: ir.OpView) -> None:
        attributes = op.operation.attributes
        if "own" not in attributes:
            _of_k(op, op.into)
            return
        if not isinstance(op.into.type, ByteScalesType):
            refuse(f"looks up into {op.into.type}, expected scale bytes")
        if not 0 <= int_of(attributes["own"]) < len(op.index):
            refuse(f"own is {int_of(attributes['own'])}, of {len(op.index)} indices")


WIDEST_LINE = 128
"""Bytes of a row that threads copy side by side, at the most: a line of the cache."""


def line_of(width: int, swizzle: int) -> int:
    """Bytes of a row of `width` that threads of `tile.copy_k_rows` copy side by side: a panel's, or of rows without a
    swizzle as many as a power of two divides them."""
    return swizzle or gcd(width, WIDEST_LINE)


class CopyKRowsOp(Op, name="copy_k_rows"):
    """Copies of rows of K into the cursor's stage, a warpgroup's: each thread copies its 16 bytes of each panel of its
    rows (cp.async), which are read from element `first` on, a multiple of 16 bytes; what a row has from element `end`
    on is zeros. Row i is that which the `own`-th index has for k0 + i, or k0 + i itself where there is no `own`, an
    optional attribute; zeros where any `index` names nothing.

    The target is [rows, elements], in panels as wide as its swizzle; without one rows lie one behind the other, and
    panels are parts of them (`line_of`). Rows of memory are `stride` elements apart. The copies are the stage's when
    they have landed (`tile.land`).
    """

    source: ext.Operand[Any]
    stride: ext.Operand[ir.IntegerType[64]]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    rows: ext.Operand[GatheredType]
    index: Sequence[ext.Operand[RowIndexType]]
    k0: ext.Operand[I32]
    first: ext.Operand[I32]
    end: ext.Operand[I32]

    def verify_invariants(op: ir.OpView) -> None:
        made, (rows, columns) = maker(op.rows, "tile.k_rows"), shape_of(op.target.type)
        width = columns * bits_of(element_of(op.target.type)) // 8
        line = line_of(width, swizzle_of(op.target.type))
        if not isinstance(op.source.type, ir.MemRefType):
            refuse(f"copies from {op.source.type}, expected memory")
        if width % line or line % CHUNK:
            refuse(f"a row is {width} bytes and the swizzle {line}, expected whole panels")
        if made is not None and (int_of(made.rows), int_of(made.chunks) * CHUNK) != (rows, line):
            refuse(f"{int_of(made.rows)} rows, {int_of(made.chunks)} threads each, of panels {rows} x {line} bytes")
        attributes = op.operation.attributes
        if "own" in attributes and not 0 <= int_of(attributes["own"]) < len(op.index):
            refuse(f"own is {int_of(attributes['own'])}, of {len(op.index)} indices")
        _of_k(op, op.rows)
        plainly_swizzled(op, op.target)
        in_step(op, None, op.target)


class CutKRowsOp(Op, name="cut_k_rows"):
    """Makes zero of the rows of the cursor's stage of `tile`, [rows, elements] as those of `copy_k_rows`, for which any
    `index` names nothing. All lanes of the warp are here whose `rows` these are."""

    tile: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    rows: ext.Operand[GatheredType]
    index: Sequence[ext.Operand[RowIndexType]]

    def verify_invariants(op: ir.OpView) -> None:
        made, (rows, columns), swizzle = maker(op.rows, "tile.k_rows"), shape_of(op.tile.type), swizzle_of(op.tile.type)
        width = columns * bits_of(element_of(op.tile.type)) // 8
        if width % line_of(width, swizzle):
            refuse(f"a row is {width} bytes and the swizzle {swizzle}, expected whole panels")
        if made is not None and (int_of(made.rows) != rows or "alone" not in made.operation.attributes):
            refuse(f"has {int_of(made.rows)} rows, expected {rows} of a warp alone")
        _of_k(op, op.rows)
        in_step(op, None, op.tile)


class CutUnnamedOp(Op, name="cut_unnamed"):
    """Makes zero of scales on their way through registers, of which a row has one for each `unit` elements of K, that
    scale no element for which each `index` names something. All lanes of the warp are here whose `rows` these are."""

    source: ext.Operand[Any]
    rows: ext.Operand[GatheredType]
    index: Sequence[ext.Operand[RowIndexType]]
    unit: Count

    def verify_invariants(op: ir.OpView) -> None:
        made = maker(op.rows, "tile.k_rows")
        if not isinstance(op.source.type, RowScalesType | ByteScalesType):
            refuse(f"cuts {op.source.type}, expected scales in registers")
        if made is not None and "alone" not in made.operation.attributes:
            refuse("has rows of a warpgroup, expected those of a warp alone")
        _of_k(op, op.rows)


def _of_k(op: ir.OpView, rows: ir.Value) -> None:
    """Refuses other indices than those of elements of K, as many as there are registers for."""
    made = maker(rows, "tile.k_rows")
    if any(str_of(x.axis) != "k" for y in op.index if (x := maker(y, "tile.row_index")) is not None):
        refuse("has an index of rows or columns, expected those of elements of K")
    if made is None or int_of(made.count) != len(op.index):
        refuse(f"has {len(op.index)} indices, expected rows of tile.k_rows of as many")


class CopyRowScalesOp(Op, name="copy_row_scales"):
    """Likewise copies of the scales of rows, f32, of which each thread has rows alone, into the stage's vectors: into
    vector j that of K element k0 + j * step, at element (k0 + j * step) / block * k_stride of its row; 0 beyond `k`,
    and of a row without an index."""

    source: ext.Operand[Any]
    k_stride: ext.Operand[ir.IntegerType[64]]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    rows: ext.Operand[GatheredType]
    k0: ext.Operand[I32]
    k: ext.Operand[I32]
    step: Count
    block: Count

    def verify_invariants(op: ir.OpView) -> None:
        rows, made = shape_of(op.target.type)[1], maker(op.rows, "tile.row_chunks")
        if str(element_of(op.target.type)) != "f32":
            refuse(f"copies scales into {op.target.type}, expected vectors of f32")
        if made is not None and (int_of(made.rows), int_of(made.chunks)) != (rows, 1):
            refuse(f"{int_of(made.chunks)} threads have each of {int_of(made.rows)} rows, expected 1 of {rows}")
        reads_numbers(op, "f32")
        in_step(op, None, op.target)


class LandOp(StageOp, name="land"):
    """Each thread arrives once at the full barrier of the cursor's stage, as soon as all that it copied up to here
    (`tile.copy_rows`) has landed."""


class ElectOp(Op, name="elect", traits=[ir.NoTerminatorTrait]):
    """Runs its body in one thread of the warp, which is whole."""

    body: ext.Region

    def verify_invariants(op: ir.OpView) -> None:
        blocks = list(op.body.blocks)
        if not (len(blocks) == 1 and not len(blocks[0].arguments)):
            refuse("body is not one block without arguments")


class InputAtOp(Op, name="input_at"):
    """An epilogue input of `tile.input`, of which axis number `axis` is indexed by what `index` has for the row or
    column, and not by that itself. Where it names nothing, the input is 0."""

    source: ext.Operand[InputType]
    index: ext.Operand[RowIndexType]
    result: ext.Result[InputType]
    axis: Natural

    def verify_invariants(op: ir.OpView) -> None:
        made = maker(op.source, "tile.input")
        if made is not None and not 0 <= int_of(op.axis) < len(ints_of(made.axes)) // 3:
            refuse(f"axis is {int_of(op.axis)}, of {len(ints_of(made.axes)) // 3}")
