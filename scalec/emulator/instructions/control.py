"""Control flow (PTX ISA 9.7.12): bra, brx.idx, ret, exit, trap, and what does nothing to the result."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import Finding, PtxSyntaxError
from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction, Symbol


@op("bra", own_guard=True)
def bra(instruction: Instruction, decoder: Decoder) -> Step:
    """bra: 9.7.12.4. bra.uni promises that no lane differs; one that does is a finding."""
    decoder.only(instruction, "uni")
    target = decoder.label(instruction.operands[0])
    if instruction.guard is None:

        def jump(warp: Warp) -> None:
            warp.pc = target

        return jump
    guard = decoder.source(instruction.guard, "pred")
    uniform = instruction.has("uni")

    def branch(warp: Warp) -> None:
        taken = guard(warp) & warp.mask
        if uniform and taken.any() and (taken != warp.mask).any():
            text = f"bra.uni is taken by {warp.lanes_text(taken)} of {warp.lanes_text()} only"
            warp.machine.report(Finding("divergence", text))
        warp.branch(taken, target)

    return branch


@op("brx.idx", own_guard=True)
def brx(instruction: Instruction, decoder: Decoder) -> Step:
    """brx.idx: 9.7.12.5."""
    decoder.only(instruction, "idx", "uni")
    index = decoder.source(instruction.operands[0], "u32")
    table = instruction.operands[1]
    if not isinstance(table, Symbol):
        raise PtxSyntaxError(f"got {table}, expected the name of a .branchtargets list")
    targets = [label.target for label in decoder.kernel.function.tables[table.name]]
    guard = decoder.source(instruction.guard, "pred") if instruction.guard else None

    def branch(warp: Warp) -> None:
        taken = warp.mask if guard is None else guard(warp) & warp.mask
        if not taken.any():
            return
        chosen = index(warp)
        paths = []
        for value in np.unique(chosen[taken]).tolist():
            if value >= len(targets):
                raise Finding("bounds", f"brx.idx with index {value}, the list has {len(targets)} targets")
            paths.append((targets[value], taken & (chosen == value)))
        rest = warp.mask & ~taken
        if rest.any():
            paths.append((warp.pc, rest))
        if len(paths) == 1:
            warp.pc = paths[0][0]
        else:
            warp.split(paths)

    return branch


@op("ret", "exit", own_guard=True)
def leave(instruction: Instruction, decoder: Decoder) -> Step:
    """ret of an entry, exit: 9.7.12.7, 9.7.12.8. (Calls stand in line, so that a ret is always the entry's.)"""
    decoder.only(instruction, "uni")
    guard = decoder.source(instruction.guard, "pred") if instruction.guard else None

    def end(warp: Warp) -> None:
        lanes = warp.mask if guard is None else guard(warp) & warp.mask
        if lanes.any():
            warp.leave(lanes)

    return end


@op("trap", "brkpt")
def trap(instruction: Instruction, decoder: Decoder) -> Step:
    """trap: 9.7.19.4."""

    def stop(warp: Warp) -> None:
        raise Finding("illegal", f"the kernel executes {instruction.opcode} in {warp.lanes_text()}")

    return stop


@op("pmevent", "prefetchu", "applypriority", "discard", "createpolicy", "nanosleep")
def nothing(instruction: Instruction, decoder: Decoder) -> Step:
    """Hints, and what has no effect where one kernel runs alone."""
    return lambda warp: None


@op("griddepcontrol")
def griddepcontrol(instruction: Instruction, decoder: Decoder) -> Step:
    """griddepcontrol.wait: 9.7.13.19: the launches before have ended, and what they did is seen. What
    .launch_dependents allows to begin is a launch of its own here."""
    decoder.only(instruction, "launch_dependents", "wait")
    if not instruction.has("wait"):
        return lambda warp: None

    def wait(warp: Warp) -> None:
        warp.agent.seen[0] = 1  # order.LAUNCH

    return wait
