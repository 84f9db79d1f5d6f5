"""The loops of products in groups beside those of the dense product with the same schedule, counted in machine code.

    SCALEC_PTXAS=.../13.0/bin/ptxas python benchmarks/group_loops.py [--json results/DATE-group-loops.json]

No GPU of these targets has run them. All figures are for one warp: instructions, and the sum of the stall counts in the
control words (README.md). What a loop does once a K block is told apart from what it does once a tile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.groups import ALL_K, DENSE, SOURCES
from benchmarks.sass_flow import Function, Instruction, natural_loops, parse, successors
from scalec.bench import provenance
from scalec.commands.output import plain_table, print_table, write_result
from scalec.commands.sass import disassemble
from scalec.compiler import compile_source
from scalec.errors import ScalecError
from scalec.lowering import ptxas

TARGETS = ("sm_100a", "sm_120a")

GOAL = 1.02
"""Instructions and stalls of a loop over those of the dense kernel's."""

KINDS = ("blocks", "ragged", "masked", "gathered", "along")

_SAME = (
    *("swap", "tile", "cluster", "cta_group", "stages", "warpgroups", "consumers", "warps", "registers"),
    *("scale_path", "promote", "unroll", "epilogue", "staged", "panels"),
)
"""Decisions of a kernel of groups that the dense kernel beside it has too."""


@dataclass(frozen=True)
class Count:
    """Instructions, and the sum of their stall counts."""

    instructions: int
    stalls: int


@dataclass(frozen=True)
class Loops:
    """What was counted of a kernel; None for what it has not.

    Attributes:
        schedule: the compiler's.
        tensor: tensor instructions of an iteration of `multiply`.
        multiply: the innermost loop with tensor instructions.
        promote: the innermost loop that takes sums out of tensor memory, which one with f32 scales does each K block.
        copy: the loop over K of the warp that issues bulk copies.
        multiply_item, copy_item: what the loops over tiles around these have beside the loops over K.
        item: the loop of the warp that says which tile is next; all of it, whichever way an item takes.
    """

    schedule: str
    tensor: int
    multiply: Count
    promote: Count | None
    copy: Count
    multiply_item: Count
    copy_item: Count
    item: Count | None


def sizes(kind: str) -> dict[str, int]:
    """What kernels know of their sizes."""
    return {"m": 4096, "n": 7168} if kind == "along" else {"n": 7168, "k": 2048}


def of_groups(kind: str) -> str:
    """The program; without what the mean of the rows promises, which only chooses tiles."""
    return SOURCES[kind].partition(" about ")[0]


class Nest:
    """Loops of a function, of which each holds the positions of its instructions that are not out of line."""

    def __init__(self, function: Function) -> None:
        self.code = function.instructions
        ends = [i for i, x in enumerate(self.code) if x.stem == "EXIT" and x.guard in ("", "PT")]
        end = ends[-1] if ends else len(self.code)  # behind it ptxas puts what waits once more
        found = [{i for i in body if i <= end} for body in natural_loops(successors(function)).values()]
        self.loops = sorted(found, key=len)

    def holding(self, wanted: Callable[[Instruction], bool]) -> list[set[int]]:
        """Loops that hold such an instruction, the smallest first, and then those around it."""
        at = {i for i, x in enumerate(self.code) if wanted(x)}
        first = next((loop for loop in self.loops if loop & at), None)
        return [] if first is None else [loop for loop in self.loops if loop >= first]

    def over_tiles(self) -> Iterator[set[int]]:
        """Loops that are in no other."""
        for loop in self.loops:
            if not any(loop < other for other in self.loops):
                yield loop

    def has(self, loop: set[int], *stems: str) -> bool:
        """Whether a loop holds an instruction with one of these opcodes."""
        return any(self.code[i].stem in stems or self.code[i].kind in stems for i in loop)

    def count(self, positions: set[int]) -> Count:
        return Count(len(positions), sum(self.code[i].stall for i in positions))


