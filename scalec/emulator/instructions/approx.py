"""Approximations (PTX ISA 9.7.3 and 9.7.4): .approx and .full.

The ISA bounds the error and fixes special values; the hardware's last bits are its own. Here the result is that of
float64, rounded to nearest: at least as close as any implementation has to be.

    rcp.approx.f32    1 ulp                                   ex2.approx.f32   2 ulp
    rsqrt.approx.f32  2^-22.9 relative                        sqrt.approx.f32  2^-23 relative
    div.approx.f32    2 ulp for |b| in [2^-126, 2^126]        div.full.f32     2 ulp
    lg2.approx.f32    2^-22 absolute in (0.5, 2), else        tanh.approx.f32  2^-11 relative
                      2^-22 relative                          sin, cos         2^-20.5 absolute in [-2 pi, 2 pi]
    ex2.approx.f16    2^-9.9 relative                         ex2.approx.bf16  2^-7 relative
    tanh.approx.f16   2^-10.987 absolute                      tanh.approx.bf16 2^-8 absolute
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator.arithmetic import BF16, F16, F32, F64, U64, canonical, canonical32, flush, quiet, round_bf16
from scalec.emulator.instructions.float import ELEMENTS, expect, flushing, steps
from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.program import Instruction

_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "rcp": lambda a: 1 / a,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sqrt": np.sqrt,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "div": lambda a, b: a / b,
}
_NARROW: dict[np.dtype, Callable[[np.ndarray], np.ndarray]] = {
    F32: lambda wide: canonical32(wide.astype(F32)),
    F16: lambda wide: canonical(wide.astype(F16)),
    BF16: round_bf16,
}


@op(
    *(f"{n}.approx{f}.f32" for n in ("rcp", "rsqrt", "sqrt", "ex2", "lg2", "sin", "cos") for f in ("", ".ftz")),
    "tanh.approx.f32",
    *(f"{n}.approx.{k}" for n in ("ex2", "tanh") for k in ("f16", "f16x2")),
    *("tanh.approx.bf16", "tanh.approx.bf16x2", "ex2.approx.ftz.bf16", "ex2.approx.ftz.bf16x2"),
)
def approximation(instruction: Instruction, decoder: Decoder) -> Step:
    """rcp, rsqrt, sqrt, ex2, lg2, sin, cos, tanh: 9.7.3.13 to 9.7.3.22, 9.7.4.9, 9.7.4.10."""
    expect(instruction, 2)
    kind = instruction.types[-1]
    function, narrow = _FUNCTIONS[instruction.opcode], _NARROW[ELEMENTS[kind]]

    def compute(a: np.ndarray) -> np.ndarray:
        return narrow(function(a.astype(F64)))

    return steps(instruction, decoder, flushing(instruction, compute), kind)


@op(*(f"div.{m}{f}.f32" for m in ("approx", "full") for f in ("", ".ftz")))
def division(instruction: Instruction, decoder: Decoder) -> Step:
    """div.approx, div.full: 9.7.3.8; .approx gives 0 for a finite a and |b| in (2^126, 2^128)."""
    expect(instruction, 3)
    lost = np.float32(2.0**126)
    full = instruction.has("full")

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = a.astype(F64) / b.astype(F64)
        if not full:
            size = np.abs(b)
            result = np.where((size > lost) & (size < np.inf), a * np.copysign(0.0, b), result)
        return canonical32(result.astype(F32))

    return steps(instruction, decoder, flushing(instruction, compute), "f32")


_CANONICAL64 = np.uint64(0x7FFFFFFF << 32)
_UPPER = np.uint64(0xFFFFFFFF << 32)


@op("rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", "rsqrt.approx.f64")
def approximate_double(instruction: Instruction, decoder: Decoder) -> Step:
    """rcp and rsqrt.approx.ftz.f64: 9.7.3.14, 9.7.3.17, of the upper 32 bits; rsqrt.approx.f64: 9.7.3.16."""
    expect(instruction, 2)
    function = _FUNCTIONS[instruction.opcode]
    if not instruction.has("ftz"):
        return steps(instruction, decoder, lambda a: quiet(function(a)), "f64")

    def compute(a: np.ndarray) -> np.ndarray:
        operand = flush((a.view(U64) & _UPPER).view(F64))
        result = np.where(np.signbit(operand) & (operand == 0), -np.inf, function(operand))
        bits = np.where(np.isnan(result), _CANONICAL64, result.view(U64) & _UPPER)
        return flush(bits.view(F64))

    return steps(instruction, decoder, compute, "f64")
