"""Parts of a tensor that indices pick out, on every target: halves and interleaved rows, of it and of its scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.errors import ArgumentError, ScalecError
from scalec.reference.packing import numpy_dtype
from scalec.runtime import emulated
from tests.emulator.running import refusals
from tests.emulator.test_several_results import EVERY, TARGETS, run
from tests.tiers import SEEDS

HALVES, ROWS = ("n", "n+size(n)"), ("2*n", "2*n+1")
FP8, BLOCKED = "scale(1x128,128x128)", "scale(1x32:ue8m0@blocked,1x32:ue8m0@blocked)"


def gated(
    parts: tuple[str, str], w: str = "W[*,k]", x: str = "X[m,k]", scales: str = "", more: str = "", to: str = ""
) -> str:
    """A gated layer whose weights are parts of W, by the index in the place of the star."""
    gate, up = (f"{t}[m,n] = {x} @ {w.replace('*', at)} {scales} {more}" for t, at in zip("GU", parts, strict=True))
    return f"{gate}; {up}; H[m,n]{to} = silu(G) * U"


DENSE = {"m": 77, "n": 160, "k": 256}
WHOLE = DENSE | {"n": 128}
RAGGED = "for m in off[g]:off[g+1]"

CASES: dict[str, tuple[str, dict[str, int]]] = {
    "halves": (gated(HALVES), DENSE),
    "halves, by a number": (gated(("n", "n+160")), DENSE),
    "rows": (gated(ROWS), DENSE | {"n": 37}),
    "the second half of three": ("C[m,n] = X[m,k] @ W[n+size(n),k] + W[n+2*size(n),0]", DENSE),
    "three": (
        "P[m,n] = X[m,k] @ W[n,k]; Q[m,n] = X[m,k] @ W[n+size(n),k]; R[m,n] = X[m,k] @ W[n+2*size(n),k]; "
        "H[m,n] = P*Q + R",
        DENSE,
    ),
    "one": ("C[m,n]:f32 += X[m+3,k] @ W[2*n+1,k]", DENSE),
    "fp8 halves": (gated(HALVES, scales=FP8, to=":mxfp8"), WHOLE),
    "fp8 rows": (gated(ROWS, scales=FP8, to=":mxfp8"), DENSE),
    "scales of rows": (gated(ROWS, scales="scale(1x128,1x128)"), DENSE | {"k": 512}),
    "scales of columns": (gated(HALVES, scales="scale(1x128@col,1x128@col)"), DENSE),
    "scales constant along k": (gated(ROWS, scales="scale(1xk,1xk)"), DENSE),
    "mxfp8": (gated(HALVES, "W[*,k]:mxfp8", "X[m,k]:mxfp8"), DENSE),
    "nvfp4": (gated(ROWS, "W[*,k]:nvfp4", "X[m,k]:nvfp4"), DENSE),
    "int4": (gated(ROWS, "W[*,k]:i4", "X[m,k]:bf16", "scale(none,1x64:f16)"), DENSE),
    "tiles of scales": (gated(HALVES, scales=BLOCKED), WHOLE),
    "packed scales": (gated(HALVES, scales="scale(1x32:ue8m0@packed,1x32:ue8m0@packed)"), DENSE),
    "zero points": (
        "C[m,n] = X[m,k]:bf16 @ (W[2*n+1,k]:u4 - Z[2*n+1,k/128]) scale(none,1x128:f16)",
        DENSE,
    ),
    "n contiguous": (gated(HALVES, "W[k,*]"), DENSE),
    "anew": (gated(ROWS, "quantize(W[*,k]:mxfp4, e4m3, 1x128:ue8m0)", scales="scale(1x128)", to=":mxfp8"), DENSE),
    "anew, groups": (
        gated(HALVES, "quantize(W[g,*,k]:u4 - 8, e4m3, 1x128)", scales="scale(1x128,1xk:f16)", more=RAGGED),
        DENSE | {"g": 3},
    ),
    "anew, a part of k": ("C[m,n] = quantize(A[2*m,k+128]:f16, e4m3, 1x128) @ B[n,k]:e4m3", DENSE),
    "anew, both": ("C[m,n] = quantize(A[m+3,k]:bf16, e4m3, 1x64) @ quantize(B[2*n+1,k]:nvfp4, e4m3, 1x64)", DENSE),
    "groups": (gated(HALVES, "W[g,*,k]", scales="scale(1x128,1x128x128)", more=RAGGED), WHOLE | {"m": 300, "g": 3}),
    "blocks of groups": (gated(ROWS, "W[e[m/128],*,k]"), DENSE | {"m": 300, "W_0": 3}),
    "gathered": (gated(ROWS, "W[g,*,k]", "X[idx[m],k+64]", more=RAGGED), DENSE | {"g": 3, "X_0": 30}),
    "of a batch": ("C[b,m,n] = A[2*b+1,m,k] @ B[b,n,k]", DENSE | {"b": 2}),
    "a part of k": ("C[m,n] = A[m,k+64] @ B[n,k+size(k)]", DENSE),
    "computed": ("C[m,n] = relu(A[2*m+1,k]) @ B[n+5,k]", DENSE),
    "read beside": ("C[m,n] = A[m,k] @ B[n,k] + b[n] * b[n+size(n)] + R[2*m,n]", DENSE),
    "every second of a row": (
        gated(ROWS).replace("silu(G) * U", "silu(G + b[2*n]) * (U + b[2*n+1]) + R[2*m+1,2*n]:f32"),
        DENSE,
    ),
    "swapped": ("C[m,n] = A[m,k] @ B[2*n+1,k] with swap=1", DENSE | {"m": 16}),
    "rows first": ("C[n,m] = A[m,k] @ B[2*n+1,k]", DENSE),
    "reduced": ("T[m,n] = A[m,k] @ B[2*n,k]; R[m]:f32 = max[n](T)", DENSE | {"n": 96}),
    "as many rows as a block": ("C[m,n]:f32 = X[2*m,n] scale(2x32:ue8m0)", {"m": 7, "n": 70}),
    "of no product": ("C[m,n] = silu(X[m,n]) * X[m,n+size(n)] + Y[2*m+1,n]", {"m": 77, "n": 160}),
}  # fmt: skip


@pytest.mark.once("case")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", [(name, target) for name in CASES for target in EVERY], ids=" ".join)
def test_views(case: tuple[str, str], seed: int) -> None:
    name, target = case
    source, dims = CASES[name]
    unknown = seed % 2 == 0 and name not in ("mxfp8", "nvfp4", "int4", "anew", "tiles of scales", "zero points")
    run(source, target, dims, "" if unknown else "nk" if "k" in dims else "n", seed)


@pytest.mark.parametrize("size", ["m", "n", "k"])
@pytest.mark.parametrize("target", TARGETS)
def test_empty(target: str, size: str) -> None:
    run(gated(ROWS if size == "n" else HALVES), target, DENSE | {size: 0})


def called(source: str, shapes: dict[str, tuple[int, ...]]) -> Any:
    """The result of a call whose result is allocated, with zeros for tensors."""
    kernel = scalec.compile(source, target="sm_90a")
    kernel.fixed = device = emulated.EmulatedDevice("sm_90a")
    kernel.load(device)
    return kernel(*[np.zeros(shapes[t.name], numpy_dtype(t.dtype)) for t in kernel.spec.operands])


def test_sizes_at_the_call() -> None:
    """The tensor that has the parts tells the size of a part."""
    assert called(gated(HALVES), {"X": (5, 64), "W": (48, 64)}).shape == (5, 24)
    assert called(gated(ROWS), {"X": (5, 64), "W": (48, 64)}).shape == (5, 24)
    assert called(gated(("n", "n+8")), {"X": (5, 64), "W": (48, 64)}).shape == (5, 40)
    with pytest.raises(ArgumentError, match=r"W has extent 47 along index 0 \(2\*n\), expected 46"):
        called(gated(ROWS), {"X": (5, 64), "W": (47, 64)})


def test_an_odd_size_that_rows_of_half_bytes_do_not_tell() -> None:
    """Rows of 4 bits in whole bytes are of an even number, unless another tensor tells."""
    run(gated(ROWS, to=":e2m1").replace("W[2*n,k]", "W[2*n,k]:mxfp4 scale(1x128)"), "sm_120a", DENSE | {"n": 63}, "k")


def test_parts_that_begin_elsewhere() -> None:
    """What is known at the call alone is refused there."""
    scales = {"X_scale": (5, 1), "W_scale": (2, 1)}
    with pytest.raises(ArgumentError, match=r"W_scale\[.*\] begins where the kernel cannot read[^$]*n = 100[^$]*128"):
        called(gated(HALVES, scales=FP8), {"X": (5, 128), "W": (200, 128)} | scales)
    with pytest.raises(ArgumentError, match=r"W\[k, n \+ size\(n\)\] begins[^$]*24 bytes[^$]*multiple of 16"):
        called(gated(HALVES, "W[k,*]"), {"X": (5, 64), "W": (64, 24)})


REFUSED = (
    ("C[m,n] = quantize(A[m,k+64]:f16, e4m3, 1x128) @ B[n,k]:e4m3", r"A\[m, k \+ 64\] has a computed index"),
    (gated(("n", "n+100"), scales=FP8), "W is read at n [+] 100, and W_scale has one for each 128"),
    (gated(("3*n", "3*n+1"), scales=FP8), "W is read at 3[*]n, and W_scale has one for each 128"),
    (gated(ROWS, "W[k,*]"), "W is read at 2[*]n: this index is the contiguous one"),
    (gated(("n", "n+7"), "W[k,*]"), "W is read at n [+] 7: copies begin at multiples of 8"),
    (gated(ROWS, scales="scale(1x128@col,1x128@col)"), "W_scale is read at 2[*]n: this index is the contiguous one"),
    (gated(ROWS, scales=BLOCKED), "W_scale is read at 2[*]n: its scales lie in tiles of 128 rows"),
    ("C[m,n] = A[m,k]:e2m1 @ B[n,k+32]:e2m1 scale(1x16:ue4m3,1x16:ue4m3)", "several elements share a byte"),
    ("C[m,n] = A[m,k] @ B[n+size(n)/2,k]", r"size\(n\) stands in an index that no kernel reads at"),
)


def test_two_columns_at_once() -> None:
    """Threads read two columns of an input where N is even and known: a part that begins at an odd one has none."""
    with pytest.raises(ScalecError, match=r"b\[n \+ 1\] begins at element 1 of the contiguous index of b"):
        scalec.compile("C[m,n] = A[m,k] @ B[n,k] + b[n+1]", target="sm_90a", dims={"n": 160})


test_refused = refusals(REFUSED, ScalecError, "sm_100a", {"k": 256})
