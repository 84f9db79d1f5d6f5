"""How tiles of operands and results lie in shared memory: what can be, and what follows from a tile."""

from __future__ import annotations

from math import gcd, prod

from scalec.ir.schedule import MOST_INPUTS, MOST_PANELS, Request, Schedule
from scalec.ir.tile import LANES, VECTOR
from scalec.ir.tile_convert import MOST_MADE
from scalec.passes.plan.items import cut_along, cuts_k
from scalec.passes.plan.loaded_inputs import every_copied, most_boxes, no_loaded_inputs
from scalec.passes.plan.parts import at_once, part_blocks
from scalec.passes.plan.resources import staged_row, staged_widths, turns, units
from scalec.passes.plan.results import ONLY_REDUCED, no_loaded_result
from scalec.passes.plan.shared_memory import stages_that_fit
from scalec.passes.plan.warps import MAX_WARPGROUPS
from scalec.passes.problem.access import Dim
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem
from scalec.sizes import MOST
from scalec.targets import MOST_INDICES, PADDED_ROW, Target

STAGES_BESIDE_STAGING = 3
"""With fewer stages beside the staged result, at most one K block is on its way while one is multiplied."""

STAGED_BITS = 16
"""Of elements that are staged whole."""


PANELS = 1
"""Panels of wider elements that have room, where a wave has more: a second one takes a stage's room and gained nothing
(0.98 to 1.02 of the time with one)."""


def worth_staging(problem: Problem, given: Request, plan: Schedule) -> bool:
    """Whether results are known to reach memory sooner through shared memory, by bulk copies.

    Narrow elements are; where no swizzle divides a row those of less than 16 bits, unless a swizzle is decided. Wide
    ones are by panels where a warpgroup stores them. H200, 2026-11-21, FP8 1x128 by 1x128 at five sizes: f32 results
    are added to what is there in 0.82 to 0.97 of the time that loads and stores take with a tile of the same extents.
    On the other targets nobody has measured it.
    """

    def worth(of: Problem) -> bool:
        bits = of.result.element.bits
        if not widest(problem.target.swizzles, staged_row(of, plan)):
            return bits < STAGED_BITS and not given.swizzle_c
        return bits <= STAGED_BITS or bool(plan.panels and problem.kind.warps > 1)

    return all(map(worth, problem.each))


TURNED_COLUMNS = range(16, 65)
"""Columns of a tile, rows of the result, that elements of up to STAGED_BITS are turned in shared memory with. H200,
2026-11-23, FP8 1x128 by 128x128 at nine sizes of 16 to 32 rows, times as long as stores of registers: 0.97 to 1.00 with
bf16 results, 0.97 to 1.00 with MXFP8, 0.94 to 1.00 with NVFP4 and MXFP4; with 8 columns 0.98 to 1.01, f32 1.00 to 1.02.
"""


TURNED_SUMS = 64
"""Of a thread, up to which they are: of 126 kernels with more columns or sums ten spilled, with 88 sums the fewest,
which did not with stores of registers (ptxas 13.0, 2026-11-23)."""


def not_worth_turning(problem: Problem, schedule: Schedule) -> str:
    """Why a transposed result, which could be turned, leaves from registers; "" where it is turned."""
    (rows, columns, _), bits = schedule.tile, max(r.element.bits for r in problem.results)
    if bits > STAGED_BITS or columns not in TURNED_COLUMNS:
        return f"{columns} columns of {bits} bits are not known to gain by being turned"
    sums = rows * columns // (LANES * problem.kind.warps * prod(units(problem, schedule)))
    if sums > TURNED_SUMS:
        return f"beside {sums} sums a thread may have no registers for turning them"
    turned, direct = (stages_that_fit(problem, schedule.with_fields(epilogue=x)) for x in ("turned", "direct"))
    if turned < (schedule.stages or min(direct, STAGES_BESIDE_STAGING)):
        return "a turned tile would cost stages"
    return ""


