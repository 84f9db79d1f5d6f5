"""What the compiler chooses without a schedule, through ptxas: the emulator runs PTX, and a first choice that spills is
replaced only here. None of these programs may be refused.

Operands that warps turn or that are converted, gated layers, groups, gathered rows, results that are quantised or
stored transposed, and reductions beside a product; with 16 rows, and with rows that are not known.
"""

from __future__ import annotations

import pytest

from scalec.compiler import compile_source

AWQ = "n/8*8 + n%2*4 + n%8/2"
FEW, ANY, GROUPS = {"m": 16, "n": 4096, "k": 4096}, {"n": 4096, "k": 4096}, {"g": 8, "n": 4096, "k": 4096}
RANGES = " for m in off[g]:off[g+1]"


def gated(a: str, b: str, scales: str = "", result: str = "H[m,n]") -> str:
    first, second = (b.replace("B", x).replace("Z", y) for x, y in (("P", "Y"), ("R", "W")))
    return f"G[m,n] = {a} @ {first}{scales}; U[m,n] = {a} @ {second}{scales}; {result} = silu(G) * U"


def words(a: str) -> str:
    return gated(a, f"(B[k, {AWQ}]:u4 - Z[k/128, {AWQ}])", " scale(none, 128x1:f16)")


I4, I8 = "B[n,k]:i4 scale(none, 1x128:{})", "B[n,k]:i8 scale(1x128, 1x128)"
PROGRAMS: list[tuple[str, str, dict[str, int]]] = [
    ("sm_120a", words("A[m,k]:f16"), FEW),
    ("sm_90a", words("A[m,k]:f16"), ANY),
    (
        "sm_100a",
        gated("A[m,k]:f16", "(B[k/8,n,k%8]:u4 - (Z[k/128,n]:u4 + 1))", " scale(none, 1x128:f16@col)"),
        FEW,
    ),
    ("sm_120a", gated("A[m,k]:e4m3", "B[k,n]:e4m3", " scale(1x128, 128x128)"), ANY),
    ("sm_90a", gated("A[m,k]:e4m3", "B[k,n]:e4m3", " scale(1x128, 128x128)"), FEW),
    ("sm_90a", gated("A[m,k]:e4m3", "(B[n,k]:u4 - Z[k/128,n]:u4)", " scale(1x128, 1x128:f16)"), ANY),
    ("sm_90a", gated("A[m,k]:mxfp8", "B[n,k]:mxfp4", result="H[m,n]:mxfp8"), ANY),
    ("sm_100a", gated("A[m,k]:bf16", "B[n,k]:nvfp4"), FEW),
    ("sm_90a", gated("A[idx[m],k]:bf16", "B[e[m/64],n,k]:nvfp4"), ANY),
    (
        "sm_90a",
        f"C[m,n] = A[m,k]:f16 @ (B[g,k, {AWQ}]:u4 - Z[g,k/128, {AWQ}]) scale(none, 1x128x1:f16){RANGES}",
        GROUPS,
    ),
    *(
        (
            target,
            "C[m,n] = A[m,k]:f16 @ (B[g,k/8,n,k%8]:u4 - (Z[g,k/128,n]:u4 + 1)) scale(none, 1x1x128:f16@col)" + RANGES,
            GROUPS,
        )
        for target in ("sm_90a", "sm_120a")
    ),
    ("sm_120a", f"C[m,n] = A[m,k]:e4m3 @ B[g,k,n]:e4m3 scale(1x128, 1x128x128){RANGES}", GROUPS),
    ("sm_90a", f"C[m,n] = A[m,k]:e4m3 @ B[g,n,k]:nvfp4 scale(1x128){RANGES}", {"k": 2048}),
    ("sm_90a", "C[m,n] = A[idx[m],k]:e4m3 @ B[e[m/64],n,k]:i4 scale(1x128, 1x1x128:bf16)", ANY),
    ("sm_100a", "C[g,m,n]:f32 = A[k,m]:e4m3 @ B[k,n]:e4m3 for k in off[g]:off[g+1]", {"m": 1024, "n": 4096}),
    ("sm_90a", "C[m,n] = A[m,k]:bf16 @ " + I4.format("bf16"), ANY),
    ("sm_90a", "C[m,n] = A[m,k]:f16 @ B[n,k]:i4 scale(none, 1x64:f16)", ANY),
    ("sm_100a", "C[m,n] = A[m,k]:f16 @ B[n,k]:i4 scale(none, 1x64:f16)", FEW),
    ("sm_90a", "C[m,n] = A[m,k]:bf16 @ (B[n,k]:u4 - 8) scale(none, 1x128:bf16)", FEW),
    ("sm_90a", "C[m,n] = A[m,k]:e4m3 @ B[n,k]:i4 scale(1x128, 1x128)", ANY),
    ("sm_90a", "C[m,n] = A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128)", FEW),
    ("sm_90a", "C[m,n] = A[m,k]:e4m3 @ B[n,k]:mxfp8 scale(1x128)", ANY),
    ("sm_90a", "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp4", ANY),
    ("sm_90a", f"C[m,n] = A[m,k]:e4m3 @ {I8}", ANY),
    ("sm_120a", f"C[m,n] = A[m,k]:bf16 @ {I8.replace('1x128, ', 'none, ')}", FEW),
    ("sm_90a", "D[m,n]:nvfp4 = silu(A[m,k]:bf16 @ B[n,k]:nvfp4)", FEW),
    ("sm_120a", "D[m,n]:e4m3 scale(1x128) = gelu(A[m,k]:bf16 @ B[n,k]:mxfp4 + b[n])", ANY),
    ("sm_90a", "D[m,n]:e4m3 scale(1xn) = A[m,k]:e4m3 @ B[n,k]:i4 scale(1x128, 1x128)", {"n": 2048, "k": 2048}),
    ("sm_90a", "C[m,n] = A[m,k] @ quantize(B[n,k]:nvfp4, e4m3, 1x128) scale(1x128)", ANY),
    ("sm_90a", "C[n,m] = A[m,k]:bf16 @ B[n,k]:nvfp4", ANY),
    ("sm_120a", "C[n,m]:f32 = A[m,k]:e4m3 @ B[n,k]:i4 scale(1x128, 1x128)", FEW),
    ("sm_90a", "D[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:tf32; S[m]:f32 = sum[k](A[m,k]^2)", {"n": 24, "k": 28672}),
    ("sm_100a", "D[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:tf32; S[m]:f32 = sum[k](A[m,k]^2)", {}),
    ("sm_90a", "C[m,n] = relu(A[m,k]:bf16) @ B[n,k]:nvfp4", ANY),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("target", "source", "dims"), PROGRAMS)
def test_some_schedule_is_shipped(target: str, source: str, dims: dict[str, int]) -> None:
    assert compile_source(source, target, dims, tuned=False).cubin
