"""tcgen05.fence (PTX ISA 9.7.16.11) and tcgen05.commit (9.7.16.12)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator.instructions.bulk import receivers
from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.instructions.tcgen05_alloc import GROUPS, TARGETS, cta_group
from scalec.emulator.machine import mbarrier, tensor_pipe
from scalec.emulator.machine.memory import RANK_SHIFT, WINDOWS
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

_OFFSET = (1 << RANK_SHIFT) - 1


@op("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def fence(instruction: Instruction, decoder: Decoder) -> Step:
    """tcgen05.fence::before_thread_sync, ::after_thread_sync: 9.7.16.11.1; see tensor_pipe."""
    decoder.only(instruction, "fence::before_thread_sync", "fence::after_thread_sync")
    decoder.need_target(*TARGETS)
    if instruction.has("fence::before_thread_sync"):
        return lambda warp: tensor_pipe.state(warp).before_thread_sync()
    return lambda warp: tensor_pipe.state(warp).after_thread_sync()


@op("tcgen05.commit")
def commit(instruction: Instruction, decoder: Decoder) -> Step:
    """tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}{.multicast::cluster}.b64 [mbar]{, ctaMask}.

    The arrival comes when all copies and products of the thread so far are complete.
    """
    decoder.only(instruction, "commit", "mbarrier::arrive::one", "shared::cluster", "multicast::cluster", GROUPS)
    group = cta_group(instruction, decoder)
    space = "shared" if instruction.has("shared::cluster") else ""
    where = decoder.address(instruction.operands[0])
    mask = decoder.source(instruction.operands[1], "b16") if instruction.has("multicast::cluster") else None

    def run(warp: Warp) -> None:
        addresses = where(warp)
        masks = mask(warp) if mask else None
        cluster = warp.cta.cluster
        for lane in np.flatnonzero(warp.mask).tolist():
            address = int(addresses[lane])
            if masks is None:
                targets = [(space, address)]
            else:
                shared = address if space else address - WINDOWS["shared"]
                ctas = receivers(warp, shared, int(masks[lane]))
                targets = [("shared", cta.rank << RANK_SHIFT | shared & _OFFSET) for cta in ctas]
            for kind, target in targets:  # an mbarrier operand is accessed through the generic proxy (9.7.16.12.1)
                mbarrier.find(cluster, kind, target, warp)
            tensor_pipe.pair(warp, group)
            view = tensor_pipe.state(warp).committed(lane)
            text = f"{instruction.where}\n      issued by {warp.name} lane {lane}"
            tensor_pipe.pipe(warp, group).push(text, _arrival(warp, lane, targets, view))

    return run


def _arrival(warp: Warp, lane: int, targets: list[tuple[str, int]], view) -> Callable[[], None]:
    def arrive() -> None:
        for space, address in targets:
            barrier = mbarrier.find(warp.cta.cluster, space, address, None)
            barrier.arrive(1, f"tcgen05.commit of {warp.name} lane {lane}", view)

    return arrive
