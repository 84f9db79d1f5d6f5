"""Integer arithmetic (PTX ISA 9.7.1): add, sub, mul, mad, 24-bit forms, sad, div, rem, abs, neg, min, max.

Sums and low products are the same for signed and unsigned operands, so they are computed on the unsigned registers,
without views; numpy's integer arithmetic on arrays wraps silently.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator.findings import NotModelled
from scalec.emulator.instructions.table import Decoder, Sink, Source, Step, applied, op
from scalec.emulator.program import TYPE_BITS, Instruction

INTEGERS = ("u16", "u32", "u64", "s16", "s32", "s64")
_SIGNED = ("s16", "s32", "s64")
_PACKED = ("u16x2", "s16x2")
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}

Binary = Callable[[np.ndarray, np.ndarray], np.ndarray]


def names(opcode: str, kinds: tuple[str, ...], *infixes: str) -> list[str]:
    """opcode.type, opcode.infix.type, ... for the table."""
    return [f"{opcode}.{infix}{kind}" for infix in ("", *(f"{i}." for i in infixes)) for kind in kinds]


def unsigned(kind: str) -> str:
    """The unsigned type of the same width."""
    return f"u{TYPE_BITS[kind]}"


def halves(kind: str) -> np.dtype:
    """The element type of u16x2 or s16x2."""
    return np.dtype("u2" if kind[0] == "u" else "i2")


def packed(a: Source, b: Source, put: Sink, function: Binary, element: np.dtype) -> Step:
    """A function of 16-bit elements on both halves of 32-bit registers."""
    return applied(lambda x, y: function(x.view(element), y.view(element)).view(np.uint32), put, a, b)


def _operands(instruction: Instruction, decoder: Decoder, kind: str) -> tuple[Sink, list[Source]]:
    to, *sources = instruction.operands
    return decoder.sink(to, kind), [decoder.source(s, kind) for s in sources]


@op(*names("add", INTEGERS + _PACKED), "add.sat.s32")
@op(*names("sub", INTEGERS), "sub.sat.s32")
def add_sub(instruction: Instruction, decoder: Decoder) -> Step:
    """add{.sat}, sub{.sat}: 9.7.1.1, 9.7.1.2; without .sat the result wraps."""
    decoder.only(instruction, "sat")
    (kind,) = instruction.types
    function = np.add if instruction.opcode == "add" else np.subtract
    if instruction.has("sat"):
        put, (a, b) = _operands(instruction, decoder, kind)
        return applied(lambda x, y: _saturate(function(x.astype(np.int64), y.astype(np.int64))), put, a, b)
    put, _ = _operands(instruction, decoder, kind)
    if kind in _PACKED:
        a, b = (decoder.source(s, kind) for s in instruction.operands[1:])
        return packed(a, b, put, function, np.dtype("u2"))
    a, b = (decoder.source(s, unsigned(kind)) for s in instruction.operands[1:])
    return applied(function, put, a, b)


def _saturate(value: np.ndarray) -> np.ndarray:
    """int64 -> the nearest int32."""
    return np.clip(value, -(1 << 31), (1 << 31) - 1).astype(np.int32)


# -- products ----------------------------------------------------------------------------------------------------------


def high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the product of two integers of the same type."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{a.dtype.itemsize * 2}")
        return (a.astype(wide) * b.astype(wide) >> wide.type(bits)).astype(a.dtype)
    x, y, low, shift = a.view(np.uint64), b.view(np.uint64), np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> shift, y & low, y >> shift
    middle = x1 * y0 + (x0 * y0 >> shift)
    other = x0 * y1 + (middle & low)
    upper = x1 * y1 + (middle >> shift) + (other >> shift)
    if a.dtype.kind == "i":  # -2**64 * y where x is negative, and the other way round
        upper = upper - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return upper.view(a.dtype)


def _wide(kind: str) -> Binary:
    to = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{TYPE_BITS[kind] // 4}")
    return lambda a, b: a.astype(to) * b.astype(to)


def _low24(kind: str) -> Callable[[np.ndarray], np.ndarray]:
    """The low 24 bits of a 32-bit operand, as int64."""
    if kind == "u32":
        return lambda a: a.astype(np.int64) & 0xFFFFFF
    return lambda a: (a << np.int32(8) >> np.int32(8)).astype(np.int64)


def product(instruction: Instruction, kind: str) -> tuple[Binary, str, str]:
    """The product that .lo, .hi or .wide names: the function, and the types of its operands and its result."""
    part = next((m for m in instruction.modifiers if m in ("lo", "hi", "wide")), "")
    if instruction.opcode in ("mul24", "mad24"):
        cut, shift = _low24(kind), {"lo": 0, "hi": 16}[part]  # .hi: bits 47..16 of the 48-bit product
        to = np.int32 if kind == "s32" else np.uint32
        return lambda a, b: (cut(a) * cut(b) >> shift).astype(to), kind, kind
    if part == "wide":
        return _wide(kind), kind, WIDE[kind]
    if part == "hi":
        return high, kind, kind
    if part == "lo":
        return np.multiply, unsigned(kind), kind
    raise NotModelled(instruction.name)


_PRODUCTS = [f"{part}.{kind}" for part in ("lo", "hi") for kind in INTEGERS] + [f"wide.{kind}" for kind in WIDE]


@op(*(f"mul.{p}" for p in _PRODUCTS), "mul24")
def mul(instruction: Instruction, decoder: Decoder) -> Step:
    """mul.{lo,hi,wide}, mul24: 9.7.1.3, 9.7.1.5."""
    decoder.only(instruction, "lo", "hi", "wide")
    (kind,) = instruction.types
    function, source, result = product(instruction, kind)
    a, b = (decoder.source(s, source) for s in instruction.operands[1:])
    return applied(function, decoder.sink(instruction.operands[0], result), a, b)


@op(*(f"mad.{p}" for p in _PRODUCTS), "mad.hi.sat.s32", "mad24")
def mad(instruction: Instruction, decoder: Decoder) -> Step:
    """mad.{lo,hi,wide}, mad24: 9.7.1.4, 9.7.1.6: the product's part plus c; .hi.sat of s32 saturates the sum."""
    decoder.only(instruction, "lo", "hi", "wide", "sat")
    (kind,) = instruction.types
    function, source, result = product(instruction, kind)
    a, b = (decoder.source(s, source) for s in instruction.operands[1:3])
    put = decoder.sink(instruction.operands[0], result)
    if instruction.has("sat"):
        c = decoder.source(instruction.operands[3], result)
        return applied(lambda x, y, z: _saturate(function(x, y).astype(np.int64) + z.astype(np.int64)), put, a, b, c)
    c = decoder.source(instruction.operands[3], source if function is np.multiply else result)
    return applied(lambda x, y, z: function(x, y) + z, put, a, b, c)


