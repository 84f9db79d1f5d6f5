"""Bit fields, counts and bytes (PTX ISA 9.7.1.14 to 9.7.1.22, 9.7.9.7): popc, clz, bfind, fns, brev, bfe, bfi, ..."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.instructions.table import DTYPES, Decoder, Step, applied, interleaved, op
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import TYPE_BITS, Imm, Instruction

_ALL = np.uint32(0xFFFFFFFF)
_POSITIONS = np.arange(32)


def _top(value: np.ndarray, bits: int) -> np.ndarray:
    """int64: the position of the highest set bit of unsigned integers, -1 for zero."""
    value = value.astype(np.uint64)
    # a float64 holds 32 bits exactly, and frexp's exponent is then the position plus one
    upper, lower = (value >> np.uint64(32)).astype(np.float64), (value & np.uint64(0xFFFFFFFF)).astype(np.float64)
    low = np.frexp(lower)[1] - 1
    return np.where(upper > 0, np.frexp(upper)[1] + 31, low) if bits == 64 else low


@op("popc", "clz")
def count(instruction: Instruction, decoder: Decoder) -> Step:
    """popc, clz: 9.7.1.14, 9.7.1.15; the result is .u32."""
    decoder.only(instruction)
    (kind,) = instruction.types
    bits = TYPE_BITS[kind]
    get, put = decoder.source(instruction.operands[1], f"u{bits}"), decoder.sink(instruction.operands[0], "u32")
    if instruction.opcode == "popc":
        return applied(lambda a: np.bitwise_count(a).astype(np.uint32), put, get)
    return applied(lambda a: (bits - 1 - _top(a, bits)).astype(np.uint32), put, get)


@op("bfind")
def bfind(instruction: Instruction, decoder: Decoder) -> Step:
    """bfind{.shiftamt}.type: 9.7.1.16; the highest bit that is no sign bit, all ones if there is none."""
    decoder.only(instruction, "shiftamt")
    (kind,) = instruction.types
    bits = TYPE_BITS[kind]
    get, put = decoder.source(instruction.operands[1], kind), decoder.sink(instruction.operands[0], "u32")
    amount, dtype = instruction.has("shiftamt"), DTYPES[f"u{bits}"]

    def found(value: np.ndarray) -> np.ndarray:
        if kind[0] == "s":
            value = np.where(value < 0, ~value, value).view(dtype)
        top = _top(value, bits)
        return np.where(top < 0, -1, bits - 1 - top if amount else top).astype(np.uint32)

    return applied(found, put, get)


@op("fns")
def fns(instruction: Instruction, decoder: Decoder) -> Step:
    """fns.b32 d, mask, base, offset: 9.7.1.17; the offset-th set bit from bit base, up or down."""
    decoder.only(instruction)
    put = decoder.sink(instruction.operands[0], "b32")
    mask, base = (decoder.source(s, "u32") for s in instruction.operands[1:3])
    offset = decoder.source(instruction.operands[3], "s32")

    def step(warp: Warp) -> None:
        start, by = base(warp).astype(np.int64)[:, None], offset(warp).astype(np.int64)[:, None]
        wrong = (start > 31)[:, 0] & warp.mask
        if wrong.any():
            raise Finding("illegal", f"fns with base {int(start[np.argmax(wrong), 0])}", expected="0 to 31")
        bit = (mask(warp)[:, None] >> _POSITIONS.astype(np.uint32) & np.uint32(1)).astype(bool)
        ahead = np.where(by >= 0, start <= _POSITIONS, start >= _POSITIONS) & bit
        ahead &= (by != 0) | (start == _POSITIONS)
        upwards = np.cumsum(ahead, axis=1)
        downwards = np.cumsum(ahead[:, ::-1], axis=1)[:, ::-1]
        rank = np.where(by >= 0, upwards, downwards)
        hit = ahead & (rank == np.maximum(np.abs(by), 1))
        put(warp, np.where(hit.any(axis=1), hit.argmax(axis=1), -1).astype(np.uint32))

    return step


_REVERSED = np.array([int(f"{i:08b}"[::-1], 2) for i in range(256)], np.uint8)


@op("brev")
def brev(instruction: Instruction, decoder: Decoder) -> Step:
    """brev: 9.7.1.18."""
    decoder.only(instruction)
    (kind,) = instruction.types
    get, put = decoder.source(instruction.operands[1], kind), decoder.sink(instruction.operands[0], kind)
    return applied(lambda a: _REVERSED[a.view(np.uint8)].view(a.dtype).byteswap(), put, get)


def _low_bits(count: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The number whose lowest `count` bits are set; numpy's shifts past the width give zero."""
    one = dtype.type(1)
    return (np.full(32, one) << count.astype(dtype)) - one


@op("bfe")
def bfe(instruction: Instruction, decoder: Decoder) -> Step:
    """bfe.type d, a, b, c: 9.7.1.19; c bits of a from bit b, filled with the field's sign for signed types.

    b and c count modulo 256, as the ISA says; an H200 does not do so in the 64-bit forms.
    """
    decoder.only(instruction)
    (kind,) = instruction.types
    bits, dtype = TYPE_BITS[kind], DTYPES[f"u{TYPE_BITS[kind]}"]
    to, source, start, length = instruction.operands
    get, put = decoder.source(source, f"u{bits}"), decoder.sink(to, kind)
    first, many = decoder.source(start, "u32"), decoder.source(length, "u32")
    byte, signed = np.uint32(0xFF), kind[0] == "s"

    def field(value: np.ndarray, pos: np.ndarray, n: np.ndarray) -> np.ndarray:
        pos, n = pos & byte, n & byte
        low = _low_bits(n, dtype)
        result = (value >> pos.astype(dtype)) & low
        if signed:
            top = np.minimum(pos.astype(np.int64) + n - 1, bits - 1)
            sign = (value >> np.maximum(top, 0).astype(dtype)) & dtype.type(1)
            # bits past the operand's end are the sign too
            inside = _low_bits(np.maximum(bits - pos.astype(np.int64), 0), dtype) & low
            result = np.where((n > 0) & (sign == 1), result | ~inside, result)
        return result

    return applied(field, put, get, first, many)


