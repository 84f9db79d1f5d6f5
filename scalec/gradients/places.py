"""Inputs at computed indices, and at such as name a group: the points at which each of their elements is read.

x[n%64]          dx[t] = sum[j](dx_n[n_of_x[t,j]])       n_of_x: the n of each element
r[m/4,n]         dr[t,n] = sum[j](dC[m_of_r[t,j],n])
b[e[m/128],n]    db[g,n] = sum[m](dC[m,n]) for m in e_off[g]:e_off[g+1] by 128
Y[row[t,j],n]    dY[r,n] = sum[i](dZ[t_of_Y[r,i],n] * w[t_of_Y[r,i],j_of_Y[r,i]])      both of each row's places
x[t/64,t%64]     dx[a,b] = sum[j](dx_t[t_of_x[a,b,j]])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import gcd

from scalec.errors import UnsupportedError
from scalec.frontend import affine
from scalec.frontend.affine import of_dims
from scalec.frontend.program import Contract, Range, Read, Reduce, Tensor, Value
from scalec.gradients.expressions import NOWHERE, below, read, rewritten
from scalec.gradients.steps import MadeIndex, Points
from scalec.gradients.trace import Share, Trace

Index = tuple[affine.Linear, ...]


def in_blocks(i: affine.Linear) -> tuple[str, int, int] | None:
    """(m, 128, 64) of `m/128%64`: the dimension, by what it is divided, or 1, and by what the remainder is taken, or 0.
    None of anything else."""
    block, modulus = 1, 0
    while affine.plain(i) is None:
        if len(i.terms) != 1 or i.constant or i.terms[0][1] != 1:
            return None
        atom = i.terms[0][0]
        if isinstance(atom, affine.Remainder) and not modulus and atom.divisor % block == 0:
            modulus = atom.divisor // block
        elif isinstance(atom, affine.Quotient) and not atom.ceiling:
            block *= atom.divisor
        else:
            return None
        i = atom.value
    return affine.plain(i) or "", block, modulus


def block_of(symbol: affine.Symbol) -> tuple[str, int] | None:
    """(m, 128) of `e[m/128]`; None of other indices."""
    found = in_blocks(symbol.index[0]) if len(symbol.index) == 1 else None
    return None if found is None or found[2] else found[:2]


def by_group(t: Trace, tensor: str, index: Index, axis: int) -> tuple[Index, Range] | None:
    """Of `B[e[m/128],n,k]`: `[g,n,k]`, and m in e_off[g]:e_off[g+1]. None where no group has points that follow."""
    symbols = affine.symbols(index[axis])
    found = block_of(symbols[0]) if affine.read(index[axis]) else None
    if found is None:
        return None
    (dim, block), source = found, symbols[0].tensor
    if dim in t.ranges:
        raise UnsupportedError(
            f"{tensor} is read at {symbols[0]}, and {dim} has a range: its gradient would have both",
            got=f"for {dim} in {t.ranges[dim].lower}:{t.ranges[dim].upper}",
            expected=f"one of them, which says what belongs to no group: {source} may be negative",
            fix=f"leave the range out, and give {source} as -1 where it ends",
        )
    g, name = t.fresh("g"), t.fresh(f"{source}_off")
    t.indices[name] = MadeIndex("offsets", source, tensor, axis, block, along=along(t, dim))
    begin, end = (
        affine.atom(affine.Symbol(name, (affine.add(affine.atom(affine.Dim(g)), affine.constant(x)),))) for x in (0, 1)
    )
    promises = (("by", block),) if block > 1 else ()
    at = tuple(affine.atom(affine.Dim(g)) if a == axis else x for a, x in enumerate(index))
    return at, Range(NOWHERE, dim, begin, end, promises)


def along(t: Trace, dim: str) -> tuple[str, int]:
    """A tensor of the program, or a result, that has as many of an index as this dimension is."""
    tensors = [a for a in t.program.arguments if isinstance(a, Tensor)]
    results = [s.tensor for s in t.program.statements if not s.temporary]
    for x in (*tensors, *results):
        for axis, extent in enumerate(x.shape):
            if affine.plain(extent) == dim:
                return x.name, axis
    raise UnsupportedError(
        f"no tensor has as many elements along an index as {dim} is",
        got=f"{dim} in computed indices alone",
        expected=f"an input or a result with the index {dim}",
        fix="pass a view of what is read, whose indices are plain",
    )


def signs(t: Trace, dim: str) -> Read:
    """The signs by which elements along a dimension are multiplied before they are transformed."""
    if dim not in t.signs:
        t.signs[dim] = Tensor(t.fresh("signs"), NOWHERE, [None], "bf16")
        tensor, axis = along(t, dim)
        t.indices[t.signs[dim].name] = MadeIndex("signs", dim, tensor, axis)
    return read(t.signs[dim], of_dims((dim,)))


def places(t: Trace, tensor: str, axis: int, i: affine.Linear, row: str, j: str) -> tuple[str, affine.Linear]:
    """The dimension of `x[n%64]`, and `n_of_x[t,j]`: an index tensor, of the n at which each element of x is read."""
    found = in_blocks(i)
    assert found is not None
    dim, block, modulus = found
    name = t.fresh(f"{dim}_of_{tensor}")
    t.indices[name] = MadeIndex("places", str(i).replace(" ", ""), tensor, axis, block, along(t, dim), modulus)
    return dim, affine.atom(affine.Symbol(name, of_dims((row, j))))


def points(t: Trace, s: Share, axes: tuple[int, ...], rows: tuple[str, ...], j: str) -> dict[str, affine.Linear]:
    """The dimensions by which some indices of a tensor read it, each as the j-th of the points at which its element at
    `rows` is read.

    Raises:
        UnsupportedError: nothing says at how many points one is.
    """
    at = tuple(s.index[a] for a in axes)
    own = tuple(dict.fromkeys(d for i in at for d in _in_order(i)))
    sizes = tuple(x.name for i in at for x in affine.sizes(i) if x.name not in own)
    dims = (*own, *dict.fromkeys(sizes))
    times, period = _meet(s.of, at, own)
    source = ",".join(str(i).replace(" ", "") for i in at)
    lengths = tuple(along(t, d) for d in dims)
    found = {}
    for d in own:
        name = t.fresh(f"{d}_of_{s.of}")
        t.indices[name] = MadeIndex(
            "points", source, s.of, axes[0], points=Points(axes, at, dims, lengths, d, times, period)
        )
        found[d] = affine.atom(affine.Symbol(name, of_dims((*rows, j))))
    return found


def _in_order(i: affine.Linear) -> list[str]:
    inner = [d for x in affine.symbols(i) for y in x.index for d in _in_order(y)]
    return [*dict.fromkeys((*inner, *sorted(affine.direct_dims(i))))]


def plainly(index: Index) -> bool:
    """Whether each index is a dimension of its own."""
    names = [affine.plain(i) for i in index]
    return None not in names and len(set(names)) == len(names)


LONGEST = 1 << 20
"""Points after which a computed index begins again at most."""


def _meet(tensor: str, at: Index, own: tuple[str, ...]) -> tuple[int, int]:
    """At how many points one element is read at most, where indices are computed, and after how many points these begin
    again, 0: never. What is read from memory is at a point for each entry."""
    if len(at) == 1 and affine.read(at[0]):
        if plainly(affine.symbols(at[0])[0].index):
            return 1, 0
    elif len(own) == 1 and not any(affine.symbols(i) for i in at):
        (dim,), period = own, 1
        for x in [x for i in at for x in _divided(i)]:
            period = period * x // gcd(period, x)
            if period > LONGEST:
                break
        else:
            return _in_a_period(at, dim, period)
    raise UnsupportedError(
        f"{tensor} is read at {', '.join(map(str, at))}, and nothing says at how many points one element is",
        got=", ".join(map(str, at)),
        expected="indices of one dimension, m/128%64, 2*n+1 or t/64,t%64, or such as are read from memory, as row[t,j]",
        fix=f"pass {tensor} as a view whose indices are plain, or leave it out of wrt",
    )


def _divided(i: affine.Linear, by: int = 1) -> list[int]:
    """After how many points each of its quotients and remainders begins again, grown by a number."""
    inner = [x for x, _ in i.terms if isinstance(x, affine.Quotient | affine.Remainder)]
    return [by, *(n for x in inner for n in _divided(x.value, by * x.divisor))]


def _in_a_period(at: Index, dim: str, period: int) -> tuple[int, int]:
    """At how many points of a dimension one element is read at most, and 0; where indices do not grow from a period to
    the next one, at how many of a period, and that."""
    sizes = {x.name: 0 for i in at for x in affine.sizes(i)}
    by_point = [tuple(affine.value(i, {**sizes, dim: x}) or 0 for i in at) for x in range(period + 1)]
    steps = [b - a for a, b in zip(by_point[0], by_point[period], strict=True)]
    grows = next((a for a, x in enumerate(steps) if x), None)

    def of_first(x: tuple[int, ...]) -> tuple[int, ...]:
        turns = 0 if grows is None else x[grows] // steps[grows]
        return tuple(y - turns * step for y, step in zip(x, steps, strict=True))

    return max(Counter(map(of_first, by_point[:period])).values()), 0 if grows is not None else period


def moved(t: Trace, v: Value, to: Mapping[str, affine.Linear]) -> Value | None:
    """`v` read elsewhere in place of some dimensions; None where that takes a tensor of its own: where one has a range,
    or is more than an index of tensors."""
    nodes = list(below(v))
    reads = [x for x in nodes if isinstance(x, Read)]
    plainly = all(affine.plain(i) in to or not affine.dims(i) & to.keys() for x in reads for i in x.index)
    if t.ranges.keys() & to.keys() or not plainly or any(isinstance(x, (Contract, Reduce)) for x in nodes):
        return None

    def change(x: Value) -> Value | None:
        if not isinstance(x, Read):
            return None
        return read(x.source, tuple(to.get(affine.plain(i) or "", i) for i in x.index))

    return rewritten(v, change)
