"""Runs a launch on this machine's GPU beside the emulator: twice, over memory of different bytes, between guards.

Results are held against `bounds`. The tensor cores sum products of 8-bit elements in fewer bits than f32, and what lies
outside must be, to the bit, what the emulator makes of it with that arithmetic (scalec/emulator/tensor_hopper.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from scalec import reference
from scalec.checking.guarded import FILLS, Guarded, between_guards, written
from scalec.formats import ELEMENT_TYPES
from scalec.runtime import driver
from scalec.runtime.kernel import Kernel
from tests.fuzz import bounds
from tests.fuzz.case import Case, Tree
from tests.fuzz.draw import draw
from tests.fuzz.running import Failed, Launched, Outcome, check, raw_of, views

STEPS = {32: 16, 16: 1, 8: 1, 4: 1}
"""By how many representable numbers of a type (bits) results may differ from the emulator's where the program divides
or has a function that the GPU approximates (docs/language.md), which the emulator rounds otherwise."""


SUMS = {"sm_90a": "hopper"}
"""How tensor cores sum products of 8 bits, as the emulator calls it, by target; of others nobody has seen it."""

BESIDE = False
"""Whether `pytest` was given --beside-gpu."""


def check_seed(seed: int) -> Outcome:
    """The outcome of a seed; "elsewhere" if it draws another target than that of this machine's GPU."""
    case = draw(seed).each()[0]
    gpu = driver.detect()
    if gpu is None or case.target != gpu.target:
        return Outcome("elsewhere", case=case)
    return check(case, beside=beside, assembled=driver.device().image == "cubin")


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
    made = launched.made
    kernel = launched.kept.setdefault("gpu", Kernel(launched.spec, made.cubin or b"", ptx=made.ptx, device=gpu))
    try:
        with found.timed("gpu"):
            values, sizes, spec = launched.values, launched.sizes, launched.spec
            tensors = (*(t for t in spec.operands if not t.scalar), *(r for r in spec.results if r.inout))
            raw = {t.name: raw_of(t, values, sizes) for t in tensors}
            raw |= {t.name: values[t.name] for t in spec.operands if t.scalar}
            reached = {r.name: case.points(r, sizes, values) for r in spec.results}
            first = twice(kernel, gpu, raw, sizes, reached, views(case, spec))
        try:
            launched.compare({name: out.numpy() for name, out in first.items()})
            return
        except Failed:
            if all(x.bits >= 16 for x in case.operands):
                raise
        with found.timed("emulate"):
            wanted = launched.emulate("hopper")
        for name, out in first.items():
            _alike(launched, out, wanted[name])
    except Failed as error:
        raise Failed(f"gpu {error.kind}", error.message) from error


def twice(
    kernel: Kernel,
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
    kernel: Kernel,
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


def _alike(launched: Launched, out: Guarded, wanted: np.ndarray) -> None:
    """Raises where a result differs from the emulator's, by more than approximations on both sides may."""
    spec, got = out.spec, out.numpy()
    if got.tobytes() == wanted.tobytes():
        return
    bits = ELEMENT_TYPES[spec.dtype].bits
    a, b = (_codes(x, bits) for x in (got, wanted))
    same = a == b
    case = launched.case
    approximated = isinstance(case, Case) and _approximated(case.value)
    if approximated:
        same |= np.abs(_ordered(a, bits) - _ordered(b, bits)) <= STEPS[bits]
    if bits >= 8 and spec.layout != "blocked":
        x, y = (reference.decode(np.ascontiguousarray(x), spec.dtype).astype(np.float64) for x in (got, wanted))
        same |= np.isnan(x) & np.isnan(y)
        if approximated and x.shape == launched.bounded.error.shape:
            with np.errstate(invalid="ignore"):
                same |= np.abs(x - y) <= 2 * launched.bounded.error
    if spec.layout == "blocked":  # bytes that pad tiles are not compared
        same |= ~written(spec, out, launched.sizes, same.size).reshape(same.shape)
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        raise Failed(
            "wrong", f"{launched.sizes}: {int((~same).sum())} of {same.size} of {spec.name}, first {list(at)}:"
            f" {a[at]:#x}, and {b[at]:#x} in the emulator"
        )  # fmt: skip


def _codes(stored: np.ndarray, bits: int) -> np.ndarray:
    """The bits of each element, those of 4 bits two a byte."""
    words = np.ascontiguousarray(stored)
    words = words.view(f"u{words.itemsize}").astype(np.int64)
    return words if bits >= 8 else np.stack([words & 15, words >> 4], axis=-1)


def _ordered(words: np.ndarray, bits: int) -> np.ndarray:
    """Floating-point bits as integers in the order of their values."""
    sign = 1 << (bits - 1)
    return np.where(words & sign, sign - words, words)


def _approximated(tree: Tree) -> bool:
    return tree[0] in bounds.ULPS or any(_approximated(t) for t in tree[1:] if isinstance(t, tuple))
