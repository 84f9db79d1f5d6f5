"""Operands that are computed, or reduced along K, on their way: element by element in f32.

Threads have the chunks of 16 bytes that they have where elements are only converted (convert.py). What reduces a row
lies in the lanes that share it: each takes terms in the order of K, and in the end the lanes take each other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalec.abi import COUNTER_BYTES
from scalec.formats import element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_convert import rows_of_thread
from scalec.lowering import scalar
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common import epilogue, rounding
from scalec.lowering.common.block_scales import SCALES
from scalec.lowering.common.convert import Chunks, elements_of, factor, place_of, thread_of
from scalec.lowering.common.copies import widened as byte_as_f32
from scalec.lowering.common.elements import converted, widened
from scalec.lowering.common.parts import pointer_of
from scalec.lowering.common.pointwise import REDUCTIONS
from scalec.lowering.common.state import COMMON, State
from scalec.targets import WARPGROUP

WORDS = 16
"""Registers of a thread whose elements are loaded before it stores the first chunk: what it computes needs others. With
32 ptxas 13.0 spilled 128x192 of silu(A) w r by bf16 on sm_90a, of 72 registers. Half as many where
elements are quantised, which needs all of a chunk at once: 16 spilled 128x128 of f16 on both sides, of 56."""


@dataclass(frozen=True)
class Folds:
    """What reduces a thread's rows: `rows` of a `kind`."""

    kind: str
    rows: list[Variable]

    @property
    def empty(self) -> float:
        """What nothing is reduced to."""
        return float(REDUCTIONS[self.kind][1])

    def combine(self, s: State, x: ir.Value, y: ir.Value) -> ir.Value:
        """Takes a term in."""
        return scalar.OPS[REDUCTIONS[self.kind][0]](s.b, x, y)


@COMMON.lowers("tile.folds")
def folds(s: State, op: ir.OpView) -> None:
    kind = tile.str_of(op.kind)
    empty = Folds(kind, []).empty
    rows = [s.b.variable(s.b.f32, empty) for _ in range(tile.int_of(op.result.type.count))]
    s.values[op.result] = Folds(kind, rows)


@dataclass(frozen=True)
class Beside:
    """What belongs to the elements of a thread: to each of its rows, or to each of a chunk."""

    by_row: bool
    values: list[ir.Value]


@COMMON.lowers("tile.beside")
def beside(s: State, op: ir.OpView) -> None:
    b, swizzled, element = s.b, tile.swizzle_of(op.target.type), str(op.memory.type.element_type)
    chunks, by_row = swizzled // tile.CHUNK, tile.str_of(op.along) == "rows"
    row, chunk = place_of(b, thread_of(s), chunks)
    count = 8 * tile.CHUNK // tile.bits_of(tile.element_of(op.target.type))
    own, apart = b.mul(chunk, count), 1
    if by_row:
        count, own, apart = rows_of_thread(tile.shape_of(op.target.type)[0], swizzled), row, WARPGROUP // chunks
    values = []
    for i in range(count):
        at = b.add(s.get(op.first), b.add(own, i * apart))
        index = b.mul(b.widen(at), s.get(op.stride))
        address = epilogue.address_of(s, s.get(op.memory), index, element)
        pointer = b.op("llvm.inttoptr", [ir.Type.parse("!llvm.ptr<1>")], [address])
        values += epilogue.numbers(s, epilogue.load(s, pointer, element, b.compare("lt", at, s.get(op.end)), 1))
    s.values[op.result] = Beside(by_row, values)


