"""What the elementwise body reads beside the accumulator."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.frame import Frame
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.items import cut_along
from scalec.passes.problem.access import Lookup
from scalec.passes.problem.types import EpilogueInput, Result


class Inputs(Frame):
    """Tensors and scalars of the program that are no operands."""

    def even_columns(self) -> int:
        """1 where two adjacent columns are always both inside or both outside."""
        n, cut = self.problem.n, cut_along(self.problem, self.schedule) == self.problem.n.name
        cut = cut or any(x.dim == n.name for x in self.problem.row_lookups)
        even = n.inner if n.size is None else n.size  # of two that are walked as one, whole blocks of the inner one
        return int(even % 2 == 0 and not cut)

    def added(self, result: Result) -> EpilogueInput | None:
        """The result itself, where copies add to it, or it is loaded: one rounding of the same sum, and no thread reads
        memory."""
        return result.added if self.schedule.epilogue == "bulk" else None

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
        e, operands = self.e, [source, *(self.e.i32(x.coords[a].offset) for a in axes)]
        strides = [e.i64(1) if a == len(x.coords) - 1 and x.layout == "row" else self.stride(x.name, a) for a in axes]
        segments = (1, len(axes), len(axes))
        return e.op("tile.view", [source.type], [*operands, *strides], segments=segments).result

    def input(self, x: EpilogueInput, w: Work | None, adjacent: bool = True) -> ir.Value:
        """What the body reads of a tensor or scalar: of the tile of `w`, where that matters (`by_tile`). `adjacent`:
        columns are those of the product, of which a thread has two side by side."""
        e, dims = self.e, (self.problem.m.name, self.problem.n.name)
        along = {lookup.name: lookup.dim for lookup in self.looked_up(x)}
        axes: list[tuple[tuple[int, int, int], ir.Value, str]] = []
        rank = len(x.coords)
        if isinstance(self.argument(x.argument_index).type, ir.RankedTensorType):
            contiguous = rank - 1 if x.layout == "row" else rank - 2
            for axis, at in enumerate(x.coords):
                dim = along.get(at.dim, at.dim)
                if dim in dims:
                    stride = e.i64(1) if axis == contiguous else self.stride(x.name, axis)
                    axes.append(((dims.index(dim), at.divisor, at.modulus), stride, at.dim))
            last = x.coords[contiguous]
            whole = last.dim == dims[1] and last.divisor == 1 and last.modulus % 2 == 0
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
        made = e.op(
            "tile.input",
            [e.type("operand")],
            [source, *(stride for _, stride, _ in axes)],
            segments=(1, len(axes)),
            kind=x.kind,
            axes=tuple(number for numbers, _, _ in axes for number in numbers),
            pair=pair,
        ).result
        for number, (_, _, name) in enumerate(axes):
            if name in along:
                operands = [made, self.row_index(name, w)]
                made = e.op("tile.input_at", [e.type("operand")], operands, axis=number).result
        return made
