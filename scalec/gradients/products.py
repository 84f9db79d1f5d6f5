"""The gradient of a contraction: what its two operands get, each a contraction with the other one.

    C[m,n] = A[m,k] @ B[n,k]     dA[m,k] = dC[m,n] @ B[n,k]     dB[n,k] = dC[m,n] @ A[m,k]

The roles of indices change places: what was M or N is summed. So a range over M becomes one over K, and what a group is
read by (`g` of `B[g,n,k]`) one of the gradient's own indices. Factors that neither operand's gradient sums over
(numbers, scalars, those of a batch or a group) multiply behind; all others are multiplied into dC first, once for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scalec.formats import ELEMENT_TYPES, WHOLE, Granularity
from scalec.frontend import affine
from scalec.frontend.affine import of_dims
from scalec.frontend.program import (
    POINT,
    Contract,
    Level,
    Quantized,
    Range,
    Read,
    Rounded,
    Statement,
    Subtract,
    Tensor,
    Value,
)
from scalec.gradients import stored
from scalec.gradients.expressions import NOWHERE, below, bounds, factors, group_of, product, read, rewritten, times
from scalec.gradients.places import by_group, signs
from scalec.gradients.text import Writer, in_order
from scalec.gradients.trace import FLOATS, Trace, order_of


@dataclass(frozen=True)
class Passed:
    """What an operand of a contraction gets: one gradient at each point of `space`, within `ranges`."""

    to: Value
    adjoint: Value
    space: frozenset[str]
    ranges: tuple[Range, ...] = ()


def back(t: Trace, c: Contract, adjoint: Value, s: Statement) -> Iterator[Passed]:
    """What the gradient `adjoint` of a contraction of statement `s` passes on to its operands."""
    common, multiplied_in = _split(t, c, adjoint)
    for mine, other in ((c.left, c.right), (c.right, c.left)):
        if not t.needed(mine):
            continue
        if isinstance(mine, Quantized):
            _check_through(t, mine)
            mine = mine.value
        core, behind = multiplied_in, product(common)
        if not core:  # nothing but a batch is left: dC[b] * B[b,k]
            yield Passed(mine, times(behind, _operand(t, other, frozenset(), multiplied(c))), mine.dims | c.dims)
            continue
        over = (_dims(core) & other.dims) - mine.dims
        grouped = None if over else _grouped(t, mine, other, core)  # rows alone are put back where they were read
        target, own = (mine, ()) if grouped is None else (grouped[0], (grouped[1],))
        if grouped is not None:
            core, behind = _of_groups(mine, grouped[0], common, core)  # pyright: ignore[reportArgumentType]
        dims = target.dims | t.linked(other.dims, own) & target.dims
        summed = (_dims(core) & other.dims) - dims
        t.all_there(c, c.dims - dims - t.linked(dims, own), _dims(core))
        if summed and not _matrices(_dims(core), other, dims):
            made = times(
                behind, product(core), _operand(t, other, frozenset(), multiplied(c))
            )  # no product has a vector: a sum
            yield Passed(target, made, frozenset(dims | summed), own)
            continue
        t.hadamard = _transformed(t, summed, own) if mine is c.right else 0
        windows = _windows(t, _dims(core), other.dims, dims)
        gradient = _gradient(t, c, core, summed, s, windows)
        second = _operand(t, other, summed, multiplied(c))
        if summed:
            batch = gradient.dims & second.dims & dims
            gradient, second = (_begun(t, x, dims, batch, own) for x in (gradient, second))
            pair = (gradient, second) if _first(target, dims, gradient, second) else (second, gradient)
            made: Value = Contract(NOWHERE, frozenset(dims), *pair)
        else:
            made = times(gradient, second)
        yield Passed(target, times(behind, made), frozenset(dims), own)


def _matrices(one: frozenset[str], second: Value, dims: frozenset[str]) -> bool:
    """Whether each operand of a product has a dimension of the result that the other one has not; one that the second
    has by way of memory, as m of B[e[m/128],n,k], may be the first one's."""
    return bool((one - _direct(second)) & dims) and bool((second.dims - one) & dims)


