"""Ops of `tile` that multiply, promote, and compute results."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, computes, extents, holds_factors, in_panels, in_step, maker, plainly_swizzled
from scalec.ir.tile_tensor import LANES
from scalec.ir.tile_types import *
from scalec.ir.verify import Count, Flag, Natural, refuse
from scalec.targets import WAVES

# ---------------------------------------------------------------------------------------------------------- compute


class FragmentOp(Op, name="fragment"):
    """An accumulator of this warpgroup or warp. `live`, an optional integer: so many of its columns mean something, and
    the next unit's follow them. `apart`, likewise: the next unit's columns are so many behind this one's."""

    result: ext.Result[FragmentType]

    def verify_invariants(op: ir.OpView) -> None:
        shape, space = shape_of(op.result.type), str_of(op.result.type.space)
        if space not in WAVES:
            refuse(f"an accumulator in {space}, expected {', '.join(WAVES)}")
        if len(shape) != 2 or min(shape) < 1 or shape[0] % WAVES[space] or shape[1] % 8:
            refuse(f"an accumulator of {list(shape)}, expected rows by {WAVES[space]} and columns by 8")


class CopySumsOp(Op, name="copy_sums"):
    """result = what an accumulator holds: it may then be changed, and the accumulator is as it was."""

    result: ext.Result[FragmentType]
    accumulator: ext.Operand[FragmentType]

    def verify_invariants(op: ir.OpView) -> None:
        if op.result.type != op.accumulator.type:
            refuse(f"makes {op.result.type} of {op.accumulator.type}")


class ClearOp(Op, name="clear"):
    """Sets an accumulator to zero. With the optional `apart`, columns: products of so many, of one wave, have their
    sums in the same registers before they are added to these, and each begins with a zero of its own."""

    accumulator: ext.Operand[FragmentType]


class ToF32Op(Op, name="to_f32"):
    """accumulator = its sums as f32, to nearest even, which are i32 before: what products of integers leave."""

    accumulator: ext.Operand[FragmentType]


class MmaOp(Op, name="mma"):
    """accumulator[wave] (+)= A[rows of the wave] * B^T over the K of the cursor's stage; asynchronous.

    A's tile holds the rows of all warpgroups; `waves` of them belong to each, one behind the other, or, with the
    optional unit attribute `by_turns`, each behind those of the warpgroups before. `accumulate` 0 overwrites. The
    accumulator may have some of the tile's columns, from `column` on, which are rows of B. `slice`, an optional
    attribute of two integers, number and count: the K of that one of so many equal slices of the stage. `a_mn`, an
    optional unit attribute: the tile of A is [K, rows], not [rows, K]; `b_mn` of B likewise.
    """

    accumulator: ext.Operand[FragmentType]
    a: ext.Operand[SharedType]
    b: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    a_wave: Natural
    wave: Natural
    waves: Count
    column: ir.IntegerAttr
    accumulate: Flag

    def verify_invariants(op: ir.OpView) -> None:
        c, sides = shape_of(op.accumulator.type), (("A", "a_mn", op.a), ("B", "b_mn", op.b))
        for side, mn, value in sides:
            if mn in op.operation.attributes:
                in_panels(op, side, mn, value.type)
        a, b = (shape_of(v.type)[:: -1 if mn in op.operation.attributes else 1] for _, mn, v in sides)
        if a[1] != b[1]:
            refuse(f"A has {a[1]} columns of K, B {b[1]}")
        number, count = slice_of(op)
        if not 0 <= number < count or a[1] % count:
            refuse(f"slice {number} of {count}, of {a[1]} columns of K")
        column = int_of(op.column)
        if column < 0 or column % 8 or column + c[1] > b[0]:
            from_on = f" from {column} on" if column else ""
            refuse(f"the accumulator has {c[1]} columns{from_on}, B {b[0]} rows")
        wave = wave_rows(op.accumulator.type)
        if c[0] <= int_of(op.wave) * wave or int_of(op.a_wave) >= int_of(op.waves):
            refuse(f"wave {int_of(op.wave)} of A's wave {int_of(op.a_wave)} is outside an accumulator of {c[0]} rows")
        if a[0] % (wave * int_of(op.waves)):
            refuse(f"A has {a[0]} rows, expected a multiple of {int_of(op.waves)} waves of {wave} rows")
        widths = [bits_of(element_of(v.type)) for v in (op.a, op.b)]
        if widths[0] != widths[1]:
            refuse(f"A's elements have {widths[0]} bits, B's {widths[1]}")
        slot = maker(op.b, "tile.slot")  # which has a cursor of its own
        plainly_swizzled(op, op.a, op.b)
        in_step(op, None, op.a, *([op.b] if slot is None else []))


