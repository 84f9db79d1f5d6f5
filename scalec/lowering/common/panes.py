"""Views of tiles and sums of several contractions, which lie side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common.state import COMMON, Buffer, Fragment, State


@dataclass(frozen=True)
class InputSums:
    """An epilogue input that is another accumulator: at each place of a thread the register there."""

    waves: list[list[Variable]]
    integers = False

    def of_wave(self, wave: int) -> Callable[[int, Any], list[ir.Value]]:
        """What reads a wave's values, in groups of 8 columns."""
        return lambda group, _: [v.get() for v in self.waves[wave][4 * group : 4 * group + 4]]

    def once(self, _place: Any) -> None:
        """Nothing is loaded."""


@COMMON.lowers("tile.strip")
def strip(s: State, op: ir.OpView) -> None:
    whole, of = s.get(op.tile), op.tile.type
    across, bits = tile.shape_of(of)[1 - tile.int_of(op.axis)], tile.bits_of(tile.element_of(of))
    behind = tile.int_of(op.first) * across * bits // 8  # columns are panels, each of all rows
    s.values[op.result] = Buffer(s.b.add(whole.base, behind), op.result.type, whole.offset + behind, whole.stage)


@COMMON.lowers("tile.pane", "tile.go")
def pane(s: State, op: ir.OpView) -> None:
    attributes, (_, columns), whole = (
        op.operation.attributes,
        tile.shape_of(op.result.type),
        s.get(op.accumulator).waves,
    )
    if "wave" in attributes:
        s.values[op.result] = Fragment([whole[tile.int_of(attributes["wave"])]], columns)
        return
    first = tile.int_of(attributes["first"])
    waves = [wave[first // 2 : (first + columns) // 2] for wave in whole]
    s.values[op.result] = Fragment(waves, columns)


@COMMON.lowers("tile.input_sums")
def input_sums(s: State, op: ir.OpView) -> None:
    s.values[op.result] = InputSums(s.get(op.accumulator).waves)
