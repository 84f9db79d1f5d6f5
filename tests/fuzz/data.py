"""What the tensors of a case hold: the reference's data, and what is done to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec import reference
from scalec.formats import ELEMENT_TYPES, NUMBERS
from scalec.reference.packing import numpy_dtype
from scalec.reference.quantize import EMAX, GRIDS
from scalec.zero_points import RANGES
from tests.fuzz.case import Case, Operand
from tests.fuzz.written import Written

Array = NDArray[Any]
Twist = Callable[[Case | Written, dict[str, Any], np.random.Generator, int], None]


def make(case: Case | Written, module: Any, launch: int) -> dict[str, Any]:
    """Arguments by name, as scalec.reference.make has them."""
    seed = case.seed + 1000 * launch
    values = reference.make(module, case.launches[launch], seed, exact=case.exact)
    rng = np.random.default_rng(seed)
    for x, side in zip(case.operands, case.sides, strict=True):
        if (
            x.bits >= 16 and x.granularities(side) and not case.exact
        ):  # else they reach the largest number of their type
            values[x.name] = reference.cast(rng.standard_normal(values[x.name].shape), x.element)
            scales = values[x.name + "_scale"]
            scales[...] = rng.uniform(0.5, 2, scales.shape)
    for name, number in case.twists:
        TWISTS[name](case, values, rng, number)
    case.route(case.launches[launch], values, np.random.default_rng([seed, 1]))
    return values


def _some(case: Case | Written, rng: np.random.Generator) -> Operand:
    able = case.operands or tuple(case.used().values())
    return able[int(rng.integers(len(able)))]


def _scales(case: Case | Written, rng: np.random.Generator) -> list[tuple[str, str]]:
    """(name, type) of the operands' scales."""
    return [
        (x.name + suffix, g.type)
        for x, side in zip(case.operands, case.sides, strict=True)
        for g, suffix in zip(x.granularities(side), ("_scale", "_scale2"), strict=False)
    ]


def _at(array: Array, rng: np.random.Generator, count: int) -> tuple[Array, ...]:
    """Some places of an array."""
    if not array.size:
        return tuple(np.zeros(0, np.int64) for _ in array.shape)
    return np.unravel_index(rng.integers(0, array.size, count), array.shape)


