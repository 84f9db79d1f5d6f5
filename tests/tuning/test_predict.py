"""The prediction: arithmetic by hand, limits, and what it is against measurements."""

from __future__ import annotations

import pytest

from scalec import frontend
from scalec.errors import ScalecError
from scalec.formats import ELEMENT_TYPES
from scalec.ir import context as contexts
from scalec.ir import schedule as schedules
from scalec.model.predict import Prediction, cycles_of_tile, memory_bytes, shared_bytes
from scalec.passes.pipeline import PIPELINE, run_pipeline
from scalec.passes.problem.read import read as read_problem
from scalec.passes.problem.types import Problem
from scalec.sizes import Range
from scalec.targets import TARGETS
from scalec.tuning.explain import explain
from tests.schedules import plain
from tests.tuning.recorded import ROOT, SUITES, line, recorded

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"


@pytest.fixture(autouse=True)
def mlir():
    with contexts.context():
        yield


def problem_of(source: str, target: str = "sm_90a", **dims: int) -> Problem:
    module = frontend.build(source, dims)
    run_pipeline(module, TARGETS[target], passes=PIPELINE[:2])
    return read_problem(next(o for o in module.body.operations if o.operation.name == "func.func"), TARGETS[target])


def plan(tile: str, cluster: str = "1x1", warpgroups: str = "2", warps: str = "8x1", **more: str) -> schedules.Schedule:
    texts = {"tile": tile, "cluster": cluster, "warpgroups": warpgroups, "warps": warps, **more}
    return plain(**schedules.from_mapping(texts).decided())


def test_one_tile_by_hand():
    problem = problem_of(FP8, m=256, n=128, k=1024)
    cycles = cycles_of_tile(problem, plan("256x128x128", promote="128"), 1024)
    assert cycles["tensor issue"] == 2 * 256 * 128 * 1024 / 8192
    # 256 rows of A, and all of B for each of four waves of 64 rows
    assert cycles["shared memory"] == 8 * (256 * 128 + 4 * 128 * 128) / 128
    assert cycles["promotion"] == 8 * 256 * 128 / 128


def test_warps_that_load_their_own_fragments():
    problem = problem_of("C[m,n] = A[m,k]@B[n,k]", "sm_120a", m=128, n=128, k=64)
    # 2x4 warps: each of four columns of warps loads all of A, each of two rows of them all of B
    assert shared_bytes(problem, plan("128x128x64", warps="2x4")) == 4 * 128 * 128 + 2 * 128 * 128
    cycles = cycles_of_tile(problem, plan("128x128x64", warps="2x4"), 64)
    assert cycles["tensor issue"] == 2 * 128 * 128 * 64 / 1024
    # two warps have half of the tensor cores for themselves: each instruction takes 16 cycles of its warp
    alone = cycles_of_tile(problem, plan("128x128x64", warpgroups="1", warps="1x2"), 64)
    assert alone["tensor issue"] == 8 * 16 * 4 / 2 * 16


def test_rates_of_instructions_agree_with_the_datasheet():
    target = TARGETS["sm_120a"]
    for family in target.mma:
        flop = 2 * family.m * family.n[0] * family.k * 4 / target.rates.issue_cycles  # four tensor cores
        assert all(target.rates.flop_per_clock(t, max(family.operands)) == flop for t in family.operands if t != "e2m1")
    assert target.rates.flop_per_clock("e2m1", "e2m1") == 2 * 16 * 8 * 64 * 4 / 16
    assert target.rates.flop_per_clock("e4m3", "e2m1") == target.rates.flop_per_clock("e4m3", "e4m3")


@pytest.mark.parametrize(
    ("target", "part", "element", "tflops"),
    [
        ("sm_90a", "H200", "e4m3", 1979),  # H200 datasheet, dense
        ("sm_90a", "H200", "bf16", 989.5),
        ("sm_100a", "B200", "e2m1", 8972),  # Blackwell datasheet, HGX B200: 18 PFLOP/s with sparsity
        ("sm_100a", "B200", "e4m3", 4486),
        ("sm_120a", "RTX PRO 6000", "e2m1", 2015),  # RTX PRO 6000 Blackwell datasheet: 4000 TOPS with sparsity
        ("sm_120a", "RTX PRO 6000", "e4m3", 1007.6),
        ("sm_120a", "RTX PRO 6000", "bf16", 503.8),
    ],
)
def test_peaks_are_the_documents(target, part, element, tflops):
    row = TARGETS[target]
    assert row.rates.part == part
    assert row.sms * row.rates.clock * row.rates.flop_per_clock(element, element) == pytest.approx(
        tflops * 1e12, rel=1e-3
    )


def test_every_operand_type_has_a_rate():
    for target in TARGETS.values():
        assert target.rates.source
        for element in (e for family in target.mma for e in family.operands):
            assert target.rates.flop_per_clock(element, element) > 0
            assert element in ELEMENT_TYPES