LOADED_K = {"wgmma": 1024}
"""K up to which what results are added to is loaded. H200, 2026-11-22, FP8 1x128 by 1x128, times as long as copies that
add in memory, which L2 does at 1.1 TB/s: 0.70 to 0.74 at K = 512 (seven tiles), 1.03 to 1.1 and more from 1536 on; up
to 970 what is read and written takes longer than the products (predicted). By kinds of kernels that were measured."""


FEWEST_BOXES = 2
"""Of what results are computed of, on their way: with one a tile waits for each."""


def worth_loading(problem: Problem, given: Request, plan: Schedule) -> bool:
    """Whether results of a `plan` for `given` are known to be added sooner to what was loaded than in memory, or to be
    computed sooner of what copies bring into their place than of what threads load
    (docs/notes/results.md)."""
    most = LOADED_K.get(problem.kind.name, -1)
    short = problem.depth is not None and problem.depth <= most
    computed = not problem.results or problem.results[0].added is None
    if computed and (most < 0 or given.inputs or at_once(problem, plan) or len(every_copied(problem)) != 1):
        return False
    if not (computed or short) or given.epilogue not in (None, "bulk") or no_bulk_epilogue(problem, plan):
        return False
    wide = any(r.element.bits > STAGED_BITS for r in problem.results)  # which leave by panels else, beside a stage more
    plan = staging(problem, given, plan.with_fields(epilogue="bulk", adds="loaded"))
    wanted = max(STAGES_BESIDE_STAGING + (computed and wide), plan.stages)
    return not no_loaded_result(problem, plan) and stages_that_fit(problem, plan) >= wanted


def staging(problem: Problem, given: Request, plan: Schedule) -> Schedule:
    """A plan for `given`, which stores by bulk copies, with its `staged` and `panels`.

    Wide elements leave by PANELS panels of a wave, where it has more. Else all waves are staged at once (0) where that
    costs no stage, and one where units do not wait for each other, or do so while another tile is multiplied; by
    warpgroups a panel of one where `worth_more_stages`. Where what is there is loaded, more of it is on its way while a
    tile is multiplied the more has room: all, or as many panels as leave three stages.
    """
    if not problem.results:
        return plan.with_fields(panels=0, staged=0)
    panels, staged, loaded = given.panels, given.staged, plan.adds == "loaded"
    rows = staged_widths(problem, plan)
    most = min(rows) // (given.swizzle_c or staged_swizzle(problem.target, rows) or min(rows))
    if loaded and panels is None and staged is None:
        return _ahead(problem, plan, most)
    wide = any(r.element.bits > STAGED_BITS for r in problem.results)
    if panels is None:
        by_panels = wide and staged is None and not problem.kind.tensor_memory and not loaded
        panels = PANELS if by_panels and most > PANELS else 0
    if staged is not None or panels:
        return plan.with_fields(panels=panels, staged=1 if staged is None else staged)
    if problem.kind.warps > 1 and turns(plan) == 1 and not wide:
        whole, panel = plan.with_fields(panels=0, staged=0), plan.with_fields(panels=PANELS, staged=1)
        return panel if most > PANELS and worth_more_stages(problem, whole, panel) else whole
    all_, one, none = (
        stages_that_fit(problem, plan.with_fields(epilogue=epilogue, staged=staged, panels=0))
        for epilogue, staged in (("bulk", 0), ("bulk", 1), ("direct", 0))
    )
    return plan.with_fields(panels=0, staged=0 if all_ >= min(one, none) else 1)


def with_inputs(problem: Problem, given: Request, plan: Schedule) -> Schedule:
    """A plan with as much room for boxes of what results are computed of as leaves the stages decided, or
    STAGES_BESIDE_STAGING, beside a panel of the result; the plan itself where that is not known to be worth it."""
    if LOADED_K.get(problem.kind.name, -1) < 0 or given.inputs is not None or plan.adds == "loaded":
        return plan
    if at_once(problem, plan) or not problem.results:
        return plan
    tried, rows = plan, staged_widths(problem, plan)
    wide = given.swizzle_c or staged_swizzle(problem.target, rows)
    if plan.epilogue == "bulk" and (given.staged, given.panels) == (None, None) and wide and min(rows) > PANELS * wide:
        tried = plan.with_fields(staged=1, panels=PANELS)
    wanted = plan.stages or STAGES_BESIDE_STAGING
    for inputs in range(min(MOST_INPUTS, most_boxes(problem, tried)), FEWEST_BOXES - 1, -1):
        made = tried.with_fields(inputs=inputs)
        if not no_loaded_inputs(problem, made) and stages_that_fit(problem, made) >= wanted:
            return made
    return plan


