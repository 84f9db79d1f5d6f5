"""What bulk reductions do to global memory, and the rules of bulk copies without a tensor map.

PTX ISA 9.7.9.25.4.2 "cp.reduce.async.bulk" and 9.7.9.25.5.3 "cp.reduce.async.bulk.tensor". What the ISA leaves open is
as an H200 has it (2026-11-21).
"""

from __future__ import annotations

import numpy as np
from ml_dtypes import bfloat16

from scalec.emulator.findings import Finding

_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_INTEGERS = {"u32": np.uint32, "s32": np.int32, "b32": np.uint32, "u64": np.uint64, "s64": np.int64, "b64": np.uint64}
_FLOATS = {
    "f16": (np.float16, np.uint16, 0x7FFF),
    "bf16": (bfloat16, np.uint16, 0x7FFF),
    "f32": (np.float32, np.uint32, 0x7FFFFFFF),
    "f32_ftz": (np.float32, np.uint32, 0x7FFFFFFF),
    "f64": (np.float64, np.uint64, None),
}
# operation: element types, of a tensor map and of cp.reduce.async.bulk (PTX ISA 9.7.9.25.5.3 and 9.7.9.25.4.2, tables).
# .b32 and .b64 are no element types: an H200 takes u32, s32 and u64 for them and traps on s64.
_LOGIC = {"u32", "s32", "u64"}
_EXTREMES = {"u32", "s32", "u64", "s64", "f16", "bf16"}
TENSOR_REDUCTIONS = {
    "add": {"u32", "s32", "u64", "f32", "f32_ftz", "f16", "bf16"},
    "min": _EXTREMES,
    "max": _EXTREMES,
    "inc": {"u32"},
    "dec": {"u32"},
    "and": _LOGIC,
    "or": _LOGIC,
    "xor": _LOGIC,
}
_BULK_LOGIC = {"b32", "b64"}
BULK_REDUCTIONS = {
    **TENSOR_REDUCTIONS,
    "add": {"u32", "s32", "u64", "f32", "f64", "f16", "bf16"},
    "and": _BULK_LOGIC,
    "or": _BULK_LOGIC,
    "xor": _BULK_LOGIC,
}
# into the shared memory of a CTA of the cluster: 9.7.9.25.4.2, table of .shared::cluster
CLUSTER_REDUCTIONS = {
    "add": {"u32", "s32", "u64"},
    "min": {"u32", "s32"},
    "max": {"u32", "s32"},
    "inc": {"u32"},
    "dec": {"u32"},
    "and": {"b32"},
    "or": {"b32"},
    "xor": {"b32"},
}

_ALL = {operation: TENSOR_REDUCTIONS[operation] | BULK_REDUCTIONS[operation] for operation in TENSOR_REDUCTIONS}


def reduce(
    operation: str, element: str, old: np.ndarray, new: np.ndarray, allowed: dict[str, set[str]] = _ALL
) -> np.ndarray:
    """The new contents of global memory: `old` reduced with `new`, element by element.

    NaN results are one NaN; min and max ignore a NaN and order -0 below +0; f32 keeps subnormals and f32_ftz flushes
    those of operands and results (all as an H200 has it). cp.reduce.async.bulk.add.f32 keeps them on an H200, although
    PTX ISA 9.7.9.27.4.2 says that it flushes.

    Args:
        operation: "add", "min", "max", "inc", "dec", "and", "or" or "xor".
        old, new: uint8, of one shape, whole elements.
        allowed: `TENSOR_REDUCTIONS` or `BULK_REDUCTIONS`; either's by default.

    Returns:
        uint8, of the shape of `old`.

    Raises:
        Finding: illegal, of a combination that the ISA's table does not have.
    """
    if element not in allowed.get(operation, ()):
        raise Finding(
            "illegal",
            f"a bulk reduction .{operation} of {element} elements",
            expected=f"for .{operation}: {', '.join(sorted(allowed.get(operation, ())))}",
        )
    old, new = np.ascontiguousarray(old), np.ascontiguousarray(new)
    if element in _INTEGERS:
        kind = _INTEGERS[element]
        return _reduced_integers(operation, old.view(kind), new.view(kind)).view(np.uint8)
    if operation == "add":
        return _sum(element, old, new).view(np.uint8)
    return _extreme(element, operation == "min", old.view(np.uint16), new.view(np.uint16)).view(np.uint8)


def _reduced_integers(operation: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if operation == "inc":
        return np.where(a >= b, 0, a + 1).astype(a.dtype)
    if operation == "dec":
        return np.where((a == 0) | (a > b), b, a - 1).astype(a.dtype)
    return {"add": np.add, "min": np.minimum, "max": np.maximum, **_BITWISE}[operation](a, b)


def _sum(element: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    kind, bits, nan = _FLOATS[element]
    flushes = element == "f32_ftz"
    a, b = (_flushed(x.view(bits)).view(kind) if flushes else x.view(kind) for x in (old, new))
    with np.errstate(all="ignore"):
        total = a + b
    result = total.view(bits)
    if flushes:
        result = _flushed(result)
    return result if nan is None else np.where(np.isnan(total), bits(nan), result)


def _flushed(bits: np.ndarray) -> np.ndarray:
    """f32 subnormals to zeros of their sign."""
    return np.where(bits & np.uint32(0x7F800000) == 0, bits & np.uint32(0x80000000), bits)


def _extreme(element: str, least: bool, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    infinity = np.uint16(0x7C00 if element == "f16" else 0x7F80)
    magnitude = np.uint16(0x7FFF)
    a_nan, b_nan = (a & magnitude) > infinity, (b & magnitude) > infinity
    # as signed integers, with the magnitude of negatives turned round, the bits are in the order of the numbers
    a_key, b_key = (np.where(x >> np.uint16(15) == 1, x ^ magnitude, x).view(np.int16) for x in (a, b))
    chosen = np.where((a_key <= b_key) == least, a, b)
    return np.where(a_nan & b_nan, magnitude, np.where(a_nan, b, np.where(b_nan, a, chosen)))
