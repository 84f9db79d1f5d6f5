"""Indices read from memory: one op for each in a function, and lists of symbols that hold what is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.scale import map_of, symbols_in


def settle(block: ir.Block) -> None:
    """Puts indices and ragged ranges first in a function, one op for each: what moves later finds them above.

    An index that is read from a tensor that the program computes stays behind what computes the tensor.

        %s = scale.index(%e) {map = (m, n, k) -> (m floordiv 128)}
        %t = scale.contract(%A, %B, %s)
        %u = scale.index(%e) {map = (m, n, k) -> (m floordiv 128)}
        %b = scale.read(%bias, %u)
    -->
        %s = scale.index(%e) {map = (m, n, k) -> (m floordiv 128)}
        %t = scale.contract(%A, %B, %s)
        %b = scale.read(%bias, %s)
    """
    seen: dict[Any, Any] = {}
    settled: list[Any] = []
    last = None
    for op in list(block.operations):
        if op.operation.name == "scale.index":
            maps, symbols = used([map_of(op.map)], op.symbols)
            what, given = ("index", ir.Value(op.tensor)), isinstance(op.tensor.owner, ir.Block)
        elif op.operation.name == "scale.domain":
            maps, symbols = used([map_of(op.lower), map_of(op.upper)], op.symbols)
            what, given = ("domain", ir.StringAttr(op.dim).value), True
        else:
            continue
        same = (*what, *map(str, maps), *map(ir.Value, symbols))
        if same in seen:
            for word in ("by", "about", "apart"):
                if word in op.operation.attributes:
                    seen[same].owner.attributes[word] = op.operation.attributes[word]
            op.result.replace_all_uses_with(seen[same])
            op.operation.erase()
            continue
        seen[same] = op.result
        if given and all(s in settled for s in symbols):
            settled.append(op.result)
            if last is not None:
                op.operation.move_after(last)
            elif op.operation != block.operations[0].operation:
                op.operation.move_before(block.operations[0].operation)
            last = op.operation


def used(maps: Sequence[ir.AffineMap], symbols: Sequence[Any]) -> tuple[list[ir.AffineMap], list[Any]]:
    """Maps over the symbols that they read alone, each once, in the order of reading: equal for equal accesses."""
    mine: list[Any] = []
    values = list(symbols)

    def renumbered(e: ir.AffineExpr) -> ir.AffineExpr:
        if isinstance(e, ir.AffineSymbolExpr):
            value = values[e.position]
            if value not in mine:
                mine.append(value)
            return ir.AffineExpr.get_symbol(mine.index(value))
        if not isinstance(e, ir.AffineBinaryExpr):
            return e
        make = next(make for kind, make in _BINARY if isinstance(e, kind))
        return make(renumbered(e.lhs), renumbered(e.rhs))

    results = [[renumbered(e) for e in m.results] if symbols_in(m) else list(m.results) for m in maps]
    return [ir.AffineMap.get(m.n_dims, len(mine), r) for m, r in zip(maps, results, strict=True)], mine


_BINARY = (
    (ir.AffineAddExpr, ir.AffineExpr.get_add),
    (ir.AffineMulExpr, ir.AffineExpr.get_mul),
    (ir.AffineModExpr, ir.AffineExpr.get_mod),
    (ir.AffineFloorDivExpr, ir.AffineExpr.get_floor_div),
    (ir.AffineCeilDivExpr, ir.AffineExpr.get_ceil_div),
)


def access(op: Any) -> tuple[ir.AffineMap, list[Any]]:
    """Where a `scale.read` reads, or a `scale.map` writes, whatever its list of symbols is."""
    (where,), symbols = used([map_of(op.map)], op.symbols)
    return where, symbols
