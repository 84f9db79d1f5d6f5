"""Runs a case: compiles it for the emulator, launches it, and judges what it wrote."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, prod
from random import Random
from typing import Any
from unittest import mock

import numpy as np

from scalec import reference
from scalec.abi import KernelSpec, TensorSpec
from scalec.checking.guarded import written
from scalec.emulator.findings import Finding
from scalec.emulator.stats import Stats
from scalec.errors import ArgumentError, DeviceError, ScalecError, ScheduleError, SourceError, UnsupportedError
from scalec.formats import WORDS
from scalec.frontend import build
from scalec.ir import context
from scalec.lowering import ptxas
from scalec.runtime import emulated
from scalec.runtime.array import DeviceArray
from scalec.runtime.kernel import Kernel
from scalec.runtime.sequence import Sequence
from scalec.runtime.stored import itemsize, laid_out, memory_order, stored_shape
from tests.fuzz import bounds, data, launches
from tests.fuzz.case import Case
from tests.fuzz.launches import Made
from tests.fuzz.written import Alone, Written

Drawn = Case | Written

MOST = 300_000
"""Instructions of a warp, beyond which it is taken for endless, for each walk over the tiles of M and N: kernels of
these sizes execute a hundredth."""


LARGEST = 64 * 128 * 128
"""Elements of all tiles of a launch, times each 128 of what is summed over, beyond which the emulator takes minutes:
tiles may run along a short index. 2^20 take it 6 s, and 25 s where operands are converted."""

HARMLESS = ("ok", "refused", "found", "escape", "elsewhere")
"""Kinds of outcomes that are no failures; "found" and "escape" are what became of a fault put into a kernel,
"elsewhere" is a program of another target than that of this machine's GPU."""

REFUSALS = (SourceError, UnsupportedError, ScheduleError, ArgumentError)
"""What a program may hear; an IRError is none of them."""


@dataclass
class Outcome:
    """What became of a seed."""

    # "ok", "refused" (an error of ours), or a failure: "default" (the compiler's own schedule was refused), "finding",
    # "wrong", "reference" (it contradicts `bounds`), "unwritten", "gap", "changed", "unequal" (two runs differ), "rows"
    # (not invariant), "exception", "timeout", "crash".
    kind: str
    message: str = ""  # of the error, or what is wrong and where
    case: Drawn | None = None  # as it ran, where it did: fields that were refused are gone
    refusals: list[str] = field(default_factory=list)  # messages of what was refused on the way
    seconds: dict[str, float] = field(default_factory=dict)  # CPU time by stage
    exact: int = 0  # how many of the results' elements had to be equal bit for bit; `checked` of how many
    loose: int = 0
    checked: int = 0

    @property
    def failed(self) -> bool:
        return self.kind not in HARMLESS

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.process_time() - start


class Failed(Exception):
    """A failure, by its kind."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind, self.message = kind, message
        super().__init__(message)


@dataclass
class Launched:
    """A launch that the emulator has run and `compare` has judged: what another device needs to run the same."""

    case: Drawn  # the case
    made: Made  # the kernel, or those of several launches
    values: dict[str, Any]  # the tensors by name, as `data.make` makes them
    sizes: dict[str, int]  # of this launch
    # raises Failed where results (by name, as stored) are not what they may be.
    compare: Callable[[dict[str, np.ndarray]], None]
    # runs the launch in the emulator with a way in which tensor cores sum ("exact", "hopper").
    emulate: Callable[[str], dict[str, np.ndarray]]
    kept: dict[str, Any]  # what a device keeps for the kernel's other launches
    found: Outcome  # where times are counted
    stats: Stats | None  # what the emulator counted in the last run that had anything to do

    @property
    def spec(self) -> KernelSpec:
        """The kernel's."""
        assert self.made.spec is not None
        return self.made.spec


@contextmanager
def without_ptxas() -> Iterator[None]:
    """Ends compilations at the PTX: the emulator needs no more, and ptxas takes longer than all else."""
    none = ptxas.Assembled(b"", 0)
    with mock.patch.object(ptxas, "assemble", return_value=none):
        yield


