"""Runs a program on this machine's GPU beside the emulator: twice, over memory of different bytes, between guards.

Results are held against `bounds`. The tensor cores sum products of 8-bit elements in fewer bits than f32, and what lies
outside must be, to the bit, what the emulator makes of it with that arithmetic (scalec/emulator/tensor_hopper.py); of a
program with functions that are approximated no further off than these are, by docs/language.md, on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from scalec import reference
from scalec.checking.guarded import FILLS, Guarded, between_guards, written
from scalec.formats import ELEMENT_TYPES
from scalec.reference.quantize import GRIDS, INTEGERS, block_amax, block_shape
from scalec.runtime import driver
from scalec.runtime.kernel import Kernel
from scalec.runtime.sequence import Sequence
from tests.fuzz import bounds
from tests.fuzz.bounds import Bounded
from tests.fuzz.case import Case, Tree
from tests.fuzz.forms import of_seed
from tests.fuzz.language import every
from tests.fuzz.launches import called
from tests.fuzz.quantised import stood_for
from tests.fuzz.running import LARGEST, Drawn, Failed, Launched, Outcome, check, raw_of, views
from tests.fuzz.written import Alone, Written

Raw = Mapping[str, np.ndarray]
"""Results as stored, by name."""

SUMS = {"sm_90a": "hopper"}
"""How tensor cores sum products of 8 bits, as the emulator calls it, by target; of others nobody has seen it."""

BESIDE = False
"""Whether `pytest` was given --beside-gpu."""


def check_seed(seed: int) -> Outcome:
    """The outcome of a seed; "elsewhere" if it draws another target than that of this machine's GPU."""
    case = of_seed(seed)
    gpu = driver.detect()
    if gpu is None or case.target != gpu.target:
        return Outcome("elsewhere", case=case)
    return check(case, beside=beside, assembled=driver.device().image == "cubin", runs=1, largest=LARGEST)


def wanted(target: str) -> bool:
    """Whether launches of tests for a target run on this machine's GPU too: `pytest --beside-gpu`."""
    gpu = driver.detect() if BESIDE else None
    return gpu is not None and gpu.target == target


def beside(launched: Launched) -> None:
    """Raises Failed where the GPU's results are not what they may be.

    The kernel is loaded once a case, by the first launch.
    """
    case, found = launched.case, launched.found
    gpu = driver.device()
    if "gpu" not in launched.kept:
        launched.kept["gpu"] = called(launched.made, gpu)
    kernel = launched.kept["gpu"]
    try:
        with found.timed("gpu"):
            values, sizes, spec = launched.values, launched.sizes, kernel.spec
            tensors = (*(t for t in spec.operands if not t.scalar), *(r for r in spec.results if r.inout))
            raw = {t.name: raw_of(t, values, sizes) for t in tensors}
            raw |= {t.name: values[t.name] for t in spec.operands if t.scalar}
            reached = {r.name: case.points(r, sizes, values) for r in spec.results}
            first = twice(kernel, gpu, raw, sizes, reached, views(case, spec))
        try:
            launched.compare({name: out.numpy() for name, out in first.items()})
            return
        except Failed:
            if not _narrow(case):
                raise
        with found.timed("emulate"):
            wanted = launched.emulate("hopper")
        off = case.bounded(sizes, values, functions=True) if _approximated(case) else [None] * len(case.each())
        for one, own in zip(case.each(), off, strict=True):
            _alike(launched, one, first, wanted, own)
    except Failed as error:
        raise Failed(f"gpu {error.kind}", error.message) from error


def twice(
    kernel: Kernel | Sequence,
    gpu: Any,
    raw: Mapping[str, Any],
    sizes: dict[str, int],
    reached: Mapping[str, np.ndarray | None],
    lies: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Guarded]:
    """The results of a launch, by name. Raises Failed where another launch's differ, or other bytes have changed.

    Args:
        kernel: loaded on `gpu`, or to be.
        gpu: this machine's.
        raw: by name, tensors as they are stored, results that are added to among them, and scalars.
        sizes: of the launch.
        reached: by result, which of its elements are written; None: all.
        lies: by tensor, how it lies in memory: further arguments of `laid_out`.
    """
    first, second = (_run(kernel, gpu, raw, sizes, reached, lies, fill) for fill in FILLS)
    for name, out in first.items():
        if out.contents(sizes, reached[name]) != second[name].contents(sizes, reached[name]):
            raise Failed("unequal", f"{sizes}: two launches differ in {name}, or do not write all of it")
    return first


def _run(
    kernel: Kernel | Sequence,
    gpu: Any,
    raw: Mapping[str, Any],
    sizes: dict[str, int],
    reached: Mapping[str, np.ndarray | None],
    lies: Mapping[str, Mapping[str, Any]],
    fill: int,
) -> dict[str, Guarded]:
    given, outs = between_guards(gpu, kernel.spec, raw, sizes, fill, lies)
    kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))
    gpu.synchronize(0)
    for x in given:
        if isinstance(x, Guarded) and x.changed():
            raise Failed("changed", f"{sizes}: {x.spec.name}, or bytes beside it, have changed")
    for out in outs:
        if out.changed(sizes, reached[out.spec.name]):
            raise Failed("gap", f"{sizes}: bytes around or between the rows of {out.spec.name} were written")
    return {out.spec.name: out for out in outs}


