"""Programs and schedules that are run on the GPU at real sizes, and on the emulator at small ones."""

# program, largest diff from the float64 result: rounding to the result's type, and FP32 sums of FP8 products
PROGRAMS = {
    "1x128, 128x128": ("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", 3e-6),
    "1x128@col": ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128@col,128x128)", 1e-7),
    "both fine": ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x128)", 1e-7),
    "both fine, accumulated": ("C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128)", 1e-7),
    "both fine @col": ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128@col,1x128@col)", 1e-7),
    "both blocks": ("C[m,n]:f16 = A[m,k]@B[n,k] scale(128x128,128x128)", 1e-7),
    "blocks, fine": ("C[m,n]:f32 = A[m,k]@B[n,k] scale(128x128,1x128)", 1e-7),
    "longer blocks": ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x256,128x512)", 1e-7),
    "rows of 64": ("C[m,n]:f32 = A[m,k]@B[n,k] scale(64x128,64x128)", 1e-7),
    "per row": ("C[m,n] = A[m,k]@B[n,k] scale(1xk,1xk)", 3e-6),
    "per tensor": ("C[m,n] = A[m,k]@B[n,k] scale(tensor,tensor)", 3e-6),
    "fine by row": ("C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1xk)", 1e-7),
    "one side": ("C[m,n]:f32 = A[m,k]@B[n,k]:e5m2 scale(1x128,none)", 1e-7),
    "unscaled": ("C[m,n]:f32 = A[m,k]:e4m3 @ B[n,k]:e4m3", 1e-7),
    "e5m2": ("C[m,n]:f32 = A[m,k]:e5m2@B[n,k]:e4m3 scale(1x128,128x128)", 1e-7),
    "bf16": ("C[m,n] = A[m,k] @ B[n,k]", 3e-6),
    "bf16 to f32": ("C[m,n]:f32 = A[m,k] @ B[n,k]", 1e-9),
    "f16": ("C[m,n]:f16 = A[m,k]:f16 @ B[n,k]:f16", 1e-6),
    "bf16 accumulated": ("C[m,n] += A[m,k] @ B[n,k]", 3e-6),
    "epilogue": ("C[m,n] = alpha * silu(A[m,k]@B[n,k] scale(1x128,128x128) + bias[n]) + R[m,n]", 5e-6),
    "activations": ("C[m,n]:f32 = tanh(A[m,k]@B[n,k]) * sigmoid(x[m]:f32) + max(sqrt(abs(y[n]:f32)), 0.5)", 1e-6),
}

