"""What a tile sums over: K blocks of all points of the summed dimensions, and of each product that is added up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from scalec.ir.mlir import ir
from scalec.passes.emit.handles import Handles, Side
from scalec.passes.emit.scales import Scales
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.parts import k_blocks
from scalec.passes.problem.access import Dim
from scalec.passes.problem.products import in_order
from scalec.passes.problem.types import Problem


@dataclass(frozen=True)
class Point:
    """Where an element of a tile's K is in that of one product.

    Attributes:
        conditions: whether it is in this product's (i1, each of which must be so).
        sides: of the product.
        w, k0: the work there (Sums.at_point), and the element.
        end: where the product's K ends.
    """

    conditions: list[ir.Value]
    sides: tuple[Side, Side]
    w: Work
    k0: ir.Value
    end: ir.Value


class Sums(Scales):
    """The K of a kernel that is being built. `pairs` are the sides of each product of the sums."""

    def length(self, h: Handles) -> ir.Value:
        """Elements of K that a tile walks: those of each point of `summed`, and of each product, padded to whole
        K blocks."""
        p, depth, e = self.problem, self.schedule.tile[2], self.e
        if not (p.summed or p.added):
            return h.k
        if p.depth is not None:
            return e.i32(k_blocks(p, self.schedule) * depth)
        first, *others = map(self.length_of, p.products)
        for length in others:
            first = e.arith("arith.addi", first, length)
        return first

    def length_of(self, product: Problem) -> ir.Value:
        """Likewise of one product."""
        length = self.padded(product.k)
        for d in product.summed:
            length = self.e.arith("arith.muli", length, self.size(d))
        return length

    def padded(self, k: Dim) -> ir.Value:
        """K elements up to the end of the last K block."""
        e, depth = self.e, self.schedule.tile[2]
        if k.size is not None:
            return e.i32(-(-k.size // depth) * depth)
        whole = e.arith("arith.divui", e.arith("arith.addi", self.size(k), e.i32(depth - 1)), e.i32(depth))
        return e.arith("arith.muli", whole, e.i32(depth))

    def of_side(self, number: int) -> list[Side]:
        """The left (0) or right side of each product."""
        return [pair[number] for pair in self.pairs]

    def points(self, h: Handles, w: Work, k0: ir.Value) -> list[Point]:
        """Where an element of a tile's K is, in the K of each product. Behind the last product's it is that one's."""
        e, products = self.e, self.problem.products
        made: dict[int, Point] = {}
        behind: list[ir.Value] = []
        for number in in_order(self.problem):
            sides, product = self.pairs[number], products[number]
            before, at = [], self.at_point(w, k0, product)
            if len(made) < len(products) - 1:
                before = [e.compare("lt", k0, self.length_of(product))]
            end = h.k if sides is self.sides else self.size(product.k)
            made[number] = Point([*behind, *before], sides, *at, end)
            behind += [e.negated(x) for x in before]
            if before:
                k0 = e.arith("arith.subi", k0, self.length_of(product))
        return [made[number] for number in range(len(products))]

    @contextmanager
    def of_point(self, point: Point) -> Iterator[None]:
        """What is done for a point alone if the element is in its product's K."""
        with ExitStack() as regions:
            for condition in point.conditions:
                regions.enter_context(self.e.region("tile.when", [condition]))
            yield

    def at_point(self, w: Work, k0: ir.Value, product: Problem | None = None) -> tuple[Work, ir.Value]:
        """The point of `summed` that an element of a product's K, the first one's unless another is given, lies in, as
        indices of the work, and the element there. Behind the last point it is one beyond the end of K."""
        product = product or self.problem
        e, summed = self.e, product.summed
        if not summed:
            return w, k0
        each, number = self.padded(product.k), e.i32(1)
        for d in summed:
            number = e.arith("arith.muli", number, self.size(d))
        last = e.arith("arith.subi", number, e.i32(1))
        point = e.arith("arith.minui", e.arith("arith.divui", k0, each), last)
        k0 = e.arith("arith.subi", k0, e.arith("arith.muli", point, each))
        indices = {}
        for d in summed[:0:-1]:
            above = e.arith("arith.divui", point, self.size(d))
            indices[d.name] = e.arith("arith.subi", point, e.arith("arith.muli", above, self.size(d)))
            point = above
        indices[summed[0].name] = point
        return replace(w, outer=w.outer | indices), k0
