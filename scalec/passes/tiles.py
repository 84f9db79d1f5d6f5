"""What tiles there can be: why one cannot, of registers, shared memory, scale blocks and how it is shared out."""

from __future__ import annotations

from scalec.formats import WHOLE
from scalec.ir.schedule import Schedule
from scalec.passes.choose_swizzle import no_panels, staged_waves
from scalec.passes.problem import Problem
from scalec.passes.resources import (
    Registers,
    free_registers,
    most_accumulators,
    path_of_scales,
    register_file,
    staged_columns,
    stages_that_fit,
    sums_slots,
    threads,
    units,
)
from scalec.passes.warp_specialize import REGISTERS, given_warpgroups, shared_out, warpgroups_for, warps_for
from scalec.targets import WARPGROUP

PAIR = (2, 1)
"""The cluster of two CTAs that multiply together: they share the columns of a product (PTX ISA 9.7.16.5.1)."""


INSTRUCTION = 26
"""Registers that an instruction's thread needs beside its sums, of those it has at entry: what ptxas 13.0 asks for at
256 columns and 128 registers (C7602), whatever setmaxnreg gives later."""

TURNED = ("tile", "cluster", "swizzle_a", "swizzle_b", "warps", "order")
"""Fields that mean another dimension or operand in the transposed problem: who decided one meant the program's."""


def no_swap(problem: Problem) -> str:
    """Why a program cannot be computed transposed, "" where it can."""
    step, result = problem.family.m, problem.result
    if result.group > 1:
        what = f"blocks of {result.block} columns" if result.scale else "whole bytes of a row"
        return f"{result.name} is {result.element.name} in {what}, which are rows of the transposed tile"
    for scale in problem.rhs.promoted:
        if scale.rows not in (1, WHOLE) and scale.rows % step:
            return f"{scale.name} has one scale for each {scale.rows} of {problem.rhs.rows}, not a multiple of {step}"
    return ""


def no_halves(problem: Problem, tile: tuple[int, ...], ctas: int) -> str:
    """Why the columns of a tile cannot be shared out to so many CTAs that multiply together, "" where they can."""
    columns = problem.family.columns(ctas)
    if ctas > 1 and tile[1] not in columns:
        return f"{tile[1]} columns, and a product of {ctas} CTAs has a multiple of {columns.step} up to {columns[-1]}"
    return no_panels(problem.target, problem.rhs, tile[1] // ctas) if problem.rhs.mn_major else ""


def cuts_result(problem: Problem, schedule: Schedule, tile: tuple[int, ...]) -> str:
    """Why a tile's columns do not hold whole blocks of the result's scales, "" where they do, and each unit's too."""
    scale, along_n = problem.result.scale, units(problem, schedule.with_fields(tile=tile))[1]
    if scale is None:
        return ""
    if tile[1] % scale.block:
        return f"columns that are no multiple of {scale.block}: {scale.name} has one for each {scale.block}"
    own, shares = tile[1] // along_n, problem.family.sums_in == "registers"  # warps may find a scale together
    if own % scale.block and not (shares and scale.block % own == 0):
        return f"{tile[1]} columns for {along_n} warps: {scale.name} has one for each {scale.block} columns"
    if along_n > 1 and scale.block % own == 0:
        return ""
    together = staged_columns(problem, schedule.with_fields(tile=tile)) // along_n
    if together % scale.block:
        return f"columns converted {together} at a time: {scale.name} has one for each {scale.block}"
    return ""


def misfit(problem: Problem, schedule: Schedule, tile: tuple[int, int, int], promote: int, spare: int) -> str:
    """Why a tile cannot be chosen, "" where it can: registers, two stages (without a staged epilogue, unless decided)
    and scales of the result that are cut evenly."""
    family = problem.family
    warpgroups = given_warpgroups(schedule) or warpgroups_for(family, tile, promote)
    warps = schedule.warps or warps_for(problem, tile, warpgroups)
    reason = shared_out(family, tile, warpgroups, warps)
    if reason:
        return reason
    reason = cuts_result(problem, schedule.with_fields(warpgroups=warpgroups, warps=warps, promote=promote), tile)
    if reason:
        return reason
    row = problem.result.element.bytes(staged_columns(problem, schedule.with_fields(tile=tile)))
    if schedule.swizzle_c and row % schedule.swizzle_c:
        return f"rows of {row} bytes of results, which a swizzle of {schedule.swizzle_c} does not divide"
    reason = no_panels(problem.target, problem.lhs, tile[0]) if problem.lhs.mn_major else ""
    reason = reason or no_halves(problem, tile, schedule.cta_group or 1)
    if reason:
        return reason
    plan = schedule.with_fields(
        tile=tile,
        warpgroups=warpgroups,
        warps=warps,
        registers=schedule.registers or REGISTERS[warpgroups],
        promote=promote,
        epilogue=schedule.epilogue or "direct",
    )
    if plan.epilogue == "bulk" and plan.staged is None:
        path = plan.scale_path or path_of_scales(problem, plan)
        plan = plan.with_fields(staged=staged_waves(problem, plan.with_fields(scale_path=path)), scale_path=path)
    entering = threads(problem, plan)
    pool = problem.target.entry_registers(entering) * entering
    if schedule.registers and register_file(problem, plan) > pool:
        return f"{register_file(problem, plan)} registers, and the {entering} threads of a CTA enter with {pool}"
    if free_registers(problem, plan, schedule.unroll or 1) < spare:
        return f"more than the {(plan.registers or (0, 0))[1]} registers of a consumer thread"
    if family.sums_in == "tensor" and promote and sums_slots(problem, plan) < 2:
        return "one accumulator in tensor memory: products would wait until its sums are added up"
    if family.kernel == "shared":
        sums = tile[1] * family.m // WARPGROUP
        entry = problem.target.entry_registers(entering)
        if sums + INSTRUCTION > entry:
            return f"sums of an instruction for more than the {entry} registers of a thread at entry"
    if Registers.of(problem, tile, warps, promote).accumulators > most_accumulators(problem):
        return "too few registers of a thread beside the sums for the elementwise expression"
    stages = schedule.stages or 2
    if stages_that_fit(problem, plan) < stages:
        return f"{stages} stages do not fit into {problem.target.shared_bytes} bytes of shared memory"
    return ""
