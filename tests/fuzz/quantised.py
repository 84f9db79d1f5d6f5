"""Judges a quantised result: its scales by the largest magnitudes that a block may have, its values by its scales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scalec.formats import ELEMENT_TYPES, Granularity
from scalec.reference import decode, e8m0_scale, from_layout, round_to
from scalec.reference.quantize import LARGEST_INVERSE, SMALLEST, block_amax, block_shape, scale_shape, spread
from tests.fuzz import bounds
from tests.fuzz.bounds import Bounded
from tests.fuzz.case import Case
from tests.fuzz.written import Alone

F32 = np.float32


def compare(
    case: Case | Alone,
    values: dict[str, Any],
    shape: tuple[int, ...],
    numbers: np.ndarray,
    scales: np.ndarray,
    x: Bounded,
    asked: np.ndarray,
) -> int:
    """Raises Failed where the values or the scales are wrong, of the points `asked`; how many of the values had to be
    equal bit for bit."""
    from tests.fuzz.running import report

    g = case.result.granularities("result")[0]
    element, name = case.result.element, case.result.name
    if isinstance(case, Alone) and case.apart:
        numbers, asked = case.seen(numbers, values), case.seen(asked, values)
        x = Bounded(case.seen(x.value, values), case.seen(x.error, values))
        shape = asked.shape
    block = block_shape(g, shape)
    each = of_blocks(case, g, shape, scales)
    outer = values[name + "_scale2"].item() if name + "_scale2" in values else None
    with np.errstate(all="ignore"):
        inverse = F32(1) if outer is None else np.clip(F32(1) / F32(outer), -LARGEST_INVERSE, LARGEST_INVERSE)
        loose = np.isinf(x.error)
        any_loose = block_amax(loose.astype(np.float64), block) > 0
        error = np.where(loose, 0, x.error)
        magnitudes = np.abs(x.value)
        ends = []
        for far in (np.maximum(magnitudes - error, 0), magnitudes + error):
            amax = block_amax(far.astype(F32), block)
            if outer is not None:
                amax = (amax.astype(F32) * np.abs(inverse)).astype(np.float64)
            ends.append((amax, _scale(amax, element, g.type)))
        (least, low), (most, high) = ends
        # a block that may be of zeros has the scale of one: 1 in f32
        any_loose |= (least == 0) & (most > 0)
        any_loose |= block_amax(asked.astype(np.float64), block) == 0
        report(shape, name + "_scale", each, low, high, bounds.inside(each, low, high, any_loose))
        given = spread(each, block, shape)
        reciprocal = np.where(given == 0, 0.0, 1 / given).astype(F32)
        if outer is not None:
            top = np.finfo(F32).max
            reciprocal = np.clip(reciprocal * inverse, -top, top)
        made = []
        for sign in (-1, 1):
            near = (x.value + sign * error).astype(F32)
            made.append(np.where(near == 0, near * np.sign(inverse), near * reciprocal).astype(np.float64))
        low, high = (bounds.rounded(f(*made), element, x.bits) for f in (np.minimum, np.maximum))
    wide = spread(any_loose, block, shape) | loose | np.isnan(given) | ~asked  # NaN times anything is NaN
    report(shape, name, numbers, low, high, bounds.inside(numbers, low, high, wide))
    return int((x.error == 0)[asked].sum())


def of_blocks(case: Case | Alone, g: Granularity, shape: tuple[int, ...], scales: np.ndarray) -> np.ndarray:
    """The scale of each block of a result of a shape, of the scales as they are stored."""
    blocks = scale_shape(block_shape(g, shape), shape)
    raw = scales if g.layout == "packed" else decode(scales, g.type)
    if not isinstance(case, Case) or not case.gaps:
        return from_layout(raw, g.layout, blocks, g.type).astype(np.float64)
    at = case.blocks(shape[-1])
    return from_layout(raw, g.layout, (*blocks[:-1], max(at, default=-1) + 1), g.type)[..., at].astype(np.float64)


def stood_for(
    case: Case | Alone, values: dict[str, Any], sizes: dict[str, int], off: Bounded, stored: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A result's values, what scales multiply each by (1 without), and how far it may be `off`, where these see it."""
    numbers, error = numbers_of(case, stored[case.result.name], sizes, off.value.shape), off.error
    levels = case.result.granularities("result")
    if not levels:
        return numbers, np.ones(numbers.shape), error
    if isinstance(case, Alone):
        numbers, error = case.seen(numbers, values), case.seen(error, values)
    each = of_blocks(case, levels[0], numbers.shape, stored[case.result.name + "_scale"])
    outer = values.get(case.result.name + "_scale2", np.ones(1)).item()
    return numbers, spread(each, block_shape(levels[0], numbers.shape), numbers.shape) * outer, error


def numbers_of(case: Case | Alone, raw: np.ndarray, sizes: dict[str, int], shape: tuple[int, ...]) -> np.ndarray:
    """The values of a result as it is stored, of those that the program writes."""
    numbers = decode(raw, case.result.element) if ELEMENT_TYPES[case.result.element].bits < 8 else raw
    numbers = numbers[..., case.columns(sizes)] if case.gaps else numbers
    return numbers[tuple(slice(n) for n in shape)].astype(np.float64)


def _scale(amax: np.ndarray, element: str, kind: str) -> np.ndarray:
    """The scale of a block, by docs/language.md, "Quantised results"."""
    if kind == "ue8m0":
        return e8m0_scale(amax, element)
    scale = round_to(amax / ELEMENT_TYPES[element].max, kind)
    return np.where(amax == 0, 1.0, np.maximum(scale, SMALLEST)) if kind == "f32" else scale
