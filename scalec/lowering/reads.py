"""What a `scale` program reads from memory to know what to compute, and which results it may leave unwritten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scalec.ir import scale
from scalec.ir.mlir import ir
from scalec.reads import Coord, Domain, Entry, Lookup, Reads


@dataclass(frozen=True)
class Seen:
    """A value that an op reads or writes, at which indices."""

    value: Any
    map: ir.AffineMap
    symbols: Sequence[Any]

    @property
    def used(self) -> list[Any]:
        """The indices from memory that the map has."""
        return [self.symbols[i] for i in sorted(scale.symbols_in(self.map))]


def _inputs(op: Any) -> list[Seen]:
    """What an op computes its result of, at the points of its iteration space; an op without maps reads all."""
    name = op.operation.name
    if name == "scale.contract":
        return [Seen(v, m, list(op.symbols)) for v, m in zip((op.lhs, op.rhs), scale.maps_of(op.maps), strict=False)]
    if name in ("scale.reduce", "scale.scatter", "scale.lay"):
        return [Seen(op.input, scale.maps_of(op.maps)[0], list(op.symbols))]
    if name == "scale.map":
        views = [v.owner.opview for v in op.views]
        return [Seen(v.source, scale.map_of(v.map), list(v.symbols)) for v in views]
    return []


SEEN = ("scale.dequantize", "scale.subtract")
"""Ops whose result is a tensor seen as other numbers, element by element."""

ROUNDED = ("scale.quantize", "scale.round", "scale.hadamard")
"""Ops that make numbers of those in the same places, and perhaps of those beside them."""


def _output(op: Any) -> Seen | None:
    """Where an op writes; None for one without maps."""
    if op.operation.name in ("scale.contract", "scale.reduce", "scale.scatter", "scale.lay"):
        return Seen(op.result, scale.maps_of(op.maps)[-1], list(op.symbols))
    return Seen(op.result, scale.map_of(op.map), list(op.symbols)) if op.operation.name == "scale.map" else None


def _domains(op: Any) -> list[Any]:
    return [v.owner.opview for v in op.domains] if _output(op) is not None else []


def _sources(op: Any) -> list[Any]:
    """The values that an op computes its results of."""
    if op.operation.name in SEEN:
        return [op.values]
    if op.operation.name == "scale.add":
        return list(op.terms)
    if op.operation.name in ROUNDED:
        return [op.input]
    return [seen.value for seen in _inputs(op)]


def _maker(value: Any) -> Any:
    """The op that makes a value, None for an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.opview


def partial(value: Any) -> bool:
    """Whether elements of a value may be left unwritten, gaps of its own indices apart.

    What is summed over is left out of a sum, which is written all the same: a range along K, a skipped index along K.
    """
    return bool(_skips(value))


def counted(value: Any, dims: Sequence[str]) -> tuple[str, ...]:
    """The dimensions of which a result has an index that is counted from one read from memory: t of L[q, t - lo[q]]."""
    op = _maker(value)
    out = None if op is None else _output(op)
    own = [] if out is None else [ir.AffineMap.get(out.map.n_dims, out.map.n_symbols, [e]) for e in out.map.results]
    return tuple(dims[d] for m in own if scale.symbols_in(m) for d in sorted(scale.dims_in(m)))


def _skips(value: Any) -> set[frozenset[int]]:
    """The dimensions that say whether an element of a value is written, a set for each index or range that skips some.

    What depends on a dimension that is summed over says which terms a sum has, and not whether it is written.
    """
    op = _maker(value)
    if op is None:
        return set()
    found = {x for v in _sources(op) for x in _skips(v)}
    out = _output(op)
    if out is None:
        return found
    if "otherwise" in op.operation.attributes:
        return set()
    dims = scale.program_dims(op)
    found |= {frozenset([dims.index(ir.StringAttr(d.dim).value)]) for d in _domains(op)}
    found |= {frozenset(_dims_of(symbol)) for seen in (*_inputs(op), out) for symbol in seen.used}
    return {x for x in found if x <= scale.dims_read(out.map, list(out.symbols))}


def _dims_of(symbol: Any) -> set[int]:
    index = symbol.owner.opview
    return scale.dims_read(scale.map_of(index.map), list(index.symbols))


