"""Constants of epilogues through the two LLVMs: each must reach PTX as the nearest f32."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

from scalec.compiler import compile_source
from tests.early import without_what_follows


@pytest.mark.parametrize(
    "text", ["0.1", "0.044715", "1e-3", "3", "0.5", "1e10", "16777217", "3.4e38", "1e-40", "0.3333333333"]
)
def test_a_constant_is_the_nearest_f32(text: str) -> None:
    with without_what_follows(["ptx"]):
        ptx = compile_source(f"C[m,n]:f32 = (A[m,k]@B[n,k]) * {text}", dims={"n": 64, "k": 64}, until="ptx").ptx
    wanted = np.float32(float(text))
    found = {struct.unpack(">f", bytes.fromhex(h))[0] for h in re.findall(r"0f([0-9A-F]{8})", ptx)}
    assert float(wanted) in found


def test_infinity() -> None:
    ptx = compile_source("C[m,n]:f32 = min(A[m,k]@B[n,k], inf)", dims={"n": 64, "k": 64}, until="ptx").ptx
    assert "0f7F800000" in ptx or str(0x7F800000) in ptx


@pytest.mark.parametrize("text", ["inf - inf", "inf * 0"])
def test_what_is_folded_to_nan(text: str) -> None:
    ptx = compile_source(f"Y[m,n]:f32 = max(X[m,n], {text})", until="ptx").ptx
    assert "0f7FC00000" in ptx or str(0x7FC00000) in ptx


def test_the_contraction_is_m_by_n_whatever_came_first() -> None:
    source = "V[n] = relu(b[n]); C[m,n] = A[m,k]@B[n,k] + V[n]"
    assert compile_source(source, dims={"n": 64, "k": 64}, until="tile").spec is not None
