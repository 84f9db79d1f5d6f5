"""Reductions of a product's results, on every target: over columns and rows, beside results and alone, with sizes that
are no whole tiles, over many tiles, and bit-equal whichever tile comes last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS, Guarded
from scalec.checking.launch import made_up, values_of
from scalec.errors import ArgumentError
from scalec.frontend import build
from scalec.ir import context
from scalec.ir.scale import program_dims
from scalec.reference.packing import numpy_dtype
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator.running import TARGETS, launched
from tests.tiers import SEEDS

CLOSE = 2e-5
"""Largest |x-y| / |y| of a row's own reduction: f32 sums of numbers of one sign, or a single number."""


def run(source: str, target: str, dims: dict[str, int], fixed: str = "", seed: int = 3, launches: int = 3) -> Any:
    """Launches of one kernel with one workspace, whose CTAs come in different orders, between guards and over NaNs and
    another byte: right, equal, and nothing else written; each row's reduction is close to its own value."""
    kernel = scalec.compile(source, target=target, dims={d: dims[d] for d in fixed})
    kernel.fixed = emulated.EmulatedDevice(target)
    values, expected = made_up(source, dims, seed)
    return kernel, launched(kernel, values, expected, dims, seed, launches), expected


def close(made: dict[str, Any], expected: Any, *names: str) -> None:
    """Each element of these results has few rounding errors of its own: rows have different magnitudes."""
    for name in names:
        wanted = np.asarray(expected[name], np.float64)
        error = np.abs(made[name].astype(np.float64) - wanted) / np.maximum(np.abs(wanted), 1e-30)
        assert error.max() < CLOSE, f"{name}: off by {error.max():.2e} of an element"


