"""The targets: one row of facts each. Passes know a target only through its row."""

from __future__ import annotations

from dataclasses import dataclass, field

from scalec.errors import UnsupportedError

WARPGROUP = 128
"""Threads of a warpgroup (PTX ISA 9.7.15: four contiguous warps)."""

WAVE = 64
"""Rows that a warpgroup multiplies at once (PTX ISA 9.7.15: wgmma is m64nNkK)."""

MAX_BOX = 256
"""Elements of a bulk copy's box along one dimension (CUDA driver API, cuTensorMapEncodeTiled: boxDim)."""


@dataclass(frozen=True)
class MmaShape:
    """One family of tensor-core instructions.

    Attributes:
        m: rows of one instruction.
        n: the column counts it may have (range step and limits are facts of the ISA).
        k: K extent of one instruction, in elements.
        operands: the element types that A and B may have, freely mixed within the family.
        reads_mn_major: whether A and B may be stored with M or N contiguous in shared memory; K must be where not.
    """

    m: int
    n: range
    k: int
    operands: frozenset[str]
    reads_mn_major: bool


@dataclass(frozen=True)
class Target:
    """What passes may know of a GPU.

    Attributes:
        name: the ptxas architecture, also how users name it.
        capability: (major, minor) compute capability.
        ptx_version: the PTX ISA version emitted, e.g. 87 for 8.7.
        shared_bytes: dynamic shared memory one CTA may have (CUDA guide, compute-capability table).
        registers: 32-bit registers of one SM.
        max_registers: registers one thread may have.
        mma: the tensor-core families that there are kernels for.
        no_kernel: element types that the tensor core multiplies, each with itself, and that have no kernel yet.
        sms: SMs of the part the schedules are tuned for (the launch reads the real count).
        max_cluster: CTAs of one portable cluster.
        swizzles: byte widths of shared-memory swizzle that copies and MMA agree on, widest first.
        tma_align: bytes that a tensor's base address and outer strides must be multiples of.
        setmaxnreg: register counts that a warpgroup may give its threads (PTX ISA 9.7.20, setmaxnreg).
    """

    name: str
    capability: tuple[int, int]
    ptx_version: int
    shared_bytes: int
    registers: int
    max_registers: int
    mma: tuple[MmaShape, ...]
    sms: int
    max_cluster: int
    swizzles: tuple[int, ...] = (128, 64, 32, 0)
    tma_align: int = 16
    devices: tuple[str, ...] = field(default=())
    setmaxnreg: range = range(24, 257, 8)
    no_kernel: frozenset[str] = frozenset()

    def entry_registers(self, threads: int) -> int:
        """Registers of a thread at entry, before setmaxnreg: the register file shared out, in steps of 8."""
        return min(self.registers // threads, self.max_registers) // 8 * 8

    def mma_for(self, a: str, b: str) -> MmaShape | None:
        """The tensor-core family that multiplies element types `a` and `b`, or None."""
        return next((f for f in self.mma if a in f.operands and b in f.operands), None)


# wgmma: PTX ISA 9.7.15 "Asynchronous warpgroup level matrix instructions": m64nNkK, N in 8..256 by 8; K is 32 bytes.
# Transposed operands (imm-trans-a, imm-trans-b) are for .f16 and .bf16 alone (ibid., wgmma.mma_async).
# Shared memory 227 KB and 64 K registers: CUDA programming guide, "Technical Specifications per Compute Capability".
_SM90_MMA = (
    MmaShape(WAVE, range(8, 257, 8), 32, frozenset({"e4m3", "e5m2"}), reads_mn_major=False),
    MmaShape(WAVE, range(8, 257, 8), 16, frozenset({"bf16"}), reads_mn_major=True),
    MmaShape(WAVE, range(8, 257, 8), 16, frozenset({"f16"}), reads_mn_major=True),
)

TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target(
            "sm_90a",
            (9, 0),
            87,
            232448,
            65536,
            255,
            _SM90_MMA,
            sms=132,
            max_cluster=8,
            devices=("H100", "H200", "GH200"),
            no_kernel=frozenset({"tf32", "i8"}),  # wgmma .tf32 and .s8 (PTX ISA 9.7.15.5.2)
        ),
    )
}

DEFAULT_TARGET = "sm_90a"


def get_target(name: str) -> Target:
    """The row of `name`.

    Raises:
        UnsupportedError: no such row.
    """
    try:
        return TARGETS[name]
    except KeyError:
        raise UnsupportedError(
            f"unknown target {name!r}", expected=", ".join(TARGETS), fix="see `scalec targets`"
        ) from None
