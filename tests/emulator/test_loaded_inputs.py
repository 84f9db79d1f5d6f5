"""Inputs as large as the result, which copies bring in boxes while a tile is multiplied."""

from __future__ import annotations

from contextlib import nullcontext

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.compiler import compile_source
from scalec.errors import ArgumentError, ScheduleError
from scalec.runtime import emulated
from tests.emulator.test_several_results import run

BF16 = "T[m,n] = A[m,k]:bf16 @ B[n,k]:bf16\n"
FP8 = "T[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)\n"
BATCHED = "T[b,m,n] = A[b,m,k]:bf16 @ B[b,n,k]:bf16\n"
GROUPED = "T[m,n] = A[m,k]:bf16 @ B[e[m/32],n,k]:bf16\n"
RAGGED = "T[m,n] = A[m,k]:bf16 @ B[g,n,k]:bf16 for m in off[g]:off[g+1]\n"
ADD = "C[m,n]:bf16 = T + X[m,n]:bf16"
WIDE = "C[m,n]:f32 = T * r[m] + X[m,n]:f32"
MIXED = "C[m,n]:bf16 = gelu(T) * X[m,n]:bf16 + Y[m,n]:f32 + b[n]"
TWO = "C[m,n]:bf16 = T * X[m,n]:bf16 + Y[m,n]:bf16\nD[m,n]:f32 = max(T, Y[m,n])"
PAIR = "D[m,n]:mxfp8 = T * X[m,n]:f32 + Y[m,n]"
NARROW = "D[m,n]:mxfp8 = T * silu(X[m,n]:f16)"
REDUCED = "C[m,n]:bf16 = T + X[m,n]:bf16\nR[m]:f32 = max[n](abs(T + X[m,n]))"
GATED = (
    "G[m,n] = A[m,k]:bf16 @ B[n,k]:bf16\nU[m,n] = A[m,k]:bf16 @ D[n,k]:bf16\nC[m,n]:bf16 = silu(G) * U + X[m,n]:bf16"
)

OTHER = "C[m,n]:bf16 = T + X[m,n]:f16"
SUMS = BATCHED + ADD.replace("[m", "[b,m")
IN_BLOCKS = GROUPED.replace("32", "64") + ADD

M, N, K = 300, 136, 192
WIDER = {"m": M, "n": N, "k": 512}
# target, program, schedule, sizes: several tiles for each of the four CTAs that run at once, tails along M and N
CASES: dict[str, tuple[str, str, str, dict[str, int]]] = {
    "all of a tile": ("sm_90a", BF16 + ADD, "tile=128x128x64, inputs=2", {"m": M, "n": 264, "k": K}),
    "fewer than a tile has": ("sm_90a", FP8 + ADD, "tile=128x128x128, inputs=1", {"m": M, "n": 264, "k": 512}),
    "no whole rounds": ("sm_90a", BF16 + ADD, "tile=128x192x64, inputs=2, cluster=1x1", {"m": M, "n": 392, "k": K}),
    "f32": ("sm_90a", BF16 + WIDE, "tile=128x64x64, inputs=3, cluster=2x1", {"m": M, "n": 132, "k": K}),
    "two, of two types": ("sm_90a", BF16 + MIXED, "tile=128x64x64, inputs=4", {"m": M, "n": N, "k": K}),
    "of two results": ("sm_90a", BF16 + TWO, "tile=128x64x64, inputs=3, cluster=1x1", {"m": M, "n": N, "k": K}),
    "two waves": ("sm_90a", BF16 + ADD, "tile=128x48x64, warpgroups=1, inputs=3", {"m": M, "n": 104, "k": K}),
    "permuted columns": ("sm_90a", FP8 + NARROW, "tile=128x64x128, inputs=2", {"m": M, "n": 160, "k": 512}),
    "beside a reduction": ("sm_90a", BF16 + REDUCED, "tile=128x64x64, inputs=2", {"m": M, "n": N, "k": K}),
    "as few as are read at a time": ("sm_90a", BF16 + PAIR, "tile=64x64x64, inputs=2", {"m": M, "n": N, "k": K}),
    "behind two products": ("sm_90a", GATED, "tile=128x128x64, inputs=2", {"m": M, "n": N, "k": K}),
    "batches": ("sm_90a", SUMS, "tile=64x64x64, inputs=2", {"b": 3, "m": 70, "n": N, "k": K}),
    "groups": ("sm_90a", GROUPED + ADD, "tile=64x64x64, inputs=2", {"m": M, "n": N, "k": K, "B_0": 3}),
    "ragged groups": ("sm_90a", RAGGED + ADD, "tile=64x64x64, inputs=2", {"m": M, "n": N, "k": K, "g": 5}),
    "one row": ("sm_90a", BF16 + ADD, "tile=64x64x64, inputs=2", {"m": 1, "n": 72, "k": K}),
    "no rows": ("sm_90a", BF16 + ADD, "tile=64x64x64, inputs=2", {"m": 0, "n": 72, "k": K}),
    "nothing to sum": ("sm_90a", BF16 + ADD, "tile=64x64x64, inputs=2", {"m": M, "n": 72, "k": 0}),
    "warps": ("sm_120a", BF16 + MIXED, "tile=64x64x64, inputs=3", {"m": M, "n": N, "k": K}),
    "warps beside promotion": ("sm_120a", FP8 + ADD, "tile=128x64x128, warps=4x2, inputs=2", WIDER),
}  # fmt: skip