@dataclass
class _Walk:
    """What was met on the way from one result to the arguments."""

    dims: list[str]
    names: dict[Any, str]
    lookups: dict[Lookup, None] = field(default_factory=dict)
    domains: dict[Domain, None] = field(default_factory=dict)

    def visit(self, value: Any, result: str) -> None:
        """What `value` is computed of, for the result of this name."""
        op = _maker(value)
        if op is None:
            return
        for seen in _inputs(op):
            self._seen(seen, self._argument(seen.value), False)
        out = _output(op)
        if out is not None:
            self._seen(out, result, True)
        for domain in _domains(op):
            self._domain(domain)
        for source in _sources(op):
            self.visit(source, result)

    def _argument(self, value: Any) -> str:
        """What the user calls the argument that a value is, scaled, computed, quantised anew or not; "" of a temporary.

        An operand that is computed is so of one argument that has all its indices: relu(A[idx[m],k]).
        """
        op = _maker(value)
        if op is None:
            return self.names[value]
        if op.operation.name in ROUNDED:
            return self._argument(op.input)
        if op.operation.name == "scale.map":
            whole = scale.map_of(op.map)
            return next((self._argument(seen.value) for seen in _inputs(op) if seen.map == whole), "")
        return self._argument(op.values) if op.operation.name in SEEN else ""

    def _seen(self, seen: Seen, tensor: str, once: bool) -> None:
        results = list(seen.map.results)
        for axis, e in enumerate(results):
            if not isinstance(e, ir.AffineSymbolExpr) or not tensor:
                continue
            entry = self._entry(seen.symbols[e.position])
            if entry is None:
                continue
            others = {x.position for x in results if isinstance(x, ir.AffineDimExpr)}
            apart = tuple(
                i
                for i, c in enumerate(entry.coords)
                if c == Coord(c.dim) and c.dim and self.dims.index(c.dim) in others
            )
            alone = once and len(seen.used) == 1
            self.lookups[Lookup(entry, tensor, axis, apart if alone else None)] = None

    def _entry(self, symbol: Any) -> Entry | None:
        """Where an index is read; None at an index that is read itself, or computed in a way that no Coord says."""
        op = symbol.owner.opview
        coords = [self._coord(e) for e in scale.map_of(op.map).results]
        if op.tensor not in self.names or not all(coords):
            return None
        return Entry(self.names[op.tensor], tuple(c for c in coords if c))

    def _coord(self, e: ir.AffineExpr) -> Coord | None:
        if isinstance(e, ir.AffineConstantExpr):
            return Coord(offset=e.value)
        if isinstance(e, ir.AffineDimExpr):
            return Coord(self.dims[e.position])
        if not isinstance(e, ir.AffineBinaryExpr) or not isinstance(e.rhs, ir.AffineConstantExpr):
            return None
        inner, by = self._coord(e.lhs), e.rhs.value
        if inner is None:
            return None
        if isinstance(e, ir.AffineAddExpr):
            return None if inner.modulus else replace(inner, offset=inner.offset + by * inner.divisor)
        if isinstance(e, ir.AffineFloorDivExpr):
            return None if inner.modulus else replace(inner, divisor=inner.divisor * by)
        if isinstance(e, ir.AffineModExpr):
            return None if inner.modulus else replace(inner, modulus=by)
        return None

    def _domain(self, op: Any) -> None:
        bounds = []
        for m in (scale.map_of(op.lower), scale.map_of(op.upper)):
            e = m.results[0]
            if isinstance(e, ir.AffineConstantExpr):
                bounds.append(e.value)
            else:
                bounds.append(self._entry(op.symbols[e.position]) if isinstance(e, ir.AffineSymbolExpr) else None)
        low, high = bounds
        if low is not None and high is not None:
            attributes = op.operation.attributes
            step, about = (
                ir.IntegerAttr(attributes[word]).value if word in attributes else unsaid
                for word, unsaid in (("by", 1), ("about", 0))
            )
            self.domains[Domain(ir.StringAttr(op.dim).value, low, high, step, about)] = None


def reads(function: ir.OpView) -> tuple[Reads, ...]:
    """What is read for each result of a program, each once; empty where it has no such indices and ranges."""
    block = function.body.blocks[0]
    returned = scale.values_returned(function)
    names = dict(zip(block.arguments, _names(function, "arg_attrs", block.arguments), strict=True))
    found: dict[Reads, None] = {}
    for value, name in zip(returned, _names(function, "res_attrs", returned), strict=True):
        walk = _Walk(list(scale.program_dims(function)), names)
        walk.visit(value, name)
        if walk.lookups or walk.domains:
            found[Reads(tuple(walk.lookups), tuple(walk.domains))] = None
    return tuple(found)


def _names(function: ir.OpView, key: str, values: Sequence[Any]) -> Iterator[str]:
    for i, _ in enumerate(values):
        facts = scale.facts_of(function, key, i)
        if "scale.of" in facts:  # a part of an argument
            facts["scale.name"] = facts["scale.of"]
        yield ir.StringAttr(facts["scale.name"]).value if "scale.name" in facts else f"argument{i}"
