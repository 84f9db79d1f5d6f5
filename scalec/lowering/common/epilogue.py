"""From accumulators to results: the elementwise body, with what it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from scalec.formats import ELEMENT_TYPES
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.schedule import LANES
from scalec.ir.tile_checks import maker
from scalec.lowering import scalar
from scalec.lowering.builder import Builder
from scalec.lowering.common import elements
from scalec.lowering.common.gather import RowIndex, goes_to, placed
from scalec.lowering.common.global_elements import around, load, load_behind
from scalec.lowering.common.state import COMMON, Fragment, State
from scalec.lowering.common.words import held


@dataclass(frozen=True)
class Input:
    """An epilogue input: pointer (or, for a scalar parameter, the value) and how `tile.input` says to read it: axes,
    each with its stride, and what is looked up for some of them."""

    source: ir.Value
    element: str
    kind: str
    axes: list[tuple[tuple[int, int, int], ir.Value | int]]
    pair: bool
    value: bool
    lookups: dict[int, RowIndex] = field(default_factory=dict)
    gaps: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """Two rows by two columns of this thread: rows `row` and `row` + 8, columns `column` and the next; and where
    the rows, or the columns, are stored, if not there. Of a thread that has one row, the first alone.

    `run`: where its columns are some of a block of adjacent ones, the block.
    """

    row: ir.Value
    column: ir.Value
    row_inside: tuple[ir.Value, ...]
    column_inside: tuple[ir.Value, ir.Value]
    row_to: tuple[ir.Value, ...] | None = None
    column_to: tuple[ir.Value, ir.Value] | None = None
    run: Run | None = None


@dataclass(frozen=True)
class Run:
    """A block of `size` adjacent columns, which begins at a multiple of these and is within a tensor or beyond its end
    as a whole: the number of the block in the tile, a thread's first column there, and how far behind it a place is."""

    number: int
    first: ir.Value
    distance: int
    size: int


@COMMON.lowers("tile.input")
def input_(s: State, op: ir.OpView) -> None:
    source_type = op.source.type
    scalar_value = str(source_type) == "f32"
    element = "f32" if scalar_value else str(source_type.element_type)
    axes = list(zip(tile.axes_of(op), (s.get(stride) for stride in op.strides), strict=True))
    kind, pair = tile.str_of(op.kind), bool(tile.int_of(op.pair))
    s.values[op.result] = Input(s.get(op.source), element, kind, axes, pair, scalar_value, gaps=tile.gaps_in(op))


def _not_known(b: Builder, rows: ir.Value | int) -> ir.Value | int:
    """How many rows there are. Where these are known to be 8 or fewer, no thread has anything of its second row, and
    ptxas 13.0 takes the sums of wgmma of which half are read for a lack of registers (C7511): it is not told."""
    made = maker(rows, "arith.constant") if isinstance(rows, ir.Value) else None
    known = rows if made is None else made.literal_value
    return held(b, known) if isinstance(known, int) and known <= 8 else rows


