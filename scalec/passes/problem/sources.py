"""What the values of a fused program are made of."""

from __future__ import annotations

from typing import Any

from scalec.formats import WIDE
from scalec.ir.mlir import ir
from scalec.ir.scale import element, map_of


def computed_of(op: Any) -> list[Any]:
    """What a `scale.map` reads, one value a view."""
    return [view.owner.opview.source for view in op.views]


def is_op(value: Any, name: str) -> bool:
    """Whether an op of this name makes a value."""
    return not isinstance(value.owner, ir.Block) and value.owner.name == name


def reduction_of(value: Any) -> Any:
    """The `scale.reduce` that a result of the function is computed of, None where it is of none."""
    if not is_op(value, "scale.map"):
        return None
    return next((x.owner.opview for x in computed_of(value.owner.opview) if is_op(x, "scale.reduce")), None)


def of_inputs(reduce: Any) -> bool:
    """Whether a reduction is one of arguments: of an elementwise expression of them, or of one itself."""
    value = reduce.input
    read = computed_of(value.owner.opview) if is_op(value, "scale.map") else [value]
    return all(isinstance(below(x).owner, ir.Block) for x in read)


def before_transform(value: Any) -> tuple[Any, bool]:
    """What is transformed into a value, and whether that is so; the value itself where it is not."""
    return (value.owner.opview.input, True) if is_op(value, "scale.hadamard") else (value, False)


def rounded_to(op: Any) -> str:
    """The type to which a `scale.dequantize` rounds elements times their scales, "" where it does not."""
    made = str(element(op.result.type))
    return made if made in WIDE else ""


def unscaled(value: Any) -> Any:
    """What an operand of the contraction is below its scales and zero points."""
    while is_op(value, "scale.dequantize") or is_op(value, "scale.subtract"):
        value = value.owner.opview.values
    return value


def quantization(value: Any) -> Any:
    """The `scale.quantize` of an operand below its scales, of which it makes some, None where none does."""
    value = unscaled(value)
    return value.owner.opview if is_op(value, "scale.quantize") else None


def computation(value: Any) -> Any:
    """The `scale.map` that computes an operand, None where none does."""
    quantize = quantization(value)
    value = value if quantize is None else quantize.input
    return value.owner.opview if is_op(value, "scale.map") else None


def below(value: Any) -> Any:
    """Likewise, or of what it is quantised or computed: `whole_of`."""
    value = unscaled(value)
    if is_op(value, "scale.quantize"):
        return below(value.owner.opview.input)
    if is_op(value, "scale.map") and (view := whole_of(value.owner.opview)) is not None:
        return below(view.source)
    return value


def whole_of(op: Any) -> Any:
    """The `scale.read` of a map that reads a tensor with all indices of the map's result, in any order, where there is
    one such; else None."""
    wanted = _positions(map_of(op.map))
    reads = [view.owner.opview for view in op.views]
    own = [r for r in reads if wanted is not None and _positions(map_of(r.map)) == wanted]
    return own[0] if len(own) == 1 else None


def elements_read(op: Any) -> Any:
    """The `scale.read` of the tensor whose elements a map is of, one for each point: `whole_of`, or the one that reads
    at indices from memory; None where there is no such."""
    whole, named = whole_of(op), [view.owner.opview for view in op.views if len(view.owner.opview.symbols)]
    return named[0] if whole is None and len(named) == 1 else whole


def same_place(one: ir.AffineMap, symbols: Any, other: ir.AffineMap, others: Any) -> bool:
    """Whether two maps with indices from memory, each of its own symbols, are of the same points."""

    def places(where: ir.AffineMap, known: Any) -> list[Any]:
        return [ir.Value(known[e.position]) if isinstance(e, ir.AffineSymbolExpr) else e for e in where.results]

    return places(one, list(symbols)) == places(other, list(others))


def _positions(where: ir.AffineMap) -> list[int] | None:
    """The dimensions that a map's results are, sorted; None where one is none."""
    plain = all(isinstance(e, ir.AffineDimExpr) for e in where.results)
    return sorted(e.position for e in where.results) if plain else None


def where_of(value: Any, where: ir.AffineMap) -> ir.AffineMap:
    """Where the tensor is read that an operand read at `where` is, or is computed of."""
    op = computation(value)
    if op is not None and list(map_of(op.map).results) == list(where.results):
        view = whole_of(op)
        return where if view is None else map_of(view.map)
    return where
