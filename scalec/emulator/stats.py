"""What a run counts as it goes: instructions, bytes by path, tensor instructions, bank conflicts, waits."""

from __future__ import annotations

from collections import Counter, defaultdict


class Stats:
    """The counters of a launch.

    Attributes:
        executed: instruction index -> how often a warp executed it.
        bytes: path, e.g. "global -> shared (bulk)" -> bytes.
        counts: anything else, by name.
    """

    def __init__(self) -> None:
        self.executed: defaultdict[int, int] = defaultdict(int)
        self.bytes: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
