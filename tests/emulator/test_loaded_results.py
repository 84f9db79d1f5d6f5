"""f32 results that are loaded while their tile is multiplied, added to, and stored."""

from __future__ import annotations

import re

import pytest

from scalec import compiler
from scalec.compiler import compile_source, decide
from scalec.errors import ScheduleError
from tests.emulator.running import run_on
from tests.emulator.test_range_of_k import RANGE, check

FINE = "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128)"
BLOCKS = "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,128x128)"
BF16 = "C[m,n]:f32 += A[m,k]@B[n,k]"
RANGES = "C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(128x128,128x128) {}"
BODY = "C[m,n]:f32 += alpha * gelu(A[m,k]@B[n,k] + b[n]) * r[m]"

# target, program, schedule, (m, n, k): several tiles for each of the four CTAs that run at once, tails along M and N
CASES: dict[str, tuple[str, str, str, tuple[int, int, int]]] = {
    "one tile": ("sm_90a", FINE, "tile=128x128x128, cluster=1x1", (100, 120, 512)),
    "all of a tile": ("sm_90a", FINE, "tile=128x64x128", (300, 264, 512)),
    "two CTAs of a cluster": ("sm_90a", FINE, "tile=64x64x128, cluster=1x2", (321, 328, 512)),
    "one panel": ("sm_90a", FINE, "tile=64x128x128, panels=1, staged=1, cluster=1x1", (321, 264, 512)),
    "panels, no whole rounds": ("sm_90a", BF16, "tile=64x128x64, panels=3, staged=1, cluster=2x1", (321, 392, 192)),
    "two waves, of which one has room": ("sm_90a", BF16, "tile=256x64x64, staged=1, cluster=1x1", (600, 136, 192)),
    "two waves": ("sm_90a", BF16, "tile=128x32x64, warpgroups=1, cluster=1x1", (600, 72, 192)),
    "two waves by three panels": ("sm_90a", BF16, "tile=256x128x64, panels=3, staged=1", (600, 264, 128)),
    "narrow boxes": ("sm_90a", BF16, "tile=128x64x64, swizzle_c=64", (300, 136, 192)),
    "the narrowest": ("sm_90a", BF16, "tile=64x24x64, swizzle_c=32, cluster=1x1", (300, 136, 192)),
    "an expression": ("sm_90a", BODY, "tile=128x64x64", (300, 136, 192)),
    "warps": ("sm_120a", BF16, "tile=64x64x64, epilogue=bulk", (300, 136, 192)),
    "warps, by panels": ("sm_120a", BLOCKS, "tile=128x64x128, warps=8x1, panels=1, staged=1", (300, 136, 512)),
    "tensor memory": ("sm_100a", BLOCKS, "tile=128x64x128, cluster=1x1", (700, 136, 512)),
    "tensor memory, two warpgroups": ("sm_100a", FINE, "tile=128x128x128, warpgroups=2", (700, 264, 512)),
    "tensor memory, two CTAs": (
        "sm_100a", BLOCKS, "tile=128x128x128, cta_group=2, cluster=2x1, staged=1", (900, 264, 512)),
    "tensor memory, dynamic": ("sm_100a", BLOCKS, "tile=128x64x128, scheduler=dynamic", (700, 136, 512)),
}  # fmt: skip


@pytest.mark.once(touches=lambda case: CASES[case][:1])
@pytest.mark.parametrize("case", CASES)
def test_sums(case: str) -> None:
    target, program, schedule, (m, n, k) = CASES[case]
    dims, source = {"m": m, "n": n, "k": k}, f"{program} with adds=loaded, {schedule}"
    ran = run_on(source, dims, ("n", "k"), m + k, 1e-6, target=target, times=2)
    assert "adds=loaded" in ran.kernel.spec.schedule
    assert "epilogue=bulk" in ran.kernel.spec.schedule
    assert "cp.reduce" not in ran.kernel.ptx
    assert "ld.global.v2.f32" not in ran.kernel.ptx


def test_of_groups() -> None:
    """By a warp that takes items too; an empty group's are stored as they are."""
    settings, dims = "adds=loaded, tile=64x64x128, panels=1, staged=1", {"m": 40, "n": 72, "k": 300}
    check(RANGES, "sm_90a", settings, ends=(0, *(10,) * 7, 128, 130, *(300,) * 5), dims=dims)


def test_tiles_that_may_be_one_are_refused() -> None:
    """Groups whose indices are the same add to the same result."""
    with pytest.raises(ScheduleError, match=re.escape("two tiles of C may be one, at the same e[g]")):
        compiler.decide(
            RANGES.format(RANGE).replace("C[g,", "C[e[g],"), "sm_90a", {"n": 512, "k": 1024}, {"adds": "loaded"}
        )


def test_what_is_not_decided() -> None:
    """All of a tile has room where panels are not asked for; copies add in memory unless asked to load."""
    dims = {"n": 7168, "k": 2048}
    assert "panels=1, adds=memory" in str(decide(f"{FINE} with tile=128x128x128", "sm_90a", dims)[0])
    loaded = str(decide(f"{FINE} with tile=128x128x128, adds=loaded", "sm_90a", dims)[0])
    assert "epilogue=bulk, staged=0, panels=0, adds=loaded" in loaded
    assert "adds=memory" in str(decide("C[m,n] = A[m,k]@B[n,k]", "sm_90a", dims)[0])


