"""Quantised results on Hopper: what the epilogue costs over a bf16 result, and what it saves over a second kernel.

    python benchmarks/hopper_quantised.py -o result.json

At each shape four contenders, interleaved (scalec/bench/): the program with a quantised result, the same one with a
bf16 result, that one followed by a Triton kernel that quantises what it wrote, and torch's block-scaled kernel
(cuBLASLt) followed by the same. The quantised results of the first and third are compared: `agree` has the share of
equal bytes of values, which that of sums rounded to bf16 first keeps below 1, and the share of equal scales (f32 ones:
within 2^-7). Needs torch and Triton. Runs from a checkout, whether or not scalec is installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scalec.bench.suites import SUITES

RATIOS = ("over_bf16", "saves", "over_peer")
"""Times of the quantised result over the bf16 one's; of that and a second kernel over it; of the peer over it."""


@dataclass(frozen=True)
class Result:
    """A format of the result.

    Attributes:
        block: columns that share a scale.
        values, scales: names of torch's types.
        each: elements of a value: two of 4 bits.
        whole: whether a scale of the whole tensor is given.
    """

    block: int
    values: str
    scales: str
    each: int = 1
    whole: bool = False


RESULTS = {
    "mxfp8": Result(32, "float8_e4m3fn", "float8_e8m0fnu"),
    "fp8_block": Result(128, "float8_e4m3fn", "float32"),
    "mxfp4": Result(32, "float4_e2m1fn_x2", "float8_e8m0fnu", each=2),
    "nvfp4": Result(16, "float4_e2m1fn_x2", "float8_e4m3fn", each=2, whole=True),
}

PEER = "torch._scaled_mm block (cuBLASLt), then quantised"

OPERANDS = "{} = A[m,k]@B[n,k] scale(1x128,128x128)"


def launches(kernel: Any, inputs: Any, outs: Any, after: Any = None, whole: Any = None) -> Any:
    """A launch of `kernel`, and of what comes `after` it; `whole` is the scale of its whole result."""
    arguments = [inputs.values.get(t.name, whole) for t in kernel.spec.operands]

    def launch() -> None:
        kernel(*arguments, out=outs)
        if after is not None:
            after()

    return launch


def peer(plain: Any, dims: dict[str, int], inputs: Any, out: Any, block: int, whole: Any) -> Any:
    """A launch of torch's block-scaled kernel with a bf16 result, and of the one that quantises this."""
    from quantise_triton import quantise

    from scalec.bench.contenders import BLOCK, contenders

    (make,) = contenders(plain.spec, dims)[BLOCK].variants.values()
    launch = make(inputs)
    return lambda: quantise(launch(), *out, block, whole)


def compiled(left: str, dims: Mapping[str, int]) -> Any:
    """The kernel for these sizes alone."""
    import scalec

    return scalec.compile(OPERANDS.format(left), target="sm_90a", dims=dims)


def bench(format_: str, dims: dict[str, int], rounds: int) -> dict[str, Any]:
    """One shape: medians in microseconds, and how much of the quantised results agrees."""
    import torch
    from quantise_triton import quantise

    from scalec.bench import method
    from scalec.bench.graphs import measure
    from scalec.bench.inputs import make_inputs

    fused, plain = compiled(f"D[m,n]:{format_}", dims), compiled("D[m,n]", dims)
    result, (m, n) = RESULTS[format_], (dims["m"], dims["n"])
    block, whole = result.block, torch.ones((), device="cuda") if result.whole else None

    def zeros(columns: int, name: str) -> torch.Tensor:
        kind = getattr(torch, name)
        if kind.itemsize > 1:
            return torch.zeros(m, columns, dtype=kind, device="cuda")
        return torch.zeros(m, columns, dtype=torch.uint8, device="cuda").view(kind)

    def outputs() -> tuple[torch.Tensor, torch.Tensor]:
        return zeros(n // result.each, result.values), zeros(-(-n // block), result.scales)

    def raw(outs: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """As the second kernel writes them: 4-bit values, and scales of 8 bits, as bytes."""
        values, scales = outs
        values = values.view(torch.uint8) if result.each == 2 else values
        return values, scales.view(torch.uint8) if scales.itemsize == 1 else scales

    def same(scales: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """Of e4m3 and ue8m0 no two are within 2^-7."""
        return scales == others if scales.itemsize == 1 else (scales / others - 1).abs().lt(2**-7)

    first = make_inputs(plain.spec, dims, 7)
    count = method.sets_in_rotation(first.input_bytes())
    agree = scales_agree = 0.0
    bound: dict[str, list[Any]] = {"quantised": [], "bf16": [], "bf16, then quantised": [], PEER: []}
    for i in range(count):
        inputs = first if i == 0 else make_inputs(plain.spec, dims, 7 + i)
        one, wide = outputs(), inputs.outputs["D"]
        bound["quantised"].append(launches(fused, inputs, one, whole=whole))
        bound["bf16"].append(launches(plain, inputs, wide))
        two, three = raw(outputs()), raw(outputs())
        after = lambda wide=wide, two=two: quantise(wide, *two, block, whole)  # noqa: E731
        bound["bf16, then quantised"].append(launches(plain, inputs, wide, after))
        bound[PEER].append(peer(plain, dims, inputs, three, block, whole))
        if i == 0:
            for name in ("quantised", "bf16, then quantised"):
                bound[name][0]()
            torch.cuda.synchronize()
            agree = (one[0].view(torch.uint8) == two[0].view(torch.uint8)).float().mean().item()
            scales_agree = same(raw(one)[1], two[1]).float().mean().item()
    timings = {name: t.median for name, t in measure(bound, rounds).items()}
    return {
        "format": format_,
        "dims": dims,
        "us": {name: round(us, 2) for name, us in timings.items()},
        "over_bf16": round(timings["quantised"] / timings["bf16"], 4),
        "saves": round(timings["bf16, then quantised"] / timings["quantised"], 4),
        "over_peer": round(timings[PEER] / timings["quantised"], 4),
        "agree": {"values": round(agree, 5), "scales": round(scales_agree, 5)},
        "schedule": fused.spec.schedule,
        "schedule_bf16": plain.spec.schedule,
    }


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option(
    "--suite", type=click.Choice(list(SUITES)), default="hopper-fp8-six", show_default=True, help="Its shapes."
)
@click.option("--format", "formats", multiple=True, type=click.Choice(list(RESULTS)), default=list(RESULTS))
@click.option("--rounds", default=31, show_default=True, help="Measurements of each contender.")
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
def main(suite: str, formats: tuple[str, ...], rounds: int, output: str | None) -> None:
    from scalec.bench import provenance

    shapes = [dict(dims) for dims in SUITES[suite].shapes]
    rows = []
    for format_ in formats:
        for dims in shapes:
            rows.append(bench(format_, dims, rounds))
            click.echo(json.dumps({name: rows[-1][name] for name in ("format", "dims", "us", *RATIOS)}))
        of = [row for row in rows if row["format"] == format_]
        means = {name: round(geometric_mean(row[name] for row in of), 4) for name in RATIOS}
        click.echo(f"{format_}, geometric means of {len(of)} shapes: {json.dumps(means)}")
    if output:
        data = {**provenance.of_machine(), **provenance.of_compiler()}
        data |= {"expression": OPERANDS.format("D[m,n]:<format>"), "rows": rows}
        Path(output).write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
