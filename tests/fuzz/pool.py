"""Runs seeds in processes of their own: one that dies, or takes too long, costs its seed and nothing else."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from scalec.checking import workers
from tests.fuzz.running import Outcome, general

TIMEOUT = 120.0
"""Seconds of a seed. On a busy machine the slowest take ten."""

MEMORY = 8 << 30
"""Bytes of address space of a process."""


def cpus() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked(check: Callable[[int], Outcome], seed: int) -> Outcome:
    start = time.process_time()
    found = check(seed)
    found.seconds["all"] = time.process_time() - start
    return found


def run(
    check: Callable[[int], Outcome],
    seeds: Iterable[int],
    jobs: int,
    timeout: float = TIMEOUT,
    memory: int | None = MEMORY,
) -> Iterator[tuple[int, Outcome]]:
    """(seed, outcome) in the order in which they end."""
    for seed, found in workers.run(partial(_checked, check), seeds, jobs, timeout, memory=memory, spent=_spent):
        yield seed, Outcome(found.kind, found.message) if isinstance(found, workers.Ended) else found


def _spent(outcome: Outcome) -> bool:
    """After an error on a GPU its process finds nothing else there."""
    return outcome.kind == "exception" or outcome.kind.startswith("gpu")


@dataclass
class Tally:
    """What became of many seeds."""

    kinds: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    example: dict[str, int] = field(default_factory=dict)
    fields: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    elements: Counter[str] = field(default_factory=Counter)

    def add(self, seed: int, outcome: Outcome) -> None:
        self.kinds[outcome.kind] += 1
        self.seconds.update(outcome.seconds)
        self.elements.update({"compared": outcome.checked, "bit for bit": outcome.exact, "left out": outcome.loose})
        for message in set(map(general, outcome.refusals)):
            self.refusals[message] += 1
            self.example.setdefault(message, seed)
        if outcome.kind == "ok" and outcome.case is not None:
            self.fields.update(list(outcome.case.schedule))
            self.fields["no field"] += not outcome.case.schedule

    def line(self) -> str:
        """In one line."""
        kinds = ", ".join(f"{n} {kind}" for kind, n in self.kinds.most_common())
        return f"{sum(self.kinds.values())} seeds: {kinds}; {self.seconds['all']:.0f} s of CPU"

    def report(self, write: Callable[[str], object] = print) -> None:
        """All of it, what counts most last."""
        for message, count in self.refusals.most_common():
            write(f"refused {count} times, first by seed {self.example[message]}: {message}")
        if self.elements["compared"]:
            write("elements: " + ", ".join(f"{n} {what}" for what, n in self.elements.items()))
            write("seconds: " + ", ".join(f"{what} {n:.0f}" for what, n in self.seconds.most_common()))
            write("schedules that ran, by field: " + ", ".join(f"{f} {n}" for f, n in self.fields.most_common()))
        write(self.line())
