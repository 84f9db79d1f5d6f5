"""The arithmetic of tensor cores: operands, exact sums rounded once, block scales, modes."""

import sys
from fractions import Fraction
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

from scalec.emulator import tensor
from scalec.emulator.findings import NotModelled

from .rational import nearest


def of(kind, values):
    """Values -> the bytes of operands, rows of K."""
    return np.array(values, tensor.OPERANDS[kind].dtype).view(np.uint8)


# -- operands ----------------------------------------------------------------------------------------------------------


def test_decoding_of_8_bits():
    # e4m3 (bias 7): 0x01 = 2^-9, 0x38 = 1, 0x7E = 448, 0x7F is NaN, 0xB9 = -1.125
    assert tensor.decode(np.array([[0x01, 0x38, 0x7E, 0xB9]], np.uint8), "e4m3").tolist() == [[2**-9, 1, 448, -1.125]]
    assert np.isnan(tensor.decode(np.array([[0x7F, 0xFF]], np.uint8), "e4m3")).all()
    # e5m2 (bias 15): 0x01 = 2^-16, 0x3D = 1.25, 0x7B = 57344, 0x7C is infinity
    assert tensor.decode(np.array([[0x01, 0x3D, 0x7B, 0xFC]], np.uint8), "e5m2").tolist() == [
        [2**-16, 1.25, 57344, -np.inf]
    ]
    assert tensor.decode(np.array([[0x80, 0xFF]], np.uint8), "s8").tolist() == [[-128, -1]]


def test_decoding_of_containers():
    # e2m1 in bits 2 to 5, whatever the others say: 0.5 is code 1, 6 code 7, -1.5 code 11
    data = np.array([[0b00_0001_00, 0b00_0111_00, 0b00_1011_00, 0b11_1011_11]], np.uint8)
    assert tensor.decode(data, "e2m1").tolist() == [[0.5, 6, -1.5, -1.5]]
    # 6 bits in bits 0 to 5: e2m3 (bias 1) 0x1F = 7.5, 0x01 = 0.125; e3m2 (bias 3) 0x1F = 28, 0x21 = -0.0625
    assert tensor.decode(np.array([[0x1F, 0x01, 0xDF]], np.uint8), "e2m3").tolist() == [[7.5, 0.125, 7.5]]
    assert tensor.decode(np.array([[0x1F, 0x21]], np.uint8), "e3m2").tolist() == [[28, -0.0625]]


def test_decoding_of_packed_pairs():
    # the element in the lower half comes first: 0x21 = 0.5, 1; 0xF0 = 0, -6
    assert tensor.decode(np.array([[0x21, 0xF0]], np.uint8), "e2m1", packed=True).tolist() == [[0.5, 1, 0, -6]]


def test_decoding_of_wide_types():
    assert tensor.decode(np.array([[0x00, 0x3C, 0x01, 0x00]], np.uint8), "f16").tolist() == [[1, 2**-24]]
    assert tensor.decode(np.array([[0x80, 0x3F, 0xC0, 0xC0]], np.uint8), "bf16").tolist() == [[1, -6]]
    # tf32: the 13 lowest bits are cut off: 1 + 2^-10 + 2^-11 + 2^-23 -> 1 + 2^-10
    word = np.array([[0x3F800000 | 1 << 13 | 1 << 12 | 1]], "<u4").view(np.uint8)
    assert tensor.decode(word, "tf32").tolist() == [[1 + 2**-10]]


def test_block_scales():
    # ue8m0 is 2^(code - 127); each row has two blocks here
    matrix = np.array([[1.0, 2, 3, 4], [5, 6, 7, 8]])
    assert tensor.scaled(matrix, np.array([[127, 130], [0, 126]], np.uint8), "ue8m0").tolist() == [
        [1, 2, 24, 32],
        [5 * 2.0**-127, 6 * 2.0**-127, 3.5, 4],
    ]
    # ue4m3 has no sign: 0x38 = 1, 0xB9 reads as 0x39 = 1.125
    found = tensor.scaled(matrix, np.array([[0x38, 0xB9], [0x38, 0x38]], np.uint8), "ue4m3")
    assert found.tolist() == [[1, 2, 3 * 1.125, 4.5], [5, 6, 7, 8]]
    assert np.isnan(tensor.scaled(matrix, np.full((2, 1), 0xFF, np.uint8), "ue8m0")).all()


# -- sums --------------------------------------------------------------------------------------------------------------


def rounded(value, dtype):
    return dtype(nearest(value, {np.float32: "f32", np.float16: "f16"}[dtype], "rn") if value else 0)


def expected(a, b, c, dtype):
    result = np.zeros((len(a), len(b)), dtype)
    for i in range(len(a)):
        for j in range(len(b)):
            value = sum(Fraction(x) * Fraction(y) for x, y in zip(a[i].tolist(), b[j].tolist(), strict=True))
            result[i, j] = rounded(value + Fraction(float(c[i, j])), dtype)
    return result


