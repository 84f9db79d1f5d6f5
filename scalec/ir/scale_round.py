"""Ops of `scale` that whole results go through: rounded in blocks with scales of their own, by chance, transformed."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.formats import MOST_WORDS, QUANTISED, WHOLE
from scalec.ir.mlir import ext, ir
from scalec.ir.scale import (
    GranularityAttr,
    Scale,
    SubsetType,
    SymbolType,
    block_of,
    check_block,
    element,
    map_of,
    maps_of,
    rank,
)
from scalec.ir.verify import refuse, verifier


class QuantizeOp(Scale.Operation, name="quantize"):
    """(values, scales) = input, in f32, quantised to blocks of `granularity`: a result, or an operand.

    A block's scale is amax / max(element), rounded to its type: ue8m0 by the OCP MX rule 2^(floor(log2 amax) -
    emax(element)); f32 at least 2^-126, and 1 for zeros. A value is rounded from the product of the input and
    the scale's reciprocal, both f32; that of a scale of 0 (ue4m3) is 0.

    `outer`, if it is there, is the scale of the whole tensor, f32. Its reciprocal, rounded to f32 and within +-2^118,
    multiplies amax by its magnitude before the scale is found, and the reciprocal of the block's scale after, each
    product rounded to f32, the latter to the largest finite number at most.

    With `largest`, an f32 for each block, amax is the magnitude of that. It has one index for each that blocks do not
    span.

    With `words` values are rounded up or down by chance, as those of `scale.round` are. `apart` is that of
    `scale.dequantize`: along such a dimension a group's blocks are its own, and scales lie as are those of operands.
    """

    input: ext.Operand[Any]
    outer: Sequence[ext.Operand[Any]]
    words: Sequence[ext.Operand[SymbolType]]
    largest: Sequence[ext.Operand[Any]]
    values: ext.Result[Any]
    scales: ext.Result[Any]
    granularity: GranularityAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        if rank(op.input) != rank(op.values):
            refuse(f"values have rank {rank(op.values)}, expected {rank(op.input)} (the input's)")
        one = f"tensor<{'1x' * rank(op.input)}f32>"
        wrong = [str(x.type) for x in op.outer if str(x.type) != one]
        if wrong or len(op.outer) > 1:
            found = f"is {', '.join(wrong)}" if wrong else f"has {len(op.outer)} values"
            refuse(f"the whole tensor's scale {found}, expected one {one}")
        own = max(1, sum(x != WHOLE for x in block_of(op.granularity)))
        if len(op.largest) > 1 or any(rank(x) != own or str(element(x.type)) != "f32" for x in op.largest):
            found = ", ".join(str(x.type) for x in op.largest)
            refuse(f"largest magnitudes are {found}, expected one f32 tensor of rank {own}")
        _check_words(op)
        check_block(op, op.granularity, rank(op.input))


class RoundOp(Scale.Operation, name="round"):
    """result = input, in f32, rounded to the result's element type: to nearest, or with `words` up with the probability
    of how far along the way from the number below to the one above it lies, by bits of Philox 4x32-10.

    `words` are the two of its key and the upper two of its counter, each one number for all elements; those left out
    are 0. docs/language.md says which bits an element has, and how they round it.
    """

    input: ext.Operand[Any]
    words: Sequence[ext.Operand[SymbolType]]
    result: ext.Result[Any]

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        if str(element(op.input.type)) != "f32" or rank(op.input) != rank(op.result) or not rank(op.input):
            refuse(f"rounds {op.input.type} to {op.result.type}, expected an f32 tensor and one of its rank")
        _check_words(op)


class LayOp(Scale.Operation, name="lay"):
    """result = input, scales in another layout: `kinds` are the blocks, types and layouts of both, and `maps` say
    where what they scale is at a point. A dimension has one block in both.

    Nothing is rounded: a number that the result's type has not, is NaN there. A result is f32, or of 8 bits. Points
    outside a domain, and those whose symbols are negative, are not written. Along a dimension that has a domain whose
    groups are `apart` both lie as DequantizeOp says, where a map has it as it is.
    """

    input: ext.Operand[Any]
    symbols: Sequence[ext.Operand[SymbolType]]
    domains: Sequence[ext.Operand[SubsetType]]
    result: ext.Result[Any]
    maps: ir.ArrayAttr
    kinds: ir.ArrayAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        source, target = maps_of(op.maps)
        sizes: dict[int, int] = {}
        for x, m, kind in zip((op.input, op.result), (source, target), op.kinds, strict=True):
            g = GranularityAttr(kind)
            if rank(x) != len(m.results) or len(block_of(g)) != rank(x) or min(block_of(g), default=1) < 1:
                refuse(f"has a map of {len(m.results)} results and {g} for {x.type}, expected one an index")
            if m.n_symbols != len(op.symbols):
                refuse(f"has {len(op.symbols)} symbols and a map of {m.n_symbols}, expected as many")
            if not all(isinstance(e, ir.AffineDimExpr | ir.AffineSymbolExpr) for e in m.results):
                refuse(f"reads or writes at {m}, expected dimensions, and what is read from memory")
            for e, size in zip(m.results, block_of(g), strict=True):
                if isinstance(e, ir.AffineDimExpr) and sizes.setdefault(e.position, size) != size:
                    refuse(f"has one scale for {size} of dimension {e.position} and for {sizes[e.position]}")
        to = ir.StringAttr(GranularityAttr(op.kinds[1]).type).value
        if to not in QUANTISED:
            refuse(f"makes scales of {to}, expected {', '.join(QUANTISED)}")


class HadamardOp(Scale.Operation, name="hadamard"):
    """result = input times H/4, in f32, along the last index: H has (-1)^(bits that i and j have in common) at i, j.

    Of 16 elements together, by four rounds that each put a + b and a - b in place of elements a and b that lie 1, then
    2, 4 and 8 apart, and a product with 1/4. Where an index ends within 16, the rest counts as 0, and is not written.
    """

    input: ext.Operand[Any]
    result: ext.Result[Any]

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        if op.input.type != op.result.type or str(element(op.input.type)) != "f32" or not rank(op.input):
            refuse(f"transforms {op.input.type} to {op.result.type}, expected one f32 tensor type")


def _check_words(op: ir.OpView) -> None:
    """What random bits are made of is the same for all elements."""
    if len(op.words) > MOST_WORDS:
        refuse(f"has {len(op.words)} words, expected {MOST_WORDS} at most")
    varying = [i for i, x in enumerate(op.words) if _varies(x)]
    if varying:
        refuse(f"word {varying[0]} differs from point to point, expected one number for all")


def _varies(word: ir.Value) -> bool:
    if isinstance(word.owner, ir.Block) or word.owner.name != "scale.index":
        return True
    index = word.owner.opview
    return any(not isinstance(e, ir.AffineConstantExpr) for e in map_of(index.map).results)