def _integers(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """Larger integers, so that sums are ties of what results are rounded to."""
    for x in case.operands:
        most = min(2.0**number, ELEMENT_TYPES[x.element].max)
        if x.element in GRIDS:
            most = min(most, 2.0 ** (GRIDS[x.element][0] + 1))
        shape = values[x.name].shape
        values[x.name] = reference.cast(rng.integers(-int(most), int(most) + 1, shape), x.element)


def _codes(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """All numbers of a type of 8 bits or fewer, subnormal ones and the largest, but NaN and infinity."""
    for x in case.operands:
        if x.bits <= 8:
            raw = rng.integers(0, 1 << x.bits, values[x.name].shape, dtype=np.uint8).view(values[x.name].dtype)
            values[x.name] = np.where(np.isfinite(raw.astype(np.float32)), raw, np.zeros_like(raw))


def _zeros(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """Zeros: all of an operand, some rows, some columns, or a block."""
    a = values[_some(case, rng).name]
    rows, columns = (rng.integers(0, 2, a.shape[at]).astype(bool) for at in (0, -1))
    if number % 4 == 0:
        a[...] = 0
    elif number % 4 == 1:
        a[rows] = 0
    elif number % 4 == 2:
        a[..., columns] = 0
    else:
        block = np.atleast_2d(a)
        block[: block.shape[0] // 2, ..., : block.shape[-1] // 2] = 0


def _same(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """One number everywhere."""
    for x in case.operands:
        values[x.name][...] = reference.cast(number % 5 + 1, x.element)


def _one_sign(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """Numbers above 0, or below: a 0 that a kernel has beside them is then the least or the largest."""
    sign = 1 - 2 * (number % 2)
    for name, element in ((x.name, x.element) for x in (*case.operands, *case.used().values())):
        if element not in RANGES:
            a = values[name].astype(np.float64)
            values[name] = reference.cast(sign * np.where(a == 0, 1, np.abs(a)), element)


def _specials(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """NaN or infinity in a few places, where a type has it, in operands, in inputs, and in what is added to."""
    name = str(rng.choice([x.name for x in (*case.operands, *case.used().values())]))
    a = values[name]
    if a.dtype in (numpy_dtype("i4"), numpy_dtype("u4"), numpy_dtype("i8")):  # which have neither
        return
    with np.errstate(all="ignore"):
        a[_at(a, rng, 1 + number % 3)] = (np.nan, np.inf, -np.inf)[number % 3]


def _special_scales(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """NaN as a scale."""
    for name, kind in _scales(case, rng):
        _set_scale(values, name, kind, rng, np.nan, 1)
        return


def _set_scale(
    values: dict[str, Any], name: str, kind: str, rng: np.random.Generator, number: float, count: int
) -> None:
    a = values[name]
    if a.dtype.itemsize == ELEMENT_TYPES[kind].bits // 8:  # four in a word are left alone
        at = _at(a, rng, count)
        a[at] = reference.encode_scale(np.full(len(at[0]), number), kind)


def _scaled(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """Huge and tiny scales: all of a tensor's times a power of two, or some of them."""
    for name, kind in _scales(case, rng):
        if kind in NUMBERS and rng.integers(2):
            span = 60 if kind != "f16" else 8
            a, power = values[name], np.float32(2.0 ** (number % (2 * span + 1) - span))
            at = slice(None) if number % 2 else _at(a, rng, 3)
            with np.errstate(over="ignore"):
                a[at] = (a[at].astype(np.float32) * power).astype(a.dtype)
        elif kind == "ue8m0":
            _set_scale(values, name, kind, rng, 2.0 ** (number % 161 - 80), 3)
        elif kind == "ue4m3":
            _set_scale(values, name, kind, rng, (0.0, 448.0, 2.0**-9, 2.0**-6)[number % 4], 3)


def _zero_scales(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """Scales of 0, where a type has it, and negative ones, but of bytes."""
    for name, kind in _scales(case, rng):
        if kind in NUMBERS:
            a, at = values[name], _at(values[name], rng, 2)
            a[at] = (a[at].astype(np.float32) * (0.0, -1.0)[number % 2]).astype(a.dtype)
        elif kind == "ue4m3":
            _set_scale(values, name, kind, rng, 0.0, 2)


def _subnormals(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """The least numbers of a type, below its normal ones."""
    x = _some(case, rng)
    if x.element not in GRIDS:
        return
    mantissa, emin = GRIDS[x.element]
    a = values[x.name]
    at = _at(a, rng, max(4, a.size // 4))
    a[at] = reference.cast(rng.integers(0, 1 << mantissa, at[0].shape) * 2.0 ** (emin - mantissa), x.element)


def _extremes(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """The largest numbers of the operands' types of 8 bits or fewer; large inputs."""
    for x in case.operands:
        if x.element in EMAX and x.bits <= 8:
            a = values[x.name]
            at = _at(a, rng, 4)
            a[at] = reference.cast(np.where(rng.integers(0, 2, at[0].shape), 1, -1) * 2.0 ** EMAX[x.element], x.element)
    for x in case.used().values():
        values[x.name] = reference.cast(values[x.name].astype(np.float64) * 2.0 ** (number % 12), x.element)


def _outer(case: Case | Written, values: dict[str, Any], rng: np.random.Generator, number: int) -> None:
    """The given scale of a quantised result: too small, too large, negative."""
    name = case.result.name + "_scale2"
    if name in values:
        values[name] *= np.float32((2.0**-8, 2.0**8, -1.0, 2.0**-100)[number % 4])


TWISTS: dict[str, Twist] = {
    "integers": _integers,
    "codes": _codes,
    "zeros": _zeros,
    "same": _same,
    "one sign": _one_sign,
    "specials": _specials,
    "special scales": _special_scales,
    "scaled": _scaled,
    "zero scales": _zero_scales,
    "subnormals": _subnormals,
    "extremes": _extremes,
    "outer": _outer,
}
"""What is done to the data, after the reference has made it: a row each."""