STATISTICS = "C[m,n] = T; R[m]:f32 = max[n](abs(T)); S[m]:f32 = sum[n](T*T); Q[m]:f32 = min[n](T + w[n]*v[m])"
SCALED, PLAIN = "A[m,k] @ B[n,k] scale(1x128,128x128)", "A[m,k] @ B[n,k]"
SIZES = (
    {"m": 40, "n": 384, "k": 256}, {"m": 1, "n": 136, "k": 128},
    {"m": 300, "n": 7, "k": 64}, {"m": 130, "n": 530, "k": 40},
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("product", [SCALED, PLAIN])
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_over_columns(number: int, product: str, target: str) -> None:
    dims = SIZES[number]
    fixed = "nk" if number % 2 == 0 and (number or "scale" not in product) else ""
    _, made, expected = run(f"T[m,n] = {product}; {STATISTICS}", target, dims, fixed)
    close(made, expected, "R", "S")


FINISHED = "R[m]:f16 = sqrt(sum[n](T*T) / 64); Z[n]:f32 = max[m](T - u[n]); Y[n]:f32 = sum[m](T*T*abs(v[m]))"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_over_rows_and_columns(number: int, target: str) -> None:
    """With an expression behind a sum, and results of both kinds of bands."""
    _, made, expected = run(f"T[m,n] = {PLAIN}; {FINISHED}", target, SIZES[number], "nk" if number % 2 else "m")
    close(made, expected, "Y")


BATCHED = "T[b,m,n] = A[b,m,k] @ B[b,n,k]; C[b,m,n] = T * y[b]; R[m,b]:f32 = max[n](abs(T)); Z[b,n]:f32 = sum[m](T*T)"


@pytest.mark.parametrize("target", TARGETS)
def test_batches(target: str) -> None:
    """A reduction of each, also with its indices in another order than the product's."""
    _, made, expected = run(BATCHED, target, {"b": 3, "m": 150, "n": 200, "k": 64}, "nk")
    close(made, expected, "R", "Z")


SCHEDULES = {
    "sm_90a": (
        "swap=1", "swap=0, cluster=1x2, tile=128x64x64", "swap=0, cluster=2x1, tile=128x64x64",
        "consumers=pingpong, tile=64x64x64, warpgroups=2, swap=0", "split=3, parts=memory, tile=64x64x64, swap=0",
        "split=2, tile=64x64x64, swap=1", "epilogue=direct, swap=0", "tile=64x64x64, band=3, order=m, swap=0",
    ),
    "sm_100a": (
        "swap=1", "cta_group=2, cluster=2x1, tile=128x128x64, swap=0", "cluster=1x2, tile=128x64x64, swap=0",
        "split=3, tile=128x64x64, swap=0", "scheduler=dynamic, tile=128x64x64, swap=0",
        "tile=128x128x64, warpgroups=2, swap=0",
    ),
    "sm_120a": (
        "swap=1", "tile=64x64x64, warps=4x2, swap=0", "tile=64x64x64, warps=2x4, swap=0",
        "split=3, tile=64x64x64, swap=0", "scheduler=dynamic, tile=32x64x64, swap=0",
    ),
}  # fmt: skip

BOTH = "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; R[m]:f32 = sum[n](T*T); Z[n]:f32 = min[m](T * w[n]) with "


@pytest.mark.parametrize(("target", "schedule"), [(t, s) for t, many in SCHEDULES.items() for s in many])
def test_schedules(target: str, schedule: str) -> None:
    """Whoever has which tile, and wherever parts of K meet."""
    dims = {"m": 200, "n": 232, "k": 384}
    kernel, made, expected = run(BOTH + schedule, target, dims, "nk")
    close(made, expected, "R")
    assert all(field.replace(" ", "") in kernel.spec.schedule.replace(" ", "") for field in schedule.split(","))


MANY = {"sm_90a": "tile=64x16x64", "sm_100a": "tile=128x16x64", "sm_120a": "tile=64x16x64, warps=4x1"}


@pytest.mark.parametrize("target", TARGETS)
def test_bands_of_many_tiles(target: str) -> None:
    """Of three to five sections, the last ones of 1, 3, 5 and 7 tiles: of all that are there, some by the last tile
    of a CTA."""
    fields = f" with {MANY[target]}, swap=0, scheduler=static"
    for n in (16 * 17 - 1, 16 * 19, 16 * 21 - 3, 16 * 31, 16 * 37):
        dims = {"m": 20, "n": n, "k": 64}
        _, made, expected = run(f"T[m,n] = {PLAIN}; {FINISHED}{fields}", target, dims, "nk", launches=1)
        close(made, expected, "Y")


FORMS = (
    "T[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8; D[m,n]:mxfp8 = T; R[m]:f32 = max[n](abs(T))",
    "T[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4; R[m]:bf16 = sum[n](exp(T * 0.01))",
    "T[m,n] = A[m,k] @ B[n,k] scale(1x128,1x128); C[m,n]:f32 += T; R[m]:f32 = max[n](abs(T) + x[m,n])",
    "T[m,n] = A[k,m] @ B[k,n] + b[n]; C[m,n]:e4m3 = T; D[m,n] = T; R[m]:f32 = min[n](relu(T) - T)",
    "T[m,n] = A[m,k] @ B[n,k] scale(1xk,nxk); C[m, n/32*48 + n%32] = T; R[m]:f32 = max[n](T)",
    "T[m,n] = A[m,k]:tf32 @ B[n,k]:tf32; R[m]:f32 = max[n](T); S[m]:f32 = sum[n](T)",
)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", range(len(FORMS)))
def test_forms(form: int, target: str) -> None:
    """Beside quantised results, results that are added to, of converted operands, and of operands that are turned."""
    run(FORMS[form], target, {"m": 136, "n": 288, "k": 256}, "nk", launches=2)


@pytest.mark.parametrize("target", TARGETS)
def test_nan_and_infinity(target: str) -> None:
    """A NaN in a row is all that the row's reductions are, and no other row's; infinities are numbers."""
    of_rows = "R[m]:f32 = max[n](T); Q[m]:f32 = min[n](T); S[m]:f32 = sum[n](T)"
    source = f"T[m,n] = A[m,k] @ B[n,k]; {of_rows}; Z[n]:f32 = max[m](T * y[m])"
    dims = {"m": 70, "n": 200, "k": 64}
    kernel = scalec.compile(source, target=target, dims={"k": 64})
    device = kernel.fixed = emulated.EmulatedDevice(target)
    a, b = np.zeros((70, 64), np.float32), np.zeros((200, 64), np.float32)
    a[:, 0], b[:, 0] = 1, np.arange(200) - 100.0
    a[3, 1], b[150, 1] = np.nan, 0.0
    a[5, 2], b[:, 2] = np.inf, 1.0
    a[66, 2] = -np.inf
    y = np.where(np.isfinite(a).all(1), 1.0, 0.5)  # zero times infinity would be NaN
    given = [
        Guarded(device, t, reference.storage(x.astype("bfloat16")))
        for t, x in zip(kernel.spec.operands, (a, b, y), strict=True)
    ]
    outs = [Guarded.result(device, r, dims, FILLS[0], None) for r in kernel.spec.results]
    kernel(*given, out=tuple(outs))
    made = {x.spec.name: values_of(x.spec, x) for x in outs}
    with np.errstate(all="ignore"):
        t = np.einsum("mk,nk->mnk", a.astype(np.float64), b.astype(np.float64)).sum(2)
    for name, wanted in {"R": t.max(1), "Q": t.min(1), "S": t.sum(1), "Z": (t * y[:, None]).max(0)}.items():
        assert np.array_equal(made[name], wanted, equal_nan=True), name


def test_nothing_to_reduce_is_refused_at_the_call() -> None:
    """Nothing is launched that could write the result. Without rows there is no result either."""
    kernel = scalec.compile("R[m]:f32 = max[n](A[m,k] @ B[n,k])", target="sm_90a")
    device = kernel.fixed = emulated.EmulatedDevice("sm_90a")
    for dims, refused in (({"m": 5, "n": 0, "k": 64}, True), ({"m": 0, "n": 5, "k": 64}, False)):
        given = [
            Guarded(device, t, np.zeros([e.value(dims) for e in t.shape], np.uint16)) for t in kernel.spec.operands
        ]
        out = Guarded.result(device, kernel.spec.results[0], dims, FILLS[0], None)
        if not refused:
            kernel(*given, out=out)
            continue
        with pytest.raises(ArgumentError, match="n = 0 leaves no tile to write R by"):
            kernel(*given, out=out)


def test_a_sum_of_nothing_is_reduced() -> None:
    """With a K of 0 every point is 0, as the expression of it says."""
    run(
        "T[m,n] = A[m,k] @ B[n,k]; R[m]:f32 = max[n](T + x[n]); S[m]:f32 = sum[n](exp(T))",
        "sm_90a",
        {"m": 9, "n": 70, "k": 0},
    )


@pytest.mark.parametrize("source", ["A[m,k] @ B[n,k]", "A[m,k] @ B[n,k] scale(1x128,1x128)"])
@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_alone_beside_columns_that_no_tile_has_all_of(source: str, target: str) -> None:
    """200 columns are no whole instructions, and tiles of 400 there are none: reduced through the workspace. With
    scales promoted, and without a result beside the reduction."""
    fields = "swap=0, tile=128x64x128" if "scale" in source and target == "sm_100a" else "split=1"
    dims = {"m": 9, "n": 200, "k": 128}
    run(f"T[m,n] = {source}; R[m]:f32 = max[n](T) with {fields}", target, dims, "nk", launches=2)


BOTH_OF_ROWS = "C[m,n] = T; R[m]:f32 = max[n](abs(T)); S[m]:f32 = sum[n](T*T)"
RAGGED = f"T[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; {BOTH_OF_ROWS}"
BLOCKS = f"T[m,n] = A[m,k] @ B[e[m/24],n,k]; {BOTH_OF_ROWS}"
WINDOWS = "T[g,m,n] = A[g,m,k] @ B[g,n,k] for m in lo[g]:hi[g]; C[g,m,n] = T; R[m,g]:f32 = sum[n](T*T)"

GROUPED = {
    "ragged": (RAGGED, {"g": 4}),
    "ragged, scaled": (
        "R[m] = max[n](abs(A[m,k] @ B[g,n,k] scale(1x128, 1x128x128))) for m in off[g]:off[g+1]", {"g": 3, "k": 256},
    ),
    "masked": (
        "T[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]; C[g,m,n] = T; R[m,g]:f32 = max[n](T) for m < rows[g]",
        {"g": 3},
    ),
    "windows": (WINDOWS, {"g": 3}),
    "whole blocks": (f"T[m,n] = A[m,k] @ B[e[m/128],n,k]; {BOTH_OF_ROWS}", {"m": 300, "B_0": 3}),
    "blocks": (BLOCKS, {"B_0": 3}),
    "gathered": (f"T[m,n] = A[idx[m],k] @ B[n,k]; {BOTH_OF_ROWS}", {"A_0": 77}),
    "gathered by batches": (
        "T[b,m,n] = A[idx[b,m],k] @ B[n,k]; C[b,m,n] = T; R[b,m]:f32 = max[n](T)", {"b": 2, "A_0": 77},
    ),
    "a gathered input": (f"T[m,n] = A[m,k] @ B[n,k] + x[idx[m],n]; {BOTH_OF_ROWS}", {"x_0": 50}),
    "scattered beside": ("T[m,n] = A[m,k] @ B[n,k]; C[idx[m],n] = T; R[m]:f32 = max[n](T)", {"C_0": 180}),
    "a range of K": (
        "T[g,m,n] = A[m,k] @ B[n,k] for k in off[g]:off[g+1]; R[g,m]:f32 = max[n](T); Z[n,g]:f32 = sum[m](T*T)",
        {"g": 3, "m": 70, "k": 200},
    ),
    "heads, of batches": ("L[b,n] = sum[m](relu(A[b,m,k] @ B[n,k]) * W[b,m/3]:f32)", {"b": 3, "m": 16}),
    "heads, of blocks of batches": ("L[b,n] = sum[m](relu(A[b,m,k] @ B[e[b/4],n,k]))", {"b": 5, "m": 16, "B_0": 2}),
    "rows last": ("T[n,m] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; C[n,m] = T; R[m]:f32 = max[n](T)", {"g": 4}),
}  # fmt: skip


@pytest.mark.parametrize(
    "source",
    [RAGGED, BLOCKS, WINDOWS, "R[m] = max[n](A[m,k] @ B[g,n,k]) for m in off[g]:off[g+1]",
     "T[m,n] = A[idx[m],k] @ B[n,k]; R[m]:f32 = max[n](T)", "S[b,n] = sum[m](A[b,m,k] @ B[e[b/2],n,k])"],
)  # fmt: skip
def test_no_column_of_rows_that_may_be_left_out(source: str) -> None:
    """Likewise where rows that no group has keep what their result holds."""
    empty = "m" if source.startswith("S") else "n"
    dims = {"m": 30, "n": 20, "k": 16, "g": 2, "b": 3, "A_0": 30, "B_0": 2, empty: 0}
    kernel = scalec.compile(source, target="sm_90a")
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    kernel.load(kernel.fixed)
    given, outs = (
        [np.zeros([e.value(dims) for e in t.shape], numpy_dtype(t.dtype)) for t in tensors]
        for tensors in (kernel.spec.operands, kernel.spec.results)
    )
    with pytest.raises(ArgumentError, match=f"{empty} = 0 leaves no tile to write [RS]"):
        kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))


