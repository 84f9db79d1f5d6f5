"""A program that takes two launches, cut into two programs: the first leaves the sums of a result in f32.

    D[m,n]:e4m3 scale(1xn) = relu(A[m,k] @ B[n,k] + bias[n]) with stages=4
    -->
    D_f32[m,n]:f32 = relu(A[m,k] @ B[n,k] + bias[n]) with stages=4
    D[m,n]:e4m3 scale(1xn) = D_f32[m,n]:f32

Ranges of the statement's rows are those of both, one of K is the first's alone; a rounding by chance is the second's.

Rows are skipped whose index is negative, also by the second program: it reads the sums as if they were there once more
for each index that a row may have (scalec.runtime.sequence), where they lie once.

    D[m,n]:e4m3 scale(1xn) = A[idx[m],k] @ B[e[m/128],n,k]
    -->
    D_f32[m,n]:f32 = A[idx[m],k] @ B[e[m/128],n,k]
    D[m,n]:e4m3 scale(1xn) = D_f32[idx[m],e[m/128],m,n]:f32

    D[idx[m],n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]
    -->
    D_f32[m,n]:f32 = A[m,k] @ B[n,k]
    D[idx[m],n]:e4m3 scale(1xn) = D_f32[m,n]:f32
"""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from typing import NamedTuple

from scalec.errors import NAME
from scalec.formats import FORMATS
from scalec.frontend import ast
from scalec.frontend.diagnostics import Source
from scalec.frontend.parser import blank, parse

CHANCE = "stochastic"


class Cut(NamedTuple):
    """The texts of both programs, and the name of what the first leaves to the second."""

    first: str
    second: str
    between: str
    # operands, all scales, that the second reads with their last two indices exchanged: what it calls them, and what a
    # caller does.
    turned: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, first: str, second: str, between: str, turned: tuple[tuple[str, str], ...] = ()) -> Cut:
        """With texts of which comments left blanks."""

        def tidy(text: str) -> str:
            return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())

        return cls(tidy(first), tidy(second), between, turned)


def by_whole_rows(source: str) -> list[str]:
    """The results of a program with a contraction that are quantised by rows of a dimension, as `scale(1xn)`.

    Raises:
        SourceError: the text is no program.
    """
    return [x.name.text for x in _quantised(source) if x.scale is not None and _whole(x.scale)]


def quantised(source: str) -> list[str]:
    """The results of a program with a contraction that are quantised in any blocks.

    Raises:
        SourceError: the text is no program.
    """
    return [x.name.text for x in _quantised(source)]


def _quantised(source: str) -> list[ast.Target]:
    program = parse(Source(source, NAME))
    if not any(isinstance(node, ast.Contract) for node in ast.walk(program)):
        return []
    targets = [x.target for x in program.statements]
    return [x for x in targets if x.scale is not None or (x.type is not None and x.type.text in FORMATS)]


def cut(source: str, result: str) -> Cut | None:
    """The program in two, the second of which quantises `result`; None where a text does not say it.

    Raises:
        SourceError: the text is no program.
    """
    source = blank(source)  # a comment would end what follows it on a line here
    program = parse(Source(source, NAME))
    found = [x for x in program.statements if x.target.name.text == result]
    if len(found) != 1 or found[0].accumulate:
        return None
    (statement,) = found
    rows, last = dims_of(*statement.target.indices[:-1]), dims_of(*statement.target.indices[-1:])
    used = used_by(program, statement)
    ranges = [r for s in used for r in s.ranges if r.dim.text in rows | last and (s is statement or not r.otherwise)]
    along = {r.dim.text: " ".join(text_of(source, r).split()) for r in ranges}
    skipping = _skipping(statement, used, ranges)
    if skipping is None or along.keys() & last:
        return None
    if any(along[r.dim.text] != " ".join(text_of(source, r).split()) for r in ranges):
        return None
    between, text = unused(program, f"{result}_f32", "_scale"), partial(text_of, source)
    target, value = statement.target, statement.value
    plain = [text(x.indices[0] if isinstance(x, ast.IndexRead) else x) for x in target.indices]
    skips = dict.fromkeys("".join(text(x).split()) for x in skipping)
    at = f"{between}[{','.join(plain)}]"
    sums, read = value, f"{between}[{','.join([*skips, *plain])}]:f32"
    if isinstance(value, ast.Call) and value.name.text == CHANCE and value.arguments:
        sums, *words = value.arguments
        read = f"{CHANCE}({', '.join([read, *map(text, words)])})"
    first = source[: target.span[0]] + f"{at}:f32" + source[target.span[1] : value.span[0]]
    first += text(sums) + source[value.span[1] :]
    second = " ".join([text(target), "=", read, *along.values()])
    return Cut.of(first, second, between)


