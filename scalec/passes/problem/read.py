"""From a fused program to a Problem. What no kernel takes is refused here, once, with its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, dims_of_domains, maps_of, ranges_of
from scalec.passes.problem.access import Dim, Domain
from scalec.passes.problem.addends import with_addends
from scalec.passes.problem.bodies import check_bodies, with_inputs
from scalec.passes.problem.column_folds import check_size, check_walked, reduced, uneven
from scalec.passes.problem.contraction import (
    computed_terms,
    contracted,
    contractions,
    sums_of,
    terms_of,
)
from scalec.passes.problem.folds import NOT_YET, check_folds, fold_of
from scalec.passes.problem.fragments import check_fragments
from scalec.passes.problem.gather import check_left_out, check_summed, with_scales_of_rows
from scalec.passes.problem.half_bytes import check_half_bytes
from scalec.passes.problem.lookups import check_cut, shifted
from scalec.passes.problem.operand import Fold, Operand, Product
from scalec.passes.problem.panes import check_alike, check_computed, check_forms, check_left, check_ranges, check_shared
from scalec.passes.problem.products import (
    check_added,
    check_alone,
    check_places,
    check_sums,
    check_terms,
    first_of,
    with_scales_alike,
)
from scalec.passes.problem.read_operand import OperandReader, Side
from scalec.passes.problem.reduced import (
    check_all_points,
    check_known,
    check_reads,
    check_reductions,
    check_written,
    over_of,
    reductions_of,
)
from scalec.passes.problem.result import Result, Term
from scalec.passes.problem.scatter import distance_of
from scalec.passes.problem.sources import below, computation, is_op, reduction_of, where_of
from scalec.passes.problem.spans import with_spans
from scalec.passes.problem.types import ASSUMED, Problem
from scalec.passes.problem.whole_sums import check_depth
from scalec.passes.problem.windows import check_filled, check_told, dim_of, masks
from scalec.passes.problem.words import check_words
from scalec.sizes import MOST
from scalec.targets import MmaShape, Target


class Reader(OperandReader):
    """The walk over one function; each method refuses what it cannot represent. `folded_dim`: the dimension that
    results reduce within a tile, "" where none does."""

    folded_dim = ""

    def problem(self) -> Problem:
        self.check_second_levels()
        sums = self.terms(self.contractions())
        self.contracts = [terms[0] for terms in sums]
        contract = self.contracts[0]
        self.symbols = list(contract.symbols)
        order = self.tile_order(contract, self.roles(contract))
        self.folded_dim = self.column_fold_of(contract, self.roles(contract))
        roles, turned = self.sided(contract, order)
        alike = [x for x in roles["m"] if all(x in self.sided(t, order)[0]["m"] for t in sums[0])]
        roles = roles | {"m": alike or roles["m"]}
        left, right = self.sides(contract, turned)
        m, n, k = self.of_tile(contract, roles, order, left, right)
        groups = [name for name in roles.get("group", ()) if name not in order]
        outer = tuple(self.dim(name, contract) for name in (*groups, *order) if name not in (m.name, n.name))
        summed = tuple(self.dim(name, contract) for name in roles["k"] if name != k.name)
        family, lhs, rhs = self.multiplied(contract, turned, m, n, k)
        folds = self.folds(contract, (rhs, lhs) if turned else (lhs, rhs))
        products = zip(*sums, strict=True)
        across = self.shares_columns(sums)
        if across:
            lhs, m = self.panes(next(products), rhs, lhs, not turned, n, m, k), replace(m, panes=len(sums))
        else:
            rhs = self.panes(next(products), lhs, rhs, turned, m, n, k)
        added = tuple(self.product(x, lhs, rhs, order, m, n) for x in products)
        self.symbols = list(contract.symbols)
        lhs, *others = with_scales_alike((lhs, *(x.lhs for x in added)))
        added = tuple(replace(x, lhs=own) for x, own in zip(added, others, strict=True))
        rhs, *others = with_scales_alike((rhs, *(x.rhs for x in added)))
        added = tuple(replace(x, rhs=own) for x, own in zip(added, others, strict=True))
        if len(sums) > 1:
            n = n if across else replace(n, panes=len(sums))
            check_forms(several := lhs if across else rhs, folds[several.name], self.contracts[1])
        lhs, rhs = (replace(x, folds=folds[x.name]) for x in (lhs, rhs))
        others = tuple(d.name for d in outer), tuple(d.name for d in summed)
        lhs = with_inputs(self, lhs, self.bodies(lhs, left[0]), k.name, *others)
        rhs = with_inputs(self, rhs, self.bodies(rhs, right[0]), k.name, *others)
        maps = [x.final.owner.opview for x in self.written() if is_op(x.final, "scale.map")]
        away = any(x.scatter is not None and distance_of(x.scatter) is not None for x in self.written())
        beside = away or any(dim_of(d) == k.name for d in contract.domains)  # tiles are dealt out by one range
        paged = {x.rows: x for x in (lhs, rhs) if x.pages}

        def torn(domain: Any) -> bool:
            return self.tears_page(domain, paged.get(dim_of(domain)), contract)

        self.masked, begun = [], list[Any]()
        if not self.folded_dim:
            self.masked, begun = masks(contract, maps, self.dims, (m.name, n.name), torn, beside)
        own = self.results_of(maps_of(contract.maps)[2], self.symbols)
        check_told(own, [*map(self.domain, contract.domains)], place_of(contract))
        results, reductions = (read(contract, m, n, outer) for read in (self.results, self.reductions))
        made = Problem(self.target, family, m, n, k, lhs, rhs, place_of(contract), results, reductions=reductions)
        made = replace(made, summed=summed, added=added, terms=self.computed_before(sums, m, n, outer))
        ranged = (m.name, n.name) if summed else (m.name, n.name, k.name)
        domains = uneven(results, outer) if self.folded_dim else self.domains(contract, ranged, outer, self.masked)
        made = replace(made, outer=outer, domains=domains, lookups=self.lookups((m.name, n.name, k.name)))
        made = with_scales_of_rows(shifted(made))
        made = self.from_pages(made, [self.floored(x, paged[dim_of(x)].page) for x in begun])
        check_sums(made)
        check_depth(made)
        for x in made.products:
            check_cut(x)
            check_words(x)
            check_fragments(x, made)
            check_half_bytes(x, made)
            check_folds(x)
            self.check_zero_points(x)
            check_bodies(x)
            check_walked(x)
            check_summed(x)
        check_left_out(made)
        check_reductions(made)
        check_all_points(made)
        check_filled(made)
        return with_spans(self.shared(made), self.function)

    def terms(self, contracts: list[Any]) -> list[list[Any]]:
        """The contractions of each sum: first the one whose operands the others' are like (`first_of`). Those of
        several sums stand in one order, in which they have the same left operands."""

        def length(contract: Any) -> int:
            return math.prod(self.dim(name, contract).tiles(1, ASSUMED) for name in self.roles(contract)["k"])

        by_sum: dict[Any, list[Any]] = {}
        for contract in contracts:
            by_sum.setdefault(ir.Value(sums_of(contract)), []).append(contract)
        found = list(by_sum.values())
        first = first_of(found[0], length, self.target) if len(found[0]) > 1 else found[0][0]
        order = [first, *(x for x in terms_of(first) if x.result != first.result)]
        return [order, *(self.in_order(order, terms) for terms in found[1:])]

    def in_order(self, order: list[Any], terms: list[Any]) -> list[Any]:
        """The terms of a further sum, which have the left operands of those of the first, in their `order`."""
        if len(order) == len(terms) == 1:
            return terms
        left, made = list(terms), []
        for contract in order:
            same = [x for x in left if self.names_of(x)[0] == self.names_of(contract)[0]]
            made += same[:1]
            left = [x for x in left if x.result != same[0].result] if same else left
        check_alone(order, terms, made)
        return made

    def shares_columns(self, sums: list[list[Any]]) -> bool:
        """Whether several contractions have the operand in common that has the result's last index, and no other: what
        they compute is then computed transposed."""
        left, right = (set(x) for x in zip(*(self.names_of(terms[0]) for terms in sums), strict=True))
        return len(sums[0]) == 1 and len(left) > 1 and len(right) == 1

    def names_of(self, contract: Any) -> tuple[str, ...]:
        """What the operands of a contraction are called, the one without the last index of its result first."""
        _, turned = self.sided(contract, self.tile_order(contract, self.roles(contract)))
        return tuple(self.argument(below(x), "an operand")[1] for x, _, _ in self.sides(contract, turned))

    def sided(self, contract: Any, order: list[str]) -> tuple[dict[str, list[str]], bool]:
        """The roles of a contraction's dimensions, and whether M and N are those of its right and left operand, as rows
        of the result are contiguous along N."""
        roles = self.roles(contract)
        turned = bool(order) and order[-1] in roles["m"]
        return (roles | {"m": roles["n"], "n": roles["m"]} if turned else roles), turned

    def product(
        self, contracts: tuple[Any, ...], lhs: Operand, rhs: Operand, order: list[str], m: Dim, n: Dim
    ) -> Product:
        """A product that is added to that of `lhs` and `rhs`: of each sum's one contraction."""
        contract = contracts[0]
        (roles, turned), self.symbols = self.sided(contract, order), list(contract.symbols)
        check_places(m.name, n.name, roles, contract)
        k = self.k_of(contract, roles, *self.sides(contract, turned))
        _, left, right = self.multiplied(contract, turned, m, n, k)
        check_added(lhs, left, contract)
        check_added(rhs, right, contract)
        right = self.panes(contracts, left, right, turned, m, n, k)
        return Product(left, right, k, tuple(self.dim(x, contract) for x in roles["k"] if x != k.name))

    def computed_before(self, sums: list[list[Any]], m: Dim, n: Dim, outer: tuple[Dim, ...]) -> tuple[Term, ...]:
        """What is computed of the contractions of each product before others are added up."""
        name, found = self.written()[0].name, []
        for terms in sums:
            own: dict[int, Result] = {}
            for place, op in computed_terms(terms[0]).items():
                of = contracted(op.result)
                body = self.computed(op, [of.result], maps_of(of.maps)[2], name, m, n, outer)
                made = Result(name, ELEMENT_TYPES["f32"], (m.name, n.name), False, index=place, **body)
                own[[x.result for x in terms].index(of.result)] = made
            found.append(own)
        check_terms([list(own) for own in found], sums)
        return tuple(Term(number, tuple(own[number] for own in found)) for number in found[0])

    def folds(self, contract: Any, operands: tuple[Operand, Operand]) -> dict[str, tuple[Fold, ...]]:
        """By operand, left and right as the program has them, the results that are reductions of it."""
        made = [fold_of(self, index, value, contract, operands) for index, value in self.folded().items()]
        return {x.name: tuple(f for side, f in made if side == i) for i, x in enumerate(operands)}

    def column_fold_of(self, contract: Any, roles: dict[str, list[str]]) -> str:
        """The dimension that results reduce within a tile, "" where none does: of M or N, and of no result."""
        found = [reduced(x.final, contract, self.dims) for x in self.written() if x.reduce is None]
        if not any(found):
            return ""
        names = {"" if x is None else self.dims[x.dim] for x in found}
        name, place = max(names), place_of(contract)
        if len(names) > 1:
            what = " and ".join(sorted(f"over {x}" if x else "over nothing" for x in names))
            raise UnsupportedError(
                f"results of one contraction are reduced {what}",
                expected="all over one index",
                fix="a program for each",
                place=place,
            )
        if name not in (*roles["m"], *roles["n"]):
            raise UnsupportedError(
                f"{name}, over which is reduced, is an index of both operands",
                expected="an index of one operand and the product",
                fix="compute it outside the program",
                place=place,
            )
        check_size(next(x.op for x in found if x), name, self.dim(name, contract).size)
        return name

    def bodies(self, operand: Operand, value: Any) -> list[Any]:
        """The `scale.map`s that compute an operand, of a `value`, and the terms of what it is reduced to."""
        terms = [reduction_of(self.folded()[fold.index]).input for fold in operand.folds]
        own = [computation(value), *(x.owner.opview for x in terms if is_op(x, "scale.map"))]
        return [x for x in own if x is not None]

    @staticmethod
    def sides(contract: Any, turned: bool) -> tuple[Side, Side]:
        """The operands, those of M of the result's rows first."""
        lhs_map, rhs_map, _ = maps_of(contract.maps)
        lhs_map, rhs_map = where_of(contract.lhs, lhs_map), where_of(contract.rhs, rhs_map)
        left, right = (contract.lhs, lhs_map, "left"), (contract.rhs, rhs_map, "right")
        return (right, left) if turned else (left, right)

    def multiplied(self, contract: Any, turned: bool, m: Dim, n: Dim, k: Dim) -> tuple[MmaShape, Operand, Operand]:
        """The instructions of a contraction, and its operands."""
        left, right = self.sides(contract, turned)
        self.symbols = list(contract.symbols)
        family, multiplied = self.multiplied_as(contract, self.target)
        as_what: dict[str, str] = dict(zip(("left", "right"), multiplied, strict=True))
        # promotion: one instruction covers its rows of A and, of a thread's accumulators, columns of B in groups of 8
        lhs = self.operand(*left, m, k, family, (family or self.target.mma[0]).m, as_what[left[2]])
        rhs = self.operand(*right, n, k, family, 8, as_what[right[2]])
        if family is None:
            raise self.no_instruction(lhs, rhs)
        self.check_scales(lhs, rhs, k, family)
        for operand, rows in ((lhs, m), (rhs, n)):
            self.check_rows(operand, rows if operand.mn_major else k)
        return family, lhs, rhs

    def panes(
        self, contracts: tuple[Any, ...], lhs: Operand, rhs: Operand, turned: bool, m: Dim, n: Dim, k: Dim
    ) -> Operand:
        """The right operand `rhs` of the first of several contractions that have one left operand, with the others'."""
        others = [self.pane(x, contracts[0], lhs, rhs, turned, m, n, k) for x in contracts[1:]]
        return replace(rhs, others=tuple(others))

    def pane(self, contract: Any, of: Any, lhs: Operand, rhs: Operand, turned: bool, m: Dim, n: Dim, k: Dim) -> Operand:
        """The right operand of a further contraction, which has the operand `lhs` of the first one, `of`, and one like
        its `rhs`."""
        first, again = (self.sides(x, turned)[0][0] for x in (of, contract))
        one, other = (self.argument(below(x), "the left operand")[1] for x in (first, again))
        check_left(one, other, contract)
        _, mine, other = self.multiplied(contract, turned, m, n, k)
        check_alike(rhs, other, contract)
        check_shared(lhs, mine, contract)
        check_computed(lhs, first == again, contract)
        return other

    def from_pages(self, problem: Problem, ranges: Sequence[Domain]) -> Problem:
        """With tiles that ranges deal out which threads mask too, where such tiles can be; else they are those of all
        rows."""
        own = {at.dim for r in problem.bodies for at in r.coords}
        if not ranges or not set(ranges[0].groups) <= own:
            return problem
        made = replace(problem, domains=(*problem.domains, *ranges))
        try:
            for x in made.products:
                check_cut(x)
        except UnsupportedError:
            return problem
        return made

    def check_zero_points(self, problem: Problem) -> None:
        """Refuses zero points of both operands: behind the end of K copies bring zeros, and their products, of zero
        points, would be summed."""
        sides = [x for x in (problem.lhs, problem.rhs) if x.zeros is not None]
        if len(sides) > 1:
            raise UnsupportedError(
                f"{problem.lhs.name} and {problem.rhs.name} have zero points",
                expected="zero points of one operand",
                fix=f"subtract those of {problem.lhs.name} before the call, and pass it as bf16",
                place=problem.written,
            )

    @staticmethod
    def shared(problem: Problem) -> Problem:
        """With the share that a group has of a dimension that groups share out, or that is a block of lookups."""
        domain, (along, block) = problem.shared_out, problem.blocks
        if (typical := next((d for d in problem.domains if d.typical), None)) is not None:
            m, n, k = (
                replace(d, share=typical.typical) if d.name == typical.dim else d
                for d in (problem.m, problem.n, problem.k)
            )
            return replace(problem, m=m, n=n, k=k)
        if domain is None:
            rows = block * problem.run
            own = [replace(d, share=rows) if d.name == along else d for d in (problem.m, problem.n)]
            return replace(problem, m=own[0], n=own[1])

        def dim(d: Dim) -> Dim:
            groups = next((x.size for x in problem.outer if x.name == domain.group), None)
            size = d.largest if d.name == domain.dim else None
            return d if size is None or not groups else replace(d, share=max(1, -(-size // groups)))

        return replace(problem, m=dim(problem.m), n=dim(problem.n), k=dim(problem.k))

    def of_tile(
        self, contract: Any, roles: dict[str, list[str]], order: list[str], left: Side, right: Side
    ) -> tuple[Dim, Dim, Dim]:
        """The dimensions along M, N and K that a tile has: those along which the result and the operands are
        contiguous; else one with a range, else the largest, of several the last."""

        inner = self.inner(left, right)
        for (value, _, side), name in zip((left, right), inner, strict=True):
            if name in roles["batch"] or (name in roles["n"] and name != order[-1]):
                _, operand, _ = self.argument(below(value), f"the {side} operand")
                raise UnsupportedError(
                    f"{operand} is contiguous along {name}, "
                    + ("a batch dimension" if name in roles["batch"] else f"and the result along {order[-1]}"),
                    expected=f"{operand} contiguous along {' or '.join([*roles['k'], order[-1]])}",
                    fix=f"store {operand} with another index last",
                    place=place_of(below(value)),
                )
        ranges = {ir.StringAttr(x.owner.opview.dim).value for x in contract.domains}
        asked = self.beside_last(left[0], left[1], contract)
        tiled = [x for x in roles["m"] if x in asked] or [x for x in roles["m"] if x in ranges]
        # all rows of a tile have one sum, and one reduction
        over = {self.dims[d] for x in self.written() if x.reduce is not None for d in over_of(x.reduce)}
        lengths = dims_of_domains([x for x in contract.domains if dim_of(x) in over.union(roles["k"])])
        rows = [x for x in roles["m"] if x != self.folded_dim and self.dims.index(x) not in lengths] or roles["m"]
        own = next((x for x in inner[:1] if x in rows), "")
        m = own or self.largest([x for x in tiled if x in rows] or rows, contract)
        k = self.k_of(contract, roles, left, right)
        return self.walked(m, roles["m"], contract), self.walked(order[-1], roles["n"], contract), k

    def inner(self, left: Side, right: Side) -> list[str]:
        """What two operands are contiguous along."""
        return [self.results_of(where, self.symbols)[-1] for _, where, _ in (left, right)]

    def largest(self, names: list[str], contract: Any) -> str:
        """Of some dimensions of a contraction the largest, of several the last."""
        sizes = {name: self.dim(name, contract).tiles(1, ASSUMED) for name in names}
        return max(reversed(names), key=lambda name: sizes[name])

    def k_of(self, contract: Any, roles: dict[str, list[str]], left: Side, right: Side) -> Dim:
        """The dimension along K that a tile has."""
        own = next((x for x in self.inner(left, right) if x in roles["k"]), "")
        return self.dim(own or self.largest(roles["k"], contract), contract)

    def walked(self, name: str, role: list[str], contract: Any) -> Dim:
        """The dimension of a tile, with the one that results reduce where that has the same role."""
        dim, folded = self.dim(name, contract), self.folded_dim
        if folded not in role or name == folded:
            return dim
        made = dim.walking(self.dim(folded, contract))
        if made.size is not None and made.size > MOST:
            raise UnsupportedError(
                f"{name} = {dim.size} and {folded} = {made.inner} are walked as one index of {made.size}",
                expected=f"at most {MOST}: a kernel counts them in 32 bits",
                fix=f"call the program for parts of {name}",
                place=place_of(contract),
            )
        return made

    def beside_last(self, value: Any, where: ir.AffineMap, contract: Any) -> set[str]:
        """The indices that layouts of scales ask a tile's rows to be, of the left operand's and of the result's."""

        def tiled(op: Any) -> bool:
            return ir.StringAttr(GranularityAttr(op.opview.granularity).layout).value != "row"

        asked = set()
        while not isinstance(value.owner, ir.Block) and value.owner.name == "scale.dequantize":
            asked |= set(self.results_of(where, self.symbols)[-2:]) if tiled(value.owner) else set()
            value = value.owner.opview.values
        for written in self.written():
            if written.quantize is not None and tiled(written.quantize.operation):
                asked |= set(self.result_order(contract)[-2:])
        return asked

    def contractions(self) -> list[Any]:
        """Those of the program: one, or several that meet element by element."""
        known = ("contract", "add", "dequantize", "subtract", "map", "read", "hadamard", "quantize", "round", "scatter")
        known = (*(f"scale.{name}" for name in (*known, "index", "domain")), "func.return")
        for x in self.written():
            check_known(x.name, x.final, self.dims)
            check_reads(x.name, x.final, self.dims)
        computed = {reduction_of(value).result for value in self.folded().values()}
        computed |= {op.result for x in self.written() if x.reduce is not None for op in reductions_of(x.final)}
        computed |= {op.result for op in self.column_folds()}
        others = [
            op
            for op in self.block.operations
            if op.operation.name not in known and not (op.operation.name == "scale.reduce" and op.result in computed)
        ]
        if others:
            op, name = others[0], others[0].operation.name
            check_written(op, self.dims)
            what = NOT_YET if name == "scale.reduce" else name
            raise UnsupportedError(
                f"{what} has no kernel on {self.target.name} yet",
                expected="contractions that share an operand, elementwise expressions of them and reductions",
                fix="compute it outside the program",
                place=place_of(op),
            )
        found = contractions(self.function)
        if not found:
            raise UnsupportedError(
                "the program has no contraction",
                expected="one, or several that share an operand",
                fix="compute it without scalec",
                place=place_of(self.function),
            )
        check_ranges(found)
        return found

    def column_folds(self) -> list[Any]:
        """The reductions that results read behind the contraction."""
        found = contractions(self.function)
        one = len({ir.Value(sums_of(x)) for x in found}) == 1
        alone = [x for x in self.written() if x.reduce is None] if one else []
        read = [reduced(x.final, found[0], self.dims) for x in alone]
        return [x.op for x in read if x is not None]

    def roles(self, contract: Any) -> dict[str, list[str]]:
        attributes = contract.operation.attributes
        if "roles" not in attributes:
            raise UnsupportedError(
                "the contraction has no roles", fix="run the pass infer-roles first", place=place_of(contract)
            )
        roles = {entry.name: [ir.StringAttr(a).value for a in entry.attr] for entry in attributes["roles"]}
        for role in ("m", "n", "k"):
            if not roles[role]:
                self.check_named(contract, roles["batch"], self.sides(contract, role == "n")[1])
                raise UnsupportedError(
                    f"the contraction has 0 {role.upper()} dimensions",
                    got="none",
                    expected="one or more",
                    fix="view a vector as a matrix of one row: give it an index that the result has too",
                    place=place_of(contract),
                )
        return roles

    def dim(self, name: str, contract: Any) -> Dim:
        """The dimension and the first static extent that an operand or the result has for it."""
        position, size = self.dims.index(name), None
        for value, where in zip((contract.lhs, contract.rhs, contract.result), maps_of(contract.maps), strict=True):
            for axis, expression in enumerate(where.results):
                bare = isinstance(expression, ir.AffineDimExpr) and expression.position == position
                if bare and size is None and not value.type.is_dynamic_dim(axis):
                    size = value.type.get_dim_size(axis)
        within = ranges_of(self.function).get(name)
        return Dim(name, size, position, max(1, within.high) if within else None)


def read(function: Any, target: Target) -> Problem:
    """Reads a fused program.

    Raises:
        UnsupportedError: it is not a dense two-dimensional contraction that `target` has instructions for.
    """
    return with_addends(Reader(function, target).problem(), Reader(function, target, addends=True).problem)
