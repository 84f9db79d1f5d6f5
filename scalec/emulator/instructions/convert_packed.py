"""cvt of pairs of narrow floats, and cvt.pack (PTX ISA 9.7.9.21, 9.7.9.22)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import ml_dtypes
import numpy as np

from scalec.emulator import arithmetic
from scalec.emulator.arithmetic import BF16, F16, F32, F64, U16, U32, canonical
from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.instructions.table import Decoder, Source, Step, interleaved, op
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

U8 = np.dtype("u1")
HALVES = {"f16x2": F16, "bf16x2": BF16}
BLACKWELL = ("sm_100a", "sm_100f", "sm_101a", "sm_101f", "sm_103a", "sm_103f", "sm_110a", "sm_110f", "sm_120a",
             "sm_120f", "sm_121a", "sm_121f")  # fmt: skip


@dataclass(frozen=True)
class Narrow:
    """A float of at most 8 bits."""

    dtype: np.dtype  # of ml_dtypes, which rounds to nearest even
    largest: float  # the largest number, MAX_NORM of the ISA
    nan: int  # what a NaN becomes: a NaN, or the largest number where there is none
    targets: tuple[str, ...]


NARROW = {
    "e4m3x2": Narrow(np.dtype(ml_dtypes.float8_e4m3fn), 448.0, 0x7F, ("sm_89", "sm_9", *BLACKWELL, "sm_1")),
    "e5m2x2": Narrow(np.dtype(ml_dtypes.float8_e5m2), 57344.0, 0x7F, ("sm_89", "sm_9", *BLACKWELL, "sm_1")),
    "e2m3x2": Narrow(np.dtype(ml_dtypes.float6_e2m3fn), 7.5, 0x1F, BLACKWELL),
    "e3m2x2": Narrow(np.dtype(ml_dtypes.float6_e3m2fn), 28.0, 0x1F, BLACKWELL),
    "e2m1x2": Narrow(np.dtype(ml_dtypes.float4_e2m1fn), 6.0, 0x7, BLACKWELL),
}


def is_packed(to: str, source: str) -> bool:
    """Whether packed() does a conversion."""
    if to in HALVES:
        return source == "f32" or source in NARROW or (to == "bf16x2" and source == "ue8m0x2")
    return (to in NARROW and source in ("f32", *HALVES)) or (to == "ue8m0x2" and source in ("f32", "bf16x2"))


def packed(instruction: Instruction, decoder: Decoder, to: str, source: str) -> Step:
    """cvt to or from a pair: of two operands, the first becomes the upper half of d."""
    if to in HALVES and source == "f32":
        return _halves(instruction, decoder, HALVES[to])
    if source in NARROW:
        return _widen(instruction, decoder, to, source)
    if source == "ue8m0x2":
        return _from_scales(instruction, decoder)
    if to == "ue8m0x2":
        return _to_scales(instruction, decoder, source)
    return _narrow(instruction, decoder, to, source)


def _pairs(instruction: Instruction, decoder: Decoder, source: str) -> Source:
    """The two values of each lane as float32 (64,), lower one first."""
    operands = instruction.operands[1:]
    if source == "f32":
        upper, lower = (decoder.source(x, "f32") for x in operands)

        def gather(warp: Warp) -> np.ndarray:
            return _flat(interleaved(lower(warp), upper(warp)))

        return gather
    (operand,) = operands
    get, dtype = decoder.source(operand, source), HALVES[source]
    return lambda warp: get(warp).view(dtype).astype(F32)


def _flat(pairs: np.ndarray) -> np.ndarray:
    """(..., 32, 2) -> (..., 64)."""
    return pairs.reshape(*pairs.shape[:-2], -1)


def _need(instruction: Instruction, *choices: str) -> None:
    """Raises Finding unless one of the modifiers is there."""
    if not any(instruction.has(c) for c in choices):
        raise Finding("illegal", f"{instruction.name} lacks a modifier", expected=" or ".join(f".{c}" for c in choices))


# -- f16x2, bf16x2 -----------------------------------------------------------------------------------------------------


def _halves(instruction: Instruction, decoder: Decoder, dtype: np.dtype) -> Step:
    _need(instruction, "rn", "rz")
    to = instruction.types[0]
    put = decoder.sink(instruction.operands[0], to)
    if instruction.has("rn") and not instruction.has("relu") and not instruction.has("satfinite"):
        upper, lower = (decoder.source(x, "f32") for x in instruction.operands[1:])

        def nearest(warp: Warp) -> None:
            both = _flat(interleaved(lower(warp), upper(warp)))
            flat = both.reshape(-1)
            square = np.dot(flat, flat)  # NaN if an element is
            result = both.astype(dtype)
            put(warp, result if square == square else canonical(result))

        return nearest

    get = _pairs(instruction, decoder, "f32")
    finish = [arithmetic.finite] * instruction.has("satfinite") + [arithmetic.relu] * instruction.has("relu")
    rounding = "rz" if instruction.has("rz") else "rn"

    def convert(warp: Warp) -> None:
        value = arithmetic.narrow(get(warp).astype(F64), dtype, rounding)
        for function in finish:
            value = function(value)
        put(warp, value)

    return convert


# -- 8, 6 and 4 bits ---------------------------------------------------------------------------------------------------


def _narrow(instruction: Instruction, decoder: Decoder, to: str, source: str) -> Step:
    form = NARROW[to]
    decoder.need_target(*form.targets)
    _need(instruction, "satfinite")
    _need(instruction, "rn")
    get, put = _pairs(instruction, decoder, source), decoder.sink(instruction.operands[0], to)
    largest, least = F32.type(form.largest), F32.type(-form.largest)
    clamp_negative = instruction.has("relu")

    def convert(warp: Warp) -> None:
        value = get(warp)
        bits = np.minimum(np.maximum(value, least), largest).astype(form.dtype).view(U8)
        square = np.vdot(value, value)
        if clamp_negative:
            bits = np.where(np.signbit(value), U8.type(0), bits)
        if square != square:
            bits = np.where(value == value, bits, U8.type(form.nan))
        put(warp, bits.view(U16) if to != "e2m1x2" else bits[..., 0::2] | (bits[..., 1::2] << U8.type(4)))

    return convert


@cache
def _halves_of(source: str, to: str, relu: bool) -> np.ndarray:
    """f16 or bf16 of every bit pattern of a format: (256,); those of 6 and 4 bits do not look at the bits above."""
    form = NARROW[source]
    count = 1 << {"e2m1x2": 4, "e2m3x2": 6, "e3m2x2": 6}.get(source, 8)
    values = canonical(np.arange(count).astype(U8).view(form.dtype).astype(F32).astype(HALVES[to]))
    return np.tile(arithmetic.relu(values) if relu else values, 256 // count)


def _widen(instruction: Instruction, decoder: Decoder, to: str, source: str) -> Step:
    """d = f16x2, or from PTX 9.2 on bf16x2, of a pair: exact."""
    decoder.need_target(*NARROW[source].targets)
    _need(instruction, "rn")
    table = _halves_of(source, to, instruction.has("relu"))
    get, put = decoder.source(instruction.operands[1], source), decoder.sink(instruction.operands[0], to)

    def convert(warp: Warp) -> None:
        bits = np.ascontiguousarray(get(warp)).view(U8)
        if source == "e2m1x2":
            bits = _flat(interleaved(bits & U8.type(15), bits >> U8.type(4)))
        put(warp, table[bits])

    return convert


# -- scales ------------------------------------------------------------------------------------------------------------


def _to_scales(instruction: Instruction, decoder: Decoder, source: str) -> Step:
    """d = ue8m0x2: powers of two of |a|, rounded down (.rz) or up (.rp); 0xFF for NaN and what is too large."""
    decoder.need_target(*BLACKWELL)
    _need(instruction, "rz", "rp")
    get, put = _pairs(instruction, decoder, source), decoder.sink(instruction.operands[0], "ue8m0x2")
    up, limited = instruction.has("rp"), instruction.has("satfinite")

    def convert(warp: Warp) -> None:
        bits = get(warp).view(U32) & U32.type(0x7FFFFFFF)
        exponent = bits >> 23
        if up:
            power = np.where(exponent == 0, U32.type(0x400000), exponent << 23)  # 2^-127 is subnormal
            exponent = exponent + ((bits > power) & (exponent < 255))
        if limited:
            exponent = np.where((exponent == 255) & (bits <= 0x7F800000), U32.type(254), exponent)
        put(warp, exponent.astype(U8).view(U16))

    return convert


def _from_scales(instruction: Instruction, decoder: Decoder) -> Step:
    """d = bf16x2 of ue8m0x2: exact; 2^-127 is subnormal, 0xFF is NaN."""
    decoder.need_target(*BLACKWELL)
    _need(instruction, "rn")
    get, put = decoder.source(instruction.operands[1], "ue8m0x2"), decoder.sink(instruction.operands[0], "bf16x2")
    table = np.arange(256).astype(U16) << U16.type(7)
    table[0], table[255] = 0x0040, 0x7FFF

    def convert(warp: Warp) -> None:
        put(warp, table[np.ascontiguousarray(get(warp)).view(U8)])

    return convert


# -- cvt.pack ----------------------------------------------------------------------------------------------------------


@op(
    *(f"cvt.pack.sat.{k}16.s32" for k in "us"), *(f"cvt.pack.sat.{k}{bits}.s32.b32" for k in "us" for bits in (2, 4, 8))
)
def pack(instruction: Instruction, decoder: Decoder) -> Step:
    """cvt.pack: two integers, saturated, into the lowest bits of d, b lowest; c is shifted in above: 9.7.9.22."""
    kind = instruction.modifiers[2]
    bits = int(kind[1:])
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    to, *operands = instruction.operands
    if len(operands) != (2 if bits == 16 else 3):
        raise NotModelled(f"{instruction.name} with {len(operands)} sources", instruction.where)
    put = decoder.sink(to, "u32")
    get_a, get_b = (decoder.source(x, "s32") for x in operands[:2])
    get_c = decoder.source(operands[2], "b32") if bits < 16 else None
    mask = U32.type((1 << bits) - 1)

    def part(value: np.ndarray) -> np.ndarray:
        return np.minimum(np.maximum(value, least), most).view(U32) & mask

    def convert(warp: Warp) -> None:
        result = part(get_b(warp)) | (part(get_a(warp)) << bits)
        if get_c is not None:
            result = result | (get_c(warp) << (2 * bits))
        put(warp, result)

    return convert
