"""Products of scales beyond f32's normal numbers: on every path of the scales as docs/language.md says, and as the
reference has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalec import reference
from scalec.frontend import build
from scalec.ir import context
from tests.emulator.quantised import compile_, launch

E4M3 = "D[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3"
DIMS = {"m": 8, "n": 16, "k": 256}
HUGE, TINY = 2.0**70, 2.0**-71  # of which two make 2^140, and 2^-142, which holds seven bits
PATHS = ["1x128,128x128", "1x128,1x128", "1xk,1xk", "1xk,128xk", "tensor,1xk*tensor", "1x128*tensor,1xk"]


def values_of(program: str, size: float) -> tuple[dict[str, Any], np.ndarray]:
    """Arguments of which the first row of A and of B have scales of a `size` and the next row of A is zeros, and what
    the reference gives."""
    with context.context():
        module = build(program, DIMS)
        values = {name: np.array(x) for name, x in reference.make(module, DIMS, seed=1, exact=True).items()}
        values["A"][1:3] = 0
        for name, x in values.items():
            if name in ("A_scale", "B_scale"):
                x[: 2 if name.startswith("A") else 1] *= np.float32(size * 1.37)
        (wanted,) = reference.run(module, values, dims=DIMS, exact=True).values()
    return values, wanted


@pytest.mark.once("target", "scales")
@pytest.mark.parametrize("scales", PATHS)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_products(target: str, scales: str) -> None:
    program = f"{E4M3} scale({scales})"
    kernel = compile_(program, target, DIMS, ("m", "n", "k"))
    for size in (HUGE, TINY):
        values, wanted = values_of(program, size)
        (got,), _ = launch(kernel, target, values, DIMS, 1)
        finite = np.isfinite(wanted) & (np.abs(wanted) <= np.finfo(np.float32).max)
        assert finite.any()
        assert (np.isfinite(got) == finite).all(), f"{size}: {kernel.spec.schedule}"
        assert reference.max_error(got[finite], wanted[finite]) < 1e-6
        if size == HUGE:
            apart = scales == "1x128*tensor,1xk"  # what varies along K and what does not are no one product
            assert (got[1] == 0).all() if apart else np.isnan(got[1, 0])
