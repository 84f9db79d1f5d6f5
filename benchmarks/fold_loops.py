"""Loops of logits of an indexer on sm_100a and sm_120a, counted in machine code: products, and the fold of these.

    SCALEC_PTXAS=.../13.0/bin/ptxas python benchmarks/fold_loops.py [--json results/DATE-fold-loops.json]
    python benchmarks/fold_loops.py kernel.cubin ...       counts other kernels of that kind, of 128 dimensions

No GPU of these targets has run them. All figures are for one warp: instructions, and the sum of the stall counts in the
control words (README.md). A term is one head's product with one key, as a thread has it in a register. What a warp
computes where a vote fails, and what it reads once a run of tiles, is not counted.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import prod
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.group_loops import Nest
from benchmarks.sass_flow import Function, Instruction, parse
from scalec.bench import provenance
from scalec.commands.output import plain_table, print_table, write_result
from scalec.commands.sass import disassemble
from scalec.compiler import compile_source
from scalec.errors import ScalecError
from scalec.lowering import ptxas

TARGETS = ("sm_100a", "sm_120a")

_WINDOWS = "L[q,t]:f32 = sum[h](relu(Q[q,h,d]{a} @ K[t,d]{b} scale({s})) * W[q,h]:f32) for t in lo[q]:hi[q]"
_PAGES = (
    "L[s,t]:f32 = sum[h](relu(Q[s,h,d]:e4m3 @ K[table[s,t/64],t%64,d]:e4m3 scale(none,1x1xd)) * W[s,h]:f32) "
    "for t < len[s]"
)
SOURCES = {
    "FP8": _WINDOWS.format(a=":e4m3", b=":e4m3", s="none,1xd"),
    "FP8, pages": _PAGES,
    "FP8, pages, 2 tokens": _PAGES.replace("L[s,t]", "L[s,u,t]").replace("[s,h", "[s,u,h"),
    "FP4": _WINDOWS.format(a=":e2m1", b=":e2m1", s="1x1x32:ue8m0,1x32:ue8m0"),
}
"""Of 64 heads of 128 dimensions; on sm_120a a tile is one K block, so that its loop has the fold too."""

DIMENSIONS = 128

NEAR = 8
"""Instructions behind a vote among which the branch upon it is looked for."""

LONG = 32
"""Instructions of a way that computes terms, at the least."""

OF_A_TILE = ("LDTM", "SYNCS", "STG", "UTMALDG", "QMMA", "OMMA", "HMMA")
"""What is done for each tile."""


def sizes(name: str) -> dict[str, int]:
    """What kernels know of their sizes."""
    return {"h": 64, "d": DIMENSIONS} | ({"u": 2} if "tokens" in name else {})


@dataclass(frozen=True)
class Loops:
    """What was counted of a kernel.

    Attributes:
        schedule: the compiler's, "" of a kernel that is not its own.
        products: tensor instructions of the loop over tiles that issues them.
        issue: instructions and stalls of that loop for each of them.
        terms: of a thread, in the loop over tiles that folds them.
        fold: instructions and stalls of that loop for a term. On sm_120a it is the same loop.
        passed: instructions of it that are not counted (`rarely`).
    """

    schedule: str
    products: int
    issue: tuple[float, float]
    terms: int
    fold: tuple[float, float]
    passed: int


def rarely(function: Function, loop: set[int]) -> set[int]:
    """Instructions of a loop that do not run with each tile: what a branch upon a vote of all lanes jumps over; the
    longer one of two long ways, where terms are computed with their factors; and what a branch of a whole warp jumps
    over where nothing in it has to do with the tile, as where columns are the next run's."""
    code, found = function.instructions, set[int]()
    for i, x in enumerate(code):
        if i not in loop or x.stem != "BRA" or len(x.targets) != 1 or not x.conditional:
            continue
        end = function.labels[x.targets[0]]
        over, last = set(range(i + 1, end)) & loop, code[end - 1]
        if last.stem == "BRA" and not last.conditional and end - 1 in over:
            other = set(range(end, function.labels[last.targets[0]])) & loop
            found |= max(over, other, key=len) if min(len(over), len(other)) >= LONG else set()
        elif _upon_a_vote(code, i) or (x.opcode == "BRA.U" and not any(code[j].stem in OF_A_TILE for j in over)):
            found |= over
    return found


