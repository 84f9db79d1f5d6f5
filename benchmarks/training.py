"""Layers that train, forward and backward: those of examples/python/linear.py and moe_train.py.

    python benchmarks/training.py -o result.json            compiles and measures on this machine
    python benchmarks/training.py --only linear             some of it

A linear layer in FP8, quantising included, beside our BF16 one and torch's; a mixture-of-experts layer in FP8 beside
the same layer with our BF16 products. Contenders are interleaved (scalec/bench/); a ratio is another's time over that
of FP8. Weights are f32, and so are their gradients, but those of BF16 linear layers, which have no master weights.
Gradients are compared with those of the BF16 layer: they differ by what FP8 rounds. A layer that does not fit into
memory is left out, and said. Steps that are graphs are also timed without pauses (`sustained`): power then leaves a
contender the clocks that it would have in a training run. Runs from a checkout.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "examples" / "python"))


os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # the largest layers fill the memory

if TYPE_CHECKING:
    import torch

    from scalec.bench.result import Timing

ROWS = 8192
LINEAR = ((7168, 2048), (4096, 7168), (24576, 1536), (7168, 16384))
"""Outputs and inputs."""

EXPERTS, TOPK = 128, 8
MOE = ((4096, 2048, 768), (32768, 2048, 768), (4096, 7168, 2048), (32768, 7168, 2048))
"""Tokens, hidden and inter."""

GRAPHED = 2048
"""Hidden sizes up to which a step is a graph; graphs of larger layers do not fit into memory beside each other, and
such a step takes the GPU much longer than the host."""

COMPARED = 1 << 28
"""Elements of a tensor, of which all are compared."""

ALLOWED = 0.08
"""Relative difference from BF16 of a result or a gradient, |x - y| / |y|: two or three roundings to e4m3."""

FP8, SQUARE, BF16, TORCH = "FP8", "FP8, gradients in square blocks", "BF16", "torch BF16"
Step = Callable[[], tuple["torch.Tensor", ...]]
"""A result, and the gradients behind it."""


def linear(n: int, k: int) -> dict[str, Step]:
    """By contender, of ROWS rows."""
    import torch
    from linear import LINEAR as TEXT
    from linear import fp8_linear

    import scalec

    options: dict[str, Any] = {"dtype": torch.bfloat16, "device": "cuda"}
    x, dy = torch.randn(ROWS, k, **options), torch.randn(ROWS, n, **options)
    w = torch.randn(n, k, **options) / k**0.5
    fp8, square, own = (
        fp8_linear(n, k, "sm_90a"),
        fp8_linear(n, k, "sm_90a", "deepseek_v3_2d"),
        scalec.differentiable(TEXT.replace(" + bias[n]", ""), "sm_90a", {"n": n, "k": k}),
    )

    def step(layer: Callable[..., torch.Tensor], weights: torch.Tensor) -> Step:
        leaves = x.clone().requires_grad_(), weights.requires_grad_()

        def run() -> tuple[torch.Tensor, ...]:
            y = layer(*leaves)
            return y, *torch.autograd.grad(y, leaves, dy)

        return run

    return {
        FP8: step(fp8, w.float()),
        SQUARE: step(square, w.float()),
        BF16: step(own, w.clone()),
        TORCH: step(torch.nn.functional.linear, w.clone()),
    }


def moe(tokens: int, hidden: int, inter: int) -> dict[str, Step]:
    """By contender, of tokens that a Zipf-like router sends."""
    import torch
    from moe import Routing
    from moe_train import Layer

    sizes = {"experts": EXPERTS, "topk": TOPK, "hidden": hidden, "inter": inter}
    x, dz = (torch.randn(tokens, hidden, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    gate_up = torch.randn(EXPERTS, 2 * inter, hidden, device="cuda") / hidden**0.5
    down = torch.randn(EXPERTS, hidden, inter, device="cuda") / inter**0.5
    logits = torch.randn(tokens, EXPERTS, device="cuda") - torch.arange(EXPERTS, device="cuda").log1p() / 2
    leaves = [t.requires_grad_() for t in (x, gate_up, down, logits)]

    def step(layer: Layer) -> Step:
        def run() -> tuple[torch.Tensor, ...]:
            z = layer(*leaves[:3], Routing.of(leaves[3], TOPK))
            return z, *torch.autograd.grad(z, leaves, dz)

        return run

    return {name: step(Layer(sizes, tokens, name == FP8, "sm_90a")) for name in (FP8, BF16)}


def differences(steps: dict[str, Step], name: str) -> list[float]:
    """Of the result and each gradient of an FP8 contender from those of BF16; of the largest, whose two would not fit
    into memory beside each other, of every so many experts."""
    ours, theirs = ([t.detach()[:: -(-t.numel() // COMPARED)].clone() for t in steps[x]()] for x in (name, BF16))
    return [float((a.float() - b.float()).norm() / b.float().norm()) for a, b in zip(ours, theirs, strict=True)]


class Eager:
    """A step without a graph."""

    launches = 1

    def __init__(self, step: Step) -> None:
        self.step = step

    def sample(self) -> float:
        """Microseconds."""
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.step()
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end)


def timed(steps: dict[str, Step], graphed: bool, rounds: int) -> tuple[dict[str, Timing], dict[str, Timing]]:
    """With a pause before each, and without; no such of steps that are no graphs."""
    from scalec.bench.graphs import burst, capture, sustained

    made: dict[str, Any] = {name: capture([step]) if graphed else Eager(step) for name, step in steps.items()}
    return burst(made, rounds), sustained(made, max(1, rounds // 2)) if graphed else {}


def beside(timings: dict[str, Timing]) -> dict[str, Any]:
    """Microseconds of each, and its ratio to FP8."""
    us = {contender: t.median for contender, t in timings.items()}
    ratio = {contender: round(t / us[FP8], 4) for contender, t in us.items() if contender != FP8}
    return {"us": {contender: round(t, 1) for contender, t in us.items()}, "ratio": ratio}


def figures(only: str, rounds: int) -> Iterator[dict[str, Any]]:
    """Those of all layers."""
    import torch

    cases = [("linear", {"m": ROWS, "n": n, "k": k}, lambda n=n, k=k: linear(n, k), True) for n, k in LINEAR]
    cases += [
        ("moe", {"tokens": t, "hidden": h, "inter": i}, lambda t=t, h=h, i=i: moe(t, h, i), h <= GRAPHED)
        for t, h, i in MOE
    ]
    for name, sizes, make, graphed in cases:
        if only not in name:
            continue
        torch.manual_seed(0)
        try:
            steps = make()
            off = [x for name in steps if name.startswith(FP8) for x in differences(steps, name)]
            if not max(off) <= ALLOWED:
                raise click.ClickException(f"{name} {sizes} is wrong: {off}, at most {ALLOWED}")
            timings, unpaused = timed(steps, graphed, rounds)
        except torch.OutOfMemoryError as error:
            click.echo(f"{name} {sizes} is left out: {str(error).splitlines()[0]}", err=True)
            steps = make = None
            torch.cuda.empty_cache()
            continue
        yield {
            "layer": name,
            **sizes,
            **beside(timings),
            **({"sustained": beside(unpaused)} if unpaused else {}),
            "differences": [round(x, 4) for x in off],
            "quartiles": {contender: t.quartiles for contender, t in timings.items()},
        }
        del steps, make
        torch.cuda.empty_cache()


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--only", default="", help="Layers whose name has this: linear, moe.")
@click.option("--rounds", default=11, show_default=True, help="Measurements of each contender.")
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
def main(only: str, rounds: int, output: str | None) -> None:
    from scalec.bench.report import report
    from scalec.bench.shape import require_gpu

    require_gpu()
    report(figures(only, rounds), lambda case, name: f"{case['layer']}, {name}", rounds, output)


if __name__ == "__main__":
    main()
