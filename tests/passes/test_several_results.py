"""Several results of one contraction: what is read of them, what a schedule of them needs, and what is refused."""

from __future__ import annotations

import re

import pytest

from scalec.compiler import compile_source, decide
from scalec.errors import ScheduleError, UnsupportedError
from scalec.frontend import build
from scalec.measured.key import describe, describe_kin
from scalec.model.predict import memory_bytes
from scalec.passes.base import programs
from scalec.passes.pipeline import find, run_pipeline
from scalec.passes.plan.registers import Registers
from scalec.passes.plan.shared_memory import SharedPlan
from scalec.passes.problem.read import read
from scalec.passes.problem.types import Problem
from scalec.targets import get_target

BODY = "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n] + x[n]; D[m,n]:mxfp8 = relu(T[m,n]) * x[n]; E[m,n]:f32 += T[m,n]"
TARGETS = ["sm_90a", "sm_100a", "sm_120a"]


MODULES: list[object] = []
"""What problems are of: their ops are gone with it."""


def problem(source: str, dims: dict[str, int] | None = None, target: str = "sm_90a") -> Problem:
    module = build(source, dims or {})
    MODULES[:] = [module]
    run_pipeline(module, get_target(target), passes=find(["infer-roles", "fuse-epilogue"]))
    return read(next(programs(module)), get_target(target))


def test_facts() -> None:
    p = problem(BODY)
    assert [(r.name, r.element.name, r.index, r.inout) for r in p.results] == [
        ("C", "bf16", 0, False),
        ("D", "e4m3", 1, False),
        ("E", "f32", 3, True),
    ]
    assert [(r.scale.name, r.scale.index) for r in p.results if r.scale] == [("D_scale", 2)]
    assert [[x.name for x in r.inputs] for r in p.results] == [["x"], ["x"], ["E"]]
    assert all(r.accumulators for r in p.results)
    assert p.names == "C and D and E"
    assert [one.result.name for one in p.each] == ["C", "D", "E"]
    turned = p.transposed()
    assert [r.dims for r in turned.results] == [("n", "m")] * 3
    assert [x.kind for x in turned.inputs] == ["row", "row", "both"]
    assert turned.transposed() == p


def test_one_result_is_a_problem_of_its_own() -> None:
    p = problem("C[m,n] = A[m,k] @ B[n,k]")
    assert p.each == (p,)


def test_whole_blocks_of_each_result() -> None:
    two = "T[m,n] = A[m,k] @ B[n,k]; C[m,n]:{} = T[m,n]; D[m,n]:{} = relu(T[m,n])"
    assert problem(two.format("e4m3 scale(1x24)", "mxfp8")).block_columns == 96
    assert problem(two.format("bf16", "nvfp4")).block_columns == 16


def test_bytes_of_all_results() -> None:
    """What two results read is read once; one that is added to is read and written."""
    sizes = {"m": 64, "n": 32, "k": 128}
    operands = 2 * (64 + 32) * 128 + 2 * 32  # bf16: A, B and x
    assert memory_bytes(problem(BODY), sizes) == operands + 64 * 32 * (2 + 1 + 4 * 2)


def test_described_for_the_tuner() -> None:
    p = problem("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n]; D[m,n]:mxfp8 = relu(T[m,n])")
    product, scaled = "bf16[m,k] . bf16[n,k]", "e4m3[m,n]*ue8m0/1x32@row"
    assert describe(p) == f"bf16[m,n] = {product}: truncf & {scaled} = {product}: maximumf"
    assert describe_kin(p) == ""


def test_a_copy_of_the_sums_and_room_for_each_result() -> None:
    dims = {"n": 256, "k": 256}
    two = "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n] + x[n]; D[m,n]:e4m3 = relu(T[m,n])"
    fields = " with tile=128x128x64, warpgroups=2, epilogue=bulk"
    p, schedule = problem(two, dims), decide(two + fields, "sm_90a", dims)[0]
    plan = SharedPlan.of(p, schedule)
    assert (plan["C"].bytes, plan["C2"].bytes) == (128 * 128 * 2, 128 * 128)
    assert (Registers.of(p, schedule).accumulators, Registers.of(p, schedule).partials) == (64, 64)
    assert Registers.of(p.each[0], schedule).partials == 0


