"""Logits of an indexer on Hopper, over windows and over pages, FP8, 64 heads of 128 dimensions.

    python benchmarks/logits.py -o result.json                compiles and measures on this machine
    python benchmarks/logits.py --only pages --contenders deepgemm.py      and what a file of one's own has

The kernels know heads and dimensions, no other size; what no window has is not written. Results are compared with
float64 at some rows, before anything is timed. Contenders, interleaved (scalec/bench/): scalec; those of files,
`contenders(spec, dims)`, whose launches return the logits; and a copy within the GPU's memory that reads and writes,
both together, as many bytes as operands and logits have. A ratio is another's time over scalec's; TFLOP/s count the
products of what is written. Runs from a checkout, whether or not scalec is installed.
"""

from __future__ import annotations

import random
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

    from scalec.bench.inputs import Inputs

H, D, PAGE = 64, 128, 64
"""Heads, their dimensions, keys of a page."""

SOURCES = {
    "windows": "L[q,t]:f32 = sum[h](relu(Q[q,h,d]:e4m3 @ K[t,d]:e4m3 scale(none,1xd)) * W[q,h]:f32) "
    "for t in lo[q]:hi[q]",
    "pages": "L[s,t]:f32 = sum[h](relu(Q[s,h,d]:e4m3 @ K[table[s,t/64],t%64,d]:e4m3 scale(none,1x1xd)) * W[s,h]:f32) "
    "for t < len[s]",
}
SOURCES["tokens"] = SOURCES["pages"].replace("L[s,t]", "L[s,u,t]").replace("[s,h", "[s,u,h")
"""Several tokens of each sequence."""

OURS, COPY = "scalec", "a copy of as many bytes"

ROWS = 16
"""That are compared with float64."""
ALLOWED = 1e-3
"""Of the largest logit: tensor cores add FP8 products with fewer bits than f32 has."""


