"""setmaxnreg (PTX ISA 9.7.19.5): registers of a warp from the pool of its CTA.

What a CTA has to give is what it was launched with: its threads times the registers that a thread starts with. PTX does
not say how many these are; ptxas of CUDA 13.0 gives the least of (113 combinations of threads, CTAs, counts, targets):

- .maxnreg, where it stands;
- what lets as many CTAs run on an SM as .minnctapersm says (else one): the SM's registers over their threads, these
  rounded up to a multiple of four warps, the quotient rounded down to a multiple of 8;
- the largest count of any setmaxnreg.inc in the kernel;
- 255, which are allocated as 256.

Without .maxnreg and .minnctapersm ptxas ignores every setmaxnreg, with a remark (C7508); here they count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from scalec.emulator.findings import Finding
from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.machine.cta import Cta
from scalec.emulator.machine.kernel import Kernel
from scalec.emulator.machine.signals import Blocked, Condition
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Imm, Instruction

_UNIT, _LEAST, _MOST = 8, 24, 256  # 9.7.19.5: a multiple of 8 in 24..256
_GROUP = 4  # warps of a warpgroup
_SHARING = 128  # threads by which registers are shared out: four warps


def entry_registers(kernel: Kernel) -> int:
    """Registers that a thread is launched with, as the module's docstring says."""
    directives = kernel.function.directives
    ctas = max(1, (directives.get("minnctapersm") or (1,))[0])
    threads = math.prod(directives.get("reqntid") or directives.get("maxntid") or (kernel.threads,))
    whole = -(-threads * ctas // _SHARING) * _SHARING
    most = [_MOST, kernel.facts.registers // whole // _UNIT * _UNIT]
    if "maxnreg" in directives:
        most[1] = -(-directives["maxnreg"][0] // _UNIT) * _UNIT
    wanted = [i.operands[0] for i in kernel.code if i.opcode == "setmaxnreg" and i.has("inc")]
    counts = [operand.value for operand in wanted if isinstance(operand, Imm)]
    return min(*most, *([max(counts)] if counts else []))


@dataclass
class Pool:
    """The registers of a CTA."""

    cta: Cta
    entry: int  # per thread, at launch
    free: int = 0  # 32-bit registers that nobody owns
    owned: dict[int, int] = field(default_factory=dict)  # warp index -> registers per thread; those missing own `entry`
    # warp index -> the setmaxnreg that it has executed, as (action, count).
    done: dict[int, list[tuple[str, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.condition = Condition(self.describe, "registers")
        self.total = 32 * len(self.cta.warps) * self.entry

    def describe(self) -> str:
        owned = ", ".join(f"warp {w.index}: {self.owned.get(w.index, self.entry)}" for w in self.cta.warps)
        return (
            f"the register pool of CTA {self.cta.number} has {self.free} of its {self.total} registers left ({owned})"
        )


def _pool(warp: Warp) -> Pool:
    found = warp.cta.units.get("registers")
    if found is None:
        found = warp.cta.units["registers"] = Pool(warp.cta, entry_registers(warp.kernel))
    return found


@op("setmaxnreg")
def setmaxnreg(instruction: Instruction, decoder: Decoder) -> Step:
    """setmaxnreg.{inc,dec}.sync.aligned.u32 count; .inc waits until the pool has enough."""
    decoder.only(instruction, "inc", "dec", "sync", "aligned")
    decoder.need_target("sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110", "sm_120a", "sm_120f", "sm_121")
    count = decoder.integer(instruction.operands[0])
    action = "inc" if instruction.has("inc") else "dec"
    if count % _UNIT or not _LEAST <= count <= _MOST:
        raise Finding(
            "registers", f"setmaxnreg.{action} {count}", expected=f"a multiple of {_UNIT} from {_LEAST} to {_MOST}"
        )

    def step(warp: Warp) -> Blocked | None:
        warp.need_converged(instruction.name, whole=True)
        pool = _pool(warp)
        now = pool.owned.get(warp.index, pool.entry)
        if (count > now) if action == "dec" else (count < now):
            warp.machine.report(
                Finding(
                    "registers",
                    f"setmaxnreg.{action} {count} in {warp.name}, which owns {now} registers a thread"
                    + ("" if warp.index in pool.owned else " (from its launch)"),
                    expected=f"a count that is {'at most' if action == 'dec' else 'at least'} {now}",
                )
            )
        first = warp.index // _GROUP * _GROUP
        group = range(first, min(first + _GROUP, len(warp.cta.warps)))
        if action == "inc":
            _possible(warp, pool, count, len(group))
            if 32 * (count - now) > pool.free and not warp.machine.ignores("registers"):
                return Blocked(pool.condition, f"for {32 * (count - now)} registers")
        pool.free += 32 * (now - count)
        pool.owned[warp.index] = count
        _same_in_group(warp, pool, group, (action, count))
        if action == "dec":
            pool.condition.notify()
        return None

    return step


def _possible(warp: Warp, pool: Pool, count: int, group: int) -> None:
    others = len(warp.cta.warps) - group
    if 32 * (count * group + _LEAST * others) > pool.total:
        warp.machine.report(
            Finding(
                "registers",
                f"setmaxnreg.inc {count} for the warpgroup of {warp.name}: {32 * group * count} registers, and the"
                f" CTA's other {others} warps keep at least {_LEAST} a thread; it was launched with {pool.total},"
                f" {pool.entry} a thread",
                expected="a count that the pool can ever give",
            )
        )


def _same_in_group(warp: Warp, pool: Pool, group: range, this: tuple[str, int]) -> None:
    """The n-th setmaxnreg of all warps of a warpgroup is the same one, and all execute it before they exit."""
    mine = pool.done.setdefault(warp.index, [])
    mine.append(this)
    for other in group:
        theirs = pool.done.get(other, [])
        if len(theirs) >= len(mine) and theirs[len(mine) - 1] != this:
            action, count = theirs[len(mine) - 1]
            warp.machine.report(
                Finding(
                    "divergence",
                    f"{warp.name} executes setmaxnreg.{this[0]} {this[1]}, and warp {other} of its warpgroup"
                    f" setmaxnreg.{action} {count}",
                    expected="the same setmaxnreg in all warps of a warpgroup",
                )
            )
    if len(mine) == 1:
        for other in group:
            warp.cta.warps[other].units.setdefault("at exit", []).append(_exits)


def _exits(warp: Warp) -> None:
    pool = _pool(warp)
    first = warp.index // _GROUP * _GROUP
    mine = len(pool.done.get(warp.index, ()))
    for other in warp.cta.warps[first : first + _GROUP]:
        if len(pool.done.get(other.index, ())) > mine:
            raise Finding(
                "divergence",
                f"{warp.name} exits after {mine} setmaxnreg, warp {other.index} of its warpgroup has executed"
                f" {len(pool.done[other.index])}",
                expected="every warp of a warpgroup executes the same setmaxnreg",
            )
