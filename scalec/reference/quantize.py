"""Rounding to every element type, and quantisers and dequantisers for every format.

Sources: OCP OFP8 1.0 (e4m3, e5m2: saturating conversion), OCP Microscaling Formats (MX) 1.0 section 5 (element
types) and 6.3 (conversion to MX: the shared exponent), PTX ISA "cvt" (.satfinite, .rn; NaN of types that have none),
NVIDIA's NVFP4 (two levels). Scales are rounded here and not by ml_dtypes, whose e8m0 rounds to nearest.

NaN and infinity: the fp8, fp6 and fp4 types saturate, infinity included; NaN stays NaN where the type has one
(e4m3, e5m2) and becomes the largest value where it has none (e3m2, e2m3, e2m1: PTX ISA cvt). f16, bf16, tf32 and f32
overflow to infinity as IEEE 754 says. Integers saturate; NaN becomes 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalec.arguments import checked
from scalec.errors import ArgumentError, ScalecError
from scalec.formats import ELEMENT_TYPES, FORMATS, WHOLE, Granularity
from scalec.reference.packing import Element, decode, from_layout, numpy_dtype, to_layout
from scalec.reference.stochastic import rounded
from scalec.schema import one_of

Array = NDArray[Any]
Format = Annotated[str, one_of(FORMATS)]
Rounding = Annotated[str, one_of(("floor", "up"))]
Side = Annotated[str, one_of(("lhs", "rhs", "result"))]
F64 = NDArray[np.float64]

# name -> (mantissa bits, exponent of the smallest normal number), from the formats' specifications named above
GRIDS = {
    "f32": (23, -126),
    "tf32": (10, -126),
    "bf16": (7, -126),
    "f16": (10, -14),
    "e4m3": (3, -6),
    "ue4m3": (3, -6),
    "e5m2": (2, -14),
    "e3m2": (2, -2),
    "e2m3": (3, 0),
    "e2m1": (1, 0),
}
OVERFLOWS = ("f32", "tf32", "bf16", "f16")  # the other types saturate
HAS_NAN = (*OVERFLOWS, "e4m3", "e5m2", "ue4m3")
INTEGERS = ("i4", "u4", "i8", "i32")

# Exponent of the largest normal number of a type: OCP MX 1.0, emax_elem of section 6.3.
EMAX = {"e4m3": 8, "e5m2": 15, "e3m2": 4, "e2m3": 2, "e2m1": 2, "i4": 2, "u4": 3, "i8": 6}
EMAX |= {"f16": 15, "bf16": 127, "tf32": 127}
_WIDE = ("f32", "bf16", "ue8m0")  # scales with the exponents of f32
SMALLEST = 2.0**-126  # of f32 scales: their reciprocals are finite
LARGEST_INVERSE = np.float32(2.0**118)  # of a given scale: times that of the least ue4m3, 2^9, it is finite
E8M0_BIAS, E8M0_MAX = 127, 127  # ue8m0 stands for 2^(code - 127), code 255 for NaN (OCP MX 1.0, section 5.4.1)


@checked
def round_to(x: ArrayLike, element: Element) -> F64:
    """`x` rounded to the nearest value of a type, ties to even, in float64 (module docstring: overflow and NaN).

    Raises:
        ScalecError: for ue8m0, whose rounding is the format's (`e8m0_scale`), and for an unknown type.
    """
    shape = np.shape(x)
    v = np.atleast_1d(np.asarray(x, dtype=np.float64))
    return _round(v, element).reshape(shape)


def _round(v: F64, element: str) -> F64:
    if element in INTEGERS:
        largest = ELEMENT_TYPES[element].max
        least = 0.0 if element.startswith("u") else -largest - 1
        return np.clip(np.rint(np.nan_to_num(v, nan=0.0)), least, largest)
    if element not in GRIDS:
        raise ScalecError(f"no rounding to {element}", expected="one of " + ", ".join((*GRIDS, *INTEGERS)))
    if element == "f32":
        with np.errstate(over="ignore"):
            return v.astype(np.float32).astype(np.float64)
    mantissa, emin = GRIDS[element]
    largest = ELEMENT_TYPES[element].max
    # the spacing of the type's values around v is a power of two: taken from v's own exponent field
    field = np.maximum((np.ascontiguousarray(v).view(np.int64) >> 52) & 0x7FF, emin + 1023) - mantissa
    spacing = (field << 52).view(np.float64).reshape(v.shape)
    q = np.rint(v / spacing)
    q *= spacing
    if element in OVERFLOWS:
        q[np.abs(q) > largest] *= np.inf
        return q
    low = 0.0 if element.startswith("u") else -largest
    np.clip(q, low, largest, out=q)
    return q if element in HAS_NAN else np.nan_to_num(q, copy=False, nan=largest)


@checked
def cast(x: ArrayLike, element: Element) -> Array:
    """`x` rounded as `round_to` does, as an array of the type's dtype (one element an entry)."""
    return round_to(x, element).astype(numpy_dtype(element))


