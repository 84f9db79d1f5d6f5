"""Sums of exp(x - M), of which M is the largest x of a row or column: what a softmax and a cross entropy need of a
product, over tiles of which none knows the largest of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS, Guarded
from scalec.checking.launch import values_of
from scalec.frontend import build
from scalec.ir import context
from scalec.ir.scale import program_dims
from scalec.runtime import emulated
from tests.emulator.running import TARGETS, refusals
from tests.emulator.test_reductions import SCHEDULES, close, run, same_whoever_finishes
from tests.tiers import SEEDS


def of_rows(x: str) -> str:
    return f"M[m] = max[n]({x}); R[m]:f32 = M; S[m]:f32 = sum[n](exp({x} - M))"


def of_columns(x: str) -> str:
    return f"N[n] = max[m]({x}); Q[n]:f32 = N; Z[n]:f32 = sum[m](exp({x} - N))"


def of(source: str, dims: dict[str, int]) -> dict[str, int]:
    """The sizes that a program has."""
    with context.context():
        module = build(source)
        every = program_dims(module.body.operations[0])
    return {x: n for x, n in dims.items() if x in every}


PLAIN, SCALED = "T[m,n] = A[m,k] @ B[n,k]; ", "T[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128); "
SIZES = (
    {"m": 40, "n": 384, "k": 256}, {"m": 1, "n": 136, "k": 128}, {"m": 300, "n": 7, "k": 64},
    {"m": 130, "n": 530, "k": 40}, {"m": 9, "n": 1, "k": 64}, {"m": 1, "n": 1, "k": 8},
    {"m": 0, "n": 70, "k": 64}, {"m": 5, "n": 70, "k": 0},
)  # fmt: skip


@pytest.mark.once("target", "number")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_rows(number: int, target: str) -> None:
    """Of data whose exponentials underflow, and of data all of which counts; of a K of 0 all terms are 1."""
    for factor in ("", "0.05*"):
        _, made, expected = run(PLAIN + of_rows(f"{factor}T"), target, SIZES[number], "nk" * (number % 2 == 0))
        if SIZES[number]["m"]:
            close(made, expected, "S")


@pytest.mark.once("target", "number")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(SIZES) - 2))
def test_rows_and_columns(number: int, target: str) -> None:
    source = f"{SCALED if number == 0 else PLAIN}{of_rows('0.05*T')}; {of_columns('0.05*T')}; C[m,n] = T"
    _, made, expected = run(source, target, SIZES[number], "nk" if number % 2 == 0 else "m")
    close(made, expected, "S", "Z")


@pytest.mark.parametrize(("target", "schedule"), [(t, s) for t, many in SCHEDULES.items() for s in many])
def test_schedules(target: str, schedule: str) -> None:
    """Whoever has which tile, and wherever parts of K meet."""
    source = f"{PLAIN}C[m,n] = T; {of_rows('0.03*T*w[n]')}; {of_columns('0.03*T')} with {schedule}"
    kernel, made, expected = run(source, target, {"m": 200, "n": 232, "k": 384}, "nk")
    close(made, expected, "S", "Z")
    assert all(field.replace(" ", "") in kernel.spec.schedule.replace(" ", "") for field in schedule.split(","))


FORMS = {
    "factor, bias": "T[m,n] = A[m,k] @ B[n,k]; M[m] = max[n](c*T + b[n]); S[m]:f32 = sum[n](exp(c*T + b[n] - M))",
    "alone": "M[m] = max[n](A[m,k] @ B[n,k]); S[m]:f32 = sum[n](exp(A[m,k] @ B[n,k] - M))",
    "behind it": "T[m,n] = A[m,k] @ B[n,k]; M[m] = max[n](T); S[m] = sqrt(2 * sum[n](exp(T - M)) + 1)",
    "with the largest": "T[m,n] = A[m,k] @ B[n,k]; M[m] = max[n](T); R[m] = -M; S[m]:f32 = sum[n](exp(T - M)) * 2 + M;"
    " P[m]:f32 = sum[n](exp(T - M)) / 2",
    "f16": "T[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4; M[m] = max[n](0.1*T); S[m]:f16 = sum[n](exp(0.1*T - M))",
    "quantised": "T[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8; D[m,n]:mxfp8 = T; M[m] = max[n](T); S[m]:f32 ="
    " sum[n](exp(T - M))",
    "turned": "T[m,n] = A[k,m] @ B[k,n] + b[n]; C[m,n]:e4m3 = T; M[m] = max[n](T); S[m]:f32 = sum[n](exp(T - M))",
    "two": "T[m,n] = A[m,k] @ B[n,k]; U[m,n] = 0.1*T; V[m,n] = U*x[m,n]; M[m] = max[n](U); N[m] = max[n](V);"
    " R[m]:f32 = sum[n](exp(U - M)); S[m]:f32 = sum[n](exp(V - N)); P[m]:f32 = sum[n](U)",
    "added up": "T[m,n] = A[m,k] @ B[n,k] + D[m,r] @ E[n,r]; M[m] = max[n](T); S[m]:f32 = sum[n](exp(T - M))",
    "gated": "G[m,n] = A[m,k] @ V[n,k]; U[m,n] = A[m,k] @ W[n,k]; M[m] = max[n](U*silu(G)); S[m]:f32 ="
    " sum[n](exp(U*silu(G) - M)); C[m,n] = U*silu(G)",
    "whole numbers": "T[m,n] = 0.0001 * (A[m,k]:i8 @ B[n,k]:i8); M[m] = max[n](T); S[m]:f32 = sum[n](exp(T - M))",
    "batches": "T[b,m,n] = A[b,m,k] @ B[b,n,k]; C[b,m,n] = T * y[b]; M[b,m] = max[n](T); S[m,b]:f32 ="
    " sum[n](exp(T - M[b,m]))",
}  # fmt: skip


@pytest.mark.once("target", "form")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, target: str) -> None:
    """Of what is computed of the product, beside other results, and of operands of all kinds."""
    if form == "whole numbers" and target == "sm_120a":
        target = "sm_90a"
    source, dims = FORMS[form], {"m": 136, "n": 288, "k": 256, "r": 64, "b": 2}
    run(source, target, of(source, dims), "nkr" if "r]" in source else "nk", launches=2)


GROUPED = {
    "ragged": ("T[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; C[m,n] = T; ", {"g": 4}),
    "masked": ("T[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]; C[g,m,n] = T; ", {"g": 3}),
    "windows": ("T[g,m,n] = A[g,m,k] @ B[g,n,k] for m in lo[g]:hi[g]; ", {"g": 3}),
    "blocks": ("T[m,n] = A[m,k] @ B[e[m/24],n,k]; C[m,n] = T; ", {"B_0": 3}),
    "gathered": ("T[m,n] = A[idx[m],k] @ B[n,k]; C[m,n] = T; ", {"A_0": 77}),
    "ragged, as it is": ("T[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; ", {"g": 4}),
    "scattered beside": ("T[m,n] = A[m,k] @ B[n,k]; C[idx[m],n] = T; ", {"C_0": 180}),
    "a range of K": ("T[g,m,n] = A[m,k] @ B[n,k] for k in off[g]:off[g+1]; ", {"g": 3, "m": 70, "k": 200}),
}  # fmt: skip


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GROUPED)
def test_groups(name: str, target: str) -> None:
    """Of rows that ranges and indices from memory name: of others nothing is written."""
    source, more = GROUPED[name]
    kept = "g,m" if "T[g" in source else "m"
    x = "T" if "as it is" in name else "0.1*T"
    source += f"M[{kept}] = max[n]({x}); R[{kept}]:f32 = M[{kept}]; S[{kept}]:f32 = sum[n](exp({x} - M[{kept}]))"
    run(source, target, {"m": 150, "n": 200, "k": 64, **more}, launches=2)


def launched_on(source: str, target: str, operands: dict[str, Any], dims: dict[str, int]) -> tuple[Any, Any]:
    """What a kernel makes of given operands, and what the reference does."""
    kernel = scalec.compile(source, target=target, dims={"k": dims["k"]})
    device = kernel.fixed = emulated.EmulatedDevice(target)
    stored = {t.name: reference.storage(operands[t.name].astype("bfloat16")) for t in kernel.spec.operands}
    given = [Guarded(device, t, stored[t.name]) for t in kernel.spec.operands]
    outs = [Guarded.result(device, r, dims, FILLS[0], None) for r in kernel.spec.results]
    kernel(*given, out=tuple(outs))
    with context.context(), np.errstate(all="ignore"):
        expected = reference.run(build(source, dims), stored, dims=dims, exact=True)
    return {x.spec.name: values_of(x.spec, x).astype(np.float64) for x in outs}, expected


@pytest.mark.parametrize("schedule", ["swap=0", "swap=1"])
@pytest.mark.parametrize("target", TARGETS)
def test_nan_and_infinity(target: str, schedule: str) -> None:
    """A row of -inf alone, or with an inf, has no exponentials, as x - M is NaN; -inf beside numbers add nothing, be
    they all that a thread, a warp or a tile has of the row. A NaN is all that its row has, and no other row's."""
    dims = {"m": 70, "n": 600, "k": 64}
    rng = np.random.default_rng(7)
    a, b = np.zeros((70, 64)), np.zeros((600, 64))
    a[:, 0], b[:, 0] = 1, rng.integers(-60, 60, 600) / 8
    mask = np.zeros((70, 600))
    mask[1] = -np.inf
    mask[2, 40:] = -np.inf  # a tile alone has numbers, the first
    mask[3, :-1] = -np.inf  # the last column
    mask[4, 300:], mask[4, 310] = -np.inf, 5
    mask[5, 17] = np.inf
    mask[6, 17], mask[6, 18] = np.nan, -np.inf
    mask[7, :], mask[7, 599] = -np.inf, np.nan
    mask[8] = rng.choice([0, -np.inf], 600)
    mask[9, ::2] = -1e30
    mask[:, 500] = -np.inf
    mask[10:, 501] = -np.inf
    source = "T[m,n] = A[m,k] @ B[n,k] + x[m,n]; " + of_rows("T") + "; " + of_columns("T") + f" with {schedule}"
    made, expected = launched_on(source, target, {"A": a, "B": b, "x": mask}, dims)
    for name in ("R", "S", "Q", "Z"):
        wanted = np.asarray(expected[name], np.float64)
        assert np.isnan(wanted).any()
        assert np.isfinite(wanted).any()
        np.testing.assert_allclose(made[name], wanted, rtol=2e-6, err_msg=name)
    assert np.isnan(np.asarray(expected["S"])[[1, 5, 6, 7]]).all()
    assert np.isfinite(np.asarray(expected["S"])[[0, 2, 3, 4, 8, 9]]).all()


