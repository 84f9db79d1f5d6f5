"""Programs without a contraction, of rows in order, permuted or in groups, beside a copy of as many bytes.

    python benchmarks/pointwise.py -o result.json                  compiles and measures on this machine
    python benchmarks/pointwise.py --rows 64 --only quantise       some of it
    python benchmarks/pointwise.py --contenders torchao.py         and what that file has: contenders(spec, dims)

Contenders, interleaved (scalec/bench/): scalec; torch's copy of as many bytes as scalec reads and writes; a Triton
kernel where `quantise_triton.py` has one; and at few rows a launch that does nothing but store one element. A ratio is
another's time over scalec's, so that of the copy is scalec's share of its bandwidth. Results are checked on the GPU
against the same sums in float32. Runs from a checkout, whether or not scalec is installed.
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

    from scalec.abi import KernelSpec

K = 7168
FEW = 256
"""Rows up to which a launch that does nothing is a contender too."""

ALLOWED = 1e-3
"""Of |x - y|^2 / (|x|^2 + |y|^2): of rounding to e4m3 in blocks."""

OURS, COPY, NOTHING, TRITON = "scalec", "copy", "empty launch", "Triton"

AWQ = "m/8*8 + m%2*4 + m%8/2"
"""Where column m of AWQ's weights lies."""

NORM = "R[m] = sum[k](X[m,k]^2); "
PROGRAMS = {
    "quantise mxfp8": "Q[m,k]:mxfp8 = X[m,k]",
    "quantise 1x128": "Q[m,k]:e4m3 scale(1x128) = X[m,k]",
    "quantise 128x128": "Q[m,k]:e4m3 scale(128x128) = X[m,k]",
    "quantise row": "Q[m,k]:e4m3 scale(1xk) = X[m,k]",
    "quantise nvfp4": "Q[m,k]:nvfp4 = X[m,k]",
    "quantise mxfp6": "Q[m,k]:mxfp6 = X[m,k]",
    "quantise f32": "Q[m,k]:mxfp8 = X[m,k]:f32",
    "two formats": "Q[m,k]:mxfp8 = X[m,k]; P[m,k]:e4m3 scale(128x128) = X[m,k]",
    "turned": "T[k,m] = X[m,k]",
    "turned mxfp8": "T[k,m]:mxfp8 = X[m,k]",
    "turned mxfp6": "T[k,m]:mxfp6_e2m3 = X[m,k]",
    "turned 1x128": "T[k,m]:e4m3 scale(1x128) = X[m,k]",
    "both mxfp8": "Q[m,k]:mxfp8 = X[m,k]; T[k,m]:mxfp8 = X[m,k]",
    "dequantise": "Y[m,k] = X[m,k]:e4m3 scale(1x128)",
    "dequantise u4": "W[m,k] = (B[m,k]:u4 - Z[m,k/128]) scale(1x128:f16)",
    "dequantise GPTQ": "W[m,k] = (B[k/8,m,k%8]:u4 - Z[k/128,m]) scale(1x128:f16@col)",
    "dequantise AWQ": f"W[k,m] = (B[k, {AWQ}]:u4 - Z[k/128, {AWQ}]) scale(128x1:f16)",
    "gate mxfp8": "Q[m,k]:mxfp8 = silu(G[m,k]) * X[m,k]",
    "norm": NORM + "Y[m,k] = X[m,k] * w[k] / sqrt(R/n + e)",
    "norm mxfp8": NORM + "Y[m,k]:mxfp8 = X[m,k] * w[k] / sqrt(R/n + e)",
    "softmax": "M[m] = max[k](X[m,k]); E[m,k] = exp(X[m,k] - M); S[m] = sum[k](E); Y[m,k] = E / S",
    "elementwise": "Y[m,k] = relu(X[m,k]) + G[m,k]",
    "gathered": "Y[m,k] = X[idx[m],k]",
    "gathered mxfp8": "Q[m,k]:mxfp8 = X[idx[m],k]",
    "gathered 1x128": "Q[m,k]:e4m3 scale(1x128) = X[idx[m],k]",
    "gathered gate": "Q[m,k]:mxfp8 = silu(G[idx[m],k]) * X[idx[m],k]",
    "scattered mxfp8": "Q[idx[m],k]:mxfp8 = X[m,k]",
    "ragged mxfp8": "Q[m,k]:e4m3 scale(1x32:ue8m0@blocked) = X[m,k] for m in off[g]:off[g+1] apart",
    "ragged gathered": "Q[m,k]:e4m3 scale(1x32:ue8m0@blocked) = X[idx[m],k] for m in off[g]:off[g+1] apart",
    "ragged turned": "T[k,m]:e4m3 scale(1x32:ue8m0@blocked) = X[m,k] for m in off[g]:off[g+1] apart",
    "masked 1x128": "Q[g,m,k]:e4m3 scale(1x1x128) = X[g,m,k] for m < rows[g]",
}
GROUPS = 8
"""Those that rows are shared out to, or that have so many rows each."""
IN_TRITON = {"quantise mxfp8": 32, "quantise 1x128": 128}
"""Columns of a block, of those that a Triton kernel does too."""


