"""Quantised results: the scales of blocks of columns, found and stored by the threads that hold the sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any

from scalec.formats import ELEMENT_TYPES, element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common.block_scales import BOUNDED, SCALES, Found
from scalec.lowering.common.epilogue import Place, places
from scalec.lowering.common.gather import placed
from scalec.lowering.common.meeting_rows import ctas_of, meet
from scalec.lowering.common.parts import BARRIER
from scalec.lowering.common.state import COMMON, State
from scalec.targets import WAVES

_LARGEST = (2 - 2**-23) * 2.0**127  # f32
_WAVE = WAVES["warp"]
_QUAD = 4  # lanes that hold the columns of a row (PTX ISA 9.7.14.5.8)
_WORD = 4  # blocks of a row whose scales stand together in the layouts "blocked" and "packed"
_TILE_ROWS, _TILE_BYTES = 128, 512  # of a tile of the layout "blocked"
_LANE_ROWS, _LANE_BYTES = 32, 16  # rows of it that are 16 bytes apart


def address_of_scale(
    s: State, op: ir.OpView, base: ir.Value, row: ir.Value, block: ir.Value, extent: ir.Value
) -> ir.Value:
    """Address of the scale of a row's block (both i32), in the layout (scalec.formats.Granularity); blocks run along so
    many elements."""
    place = ScalePlace(tile.str_of(op.layout), tile.str_of(op.scale), s.get(op.stride))
    return place.address(s.b, base, row, block, lambda: s.b.ceildiv(extent, tile.int_of(op.block)))


@dataclass(frozen=True)
class ScalePlace:
    """Where scales of a type lie in a layout, with the stride that is not 1."""

    layout: str
    kind: str
    stride: ir.Value | int

    def address(
        self, b: Builder, base: ir.Value, row: ir.Value, block: ir.Value, blocks: Callable[[], ir.Value | int]
    ) -> ir.Value:
        """Of the scale of a row's block, of so many `blocks`."""
        layout, stride = self.layout, self.stride
        size = b.constant(ELEMENT_TYPES[self.kind].bits // 8, b.i64)
        row_, block_ = b.widen(row), b.widen(block)
        if layout == "row":
            return b.add(base, b.mul(b.add(b.mul(row_, stride), block_), size))
        if layout == "col":
            return b.add(base, b.mul(b.add(b.mul(block_, stride), row_), size))
        word, byte = b.widen(b.div(block, _WORD)), b.widen(b.and_(block, _WORD - 1))
        if layout == "packed":
            return b.add(b.add(base, b.mul(b.add(b.mul(word, stride), row_), b.constant(_WORD, b.i64))), byte)
        words = b.widen(b.ceildiv(blocks(), _WORD))
        tiles = b.add(b.mul(b.widen(b.div(row, _TILE_ROWS)), words), word)
        inside = b.add(b.mul(b.and_(row, _LANE_ROWS - 1), _LANE_BYTES), b.mul(b.and_(b.div(row, _LANE_ROWS), 3), _WORD))
        return b.add(b.add(b.add(base, b.mul(tiles, b.constant(_TILE_BYTES, b.i64))), b.widen(inside)), byte)


def _address(s: State, op: ir.OpView, base: ir.Value, row: ir.Value, block: ir.Value) -> ir.Value:
    """Where blocks run along a row's columns, or a column's rows, or around gaps."""
    b, extent = s.b, s.get(op.m if tile.int_of(op.by_rows) else op.n)
    row = b.add(row, s.get(op.moved[0])) if len(op.moved) else row
    size, ctas = tile.int_of(op.block), ctas_of(op)
    if tile.gaps_of(op) is not None:
        extent = b.mul(b.add(_around(s, op, b.sub(b.ceildiv(extent, size * ctas), 1)), 1), size)
    elif ctas > 1:
        extent = b.ceildiv(extent, ctas)
    return address_of_scale(s, op, base, row, block, extent)


def _around(s: State, op: ir.OpView, block: ir.Value) -> ir.Value:
    """Where the scale of a block goes, of all blocks of a row: around gaps, if there are any."""
    b, gaps = s.b, tile.gaps_of(op)
    if gaps is None:
        return block
    size, every, phase = gaps
    return b.add(block, b.mul(b.div(b.add(block, phase), every), size))


@COMMON.lowers("tile.quantize")
def quantize(s: State, op: ir.OpView) -> None:
    if tile.int_of(op.by_rows):
        _quantize_rows(s, op)
    elif tile.int_of(op.block) < s.geometry.permuted:
        _quantize_halves(s, op)
    else:
        _quantize_columns(s, op)


@dataclass(frozen=True)
class _Stretch:
    """What eight lanes hold of a column: rows of the waves of a block, or of one wave of a higher block."""

    place: Place  # of the first wave; `which`: of its two columns
    which: int
    values: Values  # a thread's
    mine: ir.Value  # whether this lane is the one of the eight that stores, which take turns
    largest: ir.Value  # the largest magnitude of what the eight have


def _quantize_rows(s: State, op: ir.OpView) -> None:
    """Eight lanes hold a column's rows of a wave, two each: they exchange their largest, of all waves of a block, and
    one of them stores its scale, by turns. Where a block is higher than a warp's rows, warps exchange theirs too, and
    the first of them stores."""
    b, fragment, size = s.b, s.get(op.accumulator), tile.int_of(op.block)
    together = tile.int_of(op.exchange) >= 0
    octet, waves_of_block = b.shr(s.lane, 2), 1 if together else size // _WAVE
    blocks, base = b.ceildiv(s.get(op.m), size), b.integer(s.get(op.target))
    stretches = list(_stretches(s, op, fragment, octet, waves_of_block))
    larger = _of_warps(s, op, stretches, octet) if together else [x.largest for x in stretches]
    for x, largest in zip(stretches, larger, strict=True):
        found, first = scale_of(s, op, largest), b.sub(x.place.row, octet)
        block = b.div(first, size)
        for v, _ in x.values:
            v.set(b.fmul(v.get(), found.reciprocal))
        inside = b.and_(b.and_(x.mine, x.place.column_inside[x.which]), b.compare("lt", block, blocks))
        if together:
            inside = b.and_(inside, b.compare("eq", first, b.mul(block, size)))
        row = x.place.column_to[x.which] if x.place.column_to else b.add(x.place.column, x.which)
        _store(s, op, _address(s, op, base, row, block), found.code, inside)
        if tile.int_of(op.padding):
            with b.when(b.and_(inside, b.compare("ge", b.add(block, 1), blocks))):
                _pad(s, op, base, row, block)


def _stretches(s: State, op: ir.OpView, fragment: Any, octet: ir.Value, count: int) -> Iterator[_Stretch]:
    """Of each column, of `count` waves at a time."""
    b = s.b
    waves = [list(places(s, op, wave, len(fragment.waves), fragment.columns)) for wave in range(len(fragment.waves))]
    for first in range(0, len(waves), count):
        for g, place in waves[first]:
            for i in (0, 1):
                values = [
                    (fragment.waves[wave][4 * g + 2 * half + i], waves[wave][g][1].row_inside[half])
                    for wave in range(first, first + count)
                    for half in (0, 1)
                ]
                largest = _largest(s, op, values)
                for distance in (4, 8, 16):
                    other = b.butterfly(largest, distance)
                    largest = b.pure("max.NaN.f32 $0, $1, $2;", b.f32, largest, other)
                yield _Stretch(place, i, values, b.compare("eq", octet, (2 * g + i) % 8), largest)


def _of_warps(s: State, op: ir.OpView, stretches: list[_Stretch], octet: ir.Value) -> list[ir.Value]:
    """The largest of whole blocks: each warp stores those of its waves, warps that share blocks meet, and each reads a
    block's.

    They meet once a tile: two tiles take turns with two places, so that what the tile before left has another place,
    and what the one before that left has been read by all who have met since.
    """
    b, (rows, columns) = s.b, tile.shape_of(op.accumulator.type)
    height, size = tile.int_of(op.block) // _WAVE, 4 * columns * rows * s.geometry.units[0] // _WAVE
    turn = s.once(("turn", op), lambda: b.variable(b.i32, 0))
    place = b.add(b.add(s.shared, tile.int_of(op.exchange)), b.mul(turn.get(), size))

    def at(x: _Stretch, wave: ir.Value) -> ir.Value:
        """Address of a wave of 16 rows of the tile, of the stretch's column."""
        column = b.add(b.sub(x.place.column, s.get(op.n0)), x.which)
        return b.add(place, b.shl(b.add(b.mul(wave, columns), column), 2))

    def wave_of(x: _Stretch) -> ir.Value:
        return b.div(b.sub(b.sub(x.place.row, octet), s.get(op.m0)), _WAVE)

    for x in stretches:
        b.asm("@$2 st.shared.f32 [$0], $1;", [], [at(x, wave_of(x)), x.largest, x.mine])
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    warps = s.geometry.warps  # of a unit: adjacent ones share a block, or any of all units
    sharing = warps * prod(s.geometry.units) if warps % height else height
    group = b.div(b.sub(s.warp, s.first_warp), sharing)
    b.asm("bar.sync $0, $1;", [], [b.add(group, BARRIER + 1), b.constant(32 * sharing)])
    turn.set(b.xor(turn.get(), 1))
    made = []
    for x in stretches:
        first = at(x, b.mul(b.div(wave_of(x), height), height))
        found = b.asm("ld.shared.f32 $0, [$1];", [b.f32], [first])[0]
        for i in range(1, height):
            other = b.asm(f"ld.shared.f32 $0, [$1 + {4 * columns * i}];", [b.f32], [first])[0]
            found = b.pure("max.NaN.f32 $0, $1, $2;", b.f32, found, other)
        made.append(found)
    return made


def _quantize_columns(s: State, op: ir.OpView) -> None:
    """Four lanes hold a row's columns. They exchange their largest so that each ends with blocks of its own, whose
    scales it finds and stores, `together` adjacent ones at once; the others get the reciprocals from it."""
    b, fragment = s.b, s.get(op.accumulator)
    size, together, exchange = (tile.int_of(x) for x in (op.block, op.together, op.exchange))
    ctas = ctas_of(op)
    blocks = b.ceildiv(s.get(op.n), size * ctas)
    base = b.integer(s.get(op.target))
    waves = [list(places(s, op, wave, len(fragment.waves), fragment.columns)) for wave in range(len(fragment.waves))]
    shares = list(_shares(s, op, fragment, waves))
    found = [[_dealt(s, [_largest(s, op, values) for values in owned]) for owned in x.blocks] for x in shares]
    if ctas > 1:
        shares = [replace(x, block=b.div(x.block, ctas)) for x in shares]
        mine = [b.compare("lt", _in_quad(s), x.lanes) for x in shares]
        met = meet(s, op, [(x.row, own, sends) for x, (own,), sends in zip(shares, found, mine, strict=True)])
        found = [[x] for x in met]
    elif exchange >= 0:
        found = _exchanged(s, op, shares, found)
    for share, largest in zip(shares, found, strict=True):
        codes = []
        for owned, own in zip(share.blocks, largest, strict=True):
            scale = scale_of(s, op, own)
            codes.append(scale.code)
            for lane, values in enumerate(owned):
                reciprocal = _of_lane(s, scale.reciprocal, lane)
                for v, _ in values:
                    v.set(b.fmul(v.get(), reciprocal))
        within = b.compare("lt", share.block, blocks)
        row, stored = _stored(s, op, share.row)
        inside = b.and_(within, stored)
        if share.lanes < _QUAD:
            inside = b.and_(inside, b.compare("lt", _in_quad(s), share.lanes))
        if exchange >= 0:
            inside = b.and_(inside, b.compare("eq", _unit_in_block(s, op), 0))
        if ctas > 1:
            inside = b.and_(inside, b.compare("eq", s.rank, 0))
        place = _around(s, op, share.block)
        _store(s, op, _address(s, op, base, row, place), _word(s, op, codes, share.block, blocks), inside)
        if tile.int_of(op.padding) and together < _WORD:
            with b.when(b.and_(inside, b.compare("ge", b.add(share.block, together), blocks))):
                _pad(s, op, base, row, place)


def _stored(s: State, op: ir.OpView, row: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where a row's scales are stored, and whether they are."""
    return placed(s, op, "m", row, s.b.compare("lt", row, s.get(op.m)))


def _quantize_halves(s: State, op: ir.OpView) -> None:
    """Of four lanes two hold a row's columns of a block, the others those of the next, a register full each. Of the two
    rows each of a block's lanes finds the scales of one, and with its like of the next block stores adjacent ones."""
    b, fragment = s.b, s.get(op.accumulator)
    size, together, groups = tile.int_of(op.block), tile.int_of(op.together), s.geometry.permuted // 8
    quad, blocks = _in_quad(s), b.ceildiv(s.get(op.n), size)
    lower, upper = b.and_(quad, 1), b.shr(quad, 1)  # which of its rows, and which of two blocks
    base = b.integer(s.get(op.target))
    for wave, registers in enumerate(fragment.waves):
        across = list(places(s, op, wave, len(fragment.waves), fragment.columns))
        place = across[0][1]
        row, start = b.add(place.row, b.shl(lower, 3)), b.div(b.sub(place.column, s.first_column), size)
        row, inside = _stored(s, op, row)
        for first in range(0, len(across), groups * together):
            codes = []
            for chunk in range(first, first + groups * together, groups):
                rows = [
                    [
                        (registers[4 * g + 2 * half + i], at.column_inside[i])
                        for g, at in across[chunk:][:groups]
                        for i in (0, 1)
                    ]
                    for half in (0, 1)
                ]
                found = scale_of(s, op, _dealt(s, [_largest(s, op, values) for values in rows], (1,)))
                codes.append(found.code)
                for values, reciprocal in zip(rows, _swapped(s, found.reciprocal, lower, 1), strict=True):
                    for v, _ in values:
                        v.set(b.fmul(v.get(), reciprocal))
            block = b.add(start, 8 * first // size)
            if tile.int_of(op.padding):
                codes = [
                    b.select(b.compare("lt", b.add(b.add(block, 2 * i), upper), blocks), code, 0)
                    for i, code in enumerate(codes)
                ]
            block = b.add(block, b.mul(upper, together))
            stored = b.and_(inside, b.compare("lt", block, blocks))
            place = _around(s, op, block)
            _store(s, op, _address(s, op, base, row, place), _alternating(s, codes, upper), stored)
            if tile.int_of(op.padding) and together < _WORD:
                with b.when(b.and_(stored, b.compare("ge", b.add(block, together), blocks))):
                    _pad(s, op, base, row, place)


def _swapped(s: State, own: ir.Value, which: ir.Value, distance: int) -> tuple[ir.Value, ir.Value]:
    """What the lanes with `which` = 0 and 1 have, of two that are `distance` apart: both have both."""
    b = s.b
    other = b.butterfly(own, distance)
    second = b.compare("ne", which, 0)
    return b.select(second, other, own), b.select(second, own, other)


def _alternating(s: State, codes: list[ir.Value], upper: ir.Value) -> ir.Value:
    """Codes of every other block, the others being of the lane two on, to those of as many adjacent ones: the first
    half for the lane whose `upper` is 0."""
    b = s.b
    if len(codes) == 1:
        return codes[0]
    half = len(codes) // 2
    first, last = (
        reduce(b.or_, [b.shl(code, 16 * i) for i, code in enumerate(part)]) for part in (codes[:half], codes[half:])
    )
    second = b.compare("ne", upper, 0)
    kept, given = b.select(second, last, first), b.select(second, first, last)
    other = b.butterfly(given, 2)
    even, odd = b.select(second, other, kept), b.select(second, kept, other)
    return b.or_(even, b.shl(odd, 8))


Values = list[tuple[Any, ir.Value]]
"""What a thread holds of a row in a block, or in its part of one: registers, and whether their columns are inside."""


@dataclass(frozen=True)
class _Share:
    """As many stretches of `together` blocks as lanes share a row, or half as many, dealt out to those lanes.

    Attributes:
        row, block: of the first block of this lane's stretch.
        blocks: for each block of a stretch, every lane's; a lane beyond them has what the one two before it has.
    """

    row: ir.Value
    block: ir.Value
    blocks: list[list[Values]]

    @property
    def lanes(self) -> int:
        """How many have a stretch of their own."""
        return len(self.blocks[0])


def _in_quad(s: State) -> ir.Value:
    return s.b.and_(s.lane, _QUAD - 1)


def _shares(s: State, op: ir.OpView, fragment: Any, waves: list[list[tuple[int, Place]]]) -> Iterator[_Share]:
    """All stretches of a thread: lanes alternate between its two rows, then stretches of a row, then waves."""
    b, quad = s.b, _in_quad(s)
    size, together = tile.int_of(op.block), tile.int_of(op.together)
    groups = min(size, fragment.columns) // 8
    first = waves[0][0][1]
    first_block = b.div(b.sub(first.column, s.first_column), size)

    def values(wave: int, group: int, half: int) -> Values:
        return [
            (fragment.waves[wave][4 * g + 2 * half + i], place.column_inside[i])
            for g, place in waves[wave][group : group + groups]
            for i in (0, 1)
        ]

    def of_lane(upper: int, lower: int) -> ir.Value | int:
        """`lower` for the lanes 0 and 1, `upper` for the others."""
        return b.add(b.mul(b.shr(quad, 1), upper - lower), lower) if upper != lower else lower

    across = len(waves[0]) // groups
    stretches = [(wave, block) for wave in range(len(waves)) for block in range(0, across, together)]
    for i in range(0, len(stretches), _QUAD // 2):
        mine = stretches[i : i + _QUAD // 2]
        wave, block = (of_lane(x, y) for x, y in zip(mine[-1], mine[0], strict=True))
        row = b.add(b.add(first.row, b.shl(b.and_(quad, 1), 3)), b.mul(wave, s.geometry.wave))
        blocks = [
            [values(wave, (block + i) * groups, half) for wave, block in mine for half in (0, 1)]
            for i in range(together)
        ]
        yield _Share(row, b.add(first_block, block), blocks)


def _dealt(s: State, parts: list[ir.Value], distances: tuple[int, ...] = (1, 2)) -> ir.Value:
    """The largest of what four lanes have each of a block: lane i gets that of block i, of two blocks i % 2. Of what
    two lanes have, those at the one distance."""
    b, quad = s.b, _in_quad(s)
    for distance in distances:
        odd = b.compare("ne", b.and_(quad, distance), 0)
        pairs = [(parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)] or [(parts[0], parts[0])]
        parts = []
        for even_, odd_ in pairs:
            kept, given = (even_, odd_) if even_ is odd_ else (b.select(odd, odd_, even_), b.select(odd, even_, odd_))
            other = b.butterfly(given, distance)
            parts.append(b.pure("max.NaN.f32 $0, $1, $2;", b.f32, kept, other))
    return parts[0]


def _of_lane(s: State, value: ir.Value, lane: int) -> ir.Value:
    """What lane `lane` of these four has: segments of four lanes (PTX ISA 9.7.9.6: segment mask 28, clamp 3)."""
    return s.b.asm(f"shfl.sync.idx.b32 $0, $1, {lane}, {(32 - _QUAD) << 8 | _QUAD - 1}, -1;", [s.b.f32], [value])[0]


def scale_of(s: State, op: ir.OpView, largest: ir.Value) -> Found:
    """Of a block; within a scale of the whole result its reciprocal is no larger than the largest number, so that zeros
    stay zeros."""
    b, element, inverse = s.b, element_spelled(str(ir.TypeAttr(op.element).value)), None
    assert element is not None
    for x in op.inverse:
        inverse = s.get(x).source
        largest = b.fmul(largest, b.pure("abs.f32 $0, $1;", b.f32, inverse))
    found = SCALES[tile.str_of(op.scale)](b, largest, element.name)
    if inverse is None:
        return found
    reciprocal = b.fmul(found.reciprocal, inverse)
    if tile.str_of(op.scale) not in BOUNDED:
        for nearer, limit in (("min", _LARGEST), ("max", -_LARGEST)):
            reciprocal = b.pure(f"{nearer}.NaN.f32 $0, $1, $2;", b.f32, reciprocal, b.constant(limit))
    return replace(found, reciprocal=reciprocal)


def _unit_in_block(s: State, op: ir.OpView) -> ir.Value:
    """Which of the units along N that share a block this one is."""
    columns = tile.shape_of(op.accumulator.type)[1]
    return s.b.and_(s.unit(1), tile.int_of(op.block) // columns - 1)


def _exchanged(s: State, op: ir.OpView, shares: list[_Share], largest: list[list[ir.Value]]) -> list[list[ir.Value]]:
    """The largest of blocks that units share: each stores its own, all consumers meet, and each reads the others'.

    They meet before, too: what the tile before left there has then been read by all.
    """
    b, along_n = s.b, s.geometry.units[1]
    sharing = tile.int_of(op.block) // tile.shape_of(op.accumulator.type)[1]
    first = b.sub(s.unit(1), _unit_in_block(s, op))
    meet = f"bar.sync {BARRIER}, {32 * s.geometry.warps * prod(s.geometry.units)};"

    def address(share: _Share, unit: ir.Value | int) -> ir.Value:
        row = b.sub(share.row, s.get(op.m0))
        return b.add(b.add(s.shared, tile.int_of(op.exchange)), b.shl(b.add(b.mul(row, along_n), unit), 2))

    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    b.asm(meet)
    for share, (own,) in zip(shares, largest, strict=True):
        mine = b.compare("lt", _in_quad(s), share.lanes)
        b.asm("@$2 st.shared.f32 [$0], $1;", [], [address(share, s.unit(1)), own, mine])
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    b.asm(meet)
    made = []
    for share in shares:
        at = address(share, first)
        found = b.asm("ld.shared.f32 $0, [$1];", [b.f32], [at])[0]
        for unit in range(1, sharing):
            other = b.asm(f"ld.shared.f32 $0, [$1 + {4 * unit}];", [b.f32], [at])[0]
            found = b.pure("max.NaN.f32 $0, $1, $2;", b.f32, found, other)
        made.append([found])
    return made


def _word(s: State, op: ir.OpView, codes: list[ir.Value], block: ir.Value, blocks: ir.Value) -> ir.Value:
    """Scales of adjacent blocks as they lie in memory, those behind the last block 0."""
    b, word = s.b, codes[0]
    for i, code in enumerate(codes[1:], 1):
        if tile.int_of(op.padding):
            code = b.select(b.compare("lt", b.add(block, i), blocks), code, 0)
        word = b.or_(word, b.shl(code, 8 * i))
    return word


def _largest(s: State, op: ir.OpView, values: Values) -> ir.Value:
    """The largest magnitude of what this thread holds of a row in a block, NaN where one is."""
    b, zero = s.b, s.b.constant(0.0)
    first, *others = [b.select(inside, v.get(), zero) if tile.int_of(op.ragged) else v.get() for v, inside in values]
    largest = b.pure("abs.f32 $0, $1;", b.f32, first)
    for x in others:
        largest = b.pure("{\n.reg .f32 A;\nabs.f32 A, $2;\nmax.NaN.f32 $0, $1, A;\n}", b.f32, largest, x)
    return largest


def _store(s: State, op: ir.OpView, address: ir.Value, code: ir.Value, inside: ir.Value) -> None:
    width = "f32" if tile.str_of(op.scale) == "f32" else f"b{8 * tile.int_of(op.together)}"
    s.b.asm(f"@$2 st.global.{width} [$0], $1;", [], [address, code, inside])


def _pad(s: State, op: ir.OpView, base: ir.Value, row: ir.Value, block: ir.Value) -> None:
    """Zeros behind the row's last scales, those of `block` and what is stored with it, up to the end of their word."""
    store_padding(s, block, tile.int_of(op.together), lambda following: _address(s, op, base, row, following))


def store_padding(s: State, block: ir.Value, together: int, address: Callable[[ir.Value], ir.Value]) -> None:
    """Zeros behind `block` and what is stored `together` with it, up to the end of the word."""
    b, zero = s.b, s.b.constant(0)
    for beyond in range(together, _WORD):
        following = b.add(block, beyond)
        same_word = b.compare("eq", b.div(following, _WORD), b.div(block, _WORD))
        b.asm("@$2 st.global.b8 [$0], $1;", [], [address(following), zero, same_word])
