"""Programs without a contraction: what a thread reads, computes and writes for some adjacent columns of a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, QUANTISED, WHOLE, ElementType
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, block_of, dims_read, map_of, maps_of, ranges_of
from scalec.passes.problem.access import Coord, Dim, Lookup
from scalec.passes.problem.epilogue import RESULT_BLOCK, EpilogueReader, element_of
from scalec.passes.problem.types import STORED
from scalec.targets import Target

ROUNDED = (*STORED, "e4m3", "e5m2")
"""Element types of results."""

SCALED = ("e4m3", "e5m2", "e2m1")
"""Those of results with scales."""

PARTS = ("scale.map", "scale.read", "scale.index", "scale.reduce", "scale.quantize", "func.return")
"""The ops that such a program has kernels for."""

NO_KERNEL = {
    "scale.domain": "a range",
    "scale.scatter": "a result at an index from memory",
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
class Body:
    """What is computed at a point.

    Attributes:
        op: number of the `scale.map` that computes it among the function's ops; -1: what is read is taken as it is.
        reads: the tensors and scalars among its arguments.
        sums: the others: (argument, which of the program's reductions).
    """

    op: int
    reads: tuple[Read, ...]
    sums: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Reduction:
    """A reduction of a `kind` (sum, max or min) over `dim` of what a body computes, for each point of `kept`."""

    kind: str
    dim: Dim
    body: Body
    kept: frozenset[str]


@dataclass(frozen=True)
class Blocks:
    """The scales of a quantised result: one for each `rows` by `columns` of its last two indices, 0 for all of one.

    Attributes:
        name, index: what the user calls them, and their position among the function's results.
        type, layout: as scalec.formats.Granularity has them.
        outer: the scale of the whole result, which is given; None where there is none.
    """

    name: str
    index: int
    rows: int
    columns: int
    type: str
    layout: str
    outer: Read | None


@dataclass(frozen=True)
class Output:
    """A result: `body` at each point, rounded to `element`, behind a division by the scales of blocks.

    Attributes:
        name, index: what the user calls it, and its position among the function's results.
        coords: where it is written, one entry an axis.
    """

    name: str
    element: ElementType
    index: int
    coords: tuple[Coord, ...]
    body: Body
    scale: Blocks | None = None

    @property
    def exact(self) -> bool:
        """Whether functions are those of results in f32: of 16 bits or fewer, scales too, errors are rounded away."""
        return self.element.bits > 16 or (self.scale is not None and ELEMENT_TYPES[self.scale.type].bits > 16)


@dataclass(frozen=True)
class Pointwise:
    """A program without a contraction.

    Attributes:
        rows: all indices of the results but one, `columns`: that which lies side by side.
        outputs: the results, of which those without `columns` have one element a row.
        reductions: what bodies read beside tensors, each of tensors and earlier ones; over `columns` they are of a row.
        lookups: indices that are read from memory, by name.
    """

    target: Target
    rows: tuple[Dim, ...]
    columns: Dim
    outputs: tuple[Output, ...]
    reductions: tuple[Reduction, ...]
    lookups: tuple[Lookup, ...]

    @property
    def dims(self) -> tuple[Dim, ...]:
        """All dimensions, those of results first."""
        return (*self.rows, self.columns, *(r.dim for r in self.reductions if r.dim != self.columns))

    @property
    def every(self) -> tuple[Read, ...]:
        """All that is read, of reductions last."""
        return tuple(x for of in (*self.outputs, *self.reductions) for x in of.body.reads)

    @property
    def flops(self) -> tuple[str, ...]:
        """The dimensions whose product is the terms of all sums, two operations each as `w[j] * D[j,n]` has them; none
        where nothing is summed: how many an elementwise expression has says nothing of its time."""
        return tuple(d.name for d in self.dims) if self.reductions else ()

    def of_row(self, r: Reduction) -> bool:
        """Whether a reduction is of a whole row, which several threads have."""
        return r.dim == self.columns

    def is_row(self, o: Output) -> bool:
        """Whether a result has one element a row."""
        lookups = {look.name: look for look in self.lookups}
        return all(self.columns.name not in dims_of(c, lookups) for c in o.coords)

    @property
    def spans(self) -> bool:
        """Whether something is found of a whole row before the first result of it is known."""
        whole = any(o.scale is not None and not o.scale.columns for o in self.outputs)
        return whole or any(map(self.of_row, self.reductions))

    @property
    def meets(self) -> bool:
        """Whether threads exchange what they find, or write what no thread writes alone by single columns."""
        alone = all(o.scale is None and o.element.bits >= 8 and not self.is_row(o) for o in self.outputs)
        return self.spans or not alone

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
        self.operations = [op.operation for op in self.block.operations]
        self.known: dict[Any, int] = {}
        for op in self.operations:
            if op.name not in PARTS:
                what = f"{NO_KERNEL.get(op.name, op.name)} without a contraction"
                raise self.refused(what, op, "elementwise expressions and reductions")
        reductions = tuple(self.reduced(op.opview) for op in self.operations if op.name == "scale.reduce")
        outputs = tuple(self.outputs())
        largest = max(outputs, key=lambda o: len(o.coords))
        *rows, columns = (at.dim for at in largest.coords)
        over = {r.dim.name for r in reductions}
        if columns not in over and len(over) == 1 and any(self.turned(r, columns) for r in reductions):
            rows, columns = [*rows, columns], next(iter(over))
        lookups = tuple(Lookup(n, self.index(s), e) for n, (s, e) in self.found.items())
        problem = Pointwise(
            self.target, tuple(map(self.dim_of, rows)), self.dim_of(columns), outputs, reductions, lookups
        )
        self.check(problem)
        return problem

    @staticmethod
    def turned(r: Reduction, columns: str) -> bool:
        """Whether something that is reduced has that index last, and not the one which is last in the results."""
        last = [x.coords[-1] for x in r.body.reads if len(x.coords) > 1 and columns in {c.dim for c in x.coords}]
        return any(at == Coord(r.dim.name) for at in last)

    def outputs(self) -> Iterator[Output]:
        """The results, in order; the scales of a quantised one follow it.

        Raises:
            UnsupportedError: of another type, or at computed indices.
        """
        returned, index = list(self.operations[-1].operands), 0
        while index < len(returned):
            value, at = returned[index], index
            made = None if isinstance(value.owner, ir.Block) else value.owner.opview
            quantize = made if made is not None and made.operation.name == "scale.quantize" else None
            index += 1 if quantize is None else 2
            final = value if quantize is None else quantize.input
            facts = self.facts("res_attrs", at)
            name = self.name(facts, ir.StringAttr(self.function.attributes["sym_name"]).value)
            if isinstance(final.owner, ir.Block) or final.owner.name != "scale.map":
                raise self.refused(f"a result, {name}, of no elementwise expression", self.function, "one")
            op = final.owner.opview
            where = map_of(op.map)
            plain = all(isinstance(e, ir.AffineDimExpr) for e in where.results)
            if len(op.domains) or not plain or not where.results:
                raise self.refused(f"a result, {name}, with a range or a computed index", op, "plain indices")
            element = element_of(value, name)
            known = ROUNDED if quantize is None else SCALED
            if element.name not in known:
                raise self.refused(f"a result of {element.name}", op, " or ".join(known))
            coords = tuple(Coord(self.dims[e.position]) for e in where.results)  # pyright: ignore
            output = Output(name, element, at, coords, self.body(final))
            yield output if quantize is None else replace(output, scale=self.blocks(quantize, output))

    def blocks(self, op: Any, of: Output) -> Blocks:
        """The scales of a result.

        Raises:
            UnsupportedError: of a type or of blocks that no kernel has.
        """
        granularity = GranularityAttr(op.granularity)
        kind, layout = ir.StringAttr(granularity.type).value, ir.StringAttr(granularity.layout).value
        block = block_of(granularity)
        *outer, rows, columns = (1, *block)
        said = "x".join("whole" if x == WHOLE else str(x) for x in block)
        if kind not in QUANTISED:
            fix = f"leave out :{kind}, and convert the scales after the call"
            raise self.refused(f"{of.name} quantised with scales in {kind}", op, " or ".join(QUANTISED), fix)
        several = any(x != 1 for x in outer) or rows == WHOLE
        if several or (columns != WHOLE and columns % RESULT_BLOCK) or (columns == WHOLE and rows != 1):
            raise self.refused(
                f"{of.name} quantised in blocks of {said}",
                op,
                f"blocks of a multiple of {RESULT_BLOCK} of the last index, by any number of the one before, or rows",
                f"say 1x32, 128x128 or 1x{of.coords[-1].dim}, or quantise {of.name} after the call",
            )
        if layout != "row" and len(of.coords) < 2:
            raise self.refused(f"{of.name} has scales of layout {layout} and one index", op, "two indices")
        name = self.name(self.facts("res_attrs", of.index + 1), f"{of.name}_scale")
        whole = [self.at(x, ir.AffineMap.get_empty(), [], -1) for x in op.outer]
        return Blocks(
            name, of.index + 1, rows, 0 if columns == WHOLE else columns, kind, layout, whole[0] if whole else None
        )

    def body(self, value: Any) -> Body:
        """What computes the result of a `scale.map`.

        Raises:
            UnsupportedError: it reads a reduction elsewhere than at its own indices.
        """
        op, reads, sums = value.owner.opview, [], []
        for position, view in enumerate(op.views):
            read = view.owner.opview
            source = read.source
            if source not in self.known:
                reads.append(self.at(source, map_of(read.map), list(read.symbols), position))
                continue
            if list(map_of(read.map).results) != list(maps_of(source.owner.opview.maps)[1].results):
                raise self.refused("a sum that is read elsewhere than at its own indices", read, "its own indices")
            sums.append((position, self.known[source]))
        return Body(self.operations.index(op.operation), tuple(reads), tuple(sums))

    def check(self, p: Pointwise) -> None:
        """Refuses what threads that share out rows as they lie in memory do not have: results and sums of other
        indices, and reads whose rows a warp's threads would be in, one each: every load would be of as many sectors."""
        lookups, columns = {x.name: x for x in p.lookups}, p.columns.name
        rows, largest = {d.name for d in p.rows}, max(p.outputs, key=lambda o: len(o.coords))
        for o in p.outputs:
            own = {c.dim for c in o.coords}
            if own not in (rows, {*rows, columns}) or (columns in own and o.coords[-1].dim != columns):
                raise self.refused(
                    f"{o.name} has the indices {', '.join(c.dim for c in o.coords)}, and other results have "
                    f"{', '.join((*(d.name for d in p.rows), columns))}",
                    self.function,
                    f"the same, {columns} last, or all but {columns}",
                    f"compute {o.name} in a program of its own",
                )
            if p.is_row(o) and o.scale is not None:
                raise self.refused(f"{o.name} has an element a row, and is quantised", self.function, "one type")
            alone = all(p.of_row(p.reductions[i]) for _, i in o.body.sums)
            if p.is_row(o) and not (alone and all(columns not in x.dims(lookups) for x in o.body.reads)):
                raise self.refused(
                    f"{o.name} has an element a row, and is computed of what changes along {columns}",
                    self.function,
                    f"reductions over {columns}, and tensors without it",
                )
        for r in p.reductions:
            if r.dim.name in rows:
                raise self.refused(
                    f"a {r.kind} over {r.dim.name}, an index of the results that is not their last",
                    self.function,
                    f"a {r.kind} over {columns}, or over an index that no result has",
                    "compute it in a program of its own",
                )
            if not r.kept <= {*rows, columns}:
                names = " and ".join(sorted(r.kept - {*rows, columns}))
                what = f"a {r.kind} for each {names}, which no result has"
                raise self.refused(what, self.function, "indices of results")
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
                    f"{x.name} is read along {columns}, the last index of {largest.name}, and has another one last",
                    self.function,
                    f"{columns} last in {x.name} too",
                    f"pass a copy of {x.name} that has {columns} last",
                )

    def reduced(self, op: Any) -> Reduction:
        """A reduction; what reads it is read later.

        Raises:
            UnsupportedError: it has a range, runs over several indices, or over what is no elementwise expression.
        """
        source, result = maps_of(op.maps)
        kept = dims_read(result, [])
        inside = dims_read(source, list(op.symbols)) - kept
        plain = all(isinstance(e, ir.AffineDimExpr) for e in result.results)
        if len(op.domains) or len(inside) != 1 or not plain:
            raise self.refused(f"a sum over {len(inside)} indices, or with a range", op, "one index, without a range")
        value = op.input
        if isinstance(value.owner, ir.Block):
            body = Body(-1, (self.at(value, source, list(op.symbols), 0),))
        else:
            made = value.owner.opview
            same = value.owner.name == "scale.map" and list(map_of(made.map).results) == list(source.results)
            if not same or len(made.domains):
                raise self.refused("a sum of what is no elementwise expression", op, "an elementwise expression")
            body = self.body(value)
        kind, dim = ir.StringAttr(op.kind).value, self.dim_of(self.dims[next(iter(inside))])
        self.known[op.result] = len(self.known)
        return Reduction(kind, dim, body, frozenset(self.dims[d] for d in kept))

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
