"""The issuing loops and epilogues of sm_100a's programs beside their goals, counted in machine code.

    SCALEC_PTXAS=.../13.0/bin/ptxas python benchmarks/sm100_loops.py [--target sm_103a] [--json results/DATE-...json]

Goals: instructions of the issuing warp for each tcgen05.mma, and of an epilogue warp for 32 columns, which it converts
while the next 32 are on their way (README.md).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.sass_flow import Function, Instruction, parse
from benchmarks.sass_loop import Quality, measure
from scalec.bench import provenance
from scalec.commands.output import plain_table, print_table, write_result
from scalec.commands.sass import disassemble
from scalec.compiler import compile_source
from scalec.errors import ScalecError
from scalec.lowering import ptxas

GOAL = 8.0
"""Instructions for each tcgen05.mma."""

EPILOGUE_GOAL = 45
"""Instructions of a warp for COLUMNS of a bf16 result that is stored in bulk."""

COLUMNS = 32
"""Columns that an epilogue's instructions are told for, however many are taken at a time."""


@dataclass(frozen=True)
class Case:
    """A program and its sizes."""

    name: str
    source: str
    dims: dict[str, int]


LARGE = {"n": 7168, "k": 2048}
_MXFP8 = "C[m,n] = A[m,k] @ B[n,k] scale(1x32:ue8m0@blocked, 1x32:ue8m0@blocked)"
_NVFP4 = "C[m,n] = A[m,k]:e2m1 @ B[n,k]:e2m1 scale(1x16:ue4m3@blocked, 1x16:ue4m3@blocked)"
CASES = (
    Case("BF16", "C[m,n] = A[m,k] @ B[n,k]", LARGE),
    Case("BF16, B[k,n]", "C[m,n] = A[m,k] @ B[k,n]", LARGE),
    Case("BF16, k not known", "C[m,n] = A[m,k] @ B[n,k]", {"n": 7168}),
    Case("FP8", "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3", LARGE),
    Case("FP8, ue8m0 1x128", "C[m,n] = A[m,k] @ B[n,k] scale(1x128:ue8m0, 1x128:ue8m0)", LARGE),
    Case("MXFP8", "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8", LARGE),
    Case("MXFP4", "C[m,n] = A[m,k]:mxfp4 @ B[n,k]:mxfp4", LARGE),
    Case("NVFP4", "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4", LARGE),
    Case("FP8, f32 1x128 by 128x128", "C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128)", LARGE),
    # tiles that begin within a tile of scales
    Case("MXFP8 @blocked, N 64", f"{_MXFP8} with tile=128x64x128", LARGE),
    Case("MXFP8 @blocked, N 192", f"{_MXFP8} with tile=128x192x128", LARGE),
    Case("NVFP4 @blocked, N 64", f"{_NVFP4} with tile=128x64x256", LARGE),
    Case("NVFP4 @blocked, N 192", f"{_NVFP4} with tile=128x192x256", LARGE),
)


@dataclass(frozen=True)
class Counts:
    """What was counted of a case.

    Attributes:
        schedule: the compiler's.
        per_product: instructions of the issuing loop for each tcgen05.mma.
        epilogue: instructions of a warp for COLUMNS columns; None where they are not taken out of tensor memory just to
            be stored in bulk.
        converted: of these, conversions while the next columns are on their way out of tensor memory, the fewest;
            likewise None.
        loop: the issuing loop.
    """

    schedule: str
    per_product: float
    epilogue: float | None
    converted: float | None
    loop: Quality


def taking(function: Function) -> Iterator[int]:
    """Where in a function each group of adjacent loads from tensor memory begins."""
    last = None
    for i, x in enumerate(function.instructions):
        if x.opcode.startswith("LDTM"):
            if last is None or i - last > 4:
                yield i
            last = i


def epilogue(functions: Sequence[Function]) -> float | None:
    """The most instructions from the loads of one part of a tile to those of the next, for COLUMNS of the part; None
    with too few parts."""
    found = []
    for f in functions:
        at = list(taking(f))
        found += [(b - a) * COLUMNS / _taken(f.instructions[b]) for a, b in pairwise(at)]
    return round(max(found), 1) if len(found) > 1 else None


