"""st.async and red.async (PTX ISA 9.7.9.12, 9.7.13.7): stores to a CTA of the cluster that complete on an mbarrier."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.instructions.bulk import own_cta
from scalec.emulator.instructions.mbarrier import lanes
from scalec.emulator.instructions.table import DTYPES, Decoder, Step, op
from scalec.emulator.layouts.bulk_reduction import reduce
from scalec.emulator.machine import mbarrier
from scalec.emulator.machine.access import OFFSET_MASK, locate, need_written, visit
from scalec.emulator.machine.memory import RANK_SHIFT, Segment
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

_COMPLETES = ("shared::cluster", "mbarrier::complete_tx::bytes")
_OPERATIONS = ("inc", "dec", "min", "max", "add", "and", "or", "xor")


def note_landing(barrier: mbarrier.MBarrier) -> None:
    """The barrier's CTA must have waited for the phase that a store completes on, even where it landed in time."""
    barrier.cta.visitors[barrier.agent] = barrier.epochs_before + barrier.phase + 1


@op("st.async", "red.async")
def remote(instruction: Instruction, decoder: Decoder) -> Step:
    """st.async{.v2,.v4}.type [a], b, [mbarrier]; red.async.op.type [a], b, [mbarrier]."""
    decoder.only(instruction, ("async", "weak", "relaxed", "cluster", "v2", "v4"), _COMPLETES, _OPERATIONS)
    if not instruction.has("mbarrier::complete_tx::bytes"):
        raise NotModelled(instruction.name)
    kind = instruction.types[-1]
    operation = next((m for m in instruction.modifiers if m in _OPERATIONS), None)
    where, gets = decoder.address(instruction.operands[0]), decoder.sources(instruction.operands[1], kind)
    barrier_at = decoder.address(instruction.operands[2])
    element = {"b32": "u32", "b64": "u64"}.get(kind, kind)
    size = (16 if kind == "b128" else DTYPES[kind].itemsize) * len(gets)

    def run(warp: Warp) -> None:
        values = np.stack([get(warp) for get in gets], axis=1).view(np.uint8).reshape(32, -1)
        addresses, barriers = where(warp), barrier_at(warp)
        machine, order = warp.machine, warp.cta.cluster.order
        number = machine.operation(f"{instruction.where}, issued by {warp.name}")
        alike = None if operation else _alike(warp, addresses, barriers, size, number)
        for lane, address in lanes(warp, addresses):
            if alike:
                segment, barrier = alike
                offset = address & OFFSET_MASK
            else:
                if address % size:
                    raise Finding("alignment", f"lane {lane} stores {size} bytes at {address:#x}", expected=f"{size}")
                segment, offset = locate(warp.cta.cluster, "shared", address, size)
                barrier = mbarrier.find(warp.cta.cluster, "shared", int(barriers[lane]), warp)
                if barrier.cta is not own_cta(warp, address):
                    raise Finding("barrier", "st.async to one CTA that completes on an mbarrier of another")
            at = slice(offset, offset + size)
            if operation:
                visit(warp, segment)
                need_written(warp, segment, at)
            elif not alike:  # over when it lands, which the CTA must know of before it exits, but not of who issued it
                machine.judge.writes(segment, at, order, warp.agent, own=warp.agent.index)
                machine.judge.note_pending(segment, at, number)
            machine.stats.bytes["registers -> shared (async)"] += size

            data = values[lane].copy()

            def land(segment=segment, at=at, data=data, barrier=barrier) -> None:
                segment.data[at] = data if operation is None else reduce(operation, element, segment.data[at], data)
                segment.written[at] = True
                order.causes[barrier.epoch] = machine.operations[number]
                machine.judge.note_write(segment, at, barrier.epoch, generic=True)
                if operation is None:
                    note_landing(barrier)
                barrier.complete(size)

            machine.later(land)

    return run


def _alike(
    warp: Warp, addresses: np.ndarray, barriers: np.ndarray, size: int, number: int
) -> tuple[Segment, mbarrier.MBarrier] | None:
    """Judges the stores of all lanes at once, and notes them as pending, where they are what they are in most kernels:
    right, to places of their own in one CTA, on one mbarrier of it.

    Returns:
        The CTA's shared memory and the mbarrier; None, having done nothing, if they must be judged one by one.
    """
    chosen, on = addresses[warp.mask], barriers[warp.mask]
    low, high, cluster = int(chosen.min()), int(chosen.max()), warp.cta.cluster
    at = (chosen & OFFSET_MASK)[:, None] + np.arange(size)
    if low >> RANK_SHIFT != high >> RANK_SHIFT or (chosen % size).any() or (on != on[0]).any():
        return None
    if len(set(chosen.tolist())) < len(chosen):
        return None
    try:
        segment, _ = locate(cluster, "shared", low, size)
        locate(cluster, "shared", high, size)
        barrier = mbarrier.find(cluster, "shared", int(on[0]), warp)
        if barrier.cta is not own_cta(warp, low):
            return None
        warp.machine.judge.writes(segment, at, cluster.order, warp.agent, own=warp.agent.index)
    except Finding:  # of some lane: one by one, it names the first
        return None
    warp.machine.judge.note_pending(segment, at, number)
    return segment, barrier
