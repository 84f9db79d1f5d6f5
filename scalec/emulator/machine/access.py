"""Loads and stores of a warp's lanes, and the bytes that asynchronous operations touch: resolved, checked, judged.

All addresses are int64. `space` is "global", "shared" (any CTA of the cluster), "local", "param", "const", or "" for
generic addresses. `access.load` and `access.store` are what ld, st, ldmatrix and the like are made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator.findings import Apart, Finding
from scalec.emulator.machine.memory import RANK_SHIFT, WINDOWS, Segment
from scalec.emulator.machine.order import LAUNCH
from scalec.emulator.machine.pieces import Pieces, Where, fill, pick

if TYPE_CHECKING:
    from scalec.emulator.machine.crew import Crew
    from scalec.emulator.machine.cta import Cluster, Cta
    from scalec.emulator.machine.warp import Warp

_ALL = np.arange(32)  # lanes
Hole = tuple[np.ndarray, np.ndarray, str]
"""Lanes of a load, which of their bytes were never written: bool (lanes, bytes), and one of these in words."""
_WINDOW_MASK = (1 << 32) - 1
OFFSET_MASK = (1 << RANK_SHIFT) - 1


@cache
def _steps(size: int) -> np.ndarray:
    return np.arange(size)


def locate(cluster: Cluster, space: str, address: int, size: int) -> tuple[Segment, int]:
    """The segment that `size` bytes at an address lie in, and their offset.

    Raises:
        Finding: bounds.
    """
    machine = cluster.machine
    if space == "":
        high = address >> 32
        space = next((name for name, base in WINDOWS.items() if base >> 32 == high), "global")
        if space != "global":
            address &= _WINDOW_MASK
    if space == "shared":
        rank = address >> RANK_SHIFT
        if not 0 <= rank < len(cluster.ctas):
            raise Finding(
                "bounds", f"shared address {address:#x} is of CTA rank {rank}, the cluster has {len(cluster.ctas)} CTAs"
            )
        segment, offset = cluster.ctas[rank].shared, address & OFFSET_MASK
        if cluster.ctas[rank].exited:
            raise Finding(
                "bounds",
                f"shared address {address:#x} is of CTA rank {rank} of the cluster, which has exited",
                expected="every CTA stays until the others are done with its shared memory",
                fix="barrier.cluster.arrive and wait before the exit",
            )
        if offset < segment.start or offset + size > segment.size:
            raise Finding(
                "bounds",
                f"{size} bytes at shared address {address:#x}, which is {offset - segment.start} from the start of a"
                f" CTA's {segment.size - segment.start} bytes",
                expected="an address inside of the shared memory that the launch gave",
            )
        return segment, offset
    segment = {"param": machine.params, "const": machine.consts}.get(space) or machine.memory.find(address)
    if segment is None:
        raise Finding("bounds", f"{size} bytes at address {address:#x}, which belongs to no allocation")
    offset = address - segment.base
    if offset < 0 or offset + size > segment.size:
        raise Finding(
            "bounds",
            f"{size} bytes at address {address:#x}: {offset} from the start of {segment.name}, which has {segment.size}"
            " bytes",
        )
    return segment, offset


def split(warp: Warp, space: str, addresses: np.ndarray, size: int) -> list[tuple[Segment, np.ndarray, np.ndarray]]:
    """The active lanes of an access, by the segments that they touch: (segment, lanes, int64 offsets).

    Raises:
        Finding: alignment or bounds; the message names the first such lane.
    """
    lanes, chosen = (_ALL, addresses) if warp.full else (np.flatnonzero(warp.mask), addresses[warp.mask])
    if size & (size - 1) == 0:
        bad = chosen & (size - 1)
        if np.bitwise_or.reduce(bad):
            at = int(np.argmax(bad != 0))
            raise Finding(
                "alignment",
                f"lane {lanes[at]} accesses {size} bytes at {int(chosen[at]):#x}",
                expected=f"a multiple of {size}",
            )
    low, high = int(np.minimum.reduce(chosen)), int(np.maximum.reduce(chosen))
    first, offset = _locate_lane(warp, space, int(chosen[0]), size, int(lanes[0]))
    start = int(chosen[0]) - offset
    if low >= start + first.start and high + size <= start + first.size:
        return [(first, lanes, chosen - start)]
    found: dict[int, tuple[Segment, list[int], list[int]]] = {}
    for lane, address in zip(lanes.tolist(), chosen.tolist(), strict=True):
        segment, offset = _locate_lane(warp, space, address, size, lane)
        entry = found.setdefault(id(segment), (segment, [], []))
        entry[1].append(lane)
        entry[2].append(offset)
    return [(segment, np.array(ls), np.array(offsets, np.int64)) for segment, ls, offsets in found.values()]


def _locate_lane(warp: Warp, space: str, address: int, size: int, lane: int) -> tuple[Segment, int]:
    try:
        return locate(warp.cta.cluster, space, address, size)
    except Finding as finding:
        finding.message = f"lane {lane}: {finding.message}"
        finding.args = (finding.message,)
        raise


def local_lanes(space: str, addresses: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    """The active lanes that access their local memory: bool (32,), or None if none does."""
    if space == "local":
        return mask
    if space:
        return None
    lanes = mask & (addresses >> 32 == WINDOWS["local"] >> 32)
    return lanes if lanes.any() else None


@contextmanager
def only(warp: Warp, lanes: np.ndarray) -> Iterator[None]:
    """Some of the active lanes are the active ones for a while."""
    mask, full = warp.mask, warp.full
    warp.set_mask(lanes)
    try:
        yield
    finally:
        warp.mask, warp.full = mask, full


def need_begun(warp: Warp, cta: Cta) -> None:
    """Reports the use of another CTA's memory by a warp that does not know that the CTA has begun."""
    if not warp.agent.seen[cta.start]:
        text = f"{warp.name} uses memory of CTA {cta.number}, and nothing says that this CTA of its cluster has begun"
        expected = (
            "barrier.cluster.arrive and .wait, which may be relaxed, before the first use of another CTA's memory"
        )
        warp.machine.report(Finding("cluster-start", text, expected=expected, fix="barrier.cluster at the start"))


