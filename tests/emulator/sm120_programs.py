"""Programs for sm_120a: operands, scales and their layouts, results and elementwise expressions, every kind of each."""

from __future__ import annotations

_UNSCALED = {
    "e4m3": "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3",
    "e4m3 x e5m2": "C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e5m2",
    "e5m2 x e4m3": "C[m,n]:f16 = A[m,k]:e5m2 @ B[n,k]:e4m3",
    "e5m2": "C[m,n]:f32 = A[m,k]:e5m2 @ B[n,k]:e5m2",
    "per row": "C[m,n] = A[m,k]@B[n,k] scale(1xk,1xk)",
    "per tensor": "C[m,n]:f32 = A[m,k]@B[n,k] scale(tensor,tensor)",
    "bf16": "C[m,n] = A[m,k] @ B[n,k]",
    "bf16 to f32": "C[m,n]:f32 = A[m,k] @ B[n,k]",
    "f16": "C[m,n]:f16 = A[m,k]:f16 @ B[n,k]:f16",
    "tf32": "C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32",
    "tf32 to bf16": "C[m,n] = A[m,k]:tf32 @ B[n,k]:tf32",
}

_PROMOTED = {
    "1x128, 128x128": "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)",
    "1x128, 1x128": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128)",
    "@col": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128@col,1x128@col)",
    "128x128, 128x128": "C[m,n]:f32 = A[m,k]:e5m2@B[n,k] scale(128x128,128x128)",
    "16x128, 8x256": "C[m,n]:f32 = A[m,k]@B[n,k] scale(16x128,8x256)",
    "one side": "C[m,n]:f32 = A[m,k]@B[n,k]:e5m2 scale(1x128,none)",
    "e4m3 x e2m1, promoted": "C[m,n] = A[m,k]:e4m3@B[n,k]:e2m1 scale(1x128,1x128)",
}

_SCALED = {
    "1x32": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0,1x32:ue8m0)",
    "1x128:ue8m0": "C[m,n] = A[m,k]@B[n,k] scale(1x128:ue8m0,1x128:ue8m0)",
    "1x128:ue8m0, 128x128:ue8m0": "C[m,n]:f32 = A[m,k]:e5m2@B[n,k] scale(1x128:ue8m0,128x128:ue8m0)",
    "1x64, 1xk": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x64:ue8m0,1xk:ue8m0)",
    "1x256, none": "C[m,n]:f32 = A[m,k]@B[n,k]:e4m3 scale(1x256:ue8m0,none)",
    "none, 1x32": "C[m,n]:f32 = A[m,k]:e4m3@B[n,k] scale(none,1x32:ue8m0)",
    "mxfp8": "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8",
    "mxfp8_e5m2": "C[m,n]:f32 = A[m,k]:mxfp8_e5m2 @ B[n,k]:mxfp8",
    "mxfp6": "C[m,n] = A[m,k]:mxfp6 @ B[n,k]:mxfp6",
    "e2m3": "C[m,n]:f32 = A[m,k]:e2m3@B[n,k]:e2m3 scale(1x32:ue8m0,1x32:ue8m0)",
    "e3m2 x e4m3": "C[m,n]:f32 = A[m,k]:e3m2@B[n,k]:e4m3 scale(1x32:ue8m0,1x128:ue8m0)",
    "mxfp4": "C[m,n] = A[m,k]:mxfp4 @ B[n,k]:mxfp4",
    "e2m1, 1x64": "C[m,n]:f32 = A[m,k]:e2m1@B[n,k]:e2m1 scale(1x64:ue8m0,1x128:ue8m0)",
    "e2m1 unscaled": "C[m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1",
    "nvfp4": "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4",
    "nvfp4 by one side": "C[m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:nvfp4 scale(none)",
    "e4m3 x e2m1, 1x32": "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp4",
    "e2m1 x e4m3, 1x32": "C[m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:mxfp8",
    "e4m3 x e2m1, 1x128": "C[m,n]:f32 = A[m,k]:e4m3@B[n,k]:e2m1 scale(1x128:ue8m0,1x32:ue8m0)",
    "e2m1 x e4m3, 1x128": "C[m,n] = A[m,k]:e2m1@B[n,k]:e4m3 scale(1x128:ue8m0,1x128:ue8m0)",
    # one side by the instruction, the other promoted
    "f32, 1x32": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x32:ue8m0)",
    "1x32, 128x128": "C[m,n] = A[m,k]@B[n,k] scale(1x32:ue8m0,128x128)",
    "e2m1 x e4m3, ue8m0 and f32": "C[m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:e4m3 scale(1x128)",
}

