"""Runs work in processes of their own: an item that dies, or takes too long, costs itself and nothing else."""

from __future__ import annotations

import itertools
import math
import multiprocessing as mp
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

FRESH = 400
"""Items after which a process is replaced."""


@dataclass(frozen=True)
class Ended:
    """What became of an item whose process gave no answer."""

    kind: str  # "crash" (the process died) or "timeout" (it was killed)
    message: str  # how


def _work(function: Callable[[Any], Any], memory: int | None, link: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process gets it too, and ends it
    if memory is not None:
        import resource  # which Windows has not

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    link.send(None)  # ready: what it took to import does not count
    while True:
        item = link.recv()
        try:
            link.send(function(item))
        except MemoryError:
            link.send(Ended("crash", "out of memory" if memory is None else f"more than {memory >> 30} GB"))


class _Worker(Generic[T]):
    def __init__(self, function: Callable[[T], Any], memory: int | None) -> None:
        context = mp.get_context("spawn")  # a GPU's driver does not survive fork
        self.link, other = context.Pipe()
        self.process = context.Process(target=_work, args=(function, memory, other), daemon=True)
        self.process.start()
        other.close()
        self.items: list[T] = []  # the one it works on, if any
        self.ready, self.since, self.done = False, math.inf, 0

    def give(self, item: T) -> None:
        self.items, self.since = [item], time.monotonic() if self.ready else math.inf
        self.link.send(item)

    def answer(self, ready: bool, timeout: float) -> Any:
        """The answer, None if there is none yet, or how the process ended."""
        if ready:
            try:
                found = self.link.recv()
            except (EOFError, ConnectionError):
                self.process.join()
                return Ended("crash", f"the process ended with {self.process.exitcode}")
            self.since, self.ready = time.monotonic(), True
            return found
        late = time.monotonic() - self.since > timeout
        return Ended("timeout", f"more than {timeout:.0f} s") if late else None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.link.close()


def run(
    function: Callable[[T], R],
    items: Iterable[T],
    jobs: int,
    timeout: float,
    *,
    memory: int | None = None,
    spent: Callable[[R], bool] = lambda _: False,
) -> Iterator[tuple[T, R | Ended]]:
    """(item, what `function` gives for it) in the order in which they end.

    Args:
        function: of a module, so that another process can import it; it does not raise.
        items: what it is called with, one after another.
        jobs: processes.
        timeout: seconds of an item, after which its process is killed.
        memory: bytes of address space of a process. A GPU's driver needs more than any machine has: None there.
        spent: of an answer, whether its process is not to be used again, as after an error of the GPU.
    """
    waiting = iter(items)
    workers: list[_Worker[T]] = []
    try:
        while True:
            idle = [w for w in workers if not w.items]
            while idle or len(workers) < jobs:
                given = list(itertools.islice(waiting, 1))
                if not given:
                    break
                if not idle:
                    idle.append(_Worker(function, memory))
                    workers.append(idle[0])
                idle.pop().give(given[0])
            busy = [w for w in workers if w.items]
            if not busy:
                return
            ready = connection.wait([w.link for w in busy], timeout=1.0)
            for worker in busy:
                found = worker.answer(worker.link in ready, timeout)
                if found is None:
                    continue
                (item,), worker.items = worker.items, []
                worker.done += 1
                ended = isinstance(found, Ended)
                if ended or worker.done >= FRESH or spent(found):
                    worker.end()
                    workers.remove(worker)
                yield item, found
    finally:
        for worker in workers:
            worker.end()
