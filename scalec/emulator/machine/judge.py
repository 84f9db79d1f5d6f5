"""The judge: may these bytes be touched now, by those who have observed so much (order.py)?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.machine.order import LAUNCH, Agent, Order, Readers, View
from scalec.emulator.machine.pieces import Pieces, Where, extent, fill, pick

if TYPE_CHECKING:
    from scalec.emulator.machine.memory import Segment


class Judge:
    """Checks accesses against the shadows, and leaves their epochs there.

    `operation` describes a pending asynchronous operation by its number; `ignore` are kinds of findings that are not
    raised.
    """

    def __init__(self, operation: Callable[[int], str], ignore: frozenset[str] = frozenset()) -> None:
        self.operation, self.ignore = operation, ignore

    def reads(
        self, segment: Segment, at: Where, order: Order, *views: View, asynchronous: bool = False, strong: bool = False
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
            self._fenced(segment, at, epochs, order, "reads", *views)
        return False

    def _fenced(self, segment: Segment, at: Where, epochs: np.ndarray, order: Order, verb: str, *views: View) -> None:
        """Looks whether views have a proxy fence behind all of the writes through the generic proxy."""
        generic = pick(segment.shadow.generic, at)
        if 1 not in generic.tobytes() or "proxy" in self.ignore:
            return
        unseen = order.first_unseen(np.where(generic, epochs, 0), *[view.fenced for view in views])
        if unseen:
            raise Finding(
                "proxy",
                f"the async proxy {verb} {segment.place(_offset(at, epochs == unseen))}, which"
                f" {order.describe(unseen)} wrote through the generic proxy; no proxy fence stands between them",
                expected="a fence after the earlier write, before the asynchronous operation is issued",
                fix="fence.proxy.async after the write, then the barrier that orders the two",
            )

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
        epoch = shadow.one_writer(at)
        if epoch is None or order.unseen(epoch, view.seen):
            self._overwrites(segment, at, order, view, asynchronous=asynchronous, strong=strong, values=values)
        for readers in (shadow.readers, None if strong else shadow.strong_readers):
            if readers is not None:
                found, unseen = readers.unseen(at, order, view.seen, own)
                if unseen:
                    self._race(segment, at, found, order, unseen, "written", "read")

    def _overwrites(
        self,
        segment: Segment,
        at: Where,
        order: Order,
        view: View,
        *,
        asynchronous: bool,
        strong: bool,
        values: np.ndarray | None,
    ) -> None:
        """Judges a write against the writes before it."""
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
            self._fenced(segment, at, epochs, order, "writes", view)

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
