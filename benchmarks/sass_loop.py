"""Static quality of a kernel's main loop, counted in its machine code; needs nvdisasm and no GPU.

    python benchmarks/sass_loop.py kernel.cubin ...
    python benchmarks/sass_loop.py --target sm_90a 'C[m,n] = A[m,k]@B[n,k]' --dim n=4096,k=4096 --json -

The main loop is the smallest natural loop that holds tensor instructions. Of a loop, what counts is what runs when no
wait is long: the pieces of code that hold its header or a tensor instruction. The rest (a barrier's retries, which
ptxas moves out of line) is counted apart. benchmarks/README.md says what the columns mean.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.sass_flow import Function, Instruction, architecture, natural_loops, parse, successors
from scalec.commands import program
from scalec.commands.compile import Request
from scalec.commands.output import note, plain_table, print_table, write_result
from scalec.commands.sass import disassemble
from scalec.errors import ScalecError
from scalec.targets import TARGETS

ISSUE_CYCLES = {t.name: t.rates.issue_cycles for t in TARGETS.values() if t.rates.issue_cycles}
"""Cycles between two tensor instructions of one warp."""


@dataclass(frozen=True)
class Quality:
    """Counts of a main loop, for one warp and one iteration.

    Attributes:
        kernel: the function's name.
        target: the architecture, "" if not known.
        first, last: addresses of its first and last instruction, out-of-line ones left out.
        instructions: their number.
        out_of_line: instructions of the loop that are left out.
        classes: instructions by class, most first.
        tensor: tensor instructions.
        tensor_stalls: tensor instructions by stall count.
        stalls: the sum of all stall counts.
        waits: instructions that wait for a scoreboard.
        spacing: the least stall counts from one tensor instruction to the next; None with one alone.
        floor: cycles that ptxas 13.0 gives the tensor instructions at the least; None where that is not known.
        ratio: stalls over floor.
        ldsm_per_32: LDSM for 32 tensor instructions.
        moves: instructions of class MOV.
    """

    kernel: str
    target: str
    first: int
    last: int
    instructions: int
    out_of_line: int
    classes: dict[str, int]
    tensor: int
    tensor_stalls: dict[int, int]
    stalls: int
    waits: int
    spacing: int | None
    floor: int | None
    ratio: float | None
    ldsm_per_32: float
    moves: int


def main_loop(function: Function) -> tuple[list[Instruction], int] | None:
    """The main loop's instructions, and how many more stand out of line; None without a loop of tensor instructions."""
    code = function.instructions
    tensor = {i for i, x in enumerate(code) if x.kind == "tensor"}
    loops = [(header, body) for header, body in natural_loops(successors(function)).items() if body & tensor]
    if not loops:
        return None
    header, body = min(loops, key=lambda loop: (len(loop[1]), loop[0]))
    kept = [i for piece in _pieces(sorted(body)) if piece & tensor or header in piece for i in sorted(piece)]
    return [code[i] for i in kept], len(body) - len(kept)


def _pieces(positions: Sequence[int]) -> Iterator[set[int]]:
    """Runs of consecutive positions."""
    piece: set[int] = set()
    for i in positions:
        if piece and i - 1 not in piece:
            yield piece
            piece = set()
        piece.add(i)
    yield piece


def spacing(code: Sequence[Instruction]) -> int | None:
    """The least sum of stall counts from one tensor instruction to the next, None where there are not two."""
    starts = accumulate((x.stall for x in code), initial=0)
    at = [start for start, x in zip(starts, code, strict=False) if x.kind == "tensor"]
    return min((b - a for a, b in pairwise(at)), default=None)