@COMMON.lowers("tile.transform")
def transform(s: State, op: ir.OpView) -> None:
    b, (stored, target), attributes = s.b, elements_of(op), op.operation.attributes
    c = Chunks.of(s, op, thread_of(s), stored, target)
    into: list[Folds] = [s.get(x) for x in op.folds]
    scalars, block = [s.get(x) for x in op.scalars], op.body.blocks[0]
    inputs: list[Beside] = [s.get(x) for x in op.inputs]
    computed = str(ir.TypeAttr(attributes["computed"]).value) if "computed" in attributes else ""
    between = element_spelled(computed) or stored
    factors = c.of_rows(s, op.factors, s.get(op.cursor)) if op.factors is not None else None
    scales = _NewScales.of(s, op, c, between.name) if op.made is not None else None
    inside: list[ir.Value] = []
    if op.inside is not None:
        first = b.mul(c.chunk, c.each)
        inside = [b.compare("lt", b.add(first, i), s.get(op.inside)) for i in range(c.each)]

    def one(first: int, words: list[ir.Value]) -> None:
        """The chunk of a row."""
        number, results = first // c.at_once, []
        by = factor(b, factors, first) if factors is not None else None
        if op.zeros is not None:
            elements = widened(b, s.get(op.zeros).convert(b, words, first, stored.name, "f16"), "f16", c.each)
        else:
            elements = widened(b, words, stored.name, c.each)
        for i, x in enumerate(elements):
            x = x if by is None else b.fmul(x, by)
            read = [y.values[number if y.by_row else i] for y in inputs]
            results.append(scalar.evaluate_all(b, block, [x, *read, *scalars]))
        if computed:
            made = [x.pop(0) for x in results]
            made = [b.select(inside[i], x, 0.0) for i, x in enumerate(made)] if inside else made
            words = _rounded(s, computed, made if scales is None else scales.quantize(b, made, first))
        c.store(b, first, converted(b, words, between.name, target.name))
        for place, fold in enumerate(into):
            held = fold.rows[number]
            value = held.get()
            for i, terms in enumerate(results):
                taken = fold.combine(s, value, terms[place])
                value = b.select(inside[i], taken, value) if inside else taken
            held.set(value)

    def some(firsts: Sequence[int]) -> None:
        loaded = [c.load(b, first) for first in firsts]
        for first, words in zip(firsts, loaded, strict=True):
            one(first, words)

    c.all(b, some, max(1, (WORDS if scales is None else WORDS // 2) * 4 // c.loaded))


@dataclass(frozen=True)
class _NewScales:
    """Scales of what is quantised, found by the adjacent lanes that have a block of a row, a chunk each.

    Attributes:
        type: of the scales; `element`: of what they scale.
        lanes: that have a block; `mine`: whether this one stores its scale.
        place: shared address of the scale of the thread's first row.
    """

    type: str
    element: str
    lanes: int
    mine: ir.Value
    place: ir.Value

    @staticmethod
    def of(s: State, op: ir.OpView, c: Chunks, element: str) -> _NewScales:
        """Those of the cursor's stage."""
        lanes = c.chunks // tile.shape_of(op.made.type)[0]
        mine = s.b.compare("eq", s.b.and_(c.chunk, lanes - 1), 0)
        kind = tile.str_of(op.operation.attributes["scale"])
        return _NewScales(kind, element, lanes, mine, c.of_rows(s, op.made, s.get(op.cursor)))

    def quantize(self, b: Builder, values: list[ir.Value], first: int) -> list[ir.Value]:
        """What is rounded to elements of a row's chunk; stores its scale."""
        largest = b.pure("abs.f32 $0, $1;", b.f32, values[0])
        for x in values[1:]:
            text = "{\n.reg .f32 A;\nabs.f32 A, $2;\nmax.NaN.f32 $0, $1, A;\n}"
            largest = b.pure(text, b.f32, largest, x)
        distance = 1
        while distance < self.lanes:
            other = b.butterfly(largest, distance)
            largest, distance = b.pure("max.NaN.f32 $0, $1, $2;", b.f32, largest, other), 2 * distance
        found = SCALES[self.type](b, largest, self.element)
        scale = found.code if self.type == "f32" else byte_as_f32(b, found.code, 0, self.type)
        b.asm(f"@$2 st.shared.f32 [$0 + {4 * first}], $1;", [], [self.place, scale, self.mine])
        return [b.fmul(x, found.reciprocal) for x in values]


def _rounded(s: State, element: str, values: list[ir.Value]) -> list[ir.Value]:
    """Values rounded to elements, to nearest even, in words."""
    if element == "tf32":
        return [s.b.pure("cvt.rn.tf32.f32 $0, $1;", s.b.i32, x) for x in values]
    each = 32 // rounding.bits_of(element)
    return [rounding.word(s, element, values[i : i + each]) for i in range(0, len(values), each)]


def _of_row(s: State, fold: Folds, held: Variable, chunks: int) -> ir.Value:
    """What the lanes that share a row have together: those next to each other exchange first, so that all get the
    same."""
    value, distance = held.get(), 1
    while distance < chunks:
        other = s.b.butterfly(value, distance)
        value, distance = fold.combine(s, value, other), 2 * distance
    return value


@COMMON.lowers("tile.sum_folds")
def sum_folds(s: State, op: ir.OpView) -> None:
    """A warp has all of its rows' lanes, so it needs no other: its first lane's release and acquire are between what
    all lanes store and load, as the warp meets before and after (PTX ISA 8.9: causality order)."""
    b, fold, (rows, _) = s.b, s.get(op.folds), tile.shape_of(op.target.type)
    chunks, split = tile.swizzle_of(op.target.type) // tile.CHUNK, tile.int_of(op.split)
    thread, at_once = thread_of(s), WARPGROUP // chunks
    row, chunk = place_of(b, thread, chunks)
    number = b.widen(s.get(op.number))
    begin = b.add(b.mul(number, b.constant(tile.int_of(op.words), b.i64)), tile.int_of(op.offset))
    first = b.add(pointer_of(s, op.partials), b.mul(begin, b.constant(4, b.i64)))

    def of_part(part: ir.Value) -> ir.Value:
        """Where a part's fold of the thread's first row is."""
        return b.add(first, b.widen(b.shl(b.add(b.mul(part, rows), row), 2)))

    def inside(i: int) -> ir.Value:
        """Whether row i of the thread's is one of the tile."""
        return b.compare("lt", row, rows - i * at_once)

    mine = of_part(s.get(op.part))
    for i, held in enumerate(fold.rows):
        kept = b.and_(b.compare("eq", chunk, 0), inside(i))
        text = f"@$2 st.global.f32 [$0 + {4 * i * at_once}], $1;"
        b.asm(text, [], [mine, _of_row(s, fold, held, chunks), kept])
    s.values[op.result] = last = _last_of_warps(s, op, number, b.shr(thread, 5))
    with b.when(last):
        for held in fold.rows:
            held.set(fold.empty)
        for part in range(0, split, chunks):
            own = b.add(chunk, part)
            there = [b.and_(b.compare("lt", own, split), inside(i)) for i in range(len(fold.rows))]
            texts = [f"@$2 ld.global.f32 $0, [$1 + {4 * i * at_once}];" for i in range(len(fold.rows))]
            address, nothing = of_part(own), b.constant(fold.empty)
            loaded = [b.asm(t, [b.f32], [address, x, nothing], tied=1) for t, x in zip(texts, there, strict=True)]
            for held, (x,) in zip(fold.rows, loaded, strict=True):
                held.set(fold.combine(s, held.get(), x))


def _last_of_warps(s: State, op: ir.OpView, number: ir.Value, warp: ir.Value) -> ir.Value:
    """Whether a warp is the last of those with its rows' parts. The increment wraps, so that the last one readies the
    counter for the next launch."""
    b, before = s.b, tile.int_of(op.split) - 1
    arrived = b.variable(b.i32, 0)
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    with b.when(b.compare("eq", s.lane, 0)):
        index = b.add(b.mul(number, b.constant(tile.int_of(op.counters_of_tile), b.i64)), tile.int_of(op.counter))
        index = b.add(index, b.widen(warp))
        counter = b.add(pointer_of(s, op.counters), b.mul(index, b.constant(COUNTER_BYTES, b.i64)))
        arrived.set(b.asm(f"atom.acq_rel.gpu.global.inc.u32 $0, [$1], {before};", [b.i32], [counter])[0])
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    of_first = b.asm("shfl.sync.idx.b32 $0, $1, 0, 31, -1;", [b.i32], [arrived.get()])[0]
    return b.compare("eq", of_first, before)


@COMMON.lowers("tile.store_folds")
def store_folds(s: State, op: ir.OpView) -> None:
    b, fold, (rows, _) = s.b, s.get(op.folds), tile.shape_of(op.target.type)
    chunks = tile.swizzle_of(op.target.type) // tile.CHUNK
    row, chunk = place_of(b, thread_of(s), chunks)
    element, at_once = str(op.memory.type.element_type), WARPGROUP // chunks
    scalars = [s.get(x) for x in op.scalars]
    for number, held in enumerate(fold.rows):
        value = _of_row(s, fold, held, chunks)
        value = scalar.evaluate(b, op.body.blocks[0], [value, *scalars], epilogue.functions_of(op))
        own = b.add(row, number * at_once)
        at = b.add(s.get(op.row0), own)
        mine = b.and_(b.compare("eq", chunk, 0), b.compare("lt", at, s.get(op.row_end)))
        if rows < (number + 1) * at_once:
            mine = b.and_(mine, b.compare("lt", own, rows))
        address = epilogue.address_of(s, s.get(op.memory), b.mul(b.widen(at), s.get(op.stride)), element)
        if element == "f32":
            b.asm("@$2 st.global.f32 [$0], $1;", [], [address, value, mine])
        else:
            bits = rounding.bits_of(element)
            b.asm(f"@$2 st.global.b{bits} [$0], $1;", [], [address, rounding.one(s, element, value), mine])