def test_rows_of_windows_without_a_column() -> None:
    """Of no t none is written, however many columns the result has."""
    source = "L[q, t - lo[q]]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d])) for t in lo[q]:hi[q]"
    kernel = scalec.compile(source, "sm_90a", {"h": 4})
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    q, k = (np.zeros(shape, numpy_dtype("bf16")) for shape in ((3, 4, 8), (0, 8)))
    ends, out = np.zeros(3, np.int32), np.full((3, 9), 7, np.float32)
    kernel(Q=q, K=k, lo=ends, hi=ends, out=out)
    assert (out == 7).all()


@pytest.mark.once(touches=lambda name, target: {name, target})
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GROUPED)
def test_groups(name: str, target: str) -> None:
    """Over the columns of rows that ranges and indices from memory name: of others nothing is written."""
    source, more = GROUPED[name]
    dims = {"m": 150, "n": 200, "k": 64, **more}
    fixed = "nk" if "scaled" in name else "m" if "heads" in name else ""
    run(source, target, dims, fixed, launches=2)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["ragged", "windows"])
def test_columns_of_groups_that_a_tile_would_have(name: str, target: str) -> None:
    """Alone, of 40 columns: the range is the product's, and a fold within a tile would have lost it."""
    source, more = GROUPED[name]
    alone = (
        f"{source.split(';')[0]}; R[m]:f32 = max[n](T)" if name == "ragged" else source.replace("C[g,m,n] = T; ", "")
    )
    run(alone, target, {"m": 150, "n": 40, "k": 64, **more}, "nk", launches=2)