def worth_more_stages(problem: Problem, plan: Schedule, other: Schedule) -> bool:
    """Whether a plan with no more than STAGES_BESIDE_STAGING stages, of which all that are on their way come out of
    memory, as a CTA has one tile, is better with those that another one leaves, whose tile takes longer to store. Four
    stages, not three, took 0.91 to 0.99 of the time at eight sizes of FP8 and bf16, six, not five, 0.97 to 1.03 at four
    (H100, 2026-11-28, docs/notes/results.md). Of three warpgroups 192x160 spilled 4 bytes (ptxas 13.0)."""
    if plan.stages or problem.kind.tensor_memory or plan.warpgroups == MAX_WARPGROUPS or not at_once(problem, plan):
        return False
    stages = stages_that_fit(problem, plan)
    more = min(stages_that_fit(problem, other), part_blocks(problem, plan)[1])
    return stages <= STAGES_BESIDE_STAGING and stages < more


def _ahead(problem: Problem, plan: Schedule, panels: int) -> Schedule:
    """With as much room for what is loaded as leaves the stages decided, or STAGES_BESIDE_STAGING; or the least. A
    staged wave has so many `panels`."""
    plans = [plan.with_fields(staged=0, panels=0), plan.with_fields(staged=1, panels=0)]
    plans += [plan.with_fields(staged=1, panels=n) for n in range(min(panels - 1, MOST_PANELS), 0, -1)]
    wanted = plan.stages or STAGES_BESIDE_STAGING
    return next((p for p in plans if stages_that_fit(problem, p) >= wanted), plans[-1])


def widest(swizzles: tuple[int, ...], row: int) -> int:
    """The widest of `swizzles` that divides a row of `row` bytes."""
    return next(s for s in swizzles if s == 0 or row % s == 0)


def staged_swizzle(target: Target, rows: tuple[int, ...]) -> int:
    """The widest swizzle that divides the staged rows of all results, of so many bytes."""
    return widest(target.swizzles, gcd(*rows))


def operand_swizzle(problem: Problem, operand: Operand, rows: int, depth: int) -> int:
    """The widest swizzle of an operand's tile, of `rows` rows of the operand by `depth` of K."""
    return widest(operand.swizzles(problem.target), operand.shared_bytes(rows if operand.mn_major else depth))


def no_turned(target: Target, operand: Operand, rows: int) -> str:
    """Why a tile of `rows` rows cannot be copied to be turned, "" where it can, or is not."""
    line = operand.stored.bytes(rows)
    if operand.turned and line % target.tma_align:
        return (
            f"a tile of {rows} of {operand.rows}, {line} bytes of {operand.name} next to each other: copies bring "
            f"multiples of {target.tma_align}"
        )
    return ""


def no_panels(target: Target, operand: Operand, rows: int) -> str:
    """Why a tile of `rows` rows cannot be copied panel by panel where K is outermost, "" where it can."""
    row = operand.shared_bytes(rows)
    if operand.padded and rows % PADDED_ROW:
        return f"a tile of {rows} of {operand.rows}: {operand.name} is copied {PADDED_ROW} at a time"
    if not operand.padded and not widest(operand.swizzles(target), row):
        return f"a tile of {rows} of {operand.rows}, {row} bytes of {operand.name}: no swizzle divides it"
    return ""


