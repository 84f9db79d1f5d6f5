"""Text to the `scale` dialect: `build` reads, resolves and builds one program."""

from __future__ import annotations

from collections.abc import Mapping

from scalec.errors import NAME, SourceError
from scalec.frontend.affine import LIMIT
from scalec.frontend.build import Builder
from scalec.frontend.diagnostics import Source
from scalec.frontend.names import check_dim
from scalec.frontend.parser import parse
from scalec.frontend.resolve import Resolver
from scalec.ir.context import verify
from scalec.ir.mlir import ir
from scalec.sizes import Range, Size, fixed, ranges

__all__ = ["NAME", "build"]


def build(source: str, dims: Mapping[str, Size] | None = None, name: str = NAME) -> ir.Module:
    """The `scale` module of a program, in the current MLIR context (scalec.ir.context.context).

    Args:
        source: the program's text.
        dims: extents that are known at compile time, in elements; they become static extents of the types. A
            dimension that only indices from memory reach is called `<tensor>_<position>`: `B_0` of `B[e[m/128],n,k]`.
            One with a range stays dynamic; passes choose for the range's upper end. So does one of 0, whose range ends
            there: no kernel is made for a size of 0, but any that takes the size at the call takes 0.
        name: what messages call the text.

    Raises:
        SourceError: with the place, what was found, what was expected and the fix.
    """
    sizes = dict(dims or {})
    for key, size in sizes.items():
        ends = size if isinstance(size, Range) else (size,)
        wrong = any(isinstance(e, bool) or not isinstance(e, int) or not 0 <= e <= LIMIT for e in ends)
        if wrong or ends[0] > ends[-1]:
            raise SourceError(
                f"dims gives {key} = {size!r}, which is no extent",
                got=f"{key} = {size!r}",
                expected=f"an integer from 0 to {LIMIT}" + (", the smaller one first" if len(ends) > 1 else ""),
            )
    sizes = {key: size or Range(0, 0) for key, size in sizes.items()}
    text = Source(source, name)
    program = Resolver(text, fixed(sizes)).program(parse(text))
    for key in ranges(sizes):
        check_dim(key, program.dims)
    module = Builder(program, text).module(ranges(sizes))
    verify(module, "the front end")
    return module
