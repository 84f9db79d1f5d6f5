"""Sums of exponentials relative to the largest of what they are of: one reduction, which no other has to precede."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.scale import ReduceOp, dims_in, map_of, maps_of
from scalec.passes.base import programs
from scalec.passes.fuse.indices import used
from scalec.passes.fuse.rewrite import erase_unused, key
from scalec.passes.problem.reduced import of_contraction
from scalec.passes.problem.sources import is_op
from scalec.targets import Target


class SumExponentials:
    """A sum over an index of exp(x - M), where M is the max of x over the same index and x is computed of a
    contraction, becomes a reduction of x: `sum_exp`.

    The max of a row is known when the row's last tile is, and the sum would need all of the row again. But with
    exp(x - N) for the largest N that is known so far, a sum becomes that of another N by one factor. So a tile has the
    largest of its own and the sum beside it, and tiles that meet have those of all.

        %m = scale.reduce(%x) {kind = "max"}
        %e = scale.map(<reads of %x>, read %m) ({ ^(..., %a, %b): %c = subf %a, %b; %d = exp %c; yield %d })
        %s = scale.reduce(%e) {kind = "sum"}
    -->
        %s = scale.reduce(%x) {kind = "sum_exp"}

    x stands in the map as the value that is computed of the same views by the same ops. The max stays where something
    else reads it.
    """

    name = "sum-exponentials"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            block = function.body.blocks[0]
            for op in [op for op in block.operations if op.operation.name == "scale.reduce"]:
                if (largest := largest_of(op)) is None:
                    continue
                with ir.InsertionPoint(op), op.location:
                    kind, same = ir.StringAttr.get("sum_exp"), (list(op.symbols), list(op.domains))
                    made = ReduceOp(largest.input, *same, op.result.type, op.maps, kind)
                op.result.replace_all_uses_with(made.result)
            erase_unused(block)


def largest_of(op: Any) -> Any:
    """The `scale.reduce` of the largest x, where an op sums exp(x - that) over the same index, at the same points; else
    None."""
    if _kind(op) != "sum" or not is_op(op.input, "scale.map"):
        return None
    body = op.input.owner.opview
    exp = _yielded(body).owner
    sub = exp.operands[0].owner if not isinstance(exp, ir.Block) and exp.name == "math.exp" else None
    if sub is None or isinstance(sub, ir.Block) or sub.name != "arith.subf":
        return None
    x, y = sub.operands
    if not isinstance(y.owner, ir.Block):
        return None
    view = body.views[y.arg_number].owner.opview
    if not is_op(view.source, "scale.reduce"):
        return None
    largest = view.source.owner.opview
    places = [[_at(of, where) for where in maps_of(of.maps)] for of in (op, largest)]
    alike = _kind(largest) == "max" and of_contraction(largest) and places[0] == places[1]
    alike = alike and _at(view, map_of(view.map)) == places[0][1] and _at(body, map_of(body.map)) == places[0][0]
    alike = alike and _ranges(op) == _ranges(largest)
    return largest if alike and _computed(x, body) in _terms(largest) else None


def _kind(op: Any) -> str:
    return ir.StringAttr(op.kind).value


def _yielded(op: Any) -> Any:
    """What the body of a map yields."""
    *_, last = op.body.blocks[0].operations
    return last.operation.operands[0]


def _at(op: Any, where: ir.AffineMap) -> tuple[Any, ...]:
    """Where an op reads or writes, by a map over its symbols: equal for equal places."""
    (mine,), symbols = used([where], op.symbols)
    return str(mine), *map(key, symbols)


def _ranges(op: Any) -> set[Any]:
    """The ranges of a reduction, and of the points of its terms."""
    return {*map(key, op.domains), *_ranges_of(op.input)}


def _ranges_of(value: Any) -> set[Any]:
    """The ranges of the points of a product, of a sum of products, or of what a map computes."""
    op = value.owner.opview
    if is_op(value, "scale.add"):
        return {x for term in op.terms for x in _ranges_of(term)}
    if not is_op(value, "scale.contract"):
        return set(map(key, op.domains)) if is_op(value, "scale.map") else set()
    names = [ir.StringAttr(x).value for x in op.operation.parent.opview.operation.attributes["scale.dims"]]
    points = {names[d] for d in dims_in(maps_of(op.maps)[2])}  # those of K are the sum's
    return {key(x) for x in op.domains if ir.StringAttr(x.owner.opview.dim).value in points}


def _terms(op: Any) -> list[Any]:
    """What a reduction is of, as `_computed` says it: the value itself, and how a map computes that."""
    where = _at(op, maps_of(op.maps)[0])
    source = op.input.owner.opview if is_op(op.input, "scale.map") else None
    own = [] if source is None or _at(source, map_of(source.map)) != where else [_computed(_yielded(source), source)]
    return [(key(op.input), where), *own]


def _computed(value: Any, op: Any) -> Any:
    """How the body of a map computes a value: equal for equal ones of other maps."""
    if isinstance(value.owner, ir.Block):
        view = op.views[value.arg_number].owner.opview
        return key(view.source), _at(view, map_of(view.map))
    attributes = sorted((x, str(value.owner.attributes[x])) for x in value.owner.attributes)
    return value.owner.name, str(attributes), *(_computed(x, op) for x in value.owner.operands)
