"""Results quantised by whole rows, one scale each (`scale(1xn)`): a tile has all of a row, or another launch does."""

from __future__ import annotations

from scalec.errors import ApartError, Place
from scalec.passes.problem.access import Dim
from scalec.passes.problem.result import Result
from scalec.passes.problem.two_programs import two_programs
from scalec.targets import MAX_BOX

COLUMNS = 16, 64
"""Of which the columns of tiles that every target has are multiples: of up to 128, and of more."""


def row_block(result: Result, n: Dim, place: Place | None) -> int:
    """Columns of the block that is a whole row: those of a tile that has all of it.

    Raises:
        ApartError: rows are longer than a tile, or of unknown length.
    """
    if n.size is not None and n.size <= MAX_BOX:
        step = COLUMNS[n.size > MAX_BOX // 2]
        return -(-n.size // step) * step
    found = f"{n.name} = {n.size}" if n.size is not None else f"{n.name} is not known at compile time"
    raise ApartError(
        f"{result.name} is quantised by whole rows, and {found}",
        expected=f"{n.name} up to {MAX_BOX}, given in dims: a tile then has all of a row",
        fix=two_programs(result, f"{result.element.name} scale(1x{result.coords[-1].dim})"),
        place=place,
        result=result.name,
    )
