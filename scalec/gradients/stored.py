"""Weights of which no gradient's product has a kernel as they are stored, and which no program makes others of: less
zero points, in words of eight, or in another order.

`dA[m,k] = dC[m,n] @ B[n,k]` sums over n, and `B[k/8,n,k%8]` has words of k, whose rows lie beside each other along n.
"""

from __future__ import annotations

from scalec.formats import ELEMENT_TYPES
from scalec.frontend import affine
from scalec.frontend.program import Level, Read, Subtract, Tensor, Value
from scalec.gradients.expressions import below
from scalec.gradients.trace import Trace

LEAST_SCALED, LEAST_LESS = 32, 16
"""Elements along a sum that one scale, and one zero point, must be of at least for a product to have them."""


def check(t: Trace, v: Value, summed: frozenset[str]) -> None:
    """Refuses an operand of a gradient's product, which sums over these, if it is such weights.

    Raises:
        SourceError: it is; the message says what they are, and what to take the gradient of instead.
    """
    inside = [v.values] if isinstance(v, Subtract) else [x for x in below(v) if isinstance(x, Read)]
    for x in inside:
        if not isinstance(v, Subtract) and isinstance(x.source, Tensor) and _scaled_alone(x, summed):
            how = f"is {x.source.element} with scales of no use along {_said(summed)}"
            raise _refused(t, v, x.source.name, how, summed, "i4, or a type of floating point")
        if isinstance(x.source, Tensor) and (how := _otherwise(x.source, x.index, summed)):
            raise _refused(t, v, x.source.name, how, summed, "elements that lie side by side, as those of B[n,k]")
    if not isinstance(v, Subtract):
        return
    tensor = v.values.source
    assert isinstance(tensor, Tensor)
    if not all(of_use(level, v.values.index, summed) for level in tensor.levels or ()):
        what = f"less zero points has scales of no use along {_said(summed)}"
        raise _refused(
            t, v, tensor.name, what, summed, f"scales of {LEAST_SCALED} or more along that, or no zero points"
        )
    if not isinstance(v.zeros, int) and not all(_of_several(v, axis, i, summed) for axis, i in v.at):
        what = f"has a zero point for each few of {_said(summed)}"
        raise _refused(t, v, tensor.name, what, summed, f"zero points of {LEAST_LESS} or more along that, or a number")


def of_use(level: Level, index: tuple[affine.Linear, ...], summed: frozenset[str]) -> bool:
    """Whether scales have blocks along what is summed that a product can promote its sums by, or span it."""
    blocks = [block for block, i in zip(level.block, index, strict=True) if affine.dims(i) & summed]
    return all(block == -1 or block >= LEAST_SCALED for block in blocks)


def _scaled_alone(x: Read, summed: frozenset[str]) -> bool:
    """Whether a tensor would have to be dequantised by a step, and is of a type of operands alone."""
    assert isinstance(x.source, Tensor)
    levels = x.source.levels or ()
    return not ELEMENT_TYPES[x.source.element].result and not all(of_use(y, x.index, summed) for y in levels)


def _otherwise(tensor: Tensor, index: tuple[affine.Linear, ...], summed: frozenset[str]) -> str:
    """How a tensor lies that has no row of elements side by side; "" where it has, and of words of what is summed that
    products read as they are."""
    as_they_are = all(of_use(level, index, summed) for level in tensor.levels or ())
    if tensor.order is not None:
        return f"is stored in another order along {index[-1]}"
    if tensor.words and not (as_they_are and affine.dims(index[-1]) & summed):
        return f"is stored in words of adjacent {index[-1]}"
    return ""


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


def _said(summed: frozenset[str]) -> str:
    return ", ".join(sorted(summed))


def _refused(t: Trace, v: Value, name: str, what: str, summed: frozenset[str], expected: str) -> Exception:
    return t.error(
        v.span,
        f"{name} {what}, and the gradient of what it is multiplied with sums over {_said(summed)}",
        t.source.text[slice(*v.span)],
        expected,
        f"take the gradient of the program with {name} in bf16, and give its steps what {name} stands for, dequantised",
    )