def check(
    case: Drawn,
    change: Callable[[str], str] = str,
    most: int = MOST,
    beside: Callable[[Launched], None] | None = None,
    assembled: bool = False,
    runs: int = 2,
    made: Made | None = None,
    largest: float = inf,
) -> Outcome:
    """Compiles, launches and judges; whatever happens is an outcome. A field of the schedule that is refused is left
    out, and the rest tried again. `change` puts a fault into the PTX; `most` instructions end a warp; `beside` runs
    each launch elsewhere too, and raises Failed; `assembled`: its kernel has machine code; the first launch `runs`
    times, in another order each. `made`: the case's kernel, else it is compiled. Launches whose tiles have more than
    `largest` elements are left out."""
    found = Outcome("ok", case=case)
    if beside is None and change is str:
        from tests.fuzz import gpu

        if gpu.wanted(case.target):
            beside, assembled = gpu.beside, True
    try:
        with nullcontext() if assembled else without_ptxas():
            _check(case, found, change, most, beside, runs, made, largest)
    except Failed as error:
        found.kind, found.message = error.kind, error.message
    except ScalecError as error:  # a program that is refused is told so; others have failed on their way
        found.kind = "refused" if isinstance(error, REFUSALS) else "exception"
        found.message = short(error)
        found.refusals += [found.message] * (not found.failed)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.rpartition('scalec/')[2]}:{last.lineno}"
        found.kind, found.message = "exception", f"{type(error).__name__} at {place}: {error}"
    return found


def short(error: ScalecError) -> str:
    """An error in one line, without its place."""
    notes = "; ".join(x for x in (error.got, error.expected) if x)
    return f"{type(error).__name__}: {error.message}" + f" ({notes})" * bool(notes)


def general(message: str) -> str:
    """A message without its numbers: what refusals are counted by."""
    return re.sub(r"\d+(\.\d+)?", "#", message)


def compiled(case: Drawn, found: Outcome, sizes: dict[str, int]) -> Made:
    schedule = dict(case.schedule)
    rng = np.random.default_rng(case.seed)
    while True:
        try:
            with found.timed("compile"):
                made = launches.compiled(case.text(), case.target, case.dims(sizes), schedule)
            found.case = case.but(schedule=schedule)
            return made
        except UnsupportedError as error:
            if isinstance(error.__cause__, ScheduleError):
                raise Failed("default", short(error)) from error
            raise
        except ScheduleError as error:
            if not schedule:
                raise Failed("default", short(error)) from error
            found.refusals.append(short(error))
            named = [name for name in sorted(schedule) if re.search(rf"\b{name}\b", short(error))]
            del schedule[str(rng.choice(named or sorted(schedule)))]


def _check(
    case: Drawn,
    found: Outcome,
    change: Callable[[str], str],
    most: int,
    beside: Callable[[Launched], None] | None,
    runs: int,
    made: Made | None,
    largest: float,
) -> None:
    made = made or compiled(case, found, case.launches[0])
    spec = made.spec
    assert spec is not None
    device = emulated.EmulatedDevice(case.target)
    device.checks = False  # wrong indices are drawn too: nothing is written outside the result
    device.sms = case.sms
    walks = max(prod(sizes[d] for d in sizes if d not in "mnk") for sizes in case.launches)
    device.options = replace(device.options, sms=case.sms, max_instructions=most * max(1, walks))
    kernel = launches.called(made, device, change)
    kept: dict[str, Any] = {}
    with found.timed("load"):
        try:
            kernel.load(device)
        except DeviceError as error:
            raise Failed("finding", f"load: {error.__cause__ or error}") from error
    for launch, sizes in enumerate(case.launches):
        if (large := _elements(case, spec, sizes) > largest) and launch:
            continue
        if large:
            found.kind, found.message = "refused", "the emulator would take minutes for so many tiles"
            found.refusals.append(found.message)
            return
        with found.timed("reference"), context.context():
            module = build(case.text(), {d: n for d, n in sizes.items() if n})
            values = data.make(case, module, launch)
            expected = reference.run(module, values, dims=sizes, exact=True)
        with found.timed("bounds"):
            bounded = case.bounded(sizes, values)
        results = [_run(kernel, device, case, values, sizes, found, again) for again in range(1 if launch else runs)]
        compare = partial(_compare_all, case, sizes, values, bounded, expected, found)
        with found.timed("compare"):
            compare(results[0])
        if beside is not None:
            emulate = partial(_run, kernel, device, case, values, sizes, found, 0)
            beside(Launched(case, made, values, sizes, compare, emulate, kept, found, device.stats))
        for again in results[1:]:
            if any(again[name].tobytes() != results[0][name].tobytes() for name in again):
                raise Failed("unequal", f"{sizes}: two runs differ")
    if "invariant" in (found.case or case).schedule and isinstance(case, Case):
        _rows(case, kernel, device, found)


