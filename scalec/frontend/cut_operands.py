"""A program of which an operand is quantised, or converted, in a launch of its own, cut in two: the second multiplies.

    C[m,n] = quantize(silu(A[m,k]), e4m3, 1xk) @ B[n,k] scale(none, 1xk) with stages=4
    -->
    A_e4m3[m,k]:e4m3 scale(1xk) = silu(A[m,k])
    C[m,n] = A_e4m3[m,k]:e4m3 @ B[n,k] scale(1xk, 1xk) with stages=4

A scale of all the tensor is not in what is quantised: it multiplies sums, and so stays in the second program.

    C[m,n] = A[m,k] @ quantize(B[n,k]:nvfp4, e4m3, 1x128) scale(1x128)
    -->
    B_e4m3[n,k]:e4m3 scale(1x128) = B[n,k]:e2m1 scale(1x16:ue4m3)
    C[m,n] = (A[m,k] @ B_e4m3[n,k]:e4m3 scale(1x128, 1x128) * B_scale2[0,0]:f32)

An operand with scales of a byte may be converted instead, to 16 bits that have its elements times their scales.

    C[m,n] = A[m,k] @ B[n,k]:mxfp8
    -->
    B_bf16[n,k]:bf16 = B[n,k]:mxfp8
    C[m,n] = A[m,k] @ B_bf16[n,k]:bf16

What is read of words, or of another order of elements, is written in rows, in order.

    C[m,n] = A[m,k] @ quantize(B[k/8,n,k%8]:i4, e4m3, 1x128) scale(1x128, 1x128:bf16)
    -->
    B_e4m3[n,k]:e4m3 scale(1x128) = B[k/8,n,k%8]:i4 scale(1x128:bf16)
    C[m,n] = A[m,k] @ B_e4m3[n,k]:e4m3 scale(1x128, 1x128)

What is quantised may be stored with its last two indices exchanged, where the product would have to turn it.

    C[m,n] = quantize(A[k,m], e4m3, 128x1) @ B[n,k] scale(none, 1x128)
    -->
    A_e4m3[m,k]:e4m3 scale(1x128) = A[k,m]
    C[m,n] = A_e4m3[m,k]:e4m3 @ B[n,k] scale(1x128, 1x128)

One of e4m3 whose last index is not the summed one may be stored the other way round, as its scales may be seen.

    C[m,n] = A[m,k] @ B[k,n] scale(1x128, 128x128)
    -->
    B_turned[n,k]:e4m3 = B[k,n]:e4m3
    C[m,n] = A[m,k] @ B_turned[n,k]:e4m3 scale(1x128, 128x128@col)

Where an index is read from memory, `A[idx[m],k]`, the first program quantises all of the tensor, along what the
compiler calls that dimension, `A_0`, and the second one reads what it needs of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from scalec.errors import NAME
from scalec.formats import ELEMENT_TYPES, FORMATS, GRIDS, UNITS
from scalec.frontend import ast
from scalec.frontend.cut import Cut, dims_of, names_of, text_of, unused
from scalec.frontend.diagnostics import Source
from scalec.frontend.parser import blank, parse
from scalec.frontend.words import in_rows
from scalec.zero_points import SHIFTED

NOTHING, APART, TURNED = "none", "apart", "turned"
UNSAID = "e4m3"
"""The type of a tensor with scales, if it has none of its own."""


def quantised_operands(source: str) -> dict[str, bool]:
    """The tensors of operands that are quantised, each with whether a tile of the product has whole blocks of it: of
    some elements of one index, not of `1xk` or `128x128`.

    Raises:
        SourceError: the text is no program.
    """
    program = parse(Source(source, NAME))
    found = {_tensor(x).name.text: x for x in ast.walk(program) if isinstance(x, ast.Quantize)}
    return {name: _some(x.level.block.text) for name, x in found.items()}


def scaled_operands(source: str) -> dict[str, set[str]]:
    """The tensors of floats of a byte or less, or integers of less, that are multiplied as they are, with scales of
    a byte, each with the types of scales on both sides of `@`, "" where there are none. An element times its
    scale has at most the eight significant bits of a bf16, where four are the scale's; of f16 or bf16 it would be
    rounded.

    Raises:
        SourceError: the text is no program.
    """
    found = dict[str, set[str]]()
    for _, sides in _contracts(parse(Source(source, NAME))):
        kinds = [_scales(side, item) for side, item in sides]
        for (side, _), kind in zip(sides, kinds, strict=True):
            if isinstance(side, ast.Tensor) and kind and _is_narrow(side):
                found.setdefault(side.name.text, set()).update(kinds)
    return found


def turned_operands(source: str) -> list[str]:
    """The tensors of a byte an element that are multiplied as they are and whose last index is not the summed one.
    Infinities are not stored as they are (they saturate), so there are none of types that have them.

    Raises:
        SourceError: the text is no program.
    """
    found = list[str]()
    for _, ((left, _), (right, _)) in _contracts(parse(Source(source, NAME))):
        for side, other in ((left, right), (right, left)):
            if isinstance(side, ast.Tensor) and len(side.indices) > 1 and _is_moved(side):
                last, before = map(dims_of, side.indices[:-3:-1])
                if not last & dims_of(other) and before & dims_of(other):
                    found.append(side.name.text)
    return [*dict.fromkeys(found)]


def _contracts(program: ast.Program) -> Iterator[tuple[ast.Contract, list[tuple[ast.Node, ast.Item | None]]]]:
    """The contractions, each with its sides, and what its `scale(...)` says of them."""
    for contract in (x for x in ast.walk(program) if isinstance(x, ast.Contract)):
        entries = iter(contract.scale.items if contract.scale is not None else ())
        sides = (contract.left, contract.right)
        yield contract, [(side, next(entries, None) if _has_entry(side) else None) for side in sides]


def _is_narrow(tensor: ast.Tensor) -> bool:
    bits, element = _bits(tensor), _element(tensor)
    return bits < 8 or (bits == 8 and element in GRIDS)


def _is_moved(tensor: ast.Tensor) -> bool:
    """Whether its elements are bytes that a kernel without a contraction stores as they are."""
    return _bits(tensor) == 8 and ELEMENT_TYPES[_element(tensor)].finite


def _element(tensor: ast.Tensor) -> str:
    """Its type; of what is no type, which is refused later, as if none were said."""
    said = tensor.type.text if tensor.type is not None else UNSAID
    said = FORMATS[said].element if said in FORMATS else said
    return said if said in ELEMENT_TYPES else UNSAID


def _bits(tensor: ast.Tensor) -> int:
    return ELEMENT_TYPES[_element(tensor)].bits


def _scales(operand: ast.Node, item: ast.Item | None) -> str:
    """The type of the inner scales of an operand, with its entry in `scale(...)`, where that has a byte; else ""."""
    types = [x.type.text for x in ast.walk(operand) if isinstance(x, ast.Tensor) and x.type is not None]
    formats = [FORMATS[x] for x in types if x in FORMATS]
    level = item.levels[0].type if item is not None else None
    kind = formats[0].lhs[0].type if formats else level.text if level is not None else ""
    return kind if kind in ELEMENT_TYPES and ELEMENT_TYPES[kind].bits == 8 else ""


def cut_operand(source: str, operand: str, becomes: str = "", turns: bool = False) -> Cut | None:
    """The program in two, the first of which quantises the tensor `operand`, or makes it the type `becomes`, or stores
    it the other way round where that is TURNED; None where a text does not say it.

    Args:
        turns: whether what is quantised is stored with its last two indices exchanged, and its scales with it.

    Raises:
        SourceError: the text is no program.
    """
    source = blank(source)  # a comment would end what follows it on a line here
    program = parse(Source(source, NAME))
    contracts, kinds = [*_contracts(program)], ast.Tensor if becomes else ast.Quantize
    own = [x for _, sides in contracts for x in sides if isinstance(x[0], kinds) and _tensor(x[0]).name.text == operand]
    every = [side for side, _ in own]
    text = partial(text_of, source)
    if len({(text(side), text(item) if item is not None else NOTHING) for side, item in own}) != 1:
        return None
    (one, item), *_ = own
    if _blocks_of_groups(program, one, item):
        return None
    extents = _looked_up(one, operand)
    if extents is None or names_of(program) & {*extents.values()} or not _read_here_alone(program, every):
        return None

    def whole(node: ast.Node) -> str:
        """The text of what is quantised, of all of the tensor."""
        found, start = text(node), node.span[0]
        for (first, end), extent in sorted(extents.items(), reverse=True):
            if start <= first and end <= node.span[1]:
                found = found[: first - start] + extent + found[end - start :]
        return found

    turned = becomes == TURNED
    level, kind = ("", becomes)
    if isinstance(one, ast.Quantize):
        level, kind = _exchanged(one.level) if turns else text(one.level), one.type.text
    kind = _element(_tensor(one)) if turned else kind
    split = (f"{whole(_tensor(one)).partition(':')[0]}:{kind}", "") if turned else _split(one, item, whole)
    there = _turned(item) if turned else level or NOTHING
    if split is None or there is None or level is None:
        return None
    value, factor = split
    between = unused(program, f"{operand}_{TURNED if turned else kind}", "_scale", "_scale2")
    indices = in_rows(_tensor(one))
    order = (*indices[:-2], *indices[:-3:-1]) if turned or turns else indices
    at, left = (f"{between}[{','.join(map(said, order))}]:{kind}" for said in (text, whole))
    edits = list[tuple[tuple[int, int], str]]()
    for contract, sides in contracts:
        mine = [side in every for side, _ in sides]
        if not any(mine):
            continue
        entries = [
            there if is_mine else text(entry) if entry is not None else NOTHING
            for (side, entry), is_mine in zip(sides, mine, strict=True)
            if is_mine or _has_entry(side)
        ]
        scale = f"scale({', '.join(entries)})" if {*entries} != {NOTHING} else ""
        start, end = contract.span
        place = contract.scale.span if contract.scale is not None else (end, end)
        edits += [(side.span, at) for (side, _), is_mine in zip(sides, mine, strict=True) if is_mine]
        edits.append((place, " " * (contract.scale is None and scale != "") + scale + (factor and f" * {factor})")))
        edits.append(((start, start), factor and "("))
    second = source
    for (first, end), new in sorted(edits, reverse=True):
        second = second[:first] + new + second[end:]
    levels = range(len(item.levels) if turned and item is not None and there != NOTHING else 0)
    scales = tuple((f"{between}_scale{'2' * i}", f"{operand}_scale{'2' * i}") for i in levels)
    return Cut.of(left + f" scale({level})" * (level != "") + f" = {value}", second, between, scales)


def _blocks_of_groups(program: ast.Program, operand: ast.Node, item: ast.Item | None) -> bool:
    """Whether blocks of an operand's scales are those of groups that are apart, which the first program does not know:
    along the last index, of several of another one, or in tiles."""
    apart = {r.dim.text for s in program.statements for r in s.ranges if any(p.word.text == APART for p in r.promises)}
    tensor = _tensor(operand)
    cut = [at for at, index in enumerate(reversed(in_rows(tensor))) if dims_of(index) & apart]
    levels = [
        *(item.levels if item is not None else ()),
        *([operand.level] if isinstance(operand, ast.Quantize) else ()),
    ]
    form = FORMATS.get(tensor.type.text) if tensor.type is not None else None
    blocks = [x.block.text.split("x") for x in levels]
    blocks += [[*map(str, x.block)] for x in (*form.lhs, *form.rhs)] if form is not None else []
    several = any(at < len(block) and block[-1 - at] != "1" for block in blocks for at in cut)
    return bool(cut) and (0 in cut or several or any(x.layout is not None and x.layout.text in UNITS for x in levels))


def _looked_up(operand: ast.Node, name: str) -> dict[tuple[int, int], str] | None:
    """The places of an operand's indices that are read from memory, and what the compiler calls the dimensions there;
    None where one is computed of what is read, or is another tensor's."""
    found = [x for x in ast.walk(operand) if isinstance(x, ast.IndexRead)]
    extents = {x.span: f"{name}_{axis}" for axis, x in enumerate(in_rows(_tensor(operand))) if x in found}
    return extents if len(extents) == len(found) else None


