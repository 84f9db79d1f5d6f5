"""Columns of an accumulator that are reduced."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.schedule import LANES
from scalec.lowering import functions, scalar
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.both import Both
from scalec.lowering.common.epilogue import (
    PIECE,
    Place,
    Reader,
    functions_of,
    has_rows,
    in_runs,
    places,
    places_of,
    reader_of,
    readers_of,
)
from scalec.lowering.common.state import COMMON, Fragment, State

_COMBINED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda b, x, y: b.fadd(x, y),
    "max": functions.maximum,
    "min": functions.minimum,
}

_QUAD = (1, 2)
"""Distances at which the four lanes that share a row exchange."""

_LARGEST, _SMALLEST = 2.0**16, 2.0**-100
"""Of factors that are multiplied to a result instead of its terms: what a term loses where it is subnormal then stays
far below the least normal number, and the product of several factors is as exact as they are."""


@COMMON.lowers("tile.fold_columns")
def fold_columns(s: State, op: ir.OpView) -> None:
    reduce(s, op, Both(s.b))


@COMMON.lowers("tile.read_ahead")
def read_ahead(s: State, op: ir.OpView) -> None:
    reader, fragment = reader_of(s, op.input), s.get(op.accumulator)
    waves, kept = [], []
    count, size, lanes = len(fragment.waves), tile.int_of(op.size), fragment.lanes
    for wave in range(count):
        if "folded" in op.operation.attributes:
            columns = tile.folded_columns(fragment.columns, size)
            live = fragment.columns // size
            one = "joined" in op.operation.attributes and live <= LANES and not lanes
            groups = list(places(s, op, wave, count, columns, live, one, lanes))
        else:
            groups = _groups(s, op, fragment, wave)
        if s.run is not None and reader.kind == "col":  # these stay in registers for all tiles of a run
            kept.append(_kept(s, op, reader, wave, groups))
            waves.append(_pairs(kept[-1]))
        else:
            read = reader.of_wave(wave)
            waves.append([read(g, place) for g, place in groups])
    s.values[op.result] = Held(waves, kept)


def _kept(s: State, op: ir.OpView, reader: Reader, wave: int, groups: Sequence[tuple[int, Place]]) -> list[Variable]:
    """Values of the two columns of each place of a wave, which are read once a run."""
    b, read = s.b, reader.of_wave(wave)
    return s.once_a_run(
        (op.result, wave), lambda: [b.variable(v.type, v) for g, place in groups for v in read(g, place)[:2]]
    )


def _pairs(made: list[Variable]) -> list[list[ir.Value]]:
    """What variables hold of the two columns of each group."""
    return [[v.get() for v in made[i : i + 2]] * 2 for i in range(0, len(made), 2)]


@COMMON.lowers("tile.reaches")
def reaches(s: State, op: ir.OpView) -> None:
    """The ends, read once a run; then two comparisons a tile."""
    b, rows = s.b, tile.ints_of(op.tile)[0] * tile.ints_of(op.cluster)[0]
    first = b.mul(b.div(s.get(op.m0), rows), rows)
    ends = ends_of(s, op)

    low, high = (v.get() for v in s.once_a_run(op.result, lambda: [b.variable(b.i32, x) for x in ends()]))
    above, below = b.compare("slt", first, high), b.compare("slt", low, b.add(first, rows))
    s.values[op.result] = b.and_(above, below)


def ends_of(s: State, op: ir.OpView) -> Callable[[], list[ir.Value]]:
    """What reads the least of the lower ends of the cluster's columns, and the largest of the upper ones."""
    b, columns = s.b, tile.ints_of(op.tile)[1] * tile.ints_of(op.cluster)[1]
    across, last = b.mul(b.div(s.get(op.n0), columns), columns), b.sub(s.get(op.n), 1)
    attributes, inputs = op.operation.attributes, iter(op.bounds)

    def end(name: str, nearest: str) -> ir.Value:
        if name in attributes:
            return b.constant(tile.int_of(attributes[name]))
        reader = reader_of(s, next(inputs))
        if reader.kind == "scalar":
            return reader.scalar()[0]
        found = [reader.column(b.min(b.add(across, i), last)) for i in range(columns)]
        return functools.reduce(lambda x, y: b.op(nearest, [b.i32], [x, y]), found)

    return lambda: [end("low", "arith.minsi"), end("high", "arith.maxsi")]


@COMMON.lowers("tile.rows_held")
def rows_held(s: State, op: ir.OpView) -> None:
    s.values[op.result] = RowsHeld([[v for v in s.get(x).rows for _ in (0, 1)] for x in op.factors])


