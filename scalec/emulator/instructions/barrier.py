"""Barriers of CTAs, warps and clusters (PTX ISA 9.7.13.1 to 9.7.13.3)."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.instructions.table import Decoder, Step, op, uniform
from scalec.emulator.machine.cta import NAMED_BARRIERS
from scalec.emulator.machine.signals import Blocked
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction


@op("bar.warp.sync")
def bar_warp(instruction: Instruction, decoder: Decoder) -> Step:
    """bar.warp.sync: the lanes named in the mask must come together; they are the active ones, or some wait."""
    named = decoder.source(instruction.operands[0], "b32")

    def sync(warp: Warp) -> None:
        lanes = (int(named(warp)[np.argmax(warp.mask)]) >> np.arange(32) & 1).astype(bool)
        if (warp.mask & ~lanes).any():
            raise Finding(
                "divergence", f"{warp.lanes_text(warp.mask & ~lanes)} execute bar.warp.sync with a mask without them"
            )
        missing = lanes & warp.live & ~warp.mask
        if missing.any():
            raise Finding(
                "divergence",
                f"bar.warp.sync names {warp.lanes_text(missing)}, which are elsewhere",
                expected="every named thread executes the barrier",
            )

    return sync


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
        barrier, expected = _barrier(warp, number, threads)
        waiting = warp.units.get("bar")
        if waiting is None:
            generation = barrier.generation
            if value is not None:
                chosen = value(warp) & warp.mask
                _reduce(barrier, reduction, chosen, warp.mask)
            warp.units["bar"] = (barrier, generation)
            barrier.arrive(warp, _threads(warp, aligned), expected)
            if barrier.generation == generation:
                return Blocked(barrier.condition, barrier.name)
        elif waiting[0].generation == waiting[1]:
            return Blocked(barrier.condition, barrier.name)
        del warp.units["bar"]
        warp.agent.join(barrier.done)
        if result is not None:
            result(warp, np.full(32, barrier.result))
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
        barrier.arrive(warp, _threads(warp, aligned), expected)

    return arrive


def _barrier(warp: Warp, number, threads):
    which = uniform(warp, number(warp), "the number of the barrier")
    if which >= NAMED_BARRIERS:
        raise Finding("barrier", f"barrier {which}", expected=f"0 to {NAMED_BARRIERS - 1}")
    if threads is None:
        expected = 32 * len(warp.cta.warps)
    else:
        expected = uniform(warp, threads(warp), "the thread count of the barrier")
        if expected % 32 or not expected:
            raise Finding("barrier", f"barrier {which} with {expected} threads", expected="a multiple of 32")
    return warp.cta.barriers[which], expected


def _threads(warp: Warp, aligned: bool) -> int:
    """Barriers count whole warps: an aligned one the warp's 32, another the threads that come."""
    return 32 if aligned else int(np.count_nonzero(warp.mask)) if warp.live.all() else 32


def _reduce(barrier, operation: str | None, chosen: np.ndarray, mask: np.ndarray) -> None:
    if operation == "popc":
        barrier.value = np.uint32((barrier.value or 0) + np.count_nonzero(chosen))
    elif operation == "and":
        barrier.value = (True if barrier.value is None else barrier.value) and bool(chosen[mask].all())
    else:
        barrier.value = bool(barrier.value) or bool(chosen.any())


@op("barrier.cluster.arrive")
def cluster_arrive(instruction: Instruction, decoder: Decoder) -> Step:
    """barrier.cluster.arrive{.release|.relaxed}{.aligned}: counts the threads of the cluster that have not exited."""
    decoder.only(instruction, "cluster", "arrive", "release", "relaxed", "aligned")

    def arrive(warp: Warp) -> None:
        if instruction.has("aligned"):
            warp.need_converged(instruction.name)
        cluster = warp.cta.cluster
        if "cluster" in warp.units:
            raise Finding("barrier", "barrier.cluster.arrive twice without a wait between", fix="barrier.cluster.wait")
        warp.units["cluster"] = cluster.barrier.generation
        threads = int(np.count_nonzero(warp.mask))
        cluster.barrier.arrive(warp, threads, cluster.live_threads(), relaxed=instruction.has("relaxed"))

    return arrive


@op("barrier.cluster.wait")
def cluster_wait(instruction: Instruction, decoder: Decoder) -> Step:
    """barrier.cluster.wait{.acquire}{.aligned}."""
    decoder.only(instruction, "cluster", "wait", "acquire", "aligned")

    def wait(warp: Warp) -> Blocked | None:
        if instruction.has("aligned"):
            warp.need_converged(instruction.name)
        barrier = warp.cta.cluster.barrier
        generation = warp.units.get("cluster")
        if generation is None:
            raise Finding("barrier", "barrier.cluster.wait without an arrive before it", fix="barrier.cluster.arrive")
        if barrier.generation == generation:
            return Blocked(barrier.condition, barrier.name)
        del warp.units["cluster"]
        warp.agent.join(barrier.done)
        return None

    return wait
