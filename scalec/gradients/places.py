"""Inputs at computed indices, and at such as name a group: the points at which each of their elements is read.

x[n%64]          dx[t] = sum[j](dx_n[n_of_x[t,j]])       n_of_x: the n of each element
r[m/4,n]         dr[t,n] = sum[j](dC[m_of_r[t,j],n])
b[e[m/128],n]    db[g,n] = sum[m](dC[m,n]) for m in e_off[g]:e_off[g+1] by 128
"""

from __future__ import annotations

from scalec.errors import UnsupportedError
from scalec.frontend import affine
from scalec.frontend.affine import of_dims
from scalec.frontend.program import Contract, Range, Read, Reduce, Tensor, Value
from scalec.gradients.expressions import NOWHERE, below, read, rewritten
from scalec.gradients.steps import MadeIndex
from scalec.gradients.trace import Trace

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


def places(t: Trace, tensor: str, axis: int, i: affine.Linear, row: str, j: str) -> tuple[str, affine.Linear]:
    """The dimension of `x[n%64]`, and `n_of_x[t,j]`: an index tensor, of the n at which each element of x is read."""
    found = in_blocks(i)
    assert found is not None
    dim, block, modulus = found
    name = t.fresh(f"{dim}_of_{tensor}")
    t.indices[name] = MadeIndex("places", str(i).replace(" ", ""), tensor, axis, block, along(t, dim), modulus)
    return dim, affine.atom(affine.Symbol(name, of_dims((row, j))))


def moved(t: Trace, v: Value, dim: str, to: affine.Linear) -> Value | None:
    """`v` read at `to` in place of a dimension; None where that takes a tensor of its own: a dimension that has a
    range, or is more than an index of tensors."""
    nodes = list(below(v))
    reads = [x for x in nodes if isinstance(x, Read)]
    plainly = all(affine.plain(i) == dim or dim not in affine.dims(i) for x in reads for i in x.index)
    if dim in t.ranges or not plainly or any(isinstance(x, (Contract, Reduce)) for x in nodes):
        return None

    def change(x: Value) -> Value | None:
        if not isinstance(x, Read):
            return None
        return read(x.source, tuple(to if affine.plain(i) == dim else i for i in x.index))

    return rewritten(v, change)
