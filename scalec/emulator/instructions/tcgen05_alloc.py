"""tcgen05.alloc, .dealloc, .relinquish_alloc_permit (PTX ISA 9.7.16.7.1)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.instructions.table import Decoder, Step, op, uniform
from scalec.emulator.layouts.tensor_memory import COLUMNS, LANES, split_address
from scalec.emulator.machine import set_up, tensor_pipe
from scalec.emulator.machine.access import locate, need_begun, store
from scalec.emulator.machine.signals import Blocked, Condition
from scalec.emulator.machine.tensor_memory import Access, Placed, TensorMemory
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

TARGETS = ("sm_100a", "sm_100f", "sm_101a", "sm_101f", "sm_103a", "sm_103f", "sm_110a", "sm_110f")
GROUPS = ("cta_group::1", "cta_group::2")


def cta_group(instruction: Instruction, decoder: Decoder) -> int:
    """1 or 2, the same in all tcgen05 instructions of a kernel.

    Raises:
        Finding: illegal, there are both.
    """
    decoder.need_target(*TARGETS)
    code = decoder.kernel.code
    found = {m for i in code if i.opcode == "tcgen05" for m in i.modifiers if m in GROUPS}
    if len(found) > 1:
        raise Finding(
            "illegal",
            "the kernel has tcgen05 instructions with .cta_group::1 and with .cta_group::2",
            expected="the same .cta_group in all of them (9.7.16.7.1)",
        )
    return 2 if instruction.has(GROUPS[1]) else 1


class _Collective:
    """The warps of a pair that meet in an instruction with .cta_group::2.

    Attributes:
        arrived: rank of the CTA -> (name of the instruction, its number, who).
        finish: what the instruction does for the one that came first, done when the other comes: columns are
            allocated in both CTAs at once.
        generation: how often two have met.
    """

    def __init__(self) -> None:
        self.arrived: dict[int, tuple[str, int, str]] = {}
        self.finish: Callable[[], None] | None = None
        self.generation = 0
        self.condition = Condition(self.describe)

    def describe(self) -> str:
        what = ", ".join(f"{who} at {name} of {count} columns" for name, count, who in self.arrived.values())
        return f"of a pair of CTAs only {what} has come"

    def waits(self, warp: Warp, name: str) -> Blocked | None:
        """Blocked while the warp, which has come, waits for its peer."""
        waiting = warp.units.get("tcgen05 collective")
        if self.generation == waiting:
            return Blocked(self.condition, f"for the peer CTA at {name}")
        warp.units.pop("tcgen05 collective", None)
        return None

    def meet(
        self, warp: Warp, name: str, count: int, *, blocks: bool, finish: Callable[[], None] | None = None
    ) -> Blocked | None:
        """The warp comes; blocked until the peer's warp has come, too, if it `blocks`.

        Raises:
            Finding: tensor-memory, the two do different things.
        """
        if "tcgen05 collective" in warp.units:
            return self.waits(warp, name)
        if self.arrived and warp.cta.rank not in self.arrived:
            ((other, columns, who),) = self.arrived.values()
            if (other, columns) != (name, count):
                raise Finding(
                    "tensor-memory",
                    f"{name} of {count} columns, while {who} of the peer CTA executes {other} of {columns} columns",
                    expected="a warp of each CTA of the pair executes the same one (9.7.16.5, table 46)",
                )
            for each in (self.finish, finish):
                if each is not None:
                    each()
            self.arrived, self.finish = {}, None
            self.generation += 1
            self.condition.notify()
            return None
        self.arrived[warp.cta.rank], self.finish = (name, count, warp.name), finish
        if not blocks:
            return None
        warp.units["tcgen05 collective"] = self.generation
        return Blocked(self.condition, f"for the peer CTA at {name}")

    def behind(self, warp: Warp, name: str) -> Blocked | None:
        """Blocked while the peer has yet to come to an earlier instruction, which did not block this CTA."""
        if "tcgen05 collective" not in warp.units and warp.cta.rank in self.arrived:
            return Blocked(self.condition, f"for the peer CTA before {name}")
        return None


def _collective(warp: Warp) -> _Collective:
    table = tensor_pipe.shared(warp.cta.cluster).collective
    return table.setdefault(warp.cta.rank & ~1, _Collective())


@op("tcgen05.alloc")
def alloc(instruction: Instruction, decoder: Decoder) -> Step:
    """tcgen05.alloc.cta_group.sync.aligned{.shared::cta}.b32 [dst], nCols: blocks until the columns are free."""
    decoder.only(instruction, "alloc", "sync", "aligned", "shared::cta", GROUPS)
    group = cta_group(instruction, decoder)
    space = "shared" if instruction.has("shared::cta") else ""
    where, number = decoder.address(instruction.operands[0]), decoder.source(instruction.operands[1], "u32")

    def run(warp: Warp) -> Blocked | None:
        warp.need_converged(instruction.name, whole=True)
        count = uniform(warp, number(warp), "the number of columns")
        address = uniform(warp, where(warp), "the address that tcgen05.alloc writes to")
        segment, _ = locate(warp.cta.cluster, space, address, 4)
        if segment is not warp.cta.shared:
            raise Finding(
                "illegal", f"tcgen05.alloc writes to {segment.name}", expected="shared memory of the executing CTA"
            )
        blocked = _take(warp, count, f"{instruction.where}, by {warp.name}", group)
        if blocked is None:
            _put(warp, space, address, warp.units.pop("tcgen05 column"))
        return blocked

    return run


def _take(warp: Warp, count: int, text: str, group: int) -> Blocked | None:
    """Allocates, in both CTAs of a pair when the second warp has come; the warp's column is left with it."""
    memory = tensor_pipe.memory(warp.cta)
    met = _collective(warp) if group == 2 else None
    if met is not None and "tcgen05 collective" in warp.units:
        return met.waits(warp, "tcgen05.alloc")
    if memory.allocations.allocate(count, _draw(warp, memory, group)) is None:
        return Blocked(memory.freed, f"for {count} columns of tensor memory")

    def take() -> None:
        found = memory.allocations.allocate(count, _draw(warp, memory, group))
        assert found is not None  # nothing has been allocated since
        allocations, warp.units["tcgen05 column"] = found
        memory.take(allocations, found[1], count)
        memory.alloc_text = text

    if met is None:
        take()
        return None
    for cta in tensor_pipe.pair(warp, group):  # ptxas makes of it stores into the peer's shared memory
        need_begun(warp, cta)
    return met.behind(warp, "tcgen05.alloc") or met.meet(warp, "tcgen05.alloc", count, blocks=True, finish=take)


