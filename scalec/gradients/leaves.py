"""What reaches an input, as the programs of its gradient: sums over what the input is broadcast along, rows put back to
where they were read, and the uses of one input added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from scalec.errors import UnsupportedError
from scalec.frontend import affine
from scalec.frontend.affine import of_dims
from scalec.frontend.program import Contract, Read, Reduce, Scalar, Scales, Tensor, Value
from scalec.gradients.expressions import (
    NOWHERE,
    apply,
    below,
    bounds,
    factors,
    minus,
    number,
    plus,
    product,
    read,
    rewritten,
    times,
)
from scalec.gradients.places import Index, block_of, by_group, in_blocks, moved, places, plainly, points
from scalec.gradients.steps import MadeIndex
from scalec.gradients.text import in_order, indices
from scalec.gradients.trace import FLOATS, Share, Trace


def write(t: Trace) -> None:
    """The steps of every input that has a gradient, in the order of the arguments."""
    for a in t.program.arguments:
        if isinstance(a, Scales) or a.name not in t.shares:
            continue
        shares = t.shares[a.name]
        if isinstance(a, Tensor):
            shares = at_one_index(t, a, shares)
        _write_sum(t, a, shares)


def at_one_index(t: Trace, tensor: Tensor, shares: list[Share]) -> list[Share]:
    """The shares of a tensor that is read at several indices as shares at one: those of others as tensors of their own,
    of all of its elements. An index that is the same for all points, or read from memory at one of what another index
    has, becomes a dimension, of which each point has one: dX[m,c] = dY[m] * (1 - sign(abs(at[c] - t[m])))."""
    several = len({s.index for s in shares}) > 1
    if several:
        _check_all_there(tensor, shares)
    shares = [_each(t, tensor, s, shares) for s in shares]
    if len({s.index for s in shares}) == 1:
        return shares
    every = [s.index for s in shares if plainly(s.index)]
    to = every[0] if every else of_dims(tuple(t.fresh(x) for x in "abcdefgh"[: len(shares[0].index)]))
    dims = frozenset(d for i in to for d in affine.dims(i))
    found = []
    for s in shares:
        if s.index != to or t.ranges.keys() & (dims | s.space):
            kept = frozenset(d for i in s.index for d in affine.dims(i))
            t.all_there(s.value, s.space - kept - t.linked(kept, s.ranges), s.value.dims)
            _check_spread(t, tensor, s)
            made = summed(t, t.fresh(f"d{tensor.name}_part"), "f32", s, "", ranged=True)
            assert isinstance(made, Read)
            s = Share(to, read(made.source, to), dims, (), s.of, frozenset(t.ranges.keys() & dims))
        found.append(s)
    return found


def _check_all_there(tensor: Tensor, shares: list[Share]) -> None:
    """Refuses a tensor of which some index reads a part: steps that read that alone would be given more than they
    have."""
    part = next(
        (
            s.index
            for s in shares
            for i, e in zip(s.index, tensor.shape, strict=True)
            if affine.extent(i) not in (None, e)
        ),
        None,
    )
    if part is not None:
        other = next(s.index for s in shares if s.index != part)
        raise UnsupportedError(
            f"{tensor.name} is read at two indices, one of which is a part of it",
            got=f"{indices(tensor.name, part)} and {indices(tensor.name, other)}",
            expected="all of it at each index, or equal parts that are all of it, as n and n+size(n), or 2*n and 2*n+1",
            fix="pass it under two names, as views of its parts; where these share elements, add up both gradients",
        )


def _each(t: Trace, tensor: Tensor, s: Share, every: list[Share]) -> Share:
    """A share whose index has no number but 0, and none of what another index has, read from memory."""
    for axis, i in enumerate(s.index):
        others = frozenset(d for a, x in enumerate(s.index) if a != axis for d in affine.dims(x))
        fixed = not affine.dims(i) and not affine.sizes(i) and i.constant != 0
        if not fixed and not (affine.read(i) and affine.dims(i) & others):
            continue
        names = [affine.plain(x.index[axis]) for x in every]
        taken = s.value.dims | s.space | others | t.ranges.keys()
        each = next((x for x in names if x and x not in taken), None) or t.fresh("c")
        key = (tensor.name, axis)
        if key not in t.counts:
            t.counts[key] = t.fresh("at")
            t.indices[t.counts[key]] = MadeIndex("count", "", tensor.name, axis)
        at = of_dims((each,))
        count = read(Tensor(t.counts[key], NOWHERE, [None], "i32"), at)
        named: Value = number(i.constant)
        for x in affine.symbols(i):
            named = read(next(a for a in t.program.arguments if isinstance(a, Tensor) and a.name == x.tensor), x.index)
        is_it = minus(number(1), apply("sign", apply("abs", minus(count, named))))
        s = replace(s, index=_with(s.index, axis, at[0]), value=times(s.value, is_it), space=s.space | {each})
    return s


def _write_sum(t: Trace, a: Tensor | Scalar, shares: list[Share]) -> None:
    """The gradient of one input: all uses but one are sums of their own, which the last one adds."""
    name = t.fresh(f"d{a.name}")
    shares = sorted(
        _at_once(t, shares), key=lambda s: _over_what(t, s) != ()
    )  # what needs no sum of its own adds up the others
    last, partial = shares[0], []
    if len(shares) > 1 and not any(isinstance(x, Contract) for x in below(last.value)):
        last = next((s for s in shares if not _over_what(t, s) and _contracts(s.value)), last)
    for s in shares:
        kept = frozenset(d for i in s.index for d in affine.dims(i))
        t.all_there(s.value, s.space - kept - t.linked(kept, s.ranges), s.value.dims)
        if s is last:
            continue
        alone = not _over_what(t, s) and not s.ranges and not _contracts(s.value)
        if alone or (s.ranges == last.ranges and _one_sum(t, s.value, last.value)):
            partial.append(s.value)
            continue
        _check_spread(t, a, s)
        partial.append(_part(t, name, s))
    beside: Value = number(0)  # of one number: no kernel adds up two
    if not any(affine.dims(i) for i in last.index):
        beside, partial = reduce(plus, partial, beside), []
    if _over_what(t, last) and partial:
        _check_spread(t, a, last)
        partial.append(_part(t, name, last))
        last = replace(last, value=partial[0], space=frozenset(partial[0].dims), ranges=())
        del partial[0]
    value = last.value
    for p in partial:
        value = plus(value, p)
    last = replace(last, value=value)
    _check_spread(t, a, last)
    usual = t.options.sources.get(a.name, a.element) if isinstance(a, Tensor) else "f32"
    usual = "f32" if usual == "tf32" else usual if usual in FLOATS else "bf16"
    summed(t, name, t.element_of(name, usual), last, a.name, beside=beside)


def _at_once(t: Trace, shares: list[Share]) -> list[Share]:
    """Shares that are sums over the same of what is computed at each point are one sum."""
    found: dict[object, Share] = {}
    for s in shares:
        over = _over_what(t, s)
        key = (s.index, s.value.dims, s.space, s.ranges, s.done) if over and not _contracts(s.value) else id(s)
        found[key] = replace(s, value=plus(found[key].value, s.value)) if key in found else s
    return list(found.values())


def _part(t: Trace, name: str, s: Share) -> Value:
    """One use as a tensor of its own. Of rows that are read through memory it has those that the use reads, `[m,k]` of
    `A[idx[m],k]`, and `[n]` of `x[n%64]`: they are added up before they are put back."""
    index: list[affine.Linear] = []
    for i in s.index:
        at = [x for symbol in affine.symbols(i) for x in symbol.index]
        at = at if at and all(affine.plain(x) for x in at) else of_dims(tuple(sorted(affine.dims(i))))
        index += [x for x in at if x not in index]
    return summed(t, t.fresh(f"{name}_part"), "f32", replace(s, index=tuple(index)), "")


def _check_spread(t: Trace, a: Tensor | Scalar, s: Share) -> None:
    """Refuses what no statement says: a tensor that is the same along one of its indices. A share that is may be added
    to others that are not, as the mean of a LayerNorm gives each element the same."""
    kept = frozenset(d for i in s.index for d in affine.dims(i))
    if missing := sorted(kept - s.value.dims - t.linked(s.value.dims, s.ranges)):
        raise t.error(
            a.span,
            f"the gradient of {a.name} is the same for all {missing[0]}",
            f"an input that {missing[0]} sums over, and nothing else depends on {missing[0]}",
            f"another factor that has {missing[0]}, as w[{missing[0]}] in sum[{missing[0]}](w[{missing[0]}] * ...)",
            f"leave {a.name} out of wrt: its gradient is that of the sum, expanded along {missing[0]}",
        )


def _one_sum(t: Trace, v: Value, w: Value) -> bool:
    """Whether every target adds up two products in one accumulator: of 16 bits, which no kernel turns, without scales,
    at the same indices and none of them from memory, summed over what has no range."""
    if not isinstance(v, Contract) or not isinstance(w, Contract):
        return False
    if any(((x.left.dims | x.right.dims) - x.dims) & t.ranges.keys() for x in (v, w)):
        return False
    kinds = [_kind(x) for x in (v.left, v.right, w.left, w.right)]
    return kinds[:2] == kinds[2:] and kinds[0][0] == kinds[1][0] in ("bf16", "f16")


def _kind(x: Value) -> tuple[str, tuple[affine.Linear, ...]]:
    """The type of an operand that is multiplied as it lies in memory, and its indices; of others no type."""
    if not isinstance(x, Read) or not isinstance(x.source, Tensor) or x.source.levels:
        return "", ()
    return (x.source.element, x.index) if all(map(affine.plain, x.index)) else ("", ())


def _contracts(v: Value) -> bool:
    return any(isinstance(x, Contract) for x in below(v))


def _over_what(t: Trace, s: Share) -> tuple[str, ...]:
    """The dimensions that a share has and its input has not, those of the text's order."""
    kept = frozenset(d for i in s.index for d in affine.dims(i))
    over = s.value.dims & s.space - kept - t.linked(kept, s.ranges)
    return tuple(d for d in in_order(t.keeper.of(s.value)) if d in over)


