"""Results that reduce one index of the product within a tile (logits of attention indexers), on every target: tails,
windows, orders of indices and schedules."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.compare import compare
from scalec.checking.guarded import FILLS, between_guards
from scalec.checking.launch import made_up, values_of
from scalec.errors import ScheduleError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from scalec.sizes import MOST
from tests.emulator.running import refusals
from tests.emulator.test_several_results import TARGETS, run
from tests.tiers import SEEDS

PLAIN = "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h]:f32)"
FP8 = "L[q,t]:f32 = sum[h](relu(Q[q,h,d]:e4m3 @ K[t,d]:e4m3 scale(none,1xd)) * W[q,h]:f32)"
WINDOW = "for t in lo[q]:hi[q] else -inf"

FORMS = {
    "bf16": PLAIN,
    "FP8": FP8,
    "windows": f"{FP8} {WINDOW}",
    "BF16 by FP8": f"L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]:e4m3 scale(none,1xd)) * W[q,h]) {WINDOW}",
    "MXFP4": f"L[q,t] = sum[h](relu(Q[q,h,d]:mxfp4 @ K[t,d]:mxfp4) * W[q,h]:f32) {WINDOW}",
    "promoted": "L[q,t]:f32 = sum[h](relu(Q[q,h,d]:e4m3 @ K[t,d]:e4m3 scale(none,1x128)) * W[q,h]:f32) for t < e[q]",
    "more behind": "L[q,t] = alpha * sum[h](gelu(Q[q,h,d] @ K[t,d]) * W[q,h]:f32) + u[t] + v[q]",
    "the largest": "L[q,t]:f16 = max[h](Q[q,h,d] @ K[t,d]) for t in off[q]:off[q+1] else 0",
    "the smallest, q last": "L[t,q]:f32 = min[h](silu(Q[q,h,d] @ K[t,d]) + x[t]) for t in 5:hi[q]",
    "a window of q": f"{PLAIN} for q in lo[t]:hi[t] else 1",
    "added": "L[b,q,t]:f32 += sum[h](relu(Q[b,q,h,d] @ K[b,t,d]) * W[b,q,h/4]:f32)",
    "h first": "L[q,t]:f32 = sum[h](relu(Q[h,q,d] @ K[t,d]) * W[h,q]:f32)",
    "no q": "L[t]:f32 = sum[h](relu(Q[h,d] @ K[t,d]) * W[h]:f32)",
    "batches without q": "L[s,t]:f32 = sum[h](relu(Q[s,h,d] @ K[s,t,d]) * W[s,h]:f32) for t < e[s] else -inf",
    "two results": "T[q,t] = sum[h](relu(Q[q,h,d] @ K[t,d])); L[q,t] = T[q,t] * y[q]; M[q,t]:f32 = T[q,t] - x[t]",
}
SIZES = [(5, 200, 64), (37, 70, 128), (1, 1, 128), (9, 129, 192), (3, 64, 64), (2, 300, 320), (65, 9, 128), (4, 99, 64)]
HEADS = (64, 16, 32, 24, 64, 32, 16, 128)
FIXED = ("hd", "hdq", "h", "hdqt")


@pytest.mark.once(touches=lambda name, target, seed: {name, target})
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, target: str, seed: int) -> None:
    q, t, d = SIZES[seed]
    heads = HEADS[seed] if "MXFP4" not in name and "added" not in name else 32
    d = -(-d // 128) * 128 if name in ("MXFP4", "promoted") else d
    dims = {"q": q, "t": t, "d": d, "h": heads, "b": 1 + seed % 3, "s": 1 + seed % 4}
    run(FORMS[name], target, {x: n for x, n in dims.items() if x in used(FORMS[name])}, fixed(name, seed), seed)


def fixed(name: str, seed: int) -> str:
    """Dimensions whose sizes are known: of scales within bytes d too."""
    known = FIXED[seed % len(FIXED)]
    known = known if "d" in known or name != "MXFP4" else known + "d"
    return "".join(x for x in known if x in used(FORMS[name]))


def used(source: str) -> set[str]:
    """The dimensions of a form."""
    return set(re.findall(r"\b[bqsthd]\b", source))


@pytest.mark.once("target", "size")
@pytest.mark.parametrize("size", ["q", "t", "d"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [0, 1])
def test_empty_and_one(target: str, size: str, count: int) -> None:
    """Without products terms are of 0; without rows or columns there is nothing to write."""
    dims = {"q": 3, "t": 70, "d": 64, "h": 16, size: count}
    run(PLAIN, target, dims, "h")


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
def test_scales_of_rows_of_two_indices(target: str) -> None:
    """Rows of Q's scales are 16 bytes, which a tensor map could bring, and a tile has those of several q."""
    program = "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d] scale(1x128, 1x128)))"
    run(program, target, {"q": 3, "t": 20, "h": 8, "d": 512}, "hd")


