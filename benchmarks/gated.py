"""Gated layers on Hopper: silu(X @ G) * (X @ U), FP8 in and out, in one kernel, beside the product alone.

    python benchmarks/gated.py -o result.json            compiles and measures on this machine
    python benchmarks/gated.py --next 4 --rows 4096      and the four schedules that are ranked next
    python benchmarks/gated.py --schedule cluster=1x2    and with these fields, where they can be

FP8 with scales of 1x128 and 128x128. Contenders, interleaved (scalec/bench/): scalec; scalec's product of all columns
of both weights, with a bf16 result; and that followed by a Triton kernel that gates and quantises
(quantise_triton.py). A ratio is another's time over scalec's. Results are checked against float32. Runs from a
checkout, whether or not scalec is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scalec.bench import method

if TYPE_CHECKING:
    import torch

BLOCK = 128
"""Elements of K, and rows of the weights, that share a scale."""

TYPES = {"mxfp8": 32, "fp8_block": 128}
"""Formats of results, with the columns that share a scale."""

SOURCE = (
    "G[m,n] = X[m,k] @ V[n,k] scale(1x128,128x128); U[m,n] = X[m,k] @ W[n,k] scale(1x128,128x128); "
    "H[m,n]:{} = silu(G) * U"
)
BOTH = "C[m,n] = A[m,k] @ B[n,k] scale(1x128,128x128)"

OURS, PRODUCT, TWO = "scalec", "scalec, the product alone", "and a Triton kernel that gates and quantises"

K, COLUMNS = 7168, (2048, 18432)
ALLOWED = 2.6e-3
"""Of 1 - 2<x,y> / (|x|^2 + |y|^2): of rounding to e4m3 in blocks."""


@dataclass(frozen=True)
class Case:
    """Rows, columns of results, and their format."""

    m: int
    n: int
    form: str

    @property
    def source(self) -> str:
        return SOURCE.format(self.form)

    @property
    def dims(self) -> dict[str, int]:
        return {"m": self.m, "n": self.n, "k": K}

    @property
    def bytes(self) -> int:
        """Of operands and result, without scales."""
        return self.m * K + 2 * self.n * K + self.m * self.n


class Inputs:
    """Random operands of a case, and room for results."""

    def __init__(self, case: Case, seed: int) -> None:
        import torch

        generator = torch.Generator(device="cuda")
        generator.manual_seed(seed)

        def fp8(*shape: int) -> torch.Tensor:
            made = torch.randn(shape, device="cuda", generator=generator, dtype=torch.bfloat16)
            return (made * 32).to(torch.float8_e4m3fn)

        def scales(*shape: int) -> torch.Tensor:
            return torch.exp(torch.randn(shape, device="cuda", generator=generator)) / 65536

        self.x, self.both = fp8(case.m, K), fp8(2 * case.n, K)
        self.x_scale, self.both_scale = scales(case.m, K // BLOCK), scales(2 * case.n // BLOCK, K // BLOCK)
        block, mx = TYPES[case.form], case.form == "mxfp8"
        self.h = torch.empty(case.m, case.n, dtype=torch.float8_e4m3fn, device="cuda")
        kind = torch.uint8 if mx else torch.float32
        self.h_scale = torch.empty(case.m, case.n // block, dtype=kind, device="cuda")
        self.product = torch.empty(case.m, 2 * case.n, dtype=torch.bfloat16, device="cuda")


def expected(case: Case, i: Inputs) -> torch.Tensor:
    """In float32."""
    import torch

    x = i.x.float() * i.x_scale.repeat_interleave(BLOCK, 1)
    scales = i.both_scale.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    gate, up = ((x @ (i.both.float() * scales)[at].T) for at in (slice(0, case.n), slice(case.n, None)))
    return torch.nn.functional.silu(gate) * up


def error(case: Case, i: Inputs, wanted: torch.Tensor) -> float:
    """1 - 2<x,y> / (|x|^2 + |y|^2) of the result that was just computed."""
    import torch

    scales = i.h_scale
    if scales.dtype == torch.uint8:
        scales = torch.exp2(scales.float() - 127)
    found = (i.h.float() * scales.repeat_interleave(TYPES[case.form], 1)).double()
    return float(((found - wanted) ** 2).sum() / (found * found + wanted.double() ** 2).sum())


def contenders(
    case: Case, kernels: dict[str, Any], product: Any
) -> dict[str, Callable[[Inputs], Callable[[], object]]]:
    """By name: what makes a launch of a set of inputs."""
    import torch
    from quantise_triton import gate_quantise

    def of(kernel: Any) -> Callable[[Inputs], Callable[[], object]]:
        def make(i: Inputs) -> Callable[[], object]:
            rows = case.n // BLOCK
            scale = i.h_scale if i.h_scale.dtype != torch.uint8 else i.h_scale.view(torch.float8_e8m0fnu)
            weights = i.both[: case.n], i.both[case.n :]
            given = {"X": i.x, "X_scale": i.x_scale, "V": weights[0], "W": weights[1]}
            given |= {"V_scale": i.both_scale[:rows], "W_scale": i.both_scale[rows:]}
            arguments = [given[t.name] for t in kernel.spec.operands]
            return lambda: kernel(*arguments, out=(i.h, scale))

        return make

    def alone(i: Inputs) -> Callable[[], object]:
        return lambda: product(i.x, i.both, i.x_scale, i.both_scale, out=i.product)

    def two(i: Inputs) -> Callable[[], object]:
        def launch() -> None:
            product(i.x, i.both, i.x_scale, i.both_scale, out=i.product)
            gate_quantise(i.product, i.h, i.h_scale, TYPES[case.form])

        return launch

    return {**{name: of(k) for name, k in kernels.items()}, PRODUCT: alone, TWO: two}


def compiled(found: list[Case], count: int, schedules: Sequence[str]) -> dict[Case, dict[str, Any]]:
    """The kernels of each case by name, or why there is none."""
    from scalec.runtime.kernel import Kernel
    from scalec.tuning.build import Recipe, fields, pool
    from scalec.tuning.ranking import ranked

    places: dict[Recipe, tuple[Case, str]] = {}
    for case in found:
        more = ranked(case.source, "sm_90a", case.dims)[:count] if count else []
        asked = [dict(field.split("=") for field in text.split(", ")) for text in schedules]
        for schedule in [{}, *asked, *(r.schedule for r in more)]:
            name = fields(schedule) or OURS
            recipe = Recipe(name, case.source, "sm_90a", (*case.dims.items(),), (*schedule.items(),))
            places[recipe] = case, name
        dims = {**case.dims, "n": 2 * case.n}
        places[Recipe(f"{case}", BOTH, "sm_90a", (*dims.items(),), ())] = case, PRODUCT
    made: dict[Case, dict[str, Any]] = {}
    with pool() as build:
        for recipe, result in build(places):
            case, name = places[recipe]
            kernel = result if isinstance(result, str) else Kernel(result.spec, result.cubin, ptx=result.ptx)
            made.setdefault(case, {})[name] = kernel
    return made


def figures(found: list[Case], rounds: int, count: int, schedules: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The figures of all cases."""
    import torch

    from scalec.bench.graphs import burst, capture

    for case, all_ in compiled(found, count, schedules).items():
        kernels = {name: k for name, k in all_.items() if not isinstance(k, str)}
        product, refused = kernels.pop(PRODUCT), {name: k for name, k in all_.items() if isinstance(k, str)}
        sets = [Inputs(case, 7 + i) for i in range(min(method.sets_in_rotation(case.bytes), 16))]
        wanted, errors, graphs = expected(case, sets[0]), {}, {}
        for name, make in contenders(case, kernels, product).items():
            launches = [make(i) for i in sets]
            sets[0].h.fill_(float("nan"))
            launches[0]()
            torch.cuda.synchronize()
            if name != PRODUCT:
                errors[name] = error(case, sets[0], wanted)
                if not errors[name] <= ALLOWED:
                    errors[name] = f"diff {errors[name]:.2e}"
                    continue
            graphs[name] = capture(launches)
        timings = burst(graphs, rounds)
        us = {name: t.median for name, t in timings.items()}
        mine = us.get(OURS, float("nan"))
        yield {
            **case.dims,
            "result": case.form,
            "schedule": all_[OURS] if isinstance(all_[OURS], str) else all_[OURS].spec.schedule,
            "us": {name: round(t, 2) for name, t in us.items()},
            "ratio": {name: round(t / mine, 4) for name, t in us.items() if name != OURS},
            "tflops": round(4 * case.m * case.n * K / mine / 1e6, 1),
            "errors": errors,
            "refused": refused,
            "quartiles": {name: t.quartiles for name, t in timings.items()},
        }
        del sets, graphs
        torch.cuda.empty_cache()


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--rows", multiple=True, type=int, default=(64, 4096), show_default=True, help="Rows, of X.")
@click.option("--next", "count", default=0, show_default=True, help="Other schedules to measure, the best ranked.")
@click.option("--columns", multiple=True, type=int, default=COLUMNS, show_default=True, help="Of results.")
@click.option("--schedule", "schedules", multiple=True, help="Fields of another schedule to measure.")
@click.option("--rounds", default=11, show_default=True, help="Measurements of each contender.")
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
def main(
    rows: tuple[int, ...],
    count: int,
    columns: tuple[int, ...],
    schedules: tuple[str, ...],
    rounds: int,
    output: str | None,
) -> None:
    from scalec.bench.report import report
    from scalec.bench.shape import require_gpu

    require_gpu()
    cases = [Case(m, n, form) for m in rows for n in columns for form in TYPES]
    report(figures(cases, rounds, count, schedules), lambda _, name: name, rounds, output)


if __name__ == "__main__":
    main()
