"""Who deals out the tiles."""

from __future__ import annotations

from math import prod

from scalec.ir.schedule import Request, Schedule
from scalec.passes.base import Decision
from scalec.passes.plan.draft import draft
from scalec.passes.plan.parts import clusters_of
from scalec.passes.plan.turns import READ, no_dynamic
from scalec.passes.problem.types import Problem

FEWEST_WAVES = 32
"""Waves in which SMs are taken to drift apart by a tile: where they differ by 3 %. A guess, nothing was measured."""


class ChooseScheduler(Decision):
    """Decides `scheduler`: "dynamic" where there are FEWEST_WAVES waves of tiles or more and the last is not full.

    The model has all tiles take equally long, so that both take as many waves. What it leaves out is that SMs differ,
    and may be shared with another kernel, which nobody knows at compile time. Over many waves SMs drift apart; dealt
    out as they are begun, the tiles of the last wave go to those that are free first, and the tiles under way at a time
    stay neighbours in L2. In few waves there is nothing to gain, and the static order exchanges nothing.

        #scale.schedule<{tile = array<i64: 128, 256, 128>, cluster = array<i64: 1, 1>, split = 1 : i64, ...}>
    -->
        #scale.schedule<{..., scheduler = "dynamic"}>    (m = n = 16384: 8192 tiles for 148 SMs with launch control)
    """

    name = "choose-scheduler"
    needs = ("tile", "cluster", "split")

    def choose(self, problem: Problem, given: Request) -> Request:
        return given.with_fields(scheduler=choice(problem, draft(problem, given))[0])


def choice(problem: Problem, schedule: Schedule) -> tuple[str, str]:
    """("static", "dynamic" or "queue", why) for a schedule that leaves it undecided."""
    target = problem.target
    if problem.queued:
        return "queue", READ
    reason = no_dynamic(problem)
    if reason:
        return "static", reason
    unknown = [d.name for d in (*problem.outer, problem.m, problem.n) if d.size is None]
    if unknown:
        return "static", f"{' and '.join(unknown)} not known: how many tiles there are shows at the launch"
    units = schedule.split * clusters_of(problem, schedule.tile, schedule.cluster)
    at_once = target.at_once(prod(schedule.cluster))
    waves = f"{units / at_once:.1f} waves"
    if units < FEWEST_WAVES * at_once:
        return "static", f"in {waves} SMs drift apart by less than a tile (a guess, nothing measured)"
    if units % at_once == 0:
        return "static", f"{waves} leave no SM without a tile in the last"
    return "dynamic", f"of {waves}, the last one's tiles go to the SMs that are free first (a guess, nothing measured)"
