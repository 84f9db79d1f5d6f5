"""Weights of 4 bits that a gradient's product reads as they are stored, and others, which a step dequantises before:
less zero points, in words of eight, or in another order.

`dA[m,k] = dC[m,n] @ B[n,k]` sums over n, and `B[k/8,n,k%8]` has words of k, whose rows lie beside each other along n.
"""

from __future__ import annotations

from scalec.frontend import affine
from scalec.frontend.program import Level, Subtract, Tensor

LEAST_SCALED, LEAST_LESS = 32, 16
"""Elements along a sum that one scale, and one zero point, must be of at least for a product to have them."""


def less_as_it_is(v: Subtract, summed: frozenset[str]) -> bool:
    """Whether integers less zero points are an operand of a product over these."""
    tensor = v.values.source
    assert isinstance(tensor, Tensor)
    several = isinstance(v.zeros, int) or all(_of_several(v, axis, i, summed) for axis, i in v.at)
    return several and as_it_is(tensor, v.values.index, summed)


def as_it_is(tensor: Tensor, index: tuple[affine.Linear, ...], summed: frozenset[str]) -> bool:
    """Whether a tensor is an operand of a product over these: in rows, or in words of what is summed, with scales that
    are of use along that."""
    in_words = tensor.words and not affine.dims(index[-1]) & summed
    return all(of_use(level, index, summed) for level in tensor.levels or ()) and not in_words and tensor.order is None


def of_use(level: Level, index: tuple[affine.Linear, ...], summed: frozenset[str]) -> bool:
    """Whether scales have blocks along what is summed that a product can promote its sums by, or span it."""
    blocks = [block for block, i in zip(level.block, index, strict=True) if affine.dims(i) & summed]
    return all(block == -1 or block >= LEAST_SCALED for block in blocks)


def _of_several(v: Subtract, axis: int, i: affine.Linear, summed: frozenset[str]) -> bool:
    """Whether zero points along an axis of an operand are the same for several of what is summed."""
    if not affine.dims(v.values.index[axis]) & summed:
        return True
    return all(_is_divided(x) for x, _ in i.terms)


def _is_divided(x: affine.Atom) -> bool:
    """Whether a term of an index is the same for as many as zero points must be of."""
    if isinstance(x, affine.Quotient) and x.divisor >= LEAST_LESS:
        return True
    return isinstance(x, affine.Quotient | affine.Remainder) and all(_is_divided(y) for y, _ in x.value.terms)