def cast_by_chance(x: ArrayLike, element: Element, bits: Array | None) -> Array:
    """`cast`, of what is rounded up or down first by an element's random bits (`stochastic.rounded`); None: `cast`."""
    if bits is None:
        return cast(x, element)
    if np.asarray(bits).dtype != np.uint32 or np.shape(bits) != np.shape(x):
        found = f"{np.asarray(bits).dtype}, {np.shape(bits)}"
        raise ArgumentError("bits do not fit", got=found, expected=f"uint32, {np.shape(x)}: 32 for each element")
    if element not in GRIDS:
        raise ArgumentError(f"no rounding to {element} by chance", expected=", ".join(GRIDS))
    return cast(rounded(np.asarray(x), *GRIDS[element], bits), element)


@checked
def e8m0_scale(amax: ArrayLike, element: Annotated[str, one_of(EMAX)], rounding: Rounding = "floor") -> F64:
    """The ue8m0 scale of blocks whose largest magnitude is `amax`, as a float64 power of two.

    Args:
        amax: largest magnitudes, >= 0 or NaN.
        element: the type of the block's elements.
        rounding: "floor" is OCP MX 1.0, section 6.3: 2^(floor(log2 amax) - emax(element)), with elements above the
            largest value saturating. "up" is 2^ceil(log2(amax / max(element))): no element saturates.

    Returns:
        the scales, within [2^-127, 2^127]; 2^-127 for a block of zeros, NaN for a block with a NaN.
    """
    a = np.asarray(amax, dtype=np.float64)
    # frexp: a = f * 2^e with f in [0.5, 1), exact where log2 would round
    if rounding == "floor":
        _, e = np.frexp(a)
        e = e - 1 - EMAX[element]
    else:
        f, e = np.frexp(a / ELEMENT_TYPES[element].max)
        e = np.where(f == 0.5, e - 1, e)
    e = np.where(a == 0, -E8M0_BIAS, np.where(np.isinf(a), E8M0_MAX, e))
    out = np.ldexp(1.0, np.clip(e, -E8M0_BIAS, E8M0_MAX))
    return np.where(np.isnan(a), np.nan, out)


@checked
def encode_scale(scales: ArrayLike, element: Element) -> Array:
    """Scale values as an array of the scale type. For ue8m0 the values must be powers of two or NaN."""
    v = np.asarray(scales, dtype=np.float64)
    if element != "ue8m0":
        return cast(v, element)
    f, e = np.frexp(v)
    nan = np.isnan(v)
    if np.any((f != 0.5) & ~nan):
        raise ScalecError("a ue8m0 scale is a power of two", fix="round with e8m0_scale first")
    codes = np.where(nan, 255, e - 1 + E8M0_BIAS)
    return codes.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


# --------------------------------------------------------------------------------------------------------- blocks


def block_shape(g: Granularity, shape: Sequence[int]) -> tuple[int, ...]:
    """The block of a granularity for a tensor: one entry an index, as many elements as a whole index has; WHOLE where
    that is none, since there is a scale of it nevertheless."""
    block = (WHOLE,) * len(shape) if g.tensor else (1,) * (len(shape) - len(g.block)) + tuple(g.block)
    if len(block) != len(shape):
        raise ScalecError(f"a block of {len(g.block)} entries for a tensor of rank {len(shape)}")
    return tuple(n or WHOLE if b == WHOLE else b for b, n in zip(block, shape, strict=True))