def test_else_of_ranges_that_groups_share_out_is_refused() -> None:
    """What is outside of one group's range is another's."""
    with pytest.raises(scalec.UnsupportedError, match="is filled outside ranges of m that g shares out"):
        scalec.compile(
            "R[m]:f32 = max[n](A[m,k] @ B[g,n,k]) for m in off[g]:off[g+1] else 0", target="sm_90a", dims={"n": 64}
        )


GROUPED_SCHEDULES = (
    ("sm_90a", RAGGED, "cluster=2x1, tile=64x64x64, swap=0"), ("sm_90a", RAGGED, "swap=1, tile=64x64x64, cluster=1x2"),
    ("sm_90a", WINDOWS, "cluster=2x1, tile=64x64x64, swap=0"), ("sm_90a", WINDOWS, "cluster=1x2, swap=1"),
    ("sm_90a", BLOCKS, "cluster=2x1, tile=64x64x64, swap=0"), ("sm_90a", BLOCKS, "cluster=1x2, swap=1"),
    ("sm_100a", RAGGED, "cta_group=2, cluster=2x1, tile=128x64x64, swap=0"),
    ("sm_100a", BLOCKS, "swap=0, tile=128x64x64, cluster=1x2"), ("sm_120a", RAGGED, "swap=0, tile=32x64x64, warps=2x4"),
    ("sm_120a", WINDOWS, "swap=1, tile=64x32x64"),
)  # fmt: skip