def visit(warp: Warp, segment: Segment) -> None:
    """Notes the use of another CTA's shared memory, which must not exit before it knows of it."""
    if segment.space == "shared" and segment is not warp.cta.shared:
        owner = next(c for c in warp.cta.cluster.ctas if c.shared is segment)
        need_begun(warp, owner)
        owner.visitors[warp.agent.index] = int(warp.agent.seen[warp.agent.index])


def load(
    warp: Warp,
    space: str,
    addresses: np.ndarray,
    size: int,
    *,
    atomic: bool = False,
    check_written: bool = True,
    holes: list[Hole] | None = None,
) -> np.ndarray:
    """`size` bytes for each active lane, through the generic proxy: uint8 (32, size), zero in inactive lanes.

    `atomic`: a strong access, which does not race with other strong accesses. Alignment is checked where size is a
    power of two. Bytes that were never written are put into `holes`, if it is given, instead of being reported.

    Raises:
        Finding: alignment, bounds, uninitialised, in-flight, race.
    """
    out = np.zeros((32, size), np.uint8)
    if 1 not in warp.mask.tobytes():
        return out
    local = local_lanes(space, addresses, warp.mask)
    if local is not None:
        if (local != warp.mask).any():
            for part, within in ((local, "local"), (warp.mask & ~local, "")):
                with only(warp, part):
                    found = load(warp, within, addresses, size, atomic=atomic, check_written=check_written, holes=holes)
                out[part] = found[part]
            return out
        lanes, offsets = _local(warp, addresses, size)
        assert warp.local is not None
        assert warp.local_written is not None
        if check_written:
            _need_written_local(warp, lanes, offsets, holes)
        out[lanes[:, 0]] = warp.local[lanes, offsets]
        return out
    for segment, lanes, offsets in split(warp, space, addresses, size):
        at, known = bytes_at(offsets, size), False
        if segment.space in ("shared", "global"):
            machine = warp.machine
            agent, order = warp.agent, warp.cta.cluster.order
            visit(warp, segment)
            known = machine.judge.reads(segment, at, order, agent, strong=atomic)
            machine.judge.note_read(segment, at, order, agent.index, int(agent.seen[agent.index]), strong=atomic)
        if check_written and not known:
            need_written(warp, segment, at, lanes, holes)
        out[lanes] = pick(segment.data, at)
    return out