class MmaConvertedOp(Op, name="mma_converted"):
    """accumulator[wave] (+)= A * B^T, with A in registers (`converted`), over the K of A, which is that of the cursor's
    stage of B, or the `slice` that A is; asynchronous. The registers of A are not touched until it was waited for.
    `accumulate`, `slice` and `column` as of `mma`; B's tile is [rows, K], or with the attribute `b_mn` [K, rows]."""

    accumulator: ext.Operand[FragmentType]
    a: ext.Operand[MultiplicandType]
    b: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    wave: Natural
    column: ir.IntegerAttr
    accumulate: Flag

    def verify_invariants(op: ir.OpView) -> None:
        c, (rows, depth), mn = shape_of(op.accumulator.type), shape_of(op.a.type), "b_mn" in op.operation.attributes
        if mn:
            in_panels(op, "B", "b_mn", op.b.type)
        columns, k = shape_of(op.b.type)[:: -1 if mn else 1]
        number, count = slice_of(op)
        if not 0 <= number < count or depth * count != k:
            refuse(f"slice {number} of {count}, {depth} of {k} columns of K")
        column = int_of(op.column)
        if column < 0 or column % 8 or column + c[1] > columns:
            refuse(f"the accumulator has {c[1]} columns from {column} on, B {columns} rows")
        wave = wave_rows(op.accumulator.type)
        if c[0] <= int_of(op.wave) * wave or rows != wave:
            refuse(f"{rows} rows of A for wave {int_of(op.wave)} of an accumulator of {c[0]} rows")
        kinds = [element_of(v.type) for v in (op.a, op.b)]
        if kinds[0] != kinds[1] and {bits_of(kind) for kind in kinds} != {8}:  # those of 8 bits mix
            refuse(f"A's elements are {kinds[0]}, B's {kinds[1]}")
        plainly_swizzled(op, op.b)
        in_step(op, None, op.b)


def slice_of(op: ir.OpView) -> tuple[int, int]:
    """The slice of a product of a stage: its number, and how many there are."""
    return optional(op, "slice", (0, 1))


class MmaWaitOp(Op, name="mma_wait"):
    """Waits until at most `pending` groups of products are in flight; the accumulator may then be read."""

    accumulator: ext.Operand[FragmentType]
    pending: Natural


class RowFactorsOp(Op, name="row_factors"):
    """Scale factors of the rows of a wave: from the cursor's stage of shared vectors, of which `plane`, an optional
    integer, is the number (0), or from a window's block. `waves` and `by_turns` as of `mma`."""

    source: ext.Operand[SharedType]
    position: ext.Operand[CursorType | WindowType]
    result: ext.Result[ScalesType]
    wave: ir.IntegerAttr
    waves: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        wave, waves = int_of(op.wave), int_of(op.waves)
        if not 0 <= wave < waves:
            refuse(f"wave {wave} of {waves}")
        rows = holds_factors(op)
        wave = min(WAVES.values())
        if rows % (wave * waves):
            refuse(f"factors of {rows} rows, expected a multiple of {waves} waves of {wave} rows")


class ColumnFactorsOp(Op, name="column_factors"):
    """Scale factors of the tile's columns, found likewise; read here (`held`), or where they are used, so release
    after."""

    source: ext.Operand[SharedType]
    position: ext.Operand[CursorType | WindowType]
    result: ext.Result[ScalesType]

    verify_invariants = staticmethod(holds_factors)


class UniformFactorsOp(Op, name="uniform_factors"):
    """What `fetch` brought: scalars [first, first + count), each for `span` columns (0: for all)."""

    source: ext.Operand[ScalarsType]
    result: ext.Result[ScalesType]
    first: Natural
    count: Count
    span: Natural

    def verify_invariants(op: ir.OpView) -> None:
        end, span, room = int_of(op.first) + int_of(op.count), int_of(op.span), maker(op.source, "tile.scalars")
        if room is not None and end > int_of(room.count):
            refuse(f"takes scalars {int_of(op.first)}..{end} of {int_of(room.count)}")
        if span % 8 or (not span and int_of(op.count) > 1):
            refuse(
                f"{int_of(op.count)} factors of {span} columns each, expected a multiple of 8 (0: one factor for all)"
            )


