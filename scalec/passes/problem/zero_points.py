"""The zero points of an operand: where they lie, and what no kernel takes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, WHOLE, element_spelled
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import axis_and_block, element, map_of
from scalec.passes.problem.access import Coord
from scalec.zero_points import RANGES, STEP


@dataclass(frozen=True)
class ZeroPoints:
    """What an operand's integers are less, before their scales: `number`, or where there is a `name`, one for each
    `rows` x `k` block of the operand.

    Attributes:
        argument_index: position among the function's arguments.
        name: what the user calls the tensor.
        type: its element type.
        rows, k: rows, and elements of K, that share one; WHOLE where all do.
        axes: the tensor's axes of rows and of K, None where it has none.
        coords: where it is read, one entry an axis.
    """

    number: int = 0
    argument_index: int = -1
    name: str = ""
    type: str = ""
    rows: int = WHOLE
    k: int = WHOLE
    axes: tuple[int | None, int | None] = (None, None)
    coords: tuple[Coord, ...] = ()

    @property
    def contiguous(self) -> str:
        """Which axis is contiguous: "rows", "k", or "" for another."""
        rows, k = self.axes
        return {rows: "rows", k: "k"}.get(len(self.coords) - 1, "")


def bounds_of(subtract: Any) -> tuple[int, int]:
    """Between what the zero points of a `scale.subtract` lie."""
    if not len(subtract.zeros):
        number = ir.IntegerAttr(subtract.operation.attributes["number"]).value
        return number, number
    row = element_spelled(str(element(subtract.zeros[0].type)))
    return RANGES[row.name] if row is not None and row.name in RANGES else (-(1 << 31), (1 << 31) - 1)


def read_zero_points(
    subtract: Any, argument: tuple[int, str], order: Sequence[str], coords: Sequence[Coord], names: tuple[str, str]
) -> ZeroPoints:
    """The zero points of a `scale.subtract`.

    Args:
        argument: of the tensor of zero points, where there is one: its position, and what the user calls it.
        order: names of the operand's indices; coords: where it is read.
        names: of a tile's rows and its K among `order`.
    """
    if not len(subtract.zeros):
        return ZeroPoints(ir.IntegerAttr(subtract.operation.attributes["number"]).value)
    (index, name), zeros = argument, subtract.zeros[0]
    stored = element_spelled(str(element(zeros.type)))
    assert stored is not None
    at = [axis_and_block(e) for e in map_of(subtract.operation.attributes["map"]).results]
    axes: list[int | None] = [None, None]
    blocks, own = [WHOLE, WHOLE], list[Coord]()
    for axis, found in enumerate(at):
        assert found is not None
        position, block = found
        own.append(replace(coords[position], divisor=block))
        if order[position] in names:
            which = names.index(order[position])
            axes[which], blocks[which] = axis, block
    made = ZeroPoints(0, index, name, stored.name, blocks[0], blocks[1], (axes[0], axes[1]), tuple(own))
    written = f"{name}[{', '.join(f'{c.dim}/{c.divisor}' if c.divisor > 1 else c.dim for c in own)}]"
    if made.k != WHOLE and made.k % STEP:
        raise UnsupportedError(
            f"{written} has one zero point for each {made.k} elements of {names[1]}",
            expected=f"a multiple of {STEP}, or one for all of {names[1]}",
            fix=f"repeat zero points, or quantise anew in blocks of {STEP} along {names[1]}",
            place=place_of(zeros),
        )
    if not made.contiguous and ELEMENT_TYPES[made.type].bits < 8:
        raise UnsupportedError(
            f"{written} is {made.type}, packed along {own[-1].dim}",
            expected=f"{' or '.join(names)} last, or i8",
            fix=f"pass {name} as i8",
            place=place_of(zeros),
        )
    return made
