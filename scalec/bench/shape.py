"""One kernel at one shape: checked, then timed with its contenders."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch

from scalec.abi import KernelSpec
from scalec.bench.contenders import contenders, diff, reference
from scalec.bench.graphs import Launch, measure
from scalec.bench.inputs import Inputs, make_inputs
from scalec.bench.method import sets_in_rotation
from scalec.bench.result import OURS, Row
from scalec.errors import DeviceError, ScalecError

MAX_DIFF = 1e-4  # rounding a result to bf16 gives about 1.4e-6 (H200, 2026-11-21); one wrong scale far more


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
    count = sets_in_rotation(first.input_bytes())
    sets = [first, *(make_inputs(spec, sizes, seed + i) for i in range(1, count))]
    launches: dict[str, Callable[[Inputs], Launch]] = {
        OURS: lambda inputs: _ours(kernel, spec, inputs),
        **{name: make for name, make in contenders(spec, sizes).items() if _runs(name, make, first)},
    }
    bound = {name: [make(inputs) for inputs in sets] for name, make in launches.items()}
    diffs = _check(spec, sizes, first, {name: calls[0] for name, calls in bound.items()})
    timings = measure(bound, rounds)
    flops = 2 * prod(sizes[d] for d in spec.flops)
    return Row(sizes, flops, first.bytes(), spec.schedule, count, timings, diffs)


def _runs(name: str, make: Callable[[Inputs], Launch], inputs: Inputs) -> bool:
    """Whether torch accepts the call; each of its kernels has conditions of its own on sizes."""
    try:
        make(inputs)()
    except (RuntimeError, ValueError) as error:
        warnings.warn(f"{name} is left out: {str(error).splitlines()[0]}", stacklevel=3)
        return False
    return True


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