@pytest.mark.once(touches=lambda case: CASES[case][:1])
@pytest.mark.parametrize("case", CASES)
def test_results(case: str) -> None:
    target, program, schedule, dims = CASES[case]
    kernel, _ = run(f"{program} with {schedule}", target, dims, "nk")
    assert "inputs=0" not in kernel.spec.schedule


# by a warp that loads and stores
IN_PLACE: dict[str, tuple[str, str, str, dict[str, int]]] = {
    "one box each": ("sm_90a", BF16 + ADD, "tile=128x64x64, cluster=2x1", {"m": M, "n": N, "k": K}),
    "several": ("sm_90a", FP8 + ADD, "tile=128x128x128", {"m": M, "n": 264, "k": 512}),
    "two waves, two boxes": ("sm_90a", BF16 + ADD, "tile=256x96x64, swizzle_c=64", {"m": 600, "n": 200, "k": K}),
    "f32": ("sm_90a", BF16 + WIDE, "tile=128x64x64", {"m": M, "n": 132, "k": K}),
    "another input beside": ("sm_90a", BF16 + MIXED, "tile=128x64x64", {"m": M, "n": N, "k": K}),
    "of another type": ("sm_90a", BF16 + OTHER, "tile=64x64x64", {"m": M, "n": N, "k": K}),
    "the result itself": ("sm_90a", BF16 + "C[m,n]:bf16 += 2 * T", "tile=64x64x64", {"m": M, "n": N, "k": K}),
    "batches": ("sm_90a", SUMS, "tile=64x64x64", {"b": 3, "m": 70, "n": N, "k": K}),
    "groups": ("sm_90a", IN_BLOCKS, "tile=64x64x64, cluster=1x1", {"m": M, "n": N, "k": K, "B_0": 3}),
    "one row": ("sm_90a", BF16 + ADD, "tile=64x64x64", {"m": 1, "n": 72, "k": K}),
    "no rows": ("sm_90a", BF16 + ADD, "tile=64x64x64", {"m": 0, "n": 72, "k": K}),
    "nothing to sum": ("sm_90a", BF16 + ADD, "tile=64x64x64", {"m": M, "n": 72, "k": 0}),
    "warps": ("sm_120a", BF16 + MIXED, "tile=64x64x64, epilogue=bulk", {"m": M, "n": N, "k": K}),
}  # fmt: skip


@pytest.mark.once(touches=lambda case: IN_PLACE[case][:1])
@pytest.mark.parametrize("case", IN_PLACE)
def test_in_place(case: str) -> None:
    target, program, schedule, dims = IN_PLACE[case]
    kernel, _ = run(f"{program} with adds=loaded, {schedule}", target, dims, "nk")
    assert "adds=loaded" in kernel.spec.schedule


@pytest.mark.parametrize(
    ("program", "schedule", "found"),
    [
        (BF16 + "C[m,n]:bf16 = T + x[n]", "inputs=2", "nothing is read at each element"),
        (BF16 + ADD, "inputs=2, split=2", "which CTA computes the results"),
        (BF16 + PAIR, "inputs=1", "computed of 2 of them at a time, and 1 boxes have room"),
        (BF16 + ADD, "inputs=2, swap=1", "computes results by columns"),
        (BF16 + ADD, "inputs=2, consumers=pingpong, tile=64x64x64", "take boxes by turns"),
        (BF16 + "C[m,n]:bf16 = T + X[m/2,n]:bf16", "inputs=2", "do not lie as those of a tile do"),
        (BF16 + "C[m,n]:bf16 = T + X[m,n]:f32", "adds=loaded", "reads nothing that lies as it does"),
        (BF16[:-1] + " for n in lo[0]:hi[0]\n" + ADD, "inputs=2", "a tile may begin at 1 of n, where no copy does"),
        (RAGGED + ADD, "adds=loaded, tile=64x64x64", "tiles may be cut along m"),
        (BF16 + ADD, "adds=loaded, inputs=2", "a warp loads and stores the results' tiles"),
    ],
)
def test_refused(program: str, schedule: str, found: str) -> None:
    with pytest.raises(ScheduleError) as error:
        compile_source(f"{program} with {schedule}", "sm_90a", {"n": 136, "k": 192}, until="tile")
    assert found in str(error.value)


def test_odd_rows_are_loaded_by_threads() -> None:
    """No copy brings them; sm_100a's sums lie by rows."""
    for target, n in (("sm_90a", 132), ("sm_100a", 136)):
        kernel, _ = run(BF16 + ADD, target, {"m": 150, "n": n, "k": 64}, "nk")
        assert "inputs=0" in kernel.spec.schedule
        assert "adds=memory" in kernel.spec.schedule


def test_expanded_rows_are_refused_where_copies_bring_them() -> None:
    """And read where threads load them."""
    a, b, row = (np.zeros(shape, ml_dtypes.bfloat16) for shape in ((70, 64), (72, 64), (72,)))
    row[:] = range(72)
    for schedule, refused in (("inputs=2", True), ("adds=loaded", True), ("inputs=0, adds=memory", False)):
        kernel = scalec.compile(f"{BF16}{ADD} with tile=64x64x64, {schedule}", "sm_90a", {"n": 72, "k": 64})
        kernel.fixed = emulated.EmulatedDevice("sm_90a")
        with pytest.raises(ArgumentError, match="X has a stride of 0") if refused else nullcontext():
            assert (kernel(a, b, np.broadcast_to(row, (70, 72))) == row).all()
