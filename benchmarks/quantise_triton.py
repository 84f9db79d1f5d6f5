"""Quantising kernels in Triton for sm_90, of finite values: what follows a GEMM whose result is bf16."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

WIDTH = {8: 2048, 4: 4096}
"""Columns of a step, by the bits of a result."""
ENOUGH = {8: 1024, 4: 4096}
"""Programs with which all SMs have several: timed on an H200, as are 8 warps."""

EACH = tl.constexpr(16)
"""Columns of a thread where results are of 4 bits: two loads of 16 bytes, and a block of nvfp4."""


def _to_e2m1(codes: str) -> tl.constexpr:
    """PTX of four bytes of e2m1, from four words of two bf16, their magnitudes, and multipliers, without a conversion.

    `codes` leaves in the lower bits of @t's halves the codes of the magnitudes @m, times @i, less 6 and modulo 8: the
    lower bits of sums, which round to nearest even. In one the unit in the last place is a code's step up to 2. In the
    other it is the step from 2 on, and doubles at 4, as the step does: the sum is a power of two there, with bits of 0
    for the code 6. So it is in the first where this has 6. The lesser sum is right; 7 is the largest code.
    """
    text = "{\n.reg .b32 p, q, r, s, t<4>, u<4>;\n"
    for i in range(4):
        text += codes.replace("@m", f"${5 + i}").replace("@i", f"${9 + i}").replace("@t", f"t{i}")
    # codes of even columns and of odd ones, then signs; lop3 takes the second operand's bits where the third has zeros
    text += """
        prmt.b32 t0, t0, t1, 0x6240;  prmt.b32 t2, t2, t3, 0x6240;
        prmt.b32 t1, t0, t2, 0x7632;  prmt.b32 t0, t0, t2, 0x5410;
        shl.b32 t1, t1, 4;  lop3.b32 t0, t0, t1, 0x0F0F0F0F, 0xE4;
        and.b32 t0, t0, 0x77777777;  add.u32 t0, t0, 0x66666666;
        prmt.b32 u0, $1, $2, 0x7351;  prmt.b32 u1, $3, $4, 0x7351;
        prmt.b32 u2, u0, u1, 0x7632;  prmt.b32 u0, u0, u1, 0x5410;
        shr.u32 u0, u0, 4;  lop3.b32 u0, u0, u2, 0x0F0F0F0F, 0xE4;
        lop3.b32 $0, t0, u0, 0x77777777, 0xE4;
    }"""
    return tl.constexpr(text)


# With v = x / scale, exact in bf16: v + 125 and v/2 + 126, which are 128 at 3 and at 4. 129 has code 7.
_POWERS = _to_e2m1("""
    mov.b32 p, 0x42FA42FA;  mov.b32 q, 0x42FC42FC;  mov.b32 s, 0x43014301;  sub.s32 r, @i, 0x00800080;
    fma.rn.bf16x2 p, @m, @i, p;  fma.rn.bf16x2 q, @m, r, q;
    min.u16x2 p, p, q;  min.u16x2 @t, p, s;
""")
# With v/8 in f32, at most 1: 2v + 2^24 - 6 and v + 2^24 - 4. Their lower halves are codes less 6.
_PRODUCTS = _to_e2m1("""
    shl.b32 p, @m, 16;  and.b32 q, @m, 0xFFFF0000;
    mul.sat.f32 p, p, @i;  mul.sat.f32 q, q, @i;
    fma.rn.f32 r, p, 0f41800000, 0f4B7FFFFA;  fma.rn.f32 s, q, 0f41800000, 0f4B7FFFFA;
    fma.rn.f32 p, p, 0f41000000, 0f4B7FFFFC;  fma.rn.f32 q, q, 0f41000000, 0f4B7FFFFC;
    prmt.b32 r, r, s, 0x5410;  prmt.b32 p, p, q, 0x5410;  mov.b32 s, 0x00010001;
    min.s16x2 p, p, r;  min.s16x2 @t, p, s;
