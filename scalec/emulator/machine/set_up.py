"""What warps set up for others of the cluster: the address that tcgen05.alloc writes, mbarriers.

These writes have places of their own in the order, one for each warp, as production kernels publish them in ways that
publish nothing else: by relaxed arrivals at the barrier of the cluster ("relaxed-barrier" of findings.SILENT).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalec.emulator.machine.cta import Phase
    from scalec.emulator.machine.warp import Warp


def epoch(warp: Warp) -> int:
    """The epoch of such a write of a warp, made now."""
    order = warp.cta.cluster.order
    place = warp.units.get("set up")
    if place is None:
        place = warp.units["set up"] = order.add(warp.name)
    warp.agent.seen[place] += 1
    return order.epoch(place, int(warp.agent.seen[place]))


def arrived(warp: Warp, phase: Phase) -> None:
    """A warp arrives, relaxed, at the barrier of its cluster."""
    place = warp.units.get("set up")
    if place is not None:
        phase.set_up[place] = int(warp.agent.seen[place])


def waited(warp: Warp, phase: Phase) -> None:
    """A warp has waited for a phase of the barrier of its cluster."""
    order, seen = warp.cta.cluster.order, warp.agent.seen
    for place, clock in phase.set_up.items():
        if warp.machine.ignores("relaxed-barrier"):
            seen[place] = max(seen[place], clock)
        else:
            order.relaxed[place] = clock
