"""What reaches an input, as the programs of its gradient: sums over what the input is broadcast along, rows put back to
where they were read, and the uses of one input added up."""

from __future__ import annotations

from scalec.errors import UnsupportedError
from scalec.frontend import affine
from scalec.frontend.program import Contract, Range, Read, Reduce, Scalar, Scales, Tensor, Value
from scalec.gradients.expressions import NOWHERE, below, factors, plain, plus, product, read
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
            _check_index(a, shares)
        _write_sum(t, a, shares)


def _check_index(tensor: Tensor, shares: list[Share]) -> None:
    index = shares[0].index
    other = next((s.index for s in shares if s.index != index), None)
    if other is not None:
        raise UnsupportedError(
            f"{tensor.name} is read at two indices, and its gradient would be at both",
            got=f"{indices(tensor.name, index)} and {indices(tensor.name, other)}",
            expected="one way of reading it",
            fix="pass it under two names, as views of its parts; where these share elements, add up both gradients",
        )
    for i in index:
        if affine.plain(i) is None and not affine.read(i):
            raise UnsupportedError(
                f"{tensor.name} is read at {i}, and no program puts its gradient back there",
                got=indices(tensor.name, index),
                expected="plain indices, or such as are read from memory",
                fix=f"pass {tensor.name} as a view whose indices are plain, or leave it out of wrt",
            )


def _write_sum(t: Trace, a: Tensor | Scalar, shares: list[Share]) -> None:
    """The gradient of one input: all uses but one are sums of their own, which the last one adds."""
    name = t.fresh(f"d{a.name}")
    shares = sorted(shares, key=lambda s: _over_what(t, s) != ())  # what needs no sum of its own adds up the others
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
    if _over_what(t, last) and partial:
        _check_spread(t, a, last)
        partial.append(_part(t, name, last))
        last = Share(last.index, partial[0], frozenset(partial[0].dims))
        del partial[0]
    value = last.value
    for p in partial:
        value = plus(value, p)
    last = Share(last.index, value, last.space, last.ranges)
    _check_spread(t, a, last)
    usual = a.element if isinstance(a, Tensor) else "f32"
    usual = "f32" if usual == "tf32" else usual if usual in FLOATS else "bf16"
    summed(t, name, t.element_of(name, usual), last, a.name)


def _part(t: Trace, name: str, s: Share) -> Value:
    """One use as a tensor of its own. Of rows that are read through memory it has those that the use reads, `[m,k]` of
    `A[idx[m],k]`: they are added up before they are put back."""
    index: list[affine.Linear] = []
    for i in s.index:
        at = [x for symbol in affine.symbols(i) for x in symbol.index]
        index += at if at and all(affine.plain(x) for x in at) else [i]
    return summed(t, t.fresh(f"{name}_part"), "f32", Share(tuple(index), s.value, s.space, s.ranges), "")


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


def summed(t: Trace, name: str, element: str, s: Share, of: str) -> Value:
    """The steps that make one tensor of a share; what reads it."""
    gathered = [i for i in s.index if affine.symbols(i)]
    over, value, index = list(_over_what(t, s)), t.keeper.of(s.value), s.index
    kept = [d for i in index for d in sorted(affine.dims(i))]
    _check_ranges(t, s, kept)
    while len(over) > 1:  # one index a kernel; the last one of memory last, as what remains is contiguous then
        d = over.pop(0)
        known = in_order(value)
        dims = (*(x for x in kept if x not in known), *(x for x in known if x in kept or x in over))
        tensor = t.emit(t.fresh(f"{name}_{''.join(dims)}"), "f32", plain(dims), _over(value, d), ranges=s.ranges)
        value = read(tensor, plain(dims))
    if over:
        value = _over(value, over[0])
    if not index:  # of a scalar: one element
        index = (affine.constant(0),)
    if not gathered:
        return read(t.emit(name, element, index, value, of=of, ranges=s.ranges), index)
    return _put_back(t, name, element, index, value, s.ranges, of)


def _check_ranges(t: Trace, s: Share, kept: list[str]) -> None:
    if any(isinstance(x, Contract) for x in below(s.value)):
        return
    for d in kept:
        r = t.ranges.get(d)
        if (
            r is not None
            and d not in t.options.covered
            and not (affine.dims(r.lower) | affine.dims(r.upper)) <= s.value.dims | frozenset(kept)
        ):
            bounds = sorted((affine.dims(r.lower) | affine.dims(r.upper)) - set(kept))
            raise UnsupportedError(
                f"an input over {', '.join(kept)} has no gradient outside the ranges of {d},"
                f" which go by {', '.join(bounds)}",
                got="an elementwise input of a program with groups",
                expected="one that has the group's index",
                fix=f"leave it out of wrt, or say that groups have every {d}: covered='{d}'",
            )


def _over(v: Value, d: str) -> Value:
    """The sum over one dimension, with what does not depend on it in front."""
    parts = factors(v)
    inside = product([f for f in parts if d in f.dims])
    return product([*(f for f in parts if d not in f.dims), Reduce(NOWHERE, inside.dims - {d}, "sum", inside)])


def _put_back(
    t: Trace,
    name: str,
    element: str,
    index: tuple[affine.Linear, ...],
    value: Value,
    ranges: tuple[Range, ...],
    of: str,
) -> Value:
    """Rows of a tensor that was read through memory: a scatter where each row is read once, else a sum over the places
    where each row was read."""
    axes = [a for a, i in enumerate(index) if affine.symbols(i)]
    symbols = [x for a in axes for x in affine.symbols(index[a])]
    if {x.tensor for x in symbols} <= t.options.once:
        return read(t.emit(name, element, index, value, of=of, ranges=ranges), index)
    axis, symbol = axes[0], symbols[0]
    if len(symbols) > 1:
        names = sorted({x.tensor for x in symbols})
        raise UnsupportedError(
            f"{of or name[1:]} is read at {' and '.join(map(str, symbols))}, and elements of its gradient may meet",
            got=f"{len(symbols)} indices from memory",
            expected="one",
            fix=f"once={names}, if each names each index once at most",
        )
    row = affine.plain(symbol.index[0]) if len(symbol.index) == 1 else None
    if row is None:
        raise UnsupportedError(
            f"{of or name[1:]} is read at {symbol}, and rows of its gradient may meet",
            got=f"an index of {' and '.join(map(str, symbol.index))}",
            expected="one of a plain index, as idx[m]",
            fix=f"once={{'{symbol.tensor}'}}, if it names each row once at most",
        )
    at = tuple(affine.atom(affine.Dim(row)) if a == axis else i for a, i in enumerate(index))
    rows = t.emit(t.fresh(f"{name}_rows"), element, at, value, ranges=ranges)
    row_of, place_of = t.fresh("t"), t.fresh("j")
    inverse = f"{symbol.tensor}_inv"
    made = MadeIndex("inverse", symbol.tensor, of or name[1:], axis)
    if t.indices.setdefault(inverse, made) != made:
        inverse = t.fresh(inverse)
        t.indices[inverse] = made
    t.names[inverse] = "tensor"
    place = affine.atom(affine.Symbol(inverse, plain((row_of, place_of))))
    where = tuple(place if a == axis else i for a, i in enumerate(index))
    target = tuple(affine.atom(affine.Dim(row_of)) if a == axis else i for a, i in enumerate(index))
    inside = read(rows, where)
    total = Reduce(NOWHERE, inside.dims - {place_of}, "sum", inside)
    return read(t.emit(name, element, target, total, of=of), target)
