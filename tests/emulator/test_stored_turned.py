"""FP8 operands with M or N contiguous, which launches before the product store with K contiguous."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import scalec
from scalec.errors import ArgumentError, ScalecError, ScheduleError
from scalec.frontend.cut_operands import TURNED, cut_operand
from scalec.launches import launches, told
from scalec.runtime.kernel import Kernel
from scalec.runtime.sequence import Sequence
from scalec.runtime.tensors import Turned, adopt
from tests.emulator.test_launches_before import check

PROGRAMS: dict[str, tuple[str, dict[str, int], tuple[str, ...]]] = {
    "right": ("C[m,n]:f32 = A[m,k] @ B[k,n] scale(1x128, 128x128)", {"m": 40, "n": 272, "k": 400}, ("B",)),
    "left": ("C[m,n]:f32 = A[k,m] @ B[n,k] scale(128x1, 1x128)", {"m": 48, "n": 72, "k": 400}, ("A",)),
    "both": ("C[m,n]:f32 += A[k,m] @ B[k,n] scale(128x1, 64x128@col)", {"m": 48, "n": 144, "k": 400}, ("A", "B")),
    "e5m2": ("C[m,n]:f32 = A[m,k]:e5m2 @ B[k,n] scale(1x128, 128x1)", {"m": 9, "n": 80, "k": 400}, ("B",)),
    "levels": ("C[m,n]:f32 = A[m,k] @ B[k,n] scale(1x128, 128x64*tensor)", {"m": 9, "n": 144, "k": 400}, ("B",)),
    "tensor": ("C[m,n]:f32 = A[m,k] @ B[k,n] scale(tensor, tensor) + c[n]", {"m": 9, "n": 80, "k": 400}, ("B",)),
    "none": ("C[m,n]:f32 = A[m,k]:e4m3 @ B[k,n]:e4m3", {"m": 9, "n": 80, "k": 400}, ("B",)),
    "whole rows": ("C[m,n]:f32 = A[m,k] @ B[k,n] scale(1xk, kx1)", {"m": 9, "n": 80, "k": 400}, ("B",)),
    "batches": (
        "Z[b,h,d]:f32 = X[b,h,r] @ Y[h,r,d] scale(1x128,128x128)",
        {"b": 9, "h": 2, "r": 272, "d": 144},
        ("Y",),
    ),
    "one for all": (
        "C[b,m,n]:f32 = A[b,m,k] @ B[b,k,n] scale(1x1x128,bx128x128)",
        {"b": 2, "m": 9, "n": 144, "k": 272},
        ("B",),
    ),
    "blocks of rows": (
        "C[m,n]:f32 = A[m,k] @ B[e[m/64],k,n] scale(1x128,128x128)",
        {"m": 140, "n": 144, "k": 272, "B_0": 3},
        ("B",),
    ),
    "called as scales are": (
        "C[m,n]:f32 = A[m,k] @ b_scale[e[m/64],k,n] scale(1x128,128x128)",
        {"m": 140, "n": 144, "k": 272, "b_scale_0": 3},
        ("b_scale",),
    ),
    "ragged": (
        "C[m,n]:f32 = A[m,k] @ B[g,k,n] scale(1x128,128x128) for m in off[g]:off[g+1]",
        {"g": 3, "m": 40, "n": 144, "k": 272},
        ("B",),
    ),
    "along K": (
        "C[g,m,n]:f32 += A[k,m] @ B[k,n] scale(128x1,128x1) for k in off[g]:off[g+1]",
        {"g": 3, "m": 48, "n": 80, "k": 400},
        ("A", "B"),
    ),
    "gated": (
        "G[m,n] = X[m,k] @ V[k,n] scale(1x128,128x128); U[m,n] = X[m,k] @ W[k,n] scale(1x128,128x128); "
        "C[m,n]:f32 = silu(G)*U",
        {"m": 9, "n": 144, "k": 272},
        ("V", "W"),
    ),
}


def made(name: str, convert: str) -> Kernel | Sequence:
    program, *_ = PROGRAMS[name]
    known = {"b": 2} if name == "one for all" else {}
    return scalec.compile(program, target="sm_90a", dims=known, schedule={"convert": convert}, cache=False)


@pytest.mark.once
@pytest.mark.parametrize("name", PROGRAMS)
def test_operands_stored_the_other_way_round(name: str) -> None:
    program, sizes, operands = PROGRAMS[name]
    kernel = made(name, "before")
    assert isinstance(kernel, Sequence)
    assert {t.name for t in kernel.between} == {f"{x}_turned" for x in operands}
    one = made(name, "shared")
    assert isinstance(one, Kernel)
    assert [(t.name, t.dtype, t.shape, t.layout) for t in kernel.spec.operands] == [
        (t.name, t.dtype, t.shape, t.layout) for t in one.spec.operands
    ]
    assert kernel.spec.dims == one.spec.dims
    assert kernel.spec.reads == one.spec.reads
    check(kernel, "sm_90a", program, sizes)


@pytest.mark.thorough
def test_calls_of_torch() -> None:
    """Compiled too, where one op has all launches; refusals speak of the caller's scales."""
    torch = pytest.importorskip("torch")
    one, kernel = made("right", "shared"), made("right", "before")
    a, b = (torch.randn(size).to(torch.float8_e4m3fn) for size in ((16, 256), (256, 144)))
    scales = torch.rand(16, 2), torch.rand(2, 2)
    wanted = one(a, b, *scales)
    assert torch.equal(kernel(a, b, *scales), wanted)
    assert torch.equal(kernel.bind(a, b, *scales, out=torch.empty(16, 144))(), wanted)
    assert torch.equal(torch.compile(lambda *x: kernel(*x) * 2, fullgraph=True)(a, b, *scales), wanted * 2)
    for call in (kernel, lambda *x: kernel.bind(*x, out=torch.empty(16, 144))):
        with pytest.raises(ArgumentError, match=r"B_scale.mT has extent 3 along index 1") as refusal:
            call(a, b, scales[0], torch.rand(3, 2))
        assert "B_turned_scale" not in str(refusal.value)


