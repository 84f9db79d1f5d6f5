"""4-bit results whose accumulators have columns permuted within 32: a thread has eight adjacent ones, a register."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalec import reference
from scalec.errors import DeviceError
from scalec.frontend import build
from scalec.ir import context
from scalec.reference.packing import unpack4
from scalec.reference.quantize import quantize
from tests.emulator.quantised import changed, codes, compile_, in_either_order, launch, parsed, run_quantised, same
from tests.emulator.test_permuted_columns import BF16, BLOCKS, BOTH, COLUMNS, ROWS
from tests.tiers import fields

NARROW = "e2m1 scale(1x16:ue4m3{})"  # of 32 columns two lanes have a block, the other two the next
WIDE = "e2m1 scale(1x32:ue8m0{})"

CASES = {
    "nvfp4": (BLOCKS, "nvfp4", {"m": 72, "n": 256, "k": 256}, "tile=64x128x128"),
    "nvfp4, a tail of 32 columns": (BLOCKS, "nvfp4", {"m": 72, "n": 288, "k": 256}, "tile=64x128x128"),
    "nvfp4, tiles of 64": (BF16, "nvfp4", {"m": 40, "n": 96, "k": 128}, "tile=64x64x64"),
    "nvfp4, tiles of 192": (BF16, "nvfp4", {"m": 136, "n": 384, "k": 128}, "tile=128x192x64"),
    "nvfp4, two waves": (BLOCKS, "nvfp4", {"m": 300, "n": 128, "k": 256}, "tile=256x128x128"),
    "nvfp4, in several goes": (BLOCKS, "nvfp4", {"m": 136, "n": 256, "k": 256}, "tile=128x256x128"),
    "mxfp4": (BLOCKS, "mxfp4", {"m": 72, "n": 224, "k": 256}, "tile=64x128x128"),
    "mxfp4, inputs of the epilogue": (BOTH, "mxfp4", {"m": 72, "n": 224, "k": 128}, "tile=128x128x64"),
    "scales of B's rows by windows": (ROWS, "nvfp4", {"m": 72, "n": 224, "k": 512}, "tile=64x64x128"),
    "scales of B's rows by vectors": (COLUMNS, "mxfp4", {"m": 72, "n": 224, "k": 256}, "tile=64x64x128"),
    "parts of K": (BLOCKS, "nvfp4", {"m": 72, "n": 224, "k": 512}, "tile=64x64x128, split=2"),
    "B multicast": (BLOCKS, "nvfp4", {"m": 300, "n": 192, "k": 256}, "tile=128x64x128, cluster=2x1"),
    "in columns": (BF16, NARROW.format("@col"), {"m": 40, "n": 160, "k": 128}, "tile=64x64x64"),
    "blocked, two of a word's four": (
        BF16,
        NARROW.format("@blocked"),
        {"m": 136, "n": 96, "k": 128},
        "tile=128x128x64",
    ),
    "blocked, tiles of 64": (BF16, NARROW.format("@blocked"), {"m": 40, "n": 160, "k": 128}, "tile=64x64x64"),
    "packed blocks of 32": (BF16, WIDE.format("@packed"), {"m": 40, "n": 160, "k": 128}, "tile=64x128x64"),
}


@pytest.mark.once(touches=lambda name: fields(CASES[name]))
@pytest.mark.parametrize("name", CASES)
def test_quantised(name: str) -> None:
    program, result, dims, settings = CASES[name]
    kernel = run_quantised(program, result, dims, ("n", "k"), len(name), "sm_90a", settings)
    assert "permute_n=32" in kernel.spec.schedule
    assert "cp.async.bulk.tensor.5d" in kernel.ptx
    assert "stmatrix" in kernel.ptx
    assert "st.shared.b8" not in kernel.ptx


@pytest.mark.parametrize("result", ["nvfp4", "mxfp4"])
def test_the_order_of_columns_changes_no_bit(result: str) -> None:
    in_either_order(BLOCKS, result, {"m": 72, "n": 224, "k": 256}, "tile=64x128x128", 32)


@pytest.mark.parametrize("permute", [0, 32])
def test_ties_and_their_neighbours(permute: int) -> None:
    """Each number halfway between two of e2m1, and those next to it, of either sign: products of one row's scale and
    one column's, with which a sum of 1 is multiplied. Scales of the result are powers of two."""
    dims = {"m": 24, "n": 64, "k": 128}
    program = "D[m,n]{} = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1xk,1xk)"
    element, g, _ = parsed("mxfp4")
    values: dict[str, Any] = {}
    with context.context():
        values = dict(reference.make(build(program.format(":f32"), dims), dims, seed=3))
    for name in "AB":
        values[name][:] = 0
        values[name][:, 0] = 1
    mantissas = np.array([x * (1 + d * 2.0**-23) for x in (1, 1.25, 1.5, 1.75) for d in (-1, 0, 1)], np.float32)
    values["A_scale"][:, 0] = np.resize(mantissas, dims["m"])
    powers = np.resize([2.0**e for e in (2, 1, 0, -1, -2, -3)], dims["n"])
    values["B_scale"][:, 0] = powers * np.where(np.arange(dims["n"]) % 5 < 2, -1, 1)
    sums = (values["A_scale"] * values["B_scale"].T).astype(np.float32)
    wanted = quantize(sums, element, [g])
    source = f"{program.format(':mxfp4')} with tile=64x64x128, permute_n={permute}"
    (got, scales), _ = launch(compile_(source, "sm_90a", dims, ("n", "k")), "sm_90a", values, dims, 5)
    same(codes(scales), codes(wanted.scales[0]), "scales")
    same(codes(unpack4(got.view(np.uint8), dims["n"])), codes(wanted.values), "values")
    assert len(np.unique(codes(wanted.values))) == 16, "all numbers occur"


FAULTS = [
    ("the other lane's largest", r"(shfl\.sync\.bfly\.b32 %r\d+, %r\d+,) 1,", r"\1 2,"),
    ("the other lane's scales", r"(shfl\.sync\.bfly\.b32 %r\d+, %r\d+,) 2,", r"\1 1,"),
    ("a sign dropped", r"(and\.b32 \t%r\d+, %r\d+,) -2004318072;", r"\1 -2004318200;"),
    ("neighbours exchanged", r"(cvt\.pack\S+ %r\d+,) (%r\d+), (%r\d+),", r"\1 \3, \2,"),
    ("codes and signs wrap", r"cvt\.pack\.sat\.s4", "cvt.pack.sat.u4"),
    ("a spacing of 1 below 2", r"0f00000002;", r"0f00000001;"),
    ("a spacing of 1 above 4", r"0f4B7FFFFC;", r"0f4B000000;"),
    ("a code too many above 2", r"(add\.s32 \t%r\d+, %r\d+,) -1266679802;", r"\1 -1266679801;"),
    ("the reciprocal's correction", r"(fma\.rn\.f32 \t%r\d+, %r\d+, (%r\d+)), \2;", r"\1, 0f00000000;"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "old", "new"), FAULTS, ids=[f[0] for f in FAULTS])
def test_fault(what: str, old: str, new: str) -> None:
    with pytest.raises((AssertionError, DeviceError)):
        run_quantised(
            BLOCKS,
            "nvfp4",
            {"m": 40, "n": 256, "k": 256},
            ("n", "k"),
            1,
            "sm_90a",
            "tile=64x128x128",
            changed(old, new),
            times=1,
        )
