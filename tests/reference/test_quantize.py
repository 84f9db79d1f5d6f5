"""Rounding and quantisers against the specifications."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalec.errors import ScalecError
from scalec.formats import ELEMENT_TYPES, FORMATS, WHOLE, Granularity
from scalec.reference import (
    cast,
    dequantize,
    e8m0_scale,
    encode_scale,
    numpy_dtype,
    quantize,
    quantize_format,
    quantize_given,
    round_to,
)
from scalec.reference.quantize import GRIDS

SMALL = ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]


def finite_values(element: str) -> np.ndarray:
    """Every finite value of a type, from its bit patterns as ml_dtypes decodes them."""
    bits = ELEMENT_TYPES[element].bits
    v = np.arange(1 << bits, dtype=np.uint16 if bits == 16 else np.uint8).view(numpy_dtype(element))
    with np.errstate(invalid="ignore"):  # the NaN patterns
        v = v.astype(np.float64)
    return np.unique(v[np.isfinite(v)])


def test_e2m1_values_of_the_ocp_table() -> None:
    assert finite_values("e2m1").tolist() == [-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6]


@pytest.mark.parametrize(
    ("element", "x", "want"),
    [
        ("e2m1", [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], [0, 1, 1, 2, 2, 4, 4]),  # ties to the even mantissa
        ("e2m1", [5.01, 7, 1e9, -math.inf, math.nan], [6, 6, 6, -6, 6]),
        ("e4m3", [464, 465, 1e6, math.inf, -math.inf], [448, 448, 448, 448, -448]),
        ("e4m3", [2**-10, 1.5 * 2**-9, 2**-9, 17, 19], [0, 2**-8, 2**-9, 16, 20]),
        ("e5m2", [57344, 61440, 1e9, math.inf], [57344, 57344, 57344, 57344]),
        ("e3m2", [28, 29, 100, math.nan], [28, 28, 28, 28]),
        ("e2m3", [7.5, 8, math.nan, 0.0625], [7.5, 7.5, 7.5, 0]),
        ("bf16", [1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, math.inf], [1, 1 + 2**-6, math.inf, math.inf]),
        ("f16", [65519, 65520, 2**-25, 1.5 * 2**-25], [65504, math.inf, 0, 2**-24]),
        ("tf32", [1 + 2**-11, 1 + 3 * 2**-11, 3.4028234663852886e38], [1, 1 + 2**-9, math.inf]),
        ("i8", [0.5, 1.5, 127.6, -128.7, math.nan, math.inf], [0, 2, 127, -128, 0, 127]),
        ("i4", [0.5, 1.5, 7.6, -8.7, math.nan, math.inf], [0, 2, 7, -8, 0, 7]),
        ("ue4m3", [-1, 0.3, 500], [0, 0.3125, 448]),
    ],
)
def test_rounding_worked_by_hand(element: str, x: list[float], want: list[float]) -> None:
    assert round_to(x, element).tolist() == want


@pytest.mark.parametrize("element", [*SMALL, "bf16", "f16"])
def test_rounding_is_to_nearest_even_on_every_midpoint(element: str) -> None:
    v = finite_values(element)
    assert (round_to(v, element) == v).all()
    middle = (v[:-1] + v[1:]) / 2
    for x in (middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)):
        got = round_to(x, element)
        below, above = np.abs(x - v[:-1]), np.abs(x - v[1:])
        if x is middle:  # the even one has an even bit pattern
            odd = v[:-1].astype(numpy_dtype(element)).view(np.uint16 if element in ("bf16", "f16") else np.uint8) & 1
            assert (got == np.where(odd, v[1:], v[:-1])).all()
        else:
            assert (got == np.where(below < above, v[:-1], v[1:])).all()


def test_nan_where_a_type_has_one_and_the_sign_of_zero() -> None:
    for element in ("e4m3", "e5m2", "bf16", "f16", "tf32", "f32"):
        assert math.isnan(round_to(math.nan, element))
    assert math.copysign(1, float(round_to(-1e-9, "e2m1"))) == -1
    assert cast([-0.1, 0.3], "e2m1").view(np.uint8).tolist() == [8, 1]


def test_double_rounding_does_not_happen() -> None:
    # just above a bf16 tie, in bits that f32 does not have: f64 -> f32 -> bf16 would round down to even
    assert round_to(1 + 2**-8 + 2**-40, "bf16") == 1 + 2**-7


def test_ue8m0_is_not_rounded_to_nearest() -> None:
    with pytest.raises(ScalecError, match="ue8m0"):
        round_to(1.0, "ue8m0")
    with pytest.raises(ScalecError, match="power of two"):
        encode_scale(3.0, "ue8m0")
    assert encode_scale([1.0, 2.0**-127, 2.0**127, math.nan], "ue8m0").view(np.uint8).tolist() == [127, 0, 254, 255]


@pytest.mark.parametrize(
    ("element", "amax", "floor", "up"),
    [
        # 2^(floor(log2 amax) - emax) of OCP MX 6.3; 2^ceil(log2(amax / max))
        ("e4m3", 448.0, 2.0**0, 2.0**0),
        ("e4m3", 449.0, 2.0**0, 2.0**1),
        ("e4m3", 511.9, 2.0**0, 2.0**1),
        ("e4m3", 512.0, 2.0**1, 2.0**1),
        ("e4m3", 1.0, 2.0**-8, 2.0**-8),
        ("e5m2", 1.0, 2.0**-15, 2.0**-15),
        ("e5m2", 1.99, 2.0**-15, 2.0**-14),
        ("e3m2", 1.0, 2.0**-4, 2.0**-4),
        ("e2m3", 1.0, 2.0**-2, 2.0**-2),
        ("e2m1", 1.0, 2.0**-2, 2.0**-2),
        ("e2m1", 6.5, 2.0**0, 2.0**1),
        ("e2m1", 0.0, 2.0**-127, 2.0**-127),
        ("e2m1", 1e-300, 2.0**-127, 2.0**-127),
        ("e2m1", math.inf, 2.0**127, 2.0**127),
    ],
)
def test_shared_exponent_of_the_ocp_rule(element: str, amax: float, floor: float, up: float) -> None:
    assert e8m0_scale(amax, element) == floor
    assert e8m0_scale(amax, element, "up") == up


def test_nan_in_a_block_makes_its_scale_nan() -> None:
    x = np.ones((1, 64))
    x[0, 3] = math.nan
    q = quantize_format(x, "mxfp8")
    assert q.scales[0].view(np.uint8).tolist() == [[255, 127 - 8]]


def test_mxfp4_block_worked_by_hand() -> None:
    x = np.zeros((1, 32))
    x[0, :6] = [10.0, -3.0, 1.0, 0.4, 15.9, 7.0]
    q = quantize_format(x, "mxfp4")
    # amax 15.9: floor(log2) = 3, minus emax 2: scale 2
    assert q.scales[0].astype(float).tolist() == [[2.0]]
    # halves: 5 ties to 4, -1.5, 0.5, 0.2 to 0, 7.95 saturates at 6, 3.5 ties to 4
    assert q.values[0, :6].astype(float).tolist() == [4, -1.5, 0.5, 0, 6, 4]
    assert q.dequantized()[0, :6].tolist() == [8, -3, 1, 0, 12, 8]


def test_nvfp4_two_levels_worked_by_hand() -> None:
    x = np.zeros((2, 32))
    x[0, 0], x[0, 16], x[1, 0] = 2688.0, -6.0, 300.0
    q = quantize_format(x, "nvfp4")
    # tensor: 2688 / (6 * 448) = 1. blocks: 2688/6 = 448; 6/6 = 1; 300/6 = 50 lies between 48 and 52; zero stays 0
    assert q.scales[1].tolist() == [[1.0]]
    assert q.scales[0].astype(float).tolist() == [[448, 1], [48, 0]]
    # 300/48 = 6.25 saturates at 6
    assert (float(q.values[0, 0]), float(q.values[0, 16]), float(q.values[1, 0])) == (6, -6, 6)
    assert q.dequantized()[1, 0] == 288
    assert not q.values[1, 16:].astype(float).any()


@pytest.mark.parametrize("kind", ["f32", "ue8m0"])
def test_two_levels_of_the_exponents_of_f32_can_be_multiplied_in_f32(kind: str) -> None:
    """Scales of both operands, which a kernel multiplies before the scales of whole tensors."""
    x = np.random.default_rng(0).standard_normal((8, 256)) * np.exp2(np.arange(8))[:, None]
    x[2], x[3, :128] = 0, 0
    q = quantize(x, "e4m3", [Granularity((1, 128), kind), Granularity((), tensor=True)])
    inner = q.scales[0].astype(np.float64)
    assert 0.5 <= inner.max() <= 1
    assert np.isfinite(inner.astype(np.float32) ** 2).all()
    assert abs(q.dequantized() - x).max() <= 2.0**-4 * abs(x).max()
    assert not quantize(x / 2**9, "e4m3", q.levels).values.astype(float)[x == 0].any()


def test_a_given_outer_scale_worked_by_hand() -> None:
    """As numpy's f32 does it step by step; 0.2 has no exact reciprocal, and 5 * (1/0.2) is rounded."""
    inverse = np.float32(1) / np.float32(0.2)
    x = np.zeros((2, 32))
    x[0, :3], x[0, 16:18], x[1, 0] = (7.3, -1.1, 0.4), (1e-4, -2e-5), np.inf
    q = quantize_given(x, "e2m1", Granularity((1, 16), "ue4m3"), 0.2)
    first = round_to(np.float32(7.3) * inverse / 6.0, "ue4m3")
    assert q.scales[0].astype(float).tolist() == [[float(first), 0.0], [448.0, 0.0]]
    multiplier = np.float32(1 / first) * inverse
    want = round_to(x[0, :3].astype(np.float32) * multiplier, "e2m1")
    assert q.values[0, :3].astype(float).tolist() == want.tolist()
    assert q.values[0, 3:].astype(float).tolist() == [0.0] * 13 + [0.0, -0.0] + [0.0] * 14  # of a scale that is 0
    assert q.values[1, 0].astype(float) == 6
    np.testing.assert_allclose(q.exact[0, :3], x[0, :3] / (float(first) * 0.2), rtol=1e-6)