def no_deep_rows(problem: Problem, operand: Operand, depth: int, swizzle: int | None = None) -> str:
    """Why the tile of an operand, beside one that is converted in registers, cannot have several panels along K, of
    `swizzle` bytes each, the widest if that is not said; "" where it can."""
    if operand.gathered or operand.pages:
        return f"copies bring rows of {operand.name} one by one"
    if operand.converted and (operand.turned or operand.in_words or operand.transformed or operand.zeros is not None):
        return f"{operand.name} is computed, turned, in words, or less zero points on its way"
    row = operand.shared_bytes(depth)
    if operand.converted and row > MOST_MADE * (swizzle or max(problem.target.swizzles)):
        return (
            f"warps make {MOST_MADE} panels of {operand.name} at most, and {depth} of {problem.k.name} are {row} bytes"
        )
    if problem.panes > 1:
        return (
            f"copies bring strips of {' and '.join(x.name for x in problem.rhs.panes)}, and each has rows of all panels"
        )
    if cuts_k(problem, depth):
        return f"a range of {problem.k.name} may begin within a tile of {operand.name}"
    return ""


def _ragged_rows(problem: Problem, inner: Dim, align: int) -> str:
    """Why rows of results, which run along `inner`, may be no multiple of `align` bytes, "" where they are."""
    for result in problem.results:
        if inner.size is None:
            return f"{inner.name} is not known at compile time: a row of {result.name} may be misaligned"
        row = result.element.bytes(inner.size)
        if row % align:
            return f"a row of {result.name} is {row} bytes ({inner.name} = {inner.size}), not a multiple of {align}"
    return ""


def _cut_boxes(problem: Problem, schedule: Schedule) -> str:
    """Why copies of a box of a result would write into its gaps, "" where they do not."""
    rows = staged_widths(problem, schedule)
    found = (
        _cut_box(of, schedule, row, staged_swizzle(problem.target, rows))
        for of, row in zip(problem.each, rows, strict=True)
    )
    return next(filter(None, found), "")


def _cut_box(problem: Problem, schedule: Schedule, row: int, able: int) -> str:
    """Likewise of one result, of rows of so many bytes, for which a swizzle is `able`."""
    result, n, gaps = problem.result, problem.n, problem.result.gaps
    if gaps is None or n.size is None:  # of an N that is not known rows may be misaligned
        return ""
    decided = schedule.swizzle_c if schedule.swizzle_c and row % schedule.swizzle_c == 0 else 0
    width = (decided or able or row) * 8 // result.element.bits
    if gaps.apart(width) or n.size % width:
        return (
            f"a copy stores {width} columns, and {result.name} has gaps of {gaps.size} every {gaps.every} of "
            f"{n.name} = {n.size}, {gaps.every - gaps.phase % gaps.every} in front of the first"
        )
    if (begins := problem.begins(n.name)) % width:
        return f"a copy stores {width} columns, a tile may begin at {begins} of {n.name}, and {result.name} has gaps"
    align = problem.target.tma_align * 8
    if any(columns * result.element.bits % align for columns in (gaps.size, gaps.at(n.size - 1) + 1)):
        return f"a row of {result.name} with its gaps is {gaps.at(n.size - 1) + 1} columns: it may be misaligned"
    if gaps.at(n.size) > MOST:
        return f"a row of {result.name} with its gaps is more than {MOST} columns"
    return ""


def _from_registers(problem: Problem) -> str:
    """Why results leave from registers alone, "" where they need not."""
    if not problem.results:
        return ONLY_REDUCED
    if problem.column_fold is not None:
        return f"{problem.names} has one column of a tile for all that are reduced into it, which threads store"
    if of := next((r for r in problem.results if r.gaps is not None and r.element.bits < 8), None):
        return f"{of.name} has elements of {of.element.bits} bits around gaps, which threads store"
    if of := next((r for r in problem.results if r.window is not None), None):
        return f"{of.name} has a range that ends within tiles, or outside of which it is filled, and threads store it"
    if of := next((r for r in problem.results if r.strided), None):
        return f"{of.name} is contiguous along {of.coords[-1].dim}: columns of its tiles lie apart"
    if of := next((r for r in problem.results if r.element.unit > 2), None):
        return f"{of.name} has elements of {of.element.bits} bits, which threads store"
    return ""


