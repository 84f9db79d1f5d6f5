"""Products that are added up and are not alike: a weight of 4 bits and an adapter of 16, a factor of one of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import scalec
from scalec import compiler, frontend, reference
from scalec.checking.launch import made_up, upload
from scalec.errors import ScheduleError, UnsupportedError
from scalec.ir import context
from scalec.launches import launches
from scalec.runtime import emulated
from tests.emulator.running import TARGETS, in_pairs
from tests.emulator.test_several_results import run

ADAPTER, ADAPTER8 = "D[m,r]:bf16 @ E[n,r]:bf16", "D[m,r]:e4m3 @ E[n,r]:e4m3"

CONVERTED = {
    "nvfp4": f"C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4 + {ADAPTER} + x[n]",
    "mxfp4": f"C[m,n] = A[m,k]:bf16 @ B[n,k]:mxfp4 + {ADAPTER}",
    "f16 by f16": "C[m,n]:f16 = D[m,r]:f16 @ E[n,r]:f16 + A[m,k]:f16 @ B[n,k]:nvfp4",
    "i4": f"C[m,n] = relu(A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x128:bf16) + {ADAPTER})",
    "i4 in tiles": f"C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:i4 scale(none, 128x128) + {ADAPTER}",
    "zero points": f"C[m,n] = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/32]) scale(none, 1x32:f16) + {ADAPTER}",
    "zero points, folded": f"C[m,n] = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/32]) scale(none, 1x32:ue4m3) + {ADAPTER}",
    "e4m3": f"C[m,n]:f32 += A[m,k]:bf16 @ B[n,k]:e4m3 + {ADAPTER}",
    "both of 4 bits": "C[m,n] = A[m,k]:bf16 @ B[n,k]:mxfp4 + D[m,r]:bf16 @ E[n,r]:mxfp4",
    "two adapters": f"C[m,n] = A[m,k]:bf16 @ B[n,k]:mxfp4 + {ADAPTER} + F[m,q]:bf16 @ G[n,q]:mxfp4",
    "the left one": "C[m,n] = A[m,k]:mxfp4 @ B[n,k]:bf16 + D[m,r]:bf16 @ E[n,r]:bf16",
    "fp8 of one": "C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128) + D[m,r]:e4m3 @ E[n,r]:e4m3",
    "fp8 of one, in columns": "C[m,n] = A[m,k] @ B[n,k] scale(1x128@col, 128x128) + D[m,r]:e4m3 @ E[n,r]:e4m3",
    "quantised": f"C[m,n]:mxfp8 = gelu(A[m,k]:bf16 @ B[n,k]:nvfp4 + {ADAPTER})",
    "an adapter for each 64 rows": "C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4 + D[m,r]:bf16 @ E[e[m/64],n,r]:bf16",
}
"""Operands of one product that warps convert, and of the other that copies bring as they are multiplied."""

FACTORS = {
    "alpha": "C[m,n] = A[m,k] @ B[n,k] + alpha * (D[m,r] @ E[n,r])",
    "from memory": "C[m,n] = relu(A[m,k] @ B[n,k] + s[0]:f32 * (D[m,r] @ E[n,r]) + x[n])",
    "of rows and columns": "C[m,n] = x[m] * (A[m,k] @ B[n,k]) * y[n]:f32 + D[m,r] @ E[n,r]",
    "of elements": "C[m,n]:f32 = A[m,k] @ B[n,k] + R[m,n] * (D[m,r] @ E[n,r])",
    "minus": "C[m,n]:f32 = A[m,k] @ B[n,k] + x[n] - D[m,r] @ E[n,r]",
    "a function": "C[m,n] = relu(A[m,k] @ B[n,k] + x[n]) * 0.5 + D[m,r] @ E[n,r] - y[n]",
    "two results": "T[m,n] = A[m,k] @ B[n,k] + alpha * (D[m,r] @ E[n,r]); C[m,n] = T; F[m,n]:mxfp8 = relu(T)",
    "reduced": "T[m,n] = A[m,k] @ B[n,k] + alpha * (D[m,r] @ E[n,r]); C[m,n] = T; R[m]:f32 = max[n](abs(T))",
    "of three": "C[m,n]:f32 = A[m,k] @ B[n,k] + alpha * (D[m,r] @ E[n,r]) + F[m,q] @ G[n,q]",
    "columns last": "C[n,m] = A[m,k] @ B[n,k] + x[m] * (D[m,r] @ E[n,r])",
    "batches": "C[b,m,n] = A[b,m,k] @ B[b,n,k] + s[b]:f32 * (D[b,m,r] @ E[b,n,r])",
    "fp8 blocks": "C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128) + alpha * (D[m,r] @ E[n,r] scale(1x128, 128x128))",
    "fp8 rows": "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1xk, 1xk) + D[m,r]:e4m3 @ E[n,r]:e4m3",
    "of rows that an index names": "C[m,n] = A[m,k] @ B[n,k] + x[idx[m]]:f32 * (D[m,r] @ E[n,r])",
    "groups": "C[m,n] = A[m,k] @ B[n,k] + s[e[m/64]]:f32 * (D[m,r] @ E[e[m/64],n,r])",
    "ragged": "C[m,n] = A[m,k] @ B[g,n,k] + s[g]:f32 * (D[m,r] @ E[g,n,r]) for m in off[g]:off[g+1]",
}
"""Something that is computed of one product before the other is added."""

BOTH = {
    "two scalars": "C[m,n] = s[0]:f32 * (A[m,k] @ B[n,k]) + alpha * (D[m,r] @ E[n,r]) + x[n]",
    "nvfp4 and alpha": f"C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4 + alpha * ({ADAPTER})",
    "fp8 rows and alpha": "C[m,n] = A[m,k] @ B[n,k] scale(1xk, 1xk) + alpha * (D[m,r]:e4m3 @ E[n,r]:e4m3)",
    "fp8 blocks, both": f"C[m,n] = x[m] * (A[m,k] @ B[n,k] scale(1x128, 128x128)) + alpha * ({ADAPTER8})",
    "fp8 row scales, both": f"C[m,n]:f32 = x[m] * (A[m,k] @ B[n,k] scale(1x128, 1x128)) - y[n] * ({ADAPTER8})",
    "less, then more": "C[m,n]:f32 = x[n] - s[0]:f32 * (A[m,k] @ B[n,k]) + alpha * (D[m,r] @ E[n,r])",
    "less and less": "C[m,n] = x[m] - A[m,k] @ B[n,k] - alpha * (D[m,r] @ E[n,r])",
    "only less": "C[m,n] = x[m] - A[m,k] @ B[n,k] - D[m,r] @ E[n,r]",
    "functions": "C[m,n] = relu(A[m,k] @ B[n,k] + x[n]) + sigmoid(D[m,r] @ E[n,r])",
    "two of three": "C[m,n]:mxfp8 = relu(x[m] * (A[m,k] @ B[n,k]) + alpha * (D[m,r] @ E[n,r]) + F[m,q] @ G[n,q])",
    "all of three": "C[m,n] = x[m] * (A[m,k] @ B[n,k]) + alpha * (D[m,r] @ E[n,r]) + y[n] * (F[m,q] @ G[n,q])",
    "both, two results": "T[m,n] = x[m] * (A[m,k] @ B[n,k]) + alpha * (D[m,r] @ E[n,r]); C[m,n] = T;"
    " F[m,n]:mxfp8 = relu(T); R[m]:f32 = max[n](T)",
    "both, groups": "C[m,n] = x[m] * (A[m,k] @ B[n,k]) + s[e[m/64]]:f32 * (D[m,r] @ E[e[m/64],n,r])",
    "both, ragged": "C[m,n] = w[g]:f32 * (A[m,k] @ B[g,n,k]) + s[g]:f32 * (D[m,r] @ E[g,n,r]) for m in off[g]:off[g+1]",
}
"""Something that is computed of several, each by itself."""

GATHERED = {
    "of one": "C[m,n] = A[idx[m],k] @ B[n,k] + D[m,r] @ E[n,r]",
    "of the adapter": "C[m,n] = A[m,k] @ B[n,k] + alpha * (D[idx[m],r] @ E[n,r])",
    "of both": "C[m,n]:f32 = A[idx[m],k]:e4m3 @ B[n,k]:e4m3 + D[jdx[m],r]:e4m3 @ E[n,r]:e4m3",
    "where they go": "C[idx[m],n]:f32 += A[idx[m],k] @ B[n,k] + D[idx[m],b,r] @ E[n,b,r]",
    "experts": f"C[m,n] = A[idx[m],k]:bf16 @ B[n,k]:nvfp4 + {ADAPTER.replace('n,r', 'e[m/64],n,r')}",
    "converted": "C[m,n] = A[idx[m],k]:e4m3 @ B[n,k]:bf16 + D[idx[m],r]:bf16 @ E[n,r]:bf16",
}
"""Rows that an index names, of operands of one product or of both."""


def adapted(scales: str, other: str = "", form: str = "{} + alpha * ({})") -> str:
    """A product and an adapter with scales, those of the adapter the same unless others are given."""
    return "C[m,n] = " + form.format(f"A[m,k] @ B[n,k] scale({scales})", f"D[m,r] @ E[n,r] scale({other or scales})")


MX, WORDS, BLOCKED = (
    "1x32:ue8m0, 1x32:ue8m0",
    "1x32:ue8m0@packed, 1x32:ue8m0@packed",
    "1x32:ue8m0@blocked, 1x32:ue8m0@blocked",
)

BYTES = {
    "mxfp8": "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 + D[m,r]:mxfp8 @ E[n,r]:mxfp8",
    "mxfp8 to mxfp8": "C[m,n]:mxfp8 = relu(A[m,k]:mxfp8 @ B[n,k]:mxfp8 + D[m,r]:mxfp8 @ E[n,r]:mxfp8 + x[n])",
    "mxfp8 packed": adapted(WORDS),
    "mxfp8 blocked": adapted(BLOCKED, form="{} + {}"),
    "nvfp4 by nvfp4": "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4 + alpha * (D[m,r]:nvfp4 @ E[n,r]:nvfp4)",
    "mxfp8 ragged": "C[m,n] = A[m,k]:mxfp8 @ B[g,n,k]:mxfp8 + D[m,r]:mxfp8 @ E[g,n,r]:mxfp8 for m in off[g]:off[g+1]",
    "mxfp8 gated": "G[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 + D[m,r]:mxfp8 @ E[n,r]:mxfp8;"
    " C[m,n] = silu(G) * (A[m,k]:mxfp8 @ F[n,k]:mxfp8 + D[m,r]:mxfp8 @ G2[n,r]:mxfp8)",
    "bytes of blocks": adapted("1x128:ue8m0, 128x128:ue8m0"),
    "bytes of blocks, packed": adapted("1x128:ue8m0@packed, 128x128:ue8m0"),
}
"""Scales of a byte."""

UNLIKE = {
    "blocks, then rows": adapted("1x128:ue8m0, 128x128:ue8m0", MX),
    "blocked, then others": adapted(BLOCKED, "1x128:ue8m0@packed, 1x64:ue8m0@col"),
    "row-major, then packed": adapted(MX, WORDS),
}
"""Scales that the tensor core applies, of other blocks and layouts than the other product's."""

