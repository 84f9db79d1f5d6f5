"""Quantised results: the scales of blocks of columns, found and stored by the threads that hold the sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from scalec.formats import ELEMENT_TYPES, element_spelled
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common.epilogue import Place, places
from scalec.lowering.common.parts import BARRIER
from scalec.lowering.common.state import COMMON, State
from scalec.targets import WAVES

_INFINITY, _NAN = 0x7F800000, 0x7FFFFFFF
_MANTISSA = 23
# exponent of the largest number of an element type (OCP MX 1.0, section 6.3: emax_elem)
_EMAX = {"e4m3": 8, "e5m2": 15, "e2m1": 2}
_WAVE = WAVES["warp"]
_QUAD = 4  # lanes that hold the columns of a row (PTX ISA 9.7.14.5.8)
_WORD = 4  # blocks of a row whose scales stand together in the layouts "blocked" and "packed"
_TILE_ROWS, _TILE_BYTES = 128, 512  # of a tile of the layout "blocked"
_LANE_ROWS, _LANE_BYTES = 32, 16  # rows of it that are 16 bytes apart


@dataclass(frozen=True)
class Found:
    """A block's scale as it is stored (in `code`, i32 or f32), and what its values are multiplied by."""

    code: ir.Value
    reciprocal: ir.Value


def _pure(b: Builder, text: str, result: ir.Type, *operands: Any) -> ir.Value:
    return b.asm(text, [result], operands, volatile=False, memory=False)[0]


def _bits(b: Builder, x: ir.Value) -> ir.Value:
    return b.op("llvm.bitcast", [b.i32], [x])


def _float(b: Builder, x: ir.Value) -> ir.Value:
    return b.op("llvm.bitcast", [b.f32], [x])


def _reciprocal(b: Builder, x: ir.Value) -> ir.Value:
    return _pure(b, "rcp.rn.f32 $0, $1;", b.f32, x)


def _ue8m0(b: Builder, amax: ir.Value, element: str) -> Found:
    """2^(floor(log2 amax) - emax): the biased exponents are those of f32; infinity takes 2^127, NaN the code 255.

    The reciprocal of 2^(code - 127) has the biased exponent 254 - code; that of 2^127 is a subnormal f32.
    """
    bits = _bits(b, amax)
    code = _pure(b, "max.s32 $0, $1, 0;", b.i32, b.sub(b.shr(bits, _MANTISSA), _EMAX[element]))
    finite, nan = b.compare("lt", bits, _INFINITY), b.compare("gt", bits, _INFINITY)
    code = b.select(finite, code, b.select(nan, b.constant(255), 254))
    other = b.select(nan, b.constant(_NAN), 1 << (_MANTISSA - 1))
    inverse = b.select(finite, b.shl(b.sub(b.constant(254), code), _MANTISSA), other)
    return Found(code, _float(b, inverse))


def _ue4m3(b: Builder, amax: ir.Value, element: str) -> Found:
    """amax / largest, rounded; the quotient must fall on the same side of ties of e4m3 as the exact one.

    A tie times the largest number has 8 bits or fewer, so an amax that is no such product is further from it than half
    a unit in the last place, and the correctly rounded quotient is no tie.
    """
    largest = b.constant(ELEMENT_TYPES[element].max)
    quotient = b.op("arith.divf", [b.f32], [amax, largest])
    zero = b.constant(0.0)
    text = "{\n.reg .b16 P;\ncvt.rn.satfinite.e4m3x2.f32 P, $2, $1;\ncvt.u32.u16 $0, P;\n}"
    code = _pure(b, text, b.i32, quotient, zero)
    text = (
        "{\n.reg .b16 P, H, L;\n.reg .b32 W;\ncvt.u16.u32 P, $1;\ncvt.rn.f16x2.e4m3x2 W, P;\n"
        "mov.b32 {L, H}, W;\ncvt.f32.f16 $0, L;\n}"
    )
    value = _pure(b, text, b.f32, code)
    inverse = b.select(b.compare("eq", _bits(b, value), 0), zero, _reciprocal(b, value))
    return Found(code, inverse)