def no_turned_epilogue(problem: Problem) -> str:
    """Why results cannot be turned in shared memory, "" where they can."""
    if reason := _from_registers(problem):
        return reason
    if not problem.swapped:
        return f"swap=0 computes rows of {problem.names}"
    if not problem.kind.turns:
        return f"{problem.target.name} does not multiply from shared memory into registers"
    if gaps := next((r.name for r in problem.results if r.gaps is not None), ""):
        return f"rows of {gaps} have gaps"
    if left_out := next((x for x in problem.row_lookups if x.dim == problem.m.name), None):
        return f"{left_out.name} may be negative, and a thread stores several {left_out.dim} of a row"
    cut = problem.ragged.dim if problem.ragged is not None else problem.blocks[0]
    if cut == problem.m.name:
        return f"{cut} has a range, or blocks, which may begin anywhere in a row of {problem.names}"
    return _ragged_rows(problem, problem.m, VECTOR)


def no_rows_epilogue(problem: Problem, schedule: Schedule) -> str:
    """Why threads cannot store rows of results out of shared memory, "" where they can."""
    if reason := _from_registers(problem):
        return reason
    n = problem.n
    if problem.swapped:
        return f"{_BY_COLUMNS.format(problem.names)}, and rows are stored"
    if schedule.parts == "columns":
        return _SOME_COLUMNS
    if not problem.kind.rows:
        return f"{problem.target.name} does not multiply from shared memory into registers"
    if left_out := next((x for x in problem.row_lookups if x.dim == n.name), None):
        return f"{left_out.name} may be negative, and a thread stores several {n.name} of a row"
    if cut_along(problem, schedule) == n.name:
        return f"{n.name} has a range, or blocks, which may begin anywhere in a row of {problem.names}"
    if gaps := next((r.name for r in problem.results if r.gaps is not None), ""):
        return f"rows of {gaps} have gaps"
    rows = staged_widths(problem, schedule)
    if reason := _ragged_rows(problem, n, VECTOR):
        return reason
    if not staged_swizzle(problem.target, rows):
        return f"rows of the staged tiles are {' and '.join(map(str, rows))} bytes: no swizzle divides them"
    return ""


_BY_COLUMNS = "swap=1 computes {} by columns"

_SOME_COLUMNS = "parts=columns: a CTA has some columns of a tile"


def no_bulk_epilogue(problem: Problem, schedule: Schedule) -> str:
    """Why results cannot leave by bulk copy, "" where they can."""
    if reason := _from_registers(problem):
        return reason
    result, n, target = problem.results[0], problem.n, problem.target
    if any(r.added is not None for r in problem.results):
        cut, left_out = cut_along(problem, schedule), [x.name for x in problem.row_lookups]
        why = f"a range or block of {cut} may end within a tile" if cut else ""
        why = why or next((f"{name} may be negative" for name in left_out), "")
        if around := next((r.name for r in problem.results if r.added is not None and r.gaps is not None), ""):
            return f"{around} has gaps, around which no copy adds"
        if why:
            return f"{why}, and copies would add to what is not to be written"
    if scattered := next((r for r in problem.results if r.scattered), None):
        return f"rows of {scattered.name} are scattered, to {' and '.join(x for _, x in scattered.scattered)}"
    if problem.swapped:
        return f"{_BY_COLUMNS.format(problem.names)}, and a bulk copy stores rows"
    if schedule.parts == "columns":
        return _SOME_COLUMNS
    if apart := next(filter(None, (problem.begins_apart(n.name, r.element.bits) for r in problem.results)), ""):
        return apart
    if len(result.coords) > MOST_INDICES:
        return f"{result.name} has {len(result.coords)} indices, and copies take {MOST_INDICES}"
    if reason := _ragged_rows(problem, n, target.tma_align) or _cut_boxes(problem, schedule):
        return reason
    rows = staged_widths(problem, schedule)
    if staged_swizzle(target, rows):
        return ""
    row = next(row for row in rows if not widest(target.swizzles, row))
    if not problem.kind.unswizzled:
        return f"a row of the staged tile is {row} bytes: no swizzle divides it"
    if uneven := next((row for row in rows if row % target.tma_align), 0):
        return f"a row of the staged tile is {uneven} bytes, not a multiple of {target.tma_align}"
    return ""
