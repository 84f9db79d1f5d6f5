"""The tuner: for each range of M, candidates that are predicted to be fast, compiled and timed, the fastest kept.

It knows no GPU: what times kernels is a `Timer`, what compiles them a function, and both may be a test's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Any, Protocol

from scalec import compiler
from scalec.arguments import check_fields, checked
from scalec.bench.routings import combined, routings
from scalec.errors import ArgumentError, ScalecError
from scalec.ladder import TOPS, parts
from scalec.measured.database import Entry
from scalec.runtime.cache import Compiled, fingerprint, normalised
from scalec.runtime.dispatch import order_of_sums
from scalec.schema import within
from scalec.sizes import MOST, Range, Size
from scalec.tuning.build import Built, Recipe, contents, fields
from scalec.tuning.contest import contest
from scalec.tuning.journal import Found, Journal
from scalec.tuning.ranking import Ranked, ranked, work

DEFAULT = "default"
"""The name of what the compiler chooses by itself."""


class Samples(Protocol):
    """Kernels at one size, ready to be timed."""

    @property
    def wrong(self) -> Mapping[str, str]:
        """Kernels whose result is wrong, and how."""
        ...

    @property
    def peers(self) -> Sequence[str]:
        """Other implementations of the same, by name, which `sample` times too."""
        ...

    def sample(self, name: str, routing: str) -> float:
        """Microseconds of one launch."""
        ...


class Timer(Protocol):
    """What times kernels."""

    def facts(self) -> dict[str, str]:
        """Of the machine: "gpu", "driver", "target" and what else there is to say."""
        ...

    def open(
        self, kernels: Mapping[str, Compiled], dims: Mapping[str, int], routings: Sequence[str]
    ) -> AbstractContextManager[Samples]:
        """Checks kernels at sizes, with each routing (scalec.bench.routings), and makes them ready."""
        ...


Compile = Callable[[Iterable[Recipe]], Iterator[tuple[Recipe, Built]]]
"""Compiles recipes, in any order; see scalec.tuning.build.pool."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much."""


def _sizes(m: Range) -> str:
    ends = all(isinstance(end, int) and 0 < end <= MOST for end in m) and m.low <= m.high
    return "" if ends else f"sizes within 1 to {MOST}, the smaller first"


@dataclass(frozen=True)
class Job:
    """What to tune.

    Attributes:
        source: the program.
        target: a row of scalec.targets.
        dims: sizes of all dimensions but M.
        m: the range of M.
        schedule: fields that are decided, over those of the program.
        candidates: how many schedules are tried for each part of the range, beside the compiler's own.
        rounds: samples of those that stay to the end.

    Raises:
        ArgumentError: a field is of another kind.
    """

    source: str
    target: str
    dims: dict[str, Annotated[int, within(1, MOST)]]
    m: Annotated[Range, _sizes]
    schedule: dict[str, str] = field(default_factory=dict)
    candidates: Annotated[int, within(0, MOST)] = 12
    rounds: Annotated[int, within(1, MOST)] = 31

    def __post_init__(self) -> None:
        check_fields(self)


@checked
def tune(
    job: Job,
    timer: Timer,
    compile_all: Compile,
    journal: Callable[[Any, str], Journal],
    progress: Progress = lambda what, done, total: None,
    rank: Callable[[str, str, Mapping[str, int]], list[Ranked]] = ranked,
) -> list[Found]:
    """Tunes a program for all parts of a range of M; what the journal has is not done again.

    Args:
        journal: opens the journal of a job, given what identifies it and a line for people.
        rank: candidates at sizes, best first.

    Raises:
        ArgumentError: an argument of another kind.
        ScalecError: a refusal of the compiler, a size that is missing, or a GPU of another kind.
    """
    space = _Space.of(job)
    facts = timer.facts()
    if facts.get("target", job.target) != job.target:
        raise ScalecError(
            f"kernels for {job.target} do not run on {facts.get('gpu')}",
            expected=facts["target"],
            fix=f"--target {facts['target']}",
        )
    notes = journal(space.identity(facts), f"{' '.join(job.source.split())} on {facts.get('gpu')}")
    every = parts(job.m, TOPS)
    left = [m for m in every if m not in notes.done]
    kernels = _kernels(space, left, notes, compile_all, progress, rank)
    for i, m in enumerate(every):
        progress("measuring", i, len(every))
        if m not in notes.done:
            notes.finish(_measured(space, m, kernels[m], timer, notes))
    progress("measuring", len(every), len(every))
    return [notes.done[m] for m in every]


