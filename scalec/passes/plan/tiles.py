"""What tiles there can be: why one cannot, of registers, shared memory, scale blocks and how it is shared out."""

from __future__ import annotations

import math

from scalec.formats import TRANSFORMED, WHOLE
from scalec.ir.schedule import LANES, STAGED, Request, Schedule
from scalec.ir.tile import CHUNK
from scalec.passes.plan.converted import in_registers, no_registers
from scalec.passes.plan.draft import draft
from scalec.passes.plan.gather import no_gather, own_rows
from scalec.passes.plan.items import cut_along, cuts_k
from scalec.passes.plan.joined_folds import MOST_HELD, held_columns
from scalec.passes.plan.mma_n import no_goes
from scalec.passes.plan.panes import no_panes
from scalec.passes.plan.registers import Registers, free_registers, most_accumulators, staging_registers
from scalec.passes.plan.resources import (
    converted_columns,
    copied_columns,
    register_file,
    result_columns,
    staged_widths,
    threads,
    turns,
    units,
)
from scalec.passes.plan.shared_blocks import together
from scalec.passes.plan.shared_memory import stages_that_fit
from scalec.passes.plan.sharing import SHARING
from scalec.passes.plan.swizzle import no_bulk_epilogue, no_panels, no_turned, staging
from scalec.passes.plan.tensor_columns import by_parts, sums_slots
from scalec.passes.plan.warps import too_wide
from scalec.passes.problem.result import ResultScale
from scalec.passes.problem.types import Problem
from scalec.targets import WAVES

PAIR = (2, 1)
"""The cluster of two CTAs that multiply together: they share the columns of a product (PTX ISA 9.7.16.5.1)."""


LANES_ROWS = WAVES["warp"]
"""Rows of a warp's fragment, whose blocks of scales it finds by itself."""

TURNED = ("tile", "cluster", "swizzle_a", "swizzle_b", "warps", "order")
"""Fields that mean another dimension or operand in the transposed problem: who decided one meant the program's."""


def keeps_sides(given: Request) -> bool:
    """Whether fields are decided that the transposed problem would turn, or that ask for bulk copies of the result's
    rows, so that `swap=1` is not chosen."""
    by_rows = given.epilogue in STAGED or given.staged or given.panels or given.adds == "loaded"
    return bool(by_rows) or any(getattr(given, name) is not None for name in TURNED)


def no_swap(problem: Problem) -> str:
    """Why a program cannot be computed transposed, "" where it can."""
    step = problem.family.m
    if problem.lhs.in_fragments:
        return f"{problem.lhs.name} is reordered for registers, which are the left operand's alone"
    if problem.column_fold is not None and problem.column_fold.along == problem.n.name:
        return f"rows of a tile would be indices of {problem.column_fold.dim}, over which {problem.names} is reduced"
    if problem.panes > 1:
        return f"{' and '.join(x.name for x in problem.rhs.panes)} lie side by side in a tile's columns, and not rows"
    for result in problem.results:
        if result.gaps is not None and (result.block > 1 or result.element.bits < 8 or not _across(problem)):
            return f"{result.name} has gaps along {result.coords[-1].dim}, around which rows of a tile are not stored"
    for scale in (r.scale for r in problem.results if r.scale is not None):
        if scale.ctas > 1:
            return f"{scale.ctas} CTAs share {scale.name}, of {scale.width} columns: rows of the transposed tile"
        if scale.block % LANES_ROWS or (scale.block > problem.family.adjacent_rows and not problem.kind.meets):
            return (
                f"{scale.name} has one scale for each {scale.block} columns, which are rows of the transposed tile: a "
                f"warp has {problem.family.adjacent_rows} adjacent ones, in waves of {LANES_ROWS}"
            )
    higher = sorted({r.block for r in problem.results if r.block > problem.family.adjacent_rows})
    if len(higher) > 1:
        names = " and ".join(r.scale.name for r in problem.results if r.scale is not None and r.block in higher)
        return (
            f"{names} have one scale for each {' and '.join(map(str, higher))} columns, which are rows of the "
            "transposed tile: more than a warp has, and warps meet by as many as share blocks of one height"
        )
    for scale in problem.rhs.promoted:
        if scale.rows not in (1, WHOLE) and scale.rows % step:
            return f"{scale.name} has one scale for each {scale.rows} of {problem.rhs.rows}, not a multiple of {step}"
    return ""


def must_swap(problem: Problem) -> str:
    """Why a program is computed transposed, whatever its sizes; "" where it need not be."""
    if problem.rhs.in_fragments:
        return f"{problem.rhs.name} is reordered for registers, which are the left operand's alone"
    return _across(problem)


