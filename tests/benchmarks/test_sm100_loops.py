"""benchmarks/sm100_loops.py: its counts on code written by hand; that kernels keep to what was reached."""

from __future__ import annotations

import shutil

import pytest

from benchmarks import sm100_loops
from benchmarks.sass_flow import parse
from scalec import env
from scalec.commands import sass
from scalec.errors import ToolchainError
from scalec.lowering import ptxas
from tests.benchmarks.test_sass_loop import listing

MOST = {
    "BF16": 6.5,
    "BF16, B[k,n]": 6.5,
    "BF16, k not known": 6.5,
    "FP8": 6.5,
    "FP8, ue8m0 1x128": 8.0,
    "MXFP8": 8.0,
    "MXFP4": 13.0,
    "NVFP4": 18.5,
    "FP8, f32 1x128 by 128x128": 9.75,
}
"""Instructions for each tcgen05.mma (ptxas 13.0; fewer with 13.5: 2026-11-21)."""


@pytest.fixture
def toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ptxas on PATH, where there is one; a disassembler."""
    on_path = shutil.which("ptxas")
    if on_path is not None and not env.PTXAS.get():
        monkeypatch.setenv(env.PTXAS.name, on_path)
    try:
        ptxas.find()
        sass.find("nvdisasm")
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("case", sm100_loops.CASES, ids=lambda c: c.name)
def test_counts_stay(case: sm100_loops.Case, toolchain: None) -> None:
    counts = sm100_loops.count(case)
    assert counts.loop.tensor >= 16
    assert counts.per_product <= MOST[case.name], counts.loop.classes
    if case.name not in ("NVFP4", "FP8, f32 1x128 by 128x128"):  # a body of its own; columns kept for the next K block
        assert counts.epilogue is not None
        assert counts.epilogue <= 36


def test_most_is_within_the_goal_but_where_scales_are_many() -> None:
    beyond = {name for name, most in MOST.items() if most > sm100_loops.GOAL}
    assert beyond == {"MXFP4", "NVFP4", "FP8, f32 1x128 by 128x128"}
    assert set(MOST) == {c.name for c in sm100_loops.CASES}


def test_an_epilogue_is_counted_from_loads_to_loads() -> None:
    part = [
        "LDTM.16dp256bit.x4 R0, tmem[UR4]",
        "NOP",
        "LDTM.16dp256bit.x4 R8, tmem[UR4+0x100000]",
        *["FADD R1, R1, R1"] * 5,
    ]
    functions = parse(listing(*part, *part, "NOP", *part, *part, "EXIT", target="sm_100a"))
    (function,) = functions
    assert list(sm100_loops.taking(function)) == [0, 8, 17, 25]
    assert sm100_loops.epilogue(functions) == 9
    assert sm100_loops.epilogue(parse(listing(*part, *part, "EXIT", target="sm_100a"))) is None
