"""Reductions of a product: what is read of them, what their workspace has, and what is refused."""

from __future__ import annotations

import re

import pytest

from scalec.compiler import compile_source, decide, program_key
from scalec.errors import ScheduleError, UnsupportedError
from scalec.frontend import build
from scalec.ir.context import context
from scalec.passes.base import programs
from scalec.passes.pipeline import find, run_pipeline
from scalec.passes.problem.read import read
from scalec.targets import get_target

BOTH = "T[b,m,n] = A[b,m,k] @ B[b,n,k]; C[b,m,n] = T; R[m,b]:f32 = max[n](abs(T)); Z[b,n] = sqrt(sum[m](T))"


def test_what_is_read() -> None:
    with context():
        module = build(BOTH, {"n": 512, "k": 512})
        run_pipeline(module, get_target("sm_90a"), passes=find(["infer-roles", "fuse-epilogue"]))
        problem = read(next(programs(module)), get_target("sm_90a"))
    largest, roots = problem.reductions
    assert [x.name for x in problem.results] == ["C"]
    assert [(x.reduced.kind, x.reduced.over) for x in (largest, roots) if x.reduced] == [("max", "n"), ("sum", "m")]
    assert [[at.dim for at in x.coords] for x in (largest, roots)] == [["m", "b"], ["b", "n"]]
    assert largest.body == ("math.absf", "scale.yield")
    assert roots.reduced is not None
    assert roots.reduced.final == ("math.sqrt", "arith.truncf", "scale.yield")
    turned = problem.transposed()
    assert turned.reductions[0].dims == problem.reductions[0].dims[::-1]
    assert [x.name for x in turned.bodies] == ["R", "Z", "C"]


def test_a_workspace_has_a_number_for_each_row_and_column_of_a_tile() -> None:
    schedule = {"tile": "128x64x64", "swap": "0", "cluster": "1x2", "split": "2", "parts": "memory"}
    made = compile_source(BOTH, target="sm_90a", dims={"k": 512}, schedule=schedule, until="ptx")
    assert made.spec is not None
    launch = made.spec.launch
    assert launch.partial_bytes == 4 * (128 + 8 * 64)  # of eight warps each has rows of its own
    assert launch.arrivals == 4  # for rows and for columns: of a section of tiles, and of all sections
    tiles = 3 * 2 * 4  # batches, by rows, by columns: three, and one beyond them in a cluster of two
    sums = 2 * 4 * 128 * 64
    assert launch.workspace({"b": 3, "m": 130, "n": 190, "k": 512}) == (tiles * (sums + 2560), tiles * 4 * 5)


def test_a_warp_that_counts_adds_a_tile_up_first() -> None:
    """So the workspace has one number a row and column; where consumers count, one of each warp's."""
    schedule = {"tile": "128x64x64", "swap": "0", "cluster": "1x2"}
    made = compile_source(BOTH, target="sm_90a", dims={"k": 512}, schedule=schedule, until="ptx")
    assert made.spec is not None
    assert made.spec.launch.partial_bytes == 4 * (128 + 64)
    assert made.spec.launch.arrivals == 4
    others = {**schedule, "consumers": "pingpong", "warpgroups": "2", "tile": "64x64x64"}
    made = compile_source(BOTH, target="sm_90a", dims={"k": 512}, schedule=others, until="ptx")
    assert made.spec is not None
    assert (made.spec.launch.partial_bytes, made.spec.launch.arrivals) == (4 * (64 + 4 * 64), 4)


@pytest.mark.parametrize(("m", "n", "counters"), [(128 * 16, 64 * 16, 2), (128 * 16 + 1, 64 * 16, 3), (256, 1025, 3)])
def test_more_tiles_than_a_section_have_counters_of_sections(m: int, n: int, counters: int) -> None:
    schedule, dims = {"tile": "128x64x64", "swap": "0", "cluster": "1x1"}, {"b": 1, "m": m, "n": n, "k": 64}
    made = compile_source(BOTH, target="sm_90a", dims=dims, schedule=schedule, until="ptx")
    assert made.spec is not None
    assert made.spec.launch.arrivals == counters


STATISTICS = "T[m,n] = A[m,k] @ B[n,k]; M[m] = max[n](T*T); R[m]:f32 = M; S[m]:f32 = sum[n](exp(T*T - M))"


def test_the_largest_is_written_with_the_sum_of_exponentials() -> None:
    """One body, of which a tile has two numbers a row; not where the two are computed to other bits."""
    target = get_target("sm_90a")
    passes = ["infer-roles", "fuse-epilogue", "join-products", "cse", "sum-exponentials"]
    for element, names in (("f32", [["R"]]), ("bf16", [[], []])):
        with context():
            module = build(STATISTICS.replace("R[m]:f32", f"R[m]:{element}"))
            run_pipeline(module, target, passes=find(passes))
            problem = read(next(programs(module)), target)
        kinds = [r.reduced for r in problem.reductions if r.reduced is not None]
        assert [[x.name for x in r.beside] for r in kinds] == names
        assert kinds[-1].kind == "sum_exp"
    schedule = {"tile": "128x64x64", "swap": "0", "cluster": "1x1"}
    made = compile_source(STATISTICS, target="sm_90a", dims={"k": 512}, schedule=schedule, until="ptx")
    assert made.spec is not None
    assert made.spec.launch.partial_bytes == 4 * 2 * 128


