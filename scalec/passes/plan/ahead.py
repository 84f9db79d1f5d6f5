"""What L2 is asked for before a tile begins."""

from __future__ import annotations

from scalec.ir.schedule import Schedule
from scalec.passes.plan.resources import producer_warpgroups, threaded
from scalec.passes.problem.result import EpilogueInput
from scalec.passes.problem.types import Problem


def asked_ahead(problem: Problem, schedule: Schedule) -> list[EpilogueInput]:
    """What a fold reads of rows that are looked up, where a queue says which tiles there are and a warp of producers
    has nothing else to do: that takes items as they are posted. Consumers load it when they begin a tile, before the
    products, which device memory takes longer than."""
    sides = (problem.lhs, problem.rhs)
    busy = producer_warpgroups(problem, schedule) == 1 and any(threaded(problem, x, schedule) for x in sides)
    if not problem.queued or problem.column_fold is None or problem.kind.tensor_memory or busy:
        return []
    names = {x.name for x in problem.row_lookups}
    inputs = {(x.name, x.coords): x for r in problem.results for x in r.inputs if x.kind == "row"}
    return [x for x in inputs.values() if any(at.dim in names for at in x.coords)]
