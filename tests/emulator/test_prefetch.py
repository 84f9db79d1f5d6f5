"""Scales of blocks of rows, and what is read of rows and columns, are asked for before they are loaded: each sector of
them, and nothing else."""

from __future__ import annotations

import pytest

from tests.emulator.running import run_on

BLOCKS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128) with {}"
COLUMNS = "C[m,n] = A[m,k]@B[n,k] scale(1x128:f32@col,128x128{}) with tile=64x128x128"
SIZES = {"m": 72, "n": 400, "k": 512}  # 4 rows of 4 scales are 64 bytes, 2 sectors
LONG = {"m": 8, "n": 272, "k": 7168}  # 3 rows of 56: 21 sectors, more with a row's beginnings than a warp has lanes


@pytest.mark.once("fixed")
@pytest.mark.parametrize(
    ("source", "sizes", "fixed", "sectors"),
    [
        (BLOCKS.format("tile=64x128x128"), SIZES, ("n", "k"), 2),
        (BLOCKS.format("tile=64x96x128, cluster=1x2"), SIZES, ("n", "k"), 2),  # tiles in two blocks each
        (BLOCKS.format("tile=64x192x128"), SIZES, ("k",), 2),
        (BLOCKS.format("tile=64x128x128, split=2"), {**SIZES, "k": 2048}, ("n", "k"), 8),
        (BLOCKS.format("tile=64x32x128, swap=1"), SIZES, ("n", "k"), 2),  # of rows of the transposed result
        (BLOCKS.format("tile=64x160x128"), LONG, ("n", "k"), 21),
        (COLUMNS.format(""), LONG, ("n",), 21),  # as many as there are lanes for, of each tile
        (COLUMNS.format(":f32@col"), SIZES, ("n", "k"), 2),  # 4 columns of 4: a lane for each
    ],
)
def test_each_sector_is_asked_for(source, sizes, fixed, sectors):
    asked = sorted(run_on(source, sizes, fixed, 0, 1e-3).stats.prefetched)
    assert asked == list(range(asked[0], asked[0] + sectors))


READS = "C[m,n] = gelu(A[m,k]@B[n,k] * g[m] + b[n] + h[m/64]) * R[m,n]{}"
WHOLE = "C[m,n] = A[m,k]@B[n,k] scale(mxk,nxk)"


@pytest.mark.once("target")
@pytest.mark.parametrize(
    ("source", "sizes", "target", "sectors"),
    [
        # of bf16: 72 rows 5, 272 columns 17, two of h 1; R is read by those who need it
        (READS.format(""), {"m": 72, "n": 272, "k": 128}, "sm_90a", 23),
        (READS.format(" with swap=1, tile=64x16x64"), {"m": 72, "n": 272, "k": 128}, "sm_90a", 23),
        (READS.format(" with split=2"), {"m": 72, "n": 272, "k": 512}, "sm_90a", 23),
        (READS.format(""), {"m": 72, "n": 272, "k": 128}, "sm_120a", 23),
        (WHOLE, {"m": 72, "n": 272, "k": 128}, "sm_90a", 0),  # consumers read it at the start
        ("C[m,n]:f32 += A[m,k]@B[n,k]", {"m": 72, "n": 272, "k": 128}, "sm_90a", 0),
    ],
)
def test_what_rows_and_columns_have_is_asked_for(source, sizes, target, sectors):
    ran = run_on(source, sizes, ("n", "k"), 0, 1e-3, target=target)
    assert len(set(ran.stats.prefetched)) == sectors