@pytest.mark.once(touches=lambda case: {case[0], case[1]})
@pytest.mark.parametrize("case", GROUPED_SCHEDULES, ids=[f"{t}, {s[:30]}, {f}" for t, s, f in GROUPED_SCHEDULES])
def test_groups_by_schedules(case: tuple[str, str, str]) -> None:
    """Groups' last tiles overlap with the next one's, also in a cluster of which a CTA is behind them."""
    target, source, fields = case
    dims = {"m": 150, "n": 200, "k": 64} | ({"B_0": 3} if source == BLOCKS else {"g": 5})
    run(f"{source} with {fields}", target, dims, launches=2)


ROUTINGS = {
    "one row each": [0, 1, 2, 3, 4, 4, 6], "all in one": [0, 0, 70, 70, 70, 70, 70], "none": [0] * 7,
    "cut by a tile": [0, 63, 64, 64, 65, 130, 140],
}  # fmt: skip


@pytest.mark.once("name")
@pytest.mark.parametrize("name", ROUTINGS)
@pytest.mark.parametrize("target", TARGETS)
def test_routings(target: str, name: str) -> None:
    """Launch after launch with one workspace, of other routings between: counters are 0 again."""
    source, dims = RAGGED, {"m": 140, "n": 136, "k": 64, "g": 6}
    values, _ = made_up(source, dims, 5)
    kernel = scalec.compile(f"{source} with tile={'128' if target == 'sm_100a' else '64'}x64x64, swap=0", target=target)
    device = kernel.fixed = emulated.EmulatedDevice(target)
    for offsets in (ROUTINGS[name], [0, 20, 40, 60, 80, 100, 120], ROUTINGS[name]):
        own = {**values, "off": np.asarray(offsets, np.int32)}
        with context.context():
            expected = reference.run(build(source, dims), own, dims=dims, exact=True)
        given = [Guarded(device, t, reference.storage(own[t.name])) for t in kernel.spec.operands]
        outs = [Guarded.result(device, r, dims, FILLS[0], None) for r in kernel.spec.results]
        kernel(*given, out=tuple(outs))
        rows = offsets[-1]
        for x in outs[1:]:
            made = np.asarray(values_of(x.spec, x), np.float64)
            assert np.allclose(made[:rows], np.asarray(expected[x.spec.name])[:rows], rtol=1e-3)
            assert np.isnan(made[rows:]).all(), "rows of no group are written"


