"""Approximations (PTX ISA 9.7.3 and 9.7.4): .approx and .full.

The ISA bounds the error and fixes special values; the hardware's last bits are its own. Here the result is that of
float64, rounded to nearest: at least as close as any implementation has to be.

    rcp.approx.f32     1 ulp                            ex2.approx.f32    2 ulp
    rsqrt.approx.f32   2 ulp                            lg2.approx.f32    2^-22, in [0.5, 2] absolute
    sqrt.approx.f32    2^-23 relative                   tanh.approx.f32   2^-11 relative
    div.approx.f32     2 ulp, |b| in [2^-126, 2^126]    sin, cos          2^-20.5, 2^-20.5 absolute in [-pi, pi]
    div.full.f32       2 ulp
    ex2.approx.f16     2^-9.9 relative                  tanh.approx.f16   2^-10.987 absolute
    ex2.approx.bf16    2^-7 relative                    tanh.approx.bf16  2^-8 relative
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator.arithmetic import BF16, F16, F32, F64, canonical, canonical32, round_bf16
from scalec.emulator.instructions.float import ELEMENTS, expect, finished, steps
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

    return steps(instruction, decoder, finished(instruction, compute), kind)


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

    return steps(instruction, decoder, finished(instruction, compute), "f32")
