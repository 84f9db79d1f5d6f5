"""Windows: K blocks whose row-major scales one bulk copy brings, in a ring of their own beside that of the stages."""

from __future__ import annotations

from collections.abc import Collection

from scalec.ir.schedule import Schedule
from scalec.passes.plan.parts import parts
from scalec.passes.problem.types import Problem

WINDOW = 8
"""K blocks whose row-major scales one bulk copy brings: 32 bytes of each row, one sector of memory."""


def window_slots(problem: Problem, schedule: Schedule, stages: int) -> int:
    """Slots that windows need so that none is overwritten while its last K block is still being read.

    A window is copied when its first K block's stage is empty, so `stages` K blocks before it are done with. The
    windows between two that share a slot must make up for the rest; the last of a tile, or of a part, may be short.
    """
    slots = 2
    if problem.range_of_k is not None:  # each may be of one K block
        return max(slots, 1 << (stages - 1).bit_length())
    while stages > _between(problem, schedule, slots - 1) + 1:
        slots *= 2  # a power of two, so that a role finds its slot by masking a count
    return slots


def _between(problem: Problem, schedule: Schedule, count: int) -> int:
    """The fewest K blocks that `count` windows hold that follow one another and are followed by another."""
    enough = WINDOW * (count + 3)  # more whole windows than meet any one run of `count`
    windows = {_windows(_shortened(part, enough)) for part in parts(problem, schedule) if part}
    return _fewest(windows, count)


def _shortened(part: range, enough: int) -> range:
    """`part` without as many windows of its middle, where all are whole, as leave it `enough` K blocks: runs of windows
    in the rest are those in all of it."""
    return range(part.start, part.stop - max(0, len(part) - enough) // WINDOW * WINDOW)


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
