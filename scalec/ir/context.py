"""One way to open an MLIR context that has our dialects, and to turn MLIR's diagnostics into our errors."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from scalec.errors import ScalecError
from scalec.ir import scale_round  # noqa: F401 - its ops are the dialect's
from scalec.ir.mlir import ir
from scalec.ir.scale_functions import Scale
from scalec.ir.tile import Tile


class IRError(ScalecError):
    """Text that is not IR, or IR that does not verify. Its message is MLIR's own diagnostic."""


_USES = 128
"""How often a context is used: making one takes 40 ms, and it keeps all attributes. With 16 uses a process was no
smaller after 267 compilations (2026-11-28)."""
_idle: list[tuple[ir.Context, int]] = []  # contexts that nobody is in, and how often they have been used
_making = threading.Lock()
"""Held while dialects load: `load` keeps its module in the class, and of two at a time one would load the module of the
other's context, which ends the process. What is done in a context needs no lock: nobody else is in it."""


def _forked() -> None:
    """In a process that is forked, whatever threads of the one before held or used is left alone."""
    global _making
    _making = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@contextmanager
def context() -> Iterator[ir.Context]:
    """A context with `scale` and `tile` loaded, entered, with an unknown location; nobody else is in it."""
    try:
        ctx, uses = _idle.pop()
    except IndexError:
        ctx, uses = _made(), 0
    try:
        with ctx, ir.Location.unknown():
            yield ctx
    finally:
        if uses + 1 < _USES:
            _idle.append((ctx, uses + 1))


def _made() -> ir.Context:
    with _making, ir.Context() as ctx, ir.Location.unknown():
        Scale.load()
        Tile.load()
    return ctx


def parse(text: str, name: str = "<module>") -> ir.Module:
    """Parses and verifies a module in the current context.

    Raises:
        IRError: with MLIR's diagnostic.
    """
    if _depth(text) > MOST_DEPTH:
        raise IRError(f"{name} has more than {MOST_DEPTH} brackets inside each other")
    try:
        return ir.Module.parse(text.encode())
    except UnicodeEncodeError as error:
        raise IRError(f"{name} is not text", got=f"U+{ord(text[error.start]):04X} at {error.start}") from None
    except ir.MLIRError as error:
        raise IRError(str(error).replace('error: "-":', f"  {name}:").strip()) from None


MOST_DEPTH = 256
"""Brackets inside each other: of some thousands, MLIR's parser overruns its stack and ends the process."""


def _depth(text: str) -> int:
    """Brackets inside each other, at the most."""
    depth = most = 0
    for mark in re.findall(r"->|[{}()\[\]<>]", text):
        depth = max(0, depth + 1 if mark in "{([<" else depth - (mark != "->"))
        most = max(most, depth)
    return most


def verify(module: ir.Module, after: str) -> None:
    """Verifies `module`.

    Raises:
        IRError: naming the step `after` which the module became invalid.
    """
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise IRError(f"invalid IR after {after}: {error}") from None
