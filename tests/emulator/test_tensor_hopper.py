"""Hopper's tensor-core arithmetic against bytes of an H200, and its rules one by one."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.tensor_hopper import multiply
from tests.emulator.h200 import mma, store, wgmma
from tests.emulator.h200.operands import FORMATS, REGIMES, draw, mma_result, rows_of_fragment


def h200(group: str, probe: str) -> np.ndarray:
    return store.load(store.DATA / f"{group}.npz")[f"{probe}/d"]


def products(
    a: str, b: str, accumulator: str, shape: tuple[int, int, int], instruction: str, seeds: int
) -> list[np.ndarray]:
    """What the emulator makes of the operands of `draw`, as bit patterns, in the order of the stored results."""
    forms = FORMATS[a], FORMATS[b], FORMATS[accumulator]
    found = []
    for regime in REGIMES:
        for seed in range(seeds):
            x, y, z = draw(regime, *forms, shape, seed)
            c = z.view(np.float32 if accumulator == "f32" else np.float16)
            d = multiply(
                forms[0].decode(x), forms[1].decode(y), c, a, accumulator, b_kind=b, instruction=instruction
            )  # fmt: skip
            assert d is not None
            found.append(d.view(forms[2].unsigned))
    return found


@pytest.mark.parametrize("types", wgmma.TYPES, ids=".".join)
def test_wgmma_as_the_h200(types):
    a, b, accumulator = types
    stored = h200("wgmma", f"wgmma_{a}_{b}_{accumulator}")
    found = products(a, b, accumulator, (64, 8, 256 // FORMATS[a].bits), "wgmma", 1)
    assert len(stored) == len(found) == len(REGIMES)
    for regime, expected, got in zip(REGIMES, stored, found, strict=True):
        expected = rows_of_fragment(expected, FORMATS[accumulator].bits, 8)
        np.testing.assert_array_equal(got, expected, err_msg=regime)


@pytest.mark.parametrize("shape", mma.SHAPES, ids=lambda s: s.name)
def test_mma_as_the_h200(shape):
    stored = h200("mma", shape.name)
    found = products(shape.a, shape.b, shape.accumulator, (16, 8, shape.k), "mma", 2)
    assert len(stored) == len(found) == 2 * len(REGIMES)
    for i, (expected, got) in enumerate(zip(stored, found, strict=True)):
        expected = mma_result(expected, FORMATS[shape.accumulator].bits)
        np.testing.assert_array_equal(got, expected, err_msg=REGIMES[i // 2])


def one(a: list[float], b: list[float], c: float, kind: str, result: str = "f32", **options: str) -> float:
    """A single sum of products, the rest of k zero."""
    k = 256 // FORMATS[kind].bits
    row, column = np.zeros((1, k)), np.zeros((1, k))
    row[0, : len(a)], column[0, : len(b)] = a, b
    dtype = np.float32 if result == "f32" else np.float16
    found = multiply(row, column, np.full((1, 1), c, dtype), kind, result, **options)
    assert found is not None
    return float(found[0, 0])


def test_fp8_keeps_13_bits_after_the_point_of_the_greatest_exponent():
    # 1 + 2^-13 stays, 1 + 2^-14 does not, nor do many of them together: each is cut before the sum
    assert one([1, 2**-6], [1, 2**-7], 0, "e5m2") == 1 + 2**-13
    assert one([1, 2**-7], [1, 2**-7], 0, "e5m2") == 1
    assert one([1] + [2**-7] * 31, [1] + [2**-7] * 31, 0, "e5m2") == 1
    # 1.75 * 1.75 counts with exponent 0 though it is above 2: 2^-13 beside it stays, and two of them show
    assert one([1.75, 2**-6, 2**-6], [1.75, 2**-7, 2**-7], 0, "e5m2") == 3.0625 + 2**-12


def test_the_accumulator_of_fp8_is_a_term_like_the_products():
    assert one([1], [1], 2**-13, "e4m3") == 1 + 2**-13
    assert one([1], [1], 2**-14, "e4m3") == 1
    assert one([1], [1], 2.0**14, "e4m3") == 2.0**14  # 1 is cut away by a greater accumulator
    assert one([], [], 1 + 2**-20, "e4m3") == 1  # even alone it keeps 13 bits


def test_cut_toward_zero():
    assert one([1, -(2**-7)], [1, 2**-7], 0, "e5m2") == 1
    assert one([-1], [1], -(2.0**-14), "e5m2") == -1
    assert one([-1, 1], [1, 2.0**-14], 0, "e5m2") == -1
    # the sum 3 + 2^-13 has its point one bit lower than 13 fraction bits reach
    assert one([1, 1, 1], [1, 1, 1], 2.0**-13, "e5m2") == 3


def test_a_subnormal_factor_counts_with_the_least_exponent():
    # 2^-9 is e4m3's least subnormal, exponent -6: the product 2^-9 aligns as 2^-6, and keeps 2^-19 and above
    assert one([2.0**-9], [1], 2.0**-19, "e4m3") == 2.0**-9 + 2.0**-19
    assert one([2.0**-9], [1], 2.0**-20, "e4m3") == 2.0**-9
    assert one([2.0**-9], [1], 2.0**-20, "e5m2") == 2.0**-9 + 2.0**-20  # normal in e5m2


def test_types_of_both_operands_count():
    # 2^-9 in B is subnormal in e4m3 only
    assert one([1], [2.0**-9], 2.0**-20, "e5m2", b_kind="e4m3") == 2.0**-9
    assert one([1], [2.0**-9], 2.0**-20, "e4m3", b_kind="e5m2") == 2.0**-9 + 2.0**-20


@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32"])
def test_wider_types_keep_25_bits_and_cut_to_23(kind):
    # 1 + 4 * 2^-25 = 1 + 2^-23: each term survives the alignment, the sum the last cut; 2^-26 does not
    assert one([1, 2.0**-12], [1, 2.0**-13], 2.0**-24, kind) == 1
    assert one([1] + [2.0**-12] * 4, [1] + [2.0**-13] * 4, 0, kind) == 1 + 2**-23
    assert one([1] + [2.0**-13] * 7, [1] + [2.0**-13] * 7, 0, kind) == 1


@pytest.mark.parametrize("kind", ["bf16", "tf32"])
def test_no_term_keeps_bits_below_2_to_the_minus_158(kind):
    small = 2.0**-80
    # 2^-149 - 2^-158 is cut to 0, 2^-149 - 2^-159 is 2^-149
    assert one([2.0**-69, -small], [small, 2.0**-78], 0, kind) == 0
    assert one([2.0**-69, -small], [small, 2.0**-79], 0, kind) == 2.0**-149


def test_float16_results_are_rounded_to_nearest_even():
    assert one([1], [1], 2.0**-11, "f16", "f16") == 1
    assert one([1, 2.0**-10], [1, 1], 2.0**-11, "f16", "f16") == 1 + 2**-9
    assert one([1, 2.0**-6], [1, 2.0**-5], 2.0**-13, "e5m2", "f16") == 1 + 2**-10
    assert one([256], [256], 0, "e4m3", "f16") == np.inf


def test_zeros_are_positive():
    zero = multiply(np.zeros((1, 32)), -np.ones((1, 32)), np.full((1, 1), -0.0, np.float32), "e4m3", "f32")
    assert zero is not None
    assert zero.view(np.uint32)[0, 0] == 0
    zero = multiply(np.full((1, 16), -(2.0**-24)), np.full((1, 16), 2.0**-10), None, "f16", "f16")
    assert zero is not None
    assert zero.view(np.uint16)[0, 0] == 0


def test_specials():
    inf = np.inf
    assert one([inf], [1], 0, "e5m2") == inf
    assert one([inf, 1], [-1, 1], 5, "e5m2") == -inf
    for a, b, c in (([inf], [0], 0.0), ([inf], [1], -inf), ([np.nan], [0], 0.0), ([1], [1], np.nan)):
        d = multiply(
            np.array([a + [0.0] * 31]), np.array([b + [0.0] * 31]), np.full((1, 1), c, np.float32), "e5m2", "f32"
        )  # fmt: skip
        assert d is not None
        assert d.view(np.uint32)[0, 0] == 0x7FFFFFFF


def test_fp8_mma_goes_through_float16():
    # elements 0 and 1 of each four come first; 1 + 2^-14 keeps all its bits, C is added last and rounded
    assert one([1, 2.0**-7], [1, 2.0**-7], 0, "e5m2", instruction="mma") == 1 + 2**-14
    assert one([1], [1], 2.0**-24 + 2.0**-40, "e5m2", instruction="mma") == np.float32(1 + 2**-23)
    # 2^-20 of the first half is lost under 2^10 of the second, which cancels in the second
    a, b = [0.0] * 8, [0.0] * 8
    a[0], b[0], a[2], b[2], a[6], b[6] = 2.0**-10, 2.0**-10, 2.0**8, 2.0, -(2.0**8), 2.0
    assert one(a, b, 0, "e5m2", instruction="mma") == 0
    a[2], b[2], a[6], b[6] = 0.0, 0.0, 0.0, 0.0
    assert one(a, b, 0, "e5m2", instruction="mma") == 2.0**-20


def test_types_of_other_targets_are_left_to_the_exact_mode():
    assert multiply(np.ones((1, 32)), np.ones((1, 32)), None, "e2m1", "f32") is None
