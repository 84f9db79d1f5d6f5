"""One way to open an MLIR context that has our dialects, and to turn MLIR's diagnostics into our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scalec.errors import ScalecError
from scalec.ir.mlir import ir
from scalec.ir.scale import Scale
from scalec.ir.tile import Tile


class IRError(ScalecError):
    """Text that is not IR, or IR that does not verify. Its message is MLIR's own diagnostic."""


@contextmanager
def context() -> Iterator[ir.Context]:
    """A fresh context with `scale` and `tile` loaded, entered, with an unknown location."""
    with ir.Context() as ctx, ir.Location.unknown():
        Scale.load()
        Tile.load()
        yield ctx


def parse(text: str, name: str = "<module>") -> ir.Module:
    """Parses and verifies a module in the current context.

    Raises:
        IRError: with MLIR's diagnostic.
    """
    try:
        return ir.Module.parse(text)
    except ir.MLIRError as error:
        raise IRError(f"{name}: {error}") from None


def verify(module: ir.Module, after: str) -> None:
    """Verifies `module`.

    Raises:
        IRError: naming the step `after` which the module became invalid.
    """
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise IRError(f"invalid IR after {after}: {error}") from None
