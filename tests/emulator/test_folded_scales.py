"""Scales that a conversion multiplies into the elements: every byte of a scale, zeros, subnormal and NaN ones too,
times every element."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.formats import FOLDED
from scalec.reference.packing import numpy_dtype
from scalec.runtime.emulated import EmulatedDevice
from tests.emulator.test_converted import pack

SCALES = {"ue4m3": (16, ml_dtypes.float8_e4m3fn), "ue8m0": (32, ml_dtypes.float8_e8m0fnu)}
"""By type of scales: elements of a block, and what numpy has for the bytes."""

CODES = np.tile(np.arange(16, dtype=np.uint8), 2)
ELEMENTS = {"e2m1": CODES.view(ml_dtypes.float4_e2m1fn), "i4": CODES.view(ml_dtypes.int4), "u4": CODES}

ROWS = 16
"""Of the other operand: ones along the diagonal, so that each result is an element times its scale."""

CASES = [(*x, made) for x, ways in FOLDED.items() for made in ways]


def checked(stored: str, kind: str, made: str, target: str, schedule: str) -> None:
    block, own = SCALES[kind]
    bytes_ = np.arange(128 if kind == "ue4m3" else 256, dtype=np.uint8)  # of ue4m3 the sign is 0
    less = (" - 8", 8) if stored == "u4" else ("", 0)
    weights = f"(B[n,k]:u4{less[0]})" if less[1] else f"B[n,k]:{stored}"
    program = f"C[m,n]:f32 = A[m,k]:{made} @ {weights} scale(none, 1x{block}:{kind})"
    kernel = scalec.compile(f"{program} with {schedule}" if schedule else program, target=target, dims={"k": 32})
    kernel.fixed = EmulatedDevice(target)
    codes = np.tile(CODES, (len(bytes_), 1))
    a = np.eye(ROWS, 32, dtype=np.float32).astype(numpy_dtype(made))
    got = np.asarray(kernel(a, pack(codes), np.repeat(bytes_[:, None], 32 // block, axis=1).view(own)))
    with np.errstate(all="ignore"):
        values = ELEMENTS[stored].astype(np.float64) - less[1]
        wanted = (values[None] * bytes_.view(own).astype(np.float64)[:, None]).astype(np.float32).T[:ROWS]
    nan = np.isnan(bytes_.view(own).astype(np.float32))
    assert nan.sum() == 1
    assert np.isnan(got[:, nan]).all()
    infinite = np.isinf(wanted).any(axis=0) & ~nan  # zeros times infinity are NaN, in sums of these alone
    assert np.array_equal(got[:, ~nan & ~infinite], wanted[:, ~nan & ~infinite])
    assert not np.isfinite(got[:, infinite]).any()


@pytest.mark.once("kind", "made")
@pytest.mark.parametrize(("stored", "kind", "made"), CASES)
def test_in_shared_memory(stored: str, kind: str, made: str) -> None:
    checked(stored, kind, made, "sm_90a", "convert=shared")


@pytest.mark.once("stored", "tile")
@pytest.mark.parametrize("tile", ["64x16x64", "64x136x64"])
@pytest.mark.parametrize(("stored", "kind", "made"), [x for x in CASES if x[2] != "tf32"])
def test_in_registers(stored: str, kind: str, made: str, tile: str) -> None:
    """Rows are interleaved, or as copies bring them."""
    checked(stored, kind, made, "sm_90a", f"convert=registers, swap=1, tile={tile}")


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
@pytest.mark.parametrize(("stored", "kind", "made"), CASES)
def test_on_other_targets(stored: str, kind: str, made: str, target: str) -> None:
    checked(stored, kind, made, target, "")