# dimensions that a tile does not run along: batches, more dimensions of M and N; program, largest diff, sizes
OUTER = {
    "bhr,hdr->bhd": (
        "Z[b,h,d] = X[b,h,r] @ Y[h,d,r] scale(1x128,128x128)",
        3e-6,
        {"b": 70, "h": 3, "d": 256, "r": 256},
    ),
    "batched": ("Z[b,m,n] = X[b,m,k] @ Y[b,n,k]", 3e-6, {"b": 3, "m": 70, "n": 136, "k": 192}),
    "two batches": ("Z[a,b,m,n]:f16 = X[b,m,a,k] @ Y[a,b,n,k]", 3e-6, {"a": 2, "b": 3, "m": 67, "n": 72, "k": 72}),
    "rows": ("C[b,s,n] = A[b,s,k] @ W[n,k] scale(1x128,128x128)", 3e-6, {"b": 3, "s": 70, "n": 136, "k": 256}),
    "heads": ("C[m,h,d] = A[m,k] @ B[h,d,k] scale(1x128@col,1x128@col)", 3e-6, {"m": 72, "h": 3, "d": 136, "k": 384}),
    "columns": ("C[n,m] = A[m,k] @ B[n,k] + x[m]", 3e-6, {"m": 77, "n": 136, "k": 72}),
    "columns with scales": (
        "C[n,b,m]:f32 = A[b,m,k] @ B[b,n,k] scale(1x24x128, 1x128x128)",
        1e-7,
        {"b": 2, "m": 77, "n": 136, "k": 200},
    ),
    "added": ("Z[b,m,n]:f32 += X[b,m,k] @ Y[b,n,k] scale(1x128,1x128)", 1e-7, {"b": 3, "m": 70, "n": 136, "k": 256}),
    "few rows": ("Z[b,h,d] = X[b,h,r] @ Y[h,d,r] scale(1x128,128x128)", 3e-6, {"b": 3, "h": 5, "d": 200, "r": 400}),
    "bmk,bnk->mn": ("D[m,n]:f32 += A[b,m,k] @ B[b,n,k]", 1e-7, {"b": 5, "m": 70, "n": 136, "k": 104}),
    "scales by sum": ("D[m,n] = A[b,m,k] @ B[b,n,k] scale(1x128,128x128)", 3e-6, {"b": 3, "m": 70, "n": 136, "k": 208}),
    "three sums": ("D[h,m,n] = A[b,h,m,c,k] @ B[b,h,n,c,k]", 3e-6, {"b": 2, "h": 2, "c": 3, "m": 70, "n": 72, "k": 40}),
    "computed": (
        "C[m,n] = (A[m,k] @ B[n,k] + x[n%64]) * y[m/4,n] + z[n/8%5,m%16,n%8] - w[m/2%3]",
        5e-6,
        {"m": 77, "n": 136, "k": 72},
    ),
    "of batches": (
        "Z[b,m,n] = X[b,m,k] @ Y[b,n,k] * alpha[b%2] + r[b/2,m%8]",
        5e-6,
        {"b": 5, "m": 40, "n": 72, "k": 72},
    ),
    "read": (
        "Z[b,h,n] = gelu(X[b,h,k] @ Y[h,n,k] + bias[h,n]) * r[b,h] + s[h] * R[b/2,n]",
        5e-6,
        {"b": 70, "h": 3, "n": 136, "k": 192},
    ),
}

# several results of one contraction; program, n, k
SEVERAL = {
    "bf16": ("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T + x[n]; D[m,n]:mxfp8 = relu(T)", 1536, 1024),
    "1x128, 128x128": ("T[m,n] = A[m,k]@B[n,k] scale(1x128,128x128); C[m,n]:nvfp4 = gelu(T); D[m,n] = T", 2112, 1536),
    "three": (
        "T[m,n] = alpha * (A[m,k] @ B[n,k]); C[m,n]:f32 += T; D[m,n]:f16 = T * R[m,n]; E[m,n]:mxfp4 = T - x[n]",
        1000,
        512,
    ),
    "ragged": ("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T + x[n]; D[m,n]:e4m3 = relu(T)", 1031, 264),
    "6 bits": ("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; D[m,n]:mxfp6 = T; E[m,n]:e2m3 = T", 1536, 264),
    "6 bits, ragged": ("C[m,n]:mxfp6 = A[m,k] @ B[n,k]; D[m,n]:mxfp6_e2m3 = relu(A[m,k] @ B[n,k])", 1031, 264),
    "transformed": (
        "C[m,n]:f32 = hadamard(A[m,k] @ B[n,k], 16); D[m,n]:mxfp8 = hadamard(A[m,k] @ B[n,k], 16)",
        1032,
        264,
    ),
}