def loops_of(cubin: bytes, schedule: str) -> Loops:
    """Counts in a kernel.

    Raises:
        ScalecError: no loop of it holds tensor instructions, or none bulk copies.
    """
    (function,) = parse(disassemble(cubin, encoding=True))
    nest = Nest(function)
    multiply, copy = nest.holding(lambda x: x.kind == "tensor"), nest.holding(lambda x: x.stem == "UTMALDG")
    if len(multiply) < 2 or len(copy) < 2:
        raise ScalecError("no loops over tiles and K that hold tensor instructions, and copies", got=schedule)
    taken = nest.holding(lambda x: x.stem == "LDTM")
    items = [
        loop
        for loop in nest.over_tiles()
        if nest.has(loop, "STS") and not nest.has(loop, "UTMALDG", "tensor", "LDTM")
        if not any(inner < loop and nest.has(inner, "STS") for inner in nest.loops)
    ]
    return Loops(
        schedule=schedule,
        tensor=sum(nest.code[i].kind == "tensor" for i in multiply[0]),
        multiply=nest.count(multiply[0]),
        promote=nest.count(taken[0]) if len(taken) > 1 else None,
        copy=nest.count(copy[-2]),
        multiply_item=nest.count(multiply[-1] - multiply[-2]),
        copy_item=nest.count(copy[-1] - copy[-2]),
        item=nest.count(items[0]) if items else None,
    )


def compiled(source: str, target: str, dims: Mapping[str, int], schedule: Mapping[str, str]) -> Loops:
    made = compile_source(source, target, dims, schedule)
    assert made.cubin is not None
    return loops_of(made.cubin, str(made.schedule))


def count(kind: str, target: str) -> tuple[Loops, Loops]:
    """(of groups, of the dense kernel that has the same tiles).

    Raises:
        ScalecError: a refusal, or a kernel without such loops.
    """
    found = compiled(of_groups(kind), target, sizes(kind), {})
    decided = dict(field.split("=") for field in found.schedule.split(", "))
    same = {name: decided[name] for name in _SAME}
    dense = ALL_K if kind == "along" else DENSE
    if kind == "gathered":  # threads bring scales of rows that are gathered
        same.pop("scale_path")
    return found, compiled(dense, target, sizes(kind), same)


def told(count: Count | None, beside: Count | None = None) -> str:
    """Instructions and stalls, and in brackets the dense kernel's."""
    text = "-" if count is None else f"{count.instructions}, {count.stalls}"
    return text if beside is None else f"{text} ({beside.instructions}, {beside.stalls})"


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--only", multiple=True, metavar="KIND", help="Kinds of groups.")
@click.option("--json", "output", metavar="PATH", help="Write JSON there; - is stdout.")
def main(only: tuple[str, ...], output: str | None) -> None:
    rows: list[tuple[str, str, Loops, Loops]] = []
    try:
        for target in TARGETS:
            rows += [(target, kind, *count(kind, target)) for kind in KINDS if not only or kind in only]
    except ScalecError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    columns = ("tile", "tensor", "multiply", "promote", "copy", "multiply, a tile", "copy, a tile", "item")
    table = plain_table("target", "groups", *columns, right=columns)
    for target, kind, found, dense in rows:
        tile = dict(f.split("=") for f in found.schedule.split(", "))["tile"]
        names = ("multiply", "promote", "copy", "multiply_item", "copy_item", "item")
        values = [told(getattr(found, name), getattr(dense, name)) for name in names]
        table.add_row(target, kind, tile, str(found.tensor), *values)
    print_table(table, stderr=output == "-")
    if output is not None:
        made = [
            {"target": target, "groups": kind, "source": of_groups(kind), "dims": sizes(kind)}
            | {"loops": asdict(found), "dense": asdict(dense)}
            for target, kind, found, dense in rows
        ]
        report = {**provenance.of_compiler(), "ptxas": ptxas.version(), "goal": GOAL, "cases": made}
        write_result(json.dumps(report, indent=1), output)


if __name__ == "__main__":
    main()
