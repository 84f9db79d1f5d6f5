"""The tuner with a timer that makes its times up: what is tried, what wins, what a second start does, what is kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from scalec import compiler
from scalec.commands import tune as command
from scalec.errors import ArgumentError, ScalecError
from scalec.measured import database
from scalec.runtime.cache import Compiled
from scalec.sizes import MOST, Range
from scalec.tuning import build as builder
from scalec.tuning import tuner
from scalec.tuning.build import Built, Recipe, build
from scalec.tuning.journal import Found, Journal
from scalec.tuning.ranking import Ranked
from scalec.tuning.tuner import DEFAULT, Job, Samples, entries, tune
from tests.nasty import VALUES, only_ours

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
JOB = Job(FP8, "sm_90a", {"n": 256, "k": 512}, Range(9, 32), candidates=3, rounds=8)
FACTS = {"gpu": "Made-up GPU", "driver": "1", "date": "2026-11-21 20:00", "commit": "abc", "target": "sm_90a"}

CANDIDATES = [
    Ranked({"tile": "64x64x128", "swap": "0", "split": "1"}, 1e-6),
    Ranked({"tile": "64x32x128", "swap": "0", "split": "2"}, 2e-6),
    Ranked({"tile": "64x99x128", "swap": "0", "split": "1"}, 3e-6),  # no width of an instruction
    Ranked({"tile": "64x128x128", "swap": "0", "split": "1"}, 4e-6),  # beyond the three that are tried
]


@dataclass
class MadeUp:
    """Times by the first field of `us` that a kernel's schedule has, times `by_routing`."""

    us: dict[str, float]
    bad: tuple[str, ...] = ()
    beside: dict[str, float] = field(default_factory=dict)
    opened: list[tuple[int, list[str]]] = field(default_factory=list)
    stop_at: int = 0
    by_routing: dict[tuple[str, str], float] = field(default_factory=dict)
    sizes: list[dict[str, int]] = field(default_factory=list)

    def facts(self) -> dict[str, str]:
        return FACTS

    @contextmanager
    def open(
        self, kernels: Mapping[str, Compiled], dims: Mapping[str, int], routings: Sequence[str]
    ) -> Iterator[Samples]:
        if dims["m"] == self.stop_at:
            raise KeyboardInterrupt
        assert tuple(routings) == tuple(dict.fromkeys(r for _, r in self.by_routing)) or not self.by_routing
        self.sizes.append(dict(dims))
        self.opened.append((dims["m"], list(kernels)))
        yield _Samples(self, kernels)


class _Samples:
    def __init__(self, timer: MadeUp, kernels: Mapping[str, Compiled]) -> None:
        self.timer, self.kernels = timer, kernels
        self.wrong = {n: "diff 1" for n, k in kernels.items() if any(b in k.spec.schedule for b in timer.bad)}
        self.peers = tuple(timer.beside)

    def sample(self, name: str, routing: str) -> float:
        assert name not in self.wrong
        if name in self.timer.beside:
            return self.timer.beside[name]
        schedule = self.kernels[name].spec.schedule
        us = next((us for what, us in self.timer.us.items() if what in schedule), 10.0)
        return us * next((f for (what, r), f in self.timer.by_routing.items() if what in schedule and r == routing), 1)


def one_by_one(recipes: Iterable[Recipe]) -> Iterator[tuple[Recipe, Built]]:
    return ((r, build(r)) for r in recipes)


def rank(source: str, target: str, dims: Mapping[str, int]) -> list[Ranked]:
    assert dims.keys() == {"m", "n", "k"}
    return CANDIDATES


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("SCALEC_TUNING", str(tmp_path / "tuning.json"))
    return tmp_path / "tuning.json"


@pytest.fixture
def run(tmp_path):
    def call(timer: MadeUp, job: Job = JOB, told: list | None = None, rank: Any = rank) -> list[Found]:
        def journal(identity: object, what: str) -> Journal:
            return Journal(tmp_path / "journal", identity, what)

        def progress(what: str, done: int, total: int) -> None:
            if told is not None:
                told.append((what, done, total))

        return tune(job, timer, one_by_one, journal, progress, rank)

    return call