@dataclass(frozen=True)
class Held:
    """An input whose values are in registers, those of each wave by groups of columns. `kept`: what has them where they
    stay there for a run: what is computed of them once a run reads them where it is."""

    waves: list[list[list[ir.Value]]]
    kept: list[list[Variable]] = field(default_factory=list)

    def now(self) -> list[list[list[ir.Value]]]:
        """What `waves` are, read here."""
        return [_pairs(made) for made in self.kept] if self.kept else self.waves

    @property
    def integers(self) -> bool:
        """Whether they are i32."""
        return str(self.waves[0][0][0].type) == "i32"

    def of_wave(self, wave: int) -> Callable[[int, Any], list[ir.Value]]:
        """What reads a wave's values."""
        return lambda group, _: self.waves[wave][group]

    def once(self, _place: Any) -> None:
        """Nothing is loaded."""


@dataclass(frozen=True)
class RowsHeld:
    """Likewise of one that has a value for each row: those of each wave, the same in all groups."""

    waves: list[list[ir.Value]]

    integers = False

    def of_wave(self, wave: int) -> Callable[[int, Any], list[ir.Value]]:
        return lambda _group, _place: self.waves[wave]

    def once(self, _place: Any) -> None:
        """Nothing is loaded."""


def _groups(s: State, op: ir.OpView, fragment: Fragment, wave: int) -> list[tuple[int, Place]]:
    """The places of a wave, in blocks of columns that are folded into one."""
    return list(in_runs(s, places_of(s, op, fragment, wave), tile.int_of(op.size), fragment.group))


