"""The journal of a tuning run: what is written is found again, by the same job alone."""

from __future__ import annotations

import json
import os

import pytest

from scalec.errors import ScalecError
from scalec.sizes import Range
from scalec.tuning.journal import Found, Journal

LOW, HIGH = Range(1, 16), Range(17, 32)


def found(m: Range, us: float = 7.0) -> Found:
    return Found(
        m, m.high, "tile=64x16x128", {"tile": "64x16x128"}, us, 8.0, 5.0, 1 << 70, {"default": 8.0}, ("torch",)
    )


def test_what_was_found_is_found_again(tmp_path) -> None:
    path = tmp_path / "deep" / "tuning.journal"
    one = Journal(path, ["job"], "C on a GPU")
    assert (one.done, one.out(LOW)) == ({}, {})
    assert not path.exists()
    one.refused(LOW, "tile=1x1x1", "no such tile")
    one.slow(LOW, "tile=64x64x128", 9.0, 7.0)
    one.finish(found(HIGH))
    for again in (one, Journal(path, ["job"], "C on a GPU")):
        assert again.done == {HIGH: found(HIGH)}
        assert again.out(LOW) == {"tile=1x1x1": "no such tile", "tile=64x64x128": "9.00 us where the best took 7.00"}
        assert again.out(HIGH) == {}


def test_another_job_does_not_see_it(tmp_path) -> None:
    path = tmp_path / "tuning.journal"
    Journal(path, ["one GPU"], "").finish(found(LOW, 1))
    other = Journal(path, ["another GPU"], "")
    assert other.done == {}
    other.finish(found(LOW, 2))
    assert Journal(path, ["one GPU"], "").done == {LOW: found(LOW, 1)}
    assert Journal(path, ["another GPU"], "").done == {LOW: found(LOW, 2)}


def test_it_only_grows_and_says_what_and_when(tmp_path) -> None:
    path = tmp_path / "tuning.journal"
    Journal(path, ["job"], "C on a GPU").finish(found(LOW))
    before = path.read_bytes()
    Journal(path, ["job"], "C on a GPU").finish(found(HIGH))
    assert path.read_bytes().startswith(before)
    head = json.loads(before.split(b"\n")[0])
    assert head["what"] == "C on a GPU"
    assert head["began"]


def test_a_line_that_was_not_finished_is_skipped(tmp_path) -> None:
    path = tmp_path / "tuning.journal"
    Journal(path, ["job"], "").finish(found(LOW, 1))
    with path.open("ab") as file:
        file.write(b'{"m": [17, 32], "do')
    after = Journal(path, ["job"], "")
    assert after.done == {LOW: found(LOW, 1)}
    after.finish(found(HIGH, 2))
    assert Journal(path, ["job"], "").done == {LOW: found(LOW, 1), HIGH: found(HIGH, 2)}


@pytest.mark.parametrize(
    "line",
    ["[" * 5000, '{"m": [1, 16], "done": {}}', '{"m": [1, 16], "slow": "x", "us": 1e999, "best_us": 1}', '"job"', "{}",
     '{"m": [1, 16], "slow": "x", "us": ' + "9" * 400 + ', "best_us": 1}', '{"m": [16, 1], "refused": "x"}', "[]",
     '{"m": [1, 16], "refused": [], "reason": 3}', '{"m": [1, 16], "refused": "\\ud800"}',
     '{"m": {}, "done": {"us": 1}}', '{"refused": "x"}'],
)  # fmt: skip
def test_a_line_of_something_else_is_skipped(tmp_path, line: str) -> None:
    """A RecursionError or an OverflowError before, or a TypeError when what was found was taken up."""
    path = tmp_path / "tuning.journal"
    Journal(path, ["job"], "").finish(found(HIGH))
    with path.open("a") as file:
        file.write(line + "\n")
    after = Journal(path, ["job"], "")
    assert after.done == {HIGH: found(HIGH)}
    assert after.out(LOW) == {}


@pytest.mark.parametrize("kind", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(tmp_path, kind) -> None:
    kind(tmp_path / "journal")
    with pytest.raises(ScalecError, match="cannot be read as a journal"):
        Journal(tmp_path / "journal", ["job"], "")


def test_to_another_file_nothing_is_added(tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ScalecError, match="is no journal: nothing is added to it"):
        Journal(tmp_path / "notes.txt", ["job"], "")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    (tmp_path / "empty").write_text("")
    Journal(tmp_path / "empty", ["job"], "").finish(found(LOW))
    assert Journal(tmp_path / "empty", ["job"], "").done == {LOW: found(LOW)}
