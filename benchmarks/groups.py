"""Products in groups on Hopper: of whole blocks, ragged and masked, with rows gathered or scattered, or results
quantised, and sums in groups along K, against a dense kernel and a copy of as many bytes.

    python benchmarks/groups.py -o result.json                compiles and measures on this machine
    python benchmarks/groups.py --only decode --next 3        and the three schedules that are ranked next
    python benchmarks/groups.py --contenders deepgemm.py      and what a file of one's own has: contenders(spec, dims)

FP8 with scales of 1x128 and 128x128, along K of 1x128 on both sides, added to f32. Kernels are compiled side by side,
one process for each core, checked against float64 group by group, and measured case by case, contenders interleaved
(scalec/bench/): scalec; scalec's dense kernel of as many rows, of one matrix B, or of all of K; where rows are gathered
or scattered, scalec's kernel of the same groups with rows in order; and a copy within the GPU's memory that reads and
writes, both together, as many bytes as the groups that have rows need. A ratio is another's time over scalec's. Rows
are gathered, or scattered, in a shuffled order, or as a router has them: each of so many tokens has TOP of EXPERTS_OF
experts, which are as likely as each other, or 1 / rank. Runs from a checkout, whether or not scalec is installed.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scalec.bench import method

if TYPE_CHECKING:
    import torch

    from scalec.bench.inputs import Inputs

BLOCK = 128
"""Rows of a block that has one group, and of K and N that share a scale."""

SOURCES = {
    "blocks": "C[m,n] = A[m,k] @ B[e[m/128],n,k] scale(1x128,1x128x128)",
    "ragged": "C[m,n] = A[m,k] @ B[g,n,k] scale(1x128,1x128x128) for m in off[g]:off[g+1]",
    "masked": "C[g,m,n] = A[g,m,k] @ B[g,n,k] scale(1x1x128,1x128x128) for m < rows[g] about {about}",
    "along": "C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(1x128@col,1x128@col) for k in off[g]:off[g+1] by 128",
}
SOURCES |= {
    "gathered": SOURCES["ragged"].replace("A[m,k]", "A[idx[m],k]"),
    "scattered": SOURCES["ragged"].replace("C[m,n]", "C[idx[m],n]"),
    "quantised": SOURCES["ragged"].replace("C[m,n]", "C[m,n]:e4m3 scale(1x128)"),
}
ROWS_OF = {"gathered": "A_0", "scattered": "C_0"}
"""The dimension that an index of rows reaches: as many as there are rows, in a shuffled order."""

DENSE = "C[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128)"
ALL_K = "C[m,n]:f32 += A[m,k] @ B[n,k] scale(1x128@col,1x128@col)"

OURS, ALL_ROWS, COPY = "scalec", "scalec, dense", "a copy of as many bytes"
IN_ORDER = "scalec, rows in order"

TOP, EXPERTS_OF = 8, 128

WEIGHTS = ((6144, 7168), (7168, 3072), (4096, 4096), (4096, 2048))
EXPERTS = ((4096, 7168), (7168, 2048))
"""(n, k)."""
GRADIENTS = ((4096, 7168), (7168, 2048))
"""(m, n)."""


@dataclass(frozen=True)
class Case:
    """Groups of so many `rows`; `most` rows are there for each where they are masked. Along K, `rows` are those of K,
    and `most` those of each result. Of `tokens`, if there are any, a router has made the rows, with experts as likely
    as each other, or not (`zipf`)."""

    suite: str
    kind: str
    rows: tuple[int, ...]
    n: int
    k: int
    most: int = 0
    tokens: int = 0
    zipf: bool = False

    @property
    def held(self) -> tuple[int, ...]:
        """Rows of each group in A and C: those of whole blocks, where groups are of these."""
        return tuple(-(-r // BLOCK) * BLOCK for r in self.rows) if self.kind == "blocks" else self.rows

    @property
    def source(self) -> str:
        """The program; masked groups say how many rows to expect, as DeepGEMM is told."""
        return SOURCES[self.kind].format(about=max(1, round(sum(self.rows) / len(self.rows))))

    @property
    def dims(self) -> dict[str, int]:
        groups, sizes = len(self.rows), {"n": self.n, "k": self.k}
        if self.kind in ("masked", "along"):
            return {"g": groups, "m": self.most, **sizes}
        made = {"B_0" if self.kind == "blocks" else "g": groups, "m": sum(self.held), **sizes}
        reached = self.tokens if self.tokens and self.kind == "gathered" else sum(self.held)
        return made | ({ROWS_OF[self.kind]: reached} if self.kind in ROWS_OF else {})

    @property
    def dense(self) -> tuple[str, dict[str, int]]:
        """A product of as many operations without groups."""
        along = self.kind == "along"
        return ALL_K if along else DENSE, {"m": self.most if along else sum(self.rows), "n": self.n, "k": self.k}

    @property
    def bytes(self) -> int:
        """What must be moved: matrices of groups that have rows, these rows and their results, read too where they
        are added to."""
        if self.kind == "along":
            return (self.most + self.n) * (self.k + 4 * self.k // BLOCK) + 8 * len(self.rows) * self.most * self.n
        used = sum(r > 0 for r in self.rows)
        return used * self.n * self.k + sum(self.rows) * (self.k + 4 * self.k // BLOCK + 2 * self.n)

    @property
    def flops(self) -> int:
        return 2 * (self.most if self.kind == "along" else sum(self.rows)) * self.n * self.k

    def told(self) -> dict[str, Any]:
        told = {"suite": self.suite, "kind": self.kind, "groups": len(self.rows), "rows": sum(self.rows), **self.dims}
        return told | ({"tokens": self.tokens, "zipf": self.zipf} if self.tokens else {})


def _about(count: int, rows: int, seed: int) -> tuple[int, ...]:
    """`count` groups of `rows` rows, each times 0.7 to 1.3."""
    draw = random.Random(seed)
    return tuple(int(rows * draw.uniform(0.7, 1.3)) for _ in range(count))


def _zipf(count: int, empty: int, total: int) -> tuple[int, ...]:
    """Groups whose sizes fall as 1 / rank, the last `empty` without rows, in a shuffled order."""
    shares = [1 / (rank + 1) for rank in range(count - empty)]
    rows = [max(1, int(total * share / sum(shares))) for share in shares] + [0] * empty
    random.Random(3).shuffle(rows)
    return tuple(rows)


@cache
def routed(tokens: int, zipf: bool) -> tuple[tuple[int, ...], np.ndarray]:
    """(rows of each expert, for each row of these in turn its number among the TOP of all tokens)."""
    draw = np.random.default_rng(6)
    likely = -np.log(1.0 + draw.permutation(EXPERTS_OF)) * zipf
    chosen = np.argsort(likely + draw.gumbel(size=(tokens, EXPERTS_OF)), axis=1)[:, -TOP:].reshape(-1)
    rows = np.bincount(chosen, minlength=EXPERTS_OF)
    return tuple(map(int, rows)), np.argsort(chosen, kind="stable")


def cases() -> list[Case]:
    made: list[Case] = []
    for n, k in WEIGHTS:
        for groups, rows in ((4, 8192), (8, 4096)):
            drawn = _about(groups, rows, groups)
            made += [Case("prefill", kind, drawn, n, k) for kind in ("blocks", "ragged", *ROWS_OF, "quantised")]
        made.append(Case("masked", "masked", _about(6, 1024, 1), n, k, 2048))
        made.append(Case("masked", "masked", _about(32, 192, 2), n, k, 512))
    for tokens in (4096, 32768):
        for zipf in (False, True):
            for kind, (n, k) in zip(ROWS_OF, EXPERTS, strict=True):
                rows = routed(tokens, zipf)[0]
                made.append(Case("routed", kind, rows, n, k, tokens=tokens, zipf=zipf))
    for groups, rows in ((4, 8192), (8, 4096), (16, 2048)):
        held = tuple(-(-r // BLOCK) * BLOCK for r in _about(groups, rows, groups))
        made += [Case("along", "along", held, n, sum(held), m) for m, n in GRADIENTS]
    for n, k in EXPERTS:
        made.append(Case("zipf", "ragged", _zipf(256, 64, 32768), n, k))
        for groups in (32, 6):
            made.append(Case("decode", "masked", _about(groups, 20, 4), n, k, 128))
            made.append(Case("decode", "ragged", _about(groups, 20, 4), n, k))
        draw = random.Random(5)
        made.append(Case("decode", "ragged", tuple(draw.randint(16, 48) for _ in range(8)), n, k))
        made.append(Case("decode", "ragged", tuple(draw.randint(0, 8) for _ in range(256)), n, k))
    return made


def inputs(case: Case, spec: Any, seed: int, device: str = "cuda") -> Inputs:
    """Random operands, the matrices made one by one: in float32 all of them would not fit."""
    import torch

    from scalec.bench.contraction import shape_of
    from scalec.bench.inputs import TORCH_TYPES, Inputs

    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    values: dict[str, Any] = {}
    for t in spec.operands:
        shape = shape_of(t, case.dims)
        if t.name in ("A", "B"):
            values[t.name] = torch.empty(shape, dtype=torch.float8_e4m3fn, device=device)
            for matrix in values[t.name] if values[t.name].ndim == 3 else [values[t.name]]:
                matrix.copy_(torch.randn(matrix.shape, device=device, generator=generator, dtype=torch.bfloat16) * 32)
        elif t.name.endswith("_scale"):
            scales = torch.exp(torch.randn(shape, device=device, generator=generator))
            values[t.name] = scales.mT.contiguous().mT if t.layout == "col" else scales
    starts = [sum(case.held[:g]) for g in range(len(case.held) + 1)]
    if case.kind == "blocks":
        groups = [g for g, held in enumerate(case.held) for _ in range(held // BLOCK)]
        values["e"] = torch.tensor(groups, dtype=torch.int32, device=device)
    elif case.kind != "masked":
        if case.tokens:
            numbers = routed(case.tokens, case.zipf)[1] // (TOP if case.kind == "gathered" else 1)
            values["idx"] = torch.tensor(numbers, dtype=torch.int32, device=device)
        else:
            values["idx"] = torch.randperm(sum(case.held), device=device, generator=generator).int()
        values["off"] = torch.tensor(starts, dtype=torch.int32, device=device)
    else:
        values["rows"] = torch.tensor(case.rows, dtype=torch.int32, device=device)
    outputs = {
        r.name: torch.full(shape_of(r, case.dims), float("nan"), device=device).to(TORCH_TYPES[r.dtype])
        for r in spec.results
    }
    return Inputs({t.name: values[t.name] for t in spec.operands}, outputs)


def blank(spec: Any, inputs: Inputs) -> None:
    """Makes results NaN, or 0 where they are added to."""
    import torch

    for r in spec.results:
        inputs.outputs[r.name].copy_(torch.tensor(0 if r.inout else float("nan")))


def error(case: Case, inputs: Inputs, result: torch.Tensor) -> float:
    """1 - 2<x,y> / (|x|^2 + |y|^2) of all rows, group by group in float64."""
    v, first, off, both = inputs.values, 0, 0.0, 0.0
    for g, rows in enumerate(case.rows):
        at = (g, slice(0, rows)) if case.kind == "masked" else slice(first, first + rows)
        first += case.held[g]
        if not rows:
            continue
        wanted, found = _wanted(case, v, g, at), _found(case, v, result, g, at).double()
        if case.kind == "quantised":
            found *= inputs.outputs["C_scale"][at].repeat_interleave(BLOCK, -1)[:, : case.n]
        off += float(((found - wanted) ** 2).sum())
        both += float((found * found + wanted * wanted).sum())
        del wanted, found
    return off / both


def _wanted(case: Case, v: Mapping[str, torch.Tensor], g: int, at: Any) -> torch.Tensor:
    """The product of group g, whose rows, or K, are at `at`."""
    if case.kind == "along":
        scaled = slice(at.start // BLOCK, -(-at.stop // BLOCK))
        a, b = (
            v[x][:, at].double() * v[f"{x}_scale"][:, scaled].double().repeat_interleave(BLOCK, 1) for x in ("A", "B")
        )
        return a @ b.T
    read = v["idx"][at] if case.kind == "gathered" else at
    a = v["A"][read].double() * v["A_scale"][read].repeat_interleave(BLOCK, -1)[:, : case.k]
    scales = v["B_scale"][g].repeat_interleave(BLOCK, 0)[: case.n].repeat_interleave(BLOCK, 1)[:, : case.k]
    return a @ (v["B"][g].double() * scales).T


def _found(case: Case, v: Mapping[str, torch.Tensor], result: torch.Tensor, g: int, at: Any) -> torch.Tensor:
    return result[g if case.kind == "along" else v["idx"][at] if case.kind == "scattered" else at]


def allowed(case: Case) -> float:
    """The largest error: of rounding to FP8 in blocks, or what scalec/bench has for bf16."""
    from scalec.bench.shape import MAX_DIFF

    return 2.6e-3 if case.kind == "quantised" else MAX_DIFF


def contenders(
    case: Case, kernels: Mapping[str, Any], others: Mapping[str, Any], files: Sequence[Any]
) -> dict[str, Any]:
    """By name: what makes a launch of a set of inputs."""
    import torch

    from scalec.bench.contenders import copied

    spec = kernels[OURS].spec

    def of(kernel: Any) -> Callable[[Inputs], Callable[[], object]]:
        def make(i: Inputs) -> Callable[[], object]:
            arguments, outs = [i.values[t.name] for t in spec.operands], tuple(i.outputs.values())
            out = outs[0] if len(outs) == 1 else outs
            return lambda: kernel(*arguments, out=out)

        return make

    def rows_of(i: Inputs, name: str) -> torch.Tensor:
        """As many as there are, of what may be gathered from fewer, or lie in several matrices."""
        there, rows = i.values[name], sum(case.rows)
        there = there.reshape(-1, there.shape[-1])
        if case.kind != "gathered":
            return there[:rows]
        return there.view(torch.uint8)[i.values["idx"].long()].view(there.dtype)

    def all_rows(i: Inputs) -> Callable[[], object]:
        v = i.values
        if case.kind == "along":
            added = torch.zeros(case.most, case.n, device="cuda")
            return lambda: others[ALL_ROWS](v["A"], v["B"], v["A_scale"], v["B_scale"], out=added)
        a, a_scale = (rows_of(i, name) for name in ("A", "A_scale"))
        out = torch.empty(len(a), case.n, dtype=torch.bfloat16, device="cuda")
        return lambda: others[ALL_ROWS](a, v["B"][0], a_scale, v["B_scale"][0], out=out)

    def in_order(i: Inputs) -> Callable[[], object]:
        kernel, out = others[IN_ORDER], i.outputs["C"]
        v = i.values | {name: rows_of(i, name) for name in ("A", "A_scale")}
        arguments = [v[t.name] for t in kernel.spec.operands]
        return lambda: kernel(*arguments, out=out)

    def copy(_: Inputs) -> Callable[[], object]:
        return copied(case.bytes)

    made: dict[str, Any] = {name: of(kernel) for name, kernel in kernels.items()}
    for source in files:
        made |= {name: c.variants[""] for name, c in source(spec, case.dims).items()}
    makes = {ALL_ROWS: all_rows, IN_ORDER: in_order}
    return made | {name: makes[name] for name in others} | {COPY: copy}


def compiled(found: Sequence[Case], count: int) -> dict[tuple[Case, str], Any]:
    """(case, OURS, ALL_ROWS or IN_ORDER) -> the kernels by name, or why there is none."""
    from scalec.runtime.kernel import Kernel
    from scalec.tuning.build import Recipe, fields, pool
    from scalec.tuning.ranking import ranked

    places: dict[Recipe, list[tuple[Case, str, str]]] = {}
    for case in found:
        schedules = [{}, *(r.schedule for r in ranked(case.source, "sm_90a", case.dims)[:count] if count)]
        for schedule in schedules:
            name = fields(schedule) or OURS
            recipe = Recipe(name, case.source, "sm_90a", (*case.dims.items(),), (*schedule.items(),))
            places.setdefault(recipe, []).append((case, OURS, name))
        others = {ALL_ROWS: case.dense}
        if case.kind in ROWS_OF:
            others[IN_ORDER] = SOURCES["ragged"], {"g": len(case.rows), **case.dense[1]}
        for which, (source, sizes) in others.items():
            places.setdefault(Recipe(which, source, "sm_90a", (*sizes.items(),), ()), []).append((case, which, OURS))
    made: dict[tuple[Case, str], Any] = {}
    with pool() as build:
        for recipe, result in build(places):
            kernel = result if isinstance(result, str) else Kernel(result.spec, result.cubin, ptx=result.ptx)
            for case, which, name in places[recipe]:
                made.setdefault((case, which), {})[name] = kernel
    return made


def measured(case: Case, made: Mapping[tuple[Case, str], Any], rounds: int, files: Sequence[Any]) -> dict[str, Any]:
    """The figures of a case."""
    import torch

    from scalec.bench.graphs import burst, capture

    kernels = made[case, OURS]
    others = {name: made.get((case, name), {}).get(OURS) for name in (ALL_ROWS, IN_ORDER)}
    others = {name: k for name, k in others.items() if k is not None and not isinstance(k, str)}
    if isinstance(kernels.get(OURS), str):
        return {**case.told(), "failed": kernels[OURS]}
    kernels = {name: k for name, k in kernels.items() if not isinstance(k, str)}
    spec = kernels[OURS].spec
    count = min(method.sets_in_rotation(case.bytes), 16)
    sets = [inputs(case, spec, 7 + i) for i in range(count)]
    errors, graphs = {}, {}
    for name, make in contenders(case, kernels, others, files).items():
        try:
            launches = [make(i) for i in sets]
            blank(spec, sets[0])
            result = launches[0]()
            torch.cuda.synchronize()
            if name not in (ALL_ROWS, IN_ORDER, COPY):
                shown = result if isinstance(result, torch.Tensor) else sets[0].outputs["C"]
                errors[name] = error(case, sets[0], shown)
                if not errors[name] <= allowed(case):
                    raise RuntimeError(f"diff {errors[name]:.2e}")
            graphs[name] = capture(launches)
        except Exception as fault:
            if name == OURS:
                return {**case.told(), "failed": f"{type(fault).__name__}: {fault}"}
            errors[name] = f"{type(fault).__name__}: {str(fault)[:200]}"
    timings = burst(graphs, rounds)
    us = {name: t.median for name, t in timings.items()}
    return {
        **case.told(),
        "schedule": spec.schedule,
        "us": {name: round(t, 2) for name, t in us.items()},
        "ratio": {name: round(t / us[OURS], 4) for name, t in us.items() if name != OURS},
        "tflops": round(case.flops / us[OURS] / 1e6, 1),
        "tb_per_s": round(case.bytes / us[OURS] / 1e6, 3),
        "errors": errors,
        "quartiles": {name: t.quartiles for name, t in timings.items()},
    }


def figures(found: Sequence[Case], rounds: int, count: int, files: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """The figures of all cases."""
    import torch

    made = compiled(found, count)
    for case in found:
        yield measured(case, made, rounds, files)
        torch.cuda.empty_cache()


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--only", multiple=True, metavar="TEXT", help="Cases with this in their suite or kind.")
@click.option("--next", "count", default=0, show_default=True, help="Other schedules to measure, the best ranked.")
@click.option("--rounds", default=11, show_default=True, help="Measurements of each contender.")
@click.option(
    "--contenders", "files", multiple=True, metavar="FILE.py", help="More contenders, of scalec bench's kind."
)
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
def main(only: tuple[str, ...], count: int, rounds: int, files: tuple[str, ...], output: str | None) -> None:
    from scalec.bench.report import report
    from scalec.bench.shape import require_gpu
    from scalec.commands.bench import load_contenders

    chosen = [c for c in cases() if not only or any(text in (c.suite, c.kind) for text in only)]
    if not chosen:
        raise click.UsageError(f"--only {' '.join(only)}: no such suite or kind")
    require_gpu()
    found = figures(chosen, rounds, count, [load_contenders(f) for f in files])
    report(found, lambda case, name: f"{case['suite']} {case['kind']}, {name}", rounds, output)


if __name__ == "__main__":
    main()
