"""Where ptxas spills, another schedule is shipped: every stage is then that schedule's, and the change is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from scalec import api, compiler
from scalec.abi import Dropped, KernelSpec
from scalec.commands import compile as command
from scalec.compiler import STAGES, Compilation, compile_source
from scalec.errors import SlowKernelError
from scalec.launches import launches
from scalec.lowering import ptxas
from tests.early import without_what_follows

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
DIMS = {"n": 7168, "k": 2048}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """Makes ptxas's kernels of schedules with one of these texts slow; gives the schedules it was asked for.

    Its own word on them is not asked for, and LLVM's text for it is made where `stages` has one of it.
    """
    with ExitStack() as ends:
        yield _slow(monkeypatch, ends)


def _slow(monkeypatch: pytest.MonkeyPatch, ends: ExitStack) -> Callable[..., list[str]]:

    def use(*texts: str, spilled: int = 20, stages: tuple[str, ...] = ("tile",)) -> list[str]:
        asked: list[str] = []
        ends.enter_context(without_what_follows(stages))

        def judge(log: str, what: str) -> None:
            asked.append(what)
            if any(text in what for text in texts):
                got = f"{4 * spilled} bytes spill stores"
                raise SlowKernelError(f"slow: {what}", got=got, fix="a smaller tile", spilled=spilled)

        monkeypatch.setattr(ptxas, "judge", judge)
        return asked

    return use


@cache
def without_the_widest() -> Compilation:
    """All stages; for tests where the widest tile is slow."""
    return compile_source(FP8, dims=DIMS, until="nvvm")


@pytest.mark.parametrize("stage", STAGES[1:-1])
def test_every_stage_is_that_of_the_kernel_that_is_shipped(slow: Callable[..., list[str]], stage: str) -> None:
    slow("tile=128x256", stages=STAGES[:-1])
    shipped = without_the_widest()
    assert shipped.schedule is not None
    assert shipped.schedule.tile == (256, 64, 128)
    made = compile_source(FP8, dims=DIMS, until=stage)
    assert made.schedule == shipped.schedule
    assert made.texts[stage] == shipped.texts[stage]


def test_scale_is_as_the_front_end_built_it(slow: Callable[..., list[str]]) -> None:
    asked = slow()
    text = compile_source(FP8, dims=DIMS, until="scale").texts["scale"]
    assert asked == []
    slow("unroll=2")
    assert compile_source(FP8, dims=DIMS, schedule={"tile": "256x128x128"}).texts["scale"] != text  # what is decided
    slow("tile=128x256")
    assert compile_source(FP8, dims=DIMS).texts["scale"] == text


def test_the_change_is_told(slow: Callable[..., list[str]]) -> None:
    asked, told = slow("tile=128x256"), []
    made = compile_source(FP8, dims=DIMS, on_drop=told.append)
    assert made.spec is not None
    assert told == made.dropped == list(made.spec.dropped) == [Dropped(asked[0], "ptxas: 80 bytes spill stores")]
    assert made.spec.schedule == asked[1] == str(made.schedule)
    assert KernelSpec.from_json(made.spec.to_json()).dropped == made.spec.dropped
    assert compile_source(FP8, dims={"n": 64, "k": 64}).dropped == []


def test_two_k_blocks_an_iteration_cost_one_warpgroup_no_tile(
    slow: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALEC_TUNING", "off")
    asked = slow("unroll=2")
    made = compile_source(FP8, dims={"m": 32, "n": 4096, "k": 4096})
    assert "warpgroups=1" in asked[0]
    assert asked == [asked[0], asked[0].replace("unroll=2", "unroll=1")]
    assert str(made.schedule) == asked[1]


def test_a_turned_epilogue_costs_no_tile_and_another_tile_has_it_again(
    slow: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALEC_TUNING", "off")
    dims = {"m": 32, "n": 4096, "k": 4096}
    asked = slow("epilogue=turned")
    made = compile_source(FP8, dims=dims)
    once = asked[0].replace("unroll=2", "unroll=1")
    assert asked == [asked[0], once, once.replace("epilogue=turned", "epilogue=direct")]
    assert str(made.schedule) == asked[2]
    asked = slow("tile=64x32")
    made = compile_source(FP8, dims=dims)
    assert [fields.split(", ")[1] for fields in asked[:3]] == ["tile=64x32x128"] * 3
    assert "epilogue=direct" in asked[2]
    assert "swap=1" in str(made.schedule)
    assert "epilogue=turned" in str(made.schedule)


def test_a_guess_of_the_scheduler_costs_no_tile(slow: Callable[..., list[str]]) -> None:
    asked = slow("scheduler=dynamic")
    dims = {"m": 16384, "n": 16384, "k": 2048}
    made = compile_source("C[m,n] = A[m,k] @ B[n,k]", "sm_100a", dims)
    assert asked == [asked[0], asked[0].replace("scheduler=dynamic", "scheduler=static")]
    assert str(made.schedule) == asked[1]
    with pytest.raises(SlowKernelError):  # what the user decided stays, with any tile
        compile_source("C[m,n] = A[m,k] @ B[n,k]", "sm_100a", dims, {"scheduler": "dynamic", "tile": "128x256x64"})


GATED = "G[m,n] = X[m,k] @ V[n,k]{0}; U[m,n] = X[m,k] @ W[n,k]{0}; H[m,n]:e4m3 scale({1}) = silu(G) * U"
SCALES = " scale(1x128,128x128)"


@pytest.mark.parametrize(("block", "n"), [("1x128", 2048), ("1xn", 1024)])
def test_consumers_have_all_registers_where_no_other_tile_is_left(
    slow: Callable[..., list[str]], block: str, n: int
) -> None:
    """Also where CTAs share blocks, whose refusal is another error: all other tiles are looked at as well."""
    asked = slow("registers=40x232")
    made = compile_source(GATED.format(SCALES, block), "sm_100a", {"n": n, "k": 7168})
    assert "registers=24x240" in asked[-1]
    assert str(made.schedule) == asked[-1]


@pytest.mark.thorough
def test_ptxas_leaves_a_tile_to_blocks_of_a_gated_layer() -> None:
    assert compile_source(GATED.format(SCALES, "1x128"), "sm_100a", {"n": 2048, "k": 7168}).cubin


def test_results_are_quantised_by_another_launch_where_ptxas_leaves_no_tile(slow: Callable[..., list[str]]) -> None:
    program, sizes = f"D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]{SCALES}", {"n": 2048, "k": 7168}
    assert len(launches(program, "sm_100a", sizes).texts) == 1
    asked = slow("cluster=1x8")
    assert len(api.launches(program, "sm_100a", sizes, {}, cache=False, made={}).texts) == 2
    assert len(api.launches(program, "sm_100a", sizes, {}, cache=False, made={}, doubtful=True).texts) == 2
    del asked[:]
    sure = "D[m,n]:e4m3 scale(1x256) = A[m,k] @ B[n,k]"  # which leaves a thread more registers
    assert len(api.launches(sure, "sm_100a", sizes, {}, cache=False, made={}, doubtful=True).texts) == 1
    assert not asked


def test_the_command_line_tells_it(
    slow: Callable[..., list[str]], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow("tile=128x256")
    command.compile_program(command.Request(FP8, "sm_90a", DIMS), ["tile"], None)
    out, err = capfd.readouterr()
    assert "note: schedule swap=0, tile=128x256x128," in err
    assert "is dropped: ptxas: 80 bytes spill stores" in err
    assert "note: the kernel has schedule swap=0, tile=256x64x128," in err
    assert "tile.kernel" in out
    assert "note:" not in out


def test_fewer_blocks_in_an_iteration_where_few_registers_lack(slow: Callable[..., list[str]]) -> None:
    slow("unroll=2", spilled=6)
    made = compile_source(FP8, dims=DIMS)
    assert made.schedule is not None
    assert (made.schedule.tile, made.schedule.unroll) == ((128, 256, 128), 1)
    slow("unroll=2", spilled=7)
    made = compile_source(FP8, dims=DIMS, schedule={"tile": "256x128x128"})  # nothing else is left to choose
    assert made.schedule is not None
    assert made.schedule.unroll == 1


def test_results_are_added_in_memory_where_loading_them_spills(slow: Callable[..., list[str]]) -> None:
    source, dims = "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,128x128)", {"n": 4096, "k": 1024}
    asked = slow("adds=loaded")
    made = compile_source(source, dims=dims, schedule={"tile": "256x96x128"})
    assert made.schedule is not None
    assert (made.schedule.adds, made.schedule.unroll) == ("memory", 2)
    assert [("unroll=2" in a, "adds=loaded" in a) for a in asked] == [(True, True), (False, True), (True, False)]
    with pytest.raises(SlowKernelError):  # what the user decided stays
        compile_source(source, dims=dims, schedule={"tile": "256x96x128", "adds": "loaded"})


def test_columns_of_a_decided_tile_stay_in_order_where_permuted_ones_spill(slow: Callable[..., list[str]]) -> None:
    source, dims, tile = "C[m,n]:nvfp4 = A[m,k] @ B[n,k]", {"n": 4096, "k": 1024}, {"tile": "128x128x64"}
    asked = slow("permute_n=32")
    made = compile_source(source, dims=dims, schedule=tile)
    assert made.schedule is not None
    assert (made.schedule.permute_n, made.schedule.unroll) == (0, 2)
    assert [("permute_n=32" in a, "unroll=2" in a) for a in asked] == [(True, True), (True, False), (False, True)]
    with pytest.raises(SlowKernelError, match="permute_n=0"):  # what the user decided stays
        compile_source(source, dims=dims, schedule={**tile, "permute_n": "32"})


def test_a_loop_where_all_k_blocks_in_a_row_spill(slow: Callable[..., list[str]]) -> None:
    dims = {"n": 7168, "k": 512}
    asked = slow("unroll=4")
    made = compile_source(FP8, dims=dims, schedule={"tile": "128x256x128"})
    assert made.schedule is not None
    assert (made.schedule.unroll, len(asked)) == (2, 2)
    with pytest.raises(SlowKernelError):  # what the user decided stays
        compile_source(FP8, dims=dims, schedule={"tile": "128x256x128", "unroll": "4"})


@pytest.mark.parametrize("m", [None, 4096])
def test_two_factors_keep_a_loop(m: int | None) -> None:
    """Nothing is gained without one (WHOLE in scalec.passes.plan.loop)."""
    dims = {"n": 32768, "k": 512, **({"m": m} if m else {})}
    made = compile_source("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128)", dims=dims)
    assert made.schedule is not None
    assert (made.schedule.tile, made.schedule.unroll, made.dropped) == ((192, 128, 128), 4, [])


@pytest.mark.parametrize("sign", ["=", "+="])
def test_f32_results_by_panels_need_no_loop(sign: str) -> None:
    """The sums of a later panel were computed behind the loop's products, which ptxas serialised (ptxas 13.0)."""
    source, schedule = f"C[m,n]:f32 {sign} A[m,k]@B[n,k] scale(1x128,128x128)", {"adds": "memory"}
    for given in (schedule, {**schedule, "tile": "128x128x128", "unroll": "4"}):
        made = compile_source(source, dims={"n": 7168, "k": 512}, schedule=given)
        assert made.schedule is not None
        assert (made.schedule.panels, made.schedule.unroll, made.dropped) == (1, 4, [])
        assert "once" in made.texts["tile"]