def measure(text: str, target: str = "") -> list[Quality]:
    """The main loop of each kernel in a disassembly that has one."""
    target = target or architecture(text)
    found = []
    for function in parse(text):
        loop = main_loop(function)
        if loop is None:
            continue
        code, out_of_line = loop
        classes = Counter(x.kind for x in code)
        tensor, stalls = classes["tensor"], sum(x.stall for x in code)
        floor = ISSUE_CYCLES[target] * tensor if target in ISSUE_CYCLES else None
        found.append(
            Quality(
                kernel=function.name,
                target=target,
                first=code[0].address,
                last=code[-1].address,
                instructions=len(code),
                out_of_line=out_of_line,
                classes=dict(classes.most_common()),
                tensor=tensor,
                tensor_stalls=dict(sorted(Counter(x.stall for x in code if x.kind == "tensor").items())),
                stalls=stalls,
                waits=sum(x.awaited > 0 for x in code),
                spacing=spacing(code),
                floor=floor,
                ratio=round(stalls / floor, 4) if floor else None,
                ldsm_per_32=round(32 * classes["LDSM"] / tensor, 2),
                moves=classes["MOV"],
            )
        )
    return found


def show(found: Sequence[tuple[str, Quality]], *, stderr: bool) -> None:
    """Prints a line for each kernel; the classes are those that some kernel has."""
    total = Counter[str]()
    for _, q in found:
        total.update(q.classes)
    classes = [name for name, _ in total.most_common() if name != "tensor"]
    numbers = ("instr", "tensor", "stalls", "floor", "ratio", "LDSM/32", *classes)
    table = plain_table("kernel", "target", *numbers, right=numbers)
    for where, q in found:
        values = (
            q.instructions,
            q.tensor,
            q.stalls,
            q.floor or "-",
            "-" if q.ratio is None else f"{q.ratio:.3f}",
            f"{q.ldsm_per_32:g}",
            *(q.classes.get(name, 0) for name in classes),
        )
        table.add_row(where, q.target or "?", *map(str, values))
    print_table(table, stderr=stderr)
    for where, q in found:
        if q.floor and q.spacing and q.spacing < ISSUE_CYCLES[q.target]:
            note(
                f"note: {where}: {q.spacing} cycles from one tensor instruction to the next, but the floor has "
                f"{ISSUE_CYCLES[q.target]}, as ptxas 13.0 gives them (SCALEC_PTXAS names another ptxas)"
            )


def _cubins(what: Sequence[str], request: Request | None) -> Iterator[tuple[str, bytes]]:
    """(name, cubin) of each file, or, with `request`, of the one program."""
    if request is None:
        for path in what:
            yield Path(path).stem, Path(path).read_bytes()
        return
    made = request.compile("cubin")
    if made.cubin is None or made.spec is None:
        raise ScalecError("the compiler made no cubin")
    yield f"{made.spec.entry} {made.schedule}", made.cubin


def _request(what: Sequence[str], target: str, dims: Sequence[str], schedule: str | None) -> Request:
    if len(what) != 1:
        raise click.UsageError("--target takes one program")
    try:
        sizes = program.merge_dims(map(program.parse_dims, dims))
        decided = program.parse_schedule(schedule) if schedule else {}
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return Request(program.read_source(what[0]), target, sizes, decided)


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.argument("what", nargs=-1, required=True, metavar="CUBIN... | EXPR")
@click.option("--target", metavar="NAME", help="Compile EXPR for this GPU instead of reading files.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE,...", help="Size of a dimension of EXPR.")
@click.option("--schedule", metavar="FIELD=VALUE,...", help="Decisions to take instead of the compiler.")
@click.option("--json", "output", metavar="PATH", help="Write JSON there; - is stdout.")
def main(
    what: tuple[str, ...], target: str | None, dims: tuple[str, ...], schedule: str | None, output: str | None
) -> None:
    if not target and (dims or schedule):
        raise click.UsageError("--dim and --schedule are for a program: give --target")
    request = _request(what, target, dims, schedule) if target else None
    try:
        found = []
        for name, cubin in _cubins(what, request):
            kernels = measure(disassemble(cubin, encoding=True))
            if not kernels:
                raise ScalecError(f"{name}: no loop holds tensor instructions")
            found += [(name, q) for q in kernels]
        show(found, stderr=output == "-")
        if output is not None:
            write_result(json.dumps([{"of": name, **asdict(q)} for name, q in found], indent=1), output)
    except (ScalecError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
