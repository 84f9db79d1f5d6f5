"""Accumulators in registers; scale factors, and promotion: partial sums times their factors, added in FP32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.state import COMMON, Fragment, State, Window, row_swizzle

# ---------------------------------------------------------------------------------------------------------- factors


@dataclass(frozen=True)
class RowFactors:
    """Factors of this thread's two rows."""

    rows: tuple[ir.Value, ir.Value]


@dataclass(frozen=True)
class ColumnFactors:
    """Factors of this thread's columns, in shared memory: address of the first pair."""

    address: ir.Value
    pitch: int  # bytes from a column's factor to the next column's


@dataclass(frozen=True)
class HeldFactors:
    """Factors of this thread's columns, four for each eight columns."""

    values: list[list[ir.Value]]


@dataclass(frozen=True)
class UniformFactors:
    """One factor for each `span` columns (0: one for all)."""

    values: list[ir.Value]
    span: int


@dataclass(frozen=True)
class BlockFactors:
    """One factor for each block of the tensors' columns, of a tile that begins `offset` columns behind the first
    block's: a step of columns is in the block where it would be at an offset of 0, or in the next."""

    values: list[ir.Value]
    offset: ir.Value
    block: int
    step: int

    def at(self, b: Builder, column: int) -> ir.Value:
        """The factor of the step that begins at `column` of the tile."""
        number, behind = divmod(column, self.block)
        if not behind or number + 1 == len(self.values):
            return self.values[number]
        return b.select(b.compare("ge", self.offset, self.block - behind), *reversed(self.values[number : number + 2]))


