"""The tensor memory of a CTA: cells, who holds their columns, and who may touch them when (PTX ISA 9.7.16.1, 9.7.16.6).

Loads, stores, copies and products are asynchronous, and a cell remembers the last of them that wrote it and those that
read it. An access is in order with an earlier one if the accessing thread knows that the earlier one is complete
(tcgen05.wait; tcgen05.commit and a wait for its mbarrier), or if the two are a pipelined pair, which execute in the
order in which they were issued (9.7.16.6.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.layouts.tensor_memory import COLUMNS, LANES, Allocations, Cells, at
from scalec.emulator.machine.signals import Condition

if TYPE_CHECKING:
    from scalec.emulator.machine.cta import Cta
    from scalec.emulator.machine.tensor_pipe import State

COMMIT = "tcgen05.commit after it, and a wait for its mbarrier before this instruction"


class Placed(NamedTuple):
    """Cells at an address."""

    flat: np.ndarray  # int64, lane * 512 + column
    columns: np.ndarray  # int64, each column that they lie in, once
    # the lanes and columns, if each of these columns of each of these lanes is one of the cells.
    block: tuple[slice, slice] | None = None
    in_order: bool = False  # whether `flat` goes through the block lane by lane


@lru_cache(maxsize=256)
def placed(
    layout: Callable[..., Cells], arguments: tuple, lane: int, column: int, what: str, order: tuple[int, ...] = ()
) -> Placed:
    """The cells of a layout function at an address; `order`: transposed so.

    Raises:
        Finding: bounds.
    """
    cells = at(layout(*arguments), lane, column, what)
    flat = cells.lanes * COLUMNS + cells.columns
    if order:
        flat = np.ascontiguousarray(flat.transpose(order))
    flat.flags.writeable = False
    lanes, columns = (slice(int(x.min()), int(x.max()) + 1) for x in cells)
    whole = np.arange(LANES * COLUMNS).reshape(LANES, COLUMNS)[lanes, columns].reshape(-1)
    if not np.array_equal(np.unique(flat), whole):
        return Placed(flat, np.unique(cells.columns))
    return Placed(flat, np.unique(cells.columns), (lanes, columns), np.array_equal(flat.reshape(-1), whole))


def among(array: np.ndarray, cells: Placed) -> np.ndarray:
    """What an array of all cells has for some: a view of their block, or in the shape of `flat`."""
    if cells.block is not None:
        return array.reshape(LANES, COLUMNS)[cells.block]
    return array.take(cells.flat)


def put(array: np.ndarray, cells: Placed, value: int) -> None:
    """Puts one value there for each of these cells."""
    if cells.block is not None:
        array.reshape(LANES, COLUMNS)[cells.block] = value
    else:
        array[cells.flat] = value


class Source:
    """One sort of accesses of one warp or thread, as others observe it: its places in the order.

    Attributes:
        name: for people.
        agent: its clock says how far an observer knows it to be complete, and ordered for tcgen05 instructions.
        done: the same without tcgen05.fence: what suffices for tcgen05.dealloc.
        issued: its clock says what an observer knows to have been issued; -1: nothing is pipelined after it.
        texts: clock -> the instruction.
        epochs: clock -> (place, clock) of the warp in the order when it last issued one, of tcgen05.ld.
    """

    def __init__(self, name: str, agent: int, done: int, issued: int = -1) -> None:
        self.name, self.agent, self.done, self.issued = name, agent, done, issued
        self.texts: dict[int, str] = {}
        self.epochs: dict[int, tuple[int, int]] = {}


@dataclass(frozen=True)
class Write:
    """What wrote a cell."""

    source: Source
    clock: int
    accumulator: tuple | None = None  # of tcgen05.mma: which cells in which shape; None for all else


@dataclass(frozen=True)
class Access:
    """An access to be judged."""

    state: State  # of the warp that issues it
    what: str  # for people: what touches the cells
    role: str  # "ld", "st", "cp", "operand" (A and scale factors of tcgen05.mma), "accumulator" or "dealloc"
    accumulator: tuple | None = None  # as of Write

    def after_write(self, write: Write) -> bool:
        """Whether it comes after a write."""
        if self._knows(write.source, write.clock):
            return True
        if not self._pipelined(write.source, write.clock):
            return False
        # 9.7.16.6.2: cp -> mma; mma -> mma with the same accumulator and shape. Of cp -> cp the ISA says nothing; what
        # is read by a product between the two is in order, and nothing else is of use
        if self.role == "accumulator":
            return write.accumulator in (None, self.accumulator)
        return write.accumulator is None

    def after_read(self, source: Source, clock: int) -> bool:
        """Whether it, a write, comes after a read. Of a product's reads of A and scale factors, later copies and
        products come after them: PTX ISA 9.3 says so, and programs for earlier ones rely on it."""
        return self._knows(source, clock) or self._pipelined(source, clock)

    def _knows(self, source: Source, clock: int) -> bool:
        if self.role == "dealloc":
            return bool(self.state.agent.seen[source.done] >= clock)
        return bool(self.state.view.seen[source.agent] >= clock)

    def _pipelined(self, source: Source, clock: int) -> bool:
        if source.issued < 0 or self.role not in ("cp", "operand", "accumulator"):
            return False
        return bool(self.state.view.seen[source.issued] >= clock)


class TensorMemory:
    """The state.

    Attributes:
        words: uint32 (128 * 512,), lane by lane.
        written: whether a cell was ever, or will be, written.
        writer: number of the last write of each cell, in `writes`; 0: none.
        readers: of the cells, by agent: (source, int32 clocks).
        allocations, held: which columns are allocated.
        freed: notified by tcgen05.dealloc.
        count: of the allocations so far.
        alloc_text: the instruction of the latest allocation.
    """

    def __init__(self, cta: Cta, writes: list[Write | None]) -> None:
        self.cta, self.writes = cta, writes
        size = LANES * COLUMNS
        self.words = np.full(size, 0xFFF8CDCD, np.uint32)
        self.written = np.zeros(size, bool)
        self.writer = np.zeros(size, np.int32)
        self.readers: dict[int, tuple[Source, np.ndarray]] = {}
        self.allocations = Allocations()
        self.held = np.zeros(COLUMNS, bool)
        self.freed = Condition(self.describe)
        self.count = 0
        self.alloc_text = ""

    def describe(self) -> str:
        taken = ", ".join(f"{first} to {first + count - 1}" for first, count in self.allocations.taken) or "none"
        return f"tensor memory of CTA {self.cta.number}: columns {taken} are allocated"

    # -- allocation ------------------------------------------------------------------------------------------------

    def take(self, allocations: Allocations, column: int, count: int) -> None:
        """Columns are allocated: their cells are unwritten, and nobody has used them."""
        self.allocations = allocations
        self.count += 1
        self.held[column : column + count] = True
        for array in (self.written, self.writer, *(clocks for _, clocks in self.readers.values())):
            array.reshape(LANES, COLUMNS)[:, column : column + count] = 0

    def free(self, column: int, count: int) -> None:
        self.allocations = self.allocations.free(column, count)
        self.held[column : column + count] = False
        self.freed.notify()

    def read(self, cells: Placed) -> np.ndarray:
        """uint32: the words of cells, in the shape of `flat`."""
        if cells.in_order:
            return among(self.words, cells).reshape(cells.flat.shape)
        return self.words.take(cells.flat)

    def write(self, cells: Placed, words: np.ndarray) -> None:
        """Puts words in the shape of `flat`, or that broadcast to it."""
        if cells.in_order and words.size == cells.flat.size:
            block = among(self.words, cells)
            block[:] = words.reshape(block.shape)
        else:
            self.words[cells.flat] = words

    # -- judging ---------------------------------------------------------------------------------------------------

    def reads(self, cells: Placed, access: Access, need_written: bool = True) -> None:
        """A read of cells, issued now.

        Raises:
            Finding: tensor-memory: not allocated, or not in order; uninitialised.
        """
        self._check_held(cells, access)
        self._check_writers(cells, access, "reads")
        if not need_written or self.cta.machine.ignores("uninitialised"):
            return
        if not among(self.written, cells).all():
            where = cells.flat[~self.written[cells.flat]][0]
            raise Finding(
                "uninitialised",
                f"{access.what} reads {_place(where)} of {self.name}, which was never written",
                expected="tcgen05.st, tcgen05.cp or tcgen05.mma to these cells before",
                fix="for matrix D: enable-input-d false in the first product",
            )

    def overwrites(self, cells: Placed, access: Access, *, read: bool = False) -> None:
        """A write of cells, issued now, which the same access has `read` before.

        Raises:
            Finding: tensor-memory: not allocated, or not in order.
        """
        if not read and access.role != "dealloc":
            self._check_held(cells, access)
        if not read:
            self._check_writers(cells, access, "overwrites" if access.role != "dealloc" else "frees")
        for source, clocks in self.readers.values():
            clock = int(among(clocks, cells).max())
            if clock and not access.after_read(source, clock):
                latest = clocks[cells.flat]
                late = latest[_late(latest, access, source)]
                where = cells.flat[latest == late[0]][0]
                verb = "overwrites" if access.role != "dealloc" else "frees"
                self.cta.machine.report(self._finding(access, verb, where, source, int(late[0]), "read", None))

    def note_read(self, cells: Placed, source: Source, clock: int) -> None:
        entry = self.readers.get(source.agent)
        if entry is None:
            entry = self.readers[source.agent] = (source, np.zeros(LANES * COLUMNS, np.int32))
        put(entry[1], cells, clock)

    def note_write(self, cells: Placed, write: Write) -> None:
        self.writes.append(write)
        put(self.writer, cells, len(self.writes) - 1)
        put(self.written, cells, True)

    @property
    def name(self) -> str:
        return f"the tensor memory of CTA {self.cta.number}"

    def _check_held(self, cells: Placed, access: Access) -> None:
        if not self.held[cells.columns].all() and not self.cta.machine.ignores("tensor-memory"):
            self.allocations.check(Cells(cells.flat // COLUMNS, cells.flat % COLUMNS), access.what)

    def _check_writers(self, cells: Placed, access: Access, verb: str) -> None:
        writers = among(self.writer, cells)
        first = int(writers.flat[0])
        for number in [first] if (writers == first).all() else np.unique(writers).tolist():
            write = self.writes[number]
            if write is not None and not access.after_write(write):
                where = cells.flat[self.writer[cells.flat] == number][0]
                self.cta.machine.report(
                    self._finding(access, verb, where, write.source, write.clock, "written", write.accumulator)
                )

    def _finding(
        self, access: Access, verb: str, where: int, source: Source, clock: int, before: str, other: tuple | None
    ) -> Finding:
        """The finding for two accesses out of order: what is missing between them."""
        state = access.state
        text = source.texts.get(clock) or source.texts[max(source.texts)]
        message = f"{access.what} {verb} {_place(where)} of {self.name}, {before} by {source.name} ({text})"
        if state.agent.seen[source.agent] >= clock or state.relaxed_seen(source.agent) >= clock:
            return Finding(
                "tensor-memory",
                f"{message}: this thread has waited for that, but without tcgen05.fence::after_thread_sync",
                expected="tcgen05.fence::after_thread_sync between the wait and this instruction (9.7.16.6.3)",
                fix="tcgen05.fence::after_thread_sync after the wait",
            )
        if source.done != source.agent and state.agent.seen[source.done] >= clock:
            return Finding(
                "tensor-memory",
                f"{message}: no tcgen05.fence::before_thread_sync stands between that and the synchronisation",
                expected="tcgen05.wait, then tcgen05.fence::before_thread_sync, then the barrier (9.7.16.6.4.4)",
                fix=f"tcgen05.fence::before_thread_sync in {source.name}",
            )
        if source.issued < 0:
            wait = "tcgen05.wait::ld" if before == "read" else "tcgen05.wait::st"
            place, issue = source.epochs.get(clock, (0, 0))
            known = issue and state.agent.seen[place] >= issue and access.role == "dealloc"
            return Finding(
                "load-wait" if known else "tensor-memory",
                f"{message}: nothing orders the two",
                expected=f"{wait} there, then a barrier between the two threads (none for the same warp)",
                fix=f"{wait} and a barrier",
            )
        known = state.view.seen[source.issued] >= clock
        why = "its completion is not known to this thread"
        if known and other is not None and access.role == "operand":
            why = "the result of a product is no operand of the next before it is complete (9.7.16.6.2)"
        elif known and access.role == "accumulator":
            why = "products are pipelined only with the same accumulator and shape (9.7.16.6.2)"
        return Finding("tensor-memory", f"{message}: {why}", expected=COMMIT, fix=COMMIT)


def _late(latest: np.ndarray, access: Access, source: Source) -> np.ndarray:
    """Which of the clocks are not in order."""
    found = latest > 0
    for clock in np.unique(latest[found]).tolist():
        if access.after_read(source, clock):
            found &= latest != clock
    return found


def _place(flat: int) -> str:
    return f"lane {int(flat) // COLUMNS}, column {int(flat) % COLUMNS}"
