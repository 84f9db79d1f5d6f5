"""wgmma, its waits, scale factors and promotion on sm_90a.

The rules of wgmma through LLVM (hopper.md; each cost 20 to 60 % when broken) are built in here: a chain starts from
the old accumulator values, never from undef; a wait ties every accumulator; nothing here branches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir, nvvm
from scalec.lowering.sm90.state import TABLE, Buffer, Fragment, State, Window, row_swizzle
from scalec.targets import WAVE

_WGMMA_TYPE = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "bf16": "bf16", "f16": "f16"}
# Shared-memory matrix descriptor (PTX ISA 9.7.15.5.1.2): bits 62-63 say the swizzle, bits 32-45 the distance of
# 8-row groups in units of 16 bytes; the leading dimension offset is not used for swizzled K-major tiles.
_SWIZZLE_MODE = {128: 1, 64: 2, 32: 3}


@TABLE.lowers("tile.fragment")
def fragment(s: State, op: ir.OpView) -> None:
    rows, columns = tile.shape_of(op.result.type)
    waves = [[s.b.variable(s.b.f32, 0.0) for _ in range(columns // 2)] for _ in range(rows // WAVE)]
    s.values[op.result] = Fragment(waves, columns)


@TABLE.lowers("tile.clear")
def clear(s: State, op: ir.OpView) -> None:
    for wave in s.get(op.accumulator).waves:
        for v in wave:
            v.set(0.0)


def _descriptor(s: State, start: ir.Value, swizzle: int) -> ir.Value:
    """A matrix descriptor; `start` is the shared address divided by 16."""
    constant = _SWIZZLE_MODE[swizzle] << 62 | (8 * swizzle >> 4) << 32
    return s.b.or_(s.b.widen(start), s.b.constant(constant, s.b.i64))


@TABLE.lowers("tile.mma")
def mma(s: State, op: ir.OpView) -> None:
    b, cursor = s.b, s.get(op.cursor)
    a, bb = s.get(op.a), s.get(op.b)
    registers = s.get(op.accumulator).waves[tile.int_of(op.wave)]
    columns = s.get(op.accumulator).columns
    types = [_WGMMA_TYPE[str(tile.element_of(v.type))] for v in (a, bb)]
    swizzles = [tile.int_of(v.type.swizzle) for v in (a, bb)]
    waves = tile.int_of(op.waves)
    depth = 32 * 8 // tile.bits_of(tile.element_of(a.type))  # K of one wgmma is 32 bytes
    # addresses in units of 16 bytes, as descriptors hold them; what does not change is computed once
    own = s.once(
        ("a", op.a, waves),
        lambda: b.shr(b.add(a.base, b.mul(s.warpgroup, waves * WAVE * swizzles[0])), 4),
    )
    a_start = b.add(a.at(b, cursor, own, 16), tile.int_of(op.a_wave) * WAVE * swizzles[0] // 16)
    b_start = bb.at(b, cursor, s.once(("b", op.b), lambda: b.shr(bb.base, 4)), 16)
    attribute = ir.Attribute.parse
    shape = attribute(f"#nvvm.shape<m = {WAVE}, n = {columns}, k = {depth}>")
    type_a, type_b, type_d = (attribute(f"#nvvm.wgmma_type<{t}>") for t in (*types, "f32"))
    one_in, row, col = (attribute(f"#nvvm.{t}") for t in ("wgmma_scale_in<one>", "mma_layout<row>", "mma_layout<col>"))
    struct = ir.Type.parse(f"!llvm.struct<({', '.join(['f32'] * len(registers))})>")
    current = b.op("llvm.mlir.undef", [struct], [])
    for i, v in enumerate(registers):  # rule 1: tied to the old values, so that FMAs on them cannot float past
        current = b.insert(current, i, v.get())
    nvvm.WgmmaFenceAlignedOp()
    accumulate = bool(tile.int_of(op.accumulate))
    for step in range(tile.shape_of(a.type)[1] // depth):
        scale_out = attribute(f"#nvvm.wgmma_scale_out<{'one' if accumulate or step else 'zero'}>")
        operands = [_descriptor(s, b.add(x, 2 * step), w) for x, w in zip((a_start, b_start), swizzles, strict=True)]
        current = nvvm.wgmma_mma_async(
            struct, current, *operands, shape, type_a, type_b, type_d, scale_out, one_in, one_in, row, col
        )
    nvvm.WgmmaGroupSyncAlignedOp()
    for i, v in enumerate(registers):
        v.set(b.extract(current, i, b.f32))


@TABLE.lowers("tile.mma_wait")
def mma_wait(s: State, op: ir.OpView) -> None:
    """Rule 2: volatile, with every accumulator tied in and out: `nvvm.wgmma.wait.group` orders nothing in SSA."""
    b = s.b
    registers = [v for wave in s.get(op.accumulator).waves for v in wave]
    text = f"wgmma.wait_group.sync.aligned {tile.int_of(op.pending)};"
    results = b.asm(text, [b.f32] * len(registers), [v.get() for v in registers], tied=len(registers))
    for v, x in zip(registers, results, strict=True):
        v.set(x)


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
class UniformFactors:
    """One factor for each `span` columns (0: one for all)."""

    values: list[ir.Value]
    span: int


@TABLE.lowers("tile.row_factors")
def row_factors(s: State, op: ir.OpView) -> None:
    b = s.b
    source, waves = s.get(op.source), tile.int_of(op.waves)
    pitch = _pitch(source)

    def emit() -> ir.Value:
        row = b.add(b.mul(s.warpgroup, waves * WAVE), s.row_in_wave)
        return b.add(source.base, b.mul(row, pitch))

    mine = s.once(("rows", op.source, waves), emit)
    # rows 8 or 64 below have the same swizzle
    base = _factors_at(s, op, mine, lambda: row_swizzle(b, s.row_in_wave))
    above = tile.int_of(op.wave) * WAVE * pitch
    first, second = (b.load(b.address(3, b.add(base, above + o)), b.f32) for o in (0, 8 * pitch))  # rows r and r + 8
    s.values[op.result] = RowFactors((first, second))


@TABLE.lowers("tile.column_factors")
def column_factors(s: State, op: ir.OpView) -> None:
    b, source = s.b, s.get(op.source)
    pitch = _pitch(source)
    # this thread's columns of each 8 are 2 * (lane % 4) and the next: both, and those of all groups, swizzle alike
    first = s.once("column", lambda: b.shl(b.and_(s.lane, 3), 1))
    mine = s.once(("columns", op.source), lambda: b.add(source.base, b.mul(first, pitch)))
    s.values[op.result] = ColumnFactors(_factors_at(s, op, mine, lambda: row_swizzle(b, first)), pitch)


def _factors_at(s: State, op: ir.OpView, first: ir.Value, swizzle: Callable[[], ir.Value]) -> ir.Value:
    """The address `first` of this thread's first factor, moved to the stage or the window's block."""
    source, position = s.get(op.source), s.get(op.position)
    if isinstance(position, Window):
        return source.in_window(s.b, position, first, s.once((op.operation.name, "swizzle"), swizzle))
    return source.at(s.b, position, first)


def _pitch(source: Buffer) -> int:
    """Bytes between the factors of adjacent rows: a vector of them is (1, rows), a window (rows, K blocks)."""
    rows, blocks = tile.shape_of(source.type)
    return 4 if rows == 1 else 4 * blocks


@TABLE.lowers("tile.uniform_factors")
def uniform_factors(s: State, op: ir.OpView) -> None:
    first, count = tile.int_of(op.first), tile.int_of(op.count)
    s.values[op.result] = UniformFactors(
        [v.get() for v in s.get(op.source)[first : first + count]], tile.int_of(op.span)
    )


Factors = RowFactors | ColumnFactors | UniformFactors


class _Product:
    """Factor of each of a group's four accumulators (rows r, r, r + 8, r + 8; columns c, c + 1, c, c + 1)."""

    def __init__(self, s: State, sides: list[Factors]) -> None:
        self._s, self._sides, self._cache = s, sides, {}

    def group(self, g: int) -> list[ir.Value] | None:
        """The factors of columns 8g..8g+7, or None where there are none."""
        if not self._sides:
            return None
        key = tuple(self._key(side, g) for side in self._sides)
        if key not in self._cache:
            parts = [self._factors(side, g) for side in self._sides]
            self._cache[key] = parts[0] if len(parts) == 1 else self._multiply(*parts)
        return self._cache[key]

    @staticmethod
    def _key(side: Factors, g: int) -> int:
        if isinstance(side, RowFactors):
            return 0
        if isinstance(side, UniformFactors):
            return 8 * g // side.span if side.span else 0
        return g

    def _factors(self, side: Factors, g: int) -> list[ir.Value]:
        b = self._s.b
        if isinstance(side, RowFactors):
            return [side.rows[0], side.rows[0], side.rows[1], side.rows[1]]
        if isinstance(side, UniformFactors):
            return [side.values[self._key(side, g)]] * 4
        first = b.add(side.address, 8 * side.pitch * g)
        if side.pitch > 4:
            return [b.load(b.address(3, b.add(first, i * side.pitch)), b.f32) for i in (0, 1)] * 2
        pair = b.load(b.address(3, first), ir.Type.parse("vector<2xf32>"))
        columns = [b.op("llvm.extractelement", [b.f32], [pair, b.constant(i)]) for i in (0, 1)]
        return columns * 2

    def _multiply(self, x: list[ir.Value], y: list[ir.Value]) -> list[ir.Value]:
        made: dict[tuple[ir.Value, ir.Value], ir.Value] = {}
        for pair in zip(x, y, strict=True):
            if pair not in made:
                made[pair] = self._s.b.fmul(*pair)
        return [made[pair] for pair in zip(x, y, strict=True)]


@TABLE.lowers("tile.promote")
def promote(s: State, op: ir.OpView) -> None:
    b = s.b
    accumulator = s.get(op.accumulator).waves[tile.int_of(op.wave)]
    partial = s.get(op.partial).waves[0]
    product = _Product(s, [s.get(f) for f in (op.a_factors, op.b_factors) if f is not None])
    for g in range(len(accumulator) // 4):
        factors = product.group(g)
        for i in range(4):
            target, part = accumulator[4 * g + i], partial[4 * g + i].get()
            target.set(b.fadd(target.get(), part) if factors is None else b.fma(part, factors[i], target.get()))
