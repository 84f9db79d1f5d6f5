"""The inner loops of sm_120a's programs beside their goals, counted in machine code.

    SCALEC_PTXAS=.../13.0/bin/ptxas python benchmarks/sm120_loops.py [--json results/DATE-sm120-loops.json]

Goals: the sum of stall counts over 16 cycles for each tensor instruction, as ptxas 13.0 spaces them (README.md).
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.sass_loop import Quality, measure
from scalec.bench import provenance
from scalec.commands.output import plain_table, print_table, write_result
from scalec.commands.sass import disassemble
from scalec.compiler import compile_source
from scalec.errors import ScalecError
from scalec.lowering import ptxas

TARGET = "sm_120a"


@dataclass(frozen=True)
class Case:
    """A program, its sizes, and what its loop's ratio may be at the most."""

    name: str
    source: str
    dims: dict[str, int]
    goal: float | None


LARGE = {"n": 7168, "k": 2048}
CASES = (
    Case("FP8, ue8m0 1x128", "C[m,n] = A[m,k] @ B[n,k] scale(1x128:ue8m0, 1x128:ue8m0)", LARGE, 1.03),
    Case("FP8, ue8m0 1x32", "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8", LARGE, 1.03),
    Case("FP8, 1x32 @packed", "C[m,n] = A[m,k] @ B[n,k] scale(1x32:ue8m0@packed, 1x32:ue8m0@packed)", LARGE, 1.03),
    Case("MXFP4", "C[m,n] = A[m,k]:mxfp4 @ B[n,k]:mxfp4", LARGE, 1.03),
    Case("NVFP4", "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4", LARGE, 1.03),
    Case("FP8 x FP4", "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1x128:ue8m0, 1x32:ue8m0)", LARGE, 1.05),
    Case("BF16", "C[m,n] = A[m,k] @ B[n,k]", LARGE, 1.05),
    Case("FP8, per row", "C[m,n] = A[m,k] @ B[n,k] scale(1xk, 1xk)", LARGE, None),
    Case("FP8, f32 1x128", "C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128)", LARGE, None),
    Case("MXFP6", "C[m,n] = A[m,k]:mxfp6 @ B[n,k]:mxfp6", LARGE, None),
    Case("FP8 1x32, m = 16", "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8", {"m": 16, **LARGE}, 2.0),
)


def count(case: Case) -> tuple[str, Quality]:
    """(schedule, main loop) of a case.

    Raises:
        ScalecError: a refusal, or a kernel without a loop of tensor instructions.
    """
    made = compile_source(case.source, TARGET, case.dims)
    assert made.cubin is not None
    found = measure(disassemble(made.cubin, encoding=True))
    if not found:
        raise ScalecError(f"{case.name}: no loop holds tensor instructions", got=str(made.schedule))
    return str(made.schedule), found[0]


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--json", "output", metavar="PATH", help="Write JSON there; - is stdout.")
def main(output: str | None) -> None:
    try:
        rows = [(case, *count(case)) for case in CASES]
    except ScalecError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    numbers = ("tensor", "stalls", "ratio", "goal", "LDSM/32", "moves")
    table = plain_table("program", "tile", *numbers, right=numbers)
    for case, schedule, q in rows:
        tile = dict(f.split("=") for f in schedule.split(", "))["tile"]
        goal = "-" if case.goal is None else f"{case.goal:.2f}"
        values = (q.tensor, q.stalls, f"{q.ratio:.3f}", goal, f"{q.ldsm_per_32:g}", q.moves)
        table.add_row(case.name, tile, *map(str, values))
    print_table(table, stderr=output == "-")
    if output is not None:
        made = [{**asdict(case), "schedule": schedule, "loop": asdict(q)} for case, schedule, q in rows]
        report = {**provenance.of_compiler(), "ptxas": ptxas.version(), "target": TARGET, "cases": made}
        write_result(json.dumps(report, indent=1), output)


if __name__ == "__main__":
    main()