def _f32(b: Builder, amax: ir.Value, element: str) -> Found:
    """amax / largest, at least 2^-126 so that its reciprocal is finite, and 1 for a block of zeros."""
    quotient = b.op("arith.divf", [b.f32], [amax, b.constant(ELEMENT_TYPES[element].max)])
    quotient = _pure(b, "max.NaN.f32 $0, $1, $2;", b.f32, quotient, _float(b, b.constant(1 << _MANTISSA)))
    none = b.compare("eq", _bits(b, amax), 0)
    scale = b.select(none, b.constant(1.0), quotient)
    return Found(scale, _reciprocal(b, scale))


_SCALES = {"ue8m0": _ue8m0, "ue4m3": _ue4m3, "f32": _f32}


def _address(s: State, op: ir.OpView, base: ir.Value, row: ir.Value, block: ir.Value) -> ir.Value:
    """Address of the scale of a row's block (both i32), in the layout (scalec.formats.Granularity)."""
    b, layout = s.b, tile.str_of(op.layout)
    size = b.constant(ELEMENT_TYPES[tile.str_of(op.scale)].bits // 8, b.i64)
    stride, row_, block_ = s.get(op.stride), b.widen(row), b.widen(block)
    if layout == "row":
        return b.add(base, b.mul(b.add(b.mul(row_, stride), block_), size))
    if layout == "col":
        return b.add(base, b.mul(b.add(b.mul(block_, stride), row_), size))
    word, byte = b.widen(b.div(block, _WORD)), b.widen(b.and_(block, _WORD - 1))
    if layout == "packed":
        return b.add(b.add(base, b.mul(b.add(b.mul(word, stride), row_), b.constant(_WORD, b.i64))), byte)
    words = b.widen(b.ceildiv(b.ceildiv(s.get(_extent(op)), tile.int_of(op.block)), _WORD))
    tiles = b.add(b.mul(b.widen(b.div(row, _TILE_ROWS)), words), word)
    inside = b.add(b.mul(b.and_(row, _LANE_ROWS - 1), _LANE_BYTES), b.mul(b.and_(b.div(row, _LANE_ROWS), 3), _WORD))
    return b.add(b.add(b.add(base, b.mul(tiles, b.constant(_TILE_BYTES, b.i64))), b.widen(inside)), byte)


def _extent(op: ir.OpView) -> ir.Value:
    """What blocks run along: a row's columns, or a column's rows."""
    return op.m if tile.int_of(op.by_rows) else op.n


@COMMON.lowers("tile.quantize")
def quantize(s: State, op: ir.OpView) -> None:
    (_quantize_rows if tile.int_of(op.by_rows) else _quantize_columns)(s, op)


def _quantize_rows(s: State, op: ir.OpView) -> None:
    """Eight lanes hold a column's rows of a wave, two each: they exchange their largest, of all waves of a block, and
    one of them stores its scale, by turns."""
    b, fragment, size = s.b, s.get(op.accumulator), tile.int_of(op.block)
    stretch, octet = size // _WAVE, b.shr(s.lane, 2)
    blocks, base = b.ceildiv(s.get(op.m), size), b.op("llvm.ptrtoint", [b.i64], [s.get(op.target)])
    waves = [list(places(s, op, wave, len(fragment.waves), fragment.columns)) for wave in range(len(fragment.waves))]
    for first in range(0, len(waves), stretch):
        for g, place in waves[first]:
            block = b.div(b.sub(place.row, octet), size)
            for i in (0, 1):
                values = [
                    (fragment.waves[wave][4 * g + 2 * half + i], waves[wave][g][1].row_inside[half])
                    for wave in range(first, first + stretch)
                    for half in (0, 1)
                ]
                found = _scale(s, op, _largest(s, op, values, (4, 8, 16)))
                for v, _ in values:
                    v.set(b.fmul(v.get(), found.reciprocal))
                mine = b.and_(b.compare("eq", octet, (2 * g + i) % 8), place.column_inside[i])
                inside, row = b.and_(mine, b.compare("lt", block, blocks)), b.add(place.column, i)
                _store(s, op, _address(s, op, base, row, block), found.code, inside)
                if tile.int_of(op.padding):
                    with b.when(b.and_(inside, b.compare("ge", b.add(block, 1), blocks))):
                        _pad(s, op, base, row, block)


def _quantize_columns(s: State, op: ir.OpView) -> None:
    """Four lanes hold a row's columns, two of each eight: they exchange their largest, and one of them stores the
    scales of `together` blocks. Two rows of a thread, and stretches of blocks, go to different lanes."""
    b, fragment = s.b, s.get(op.accumulator)
    size, together, exchange = (tile.int_of(x) for x in (op.block, op.together, op.exchange))
    groups = min(size, fragment.columns) // 8
    blocks, quad = b.ceildiv(s.get(op.n), size), b.and_(s.lane, _QUAD - 1)
    base = b.op("llvm.ptrtoint", [b.i64], [s.get(op.target)])
    waves = [list(places(s, op, wave, len(fragment.waves), fragment.columns)) for wave in range(len(fragment.waves))]
    parts = list(_parts(fragment, waves, groups))
    largest = {part.key: _largest(s, op, part.values) for part in parts} if exchange >= 0 else {}
    if exchange >= 0:
        largest = _exchanged(s, op, parts, largest)
    codes: dict[tuple[int, int, int], ir.Value] = {}
    for part in parts:
        found = _scale(s, op, largest[part.key] if largest else _largest(s, op, part.values))
        for v, _ in part.values:
            v.set(b.fmul(v.get(), found.reciprocal))
        codes[part.key] = found.code
        wave, first, half = part.key
        last = first + groups
        if last % (groups * together):
            continue
        stretch, start = last // (groups * together) - 1, waves[wave][last - groups * together][1]
        block = b.div(b.sub(start.column, b.shl(quad, 1)), size)
        mine = b.compare("eq", quad, (2 * stretch + half) % _QUAD)
        if exchange >= 0:
            mine = b.and_(mine, b.compare("eq", _unit_in_block(s, op), 0))
        inside = b.and_(b.and_(mine, b.compare("lt", block, blocks)), start.row_inside[half])
        row = b.add(start.row, 8 * half)
        word = [codes[wave, last - groups * (together - i), half] for i in range(together)]
        _store(s, op, _address(s, op, base, row, block), _word(s, op, word, block, blocks), inside)
        if tile.int_of(op.padding) and together < _WORD:
            with b.when(b.and_(inside, b.compare("ge", b.add(block, together), blocks))):
                _pad(s, op, base, row, block)


@dataclass(frozen=True)
class _Part:
    """What a thread holds of a row in a block, or in its part of one: (wave, first group of 8 columns, half), its
    registers with whether their columns are inside, and where it is."""

    key: tuple[int, int, int]
    values: list[tuple[Any, ir.Value]]
    place: Place


def _parts(fragment: Any, waves: list[list[tuple[int, Place]]], groups: int) -> Iterator[_Part]:
    """In the order of columns, both rows of each."""
    for wave, (registers, found) in enumerate(zip(fragment.waves, waves, strict=True)):
        for first in range(0, len(found), groups):
            for half in (0, 1):
                values = [
                    (registers[4 * g + 2 * half + i], place.column_inside[i])
                    for g, place in found[first : first + groups]
                    for i in (0, 1)
                ]
                yield _Part((wave, first, half), values, found[first][1])


def _scale(s: State, op: ir.OpView, largest: ir.Value) -> Found:
    element = element_spelled(str(ir.TypeAttr(op.element).value))
    assert element is not None
    return _SCALES[tile.str_of(op.scale)](s.b, largest, element.name)


def _unit_in_block(s: State, op: ir.OpView) -> ir.Value:
    """Which of the units along N that share a block this one is."""
    columns = tile.shape_of(op.accumulator.type)[1]
    return s.b.and_(s.unit(1), tile.int_of(op.block) // columns - 1)


def _exchanged(
    s: State, op: ir.OpView, parts: list[_Part], own: dict[tuple[int, int, int], ir.Value]
) -> dict[tuple[int, int, int], ir.Value]:
    """The largest of blocks that units share: each stores its own, all consumers meet, and each reads the others'.

    They meet before, too: what the tile before left there has then been read by all.
    """
    b, along_n = s.b, s.geometry.units[1]
    sharing = tile.int_of(op.block) // tile.shape_of(op.accumulator.type)[1]
    first = b.sub(s.unit(1), _unit_in_block(s, op))
    meet = f"bar.sync {BARRIER}, {32 * s.geometry.warps * prod(s.geometry.units)};"

    def address(part: _Part, unit: ir.Value | int) -> ir.Value:
        row = b.add(b.sub(part.place.row, s.get(op.m0)), 8 * part.key[2])
        return b.add(b.add(s.shared, tile.int_of(op.exchange)), b.shl(b.add(b.mul(row, along_n), unit), 2))

    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    b.asm(meet)
    leader = b.compare("eq", b.and_(s.lane, _QUAD - 1), 0)
    for part in parts:
        b.asm("@$2 st.shared.f32 [$0], $1;", [], [address(part, s.unit(1)), own[part.key], leader])
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    b.asm(meet)
    made = {}
    for part in parts:
        at = address(part, first)
        largest = b.asm("ld.shared.f32 $0, [$1];", [b.f32], [at])[0]
        for unit in range(1, sharing):
            other = b.asm(f"ld.shared.f32 $0, [$1 + {4 * unit}];", [b.f32], [at])[0]
            largest = _pure(b, "max.NaN.f32 $0, $1, $2;", b.f32, largest, other)
        made[part.key] = largest
    return made


def _word(s: State, op: ir.OpView, codes: list[ir.Value], block: ir.Value, blocks: ir.Value) -> ir.Value:
    """Scales of adjacent blocks as they lie in memory, those behind the last block 0."""
    b, word = s.b, codes[0]
    for i, code in enumerate(codes[1:], 1):
        if tile.int_of(op.padding):
            code = b.select(b.compare("lt", b.add(block, i), blocks), code, 0)
        word = b.or_(word, b.shl(code, 8 * i))
    return word


def _largest(
    s: State, op: ir.OpView, values: list[tuple[Any, ir.Value]], distances: tuple[int, ...] = (1, 2)
) -> ir.Value:
    """The largest magnitude of a block, NaN where one is: each lane's own, then that of those in `distances`."""
    b, zero = s.b, s.b.constant(0.0)
    first, *others = [b.select(inside, v.get(), zero) if tile.int_of(op.ragged) else v.get() for v, inside in values]
    largest = _pure(b, "abs.f32 $0, $1;", b.f32, first)
    for x in others:
        largest = _pure(b, "{\n.reg .f32 A;\nabs.f32 A, $2;\nmax.NaN.f32 $0, $1, A;\n}", b.f32, largest, x)
    for distance in distances:
        other = b.asm(f"shfl.sync.bfly.b32 $0, $1, {distance}, 31, -1;", [b.f32], [largest])[0]
        largest = _pure(b, "max.NaN.f32 $0, $1, $2;", b.f32, largest, other)
    return largest


def _store(s: State, op: ir.OpView, address: ir.Value, code: ir.Value, inside: ir.Value) -> None:
    width = "f32" if tile.str_of(op.scale) == "f32" else f"b{8 * tile.int_of(op.together)}"
    s.b.asm(f"@$2 st.global.{width} [$0], $1;", [], [address, code, inside])


def _pad(s: State, op: ir.OpView, base: ir.Value, row: ir.Value, block: ir.Value) -> None:
    """Zeros behind the row's last scales, those of `block` and what is stored with it, up to the end of their word."""
    b, zero = s.b, s.b.constant(0)
    for beyond in range(tile.int_of(op.together), _WORD):
        following = b.add(block, beyond)
        same_word = b.compare("eq", b.div(following, _WORD), b.div(block, _WORD))
        b.asm("@$2 st.global.b8 [$0], $1;", [], [_address(s, op, base, row, following), zero, same_word])
