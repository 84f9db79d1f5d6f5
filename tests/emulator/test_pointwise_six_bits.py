"""Elements of 6 bits without a contraction, four in three bytes: results and inputs, bit for bit the reference's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.reference.packing import numpy_dtype
from tests.emulator.pointwise import (
    TARGETS,
    Values,
    bit_equal,
    bit_equal_of_0_and_1,
    bits_are_equal,
    fault_is_found,
    spoiled,
)
from tests.emulator.running import refusals

WRITTEN = [  # results of X, its sizes, those that are known
    ("Q[m,k]:mxfp6 = X[m,k]", {"m": 9, "k": 96}, "k"),
    ("Q[m,k]:mxfp6 = X[m,k]:f32", {"m": 9, "k": 97}, ""),
    ("Q[m,k]:mxfp6_e2m3 = X[m,k]:f32", {"m": 6, "k": 160}, "mk"),
    ("Q[m,k]:mxfp6_e2m3 = X[m,k]:f16", {"m": 6, "k": 99}, "k"),
    ("Q[m,k]:e3m2 scale(1x24) = X[m,k]", {"m": 6, "k": 72}, "k"),
    ("Q[m,k]:e2m3 scale(1x24) = X[m,k]", {"m": 6, "k": 75}, "k"),
    ("Q[m,k]:e2m3 scale(1x16:ue4m3*tensor) = X[m,k]", {"m": 6, "k": 98}, ""),
    ("Q[m,k]:e2m3 scale(1x16:ue4m3@blocked) = X[m,k]:f32", {"m": 130, "k": 80}, "k"),
    ("Q[m,k]:e3m2 scale(32x32:ue8m0@packed) = X[m,k]", {"m": 70, "k": 80}, ""),
    ("Q[m,k]:e2m3 scale(1xk) = X[m,k]", {"m": 10, "k": 250}, "k"),
    ("Q[m,k]:e3m2 scale(1xk) = X[m,k]", {"m": 3, "k": 2500}, ""),  # walked
    ("T[k,m]:mxfp6 = X[m,k]", {"m": 70, "k": 96}, "k"),  # turned
    ("T[k,m]:mxfp6_e2m3 = X[m,k]:f32; Q[m,k]:mxfp6 = X[m,k]", {"m": 37, "k": 67}, ""),
    ("Q[m,k]:mxfp6 = X[m,k]; P[m,k]:nvfp4 = X[m,k]; R[m,k]:e4m3 = X[m,k]", {"m": 7, "k": 102}, ""),
    ("Q[b,m,k]:mxfp6_e2m3 = relu(X[b,m,k])", {"b": 2, "m": 5, "k": 100}, "k"),
    ("Q[k]:e3m2 = X[k]", {"k": 99}, ""),
    ("Q[m,k]:e2m3 = X[m,k]", {"m": 5, "k": 128}, "k"),
    ("Q[m,k]:mxfp6 = stochastic(X[m,k], s[0], s[1])", {"m": 5, "k": 99}, ""),
    ("Q[m,k]:e2m3 = stochastic(hadamard(X[m,k]:f32, 16), s[0])", {"m": 5, "k": 96}, "k"),
    ("T[k,m]:mxfp6_e2m3 = stochastic(hadamard(X[m,k], 16), s[0])", {"m": 21, "k": 67}, ""),
]


test_results = bits_are_equal(WRITTEN, spoiled, once=["target"])


READ = [
    ("Y[m,k] = X[m,k]:mxfp6", {"m": 5, "k": 96}, "k"),
    ("Y[m,k]:f32 = X[m,k]:mxfp6", {"m": 5, "k": 97}, ""),
    ("Y[m,k]:f16 = X[m,k]:mxfp6_e2m3", {"m": 5, "k": 99}, "k"),
    ("Y[m,k]:f32 = X[m,k]:e2m3 scale(1x16:ue4m3@blocked)", {"m": 130, "k": 82}, ""),
    ("Y[m,k] = X[m,k]:e3m2", {"m": 5, "k": 33}, ""),
    ("Y[m,k]:mxfp6 = X[m,k]:mxfp6_e2m3", {"m": 5, "k": 160}, "k"),
    ("Y[m,k]:mxfp6_e2m3 = X[m,k]:mxfp6", {"m": 5, "k": 99}, ""),
    ("Y[m,k]:mxfp8 = X[m,k]:mxfp6; Z[m,k]:mxfp6 = X[m,k]", {"m": 5, "k": 96}, "k"),
    ("Y[m,k]:mxfp6 = X[m,k]:mxfp8", {"m": 5, "k": 192}, "k"),
    ("Y[m,k]:nvfp4 = X[m,k]:mxfp6", {"m": 5, "k": 98}, ""),
    ("Y[m,k]:mxfp6_e2m3 = X[m,k]:mxfp4", {"m": 5, "k": 96}, "k"),
    ("Y[k,m]:mxfp6 = X[m,k]:mxfp6", {"m": 35, "k": 66}, ""),
    ("Y[m,k]:e3m2 scale(1x32:ue8m0@blocked) = X[m,k]:mxfp6", {"m": 130, "k": 160}, "k"),  # another layout
    ("Y[m,k]:mxfp6 = X[idx[m],k]:mxfp6", {"m": 9, "k": 96, "X_0": 5}, "k"),
    ("S[m]:f32 = sum[k](X[m,k]:e3m2)", {"m": 5, "k": 70}, "k"),
]


test_inputs = bits_are_equal(READ, once=["target"])


@pytest.mark.once("source", "size")
@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fixed", ["", "mk"])
@pytest.mark.parametrize("source", ["Q[m,k]:mxfp6 = X[m,k]", "Q[m,k]:mxfp6_e2m3 = X[m,k]:mxfp6"])
def test_sizes_of_0_and_1(source: str, size: int, fixed: str, target: str) -> None:
    bit_equal_of_0_and_1(source, size, fixed, target)


def numbers_and_between(element: str) -> Any:
    """All numbers, what lies half way between two, the f32 around each of these, and what has no number; of both
    signs."""
    own = np.arange(32, dtype=np.uint8).view(numpy_dtype(element)).astype(np.float32)
    ends = np.concatenate([own, (own[1:] + own[:-1]) / 2, [own[-1] * np.float32(1 + 2**-5), 1e30, 3e38, 1e-30]])
    ends = ends.astype(np.float32)
    around = [np.nextafter(ends, np.float32(x)) for x in (-np.inf, np.inf)]
    x = np.concatenate([ends, *around, np.array([np.inf, np.nan, 1e-45, 1.2e-38], np.float32)]).astype(np.float32)
    return np.concatenate([x, -x])


@pytest.mark.once("element", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ["e3m2", "e2m3"])
def test_rounding(element: str, target: str) -> None:
    x = numbers_and_between(element)

    def change(values: Values) -> None:
        values["X"][...] = x

    for source in (f"Q[m,k]:{element} = X[m,k]:f32", f"Q[m,k]:{element} scale(1x32:ue8m0) = X[m,k]:f32"):
        bit_equal(source, {"m": 2, "k": len(x)}, "k", target, change=change)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (
            "Q[m,k]:e3m2 = X[m,k]:f32",
            r"mul\.lo\.s32 ([^;]*), 31;",
            r"mul.lo.s32 \1, 15;",
        ),  # all bits of the largest number
        ("Q[m,k]:e2m3 = X[m,k]:f32", "0x80808080", "0x80808000"),  # the sign of every fourth element
        ("Y[m,k]:f32 = X[m,k]:e3m2", r"shf\.\S+ ([^;]*), \d+;", r"shf.l.wrap.b32 \1, 1;"),
    ],
)
def test_faults_are_found(source: str, old: str, new: str) -> None:
    fault_is_found(source, {"m": 6, "k": 96}, "k", old, new, change=spoiled_of(source))


def spoiled_of(source: str) -> Any:
    return spoiled if "f32 =" not in source else lambda _: None


def test_stores_are_three_of_a_third() -> None:
    kernel: Any = scalec.compile("Q[m,k]:mxfp6 = X[m,k]", target="sm_90a", dims={"k": 4096})
    assert kernel.ptx.count("ld.global.v4.b32") == 2  # 16 columns
    assert kernel.ptx.count("st.global.b32") == 3


test_refused = refusals(
    [
        ("Y[m,k] = X[m,k] * w[m]:e3m2", "w of e3m2, of which threads have one element each"),
        ("Y[m,k]:e2m3 = X[m,k] + Z[m,k%32]", "Y of e2m3, of which threads have one element each"),
        ("S[m]:e3m2 = max[k](X[m,k])", "S has an element a row, and is quantised, or of e3m2"),
    ]
)