@dataclass(frozen=True)
class Case:
    """`rows` queries or sequences of at most `most` keys: each has "all" of them, evenly more than the one before
    ("rising"), or as many as are "drawn"."""

    kind: str
    rows: int
    most: int
    lengths: str
    tokens: int = 1

    @property
    def program(self) -> tuple[str, dict[str, int]]:
        """Its source, and the sizes that the kernel knows."""
        known = {"h": H, "d": D}
        return (SOURCES["tokens"], known | {"u": self.tokens}) if self.tokens > 1 else (SOURCES[self.kind], known)

    @property
    def length(self) -> list[int]:
        """Keys of each row."""
        draw, rows = random.Random(5), range(1, self.rows + 1)
        if self.lengths == "drawn":
            return [draw.randint(1, self.most) for _ in rows]
        return [self.most if self.lengths == "all" else row * self.most // self.rows for row in rows]

    def told(self) -> dict[str, Any]:
        told = {"kind": self.kind, "rows": self.rows, "keys": self.most, "lengths": self.lengths}
        return told | ({"tokens": self.tokens} if self.tokens > 1 else {})


CASES = [
    *(Case("windows", q, t, "all") for q in (2048, 8192) for t in (8192, 65536)),
    *(Case("windows", q, t, "rising") for q in (2048, 8192) for t in (8192, 65536)),
    *(Case("pages", s, t, "all") for s, t in ((256, 8192), (256, 16384), (64, 65536))),
    *(Case("pages", 256, 8192, lengths) for lengths in ("rising", "drawn")),
    *(Case("pages", s, t, "drawn") for s, t in ((256, 65536), (4096, 8192), (4096, 1024), (4096, 64))),
    *(Case("pages", 256, 8192, lengths, 2) for lengths in ("all", "drawn")),
    *(Case("pages", s, t, "drawn", 2) for s, t in ((256, 65536), (4096, 8192))),
]


def inputs(case: Case, seed: int, device: str = "cuda") -> Inputs:
    """Random operands; keys and scales of pages are views of one buffer: 64 keys, then their scales, then the next."""
    import torch

    from scalec.bench.inputs import Inputs

    generator = torch.Generator(device=device)
    generator.manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, generator=generator, dtype=torch.bfloat16)

    def fp8(*shape: int) -> torch.Tensor:
        return (normal(*shape) * 32).to(torch.float8_e4m3fn)

    def ints(values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    tokens = (case.tokens,) if case.tokens > 1 else ()
    values: dict[str, Any] = {"Q": fp8(case.rows, *tokens, H, D), "W": normal(case.rows, *tokens, H).float()}
    if case.kind == "windows":
        values |= {"K": fp8(case.most, D), "K_scale": normal(case.most, 1).float().exp()}
        values |= {"lo": ints([0] * case.rows), "hi": ints(case.length)}
    else:
        each = -(-case.most // PAGE)
        pages = case.rows * each
        buffer = torch.empty(pages, PAGE * (D + 4), dtype=torch.uint8, device=device)
        keys = buffer[:, : PAGE * D].view(torch.float8_e4m3fn).unflatten(1, (PAGE, D))
        scales = buffer[:, PAGE * D :].view(torch.float32).unsqueeze(2)
        keys.copy_(fp8(pages, PAGE, D))
        scales.copy_(normal(pages, PAGE, 1).float().exp())
        table = torch.randperm(pages, device=device, generator=generator).int().view(case.rows, each)
        values |= {"K": keys, "K_scale": scales, "table": table, "len": ints(case.length)}
    return Inputs(values, {"L": torch.empty(case.rows, *tokens, case.most, device=device)})


def error(case: Case, inputs: Inputs, result: torch.Tensor) -> float:
    """The largest difference from float64 at ROWS rows, in parts of the largest logit; NaN where a logit is missing."""
    v, worst, largest = inputs.values, 0.0, 0.0
    step = max(1, case.rows // ROWS)
    for row in sorted({*range(step - 1, case.rows, step), case.rows - 1}):
        n = case.length[row]
        at = v["table"][row, : -(-n // PAGE)].long() if case.kind == "pages" else slice(None)
        keys, scales = (v[name][at].reshape(-1, size)[:n] for name, size in (("K", D), ("K_scale", 1)))
        product = v["Q"][row].double() @ (keys.double() * scales.double()).T
        wanted = (v["W"][row].double().unsqueeze(-2) @ product.relu()).squeeze(-2)
        worst = max(float((result[row, ..., :n] - wanted).abs().max()), worst, key=lambda x: (x != x, x))
        largest = max(largest, float(wanted.abs().max()))
    missing = any(bool(result[row, ..., :n].isnan().any()) for row, n in enumerate(case.length))
    return float("nan") if missing else worst / largest


def moved(case: Case, inputs: Inputs) -> int:
    """Bytes of operands, keys as far as they are read, and logits."""
    keys = sum(case.length) if case.kind == "pages" else case.most
    rest = sum(t.nbytes for name, t in inputs.values.items() if not name.startswith("K"))
    return rest + keys * (D + 4) + 4 * case.tokens * sum(case.length)


def contenders(case: Case, kernel: Any, files: Sequence[Any]) -> dict[str, Callable[[Inputs], Callable[[], Any]]]:
    """By name: what makes a launch of a set of inputs."""
    from scalec.bench.contenders import copied

    dims = {"q" if case.kind == "windows" else "s": case.rows, "t": case.most, **case.program[1]}

    def ours(i: Inputs) -> Callable[[], Any]:
        out = i.outputs["L"]
        return lambda: kernel(**i.values, out=out)

    def copy(i: Inputs) -> Callable[[], Any]:
        return copied(moved(case, i))

    made = {OURS: ours}
    for source in files:
        made |= {name: c.variants[""] for name, c in source(kernel.spec, dims).items()}
    return made | {COPY: copy}


def figures(cases: Sequence[Case], rounds: int, files: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """The figures of all cases; what fails, or is wrong, is told and not timed.

    Raises:
        click.ClickException: scalec's logits are wrong.
    """
    import torch

    import scalec
    from scalec.bench.graphs import burst, capture

    programs = {(c.kind, c.tokens): c.program for c in cases}
    kernels = {key: scalec.compile(source, "sm_90a", known) for key, (source, known) in programs.items()}
    for case in cases:
        kernel = kernels[case.kind, case.tokens]
        first = inputs(case, 7)
        count = min(method.sets_in_rotation(moved(case, first)), 16)
        sets = [first, *(inputs(case, 8 + i) for i in range(count - 1))]
        errors, graphs = {}, {}
        for name, make in contenders(case, kernel, files).items():
            try:
                launches = [make(i) for i in sets]
                first.outputs["L"].fill_(float("nan"))
                result = launches[0]()
                torch.cuda.synchronize()
                if name != COPY:
                    errors[name] = error(case, first, first.outputs["L"] if name == OURS else result)
                    if not errors[name] <= ALLOWED:
                        raise RuntimeError(f"error {errors[name]:.2e} of the largest logit")
                graphs[name] = capture(launches)
            except Exception as fault:  # whatever another's launch raises
                if name == OURS:
                    raise click.ClickException(f"{case.told()}: {fault}") from fault
                errors[name] = f"{type(fault).__name__}: {str(fault)[:200]}"
        timings = burst(graphs, rounds)
        us = {name: t.median for name, t in timings.items()}
        yield {
            **case.told(),
            "schedule": kernel.spec.schedule,
            "us": {name: round(t, 2) for name, t in us.items()},
            "ratio": {name: round(t / us[OURS], 4) for name, t in us.items() if name != OURS},
            "tflops": round(2 * case.tokens * H * D * sum(case.length) / us[OURS] / 1e6, 1),
            "tb_per_s": round(moved(case, first) / us[OURS] / 1e6, 3),
            "errors": errors,
            "quartiles": {name: t.quartiles for name, t in timings.items()},
        }
        del sets, graphs, first
        torch.cuda.empty_cache()


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--only", multiple=True, metavar="TEXT", help="Cases of this kind, or whose rows have these lengths.")
@click.option("--rounds", default=11, show_default=True, help="Measurements of each contender.")
@click.option(
    "--contenders", "files", multiple=True, metavar="FILE.py", help="More contenders, of scalec bench's kind."
)
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
def main(only: tuple[str, ...], rounds: int, files: tuple[str, ...], output: str | None) -> None:
    from scalec.bench.report import report
    from scalec.bench.shape import require_gpu
    from scalec.commands.bench import load_contenders

    chosen = [c for c in CASES if not only or any(text in (c.kind, c.lengths) for text in only)]
    if not chosen:
        raise click.UsageError(f"--only {' '.join(only)}: no such kind or lengths")
    require_gpu()
    found = figures(chosen, rounds, [load_contenders(f) for f in files])
    report(found, lambda case, name: f"{case['kind']} {case['lengths']}, {name}", rounds, output)


if __name__ == "__main__":
    main()