WINDOWS = {
    "none": (lambda q, t: np.zeros(q), lambda q, t: np.zeros(q)),
    "one": (lambda q, t: np.arange(q) % t, lambda q, t: np.arange(q) % t + 1),
    "all": (lambda q, t: np.zeros(q), lambda q, t: np.full(q, t)),
    "turned round": (lambda q, t: np.full(q, t // 2), lambda q, t: np.arange(q)),
    "causal": (lambda q, t: np.zeros(q), lambda q, t: np.arange(q) + t - q + 1),
}


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("otherwise", [" else -inf", ""])
def test_windows(target: str, name: str, otherwise: str) -> None:
    """Of each row the window, and around it the filling, or what was there."""
    dims, source = {"q": 9, "t": 133, "h": 32, "d": 128}, f"{FP8} for t in lo[q]:hi[q]{otherwise}"
    values, _ = made_up(source, dims, 5)
    low, high = (f(dims["q"], dims["t"]).astype(np.int32) for f in WINDOWS[name])
    values = {**values, "lo": low, "hi": high}
    at = np.arange(dims["t"])
    inside = (low[:, None] <= at) & (at < high[:, None])
    with context.context():
        expected = reference.run(build(source, dims), values, dims=dims, exact=True)["L"]
    for fill in FILLS:
        got = launched(source, target, dims, values, fill)
        assert np.allclose(
            got[inside], expected[inside], rtol=1e-2, atol=1e-2 * np.abs(expected[inside]).max(initial=1)
        )
        outside = got[~inside]
        kept = np.frombuffer(bytes([fill]) * 4, np.float32)[0]
        wanted = np.full(outside.shape, -np.inf if otherwise else kept, np.float32)
        assert outside.tobytes() == wanted.tobytes()


def launched(
    source: str, target: str, dims: dict[str, int], values: Any, fill: int, sms: int = emulated.SMS
) -> np.ndarray:
    """The result of a launch over memory that holds one byte, of which so many CTAs run at once."""
    kernel = scalec.compile(source, target=target, dims={x: dims[x] for x in "hd"})
    device = kernel.fixed = emulated.EmulatedDevice(target)
    device.sms, device.options = sms, replace(device.options, sms=sms)
    given, (out,) = between_guards(device, kernel.spec, values, dims, fill)
    kernel(*given, out=out)
    assert not any(x.changed() for x in given)
    assert not out.changed(dims, None)
    return np.asarray(values_of(out.spec, out), np.float32)


ONES = ("Q[q,h,d]:e2m1 @ K[t,d]:e2m1", "Q[q,h,d] @ K[t,d]:mxfp4 scale(1x128)")


@pytest.mark.parametrize("product", ONES)
def test_ones_that_no_product_takes(product: str) -> None:
    """Scales of an operand that has none are written before the first product, of which there is none where all windows
    are empty: nobody waits for them then, nor for an operand's first tile."""
    dims, source = {"q": 3, "t": 40, "h": 16, "d": 128}, f"L[q,t]:f32 = sum[h]({product}) for t < hi[q] else 3"
    values, _ = made_up(source, dims, 1)
    got = launched(source, "sm_100a", dims, {**values, "hi": np.zeros(3, np.int32)}, FILLS[0])
    assert (got == 3).all()


RUNS = {
    "tile=64x32x64, cluster=1x1": (5, 40 * 64 - 7, 1),
    "tile=64x32x64, cluster=2x1": (5, 34 * 64 - 70, 2),
    "tile=64x16x64, cluster=1x2, order=m": (4, 40 * 64 - 7, 2),
    "tile=64x16x64, cluster=1x1, run=2": (3, 15 * 64, 1),
    "tile=64x64x64, cluster=1x1, mma_n=16, stationary=1": (7, 20 * 64 - 7, 1),
    "tile=64x32x64, cluster=1x1, stationary=0": (5, 40 * 64 - 7, 1),
}
OF_LANES = {
    "tile=128x128x64, cluster=1x1, run=2": (5, 7 * 128 - 3, 64, 1),
    "tile=128x256x64, cluster=2x1, cta_group=2": (9, 7 * 128 - 70, 64, 2),
    "tile=128x192x64, cluster=1x1, run=3": (11, 5 * 128, 32, 1),
}
TERMS = {"FP8": FP8, "BF16": "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * K_scale[t]:f32 * W[q,h]:f32)"}
"""Those of the second may be infinite, so that their sums are looked at."""


@pytest.mark.once("fields", "terms")
@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("fields", RUNS)
def test_runs(fields: str, terms: str) -> None:
    """A cluster takes tiles of the same queries in a row, and has W and the window in registers, and Q in shared
    memory: as many as there are for each, the last runs shorter, clusters beyond the last row too. Some scales are
    negative."""
    q, t, sms = RUNS[fields]
    in_runs(f"{TERMS[terms]} {WINDOW} with {fields}", "sm_90a", {"q": q, "t": t, "h": 16, "d": 64}, sms)


@pytest.mark.once("fields")
@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("fields", OF_LANES)
def test_runs_of_rows_in_lanes(fields: str, terms: str) -> None:
    """What is read once a run is read at its first tile, where many windows do not begin."""
    q, t, h, sms = OF_LANES[fields]
    in_runs(f"{TERMS[terms]} {AWAY} with {fields}", "sm_100a", {"q": q, "t": t, "h": h, "d": 64}, sms)


def in_runs(source: str, target: str, dims: dict[str, int], sms: int) -> None:
    """Compares where the window is, with some negative scales."""
    q, t = dims["q"], dims["t"]
    values, _ = made_up(source, dims, 6)
    scale = np.array(values["K_scale"])
    scale[100:300:7] *= -1
    low = (np.arange(q) * 97 % t).astype(np.int32)
    values = {**values, "K_scale": scale, "lo": low, "hi": np.minimum(low + t // 2, t).astype(np.int32)}
    with context.context():
        expected = reference.run(build(source, dims), values, dims=dims, exact=True)["L"]
    got, at = launched(source, target, dims, values, FILLS[0], sms), np.arange(t)
    inside = (values["lo"][:, None] <= at) & (at < values["hi"][:, None])
    assert "else" not in source or np.array_equal(inside, np.isfinite(got))
    assert np.allclose(got[inside], expected[inside], rtol=1e-2, atol=1e-3 * np.abs(expected[inside]).max())


STAYS = {
    "sm_90a": "tile=64x64x64, cluster=1x1, mma_n=16, stationary=1",
    "sm_120a": "tile=64x64x64, warps=2x2, stationary=1",
}


@pytest.mark.once
@pytest.mark.parametrize("target", STAYS)
def test_windows_of_rows(target: str) -> None:
    """Ends that are read for each row are each tile's, not those of the first of a run."""
    source, dims = f"{FP8} for q in lo[t]:hi[t] else -1 with {STAYS[target]}", {"q": 9, "t": 200, "h": 16, "d": 64}
    values, _ = made_up(source, dims, 3)
    at = np.arange(dims["t"], dtype=np.int32)
    values = {**values, "lo": at % 5, "hi": at % 7 + 3}
    with context.context():
        expected = reference.run(build(source, dims), values, dims=dims, exact=True)["L"]
    got = launched(source, target, dims, values, FILLS[0], 1)
    assert np.allclose(got, expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
def test_terms_that_are_finite_with_their_rows_factor_alone(target: str) -> None:
    """W of some queries is so large that without a scale of K its terms are infinite."""
    dims = {"q": 3, "t": 40, "h": 16, "d": 64}
    values, _ = made_up(FP8, dims, 6)
    values = {x: np.array(v) for x, v in values.items()}
    values["K_scale"][...] = 2.0**-24
    values["W"][1] = 2.0**126
    with context.context():
        expected = reference.run(build(FP8, dims), values, dims=dims, exact=True)["L"]
    got = launched(FP8, target, dims, values, FILLS[0])
    assert np.isfinite(expected).all()
    assert np.abs(expected[1]).max() > 2.0**102
    assert np.allclose(got / expected.max(1)[:, None], expected / expected.max(1)[:, None], rtol=1e-2, atol=1e-3)


def test_clusters_share_first_runs() -> None:
    """The first runs of all sequences are not one cluster's, though as many as there are runs divide the clusters."""
    dims = {"s": 16, "t": 256, "h": 16, "d": 128}
    program = "L[s,t]:f32 = sum[h](Q[s,h,d]:e4m3 @ K[s,t,d]:e4m3) for t < len[s]"
    kernel = scalec.compile(program, "sm_90a", {x: dims[x] for x in "hd"}, {"tile": "64x16x128", "cluster": "1x1"})
    device = kernel.fixed = emulated.EmulatedDevice("sm_90a")
    device.sms, device.options = 2, replace(device.options, sms=2, part=(0, 2))  # the first of two clusters
    with context.context():
        values = dict(reference.make(build(program, dims), dims, 1))
    values["len"] = np.full(16, 128, np.int32)
    given, (out,) = between_guards(device, kernel.spec, values, dims, FILLS[0])
    kernel(*given, out=out)
    assert device.stats is not None
    assert device.stats.counts["tensor operations"] == 16 * 128 * 16 * 128 / 2


def test_clusters_share_windows_that_end_later_and_later() -> None:
    """Of four columns, which have 1, 2, 3 and 4 tiles in runs of two, each of two clusters has 5."""
    dims = {"q": 8, "t": 256, "h": 16, "d": 64}
    program = "L[q,t]:f32 = sum[h](Q[q,h,d]:e4m3 @ K[t,d]:e4m3) for t < hi[q]"
    schedule = {"tile": "64x32x64", "cluster": "1x1", "mma_n": "16", "stationary": "1"}
    kernel = scalec.compile(program, "sm_90a", {x: dims[x] for x in "hd"}, schedule)
    device = kernel.fixed = emulated.EmulatedDevice("sm_90a")
    device.sms, device.options = 2, replace(device.options, sms=2, part=(0, 2))  # the first of two clusters
    with context.context():
        values = dict(reference.make(build(program, dims), dims, 1))
    values["hi"] = np.arange(32, 288, 32, dtype=np.int32)
    given, (out,) = between_guards(device, kernel.spec, values, dims, FILLS[0])
    kernel(*given, out=out)
    assert device.stats is not None
    assert device.stats.counts["tensor operations"] == 5 * 64 * 32 * 64


SCHEDULES = [
    ("sm_90a", FP8, "consumers=pingpong, tile=64x128x128"),
    ("sm_90a", FP8, "tile=64x256x128, warpgroups=1, mma_n=128, promote=128"),
    ("sm_90a", FP8, "tile=128x64x128, warpgroups=2, cluster=1x2"),
    ("sm_90a", FP8, "tile=64x64x128, cluster=2x1"),
    ("sm_90a", FP8, "tile=192x128x128, warpgroups=3"),
    ("sm_90a", FP8, "tile=64x64x128, order=m, run=3"),
    ("sm_90a", FP8, "split=2"),
    ("sm_90a", FP8, "split=2, parts=cluster"),
    ("sm_100a", FP8, "tile=128x128x128, scheduler=dynamic"),
    ("sm_100a", FP8, "tile=128x128x128, warpgroups=2, cta_group=1"),
    ("sm_100a", FP8, "tile=128x128x128, cta_group=2, cluster=2x1"),
    ("sm_100a", FP8, "tile=128x128x128, promote=128"),
    ("sm_100a", FP8, "split=2"),
    ("sm_120a", FP8, "tile=64x128x128, warps=2x2, warpgroups=1"),
    ("sm_120a", FP8, "tile=128x128x128, warps=8x1"),
    ("sm_120a", FP8, "split=2"),
]


@pytest.mark.once(touches=lambda case: {case[0]})
@pytest.mark.parametrize("case", SCHEDULES, ids=[f"{target}, {fields}" for target, _, fields in SCHEDULES])
def test_schedules(case: tuple[str, str, str]) -> None:
    target, source, fields = case
    run(f"{source} {WINDOW} with {fields}", target, {"q": 5, "t": 270, "h": 64, "d": 512}, "hd")


AWAY = "for t in lo[q]:hi[q]"
COMPRESSED = {
    "FP8": f"L[q, t - lo[q]]:f32 = sum[h](relu(Q[q,h,d]:e4m3 @ K[t,d]:e4m3 scale(none,1xd)) * W[q,h]:f32) {AWAY}",
    "more behind": f"L[q, t - lo[q]] = alpha * sum[h](gelu(Q[q,h,d] @ K[t,d]) * W[q,h]:f32) + u[t] + v[q] {AWAY}",
    "q last": f"L[t - lo[q], q]:f32 = max[h](Q[q,h,d] @ K[t,d]) {AWAY}",
    "a window of q": "L[q - lo[t], t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h]:f32) for q in lo[t]:hi[t]",
    "batches": "L[s, t - lo[s]]:f32 = sum[h](relu(Q[s,h,d] @ K[s,t,d]) * W[s,h]:f32) for t in lo[s]:hi[s]",
    "pages": "L[s, t - lo[s]]:f32 = sum[h](relu(Q[s,h,d] @ K[p[s,t/16],t%16,d]) * W[s,h]:f32) for t in lo[s]:hi[s]",
    "by an offset": "L[q, t - off[q]] = min[h](silu(Q[q,h,d] @ K[t,d])) for t in off[q]:off[q+1]",
    "two results": f"T[q,t] = sum[h](relu(Q[q,h,d] @ K[t,d])); L[q, t - lo[q]] = T * y[q] {AWAY}; M[q,t] = T {AWAY}",
}


@pytest.mark.once(touches=lambda name, target, size: {name, target, size})
@pytest.mark.parametrize("size", [(5, 200, 64, 16), (9, 70, 128, 32), (1, 1, 64, 64)])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", COMPRESSED)
def test_columns_counted_from_where_a_window_begins(name: str, target: str, size: tuple[int, ...]) -> None:
    source, sizes = COMPRESSED[name], dict(zip("qtdh", size, strict=True))
    sizes = {x: n for x, n in {**sizes, "s": 3}.items() if x in used(source)}
    sizes |= {"K_0": 9} if "p[" in source else {}
    axis = "L_0" if source.startswith(("L[t", "L[q -")) else "L_1"
    sizes[axis] = max(sizes.get("t", 1), sizes.get("q", 1)) + 9
    run(source, target, sizes, "hd")


@pytest.mark.once("target")
@pytest.mark.parametrize("fields", ["", " with split=2"])
@pytest.mark.parametrize("target", TARGETS)
def test_what_a_compressed_window_leaves(target: str, fields: str) -> None:
    """Of windows longer than the result, that begin at the end, behind their end or below 0, nothing is written
    elsewhere, and what lies outside keeps its bytes."""
    dims, source = {"q": 7, "t": 133, "h": 32, "d": 256, "L_1": 60}, COMPRESSED["FP8"] + fields
    values, _ = made_up(source, {**dims, "L_1": 133}, 5)
    low = np.array([3, 0, 100, 70, 133, 130, -3], np.int32)
    high = np.array([133, 40, 133, 20, 133, 133, 40], np.int32)
    values = {**values, "lo": low, "hi": high}
    whole, sizes = COMPRESSED["FP8"].replace("t - lo[q]", "t"), {d: n for d, n in dims.items() if d != "L_1"}
    with context.context():
        at_t = reference.run(build(whole, sizes), values, dims=sizes, exact=True)["L"]
    got = launched(source, target, dims, values, FILLS[1])
    kept = np.frombuffer(bytes([FILLS[1]]) * 4, np.float32)[0]
    for q in range(7):
        count = min(max(0, int(high[q]) - int(low[q])), 60) if low[q] >= 0 else 0
        wanted = at_t[q, low[q] : low[q] + count]
        assert np.allclose(got[q, :count], wanted, rtol=1e-2, atol=1e-2 * np.abs(wanted).max(initial=1))
        assert got[q, count:].tobytes() == np.full(60 - count, kept, np.float32).tobytes(), q


MISFITS = {
    "swap=0": ("sm_90a", "L is reduced over h, indices of which are columns of a tile"),
    "tile=128x96x128": ("sm_90a", "columns that are no multiple of 64"),
    "tile=128x64x128, cta_group=2, cluster=2x1": ("sm_100a", "half of which each CTA copies"),
    "tile=128x128x128, warps=2x4": ("sm_120a", "128 columns for 4 who share them"),
    "stationary=1, tile=128x64x128": ("sm_90a", "is one go"),
    "stationary=1, tile=128x128x128, run=1": ("sm_90a", "nothing to stay for"),
    "stationary=1, tile=128x256x64": ("sm_90a", "more than one block of 64"),
    "stationary=1, tile=128x256x128, mma_n=32": ("sm_90a", "128 or 64: stationary = 1 multiplies whole"),
    "stationary=1, tile=128x256x128, mma_n=0": ("sm_90a", "expected: 128 or 64: stationary = 1"),
    "stationary=1, tile=256x128x128, mma_n=48": ("sm_90a", "expected: 64: stationary = 1"),
    "stationary=1, tile=128x128x128": ("sm_100a", "one after the other on sm_100a"),
    "epilogue=turned": ("sm_90a", "threads store"),
    "epilogue=bulk": ("sm_90a", "threads store"),
}


test_schedules_that_cannot_be = refusals(
    [(fields, words, target) for fields, (target, words) in MISFITS.items()],
    ScheduleError,
    dims={"h": 64, "d": 128},
    within=FP8 + " with {}",
)


REFUSED = {
    "L[q,t] = sum[h](Q[q,h,d] @ K[t,d]) for q < hi[t] else 0": ("h is not known at compile time", {}),
    "L[q,t] = sum[h](Q[q,h,d] @ K[t,d]) for q < hi[t] else 0 ": ("a multiple of 8 up to 256", {"h": 20}),
    "L[q,t]:f32 = sum[h,g](Q[q,h,g,d] @ K[t,d])": ("a tile of the product runs along", {"h": 16, "g": 2}),
    "L[q,t]:mxfp8 = sum[h](Q[q,h,d] @ K[t,d])": ("L is quantised", {"h": 16}),
    "L[q,t]:f32 = sum[h](Q[q,h,d] @ K[t,h,d])": ("an index of both operands", {"h": 16}),
    f"L[q, t - hi[q]]:f32 = sum[h](Q[q,h,d] @ K[t,d]) {WINDOW[:20]}": ("is written at t - hi[q]", {"h": 16}),
    f"L[q, t - lo[q]]:f32 = Q[q,d] @ K[t,d] {WINDOW[:20]}": ("is written at t - lo[q]", {"d": 64}),
    "L[q,t]:f32 = sum[h](Q[q,h,d] @ K[t,d] * W[idx[q],h])": ("tile reduces, at q", {"h": 16}),
    "L[q,t] = sum[h](Q[q,h,d] @ K[t,d]); M[q,h,t] = Q[q,h,d] @ K[t,d]": ("", {"h": 16}),
    "L[b,q,t] = sum[h](Q[b,q,h,d] @ K[b,t,d]) for b in lo[q]:hi[q] else 0": ("b has a range", {"h": 16}),
}


@pytest.mark.parametrize("source", REFUSED)
def test_refusals(source: str) -> None:
    words, dims = REFUSED[source]
    with pytest.raises(UnsupportedError) as found:
        scalec.compile(source, target="sm_90a", dims=dims)
    assert words in f"{found.value}", found.value
    assert found.value.place is not None


SIZES_OF = {
    "m": {"q": 5, "t": 40, "h": 16, "d": 64, "Q_0": 7},
    "s": {"q": 5, "t": 40, "h": 16, "d": 64, "W_0": 7},
}
GATHERED = ["max[h](Q[idx[q],h,d] @ K[t,d])", "sum[h](relu(Q[q,h,d] @ K[t,d]) * W[idx[t]])"]
GATHERED += ["sum[h](Q[q,h,d] @ K[t,d] * W[idx[h]])"]


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("source", GATHERED)
@pytest.mark.parametrize("target", TARGETS)
def test_indices_from_memory_beside_what_is_reduced(source: str, target: str) -> None:
    """No tile has all of h: a row of it has q and h, of which the index is of one, and what is left out is not told."""
    run(f"L[q,t]:f32 = {source}", target, SIZES_OF[source[0]], "hd")


def test_gaps_in_what_is_read_as_one() -> None:
    """Scales of a Q whose q and h are walked as one are read by one stride: other ones are refused at the call."""
    kernel = scalec.compile(FORMS["MXFP4"], target="sm_100a", dims={"h": 16, "d": 128})
    (scale,) = (x for x in kernel.spec.operands if x.name == "Q_scale")
    strides = [x.axis for x in kernel.spec.arguments if x.kind == "stride" and x.tensor == "Q_scale"]
    assert len(scale.shape) == 3
    assert strides == [1]


def test_compare_sees_a_wrong_head() -> None:
    """The comparison that the tests above rest on is red where two heads of W change places."""
    dims = {"q": 4, "t": 33, "h": 16, "d": 64}
    values, expected = made_up(PLAIN, dims, 1)
    wrong = {**values, "W": values["W"][:, ::-1]}
    with context.context():
        other = reference.run(build(PLAIN, dims), wrong, dims=dims, exact=True)
    assert not all(c.ok for c in compare({"L": other["L"].astype(np.float32)}, expected))


def test_more_queries_than_a_kernel_counts() -> None:
    """A tile counts q and h as one index, in 32 bits. Of more, q is counted by itself, and tiles of h meet."""
    kernel = scalec.compile(PLAIN, target="sm_90a", dims={"h": 64, "d": 64})
    assert kernel.spec.ranges == {"q": (1, MOST // 64)}
    assert kernel.spec.limits["q"].reason == "a kernel counts q and h as one index, in 32 bits"
    assert scalec.compile(PLAIN, target="sm_90a", dims={"h": 64, "d": 64, "q": 4}).spec.ranges == {}
    more = scalec.compile(PLAIN, target="sm_90a", dims={"h": 64, "d": 64, "q": 1 << 26, "t": 1})
    assert {dim: tile for dim, tile, _ in more.spec.launch.tiles}["q"] == 1
