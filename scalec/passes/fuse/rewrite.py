"""Building and merging ops of `scale`: what the rewriting passes share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scalec.ir.mlir import ir
from scalec.ir.scale import MapOp, ReadOp, ViewType, YieldOp, element
from scalec.ir.scale_functions import ROUNDINGS
from scalec.passes.fuse.indices import access, used

Inline = Callable[[list[Any]], Any]
"""Given the values of a body's arguments, emits the body and returns the value it yields."""


def read(source: Any, where: ir.AffineMap, symbols: Sequence[Any] = ()) -> Any:
    """A `scale.read` at the insertion point, over those of the `symbols` of `where` that it reads."""
    (mine,), read = used([where], symbols)
    return ReadOp(source, read, ViewType.get(), ir.AffineMapAttr.get(mine)).result


def same_view(a: Any, b: Any) -> bool:
    """Whether two views read the same place of the same value."""
    x, y = a.owner.opview, b.owner.opview
    return x.source == y.source and access(x) == access(y)


def build_map(
    views: Sequence[Any],
    where: tuple[ir.AffineMap, Sequence[Any]],
    domains: Sequence[Any],
    result: ir.Type,
    body: Inline,
    like: Any = None,
) -> Any:
    """A `scale.map` at the insertion point, over `views` without repetitions; `where`: its map, and that one's symbols.

    `body` receives one value for each entry of `views`, repeated or not. The filling value is that of `like`, where
    given.
    """
    unique: list[Any] = []
    slots: list[int] = []
    for view in views:
        slot = next((i for i, other in enumerate(unique) if same_view(view, other)), len(unique))
        if slot == len(unique):
            unique.append(view)
        slots.append(slot)
    op = MapOp(unique, list(where[1]), list(domains), result, ir.AffineMapAttr.get(where[0]))
    if like is not None and "otherwise" in like.operation.attributes:
        op.operation.attributes["otherwise"] = like.operation.attributes["otherwise"]
    types = [element(view.owner.opview.source.type) for view in unique]
    block = op.body.blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
    with ir.InsertionPoint(block):
        YieldOp(body([block.arguments[slot] for slot in slots]))
    return op


NUMBERS: dict[str, Callable[..., np.float32]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "math.absf": np.abs,
    "math.fpowi": lambda x, n: np.float32(np.float64(x) ** n),
    **dict.fromkeys(ROUNDINGS, lambda x: x),  # the store rounds
}
"""What ops of bodies make of f32."""


def computed(op: Any, number: float) -> float | None:
    """What the body of a `scale.map` of one view yields of a number; None of NaN, and where it has other ops."""
    *ops, last = list(op.body.blocks[0].operations)
    values: dict[Any, Any] = {ir.Value(op.body.blocks[0].arguments[0]): np.float32(number)}
    for x in (x.operation for x in ops):
        if x.name == "arith.constant":
            value = x.attributes["value"].value
            values[x.result] = value if isinstance(value, int) else np.float32(value)  # an exponent, or a number
        elif x.name in NUMBERS:
            values[x.result] = NUMBERS[x.name](*(values[v] for v in x.operands))
        else:
            return None
    found = float(values[last.operation.operands[0]])
    return None if math.isnan(found) else found


def inline(op: Any, arguments: Sequence[Any]) -> Any:
    """Copies the body of a `scale.map` to the insertion point; returns the value it yields."""
    block = op.body.blocks[0]
    values = dict(zip(map(key, block.arguments), arguments, strict=True))
    for inner in block.operations:
        if inner.operation.name == "scale.yield":
            return values[key(inner.operation.operands[0])]
        copy = inner.operation.clone()
        for position, x in enumerate(inner.operation.operands):
            copy.operands[position] = values[key(x)]
        for old, new in zip(inner.operation.results, copy.results, strict=True):
            values[key(old)] = new
    raise AssertionError("the verifier of scale.map asks for a scale.yield")


def key(value: Any) -> Any:
    """A dictionary key: equal for equal values, of whichever class the bindings gave them."""
    return ir.Value(value)


def erase_unused(block: ir.Block) -> None:
    """Erases the `scale` ops of a block that nothing uses."""
    for op in reversed(list(block.operations)):
        results = list(op.operation.results)
        if op.operation.name.startswith("scale.") and results and not any(len(list(r.uses)) for r in results):
            op.operation.erase()
