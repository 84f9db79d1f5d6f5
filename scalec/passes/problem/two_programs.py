"""Results of a product that another program makes of its f32: what the messages that refuse them write out."""

from __future__ import annotations

from typing import Any

from scalec.errors import Place, UnsupportedError
from scalec.formats import WHOLE
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, block_of
from scalec.passes.problem.pointwise import READ
from scalec.passes.problem.result import Result
from scalec.passes.problem.types import ROUNDED


def two_programs(result: Result, type: str) -> str:
    """What a result quantised to a type, as the language spells it with its scales, may be written as."""
    name, at = result.name, f"[{','.join(x.dim for x in result.coords)}]"
    made, value = f"{'Q' if name != 'Q' else 'D'}{at}:{type}", f"{name}{at}:f32"
    if result.chance is not None:
        words = [f"{x.tensor}[{','.join(str(c.offset) for c in x.coords)}]" for x in result.chance.words]
        value = f"stochastic({', '.join([value, *words])})"
    return f"write {name}{at}:f32 here, and quantise it by a program of its own: {made} = {value}"


def type_of(result: Result, quantize: Any) -> str:
    """A result's type as the language spells it, with the scales that an op finds; None: it has none."""
    if quantize is None:
        return result.element.name
    granularity = GranularityAttr(quantize.granularity)
    block, kind, layout = block_of(granularity), granularity.type, ir.StringAttr(granularity.layout).value
    names = [x.dim for x in result.coords][-len(block) :]
    said = "x".join(name if size == WHOLE else str(size) for size, name in zip(block, names, strict=True))
    inner = f"{said}:{ir.StringAttr(kind).value}" + (f"@{layout}" if layout != "row" else "")
    return f"{result.element.name} scale({inner}{'*tensor' * len(quantize.outer)})"


def refuse_type(result: Result, quantize: Any, target: str, place: Place | None) -> None:
    """Refuses a type that no kernel of a product writes.

    Raises:
        UnsupportedError: it is one.
    """
    name, element = result.name, result.element.name
    if element in ROUNDED:
        return
    apart = element in READ and not result.inout
    raise UnsupportedError(
        f"{name} is {element}, which results of a product have no kernel for on {target} yet",
        expected=" or ".join(ROUNDED),
        fix=two_programs(result, type_of(result, quantize))
        if apart
        else f"give {name} one of these types and convert it after the call",
        place=place,
    )
