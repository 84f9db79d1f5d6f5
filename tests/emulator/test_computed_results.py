"""Results whose last index is computed: columns that go around gaps, of which no byte is touched."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec.errors import ScheduleError
from tests.emulator.running import TARGETS, run_on
from tests.gpu.programs import GAPS
from tests.tiers import fields


@pytest.mark.once("target", "name", "known")
@pytest.mark.parametrize("known", ["open", "known", "whole"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GAPS)
def test_program(name: str, target: str, known: str) -> None:
    source, limit, dims, whole = GAPS[name]
    dims = dims | (whole if known == "whole" else {})
    fixed = () if known == "open" else (*whole, "k")
    run_on(source, dims, fixed, 3, limit, target=target, times=1 if known == "open" else 2)


END, LIMIT, *_ = GAPS["behind a head"]
BULK, TAIL = "epilogue=bulk", 192  # one head of `END` and half of one: its extent has 64 columns that no point reaches
SCHEDULES = [
    (BULK, "sm_90a", 384),
    (f"{BULK}, tile=64x128x128", "sm_90a", TAIL),
    (f"{BULK}, tile=128x128x128", "sm_100a", TAIL),
    (f"{BULK}, tile=64x128x128", "sm_120a", TAIL),
    ("epilogue=direct, tile=64x128x128", "sm_90a", TAIL),
    ("consumers=pingpong, tile=64x64x128", "sm_90a", 384),
    ("split=2", "sm_90a", 384),
    ("split=2, parts=memory", "sm_100a", 384),
    (f"{BULK}, staged=1", "sm_120a", 384),
    (f"{BULK}, warpgroups=2", "sm_100a", 384),
    ("epilogue=direct, tile=128x80x128, cluster=1x1, cta_group=1", "sm_100a", 384),
]


@pytest.mark.once("target", touches=lambda schedule, **_: fields(schedule))
@pytest.mark.parametrize(("schedule", "target", "columns"), SCHEDULES)
def test_schedule(schedule: str, target: str, columns: int) -> None:
    run_on(f"{END} with {schedule}", {"m": 70, "n": columns, "k": 512}, ("n", "k"), 5, LIMIT, target=target)


@pytest.mark.once("offsets")
@pytest.mark.parametrize(("target", "offsets"), [(t, x) for t in TARGETS for x in ((15, 111, 241), (16, 48, 112))])
def test_tiles_of_ranges_begin_anywhere(target: str, offsets: tuple[int, ...]) -> None:
    """Gaps lie within a tile where they lie, and between the two columns of a thread."""
    by = " by 16" if offsets[0] % 16 == 0 else ""
    source = f"C[m,n + n/64*64]:f32 = A[g,m,k]:f16 @ B[n,k]:f16 for n in off[g]:off[g+1]{by}"
    dims = {"n": 256, "k": 16}
    if by:
        with pytest.raises(ScheduleError, match="a tile may begin at 16 of n, and C has gaps"):
            scalec.compile(source, target=target, dims=dims, schedule={"epilogue": "bulk", "tile": "128x128x64"})
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((2, 5, 16), (256, 16)))
    c = np.full((5, 448), 7, np.float32)
    expected = c.copy()
    for g in range(2):
        at = np.arange(offsets[g], offsets[g + 1])
        expected[:, at + at // 64 * 64] = a[g].astype(np.float32) @ b[at].T.astype(np.float32)
    scalec.compile(source, target=target, dims=dims)(a, b, np.array(offsets, np.int32), out=c)
    assert np.array_equal(c, expected)
