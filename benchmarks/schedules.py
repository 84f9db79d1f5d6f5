"""Times the schedules of a kind of kernel at many shapes: what the model of scalec/model/cost.py is fitted to.

    python benchmarks/schedules.py --program fp8 -o benchmarks/results/NAME.json
    python benchmarks/schedules.py --program prenorm --shape 4096 24 28672 --shape 13 24 28672 -o NAME.json

At each shape the schedules that the model ranks first, and some of the others at random, all in one interleaved run.
The shapes are layers of published models (scalec/bench/projections.py) at random numbers of rows, or a suite's.
"""

from __future__ import annotations

import json
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from scalec.passes.problem.read import read as read_problem

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scalec.bench import method, projections, provenance
from scalec.bench.suites import SUITES, get_suite

PROGRAMS = {
    "fp8": ("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", 128, 128),
    "f32": ("C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128)", 128, 128),
    "bf16": ("C[m,n] = A[m,k]@B[n,k]", 64, 0),
    "prenorm": ("D[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:tf32; S[m]:f32 = sum[k](A[m,k]^2)", 32, 0),
    "computed": ("C[m,n] = relu(A[m,k]) @ B[n,k]", 64, 0),
    "factors": ("C[m,n] = (A[m,k] * w[k]) @ B[n,k]", 64, 0),
}
"""Source, K of a tile, and K that is promoted at a time."""

MODELS = ("DEEPSEEK", "LLAMA_8B", "LLAMA_70B", "QWEN2_7B", "QWEN3_8B", "QWEN3_32B", "QWEN3_235B")
ROWS = (*(1 << i for i in range(14)), 24, 40, 48, 56, 80, 96, 160, 192, 320, 384, 768, 1536, 3072)
MOST = 1 << 41
"""Multiplications of the largest shape: more only take time, their schedules rank as those before."""

FIELDS = ("swap", "tile", "cluster", "split", "parts")
"""What a timed schedule decides, in the order of its columns; the passes decide the others. Older files have no parts:
they met in memory."""

CONVERTING = (*FIELDS, "convert")
"""Likewise of programs that convert an operand: half of the schedules in registers, if those can."""

DEFAULTS = {"swap": 0, "parts": "memory"}
"""Of fields that a plan may leave undecided."""

SLOWEST = 1.45
"""Of the schedules taken at random: how much longer than the first the model expects them to take."""


@dataclass(frozen=True)
class Point:
    """A schedule at a shape; the kernel leaves m dynamic and serves all shapes of its n and k."""

    n: int
    k: int
    schedule: tuple[tuple[str, str], ...]


def shapes_of(count: int, seed: int, rows: range, depth: range) -> list[tuple[int, int, int]]:
    """Some (m, n, k)."""
    layers = {(p.n, p.k) for name in MODELS for p in getattr(projections, name).values()}
    every = [(m, n, k) for n, k in sorted(layers) for m in ROWS if m in rows and k in depth and m * n * k <= MOST]
    return random.Random(seed).sample(every, min(count, len(every)))


def points(program: str, shape: tuple[int, int, int], first: int, others: int) -> list[Point]:
    """The schedules to time at a shape."""
    from scalec.ir import context as contexts
    from scalec.ir.schedule import Request
    from scalec.model.cost import costs_of
    from scalec.model.space import ranked
    from scalec.targets import get_target

    source, tile_k, promote = PROGRAMS[program]
    m, n, k = shape
    with contexts.context():
        problem = problem_of(source, {"m": m, "n": n, "k": k}, get_target("sm_90a"))
        costs = costs_of(problem, promote)
        assert costs is not None
        ways = [Request(convert=x) for x in ("shared", "registers")] if problem.converts else [Request()]
        fields, chosen = CONVERTING if problem.converts else FIELDS, []
        for given in ways:
            legal = [(t, plan) for t, plan, no in ranked(problem, given, tile_k, promote, costs) if not no]
            few, some = first // len(ways), others // len(ways)
            near = [plan for t, plan in legal[few:] if t < SLOWEST * legal[0][0]]
            chosen += [x for _, x in legal[:few]] + random.Random(m + n + k).sample(near, min(some, len(near)))
    return [Point(n, k, tuple((f, text) for f, text in _texts(plan, fields).items())) for plan in chosen]


def problem_of(source: str, dims: dict[str, int], target: Any) -> Any:
    """The program as the passes that choose see it."""
    from scalec import frontend
    from scalec.passes.base import programs
    from scalec.passes.pipeline import find, run_pipeline

    module = frontend.build(source, dims)
    run_pipeline(module, target, passes=find(["infer-roles", "fuse-epilogue"]))
    return read_problem(next(programs(module)), target)


def _texts(plan: Any, fields: tuple[str, ...]) -> dict[str, str]:
    def text(value: Any) -> str:
        return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)

    return {name: text(getattr(plan, name) or DEFAULTS.get(name)) for name in fields}


def compiled(job: tuple[str, Point]) -> str:
    """Compiles a point into the cache; why that cannot be, "" where it could."""
    import scalec

    program, point = job
    try:
        kernel_of(program, point)
    except scalec.ScalecError as error:
        return str(error).splitlines()[0]
    return ""


