"""Results quantised by whole rows, one scale each (`scale(1xn)`): a tile, or the tiles of a cluster, have all
of a row, or another launch does."""

from __future__ import annotations

from scalec.errors import ApartError, Place
from scalec.passes.problem.access import Dim
from scalec.passes.problem.result import COLUMNS, Result, whole_columns
from scalec.passes.problem.two_programs import two_programs
from scalec.targets import MAX_BOX


def row_block(result: Result, n: Dim, most: int, place: Place | None) -> int:
    """Columns of the block that is a whole row: those of a tile that has all of it, or of the tensor where only the
    tiles of several CTAs do, of at most `most`.

    Raises:
        ApartError: rows are longer than the tiles of a cluster, or of unknown length.
    """
    if n.size is not None and n.size <= MAX_BOX:
        return whole_columns(n.size)
    if n.size is not None and n.size <= MAX_BOX * most:
        return -(-n.size // COLUMNS[0]) * COLUMNS[0]
    found = f"{n.name} = {n.size}" if n.size is not None else f"{n.name} is not known at compile time"
    held = (
        "a tile then has all of a row" if most == 1 else f"the tiles of {most} CTAs of a cluster then have all of a row"
    )
    raise ApartError(
        f"{result.name} is quantised by whole rows, and {found}",
        expected=f"{n.name} up to {MAX_BOX * most}, given in dims: {held}",
        fix=two_programs(result, f"{result.element.name} scale(1x{result.coords[-1].dim})"),
        place=place,
        result=result.name,
    )
