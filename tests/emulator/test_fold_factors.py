"""Factors of rows that leave the terms of a fold: where they may not, each term is multiplied as the program says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from scalec import reference
from scalec.checking.guarded import FILLS
from scalec.checking.launch import made_up
from scalec.frontend import build
from scalec.ir import context
from tests.emulator.test_fold_columns import FP8, TARGETS, launched

SOURCES = {
    "one": FP8,
    "two": FP8.replace(" scale(none,1xd)", " scale(none,1xd) * u[t]:f32"),
    "the largest": FP8.replace("sum[h]", "max[h]"),
    "magnitudes": FP8.replace("relu", "abs"),
}
DIMS = {"q": 3, "t": 70, "h": 16, "d": 32}


def _negative(scale: np.ndarray, w: np.ndarray) -> None:
    scale[::3] *= -1


def _infinite(scale: np.ndarray, w: np.ndarray) -> None:
    scale[[1, 40]] = np.inf


def _no_number(scale: np.ndarray, w: np.ndarray) -> None:
    scale[7], w[1, 3] = np.nan, np.nan


def _zero(scale: np.ndarray, w: np.ndarray) -> None:
    scale[::2] = 0


def _large_terms(scale: np.ndarray, w: np.ndarray) -> None:
    """W times a product is infinite, times the scale it is not."""
    scale[:] *= np.float32(2.0**-40)
    w[:] *= np.float32(2.0**120)


def _large_scales(scale: np.ndarray, w: np.ndarray) -> None:
    """W times a product is subnormal, times the scale it is not."""
    scale[:] *= np.float32(2.0**100)
    w[:] *= np.float32(2.0**-145)


def _infinite_weights(scale: np.ndarray, w: np.ndarray) -> None:
    w[0, 2], w[2, 5] = np.inf, -np.inf


VALUES = (_negative, _infinite, _no_number, _zero, _large_terms, _large_scales, _infinite_weights)


def as_written(name: str, values: dict[str, np.ndarray]) -> np.ndarray:
    """A program's result, of sums of products that are then scaled, term by term in f64."""
    given = {x: v.astype(np.float64) for x, v in values.items()}
    sums = np.einsum("qhd,td->qht", given["Q"], given["K"]) * given["K_scale"][:, 0]
    sums = sums * given["u"] if name == "two" else sums
    w = given["W"][:, :, None]
    terms = (np.abs(sums) if name == "magnitudes" else np.maximum(sums, 0)) * w
    return terms.max(1) if name == "the largest" else terms.sum(1)


@pytest.mark.once("target", "change", "name")
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("change", VALUES, ids=lambda f: f.__name__.strip("_"))
@pytest.mark.parametrize("target", TARGETS)
def test_scales(target: str, change: Callable[[np.ndarray, np.ndarray], None], name: str) -> None:
    source = SOURCES[name]
    values, _ = made_up(source, DIMS, 3)
    values = {x: np.array(v) for x, v in values.items()}
    scale, w = (np.abs(values[x]).astype(np.float32) + np.float32(0.25) for x in ("K_scale", "W"))
    w[:, ::2] *= -1
    with np.errstate(all="ignore"):
        change(scale, w)
    values |= {"K_scale": scale, "W": w}
    with context.context(), np.errstate(all="ignore"):
        expected = reference.run(build(source, DIMS), values, dims=DIMS, exact=True)["L"].astype(np.float32)
        written = as_written(name, values).astype(np.float32)
    # the reference scales K before it sums: of an infinite scale it makes other infinities than sums that are scaled
    expected = np.where(np.isfinite(expected), expected, written)
    got = launched(source, target, DIMS, values, FILLS[0])
    ordinary = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    assert ordinary > 0
    assert np.allclose(got, expected, rtol=1e-4, atol=1e-5 * ordinary, equal_nan=True)


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("target", TARGETS)
def test_of_others(target: str, name: str) -> None:
    """What some rows, or columns, are scaled by changes no bit of the others: a warp has both."""
    values, _ = made_up(SOURCES[name], DIMS, 6)
    values = {x: np.array(v) for x, v in values.items()}
    scale, w = (np.abs(values[x]).astype(np.float32) + np.float32(0.25) for x in ("K_scale", "W"))
    values |= {"K_scale": scale, "W": w}
    before = launched(SOURCES[name], target, DIMS, values, FILLS[0])
    for which in ("K_scale", "W"):
        changed, rest = values[which].copy(), np.ones(before.shape, bool)
        points = [5, 17, 30, 66] if which == "K_scale" else [1]
        rest[(slice(None), points) if which == "K_scale" else points] = False
        for i, value in enumerate((-1.0, np.nan, np.inf, 2.0**20)):
            changed[points[i % len(points)], i % changed.shape[1]] = value
        after = launched(SOURCES[name], target, DIMS, {**values, which: changed}, FILLS[0])
        assert np.array_equal(before[rest], after[rest]), which
        assert not np.array_equal(before, after, equal_nan=True), which


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
def test_sums_that_are_minus_infinity(target: str) -> None:
    """Their maximum with 0 is 0, where x + |x| would be no number."""
    source = "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d] * u[t]:f32) * W[q,h]:f32)"
    values, _ = made_up(source, DIMS, 5)
    values = {x: np.array(v) for x, v in values.items()}
    values["Q"][:, :, 0], values["K"][:, 0], values["K"][[7, 40], 0] = 1e38, 0, -1e38
    values["u"] = np.abs(values["u"]) + np.float32(0.25)
    with context.context():
        expected = reference.run(build(source, DIMS), values, dims=DIMS, exact=True)["L"]
    got = launched(source, target, DIMS, values, FILLS[0])
    assert (got[:, [7, 40]] == 0).all()
    assert np.allclose(got, expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())


def test_two_factors_are_as_exact_as_each() -> None:
    """Of 2^-80 and 2^-66 the product is subnormal, of which few bits are left; a product of 2^21 times both is not."""
    values, _ = made_up(SOURCES["two"], DIMS, 4)
    new = {"Q": 256, "K": 256, "K_scale": 1.2345 * 2.0**-80, "u": 1.3579 * 2.0**-66, "W": 2.0**100}
    values = {x: np.full_like(v, new[x]) for x, v in values.items()}
    with context.context():
        expected = reference.run(build(SOURCES["two"], DIMS), values, dims=DIMS, exact=True)["L"]
    assert np.allclose(launched(SOURCES["two"], "sm_90a", DIMS, values, FILLS[0]), expected, rtol=1e-5, atol=0)
