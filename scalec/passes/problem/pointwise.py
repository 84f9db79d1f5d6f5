"""Programs without a contraction: what a thread reads, computes and writes for some adjacent columns of a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import ElementType
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_read, map_of, maps_of, ranges_of
from scalec.passes.problem.access import Coord, Dim, Lookup
from scalec.passes.problem.epilogue import EpilogueReader, element_of
from scalec.passes.problem.types import STORED
from scalec.targets import Target

ROUNDED = (*STORED, "e4m3", "e5m2")
"""Element types of results."""


@dataclass(frozen=True)
class Read:
    """A tensor, or a scalar (without coordinates), that a body reads as its argument number `view`."""

    name: str
    argument_index: int
    element: ElementType
    coords: tuple[Coord, ...]
    view: int
    scalar: bool = False

    def dims(self, lookups: dict[str, Lookup]) -> set[str]:
        """The dimensions that it depends on."""
        found = {c.dim for c in self.coords if c.dim}
        return {d for x in found for d in ([c.dim for c in lookups[x].index.coords] if x in lookups else [x]) if d}


@dataclass(frozen=True)
class Reduction:
    """A sum, or another `kind`, over `dim` of what a body computes of `reads`; `mapped`: it is no body, but one read."""

    kind: str
    dim: Dim
    reads: tuple[Read, ...]
    mapped: bool


@dataclass(frozen=True)
class Pointwise:
    """A program without a contraction.

    Attributes:
        rows: the result's indices but the last, `columns` that one.
        name, element, index: of the result.
        reads: of the body behind the reduction, whose value are its arguments `sums`; `mapped`: there is such a body.
        lookups: indices that are read from memory, by name.
    """

    target: Target
    rows: tuple[Dim, ...]
    columns: Dim
    name: str
    element: ElementType
    reads: tuple[Read, ...]
    sums: tuple[int, ...]
    reduction: Reduction | None
    lookups: tuple[Lookup, ...]

    @property
    def dims(self) -> tuple[Dim, ...]:
        """All dimensions, the result's first."""
        return (*self.rows, self.columns, *([self.reduction.dim] if self.reduction else []))