class BlockFactorsOp(Op, name="block_factors"):
    """What `fetch` brought for blocks of `block` columns of the tensors, of a tile that begins at column `column0`: the
    first for the block in which that lies, and so on. A step of `step` columns lies in one block wherever it begins."""

    source: ext.Operand[ScalarsType]
    column0: ext.Operand[I32]
    result: ext.Result[ScalesType]
    block: ir.IntegerAttr
    step: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        block, step = int_of(op.block), int_of(op.step)
        if step < 8 or step % 8 or block < step or block % step:
            refuse(f"steps of {step} columns in blocks of {block}, expected a multiple of 8 that divides them")


class PromoteOp(Op, name="promote"):
    """accumulator[wave] += partial * a_factors * b_factors, in FP32 registers.

    `partial` may be some columns of the accumulator's, from `column` on. It is multiplied by the power of two
    `exponent`, an optional integer attribute, first.
    """

    accumulator: ext.Operand[FragmentType]
    partial: ext.Operand[FragmentType]
    a_factors: ext.Operand[ScalesType] | None
    b_factors: ext.Operand[ScalesType] | None
    wave: ir.IntegerAttr
    column: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        (rows, columns), (_, partial) = shape_of(op.accumulator.type), shape_of(op.partial.type)
        column = int_of(op.column)
        if column < 0 or column % 8 or column + partial > columns:
            what = f"{partial} from {column} on" if column else str(partial)
            refuse(f"the accumulator has {columns} columns, the partial sums {what}")
        if not 0 <= int_of(op.wave) * wave_rows(op.accumulator.type) < rows:
            refuse(f"wave {int_of(op.wave)} is outside an accumulator of {rows} rows")


# --------------------------------------------------------------------------------------------------------- epilogue


def axes_of(op: ir.OpView) -> list[tuple[int, int, int]]:
    """(0 for rows or 1 for columns, divisor, modulus) of each axis of a `tile.input`."""
    flat = ints_of(op.axes)
    return list(zip(flat[::3], flat[1::3], flat[2::3], strict=False))


def gaps_in(op: ir.OpView) -> list[tuple[int, int, int]]:
    """(size, every, phase) of what each axis of a `tile.input` is read around; none where no axis has gaps."""
    flat = optional(op, "gaps", ())
    return list(zip(flat[::3], flat[1::3], flat[2::3], strict=False))


class InputOp(Op, name="input"):
    """An epilogue input: the element of `source` at the sum, over its axes, of an index times the axis's stride.

    `axes` has three numbers an axis: 0 where it is indexed by the row and 1 by the column, what that is divided by, and
    0 or what of the quotient the remainder is taken by. kind: "row" (one value a row), "col", "both" or "scalar";
    strides in elements. `pair` 1: two adjacent columns may be loaded at once. `gaps`, optional, has three numbers an
    axis, size, every and phase: index i is read at i + size * ((i + phase) / every).
    """

    source: ext.Operand[Any]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    result: ext.Result[InputType]
    kind: ir.StringAttr
    axes: Any
    pair: Flag

    def verify_invariants(op: ir.OpView) -> None:
        if str_of(op.kind) not in ("row", "col", "both", "scalar"):
            refuse(f"kind is {op.kind}, expected row, col, both or scalar")
        axes = ints_of(op.axes)
        if len(axes) != 3 * len(op.strides) or any(a not in (0, 1) or by < 1 or m < 0 for a, by, m in axes_of(op)):
            refuse(f"axes are {list(axes)} for {len(op.strides)} strides, expected three numbers for each")
        around = optional(op, "gaps", axes)
        if len(around) != len(axes) or any(size < 0 or every < 1 or c < 0 for size, every, c in gaps_in(op)):
            expected = "a size, a distance of at least 1 and a phase for each"
            refuse(f"gaps are {list(around)} for {len(op.strides)} strides, expected {expected}")