def _across(problem: Problem) -> str:
    """Likewise for what columns of its tiles have."""
    if problem.lhs.others:
        names = " and ".join(x.name for x in problem.lhs.panes)
        return f"{names} have the rows of results, and lie side by side in columns of a tile"
    if problem.column_fold is None or problem.column_fold.along != problem.m.name:
        return ""
    return f"{problem.names} is reduced over {problem.column_fold.dim}, indices of which are columns of a tile"


def no_group(problem: Problem, ctas: int) -> str:
    """Why so many CTAs cannot multiply together, "" where they can."""
    if not problem.family.columns(ctas):
        return (
            f"{problem.target.name} has no product of {problem.lhs.element.name} and {problem.rhs.element.name} by "
            f"{ctas} CTAs together"
        )
    if ctas > 1 and (reason := together(problem)):
        return f"{reason}, along the columns, and two that multiply together lie along the rows"
    if ctas > 1 and problem.converts:
        return f"each CTA converts its own tiles, and {ctas} multiply by one's leave"
    if ctas > 1 and problem.k_lookups:
        return own_rows(problem)
    deepest = problem.target.swizzles[0] * 8 // min(x.shared_bits for x in (problem.lhs, problem.rhs))
    if ctas > 1 and cuts_k(problem, deepest):
        return _cut_alone(problem, ctas)
    if ctas == 1 or not problem.half_bytes:
        return ""
    return (
        f"rows of {problem.k.name} = {problem.k.size} end in half a byte: a CTA zeroes the other half in its own "
        "shared memory, and a product of several CTAs reads several"
    )


def _cut_alone(problem: Problem, ctas: int) -> str:
    return f"each CTA cuts its own tiles where a range of {problem.k.name} ends, and {ctas} multiply by one's leave"


