"""Rows, pages and groups that memory names, on a GPU: computed operands of gathered rows, pages that have their scales
in one buffer, and turned results of groups whose rows begin at any byte. Between guards, over NaNs, twice."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import Guarded
from scalec.checking.launch import made_up
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from tests.emulator.pointwise import bit_equal
from tests.emulator.running import launched
from tests.emulator.test_page_buffers import FORMS, LOGITS, Pages, given, tables
from tests.emulator.test_row_statistics import of
from tests.emulator.test_row_stores import IN_GROUPS, with_offsets

pytestmark = pytest.mark.gpu

RANGE = "for m in off[g]:off[g+1]"
GATHERED = {
    "rows, matrices": "C[m,n]:f32 = relu(A[idx[m],k]) @ B[e[m/128],n,k]",
    "both computed": f"C[m,n] = (A[idx[m],k]:e4m3 * w[k]):bf16 @ relu(B[g,n,k]) {RANGE}",
    "beside masked groups": "C[g,m,n] = silu(A[g,m,k]) @ abs(B[e[g],n,k]) for m < rows[g]",
    "scattered": "C[idx[m],n]:f32 = relu(A[m,k]) @ abs(B[e[m/64],n,k])",
}


def large(here: Any) -> bool:
    return not isinstance(here, emulated.EmulatedDevice)


@pytest.mark.parametrize("name", GATHERED)
def test_computed_operands(here: Any, name: str) -> None:
    source = GATHERED[name]
    kernel = scalec.compile(source, "sm_90a", {"k": 264})
    for m, n in ((77, 200), (1, 40), *[(1500, 520)] * large(here)):
        dims = of(source, {"m": m, "n": n, "k": 264, "g": 5, "A_0": 50, "B_0": 3, "C_0": 2 * m})
        values, expected = made_up(source, dims, 5)
        launched(kernel, values, expected, dims, 5)


BY_ROW = ["FP8, row by row", "FP8 of short rows, row by row", "MXFP4, row by row"]


@pytest.mark.parametrize("name", ["FP8", "MXFP4", "MXFP8", "BF16 by MXFP4", *BY_ROW])
def test_pages_with_their_scales(here: Any, name: str) -> None:
    """Rows and scales of a page in one buffer, of MXFP4 64 x 68 bytes: contexts of 0, of one, of whole pages and all,
    pages in any order, one twice, and none where nothing is read."""
    source, d = LOGITS.format(FORMS[name][0]), FORMS[name][1]
    t, page = 1000 if large(here) else 150, 64
    lengths = [0, 1, 2 * page, t]
    dims = {"s": 4, "t": t, "d": d, "h": 16, "K_0": 4 * -(-t // page) + 1}
    values = dict(made_up(source, dims, 3)[0]) | {"len": np.array(lengths, np.int32)}
    kernel = scalec.compile(source, "sm_90a", {"h": 16, "d": d})
    pages = Pages(here, values)
    for table in tables(values).values():
        with context.context():
            wanted = reference.run(build(source, dims), values | {"table": table}, dims=dims, exact=True)["L"]
        arguments, runs = given(kernel, values | {"table": table}, pages), []
        for fill in (0xFF, 0x55):
            out = Guarded.result(here, kernel.spec.results[0], dims, fill, None)
            kernel(*(arguments[x.name] for x in kernel.spec.operands), out=out)
            here.synchronize(0)
            assert not out.changed(dims)
            runs.append(out.numpy())
        got, outside = runs[0], np.isinf(wanted)
        assert np.array_equal(*runs)
        assert (got[outside] == -np.inf).all()
        assert reference.diff(got[~outside].astype(np.float64), wanted[~outside]) < 1e-5
        assert np.abs(got[~outside] - wanted[~outside]).max() < 1e-2 * np.abs(wanted[~outside]).max()


OFFSETS = [(545, [0, 255, 256, 257, 545]), (576, [16, 48, 60, 61, 63, 350, 350])]


@pytest.mark.parametrize("name", [n for n in IN_GROUPS if n not in ("batches", "and 16 bits")])
def test_turned_results_of_groups(here: Any, name: str) -> None:
    """Bit for bit the reference's, whatever byte a row begins and ends at; NaN in all rows that are no group's."""
    for m, offsets in OFFSETS:
        dims = {"m": m, "k": 40 + m % 3, "g": len(offsets) - 1}
        bit_equal(IN_GROUPS[name], dims, "", "sm_90a", change=partial(with_offsets, offsets), on=here)


@pytest.mark.parametrize("result", ["e4m3", "mxfp8", "mxfp4"])
def test_turned_rows_of_any_length(here: Any, result: str) -> None:
    for m in (130, 132) if result == "mxfp4" else (131, 257):
        bit_equal(f"T[k,m]:{result} = X[m,k]", {"m": m, "k": 66}, "", "sm_90a", on=here)
