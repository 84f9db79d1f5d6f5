"""Programs that take several launches: which, and the program of each (scalec.frontend.cut)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from scalec.errors import ApartError
from scalec.sizes import Size

if TYPE_CHECKING:
    from scalec.ir.mlir import ir

_ROWS = re.compile(r"\bscale\s*\(\s*[\dx\s]*x\s*[A-Za-z_]")
"""What every program with scales of whole rows has: others need not be parsed."""


@dataclass(frozen=True)
class Launches:
    """The launches of a program, in order; one that is the program itself where it takes no more.

    Attributes:
        texts: the program of each.
        between: what each but the first reads of what the first wrote, in f32.
        operands: names of what a caller passes, in the order of the program; empty for one launch.
        results: likewise of what a caller receives.
    """

    texts: tuple[str, ...]
    between: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


def may_be_several(source: str) -> bool:
    """Whether a program may take several launches, as far as that costs nothing to say."""
    return _ROWS.search(source) is not None


def launches(
    source: str,
    target: str,
    dims: Mapping[str, Size] | None = None,
    schedule: Mapping[str, str] | None = None,
    *,
    tuned: bool = True,
) -> Launches:
    """The launches that a program takes; arguments are those of scalec.compiler.decide.

    Of a result that no tile has whole rows of, the values reach memory in f32 and another launch quantises them: that
    is what the compiler's refusal asks for (ApartError), as often as there are such results.

    Raises:
        ScalecError: a refusal of the compiler, of what no cut helps.
    """
    if not may_be_several(source):
        return Launches((source,))
    from scalec import compiler
    from scalec.frontend.cut import by_whole_rows, cut

    first, texts, between = source, list[str](), list[str]()
    left = by_whole_rows(source)
    while left:
        try:
            compiler.decide(first, target, dims, schedule, tuned=tuned)
            break
        except ApartError as error:
            parts = cut(first, error.result) if error.result in left else None
            if parts is None:
                raise
            left.remove(error.result)
            first = parts.first
            texts.append(parts.second)
            between.append(parts.between)
    if not texts:
        return Launches((source,))
    operands, results = _names(source, dims)
    return Launches((first, *texts), tuple(between), operands, results)


def of_later(text: str, dims: Mapping[str, Size]) -> dict[str, Size]:
    """The sizes that a later launch's program speaks of."""
    return {name: size for name, size in dims.items() if re.search(rf"\b{re.escape(name)}\b", text)}


def told(every: Launches, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """For people: a line for each launch of several, and the bytes between them at these sizes."""
    if len(every.texts) == 1:
        return ()
    lines = [f"launch {i} of {len(every.texts)}: {' '.join(text.split())}" for i, text in enumerate(every.texts, 1)]
    for i, name in enumerate(every.between, 1):
        (at,) = re.findall(rf"\b{name}(\[.*?\]):f32", every.texts[i])
        moved = 4 * prod(sizes[dim] for dim in set(re.findall(r"\w+", at)) if dim in sizes)
        lines[i] += f" (between them {name}, {moved / 1e6:.1f} MB, written and read once)"
    return tuple(lines)


def _names(source: str, dims: Mapping[str, Size] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a program's operands and results, in order."""
    from scalec import frontend
    from scalec.ir import context as contexts
    from scalec.ir.mlir import ir

    def read(attributes: ir.Attribute) -> tuple[str, ...]:
        return tuple(ir.StringAttr(ir.DictAttr(x)["scale.name"]).value for x in ir.ArrayAttr(attributes))

    with contexts.context():
        function = frontend.build(source, dims).body.operations[0]
        return read(function.attributes["arg_attrs"]), read(function.attributes["res_attrs"])