FINE, COARSE = "1x128, 1x128", "1x128, 128x128"

SPREAD = {
    "blocks and rows": adapted(COARSE, FINE, "{} + {}"),
    "rows and blocks": adapted(FINE, COARSE),
    "columns and all": adapted("1x128@col, 128x128", "mx128, nx128"),
    "rows, and columns": adapted("1x128, 1x128", "1x128@col, 1x128@col"),
    "rows of bytes": adapted("1x128:ue8m0, 1x128", "128x128:ue8m0, 1x128"),
    "blocks, rows and none": adapted(COARSE, FINE, "{} + {} + F[m,q]:e4m3 @ G[n,q]:e4m3"),
    "gated": f"G[m,n] = A[m,k] @ B[n,k] scale({COARSE}) + D[m,r] @ E[n,r] scale({FINE});"
    f" C[m,n] = silu(G) * (A[m,k] @ F[n,k] scale({COARSE}) + D[m,r] @ H[n,r] scale({FINE}))",
    "ragged rows": "C[m,n] = A[m,k] @ B[g,n,k] scale(1x128, 1x128x128) + D[m,r] @ E[g,n,r] scale(1x128, 1x1x128)"
    " for m in off[g]:off[g+1]",
}
"""Scales that sums are promoted by, of other blocks of rows and layouts than the other product's."""