def _read_here_alone(program: ast.Program, every: list[ast.Node]) -> bool:
    """Whether what equal operands are made of is read by them alone: elsewhere its type may stand."""
    read = [x.name.text for x in ast.walk(program) if isinstance(x, ast.Tensor)]
    inside = [x.name.text for x in ast.walk(every[0]) if isinstance(x, ast.Tensor)]
    return sum(x in inside for x in read) == len(every) * len(inside)


def _turned(item: ast.Item | None) -> str | None:
    """An entry of `scale(...)` for the same scales seen with their last two indices exchanged; None where no layout is
    those'."""
    if item is None or item.levels[0].block.text == NOTHING:
        return NOTHING
    made = list[str]()
    for level in item.levels:
        block, layout = level.block.text, level.layout.text if level.layout is not None else "row"
        if layout not in ("row", "col"):
            return None
        if block != "tensor":
            *ahead, rows, last = ["1", *block.split("x")] if "x" not in block else block.split("x")
            block = "x".join([*ahead, last, rows])
        kind = f":{level.type.text}" if level.type is not None else ""
        made.append(block + kind + "@col" * (layout == "row"))
    return "*".join(made)


def _exchanged(level: ast.Level) -> str | None:
    """A block of the same elements where the last two indices are exchanged; None where its scales' layout is said."""
    if level.layout is not None or "x" not in level.block.text:
        return None
    *ahead, rows, last = level.block.text.split("x")
    return "x".join([*ahead, last, rows]) + (f":{level.type.text}" if level.type is not None else "")