def finite_bits(kind, shape, generator, low=0, high=None):
    """Operand bytes of any finite numbers, with biased exponents from `low` to below `high`."""
    exponent, mantissa = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "e4m3": (4, 3), "e5m2": (5, 2)}[kind]
    high = high or (1 << exponent) - 1
    codes = generator.integers(low, high, shape) << mantissa | generator.integers(0, 1 << mantissa, shape)
    codes |= generator.integers(0, 2, shape) << exponent + mantissa
    if kind == "tf32":
        codes <<= 13
    return codes.astype(f"<u{tensor.OPERANDS[kind].dtype.itemsize}").view(np.uint8)


CASES = [
    ("e4m3", {}), ("e5m2", {}), ("f16", {}), ("bf16", {"low": 100, "high": 150}), ("tf32", {"low": 110, "high": 140}),
    ("bf16", {"low": 40, "high": 190}), ("tf32", {"low": 124, "high": 130}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "exponents"), CASES)
@pytest.mark.parametrize("result", ["f32", "f16"])
def test_random_bits_against_rational_numbers(kind, exponents, result):
    generator = np.random.default_rng(7)
    dtype = np.float32 if result == "f32" else np.float16
    k = 256 // tensor.OPERANDS[kind].bits
    for size in (2.0**-20, 1.0, 2.0**13):
        a = tensor.decode(finite_bits(kind, (6, k), generator, **exponents), kind)
        b = tensor.decode(finite_bits(kind, (5, k), generator, **exponents), kind)
        a[3:] = np.where(generator.random((3, k)) < 0.6, 0.0, a[3:])
        c = (generator.standard_normal((6, 5)) * size).astype(dtype)
        found = tensor.multiply(a, b, c, kind, result)
        assert found.dtype == dtype
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found, expected(a, b, c, dtype))


def one(a, b, c, kind="bf16", result="f32"):
    c = None if c is None else np.array([[c]], np.float32 if result == "f32" else np.float16)
    return tensor.multiply(np.array([a], float), np.array([b], float), c, kind, result)[0, 0]


def test_terms_that_cancel_leave_the_rest():
    assert one([2.0**60, 1, -(2.0**60)], [1, 1, 1], 0) == 1
    assert one([2.0**100, 2.0**-100, -(2.0**100)], [1, 1, 1], 0) == np.float32(2.0**-100)
    assert one([2.0**100, 2.0**-100, -(2.0**100), 2.0**-130], [1, 1, 1, 1], -(2.0**-100)) == np.float32(2.0**-130)
    assert one([2.0**60, -(2.0**60)], [1, 1], None) == 0
    # 2^41 + (1 + 2^-7)^2 needs 56 bits
    assert one([2.0**20, 1 + 2.0**-7], [2.0**21, 1 + 2.0**-7], -(2.0**41)) == np.float32(1 + 2.0**-6 + 2.0**-14)
    # float64 loses 2^10 beside 2^70, and 2^20 remains, far from any middle of two float32
    assert one([2.0**70, 2.0**10, -(2.0**70), 2.0**20], [1, 1, 1, 1], 0) == 2.0**20 + 2.0**10
    # the largest and the least of e5m2: 64 bits
    assert one([57344, 2.0**-16, -57344], [57344, 2.0**-16, 57344], 0, "e5m2") == 2.0**-32


def test_one_rounding():
    # 1 + 2^-24 is in the middle of 1 and 1 + 2^-23: to even, 1
    assert one([1, 2.0**-12], [1, 2.0**-12], 0) == np.float32(1)
    # a hair more, which float64 does not hold: up
    assert one([1, 2.0**-12, 2.0**-50], [1, 2.0**-12, 2.0**-50], 0) == np.float32(1 + 2.0**-23)
    assert one([1, 2.0**-12], [1, 2.0**-12], 2.0**-100) == np.float32(1 + 2.0**-23)
    # in the middle of 1 + 2^-23 and 1 + 2^-22, which is even; a hair less
    assert one([1, 2.0**-12], [1, 2.0**-12], 2.0**-23) == np.float32(1 + 2.0**-22)
    assert one([1, 2.0**-12, 2.0**-50], [1, 2.0**-12, -(2.0**-50)], 2.0**-23) == np.float32(1 + 2.0**-23)
    # float16: 2048 + 1 is in the middle; with 2^-40 more it is not
    assert one([2048, 1], [1, 1], 0, result="f16") == 2048
    assert one([2048, 1, 2.0**-20], [1, 1, 2.0**-20], 0, result="f16") == 2050
    # and a float32 in between would have hidden it: 2049 + 2^-20 is not a float32
    assert one([2048, 1, 2.0**-20], [1, 1, 1], 0, "f16", "f16") == 2050


def test_zeros_have_no_sign():
    assert one([-0.0], [1.0], -0.0).view(np.uint32) == 0
    for c in (0.0, -0.0, None):
        found = one([-0.0, 0.0, 1, -1], [1, -1, 1, 1], c)
        assert found == 0
        assert not np.signbit(found)


