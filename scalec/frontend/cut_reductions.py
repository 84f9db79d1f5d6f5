"""A program without a contraction that takes several launches, cut in two: the first finds what the second reads.

The largest magnitude of blocks that no CTA has:

    Q[m,k]:e4m3 scale(tensor) = silu(X[m,k])
    -->
    Q_largest[0]:f32 = max(max[m,k](abs(silu(X[m,k]))), 0)
    Q[m,k]:e4m3 scale(tensor of Q_largest[0]) = silu(X[m,k])

A reduction over several indices, of which the last one of a tensor goes first:

    S[0]:f32 = max[m,k](abs(X[m,k])) / 448
    -->
    S_k[m]:f32 = max[k](abs(X[m,k]))
    S[0]:f32 = max[m](S_k[m]:f32) / 448

What rows are reduced to, with what it is computed of:

    R[m] = sum[k](X[m,k]^2); Y[m,k]:mxfp8 = X[m,k] / sqrt(R); T[k,m]:mxfp8 = X[m,k] / sqrt(R)
    -->
    R_sum[m]:f32 = sum[k](X[m,k]^2)
    R[m] = R_sum[m]:f32; Y[m,k]:mxfp8 = X[m,k] / sqrt(R); T[k,m]:mxfp8 = X[m,k] / sqrt(R)

The second level of a result's scales, where a statement above computes it:

    Q_scale2[0,0]:f32 = max[m](X_k[m]:f32) / 2688; Q[m,k]:nvfp4 = X[m,k]
    -->
    Q_scale2[0,0]:f32 = max[m](X_k[m]:f32) / 2688
    Q[m,k]:nvfp4 = X[m,k]

Rows that an index from memory names, or that a range has, are those of each part. What is reduced over them is so
first, for each group where they are groups':

    Q[m,k]:e4m3 scale(tensor) = X[idx[m],k]
    -->
    Q_largest_m[k]:f32 = max[m](abs(X[idx[m],k]))
    Q_largest[0]:f32 = max(max[k](Q_largest_m[k]:f32), 0)
    Q[m,k]:e4m3 scale(tensor of Q_largest[0]) = X[idx[m],k]

    Q[m,k]:e4m3 scale(tensor) = X[m,k] for m in off[g]:off[g+1]
    -->
    Q_largest_m[g,k]:f32 = max[m](abs(X[m,k])) for m in off[g]:off[g+1]
    Q_largest[0]:f32 = max(max[g,k](Q_largest_m[g,k]:f32), 0)
    Q[m,k]:e4m3 scale(tensor of Q_largest[0]) = X[m,k] for m in off[g]:off[g+1]

Everything between is f32, as it is within a kernel. What is scattered, or filled (else), is not cut, nor blocks of
several rows of groups that are apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from scalec.errors import NAME
from scalec.frontend import ast
from scalec.frontend.cut import CHANCE, Cut, dims_of, text_of, unused
from scalec.frontend.cut_operands import APART
from scalec.frontend.diagnostics import Source
from scalec.frontend.names import HADAMARD
from scalec.frontend.parser import blank, parse
from scalec.frontend.program import scale_name

TENSOR = "tensor"


def multiplies(source: str) -> bool:
    """Whether a program has a contraction.

    Raises:
        SourceError: the text is no program.
    """
    return any(isinstance(x, ast.Contract) for x in ast.walk(parse(Source(source, NAME))))


def said(source: str) -> str:
    """The program without comments, where each use of a tensor says its type and scales, which one needs to: a use may
    come into a program without the others.

    Raises:
        SourceError: the text is no program.
    """
    text, types, every = blank(source), dict[str, str](), list[ast.Tensor]()
    scales = dict[str, str]()
    for x in ast.walk(parse(Source(text, NAME))):
        if isinstance(x, ast.Tensor):
            every.append(x)
            if x.type is not None:
                types[x.name.text] = f":{x.type.text}"
            if x.scale is not None:
                scales[x.name.text] = f" {_text(text, x.scale)}"
    for x in sorted(every, key=lambda x: -x.span[1]):
        more = types.get(x.name.text, "") if x.type is None else ""
        more += scales.get(x.name.text, "") if x.scale is None else ""
        text = text[: x.span[1]] + more + text[x.span[1] :]
    return text


def cut_magnitudes(source: str) -> Cut | None:
    """The program in two, the first of which finds the largest magnitudes of a result's blocks that span an index; None
    where there is no such result, or a text does not say it.

    Raises:
        SourceError: the text is no program.
    """
    program = parse(Source(source, NAME))
    for s in program.statements:
        level = s.target.scale.items[0].levels[0] if s.target.scale is not None else None
        kept = (
            _kept(level.block.text, _plain(s.target.indices)) if level is not None and level.largest is None else None
        )
        if level is None or kept is None or not _may_be_cut(s) or _is_apart(s):
            continue
        value = s.value
        while isinstance(value, ast.Call) and value.name.text == CHANCE:
            value = value.arguments[0]
        if isinstance(value, ast.Call) and value.name.text == HADAMARD:
            continue  # which no expression says of single elements
        spanned = [x for x in _plain(s.target.indices) if x not in kept]
        groups = {d for x in s.ranges if x.dim.text in spanned for d in _told_apart(x)}
        spanned += [x for x in _dims(program, value) if x in groups - {*_plain(s.target.indices)}]
        between = unused(program, f"{s.target.name.text}_largest")
        at = f"{between}[{','.join(kept.values()) or '0'}]"
        found = f"max(max[{','.join(spanned)}](abs({_text(source, value)})), 0)"
        ranges = "".join(f" {_text(source, x)}" for x in s.ranges)
        first = _with_temporaries(source, program, s.value, f"{at}:f32 = {found}{ranges}")
        end = level.span[1]
        return Cut(first, source[:end] + f" of {at}" + source[end:], between)
    return None


def cut_several(source: str) -> Cut | None:
    """The program in two, the first of which reduces one of the indices of a reduction over several; None where there
    is no such, or a text does not say it.

    Raises:
        SourceError: the text is no program.
    """
    return _cut_reduction(source, lambda s, reduce: len(reduce.indices) > 1 or bool(_groups(s, reduce)))


def cut_statistics(source: str) -> Cut | None:
    """The program in two, the first of which has a reduction; None where the program has none, or is but that and what
    it is of, or a text does not say it.

    Raises:
        SourceError: the text is no program.
    """
    program = parse(Source(source, NAME))
    made = [s for s in program.statements if s.target.name.text not in _temporaries(program)]
    if all(isinstance(s.value, ast.Reduce) and s.target.type is not None for s in made):
        return None
    return _cut_reduction(source, lambda *_: True)


def cut_second_levels(source: str) -> Cut | None:
    """The program in two, the first of which computes the second levels of results' scales that the second one then
    takes as arguments; None where it computes none, or a text does not say it.

    Raises:
        SourceError: the text is no program.
    """
    program = parse(Source(source, NAME))
    made = [s.target.name.text for s in program.statements]
    found = [s for s in program.statements if s.target.name.text in {scale_name(x, 1) for x in made}]
    if not found or not all(_may_be_cut(s) for s in found):
        return None
    found = [s for s in found if _over(s) == _over(found[0])]  # which one launch reduces
    texts = [_with_temporaries(source, program, s.value, _text(source, s)).split("; ") for s in found]
    left = "; ".join(_text(source, s) for s in program.statements if s not in found)
    first = "; ".join(dict.fromkeys(x for every in texts for x in every))
    return Cut(first, _used_alone(source, left), found[0].target.name.text)


CUTS: tuple[Callable[[str], Cut | None], ...] = (cut_several, cut_second_levels, cut_statistics, cut_magnitudes)
"""In the order in which they are tried: magnitudes are then of the very sums that what is quantised is made of."""


def _cut_reduction(source: str, wanted: Callable[[ast.Statement, ast.Reduce], bool]) -> Cut | None:
    """The program in two, the first of which has the first `wanted` reduction, or its first part."""
    program = parse(Source(source, NAME))
    for s in program.statements:
        for x in ast.walk(s.value):
            if not isinstance(x, ast.Reduce) or not wanted(s, x) or not _may_be_cut(s):
                continue
            if any(isinstance(y, ast.Reduce) and wanted(s, y) for y in ast.walk(x.value)):
                continue  # which comes first
            over = [y.text for y in x.indices if isinstance(y, ast.IndexName)]
            if len(over) < len(x.indices):
                return None
            dims = _dims(program, x.value)
            first = _first(program, s, x, over, dims)
            if first is None:
                return None
            ranges = [r for r in s.ranges if r.dim.text in (first, *dims)]
            groups = [d for r in ranges if r.dim.text == first for d in _told_apart(r)]
            over += [d for d in _groups(s, x) if d in groups]
            kept, kind = [d for d in dict.fromkeys([*groups, *dims]) if d != first], x.name.text
            others = [y for y in ast.walk(s.value) if isinstance(y, ast.Reduce) and first in dims_of(*y.indices)]
            if first in [r.dim.text for r in s.ranges] and any(_text(source, y) != _text(source, x) for y in others):
                return None  # which need its range
            between = unused(program, f"{s.target.name.text}_{kind if len(over) == 1 else first}")
            at, rest = f"{between}[{','.join(kept) or '0'}]:f32", [d for d in over if d != first]
            found = f"{at} = {kind}[{first}]({_text(source, x.value)})"
            found += "".join(f" {_text(source, r)}" for r in ranges)
            left = _with_temporaries(source, program, x.value, found)
            read = f"{kind}[{','.join(rest)}]({at})" if rest else at
            second = _used_alone(source, _replaced(source, program, x, read, first))
            return Cut.of(left, second, between) if _leaves_as(source, second) else None
    return None


def _first(program: ast.Program, s: ast.Statement, reduce: ast.Reduce, over: list[str], dims: list[str]) -> str | None:
    """Which of several indices goes first: one that says with others, or alone, what is left out of the reduction, as
    what is left then leaves nothing out; else the last one of a tensor. None where there is no such."""
    skips = [x & {*over} for x in _skips(program, s, reduce.value)]
    every = [d for d in (*reversed(dims), over[-1]) if d in over]
    return next((d for d in every if all(d in x for x in skips if x)), None)


def _skips(program: ast.Program, s: ast.Statement, value: ast.Node) -> list[set[str]]:
    """The indices by which points of a statement's value are left out: of those from memory, and of its ranges; also of
    the temporaries that it is computed of."""
    made, used, nodes = {x.target.name.text: x for x in program.statements}, [s], [value]
    for node in nodes:  # which grows
        names = [x.text if isinstance(x, ast.Name) else x.name.text for x in _named_in(node)]
        more = [made[x] for x in names if x in made and made[x] not in used]
        used += more
        nodes += [x.value for x in more]
    found = [{*dims_of(x)} for node in nodes for x in ast.walk(node) if isinstance(x, ast.IndexRead)]
    return found + [{r.dim.text} for x in used for r in x.ranges if r.otherwise is None]


def _leaves_as(source: str, second: str) -> bool:
    """Whether each result of a program's second part has the same points left out as in the program: the same indices
    from memory name what it is computed of, and it has the same ranges."""
    before, after = (_left_out(text) for text in (source, second))
    made = after.keys() - _temporaries(parse(Source(second, NAME)))
    return all(before[name] == after[name] for name in made)


def _left_out(source: str) -> dict[str, set[str]]:
    """By statement of a program, what leaves points of it out, as the text has it: not what leaves out terms alone."""
    program, found = parse(Source(source, NAME)), dict[str, dict[str, Set[str]]]()
    for s in program.statements:
        kept = dims_of(*s.target.indices)
        own = {_text(source, x): dims_of(x) for x in ast.walk(s.value) if isinstance(x, ast.IndexRead)}
        own |= {_text(source, r): {r.dim.text} for r in s.ranges if r.otherwise is None}
        names = (x.text if isinstance(x, ast.Name) else x.name.text for x in _read_by(s))
        every = [own, *(found[x] for x in names if x in found)]
        found[s.target.name.text] = {x: dims for each in every for x, dims in each.items() if dims and dims <= kept}
    return {name: {*each} for name, each in found.items()}


def _replaced(source: str, program: ast.Program, reduce: ast.Reduce, read: str, first: str) -> str:
    """The program with something else for a reduction, wherever it stands in statements that may be cut, without ranges
    of the index that went `first`."""
    (own,) = (s for s in program.statements if any(x is reduce for x in ast.walk(s.value)))
    ranges = {_text(source, r) for r in own.ranges}
    gone = list[tuple[tuple[int, int], str]]()
    for s in program.statements:
        if not _may_be_cut(s) or {_text(source, r) for r in s.ranges} != ranges:
            continue
        every = [x for x in ast.walk(s.value) if isinstance(x, ast.Reduce)]
        found = [x for x in every if _text(source, x) == _text(source, reduce)]
        gone += [(x.span, read) for x in found]
        gone += [(r.span, "") for r in s.ranges if found and r.dim.text == first]
    for (start, end), text in sorted(gone, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def _used_alone(before: str, text: str) -> str:
    """A program without those temporaries that nothing uses any more: they would be results."""
    program = parse(Source(text, NAME))
    gone = _temporaries(parse(Source(before, NAME))) - _temporaries(program)
    gone &= {s.target.name.text for s in program.statements}
    if not gone:
        return text
    left = [_text(text, s) for s in program.statements if s.target.name.text not in gone]
    return _used_alone(before, "; ".join(left))


def _temporaries(program: ast.Program) -> set[str]:
    """The names that statements of a program define and use."""
    read = [x.text if isinstance(x, ast.Name) else x.name.text for x in _reads(program)]
    return {s.target.name.text for s in program.statements} & {*read}


def _reads(program: ast.Program) -> list[ast.Name | ast.Tensor]:
    return [x for s in program.statements for x in _read_by(s)]


def _read_by(s: ast.Statement) -> list[ast.Name | ast.Tensor]:
    return _named_in(s.value)


def _named_in(node: ast.Node) -> list[ast.Name | ast.Tensor]:
    return [x for x in ast.walk(node) if isinstance(x, (ast.Name, ast.Tensor))]


def _with_temporaries(source: str, program: ast.Program, value: ast.Node, statement: str) -> str:
    """A statement, behind those of the temporaries that a value is computed of."""
    made, used = {s.target.name.text: s for s in program.statements}, list[ast.Statement]()

    def use(node: ast.Node) -> None:
        for x in ast.walk(node):
            s = (
                made.get(x.text)
                if isinstance(x, ast.Name)
                else made.get(x.name.text)
                if isinstance(x, ast.Tensor)
                else None
            )
            if s is not None and s not in used:
                use(s.value)
                used.append(s)

    use(value)
    return "; ".join([*(_text(source, s) for s in used), statement])


def _may_be_cut(s: ast.Statement) -> bool:
    """Whether a statement scatters nothing, fills nothing, and adds to nothing."""
    scatters = any(isinstance(x, ast.IndexRead) for x in ast.walk(*s.target.indices))
    fills = any(x.otherwise is not None for x in s.ranges)
    return not (fills or scatters or s.accumulate or s.settings)


def _is_apart(s: ast.Statement) -> bool:
    """Whether groups of a statement's ranges have blocks of their own."""
    return any(y.word.text == APART for x in s.ranges for y in x.promises)


