"""Operands that are computed elementwise on their way to the tensor core, in f32, and rounded to the type that is
multiplied: on every target, with what lies along their rows and along K, and nothing of what lies outside K."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.errors import SourceError, UnsupportedError
from scalec.formats import ELEMENT_TYPES
from scalec.runtime.emulated import EmulatedDevice
from tests.emulator.running import TARGETS, in_pairs, refusals, run_on
from tests.emulator.test_several_results import run

EXACT = {
    "relu": "C[m,n]:f32 = relu(A[m,k]) @ B[n,k]",
    "abs, both": "C[m,n]:f32 = abs(A[m,k]) @ max(B[n,k], -0.5)",
    "a scalar": "C[m,n]:f32 = (alpha * A[m,k]) @ B[n,k]",
    "along k": "C[m,n]:f32 = (A[m,k] * w[k]) @ B[n,k]",
    "along rows": "C[m,n]:bf16 = A[m,k] @ (B[n,k] * r[n]:f32)",
    "both": "C[m,n]:f32 = (A[m,k]:f16 * r[m]:f16 * w[k]:f32) @ B[n,k]:f16",
    "f32 to bf16": "C[m,n]:f32 = (A[m,k]:f32):bf16 @ B[n,k]",
    "f32 to tf32": "C[m,n]:f32 = (A[m,k]:f32 * 3):tf32 @ B[n,k]:tf32",
    "f32 to e4m3": "C[m,n]:f32 = (A[m,k]:f32):e4m3 @ (B[n,k] / 2):e5m2",
    "bf16 as tf32": "C[m,n]:f32 = relu(A[m,k]:bf16) @ B[n,k]:tf32",
    "e4m3 to bf16": "C[m,n]:f32 = (A[m,k]:e4m3 - 3):bf16 @ B[n,k]",
    "e2m1 to f16": "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:e2m1 * w[k]:f16):f16",
    "i4 with a zero point": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:i4 - z[n]:f32):bf16",
    "u4 with a zero point": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - z[n]:f32):bf16",
    "u4 to f16": "C[m,n]:f32 = A[m,k]:f16 @ abs(B[n,k]:u4 - 7.5):f16",
    "i4 to e4m3": "C[m,n]:f32 = A[m,k]:e4m3 @ (relu(B[n,k]:i4)):e4m3",
    "with an epilogue": "C[m,n]:bf16 = gelu(relu(A[m,k]) @ B[n,k] + x[n]) * r[m]",
    "added to": "C[m,n]:f32 += relu(A[m,k]) @ B[n,k]",
}
"""Of which one f32 is rounded, or none: as the reference, bit for bit."""

CLOSE = {
    "silu": "C[m,n]:f32 = silu(A[m,k]) @ B[n,k]",
    "gelu": "C[m,n]:f32 = gelu(A[m,k]:f16) @ B[n,k]:f16",
    "exp, both": "C[m,n]:f32 = exp(A[m,k]) @ exp(B[n,k])",
    "sigmoid, both": "C[m,n]:f32 = sigmoid(A[m,k]) @ sigmoid(B[n,k])",
    "a quotient": "C[m,n]:f32 = (1 / A[m,k]) @ (B[n,k] + 1)",
    "a squared tanh": "C[m,n]:f32 = tanh(A[m,k])^2 @ B[n,k]",
}
"""Of functions whose f32 may be another one, which seldom is rounded to a neighbour. At 0, behind the end
of K, most are not 0, or are infinite."""

SIZES = [
    ({"m": 80, "n": 144, "k": 160}, ("n", "k")),
    ({"m": 1, "n": 24, "k": 32}, ()),
    ({"m": 137, "n": 40, "k": 224}, ("n",)),
    ({"m": 9, "n": 264, "k": 96}, ("m", "n", "k")),
]


@pytest.mark.once("target", "name", "size")
@pytest.mark.parametrize(("target", "name", "size"), in_pairs(TARGETS, [*EXACT, *CLOSE], len(SIZES), step=2))
def test_program(target: str, name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    limit = 1e-4 if "C[m,n]:bf16" in EXACT.get(name, "") else 1e-5
    run_on((EXACT | CLOSE)[name], dims, fixed, 3, limit, target=target)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_by_warps(name: str) -> None:
    """In shared memory, where sm_90a's consumers would make them in registers."""
    limit = 1e-4 if "C[m,n]:bf16" in EXACT.get(name, "") else 1e-5
    program = f"{(EXACT | CLOSE)[name]} with convert=shared"
    run_on(program, {"m": 137, "n": 144, "k": 160}, ("n", "k"), 3, limit, target="sm_90a")


