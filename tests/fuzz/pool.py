"""Runs seeds in processes of their own: one that dies, or takes too long, costs its seed and nothing else."""

from __future__ import annotations

import math
import multiprocessing as mp
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

from tests.fuzz.running import Outcome, general

TIMEOUT = 120.0
"""Seconds of a seed. On a busy machine the slowest take ten."""

MEMORY = 8 << 30
"""Bytes of address space of a process."""

FRESH = 400
"""Seeds after which a process is replaced."""


def _work(check: Callable[[int], Outcome], link: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    link.send(None)  # ready: what it took to import does not count
    while True:
        seed = link.recv()
        start = time.process_time()
        try:
            found = check(seed)
        except MemoryError:
            found = Outcome("crash", f"more than {MEMORY >> 30} GB")
        found.seconds["all"] = time.process_time() - start
        link.send(found)


class _Worker:
    def __init__(self, check: Callable[[int], Outcome]) -> None:
        context = mp.get_context("spawn")
        self.link, other = context.Pipe()
        self.process = context.Process(target=_work, args=(check, other), daemon=True)
        self.process.start()
        other.close()
        self.seed: int | None = None
        self.ready, self.since, self.done = False, math.inf, 0

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic() if self.ready else math.inf
        self.link.send(seed)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.link.close()


def run(
    check: Callable[[int], Outcome], seeds: Iterable[int], jobs: int, timeout: float = TIMEOUT
) -> Iterator[tuple[int, Outcome]]:
    """(seed, outcome) in the order in which they end."""
    waiting = iter(seeds)
    workers: list[_Worker] = []
    try:
        while True:
            idle = [w for w in workers if w.seed is None]
            while len(workers) < jobs or idle:
                seed = next(waiting, None)
                if seed is None:
                    break
                if idle:
                    worker = idle.pop()
                else:
                    worker = _Worker(check)
                    workers.append(worker)
                worker.give(seed)
            busy = [w for w in workers if w.seed is not None]
            if not busy:
                return
            ready = connection.wait([w.link for w in busy], timeout=1.0)
            for worker in busy:
                seed, outcome = worker.seed, None
                assert seed is not None
                if worker.link in ready:
                    try:
                        outcome = worker.link.recv()
                        worker.ready, worker.since = True, time.monotonic()
                    except (EOFError, ConnectionError):
                        worker.process.join()
                        outcome = Outcome("crash", f"the process ended with {worker.process.exitcode}")
                        worker.done = FRESH
                elif time.monotonic() - worker.since > timeout:
                    outcome, worker.done = Outcome("timeout", f"more than {timeout:.0f} s"), FRESH
                if outcome is not None:
                    worker.seed, worker.done = None, worker.done + 1
                    if worker.done >= FRESH:
                        worker.end()
                        workers.remove(worker)
                    yield seed, outcome
    finally:
        for worker in workers:
            worker.end()


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
        """All of it."""
        write(self.line())
        if self.elements["compared"]:
            write("elements: " + ", ".join(f"{n} {what}" for what, n in self.elements.items()))
            write("seconds: " + ", ".join(f"{what} {n:.0f}" for what, n in self.seconds.most_common()))
            write("schedules that ran, by field: " + ", ".join(f"{f} {n}" for f, n in self.fields.most_common()))
        for message, count in self.refusals.most_common():
            write(f"refused {count} times, first by seed {self.example[message]}: {message}")