PARTLY = {
    "mxfp8 of one": f"C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 + {ADAPTER8}",
    "mxfp8 of one, both computed": f"C[m,n] = x[m] * (A[m,k]:mxfp8 @ B[n,k]:mxfp8) + alpha * ({ADAPTER8})",
    "mxfp8 of a left one": "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 + D[m,r]:mxfp8 @ E[n,r]:e4m3",
    "mxfp8 of left ones": f"C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:e4m3 + {ADAPTER8}",
    "blocked of one": f"C[m,n] = A[m,k] @ B[n,k] scale({BLOCKED}) + alpha * ({ADAPTER8})",
    "packed of one": f"C[m,n] = A[m,k] @ B[n,k] scale({WORDS}) + {ADAPTER8}",
    "bytes of blocks, of one": f"C[m,n] = A[m,k] @ B[n,k] scale(1x128:ue8m0, 128x128:ue8m0) + {ADAPTER8}",
    "bytes and numbers, of one": f"C[m,n] = A[m,k] @ B[n,k] scale(1x128:ue8m0, 1x128) + alpha * ({ADAPTER8})",
    "nvfp4 of one": "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4 + alpha * (D[m,r]:e2m1 @ E[n,r]:e2m1)",
    "mxfp8 of one, gated": "G[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8 + D[m,r]:e4m3 @ E[n,r]:e4m3;"
    " C[m,n] = silu(G) * (A[m,k]:mxfp8 @ F[n,k]:mxfp8 + D[m,r]:e4m3 @ G2[n,r]:e4m3)",
    "mxfp8 of one, ragged": "C[m,n] = A[m,k]:mxfp8 @ B[g,n,k]:mxfp8 + D[m,r]:e4m3 @ E[g,n,r]:e4m3"
    " for m in off[g]:off[g+1]",
}
"""Scales of a byte in one of the products alone."""

