"""Batches, several dimensions of M and N, results in any order and around gaps, against the reference: on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS, Guarded
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import driver
from tests.gpu.programs import GAPS, OUTER

pytestmark = pytest.mark.gpu

PROGRAMS = {**OUTER, **{f"gaps {name}": program for name, program in GAPS.items()}}

ORDERS = (None, (1, 0, 2))
"""Of the indices of tensors of three, in memory: as written, and the outer two in the other order."""


@pytest.mark.parametrize("given", ["nothing", "n and k", "all"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(torch, name: str, given: str) -> None:
    """Twice over memory of different bytes, between guards, with gaps between rows and what lies further out."""
    source, limit, sizes, *other = PROGRAMS[name]
    for factor in (1, 3):
        dims = {d: n if i else factor * n for i, (d, n) in enumerate(sizes.items())}
        if other and factor > 1:
            dims |= other[0]
        last = list(dims)[-2:]
        known = {"nothing": {}, "n and k": {d: dims[d] for d in last}, "all": dims}[given]
        device = driver.device()
        kernel = scalec.compile(source, dims=known)
        with context.context():
            module = build(source, dims)
            values = reference.make(module, dims, seed=7)
            results = reference.run(module, values, dims=dims, exact=True)
        ((expected,), (points,)) = results.values(), results.written.values()
        for order in ORDERS:
            runs = [_run(kernel, device, values, dims, fill, order, points) for fill in FILLS]
            assert np.array_equal(*(run[points].view(np.uint8) for run in runs)), f"{dims}: two runs differ"
            found = reference.diff(runs[0].astype(np.float64), expected)
            assert found < limit, f"{dims}, {kernel.spec.schedule}: diff {found:.2e}"


def _run(kernel, device, values, dims, fill: int, order, points) -> np.ndarray:
    def lies(t) -> dict:
        return {"pad": 1, "gap": 2, "order": order if len(t.shape) == 3 and t.layout == "row" else None}

    given = [
        float(values[t.name]) if t.scalar else Guarded(device, t, reference.storage(values[t.name]), **lies(t))
        for t in kernel.spec.operands
    ]
    (r,) = kernel.spec.results
    out = Guarded.result(device, r, dims, fill, reference.storage(values[r.name]) if r.inout else None, **lies(r))
    kernel(*given, out=out)
    device.synchronize(0)
    for x in (x for x in given if isinstance(x, Guarded)):
        assert not x.changed(), f"{dims}: {x.spec.name}, or bytes beside it, have changed"
    assert not out.changed(dims, points), f"{dims}: bytes around or between the rows were written"
    return out.numpy()
