"""Writes tests/repeats.txt, what a usual run passes over: `python -m tests.repeats 16` on so many cores.

A case that takes long enough to count is usual if it reaches something (tests/reach.py) that the others do not. Chosen
are those that reach most for their time: all that all cases together reach is reached, but for a few blocks of the
lowering on one target or another (LEAST). It takes three minutes of 64 cores. To be run when the usual tests have
become slow: what is not in the list is as its marks say.

`python -m tests.repeats 2 tests/emulator/test_reductions.py` adds what repeats among the usual cases of some files, as
if there were no others: seconds for a new file, and what all reach together is reached still.
"""

from __future__ import annotations

import heapq
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from pathlib import Path

from tests import reach
from tests.reach import Case, Lowered
from tests.tiers import REPEATS

CHEAP = 0.1
"""CPU seconds: cases that take less are usual whatever they reach, and of each test the quickest that takes less than
twice as much. Nine of ten cases of a usual run, they take a fifth of its time."""

HEAD = """\
# Cases that take seconds and reach nothing that the others of a usual run do not: thorough, as if they were marked so.
# Below a file its tests, below a test its cases; a test without cases is thorough with all of them.
# Written by `python -m tests.repeats`, which says how.
"""

LEAST = 2
"""Things for each second: a case that adds fewer is not usual if it only repeats, on its target, what is reached of the
lowering for others. A ninth of the time goes for one such block in 130."""


def chosen(cases: Sequence[Case], cheap: float = CHEAP) -> set[str]:
    """Names of the cases of a usual run: the cheap ones, and of the others those that add most for their time, less
    those that add nothing to the ones that came later."""
    quickest = {c.name.partition("[")[0]: c for c in sorted(cases, key=lambda c: -c.seconds)}.values()
    sure = {c.name for c in cases if c.seconds < cheap} | {c.name for c in quickest if c.seconds < 2 * cheap}
    kept = [c for c in cases if c.name in sure]
    reached = Counter(thing for c in kept for thing in c.reached)
    dear = [c for c in cases if c.name not in sure]
    waiting = [(-len(c.reached) / c.seconds, i) for i, c in enumerate(dear)]
    heapq.heapify(waiting)
    while waiting:
        # what a case adds only shrinks: one that still adds most when it is looked at again adds most of all
        _, i = heapq.heappop(waiting)
        added = [thing for thing in dear[i].reached if not reached[thing]]
        rate = len(added) / dear[i].seconds
        if rate and waiting and -rate > waiting[0][0]:
            heapq.heappush(waiting, (-rate, i))
        elif _worth(added, dear[i]):
            kept.append(dear[i])
            reached.update(dear[i].reached)
    for case in sorted(kept, key=lambda c: -c.seconds):
        if case.name not in sure and not _worth([thing for thing in case.reached if reached[thing] == 1], case):
            kept.remove(case)
            reached.subtract(case.reached)
    return {c.name for c in kept}


def _worth(added: Collection[Hashable], case: Case) -> bool:
    return len(added) >= LEAST * case.seconds or not all(isinstance(thing, Lowered) for thing in added)


Listed = dict[str, dict[str, list[str]]]  # file -> test -> its cases, none for all


def text(cases: Iterable[str], kept: set[str]) -> str:
    """The list of those of the cases that are not kept."""
    tests: dict[str, list[str]] = defaultdict(list)
    for name in cases:
        tests[name.partition("[")[0]].append(name)
    found: Listed = defaultdict(dict)
    for test, names in tests.items():
        over = [name for name in names if name not in kept]
        if over:
            file, _, function = test.partition("::")
            found[file][function] = [] if len(over) == len(names) else [name.removeprefix(test) for name in over]
    return _written(found)


def added(old: str, names: Iterable[str]) -> str:
    """A list with more cases."""
    found: Listed = defaultdict(dict)
    file = function = ""
    for line in old.splitlines():
        if line.startswith("    "):
            found[file][function].append(line[4:])
        elif line.startswith("  "):
            function = line[2:]
            found[file][function] = []
        elif not line.startswith("#"):
            file = line
    for name in names:
        test, bracket, rest = name.partition("[")
        file, _, function = test.partition("::")
        found[file].setdefault(function, []).extend([bracket + rest] if bracket else [])
    return _written(found)


def _written(listed: Listed) -> str:
    lines = [HEAD]
    for file, tests in sorted(listed.items()):
        lines.append(f"{file}\n")
        for function, cases in sorted(tests.items()):
            lines += [f"  {function}\n", *(f"    {case}\n" for case in sorted(cases))]
    return "".join(lines)


def main(processes: str = "2", *files: str) -> int:
    which = "not gpu and not thorough" if files else "not gpu and (not thorough or repeats)"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-n", processes, "-p", "tests.reach", "-p", "no:cacheprovider",
                   "-m", which, *files]  # fmt: skip
        done = subprocess.run(command, env={**os.environ, reach.FOLDER: folder}, check=False)
        cases = list(reach.cases(Path(folder)))
    kept = chosen([c for c in cases if c.passed]) | {c.name for c in cases if not c.passed}
    names = [c.name for c in cases]
    over = [name for name in names if name not in kept]
    REPEATS.write_text(added(REPEATS.read_text(), over) if files else text(names, kept))
    for what, some in ("all", cases), ("usual", [c for c in cases if c.name in kept]):
        print(f"{what}: {len(some)} cases, {sum(c.seconds for c in some):.0f} s of CPU time")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