@COMMON.lowers("tile.fragment")
def fragment(s: State, op: ir.OpView) -> None:
    (rows, columns), lanes = tile.shape_of(op.result.type), tile.str_of(op.result.type.space) == "lane"
    each, count = (columns, 1) if lanes else (columns // 2, rows // s.geometry.wave)
    waves = [[s.b.variable(s.b.f32, 0.0) for _ in range(each)] for _ in range(count)]
    attributes = op.operation.attributes
    live, apart = (tile.int_of(attributes[x]) if x in attributes else 0 for x in ("live", "apart"))
    s.values[op.result] = Fragment(waves, columns, live, lanes=lanes, apart=apart)


@COMMON.lowers("tile.copy_sums")
def copy_sums(s: State, op: ir.OpView) -> None:
    given = s.get(op.accumulator)
    waves = [[s.b.variable(s.b.f32) for _ in wave] for wave in given.waves]
    for mine, theirs in zip(waves, given.waves, strict=True):
        for v, x in zip(mine, theirs, strict=True):
            v.set(x.get())
    s.values[op.result] = Fragment(waves, given.columns)


@COMMON.lowers("tile.clear")
def clear(s: State, op: ir.OpView) -> None:
    """Where two products of wgmma replace the sums in the same registers, and the same expression of these follows
    both, ptxas 13.0 and 13.5 compute it once, of one of them, and drop the other (docs/notes/toolchain.md). So what
    they are added to first are zeros of which ptxas does not know that they are alike."""
    attributes, fragment = op.operation.attributes, s.get(op.accumulator)
    apart = tile.int_of(attributes["apart"]) if "apart" in attributes else fragment.columns
    for wave in fragment.waves:
        each = len(wave) * apart // fragment.columns
        for first in range(0, len(wave), each):
            zero = _zero(s, s.cleared) if "apart" in attributes else 0.0
            s.cleared += 1
            for v in wave[first : first + each]:
                v.set(zero)


def _zero(s: State, number: int) -> ir.Value | float:
    """The first is known; no lane has the highest bit of its lanemask_lt."""
    if not number:
        return 0.0
    text = "{ .reg .b32 T; mov.u32 T, %lanemask_lt; shr.u32 T, T, 31; mul.lo.u32 T, T, $1; mov.b32 $0, T; }"
    return s.b.asm(text, [s.b.f32], [s.b.constant(number)])[0]


@COMMON.lowers("tile.to_f32")
def to_f32(s: State, op: ir.OpView) -> None:
    b = s.b
    for v in (v for wave in s.get(op.accumulator).waves for v in wave):
        v.set(b.op("arith.sitofp", [b.f32], [b.bits(v.get())]))


@COMMON.lowers("tile.row_factors")
def row_factors(s: State, op: ir.OpView) -> None:
    b = s.b
    source, waves, wave = s.get(op.source), tile.int_of(op.waves), tile.int_of(op.wave)
    pitch, behind = _pitch(s, op), _plane(op)
    if "by_turns" in op.operation.attributes:
        waves, wave = 1, wave * s.geometry.units[0]

    def emit() -> ir.Value:
        row = b.add(b.mul(s.unit(0), waves * s.geometry.wave), s.row_in_wave)
        return b.add(source.base, b.mul(row, pitch))

    mine = s.once(("rows", op.source, waves), emit)
    # rows 8 or 64 below have the same swizzle
    base = _factors_at(s, op, mine, lambda: row_swizzle(b, s.row_in_wave))
    above = wave * s.geometry.wave * pitch + behind
    first, second = (_factor(s, b.add(base, above + o))[0] for o in (0, 8 * pitch))  # rows r and r + 8
    s.values[op.result] = RowFactors((first, second))


@COMMON.lowers("tile.column_factors")
def column_factors(s: State, op: ir.OpView) -> None:
    b, source = s.b, s.get(op.source)
    pitch = _pitch(s, op)
    # a thread's first column is a multiple of as many as it has that are adjacent, and groups of those swizzle alike
    own = tile.shape_of(op.source.type)[1 if pitch == 4 else 0]
    own //= s.geometry.units[1]
    first = s.once(("column", own), lambda: b.add(s.first_column, b.mul(s.unit(1), own)))
    mine = s.once(("columns", op.source), lambda: b.add(source.base, b.mul(first, pitch)))
    base = _factors_at(s, op, mine, lambda: row_swizzle(b, first))
    found = ColumnFactors(b.add(base, _plane(op)), pitch)
    held = "held" in op.operation.attributes
    s.values[op.result] = HeldFactors([_of_columns(s, found, g) for g in range(own // 8)]) if held else found


def _factors_at(s: State, op: ir.OpView, first: ir.Value, swizzle: Callable[[], ir.Value]) -> ir.Value:
    """The address `first` of this thread's first factor, moved to the stage or the window's block."""
    source, position = s.get(op.source), s.get(op.position)
    if isinstance(position, Window):
        return source.in_window(s.b, position, first, s.once((op.operation.name, "swizzle"), swizzle))
    return source.at(s.b, position, first)


def _pitch(s: State, op: ir.OpView) -> int:
    """Bytes between the factors of adjacent rows: vectors of them are (planes, rows), a window (rows, K blocks)."""
    _, blocks = tile.shape_of(op.source.type)
    return 4 * blocks if isinstance(s.get(op.position), Window) else 4


def _plane(op: ir.OpView) -> int:
    """Bytes before the vector that is read of a stage's."""
    return 4 * tile.plane_of(op) * tile.shape_of(op.source.type)[1]


@COMMON.lowers("tile.uniform_factors")
def uniform_factors(s: State, op: ir.OpView) -> None:
    first, count = tile.int_of(op.first), tile.int_of(op.count)
    source = s.get(op.source)
    taken = replace(source, registers=source.registers[first : first + count])
    s.values[op.result] = UniformFactors(taken.values(s.b), tile.int_of(op.span))


@COMMON.lowers("tile.block_factors")
def block_factors(s: State, op: ir.OpView) -> None:
    b, block, column0 = s.b, tile.int_of(op.block), s.get(op.column0)
    offset = b.sub(column0, b.mul(b.div(column0, block), block))
    s.values[op.result] = BlockFactors(s.get(op.source).values(b), offset, block, tile.int_of(op.step))


Factors = RowFactors | ColumnFactors | HeldFactors | UniformFactors | BlockFactors


class Products:
    """Factor of each of a group's four accumulators (rows r, r, r + 8, r + 8; columns c, c + 1, c, c + 1)."""

    def __init__(self, s: State, sides: list[Factors]) -> None:
        self._s, self._sides, self._cache = s, sides, {}

    def group(self, g: int) -> list[ir.Value] | None:
        """The factors of columns 8g..8g+7, or None where there are none."""
        if not self._sides:
            return None
        key = self.key(g)
        if key not in self._cache:
            parts = self.factors(g)
            self._cache[key] = parts[0] if len(parts) == 1 else self._multiply(*parts)
        return self._cache[key]

    def key(self, g: int) -> tuple[int, ...]:
        """Groups of one key have the same factors."""
        return tuple(self._key(side, g) for side in self._sides)

    def factors(self, g: int) -> list[list[ir.Value]]:
        """Those of each side, likewise."""
        return [self._factors(side, g) for side in self._sides]

    @staticmethod
    def _key(side: Factors, g: int) -> int:
        if isinstance(side, RowFactors):
            return 0
        if isinstance(side, UniformFactors):
            return 8 * g // side.span if side.span else 0
        if isinstance(side, BlockFactors):
            return 8 * g // side.step
        return g

    def _factors(self, side: Factors, g: int) -> list[ir.Value]:
        b = self._s.b
        if isinstance(side, RowFactors):
            return [side.rows[0], side.rows[0], side.rows[1], side.rows[1]]
        if isinstance(side, UniformFactors):
            return [side.values[self._key(side, g)]] * 4
        if isinstance(side, BlockFactors):
            return [side.at(b, self._key(side, g) * side.step)] * 4
        return side.values[g] if isinstance(side, HeldFactors) else _of_columns(self._s, side, g)

    def _multiply(self, x: list[ir.Value], y: list[ir.Value]) -> list[ir.Value]:
        made: dict[tuple[ir.Value, ir.Value], ir.Value] = {}
        for pair in zip(x, y, strict=True):
            if pair not in made:
                made[pair] = self._s.b.fmul(*pair)
        return [made[pair] for pair in zip(x, y, strict=True)]


def _of_columns(s: State, side: ColumnFactors, g: int) -> list[ir.Value]:
    """Those of columns 8g..8g+7, loaded."""
    b, column, address = s.b, s.geometry.column(g), side.address
    if side.pitch > 4:
        address = b.xor(address, (column >> 2 & 1) << 4)  # a row of the window's: `row_swizzle`
    first = b.add(address, side.pitch * column)
    if side.pitch > 4:
        return [_factor(s, b.add(first, i * side.pitch))[0] for i in (0, 1)] * 2
    return _factor(s, first, 2) * 2


def _factor(s: State, address: ir.Value, count: int = 1) -> list[ir.Value]:
    """One or two of a stage, for the last of which `tile.release` waits. They stay in order, but on sm_100a, where LLVM
    makes one load of several: of 1x128 by 1x128 the loop has 382 stall counts, in order 665 (ptxas 13.0)."""
    return s.b.take(address, count, ordered=not s.target.mma[0].kind.tensor_memory)


@COMMON.lowers("tile.promote")
def promote(s: State, op: ir.OpView) -> None:
    b, products = s.b, products_of(s, op)
    attributes = op.operation.attributes
    power = b.constant(2.0 ** tile.int_of(attributes["exponent"])) if "exponent" in attributes else None
    for g, sums, partial in groups(s, op):
        factors = products.group(g)
        for i, (target, part) in enumerate(zip(sums, partial, strict=True)):
            x = part.get() if power is None else b.fmul(part.get(), power)
            target.set(b.fadd(target.get(), x) if factors is None else b.fma(x, factors[i], target.get()))


@COMMON.lowers("tile.enlarge")
def enlarge(s: State, op: ir.OpView) -> None:
    b, power = s.b, s.b.constant(2.0 ** tile.int_of(op.exponent))
    for wave in s.get(op.accumulator).waves:
        for v in wave:
            v.set(b.fmul(v.get(), power))


def products_of(s: State, op: ir.OpView) -> Products:
    """The factors of a `tile.promote`."""
    return Products(s, [s.get(f) for f in (op.a_factors, op.b_factors) if f is not None])


def groups(s: State, op: ir.OpView) -> Iterator[tuple[int, list[Variable], list[Variable]]]:
    """Of a `tile.promote`, each eight columns: (their number in the accumulator, its registers, the partial sums')."""
    accumulator = s.get(op.accumulator).waves[tile.int_of(op.wave)]
    partial = s.get(op.partial).waves[-1 if len(s.get(op.partial).waves) == 1 else tile.int_of(op.wave)]
    first = tile.int_of(op.column) // 8
    for g in range(len(partial) // 4):
        yield first + g, accumulator[4 * (first + g) : 4 * (first + g + 1)], partial[4 * g : 4 * (g + 1)]
