"""`with invariant` on the emulator: a row's results are bit-equal whatever M is, fixed or not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import scalec
from scalec.checking.launch import upload
from scalec.ir import schedule as schedules
from scalec.runtime import emulated
from scalec.runtime.dispatch import order_of_sums
from scalec.runtime.kernel import Kernel

ROWS = 150
"""Rows of the data; a kernel for fewer is given the first of them."""

SIZES = (None, 1, 40, 150)
"""Sizes of M that a kernel is compiled for. None: not known, and it runs at ROWS."""

FP8 = "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,128x128)"
BF16 = "C[m,n]:f32 = A[m,k] @ B[n,k]"
E4M3 = "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3"
PROGRAMS = {
    "Hopper, promoted": ("sm_90a", FP8, (72, 2048)),
    "Hopper, bf16": ("sm_90a", BF16, (72, 1024)),
    "Hopper, given parts": ("sm_90a", f"{FP8} with split=3", (72, 2048)),
    "Hopper, epilogue": (
        "sm_90a", "C[m,n] = gelu(A[m,k]@B[n,k] scale(1x128,128x128) + b[n]) * x[m]:f32", (72, 1024)),
    "Hopper, scales of rows": ("sm_90a", f"{E4M3} scale(1xk,1xk)", (72, 256)),
    "Hopper, scales of 128 rows": ("sm_90a", f"{E4M3} scale(128xk*tensor,1xk)", (72, 256)),
    "tensor memory, scales of rows": ("sm_100a", f"{E4M3} scale(1xk,1xk*tensor)", (72, 256)),
    "registers, scales of rows": ("sm_120a", f"{E4M3} scale(1xk,1xk)", (72, 256)),
    "tensor memory, promoted": ("sm_100a", FP8, (72, 2048)),
    "tensor memory, pairs": ("sm_100a", BF16, (520, 1024)),
    "tensor memory, mxfp8": ("sm_100a", "C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp8", (72, 1024)),
    "Hopper, computed transposed": ("sm_90a", "C[m,n]:f32 = max(A[m,k] @ B[n,k], D[m,k] @ B[n,k])", (72, 256)),
    "registers, promoted": ("sm_120a", FP8, (72, 2048)),
    "registers, bf16": ("sm_120a", BF16, (72, 1024)),
    "registers, nvfp4": ("sm_120a", "C[m,n]:f32 = A[m,k]:nvfp4 @ B[n,k]:nvfp4", (72, 1024)),
}  # fmt: skip


@cache
def compiled(target: str, source: str, m: int | None, n: int, k: int) -> Kernel:
    return scalec.compile(source, target=target, dims={"n": n, "k": k} | ({"m": m} if m else {}))


def invariant(source: str) -> str:
    return f"{source}, invariant" if " with " in source else f"{source} with invariant"


def arguments(kernel: Kernel, dims: dict[str, int]) -> dict[str, np.ndarray]:
    """Bytes of every kind, the same for the first rows of any M: products of far exponents and either sign cancel."""
    made = {}
    for t in kernel.spec.operands:
        shape = [e.value({**dims, "m": ROWS}) for e in t.shape]
        random = np.random.default_rng(sum(map(ord, t.name)))
        if t.dtype == "f32":
            data = (np.exp2(random.uniform(-12, 12, shape)) * random.choice([-1, 1], shape)).astype(np.float32)
        elif t.dtype in ("ue8m0", "ue4m3"):
            data = random.integers(*((112, 143) if t.dtype == "ue8m0" else (8, 120)), shape, dtype=np.uint8)
        elif t.dtype == "bf16":
            values = np.exp2(random.integers(-12, 13, shape)) * random.normal(size=shape)
            data = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        else:  # e4m3 without its NaN (0x7f), or two e2m1
            shape[-1] = shape[-1] // 2 if t.dtype == "e2m1" else shape[-1]
            data = random.integers(0, 127, shape, dtype=np.uint8) | random.choice(np.uint8([0, 128]), shape)
        rows = t.shape[0].value({**dims, "m": dims["m"]}) if t.shape and t.shape[0].dim == "m" else None
        made[t.name] = np.ascontiguousarray(data[:rows] if rows is not None else data).astype(data.dtype)
    return made


def rows_of(target: str, source: str, m: int | None, n: int, k: int) -> np.ndarray:
    """The result's first rows, as bytes."""
    kernel, dims = compiled(target, source, m, n, k), {"m": m or ROWS, "n": n, "k": k}
    device = emulated.EmulatedDevice(target)
    device.options = replace(device.options, seed=dims["m"])
    values = arguments(kernel, dims)
    given, (out,) = upload(device, kernel.spec, values, dims)
    Kernel(kernel.spec, kernel.cubin, ptx=kernel.ptx, device=device)(*given, out=out)
    found = np.ascontiguousarray(out.numpy())
    assert np.isfinite(found.astype(np.float64)).all()
    return found.view(np.uint8).reshape(dims["m"], -1)


