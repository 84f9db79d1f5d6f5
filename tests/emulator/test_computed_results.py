"""Results whose last index is computed: columns that go around gaps, of which no byte is touched."""

from __future__ import annotations

import pytest

from tests.emulator.running import run_on
from tests.gpu.programs import GAPS
from tests.tiers import fields

TARGETS = ("sm_90a", "sm_100a", "sm_120a")


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
]


@pytest.mark.once("target", touches=lambda schedule, **_: fields(schedule))
@pytest.mark.parametrize(("schedule", "target", "columns"), SCHEDULES)
def test_schedule(schedule: str, target: str, columns: int) -> None:
    run_on(f"{END} with {schedule}", {"m": 70, "n": columns, "k": 512}, ("n", "k"), 5, LIMIT, target=target)