@pytest.mark.parametrize("target", TARGETS)
def test_columns_that_a_tile_has_all_of(target: str) -> None:
    """Of so few columns a reduction alone would be one within a tile."""
    kernel, made, expected = run(PLAIN + of_rows("0.1*T"), target, {"m": 90, "n": 128, "k": 64}, "nk")
    close(made, expected, "S")
    assert kernel.spec.launch.partial_bytes


MANY = {"sm_90a": "tile=64x16x64", "sm_100a": "tile=128x16x64", "sm_120a": "tile=64x16x64, warps=4x1"}


@pytest.mark.parametrize("target", TARGETS)
def test_bands_of_many_tiles(target: str) -> None:
    """Of three to five sections, along rows and along columns, and the largest in any of them."""
    fields = f" with {MANY[target]}, swap=0, scheduler=static"
    for m, n in ((20, 16 * 19), (20, 16 * 21 - 3), (20, 16 * 37), (128 * 17 + 3, 24)):
        source = PLAIN + of_rows("0.05*T") + "; " + of_columns("0.05*T") + fields
        _, made, expected = run(source, target, {"m": m, "n": n, "k": 64}, "nk", launches=1)
        close(made, expected, "S", "Z")


@pytest.mark.parametrize(
    ("target", "tile"),
    [("sm_90a", "128x64x64"), ("sm_90a", "64x64x64"), ("sm_120a", "64x64x64"), ("sm_120a", "128x32x64")],
)
@pytest.mark.once("target")
def test_bits_do_not_say_who_finished(target: str, tile: str) -> None:
    """A warp alone, or all consumers: each puts the same numbers together in the same order."""
    same_whoever_finishes(PLAIN + of_rows("0.1*T") + "; " + of_columns("0.1*T") + "; C[m,n] = T", target, tile)


