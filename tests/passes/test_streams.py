"""Which programs read and write more of their results than of anything else, and by how much clusters begin later."""

from __future__ import annotations

import re

import pytest

from scalec.compiler import compile_source

PROGRAM = "C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(1x128@col,1x128@col) for k in off[g]:off[g+1] by 128"
SIZES = {"g": 16, "m": 4096, "n": 7168, "k": 33024}


def decided(source: str, sizes: dict[str, int], schedule: dict[str, str], target: str) -> tuple[str, int]:
    """The tile, cluster and `adds`, and the cycles."""
    made = compile_source(source, target, sizes, schedule, until="tile")
    assert made.schedule is not None
    texts, cycles = made.schedule.texts(), re.search(r'"tile.stagger"\(\) \{cycles = (\d+)', made.texts["tile"])
    return f"{texts['tile']}, {texts['cluster']}, {texts['adds']}", int(cycles[1]) if cycles else 0


STREAMED = "128x256x128, 1x1, loaded"


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (PROGRAM, SIZES),
        (PROGRAM, SIZES | {"m": 7168, "n": 2048}),
        (PROGRAM + " about 2000", {x: n for x, n in SIZES.items() if x != "k"}),
        (PROGRAM + " with invariant", SIZES),
    ],
)
def test_streamed(source: str, sizes: dict[str, int]) -> None:
    schedule, cycles = decided(source, sizes, {}, "sm_90a")
    assert schedule == STREAMED
    assert 20 < cycles < 300


@pytest.mark.parametrize(
    ("source", "sizes", "schedule", "target"),
    [
        (PROGRAM, SIZES | {"g": 8}, {}, "sm_90a"),  # ranges as long again
        (PROGRAM, {x: n for x, n in SIZES.items() if x != "k"}, {}, "sm_90a"),  # nobody knows how long
        (PROGRAM, {x: n for x, n in SIZES.items() if x != "m"}, {}, "sm_90a"),
        (PROGRAM, SIZES | {"m": 256, "n": 512}, {}, "sm_90a"),  # few tiles
        (PROGRAM, SIZES | {"m": 4095}, {}, "sm_90a"),  # whose scales threads bring, so that no warp is left
        (PROGRAM, SIZES | {"n": 7040}, {}, "sm_90a"),  # columns of no whole tile
        (PROGRAM.replace(" by 128", ""), SIZES, {}, "sm_90a"),  # ranges that begin anywhere
        (PROGRAM, SIZES, {"stages": "3"}, "sm_90a"),  # something is decided
        (PROGRAM.replace("+=", "="), SIZES, {}, "sm_90a"),
        (
            PROGRAM.replace("A[m,k] @ B[n,k] scale(1x128@col,1x128@col)", "A[m,k]:bf16 @ B[n,k]:bf16"),
            SIZES,
            {},
            "sm_90a",
        ),
        ("C[m,n]:f32 += A[m,k] @ B[n,k] scale(1x128@col,1x128@col)", SIZES | {"k": 2048}, {}, "sm_90a"),
        (PROGRAM.replace(":f32 +=", ":f32 ="), SIZES, {}, "sm_90a"),
        (PROGRAM, SIZES, {}, "sm_120a"),
    ],
)
def test_not_streamed(source: str, sizes: dict[str, int], schedule: dict[str, str], target: str) -> None:
    sizes = {x: n for x, n in sizes.items() if f"{x}," in source or f"{x}]" in source}
    found, cycles = decided(source, sizes, schedule, target)
    assert found != STREAMED
    assert cycles == 0


def test_larger_tiles_and_clusters_begin_further_apart() -> None:
    def cycles(**schedule: str) -> int:
        return decided(PROGRAM, SIZES, schedule | {"adds": "loaded"}, "sm_90a")[1]

    small, large = cycles(tile="128x128x128", cluster="1x1"), cycles(tile="128x256x128", cluster="1x1")
    assert large == pytest.approx(2 * small, abs=1)
    assert cycles(tile="128x256x128", cluster="1x2") == pytest.approx(2 * large, abs=1)
