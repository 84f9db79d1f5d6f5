"""Element types, formats and granularities: what is said of a tensor, and whether two uses say the same."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scalec.formats import ELEMENT_TYPES, FORMATS, LAYOUTS, WHOLE, Granularity
from scalec.frontend import affine, ast, laid
from scalec.frontend.affine import LIMIT, Linear
from scalec.frontend.diagnostics import Source, Span, one_of, spelled
from scalec.frontend.program import Level, Tensor
from scalec.suggestions import did_you_mean


def say(source: Source, tensor: Tensor, span: Span, element: str = "", levels: tuple[Level, ...] | None = None) -> None:
    """Notes the type or the scales that one use gives `tensor`; refuses what another use contradicts."""
    if element and tensor.type and element != tensor.type:
        raise source.error(
            span,
            f"{tensor.name} would have two types",
            got=element,
            expected=f"{tensor.type}, as said before",
            fix="say it once, or give one of the two tensors another name",
        )
    if levels is not None and tensor.levels is not None and levels != tensor.levels:
        raise source.error(
            span,
            f"{tensor.name} would have two granularities",
            got=describe(levels),
            expected=f"{describe(tensor.levels)}, as said before",
            fix="say the same in both places, or give one of the two tensors another name",
        )
    if element or levels is not None:
        tensor.said = span
    tensor.type = element or tensor.type
    tensor.levels = tensor.levels if levels is None else levels


def describe(levels: Sequence[Level]) -> str:
    """Scales as the language writes them, `none` for none."""
    words = []
    for level in levels:
        entries = ["*" if b == WHOLE else str(b) for b in level.block]
        block = "tensor" if set(entries) == {"*"} else "x".join(entries)
        words.append(f"{block}:{level.type}" + ("" if level.layout == "row" else f"@{level.layout}"))
    return "*".join(words) or "none"


def annotate(source: Source, tensor: Tensor, type: ast.Name, side: str, copied: bool = False) -> bool:
    """Reads the `:type` of a tensor; `side` is the column of a format's row, `copied` whether it may be one of scales
    that a statement copies. Returns whether it is a format."""
    laid.note(source, tensor, type, copied)
    row = FORMATS.get(type.text)
    if row is not None:
        granularities: tuple[Granularity, ...] = getattr(row, side)
        levels = tuple(_of_format(source, type.span, tensor, row.name, g) for g in granularities)
        say(source, tensor, type.span, row.element, levels)
        return True
    element = ELEMENT_TYPES.get(type.text)
    known = [t.name for t in ELEMENT_TYPES.values() if t.operand or not t.scale or t.name == "f32"]
    known += laid.ALONE if copied else ()
    if element is None or element.name not in known:
        what = "a type of scales only" if element else "not a type"
        raise source.error(
            type.span,
            f"{type.text} is {what}",
            got=type.text,
            expected=one_of((*known, *FORMATS)),
            fix=did_you_mean(type.text, (*known, *FORMATS)) if element is None else "",
        )
    say(source, tensor, type.span, element.name)
    return False


def _of_format(source: Source, span: Span, tensor: Tensor, name: str, g: Granularity) -> Level:
    rank = len(tensor.extents)
    if len(g.block) > rank:
        raise source.error(
            span,
            f"{tensor.name} has too few indices for {name}",
            got=spelled(rank, "index", "indices"),
            expected=f"at least {len(g.block)}, for blocks of {'x'.join(map(str, g.block))}",
        )
    block = (WHOLE,) * rank if g.tensor else (1,) * (rank - len(g.block)) + g.block
    return Level(block, g.type, g.layout)


def own(
    source: Source,
    scale: ast.Scale,
    formatted: bool,
    tensor: object,
    index: Sequence[Linear],
    called: str,
    first: int = 0,
) -> None:
    """Gives a tensor the scales that stand behind it alone.

    Raises:
        SourceError: it has a format, is no tensor in memory, or there are several entries, or none.
    """
    found = levels(source, scale.items[0], called, index, first) if len(scale.items) == 1 else ()
    if formatted or not found or not isinstance(tensor, Tensor):
        temporary = "" if isinstance(tensor, Tensor) else "scales of a temporary, which is f32"
        raise source.error(
            scale.span,
            f"{called} takes one granularity",
            got=temporary or ("a format and scale(...)" if formatted else source.text[scale.span[0] : scale.span[1]]),
            expected="a format, or scale(...) with one entry that is not none",
            fix="scales of two operands stand behind their contraction: A[...] @ B[...] scale(1x128, 128x128)"
            if len(scale.items) > 1
            else "",
        )
    say(source, tensor, scale.span, "", found)


def levels(source: Source, item: ast.Item, name: str, index: Sequence[Linear], first: int = 0) -> tuple[Level, ...]:
    """The scales that one entry of `scale(...)` gives the tensor `name` with indices `index`; () for `none`. `first`:
    the level from which on none may have largest magnitudes that are given."""
    if len(item.levels) == 1 and item.levels[0].block.text == "none":
        return ()
    if len(item.levels) > 2:
        raise source.error(
            item.span,
            f"{name} has too many levels of scales",
            got=spelled(len(item.levels), "level"),
            expected="1 or 2, as in 1x16:ue4m3*tensor",
        )
    of = next((x.largest for x in item.levels[first:] if x.largest is not None), None)
    if of is not None:
        raise source.error(
            of.span,
            f"scales of {name} are not found here",
            got=f"of {source.text[slice(*of.span)]}",
            expected="largest magnitudes of blocks behind the first level of a result's scales",
        )
    return tuple(_level(source, level, name, index) for level in item.levels)


def _level(source: Source, level: ast.Level, name: str, index: Sequence[Linear]) -> Level:
    block = (WHOLE,) * len(index) if level.block.text == "tensor" else _block(source, level.block, name, index)
    type = level.type.text if level.type else "f32"
    scales = [t.name for t in ELEMENT_TYPES.values() if t.scale]
    if type not in scales and level.type is not None:
        raise source.error(
            level.type.span,
            f"a scale cannot be {type}",
            got=type,
            expected=one_of(scales),
            fix=did_you_mean(type, scales),
        )
    layout = level.layout.text if level.layout else "row"
    if level.layout is not None and layout not in LAYOUTS:
        raise source.error(
            level.layout.span,
            f"scales have no layout {layout}",
            got=layout,
            expected=one_of(LAYOUTS),
            fix=did_you_mean(layout, LAYOUTS),
        )
    if level.layout is not None and layout == "packed" and type != "ue8m0":
        raise source.error(
            level.layout.span,
            "packed scales are four ue8m0 in an i32",
            got=f"{type}@packed",
            expected="ue8m0@packed",
            fix=f"write {level.block.text}:ue8m0@packed, or another layout",
        )
    if level.layout is not None and layout == "blocked" and ELEMENT_TYPES[type].bits != 8:
        eight = [t.name for t in ELEMENT_TYPES.values() if t.scale and t.bits == 8]
        raise source.error(
            level.layout.span,
            "blocked scales are tiles of 8-bit scales",
            got=f"{type}@blocked",
            expected=" or ".join(f"{t}@blocked" for t in eight),
            fix=f"write {level.block.text}:{type}@row, @col, or one of these types",
        )
    return Level(block, type, layout)


def _block(source: Source, node: ast.Name, name: str, index: Sequence[Linear]) -> tuple[int, ...]:
    """Reads `1x128` or `1xk`: entries from the right, each a number or the name of the index at its place.

    From the right, because a dimension's name may hold an x itself: at each place only that index's name can stand.
    """
    text = node.text
    states: list[tuple[int, tuple[int, ...]]] = [(len(text), ())]
    for i in reversed(index):
        following = []
        for end, block in states:
            for start, entry in _entries(text[:end], affine.plain(i)):
                if start == 0:
                    return _checked(source, node, name, (1,) * (len(index) - len(block) - 1) + (entry, *block))
                if text[start - 1] == "x":
                    following.append((start - 1, (entry, *block)))
        states = following
    entries = text.split("x")
    names = [affine.plain(i) or "a number" for i in index]
    over = len(entries) - len(index)
    if over > 0:
        raise source.error(
            node.span,
            f"{text} has more entries than {name} has indices",
            got=spelled(len(entries), "entry", "entries"),
            expected=f"at most {len(index)}, for {name}[{', '.join(map(str, index))}]",
        )
    wanted = zip(reversed(entries), reversed(names), strict=False)
    got, want = next(((e, w) for e, w in wanted if not e.isdigit() and e != w), (text, names[-1]))
    known = ("tensor", "none", *(["x".join(["1"] * (len(index) - 1) + [x])] if (x := affine.plain(index[-1])) else []))
    raise source.error(
        node.span,
        f"{text} is no block of {name}",
        got=repr(got),
        expected="a number" if want == "a number" else f"a number, or {want} for the whole dimension",
        fix=did_you_mean(text, known)
        or f"write tensor, none, or a block such as {'x'.join(['1'] * (len(index) - 1) + ['128'])}",
    )


def _entries(text: str, name: str | None) -> list[tuple[int, int]]:
    """The entries that `text` can end in, each with where it starts."""
    found = []
    digits = re.search(r"[0-9]+$", text)
    if digits:
        found.append((digits.start(), int(digits[0]) if len(digits[0]) <= 10 else LIMIT + 1))
    if name is not None and text.endswith(name):
        found.append((len(text) - len(name), WHOLE))
    return found


def _checked(source: Source, node: ast.Name, name: str, block: tuple[int, ...]) -> tuple[int, ...]:
    if any(b == 0 or b > LIMIT for b in block):
        raise source.error(
            node.span, f"{node.text} is no block of {name}", got=node.text, expected=f"entries from 1 to {LIMIT}"
        )
    return block
