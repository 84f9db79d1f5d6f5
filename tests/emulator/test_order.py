"""What a vector clock has not observed: array by array as epoch by epoch."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.machine.order import Order, Readers

AGENTS = 5


@pytest.mark.parametrize("serial", [1, 2, 3])
@pytest.mark.parametrize("seed", range(20))
def test_the_first_epoch_that_is_unseen(serial: int, seed: int) -> None:
    """Of this cluster's agents, of clusters from which something was acquired or nothing was, and none at all."""
    generator = np.random.default_rng(seed)
    order = Order(serial, AGENTS)
    order.acquired = {4} if seed % 2 else set()
    seen = generator.integers(0, 6, AGENTS).astype(np.int32)
    clusters = [serial] if seed < 8 else [serial, 4] if seed < 14 else [1, 2, 3, 4]
    known = [Order(s, AGENTS).epoch(agent, clock) for s in clusters for agent in range(AGENTS) for clock in range(1, 7)]
    known = known[: 1 + seed % 3 * len(known)] if seed % 5 == 0 else [0, *known]
    for shape in ((1,), (7,), (4, 3), (40,)):
        epochs = generator.choice(np.array(known, np.int64), shape)
        wanted = next((int(e) for e in epochs.flat if order.unseen(int(e), seen)), 0)
        assert order.first_unseen(epochs, seen) == wanted


def test_one_epoch() -> None:
    order = Order(2, AGENTS)
    seen = np.array([0, 3, 0, 0, 0], np.int32)
    assert not order.unseen(0, seen)
    assert not order.unseen(order.epoch(1, 3), seen)
    assert order.unseen(order.epoch(1, 4), seen)
    other = Order(3, AGENTS).epoch(1, 1)
    assert order.unseen(other, seen)
    order.acquired.add(3)
    assert not order.unseen(other, seen)


def test_readers_of_some_bytes() -> None:
    """A later read of other bytes by the same agent hides none."""
    order = Order(1, AGENTS)
    readers = Readers(8, every=True)
    seen = np.zeros(AGENTS, np.int32)
    readers.note(slice(0, 4), order, 1, 3)
    readers.note(slice(4, 8), order, 1, 7)
    readers.note(slice(2, 3), order, 2, 1)
    seen[2] = 1
    for clock, at, late in ((2, slice(0, 4), 3), (3, slice(0, 4), 0), (3, slice(3, 6), 7), (7, slice(0, 8), 0)):
        seen[1] = clock
        found, epoch = readers.unseen(at, order, seen, own=0)
        assert epoch == (order.epoch(1, late) if late else 0)
        assert found.any() == bool(late)
    assert readers.unseen(slice(0, 8), order, np.zeros(AGENTS, np.int32), own=1)[1] == order.epoch(2, 1)
