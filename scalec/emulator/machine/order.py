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

from collections.abc import Sequence

import numpy as np

from scalec.emulator.findings import NotModelled
from scalec.emulator.machine.pieces import Pieces, Where, extent, fill, pick

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
        """Whether any of the epochs (n, ...) has not been observed by its agent: `who` (n,) are numbers in `agents`."""
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
