"""Candidates compiled side by side, each in a process of its own: MLIR and ptxas take about a second for one."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scalec.runtime.cache import Compiled
from scalec.sizes import Size


@dataclass(frozen=True)
class Recipe:
    """What to compile; arguments are those of scalec.compile. `name` tells candidates of one range apart."""

    name: str
    source: str
    target: str
    dims: tuple[tuple[str, Size], ...]
    schedule: tuple[tuple[str, str], ...]


MAKERS = ("abi.py", "compiler.py", "formats.py", "meetings.py", "targets.py", "frontend", "ir", "lowering", "passes")
"""What of scalec a kernel's code depends on."""


@cache
def contents() -> str:
    """A digest of MAKERS: of what is in their files, not when they were written, so that a copy elsewhere has the
    same."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    files = (f for name in MAKERS for f in ([root / name] if name.endswith(".py") else (root / name).rglob("*")))
    for file in sorted(f for f in files if f.suffix in (".py", ".lark")):
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


Built = Compiled | str
"""A kernel, or why there is none."""


def build(recipe: Recipe) -> Built:
    """Compiles one, as the compiler chooses beside the recipe's schedule; the tuning database is not asked."""
    from scalec import api
    from scalec.errors import ScalecError

    dims, schedule = dict(recipe.dims), dict(recipe.schedule)
    try:
        return api.compiled(recipe.source, recipe.target, dims, schedule, tuning=False)
    except ScalecError as error:
        return str(error).replace("\n", ";")


@contextmanager
def pool(workers: int | None = None) -> Iterator[Callable[[Iterable[Recipe]], Iterator[tuple[Recipe, Built]]]]:
    """Yields a function that compiles recipes in so many processes (as many as there are cores, if None) and gives
    each as it is done. What is not yet begun when the block is left is not begun."""
    # a process that is forked from one with a CUDA context, or with threads, is not sound
    context = multiprocessing.get_context("spawn")
    count = workers or os.cpu_count() or 1

    def run(recipes: Iterable[Recipe]) -> Iterator[tuple[Recipe, Built]]:
        futures = {executor.submit(build, r): r for r in recipes}
        for future in as_completed(futures):
            yield futures[future], future.result()

    executor = ProcessPoolExecutor(count, mp_context=context)
    try:
        yield run
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def fields(schedule: Mapping[str, str]) -> str:
    """A schedule's fields as a `with` clause writes them: the name of a candidate."""
    return ", ".join(f"{name}={value}" for name, value in schedule.items())
