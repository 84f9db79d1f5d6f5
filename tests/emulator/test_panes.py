"""Several contractions that share an operand, on every target: their sums lie side by side in a tile, and meet in the
elementwise expressions."""

from __future__ import annotations

import pytest

from scalec.errors import ScheduleError, UnsupportedError
from tests.emulator.test_several_results import EVERY, TARGETS, run
from tests.tiers import SEEDS

BLACKWELL = ("sm_100a", "sm_120a")


def gated(x: str, w: str, scales: str = "", at: str = "m,n", to: str = "", where: str = "") -> str:
    """A gated layer: W is the name of the weights, on either side."""
    gate, up = (f"{t}[{at}] = {x} @ {w} {scales} {where}".replace("W", f"W{t.lower()}") for t in "GU")
    return f"{gate}; {up}; H[{at}]{to} = silu(G) * U"


FP8, BF16 = ("X[m,k]", "W[n,k]", "scale(1x128,128x128)"), ("X[m,k]:bf16", "W[n,k]:bf16")
RAGGED = "for m in off[g]:off[g+1]"
DENSE = {"m": 77, "n": 160, "k": 256}
GROUPS = {"m": 300, "n": 160, "k": 256, "g": 3}
BLOCKS = {"m": 300, "n": 160, "k": 256, "Wg_0": 3, "Wu_0": 3}

CASES: dict[str, tuple[str, dict[str, int], tuple[str, ...]]] = {
    "bf16": (gated(*BF16), DENSE, EVERY),
    "fp8": (gated(*FP8), DENSE, EVERY),
    "fp8 to mxfp8": (gated(*FP8, to=":mxfp8"), DENSE, EVERY),
    "fp8 to nvfp4": (gated(*FP8, to=":nvfp4"), DENSE, EVERY),
    "fp8 to blocks": (gated(*FP8, to=":fp8_block"), {**DENSE, "n": 256}, EVERY),
    "scales of rows": (gated("X[m,k]", "W[n,k]", "scale(1x128,1x128)"), {**DENSE, "k": 512}, EVERY),
    "scales of rows, by threads": (gated("X[m,k]", "W[n,k]", "scale(1x128,1x128)"), {**DENSE, "k": 384}, EVERY),
    "scales in columns": (gated("X[m,k]", "W[n,k]", "scale(1x128@col,1x128@col)"), DENSE, EVERY),
    "scales of rows, 64": (gated("X[m,k]", "W[n,k]", "scale(1x64@col,1x64@col)"), DENSE, EVERY),
    "scales of few rows": (gated("X[m,k]", "W[n,k]", "scale(1x128,16x128)"), DENSE, EVERY),
    "one scale for all rows": (gated("X[m,k]", "W[n,k]", "scale(1x128,nx128)"), DENSE, EVERY),
    "scales constant along k": (gated("X[m,k]", "W[n,k]", "scale(1xk,1xk)"), DENSE, EVERY),
    "scales of tensors": (gated("X[m,k]", "W[n,k]", "scale(tensor,tensor)"), DENSE, EVERY),
    "mxfp8": (gated("X[m,k]:mxfp8", "W[n,k]:mxfp8", to=":mxfp8"), DENSE, EVERY),
    "nvfp4": (gated("X[m,k]:nvfp4", "W[n,k]:nvfp4", to=":nvfp4"), DENSE, EVERY),
    "mxfp8 blocked": (
        gated("X[m,k]", "W[n,k]", "scale(1x32:ue8m0@blocked,1x32:ue8m0@blocked)"),
        {**DENSE, "n": 256},
        EVERY,
    ),
    "mxfp8 packed": (gated("X[m,k]", "W[n,k]", "scale(1x32:ue8m0@packed,1x32:ue8m0@packed)"), DENSE, EVERY),
    "w4a16": (gated("X[m,k]:bf16", "W[n,k]:nvfp4"), DENSE, EVERY),
    "w4a16, int4": (gated("X[m,k]:bf16", "W[n,k]:i4", "scale(none,1x64:f16)", to=":mxfp8"), DENSE, EVERY),
    "w4a16, a zero point": (gated("X[m,k]:bf16", "(W[n,k]:u4 - 8)", "scale(none,1x64:f16)"), DENSE, EVERY),
    "w4a8, a zero point": (
        gated("X[m,k]:e4m3", "(W[n,k]:u4 - 8)", "scale(1x128,1x128:f16)", to=":mxfp8"),
        DENSE,
        EVERY,
    ),
    "w4a8": (gated("X[m,k]:e4m3", "W[n,k]:e2m1", "scale(1x128,1x128)"), DENSE, EVERY),
    "n contiguous": (gated("X[m,k]", "W[k,n]"), DENSE, EVERY),
    "f32 and tf32": (gated("X[m,k]:tf32", "W[n,k]:tf32", to=":f32"), DENSE, EVERY),
    "batches": (gated("X[b,m,k]", "W[b,n,k]", at="b,m,n"), {**DENSE, "b": 3}, EVERY),
    "a sum over two": (gated("X[b,m,k]", "W[b,n,k]"), {**DENSE, "k": 72, "b": 3}, EVERY),
    "blocks of groups": (gated("X[m,k]", "W[e[m/128],n,k]", "scale(1x128,1x128x128)", to=":mxfp8"), BLOCKS, EVERY),
    "ragged groups": (gated("X[m,k]", "W[g,n,k]", where=RAGGED), GROUPS, EVERY),
    "ragged fp8": (gated("X[m,k]", "W[g,n,k]", "scale(1x128,1x128x128)", to=":mxfp8", where=RAGGED), GROUPS, EVERY),
    "gathered": (
        gated("X[idx[m],k]", "W[g,n,k]", "scale(1x128,1x128x128)", to=":mxfp8", where=RAGGED),
        {**GROUPS, "X_0": 111},
        EVERY,
    ),
    "masked": (gated("X[g,m,k]", "W[g,n,k]", at="g,m,n", where="for m < rows[g]"), {**GROUPS, "m": 130}, EVERY),
    "a range of k": (gated("X[m,k]", "W[n,k]", at="g,m,n", where="for k in off[g]:off[g+1]"), {**DENSE, "g": 3}, EVERY),
    "clamped": (
        "G[m,n] = X[m,k] @ Wg[n,k]; U[m,n] = X[m,k] @ Wu[n,k]; "
        "H[m,n] = sigmoid(1.7 * min(G + bg[n], 7)) * min(G + bg[n], 7) * (max(min(U + bu[n], 7), -7) + 1) + R[m,n]",
        DENSE,
        EVERY,
    ),
    "three, and one alone": (
        "P[m,n] = X[m,k] @ A[n,k]; Q[m,n] = X[m,k] @ B[n,k]; R[m,n] = X[m,k] @ C[n,k]; "
        "H[m,n]:f32 = P*Q + R; D[m,n] = Q",
        {**DENSE, "n": 192},
        EVERY,
    ),
    "that do not meet": ("P[m,n]:f32 += X[m,k] @ A[n,k]; Q[m,n]:f32 = X[m,k] @ B[n,k]", DENSE, EVERY),
    "scattered": (
        "G[m,n] = X[m,k] @ Wg[n,k]; U[m,n] = X[m,k] @ Wu[n,k]; H[idx[m],n] = silu(G) * U",
        {**DENSE, "H_0": 200},
        EVERY,
    ),
}


