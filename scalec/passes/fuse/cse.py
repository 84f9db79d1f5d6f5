"""A product that is written twice is computed once."""

from __future__ import annotations

from typing import Any

from scalec.ir.mlir import ir
from scalec.passes.base import programs
from scalec.passes.fuse.indices import access
from scalec.passes.fuse.rewrite import build_map, erase_unused, inline, key, same_view
from scalec.passes.problem.contraction import contractions, sums_of
from scalec.targets import Target


class EliminateCommonSubexpressions:
    """Of contractions and of sums of contractions that are equal, down to the arguments, leaves the first.

    What is computed of them stays as it is: each result has a map of its own. So do equal terms of one sum: it has K
    blocks of each.

        %t = scale.contract(%A, %B)    %c = scale.map(read %t) ({ relu })
        %u = scale.contract(%A, %B)    %d = scale.map(read %u) ({ gelu })
    -->
        %t = scale.contract(%A, %B)    %c = scale.map(read %t) ({ relu })
                                       %d = scale.map(read %t) ({ gelu })
    """

    name = "cse"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            block = function.body.blocks[0]
            first: dict[Any, Any] = {}
            for sums in [sums_of(x) for x in contractions(function)]:
                kept = first.setdefault(_said(sums), sums)
                if key(kept) != key(sums):
                    sums.replace_all_uses_with(kept)
            for op in [op for op in block.operations if op.operation.name == "scale.map"]:
                _read_once(op)
            erase_unused(block)


def _said(value: Any) -> Any:
    """What a value is, equal for equal ones: values of bodies are numbers, in their order."""
    inner: dict[Any, Any] = {}

    def of(value: Any) -> Any:
        if isinstance(value.owner, ir.Block):
            return inner.get(key(value), key(value))
        return inner.get(key(value)) or (value.result_number, said(value.owner))

    def said(op: Any) -> Any:
        attributes = sorted((x, str(op.attributes[x])) for x in op.attributes)
        found = [op.name, *map(of, op.operands), *attributes, *(str(x.type) for x in op.results)]
        for block in (block for region in op.regions for block in region.blocks):
            inner.update({key(x): ("argument", i) for i, x in enumerate(block.arguments)})
            for number, x in enumerate(block.operations):
                found.append(said(x.operation))
                inner.update({key(x): ("body", number, i) for i, x in enumerate(x.operation.results)})
        return tuple(found)

    return of(value)


def _read_once(op: Any) -> None:
    """Gives a map that reads one place twice one view of it."""
    views = list(op.views)
    if any(same_view(x, y) for i, x in enumerate(views) for y in views[:i]):
        with ir.InsertionPoint(op), op.location:
            where, domains = access(op), list(op.domains)
            made = build_map(views, where, domains, op.result.type, lambda given: inline(op, given), like=op)
        op.result.replace_all_uses_with(made.result)
        op.operation.erase()