def _alike(
    launched: Launched, one: Case | Alone, got: dict[str, Guarded], wanted: dict[str, np.ndarray], off: Bounded | None
) -> None:
    """Raises where a result, or its scales, differ from the emulator's, by more than functions are `off` if any is."""
    name, quantised = one.result.name, bool(one.result.granularities("result"))
    for own in (name, name + "_scale") if quantised else (name,):
        out, before = got[own], wanted[own]
        made, bits = out.numpy(), ELEMENT_TYPES[out.spec.dtype].bits
        if made.tobytes() == before.tobytes():
            continue
        a, b = (_codes(x, bits) for x in (made, before))
        same = a == b
        if bits >= 8 and out.spec.layout != "blocked":
            same |= np.logical_and(*(np.isnan(_numbers(x, out)) for x in (made, before)))
        if off is not None and own == name:
            same = _near(launched, one, {n: x.numpy() for n, x in got.items()}, wanted, off)
        elif off is not None:
            same |= np.abs(_ordered(a, bits) - _ordered(b, bits)) <= 1
            if bits == 32 and out.spec.layout != "packed":
                x, y = (_numbers(x, out) for x in (made, before))
                same |= np.abs(x - y) <= 2 * _of_scales(launched, one, off, x.shape) + 2.0**-22 * np.abs(y)
        if out.spec.layout == "blocked":  # bytes that pad tiles are not compared
            same |= ~written(out.spec, out, launched.sizes, same.size).reshape(same.shape)
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            codes = f"{a[at]:#x}, and {b[at]:#x} in the emulator" if a.shape == same.shape else "too far off"
            raise Failed(
                "wrong", f"{launched.sizes}: {int((~same).sum())} of {same.size} of {own}, first {list(at)}: {codes}"
            )


def _near(launched: Launched, one: Case | Alone, got: Raw, wanted: Raw, off: Bounded) -> np.ndarray:
    """Where what values, with their scales, stand for is no further apart than functions on both sides may be off, and
    a step that they are rounded by on each. What saturates may stand for less."""
    element, error = one.result.element, off.error
    mantissa, least = GRIDS.get(element, (0, 0))
    made, steps, full = [], [], []
    for x in (got, wanted):
        numbers, each, error = stood_for(one, launched.values, launched.sizes, off, x)
        with np.errstate(all="ignore"):
            power = np.maximum(np.floor(np.log2(np.abs(numbers))), least) - mantissa
        made.append(numbers * each)
        steps.append(np.abs(each) * (1 if element in INTEGERS else np.exp2(np.where(np.isfinite(power), power, least))))
        full.append(np.abs(numbers) == ELEMENT_TYPES[element].max)
    with np.errstate(invalid="ignore"):
        same = (made[0] == made[1]) | (np.abs(made[0] - made[1]) <= 2 * error + 1.02 * (steps[0] + steps[1]))
    return same | (np.isnan(made[0]) & np.isnan(made[1])) | (full[0] & full[1]) | np.isinf(error)


def _of_scales(launched: Launched, one: Case | Alone, off: Bounded, shape: tuple[int, ...]) -> np.ndarray:
    """How far off scales in f32 are where functions are, at most; of layouts and gaps that have another shape, any."""
    error = one.seen(off.error, launched.values) if isinstance(one, Alone) else off.error
    largest = block_amax(error, block_shape(one.result.granularities("result")[0], error.shape))
    return (largest if largest.shape == shape else largest.max(initial=0)) / ELEMENT_TYPES[one.result.element].max


def _numbers(stored: np.ndarray, out: Guarded) -> np.ndarray:
    return reference.decode(np.ascontiguousarray(stored), out.spec.dtype).astype(np.float64)


def _codes(stored: np.ndarray, bits: int) -> np.ndarray:
    """The bits of each element, those of 4 bits two a byte."""
    words = np.ascontiguousarray(stored)
    words = words.view(f"u{words.itemsize}").astype(np.int64)
    return words if bits >= 8 else np.stack([words & 15, words >> 4], axis=-1)


def _ordered(words: np.ndarray, bits: int) -> np.ndarray:
    """Floating-point bits as integers in the order of their values."""
    sign = 1 << (bits - 1)
    return np.where(words & sign, sign - words, words)


def _narrow(case: Drawn) -> bool:
    """Whether a product has operands of fewer than 16 bits, as they come or as they are made."""
    found = [x.bits for x in case.operands]
    if isinstance(case, Written):
        trees = [t for s in case.read.statements for t in every(s.tree) if t[0] in ("quantize", "rounded")]
        found += [ELEMENT_TYPES[t[2]].bits for t in trees]
    return min(found, default=16) < 16


def _approximated(case: Drawn) -> bool:
    """Whether a program has functions that the GPU approximates, which the emulator rounds otherwise."""
    if isinstance(case, Written):
        return any(t[0] in bounds.ULPS for s in case.read.statements for t in every(s.tree))
    return any(_of(tree) for tree in (case.value, *(tree for _, tree in case.further)))


def _of(tree: Tree) -> bool:
    return tree[0] in bounds.ULPS or any(_of(t) for t in tree[1:] if isinstance(t, tuple))
