"""`scalec run`: a program on made-up data, on the GPU or the emulator, against the reference."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from scalec.abi import KernelSpec, TensorSpec
from scalec.commands.compile import Request
from scalec.commands.output import note, note_dropped, plain_table, print_table
from scalec.errors import ScalecError
from scalec.sizes import fixed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scalec.reference import Results
    from scalec.runtime.array import DeviceArray
    from scalec.runtime.kernel import Kernel

LAUNCHES = 20
"""Timed launches, one after another, on the same inputs."""

MAX_ERROR = 0.02
"""Largest max|x-y| / max|y|: one wrong element or row shows here, not in diff. Rounding to bf16 gives 2^-9 at most."""

MAX_DIFF = 1e-5
"""Largest diff of a result whose own rounding is smaller; rounding to bf16 alone gives (2^-9)^2 / 3, about 1.3e-6."""


@dataclass(frozen=True)
class Checked:
    """One result beside its reference.

    Attributes:
        name: of the result.
        diff: 1 - 2<x,y>/(|x|^2+|y|^2).
        max_error: max|x-y| / max|y|.
        limit: the largest diff accepted.
        error_limit: the largest max_error accepted.
    """

    name: str
    diff: float
    max_error: float
    limit: float
    error_limit: float = MAX_ERROR

    @property
    def ok(self) -> bool:
        """Whether the result is right."""
        return self.diff <= self.limit and self.max_error <= self.error_limit


def run_program(request: Request, seed: int) -> None:
    """Compiles, runs, checks, times; prints a line for each result.

    Raises:
        ScalecError: a refusal of the compiler, a size that is missing, a wrong result.
        DeviceError: a GPU of another kind than the target, or a mistake that the emulator found in the kernel.
    """
    import scalec

    dims = fixed(request.dims)
    kernel = scalec.compile(request.source, target=request.target, dims=dims, schedule=dict(request.schedule) or None)
    spec = kernel.spec
    for dropped in spec.dropped:
        note_dropped(dropped)
    missing = [name for name in spec.dims if name not in dims]
    if missing:
        raise ScalecError(
            f"no size for {', '.join(missing)}", fix=f"give --dim {','.join(f'{name}=...' for name in missing)}"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the next line says where the kernel runs
        device = kernel.load().device
    note(f"{spec.entry} on {device.name}: {spec.schedule}")
    values, expected = made_up(request, seed)
    arguments, outputs = upload(device, spec, values, dims)
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)
    timed = hasattr(device, "elapsed")
    if timed:
        kernel(*arguments, out=out)
    else:
        with progress_bar(device, spec.entry):
            kernel(*arguments, out=out)
    checks = compare({r.name: values_of(r, o) for r, o in zip(spec.results, outputs, strict=True)}, expected)
    seconds = time_launches(kernel, device, arguments, outputs) if timed else None
    report(spec, dims, checks, seconds, moved_bytes(spec, arguments, outputs))
    wrong = [c for c in checks if not c.ok]
    if wrong:
        raise ScalecError(
            f"wrong result: {', '.join(c.name for c in wrong)}",
            got=", ".join(f"diff {c.diff:.2e} and max error {c.max_error:.2e}" for c in wrong),
            expected=f"at most {wrong[0].limit:.0e} and {wrong[0].error_limit:.0e}",
        )


def made_up(request: Request, seed: int) -> tuple[Mapping[str, Any], Results]:
    """(arguments, results) by name: data that shows a wrong scale index, and what the reference makes of it."""
    from scalec import reference
    from scalec.ir import context as contexts

    sizes = fixed(request.dims)
    text = request.compile("scale").texts["scale"]
    with contexts.context():
        module = contexts.parse(text)
        values = reference.make(module, sizes, seed)
        return values, reference.run(module, values, dims=sizes, exact=True)


@contextmanager
def progress_bar(device: Any, what: str) -> Iterator[None]:
    """Shows on stderr, where that is a terminal, how many CTAs the emulator has done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("CTAs"))
    console = Console(stderr=True)
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)
        device.watch(lambda done, total: bar.update(task, completed=done, total=total))
        try:
            yield
        finally:
            device.watch(None)


def upload(
    device: Any, spec: KernelSpec, values: Mapping[str, Any], dims: Mapping[str, int]
) -> tuple[list[Any], list[DeviceArray]]:
    """(arguments, outputs) on the device. An output that is an input too starts as that, any other as NaN bytes."""
    import numpy as np

    from scalec.reference import storage
    from scalec.runtime.stored import stored_shape

    def given(t: TensorSpec) -> DeviceArray:
        return _placed(device, t, storage(values[t.name]))

    def fresh(t: TensorSpec) -> DeviceArray:
        return _placed(device, t, np.full(stored_shape(t, dims), 0xFF, np.uint8), unset=True)

    arguments = [float(values[t.name]) if t.scalar else given(t) for t in spec.operands]
    return arguments, [given(r) if r.inout else fresh(r) for r in spec.results]