def summed(
    t: Trace, name: str, element: str, s: Share, of: str, *, ranged: bool = False, beside: Value | None = None
) -> Value:
    """The steps that make one tensor of a share; what reads it. `ranged`: at any point, also outside of ranges.
    `beside`: what is added in the end."""
    s = _by_groups(t, s)
    over, value, index = list(_over_what(t, s)), t.keeper.of(s.value), s.index
    kept = [d for i in index for d in sorted(affine.dims(i))]
    _check_ranges(t, s, kept)
    # groups that a range has of what is summed: r[g] of X[m,n]*w[n]*r[g] for m in off[g]:off[g+1], where dw[n] is asked
    groups = s.value.dims & t.linked(frozenset(over), s.ranges) - frozenset((*kept, *over))
    over += sorted(groups)
    # n of `n < len[m]` before m, which the range reads
    over = sorted(over, key=lambda d: not (d in t.ranges and bounds(t.ranges[d]) & frozenset(over)))
    if over and t.linked(frozenset(kept), s.ranges) & value.dims - {*kept, *over}:  # of groups that no result has
        value, s = _points_apart(t, name, replace(s, value=value), frozenset(kept))
    for d in over:
        value, s = _rows_apart(t, name, replace(s, value=value), d)
    over = [d for d in over if d in value.dims]
    while len(over) > 1:  # one index a kernel; the last one of memory last, as what remains is contiguous then
        d = over.pop(0)
        known = in_order(value)
        dims = (*(x for x in kept if x not in known), *(x for x in known if x in kept or x in over))
        dims = tuple(sorted(dims, key=lambda x: x not in groups))  # a group's rows lie one behind the other
        tensor = t.emit(
            t.fresh(f"{name}_{''.join(dims)}"),
            "f32",
            of_dims(dims),
            _over(value, d),
            ranges=s.ranges,
            done=s.done,
        )
        value = read(tensor, of_dims(dims))
        s = replace(s, done=s.done | {x for x, r in t.ranges.items() if d in bounds(r)})
    if over:
        value = _over(value, over[0])
    if beside is not None:
        value = plus(value, beside)
    if not index:  # of a scalar: one element
        index = (affine.constant(0),)
    if not value.dims and not any(isinstance(x, (Reduce, Contract)) for x in below(value)):
        value = _of_one(t, value)
    if any(affine.dims(i) and affine.plain(i) is None for i in index):
        return _put_back(t, name, element, replace(s, value=value), of)
    return read(t.emit(name, element, index, value, of=of, ranges=s.ranges, ranged=ranged, done=s.done), index)