def _transformed(t: Trace, summed: frozenset[str], own: tuple[Range, ...]) -> int:
    """Elements along a product's sum that both operands have transformed together: whole ones of a range alone."""
    size = t.options.recipe.hadamard if t.options.recipe is not None else 0
    ranges = [r for r in (*own, *t.ranges.values()) if r.dim in summed]
    return size if size and all(dict(r.promises).get("by", 1) % size == 0 for r in ranges) else 0


def _windows(t: Trace, one: frozenset[str], other: frozenset[str], dims: frozenset[str]) -> list[Range]:
    """The ranges of a product's dimensions that no kernel has along a sum: lo[q]:hi[q], and those up to q + 1, where q
    is no batch. Its gradient is zeros outside of them instead."""
    batch = one & other & dims
    return [r for r in t.ranges.values() if r.dim in one and group_of(r) is None and bounds(r) & one - batch]


COPIED = 128
"""Bits at multiples of which copies begin."""


def _begun(t: Trace, v: Value, dims: frozenset[str], batch: frozenset[str], own: tuple[Range, ...]) -> Value:
    """An operand with another index last, if its last one is a batch, or copies would begin at any of that: of which a
    result's range does."""
    if not isinstance(v, Read) or not isinstance(v.source, Tensor) or not all(map(affine.plain, v.index)):
        return v
    tensor, last = v.source, affine.plain(v.index[-1])
    found = next((r for r in (*own, *t.ranges.values()) if r.dim == last), None)
    if last is None or last not in batch:
        if found is None or last not in dims or found.lower == affine.constant(0) or tensor.name in t.filled:
            return v
        bits = ELEMENT_TYPES[tensor.element].bits
        if dict(found.promises).get("by", 1) * bits % COPIED == 0:
            return v
    assert last is not None
    order = (last, *(d for d in in_order(v) if d != last))
    element = tensor.element if not tensor.levels else "bf16"
    made = t.once_made(f"turned {tensor.name} {v.index}", f"{tensor.name}_{order[-1]}", element, of_dims(order), v)
    return read(made, of_dims(order))


def _dims(core: list[Value]) -> frozenset[str]:
    return frozenset().union(*(x.dims for x in core))


def _first(target: Value, dims: frozenset[str], gradient: Value, second: Value) -> bool:
    """Whether the gradient stands on the left: what has the target's first index that one of them alone has does."""
    one, other = gradient.dims, _direct(second)
    alone = [d for d in in_order(target) if d in dims and (d in one) != (d in other)]
    return not alone or alone[0] in one


def _direct(v: Value) -> set[str]:
    """The dimensions of an operand that its tensor has itself."""
    return {d for x in below(v) if isinstance(x, Read) for i in x.index for d in affine.direct_dims(i)}


def _split(t: Trace, c: Contract, adjoint: Value) -> tuple[list[Value], list[Value]]:
    """The factors that multiply behind both products, and those that are multiplied before."""
    free, core = [], []
    shared = [side.dims | t.linked(side.dims) for side in (c.left, c.right)]
    for f in factors(adjoint):
        within = all(f.dims <= dims for dims in shared)
        (free if within and not t.keeper._parts(t.keeper.expanded(f)) else core).append(f)
    return free, core


def multiplied(c: Contract) -> str:
    """The type in which a gradient is multiplied: the operands' where they have one of 16 bits or more."""
    for side in (x for x in (c.left, c.right) if not isinstance(x, Quantized)):
        for x in below(side.values if isinstance(side, Subtract) else side):
            if isinstance(x, Rounded) and x.element in FLOATS:
                return x.element
            if isinstance(x, Read) and isinstance(x.source, Tensor) and x.source.element in FLOATS:
                return "tf32" if x.source.element == "f32" else x.source.element
    return "bf16"