@pytest.mark.parametrize("target", TARGETS)
def test_the_sums_are_computed_once(target: str) -> None:
    dims = {"n": 256, "k": 256}
    one, three = (
        compile_source(source, target=target, dims=dims, until="tile").texts["tile"]
        for source in ("C[m,n] = A[m,k] @ B[n,k] with tile=128x64x64", BODY + " with tile=128x64x64")
    )
    for op in ("tile.mma", "tile.multiply", "tile.mma_sums", "tile.copy ", "tile.steps"):
        assert one.count(f'"{op}"') == three.count(f'"{op}"'), op
    writes, copies, takes = (three.count(f'"tile.{op}"') for op in ("quantize", "copy_sums", "take"))
    assert "tile.copy_sums" not in one
    # out of tensor memory each result takes them by itself
    assert (copies, takes) == ((0, 3 * writes) if target == "sm_100a" else (2 * writes, 0))


def test_parts_of_all_results_are_as_wide() -> None:
    """Of sums out of tensor memory: one result reads at each element, so that alone it would take fewer columns."""
    three = "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T + R[m,n]; D[m,n]:nvfp4 = relu(T); E[m,n]:mxfp8 = T"
    made = compile_source(three, target="sm_100a", dims={"n": 7168, "k": 2048, "m": 4096}, until="tile").texts["tile"]
    assert made.count('"tile.store"') > 0
    assert len(set(re.findall(r"!tile.accumulator<array<i64: \d+, \d+>", made))) == 1


def test_two_warpgroups_where_one_has_no_registers_for_copies() -> None:
    source = "T[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128); C[m,n] = T + x[n]; D[m,n]:mxfp8 = relu(T)"
    tile = {"tile": "128x128x128"}
    assert decide(source, "sm_100a", {"n": 7168, "k": 2048}, tile)[0].warpgroups == 2
    assert decide("C[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128)", "sm_100a", {}, tile)[0].warpgroups == 1


REFUSED = {
    "quantised along both": (
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n]:mxfp8 = T[m,n]; D[n,m]:mxfp8 = relu(T[m,n])",
        "D[n, m] is contiguous along m, and is quantised, rounded by chance, transformed, or of less than a byte",
        "write D[m, n], and transpose it after the call",
    ),
    "quantised, contiguous along a batch": (
        "D[m,n,b]:mxfp8 = A[b,m,k] @ B[b,n,k]",
        "D[m, n, b] is contiguous along b, and is quantised, rounded by chance, transformed, or of less than a byte",
        "write D[m, b, n], and transpose it after the call",
    ),
    "one more index": (
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n]; D[b,m,n] = T[m,n] * x[b]",
        "C[m, n] and D[b, m, n] are results of one contraction, with different indices",
        "give D a program of its own",
    ),
    "not of the sums": (
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n]; D[m,n] = x[m,n]",
        "D is not computed from the contraction",
        "compute it outside the program",
    ),
    "contractions that share nothing": (
        "C[m,n] = A[m,k] @ B[n,k]; D[m,n] = F[m,k] @ E[n,k]",
        "the program's contractions multiply A and F, which are not one operand",
        "one program for each contraction",
    ),
    "contractions of other indices": (
        "C[m,n] = A[m,k] @ B[n,k]; D[m,j] = A[m,k] @ E[j,k]",
        "the program's contractions have results with different indices",
        "one program for each contraction",
    ),
    "added, of other indices": (
        "C[b,m,n] = A[b,m,k] @ B[b,n,k] + D[m,r] @ E[n,r]",
        "the program's contractions have results with different indices",
        "one program for each contraction",
    ),
    "added with a factor, of other indices": (
        "C[b,m,n] = alpha * (A[m,k] @ B[n,k]) + D[b,m,r] @ E[n,r]",
        "the program's contractions have results with different indices",
        "one program for each contraction",
    ),
    "of the sums and of an operand's": (
        "T[m,n] = A[m,k] @ B[n,k]; S[m] = sum[k](A[m,k]^2); C[m,n] = T / S",
        "a result is computed of the contraction and of a reduction beside it",
        "return both, and compute the rest in a program of its own",
    ),
    "quantised, of the sums and of an operand's": (
        "T[m,n] = A[m,k] @ B[n,k]; S[m] = sum[k](A[m,k]^2); C[m,n]:mxfp8 = T / sqrt(S + 1)",
        "a result is computed of the contraction and of a reduction beside it",
        "return both, and compute the rest in a program of its own",
    ),
    "contractions of other types": (
        "C[m,n] = A[m,k] @ B[n,k]; D[m,n] = A[m,k] @ E[n,k]:f16",
        "B and E are operands of contractions that meet, and differ in their element type",
        "store E as B is",
    ),
    "contractions of other layouts": (
        "C[m,n] = A[m,k] @ B[n,k]; D[m,n] = A[m,k] @ E[k,n]",
        "B and E are operands of contractions that meet, and differ in their indices",
        "store E as B is",
    ),
    "contractions of other scales": (
        "C[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128); D[m,n] = A[m,k] @ E[n,k] scale(1x128,64x128)",
        "B and E are operands of contractions that meet, and differ in their scales",
        "store E as B is",
    ),
    "contractions of which one has zero points": (
        "C[m,n] = A[m,k] @ (B[n,k]:u4 - 8); D[m,n] = A[m,k] @ E[n,k]:u4",
        "differ in their zero points",
        "write one program for each contraction",
    ),
    "contractions of which one has something computed": (
        "C[m,n] = A[m,k] @ relu(B[n,k]); D[m,n] = A[m,k] @ E[n,k]",
        "differ in their expressions",
        "write one program for each contraction",
    ),
    "contractions of something computed": (
        "C[m,n] = (2 * A[m,k]) @ B[n,k]; D[m,n] = (3 * A[m,k]) @ E[n,k]",
        "an expression of A is an operand of several contractions",
        "compute it of A before the call",
    ),
    "contractions with something computed": (
        "C[m,n] = A[m,k] @ relu(B[n,k]); D[m,n] = A[m,k] @ relu(E[n,k])",
        "B and E are computed, and are operands of contractions that meet",
        "compute them before the call",
    ),
    "contractions of other ranges": (
        "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; D[m,n] = A[m,k] @ E[g,n,k] for m in p[g]:p[g+1]",
        "different ranges",
        "say the same range",
    ),
    "a type of one": (
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n]; D[m,n]:i32 = T[m,n]",
        "D is i32",
        "convert it after the call",
    ),
    "blocks of one": (
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n]; D[m,n]:e4m3 scale(128x128) = T[m,n]",
        "D is quantised in blocks of 128x128",
        "give D f32, bf16 or f16",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    source, message, fix = REFUSED[case]
    with pytest.raises(UnsupportedError) as refusal:
        compile_source(source, target="sm_90a", until="tile")
    assert message in str(refusal.value)
    assert fix in refusal.value.fix
    assert refusal.value.place is not None