@dataclass(frozen=True)
class Case:
    """A program of PROGRAMS, and its rows."""

    name: str
    m: int

    @property
    def dims(self) -> dict[str, int]:
        masked, text = self.name.startswith("masked"), PROGRAMS[self.name]
        made = {"m": -(-self.m // GROUPS) if masked else self.m, "k": K}
        made |= {"g": GROUPS} if "g]" in text else {}
        reached = [x for x in "QXG" if f"{x}[idx[m]" in text]
        return made | {f"{x}_0": self.m for x in reached}


def wanted(name: str, values: dict[str, Any]) -> torch.Tensor:
    """The first result in float32, before it is rounded."""
    import torch

    if "B" in values:
        return weights(name, values)
    x, other = (values.get(n, values["X"]).float() for n in ("X", "G"))
    if "X_scale" in values:
        x = x * values["X_scale"].repeat_interleave(128, 1)
    if "idx" in values:
        at = values["idx"].long()
        x, other = (t[at.argsort() if name.startswith("scattered") else at] for t in (x, other))
    if name.startswith("turned"):
        return x.T
    if "gate" in name:
        return torch.nn.functional.silu(other) * x
    if name == "softmax":
        return torch.softmax(x, 1)
    if name.startswith("norm"):
        of = (x * x).sum(1, keepdim=True) / values["n"] + values["e"]
        return x * values["w"].float() / torch.sqrt(of)
    return x.relu() + other if name == "elementwise" else x


def weights(name: str, values: dict[str, Any]) -> torch.Tensor:
    """What integers of 4 bits stand for."""
    import torch

    stored, zeros, scales = values["B"], values["Z"], values["B_scale"].float()
    stored, zeros = (torch.stack([x & 15, x >> 4], -1).flatten(-2).float() for x in (stored, zeros))
    if name.endswith("GPTQ"):
        stored = stored.movedim(1, 0).flatten(1)
    if name.endswith("AWQ"):
        order = [i % 2 * 4 + i // 2 for i in range(8)]
        stored, zeros = (x.unflatten(-1, (-1, 8))[..., order].flatten(-2) for x in (stored, zeros))
    along = 0 if name.endswith("AWQ") else 1
    zeros = zeros.mT if name.endswith("GPTQ") else zeros
    return (stored - zeros.repeat_interleave(128, along)) * scales.repeat_interleave(128, along)


def found(results: tuple[torch.Tensor, ...], values: dict[str, Any]) -> torch.Tensor | None:
    """The first result in float32, with its scales; None of 4 or 6 bits, which torch does not read, and of results
    that are turned and have scales in tiles."""
    import torch

    first, *scales = results
    tiles = bool(scales) and "off" in values
    if first.dtype not in (torch.float8_e4m3fn, torch.bfloat16) or (tiles and first.shape[1] != K):
        return None
    made = first.float()
    if first.dtype == torch.float8_e4m3fn:
        scale = in_rows(scales[0], values["off"], first.shape[0]) if tiles else scales[0]
        scale = (scale.view(torch.float8_e8m0fnu) if scale.dtype == torch.uint8 else scale).float()
        for axis in range(first.ndim):
            each = -(-first.shape[axis] // scale.shape[axis]) if scale.ndim > axis else first.shape[axis]
            scale = scale if scale.ndim > axis else scale.unsqueeze(axis)
            scale = scale.repeat_interleave(each, axis).narrow(axis, 0, first.shape[axis])
        made = made * scale
    return made


def in_rows(scales: torch.Tensor, offsets: torch.Tensor, rows: int) -> torch.Tensor:
    """Scales of 1x32 in rows, of tiles of 128 x 4 in which group g begins at tile row off[g] / 128 + g: row r of a tile
    is the 16 bytes at r % 32, and 4 of these at r / 32."""
    import torch

    at = torch.arange(rows, device=scales.device)
    group = torch.searchsorted(offsets.long(), at, right=True) - 1
    low = offsets.long()[group]
    tiles = scales.view(torch.uint8).reshape(-1, K // 128, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(-1, K // 32)
    return tiles[at - low + (low // 128 + group) * 128]


def compared(case: Case, first: Set) -> float | None:
    """|x - y|^2 / (|x|^2 + |y|^2) of the first result, of what is written; None if torch does not read it."""
    import torch

    made, values = found(first.results, first.values), first.values
    if made is None:
        return None
    expected = wanted(case.name, values).double()
    if (rows := values.get("rows")) is not None:
        there = torch.arange(made.shape[1], device=made.device) < rows[:, None]
        made, expected = made[there], expected[there]
    return float(((made - expected) ** 2).sum() / (made.double() ** 2 + expected**2).sum())


class Set:
    """Operands, results of one call, and room for a copy of as many bytes."""

    def __init__(self, kernel: Any, spec: KernelSpec, case: Case, seed: int) -> None:
        from scalec.bench.contenders import copied
        from scalec.bench.inputs import make_inputs

        made = make_inputs(spec, case.dims, seed)
        self.values: dict[str, Any] = made.values | {
            x: float(K) if x == "n" else 1e-5 for x in ("n", "e") if x in made.values
        }
        given, self.results = list(self.values.values()), tuple(made.outputs.values())
        out = self.results if len(self.results) > 1 else self.results[0]
        self.launch = lambda: kernel(*given, out=out)
        self.launch()
        size = made.input_bytes() + sum(t.nbytes for t in self.results)
        if (rows := self.values.get("rows")) is not None:  # the others are neither read nor written
            size = int(size * float(rows.float().mean()) / case.dims["m"])
        self.bytes = size
        self.copy = copied(size)


def contenders(case: Case, spec: KernelSpec, files: Sequence[Any]) -> dict[str, Callable[[Set], Callable[[], object]]]:
    """By name: what makes a launch of a set."""
    one: list[torch.Tensor] = []

    def nothing(_: Set) -> Callable[[], object]:
        import torch

        one.append(torch.empty(1, device="cuda"))
        return lambda: one[0].zero_()

    def triton(s: Set) -> Callable[[], object]:
        from quantise_triton import quantise

        values, scales = s.results[0], s.results[1]
        return lambda: quantise(s.values["X"], values, scales, IN_TRITON[case.name])

    made = {OURS: lambda s: s.launch, COPY: lambda s: s.copy}
    made |= {NOTHING: nothing} if case.m <= FEW else {}
    for source in files:
        made |= {name: c.variants[""] for name, c in source(spec, case.dims).items()}
    return made | ({TRITON: triton} if case.name in IN_TRITON else {})


def figures(cases: list[Case], rounds: int, files: Sequence[Any] = (), known: bool = False) -> Iterator[dict[str, Any]]:
    """The figures of all cases, of kernels for any number of rows, or each for its own, which is `known`."""
    import torch

    import scalec
    from scalec.bench.graphs import burst, capture

    for case in cases:
        kernel: Any = scalec.compile(PROGRAMS[case.name], dims=case.dims if known else {"k": K})
        spec: KernelSpec = kernel.spec
        first = Set(kernel, spec, case, 7)
        error = compared(case, first)
        if error is not None and not error <= ALLOWED:
            raise click.ClickException(f"{case.name} with {case.m} rows is wrong: {error:.2e}, at most {ALLOWED:.0e}")
        sets = [first] + [
            Set(kernel, spec, case, 8 + i) for i in range(min(method.sets_in_rotation(first.bytes), 64) - 1)
        ]
        graphs = {name: capture([make(s) for s in sets]) for name, make in contenders(case, spec, files).items()}
        timings = burst(graphs, rounds)
        us = {name: t.median for name, t in timings.items()}
        yield {
            "program": case.name,
            **case.dims,
            "schedule": kernel.spec.schedule,
            "bytes": first.bytes,
            "us": {name: round(t, 2) for name, t in us.items()},
            "ratio": {name: round(t / us[OURS], 4) for name, t in us.items() if name != OURS},
            "terabytes_per_second": round(first.bytes / us[OURS] / 1e6, 3),
            "error": error,
            "quartiles": {name: t.quartiles for name, t in timings.items()},
        }
        del sets, graphs, first
        torch.cuda.empty_cache()


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--rows", multiple=True, type=int, default=(1, 64, 256, 8192), show_default=True, help="Rows, of 7168.")
@click.option("--only", default="", help="Programs whose name has this.")
@click.option("--known", is_flag=True, help="Compile for each number of rows.")
@click.option("--rounds", default=11, show_default=True, help="Measurements of each contender.")
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
@click.option(
    "--contenders", "files", multiple=True, metavar="FILE.py", help="More contenders, of scalec bench's kind."
)
def main(
    rows: tuple[int, ...], only: str, known: bool, rounds: int, output: str | None, files: tuple[str, ...]
) -> None:
    from scalec.bench.report import report
    from scalec.bench.shape import require_gpu
    from scalec.commands.bench import load_contenders

    require_gpu()
    cases = [Case(name, m) for m in rows for name in PROGRAMS if only in name]
    measured = figures(cases, rounds, [load_contenders(f) for f in files], known)
    report(measured, lambda case, name: f"{name}, {case['m']} rows", rounds, output)


if __name__ == "__main__":
    main()
