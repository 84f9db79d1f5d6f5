"""Makes a failing case smaller: leaves out and simplifies, one thing at a time, as long as it fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from scalec.formats import FORMATS
from tests.fuzz.case import SUMS, Case, Level, Operand, Tree
from tests.fuzz.forms import of_seed
from tests.fuzz.groups import ungrouped
from tests.fuzz.running import Drawn, Outcome, check
from tests.fuzz.written import Written, from_json


def main(what: str) -> int:
    from tests.fuzz.__main__ import read

    case = of_seed(int(what)) if what.isdigit() else from_json(read(what))
    found = check(case)
    if not found.failed:
        print(f"it does not fail: {found.kind} {found.message}")
        return 0
    small, found = minimise(found.case or case, found)
    print(f"{found.kind}: {found.message}\n")
    print(f"{small.text()}\n{small.target}, known {small.known}, launches {list(small.launches)}, {small.schedule}")
    print(f"\npython -m tests.fuzz --case '{small.to_json()}'")
    return 1


def alike(a: Outcome, b: Outcome) -> bool:
    """Whether two failures are taken for one: their kinds, and of exceptions where they were raised."""
    place = [re.sub(r"\d+", "#", x.message)[:60] if x.kind in ("exception", "default") else "" for x in (a, b)]
    return a.failed and b.failed and a.kind == b.kind and place[0] == place[1]


def minimise(case: Drawn, found: Outcome, most: int = 400) -> tuple[Drawn, Outcome]:
    """The smallest case that was found, and its outcome, within so many runs."""
    runs, again = 0, True
    while again:
        again = False
        for smaller in simpler(case) if isinstance(case, Case) else plainer(case):
            if runs >= most:
                return case, found
            runs += 1
            outcome = check(smaller)
            if alike(outcome, found):
                case, found, again = outcome.case or smaller, outcome, True
                break
    return case, found


def simpler(case: Case) -> Iterator[Case]:
    """Cases that are simpler by one thing, those that are simpler by much first."""
    if case.schedule:
        yield case.but(schedule={})
    for launch in case.launches:
        if len(case.launches) > 1:
            yield case.but(launches=(launch,))
    if case.groups is not None:
        yield ungrouped(case)
        if case.groups.routing != "one":
            yield case.but(groups=replace(case.groups, routing="one"))
        if case.groups.block not in (0, 128):
            yield case.but(groups=replace(case.groups, block=128))
    if case.further:
        yield from case.each()
        yield from (case.but(further=case.further[:i] + case.further[i + 1 :]) for i in range(len(case.further)))
    if case.value != SUMS and not case.further:
        yield case.but(value=SUMS, temporary=False, inputs={})
        for value in _below(case.value):
            if value != case.value:
                smaller = case.but(value=value)
                yield smaller.but(inputs=smaller.used())
    if case.temporary:
        yield case.but(temporary=False)
    yield from (case.but(schedule={k: v for k, v in case.schedule.items() if k != name}) for name in case.schedule)
    if case.adds:
        yield case.but(adds=False)
    yield from (case.but(result=x) for x in _plainer(case.result, ("f32", "")))
    for side, x in enumerate(case.operands):
        for other in _plainer(x, ("", "e4m3")):
            yield case.but(operands=(other, case.operands[1]) if side == 0 else (case.operands[0], other))
    if case.pads and any(case.pads):
        yield case.but(pads=())
    if case.gaps:
        yield case.but(gaps=())
    if any(case.views):
        yield case.but(views=())
    for at in range(len(case.twists)):
        yield case.but(twists=case.twists[:at] + case.twists[at + 1 :])
    if not case.exact:
        yield case.but(exact=True)
    if case.ranges:
        yield case.but(ranges={})
    for name in case.known:
        yield case.but(known=tuple(d for d in case.known if d != name))
    if case.sms != 1:
        yield case.but(sms=1)
    for dim, size in next(iter(case.launches)).items():
        for smaller in dict.fromkeys((1, 8, 16, 32, 64, 128, size // 2, size - size % 16, size - 8, size - 1)):
            if 0 < smaller < size:
                yield case.but(launches=tuple({**s, dim: smaller if s[dim] == size else s[dim]} for s in case.launches))
    for name in case.schedule:
        if name == "tile":
            for tile in ("64x16x64", "64x16x128", "128x16x128", "32x16x128"):
                if tile != case.schedule[name]:
                    yield case.but(schedule={**case.schedule, name: tile})


def plainer(case: Written) -> Iterator[Written]:
    """Likewise of a text, which stays what it is but for statements and words that can go."""
    if case.schedule:
        yield case.but(schedule={})
    yield from (case.but(launches=(launch,)) for launch in case.launches if len(case.launches) > 1)
    statements = case.program.split("; ")
    for at in range(len(statements)):
        rest = statements[:at] + statements[at + 1 :]
        if rest and (smaller := case.but(program="; ".join(rest))).read.lookups.keys() <= case.routing.keys():
            yield smaller
    for old, new in WORDS:
        for match in re.finditer(old, case.program):
            yield case.but(program=match.expand(new).join((case.program[: match.start()], case.program[match.end() :])))
    yield from (case.but(schedule={k: v for k, v in case.schedule.items() if k != name}) for name in case.schedule)
    yield from (case.but(**{name: ()}) for name in ("pads", "views") if any(getattr(case, name)))
    yield from (case.but(twists=case.twists[:at] + case.twists[at + 1 :]) for at in range(len(case.twists)))
    if not case.exact:
        yield case.but(exact=True)
    yield from (case.but(known=tuple(d for d in case.known if d != name)) for name in case.known)
    yield from (case.but(routing={**case.routing, name: how}) for name in case.routing for how in ("whole", "one")
                if case.routing[name] not in ("whole", "one"))  # fmt: skip
    if case.sms != 1:
        yield case.but(sms=1)
    for dim, n in next(iter(case.launches)).items():
        for smaller in dict.fromkeys((1, 8, 16, 32, 64, 128, n // 2, n - n % 16, n - 8, n - 1)):
            if 0 < smaller < n:
                yield case.but(launches=tuple({**s, dim: smaller if s[dim] == n else s[dim]} for s in case.launches))


WORDS = (
    (r" scale\([^()]*\)", ""),
    (r"(\w\]):(?!f32)\w+", r"\1"),
    (r"(?:relu|abs|silu|gelu|sigmoid|exp)\(", "("),
    (r"(?<=[\w)\]]) [-+*/] (?:\w+\[[\w,/%]*\](?::\w+)?|[\d.]+)", ""),
    (r" apart| by \d+| about \d+", ""),
    (r"stochastic\((.*?)(?:, \w+\[[\d,]+\])+\)", r"\1"),
    (r"stochastic\((.*?, \w+\[[\d,]+\]), \w+\[[\d,]+\]\)", r"stochastic(\1)"),
    (r"hadamard\((.*?), 16\)", r"\1"),
    (r"(\w) - \w+\[\w\](?=[],])", r"\1"),
    (r"\*w\[\w+,\w+\]", ""),
)
"""What may go from a text, and what it leaves."""


def _below(tree: Tree) -> Iterator[Tree]:
    """Parts of a tree, and the tree with one of its parts simpler."""
    parts = [(i, t) for i, t in enumerate(tree) if isinstance(t, tuple)]
    yield from (t for _, t in parts if _has_sums(t))
    for i, part in parts:
        for smaller in _below(part):
            if _has_sums(smaller) or not _has_sums(part):
                yield (*tree[:i], smaller, *tree[i + 1 :])
    if tree[0] in ("max", "min") and len(tree) > 3:
        yield tree[:3]


def _has_sums(tree: Tree) -> bool:
    return tree == SUMS or any(_has_sums(t) for t in tree[1:] if isinstance(t, tuple))


def _plainer(x: Operand, types: tuple[str, ...]) -> Iterator[Operand]:
    """A tensor without scales, with fewer, or of another type."""
    if x.levels or x.type in FORMATS:
        yield replace(x, levels=(), type=x.element)
    if len(x.levels) > 1:
        yield from (replace(x, levels=(level,)) for level in x.levels)
    for i, level in enumerate(x.levels):
        if level.layout != "row":
            plain = Level(level.block, level.type)
            yield replace(x, levels=(*x.levels[:i], plain, *x.levels[i + 1 :]))
    if not x.levels:
        yield from (replace(x, type=t) for t in types if t != x.type and x.type not in ("", *types))
