"""clusterlaunchcontrol (PTX ISA 9.7.13.18): a running cluster takes over one that has not begun. sm_100 and later."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.instructions.mbarrier import lanes
from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.machine import bulk, mbarrier
from scalec.emulator.machine.access import locate
from scalec.emulator.machine.memory import RANK_SHIFT
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

_FAILS = 1 / 8  # of the requests, although there are clusters that have not begun
RESPONSE = 16  # bytes; ours: the first CTA's x, y, z, and whether a cluster was taken over, each 32 bits
_OFFSET = (1 << RANK_SHIFT) - 1


@op("clusterlaunchcontrol.try_cancel")
def try_cancel(instruction: Instruction, decoder: Decoder) -> Step:
    """clusterlaunchcontrol.try_cancel.async{.multicast::cluster::all}.b128 [response], [mbarrier]: 9.7.13.18.1.

    No cluster has a right to another's work: a request may fail at any time, as it does for a kernel of higher priority
    (CUDA guide, "Work Stealing with Cluster Launch Control"); the seed says which do. A request is wrong once its CTA
    has observed one that failed, not before. What was read of an earlier response must be fenced, as in the ISA's
    example, before this one overwrites it.
    """
    decoder.need_target("sm_100", "sm_103", "sm_120")
    decoder.only(
        instruction, ("try_cancel", "async", "shared::cta", "mbarrier::complete_tx::bytes", "multicast::cluster::all")
    )
    where, barrier_at = decoder.address(instruction.operands[0]), decoder.address(instruction.operands[1])
    multicast = instruction.has("multicast::cluster::all")

    def run(warp: Warp) -> None:
        addresses, barriers = where(warp), barrier_at(warp)
        cluster = warp.cta.cluster
        for lane, address in lanes(warp, addresses):
            if address % RESPONSE:
                raise Finding("alignment", f"a response at {address:#x}", expected="a multiple of 16")
            if _refused(warp):
                raise Finding(
                    "illegal",
                    "clusterlaunchcontrol.try_cancel after one that failed",
                    expected="no further request once a response says that nothing was cancelled",
                )
            fails = warp.machine.random.random() < _FAILS
            first = None if fails else warp.machine.take_cluster()
            words = np.array([*(first or (0, 0, 0)), first is not None], np.uint32)
            response = words.view(np.uint8)
            goes = []
            for cta in cluster.ctas if multicast else [warp.cta]:
                own = cta.rank << RANK_SHIFT
                _, offset = locate(cluster, "shared", own | address & _OFFSET, RESPONSE)
                completes = mbarrier.find(cluster, "shared", own | int(barriers[lane]) & _OFFSET, warp)
                goes.append(bulk.Target(cta, slice(offset, offset + RESPONSE), completes, RESPONSE))
            bulk.into_shared(warp, [], lambda r=response: r, goes, "launch control -> shared")
            for target in goes:
                warp.machine.judge.fenced_reads(target.cta.shared, target.at, cluster.order, warp.agent)
                if first is None:
                    target.cta.units.setdefault("refusals", []).append(target.barrier.epoch)

    return run


def _refused(warp: Warp) -> bool:
    """Whether some warp of the CTA has observed the completion of a request that failed."""
    epochs, order = warp.cta.units.get("refusals", ()), warp.cta.cluster.order
    return any(not order.first_unseen(np.array([e]), w.agent.seen) for e in epochs for w in warp.cta.warps)


@op("clusterlaunchcontrol.query_cancel")
def query_cancel(instruction: Instruction, decoder: Decoder) -> Step:
    """clusterlaunchcontrol.query_cancel.{is_canceled, get_first_ctaid}: 9.7.13.18.2."""
    response = decoder.source(instruction.operands[1], "b128")
    question = instruction.modifiers[1]
    if question == "is_canceled":
        answer = decoder.sink(instruction.operands[0], "pred")

        def is_canceled(warp: Warp) -> None:
            answer(warp, _words(response(warp))[:, 3] != 0)

        return is_canceled
    if question == "get_first_ctaid":
        puts = decoder.sinks(instruction.operands[0], "b32")
        axes = list(range(3))
    elif question in ("get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"):
        puts = decoder.sinks(instruction.operands[0], "b32")
        axes = ["xyz".index(question[-1])]
    else:
        raise NotModelled(instruction.name)

    def first_ctaid(warp: Warp) -> None:
        words = _words(response(warp))
        if (words[warp.mask, 3] == 0).any():
            raise Finding("illegal", "the first CTA is asked of a response that cancelled nothing")
        for put, axis in zip(puts, axes, strict=False):
            put(warp, words[:, axis].copy())

    return first_ctaid


def _words(response: np.ndarray) -> np.ndarray:
    """(32, 2) uint64 -> (32, 4) uint32."""
    return np.ascontiguousarray(response).view(np.uint32)