def test_infinities_and_nans():
    a = np.array([[np.inf, 1.0], [np.inf, -np.inf], [np.nan, 0], [2.0**100, 2.0**100]])
    b = np.array([[1.0, 1], [0, 1]])
    found = tensor.multiply(a, b, np.zeros((4, 2), np.float32), "bf16", "f32")
    assert found[[0, 3, 3], [0, 0, 1]].tolist() == [np.inf, 2.0**101, 2.0**100]
    assert (found[[0, 1, 2, 2], [1, 0, 0, 1]].view(np.uint32) == 0x7FFFFFFF).all()
    assert found[1, 1].view(np.uint32) == 0x7FFFFFFF  # infinity times zero
    assert one([2.0**127], [2.0], 0) == np.inf
    assert one([60000.0], [2.0], 0, "f16", "f16") == np.inf
    assert one([np.nan], [2.0], 0, "f16", "f16").view(np.uint16) == 0x7FFF
    with np.errstate(invalid="ignore"):
        assert one([1.0], [1.0], np.array(0x7FC00001, np.uint32).view(np.float32)).view(np.uint32) == 0x7FFFFFFF


def test_integers():
    a, b = np.array([[127.0] * 32]), np.array([[127.0] * 32])
    c = np.array([[2**31 - 1]], np.int32)
    assert tensor.multiply(a, b, None, "s8", "s32") == 32 * 127 * 127
    assert tensor.multiply(a, b, c, "s8", "s32") == -(2**31) - 1 + 32 * 127 * 127
    assert tensor.multiply(a, b, c, "s8", "s32", saturate=True) == 2**31 - 1
    assert tensor.multiply(-a, b, -c - 1, "s8", "s32", saturate=True) == -(2**31)
    assert tensor.multiply(a, b, c, "s8", "s32").dtype == np.int32


def test_scaled_products_are_exact():
    # two blocks of one element: 2^-100 and 2^100 cancel with the accumulator but for the small one
    a = tensor.scaled(np.array([[1.5, 2.0]]), np.array([[27, 187]], np.uint8), "ue8m0")  # 2^-100, 2^60
    b = tensor.scaled(np.array([[1.0, 1.0]]), np.array([[127, 167]], np.uint8), "ue8m0")  # 1, 2^40
    c = np.array([[-(2.0**101)]], np.float32)
    assert tensor.multiply(a, b, c, "", "f32") == np.float32(1.5 * 2.0**-100)
    assert tensor.multiply(a, b, None, "", "f32") == np.float32(2.0**101)


def test_random_block_scales():
    generator = np.random.default_rng(3)
    codes = generator.integers(0, 16, (2, 4, 64)).astype(np.uint8)
    left, right = codes.view(ml_dtypes.float4_e2m1fn).astype(float)
    factors = generator.integers(107, 147, (2, 4, 4)).astype(np.uint8)
    a, b = (tensor.scaled(x, f, "ue8m0") for x, f in zip((left, right), factors, strict=True))
    c = generator.standard_normal((4, 4)).astype(np.float32)
    whole = [
        [
            sum(
                Fraction(left[i, k]) * Fraction(right[j, k]) * Fraction(2) ** (int(factors[0, i, k // 16]) - 127)
                * Fraction(2) ** (int(factors[1, j, k // 16]) - 127)
                for k in range(64)
            )
            for j in range(4)
        ]
        for i in range(4)
    ]  # fmt: skip
    found = tensor.multiply(a, b, c, "", "f32")
    for i in range(4):
        for j in range(4):
            assert found[i, j] == rounded(whole[i][j] + Fraction(float(c[i, j])), np.float32)


# -- modes -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def coarse(monkeypatch):
    """A mode that makes everything 7, 8 if B is e5m2, 9 for mma.sync; for A of e4m3 alone."""

    def multiply(a, b, c, kind, result, *, b_kind, instruction):
        number = 9 if instruction == "mma" else 8 if b_kind == "e5m2" else 7
        return np.full((len(a), len(b)), number) if kind == "e4m3" else None

    module = ModuleType("coarse")
    module.multiply = multiply
    monkeypatch.setitem(sys.modules, "coarse", module)
    monkeypatch.setitem(tensor.MODES, "coarse", "coarse")
    yield
    tensor._mode.cache_clear()


@pytest.mark.usefixtures("coarse")
def test_a_mode_may_leave_types_to_exact_arithmetic():
    a, b = np.array([[2.0]]), np.array([[3.0]])
    assert tensor.multiply(a, b, None, "e4m3", "f32", "coarse") == 7
    assert tensor.multiply(a, b, None, "e4m3", "f32", "coarse", b_kind="e5m2") == 8
    assert tensor.multiply(a, b, None, "e4m3", "f32", "coarse", instruction="mma") == 9
    assert tensor.multiply(a, b, None, "e4m3", "f32") == 6
    assert tensor.multiply(a, b, None, "bf16", "f32", "coarse") == 6
    assert tensor.multiply(a, b, None, "s8", "s32", "coarse") == 6
    assert tensor.multiply(a, b, None, "", "f32", "coarse") == 6  # block scales


def test_unknown_modes():
    with pytest.raises(NotModelled, match="volta"):
        tensor.multiply(np.ones((1, 1)), np.ones((1, 1)), None, "bf16", "f32", "volta")