def places(
    s: State,
    op: ir.OpView,
    wave: int,
    waves: int,
    columns: int,
    live: int = 0,
    one: bool = False,
    lanes: bool = False,
    apart: int = 0,
) -> Iterator[tuple[int, Place]]:
    """The groups of 8 columns of a wave, with this thread's place in each; what the op skips is not inside, nor what is
    beyond the first `live` columns (0: all mean something). `one`: a thread has a column alone (`Fragment.one`);
    `lanes`: it has a row, and groups are of two columns, none of which is beyond those that mean something. `apart`:
    see Fragment."""
    b = s.b
    m0, n0, m, n = (s.get(v) for v in (op.m0, op.n0, op.m, op.n))
    wave_rows = s.geometry.wave
    if lanes:
        row = b.add(m0, b.add(b.mul(s.unit(0), LANE_ROWS), s.lane))
    else:
        above = b.add(b.mul(s.unit(0), waves * wave_rows), wave * wave_rows)
        row = b.add(m0, b.add(above, s.row_in_wave))

    skips, to = len(getattr(op, "skips", ())), goes_to(s, op)

    def both(
        first: ir.Value, steps: tuple[int, ...], end: ir.Value | int, axis: str
    ) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
        """(whether they are inside, where they go) of the first row or column and the one a step on."""
        made = []
        for i in steps:
            at = b.add(first, i) if i else first
            inside = b.compare("lt", at, end)
            made.append(placed(s, op, axis, at, inside) if skips else (at, inside))
        at, inside = zip(*made, strict=True)
        return inside, at if axis in to else None

    rows_inside, rows_to = both(row, (0,) if lanes else (0, 8), _not_known(b, m), "m")
    first = b.add(n0, b.mul(s.unit(1), live)) if live else n0
    n = b.min(n, b.add(first, live)) if live else n
    own = 0 if lanes else b.and_(s.lane, LANES - 1) if one else s.first_column
    start = b.add(b.add(first, own), 0 if live else b.mul(s.unit(1), apart or columns))
    for g in range(-(-(live or columns) // 2) if lanes else columns // 8):
        column = b.add(start, 2 * g if lanes else s.geometry.column(g))
        columns_inside, columns_to = both(column, (0, 1), n, "n")
        if one:
            columns_inside = (columns_inside[0], b.constant(0, b.i1))
        yield g, Place(row, column, rows_inside, columns_inside, rows_to, columns_to)


def places_of(s: State, op: ir.OpView, fragment: Fragment, wave: int) -> Iterator[tuple[int, Place]]:
    """Those of a wave of the op's accumulator."""
    x = fragment
    return places(s, op, wave, len(x.waves), x.columns, x.live, x.one, x.lanes, x.apart)


LANE_ROWS = 32
"""Rows of a warp whose lanes have one each."""


def in_runs(s: State, groups: Iterable[tuple[int, Place]], size: int, group: int = 8) -> Iterator[tuple[int, Place]]:
    """`places` of columns of which blocks of `size` are runs. Those beyond the end, of which nothing is stored, are as
    those of the tensor's first block."""
    b, groups_of = s.b, size // group
    begin = first = s.first_column if group == 8 else s.b.constant(0)
    if s.geometry.permuted:
        yield from groups
        return
    for g, place in groups:
        if g % groups_of == 0:
            first = b.select(place.column_inside[0], place.column, begin)
        yield g, replace(place, run=Run(g // groups_of, first, g % groups_of * group, size))


Read = Callable[[int, Place], list[ir.Value]]
"""Values of an input in a group of 8 columns of a wave, at a thread's place there."""


class Reader:
    """Values of one input at a thread's places; loads what is invariant once."""

    def __init__(self, s: State, source: Input) -> None:
        self._s, self._in = s, source
        self._once: list[ir.Value] | None = None
        self._found: dict[tuple[int, int], tuple[ir.Value, ir.Value]] = {}
        self._runs: dict[int, ir.Value] = {}

    @property
    def integers(self) -> bool:
        """Whether its values are i32."""
        return self._in.element == "i32" and not self._in.value

    @property
    def kind(self) -> str:
        return self._in.kind

    def pointer(self, row: ir.Value | None, column: ir.Value | None) -> ir.Value:
        """Address of the element at a row and a column; None where it has none."""
        return self._address([(row, column)[which] for (which, _, _), _ in self._in.axes])

    def _address(self, indices: list[ir.Value | None]) -> ir.Value:
        """Address of the element whose axes are indexed by these; None where an axis does not count."""
        b, element = self._s.b, ir.Type.parse(self._in.element)
        index = b.constant(0, b.i64)
        for axis, ((_, divisor, modulus), stride) in enumerate(self._in.axes):
            if (at := indices[axis]) is not None:
                at = b.div(at, divisor)
                at = b.sub(at, b.mul(b.div(at, modulus), modulus)) if modulus else at
                gaps = self._in.gaps[axis] if self._in.gaps and self._in.gaps[axis][0] else None
                index = b.add(index, b.mul(around(b, at, gaps), stride))
        return b.offset(self._in.source, index, element)

    def _located(
        self, half: int, row: tuple[ir.Value, ir.Value] | None, column: tuple[ir.Value, ir.Value] | None
    ) -> tuple[ir.Value, ir.Value]:
        """(address, whether there is one) of the element at a row and a column, each with whether it is inside; None
        where it has none."""
        b, places, indices = self._s.b, (row, column), []
        inside = [place[1] for place in places if place is not None]
        for axis, ((which, _, _), _) in enumerate(self._in.axes):
            place, lookup = places[which], self._in.lookups.get(axis)
            if lookup is not None and place is not None:
                place = self._row(half, axis, *place) if which == 0 else lookup.at(b, *place)
                inside.append(place[1])
            indices.append(None if place is None else place[0])
        every, *others = inside
        for other in others:
            every = b.and_(every, other)
        return self._address(indices), every

    def _row(self, half: int, axis: int, row: ir.Value, inside: ir.Value) -> tuple[ir.Value, ir.Value]:
        """What is looked up for one of the two rows of a wave, loaded once."""
        if (half, axis) not in self._found:
            self._found[half, axis] = self._in.lookups[axis].at(self._s.b, row, inside)
        return self._found[half, axis]

    def of_row(self, row: ir.Value, inside: ir.Value) -> tuple[ir.Value, ir.Value]:
        """(address, whether there is one) of what a row has that is looked up."""
        self._found = {}
        return self._located(0, (row, inside), None)

    def of_wave(self, _wave: int) -> Read:
        """What reads a wave's values: row values of the one before do not hold any more."""
        self._found, self._runs = {}, {}
        if self._in.kind == "row":
            self._once = None
        return lambda _group, place: self.at(place)

    def at(self, place: Place) -> list[ir.Value]:
        """Values at (row, c), (row, c + 1), (row + 8, c), (row + 8, c + 1); those of the first row alone where a thread
        has no other."""
        source = self._in
        if source.value:
            return [source.source] * 4
        if source.kind == "scalar":
            return self.scalar()
        rows = self._rows(place)
        if source.kind == "row":
            if self._once is None:
                made = (self._element(half, row, None) for half, row in enumerate(rows))
                self._once = [value for value in made for _ in (0, 1)]
            return self._once
        if source.kind == "col":
            return (self._columns(0, None, place) if place.run is None else self._in_run(place, place.run)) * 2
        return [v for half, row in enumerate(rows) for v in self._columns(half, row, place)]

    def _rows(self, place: Place) -> list[tuple[ir.Value, ir.Value]]:
        """A place's rows, each with whether it is inside."""
        return [(self._s.b.add(place.row, 8 * i) if i else place.row, x) for i, x in enumerate(place.row_inside)]

    def once(self, place: Place) -> None:
        """Loads what is invariant, if this is: where the other values are read, a branch may stand before them."""
        if self._in.kind == "row" or (self._in.kind == "scalar" and not self._in.value):
            self.at(place)
        elif self._in.kind == "both":
            for axis in self._in.lookups:
                for half, row in enumerate(self._rows(place) if self._in.axes[axis][0][0] == 0 else ()):
                    self._row(half, axis, *row)

    def scalar(self) -> list[ir.Value]:
        """Likewise of one that is the same everywhere."""
        if self._once is None:
            always = self._s.b.constant(1, self._s.b.i1)
            self._once = load(self._s, self.pointer(None, None), self._in.element, always, 1) * 4
        return self._once

    def column(self, column: ir.Value) -> ir.Value:
        """Of one that depends on the column alone: the value at one that is there."""
        return load(self._s, self.pointer(None, column), self._in.element, self._s.b.constant(1, self._s.b.i1), 1)[0]

    def _columns(self, half: int, row: tuple[ir.Value, ir.Value] | None, place: Place) -> list[ir.Value]:
        b = self._s.b
        if self._in.pair:
            pointer, inside = self._located(half, row, (place.column, place.column_inside[0]))
            return load(self._s, pointer, self._in.element, inside, 2)
        columns = ((b.add(place.column, i), place.column_inside[i]) for i in (0, 1))
        return [self._element(half, row, column) for column in columns]

    def _step(self, run: Run) -> int | None:
        """Elements from one column of a run to the next; None where that is not known, or not the same."""
        if self._in.lookups or self._in.gaps:
            return None
        step = 0
        for (_, divisor, modulus), stride in self._in.axes:
            if divisor == 1 and modulus % run.size == 0 and isinstance(stride, int):
                step += stride
            elif divisor % run.size:
                return None
        return step

    def _in_run(self, place: Place, run: Run) -> list[ir.Value]:
        """A place's two columns: at constant distances from where its run begins, if columns lie so."""
        step = self._step(run)
        if step is None:
            return self._columns(0, None, place)
        if run.number not in self._runs:
            self._runs[run.number] = self.pointer(None, run.first)
        element, pointer = self._in.element, self._runs[run.number]
        size = ELEMENT_TYPES[element].bits // 8
        if self._in.pair and step == 1:
            return load_behind(self._s, pointer, element, run.distance * size, 2)
        if not step:
            return load_behind(self._s, pointer, element, 0, 1) * 2
        return [load_behind(self._s, pointer, element, (run.distance + i) * step * size, 1)[0] for i in (0, 1)]

    def _element(
        self, half: int, row: tuple[ir.Value, ir.Value] | None, column: tuple[ir.Value, ir.Value] | None
    ) -> ir.Value:
        pointer, inside = self._located(half, row, column)
        return load(self._s, pointer, self._in.element, inside, 1)[0]


@COMMON.lowers("tile.hold")
def hold(s: State, op: ir.OpView) -> None:
    sources = [s.get(x) for x in op.inputs]
    values = [x.source if x.value else numbers(s, Reader(s, x).scalar())[0] for x in sources]
    value = scalar.evaluate(s.b, op.body.blocks[0], values, scalar.ONCE)
    s.values[op.result] = Input(value, "f32", "scalar", [], pair=False, value=True)


def functions_of(op: ir.OpView) -> dict[str, scalar.Op]:
    if "once" in op.operation.attributes:
        return scalar.ONCE
    return scalar.APPROXIMATE if "approximate" in op.operation.attributes else scalar.OPS


def reader_of(s: State, value: ir.Value) -> Any:
    """What reads an input of an epilogue's body: a Reader, or what has its values in registers."""
    source = s.get(value)
    return Reader(s, source) if isinstance(source, Input) else source


@dataclass(frozen=True)
class Numbers:
    """What a body reads, as f32: integers may be bounds, too, which stay as they are."""

    state: State
    reader: Any

    @property
    def kind(self) -> str:
        return self.reader.kind

    def of_wave(self, wave: int) -> Read:
        """What reads a wave's values."""
        read = self.reader.of_wave(wave)
        return lambda group, place: numbers(self.state, read(group, place))

    def once(self, place: Place) -> None:
        """See Reader.once."""
        self.reader.once(place)


def numbers(s: State, values: list[ir.Value]) -> list[ir.Value]:
    """Values as f32, each made once."""
    made = {x: elements.of_integer(s.b, x) if x.type == s.b.i32 else x for x in dict.fromkeys(values)}
    return [made[x] for x in values]


def readers_of(s: State, op: ir.OpView) -> list[Any]:
    """What an epilogue's body reads beside the accumulator."""
    readers = [reader_of(s, v) for v in op.inputs]
    return [Numbers(s, x) if x.integers else x for x in readers]


@COMMON.lowers("tile.epilogue")
def epilogue(s: State, op: ir.OpView) -> None:
    fragment = s.get(op.accumulator)
    readers = readers_of(s, op)
    pinned = "pinned" in op.operation.attributes
    inside = has_rows(s, op, len(fragment.waves)) if "piecewise" in op.operation.attributes else None
    for wave, registers in enumerate(fragment.waves):
        reads = [r.of_wave(wave) for r in readers]
        groups = places_of(s, op, fragment, wave)
        if inside is None:
            _compute(s, op, fragment, registers, reads, groups, pinned)
            continue
        known = list(groups)  # what all pieces use stands before the branches
        for r in readers:
            r.once(known[0][1])
        for first in range(0, len(known), PIECE):
            with s.b.when(inside):
                _compute(s, op, fragment, registers, reads, known[first : first + PIECE])


def _compute(
    s: State,
    op: ir.OpView,
    fragment: Fragment,
    registers: list[Any],
    reads: list[Read],
    groups: Iterable[tuple[int, Place]],
    pinned: bool = False,
) -> None:
    """The body, of a wave's sums in groups of columns; `pinned`: computed where it stands."""
    functions, body = functions_of(op), op.body.blocks[0]
    for g, place in groups:
        inputs, own = [read(g, place) for read in reads], fragment.of_group(registers, g)
        made = [scalar.evaluate(s.b, body, [v.get(), *(x[i] for x in inputs)], functions) for i, v in enumerate(own)]
        # LLVM else computes them where they are stored, behind branches, and what is read of all boxes takes registers
        for v, x in zip(own, s.b.asm("", [s.b.f32] * len(made), made, tied=len(made)) if pinned else made, strict=True):
            v.set(x)


PIECE = 4
"""Groups of 8 columns that are read together where an epilogue is `piecewise`. ptxas 13.0 moves loads before earlier
ones' use, and beside 128 sums spilled up to 23 registers (fp8_block results that read one or two tensors at m and n,
neither known, sm_100a); a branch keeps it from that, and none of the five spilled."""


def has_rows(s: State, op: ir.OpView, waves: int) -> ir.Value:
    """Whether a unit has rows of the tile: what branches between pieces ask, as its threads agree on it."""
    b = s.b
    first = b.add(s.get(op.m0), b.mul(s.unit(0), waves * s.geometry.wave))
    return b.compare("lt", first, s.get(op.m))


def exchange(s: State, second: ir.Value, distance: int, low: ir.Value, high: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Of two values that two lanes have each, the `low` ones for the first lane, the `high` ones for the `second`: the
    first lane's, then the second's."""
    b = s.b
    kept, sent = b.select(second, high, low), b.select(second, low, high)
    other = b.butterfly(sent, distance)
    return b.select(second, other, kept), b.select(second, kept, other)