DRAWN = {
    "rows": PLAIN + of_rows("c*T"),
    "columns": PLAIN + of_columns("c*T + u[m]") + "; C[m,n] = T",
    "both, scaled": SCALED + of_rows("c*T") + "; " + of_columns("c*T"),
    "batches": "M[b,m] = max[n](c*(A[b,m,k] @ B[b,n,k])); S[b,m]:f32 = sum[n](exp(c*(A[b,m,k] @ B[b,n,k]) - M[b,m]))",
}


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", DRAWN)
def test_drawn_sizes(name: str, target: str, seed: int) -> None:
    """Sizes of which most are no whole tiles, in the schedules that these give."""
    rng = np.random.default_rng(seed)
    dims = {"m": int(rng.integers(1, 400)), "n": int(rng.integers(1, 700)), "k": 8 * int(rng.integers(1, 40)), "b": 2}
    dims["k"] = -(-dims["k"] // 16) * 16 if "scaled" in name else dims["k"]
    run(DRAWN[name], target, of(DRAWN[name], dims), "nk" if seed % 2 else "", seed, launches=2)


KNOWN = "which is known when the product's last tile is"

test_refused = refusals(
    (
        ("M[m] = max[n](T); S[m]:f32 = sum[n](exp(2*T - M))", f"S is a sum over n of what reads a max over n, {KNOWN}"),
        ("M[m] = max[n](T); S[m]:f32 = sum[n](exp(0.5*(T - M)))", "S is a sum over n of what reads a max over n"),
        ("M[m] = max[n](T) * 2; S[m]:f32 = sum[n](exp(T - M))", "S is a sum over n of what reads a max over n"),
        ("M[m] = min[n](T); S[m]:f32 = sum[n](exp(T - M))", "S is a sum over n of what reads a min over n"),
        ("M[n] = max[m](T); S[m]:f32 = sum[n](exp(T - M[n]))", "S is a sum over n of what reads a max over m"),
        ("M[m] = max[n](T); S[m]:f32 = max[n](exp(T - M))", "S is a max over n of what reads a max over n"),
        ("M[m] = max[n](T); S[m]:f32 = sum[n](exp(T - M) * T)", "S is a sum over n of what reads a max over n"),
        ("M[m] = sum[n](T); S[m]:f32 = sum[n](abs(T - M/64))", "S is a sum over n of what reads a sum over n"),
        ("L[m]:f32 = max[n](T) - min[n](T)", "L is computed of several reductions of the product, a max over n and a"),
        (
            "M[m] = max[n](T) for m < rows[0] else 3; S[m]:f32 = sum[n](exp(T - M))",
            r"a max over n of the product is no result, and what reads it is no sum\[n\]\(exp\(x - M\)\) of the same",
        ),
        (
            "U[m,n] = T for n < m+1 else -inf; M[m] = max[n](U); S[m]:f32 = sum[n](exp(U - M))",
            "S is a sum over n of what reads a max over n, of what is filled outside its range",
        ),
        ("M[m] = max[n](T); R[idx[m]]:f32 = M[m]", "R is a max over n, and is scattered"),
        ("M[m] = max[n](T); S[m]:f32 = sum[n](exp(T - M)) * w[m]", "S is a sum of exponentials over n, and reads w"),
        ("M[m] = max[n](T); C[m,n] = exp(T - M)", "C is computed of a max over n for each n"),
        ("M[m] = max[n](T); S[m]:f32 = sum[n](exp(T - M)) with invariant", "S is a sum over tiles"),
    ),
    kind=(scalec.UnsupportedError, scalec.ScheduleError),
    within="T[m,n] = A[m,k] @ B[n,k]; {}",
)  # fmt: skip


def test_over_the_rows_of_a_range_the_fix_is_a_program_of_its_own() -> None:
    over = "for m in off[g]:off[g+1]"
    source = f"T[m,n] = A[m,k] @ B[g,n,k] {over}; M[g,n] = max[m](T) {over}; S[g,n]:f32 = sum[m](exp(T - M)) {over}"
    with pytest.raises(scalec.UnsupportedError, match="of what reads a max over m, and m has a range") as refusal:
        scalec.compile(source, "sm_90a")
    assert "one with S of that, in the range" in refusal.value.fix
    dims = {"m": 40, "n": 24, "g": 3}
    run(
        f"M[g,n] = max[m](T[m,n]:f32) {over}; S[g,n]:f32 = sum[m](exp(T[m,n] - M)) {over}",
        "sm_90a",
        dims,
        "",
        launches=1,
    )


def test_over_several_indices_the_fix_says_how_sums_are_put_together() -> None:
    source = "T[m,b,n] = A[m,k] @ B[b,n,k]; M[m] = max[b,n](T); S[m]:f32 = sum[b,n](exp(T - M))"
    with pytest.raises(scalec.UnsupportedError, match="S is a sum of exponentials over b, n") as refusal:
        scalec.compile(source, "sm_90a")
    assert "S*exp(M - max(M))" in refusal.value.fix


@pytest.mark.parametrize(
    ("source", "dims"),
    [
        ("M[m] = max[n](T[m,n]:f32); S[m]:f32 = sum[n](exp(0.5*(T[m,n] - M)))", {"m": 9, "n": 70}),
        ("T[m,n]:f32 = A[m,k] @ B[n,k] for n < m+1 else -inf", {"m": 9, "n": 70, "k": 64}),
        ("M[m] = max[n](T[m,n]:f32); S[m]:f32 = sum[n](exp(T[m,n] - M))", {"m": 9, "n": 70}),
    ],
)
def test_the_programs_of_the_fixes(source: str, dims: dict[str, int]) -> None:
    """What messages offer: the product as a result, and what is refused beside it of that."""
    run(source, "sm_90a", dims, launches=1)
