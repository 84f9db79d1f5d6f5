"""Operands that are computed, or reduced along K, on their way: element by element in f32.

Threads have the chunks of 16 bytes that they have where elements are only converted (convert.py). What reduces a row
lies in the lanes that share it: each takes terms in the order of K, and in the end the lanes take each other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

from scalec.formats import element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_convert import rows_of_thread
from scalec.lowering import scalar
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common import epilogue, global_elements, rounding
from scalec.lowering.common.block_scales import SCALES
from scalec.lowering.common.convert import Chunks, elements_of, factor, place_of
from scalec.lowering.common.copies import widened as byte_as_f32
from scalec.lowering.common.elements import converted, widened
from scalec.lowering.common.parts import pointer_of
from scalec.lowering.common.pointwise import REDUCTIONS
from scalec.lowering.common.state import COMMON, State, thread_of
from scalec.meetings import COUNTER_BYTES
from scalec.targets import WARPGROUP

QUARTERS = 4
"""Lanes that share a row of a fragment."""

WARPS = 4
"""Of a warpgroup, whose fragments have 16 rows of a wave each."""

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


@dataclass(frozen=True)
class Shared:
    """How threads share the rows of a tile (`scalec.ir.tile_convert.rows_shared`).

    Attributes:
        rows: of the tile.
        full: whether each thread's rows are all rows of the tile.
        first, behind: a thread's first row, and how far behind it each of its rows is.
        lanes, lane: how many lanes next to each other share a row, and which of these this one is.
        warp: number of the warp among those that have rows.
    """

    rows: int
    full: bool
    first: ir.Value
    behind: tuple[int, ...]
    lanes: int
    lane: ir.Value
    warp: ir.Value

    @staticmethod
    def of(s: State, op: ir.OpView) -> Shared:
        """That of an op's `target`."""
        b, (rows, _), attributes = s.b, tile.shape_of(op.target.type), op.operation.attributes
        if "waves" in attributes:
            waves, wave = tile.int_of(attributes["waves"]), s.geometry.wave
            first = b.add(b.mul(s.unit(0), waves * wave), s.row_in_wave)
            behind = tuple(i * wave + j for i in range(waves) for j in (0, wave // 2 // WARPS))
            warp = b.add(b.mul(s.unit(0), WARPS), s.warp_in_unit)
            return Shared(rows, True, first, behind, QUARTERS, b.and_(s.lane, QUARTERS - 1), warp)
        thread, lanes = thread_of(s), tile.swizzle_of(op.target.type) // tile.CHUNK
        first, lane = place_of(b, thread, lanes)
        behind = tuple(i * WARPGROUP // lanes for i in range(rows_of_thread(rows, lanes * tile.CHUNK)))
        return Shared(rows, rows % (WARPGROUP // lanes) == 0, first, behind, lanes, lane, b.shr(thread, 5))

    def inside(self, b: Builder, i: int) -> list[ir.Value]:
        """Whether row i of the thread's is one of the tile, where some are not."""
        return [] if self.full else [b.compare("lt", self.first, self.rows - self.behind[i])]

    def whole(self, s: State, fold: Folds, held: Variable) -> ir.Value:
        """What the lanes that share a row have together: those next to each other exchange first, so that all get the
        same."""
        value, distance = held.get(), 1
        while distance < self.lanes:
            other = s.b.butterfly(value, distance)
            value, distance = fold.combine(s, value, other), 2 * distance
        return value


@COMMON.lowers("tile.folds")
def folds(s: State, op: ir.OpView) -> None:
    kind = tile.str_of(op.kind)
    empty = Folds(kind, []).empty
    rows = [s.b.variable(s.b.f32, empty) for _ in range(tile.int_of(op.result.type.count))]
    s.values[op.result] = Folds(kind, rows)


@dataclass(frozen=True)
class Beside:
    """What belongs to the elements of a thread: to each of its rows, or to each of a chunk; and where the next ones
    are, if they are loaded ahead."""

    by_row: bool
    values: list[ir.Value]
    ahead: list[Variable] = field(default_factory=list)


@COMMON.lowers("tile.beside")
def beside(s: State, op: ir.OpView) -> None:
    b, element = s.b, str(op.memory.type.element_type)
    by_row, shared = tile.str_of(op.along) == "rows", Shared.of(s, op)
    own, behind = (shared.first, shared.behind) if by_row else along_k(s, op, shared)
    at, end, values = b.add(s.get(op.first), own), s.get(op.end), []
    there = b.select(b.compare("lt", at, end), b.sub(end, at), 0)  # compared with a number; addresses take another
    for i in behind:
        index = b.mul(b.add(b.widen(at), i), s.get(op.stride))
        address = global_elements.address_of(s, s.get(op.memory), index, element)
        pointer = b.op("llvm.inttoptr", [ir.Type.parse("!llvm.ptr<1>")], [address])
        values += epilogue.numbers(
            s, global_elements.load(s, pointer, element, b.compare("lt", b.constant(i), there), 1)
        )
    if op.ahead is not None:
        held = s.get(op.ahead).ahead
        values, loaded = [x.get() for x in held], values
        for x, value in zip(held, loaded, strict=True):
            x.set(value)
        s.values[op.result] = Beside(by_row, values, held)
        return
    ahead = [b.variable(b.f32, x) for x in values] if "made" in op.operation.attributes else []
    s.values[op.result] = Beside(by_row, values, ahead)


def along_k(s: State, op: ir.OpView, shared: Shared) -> tuple[ir.Value, Sequence[int]]:
    """A thread's first element of K, and how far behind it each of its elements is: those of a chunk, or of all
    fragments' rows of A, of each chunk a register's (PTX ISA 9.7.15.5.1.1)."""
    bits, attributes = tile.bits_of(tile.element_of(op.target.type)), op.operation.attributes
    if "made" not in attributes:
        each = 8 * tile.CHUNK // bits
        return s.b.mul(shared.lane, each), range(each)
    made = tile.bits_of(ir.TypeAttr(attributes["made"]).value)
    each, chunk, depth = 32 // made, 8 * tile.CHUNK // made, tile.int_of(attributes["depth"])
    return s.b.mul(shared.lane, each), [i + j for i in range(0, depth, chunk) for j in range(each)]


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
            made = computed_of(b, results, inside)
            words = rounded(s, computed, made if scales is None else scales.quantize(b, made, first))
        c.store(b, first, converted(b, words, between.name, target.name))
        take_terms(s, into, number, results, inside)

    def some(firsts: Sequence[int]) -> None:
        loaded = [c.load(b, first) for first in firsts]
        for first, words in zip(firsts, loaded, strict=True):
            one(first, words)

    c.all(b, some, max(1, (WORDS if scales is None else WORDS // 2) * 4 // c.loaded))


def computed_of(b: Builder, results: list[list[ir.Value]], inside: list[ir.Value]) -> list[ir.Value]:
    """What is multiplied of each element, taken from the front of what bodies yield: 0 of those that there are not."""
    made = [x.pop(0) for x in results]
    return [b.select(inside[i], x, 0.0) for i, x in enumerate(made)] if inside else made


def take_terms(s: State, into: list[Folds], row: int, results: list[list[ir.Value]], inside: list[ir.Value]) -> None:
    """Takes the terms of the elements of a thread's row into its folds, those of elements that there are."""
    for place, fold in enumerate(into):
        held = fold.rows[row]
        value = held.get()
        for i, terms in enumerate(results):
            taken = fold.combine(s, value, terms[place])
            value = s.b.select(inside[i], taken, value) if inside else taken
        held.set(value)


@dataclass(frozen=True)
class _NewScales:
    """Scales of what is quantised, found by the adjacent lanes that have a block of a row, a chunk each."""

    type: str  # of the scales; `element`: of what they scale
    element: str
    lanes: int  # that have a block; `mine`: whether this one stores its scale
    mine: ir.Value
    place: ir.Value  # shared address of the scale of the thread's first row

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


def rounded(s: State, element: str, values: list[ir.Value]) -> list[ir.Value]:
    """Values rounded to elements, to nearest even, in words."""
    if element == "tf32":
        return [s.b.pure("cvt.rn.tf32.f32 $0, $1;", s.b.i32, x) for x in values]
    each = 32 // rounding.bits_of(element)
    return [rounding.word(s, element, values[i : i + each]) for i in range(0, len(values), each)]


@COMMON.lowers("tile.sum_folds")
def sum_folds(s: State, op: ir.OpView) -> None:
    """A warp has all of its rows' lanes, so it needs no other: its first lane's release and acquire are between what
    all lanes store and load, as the warp meets before and after (PTX ISA 8.9: causality order)."""
    b, fold, shared, split = s.b, s.get(op.folds), Shared.of(s, op), tile.int_of(op.split)
    number = b.widen(s.get(op.number))
    begin = b.add(b.mul(number, b.constant(tile.int_of(op.words), b.i64)), tile.int_of(op.offset))
    first = b.add(pointer_of(s, op.partials), b.mul(begin, b.constant(4, b.i64)))

    def of_part(part: ir.Value) -> ir.Value:
        """Where a part's fold of the thread's first row is."""
        return b.add(first, b.widen(b.shl(b.add(b.mul(part, shared.rows), shared.first), 2)))

    def where(i: int, condition: ir.Value) -> ir.Value:
        """Whether that holds, and row i of the thread's is one of the tile."""
        return reduce(b.and_, [condition, *shared.inside(b, i)])

    mine = of_part(s.get(op.part))
    for i, held in enumerate(fold.rows):
        kept = where(i, b.compare("eq", shared.lane, 0))
        text = f"@$2 st.global.f32 [$0 + {4 * shared.behind[i]}], $1;"
        b.asm(text, [], [mine, shared.whole(s, fold, held), kept])
    s.values[op.result] = last = _last_of_warps(s, op, number, shared.warp)
    with b.when(last):
        for held in fold.rows:
            held.set(fold.empty)
        for part in range(0, split, shared.lanes):
            own = b.add(shared.lane, part)
            there = [where(i, b.compare("lt", own, split)) for i in range(len(fold.rows))]
            texts = [f"@$2 ld.global.f32 $0, [$1 + {4 * i}];" for i in shared.behind]
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
    b, fold, shared = s.b, s.get(op.folds), Shared.of(s, op)
    element, scalars = str(op.memory.type.element_type), [s.get(x) for x in op.scalars]
    for i, held in enumerate(fold.rows):
        value = shared.whole(s, fold, held)
        value = scalar.evaluate(b, op.body.blocks[0], [value, *scalars], epilogue.functions_of(op))
        at = b.add(s.get(op.row0), b.add(shared.first, shared.behind[i]))
        mine = b.and_(b.compare("eq", shared.lane, 0), b.compare("lt", at, s.get(op.row_end)))
        mine = reduce(b.and_, [mine, *shared.inside(b, i)])
        for skip in op.skips:
            _, mine = s.get(skip).at(b, at, mine)
        address = global_elements.address_of(s, s.get(op.memory), b.mul(b.widen(at), s.get(op.stride)), element)
        if element == "f32":
            b.asm("@$2 st.global.f32 [$0], $1;", [], [address, value, mine])
        else:
            bits = rounding.bits_of(element)
            b.asm(f"@$2 st.global.b{bits} [$0], $1;", [], [address, rounding.one(s, element, value), mine])
