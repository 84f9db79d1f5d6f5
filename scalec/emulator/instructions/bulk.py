"""cp.async.bulk and cp.reduce.async.bulk between linear memories, and bulk groups (PTX ISA 9.7.9.27.4)."""

from __future__ import annotations

from functools import partial

import numpy as np

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.instructions.mbarrier import lanes
from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.layouts.bulk_reduction import BULK_REDUCTIONS, CLUSTER_REDUCTIONS, reduce
from scalec.emulator.machine import bulk, mbarrier
from scalec.emulator.machine.access import locate
from scalec.emulator.machine.cta import Cta
from scalec.emulator.machine.memory import RANK_SHIFT
from scalec.emulator.machine.pieces import Where
from scalec.emulator.machine.signals import Blocked
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_CACHE = ("L2::cache_hint",)
_COMPLETE = "mbarrier::complete_tx::bytes"
_MULTICAST = "multicast::cluster"
_MASK = "cp_mask"
UNIT = 16  # 9.7.9.27.4.1: size and both addresses are multiples of 16


def spaces(instruction: Instruction) -> tuple[str, str]:
    """State spaces of destination and source, in the order that the instruction names them."""
    found = [m for m in instruction.modifiers if m in ("global", "shared::cta", "shared::cluster")]
    if len(found) != 2:
        raise NotModelled(f"{instruction.name} without two state spaces")
    return found[0], found[1]


def own_cta(warp: Warp, address: int) -> Cta:
    """The CTA of the cluster that a shared address lies in."""
    rank = (address & 0xFFFFFFFF) >> RANK_SHIFT
    ctas = warp.cta.cluster.ctas
    if rank >= len(ctas):
        raise Finding("bounds", f"shared address {address:#x} is of CTA rank {rank}, the cluster has {len(ctas)} CTAs")
    return ctas[rank]


def receivers(warp: Warp, address: int, mask: int | None) -> list[Cta]:
    """The CTAs that a copy goes to: that of the address, or all of a multicast's mask."""
    if mask is None:
        return [own_cta(warp, address)]
    ctas = warp.cta.cluster.ctas
    if not mask or mask >> len(ctas):
        raise Finding(
            "bounds", f"multicast with mask {mask:#x}", expected=f"a mask of the {len(ctas)} CTAs of the cluster"
        )
    return [cta for cta in ctas if mask >> cta.rank & 1]


def barrier_of(warp: Warp, cta: Cta, address: int) -> mbarrier.MBarrier:
    """The mbarrier at the same offset as `address` in the shared memory of a CTA."""
    own = cta.rank << RANK_SHIFT | address & ((1 << RANK_SHIFT) - 1)
    return mbarrier.find(warp.cta.cluster, "shared", own, warp)


