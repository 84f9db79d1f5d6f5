"""What the formats and layouts that `scalec.quantize` takes mean, as texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from scalec.errors import ArgumentError, shown
from scalec.formats import ELEMENT_TYPES, FORMATS, WHOLE, Granularity
from scalec.suggestions import did_you_mean

_BLOCK = re.compile(r"((\w+) scale\()?([1-9]\d{0,4})x([1-9]\d{0,4}|k)(:(\w+))?(?(1)\))", re.ASCII)
_WHOLE = re.compile(r"((\w+) scale\()?tensor(?(1)\))", re.ASCII)

_ELEMENTS = {n: t for n, t in ELEMENT_TYPES.items() if t.bits <= 8 and t.result and not t.scale}
"""Types of what is quantised."""


class Meaning(NamedTuple):
    """What format and layout say together."""

    along: tuple[str, str]  # type and scales as the language has them, of a tensor whose last index is k, or m
    bits: int  # of an element
    by_row: bool  # whether each row has a row of scales, so that they have the leading indices of values
    largest: str  # where there is a scale of the whole tensor, the largest magnitude of what it multiplies; else ""
    alone: str = ""  # the element type where that scale is the only one
    whole: bool = False  # whether a block is a whole row


@cache
def meaning_of(format: str, layout: str) -> Meaning:
    """What a format and a layout mean.

    Raises:
        ArgumentError: the format is none.
    """
    row, match, whole = FORMATS.get(format), _BLOCK.fullmatch(format), _WHOLE.fullmatch(format)
    if whole is not None:
        element = ELEMENT_TYPES[_known_element(whole[2] or "e4m3")]
        said = f"{element.name} scale(tensor)"
        return Meaning((said, said), element.bits, False, f"{element.max:g}", element.name)
    if row is not None:
        element, levels = ELEMENT_TYPES[row.element], row.result
    elif match is not None:
        name, columns = _known_element(match[2] or "e4m3"), WHOLE if match[4] == "k" else int(match[4])
        element, levels = ELEMENT_TYPES[name], (Granularity((int(match[3]), columns), match[6] or "f32"),)
    else:
        blocks = "or a block, as 1x128, 128x128, 1xk, 1x32:ue8m0, e5m2 scale(1x128), or tensor"
        raise not_among("format", format, FORMATS, blocks)
    levels = (replace(levels[0], layout=layout), *levels[1:])
    largest = f"{element.max * ELEMENT_TYPES[levels[0].type].max:g}" if len(levels) > 1 else ""
    in_k, in_m = (f"{element.name} scale({'*'.join([_written(g, last) for g in levels])})" for last in "km")
    by_row, whole = layout == "row" and levels[0].block[0] == 1, levels[0].block[-1] == WHOLE
    return Meaning((in_k, in_m), element.bits, by_row, largest, whole=whole)


def _known_element(name: str) -> str:
    if name not in _ELEMENTS:
        fix = did_you_mean(name, tuple(_ELEMENTS)) or "e4m3, which it is if none is said"
        said = f"the element type in format = {shown(name)} is unknown"
        raise ArgumentError(said, expected=", ".join(_ELEMENTS), fix=fix)
    return name


def _written(g: Granularity, last: str) -> str:
    block = "tensor" if g.tensor else "x".join(last if b == WHOLE else str(b) for b in g.block)
    return f"{block}:{g.type}" + ("" if g.layout == "row" else f"@{g.layout}")


def not_among(name: str, value: Any, known: Iterable[str], *others: str) -> ArgumentError:
    """What is wrong with an argument that is none of those that are `known`, nor like the `others`."""
    fix = did_you_mean(value, tuple(known)) if isinstance(value, str) and len(value) < 40 else ""
    fix = fix or f"{name}={next(iter(known))!r}, or another of these"
    return ArgumentError(f"{name} = {shown(value)} is unknown", expected=", ".join([*known, *others]), fix=fix)
