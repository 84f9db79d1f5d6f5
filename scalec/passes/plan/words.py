"""Scales of a byte: how those of a stage are laid out for the tensor core that applies them, or how threads load those
that sums are promoted by, and how they get there."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scalec.formats import NUMBERS, WHOLE
from scalec.ir.schedule import Schedule
from scalec.ir.tile import SHIFT, WORD_ROWS
from scalec.passes.plan.gather import left_out_by_threads
from scalec.passes.problem.operand import Operand, Scale
from scalec.passes.problem.types import Problem

WORD = 4
"""Scale bytes in a register (PTX ISA 9.7.14.5.14: scale-a-data and scale-b-data are .b32)."""


@dataclass(frozen=True)
class WordPlan:
    """Scale bytes of one operand in a stage: for each row `bytes` of them, one for each `unit` elements of K."""

    scale: Scale
    # K elements of a byte: the most that lie in one block of the scale, wherever a stage begins. The instruction's
    # block where an instruction takes several bytes of a row.
    unit: int
    bytes: int  # of a row in a stage
    whole: bool  # whether each word is four adjacent bytes in memory, aligned
    pads: bool  # whether of such a word, the last of a row may hold bytes of no block
    bulk: bool  # whether a bulk copy brings the words of a stage as they are: those of adjacent rows are adjacent
    tiles: bool  # whether these are whole tiles of a `blocked` tensor, as they lie there

    @property
    def words(self) -> int:
        """Registers of a row."""
        return -(-self.bytes // WORD)

    @property
    def loads(self) -> int:
        """Loads of a row, where threads bring it."""
        return self.words if self.whole else self.bytes

    @property
    def beside(self) -> bool:
        """Whether what these load lies side by side, at offsets from one address."""
        return self.scale.layout == "row" and self.unit == self.scale.k

    @staticmethod
    def of(problem: Problem, operand: Operand, schedule: Schedule) -> WordPlan | None:
        """The plan for an operand, None where the tensor core applies no scale of its own to it."""
        scale = operand.scale_in_mma
        if scale is None:
            return None
        unit, count = _bytes(problem, operand, schedule.tile)
        bulk = schedule.scale_path != "thread" and not no_bulk_words(problem, operand, schedule.tile)
        problem = product_of(problem, operand)
        whole = unit == scale.k and count % WORD == 0 and _words_in_memory(problem, scale)
        return WordPlan(
            scale, unit, count, whole, whole and bool(_pads(problem, scale)), bulk, bulk and scale.layout == "blocked"
        )

    @staticmethod
    def promoted(problem: Problem, operand: Operand, schedule: Schedule) -> WordPlan | None:
        """Likewise of bytes of rows that threads load, and store as f32: for promotion, or for who converts."""
        scale = operand.by_row
        if scale is None or scale.type in NUMBERS:
            return None
        problem = product_of(problem, operand)
        count = scale.within(schedule.tile[2])
        unit = schedule.tile[2] // count
        whole = unit == scale.k and count % WORD == 0 and _words_in_memory(problem, scale)
        return WordPlan(scale, unit, count, whole, whole and bool(_pads(problem, scale)), bulk=False, tiles=False)

    @property
    def vectors(self) -> bool:
        """Whether threads may load several words of a row at once."""
        return self.whole and self.beside and not self.pads and not self.scale.in_mma

    def within(self, rows: int) -> bool:
        """Whether a tile of so many rows may begin within the rows of a copy."""
        return self.tiles and rows % WORD_ROWS > 0


def product_of(problem: Problem, operand: Operand) -> Problem:
    """Of products that are added up the problem of the one that an operand is of."""
    if not problem.added:
        return problem
    return next(x for x in problem.products if any(operand is own for own in (x.lhs, *x.rhs.panes)))


def _in_place(problem: Problem, operand: Operand) -> list[tuple[Problem, Operand]]:
    """The operands that tiles of an operand are in one place with, it among them: of each product, with its problem."""
    left = any(operand is x.lhs for x in problem.products)
    return [(x, x.lhs if left else x.rhs) for x in problem.products]


def _bytes(problem: Problem, operand: Operand, tile: tuple[int, int, int]) -> tuple[int, int]:
    """(K elements of a scale byte, bytes of a row) of a stage, of the finest scale of all products."""
    family, depth = problem.family, tile[2]
    scales = [s for _, x in _in_place(problem, operand) if (s := x.scale_in_mma) is not None]
    block = family.scale_block(scales[0].type)
    unit = block if block < family.k else math.gcd(depth, *(depth if s.k == WHOLE else s.k for s in scales))
    return unit, depth // unit


def _pads(problem: Problem, scale: Scale) -> str:
    """Why the last word along K of a row of scales may hold bytes of no block, "" where it does not.

    Nothing says what these are, and their place is that of zeros of the operands: NaN times zero is NaN. Where groups
    of K are apart, each has such words, and they become zero (`cuts_k`).
    """
    if scale.k_apart:
        return ""
    if problem.k.size is None:
        return f"{problem.k.name} is not known"
    count = 1 if scale.k == WHOLE else problem.k.tiles(scale.k, 0)
    return f"{problem.k.name} = {problem.k.size} has {count} scales" if count % WORD else ""


def no_bulk_words(problem: Problem, operand: Operand, tile: tuple[int, int, int]) -> str:
    """Why no bulk copy brings the words of an operand's scale as they are, or of one in its place of another product,
    "" where one can, or it has none.

    Padding along M or N may come along: it scales results that nobody stores.
    """
    if operand.scale_in_mma is None:
        return ""
    step = _bytes(problem, operand, tile)
    return next(filter(None, (_no_bulk_words(x, own, tile, *step) for x, own in _in_place(problem, operand))), "")


def _no_bulk_words(problem: Problem, operand: Operand, tile: tuple[int, int, int], unit: int, count: int) -> str:
    """Likewise of one product's, of which a row has `count` bytes in a stage, for `unit` elements of K each."""
    scale = operand.scale_in_mma
    if scale is None:
        return f"{operand.name} has none, for which threads make ones"
    dim, rows = (problem.m, tile[0]) if operand is problem.lhs else (problem.n, tile[1])
    align, wanted = problem.target.tma_align, problem.kind.words
    if problem.k_lookups:
        return left_out_by_threads(problem, scale)
    if scale.gathered:
        return f"{scale.name} is of rows that {scale.gathered} names"
    if scale.layout != wanted or scale.rows != 1:
        return f"{scale.name} is not {wanted}, one scale for each {dim.name}"
    if operand is problem.rhs and problem.panes > 1 and (wanted == "packed" or rows // problem.panes % WORD_ROWS):
        return f"a tile has {rows // problem.panes} rows of {operand.name}, and of others as many"
    if unit != scale.k or count % WORD:
        return f"a stage has {tile[2]} of {problem.k.name}, no whole words of {scale.name}"
    pads = _pads(problem, scale)
    if pads:
        return f"{pads}, and what pads the last word of {scale.name} would be multiplied"
    column = None if dim.size is None else dim.size * WORD
    if wanted == "packed" and column is not None and column % align:
        return f"a column of {scale.name} is {column} bytes ({dim.name} = {dim.size}), not a multiple of {align}"
    if wanted == "packed" and (apart := problem.begins_apart(dim.name, 8 * WORD)):
        return f"{scale.name} is contiguous along {dim.name}, and {apart}"
    if wanted == "blocked" and problem.begins(dim.name) % WORD_ROWS and not scale.coords[scale.axes[0]].apart:
        return f"tiles begin at any {dim.name}, and not where tiles of {scale.name} do"
    if wanted == "blocked" and rows % SHIFT:
        return f"a tile has {rows} of {dim.name}, not a multiple of {SHIFT}"
    return ""


def _words_in_memory(problem: Problem, scale: Scale) -> bool:
    """Whether four bytes that are adjacent along K, from a multiple of four on, are an aligned word in memory."""
    if scale.layout in ("packed", "blocked"):
        return True
    return (
        scale.layout == "row"
        and not scale.k_apart
        and problem.k.size is not None
        and problem.k.tiles(scale.k, 0) % WORD == 0
    )