def _upon_a_vote(code: Sequence[Instruction], i: int) -> bool:
    votes = (x for x in code[max(0, i - NEAR) : i] if x.opcode.startswith("VOTE.ALL"))
    return any(x.operands.partition(",")[0] == code[i].guard for x in votes)


def taken(x: Instruction) -> int:
    """Registers that a load from tensor memory fills: .32x32b.xN has N, .16x256b.xN four times as many (PTX ISA
    9.7.16.8.1)."""
    wide = re.search(r"\.x(\d+)", x.opcode)
    return int(wide[1] if wide else 1) * (4 if "256bit" in x.opcode else 1)


def count(cubin: bytes, schedule: str = "") -> Loops:
    """Counts in a kernel.

    Raises:
        ScalecError: no loop of it holds tensor instructions.
    """
    (function,) = parse(disassemble(cubin, encoding=True))
    nest = Nest(function)
    code = nest.code
    multiply = nest.holding(lambda x: x.kind == "tensor")
    loads = nest.holding(lambda x: x.stem == "LDTM")
    if not multiply:
        raise ScalecError("no loop holds tensor instructions", got=schedule)
    issue, fold = multiply[0], (loads or multiply)[0]
    tensor = [code[i] for i in issue if code[i].kind == "tensor"]
    decided = dict(field.split("=") for field in schedule.split(", ") if field)
    if loads:
        terms = sum(taken(code[i]) for i in fold if code[i].stem == "LDTM")
    elif decided:
        terms = prod(map(int, decided["tile"].split("x")[:2])) // prod(map(int, decided["warps"].split("x"))) // 32
    else:
        terms = len(tensor) * 4 * _depth(tensor[0]) // DIMENSIONS
    passed = rarely(function, fold)
    each, folded, products = nest.count(issue - passed), nest.count(fold - passed), len(tensor)
    return Loops(
        schedule,
        products,
        (round(each.instructions / products, 2), round(each.stalls / products, 2)),
        terms,
        (round(folded.instructions / terms, 2), round(folded.stalls / terms, 2)),
        len(passed),
    )


def _depth(x: Instruction) -> int:
    """K of an m16n8 instruction: the last digits of a shape such as 16832."""
    shape = re.search(r"\.168(\d\d)\b", x.opcode)
    return int(shape[1]) if shape else 0


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.argument("cubins", nargs=-1, metavar="[CUBIN...]")
@click.option("--json", "output", metavar="PATH", help="Write JSON there; - is stdout.")
def main(cubins: tuple[str, ...], output: str | None) -> None:
    rows: list[tuple[str, str, Loops]] = []
    try:
        for path in cubins:
            rows.append(("", Path(path).stem, count(Path(path).read_bytes())))
        for target, name in product(TARGETS, SOURCES) if not cubins else ():
            made = compile_source(SOURCES[name], target, sizes(name))
            assert made.cubin is not None
            rows.append((target, name, count(made.cubin, str(made.schedule))))
    except (ScalecError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    columns = ("tile", "products", "each", "stalls", "terms", "a term", "stalls of one", "passed over")
    table = plain_table("target", "program", *columns, right=columns)
    for target, name, c in rows:
        tile = dict(f.split("=") for f in c.schedule.split(", ") if f).get("tile", "-")
        values = (c.products, *c.issue, c.terms, *c.fold, c.passed)
        table.add_row(target, name, tile, *(f"{x:g}" for x in values))
    print_table(table, stderr=output == "-")
    if output is not None:
        made = [{"target": target, "program": name, **asdict(c)} for target, name, c in rows]
        report = {**provenance.of_compiler(), "ptxas": ptxas.version(), "sources": SOURCES, "cases": made}
        write_result(json.dumps(report, indent=1), output)


if __name__ == "__main__":
    main()
