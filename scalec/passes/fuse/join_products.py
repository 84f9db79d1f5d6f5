"""Products that are added to each other become one sum."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.scale import AddOp, dims_in, dims_read, map_of, maps_of
from scalec.passes.base import programs
from scalec.passes.fuse.indices import access
from scalec.passes.fuse.ranges import readers
from scalec.passes.fuse.rewrite import build_map, erase_unused, inline, key, read
from scalec.passes.problem.contraction import contractions
from scalec.passes.problem.sources import below
from scalec.targets import Target


class JoinProducts:
    """Adds up contractions before a map reads them: one accumulator then sums the terms of all of them.

    So it is where every map that reads one of them adds it to the others, at its own points, and uses it nowhere else;
    what else is added may stand between. Contractions of one left operand (of the two the one without the last index
    of what the map computes) stay as they are: their right operands lie side by side in a tile.

        %t = scale.contract(%A, %B)
        %u = scale.contract(%D, %E)
        %c = scale.map(read %t, read %u, read %bias) ({ ^(%x, %y, %z): %v = addf %x, %y; %w = addf %v, %z; yield %w })
    -->
        %t = scale.contract(%A, %B)
        %u = scale.contract(%D, %E)
        %s = scale.add(%t, %u)
        %c = scale.map(read %s, read %bias) ({ ^(%x, %z): %w = addf %x, %z; yield %w })
    """

    name = "join-products"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            found: dict[tuple[Any, ...], list[Any]] = {}
            for contract in contractions(function):
                if roots := _roots(contract):
                    found.setdefault(roots, []).append(contract)
            for terms in found.values():
                if len(set(map(_left, terms))) > 1:
                    _join(terms)
            erase_unused(function.body.blocks[0])


def _roots(contract: Any) -> tuple[Any, ...]:
    """The sums that a contraction is a term of, one of each map that reads it; none where something else uses it."""
    found = []
    for op in readers(contract, alone=True):
        position = [view.owner.opview.source for view in op.views].index(contract.result)
        value, root = op.body.blocks[0].arguments[position], None
        while len(uses := list(value.uses)) == 1 and uses[0].owner.name == "arith.addf":
            root = value = uses[0].owner.result
        if root is None:
            return ()
        found.append(key(root))
    return tuple(found)


def _left(contract: Any) -> tuple[Any, str]:
    """The operand without the last index of what a map computes of a contraction, and where it is read."""
    at = map_of(readers(contract)[0].map)
    last = dims_in(ir.AffineMap.get(at.n_dims, at.n_symbols, [at.results[-1]]))
    pairs = list(zip((contract.lhs, contract.rhs), maps_of(contract.maps), strict=False))
    value, where = next((x for x in pairs if not last & dims_read(x[1], list(contract.symbols))), pairs[0])
    return key(below(value)), str(where)


def _join(terms: list[Any]) -> None:
    """One sum of contractions, behind the last one, in the maps that read them."""
    values = [key(x.result) for x in terms]
    with ir.InsertionPoint.after(terms[-1]), terms[-1].location:
        total = AddOp([x.result for x in terms], terms[0].result.type).result
    for op in readers(terms[0]):
        mine = [key(view.owner.opview.source) in values for view in op.views]
        first = mine.index(True)
        kept = [i for i in range(len(mine)) if i == first or not mine[i]]
        with ir.InsertionPoint(op), op.location:
            views = list(op.views)
            at = views[first].owner.opview
            views[first] = read(total, map_of(at.map), list(at.symbols))

            def body(given: list[Any], op: Any = op, kept: list[int] = kept) -> Any:
                left = dict(zip(kept, given, strict=True))
                return inline(op, [left.get(i) for i in range(len(op.views))])

            made = build_map([views[i] for i in kept], access(op), list(op.domains), op.result.type, body, like=op)
        op.result.replace_all_uses_with(made.result)
        op.operation.erase()
