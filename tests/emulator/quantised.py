"""Runs a program with a quantised result, which must be, bit for bit, the quantising of its f32 result."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.launch import upload
from scalec.formats import ELEMENT_TYPES, FORMATS, WHOLE, Granularity
from scalec.frontend import build
from scalec.ir import context
from scalec.reference.packing import from_layout, unpack4
from scalec.reference.quantize import quantize, quantize_given, scale_shape
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel

SECOND = 0.2
"""Scale of a whole result, where it has one: no power of two, so that every product with its reciprocal is rounded."""


def parsed(result: str) -> tuple[str, Granularity, bool]:
    """(element, granularity of its scales, whether a second level is given) of what stands after `D[m,n]:`."""
    if result in FORMATS:
        form = FORMATS[result]
        return form.element, form.result[0], len(form.result) > 1
    element, rest = result.split(" scale(1x")
    body = rest.rstrip(")").removesuffix("*tensor")
    body, _, layout = body.partition("@")
    block, _, kind = body.partition(":")
    columns = WHOLE if block == "n" else int(block)
    return element, Granularity((1, columns), kind or "f32", layout or "row"), rest.endswith("*tensor)")


def run_quantised(
    program: str,
    result: str,
    dims: dict[str, int],
    fixed: tuple[str, ...],
    seed: int,
    target: str,
    settings: str = "",
    change: Callable[[Kernel], Kernel] = lambda kernel: kernel,
    *,
    times: int = 2,
    whole: float = SECOND,
) -> Kernel:
    """Runs `program`, whose result is written `D[m,n]{}`: clean, two runs bit-equal, all bytes of the result and of its
    scales written and no others, both those of the reference's quantiser on what the same program gives in f32.

    `change` may put a fault into the kernel; `times` 1: one run. `whole`: the scale of the whole result, if it has one.
    """
    element, g, second = parsed(result)
    tail = f" with {settings}" if settings else ""
    kernel = change(compile_(program.format(f":{result}") + tail, target, dims, fixed))
    made, sums = in_f32(program.format(":f32"), tail, target, tuple(dims.items()), fixed, seed)
    values = dict(made)
    if second:
        values["D_scale2"] = np.full((1, 1), whole, np.float32)
    with np.errstate(all="ignore"):
        wanted = quantize_given(sums, element, g, whole) if second else quantize(sums, element, [g])
    first, bytes_ = launch(kernel, target, values, dims, seed)
    for turn in range(1, times):
        again, _ = launch(kernel, target, values, dims, seed + 100 * turn)
        for a, b in zip(first, again, strict=True):
            assert a.tobytes() == b.tobytes(), f"{dims}: two runs differ"
    got, scales = first
    if ELEMENT_TYPES[element].bits < 8:
        got = unpack4(got.view(np.uint8), dims["n"])
    what = f"{program.format(':' + result)}, {dims}, {kernel.spec.schedule}"
    blocks = scale_shape((1, g.block[-1]), (dims["m"], dims["n"]))
    if g.layout == "packed":
        found = from_layout(scales, "packed", blocks, g.type)
        words = np.ascontiguousarray(scales).view(np.uint8).reshape(dims["m"], -1)
        assert not words[:, blocks[1] :].any(), f"{what}: scales of no block are not 0"
    elif g.layout == "blocked":
        found = from_layout(bytes_[1], "blocked", blocks, g.type)
        padded(bytes_[1], blocks)
    else:
        found = scales
    same(codes(found), codes(wanted.scales[0]), f"scales of {what}")
    same(codes(got), codes(wanted.values), what)
    return kernel


@lru_cache(maxsize=16)
def in_f32(
    program: str, tail: str, target: str, sizes: tuple[tuple[str, int], ...], fixed: tuple[str, ...], seed: int
) -> tuple[dict[str, Any], np.ndarray]:
    """Arguments of a program, and what it gives in f32: the same for all the results that tests quantise it to."""
    dims = dict(sizes)
    with context.context():
        values = dict(reference.make(build(program, dims), dims, seed=seed))
    spoil(values, dims)
    (sums,), _ = launch(compile_(program + tail, target, dims, fixed), target, values, dims, seed)
    return values, sums


def changed(old: str, new: str) -> Callable[[Kernel], Kernel]:
    """Puts a fault into a kernel: the first match of `old` in its PTX replaced."""

    def change(kernel: Kernel) -> Kernel:
        ptx, count = re.subn(old, new, kernel.ptx, count=1)
        if not count or ptx == kernel.ptx:  # no AssertionError, which would be a fault that is found
            pytest.fail(f"no match of {old!r}")
        return Kernel(kernel.spec, b"", ptx=ptx)

    return change


def in_either_order(program: str, result: str, dims: dict[str, int], settings: str, permute: int) -> None:
    """The same bits, whether the accumulator's columns are permuted or not."""
    with context.context():
        values = dict(reference.make(build(program.format(":f32"), dims), dims, seed=3))
    values["D_scale2"] = np.full((1, 1), SECOND, np.float32)
    tail = ", ".join(x for x in (settings, "permute_n={}") if x)
    one, other = (
        launch(
            compile_(f"{program.format(f':{result}')} with {tail.format(x)}", "sm_90a", dims, ("n", "k")),
            "sm_90a",
            values,
            dims,
            4,
        )[0]
        for x in (0, permute)
    )
    for a, b in zip(one, other, strict=True):
        assert a.tobytes() == b.tobytes()


