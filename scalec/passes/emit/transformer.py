"""Operands that are computed, or reduced along K, by the warps that convert them."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.passes.emit.cutter import Cutter
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.operand_bodies import Held, Key


class Transformer(Cutter):
    """Has each element of such an operand as f32 on its way: computes what is multiplied, takes terms into folds."""

    def transform(
        self,
        h: Handles,
        side: Side,
        cursor: ir.Value,
        held: Held,
        beside: dict[Key, ir.Value],
        inside: ir.Value | None,
        zeros: list[ir.Value],
    ) -> None:
        """Computes or quantises a side's tile of a stage, and takes terms of its elements into folds."""
        operand = side.operand
        how: dict[str, Any] = {"stored": ir.TypeAttr.parse(operand.stored.mlir)}
        within = [] if inside is None else [inside]
        factors = [h.scale_tiles[side.label]] if operand.folded is not None else []
        made = [h.made[side.label]] if operand.made is not None else []
        if operand.made is not None:
            how["scale"] = operand.made.type
        before = [h.stored[side.label], h.tiles[side.label], cursor, within, factors, zeros, made]
        self.with_bodies("tile.transform", before, operand, held, beside, **how)
