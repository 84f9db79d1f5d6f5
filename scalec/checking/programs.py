"""What `scalec selftest` runs: every kind of operand, scale, layout, epilogue and result, and schedules of each family.

A program that a target refuses (UnsupportedError) is left out there; nothing else says which target has which program,
so that what a target learns to do is tested from then on. Extents of n and k are multiples of what copies of any type
ask for; m has a tail of every tile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PROGRAMS: dict[str, str] = {
    "bf16": "C[m,n] = A[m,k] @ B[n,k]",
    "f16": "C[m,n]:f16 = A[m,k]:f16 @ B[n,k]:f16",
    "tf32": "C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32",
    "bf16 by M and N": "C[m,n]:f32 = A[k,m] @ B[k,n]",
    "e4m3": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3",
    "e5m2 x e4m3": "C[m,n]:f16 = A[m,k]:e5m2 @ B[n,k]:e4m3",
    "e4m3 by M and N": "C[m,n]:f32 = A[k,m]:e4m3 @ B[k,n]:e4m3",
    "e2m1": "C[m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1",
    "e4m3 x e2m1": "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e2m1",
    "e3m2 x e2m3": "C[m,n]:f32 = A[m,k]:e3m2 @ B[n,k]:e2m3",
    "1x128, 128x128": "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)",
    "1x128, 1x128 @col": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128@col)",
    "128x128, 1x256": "C[m,n]:f32 = A[m,k]:e5m2@B[n,k] scale(128x128,1x256)",
    "1x128, none": "C[m,n]:f32 = A[m,k]@B[n,k]:e5m2 scale(1x128,none)",
    "1xk, 1xk": "C[m,n] = A[m,k]@B[n,k] scale(1xk,1xk)",
    "tensor, 128xk": "C[m,n]:f32 = A[m,k]@B[n,k] scale(tensor,128xk)",
    "1x64, 128x32": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x64,128x32)",
    "fp8_block": "C[m,n] = A[m,k]:fp8_block @ B[n,k]:fp8_block",
    "1x128:ue8m0, 128x128:ue8m0": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128:ue8m0,128x128:ue8m0)",
    "1x32 @packed, @blocked": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0@packed,1x32:ue8m0@blocked)",
    "1x32 @col, none": "C[m,n] = A[m,k]@B[n,k]:e5m2 scale(1x32:ue8m0@col,none)",
    "mxfp8": "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8_e5m2",
    "mxfp6": "C[m,n]:f32 = A[m,k]:mxfp6 @ B[n,k]:mxfp6",
    "mxfp6_e2m3": "C[m,n]:f32 = A[m,k]:mxfp6_e2m3 @ B[n,k]:mxfp6_e2m3",
    "mxfp4": "C[m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:mxfp4",
    "nvfp4": "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4",
    "nvfp4 @blocked": "C[m,n]:f32 = A[m,k]:e2m1@B[n,k]:e2m1 scale(1x16:ue4m3@blocked*tensor,1x16:ue4m3@blocked*tensor)",
    "bf16 x nvfp4": "C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4",
    "bf16 x tf32": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:tf32",
    "f16 x e4m3": "C[m,n]:f16 = A[m,k]:f16 @ B[n,k]:e4m3",
    "bf16 x mxfp4": "C[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:mxfp4",
    "1x128 x nvfp4": "C[m,n] = A[m,k]@B[n,k]:nvfp4 scale(1x128)",
    "bf16 x i4, 1x64:bf16": "C[m,n] = A[m,k]:bf16 @ B[n,k]:i4 scale(none,1x64:bf16)",
    "1x128:f16 x i4 of groups": "C[m,n] = A[m,k]@B[e[m/64],n,k]:i4 scale(1x128:f16,1x128)",
    "bf16 x u4 less zero points": "C[m,n] = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/128]:u4) scale(none,1x128:f16)",
    "f16 x u4 of GPTQ": "C[m,n] = A[m,k]:f16 @ (B[k/8,n,k%8]:u4 - (Z[k/128,n]:u4 + 1)) scale(none,1x128:f16@col)",
    "f16 x u4 of AWQ": "C[m,n]=A[m,k]:f16@(B[k,n/8*8+n%2*4+n%8/2]:u4-Z[k/128,n/8*8+n%2*4+n%8/2]) scale(none,128x1:f16)",
    "1x128 x u4 less 8": "C[m,n] = A[m,k] @ (B[n,k]:u4 - 8) scale(1x128,1x128:f16)",
    "i8": "C[m,n]:f32 = A[m,k]:i8 @ B[n,k]:i8",
    "i8 by rows to i8": "C[m,n]:i8 scale(1x64) = gelu(A[m,k]:i8 @ B[n,k]:i8 scale(1xk,1xk))",
    "i4 x f16": "C[m,n]:f32 = A[m,k]:i4 @ B[n,k]:f16 scale(1xk:f16,none)",
    "bf16 x e4m3 by N, 128x128": "C[m,n]:f32 = A[m,k]:bf16 @ B[k,n]:e4m3 scale(none,128x128)",
    "1x128 x nvfp4 of groups": "C[m,n] = A[m,k]@B[e[m/64],n,k]:nvfp4 scale(1x128)",
    "mxfp8 x mxfp4": "C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp4",
    "f32 1x128, 1x32": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x32:ue8m0)",
    "scales copied": "C[m,n]:ue8m0@blocked = A[m,n]:f32",
    "scales of groups copied": "C[m,n]:ue8m0@blocked = A[m,n]:f32 for m in off[g]:off[g+1] apart",
    "bf16, +=": "C[m,n] += A[m,k] @ B[n,k]",
    "1x128, +=": "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,128x128)",
    "bias, gelu": "C[m,n] = gelu(A[m,k]@B[n,k] + bias[n])",
    "silu, residual": "C[m,n]:f16 = alpha * silu(A[m,k]@B[n,k] scale(1x128,128x128)) * gate[m] + beta * R[m,n]",
    "functions": "C[m,n]:f32 = tanh(A[m,k]@B[n,k]) * sigmoid(x[m]:f32) + max(sqrt(abs(y[n]:f32)), 0.5)",
    "e4m3 result": "C[m,n]:e4m3 = relu(A[m,k]@B[n,k] scale(1x128,128x128))",
    "e2m1 result": "C[m,n]:e2m1 = A[m,k]:e4m3 @ B[n,k]:e4m3",
    "e4m3 result by rows": "C[m,n]:e4m3 scale(1xn) = relu(A[m,k] @ B[n,k])",
    "mxfp8 result": "C[m,n]:mxfp8 = A[m,k]@B[n,k] scale(1x128,128x128)",
    "mxfp8 result by chance": "C[m,n]:mxfp8 = stochastic(A[m,k]@B[n,k] scale(1x128,128x128), s[0], s[1])",
    "mxfp8 result @blocked": "C[m,n]:e4m3 scale(1x32:ue8m0@blocked) = A[m,k] @ B[n,k]",
    "mxfp4 result": "C[m,n]:mxfp4 = A[m,k] @ B[n,k]",
    "nvfp4 result": "C[m,n]:nvfp4 = silu(A[m,k]@B[n,k] scale(1x128,128x128))",
    "fp8_block result": "C[m,n]:fp8_block = A[m,k]@B[n,k] scale(1x128,128x128)",
    "batched": "C[b,m,n] = A[b,m,k] @ B[b,n,k]",
    "batched within": "C[m,b,n] = A[m,b,k]@B[b,n,k] scale(1x128,128x128)",
    "batched mxfp8": "C[b,m,n] = A[b,m,k]:mxfp8 @ B[b,n,k]:mxfp8",
    "batched nvfp4 result": "C[m,b,n]:nvfp4 = A[m,b,k] @ B[b,n,k]",
    "rows of two dimensions": "C[b,m,n]:f32 += A[b,m,k]@B[n,k] scale(1x128,128x128)",
    "columns of two dimensions": "C[m,b,n] = gelu(A[m,k] @ B[b,n,k] + bias[b,n])",
    "around gaps": "C[m,n/64*96 + n%64] = A[m,k]@B[n,k] scale(1x128,128x128)",
    "columns first": "C[n,m] = A[m,k]@B[n,k] scale(1x128,1x128)",
    "groups of blocks": "C[m,n] = A[m,k]@B[e[m/64],n,k] scale(1x128,1x128x128)",
    "ragged groups": "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]",
    "of each group": "C[m,n] = s[g] * (A[m,k] @ B[g,n,k]) + bias[g,n] for m in off[g]:off[g+1]",
    "ragged, +=": "C[m,n]:f32 += A[m,k]@B[g,n,k] scale(1x128,1x128x128) for m in off[g]:off[g+1]",
    "masked groups": "C[g,m,n] = A[g,m,k]:mxfp8 @ B[g,n,k]:mxfp8 for m < rows[g]",
    "ragged mxfp8 result": "C[m,n]:mxfp8 = A[m,k]@B[g,n,k] scale(1x128,1x128x128) for m in off[g]:off[g+1]",
    "ragged result, @blocked": "C[m,n]:e4m3 scale(1x32:ue8m0@blocked) = A[m,k]@B[g,n,k] scale(1x128,1x128x128) "
    "for m in off[g]:off[g+1] apart",
    "gathered rows": "C[m,n] = A[idx[m],k]@B[n,k] scale(1x128,128x128)",
    "gathered rows, mxfp8": "C[m,n]:mxfp8 = A[idx[m],k]:mxfp8 @ B[n,k]:mxfp8",
    "gathered rows of ragged groups": "C[m,n] = A[idx[m],k]@B[g,n,k] scale(1x128,1x128x128) for m in off[g]:off[g+1]",
    "rows gathered along K": "C[g,m,n]:f32 += A[idx[k],m] @ B[k,n] for k in off[g]:off[g+1]",
    "groups of K apart": "C[g,m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128) for k in off[g]:off[g+1] apart",
    "several results": "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T[m,n] + x[n]; D[m,n]:mxfp8 = relu(T[m,n])",
    "several results of FP8": "T[m,n] = A[m,k]@B[n,k] scale(1x128,128x128); C[m,n]:f32 += T; D[m,n]:e4m3 = gelu(T)",
    "quantised gate": "Q[m,n]:mxfp8 = silu(G[m,n]) * U[m,n]",
    "quantised along both": "Q[m,n]:mxfp8 = X[m,n]; T[n,m]:mxfp8 = X[m,n]",
    "quantised twice": "Q[m,n]:e4m3 scale(128x128) = X[m,n]; P[m,n]:nvfp4 = X[m,n]",
    "quantised rows": "Q[m,k]:e4m3 scale(1xk) = X[m,k] * x[k]",
    "quantised rows of groups": "Q[m,n]:e4m3 scale(1x32:ue8m0@blocked) = X[m,n] * w[g] for m in off[g]:off[g+1] apart",
    "quantised to 6 bits": "Q[m,n]:mxfp6 = X[m,n]; T[n,m]:mxfp6_e2m3 = X[m,n]",
    "dequantised": "Y[m,n] = X[m,n]:nvfp4",
    "dequantised of 6 bits": "Y[m,n] = X[m,n]:mxfp6_e2m3",
    "quantised anew": "Q[m,n]:e4m3 scale(1x128:ue8m0@packed) = X[m,n]:mxfp8",
    "norm": "R[m] = sum[k](X[m,k]^2); Y[m,k]:mxfp8 = X[m,k] * w[k] / sqrt(R/512 + 1)",
    "softmax": "M[m] = max[k](X[m,k]); E[m,k] = exp(X[m,k] - M); S[m] = sum[k](E); Y[m,k] = E / S",
    "invariant": "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128) with invariant",
}
"""Programs by name, each with the schedule that the compiler chooses."""

_COPIES = ["stages=2", "cluster=1x1", "cluster=2x1", "cluster=1x2", "order=m, band=1", "band=3"]
_RESULTS = ["epilogue=direct", "staged=1", "swap=1"]

SCHEDULES: dict[str, dict[str, list[str]]] = {
    "sm_90a": {
        "1x128, 128x128": [
            *_COPIES, *_RESULTS, "run=3", "split=2", "split=3, parts=cluster", "cluster=4x1, tile=64x64x128",
            "scale_path=thread", "unroll=1", "unroll=3", "early_wait=0",
            "warpgroups=1", "warpgroups=3, tile=192x64x128", "tile=64x8x128", "tile=128x96x128",
            "tile=64x48x128, cluster=1x1", "swap=1, tile=64x16x128, cluster=2x1",
            "swap=1, tile=64x8x128, epilogue=turned", "consumers=pingpong",
            "consumers=pingpong, tile=64x128x128, cluster=1x1, stages=3",
            "tile=128x80x128, mma_n=40, warpgroups=1, scale_path=thread", "dependent=8",
        ],
        "mxfp8": [
            "stages=2", "swap=1", "split=2", "tile=192x64x128", "tile=128x80x128, mma_n=40, warpgroups=1",
        ],
        "bf16": [
            *_COPIES, *_RESULTS, "split=2", "split=3, parts=cluster", "tile=128x256x64", "tile=64x256x64",
            "tile=128x128x16, swizzle_a=32, swizzle_b=32",
            "consumers=pingpong, tile=64x96x64, warpgroups=3, stages=3", "cluster=2x1, unroll=4",
        ],
        "f16 x u4 of GPTQ": ["convert=shared", "convert=registers, swap=1, tile=128x8x128", "swap=1, cluster=2x1"],
        "nvfp4 result": ["tile=128x128x128", "tile=64x64x128, cluster=1x1", "swap=1"],
        "batched within": ["swap=1", "split=2", "split=2, parts=cluster", "cluster=2x1", "consumers=pingpong"],
    },
    "sm_100a": {
        "bf16": [
            *_COPIES, "split=2", *_RESULTS, "cta_group=2", "cta_group=2, tile=128x128x64", "tile=128x256x64",
            "tile=128x64x16, swizzle_a=32, swizzle_b=32", "tile=128x64x64, warpgroups=1, registers=48x216",
            "scheduler=dynamic", "scheduler=static",
        ],
        "mxfp8": [
            "stages=2, tile=128x256x128", "cta_group=2", "tile=128x64x128, cluster=4x1, stages=2, unroll=2", "swap=1",
            "tile=128x64x64, swizzle_a=64, swizzle_b=64", "scale_copier=1",
        ],
        "nvfp4": [
            "tile=128x256x256, stages=2", "tile=128x128x128, swizzle_a=64, swizzle_b=64, cluster=2x1", "cta_group=2",
        ],
        "1x128, 128x128": [
            "cluster=1x2", "tile=128x64x128, cluster=2x1, stages=2", "tile=128x64x128, scale_path=thread, cluster=1x1",
            "tile=128x32x128, swap=1", "split=2",
        ],
        "nvfp4 result": ["tile=128x128x128", "cta_group=2"],
        "batched within": ["swap=1", "split=2", "cluster=2x1"],
        "batched mxfp8": ["cta_group=2", "scheduler=dynamic"],
    },
    "sm_120a": {
        "mxfp8": [
            "tile=128x128x128, warps=4x2", "tile=128x128x128, warps=2x4", "tile=16x128x128, warps=1x8", "stages=2",
            "tile=64x128x128, stages=3, unroll=3", "swap=1",
        ],
        "1x128, 128x128": ["split=2", *_RESULTS, "stages=2", "scale_path=thread", "order=m, band=1"],
        "bf16": ["split=2", *_RESULTS, "stages=2", "unroll=1"],
        "nvfp4": ["stages=2", "swap=1", "tile=64x64x256"],
        "nvfp4 result": ["tile=64x128x128", "swap=1"],
        "batched within": ["swap=1", "split=2", "scale_path=thread"],
    },
}  # fmt: skip
"""Schedules by target and program. Some decide for several fields; the compiler decides the rest."""
SCHEDULES["sm_103a"] = SCHEDULES["sm_100a"]

TIMED: dict[str, Sequence[Mapping[str, int]]] = {
    name: ({"m": 4096, "n": 4096, "k": 4096}, {"m": 64, "n": 4096, "k": 7168})
    for name in ("bf16", "1x128, 128x128", "1xk, 1xk", "mxfp8", "nvfp4", "mxfp8 result")
}
"""Programs that are timed on a GPU, and at which sizes."""

BATCHES = {"b": r"\bb\b", "g": r"\bg\b", "B_0": r"\bB\[e\[", "A_0": r"\bA\[idx\["}
"""Dimensions of batches, of groups, and of rows to gather from, and how a program shows that it has them."""

BATCH = 3
"""Their size."""

SMALL = ({"m": 70, "n": 128, "k": 384}, {"m": 1, "n": 128, "k": 384}, {"m": 0, "n": 128, "k": 384})
"""Sizes in the emulator: the second and third by the kernel of the first, where m is dynamic."""

LARGE = ({"m": 1003, "n": 1536, "k": 1408}, {"m": 1, "n": 1536, "k": 1408}, {"m": 0, "n": 1536, "k": 1408})
"""Sizes on a GPU: more tiles than there are SMs, several stages' worth of K."""