""")


@triton.jit
def _larger(a, b):
    """Of each two magnitudes of bf16, in i32."""
    return tl.inline_asm_elementwise("max.u16x2 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, True, 1)


@triton.jit
def _rounded(TEXT: tl.constexpr, words, magnitudes, multipliers):
    """e2m1 of `words`, i32 of two bf16: u8 of the same shape (`_to_e2m1`)."""
    return tl.inline_asm_elementwise(TEXT, "=r" + 12 * ",r", [words, magnitudes, multipliers], tl.uint8, True, 4)


@triton.jit
def _quantise4(x, values, scales, whole, pairs, parts, MX: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """`parts` programs a row, by turns: reads `pairs` i32 of two bf16, writes e2m1 and a scale for each BLOCK columns.

    Scales are ue8m0, or e4m3 with `whole`, f32 [1], the scale of the whole tensor, a positive power of two: with others
    scales at ties may be one off.
    """
    row = tl.program_id(0).to(tl.int64)
    STEP: tl.constexpr = WIDTH // 2
    if not MX:
        of_whole = tl.div_rn(1.0, tl.load(whole))
    for start in range(tl.program_id(1) * STEP, pairs, parts * STEP):
        at = start + EACH // 2 * tl.arange(0, WIDTH // EACH)[:, None] + tl.arange(0, 4)[None, :]
        a = tl.load(x + row * pairs + at, mask=at < pairs, other=0)
        b = tl.load(x + row * pairs + at + 4, mask=at + 4 < pairs, other=0)
        abs_a, abs_b = a & 0x7FFF7FFF, b & 0x7FFF7FFF
        amax = tl.reduce(_larger(abs_a, abs_b), 1, _larger)
        amax = tl.reduce(tl.reshape(amax, (WIDTH // BLOCK, BLOCK // EACH)), 1, _larger)
        amax = tl.maximum(amax << 16, amax & 0x7FFF0000)
        if MX:
            code = tl.maximum((amax >> 23) - 2, 0)
            inverse, kept = (254 - code) * 0x00800080, code.to(tl.uint8)
        else:
            # A bf16 times 1/6 rounds to e4m3 as the quotient does. A step of Newton's rounds the reciprocal as rcp.rn
            # does, of four bits; with a scale of 0 it is NaN, of which mul.sat makes 0.
            kept = (amax.to(tl.float32, bitcast=True) * (of_whole * (1 / 6))).to(tl.float8e4nv)
            scale = kept.to(tl.float32)
            near = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=r,r", [scale], tl.float32, True, 1)
            inverse = tl.fma(tl.fma(-scale, near, 1.0), near, near) * (of_whole * 0.125)
            kept = kept.to(tl.uint8, bitcast=True)
        each = tl.reshape(tl.broadcast_to(inverse[:, None], (WIDTH // BLOCK, BLOCK // EACH)), (WIDTH // EACH, 1))
        TEXT: tl.constexpr = _POWERS if MX else _PRODUCTS
        halves = tl.join(_rounded(TEXT, a, abs_a, each), _rounded(TEXT, b, abs_b, each))
        at = start + tl.arange(0, STEP)
        tl.store(values + row * pairs + at, tl.reshape(tl.permute(halves, (0, 2, 1)), (STEP,)), mask=at < pairs)
        blocks = tl.cdiv(pairs, BLOCK // 2)
        which = start // (BLOCK // 2) + tl.arange(0, WIDTH // BLOCK)
        tl.store(scales + row * blocks + which, kept, mask=which < blocks)


@triton.jit
def _store_blocks(
    blocks, at, inside, start, row, values, scales, columns, MX: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr
):
    """Stores f32 [WIDTH / BLOCK, BLOCK], the columns `at` of a row from `start` on, as e4m3, and their scales."""
    amax = tl.max(tl.abs(blocks), axis=1)
    if MX:
        code = tl.maximum((amax.to(tl.int32, bitcast=True) >> 23) - 8, 0)
        inverse = ((254 - code) << 23).to(tl.float32, bitcast=True)
        kept = code.to(tl.uint8)
    else:
        kept = tl.where(amax == 0, 1.0, amax / 448.0)
        inverse = 1.0 / kept
    scaled = tl.clamp(blocks * inverse[:, None], -448.0, 448.0)
    tl.store(values + row * columns + at, tl.reshape(scaled, (WIDTH,)).to(tl.float8e4nv), mask=inside)
    which = start // BLOCK + tl.arange(0, WIDTH // BLOCK)
    tl.store(scales + row * tl.cdiv(columns, BLOCK) + which, kept, mask=which < tl.cdiv(columns, BLOCK))


@triton.jit
def _quantise(x, values, scales, columns, parts, MX: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """`parts` programs a row, by turns: reads bf16, writes e4m3 and a scale for each BLOCK columns (ue8m0, or f32)."""
    row = tl.program_id(0).to(tl.int64)
    for start in range(tl.program_id(1) * WIDTH, columns, parts * WIDTH):
        at = start + tl.arange(0, WIDTH)
        inside = at < columns
        v = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
        blocks = tl.reshape(v, (WIDTH // BLOCK, BLOCK))
        _store_blocks(blocks, at, inside, start, row, values, scales, columns, MX, BLOCK, WIDTH)


def quantise(
    x: torch.Tensor, values: torch.Tensor, scales: torch.Tensor, block: int, whole: torch.Tensor | None = None
) -> None:
    """`x`, bf16 [m, n], in blocks of `block` columns, into `values` and `scales`, [m, ceil(n/block)].

    values: e4m3 [m, n], with scales of u8 (ue8m0) or f32; or u8 [m, n/2], two e2m1 a byte, with scales of u8: ue8m0,
    or e4m3 where `whole`, the scale of the whole tensor (one f32), is given.
    """
    rows, columns = x.shape
    bits = 4 if values.dtype == torch.uint8 else 8
    width = WIDTH[bits]
    parts = max(1, min(-(-columns // width), ENOUGH[bits] // rows))
    if bits == 4:
        arguments = (x.view(torch.int32), values, scales, whole, columns // 2, parts)
        # 32 registers, so that an SM has as many threads as it can
        _quantise4[(rows, parts)](*arguments, MX=whole is None, BLOCK=block, WIDTH=width, num_warps=8, maxnreg=32)
        return
    mx = scales.dtype == torch.uint8
    _quantise[(rows, parts)](x, values, scales, columns, parts, MX=mx, BLOCK=block, WIDTH=width, num_warps=8)


@triton.jit
def _gate_quantise(x, values, scales, columns, parts, MX: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """As `_quantise`, of silu(gate) * up: `x` has `columns` of the one in a row and then as many of the other."""
    row = tl.program_id(0).to(tl.int64)
    for start in range(tl.program_id(1) * WIDTH, columns, parts * WIDTH):
        at = start + tl.arange(0, WIDTH)
        inside = at < columns
        gate = tl.load(x + 2 * row * columns + at, mask=inside, other=0.0).to(tl.float32)
        up = tl.load(x + (2 * row + 1) * columns + at, mask=inside, other=0.0).to(tl.float32)
        blocks = tl.reshape(gate * tl.sigmoid(gate) * up, (WIDTH // BLOCK, BLOCK))
        _store_blocks(blocks, at, inside, start, row, values, scales, columns, MX, BLOCK, WIDTH)


def gate_quantise(x: torch.Tensor, values: torch.Tensor, scales: torch.Tensor, block: int) -> None:
    """silu(g) * u of `x`, bf16 [m, 2n] with g before u, in blocks of `block` columns, into `values`, e4m3 [m, n], and
    `scales`, [m, ceil(n/block)], u8 (ue8m0) or f32."""
    rows, columns = values.shape
    width = WIDTH[8] // 2
    parts = max(1, min(-(-columns // width), ENOUGH[8] // rows))
    mx = scales.dtype == torch.uint8
    _gate_quantise[(rows, parts)](x, values, scales, columns, parts, MX=mx, BLOCK=block, WIDTH=width, num_warps=8)
