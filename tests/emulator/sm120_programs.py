"""Programs for sm_120a: operands, scales and their layouts, results and elementwise expressions, every kind of each."""

from __future__ import annotations

# the largest `diff` from the float64 result, by the result's type: half of (2^-8)^2 or (2^-11)^2, where all are rounded
# by as much as they can be, which of a few elements may happen; FP32 sums
LIMITS = {"bf16": 7.7e-6, "f16": 1.2e-7, "f32": 1e-10}

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


def limit(source: str) -> float:
    """The largest diff of a program's result."""
    kind = source.split("=")[0].partition(":")[2].strip().rstrip(" +")
    return LIMITS[kind or "bf16"]


def k_step(source: str) -> int:
    """What K must be a multiple of: copies that pad 4 or 6 bits to 8 take whole boxes; packed ones whole bytes."""
    six = any(t in source for t in ("mxfp6", "e2m3", "e3m2"))
    four = sum(source.count(t) for t in ("e2m1", "mxfp4", "nvfp4"))
    return 128 if six or four == 1 else 2 if four else 1
