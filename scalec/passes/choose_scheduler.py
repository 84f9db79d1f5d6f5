"""Who deals out the tiles."""

from __future__ import annotations

from math import prod

from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.base import decide
from scalec.passes.problem import Problem
from scalec.targets import Target

FEWEST_WAVES = 4
"""Waves of tiles from which on differences between SMs are taken to add up to a tile. A guess: nothing was measured."""


class ChooseScheduler:
    """Decides `scheduler`: "dynamic" where there are FEWEST_WAVES waves of tiles or more and the last is not full.

    All tiles take equally long in the model, and then either takes as many waves. What the model leaves out is that SMs
    are not equally fast and may be shared: dealt out as they are begun, the tiles of the last wave go to the SMs that
    are free first, and those under way at a time stay neighbours in L2. Where that cannot gain a tile, the static order
    launches less and exchanges nothing.

        #scale.schedule<{tile = array<i64: 128, 256, 128>, cluster = array<i64: 1, 1>, split = 1 : i64, ...}>
    -->
        #scale.schedule<{..., scheduler = "dynamic"}>    (m = 4096, n = 7168: 896 tiles for 148 SMs with launch control)
    """

    name = "choose-scheduler"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(
            module,
            target,
            lambda problem, schedule: schedule.with_fields(scheduler=choice(problem, schedule)[0]),
            needs=("tile", "cluster", "split"),
        )


def choice(problem: Problem, schedule: Schedule) -> tuple[str, str]:
    """("static" or "dynamic", why) for a schedule whose tile, cluster and split are decided."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    target = problem.target
    reason = no_dynamic(problem)
    if reason:
        return "static", reason
    unknown = [d.name for d in (problem.m, problem.n) if d.size is None]
    if unknown:
        return "static", f"{' and '.join(unknown)} not known: how many tiles there are shows at the launch"
    pairs = zip((problem.m, problem.n), schedule.tile, schedule.cluster, strict=False)
    units = (schedule.split or 1) * prod(-(-d.tiles(extent, 0) // along) for d, extent, along in pairs)
    at_once = max(1, target.sms // prod(schedule.cluster))
    waves = f"{units / at_once:.1f} waves"
    if units < FEWEST_WAVES * at_once:
        return "static", f"{waves} are too few for differences between SMs to add up to a tile"
    if units % at_once == 0:
        return "static", f"{waves} leave no SM without a tile in the last"
    return "dynamic", f"of {waves}, the last one's tiles go to the SMs that are free first (a guess, nothing measured)"


def no_dynamic(problem: Problem) -> str:
    """Why tiles cannot be dealt out dynamically, "" where they can."""
    if problem.target.launch_control:
        return ""
    return f"{problem.target.name} has no cluster launch control"
