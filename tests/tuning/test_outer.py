"""Dimensions that a tile does not run along: what is counted of them, and what is chosen, predicted and kept for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from scalec import compiler, frontend
from scalec.errors import ArgumentError, ScheduleError, UnsupportedError
from scalec.ir import context as contexts
from scalec.ir.schedule import Schedule
from scalec.ladder import OUTER_TOPS, parts, rungs
from scalec.measured import database
from scalec.measured.database import Entry
from scalec.model.cost import FITTED, Load, seconds
from scalec.model.predict import Prediction
from scalec.passes.base import programs
from scalec.passes.choose.scheduler import choice
from scalec.passes.pipeline import find, run_pipeline
from scalec.passes.plan.parts import clusters_of
from scalec.passes.problem.read import read as read_problem
from scalec.passes.problem.types import ASSUMED, ASSUMED_OUTER, Problem
from scalec.sizes import Range, Size
from scalec.targets import TARGETS
from scalec.tuning import tuner
from scalec.tuning.explain import explain
from scalec.tuning.ranking import ranked, work
from tests.schedules import plain

HEADS = "Z[b,h,d] = X[b,h,r] @ Y[h,d,r] scale(1x128,128x128)"
GROUPS = "C[g,m,n] = A[g,m,k] @ B[g,n,k] scale(1x128,128x128)"
BATCHED = "C[g,m,n] = A[g,m,k] @ B[g,n,k]"
SUMS = "D[m,n] = A[b,m,k] @ B[b,n,k]"
ROWS = "C[b,s,n] = A[b,s,k] @ W[n,k] scale(1x128,128x128)"
DENSE = "C[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128)"


def problem_of(source: str, target: str = "sm_90a", /, **dims: Size) -> Problem:
    with contexts.context():
        module, row = frontend.build(source, dims), TARGETS[target]
        run_pipeline(module, row, passes=find(["infer-roles", "fuse-epilogue"]))
        return read_problem(next(programs(module)), row)


def chosen(source: str, target: str = "sm_90a", /, **dims: int) -> Schedule:
    return compiler.decide(source, target, dims, tuned=False)[0]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_one_of_them_is_the_dense_program(target: str) -> None:
    for batched, dense in ((GROUPS, DENSE), (BATCHED, DENSE.partition(" scale")[0])):
        for m, n, k in ((1, 1024, 2048), (200, 2112, 7168)):
            assert chosen(batched, target, g=1, m=m, n=n, k=k) == chosen(dense, target, m=m, n=n, k=k), (m, n, k)


@pytest.mark.parametrize("source", [GROUPS, BATCHED])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_k_is_split_only_where_all_of_them_leave_sms_idle(target: str, source: str) -> None:
    # 16 tiles of 64 columns, or 8 of 128, in one group, which are few; in all of 32 they are several waves
    assert (chosen(source, target, g=1, m=1, n=1024, k=8192).split or 1) > 1
    assert chosen(source, target, g=32, m=1, n=1024, k=8192).split == 1


def test_long_sums_to_few_results_have_more_parts() -> None:
    sizes = {"m": 128, "n": 384, "k": 128}
    many, few = (chosen("D[m,n]:f32 += A[b,m,k] @ B[b,n,k]", b=b, **sizes) for b in (4096, 129))
    assert many.split > 16 >= few.split > 1
    assert many.parts == few.parts == "columns"
    tiles = (128 // many.tile[0]) * (384 // many.tile[1])
    assert 100 < tiles * many.split <= 132


def test_whether_results_are_loaded_follows_from_the_whole_sum() -> None:
    source, sizes = "D[m,n]:f32 += A[b,m,k] @ B[b,n,k] scale(1x128@col,1x128@col)", {"m": 4096, "n": 4096, "k": 512}
    assert [chosen(source, b=b, **sizes).adds for b in (1, 2, 16)] == ["loaded", "loaded", "memory"]


def with_adds(source: str, **dims: int) -> bool:
    """Whether candidates of the tuner differ in how results are added."""
    return any("adds" in candidate.schedule for candidate in ranked(source, "sm_90a", dims))


def test_candidates_add_otherwise_where_the_whole_sum_is_short() -> None:
    source = "D[m,n]:f32 += A[b,m,k] @ B[b,n,k] scale(1x128@col,1x128@col)"
    assert with_adds(source, b=4, m=4096, n=4096, k=512)
    assert not with_adds(source, b=5, m=4096, n=4096, k=512)


def test_what_stays_in_l2_is_of_the_whole_sum() -> None:
    """Operands of 16384 by 4096 and 4096 by 4096: too many bytes for L2, and those of one b are not."""
    fields, sizes = {"tile": "128x256x64", "cluster": "1x1"}, {"m": 16384, "n": 4096}
    dense = compiler.decide("D[m,n] = A[m,k] @ B[n,k]", "sm_90a", {**sizes, "k": 4096}, fields, tuned=False)[0]
    assert compiler.decide(SUMS, "sm_90a", {**sizes, "b": 4, "k": 1024}, fields, tuned=False)[0].order == dense.order
    one = compiler.decide(SUMS, "sm_90a", {**sizes, "b": 1, "k": 1024}, fields, tuned=False)[0]
    assert one.order != dense.order


@pytest.mark.parametrize(
    ("known", "missing"), [({"k": 512}, "b is not known"), ({"b": 2}, "k is not known"), ({}, "b and k are not known")]
)
@pytest.mark.parametrize("field", ["split", "unroll"])
def test_what_is_not_known_of_a_sum_is_named(field: str, known: dict[str, int], missing: str) -> None:
    with pytest.raises(ScheduleError, match=f"{field} = 2 and {missing}") as caught:
        compiler.decide(SUMS, "sm_90a", known, {field: "2"})
    assert caught.value.fix == f"give {missing.partition(' is ')[0].partition(' are ')[0]} in dims"


def test_a_sum_of_few_blocks_is_told_with_all_of_its_sizes() -> None:
    with pytest.raises(ScheduleError, match="split = 7 and b = 3 by k = 100 has 6 blocks of 64"):
        compiler.decide(SUMS, "sm_90a", {"b": 3, "k": 100}, {"split": "7"})


def test_longer_sums_than_are_counted() -> None:
    with pytest.raises(UnsupportedError, match="sums over b = 2097152 by k = 1000 have 2147483648 products") as caught:
        compiler.decide(SUMS, "sm_90a", {"b": 1 << 21, "k": 1000})
    assert caught.value.fix == "call the kernel for parts of b, with +="
    compiler.decide(SUMS, "sm_90a", {"b": (1 << 21) - 1, "k": 1000})


def test_tiles_fill_the_sms_with_all_of_them() -> None:
    one, all_ = (chosen(HEADS, h=h, b=512, r=4096, d=1024).tile for h in (1, 8))
    assert one is not None
    assert all_ is not None
    assert one[0] * one[1] < all_[0] * all_[1] == 128 * 256  # 4 x 4 tiles of each of 8: 128 of 132 SMs


def test_clusters_of_a_launch() -> None:
    problem = problem_of("Z[a,b,m,n] = X[a,b,m,k] @ Y[b,n,k]", a=3, b=5, m=300, n=200, k=64)
    assert clusters_of(problem, (128, 64), (2, 1)) == 3 * 5 * 2 * 4
    unknown = problem_of(BATCHED, n=64, k=64)
    assert clusters_of(unknown, (128, 64), (1, 1)) == ASSUMED_OUTER * (ASSUMED // 128)


@pytest.mark.parametrize(
    ("source", "dims", "moved"),
    [
        (HEADS, {"b": 16, "h": 8, "r": 4096, "d": 1024}, 16 * 8 * 4096 + 8 * 1024 * 4096 + 2 * 16 * 8 * 1024),
        (ROWS, {"b": 4, "s": 100, "n": 256, "k": 512}, 4 * 100 * 512 + 256 * 512 + 2 * 4 * 100 * 256),  # W once
        (SUMS, {"b": 5, "m": 64, "n": 96, "k": 40}, 2 * (5 * 64 * 40 + 5 * 96 * 40 + 64 * 96)),
        ("Z[a,b,m,n] = X[b,m,a,k] @ Y[a,n,k]", {"a": 2, "b": 3, "m": 40, "n": 80, "k": 64},
         2 * (2 * 3 * 40 * 64 + 2 * 80 * 64 + 2 * 3 * 40 * 80)),
    ],
)  # fmt: skip
def test_bytes_follow_each_tensors_own_dimensions(source: str, dims: dict[str, int], moved: int) -> None:
    open_, known = problem_of(source), problem_of(source, **dims)
    flop = 2
    for size in dims.values():
        flop *= size
    for problem, sizes in ((known, None), (known, {}), (open_, dims)):
        load = Load.of(problem, sizes)
        assert (load.bytes, load.flop) == (moved, flop)
    assert Load.of(known.transposed()).bytes == moved


def test_a_launch_of_several_takes_as_long_as_a_dense_one_of_as_many_tiles() -> None:
    schedule = plain(tile=(128, 128, 128), promote=128)
    costs = FITTED["wgmma", "blocks"]
    dense = problem_of(DENSE, m=128, n=128 * 64, k=4096)
    batched = problem_of(GROUPS, g=64, m=128, n=128, k=4096)
    same = replace(Load.of(batched), bytes=Load.of(dense).bytes)  # 64 times A, where the dense one has one
    assert seconds(batched, schedule, same, costs) == pytest.approx(seconds(dense, schedule, Load.of(dense), costs))


def test_a_prediction_by_hand() -> None:
    problem = problem_of(HEADS, h=8, r=4096, d=1024)
    schedule = plain(tile=(64, 64, 128), promote=128, warpgroups=1, warps=(4, 1))
    sizes = {"b": 100, "h": 8, "r": 4096, "d": 1024}
    p = Prediction.of(problem, schedule, sizes)
    assert p.sizes == sizes
    assert (p.tiles, p.waves, p.busy) == (8 * 2 * 16, 2, 256 / 264)
    assert p.flop == 2 * 100 * 8 * 4096 * 1024
    x, y, z = 100 * 8 * 4096, 8 * 1024 * 4096, 2 * 100 * 8 * 1024
    assert p.bytes == x + y + z + 4 * (100 * 8 * 32 + 8 * 8 * 32)  # and the scales
    assert p.l2_bytes == 16 * x + 2 * y + z
    assert work(HEADS, "sm_90a", sizes)[1] == pytest.approx(p.bytes / 4.8e12)


def test_what_is_summed_over_lengthens_k() -> None:
    schedule = plain(tile=(64, 64, 64), split=2, warpgroups=1, warps=(4, 1))
    sizes = {"m": 64, "n": 64, "k": 100, "b": 6}
    many, one = problem_of(SUMS), problem_of(SUMS.replace("b,", ""), m=64, n=64, k=6 * 128)  # whole blocks of each k
    p, dense = Prediction.of(many, schedule, sizes), Prediction.of(one, schedule, {"m": 64, "n": 64, "k": 6 * 128})
    assert p.times["tensor issue"] == dense.times["tensor issue"]
    assert (p.sizes, p.tiles, p.flop) == (sizes, 2, 2 * 64 * 64 * 100 * 6)
    load, costs = Load.of(many, sizes), FITTED["wgmma", "whole"]
    same = replace(load, bytes=Load.of(one).bytes)
    assert seconds(many, schedule, same, costs) == pytest.approx(seconds(one, schedule, Load.of(one), costs))


def test_dealing_out_counts_all() -> None:
    schedule = plain(tile=(128, 128, 64))
    few, many, open_ = ({"g": g, "m": 128, "n": 128, "k": 64} for g in (8, 148 * 33 + 1, 0))
    assert choice(problem_of(BATCHED, "sm_100a", **few), schedule)[0] == "static"
    assert choice(problem_of(BATCHED, "sm_100a", **many), schedule)[0] == "dynamic"
    del open_["g"]
    assert choice(problem_of(BATCHED, "sm_100a", **open_), schedule) == (
        "static",
        "g not known: how many tiles there are shows at the launch",
    )


def test_more_tiles_than_a_grid_has() -> None:
    with pytest.raises(UnsupportedError, match=r"g = 2000000 by m = 1000000 by n = 1000000 are \d+ tiles") as caught:
        compiler.decide(BATCHED, "sm_90a", {"g": 2_000_000, "m": 1_000_000, "n": 1_000_000, "k": 64})
    assert caught.value.fix == "call the kernel for parts of g or m or n"


# ------------------------------------------------------------------------------------------------------------- tuning


def key(source: str, **dims: int) -> str:
    return compiler.program_key(source, "sm_90a", dims)


def test_a_key_has_them_with_their_sizes() -> None:
    scaled = "e4m3[m,o0,k]*f32/1x128@row . e4m3[o0,n,k]*f32/128x128@row: truncf"
    assert key(HEADS, h=8, d=1024, r=4096) == f"bf16[m,o0=8,n] = {scaled}"
    assert key(HEADS) == f"bf16[m,o0,n] = {scaled}"
    assert key("C[g,m,n] = A[g,m,k] @ B[g,n,k] + x[g,n]", g=3).startswith(
        "bf16[o0=3,m,n] = bf16[o0,m,k] . bf16[o0,n,k]; bf16[o0,n]: "
    )
    for at, text in (("n/4", "n/4"), ("n%4", "n%4"), ("g/2%4", "o0/2%4")):
        assert f"; bf16[{text}]: " in key(f"C[g,m,n] = A[g,m,k] @ B[g,n,k] + x[{at}]")
    assert key(SUMS, b=129) == "bf16[m,n] = bf16[s0=129,m,k] . bf16[s0,n,k]: truncf"
    both = "A[m,k] @ B[n,k] + {}D[m,r] @ E[n,r]"
    assert key(f"C[m,n] = {both.format('')}", r=16).endswith(
        "= bf16[m,k] . bf16[n,k] + bf16[m,s0=16] . bf16[n,s0]: truncf"
    )
    assert key(f"C[m,n] = {both.format('alpha * ')}", r=16).endswith(
        "= bf16[m,k] . bf16[n,k] + (bf16[m,s0=16] . bf16[n,s0]: mulf); f32: truncf"
    )
    assert key("C[m,n] = stochastic(A[m,k] @ B[n,k], s[0])").startswith("bf16[m,n] by chance = ")
    assert key("Y[i,j] = X[i,k] @ W[j,k]", i=8) == "bf16[m,n] = bf16[m,k] . bf16[n,k]: truncf"  # as it ever was


TILE = {"tile": "64x64x128", "cluster": "1x1", "stages": "3", "swap": "0", "split": "2"}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A tuning database alone, empty."""
    monkeypatch.setenv("SCALEC_TUNING", str(tmp_path / "tuning.json"))
    monkeypatch.setattr(database, "SHIPPED", tmp_path)
    return tmp_path / "tuning.json"