@pytest.mark.parametrize(("kind", "least"), [("ue8m0", 0.0), ("f32", 2.0**-149)])
def test_zeros_stay_zeros_within_a_small_outer_scale(kind: str, least: float) -> None:
    """The least scale's reciprocal times that of the outer one overflows f32: of a block of zeros with ue8m0."""
    x = np.zeros((1, 32))
    x[0, 0] = least
    q = quantize_given(x, "e4m3", Granularity((1, 32), kind), 2.0**-20)
    assert not q.values[0, 1:].astype(float).any()


def test_outer_scales_that_are_none() -> None:
    """A negative one changes the values' sign, not the scales; of one too small the reciprocal is 2^118."""
    level, x = Granularity((1, 16), "ue4m3"), np.full((1, 16), 3.0)
    plus, minus = (quantize_given(x, "e2m1", level, outer) for outer in (0.5, -0.5))
    assert plus.scales[0].astype(float).tolist() == minus.scales[0].astype(float).tolist() == [[1.0]]
    assert (plus.values.astype(float) == 6).all()
    assert (minus.values.astype(float) == -6).all()
    small = quantize_given(x * 2.0**-120, "e2m1", level, 2.0**-125)  # 0.75 of it is 3 * 2^-120 * 2^118
    assert small.scales[0].astype(float).tolist() == [[0.125]]
    assert (small.values.astype(float) == 6).all()