def kernel_of(program: str, point: Point) -> Any:
    """The kernel of a point."""
    import scalec

    source, _, _ = PROGRAMS[program]
    return scalec.compile(source, target="sm_90a", dims={"n": point.n, "k": point.k}, schedule=dict(point.schedule))


def measure(program: str, shape: tuple[int, int, int], wanted: list[Point], rounds: int) -> list[list[Any]]:
    """[*FIELDS or *CONVERTING, microseconds] of each schedule, the fastest first."""
    from scalec.bench import graphs
    from scalec.bench.inputs import make_inputs

    dims, sets, bound = dict(zip("mnk", shape, strict=True)), [], {}
    for point in wanted:
        kernel = kernel_of(program, point)
        if not sets:
            one = make_inputs(kernel.spec, dims, 1)
            count = min(16, method.sets_in_rotation(2 * one.input_bytes()))
            sets = [one, *(make_inputs(kernel.spec, dims, 1 + i) for i in range(1, count))]
        bound[str(wanted.index(point))] = [_launch(kernel, inputs) for inputs in sets]
    timings = graphs.measure(bound, rounds)
    found = [(round(t.median, 3), wanted[int(i)]) for i, t in timings.items()]
    return [[*(text for _, text in point.schedule), us] for us, point in sorted(found, key=lambda x: x[0])]


def _launch(kernel: Any, inputs: Any) -> Any:
    operands = [inputs.values[t.name] for t in kernel.spec.operands]
    outs = tuple(inputs.outputs[r.name] for r in kernel.spec.results)
    return lambda: kernel(*operands, out=outs if len(outs) > 1 else outs[0])


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--program", type=click.Choice(list(PROGRAMS)), default="fp8", show_default=True)
@click.option("--shapes", default=240, show_default=True, help="How many shapes.")
@click.option("--rows", type=(int, int), default=(1, 8192), show_default=True, help="Fewest and most rows of a shape.")
@click.option("--depth", type=(int, int), default=(1, 1 << 20), help="Least and largest K of a shape.")
@click.option("--shape", "given", type=(int, int, int), multiple=True, help="M, N and K of one instead; repeats.")
@click.option("--suite", type=click.Choice(list(SUITES)), help="The shapes of a suite instead.")
@click.option("--seed", default=1, show_default=True, help="Which.")
@click.option("--first", default=16, show_default=True, help="Schedules that the model ranks first.")
@click.option("--others", default=8, show_default=True, help="Others, at random.")
@click.option("--rounds", default=4, show_default=True, help="Measurements of each.")
@click.option("--limit", default=400.0, show_default=True, help="Seconds after which no further shape is measured.")
@click.option("--workers", default=16, show_default=True, help="Processes that compile.")
@click.option("-o", "output", required=True, metavar="PATH", help="Write JSON there.")
def main(program: str, shapes: int, rows: tuple[int, int], depth: tuple[int, int],
         given: tuple[tuple[int, int, int], ...], suite: str | None, seed: int, first: int, others: int, rounds: int,
         limit: float, workers: int, output: str) -> None:  # fmt: skip
    from scalec.bench import graphs

    # many contenders a shape: a millisecond each, and a pause that keeps the clocks high
    graphs.PAUSE_SECONDS, graphs.GRAPH_SECONDS = 0.002, 0.001
    if given:
        every = list(given)
    elif suite:
        every = [(d["m"], d["n"], d["k"]) for d in get_suite(suite).shapes]
    else:
        every = shapes_of(shapes, seed, range(rows[0], rows[1] + 1), range(depth[0], depth[1] + 1))
    with ProcessPoolExecutor(workers) as pool:
        found = pool.map(points, *zip(*((program, shape, first, others) for shape in every), strict=True), chunksize=4)
        wanted = dict(zip(every, found, strict=True))
        kernels = sorted({point for some in wanted.values() for point in some}, key=str)
        reasons = dict(zip(kernels, pool.map(compiled, [(program, p) for p in kernels], chunksize=4), strict=True))
    refused = [point for point, reason in reasons.items() if reason]
    click.echo(f"{len(kernels)} kernels for {len(wanted)} shapes, {len(refused)} refused", err=True)
    start, timed = time.monotonic(), []
    for shape, some in wanted.items():
        if time.monotonic() - start > limit:
            click.echo(f"stopped after {len(timed)} shapes", err=True)
            break
        timed.append([*shape, measure(program, shape, [p for p in some if not reasons[p]], rounds)])
        _write(output, program, timed)
    click.echo(f"measured in {time.monotonic() - start:.0f} s", err=True)


def _write(output: str, program: str, rows: list[Any]) -> None:
    source, tile_k, promote = PROGRAMS[program]
    head = {
        **provenance.of_machine(),
        **provenance.of_compiler(),
        "expression": source,
        "tile_k": tile_k,
        "promote": promote,
        "columns": ["m", "n", "k", [*(CONVERTING if len(rows[0][3][0]) > len(FIELDS) + 1 else FIELDS), "us"]],
    }
    lines = ",\n".join("  " + json.dumps(row, separators=(",", ":")) for row in rows)
    Path(output).write_text(json.dumps(head, indent=1)[:-2] + f',\n "points": [\n{lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