@dataclass(frozen=True)
class _Space:
    """A job, and what the compiler says of it: the names of M, N, K and further dimensions, the fields that are given,
    and the dimensions without a size that an index for each of another's reaches."""

    job: Job
    roles: tuple[str, ...]
    given: dict[str, str]
    reached: dict[str, str]

    @staticmethod
    def of(job: Job) -> _Space:
        _, roles = compiler.decide(job.source, job.target, job.dims, job.schedule, tuned=False)
        m, *others = roles
        reached = compiler.reached(job.source, job.target, job.dims)
        groups = [name for name, along in reached.items() if not along]
        missing = [name for name in (*others, *groups) if name not in job.dims]
        if missing:
            raise ArgumentError(
                f"no size for {' and '.join(missing)}", fix=f"give --dim {','.join(f'{d}=...' for d in missing)}"
            )
        if m in job.dims:
            raise ArgumentError(
                f"{m} is fixed, and it is tuned over {job.m}", fix=f"leave {m} out of --dim, and give --m"
            )
        few = parts(job.m, TOPS)[0]
        _, own = compiler.decide(job.source, job.target, {**job.dims, m: few}, job.schedule, tuned=False)
        if own[0] != m:
            raise ArgumentError(
                f"tiles run along {own[0]} = {job.dims[own[0]]} where {m} = {few}, and schedules are kept by sizes of "
                "what they run along",
                expected=f"{m} beyond {job.dims[own[0]]}",
                fix=f"--dim {m}=..., and --m with sizes of {own[0]}; or an --m that begins further up",
            )
        return _Space(job, roles, compiler.given_fields(job.source, job.dims, job.schedule), reached)

    def identity(self, facts: Mapping[str, str]) -> Any:
        """What has to be the same for a journal's lines to hold."""
        job = self.job
        return [normalised(job.source), job.target, sorted((d, int(size)) for d, size in job.dims.items()),
                self.given, int(job.candidates), int(job.rounds),
                facts.get("gpu"), facts.get("driver"), contents(), fingerprint()[1]]  # fmt: skip

    def sizes(self, m: Range) -> dict[str, int]:
        """The sizes that a part of the range is measured at: of what rows are gathered from, or scattered into, as many
        as there are."""
        sizes = {**self.job.dims, self.roles[0]: m.high}
        return {**sizes, **{name: sizes[along] for name, along in self.reached.items()}}

    def recipe(self, m: Range, name: str, schedule: Mapping[str, str]) -> Recipe:
        """A candidate's recipe: compiled for the whole part, as it will run."""
        dims: dict[str, Size] = {**self.job.dims, self.roles[0]: m}
        decided = {**self.job.schedule, **schedule}
        return Recipe(name, self.job.source, self.job.target, tuple(dims.items()), tuple(decided.items()))


