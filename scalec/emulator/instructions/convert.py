"""cvt between integers and floats, and to tf32 (PTX ISA 9.7.9.21); pairs of narrow floats are in convert_packed.py."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator import arithmetic
from scalec.emulator.arithmetic import (
    BF16,
    F16,
    F32,
    F64,
    I64,
    ROUNDINGS,
    U32,
    canonical,
    finite,
    flush,
    relu,
    saturate,
)
from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.instructions.convert_packed import is_packed, packed
from scalec.emulator.instructions.table import DTYPES, Decoder, Step, applied, op
from scalec.emulator.program import Instruction

Convert = Callable[[np.ndarray], np.ndarray]

INTEGERS = tuple(f"{k}{bits}" for k in "su" for bits in (8, 16, 32, 64))
FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
INTEGER_ROUNDINGS: dict[str, Convert] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@op("cvt")
def cvt(instruction: Instruction, decoder: Decoder) -> Step:
    """cvt: 9.7.9.21."""
    decoder.only(instruction, ROUNDINGS, INTEGER_ROUNDINGS, "rna", "rs", "ftz", "sat", "relu", "satfinite")
    if len(instruction.types) != 2 or instruction.has("rs"):
        raise NotModelled(instruction.name, instruction.where)
    to, source = instruction.types
    if is_packed(to, source):
        return packed(instruction, decoder, to, source)
    if to == "tf32" and source == "f32":
        convert = _to_tf32(instruction)
    elif not {to, source} <= {*INTEGERS, *FLOATS}:
        raise NotModelled(instruction.name, instruction.where)
    else:
        _check_rounding(instruction, to, source)
        if source in INTEGERS:
            convert = _from_integer(instruction, to, source)
        elif to in INTEGERS:
            convert = _to_integer(instruction, to, FLOATS[source])
        else:
            convert = _among_floats(instruction, FLOATS[to], FLOATS[source])
    get, put = decoder.source(instruction.operands[1], source), decoder.sink(instruction.operands[0], to)
    return applied(convert, put, get)


def _float_rounding(instruction: Instruction) -> str | None:
    return next((m for m in instruction.modifiers if m in ROUNDINGS), None)


def _integer_rounding(instruction: Instruction) -> str | None:
    return next((m for m in instruction.modifiers if m in INTEGER_ROUNDINGS), None)


def _check_rounding(instruction: Instruction, to: str, source: str) -> None:
    """Which roundings a conversion must have, and may.

    Raises:
        Finding: illegal.
    """
    have = _float_rounding(instruction) or _integer_rounding(instruction)
    if to in INTEGERS:
        allowed = () if source in INTEGERS else tuple(INTEGER_ROUNDINGS)
        required = bool(allowed)
    elif source in INTEGERS or (to != source and (DTYPES[to].itemsize <= DTYPES[source].itemsize)):
        # between the two halves ptxas takes none for .rn, and Triton relies on it
        allowed, required = ROUNDINGS, {to, source} != {"f16", "bf16"}
    else:
        allowed, required = (tuple(INTEGER_ROUNDINGS) if to == source else ()), False
    if (have is None and required) or (have is not None and have not in allowed):
        expected = " or ".join(f".{a}" for a in allowed)
        raise Finding(
            "illegal",
            f"{instruction.name} has {f'.{have}' if have else 'no rounding'}",
            expected=(expected + ("" if required else ", or none")) if allowed else "no rounding",
        )


def _finished(instruction: Instruction, convert: Convert, have: np.dtype | None, to: np.dtype | None) -> Convert:
    """`convert` with .ftz of float32 `have` and `to`, and .sat, .satfinite and .relu of a float result `to`.

    An H200 does not flush what becomes float16, and makes NaNs canonical where it flushes.
    """
    chain = [convert]
    if instruction.has("ftz"):
        if have == F32 and to != F16:
            chain = [flush, canonical, *chain]
        if have == F64:
            rounding = _float_rounding(instruction) or "rn"
            chain = [lambda value: arithmetic.flush_rounded(convert(value), lambda: value, rounding)]
        elif to == F32:
            chain += [flush, canonical]
    if to is not None and instruction.has("sat"):
        chain.append(saturate)
    if instruction.has("satfinite"):
        chain.append(finite)
    if instruction.has("relu"):
        chain.append(relu)
    if len(chain) == 1:
        return chain[0]

    def run(value: np.ndarray) -> np.ndarray:
        for function in chain:
            value = function(value)
        return value

    return run


# -- integers ----------------------------------------------------------------------------------------------------------


def _from_integer(instruction: Instruction, to: str, source: str) -> Convert:
    have, want = DTYPES[source], DTYPES[to]
    if to in FLOATS:
        return _finished(instruction, integer_to_float(have, want, _float_rounding(instruction) or "rn"), None, want)
    if not instruction.has("sat"):
        return lambda value: value.astype(want)
    least = have.type(max(np.iinfo(want).min, np.iinfo(have).min))
    most = have.type(min(np.iinfo(want).max, np.iinfo(have).max))
    return lambda value: np.minimum(np.maximum(value, least), most).astype(want)


def integer_to_float(have: np.dtype, want: np.dtype, rounding: str) -> Convert:
    """Integers -> floats, rounded once."""
    if rounding == "rn" and want in (F32, F64):
        return lambda value: value.astype(want)
    if have.itemsize < 8:
        if want == F64:
            return lambda value: value.astype(F64)
        return lambda value: arithmetic.narrow(value.astype(F64), want, rounding)
    low = have.type(0xFFF)

    def wide(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return arithmetic.two_sum((value & ~low).astype(F64), (value & low).astype(F64))  # both parts are exact

    if want == F64:
        return lambda value: arithmetic.directed(*wide(value), rounding)
    return lambda value: arithmetic.narrow(arithmetic.to_odd(*wide(value)), want, rounding)


def _to_integer(instruction: Instruction, to: str, have: np.dtype) -> Convert:
    integral = INTEGER_ROUNDINGS[_integer_rounding(instruction) or "rzi"]
    return _finished(instruction, float_to_integer(have, DTYPES[to], integral), have, None)


def float_to_integer(have: np.dtype, want: np.dtype, integral: Convert) -> Convert:
    """Floats -> integers: what is out of range becomes the nearest integer of the type.

    NaN becomes 0, but from f64, or as a 64-bit integer, the one with the highest bit alone (Integer Notes of 9.7.9.21).
    """
    limits = np.iinfo(want)
    least, most = float(limits.min), float(limits.max)
    nan = 0
    if want.itemsize == 8 or have == F64:
        nan = limits.min if want.kind == "i" else limits.max // 2 + 1

    def clamped(value: np.ndarray) -> np.ndarray:
        return np.fmin(np.fmax(value, least), most).astype(I64).astype(want)

    def clamped64(value: np.ndarray) -> np.ndarray:
        result = np.where((value >= least) & (value < most), value, 0.0).astype(want)
        result = np.where(value >= most, limits.max, result)  # float(max) is max + 1
        return np.where(value < least, limits.min, result)

    clamp = clamped64 if want.itemsize == 8 else clamped

    def convert(value: np.ndarray) -> np.ndarray:
        value = integral(value.astype(F64))
        result = clamp(value)
        square = np.vdot(value, value)
        return result if square == square else np.where(value == value, result, want.type(nan))

    return convert


# -- floats ------------------------------------------------------------------------------------------------------------


def _among_floats(instruction: Instruction, to: np.dtype, have: np.dtype) -> Convert:
    name = _integer_rounding(instruction)
    convert = float_to_float(have, to, _float_rounding(instruction) or "rn", INTEGER_ROUNDINGS[name] if name else None)
    return _finished(instruction, convert, have, to)


def float_to_float(have: np.dtype, want: np.dtype, rounding: str = "rn", integral: Convert | None = None) -> Convert:
    """Floats -> floats, rounded once, or to an integral value."""
    if integral is not None:
        return integral if have == F64 else lambda value: canonical(integral(value))
    if have == want:
        return lambda value: value
    if want == F64:
        return lambda value: value.astype(F32).astype(F64)  # the second step makes NaNs quiet
    if have == BF16 and want == F32:
        return lambda value: value.astype(F32)
    if have == F16 and want == F32:
        return lambda value: arithmetic.canonical32(value.astype(F32))
    if have == F64:
        return lambda value: _plain_nans(value, arithmetic.narrow(value, want, rounding))
    if rounding == "rn" and have == F32:
        return lambda value: canonical(value.astype(want))
    return lambda value: arithmetic.narrow(value.astype(F64), want, rounding)


_PLAIN = {F16: 0x7E00, BF16: 0x7FC0, F32: 0x7FC00000}


def _plain_nans(value: np.ndarray, result: np.ndarray) -> np.ndarray:
    """NaNs of float64 keep their sign and lose their payload, as an H200 has it."""
    nan = np.isnan(value)
    if not nan.any():
        return result
    bits = arithmetic.UNSIGNED[result.dtype]
    plain = np.where(np.signbit(value), arithmetic.SIGN[result.dtype], bits.type(0)) | bits.type(_PLAIN[result.dtype])
    return np.where(nan, plain, result.view(bits)).view(result.dtype)


def _to_tf32(instruction: Instruction) -> Convert:
    """float32 with 10 bits of mantissa; the 13 bits below them are 0.

    NaN is 0x7FFFE000, but of .rna, which an H200 computes as if NaNs and infinities were numbers.
    """
    keep, half, unit = U32.type(0xFFFFE000), U32.type(0x1000), U32.type(0x2000)
    positive, infinity = ~arithmetic.SIGN[F32], arithmetic.INFINITY[F32]
    away, nearest = instruction.has("rna"), instruction.has("rn")
    limited, clamped = instruction.has("satfinite"), instruction.has("relu")
    if not away and _float_rounding(instruction) not in ("rn", "rz"):
        raise Finding("illegal", f"{instruction.name} has no rounding for tf32", expected=".rna, .rn or .rz")

    def convert(value: np.ndarray) -> np.ndarray:
        bits = result = value.view(U32)
        if away:
            result = bits + half
        elif nearest:
            result = bits + (half - 1) + ((bits >> 13) & 1)
        result = result & keep
        if limited:
            result = np.where((result & positive) >= infinity, result - unit, result)
        if clamped:
            result = np.where(bits > positive, U32.type(0), result)
        if not away:
            result = np.where((bits & positive) > infinity, U32.type(0x7FFFE000), result)
        return result.view(F32)

    return convert
