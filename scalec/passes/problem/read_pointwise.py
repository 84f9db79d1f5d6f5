"""From a function without a contraction to a `Pointwise`. What no kernel has is refused here, with its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalec.formats import ELEMENT_TYPES, PACKED_BITS, QUANTISED, UNITS, WHOLE, WORDS, padded_to
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, block_of, dims_read, map_of, maps_of, ranges_of
from scalec.ir.scale_functions import CONVERSIONS
from scalec.passes.problem.access import Coord, Dim, Domain, Lookup
from scalec.passes.problem.check_pointwise import SHARED, PointwiseChecks
from scalec.passes.problem.epilogue import RESULT_BLOCK, EpilogueReader
from scalec.passes.problem.lookups import pads
from scalec.passes.problem.pointwise import (
    READ,
    SCALED,
    WRITTEN,
    Blocks,
    Body,
    Copied,
    Level,
    Output,
    Pointwise,
    Read,
    Reduction,
    dims_of,
)
from scalec.passes.problem.scatter import before_scatter, order_of
from scalec.passes.problem.sources import before_transform, is_op
from scalec.passes.problem.windows import filled
from scalec.passes.problem.written import element_of
from scalec.passes.problem.zero_points import number_of, place_among
from scalec.targets import Target
from scalec.zero_points import Order

PARTS = (
    *("scale.map", "scale.read", "scale.index", "scale.domain", "scale.reduce"),
    *("scale.quantize", "scale.round", "scale.hadamard", "scale.dequantize", "scale.scatter", "func.return"),
    *("scale.lay", "scale.subtract"),
)
"""The ops that such a program has kernels for."""


@dataclass(frozen=True)
class At:
    """Where a tensor is read: what `EpilogueReader.read_at` asks of a `scale.read`."""

    source: Any
    symbols: list[Any]
    operation: Any


class PointwiseReader(PointwiseChecks, EpilogueReader):
    """The walk over one function without a contraction."""

    def problem(self) -> Pointwise:
        """Reads it.

        Raises:
            UnsupportedError: a form that no kernel has.
        """
        self.check_second_levels()
        self.operations = [op.operation for op in self.block.operations]
        self.known: dict[Any, int] = {}
        self.ranges: dict[str, list[Any]] = {}  # of results
        self.inner: set[Any] = set()  # of reductions
        for op in self.operations:
            if op.name not in PARTS:
                raise self.refused(f"{op.name} without a contraction", op, "elementwise expressions and reductions")
        reductions = tuple(self.reduced(op.opview) for op in self.operations if op.name == "scale.reduce")
        outputs = tuple(self.outputs())
        if not reductions and not any(o.dims for o in outputs):
            raise self.refused("a result of one number that nothing is reduced to", self.function, "a sum, max or min")
        lookups = tuple(Lookup(n, self.index(s), e) for n, (s, e) in self.found.items())
        named = {x.name: x for x in lookups}
        rows, columns = self.orientation(outputs, reductions, named)
        if copies := outputs and all(o.copied is not None for o in outputs):
            *rows, columns = outputs[0].dims
        over = {r.dim.name for r in reductions}
        if columns not in over and len(over) == 1 and any(self.turned(r, columns, named) for r in reductions):
            rows, columns = [*rows, columns], next(iter(over))
        domains, outputs = self.ranged(outputs, "" if copies else columns)
        groups = tuple(self.dim_of(d.group) for d in domains if d.group and d.group not in (*rows, columns))
        own = tuple(map(self.dim_of, rows)), self.dim_of(columns)
        problem = Pointwise(self.target, *own, outputs, reductions, lookups, domains, groups)
        self.check(problem)
        return problem

    def ranged(self, outputs: tuple[Output, ...], columns: str) -> tuple[tuple[Domain, ...], tuple[Output, ...]]:
        """The ranges of rows, which all results have, and the results with those of their columns.

        Raises:
            UnsupportedError: results, or what is reduced for them, have other ranges of rows.
        """
        found = {o.name: [self.domain(x) for x in self.ranges[o.name]] for o in outputs}
        rows = {name: tuple(d for d in domains if d.dim != columns) for name, domains in found.items()}
        first = outputs[0].name
        for name, domains in rows.items():
            if domains != rows[first]:
                what = f"{name} with other ranges than {first}"
                raise self.refused(what, self.function, "the same ranges", f"compute {name} in a program of its own")
        if not {self.domain(x) for x in self.inner} <= {*rows[first]}:
            what = "a result computed of a reduction with a range that it has not itself"
            raise self.refused(what, self.function, "the same range for both", "say the range behind both")
        own = (replace(o, within=tuple(d for d in found[o.name] if d.dim == columns)) for o in outputs)
        return rows[first], tuple(own)

    @staticmethod
    def orientation(
        outputs: Sequence[Output], reductions: Sequence[Reduction], lookups: dict[str, Lookup]
    ) -> tuple[list[str], str]:
        """The indices of the results but one, and that which lies side by side in all that is read along several of
        them, the last one included. Where results have another one last, it is the last of the others."""
        largest = max(outputs, key=lambda o: len(o.dims))
        if not largest.dims:  # one number, of all that is reduced last
            return [], reductions[-1].dim.name
        *rows, columns = largest.dims
        reads = [x for of in (*outputs, *reductions) for x in of.body.all_reads if x.coords]
        several = [x for x in reads if columns in x.dims(lookups) and len(x.dims(lookups) & set(largest.dims)) > 1]
        last = {replace(x.coords[-1], order=None) for x in several}
        found = [x for x in rows if Coord(x) in last]

        def able(dim: str) -> bool:
            """Whether all that changes with an index has it last, or one element for several of it."""
            own = [x for x in reads if dim in x.dims(lookups)]
            return all(x.coords[-1].dim == dim or not x.same(dim, lookups) % SHARED for x in own)

        if len(last) > 1:  # where some have one last and others another
            found = [] if able(columns) else [x for x in found if able(x)]
        if len(found) == 1:
            columns = found[0]
            rows = [x for x in largest.dims if x != columns]
        ends = [o.dims[-1] for o in outputs if columns in o.dims and o.dims[-1] != columns]
        return sorted(rows, key=lambda x: x in ends[:1]), columns

    @staticmethod
    def turned(r: Reduction, columns: str, lookups: dict[str, Lookup]) -> bool:
        """Whether something that is reduced has that index last, and not the one which is last in the results."""
        last = [x.coords[-1] for x in r.body.all_reads if len(x.coords) > 1 and columns in x.dims(lookups)]
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
            rounds = quantize or (made if made is not None and made.operation.name == "scale.round" else None)
            final, scatter = before_scatter(value if rounds is None else rounds.input)
            final, hadamard = before_transform(final)
            facts = self.facts("res_attrs", at)
            name = self.name(facts, ir.StringAttr(self.function.attributes["sym_name"]).value)
            if made is not None and made.operation.name == "scale.lay":
                self.ranges[name] = [*map(ir.Value, made.domains)]
                yield self.copied(made, name, at)
                continue
            if isinstance(final.owner, ir.Block) or final.owner.name != "scale.map":
                raise self.refused(f"a result, {name}, of no elementwise expression", self.function, "one")
            op = final.owner.opview
            where = map_of(op.map)
            coords = [written_at(e, self.dims) for e in where.results]
            if None in coords or not coords:
                raise self.refused(f"a result, {name}, at a computed index", op, "plain indices, or 0")
            self.ranges[name] = [] if filled(op) else [*map(ir.Value, op.domains)]
            element = element_of(value, name)
            known = WRITTEN if quantize is None else SCALED
            if element.name not in known:
                raise self.refused(f"a result of {element.name}", op, " or ".join(known))
            coords = tuple(x for x in coords if x is not None)
            dims = tuple(x.dim for x in coords if x.dim)
            if scatter is not None:
                dims, coords = self.scattered(scatter, where, value, at, name)
            chance = self.chance(rounds, value, at, name)
            output = Output(name, element, at, dims, coords, self.body(final), None, chance, hadamard)
            yield output if quantize is None else replace(output, scale=self.blocks(quantize, output))

    def copied(self, op: Any, name: str, at: int) -> Output:
        """A result of scales. They are walked in the order of indices in which those in words lie; others that have the
        last two in each other's place have the other one of two layouts."""
        index, called, _ = self.argument(op.input, "scales")
        symbols, (first, second) = list(op.symbols), map(GranularityAttr, op.kinds)
        apart = {ir.StringAttr(d.owner.opview.dim).value for d in op.domains if "apart" in d.owner.attributes}
        place = At(op.input, symbols, op)
        read, written = maps_of(op.maps)
        source = [self.read_at(e, called, place, axis) for axis, e in enumerate(read.results)]
        target = [
            Coord(self.dims[e.position])
            if isinstance(e, ir.AffineDimExpr)
            else self.note(symbols[e.position], self.extent_of_result(op.result, at, name, axis))
            for axis, e in enumerate(written.results)
        ]
        lookups = {n: Lookup(n, self.index(s), x) for n, (s, x) in self.found.items()}
        columns = (source if ir.StringAttr(first.layout).value in UNITS else target)[-1].dim
        dims = list(dict.fromkeys(d for c in (*target, *source) for d in sorted(dims_of(c, lookups))))
        dims = [*(d for d in dims if d != columns), columns]

        def end(name: str, index: int, coords: list[Coord], g: Any) -> Level:
            """Of scales as they are walked."""
            block, layout = block_of(g), ir.StringAttr(g.layout).value
            own = [c.dim for c in coords]
            pads = [padded_to(block, layout, axis) if dim in apart else 0 for axis, dim in enumerate(own)]
            coords = [
                replace(c, divisor=size, apart=pad if pad > 1 else 0)
                for c, size, pad in zip(coords, block, pads, strict=True)
            ]
            rank, kind = len(coords), ir.StringAttr(g.type).value
            axis = {"row": rank - 2, "col": rank - 1, "packed": rank - 1}.get(layout, -1)
            if own[-1] != columns:
                coords[-2:] = coords[-2:][::-1]
                layout = {"row": "col", "col": "row"}[layout]
            return Level(name, index, tuple(coords[:-1]), 1, kind, layout, coords[-1], axis)

        copied = Copied(end(called, index, source, first), end(name, at, target, second))
        (kind, read_at), (to, written_at) = (
            (ELEMENT_TYPES[x.type], tuple(replace(c, divisor=1, apart=0) for c in x.every))
            for x in (copied.source, copied.target)
        )
        body = Body(-1, (Read(called, index, kind, read_at, 0),), copies=True)
        return Output(name, to, at, tuple(dims), written_at, body, copied=copied)

    def scattered(
        self, op: Any, where: ir.AffineMap, value: Any, index: int, name: str
    ) -> tuple[tuple[str, ...], tuple[Coord, ...]]:
        """`dims` and `coords` of an output that is written at indices from memory.

        Raises:
            UnsupportedError: other elements are moved than are computed, or not along rows.
        """
        source, target = maps_of(op.maps)
        ranges = [x for x in map(ir.Value, op.domains) if x not in self.ranges[name]]
        if list(source.results) != list(where.results) or ranges:
            raise self.refused(f"{name}, of which other points are scattered than are computed", op, "the same points")
        order, gaps = order_of(self, op, name)
        if gaps is not None or not isinstance(target.results[-1], ir.AffineDimExpr):
            raise self.refused(f"{name}, of which the last index is computed or read from memory", op, "a plain one")
        extents, symbols = self.extents_of_result(value, index, name), list(op.symbols)
        coords = tuple(
            Coord(self.dims[e.position]) if isinstance(e, ir.AffineDimExpr) else self.note(symbols[e.position], extent)  # pyright: ignore
            for e, extent in zip(target.results, extents, strict=True)
        )
        return tuple(order), coords

    def blocks(self, op: Any, of: Output) -> Blocks:
        """The scales of a result.

        Raises:
            UnsupportedError: of a type or of blocks that no kernel has.
        """
        granularity = GranularityAttr(op.granularity)
        kind, layout = ir.StringAttr(granularity.type).value, ir.StringAttr(granularity.layout).value
        block = block_of(granularity)
        *outer, rows, columns = (1, *block)
        said = "x".join(axis if x == WHOLE else str(x) for x, axis in zip(block, of.dims, strict=False))
        if kind not in QUANTISED:
            fix = f"leave out :{kind}, and convert the scales after the call"
            raise self.refused(f"{of.name} quantised with scales in {kind}", op, " or ".join(QUANTISED), fix)
        several = not op.largest and (any(x != 1 for x in outer) or rows == WHOLE)
        if (
            several
            or (columns != WHOLE and columns % RESULT_BLOCK and (columns != 1 or rows == 1))
            or (columns == WHOLE and rows != 1 and not op.largest)
        ):
            blocks = (
                f"blocks of a multiple of {RESULT_BLOCK} of the last index, of 1 by several of the one before, or rows"
            )
            if said in (f"{of.dims[0]}x1", "x".join(of.dims)):  # which launches before find, of some programs
                blocks += "; or of what is not scattered, transformed, filled or apart in groups"
            sizes = [(x, axis) for x, axis in zip(block, of.dims, strict=False) if x != WHOLE]
            at = ",".join(f"{axis}/{x}" if x > 1 else axis for x, axis in sizes) or "0"
            scattered = any(c.dim and c.dim not in of.dims for c in of.coords)
            able = not op.largest and not scattered and not len(getattr(op.input.owner.opview, "domains", ()))
            given = f", give their magnitudes, scale({said} of M[{at}])" if able else ""
            fix = f"say 1x32, 128x128 or 1x{of.coords[-1].dim}{given}, or quantise {of.name} after the call"
            if scattered:
                fix = f"gather: read what {of.name} is of at an index that names, for each of its rows, what goes there"
            raise self.refused(f"{of.name} quantised in blocks of {said}", op, blocks, fix)
        padded = pads(op, [c.dim for c in of.coords])
        if layout != "row" and len(of.coords) < 2:
            raise self.refused(f"{of.name} has scales of layout {layout} and one index", op, "two indices")
        name = self.name(self.facts("res_attrs", of.index + 1), f"{of.name}_scale")
        whole = [self.at(x, ir.AffineMap.get_empty(), [], -1) for x in op.outer]
        columns, outer = 0 if columns == WHOLE else columns, whole[0] if whole else None
        rows = 0 if rows == WHOLE else rows
        made = Blocks(name, of.index + 1, rows, columns, kind, layout, outer, sum(padded[:-1]), padded[-1])
        if not op.largest:
            return made
        laid = layout == "row" or (rows == 1 and columns > 1)  # one scale is stored at a time, with what pads a row
        if sum(padded) or not laid or any(x not in (1, WHOLE) for x in block[:-2]):
            what = f"{of.name} with magnitudes that are given in blocks of {said}, of layout {layout}"
            raise self.refused(what, op, "scales of layout row, of all of each index in front of two, or of one each")
        own = [(at, size) for at, size in zip(of.coords, block, strict=True) if size != WHOLE]
        coords = tuple(replace(at, divisor=at.divisor * size) for at, size in own) or (Coord(),)
        index, called, _ = self.argument(op.largest[0], f"the largest magnitudes of {of.name}")
        leading = tuple(max(0, size) for size in block[:-2])
        return replace(made, leading=leading, largest=Read(called, index, ELEMENT_TYPES["f32"], coords, -1))

    def body(self, value: Any) -> Body:
        """What computes the result of a `scale.map`.

        Raises:
            UnsupportedError: it reads a reduction elsewhere than at its own indices.
        """
        op, reads, sums, inner = value.owner.opview, [], [], []
        for position, view in enumerate(op.views):
            read = view.owner.opview
            source = read.source
            made = None if isinstance(source.owner, ir.Block) else source.owner.opview
            if made is not None and made.operation.name == "scale.map" and filled(made):
                if read.map != made.map or len(read.symbols):
                    what = "what is filled outside a range (else), read elsewhere than at its own indices"
                    raise self.refused(what, read, "its own indices")
                inner.append((position, self.body(source)))
                continue
            if source not in self.known:
                reads.append(self.at(source, map_of(read.map), list(read.symbols), position))
                continue
            if list(map_of(read.map).results) != list(maps_of(source.owner.opview.maps)[1].results):
                raise self.refused("a sum that is read elsewhere than at its own indices", read, "its own indices")
            sums.append((position, self.known[source]))
        names = {x.operation.name for x in op.body.blocks[0].operations}
        copies = names <= {*CONVERSIONS, "scale.yield"}
        number = self.operations.index(op.operation)
        body = Body(number, tuple(reads), tuple(sums), tuple(inner), copies=copies)
        if not filled(op):
            return body
        otherwise = ir.FloatAttr(op.operation.attributes["otherwise"]).value
        return replace(body, within=tuple(map(self.domain, op.domains)), otherwise=otherwise)

    def reduced(self, op: Any) -> Reduction:
        """A reduction; what reads it is read later.

        Raises:
            UnsupportedError: it has a range, runs over several indices, or over what is no elementwise expression.
        """
        source, result = maps_of(op.maps)
        kept = dims_read(result, [])
        inside = dims_read(source, list(op.symbols)) - kept
        plain = all(isinstance(e, ir.AffineDimExpr) for e in result.results)
        within = self.ranges_of(op, kept)
        if len(inside) != 1 or not plain:
            fix = "reduce over one index here, and what that gives over the others by a program behind it"
            raise self.refused(f"a {ir.StringAttr(op.kind).value} over {len(inside)} indices", op, "one index", fix)
        value = op.input
        if isinstance(value.owner, ir.Block) or value.owner.name == "scale.dequantize":
            body = Body(-1, (self.at(value, source, list(op.symbols), 0),), copies=True)
        else:
            made = value.owner.opview
            same = value.owner.name == "scale.map" and list(map_of(made.map).results) == list(source.results)
            if same and not filled(made) and not within:
                within = self.ranges_of(made, kept)  # outside of which it has no value, and so no term
            if not same or (not filled(made) and self.ranges_of(made, kept) != within):
                raise self.refused("a sum of what is no elementwise expression", op, "an elementwise expression")
            body = self.body(value)
        kind, dim = ir.StringAttr(op.kind).value, self.dim_of(self.dims[next(iter(inside))])
        self.known[op.result] = len(self.known)
        own = frozenset(self.dims[d] for d in kept)
        (domain, *_) = [*map(self.domain, within), None]
        if domain is not None and not set(domain.groups) <= own:
            what = f"a {kind} over a range of {dim.name} for each {' and '.join(domain.groups)}"
            raise self.refused(what, op, f"{' and '.join(domain.groups)} among its own indices")
        return Reduction(kind, dim, body, own, domain)

    def ranges_of(self, op: Any, kept: set[int]) -> list[Any]:
        """The range of the index that a reduction runs over, of what it is of; ranges of others are noted, as its
        results must have them."""
        every = [*map(ir.Value, op.domains)]
        own = [d for d in every if self.dims.index(ir.StringAttr(d.owner.opview.dim).value) not in kept]
        self.inner |= {*every} - {*own}
        return own

    def at(self, value: Any, where: ir.AffineMap, symbols: list[Any], view: int) -> Read:
        """What a body reads as its argument number `view`, at the results of a map.

        Raises:
            UnsupportedError: it is no argument of the function, or of a type that threads do not read.
        """
        levels: list[Any] = []
        while is_op(value, "scale.dequantize"):
            levels.insert(0, value.owner.opview)
            value = value.owner.opview.values
        subtract = value.owner.opview if is_op(value, "scale.subtract") else None
        value = value if subtract is None else subtract.values
        made = self.stored(value, view, "an input of the elementwise expression")
        place = At(value, symbols, self.function.operation)
        coords = tuple(self.read_at(e, made.name, place, axis) for axis, e in enumerate(where.results))
        found = tuple(self.level(x, made.name, coords) for x in levels)
        made = replace(made, coords=coords, levels=found)
        if made.element.bits == PACKED_BITS and all(x.by_column for x in found):  # of others vectors would be shorter
            own = (Read(x.name, x.argument_index, ELEMENT_TYPES[x.type], (*x.coords, coords[-1]), view) for x in found)
            made = replace(made, levels=(), factors=tuple(own))
        if subtract is None:
            return made
        made = replace(made, plus=number_of(subtract))
        zeros = [self.stored(x, view, f"the zero points of {made.name}") for x in subtract.zeros]
        if not zeros:
            return made
        own = [place_among(e, coords) for e in map_of(subtract.operation.attributes["map"]).results]
        if None in own:
            what = f"{zeros[0].name}, which is read at no sum of what / and then % make of an index, times numbers,"
            fix = f"pass a copy of {zeros[0].name} in the order of the indices of {made.name}"
            raise self.refused(what, subtract, "as in n/8*8 + n%8/2", fix)
        return replace(made, less=replace(zeros[0], coords=tuple(x for x in own if x is not None)))

    def stored(self, value: Any, view: int, what: str) -> Read:
        """What an argument is as it is stored, wherever it is read."""
        index, name, layout = self.argument(value, what)
        element, facts = element_of(value, name), self.facts("arg_attrs", index)
        if element.name not in READ or layout not in ("row", WORDS):
            raise self.refused(f"{name} of {element.name}", value, " or ".join(READ))
        order = None
        if "scale.order" in facts:
            held = [*ir.DenseI64ArrayAttr(facts["scale.order"])]
            order = Order.of_places([held.index(i) for i in range(len(held))])
            if order is None:
                fix = f"pass {name} in order along its last index, or in AWQ's"
                expected = "an order in which each bit of the index has a place of its own, as n/8*8 + n%2*4 + n%8/2"
                raise self.refused(f"{name} in an order that is no exchange of an index's bits", value, expected, fix)
        scalar = not isinstance(value.type, ir.RankedTensorType)
        return Read(name, index, element, (), view, scalar, words=layout == WORDS, order=order)

    def level(self, op: Any, of: str, coords: tuple[Coord, ...]) -> Level:
        """Scales of what is read at some place.

        Raises:
            UnsupportedError: they are counted from where groups begin, or read at an index that no Coord tells.
        """
        index, name, _ = self.argument(op.scales, f"the scales of {of}")
        granularity, block = GranularityAttr(op.granularity), block_of(op.granularity)
        kind, layout = ir.StringAttr(granularity.type).value, ir.StringAttr(granularity.layout).value
        padded = pads(op, [c.dim for c in coords])
        if (layout != "row" and len(block) < 2) or padded[-1:] > [0]:
            what = f"scales of {of} in a layout of two indices, or with blocks along an index whose groups are apart"
            raise self.refused(what, op, "others")
        if any(size > 1 and at.modulus for size, at in zip(block[:-1], coords, strict=False)):
            raise self.refused(f"{of} read at what is left of a division, with scales of several rows", op, "one row")
        rows = [
            Coord() if size == WHOLE else replace(at, divisor=at.divisor * size, apart=pad)
            for size, at, pad in zip(block[:-1], coords, padded, strict=False)
        ]
        return Level(name, index, tuple(rows), 0 if block[-1] == WHOLE else block[-1], kind, layout)

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


def written_at(e: Any, dims: Sequence[str]) -> Coord | None:
    """Where an axis of a result is written: at a dimension, or at 0; None where that is computed otherwise."""
    if isinstance(e, ir.AffineDimExpr):
        return Coord(dims[int(e.position)])
    return Coord() if isinstance(e, ir.AffineConstantExpr) and not e.value else None
