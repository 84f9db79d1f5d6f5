"""The zero points of an operand: where they lie, and what no kernel takes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, WHOLE, element_spelled
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import axis_and_block, dims_in, element, map_of, written
from scalec.passes.problem.access import Coord
from scalec.zero_points import RANGES, STEP, Order


@dataclass(frozen=True)
class ZeroPoints:
    """What an operand's integers are less, before their scales: `number`, or where there is a `name`, one for each
    `rows` x `k` block of the operand, which is `number` more than is stored.

    Attributes:
        argument_index: position among the function's arguments.
        name: what the user calls the tensor.
        type: its element type.
        rows, k: rows, and elements of K, that share one; WHOLE where all do.
        axes: the tensor's axes of rows and of K, None where it has none.
        coords: where it is read, one entry an axis; of rows and of K the block.
        orders: where blocks of rows and of K lie along these; None where one behind the other.
    """

    number: int = 0
    argument_index: int = -1
    name: str = ""
    type: str = ""
    rows: int = WHOLE
    k: int = WHOLE
    axes: tuple[int | None, int | None] = (None, None)
    coords: tuple[Coord, ...] = ()
    orders: tuple[Order | None, Order | None] = (None, None)

    @property
    def bounds(self) -> tuple[int, int]:
        """Between what they lie."""
        low, high = RANGES[self.type] if self.name else (0, 0)
        return low + self.number, high + self.number

    @property
    def told(self) -> str:
        """What they are, for who reads messages."""
        if not (self.name and self.number):
            return self.name or str(self.number)
        return f"{self.name} {'+' if self.number > 0 else '-'} {abs(self.number)}"

    @property
    def contiguous(self) -> str:
        """Which axis is contiguous: "rows", "k", or "" for another."""
        rows, k = self.axes
        return {rows: "rows", k: "k"}.get(len(self.coords) - 1, "")


def bounds_of(subtract: Any) -> tuple[int, int]:
    """Between what the zero points of a `scale.subtract` lie."""
    number = number_of(subtract)
    if not len(subtract.zeros):
        return number, number
    row = element_spelled(str(element(subtract.zeros[0].type)))
    low, high = RANGES[row.name] if row is not None and row.name in RANGES else (-(1 << 31), (1 << 31) - 1)
    return low + number, high + number


def read_zero_points(
    subtract: Any, argument: tuple[int, str], order: Sequence[str], coords: Sequence[Coord], names: tuple[str, str]
) -> ZeroPoints:
    """The zero points of a `scale.subtract`.

    Args:
        argument: of the tensor of zero points, where there is one: its position, and what the user calls it.
        order: names of the operand's indices; coords: where it is read.
        names: of a tile's rows and its K among `order`.
    """
    number = number_of(subtract)
    if not len(subtract.zeros):
        return ZeroPoints(number)
    (index, name), zeros = argument, subtract.zeros[0]
    stored = element_spelled(str(element(zeros.type)))
    assert stored is not None
    results = list(map_of(subtract.operation.attributes["map"]).results)
    told = f"{name}[{', '.join(written(e, order) for e in results)}]"
    axes: list[int | None] = [None, None]
    orders: list[Order | None] = [None, None]
    blocks, own = [WHOLE, WHOLE], list[Coord]()
    for axis, e in enumerate(results):
        position, block, at = _place(e, told, order, zeros)
        own.append(replace(coords[position], divisor=block))
        if order[position] in names:
            which = names.index(order[position])
            axes[which], blocks[which], orders[which] = axis, block, at
        elif at is not None:
            own[-1] = replace(own[-1], modulus=_remainder(at, told, order[position], names, zeros))
    (rows, k), (one, other) = blocks, orders
    made = ZeroPoints(number, index, name, stored.name, rows, k, (axes[0], axes[1]), tuple(own), (one, other))
    if made.k != WHOLE and made.k % STEP:
        raise UnsupportedError(
            f"{told} has one zero point for each {made.k} elements of {names[1]}",
            expected=f"a multiple of {STEP}, or one for all of {names[1]}",
            fix=f"repeat zero points, or quantise anew in blocks of {STEP} along {names[1]}",
            place=place_of(zeros),
        )
    if not made.contiguous and ELEMENT_TYPES[made.type].bits < 8:
        raise UnsupportedError(
            f"{told} is {made.type}, packed along {own[-1].dim}",
            expected=f"{' or '.join(names)} last, or i8",
            fix=f"pass {name} as i8",
            place=place_of(zeros),
        )
    return made


def _place(e: ir.AffineExpr, told: str, order: Sequence[str], zeros: Any) -> tuple[int, int, Order | None]:
    """Of an index of zero points which of the operand's it is computed of, of how many of these blocks are, and where
    the blocks lie, if not one behind the other."""
    if (found := axis_and_block(e)) is not None:
        return *found, None
    (position,) = dims_in(ir.AffineMap.get(len(order), 0, [e]))
    if (terms := _terms(e)) is None:
        raise UnsupportedError(
            f"{told} is read at {written(e, order)}",
            expected=f"a sum of {order[position]}, or what / and then % make of it, times numbers, as in n/8*8 + n%8/2",
            fix="pass a copy of it in the order of the operand's indices",
            place=place_of(zeros),
        )
    constant = sum(c for c, d, _ in terms if not d)
    terms = [x for x in terms if x[1]]
    block = math.gcd(*(d for _, d, _ in terms))
    return position, block, Order(tuple((c, d // block, m) for c, d, m in terms), constant)


def place_among(e: ir.AffineExpr, of: Sequence[Coord]) -> Coord | None:
    """Where an axis of zero points is read, of integers that are read at `of`; None where no Coord tells it."""
    position, block = axis_and_block(e) or (min(dims_in(ir.AffineMap.get(len(of), 0, [e]))), 0)
    at = of[position]
    if block and not at.modulus and at.gaps is None:
        return replace(at, divisor=at.divisor * block)
    if (terms := _terms(e)) is None:
        return None
    return replace(at, order=Order(tuple(x for x in terms if x[1]), sum(c for c, d, _ in terms if not d)))


def number_of(subtract: Any) -> int:
    """The number that the zero points of a `scale.subtract` are, or that is added to them."""
    attributes, name = subtract.operation.attributes, "plus" if len(subtract.zeros) else "number"
    return ir.IntegerAttr(attributes[name]).value if name in attributes else 0


def _terms(e: ir.AffineExpr) -> list[tuple[int, int, int]] | None:
    """An index x as a sum of c * (x / d % m), as (c, d, m), without % m where that is 0; a constant is (c, 0, 0). None
    of another."""
    if isinstance(e, ir.AffineDimExpr):
        return [(1, 1, 0)]
    if isinstance(e, ir.AffineConstantExpr):
        return [(e.value, 0, 0)]
    if not isinstance(e, ir.AffineBinaryExpr) or (left := _terms(e.lhs)) is None:
        return None
    if isinstance(e, ir.AffineAddExpr):
        right = _terms(e.rhs)
        return None if right is None else left + right
    if not isinstance(e.rhs, ir.AffineConstantExpr):
        return None
    number = e.rhs.value
    if isinstance(e, ir.AffineMulExpr):
        return [(c * number, d, m) for c, d, m in left]
    one, divisor, modulus = left[0] if len(left) == 1 else (0, 0, 0)
    if one != 1 or not divisor:
        return None
    if isinstance(e, ir.AffineFloorDivExpr):
        return [(1, divisor * number, modulus // number)] if modulus % number == 0 else None
    if not isinstance(e, ir.AffineModExpr) or (modulus % number and number % modulus):
        return None
    return [(1, divisor, min(modulus or number, number))]


def _remainder(at: Order, told: str, dim: str, names: tuple[str, str], zeros: Any) -> int:
    """What an index of no tile is taken modulo, of which kernels take no more."""
    ((count, divisor, modulus), *rest) = at.terms
    if rest or at.constant or (count, divisor) != (1, 1):
        raise UnsupportedError(
            f"{told} has another order along {dim}",
            expected=f"another order along {' or '.join(names)}, of which tiles have more than one, alone",
            fix=f"pass a copy of it in the order of {dim}",
            place=place_of(zeros),
        )
    return modulus