def taken(source: str, **dims: int) -> bool:
    fields = compiler.decide(source, "sm_90a", dims)[0].texts()
    return all(fields[name] == value for name, value in TILE.items())


def test_what_was_measured_is_taken_for_as_many(own) -> None:
    sizes = {"d": 512, "r": 1024}
    made = Entry("sm_90a", key(HEADS, h=8, **sizes), 512, 1024, Range(1, 64), {}, TILE)
    database.write(own, [made])
    assert taken(HEADS, b=16, h=8, **sizes)
    assert taken("Y[i,j,l]:bf16 = X[i,j,r]:e4m3@W[j,l,r]:e4m3 scale(1x128,128x128)", i=16, j=8, l=512, r=1024)
    assert not taken(HEADS, b=16, h=4, **sizes)
    assert not taken(HEADS, b=16, **sizes)  # h is not known
    assert not taken(DENSE, m=16, n=512, k=1024)
    database.write(own, [replace(made, program=key(HEADS, **sizes))])  # of no size: nobody writes such an entry
    assert not taken(HEADS, b=16, **sizes)


def test_a_dense_entry_is_not_taken(own) -> None:
    made = Entry("sm_90a", key(DENSE, n=512, k=1024), 512, 1024, Range(1, 64), {}, TILE)
    database.write(own, [made])
    assert taken(DENSE, m=16, n=512, k=1024)
    assert not taken(GROUPS, g=1, m=16, n=512, k=1024)


