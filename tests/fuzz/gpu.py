"""Runs a case on this machine's GPU beside the emulator: twice, over memory of different bytes, between guards.

With 16-bit operands the results are held against `bounds`; the tensor cores sum products of 8-bit ones in fewer bits
than f32, and there the emulator with that arithmetic (scalec/emulator/tensor_hopper.py) says what the bits are.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from scalec import reference
from scalec.abi import TensorSpec
from scalec.formats import ELEMENT_TYPES
from scalec.runtime import driver
from scalec.runtime.array import DeviceArray
from scalec.runtime.kernel import Kernel
from scalec.runtime.stored import itemsize, laid_out, stored_shape
from tests.fuzz import bounds
from tests.fuzz.case import Case, Tree
from tests.fuzz.draw import draw
from tests.fuzz.running import Failed, Launched, Outcome, check, raw_of, wanted_bytes

GUARD = 4096
"""Bytes before and after every tensor, which must survive; a multiple of what addresses are aligned to."""

FILLS = (0xFF, 0x55)
"""What results are before each of two launches: a byte that nobody writes is another one after the second."""

STEPS = {32: 16, 16: 1, 8: 1, 4: 1}
"""By how many representable numbers of a type (bits) results may differ from the emulator's where the program divides
or has a function that the GPU approximates (docs/language.md), which the emulator rounds otherwise."""


def check_seed(seed: int) -> Outcome:
    """The outcome of a seed; "elsewhere" if it draws another target than that of this machine's GPU."""
    case = draw(seed)
    gpu = driver.detect()
    if gpu is None or case.target != gpu.target:
        return Outcome("elsewhere", case=case)
    return check(case, beside=_beside, assembled=driver.device().image == "cubin")


class _View(DeviceArray):
    """A tensor within a buffer between guards."""

    def __init__(self, device: Any, stored: np.ndarray, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...]):
        guard = np.full(GUARD, 0xA5, np.uint8)
        self.bytes = np.concatenate([guard, stored.reshape(-1), guard])
        self.buffer = DeviceArray.from_host(device, self.bytes, "i8")
        self.device, self.shape, self.dtype, self.strides, self.stream = device, shape, dtype, strides, 0
        self.itemsize = max(1, ELEMENT_TYPES[dtype].bits // 8)
        self.pointer = self.buffer.pointer + GUARD

    def now(self) -> np.ndarray:
        """All bytes, guards included."""
        return np.frombuffer(self.device.download(self.buffer.pointer, self.bytes.size, 0), np.uint8)


def _beside(launched: Launched) -> None:
    """Raises Failed where the GPU's results are not what they may be.

    The kernel is loaded once a case, by the first launch.
    """
    case, found = launched.case, launched.found
    gpu = driver.device()
    made, results = launched.made, launched.spec.results
    kernel = launched.kept.setdefault("gpu", Kernel(launched.spec, made.cubin or b"", ptx=made.ptx, device=gpu))
    try:
        with found.timed("gpu"):
            first, second = (_run(kernel, gpu, launched, fill) for fill in FILLS)
        for name in first:
            if first[name].tobytes() != second[name].tobytes():
                raise Failed("unequal", f"{launched.sizes}: two launches differ in {name}, or do not write all of it")
        if all(x.bits >= 16 for x in case.operands):
            launched.compare(first)
            return
        with found.timed("emulate"):
            wanted = launched.emulate("hopper")
        for spec in results:
            _alike(case, spec, first[spec.name], wanted[spec.name], launched.sizes)
    except Failed as error:
        raise Failed(f"gpu {error.kind}", error.message) from error


def _run(kernel: Kernel, gpu: Any, launched: Launched, fill: int) -> dict[str, np.ndarray]:
    """The results of a launch on the GPU, by name."""
    values, sizes = launched.values, launched.sizes
    pads = itertools.chain(launched.case.pads, itertools.repeat(0))
    given: list[Any] = []
    for t in launched.spec.operands:
        pad = next(pads)
        given.append(float(values[t.name]) if t.scalar else _view(gpu, t, raw_of(t, values, sizes), pad))
    outs = []
    for r in launched.spec.results:
        old = raw_of(r, values, sizes) if r.inout else np.zeros(stored_shape(r, sizes), f"u{itemsize(r.dtype)}")
        outs.append(_view(gpu, r, old, next(pads), None if r.inout else fill))
    kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))
    gpu.synchronize(0)
    for x in given:
        if isinstance(x, _View) and not np.array_equal(x.now(), x.bytes):
            raise Failed("changed", f"{sizes}: an argument of {x.dtype}, or bytes beside it, have changed")
    for spec, out in zip(launched.spec.results, outs, strict=True):
        now = out.now()
        outside = np.ones(now.size, bool)
        outside[GUARD:-GUARD] = ~wanted_bytes(spec, out, sizes, now.size - 2 * GUARD)
        if not np.array_equal(now[outside], out.bytes[outside]):
            raise Failed("gap", f"{sizes}: bytes around or between the rows of {spec.name} were written")
    return {r.name: out.numpy() for r, out in zip(launched.spec.results, outs, strict=True)}


def _view(gpu: Any, t: TensorSpec, data: np.ndarray, pad: int, fill: int | None = None) -> _View:
    stored, strides = laid_out(t, data, pad)
    return _View(gpu, stored if fill is None else np.full_like(stored, fill), data.shape, t.dtype, strides)


def _alike(case: Case, spec: TensorSpec, got: np.ndarray, wanted: np.ndarray, sizes: Any) -> None:
    """Raises where results differ from the emulator's, by more than approximations may."""
    if got.tobytes() == wanted.tobytes():
        return
    bits = ELEMENT_TYPES[spec.dtype].bits
    a, b = (_codes(x, bits) for x in (got, wanted))
    same = a == b
    if bits >= 8:
        x, y = (reference.decode(np.ascontiguousarray(x), spec.dtype).astype(np.float64) for x in (got, wanted))
        same |= np.isnan(x) & np.isnan(y)
    if _approximated(case.value):
        same |= np.abs(_ordered(a, bits) - _ordered(b, bits)) <= STEPS[bits]
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        raise Failed(
            "wrong", f"{sizes}: {int((~same).sum())} of {same.size} of {spec.name}, first {list(at)}: {a[at]:#x}, and"
            f" {b[at]:#x} in the emulator"
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
