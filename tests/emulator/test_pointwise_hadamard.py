"""Results that a Hadamard transform goes through: the reference's, bit for bit, on every target."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.errors import SourceError
from scalec.reference.rounding import transformed
from tests.emulator.pointwise import TARGETS, bit_equal, bits_are_equal, bits_of_0_and_1, fault_is_found, spoiled
from tests.emulator.running import refusals

H = np.array([[(-1) ** (i & j).bit_count() for j in range(16)] for i in range(16)]) / 4


def test_it_is_a_product_with_a_matrix() -> None:
    x = np.random.default_rng(1).integers(-8, 9, (3, 5, 48)).astype(np.float64)
    assert (transformed(x) == (x.reshape(3, 5, 3, 16) @ H).reshape(x.shape)).all()
    assert (transformed(transformed(x)) == x).all()
    padded = np.pad(x[..., :37], [(0, 0), (0, 0), (0, 11)])
    assert (transformed(x[..., :37]) == transformed(padded)[..., :37]).all()


def test_the_order_of_additions() -> None:
    """Elements 1 apart meet first: of 2^24 + 1 - 2^24 the 1 is left where it meets 2^24 last, and not where first."""
    big = 2.0**24
    assert transformed(np.array([big, -big, 1.0, 0, *[0] * 12]))[0] == 0.25
    assert transformed(np.array([big, 1.0, -big, 0, *[0] * 12]))[0] == 0


FORMATS = [  # a result of X, its sizes, those that are known
    ("mxfp8", {"m": 9, "k": 100}, ""),
    ("mxfp8", {"m": 9, "k": 96}, "k"),
    ("mxfp8", {"m": 3, "k": 99}, "k"),  # one column a thread
    ("mxfp8", {"m": 9, "k": 104}, "k"),
    ("mxfp4", {"m": 6, "k": 160}, "k"),
    ("nvfp4", {"m": 6, "k": 101}, ""),
    ("nvfp4", {"m": 6, "k": 98}, "k"),
    ("fp8_block", {"m": 6, "k": 200}, ""),
    ("e4m3 scale(1x8)", {"m": 6, "k": 104}, "k"),
    ("e4m3 scale(32x32:ue8m0@blocked)", {"m": 70, "k": 80}, ""),
    ("e4m3 scale(1xk)", {"m": 10, "k": 251}, "k"),
    ("e5m2 scale(1xk)", {"m": 3, "k": 2500}, ""),  # walked
    ("f32", {"m": 9, "k": 101}, ""),
    ("f32", {"m": 9, "k": 5}, "k"),
    ("bf16", {"m": 9, "k": 96}, "k"),
    ("e2m1", {"m": 9, "k": 98}, "k"),
]


@pytest.mark.once("result", "target")
@pytest.mark.parametrize("element", ["bf16", "f32"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("result", "dims", "fixed"), FORMATS)
def test_formats(result: str, dims: dict[str, int], fixed: str, target: str, element: str) -> None:
    bit_equal(f"Q[m,k]:{result} = hadamard(X[m,k]:{element}, 16)", dims, fixed, target, change=spoiled)


SEVERAL = [
    ("Q[m,k]:nvfp4 = stochastic(hadamard(X[m,k] * s[k], 16), r[0])", {"m": 5, "k": 96}, "k"),
    ("Q[m,k]:mxfp8 = hadamard(X[m,k] * s[k%16], 16); O[m,k] = X[m,k]", {"m": 5, "k": 100}, ""),
    ("Q[m,k]:mxfp8 = X[m,k]; T[k,m]:mxfp8 = hadamard(X[m,k] * s[m], 16)", {"m": 37, "k": 70}, ""),
    (
        "Q[m,k]:mxfp8 = hadamard(X[m,k], 16); T[k,m]:mxfp4 = stochastic(hadamard(X[m,k], 16), r[1])",
        {"m": 38, "k": 96},
        "k",
    ),
    ("T[k,m] = hadamard(max(X[m,k], 0.5), 16)", {"m": 21, "k": 67}, "m"),  # what is not there is 0, and not 0.5
    ("Q[m,k]:mxfp8 = hadamard(max(X[m,k], 0.5), 16)", {"m": 21, "k": 67}, ""),
    ("Q[b,m,k]:mxfp8 = hadamard(X[b,m,k], 16) for m < n[b]", {"b": 2, "m": 5, "k": 99}, ""),
    ("Q[idx[m],k]:e4m3 = hadamard(X[m,k], 16)", {"m": 5, "k": 96, "Q_0": 9}, "k"),
    ("Q[k]:f32 = hadamard(X[k], 16)", {"k": 99}, ""),
    ("R[m]:f32 = max[k](X[m,k]); Q[m,k]:mxfp8 = hadamard(max(X[m,k], 0.5), 16)", {"m": 5, "k": 99}, ""),
]


test_several_results_and_indices = bits_are_equal(SEVERAL)


test_sizes_of_0_and_1 = bits_of_0_and_1("Q[m,k]:{} = hadamard(X[m,k], 16)", ["mxfp8", "nvfp4", "f32"])


@pytest.mark.parametrize("fixed", ["", "k"])
def test_faults_are_found(fixed: str) -> None:
    old, new = r"(shfl\.sync\.bfly\.b32\s+\S+\s+\S+\s+)1,", r"\g<1>2,"
    fault_is_found("Q[m,k]:f32 = hadamard(X[m,k]:f32, 16)", {"m": 6, "k": 96}, fixed, old, new)


test_wrong_programs = refusals(
    [
        ("Q[m,k]:i8 = hadamard(X[m,k], 16)", "nothing is transformed to i8"),
        ("Q[m,k] = hadamard(X[m,k])", "takes what is transformed and 16"),
        ("Q[m,k] = hadamard(X[m,k], 32)", "takes what is transformed and 16"),
        ("Q[m,k] = hadamard(X[m,k], n)", "takes what is transformed and 16"),
        ("Q[m,k] = 2 * hadamard(X[m,k], 16)", "stands within an expression"),
        ("Q[m,k] = hadamard(stochastic(X[m,k], s[0]), 16)", "stands within an expression"),
        ("T[m,k] = hadamard(X[m,k], 16); Q[m,k] = T", "a temporary never reaches memory"),
        ("Q[m,k]:f32 += hadamard(X[m,k], 16)", "transformed and accumulated into"),
        ("Q[m,2*k] = hadamard(X[m,k], 16)", "transformed and its indices are computed"),
    ],
    SourceError,
)


test_refused = refusals(
    [
        (
            "R[m]:f32 = hadamard(sum[k](X[m,k]), 16); Q[m,k] = X[m,k]",
            "R, which is transformed and has an element a row",
        ),
        (
            "Q[m,k] = hadamard(X[m,idx[k]], 16)",
            "Q, which is transformed and is read at an index from memory for each k",
        ),
        ("Q[m,k]:e4m3 scale(1x24) = hadamard(X[m,k], 16)", "a transform of 16 columns beside blocks of scales"),
    ]
)
