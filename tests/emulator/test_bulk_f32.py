"""f32 results by bulk copies: stored as they are, or added in memory by copies that reduce."""

from __future__ import annotations

import pytest

from scalec.compiler import compile_source
from tests.emulator.running import run_on

FP8 = "A[m,k]@B[n,k] scale(1x128,1x128)"
PROGRAMS = {
    "stored": f"C[m,n]:f32 = {FP8}",
    "added": f"C[m,n]:f32 += {FP8}",
    "an expression, added": "C[m,n]:f32 += alpha * gelu(A[m,k]@B[n,k] + b[n]) * r[m]",
    "parts of K, added": "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,128x128) with split=2",
}
SCHEDULES = ["", "tile=64x64x{k}", "swizzle_c=64", "staged=1", "tile=128x32x{k}, swizzle_c=32"]
TARGETS = ["sm_90a", "sm_100a", "sm_120a"]
REDUCE = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"


def text(name: str, schedule: str = "") -> str:
    source, given = PROGRAMS[name], schedule.format(k=128 if "scale" in PROGRAMS[name] else 64)
    return source + (", " if " with " in source else " with ") + ", ".join(x for x in ("epilogue=bulk", given) if x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, target: str) -> None:
    run_on(text(name), {"m": 140, "n": 136, "k": 1024}, ("n", "k"), 1, 1e-6, target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(schedule: str, target: str) -> None:
    if target == "sm_100a" and schedule.startswith("tile=64"):
        schedule = schedule.replace("64x64", "128x64")
    run_on(text("added", schedule), {"m": 150, "n": 132, "k": 512}, ("n", "k"), 2, 1e-6, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_added_in_memory_is_not_read(target: str) -> None:
    dims = {"n": 256, "k": 512}
    added = compile_source(text("added"), target, dims)
    assert REDUCE in added.ptx
    assert "ld.global.v2.f32" not in added.ptx
    assert REDUCE not in compile_source(text("stored"), target, dims).ptx
    direct = compile_source(text("added").replace("epilogue=bulk", "epilogue=direct"), target, dims)
    assert REDUCE not in direct.ptx
    assert "ld.global.v2.f32" in direct.ptx


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_bf16_is_added_before_it_is_rounded(target: str) -> None:
    """A copy that reduces would round the sums, and then the sum."""
    made = compile_source("C[m,n] += A[m,k]@B[n,k] with epilogue=bulk", target, {"n": 256, "k": 512})
    assert REDUCE not in made.ptx
    run_on(
        "C[m,n] += A[m,k]@B[n,k] with epilogue=bulk", {"m": 70, "n": 136, "k": 256}, ("n", "k"), 1, 3e-6, target=target
    )
