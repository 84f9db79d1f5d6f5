"""f32 results by bulk copies: stored as they are, or added in memory by copies that reduce."""

from __future__ import annotations

import pytest

from scalec.compiler import compile_source, decide
from scalec.errors import DeviceError, ScheduleError
from scalec.runtime.kernel import Kernel
from tests.emulator.running import TARGETS, run_on

FP8 = "A[m,k]@B[n,k] scale(1x128,1x128)"
PROGRAMS = {
    "stored": f"C[m,n]:f32 = {FP8}",
    "added": f"C[m,n]:f32 += {FP8}",
    "an expression, added": "C[m,n]:f32 += alpha * gelu(A[m,k]@B[n,k] + b[n]) * r[m]",
    "parts of K, added": "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,128x128) with split=2",
}
SCHEDULES = ["", "tile=64x64x{k}", "swizzle_c=64", "staged=0", "staged=1", "tile=128x32x{k}, swizzle_c=32"]
PANELS = {
    "sm_90a": [
        "tile=256x128x{k}, panels=2",
        "tile=128x96x{k}, panels=2",
        "tile=128x128x{k}, panels=3",
        "tile=64x64x{k}, panels=1",
        "tile=128x64x{k}, panels=3, swizzle_c=64",
    ],
    "sm_120a": ["tile=128x64x{k}, warps=8x1, panels=1", "tile=64x128x{k}, warps=4x2, panels=1, swizzle_c=64"],
}
REDUCE = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"


def text(name: str, schedule: str = "") -> str:
    source, given = PROGRAMS[name], schedule.format(k=128 if "scale" in PROGRAMS[name] else 64)
    fields = ("epilogue=bulk", "adds=memory", given)
    return source + (", " if " with " in source else " with ") + ", ".join(x for x in fields if x)


@pytest.mark.once("name", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, target: str) -> None:
    run_on(text(name), {"m": 140, "n": 136, "k": 1024}, ("n", "k"), 1, 1e-6, target=target)


@pytest.mark.once("schedule", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(schedule: str, target: str) -> None:
    if target == "sm_100a" and schedule.startswith("tile=64"):
        schedule = schedule.replace("64x64", "128x64")
    run_on(text("added", schedule), {"m": 150, "n": 132, "k": 512}, ("n", "k"), 2, 1e-6, target=target)


@pytest.mark.parametrize("path", ["bulk", "direct"])
def test_all_waves_at_once_leave_no_panels(path: str) -> None:
    given = {"staged": "0"} | ({"epilogue": path} if path == "bulk" else {})
    made = compile_source(PROGRAMS["stored"], "sm_90a", {"n": 512, "k": 512}, given)
    assert f"epilogue={path}, staged=0, panels=0" in str(made.schedule)


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


@pytest.mark.once
@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_bf16_is_added_before_it_is_rounded(target: str) -> None:
    """A copy that reduces would round the sums, and then the sum."""
    made = compile_source("C[m,n] += A[m,k]@B[n,k] with epilogue=bulk", target, {"n": 256, "k": 512})
    assert REDUCE not in made.ptx
    run_on(
        "C[m,n] += A[m,k]@B[n,k] with epilogue=bulk", {"m": 70, "n": 136, "k": 256}, ("n", "k"), 1, 3e-6, target=target
    )


@pytest.mark.once("name", "target")
@pytest.mark.parametrize(("target", "schedule"), [(t, s) for t, found in PANELS.items() for s in found])
@pytest.mark.parametrize("name", ["added", "stored"])
def test_panels(name: str, schedule: str, target: str) -> None:
    """Two or three tiles for each CTA: what the one before left in a panel has been read."""
    m, n = (int(x) for x in schedule.removeprefix("tile=").split("x")[:2])
    dims = {"m": 2 * m + 24, "n": 3 * n + 8, "k": 256}
    run_on(text(name, schedule + ", staged=1"), dims, ("n", "k"), 2, 1e-6, target=target)


def test_wide_results_go_by_panels() -> None:
    dims = {"n": 7168, "k": 2048}

    def chosen(source: str, target: str = "sm_90a") -> str:
        return str(decide(source, target, dims)[0])

    added = PROGRAMS["added"]
    assert "stages=4" in chosen(f"{added} with tile=192x128x128")
    assert "epilogue=bulk, staged=1, panels=1" in chosen(f"{added} with tile=192x128x128")
    assert "epilogue=direct, staged=0, panels=0" in chosen(f"{added} with tile=192x32x128")  # one panel is the wave
    assert "epilogue=direct" in chosen(f"{added} with tile=192x128x128, stages=5")
    assert "epilogue=bulk, staged=0, panels=0" in chosen("C[m,n] = A[m,k]@B[n,k]")
    assert "epilogue=direct" in chosen(added, "sm_120a")


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ("panels=2, staged=2", "panels = 2 are a wave's, and staged = 2"),
        ("panels=4, staged=1", "a row of a staged wave is 512 bytes"),
        ("panels=1, epilogue=direct", r"panels = 1, and no copy stores C \(epilogue=direct\)"),
    ],
)
def test_refused(fields: str, what: str) -> None:
    path = "" if "direct" in fields else ", epilogue=bulk"
    with pytest.raises(ScheduleError, match=what):
        compile_source(f"C[m,n]:f32 = {FP8} with tile=256x128x128, {fields}{path}", "sm_90a", {"n": 512, "k": 512})


def test_parts_of_tensor_memory_are_no_panels() -> None:
    with pytest.raises(ScheduleError, match="out of tensor memory by parts anyway"):
        compile_source(f"C[m,n]:f32 = {FP8} with panels=1, staged=1, epilogue=bulk", "sm_100a", {"n": 512, "k": 512})


@pytest.mark.parametrize(("old", "new"), [("read \t1;", "read \t2;"), ("fence.proxy.async", "// ")])
def test_panels_are_read_before_they_are_filled_again(old: str, new: str) -> None:
    source = text("stored", "tile=64x128x128, panels=2, staged=1, cluster=1x1")
    dims = {"m": 150, "n": 264, "k": 256}

    def change(kernel: Kernel) -> Kernel:
        assert old in kernel.ptx
        return Kernel(kernel.spec, b"", ptx=kernel.ptx.replace(old, new))

    with pytest.raises((DeviceError, AssertionError)):
        run_on(source, dims, ("n", "k"), 3, 1e-6, change=change)
