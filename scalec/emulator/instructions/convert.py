"""cvt (PTX ISA 9.7.9.21): between integers and floats, and into packed pairs of narrow floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator import arithmetic
from scalec.emulator.arithmetic import BF16, F16, F32, F64, I64, ROUNDINGS, canonical, flush, relu, saturate
from scalec.emulator.findings import NotModelled
from scalec.emulator.instructions.table import DTYPES, Decoder, Step, op
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

Convert = Callable[[np.ndarray], np.ndarray]

INTEGERS = tuple(f"{k}{bits}" for k in "su" for bits in (8, 16, 32, 64))
FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
INTEGER_ROUNDINGS: dict[str, Convert] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_PAIRS = {"f16x2": F16, "bf16x2": BF16}


@op("cvt")
def cvt(instruction: Instruction, decoder: Decoder) -> Step:
    """cvt: 9.7.9.21."""
    decoder.only(instruction, ROUNDINGS, INTEGER_ROUNDINGS, "ftz", "sat", "relu", "satfinite")
    to, source = instruction.types
    if to in _PAIRS and source == "f32":
        return _pair(instruction, decoder, to)
    if not {to, source} <= {*INTEGERS, *FLOATS}:
        raise NotModelled(instruction.name, instruction.where)
    if source in INTEGERS:
        convert = _from_integer(instruction, to, source)
    elif to in INTEGERS:
        convert = _to_integer(instruction, to, FLOATS[source])
    else:
        convert = _among_floats(instruction, FLOATS[to], FLOATS[source])
    get, put = decoder.source(instruction.operands[1], source), decoder.sink(instruction.operands[0], to)

    def run(warp: Warp) -> None:
        put(warp, convert(get(warp)))

    return run


def _rounding(instruction: Instruction) -> str:
    return next((m for m in instruction.modifiers if m in ROUNDINGS), "rn")


def _finished(instruction: Instruction, convert: Convert, flushes: np.dtype | None, to: np.dtype | None) -> Convert:
    """`convert` with .ftz (of float32 `flushes` in, `to` out), .sat and .relu of a float result."""
    chain = []
    if instruction.has("ftz") and flushes == F32:
        chain.append(flush)
    chain.append(convert)
    if instruction.has("ftz") and to == F32:
        chain.append(flush)
    if to is not None and instruction.has("sat"):
        chain.append(saturate)
    if instruction.has("relu"):
        chain.append(relu)
    if len(chain) == 1:
        return convert

    def run(value: np.ndarray) -> np.ndarray:
        for function in chain:
            value = function(value)
        return value

    return run


# -- integers ----------------------------------------------------------------------------------------------------------


def _from_integer(instruction: Instruction, to: str, source: str) -> Convert:
    have, want = DTYPES[source], DTYPES[to]
    if to in FLOATS:
        return _finished(instruction, integer_to_float(have, want, _rounding(instruction)), None, want)
    if not instruction.has("sat"):
        return lambda value: value.astype(want)
    low = max(np.iinfo(want).min, np.iinfo(have).min)
    high = min(np.iinfo(want).max, np.iinfo(have).max)
    least, most = have.type(low), have.type(high)
    return lambda value: np.minimum(np.maximum(value, least), most).astype(want)


def integer_to_float(have: np.dtype, want: np.dtype, rounding: str) -> Convert:
    """Integers -> floats, rounded once."""
    if rounding == "rn" and want in (F32, F64):
        return lambda value: value.astype(want)
    if have.itemsize < 8:
        if want == F64:
            return lambda value: value.astype(F64)
        narrow = narrowing(want, rounding)
        return lambda value: narrow(value.astype(F64))
    low = have.type(0xFFF)

    def wide(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return arithmetic.two_sum((value & ~low).astype(F64), (value & low).astype(F64))  # both exact

    if want == F64:
        return lambda value: arithmetic.directed(*wide(value), rounding)
    narrow = narrowing(want, rounding)
    return lambda value: narrow(arithmetic.to_odd(*wide(value)))


def _to_integer(instruction: Instruction, to: str, have: np.dtype) -> Convert:
    integral = next((INTEGER_ROUNDINGS[m] for m in instruction.modifiers if m in INTEGER_ROUNDINGS), None)
    if integral is None:
        raise NotModelled(f"{instruction.name} without .rni, .rzi, .rmi or .rpi", instruction.where)
    return _finished(instruction, float_to_integer(have, DTYPES[to], integral), have, None)


def float_to_integer(have: np.dtype, want: np.dtype, integral: Convert) -> Convert:
    """Floats -> integers: what is out of range becomes the nearest integer of the type.

    NaN becomes 0, but of f64, or as a 64-bit integer, the one with the highest bit alone.
    """
    limits = np.iinfo(want)
    least, most = float(limits.min), float(limits.max)
    wide = want.itemsize == 8
    nan = want.type(limits.min if want.kind == "i" else limits.max // 2 + 1) if wide or have == F64 else want.type(0)

    def convert(value: np.ndarray) -> np.ndarray:
        value = integral(value.astype(F64))
        flat = value if have != F64 else np.fmin(np.fmax(value, -1e100), 1e100) * value
        square = np.dot(flat, flat)
        if wide:
            inside = (value >= least) & (value < most)
            result = np.where(inside, value, 0.0).astype(want)
            result = np.where(value >= most, want.type(limits.max), result)
            result = np.where(value < least, want.type(limits.min), result)
        else:
            result = np.fmin(np.fmax(value, least), most).astype(I64).astype(want)
        return result if square == square else np.where(value == value, result, nan)

    return convert


# -- floats ------------------------------------------------------------------------------------------------------------


def narrowing(want: np.dtype, rounding: str) -> Convert:
    """float64 (exact, or rounded to odd) -> a narrower float, rounded once."""
    if want == F32:
        return lambda wide: arithmetic.round32(wide, rounding)
    if want == BF16:

        def nearest(wide: np.ndarray) -> np.ndarray:
            return arithmetic.odd32(wide).astype(BF16)
    else:

        def nearest(wide: np.ndarray) -> np.ndarray:
            return wide.astype(want)

    if rounding == "rn":
        return lambda wide: canonical(nearest(wide))

    def convert(wide: np.ndarray) -> np.ndarray:
        result = nearest(wide)
        return canonical(arithmetic.directed(result, wide - result.astype(F64), rounding))

    return convert


def _among_floats(instruction: Instruction, to: np.dtype, have: np.dtype) -> Convert:
    integral = next((INTEGER_ROUNDINGS[m] for m in instruction.modifiers if m in INTEGER_ROUNDINGS), None)
    return _finished(instruction, float_to_float(have, to, _rounding(instruction), integral), have, to)


def float_to_float(have: np.dtype, want: np.dtype, rounding: str, integral: Convert | None = None) -> Convert:
    if integral is not None:
        return lambda value: canonical(integral(value)).astype(want)
    if have == want:
        return lambda value: value
    if want == F32 and have != F64:
        return lambda value: arithmetic.canonical32(value.astype(F32))
    if want == F64:
        return lambda value: value.astype(F64)
    if rounding == "rn" and have == F32:
        return lambda value: canonical(value.astype(want))
    narrow = narrowing(want, rounding)
    return lambda value: narrow(value.astype(F64))


# -- pairs -------------------------------------------------------------------------------------------------------------


def _pair(instruction: Instruction, decoder: Decoder, to: str) -> Step:
    """d = (a, b), a in the upper half."""
    d, *operands = instruction.operands
    upper, lower = (decoder.source(x, "f32") for x in operands)
    put = decoder.sink(d, to)
    dtype = _PAIRS[to]
    if instruction.has("rn") and not instruction.has("relu") and not instruction.has("satfinite"):

        def nearest(warp: Warp) -> None:
            a, b = upper(warp), lower(warp)
            result = np.empty((32, 2), dtype)
            result[:, 1], result[:, 0] = a, b
            square = np.dot(a, a) + np.dot(b, b)
            put(warp, (result if square == square else canonical(result)).reshape(64))

        return nearest
    raise NotModelled(instruction.name, instruction.where)