def test_a_loop_where_the_factors_of_all_k_blocks_have_no_registers() -> None:
    """They have those of two K blocks, which is no reason for one."""
    source = "C[m,n] = A[m,k]@B[n,k] scale(1x128,32x128)"
    schedules = [compiler.decide(source, "sm_90a", {"m": 8192, "n": 4096, "k": k})[0] for k in (512, 640)]
    assert [(s.tile, s.unroll) for s in schedules] == [((128, 256, 128), 2)] * 2


def test_fewer_blocks_in_an_iteration_where_ptxas_serialises(slow: Callable[..., list[str]]) -> None:
    asked = slow("unroll=2", spilled=0)
    made = compile_source("C[m,n] = A[m,k]@B[n,k]", dims=DIMS)
    assert made.schedule is not None
    assert (made.schedule.tile, made.schedule.unroll, len(asked)) == ((128, 256, 64), 1, 2)


def test_what_the_user_decided_is_not_chosen_again(slow: Callable[..., list[str]]) -> None:
    asked = slow("tile")
    decided = {"tile": "256x128x128", "unroll": "2", "mma_n": "0"}
    with pytest.raises(SlowKernelError, match=r"tile=256x128x128.*mma_n=0.*unroll=2") as refusal:
        compile_source(FP8, dims=DIMS, schedule=decided)
    assert len(asked) == 1
    assert refusal.value.fix.startswith("mma_n=64, unroll=1, a smaller tile")


