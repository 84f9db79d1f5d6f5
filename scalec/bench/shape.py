"""One kernel at one shape: checked, then timed with its contenders."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from scalec.abi import KernelSpec
from scalec.bench import method
from scalec.bench.contenders import Contender, NoSuchVariantError, Source, contenders
from scalec.bench.contraction import Contraction, contraction, dequantised_result, diff, reference
from scalec.bench.graphs import Graph, Launch, burst, capture, fastest, sustained
from scalec.bench.inputs import Inputs, make_inputs
from scalec.bench.result import OURS, Row
from scalec.errors import DeviceError, ScalecError
from scalec.operations import operations
from scalec.runtime.sequence import Sequence as Several

MAX_DIFF = 1e-4  # rounding a result to bf16 gives about 1.4e-6 (H200, 2026-11-21); one wrong scale far more


SEED = 7
"""Of the first set of inputs."""


@dataclass(frozen=True)
class Effort:
    """How long to measure a shape."""

    rounds: int = method.ROUNDS  # replays of each contender, each after a pause
    sustained_rounds: int = method.SUSTAINED_ROUNDS  # blocks of replays of each contender without any pause; 0 for none
    block_seconds: float = method.BLOCK_SECONDS  # length of such a block


def require_gpu() -> None:
    """Refuses a machine without a GPU that torch can use.

    Raises:
        DeviceError: no GPU.
    """
    if not torch.cuda.is_available():
        raise DeviceError(
            "no CUDA GPU that torch can use", fix="run this on a machine with one; `scalec compile` needs none"
        )


def bench_shape(
    kernel: Any,
    spec: KernelSpec,
    dims: Mapping[str, int],
    *,
    effort: Effort,
    sources: Sequence[Source] = (),
    label: str = "",
    published: Mapping[str, float] | None = None,
) -> Row:
    """Checks and times one kernel.

    Args:
        kernel: called with the operands in the spec's order and `out=`.
        spec: the kernel's.
        dims: a size for every dimension.
        effort: how long to measure.
        sources: of contenders beside torch's.
        label, published: noted in the row.

    Raises:
        ScalecError: a size is missing, or the kernel's result is wrong.
        DeviceError: the driver refused.
    """
    sizes = dict(dims)
    missing = [d for d in spec.dims if d not in sizes]
    if missing:
        raise ScalecError(f"no size for {', '.join(missing)}", fix=f"give --dim {missing[0]}=...")
    first = make_inputs(spec, sizes, SEED)
    what = contraction(spec, sizes) or contraction(spec, sizes, quantised=True)
    expected, most = None if what is None else reference(what, first.values), allowed_diff(first)
    diffs = {}
    if what is not None and expected is not None:
        diffs[OURS] = _check_ours(kernel, spec, what, sizes, first, expected)
    found = contenders(spec, sizes)
    for source in sources:
        found |= source(spec, sizes)
    allowed = {name: usable(name, contender, first, expected, most) for name, contender in found.items()}
    del expected
    count = method.sets_in_rotation(first.input_bytes())
    sets = [first, *(make_inputs(spec, sizes, SEED + i) for i in range(1, count))]
    graphs, chosen = {OURS: capture([ours(kernel, spec, inputs) for inputs in sets])}, {}
    for name, errors in allowed.items():
        if not errors:
            continue
        makes = found[name].variants
        chosen[name], graphs[name] = fastest({variant: [makes[variant](i) for i in sets] for variant in errors})
        error = errors[chosen[name]]
        if error is not None:
            diffs[name] = error
    return Row(
        dims=sizes,
        flops=operations(spec, sizes),
        bytes=first.bytes(),
        schedule="; then ".join(schedules_of(kernel, spec)),
        sets=count,
        timings=burst(graphs, effort.rounds),
        diffs=diffs,
        sustained=_sustained(graphs, effort),
        variants={name: variant for name, variant in chosen.items() if variant},
        label=label,
        published=published or {},
    )


def _sustained(graphs: Mapping[str, Graph], effort: Effort) -> dict[str, Any]:
    return sustained(graphs, effort.sustained_rounds, effort.block_seconds) if effort.sustained_rounds else {}


def schedules_of(kernel: Any, spec: KernelSpec) -> list[str]:
    """The schedule of each launch of a call."""
    return [k.spec.schedule for k in kernel.kernels] if isinstance(kernel, Several) else [spec.schedule]


def allowed_diff(inputs: Inputs) -> float:
    """The largest error of a result: where it is quantised, what its rounding makes. Each element is off by half of an
    eps at most, so the sum of their squares by eps^2 / 4, and the error is half of that."""
    result = next(iter(inputs.outputs.values()))
    return MAX_DIFF + (torch.finfo(result.dtype).eps ** 2 / 8 if result.itemsize == 1 else 0)


def usable(
    name: str, contender: Contender, inputs: Inputs, expected: torch.Tensor | None, most: float = MAX_DIFF
) -> dict[str, float | None]:
    """The error of each variant that accepts the call (each has conditions of its own on sizes) and is right.

    None for an error that nobody can tell. A variant that is left out is warned of, unless there is none such. What a
    contender adds to is afterwards as it was.
    """
    errors: dict[str, float | None] = {}
    for variant, make in contender.variants.items():
        which = f"{name} ({variant})" if variant else name
        start = next(iter(inputs.outputs.values())).clone() if contender.adds else None
        try:
            made = make(inputs)()
            result = torch.as_tensor(made if contender.read is None else contender.read(made))
            torch.cuda.synchronize()
        except NoSuchVariantError:
            continue
        except Exception as error:  # whatever another library raises: the others are measured without it
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            warnings.warn(f"{which} is left out: {reason}", stacklevel=3)
            continue
        found = None
        if contender.checked and expected is not None:
            found = diff(result, expected if start is None else expected + start)
        if start is not None:
            next(iter(inputs.outputs.values())).copy_(start)
        if found is None or found <= most:
            errors[variant] = found
        else:
            warnings.warn(f"{which} is left out: its result is wrong, diff {found:.2e}", stacklevel=3)
    return errors


def ours(kernel: Any, spec: KernelSpec, inputs: Inputs) -> Launch:
    """A launch of a kernel of ours on one set of inputs."""
    arguments = [inputs.values[t.name] for t in spec.operands]
    outputs = [inputs.outputs[r.name] for r in spec.results]
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)

    def launch() -> torch.Tensor:
        kernel(*arguments, out=out)
        return outputs[0]

    return launch


def _check_ours(
    kernel: Any, spec: KernelSpec, what: Contraction, dims: dict[str, int], inputs: Inputs, product: torch.Tensor
) -> float:
    """The error of the kernel's result; what it adds to is as large as the product, so that it is seen if it is lost.

    Raises:
        ScalecError: the result is wrong.
    """
    (out, *scales), most = inputs.outputs.values(), allowed_diff(inputs)
    expected = product
    if what.accumulates:
        out *= product.std()
        expected = product + out
    else:
        for t in (out, *scales):
            t.fill_(float("nan") if t.dtype.is_floating_point else 0x7F)
    ours(kernel, spec, inputs)()
    found = diff(dequantised_result(spec, dims, out, *scales) if scales else out, expected)
    if not found <= most:
        raise ScalecError(
            f"the kernel's result is wrong at {dims}: it is not timed",
            got=f"diff {found:.2e}",
            expected=f"at most {most:.0e}",
        )
    return found
