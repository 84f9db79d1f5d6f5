"""Results of a product that another program makes of its f32: what the messages that refuse them write out."""

from __future__ import annotations

from scalec.errors import Place, UnsupportedError
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


def refuse_type(result: Result, target: str, place: Place | None) -> None:
    """Refuses a type that no kernel of a product writes.

    Raises:
        UnsupportedError: it is one.
    """
    name, element = result.name, result.element.name
    if element in ROUNDED:
        return
    raise UnsupportedError(
        f"{name} is {element}, which results of a product have no kernel for on {target} yet",
        expected=" or ".join(ROUNDED),
        fix=f"give {name} one of these types and convert it after the call",
        place=place,
    )