def _rows_apart(t: Trace, name: str, s: Share, d: str) -> tuple[Value, Share]:
    """What is summed over `d`; where the ranges of other indices read `d`, as `n < len[d]`, a tensor of it, with zeros
    outside: no kernel sums what each term has another range of."""
    read_by = {x for x in s.value.dims - s.done if x in t.ranges and d in bounds(t.ranges[x])}
    return _points_apart(t, name, s, read_by) if read_by else (s.value, s)


def _points_apart(t: Trace, name: str, s: Share, ranged: Iterable[str]) -> tuple[Value, Share]:
    """What is computed at each point, if it is elementwise, as a tensor with zeros outside of the ranges of these."""
    if any(isinstance(x, (Contract, Reduce)) for x in below(s.value)):
        return s.value, s
    groups = t.linked(s.value.dims, s.ranges)  # of which a row has one
    dims = tuple(x for x in in_order(s.value) if x not in groups)
    rows = t.emit(t.fresh(f"{name}_{''.join(dims)}"), "f32", of_dims(dims), s.value, ranges=s.ranges, ranged=True)
    return read(rows, of_dims(dims)), replace(s, done=s.done | (t.ranges.keys() & frozenset(ranged)))


def _check_ranges(t: Trace, s: Share, kept: list[str]) -> None:
    if any(isinstance(x, Contract) for x in below(s.value)):
        return
    for d in kept:
        r = t.ranges.get(d)
        if r is not None and d not in t.options.covered | s.done and not bounds(r) <= s.value.dims | frozenset(kept):
            lacks = sorted(bounds(r) - set(kept))
            raise UnsupportedError(
                f"an input over {', '.join(kept)} has no gradient outside the ranges of {d},"
                f" which go by {', '.join(lacks)}",
                got="an elementwise input of a program with groups",
                expected="one that has the group's index",
                fix=f"leave it out of wrt, or say that groups have every {d}: covered='{d}'",
            )