def test_programs_with_other_reductions_are_others() -> None:
    programs = [f"T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; R[m]:f32 = {x}" for x in (
        "max[n](T)", "min[n](T)", "sum[n](T)", "sum[n](T*T)", "sqrt(sum[n](T*T))",
    )]  # fmt: skip
    keys = {
        program_key(x, "sm_90a")
        for x in (
            *programs,
            STATISTICS,
            STATISTICS.replace("R[m]:f32 = M; ", ""),
            "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T",
        )
    }
    assert len(keys) == len(programs) + 3


REFUSED = {
    "over a batch": (
        "T[b,m,n] = A[b,m,k] @ B[b,n,k]; R[m,n]:f32 = sum[b](T)",
        "R is a sum over b, and a tile of the product runs along m and n",
    ),
    "over everything": ("R[b]:f32 = max[m,n](A[b,m,k] @ B[b,n,k])", "R is a max over m, n, and a tile of the product"),
    "a tensor behind it": (
        "R[m]:f32 = sum[n](A[m,k] @ B[n,k]) * w[m]",
        "R is a sum over n, and reads w behind it",
    ),
    "a scalar behind it": (
        "R[m]:f32 = sum[n](A[m,k] @ B[n,k]) * alpha",
        "R is a sum over n, and reads alpha behind it",
    ),
    "added to": ("R[m]:f32 += sum[n](A[m,k] @ B[n,k])", "R is a sum over n, and is added to what R holds"),
    "of 8 bits": ("R[m]:e4m3 = sum[n](A[m,k] @ B[n,k])", "R is a sum of e4m3"),
    "read at each point": (
        "T[m,n] = A[m,k] @ B[n,k]; R[m] = max[n](T); C[m,n] = T / R[m]",
        "C is computed of a max over n for each n",
    ),
    "over blocks": (
        "T[m,n] = A[m,k] @ B[e[m/128],n,k]; C[m,n] = T; R[n]:f32 = min[m](T)",
        "R is a min over m, and the product has e[m/128]",
    ),
    "of what an input alone leaves out": (
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T + x[e[m/128],n]; R[m]:f32 = max[n](T)",
        "R is a max over n, and the product has e[m/128]",
    ),
    "of a range of its own": (
        "T[b,m,n] = A[b,m,k] @ B[b,n,k]; C[b,m,n] = T; R[b,m]:f32 = max[n](T) for b < rows[m]",
        "R is a max over n with a range of its own, or else",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    source, message = REFUSED[case]
    dims = {"read at each point": {"n": 128}}.get(case, {})
    with pytest.raises(UnsupportedError, match=re.escape(message)) as caught:
        compile_source(source, target="sm_90a", dims=dims, until="tile")
    assert caught.value.place is not None
    assert caught.value.fix


def test_the_workspace_of_ranges_has_a_cluster_more_for_each_group() -> None:
    """And not all tiles of a dense product for each of them."""
    source = "T[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; C[m,n] = T; R[m]:f32 = max[n](T)"
    schedule = {"tile": "64x64x64", "swap": "0", "cluster": "2x1"}
    made = compile_source(source, target="sm_90a", dims={"k": 512}, schedule=schedule, until="ptx")
    assert made.spec is not None
    launch = made.spec.launch
    tiles = (2 * 2 + 2 * 5) * 4  # rows in clusters of two tiles, and one for each of five groups; columns
    assert launch.workspace({"g": 5, "m": 140, "n": 250, "k": 512}) == (tiles * launch.partial_bytes, tiles * 4 * 2)


SCHEDULES = {
    "invariant": ("sum[n](T)", "invariant", "R is a sum over tiles, whose columns and rows are chosen by M"),
    "parts=cluster": ("max[n](T)", "split=2, parts=cluster, tile=64x64x64", "each is finished by one CTA"),
    "epilogue=bulk": ("max[n](T)", "epilogue=bulk, swap=0", "no result of each point"),
    "adds=loaded": ("max[n](T)", "adds=loaded", "no result of each point"),
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_schedules_that_cannot_be(case: str) -> None:
    reduction, fields, message = SCHEDULES[case]
    with pytest.raises(ScheduleError) as caught:
        compile_source(
            f"T[m,n] = A[m,k] @ B[n,k]; R[m]:f32 = {reduction} with {fields}",
            target="sm_90a",
            dims={"n": 512, "k": 512},
            until="tile",
        )
    assert message in str(caught.value)


def test_a_max_is_invariant() -> None:
    source = "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; R[m]:f32 = max[n](T) with invariant"
    assert decide(source, "sm_90a", {})[0].invariant


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("epilogue", ["bulk", "turned"])
@pytest.mark.parametrize("dims", [{}, {"k": 192, "n": 2}])
def test_reductions_alone_have_no_epilogue_but_direct(target: str, epilogue: str, dims: dict[str, int]) -> None:
    source = f"R[m,b] = max[n](A[b,m,k]:e4m3 @ B[b,n,k]:e4m3) with epilogue={epilogue}"
    with pytest.raises(ScheduleError, match="the program has reductions alone"):
        compile_source(source, target=target, dims=dims, until="tile")
