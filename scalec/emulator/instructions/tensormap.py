"""Tensor maps in memory (PTX ISA 9.7.9.28): tensormap.replace, tensormap.cp_fenceproxy, the fences of their proxy."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import Finding, PtxSyntaxError
from scalec.emulator.instructions.table import Decoder, Step, op, uniform
from scalec.emulator.layouts import tensor_map
from scalec.emulator.machine.access import locate, need_written
from scalec.emulator.machine.memory import Segment
from scalec.emulator.machine.order import CLOCK, LAUNCH
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

SIZE = tensor_map.TENSOR_MAP_BYTES


def current_map(warp: Warp, address: int) -> tensor_map.TensorMap:
    """The tensor map at a generic address, as the tensormap proxy sees it.

    Raises:
        Finding: misplaced; no map; or written by the kernel without the proxy's fence.
    """
    if address % tensor_map.TENSOR_MAP_ALIGNMENT:
        raise Finding("alignment", f"a tensor map at {address:#x}", expected="a multiple of 64")
    segment, offset = locate(warp.cta.cluster, "", address, SIZE)
    at = slice(offset, offset + SIZE)
    need_written(warp, segment, at)
    if segment.space == "global":
        warp.machine.judge.reads(segment, at, warp.cta.cluster.order, warp.agent)
        version = _version(segment, at)
        if version and warp.machine.units.get(("tensormap", address)) != version:
            raise Finding(
                "proxy",
                f"the tensor map at {address:#x} was written by the kernel, and is used without a fence of its proxy",
                expected="fence.proxy.tensormap::generic.acquire of the map's 128 bytes after the write",
                fix="tensormap.cp_fenceproxy (or fence...release), then fence.proxy.tensormap::generic.acquire",
            )
    return tensor_map.decode(segment.data[at].tobytes())


@op("tensormap.replace")
def replace(instruction: Instruction, decoder: Decoder) -> Step:
    """tensormap.replace.tile.field{.space}.b1024.type [map]{, ord}, value: 9.7.9.28.1."""
    decoder.only(instruction, ("replace", "tile", "global", "shared::cta", "b1024"), instruction.modifiers[2:3])
    if instruction.modifiers[1] != "tile":
        raise PtxSyntaxError(f"got .{instruction.modifiers[1]}, expected .tile")
    field = instruction.modifiers[2]
    space = next((m.split("::")[0] for m in ("global", "shared::cta") if instruction.has(m)), "")
    kind = "b64" if instruction.has("b64") else "b32"
    target, *ordinals, new = instruction.operands
    where = decoder.address(target)
    ordinal = decoder.source(ordinals[0], "u32") if ordinals else None
    value = decoder.source(new, kind)

    def run(warp: Warp) -> None:
        addresses, values = where(warp), value(warp)
        ordinals = ordinal(warp) if ordinal else None
        for lane in np.flatnonzero(warp.mask).tolist():
            segment, offset = locate(warp.cta.cluster, space, int(addresses[lane]), SIZE)
            at = slice(offset, offset + SIZE)
            order = warp.cta.cluster.order
            warp.machine.judge.writes(segment, at, order, warp.agent, own=warp.agent.index)
            new = tensor_map.replace_field(
                segment.data[at].tobytes(), field, int(values[lane]), 0 if ordinals is None else int(ordinals[lane])
            )
            segment.data[at] = np.frombuffer(new, np.uint8)
            segment.written[at] = True
            warp.machine.judge.note_write(segment, at, warp.agent.epoch, generic=True)

    return run


@op("tensormap.cp_fenceproxy")
def cp_fenceproxy(instruction: Instruction, decoder: Decoder) -> Step:
    """tensormap.cp_fenceproxy.global.shared::cta...sync.aligned [dst], [src], 128: 9.7.13.17: copy, and release."""
    target, source = decoder.address(instruction.operands[0]), decoder.address(instruction.operands[1])
    if decoder.integer(instruction.operands[2]) != SIZE:
        raise PtxSyntaxError("tensormap.cp_fenceproxy copies 128 bytes")

    def run(warp: Warp) -> None:
        warp.need_converged(instruction.name)
        to = uniform(warp, target(warp), "the destination")
        origin = uniform(warp, source(warp), "the source")
        judge, order = warp.machine.judge, warp.cta.cluster.order
        shared, start = locate(warp.cta.cluster, "shared", origin, SIZE)
        segment, offset = locate(warp.cta.cluster, "global", to, SIZE)
        here, at = slice(start, start + SIZE), slice(offset, offset + SIZE)
        need_written(warp, shared, here)
        judge.reads(shared, here, order, warp.agent)
        judge.note_read(shared, here, order, warp.agent.index, int(warp.agent.seen[warp.agent.index]))
        judge.writes(segment, at, order, warp.agent, own=warp.agent.index)
        segment.data[at] = shared.data[here]
        segment.written[at] = True
        judge.note_write(segment, at, warp.agent.epoch, generic=True)
        _release(warp)

    return run


def _version(segment: Segment, at: slice) -> int:
    """The epoch of a map's last change in this launch, or 0."""
    epochs = segment.shadow.writer[at]
    return int(np.where(epochs == LAUNCH, 0, epochs).max())


def _release(warp: Warp) -> None:
    """All that the warp has written so far may be acquired by the tensormap proxy. The write that follows, of a flag or
    to a barrier, is what tells others."""
    released = warp.machine.units.setdefault("tensormap released", {})
    order, agent = warp.cta.cluster.order, warp.agent
    released[order.epoch(agent.index, 0)] = int(agent.seen[agent.index])
    agent.seen[agent.index] += 1


def _need_released(warp: Warp, segment: Segment, at: slice, address: int) -> None:
    released = warp.machine.units.get("tensormap released", {})
    order = warp.cta.cluster.order
    for epoch in np.unique(segment.shadow.writer[at]).tolist():
        clock = epoch & CLOCK
        if epoch not in (0, LAUNCH) and released.get(epoch - clock, 0) < clock:
            text = f"the tensor map at {address:#x} is acquired, and {order.describe(epoch)} has not released it"
            expected = "fence.proxy.tensormap::generic.release after the last write of the map, by its writer"
            warp.machine.report(Finding("proxy", text, expected=expected, fix="add it, or tensormap.cp_fenceproxy"))


@op("fence.proxy.tensormap::generic")
def fence(instruction: Instruction, decoder: Decoder) -> Step:
    """fence.proxy.tensormap::generic.{release, acquire}.scope {[map], 128}: 9.7.13.4.

    Address 0 is no map, and a fence accesses nothing: CUTLASS's grouped products for sm_90a acquire it where they have
    no C.
    """
    decoder.only(instruction, ("proxy", "tensormap::generic", "release", "acquire", "cta", "cluster", "gpu", "sys"))
    if instruction.has("release"):
        return _release
    where = decoder.address(instruction.operands[0])

    def run(warp: Warp) -> None:
        addresses = where(warp)
        for lane in np.flatnonzero(warp.mask).tolist():
            address = int(addresses[lane])
            if not address:
                continue
            segment, offset = locate(warp.cta.cluster, "", address, SIZE)
            if segment.space == "global":
                at = slice(offset, offset + SIZE)
                _need_released(warp, segment, at, address)
                warp.machine.units["tensormap", address] = _version(segment, at)

    return run
