"""Programs for sm_100a: operands, scales and results of every kind that it has so far, and schedules to try."""

from __future__ import annotations

_UNSCALED = {
    "bf16": "C[m,n] = A[m,k] @ B[n,k]",
    "bf16 to f32": "C[m,n]:f32 = A[m,k] @ B[n,k]",
    "f16": "C[m,n]:f16 = A[m,k]:f16 @ B[n,k]:f16",
    "tf32": "C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32",
    "tf32 by M": "C[m,n]:f32 = A[k,m]:tf32 @ B[n,k]:tf32",
    "tf32 by N": "C[m,n] = A[m,k]:tf32 @ B[k,n]:tf32",
    "tf32 by M and N": "C[m,n]:f32 = A[k,m]:tf32 @ B[k,n]:tf32",
    "e4m3": "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3",
    "e4m3 x e5m2": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e5m2",
    "e5m2 x e4m3": "C[m,n]:f16 = A[m,k]:e5m2 @ B[n,k]:e4m3",
    "e5m2": "C[m,n]:f32 = A[m,k]:e5m2 @ B[n,k]:e5m2",
    "e2m1": "C[m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1",  # with ones for scales
}

# copies pad them to a byte
_PADDED = {
    "e2m3": "C[m,n] = A[m,k]:e2m3 @ B[n,k]:e2m3",
    "e3m2 x e2m3": "C[m,n]:f32 = A[m,k]:e3m2 @ B[n,k]:e2m3",
    "e4m3 x e2m1": "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e2m1",
    "e2m1 x e5m2": "C[m,n]:f16 = A[m,k]:e2m1 @ B[n,k]:e5m2",
    "e3m2 x e4m3": "C[m,n]:f32 = A[m,k]:e3m2 @ B[n,k]:e4m3",
}

# with few columns, as each of a tile's has code of its own, which ptxas takes its time for
_SCALED = {
    "per row": "C[m,n] = A[m,k]@B[n,k] scale(1xk,1xk)",
    "per tensor": "C[m,n]:f32 = A[m,k]@B[n,k] scale(tensor,tensor) with tile=128x64x128",
    "per row, per tensor": "C[m,n]:f16 = A[m,k]:e5m2@B[n,k] scale(1xk,tensor) with tile=128x96x128",
    "blocks of rows": "C[m,n]:f32 = A[m,k]@B[n,k] scale(128xk,48xk) with tile=128x48x128",
    "one side": "C[m,n] = A[m,k]:e5m2@B[n,k] scale(none,1xk) with tile=128x64x128",
    "f16, per row": "C[m,n]:f32 = A[m,k]:f16 @ B[n,k]:f16 scale(1xk,1xk) with tile=128x64x64",
    "padded, per row": "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1xk,1xk) with tile=128x80x128",
}

_BLOCKS = {
    "mxfp8": "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8_e5m2",
    "mxfp6": "C[m,n]:f32 = A[m,k]:mxfp6 @ B[n,k]:mxfp6 with tile=128x64x128",
    "mxfp4": "C[m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:mxfp4",
    "nvfp4": "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4 with tile=128x64x256",
    "mxfp8 x mxfp4": "C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:mxfp4 with tile=128x96x128",
    "1x128, 1x32": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1x128:ue8m0, 1x32:ue8m0) with tile=128x64x128",
    "1x128, 128x128": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128:ue8m0,128x128:ue8m0)",
    "1x32 @packed, @blocked": (
        "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0@packed,1x32:ue8m0@blocked) with tile=128x256x128"
    ),
    "1x96 @col, 1xk": "C[m,n] = A[m,k]@B[n,k] scale(1x96:ue8m0@col,1xk:ue8m0) with tile=128x64x128",
    "1x16 @blocked": "C[m,n]:f32 = A[m,k]:e2m1@B[n,k]:e2m1 scale(1x16:ue4m3@blocked,1x64:ue4m3) with tile=128x192x256",
    "mxfp8 @blocked": (
        "C[m,n] = A[m,k]@B[n,k]:e5m2 scale(1x32:ue8m0@blocked,1x32:ue8m0@blocked) with tile=128x192x128"
    ),
}

