"""A program that adds up products which no one kernel does, as operands differ in their types, cut in two: the first
leaves one product in f32, and the second reads it where the product stood.

    C[m,n] = relu(A[m,k] @ B[n,k] scale(1x128, 128x128) + alpha * (D[m,r]:bf16 @ E[n,r]:bf16))
    -->
    DE_f32[m,n]:f32 = D[m,r]:bf16 @ E[n,r]:bf16
    C[m,n] = relu(A[m,k] @ B[n,k] scale(1x128, 128x128) + alpha * (DE_f32[m,n]:f32))

The ranges of the first are those that say which group a row is of; others leave points out, which it computes too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scalec.errors import NAME, Place
from scalec.formats import WHOLE_SUMS
from scalec.frontend import ast
from scalec.frontend.cut import Cut, dims_of, text_of, unused
from scalec.frontend.diagnostics import Source
from scalec.frontend.parser import parse

INVARIANT = "invariant"


def differ(source: str) -> bool:
    """Whether a program has products of which one's operands have other types, or scales, than another's; or several of
    whole numbers, of which no kernel computes anything before they are added up.

    Raises:
        SourceError: the text is no program.
    """
    found, types = list[ast.Contract](), dict[str, str]()
    for x in ast.walk(parse(Source(source, NAME))):
        if isinstance(x, ast.Contract):
            found.append(x)
        elif isinstance(x, ast.Tensor) and x.type is not None:
            types[x.name.text] = x.type.text

    def kind(side: ast.Node) -> tuple[object, ...]:
        tensors = (x.name.text for x in ast.walk(side) if isinstance(x, ast.Tensor))
        return type(side), *(types.get(x, "") for x in tensors)

    kinds = {(kind(x.left), kind(x.right), x.scale is None or text_of(source, x.scale)) for x in found}
    return len(kinds) > 1 or (len(found) > 1 and not WHOLE_SUMS.isdisjoint(types.values()))


def cut_sum(source: str, place: Place) -> Cut | None:
    """The program in two, the first of which has the product at a place of the text; None where a text does not say it:
    of rows that an index from memory may leave out, or that ranges of several groups share.

    Raises:
        SourceError: the text is no program.
    """
    program = parse(Source(source, NAME))
    starts = [0, *(i + 1 for i, c in enumerate(source) if c == "\n")]
    at = starts[place.line - 1] + place.column - 1
    for s in program.statements:
        path = _path(s.value, at)
        if path is not None:
            return _cut(source, program, s, path)
    return None


def _cut(source: str, program: ast.Program, s: ast.Statement, path: Sequence[ast.Node]) -> Cut | None:
    contract = path[-1]
    if not isinstance(contract, ast.Contract):
        return None
    sides = [dims_of(contract.left), dims_of(contract.right)]
    inside = sides[0] | sides[1]
    reduced = [x for r in path if isinstance(r, ast.Reduce) for x in r.indices]
    dims = [x for x in dims_of(*s.target.indices, *reduced) if x in inside]
    groups = inside - set(dims) - sides[0] & sides[1]
    tensors = [x for side in (contract.left, contract.right) for x in ast.walk(side) if isinstance(x, ast.Tensor)]
    if any(isinstance(x, (ast.IndexRead, ast.Name)) for t in tensors for i in t.indices for x in ast.walk(i)):
        return None
    ranges, told = list[str](), set[str]()
    for r in s.ranges:
        read = dims_of(r.lower, r.upper) & inside
        if r.dim.text in dims and not read & groups:
            continue  # points outside are computed, too
        if r.otherwise is not None or r.dim.text not in inside:
            return None
        told |= read
        ranges.append(" ".join(text_of(source, r).split()))
    if not groups <= told or any(x.name.text == INVARIANT for t in program.statements for x in t.settings):
        return None
    between = unused(program, f"{''.join(dict.fromkeys(t.name.text for t in tensors))}_f32", "_scale")
    read = f"{between}[{','.join(dims)}]:f32"
    first = " ".join([read, "=", text_of(source, contract), *ranges])
    start, end = contract.span
    return Cut.of(first, source[:start] + read + source[end:], between)


def _path(node: ast.Node, at: int) -> list[ast.Node] | None:
    """The nodes from one down to the contraction that begins at a place of the text; None where there is none."""
    if isinstance(node, ast.Contract):
        return [node] if node.span[0] == at else None
    inner = {ast.Binary: ("left", "right"), ast.Call: ("arguments",)}.get(type(node), ("value",))
    for x in (y for name in inner for y in _several(getattr(node, name, ()))):
        if (found := _path(x, at)) is not None:
            return [node, *found]
    return None


def _several(x: object) -> Iterable[ast.Node]:
    return x if isinstance(x, tuple) else (x,) if isinstance(x, ast.Node) else ()