def _gradient(
    t: Trace, c: Contract, core: list[Value], summed: frozenset[str], s: Statement, windows: list[Range]
) -> Read:
    """The gradient of a contraction as an operand: dC itself, or what a step makes of it, with zeros outside of
    windows."""
    element, recipe = multiplied(c), t.options.recipe
    value = product(core)
    alone = isinstance(value, Read) and isinstance(value.source, Tensor)
    quantises = alone and recipe is not None and bool(summed) and not windows and _turns(value, summed)  # pyright: ignore
    as_it_is = alone and not windows and _lies(value) and not _read_along(value, summed)
    as_it_is = quantises or (as_it_is and _fits(value, element))  # pyright: ignore
    if as_it_is:
        made = value
    else:
        order = order_of(c, s)
        order = tuple(d for d in order if d in value.dims)
        rows = alone and (_read_along(value, summed) or not _lies(value))
        name = f"{value.source.name}_rows" if rows else _name(c, s)  # pyright: ignore
        if alone and not rows:
            name = f"{value.source.name}_{'inside' if windows else element}"  # pyright: ignore
        key = f"gradient {id(c)} {Writer().value(value)}"  # of groups there is more in it
        otherwise = 0.0 if windows else None
        tensor = t.once_made(key, name, element, of_dims(order), value, otherwise=otherwise)
        if windows:
            t.filled[tensor.name] = frozenset(r.dim for r in windows)
        made = read(tensor, of_dims(order))
    assert isinstance(made, Read)
    if recipe is None or not summed:
        return made
    return quantised(t, made, summed, *recipe.gradient, by_chance=recipe.stochastic)


def _lies(v: Value) -> bool:
    """Whether no index of a tensor is computed: of results around gaps it is, which products do not read."""
    return isinstance(v, Read) and all(affine.plain(i) is not None or affine.read(i) for i in v.index)


def _fits(v: Read, element: str) -> bool:
    tensor = v.source
    assert isinstance(tensor, Tensor)
    return tensor.element == element or {tensor.element, element} == {"f32", "tf32"}


def _read_along(v: Value, summed: frozenset[str]) -> bool:
    """Whether what is summed is read through memory or computed: no copy takes blocks of that."""
    if not isinstance(v, Read):
        return False
    return any(affine.plain(i) is None and affine.dims(i) & summed for i in v.index)


def _turns(v: Read, summed: frozenset[str]) -> bool:
    """Whether one program quantises an operand along what is summed: of rows that are read through memory, too."""
    return not _read_along(v, summed) or affine.plain(v.index[-1]) is not None


def _name(c: Contract, s: Statement) -> str:
    """The name of a contraction's gradient: that of its temporary, else that of both operands."""
    if s.temporary and s.value is c:
        return f"d{s.tensor.name}"
    names = [
        next((x.source.name for x in below(v) if isinstance(x, Read) and isinstance(x.source, Tensor)), "")
        for v in (
            c.left.values if isinstance(c.left, Subtract) else c.left,
            c.right.values if isinstance(c.right, Subtract) else c.right,
        )
    ]
    return f"d{''.join(names)}"


def _operand(t: Trace, v: Value, summed: frozenset[str], element: str) -> Value:
    """The other operand, as one of the gradient's product."""
    if isinstance(v, Quantized):
        v = _anew(t, v, summed)
    if isinstance(v, Subtract) and stored.less_as_it_is(v, summed):
        return v
    less = v.value if isinstance(v, Rounded) else v
    if isinstance(less, Subtract):
        return _dequantised(t, less, v.element if isinstance(v, Rounded) else _made(element), summed)
    if isinstance(v, Rounded) and v.tensor is not None and v.tensor.levels and isinstance(v.value, Read):
        whole = _whole(t, v.value, frozenset())
        name = f"{v.tensor.name}_operand"
        tensor = t.once_made(f"rounded {v.tensor.name} {v.said}", name, v.element, whole.index, whole)
        made = read(tensor, v.value.index)
    elif isinstance(v, Rounded):
        reads = [x for x in below(v) if isinstance(x, Read) and isinstance(x.source, Tensor)]
        of = max(reads, key=lambda x: len(x.dims))
        base, group = of.source, t.linked(v.dims) - of.dims  # of a row, whose range says it
        assert isinstance(base, Tensor)
        order = tuple(d for d in in_order(v) if d not in group)
        tensor = t.once_made(f"operand {id(v)}", f"{base.name}_operand", v.element, of_dims(order), v.value)
        made = read(tensor, of_dims(order))
    elif isinstance(v, Read) and isinstance(v.source, Tensor):
        made = v
        quantises = t.options.recipe is not None and _turns(v, summed)
        if _read_along(v, summed) and not v.source.levels and not quantises:
            made = _rows(t, v)
    else:
        raise t.error(
            v.span,
            "an operand of @ is a temporary, which has no type to be multiplied in",
            "a temporary",
            "a tensor, or an elementwise expression of tensors",
            "write it into the operand, as in (relu(A[m,k])):bf16 @ B[n,k]",
        )
    if not summed or not isinstance(made, Read):
        return made
    whole = _whole(t, made, summed)
    found, place = _rescaled(t, whole, summed, element), dict(zip(whole.index, made.index, strict=True))
    return read(found.source, tuple(place.get(i, i) for i in found.index))


