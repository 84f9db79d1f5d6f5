"""The kinds of things that are fuzzed: each takes a seed, and says what became of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module

from tests.fuzz.running import Outcome


def _programs(seed: int) -> Outcome:
    from tests.fuzz.forms import of_seed
    from tests.fuzz.running import LARGEST, check

    return check(of_seed(seed), largest=LARGEST)


def _gpu(seed: int) -> Outcome:
    from tests.fuzz.gpu import check_seed

    return check_seed(seed)


def _called(module: str, function: str, seed: int) -> Outcome:
    """What a function of a seed gives: an outcome, or nothing, and then it fails by raising."""
    try:
        return getattr(import_module(f"tests.fuzz.{module}"), function)(seed) or Outcome("ok")
    except AssertionError as error:
        return Outcome("wrong", str(error))


KINDS: dict[str, Callable[[int], Outcome]] = {
    "programs": _programs,
    "gpu": _gpu,
    "ptx": partial(_called, "ptx", "check_ptx_seed"),
    "mutants": partial(_called, "mutants", "check_mutant_seed"),
    "files": partial(_called, "files", "check_file_seed"),
}