def test_the_fastest_of_each_range_is_found_and_the_compiler_then_takes_it(run, own) -> None:
    timer, told = MadeUp({"tile=64x32x128": 5.0, "tile=64x64x128": 7.0}), []
    found = run(timer, told=told)
    assert [one.m for one in found] == [Range(9, 16), Range(17, 32)]
    assert [(one.us, one.default_us, one.schedule["split"]) for one in found] == [(5.0, 10.0, "2")] * 2
    assert [m for m, _ in timer.opened] == [16, 32]
    assert timer.opened[0][1] == [
        DEFAULT, "tile=64x64x128, swap=0, split=1", "tile=64x32x128, swap=0, split=2"]  # fmt: skip
    assert found[0].roofline_us > 0
    assert found[0].flop == 2 * 16 * 256 * 512
    assert told[-1] == ("measuring", 2, 2)
    assert ("compiling", 8, 8) in told

    database.write(own, entries(JOB, found, FACTS))
    kept = database.read(own)
    assert [(e.m, e.given, e.facts["us"], e.facts["gpu"], e.facts["at"]) for e in kept] == [
        (Range(9, 16), {}, 5.0, "Made-up GPU", 16), (Range(17, 32), {}, 5.0, "Made-up GPU", 32)]  # fmt: skip
    taken, _ = compiler.decide(FP8, "sm_90a", {"m": 10, "n": 256, "k": 512})
    assert str(taken) == ", ".join(f"{f}={v}" for f, v in found[0].schedule.items())


def test_what_the_compiler_chooses_is_kept_too_where_nothing_is_faster(run, own) -> None:
    found = run(MadeUp({}))
    assert [one.winner for one in found] == [DEFAULT, DEFAULT]
    assert found[0].us == found[0].default_us
    before, _ = compiler.decide(FP8, "sm_90a", {"m": Range(9, 16), "n": 256, "k": 512})
    database.write(own, entries(JOB, found, FACTS))
    assert compiler.decide(FP8, "sm_90a", {"m": Range(9, 16), "n": 256, "k": 512})[0] == before


def test_a_second_start_goes_on_where_the_first_ended(run) -> None:
    times = {"tile=64x32x128": 5.0, "tile=64x64x128": 7.0}
    with pytest.raises(KeyboardInterrupt):
        run(MadeUp(times, stop_at=32))
    again = MadeUp(times)
    found = run(again)
    assert [m for m, _ in again.opened] == [32]
    assert [one.us for one in found] == [5.0, 5.0]
    third = MadeUp({})
    assert run(third) == found
    assert third.opened == []


def test_another_gpu_starts_anew(run, monkeypatch) -> None:
    run(MadeUp({}))
    monkeypatch.setitem(FACTS, "gpu", "Another GPU")
    again = MadeUp({})
    run(again)
    assert [m for m, _ in again.opened] == [16, 32]


def test_another_compiler_starts_anew(run, monkeypatch) -> None:
    run(MadeUp({}))
    again = MadeUp({})
    run(again)
    assert again.opened == []
    monkeypatch.setattr(tuner, "contents", lambda: "another")
    run(again)
    assert [m for m, _ in again.opened] == [16, 32]


def test_the_compilers_digest_sees_every_file_that_makes_a_kernel(tmp_path, monkeypatch) -> None:
    root = Path(compiler.__file__).parent
    copy = tmp_path / "scalec"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(builder, "__file__", str(copy / "tuning" / "build.py"))
    digest = builder.contents.__wrapped__
    before = digest()
    assert before == builder.contents()
    (copy / "bench" / "report.py").write_text("")
    assert digest() == before
    for name in ("passes/choose/fix_order.py", "frontend/grammar.lark", "targets.py", "lowering/sm90/multiply.py"):
        (copy / name).write_text("")
        assert digest() != before
        before = digest()


def test_wrong_kernels_do_not_win_and_are_not_tried_again(run, tmp_path) -> None:
    timer = MadeUp({"tile=64x32x128": 1.0, "tile=64x64x128": 7.0}, bad=("tile=64x32x128",), stop_at=32)
    with pytest.raises(KeyboardInterrupt):
        run(timer)
    journal = (tmp_path / "journal").read_text()
    assert '"refused": "tile=64x99x128' in journal
    assert '"refused": "tile=64x32x128, swap=0, split=2", "reason": "diff 1"' in journal
    found = run(MadeUp({"tile=64x32x128": 1.0, "tile=64x64x128": 7.0}, bad=("tile=64x32x128",)))
    assert [one.us for one in found] == [7.0, 7.0]
    with pytest.raises(ScalecError, match=r"the compiler's own kernel is wrong at m = 16"):
        run(MadeUp({}, bad=("tile=",)), Job(**{**vars(JOB), "rounds": 5}))


def test_peers_are_timed_and_never_win(run, own) -> None:
    found = run(MadeUp({"tile=64x32x128": 5.0}, beside={"torch": 3.0}))
    assert (found[0].us, found[0].times["torch"], found[0].peers) == (5.0, 3.0, ("torch",))


