"""A program that takes two launches, cut into two programs: the first leaves the sums of a result in f32.

    D[m,n]:e4m3 scale(1xn) = relu(A[m,k] @ B[n,k] + bias[n]) with stages=4
    -->
    D_f32[m,n]:f32 = relu(A[m,k] @ B[n,k] + bias[n]) with stages=4
    D[m,n]:e4m3 scale(1xn) = D_f32[m,n]:f32

Ranges of the statement's rows are those of both, one of K is the first's alone; a rounding by chance is the second's.
Where an index is read from memory, rows are skipped whose index is -1, for which the second program has no words.
"""

from __future__ import annotations

from typing import NamedTuple

from scalec.errors import NAME
from scalec.frontend import ast
from scalec.frontend.diagnostics import Source
from scalec.frontend.parser import parse

CHANCE = "stochastic"


class Cut(NamedTuple):
    """The texts of both programs, and the name of what the first leaves to the second."""

    first: str
    second: str
    between: str


def by_whole_rows(source: str) -> list[str]:
    """The results of a program with a contraction that are quantised by rows of a dimension, as `scale(1xn)`.

    Raises:
        SourceError: the text is no program.
    """
    program = parse(Source(source, NAME))
    if not any(isinstance(node, ast.Contract) for node in ast.walk(program)):
        return []
    return [x.target.name.text for x in program.statements if x.target.scale is not None and _whole(x.target.scale)]


def cut(source: str, result: str) -> Cut | None:
    """The program in two, the second of which quantises `result`; None where a text does not say it.

    Raises:
        SourceError: the text is no program.
    """
    program = parse(Source(source, NAME))
    found = [x for x in program.statements if x.target.name.text == result]
    if len(found) != 1 or found[0].accumulate:
        return None
    (statement,) = found
    indexed = (x for s in program.statements for x in ast.walk(s.target, s.value) if isinstance(x, ast.IndexRead))
    rows, last = _dims(statement.target.indices[:-1]), _dims(statement.target.indices[-1:])
    if any(indexed) or any(r.dim.text in last for r in statement.ranges):
        return None
    names = {node.name.text for node in ast.walk(program) if isinstance(node, (ast.Tensor, ast.Target, ast.IndexRead))}
    names |= {node.text for node in ast.walk(program) if isinstance(node, ast.Name)}
    between = f"{result}_f32"
    while {between, f"{between}_scale"} & names:
        between += "_"

    def text(node: ast.Node) -> str:
        return source[slice(*node.span)]

    target, value = statement.target, statement.value
    at = f"{between}[{','.join(map(text, target.indices))}]"
    sums, read = value, f"{at}:f32"
    if isinstance(value, ast.Call) and value.name.text == CHANCE and value.arguments:
        sums, *words = value.arguments
        read = f"{CHANCE}({', '.join([read, *map(text, words)])})"
    first = source[: target.span[0]] + f"{at}:f32" + source[target.span[1] : value.span[0]]
    first += text(sums) + source[value.span[1] :]
    second = " ".join([text(target), "=", read, *(text(r) for r in statement.ranges if r.dim.text in rows)])
    return Cut(first, second, between)


def _dims(indices: tuple[ast.Node, ...]) -> set[str]:
    return {node.text for node in ast.walk(*indices) if isinstance(node, ast.IndexName)}


def _whole(scale: ast.Scale) -> bool:
    """Whether an innermost block says a dimension by its name."""
    return any(not item.levels[0].block.text.replace("x", "").isdecimal() for item in scale.items)