def test_a_refusal_names_the_callers_tensor() -> None:
    """Of two levels of scales, whose names begin alike, each by its own name."""
    kernel = made("levels", "before")
    assert isinstance(kernel, Sequence)
    assert kernel.turned == (("B_turned_scale", "B_scale"), ("B_turned_scale2", "B_scale2"))
    refusal = kernel._of_caller(ArgumentError("B_turned_scale2 is wrong", got="B_turned_scale has 3"))
    assert "B_scale2.mT is wrong" in str(refusal)
    assert "B_scale.mT has 3" in str(refusal)


@pytest.mark.thorough
def test_of_a_pickle() -> None:
    program, sizes, _ = PROGRAMS["right"]
    check(pickle.loads(pickle.dumps(made("right", "before"))), "sm_90a", program, sizes)


def test_the_launches_are_told() -> None:
    program, sizes, _ = PROGRAMS["right"]
    every = launches(program, "sm_90a", {}, {"convert": "before"})
    first, second = told(every, sizes)
    assert "B_turned[n,k]:e4m3 = B[k,n]:e4m3" in first
    assert "scale(1x128, 128x128@col) (B_turned_scale is B_scale with its last two indices exchanged)" in second


def test_a_tensor_seen_the_other_way_round() -> None:
    x = np.zeros((2, 3, 4), np.float32)
    view = adopt("X", Turned(x), -1, lambda _: ("cpu", 0))
    assert (view.shape, view.strides) == ((2, 4, 3), (12, 1, 4))


@pytest.mark.parametrize(
    ("program", "target"),
    [
        ("C[m,n] = A[k,m] @ B[k,n] scale(32x1:ue8m0, 32x1:ue8m0)", "sm_100a"),  # the tensor core reads them as they are
        ("C[m,n] = A[k,m]:bf16 @ B[k,n]:bf16", "sm_90a"),
        ("C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128)", "sm_90a"),
        ("C[m,n] = A[m,k] @ B[k,n]:e5m2 scale(1x128, 128x1)", "sm_90a"),  # infinities saturate where they are stored
    ],
)
def test_what_no_launch_before_makes_is_refused(program: str, target: str) -> None:
    with pytest.raises(ScheduleError, match="convert=before is not possible"):
        scalec.compile(program, target=target, schedule={"convert": "before"})
    with pytest.raises(ScheduleError, match="convert=before is not possible"):
        scalec.compile(f"{program} with convert=before", target=target)


def test_what_is_wrong_is_said_first() -> None:
    """Of a program that launches before are asked for."""
    with pytest.raises(ScalecError, match="B_scale"):
        scalec.compile("C[m,n] = A[m,k] @ B[k,n] scale(1x128, 1x128) with convert=before", target="sm_90a")


def test_not_with_scales_of_which_no_layout_is_the_other_way_round() -> None:
    parts = cut_operand("C[m,n] = A[m,k] @ B[k,n] scale(1x128, 128x128:ue8m0@packed)", "B", TURNED)
    assert parts is None
