"""Scales of an operand whose rows are gathered along the sum: each element of K has those of the row that it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import LAYOUTS, NAMED, WHOLE, ElementType
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, block_of
from scalec.passes.problem.access import Coord, Dim
from scalec.passes.problem.epilogue import EpilogueReader
from scalec.passes.problem.operand import FOLDED_STEP, Scale


class NamedScales(EpilogueReader):
    """The walk over such scales."""

    def named_scale(
        self,
        op: Any,
        order: list[str],
        operand: str,
        tile: tuple[Dim, Dim, str],
        types: tuple[ElementType, ElementType],
    ) -> Scale:
        """One of an operand that is called `order`; `tile`: the dimensions of its rows and K, and what names an element
        of K; `types`: of the operand in memory and as it is multiplied.

        Raises:
            UnsupportedError: no conversion multiplies by it.
        """
        (rows, k, named), (stored, element) = tile, types
        index, name, _ = self.argument(op.scales, f"the scale of {operand}")
        granularity, block = GranularityAttr(op.granularity), block_of(GranularityAttr(op.granularity))
        blocks = dict(zip(order, [1] * (len(order) - len(block)) + block, strict=True))
        kind, layout = (ir.StringAttr(x).value for x in (granularity.type, granularity.layout))
        along, able = blocks[rows.name], {t: made for (x, t), made in NAMED.items() if x == stored.name}
        told = f"{operand}[{', '.join(order)}] is gathered along {k.name}, which is summed: each has its own {name}"
        for found, got, expected, fix in (
            (
                kind not in able,
                f"{stored.name}, scales of {kind}",
                f"e4m3 or e5m2 with scales of ue8m0, or scales that are constant along {k.name}",
                f"gather {operand} and quantise it along {k.name} by a program of its own, as "
                f"T[n,m]:e4m3 scale(1x128) = {operand}[idx[m],n] scale(...), and multiply that",
            ),
            (
                element.name not in able.get(kind, ()),
                f"{stored.name}, scales of {kind}, multiplied as {element.name}",
                f"an operand beside it that bf16 has too, without scales along {k.name} or with some of f32",
                "convert the other operand, or its scales, before the call",
            ),
            (
                along != WHOLE and along % FOLDED_STEP,
                f"one for each {along} of {rows.name}",
                f"a multiple of {FOLDED_STEP}, or all",
                f"quantise {operand} in blocks of {FOLDED_STEP} along {rows.name}",
            ),
            (
                layout not in LAYOUTS[:2],
                f"layout {layout}",
                "row or col",
                f"reorder {name} before the call and leave out @{layout}",
            ),
        ):
            if found:
                raise UnsupportedError(told, got=got, expected=expected, fix=fix, place=place_of(op.scales))
        coords = tuple(
            Coord() if size == WHOLE else self.spanned(Coord(x, size), (rows,)) for x, size in blocks.items()
        )
        axes, last = (order.index(rows.name), order.index(named)), order[-1] if layout == "row" else order[-2]
        kept = "row" if last == named else "col"
        made = Scale(index, name, along, blocks[named], kept, kind, axes=axes, coords=coords, folded=True)
        return replace(made, named=named)
