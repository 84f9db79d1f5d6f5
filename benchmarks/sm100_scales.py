"""The loops of the warps that rearrange scales on sm_100a, counted in machine code, beside what `scalec explain` says.

    SCALEC_PTXAS=.../13.0/bin/ptxas python benchmarks/sm100_scales.py

A loop is the smallest that loads from global memory and stores to shared memory: one K block.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from scalec.passes.problem.read import read as read_problem

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.sass_flow import Function, natural_loops, parse, successors
from scalec import frontend
from scalec.commands.output import plain_table, print_table
from scalec.commands.sass import disassemble
from scalec.compiler import compile_source
from scalec.errors import ScalecError
from scalec.ir import context
from scalec.ir.schedule import from_mapping
from scalec.model.scale_words import instructions
from scalec.passes.pipeline import PIPELINE, run_pipeline
from scalec.passes.plan.draft import draft
from scalec.targets import get_target

TARGET = "sm_100a"
FP8 = "C[m,n] = A[m,k]@B[n,k] scale({0},{0})"
FP4 = "C[m,n] = A[m,k]:e2m1@B[n,k]:e2m1 scale({0},{0})"


@dataclass(frozen=True)
class Case:
    """A program with scales of one kind on both sides, its tile, and whether K is known."""

    program: str
    scale: str
    tile: str
    k: bool = True

    @property
    def source(self) -> str:
        return self.program.format(self.scale)

    @property
    def dims(self) -> dict[str, int]:
        return {"n": 7168, "k": 2048} if self.k else {"n": 7168}


CASES = (
    *(
        Case(FP8, f"1x32:ue8m0{layout}", tile)
        for layout in ("", "@col", "@packed", "@blocked")
        for tile in ("128x64x128", "128x192x128")
    ),
    *(
        Case(FP8, scale, "128x192x128")
        for scale in ("1x128:ue8m0", "1x128:ue8m0@col", "1x128:ue8m0@blocked", "128x128:ue8m0")
    ),
    *(Case(FP8, f"1x32:ue8m0{layout}", "128x192x128", k=False) for layout in ("", "@blocked")),
    *(Case(FP4, f"1x16:ue4m3{layout}", "128x192x256") for layout in ("", "@blocked")),
    *(Case(FP4, f"1x16:ue4m3{layout}", "128x64x256") for layout in ("", "@col")),
    *(Case(FP4, f"1x32:ue8m0{layout}", "128x192x256") for layout in ("", "@packed")),
)


def counted(case: Case) -> int:
    """Instructions of the loop.

    Raises:
        ScalecError: a refusal, or a kernel without such a loop.
    """
    made = compile_source(case.source, TARGET, case.dims, {"tile": case.tile, "scale_path": "thread"})
    assert made.cubin is not None
    sizes = [size for f in parse(disassemble(made.cubin, encoding=True)) for size in _loops(f)]
    if not sizes:
        raise ScalecError(f"{case}: no loop loads and stores scales")
    return min(sizes)


def _loops(function: Function) -> Sequence[int]:
    code = function.instructions
    bodies = natural_loops(successors(function)).values()
    return [len(b) for b in bodies if {"LDG", "STS"} <= {code[i].stem for i in b}]


def predicted(case: Case) -> float:
    """What `scalec explain` says of it."""
    target = get_target(TARGET)
    with context.context():
        module = frontend.build(case.source, case.dims)
        run_pipeline(module, target, passes=PIPELINE[:2])
        program = next(o for o in module.body.operations if o.operation.name == "func.func")
        problem = read_problem(program, target)
        return instructions(problem, draft(problem, from_mapping({"tile": case.tile, "scale_path": "thread"})))


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
def main() -> None:
    numbers = ("counted", "explain", "ratio")
    table = plain_table("operands", "scales", "k", "tile", *numbers, right=numbers)
    try:
        for case in CASES:
            found, said = counted(case), predicted(case)
            operands, k = "FP8" if case.program == FP8 else "FP4", "known" if case.k else "any"
            table.add_row(operands, case.scale, k, case.tile, str(found), f"{said:.0f}", f"{said / found:.2f}")
    except ScalecError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    print_table(table)


if __name__ == "__main__":
    main()
