"""One kernel at one shape: checked, then timed with its contenders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from scalec.abi import KernelSpec
from scalec.bench.contenders import contenders, diff, reference
from scalec.bench.graphs import Launch, Timing, measure, sets_in_rotation
from scalec.bench.inputs import Inputs, make_inputs
from scalec.errors import DeviceError, ScalecError

OURS = "scalec"
MAX_DIFF = 1e-5  # a bf16 result against float32: rounding alone gives about 2e-6


@dataclass(frozen=True)
class Row:
    """The result of one shape.

    Attributes:
        dims: sizes.
        flops: floating-point operations of one call.
        bytes: bytes that one call must move.
        schedule: the kernel's schedule.
        sets: input sets in rotation.
        timings: by contender, scalec first.
        diffs: error of each contender against float32 on dequantised inputs; empty where torch cannot say.
    """

    dims: dict[str, int]
    flops: int
    bytes: int
    schedule: str
    sets: int
    timings: dict[str, Timing]
    diffs: dict[str, float]

    def ratio(self, name: str) -> float:
        """How many times as fast scalec is as `name`: the ratio of medians."""
        return self.timings[name].median / self.timings[OURS].median

    def to_json(self) -> dict[str, Any]:
        """The row as `benchmarks/results/README.md` describes it."""
        return {
            "dims": self.dims,
            "bytes": self.bytes,
            "schedule": self.schedule,
            "input_sets": self.sets,
            "checks": self.diffs,
            "contenders": {
                name: {
                    "median_us": round(t.median, 3),
                    "quartiles_us": [round(q, 3) for q in t.quartiles],
                    "tflops": round(self.flops / t.median / 1e6, 1),
                    "gbytes_per_s": round(self.bytes / t.median / 1e3, 1),
                    "ratio": round(self.ratio(name), 4),
                }
                for name, t in self.timings.items()
            },
        }


def require_gpu() -> None:
    """Refuses a machine without a GPU that torch can use.

    Raises:
        DeviceError: no GPU.
    """
    if not torch.cuda.is_available():
        raise DeviceError(
            "no CUDA GPU that torch can use", fix="run this on a machine with one; `scalec compile` needs none"
        )


def bench_shape(kernel: Any, spec: KernelSpec, dims: Mapping[str, int], *, rounds: int, seed: int = 7) -> Row:
    """Checks and times one kernel.

    Args:
        kernel: called with the operands in the spec's order and `out=`.
        spec: the kernel's.
        dims: a size for every dimension.
        rounds: samples of each contender.

    Raises:
        ScalecError: a size is missing, or the kernel's result is wrong.
        DeviceError: the driver refused.
    """
    sizes = dict(dims)
    missing = [d for d in spec.dims if d not in sizes]
    if missing:
        raise ScalecError(f"no size for {', '.join(missing)}", fix=f"give --dim {missing[0]}=...")
    first = make_inputs(spec, sizes, seed)
    count = sets_in_rotation(first.bytes())
    sets = [first, *(make_inputs(spec, sizes, seed + i) for i in range(1, count))]
    launches: dict[str, Callable[[Inputs], Launch]] = {
        OURS: lambda inputs: _ours(kernel, spec, inputs),
        **contenders(spec, sizes),
    }
    bound = {name: [make(inputs) for inputs in sets] for name, make in launches.items()}
    diffs = _check(spec, sizes, first, {name: calls[0] for name, calls in bound.items()})
    timings = measure(bound, rounds)
    flops = 2 * prod(sizes[d] for d in spec.flops)
    return Row(sizes, flops, first.bytes(), spec.schedule, count, timings, diffs)


def _ours(kernel: Any, spec: KernelSpec, inputs: Inputs) -> Launch:
    arguments = [inputs.values[t.name] for t in spec.operands]
    outputs = [inputs.outputs[r.name] for r in spec.results]
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)

    def launch() -> torch.Tensor:
        kernel(*arguments, out=out)
        return outputs[0]

    return launch


def _check(spec: KernelSpec, dims: dict[str, int], inputs: Inputs, calls: Mapping[str, Launch]) -> dict[str, float]:
    expected = reference(spec, dims, inputs)
    if expected is None:
        return {}
    for out in inputs.outputs.values():
        out.fill_(float("nan"))
    diffs = {name: diff(torch.as_tensor(call()), expected) for name, call in calls.items()}
    if not diffs[OURS] <= MAX_DIFF:
        raise ScalecError(
            f"the kernel's result is wrong at {dims}: it is not timed",
            got=f"diff {diffs[OURS]:.2e}",
            expected=f"at most {MAX_DIFF:.0e}",
        )
    return diffs
