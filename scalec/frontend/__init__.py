"""Text to the `scale` dialect: `build` reads, resolves and builds one program."""

from __future__ import annotations

from collections.abc import Mapping

from scalec.errors import SourceError
from scalec.frontend.affine import LIMIT
from scalec.frontend.build import Builder
from scalec.frontend.diagnostics import Source
from scalec.frontend.parser import parse
from scalec.frontend.resolve import Resolver
from scalec.ir.context import verify
from scalec.ir.mlir import ir

__all__ = ["NAME", "build"]


NAME = "<program>"
"""What messages call a text that comes from no file."""


def build(source: str, dims: Mapping[str, int] | None = None, name: str = NAME) -> ir.Module:
    """The `scale` module of a program, in the current MLIR context (scalec.ir.context.context).

    Args:
        source: the program's text.
        dims: extents that are known at compile time, in elements; they become static extents of the types. A
            dimension that only indices from memory reach is called `<tensor>_<position>`: `B_0` of `B[e[m/128],n,k]`.
        name: what messages call the text.

    Raises:
        SourceError: with the place, what was found, what was expected and the fix.
    """
    sizes = dict(dims or {})
    for key, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= LIMIT:
            raise SourceError(
                f"dims gives {key} = {size!r}, which is no extent",
                got=f"{key} = {size!r}",
                expected=f"an integer from 1 to {LIMIT}",
            )
    text = Source(source, name)
    module = Builder(Resolver(text, sizes).program(parse(text)), text).module()
    verify(module, "the front end")
    return module
