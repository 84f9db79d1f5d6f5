"""Happens-before, by vector clocks: who may touch which bytes, and what has been fenced for the async proxy.

Every agent of a cluster (a warp, a phase sequence of an mbarrier, the bulk groups of a warp, the wgmma groups of a
warp, ...) has a place in the vector. An access leaves its epoch (agent, clock) in the shadow of the bytes; a later
access by another agent is in order if that agent has observed the epoch. Proxies (PTX ISA 8.5 "Proxies", 8.9.2
"Proxy-preserved base causality order") are a second vector, `fenced`: of what has been observed, the part that a proxy
fence has carried over to the async proxy.

Two clusters share global memory only, and there the judge is coarse: what another cluster wrote in the same launch may
be touched once this cluster has acquired anything that the other one released (`Order.acquired`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.machine.pieces import Pieces, Where, extent, fill, pick

if TYPE_CHECKING:
    from scalec.emulator.machine.memory import Segment

_CLOCK_BITS, _AGENT_BITS = 30, 14  # which leaves 19 for the serial of the cluster
CLOCK = (1 << _CLOCK_BITS) - 1
_AGENT = (1 << _AGENT_BITS) - 1
_SERIAL = _CLOCK_BITS + _AGENT_BITS

LAUNCH = ((1 << 19) - 1) << _SERIAL | 1
"""The epoch of all that the launch before this one does to global memory (Options.dependent). An Order's first agent
stands for it: griddepcontrol.wait observes that it has ended."""

# "1 in flags.tobytes()" is any() of a bool array without numpy's overhead, 0.2 for 2.5 us of 500 flags


class View:
    """What an agent, or a synchronising object, has observed: int32 (capacity,) clocks of every agent."""

    __slots__ = ("fenced", "seen")

    def __init__(self, capacity: int) -> None:
        self.seen = np.zeros(capacity, np.int32)
        self.fenced = np.zeros(capacity, np.int32)

    def join(self, other: View) -> None:
        """Observes all that the other has observed."""
        mine, theirs = len(self.seen), len(other.seen)
        if mine == theirs:
            np.maximum(self.seen, other.seen, out=self.seen)
            np.maximum(self.fenced, other.fenced, out=self.fenced)
            return
        if mine < theirs:
            self.grow(theirs)
        np.maximum(self.seen[:theirs], other.seen, out=self.seen[:theirs])
        np.maximum(self.fenced[:theirs], other.fenced, out=self.fenced[:theirs])

    def grow(self, capacity: int) -> None:
        """Makes room for more agents, of which nothing has been observed."""
        more = np.zeros(max(0, capacity - len(self.seen)), np.int32)
        self.seen, self.fenced = np.append(self.seen, more), np.append(self.fenced, more)

    def fence(self) -> None:
        """A proxy fence between generic and async: all observed so far holds for the async proxy too."""
        np.maximum(self.fenced, self.seen, out=self.fenced)

    def copy(self) -> View:
        new = View.__new__(View)
        new.seen, new.fenced = self.seen.copy(), self.fenced.copy()
        return new


class Agent(View):
    """A view with a place of its own; its clock is seen[index], and counts from 1."""

    __slots__ = ("index", "name", "order")

    def __init__(self, order: Order, name: str) -> None:
        self.order = order
        self.index = order.add(name)
        super().__init__(order.capacity)
        self.name = name
        order.lasting.append(self)
        self.seen[self.index] = 1

    def release(self, to: View) -> None:
        """Gives all that this agent has done and observed to a synchronising object."""
        to.join(self)
        self.seen[self.index] += 1

    def fence(self) -> None:
        super().fence()
        self.seen[self.index] += 1  # what comes later is not fenced

    @property
    def epoch(self) -> int:
        return self.order.epoch(self.index, int(self.seen[self.index]))


class Order:
    """The agents of one cluster.

    Attributes:
        serial: which cluster of the launch, from 1.
        capacity: places in a vector made now; a view that joins a longer one grows.
        names: of the agents, by index.
        lasting: views that have a place for every agent at any time.
        acquired: serials of the clusters from which something was acquired.
        relaxed: place of what a warp has set up (set_up.py) -> clock up to which relaxed arrivals alone tell of that.
        causes: epoch -> the asynchronous operation that read or wrote then, where an agent stands for several.
    """

    def __init__(self, serial: int, capacity: int) -> None:
        self.serial, self.capacity = serial, min(capacity, _AGENT)
        self.names: list[str] = []
        self.lasting: list[View] = []
        self.acquired: set[int] = set()
        self.relaxed: dict[int, int] = {}
        self.causes: dict[int, str] = {}

    def view(self) -> View:
        """A view that grows with the number of agents."""
        view = View(self.capacity)
        self.lasting.append(view)
        return view

    def add(self, name: str) -> int:
        """A place for an agent that has no view of its own (an mbarrier's phases, a warp's groups)."""
        if len(self.names) >= _AGENT:
            raise NotModelled(f"more than {_AGENT} warps, mbarriers and threads with bulk copies in a cluster")
        if len(self.names) >= self.capacity:
            self.capacity = min(2 * self.capacity, _AGENT)
            for view in self.lasting:
                view.grow(self.capacity)
        self.names.append(name)
        return len(self.names) - 1

    def epoch(self, agent: int, clock: int) -> int:
        return ((self.serial << _AGENT_BITS | agent) << _CLOCK_BITS) | clock

    def first_unseen(self, epochs: np.ndarray, seen: np.ndarray, *others: np.ndarray) -> int:
        """The first of the epochs (int64, 0: none) that one of the vectors has not observed; 0 if all have."""
        if not epochs.size:
            return 0
        if others:
            seen = np.minimum.reduce([seen, *others])
        low, high = int(np.minimum.reduce(epochs, axis=None)), int(np.maximum.reduce(epochs, axis=None))
        if low == high:  # one access left all of it, which is the most frequent case
            return high if self.unseen(high, seen) else 0
        if high >> _SERIAL == self.serial and (self.serial == 1 or low >> _SERIAL == self.serial):  # none is foreign
            bad = (epochs & CLOCK) > seen[(epochs >> _CLOCK_BITS) & _AGENT]  # never where there is none: clock 0
            return int(epochs[bad].flat[0]) if 1 in bad.tobytes() else 0
        serials = epochs >> _SERIAL
        agents = (epochs >> _CLOCK_BITS) & _AGENT
        same = serials == self.serial
        bad = same & ((epochs & CLOCK) > seen[np.where(same, agents, 0)])
        for serial in np.unique(serials[~same & (epochs != 0)]).tolist():
            # the clock of an epoch is an agent's own; releases to other clusters are kept by machine time instead
            if self._foreign(serial, seen):
                bad = bad | (serials == serial)
        return int(epochs[bad].flat[0]) if 1 in bad.tobytes() else 0

    def unseen_by(self, epochs: np.ndarray, agents: Sequence[Agent], who: np.ndarray) -> bool:
        """Whether any of the epochs (n, ...) has not been observed by the agent whose number in `agents` is `who` (n,)."""
        low, high = int(epochs.min()), int(epochs.max())
        if low == high:
            return any(self.unseen(low, agent.seen) for agent in agents)
        return any(self.first_unseen(epochs[who == i], agent.seen) for i, agent in enumerate(agents))

    def unseen(self, epoch: int, seen: np.ndarray) -> bool:
        """Whether a vector has not observed an epoch; it has observed 0, none."""
        serial = epoch >> _SERIAL
        if serial == self.serial:
            return bool(epoch & CLOCK > seen[epoch >> _CLOCK_BITS & _AGENT])
        return epoch != 0 and self._foreign(serial, seen)

    def _foreign(self, serial: int, seen: np.ndarray) -> bool:
        """Whether what another cluster did, or the launch before, has not been observed."""
        return not seen[0] if serial == LAUNCH >> _SERIAL else serial not in self.acquired

    def kind(self, epoch: int, kind: str) -> str:
        """The kind of a finding on an access that nothing orders after an epoch of this cluster."""
        told = self.relaxed.get(epoch >> _CLOCK_BITS & _AGENT, 0) if epoch >> _SERIAL == self.serial else 0
        return "relaxed-barrier" if epoch & CLOCK <= told else kind

    def describe(self, epoch: int) -> str:
        """Who an epoch belongs to, for people."""
        serial = epoch >> _SERIAL
        if epoch == LAUNCH:
            return "the launch before this one"
        if serial != self.serial:
            return f"a warp of cluster {serial - 1}"
        if epoch in self.causes:
            return f"the asynchronous operation of {self.causes[epoch]}"
        return self.names[(epoch >> _CLOCK_BITS) & _AGENT]


class Shadow:
    """What the judge remembers of each byte of a segment.

    Attributes:
        writer: int64 epoch of the last write; 0: by the host.
        generic: whether that write went through the generic proxy.
        pending: number of the asynchronous operation that will write the byte; 0: none.
        strong: whether that write was strong (PTX ISA 8.4 "Operation types"); None: none was.
        readers, strong_readers: who read it, with weak and with strong operations; the latter None at first.
        alike: (first byte, end, epoch) of ranges in which all this is the same: each byte was written, last by one
            access of the host or of the async proxy, and none is pending. An operand of a tensor core lies in one.
    """

    __slots__ = ("alike", "every_reader", "generic", "pending", "readers", "size", "strong", "strong_readers", "writer")

    def __init__(self, size: int, every_reader: bool) -> None:
        self.size, self.every_reader = size, every_reader
        self.writer = np.zeros(size, np.int64)
        self.generic = np.zeros(size, bool)
        self.pending = np.zeros(size, np.int32)
        self.strong: np.ndarray | None = None
        self.readers = Readers(size, every_reader)
        self.strong_readers: Readers | None = None
        self.alike: list[tuple[int, int, int]] = []

    def one_writer(self, at: Where) -> int | None:
        """The epoch of a range of `alike` that the bytes lie in."""
        if self.alike:
            low, end = extent(at)
            for first, last, epoch in self.alike:
                if first <= low and end <= last:
                    return epoch
        return None

    def differ(self, at: Where) -> None:
        """The bytes are no longer like those beside them."""
        if self.alike:
            low, end = extent(at)
            self.alike = [each for each in self.alike if end <= each[0] or each[1] <= low]

    def weak_writers(self, at: Where) -> np.ndarray:
        """Epochs of the last writes, 0 where they were strong."""
        epochs = pick(self.writer, at)
        return epochs if self.strong is None else np.where(pick(self.strong, at), 0, epochs)


_NOTED = 256  # places that a reader comes to again


class Readers:
    """Who read the bytes of a segment: in shared memory every reader is remembered, in global memory the last one.

    Attributes:
        each: agent index -> int32 (size,) clock of its last read; None in global memory.
        latest: agent index -> the greatest of these, and of those in `noted`.
        last: int64 (size,) epoch of the last read; None in shared memory.
        noted: agent index -> the clocks of bytes that it reads again and again, which `each` has when they matter.
    """

    __slots__ = ("each", "last", "latest", "noted", "size")

    def __init__(self, size: int, every: bool) -> None:
        self.size = size
        self.each: dict[int, np.ndarray] | None = {} if every else None
        self.latest: dict[int, int] = {}
        self.last = None if every else np.zeros(size, np.int64)
        self.noted: dict[int, dict[Pieces, int]] = {}

    def note(self, at: Where, order: Order, agent: int, clock: int) -> None:
        if self.each is None:
            assert self.last is not None
            fill(self.last, at, order.epoch(agent, clock))
            return
        if clock > self.latest.get(agent, 0):
            self.latest[agent] = clock
        if not (isinstance(at, Pieces) and at.again):
            self._settle(agent)
            fill(self.each[agent], at, clock)
            return
        noted = self.noted.setdefault(agent, {})
        noted.pop(at, None)  # the last read comes last
        noted[at] = clock
        if len(noted) > _NOTED:
            self._settle(agent)

    def _settle(self, agent: int) -> None:
        assert self.each is not None
        if agent not in self.each:
            self.each[agent] = np.zeros(self.size, np.int32)
        for at, clock in self.noted.pop(agent, {}).items():
            fill(self.each[agent], at, clock)

    def _clocks(self, agent: int, at: Where) -> np.ndarray | None:
        """The clocks of an agent's last reads of these bytes; None if it has read none of them."""
        assert self.each is not None
        noted = self.noted.get(agent)
        if noted:
            low, end = extent(at)
            if any(first < end and low < last for first, last in (read.extent for read in noted)):
                self._settle(agent)
        return pick(self.each[agent], at) if agent in self.each else None

    def unseen(self, at: Where, order: Order, seen: np.ndarray, own: int) -> tuple[np.ndarray, int]:
        """Which of the bytes somebody but `own` read without that being in `seen`, and one such epoch, or 0."""
        if self.each is None:
            assert self.last is not None
            epochs = pick(self.last, at)
            unseen = order.first_unseen(epochs, seen)
            if unseen >> _CLOCK_BITS == order.serial << _AGENT_BITS | own:
                unseen = 0
            return epochs == unseen, unseen
        for agent, latest in self.latest.items():
            if agent == own or latest <= seen[agent]:
                continue
            clocks = self._clocks(agent, at)
            if clocks is not None and 1 in (late := clocks > seen[agent]).tobytes():
                return late, order.epoch(agent, int(clocks[late].flat[0]))
        return np.zeros(0, bool), 0

    def unseen_by(self, at: Where, order: Order, agents: Sequence[Agent], who: np.ndarray) -> bool:
        """Whether somebody read one of the pieces of `at` and the agent whose number in `agents` `who` has for it has
        not observed that."""
        if self.each is None:
            assert self.last is not None
            return order.unseen_by(pick(self.last, at), agents, who)
        for reader, latest in self.latest.items():
            seen = [CLOCK if reader == agent.index else int(agent.seen[reader]) for agent in agents]
            if latest > min(seen):
                clocks = self._clocks(reader, at)
                if clocks is not None and 1 in (clocks > np.array(seen)[who][:, None]).tobytes():
                    return True
        return False


