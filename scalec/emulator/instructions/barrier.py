"""Barriers of CTAs, warps and clusters (PTX ISA 9.7.13.1 to 9.7.13.3)."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.instructions.table import Decoder, Step, op, uniform
from scalec.emulator.machine import set_up
from scalec.emulator.machine.cta import NAMED_BARRIERS, Barrier, Phase
from scalec.emulator.machine.signals import Blocked, Condition
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction, is_full

_NOT = np.full(32, -1)  # for each lane the generation of the cluster's barrier at which it arrived; -1: it has waited


@op("bar.warp.sync")
def bar_warp(instruction: Instruction, decoder: Decoder) -> Step:
    """bar.warp.sync: 9.7.13.2: waits for the lanes named in the mask, which may execute another one elsewhere."""
    named = decoder.source(instruction.operands[0], "b32")
    every = is_full(instruction.operands[0])

    def sync(warp: Warp) -> Blocked | None:
        if every and warp.full:
            return None
        mask = int(named(warp)[np.argmax(warp.mask)])
        lanes = (mask >> np.arange(32) & 1).astype(bool)
        if (warp.mask & ~lanes).any():
            text = f"{warp.lanes_text(warp.mask & ~lanes)} execute bar.warp.sync with a mask without them"
            warp.machine.report(Finding("divergence", text))
        if not (lanes & warp.live & ~warp.mask).any():
            return None
        meeting = warp.units.setdefault("bar.warp", {}).setdefault(mask, _Meeting(warp, lanes))
        if (meeting.free & warp.mask).any():
            meeting.free = meeting.free & ~warp.mask
            return None
        meeting.came = meeting.came | warp.mask
        if meeting.missing().any():
            return Blocked(meeting.condition, "for the lanes that bar.warp.sync names")
        meeting.free, meeting.came = meeting.came & ~warp.mask, np.zeros(32, bool)
        return None

    return sync


class _Meeting:
    """Lanes of a warp that come to bar.warp.sync on different paths: who waits, and who need not wait any more."""

    def __init__(self, warp: Warp, lanes: np.ndarray) -> None:
        self.warp, self.lanes = warp, lanes
        self.came = self.free = np.zeros(32, bool)
        self.condition = Condition(
            lambda: f"{warp.lanes_text(self.missing())} of {warp.name} are elsewhere", kind="divergence"
        )

    def missing(self) -> np.ndarray:
        return self.lanes & self.warp.live & ~self.came


@op("bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync", "bar.red", "bar.cta.red", "barrier.red",
    "barrier.cta.red")  # fmt: skip
def bar_sync(instruction: Instruction, decoder: Decoder) -> Step:
    """bar.sync a{, b}; bar.red.op p, a{, b}, c: arrive, and wait for the others."""
    decoder.only(instruction, "sync", "red", "cta", "aligned", "popc", "and", "or")
    aligned = instruction.opcode == "bar" or instruction.has("aligned")
    reduction = next((m for m in instruction.modifiers if m in ("popc", "and", "or")), None)
    operands = list(instruction.operands)
    value = result = None
    if reduction:
        kind = "u32" if reduction == "popc" else "pred"
        result = decoder.sink(operands.pop(0), kind)
        value = decoder.source(operands.pop(), "pred")
    number = decoder.source(operands[0], "u32")
    threads = decoder.source(operands[1], "u32") if len(operands) > 1 else None

    def sync(warp: Warp) -> Blocked | None:
        if aligned:
            warp.need_converged(instruction.name)
        paths: dict[int, tuple[Barrier, Phase]] = warp.units.setdefault("bar", {})  # first lane of a path -> waits for
        path = int(np.argmax(warp.mask))
        if path not in paths:
            barrier, expected = _barrier(warp, number, threads)
            paths[path] = barrier, barrier.phase
            if value is not None:
                _reduce(barrier.phase, reduction, value(warp) & warp.mask, warp.mask)
            count = _threads(warp, barrier, aligned)
            barrier.arrive(warp, count, expected, everyone=threads is None, whole=aligned)
        barrier, phase = paths[path]
        if not phase.complete:
            return Blocked(barrier.condition, "with the others")
        del paths[path]
        warp.agent.join(phase.view)
        if result is not None:
            result(warp, np.full(32, phase.value))
        return None

    return sync


@op("bar.arrive", "bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive")
def bar_arrive(instruction: Instruction, decoder: Decoder) -> Step:
    """bar.arrive a, b: arrive without waiting."""
    decoder.only(instruction, "arrive", "cta", "aligned")
    aligned = instruction.opcode == "bar" or instruction.has("aligned")
    number = decoder.source(instruction.operands[0], "u32")
    threads = decoder.source(instruction.operands[1], "u32")

    def arrive(warp: Warp) -> None:
        if aligned:
            warp.need_converged(instruction.name)
        barrier, expected = _barrier(warp, number, threads)
        barrier.arrive(warp, _threads(warp, barrier, aligned), expected, whole=aligned)

    return arrive


def _barrier(warp: Warp, number, threads):
    which = uniform(warp, number(warp), "the number of the barrier")
    if which >= NAMED_BARRIERS:
        raise Finding("barrier", f"barrier {which}", expected=f"0 to {NAMED_BARRIERS - 1}")
    if threads is None:
        expected = 32 * sum(bool(w.live.any()) for w in warp.cta.warps)
    else:
        expected = uniform(warp, threads(warp), "the thread count of the barrier")
        if expected % 32 or not expected:
            raise Finding("barrier", f"barrier {which} with {expected} threads", expected="a multiple of 32")
    return warp.cta.barriers[which], expected


def _threads(warp: Warp, barrier: Barrier, aligned: bool) -> int:
    """Barriers count whole warps: threads that have exited, or never were, come with the first of their warp; at an
    aligned barrier all do, wherever they are (which is a finding, and may be passed over)."""
    return int(np.count_nonzero(warp.mask | (aligned | ~warp.live) & np.logical_not(barrier.came.get(warp, False))))


def _reduce(phase: Phase, operation: str | None, chosen: np.ndarray, mask: np.ndarray) -> None:
    if operation == "popc":
        phase.value = np.uint32((phase.value or 0) + np.count_nonzero(chosen))
    elif operation == "and":
        phase.value = (True if phase.value is None else phase.value) and bool(chosen[mask].all())
    else:
        phase.value = bool(phase.value) or bool(chosen.any())


@op("barrier.cluster.arrive")
def cluster_arrive(instruction: Instruction, decoder: Decoder) -> Step:
    """barrier.cluster.arrive{.release|.relaxed}{.aligned}: counts the threads of the cluster that have not exited."""
    decoder.only(instruction, "cluster", "arrive", "release", "relaxed", "aligned")

    def arrive(warp: Warp) -> None:
        if instruction.has("aligned"):
            warp.need_converged(instruction.name)
        cluster = warp.cta.cluster
        came = warp.units.get("cluster", _NOT)
        if (came[warp.mask] >= 0).any():
            raise Finding("barrier", "barrier.cluster.arrive twice without a wait between", fix="barrier.cluster.wait")
        warp.units["cluster"] = np.where(warp.mask, cluster.barrier.generation, came)
        threads = int(np.count_nonzero(warp.mask))
        expected = cluster.barrier.arrived + threads + cluster.missing_threads()
        cluster.barrier.arrive(warp, threads, expected, everyone=True, relaxed=instruction.has("relaxed"))

    return arrive


@op("barrier.cluster.wait")
def cluster_wait(instruction: Instruction, decoder: Decoder) -> Step:
    """barrier.cluster.wait{.acquire}{.aligned}."""
    decoder.only(instruction, "cluster", "wait", "acquire", "aligned")

    def wait(warp: Warp) -> Blocked | None:
        if instruction.has("aligned"):
            warp.need_converged(instruction.name)
        barrier = warp.cta.cluster.barrier
        came = warp.units.get("cluster", _NOT)
        if (came[warp.mask] < 0).any():
            raise Finding("barrier", "barrier.cluster.wait without an arrive before it", fix="barrier.cluster.arrive")
        if (came[warp.mask] == barrier.generation).any():
            return Blocked(barrier.condition, "with the others")
        warp.units["cluster"] = np.where(warp.mask, -1, came)
        warp.agent.join(barrier.done.view)
        set_up.waited(warp, barrier.done)
        warp.agent.seen[[cta.start for cta in warp.cta.cluster.ctas]] = 1  # relaxed arrivals say that much
        return None

    return wait