def test_under_sustained_power_products_take_longer_and_copies_do_not():
    sizes = {"m": 8192, "n": 8192, "k": 8192}
    p = Prediction.of(problem_of(FP8, m=8192, n=8192, k=8192), plan("128x256x128"), sizes)
    assert p.sustained is not None
    clock, seconds = p.sustained
    assert seconds - p.launch == pytest.approx(p.times["tensor issue"] * TARGETS["sm_90a"].rates.clock / clock)
    few = {"m": 16, "n": 8192, "k": 8192}
    p = Prediction.of(problem_of(FP8, m=16, n=8192, k=8192), plan("64x16x128", swap="1"), few)
    assert p.bound in ("L2", "HBM")
    assert p.sustained == (clock, p.seconds)


def test_waves():
    problem = problem_of(FP8, n=128 * 132, k=4096)
    for tiles, waves in ((1, 1), (132, 1), (133, 2), (264, 2), (265, 3)):
        p = Prediction.of(problem, plan("128x128x128"), {"m": 1, "n": 128 * tiles, "k": 4096})
        assert (p.tiles, p.waves) == (tiles, waves)
        assert p.busy == tiles / (waves * 132)
    # a pair of CTAs takes two SMs at once: 67 pairs are two waves of 66
    p = Prediction.of(problem, plan("128x128x128", cluster="1x2"), {"m": 1, "n": 128 * 134, "k": 4096})
    assert (p.tiles, p.waves) == (134, 2)


def test_what_bounds():
    large = plan("128x128x128")

    def bound(m: int, n: int, k: int, schedule: schedules.Schedule = large) -> str:
        return Prediction.of(problem_of(FP8), schedule, {"m": m, "n": n, "k": k}).bound

    assert bound(1, 7168, 2048, plan("64x64x128", warpgroups="1", warps="4x1")) == "HBM"
    assert bound(128 * 132, 128 * 64, 8192) == "L2"  # no two CTAs share what they read
    assert bound(128 * 132, 128 * 64, 8192, plan("256x128x128", cluster="1x2")) == "tensor issue"
    assert bound(1024, 1024, 65536) == "wave quantisation"  # 64 tiles


def test_bytes_of_every_tensor():
    source = "C[m,n] += relu(A[m,k]@B[n,k] scale(1x128,128x128) + bias[n] + R[m,n] * s[m])"
    m, n, k = 100, 256, 512
    problem = problem_of(source, m=m, n=n, k=k)
    scales = 4 * (m * 4 + 2 * 4)
    read = 2 * (n + m * n + m)
    assert memory_bytes(problem, {"m": m, "n": n, "k": k}) == m * k + n * k + scales + read + 2 * 2 * m * n


