"""The arithmetic of tensor cores: operands decoded, products exact, sums rounded once.

Products of all operand types are exact in float64, and so are sums of one instruction's products wherever their
exponents lie within 53 bits of each other; the accumulator is added before the one rounding to the result's type. What
the hardware does with fewer bits is a mode of its own: see MODES.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

import ml_dtypes
import numpy as np

from scalec.emulator.findings import NotModelled


@dataclass(frozen=True)
class Operand:
    """An operand type: bits of an element in memory, and its numpy dtype."""

    bits: int
    dtype: np.dtype


OPERANDS = {
    "f16": Operand(16, np.dtype(np.float16)),
    "bf16": Operand(16, np.dtype(ml_dtypes.bfloat16)),
    "tf32": Operand(32, np.dtype(np.float32)),
    "e4m3": Operand(8, np.dtype(ml_dtypes.float8_e4m3fn)),
    "e5m2": Operand(8, np.dtype(ml_dtypes.float8_e5m2)),
    "s8": Operand(8, np.dtype(np.int8)),
    "u8": Operand(8, np.dtype(np.uint8)),
}
_TF32_MASK = np.uint32(0xFFFFE000)  # the low 13 bits of a tf32 operand are not looked at (PTX ISA 5.2.3)
# mode -> function (a (m, k), b (n, k), c (m, n) or None, operand type, result type) -> (m, n); None: no such mode for
# the types, which then are exact
MODES: dict[str, str] = {"exact": "", "hopper": "scalec.emulator.tensor_hopper"}


@cache
def _table(kind: str) -> np.ndarray:
    """float64 (256,): the values of an 8-bit type."""
    return np.arange(256, dtype=np.uint8).view(OPERANDS[kind].dtype).astype(np.float64)


def decode(data: np.ndarray, kind: str) -> np.ndarray:
    """Operand bytes -> float64: uint8 (rows, k * bytes) -> (rows, k)."""
    if OPERANDS[kind].bits == 8:
        return _table(kind)[data]
    data = np.ascontiguousarray(data)
    if kind == "tf32":
        return (data.view(np.uint32) & _TF32_MASK).view(np.float32).astype(np.float64)
    return data.view(OPERANDS[kind].dtype).astype(np.float64)


def multiply(
    a: np.ndarray, b: np.ndarray, c: np.ndarray | None, kind: str, result: str, mode: str = "exact"
) -> np.ndarray:
    """One instruction: a @ b.T + c.

    Args:
        a, b: float64 (m, k), (n, k).
        c: (m, n) of the result's type, or None for zero.
        kind: operand type of A.
        result: "f32", "f16" or "s32" (which wraps).
        mode: a name of MODES.

    Returns:
        (m, n) of the result's type.
    """
    function = _mode(mode)
    if function is not None and result in ("f32", "f16"):
        found = function(a, b, c, kind, result)
        if found is not None:
            return found
    with np.errstate(all="ignore"):
        total = a @ b.T
        if result == "s32":
            whole = total.astype(np.int64) if c is None else total.astype(np.int64) + c
            return whole.astype(np.int32)
        if c is not None:
            total += c
        return total.astype(np.float32 if result == "f32" else np.float16)


@cache
def _mode(mode: str) -> Callable | None:
    if mode not in MODES:
        raise NotModelled(f"tensor-core mode {mode!r}; there are {', '.join(MODES)}")
    return import_module(MODES[mode]).multiply if MODES[mode] else None
