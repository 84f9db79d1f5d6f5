"""Which of several kernels is the fastest, in as few samples as it takes: successive halving, interleaved."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

FIRST = 3
"""Samples of each contender before the first are dropped."""

SLACK = 0.10
"""How much slower than the best a contender may be after the first samples; half as much after each time that their
number doubles. A guess: medians of so few samples are not to drop the fastest."""

CLOSE = 0.01
"""How much slower one may be and stay, whatever the number of contenders."""

TIE = 0.003
"""Medians that differ by less are equal: of these the contender named first wins."""


@dataclass(frozen=True)
class Standing:
    """What a contest found."""

    winner: str  # the fastest
    times: dict[str, float]  # medians in microseconds, of all contenders
    samples: dict[str, int]  # how many each had
    # contenders that were clearly slower, in the order in which they were dropped, of several at once the slowest
    # first.
    dropped: tuple[str, ...]


def contest(
    names: Sequence[str], sample: Callable[[str], float], *, rounds: int, beside: Sequence[str] = (), seed: int = 5
) -> Standing:
    """Samples contenders in shuffled rounds, and drops the slower half of them as often as it shows.

    Every round samples each that is left, so that all see the same clocks.

    Args:
        names: the contenders; of equal ones the first wins.
        sample: microseconds of one launch of a contender.
        rounds: samples of those that stay to the end.
        beside: others that are sampled in every round and take no part.
        seed: of the order within rounds.

    Raises:
        ValueError: no contender.
    """
    if not names:
        raise ValueError("a contest needs a contender")
    alive, dropped, slack, step = list(names), [], SLACK, FIRST
    found: dict[str, list[float]] = {name: [] for name in (*names, *beside)}
    shuffle = random.Random(seed).shuffle
    done = 0
    while True:
        step = min(step, rounds - done)
        for _ in range(step):
            order = [*alive, *beside]
            shuffle(order)
            for name in order:
                found[name].append(sample(name))
        done += step
        now = {name: median(found[name]) for name in alive}
        best = min(now.values())
        if done >= rounds:
            break
        ordered = sorted(alive, key=now.__getitem__)
        half = set(ordered[: -(-len(ordered) // 2)])
        kept = [n for n in alive if now[n] <= (1 + CLOSE) * best or (n in half and now[n] <= (1 + slack) * best)]
        dropped += sorted((n for n in alive if n not in kept), key=now.__getitem__, reverse=True)
        alive, slack, step = kept, slack / 2, done
        if len(alive) == 1 and not beside:
            break
    winner = next(name for name in alive if now[name] <= (1 + TIE) * best)
    return Standing(
        winner,
        {name: median(times) for name, times in found.items()},
        {name: len(times) for name, times in found.items()},
        tuple(dropped),
    )
