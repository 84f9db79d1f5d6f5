"""Predefined registers (PTX ISA 10)."""

from __future__ import annotations

import numpy as np

from scalec.emulator.instructions.table import special
from scalec.emulator.machine.memory import SHARED_RESERVED
from scalec.emulator.machine.warp import LANES, Warp

_BITS = np.uint64(1) << LANES.astype(np.uint64)


def _make(axis: int) -> None:
    letter = "xyz"[axis]

    @special(f"%tid.{letter}")
    def tid(warp: Warp) -> np.ndarray:
        x, y, _ = warp.kernel.block
        thread = warp.thread
        return (thread % x, thread // x % y, thread // (x * y))[axis]

    @special(f"%ntid.{letter}")
    def ntid(warp: Warp) -> int:
        return warp.kernel.block[axis]

    @special(f"%ctaid.{letter}")
    def ctaid(warp: Warp) -> int:
        return warp.cta.id[axis]

    @special(f"%nctaid.{letter}")
    def nctaid(warp: Warp) -> int:
        return warp.machine.grid[axis]

    @special(f"%cluster_ctaid.{letter}")
    def cluster_ctaid(warp: Warp) -> int:
        x, y, _ = warp.machine.cluster_shape
        rank = warp.cta.rank
        return (rank % x, rank // x % y, rank // (x * y))[axis]

    @special(f"%cluster_nctaid.{letter}")
    def cluster_nctaid(warp: Warp) -> int:
        return warp.machine.cluster_shape[axis]

    @special(f"%clusterid.{letter}")
    def clusterid(warp: Warp) -> int:
        return warp.cta.id[axis] // warp.machine.cluster_shape[axis]

    @special(f"%nclusterid.{letter}")
    def nclusterid(warp: Warp) -> int:
        return warp.machine.grid[axis] // warp.machine.cluster_shape[axis]


for _index in range(3):
    _make(_index)


@special("%laneid")
def laneid(warp: Warp) -> np.ndarray:
    return LANES


@special("%warpid")
def warpid(warp: Warp) -> int:
    return warp.index


@special("%nwarpid")
def nwarpid(warp: Warp) -> int:
    return 64


@special("%cluster_ctarank")
def cluster_ctarank(warp: Warp) -> int:
    return warp.cta.rank


@special("%cluster_nctarank")
def cluster_nctarank(warp: Warp) -> int:
    return len(warp.cta.cluster.ctas)


@special("%is_explicit_cluster")
def is_explicit_cluster(warp: Warp) -> np.ndarray:
    return np.full(32, len(warp.cta.cluster.ctas) > 1 or "explicitcluster" in warp.kernel.function.directives)


@special("%smid")
def smid(warp: Warp) -> int:
    return warp.cta.number % warp.machine.options.sms


@special("%nsmid")
def nsmid(warp: Warp) -> int:
    return warp.machine.options.sms


@special("%gridid")
def gridid(warp: Warp) -> int:
    return 1


@special("%lanemask_eq")
def lanemask_eq(warp: Warp) -> np.ndarray:
    return _BITS


@special("%lanemask_lt")
def lanemask_lt(warp: Warp) -> np.ndarray:
    return _BITS - np.uint64(1)


@special("%lanemask_le")
def lanemask_le(warp: Warp) -> np.ndarray:
    return (_BITS << np.uint64(1)) - np.uint64(1)


@special("%lanemask_gt")
def lanemask_gt(warp: Warp) -> np.ndarray:
    return ~lanemask_le(warp) & np.uint64(0xFFFFFFFF)


@special("%lanemask_ge")
def lanemask_ge(warp: Warp) -> np.ndarray:
    return ~lanemask_lt(warp) & np.uint64(0xFFFFFFFF)


@special("%clock", "%clock64", "%globaltimer", "%globaltimer_lo")
def clock(warp: Warp) -> int:
    return warp.machine.clock + warp.executed


@special("%clock_hi", "%globaltimer_hi")
def clock_hi(warp: Warp) -> int:
    return (warp.machine.clock + warp.executed) >> 32


@special("%dynamic_smem_size")
def dynamic_smem_size(warp: Warp) -> int:
    kernel = warp.kernel
    return kernel.dynamic_bytes


@special("%total_smem_size")
def total_smem_size(warp: Warp) -> int:
    return warp.kernel.shared_bytes


@special("%aggr_smem_size")
def aggr_smem_size(warp: Warp) -> int:
    return warp.kernel.shared_bytes + SHARED_RESERVED


@special(*(f"%envreg{number}" for number in range(32)), "%current_graph_exec")
def of_the_driver(warp: Warp) -> int:
    """10.37 and 10.46: what the driver hands a kernel: a launch here is no cooperative one, and of no graph."""
    return 0
