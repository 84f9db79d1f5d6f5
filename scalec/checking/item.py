"""Runs one item of the self-test: compiles, launches twice between guards, compares with the reference, or times."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalec.checking.programs import Item
from scalec.errors import DeviceError, ScalecError, UnsupportedError

FAILURES = ("wrong", "unequal", "overwritten", "refused", "device", "error", "crash", "timeout")
"""Kinds of results that are failures; the others are "pass", "timed", and "unsupported" (the target has no such
program)."""


@dataclass
class Result:
    """What became of an item."""

    # "pass", "timed", "unsupported", or one of FAILURES: "wrong" numbers, two launches "unequal" (or bytes that nobody
    # wrote), bytes beside tensors or arguments "overwritten", "refused" by the compiler, an error of the "device" or a
    # finding of the emulator, another "error", "crash" or "timeout" of its process.
    kind: str
    message: str = ""  # what is wrong
    chosen: str = ""  # the schedule of the kernel
    error: float = 0.0  # the largest of max|x-y| / max|y| over results and launches
    seconds: dict[str, float] = field(default_factory=dict)  # host seconds by stage
    measured: float | None = None  # microseconds of a launch on the GPU
    predicted: float | None = None  # microseconds from the target's documented rates (scalec.model.predict)

    @property
    def failed(self) -> bool:
        return self.kind in FAILURES


class _Failed(Exception):
    def __init__(self, kind: str, message: str) -> None:
        self.kind, self.message = kind, message
        super().__init__(message)


def spent(result: Result) -> bool:
    """Whether the process that gave this result is not to be used again: after some errors of a GPU nothing runs."""
    return result.failed


def run_item(item: Item) -> Result:
    """Whatever happens is a result."""
    result = Result("timed" if item.timed else "pass")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a user is told of emulators and dropped schedules
            (_time if item.timed else _check)(item, result)
    except _Failed as error:
        result.kind, result.message = error.kind, error.message
    except UnsupportedError as error:
        result.kind, result.message = "refused" if item.schedule else "unsupported", _line(error)
    except DeviceError as error:
        result.kind, result.message = "device", _line(error)
    except ScalecError as error:
        result.kind, result.message = "refused", _line(error)
    except Exception as error:
        result.kind, result.message = "error", f"{type(error).__name__}: {error}"
    return result


def _line(error: ScalecError) -> str:
    return " | ".join(line.strip() for line in str(error).splitlines())


def _compile(item: Item, result: Result, dims: Mapping[str, int]) -> Any:
    import scalec

    start = time.perf_counter()
    source = item.source + (f"{',' if ' with ' in item.source else ' with'} {item.schedule}" if item.schedule else "")
    kernel = scalec.compile(source, target=item.target, dims=dims)
    result.chosen = kernel.spec.schedule
    result.seconds["compile"] = time.perf_counter() - start
    return kernel


def _check(item: Item, result: Result) -> None:
    """Every launch, twice, over results of different bytes."""
    import numpy as np

    from scalec.checking.compare import compare
    from scalec.checking.guarded import FILLS, Guarded, between_guards
    from scalec.checking.launch import made_up, values_of

    known = {name: size for name, size in item.launches[0].items() if name != "m"}
    kernel = _compile(item, result, known)
    device, spec = kernel.load().device, kernel.spec
    for sizes in item.launches:
        start = time.perf_counter()
        values, expected = made_up(item.source, sizes, seed=1)
        result.seconds["reference"] = result.seconds.get("reference", 0.0) + time.perf_counter() - start
        start = time.perf_counter()
        runs: list[tuple[dict[str, Any], dict[str, bytes]]] = []
        for fill in FILLS:
            given, outs = between_guards(device, spec, values, sizes, fill)
            kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))
            device.synchronize(0)
            for x in (x for x in given if isinstance(x, Guarded)):
                _unchanged(x.changed(), sizes, f"{x.spec.name}, which is only read")
            reached = {r.name: expected.reached[r.name] if r.given else None for r in spec.results}
            for x in outs:
                _unchanged(x.changed(sizes, reached[x.spec.name]), sizes, f"{x.spec.name} around and between its rows")
            made = {x.spec.name: values_of(x.spec, x) for x in outs}
            runs.append((made, {x.spec.name: x.contents(sizes, reached[x.spec.name]) for x in outs}))
        result.seconds["launch"] = result.seconds.get("launch", 0.0) + time.perf_counter() - start
        (made, first), (_, second) = runs
        for name in first:
            if first[name] != second[name]:
                raise _Failed("unequal", f"{_text(sizes)}: two launches differ in {name}, or do not write all of it")
        with np.errstate(all="ignore"):
            checks = compare(made, expected)
        result.error = max([result.error, *(c.max_error for c in checks)])
        for c in checks:
            if not c.ok:
                raise _Failed(
                    "wrong",
                    f"{_text(sizes)}: {c.name} has diff {c.diff:.1e} and max error {c.max_error:.1e}, at most"
                    f" {c.limit:.1e} and {c.error_limit:.1e} are accepted",
                )


def _unchanged(bytes_: int, sizes: Mapping[str, int], what: str) -> None:
    if bytes_:
        raise _Failed("overwritten", f"{_text(sizes)}: {bytes_} bytes of {what} have changed")


def _text(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def _time(item: Item, result: Result) -> None:
    """One launch after another on the same inputs, beside the prediction."""
    from scalec import frontend, reference
    from scalec.checking.launch import time_launches, upload
    from scalec.ir import context as contexts
    from scalec.tuning.explain import explain

    sizes = item.launches[0]
    kernel = _compile(item, result, sizes)
    with contexts.context():
        values = reference.make(frontend.build(item.source, sizes), sizes, 1)
    device = kernel.load().device
    arguments, outputs = upload(device, kernel.spec, values, sizes)
    kernel(*arguments, out=outputs[0] if len(outputs) == 1 else tuple(outputs))
    result.measured = 1e6 * time_launches(kernel, device, arguments, outputs)
    (prediction,) = explain(item.source, item.target, sizes, {}).predictions
    result.predicted = 1e6 * prediction.seconds