@op("cp.async.bulk.shared::cluster", "cp.async.bulk.shared::cta", "cp.reduce.async.bulk.shared::cluster")
def load(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.bulk into shared memory: from global memory (multicast), or from one CTA's to another's.

    cp.reduce.async.bulk goes from one CTA's to another's: 9.7.9.27.4.2, integers alone.
    """
    decoder.only(
        instruction,
        ("async", "bulk", "reduce", "global", "shared::cta", "shared::cluster", _COMPLETE, _MULTICAST, *_OPERATIONS),
        _CACHE,
    )
    operation = next((m for m in instruction.modifiers if m in _OPERATIONS), None)
    combine = partial(reduce, operation, instruction.types[-1], allowed=CLUSTER_REDUCTIONS) if operation else None
    to, source_space = spaces(instruction)
    operands = instruction.operands
    target, source = decoder.address(operands[0]), decoder.address(operands[1])
    count, barrier = decoder.source(operands[2], "u32"), decoder.address(operands[3])
    mask = decoder.source(operands[4], "b16") if instruction.has(_MULTICAST) else None
    path = f"{source_space.split('::')[0]} -> {to.split('::')[0]} (bulk)"

    def run(warp: Warp) -> None:
        targets, origins, sizes, barriers = target(warp), source(warp), count(warp), barrier(warp)
        masks = mask(warp) if mask else None
        for lane in np.flatnonzero(warp.mask).tolist():
            size = int(sizes[lane])
            _check(lane, size, int(targets[lane]), int(origins[lane]))
            if not size:
                continue
            segment, start = locate(warp.cta.cluster, source_space.split("::")[0], int(origins[lane]), size)
            goes = []
            for cta in receivers(warp, int(targets[lane]), None if masks is None else int(masks[lane])):
                there = cta.rank << RANK_SHIFT | int(targets[lane]) & ((1 << RANK_SHIFT) - 1)
                _, offset = locate(warp.cta.cluster, "shared", there, size)
                completes = barrier_of(warp, cta if masks is not None else own_cta(warp, int(barriers[lane])),
                                       int(barriers[lane]))  # fmt: skip
                goes.append(bulk.Target(cta, slice(offset, offset + size), completes, size))
            at = slice(start, start + size)
            bulk.into_shared(warp, [(segment, at)], lambda s=segment, a=at: s.data[a].copy(), goes, path, combine)

    return run


def _check(lane: int, size: int, *addresses: int) -> None:
    if size % UNIT:
        raise Finding("alignment", f"lane {lane} copies {size} bytes", expected="a multiple of 16")
    for address in addresses:
        if address % UNIT:
            raise Finding("alignment", f"lane {lane} copies to or from {address:#x}", expected="a multiple of 16")


def _masked(mask: int, size: int) -> np.ndarray:
    """The bytes that .cp_mask copies: bit i says so of the i-th of every 16."""
    return np.flatnonzero([mask >> i % UNIT & 1 for i in range(size)])


@op("cp.async.bulk.global", "cp.reduce.async.bulk.global")
def store(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.bulk and cp.reduce.async.bulk out of shared memory into global memory: 9.7.9.27.4.1, 9.7.9.27.4.2."""
    decoder.only(
        instruction,
        ("async", "bulk", "reduce", "global", "shared::cta", "bulk_group", "noftz", _MASK, *_OPERATIONS),
        _CACHE,
    )
    operation = next((m for m in instruction.modifiers if m in _OPERATIONS), None)
    kind = instruction.types[-1] if operation else ""
    operands = instruction.operands
    target, source, count = (
        decoder.address(operands[0]),
        decoder.address(operands[1]),
        decoder.source(operands[2], "u32"),
    )
    mask = None
    if instruction.has(_MASK):
        decoder.need_target("sm_1")
        mask = decoder.source(operands[-1], "b16")

    def run(warp: Warp) -> None:
        targets, origins, sizes = target(warp), source(warp), count(warp)
        masks = mask(warp) if mask else None
        given = [targets, origins, sizes] + ([masks] if masks is not None else [])
        for same in bulk.alike(warp, given, apart=operation is not None):
            lane = same[0]
            size = int(sizes[lane])
            _check(lane, size, int(targets[lane]), int(origins[lane]))
            if not size:
                continue
            shared, start = locate(warp.cta.cluster, "shared", int(origins[lane]), size)
            segment, offset = locate(warp.cta.cluster, "global", int(targets[lane]), size)
            at: Where = slice(offset, offset + size)
            here: Where = slice(start, start + size)
            if masks is not None:
                chosen = _masked(int(masks[lane]), size)
                at, here = offset + chosen, start + chosen

            def write(data: np.ndarray, segment=segment, at=at) -> None:
                segment.data[at] = (
                    data if operation is None else reduce(operation, kind, segment.data[at], data, BULK_REDUCTIONS)
                )

            bulk.out_of_shared(
                warp, same, [(shared, here)], lambda s=shared, a=here: s.data[a].copy(), [(segment, at)], write,
                "shared -> global (bulk)", reduces=operation is not None,
            )  # fmt: skip

    return run


@op("cp.async.bulk.prefetch")
def prefetch(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.bulk.prefetch.L2: a hint; its range must exist."""
    if instruction.has("tensor"):
        return lambda warp: None
    where, count = decoder.address(instruction.operands[0]), decoder.source(instruction.operands[1], "u32")

    def run(warp: Warp) -> None:
        sizes = count(warp)
        for lane, address in lanes(warp, where(warp)):
            locate(warp.cta.cluster, "global", address, int(sizes[lane]))

    return run


@op("cp.async.bulk.commit_group")
def commit(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.bulk.commit_group: 9.7.9.27.4.4; a group of its own for each thread."""

    def run(warp: Warp) -> None:
        for lane in np.flatnonzero(warp.mask).tolist():
            if lane in warp.units.get("bulk", {}):
                bulk.groups(warp, lane).commit()

    return run


@op("cp.async.bulk.wait_group")
def wait(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.bulk.wait_group{.read} N: 9.7.9.27.4.5."""
    decoder.only(instruction, "async", "bulk", "wait_group", "read")
    allowed, read = decoder.integer(instruction.operands[0]), instruction.has("read")

    def run(warp: Warp) -> Blocked | None:
        table = warp.units.get("bulk", {})
        mine = [table[lane] for lane in np.flatnonzero(warp.mask).tolist() if lane in table]
        for state in mine:
            if not state.settled(allowed, read):
                return Blocked(state.condition, f"for its bulk groups but {allowed}")
        for state in mine:
            state.observe(warp, allowed, read)
        return None

    return run