def bytes_at(offsets: np.ndarray, size: int) -> Where:
    """`size` bytes from each of the offsets (...), in all (..., size)."""
    if size in (4, 8, 16) and not np.count_nonzero(offsets & size - 1):
        return Pieces(offsets, size)
    return offsets[..., None] + _steps(size)


def of_all(crew: Crew, addresses: np.ndarray) -> np.ndarray:
    """Addresses of a crew's lanes, int64 (..., warps, 32), (..., 32) of one warp; lanes that are not active name what
    the first active one of their warp does, or of another."""
    shape = np.broadcast_shapes(addresses.shape, crew.mask.shape)
    if crew.full:
        return np.broadcast_to(addresses, shape)
    mask, addresses = np.broadcast_to(crew.mask, shape), np.broadcast_to(addresses, shape)
    every = np.full((len(crew.warps), 1), addresses[mask][0])
    for i, lanes in enumerate(_of_warps(crew, mask)):
        if lanes.any():
            every[i] = _of_warps(crew, addresses)[i][lanes][0]
    return np.where(mask, addresses, every if len(crew.warps) > 1 else every[0])


def _of_warps(crew: Crew, lanes: np.ndarray) -> np.ndarray:
    """(..., warps, 32), or (..., 32) of one warp, by warps: (warps, ..., 32)."""
    return np.moveaxis(lanes.reshape(-1, *lanes.shape[-2:]), 1, 0) if len(crew.warps) > 1 else lanes[None]


def load_together(
    crew: Crew,
    space: str,
    addresses: np.ndarray,
    mask: np.ndarray,
    size: int,
    *,
    unchanged: bool = False,
    strong: bool = False,
) -> np.ndarray:
    """Loads by several warps that nothing is wrong with: uint8 (..., warps, lanes, size).

    Args:
        addresses: int64 (..., warps, lanes); mask: bool, like it: lanes that are active.
        unchanged: nobody may have written the bytes in this launch.
        strong: they do not race with later strong writes; what was written before is as for weak ones.

    Raises:
        Apart: something may be wrong.
        Finding: bounds, or an instruction touches more than one segment.
    """
    low, high = int(addresses.min()), int(addresses.max())
    try:
        segment, offset = locate(crew.cta.cluster, space, low, high + size - low)
    except Finding:
        if addresses.size == len(crew.warps) * addresses.shape[-1]:
            raise
        each = zip(addresses, mask, strict=True)  # of several instructions each may have a segment of its own
        return np.stack([load_together(crew, space, a, on, size, unchanged=unchanged, strong=strong) for a, on in each])
    at = addresses - (low - offset)
    if size & (size - 1) == 0 and np.bitwise_or.reduce(addresses, axis=None) & size - 1:
        raise Apart
    of_warps, idle = _of_warps(crew, at), [False] * len(crew.warps)
    if not crew.full:
        idle = [not lanes.any() for lanes in _of_warps(crew, mask)]
    every = bytes_at(at, size)
    if segment.space not in ("shared", "global"):
        return pick(segment.data, every)
    shadow, order = segment.shadow, crew.cta.cluster.order
    first, epochs = shadow.one_writer(slice(offset, offset + high + size - low)), None
    if first is None:
        epochs = pick(shadow.writer, every)
        if np.count_nonzero(pick(shadow.pending, every)) or 0 in pick(segment.written, every).tobytes():
            raise Apart
        first = int(epochs.flat[0])
        if not np.count_nonzero(epochs != first):
            epochs = None  # one access has written all of them
    if unchanged and (epochs is not None or first not in (0, LAUNCH)):
        raise Apart
    for i, warp in enumerate(crew.warps):
        if idle[i]:
            continue
        if epochs is None:
            unseen = order.unseen(first, warp.agent.seen)
        else:
            unseen = order.first_unseen(epochs if len(crew.warps) == 1 else epochs[..., i, :, :], warp.agent.seen)
        if unseen:
            raise Apart
    judge = crew.machine.judge
    for warp, own, none in zip(crew.warps, of_warps, idle, strict=True):
        if none:
            continue
        visit(warp, segment)
        index = warp.agent.index
        judge.note_read(segment, bytes_at(own, size), order, index, int(warp.agent.seen[index]), strong=strong)
    return pick(segment.data, every)


