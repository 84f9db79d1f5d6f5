"""Statements that copy scales from one layout to another: `R[m,j]:ue8m0@blocked = S[m,j]:f32`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scalec.errors import SourceError
from scalec.formats import ELEMENT_TYPES, LAYOUTS, QUANTISED
from scalec.frontend import affine, ast
from scalec.frontend.diagnostics import Source, Span, one_of
from scalec.frontend.program import Read, Statement, Tensor, all_reads
from scalec.suggestions import did_you_mean

SCALES = tuple(t.name for t in ELEMENT_TYPES.values() if t.scale)
"""Types of scales that are copied; those of what they become are QUANTISED."""

ALONE = tuple(t.name for t in ELEMENT_TYPES.values() if t.scale and t.bits == 8)
"""Types that only scales have."""


UNKNOWN = re.compile(r"@([A-Za-z_]\w*)(?!\w*\s*\[)")
"""Where a layout would stand, behind a type."""


def no_layout(source: Source, span: Span) -> SourceError:
    """The refusal of a name that stands where a layout would."""
    name = source.text[slice(*span)]
    return source.error(
        span, f"scales have no layout {name}", got=name, expected=one_of(LAYOUTS), fix=did_you_mean(name, LAYOUTS)
    )


def check_layout(source: Source, node: ast.Contract) -> None:
    """Refuses `S[m,j]:ue8m0@pack`, which the language reads as a product with a scalar."""
    type = node.left.type if isinstance(node.left, ast.Tensor) else None
    at, beside = node.right.span, type is not None and source.text[type.span[1] : node.right.span[0]] == "@"
    if type is not None and type.text in SCALES and beside and source.text[slice(*at)].isidentifier():
        raise no_layout(source, at)


def lays(node: ast.Statement) -> bool:
    """Whether a statement copies scales: a type of its result, or of the tensor that is all of its right side, says a
    layout, or is one that only scales have."""
    said = [node.target.type, node.value.type if isinstance(node.value, ast.Tensor) else None]
    return any(x is not None and (x.text in ALONE or layout_of(x) is not None) for x in said)


def layout_of(type: ast.Name) -> ast.Name | None:
    """The layout that a type says."""
    return type.layout if isinstance(type, ast.Type) else None


def said(tensor: Tensor) -> str:
    """The type and the layout of a tensor, as the language writes them."""
    return tensor.element + (f"@{tensor.layout}" if tensor.layout else "")


def note(source: Source, tensor: Tensor, type: ast.Name, copied: bool) -> None:
    """Notes the layout that a type of a tensor says, of scales that are `copied`.

    Raises:
        SourceError: it is not that of scales, or the tensor would have two.
    """
    node = layout_of(type)
    if node is None:
        return
    text = source.text[slice(*type.span)]
    if not copied:
        raise source.error(
            node.span,
            f"{tensor.name} has a layout, and is no scales that a statement copies",
            got=f":{text}@{node.text}",
            expected=f"{tensor.name} alone on the right side of =, or on the left",
            fix="leave the layout out; scales that go with a tensor have theirs in scale(...)",
        )
    if type.text not in SCALES:
        raise source.error(type.span, f"{type.text} is no type of scales", got=text, expected=one_of(SCALES))
    if (node.text == "packed" and type.text != "ue8m0") or (node.text == "blocked" and type.text not in ALONE):
        able = "four ue8m0 in an i32" if node.text == "packed" else f"tiles of 8-bit scales, {one_of(ALONE)}"
        raise source.error(node.span, f"{node.text} scales are {able}", got=f"{type.text}@{node.text}", expected=able)
    if len(tensor.extents) < 2 and node.text != "row":
        expected = "two indices or more: a layout is one of the last two"
        raise source.error(node.span, f"{tensor.name} has one index, and layout {node.text}", expected=expected)
    layout = "" if node.text == LAYOUTS[0] else node.text
    if tensor.layout is not None and tensor.layout != layout:
        before = tensor.layout or LAYOUTS[0]
        raise source.error(node.span, f"{tensor.name} would have two layouts", got=node.text, expected=before)
    tensor.layout = layout


def check(source: Source, node: ast.Statement, s: Statement) -> None:
    """Refuses what a statement that copies scales has beside one tensor, other types, and indices in other orders."""
    if not s.copies:
        return
    value, target = s.value, node.target
    read, index = (value.source, value.index) if isinstance(value, Read) else (None, ())
    more = [x for x in (*node.ranges, target.scale, getattr(node.value, "scale", None)) if x is not None]
    copied = f"{s.tensor.name}[...]:{said(s.tensor)} = S[...]:f32, one tensor and no more"
    if not isinstance(read, Tensor) or more or s.accumulate or s.words or s.hadamard:
        at = more[0].span if more else node.value.span
        what = source.text[slice(*at)] if not s.accumulate else "+="
        why = f"{s.tensor.name} copies scales, which are not computed"
        fix = "compute them in f32 by a statement before, of a program of its own"
        if node.ranges and more[0] is node.ranges[0]:
            why = f"{s.tensor.name} copies scales, and has a range"
            fix = "leave the range out: all are copied, those of its rows too"
            if any(x.word.text == "apart" for x in node.ranges[0].promises):
                fix = "lay out those of each group by scalec.layouts.blocked_by_group, or columns_by_group"
        if isinstance(read, Statement) and not more and not s.accumulate:
            why = f"{s.tensor.name} copies {read.tensor.name}, which the program makes"
            fix = f"copy what {read.tensor.name} is made of, or {read.tensor.name} in a program of its own"
        raise source.error(at, why, got=what, expected=copied, fix=fix)
    for tensor, known, at in ((s.tensor, QUANTISED, target.span), (read, SCALES, node.value.span)):
        if tensor.element not in known:
            why = f"{tensor.name} is {tensor.element}, and scales are copied"
            fix = f"write {tensor.name}[...]:f32" if not tensor.type else ""
            raise source.error(at, why, got=tensor.element, expected=one_of(known), fix=fix)
    own, of = ([affine.plain(i) or "" for i in x] for x in (s.index, index))
    turned = own[-2:] == of[-2:][::-1] and own[:-2] == of[:-2]
    words = all((x.layout or "") in ("packed", "blocked") for x in (s.tensor, read))
    if "" in own or len({*own}) < len(own) or not (own == of or turned):
        expected = f"the indices of {s.tensor.name}, in their order, or with the last two in each other's place"
        raise source.error(
            node.value.span,
            f"{read.name} has other indices",
            got=source.text[slice(*node.value.span)],
            expected=expected,
            fix=f"gather {read.name} before, by a program of its own, and copy that"
            if any(map(affine.symbols, index))
            else "",
        )
    if own != of and words:
        why = f"{read.name} and {s.tensor.name} have four scales of different indices in a word"
        expected, fix = "one of them in layout row or col", "write two statements, by way of f32, of two programs"
        raise source.error(node.value.span, why, got=f"{said(read)}, {said(s.tensor)}", expected=expected, fix=fix)


def check_reads(source: Source, statements: Sequence[Statement]) -> None:
    """Refuses tensors that only statements which copy scales read, elsewhere."""
    for s in (x for x in statements if not x.copies):
        for read in all_reads(s.value):
            tensor = read.source
            if isinstance(tensor, Tensor) and (tensor.layout or tensor.element in ALONE):
                raise source.error(
                    read.span,
                    f"{tensor.name} is {said(tensor)}, and is read as no scales are",
                    got=said(tensor),
                    expected="a tensor of another type, in order",
                    fix=f"write scale(...) behind the tensor that {tensor.name} scales",
                )