def compile_(source: str, target: str, dims: dict[str, int], fixed: tuple[str, ...]) -> Kernel:
    return scalec.compile(source, target=target, dims={d: dims[d] for d in fixed})


def spoil(values: dict[str, Any], dims: dict[str, int]) -> None:
    """Rows of the result that are zeros, NaN and infinite, and a block of zeros, where the operands can say so."""
    a = values["A"]
    if a.dtype.name not in ("bfloat16", "float32") or a.shape != (dims["m"], dims["k"]) or dims["m"] < 16:
        return
    a[3] = 0
    a[5, -1] = np.nan
    a[7] = np.abs(a[7].astype(np.float32)).astype(a.dtype)
    a[7, 0] = np.inf


def launch(
    kernel: Kernel, target: str, values: dict[str, Any], dims: dict[str, int], seed: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The results of one launch, and all bytes of each one's memory; both start as 0xFF."""
    device = kernel.fixed
    if not isinstance(device, emulated.EmulatedDevice):
        device = kernel.fixed = emulated.EmulatedDevice(target)
        kernel.load(device)
    device.options = replace(device.options, seed=seed)
    arguments, outs = upload(device, kernel.spec, values, dims)
    segments = [device.memory.find(o.pointer) for o in outs]
    for s in segments:
        s.written[:] = False
    kernel(*arguments, out=tuple(outs) if len(outs) > 1 else outs[0])
    for o, s, t in zip(outs, segments, kernel.spec.results, strict=True):
        wanted = np.zeros(s.size, bool)
        if t.layout == "blocked":
            continue
        order = sorted(range(len(o.shape)), key=lambda axis: o.strides[axis])
        inner, outer = order[0], order[-1]
        starts = np.arange(o.shape[outer])[:, None] * o.strides[outer] * o.itemsize
        wanted[starts + np.arange(o.shape[inner] * o.itemsize)] = True
        assert s.written[wanted].all(), f"{dims}: part of {t.name} was not written"
        assert not s.written[~wanted].any(), f"{dims}: bytes between the rows of {t.name} were written"
    return [o.numpy() for o in outs], [s.data.copy() for s in segments]


def padded(memory: np.ndarray, blocks: tuple[int, ...]) -> None:
    """Of tiles of 128 rows by 4 blocks: zeros behind the last block of a row."""
    rows, count = blocks
    across = -(-count // 4)
    for row in range(rows):
        for block in range(count, 4 * across):
            tile = (row // 128 * across + block // 4) * 512
            assert memory[tile + row % 32 * 16 + row % 128 // 32 * 4 + block % 4] == 0


def codes(array: np.ndarray) -> np.ndarray:
    """The bits of each element; one NaN of a type stands for all."""
    if array.dtype not in (np.uint8, np.int8):
        array = np.where(np.isnan(array.astype(np.float32)), np.array(np.nan, array.dtype), array)
    return np.ascontiguousarray(array).view({1: np.uint8, 2: np.uint16, 4: np.uint32}[array.dtype.itemsize])


def same(got: np.ndarray, wanted: np.ndarray, what: str) -> None:
    bad = np.argwhere(got.reshape(wanted.shape) != wanted)
    where = [(tuple(map(int, i)), int(got.reshape(wanted.shape)[tuple(i)]), int(wanted[tuple(i)])) for i in bad[:4]]
    assert not len(bad), f"{what}: {len(bad)} of {wanted.size} differ: (place, got, wanted) {where}"
