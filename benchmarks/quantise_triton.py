"""A quantising kernel in Triton: what follows a GEMM whose result is bf16."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

WIDTH = 2048
"""Columns of a step."""
ENOUGH = 1024
"""Programs with which all SMs have several."""


@triton.jit
def _quantise(x, values, scales, columns, parts, MX: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """`parts` programs a row, by turns: reads bf16, writes e4m3 and a scale for each BLOCK columns (ue8m0, or f32)."""
    row = tl.program_id(0).to(tl.int64)
    for start in range(tl.program_id(1) * WIDTH, columns, parts * WIDTH):
        at = start + tl.arange(0, WIDTH)
        inside = at < columns
        v = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
        blocks = tl.reshape(v, (WIDTH // BLOCK, BLOCK))
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


def quantise(x: torch.Tensor, values: torch.Tensor, scales: torch.Tensor, block: int) -> None:
    """`x`, bf16 [m, n], in blocks of `block` columns: e4m3 `values` [m, n], `scales` [m, ceil(n/block)]."""
    rows, columns = x.shape
    mx = scales.dtype == torch.uint8
    parts = max(1, min(-(-columns // WIDTH), ENOUGH // rows))
    _quantise[(rows, parts)](x, values, scales, columns, parts, MX=mx, BLOCK=block, WIDTH=WIDTH, num_warps=8)
