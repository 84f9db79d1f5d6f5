"""From a fused program to its results and their epilogues. What no kernel writes is refused here, with its place."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, QUANTISED, WHOLE
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, block_of, dims_in, map_of, maps_of, symbols_in, written
from scalec.passes.problem.access import Coord, Dim
from scalec.passes.problem.column_folds import Reduced, check_result, made_by, reduced
from scalec.passes.problem.contraction import sums_of
from scalec.passes.problem.gaps import dimension_of, gaps_of
from scalec.passes.problem.lookups import pads
from scalec.passes.problem.reduced import kept_of, together
from scalec.passes.problem.result import ColumnFold, EpilogueInput, Result, ResultScale, Window, adds_last
from scalec.passes.problem.scatter import check_range, coords_of, distance_of, order_of
from scalec.passes.problem.sources import is_op
from scalec.passes.problem.two_programs import refuse_type
from scalec.passes.problem.types import INPUTS
from scalec.passes.problem.whole_rows import row_block
from scalec.passes.problem.windows import check_added, check_window, dim_of, filled, own_ranges
from scalec.passes.problem.written import Written, WrittenReader, element_of
from scalec.targets import Target

RESULT_BLOCK = 8
"""Columns of a row that four threads hold, two each (PTX ISA 9.7.14.5.8, m16n8): scales are found over whole eights."""


KINDS = {(True, False): "row", (False, True): "col", (True, True): "both", (False, False): "scalar"}
"""Kinds of inputs, by whether they depend on M and on N."""


def domain_tensor(e: Any, domain: Any) -> Any:
    """The tensor that an end of a range is read from."""
    return list(domain.symbols)[e.position].owner.opview.tensor


class EpilogueReader(WrittenReader):
    """The walk over one function, what follows its contraction; each method refuses what it cannot represent."""

    contracts: list[Any]
    masked: list[Any]

    def __init__(self, function: Any, target: Target, addends: bool = False) -> None:
        super().__init__(function)
        self.target, self.addends = target, addends

    def argument(self, value: Any, what: str) -> tuple[int, str, str]:
        """(position, name, layout) of a value that must be an argument of the function."""
        for position, argument in enumerate(self.arguments):
            if argument == value:
                facts = self.facts("arg_attrs", position)
                layout = ir.StringAttr(facts["scale.layout"]).value if "scale.layout" in facts else "row"
                return position, self.name(facts, f"argument {position}"), layout
        if is_op(value, "scale.map") and filled(value.owner.opview):
            raise UnsupportedError(
                f"{what} is a temporary that is filled outside its range (else) before it is used",
                expected="a temporary without else: what is computed of it has its range, and may be filled",
                fix="leave else out there, and write the range and else behind each result that is computed of it",
                place=place_of(value),
            )
        if is_op(value, "scale.map") and len(value.owner.opview.domains):
            raise UnsupportedError(
                f"{what} is a temporary that has another range, or is read elsewhere than at its own indices",
                expected="one range of each index, and a temporary at the indices that it is defined at",
                fix="say the same range behind both, or write out where it is used what the temporary is",
                place=place_of(value),
            )
        if is_op(value, "scale.dequantize"):
            name = self.argument(value.owner.opview.values, what)[1]
            raise UnsupportedError(
                f"{name} has scales, and is an input of an elementwise expression beside a product",
                expected="inputs without scales there",
                fix=f"dequantise {name} in a program of its own, without a contraction, and pass its result",
                place=place_of(value),
            )
        raise UnsupportedError(
            f"{what} is computed by the program",
            expected="an argument",
            fix="compute it in a program of its own and pass its result",
            place=place_of(value),
        )

    def check_second_levels(self) -> None:
        """Refuses second levels of scales that the program computes: no launch before has found them."""
        for op in self.block.operations:
            computed = op.operation.name == "scale.quantize" and [v for v in op.outer if v not in self.arguments]
            for value in computed or ():
                raise UnsupportedError(
                    "the second level of a result's scales is computed by the program",
                    expected="an argument; or a reduction, which launches before find, beside results without a "
                    "contraction that have a kernel where it is an argument",
                    fix="compute it in a program of its own and pass its result",
                    place=place_of(value),
                )

    def results(self, contract: Any, m: Dim, n: Dim, outer: tuple[Dim, ...]) -> tuple[Result, ...]:
        """The results, in order; the f32 sums themselves, or what a map computes of them."""
        written = [x for x in self.written() if x.reduce is None]
        orders = [self.indices_of(x, contract)[0] for x in written]
        places = [tuple(self.spanned(Coord(d), (m, n)) for d in order) for order in orders]
        found = tuple(self.result(x, contract, m, n, outer, coords) for x, coords in zip(written, places, strict=True))
        if not found:
            return ()
        dims, tiles = set(self.dims), [{c.dim for c in r.coords} - {x for _, x in r.scattered} for r in found]
        for r, at in zip(found, tiles, strict=True):
            if at - dims != tiles[0] - dims:  # a tile of which one result is skipped is skipped
                names = ", ".join(sorted((at ^ tiles[0]) - dims))
                raise UnsupportedError(
                    f"{r.name} and {found[0].name} are results of one contraction, and one is written at {names}",
                    expected="all of them, or none",
                    fix=f"give {r.name} a program of its own",
                    place=place_of(contract),
                )
        return found

    def result(
        self, written: Written, contract: Any, m: Dim, n: Dim, outer: tuple[Dim, ...], coords: tuple[Coord, ...]
    ) -> Result:
        name, final, place = written.name, written.final, place_of(written.value)
        inout = "scale.inout" in self.facts("res_attrs", written.index)
        element = element_of(written.value, name)
        tiled, transformed = (m.name, n.name), written.transformed
        result = Result(name, element, tiled, inout, coords=coords, index=written.index, transformed=transformed)
        _, gaps = self.indices_of(written, contract)
        if gaps is not None:
            self.check_gaps(replace(result, gaps=gaps), place)
            if coords[-1].dim in tiled:
                result = replace(result, gaps=gaps)
            else:  # of which a tile has one index
                result = replace(result, coords=(*coords[:-1], replace(coords[-1], gaps=gaps)))
        away = None if written.scatter is None else distance_of(written.scatter)
        if away is not None and reduced(final, contract, self.dims) is None:
            order_of(self, written.scatter, name)  # refuses it
        if (op := written.scatter) is not None and away is None:
            extent = partial(self.extent_of_result, written.value, written.index, name)
            coords, scattered = coords_of(self, op, name, extent, m, n)
            result = replace(result, coords=coords, scattered=tuple(scattered.items()))
        if coords and coords[-1].dim != n.name:
            result = replace(result, strided=True)
            self.check_strided(result, written, place)
        result = replace(result, chance=self.chance(written.rounds, written.value, written.index, name))
        refuse_type(result, self.target.name, place)
        if written.quantize is not None:
            result = replace(result, scale=self.result_scale(written, m, n, result))
        sums = [sums_of(x) for x in self.contracts]
        if final in sums:
            result = self.windowed(result, None, contract, m, n, place)
            return replace(result, panes=(sums.index(final),))
        if isinstance(final.owner, ir.Block) or final.owner.name != "scale.map":
            raise self.not_of_contraction(name, place)
        op = final.owner.opview
        if (folded := reduced(final, contract, self.dims)) is not None:
            check_result(result, place)
            made = self.reduced_result(result, op, folded, contract, m, n, outer)
            if away is None or made.window is None:
                return made
            width = self.extents_of_result(written.value, written.index, name)[away]
            return replace(made, window=replace(made.window, width=width))
        computed = self.computed(op, sums, maps_of(contract.maps)[2], name, m, n, outer)
        result = self.windowed(result, op, contract, m, n, place)
        windows = own_ranges(op, contract, self.masked, tiled)
        dealt = [d for d in contract.domains if dim_of(d) in tiled and d not in self.masked]
        for ranged in (op, written.scatter or op):
            check_range(name, ranged, dealt, windows, tiled)
        made = replace(result, **computed)
        return replace(made, adds=made.window is None and adds_last(made, op.body.blocks[0]))

    def windowed(self, result: Result, op: Any, contract: Any, m: Dim, n: Dim, place: Any) -> Result:
        """A result, computed by the map `op` or the sums themselves, with the range that its points have of their
        own."""
        tiled = m.name, n.name
        own = own_ranges(op, contract, self.masked, tiled)
        told = own if op is None else [*op.domains]
        for left in (d for d in self.masked if dim_of(d) in tiled and d not in told):
            raise UnsupportedError(
                f"{result.name} has another range of {dim_of(left)} than what it is computed of",
                expected="one range of each index",
                fix=f"say the same range of {dim_of(left)} for both, or in one of them alone",
                place=place,
            )
        if not own:
            return result
        dealt = [d for d in contract.domains if dim_of(d) in tiled and d not in self.masked]
        check_window(result, own, dealt, filled(op), place)
        points = self.results_of(maps_of(contract.maps)[2], list(contract.symbols))
        told = {*points, *(g for x in dealt for g in self.domain(x).groups)}
        check_added(result, [x for x in map(self.domain, own) if not told.issuperset(x.groups)], place)
        return replace(result, window=self.window_of(result.name, own[0], op, m, n))

    def computed(
        self, op: Any, sums: list[Any], where: ir.AffineMap, name: str, m: Dim, n: Dim, outer: tuple[Dim, ...]
    ) -> dict[str, Any]:
        """`body`, `accumulators`, `panes` and `inputs` of a map that reads values at its own points, `where`: the sums
        of each contraction, or what is reduced of these."""
        accumulators, panes, inputs = [], [], []
        for position, view in enumerate(op.views):
            read = view.owner.opview
            if read.source in sums and list(map_of(read.map).results) == list(where.results):
                accumulators.append(position)
                panes.append(sums.index(read.source))
            else:
                inputs.append(self.input(read, position, name, m, n, outer))
        if not accumulators:
            raise self.not_of_contraction(name, place_of(op))
        body = tuple(x.operation.name for x in op.body.blocks[0].operations)
        return {
            "body": body,
            "accumulators": tuple(accumulators),
            "panes": tuple(panes),
            "inputs": tuple(inputs),
        }

    def reduced_result(
        self, result: Result, op: Any, found: Reduced, contract: Any, m: Dim, n: Dim, outer: tuple[Dim, ...]
    ) -> Result:
        """A result of what is reduced within a tile: computed by `op` of that."""
        name, dim = result.name, self.dims[found.dim]
        span = next(d for d in (m, n) if dim in (d.name, d.within))
        made, sizes = result, {d.name: d for d in (m, n)}
        if found.source is not None:
            before = self.computed(found.source, [sums_of(contract)], maps_of(contract.maps)[2], name, m, n, outer)
            made = replace(made, **before)
        left = {**sizes, span.name: replace(span, inner=1, within="")}
        after = self.computed(op, [found.op.result], maps_of(found.op.maps)[1], name, left[m.name], left[n.name], outer)
        after.pop("panes")  # there is one value
        size = span.inner if span.inner > 1 else span.size or 0
        fold = ColumnFold(ir.StringAttr(found.op.kind).value, dim, size, span.name, **after)
        return replace(made, column_fold=fold, window=self.window(name, op, found, m, n))

    def window(self, name: str, op: Any, found: Reduced, m: Dim, n: Dim) -> Window | None:
        """The points of a folded result that a range leaves; None where it has none."""
        others = [x for x in (found.op, found.source) if x is not None]
        same = all(set(map(ir.Value, x.domains)) <= set(map(ir.Value, op.domains)) for x in others)
        if not same or len(op.domains) > 1 or len(op.symbols):
            raise UnsupportedError(
                f"{name} has several ranges, is reduced over another one than it is written through, or is written at "
                "an index read from memory",
                expected="one range for all of the program",
                fix="call the program for each range, on views of the tensors",
                place=place_of(op),
            )
        if not len(op.domains):
            return None
        domain = op.domains[0].owner.opview
        dim = ir.StringAttr(domain.dim).value
        if dim not in (m.name, n.name):
            raise UnsupportedError(
                f"{dim} has a range, and {name} is computed by tiles of {m.name} and {n.name}",
                expected=f"a range of {m.name} or {n.name}",
                fix="call the program for each range, on views of the tensors",
                place=place_of(domain),
            )
        return self.window_of(name, op.domains[0], op, m, n)

    def window_of(self, name: str, subset: Any, op: Any, m: Dim, n: Dim) -> Window:
        """The points that a range leaves of a result that a map `op` computes; None: the sums themselves."""
        domain = subset.owner.opview
        dim = ir.StringAttr(domain.dim).value
        low, high = (self.bound(map_of(x).results[0], domain, dim, m, n) for x in (domain.lower, domain.upper))
        otherwise = ir.FloatAttr(op.operation.attributes["otherwise"]).value if filled(op) else None
        read = {c.dim for x in (low, high) if isinstance(x, EpilogueInput) for c in x.coords}
        groups = read & (set(self.dims) - {self.dims[d] for d in dims_in(map_of(op.map))}) if filled(op) else set()
        if otherwise is not None and groups:
            raise UnsupportedError(
                f"{name} is filled outside ranges of {dim} that {' and '.join(groups)} shares out (else)",
                expected="a range without else: what is outside of one group's lies in another's",
                fix=f"fill {name} before the call",
                place=place_of(domain),
            )
        return Window(dim, low, high, otherwise)

    def bound(self, e: Any, domain: Any, dim: str, m: Dim, n: Dim) -> EpilogueInput | int:
        """An end of a window's range of a dimension."""
        at = self._bound(e, list(domain.symbols), dim, domain)
        if isinstance(at, int):
            return at
        if isinstance(at, Coord):
            kind = KINDS[m.name == at.dim, n.name == at.dim]
            return EpilogueInput(-1, "", ELEMENT_TYPES["i32"], kind, (at,), "row", -1, computed=True)
        reads, layout = {c.dim for c in at.coords}, self.argument(domain_tensor(e, domain), "a bound")[2]
        coords = at.coords
        kind = KINDS[m.name in reads, n.name in reads]
        return EpilogueInput(at.argument_index, at.tensor, ELEMENT_TYPES["i32"], kind, coords, layout, -1)

    def spanned(self, at: Coord, dims: tuple[Dim, ...]) -> Coord:
        """A place as the dimensions of a tile tell it, of which one may walk two of the program as one."""
        found = at
        for d in dims:
            if (found := found.spanned(d)) is None:
                raise UnsupportedError(
                    f"something is read at {at.dim} divided by {at.divisor}, and a tile has all {at.dim} of an index",
                    expected=f"{at.dim}, divided by a divisor of its size",
                    fix="pass a copy that has an element for each point",
                    place=place_of(self.function),
                )
        return found

    def reductions(self, contract: Any, m: Dim, n: Dim, outer: tuple[Dim, ...]) -> tuple[Result, ...]:
        """The reductions, in order: their bodies are those of results that each point has."""
        coords = tuple(Coord(x) for x in self.result_order(contract))
        found: list[tuple[Any, Result]] = []
        for x in self.written():
            if x.reduce is None:
                continue
            tiled = m.name, n.name
            own, reduced, ranges = kept_of(self, x, contract, self.masked, tiled, [d.name for d in outer])
            last = x.final.owner.opview
            if ranges:
                window = self.window_of(x.name, ranges[0], last, m, n)
                if x.scatter is not None and (away := distance_of(x.scatter)) is not None:
                    window = replace(window, width=self.extents_of_result(x.value, x.index, x.name)[away])
                reduced = replace(reduced, window=window)
            inner = replace(x, final=x.reduce.input, reduce=None, scatter=None)
            made = self.result(inner, contract, m, n, outer, coords)
            source = made_by(inner.final, "scale.map")
            if ranges and own_ranges(source, contract, self.masked, tiled) == ranges:  # others are not written
                made = replace(made, window=None)
            found.append((x.reduce, replace(made, coords=own, strided=False, reduced=reduced)))
        return together(found)

    @staticmethod
    def not_of_contraction(name: str, place: Any) -> UnsupportedError:
        return UnsupportedError(
            f"{name} is not computed from the contraction",
            expected="an elementwise expression of it",
            fix="compute it outside the program",
            place=place,
        )

    def result_scale(self, written: Written, m: Dim, n: Dim, result: Result) -> ResultScale:
        """The scales of a quantised result."""
        coords, row = result.coords, result.lookup_of(m.name) or m.name
        op, name, index = written.quantize, written.name, written.index + 1
        if op.largest:
            raise UnsupportedError(
                f"{name} is scaled by magnitudes that are given, which results of a product have no kernel for on "
                f"{self.target.name} yet",
                expected="scales that are found",
                fix=f"give {name} f32 or bf16, and quantise it by a program of its own",
                place=place_of(op),
            )
        granularity, place = GranularityAttr(op.granularity), place_of(op)
        *rows, block = block_of(granularity)
        kind, layout = ir.StringAttr(granularity.type).value, ir.StringAttr(granularity.layout).value
        if kind not in QUANTISED:
            raise UnsupportedError(
                f"{name} is quantised with scales in {kind}, which have no kernel on {self.target.name} yet",
                expected=" or ".join(QUANTISED),
                fix=f"leave out :{kind}, and convert the scales after the call",
                place=place,
            )
        axes = [coord.dim for coord in coords]
        said = "x".join(str(x) if x != WHOLE else axis for x, axis in zip((*rows, block), axes, strict=True))
        if block == WHOLE and all(x == 1 for x in rows):
            block = row_block(result, n, self.target.max_cluster, place)
        if any(x != 1 for x in rows) or block == WHOLE or block % RESULT_BLOCK:
            raise UnsupportedError(
                f"{name} is quantised in blocks of {said}, which has no kernel on {self.target.name} yet",
                expected=f"one scale for each {RESULT_BLOCK}, or a multiple, of {n.name} in a row",
                fix=f"say 1x32 or 1x128, or give {name} f32, bf16 or f16 and quantise it after the call",
                place=place,
            )
        if layout != "row" and coords[-2].dim != row:
            raise UnsupportedError(
                f"{name} has scales of layout {layout}, and a tile of it has rows of {row}, with {coords[-2].dim} "
                f"second to last",
                got=f"{name}[{', '.join(x.dim for x in coords)}]",
                expected=f"{row} second to last: the layout is one of the last two indices",
                fix=f"leave out @{layout}, or write {name} with {row} second to last",
                place=place,
            )
        self.check_blocks(result, block, place)
        facts = self.facts("res_attrs", index)
        outer = next((self.outer_scale(x) for x in op.outer), None)
        apart = sum(pads(op, [at.dim for at in coords]))
        return ResultScale(
            self.name(facts, f"{name}_scale"), index, block, kind, layout, outer, place, apart, gaps=result.gaps
        )

    def outer_scale(self, value: Any) -> EpilogueInput:
        """The scale of the whole result: no view of the map."""
        index, name, layout = self.argument(value, "the scale of the whole result")
        at = (Coord(""),) * ir.RankedTensorType(value.type).rank
        return EpilogueInput(index, name, element_of(value, name), "scalar", at, layout, -1)

    def input(self, read: Any, position: int, result: str, m: Dim, n: Dim, outer: tuple[Dim, ...]) -> EpilogueInput:
        index, name, layout = self.argument(read.source, f"an input of {result}'s elementwise expression")
        where = map_of(read.map)
        within = {d.within: d.name for d in (m, n) if d.within}
        reads = {str(within.get(x, x)) for x in (self.dims[d] for d in dims_in(where))}
        for e in symbols_in(where):
            reads |= {d.name for d in (m, n) if self.gathers(list(read.symbols)[e], d.name)}
        known = {d.name: None for d in (*outer, m, n)}
        if reads - known.keys():
            raise UnsupportedError(
                f"{name} is read along {', '.join(sorted(reads - known.keys()))} in the elementwise expression",
                expected=f"indices among {', '.join(known)}",
                fix="give an operand of the product the other indices too, or sum over them before the call",
                place=place_of(read),
            )
        row = element_of(read.source, name)
        if row.name not in INPUTS:
            able = [x for x in INPUTS if row.operand or ELEMENT_TYPES[x].scale]
            raise UnsupportedError(
                f"{name} is {row.name}, which the elementwise expression has no kernel for on {self.target.name} yet",
                expected=" or ".join(able),
                fix=f"convert {name} to one of these before the call, and name that type in the program",
                place=place_of(read),
            )
        places = (self.read_at(e, name, read, axis) for axis, e in enumerate(where.results))
        steps = self.facts("arg_attrs", index).get("scale.steps")
        return EpilogueInput(
            index,
            name,
            row,
            KINDS[m.name in reads, n.name in reads],
            tuple(self.spanned(at, (m, n)) for at in places),
            layout,
            position,
            # An attribute takes an index below 0 as an address before its first element.
            steps is not None and list(ir.DenseI64ArrayAttr(steps))[-1] > 1,
        )

    def read_at(self, e: Any, name: str, read: Any, axis: int) -> Coord:
        """Where an axis of an input is read.

        Raises:
            UnsupportedError: at what no Coord says.
        """
        divisor = 1
        if isinstance(e, ir.AffineFloorDivExpr) and isinstance(e.lhs, ir.AffineSymbolExpr):
            e, divisor = e.lhs, e.rhs.value
        if isinstance(e, ir.AffineSymbolExpr):
            return self.noted(list(read.symbols)[e.position], read.source, axis, divisor)
        found, dim = self.coord(e), dimension_of(e, len(self.dims))
        if found is None and dim is not None and (gaps := gaps_of(e)) is not None:
            found = Coord(self.dims[dim], gaps=gaps)
        if found is None or found.offset:
            raise UnsupportedError(
                f"{name} is read at {written(e, self.dims, [self.spelled(x) for x in read.symbols])}",
                expected="a dimension, divided by a number and the remainder by another, or around gaps, or 0",
                fix=f"pass a copy of {name} that has an element for each point",
                place=place_of(read),
            )
        return found