BLOCKS = "A[m,k] @ B[n,k] scale(1x128, 128x128)"

APART = {
    "fp8 and bf16": f"C[m,n] = relu({BLOCKS} + alpha * ({ADAPTER}) + x[n])",
    "fp8 and bf16, +=": f"C[m,n]:f32 += {ADAPTER} - {BLOCKS}",
    "other blocks along the sum": f"C[m,n]:mxfp8 = {BLOCKS} + D[m,r] @ E[n,r] scale(1x64, 1x64)",
    "quantised anew, and bf16": f"C[m,n] = quantize(A[m,k], e4m3, 1x32) @ B[n,k] scale(none, 1x32) + {ADAPTER}",
    "fp8 and bf16, gated": f"G[m,n] = {BLOCKS} + s * ({ADAPTER});"
    " C[m,n] = silu(G) * (A[m,k] @ F[n,k] scale(1x128, 128x128) + s * (D[m,r] @ H[n,r]))",
    "fp8 and bf16, ragged": "C[m,n] = A[m,k] @ B[g,n,k] scale(1x128, 1x128x128) + D[m,r]:bf16 @ E[g,n,r]:bf16"
    " for m in off[g]:off[g+1]",
    "one adapter of all": "C[m,n] = A[m,k] @ B[g,n,k] scale(1x128, 1x128x128) + D[m,r]:bf16 @ E[n,r]:bf16"
    " for m in off[g]:off[g+1]",
    "fp8 and bf16, filled": f"C[n,m] = {BLOCKS} + {ADAPTER} for n < m+1 else -inf",
    "three types": f"C[m,n] = {BLOCKS} + {ADAPTER} + F[m,q]:tf32 @ G[n,q]:tf32",
    "fp8 and bf16, reduced": f"U[m,n] = {BLOCKS}; T[m,n] = {ADAPTER} + U; C[m,n] = T; R[m]:f32 = max[n](abs(T))",
    "batches of fp8 and bf16": "C[b,m,n] = A[b,m,k] @ B[b,n,k] scale(1x1x128, 1x128x128) + D[b,m,r]:bf16 @ E[n,r]:bf16",
}
"""Operands that no kernel brings in one place: a launch before leaves one product in f32."""