def _groups(s: ast.Statement, reduce: ast.Reduce) -> list[str]:
    """The indices that tell apart ranges which a reduction is over, where it is over all of them: nothing else has
    these."""
    over, has = dims_of(*reduce.indices), dims_of(*s.target.indices, *reduce.indices)
    found = [d for x in s.ranges if x.dim.text in over for d in _told_apart(x)]
    return [d for d in dict.fromkeys(found) if d not in has]


def _told_apart(x: ast.Range) -> list[str]:
    """The indices for each of which a range has bounds of its own."""
    return [d for d in dims_of(x.lower, x.upper) if d != x.dim.text]


def _kept(block: str, indices: list[str]) -> dict[str, str] | None:
    """By index that blocks of a result do not span, the number of a block there: m/128; None where they span none, or
    the text says it otherwise."""
    if block == TENSOR:
        return {}
    entries = block.split("x")
    entries = ["1"] * (len(indices) - len(entries)) + entries
    pairs = list(zip(indices, entries, strict=False))
    if len(entries) != len(indices) or all(x.isdecimal() for x in entries):
        return None
    if any(not x.isdecimal() and x != name for name, x in pairs) or any(x not in (name, "1") for name, x in pairs):
        return None  # of which no reduction finds single blocks
    return {name: name for name, x in pairs if x == "1"}


def _over(s: ast.Statement) -> set[str]:
    """The indices that a statement reduces."""
    return {d for x in ast.walk(s.value) if isinstance(x, ast.Reduce) for d in dims_of(*x.indices)}


def _plain(indices: Iterable[ast.Node]) -> list[str]:
    return [x.text for x in indices if isinstance(x, ast.IndexName)]


def _dims(program: ast.Program, value: ast.Node) -> list[str]:
    """The indices of an expression, those of its largest tensor first, and in the order of that."""
    made = {s.target.name.text: s.target for s in program.statements}
    named = [made[x.text] for x in ast.walk(value) if isinstance(x, ast.Name) and x.text in made]
    tensors = [x for x in ast.walk(value) if isinstance(x, ast.Tensor)]
    every = sorted([*tensors, *named], key=lambda x: -len(x.indices))
    return [*dims_of(*(y for x in every for y in x.indices))]


def _text(source: str, node: ast.Node) -> str:
    return " ".join(text_of(source, node).split())