def _placed(device: Any, t: TensorSpec, data: NDArray[Any], *, unset: bool = False) -> DeviceArray:
    """`data`, as stored, on the device in the layout of `t`; `unset` fills with 0xff.

    Outer strides are multiples of its alignment, but tiles (layout blocked) have no gaps.
    """
    import numpy as np

    from scalec.runtime.array import DeviceArray
    from scalec.runtime.stored import align_up, itemsize, memory_order

    item, rank = itemsize(t.dtype), data.ndim
    order = list(range(rank)) if t.layout == "blocked" else list(reversed(memory_order(t)))
    extents = [data.shape[axis] for axis in order]  # as stored, innermost last
    if rank > 1 and t.layout != "blocked":
        extents[-1] = align_up(extents[-1], max(t.align // item, 1))
    stored = np.full([*extents, item], 0xFF, np.uint8)
    if not unset:
        raw = np.frombuffer(data.transpose(order).tobytes(), np.uint8)
        filled = stored[..., : data.shape[order[-1]], :] if rank else stored
        filled[...] = raw.reshape(filled.shape)
    steps = [prod(extents[i + 1 :]) for i in range(rank)]
    strides = tuple(steps[order.index(axis)] for axis in range(rank))
    made = DeviceArray(device, data.shape, t.dtype, strides)
    span = (sum((e - 1) * s for e, s in zip(data.shape, strides, strict=True)) + 1) * item
    device.upload(made.pointer, stored.tobytes()[:span], made.stream)
    return made


def values_of(t: TensorSpec, made: DeviceArray) -> NDArray[Any]:
    """A result on the host, one element an entry."""
    from scalec.formats import ELEMENT_TYPES
    from scalec.reference import decode

    return decode(made.numpy(), t.dtype) if ELEMENT_TYPES[t.dtype].bits < 8 else made.numpy()


def compare(got: Mapping[str, NDArray[Any]], expected: Results) -> list[Checked]:
    """Each result beside its reference; the scales of a quantised one, one a block, beside its own.

    Quantised values count what they stand for in units of the reference's scale: blocks of small scale as much as
    others, and right where a sum that is rounded differently took a block's largest magnitude across a power of two, to
    another scale, and all its values with it.
    """
    import numpy as np

    from scalec.reference import decode
    from scalec.reference.packing import from_layout
    from scalec.reference.quantize import block_shape, expand_scales, scale_shape, spread

    checks = {}
    for name, (scales, g) in expected.scales.items():
        values = got[name]
        block = block_shape(g, values.shape)
        counted = values.astype(np.float64) * expand_scales(got[scales], g, values.shape)
        unit = np.broadcast_to(spread(expected[scales], block, values.shape), values.shape)
        np.divide(counted, unit, out=counted, where=unit != 0)
        checks[name] = check(name, counted, expected[name], values.dtype)
        each = got[scales] if g.layout == "packed" else decode(got[scales], g.type)
        each = from_layout(each, g.layout, scale_shape(block, values.shape), g.type)
        checks[scales] = check(scales, each, expected[scales])
    return [checks.get(name) or check(name, values, expected[name]) for name, values in got.items()]


def check(name: str, got: NDArray[Any], expected: NDArray[Any], dtype: Any = None) -> Checked:
    """Compares a result with its reference, which is not rounded; what its own type (or `dtype`) rounds away is allowed
    for. Beyond the type's largest number the reference saturates, or where the type's conversion gives infinity, both
    count as the power of two that comes next."""
    import ml_dtypes
    import numpy as np

    from scalec import reference

    own = np.dtype(got.dtype if dtype is None else dtype)
    try:
        facts = ml_dtypes.finfo(own)
        eps, most = float(facts.eps), float(facts.max)
        if facts.bits > 8:
            most = 2.0 ** (int(np.frexp(most)[1]))
            got = np.clip(got.astype(np.float64), -most, most)
        expected = np.clip(expected, -most, most)
    except ValueError:  # an integer type
        eps = 0.0
        expected = np.clip(expected, np.iinfo(own).min, np.iinfo(own).max)
    # rounding to nearest is off by eps/4 to eps/2 of a value at most; twice the mean square of eps/2
    limit = max(MAX_DIFF, eps**2 / 6)
    return Checked(name, reference.diff(got, expected), reference.max_error(got, expected), limit, max(MAX_ERROR, eps))


def time_launches(kernel: Kernel, device: Any, arguments: list[Any], outputs: list[DeviceArray]) -> float:
    """Seconds of one launch, the mean of LAUNCHES in a row. The inputs stay in L2 where they fit: see `bench`."""
    loaded = kernel.load()
    plan = next(reversed(loaded.plans.values()))  # that of the call just made
    addresses = tuple(t.pointer for t in [*arguments, *outputs] if not isinstance(t, float))
    scalars = tuple(a for a in arguments if isinstance(a, float))
    launch = plan.launcher(addresses, scalars, loaded.workspaces.of(0, plan.workspace) if plan.workspace[0] else None)
    launch(0)
    start = device.record(0)
    for _ in range(LAUNCHES):
        launch(0)
    return device.elapsed(start, device.record(0)) / LAUNCHES


def moved_bytes(spec: KernelSpec, arguments: list[Any], outputs: list[DeviceArray]) -> int:
    """What one launch must move: operands, and results that are added to, read once, and all results written once."""
    read = [o for r, o in zip(spec.results, outputs, strict=True) if r.inout]
    return sum(t.nbytes for t in [*arguments, *read, *outputs] if hasattr(t, "nbytes"))


def report(spec: KernelSpec, dims: Mapping[str, int], checks: list[Checked], seconds: float | None, moved: int) -> None:
    """A line for each result, on stdout; the time is that of the kernel, None where it says nothing (emulated)."""
    time: tuple[str, ...] = ()
    numbers = ("diff", "max error")
    if seconds is not None:
        numbers += ("us", "TFLOP/s", "GB/s")
        flops = 2 * prod(dims[d] for d in spec.flops)
        time = (f"{seconds * 1e6:.1f}", f"{flops / seconds / 1e12:.0f}", f"{moved / seconds / 1e9:.0f}")
    table = plain_table("result", *numbers, "", right=numbers)
    for i, c in enumerate(checks):
        verdict = "" if c.ok else "WRONG"
        table.add_row(c.name, f"{c.diff:.2e}", f"{c.max_error:.2e}", *(("",) * len(time) if i else time), verdict)
    print_table(table)
