"""Ranges of a dimension with a kernel each: where along it the choice of schedule changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scalec import compiler
from scalec.errors import ArgumentError
from scalec.measured import database
from scalec.sizes import Range, Size, fixed, ranges

TOPS = (8, 16, 32, 48, *sorted(c << i for i in range(5, 30) for c in (2, 3)))
"""Upper ends of ranges where a choice may change: tiles are of 8 rows, then multiples of 16, then of 64. Between two of
them a kernel computes at most twice as much as its tensors have, but for fewer than 8 rows: 1.9 times at 17 of 32."""

OUTER_TOPS = (1, 2, 4, *TOPS)
"""Likewise of a dimension that a tile has one index of: each one more is as many tiles again."""


def rungs(
    source: str, target: str, dims: Mapping[str, Size], schedule: Mapping[str, str] | None = None, *, tuned: bool = True
) -> list[Range]:
    """The ranges that the range in `dims` falls into: those of TOPS and of the tuning database, neighbours of one
    schedule together. Each has the schedule of its upper end. A program without a contraction has one kernel for all.

    Args:
        dims: sizes, one of which is a range.
        tuned: whether the tuning database is asked.

    Raises:
        ArgumentError: several ranges.
        ScalecError: a refusal of the compiler.
    """
    dim, whole = only(dims)
    if not compiler.has_schedule(source, dims):
        return [whole]
    last, roles = compiler.decide(source, target, dims, schedule, tuned=tuned)
    tops = set(TOPS if dim in roles[:3] else OUTER_TOPS)
    if tuned:
        known = [e.m for file in database.relevant(target, fixed(dims).values()) for e in file]
        tops |= {t for m in known for t in (m.low - 1, m.high)}
    made: list[tuple[Range, str]] = []
    for part in parts(whole, tops):
        if part.high == whole.high:
            text = str(last)
        else:
            text = str(compiler.decide(source, target, {**dims, dim: part}, schedule, tuned=tuned)[0])
        if made and made[-1][1] == text:
            made[-1] = (Range(made[-1][0].low, part.high), text)
        else:
            made.append((part, text))
    return [part for part, _ in made]


def parts(whole: Range, tops: Iterable[int]) -> list[Range]:
    """A range cut behind each of `tops`."""
    low, made = whole.low, []
    for top in sorted({t for t in tops if whole.low <= t < whole.high} | {whole.high}):
        made.append(Range(low, top))
        low = top + 1
    return made


def only(dims: Mapping[str, Size]) -> tuple[str, Range]:
    """The one dimension with a range.

    Raises:
        ArgumentError: there are several.
    """
    found = ranges(dims)
    if len(found) != 1:
        raise ArgumentError(
            f"{len(found)} dimensions have ranges",
            got=", ".join(f"{name}={r}" for name, r in found.items()) or "none",
            expected="one: a call picks its kernel by the size of one dimension",
            fix="fix the others, or leave them out of dims",
        )
    return next(iter(found.items()))
