"""How a warp tells the scheduler that it cannot go on, and how it is woken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalec.emulator.machine.warp import Warp


class Condition:
    """Something that warps wait for; notify() makes them try their instruction again.

    Attributes:
        describe: its state, for people.
        kind: of the finding if nothing ever notifies it.
        rank: how little it looks like the cause then; the least is told first.
    """

    __slots__ = ("describe", "kind", "rank", "waiting")

    def __init__(
        self, describe: Callable[[], str], kind: str = "deadlock", rank: Callable[[], int] = lambda: 2
    ) -> None:
        self.describe, self.kind, self.rank = describe, kind, rank
        self.waiting: list[Warp] = []

    def notify(self) -> None:
        """Wakes every waiting warp."""
        waiting, self.waiting = self.waiting, []
        for warp in waiting:
            warp.machine.wake(warp)


@dataclass(frozen=True)
class Blocked:
    """Returned by an instruction that did not happen: try it again after `condition` was notified.

    `what` says for what, or whom, the warp waits. `poll`: the instruction may be tried again without a notification,
    and finish without it; if nothing else goes on, it is, and only if that changes nothing the program is dead.
    """

    condition: Condition
    what: str
    poll: bool = False


class Yield:
    """Returned by an instruction that did happen, but lets other warps run first."""


YIELD = Yield()
Signal = Blocked | Yield