def test_the_tuner_asks_for_their_sizes(own) -> None:
    job = tuner.Job(HEADS, "sm_90a", {"d": 256, "r": 512}, Range(1, 8))
    with pytest.raises(ArgumentError, match="no size for h"):
        tuner.entries(job, [], {})
    assert tuner.entries(replace(job, dims={**job.dims, "h": 2}), [], {}) == []


def test_the_tuner_asks_for_sizes_of_what_tiles_run_along(own) -> None:
    job = tuner.Job(ROWS, "sm_90a", {"s": 128, "n": 256, "k": 512}, Range(1, 256))
    with pytest.raises(ArgumentError, match="tiles run along s = 128 where b = 1:8, and") as caught:
        tuner.entries(job, [], {})
    assert caught.value.fix == "--dim b=..., and --m with sizes of s; or an --m that begins further up"
    for dims, m in (({"s": 128}, Range(129, 256)), ({"b": 16}, Range(64, 128))):
        assert tuner.entries(replace(job, dims={**dims, "n": 256, "k": 512}, m=m), [], {}) == []


# ------------------------------------------------------------------------------------------------------ ranges, reasons


def test_a_range_of_one(monkeypatch) -> None:
    decide, asked = compiler.decide, []

    def counted(source: str, target: str, dims: Mapping[str, object], *more: object, **how: object) -> object:
        asked.append(dims["g"])
        return decide(source, target, dims, *more, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(compiler, "decide", counted)
    sizes = {"m": 16, "n": 1024, "k": 2048}
    found = rungs(GROUPS, "sm_90a", {**sizes, "g": Range(1, 100)}, tuned=False)
    assert len(asked) == len(parts(Range(1, 100), OUTER_TOPS))
    assert found[0].high < 8  # K is split in fewer parts with each more
    for part in found:
        assert decide(GROUPS, "sm_90a", {**sizes, "g": part}, tuned=False)[0] == chosen(GROUPS, g=part.high, **sizes)


def test_explained() -> None:
    reasons = explain(HEADS, "sm_90a", {"b": 64, "h": 8, "r": 4096, "d": 1024}, {"tile": "64x64x128"}).reasons
    assert "128 tiles, 16 for each h, in 1 wave keep 97% of 132 SMs busy" in reasons["tile"]
    assert reasons["order"].endswith("which stay in L2; all of one h before the next")


def test_their_sizes_are_assumed_aloud() -> None:
    told = explain(BATCHED, "sm_90a", {"n": 512, "k": 512}, {}, rows=[16])
    assert told.assumed == {"g": ASSUMED_OUTER}
    assert told.predictions[0].sizes == {"m": 16, "n": 512, "k": 512, "g": ASSUMED_OUTER}