def test_a_decided_tile_has_narrower_instructions_where_it_spills(slow: Callable[..., list[str]]) -> None:
    asked = slow("mma_n=0", "mma_n=96")
    made = compile_source(FP8, dims=DIMS, schedule={"tile": "128x192x128"})
    assert made.schedule is not None
    assert (made.schedule.tile, made.schedule.mma_n, made.schedule.unroll) == ((128, 192, 128), 64, 2)
    tried = [("mma_n=0", 2), ("mma_n=0", 1), ("mma_n=96", 2), ("mma_n=96", 1), ("mma_n=64", 2)]
    assert [(n in a, f"unroll={u}" in a) for a, (n, u) in zip(asked, tried, strict=True)] == [(True, True)] * 5
    asked = slow("tile")
    with pytest.raises(SlowKernelError, match=r"mma_n=64.*unroll=1") as refusal:  # no narrower one is chosen
        compile_source(FP8, dims=DIMS, schedule={"tile": "128x192x128"})
    assert len(asked) == 6
    assert refusal.value.fix.startswith("mma_n=48, a smaller tile")
    asked = slow("tile")
    with pytest.raises(SlowKernelError) as refusal:  # without promotion no partial sums are held
        compile_source("C[m,n] = A[m,k]@B[n,k]", dims=DIMS, schedule={"tile": "128x192x64", "unroll": "1"})
    assert (len(asked), "mma_n" in refusal.value.fix) == (1, False)