class IndexInputOp(Op, name="index_input"):
    """An input of i32 that no memory has: of kind "row" or "col" where a row or column is, of kind "scalar" `value`.

    `numbers` are an offset, a divisor and a modulus: (index + offset) / divisor, of that the remainder by the modulus
    if it is not 0. An index that is divided is not below 0.
    """

    value: Sequence[ext.Operand[I32]]
    result: ext.Result[InputType]
    kind: ir.StringAttr
    numbers: Any

    def verify_invariants(op: ir.OpView) -> None:
        kind, numbers = str_of(op.kind), ints_of(op.numbers)
        if kind not in ("row", "col", "scalar") or len(op.value) != int(kind == "scalar"):
            refuse(f"kind is {kind} with {len(op.value)} values, expected row or col, or scalar with one")
        if len(numbers) != 3 or numbers[1] < 1 or numbers[2] < 0:
            refuse(f"numbers are {list(numbers)}, expected an offset, a divisor and a modulus")


class PrefetchInputOp(Op, name="prefetch_input"):
    """Asks L2 for what a tile at (m0, n0) reads of an input of kind "row", "col" or "both", within (m, n); a warp."""

    input: ext.Operand[InputType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    tile: Any

    def verify_invariants(op: ir.OpView) -> None:
        made = maker(op.input, "tile.input")
        if made is not None and str_of(made.kind) not in ("row", "col", "both"):
            refuse(f"an input of kind {made.kind}, expected row, col or both")
        extents(op, "tile")


class CopyInputOp(Op, name="copy_input"):
    """A warp copies what an input of kind "row", f32, has for the rows of a tile from m0 on into the cursor's stage of
    shared vectors: zeros for rows that are not below `m`, and where what is looked up names nothing. The copies are
    asynchronous: `tile.land` says when they have landed."""

    input: ext.Operand[InputType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    m0: ext.Operand[I32]
    m: ext.Operand[I32]

    def verify_invariants(op: ir.OpView) -> None:
        made, (vectors, rows) = maker(op.input, "tile.input"), shape_of(op.target.type)
        if made is not None and str_of(made.kind) != "row":
            refuse(f"an input of kind {made.kind}, expected row")
        if str(element_of(op.target.type)) != "f32" or vectors != 1 or rows % LANES:
            refuse(f"copies into {op.target.type}, expected one vector of f32 for a multiple of {LANES} rows")
        in_step(op, None, op.target)


class RowsHeldOp(Op, name="rows_held"):
    """result = an input of kind "row" whose values are the `factors` of each wave (`tile.row_factors`)."""

    result: ext.Result[InputType]
    factors: Sequence[ext.Operand[ScalesType]]


class HoldOp(Op, name="hold"):
    """result = body(inputs...), once: what uses it has it in a register. Inputs are of kind "scalar", or held; those in
    memory are read here. The body yields f32 (`tile.yield`)."""

    result: ext.Result[InputType]
    inputs: Sequence[ext.Operand[InputType]]
    body: ext.Region

    def verify_region_invariants(op: ir.OpView) -> None:
        for made in (maker(x, "tile.input") for x in op.inputs):
            if made is not None and str_of(made.kind) != "scalar":
                refuse(f"holds an input of kind {made.kind}, expected scalar")
        computes(op, len(op.inputs))


class EpilogueOp(Op, name="epilogue"):
    """accumulator = body(accumulator, inputs...), element by element; the body yields f32 (`tile.yield`).

    `approximate`, an optional unit attribute: the result and its scales have 16 bits or fewer, and functions may be off
    by a sixteenth of its ulp. `piecewise`, likewise: what is read for some columns is used before what is read for the
    next ones, for which a thread then needs no registers yet. `pinned`, likewise: each element is computed where it is
    read, and not where it is stored.
    """

    accumulator: ext.Operand[FragmentType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    inputs: Sequence[ext.Operand[InputType]]
    body: ext.Region

    def verify_region_invariants(op: ir.OpView) -> None:
        attributes = op.operation.attributes
        for name in ("approximate", "piecewise", "pinned"):
            if name in attributes and not isinstance(attributes[name], ir.UnitAttr):
                refuse(f"{name} is {attributes[name]}, expected a unit attribute")
        computes(op, 1 + len(op.inputs))


class YieldOp(Op, name="yield", traits=[ir.IsTerminatorTrait]):
    """Ends the body of `tile.epilogue`, `tile.hold`, `tile.compute`, `tile.transform` or `tile.store_folds`."""

    values: Sequence[ext.Operand[ir.F32Type]]
