"""Sizes up to 2^31 - 1: what a compilation costs does not depend on them, and nothing wraps around in 32 bits."""

from __future__ import annotations

import itertools
import re
import signal
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scalec import compiler
from scalec.errors import ArgumentError, ScheduleError, UnsupportedError
from scalec.ir.schedule import Schedule
from scalec.lowering.common.copies import MOST_PREFETCHES
from scalec.lowering.common.walk import Walk
from scalec.lowering.ptxas import Assembled
from scalec.passes.plan.parts import parts
from scalec.passes.plan.windows import WINDOW, window_slots
from scalec.passes.problem.access import Dim
from scalec.runtime import extents
from scalec.sizes import MOST, parse_size
from tests.schedules import plain

FP8 = "C[m,n]:bf16 = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x128,128x128)"
SCHEDULE = plain(tile=(256, 128, 128), stages=3, warpgroups=2)


@contextmanager
def cpu_seconds(limit: float) -> Iterator[None]:
    """Fails where the body takes more of this process's time."""

    def over(*_: Any) -> None:
        pytest.fail(f"more than {limit} s of CPU time")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture
def ptx(monkeypatch: pytest.MonkeyPatch) -> Callable[..., compiler.Compilation]:
    """Compiles up to the PTX."""
    monkeypatch.setattr(compiler.ptxas, "assemble", lambda *_: Assembled(b"", 0))
    return compiler.compile_source


@pytest.mark.parametrize(("k", "fields"), [(1 << 24, {}), (MOST, {}), (MOST, {"split": "7"})])
def test_compile_time(ptx: Callable[..., compiler.Compilation], k: int, fields: dict[str, str]) -> None:
    with cpu_seconds(2):
        made = ptx(FP8, "sm_90a", {"n": 4096, "k": k}, fields)
    assert len(made.ptx) < 120_000, "nothing is unrolled over K"


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_compile_time_elsewhere(ptx: Callable[..., compiler.Compilation], target: str) -> None:
    with cpu_seconds(2):
        ptx(FP8, target, {"n": MOST, "k": MOST}, None)


def _of_blocks(blocks: int) -> Any:
    """What is asked of a problem with so many K blocks."""
    size = blocks * 128
    problem = types.SimpleNamespace(k=Dim("k", size, 2), summed=(), depth=size, range_of_k=None)
    problem.products = (problem,)
    return problem


def test_prefetches_are_not_unrolled_over_k(ptx: Callable[..., compiler.Compilation]) -> None:
    made = ptx(FP8, "sm_90a", {"n": 4096, "k": 1 << 24}, {"tile": "128x128x128"})
    assert made.ptx.count("prefetch.global.L2") == MOST_PREFETCHES


