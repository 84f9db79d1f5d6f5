"""Checks before timing, on the processor: torch's is enough."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

import scalec
from scalec.bench.contenders import IN_PLACE, TWO_KERNELS, Contender, NoSuchVariantError, contenders
from scalec.bench.contraction import contraction, reference
from scalec.bench.suites import BLOCK_FP8, BOTH_FP8
from scalec.errors import ScalecError
from scalec.runtime.sequence import Sequence
from tests.bench.test_contenders import spec

shape, inputs_of = import_module("scalec.bench.shape"), import_module("scalec.bench.inputs")

DIMS = {"m": 5, "n": 256, "k": 256}


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


def data(source: str):
    made = spec(source, DIMS)
    inputs, what = inputs_of.make_inputs(made, DIMS, 3, device="cpu"), contraction(made, DIMS)
    assert what is not None
    return made, what, inputs, reference(what, inputs.values)


@pytest.mark.parametrize("scales", ["", " scale(1xk, 1xk)", " scale(1x128, tensor)"])
def test_integers_have_all_their_values(scales: str):
    _, _, inputs, product = data(f"C[m,n] = A[m,k]:i8 @ B[n,k]:i8{scales}")
    assert all(inputs.values[x].dtype == torch.int8 and inputs.values[x].abs().max() > 90 for x in "AB")
    assert product.isfinite().all()


def test_contenders_that_refuse_or_are_wrong_are_left_out():
    _, _, inputs, product = data(BLOCK_FP8)

    def refuses(_):
        raise RuntimeError("not such sizes\nmore")

    right, wrong = product.bfloat16(), product.bfloat16()
    wrong[:, :128] *= 2
    variants = {"right": lambda _: lambda: right, "wrong": lambda _: lambda: wrong, "refuses": refuses}
    with pytest.warns(UserWarning, match="left out") as warned:
        found = shape.usable("theirs", Contender(variants), inputs, product)
    assert list(found) == ["right"]
    assert 0 < found["right"] < 3e-6
    assert [str(w.message)[:40] for w in warned] == [
        "theirs (wrong) is left out: its result i",
        "theirs (refuses) is left out: RuntimeErr",
    ]


@pytest.mark.parametrize(
    ("source", "index"),
    [
        ("C[g,m,n] = A[g,m,k]@B[g,n,k]", "gmk,gnk->gmn"),
        ("C[m,g,n] = A[m,g,k]@B[g,n,k]", "mgk,gnk->mgn"),
        ("C[g,m,n]:f16 = A[m,k]:f16@B[g,n,k]:f16", "mk,gnk->gmn"),
        ("C[h,m,g,n] = A[g,m,h,k]@B[h,g,n,k]", "gmhk,hgnk->hmgn"),
        ("C[m,n] = A[g,m,k]@B[g,n,k]", "gmk,gnk->mn"),
        ("C[m,g,n] = A[m,g,k]@B[g,n,k] scale(1x128,128x128)", "mgk,gnk->mgn"),
    ],
)
def test_batches(source: str, index: str) -> None:
    dims = {d: s for d, s in {"g": 2, "h": 3, **DIMS}.items() if d in source}
    made = spec(source, dims)
    inputs, what = inputs_of.make_inputs(made, dims, 3, device="cpu"), contraction(made, dims)
    assert what is not None
    product = reference(what, inputs.values)
    a, b = (inputs.values[name].double() for name in "AB")
    for t, name, blocks in ((a, "A", (1, 1, 128)), (b, "B", (1, 128, 128))):
        if what.blocks is not None:
            scale = inputs.values[f"{name}_scale"].double()
            for axis, block in enumerate(blocks):
                scale = scale.repeat_interleave(block, axis).narrow(axis, 0, t.shape[axis])
            t *= scale
    assert shape.diff(product, torch.einsum(index, a, b)) < 1e-12
    found = contenders(made, dims)
    assert bool(found) == (what.blocks is None)
    for name, contender in found.items():
        assert shape.usable(name, contender, inputs, product)[""] < 3e-6


def test_a_contender_that_is_only_timed_is_not_compared():
    _, _, inputs, product = data(BLOCK_FP8)
    found = shape.usable("theirs", Contender({"": lambda _: lambda: product * 2}, checked=False), inputs, product)
    assert found == {"": None}


@pytest.mark.parametrize("keeps", [True, False])
def test_what_a_result_is_added_to_must_not_be_lost(keeps):
    made, what, inputs, product = data(BOTH_FP8)
    assert what.accumulates

    def kernel(*_, out):
        out.copy_(out + product if keeps else product)

    if keeps:
        assert shape._check_ours(kernel, made, what, DIMS, inputs, product) < 1e-12
        return
    with pytest.raises(ScalecError, match="is wrong at"):
        shape._check_ours(kernel, made, what, DIMS, inputs, product)


def test_what_a_result_is_added_to_is_moved_too():
    c = DIMS["m"] * DIMS["n"] * 4
    added, written = (data(source)[2] for source in (BOTH_FP8, BOTH_FP8.replace("+=", "=")))
    assert added.bytes() - added.input_bytes() == 2 * c
    assert written.bytes() - written.input_bytes() == c


def test_a_kernel_that_leaves_a_part_unwritten_is_wrong():
    made, what, inputs, product = data(BLOCK_FP8)
    inputs.outputs["C"].copy_(product)  # as the kernel before it left it

    def kernel(*_, out):
        out[:, :-1] = product[:, :-1]

    with pytest.raises(ScalecError, match="is wrong at"):
        shape._check_ours(kernel, made, what, DIMS, inputs, product)


def test_what_adds_is_compared_as_a_sum_and_its_result_restored():
    _, _, inputs, product = data(BOTH_FP8)
    (c,) = inputs.outputs.values()
    c *= product.std()
    before = c.clone()

    def missing(_):
        raise NoSuchVariantError

    variants = {
        "adds": lambda _: lambda: c.add_(product),
        "writes": lambda _: lambda: c.copy_(product),
        "none such": missing,
    }
    with pytest.warns(UserWarning, match=r"theirs \(writes\) is left out: its result is wrong") as warned:
        found = shape.usable("theirs", Contender(variants, adds=True), inputs, product)
    assert list(found) == ["adds"]
    assert len(warned) == 1
    assert torch.equal(c, before)


@pytest.mark.parametrize("m", [8, 5])
def test_two_kernels_add(m, monkeypatch):
    """Rows that torch's kernel refuses are padded; what is added is the rest."""
    dims = DIMS | {"m": m}
    made = spec(BOTH_FP8, dims)
    inputs, what = inputs_of.make_inputs(made, dims, 3, device="cpu"), contraction(made, dims)
    assert what is not None
    product = reference(what, inputs.values)

    def scaled_mm(a, b, *, scale_a, scale_b, out_dtype, **_):
        assert (len(a) % 4, scale_a.stride(0), scale_b.stride(1)) == (0, 1, 1)
        left = a.float() * scale_a.repeat_interleave(128, 1)[:, : a.shape[1]]
        return (left @ (b.float() * scale_b.repeat_interleave(128, 0)[: b.shape[0]])).to(out_dtype)

    monkeypatch.setattr(torch, "_scaled_mm", scaled_mm)
    contender = contenders(made, dims)[TWO_KERNELS]
    assert shape.usable("theirs", contender, inputs, product)[""] < 1e-9