@pytest.mark.parametrize(
    ("program", "dims", "otherwise"),
    [(FINE, {"m": 40, "n": 72, "k": 1536}, "split=3"), (BF16, {"m": 4096, "n": 4096, "k": 128}, "consumers=pingpong")],
)
def test_what_goes_with_loading_is_chosen(program: str, dims: dict[str, int], otherwise: str) -> None:
    chosen = decide(program, "sm_90a", dims, {"adds": "loaded"}, tuned=False)[0]
    assert otherwise not in str(chosen)
    assert otherwise in str(decide(program, "sm_90a", dims, {"adds": "memory"}, tuned=False)[0])


@pytest.mark.parametrize(
    ("program", "fields", "reason"),
    [
        (FINE, "epilogue=direct", "no copy stores C (epilogue=direct)"),
        (FINE, "split=2", "split = 2: which CTA"),
        (FINE, "consumers=pingpong, tile=64x64x128", "consumers=pingpong: one warp"),
        (FINE, "scale_path=thread", "no warp is left"),
        (FINE.replace("+=", "="), "epilogue=bulk", "does not add f32 sums to C"),
    ],
)
def test_refused(program: str, fields: str, reason: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        compile_source(f"{program} with adds=loaded, {fields}", "sm_90a", {"n": 512, "k": 1024})
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("n", "fields", "found", "fix"),
    [
        (None, {}, "n is not known at compile time: a row of C may be misaligned, so", "give n in dims, or"),
        (514, {}, "a row of C is 2056 bytes (n = 514), not a multiple of 16, so no copy stores C", "adds=memory"),
        (512, {"swap": "1"}, "swap=1 computes C by columns, and a bulk copy stores rows, so", "swap=0, or adds=memory"),
        (512, {"epilogue": "direct"}, "no copy stores C (epilogue=direct)", "epilogue=bulk, or adds=memory"),
        (None, {"epilogue": "direct", "split": "2"}, "no copy stores C (epilogue=direct)", "adds=memory"),
    ],
)
def test_a_refusal_says_why_results_leave_directly(n: int | None, fields: dict[str, str], found: str, fix: str) -> None:
    dims = {"k": 1024} | ({"n": n} if n else {})
    with pytest.raises(ScheduleError, match="adds=loaded is not possible") as refused:
        compiler.decide(FINE, "sm_90a", dims, {"adds": "loaded", **fields})
    assert refused.value.got.startswith(found)
    assert refused.value.fix.startswith(fix)
    assert refused.value.expected.startswith("epilogue=bulk") == ("split" not in fields)


@pytest.mark.parametrize("fields", [{"adds": "loaded"}, {"panels": "1", "swizzle_c": "32"}])
def test_few_rows_are_no_columns_where_what_is_decided_needs_rows(fields: dict[str, str]) -> None:
    few = {"m": 16, "n": 4096, "k": 512}
    assert compiler.decide(FINE, "sm_90a", few)[0].swap == 1
    chosen, _ = compiler.decide(FINE, "sm_90a", few, fields)
    assert (chosen.swap, chosen.epilogue) == (0, "bulk")


def test_parts_of_tensor_memory_are_refused() -> None:
    with pytest.raises(ScheduleError) as refused:
        compile_source(f"{BF16} with adds=loaded", "sm_100a", {"n": 512, "k": 1024})
    assert "by parts" in str(refused.value)


@pytest.mark.parametrize(
    ("target", "k", "fields", "adds"),
    [
        ("sm_90a", 512, {}, "loaded"),
        ("sm_90a", 1024, {}, "loaded"),
        ("sm_90a", 1536, {}, "memory"),
        ("sm_90a", None, {}, "memory"),
        ("sm_90a", 512, {"split": "2"}, "memory"),
        ("sm_90a", 512, {"scale_path": "thread"}, "memory"),
        ("sm_90a", 512, {"epilogue": "direct"}, "memory"),
        ("sm_90a", 512, {"tile": "256x128x128", "stages": "3"}, "loaded"),
        ("sm_90a", 512, {"tile": "256x128x128", "stages": "4"}, "memory"),  # no room beside four
        ("sm_90a", 512, {"tile": "128x128x128", "stages": "5"}, "loaded"),  # for panels
        ("sm_90a", 512, {"tile": "128x224x128", "swizzle_c": "32"}, "loaded"),  # 18 panels fit, and 16 are the most
        ("sm_120a", 512, {}, "memory"),
    ],
)
def test_results_are_loaded_where_k_is_short(target: str, k: int | None, fields: dict[str, str], adds: str) -> None:
    dims = {"m": 4096, "n": 7168} | ({"k": k} if k else {})
    chosen, _ = compiler.decide("C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128)", target, dims, fields)
    assert chosen.adds == adds
