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


def elements(source: Source, tensor: Tensor, nodes: Sequence[ast.Node]) -> tuple[ast.Node, ...]:
    """The indices of scales that are copied as those of what they scale: `m/128` is m, of which each 128 have one."""
    found = [_divided(node) for node in nodes]
    block = tuple(size for _, size in found)
    if tensor.block and block != tensor.block:
        said = [x.span for x in nodes]
        raise source.error(
            (said[0][0], said[-1][1]),
            f"{tensor.name} would have two granularities",
            got="x".join(map(str, block)),
            expected=f"{'x'.join(map(str, tensor.block))}, as said before",
            fix="say the same in both places, or give one of the two tensors another name",
        )
    tensor.block = block
    return tuple(node for node, _ in found)


def _divided(node: ast.Node) -> tuple[ast.Node, int]:
    """What an index is of, and by what it is divided."""
    if isinstance(node, ast.IndexBinary) and node.operator == "/" and isinstance(node.left, ast.IndexName):
        by = node.right
        if isinstance(by, ast.IndexConstant) and len(by.digits) <= 10 and 0 < int(by.digits) <= affine.LIMIT:
            return node.left, int(by.digits)
    return node, 1


def check(source: Source, node: ast.Statement, s: Statement) -> None:
    """Refuses what a statement that copies scales has beside one tensor, other types, and indices in other orders."""
    if not s.copies:
        return
    value, target = s.value, node.target
    read, index = (value.source, value.index) if isinstance(value, Read) else (None, ())
    filled = [x.otherwise for x in node.ranges if x.otherwise is not None]
    more = [x for x in (*filled, target.scale, getattr(node.value, "scale", None)) if x is not None]
    copied = f"{s.tensor.name}[...]:{said(s.tensor)} = S[...]:f32, one tensor and no more"
    if not isinstance(read, Tensor) or more or s.accumulate or s.words or s.hadamard:
        at = more[0].span if more else node.value.span
        what = source.text[slice(*at)] if not s.accumulate else "+="
        why = f"{s.tensor.name} copies scales, which are not computed"
        fix = "compute them in f32 by a statement before, of a program of its own"
        if filled:
            why = f"{s.tensor.name} copies scales, and is filled outside a range (else)"
            fix = "leave else out, and pass a result that is filled"
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
    both = [[x for x in names if x in own and x in of and x] for names in (own, of)]
    turned = both[0][-2:] == both[1][-2:][::-1] and both[0][:-2] == both[1][:-2]
    words = all((x.layout or "") in ("packed", "blocked") for x in (s.tensor, read))
    able = all(name or affine.read(i) for i, name in zip((*s.index, *index), (*own, *of), strict=True))
    once = all(len({*x} - {""}) == len(x) - x.count("") and x[-1] for x in (own, of))
    blocks = [dict(zip(names, x.block, strict=True)) for names, x in ((own, s.tensor), (of, read))]
    alike = all(size == blocks[1].get(name, 1) for name, size in blocks[0].items() if name)
    alike = alike and all(size == blocks[0].get(name, 1) for name, size in blocks[1].items() if name)
    if not able or not once or not alike or not (both[0] == both[1] or turned):
        expected = f"the indices of {s.tensor.name}, in their order, or with the last two in each other's place"
        last = able and not (own[-1] and of[-1])
        raise source.error(
            node.value.span,
            f"{read.name} has other indices" if not last else "scales are copied from or to a last index from memory",
            got=source.text[slice(*node.value.span)],
            expected=f"{expected}, divided by the same numbers; those in front of the last also from memory",
            fix=f"gather {read.name} before, by a program of its own, and copy that" if not of[-1] and able else "",
        )
    if own[-1] != of[-1] and words:
        why = f"{read.name} and {s.tensor.name} have four scales of different indices in a word"
        expected, fix = "one of them in layout row or col", "write two statements, by way of f32, of two programs"
        raise source.error(node.value.span, why, got=f"{said(read)}, {said(s.tensor)}", expected=expected, fix=fix)
    _check_blocks(source, s, {**blocks[0], **blocks[1]})


def _check_blocks(source: Source, s: Statement, sizes: dict[str, int]) -> None:
    """Refuses ranges that may begin within a block: a scale would be two groups'."""
    for r in s.ranges:
        size, step = sizes.get(r.dim, 1), dict(r.promises).get("by", 1)
        begins = not r.lower.terms and r.lower.constant % size == 0
        if size > 1 and not (r.group or begins or step % size == 0):
            raise source.error(
                r.span,
                f"{s.tensor.name} copies scales of {size} of {r.dim}, of which a range may begin within one",
                got=f"for {r.dim} in {r.lower}:{r.upper}",
                expected=f"blocks that each group has of its own (apart), or groups that begin at one (by {size})",
                fix="say which of the two it is; or leave the range out: all scales are copied then",
            )


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
