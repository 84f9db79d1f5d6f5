"""Runs a program's kernel on the emulator against the reference, as strictly as docs/emulator.md has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.abi import KernelSpec
from scalec.checking.compare import compare
from scalec.checking.guarded import FILLS, Guarded, between_guards
from scalec.checking.launch import upload, values_of
from scalec.emulator.stats import Stats
from scalec.errors import ScalecError, SourceError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.reference import to_blocked
from scalec.runtime import driver, emulated
from scalec.runtime.kernel import Kernel
from tests.fuzz import gpu

TARGETS = ["sm_90a", "sm_100a", "sm_120a"]

# the largest `diff` from the float64 result, by the result's type: half of (2^-8)^2 or (2^-11)^2, where all are rounded
# by as much as they can be, which of a few elements may happen; FP32 sums
LIMITS = {"bf16": 7.7e-6, "f16": 1.2e-7, "f32": 1e-10}

MAX_ERROR = 0.01
"""Largest max|x-y| / max|y|: one wrong element or row shows here, not in diff. Rounding to bf16 gives 2^-9 at most."""


def limit(source: str) -> float:
    """The largest diff of a program's result."""
    kind = source.split("=")[0].partition(":")[2].strip().rstrip(" +")
    return LIMITS[kind or "bf16"]