def scale_shape(block: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """How many blocks there are along each index; the last may be ragged."""
    return tuple(1 if b == WHOLE else -(-n // b) for n, b in zip(shape, block, strict=True))


Places = Mapping[int, tuple[int, Array]]
"""By axis along which groups have blocks of their own: how many elements are counted, and which of these each element
is, -1 for those of no group."""


def counted(shape: Sequence[int], places: Places) -> tuple[int, ...]:
    """The elements of which there are blocks."""
    return tuple(places[axis][0] if axis in places else n for axis, n in enumerate(shape))


def placed(x: Array, places: Places) -> Array:
    """A tensor's elements where they are counted, 0 between them."""
    for axis, (count, place) in places.items():
        made = np.zeros((*x.shape[:axis], count, *x.shape[axis + 1 :]), x.dtype)
        np.moveaxis(made, axis, 0)[place[place >= 0]] = np.moveaxis(x, axis, 0)[place >= 0]
        x = made
    return x


def taken(x: Array, places: Places) -> Array:
    """What `placed` elements have become, each at its place in the tensor; what is of no group may be anything."""
    for axis, (_, place) in places.items():
        x = x.take(place, axis)
    return x


def block_amax(x: ArrayLike, block: Sequence[int]) -> F64:
    """The largest magnitude of each block; NaN where the block has one, 0 of no elements."""
    a = np.abs(np.asarray(x, dtype=np.float64))
    for axis in range(a.ndim - 1, -1, -1):
        if block[axis] == WHOLE:
            a = np.max(a, axis=axis, keepdims=True, initial=0.0)
        if block[axis] > 1 and a.shape[axis]:
            a = np.maximum.reduceat(a, np.arange(0, a.shape[axis], block[axis]), axis=axis)
    return a


def spread(scales: Array, block: Sequence[int], shape: Sequence[int]) -> Array:
    """Each scale repeated over its block: the inverse walk of `block_amax`. A scale per element, or broadcastable."""
    for axis, (b, n) in enumerate(zip(block, shape, strict=True)):
        if b > 1 and scales.shape[axis] > 1:
            scales = np.repeat(scales, b, axis=axis)[(slice(None),) * axis + (slice(n),)]
    return scales


# ------------------------------------------------------------------------------------------------------ quantisers


@dataclass(frozen=True)
class Quantized:
    """A quantised tensor."""

    element: str  # name of the element type
    levels: tuple[Granularity, ...]  # its scales' granularities, innermost first
    values: Array  # the elements, in the element type's dtype, one an entry
    # one array of scales a level, one scale a block, in the scale type's dtype (`memory` lays them out).
    scales: tuple[Array, ...]
    exact: F64  # float64 values / scales before rounding to the element type

    def memory(self) -> tuple[Array, ...]:
        """The scales in the layouts of their granularities."""
        return tuple(to_layout(s, g.layout) for s, g in zip(self.scales, self.levels, strict=True))

    def dequantized(self) -> F64:
        """The values the quantised tensor stands for, in float64."""
        return dequantize(self.values, self.memory(), self.element, self.levels)


def _level_scale(amax: F64, largest: float, element: str, g: Granularity, rounding: str) -> F64:
    """The scales of one level whose blocks have the given largest magnitudes, rounded to the scale's type."""
    if g.type == "ue8m0":
        return e8m0_scale(amax, element, rounding)
    scale = round_to(amax / largest, g.type)
    # A block of zeros: an f32 scale of 1 rather than a 0 that a later division meets. ue4m3 keeps its 0.
    return np.where(amax == 0, 1.0, np.maximum(scale, SMALLEST)) if g.type == "f32" else scale


def _divided(x: F64, scales: F64, inverse: np.float32 | None = None) -> F64:
    """What values are rounded from: x and the scale's reciprocal, each in f32, and their product, in f32.

    So quantisers compute it, once a block and once an element; with ue8m0 it is x / scale exactly. The reciprocal of a
    scale that rounded to 0 (ue4m3) is 0: the block's values are zeros. So are zeros of which the reciprocal is infinite
    (two levels, a block of zeros with the least ue8m0); those of a block with a NaN are NaN. `inverse` multiplies the
    reciprocal, which is rounded again and no larger than the largest f32, so that zeros stay zeros.
    """
    with np.errstate(all="ignore"):
        reciprocal = np.where(scales == 0, 0.0, 1 / scales).astype(np.float32)
        if inverse is not None:
            largest = np.finfo(np.float32).max
            return (x.astype(np.float32) * np.clip(reciprocal * inverse, -largest, largest)).astype(np.float64)
        zeros = (x == 0) & ~np.isnan(reciprocal)
        return np.where(zeros, x, x.astype(np.float32) * reciprocal).astype(np.float64)


@checked
def quantize(
    x: ArrayLike,
    element: Element,
    levels: Sequence[Granularity],
    rounding: Rounding = "floor",
    bits: Array | None = None,
) -> Quantized:
    """Quantises a tensor with one or two levels of scales.

    One level: scale = amax(block) / max(element), rounded to the scale's type (ue8m0: `e8m0_scale`), and
    value = x / scale (`_divided`). Two levels (NVFP4): the outer scale is amax(tensor) / (max(element) * max(inner
    scale)), so that the inner scales amax(block) / max(element) / outer fill their type's range; where that has the
    exponents of f32, amax(tensor) / max(element), so that the largest inner scale is about 1.

    Args:
        x: the tensor, any shape and any float or integer dtype.
        element: name of the element type.
        levels: granularities, innermost first; their blocks may have ragged tails.
        rounding: of ue8m0 scales, "floor" (OCP) or "up".
        bits: 32 random ones for each element, by which values are rounded; None: to nearest.
    """
    v = np.asarray(x).astype(np.float64, copy=False)
    largest = ELEMENT_TYPES[element].max
    if not 1 <= len(levels) <= 2:
        raise ScalecError(f"quantises with one or two levels of scales, got {len(levels)}")
    blocks = [block_shape(g, v.shape) for g in levels]
    found: list[F64] = []
    total: Any = 1.0
    for i in range(len(levels) - 1, -1, -1):
        inner = ELEMENT_TYPES[levels[0].type].max if i == 1 and levels[0].type not in _WIDE else 1.0
        amax = block_amax(v / total if i < len(levels) - 1 else v, blocks[i])
        found.insert(0, _level_scale(amax, largest * inner, element, levels[i], rounding))
        total = total * spread(found[0], blocks[i], v.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.where(total == 0, 0.0, v / total)
    scales = tuple(encode_scale(s, g.type) for s, g in zip(found, levels, strict=True))
    return Quantized(element, tuple(levels), cast_by_chance(_divided(v, total), element, bits), scales, exact)


@checked
def dequantize(values: Array, scales: Sequence[Array], element: Element, levels: Sequence[Granularity]) -> F64:
    """`values[i] * scales[i / block]`, each level, in float64.

    Args:
        values: elements of type `element`, or their raw bytes (4-bit: two a byte).
        scales: an array a level, innermost first, in the granularity's layout.

    Raises:
        ScalecError: where an array has the wrong shape or dtype.
    """
    if len(scales) != len(levels):
        raise ArgumentError("an array of scales a level", got=f"{len(scales)}", expected=f"{len(levels)}")
    out = decode(np.asarray(values), element).astype(np.float64)
    for array, g in zip(scales, levels, strict=True):
        out *= expand_scales(np.asarray(array), g, out.shape)
    return out


def expand_scales(scales: Array, g: Granularity, shape: Sequence[int], places: Places | None = None) -> F64:
    """The scales of one level, in memory form, as float64 broadcastable to the tensor's shape."""
    block, every = block_shape(g, shape), counted(shape, places or {})
    if not (g.layout == "packed" and scales.dtype.itemsize == 4):
        scales = decode(scales, g.type)
    each = from_layout(scales, g.layout, scale_shape(block, every), g.type)
    return taken(spread(each.astype(np.float64), block, every), places or {})


@checked
def quantize_format(x: ArrayLike, name: Format, side: Side = "lhs", rounding: Rounding = "floor") -> Quantized:
    """`quantize` with the element type and levels of a named format, as the `side` "lhs", "rhs" or "result"."""
    form = FORMATS[name]
    levels = {"lhs": form.lhs, "rhs": form.rhs, "result": form.result}[side]
    return quantize(x, form.element, levels, rounding)


@checked
def quantize_given(
    x: ArrayLike,
    element: Element,
    level: Granularity,
    outer: float | None,
    bits: Array | None = None,
    largest: Array | None = None,
) -> Quantized:
    """`quantize` with one level of scales within a scale of the whole tensor that is given, as results are quantised.

    The blocks' largest magnitudes are multiplied by the f32 reciprocal of `outer` before their scales are found, and
    the reciprocals of these by it again, each product rounded to f32 (`_divided`): what is rounded to the element type
    is then one product an element. With a negative `outer` values change their sign; its reciprocal is at most 2^118.

    Args:
        x: the tensor; its values are taken as f32.
        outer: the given scale, as f32; None where there is none.
        largest: numbers by whose magnitudes blocks are scaled, one a block; None: by those of their own.
        bits: as those of `quantize`.

    Returns:
        the values, and the scales of `level` alone; `exact` is x / (scale * outer), without a bound.

    Raises:
        ArgumentError: `largest` or `bits` has another shape.
    """
    v = np.asarray(x).astype(np.float64, copy=False)
    block = block_shape(level, v.shape)
    with np.errstate(all="ignore"):
        inverse = np.clip(np.float32(1) / np.float32(1 if outer is None else outer), -LARGEST_INVERSE, LARGEST_INVERSE)
        own = block_amax(v, block)
        if largest is not None and np.shape(largest) != own.shape:
            raise ArgumentError(
                "largest does not fit", got=f"{np.shape(largest)}", expected=f"{own.shape}: one a block"
            )
        own = own if largest is None else np.abs(largest)
        amax = own if outer is None else (own.astype(np.float32) * np.abs(inverse)).astype(np.float64)
        found = _level_scale(amax, ELEMENT_TYPES[element].max, element, level, "floor")
        total = spread(found, block, v.shape)
        exact = np.where(total == 0, 0.0, v / (total * (1 if outer is None else outer)))
    values = cast_by_chance(_divided(v, total, None if outer is None else inverse), element, bits)
    return Quantized(element, (level,), values, (encode_scale(found, level.type),), exact)