def _split(operand: ast.Node, item: ast.Item | None, text: Callable[[ast.Node], str]) -> tuple[str, str] | None:
    """What is quantised or converted, with the scales that are in it, and what multiplies sums, "" where nothing does;
    `item`: the operand's entry in `scale(...)`. None where a text does not say it."""
    tensor, made_of = _tensor(operand), operand.value if isinstance(operand, ast.Quantize) else operand
    formats = {x.type.text for x in ast.walk(operand) if isinstance(x, ast.Tensor) and x.type is not None} & {*FORMATS}
    if any(FORMATS[x].lhs != FORMATS[x].rhs for x in formats):
        return None  # which of these it is the side of `@` says
    of_format = [level for x in formats for level in FORMATS[x].lhs]
    value, levels = _told(made_of, text), [text(level) for level in item.levels] if item is not None else []
    if any(level.tensor for level in of_format):
        levels = ["tensor" if x.tensor else f"{'x'.join(map(str, x.block))}:{x.type}" for x in of_format]
        (name,) = formats
        value = f"{tensor.name.text}[{','.join(map(text, tensor.indices))}]:{FORMATS[name].element}"
    if not levels or levels == [NOTHING]:
        return value, ""
    if _less(made_of) is not None:
        value = f"({value})"
    elif not isinstance(made_of, ast.Tensor):
        return None
    block, _, kind = levels[-1].partition("@")[0].partition(":")
    factor = ""
    if block == "tensor":
        name = f"{tensor.name.text}_scale" + "2" * (len(levels) > 1)
        factor = f"{name}[{','.join('0' for _ in in_rows(tensor))}]:{kind or 'f32'}"
        levels.pop()
    if not all(_some(x.partition("@")[0].partition(":")[0]) for x in levels):
        return None
    if not isinstance(operand, ast.Quantize) and len(levels) > 1:
        return None  # an element times several scales has more bits than 16
    return value + f" scale({'*'.join(levels)})" * bool(levels), factor


