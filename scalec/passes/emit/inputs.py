"""What the elementwise body reads beside the accumulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from scalec.ir.mlir import ir
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.operand_bodies import OperandBodies
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.items import cut_along
from scalec.passes.plan.reached import walked_window
from scalec.passes.problem.access import Coord, Index, Lookup
from scalec.passes.problem.result import EpilogueInput, Result, Window


class Inputs(OperandBodies):
    """Tensors and scalars of the program that are no operands."""

    def even_columns(self) -> int:
        """1 where two adjacent columns are always both inside or both outside."""
        n, cut = self.problem.n, cut_along(self.problem, self.schedule) == self.problem.n.name
        cut = cut or any(x.dim == n.name for x in self.problem.row_lookups)
        even = n.inner if n.size is None else n.size  # of two that are walked as one, whole blocks of the inner one
        return int(even % 2 == 0 and not cut)

    def added(self, result: Result) -> EpilogueInput | None:
        """The result itself, where copies, or threads that have some columns, add to it, or it is loaded: one rounding
        of the same sum, and no thread reads memory."""
        by_threads = self.schedule.parts == "columns" and result.element.name == "f32"
        return result.added if self.schedule.epilogue == "bulk" or by_threads else None

    def read(self, result: Result) -> list[EpilogueInput]:
        """The inputs of a result that threads read."""
        added = self.added(result)
        return [x for x in result.inputs if x is not added]

    @property
    def ahead(self) -> list[EpilogueInput]:
        """Those of which a tile reads some elements many times, behind the main loop: one for each row or column, and
        not one that is looked up."""
        found = {(x.name, x.coords): x for r in self.problem.bodies for x in self.read(r) if x.kind in ("row", "col")}
        return [x for x in found.values() if not self.looked_up(x)]

    def looked_up(self, x: EpilogueInput) -> list[Lookup]:
        """What an input is read at that is looked up for each row or column."""
        names = {at.dim for at in x.coords}
        return [lookup for lookup in self.problem.row_lookups if lookup.name in names]

    def by_tile(self, result: Result) -> bool:
        """Whether what a result's body reads depends on where a tile is along the dimensions of `outer`."""
        scale = result.scale
        outer = [scale.outer] if scale is not None and scale.outer is not None else []
        coords = [x.coords for x in (*self.read(result), *outer)]
        coords += [x.coords for x in (result.column_fold.inputs if result.column_fold is not None else ())]
        coords += [lookup.index.coords for x in self.read(result) for lookup in self.looked_up(x)]
        return any(self.problem.outside(x) for x in coords)

    def further(self, source: ir.Value, x: EpilogueInput) -> ir.Value:
        """Memory that an input is read in, moved by what its coordinates along a tile add: of lo[q + 1] by one."""
        axes = [a for a, at in enumerate(x.coords) if at.offset and a not in self.problem.outside(x.coords)]
        if not axes:
            return source
        at = [self.e.i32(x.coords[a].offset) for a in axes]
        last = len(x.coords) - 1 if x.layout == "row" else -1
        strides = [self.e.i64(1) if a == last else self.stride(x.name, a) for a in axes]
        return self.e.op("tile.view", [source.type], [source, at, strides]).result

    @contextmanager
    def over_tiles(self, h: Handles, asks: bool = False, turns: int = 1) -> Iterator[Work]:
        """Of the tiles those that have something of the results' window; who stores results fills the others."""
        e, window = self.e, walked_window(self.problem, self.schedule)
        with super().over_tiles(h, asks, turns) as w:
            if window is None:
                yield w
                return
            some = self.reaches(w, window)
            with e.region("tile.when", [some]):
                yield w
            if h.fill is not None:
                with e.region("tile.when", [e.negated(some)]):
                    h.fill(w)

    def reaches(self, w: Work, window: Window) -> ir.Value:
        """Whether a tile, or one that it shares copies with, has something of a window."""
        return self.within(w, window, "tile.reaches", [ir.IntegerType.get_signless(1)], []).result

    def within(self, w: Work, window: Window, name: str, results: list[ir.Type], tiles: list[ir.Value]) -> ir.Operation:
        """The op that says so of a tile, or of the `tiles` of a run."""
        e, fold = self.e, self.problem.column_fold
        assert fold is not None
        at = self.folded(w, fold.size)
        numbers = zip(("low", "high"), window.bounds, strict=True)
        ends: dict[str, Any] = {name: x for name, x in numbers if isinstance(x, int)}
        bounds = [self.input(x, w, adjacent=False) for x in window.read]
        rows, columns = self.walked
        return e.op(
            name,
            results,
            [*(tiles or [at.m0]), at.n0, at.n_end, bounds],
            tile=(rows, columns // fold.size),
            cluster=self.schedule.cluster,
            **ends,
        )

    def end_at(self, x: EpilogueInput | int, w: Work) -> ir.Value:
        """An end of a window that is the same for all of a tile."""
        if isinstance(x, int):
            return self.e.i32(x)
        if x.computed:
            return self.placed(x.coords[0], w.outer)
        return self.read_index(Index(x.argument_index, x.name, x.coords), w.outer)

    def computed_end(self, x: EpilogueInput, w: Work | None) -> ir.Value:
        """An end of a window that is computed of where a row or column, or the tile, is."""
        at = x.coords[0]
        value = [self.placed(at, w.outer)] if x.kind == "scalar" and w is not None else []
        numbers = (at.offset, at.divisor, at.modulus)
        return self.e.op("tile.index_input", [self.e.type("operand")], [value], kind=x.kind, numbers=numbers).result

    def folded(self, w: Work, size: int) -> Work:
        """The tile, whose columns are those of which `size` become one."""
        first, end = (self.e.arith("arith.divui", x, self.e.i32(size)) for x in (w.n0, w.n_end))
        return replace(w, n0=first, n_end=end)

    def input(self, x: EpilogueInput, w: Work | None, adjacent: bool = True) -> ir.Value:
        """What the body reads of a tensor or scalar: of the tile of `w`, where that matters (`by_tile`). `adjacent`:
        columns are those of the product, of which a thread has two side by side."""
        if x.computed:
            return self.computed_end(x, w)
        e, dims = self.e, (self.problem.m.name, self.problem.n.name)
        along = {lookup.name: lookup.dim for lookup in self.looked_up(x)}
        axes: list[tuple[tuple[int, int, int], ir.Value, Coord]] = []
        rank = len(x.coords)
        if isinstance(self.argument(x.argument_index).type, ir.RankedTensorType):
            contiguous = rank - 1 if x.layout == "row" else rank - 2
            for axis, at in enumerate(x.coords):
                dim = along.get(at.dim, at.dim)
                if dim in dims:
                    stride = e.i64(1) if axis == contiguous and not x.spaced else self.stride(x.name, axis)
                    axes.append(((dims.index(dim), at.divisor, at.modulus), stride, at))
            last = x.coords[contiguous]
            whole = last.dim == dims[1] and last.divisor == 1 and last.modulus % 2 == 0 and not x.spaced
            whole = whole and (last.gaps is None or (last.gaps.size % 2 == 0 and not last.gaps.apart(2)))
            others = [at.divisor for axis, at in enumerate(x.coords) if at.dim == dims[1] and axis != contiguous]
            same = not any(divisor % 2 for divisor in others)  # of two columns, the first of which is even
            pair = int(adjacent and x.kind in ("col", "both") and whole and same and self.even_columns())
            align = x.element.bits // 8 * (1 + pair)
            source = self.pointer(x.name, x.argument_index, align)
            if w is not None:
                source = self.at(source, x.name, x.coords, w)
            source = self.further(source, x)
        else:
            source, pair = e.parameter(self.body, ir.F32Type.get(), Source("scalar", x.name)), 0
        axes.sort(key=lambda axis: axis[0][0])
        around = tuple(x for _, _, at in axes for x in (at.gaps.numbers if at.gaps is not None else (0, 1, 0)))
        how: dict[str, Any] = {"gaps": around} if any(around[::3]) else {}
        made = e.op(
            "tile.input",
            [e.type("operand")],
            [source, [stride for _, stride, _ in axes]],
            kind=x.kind,
            axes=tuple(number for numbers, _, _ in axes for number in numbers),
            pair=pair,
            **how,
        ).result
        for number, (_, _, at) in enumerate(axes):
            if at.dim in along:
                operands = [made, self.row_index(at.dim, w)]
                made = e.op("tile.input_at", [e.type("operand")], operands, axis=number).result
        return made