@pytest.mark.parametrize(
    ("source", "groups"),
    [
        ("C[m,n] = A[m,k] @ B[g,n,k] scale(1x128,1x128x128) for m in off[g]:off[g+1]", "g"),
        ("C[m,n] = A[idx[m],k] @ B[g,n,k] scale(1x128,1x128x128) for m in off[g]:off[g+1]", "g"),
        ("C[m,n] = A[m,k] @ B[e[m/128],n,k] scale(1x128,1x128x128)", "B_0"),
        ("C[g,m,n] = A[g,m,k] @ B[g,n,k] scale(1x1x128,1x128x128) for m < rows[g]", "g"),
    ],
    ids=["ragged", "gathered", "blocks", "masked"],
)
def test_bytes_are_those_of_all_groups(source: str, groups: str) -> None:
    rows, n, k, count = 4096, 256, 512, 8
    masked = groups == "g" and "A[g" in source
    sizes = {"m": rows // count if masked else rows, "n": n, "k": k, groups: count}
    problem = problem_of(source, **sizes)
    found = memory_bytes(problem, problem.sizes(sizes))
    assert found == rows * k + 4 * rows * 4 + count * (n * k + 4 * 2 * 4) + 2 * rows * n


def test_packed_operands_count_as_they_are_stored():
    sizes = {"m": 128, "n": 256, "k": 512}
    problem = problem_of("C[m,n] = A[m,k]:mxfp8@B[n,k]:mxfp4", "sm_120a", **sizes)
    scales = 128 * 16 + 256 * 16
    assert memory_bytes(problem, sizes) == 128 * 512 + 256 * 256 + scales + 2 * 128 * 256


def test_scales_that_a_kernel_makes_are_not_read():
    sizes = {"q": 40, "h": 32, "t": 64, "k": 256}
    source = "L[q,t]:f32 = sum[h](relu(quantize(Q[q,h,k], e4m3, 1x128) @ K[t,k] scale(none,1x128)) * W[q,h])"
    problem = problem_of(source, "sm_90a", **sizes)
    read = 2 * 40 * 32 * 256 + 64 * 256 + 4 * 64 * 2 + 2 * 40 * 32
    assert memory_bytes(problem, problem.sizes(sizes)) == read + 4 * 40 * 64


def test_more_work_takes_no_less_time():
    problem = problem_of(FP8)
    schedule = plan("128x128x128", promote="128")
    sizes = {"m": 1, "n": 128, "k": 128}
    last = 0.0
    for name in ("m", "n", "k") * 8:
        sizes[name] = sizes[name] * 3
        seconds = Prediction.of(problem, schedule, sizes).seconds
        assert seconds >= last
        last = seconds


def test_a_transposed_result_moves_the_same_bytes():
    problem, sizes = problem_of(FP8, n=512, k=1024), {"m": 16, "n": 512, "k": 1024}
    here = Prediction.of(problem, plan("64x128x128"), sizes)
    there = Prediction.of(problem.transposed(), plan("128x64x128"), sizes)
    assert list(there.sizes) == ["m", "n", "k"]
    assert (there.sizes, there.bytes, there.flop) == (here.sizes, here.bytes, here.flop)
    assert (here.tiles, there.tiles) == (4, 4)
    assert Prediction.of(problem.transposed(), plan("64x128x128"), sizes).tiles == 8


def test_reasons():
    found = explain(FP8, "sm_90a", {"n": 7168, "k": 2048}, {"stages": "3"}, [1, 4096])
    assert [p.sizes["m"] for p in found.predictions] == [1, 4096]
    assert found.assumed == {}
    assert found.reasons["stages"].startswith("given; ")
    assert "; next by the fitted model, in times as long: " in found.reasons["tile"]
    assert explain(FP8, "sm_90a", {"n": 7168, "k": 2048}, {}).assumed == {"m": 4096}
    with pytest.raises(ScalecError, match="m = 100 lies outside 1:64"):
        explain(FP8, "sm_90a", {"n": 7168, "k": 2048, "m": Range(1, 64)}, {}, [64, 100])
    assert "predicted" not in explain(FP8, "sm_90a", {"n": 7168}, {"tile": "128x128x128"}).reasons["tile"]


@pytest.mark.parametrize("suite", SUITES)
def test_measured_kernels(suite):
    for one in recorded(suite):
        assert one.prediction.bytes == one.bytes
        assert one.ratio > 1, "faster than the documents allow: the model counts what the hardware does not do"


@pytest.mark.parametrize("suite", SUITES)
def test_the_error_in_the_docs_is_the_one_there_is(suite):
    assert line(suite) in (ROOT / "docs" / "architecture.md").read_text()


def test_reasons_of_a_transposed_result():
    found = explain(FP8, "sm_120a", {"m": 16, "n": 7168, "k": 2048}, {})
    assert found.schedule.swap == 1
    assert "transposed" in found.reasons["swap"]
    assert found.predictions[0].sizes == {"m": 16, "n": 7168, "k": 2048}
    assert "swap" not in explain(FP8, "sm_120a", {"m": 4096, "n": 7168, "k": 2048}, {}).reasons


def test_a_refused_tile_is_told_without_the_whole_schedule():
    reason = explain("C[m,n] = A[m,k]:nvfp4@B[n,k]:nvfp4", "sm_120a", {"m": 4096, "n": 7168, "k": 2048}, {}).reasons
    assert "256x128x256 does not go (two stages do not fit into shared memory)" in reason["tile"]


@pytest.mark.parametrize(("n", "waves"), [(2496, (1, 1)), (2560, (1, 2)), (2816, (1, 2)), (2880, (2, 2))])
def test_parts_in_a_cluster_run_as_clusters_and_leave_l2_alone(n: int, waves: tuple[int, int]) -> None:
    """39 clusters of three run at once, 132 CTAs of parts that meet in memory."""
    sizes = {"m": 64, "n": n, "k": 7168}
    problem = problem_of(FP8, **sizes)
    given = plan("64x64x128", warpgroups="1", warps="4x1", split="3", promote="128")
    memory, together = (Prediction.of(problem, given.with_fields(parts=p), sizes) for p in ("memory", "cluster"))
    assert (memory.waves, together.waves) == waves
    assert memory.l2_bytes - together.l2_bytes == 2 * 4 * 3 * (n // 64) * 64 * 64


@pytest.mark.parametrize(
    ("tile", "split", "reason"),
    [
        ("64x64x128", "3", "3 CTAs are a cluster, and the sums of parts go to the shared memory of the first"),
        ("128x32x128", "2", "2 CTAs are a cluster, and the sums of parts go to the shared memory of the first two"),
        ("64x64x128", "9", "the last CTA of a tile adds the sums of all; 9 parts make clusters of 9 CTAs, of"),
        ("64x64x128", "1", ""),
    ],
)
def test_where_parts_meet_is_explained(tile: str, split: str, reason: str) -> None:
    given = {"tile": tile, "split": split, "cluster": "1x1"}
    found = explain(FP8, "sm_90a", {"m": 64, "n": 1024, "k": 7168}, given).reasons.get("parts", "")
    assert found == reason or (split == "9" and found.startswith(reason))
