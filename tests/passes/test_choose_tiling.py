"""The cost model names the tile that was fastest on the GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalec import compiler
from scalec.errors import ScheduleError
from scalec.ir import context as contexts
from scalec.ir import schedule as schedules
from scalec.ir.schedule import Request, Schedule
from scalec.model.space import plans
from scalec.passes.choose.tiling import ChooseTiling
from scalec.passes.pipeline import find, run_pipeline
from scalec.passes.problem.types import Problem
from scalec.targets import Target
from tests.passes.scale_programs import text


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        # within 1 % of the fastest of some 23 schedules; H200, 2026-11-22
        ((4096, 7168, 2048), (128, 256, 128)),
        ((4096, 4096, 7168), (128, 256, 128)),
        ((4096, 24576, 1536), (192, 128, 128)),
        ((4096, 32768, 512), (128, 256, 128)),
        ((4096, 7168, 16384), (128, 256, 128)),
        ((8192, 8192, 8192), (192, 128, 128)),
        ((4096, 2112, 7168), (192, 128, 128)),
    ],
)
def test_measured_shapes(decide: Callable[..., Schedule], shape: tuple[int, int, int], tile: tuple[int, ...]) -> None:
    schedule = decide(text(*shape))
    assert schedule.tile == tile
    assert schedule.cluster == ((1, 2) if tile[0] == 192 else (2, 1))
    assert schedule.promote == 128
    assert schedule.warpgroups == (3 if tile[0] == 192 else 2)
    assert schedule.stages == (4 if tile[0] == 192 else 3)
    assert schedule.mma_n == (0 if tile[0] == 192 else 128)


@pytest.mark.parametrize(
    ("shape", "tile", "split", "cluster", "swap"),
    [
        # what the model takes is within 4 % of the fastest of some 24 schedules; H200, 2026-11-21 to 23
        ((32, 2112, 7168), (128, 16), 3, (1, 2), 1),
        ((16, 7168, 16384), (64, 16), 1, (4, 1), 1),
        ((128, 24576, 1536), (128, 192), 1, (1, 1), 0),
        ((1, 2112, 7168), (64, 8), 3, (1, 1), 1),
        ((24, 7168, 2048), (64, 24), 1, (4, 1), 1),
        ((40, 4096, 12288), (64, 40), 2, (1, 1), 1),
        ((256, 4096, 14336), (128, 128), 2, (1, 1), 0),
        ((1024, 1536, 7168), (128, 96), 1, (1, 2), 0),
    ],
)
def test_tiles_that_straddle_blocks_parts_and_clusters(
    decide: Callable[..., Schedule], shape: tuple[int, int, int], tile: tuple[int, int], split: int, cluster, swap
) -> None:
    schedule = decide(text(*shape))
    assert (schedule.tile[:2], schedule.split, schedule.cluster, schedule.swap) == (tile, split, cluster, swap)


@pytest.mark.once("program", "m")
@pytest.mark.parametrize("m", [1, 5, 8, 9, 16])
@pytest.mark.parametrize("program", [
    {}, {"a_block": "1, -1", "b_block": "1, -1"}, {"a_block": None, "b_block": None, "element": "bf16"},
    {"b_block": "1, 128", "result": "f32"},
])  # fmt: skip
def test_eight_columns_where_they_cover_all_rows(decide: Callable[..., Schedule], program, m: int) -> None:
    for n, k in ((7168, 2048), (2112, 7168), (7168, 16384), (4096, 4096), (24576, 1536), (512, 7168)):
        schedule = decide(text(m, n, k, **program))
        assert ((schedule.swap, schedule.tile[1]) == (1, 8)) == (m <= 8), (n, k)


def test_eight_columns_are_looked_at_nowhere_else(problem_in: Callable[..., Problem]) -> None:
    """Nor are there more plans, where they are."""

    def columns(m: int, n: int, **given: int) -> list[int]:
        problem = problem_in("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", "sm_90a", m=m, n=n, k=2048)
        return [plan.tile[1] for _, plan in plans(problem, Request(**given), 128, 128)]  # type: ignore[arg-type]

    few, more = columns(8, 7168, swap=1), columns(9, 7168, swap=1)
    assert (set(few), set(more)) == ({8}, {16})
    assert len(few) == len(more)
    assert min(columns(7168, 8)) == 16  # those of the program itself


@pytest.mark.thorough
def test_every_shape_gets_a_schedule_that_holds(decide: Callable[..., Schedule]) -> None:
    """Whatever is left to the compiler passes its own checks, for any size and granularity that is supported."""
    for m in ("?", 1, 64, 65, 300, 5000):
        for n in ("?", 8, 40, 2112, 7176):
            for program in (
                text(m, n, 7168),
                text(m, n, 7168, b_block="1, 128", layout="col"),
                text(m, n, 7168, a_block=None, b_block=None, element="bf16"),
                text(m, n, 7168, result="f32", a_block="1, -1", b_block="64, 256"),
            ):
                decide(program)


def test_few_rows_take_one_warpgroup(decide: Callable[..., Schedule]) -> None:
    schedule = decide(text(m=48))
    assert schedule.tile[0] == 64
    assert schedule.warpgroups == 1


@pytest.mark.parametrize(
    ("scales", "n", "swap"),
    [
        ("128x128, 1x128", 4096, 1),
        ("128x128, 1x128", 16, 0),  # few columns are no rows of a tile
        ("1x128, 128x128", 4096, 0),
        ("1x128, 1x128", 4096, 0),
    ],
)
def test_factors_of_columns_alone_become_those_of_rows(scales: str, n: int, swap: int) -> None:
    source = f"C[m,n]:f32 = A[m,k] @ B[n,k] scale({scales})"
    made = compiler.compile_source(source, "sm_90a", {"m": 8192, "n": n, "k": 1024}, until="tile", tuned=False)
    assert made.schedule is not None
    assert made.schedule.swap == swap


def test_a_decided_number_of_warpgroups_limits_the_tiles(decide: Callable[..., Schedule]) -> None:
    assert decide(text(), warpgroups=3).tile == (192, 128, 128)


@pytest.mark.parametrize(("shape", "fields"), [
    ((100, 8, 640), {"warpgroups": 3, "swap": 0}),
    ((8, 40, 640), {"warpgroups": 2, "swap": 0}),
    ((8, 8, 640), {"swizzle_c": 64}),
])  # fmt: skip
def test_what_is_decided_may_need_a_tile_that_the_shape_does_not(
    decide: Callable[..., Schedule], shape: tuple[int, int, int], fields: dict[str, int]
) -> None:
    schedule = decide(text(*shape), **fields)
    assert {name: getattr(schedule, name) for name in fields} == fields


def test_decided_registers_limit_the_tiles(decide: Callable[..., Schedule]) -> None:
    """40 and 232 registers a thread are those of two warpgroups: three do not enter with as many."""
    shape = (4096, 24576, 1536)
    assert decide(text(*shape)).warpgroups == 3
    held = decide(text(*shape), registers=(40, 232))
    assert (held.registers, (held.warpgroups or 3) < 3) == ((40, 232), True)


@pytest.mark.parametrize(("target", "warps", "warpgroups"), [
    ("sm_120a", "1x4", 1), ("sm_120a", "2x2", 1), ("sm_120a", "2x4", 2), ("sm_90a", "4x1", 1), ("sm_90a", "12x1", 3),
])  # fmt: skip
def test_decided_warps_say_how_many_warpgroups_there_are(target: str, warps: str, warpgroups: int) -> None:
    source = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
    chosen, _ = compiler.decide(source, target, {"m": 4096, "n": 512, "k": 512}, {"warps": warps})
    assert (chosen.texts()["warps"], chosen.warpgroups) == (warps, warpgroups)


def test_nothing_fits(decide: Callable[..., Schedule]) -> None:
    with pytest.raises(ScheduleError) as refusal:
        decide(text(m=4096), stages=32, warpgroups=3)
    message = str(refusal.value)
    assert message.startswith("no tile fits sm_90a with stages=32, warpgroups=3\n  got: ")
    for reason in (
        "rows that 3 warpgroups cannot share in waves of 64",
        ": more than the 160 registers of a consumer thread",
        "32 stages do not fit into 232448 bytes of shared memory",
    ):
        assert reason in message
    assert message.endswith("\n  expected: a tile for which none of these holds\n  fix: leave stages out")


@pytest.mark.parametrize(
    ("schedule", "fix"),
    [
        ({"convert": "registers"}, "leave convert out"),
        ({"stationary": "1", "run": "2"}, "leave stationary out"),
        ({"stages": "32", "stationary": "1"}, "decide tile too, or leave more to the compiler"),
    ],
)
def test_what_no_tile_has_is_left_out(schedule: dict[str, str], fix: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        compiler.decide("C[m,n] = A[m,k] @ B[n,k]", "sm_90a", {"n": 4096, "k": 4096}, schedule)
    assert refusal.value.fix == fix


def test_fine_column_blocks_take_registers(decide: Callable[..., Schedule]) -> None:
    """Which of these ptxas spills: tests/lowering/test_fallback.py."""
    found = {rows: decide(text(b_block=f"{rows}, 128")) for rows in (8, 16, 32)}
    assert {rows: (s.tile, s.unroll) for rows, s in found.items()} == {
        8: ((192, 96, 128), 1),
        16: ((256, 128, 128), 1),
        32: ((128, 256, 128), 2),
    }


def test_more_registers_to_spare_take_a_smaller_tile(target: Target) -> None:
    tiles = {}
    for spare in (0, 72, 136):
        module = contexts.parse(text())
        run_pipeline(module, target, passes=[*find(["infer-roles", "fuse-epilogue"]), ChooseTiling(spare)])
        tiles[spare] = schedules.read(module.body.operations[0]).tile
    assert tiles == {0: (128, 256, 128), 72: (128, 128, 128), 136: (128, 64, 128)}


def test_a_decided_swizzle_of_the_result_limits_the_tiles(decide: Callable[..., Schedule]) -> None:
    free = decide(text(1000, 336, 640))
    assert free.tile[1] % 32  # rows of results that 64 bytes do not divide
    held = decide(text(1000, 336, 640), swizzle_c=64)
    assert held.tile[1] % 32 == 0


def test_a_decided_swizzle_divides_what_a_warp_stages() -> None:
    """Of 64 columns for four warps each would stage rows of 32 bytes."""
    program, sizes = "C[m,n] = A[m,k]:bf16 @ B[n,k]:bf16", {"m": 200, "n": 1536, "k": 1536}
    chosen, _ = compiler.decide(program, "sm_120a", sizes, {"swizzle_c": "64", "swap": "0"})
    assert (chosen.epilogue, chosen.swizzle_c) == ("bulk", 64)
    assert chosen.tile[1] // chosen.warps[1] % 32 == 0


def test_sums_of_an_instruction_have_registers_at_entry(decide: Callable[..., Schedule]) -> None:
    """ptxas refuses 256 columns of three warpgroups (C7602): at entry their threads have 128 registers each."""
    schedule = decide(text(4096, 24576, 1536, a_block=None, b_block=None, element="bf16", result="f32"), warpgroups=3)
    assert schedule.tile[1] <= 192