# the tensor core takes ones for the other side
_ONE_SIDE = {
    "1x32, none": "C[m,n] = A[m,k]:e4m3@B[n,k]:e5m2 scale(1x32:ue8m0,none) with tile=128x96x128",
    "none, 1x16": "C[m,n]:f32 = A[m,k]:e2m1@B[n,k]:e2m1 scale(none,1x16:ue4m3) with tile=128x64x256",
    "1x32 @blocked, 1xk": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0@blocked,1xk) with tile=128x256x128",
    "tensor, mxfp4": "C[m,n]:f32 = A[m,k]@B[n,k]:mxfp4 scale(tensor) with tile=128x64x128",
    "1x32, f32 128x128": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0,128x128) with tile=128x64x128",
    "f32 1x128, 1x32": "C[m,n] = A[m,k]:e2m1@B[n,k]:e2m1 scale(1x128@col,1x32:ue8m0@blocked) with tile=128x64x128",
}

# f32 along K: the sums of each K block are taken out of tensor memory, and added up
_PROMOTED = {
    "f32 1x128, 128x128": "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)",
    "f32 1x128, 1x128": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128@col) with tile=128x64x128",
    "f32 by threads": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,16x256) with tile=128x96x128, scale_path=thread",
    "f32, e2m1": "C[m,n]:f32 = A[m,k]:e2m1@B[n,k]:e2m1 scale(1x128,128x128) with tile=128x64x128",
    "f32, +=": "C[m,n]:f32 += A[m,k]:e5m2@B[n,k] scale(1x128@col,128x128) with tile=128x32x128",
}

_EPILOGUES = {
    "bf16, +=": "C[m,n] += A[m,k] @ B[n,k] with tile=128x96x64",
    "per row, +=": "C[m,n]:f32 += A[m,k]@B[n,k] scale(1xk,tensor) with tile=128x64x128",
    "bias": "C[m,n] = gelu(A[m,k]@B[n,k] + bias[n]) with tile=128x64x64",
    "silu": "C[m,n]:f16 = alpha * silu(A[m,k]:e4m3 @ B[n,k]:e4m3) * gate[m] + R[m,n] with tile=128x48x128",
    "activations": (
        "C[m,n]:f32 = tanh(A[m,k]@B[n,k]) * sigmoid(x[m]:f32) + max(sqrt(abs(y[n]:f32)), 0.5) with tile=128x32x64"
    ),
    "residual": ("C[m,n] = relu(A[m,k]@B[n,k] scale(1xk,1xk) + bias[n]:f32) + beta*R[m/128,n] with tile=128x64x128"),
}

PROGRAMS: dict[str, str] = {**_UNSCALED, **_PADDED, **_SCALED, **_BLOCKS, **_ONE_SIDE, **_PROMOTED, **_EPILOGUES}


# of each family, what schedules are tried on: the program, and (m, n, k), of which n and k are known
FAMILIES: dict[str, tuple[str, tuple[int, int, int]]] = {
    "bf16": ("C[m,n] = A[m,k] @ B[n,k]", (300, 264, 192)),
    "many tiles": ("C[m,n]:f32 = A[m,k] @ B[n,k]", (700, 264, 64)),
    "e4m3": ("C[m,n] = A[m,k]@B[n,k] scale(1xk,tensor)", (300, 264, 400)),
    "tf32": ("C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32", (140, 136, 96)),
    "padded": ("C[m,n] = A[m,k]:e4m3 @ B[n,k]:e2m1", (140, 136, 384)),
    "ones": ("C[m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1", (300, 264, 514)),
    "mxfp8": ("C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8", (300, 264, 400)),
    "nvfp4": ("C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4", (140, 264, 544)),
    "1x128": ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128@col)", (300, 264, 512)),
}

