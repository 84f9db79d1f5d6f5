"""Operands of contractions: their element types, and what one that is computed is rounded to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from scalec import zero_points
from scalec.formats import CONVERTED, ELEMENT_TYPES, QUANTISED, ROUNDED, WHOLE, WIDE
from scalec.frontend import affine, ast, scales
from scalec.frontend.diagnostics import Source, Span, one_of
from scalec.frontend.program import (
    Apply,
    Quantized,
    Read,
    Rounded,
    Scalar,
    Subtract,
    Tensor,
    Value,
    all_reads,
    reads_in,
)
from scalec.suggestions import did_you_mean

KEPT_BITS = 16
"""Of an element type to which a computed operand is rounded unsaid: one of fewer bits, which keeps little of what is
computed, the text names."""

ABLE = tuple(t.name for t in ELEMENT_TYPES.values() if t.operand)
"""Element types of operands."""


def rounded(source: Source, span: Span, value: Value, said: ast.Name | None) -> Rounded:
    """An operand that is computed, with the type that the text says behind it.

    Raises:
        SourceError: the type is none of an operand.
    """
    if said is not None and said.text not in ABLE:
        raise source.error(
            said.span,
            f"{said.text} is no type of an operand of @",
            got=said.text,
            expected=one_of(ABLE),
            fix="write tf32 for f32 in memory" if said.text == "f32" else did_you_mean(said.text, ABLE),
        )
    whole = {id(t): t for t, index in reads_in(value) if frozenset().union(*map(affine.dims, index)) == value.dims}
    of = next(iter(whole.values())) if len(whole) == 1 else None
    return Rounded(span, value.dims, value, said.text if said is not None else "", of)


def integers(value: Value) -> str:
    """What to do where a computed operand is zero points less but for its type, `(B[n,k] - 8)`; "" elsewhere."""
    if not isinstance(value, Rounded) or value.of is None or value.of.type:
        return ""
    if not isinstance(value.value, Apply) or value.value.function != "-":
        return ""
    return f"say {value.of.name}'s type, u4 or i4, if that is what zero points are subtracted of; else scale it by hand"


def of_all(value: Value) -> tuple[Value, tuple[str, ...], tuple[affine.Linear, ...]] | None:
    """relu(A[idx[m],k]) as relu(A[A_0,k]) at A_0 = idx[m]: what is computed of a tensor at an index from memory is
    computed of all of it, in its order, and read at that index. None where no tensor alone is read so, or something
    else in it is at the dimensions of that index."""
    named = _named(value)
    if named is None:
        return None
    tensor, at = named
    order = tuple(d for x in tensor.extents if x is not None and (d := affine.plain(x)) is not None)
    own = affine.of_dims(order)

    def moved(x: Value) -> Value:
        if isinstance(x, Read):
            return replace(x, index=own, dims=frozenset(order)) if (x.source, x.index) == (tensor, at) else x
        if not isinstance(x, Apply):
            return x
        inner = tuple(map(moved, x.arguments))
        return replace(x, arguments=inner, dims=frozenset().union(*(y.dims for y in inner)))

    new = {order[a] for a, i in enumerate(at) if affine.symbols(i)} if len(order) == len(at) else None
    if new is None or any(x.dims & new for x in all_reads(value)):
        return None
    return moved(value), order, at


def _named(value: Value) -> tuple[Tensor, tuple[affine.Linear, ...]] | None:
    """The tensor that alone is read at an index from memory, and where it is; None where there are others, or something
    else is at the dimensions of that index."""
    read = [(t, index) for t, index in reads_in(value) if any(map(affine.symbols, index))]
    if len({(t.name, index) for t, index in read}) != 1:
        return None
    (tensor, at), *_ = read
    moving = frozenset[str]().union(*(affine.dims(i) for i in at if affine.symbols(i)))
    beside = [x for x in all_reads(value) if (x.source, x.index) != (tensor, at)]
    if any(x.dims & moving or not isinstance(x.source, (Tensor, Scalar)) for x in beside):
        return None
    return tensor, at


def not_of_all(source: Source, value: Value) -> Exception:
    """That nothing says what all of a tensor is of which something is computed and quantised: `of_all`."""
    words = source.text[slice(*value.span)]
    name = next(t.name for t, index in reads_in(value) if any(map(affine.symbols, index)))
    return source.error(
        value.span,
        f"{words} is quantised, and computed of {name} at an index from memory and of something else along it",
        got=words,
        expected=f"{name} at that index and plain ones, and beside it what has others of its indices alone",
        fix=f"compute it in a program before, of all of {name}",
    )


def _is_named(value: Value) -> bool:
    return any(affine.symbols(i) for _, index in reads_in(value) for i in index)


NARROW = tuple(x for x in ABLE if ELEMENT_TYPES[x].bits <= 8)
"""Those that values are quantised to."""


def quantized(source: Source, node: ast.Quantize, value: Value) -> Quantized:
    """An operand that is quantised anew.

    Raises:
        SourceError: there is no such type, or block, or nothing that says in which order the block's indices are.
    """
    said, level, words = node.type, node.level, source.text[slice(*node.value.span)]
    if said.text not in NARROW:
        raise source.error(
            said.span,
            f"{said.text} is no type to quantise to",
            got=said.text,
            expected=one_of(NARROW),
            fix=did_you_mean(said.text, NARROW),
        )
    if isinstance(value, (Read, Subtract)):
        read = value.values if isinstance(value, Subtract) else value
        found = [(read.source, read.index)]
    else:
        found = [(t, i) for t, i in reads_in(value) if i and all(map(affine.plain, i))]
        found = [(t, i) for t, i in found if frozenset().union(*map(affine.dims, i)) == value.dims]
    orders = {tuple(map(str, index)): (of, index) for of, index in found if isinstance(of, Tensor)}
    if not orders and _is_named(value):
        read = _named(value)
        if read is None or not all(affine.plain(i) or affine.read(i) for i in read[1]):
            raise not_of_all(source, value)
        orders = {tuple(map(str, read[1])): read}
    if len(orders) != 1:
        raise source.error(
            node.value.span,
            f"nothing says in which order the indices of {words} are",
            got="several tensors that have all of them, or none" if not orders else " and ".join(map(str, orders)),
            expected="one tensor in memory with all indices, as in quantize(silu(A[m,k]), e4m3, 1x128)",
        )
    ((of, index),) = orders.values()
    made = scales.levels(source, ast.Item(level.span, (level,)), of.name, index)
    type, layout = level.type, level.layout
    if not made or made[0].type not in QUANTISED or layout is not None:
        got = "none" if not made else source.text[slice(*level.span)]
        raise source.error(
            (layout or (type if made and type is not None else level.block)).span,
            f"{got} are no scales that an operand is quantised by",
            got=got,
            expected=f"a block such as 1x128, and with it {one_of(QUANTISED)}; no layout, as they are not in memory",
            fix="write 1x128",
        )
    return Quantized(node.span, value.dims, value, said.text, made[0], index)


def check(source: Source, operands: Sequence[tuple[Tensor, Span]], computed: Sequence[Rounded]) -> None:
    """Refuses types, known when all is said, that operands do not have: of tensors, and of what is `computed`.

    Raises:
        SourceError: one has another, or there is none that what is computed could be rounded to.
    """
    for tensor, span in operands:
        if tensor.element not in ABLE:
            raise source.error(
                span,
                f"{tensor.element} is no type of an operand of @",
                got=f"{tensor.name} of {tensor.element}",
                expected=one_of(ABLE),
                fix="write tf32 for f32 in memory" if tensor.element == "f32" else "",
            )
    for x in computed:
        if x.tensor is not None:
            _check_rounded(source, x, x.tensor)
            continue
        keeps = x.element in ABLE and ELEMENT_TYPES[x.element].bits >= KEPT_BITS
        if x.said or (keeps and x.of is not None and not x.of.levels):
            continue
        found = _several(x)
        if x.of is not None:
            found = f"{x.of.name} of {x.element}" + (", with scales" if x.of.levels else "")
        raise source.error(
            x.span,
            "an operand is computed, and no type says what it is rounded to",
            got=found,
            expected="a type behind it, or in it one tensor of bf16, f16 or tf32 that has all its indices",
            fix=f"write ({source.text[slice(*x.span)]}):bf16",
        )


def _check_rounded(source: Source, x: Rounded, tensor: Tensor) -> None:
    """Refuses what is not rounded once, each element times its scale."""
    levels, element, words = tensor.levels or (), ELEMENT_TYPES[tensor.element], source.text[slice(*x.span)]
    if isinstance(x.value, Subtract):
        _check_differences(source, x, tensor, x.value)
    if not levels:
        if not (element.result or x.said in CONVERTED.get(tensor.element, ())):
            check_results(source, [(tensor, x.value.span)])
        return
    level, blocks = levels[0], [n for n in levels[0].block if n not in (1, WHOLE)]
    for found, expected, fix in (
        (f":{x.said}" * (x.said not in WIDE), one_of(WIDE), f"write {words.removesuffix(x.said)}bf16"),
        (
            tensor.element * (x.said not in CONVERTED.get(tensor.element, ())),
            f"elements that {x.said} has, of 8 bits or fewer",
            f"round {tensor.name} by a program of its own, without a contraction",
        ),
        (f"{len(levels)} levels of scales" * (len(levels) > 1), "one level", "multiply the levels before the call"),
        (
            f"scales {level.type}" * (x.said not in ROUNDED.get(level.type, ())),
            f"scales of {one_of([t for t, able in ROUNDED.items() if x.said in able])}, all of which {x.said} has",
            f"round the scales to {x.said} before the call, and write 1x128:{x.said}",
        ),
        (
            "a scale for whole rows, or all" * (not blocks),
            "a scale for each of several blocks of a row, as 1x128",
            f"leave :{x.said} out: elements are multiplied as they are, and sums by these scales",
        ),
    ):
        if found:
            raise source.error(
                x.span,
                f"{tensor.name} times its scales is not rounded to {x.said}",
                got=found,
                expected=expected,
                fix=fix,
            )


def _check_differences(source: Source, x: Rounded, tensor: Tensor, value: Subtract) -> None:
    """Refuses a type that has not all that elements less their zero points may be: these round before their scales."""
    if isinstance(value.zeros, Read):
        zeros = cast(Tensor, value.zeros.source)
        low, high = (n + value.plus for n in zero_points.RANGES[zeros.element])
    else:
        low = high = value.zeros
    able = zero_points.converts(tensor.element, low, high)
    able = tuple(t for t in able if t in WIDE or not tensor.levels)
    if x.said in able or (tensor.levels and x.said not in WIDE):  # which is told later
        return
    raise source.error(
        x.span,
        f"{tensor.name} less its zero points is not exact in {x.said}",
        got=f"numbers up to {zero_points.largest_difference(tensor.element, low, high)}",
        expected=f"{' or '.join(able)}, which has all of them",
        fix=f"write {source.text[slice(*x.span)].removesuffix(x.said)}{able[0]}" if able else "",
    )


def _several(of: Rounded) -> str:
    """What an expression reads that has no one tensor with all of its indices."""
    reads = {f"{t.name}[{', '.join(map(str, i))}]": frozenset().union(*map(affine.dims, i)) for t, i in reads_in(of)}
    whole = [text for text, dims in reads.items() if dims == of.dims]
    if whole:
        return f"{' and '.join(whole)}, which have all its indices"
    lacks = (f"{text} lacks {' and '.join(sorted(of.dims - dims))}" for text, dims in reads.items())
    return f"no tensor that has {', '.join(sorted(of.dims))}" + (f": {', '.join(lacks)}" if reads else "")


def check_scale(source: Source, node: ast.Tensor) -> None:
    """Refuses scales behind an operand, before its contraction is complete.

    Raises:
        SourceError: there are some.
    """
    if node.scale is not None:
        raise scaled_early(source, node.scale, f"the operand {node.name.text}")


def refuse_chain(source: Source, node: ast.Contract) -> None:
    """Refuses a contraction that has another one as an operand.

    Raises:
        SourceError: it has.
    """
    inner = next((n for n in ast.walk(node.left, node.right) if isinstance(n, ast.Contract)), None)
    if inner is not None:
        raise source.error(
            inner.span,
            "a contraction is an operand of a contraction",
            got=source.text[inner.span[0] : inner.span[1]].replace("\n", " "),
            expected="tensors, and elementwise expressions of them, on both sides of @",
            fix="give the inner one a statement of its own: its left side says which indices it keeps",
        )


def scaled_early(source: Source, scale: ast.Scale, of: str) -> Exception:
    """That scales stand behind an operand."""
    return source.error(
        scale.span,
        f"scales of {of} stand before its contraction is complete",
        got=source.text[slice(*scale.span)],
        expected="scale(...) behind the contraction, with an entry for each operand without a format",
        fix="write A[...] @ B[...] scale(1x128, 128x128)",
    )


def check_results(source: Source, made: Sequence[tuple[Tensor, Span]]) -> None:
    """Refuses results, and operands that are computed, of a type that only tensors that are given have.

    Raises:
        SourceError: one is of such a type.
    """
    for tensor, span in made:
        if not ELEMENT_TYPES[tensor.element].result:
            raise source.error(
                span,
                f"{tensor.name} is {tensor.element}, which nothing is rounded to",
                got=tensor.element,
                expected="bf16, f16 or f32",
                fix=f"give {tensor.name} another type",
            )


def called(operand: ast.Node) -> str:
    """What messages name an operand by."""
    return operand.name.text if isinstance(operand, ast.Tensor) else "the computed operand"


def leading(operand: ast.Node) -> set[str]:
    """The indices of a tensor that say which of several matrices is meant: those before the last two."""
    indices = operand.indices[:-2] if isinstance(operand, ast.Tensor) else ()
    return {i.text for i in ast.walk(*indices) if isinstance(i, ast.IndexName)}


def scaled(value: Value) -> object:
    """What the scales of an operand belong to: a tensor in memory, else nothing that has some."""
    if isinstance(value, (Quantized, Rounded)):
        return value.tensor
    value = value.values if isinstance(value, Subtract) else value
    return value.source if isinstance(value, Read) else None


def stored(value: Rounded) -> Tensor | None:
    """The tensor whose elements are converted where they are multiplied, with its scales or zero points; None where
    each is computed first."""
    tensor = value.tensor
    plain = tensor is None or not (tensor.levels or isinstance(value.value, Subtract))
    return None if tensor is None or (plain and ELEMENT_TYPES[tensor.element].result) else tensor


def index_of(value: Value) -> tuple[affine.Linear, ...]:
    """Where the tensor is read that an operand is (`scaled`)."""
    value = value.value if isinstance(value, (Quantized, Rounded)) else value
    value = value.values if isinstance(value, Subtract) else value
    return value.index if isinstance(value, Read) else ()
