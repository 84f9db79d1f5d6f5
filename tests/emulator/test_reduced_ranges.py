"""Reductions of a product over rows or columns that a range, or an index from memory, leaves out some of: of each group
its own, of those without any of nothing, and bit-equal from launch to launch."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS, Guarded
from scalec.checking.launch import made_up, values_of
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from tests.emulator.running import TARGETS, launched, refusals
from tests.emulator.test_reductions import run, same_whoever_finishes

RANGE = "for m in off[g]:off[g+1]"
GROUPS = f"T[m,n] = A[m,k] @ B[g,n,k] {RANGE}; C[m,n] = T"
OF_GROUPS = f"{GROUPS}; R[g,n]:f32 = max[m](abs(T)) {RANGE}; S[g,n]:f32 = sum[m](T*T) {RANGE}"

# a term of what is not there, 0, would be 1 in the sums of exp
PROGRAMS = {
    "groups": (OF_GROUPS, {"g": 4}),
    "groups, alone": (f"S[g,n]:f32 = sqrt(sum[m]((A[m,k] @ B[g,n,k])^2) / 64) {RANGE}", {"g": 4}),
    "groups, both": (f"{OF_GROUPS}; Q[m]:f32 = min[n](T)", {"g": 3}),
    "groups, scaled": (
        f"T[m,n] = A[m,k] @ B[g,n,k] scale(1x128, 1x128x128) {RANGE}; D[m,n]:mxfp8 = T;"
        f" R[n,g] = max[m](abs(T)) {RANGE}",
        {"g": 3, "k": 256},
    ),
    "gated groups": (
        f"G[m,n] = X[m,k] @ V[g,n,k] {RANGE}; U[m,n] = X[m,k] @ W[g,n,k] {RANGE}; T[m,n] = silu(G) * U; H[m,n] = T;"
        f" R[g,n]:f32 = max[m](abs(T)) {RANGE}",
        {"g": 3},
    ),
    "groups of gathered rows": (
        f"T[m,n] = A[idx[m],k] @ B[g,n,k] {RANGE}; C[m,n] = T; R[g,n]:f32 = sum[m](exp(0 - abs(T))) {RANGE}",
        {"g": 3, "A_0": 70},
    ),
    "groups with an input": (
        f"T[m,n] = (A[m,k] @ B[g,n,k]) * w[g] + v[m] {RANGE}; S[g,n]:f32 = sum[m](abs(T)) {RANGE}", {"g": 3},
    ),
    "a gradient of groups": (f"D[g,n]:f32 = sum[m]((A[m,k] @ B[g,n,k]) * X[m,n] * relu(X[m,n])) {RANGE}", {"g": 3}),
    "groups, alone, few columns": (f"R[n,g]:f32 = max[m](abs(A[m,k] @ B[g,n,k])) {RANGE}", {"g": 4, "n": 40}),
    "groups by name": (
        f"T[m,n] = A[m,k] @ B[e[g],n,k] {RANGE}; C[m,n] = T; R[g,n]:f32 = max[m](T) {RANGE}", {"g": 3, "B_0": 5},
    ),
    "masked": (
        "T[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]; C[g,m,n] = T; R[g,n]:f32 = max[m](T) for m < rows[g];"
        " Q[g,m]:f32 = sum[n](abs(T))", {"g": 3, "m": 90},
    ),
    "windows": (
        "T[g,m,n] = A[g,m,k] @ B[g,n,k] for m in lo[g]:hi[g]; C[g,m,n] = T; S[n,g]:f32 = sum[m](T*T)", {"g": 3},
    ),
    "of each batch": (
        "T[b,m,n] = A[b,m,k] @ B[g,n,k] for m in off[b,g]:off[b,g+1]; C[b,m,n] = T;"
        " R[b,g,n]:f32 = max[m](T) for m in off[b,g]:off[b,g+1]", {"b": 2, "g": 3, "m": 70},
    ),
    "several indices": (
        "T[b,g,m,n] = A[b,g,m,k] @ B[g,n,k] for m < rows[b,g]; C[b,g,m,n] = T; R[b,g,n] = min[m](T)",
        {"b": 2, "g": 2, "m": 70},
    ),
    "one range": (
        "T[m,n] = A[m,k] @ B[n,k] for m < rows[0]; C[m,n] = T; R[n]:f32 = max[m](T); Q[m]:f32 = max[n](T)", {},
    ),
    "columns": ("T[g,m,n] = A[g,m,k] @ B[g,n,k] for n < cols[g]; C[g,m,n] = T; R[g,m]:f32 = sum[n](T*T)", {"g": 2}),
    "rows last": (
        f"T[n,m] = A[m,k] @ B[g,n,k] {RANGE}; C[n,m] = T; R[g,n]:f32 = sum[m](abs(T)) {RANGE}", {"g": 4},
    ),
    "gathered": (
        "T[m,n] = A[idx[m],k] @ B[n,k]; C[m,n] = T; R[n]:f32 = max[m](T); S[n]:f32 = sum[m](exp(0 - abs(T)))",
        {"A_0": 50},
    ),
    "gathered columns": ("T[m,n] = A[m,k] @ B[idx[n],k]; C[m,n] = T; R[m]:f32 = sum[n](exp(0 - abs(T)))", {"B_0": 50}),
    "a gathered input": ("T[m,n] = A[m,k] @ B[n,k] + x[idx[m],n]; C[m,n] = T; R[n]:f32 = max[m](T)", {"x_0": 50}),
    "pages": (
        "T[s,h,t] = Q[s,h,d] @ K[table[s,t/64],t%64,d] for t < len[s]; C[s,h,t] = T;"
        " R[s,h]:f32 = sum[t](exp(0 - abs(T))) for t < len[s]",
        {"s": 3, "h": 24, "t": 200, "d": 64, "K_0": 6},
    ),
    "pages of 20": (
        "T[s,h,t] = Q[s,h,d] @ K[table[s,t/20],t%20,d]; C[s,h,t] = T; R[s,h]:f32 = sum[t](exp(0 - abs(T)))",
        {"s": 3, "h": 24, "t": 200, "d": 64, "K_0": 6},
    ),
    "scattered beside": (
        f"T[m,n] = A[m,k] @ B[g,n,k] {RANGE}; C[idx[m],n] = T; R[g,n]:f32 = max[m](abs(T)) {RANGE}",
        {"g": 3, "C_0": 190},
    ),
    "quantised beside": (
        f"T[m,n] = A[m,k] @ B[g,n,k] {RANGE} apart; D[m,n]:e4m3 scale(1x32:ue8m0@blocked) = T;"
        f" R[g,n]:f32 = max[m](abs(T)) {RANGE} apart", {"g": 3, "n": 64},
    ),
    "added up": (
        f"T[m,n] = A[m,k] @ B[g,n,k] + D[m,r] @ E[g,n,r] {RANGE}; C[m,n] = T; R[g,n]:f32 = sum[m](T*T) {RANGE}",
        {"g": 3, "r": 16},
    ),
    "integers": (
        f"T[m,n] = A[m,k]:i8 @ B[g,n,k]:i8 scale(1xk,1x1xk) {RANGE}; C[m,n] = T; R[g,n]:f32 = max[m](abs(T)) {RANGE}",
        {"g": 3},
    ),
}  # fmt: skip


@pytest.mark.once(touches=lambda name, target: {name, target})
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, target: str) -> None:
    source, more = PROGRAMS[name]
    dims = more if "s" in more else {"m": 150, "n": 200, "k": 64, **more}
    fixed = "d" if "s" in more else "nk" if "D[m,n]" in source or "n" in more else ""
    run(source, target, dims, fixed, launches=2)


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["groups", "masked"])
def test_rows_of_whole_tiles(name: str, target: str) -> None:
    """Rows are cut by ranges alone, and not by their number, which is known."""
    run(PROGRAMS[name][0], target, {"m": 128, "n": 64, "k": 64, "g": 3}, "mnk", launches=1)


MASKED, GATHERED = PROGRAMS["masked"][0], PROGRAMS["gathered"][0]
SCHEDULES = (
    ("sm_90a", OF_GROUPS, "cluster=2x1, tile=64x64x64, swap=0"),
    ("sm_90a", OF_GROUPS, "swap=1, cluster=1x2, tile=64x64x64"),
    ("sm_90a", OF_GROUPS, "tile=192x64x64, swap=0"), ("sm_90a", MASKED, "cluster=1x2, swap=1, tile=64x32x64"),
    ("sm_90a", MASKED, "cluster=2x1, tile=64x64x64, swap=0, order=m"), ("sm_90a", GATHERED, "cluster=1x2, swap=1"),
    ("sm_90a", GATHERED, "tile=64x64x64, swap=0, split=2"),
    ("sm_100a", OF_GROUPS, "cta_group=2, cluster=2x1, tile=128x64x64, swap=0"),
    ("sm_100a", OF_GROUPS, "swap=1, tile=128x64x64"),
    ("sm_100a", MASKED, "tile=128x128x64, warpgroups=2, swap=0"), ("sm_100a", GATHERED, "swap=1"),
    ("sm_120a", OF_GROUPS, "swap=0, tile=32x64x64, warps=2x4"), ("sm_120a", MASKED, "swap=1, tile=64x32x64"),
    ("sm_120a", GATHERED, "swap=1, split=2"),
)  # fmt: skip


@pytest.mark.once(touches=lambda case: {case[0], case[1]})
@pytest.mark.parametrize("case", SCHEDULES, ids=[f"{t}, {s[:30]}, {f}" for t, s, f in SCHEDULES])
def test_schedules(case: tuple[str, str, str]) -> None:
    """Whoever has which tile of a group, in clusters of which a CTA is behind its end, and along either axis."""
    target, source, fields = case
    dims = {"m": 150, "n": 136, "k": 128} | ({"A_0": 60} if source == GATHERED else {"g": 5 if source != MASKED else 3})
    run(f"{source} with {fields}", target, dims, "nk", launches=2)


ROUTINGS = {
    "one row each": [0, 1, 2, 3, 4, 4, 6], "all in one": [0, 0, 140, 140, 140, 140, 140], "none": [0] * 7,
    "none, at the end": [140] * 7, "cut by a tile": [3, 63, 64, 64, 65, 130, 133],
}  # fmt: skip


@pytest.mark.once("name", "target")
@pytest.mark.parametrize("name", ROUTINGS)
@pytest.mark.parametrize("target", TARGETS)
def test_routings(target: str, name: str) -> None:
    """Launch after launch with one workspace, of other routings between: a group without rows has 0 and -inf, and what
    rows of none hold counts for nothing."""
    dims = {"m": 140, "n": 72, "k": 64, "g": 6}
    values, _ = made_up(OF_GROUPS, dims, 5)
    tile = 128 if target == "sm_100a" else 64
    kernel = scalec.compile(f"{OF_GROUPS} with tile={tile}x64x64, swap=0", target=target)
    device = kernel.fixed = emulated.EmulatedDevice(target)
    for offsets in (ROUTINGS[name], [0, 20, 40, 60, 80, 100, 120], ROUTINGS[name]):
        own = dict(values, off=np.asarray(offsets, np.int32), A=values["A"].copy())
        own["A"][: offsets[0]] = own["A"][offsets[-1] :] = np.nan
        with context.context():
            expected = reference.run(build(OF_GROUPS, dims), own, dims=dims, exact=True)
        given = [Guarded(device, t, reference.storage(own[t.name])) for t in kernel.spec.operands]
        outs = [Guarded.result(device, r, dims, FILLS[0], None) for r in kernel.spec.results]
        kernel(*given, out=tuple(outs))
        for x in outs[1:]:
            made, wanted = values_of(x.spec, x), np.asarray(expected[x.spec.name], np.float64)
            assert np.allclose(np.asarray(made, np.float64), wanted, rtol=1e-3), x.spec.name
            assert not x.changed(dims)


EMPTY = {
    "scales of rows": (f"R[g,n]:f32 = max[m](abs(A[m,k] @ B[g,n,k] scale(1x128, 1x128))) {RANGE}", {}),
    "converted": (f"R[g,n]:f32 = max[m](A[m,k]:bf16 @ (B[g,n,k]:u4 - Z[g,n,k/64]) scale(none, 1x64:bf16)) {RANGE}", {}),
    "converted, scales of rows": (f"R[g,n]:f32 = max[m](A[m,k]:nvfp4 @ B[g,n,k]:bf16) {RANGE}", {}),
    "inputs": (f"R[g,n]:f32 = sum[m]((A[m,k] @ B[g,n,k]) * x[m,n] + y[m]:f32) {RANGE}", {}),
    "a folded operand": (
        f"T[m,n] = A[m,k] @ B[g,n,k] {RANGE}; R[g,n]:f32 = max[m](T) {RANGE}; S[m]:f32 = sum[k](A[m,k]^2) {RANGE}", {},
    ),
    "blocks of rows": (
        f"R[g,n]:f32 = max[m](A[m,k] @ B[g,n,k] scale(128x128@col, 1x128x128)) {RANGE} by 128", {"m": 130, "k": 256},
    ),
    "scales in columns": (
        f"R[g,n]:f32 = max[m](A[m,k] @ B[g,n,k] scale(1x128@col, 1x128x128)) {RANGE} by 128", {"m": 130, "k": 256},
    ),
    "tiles of scales": (
        "R[g,n]:f32 = max[m](A[m,k]:e4m3 @ B[g,n,k]:e4m3 scale(1x32:ue8m0@blocked, 1x1x32:ue8m0@blocked))"
        f" {RANGE} apart",
        {"m": 130, "k": 256},
    ),
}  # fmt: skip


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EMPTY)
def test_groups_without_rows_read_nothing_outside(name: str, target: str) -> None:
    """In front of the first row and behind the last one, where tensors end: tiles of such groups have no last row."""
    source, more = EMPTY[name]
    if "apart" in source and target == "sm_90a":
        pytest.skip("no kernel of such scales")
    dims = {"m": 2, "n": 72, "k": 192, "g": 5, **more}
    values, _ = made_up(source, dims, 5)
    values = {**values, "off": np.asarray([0, 0, 0, dims["m"], dims["m"], dims["m"]], np.int32)}
    with context.context():
        expected = reference.run(build(source, dims), values, dims=dims, exact=True)
    kernel = scalec.compile(source, target=target, dims={x: dims[x] for x in "nk"})
    kernel.fixed = emulated.EmulatedDevice(target)
    launched(kernel, values, expected, dims, 3)


@pytest.mark.thorough
@pytest.mark.parametrize(("target", "tile"), [("sm_90a", "64x64x64"), ("sm_120a", "32x64x64")])
def test_bits_do_not_say_who_finished(target: str, tile: str) -> None:
    """However many CTAs there are."""
    same_whoever_finishes(f"S[g,n]:f32 = sum[m]((A[m,k] @ B[g,n,k])^2) {RANGE}", target, tile, g=3)


test_refused = refusals(
    [
        (
            f"{GROUPS}; M[n] = max[m](T) {RANGE}; R[n]:f32 = M; S[n]:f32 = 2*M",
            r"R is a max over m of all that g shares out\n(.*\n)*.*R\[g, n\]",
        ),
        (f"{GROUPS}; R[n]:f32 += sum[m](T)", "keep g in R, and take the sum over that after the call"),
        (
            "T[m,n] = A[m,k] @ B[e[m/128],n,k]; C[m,n] = T; R[n]:f32 = sum[m](T)",
            r"the product has e\[m/128\]\n(.*\n)*.*give m a range",
        ),
        (
            "T[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]; C[g,m,n] = T; M[g,n] = max[m](T);"
            " S[g,n]:f32 = sum[m](exp(T - M))",
            "S is a sum of exponentials over m, and the product has a range of m",
        ),
        (
            "T[m,n] = A[idx[m],k] @ B[n,k]; M[n] = max[m](T); R[n]:f32 = M; S[n]:f32 = sum[m](exp(T - M))",
            r"S is a sum of exponentials over m, and the product has idx\[m\]",
        ),
        (f"{GROUPS}; R[g,n]:f32 = sum[m](T) for m in end[g]:end[g+1]", "a range of its own"),
    ]
)
