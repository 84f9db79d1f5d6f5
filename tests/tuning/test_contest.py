"""Successive halving: the fastest wins, the clearly slower are dropped early, and those left share each round."""

from __future__ import annotations

import random

import pytest

from scalec.tuning.contest import FIRST, contest


def timer(times: dict[str, float], noise: float = 0.0, seed: int = 1):
    """(sample, names sampled so far)."""
    asked: list[str] = []
    draw = random.Random(seed).gauss

    def sample(name: str) -> float:
        asked.append(name)
        return times[name] * (1 + noise * draw(0, 1))

    return sample, asked


def test_the_fastest_wins_and_the_slow_are_dropped_first() -> None:
    times = {"default": 10.0, "slow": 30.0, "near": 10.05, "best": 9.0, "middle": 12.0}
    sample, asked = timer(times)
    found = contest(list(times), sample, rounds=31)
    assert found.winner == "best"
    assert found.samples["slow"] == FIRST
    assert found.dropped == ("slow", "middle", "near", "default")
    assert found.times == times
    assert len(asked) == sum(found.samples.values())


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_a_per_cent_does_not_drop_what_is_three_per_cent_faster(seed: int) -> None:
    times = {str(i): 100.0 * (1 + 0.03 * i) for i in range(12)}
    sample, _ = timer(times, noise=0.01, seed=seed)
    assert contest(list(times), sample, rounds=31, seed=seed).winner == "0"


def test_those_that_are_close_all_stay() -> None:
    times = {"a": 10.0, "b": 10.05, "c": 10.09, "d": 10.02}
    sample, _ = timer(times)
    found = contest(list(times), sample, rounds=20)
    assert set(found.samples.values()) == {20}
    assert not found.dropped


def test_of_equal_ones_the_first_wins() -> None:
    times = {"default": 10.02, "b": 10.0, "c": 10.01}
    sample, _ = timer(times)
    assert contest(list(times), sample, rounds=9).winner == "default"
    assert contest(["b", "default"], sample, rounds=9).winner == "b"


def test_rounds_interleave_what_is_left() -> None:
    times = {"a": 10.0, "b": 10.01}
    sample, asked = timer(times)
    contest(list(times), sample, rounds=8)
    assert [sorted(asked[i : i + 2]) for i in range(0, 16, 2)] == [["a", "b"]] * 8


def test_others_beside_are_sampled_in_every_round_and_never_win() -> None:
    times = {"a": 10.0, "b": 30.0, "peer": 1.0}
    sample, _ = timer(times)
    found = contest(["a", "b"], sample, rounds=12, beside=["peer"])
    assert (found.winner, found.samples["peer"], found.samples["a"], found.samples["b"]) == ("a", 12, 12, FIRST)


def test_one_alone_needs_no_more_samples() -> None:
    sample, asked = timer({"a": 1.0})
    assert contest(["a"], sample, rounds=31).winner == "a"
    assert len(asked) == FIRST
    with pytest.raises(ValueError, match="needs a contender"):
        contest([], sample, rounds=3)
