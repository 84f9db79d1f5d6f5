"""Ops of `tile` for programs without a contraction: some adjacent columns of a row in a thread's registers."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.formats import ELEMENT_TYPES, LAYOUTS, PACKED_BITS, PER_WORD, QUANTISED
from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, at_least, computes, maker
from scalec.ir.tile_quantize import rounds
from scalec.ir.tile_types import I1, I32, InputType, Tile, bits_of, int_of, optional, str_of
from scalec.ir.verify import Count, Flag, Natural, refuse

MOST_BYTES = 16
"""Of one load or store of a thread (PTX ISA 9.7.9.8, ld: .v4.b32)."""

SCALES = tuple(t.name for t in ELEMENT_TYPES.values() if t.scale)

MOST_MASKED = 32
"""Columns that have a bit each."""

LANES = 32
"""Of a warp."""


def turned_steps(rows: int, columns: int, vector: int) -> tuple[int, int]:
    """Words of shared memory from a row of a tile that is turned to the next, and so many more every `vector` rows:
    column c is c + c / 32 words behind the first one. Of a warp that writes a column of each of its vectors, and of one
    that reads a row of each where the tile is turned, no two lanes meet in a bank.

    Lanes that share a row, and do not differ in their banks by `vector`, differ in c / 32; the rows below are as many
    banks apart as that takes. Who reads turned has lanes in adjacent columns, and vectors of rows as many banks apart
    as these are, or an odd multiple."""
    return columns + columns // LANES, max(1, LANES * vector // rows)


def turned_words(rows: int, columns: int, vector: int) -> int:
    """Words of shared memory of such a tile."""
    line, further = turned_steps(rows, columns, vector)
    return rows * line + rows // vector * further


class ColumnsType(Tile.Type, name="columns"):
    """`count` f32, one for each of so many adjacent columns of a row, in registers of a thread."""

    count: Any


class PointOp(Op, name="point"):
    """The row and the first column that a thread has of the tile at (m0, n0), and whether they are below m and n.

    A row of the tile has `columns` columns, a thread `vector` of them. Threads that follow one another have columns
    that do, and where those end, the next row.
    """

    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    row: ext.Result[I32]
    column: ext.Result[I32]
    inside: ext.Result[I1]
    columns: Count
    vector: Count

    def verify_invariants(op: ir.OpView) -> None:
        columns, vector = int_of(op.columns), int_of(op.vector)
        across = columns // vector
        if columns % vector or (across & (across - 1) and across % LANES):
            many = f"{vector} times a power of two or whole warps"
            refuse(f"{columns} columns for threads of {vector} each, expected {many}")


class AlignedOp(Op, name="aligned"):
    """Whether memory, and every row of it that `strides`, in elements, lead to, begins at a multiple of `bytes`."""

    source: ext.Operand[Any]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    result: ext.Result[I1]
    bytes: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        size = int_of(op.bytes)
        if size not in (1, 2, 4, 8, MOST_BYTES):
            refuse(f"bytes is {size}, expected a power of two up to {MOST_BYTES}")
        _memory(op, op.source)


class LoadColumnsOp(Op, name="load_columns"):
    """Elements of memory, widened to f32: at an index along each axis, which has a stride in elements.

    `along` 1: as many adjacent ones as the result has columns, `together` in one load, which begins at a multiple of
    its bytes. 0: one element, for all columns. One element may be half a byte. Zeros unless `valid`: nothing is read
    then. With a `count` only so many columns are read, one by one unless it is `whole`: all of them, at multiples of
    those bytes. With an `order`, an optional array, rows are of whole words of 4 bits, in which element i lies at place
    `order[i]`; columns begin at a multiple of a word's, or of their own number, if that is smaller.
    """

    source: ext.Operand[Any]
    at: Sequence[ext.Operand[I32]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    valid: ext.Operand[I1]
    count: Sequence[ext.Operand[I32]]
    whole: Sequence[ext.Operand[I1]]
    result: ext.Result[ColumnsType]
    along: Flag
    together: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        _indexed(op)
        _counted(op)
        _memory(op, op.source)
        count = int_of(op.result.type.count) if int_of(op.along) else 1
        if order := optional(op, "order", ()):
            kind, size = op.source.type.element_type, len(order)
            if sorted(order) != [*range(PER_WORD)] or bits_of(kind) != PACKED_BITS or (count % size and size % count):
                refuse(f"{count} columns of {kind} in the order {order}, expected those of words of {PER_WORD}")
            count = max(count, size)
        if count > 1 or bits_of(op.source.type.element_type) != PACKED_BITS:
            _together(op, op.source, count)


class LoadScalesOp(Op, name="load_scales"):
    """The scales of adjacent columns of a row, one for each: those from `column` on, of a row of `n`. A scale is for
    `block` columns, of which a thread has one block's part or whole ones. Zeros unless `valid`. `scale`, `layout` and
    `stride` are as those of `tile.quantize`."""

    source: ext.Operand[Any]
    row: ext.Operand[I32]
    column: ext.Operand[I32]
    n: ext.Operand[I32]
    stride: ext.Operand[ir.IntegerType[64]]
    valid: ext.Operand[I1]
    result: ext.Result[ColumnsType]
    block: Count
    scale: ir.StringAttr
    layout: ir.StringAttr

    def verify_invariants(op: ir.OpView) -> None:
        _memory(op, op.source)
        count, block = int_of(op.result.type.count), int_of(op.block)
        if count % block and block % count:
            refuse(f"blocks of {block} for {count} columns, expected one that divides the other")
        if str_of(op.layout) not in LAYOUTS or str_of(op.scale) not in SCALES:
            refuse(f"scales are {op.scale} in the layout {op.layout}, expected {', '.join(SCALES)}")


class WithinOp(Op, name="within"):
    """A bit for each of so many `columns`, those from `column` on, that lie at `low` or above it, and below `high`."""

    column: ext.Operand[I32]
    low: ext.Operand[I32]
    high: ext.Operand[I32]
    mask: ext.Result[I32]
    columns: Count

    def verify_invariants(op: ir.OpView) -> None:
        if int_of(op.columns) > MOST_MASKED:
            refuse(f"{op.columns} columns, expected up to {MOST_MASKED}, a bit each")


class FilledOp(Op, name="filled"):
    """The columns whose bit is set, and `otherwise` for each other one."""

    value: ext.Operand[ColumnsType]
    mask: ext.Operand[I32]
    result: ext.Result[ColumnsType]
    otherwise: ir.FloatAttr

    def verify_invariants(op: ir.OpView) -> None:
        count = int_of(op.value.type.count)
        if op.result.type != op.value.type or count > MOST_MASKED:
            refuse(f"makes {op.result.type} of {op.value.type}, expected one type, of up to {MOST_MASKED}")


class ColumnOp(Op, name="column"):
    """What one of several adjacent columns has, that of number `at`."""

    value: ext.Operand[ColumnsType]
    result: ext.Result[ir.F32Type]
    at: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        count = int_of(op.value.type.count)
        if not 0 <= int_of(op.at) < count:
            refuse(f"column {op.at} of {count}")


class ColumnsOfOp(Op, name="columns_of"):
    """Adjacent columns that have these numbers."""

    values: Sequence[ext.Operand[ir.F32Type]]
    result: ext.Result[ColumnsType]

    def verify_invariants(op: ir.OpView) -> None:
        count = int_of(op.result.type.count)
        if len(op.values) != count:
            refuse(f"{len(op.values)} numbers, expected {count}, one a column")


class LayColumnsOp(Op, name="lay_columns"):
    """Leaves what a thread has of a tile of so many `rows` and `columns` in shared memory, from byte `at` on: its
    columns in place number `place` of those that it has one below the other (`tile.point` says where the first is).
    `halves`, an optional type of 16 bits: values are of it, and lie as such, in units of 16 bytes (`turned_unit`)."""

    value: ext.Operand[ColumnsType]
    rows: ir.IntegerAttr
    columns: ir.IntegerAttr
    at: ir.IntegerAttr
    place: ir.IntegerAttr

    verify_invariants = staticmethod(lambda op: _laid(op, int_of(op.value.type.count)))


class TakeTurnedOp(Op, name="take_turned"):
    """As many adjacent rows of one column as a thread left columns of one row (`tile.lay_columns`, which all threads
    have done, of a tile of so many `rows` and `columns`): what it has of it with these in each other's place. With
    `halves` four lanes share a column, and a thread has places beside each other before those below."""

    result: ext.Result[ColumnsType]
    rows: ir.IntegerAttr
    columns: ir.IntegerAttr
    at: ir.IntegerAttr
    place: ir.IntegerAttr

    verify_invariants = staticmethod(lambda op: _laid(op, int_of(op.result.type.count)))


class LayNamedOp(Op, name="lay_named"):
    """Leaves whether a row of a tile of so many `columns` is there, a byte, from byte `at` of shared memory on: of
    place number `place` of a thread that has `vector` columns of it, as `tile.lay_columns` counts them."""

    valid: ext.Operand[I1]
    columns: ir.IntegerAttr
    vector: ir.IntegerAttr
    at: ir.IntegerAttr
    place: ir.IntegerAttr

    verify_invariants = staticmethod(lambda op: _turned(op, int_of(op.vector), "columns"))


class TakeNamedOp(Op, name="take_named"):
    """Of the rows that `tile.take_turned` takes, those that are there (`tile.lay_named`, which all threads have done),
    a bit each, and whether one is of the `block` of rows that they lie in."""

    mask: ext.Result[I32]
    some: ext.Result[I1]
    rows: ir.IntegerAttr
    vector: ir.IntegerAttr
    block: ir.IntegerAttr
    at: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        vector, block, rows = int_of(op.vector), int_of(op.block), int_of(op.rows)
        if block % vector or rows % block:
            refuse(f"blocks of {block}, expected a multiple of {vector} that divides {rows}")
        _turned(op, vector, "rows")


class FindScaleOp(Op, name="find_scale"):
    """The scale of a block whose largest magnitude is given, as stored in the bits of `code`, and what its values are
    multiplied by. `element`, `scale` and `inverse` are as those of `tile.quantize`."""

    largest: ext.Operand[ir.F32Type]
    inverse: Sequence[ext.Operand[InputType]]
    code: ext.Result[I32]
    reciprocal: ext.Result[ir.F32Type]
    element: ir.TypeAttr
    scale: ir.StringAttr

    def verify_invariants(op: ir.OpView) -> None:
        if len(op.inverse) > 1 or any(maker(x, "tile.hold") is None for x in op.inverse):
            refuse(f"{len(op.inverse)} inverses, expected one that tile.hold made, or none")
        if str_of(op.scale) not in QUANTISED:
            refuse(f"scales are {op.scale}, expected {', '.join(QUANTISED)}")


class OwnTurnOp(Op, name="own_turn"):
    """The number of a thread among `threads` that follow one another, a power of two."""

    result: ext.Result[I32]
    threads: Count

    def verify_invariants(op: ir.OpView) -> None:
        threads = int_of(op.threads)
        if threads & (threads - 1):
            refuse(f"{threads} threads, expected a power of two")


class StoreScaleOp(Op, name="store_scale"):
    """Stores the scale of a row's block where it is `inside`: one of the threads that share it does, as
    `tile.reduce_lanes` has them. `scale`, `layout` and `stride` are as those of `tile.quantize`, `n` and `block` the
    columns of a row and of a block. `padding` 1: behind the last one zeros fill up its word of four. `kept`, an
    optional unit attribute: L2 keeps its sector, the rest of which others store, as long as it can."""

    code: ext.Operand[I32]
    target: ext.Operand[Any]
    stride: ext.Operand[ir.IntegerType[64]]
    row: ext.Operand[I32]
    at: ext.Operand[I32]
    n: ext.Operand[I32]
    inside: ext.Operand[I1]
    block: Count
    sharing: Natural
    scale: ir.StringAttr
    layout: ir.StringAttr
    padding: Flag

    def verify_invariants(op: ir.OpView) -> None:
        _memory(op, op.target)
        if str_of(op.layout) not in LAYOUTS or str_of(op.scale) not in QUANTISED:
            refuse(f"scales are {op.scale} in the layout {op.layout}, expected {', '.join(QUANTISED)}")


class ComputeOp(Op, name="compute"):
    """body(inputs..., scalars...) for each column; the body yields f32 (`tile.yield`). `approximate`, an optional unit
    attribute, is as that of `tile.epilogue`; with `once`, another one, quotients are rounded to nearest even."""

    inputs: Sequence[ext.Operand[ColumnsType]]
    scalars: Sequence[ext.Operand[ir.F32Type]]
    result: ext.Result[ColumnsType]
    body: ext.Region

    def verify_region_invariants(op: ir.OpView) -> None:
        attributes = op.operation.attributes
        for name in ("approximate", "once"):
            if name in attributes and not isinstance(attributes[name], ir.UnitAttr):
                refuse(f"{name} is {attributes[name]}, expected a unit attribute")
        if {"approximate", "once"} <= {*attributes.keys()}:
            refuse("quotients are approximate and rounded once, expected one of them")
        for value in op.inputs:
            if value.type != op.result.type:
                refuse(f"computes {op.result.type} of {value.type}, expected as many columns")
        computes(op, len(op.inputs) + len(op.scalars))


class HadamardOp(Op, name="hadamard"):
    """Columns as `scale.hadamard` transforms them, 16 together, which lie in one thread or in as many as have them, one
    after the other. All threads of a warp come here."""

    value: ext.Operand[ColumnsType]
    result: ext.Result[ColumnsType]

    def verify_invariants(op: ir.OpView) -> None:
        count = int_of(op.value.type.count)
        if op.result.type != op.value.type or count & (count - 1):
            refuse(f"transforms {op.value.type} to {op.result.type}, expected one type of a power of two")


class RoundColumnsOp(Op, name="round_columns"):
    """Columns rounded up or down to multiples of what numbers of `element` around each lie apart, by its random bits,
    as `scale.round` rounds them: of the element at an index along each axis of a tensor, and of those behind it. The
    first column is a multiple of how many there are, or with `anywhere`, an optional unit attribute, any one.
    `extents` are of all axes but the first, `words` of Philox's key and counter. What is beyond the largest number
    stays there."""

    value: ext.Operand[ColumnsType]
    at: Sequence[ext.Operand[I32]]
    extents: Sequence[ext.Operand[I32]]
    words: Sequence[ext.Operand[I32]]
    result: ext.Result[ColumnsType]
    element: ir.TypeAttr

    def verify_invariants(op: ir.OpView) -> None:
        if op.result.type != op.value.type:
            refuse(f"rounds {op.value.type} to {op.result.type}, expected one type")
        if len(op.at) != len(op.extents) + 1:
            refuse(f"{len(op.at)} indices and {len(op.extents)} extents, expected one less")
        attributes = op.operation.attributes
        if "anywhere" in attributes and not isinstance(attributes["anywhere"], ir.UnitAttr):
            refuse(f"anywhere is {attributes['anywhere']}, expected a unit attribute")
        rounds(op)


class StoreColumnsOp(Op, name="store_columns"):
    """Rounds columns to the element type of memory and stores them side by side, `together` in one store: at an index
    along each axis, which has a stride in elements, or in bytes where elements are narrower. `count` and `whole` are as
    those of `tile.load_columns`; where it is `masked`, `count` has a bit for each column that is stored. What shares a
    byte with these stays as memory has it."""

    value: ext.Operand[ColumnsType]
    target: ext.Operand[Any]
    at: Sequence[ext.Operand[I32]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    count: Sequence[ext.Operand[I32]]
    whole: Sequence[ext.Operand[I1]]
    together: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        _indexed(op)
        _counted(op)
        _memory(op, op.target)
        if "masked" in op.operation.attributes and not op.count:
            refuse("is masked without a count")
        _together(op, op.target, int_of(op.value.type.count))


def _counted(op: ir.OpView) -> None:
    """Refuses a number of columns without whether these are all, and the reverse."""
    if len(op.count) != len(op.whole) or len(op.count) > 1:
        refuse(f"{len(op.count)} counts and {len(op.whole)} of whether they are whole, expected one, or none")


def _indexed(op: ir.OpView) -> None:
    """Refuses indices without strides, and the reverse."""
    if len(op.at) != len(op.strides):
        refuse(f"{len(op.at)} indices and {len(op.strides)} strides, expected as many")


def _laid(op: ir.OpView, vector: int) -> None:
    """Refuses elements of 16 bits whose threads have no whole units, or more rows than there are."""
    attributes = op.operation.attributes
    if "halves" in attributes and (vector not in (8, 16) or int_of(attributes["rows"]) % (4 * vector)):
        refuse(f"{vector} columns a thread, expected 8 or 16, four times of which divide the rows")
    _turned(op, vector, "rows", "columns")


def _turned(op: ir.OpView, vector: int, *sizes: str) -> None:
    """Refuses a tile whose words do not lie in all banks alike."""
    at = int_of(op.at)
    for name in sizes:
        size = int_of(op.operation.attributes[name])
        if size & (size - 1) or not LANES <= size <= LANES * LANES:
            refuse(f"{name} is {size}, expected a power of two from {LANES} to {LANES * LANES}")
    if vector & (vector - 1) or vector > LANES:
        refuse(f"{vector} columns a thread, expected a power of two up to {LANES}")
    if at % (4 * LANES) and "vector" not in op.operation.attributes:
        refuse(f"at is {at}, expected a multiple of {4 * LANES}: a word for each bank")
    at_least(op, 0, *(n for n in ("at", "place") if n in op.operation.attributes))


def _memory(op: ir.OpView, value: ir.Value) -> None:
    if not isinstance(value.type, ir.MemRefType):
        refuse(f"reads or writes {value.type}, expected a memref")


def _together(op: ir.OpView, memory: ir.Value, count: int) -> None:
    """Refuses loads and stores that do not share out `count` elements, or that PTX has no instruction for."""
    together, bits = int_of(op.together), bits_of(memory.type.element_type)
    sizes = [n for n in (1, 2, 4, 8, 16, 32, 64) if not n * bits % 8 and n * (bits & -bits) <= 8 * MOST_BYTES]
    if together not in sizes or count % together:
        refuse(
            f"{together} of {count} elements of {bits} bits together, expected a divisor of {count} among "
            f"{', '.join(map(str, sizes))}"
        )
