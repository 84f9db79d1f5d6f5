"""Results quantised for each group of rows: tiles of `@blocked` scales begin where those of the group do, as the next
product of the same groups reads them. What pads them keeps its bytes, NaN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import layouts, reference
from scalec.checking.guarded import GUARD, PATTERN, Guarded
from scalec.checking.launch import upload
from scalec.errors import ArgumentError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator.test_several_results import TARGETS, run
from tests.tiers import SEEDS

APART = "for m in off[g]:off[g+1] apart"
SCALED = "A[m,k] @ B[g,n,k] scale(1x32:ue8m0@blocked,1x1x32:ue8m0@blocked)"
BF16 = "A[m,k] @ B[g,n,k]"
MX, NV = "e4m3 scale(1x32:ue8m0@blocked)", "e2m1 scale(1x16:ue4m3@blocked*tensor)"

PROGRAMS = {
    "mxfp8 of mxfp8": f"D[m,n]:{MX} = {SCALED} {APART}",
    "nvfp4, by group": f"D[m,n]:{NV} = alpha[g] * ({BF16}) + b[g,n] {APART}",
    "of rows of all": f"D[m,n]:{MX} = gelu(A[m,k] @ B[g,n,k] scale(1x128,1x128x128)) {APART}",
    "gated": f"D[m,n]:{MX} = silu({BF16}) * (A[m,k] @ E[g,n,k]) {APART}",
    "of a temporary": f"T[m,n] = {BF16} {APART}; D[m,n]:{MX} = relu(T); C[m,n] = T; E[m,n]:{NV} = T",
    "gathered": f"D[m,n]:{MX} = A[idx[m],k] @ B[g,n,k] {APART}",
    "by chance": f"D[m,n]:{MX} = stochastic({BF16}, s[0]) {APART}",
    "batches": f"D[b,m,n]:{MX} = A[b,m,k] @ B[g,n,k] {APART}",
    "swapped": f"D[m,n]:{MX} = {BF16} {APART} with swap=1",
    "swapped, nvfp4": f"D[m,n]:{NV} = {BF16} {APART} with swap=1",
    "direct": f"D[m,n]:{MX} = {BF16} {APART} with epilogue=direct",
}
USUAL = {"gated", "swapped"}


def sizes(seed: int) -> dict[str, int]:
    """Groups that begin within tiles and blocks, empty ones, and sizes of 0 and 1."""
    m, n, k, g = (
        (300, 96, 128, 5), (1, 40, 64, 1), (0, 64, 64, 3), (140, 8, 192, 12),
        (129, 160, 0, 2), (260, 72, 64, 3), (5, 264, 128, 9), (128, 32, 64, 0),
    )[seed]  # fmt: skip
    return {"m": m, "n": n, "k": k, "g": g}


@pytest.mark.once(touches=lambda name, **_: {name} & USUAL)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS)
def test_results(target: str, name: str, seed: int) -> None:
    source, dims = PROGRAMS[name], sizes(seed)
    dims |= {"b": 2} if name == "batches" else {}
    dims |= {"A_0": 30} if name == "gathered" else {}
    fixed = ("nk", "n", "", "gnk")[seed % 4] if dims["k"] and dims["g"] else "n"
    run(source, target, dims, fixed, seed)


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
def test_places(target: str, seed: int) -> None:
    """They are the row-major ones, bit for bit, where `layouts.blocked_by_group` puts these."""
    dims = sizes(seed)
    source = f"T[m,n] = {BF16} {APART}; D[m,n]:{MX} = T; E[m,n]:e4m3 scale(1x32:ue8m0) = T"
    _, made = run(source, target, dims, "n", seed)
    with context.context():
        offsets = reference.make(build(source, {}), dims, seed)["off"]
    blocks = -(-dims["n"] // 32)
    there = np.zeros((dims["m"], blocks), np.uint8)
    there[offsets[0] : offsets[-1]] = 1

    def laid_out(x: Any) -> Any:
        raw = layouts.blocked_by_group(np.ascontiguousarray(x).view(np.uint8), offsets)
        return reference.from_blocked(raw, raw.shape[0], blocks)

    written = laid_out(there) > 0
    got = reference.from_blocked(np.ascontiguousarray(made["D_scale"]).view(np.uint8), len(written), blocks)
    assert (got[written] == laid_out(made["E_scale"])[written]).all()
    assert (got[~written] == 0xFF).all()


def launched(
    source: str, target: str, dims: dict[str, int], values: Mapping[str, Any], fixed: str
) -> dict[str, Guarded]:
    """The results of a kernel on an emulated device that does not check indices first, by name."""
    kernel = scalec.compile(source, target=target, dims={d: dims[d] for d in fixed})
    device = emulated.EmulatedDevice(target)
    device.checks, device.options = False, replace(device.options, ignore=frozenset({"race", "in-flight", "proxy"}))
    given, _ = upload(device, kernel.spec, values, dims)
    outs = tuple(Guarded.result(device, r, dims, 0xFF, None) for r in kernel.spec.results)
    Kernel(kernel.spec, b"", ptx=kernel.ptx, device=device)(*given, out=outs)
    return {x.spec.name: x for x in outs}


def guards_kept(x: Guarded) -> bool:
    """Whether nothing is written before and behind it."""
    around = [x.device.download(at, GUARD, 0) for at in (x.pointer - GUARD, x.pointer + x.nbytes)]
    return all(bytes(raw) == bytes([PATTERN]) * GUARD for raw in around)


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
def test_two_products(target: str) -> None:
    """The second reads what the first wrote, values and scales as they are: exact sums, so all bits are known."""
    dims = {"m": 200, "n": 64, "k": 64, "g": 4, "j": 40}
    first = f"H[m,n]:{MX} = A[m,k] @ B[g,n,k] + b[g,n] {APART}"
    second = f"Y[m,j]:f32 = H[m,n] @ W[g,j,n] scale(1x32:ue8m0@blocked,1x1x32:ue8m0@blocked) {APART}"
    offsets = np.array([3, 3, 150, 151, 190], np.int32)
    with context.context():
        one, two = build(first, {}), build(second, {})
        values = dict(reference.make(one, dims, seed=1, exact=True)) | {"off": offsets}
        further = dict(reference.make(two, dims, seed=2, exact=True))
    hidden = {name: x.numpy() for name, x in launched(first, target, dims, values, "nk").items()}
    assert (hidden["H_scale"].view(np.uint8) == 0xFF).any()  # NaN between groups
    weights = {name: further[name] for name in ("W", "W_scale")} | {"off": offsets}
    with context.context():
        made = {name: x.view(further[name].dtype) for name, x in hidden.items()}
        wanted = reference.run(two, made | weights, dims=dims)["Y"]
    got = launched(second, target, dims, made | weights, "nj")["Y"].numpy()
    assert got[3:190].tobytes() == wanted[3:190].tobytes()
    assert np.isnan(got[[0, 1, 2, *range(190, 200)]]).all()


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "offsets", [[0, 100, 40, 150], [150, 0, 100, 20], [-9, 400, -1, 2**31 - 1], [-(2**31), 7, 9, 9]]
)
def test_offsets_out_of_order_write_nothing_else(target: str, offsets: list[int]) -> None:
    source, dims = f"D[m,n]:{MX} = {BF16} {APART}", {"m": 150, "n": 40, "k": 64, "g": 3}
    with context.context():
        values = dict(reference.make(build(source, {}), dims, seed=1)) | {"off": np.array(offsets, np.int32)}
    for x in launched(source, target, dims, values, "nk").values():
        assert guards_kept(x), x.spec.name


def test_scales_of_another_shape() -> None:
    source, dims = f"D[m,n]:{MX} = {BF16} {APART}", {"m": 150, "n": 40, "k": 64, "g": 3}
    kernel, device = scalec.compile(source, target="sm_90a"), emulated.EmulatedDevice("sm_90a")
    with context.context():
        given, _ = upload(device, kernel.spec, reference.make(build(source, {}), dims, seed=1), dims)
    d, scales = kernel.spec.results
    outs = Guarded.result(device, d, dims, 0, None), Guarded.result(device, scales, dims | {"g": 0}, 0, None)
    call = Kernel(kernel.spec, b"", ptx=kernel.ptx, device=device)
    with pytest.raises(ArgumentError, match="D_scale"):
        call(*given, out=outs)


def test_blocks_along_a_range_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="m has a range, and D has blocks of 32 along it"):
        scalec.compile(f"D[n,m]:mxfp8 = A[g,n,k] @ B[m,k] {APART}", target="sm_100a")
