"""Windows: K blocks whose row-major scales one bulk copy brings, in a ring of their own beside that of the stages."""

from __future__ import annotations

import math
from collections.abc import Collection

from scalec.ir.schedule import Schedule
from scalec.passes.parts import k_blocks, no_unroll_of_parts, parts
from scalec.passes.problem import Problem
from scalec.passes.warp_specialize import UNROLL, given_warpgroups, warpgroups_for

WINDOW = 8
"""K blocks whose row-major scales one bulk copy brings: 32 bytes of each row, one sector of memory."""


def window_slots(problem: Problem, schedule: Schedule, stages: int) -> int:
    """Slots that windows need so that none is overwritten while its last K block is still being read.

    A window is copied when its first K block's stage is empty, so `stages` K blocks before it are done with. The
    windows between two that share a slot must make up for the rest; the last of a tile, or of a part, may be short, and
    the first of a share.
    """
    slots = 2
    while stages > _between(problem, schedule, slots - 1) + 1:
        slots *= 2  # a power of two, so that a role finds its slot by masking a count
    return slots


def _between(problem: Problem, schedule: Schedule, count: int) -> int:
    """The fewest K blocks that `count` windows hold that follow one another and are followed by another."""
    enough = WINDOW * (count + 3)  # more whole windows than meet any one run of `count`
    if not schedule.stream_k:
        windows = {_windows(_shortened(part, WINDOW, enough)) for part in parts(problem, schedule) if part}
        return _fewest(windows, count)
    # the end of one tile, if any, is between whole ones; behind the beginning of a tile, which may be short too, there
    # is nothing
    unroll = _iteration(problem, schedule)
    step = math.lcm(WINDOW, unroll)
    blocks = len(_shortened(range(k_blocks(problem, schedule)), step, enough + step))
    whole = _windows(range(blocks))
    whole *= -(-count // len(whole))
    works = [(*whole, *_windows(range(first, blocks)), *whole) for first in range(0, blocks, unroll)]
    return min(sum(w[at : at + count]) for w in works for at in range(len(w) - count))


def _shortened(part: range, step: int, enough: int) -> range:
    """`part` without as many multiples of `step` K blocks of its middle, where all windows are whole, as leave it
    `enough`: runs of windows in the rest are those in all of it."""
    return range(part.start, part.stop - max(0, len(part) - enough) // step * step)


def _iteration(problem: Problem, schedule: Schedule) -> int:
    """K blocks of an iteration, between which shares are cut: where that is not decided yet, what it mostly becomes."""
    assert schedule.tile is not None
    warpgroups = given_warpgroups(schedule) or warpgroups_for(problem.family, schedule.tile)
    unroll = schedule.unroll or UNROLL[warpgroups]
    return 1 if no_unroll_of_parts(problem, schedule, unroll) else unroll


def _windows(part: range) -> tuple[int, ...]:
    """K blocks that a part has of each window it meets; windows begin at multiples of WINDOW, whatever the part's."""
    first = range(part.start // WINDOW * WINDOW, part.stop, WINDOW)
    return tuple(min(part.stop, at + WINDOW) - max(part.start, at) for at in first)


def _fewest(parts: Collection[tuple[int, ...]], count: int) -> int:
    """The fewest K blocks that `count` consecutive windows hold, of parts that follow one another in any order."""
    from_start = [0]  # likewise, of so many windows from the start of a part on
    for n in range(1, count + 1):
        from_start.append(min(sum(p[:n]) + from_start[max(0, n - len(p))] for p in parts))
    rests = [p[start:] for p in parts for start in range(len(p))]
    return min(sum(r[:count]) + from_start[max(0, count - len(r))] for r in rests)