def _elements(case: Drawn, spec: KernelSpec, sizes: dict[str, int]) -> float:
    """What the tiles of a launch have, those that pad it too, for each 128 of the sum."""
    tiles = {name: step * ctas for name, step, ctas in spec.launch.tiles}
    sides = (
        {i for x, own in zip(case.operands, case.sides, strict=True) if own == side for i in x.index} - {*tiles}
        for side in ("lhs", "rhs")
    )
    both = set.intersection(*sides)
    summed = (prod(sizes.get(i, 1) for i in x.index if i in both) for x in case.operands)
    return prod(-(-sizes.get(name, 1) // n) * n for name, n in tiles.items()) * max(1, max(summed, default=1) / 128)


# ------------------------------------------------------------------------------------------------------------- a launch


def _run(
    kernel: Kernel | Sequence,
    device: emulated.EmulatedDevice,
    case: Drawn,
    values: dict[str, Any],
    sizes: dict[str, int],
    found: Outcome,
    again: int,
    tensor_core: str = "exact",
) -> dict[str, np.ndarray]:
    """The results of one launch, by name, as `values_of` has them."""
    device.options = replace(device.options, seed=case.seed + 77 * again, tensor_core=tensor_core)
    spec = kernel.spec
    lies = views(case, spec)
    given: list[Any] = []
    for t in spec.operands:
        given.append(float(values[t.name]) if t.scalar else placed(device, t, raw_of(t, values, sizes), **lies[t.name]))
    outs = [
        placed(device, r, raw_of(r, values, sizes), **lies[r.name]) if r.inout
        else placed(device, r, np.zeros(stored_shape(r, sizes), f"u{itemsize(r.dtype)}"), unset=True, **lies[r.name])
        for r in spec.results
    ]  # fmt: skip
    tensors = [a for a in given if isinstance(a, DeviceArray)]
    before = [_segment(device, a).data.copy() for a in (*tensors, *outs)]
    try:
        with found.timed("emulate"):
            kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))
    except DeviceError as error:
        cause = error.__cause__
        kind = f"finding {cause.kind}" if isinstance(cause, Finding) else "finding"
        raise Failed(kind, f"{sizes}: {cause or error}") from error
    for a, was in zip(tensors, before, strict=False):
        if not np.array_equal(_segment(device, a).data, was):
            raise Failed("changed", f"{sizes}: an argument of {a.dtype} has changed")
    for r, out, was in zip(spec.results, outs, before[len(tensors) :], strict=True):
        segment = _segment(device, out)
        wanted = written(r, out, sizes, segment.size, case.points(r, sizes, values))
        if not r.inout and not segment.written[wanted].all():
            missing = int((~segment.written[wanted]).sum())
            raise Failed("unwritten", f"{sizes}: {missing} of {int(wanted.sum())} bytes of {r.name} are not written")
        if not np.array_equal(segment.data[~wanted], was[~wanted]) or (not r.inout and segment.written[~wanted].any()):
            raise Failed("gap", f"{sizes}: bytes between the rows of {r.name} were written")
    return {r.name: out.numpy() for r, out in zip(spec.results, outs, strict=True)}


def _segment(device: emulated.EmulatedDevice, array: DeviceArray) -> Any:
    segment = device.memory.find(array.pointer)
    assert segment is not None
    return segment


def raw_of(t: TensorSpec, values: dict[str, Any], sizes: dict[str, int]) -> np.ndarray:
    """A tensor's bytes as the runtime takes them; NaN in what pads words and tiles of scales, which may be anything."""
    raw = reference.storage(values[t.name])
    if t.layout not in ("packed", "blocked"):
        return raw
    shape = tuple(e.value(sizes) for e in t.shape)
    if t.layout == "blocked":
        real = reference.to_blocked(np.ones(shape, np.uint8)) != 0
        return np.where(real.reshape(raw.shape), raw, 0xFF).astype(np.uint8)
    return raw


def views(case: Drawn, spec: KernelSpec) -> dict[str, dict[str, Any]]:
    """How each tensor lies in memory, by name: the further arguments of `laid_out`."""
    made = {}
    for t, pad, number in zip((*spec.operands, *spec.results), (*case.pads, *[0] * 99), (*case.views, *[0] * 99)):  # noqa: B905
        inner, *outer = memory_order(t) or (0,)
        outer.reverse()
        rows = [outer.pop()] if t.layout == WORDS else []  # words of adjacent rows lie beside each other
        if number:
            Random(number).shuffle(outer)
        outer += rows
        made[t.name] = {"pad": pad, "order": [*outer, inner] if t.shape else None, "gap": number % 3}
    return made


def placed(
    device: emulated.EmulatedDevice, t: TensorSpec, data: np.ndarray, *, unset: bool = False, **lies: Any
) -> DeviceArray:
    """`data`, as stored, on the device as `laid_out` has it. `unset`: nothing is written yet."""
    stored, strides = laid_out(t, data, **lies)
    made = DeviceArray(device, data.shape, t.dtype, strides)
    segment = _segment(device, made)
    span = min(segment.size, stored.size)
    segment.data[:span] = 0xFF if unset else stored[:span]
    segment.written[:] = not unset
    return made


