"""Infinite scales that span K, and NaN: they multiply a sum, of either sign, of zeros and of nothing."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.launch import made_up
from scalec.frontend import build
from scalec.ir import context as contexts
from scalec.runtime import emulated
from tests.emulator.running import TARGETS

SCALES = [np.inf, -np.inf, np.nan, np.inf, 0.5]
"""Of A's rows; the fourth one's sums are of zeros."""


@pytest.mark.once("kind", "target")
@pytest.mark.parametrize("k", [64, 0])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["i8", "e4m3"])
def test_rows(kind: str, target: str, k: int) -> None:
    source, dims = f"C[m,n]:f32 = A[m,k]:{kind} @ B[n,k]:{kind} scale(1xk, 1xk)", {"m": 5, "n": 8, "k": k}
    kernel = scalec.compile(source, target=target, dims={"n": 8})
    kernel.fixed = emulated.EmulatedDevice(target)
    values, _ = made_up(source, dims, 1)
    values["A"][3] = 0
    values["A_scale"][:, 0] = SCALES
    values["B_scale"][:, 0] = [0, -1.5, 2, 1, 3, -0.5, 1, 1]
    a, b = (values[x].astype(np.float64) for x in "AB")
    with np.errstate(all="ignore"):
        wanted = (a @ b.T) * (values["A_scale"] * values["B_scale"].T)
        with contexts.context():
            expected = reference.run(build(source), values, dims=dims, exact=True)["C"]
    found = np.asarray(kernel(*(values[t.name] for t in kernel.spec.operands)))
    np.testing.assert_allclose(expected, wanted, 1e-6)
    np.testing.assert_allclose(found, wanted, 1e-6)
    assert np.isinf(wanted).any() or not k