def _check_through(t: Trace, v: Quantized) -> None:
    """Refuses the gradient of what is rounded, unless the caller takes that of what it is rounded to for it."""
    if t.options.straight_through:
        return
    inside = sorted({x.source.name for x in below(v) if isinstance(x, Read) and t.needed(x)})  # pyright: ignore
    raise t.error(
        v.span,
        "an operand of @ is quantised anew, and rounding has no gradient",
        t.source.text[slice(*v.span)],
        f"straight_through=True, or another wrt than {', '.join(inside)}",
        "straight_through=True takes the gradient of what is multiplied for that of what is rounded, as recipes for"
        " training in FP8 do",
    )


def _anew(t: Trace, v: Quantized, summed: frozenset[str]) -> Value:
    """An operand that is quantised anew, as a tensor: what the program multiplies. Where a recipe quantises it along
    what is summed, in which its own blocks are of no use, it does so of what is not rounded yet."""
    if v.tensor is not None and any(map(v.outer, v.tensor.levels or ())):
        raise t.error(
            v.span,
            "an operand of @ is quantised anew, and no statement has what it is made of as a tensor",
            "scales that multiply sums, and not what is rounded",
            "a tensor whose scales are of smaller blocks than those of quantize(...)",
            "take the gradient of the program without quantize(...), with quantize= for what its products multiply",
        )
    of_use = stored.of_use(v.level, v.index, summed)
    again = t.options.recipe is not None and summed and not of_use
    if v.tensor is None:
        rounded = Rounded(v.span, v.dims, v.value, "bf16", None)
        return rounded if again else _stored(t, v, *_of_all(t, v))
    if again:
        return v.value
    if isinstance(v.value, Subtract):
        less = _less(t, v.value)
        return _stored(t, v, less, less.values.index)
    assert isinstance(v.value, Read)
    whole = _whole(t, v.value, frozenset())
    return _stored(t, v, whole, whole.index)


def _of_all(t: Trace, v: Quantized) -> tuple[Value, tuple[affine.Linear, ...]]:
    """What an expression is of all of the tensor that it reads through memory, and where."""
    if all(map(affine.plain, v.index)):
        return v.value, v.index
    (named, *_) = (x for x in below(v) if isinstance(x, Read) and x.index == v.index)
    whole = _whole(t, named, frozenset())
    made = rewritten(v.value, lambda x: whole if isinstance(x, Read) and x.index == v.index else None)
    return made, whole.index


def _stored(t: Trace, v: Quantized, value: Value, at: tuple[affine.Linear, ...]) -> Read:
    """What a step quantises, as the program does; read as it is there."""
    of = v.tensor or next(x.source for x in below(v) if isinstance(x, Read) and x.index == v.index)
    assert isinstance(of, Tensor)
    tensor = t.once_made(f"anew {id(v)}", f"{of.name}_q", v.element, at, value, levels=(v.level,))
    return read(tensor, v.index)


