"""The two error measures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scalec.errors import ArgumentError
from scalec.reference import Errors, diff, errors, max_error


def test_values_worked_by_hand() -> None:
    x, y = [1.0, 2.0, 2.0], [1.0, 2.0, 4.0]
    # <x,y> = 13, |x|^2 = 9, |y|^2 = 21
    assert diff(x, y) == pytest.approx(1 - 26 / 30, rel=1e-14)
    assert max_error(x, y) == 0.5
    assert errors(x, y) == Errors(diff(x, y), 0.5)


def test_equal_tensors_have_no_error() -> None:
    x = np.arange(-5, 5).astype(np.float32)
    assert errors(x, x) == Errors(0.0, 0.0)
    assert errors(np.zeros(3), np.zeros(3)) == Errors(0.0, 0.0)


def test_small_errors_do_not_cancel() -> None:
    y = np.full(1000, 1.0)
    assert diff(y * (1 + 1e-9), y) == pytest.approx(5e-19, rel=1e-3)


def test_nan_in_the_result_is_infinitely_wrong() -> None:
    assert errors([1.0, math.nan], [1.0, 2.0]) == Errors(math.inf, math.inf)
    assert errors([1.0, math.inf], [1.0, 2.0]) == Errors(math.inf, math.inf)


def test_unwritten_points_are_not_compared() -> None:
    assert errors([1.0, 7.0, math.nan], [1.0, math.nan, math.nan]) == Errors(0.0, 0.0)


def test_infinities_must_agree() -> None:
    assert errors([1.0, -math.inf], [1.0, -math.inf]) == Errors(0.0, 0.0)
    assert errors([1.0, math.inf], [1.0, -math.inf]).diff == math.inf
    assert errors([1.0, 0.0], [1.0, -math.inf]).diff == math.inf


def test_anything_against_zero_is_infinitely_wrong() -> None:
    assert max_error([1e-9], [0.0]) == math.inf


def test_shapes_must_agree() -> None:
    with pytest.raises(ArgumentError, match="tensors of two shapes") as caught:
        diff([1, 2], [1, 2, 3])
    assert caught.value.got == "(2,) and (3,)"


def test_within() -> None:
    assert Errors(1e-6, 1e-3).within(1e-5, 1e-2)
    assert not Errors(1e-6, 1e-1).within(1e-5, 1e-2)
