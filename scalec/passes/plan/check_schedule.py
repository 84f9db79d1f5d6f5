"""Refuses a schedule that cannot exist, whoever decided it, before anything is emitted for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scalec.abi import MOST_CTAS
from scalec.errors import ScheduleError, UnsupportedError
from scalec.ir import schedule as schedules
from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.passes.base import problem_of, programs
from scalec.passes.plan import check_results, check_tiles
from scalec.passes.plan.converted import in_registers, no_addends, no_registers, warps_make
from scalec.passes.plan.copier import no_copier
from scalec.passes.plan.gather import no_gather, no_shared_gather
from scalec.passes.plan.loop import no_early_wait
from scalec.passes.plan.mma_n import no_goes, no_mma_n, widths
from scalec.passes.plan.panes import no_panes
from scalec.passes.plan.parts import (
    clusters_of,
    k_blocks,
    no_columns,
    no_meeting,
    no_memory,
    no_parts,
    no_unroll,
    not_known,
    sums,
    unknown,
)
from scalec.passes.plan.promotion import promotions
from scalec.passes.plan.registers import Registers
from scalec.passes.plan.resources import deepest, no_bulk_scales, other_warpgroups, register_file, threads, turns
from scalec.passes.plan.shared_memory import SharedPlan
from scalec.passes.plan.sharing import SHARING
from scalec.passes.plan.stationary import no_stationary
from scalec.passes.plan.tensor_columns import scale_copies
from scalec.passes.plan.tiles import PAIR, must_swap, no_group, no_swap
from scalec.passes.plan.turns import READ, no_pingpong, no_run, no_scheduler
from scalec.passes.plan.warps import most_converters, too_wide
from scalec.passes.problem import read_pointwise
from scalec.passes.problem.contraction import contractions
from scalec.passes.problem.types import Problem
from scalec.sizes import MOST
from scalec.targets import MAX_BOX, Target

COUNTED = 2**32 - 1
"""Up to where kernels count."""


class CheckSchedule:
    """Leaves the IR as it is, or refuses it with the numbers needed and available.

        #scale.schedule<{tile = array<i64: 256, 128, 128>, ..., stages = 3}>
    -->
        the same
    """

    name = "check-schedule"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            if not contractions(function):
                read_pointwise.read(function, target)
                decided = [x for x in schedules.read(function).decided() if x != "invariant"]
                if decided:
                    raise ScheduleError(
                        f"schedule field {decided[0]} is of a contraction, and the program has none",
                        expected="no field, or invariant",
                        fix=f"leave {decided[0]} out",
                    )
                continue
            schedule = schedules.read(function).complete()
            problem = problem_of(function, target, schedule)
            for check in CHECKS:
                check(problem, schedule)


def _warps(problem: Problem, schedule: Schedule) -> None:
    SHARING[problem.kind.name].check_warps(problem, schedule, schedule.warpgroups // turns(schedule))


def _swap(problem: Problem, schedule: Schedule) -> None:
    written = problem.transposed() if schedule.swap else problem
    must, cannot = must_swap(written), no_swap(written)
    if must and cannot:  # whatever else the schedule is
        raise UnsupportedError(
            "neither swap=0 nor swap=1 is possible",
            got=f"{must}; {cannot}",
            fix="one program for each product, or reduction",
            place=problem.place,
        )
    if schedule.swap and cannot:
        raise ScheduleError("swap=1 is not possible", got=cannot, fix="swap=0")
    if must and not schedule.swap:
        raise ScheduleError("swap=0 is not possible", got=must, fix="swap=1")


def _consumers(problem: Problem, schedule: Schedule) -> None:
    reason = no_pingpong(problem, schedule)
    if schedule.consumers == "pingpong" and reason:
        raise ScheduleError("consumers=pingpong is not possible", got=reason, fix="consumers=cooperative")


def _converters(problem: Problem, schedule: Schedule) -> None:
    if schedule.convert == "addends" and (reason := no_addends(problem)):
        raise ScheduleError("convert=addends is not possible", got=reason, fix="convert=registers")
    made = [x for x in (problem.lhs, problem.rhs) if x.in_fragments]
    if made and not (in_registers(schedule) and problem.lhs.in_fragments):
        got = f"{made[0].name} is reordered for registers"
        raise ScheduleError(f"convert={schedule.convert} is not possible", got=got, fix="convert=registers")
    if in_registers(schedule) and (reason := no_registers(problem, schedule)):
        raise ScheduleError(f"convert={schedule.convert} is not possible", got=reason, fix="convert=shared")
    most, converts = most_converters(problem), warps_make(problem, schedule)
    if bool(schedule.converters) != converts or schedule.converters > most:
        which = "an operand is converted" if problem.converts else "no operand is converted"
        if in_registers(schedule):
            which = (
                f"warps convert {problem.rhs.name}"
                if converts
                else f"consumers convert {problem.lhs.name} in registers"
            )
        if schedule.converters > most:
            which = f"{problem.folds[0].name} is added up by one warpgroup"
        several = "1" if most == 1 else f"1 to {most}"
        raise ScheduleError(
            f"converters={schedule.converters}, and {which}",
            expected=several if converts else "0",
            fix="leave converters out",
        )


def _tile_rows(problem: Problem, schedule: Schedule) -> None:
    SHARING[problem.kind.name].check_rows(problem, schedule, schedule.warpgroups // turns(schedule))


def _box(problem: Problem, schedule: Schedule) -> None:
    for axis, extent in zip(("M", "N"), schedule.tile[:2], strict=True):
        if extent > MAX_BOX:
            raise ScheduleError(
                f"tile {axis} = {extent} is more rows than one bulk copy brings",
                expected=f"at most {MAX_BOX}",
                fix=f"tile {axis} = {MAX_BOX}",
            )


def _tile_columns(problem: Problem, schedule: Schedule) -> None:
    SHARING[problem.kind.name].check_columns(problem, schedule)


def _panes(problem: Problem, schedule: Schedule) -> None:
    if reason := no_panes(problem, schedule):
        raise ScheduleError(f"tile N = {schedule.tile[1]} is not possible", got=reason, fix="leave tile out")


def _cluster(problem: Problem, schedule: Schedule) -> None:
    along_m, along_n = schedule.cluster
    if along_m * along_n > problem.target.max_cluster:
        raise ScheduleError(
            f"a cluster of {along_m}x{along_n} is {along_m * along_n} CTAs",
            expected=f"at most {problem.target.max_cluster} on {problem.target.name}",
            fix=f"cluster={schedule.cta_group}x1",
        )
    size, pairs = along_m * along_n, along_m // schedule.cta_group
    if min(pairs, along_n) > 1 or size & (size - 1):
        raise ScheduleError(
            f"a cluster of {along_m}x{along_n} shares tiles in two directions or is no power of two",
            expected="1x1, 1x2, 2x1, 1x4, 4x1, ...: one operand's tile is multicast to all its CTAs"
            if schedule.cta_group == 1
            else "2x1, 2x2, 4x1, 2x4, ...: pairs of CTAs share one operand's tile",
            fix=f"cluster={schedule.cta_group}x1",
        )


def _gather(problem: Problem, schedule: Schedule) -> None:
    reason = no_gather(problem, schedule)
    if reason:
        shared = no_shared_gather(problem, schedule.cluster, schedule.cta_group)
        wide = problem.target.swizzles[0] * 8 // max(x.shared_bits for x in (problem.lhs, problem.rhs))
        raise ScheduleError(reason, fix=f"cluster={schedule.cta_group}x1" if shared == reason else f"tile K = {wide}")


def _cta_group(problem: Problem, schedule: Schedule) -> None:
    group = schedule.cta_group
    if reason := no_group(problem, group):
        even = f", or an even {problem.k.name}: pad both operands with zeros" if problem.family.columns(group) else ""
        raise ScheduleError(f"cta_group = {group}, and {reason}", fix=f"cta_group=1{even}")
    along_m, along_n = schedule.cluster
    if along_m % group:
        raise ScheduleError(
            f"cta_group = {group} with a cluster of {along_m}x{along_n}",
            expected=f"a multiple of {group} along M: CTAs that multiply together are adjacent there",
            fix=f"cluster={PAIR[0]}x{PAIR[1]}, or cta_group=1",
        )


def _split(problem: Problem, schedule: Schedule) -> None:
    split = schedule.split
    if split > 1 and problem.queued:
        raise ScheduleError(f"split = {split}, and {READ}", expected="split = 1: items are whole tiles", fix="split=1")
    if split > 1 and (reason := no_parts(problem)):
        raise ScheduleError(f"split = {split}, and {reason}", expected="split = 1", fix="split=1")
    if split > 1 and problem.depth is None:
        raise ScheduleError(
            f"split = {split} and {not_known(problem)}",
            expected="split = 1: a part without K blocks would have no sums",
            fix=f"give {' and '.join(unknown(problem))} in dims",
        )
    blocks = k_blocks(problem, schedule)
    if split > 1 and blocks < split:
        raise ScheduleError(
            f"split = {split} and {sums(problem)} has {blocks} blocks of {schedule.tile[2]}",
            expected="at least one K block for each part",
            fix=f"split={max(1, blocks)}, or less",
        )

    if split * blocks > COUNTED:
        raise ScheduleError(
            f"split = {split} and {sums(problem)} has {blocks} blocks of {schedule.tile[2]}",
            expected=f"at most {COUNTED} for all parts together: a kernel counts them in 32 bits",
            fix=f"split={COUNTED // blocks}, or a longer tile K",
        )


def _sums(problem: Problem, schedule: Schedule) -> None:
    """Refuses known sizes of longer sums over several dimensions than a kernel counts; of others the runtime does
    (abi.Launch.length)."""
    length = k_blocks(problem, schedule) * schedule.tile[2]
    if (problem.summed or problem.added) and length > MOST:
        raise UnsupportedError(
            f"sums over {sums(problem)} have {length} products",
            expected=f"at most {MOST}: a kernel counts them in 32 bits",
            fix=f"call the kernel for parts of {(*problem.summed, problem.k)[0].name}, with +=",
        )


def _tiles(problem: Problem, schedule: Schedule) -> None:
    """Refuses known sizes of more tiles than a kernel counts; of others the runtime does (abi.Launch.ctas)."""
    dims = (*problem.outer, problem.m, problem.n)
    if any(d.size is None for d in dims):
        return
    ctas = clusters_of(problem, schedule.tile, schedule.cluster) * math.prod(schedule.cluster) * schedule.split
    if ctas > MOST_CTAS:
        raise UnsupportedError(
            f"{' by '.join(f'{d.name} = {d.size}' for d in dims)} are {ctas} tiles of "
            f"{'x'.join(map(str, schedule.tile[:2]))}",
            expected=f"at most {MOST_CTAS}, the largest grid",
            fix=f"call the kernel for parts of {' or '.join(d.name for d in dims)}",
        )


def _parts(problem: Problem, schedule: Schedule) -> None:
    several, in_memory = schedule.split > 1, no_memory(problem)
    in_cluster = no_meeting(problem, schedule.cluster, schedule.split, schedule.scheduler)
    reason, fix = "", "parts=memory"
    if schedule.parts == "cluster" and in_cluster:
        reason, fix = in_cluster, "split=1" if several and in_memory else fix
    elif schedule.parts == "columns":
        reason, fix = no_columns(problem, schedule), "leave parts out" if in_memory else fix
    elif schedule.parts == "memory" and several and in_memory:
        reason, fix = in_memory, "split=1" if in_cluster else "parts=cluster"
    if reason:
        raise ScheduleError(f"parts={schedule.parts} is not possible", got=reason, fix=fix)


def _scheduler(problem: Problem, schedule: Schedule) -> None:
    reason, able = no_scheduler(problem, schedule.scheduler), "queue" if problem.queued else "static"
    if reason:
        raise ScheduleError(f"scheduler={schedule.scheduler} is not possible", got=reason, fix=f"scheduler={able}")
    if schedule.run > 1 and (reason := no_run(problem, schedule)):
        raise ScheduleError(f"run={schedule.run} is not possible", got=reason, fix="run=1")


def _promotion(problem: Problem, schedule: Schedule) -> None:
    k, promote = schedule.tile[2], schedule.promote
    able = promotions(problem, k)
    if promote in able:
        return
    expected = "0 (sums stay in the tensor core)"
    if able[:-1]:
        expected += f", or {_listed(able[:-1])} (they leave it with every tile, or part)"
    fix = "promote=0"
    if problem.has_scales:
        k_able = k if able else deepest(problem)
        able = promotions(problem, k_able)
        expected = f"tile K = {k_able} and promote = {_listed(able)}: scales change along {problem.k.name}"
        fix = f"promote={able[0]}" + f" with tile K = {k_able}" * (k_able != k)
    raise ScheduleError(f"promote = {promote} with tile K = {k}", expected=expected, fix=fix)


def _listed(values: Sequence[int]) -> str:
    return " or ".join(map(str, values))


def _registers(problem: Problem, schedule: Schedule) -> None:
    target, warpgroups = problem.target, schedule.warpgroups
    others, entering = other_warpgroups(problem, schedule), threads(problem, schedule)
    for role, count in zip(("producer", "consumer"), schedule.registers, strict=True):
        if count not in target.setmaxnreg:
            low, high = target.setmaxnreg[0], target.setmaxnreg[-1]
            raise ScheduleError(
                f"{count} registers for a {role} thread",
                expected=f"a multiple of {target.setmaxnreg.step} from {low} to {high}",
                fix="leave registers out",
            )
    entry, file = target.entry_registers(entering), register_file(problem, schedule)
    # what setmaxnreg moves between roles is what the CTA was given at entry; beyond it the last increase never returns
    pool = entry * entering
    if file > pool:
        raise ScheduleError(
            f"{f'{others} x ' if others > 1 else ''}{schedule.registers[0]} and {warpgroups} x "
            f"{schedule.registers[1]} registers a thread are {file} a CTA",
            expected=f"at most {pool}: {entering} threads enter with {entry} each",
            fix="leave registers out",
        )
    if reason := too_wide(problem, schedule.mma_n or schedule.tile[1], entering):
        raise ScheduleError(
            f"tile N = {schedule.tile[1]} of {entering} threads: {reason}", fix="fewer columns, or fewer warpgroups"
        )
    need = Registers.of(problem, schedule)
    if need.total > schedule.registers[1]:
        copied = ", or copies for all results but one" if len(problem.results) > 1 else ""
        fixes = ["a smaller tile", *(["a smaller mma_n"] if schedule.mma_n else [])]
        fixes.append("consumers=cooperative" if schedule.consumers == "pingpong" else "more warpgroups")
        fixes += ["promote=0"] if schedule.promote and not problem.has_scales else []
        raise ScheduleError(
            f"a consumer thread needs about {need.total} registers: {need.accumulators} accumulators, {need.partials} "
            f"partial sums{copied}, {need.total - need.accumulators - need.partials} for the rest",
            got=f"registers={schedule.registers[0]}x{schedule.registers[1]}",
            fix=f"{', '.join(fixes[:-1])}, or {fixes[-1]}",
        )


def _unroll(problem: Problem, schedule: Schedule) -> None:
    if reason := no_unroll(problem, schedule):
        expected, fix = "parts of one length, a multiple of it", "unroll=1, or split=1"
        if problem.depth is None:
            expected = "unroll = 1: the remainder's loop might not run, and accumulators would come from two places"
            fix = "unroll=1" if problem.range_of_k else f"give {' and '.join(unknown(problem))} in dims"
        raise ScheduleError(f"unroll = {schedule.unroll} and {reason}", expected=expected, fix=fix)


def _stationary(problem: Problem, schedule: Schedule) -> None:
    reason = no_stationary(problem, schedule) or ("run=1: nothing to stay for" if schedule.run == 1 else "")
    if schedule.stationary and reason:
        raise ScheduleError("stationary=1 is not possible", got=reason, fix="stationary=0")


def _mma_n(problem: Problem, schedule: Schedule) -> None:
    mma_n, columns = schedule.mma_n, schedule.tile[1]
    if not (found := no_goes(problem, schedule)):
        return
    if schedule.stationary:
        raise ScheduleError(f"mma_n = {mma_n} with a tile of {columns} columns", expected=found, fix="leave mma_n out")
    if reason := no_mma_n(problem, schedule.promote):
        raise ScheduleError(f"mma_n = {mma_n} is not possible", got=reason, fix="mma_n=0")
    able = widths(problem, columns)
    raise ScheduleError(
        f"mma_n = {mma_n}, and a tile has {columns} columns, which instructions share out evenly",
        expected=", ".join(map(str, able)),
        fix=f"mma_n={next((n for n in able if n < mma_n), able[-1])}, or a tile of other columns",
    )


def _early_wait(problem: Problem, schedule: Schedule) -> None:
    reason = no_early_wait(problem, schedule.promote)
    if schedule.early_wait and reason:
        raise ScheduleError(f"early_wait = 1 {reason}", expected="0", fix="early_wait=0")


def _scale_path(problem: Problem, schedule: Schedule) -> None:
    reason = no_bulk_scales(problem, schedule.tile)
    if schedule.scale_path == "bulk" and reason:
        scale = "an f32@col scale" if problem.has_scales else "@blocked scales"
        raise ScheduleError("scale_path=bulk is not possible", got=reason, fix=f"scale_path=thread, or {scale}")


def _scale_copier(problem: Problem, schedule: Schedule) -> None:
    reason = no_copier(problem, schedule)
    if schedule.scale_copier and reason:
        copied = problem.kind.tensor_memory and scale_copies(problem, schedule)
        fix = "a tile of fewer columns, or scale_copier=0" if copied else "scale_copier=0"
        raise ScheduleError(f"scale_copier = 1, and {reason}", fix=fix)


def _shared_memory(problem: Problem, schedule: Schedule) -> None:
    plan = SharedPlan.of(problem, schedule)
    if plan.total > problem.target.shared_bytes:
        raise ScheduleError(
            f"the schedule needs {plan.total} bytes of shared memory and {problem.target.name} has "
            f"{problem.target.shared_bytes}",
            got=str(plan),
            fix="fewer stages, or a smaller tile" + ("" if schedule.epilogue == "direct" else ", or epilogue=direct"),
        )


CHECKS: tuple[Callable[[Problem, Schedule], None], ...] = (
    _swap,
    check_results.invariant,
    _consumers,
    _converters,
    _warps,
    _cta_group,
    _tile_rows,
    _tile_columns,
    check_tiles.tile_k,
    _box,
    _panes,
    _cluster,
    _gather,
    _sums,
    _split,
    _tiles,
    _parts,
    _scheduler,
    _promotion,
    check_results.result_blocks,
    check_results.folded_columns,
    check_results.whole_pages,
    _scale_copier,
    _stationary,
    _mma_n,
    _registers,
    check_results.staged_epilogue,
    check_results.adds,
    check_results.inputs,
    check_results.permuted_columns,
    _unroll,
    _early_wait,
    _scale_path,
    _shared_memory,
)
