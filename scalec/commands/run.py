"""`scalec run`: a program on made-up data, on the GPU or the emulator, against the reference."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from math import isfinite, prod
from typing import Any

from scalec.abi import KernelSpec
from scalec.checking.compare import Checked, compare
from scalec.checking.launch import made_up, moved_bytes, tensor_operations, time_launches, touched, upload, values_of
from scalec.commands.compile import Request
from scalec.commands.output import note, note_dropped, plain_table, print_table
from scalec.errors import ScalecError
from scalec.operations import operations
from scalec.sizes import fixed

DEFAULT_SIZE, DEFAULT_K, DEFAULT_OUTER = 192, 256, 3
"""Of a dimension that was given no size: of a tile or a result, summed over, or one that no tile runs along, as that of
groups, also where an index of whole blocks (`e[m/128]`) alone reaches them: seconds in the emulator, with a tail of a
tile of 128 in each result, and whole blocks and rows that the copies of every type can take."""

EMULATED_RATE = 1e8
"""Multiply-adds of tensor instructions that the emulator does in a second, about: 0.7e8 (sm_120a, sm_100a) to 1.1e8
(sm_90a) at 512x512x1024 with scales of 1x128 and 128x128, on one core, 2026-11-23."""

WORTH_SAYING = 20
"""Seconds of emulation that are announced before they begin."""


def run_program(request: Request, seed: int, *, verbose: bool = False, as_json: bool = False) -> None:
    """Compiles, runs, checks, times; prints a line for each result, or one JSON object.

    A dimension without a size stays dynamic in the kernel, and has the size of `sizes_of_run` in the run.

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
    dims = sizes_of_run(spec, given)
    _refuse_too_large(spec, dims)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the next line says where the kernel runs
        device = kernel.load().device
    timed = hasattr(device, "elapsed")
    note(f"{spec.entry} on {device.name}, {', '.join(f'{name} = {size}' for name, size in dims.items())}")
    if verbose:
        note(f"schedule: {spec.schedule}")
    if not timed and (estimate := tensor_operations(spec, dims) / EMULATED_RATE) >= WORTH_SAYING:
        note(f"the emulator will take about {_duration(estimate)}; smaller sizes take less, e.g. --dim m=200")
    values, expected = made_up(request.source, dims, seed)
    arguments, outputs = upload(device, spec, values, dims)
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)
    if timed:
        kernel(*arguments, out=out)
    else:
        with progress_bar(device, spec, dims):
            kernel(*arguments, out=out)
    checks = compare({r.name: values_of(r, o) for r, o in zip(spec.results, outputs, strict=True)}, expected)
    for r, o in zip(spec.results, outputs, strict=True):
        if changed := touched(r, o, expected.reached[r.name], values):
            raise ScalecError(f"{changed} elements of {r.name} have changed that the program does not write")
    seconds = time_launches(kernel, device, arguments, outputs) if timed else None
    measured = Measured(seconds, operations(spec, dims), moved_bytes(spec, arguments, outputs))
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


def sizes_of_run(spec: KernelSpec, given: Mapping[str, int]) -> dict[str, int]:
    """A size of each dimension: the one given, or DEFAULT_SIZE, DEFAULT_K or DEFAULT_OUTER."""
    kept = {dim for result in spec.results for extent in result.shape for dim in extent.names}
    kept |= {dim for dim, _, _ in spec.launch.tiles}
    steps = [*((dim, tile) for dim, tile, _ in spec.launch.tiles), *chain(spec.launch.sums, *spec.launch.added)]
    outer = {dim for dim, step in steps if step == 1}
    shapes = {t.name: t.shape for t in (*spec.operands, *spec.results)}
    for lookup in (x for reads in spec.reads for x in reads.lookups):
        blocks = any(c.divisor > 1 for c in lookup.entry.coords)
        (outer if blocks else kept).update(shapes[lookup.tensor][lookup.axis].names)

    def size(name: str) -> int:
        return DEFAULT_OUTER if name in outer else DEFAULT_SIZE if name in kept else DEFAULT_K

    return {name: given.get(name, size(name)) for name in spec.dims}


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


def _duration(seconds: float) -> str:
    """For people: "40 s", "5 min", "3 h"."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


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


@dataclass(frozen=True)
class Measured:
    """What one launch did: seconds (None where time says nothing, as on the emulator), FLOP (0 where the spec has no
    `flops`), bytes moved."""

    seconds: float | None
    flop: int
    moved: int

    def rates(self) -> dict[str, float]:
        """Time and rates by name, in the units that the name says; nothing where there is no time."""
        if self.seconds is None:
            return {}
        return {
            "us": self.seconds * 1e6,
            **({"TFLOP/s": self.flop / self.seconds / 1e12} if self.flop else {}),
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