@op("bfi")
def bfi(instruction: Instruction, decoder: Decoder) -> Step:
    """bfi.type f, a, b, c, d: 9.7.1.20; the lowest d bits of a put into b at bit c."""
    decoder.only(instruction)
    (kind,) = instruction.types
    dtype = DTYPES[kind]
    put = decoder.sink(instruction.operands[0], kind)
    a, b = (decoder.source(s, kind) for s in instruction.operands[1:3])
    start, length = (decoder.source(s, "u32") for s in instruction.operands[3:5])
    byte = np.uint32(0xFF)

    def step(warp: Warp) -> None:
        pos = (start(warp) & byte).astype(dtype)
        field = _low_bits(length(warp) & byte, dtype) << pos
        put(warp, (b(warp) & ~field) | (a(warp) << pos & field))

    return step


@op("szext")
def szext(instruction: Instruction, decoder: Decoder) -> Step:
    """szext.{clamp,wrap}.type d, a, b: 9.7.1.21; the lowest b bits of a, extended by zeros or their sign."""
    decoder.only(instruction, "clamp", "wrap")
    (kind,) = instruction.types
    put = decoder.sink(instruction.operands[0], kind)
    a, b = (decoder.source(s, "u32") for s in instruction.operands[1:3])
    clamp, signed = instruction.has("clamp"), kind == "s32"

    def extended(value: np.ndarray, width: np.ndarray) -> np.ndarray:
        n = width & np.uint32(31)
        low = _low_bits(n, np.dtype("u4"))
        result = value & low
        if signed:
            sign = (n > 0) & (value >> ((n - np.uint32(1)) & np.uint32(31)) & np.uint32(1) == 1)
            result = np.where(sign, result | ~low, result)
        return np.where(width >= 32, value, result) if clamp else result

    return applied(extended, put, a, b)


@op("bmsk")
def bmsk(instruction: Instruction, decoder: Decoder) -> Step:
    """bmsk.{clamp,wrap}.b32 d, a, b: 9.7.1.22; b ones from bit a."""
    decoder.only(instruction, "clamp", "wrap")
    put = decoder.sink(instruction.operands[0], "b32")
    a, b = (decoder.source(s, "u32") for s in instruction.operands[1:3])
    clamp = instruction.has("clamp")

    def mask(start: np.ndarray, width: np.ndarray) -> np.ndarray:
        first, many = start & np.uint32(31), width & np.uint32(31)
        result = _low_bits(many, np.dtype("u4")) << first
        if clamp:
            result = np.where(width >= 32, _ALL << first, result)
            result = np.where(start >= 32, np.uint32(0), result)
        return result

    return applied(mask, put, a, b)


# -- prmt --------------------------------------------------------------------------------------------------------------

# 9.7.9.7, the table of modes: the source byte of result bytes 0 to 3, for c & 3 = 0 to 3
_MODES = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}
_NIBBLES = np.array([0, 4, 8, 12], np.uint32)


def nibbles_of(control: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """uint32 (..., 32) -> int64 (..., 32, 4): which of the eight bytes, plus 8 for its sign alone."""
    if rows is not None:
        return rows[control & np.uint32(3)]
    return (control[..., None] >> _NIBBLES & np.uint32(15)).astype(np.int64)


@op("prmt")
def prmt(instruction: Instruction, decoder: Decoder) -> Step:
    """prmt.b32{.mode} d, a, b, c: 9.7.9.7; bytes chosen from the eight of b (high) and a (low)."""
    decoder.only(instruction, *_MODES)
    mode = next((m for m in instruction.modifiers if m in _MODES), None)
    put = decoder.sink(instruction.operands[0], "b32")
    a, b, c = (decoder.source(s, "b32") for s in instruction.operands[1:4])
    rows = np.array(_MODES[mode]) if mode else None
    control = instruction.operands[3]
    fixed = nibbles_of(decoder.constant(control, "b32")[:1], rows)[0] if isinstance(control, Imm) else None

    def step(warp: Warp) -> None:
        octets = interleaved(a(warp), b(warp)).view(np.uint8)
        if fixed is not None:
            picked, signs = octets[..., fixed & 7], fixed >= 8
        else:
            nibbles = nibbles_of(c(warp), rows)
            octets = np.broadcast_to(octets, (*np.broadcast_shapes(octets.shape[:-1], nibbles.shape[:-1]), 8))
            picked = np.take_along_axis(octets, np.broadcast_to(nibbles & 7, (*octets.shape[:-1], 4)), axis=-1)
            signs = nibbles >= 8
        if signs.any():
            picked = np.where(signs, (picked.view(np.int8) >> 7).view(np.uint8), picked)
        put(warp, np.ascontiguousarray(picked).view(np.uint32)[..., 0])

    return step
