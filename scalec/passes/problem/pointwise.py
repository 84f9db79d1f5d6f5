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

PARTS = ("scale.map", "scale.read", "scale.index", "scale.reduce", "func.return")
"""The ops that such a program has kernels for."""

NO_KERNEL = {
    "scale.domain": "a range",
    "scale.scatter": "a result at an index from memory",
    "scale.quantize": "a quantised result",
    "scale.dequantize": "a tensor with scales",
    "scale.subtract": "an operand with zero points",
}
"""What the others are in the language."""


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
        """The dimensions that it depends on, also those that its lookups do."""
        return set().union(*(dims_of(c, lookups) for c in self.coords))

    def adjacent(self, columns: str, lookups: dict[str, Lookup]) -> bool:
        """Whether elements of adjacent columns of the result lie side by side, and nothing else changes with these."""
        *outer, last = self.coords or (Coord(),)
        return last == Coord(columns) and not any(columns in dims_of(c, lookups) for c in outer)


@dataclass(frozen=True)
class Reduction:
    """A reduction of a `kind` (sum, max or min) over `dim`: `mapped`, of what a body computes of `reads`, else of one
    read as it is."""

    kind: str
    dim: Dim
    reads: tuple[Read, ...]
    mapped: bool


@dataclass(frozen=True)
class Pointwise:
    """A program without a contraction.

    Attributes:
        rows: the result's indices but the last, `columns` that one.
        name, element: of the result.
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

    @property
    def every(self) -> tuple[Read, ...]:
        """All that is read, of the reduction last."""
        return (*self.reads, *(self.reduction.reads if self.reduction else ()))

    @property
    def flops(self) -> tuple[str, ...]:
        """The dimensions whose product is the terms of all sums, two operations each as `w[j] * D[j,n]` has them; none
        where nothing is summed: how many an elementwise expression has says nothing of its time."""
        return tuple(d.name for d in self.dims) if self.reduction else ()

    def along(self, x: Read) -> bool:
        """Whether a thread reads of `x` one element for each of its adjacent columns, side by side."""
        return x.adjacent(self.columns.name, {look.name: look for look in self.lookups})

    @property
    def single(self) -> bool:
        """Whether something changes with the columns, and does not lie side by side for adjacent ones: `x[n/128]`,
        `x[n%64]`, `x[e[n]]`. Threads have one column each then."""
        lookups = {look.name: look for look in self.lookups}
        return any(self.columns.name in x.dims(lookups) and not self.along(x) for x in self.every)


def dims_of(at: Coord, lookups: dict[str, Lookup]) -> set[str]:
    """The dimensions that a coordinate depends on: its own, or those of its lookup."""
    return {c.dim for c in (lookups[at.dim].index.coords if at.dim in lookups else (at,)) if c.dim}


@dataclass(frozen=True)
class At:
    """Where a tensor is read: what `EpilogueReader.read_at` asks of a `scale.read`."""

    source: Any
    symbols: list[Any]
    operation: Any


class PointwiseReader(EpilogueReader):
    """The walk over one function without a contraction."""

    def refused(self, what: str, at: Any, expected: str, fix: str = "compute it outside the program") -> Exception:
        """An error that says what this target has no kernel for."""
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
            name = op.operation.name
            if name not in PARTS:
                raise self.refused(f"{NO_KERNEL.get(name, name)} without a contraction", op, one)
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
                elsewhere = list(map_of(read.map).results) != list(where.results)
                if elsewhere or (seen is not None and seen != source):
                    raise self.refused("a sum that is read elsewhere, or several", read, one)
                seen = source
                sums.append(position)
                continue
            reads.append(self.at(source, map_of(read.map), list(read.symbols), position))
        if seen is not None:
            reduction = self.reduced(seen.owner.opview, names)
        lookups = tuple(Lookup(n, self.index(s), e) for n, (s, e) in self.found.items())
        *rows, columns = (self.dim_of(n) for n in names)
        problem = Pointwise(
            self.target, tuple(rows), columns, name, element, tuple(reads), tuple(sums), reduction, lookups
        )
        self.check(problem)
        return problem

    def check(self, p: Pointwise) -> None:
        """Refuses reads whose rows a warp's threads would be in, one each: every load would be of as many sectors."""
        lookups, columns = {x.name: x for x in p.lookups}, p.columns.name
        for x in p.every:
            if beyond := x.dims(lookups) - {d.name for d in p.dims}:
                names = " and ".join(sorted(beyond))
                raise self.refused(
                    f"{x.name} is read along {names}, which neither the result nor its sum has",
                    self.function,
                    "a sum over each other index",
                )
            last = dims_of(x.coords[-1], lookups) if x.coords else set()
            if columns in x.dims(lookups) and columns not in last:
                raise self.refused(
                    f"{x.name} is read along {columns}, the last index of {p.name}, and has another one last",
                    self.function,
                    f"{columns} last in {x.name} too",
                    f"pass a copy of {x.name} that has {columns} last",
                )

    def reduced(self, op: Any, names: list[str]) -> Reduction:
        """The reduction whose result has the indices `names`.

        Raises:
            UnsupportedError: it has a range, runs over several indices, or over what is no elementwise expression.
        """
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
        """What a body reads as its argument number `view`, at the results of a map.

        Raises:
            UnsupportedError: it is no argument of the function, or of a type that threads do not read.
        """
        index, name, layout = self.argument(value, "an input of the elementwise expression")
        element = element_of(value, name)
        if element.name not in STORED or layout != "row":
            raise self.refused(f"{name} of {element.name}", value, " or ".join(STORED))
        scalar = not isinstance(value.type, ir.RankedTensorType)
        place = At(value, symbols, self.function.operation)
        coords = tuple(self.read_at(e, name, place, axis) for axis, e in enumerate(where.results))
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
    """The program of a function without a contraction.

    Raises:
        UnsupportedError: no kernel has this form yet.
    """
    return PointwiseReader(function, target).problem()