def _over(v: Value, d: str) -> Value:
    """The sum over one dimension, with what does not depend on it in front."""
    parts = factors(v)
    inside = product([f for f in parts if d in f.dims])
    return product([*(f for f in parts if d not in f.dims), Reduce(NOWHERE, inside.dims - {d}, "sum", inside)])


def _of_one(t: Trace, value: Value) -> Value:
    """One number as a sum over the one element of what it is computed of: kernels reduce to a number."""
    i = t.fresh("i")

    def change(x: Value) -> Value | None:
        numbered = isinstance(x, Read) and bool(x.index) and all(at == affine.constant(0) for at in x.index)
        return read(x.source, (*x.index[:-1], *of_dims((i,)))) if numbered and isinstance(x, Read) else None

    inside = rewritten(value, change)
    return Reduce(NOWHERE, frozenset(), "sum", inside) if inside.dims else value


def _by_groups(t: Trace, s: Share) -> Share:
    """A share of `b[e[m/128],n]` as one of `b[g,n]`, whose sum over m has a range."""
    for axis, i in enumerate(s.index):
        blocked = affine.read(i) and (block_of(affine.symbols(i)[0]) or ("", 1))[1] > 1
        products = [x for x in below(s.value) if isinstance(x, Contract) and id(x) not in t.keeper.opaque]
        if not blocked or products:  # rows of an operand: they are in no order
            continue
        found = by_group(t, s.of, s.index, axis)
        assert found is not None
        return _by_groups(t, replace(s, index=found[0], ranges=(*s.ranges, found[1])))
    return s