def converted(functions: Sequence[Function]) -> float | None:
    """The fewest conversions from the loads of a part of a tile to where its registers are first used, for COLUMNS of
    a part, None with too few parts: those of the part before. Under a tile's last loads ptxas mixes those of both
    parts."""
    found = []
    for f in functions:
        code = f.instructions
        for start in list(taking(f))[1:-1]:
            if _column(code[start].operands):  # nothing is converted under a tile's first loads
                found.append(_until_used(code, start) * COLUMNS / _taken(code[start]))
    return round(min(found), 1) if found else None


def _column(operands: str) -> bool:
    """Whether a load's address is not that of an accumulator's first columns."""
    return "+" in operands.partition("tmem[")[2]


def _taken(load: Instruction) -> int:
    """Columns of a load: 8 of .16dp256bit, .xN of N times as many (PTX ISA 9.7.16.8.1)."""
    wide = re.search(r"\.x(\d+)", load.opcode)
    return 8 * int(wide[1] if wide else 1)


def _until_used(code: Sequence[Instruction], start: int) -> int:
    """Conversions from the loads at `start` on to the first use of what they load."""
    loaded: set[int] = set()
    conversions = 0
    for x in code[start:]:
        if x.stem == "LDTM":
            first = re.search(r"R(\d+)", x.operands)
            if first is not None and not conversions:
                loaded |= {int(first[1]) + i for i in range(_taken(x) // 2)}  # of 16 lanes, by 32 threads
                continue
            return conversions
        if loaded & {int(r) for r in re.findall(r"\bR(\d+)", x.operands)}:
            return conversions
        conversions += x.kind == "convert"
    return conversions


def count(case: Case, target: str = "sm_100a") -> Counts:
    """Compiles a case and counts.

    Raises:
        ScalecError: a refusal, or a kernel without a loop of tensor instructions.
    """
    made = compile_source(case.source, target, case.dims)
    assert made.cubin is not None
    assert made.schedule is not None
    text = disassemble(made.cubin, encoding=True)
    found = measure(text)
    if not found:
        raise ScalecError(f"{case.name}: no loop holds tensor instructions", got=str(made.schedule))
    loop = found[0]
    stored = made.schedule.epilogue == "bulk" and not made.schedule.promote
    per_product = round(loop.instructions / loop.tensor, 2)
    functions = parse(text) if stored else []
    return Counts(str(made.schedule), per_product, epilogue(functions), converted(functions), loop)


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--target", default="sm_100a", show_default=True, metavar="NAME", help="The GPU to compile for.")
@click.option("--json", "output", metavar="PATH", help="Write JSON there; - is stdout.")
def main(target: str, output: str | None) -> None:
    try:
        rows = [(case, count(case, target)) for case in CASES]
    except ScalecError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    numbers = ("stages", "tensor", "instr", "per tensor", "goal", "epilogue", "its goal", "converted")
    table = plain_table("program", "tile", *numbers, right=numbers)
    for case, c in rows:
        fields = dict(f.split("=") for f in c.schedule.split(", "))
        wide = ("-", "-", "-")
        if c.epilogue is not None:
            wide = (f"{c.epilogue:g}", str(EPILOGUE_GOAL), f"{c.converted or 0:g}")
        values = (c.loop.tensor, c.loop.instructions, f"{c.per_product:.2f}", f"{GOAL:g}", *wide)
        table.add_row(case.name, fields["tile"], fields["stages"], *map(str, values))
    print_table(table, stderr=output == "-")
    if output is not None:
        made = [{**asdict(case), "goal": GOAL, "epilogue_goal": EPILOGUE_GOAL, **asdict(c)} for case, c in rows]
        report = {**provenance.of_compiler(), "ptxas": ptxas.version(), "target": target, "cases": made}
        write_result(json.dumps(report, indent=1), output)


if __name__ == "__main__":
    main()
