"""Release and acquire through memory (PTX ISA 8.8 "Release and Acquire Patterns", 8.9.4 "Memory synchronization").

For every place that a strong operation with release semantics wrote, what its warp had observed by then. A strong read
that meets it there joins that view at once (.acquire) or at the next fence. Between CTAs of one cluster the views are
vectors; between clusters it is noted from which clusters something was acquired (machine/order.py).

What is published at a place stays there through atomic operations of others, as observation order does (8.9.2), and
through later strong writes of the same warp; a plain strong write of another warp takes its place. Scopes are judged:
both sides must include each other (8.7 "Morally strong operations"). Not modelled: that two fence.sc synchronise by
their mere order at run time, on which a program without a race does not depend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator.machine import access
from scalec.emulator.machine.order import View

if TYPE_CHECKING:
    from scalec.emulator.machine.machine import Machine
    from scalec.emulator.machine.memory import Segment
    from scalec.emulator.machine.warp import Warp

SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "gl": 2, "sys": 3}  # 8.5
Place = tuple["Segment", int]  # a segment and an offset in it


@dataclass
class Published:
    """What a warp published at a place: its view, and the clusters whose writes it stands for."""

    warp: Warp
    scope: int  # number of SCOPES, the narrower of the write's and its fence's
    view: View
    serials: frozenset[int]

    def reaches(self, warp: Warp, scope: int) -> bool:
        """Whether the scopes of this write and of a read include the other thread."""
        here, there = self.warp.cta, warp.cta
        needed = 0 if here is there else 1 if here.cluster is there.cluster else 2
        return min(self.scope, scope) >= needed

    def acquire(self, warp: Warp) -> None:
        if self.warp.cta.cluster is warp.cta.cluster:
            warp.agent.join(self.view)
        order = warp.cta.cluster.order
        order.acquired |= self.serials - {order.serial}


def _places(warp: Warp, space: str, addresses: np.ndarray, size: int) -> list[Place]:
    """Where the active lanes access memory that is not their own, each place once."""
    local = access.local_lanes(space, addresses, warp.mask)
    shared = warp.mask if local is None else warp.mask & ~local
    if not shared.any():
        return []
    with access.only(warp, shared):
        found = access.split(warp, space, addresses, size)
    return [(segment, offset) for segment, _, offsets in found for offset in np.unique(offsets).tolist()]


def wrote(warp: Warp, space: str, addresses: np.ndarray, size: int, scope: int, *, release: bool, atomic: bool) -> None:
    """A strong write by the active lanes: publishes what its semantics, or a fence before it, say.

    Args:
        size: bytes a lane.
        scope: number of SCOPES.
        atomic: it was a read and a write in one.
    """
    published = _publications(warp, scope, release)
    table: dict[Place, list[Published]] = warp.machine.units.setdefault("released", {})
    if not table and not published:
        return
    for place in _places(warp, space, addresses, size):
        before = table.get(place)
        if before is None and not published:
            continue
        kept = [p for p in before or () if atomic or p.warp is warp]
        new = {(id(p.warp), p.scope) for p in published}
        table[place] = [p for p in kept if (id(p.warp), p.scope) not in new] + published


def _publications(warp: Warp, scope: int, release: bool) -> list[Published]:
    order = warp.cta.cluster.order
    serials = frozenset(order.acquired | {order.serial})
    if release:
        view = View(order.capacity)
        warp.agent.release(view)
        return [Published(warp, scope, view, serials)]
    fences: dict[int, tuple[View, frozenset[int]]] = warp.units.get("fences", {})
    return [Published(warp, min(scope, wide), *entry) for wide, entry in fences.items()]


def read(warp: Warp, space: str, addresses: np.ndarray, size: int, scope: int, *, acquire: bool) -> None:
    """A strong read by the active lanes: observes what was published there, now (.acquire) or at the next fence."""
    table: dict[Place, list[Published]] = warp.machine.units.get("released", {})
    if not table:
        return
    for place in _places(warp, space, addresses, size):
        for published in table.get(place, ()):
            if published.warp is warp:
                continue
            if not acquire:
                warp.units.setdefault("observed", {})[id(published), scope] = published
            elif published.reaches(warp, scope):
                published.acquire(warp)


def published(machine: Machine, space: str) -> bool:
    """Whether a strong read of a state space might observe something of another warp's."""
    return any(segment.space == space for segment, _ in machine.units.get("released", ()))


def fence(warp: Warp, scope: int, *, acquire: bool = True, release: bool = True) -> None:
    """fence.acq_rel and its kin: strong reads before it acquire, strong writes after it release (9.7.13.4)."""
    if acquire:
        for (_, read_scope), published in warp.units.pop("observed", {}).items():
            if published.reaches(warp, min(scope, read_scope)):
                published.acquire(warp)
    if release:
        order = warp.cta.cluster.order
        view = View(order.capacity)
        warp.agent.release(view)
        fences = warp.units.setdefault("fences", {})
        for narrower in [s for s in fences if s <= scope]:
            del fences[narrower]
        fences[scope] = (view, frozenset(order.acquired | {order.serial}))
