"""ldmatrix, scale words and mma.sync on sm_120a.

Every instruction takes 32 bytes of a row of A and of B, whatever the type, so one way of loading serves all of them.
Fragments: PTX ISA 9.7.14.5.8 (m16n8k16) to 9.7.14.5.11; scales: 9.7.14.3 "Block Scaling".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common.scale_bytes import ONES
from scalec.lowering.common.state import State, swizzle
from scalec.lowering.sm120.table import TABLE
from scalec.lowering.sm120.transpose import UNPACK, load_transposed

_CHUNK = 16  # bytes of a row of an 8x8 matrix of ldmatrix
_ELEMENTS = {
    "f8E4M3FN": "e4m3",
    "f8E5M2": "e5m2",
    "f6E3M2FN": "e3m2",
    "f6E2M3FN": "e2m3",
    "f4E2M1FN": "e2m1",
    "bf16": "bf16",
    "f16": "f16",
    "tf32": "tf32",
    "i8": "s8",
}
# by K of the instruction: kind, and scales of a row that it takes from a word, by their type (9.7.14.3, table 36)
_KINDS = {32: ("mxf8f6f4", {"ue8m0": 1}), 64: ("mxf4nvf4", {"ue8m0": 2, "ue4m3": 4})}


@dataclass(frozen=True)
class Slice:
    """Registers of one slice of A or B: `registers[i]` are those of the i-th 16 rows of A (4) or 8 columns of B (2)."""

    registers: list[list[Variable]]
    side: str
    rows: int

    def read(self) -> list[Variable]:
        """One of each 16 rows, which an instruction loads."""
        return [v for group in self.registers for v in group][::-4]


@dataclass(frozen=True)
class Words:
    """Scale words: [word][group of 32 rows], of the stage in use and of the one loaded last."""

    current: list[list[Variable]]
    following: list[list[Variable]]
    side: str
    rows: int


@TABLE.lowers("tile.multiplicand")
def multiplicand(s: State, op: ir.OpView) -> None:
    side, (rows, _) = tile.str_of(op.result.type.side), tile.shape_of(op.result.type)
    count, each = (rows // 16, 4) if side == "a" else (rows // 8, 2)
    registers = [[s.b.variable(s.b.i32, 0) for _ in range(each)] for _ in range(count)]
    s.values[op.result] = Slice(registers, side, rows)


@TABLE.lowers("tile.load")
def load(s: State, op: ir.OpView) -> None:
    """One ldmatrix for 16 rows: x4 is their two halves of 8 rows by the two halves of 32 bytes.

    The matrices' order is that of the registers of the product: of A rows first (a0 a1: rows g and g + 8), of B the
    halves of K first (b0 b1 of eight columns, then of the next eight).
    """
    b, source, target = s.b, s.get(op.source), s.get(op.target)
    step, type = tile.int_of(op.step), op.source.type
    pitch = tile.swizzle_of(type)
    if tile.int_of(op.transpose):
        load_transposed(s, op, target.registers)
        return
    base = s.once(("load", op.source, target.side, step), lambda: _first_chunk(s, source, target, step, pitch))
    at = source.at(b, s.get(op.cursor), base)
    element, (_, depth) = tile.bits_of(tile.element_of(op.target.type)), tile.shape_of(op.target.type)
    padded = element * depth < 8 * tile.STEP_BYTES
    form = "m8n16.x{}.shared.b8x16." + UNPACK[element] if padded else "m8n8.x{}.shared.b16"
    flat = [(i * (16 if target.side == "a" else 8), r) for i, r in enumerate(target.registers)]
    for rows in range(0, target.rows, 16):
        registers = [v for row, r in flat if rows <= row < rows + 16 for v in r]
        names = ", ".join(f"${i}" for i in range(len(registers)))
        offset = (tile.optional(op, "first") + rows) * pitch
        text = f"ldmatrix.sync.aligned.{form.format(len(registers))} {{{names}}}, [${len(registers)} + {offset}];"
        for v, x in zip(registers, b.asm(text, [b.i32] * len(registers), [at]), strict=True):
            v.set(b.shl(x, 2) if padded and element == 4 else x)  # mxf8f6f4 takes e2m1 in bits 2 to 5: 9.7.14.5.10


@TABLE.lowers("tile.cut")
def cut(s: State, op: ir.OpView) -> None:
    """Lane 4g + i has elements 8i to 8i + 7 of row g, in a register, and those 32 further on in another (PTX ISA
    9.7.14.5.11, m16n8k64): of the instruction's half of K with the element, one lane of four clears its bits."""
    b, bits = s.b, tile.bits_of(tile.element_of(op.target.type))
    half, within = divmod(tile.int_of(op.element) * bits, 8 * _CHUNK)
    lane, place = divmod(within, 32)
    mine = b.and_(s.get(op.condition), b.compare("eq", b.and_(s.lane, 3), lane))
    mask = b.select(mine, b.constant(0xFFFFFFFF ^ ((1 << bits) - 1 << place)), -1)
    for registers in s.get(op.target).registers:
        for v in registers[half * len(registers) // 2 :][: len(registers) // 2]:
            v.set(b.and_(v.get(), mask))


def _first_chunk(s: State, source: Any, target: Slice, step: int, pitch: int) -> ir.Value:
    """Shared address, in the first stage, of the 16 bytes whose address this lane gives for its warp's first rows."""
    b, lane = s.b, s.lane
    if target.side == "a":
        row, half, unit = b.and_(lane, 15), b.shr(lane, 4), s.unit(0)
    else:
        row = b.add(b.and_(lane, 7), b.shl(b.shr(lane, 4), 3)) if target.rows > 8 else b.and_(lane, 7)
        half, unit = b.and_(b.shr(lane, 3), 1), s.unit(1)
    chunk = b.shl(b.xor(b.add(half, 2 * step), swizzle(b, row, pitch)), 4)
    offset = b.add(b.mul(b.add(b.mul(unit, target.rows), row), pitch), chunk)
    return b.add(source.base, offset)


# ------------------------------------------------------------------------------------------------------------ scales


@TABLE.lowers("tile.words")
def words(s: State, op: ir.OpView) -> None:
    count, rows = tile.shape_of(op.result.type)
    current, following = (
        [[s.b.variable(s.b.i32, 0) for _ in range(-(-rows // 32))] for _ in range(count)] for _ in range(2)
    )
    s.values[op.result] = Words(current, following, tile.str_of(op.result.type.side), rows)


@TABLE.lowers("tile.load_words")
def load_words(s: State, op: ir.OpView) -> None:
    """A word of each of 32 rows: a lane of a quad has the row that the product asks that lane for."""
    b, source, target = s.b, s.get(op.source), s.get(op.target)
    _, tile_rows = tile.shape_of(op.source.type)
    for group in range(-(-target.rows // 32)):
        rest = min(32, target.rows - 32 * group)
        base = s.once(("words", op.source, rest), lambda rest=rest: _first_word(s, source, target, rest))
        at = source.at(b, s.get(op.cursor), base)
        for word, registers in enumerate(target.following):
            offset = 4 * (word * tile_rows + tile.optional(op, "first") + 32 * group)
            registers[group].set(b.asm(f"ld.shared.b32 $0, [$1 + {offset}];", [b.i32], [at])[0])


def _first_word(s: State, source: Any, target: Words, rows: int) -> ir.Value:
    """Shared address, in the first stage, of this lane's word of the warp's first 32 rows, of which there are `rows`.

    Of A, lanes 4g + {0, 1} give rows g and g + 8 of the 16 that thread id 0 selects, lanes 4g + {2, 3} those of thread
    id 1; of B, lane 4g + i gives column g of the 8 that thread id i selects (9.7.14.3, figures of scale_vec::1X).
    """
    b, lane = s.b, s.lane
    group, member = b.shr(lane, 2), b.and_(lane, 3)
    if target.side == "a":
        unit = s.unit(0)
        row = b.add(group, b.shl(member if rows == 32 else b.and_(lane, 1), 3))
    else:
        unit = s.unit(1)
        row = b.add(group, b.shl(b.min(member, rows // 8 - 1), 3))
    return b.add(source.base, b.shl(b.add(b.mul(unit, target.rows), row), 2))


@TABLE.lowers("tile.turn")
def turn(s: State, op: ir.OpView) -> None:
    target = s.get(op.words)
    for current, following in zip(target.current, target.following, strict=True):
        for to, value in zip(current, following, strict=True):
            to.set(value.get())


# ---------------------------------------------------------------------------------------------------------- products


@TABLE.lowers("tile.multiply")
def multiply(s: State, op: ir.OpView) -> None:
    b = s.b
    a, bb = s.get(op.a), s.get(op.b)
    fragment = s.get(op.accumulator)
    accumulate = bool(tile.int_of(op.accumulate))
    instruction = _instruction(op)
    scales = [
        _Scale.of(s, op, None if words is None else s.get(words), tile.int_of(byte))
        for words, byte in ((op.a_words, op.a_byte), (op.b_words, op.b_byte))
    ]
    for m, rows in enumerate(a.registers):
        for n, columns in enumerate(bb.registers):
            registers = fragment.waves[m][4 * n : 4 * n + 4]
            inputs = [v.get() for v in (*rows, *columns)]
            extra, text = _scale_operands(scales, (m, n), first=4 + len(inputs))
            sums = [v.get() for v in registers] if accumulate else [b.constant(0.0)] * 4
            names = [f"${i}" for i in range(4 + len(inputs))]
            d, x, y = ", ".join(names[:4]), ", ".join(names[4:8]), ", ".join(names[8:])
            c = d if accumulate else ", ".join(f"${4 + len(inputs) + len(extra) + i}" for i in range(4))
            whole = f"{instruction} {{{d}}}, {{{x}}}, {{{y}}}, {{{c}}}{text};"
            results = b.asm(whole, [b.f32] * 4, [*inputs, *extra, *sums], tied=4 * accumulate, memory=False)
            for v, value in zip(registers, results, strict=True):
                v.set(value)


def _instruction(op: ir.OpView) -> str:
    """The instruction up to its operands."""
    depth = tile.shape_of(op.a.type)[1]
    elements = [_ELEMENTS[str(tile.element_of(v.type))] for v in (op.a, op.b)]
    sums = "s32" if elements[0] == "s8" else "f32"
    shape, types = f"m16n8k{depth}.row.col", f"{sums}.{elements[0]}.{elements[1]}.{sums}"
    scale = tile.str_of(op.scale)
    if not scale:
        return f"mma.sync.aligned.{shape}.{types}"
    kind, vectors = _KINDS[depth]
    return f"mma.sync.aligned.{shape}.kind::{kind}.block_scale.scale_vec::{vectors[scale]}X.{types}.{scale}"


@dataclass(frozen=True)
class _Scale:
    """Scales of one side: a word for each group of 32 rows, the byte in it, and rows that one instruction takes."""

    values: list[ir.Value]
    byte: int
    rows: int

    @staticmethod
    def of(s: State, op: ir.OpView, words: Words | None, byte: int) -> _Scale | None:
        scale = tile.str_of(op.scale)
        if not scale:
            return None
        if words is None:
            return _Scale([s.b.constant(ONES[scale])], 0, 0)
        return _Scale([v.get() for v in words.current[byte // 4]], byte % 4, 16 if words.side == "a" else 8)


def _scale_operands(scales: list[_Scale | None], index: tuple[int, int], first: int) -> tuple[list[ir.Value], str]:
    """The words of an instruction's two sides, from operand `first` on, and the text that selects in them."""
    values: list[ir.Value] = []
    text = ""
    for scale, i in zip(scales, index, strict=True):
        if scale is None:
            continue
        row = i * scale.rows
        text += f", {{${first + len(values)}}}, {{{scale.byte}, {row % 32 // scale.rows if scale.rows else 0}}}"
        values.append(scale.values[row // 32])
    return values, text
