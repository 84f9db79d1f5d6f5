"""Two dimensions of a call that are walked as one: the rows of [b, s, k] without gaps are those of [1, b * s, k]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalec.abi import Launch, TensorSpec
from scalec.formats import ELEMENT_TYPES
from scalec.runtime import stored
from scalec.runtime.form import Form
from scalec.sizes import MOST

WORDS = 4
"""Neighbours in a row that have random bits of one number (docs/language.md, "Stochastic rounding")."""


def walked(launch: Launch, sizes: Mapping[str, int], forms: Sequence[Form]) -> tuple[dict[str, int], tuple[Form, ...]]:
    """Sizes and forms as the kernel walks them: of each pair of `launch.spans` whose strides allow, `dim` has all
    indices and `other` one.

    Args:
        sizes: of every dimension, none of them 0.
        forms: of all tensors of the call.
    """
    dims, found, again = dict(sizes), list(forms), True
    while again:
        again = False
        for dim, other in launch.spans:
            if dims[other] == 1 or dims[dim] * dims[other] > MOST:
                continue
            for outer in (other, dim):
                if not all(_same_numbers(x, dims, dim, other, outer) for x in launch.numbered):
                    continue
                made = [_as_one(form, dims, dim, other, outer) for form in found]
                if all(made):
                    found = [form for form in made if form is not None]
                    dims[dim], dims[other], again = dims[dim] * dims[other], 1, True
                    break
    return dims, tuple(found)


def _same_numbers(order: Sequence[str], dims: Mapping[str, int], dim: str, other: str, outer: str) -> bool:
    """Whether elements of a result with these dimensions keep the random bits that they have by their places: where all
    indices of the inner one follow on each of `outer`, and rows stay rows, or follow on all that share a number."""
    if dim not in order and other not in order:
        return True
    inner = dim if outer == other else other
    first, last = order.index(outer), order.index(inner)
    if first > last or any(dims[d] > 1 for d in order[first + 1 : last]):
        return False
    return last < len(order) - 1 or (inner == dim and dims[dim] % WORDS == 0)


def _as_one(form: Form, dims: Mapping[str, int], dim: str, other: str, outer: str) -> Form | None:
    """A tensor whose `dim` has the indices of both, all of one for each of `outer`; None where its strides are others,
    or blocks of one index would meet those of the next."""
    t, inner = form.spec, dim if outer == other else other
    axes = {name: [i for i, e in enumerate(t.shape) if name in e.names] for name in (outer, inner)}
    if not any(axes.values()):
        return form
    if any(len(found) != 1 or t.shape[found[0]].terms for found in axes.values()):
        return None
    (far,), (near,) = axes[outer], axes[inner]
    if not _whole(t, far, 1) or not _whole(t, near, dims[inner]):
        return None
    step = form.strides[near]
    if form.shape[near] == 1:  # never walked; libraries put anything there
        step = form.strides[far] if dims[outer] > 1 else step
    elif form.shape[far] > 1 and form.strides[far] != form.shape[near] * step:
        return None
    own, left = (near, far) if inner == dim else (far, near)
    if own == t.contiguous and step != 1:
        return None
    shape, strides = list(form.shape), list(form.strides)
    shape[own], shape[left], strides[own] = form.shape[far] * form.shape[near], 1, step
    return Form.of(t, tuple(shape), tuple(strides))


def _whole(t: TensorSpec, axis: int, size: int) -> bool:
    """Whether so many indices along an axis are whole blocks, whole bytes and whole tiles of scales."""
    bits, packed = ELEMENT_TYPES[t.dtype].bits, axis == t.contiguous
    if t.layout == "blocked":
        if axis >= len(t.shape) - 1:
            return False
        rows = stored.TILE[0] if axis == len(t.shape) - 2 else 1
        return size % (t.shape[axis].divisor * rows) == 0
    return size % t.shape[axis].divisor == 0 and not (packed and bits < 8 and size * bits % 8)