def test_f32_scale_is_amax_over_max_and_one_for_zeros() -> None:
    x = np.zeros((2, 256), np.float32)
    x[0, 5], x[1, 200] = 896.0, -1.0
    q = quantize(x, "e4m3", [Granularity((1, 128))])
    assert q.scales[0].dtype == np.float32
    assert q.scales[0].tolist() == [[2.0, 1.0], [1.0, np.float32(1 / 448)]]
    assert (float(q.values[0, 5]), float(q.values[1, 200])) == (448, -448)


@pytest.mark.parametrize(
    ("g", "shape", "blocks"),
    [
        (Granularity((1, 128)), (3, 300), (3, 3)),
        (Granularity((128, 128)), (130, 129), (2, 2)),
        (Granularity((1, -1)), (3, 7), (3, 1)),
        (Granularity((), tensor=True), (3, 7), (1, 1)),
        (Granularity((1, 32), "ue8m0"), (2, 3, 70), (2, 3, 3)),
        (Granularity((1, 32), "ue8m0", "packed"), (3, 170), (3, 2)),
        (Granularity((1, 32), "ue8m0", "blocked"), (3, 170), (128, 8)),
        (Granularity((5, 3), layout="col"), (12, 7), (3, 3)),
    ],
)
def test_granularities_with_ragged_tails(g: Granularity, shape: tuple[int, ...], blocks: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    q = quantize(x, "e4m3", [g])
    (memory,) = q.memory()
    assert memory.shape == blocks
    # by hand: each element with the scale of its own block
    want = q.values.astype(np.float64)
    block = shape if g.tensor else (1,) * (len(shape) - len(g.block)) + g.block
    sizes = [n if b == -1 else b for n, b in zip(shape, block, strict=True)]
    for i in np.ndindex(*shape):
        want[i] *= float(q.scales[0][tuple(a // b for a, b in zip(i, sizes, strict=True))])
    assert (dequantize(q.values, [memory], "e4m3", [g]) == want).all()
    assert np.abs(want - x).max() < 0.13 * np.abs(x).max()  # 1/8: what the OCP scale saturates at most


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(sorted(FORMATS)),
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=80),
    st.sampled_from(["floor", "up"]),
)
def test_error_is_half_an_ulp_times_the_scale(name: str, row: list[float], rounding: str) -> None:
    x = np.array([row])
    q = quantize_format(x, name, rounding=rounding)
    element = q.element
    mantissa, emin = GRIDS[element]
    largest = ELEMENT_TYPES[element].max
    scale = np.divide(q.dequantized(), q.values.astype(np.float64), where=q.values != 0, out=np.ones_like(x))
    for v, got, s, e in zip(x[0], q.dequantized()[0], scale[0], q.exact[0], strict=True):
        if abs(e) > largest:  # saturated: only where the scale was rounded down
            assert got == pytest.approx(math.copysign(largest, v) * s, rel=1e-6)
            continue
        if e == 0 or got == 0:
            continue
        half_ulp = 2.0 ** (max(math.floor(math.log2(abs(e))), emin) - mantissa) / 2
        assert abs(v - got) <= half_ulp * abs(s) * (1 + 1e-6)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40), st.sampled_from(["mxfp8", "mxfp6", "mxfp4"]))