def store(warp: Warp, space: str, addresses: np.ndarray, values: np.ndarray, *, atomic: bool = False) -> None:
    """Writes uint8 (32, size) of the active lanes through the generic proxy.

    Raises:
        Finding: alignment, bounds, in-flight, race.
    """
    if 1 not in warp.mask.tobytes():
        return
    size = values.shape[1]
    local = local_lanes(space, addresses, warp.mask)
    if local is not None:
        if (local != warp.mask).any():
            for part, within in ((local, "local"), (warp.mask & ~local, "")):
                with only(warp, part):
                    store(warp, within, addresses, values, atomic=atomic)
            return
        lanes, offsets = _local(warp, addresses, size)
        assert warp.local is not None
        assert warp.local_written is not None
        warp.local[lanes, offsets] = values[lanes[:, 0]]
        kept = warp.undefined.kept
        warp.local_written[lanes, offsets] = True if kept is None else kept[lanes[:, 0], :size]
        return
    for segment, lanes, offsets in split(warp, space, addresses, size):
        if segment.space not in ("shared", "global"):
            raise Finding("illegal", f"a store to {segment.name}, which is read only")
        at = bytes_at(offsets, size)
        judge, agent = warp.machine.judge, warp.agent
        visit(warp, segment)
        new = values[lanes]
        judge.writes(segment, at, warp.cta.cluster.order, agent, strong=atomic, own=agent.index, values=new)
        fill(segment.data, at, new)
        fill(segment.written, at, True if warp.undefined.kept is None else warp.undefined.kept[lanes, :size])
        judge.note_write(segment, at, agent.epoch, generic=True, strong=atomic)


def operand_pieces(addresses: np.ndarray, mn_major: bool | int) -> Pieces | np.ndarray:
    """The bytes of an operand in shared memory (layouts/shared_matrix.py): 16 along K lie together if it is K-major."""
    return addresses if mn_major else Pieces(addresses[:, ::16], 16, again=True)


def need_written(
    warp: Warp, segment: Segment, at: Where, lanes: np.ndarray = _ALL, holes: list[Hole] | None = None
) -> None:
    """Raises Finding("uninitialised") if a byte was never written, or puts those of each lane into `holes`."""
    written = pick(segment.written, at)
    if 0 in written.tobytes() and not warp.machine.ignores("uninitialised"):
        where = np.argwhere(~written)[0]
        if isinstance(at, slice):
            offset = (at.start or 0) + int(where[0])
        else:
            offset = int((at.offsets() if isinstance(at, Pieces) else at)[tuple(where)])
        if holes is not None:
            holes.append((lanes, ~written, f"{segment.place(offset)} was never written"))
            return
        raise Finding(
            "uninitialised",
            f"{segment.place(offset)} is read and was never written ({int((~written).sum())} bytes of this access)",
            expected="a write, by the host or the kernel, before the read",
        )


def _local(warp: Warp, addresses: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    lanes = np.flatnonzero(warp.mask)
    chosen = addresses[lanes] & _WINDOW_MASK
    limit = warp.kernel.local_bytes
    if warp.local is None:
        warp.local, warp.local_written = np.zeros((32, limit), np.uint8), np.zeros((32, limit), bool)
    if size & (size - 1) == 0 and (chosen & (size - 1)).any():
        raise Finding(
            "alignment", f"{size} bytes at local address {int(chosen[0]):#x}", expected=f"a multiple of {size}"
        )
    if (chosen < 0).any() or (chosen + size > limit).any():
        raise Finding("bounds", f"{size} bytes at local address {int(chosen.max()):#x}, a thread has {limit} bytes")
    return np.broadcast_to(lanes[:, None], (len(lanes), size)), chosen[:, None] + _steps(size)


def _need_written_local(warp: Warp, lanes: np.ndarray, offsets: np.ndarray, holes: list[Hole] | None) -> None:
    assert warp.local_written is not None
    written = warp.local_written[lanes, offsets]
    if not written.all() and not warp.machine.ignores("uninitialised"):
        where = tuple(np.argwhere(~written)[0])
        if holes is not None:
            text = f"byte {offsets[where]} of the local memory of lane {lanes[where]} was never written"
            holes.append((lanes[:, 0], ~written, text))
            return
        raise Finding(
            "uninitialised",
            f"lane {lanes[where]} reads byte {offsets[where]} of its local memory, which was never written",
        )