@pytest.mark.once(touches=lambda name: PROGRAMS[name][:1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_bit_equal(name: str) -> None:
    target, source, (n, k) = PROGRAMS[name]
    every = {m: rows_of(target, invariant(source), m, n, k) for m in SIZES}
    whole = every.pop(None)
    for m, rows in every.items():
        assert (rows == whole[:m]).all(), f"m = {m}: {(rows != whole[:m]).any(axis=1).sum()} rows differ"


ORDERED = {
    "parts of K": ("sm_90a", FP8, ("split=1", "split=2")),
    "parts of K in tensor memory": ("sm_100a", FP8, ("split=1", "split=2")),
    "parts of K, instructions in registers": ("sm_120a", BF16, ("split=1", "split=2")),
    "promotion": ("sm_90a", "C[m,n]:f32 = A[m,k]:e4m3@B[n,k]:e4m3", ("promote=128", "promote=0")),
}


@pytest.mark.once(touches=lambda name: ORDERED[name][:1])
@pytest.mark.parametrize("name", ORDERED)
def test_the_data_show_the_order(name: str) -> None:
    """Without that the tests above would pass whatever the order."""
    target, source, (one, other) = ORDERED[name]
    first, second = (rows_of(target, f"{source} with {fields}", 40, 72, 1024) for fields in (one, other))
    assert (first != second).any()


@pytest.mark.once("target", "source")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("source", [FP8, BF16, "C[m,n]:f32 = A[m,k]:e4m3@B[n,k]:e4m3"])
def test_the_order_is_decided_alike_for_every_m(target: str, source: str) -> None:
    """At sizes where without it at least one field differs."""

    def orders(program: str) -> list[dict[str, str]]:
        found = []
        for m in (None, 1, 16, 64, 128, 300, 4096):
            dims = {"n": 2112, "k": 7168} | ({"m": m} if m else {})
            found.append(order_of_sums(str(decided(program, target, dims))))
        return found

    fixed = orders(invariant(source))
    assert all(order == fixed[0] for order in fixed)
    wanted = {"swap": "0", "cta_group": "1", "split": "1"}
    assert {name: fixed[0].get(name) for name in wanted} == wanted
    free = orders(source)
    assert any(order != free[0] for order in free)


@pytest.mark.parametrize("m", [{}, {"m": 16}])
def test_what_is_always_computed_transposed(m: dict[str, int]) -> None:
    source = "L[m,n]:f32 = sum[h](relu(A[m,h,k] @ B[n,k])) with invariant"
    assert decided(source, "sm_90a", {"h": 8, "n": 64, "k": 64} | m).swap == 1


def decided(source: str, target: str, dims: dict[str, int]) -> schedules.Schedule:
    """The schedule that the passes decide."""
    from scalec import frontend
    from scalec.ir import context
    from scalec.passes.pipeline import PIPELINE, run_pipeline
    from scalec.targets import get_target

    with context.context():
        module = frontend.build(source, dims)
        run_pipeline(module, get_target(target), passes=PIPELINE[:-1])
        return schedules.read(next(iter(module.body.operations))).complete()
