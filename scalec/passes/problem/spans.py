"""Which dimensions of a contraction a launch may walk as one, where strides allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from scalec.formats import WORDS
from scalec.ir.mlir import ir
from scalec.ir.scale import axis_and_block, dims_in, map_of, program_dims
from scalec.passes.problem.types import Problem


def with_spans(problem: Problem, function: ir.OpView) -> Problem:
    """With pairs of a dimension along which tiles run and another one of its role, of which a tile has one index: M of
    C[b,s,n] = A[b,s,k] @ W[n,k] is (s, b). Whatever is only a choice is made for all of their indices as one.

    The program must be the same for one index of both: each tensor has both or neither, beside each other and each as
    an index of its own, and nothing asks for the size or a range of one. A call says both sizes: it may say others.
    Those that are not beside each other can be so in the memory of permuted tensors: a call may walk them as one."""
    dims, ops = program_dims(function), list(function.body.blocks[0].operations)
    alone = not (problem.outer or problem.summed)
    if alone or any(op.operation.name == "scale.hadamard" for op in ops):  # of adjacent columns
        return problem
    maps = [m for op in ops for m in _maps(op)]
    fixed = {dims.index(ir.StringAttr(op.attributes["dim"]).value) for op in ops if "dim" in op.attributes}
    fixed |= {d for op in ops for d in _ordered(op, function)}
    memory, made = [], problem
    given = function.attributes
    for facts in (x for key in ("arg_attrs", "res_attrs") if key in given for x in given[key]):
        if "scale.of" in facts:  # a part, which begins where sizes say
            fixed |= {d for name in ("scale.shape", "scale.first") for d in dims_in(map_of(facts[name]))}
        if "scale.layout" in facts and ir.StringAttr(facts["scale.layout"]).value == WORDS:
            fixed |= dims_in(map_of(facts["scale.shape"]))  # whose words lie between two of its indices
        if "scale.order" in facts:
            fixed |= _read(map_of(facts["scale.shape"]))[-1]  # of which each eight are whole
        if "scale.shape" in facts:
            memory.append(_axes(facts))
    for role, others in (("m", "outer"), ("n", "outer"), ("k", "summed")):
        for other in reversed(getattr(problem, others)):
            d = getattr(made, role)
            pair = dims.index(d.name), dims.index(other.name)
            known = d.size is not None or other.size is not None or d.inner > 1 or fixed & set(pair)
            if known or (role == "k" and problem.added) or not all(_together(m, *pair) for m in maps):
                continue
            apart = {_beside(axes, *pair) for axes in memory} - {0}
            if None in apart:
                continue
            if apart not in ({1}, {-1}):  # with m between b and k of A[b,m,k], for one
                if d.most is other.most is None:
                    made = replace(made, permuted_spans=(*made.permuted_spans, (d.name, other.name)))
                continue
            memory = [[x for x in axes if pair[1] not in x] for axes in memory]
            most = d.most * other.most if d.most and other.most else None
            left = tuple(replace(x, most=1) if x.name == other.name else x for x in getattr(made, others))
            spans = (*made.spans, (d.name, other.name))
            made = replace(made, spans=spans, **{role: replace(d, most=most), others: left})
    return made


def _ordered(op: Any, function: ir.OpView) -> set[int]:
    """The dimensions along which zero points lie in another order than one behind the other."""
    if op.operation.name != "scale.subtract" or not len(op.zeros):
        return set()
    facts = function.attributes["arg_attrs"][ir.BlockArgument(op.values).arg_number]
    axes, m = _read(map_of(facts["scale.shape"])), map_of(op.operation.attributes["map"])
    other = [read for read, e in zip(_read(m), m.results, strict=True) if axis_and_block(e) is None]
    return {d for read in other for axis in read for d in axes[axis]}


def _maps(op: Any) -> Iterator[ir.AffineMap]:
    attributes = op.operation.attributes
    for found in (attributes[name] for name in attributes):
        for a in found if isinstance(found, ir.ArrayAttr) else [found]:
            if isinstance(a, ir.AffineMapAttr):
                yield map_of(a)


def _read(m: ir.AffineMap) -> list[set[int]]:
    """The dimensions that each result of a map reads."""
    return [dims_in(ir.AffineMap.get(m.n_dims, m.n_symbols, [e])) for e in m.results]


def _together(m: ir.AffineMap, *pair: int) -> bool:
    """Whether a map has both dimensions as indices of their own, or neither."""
    plain = [e.position if isinstance(e, ir.AffineDimExpr) else None for e in m.results]
    return {(sum(d in x for x in _read(m)), plain.count(d)) for d in pair} in ({(0, 0)}, {(1, 1)})


def _axes(facts: Any) -> list[set[int]]:
    """The dimensions of each axis of a tensor, outermost in memory first."""
    axes = _read(map_of(facts["scale.shape"]))
    if "scale.layout" in facts and ir.StringAttr(facts["scale.layout"]).value in ("col", "packed"):
        axes[-2:] = reversed(axes[-2:])
    return axes


def _beside(axes: list[set[int]], *pair: int) -> int | None:
    """How far apart two dimensions are, 0 where there is neither, None where there is one."""
    first, other = ([i for i, x in enumerate(axes) if d in x] for d in pair)
    return first[0] - other[0] if first and other else None if first or other else 0
