"""Batches, groups of few rows, sums over batches, converted operands on Hopper, and inputs as large as the result,
against torch and a copy of as many bytes.

    python benchmarks/batched.py -o result.json                compiles and measures on this machine
    python benchmarks/batched.py --only groups --next 3        and the three schedules that are ranked next
    python benchmarks/batched.py --contenders deepgemm.py      and what a file of one's own has: contenders(spec, dims)

Kernels are compiled side by side, one process for each core, then checked, and measured shape by shape, contenders
interleaved (scalec/bench/): scalec; torch.bmm, or torch.einsum, of 16-bit operands, for FP8 of what these stand for,
and so of twice their bytes; and a copy within the GPU's memory that reads and writes, both together, as many bytes as
operands, scales and results have. A ratio is another's time over scalec's: that of the copy is the share of its
bandwidth. Beside operands that are converted stand scalec's kernels of bf16 and FP8 of the same sizes (`dense-bf16`,
`dense-fp8`). Runs from a checkout, whether or not scalec is
installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scalec.bench import method
from scalec.bench.contenders import PAGE, Contender, Source, batched
from scalec.bench.contraction import contraction, dequantised
from scalec.bench.result import OURS, Row
from scalec.errors import ScalecError

if TYPE_CHECKING:
    import torch

    from scalec.abi import KernelSpec
    from scalec.bench.inputs import Inputs

ROUNDS = 11
"""Of replays, of each contender."""

ROWS = (4, 16, 64, 128, 512, 2048, 8192)


@dataclass(frozen=True)
class Program:
    """A program, and the sizes that it is measured at."""

    source: str
    shapes: tuple[dict[str, int], ...]
    beside: tuple[dict[str, str], ...] = ()  # schedules to measure beside what the compiler chooses


def _heads(h: int, r: int, d: int) -> tuple[dict[str, int], ...]:
    return tuple({"b": b, "h": h, "r": r, "d": d} for b in ROWS)


GROUPS = tuple({"g": 8, "m": m, "n": 1024, "k": 2048} for m in (1, 2, 8))
SUMS = tuple(
    {"b": b, "m": m, "n": n, "k": k}
    for b in (129, 4096, 8192)
    for m, n, k in ((128, 384, 128), (256, 256, 256), (384, 128, 384))
)

DENSE = tuple({"m": m, "n": n, "k": k} for n, k in ((8192, 8192), (7168, 2048)) for m in (1, 16, 64, 256, 4096))
EXPERTS = tuple({"g": 8, "m": 8 * rows, "n": n, "k": k} for n, k in ((4096, 7168), (7168, 2048)) for rows in (16, 48))
MANY = tuple({"g": 8, "m": 32768, "n": n, "k": k} for n, k in ((4096, 7168), (7168, 2048)))
LAYERS = tuple(
    {"B_0": groups, "m": rows, "n": n, "k": k}
    for groups, rows, n, k in ((4, 4 * 30720, 7168, 2048), (8, 8 * 32768, 4096, 7168), (48, 64512, 1280, 4096))
)
"""Of mixtures in training: so many groups of whole blocks."""

RANGES = " for m in off[g]:off[g+1]"

READ = tuple({"m": m, "n": n, "k": k} for m, n, k in ((4096, 7168, 2048), (8192, 7168, 512), (4096, 4096, 7168)))
READ_GROUPS = tuple({"m": 32768, "n": n, "k": k, "B_0": 8} for n, k in ((4096, 2048), (2048, 1024)))
PRODUCTS = {
    "read-bf16": ("T[m,n] = A[m,k]:bf16 @ B[n,k]:bf16", READ),
    "read-fp8": ("T[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x128,128x128)", READ),
    "groups-read-bf16": ("T[m,n] = A[m,k]:bf16 @ B[e[m/128],n,k]:bf16", READ_GROUPS),
    "groups-read-fp8": ("T[m,n] = A[m,k]:e4m3 @ B[e[m/128],n,k]:e4m3 scale(1x128,1x128x128)", READ_GROUPS),
}
READING = {
    "plain": "C[m,n]:bf16 = T",
    "one": "C[m,n]:bf16 = T + X[m,n]:bf16",
    "wide": "C[m,n]:bf16 = T + X[m,n]:f32",
    "two": "C[m,n]:bf16 = T * X[m,n]:bf16 + Y[m,n]:bf16",
    "f32": "C[m,n]:f32 = T + X[m,n]:f32",
}
"""What results are computed of at each row and column, beside a product."""

THREADS = {"adds": "memory", "inputs": "0"}
"""Threads load that, where copies could bring it."""

PROGRAMS = {
    "dense-bf16": Program("C[m,n] = A[m,k] @ B[n,k]", DENSE),
    "dense-fp8": Program("C[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128)", DENSE),
    "bf16-nvfp4": Program("C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4", DENSE),
    "bf16-mxfp4": Program("C[m,n] = A[m,k]:bf16 @ B[n,k]:mxfp4", DENSE),
    "bf16-e4m3": Program("C[m,n] = A[m,k]:bf16 @ B[n,k]:e4m3 scale(none,128x128)", DENSE),
    "fp8-nvfp4": Program("C[m,n] = A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128)", DENSE),
    "fp8-e2m1": Program("C[m,n] = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1x128,1x128)", DENSE),
    "bf16-i4": Program("C[m,n] = A[m,k]:bf16 @ B[n,k]:i4 scale(none,1x128:bf16)", DENSE),
    "fp8-i4": Program("C[m,n] = A[m,k]:e4m3 @ B[n,k]:i4 scale(1x128,1x128)", DENSE),
    "mxfp8": Program("C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8", DENSE),
    "mxfp4": Program("C[m,n] = A[m,k]:mxfp4 @ B[n,k]:mxfp4", DENSE),
    "nvfp4": Program("C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4", DENSE),
    "fp8-by-n": Program("C[m,n] = A[m,k]:e4m3 @ B[k,n]:e4m3 scale(1x128,128x128)", DENSE[4::5]),
    "fp8-by-m-n": Program("C[m,n] = A[k,m]:e4m3 @ B[k,n]:e4m3 scale(128x1,128x128)", DENSE[4::5]),
    "experts-fp8": Program(f"C[m,n] = A[m,k] @ B[g,n,k] scale(1x128,1x128x128){RANGES}", EXPERTS),
    "experts-nvfp4": Program(f"C[m,n] = A[m,k]:e4m3 @ B[g,n,k]:nvfp4 scale(1x128){RANGES}", EXPERTS),
    "many-bf16": Program(f"C[m,n] = A[m,k]:bf16 @ B[g,n,k]:bf16{RANGES}", MANY),
    "many-fp8": Program(f"C[m,n] = A[m,k] @ B[g,n,k] scale(1x128,1x128x128){RANGES}", MANY),
    "many-fp8-nvfp4": Program(f"C[m,n] = A[m,k]:e4m3 @ B[g,n,k]:nvfp4 scale(1x128){RANGES}", MANY),
    "many-bf16-nvfp4": Program(f"C[m,n] = A[m,k]:bf16 @ B[g,n,k]:nvfp4{RANGES}", MANY),
    "layers-bf16": Program("D[m,n] = A[m,k]:bf16 @ B[e[m/128],n,k]:bf16", LAYERS),
    "layers-mxfp8-bf16": Program("D[m,n] = A[m,k]:mxfp8 @ B[e[m/128],n,k]:mxfp8", LAYERS),
    "layers-mxfp8": Program("D[m,n]:mxfp8 = A[m,k]:mxfp8 @ B[e[m/128],n,k]:mxfp8", LAYERS),
    "layers-fp8": Program("D[m,n]:e4m3 scale(1x128) = A[m,k] @ B[e[m/128],n,k] scale(1x128,1x128x128)", LAYERS),
    **{
        f"{name}-{kind}": Program(f"{product}\n{result}", shapes, (THREADS,) * (name != "plain"))
        for kind, (product, shapes) in PRODUCTS.items()
        for name, result in READING.items()
    },
    "heads-fp8": Program("Z[b,h,d] = X[b,h,r] @ Y[h,d,r] scale(1x128,128x128)", _heads(8, 4096, 1024)),
    "heads-bf16": Program("Z[b,h,d] = X[b,h,r] @ Y[h,d,r]", _heads(128, 512, 128)),
    "groups-fp8": Program("C[g,m,n] = A[g,m,k] @ B[g,n,k] scale(1x128,128x128)", GROUPS),
    "groups-bf16": Program("C[g,m,n] = A[g,m,k] @ B[g,n,k]", GROUPS),
    "sums-bf16": Program("D[m,n]:f32 += A[b,m,k] @ B[b,n,k]", SUMS),
}

COPY = "a copy of as many bytes"
DEFAULT = "default"
"""The name of what the compiler chooses."""
ONE = "one kernel"
"""That of its choice where it takes several launches for less time."""

Kernels = Mapping[str, Any]
"""Kernels of one shape by the schedule's name: DEFAULT, and others."""