def no_halves(problem: Problem, tile: tuple[int, ...], ctas: int) -> str:
    """Why the columns of a tile cannot be shared out to so many CTAs that multiply together, "" where they can."""
    columns = problem.family.columns(ctas)
    if not columns:
        return no_group(problem, ctas)
    if ctas > 1 and cuts_k(problem, tile[2]):
        return _cut_alone(problem, ctas)
    if (ctas > 1 or problem.kind.warps > 1) and tile[1] not in columns:
        together = f" of {ctas} CTAs" if ctas > 1 else ""
        return f"{tile[1]} columns, and a product{together} has {problem.family.columns_said(ctas)}"
    return no_panels(problem.target, problem.rhs, tile[1] // ctas) if problem.rhs.mn_major else ""


def cuts_result(problem: Problem, schedule: Schedule) -> str:
    """Why a tile's columns do not hold whole blocks of a result's scales, or of its transforms, "" where they do, and
    each unit's too."""
    scales = (r.scale for r in problem.results if r.scale is not None)
    reason = next((reason for scale in scales if (reason := cuts_blocks(problem, scale, schedule))), "")
    return reason or cuts_transforms(problem, schedule)


def cuts_transforms(problem: Problem, schedule: Schedule) -> str:
    """Likewise of what is transformed. A wave of rows has whole ones."""
    of = next((r.name for r in problem.results if r.transformed and not problem.swapped), "")
    for columns in (result_columns(problem, schedule), converted_columns(problem, schedule)) if of else ():
        if (own := columns // units(problem, schedule)[1]) % TRANSFORMED:
            return f"{own} columns of a warp: {of} is transformed by {TRANSFORMED} of them"
    return ""


def cuts_column_fold(problem: Problem, schedule: Schedule) -> str:
    """Why a tile's columns do not hold all terms of what results reduce, "" where they do, and each unit's too."""
    fold, columns = problem.column_fold, schedule.tile[1]
    if fold is None:
        return ""
    if reason := must_swap(problem):
        return reason
    along_n, terms = units(problem, schedule)[1], f"{problem.names} reduces each {fold.size}"
    if columns % fold.size:
        return f"columns that are no multiple of {fold.size}: {terms}"
    if columns // along_n % fold.size:
        return f"{columns} columns for {along_n} who share them: {terms}"
    if copied_columns(schedule) % problem.rhs.inner:
        return f"{columns} columns, half of which each CTA copies: {problem.rhs.name} has {fold.size} together"
    together = converted_columns(problem, schedule) // along_n
    return f"columns converted {together} at a time: {terms}" if together % fold.size else ""


COPIED_TO = 128
"""Bytes of shared memory at a multiple of which a tensor copy's box begins (PTX ISA 9.7.9.27.5.2, dstMem)."""


OF_PAGES = {"wgmma": 8, "mma": 8, "tcgen05": 16}
"""Copies of a tile that cuts pages, by kind of kernel: with 16 the thread that copies spilled 20 bytes and more beside
consumers that have its registers (sm_90a and sm_120a, 40 a thread, ptxas 13.0, 2026-11-28), with 8 it did not."""


def cuts_pages(problem: Problem, schedule: Schedule) -> str:
    """Why a tile does not have whole pages of an operand, or a page whole tiles, where that is asked for, or copies of
    what it has of each begin where none does, "" otherwise."""
    rows, depth = schedule.tile[:2], schedule.tile[2]
    for operand in problem.paged_k:
        if operand.page_k % depth:
            return f"{depth} {problem.k.name}, and {operand.name} has pages of {operand.page_k}"
    for operand, count in zip((problem.lhs, problem.rhs), rows, strict=True):
        if not operand.pages or not (count % operand.page and operand.page % count):
            continue
        cut = f"{count} {operand.rows}, and {operand.name} has pages of {operand.page}"
        if problem.whole_pages:
            return cut
        together = math.gcd(count, operand.page)
        row = min(operand.copied_bytes(depth), max(problem.target.swizzles))
        if together * row % COPIED_TO:
            return f"{cut}: copies of {together} rows of {row} bytes begin at no multiple of {COPIED_TO}"
        if count // together > (most := OF_PAGES[problem.kind.name]):
            return f"{cut}: {count // together} copies of {together} rows, and a thread has registers for {most}"
    return ""


def narrow_boxes(problem: Problem, tile_k: int) -> str:
    """Why a tile's K is too short for copies of an operand's rows, "" where it is not: the inner extent of a box is a
    multiple of 16 bytes (CUDA driver API, cuTensorMapEncodeTiled: boxDim)."""
    align = problem.target.tma_align
    for operand in (problem.lhs, problem.rhs):
        if not operand.mn_major and (size := operand.copied_bytes(tile_k)) % align:
            return f"{size} bytes of a row of {operand.name}, and copies bring multiples of {align}"
    return ""


def cuts_new_scales(problem: Problem, tile: tuple[int, int, int]) -> str:
    """Why a tile does not have whole blocks of operands that are quantised anew, or not for whole warps, "" where it
    does."""
    for operand, rows in zip((problem.lhs, problem.rhs), tile[:2], strict=True):
        made, chunks = operand.made, operand.shared_bytes(tile[2]) // CHUNK
        if made is not None and tile[2] % made.k:
            return f"{tile[2]} of {problem.k.name}, and {made.name} has a scale for each {made.k}, found of a tile's"
        if made is not None and rows * chunks % LANES:
            return f"{rows} {operand.rows} and {tile[2]} of {problem.k.name}: {made.name} is found by whole warps"
    return ""


def cuts_lookups(problem: Problem, schedule: Schedule) -> str:
    """Why tiles of a result with scales cannot end where lookups change along its columns, "" where they do not: what
    is stored there are whole words of scales, and what pads a row's last one."""
    columns, axis = (problem.m, 0) if problem.swapped else (problem.n, 1)
    scale = next((r.scale for r in problem.results if r.scale is not None), None)
    if scale is None or cut_along(problem, schedule) != columns.name:
        return ""
    extent = (schedule.tile[0], result_columns(problem, schedule))[axis] * max(
        schedule.cluster[axis], (schedule.cta_group, 1)[axis]
    )
    return (
        f"tiles of {extent} {columns.name}, and {problem.constant_lookups[0].name} changes after each "
        f"{problem.blocks[1]}: {scale.name} has one for several"
    )


def cuts_blocks(problem: Problem, scale: ResultScale, schedule: Schedule) -> str:
    """Likewise of the blocks of one result's scales."""
    (rows, _, _), columns, (along_m, along_n) = (
        schedule.tile,
        result_columns(problem, schedule),
        units(problem, schedule),
    )
    if problem.swapped:
        own = rows // along_m
        if problem.kind.warps == 1 and own % scale.block:
            return f"{rows} rows for {along_m} warps: {scale.name} has one for each {scale.block} rows of it"
        if rows % scale.block:
            return f"rows that are no multiple of {scale.block}: {scale.name} has one for each {scale.block} of them"
        return ""
    if columns % scale.block:
        return f"columns that are no multiple of {scale.block}: {scale.name} has one for each {scale.block}"
    if scale.ctas > 1 and columns != scale.block:
        return (
            f"{columns} columns: the tiles of {scale.ctas} CTAs have the {scale.width} that share one of {scale.name}"
        )
    # warps may find a scale together where they hold all sums of a tile at once
    own, shares = columns // along_n, not by_parts(problem, schedule)
    if own % scale.block and not (shares and scale.block % own == 0):
        return f"{columns} columns for {along_n} warps: {scale.name} has one for each {scale.block} columns"
    if along_n > 1 and scale.block % own == 0:
        return ""
    together = converted_columns(problem, schedule) // along_n
    if together % scale.block:
        return f"columns converted {together} at a time: {scale.name} has one for each {scale.block}"
    return ""


def misfit(problem: Problem, given: Request, spare: int) -> str:
    """Why the tile of `given` is not chosen, "" where it is: it cannot be (`planned`), or by the estimates a consumer
    thread has no `spare` registers beside what it needs."""
    plan, reason = planned(problem, given)
    if reason:
        return reason
    if problem.column_fold is not None and problem.kind.tensor_memory and sums_slots(problem, plan) < 2:
        return "one accumulator in tensor memory: products would wait until its columns are reduced"
    if (held := held_columns(problem, plan)) > MOST_HELD:
        return f"{held} values of columns that a thread would have, expected at most {MOST_HELD}"
    if spared(problem, given, plan) < spare:
        return f"more than the {plan.registers[1]} registers of a consumer thread"
    if Registers.of(problem, plan).accumulators > most_accumulators(problem):
        return "too few registers of a thread beside the sums for the elementwise expression"
    return ""


def spared(problem: Problem, given: Request, plan: Schedule) -> int:
    """Registers that a consumer thread of a `plan` for `given` keeps free, estimated."""
    return free_registers(problem, plan) - staging_registers(problem, given.epilogue, plan.promote)


def planned(problem: Problem, given: Request) -> tuple[Schedule, str]:
    """What follows from the tile of `given`, and why that cannot be, "" where it can: two stages (without a staged
    epilogue, unless decided), scales of the result that are cut evenly, registers that are too few for the sums
    alone."""
    plan = draft(problem, given)
    reason = SHARING[problem.kind.name].misfit(problem.family, plan.tile, plan.warpgroups // turns(plan), plan.warps)
    reason = (
        reason
        or cuts_pages(problem, plan)
        or cuts_column_fold(problem, plan)
        or cuts_result(problem, plan)
        or cuts_new_scales(problem, plan.tile)
        or cuts_lookups(problem, plan)
    )
    if reason:
        return plan, reason
    uneven = (row for row in staged_widths(problem, plan) if given.swizzle_c and row % given.swizzle_c)
    if (row := next(uneven, 0)) and not no_bulk_epilogue(problem, plan):
        return plan, f"rows of {row} bytes of results, which a swizzle of {given.swizzle_c} does not divide"
    reason = no_registers(problem, plan) if in_registers(plan) else ""
    reason = reason or no_panes(problem, plan) or no_gather(problem, plan)
    reason = reason or (no_panels(problem.target, problem.lhs, plan.tile[0]) if problem.lhs.mn_major else "")
    reason = reason or no_halves(problem, plan.tile, plan.cta_group)
    for operand, rows in zip((problem.lhs, problem.rhs), plan.tile[:2], strict=True):
        reason = reason or no_turned(problem.target, operand, rows)
    if reason:
        return plan, reason
    if plan.epilogue in STAGED:
        plan = staging(problem, given, plan)
    return plan, no_goes(problem, plan) or _no_room(problem, given, plan)


def _no_room(problem: Problem, given: Request, plan: Schedule) -> str:
    """Why a plan for `given` has no room in registers, tensor memory or shared memory, "" where it has."""
    family, entering = problem.family, threads(problem, plan)
    entry, most = problem.target.entry_registers(entering), plan.registers[1]
    if given.registers and register_file(problem, plan) > (pool := entry * entering):
        return f"{register_file(problem, plan)} registers, and the {entering} threads of a CTA enter with {pool}"
    if Registers.of(problem, plan).total > most:  # as check-schedule has it
        return f"more than the {most} registers of a consumer thread"
    several = plan.promote or problem.terms
    if family.kind.tensor_memory and several and sums_slots(problem, plan) < 2:
        return "one accumulator in tensor memory: products would wait until its sums are added up"
    if reason := too_wide(problem, plan.mma_n or plan.tile[1], entering):
        return reason
    stages = plan.stages or 2
    if stages_that_fit(problem, plan) < stages:
        return f"{stages} stages do not fit into {problem.target.shared_bytes} bytes of shared memory"
    return ""