# -------------------------------------------------------------------------------------------------------------- results


def _compare_all(
    case: Drawn,
    sizes: dict[str, int],
    values: dict[str, Any],
    bounded: list[bounds.Bounded],
    expected: reference.Results,
    found: Outcome,
    got: dict[str, np.ndarray],
) -> None:
    """Each result as if it were alone."""
    for one, own in zip(case.each(), bounded, strict=True):
        _compare(one, sizes, values, own, expected, found, got)


def _compare(
    case: Case | Alone,
    sizes: dict[str, int],
    values: dict[str, Any],
    bounded: bounds.Bounded,
    expected: reference.Results,
    found: Outcome,
    got: dict[str, np.ndarray],
) -> None:
    """The result beside what it may be, and that beside the reference."""
    from tests.fuzz import quantised

    element = case.result.element
    shape = bounded.value.shape
    name = case.result.name
    numbers = quantised.numbers_of(case, got[name], sizes, shape)
    asked = bounded.asked
    loose = np.isinf(bounded.error) & asked
    found.checked += int(asked.sum())
    found.loose += int(loose.sum())
    if case.result.granularities("result"):
        exact = quantised.compare(case, values, shape, numbers, got[name + "_scale"], bounded, asked)
        found.exact += exact
        return
    _agree(sizes, bounded, expected[name][..., case.columns(sizes)] if case.gaps else expected[name], asked)
    found.exact += int((bounded.error == 0)[asked].sum())
    low, high = bounds.accepted(bounded, element)
    report(sizes, name, numbers, low, high, bounds.inside(numbers, low, high, loose | ~asked))


def report(sizes: Any, name: str, got: Any, low: Any, high: Any, right: Any) -> None:
    """Raises where a result is not what it may be, with the first such element."""
    if right.all():
        return
    at = tuple(int(i) for i in np.argwhere(~right)[0])
    raise Failed(
        "wrong",
        f"{sizes}: {int((~right).sum())} of {right.size} of {name}, first {list(at)}: {got[at]!r} is not in"
        f" [{low[at]!r}, {high[at]!r}]",
    )


def _agree(sizes: dict[str, int], bounded: bounds.Bounded, expected: np.ndarray, asked: np.ndarray) -> None:
    """Raises where the reference is not what `bounds` makes of the program in float64, of the points `asked`."""
    with np.errstate(all="ignore"):
        near = np.abs(expected - bounded.value) <= 1e-9 * np.abs(bounded.value) + bounded.error + 1e-13
    same = near | (expected == bounded.value) | (np.isnan(expected) & np.isnan(bounded.value)) | np.isinf(bounded.error)
    same |= ~asked
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        raise Failed("reference", f"{sizes}: {list(at)} is {expected[at]!r}, and by bounds.py {bounded.value[at]!r}")


def _rows(case: Case, kernel: Kernel | Sequence, device: emulated.EmulatedDevice, found: Outcome) -> None:
    """Raises where the first rows of a result depend on how many there are: with half of them, by a kernel of its own
    where their number is known."""
    sizes = dict(case.launches[0])
    few = {**sizes, case.result.index[0]: sizes[case.result.index[0]] // 2}
    lhs = case.operands[0]
    of_rows = [x for x in case.used().values() if any(i.startswith(case.result.index[0]) for i in x.index)]
    levels = lhs.granularities("lhs")
    if not few[case.result.index[0]] or lhs.index[0] != case.result.index[0] or of_rows or case.adds:
        return
    if case.groups is not None or case.result.index[0] in case.operands[1].index:  # the other operand has fewer, too
        return
    if case.result.granularities("result") or any(g.tensor or g.block[0] != 1 or g.layout != "row" for g in levels):
        return
    kept = {f: case.schedule[f] for f in ("swap", "tile", "cta_group", "split", "promote") if f in case.schedule}
    own = case.but(launches=(few,), schedule={**kept, "invariant": "1"})  # sums are cut where the program says so
    made = compiled(own, Outcome("ok"), few)
    assert made.spec is not None
    other = launches.called(made, device)
    other.load(device)
    with context.context():
        values = data.make(case, build(case.text(), sizes), 0)
    own_rows = [lhs.name + suffix for suffix in ("", "_scale", "_scale2")[: 1 + len(levels)]]
    cut = {**values, **{name: values[name][: few[case.result.index[0]]] for name in own_rows}}
    whole = _run(kernel, device, case, values, sizes, found, 0)[case.result.name]
    part = _run(other, device, own, cut, few, found, 0)[case.result.name]
    if part.tobytes() != whole[: len(part)].tobytes():
        raise Failed("rows", f"{sizes}: the first {len(part)} rows are others where there are no more")
