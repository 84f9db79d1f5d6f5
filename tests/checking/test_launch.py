"""`run` puts what the reference made into memory as the checks of a kernel want it: every format and layout."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from scalec import reference
from scalec.abi import Argument, Extent, KernelSpec, Launch, TensorSpec, Term
from scalec.checking import compare, launch
from scalec.formats import ELEMENT_TYPES
from scalec.frontend import build
from scalec.ir.context import context
from scalec.lowering import signature
from scalec.reference import Results
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice

PROGRAMS = [
    "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8",
    "C[m,n] = A[m,k]:mxfp8_e5m2 @ B[n,k]:mxfp4",
    "C[m,n] = A[m,k]:mxfp6 @ B[n,k]:mxfp4",
    "C[m,n] = A[m,k]:e2m3 @ B[n,k]:e4m3 scale(1x32:ue8m0@packed, 1x32:ue8m0@blocked)",
    "C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:nvfp4",
    "C[m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1 scale(1x16:ue4m3@blocked*tensor, 1x16:ue4m3@blocked*tensor)",
    "C[m,n] = A[m,k]:e4m3 @ B[n,k] scale(1x128:ue8m0@packed, 128x128:ue8m0@packed)",
    "C[m,n] = A[m,k]:e4m3 @ B[n,k] scale(1x32:ue8m0@col, 1x32)",
    "C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32",
    "C[m,n]:f32 = A[m,k]:tf32 @ B[k,n]:tf32",
    "C[m,n]:f32 = A[k,m]:bf16 @ B[k,n]:bf16",
    "C[m,n] = A[m,k]:e4m3 @ B[k,n]:e4m3 scale(1x32:ue8m0@packed, 32x1:ue8m0)",
    "C[b,m,n] = A[b,m,k]:e4m3 @ B[b,n,k] scale(1x1x32:ue8m0@packed, 1x1x32:ue8m0@blocked)",
]
DIMS = {"b": 3, "m": 70, "n": 140, "k": 200}


def spec_of(module: Any, dims: dict[str, int]) -> KernelSpec:
    """A kernel that takes the program's tensors by pointers and is told every stride."""
    operands, results, _ = signature.tensors(next(iter(module.body.operations)))

    def aligned(t: TensorSpec) -> TensorSpec:
        return TensorSpec(**{**vars(t), "align": 32})

    tensors = [aligned(t) for t in (*operands, *results)]
    strides = [
        Argument("stride", t.name, axis=axis) for t in tensors if t.layout != "blocked" for axis in range(len(t.shape))
    ]
    return KernelSpec(
        source="",
        target="sm_120a",
        entry="C",
        dims=dict.fromkeys(dims),
        operands=tuple(tensors[: len(operands)]),
        results=tuple(tensors[len(operands) :]),
        arguments=(*(Argument("pointer", t.name) for t in tensors), *strides),
        launch=Launch(32, 0, 1, (("m", 64, 1), ("n", 64, 1))),
    )


@pytest.mark.parametrize("source", PROGRAMS)
def test_what_is_uploaded_is_accepted_and_means_the_same(source):
    dims = {d: size for d, size in DIMS.items() if re.search(rf"\b{d}\b", source.partition("scale")[0])}
    device = FakeDevice(capability=(12, 0))
    with context():
        module = build(source)
        spec = spec_of(module, dims)
        values = reference.make(module, dims, 3)
        arguments, outputs = launch.upload(device, spec, values, dims)
        kernel = Kernel(spec, b"", device=device)
        kernel(*arguments, out=tuple(outputs))
        (plan,) = kernel.load().plans.values()
        assert plan.dims == dims
        in_memory = {t.name: a.numpy() for t, a in zip(spec.operands, arguments, strict=True)}
        expected, found = (reference.run(module, v, dims=dims, exact=True) for v in (values, in_memory))
    for name, result in expected.items():
        np.testing.assert_array_equal(found[name], result)
        assert np.abs(result).max() > 0


