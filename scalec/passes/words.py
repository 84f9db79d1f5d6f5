"""Scales that the tensor core applies itself: how the bytes of a stage are laid out for it, and how they get there."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scalec.formats import WHOLE
from scalec.ir.schedule import Schedule
from scalec.passes.problem import Operand, Problem, Scale

WORD = 4
"""Scale bytes in a register (PTX ISA 9.7.14.5.14: scale-a-data and scale-b-data are .b32)."""


@dataclass(frozen=True)
class WordPlan:
    """Scale bytes of one operand in a stage: for each row `bytes` of them, one for each `unit` elements of K.

    Attributes:
        scale: the scale.
        unit: K elements of a byte: the most that lie in one block of the scale, wherever a stage begins. The
            instruction's block where an instruction takes several bytes of a row.
        bytes: of a row in a stage.
        whole: whether each word is four adjacent bytes in memory, aligned.
        bulk: whether a bulk copy brings the words of a stage as they are: those of adjacent rows are adjacent.
    """

    scale: Scale
    unit: int
    bytes: int
    whole: bool
    bulk: bool

    @property
    def words(self) -> int:
        """Registers of a row."""
        return -(-self.bytes // WORD)

    @staticmethod
    def of(problem: Problem, operand: Operand, schedule: Schedule) -> WordPlan | None:
        """The plan for an operand, None where the tensor core applies no scale of its own to it."""
        scale = operand.scale_in_mma
        if scale is None:
            return None
        assert schedule.tile is not None
        family, depth = problem.family, schedule.tile[2]
        block = family.scale_block(scale.type)
        unit = block if block < family.k else depth if scale.k == WHOLE else math.gcd(scale.k, depth)
        count = depth // unit
        whole = unit == scale.k and count % WORD == 0 and _words_in_memory(problem, scale)
        bulk = whole and schedule.scale_path != "thread" and not _no_bulk_words(problem, scale)
        return WordPlan(scale, unit, count, whole, bulk)


def _no_bulk_words(problem: Problem, scale: Scale) -> str:
    """Why the words of a scale cannot come by bulk copy, "" where they can."""
    if problem.family.sums_in == "tensor":
        return f"{scale.name} is rearranged for tensor memory"
    dim = problem.m if scale is problem.lhs.scale_in_mma else problem.n
    align = problem.target.tma_align
    if scale.layout != "packed" or scale.rows != 1:
        return f"{scale.name} is not packed, one scale for each {dim.name}"
    if dim.size is not None and dim.size * WORD % align:
        return (
            f"a column of {scale.name} is {dim.size * WORD} bytes ({dim.name} = {dim.size}), not a multiple of {align}"
        )
    return ""


def _words_in_memory(problem: Problem, scale: Scale) -> bool:
    """Whether four bytes that are adjacent along K, from a multiple of four on, are an aligned word in memory."""
    if scale.layout in ("packed", "blocked"):
        return True
    return scale.layout == "row" and problem.k.size is not None and problem.k.tiles(scale.k, 0) % WORD == 0
