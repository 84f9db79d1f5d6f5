"""How many threads share a row, and a turned tile, of a program without a contraction."""

from __future__ import annotations

import pytest

import scalec
from scalec.compiler import compile_source

NORM = "R[m] = sum[k](X[m,k]^2); Y[m,k]:mxfp8 = X[m,k] * w[k] / sqrt(R)"
SOFTMAX = "M[m] = max[k](X[m,k]); E[m,k] = exp(X[m,k] - M); S[m] = sum[k](E); Y[m,k] = E / S"
MEAN = "M[m] = sum[k](X[m,k])/n; V[m] = sum[k]((X[m,k] - M)^2)/n; "
LAYER = MEAN + "Y[m,k] = (X[m,k] - M)/sqrt(V + e)*w[k] + b[k]"

BOTH = "Q[m,k]:mxfp8 = X[m,k]; T[k,m]:mxfp8 = X[m,k]"
GATE = "D[m,k] = dH[m,k] * U[m,k] * sigmoid(G[m,k]); Q[m,k]:fp8_block = D; T[k,m]:fp8_block = D"


@pytest.mark.parametrize(
    ("program", "k", "threads", "registers", "spread"),
    [
        pytest.param(SOFTMAX, 2048, 128, 72, "rows=2, columns=2048", id="a power of two"),
        pytest.param(SOFTMAX, 7168, 224, 56, "rows=1, columns=7168", id="warps that all have something"),
        pytest.param(NORM, 7168, 224, 56, "rows=1, columns=7168", id="more than 256 else"),
        pytest.param(NORM, 12288, 384, 56, "rows=1, columns=12288", id="of 32 elements"),
        pytest.param(SOFTMAX, 20480, 320, 128, "rows=1, columns=20480", id="of 64, as 640 threads had 32"),
        pytest.param(LAYER, 7168, 224, 72, "rows=1, columns=7168", id="spills with 56"),
        pytest.param(NORM, 32768, 256, 56, "rows=1, columns=4096", id="walked"),
        pytest.param("T[k,m]:mxfp6 = X[m,k]", 7168, 256, 64, "rows=128, columns=64", id="whole sectors of 6 bits"),
        pytest.param("T[k,m]:mxfp8 = X[m,k]", 7168, 256, 64, "rows=128, columns=64", id="scales of four blocks"),
        pytest.param("T[k,m]:fp8_block = X[m,k]", 7168, 256, 64, "rows=128, columns=64", id="blocks of 128 of a row"),
        pytest.param(GATE, 7168, 512, 64, "rows=128, columns=128", id="of three tensors, one place after another"),
        pytest.param(BOTH, 7168, 256, 64, "rows=64, columns=128", id="scales in both orders"),
        pytest.param("Y[m,k]:f32 = x[k] + r[m]", 7168, 128, 56, "rows=2, columns=512", id="of 4096 bytes"),
        pytest.param("Y[b,m,k] = x[k] - r[b,m]", 7168, 128, 56, "rows=2, columns=1024", id="none turned"),
        pytest.param("Y[m,k]:f32 = x[k%8] + r[m]", 7168, 128, 56, "rows=8, columns=128", id="single columns"),
        pytest.param("Y[m,k]:f32 = x[k/8] + r[m]", 7168, 128, 56, "rows=2, columns=512", id="of a block of columns"),
        pytest.param("Y[m,k]:f32 = X[m,k]:nvfp4", 7168, 128, 56, "rows=2, columns=512", id="a store of 16 bytes"),
        pytest.param("Y[m,k] = x[k] + X[m,k]", 7168, 128, 56, "rows=1, columns=1024", id="reads as much"),
        pytest.param("Y[m,k] = x[k] + X[m,k]", 7167, 128, 56, "rows=1, columns=512, vector=1", id="rows of any size"),
    ],
)
def test_threads(program: str, k: int, threads: int, registers: int, spread: str) -> None:
    kernel = scalec.compile(program, "sm_90a", dims={"k": k})
    assert kernel.spec.launch.threads == threads
    assert kernel.spec.schedule.startswith(spread)
    assert f".maxnreg {registers}\n" in kernel.ptx


@pytest.mark.parametrize(("m", "rows"), [(1024, 64), (8192, 128)])
def test_many_rows_have_tiles_of_more(m: int, rows: int) -> None:
    kernel = scalec.compile(BOTH, "sm_90a", dims={"m": m, "k": 7168})
    assert kernel.spec.schedule.startswith(f"rows={rows}, columns=128")


@pytest.mark.parametrize(
    ("program", "order"),
    [
        ("T[k,m]:mxfp8 = X[idx[m],k]", "n"),
        ("T[k,m]:mxfp8 = X[m,k]", "n"),
        ("T[k,m]:mxfp6 = X[m,k]", "m"),
        ("Q[m,k]:mxfp8 = X[idx[m],k]", "m"),
        ("Q[m,k]:mxfp8 = X[idx[m],k]; T[k,m]:mxfp8 = X[idx[m],k]", "m"),
    ],
)
def test_order_of_tiles(program: str, order: str) -> None:
    made = compile_source(program, "sm_90a", {"k": 256}, until="tile")
    assert f'order = "{order}"' in made.texts["tile"]