def _slots(blocks: int, schedule: Schedule, stages: int) -> int:
    """Slots of windows, from all runs of windows of one part after the other, without a shortcut."""

    def windows(part: range) -> list[int]:
        return [len(set(range(at, at + WINDOW)) & set(part)) for at in range(part.start // 8 * 8, part.stop, WINDOW)]

    problem: Any = _of_blocks(blocks)
    works = [list(order) for order in itertools.product([p for p in parts(problem, schedule) if p], repeat=4)]
    runs = [[w for part in work for w in windows(part)] for work in works]
    slots = 2
    while stages > 1 + min(sum(r[at : at + slots - 1]) for r in runs for at in range(len(r) - slots + 1)):
        slots *= 2
    return slots


@pytest.mark.parametrize("schedule", [{}, {"split": 3}])
def test_slots_of_windows(schedule: dict[str, int]) -> None:
    """Those of long K, of whose middle not all is looked at, are those of all runs of windows."""
    fields = SCHEDULE.with_fields(**schedule)
    for blocks in (24, 45, 51, 84, 150):
        problem: Any = _of_blocks(blocks)
        for stages in (3, 8, 12):
            assert window_slots(problem, fields, stages) == _slots(blocks, fields, stages), (blocks, stages)


class Word(int):
    """A number of 32 bits, which wraps around."""

    def __new__(cls, value: int) -> Word:
        return super().__new__(cls, value % 2**32)


def _wrapping() -> Any:
    """The part of a Builder that walks use, on numbers."""

    def wrapped(name: str) -> Callable[[int, int], Word]:
        return lambda a, b: Word(getattr(int, name)(a, b))

    names = {"add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__floordiv__", "and_": "__and__"}
    return types.SimpleNamespace(
        **{name: wrapped(method) for name, method in names.items()}, shr=wrapped("__rshift__"), min=min
    )


@pytest.mark.parametrize("band", [1, 8, 1 << 10, 1 << 16])
@pytest.mark.parametrize("blocks", [(1 << 20, 3), (1 << 16, 1 << 14), (3, 1 << 20), (1 << 28, 7)])
def test_walks_do_not_wrap_around(band: int, blocks: tuple[int, int]) -> None:
    """Bands of so many tiles that the tiles of one are not counted in 32 bits: as if there were as many as tiles."""
    state: Any = types.SimpleNamespace(b=_wrapping(), rank=0)
    inner, outer = blocks
    walk = Walk((8, 8), (1, 1), (Word(inner), Word(outer)), True, band)
    for t in {0, 1, inner, inner * outer // 2 + 5, inner * outer - 1}:
        first = t // (inner * band) * band
        within, width = t % (inner * band), min(band, outer - first)
        assert walk.corner(state, Word(t)) == (within // width * 8, (first + within % width) * 8)


def test_a_scale_of_all_rows_is_that_of_the_last_row(ptx: Callable[..., compiler.Compilation]) -> None:
    """Kernels divide by its extent: by no smaller number than any index."""
    for target, scale in (("sm_90a", "scale(mx128,nx128)"), ("sm_120a", "scale(mx32:ue8m0,nxk:ue8m0)")):
        made = ptx(f"C[m,n]:bf16 = A[m,k]:e4m3 @ B[n,k]:e4m3 {scale}", target, {"k": 4096}, None)
        rows = re.findall(r"row_block = (\d+)", made.texts["tile"])
        assert rows
        assert min(map(int, rows)) > MOST
        assert all(int(k) in (32, 128) or int(k) > MOST for k in re.findall(r"\bblock = (\d+)", made.texts["tile"]))


BF16 = "C[m,n]:bf16 = A[m,k]:bf16 @ B[n,k]:bf16"


def test_more_tiles_than_a_grid_has(ptx: Callable[..., compiler.Compilation]) -> None:
    with pytest.raises(UnsupportedError, match="tiles of"):
        ptx(BF16, "sm_90a", {"m": MOST, "n": MOST, "k": 64}, None)
    made = ptx(BF16, "sm_90a", {"k": 64}, None)
    assert made.spec is not None
    extents.check_tiles(made.spec, {"m": MOST, "n": 64, "k": 64})
    with pytest.raises(ArgumentError, match="tiles of"):
        extents.check_tiles(made.spec, {"m": MOST, "n": MOST, "k": 64})


def test_more_parts_than_are_counted(ptx: Callable[..., compiler.Compilation]) -> None:
    with pytest.raises(ScheduleError, match="has 134217728 blocks of 16"):
        ptx(BF16, "sm_90a", {"n": 4096, "k": MOST}, {"tile": "64x64x16", "split": "32"})
    ptx(BF16, "sm_90a", {"n": 4096, "k": MOST}, {"tile": "64x64x16", "split": "31"})


@pytest.mark.parametrize("text", ["1099511627776", "1:1099511627776", "2147483648", "9" * 100_000])
def test_sizes_beyond_the_largest(text: str) -> None:
    with pytest.raises(ValueError, match="is more than 2147483647, the largest size"):
        parse_size(text)