MORE = [
    "C[b,m,n]:f32 = relu(A[b,m,k]) @ B[b,n,k]",
    "C[b,m,n]:f32 = (A[m,b,k] * w[b,k] * r[b,m]) @ B[n,b,k]",
    "C[m,n]:f32 = (A[m,b,k] * w[b,k]) @ exp(B[n,b,k])",
    "C[n,m]:f32 = (A[m,k] * r[m]) @ silu(B[n,k])",
    "T[m,k] = silu(A[m,k]) * w[k]; C[m,n]:f32 = (T[m,k]):bf16 @ B[n,k]",
    "T[m,n] = relu(A[m,k]) @ B[n,k]; C[m,n]:f32 = T[m,n] + A2[m,n]; D[m,n]:mxfp8 = T[m,n]",
    "L[q,t]:f32 = sum[h](relu((Q[q,h,k] * w[k]) @ B[t,k]) * W[q,h]) for t in lo[q]:hi[q] else -inf",
    "C[m,n]:f32 = relu(A[m,k]) @ B[n,k]; S[m]:f32 = sum[k](A[m,k]^2); T[n]:f32 = max[k](B[n,k])",
    "C[m,n]:f32 = (A[m,k]*w[k]) @ B[n,k]:tf32; S[m]:f32 = sum[k]((A[m,k]*w[k])^2); T[n]:f32 = sum[k](B[n,k] * y[n])",
]


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("program", MORE)
@pytest.mark.parametrize("target", TARGETS)
def test_more(target: str, program: str) -> None:
    dims = {"q": 9, "h": 32, "t": 150, "k": 112} if "Q[" in program else {"m": 77, "n": 144, "k": 112}
    dims |= {"b": 2} if re.search(r"\bb\b", program) else {}
    for sizes in (dims, {**dims, "k": 0}) if "mxfp8" not in program else (dims,):
        fixed = "nk" if sizes["k"] and "T[m" in program else "h" if "Q[" in program else ""
        run(program, target, sizes, fixed, 5)


GROUPED = [
    "C[m,n]:f32 = relu(A[m,k]) @ B[e[m/16],n,k]",
    "C[m,n]:f32 = (A[m,k] * r[m]) @ B[e[m/24],n,k]:e4m3 scale(none, 1x128x128)",
    "C[m,n]:f32 = (A[m,k] * w[k] * r[m]) @ B[g,n,k] for m in off[g]:off[g+1]",
    "C[m,n]:f32 = (A[m,k] * w[k]):e4m3 @ B[g,n,k]:e4m3 scale(none, 1x128x128) for m in off[g]:off[g+1]",
    "C[m,n]:f32 = A[m,k] @ (B[g,n,k] * r[g,n]) for m in off[g]:off[g+1]",
    "C[g,m,n]:f32 = (A[g,m,k] * w[g,k]) @ B[g,n,k]:i4 scale(none, 1x1x64:bf16) for m < rows[g]",
    "C[m,n]:f32 = A[idx[m],k] @ relu(B[n,k])",
    "C[m,n]:f32 = exp(A[idx[m],k]) @ B[n,k]",
    "C[m,n]:f32 = (A[idx[m],k]:e4m3 * w[k]):bf16 @ relu(B[g,n,k]) for m in off[g]:off[g+1]",
    "C[idx[m],n]:f32 = relu(A[m,k]) @ abs(B[e[m/16],n,k])",
]
"""Rows of tiles lie in ranges, or blocks, or are named by an index."""


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("program", GROUPED)
@pytest.mark.parametrize("target", TARGETS)
def test_grouped(target: str, program: str) -> None:
    more = {"B[g,": {"g": 3}, "B[e": {"B_0": 3}, "A[idx": {"A_0": 50}, "C[idx": {"C_0": 90}}
    dims = {"m": 77, "n": 40, "k": 112} | {
        x: y for text, sizes in more.items() if text in program for x, y in sizes.items()
    }
    run_on(program, dims, ("n", "k") if "e4m3 scale" in program or "):e4m3" in program else (), 3, 1e-5, target=target)


SCHEDULES = [
    ("sm_90a", "both", "tile=64x24x64, swap=1"),
    ("sm_90a", "both", "tile=128x64x64, converters=2, stages=3"),
    ("sm_90a", "both", "tile=256x64x64, warpgroups=2"),
    ("sm_90a", "along k", "tile=64x64x64, split=3"),
    ("sm_90a", "along k", "tile=128x32x64, cluster=2x1, split=2, parts=cluster"),
    ("sm_90a", "exp, both", "tile=64x40x16, swizzle_a=32, swizzle_b=32"),
    ("sm_90a", "abs, both", "tile=128x64x64, convert=registers"),
    ("sm_90a", "along rows", "swap=1, convert=registers, tile=64x64x64, split=3"),
    ("sm_90a", "bf16 as tf32", "tile=64x24x32, convert=registers"),
    ("sm_90a", "e4m3 to bf16", "tile=64x24x128, convert=registers"),
    ("sm_90a", "i4 with a zero point", "swap=1, tile=128x40x64, convert=registers"),
    ("sm_90a", "along k", "tile=64x64x64, split=3, convert=registers"),
    ("sm_90a", "both", "tile=128x32x64, cluster=2x1, convert=registers"),
    ("sm_90a", "e2m1 to f16", "swap=1, tile=64x24x64, convert=registers"),
    ("sm_90a", "f32 to tf32", "tile=64x24x32, convert=registers"),
    ("sm_100a", "both", "tile=128x64x64, converters=2, split=2"),
    ("sm_100a", "along k", "cluster=4x1, scheduler=dynamic"),
    ("sm_120a", "both", "tile=32x64x32, swizzle_a=64, swizzle_b=64, swap=1"),
    ("sm_120a", "along k", "tile=64x64x64, scheduler=dynamic"),
]


