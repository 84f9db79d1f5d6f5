"""`scalec run`: a program on made-up data, on the GPU or the emulator, against the reference."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite, prod
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

DEFAULT_SIZE, DEFAULT_K = 192, 256
"""Of a dimension that was given no size, in a result or summed over: seconds in the emulator, with a tail of a tile of
128 in each result, and whole blocks and rows that the copies of every type can take."""

EMULATED_RATE = 1e8
"""Multiply-adds of tensor instructions that the emulator does in a second, about: 0.7e8 (sm_120a, sm_100a) to 1.1e8
(sm_90a) at 512x512x1024 with scales of 1x128 and 128x128, on one core, 2026-11-23."""

WORTH_SAYING = 20
"""Seconds of emulation that are announced before they begin."""


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


def run_program(request: Request, seed: int, *, verbose: bool = False, as_json: bool = False) -> None:
    """Compiles, runs, checks, times; prints a line for each result, or one JSON object.

    A dimension without a size stays dynamic in the kernel, and has DEFAULT_SIZE or DEFAULT_K in the run.

    Raises:
        ScalecError: a refusal of the compiler, a wrong result.
        DeviceError: a GPU of another kind than the target, or a mistake that the emulator found in the kernel.
    """
    import scalec

    given = fixed(request.dims)
    kernel = scalec.compile(request.source, target=request.target, dims=given, schedule=dict(request.schedule) or None)
    spec = kernel.spec
    for dropped in spec.dropped:
        note_dropped(dropped)
    kept = {extent.dim for result in spec.results for extent in result.shape}
    dims = {name: given.get(name, DEFAULT_SIZE if name in kept else DEFAULT_K) for name in spec.dims}
    _refuse_too_large(spec, dims)
    request = replace(request, dims=dims)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the next line says where the kernel runs
        device = kernel.load().device
    timed = hasattr(device, "elapsed")
    note(f"{spec.entry} on {device.name}, {', '.join(f'{name} = {size}' for name, size in dims.items())}")
    if verbose:
        note(f"schedule: {spec.schedule}")
    if not timed and (estimate := emulation_seconds(spec, dims)) >= WORTH_SAYING:
        note(f"the emulator will take about {_duration(estimate)}; smaller sizes take less, e.g. --dim m=200")
    values, expected = made_up(request, seed)
    arguments, outputs = upload(device, spec, values, dims)
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)
    if timed:
        kernel(*arguments, out=out)
    else:
        with progress_bar(device, spec, dims):
            kernel(*arguments, out=out)
    checks = compare({r.name: values_of(r, o) for r, o in zip(spec.results, outputs, strict=True)}, expected)
    seconds = time_launches(kernel, device, arguments, outputs) if timed else None
    measured = Measured(seconds, 2 * prod(dims[d] for d in spec.flops), moved_bytes(spec, arguments, outputs))
    if as_json:
        print(json.dumps(document(spec, device.name, dims, seed, checks, measured), indent=1))
    else:
        report(checks, measured)
    wrong = [c for c in checks if not c.ok]
    if wrong:
        raise ScalecError(
            f"wrong result: {', '.join(c.name for c in wrong)}",
            got=", ".join(f"diff {c.diff:.2e} and max error {c.max_error:.2e}" for c in wrong),
            expected=f"at most {wrong[0].limit:.1e} and {wrong[0].error_limit:.1e}",
        )


def _refuse_too_large(spec: KernelSpec, dims: Mapping[str, int]) -> None:
    """Refuses sizes whose data, in the reference's float64, are more than this machine's memory.

    Raises:
        ScalecError: with both numbers.
    """
    if not hasattr(os, "sysconf"):  # Windows: numpy says so itself
        return
    needed = 8 * sum(prod(e.value(dims) for e in t.shape) for t in (*spec.operands, *spec.results))
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        sizes = ", ".join(f"{name} = {size}" for name, size in dims.items())
        raise ScalecError(
            f"{sizes}: the reference needs more memory than there is",
            got=f"{needed / 1e9:.0f} GB of operands and results in float64",
            expected=f"at most {there / 1e9:.0f} GB",
            fix="smaller sizes, e.g. --dim m=200",
        )


def tensor_operations(spec: KernelSpec, dims: Mapping[str, int]) -> int:
    """Multiply-adds of a launch's tensor instructions: of whole tiles along M and N, and of K as it is."""
    extents = {dim: -(-dims[dim] // tile) * tile for dim, tile, _ in spec.launch.tiles}
    return prod(extents.get(dim, dims[dim]) for dim in spec.flops)


def emulation_seconds(spec: KernelSpec, dims: Mapping[str, int]) -> float:
    """About how long the emulator takes for a launch."""
    return tensor_operations(spec, dims) / EMULATED_RATE


def _duration(seconds: float) -> str:
    """For people: "40 s", "5 min", "3 h"."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


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
def progress_bar(device: Any, spec: KernelSpec, dims: Mapping[str, int]) -> Iterator[None]:
    """Shows on stderr, where that is a terminal, what part of the tensor instructions' work the emulator has done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    total = tensor_operations(spec, dims)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(spec.entry, total=total)
        device.watch(lambda stats: bar.update(task, completed=min(stats.counts["tensor operations"], total)))
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
    laid_out = {scales for scales, _ in expected.scales.values()}  # the others are row by row, maybe to a byte's end
    got = {n: x if n in laid_out else x[..., : expected[n].shape[-1]] for n, x in got.items()}
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


@dataclass(frozen=True)
class Measured:
    """What one launch did: seconds (None where time says nothing, as on the emulator), FLOP, bytes moved."""

    seconds: float | None
    flop: int
    moved: int

    def rates(self) -> dict[str, float]:
        """Time and rates by name, in the units that the name says; nothing where there is no time."""
        if self.seconds is None:
            return {}
        return {
            "us": self.seconds * 1e6,
            "TFLOP/s": self.flop / self.seconds / 1e12,
            "GB/s": self.moved / self.seconds / 1e9,
        }


def report(checks: list[Checked], measured: Measured) -> None:
    """A line for each result, on stdout: both errors, each with the most that is accepted, the rates, the verdict."""
    rates = measured.rates()
    numbers = ("diff", "at most", "max error", "at most", *rates)
    table = plain_table("result", *numbers, "", right=numbers)
    for i, c in enumerate(checks):
        errors = (f"{c.diff:.2e}", f"{c.limit:.1e}", f"{c.max_error:.2e}", f"{c.error_limit:.1e}")
        times = [f"{value:.{1 if name == 'us' else 0}f}" if i == 0 else "" for name, value in rates.items()]
        table.add_row(c.name, *errors, *times, "PASS" if c.ok else "FAIL")
    print_table(table)


def document(
    spec: KernelSpec, device: str, dims: Mapping[str, int], seed: int, checks: list[Checked], measured: Measured
) -> dict[str, Any]:
    """What `--json` prints. Errors that are not finite are null, as JSON has no such numbers."""

    def number(value: float) -> float | None:
        return value if isfinite(value) else None

    return {
        "program": spec.source,
        "target": spec.target,
        "device": device,
        "dims": dict(dims),
        "seed": seed,
        "schedule": spec.schedule,
        "results": [
            {
                "name": c.name,
                "diff": number(c.diff),
                "diff_at_most": c.limit,
                "max_error": number(c.max_error),
                "max_error_at_most": c.error_limit,
                "pass": c.ok,
            }
            for c in checks
        ],
        **measured.rates(),
        "pass": all(c.ok for c in checks),
    }
