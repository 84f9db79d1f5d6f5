"""What parts can do at the most, each figure with its source: what predictions (scalec/tuning) are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Rates:
    """Documented peak rates of a part."""

    part: str
    sms: int
    source: str  # the documents
    clock: float  # boost clock in Hz
    memory: float  # bytes a second of device memory
    memory_kind: str  # what that is, e.g. "HBM"
    l2: float  # bytes a second from L2 to the SMs
    # FLOP of one SM's tensor cores in a clock, dense, FP32 sums, by the operands' element types.
    tensor: tuple[tuple[frozenset[str], int], ...]
    fp32: int  # FP32 instructions' lanes of one SM in a clock
    shared: int  # bytes of one SM's shared memory in a clock
    launch: float  # seconds that a launch in a graph adds to a kernel
    issue_cycles: int = 0  # cycles between two tensor instructions of one warp; 0 where a warp does not wait for them
    # bytes of operands that stay in L2 while tiles pass; infinite where nothing is known of it.
    l2_kept: float = math.inf
    # clock in Hz that power leaves in large products, by the operands' element types: what the fastest kernel seen
    # needs, so it may be higher. No document states it.
    sustained: tuple[tuple[frozenset[str], float], ...] = ()

    def flop_per_clock(self, a: str, b: str) -> int:
        """FLOP of one SM in a clock for operands of element types `a` and `b`: the rate of the slower type."""
        return min(rate for types, rate in self.tensor if a in types or b in types)

    def sustained_clock(self, a: str, b: str) -> float | None:
        """Hz that power leaves in large products of operands of these types, None where nothing is known."""
        return next((clock for types, clock in self.sustained if a in types and b in types), None)


_LAUNCH = 0.5e-6
"""A kernel of 2.9 us takes 3.4 us in a graph of a V100 (NVIDIA's blog, "Getting Started with CUDA Graphs",
developer.nvidia.com/blog/cuda-graphs)."""

_LANES, _BANKS = 128, 32 * 4
"""FP32 lanes, and bytes of 32 banks of 32 bits: both of an SM in a clock (CUDA guide, "Arithmetic Instructions" and
"Shared Memory")."""

_FROM_L2 = 64
"""Bytes that an SM is taken to get from L2 in a clock where NVIDIA states nothing of L2. Public kernels of 16 bits at
1610 to 1772 TFLOP/s on a B200 (`sustained`) need 62 or more (9150 of all 148 SMs); an H200's get some 50
(docs/notes/sm_90a.md)."""

H200 = Rates(
    # H200 datasheet, SXM: 3958, 1979 and 989 TFLOP/s of 8-, 16- and 32-bit operands with sparsity, half of it dense;
    # 4.8 TB/s. H100 whitepaper, table of clocks: 1830 MHz for tensor work. 132 SMs * 8192 * 1.83 GHz = 1979 TFLOP/s.
    # L2: 5120 bytes a clock, the last that NVIDIA states (A100 whitepaper).
    "H200",
    132,
    source="H200 SXM: H200 datasheet, H100 and A100 whitepapers",
    clock=1.83e9,
    memory=4.8e12,
    memory_kind="HBM",
    l2=5120 * 1.83e9,
    tensor=((frozenset({"e4m3", "e5m2", "i8"}), 8192), (frozenset({"bf16", "f16"}), 4096), (frozenset({"tf32"}), 2048)),
    fp32=_LANES,
    shared=_BANKS,
    launch=_LAUNCH,
    # half of 50 MB (H100 whitepaper), as if each half of L2 kept what its SMs read; the orders of tiles chosen by it
    # were timed (docs/notes/tuning.md), the bytes themselves were not
    l2_kept=25e6,
    # 8192x8192x8192, 2026-11-21: cuBLASLt's FP8 with a scale for each tensor 1543 TFLOP/s, DeepGEMM's BF16 804
    sustained=(
        (frozenset({"e4m3", "e5m2"}), 1543e12 / (132 * 8192)),
        (frozenset({"bf16", "f16"}), 804e12 / (132 * 4096)),
    ),
)

B200 = Rates(
    # NVIDIA Blackwell datasheet, "Individual Blackwell GPU Specifications", HGX B200: 9, 4.5 and 2.2 PFLOP/s of 8-, 16-
    # and 32-bit operands and 18 of 4-bit ones with sparsity, half of it dense; 7.7 TB/s (GB200: 8); the table is at
    # zdszero.github.io/Computer/Artificial_Intelligence/Hardware.html (2026-11-26). 148 SMs * 16384 *
    # 1.85 GHz = 4.49 PFLOP/s.
    "B200",
    148,
    source="HGX B200: NVIDIA Blackwell datasheet; L2 by what public kernels need",
    clock=1.85e9,
    memory=7.7e12,
    memory_kind="HBM",
    l2=148 * _FROM_L2 * 1.85e9,
    tensor=(
        (frozenset({"e2m1"}), 32768),
        (frozenset({"e4m3", "e5m2", "e3m2", "e2m3", "i8"}), 16384),
        (frozenset({"bf16", "f16"}), 8192),
        (frozenset({"tf32"}), 4096),
    ),
    fp32=_LANES,
    shared=_BANKS,
    launch=_LAUNCH,
    # published kernels: FP8 with scales of blocks 2895 TFLOP/s, NVFP4 5930 (Apache TVM, "TIRx", 2026-06-22:
    # tvm.apache.org/2026/06/22/tirx); BF16 1772 at 4096x4096x4096 (Modular, "Matrix Multiplication on Blackwell: Part
    # 4"), and FP16 1610 at 8192x8192x8192 (NVIDIA, nvidia.github.io/tilus, tutorial matmul-blackwell)
    sustained=(
        (frozenset({"e2m1"}), 5930e12 / (148 * 32768)),
        (frozenset({"e4m3", "e5m2"}), 2895e12 / (148 * 16384)),
        (frozenset({"bf16", "f16"}), 1772e12 / (148 * 8192)),
    ),
)

B300 = replace(
    # NVIDIA Blackwell Ultra datasheet, HGX B300: B200's figures for 8- to 32-bit operands, and 14 PFLOP/s of 4-bit
    # ones, dense: 49152 FLOP of an SM in a clock, by instructions of K = 96 (PTX ISA 9.7.16.2), for which there are no
    # kernels. Those of K = 64 are taken to have B200's rate, as no document tells. 8 TB/s: DGX B300 datasheet, 64 TB/s
    # of eight.
    B200,
    part="B300",
    source="HGX B300: NVIDIA Blackwell Ultra datasheet; the rest as B200",
    memory=8e12,
    sustained=(),
)

RTX_PRO_6000 = Rates(
    # RTX PRO 6000 Blackwell Workstation Edition datasheet: 125 TFLOP/s of FP32 on 24064 cores, which is a clock of
    # 2.6 GHz (2617 MHz in NVIDIA's RTX Blackwell PRO whitepaper); 4000 TOPS of FP4 with sparsity, half of it dense:
    # 188 SMs * 4096 * 2.617 GHz = 2015 TFLOP/s; 1792 GB/s. 8- and 6-bit operands have half of that, 16-bit ones a
    # quarter. L2: 8.7 TB/s, measured by Chips and Cheese ("Blackwell: Nvidia's Massive GPU", 2025-06-28); NVIDIA states
    # none.
    # tf32: half of 16 bits in NVIDIA's whitepapers (RTX 5090: 104.8 of 209.5 TFLOP/s), a quarter as measured there
    # (mmapeak: 92.8 of 370.6; main-horse.github.io/posts/5090-mm-perf).
    # A warp's tensor instruction (m16n8 and 32 bytes of K) takes the tensor core of its scheduler for 16 cycles:
    # 16*8*32*2 FLOP * 4 / 2048, and what ptxas 13.0 keeps them apart by.
    "RTX PRO 6000",
    188,
    source="RTX PRO 6000 Blackwell Workstation Edition: datasheet and whitepaper; L2 as Chips and Cheese measured it",
    clock=2.617e9,
    memory=1.792e12,
    memory_kind="GDDR7",
    l2=8.7e12,
    tensor=(
        (frozenset({"e2m1"}), 4096),
        (frozenset({"e4m3", "e5m2", "e3m2", "e2m3", "i8"}), 2048),
        (frozenset({"bf16", "f16"}), 1024),
        (frozenset({"tf32"}), 512),
    ),
    fp32=_LANES,
    shared=_BANKS,
    launch=_LAUNCH,
    issue_cycles=16,
)
