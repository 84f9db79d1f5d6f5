"""Index tensors of groups that lead outside: with the check on an error says where; without it nothing outside the
results is written, and nothing outside of any tensor read. On the emulator, which finds such a read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scalec
from scalec.checking.guarded import GUARD, PATTERN, Guarded
from scalec.checking.launch import made_up, upload
from scalec.errors import ArgumentError
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.runtime.test_groups_op import PROGRAMS, SIZES

TARGETS = ("sm_90a", "sm_100a", "sm_120a")
FURTHER = {
    "by M": "C[m,n] = A[k,m] @ B[e[m/16],k,n]",
    "mxfp8": "C[m,n] = A[m,k]:mxfp8 @ B[g,n,k]:mxfp8 for m in off[g]:off[g+1]",
    "mxfp8 @blocked, gathered": (
        "C[m,n] = A[idx[m],k] @ B[g,n,k] scale(1x32:ue8m0@blocked,1x1x32:ue8m0@blocked) for m in off[g]:off[g+1]"
    ),
    "computed, gathered": "C[m,n] = relu(A[idx[m],k]) @ B[g,n,k] for m in off[g]:off[g+1]",
    "inputs of the group": "C[m,n] = s[e[m/16]] * (A[m,k] @ B[e[m/16],n,k]) + b[e[m/16],n]",
    "inputs where rows go": "C[idx[m],n] = A[m,k] @ B[n,k] + x[idx[m],n]",
    "masked, named": "C[g,m,n] = A[idx[g,m],k] @ B[g,n,k] for m < rows[g]",
    "masked into one": "C[idx[g,m],n] = A[g,m,k] @ B[g,n,k] for m < rows[g]",
    "along K, gathered": "C[g,m,n]:f32 = A[idx[k],m] @ B[k,n] for k in off[g]:off[g+1]",
    "along K, beside counts": "C[g,m,n] = A[g,m,k] @ B[n,k] for k in off[g]:off[g+1] for m < rows[g]",
    "ranges": "C[g,m,n] = A[m,k] @ B[g,n,k] for m in low[g]:high[g]",
    "quantised of groups": "Q[m,n]:e4m3 scale(128x1) = X[m,n] * w[g] for m in off[g]:off[g+1] apart",
    "quantised, gathered": "Q[m,n]:mxfp8 = X[idx[m],n]",
    "quantised, scattered": "Q[idx[m],n]:mxfp8 = X[m,n]",
}
EVERY = PROGRAMS | FURTHER
EXTENTS = SIZES | {"x_0": 60, "s_0": 3, "b_0": 3, "X_0": 40, "Q_0": 60}
WRONG = (1 << 30, -(1 << 30), 2**31 - 1, -(2**31), 1000, -7, 200, 61)


def made(name: str, target: str) -> tuple[Kernel, dict[str, int], dict[str, Any], list[str]]:
    """A kernel of its own on an emulated device, sizes, values whose index tensors reach all, and these by name."""
    source = EVERY[name]
    kernel = scalec.compile(source, target=target, dims={"n": 64} | ({"k": 128} if "k]" in source else {}))
    assert isinstance(kernel, Kernel)
    device = emulated.EmulatedDevice(target)
    kernel = Kernel(kernel.spec, b"", ptx=kernel.ptx, device=device)
    dims = {d: EXTENTS[d] for d in kernel.spec.dims}
    if "idx[g,m]" in source and "C_0" in dims:
        dims["C_0"] = dims["g"] * dims["m"]
    values = dict(made_up(source, dims, 3)[0])
    scattered = source.partition("=")[0]
    reach = {
        "off": [0, 16, 32, dims.get("k" if "for k" in source else "m", 0)],
        "rows": [dims.get("m", 0)] * 3,
        "low": [0, 16, 20],
        "high": [16, 20, 48],
    }
    tensors = [n for n in values if n in ("off", "rows", "low", "high", "e", "idx", "to", "inv")]
    for n in tensors:
        shape = values[n].shape
        entries = np.arange(np.prod(shape)).reshape(shape) % (3 if n == "e" else 200 if f"{n}[" in scattered else 40)
        values[n] = np.asarray(reach.get(n, entries), np.int32)
    return kernel, dims, values, tensors


def launch(kernel: Kernel, dims: dict[str, int], values: dict[str, Any]) -> list[Guarded]:
    """The results of a launch, between guards; what it reads has no byte around it."""
    device = kernel.fixed
    given, _ = upload(device, kernel.spec, values, dims)
    outs = [
        Guarded.result(device, r, dims, 0xFF, np.zeros_like(values[r.name]) if r.inout else None)
        for r in kernel.spec.results
    ]
    kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))
    return outs


def guards_kept(x: Guarded) -> bool:
    around = [x.device.download(at, GUARD, 0) for at in (x.pointer - GUARD, x.pointer + x.nbytes)]
    return all(bytes(raw) == bytes([PATTERN]) * GUARD for raw in around)


@pytest.mark.thorough
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EVERY)
def test_nothing_outside_is_written_or_read(name: str, target: str) -> None:
    kernel, dims, values, tensors = made(name, target)
    device = kernel.fixed
    assert isinstance(device, emulated.EmulatedDevice)
    device.checks = False
    device.options = replace(
        device.options, ignore=frozenset({"race", "in-flight", "proxy"})
    )  # rows that are met twice
    assert all(guards_kept(x) for x in launch(kernel, dims, values))
    rng = np.random.default_rng(len(name))
    for spoiled in [*([x] for x in tensors), tensors]:
        for share in (0.2, 0.6):
            wrong = dict(values)
            for x in spoiled:
                drawn = rng.choice(np.array(WRONG, np.int32), values[x].shape)
                wrong[x] = np.where(rng.random(values[x].shape) < share, drawn, values[x]).astype(np.int32)
            for out in launch(kernel, dims, wrong):
                assert guards_kept(out), (out.spec.name, wrong)


@pytest.mark.thorough
@pytest.mark.parametrize("name", EVERY)
def test_the_check_says_where(name: str) -> None:
    kernel, dims, values, tensors = made(name, "sm_90a")
    launch(kernel, dims, values)
    assert tensors
    for x in tensors:
        flat = values[x].copy()
        at = tuple(n // 2 for n in flat.shape)
        flat[at] = 1 << 30
        with pytest.raises(ArgumentError) as caught:
            launch(kernel, dims, values | {x: flat})
        place = ", ".join(map(str, at))
        assert f"{x}[{place}] = {1 << 30}" in str(caught.value), str(caught.value)
        assert caught.value.fix