OTHERS = {"b": 2, "g": 3, "A_0": 50, "C_0": 160, "D_0": 60, "E_0": 3, "x_0": 70}

SIZES = (
    ({"m": 20, "n": 64, "k": 160, "r": 16, "q": 32} | OTHERS, "nkrq"),
    ({"m": 136, "n": 96, "k": 96, "r": 160, "q": 32} | OTHERS, "n"),
)

USUAL = {
    "nvfp4", "zero points, folded", "fp8 of one, in columns", "of three", "of rows that an index names", "fp8 blocks",
    "experts", "two scalars", "fp8 row scales, both", "all of three", "mxfp8 gated", "blocked, then others", "gated",
    "blocked of one", "bytes of blocks, of one", "fp8 and bf16", "fp8 and bf16, ragged",
}  # fmt: skip
"""Of the programs, those of a usual run."""


PROGRAMS = CONVERTED | FACTORS | BOTH | GATHERED | BYTES | UNLIKE | SPREAD | PARTLY | APART


@pytest.mark.once("target", touches=lambda name, **_: {name} & USUAL)
@pytest.mark.parametrize(
    ("target", "name", "size"),
    [(t, x, s) for t, x, s in in_pairs(TARGETS, PROGRAMS, len(SIZES)) if t != "sm_90a" or x not in UNLIKE],
)
def test_program(target: str, name: str, size: int) -> None:
    (dims, fixed), program = SIZES[size], PROGRAMS[name]
    names = {d for d in dims if re.search(rf"\b{d}[],/]", program)}
    names |= {d for d in OTHERS if d.endswith("_0") and re.search(rf"\b{d[0]}\[\w+\[", program)}
    run(program, target, {d: dims[d] for d in dims if d in names}, "".join(d for d in fixed if d in names))


EDGES = (
    ({"m": 5, "n": 32, "k": 0, "r": 16}, "krn"),
    ({"m": 5, "n": 32, "k": 96, "r": 0}, ""),
    ({"m": 5, "n": 32, "k": 0, "r": 0}, ""),
    ({"m": 1, "n": 1, "k": 32, "r": 8}, "mnkr"),
)
"""Sums over nothing, of one product or of both, and results of one element or none."""


