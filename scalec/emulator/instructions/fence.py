"""Memory fences (PTX ISA 9.7.13.4): fence.{sc,acq_rel,acquire,release}, membar.

Fences of proxies and of mbarrier.init stand with what they order.
"""

from __future__ import annotations

from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.machine import strong
from scalec.emulator.machine.order import View
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

_RESTRICTIONS = ("sync_restrict::shared::cta", "sync_restrict::shared::cluster")


@op("fence", "membar")
def fence(instruction: Instruction, decoder: Decoder) -> Step:
    """fence{.sem}.scope, without .sem as .acq_rel; membar.level is fence.sc.

    A .sync_restrict fence is taken for one of all state spaces, so that what it leaves unordered is not found. Relaxed
    arrivals and mbarrier.complete_tx publish what a releasing fence of the cluster's scope or a wider one did.
    """
    decoder.only(instruction, "sc", "acq_rel", "acquire", "release", strong.SCOPES, _RESTRICTIONS)
    scope = strong.SCOPES[next(m for m in instruction.modifiers if m in strong.SCOPES)]
    acquire, release = not instruction.has("release"), not instruction.has("acquire")

    def step(warp: Warp) -> None:
        strong.fence(warp, scope, acquire=acquire, release=release)
        if release and not instruction.has("cta"):
            warp.agent.release(warp.units.setdefault("relaxed release", View(warp.agent.order.capacity)))

    return step
