"""Who hands a stage back has read it: the arrival's address depends on what was loaded last."""

from __future__ import annotations

import re

import pytest

import scalec

FACTORS = "C[m,n]:f32 += A[m,k] @ B[n,k] scale(1x128, 1x128)"
RELEASE = re.compile(
    r"mov\.b32 T, (%[rf]\d+); and\.b32 T, T, (%r\d+); and\.b32 T, T, 7; xor\.b32 (%r\d+), T, \2; \}\s+"
    r"// end inline asm\s+// begin inline asm\s+@%p\d+ mbarrier\.arrive\.shared::\w+\.b64 _, \[\3\];"
)
LOAD = re.compile(r"ld(?:\.volatile)?\.shared\.(?:v2\.)?[bf]32\s+\{?([^}\[]*?)\}?, \[")


@pytest.mark.parametrize(
    ("target", "program", "schedule"),
    [
        ("sm_90a", FACTORS, "tile=128x128x128, stages=4, cluster=2x1"),
        ("sm_90a", FACTORS, "tile=128x128x128, stages=4, cluster=1x1"),
        ("sm_90a", FACTORS.replace("1x128, 1x128", "1x128@col, 1x128@col"), "tile=192x128x128"),
        ("sm_100a", FACTORS, "tile=128x128x128"),
        ("sm_120a", FACTORS, "tile=128x64x128, stages=2"),
        ("sm_120a", "C[m,n] = A[m,k] @ B[n,k]", "tile=128x64x64, stages=2"),
    ],
)
def test_a_stage_is_handed_back_behind_its_loads(target: str, program: str, schedule: str) -> None:
    """On a GPU: tests/gpu/test_groups.py."""
    sizes = {"m": 4096, "n": 4096, "k": 4096}
    ptx = scalec.compile(f"{program} with {schedule}", target=target, dims=sizes).ptx
    found = list(RELEASE.finditer(ptx))
    assert found
    for release in found:
        loads = [registers.split(", ")[-1] for registers in LOAD.findall(ptx[: release.start()])]
        if target == "sm_120a":  # whose loads ptxas may move: of several, or of sums of what was loaded
            assert f"xor.b32 {release[1]}, T0, T1;" in ptx
        else:
            assert release[1] == loads[-1]


@pytest.mark.parametrize(("columns", "under"), [(32, True), (64, False)])
def test_factors_of_few_columns_are_loaded_under_their_products(columns: int, under: bool) -> None:
    """They would wait behind a tile's stores else, and the next products for them."""
    source = f"C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128) with swap=1, tile=64x{columns}x128, cluster=1x1"
    ptx = scalec.compile(source, target="sm_90a", dims={"m": columns, "n": 4096, "k": 4096}).ptx
    waits = re.findall(
        r"wgmma\.commit_group(.*?)wgmma\.wait_group\.sync\.aligned 0;(.*?)mbarrier\.arrive", ptx, re.DOTALL
    )
    assert waits
    for before, after in waits:
        assert ("ld.volatile.shared" in before) == under
        assert ("ld.volatile.shared" in after) == (not under)
