"""The depth of the ring of stages, and what the main loop overlaps."""

from __future__ import annotations

from scalec.errors import ScheduleError
from scalec.ir.schedule import Request, Schedule
from scalec.passes.base import Decision
from scalec.passes.plan.column_factors import factor_registers
from scalec.passes.plan.draft import draft
from scalec.passes.plan.loop import few_blocks, no_early_wait, usual_unroll
from scalec.passes.plan.parts import k_blocks, no_unroll, part_blocks
from scalec.passes.plan.registers import free_registers
from scalec.passes.plan.resources import asked_ahead
from scalec.passes.plan.shared_memory import SharedPlan, stages_that_fit
from scalec.passes.plan.tensor_columns import scale_slots, sums_slots
from scalec.passes.problem.types import Problem

MAX_STAGES = 8
"""Small tiles would fit more; their copies are never all on the way at once."""


ASKED_STAGES = 3
"""Tiles ahead of which copies are where a fold's own reads wait behind them in memory (`asked_ahead`): of pages, five
took 1.00 to 1.02 of the time of three, with two tokens a sequence four did (H100, 2026-11-27)."""


class ChooseStages(Decision):
    """Decides `stages` (as many as fit, up to eight, and are whole rounds of what is in tensor memory), `scale_path`,
    `early_wait` and `unroll`.

    Testing the next stage's barrier before the promotion: +2 to +4 % with two consumer warpgroups. Scales by bulk copy:
    8 to 12 % faster than plain loads at K >= 7168. Both: H200, 2026-11-21, FP8 1x128 by 128x128. Several K blocks in
    one iteration (UNROLL) where K is known, as the remainder would be a second loop, and where the registers suffice.

        #scale.schedule<{tile = array<i64: 256, 128, 128>, warpgroups = 2, promote = 128, epilogue = "bulk", ...}>
    -->
        #scale.schedule<{..., stages = 3, scale_path = "bulk", early_wait = 1, unroll = 2}>
    """

    name = "choose-stages"
    needs = ("tile", "warpgroups", "promote", "epilogue")

    def choose(self, problem: Problem, given: Request) -> Request:
        plan = draft(problem, given)
        most = min(MAX_STAGES, stages_that_fit(problem, plan))
        if asked_ahead(problem, plan) and (blocks := part_blocks(problem, plan)[0]):
            most = min(most, max(2, ASKED_STAGES * blocks))
        stages = given.stages or in_whole_rounds(problem, plan, most)
        if stages < 2:
            known = given.with_fields(scale_path=plan.scale_path)
            raise ScheduleError(
                f"two stages of {known} do not fit into shared memory",
                got=str(SharedPlan.of(problem, plan.with_fields(stages=2))),
                expected=f"at most {problem.target.shared_bytes} bytes on {problem.target.name}",
                fix="a smaller tile" + ("" if plan.epilogue == "direct" else ", or epilogue=direct"),
            )
        waits = no_early_wait(problem, plan.promote)
        return given.with_fields(
            stages=stages,
            scale_path=plan.scale_path,
            early_wait=int(problem.kind.warpgroup_sums and plan.warpgroups == 2 and not waits),
            unroll=given.unroll or unroll_of(problem, plan.with_fields(stages=stages)),
        )


def in_whole_rounds(problem: Problem, schedule: Schedule, most: int) -> int:
    """The most stages, up to `most`, that are whole rounds of the rings in tensor memory, if there are any: the loop
    that issues products then knows each stage's accumulator and scales. Instructions a product with promotion: 9.1 with
    seven stages and four accumulators, 6.8 with six and three (FP8 1x128 by 128x128, ptxas 13.0, 2026-11-21)."""
    if not problem.kind.tensor_memory:
        return most

    def whole(stages: int) -> bool:
        decided = schedule.with_fields(stages=stages)
        rings = [scale_slots(problem, decided), *([sums_slots(problem, decided)] if schedule.promote else [])]
        return all(stages % slots == 0 for slots in rings)

    return next((n for n in range(most, 1, -1) if whole(n)), most)


def unroll_of(problem: Problem, schedule: Schedule) -> int:
    """K blocks in one iteration: all of few (`few_blocks`), else those of UNROLL, or one where K is not known, a part
    of K is no multiple of them, or the registers do not suffice.

    Where one thread issues products, a round of the stages, so that their addresses are constants; one block where K
    has no round. Instructions a product: 8.3 with one block, 6.5 with a round of five (BF16), 10.0 and 7.9 (MXFP8),
    11.3 and 9.7 (FP8 1x128 by 128x128), 19.3 and 18.3 (NVFP4, of four, whose thread copied scales too; ptxas 13.0,
    2026-11-21).
    """
    if problem.kind.tensor_memory:
        few = problem.depth is not None and k_blocks(problem, schedule) < schedule.stages
        round_ = schedule.with_fields(unroll=schedule.stages)
        return 1 if few or no_unroll(problem, round_) else schedule.stages
    if problem.lhs.addends:  # of which an iteration has both ways
        return 1
    usual = usual_unroll(schedule)
    whole = part_blocks(problem, schedule)[0] if few_blocks(problem, schedule) else usual

    def suits(blocks: int) -> bool:
        tried = schedule.with_fields(unroll=blocks)
        short = factor_registers(problem, tried) and free_registers(problem, tried) < 0
        return not short and not no_unroll(problem, tried)

    return next((blocks for blocks in (whole, usual) if suits(blocks)), 1)
