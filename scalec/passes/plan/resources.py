"""What a schedule takes of an SM: how much of a tile is staged, copied and shared out, by which threads; registers."""

from __future__ import annotations

from math import gcd, prod

from scalec.ir.schedule import Schedule
from scalec.ir.tile import VECTOR
from scalec.passes.plan.converted import brings_zeros, warps_make
from scalec.passes.plan.gather import (
    copies_of_thread,
    gatherers,
    left_out_by_threads,
    scales_copied_by_threads,
    whole_tiles,
)
from scalec.passes.plan.items import free_warps
from scalec.passes.plan.parts import k_blocks
from scalec.passes.plan.promotion import no_planes
from scalec.passes.plan.shared_blocks import shares_block
from scalec.passes.plan.sharing import SHARING
from scalec.passes.plan.tensor_columns import by_parts, taken_columns
from scalec.passes.plan.warps import SCALE_WARPS, WARPS, scales_apart
from scalec.passes.plan.words import WordPlan, no_bulk_words
from scalec.passes.problem.operand import PROMOTION_BLOCK, Operand, Scale
from scalec.passes.problem.products import partly_scaled
from scalec.passes.problem.result import EpilogueInput
from scalec.passes.problem.types import Problem
from scalec.targets import WARPGROUP, shared_out