class PointwiseReader(EpilogueReader):
    """The walk over one function."""

    def refused(self, what: str, at: Any, expected: str, fix: str = "compute it outside the program") -> Exception:
        return UnsupportedError(
            f"{what}, which has no kernel on {self.target.name} yet", expected=expected, fix=fix, place=place_of(at)
        )

    def problem(self) -> Pointwise:
        """Reads it.

        Raises:
            UnsupportedError: a form that no kernel has.
        """
        one = "one elementwise result, of one sum at most"
        for op in self.block.operations:
            if op.operation.name not in ("scale.map", "scale.read", "scale.index", "scale.reduce", "func.return"):
                raise self.refused(f"{op.operation.name} without a contraction", op, one)
        returned = list(list(self.block.operations)[-1].operation.operands)
        made = [v for v in returned if not isinstance(v.owner, ir.Block) and v.owner.name == "scale.map"]
        if len(returned) != 1 or not made:
            raise self.refused(f"a program without a contraction with {len(returned)} results", self.function, one)
        final = made[0].owner.opview
        where = map_of(final.map)
        plain = all(isinstance(e, ir.AffineDimExpr) for e in where.results)
        if len(final.domains) or not plain or not where.results:
            raise self.refused("a result with a range or a computed index", final, "plain indices")
        names = [self.dims[e.position] for e in where.results]  # pyright: ignore
        facts = self.facts("res_attrs", 0)
        name = self.name(facts, ir.StringAttr(self.function.attributes["sym_name"]).value)
        element = element_of(made[0], name)
        if element.name not in ROUNDED:
            raise self.refused(f"a result of {element.name}", final, " or ".join(ROUNDED))
        sums, reads, reduction, seen = [], [], None, None
        for position, view in enumerate(final.views):
            read = view.owner.opview
            source = read.source
            if not isinstance(source.owner, ir.Block) and source.owner.name == "scale.reduce":
                if list(map_of(read.map).results) != list(where.results) or seen not in (None, source):
                    raise self.refused("a sum that is read elsewhere, or several", read, one)
                seen = source
                sums.append(position)
                continue
            reads.append(self.at(source, map_of(read.map), list(read.symbols), position))
        if seen is not None:
            reduction = self.reduced(seen.owner.opview, names)
        everything = (*reads, *(reduction.reads if reduction else ()))
        lookups = tuple(Lookup(n, self.index(s), e) for n, (s, e) in self.found.items())
        self.check(everything, {x.name: x for x in lookups}, names, reduction)
        *rows, columns = (self.dim_of(n) for n in names)
        return Pointwise(
            self.target, tuple(rows), columns, name, element, tuple(reads), tuple(sums), reduction, lookups
        )

    def check(self, reads: Any, lookups: Any, names: list[str], reduction: Reduction | None) -> None:
        known = {*names, *([reduction.dim.name] if reduction else [])}
        for x in reads:
            beyond, last = x.dims(lookups) - known, x.coords[-1].dim if x.coords else ""
            columns = names[-1] in x.dims(lookups)
            if beyond or (columns and last != names[-1]):
                raise self.refused(
                    f"{x.name}, read along {', '.join(sorted(beyond)) or names[-1]}",
                    self.function,
                    f"indices among {', '.join(sorted(known))}, with {names[-1]} last where it is read",
                )

    def reduced(self, op: Any, names: list[str]) -> Reduction:
        source, result = maps_of(op.maps)
        inside = dims_read(source, list(op.symbols)) - dims_read(result, [])
        if len(op.domains) or len(inside) != 1 or [self.dims[e.position] for e in result.results] != names:
            raise self.refused(f"a sum over {len(inside)} indices, or with a range", op, "one index, without a range")
        value = op.input
        mapped = not isinstance(value.owner, ir.Block)
        if mapped:
            if value.owner.name != "scale.map" or len(value.owner.opview.domains):
                raise self.refused("a sum of what is no elementwise expression", op, "an elementwise expression")
            views = [v.owner.opview for v in value.owner.opview.views]
            reads = [self.at(v.source, map_of(v.map), list(v.symbols), i) for i, v in enumerate(views)]
        else:
            reads = [self.at(value, source, list(op.symbols), 0)]
        kind, dim = ir.StringAttr(op.kind).value, self.dim_of(self.dims[next(iter(inside))])
        return Reduction(kind, dim, tuple(reads), mapped)

    def at(self, value: Any, where: ir.AffineMap, symbols: list[Any], view: int) -> Read:
        index, name, layout = self.argument(value, "an input of the elementwise expression")
        element = element_of(value, name)
        if element.name not in STORED or layout != "row":
            raise self.refused(f"{name} of {element.name}", value, " or ".join(STORED))
        scalar = not isinstance(value.type, ir.RankedTensorType)

        class Place:  # what read_at asks of a scale.read
            source = value

        Place.symbols, Place.operation = symbols, self.function.operation  # pyright: ignore
        coords = tuple(self.read_at(e, name, Place, axis) for axis, e in enumerate(where.results))
        return Read(name, index, element, coords, view, scalar)

    def dim_of(self, name: str) -> Dim:
        """A dimension, with the first static extent that an argument has for it."""
        position, size = self.dims.index(name), None
        for i, value in enumerate(self.arguments):
            facts = self.facts("arg_attrs", i)
            for axis, e in enumerate(map_of(facts["scale.shape"]).results if "scale.shape" in facts else ()):
                bare = isinstance(e, ir.AffineDimExpr) and e.position == position
                if bare and size is None and not value.type.is_dynamic_dim(axis):
                    size = value.type.get_dim_size(axis)
        within = ranges_of(self.function).get(name)
        return replace(Dim(name, size, position), most=max(1, within.high) if within else None)


def read(function: Any, target: Target) -> Pointwise:
    """The program of a function without a contraction."""
    return PointwiseReader(function, target).problem()