def _whole(t: Trace, v: Read, summed: frozenset[str]) -> Read:
    """All of a tensor, `B[r,n,k]` of `B[e[m/128],n,k]`: what is made of that is made once, and not for each m. What is
    summed is read where it is."""
    tensor = v.source
    assert isinstance(tensor, Tensor)
    index = list(v.index)
    for axis, i in enumerate(index):
        if affine.dims(i) and affine.plain(i) is None and not affine.dims(i) & summed:
            if (key := (tensor.name, axis)) not in t.rows:
                t.rows[key] = t.fresh("r")
            index[axis] = affine.atom(affine.Dim(t.rows[key]))
    return read(tensor, tuple(index))


def _rows(t: Trace, v: Read) -> Read:
    """An operand that is read through memory along what is summed, copied into its order."""
    tensor, order = v.source, in_order(v)
    assert isinstance(tensor, Tensor)
    made = t.once_made(f"rows {tensor.name} {v.index}", f"{tensor.name}_rows", tensor.element, of_dims(tuple(order)), v)
    return read(made, of_dims(tuple(order)))


def _rescaled(t: Trace, v: Read, summed: frozenset[str], element: str) -> Read:
    """An operand with scales that hold along what its gradient's product sums over."""
    tensor, recipe = v.source, t.options.recipe
    assert isinstance(tensor, Tensor)
    if not tensor.levels and tensor.element in FLOATS:
        return v if recipe is None else quantised(t, v, summed, *recipe.operand)
    if not _read_along(v, summed) and stored.as_it_is(tensor, v.index, summed):
        return _given(t, v, summed, tensor.element) if tensor.name in t.options.turned else v
    if recipe is not None and recipe.both and not t.hadamard and _square(v) and not _read_along(v, summed):
        return _given(t, v, summed, tensor.element)
    if recipe is None or not _turns(v, summed):
        order, kind = tuple(in_order(v)), _made(element)
        name = f"{tensor.name}_rows" if _read_along(v, summed) else f"{tensor.name}_{kind}"
        v = read(t.once_made(f"{kind} {tensor.name} {v.index}", name, kind, of_dims(order), v), of_dims(order))
    if recipe is None:
        return v
    return quantised(t, v, summed, *recipe.operand)


def _dequantised(t: Trace, v: Subtract, element: str, summed: frozenset[str]) -> Read:
    """Integers less their zero points as a step makes them, in an element type, or by a recipe quantised along what is
    summed, of what they stand for."""
    all_of = _less(t, v)
    tensor, index, recipe = all_of.values.source, all_of.values.index, t.options.recipe
    assert isinstance(tensor, Tensor)
    if recipe is None or not summed:
        key, name = f"{element} {Writer().value(all_of)}", f"{tensor.name}_{element}"
        made = read(t.once_made(key, name, element, index, all_of), index)
    else:
        made = quantised(t, all_of.values, summed, *recipe.operand, less=all_of)
    place = dict(zip(index, v.values.index, strict=True))
    return read(made.source, tuple(place.get(i, i) for i in made.index))


def _made(element: str) -> str:
    """The type of what a step makes to be multiplied as another one: no instruction takes f16 by bf16."""
    return "f16" if element == "f16" else "bf16"


def _less(t: Trace, v: Subtract) -> Subtract:
    """`_whole`, of integers less their zero points."""
    values = _whole(t, v.values, frozenset())
    if isinstance(v.zeros, int):
        return replace(v, values=values, dims=values.dims)
    zeros = read(v.zeros.source, tuple(affine.put(i, POINT, values.index[axis]) for axis, i in v.at))
    return replace(v, values=values, zeros=zeros, dims=values.dims)


def _square(v: Read) -> bool:
    """Whether blocks of scales are the same along each index: another order of them is no other rounding."""
    assert isinstance(v.source, Tensor)
    return all(len(set(level.block[-2:])) == 1 and level.layout == "row" for level in v.source.levels or ())