MORE: dict[str, tuple[str, dict[str, int], tuple[str, ...]]] = {
    "turned, to bf16": (gated("X[m,k]", "W[k,n]:e4m3"), DENSE, ("sm_90a",)),
    "turned, fp8": (gated("X[m,k]:e4m3", "W[k,n]:e4m3", to=":mxfp8"), DENSE, ("sm_90a",)),
    "turned, fp8 blocks": (gated("X[m,k]", "W[k,n]", "scale(1x128,128x128)"), {**DENSE, "n": 256}, ("sm_90a",)),
    "turned, tf32": (gated("X[m,k]:tf32", "W[k,n]:tf32", to=":f32"), DENSE, ("sm_90a",)),
    "turned, ragged": (gated("X[m,k]:e4m3", "W[g,k,n]:e4m3", where=RAGGED), GROUPS, ("sm_90a",)),
    "three, turned": (
        "P[m,n] = X[m,k]:e4m3 @ A[k,n]:e4m3; Q[m,n] = X[m,k]:e4m3 @ B[k,n]:e4m3;"
        " H[m,n] = P + Q * (X[m,k]:e4m3 @ C[k,n]:e4m3)",
        {**DENSE, "n": 192},
        ("sm_90a",),
    ),
    "the right one in common": ("C[m,n] = V[m,k] @ X[n,k]; D[m,n] = W[m,k] @ X[n,k]", DENSE, EVERY),
    "..., bf16": (gated("W[m,k]", "X[n,k]"), DENSE, EVERY),
    "..., fp8": (gated("W[m,k]", "X[n,k]", "scale(128x128,1x128)"), {**DENSE, "m": 200}, EVERY),
    "..., mxfp8": (gated("W[m,k]:mxfp8", "X[n,k]:mxfp8", to=":mxfp8"), DENSE, EVERY),
    "..., w16a4": (gated("W[m,k]:bf16", "X[n,k]:nvfp4", to=":f32"), DENSE, EVERY),
    "..., turned": (gated("W[k,m]:e4m3", "X[n,k]:e4m3", to=":f32"), {**DENSE, "m": 80}, EVERY),
    "..., ragged": (gated("W[m,k]", "X[g,n,k]", where=RAGGED), GROUPS, EVERY),
    "..., reduced": (
        "G[m,n] = V[m,k] @ X[n,k]; H[m,n]:f32 += G * (W[m,k] @ X[n,k] + b[n]); R[n]:f32 = max[m](abs(G));"
        " S[m]:f32 = sum[n](G)",
        DENSE,
        EVERY,
    ),
    "..., scattered": (
        "G[m,n] = V[m,k] @ X[n,k]; U[m,n] = W[m,k] @ X[n,k]; H[idx[m],n] = G * U; D[m,n] = G",
        {**DENSE, "H_0": 200},
        EVERY,
    ),
}
"""Of which a usual run has one."""


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "case", [(name, target) for name, (_, _, targets) in MORE.items() for target in targets], ids=" ".join
)
def test_more(case: tuple[str, str], seed: int) -> None:
    name, target = case
    source, dims, _ = MORE[name]
    dims = dims | ({"m": 16} if seed == 1 and set(dims) <= {"m", "n", "k"} and "turned" in name else {})
    run(source, target, dims, "".join(d for d in dims if len(d) == 1 and (d != "m" or "turned" in name)), seed)


