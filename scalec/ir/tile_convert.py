"""Ops of `tile` that convert an operand on its way from who copies to who multiplies, compute it, and reduce it."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.formats import ADDENDS, CONVERTED, ELEMENT_TYPES, FRAGMENTS, PACKED_BITS, element_spelled, fragments
from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, computes, in_step, maker, memory_of, plainly_swizzled
from scalec.ir.tile_compute import slice_of
from scalec.ir.tile_cut import CHUNK, LINE
from scalec.ir.tile_tensor import LANES
from scalec.ir.tile_types import *
from scalec.ir.tile_words import loaded_of_words, of_words, shifts, smaller, turned_words
from scalec.ir.tile_zero_points import ZeroPointsType, bounds_in
from scalec.ir.verify import Count, Natural, Reduction, Several, refuse
from scalec.targets import WARPGROUP, WAVES
from scalec.zero_points import SHIFTED, converts, subtracts, takes_zeros, words


def rows_of_thread(rows: int, swizzle: int) -> int:
    """Of a tile of so many rows, as wide as its swizzle, those of which a thread of a warpgroup makes a chunk each."""
    return -(-rows // (WARPGROUP * CHUNK // swizzle))


FRAGMENT_ROWS = 2
"""Rows of a thread in each wave of a fragment, of which four lanes have the columns (PTX ISA 9.7.15.5.1.1)."""


def rows_shared(op: ir.OpView) -> int:
    """Rows of a thread of the tile that is an op's `target`: as `tile.transform` shares them out, or with `waves`, an
    optional integer, those that it has in so many waves of a fragment of its warpgroup; 0 where there are no such."""
    (rows, _), swizzle, attributes = shape_of(op.target.type), swizzle_of(op.target.type), op.operation.attributes
    if "waves" in attributes:
        waves = int_of(attributes["waves"])
        return FRAGMENT_ROWS * waves if waves > 0 and rows % (WAVES["registers"] * waves) == 0 else 0
    return rows_of_thread(rows, swizzle) if swizzle else 0


class ConvertOp(Op, name="convert"):
    """Converts the cursor's stage of `source`, elements of type `stored`, to those of `target`, each times the factor
    of its row and block of K; less their zero points before, where there are `zeros`. A warpgroup is here.

    Both tiles are [rows, K], or with `turned`, an optional unit attribute, `source` is [K, rows]. Rows of `source` lie
    one behind the other, packed where elements have less than 8 bits; those of `target` are as wide as its swizzle.
    `factors`, of f32, is [blocks of K, rows], or where rows are turned [blocks of rows, K]. Where `last` is true, the
    stored element `element` of each row, an integer attribute, counts as 0: what shares a byte with the last one of K.
    With `in_words`, an optional unit attribute, `source` is i32, words of eight adjacent K, elements of 4 bits: a line
    for each eight, a column for each row; or of several strips of rows, all lines of one behind those of another.
    What is turned of 4 bits is lines of words of eight adjacent rows: `order`, an optional array, says which of these
    each element is of, from the lowest bits on, and `factors`, of [blocks of K, rows], are of row `first` on, an
    optional integer.
    Elements are those from byte `shift` of each row on, which is below CHUNK: rows then have so many bytes more.
    With `smaller`, an optional unit attribute, all is 2^-SMALLER times that.
    """

    source: ext.Operand[SharedType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    factors: ext.Operand[SharedType] | None
    zeros: ext.Operand[ZeroPointsType] | None
    last: ext.Operand[I1] | None
    shift: ext.Operand[I32] | None
    stored: Any

    def verify_invariants(op: ir.OpView) -> None:
        stored = element_spelled(str(ir.TypeAttr(op.stored).value))
        made = element_spelled(str(element_of(op.target.type)))
        turned = "turned" in op.operation.attributes
        same, points = (turned or op.shift is not None) and stored == made, None
        able = CONVERTED.get(stored.name, ()) if stored is not None else ()
        if op.zeros is not None and (points := maker(op.zeros, "tile.zero_points")) is not None:
            able = converts(stored.name, *bounds_in(points)) if stored is not None and stored.name in SHIFTED else ()
        if stored is None or made is None or not (same or made.name in able):
            refuse(f"converts {op.stored} to {element_of(op.target.type)}, which is not exact")
        (rows, width), source = shape_of(op.source.type), op.source.type
        if "smaller" in op.operation.attributes:
            smaller(stored.name, made.name, op.factors is None and op.zeros is None and not turned)
        depth = shape_of(op.target.type)[1]
        if "in_words" in op.operation.attributes:
            of_words(op, stored.bits, made.bits)
            return
        if turned and stored.bits == PACKED_BITS:
            turned_words(op, made.bits)
            return
        if op.zeros is not None and (turned or (points is not None and points.target.type != op.target.type)):
            refuse(f"converts to {op.target.type} with the zero points of another tile, or turns it")
        if turned:
            rows, width = width, rows
            if rows * stored.bits % 128 or stored.bits not in (8, 32):
                refuse(f"turns {source}, expected lines of whole 16 bytes, of 4, 8 or 32 bits")
        _of_one_shape(op, (rows, width), stored.bits, 1 if turned or op.zeros is not None else MOST_MADE)
        if op.shift is not None:
            shifts(op, width, stored.bits, made.bits if made is not None else 0)
        if op.last is not None:
            element = optional(op, "element", depth)
            if turned or op.zeros is not None or stored.bits != 4 or not 0 <= element < depth:
                refuse(f"has no element {element} of 4 bits, without zero points, in a row of {depth}")
        if op.factors is not None:
            planes, count = shape_of(op.factors.type)
            if turned:
                fits = count == depth and not rows % planes and not rows // planes % TOGETHER and made.name == "bf16"
                if str(element_of(op.factors.type)) != "f32" or not fits:
                    refuse(f"has factors {op.factors.type} for {rows} rows of {depth} {made.name}")
            elif str(element_of(op.factors.type)) != "f32" or count != rows or depth % planes or depth // planes % 8:
                refuse(f"has factors {op.factors.type} for {rows} rows of {depth}")
        buffers = [x for x in (op.source, op.target, op.factors) if x is not None]
        plainly_swizzled(op, op.target)
        in_step(op, None, *buffers)


TOGETHER = 4
"""Rows of a word of what is turned, of bytes, which have one factor."""

MOST_MADE = 2
"""Panels along K of a tile that is converted plainly, at most: so that the rows that a warpgroup makes at once are a
multiple of those after which a swizzle repeats."""


def _of_one_shape(op: ir.OpView, source: tuple[int, ...], stored: int, panels: int = 1) -> None:
    """Refuses tiles of unlike shapes: `source` has rows and their elements, of `stored` bits each below a byte."""
    (rows, width), (own, depth) = source, shape_of(op.target.type)
    element = bits_of(element_of(op.source.type))
    if rows != own or width * element < depth * stored or swizzle_of(op.source.type):
        refuse(f"converts {op.source.type} to {op.target.type}, expected as many elements, not swizzled")
    row, swizzle = depth * bits_of(element_of(op.target.type)) // 8, swizzle_of(op.target.type)
    if row not in range(swizzle, panels * swizzle + 1, swizzle or 1):
        refuse(f"converts to rows of {row} bytes, expected those of the swizzle, of {panels} panels at most")


class LoadStoredOp(Op, name="load_stored"):
    """Elements of type `stored` of a wave of A on their way to the registers out of which wgmma takes it: what a thread
    has of them in the slice `number` of `count` equal ones along K, and the factor of each row and block of K there.

    `source` and `factors` are as `convert` has them, but that rows of `source` may be swizzled, and that `factors` may
    be i32: twice each, of 16 bits, or with `words`, a unit attribute, bytes as `tile.store_factors` has these.
    `source` has the rows of all warpgroups, `waves` waves each. With `interleaved`, a unit attribute, B's rows are
    (`tile.interleave_k`), and the slice is as much of K as LINE bytes of these, or several times that; with
    `fragments`, another, A's elements are in that order (scalec.formats.FRAGMENTS), and B's lie as they are. `zeros`,
    words of [blocks of K, rows] as `tile.store_zeros` makes them, are its zero points. With `in_words`, another,
    `source` is lines of words as `convert` has them, of one strip; where B's rows are interleaved it is swizzled, in
    panels as wide as the swizzle."""

    source: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    factors: ext.Operand[SharedType] | None
    zeros: ext.Operand[SharedType] | None
    result: ext.Result[MultiplicandType]
    a_wave: Natural
    waves: Count
    number: Natural
    count: Count
    made: Any

    def verify_invariants(op: ir.OpView) -> None:
        stored = element_spelled(str(element_of(op.result.type)))
        made = element_spelled(str(ir.TypeAttr(op.made).value))
        able = CONVERTED.get(stored.name, ()) if stored is not None else ()
        if stored is None or made is None or not (made.name in able or made.bits == stored.bits):
            refuse(f"loads {element_of(op.result.type)} to make {op.made}, which is not exact")
        (wave, slice_), (rows, width) = shape_of(op.result.type), shape_of(op.source.type)
        if "in_words" in op.operation.attributes:
            rows, width = width, rows
        waves, number, count = (int_of(x) for x in (op.waves, op.number, op.count))
        if number >= count or int_of(op.a_wave) >= waves or rows % (wave * waves):
            refuse(f"slice {number} of {count}, wave {int_of(op.a_wave)} of {waves} of {rows} rows")
        depth, pitch = slice_ * count, width * bits_of(element_of(op.source.type)) // 8
        if "in_words" in op.operation.attributes:
            loaded_of_words(op, depth)
        elif pitch * 8 < depth * stored.bits or swizzle_of(op.source.type) not in (0, pitch):
            refuse(f"has {depth} elements of {stored.name} of rows in {op.source.type}")
        if slice_ * made.bits % (2 * 8 * CHUNK) or slice_ * stored.bits % (8 * CHUNK):
            refuse(f"converts {slice_} elements of {stored.name}, expected whole {CHUNK} bytes")
        adjacent = {"interleaved", "fragments"} & set(op.operation.attributes)
        order = fragments(stored.name, made) if "fragments" in adjacent else ""
        group = len(FRAGMENTS[order]) if order else 8 * LINE // made.bits
        if len(adjacent) > 1 or ("fragments" in adjacent and not order) or (adjacent and slice_ % group):
            refuse(f"loads {slice_} elements of {stored.name} {' and '.join(adjacent)}, expected whole {group}")
        if "words" in op.operation.attributes:
            _of_words(op, depth, stored.name, rows)
            return
        if op.zeros is not None and not takes_zeros(stored.name, made.name):
            refuse(f"has zero points of {stored.name} as {made.name}")
        kinds = ("f32", "i32") if made.bits == 16 else ("f32",)
        each = words(made.name)
        for name, beside, some, count in (("factors", op.factors, kinds, 1), ("zero points", op.zeros, ("i32",), each)):
            if beside is None:
                continue
            planes, of = shape_of(beside.type)
            if str(element_of(beside.type)) not in some or of != rows * count or depth % planes:
                refuse(f"has {name} {beside.type} for {rows} rows of {depth}")
            if depth // planes * made.bits % (8 * CHUNK):
                refuse(f"has {planes} {name} of a row for {depth} elements of {made.name}")
        buffers = [x for x in (op.source, op.factors, op.zeros) if x is not None]
        plainly_swizzled(op, op.source)
        in_step(op, None, *buffers)


def _of_words(op: ir.OpView, depth: int, stored: str, rows: int) -> None:
    """Refuses words of scale bytes of which no addends are made."""
    if op.factors is None or str(element_of(op.factors.type)) != "i32":
        refuse(f"has factors {op.factors}, expected words of scales")
    (planes, factors), made = shape_of(op.factors.type), str(ir.TypeAttr(op.made).value)
    if factors != rows or depth % (4 * (planes - 1)) or depth // (4 * (planes - 1)) % CHUNK:
        refuse(f"has words {op.factors.type} for {rows} rows of {depth}")
    if made not in (ELEMENT_TYPES[x].mlir for (element, _), (x, _) in ADDENDS.items() if element == stored):
        refuse(f"makes addends {made} of {stored}")
    plainly_swizzled(op, op.source)
    in_step(op, None, op.source, op.factors)


SCALES = {"alike": AddendsType, "ordinary": None, "small": None, "power": PowersType, "plain": None}
"""Of which scales addends are made, and of which type is what is known of these (`ConvertedOp`)."""


class ConvertedOp(Op, name="converted"):
    """A slice of a wave of A as its result's element type, each element times its factor, in registers that nobody
    touches until wgmma has multiplied them. With `less`, an optional integer, less that. Where zero
    points were loaded it is less these, to which `added`, an integer, was added, as to those of `tile.store_zeros`.

    Of what was loaded with `words` addends. `scales`, an optional attribute of SCALES, says which. Of ue4m3 these are
    two, whose sum is 2^-2 times that: "alike": of all, whose scales are those that are `known`, of LOW ones 2 times
    that; "ordinary": of those of ORDINARY scales, the rest is 0; "small": of those that are below, and NaN, 2^4 times
    that, the rest is 0. Of ue8m0 it is one: "power": of all, whose scales are in REACH of those that are `known`, over
    the factor of these (`power_factors`); "plain": of all, without a scale, or with `only`, an optional integer, of
    those whose scale is that one of a row's of the stage, the rest is 0. `slice`, an optional attribute, is which of so
    many equal slices of what was loaded. With `smaller`, a unit attribute, all is 2^-SMALLER times that."""

    stored: ext.Operand[MultiplicandType]
    known: ext.Operand[Any] | None
    result: ext.Result[MultiplicandType]

    def verify_invariants(op: ir.OpView) -> None:
        stored, made = (element_spelled(str(element_of(x.type))) for x in (op.stored, op.result))
        if stored is None or made is None or made.name not in CONVERTED.get(stored.name, ()):
            refuse(f"converts {op.stored.type} to {op.result.type}, which is not exact")
        attributes, loaded = op.operation.attributes, maker(op.stored, "tile.load_stored")
        scales = optional(op, "scales", "")
        if scales not in ("", *SCALES) or (loaded is not None and bool(scales) != ("words" in loaded.attributes)):
            refuse(f"makes addends of {scales!r} scales, expected one of {', '.join(SCALES)}, of words alone")
        wanted = SCALES.get(scales)
        if (op.known is None) != (wanted is None) or (wanted and not isinstance(op.known.type, wanted)):
            refuse(f"makes addends of {scales!r} scales, and knows {op.known and op.known.type} of these")
        (rows, depth), (own, made_of) = shape_of(op.stored.type), shape_of(op.result.type)
        if "less" in attributes and not subtracts(stored.name, made.name, int_of(attributes["less"])):
            refuse(f"makes {made.name} of {stored.name} less {int_of(attributes['less'])}")
        if loaded is not None and (loaded.zeros is not None) != ("added" in attributes):
            refuse("has zero points and what was added to them, expected both or neither")
        if "smaller" in attributes:
            smaller(stored.name, made.name, not scales)
        number, count = slice_of(op)
        if (rows, depth) != (own, made_of * count) or not 0 <= number < count:
            refuse(f"makes {op.result.type} of slice {number} of {count} of {op.stored.type}")


class TransformedOp(Op, name="transformed"):
    """A slice of a wave of A as `tile.converted` makes it, without factors, zero points or interleaved rows, by way of
    f32: body(element, inputs..., scalars...) yields what `tile.transform` has it yield, with `computed` and `inside` as
    there. The slice begins at element `first` of the stage; folds and inputs have FRAGMENT_ROWS rows of each wave, of
    which these are those of `wave`."""

    stored: ext.Operand[MultiplicandType]
    inside: ext.Operand[I32] | None
    folds: Sequence[ext.Operand[FoldsType]]
    inputs: Sequence[ext.Operand[ElementsType]]
    scalars: Sequence[ext.Operand[ir.F32Type]]
    result: ext.Result[MultiplicandType]
    body: ext.Region
    first: Natural
    wave: Natural

    def verify_invariants(op: ir.OpView) -> None:
        stored, made = (element_spelled(str(element_of(x.type))) for x in (op.stored, op.result))
        attributes, between = op.operation.attributes, stored
        if "computed" in attributes:
            between = element_spelled(str(ir.TypeAttr(attributes["computed"]).value))
        if between is None or made is None or made.name not in (between.name, *CONVERTED.get(between.name, ())):
            refuse(f"makes {element_of(op.result.type)} of {between and between.mlir}, which is not exact")
        if stored is None or not {"f32", "tf32"} & {stored.name, *CONVERTED.get(stored.name, ())}:
            refuse(f"computes with {element_of(op.stored.type)}, which f32 does not hold")
        loaded = maker(op.stored, "tile.load_stored")
        if loaded is not None and (
            loaded.factors or loaded.zeros or {"interleaved", "fragments"} & set(loaded.attributes)
        ):
            refuse("takes elements with factors, zero points, or interleaved rows")
        for x in op.folds:
            if int_of(x.type.count) < FRAGMENT_ROWS * (int_of(op.wave) + 1):
                refuse(f"folds wave {int_of(op.wave)} into {x.type}")
        (rows, depth), (own, made_of), (number, count) = (
            shape_of(op.stored.type),
            shape_of(op.result.type),
            slice_of(op),
        )
        if (rows, depth) != (own, made_of * count) or not 0 <= number < count:
            refuse(f"makes {op.result.type} of slice {number} of {count} of {op.stored.type}")

    def verify_region_invariants(op: ir.OpView) -> None:
        made = len(op.folds) + ("computed" in op.operation.attributes)
        computes(op, 1 + len(op.inputs) + len(op.scalars), made)


class FoldsOp(Op, name="folds"):
    """Registers for a reduction of this `kind` of each of a thread's rows, of no terms yet: 0 for sum, -inf for max,
    inf for min."""

    result: ext.Result[FoldsType]
    kind: Reduction

    verify_invariants = staticmethod(lambda op: int_of(op.result.type.count) > 0 or refuse("has no rows"))


class BesideOp(Op, name="beside"):
    """Elements of memory, widened to f32, that belong to those of `target`, a tile: one for each row of a thread
    (`along` "rows"; `rows_shared`), or one for each element of its chunk ("k"), 0 from `end` on. The tile's first row,
    or its first element of K, is `first`; `stride` elements lie between these. With `waves` those of "k" are of all
    elements that a thread makes of a row of `depth` of the type `made`, in their order (`tile.transformed`). With
    `ahead`, what such an op gave, the result is what was loaded there, and what is loaded here is that of the next op.
    """

    memory: ext.Operand[Any]
    target: ext.Operand[SharedType]
    first: ext.Operand[I32]
    end: ext.Operand[I32]
    stride: ext.Operand[ir.IntegerType[64]]
    ahead: ext.Operand[ElementsType] | None
    result: ext.Result[ElementsType]
    along: ir.StringAttr

    def verify_invariants(op: ir.OpView) -> None:
        if not isinstance(op.memory.type, ir.MemRefType) or not rows_shared(op):
            refuse(f"reads {op.memory.type} beside {op.target.type}, expected a memref and a swizzled tile")
        along = str_of(op.along)
        if (along == "k" and "waves" in op.operation.attributes) != ("made" in op.operation.attributes):
            refuse("asks for the type of what is made along K for rows of fragments, and there alone")
        if op.ahead is not None and "made" not in op.operation.attributes:
            refuse("loads ahead, but not along K for rows of fragments")
        if along not in ("rows", "k"):
            refuse(f"along is {along}, expected rows or k")


class TransformOp(Op, name="transform"):
    """Converts the cursor's stage of `source` as `tile.convert` does, not turned, by way of f32: body(element,
    inputs..., scalars...) yields a term for each of `folds`, which is taken into the one of its row. A warpgroup is
    here.

    `computed`, an optional type attribute: before the terms the body yields what is multiplied instead, rounded to that
    type. `inside`, optional: elements of K of the stage that there are; from those behind no terms are taken, and what
    is computed is 0.

    `made`, optional, is f32 of [blocks of K, rows]: what is computed is quantised block by block, as `scale.quantize`
    does it, with scales of the type that `scale`, a string attribute, names; these are stored there. Only with it are
    elements less their `zeros`, and times their `factors`, in f32.
    """

    source: ext.Operand[SharedType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    inside: ext.Operand[I32] | None
    factors: ext.Operand[SharedType] | None
    zeros: ext.Operand[ZeroPointsType] | None
    made: ext.Operand[SharedType] | None
    folds: Sequence[ext.Operand[FoldsType]]
    inputs: Sequence[ext.Operand[ElementsType]]
    scalars: Sequence[ext.Operand[ir.F32Type]]
    body: ext.Region
    stored: Any

    def verify_invariants(op: ir.OpView) -> None:
        stored = element_spelled(str(ir.TypeAttr(op.stored).value))
        made = element_spelled(str(element_of(op.target.type)))
        attributes = op.operation.attributes
        between = stored
        if "computed" in attributes:
            between = element_spelled(str(ir.TypeAttr(attributes["computed"]).value))
        if between is None or made is None or made.name not in (between.name, *CONVERTED.get(between.name, ())):
            refuse(f"makes {element_of(op.target.type)} of {between and between.mlir}, which is not exact")
        if stored is None or not {"f32", "tf32"} & {stored.name, *CONVERTED.get(stored.name, ())}:
            refuse(f"computes with {op.stored}, which f32 does not hold")
        _of_one_shape(op, shape_of(op.source.type), stored.bits)
        count = rows_of_thread(shape_of(op.target.type)[0], swizzle_of(op.target.type))
        for x in op.folds:
            if int_of(x.type.count) != count:
                refuse(f"folds into {x.type}, expected {count} rows of a thread")
        if (op.made is None) != ("scale" not in attributes):
            refuse("has new scales of no type, or a type and none")
        _found_by_lanes(op)
        plainly_swizzled(op, op.target)
        in_step(op, None, op.source, op.target)

    def verify_region_invariants(op: ir.OpView) -> None:
        made = len(op.folds) + ("computed" in op.operation.attributes)
        computes(op, 1 + len(op.inputs) + len(op.scalars), made)


def _found_by_lanes(op: ir.OpView) -> None:
    """Refuses new scales that adjacent lanes do not find together, and factors beside no new scales."""
    (rows, depth), chunks = shape_of(op.target.type), swizzle_of(op.target.type) // CHUNK
    for x in (op.factors, op.made):
        planes, count = shape_of(x.type) if x is not None else (1, rows)
        if x is not None and (str(element_of(x.type)) != "f32" or count != rows or chunks % planes):
            refuse(f"has {x.type} for {rows} rows of {depth}, {chunks} chunks each")
    if op.made is None:
        plain = op.factors is None and op.zeros is None
        if not plain:
            refuse("has factors or zero points, and quantises nothing")
        return
    if "computed" not in op.operation.attributes or rows * chunks % LANES:
        refuse(f"quantises {rows} rows of {depth}, expected a type, and whole warps")
    if op.zeros is not None and (points := maker(op.zeros, "tile.zero_points")) is not None:
        if points.target.type != op.target.type:
            refuse("has the zero points of another tile")
        return


def _one_of_rows(op: ir.OpView) -> None:
    """Refuses folds of other rows than a thread has of the tile."""
    if int_of(op.folds.type.count) != rows_shared(op) or not rows_shared(op):
        refuse(f"stores {op.folds.type} of {op.target.type}, expected as many rows")


class SumFoldsOp(Op, name="sum_folds"):
    """Of a tile's rows, whose K is split, the folds of all `split` parts, of which this CTA has worked on `part`.

    Each warp stores those of its rows in `partials` at tile `number`, which has `words` f32 there, from `offset` on:
    one for each row and part. Then it counts itself in one of the tile's `counters_of_tile` counters, from number
    `counter` on one for each warp. The last one to come takes all parts in, each of the lanes that share a row so many
    of them, in their order, so that `tile.store_folds` then has the same whoever was last. With it the result is 1, and
    the counter 0 again; with others it is 0.
    """

    folds: ext.Operand[FoldsType]
    target: ext.Operand[SharedType]
    partials: ext.Operand[Any]
    counters: ext.Operand[Any]
    part: ext.Operand[I32]
    number: ext.Operand[I32]
    result: ext.Result[I1]
    split: Several
    words: ir.IntegerAttr
    offset: ir.IntegerAttr
    counters_of_tile: ir.IntegerAttr
    counter: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        memory_of(op, "partials", "f32")
        memory_of(op, "counters", "i32")
        rows = shape_of(op.target.type)[0]
        if int_of(op.offset) + int_of(op.split) * rows > int_of(op.words):
            refuse(f"has {int_of(op.words)} f32 a tile, expected {int_of(op.split)} for each of {rows} rows")
        _one_of_rows(op)


class StoreFoldsOp(Op, name="store_folds"):
    """body(fold, scalars...) of each row, rounded to the element type of memory and stored there, from row `row0` on
    and below `row_end`; `stride` elements lie between rows. `target` is the tile of which threads have rows
    (`rows_shared`). Rows for which one of `skips` names nothing are not stored.
    """

    folds: ext.Operand[FoldsType]
    memory: ext.Operand[Any]
    target: ext.Operand[SharedType]
    row0: ext.Operand[I32]
    row_end: ext.Operand[I32]
    stride: ext.Operand[ir.IntegerType[64]]
    skips: Sequence[ext.Operand[RowIndexType]]
    scalars: Sequence[ext.Operand[ir.F32Type]]
    body: ext.Region

    def verify_invariants(op: ir.OpView) -> None:
        _one_of_rows(op)
        element = op.memory.type.element_type if isinstance(op.memory.type, ir.MemRefType) else None
        if element is None or bits_of(element) < 8:
            refuse(f"writes {op.memory.type}, expected a memref of whole bytes")

    def verify_region_invariants(op: ir.OpView) -> None:
        computes(op, 1 + len(op.scalars))


class OwnStageOp(Op, name="own_stage"):
    """Whether the cursor's stage is one of this warpgroup's: `of` warpgroups of the role take stages by turns, the
    first stage 0."""

    cursor: ext.Operand[CursorType]
    result: ext.Result[I1]
    of: Several