def test_fields_that_are_given_are_kept_and_not_varied(run, own) -> None:
    job = Job(f"{FP8} with split=1", "sm_90a", {"n": 256, "k": 512}, Range(9, 16), {"order": "m"}, 3, 8)
    timer = MadeUp({"tile=64x32x128": 5.0})
    (found,) = run(timer, job)
    assert "tile=64x32x128, swap=0" in timer.opened[0][1]
    assert (found.schedule["split"], found.schedule["order"]) == ("1", "m")
    (kept,) = entries(job, [found], FACTS)
    assert kept.given == {"split": "1", "order": "m"}
    assert not kept.given.keys() & kept.schedule.keys()


def test_invariant_tries_nothing_that_adds_in_another_order(run, own) -> None:
    job = Job(f"{FP8} with invariant", "sm_90a", {"n": 256, "k": 512}, Range(9, 32), {}, 3, 8)
    found = run(MadeUp({"tile=64x32x128": 1.0, "tile=64x64x128": 5.0}), job)
    assert [(one.schedule["split"], one.schedule["tile"]) for one in found] == [("1", "64x64x128")] * 2
    database.write(own, entries(job, found, FACTS))
    assert compiler.decide(job.source, "sm_90a", {"m": 11, "n": 256, "k": 512})[0].tile == (64, 64, 128)


RAGGED = "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]"


def test_groups_are_timed_with_each_routing_and_the_mean_counts(run) -> None:
    """The candidate that is the fastest of balanced groups alone, and of one that has everything the slowest."""
    wide, narrow = "tile=64x128x64", "tile=64x64x64"
    tried = [Ranked({"tile": t.removeprefix("tile="), "swap": "0"}, 1e-6) for t in (wide, narrow)]
    factors = {(wide, "balanced"): 0.5, (wide, "zipf"): 1.0, (wide, "one-hot"): 4.0, (narrow, "balanced"): 0.9}
    timer = MadeUp({}, by_routing=factors)
    job = Job(RAGGED, "sm_90a", {"n": 256, "k": 128, "g": 4}, Range(256, 256), candidates=2, rounds=3)
    (found,) = run(timer, job, rank=lambda source, target, dims: tried)
    assert narrow in found.winner
    assert found.us == pytest.approx(10 * 0.9 ** (1 / 3), abs=1e-3)
    assert {routing: times[found.winner] for routing, times in found.routings.items()} == {
        "balanced": 9.0, "zipf": 10.0, "one-hot": 10.0}  # fmt: skip
    assert found.flop == 2 * 256 * 256 * 128
    assert command.table([found]).columns[3].header == "balanced us"


def test_sizes_of_what_indices_reach(run) -> None:
    blocks, fixed = "C[m,n] = A[m,k] @ B[e[m/128],n,k]", {"n": 256, "k": 128}
    with pytest.raises(ArgumentError, match="no size for B_0"):
        run(MadeUp({}), Job(blocks, "sm_90a", fixed, Range(256, 256)))
    timer = MadeUp({})
    gathered = "C[idx[m],n] = A[id2[m],k] @ B[n,k]"
    run(timer, Job(gathered, "sm_90a", fixed, Range(256, 256), candidates=0, rounds=1), rank=lambda *_: [])
    assert timer.sizes == [{"m": 256, "A_0": 256, "C_0": 256, **fixed}]


def test_sizes_that_are_missing_or_too_many(run) -> None:
    with pytest.raises(ArgumentError, match="no size for k") as caught:
        run(MadeUp({}), Job(FP8, "sm_90a", {"n": 256}, Range(9, 16)))
    assert caught.value.fix == "give --dim k=..."
    with pytest.raises(ArgumentError, match="m is fixed"):
        run(MadeUp({}), Job(FP8, "sm_90a", {"n": 256, "k": 512, "m": 8}, Range(9, 16)))
    with pytest.raises(ScalecError, match="kernels for sm_120a do not run on Made-up GPU") as caught:
        run(MadeUp({}), Job(FP8, "sm_120a", {"n": 256, "k": 512}, Range(9, 16)))
    assert caught.value.fix == "--target sm_90a"


def test_bad_arguments_are_refused_by_name(run) -> None:
    job = {**vars(JOB), "candidates": 0}
    for name in job:
        for value in (*VALUES, Range(0, 4), Range(5, 4), {"n": -1, "k": 512}, {"n": MOST, "k": MOST}):
            only_ours(lambda name=name, value=value: run(MadeUp({}), Job(**{**job, name: value})), (name, value))
    right = {"timer": MadeUp({}), "compile_all": one_by_one, "journal": Journal, "progress": print, "rank": rank}
    for name in ("job", *right):
        for value in VALUES:
            if not callable(value) or name in ("job", "timer"):
                with pytest.raises(ArgumentError, match=f"tune: {name} = "):
                    tune(**{"job": JOB, **right, name: value})
