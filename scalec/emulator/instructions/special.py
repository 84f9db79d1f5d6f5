"""Predefined registers (PTX ISA 10)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator.instructions.table import SPECIALS
from scalec.emulator.machine.memory import SHARED_RESERVED
from scalec.emulator.machine.warp import LANES, Warp

_BIT = np.uint64(1) << LANES.astype(np.uint64)
_BELOW, _UP_TO = _BIT - np.uint64(1), (_BIT << np.uint64(1)) - np.uint64(1)
_ALL = np.uint64(0xFFFFFFFF)


def _thread(warp: Warp) -> tuple[np.ndarray, ...]:
    x, y, _ = warp.kernel.block
    return warp.thread % x, warp.thread // x % y, warp.thread // (x * y)


def _in_cluster(warp: Warp) -> tuple[int, ...]:
    x, y, _ = warp.machine.cluster_shape
    return warp.cta.rank % x, warp.cta.rank // x % y, warp.cta.rank // (x * y)


def _explicit_cluster(warp: Warp) -> np.ndarray:
    return np.full(32, len(warp.cta.cluster.ctas) > 1 or "explicitcluster" in warp.kernel.function.directives)


def _clock(warp: Warp) -> int:
    return warp.machine.clock + warp.executed


def _clock_high(warp: Warp) -> int:
    return _clock(warp) >> 32


_OF_AXIS: dict[str, Callable[[Warp, int], np.ndarray | int]] = {
    "tid": lambda warp, axis: _thread(warp)[axis],
    "ntid": lambda warp, axis: warp.kernel.block[axis],
    "ctaid": lambda warp, axis: warp.cta.id[axis],
    "nctaid": lambda warp, axis: warp.machine.grid[axis],
    "cluster_ctaid": lambda warp, axis: _in_cluster(warp)[axis],
    "cluster_nctaid": lambda warp, axis: warp.machine.cluster_shape[axis],
    "clusterid": lambda warp, axis: warp.cta.id[axis] // warp.machine.cluster_shape[axis],
    "nclusterid": lambda warp, axis: warp.machine.grid[axis] // warp.machine.cluster_shape[axis],
}

SPECIALS |= {
    f"%{name}.{letter}": lambda warp, of=of, axis=axis: of(warp, axis)
    for name, of in _OF_AXIS.items()
    for axis, letter in enumerate("xyz")
} | {
    "%laneid": lambda warp: LANES,
    "%warpid": lambda warp: warp.index,
    "%nwarpid": lambda warp: 64,
    "%cluster_ctarank": lambda warp: warp.cta.rank,
    "%cluster_nctarank": lambda warp: len(warp.cta.cluster.ctas),
    "%is_explicit_cluster": _explicit_cluster,
    "%smid": lambda warp: warp.cta.number % warp.machine.options.sms,
    "%nsmid": lambda warp: warp.machine.options.sms,
    "%gridid": lambda warp: 1,
    "%lanemask_eq": lambda warp: _BIT,
    "%lanemask_lt": lambda warp: _BELOW,
    "%lanemask_le": lambda warp: _UP_TO,
    "%lanemask_gt": lambda warp: ~_UP_TO & _ALL,
    "%lanemask_ge": lambda warp: ~_BELOW & _ALL,
    **dict.fromkeys(("%clock", "%clock64", "%globaltimer", "%globaltimer_lo"), _clock),
    **dict.fromkeys(("%clock_hi", "%globaltimer_hi"), _clock_high),
    "%dynamic_smem_size": lambda warp: warp.kernel.dynamic_bytes,
    "%total_smem_size": lambda warp: warp.kernel.shared_bytes,
    "%aggr_smem_size": lambda warp: warp.kernel.shared_bytes + SHARED_RESERVED,
    # 10.37 and 10.46: what the driver hands a kernel: a launch here is no cooperative one, and of no graph
    **dict.fromkeys([*(f"%envreg{number}" for number in range(32)), "%current_graph_exec"], lambda warp: 0),
}