@pytest.mark.parametrize("element", ["e2m1", "e3m2", "e2m3", "e4m3", "bf16"])
def test_results_are_read_one_element_an_entry(element):
    data = np.random.default_rng(0).integers(0, 16, (5, 8)).astype(np.uint8)
    exact = (data.astype(np.float32) / 8).astype(reference.numpy_dtype(element))
    spec = TensorSpec("C", element, (Extent(size=5), Extent(size=8)))
    made = launch.placed(FakeDevice(), spec, reference.storage(exact))
    found = launch.values_of(spec, made)
    assert found.dtype == exact.dtype
    np.testing.assert_array_equal(found, exact)
    assert compare.check("C", found, exact.astype(np.float64)).ok
    assert made.nbytes == 5 * ELEMENT_TYPES[element].bytes(8)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_infinities_that_are_meant_hide_nothing(dtype: Any) -> None:
    """What lies outside of a window is -inf: what lies inside counts nevertheless."""
    expected = np.random.default_rng(1).standard_normal((4, 64))
    expected[:, 32:] = -np.inf
    right = expected.astype(dtype)
    inside = np.isfinite(expected)
    assert compare.check("L", right, expected).ok
    for wrong in (right * 2, np.where(inside, 0, right), np.where(inside, right, 0), np.full_like(right, -np.inf)):
        assert not compare.check("L", wrong.astype(dtype), expected).ok


def test_integers_of_which_some_are_not_written_are_rounded_too() -> None:
    """Elements that a program leaves as they are count for nothing, in what rounding may be off either."""
    expected = np.random.default_rng(1).uniform(-20, 20, (8, 64))
    made = np.rint(expected).astype(np.int8)
    assert compare.check("Q", made, expected).ok
    expected[5:] = np.nan
    assert compare.check("Q", made, expected).ok
    assert not compare.check("Q", (made // 2).astype(np.int8), expected).ok


def test_rows_of_results_that_end_in_half_a_byte_are_compared_without_its_other_half():
    exact = np.array([[0, 0.5, 1], [2, 3, -6]], reference.numpy_dtype("e2m1"))
    spec = TensorSpec("C", "e2m1", (Extent(size=2), Extent(size=3)))
    stored = reference.storage(exact) | np.array([[0, 0x70]], np.uint8)
    found = {"C": launch.values_of(spec, launch.placed(FakeDevice(), spec, stored))}
    expected = Results()
    expected["C"] = exact.astype(np.float64)
    (checked,) = compare.compare(found, expected)
    assert checked.diff == checked.max_error == 0


def test_what_has_changed_in_gaps_is_counted():
    extent = Extent(size=-1, terms=(Term("n", 3, divisor=2),))  # n/2*3 + n%2
    points = np.zeros((2, 8), bool)
    points[:, [0, 1, 3, 4, 6, 7]] = True
    data = np.full((2, 8), 0xFFFF, np.uint16)
    data[points] = 1
    for inner, changed in ((extent, 2), (Extent("n"), 0)):
        spec = TensorSpec("D", "bf16", (Extent("m"), inner), partial=bool(inner.terms))
        made = launch.placed(FakeDevice(), spec, data)
        assert launch.touched(spec, made, points) == 0
        other = data.copy()
        other[0, 2] = other[1, 5] = other[1, 7] = 5
        assert launch.touched(spec, launch.placed(FakeDevice(), spec, other), points) == changed


@pytest.mark.parametrize(("sign", "times"), [("=", 1), ("+=", 2)])
def test_what_a_result_is_added_to_is_moved_too(sign, times):
    dims = {"m": 70, "n": 140, "k": 200}
    with context():
        module = build(f"C[m,n]:f32 {sign} alpha * (A[m,k]:bf16 @ B[n,k]:bf16)")
        spec = spec_of(module, dims)
        arguments, outputs = launch.upload(FakeDevice(), spec, reference.make(module, dims, 3), dims)
    assert launch.moved_bytes(spec, arguments, outputs) == 2 * 200 * (70 + 140) + times * 4 * 70 * 140