def k_of(source: str, bytes_: int) -> int:
    """K of a program whose rows of A are about so many bytes (8-bit and narrower: elements), as its operands ask.

    Copies that pad 4 or 6 bits to 8 bring whole boxes of 128 elements, packed ones whole bytes.
    """
    four = sum(source.count(t) for t in ("e2m1", "mxfp4", "nvfp4"))
    packed = four == 2
    padded = not packed and (four or any(t in source for t in ("e2m3", "e3m2", "mxfp6")))
    eight = packed or padded or any(t in source for t in ("e4m3", "e5m2", "mxfp8", "scale"))
    step, wide = (
        128 if padded else 2 if packed else 1,
        4 if "tf32" in source else 1 if eight and ":f16 @" not in source else 2,
    )
    return -(-bytes_ // (wide * step)) * step


Refusal = tuple[str, str] | tuple[str, str, str | dict[str, int]]
"""A program, what is said of it, and its target or sizes if these are not those of the others."""


def refusals(
    rows: Iterable[Refusal],
    kind: type[ScalecError] | tuple[type[ScalecError], ...] = UnsupportedError,
    target: str = "sm_90a",
    dims: dict[str, int] | None = None,
    within: str = "{}",
) -> Callable[[str, str], None]:
    """A test of programs that are refused: what is said has the text beside each, or matches it as a regular
    expression, and says a way out of what is no mistake. In a row `within` is left out, which all programs have around
    it."""
    rows = list(rows)
    own = {row[:2]: row[2] for row in rows if len(row) == 3}

    @pytest.mark.parametrize(("source", "message"), [row[:2] for row in rows])
    def test_refused(source: str, message: str) -> None:
        given = own.get((source, message), dims)
        on, sizes = (given, dims) if isinstance(given, str) else (target, given)
        with pytest.raises(kind) as refusal:
            scalec.compile(within.replace("{}", source), on, sizes)
        said = str(refusal.value)
        assert message in said or re.search(message, said), said
        assert refusal.value.fix or isinstance(refusal.value, SourceError)

    return test_refused


def by_turns(names: Iterable[str], sizes: int) -> list[tuple[str, int]]:
    """(name, size) for each name and half of `sizes` sizes: the even ones of a name, the odd ones of the next."""
    return [(name, size) for i, name in enumerate(names) for size in range(i % 2, sizes, 2)]


def in_pairs(
    targets: Sequence[str], names: Iterable[str], sizes: int, step: int | None = None
) -> list[tuple[str, str, int]]:
    """(target, name, size): each name for each target, at one of `sizes` sizes, or at every `step`-th, by turns. Each
    name comes with each size, and each target does, if `step`, or else `sizes`, is no more than there are targets."""
    step = step or sizes
    return [
        (t, n, s)
        for i, n in enumerate(names)
        for j, t in enumerate(targets)
        for s in range((i + j) % step, sizes, step)
    ]


@dataclass(frozen=True)
class Ran:
    """What a run leaves for a test to look at."""

    kernel: Kernel
    stats: Stats


def run_on(
    source: str,
    dims: dict[str, int],
    fixed: tuple[str, ...],
    seed: int,
    limit: float,
    *,
    target: str = "sm_90a",
    times: int = 1,
    sms: int = emulated.SMS,
    change: Callable[[Kernel], Kernel] | None = None,
) -> Ran:
    """Runs a program: clean, within `limit` of the reference in `diff` and MAX_ERROR of its largest value, all bytes of
    the result that the program reaches and no others written, no argument changed; `times` 2: bit-equal, whatever the
    order that two seeds give. `sms` CTAs run at once; `change` puts a fault into the kernel. With --beside-gpu as close
    on the GPU to the emulator that sums as its tensor cores do.
    """
    kernel = scalec.compile(source, target=target, dims={d: dims[d] for d in fixed})
    if change is not None:
        kernel = change(kernel)
    device = kernel.fixed = emulated.EmulatedDevice(target)
    device.sms, device.options = sms, replace(device.options, sms=sms)
    with context.context():
        program = build(source, dims)
        values = reference.make(program, dims, seed=seed + dims.get("m", 0))
        results = reference.run(program, values, dims=dims, exact=True)
        ((expected,), (points,)) = results.values(), results.written.values()
    values = {**values, **_poisoned(kernel.spec, values, dims)}
    runs = []
    for turn in range(times):
        device.options = replace(device.options, seed=seed + 100 * turn)
        runs.append(_run(kernel, device, values, dims, points))
    got = runs[0]
    assert all(r.tobytes() == got.tobytes() for r in runs), f"{dims}: two runs differ"
    found, error = (f(got.astype(np.float64), expected) for f in (reference.diff, reference.max_error))
    assert found < limit, f"{dims}, {kernel.spec.schedule}: diff {found:.2e}"
    assert error < MAX_ERROR, f"{dims}, {kernel.spec.schedule}: max error {error:.2e}"
    assert device.stats is not None
    stats = device.stats
    if change is None and gpu.wanted(target):
        device.options = replace(device.options, tensor_core=gpu.SUMS.get(target, "exact"))
        _beside_gpu(kernel, values, dims, points, _run(kernel, device, values, dims, points), limit)
    return Ran(kernel, stats)


def launched(
    kernel: Kernel, values: Any, expected: Any, dims: dict[str, int], seed: int, launches: int = len(FILLS)
) -> dict[str, Any]:
    """The results, by name, of launches between guards, over NaNs and over another byte, whose CTAs come in different
    orders: right, equal, and nothing else written.

    Args:
        kernel: on an emulated device, or, in tests/gpu, on a GPU.
        values, expected: of arguments, and of results that are added to; what the reference makes of them.
    """
    device, runs = kernel.load().device, []
    for turn in range(launches):
        if isinstance(device, emulated.EmulatedDevice):
            device.options = replace(device.options, seed=seed + 100 * turn)
        given, outs = between_guards(device, kernel.spec, values, dims, FILLS[turn % len(FILLS)])
        kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))
        assert not any(x.changed() for x in given if isinstance(x, Guarded)), f"{dims}: an argument has changed"
        points = [expected.written[r.name] if r.given else None for r in kernel.spec.results]
        assert all(r.given or expected.written[r.name].all() for r in kernel.spec.results), "the reference skips some"
        for x, reached in zip(outs, points, strict=True):
            assert not x.changed(dims, reached), f"{dims}: {x.spec.name} has bytes written where none are to be"
        contents = [x.contents(dims, reached) for x, reached in zip(outs, points, strict=True)]
        runs.append(({x.spec.name: values_of(x.spec, x) for x in outs}, contents))
    (made, first), *others = runs
    assert all(other == first for _, other in others), f"{dims}: launches differ, or do not write all"
    with np.errstate(all="ignore"):
        checks = compare(made, expected)
    assert all(c.ok for c in checks), f"{kernel.spec.source}, {dims}, {kernel.spec.schedule}: {checks}"
    return made


