"""The arithmetic of tcgen05.mma: elements out of bytes, exact sums rounded once, scales, special values."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from scalec.emulator.findings import Finding
from scalec.emulator.layouts.instruction_descriptor import InstructionDescriptor
from scalec.emulator.tensor_tcgen05 import decode, elements, multiply, products

NAN = 0x7FFFFFFF


def kind(name: str, k: int, a: str, b: str | None = None, **fields) -> InstructionDescriptor:
    return InstructionDescriptor(name, 128, 64, k, a, b or a, **fields)


FP16 = kind("f16", 16, "f16")
BF16 = kind("f16", 16, "bf16")
TF32 = kind("tf32", 8, "tf32")
E4M3 = kind("f8f6f4", 32, "e4m3")
E5M2 = kind("f8f6f4", 32, "e5m2")

NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
NUMPY |= {"tf32": np.float32, "e2m1": ml_dtypes.float4_e2m1fn}


def row(descriptor: InstructionDescriptor, *values: float, type_: str = "") -> np.ndarray:
    """One row of K codes: the values, then zeros."""
    dtype = np.dtype(NUMPY[type_ or descriptor.a_type])
    padded = np.array([*values, *[0.0] * (descriptor.k - len(values))]).astype(dtype)
    assert (padded[: len(values)].astype(float) == values).all() or not np.isfinite(values).all()
    return padded.view(f"u{dtype.itemsize}")[None]


def f32(value: float) -> np.ndarray:
    return np.array([[value]], np.float32).view(np.uint32)


def one(words: np.ndarray) -> float:
    return float(words.view(np.float32)[0, 0])


# -- elements ----------------------------------------------------------------------------------------------------------


def bytes_of(*first: int) -> np.ndarray:
    return np.array([*first, *[0] * (32 - len(first))], np.uint8)[None]


def test_wide_elements_are_little_endian():
    assert elements(bytes_of(0x00, 0x3C), "f16", "f16", tensor_memory=False)[0, 0] == 0x3C00
    assert elements(bytes_of(0, 0, 0x80, 0x3F), "tf32", "tf32", tensor_memory=True).tolist() == [[0x3F800000] + [0] * 7]
    assert elements(bytes_of(9, 8), "e4m3", "f8f6f4", tensor_memory=False)[0, :2].tolist() == [9, 8]


def test_four_bits_in_shared_memory_are_padded_and_in_tensor_memory_in_containers():
    raw = bytes_of(0x21, 0x43, 0, 0, 0, 0, 0, 0xF0, *[0xFF] * 8, 0x05)  # 16 elements, 8 bytes of padding, the 17th
    codes = elements(raw, "e2m1", "mxf8f6f4", tensor_memory=False)
    assert codes.shape == (1, 32)
    assert codes[0, [0, 1, 2, 3, 4, 14, 15, 16, 17]].tolist() == [1, 2, 3, 4, 0, 0, 15, 5, 0]
    codes = elements(bytes_of(0x04, 0x3C), "e2m1", "f8f6f4", tensor_memory=True)
    assert codes.shape == (1, 32)
    assert codes[0, :3].tolist() == [1, 15, 0]


def test_six_bits():
    raw = bytes_of(0x81, 0x30, 0x10, *[0] * 9, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F)  # elements 1 to 4, padding, element 16
    codes = elements(raw, "e3m2", "f8f6f4", tensor_memory=False)
    assert codes.shape == (1, 32)
    assert codes[0, [0, 1, 2, 3, 4, 15, 16, 17]].tolist() == [1, 2, 3, 4, 0, 0, 63, 0]
    assert elements(bytes_of(0xC5), "e2m3", "f8f6f4", tensor_memory=True)[0, 0] == 5


@pytest.mark.parametrize("tensor_memory", [False, True])
def test_mxf4_packs_two_to_a_byte_everywhere(tensor_memory):
    codes = elements(bytes_of(0x21, 0xF3), "e2m1", "mxf4nvf4", tensor_memory=tensor_memory)
    assert codes.shape == (1, 64)
    assert codes[0, :5].tolist() == [1, 2, 3, 15, 0]


def test_values():
    assert decode(np.arange(8, dtype=np.uint8), "e2m1").tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert decode(np.array([0x1F, 0x3F], np.uint8), "e2m3").tolist() == [7.5, -7.5]
    assert decode(np.array([0x1F, 0x01], np.uint8), "e3m2").tolist() == [28, 0.0625]
    assert decode(np.array([0, 127, 254], np.uint8), "ue8m0").tolist() == [2.0**-127, 1, 2.0**127]
    assert decode(np.array([0x01, 0x38, 0x7E], np.uint8), "ue4m3").tolist() == [2.0**-9, 1, 448]
    assert np.isnan(decode(np.array([0xFF], np.uint8), "ue8m0"))
    # tf32: the 13 lower bits of a float32 do not count
    assert decode(np.array([0x3F801FFF, 0x3F802000], np.uint32), "tf32").tolist() == [1, 1 + 2.0**-10]


# -- sums --------------------------------------------------------------------------------------------------------------


def test_products_and_the_accumulator_by_hand():
    a, b = row(FP16, 1, 2, -3), row(FP16, 4, 0.5, 1)  # 4 + 1 - 3
    assert one(multiply(FP16, a, b)) == 2
    assert one(multiply(FP16, a, b, f32(10))) == 12
    assert one(multiply(FP16, a, b, f32(10), scale_d=2)) == 4.5
    assert one(multiply(kind("f16", 16, "f16", negate_a=True), a, b, f32(10))) == 8
    assert one(multiply(kind("f16", 16, "f16", negate_b=True), a, b, f32(10))) == 8
    assert one(multiply(kind("f16", 16, "f16", negate_a=True, negate_b=True), a, b, f32(10))) == 12


def test_rows_of_a_are_rows_of_d_and_rows_of_b_its_columns():
    a = np.concatenate([row(E4M3, 1, 2), row(E4M3, 3, 4), row(E4M3, 0, 0.5)])
    b = np.concatenate([row(E4M3, 1, 1), row(E4M3, 8, 0)])
    assert multiply(E4M3, a, b).view(np.float32).tolist() == [[3, 8], [7, 24], [0.5, 0]]


def test_types_of_a_and_b_may_differ():
    mixed = kind("f8f6f4", 32, "e4m3", "e5m2")
    assert one(multiply(mixed, row(mixed, 1.125), row(mixed, 49152, type_="e5m2"))) == 55296


def test_scale_input_d_is_for_two_kinds():
    for descriptor, scale in ((E4M3, 1), (FP16, 16), (FP16, -1)):
        with pytest.raises(Finding) as caught:
            multiply(descriptor, row(descriptor, 1), row(descriptor, 1), f32(1), scale_d=scale)
        assert caught.value.kind == "illegal"
    assert one(multiply(TF32, row(TF32, 1), row(TF32, 1), f32(2.0**15), scale_d=15)) == 2


def test_one_rounding():
    """2^24 + 1 lies between two float32; a product of 2^-40 decides, though no float64 holds 2^24 + 1 + 2^-40."""
    up = multiply(BF16, row(BF16, 1, 2.0**-20), row(BF16, 1, 2.0**-20), f32(2.0**24))
    tie = multiply(BF16, row(BF16, 1), row(BF16, 1), f32(2.0**24))
    down = multiply(BF16, row(BF16, 1, 2.0**-20), row(BF16, 1, -(2.0**-20)), f32(2.0**24))
    assert [one(up), one(tie), one(down)] == [2.0**24 + 2, 2.0**24, 2.0**24]
    below = multiply(BF16, row(BF16, 1, 2.0**-20), row(BF16, 1, 2.0**-20), f32(2.0**24 + 2))
    assert one(below) == 2.0**24 + 4


def test_what_cancels_leaves_the_rest():
    a, b = row(BF16, 2.0**100, 2.0**-60, -(2.0**100)), row(BF16, 2.0**20, 2.0**-20, 2.0**20)
    assert one(multiply(BF16, a, b)) == 2.0**-80
    assert one(multiply(BF16, a[:, ::-1], b[:, ::-1], f32(-(2.0**-80)))) == 0


def test_sums_too_wide_for_float64_are_exact_all_the_same():
    """2^50 and 2^-14 in one sum, in an order in which no summation of 16 float64 keeps both."""
    big, small = 255 * 2.0**17, 255 * 2.0**-7
    a = row(BF16, *[big] * 4, *[small] * 8, *[-big] * 4)
    b = row(BF16, *[big] * 4, *[small] * 8, *[big] * 4)
    assert one(multiply(BF16, a, b)) == 8 * small * small


def test_subnormal_and_overflowing_results():
    a, b = row(BF16, 2.0**-100), row(BF16, 2.0**-49, 0)
    assert multiply(BF16, a, b).tolist() == [[1]]  # 2^-149
    assert multiply(BF16, a, b, f32(-(2.0**-149))).tolist() == [[0]]
    assert one(multiply(BF16, row(BF16, 2.0**100), row(BF16, -(2.0**100)))) == -np.inf


def test_float16_accumulators_are_rounded_once_and_stand_in_the_lower_half():
    half = kind("f16", 16, "f16", d_type="f16")
    d = np.array([[0xABCD0000 | 0x6800]], np.uint32)  # 2048; float16 goes in steps of 2 from there
    assert multiply(half, row(half, 1), row(half, 1), d).tolist() == [[0x6800]]
    assert multiply(half, row(half, 1, 2.0**-14), row(half, 1, 2.0**-10), d).tolist() == [[0x6801]]
    assert multiply(half, row(half, 60000), row(half, 2)).tolist() == [[0x7C00]]
    assert multiply(half, row(half, np.inf), row(half, 0)).tolist() == [[0x7FFF]]


@pytest.mark.parametrize(
    ("a", "b", "d", "expected"),
    [
        ((np.inf, 1), (1, 1), 5, np.inf),
        ((np.inf, 1), (-2, 1), 5, -np.inf),
        ((np.inf, 1), (0, 1), 5, np.nan),
        ((np.inf, np.inf), (1, -1), 5, np.nan),
        ((np.nan, 1), (1, 1), 5, np.nan),
        ((1, 1), (1, 1), -np.inf, -np.inf),
        ((np.inf, 1), (1, 1), -np.inf, np.nan),
        ((1, 1), (1, 1), np.nan, np.nan),
    ],
)
@pytest.mark.parametrize("descriptor", [E5M2, BF16], ids=["e5m2", "bf16"])
def test_special_values(descriptor, a, b, d, expected):
    words = multiply(descriptor, row(descriptor, *a), row(descriptor, *b), f32(d))
    if np.isnan(expected):
        assert words.tolist() == [[NAN]]
    else:
        assert one(words) == expected


def test_special_values_stay_in_their_rows():
    a = np.concatenate([row(E4M3, 1), np.full((1, 32), 0x7F, np.uint8)])
    words = multiply(E4M3, a, np.concatenate([row(E4M3, 2), row(E4M3, 3)]), np.zeros((2, 2), np.uint32))
    assert words.tolist() == [[0x40000000, 0x40400000], [NAN, NAN]]


def exact(a: np.ndarray, b: np.ndarray, d: float) -> np.float32:
    """The sum of products and d in rational numbers, rounded to the nearest float32."""
    total = sum((Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)), Fraction(d))
    if not total:
        return np.float32(0)
    exponent = max(abs(total).numerator.bit_length() - total.denominator.bit_length() - 1, -126) - 24
    while abs(total) / Fraction(2) ** exponent >= 1 << 24:
        exponent += 1
    exponent = max(exponent, -149)
    return np.float32(round(total / Fraction(2) ** exponent) * 2.0**exponent)  # round: ties to even


@pytest.mark.parametrize("descriptor", [FP16, BF16, TF32, E4M3, E5M2], ids=lambda d: d.a_type)
def test_random_bits_against_rational_numbers(descriptor):
    rng = np.random.default_rng(7)
    width = {"f16": 16, "bf16": 16, "tf32": 32}.get(descriptor.a_type, 8)
    shape = (12, descriptor.k)
    a, b = (rng.integers(0, 1 << width, shape, dtype=f"u{width // 8}") for _ in range(2))
    for operand in (a, b):  # only finite ones, and for the wide types no overflow of float32
        values = decode(operand, descriptor.a_type)
        operand[~(np.abs(values) < 2.0**50)] = 0
    d = rng.standard_normal((12, 12)).astype(np.float32)
    words = multiply(descriptor, a, b, d.view(np.uint32))
    left, right = decode(a, descriptor.a_type), decode(b, descriptor.b_type)
    expected = [[exact(x, y, float(d[i, j])) for j, y in enumerate(right)] for i, x in enumerate(left)]
    assert words.view(np.float32).tolist() == np.array(expected).tolist()


def test_products_are_exact_sums():
    """Elements over the whole range of bfloat16 need many bands; each product stands exactly in one of them."""
    values = np.array([[2.0**e * 1.5 for e in (-120, -70, -30, 0, 17, 60, 100, 5)]])
    terms = products(values, values[:, ::-1], 16)
    assert len(terms) > 4
    expected = sum(Fraction(x) * Fraction(y) for x, y in zip(values[0].tolist(), values[0, ::-1].tolist(), strict=True))
    assert sum(Fraction(float(t[0, 0])) for t in terms) == expected


# -- block scaling -----------------------------------------------------------------------------------------------------


def test_one_scale_for_32_elements():
    mx = kind("mxf8f6f4", 32, "e4m3", factors=1, scale_type="ue8m0")
    a, b = np.concatenate([row(mx, 3), row(mx, 5)]), np.concatenate([row(mx, 1), row(mx, 2)])
    scale_a, scale_b = np.array([[128], [127]], np.uint8), np.array([[126], [130]], np.uint8)  # 2, 1; 1/2, 8
    d = np.ones((2, 2), np.float32)
    words = multiply(mx, a, b, d.view(np.uint32), scale_a=scale_a, scale_b=scale_b)
    assert words.view(np.float32).tolist() == [[1 + 3, 1 + 6 * 16], [1 + 2.5, 1 + 10 * 8]]


def test_two_scales_for_two_blocks_of_32():
    mx = kind("mxf4", 64, "e2m1", factors=2, scale_type="ue8m0")
    a, b = np.full((1, 64), 2, np.uint8), np.full((1, 64), 4, np.uint8)  # 1 and 2: 64 in each block
    words = multiply(mx, a, b, scale_a=np.array([[127, 130]], np.uint8), scale_b=np.array([[128, 127]], np.uint8))
    assert one(words) == 64 * 2 + 64 * 8


def test_four_scales_for_four_blocks_of_16():
    nv = kind("mxf4nvf4", 64, "e2m1", factors=4, scale_type="ue4m3")
    a, b = np.full((1, 64), 2, np.uint8), np.full((1, 64), 2, np.uint8)  # 16 in each block
    scale_a = np.array([[0x38, 0x40, 0x39, 0x00]], np.uint8)  # 1, 2, 1.125, 0
    scale_b = np.array([[0x38, 0x38, 0x39, 0x7E]], np.uint8)  # 1, 1, 1.125, 448
    assert one(multiply(nv, a, b, scale_a=scale_a, scale_b=scale_b)) == 16 + 32 + 16 * 1.125**2
    assert one(multiply(nv, a, b, scale_a=scale_a | 0x80, scale_b=scale_b)) == 16 + 32 + 16 * 1.125**2  # no sign


def test_scales_that_are_not_numbers():
    mx = kind("mxf8f6f4", 32, "e4m3", factors=1, scale_type="ue8m0")
    words = multiply(
        mx, row(mx, 0), np.concatenate([row(mx, 1)] * 2), scale_a=np.array([[127]], np.uint8),
        scale_b=np.array([[255], [127]], np.uint8),
    )  # fmt: skip
    assert words.tolist() == [[NAN, 0]]


def test_extreme_scales_do_not_leave_float64():
    mx = kind("mxf8f6f4", 32, "e5m2", factors=1, scale_type="ue8m0")
    top, bottom = np.array([[254]], np.uint8), np.array([[0]], np.uint8)
    big = row(mx, *[57344.0] * 32)
    assert one(multiply(mx, big, big, scale_a=top, scale_b=bottom)) == 32 * 57344.0**2
    assert one(multiply(mx, big, big, scale_a=top, scale_b=top)) == np.inf
