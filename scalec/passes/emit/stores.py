"""How results leave: by copies out of shared memory, or out of the registers of threads, in a window too."""

from __future__ import annotations

import math
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.tile import VECTOR
from scalec.ir.tile_types import shape_of
from scalec.passes.emit.emitter import Source
from scalec.passes.emit.segments import Segments
from scalec.passes.emit.tensors import Work
from scalec.passes.problem.result import Window
from scalec.passes.problem.types import Problem

WORD = 4
"""Bytes."""

Memory = tuple[ir.Value, ir.Value]
"""Where a result begins for a tile, and how far its rows lie apart."""


class Stores(Segments):
    """Stores what has been computed of a tile's sums."""

    def memory_of(self, of: Problem, w: Work) -> Memory:
        """The result's tile, and elements from one of its rows to the next."""
        return self.result_memory(of, max(1, of.result.element.bits // 8), w)

    def store_within(
        self,
        of: Problem,
        window: Window,
        accumulator: ir.Value,
        w: Work,
        ahead: dict[Any, ir.Value],
        named: bool = True,
        memory: Memory | None = None,
    ) -> None:
        """Stores what threads have in registers of a result's window, and fills what is around it; `named`: asks
        whether all that is to name something does."""
        e = self.e
        target, stride = memory or self.memory_of(of, w)
        strides = self.strides_of(of, stride)
        bounds = [ahead.get((x.name, x.coords)) or self.input(x, w, adjacent=False) for x in window.read]
        names = self.skips(of, w) if named else []
        width = [] if window.width is None else [self.size(window.width)]
        ends: dict[str, Any] = {
            name: x for name, x in zip(("low", "high"), window.bounds, strict=True) if isinstance(x, int)
        }
        if window.otherwise is not None:
            ends["otherwise"] = ir.FloatAttr.get(ir.F32Type.get(), window.otherwise)
        held = [x for x in window.read if (x.name, x.coords) in ahead]
        along = "m" if window.dim == of.m.name else "n"
        if memory is not None and held == list(window.read) != [] and along == "m" and not names + width:
            ends["known"] = window.otherwise is None
        e.op(
            "tile.store_within",
            operands=[accumulator, target, *strides, w.m0, w.n0, w.m_end, w.n_end, bounds, names, width],
            along=along,
            **ends,
        )

    def skips(self, of: Problem, w: Work) -> list[ir.Value]:
        """What has a result's rows by name."""
        return [self.row_index(x.name, w) for x in of.skips]

    @staticmethod
    def goes_to(of: Problem) -> list[int] | None:
        """Which of these say where rows and columns go, as the ops that store take it."""
        names = [x.name for x in of.skips]
        return [names.index(x) for _, x in of.result.scattered] or None

    def store_bulk(self, of: Problem, accumulator: ir.Value, staging: ir.Value | None, w: Work) -> None:
        """Stores a tile by copies out of shared memory."""
        e, result = self.e, of.result
        around: dict[str, Any] = {"gaps": result.gaps.numbers, "columns": of.n.size} if result.gaps else {}
        operands = [accumulator, staging, self.result_map(of, w), w.m0, w.n0]
        e.op("tile.store", operands=operands, adds=int(self.added(result) is not None), **around)

    def store_staged(self, of: Problem, accumulator: ir.Value, staging: ir.Value | None, w: Work, **how: Any) -> None:
        """Stores rows out of shared memory: what of them is there, each where it goes."""
        target, stride = self.result_memory(of, VECTOR, w)
        asked = [w.asked[x.name] for x in of.skips]
        operands = [accumulator, staging, target, stride, w.m0, w.n0, w.m_end, w.n_end, asked]
        self.e.op("tile.store_staged", operands=operands, to=self.goes_to(of), **how)

    def store_direct(self, of: Problem, accumulator: ir.Value, w: Work) -> None:
        """Stores what threads have in registers of a tile: what of it is there."""
        e, result, around = self.e, of.result, dict[str, Any]()
        bits, last = result.element.bits, len(result.coords) - 1
        # of rows and columns of a tile, where these are not the result's
        axes = [result.axis(d) for d in result.dims] if result.strided else []
        adjacent = self.problem.column_fold is None and (axes[1] == last if axes else not of.swapped)
        pair = max(self.even_columns(), int(bits < 8)) if adjacent else 0  # whole bytes
        if (gaps := result.gaps) is not None and (axes[0] == last if axes else of.swapped):
            around = {"gaps": gaps.numbers, "together": 1, "rows": True}
        elif gaps is not None:
            # a part of a tile begins at a multiple of its columns behind where the tile does
            begins = math.gcd(self.walked[1], self.problem.begins(self.problem.n.name))
            together = math.gcd(gaps.every, gaps.phase, begins, shape_of(accumulator.type)[1])
            around = {"gaps": gaps.numbers, "together": together}
            pair = 0 if together % 2 or gaps.size % 2 else pair
        if self.added(result) is not None:
            around["adds"] = True
        size, align = max(1, bits // 8), 1
        if bits >= 8:
            align = size * (1 + pair)
        elif pair and self.in_words(of, accumulator):
            around["words"], align = True, WORD
        target, stride = self.result_memory(of, align, w)
        strides = self.strides_of(of, stride)
        operands = [accumulator, target, *strides, w.m0, w.n0, w.m_end, w.n_end, self.skips(of, w)]
        e.op("tile.store_direct", operands=operands, pair=pair, to=self.goes_to(of), **around)

    def strides_of(self, of: Problem, stride: ir.Value) -> list[ir.Value]:
        """How far rows, and columns, of a tile lie apart in a result whose rows do so by `stride`."""
        e, result = self.e, of.result
        if not result.strided or of.column_fold is not None:
            return [e.i64(1), stride] if of.swapped else [stride, e.i64(1)]
        axes, last = [result.axis(d) for d in result.dims], len(result.coords) - 1
        return [e.i64(1) if axis == last else self.stride(result.name, axis or 0) for axis in axes]

    def in_words(self, of: Problem, accumulator: ir.Value) -> bool:
        """Whether rows of elements of which several share bytes are whole words, and begin with one in every tile."""
        element, n = of.result.element, self.problem.n
        together = WORD * element.unit  # that fill words
        begins = math.gcd(self.problem.begins(n.name), self.walked[1], shape_of(accumulator.type)[1])
        return element.unit > 2 and n.size is not None and n.size % together == 0 and begins % (2 * together) == 0

    def result_memory(self, of: Problem, align: int, w: Work) -> Memory:
        """Where the result begins for the tile, a multiple of so many bytes as its rows are, and how far its rows lie
        apart."""
        e, result = self.e, of.result
        name = result.name
        memory = e.memory(self.returned(result.index).type)
        target = e.parameter(self.body, memory, Source("pointer", name, align=align))
        axis = self.row_axis(of)
        return self.at(target, name, result.coords, w), e.i64(0) if axis is None else self.stride(name, axis)

    @staticmethod
    def row_axis(of: Problem) -> int | None:
        """The result's axis that its rows are counted along; None of one that has been folded away."""
        return of.result.axis(of.result.dims[int(of.swapped)])
