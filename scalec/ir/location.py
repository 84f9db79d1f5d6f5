"""Places in a program's text as locations of the IR, and back: how a pass can point at what it refuses."""

from __future__ import annotations

from typing import Any

from scalec.errors import Place
from scalec.ir.mlir import ir


def location(place: Place) -> ir.Location:
    return ir.Location.file(place.name, place.line, place.column, place.line, place.column + place.width)


def place_of(thing: Any) -> Place | None:
    """The place of an operation or a value, without the line's text; None where its location is no place in a text."""
    at = thing.location if hasattr(thing, "location") else thing.operation.location
    if not isinstance(at, ir.FileLineColLoc):
        return None
    width = at.end_col - at.start_col if at.end_line == at.start_line else 0
    return Place(at.filename, at.start_line, at.start_col, max(1, width), "")