def test_a_decided_tile_of_many_factors_spills_at_its_widest_instruction() -> None:
    source, tile = "C[m,n] = A[m,k]@B[n,k] scale(1x128,16x128)", "128x256x128"
    made = compile_source(source, dims=DIMS, schedule={"tile": tile})
    assert made.schedule is not None
    assert (made.schedule.mma_n, made.schedule.unroll) == (64, 1)
    assert "mma_n=128" in made.dropped[0].schedule
    with pytest.raises(SlowKernelError) as refusal:
        compile_source(source, dims=DIMS, schedule={"tile": tile, "mma_n": "128"})
    assert refusal.value.fix.startswith("mma_n=64, ")


def test_reductions_meet_where_each_tile_that_has_all_columns_spills(slow: Callable[..., list[str]]) -> None:
    """ptxas 13.0 does so with the only ones that sm_120a has of 128 promoted columns."""
    asked = slow("x128x128, ")
    program = "R[m] = max[n](abs(A[m,k] @ B[n,k] scale(1x128,1x128)))"
    made = compile_source(program, target="sm_120a", dims={"n": 128})
    assert made.spec is not None
    assert made.spec.launch.partial_bytes
    assert len(asked) == 1 + len(made.dropped)


def test_the_last_refusal_counts_where_no_tile_is_left(slow: Callable[..., list[str]]) -> None:
    asked = slow("tile")
    with pytest.raises(SlowKernelError):
        compile_source(FP8, dims=DIMS)
    assert len(asked) == len(set(asked)) <= 12