_LAYOUTS = {
    "1x32 @col, @blocked": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0@col,1x32:ue8m0@blocked)",
    "1x32 @packed, @col": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x32:ue8m0@packed,1x32:ue8m0@col)",
    "1x128 @packed": "C[m,n] = A[m,k]@B[n,k] scale(1x128:ue8m0@packed,1x128:ue8m0@packed)",
    "1x128 @blocked, 128x128 @col": "C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128:ue8m0@blocked,128x128:ue8m0@col)",
    "e2m1 @packed, @blocked": "C[m,n]:f32 = A[m,k]:e2m1@B[n,k]:e2m1 scale(1x32:ue8m0@packed,1x32:ue8m0@blocked)",
    "nvfp4 @blocked, @col": "C[m,n] = A[m,k]:e2m1@B[n,k]:e2m1 scale(1x16:ue4m3@blocked*tensor,1x16:ue4m3@col*tensor)",
    "e4m3 x e2m1 @packed": "C[m,n]:f32 = A[m,k]@B[n,k]:e2m1 scale(1x128:ue8m0@packed,1x32:ue8m0@packed)",
}

_EPILOGUES = {
    "bf16, +=": "C[m,n] += A[m,k] @ B[n,k]",
    "mxfp8, +=": "C[m,n]:f32 += A[m,k]:mxfp8 @ B[n,k]:mxfp8",
    "1x128, +=": "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,128x128)",
    "bias": "C[m,n] = gelu(A[m,k]:mxfp8 @ B[n,k]:mxfp8 + bias[n])",
    "nvfp4, silu": "C[m,n]:f16 = alpha * silu(A[m,k]:nvfp4 @ B[n,k]:nvfp4) * gate[m] + R[m,n]",
    "bf16, activations": "C[m,n]:f32 = tanh(A[m,k]@B[n,k]) * sigmoid(x[m]:f32) + max(sqrt(abs(y[n]:f32)), 0.5)",
    "1x128, residual": "C[m,n] = relu(A[m,k]@B[n,k] scale(1x128,128x128) + bias[n]:f32) + beta*R[m/128,n]",
}

PROGRAMS: dict[str, str] = {**_UNSCALED, **_PROMOTED, **_SCALED, **_LAYOUTS, **_EPILOGUES}


# of each family, what schedules are tried on: the program, and (m, n, k), of which n and k are known
FAMILIES: dict[str, tuple[str, tuple[int, int, int]]] = {
    "mxfp8": ("C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8", (140, 136, 400)),
    "1x128": ("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", (140, 136, 272)),
    "bulk scales": ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128)", (140, 136, 512)),
    "bf16": ("C[m,n] = A[m,k] @ B[n,k]", (140, 136, 192)),
    "nvfp4": ("C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4", (140, 136, 544)),
    "padded": ("C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp4", (140, 136, 384)),
}

