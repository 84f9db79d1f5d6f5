"""Schedules of sm_120a on the emulator: each is right, or refused with numbers; none meets a bank conflict."""

from __future__ import annotations

import pytest

import scalec
from scalec.errors import ScheduleError
from tests.emulator.running import run_on
from tests.emulator.sm120_programs import FAMILIES, REFUSED, SCHEDULES, limit
from tests.tiers import fields

TARGET = "sm_120a"


@pytest.mark.once("family", touches=lambda schedule, **_: fields(schedule))
@pytest.mark.parametrize(("family", "schedule"), [(f, s) for f in SCHEDULES for s in SCHEDULES[f]])
def test_schedule(family: str, schedule: str) -> None:
    source, (m, n, k) = FAMILIES[family]
    dims = {"m": m, "n": n, "k": k}
    ran = run_on(f"{source} with {schedule}", dims, ("n", "k"), 3, limit(source), target=TARGET)
    decided = ran.kernel.spec.schedule
    assert all(field.strip() in decided for field in schedule.split(",")), decided
    assert ran.stats.counts["shared wavefronts"] > 0
    assert ran.stats.counts["bank conflicts"] == 0


@pytest.mark.parametrize(("family", "schedule", "message"), REFUSED)
def test_refused(family: str, schedule: str, message: str) -> None:
    source, (_, n, k) = FAMILIES[family]
    with pytest.raises(ScheduleError, match=message):
        scalec.compile(f"{source} with {schedule}", target=TARGET, dims={"n": n, "k": k})
