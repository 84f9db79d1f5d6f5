"""What a run of code stores, at once when the run is over: nothing in it reads that (machine/crew.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scalec.emulator.findings import Apart, Finding
from scalec.emulator.machine import access, banks
from scalec.emulator.machine.memory import RANK_SHIFT, WINDOWS
from scalec.emulator.machine.pieces import fill

if TYPE_CHECKING:
    from scalec.emulator.machine.crew import Crew

_WINDOW_OF = {base >> 32: name for name, base in WINDOWS.items()}


class Stored(NamedTuple):
    """Weak stores of a crew: of several instructions that do the same, of all its warps."""

    pc: int  # behind the first of the instructions
    space: str  # as of access.store
    own: bool  # whether it must be the CTA's own shared memory
    addresses: np.ndarray  # int64 (instructions, warps, lanes)
    values: np.ndarray  # uint8 (instructions, warps, lanes, size)
    mask: np.ndarray  # bool (instructions, warps, lanes)


def stored(
    crew: Crew, space: str, own: bool, addresses: np.ndarray, values: np.ndarray, lanes: slice = slice(None)
) -> Stored:
    """What instructions store now: addresses (..., 32), values uint8 (..., 32, size) of the crew's `lanes`."""
    mask = crew.mask[..., lanes]
    shape = np.broadcast_shapes(addresses.shape, values.shape[:-1], mask.shape)
    every = (-1, len(crew.warps), shape[-1])
    return Stored(
        crew.pc,
        space,
        own,
        np.broadcast_to(addresses, shape).reshape(every),
        np.broadcast_to(values, (*shape, values.shape[-1])).reshape(*every, values.shape[-1]),
        np.broadcast_to(mask, shape).reshape(every),
    )


def commit(crew: Crew, found: list[Stored]) -> None:
    """Stores all, if nothing is wrong with any.

    Raises:
        Apart: something may be wrong, or two lanes, or instructions, store to the same byte; then nothing is stored.
        Finding: bounds.
    """
    agents, order, judge = [warp.agent for warp in crew.warps], crew.cta.cluster.order, crew.machine.judge
    epochs = np.array([agent.epoch for agent in agents])
    ready, starts, ends = [], [], []
    todo = found[::-1]
    while todo:
        each = todo.pop()
        crew.pc = each.pc
        addresses, size = each.addresses[each.mask], each.values.shape[-1]
        if not addresses.size:
            continue
        low, high = int(addresses.min()), int(addresses.max())
        try:
            segment, offset = access.locate(crew.cta.cluster, each.space, low, high + size - low)
        except Finding:
            if len(each.addresses) == 1:
                raise
            parts = zip(each.addresses, each.values, each.mask, strict=True)  # each may have a segment of its own
            todo += [each._replace(addresses=a[None], values=v[None], mask=on[None]) for a, v, on in parts]
            continue
        foreign = each.own and np.count_nonzero(addresses >> RANK_SHIFT != crew.cta.rank)
        aligned = not size & size - 1 and not np.bitwise_or.reduce(addresses) & size - 1
        if segment.space not in ("shared", "global") or foreign or not aligned:
            raise Apart
        who = np.nonzero(each.mask)[1]
        at = access.bytes_at(addresses - (low - offset), size)
        if not judge.may_write(segment, at, order, agents, who):
            raise Apart
        ready.append((each, segment, at, who))
        starts.append(addresses)
        ends.append(addresses + size)
    if not ready:
        return
    first, end = (np.sort(np.concatenate(x)) for x in (starts, ends))
    if np.count_nonzero(first[1:] < end[:-1]):
        raise Apart
    for segment in {id(segment): segment for _, segment, _, _ in ready}.values():
        for warp in crew.warps:
            access.visit(warp, segment)
    for each, segment, at, who in ready:
        values = each.values[each.mask]
        fill(segment.data, at, values)
        fill(segment.written, at, True)
        judge.note_write(segment, at, np.broadcast_to(epochs[who][:, None], values.shape), generic=True)
        count(crew, each.space, each.addresses, each.mask, each.values.shape[-1], "registers -> {}")


def count(crew: Crew, space: str, addresses: np.ndarray, mask: np.ndarray, size: int, path: str) -> None:
    """Adds accesses of a crew to the launch's counters.

    Args:
        addresses: int64 (..., lanes); mask: bool, like it.
        path: of the bytes, with the place of the state space's name.
    """
    lanes = addresses.shape[-1]
    addresses, mask = addresses.reshape(-1, lanes), mask.reshape(-1, lanes)
    groups = [(addresses, np.arange(lanes))]
    if not mask.all():
        groups = [(row[on], np.flatnonzero(on)) for row, on in zip(addresses, mask, strict=True) if on.any()]
    for rows, which in groups:
        now = space or _WINDOW_OF.get(int(rows.flat[0]) >> 32, "global")
        crew.machine.stats.bytes[path.format(now)] += size * rows.size
        if now == "shared":
            banks.count_lanes(crew.machine, rows, which, size)
        elif now == "global" and path.startswith("registers"):
            crew.machine.stats.counts[WRITTEN] += sum(sectors(row, size) for row in rows.reshape(-1, len(which)))


WRITTEN = "global sectors written"
"""What stores of a warp are to L2: of each, the sectors that it has bytes of."""

_SECTOR = 32


def sectors(addresses: np.ndarray, size: int) -> int:
    """Of memory, that one access of some lanes has bytes of: each lane's lie in one, or are whole ones."""
    return len(np.unique((addresses[:, None] + np.arange(0, size, _SECTOR)) // _SECTOR))