def round_up(value: int, step: int) -> int:
    """The least multiple of `step` that is at least `value`."""
    return -(-value // step) * step


def deepest(problem: Problem) -> int:
    """K of a tile, where nothing speaks for less: a row of the widest swizzle, of the wider operand; a scale step, or
    where tiles are promoted whole, as many as promoted scales are constant over; of pages along K what divides one."""
    row = problem.target.swizzles[0] * 8 // max(problem.lhs.shared_bits, problem.rhs.shared_bits)
    row = gcd(row, *(x.page_k for x in problem.paged_k))
    if not problem.has_scales:
        return row
    return min(PROMOTION_BLOCK if problem.kind.promotes_slices else problem.constant_k, row)


def no_bulk(problem: Problem, scale: Scale) -> str:
    """Why a scale with one value a row, varying along K, cannot come by bulk copy; "" where it can."""
    dim, align = (problem.m if scale in problem.lhs.scales else problem.n), problem.target.tma_align
    if scale.type != "f32" or scale.gathered:
        bytes_of = f"{scale.type}, which threads make f32 of"
        return f"{scale.name} is {bytes_of if scale.type != 'f32' else f'of rows that {scale.gathered} names'}"
    if problem.k_lookups:
        return left_out_by_threads(problem, scale)
    if partly_scaled(problem):
        return f"{scale.name} is of one of the products that are added up, and threads make ones for the others"
    if scale.spread:
        return f"{scale.name} is of one of the products that are added up, and has other blocks than others' have"
    if dim.inner > 1:  # a window's box has rows of one axis
        return f"{scale.name} has rows of {dim.name} and {dim.within}, and a tile walks them as one"
    if scale.folded:
        return f"threads multiply elements by {scale.name}, and have no window of it"
    if scale.layout == "col":
        if reason := no_planes(problem, scale) or _no_strips(problem, scale):
            return reason
        if dim.size is not None and dim.size * 4 % align:
            return (
                f"a column of {scale.name} is {dim.size * 4} bytes ({dim.name} = {dim.size}), not a multiple of {align}"
            )
        apart = problem.begins_apart(dim.name, 32)
        return f"{scale.name} is contiguous along {dim.name}, and {apart}" if apart else ""
    if problem.k.size is None:
        return f"{scale.name} is row-major and {problem.k.name} is not known"
    if problem.summed:  # windows would begin within one point's K and end in the next one's
        return f"{scale.name} is row-major, and sums run over {problem.summed[0].name} too"
    if problem.added:  # or in another product's
        return f"{scale.name} is row-major, and products are added up"
    if scale.k != PROMOTION_BLOCK:
        return f"{scale.name} is row-major with one scale for each {scale.k} elements of {problem.k.name}"
    if deepest(problem) != scale.k:  # a window has one of each K tile
        return f"{scale.name} is row-major, and a tile has {deepest(problem)} of {problem.k.name}"
    count, domain = problem.k.tiles(scale.k, 0), problem.range_of_k
    if scale.k_apart and domain is not None:
        groups = next(d for d in problem.outer if d.name == domain.group)
        if groups.size is None:
            return (
                f"{scale.name} is row-major, each group of {problem.k.name} has blocks, and {groups.name} is not known"
            )
        count += groups.size
    row = 4 * count
    if row % align:
        return f"a row of {scale.name} is {row} bytes ({problem.k.name} = {problem.k.size}), not a multiple of {align}"
    return ""


def _no_strips(problem: Problem, scale: Scale) -> str:
    """Why copies cannot bring columns of a scale for strips of a tile (Problem.panes), "" where they can."""
    if problem.panes == 1 or scale not in problem.rhs.scales:
        return ""
    if problem.kind.warps == 1:
        return f"each warp has columns of {' and '.join(x.name for x in problem.rhs.panes)}, too few for a copy"
    count = scale.within(deepest(problem))
    return f"{scale.name} has {count} columns in a K block, and a copy brings one for each strip" if count > 1 else ""


def no_bulk_scales(problem: Problem, tile: tuple[int, int, int]) -> str:
    """Why a per-row scale that varies along K cannot come by bulk copy, "" where each can (or none is there).

    Where there are words for tensor memory, each scale goes its own way: why none of them can.
    """
    scales = [s for operand in (problem.lhs, problem.rhs) if (s := operand.by_row) is not None]
    applied = [x for x in (problem.lhs, problem.rhs) if x.scale_in_mma is not None]
    if applied and problem.kind.tensor_memory:
        reasons = [no_bulk_words(problem, x, tile) for x in applied] + [no_bulk(problem, s) for s in scales]
        return "; ".join(reasons) if all(reasons) else ""
    return next((reason for s in scales if (reason := no_bulk(problem, s))), "")


def path_of_scales(problem: Problem, tile: tuple[int, int, int]) -> str:
    """The `scale_path` of a schedule that leaves it undecided."""
    return "thread" if no_bulk_scales(problem, tile) else "bulk"


def scale_copy(problem: Problem, scale: Scale, schedule: Schedule) -> str:
    """How a scale with one value a row reaches shared memory.

    "vector": one bulk copy for each K block (rows contiguous); "window": one for WINDOW K blocks (K contiguous);
    "thread": by way of registers.
    """
    if schedule.scale_path != "bulk" or no_bulk(problem, scale):
        return "thread"
    return "vector" if scale.layout == "col" else "window"


def numbered(name: str, number: int) -> str:
    """A buffer's name: of the first result the name alone."""
    return f"{name}{number + 1 if number else ''}"


def exchanges(problem: Problem, schedule: Schedule) -> bool:
    """Whether a block of a lone result's scales is wider than a warp's columns, or where it is of rows higher than its
    rows, so that warps find its scale together."""
    if problem.swapped:
        return problem.result.block > problem.family.adjacent_rows
    return (
        shares_block(problem)
        or problem.block_columns > result_columns(problem, schedule) // units(problem, schedule)[1]
    )


def part_owners(problem: Problem, schedule: Schedule) -> int:
    """CTAs of a cluster of parts that finish a tile: two, each every other unit's share of it, where there are several
    units, which do not find scales of the result together."""
    together = any(exchanges(of, schedule) for of in problem.each)
    return 1 if prod(units(problem, schedule)) == 1 or together else 2


def part_rooms(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Rooms for the sums of a unit that such a CTA has, and the sums of each."""
    sharing = prod(units(problem, schedule))
    own = -(-sharing // part_owners(problem, schedule))
    return own * (schedule.split - 1), schedule.tile[0] * schedule.tile[1] // sharing


def result_columns(problem: Problem, schedule: Schedule) -> int:
    """Columns of results that a tile has: of several contractions as many as it has of each."""
    return schedule.tile[1] // problem.panes


def copied_columns(schedule: Schedule) -> int:
    """Rows of B that a CTA has of a tile: all columns, or its share of those of CTAs that multiply together."""
    return schedule.tile[1] // schedule.cta_group


def staged_rows(problem: Problem, schedule: Schedule) -> int:
    """Rows of a tile that are staged at once: `staged` waves of each warpgroup or warp, or all."""
    if not schedule.staged:
        return schedule.tile[0]
    return schedule.staged * problem.family.wave * units(problem, schedule)[0]


def staged_columns(problem: Problem, schedule: Schedule) -> int:
    """Columns of a tile that have room in shared memory at once: those that are converted together, or `panels`."""
    if not schedule.panels:
        return converted_columns(problem, schedule)
    return units(problem, schedule)[1] * schedule.panels * box_columns(problem, schedule)


def turned_tile(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Rows and columns of the tile that a result computed by columns is turned in: a row for each column of each wave,
    and VECTOR bytes behind it."""
    wave = problem.family.wave
    return schedule.tile[0] // wave * result_columns(
        problem, schedule
    ), wave + 8 * VECTOR // problem.result.element.bits


def converted_columns(problem: Problem, schedule: Schedule) -> int:
    """Columns of a tile that are converted together: all, or those that warps take out of tensor memory at a time."""
    along_n, columns = units(problem, schedule)[1], result_columns(problem, schedule)
    return along_n * taken_columns(problem, columns // along_n, 0) if by_parts(problem, schedule) else columns


def staged_row(problem: Problem, schedule: Schedule) -> int:
    """Bytes of a row of the result that one warpgroup, or warp, stages."""
    return problem.result.element.bytes(converted_columns(problem, schedule) // units(problem, schedule)[1])


def staged_widths(problem: Problem, schedule: Schedule) -> tuple[int, ...]:
    """Likewise of each result."""
    return tuple(staged_row(of, schedule) for of in problem.each)


def box_columns(problem: Problem, schedule: Schedule) -> int:
    """Columns of a box of the result that one bulk copy writes: as wide as the swizzle; a whole row where nothing is
    swizzled."""
    return (schedule.swizzle_c or staged_row(problem, schedule)) * 8 // problem.result.element.bits


def box_rows(problem: Problem, schedule: Schedule) -> int:
    """Rows of a box of the result that one bulk copy writes: those of a wave; where sums come out of tensor memory, all
    that a warp stages at once, as their parts in shared memory lie under each other."""
    if problem.kind.tensor_memory:
        return staged_rows(problem, schedule) // units(problem, schedule)[0]
    return problem.family.wave


def result_boxes(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Boxes of the result that a warpgroup, or warp, has of a tile, and how many of them have room."""
    along_m, along_n = units(problem, schedule)
    box = along_m * along_n * box_rows(problem, schedule) * box_columns(problem, schedule)
    room = staged_rows(problem, schedule) * staged_columns(problem, schedule)
    return schedule.tile[0] * result_columns(problem, schedule) // box, room // box


def asked_ahead(problem: Problem, schedule: Schedule) -> list[EpilogueInput]:
    """What a fold reads of rows that are looked up, where a queue says which tiles there are and a warp of producers
    has nothing else to do: that asks L2 for it as soon as a tile is posted, or brings it (`brought`)."""
    sides = (problem.lhs, problem.rhs)
    busy = producer_warpgroups(problem, schedule) == 1 and any(threaded(problem, x, schedule) for x in sides)
    if not problem.queued or problem.column_fold is None or problem.kind.tensor_memory or busy:
        return []
    names = {x.name for x in problem.row_lookups}
    inputs = {(x.name, x.coords): x for r in problem.results for x in r.inputs if x.kind == "row"}
    return [x for x in inputs.values() if any(at.dim in names for at in x.coords)]


def brought(problem: Problem, schedule: Schedule) -> list[EpilogueInput]:
    """Those that come into the stage with the operands' tiles, by copies of 4 bytes: where a tile is one K block, and
    warpgroups multiply."""
    alone = k_blocks(problem, schedule) == 1 and schedule.split == 1 and not schedule.promote and not problem.terms
    if not alone or not problem.kind.warpgroup_sums or problem.converts:
        return []
    return [x for x in asked_ahead(problem, schedule) if x.element.name == "f32"]


def loads_tiles(schedule: Schedule) -> bool:
    """Whether a warp of the producers loads tiles of results, or of what these are computed of."""
    return schedule.adds == "loaded" or schedule.inputs > 0


def turns(schedule: Schedule) -> int:
    """Warpgroups that take tiles by turns; 1 where they share each."""
    return schedule.warpgroups if schedule.consumers == "pingpong" else 1


def units(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Warpgroups, or warps, that share a tile (along M, along N): as many as execute one instruction together."""
    return SHARING[problem.kind.name].units(schedule.warpgroups // turns(schedule), schedule.warps)


def threaded(problem: Problem, operand: Operand, schedule: Schedule) -> bool:
    """Whether producer threads bring an operand's scales of single rows, or its zero points, to shared memory."""
    return scales_threaded(problem, operand, schedule) or brings_zeros(problem, schedule, operand)


def scales_threaded(problem: Problem, operand: Operand, schedule: Schedule) -> bool:
    """Whether producer threads bring an operand's scales of single rows to shared memory, by way of registers."""
    if scales_copied_by_threads(problem, operand, schedule.tile[2]):
        return False
    plan, scale = WordPlan.of(problem, operand, schedule), operand.by_row
    return (
        operand.named is not None
        or (plan is not None and not plan.bulk)
        or (scale is not None and scale_copy(problem, scale, schedule) == "thread")
    )


def producer_warpgroups(problem: Problem, schedule: Schedule) -> int:
    """One; two where threads bring scales beside a warp that copies them on, or no warp is left for them, or those that
    are would be too slow: copies, products and that warp in one, those threads in the other."""
    sides, (first, _) = (problem.lhs, problem.rhs), SCALE_WARPS[problem.kind.name]
    busy = schedule.scale_copier or first >= free_warps(problem, schedule) or scales_apart(problem, schedule)
    return 2 if busy and any(threaded(problem, x, schedule) for x in sides) else 1


def scale_warps(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """First and number of the warps, of their warpgroup, that bring scales where threads do."""
    if producer_warpgroups(problem, schedule) > 1:
        return 0, WARPS
    first, count = SCALE_WARPS[problem.kind.name]
    return first, min(count, free_warps(problem, schedule) - first)


def threads(problem: Problem, schedule: Schedule) -> int:
    """Threads of a CTA: those of its consumer and producer warpgroups, and of those that convert or copy rows."""
    return WARPGROUP * (schedule.warpgroups + other_warpgroups(problem, schedule))


def other_warpgroups(problem: Problem, schedule: Schedule) -> int:
    """Those that do not consume, and have a producer's registers."""
    return producer_warpgroups(problem, schedule) + schedule.converters + gatherers(problem)


def register_file(problem: Problem, schedule: Schedule) -> int:
    """Registers of a CTA after its threads have taken and given back some."""
    producer, consumer = schedule.registers
    return WARPGROUP * (other_warpgroups(problem, schedule) * producer + schedule.warpgroups * consumer)


COPYING = {True: (40, 24, 2), False: (48, 16, 4)}
"""Registers of a producer's threads where a warpgroup has them that copies gathered rows, by whether all K tiles are
whole: at least the first number, and the third for each copy of a thread beside the second. Whole ones: 16 copies
spilled with 48, 8 did not with 40. Others: 16 spilled with 72 and 8 with 40, and not with 80 and 48 (ptxas 13.0,
2026-11-25)."""

COPYING_SCALES = 8
"""Beside these, where K tiles are not whole, if it copies scales of rows too."""


def fitting_registers(problem: Problem, schedule: Schedule, registers: tuple[int, int]) -> tuple[int, int]:
    """Registers of a producer's and a consumer's threads: where a warpgroup copies gathered rows it has enough of them,
    and consumers have no more than all others leave."""
    producer, consumer = registers
    if gatherers(problem):
        depth = schedule.tile[2]
        (least, beside, each), copies = COPYING[whole_tiles(problem, depth)], copies_of_thread(problem, schedule.tile)
        scaled = any(scales_copied_by_threads(problem, x, depth) for x in (problem.lhs, problem.rhs))
        more = COPYING_SCALES * (scaled and not whole_tiles(problem, depth))
        producer = max(producer, least, round_up(beside + each * copies + more, 8))
    entering = threads(problem, schedule)
    left = problem.target.entry_registers(entering) * entering // WARPGROUP
    left -= other_warpgroups(problem, schedule) * producer
    return producer, min(consumer, shared_out(left, schedule.warpgroups))


def most_registers(problem: Problem, schedule: Schedule) -> tuple[int, int] | None:
    """The `registers` of a launch that takes all that an SM has, where sums are in tensor memory; elsewhere None."""
    if not problem.kind.tensor_memory:
        return None
    each = 240 if schedule.warpgroups == 1 else 208
    entering = threads(problem, schedule)
    all_ = problem.target.entry_registers(entering) * entering // WARPGROUP
    rest = all_ - schedule.warpgroups * each
    return min(240, shared_out(rest, other_warpgroups(problem, schedule))), each


def fullest_registers(problem: Problem, schedule: Schedule) -> tuple[int, int] | None:
    """The `registers` that leave consumers the most that there are, and all others the rest; None where they have no
    more than those of the schedule."""
    entering, others = threads(problem, schedule), other_warpgroups(problem, schedule)
    able = [n for n in problem.target.setmaxnreg if n <= problem.target.max_registers]
    all_ = problem.target.entry_registers(entering) * entering // WARPGROUP
    consumer = min(able[-1], shared_out(all_ - able[0] * others, schedule.warpgroups))
    rest = min(able[-1], shared_out(all_ - consumer * schedule.warpgroups, others))
    return (rest, consumer) if consumer > schedule.registers[1] else None


MORE_TO_CONVERT = 16
"""Registers more that those who convert are given: 64x8x64 of u4 turned, less zero points of other orders and times its
scales, spilled one with 88 (ptxas 13.0 and 13.5, 2026-11-30)."""


def converting_registers(problem: Problem, schedule: Schedule) -> tuple[int, int] | None:
    """Those that leave warps that convert MORE_TO_CONVERT, and consumers the rest; None where no warps do."""
    if not warps_make(problem, schedule):
        return None
    entering, producer = threads(problem, schedule), schedule.registers[0] + MORE_TO_CONVERT
    all_ = problem.target.entry_registers(entering) * entering // WARPGROUP
    left = all_ - other_warpgroups(problem, schedule) * producer
    consumer = min(schedule.registers[1], shared_out(left, schedule.warpgroups)) if left > 0 else 0
    return (producer, consumer) if {producer, consumer} <= {*problem.target.setmaxnreg} else None


def launch_registers(problem: Problem, schedule: Schedule) -> int:
    """Registers that a thread is launched with, by 8, so that setmaxnreg can give each role its own; 0 where these are
    all that there are."""
    if not problem.kind.lean:
        return 0
    return -(-register_file(problem, schedule) // (8 * threads(problem, schedule))) * 8