SCHEDULES: dict[str, list[str]] = {
    "bf16": [
        "tile=128x256x64",
        "tile=128x240x64",
        "tile=128x128x64",
        "tile=128x64x64, stages=2",
        "tile=128x32x64, stages=3, unroll=3",
        "tile=128x16x64",
        "tile=128x48x64, epilogue=direct",
        "tile=128x64x32, swizzle_a=64, swizzle_b=64",
        "tile=128x64x16, swizzle_a=32, swizzle_b=32",
        "tile=128x64x64, staged=1",
        "tile=128x64x64, staged=2",
        "tile=128x64x64, order=m",
        "tile=128x32x64, order=m, band=2",
        "tile=128x64x64, warpgroups=1, registers=48x216",
        "tile=128x128x64, swap=1",
        "tile=128x48x64, swap=1",
        "tile=128x64x64, cluster=2x1, promote=64",
        "tile=128x32x64, cluster=1x4, stages=3",
        "tile=128x64x64, cluster=1x1, promote=64",
    ],
    "many tiles": [  # 4 CTAs, so that 54 and 102 tiles go round the ring of accumulators many times
        "tile=128x32x64",
        "tile=128x16x64, stages=2",
        "tile=128x16x32, stages=2, swizzle_a=64, swizzle_b=64",
        "tile=128x256x64, stages=2",
    ],
    "e4m3": [
        "tile=128x256x128",
        "tile=128x64x128, stages=2, unroll=8",
        "tile=128x64x64, swizzle_a=64, swizzle_b=64, stages=5, unroll=3",
        "tile=128x64x32, swizzle_a=32, swizzle_b=32",
        "tile=128x64x128, order=m, band=1",
        "tile=128x64x128, swap=1, epilogue=direct",
    ],
    "tf32": [
        "tile=128x128x32",
        "tile=128x64x16, swizzle_a=64, swizzle_b=64",
        "tile=128x16x32, stages=2",
        "tile=128x64x32, swap=1",
    ],
    "mxfp8": [
        "tile=128x256x128, stages=2",
        "tile=128x128x128, cluster=1x2, stages=3",
        "tile=128x64x128, cluster=4x1, stages=2, unroll=2",
        "tile=128x64x64, swizzle_a=64, swizzle_b=64",
        "tile=128x64x128, swap=1",
    ],
    "nvfp4": ["tile=128x256x256, stages=2", "tile=128x128x128, swizzle_a=64, swizzle_b=64, cluster=2x1"],
    "1x128": [
        "tile=128x128x128, cluster=1x2",
        "tile=128x64x128, cluster=2x1, stages=2",
        "tile=128x64x128, scale_path=thread, cluster=1x1",
        "tile=128x32x128, swap=1",
    ],
    "ones": [
        "tile=128x256x256, stages=2",
        "tile=128x128x128, swizzle_a=64, swizzle_b=64, cluster=2x1",
        "tile=128x16x256, unroll=3",
        "tile=128x64x64, swizzle_a=32, swizzle_b=32, swap=1",
        "tile=128x64x128, swizzle_a=64, swizzle_b=64, promote=128",
    ],
    "padded": ["tile=128x128x128, stages=2", "tile=128x16x128, unroll=3", "tile=128x64x128, swap=1"],
}

# schedules that are refused: what the message says
REFUSED: list[tuple[str, str, str]] = [
    ("bf16", "tile=64x128x64", "tile M = 64, and one instruction sums 128 rows in tensor memory"),
    ("bf16", "tile=256x128x64", "tile M = 256, and .*\n  fix: tile M = 128, cta_group=2 for two CTAs"),
    ("bf16", "tile=128x24x64", "tile N = 24 is not a width .*\n  expected: a multiple of 16 from 16 to 256"),
    ("bf16", "tile=128x272x64", "tile N = 272 is not a width"),
    ("bf16", "tile=128x64x8", "tile K = 8 is not a multiple of 16"),
    ("bf16", "tile=128x64x128", "a row of the tile of A is 256 bytes and swizzle_a = 128"),
    ("bf16", "tile=128x64x64, swizzle_a=64", "a row of the tile of A is 128 bytes and swizzle_a = 64"),
    ("bf16", "tile=128x64x64, cluster=16x1", "a cluster of 16x1 is 16 CTAs\n  expected: at most 8 on sm_100a"),
    ("bf16", "tile=128x64x64, split=4", "split = 4 and k = 192 has 3 blocks of 64"),
    ("bf16", "tile=128x64x64, early_wait=1", "early_wait = 1 looks ahead before each promotion"),
    ("bf16", "tile=128x64x64, warps=2x2", "warps = 2x2, and .*\n  expected: 4x1"),
    ("bf16", "tile=128x64x64, staged=3", "staged = 3 does not divide the 2 waves"),
    ("bf16", "tile=128x96x64, swizzle_c=128", "swizzle_c = 128 does not divide a row of the staged tile, 64 bytes"),
    ("bf16", "tile=128x96x64, swizzle_c=0", "swizzle_c = 0 does not divide a row of the staged tile, 64 bytes"),
    (
        "bf16",
        "tile=128x256x64, cta_group=1, stages=5",
        "needs 245888 bytes of shared memory and sm_100a has 232448\n  got: A 81920",
    ),
    ("bf16", "swap=1, epilogue=bulk", "epilogue=bulk is not possible\n  got: swap=1 computes C by columns"),
    ("many tiles", "epilogue=bulk, swap=1", "epilogue=bulk is not possible\n  got: swap=1 computes C by columns"),
    ("padded", "tile=128x64x64", r"tile K = 64, and copies that pad e2m1 \(B\) to a byte bring 128 elements of a row"),
]