def _less(node: ast.Node) -> ast.Binary | None:
    """A tensor of integers less its zero points."""
    able = isinstance(node, ast.Binary) and node.operator == "-" and isinstance(node.left, ast.Tensor)
    return node if able and _element(node.left) in SHIFTED else None  # pyright: ignore


def _told(made_of: ast.Node, text: Callable[[ast.Node], str]) -> str:
    """The text of what is quantised; of zero points with their type, which is that of what they are of where none is
    said, and would be bf16 elsewhere."""
    if isinstance(made_of, ast.Shifted):
        return f"({_told(made_of.value, text)}) {text(made_of.scale)}"
    less = _less(made_of)
    zeros = [x for x in ast.walk(less.right) if isinstance(x, ast.Tensor) and x.type is None] if less else []
    if less is None or not zeros:
        return text(made_of)
    (zero,), said = zeros, text(less.right)
    said = said.replace(text(zero), f"{text(zero)}:{_element(less.left)}", 1)  # pyright: ignore
    return f"{text(less.left)} - {said if less.right is zero else f'({said})'}"


def _tensor(operand: ast.Node) -> ast.Tensor:
    """The tensor with all indices of an operand."""
    return max((x for x in ast.walk(operand) if isinstance(x, ast.Tensor)), key=lambda x: len(x.indices))


def _has_entry(operand: ast.Node) -> bool:
    """Whether an operand has an entry in its contraction's `scale(...)`."""
    tensors = [x for x in ast.walk(operand) if isinstance(x, ast.Tensor)]
    in_it = any(isinstance(x, ast.Shifted) for x in ast.walk(operand))
    return not in_it and not any(x.type is not None and x.type.text in FORMATS for x in tensors)


def _some(block: str) -> bool:
    """Whether a block has some elements of one index, as a K tile has whole ones of."""
    return block.replace("x", "").isdecimal() and sum(x != "1" for x in block.split("x")) < 2