@pytest.mark.parametrize(
    ("source", "target", "dims"),
    [
        ("T[m,n] = A[m,k] @ B[k,n]; R[m]:f32 = max[n](T)", "sm_90a", {"m": 9, "n": 200, "k": 64}),
        ("R[q,t]:f32 = max[h](Q[q,h,d] @ K[t,d]) for t < e[q]", "sm_120a", {"q": 3, "h": 200, "t": 70, "d": 64}),
    ],
)
def test_folds_that_no_tile_has_all_of_meet(source: str, target: str, dims: dict[str, int]) -> None:
    """200 columns are no whole instructions, or no whole copies of B: tiles meet, in a range too."""
    kernel, _, _ = run(source, target, dims, "h" if "h" in dims else "n", launches=2)
    assert kernel.spec.launch.partial_bytes


def test_alone_of_promoted_sums() -> None:
    """Without a result beside the reductions, and with scales promoted."""
    source = "T[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128); R[m]:f32 = max[n](T); Z[n]:f32 = max[m](T)"
    run(source, "sm_100a", {"m": 9, "n": 16, "k": 256}, "nk", launches=2)


@pytest.mark.once("target", "n")
@pytest.mark.parametrize("n", [160, 256])
@pytest.mark.parametrize("target", TARGETS)
def test_columns_that_no_thread_has_registers_for(target: str, n: int) -> None:
    """A tile of sm_90a has all of them; elsewhere two warpgroups, or several warps, share a row's, and tiles meet."""
    source = "T[m,n] = A[m,k] @ B[n,k] scale(1x128,1x128); R[m] = max[n](T)"
    kernel, _, _ = run(source, target, {"m": 70, "n": n, "k": 256}, "nk", launches=2)
    assert bool(kernel.spec.launch.partial_bytes) == (target != "sm_90a")


def test_what_reductions_read_counts_beside_results() -> None:
    """Warps take as many columns for what they stage as for a reduction that reads something for each element."""
    source = "T[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3; C[m,n]:e4m3 = T; R[m]:f32 = sum[n](T + v[m/4,n])"
    run(f"{source} with tile=128x64x128, epilogue=bulk", "sm_100a", {"m": 33, "n": 96, "k": 128}, "nk")


def test_reductions_are_placed_once() -> None:
    """What decides it is the program alone: a schedule changes nothing, and a tile that can be is kept."""
    source = "T[m,n] = A[m,k] @ B[n,k]; R[m] = max[n](T)"
    for n, fields, meets in ((128, "", False), (256, "", True), (256, " with split=2", True)):
        kernel = scalec.compile(source + fields, target="sm_100a", dims={"n": n, "k": 128})
        assert bool(kernel.spec.launch.partial_bytes) == meets


