"""What is done with all that a statement computes: `stochastic(hadamard(x, 16), seed[0], seed[1])`."""

from __future__ import annotations

from typing import TypeGuard

from scalec.formats import GRIDS, MOST_WORDS, TRANSFORMED, WHOLE
from scalec.frontend import affine, ast, scales
from scalec.frontend.affine import Linear
from scalec.frontend.diagnostics import Source, one_of
from scalec.frontend.names import HADAMARD, STOCHASTIC, Names
from scalec.frontend.program import Statement, Tensor


def split(source: Source, node: ast.Statement) -> tuple[ast.Node, tuple[ast.Node, ...], int]:
    """What a statement computes, what its random bits are made of, none where it is rounded to nearest, and how many
    elements are transformed together, 0 where none are.

    Raises:
        SourceError: `stochastic(...)` or `hadamard(...)` stands within an expression, or with other arguments.
    """
    value, seeds, size = node.value, (), 0
    if _is(value, STOCHASTIC):
        if not 2 <= len(value.arguments) <= 1 + MOST_WORDS:
            raise source.error(
                value.span,
                f"{STOCHASTIC} takes what is rounded and 1 to {MOST_WORDS} numbers of a tensor",
                got=source.text[slice(*value.span)],
                expected=f"{STOCHASTIC}(x, seed[0], seed[1])",
            )
        value, *seeds = value.arguments
    if _is(value, HADAMARD):
        count = value.arguments[1] if len(value.arguments) == 2 else None
        if not isinstance(count, ast.Number) or count.text != str(TRANSFORMED):
            raise source.error(
                value.span,
                f"{HADAMARD} takes what is transformed and {TRANSFORMED}",
                got=source.text[slice(*value.span)],
                expected=f"{HADAMARD}(x, {TRANSFORMED}): {TRANSFORMED} elements along the result's last index together",
            )
        value, size = value.arguments[0], TRANSFORMED
    for inner in ast.walk(value):
        if _is(inner, STOCHASTIC) or _is(inner, HADAMARD):
            raise source.error(
                inner.span,
                f"{inner.name.text}(...) is of a whole result, and stands within an expression",
                got=source.text[slice(*node.value.span)],
                expected=f"{STOCHASTIC}({HADAMARD}(...), ...), or one of them, around all of the right side",
            )
    return value, tuple(seeds), size


def _is(node: ast.Node, name: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and node.name.text == name


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


def largest(source: Source, names: Names, target: ast.Target, s: Statement) -> Tensor | None:
    """The tensor of the largest magnitudes of a result's blocks that its text names, as `scale(tensor of M[0])` does:
    with one index for each that a block does not span.

    Raises:
        SourceError: it has other indices than the scales, or another type than f32.
    """
    node = target.scale.items[0].levels[0].largest if target.scale is not None else None
    if node is None or s.tensor.levels is None:
        return None
    tensor = names.tensor(node.name, len(node.indices), node.span)
    index, block = names.indices(tensor, node.indices), s.tensor.levels[0].block
    if node.type is not None:
        scales.annotate(source, tensor, node.type, "lhs")
    else:
        scales.say(source, tensor, node.span, "f32")
    wanted = [affine.divide(i, b) for i, b in zip(s.index, block, strict=True) if b != WHOLE] or [affine.constant(0)]
    if list(index) != wanted or tensor.element != "f32":
        raise source.error(
            node.span,
            f"{tensor.name} has not one f32 for each block of {s.tensor.name}",
            got=f"{tensor.name}[{', '.join(map(str, index))}]:{tensor.element}",
            expected=f"{tensor.name}[{', '.join(map(str, wanted))}]:f32",
        )
    return tensor


def check(source: Source, s: Statement, target: ast.Target) -> None:
    """Refuses a result that is not rounded by chance, or transformed.

    Raises:
        SourceError: it is added to, has computed indices, or a type that is not rounded to.
    """
    tensor, why, got, expected = s.tensor, "", "", ""
    what = "rounded by chance" if s.words else "transformed"
    if s.accumulate:
        why, got, expected = f"{tensor.name} is {what} and accumulated into", "+=", "="
    elif tensor.element not in (GRIDS if s.words else (*GRIDS, "f32")):
        why, got = f"nothing is {what} to {tensor.element}", tensor.element
        expected = one_of(GRIDS if s.words else (*GRIDS, "f32"))
    elif not all(affine.plain(i) or (affine.read(i) and i != s.index[-1]) for i in s.index):
        why = f"{tensor.name} is {what} and its indices are computed"
        got = f"{tensor.name}[{', '.join(map(str, s.index))}]"
        expected = "plain indices, all but the last also from memory"
    if why:
        raise source.error(target.span, why, got=got, expected=expected)
