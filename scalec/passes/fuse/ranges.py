"""Ragged ranges: which of them a contraction, the maps that read it and a scatter behind these have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.scale import ContractOp, ScatterOp, dims_in, dims_of_domains, dims_read, map_of, maps_of, program_dims
from scalec.passes.fuse.indices import access, used
from scalec.passes.fuse.rewrite import build_map, inline
from scalec.passes.problem.sources import before_transform, is_op


def kept(contract: Any) -> list[Any]:
    """The ranges of a contraction over dimensions that its result has: they say which points are written."""
    where = dims_in(maps_of(contract.maps)[2])
    return [d for d in contract.domains if _dim(d) in where]


def tied(contract: Any) -> set[int]:
    """Dimensions that a point of the result has one index of, though its map has none: g, for m in off[g]:off[g+1].

    Both ends must depend on the dimension: an m < rows[g] lies in several g.
    """
    found: set[int] = set()
    for domain in kept(contract):
        op = domain.owner.opview
        lower, upper = (dims_read(map_of(bound), list(op.symbols)) for bound in (op.lower, op.upper))
        found |= lower & upper
    return found


def union(one: Sequence[Any], other: Sequence[Any]) -> list[Any] | None:
    """The ranges of both, each once; None where two different ones are over one dimension."""
    mine = list(one)
    both = [*mine, *(d for d in other if d not in mine)]
    return both if len({_dim(d) for d in both}) == len(both) else None


def carry(contract: Any) -> None:
    """Gives the ranges of a contraction's points to the maps that read it there: what they compute ends there too."""
    mine = kept(contract)
    for op in readers(contract) if mine else ():
        domains = union(op.domains, mine)
        if domains is None or len(domains) == len(op.domains):
            continue
        with ir.InsertionPoint(op), op.location:
            made = build_map(
                list(op.views), access(op), domains, op.result.type, lambda values, op=op: inline(op, values), like=op
            )
        op.result.replace_all_uses_with(made.result)
        op.operation.erase()


def narrow(contract: Any) -> None:
    """Gives a contraction the ranges that every map which reads it has: the other points have no reader.

    Ranges whose ends depend on dimensions that the result has not stay away: the contraction would sum over these.
    """
    found = readers(contract, alone=True)
    where = dims_in(maps_of(contract.maps)[2])
    common = [d for d in found[0].domains if all(d in list(r.domains) for r in found)] if found else []
    common = [d for d in common if _dim(d) in where and dims_of_domains([d]) <= where]
    order = [op.operation for op in contract.operation.block.operations]
    above = order[: order.index(contract.operation)]  # all but those whose ends the program computes
    common = [d for d in common if d.owner.operation in above]
    domains = union(contract.domains, common)
    if domains is None or len(domains) == len(contract.domains):
        return
    with ir.InsertionPoint(contract), contract.location:
        made = ContractOp(
            contract.lhs, contract.rhs, list(contract.symbols), domains, contract.result.type, contract.maps
        )
    if "roles" in contract.operation.attributes:
        made.operation.attributes["roles"] = contract.operation.attributes["roles"]
    contract.result.replace_all_uses_with(made.result)
    contract.operation.erase()


def carry_to_scatter(scatter: Any) -> None:
    """Gives a scatter the ranges of the map whose points it moves."""
    source, _ = before_transform(scatter.input)
    if not is_op(source, "scale.map"):
        return
    op, maps = source.owner.opview, maps_of(scatter.maps)
    domains = union(scatter.domains, op.domains)
    same = used([maps[0]], scatter.symbols) == ([map_of(op.map)], [])
    if not same or "otherwise" in op.operation.attributes or domains is None or len(domains) == len(scatter.domains):
        return
    with ir.InsertionPoint(scatter), scatter.location:
        made = ScatterOp(scatter.input, list(scatter.symbols), domains, scatter.result.type, scatter.maps)
    scatter.result.replace_all_uses_with(made.result)
    scatter.operation.erase()


def readers(contract: Any, alone: bool = False) -> list[Any]:
    """The maps that read a contraction at its own points; `alone`: none where something else reads it too."""
    (where,), symbols = used([maps_of(contract.maps)[2]], contract.symbols)
    found: list[Any] = []
    for use in contract.result.uses:
        view = use.owner.operation
        uses = [u.owner.operation for r in view.results for u in r.uses]
        if view.name == "scale.read" and access(view.opview) == (where, symbols):
            found += [u.opview for u in uses if u.name == "scale.map" and u.opview not in found]
            uses = [u for u in uses if u.name != "scale.map"]
        if alone and (uses or view.name != "scale.read" or access(view.opview) != (where, symbols)):
            return []
    return found


def _dim(domain: Any) -> int:
    """The position of the dimension that a range is over."""
    op = domain.owner.opview
    return program_dims(op).index(ir.StringAttr(op.dim).value)
