"""Work in processes of their own."""

from __future__ import annotations

import os
import time

from scalec.checking import workers
from scalec.checking.workers import Ended


def _answers(item: int) -> tuple[int, int]:
    """Ends its process, takes too long, or says where it ran."""
    if item == 1:
        os._exit(3)
    if item == 2:
        time.sleep(60)
    return item, os.getpid()


def test_a_process_that_dies_or_hangs_costs_its_item_alone() -> None:
    found = dict(workers.run(_answers, range(5), 1, 1.5))
    assert list(found) == [0, 1, 2, 3, 4]
    assert found[1] == Ended("crash", "the process ended with 3")
    assert found[2] == Ended("timeout", "more than 2 s")
    assert [found[i][0] for i in (0, 3, 4)] == [0, 3, 4]
    assert found[3][1] == found[4][1] != found[0][1]


def _slow(item: int) -> int:
    time.sleep(1.2)
    return os.getpid()


def test_there_are_as_many_processes_as_asked_for_while_all_are_busy() -> None:
    found = [pid for _, pid in workers.run(_slow, range(4), 2, 60)]
    assert len(set(found)) == 2


def _pid(item: int) -> int:
    return os.getpid()


def test_a_spent_process_is_replaced() -> None:
    found = [pid for _, pid in workers.run(_pid, range(3), 1, 60, spent=lambda pid: True)]
    assert len(set(found)) == 3
