"""A compiler that ends early, for tests of what comes before: what follows a stage is most of a compilation's time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from scalec import compiler
from scalec.lowering import ptxas

TEXTS = {"scale", "tile"}, {"scale", "tile", "nvvm", "llvm", "ptx"}
"""The stages that are there without LLVM, and without ptxas."""


def _assembled(ptx: str, arch: str, what: str) -> ptxas.Assembled:
    """No kernel; what a test has made of `judge` judges it."""
    ptxas.judge("", what)
    return ptxas.Assembled(b"none", 0)


def _lowered(made: Any, kernel: Any, row: Any, keep_nvvm: bool) -> None:
    made.texts |= {"llvm": "", "ptx": ""}


@contextmanager
def without_what_follows(stages: Collection[str]) -> Iterator[None]:
    """Compilations of this block have these stages; of those behind the last one there is nothing, or nothing true.

    ptxas is not asked, so that the first schedule is shipped, unless a test's own `ptxas.judge` refuses it.
    """
    without_llvm, without_ptxas = (set(stages) <= texts for texts in TEXTS)
    lower = _lowered if without_llvm else compiler._to_ptx
    assemble = _assembled if without_ptxas else ptxas.assemble
    with patch.object(compiler, "_to_ptx", lower), patch.object(ptxas, "assemble", assemble):
        yield