def _put_back(t: Trace, name: str, element: str, s: Share, of: str) -> Value:
    """Elements of a tensor that was read through memory, or at a computed index: a scatter where each is read once,
    else a sum over the points at which each is read, of the first index of that kind."""
    axes = [a for a, i in enumerate(s.index) if affine.plain(i) is None]
    scattered = [a for a in axes if _once(t, s.index[a])]
    if scattered:
        index, value, others = s.index, s.value, [a for a in axes if a not in scattered]
        if others:  # these are summed first
            for a in scattered:
                (symbol,) = affine.symbols(s.index[a])
                s = replace(s, index=_with(s.index, a, symbol.index[0]))
            rows = summed(t, t.fresh(f"{name}_rows"), "f32", s, "", ranged=True)
            assert isinstance(rows, Read)
            value, index = rows, tuple(index[a] if a in scattered else i for a, i in enumerate(rows.index))
        return read(t.emit(name, element, index, value, of=of, ranges=s.ranges), index)
    together, dims = [axes[0]], affine.dims(s.index[axes[0]])
    for a in axes[1:] * len(axes):  # indices that have dimensions in common
        if a not in together and affine.dims(s.index[a]) & dims:
            together, dims = [*together, a], dims | affine.dims(s.index[a])
    first, *more = sorted(together)
    if more or not _alone(s.index[first]):
        return _of_points(t, name, element, s, of, (first, *more))
    axis, row, j = axes[0], t.fresh("t"), t.fresh("j")
    symbol = next(iter(affine.symbols(s.index[axis])), None)
    dim, place = _place(t, s, axis, row, j)
    at = _with(s.index, axis, affine.atom(affine.Dim(dim)))
    inside = None if symbol is not None or s.ranges else moved(t, s.value, {dim: place})
    if inside is None:
        usual = (f"{name}_rows", element) if symbol is not None else (f"{name}_{dim}", "f32")
        rows = summed(t, t.fresh(usual[0]), usual[1], replace(s, index=at), "", ranged=True)
        assert isinstance(rows, Read)
        at, inside = rows.index, read(rows.source, _with(rows.index, axis, place))
        s = replace(s, done=s.done | t.ranges.keys() & rows.dims)
    target = _with(at, axis, affine.atom(affine.Dim(row)))
    return summed(t, name, element, replace(s, index=target, value=inside, space=inside.dims), of)


def _alone(i: affine.Linear) -> bool:
    """Whether the points of an index are those of one dimension, which one tensor says: of idx[m], and m/128%64."""
    if affine.read(i):
        (symbol,) = affine.symbols(i)
        return len(symbol.index) == 1 and affine.plain(symbol.index[0]) is not None
    return in_blocks(i) is not None


def _of_points(t: Trace, name: str, element: str, s: Share, of: str, axes: tuple[int, ...]) -> Read:
    """The sum over the points at which each element is read by indices that have dimensions in common, or one that has
    several of these."""
    rows, j = tuple(t.fresh(x) for x in ("abcde"[: len(axes)] if len(axes) > 1 else "t")), t.fresh("j")
    to = points(t, s, axes, rows, j)
    others = [i for a, i in enumerate(s.index) if a not in axes]
    inside = None if s.ranges or _over_what(t, s) else moved(t, s.value, to)
    if inside is None:
        index = (*of_dims(tuple(to)), *others)
        made = summed(t, t.fresh(f"{name}_rows"), "f32", replace(s, index=index), "", ranged=True)
        assert isinstance(made, Read)
        others = list(made.index[len(to) :])
        inside = read(made.source, (*to.values(), *others))
        s = replace(s, done=s.done | t.ranges.keys() & made.dims)
    target = others
    for a, row in zip(axes, rows, strict=True):
        target.insert(a, affine.atom(affine.Dim(row)))
    made = summed(t, name, element, replace(s, index=tuple(target), value=inside, space=inside.dims), of)
    assert isinstance(made, Read)
    return made


def _once(t: Trace, i: affine.Linear) -> bool:
    """Whether an index names each row once at most."""
    return any(x.tensor in t.options.once and all(map(affine.plain, x.index)) for x in affine.symbols(i))


def _with(index: Index, axis: int, i: affine.Linear) -> Index:
    return tuple(i if a == axis else x for a, x in enumerate(index))


def _place(t: Trace, s: Share, axis: int, row: str, j: str) -> tuple[str, affine.Linear]:
    """The dimension that an index reads, and the j-th of its points at which an element `row` is read."""
    symbol = next(iter(affine.symbols(s.index[axis])), None)
    if symbol is None:
        return places(t, s.of, axis, s.index[axis], row, j)
    dim = affine.plain(symbol.index[0]) or ""
    inverse = f"{symbol.tensor}_inv"
    made = MadeIndex("inverse", symbol.tensor, s.of, axis)
    if t.indices.setdefault(inverse, made) != made:
        inverse = t.fresh(inverse)
        t.indices[inverse] = made
    t.names[inverse] = "tensor"
    return dim, affine.atom(affine.Symbol(inverse, of_dims((row, j))))