class Judge:
    """Checks accesses against the shadows, and leaves their epochs there.

    `operation` describes a pending asynchronous operation by its number; `ignore` are kinds of findings that are not
    raised.
    """

    def __init__(self, operation: Callable[[int], str], ignore: frozenset[str] = frozenset()) -> None:
        self.operation, self.ignore = operation, ignore

    def reads(
        self,
        segment: Segment,
        at: Where,
        order: Order,
        *views: View,
        asynchronous: bool = False,
        strong: bool = False,
    ) -> bool:
        """A read at this moment, or an asynchronous one issued now, by those who have observed `views`.

        Args:
            strong: a strong operation, which does not race with strong ones (PTX ISA 8.7 "Morally strong operations").

        Returns:
            Whether it is known that all of the bytes were written.

        Raises:
            Finding: in-flight, race or proxy.
        """
        shadow = segment.shadow
        epoch = shadow.one_writer(at)
        if epoch is not None and not any(order.unseen(epoch, view.seen) for view in views):
            return True
        pending = pick(shadow.pending, at)
        if np.count_nonzero(pending):
            self._in_flight(segment, at, pending, "read")
        epochs = shadow.weak_writers(at) if strong else pick(shadow.writer, at)
        unseen = order.first_unseen(epochs, *[view.seen for view in views])
        if unseen:
            self._race(segment, at, epochs == unseen, order, unseen, "read", "written")
        if asynchronous:
            unseen = self._unfenced(shadow, at, epochs, order, *views)
            if unseen and "proxy" not in self.ignore:
                raise Finding(
                    "proxy",
                    f"the async proxy reads {segment.place(_offset(at, epochs == unseen))}, which"
                    f" {order.describe(unseen)} wrote through the generic proxy; no proxy fence stands between them",
                    expected="a fence after the write, before the asynchronous operation is issued",
                    fix="fence.proxy.async after the write, then the barrier that orders the two",
                )
        return False

    @staticmethod
    def _unfenced(shadow: Shadow, at: Where, epochs: np.ndarray, order: Order, *views: View) -> int:
        """The first of the epochs of writes through the generic proxy that a view has no proxy fence behind, or 0."""
        generic = pick(shadow.generic, at)
        if 1 not in generic.tobytes():
            return 0
        return order.first_unseen(np.where(generic, epochs, 0), *[view.fenced for view in views])

    def note_read(
        self, segment: Segment, at: Where, order: Order, agent: int, clock: int, *, strong: bool = False
    ) -> None:
        """Leaves a read's epoch."""
        shadow = segment.shadow
        readers = shadow.readers
        if strong:
            readers = shadow.strong_readers
            if readers is None:
                readers = shadow.strong_readers = Readers(shadow.size, shadow.every_reader)
        readers.note(at, order, agent, clock)

    def writes(
        self,
        segment: Segment,
        at: Where,
        order: Order,
        view: View,
        *,
        asynchronous: bool = False,
        strong: bool = False,
        own: int = -1,
        values: np.ndarray | None = None,
    ) -> None:
        """A write at this moment, or an asynchronous one issued now; `own` is the writer's agent index.

        Args:
            strong: as of `reads`.
            values: what is written, like `at`. Two writes of the same value are no race: where a value is held by
                several warps, compilers let each of them store it.

        Raises:
            Finding: in-flight, race or proxy.
        """
        shadow = segment.shadow
        pending = pick(shadow.pending, at)
        if np.count_nonzero(pending):
            self._in_flight(segment, at, pending, "written")
        epochs = shadow.weak_writers(at) if strong else pick(shadow.writer, at)
        unseen = order.first_unseen(epochs, view.seen)
        if unseen and values is not None:
            epochs = np.where(pick(segment.data, at) == values, 0, epochs)
            unseen = order.first_unseen(epochs, view.seen)
        if unseen:
            self._race(segment, at, epochs == unseen, order, unseen, "written", "written")
        if asynchronous:
            unseen = self._unfenced(shadow, at, epochs, order, view)
            if unseen and "proxy" not in self.ignore:
                raise Finding(
                    "proxy",
                    f"the async proxy writes {segment.place(_offset(at, epochs == unseen))}, which"
                    f" {order.describe(unseen)} wrote through the generic proxy; no proxy fence stands between them",
                    expected="a fence after the earlier write, before the asynchronous operation is issued",
                    fix="fence.proxy.async after the write, then the barrier that orders the two",
                )
        for readers in (shadow.readers, None if strong else shadow.strong_readers):
            if readers is not None:
                found, unseen = readers.unseen(at, order, view.seen, own)
                if unseen:
                    self._race(segment, at, found, order, unseen, "written", "read")

    @staticmethod
    def may_write(segment: Segment, at: Where, order: Order, agents: Sequence[Agent], who: np.ndarray) -> bool:
        """Whether agents may surely write at this moment: of `at` (pieces, bytes), the pieces that have their number in
        `agents` in `who` (pieces,)."""
        shadow = segment.shadow
        if np.count_nonzero(pick(shadow.pending, at)) or order.unseen_by(pick(shadow.writer, at), agents, who):
            return False
        return not any(
            readers is not None and readers.unseen_by(at, order, agents, who)
            for readers in (shadow.readers, shadow.strong_readers)
        )

    def fenced_reads(self, segment: Segment, at: Where, order: Order, view: View) -> None:
        """The async proxy overwrites what threads have read, now: a proxy fence of theirs stands between the two.

        Raises:
            Finding: proxy.
        """
        if "proxy" in self.ignore:
            return
        fenced = view.seen.copy()  # what the async proxy itself has read needs no fence
        threads = [agent.index for agent in order.lasting if isinstance(agent, Agent)]
        fenced[threads] = view.fenced[threads]
        found, unseen = segment.shadow.readers.unseen(at, order, fenced, -1)
        if unseen:
            raise Finding(
                "proxy",
                f"the async proxy overwrites {segment.place(_offset(at, found))}, which {order.describe(unseen)} read"
                " through the generic proxy; no proxy fence stands between them",
                expected="a fence after the read, before the place is handed back",
                fix="fence.proxy.async after the read, then the barrier that orders the two",
            )

    def note_write(
        self, segment: Segment, at: Where, epoch: int | np.ndarray, *, generic: bool, strong: bool = False
    ) -> None:
        """Leaves a write's epoch, or of each byte its own, and ends its being pending."""
        shadow = segment.shadow
        if strong and shadow.strong is None:
            shadow.strong = np.zeros(shadow.size, bool)
        if shadow.strong is not None:
            fill(shadow.strong, at, strong)
        fill(shadow.writer, at, epoch)
        fill(shadow.generic, at, generic)
        fill(shadow.pending, at, 0)
        shadow.differ(at)
        if isinstance(at, slice) and not generic and not isinstance(epoch, np.ndarray) and segment.written[at].all():
            shadow.alike.append((*extent(at), epoch))

    def note_pending(self, segment: Segment, at: Where, operation: int) -> None:
        """The bytes are to be written by an asynchronous operation."""
        segment.shadow.differ(at)
        fill(segment.shadow.pending, at, operation)

    def _in_flight(self, segment: Segment, at: Where, pending: np.ndarray, verb: str) -> None:
        if "in-flight" in self.ignore:
            return
        found = pending != 0
        raise Finding(
            "in-flight",
            f"{segment.place(_offset(at, found))} is {verb} while an asynchronous operation that will write it is in"
            f" flight: {self.operation(int(pending[found].flat[0]))}",
            expected="the operation's completion, observed by this warp",
            fix="wait for its mbarrier phase, or its group, before the access",
        )

    def _race(
        self, segment: Segment, at: Where, found: np.ndarray, order: Order, epoch: int, verb: str, before: str
    ) -> None:
        kind = "dependent" if epoch == LAUNCH else order.kind(epoch, "race")
        if kind in self.ignore:
            return
        other = order.describe(epoch)
        if kind == "dependent":
            raise Finding(
                kind,
                f"{segment.place(_offset(at, found))} is {verb} before griddepcontrol.wait; {other} may still use it",
                expected="griddepcontrol.wait, in this thread or one that this is ordered after, before the access",
                fix="griddepcontrol.wait",
            )
        nothing = "nothing" if kind == "race" else "barrier.cluster.arrive.relaxed, which publishes nothing, alone"
        raise Finding(
            kind,
            f"{segment.place(_offset(at, found))} is {verb} here and was {before} by {other}; {nothing} orders the two",
            expected="a barrier, or a wait for the operation's completion, between the two accesses",
            fix="wait for its completion" if epoch in order.causes else "synchronise this warp with " + other,
        )


def _offset(at: Where, found: np.ndarray) -> int:
    """The first byte of a segment where `found` holds."""
    if isinstance(at, slice):
        return (at.start or 0) + int(np.argmax(found))
    return int((at.offsets() if isinstance(at, Pieces) else at)[found].flat[0])
