"""Triton kernels that multiply matrices; generate.py compiles them.

K of a and b is contiguous unless said otherwise: a[m, k], b[n, k], c[m, n].
"""

# ruff: noqa: SIM108 (both sides of a conditional expression would be evaluated)

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, m, n, k, am, ak, bn, bk, cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACCUMULATOR: tl.constexpr,
):  # fmt: skip
    """c[i, j] = sum over r of a[i, r] b[r, j], any extents."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    r = tl.arange(0, BK)
    at_a = a + i[:, None] * am + r[None, :] * ak
    at_b = b + r[:, None] * bk + j[None, :] * bn
    sums = tl.zeros((BM, BN), ACCUMULATOR)
    for start in range(0, k, BK):
        rows = tl.load(at_a, mask=(i[:, None] < m) & (r[None, :] < k - start), other=0.0)
        columns = tl.load(at_b, mask=(j[None, :] < n) & (r[:, None] < k - start), other=0.0)
        sums = tl.dot(rows, columns, sums, out_dtype=ACCUMULATOR)
        at_a += BK * ak
        at_b += BK * bk
    tl.store(c + i[:, None] * cm + j[None, :], sums, mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def matmul_scaled(
    a, b, a_scale, b_scale, c, m, n, k, am, bn, cm, sm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr,
):  # fmt: skip
    """c = (a a_scale) (b b_scale) transposed; one scale for GROUP elements along K.

    FP4 elements lie two in a byte, the first in its low half; k counts elements; am, bn, cm and sm are the pitches of
    a, b, c and both scale matrices in their own units (bytes for a, b and scales).
    """
    A_PER_BYTE: tl.constexpr = 2 if A_FORMAT == "e2m1" else 1
    B_PER_BYTE: tl.constexpr = 2 if B_FORMAT == "e2m1" else 1
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    ra = tl.arange(0, BK // A_PER_BYTE)
    rb = tl.arange(0, BK // B_PER_BYTE)
    rs = tl.arange(0, BK // GROUP)
    at_a = a + i[:, None] * am + ra[None, :]
    at_b = b + rb[:, None] + j[None, :] * bn
    at_a_scale = a_scale + i[:, None] * sm + rs[None, :]
    at_b_scale = b_scale + j[:, None] * sm + rs[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        sums = tl.dot_scaled(
            tl.load(at_a), tl.load(at_a_scale), A_FORMAT, tl.load(at_b), tl.load(at_b_scale), B_FORMAT, sums
        )
        at_a += BK // A_PER_BYTE
        at_b += BK // B_PER_BYTE
        at_a_scale += BK // GROUP
        at_b_scale += BK // GROUP
    tl.store(c + i[:, None] * cm + j[None, :], sums)


@triton.jit
def matmul_descriptors(
    a, b, c, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """A persistent kernel whose tensor descriptors are made on the device; c has the type of a."""
    a_map = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    b_map = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    c_map = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    columns = tl.cdiv(n, BN)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(m, BM) * columns, PROGRAMS, flatten=True, warp_specialize=WARP_SPECIALIZE
    ):
        i = tile // columns * BM
        j = tile % columns * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            sums = tl.dot(a_map.load([i, start]), b_map.load([j, start]).T, sums)
        c_map.store([i, j], sums.to(c.dtype.element_ty))


@triton.jit
def matmul_host_descriptors(
    a_map, b_map, c_map, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, B_TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """Tensor maps made by the host; b[k, n] unless B_TRANSPOSED."""
    i = tl.program_id(0) * BM
    j = tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        if B_TRANSPOSED:
            columns = b_map.load([j, start]).T
        else:
            columns = b_map.load([start, j])
        sums = tl.dot(a_map.load([i, start]), columns, sums)
    c_map.store([i, j], sums)


@triton.jit
def matmul_warp_specialized(a_map, b_map, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The loop over K divided among warps: some load, some multiply."""
    i = tl.program_id(0) * BM
    j = tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, k, BK, warp_specialize=True):
        sums = tl.dot(a_map.load([i, start]), b_map.load([j, start]).T, sums)
    rows = i + tl.arange(0, BM)
    columns = j + tl.arange(0, BN)
    tl.store(c + rows[:, None] * n + columns[None, :], sums)


@triton.jit
def attention(q, k, v, out, keys, scale, BQ: tl.constexpr, BK: tl.constexpr, D: tl.constexpr):
    """out = softmax(q k^T scale) v for BQ queries a program, `keys` keys in steps of BK, rows of D elements."""
    rows = tl.program_id(0) * BQ + tl.arange(0, BQ)
    d = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + d[None, :])
    top = tl.full((BQ,), float("-inf"), tl.float32)
    total = tl.zeros((BQ,), tl.float32)
    sums = tl.zeros((BQ, D), tl.float32)
    for start in range(0, keys, BK):
        at = start + tl.arange(0, BK)
        scores = tl.dot(queries, tl.load(k + at[None, :] * D + d[:, None])) * scale
        new_top = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(weights, 1)
        values = tl.load(v + at[:, None] * D + d[None, :])
        sums = tl.dot(weights.to(values.dtype), values, sums * shrink[:, None])
        top = new_top
    tl.store(out + rows[:, None] * D + d[None, :], sums / total[:, None])