def test_a_library_that_cannot_be_called_is_warned_of_once(monkeypatch):
    made, _, inputs, product = data(BOTH_FP8)

    def adding(*_):
        raise ScalecError("no such library")

    monkeypatch.setattr("scalec.bench.cublaslt.adding", adding)
    with pytest.warns(UserWarning, match="no such library") as warned:
        assert shape.usable(IN_PLACE, contenders(made, DIMS)[IN_PLACE], inputs, product) == {}
    assert len(warned) == 1


ROWS = "D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]"
QUANTISED = {"m": 5, "n": 96, "k": 64}


@pytest.fixture
def quantised(on_the_emulator):
    """A program of two launches, its inputs and its product."""
    kernel = scalec.compile(ROWS, "sm_90a")
    assert isinstance(kernel, Sequence)
    inputs = inputs_of.make_inputs(kernel.spec, QUANTISED, 3, device="cpu")
    what = contraction(kernel.spec, QUANTISED, quantised=True)
    assert what is not None
    assert contraction(kernel.spec, QUANTISED) is None
    return kernel, what, inputs, reference(what, inputs.values)


def test_a_program_of_two_launches_is_checked_as_a_whole(quantised):
    kernel, what, inputs, product = quantised
    found = shape._check_ours(kernel, kernel.spec, what, QUANTISED, inputs, product)
    assert 1e-5 < found < shape.allowed_diff(inputs) < 3e-3

    def wrong(*given, out):
        kernel(*given, out=out)
        out[1][3] *= 2  # one row's scale

    with pytest.raises(ScalecError, match="is wrong at"):
        shape._check_ours(wrong, kernel.spec, what, QUANTISED, inputs, product)
    schedules = shape.schedules_of(kernel, kernel.spec)
    assert [x.split(",")[0] for x in schedules] == ["swap=0", "rows=1"]


@pytest.mark.parametrize("result", ["e4m3 scale(1xn)", "e5m2 scale(1x32)"])
def test_torch_multiplies_and_then_quantises(result, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)  # takes a compiler of C++ here
    made = spec(f"D[m,n]:{result} = A[m,k] @ B[n,k]", QUANTISED)
    inputs = inputs_of.make_inputs(made, QUANTISED, 3, device="cpu")
    what = contraction(made, QUANTISED, quantised=True)
    assert what is not None
    product = reference(what, inputs.values)
    ((name, contender),) = contenders(made, QUANTISED).items()
    assert name == "torch.mm (cuBLASLt), then quantised"
    found = shape.usable(name, contender, inputs, product, shape.allowed_diff(inputs))
    assert list(found) == ["op by op", "torch.compile"]
    assert all(x > 1e-6 for x in found.values())
    assert bool(contenders(made, {**QUANTISED, "n": 95})) == ("1xn" in result)  # a last block may be short of it


def test_operands_of_tf32_are_f32_in_torch():
    made = spec("D[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:tf32; S[m]:f32 = sum[k](A[m,k]^2)", DIMS)
    inputs = inputs_of.make_inputs(made, DIMS, 3, device="cpu")
    assert {name: x.dtype for name, x in inputs.values.items()} == {"A": torch.bfloat16, "B": torch.float32}
