"""Our kernels of sm_100a and sm_120a on the emulator: every type of operand, scale and result, and all tails.

Each schedule is right, or refused with numbers; none meets a bank conflict.
"""

from __future__ import annotations

import pytest

import scalec
from scalec.errors import ScheduleError
from tests.emulator import sm100_programs, sm120_programs
from tests.emulator.running import Ran, by_turns, k_of, limit, run_on
from tests.tiers import fields

OF = {"sm_100a": sm100_programs, "sm_120a": sm120_programs}

# (m, n, bytes of a row, dims fixed at compile time) by seed: below one tile, tails of every kind, more tiles than CTAs
SIZES = {
    "sm_100a": [
        (5, 3, 20, ()),
        (1, 8, 150, ("n", "k")),
        (130, 72, 256, ("m", "n", "k")),
        (65, 136, 288, ("n", "k")),
        (33, 77, 132, ()),
        (129, 65, 96, ("n", "k")),
        (300, 264, 64, ("n", "k")),
        (140, 40, 384, ("k",)),
    ]
}
SIZES["sm_120a"] = [*SIZES["sm_100a"]]
SIZES["sm_120a"][2], SIZES["sm_120a"][6] = (66, 72, 256, ("m", "n", "k")), (16, 72, 272, ("n", "k"))


def run(source: str, dims: dict[str, int], fixed: tuple[str, ...], seed: int, target: str, times: int = 1) -> Ran:
    ran = run_on(source, dims, fixed, seed, limit(source), target=target, times=times)
    assert ran.stats.counts["shared wavefronts"] > 0
    assert ran.stats.counts["bank conflicts"] == 0
    return ran


@pytest.mark.once(touches=lambda target, name, seed: [(target, name), (target, seed)])
@pytest.mark.parametrize(
    ("target", "name", "seed"), [(t, *x) for t, of in OF.items() for x in by_turns(of.PROGRAMS, len(SIZES[t]))]
)
def test_program(target: str, name: str, seed: int) -> None:
    source = OF[target].PROGRAMS[name]
    m, n, row, fixed = SIZES[target][seed]
    run(source, {"m": m, "n": n, "k": k_of(source, row)}, fixed, seed, target, times=1 if seed % 4 else 2)


@pytest.mark.once(touches=lambda target, family, schedule: [(target, x) for x in (family, *fields(schedule))])
@pytest.mark.parametrize(
    ("target", "family", "schedule"), [(t, f, s) for t, of in OF.items() for f in of.SCHEDULES for s in of.SCHEDULES[f]]
)
def test_schedule(target: str, family: str, schedule: str) -> None:
    source, (m, n, k) = OF[target].FAMILIES[family]
    ran = run(f"{source} with {schedule}", {"m": m, "n": n, "k": k}, ("n", "k"), 3, target)
    decided = ran.kernel.spec.schedule
    assert all(field.strip() in decided for field in schedule.split(",")), decided


@pytest.mark.parametrize(
    ("target", "family", "schedule", "message"), [(t, *row) for t, of in OF.items() for row in of.REFUSED]
)
def test_refused(target: str, family: str, schedule: str, message: str) -> None:
    source, (_, n, k) = OF[target].FAMILIES[family]
    with pytest.raises(ScheduleError, match=message):
        scalec.compile(f"{source} with {schedule}", target=target, dims={"n": n, "k": k})