S = "A[m,k]@B[n,k] scale(1x128,128x128)"
EXOTIC = {
    "accumulation of any width": (f"C[m,n]:f32 += {S}", {}, 1),
    "a residual of any width": (f"C[m,n] = gelu({S} + b[n]) + R[m,n]", {}, 1),
    "much that is read": (f"C[m,n] = max({S}, Q[m,n], R[m,n], P[m/2,n/4], y[m], z[n]*w[m/128])", {}, 1),
    "accumulation of an expression": (f"C[m,n]:f32 += gelu({S} + b[n]) * R[m,n] + Q[m,n]", {}, 1),
    "much that is read, by pairs": (f"C[m,n] = max({S}, Q[m,n], R[m,n], P[m/2,n/4], y[m], z[n]*w[m/128])", DIMS, 2),
    "fine column blocks": ("C[m,n] = A[m,k]@B[n,k] scale(1x128,8x128)", DIMS, 1),
    "less fine column blocks": ("C[m,n] = A[m,k]@B[n,k] scale(1x128,16x128)", DIMS, 1),
    "a remainder of K": ("C[m,n] = A[m,k]@B[n,k]", {"k": 192}, 2),
    "blocks of both": ("C[m,n] = A[m,k]@B[n,k] scale(64x256@col,8x128)", {}, 1),
    "a tile that leaves fewer registers than are missed": (
        "C[m,n]:fp8_block = A[m,k]:e4m3@B[n,k]:e4m3 scale(1xk,1xk)",
        {"k": 7168},
        4,  # of 11 registers, which tiles in another order, or one K block in an iteration, save elsewhere
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("name", EXOTIC)
def test_exotic_programs_take_few_attempts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    source, dims, wanted = EXOTIC[name]
    attempts, assemble = [], ptxas.assemble
    monkeypatch.setattr(ptxas, "assemble", lambda *a: (attempts.append(a[2]), assemble(*a))[1])
    assert compile_source(source, dims=dims).cubin
    assert len(attempts) <= wanted, attempts


@pytest.mark.once
@pytest.mark.parametrize("text", [
    "C[m,n]:fp8_block = silu(A[m,k]:e4m3@B[n,k]:e4m3)*R[m,n]",
    "C[m,n]:fp8_block = x1[m,n]:f32 * (x0[n]:f16 + (A[m,k]:mxfp8_e5m2 @ B[n,k]:mxfp4))",
])  # fmt: skip
def test_reads_beside_the_sums_of_a_block_are_piecewise(text: str) -> None:
    """Fuzz seed 21442: a tile has 128 sums of a thread at the least, and no other epilogue than stores of registers."""
    made = compile_source(text, "sm_100a", tuned=False)
    assert made.schedule is not None
    assert (made.schedule.tile, made.dropped) == ((128, 128, 128), [])
    assert "piecewise" in made.texts["tile"]


def test_warps_convert_where_consumers_have_no_registers(slow: Callable[..., list[str]]) -> None:
    """Computed transposed, as registers take it, blocks of 128 leave no smaller tile."""
    slow("convert=registers")
    program = "C[m,n]:e4m3 scale(1x128) = A[m,k]:mxfp8 @ B[n,k]:i4 scale(1x128:f16)"
    made = compile_source(program, dims={"n": 8}, until="tile")
    assert made.schedule is not None
    assert (made.schedule.convert, made.schedule.swap) == ("shared", 0)
    with pytest.raises(SlowKernelError):  # nor where the user decided who does
        compile_source(program, dims={"n": 8}, schedule={"convert": "registers"}, until="tile")


AWQ = "n/8*8 + n%2*4 + n%8/2"
TURNED_WORDS = "; ".join(
    [
        f"G[m,n] = A[m,k]:f16 @ (P[k, {AWQ}]:u4 - Y[k/128, {AWQ}]) scale(none, 128x1:f16)",
        f"U[m,n] = A[m,k]:f16 @ (R[k, {AWQ}]:u4 - W[k/128, {AWQ}]) scale(none, 128x1:f16)",
        "H[m,n] = silu(G) * U",
    ]
)
"""Of which one tile alone has whole strips of both weights."""


def test_k_is_not_split_where_that_spills(slow: Callable[..., list[str]]) -> None:
    """Before, whoever converts is given more registers than the schedule gave, not than another attempt did."""
    asked = slow("split=2", spilled=3)
    made = compile_source(TURNED_WORDS, "sm_120a", {"m": 16, "n": 4096, "k": 4096}, until="tile")
    assert made.schedule is not None
    assert made.schedule.split == 1
    first, *others = [int(x.split("registers=")[1].partition("x")[0]) for x in asked]
    assert first + 16 in others


def test_tiles_in_another_order_are_tried_before_one_k_block(slow: Callable[..., list[str]]) -> None:
    """Of kernels that spill a few registers: the same tile, which multiplies as many K blocks an iteration."""
    asked = slow("order=n", spilled=11)
    assert compile_source(FP8, dims=DIMS, until="nvvm").schedule is not None
    assert [("unroll=2" in x, "order=m" in x) for x in asked] == [(True, False), (True, True)]
    assert len({x[x.index("tile=") : x.index(", cta_group")] for x in asked}) == 1
    asked = slow("unroll=2", spilled=11)
    assert compile_source(FP8, dims=DIMS, until="nvvm").schedule is not None
    assert [("unroll=2" in x, "order=m" in x) for x in asked] == [(True, False), (True, True), (False, False)]
    asked = slow("unroll=2", spilled=11)
    compile_source(FP8, dims=DIMS, schedule={"order": "n"}, until="nvvm")
    assert [("unroll=2" in x, "order=m" in x) for x in asked] == [(True, False), (False, False)]


@pytest.mark.thorough
def test_transposed_kernels_keep_their_order(slow: Callable[..., list[str]]) -> None:
    """An order that is asked for is of the program as it stands. Asked for here, weights were converted in shared
    memory in a tile of 256x96, in 1.33 of the time (H200, 2026-11-30)."""
    asked = slow("swap=1", spilled=3)
    program = "C[m,n] = A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x128:bf16)"
    compile_source(program, dims={"m": 4096, "n": 8192, "k": 8192}, until="nvvm")
    assert [(x[:6], x[x.index("unroll=") :][:8], "order=n" in x) for x in asked[:2]] == [
        ("swap=1", "unroll=2", True),
        ("swap=1", "unroll=1", True),
    ]
    assert len({x[x.index("tile=") : x.index(", cta_group")] for x in asked[:2]}) == 1