@pytest.mark.once("case", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["alpha", "nvfp4", "i4", "two scalars"])
@pytest.mark.parametrize("case", range(len(EDGES)))
def test_edge(case: int, name: str, target: str) -> None:
    dims, fixed = EDGES[case]
    run((FACTORS | BOTH | CONVERTED)[name], target, dims, fixed)


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("k", "r"), [(1, 1), (67, 1), (1, 131)])
def test_k_of_one(k: int, r: int, target: str) -> None:
    """With M and N last, K is any number."""
    run("C[m,n]:f32 = A[k,m] @ B[k,n] + alpha * (D[r,m] @ E[r,n])", target, {"m": 72, "n": 40, "k": k, "r": r}, "n")


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["plain", "alpha", "alpha with split=2", "nvfp4", "i4", "two scalars"])
def test_not_a_number(name: str, target: str) -> None:
    """NaN and infinities of either product reach the rows and columns that they are in, and no others; so do those of a
    factor, of a product of zeros too. Of a part of a product's sums an infinite factor would make NaN."""
    name, parts, fields = name.partition(" with ")
    program = {"plain": "C[m,n]:f32 = A[m,k] @ B[n,k] + D[m,r] @ E[n,r]", **FACTORS, **BOTH, **CONVERTED}[name]
    program, dims = program + parts + fields, {"m": 24, "n": 32, "k": 96, "r": 152 if parts else 24}
    fixed = dims if parts else {"n": 32}
    kernel, device = scalec.compile(program, target=target, dims=fixed), emulated.EmulatedDevice(target)
    kernel.load(device)
    kernel.fixed = device
    values = {x: np.array(v) if isinstance(v, np.ndarray) else v for x, v in made_up(program, dims, 3)[0].items()}
    for row, tensor, what in ((1, "A", np.nan), (2, "D", np.nan), (3, "A", np.inf), (4, "D", -np.inf)):
        values[tensor][row, -1] = what
    values["A"][5, 0], values["D"][5, 0] = np.inf, -np.inf
    values["D"][6] = 0
    for factor in (None, np.inf, np.nan) if "alpha" in program else (None,):
        if factor is not None:
            values["alpha"] = factor
        with context.context(), np.errstate(all="ignore"):
            module = frontend.build(program, dims)
            wanted = np.asarray(reference.run(module, values, dims=dims, exact=True)["C"], np.float64)
        arguments, outs = upload(device, kernel.spec, values, dims)
        kernel(*arguments, out=tuple(outs))
        got = np.asarray(outs[0].numpy(), np.float64)
        assert (np.isnan(got) == np.isnan(wanted)).all()
        finite, rest = np.isfinite(wanted), np.isinf(wanted)
        assert finite.any() == (factor is None)
        assert (got[rest] == wanted[rest]).all()
        assert (np.abs(got[finite] - wanted[finite]) < 0.02 * (1 + np.abs(wanted[finite]))).all()


SCHEDULES = {
    "sm_90a": ("consumers=pingpong", "swap=1", "cluster=2x1", "cluster=1x2", "stages=2", "promote=64, unroll=5"),
    "sm_100a": ("cta_group=2, cluster=2x1", "scheduler=dynamic", "swap=1", "warpgroups=2", "promote=64"),
    "sm_120a": ("scheduler=dynamic", "swap=1", "stages=2", "promote=64"),
}


@pytest.mark.once
@pytest.mark.parametrize(("target", "fields"), [(t, x) for t in TARGETS for x in SCHEDULES[t]])
@pytest.mark.parametrize("name", ["alpha", "two scalars"])
def test_schedule_of_a_factor(target: str, fields: str, name: str) -> None:
    """The sums of the product with the factor are those of its K blocks alone, whoever has them."""
    dims = {"m": 72, "n": 136, "k": 136, "r": 72}
    kernel, _ = run(f"{(FACTORS | BOTH)[name]} with {fields}", target, dims, "mnkr")
    assert set(fields.split(", ")) <= set(kernel.spec.schedule.split(", "))


