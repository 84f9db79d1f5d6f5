"""A block-scaled FP8 GEMM in Triton: what a good kernel in that language gives on Hopper. A contender for the bench.

    scalec bench --contenders benchmarks/block_fp8_triton.py

C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128), bf16 from e4m3 with f32 scales: bulk tensor copies (descriptors made on the
host), wgmma, K blocks of 128 promoted into float32 sums, tiles in groups of rows. Up to 64 rows the weights may go on
wgmma's M side (`swap`), whose extent is 64 at least. K is not split. CONFIGS has what is tried at a size of M: the
bench times each and keeps the fastest, shape by shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from scalec.abi import KernelSpec
from scalec.bench.contenders import Contender
from scalec.bench.contraction import Contraction, contraction
from scalec.bench.inputs import Inputs

NAME = "Triton"
K_BLOCK = 128  # columns of A and B that share a scale


@triton.jit(do_not_specialize=["M", "a_scale_k", "b_scale_n"])  # one compilation for all shapes
def block_fp8(
    a, b, c, a_scale, b_scale, M, N, K, a_scale_m, a_scale_k, b_scale_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr, SWAP: tl.constexpr,
):  # fmt: skip
    """One program a tile of C.

    `a`, `b`, `c` are descriptors with blocks of [BLOCK_M, 128], [BLOCK_N, 128] and [BLOCK_M, BLOCK_N]; the scales are
    f32, `a_scale` [M, K/128] with these strides, `b_scale` [N/128, K/128] with contiguous rows; BLOCK_N divides 128.
    """
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    tile = tl.program_id(0)
    group = tile // (GROUP_M * columns)
    height = min(rows - group * GROUP_M, GROUP_M)
    m = (group * GROUP_M + tile % (GROUP_M * columns) % height) * BLOCK_M
    n = (tile % (GROUP_M * columns)) // height * BLOCK_N
    row = m + tl.arange(0, BLOCK_M)
    scales_a = a_scale + row * a_scale_m
    scales_b = b_scale + n // 128 * b_scale_n
    total = tl.zeros((BLOCK_N, BLOCK_M) if SWAP else (BLOCK_M, BLOCK_N), tl.float32)
    for k in range(tl.cdiv(K, 128)):
        x = a.load([m, k * 128])
        y = b.load([n, k * 128])
        scale = tl.load(scales_a + k * a_scale_k, mask=row < M, other=0.0) * tl.load(scales_b + k)
        if SWAP:
            total += tl.dot(y, x.T) * scale[None, :]
        else:
            total += tl.dot(x, y.T) * scale[:, None]
    if SWAP:
        total = total.T
    c.store([m, n], total.to(tl.bfloat16))


@dataclass(frozen=True)
class Config:
    """A choice of the kernel's parameters: tile, stages of the pipeline, warps, and which operand is wgmma's M side."""

    m: int
    n: int
    stages: int
    warps: int
    swap: bool = False

    def __str__(self) -> str:
        return f"{self.m}x{self.n}, {self.stages} stages, {self.warps} warps{', swapped' if self.swap else ''}"


CONFIGS: tuple[tuple[int, tuple[Config, ...]], ...] = (
    (16, (
        Config(16, 64, 8, 4, swap=True),
        Config(16, 128, 6, 4, swap=True),
        Config(16, 128, 6, 8, swap=True),
        Config(16, 32, 8, 4),
        Config(16, 64, 6, 4),
        Config(16, 128, 5, 4),
    )),
    (32, (
        Config(32, 64, 6, 4, swap=True),
        Config(32, 128, 5, 4, swap=True),
        Config(32, 128, 5, 8, swap=True),
        Config(32, 32, 8, 4),
        Config(32, 64, 6, 4),
    )),
    (64, (
        Config(64, 64, 6, 4, swap=True),
        Config(64, 128, 5, 8, swap=True),
        Config(64, 32, 8, 4),
        Config(64, 64, 6, 4),
        Config(64, 128, 5, 4),
    )),
    (256, (
        Config(64, 64, 6, 4),
        Config(64, 128, 3, 4),
        Config(64, 128, 4, 4),
        Config(128, 64, 4, 4),
        Config(128, 128, 3, 8),
        Config(128, 128, 5, 8),
    )),
    (1 << 31, (
        Config(64, 128, 3, 4),
        Config(64, 128, 4, 4),
        Config(128, 64, 3, 4),
        Config(128, 64, 4, 4),
        Config(128, 128, 3, 8),
        Config(128, 128, 4, 8),
    )),
)  # fmt: skip
"""Up to so many rows: the configurations to try. None spills a register (Triton 3.6, ptxas 12.8); 128x128 does so with
4 warps and 256x128 with 8 or 16."""


def configs(m: int) -> tuple[Config, ...]:
    """The configurations to try at `m` rows."""
    return next(found for most, found in CONFIGS if m <= most)


def contenders(spec: KernelSpec, dims: dict[str, int]) -> Mapping[str, Contender]:
    """The kernel as a contender, where the program is the contraction that it computes, into bf16."""
    what = contraction(spec, dims)
    if what is None or not what.dense or what.accumulates or spec.results[0].dtype != "bf16":
        return {}
    if what.blocks != ((1, 128), (128, 128)):
        return {}
    m, k = what.shapes[0]
    if k % 16 or what.shapes[1][0] % 8:  # what the strides of a descriptor are multiples of: 16 bytes
        return {}
    return {NAME: Contender({str(c): _bind(what, c) for c in configs(m)})}


def _bind(what: Contraction, config: Config) -> Callable[[Inputs], Callable[[], torch.Tensor]]:
    return lambda inputs: launch(
        inputs.values[what.a],
        inputs.values[what.b],
        inputs.values[f"{what.a}_scale"],
        inputs.values[f"{what.b}_scale"],
        torch.empty_like(next(iter(inputs.outputs.values()))),
        config,
    )


def launch(
    a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor, out: torch.Tensor, config: Config
) -> Callable[[], torch.Tensor]:
    """A launch of the kernel; A's scales are made M-contiguous, as cuBLASLt gets them."""
    (m, k), n = a.shape, b.shape[0]
    columns = torch.empty(sa.t().shape, dtype=sa.dtype, device=sa.device)  # contiguous() leaves a single row as it is
    sa, sb = columns.copy_(sa.t()).t(), sb.contiguous()
    blocks = ((a, [config.m, K_BLOCK]), (b, [config.n, K_BLOCK]), (out, [config.m, config.n]))
    x, y, z = (TensorDescriptor(t, list(t.shape), list(t.stride()), block) for t, block in blocks)
    grid = (triton.cdiv(m, config.m) * triton.cdiv(n, config.n),)

    def run() -> torch.Tensor:
        block_fp8[grid](
            x, y, z, sa, sb, m, n, k, sa.stride(0), sa.stride(1), sb.stride(0),
            BLOCK_M=config.m, BLOCK_N=config.n, GROUP_M=8, SWAP=config.swap,
            num_warps=config.warps, num_stages=config.stages,
        )  # fmt: skip
        return out

    return run