@dataclass(frozen=True)
class Item:
    """One kernel to check, or to time."""

    name: str  # of the program
    source: str  # its text
    target: str  # a row of scalec.targets
    schedule: str  # fields, as text after `with`; "" is what the compiler chooses
    launches: Sequence[Mapping[str, int]]  # sizes of each launch; m is dynamic in the kernel, all others are known
    timed: bool = False  # whether it is timed, at the first launch's sizes, all of them known, and not checked


def items(target: str, *, emulated: bool, only: str = "") -> Iterator[Item]:
    """What is run for a target, what is checked before what is timed.

    Args:
        target: a row of scalec.targets.
        emulated: small sizes, and no times.
        only: a part of the names of the programs.
    """
    chosen = {name: source for name, source in PROGRAMS.items() if only in name}
    for name, source in chosen.items():
        more = {dim: BATCH for dim, shown in BATCHES.items() if re.search(shown, source)}
        own = {dim for dim in SMALL[0] if re.search(rf"\b{dim}\b", source)}
        launches = [{d: n for d, n in sizes.items() if d in own} | more for sizes in (SMALL if emulated else LARGE)]
        yield Item(name, source, target, "", launches)
        for schedule in SCHEDULES.get(target, {}).get(name, ()):
            yield Item(name, source, target, schedule, launches[:1])
    for name, source in () if emulated else chosen.items():
        for sizes in TIMED.get(name, ()):
            yield Item(name, source, target, "", (sizes,), timed=True)