def _beside_gpu(
    kernel: Kernel, values: Any, dims: dict[str, int], points: np.ndarray, wanted: np.ndarray, limit: float
) -> None:
    spec, here = kernel.spec, driver.device()
    (result,) = spec.results
    raw = {t.name: values[t.name] if t.scalar else reference.storage(values[t.name]) for t in spec.operands}
    if result.inout:
        raw[result.name] = reference.storage(values[result.name])
    reached = {result.name: points if result.given else None}
    on_gpu = Kernel(spec, kernel.cubin, ptx=kernel.ptx, device=here)
    got = gpu.twice(on_gpu, here, raw, dims, reached)[result.name].numpy()
    if result.given:
        got, wanted = got[points], wanted[points]
    found, error = (f(got.astype(np.float64), wanted.astype(np.float64)) for f in (reference.diff, reference.max_error))
    assert found < limit, f"{dims}, {spec.schedule}: diff {found:.2e} on the GPU"
    assert error < MAX_ERROR, f"{dims}, {spec.schedule}: max error {error:.2e} on the GPU"


def _poisoned(spec: KernelSpec, values: Any, dims: dict[str, int]) -> dict[str, np.ndarray]:
    """Scales in words with NaN (0xFF is that of ue8m0 and ue4m3) in all bytes that belong to no block.

    The reference leaves zeros there; as ue8m0 that is 2^-127, which no block has.
    """
    made = {}
    for t in spec.operands:
        if t.layout not in ("blocked", "packed"):
            continue
        raw = np.ascontiguousarray(values[t.name]).view(np.uint8)
        pads = raw == 0
        if t.layout == "blocked":
            pads = to_blocked(np.ones([e.value(dims) for e in t.shape], np.uint8)) == 0
        made[t.name] = np.where(pads, 0xFF, raw).astype(np.uint8).view(values[t.name].dtype)
    return made


def _run(
    kernel: Kernel, device: emulated.EmulatedDevice, values: Any, dims: dict[str, int], points: np.ndarray
) -> np.ndarray:
    """The result of one launch, which starts as NaNs and is written at `points`."""
    arguments, (out,) = upload(device, kernel.spec, values, dims)
    result = device.memory.find(out.pointer)
    assert result is not None
    inout = kernel.spec.results[0].inout
    if not inout:
        assert (result.data == 0xFF).all()
        result.written[:] = False
    given = {a.pointer: _bytes(device, a) for a in arguments if hasattr(a, "pointer") and a.pointer != out.pointer}
    before = result.data.copy()
    kernel(*arguments, out=out)
    steps = [step * out.itemsize for step in out.strides]
    places = sum(i * step for i, step in zip(np.indices(out.shape), steps, strict=True))
    wanted = np.zeros(result.size, bool)
    if kernel.spec.results[0].given:
        places = places[points]
    wanted[np.add.outer(places, np.arange(out.itemsize))] = True
    assert result.written[wanted].all(), f"{dims}: part of the result was not written"
    if not inout:
        assert not result.written[~wanted].any(), f"{dims}: bytes between the rows were written"
    assert (result.data == before)[~wanted].all(), f"{dims}: bytes between the rows have changed"
    for a in arguments:
        if hasattr(a, "pointer") and a.pointer != out.pointer:
            assert _bytes(device, a) == given[a.pointer], f"{dims}: an argument has changed"
    return out.numpy()


def _bytes(device: emulated.EmulatedDevice, array: Any) -> bytes:
    """All bytes of an array's allocation, gaps between rows too."""
    segment = device.memory.find(array.pointer)
    assert segment is not None
    return segment.data.tobytes()