@pytest.mark.once("target", touches=lambda schedule, **_: re.findall(r"\w+(?==)", schedule))
@pytest.mark.parametrize(("target", "name", "schedule"), SCHEDULES)
def test_schedules(target: str, name: str, schedule: str) -> None:
    dims = {"m": 80, "n": 144, "k": 416}
    run_on(f"{(EXACT | CLOSE)[name]} with {schedule}", dims, ("n", "k"), 3, 1e-5, target=target, times=2)


@pytest.mark.parametrize("made", ["bf16", "f16", "tf32", "e4m3", "e5m2"])
@pytest.mark.parametrize("target", TARGETS)
def test_rounding(target: str, made: str) -> None:
    """Each element times one: f32 between two neighbours of the type, halfway too, beyond its ends, and NaN."""
    raw = np.concatenate([np.float32(2) ** np.arange(-30, 20), [0, 3.4e38, np.inf, np.nan]]).astype(np.float32)
    raw = np.concatenate(
        [raw * np.float32(x) for x in (1, 1.0625, 1.1, 1 + 2**-8, 1 + 2**-9, 1 + 2**-12, 1.5 + 2**-11)]
    )
    raw = np.concatenate([raw, -raw])
    one = np.zeros((8, 32), np.float32)
    one[0, 0] = 1
    a = np.zeros((len(raw), 32), np.float32)
    a[:, 0] = raw
    kernel = scalec.compile(f"C[m,n]:f32 = (A[m,k]:f32):{made} @ B[n,k]:{made}", target=target)
    kernel.fixed = EmulatedDevice(target)
    dtype = (
        np.float32
        if made == "tf32"
        else getattr(
            ml_dtypes, {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}.get(made, ""), np.float16
        )
    )
    with np.errstate(all="ignore"):
        got = np.asarray(kernel(a, one.astype(dtype)))[:, 0]
        wanted = raw.astype(dtype).astype(np.float32)
        if made == "tf32":
            bits = raw.view(np.uint32).astype(np.int64)
            bits = (bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF
            wanted = np.where(np.isnan(raw), raw, bits.astype(np.uint32).view(np.float32))
    if made in ("e4m3", "e5m2"):
        wanted = np.where(
            np.isnan(raw), raw, np.clip(raw, -(most := ELEMENT_TYPES[made].max), most).astype(dtype).astype(np.float32)
        )
    np.testing.assert_array_equal(got, np.where(np.isfinite(wanted), wanted, got))
    assert np.isfinite(got[np.isfinite(wanted)]).all()
    assert not np.isfinite(got[~np.isfinite(wanted)]).any()


test_refused = refusals(
    [
        ("C[m,n] = (A[m,k] + D[m,k]):bf16 @ B[n,k]", r"A\[m, k\] and D\[m, k\], which have all its indices"),
        ("C[m,n] = (A[idx[m],k] * r[m]) @ B[n,k]", "an index from memory, and beside it something along its rows"),
        ("C[m,n] = (A[idx[m],k] + A[m,k]) @ B[n,k]", "an index from memory, and beside it something along its rows"),
        (
            "C[g,m,n] = relu(A[m,k]) @ B[n,k] for k in off[g]:off[g+1]",
            "A is computed elementwise, and the program has a",
        ),
        ("C[m,n] = relu(A[k,m]) @ B[n,k]", "contiguous along m"),
        ("C[m,n] = relu(A[m,k]:e2m1):e2m1 @ B[n,k]:e2m1", "a computed operand is e2m1"),
        ("C[m,n] = (A[m,k]:mxfp8 * 2):bf16 @ B[n,k]", "computed of a tensor with scales"),
        ("C[m,n] = (A[m,k] * x[m/2]) @ B[n,k]", r"A is computed with x\[m/2\]|A is computed with x\[m floordiv"),
        ("C[m,n] = (A[m,k] * x[k]:e4m3) @ B[n,k]", "A is computed with x of e4m3"),
        ("L[q,t]:f32 = sum[h](relu((Q[q,h,k] * r[q]) @ B[t,k]) * W[q,h])", "Q is computed with r", {"h": 64}),
        ("T[m,k] = relu(A[m,k]); C[m,n] = T[m,k] @ B[n,k]", "f32"),
        ("C[m,n] = silu(A[m,k]:e4m3) @ B[n,k]", "no type says what it is rounded to"),
        ("C[m,n] = (A[m,k] * D[m,k]) @ B[n,k]", "no type says what it is rounded to"),
        ("C[m,n] = relu(A[m,k]):f32 @ B[n,k]", "f32 is no type of an operand of @"),
        ("C[m,n] = relu(A[m,k] @ B[n,k]):bf16", "only an operand of @ is rounded to a type"),
    ],
    (SourceError, UnsupportedError),
)