# results whose last index is computed: program, largest diff, sizes, and another size of the dimension with gaps, of
# which copies can store the result
GAPS = {
    "in a head": (
        "D[m, n + (n+128)/256*64] = A[m,k] @ B[n,k] scale(1x128,128x128)",
        3e-6,
        {"m": 70, "n": 300, "k": 200},
        {"n": 384},
    ),
    "behind a head": (
        "D[m, n/128*192 + n%128] = A[m,k] @ B[n,k] scale(1x128,128x128)",
        3e-6,
        {"m": 70, "n": 301, "k": 256},
        {"n": 384},
    ),
    "in front of a head": (
        "D[m, n/128*192 + n%128 + 64]:f32 = A[m,k] @ B[n,k] + x[n]",
        1e-7,
        {"m": 130, "n": 200, "k": 72},
        {"n": 384},
    ),
    "odd ones": ("D[m, n + (n+1)/3]:f32 = relu(A[m,k] @ B[n,k])", 1e-7, {"m": 33, "n": 100, "k": 64}, {"n": 384}),
    "narrow ones": ("D[m, n/8*12 + n%8]:f16 = A[m,k] @ B[n,k]", 1e-6, {"m": 70, "n": 140, "k": 64}, {"n": 384}),
    "of batches": (
        "D[b, m, n/64*80 + n%64] = A[b,m,k] @ B[b,n,k] * r[b,m/4]",
        5e-6,
        {"b": 2, "m": 70, "n": 140, "k": 64},
        {"n": 384},
    ),
    "along M": ("D[n, m/32*48 + m%32] = A[m,k] @ B[n,k]", 3e-6, {"m": 150, "n": 70, "k": 64}, {"m": 384}),
    "in each head": (
        "D[s, h, d + d/64*64] = X[s,k] @ W[h,d,k]",
        3e-6,
        {"s": 70, "h": 2, "d": 100, "k": 64},
        {"d": 128},
    ),
}

# schedules of every family, for FP8 by blocks and for bf16
FP8_SCHEDULES = [
    "cluster=1x1",
    "cluster=2x1",
    "cluster=1x4",
    "cluster=4x1, tile=64x64x128",
    "stages=2",
    "stages=2, cluster=1x1, tile=64x128x128",
    "stages=7, tile=64x128x128",
    "scale_path=thread",
    "scale_path=thread, tile=192x128x128",
    "scale_path=thread, tile=64x32x128, cluster=2x1",
    "unroll=1",
    "unroll=3",
    "unroll=8",
    "early_wait=0",
    "early_wait=1, tile=192x128x128",
    "epilogue=direct",
    "swizzle_c=64",
    "swizzle_c=32",
    "order=m",
    "order=m, band=1",
    "band=3, cluster=2x1",
    "warpgroups=1",
    "warpgroups=3, tile=192x64x128",
    "tile=64x8x128",
    "tile=128x16x128",
    "tile=128x96x128",
    "tile=64x48x128, cluster=1x1",
    "tile=128x160x128, unroll=1",
    "tile=192x80x128, scale_path=thread",
    "tile=128x64x128, warpgroups=2, registers=56x224",
    "swap=1",
    "swap=1, tile=64x16x128, cluster=2x1",
    "swap=1, tile=192x24x128, scale_path=thread, cluster=1x2",
    "swap=1, tile=256x16x128, epilogue=direct",
    "swap=1, tile=64x8x128, epilogue=turned",
    "consumers=pingpong",
    "consumers=pingpong, tile=64x128x128, cluster=1x1, stages=3",
    "consumers=pingpong, tile=128x64x128, cluster=2x1, early_wait=0, unroll=1, staged=0",
    "consumers=pingpong, tile=64x64x128, warpgroups=3, scale_path=thread",
    "consumers=pingpong, swap=1, tile=128x16x128",
    "consumers=pingpong, swap=1, tile=64x16x128, epilogue=turned",
    "tile=192x160x128, cluster=2x1",
    "tile=128x256x128, early_wait=0",
    "tile=128x80x128, mma_n=40, warpgroups=1, scale_path=thread",
]

BF16_SCHEDULES = [
    "tile=128x256x64",
    "tile=256x192x64, epilogue=direct",
    "tile=64x256x64",
    "tile=128x128x32",
    "tile=128x128x16, swizzle_a=32, swizzle_b=32",
    "tile=192x160x64",
    "cluster=2x1, unroll=4",
    "cluster=1x1, stages=2",
    "tile=256x48x64",
    "swap=1, tile=64x8x64",
    "swap=1, tile=128x128x64, cluster=2x1",
    "consumers=pingpong",
    "consumers=pingpong, tile=128x192x64, cluster=2x1",
    "consumers=pingpong, tile=64x96x64, warpgroups=3, stages=3",
]