@pytest.mark.once("case")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", [(name, target) for name, (_, _, targets) in CASES.items() for target in targets])
def test_panes(case: tuple[str, str], seed: int) -> None:
    name, target = case
    source, dims, _ = CASES[name]
    dims = dims | ({"m": 1} if seed == 1 and set(dims) <= {"m", "n", "k"} else {})
    unknown = seed == 1 and "k" in dims and not name.startswith(("mxfp8", "nvfp4", "w4"))
    run(source, target, dims, "".join(d for d in dims if len(d) == 1 and d != "m" and not unknown), seed)


SCHEDULES = (
    ("bf16", "split=2", EVERY),
    ("fp8", "split=2", EVERY),
    ("bf16", "split=2, parts=cluster", ("sm_90a",)),
    ("bf16", "consumers=pingpong", ("sm_90a",)),
    ("fp8", "tile=256x128x128, mma_n=64", ("sm_90a",)),
    ("fp8", "unroll=2", EVERY),
    ("bf16", "epilogue=direct", EVERY),
    ("bf16", "cluster=2x1", ("sm_90a", "sm_100a")),
    ("fp8", "cluster=1x2", ("sm_90a", "sm_100a")),
    ("bf16", "scheduler=dynamic", BLACKWELL),
    ("bf16", "warpgroups=2", ("sm_100a",)),
    ("bf16", "warps=4x2", ("sm_120a",)),
    ("mxfp8", "scale_path=thread", BLACKWELL),
)


@pytest.mark.once("case")
@pytest.mark.parametrize(
    "case", [(name, fields, target) for name, fields, targets in SCHEDULES for target in targets], ids=" ".join
)
def test_schedules(case: tuple[str, str, str]) -> None:
    name, fields, target = case
    source, dims, _ = CASES[name]
    run(f"{source} with {fields}", target, dims, "nk")


@pytest.mark.parametrize("size", ["m", "n", "k"])
@pytest.mark.parametrize("target", TARGETS)
def test_empty(target: str, size: str) -> None:
    run(CASES["bf16"][0], target, {**DENSE, size: 0}, "")


REFUSED = (
    ("swap=1", "Wg and Wu lie side by side in a tile's columns"),
    ("permute_n=16", "permute_n = 16 is not possible"),
    ("tile=128x72x64", "72 columns, and Wg and Wu need a multiple of 16"),
)


@pytest.mark.parametrize(
    ("zeros", "message"),
    [(("8", "7"), "G and U are operands of contractions that meet, and differ in their zero points")],
)
def test_zero_points_that_are_no_one_number_are_refused(zeros: tuple[str, str], message: str) -> None:
    one, other = (f"(X[m,k]:bf16 @ ({w}[n,k]:u4 - {z}))" for w, z in zip("GU", zeros, strict=True))
    with pytest.raises(UnsupportedError, match=message):
        run(f"H[m,n] = {one} * {other}", "sm_90a", DENSE, "nk")


def test_narrow_tiles() -> None:
    """Warps take 16 columns or more of each contraction out of tensor memory."""
    source = "; ".join(f"P{i}[m,n] = X[m,k]:bf16 @ W{i}[n,k]:bf16" for i in range(4)) + "; H[m,n] = P0 * P1 + P2 * P3"
    run(f"{source} with tile=128x64x64", "sm_100a", {"m": 40, "n": 24, "k": 64}, "nk")
    for fields in ("tile=128x32x64", "tile=128x96x64", "tile=128x64x64, warpgroups=2"):
        with pytest.raises(ScheduleError, match=r"need a multiple of (64|128)"):
            run(f"{source} with {fields}", "sm_100a", DENSE, "nk")
    own = "; H[m,n]:f32 += P0 * P1 + P2 * P3 * y[m]; D[m,n] = P3"  # a tile that is chosen
    run(source.split("; H")[0] + own, "sm_100a", {"m": 40, "n": 24, "k": 64}, "k")


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_refused(case: tuple[str, str]) -> None:
    fields, message = case
    with pytest.raises(ScheduleError, match=message):
        run(f"{CASES['bf16'][0]} with {fields}", "sm_90a", DENSE, "nk")