@op("sad")
def sad(instruction: Instruction, decoder: Decoder) -> Step:
    """sad: 9.7.1.7; c + |a - b|."""
    decoder.only(instruction)
    put, (a, b, c) = _operands(instruction, decoder, instruction.types[0])
    return applied(lambda x, y, z: z + np.where(x < y, y - x, x - y), put, a, b, c)


# -- quotients ---------------------------------------------------------------------------------------------------------


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b towards zero. The ISA leaves a zero divisor open; the result is then all ones."""
    return _divide(a, b)[0]


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b * (a / b), with the sign of a. For a zero divisor, which the ISA leaves open, a."""
    return _divide(a, b)[1]


def _divide(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    zero = b == 0
    if a.dtype.kind == "u":
        safe = np.where(zero, a.dtype.type(1), b)
        result = a // safe
    else:
        # magnitudes, as unsigned numbers, which hold that of the most negative one
        x, y = np.abs(a).view(f"u{a.dtype.itemsize}"), np.abs(b).view(f"u{a.dtype.itemsize}")
        result = (x // np.where(zero, y.dtype.type(1), y)).view(a.dtype)
        result = np.where((a < 0) != (b < 0), -result, result)
    return np.where(zero, ~a.dtype.type(0), result), np.where(zero, a, a - result * b)


@op(*names("div", INTEGERS), "rem")
def div_rem(instruction: Instruction, decoder: Decoder) -> Step:
    """div, rem: 9.7.1.8, 9.7.1.9."""
    decoder.only(instruction)
    put, (a, b) = _operands(instruction, decoder, instruction.types[0])
    return applied(quotient if instruction.opcode == "div" else remainder, put, a, b)


# -- one operand, and order --------------------------------------------------------------------------------------------


@op(*names("abs", _SIGNED))
@op(*names("neg", _SIGNED))
def abs_neg(instruction: Instruction, decoder: Decoder) -> Step:
    """abs, neg: 9.7.1.10, 9.7.1.11; the most negative number stays."""
    decoder.only(instruction)
    put, (a,) = _operands(instruction, decoder, instruction.types[0])
    return applied(np.abs if instruction.opcode == "abs" else np.negative, put, a)


@op(*names("min", INTEGERS + _PACKED), *names("min", ("s32", "s16x2"), "relu"))
@op(*names("max", INTEGERS + _PACKED), *names("max", ("s32", "s16x2"), "relu"))
def min_max(instruction: Instruction, decoder: Decoder) -> Step:
    """min, max: 9.7.1.12, 9.7.1.13; .relu clamps a negative result to zero."""
    decoder.only(instruction, "relu")
    (kind,) = instruction.types
    put, (a, b) = _operands(instruction, decoder, kind)
    plain = function = np.minimum if instruction.opcode == "min" else np.maximum
    if instruction.has("relu"):
        function = lambda x, y: np.maximum(plain(x, y), x.dtype.type(0))  # noqa: E731
    if kind in _PACKED:
        return packed(a, b, put, function, halves(kind))
    return applied(function, put, a, b)