@pytest.mark.once
@pytest.mark.parametrize("target", TARGETS)
def test_words_of_one_product(target: str) -> None:
    """Rows of one product's scales are whole words, of the other's they are not."""
    run(BYTES["mxfp8"], target, {"m": 20, "n": 64, "k": 256, "r": 96}, "nkr")


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", ["packed", "blocked"])
def test_words_of_no_product(layout: str, target: str) -> None:
    """Where K is not known words of its scales end anywhere, and in the K blocks of the other product all are ones."""
    program = f"C[m,n] = A[m,k] @ B[n,k] scale(1x32:ue8m0@{layout}, 1x32:ue8m0@{layout}) + {ADAPTER8}"
    run(program, target, {"m": 20, "n": 64, "k": 112, "r": 160}, "n")


def test_bytes_of_no_product_that_sums_are_promoted_by() -> None:
    """Those of blocks of rows, which consumers load ahead."""
    run(PARTLY["bytes of blocks, of one"], "sm_90a", {"m": 20, "n": 64, "k": 144, "r": 160}, "nkr")


CONVERTING = {
    "sm_90a": ("split=2", "swap=1", "converters=1", "stages=2", "scheduler=static"),
    "sm_100a": ("split=2", "converters=2", "scheduler=dynamic"),
    "sm_120a": ("split=2", "stages=2", "swap=1"),
}


@pytest.mark.once
@pytest.mark.parametrize(("target", "fields"), [(t, x) for t in TARGETS for x in CONVERTING[t]])
def test_schedule_that_converts(target: str, fields: str) -> None:
    """K blocks of both products go through one ring of stages, of which one's are converted; parts begin in either."""
    kernel, _ = run(f"{CONVERTED['i4']} with {fields}", target, {"m": 24, "n": 40, "k": 160, "r": 72}, "mnkr")
    assert set(fields.split(", ")) <= set(kernel.spec.schedule.split(", "))


PAIR = "S[m,n] = A[m,k] @ B[n,k]; T[m,n] = D[m,r] @ E[n,r]"

REFUSED = {
    f"{PAIR}; C[m,n] = S; F[m,n] = S + alpha * T": "meet other products in an expression",
    "C[m,n] = A[m,k] @ B[n,k] + (D[m,r] @ E[n,r]) * (F[m,q] @ G[n,q])": "which are not one operand",
    f"{PAIR}; C[m,n] = S + T; F[m,n] = S - T": "something is computed of one product before others are added",
    "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:e4m3 + D[m,r]:e4m3 @ E[n,r]:mxfp8": "differ in their scales",
    "C[m,n] = A[m,k] @ B[n,k] scale(1x128, none) + D[m,r] @ E[n,r] scale(1x64, none)": "differ in their scales",
    "C[m,n] = A[m,k]:bf16 @ B[n,k]:i4 + D[m,r]:i4 @ E[n,r]:bf16": "D is converted to bf16 beside A, which is not",
    "C[m,n] = A[m,k]:bf16 @ B[n,k]:mxfp4 + D[m,r]:f16 @ E[n,r]:f16": "differ in their element types",
    "C[m,n] = A[m,k]:bf16 @ B[n,k]:i4 + D[m,r]:bf16 @ (E[n,r]:i4 - 3)": "E has zero points",
    "C[m,n] = A[idx[m],k] @ B[n,k] + D[m,r] @ E[jdx[n],r]": r"E has rows that jdx\[n\] names beside B",
    "C[m,n] = relu(A[m,k] @ B[n,k] + D[m,r] @ E[n,r]) * (F[m,q] @ G[n,q] + H[m,p] @ I[n,p])": "meet other products",
    "C[m,n] = A[idx[m],k] @ B[n,k] scale(1x128, none) + D[m,r]:e4m3 @ E[n,r]:e4m3": r"scales and rows that idx\[m\]",
}


@pytest.mark.parametrize("program", REFUSED)
def test_refused(program: str) -> None:
    """By one kernel: several launches compute some."""
    with pytest.raises(UnsupportedError, match=REFUSED[program]):
        compiler.compile_source(program, "sm_90a", {}, {}, until="tile")