@pytest.mark.once("target")
@pytest.mark.parametrize(
    ("target", "tile"),
    [("sm_90a", "128x64x64"), ("sm_90a", "64x64x64"), ("sm_120a", "64x64x64"), ("sm_120a", "128x32x64")],
)
def test_bits_do_not_say_who_finished(target: str, tile: str) -> None:
    """A band's last tile is finished by a warp alone, or by all consumers where it is a CTA's last one: which of both,
    the CTAs decide that there are."""
    same_whoever_finishes(
        "T[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[n](T*T); Q[n]:f32 = sum[m](T*T); C[m,n] = T", target, tile
    )


def same_whoever_finishes(program: str, target: str, tile: str, **more: int) -> None:
    """The results have the same bits, however many CTAs there are."""
    program += f" with tile={tile}, cluster=1x1, swap=0"
    kernel = scalec.compile(program, target=target, dims={"k": 64})
    values, _ = made_up(program, {"m": 500, "n": 648, "k": 64, **more}, 4)
    made = []
    for sms in (1, 3, 200):
        kernel = Kernel(kernel.spec, b"", ptx=kernel.ptx)  # one keeps what it planned
        kernel.fixed = device = emulated.EmulatedDevice(target)
        device.sms = sms
        found = kernel(*(values[t.name] for t in kernel.spec.operands))
        made.append(found if isinstance(found, tuple) else (found,))
    for other in made[1:]:
        for x, y in zip(made[0], other, strict=True):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


HEADS = "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h]:f32)"
PAGED = "L[s,t]:f32 = max[h](Q[s,h,d] @ K[table[s,t/16],t%16,d]) for t < len[s]"
OWN_RANGES = {
    "filled": f"{HEADS} for t in lo[q]:hi[q] else -inf",
    "from where it begins": f"{HEADS.replace('q,t]', 'q, t - lo[q]]', 1)} for t in lo[q]:hi[q]",
    "up to an index": f"{HEADS} for t in q-2:q/2+40 else 0",
    "by columns": "L[t,q] = max[h](Q[q,h,d] @ K[t,d]) for t < hi[q] else 3",
    "of pages": PAGED,
    "of pages, filled": f"{PAGED} else -inf",
    "beside all": "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; R[m]:f32 = max[n](T) for m < rows[0] else 7",
    "of groups": "R[g,m]:f32 = sum[n](A[g,m,k] @ B[g,n,k]) for m in lo[g]:hi[g] else 0",
    "of a matrix each": "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[e[q/4],t,d])) for t in lo[q]:hi[q]",
}
"""Of what no tile has all of: 256 columns of some targets, or of a size that is not known."""

EXTENTS: tuple[dict[str, int], ...] = (
    {"t": 150, "h": 256, "q": 5, "d": 64}, {"t": 300, "h": 100, "q": 3, "d": 128},
    {"t": 1, "h": 257, "q": 9, "d": 72}, {"t": 77, "h": 1, "q": 1, "d": 8},
    {"t": 130, "h": 512, "q": 2, "d": 40}, {"t": 0, "h": 20, "q": 4, "d": 64},
    {"t": 33, "h": 3, "q": 40, "d": 0}, {"t": 64, "h": 128, "q": 0, "d": 128},
)  # fmt: skip


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", OWN_RANGES)
def test_own_ranges(name: str, target: str, seed: int) -> None:
    """What tiles that meet write lies within, from where the window begins or where it is; the rest is filled, or
    stays."""
    e = EXTENTS[seed]
    dims = {**e, "s": e["q"], "m": e["t"], "n": e["h"], "k": e["d"], "g": e["q"], "K_0": 7, "L_1": e["t"] // 2 + 9}
    source = OWN_RANGES[name]
    if "- lo" in source:  # of no t nothing would be written, which a call cannot tell
        dims["t"] = max(1, dims["t"])
    with context.context():
        module = build(source)
        every = program_dims(module.body.operations[0])
    fixed = "hd" if seed == 0 and "h" in every else ""
    run(source, target, {x: n for x, n in dims.items() if x in every}, fixed, seed, launches=2)
