"""Results that are rounded by chance: `stochastic(x, seed[0], seed[1])`, which is all of a statement's right side."""

from __future__ import annotations

from scalec.formats import GRIDS, MOST_WORDS
from scalec.frontend import affine, ast, scales
from scalec.frontend.affine import Linear
from scalec.frontend.diagnostics import Source, one_of
from scalec.frontend.names import STOCHASTIC, Names
from scalec.frontend.program import Statement


def split(source: Source, node: ast.Statement) -> tuple[ast.Node, tuple[ast.Node, ...]]:
    """What a statement computes, and what its random bits are made of; nothing where it is rounded to nearest.

    Raises:
        SourceError: `stochastic(...)` stands within an expression, or with another number of arguments.
    """
    value = node.value
    *_, found = None, *(n for n in ast.walk(value) if isinstance(n, ast.Call) and n.name.text == STOCHASTIC)
    if found is None:
        return value, ()
    if found is not value:
        raise source.error(
            found.span,
            f"{STOCHASTIC}(...) rounds a result, and stands within an expression",
            got=source.text[slice(*value.span)],
            expected=f"{STOCHASTIC}(...) around all of the right side",
        )
    if not 2 <= len(found.arguments) <= 1 + MOST_WORDS:
        raise source.error(
            found.span,
            f"{STOCHASTIC} takes what is rounded and 1 to {MOST_WORDS} numbers of a tensor",
            got=source.text[slice(*found.span)],
            expected=f"{STOCHASTIC}(x, seed[0], seed[1])",
        )
    return found.arguments[0], found.arguments[1:]


def words(source: Source, names: Names, nodes: tuple[ast.Node, ...]) -> tuple[Linear, ...]:
    """What random bits are made of: elements of i32 tensors.

    Raises:
        SourceError: something else, or another one for each point.
    """
    found = []
    for node in nodes:
        if not isinstance(node, ast.Tensor) or node.scale is not None:
            raise source.error(
                node.span,
                f"a seed of {STOCHASTIC}(...) is an element of an i32 tensor, which each launch reads",
                got=source.text[slice(*node.span)],
                expected="seed[0]",
            )
        index = names.index(ast.IndexRead(node.span, node.name, node.indices))
        if node.type is not None:
            scales.annotate(source, names.tensors[node.name.text], node.type, "lhs")
        if any(i.terms for i in affine.symbols(index)[0].index):
            raise source.error(
                node.span,
                f"a seed of {STOCHASTIC}(...) differs from point to point",
                got=str(index),
                expected="numbers as its indices: elements have bits of their own anyway",
                fix=f"write {node.name.text}[0]",
            )
        found.append(index)
    return tuple(found)


def check(source: Source, s: Statement, target: ast.Target) -> None:
    """Refuses a result that is not rounded by chance.

    Raises:
        SourceError: it is added to, has computed indices, or a type that is not rounded to.
    """
    tensor, why, got, expected = s.tensor, "", "", ""
    if s.accumulate:
        why, got, expected = f"{tensor.name} is rounded by chance and accumulated into", "+=", "="
    elif tensor.element not in GRIDS:
        why, got = f"nothing is rounded by chance to {tensor.element}", tensor.element
        expected = one_of(GRIDS)
    elif not all(affine.plain(i) or (affine.read(i) and i != s.index[-1]) for i in s.index):
        why = f"{tensor.name} is rounded by chance and its indices are computed"
        got = f"{tensor.name}[{', '.join(map(str, s.index))}]"
        expected = "plain indices, all but the last also from memory: an element's bits go with its place"
    if why:
        raise source.error(target.span, why, got=got, expected=expected)