def quantised(
    t: Trace,
    v: Read,
    summed: frozenset[str],
    element: str,
    scales: Granularity,
    *,
    by_chance: bool = False,
    less: Subtract | None = None,
) -> Read:
    """`v` in `element`, contiguous along what is summed, with blocks along that; `less` its zero points."""
    order, recipe = _order(v, summed), t.options.recipe
    block = (1,) * (len(order) - len(scales.block)) + tuple(scales.block)
    name = v.source.tensor.name if isinstance(v.source, Statement) else v.source.name
    name = name if all(map(affine.plain, v.index)) else f"{name}_rows"
    turned = recipe.turned if recipe is not None and order[-1] not in affine.dims(v.index[-1]) else ""
    levels = (Level(block, scales.type, turned or scales.layout),)
    if recipe is not None and recipe.second:
        levels = (*levels, Level((WHOLE,) * len(order), "f32", "row"))
    index = of_dims(order)
    both = recipe is not None and recipe.both and isinstance(v.source, Tensor) and v.source.levels
    if less is None and not _read_along(v, summed) and (both or name in t.options.turned | t.options.sources.keys()):
        return _given(t, v, summed, element, levels)
    key = f"quantised {name} {v.index} by {order[-1]} {t.hadamard}" + (Writer().value(less) if less is not None else "")
    more = {"levels": levels, "hadamard": t.hadamard, "by_chance": by_chance}
    value = times(less or v, signs(t, order[-1])) if t.hadamard else less or v
    made = t.once_made(key, f"{name}_{order[-1]}", element, index, value, **more)
    if name in t.filled:
        t.filled[made.name] = t.filled[name]
    return read(made, index)


def _given(t: Trace, v: Read, summed: frozenset[str], element: str, levels: tuple[Level, ...] | None = None) -> Read:
    """`v` contiguous along what is summed, as an argument; with its own scales where no others are said."""
    order, tensor = _order(v, summed), v.source
    assert isinstance(tensor, Tensor)
    if levels is None:
        at = [affine.plain(i) for i in v.index]
        if None in at or at[-1] == order[-1]:
            return v
        levels = tuple(replace(x, block=tuple(x.block[at.index(d)] for d in order)) for x in tensor.levels or ())
    if (key := (tensor.name, order[-1], t.hadamard)) not in t.layouts:
        name = t.fresh(f"{tensor.name}_{order[-1]}")
        axis = next(a for a, i in enumerate(v.index) if order[-1] in affine.dims(i))
        t.layouts[key] = Tensor(name, NOWHERE, [None] * len(order), element, levels or None), axis
        t.transformed[name] = t.hadamard
        _ = t.hadamard and signs(t, order[-1])
    return read(t.layouts[key][0], of_dims(order))


def _order(v: Read, summed: frozenset[str]) -> tuple[str, ...]:
    """The dimensions of an operand, one that is summed last."""
    order = list(dict.fromkeys(d for i in v.index for d in sorted(affine.dims(i))))
    along = [d for d in order if d in summed]
    return tuple(order if order[-1] in summed else [d for d in order if d != along[-1]] + [along[-1]])


def _of_groups(mine: Read, target: Read, common: list[Value], core: list[Value]) -> tuple[list[Value], Value]:
    """What is multiplied into dC, and behind the product, of a sum over each group's points: `alpha[e[m/128]]` is
    `alpha[g]`, and `r[m]` is of the points."""
    to = {i: g for i, g in zip(mine.index, target.index, strict=True) if i != g}

    def change(x: Value) -> Value | None:
        return read(x.source, tuple(to.get(i, i) for i in x.index)) if isinstance(x, Read) else None

    free = [(f, rewritten(f, change)) for f in common]
    inside = [f for f, of_group in free if not of_group.dims <= target.dims]
    return [*core, *inside], product([of_group for _, of_group in free if of_group.dims <= target.dims])


def _grouped(t: Trace, mine: Value, other: Value, core: list[Value]) -> tuple[Read, Range] | None:
    """Of `B[e[m/128],n,k]`, whose gradient sums over each group: `B[g,n,k]`, with m in e_off[g]:e_off[g+1]."""
    if not isinstance(mine, Read) or not isinstance(mine.source, Tensor):
        return None
    for axis, i in enumerate(mine.index):
        dims = affine.dims(i)
        if not affine.read(i) or not dims <= _dims(core) or not dims <= other.dims:
            continue
        if (found := by_group(t, mine.source.name, mine.index, axis)) is not None:
            return read(mine.source, found[0]), found[1]
    return None
