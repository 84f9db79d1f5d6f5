"""What weights would gain that are reordered for registers of the tensor core, as the fitted model has it."""

from __future__ import annotations

from dataclasses import replace

from scalec.formats import FRAGMENTS, FRAGMENTS_TEXT, IN_ORDER, fragments
from scalec.ir.schedule import Request, Schedule
from scalec.model import space
from scalec.model.cost import Costs
from scalec.passes.problem.fragments import no_fragments
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem

LEAST = 0.97
"""The share of the time from which on nothing is said: the model is no closer."""


def gain(problem: Problem, given: Request, chosen: Schedule, costs: Costs) -> str:
    """How a program writes an operand that is reordered (`scalec.layouts.for_registers`), and in what share of the time
    the fastest kernel of it is predicted; "" where no operand may be, or nothing is gained."""
    written = problem.transposed() if problem.swapped else problem
    for side in ("lhs", "rhs"):
        if (name := _order(written, side)) and (other := _reordered(written, side, name)) is not None:
            times = [_fastest(x, given, chosen, costs) for x in (written, other)]
            x: Operand = getattr(written, side)
            if times[0] and times[1] and times[1] < LEAST * times[0]:
                *outer, last = (c.dim for c in x.coords)
                text = ", ".join([*outer, FRAGMENTS_TEXT[name].format(last)])
                made = f'for_registers({x.name}, "{x.stored.name}", "{x.element.name}")'
                share = f"is predicted to take {times[1] / times[0]:.2f} of the time"
                return f"{x.name}[{text}], of scalec.layouts.{made}, {share}"
    return ""


def _order(problem: Problem, side: str) -> str:
    """The order of an operand, if its elements lie in none, along K; else ""."""
    x: Operand = getattr(problem, side)
    plain = x.order == IN_ORDER and not (x.in_words or x.turned or x.addends) and x.contiguous == problem.k.name
    return fragments(x.stored.name, x.element) if plain and x.stored != x.element else ""


def _reordered(problem: Problem, side: str, name: str) -> Problem | None:
    """The program with that; None where there is none."""
    x: Operand = replace(getattr(problem, side), order=FRAGMENTS[name])
    other = problem.rhs if side == "lhs" else problem.lhs
    made = replace(problem, in_addends=None, lhs=x if side == "lhs" else problem.lhs)
    made = replace(made, rhs=x if side == "rhs" else problem.rhs)
    return None if no_fragments(made, x, other) else made


def _fastest(problem: Problem, given: Request, chosen: Schedule, costs: Costs) -> float:
    """Seconds of the fastest of what is ranked; 0 where nothing goes."""
    every = space.ranked(problem, given, chosen.tile[2], chosen.promote, costs)
    return next((seconds for seconds, _, reason in every if not reason), 0.0)
