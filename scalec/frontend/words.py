"""Operands whose elements of adjacent K are packed into words of 32 bits: `B[k/8,n,k%8]:u4`, as GPTQ stores weights.

B[k/8,n,k%8]  -->  B[n,k], stored as [ceil(k/8), n, 8]

And operands whose elements lie in another order within each eight of the last index, as AWQ stores weights, or within
each 128, as weights that are reordered for the tensor core (scalec.formats.FRAGMENTS):

B[k, n/8*8 + n%2*4 + n%8/2]  -->  B[k,n], stored in that order
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from scalec.formats import ELEMENT_TYPES, FORMATS, FRAGMENTS, PACKED_BITS, PER_WORD, WORD_BITS
from scalec.frontend import affine, ast
from scalec.frontend.diagnostics import Source, Span
from scalec.frontend.program import POINT, Tensor


class _Half(NamedTuple):
    """A dimension that is divided by a number, or the remainder of that: `k/8` or `k%8`."""

    operator: str
    of: ast.IndexName
    number: int
    span: Span


class How(NamedTuple):
    """How a tensor is stored: in words of its last index, or with its elements at `order`, of POINT, along that."""

    packed: bool = False
    order: affine.Linear | None = None


PERIODS = (PER_WORD, *sorted({*map(len, FRAGMENTS.values())}))
"""Elements within which an order may put them elsewhere."""

ROWS = How()
"""In rows, in order."""


def operand(
    source: Source,
    node: ast.Tensor,
    known: Tensor | None,
    index: Callable[[ast.Node], affine.Linear],
    strict: bool = True,
) -> tuple[ast.Tensor, How]:
    """A tensor as it is indexed in rows, in order, and how it is stored. `known`: what the tensor is so far; `index`:
    an index in normal form; `strict`: whether what is neither, and looks like it, is refused.

    Raises:
        SourceError: it is in words of another length, or half of an index is missing, or stands elsewhere.
    """
    if (packed := of(source, node, known, strict)) is not None:
        return packed, How(True)
    return _ordered(node, known, index) or (node, ROWS)


def of(source: Source, node: ast.Tensor, known: Tensor | None, strict: bool = True) -> ast.Tensor | None:
    """A tensor as it is indexed without words, `B[n,k]`; None where it is not in words. `known`: what the tensor is
    so far.

    Raises:
        SourceError: it is in words of another length, or half of an index is missing, or stands elsewhere.
    """
    element = _element(node, known)
    halves = {place: x for place, i in enumerate(node.indices) if (x := _half(i)) is not None}
    if element is None or ELEMENT_TYPES[element].bits != PACKED_BITS or not halves:
        return None
    each, last = PER_WORD, len(node.indices) - 1
    above, within = halves.get(last - 2), halves.get(last)
    if (
        above is None
        or within is None
        or (above.operator, within.operator, above.of.text) != ("/", "%", within.of.text)
    ):
        if strict:
            _check_halves(source, node, halves, each)
        return None
    for half in (above, within):
        if half.number != each:
            raise source.error(
                half.span,
                f"{node.name.text} is {element}, and a word of {WORD_BITS} bits has {each} of these",
                got=source.text[slice(*half.span)],
                expected=_wanted(source, node, half.of.text, each),
            )
    return replace(node, indices=(*node.indices[: last - 2], node.indices[last - 1], within.of))


def _ordered(
    node: ast.Tensor, known: Tensor | None, index: Callable[[ast.Node], affine.Linear]
) -> tuple[ast.Tensor, How] | None:
    """Likewise of an operand of PACKED_BITS whose last index is an order within each so many of PERIODS; None of
    another."""
    element, last = _element(node, known), node.indices[-1] if node.indices else None
    if element is None or ELEMENT_TYPES[element].bits != PACKED_BITS or last is None or isinstance(last, ast.IndexName):
        return None
    names = {x.text: x for x in ast.walk(last) if isinstance(x, ast.IndexName)}
    if len(names) != 1 or any(isinstance(x, ast.IndexRead | ast.IndexSize) for x in ast.walk(last)):
        return None
    ((name, own),) = names.items()
    at = affine.put(index(last), name, affine.atom(affine.Dim(POINT)))
    if not places(at):
        return None
    return replace(node, indices=(*node.indices[:-1], own)), How(False, at)


def places(order: affine.Linear) -> list[int]:
    """Where each of the first elements lies that are in each other's places: a word's, in any order, or as many as one
    of FRAGMENTS, in that; none elsewhere."""
    for each in PERIODS:
        found = [x for i in range(each) if (x := affine.value(order, {POINT: i})) is not None]
        if affine.step(order, each) != each or sorted(found) != [*range(each)]:
            continue
        if each == PER_WORD or tuple(found.index(i) for i in range(each)) in FRAGMENTS.values():
            return found
    return []


def note(source: Source, node: ast.Tensor, tensor: Tensor, how: How) -> None:
    """Notes how one use of a tensor has it stored; refuses what another use contradicts."""
    if tensor.words is not None and (tensor.words, tensor.order) != how:
        other = tensor.words == how.packed
        raise source.error(
            node.span,
            f"{tensor.name} would be stored in two ways",
            got=source.text[slice(*node.span)],
            expected="elements in one order at every use" if other else "words at every use, or at none",
            fix="give one of the two tensors another name",
        )
    tensor.words, tensor.order = how


def written(tensor: Tensor, at: Sequence[affine.Linear]) -> Sequence[affine.Linear]:
    """Where a tensor is read, as the language writes it of one in words, or in an order."""
    if tensor.order is not None:
        return (*at[:-1], affine.put(tensor.order, POINT, at[-1]))
    if not tensor.words:
        return at
    *outer, row, k = at
    return (*outer, affine.divide(k, PER_WORD), row, affine.remainder(k, PER_WORD))


def _element(node: ast.Tensor, known: Tensor | None) -> str | None:
    said = node.type.text if node.type is not None else known.type if known is not None else ""
    said = FORMATS[said].element if said in FORMATS else said
    return said if said in ELEMENT_TYPES else None


def _half(node: ast.Node) -> _Half | None:
    if not isinstance(node, ast.IndexBinary) or node.operator not in "/%":
        return None
    if not isinstance(node.left, ast.IndexName) or not isinstance(node.right, ast.IndexConstant):
        return None
    return _Half(node.operator, node.left, int(node.right.digits), node.span)


def in_rows(node: ast.Tensor) -> tuple[ast.Node, ...]:
    """The indices that a tensor of PACKED_BITS would have in rows, in order; those of another tensor as they are."""
    element, indices = _element(node, None), [*node.indices]
    if element is None or ELEMENT_TYPES[element].bits != PACKED_BITS or not indices:
        return node.indices
    above, within = (_half(indices[-3]), _half(indices[-1])) if len(indices) > 2 else (None, None)
    if above is not None and within is not None and above.of.text == within.of.text:
        return (*indices[:-3], indices[-2], within.of) if above.number == within.number == PER_WORD else node.indices
    parts = [*ast.walk(indices[-1])]
    names = {x.text: x for x in parts if isinstance(x, ast.IndexName)}
    of_one = len(names) == 1 and not any(isinstance(x, ast.IndexRead | ast.IndexSize) for x in parts)
    ordered = {"/", "%"} <= {x.operator for x in parts if isinstance(x, ast.IndexBinary)}
    return (*indices[:-1], *names.values()) if of_one and ordered else node.indices


def _wanted(source: Source, node: ast.Tensor, k: str, each: int) -> str:
    """How an operand in words is written."""
    others = [source.text[slice(*x.span)] for x in node.indices if _half(x) is None] or ["n" if k != "n" else "m"]
    return f"{node.name.text}[{','.join([*others[:-1], f'{k}/{each}', *others[-1:], f'{k}%{each}'])}]"


def _check_halves(source: Source, node: ast.Tensor, halves: dict[int, _Half], each: int) -> None:
    """Refuses what is an operand in words but for one index: both halves of one that stand elsewhere, or one alone, of
    as many elements as a word has. Whatever else is computed kernels refuse."""
    for place, half in halves.items():
        name, said = half.of.text, source.text[slice(*half.span)]
        others = [x for i, x in enumerate(node.indices) if i != place and name in _names(x)]
        other = [x for x in halves.values() if x.operator != half.operator and x.of.text == name]
        if len(others) == len(other) <= 1 and (other or half.number == each):
            raise source.error(
                half.span,
                f"{node.name.text} has {said}, and no {name}{'%' if half.operator == '/' else '/'}{each}"
                if not other
                else f"{node.name.text} is in words of {name}, and {name}/{each} and {name}%{each} stand elsewhere",
                got=f"{node.name.text}[{','.join(source.text[slice(*x.span)] for x in node.indices)}]",
                expected=f"{_wanted(source, node, name, each)}: words of {each} elements of {name}",
                fix=_together(source, node, half, other),
            )


def _together(source: Source, node: ast.Tensor, half: _Half, other: Sequence[_Half]) -> str:
    """What to do where words have rows of several indices beside each other, `B[k/8,n,h,k%8]`; "" elsewhere."""
    spans = [x.span for x in node.indices]
    above, last = (half, other[0]) if other and half.operator == "/" else (None, None)
    if above is None or last is None or spans.index(last.span) != len(spans) - 1:
        return ""
    rows = [source.text[slice(*x)] for x in spans[spans.index(above.span) + 1 : -1]]
    if len(rows) < 2:
        return ""
    first = [source.text[slice(*x)] for x in spans[: spans.index(above.span) + 1]]
    one = f"{node.name.text}[{','.join([*first, rows[-1], source.text[slice(*spans[-1])]])}]"
    return f"view {' and '.join(rows)} as one index, {one}, and the result likewise"


def _names(node: ast.Node) -> set[str]:
    return {x.text for x in ast.walk(node) if isinstance(x, ast.IndexName)}
