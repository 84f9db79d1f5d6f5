"""The kinds of things that are fuzzed: each takes a seed, and says what became of it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from tests.fuzz.running import Outcome


def _programs(seed: int) -> Outcome:
    from tests.fuzz.draw import draw
    from tests.fuzz.running import check

    return check(draw(seed))


def _of(module: str, function: str) -> Callable[[int], Outcome]:
    """A function of a seed that gives an outcome, or nothing and fails by raising."""

    def check(seed: int) -> Outcome:
        try:
            return getattr(import_module(f"tests.fuzz.{module}"), function)(seed) or Outcome("ok")
        except AssertionError as error:
            return Outcome("wrong", str(error))

    return check


KINDS: dict[str, Callable[[int], Outcome]] = {
    "programs": _programs,
    "ptx": _of("ptx", "check_ptx_seed"),
    "mutants": _of("mutants", "check_mutant_seed"),
    "files": _of("files", "check_file_seed"),
}