@pytest.mark.parametrize(
    "program",
    [
        f"C[m,n] = {BLOCKS} + {ADAPTER} with invariant",
        f"C[m,n] = {BLOCKS} + D[i[m],r]:bf16 @ E[j[n],r]:bf16 + F[m,q]:tf32 @ G[l[n],q]:tf32",
        f"T[m,n] = {ADAPTER} for n < m+1 else 0; C[m,n] = {BLOCKS.replace('A[', 'A[i[').replace('m,k', 'm],k', 1)} + T",
    ],
)
def test_what_no_cut_helps(program: str) -> None:
    """It is refused as it was written."""
    with pytest.raises(UnsupportedError) as refused:
        scalec.compile(program, target="sm_90a")
    assert "_f32" not in str(refused.value)


def test_what_is_cut_off() -> None:
    program = f"C[m,n] = {BLOCKS} + alpha * (D[m,r] @ E[n,r]); F[m,n] = relu(C) # {ADAPTER}"
    source = program.replace("C[m,n] =", "T[m,n] =").replace("relu(C)", "relu(T); C[m,n] = T")
    source = source.replace("D[m,r]", "D[m,r]:bf16").replace("E[n,r])", "E[n,r]:bf16)")
    every = launches(source, "sm_90a", {"r": 16, "k": 256})
    assert every.texts[0] == "DE_f32[m,n]:f32 = D[m,r]:bf16 @ E[n,r]:bf16"
    assert (every.between, every.main, len(every.texts)) == (("DE_f32",), 1, 2)
    assert [every.sizes(i, {"r": 16, "k": 256}) for i in (0, 1)] == [{"r": 16}, {"k": 256}]


def test_the_type_that_is_multiplied_is_the_way_out() -> None:
    """Of operands that are converted for their scales it is another than the one that they are stored in."""
    program = "C[m,n] = A[m,k] @ B[n,k] scale(1x32, 32x32) + D[m,r]:e4m3 @ E[n,r]:e4m3"
    with pytest.raises(UnsupportedError, match="store D as bf16, or write") as error:
        compiler.compile_source(program, "sm_100a", {}, {}, until="tile")
    assert error.value.got == "A: bf16 of e4m3, D: e4m3"


PARTED = (
    "alpha", "fp8 blocks", "columns last", "reduced", "batches", "two scalars", "fp8 rows and alpha", "nvfp4 and alpha",
    "all of three", "both, two results", "functions",
)  # fmt: skip


@pytest.mark.once("target", touches=lambda name, **_: {name} & {"all of three", "both, two results"})
@pytest.mark.parametrize("split", [2, 3, 5])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PARTED)
def test_parts_of_a_factor(name: str, target: str, split: int) -> None:
    """Parts of K begin in any product, and end in it or in another: each product's sums meet by themselves."""
    dims = {"m": 20, "n": 64, "k": 544, "r": 144, "q": 32, "b": 2}
    names = {d for d in dims if re.search(rf"\b{d}[],/]", (FACTORS | BOTH)[name])}
    own = {d: size for d, size in dims.items() if d in names}
    run(f"{(FACTORS | BOTH)[name]} with split={split}", target, own, "".join(own))


@pytest.mark.thorough
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("k", "r", "split"), [(128, 128, 2), (64, 256, 5), (2300, 64, 35)])
def test_parts_that_products_end_with(k: int, r: int, split: int, target: str) -> None:
    """A part ends with a product's K, a product is one part's alone, and there are more parts than meet at once."""
    program = f"{BOTH['two scalars']} with split={split}, swap=0"
    run(program, target, {"m": 20, "n": 16, "k": k, "r": r}, "mnkr")


@pytest.mark.parametrize("fields", ["split=2, parts=cluster", "split=2, parts=columns", "split=2, unroll=2"])
def test_parts_of_a_factor_are_refused(fields: str) -> None:
    with pytest.raises(ScheduleError, match="something is computed"):
        scalec.compile(f"{FACTORS['alpha']} with {fields}", target="sm_90a", dims={"k": 4096, "r": 16, "n": 128})