def _kernels(
    space: _Space,
    left: Sequence[Range],
    notes: Journal,
    compile_all: Compile,
    progress: Progress,
    rank: Callable[[str, str, Mapping[str, int]], list[Ranked]],
) -> dict[Range, dict[str, Compiled]]:
    """Candidates of each part of the range by name, the compiler's own choice first, then the best predicted."""
    recipes: dict[Recipe, Range] = {}
    wanted: dict[Range, list[str]] = {}
    for i, m in enumerate(left):
        progress("ranking", i, len(left))
        out, wanted[m] = notes.out(m), [DEFAULT]
        recipes[space.recipe(m, DEFAULT, {})] = m
        for candidate in rank(space.job.source, space.job.target, space.sizes(m))[: space.job.candidates]:
            schedule = {f: v for f, v in candidate.schedule.items() if f not in space.given}
            name = fields(schedule)
            if name and name not in out and name not in wanted[m]:
                wanted[m].append(name)
                recipes[space.recipe(m, name, schedule)] = m
    progress("ranking", len(left), len(left))
    built: dict[Range, dict[str, Built]] = {m: {} for m in left}
    for done, (recipe, result) in enumerate(compile_all(recipes), 1):
        built[recipes[recipe]][recipe.name] = result
        progress("compiling", done, len(recipes))
    made: dict[Range, dict[str, Compiled]] = {}
    for m in left:
        default = built[m][DEFAULT]
        if isinstance(default, str):
            raise ScalecError(f"the compiler's own choice for {space.roles[0]} = {m} does not compile", got=default)
        order = order_of_sums(default.spec.schedule) if space.given.get("invariant") == "1" else None
        seen = {default.spec.schedule}
        made[m] = {DEFAULT: default}
        for name in wanted[m][1:]:
            result = built[m][name]
            if isinstance(result, str):
                notes.refused(m, name, result)
            elif order is not None and order_of_sums(result.spec.schedule) != order:
                notes.refused(m, name, "it adds in another order than invariant asks for")
            elif result.spec.schedule not in seen:
                seen.add(result.spec.schedule)
                made[m][name] = result
    return made


def _measured(space: _Space, m: Range, kernels: dict[str, Compiled], timer: Timer, notes: Journal) -> Found:
    """Times the candidates of one part of the range."""
    sizes, dealt = space.sizes(m), routings(kernels[DEFAULT].spec)
    each: dict[tuple[str, str], list[float]] = {}
    with timer.open(kernels, sizes, dealt) as samples:

        def sample(name: str) -> float:
            times = [samples.sample(name, routing) for routing in dealt]
            for routing, us in zip(dealt, times, strict=True):
                each.setdefault((routing, name), []).append(us)
            return combined(times)

        for name, reason in samples.wrong.items():
            if name == DEFAULT:
                raise ScalecError(f"the compiler's own kernel is wrong at {space.roles[0]} = {m.high}", got=reason)
            notes.refused(m, name, reason)
        names = [name for name in kernels if name not in samples.wrong]
        standing = contest(names, sample, rounds=space.job.rounds, beside=tuple(samples.peers))
        peers = tuple(samples.peers)
    best = standing.times[standing.winner]
    for name in standing.dropped:
        if name != DEFAULT:
            notes.slow(m, name, standing.times[name], best)
    spec = kernels[standing.winner].spec
    text = dict(part.split("=", 1) for part in spec.schedule.split(", "))
    flop, least = work(space.job.source, space.job.target, sizes)
    return Found(
        m=m,
        at=m.high,
        winner=standing.winner,
        schedule=text,
        us=round(best, 3),
        default_us=round(standing.times[DEFAULT], 3),
        roofline_us=float(f"{1e6 * least:.4g}"),  # 0.0002 of 8x8x8
        flop=flop,
        times={name: round(us, 3) for name, us in standing.times.items()},
        peers=peers,
        routings={
            routing: {name: round(median(us), 3) for (other, name), us in each.items() if other == routing}
            for routing in dealt
            if routing
        },
    )


def entries(job: Job, found: Sequence[Found], facts: Mapping[str, str]) -> list[Entry]:
    """What the database is to keep of a run."""
    space = _Space.of(job)
    program = compiler.program_key(job.source, job.target, job.dims)
    _, n, k, *_ = space.roles
    return [
        Entry(
            target=job.target,
            program=program,
            n=job.dims[n],
            k=job.dims[k],
            m=one.m,
            given=space.given,
            schedule={f: v for f, v in one.schedule.items() if f not in space.given},
            facts={**facts, "us": one.us, "default_us": one.default_us, "at": one.at},
        )
        for one in found
    ]