def reduce(s: State, op: ir.OpView, pairs: Any) -> None:
    """A thread reduces what it has of a row's block; then the four lanes of the row exchange, and each keeps what it
    has of a row of the smaller accumulator: of each eight columns two. `pairs` computes two adjacent columns: where
    they are max(x, 0) * w and x is known to be finite or no number, every `doubled`-th pair as (x + |x|) * w / 2, as
    sums go where products do, maxima where integers do, and both work at the same time; 0: none. Of tiles that a queue
    deals out the other two thirds are summed apart: one sum of all of them is a longer chain than the terms take."""
    if "apart" in op.operation.attributes:
        s.values[op.result] = [_Wave(s, op, pairs, wave).totals() for wave in range(len(s.get(op.accumulator).waves))]
        return
    b, given, size = s.b, s.get(op.accumulator), tile.int_of(op.size)
    combined, (_, columns) = _COMBINED[tile.str_of(op.kind)], tile.shape_of(op.result.type)
    lane, blocks, waves = b.and_(s.lane, 3), given.columns // size, []
    for wave in range(len(given.waves)):
        own = _Wave(s, op, pairs, wave).totals()
        made: list[Any] = [None] * (columns // 2)
        for half in (0, 1):
            totals = [_across(b, combined, own[half, i].get()) for i in range(blocks)]
            for group in range(columns // 8):
                for i in (0, 1):
                    share = [totals[c] for c in range(8 * group + i, 8 * group + 8, 2) if c < blocks]
                    value = share[0] if share else b.constant(0.0)
                    for j, other in enumerate(share[1:], 1):
                        value = b.select(b.compare("eq", lane, j), other, value)
                    made[4 * group + 2 * half + i] = b.variable(b.f32, value)
        waves.append(made)
    s.values[op.result] = Fragment(waves, columns, live=blocks)


Totals = dict[tuple[int, int], Variable]
"""What a thread has of a wave: by which of its two rows, and block of columns."""


@COMMON.lowers("tile.at_most")
def at_most(s: State, op: ir.OpView) -> None:
    b, limit, held = s.b, ir.FloatAttr(op.limit).value, s.get(op.input)
    count = len(dict.fromkeys(v for wave in held.waves for of in wave for v in of))
    each = "abs.f32 A, ${};\nsetp.le.and.f32 P, A, " + _hex(limit) + ", P;"
    lines = [each.format(i) for i in range(1, 1 + count)]
    vote = ["vote.sync.all.pred P, P, 0xFFFFFFFF;", "selp.b32 $0, 1, 0, P;"]
    text = "\n".join(["{", ".reg .pred P;", ".reg .f32 A;", "setp.eq.b32 P, 0, 0;", *lines, *vote, "}"])

    def small() -> list[Variable]:
        values = dict.fromkeys(v for wave in held.now() for of in wave for v in of)
        return [b.variable(b.i32, b.asm(text, [b.i32], list(values))[0])]

    s.values[op.result] = b.compare("ne", s.once_a_run(op.result, small)[0].get(), 0)


@COMMON.lowers("tile.join_folds")
def join_folds(s: State, op: ir.OpView) -> None:
    b, combined, waves = s.b, _COMBINED[tile.str_of(op.kind)], []
    shares: list[list[Totals]] = [s.get(x) for x in op.shares]
    if tile.str_of(op.result.type.space) == "lane":  # each lane has all of its row
        row = [total for (own,) in shares for total in own.values()]
        made = row + [b.variable(b.f32, 0.0)] * (len(row) % 2)
        s.values[op.result] = Fragment([made], tile.shape_of(op.result.type)[1], live=len(row), lanes=True)
        return
    count = sum(len(share[0]) // 2 for share in shares)
    one, (_, columns) = count <= LANES, tile.shape_of(op.result.type)
    for wave in zip(*shares, strict=True):
        made = [b.variable(b.f32, 0.0) for _ in range(columns // 2)]
        for half in (0, 1):
            row = [own[half, i].get() for own in wave for i in range(len(own) // 2)]
            places = {(0, i) if one else (i // 8 * 4 + i % 2, i % 8 // 2): value for i, value in enumerate(row)}
            for register, value in _dealt(s, combined, places).items():
                made[register + 2 * half].set(value)
        waves.append(made)
    s.values[op.result] = Fragment(waves, columns, live=count, one=one)


def _dealt(s: State, combined: Callable[..., ir.Value], places: dict[tuple[int, int], ir.Value]) -> dict[int, ir.Value]:
    """By register, what the four lanes of a row come to of the column whose place is this register of this lane. Of two
    lanes each sends what is the other's, in the order of `_across`."""
    b = s.b
    for distance in _QUAD:
        odd, made = b.compare("ne", b.and_(s.lane, distance), 0), {}
        for register, lane in dict.fromkeys((r, q & ~distance) for r, q in places):
            mine, other = (places.get((register, q)) for q in (lane, lane | distance))
            kept = sent = mine if other is None else other
            if mine is not None and other is not None:
                kept, sent = b.select(odd, other, mine), b.select(odd, mine, other)
            made[register, lane] = _exchanged(b, combined, kept, sent, distance)
        places = made
    return {register: value for (register, _), value in places.items()}


Factors = Sequence[Sequence[ir.Value]] | None
"""Of each of a thread's two rows, what sums are multiplied by before anything is computed of them."""


@dataclass
class _Sums:
    """What terms come to so far: by row and block; those of `doubled` pairs twice, and of every third group apart."""

    totals: dict[tuple[int, int], Any]
    doubled: dict[tuple[int, int], Any] = field(default_factory=dict)
    apart: dict[tuple[int, int], Any] = field(default_factory=dict)


class _Wave:
    """The terms of a wave, added up in each thread."""

    def __init__(self, s: State, op: ir.OpView, pairs: Any, wave: int) -> None:
        self._s, self._op, self._pairs, self._kind = s, op, pairs, tile.str_of(op.kind)
        fragment = self._fragment = s.get(op.accumulator)
        self._registers, self._groups = fragment.waves[wave], _groups(s, op, fragment, wave)
        self._halves = (0,) if fragment.lanes else (0, 1)
        self._readers = readers_of(s, op)
        self._reads = [r.of_wave(wave) for r in self._readers]
        self._factors = [reader_of(s, v).of_wave(wave) for v in op.factors]
        self._inside = has_rows(s, op, len(fragment.waves)) if "piecewise" in op.operation.attributes else None
        self._size = tile.int_of(op.size) // fragment.group
        checked = op.sure is not None or len(op.factors) > 0
        self._thirds = self._kind == "sum" and s.dealt and fragment.lanes
        self._doubles = pairs.doubled and checked and self._kind == "sum" and _of_relus(op.body.blocks[0])

    def totals(self) -> Totals:
        """Where there are factors, they are multiplied to what the terms without them come to; where that may not be
        the same, for a factor is negative or no number, say, terms are computed once more. A warp does so where one of
        its rows asks for it, but each row keeps what it would have beside any others (`_own`)."""
        b, place = self._s.b, self._groups[0]
        if not self._factors:
            return self._reduced(None)[0]
        values = [factor(*place) for factor in self._factors]
        of_rows = [[x[2 * half] for x in values] for half in self._halves]
        products = [functools.reduce(b.fmul, x) for x in of_rows]
        if self._op.sure is not None:
            return self._chosen(products, of_rows)
        (totals,), applied = self._reduced(None), [b.variable(b.f32, x) for x in products]
        fine = self._same(products, [v.get() for v in totals.values()])
        with b.when(b.compare("eq", fine, 0)):
            for key, value in self._reduced(of_rows)[0].items():
                totals[key].set(self._own(totals[key], value, products[key[0]]))
            for factor in applied:
                factor.set(1.0)
        for (half, _), total in totals.items():
            total.set(b.fmul(total.get(), applied[half].get()))
        return totals

    def _chosen(self, products: Sequence[ir.Value], of_rows: Sequence[Sequence[ir.Value]]) -> Totals:
        """Where the factors alone decide: the sums are then read once, on either way, and terms take their places."""
        s, b, sure = self._s, self._s.b, self._s.get(self._op.sure)
        asked = [sure] if self._fragment.lanes else []  # else it would be another instruction before the branch
        key = ("factors", *products, *asked)
        if key not in s.values:
            s.values[key] = self._same(products, [], *asked)
        made = {key: b.variable(b.f32) for key in self._keys(self._groups)}

        def fast() -> None:
            with self._pairs.branch():
                for (half, i), total in self._reduced(None)[0].items():
                    made[half, i].set(b.fmul(total.get(), products[half]))

        def slow() -> None:
            with self._pairs.branch():
                without, written = self._reduced(None, of_rows)
                for key, total in written.items():
                    made[key].set(self._own(without[key], total, products[key[0]]))

        fine = b.compare("ne", s.values[key], 0)
        b.either(fine if asked else b.and_(fine, sure), fast, slow)
        return made

    def _own(self, without: Variable, written: Variable, factor: ir.Value) -> ir.Value:
        """What a row's terms come to whatever other rows of the warp have: those without the factor, times that, where
        that is the same, as `_same` asks it of all; else those that are computed as the program says."""
        b, low, bits = self._s.b, _bits(self._lowest), self._s.b.bits
        fine = b.compare("le", b.sub(bits(factor), low), _bits(_LARGEST) - low)
        finite = b.compare("lt", b.and_(bits(without.get()), 0x7FFFFFFF), _bits(math.inf))
        return b.select(b.and_(fine, finite), b.fmul(without.get(), factor), written.get())

    @property
    def _lowest(self) -> float:
        """The smallest factor that may leave the terms."""
        return _SMALLEST if len(self._factors) > 1 else 0.0

    def _same(self, factors: Sequence[ir.Value], totals: Sequence[ir.Value], *more: ir.Value) -> ir.Value:
        """Whether the factors of all of a warp's rows may be multiplied to what its terms come to, 1 or 0; not where
        any of `more` is 0."""
        low = self._lowest
        # bits of f32 from 0 on are in order, and those of negative numbers, and of NaN, are larger: one comparison
        lines, count = ["mov.b32 B, 0;"], 1 + len(factors)
        for i in range(1, count):
            lines += [f"sub.u32 C, ${i}, {_bits(low)};", "max.u32 B, B, C;"]
        lines += [f"setp.le.u32 P, B, {_bits(_LARGEST) - _bits(low)};"]
        for i in range(count, count + len(totals)):
            lines += [f"abs.f32 A, ${i};", f"setp.lt.and.f32 P, A, {_hex(math.inf)}, P;"]
        lines += [f"and.pred P, P, ${count + len(totals) + i};" for i in range(len(more))]
        lines += ["vote.sync.all.pred P, P, 0xFFFFFFFF;", "selp.b32 $0, 1, 0, P;"]
        text = "{\n.reg .pred P;\n.reg .f32 A;\n.reg .b32 B, C;\n" + "\n".join(lines) + "\n}"
        bits = [self._s.b.bits(x) for x in factors]
        return self._s.b.asm(text, [self._s.b.i32], [*bits, *totals, *more])[0]

    def _reduced(self, *choices: Factors) -> list[Totals]:
        """What the terms come to, for each choice of factors of rows that sums are multiplied by, if any."""
        b = self._s.b
        keys = self._keys(self._groups)
        found = [{key: [b.variable(b.f32) for _ in (0, 1)] for key in keys} for _ in choices]
        if self._inside is None:
            self._add(self._groups, found, set(), choices)
        else:  # what all pieces use stands before the branches
            for r in self._readers:
                r.once(self._groups[0][1])
            begun: set[tuple[int, int]] = set()
            for first in range(0, len(self._groups), PIECE):
                piece = self._groups[first : first + PIECE]
                with b.when(self._inside):
                    self._add(piece, found, begun, choices)
                begun |= set(self._keys(piece))
        combined = _COMBINED[self._kind]
        return [
            {key: b.variable(b.f32, combined(b, *(v.get() for v in both))) for key, both in own.items()}
            for own in found
        ]

    def _keys(self, groups: Sequence[tuple[int, Place]]) -> list[tuple[int, int]]:
        return list(dict.fromkeys((half, g // self._size) for g, _ in groups for half in self._halves))

    def _add(
        self,
        groups: Sequence[tuple[int, Place]],
        found: Sequence[dict[tuple[int, int], list[Variable]]],
        begun: set[tuple[int, int]],
        choices: Sequence[Factors],
    ) -> None:
        """Takes the terms of some columns into what is `found`: even and odd columns by themselves. Each column's sum
        is read once, whatever the choices are: it need not outlive its terms."""
        pairs, keys = self._pairs, self._keys(groups)
        made = [_Sums({k: pairs.of(own[k]) for k in keys if k in begun}) for own in found]
        for sums, factors in zip(made, choices, strict=True):
            if self._op.start is not None and self._kind == "sum" and factors is None:
                start = pairs.pair((self._s.get(self._op.start),) * 2)
                sums.totals = dict.fromkeys(keys, start) | sums.totals
        for g, place in groups:
            inputs = [read(g, place) for read in self._reads]
            for sums, factors in zip(made, choices, strict=True):
                self._take(sums, g, inputs, factors)
        for own, sums in zip(found, made, strict=True):
            totals = sums.totals
            for key, total in sums.apart.items():
                totals[key] = pairs.fadd(total, totals[key]) if key in totals else total
            for key, total in sums.doubled.items():
                totals[key] = pairs.fma(total, pairs.constant(0.5), totals[key]) if key in totals else total
            for key, total in totals.items():
                for v, value in zip(own[key], total.values, strict=True):
                    v.set(value)

    def _take(self, sums: _Sums, g: int, inputs: Sequence[Any], factors: Factors) -> None:
        """Takes the terms of a group of columns into sums."""
        pairs = self._pairs
        twice = bool(self._doubles) and factors is None and g % pairs.doubled == pairs.doubled // 2
        into = sums.totals
        if twice:
            into = sums.doubled
        elif self._thirds and factors is None and g % 3 == 2:
            into = sums.apart
        for half in self._halves:
            own = slice(2 * half, 2 * half + 2)
            x, key = pairs.of(self._fragment.of_group(self._registers, g)[own]), (half, g // self._size)
            for factor in factors[half] if factors is not None else ():
                x = pairs.fmul(x, pairs.pair((factor,) * 2))
            arguments = [x, *(pairs.pair(tuple(v[own])) for v in inputs)]
            term = scalar.evaluate_product(pairs, self._op.body.blocks[0], arguments, functions_of(self._op))
            into[key] = self._taken(into.get(key), [pairs.twice_relu(x), *term[1:]] if twice else term)

    def _taken(self, total: Any, term: Sequence[Any]) -> Any:
        """A term, or the two factors of one, taken into what there is."""
        pairs = self._pairs
        if total is not None and len(term) == 2 and self._kind == "sum":
            return pairs.fma(*term, total)
        value = term[0] if len(term) == 1 else pairs.fmul(*term)
        return value if total is None else _COMBINED[self._kind](pairs, total, value)


def _of_relus(block: ir.Block) -> bool:
    """Whether a body is max(x, 0) of the sum x, or that times something that is read."""
    *steps, last = (op for op in block.operations if op.operation.name != "arith.constant")
    made: Any = block.arguments[0]
    for name, op in zip(("arith.maximumf", "arith.mulf"), steps, strict=False):
        others = [v for v in op.operation.operands if v != made]
        if op.operation.name != name or made not in op.operation.operands or len(others) != 1:
            return False
        if name == "arith.maximumf" and not _zero(others[0]):
            return False
        made = op.result
    return 1 <= len(steps) <= 2 and list(last.operation.operands) == [made]


def _zero(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.constant" and owner.opview.literal_value == 0.0


def _hex(value: float) -> str:
    """An f32 as PTX writes it."""
    return f"0f{_bits(value):08X}"


def _bits(value: float) -> int:
    """Those of an f32."""
    return int.from_bytes(struct.pack(">f", value))


def _across(b: Builder, combined: Callable[..., ir.Value], total: ir.Value) -> ir.Value:
    """What the four lanes of a row come to, in all of them."""
    for distance in _QUAD:
        total = _exchanged(b, combined, total, total, distance)
    return total


def _exchanged(
    b: Builder, combined: Callable[..., ir.Value], kept: ir.Value, sent: ir.Value, distance: int
) -> ir.Value:
    """What a lane keeps, and what another sends."""
    other = b.butterfly(sent, distance)
    return combined(b, kept, other)
