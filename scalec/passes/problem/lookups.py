"""What a program reads from memory before it knows what to compute: indices of tensors, and ends of ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import DRAWN, WHOLE, WORD_BITS, padded_to
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, apart_in, block_of, facts_of, map_of, maps_of, values_returned, written
from scalec.ir.tile_types import int_of
from scalec.passes.problem.access import Chance, Coord, Dim, Domain, Index, Lookup
from scalec.passes.problem.operand import PROMOTION_BLOCK, Operand
from scalec.passes.problem.types import Problem
from scalec.targets import PADDED_ROW


class Lookups:
    """The walk over the `scale.index` and `scale.domain` ops of one function."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.block = function.body.blocks[0]
        self.dims = [ir.StringAttr(a).value for a in function.attributes["scale.dims"]]
        self.arguments = list(self.block.arguments)
        self.returned = values_returned(function)
        self.found: dict[str, tuple[Any, tuple[Dim, ...]]] = {}
        self.pages: set[str] = set()

    def facts(self, attribute: str, position: int) -> dict[str, Any]:
        """What the function says of an argument ("arg_attrs") or a result ("res_attrs")."""
        return facts_of(self.function, attribute, position)

    def results_of(self, where: ir.AffineMap, symbols: Sequence[Any] = ()) -> list[str]:
        """The results of a map as the language writes them: dimensions by their names, what is read from memory as
        `spelled`."""
        read = [self.spelled(x) for x in symbols]
        return [written(e, self.dims, read) for e in where.results]

    def spelled(self, symbol: Any) -> str:
        """An index read from memory as the language writes it: `e[m/128]`."""
        op = symbol.owner.opview
        return f"{self.tensor(op.tensor)}[{', '.join(self.results_of(map_of(op.map), list(op.symbols)))}]"

    def tensor(self, value: Any) -> str:
        """What the user calls an argument."""
        position = self.arguments.index(value)
        return self.name(self.facts("arg_attrs", position), f"argument {position}")

    @staticmethod
    def name(facts: dict[str, Any], otherwise: str) -> str:
        """The name that the function says something has."""
        return ir.StringAttr(facts["scale.name"]).value if "scale.name" in facts else otherwise

    def index(self, symbol: Any) -> Index:
        """Where an index is read.

        Raises:
            UnsupportedError: at an index that is read itself, or at what no Coord says.
        """
        op = symbol.owner.opview
        coords = [self.element(e) for e in map_of(op.map).results]
        if op.tensor not in self.arguments or len(op.symbols) or not all(coords):
            raise UnsupportedError(
                f"{self.spelled(symbol)} is read at an index that is computed",
                expected="a number, or a dimension, with a number added, or divided by one",
                fix="compute the index before the call",
                place=place_of(op),
            )
        return Index(self.arguments.index(op.tensor), self.tensor(op.tensor), tuple(c for c in coords if c))

    def gathers(self, symbol: Any, dim: str) -> bool:
        """Whether an index out of memory is another one for each index of a dimension."""
        return Coord(dim) in (self.coord(e) for e in map_of(symbol.owner.opview.map).results)

    def page_of(self, where: ir.AffineMap, symbols: Sequence[Any], rows: str) -> tuple[int, int, str]:
        """Which axis of a tensor that is read at `where` is of rows within a page, how many a page has, and what says
        which: `t%64`, 64 and `table[s, t/64]` of `K[table[s,t/64],t%64,d]`, where `rows` is t; (-1, 0, "") where none
        is."""
        for axis, e in enumerate(where.results):
            at = self.coord(e)
            if at is None or not at.modulus or at.dim != rows or at != Coord(rows, modulus=at.modulus):
                continue
            paged = [
                self.spelled(symbols[x.position])
                for x in where.results
                if isinstance(x, ir.AffineSymbolExpr)
                and Coord(rows, divisor=at.modulus)
                in (self.coord(i) for i in map_of(symbols[x.position].owner.opview.map).results)
            ]
            if len(paged) == 1:
                self.pages.add(paged[0])
                return axis, at.modulus, paged[0]
        return -1, 0, ""

    def row_of(self, where: ir.AffineMap, symbols: Sequence[Any], rows: str, value: Any) -> str:
        """What an operand that is read at `where` is indexed by, as `results_of` has it, along the dimension `rows`
        that a tile has: itself, or an index out of memory for each.

        Raises:
            UnsupportedError: neither, or several.
        """
        order, name = self.results_of(where, symbols), self.tensor(value)
        own = [
            at
            for e, at in zip(where.results, order, strict=True)
            if at == rows or (isinstance(e, ir.AffineSymbolExpr) and self.gathers(symbols[e.position], rows))
        ]
        if len(own) == 1:
            return own[0]
        if own:
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] has {len(own)} indices for each {rows}",
                expected=f"one: {rows} itself, or an index read from memory",
                fix=f"view {' and '.join(own)} as one index of {name}, and compute it before the call",
                place=place_of(value),
            )
        raise UnsupportedError(
            f"{name}[{', '.join(order)}] has no index of its own for each {rows}",
            expected=f"{rows} among the indices of {name}, or in an index that is read from memory",
            fix=f"pass a copy or a view of {name} that is indexed so",
            place=place_of(value),
        )

    def noted(self, symbol: Any, value: Any, axis: int, divisor: int = 1) -> Coord:
        """An axis of an argument that is read at an index out of memory, or at that divided by a number."""
        name = self.spelled(symbol)
        _, extents = self.found.get(name, (symbol, ()))
        extent = self.extent_of(value, axis) if divisor == 1 else next(iter(extents), None)
        if extent is None:
            raise UnsupportedError(
                f"{self.tensor(value)} is read at {name}/{divisor}, and nothing at {name} itself",
                expected="an index read from memory that is divided for the scales of what it gathers",
                fix="divide the index before the call",
                place=place_of(symbol.owner),
            )
        return replace(self.note(symbol, extent), divisor=divisor)

    def note(self, symbol: Any, extent: Dim) -> Coord:
        """An axis of so many indices, at an index out of memory."""
        name = self.spelled(symbol)
        _, extents = self.found.get(name, (symbol, ()))
        self.found[name] = (symbol, extents if extent in extents else (*extents, extent))
        return Coord(name)

    def lookups(self, tiled: tuple[str, ...]) -> tuple[Lookup, ...]:
        """The indices that were `noted`; a tile runs along the dimensions `tiled`.

        Raises:
            UnsupportedError: one is read at two of these, or at what is left of a division.
        """
        return tuple(self._lookup(name, symbol, extents, tiled) for name, (symbol, extents) in self.found.items())

    def _lookup(self, name: str, symbol: Any, extents: tuple[Dim, ...], tiled: tuple[str, ...]) -> Lookup:
        index = self.index(symbol)
        along = [c for c in index.coords if c.dim in tiled]
        if len(along) > 1 or any(c.modulus or c.offset % c.divisor or (c.offset and c.divisor == 1) for c in along):
            each = along[0].dim
            raise UnsupportedError(
                f"{name} is read along {' and '.join(c.dim for c in along)}",
                expected=f"one index among {', '.join(tiled)}, as it is, or divided by a number ({each}/64), with one "
                f"added or not ({each}/64 + 1): blocks begin at multiples of their size",
                fix=f"compute the index of each block before the call, and read it at {each}/64",
                place=place_of(symbol.owner),
            )
        made = Lookup(name, index, extents)
        paged = name in self.pages
        return replace(made, dim=along[0].dim, block=along[0].divisor, paged=paged) if along else made

    def domains(
        self, contract: Any, tiled: tuple[str, ...], outer: tuple[Dim, ...], masked: Sequence[Any] = ()
    ) -> tuple[Domain, ...]:
        """The ranges that a contraction is restricted to, but those that are `masked`; `tiled` are the dimensions that
        a tile runs along, or its sums.

        Raises:
            UnsupportedError: there are several, or one of another dimension, or for each index of such a one.
        """
        found = tuple(self.domain(x) for x in contract.domains if x not in masked)
        names = [d.name for d in outer]
        for domain in found[:1] if len(found) == 1 else found[1:]:
            wrong = domain.dim not in tiled or not set(domain.groups) <= set(names)
            self.check_apart(domain, contract)
            if not wrong and len(found) == 1:
                continue
            raise UnsupportedError(
                f"{domain.dim} has a range"
                + (f" for each {' and '.join(domain.groups)}" if domain.group else "")
                + (f", and {found[0].dim} too" if len(found) > 1 else ""),
                expected=f"one range in a program, of {' or '.join(tiled)}"
                + (f", for each of {', '.join(names)}" if names else ""),
                fix="write zeros into an operand outside of each range, and sum over all of " + domain.dim
                if domain.dim not in tiled[:2] and domain.group and len(found) == 1
                else "call the program for each range, on views of the tensors",
                place=place_of(contract),
            )
        return found

    def tears_page(self, subset: Any, operand: Operand | None, contract: Any) -> bool:
        """Whether a range may begin within a page of an operand's rows. Tiles that it deals out begin with it, and
        copies bring pages from multiples of their own rows on.

        Raises:
            UnsupportedError: it is one of groups that the result does not tell apart, whose rows threads cannot mask.
        """
        if operand is None:
            return False
        domain = self.domain(subset)
        if not (domain.low if isinstance(domain.low, int) else domain.step) % operand.page:
            return False
        if not domain.follows:
            return True
        raise UnsupportedError(
            f"groups of {domain.dim} begin anywhere, and {operand.name} has pages of {operand.page}",
            expected=f"groups of whole pages, which by {operand.page} behind the range promises",
            fix=f"begin each group with a page of its own, and write by {operand.page}",
            place=place_of(contract),
        )

    def floored(self, subset: Any, page: int) -> Domain:
        """The range that tiles of whole pages cover, of one that may begin within a page."""
        made = self.domain(subset)
        low = made.low // page * page if isinstance(made.low, int) else made.low
        return replace(made, low=low, step=page, floored=1 if isinstance(low, int) else page)

    def check_apart(self, domain: Domain, contract: Any) -> None:
        """Refuses ranges that may overlap where the result does not tell groups apart: it would be summed over them."""
        *_, result = maps_of(contract.maps)
        own = self.results_of(result, list(contract.symbols))
        untold = [g for g in domain.groups if g not in own]
        if not untold or domain.dim not in own or (domain.follows and untold == [domain.group]):
            return
        untold.sort()
        several, group = " and ".join(untold), untold[-1]
        told = ", ".join([*(g for g in domain.groups if g in own), ""])
        raise UnsupportedError(
            f"the ranges of {domain.dim} for each {several} may overlap, and a sum over those that do has no kernel",
            expected=f"off[{told}{group}]:off[{told}{group}+1] of one tensor, or a result with {several}",
            fix=(f"view {several} as one index, and " if len(untold) > 1 else "")
            + "write the bounds into one tensor of offsets",
            place=place_of(contract),
        )

    def domain(self, subset: Any) -> Domain:
        """A range.

        Raises:
            UnsupportedError: its bounds are computed.
        """
        op = subset.owner.opview
        symbols, name = list(op.symbols), ir.StringAttr(op.dim).value
        low, high = (self._bound(map_of(m).results[0], symbols, name, op) for m in (op.lower, op.upper))
        places = [(x,) if isinstance(x, Coord) else x.coords for x in (low, high) if not isinstance(x, int)]
        read = dict.fromkeys(c.dim for some in places for c in some if c.dim)
        attributes = op.operation.attributes
        step, typical = (int_of(attributes[word]) if word in attributes else 0 for word in ("by", "about"))
        # a promise that a number of the program itself does not keep, is none
        step = math.gcd(step, *(x for x in (low, high) if isinstance(x, int))) if step else 1
        every = [
            Domain(name, low, high, group, step, typical, tuple(x for x in read if x != group))
            for group in read or ("",)
        ]
        return next((x for x in every if x.follows), every[0])

    def computed_bound(self, e: Any) -> Coord | None:
        """Where a range ends that ends at an index, `q + 1`; None where no kernel has that: less a number where
        something is divided, as unsigned divisions do not see what is below 0."""
        found = self.coord(e)
        plain = found is not None and (found.offset >= 0 or (found.divisor == 1 and not found.modulus))
        return found if plain else None

    def _bound(self, e: Any, symbols: list[Any], name: str, op: Any) -> Index | Coord | int:
        if isinstance(e, ir.AffineConstantExpr):
            return e.value
        if isinstance(e, ir.AffineSymbolExpr):
            return self.index(symbols[e.position])
        if (place := self.computed_bound(e)) is not None:
            return place
        raise UnsupportedError(
            f"the range of {name} ends at {written(e, self.dims, [self.spelled(x) for x in symbols])}",
            expected="a number, or an element of a tensor of offsets: off[g], off[g+1], or another index: m, m+1, m/2",
            fix="write the bounds into a tensor before the call",
            place=place_of(op),
        )

    def element(self, e: Any) -> Coord | None:
        """The Coord of an index of a tensor of indices: as `coord`, or a number."""
        if isinstance(e, ir.AffineConstantExpr) and e.value >= 0:
            return Coord(offset=e.value)
        return self.coord(e)

    def coord(self, e: Any) -> Coord | None:
        """The Coord of an expression of one dimension, or 0; None where it is none."""
        if isinstance(e, ir.AffineConstantExpr):
            return Coord() if e.value == 0 else None
        if isinstance(e, ir.AffineDimExpr):
            return Coord(self.dims[e.position])
        if not isinstance(e, ir.AffineBinaryExpr) or not isinstance(e.rhs, ir.AffineConstantExpr):
            return None
        inner, by = self.coord(e.lhs), e.rhs.value
        if inner is None:
            return None
        if isinstance(e, ir.AffineAddExpr):
            return replace(inner, offset=inner.offset + by * inner.divisor) if not inner.modulus else None
        if isinstance(e, ir.AffineFloorDivExpr) and not inner.modulus % by:
            return replace(inner, divisor=inner.divisor * by, modulus=inner.modulus // by)
        if isinstance(e, ir.AffineModExpr) and not (inner.modulus and inner.modulus % by and by % inner.modulus):
            return replace(inner, modulus=min(inner.modulus or by, by))
        return None

    def extent_of(self, value: Any, axis: int) -> Dim:
        """The extent of an axis of an argument, which is a dimension."""
        return self._extent(value, axis, self.tensor(value), self.facts("arg_attrs", self.arguments.index(value)))

    def extents_of_result(self, value: Any, index: int, name: str) -> tuple[Dim, ...]:
        """Those of the function's result of this number, which the user calls `name`."""
        return tuple(self.extent_of_result(value, index, name, axis) for axis in range(value.type.rank))

    def extent_of_result(self, value: Any, index: int, name: str, axis: int) -> Dim:
        """That of one of its axes, which is a dimension."""
        return self._extent(value, axis, name, self.facts("res_attrs", index))

    def chance(self, rounds: Any, value: Any, index: int, name: str) -> Chance | None:
        """By what the op that rounds such a result does so, None where it rounds to nearest, or there is none."""
        if rounds is None or not len(rounds.words):
            return None
        words = []
        for op in (x.owner.opview for x in rounds.words):  # elements at numbers
            at = tuple(Coord(offset=ir.AffineConstantExpr(e).value) for e in map_of(op.map).results)
            words.append(Index(self.arguments.index(op.tensor), self.tensor(op.tensor), at))
        return Chance(tuple(words), self.extents_of_result(value, index, name))

    def _extent(self, value: Any, axis: int, name: str, facts: dict[str, Any]) -> Dim:
        e: Any = map_of(facts["scale.shape"]).results[axis] if "scale.shape" in facts else None
        if not isinstance(e, ir.AffineDimExpr):
            extent = "an unknown number of" if e is None else written(e, self.dims)
            raise UnsupportedError(
                f"{name} has {extent} indices along axis {axis}, where one is read from memory",
                expected="a dimension of its own",
                fix=f"index {name} there by a tensor of indices alone",
                place=place_of(value),
            )
        size = None if value.type.is_dynamic_dim(axis) else value.type.get_dim_size(axis)
        return Dim(self.dims[e.position], size, e.position)


def pads(op: Any, dims: Sequence[str]) -> list[int]:
    """To how much of each index of a tensor the scales of an op are padded by group, 0 where groups are not apart."""
    g, apart = GranularityAttr(op.granularity), apart_in(op)
    block, layout = block_of(g), ir.StringAttr(g.layout).value
    block = [1] * (len(dims) - len(block)) + block
    return [padded_to(block, layout, axis) if dim in apart else 0 for axis, dim in enumerate(dims)]


def check_cut(problem: Problem) -> None:
    """Refuses scales and results of which a range may begin or end within a block of scales, or a byte."""
    ragged, (along, block) = problem.ragged, problem.blocks
    if ragged is not None and along:
        raise UnsupportedError(
            f"{ragged.dim} has a range, and {problem.constant_lookups[0].name} changes within",
            expected=f"a range, or an index for each {block} of {along}",
            fix="give each group its index: B[e[g],n,k]",
            place=problem.written,
        )
    cut = ragged.dim if ragged is not None else along
    ends = f"blocks of {block}" if along else "a range"
    for result in problem.results if cut == problem.n.name else ():
        size = math.lcm(result.group, 1 if result.chance is None else DRAWN)
        if block % size if along else size > 1:
            nearest = "" if result.chance is None else ", rounded to nearest"
            raise UnsupportedError(
                f"{cut} has {ends}, and {result.name} has blocks of {size} along it",
                expected=f"a result of whole bytes without scales{nearest}, or one with {problem.n.name} not last",
                fix=f"give {result.name} f32{'' if nearest else ', bf16 or f16'} and quantise it after the call"
                if not result.transformed
                else f"write {result.name} in f32, and transform it after the call",
                place=problem.written,
            )
    check_beginnings(problem)


def check_beginnings(problem: Problem) -> None:
    """Refuses operands that tiles of a range, or of blocks, cannot begin anywhere in: copies, and the rows that one
    instruction multiplies, do not."""
    ragged, (along, block) = problem.ragged, problem.blocks
    cut = ragged.dim if ragged is not None else along
    ends = f"blocks of {block}" if along else "a range"
    begins = problem.begins(cut)
    for operand in (problem.lhs, problem.rhs):
        step = _copied_from(problem, operand)
        if (operand.stored_mn_major or operand.in_words) and operand.rows == cut and begins % step:
            lies = "has words of its rows beside each other" if operand.in_words else "is contiguous along it"
            raise UnsupportedError(
                f"{cut} has {ends}, and {operand.name} {lies}",
                expected=f"{operand.name} contiguous along {problem.k.name}, or tiles that begin at multiples of"
                f" {step}: copies begin at multiples of {problem.target.tma_align} bytes",
                fix=f"store {operand.name} with {problem.k.name} last",
                place=problem.written,
            )
        for scale in operand.promoted if operand.rows == cut else ():
            within = (
                scale.coords[scale.axes[0]].apart or begins % scale.rows == 0 or (along and scale.rows % begins == 0)
            )
            if scale.rows not in (1, WHOLE) and not within:  # an instruction's rows would have two factors
                raise UnsupportedError(
                    f"{cut} has {ends}, and {scale.name} has one scale for each {scale.rows} of {cut}",
                    expected=f"tiles that begin at multiples of that: a range by {scale.rows}, or one for each {cut}",
                    fix=f"say by {scale.rows}, where that is so, or give each row of {operand.name} its scale: "
                    f"1x{PROMOTION_BLOCK}",
                    place=problem.written,
                )


def shifted(problem: Problem) -> Problem:
    """With the operands told of which K blocks begin where groups do, as each has scales of its own, though copies of
    what is contiguous along K cannot: that warps shift (`Operand.shifted`), or put in another order.

    Raises:
        UnsupportedError: with the place of the contraction, of operands that warps cannot shift.
    """
    domain, k = problem.range_of_k, problem.k.name
    if domain is None or not problem.apart(k):
        return problem

    def anywhere(operand: Operand) -> bool:
        return not operand.stored_mn_major and domain.step % _copied_from(problem, operand) != 0

    def read(operand: Operand) -> Operand:
        step = _copied_from(problem, operand)
        if not anywhere(operand):
            return operand
        least = max(1, 8 // operand.stored.bits)
        why = _unshifted(operand)
        if not why and domain.step % least == 0:
            return replace(operand, shifted=True)
        step = step if why else least
        align = problem.target.tma_align
        raise UnsupportedError(
            f"groups of {k} are apart, and {operand.name} is contiguous along it",
            got=f"groups that begin at any {k}"
            if domain.step == 1
            else f"groups that begin at multiples of {domain.step}",
            expected=f"groups that begin at multiples of {step}: "
            + (f"{why}, and copies begin at multiples of {align} bytes" if why else "a byte has several"),
            fix=f"say by {step} apart, where that is so, or leave out apart: one grid of scales for all of {k}",
            place=problem.written,
        )

    sides = (problem.lhs, problem.rhs)
    if all(anywhere(x) for x in sides) and _in_one_order(*sides):
        lhs, rhs = (replace(x, wrapped=True) for x in sides)
        return replace(problem, lhs=lhs, rhs=rhs)
    return replace(problem, lhs=read(problem.lhs), rhs=read(problem.rhs))


def _in_one_order(lhs: Operand, rhs: Operand) -> bool:
    """Whether both operands may have the elements of a K block in another order, the same one: none has scales for
    parts of a block, and none is converted, or has elements of less than a byte."""
    if lhs.element.bits != rhs.element.bits or lhs.element.bits < 8:
        return False
    plain = all(not (x.converted or x.padded) and x.promoted == x.scales for x in (lhs, rhs))
    return plain and all(s.within(PROMOTION_BLOCK) == 1 for x in (lhs, rhs) for s in x.scales)


def _unshifted(operand: Operand) -> str:
    """Why warps cannot shift an operand's rows, "" where they can."""
    reasons = {
        f"copies pad {operand.name} to a byte": operand.padded,
        f"{operand.name} is computed, quantised or reduced on the way": operand.transformed,
        f"{operand.name} is less zero points": operand.zeros is not None,
        f"rows of {operand.name} are named by {operand.gathered or operand.pages}": bool(
            operand.gathered or operand.pages
        ),
        f"an element of {operand.name} becomes one of 8 times its bits": operand.element.bits > 4 * operand.stored.bits,
    }
    return next((why for why, so in reasons.items() if so), "")


def _copied_from(problem: Problem, operand: Operand) -> int:
    """Elements, or words of these, that lie side by side along an operand's rows: copies begin at a multiple of so
    many."""
    bits = WORD_BITS if operand.in_words else operand.stored.bits
    return PADDED_ROW if operand.padded else 8 * problem.target.tma_align // bits
