"""A program that reduces a product over the rows of all groups, which tiles of one group know nothing of, cut in two:
the first reduces each group's rows, and the second what all groups have.

    T[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; C[m,n] = T; R[n]:f32 = max[m](abs(T)) / 448
    -->
    T[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; C[m,n] = T
    R_max_g[g,n]:f32 = max[m](abs(T)) for m in off[g]:off[g+1]
    R[n]:f32 = max[g](R_max_g[g,n]:f32) / 448

A group without rows leaves what a reduction of nothing is, so that the second need not know of it.
"""

from __future__ import annotations

from scalec.errors import NAME
from scalec.frontend import ast
from scalec.frontend.cut import Cut, dims_of, text_of, unused, used_by
from scalec.frontend.diagnostics import Source
from scalec.frontend.parser import blank, parse


def reduced(source: str) -> list[str]:
    """The results of a program with a contraction that are cut so where a kernel does not have them.

    Raises:
        SourceError: the text is no program.
    """
    program = parse(Source(source, NAME))
    if not any(isinstance(x, ast.Contract) for x in ast.walk(program)):
        return []
    names = [s.target.name.text for s in program.statements]
    return [x for x in names if cut_groups(source, x) is not None]


def cut_groups(source: str, result: str) -> Cut | None:
    """The program in two, the second of which reduces what all groups of `result` have; None where a text does not say
    it: something reads the result, its rows are no groups one behind the other, or it is a sum of exponentials.

    Raises:
        SourceError: the text is no program.
    """
    source = _inlined(blank(source), result)  # a comment would end what follows it on a line here
    program = parse(Source(source, NAME))
    found = [s for s in program.statements if s.target.name.text == result]
    if len(found) != 1 or found[0].accumulate or len(_reductions(found[0])) != 1:
        return None
    (s,), target = found, found[0].target
    (reduction,) = _reductions(s)
    over, kept = [*dims_of(*reduction.indices)], [x.text for x in target.indices if isinstance(x, ast.IndexName)]
    read = [x for other in program.statements if other is not s for x in ast.walk(other.value)]
    if any(isinstance(x, ast.Name) and x.text == result for x in read) or len(kept) < len(target.indices):
        return None
    own = [r for r in s.ranges if r.dim.text in over]
    ranges = own or [r for x in used_by(program, s) for r in x.ranges if r.dim.text in over]
    texts = {" ".join(text_of(source, r).split()) for r in ranges}
    if len(over) != 1 or len(texts) != 1 or not _follow(source, ranges[0]):
        return None
    groups = [x for x in dims_of(ranges[0].lower) if x not in kept]
    if len(groups) != 1:
        return None
    kind = reduction.name.text
    between = unused(program, f"{result}_{kind}_{groups[0]}")
    left = f"{between}[{','.join([*groups, *kept])}]:f32"
    start, end = s.value.span
    told = "" if own else " " + texts.pop()
    first = source[: target.span[0]] + f"{left} = {text_of(source, reduction)}{told}" + source[end:]
    behind = source[start : reduction.span[0]] + f"{kind}[{groups[0]}]({left})" + source[reduction.span[1] : end]
    return Cut.of(first, f"{text_of(source, target)} = {behind}", between)


def _inlined(source: str, result: str) -> str:
    """The program with a temporary that reduces something written out in the result that reads it alone."""
    program = parse(Source(source, NAME))
    statements = {s.target.name.text: s for s in program.statements}
    s = statements.get(result)
    if s is None or _reductions(s):
        return source
    every = [x for other in program.statements for x in ast.walk(other.value)]
    read = [x for x in ast.walk(s.value) if isinstance(x, ast.Name) and x.text in statements]
    of = statements[read[0].text] if len(read) == 1 else None
    if of is None or not _reductions(of) or of.settings or sum(_names(x, of.target.name.text) for x in every) != 1:
        return source
    told = "" if s.ranges else "".join(" " + text_of(source, r) for r in of.ranges)
    (start, end), (first, behind) = read[0].span, s.value.span
    value = f"{source[first:start]}({text_of(source, of.value)}){source[end:behind]}{told}"
    parts = [(of.span, ""), ((first, behind), value)]
    for (begin, until), text in sorted(parts, reverse=True):
        source = source[:begin] + text + source[until:]
    return "\n".join(x for x in (y.strip(" ;") for y in source.replace(";", "\n").split("\n")) if x)


def _names(node: ast.Node, name: str) -> bool:
    """Whether a node reads a statement's value."""
    return (isinstance(node, ast.Name) and node.text == name) or (
        isinstance(node, ast.Tensor) and node.name.text == name
    )


def _reductions(s: ast.Statement) -> list[ast.Reduce]:
    return [x for x in ast.walk(s.value) if isinstance(x, ast.Reduce)]


def _follow(source: str, r: ast.Range) -> bool:
    """Whether a range is one of groups that lie one behind the other, off[g]:off[g+1]."""
    low, high = r.lower, r.upper
    if not isinstance(low, ast.IndexRead) or not isinstance(high, ast.IndexRead) or low.name.text != high.name.text:
        return False
    plain, next_ = ("".join(text_of(source, x).split()) for x in (low.indices[-1], high.indices[-1]))
    rest = [["".join(text_of(source, x).split()) for x in y.indices[:-1]] for y in (low, high)]
    return isinstance(low.indices[-1], ast.IndexName) and next_ == f"{plain}+1" and rest[0] == rest[1]