def copy(spec: KernelSpec, dims: dict[str, int]) -> dict[str, Contender]:
    """A copy within the device's memory, of half of the bytes: it reads and writes them.

    Two ways, of which the faster is measured: at some sizes the driver's takes half as long again (H200, 2026-11-24:
    537.07 MB took 389 µs, 537.13 MB 256 µs, and so in each of two runs).
    """

    def by(way: Callable[[torch.Tensor, torch.Tensor], object]) -> Callable[[Inputs], Callable[[], object]]:
        def make(inputs: Inputs) -> Callable[[], object]:
            import torch

            device, words = next(iter(inputs.outputs.values())).device, -(-inputs.bytes() // (2 * PAGE)) * PAGE // 8
            source = torch.zeros(words, dtype=torch.int64, device=device)
            copied = torch.empty_like(source)
            return lambda: way(source, copied)

        return make

    def kernel(source: torch.Tensor, copied: torch.Tensor) -> object:
        import torch

        return torch.bitwise_not(source, out=copied)

    ways = {"the driver's": by(lambda source, copied: copied.copy_(source)), "a kernel": by(kernel)}
    return {COPY: Contender(ways, checked=False)}


def in_bf16(spec: KernelSpec, dims: dict[str, int]) -> dict[str, Contender]:
    """Where operands have scales, torch's kernel for what they stand for, rounded to bf16."""
    what = contraction(spec, dims)
    if what is None or what.blocks is None:
        return {}

    def of(contender: Contender) -> Contender:
        def make(inputs: Inputs) -> Callable[[], object]:
            a, b = (x.bfloat16() for x in dequantised(what, inputs.values))
            values = {what.a: a, what.b: b}
            return contender.variants[""](replace(inputs, values=values))

        return Contender({"": make})

    return {f"{name}, bf16 operands": of(contender) for name, contender in batched(what).items()}


def others(kernels: Kernels) -> Source:
    """The kernels of other schedules, as contenders."""

    def source(spec: KernelSpec, dims: dict[str, int]) -> dict[str, Contender]:
        from scalec.bench.shape import ours

        def of(kernel: Any) -> Contender:  # each writes a result of its own
            return Contender({"": lambda inputs: ours(kernel, spec, _with_own_result(inputs))})

        return {name: of(kernel) for name, kernel in kernels.items() if name != DEFAULT}

    return source


def _with_own_result(inputs: Inputs) -> Inputs:
    import torch

    return replace(inputs, outputs={name: torch.zeros_like(t) for name, t in inputs.outputs.items()})


def compiled(programs: Sequence[str], count: int) -> dict[tuple[str, int], Kernels | str]:
    """The kernels for each shape, by program and number of the shape, or why there is no DEFAULT: what the compiler
    chooses, and the `count` other schedules that are ranked first. Those that do not compile are left out."""
    from scalec.api import compile
    from scalec.launches import launches
    from scalec.runtime.kernel import Kernel
    from scalec.tuning.build import Recipe, fields, pool
    from scalec.tuning.ranking import ranked

    places: dict[Recipe, tuple[str, int]] = {}
    for program in programs:
        source = PROGRAMS[program].source
        for number, dims in enumerate(PROGRAMS[program].shapes):
            best = ranked(source, "sm_90a", dims)[: count + 1] if count else []
            schedules = [{}, *PROGRAMS[program].beside, *(r.schedule for r in best)]
            for schedule in schedules:
                recipe = Recipe(fields(schedule) or DEFAULT, source, "sm_90a", (*dims.items(),), (*schedule.items(),))
                places[recipe] = program, number
    made: dict[tuple[str, int], dict[str, Any]] = {place: {} for place in places.values()}
    failed: dict[tuple[str, int], str] = {}
    with pool() as build:
        for recipe, found in build(places):
            if not isinstance(found, str):
                made[places[recipe]][recipe.name] = Kernel(found.spec, found.cubin, ptx=found.ptx)
            elif recipe.name == DEFAULT:
                failed[places[recipe]] = found
    for (program, number), kernels in made.items():
        source, dims = PROGRAMS[program].source, PROGRAMS[program].shapes[number]
        if len(launches(source, "sm_90a", dims).texts) > 1:
            kernels[ONE] = kernels.pop(DEFAULT)
            kernels[DEFAULT] = compile(source, "sm_90a", dims)
    most = {place: count + len(PROGRAMS[place[0]].beside) + (ONE in made[place]) for place in made}
    return {place: failed.get(place, _different(kernels, most[place])) for place, kernels in made.items()}


def _different(kernels: dict[str, Any], count: int) -> Kernels:
    """DEFAULT, and up to `count` whose schedules are others'."""
    found: dict[str, Any] = {}
    for name in sorted(kernels, key=lambda name: name != DEFAULT):
        if kernels[name].spec.schedule not in {k.spec.schedule for k in found.values()} and len(found) <= count:
            found[name] = kernels[name]
    return found


def measured(
    programs: Sequence[str], every: Mapping[tuple[str, int], Kernels | str], rounds: int, sources: Sequence[Source]
) -> Iterator[tuple[str, dict[str, int], Row | str]]:
    """The rows of all shapes: program, sizes, and what was measured, or why nothing was."""
    from scalec.bench.shape import Effort, bench_shape

    for program in programs:
        for number, dims in enumerate(PROGRAMS[program].shapes):
            kernels = every[program, number]
            if isinstance(kernels, str):
                yield program, dims, kernels
                continue
            kernel = kernels[DEFAULT]
            mine = [in_bf16, *sources, others(kernels), copy]
            try:
                yield program, dims, bench_shape(kernel, kernel.spec, dims, effort=Effort(rounds, 0), sources=mine)
            except ScalecError as error:
                yield program, dims, str(error)


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option(
    "--only", multiple=True, metavar="TEXT", help=f"Programs with this in their names: {', '.join(PROGRAMS)}."
)
@click.option("--next", "count", default=0, show_default=True, help="Other schedules to measure, the best ranked.")
@click.option("--rounds", default=ROUNDS, show_default=True, help="Measurements of each contender.")
@click.option(
    "--contenders", "files", multiple=True, metavar="FILE.py", help="More contenders, of scalec bench's kind."
)
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
def main(only: tuple[str, ...], count: int, rounds: int, files: tuple[str, ...], output: str | None) -> None:
    from scalec.bench import provenance
    from scalec.bench.shape import require_gpu
    from scalec.commands.bench import load_contenders

    programs = [name for name in PROGRAMS if not only or any(text in name for text in only)]
    if not programs:
        raise click.UsageError(f"--only {' '.join(only)}: no such program of {', '.join(PROGRAMS)}")
    require_gpu()
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in programs}
    ratios: dict[str, dict[str, list[float]]] = {name: {} for name in programs}
    for program, dims, row in measured(
        programs, compiled(programs, count), rounds, [load_contenders(f) for f in files]
    ):
        at = {"program": program, **dims}
        if isinstance(row, str):
            rows[program].append({"dims": dims, "failed": row})
            click.echo(json.dumps({**at, "failed": row}))
            continue
        rows[program].append(row.to_json())
        beside = [name for name in row.timings if name != OURS]
        for name in beside:
            ratios[program].setdefault(name, []).append(row.ratio(name))
        us = {name: round(t.median, 2) for name, t in row.timings.items()}
        click.echo(json.dumps({**at, "us": us, "ratio": {name: round(row.ratio(name), 3) for name in beside}}))
    means = {
        program: {name: round(geometric_mean(r), 4) for name, r in of.items() if len(r) == len(rows[program])}
        for program, of in ratios.items()
    }
    click.echo(json.dumps({"geometric_means": means}))
    if output:
        head = {**provenance.of_machine(), **provenance.of_compiler(), "target": "sm_90a"}
        head |= {"method": method.summary(rounds, 0, 0), "geometric_means": means}
        found = [{"name": name, "expression": PROGRAMS[name].source, "shapes": rows[name]} for name in programs]
        Path(output).write_text(json.dumps({**head, "programs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
