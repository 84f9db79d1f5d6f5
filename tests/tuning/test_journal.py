"""The journal of a tuning run: what is written is found again, by the same job alone."""

from __future__ import annotations

import json

from scalec.sizes import Range
from scalec.tuning.journal import Journal

LOW, HIGH = Range(1, 16), Range(17, 32)


def test_what_was_found_is_found_again(tmp_path) -> None:
    path = tmp_path / "deep" / "tuning.journal"
    one = Journal(path, ["job"], "C on a GPU")
    assert (one.done, one.out(LOW)) == ({}, {})
    assert not path.exists()
    one.refused(LOW, "tile=1x1x1", "no such tile")
    one.slow(LOW, "tile=64x64x128", 9.0, 7.0)
    one.finish(HIGH, {"us": 7.0})
    for again in (one, Journal(path, ["job"], "C on a GPU")):
        assert again.done == {HIGH: {"us": 7.0}}
        assert again.out(LOW) == {"tile=1x1x1": "no such tile", "tile=64x64x128": "9.00 us where the best took 7.00"}
        assert again.out(HIGH) == {}


def test_another_job_does_not_see_it(tmp_path) -> None:
    path = tmp_path / "tuning.journal"
    Journal(path, ["one GPU"], "").finish(LOW, {"us": 1})
    other = Journal(path, ["another GPU"], "")
    assert other.done == {}
    other.finish(LOW, {"us": 2})
    assert Journal(path, ["one GPU"], "").done == {LOW: {"us": 1}}
    assert Journal(path, ["another GPU"], "").done == {LOW: {"us": 2}}


def test_it_only_grows_and_says_what_and_when(tmp_path) -> None:
    path = tmp_path / "tuning.journal"
    Journal(path, ["job"], "C on a GPU").finish(LOW, {})
    before = path.read_bytes()
    Journal(path, ["job"], "C on a GPU").finish(HIGH, {})
    assert path.read_bytes().startswith(before)
    head = json.loads(before.split(b"\n")[0])
    assert head["what"] == "C on a GPU"
    assert head["began"]


def test_a_line_that_was_not_finished_is_skipped(tmp_path) -> None:
    path = tmp_path / "tuning.journal"
    Journal(path, ["job"], "").finish(LOW, {"us": 1})
    with path.open("ab") as file:
        file.write(b'{"m": [17, 32], "do')
    after = Journal(path, ["job"], "")
    assert after.done == {LOW: {"us": 1}}
    after.finish(HIGH, {"us": 2})
    assert Journal(path, ["job"], "").done == {LOW: {"us": 1}, HIGH: {"us": 2}}