SCHEDULES: dict[str, list[str]] = {
    "mxfp8": [
        "tile=128x128x128, warps=4x2",
        "tile=128x128x128, warps=2x4",
        "tile=128x128x128, warps=8x1",
        "tile=128x128x128, warps=1x8",
        "tile=256x16x128, warps=8x1",
        "tile=16x128x128, warps=1x8",
        "tile=64x128x128, stages=3, unroll=3",
        "tile=64x64x128, stages=2, unroll=8",
        "tile=64x64x64, swizzle_a=64, swizzle_b=64",
        "tile=64x64x64, stages=5, unroll=3",
        "tile=128x64x128, warps=4x2, epilogue=bulk",
        "tile=128x64x128, epilogue=direct",
        "tile=128x128x128, epilogue=bulk, staged=1",
        "tile=128x64x128, epilogue=bulk, staged=2",
        "tile=64x128x128, epilogue=bulk, swizzle_c=32",
        "tile=64x128x128, epilogue=bulk, swizzle_c=64, warps=4x2",
        "tile=64x128x128, epilogue=bulk, swizzle_c=128, warps=4x2",
        "tile=64x64x128, order=m",
        "tile=64x64x128, order=m, band=1",
        "tile=32x64x128, band=3",
        "tile=64x64x128, warpgroups=1",
        "tile=96x64x128, warpgroups=3, warps=6x2",
        "tile=96x64x128, warps=2x4",
        "tile=192x64x128, warpgroups=3",
        "tile=128x16x128, swap=1",
        "tile=64x32x128, swap=1, epilogue=direct",
        "tile=64x64x128, promote=128",
    ],
    "1x128": [
        "tile=64x64x128, warps=4x2",
        "tile=64x64x128, warps=2x4",
        "tile=128x32x128, warps=8x1",
        "tile=32x128x128, warps=1x8",
        "tile=64x64x128, unroll=3, stages=2",
        "tile=64x64x128, epilogue=direct, early_wait=0",
        "tile=64x32x128, warpgroups=1",
        "tile=64x32x128, swap=1",
    ],
    "bulk scales": [
        "tile=64x64x128, scale_path=bulk, warps=4x2",
        "tile=64x64x128, scale_path=bulk, warps=2x4, unroll=4",
        "tile=64x64x128, scale_path=thread, unroll=1",
        "tile=32x64x128, scale_path=bulk, swap=1",
    ],
    "bf16": [
        "tile=64x64x64, warps=4x2",
        "tile=128x32x64, warps=8x1",
        "tile=64x64x32, swizzle_a=64, swizzle_b=64",
        "tile=64x64x32, unroll=3, stages=5",
        "tile=64x16x64, swap=1",
        "tile=32x64x64, warpgroups=1, epilogue=bulk",
        "tile=32x64x64, order=m, band=2",
        "tile=64x64x64, promote=64",
        "tile=256x64x64, epilogue=bulk, staged=1",
    ],
    "nvfp4": [
        "tile=64x64x256, warps=4x2",
        "tile=64x64x128, unroll=2",
        "tile=128x32x256, warps=8x1",
        "tile=64x32x256, swap=1",
        "tile=64x64x256, epilogue=bulk, staged=1",
    ],
    "padded": [
        "tile=64x64x128, warps=4x2",
        "tile=128x32x128, warps=8x1",
        "tile=64x32x128, swap=1",
        "tile=64x64x128, unroll=3, stages=2",
    ],
}

# schedules that are refused: what the message says
REFUSED: list[tuple[str, str, str]] = [
    ("mxfp8", "tile=128x128x64, stages=6", "needs 104544 bytes of shared memory and sm_120a has 101376"),
    ("mxfp8", "tile=64x32x32", "tile K = 32 is not a multiple of 64: instructions take turns"),
    ("bf16", "tile=64x64x16", "tile K = 16 is not a multiple of 32: instructions take turns"),
    ("nvfp4", "tile=64x64x64", "tile K = 64 is not a multiple of 128: instructions take turns"),
    ("mxfp8", "tile=64x64x256", "tile of A is 256 bytes and swizzle_a = 128"),
    ("mxfp8", "tile=64x64x128, swizzle_a=32", "tile of A is 128 bytes and swizzle_a = 32"),
    ("padded", "tile=64x64x64", r"tile K = 64, and copies that pad e2m1 \(B\) to a byte bring 128 elements of a row"),
    ("mxfp8", "swap=1, epilogue=bulk", "epilogue=bulk is not possible\n  got: swap=1 computes C by columns"),
    ("bulk scales", "epilogue=bulk, swap=1", "epilogue=bulk is not possible\n  got: swap=1 computes C by columns"),
    ("mxfp8", "promote=64", "promote = 64 with tile K = 128"),
    ("1x128", "promote=0", "promote = 0 with tile K = 128"),
    ("1x128", "tile=64x64x64, promote=128", "promote = 128 with tile K = 64"),
    ("1x128", "scale_path=bulk", r"scale_path=bulk is not possible\n  got: a row of A_scale is 12 bytes \(k = 272\)"),
    ("mxfp8", "cluster=1x2", "a cluster of 1x2 is 2 CTAs\n  expected: at most 1"),
    ("mxfp8", "warps=3x2", "3x2 warps, of 2 warpgroups that have 8"),
    ("mxfp8", "tile=128x64x128, warps=3x2", "tile M = 128 is not a multiple of 48|warps = 3x2 are 6 warps"),
    ("mxfp8", "tile=128x24x128", "tile N = 24 is not a multiple of 16"),
    ("mxfp8", "tile=512x64x128", "do not fit into shared memory\n  got: A 131072"),
    ("mxfp8", "stages=20", "20 stages do not fit into 101376 bytes"),
    ("mxfp8", "tile=128x128x128, registers=24x48", "a consumer thread needs about"),
]