def _draw(warp: Warp, memory: TensorMemory, group: int) -> float:
    """A number of the seed in [0, 1), the same whenever an allocation is tried again, and in both CTAs of a pair.

    0, the lowest free columns, where the kernel may rely on that ("first-column" of findings.SILENT).
    """
    if warp.machine.ignores("first-column"):
        return 0
    owner = warp.cta.cluster.ctas[warp.cta.rank & ~1] if group == 2 else warp.cta
    return Random(f"{warp.machine.options.seed} {owner.number} {memory.count}").random()


def _put(warp: Warp, space: str, address: int, value: int) -> None:
    """One store by the whole warp."""
    mask, full = warp.mask, warp.full
    warp.mask, warp.full = np.arange(32) == 0, False
    try:
        data = np.broadcast_to(np.array([value], "<u4").view(np.uint8), (32, 4))
        store(warp, space, np.full(32, address), data)
    finally:
        warp.mask, warp.full = mask, full
    # Triton lets bulk copies overwrite the address with no proxy fence after tcgen05.alloc: none is asked for
    segment, offset = locate(warp.cta.cluster, space, address, 4)
    warp.machine.judge.note_write(segment, slice(offset, offset + 4), set_up.epoch(warp), generic=False)


@op("tcgen05.dealloc")
def dealloc(instruction: Instruction, decoder: Decoder) -> Step:
    """tcgen05.dealloc.cta_group.sync.aligned.b32 taddr, nCols: nothing may use the columns any more."""
    decoder.only(instruction, "dealloc", "sync", "aligned", GROUPS)
    group = cta_group(instruction, decoder)
    where, number = decoder.source(instruction.operands[0], "b32"), decoder.source(instruction.operands[1], "u32")

    def run(warp: Warp) -> Blocked | None:
        warp.need_converged(instruction.name, whole=True)
        count = uniform(warp, number(warp), "the number of columns")
        address = uniform(warp, where(warp), "the address that tcgen05.dealloc frees")
        met = _collective(warp) if group == 2 else None
        if met is not None:
            blocked = met.behind(warp, "tcgen05.dealloc")
            if blocked is not None:
                return blocked
        if "tcgen05 collective" not in warp.units:
            lane, column = split_address(address)
            if lane:
                raise Finding("tensor-memory", f"tcgen05.dealloc of address {address:#010x}", expected="lane 0")
            _free(warp, tensor_pipe.memory(warp.cta), column, count)
        if met is None:
            return None
        blocks = warp.machine.random.random() < 0.5  # "may block": the seed says whether it does
        return met.meet(warp, "tcgen05.dealloc", count, blocks=blocks)

    return run


def _free(warp: Warp, memory: TensorMemory, column: int, count: int) -> None:
    allocations = memory.allocations.free(column, count)  # checks that there is such an allocation
    columns = np.arange(column, column + count)
    flat = (np.arange(LANES)[:, None] * COLUMNS + columns).reshape(-1)
    memory.overwrites(Placed(flat, columns), Access(tensor_pipe.state(warp), "tcgen05.dealloc", "dealloc"))
    assert allocations is not None
    memory.free(column, count)


@op("tcgen05.relinquish_alloc_permit")
def relinquish(instruction: Instruction, decoder: Decoder) -> Step:
    """tcgen05.relinquish_alloc_permit.cta_group.sync.aligned: the CTA allocates no more."""
    decoder.only(instruction, "relinquish_alloc_permit", "sync", "aligned", GROUPS)
    cta_group(instruction, decoder)

    def run(warp: Warp) -> None:
        warp.need_converged(instruction.name, whole=True)
        memory = tensor_pipe.memory(warp.cta)
        memory.allocations = memory.allocations.relinquish()

    return run
