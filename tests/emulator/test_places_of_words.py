"""Every element of 4 bits at every place of a word, on its own: as stored, reordered, and in shared memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.formats import ELEMENT_TYPES, FRAGMENTS_TEXT, fragments
from scalec.layouts import for_registers
from scalec.reference.packing import numpy_dtype
from scalec.runtime.emulated import EmulatedDevice

K = 128
CODES = (np.arange(16)[:, None] + np.arange(K)) % 16
VALUES = {
    "e2m1": CODES.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32),
    "i4": (CODES ^ 8) - 8.0,
    "u4": CODES - 8.0,
}
PACKED = (CODES[:, ::2] | CODES[:, 1::2] << 4).astype(np.uint8)
WAYS = ["convert=registers, swap=1", "reordered", "convert=shared"]


@pytest.mark.once("stored", "made")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("made", ["e4m3", "bf16", "f16"])
@pytest.mark.parametrize("stored", VALUES)
def test_every_element_at_every_place(stored: str, made: str, way: str) -> None:
    """A row of A picks one of K: what comes out is what is in memory, a scale of one aside."""
    reordered = way == "reordered"
    place = FRAGMENTS_TEXT[fragments(stored, ELEMENT_TYPES[made])].format("k") if reordered else "k"
    weights = f"(B[n, {place}]:u4 - 8)" if stored == "u4" else f"B[n, {place}]:{stored}"
    schedule = "tile=64x128x128, swap=1" if reordered else way
    program = f"C[m,n]:f32 = A[m,k]:{made} @ {weights} scale(none, 1x{K}) with {schedule}"
    kernel = scalec.compile(program, target="sm_90a", dims={"k": K})
    kernel.fixed = EmulatedDevice("sm_90a")
    scales = np.ones((16, 1), np.float32)
    given = for_registers(PACKED, stored, made) if reordered else PACKED
    got = np.asarray(kernel(np.eye(K, dtype=np.float32).astype(numpy_dtype(made)), given, scales))
    assert (got == VALUES[stored].T).all()