def without(source: str, field: str, value: str) -> str:
    """The program without a decision of its `with` clauses: `source` where no clause has it."""
    left = source
    for statement in parse(Source(source, NAME)).statements[::-1]:
        every = [(x.span, (x.name.text, x.value.text if x.value is not None else "")) for x in statement.settings]
        kept = [source[slice(*span)] for span, said in every if said != (field, value)]
        if len(kept) < len(every):
            start, end = every[0][0][0], every[-1][0][1]
            start = start if kept else source.rindex("with", 0, start)
            left = left[:start] + ", ".join(kept) + left[end:]
    return left


def used_by(program: ast.Program, statement: ast.Statement) -> list[ast.Statement]:
    """A statement, and those of the temporaries that it is computed of: without a value where these have none."""
    made, used = {s.target.name.text: s for s in program.statements}, [statement]
    for s in used:  # which grows: temporaries are computed of temporaries
        names = (node.text for node in ast.walk(s.value) if isinstance(node, ast.Name))
        used += dict.fromkeys(made[name] for name in names if name in made and made[name] not in used)
    return used


def _skipping(
    statement: ast.Statement, used: list[ast.Statement], ranges: list[ast.Range]
) -> list[ast.IndexRead] | None:
    """The indices from memory by which rows of a statement's value are skipped; None where columns are, or all of a
    group's, or rows are scattered by an index of more than one, or a result's index is computed."""
    target = statement.target.indices
    for x in target:  # the sums lie at plain indices, and only rows are scattered
        plain = list[ast.Node](x.indices if isinstance(x, ast.IndexRead) else [x])
        if len(plain) != 1 or not isinstance(plain[0], ast.IndexName):
            return None
    found = [x for s in used for x in ast.walk(s.value) if isinstance(x, ast.IndexRead)]
    rows = dims_of(*target[:-1])
    others = dims_of(*target[-1:]) | {d for r in ranges for d in dims_of(r.lower, r.upper) if d not in rows}
    if any(dims_of(x) & others for x in found):
        return None
    return [x for x in found if dims_of(x) <= rows]  # others leave out terms of a sum


def text_of(source: str, node: ast.Node) -> str:
    """What the text has for a node; the scales behind a tensor, which its place does not have, are with it."""
    start, end = node.span
    scales = [x.scale for x in ast.walk(node) if isinstance(x, ast.Tensor) and x.scale is not None]
    return source[start : max([end, *(x.span[1] for x in scales)])]


def dims_of(*nodes: ast.Node | None) -> Set[str]:
    """The indices that nodes have by name, in the order in which they stand there."""
    return dict.fromkeys(x.text for x in ast.walk(*nodes) if isinstance(x, ast.IndexName)).keys()


def names_of(program: ast.Program) -> set[str]:
    """The names of all tensors and scalars of a program."""
    names = {x.name.text for x in ast.walk(program) if isinstance(x, (ast.Tensor, ast.Target, ast.IndexRead))}
    return names | {x.text for x in ast.walk(program) if isinstance(x, ast.Name)}


def unused(program: ast.Program, wanted: str, *suffixes: str) -> str:
    """A name that nothing of a program has, nor that with any of the suffixes."""
    names = names_of(program)
    while {wanted, *(wanted + x for x in suffixes)} & names:
        wanted += "_"
    return wanted


def _whole(scale: ast.Scale) -> bool:
    """Whether an innermost block says a dimension by its name."""
    return any(not item.levels[0].block.text.replace("x", "").isdecimal() for item in scale.items)