def test_scales_rounded_up_never_saturate(row: list[float], name: str) -> None:
    q = quantize_format(np.array([row]), name, rounding="up")
    assert (np.abs(q.exact) <= ELEMENT_TYPES[q.element].max).all()


def test_ml_dtypes_would_round_scales_otherwise() -> None:
    """The reason for e8m0_scale: what ml_dtypes makes of 3 is not the OCP rule's exponent of 3."""
    assert float(np.array(3.0).astype(ml_dtypes.float8_e8m0fnu)) != 2.0
    assert e8m0_scale(3.0, "e2m1") * 4 == 2.0


@pytest.mark.parametrize(("shape", "block"), [((0, 8), (WHOLE, 4)), ((4, 0), (1, WHOLE)), ((0, 0), (WHOLE, WHOLE))])
def test_a_whole_index_of_no_elements_has_one_scale(shape: tuple[int, int], block: tuple[int, int]) -> None:
    g = Granularity((), tensor=True) if block == (WHOLE, WHOLE) else Granularity(block)
    q = quantize(np.empty(shape), "e4m3", [g])
    assert q.scales[0].shape == tuple(1 if b == WHOLE else -(-n // b) for n, b in zip(shape, block, strict=True))
    assert (q.scales[0] == 1).all()
    assert q.dequantized().shape == shape
