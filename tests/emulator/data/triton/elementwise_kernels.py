"""Triton kernels without matrix products; generate.py compiles them."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def narrow(x, e4m3, e5m2, bf16, f16, back, n, BLOCK: tl.constexpr):
    """float32 to narrow types, to nearest even, and the sum of what they hold back in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    value = tl.load(x + i, mask=inside)
    four = value.to(tl.float8e4nv)
    five = value.to(tl.float8e5)
    brain = value.to(tl.bfloat16)
    half = value.to(tl.float16)
    tl.store(e4m3 + i, four, mask=inside)
    tl.store(e5m2 + i, five, mask=inside)
    tl.store(bf16 + i, brain, mask=inside)
    tl.store(f16 + i, half, mask=inside)
    total = four.to(tl.float32) + five.to(tl.float32) + brain.to(tl.float32) + half.to(tl.float32)
    tl.store(back + i, total, mask=inside)


@triton.jit
def round_toward_zero(x, bf16, e5m2, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(bf16 + i, value.to(tl.bfloat16, fp_downcast_rounding="rtz"), mask=i < n)
    tl.store(e5m2 + i, value.to(tl.float8e5, fp_downcast_rounding="rtz"), mask=i < n)


@triton.jit
def quantize_mxfp4(x, packed, scales, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """One power-of-two scale for 32 elements, e2m1 by cvt.rn.satfinite.e2m1x2.f32 (sm_100 and later)."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i[:, None] * columns + j[None, :]).reshape(ROWS, BLOCK // 32, 32)
    top = tl.max(tl.abs(value), 2)
    # floor(log2(top)) - 2, e2m1's largest exponent, as ue8m0
    exponent = tl.maximum((top.to(tl.int32, bitcast=True) >> 23) - 2, 0)
    scale = (exponent << 23).to(tl.float32, bitcast=True)
    unit = value / scale[:, :, None]
    low, high = tl.split(unit.reshape(ROWS, BLOCK // 2, 2))
    pair = tl.inline_asm_elementwise(
        "{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, $2, $1; cvt.u32.u8 $0, t; }",
        "=r,f,f", [low, high], dtype=tl.int32, is_pure=True, pack=1,
    )  # fmt: skip
    half = tl.program_id(1) * (BLOCK // 2) + tl.arange(0, BLOCK // 2)
    tl.store(packed + i[:, None] * (columns // 2) + half[None, :], pair.to(tl.uint8))
    group = tl.program_id(1) * (BLOCK // 32) + tl.arange(0, BLOCK // 32)
    tl.store(scales + i[:, None] * (columns // 32) + group[None, :], exponent.to(tl.uint8))


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + j, mask=j < columns, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * columns + j, power / tl.sum(power, 0), mask=j < columns)


@triton.jit
def reductions(x, integers, sums, tops, places, totals, ors, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Of each row: sum, largest, its place, sum and exclusive or of integers."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, BLOCK)
    at = i[:, None] * columns + j[None, :]
    value = tl.load(x + at)
    number = tl.load(integers + at)
    top, place = tl.max(value, 1, return_indices=True)
    tl.store(sums + i, tl.sum(value, 1))
    tl.store(tops + i, top)
    tl.store(places + i, place)
    tl.store(totals + i, tl.sum(number, 1))
    tl.store(ors + i, tl.xor_sum(number, 1))


@triton.jit
def integer_extremes(x, least, most, BLOCK: tl.constexpr):
    """redux.sync on sm_80 and later."""
    row = tl.program_id(0)
    value = tl.load(x + row * BLOCK + tl.arange(0, BLOCK))
    tl.store(least + row, tl.min(value, 0))
    tl.store(most + row, tl.max(value, 0))


@triton.jit
def scan_and_sort(x, sums, ordered, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    value = tl.load(x + row * BLOCK + j)
    tl.store(sums + row * BLOCK + j, tl.cumsum(value, 0))
    tl.store(ordered + row * BLOCK + j, tl.sort(value))


@triton.jit
def atomics(x, keys, total, top, bottom, bits, tickets, brain, n, BLOCK: tl.constexpr):
    """Global atomics of every kind that tl has: add (f32, i32, bf16), max, min, or, compare-and-swap."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    value = tl.load(x + i, mask=inside)
    key = tl.load(keys + i, mask=inside)
    tl.atomic_add(total + key, value, mask=inside)
    tl.atomic_max(top + key, value.to(tl.int32), mask=inside)
    tl.atomic_min(bottom + key, value, mask=inside, sem="relaxed")
    tl.atomic_or(bits + key, 1 << (i % 32), mask=inside)
    tl.atomic_add(brain + key, value.to(tl.bfloat16), mask=inside)
    old = tl.atomic_add(tickets, 1)
    # a lock that somebody takes and gives back: the second word counts under it
    while tl.atomic_cas(tickets + 1, 0, 1) == 1:
        pass
    held = tl.load(tickets + 2, volatile=True)
    tl.debug_barrier()  # every warp loads, one stores
    tl.store(tickets + 2, held + old)
    tl.atomic_xchg(tickets + 1, 0)


@triton.jit
def histogram(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + i), BINS)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@triton.jit
def mathematics(x, y, out, n, BLOCK: tl.constexpr):
    """Ten rows of out: what LLVM makes of the usual functions."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=1.0)
    b = tl.load(y + i, mask=inside, other=1.0)
    tl.store(out + i, tl.exp(a), mask=inside)
    tl.store(out + n + i, tl.log(tl.abs(a) + 1.0), mask=inside)
    tl.store(out + 2 * n + i, tl.sqrt_rn(tl.abs(a)), mask=inside)
    tl.store(out + 3 * n + i, tl.div_rn(a, b), mask=inside)
    tl.store(out + 4 * n + i, tl.fma(a, b, a), mask=inside)
    tl.store(out + 5 * n + i, tl.floor(a) + tl.ceil(b), mask=inside)
    tl.store(out + 6 * n + i, tl.sin(a), mask=inside)
    tl.store(out + 7 * n + i, libdevice.tanh(a), mask=inside)
    tl.store(out + 8 * n + i, tl.rsqrt(tl.abs(b)), mask=inside)
    tl.store(out + 9 * n + i, tl.clamp(a, -0.5, 0.5), mask=inside)


@triton.jit
def integers(x, y, out, n, BLOCK: tl.constexpr):
    """Ten rows of 64-bit results of 32-bit and 64-bit integer arithmetic."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=1)
    b = tl.load(y + i, mask=inside, other=1)
    long_a = a.to(tl.int64) * 1000003
    tl.store(out + i, (a // b).to(tl.int64), mask=inside)
    tl.store(out + n + i, (a % b).to(tl.int64), mask=inside)
    tl.store(out + 2 * n + i, long_a // b.to(tl.int64), mask=inside)
    tl.store(out + 3 * n + i, long_a % b.to(tl.int64), mask=inside)
    tl.store(out + 4 * n + i, tl.umulhi(a, b).to(tl.int64), mask=inside)
    tl.store(out + 5 * n + i, (a ^ (b << 3)).to(tl.int64), mask=inside)
    tl.store(out + 6 * n + i, (a >> (b & 31)).to(tl.int64), mask=inside)
    tl.store(out + 7 * n + i, libdevice.popc(a).to(tl.int64) + libdevice.clz(b).to(tl.int64), mask=inside)
    tl.store(out + 8 * n + i, a.to(tl.uint32).to(tl.int64) + a.to(tl.int8).to(tl.int64), mask=inside)
    tl.store(out + 9 * n + i, tl.where(a > b, long_a, -long_a), mask=inside)


@triton.jit
def philox(seed, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.randint(seed, i))


@triton.jit
def transpose(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    """Through shared memory."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    value = tl.load(x + i[:, None] * columns + j[None, :])
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(value))