ADDED = "T[m,n] = A[m,k] @ B[n,k]; C[m,n]:f32 += T[m,n]; D[m,n] = relu(T[m,n])"
NARROW = "T[m,n] = A[m,k] @ B[n,k]; C[m,n]:e4m3 = T[m,n]; D[m,n]:e5m2 = relu(T[m,n])"
HIGH = "T[m,n] = A[m,k] @ B[n,k]; C[m,n]:mxfp8 = T[m,n]; D[m,n]:e5m2 scale(1x64) = relu(T[m,n])"
SCHEDULES = [
    (ADDED, "adds=loaded, epilogue=bulk", "one warp loads and stores the tiles of one", "adds=memory"),
    (NARROW, "permute_n=16, epilogue=bulk", "C and D are staged from the same sums", "permute_n=0"),
    (HIGH, "swap=1", "C_scale and D_scale have one scale for each 32 and 64 columns", "swap=0"),
    (NARROW, "epilogue=bulk, swap=1", "swap=1 computes C and D by columns", "epilogue="),
]


@pytest.mark.parametrize(("source", "fields", "message", "fix"), SCHEDULES)
def test_schedules_that_one_result_could_have(source: str, fields: str, message: str, fix: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        decide(f"{source} with {fields}", "sm_90a", {"n": 256, "k": 256})
    assert message in str(refusal.value)
    assert fix in refusal.value.fix


def test_rows_of_one_that_no_copy_stores() -> None:
    """Rows of e4m3 are no multiple of 16 bytes: both results leave from registers."""
    source, dims = "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n]; D[m,n]:e4m3 = T[m,n]", {"n": 8 * 33, "k": 256}
    assert decide(source, "sm_90a", dims)[0].epilogue == "direct"
    with pytest.raises(ScheduleError, match="a row of D is 264 bytes"):
        decide(f"{source} with epilogue=bulk", "sm_90a", dims)


def test_chosen() -> None:
    """Neither what is loaded nor permuted columns are chosen for several."""
    chosen = decide(ADDED, "sm_90a", {"m": 8192, "n": 4096, "k": 512})[0]
    assert chosen.adds == "memory"
    assert decide(NARROW, "sm_90a", {"m": 8192, "n": 4096, "k": 512})[0].permute_n == 0
    few = {"m": 4, "n": 4096, "k": 4096}
    assert decide(HIGH, "sm_90a", few)[0].swap == 0
    assert decide(HIGH.replace("1x64", "1x32"), "sm_90a", few)[0].swap == 1
