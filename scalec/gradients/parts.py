"""Tensors that a program reads in parts, which together are all of them, as tensors of their own. Steps read and write
the parts, which are views: each has a gradient as any tensor has, and those of all are the tensor's.

G[m,n] = X[m,k] @ W[n,k]; U[m,n] = X[m,k] @ W[n+size(n),k]    W0 and W1: the first half of W's rows, and the second
G[m,n] = X[m,k] @ W[2*n,k]; U[m,n] = X[m,k] @ W[2*n+1,k]      W0 and W1: rows 0, 2, 4, ... of W, and 1, 3, 5, ...
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from scalec.formats import WHOLE
from scalec.frontend import affine
from scalec.frontend.program import Argument, Level, Program, Quantized, Read, Scales, Tensor, scale_name
from scalec.gradients.kept import below_own
from scalec.gradients.steps import Part
from scalec.gradients.text import index

Index = tuple[affine.Linear, ...]


def take(program: Program, names: dict[str, str], whole: Container[str]) -> dict[str, Part]:
    """Makes reads of parts those of tensors of their own, but for those that are to be `whole`, and says what these and
    their scales are; they get names that are none of `names`, and are then among these."""
    made: dict[str, Part] = {}
    nodes = [x for s in program.statements for x in below_own(s.value)]
    reads = [x for x in nodes if isinstance(x, Read)]
    for tensor in [a for a in program.arguments if isinstance(a, Tensor) and a.name not in whole]:
        mine = [x for x in reads if x.source is tensor]
        found = _found(tensor, [x.index for x in mine])
        if found is None or any(s.tensor is tensor for s in program.statements):  # what += adds to
            continue
        axis, dim, by_turns, order = found
        parts = [_part(tensor, name, axis, dim) for name in _named(tensor.name, len(order), names)]
        for x in nodes:
            if isinstance(x, Quantized) and x.tensor is tensor:
                object.__setattr__(x, "index", _plain(x.index, axis, dim))
        for x in mine:
            object.__setattr__(x, "source", parts[order.index(x.index)])
            object.__setattr__(x, "index", _plain(x.index, axis, dim))
        for number, (part, at) in enumerate(zip(parts, order, strict=True)):
            made[part.name] = Part(tensor.name, axis, number, len(order), by_turns, index(at[axis]))
            made |= _scales(tensor, part, made[part.name], at[axis])
        program.arguments = [x for a in program.arguments for x in _instead(a, tensor, parts)]
    return made


def _named(tensor: str, count: int, names: dict[str, str]) -> list[str]:
    """Names of a tensor's parts, and of the gradients of these."""
    made = [f"{tensor}{i}" for i in range(count)]
    while any(n in names or f"d{n}" in names for n in made):
        made = [f"{n}_" for n in made]
    names |= dict.fromkeys(made, "part")
    return made


def _plain(at: Index, axis: int, dim: str) -> Index:
    return (*at[:axis], affine.atom(affine.Dim(dim)), *at[axis + 1 :])


def _part(tensor: Tensor, name: str, axis: int, dim: str) -> Tensor:
    extents = list(tensor.extents)
    extents[axis] = affine.atom(affine.Dim(dim))
    return Tensor(name, tensor.span, extents, tensor.type, tensor.levels, tensor.said)


def _instead(a: Argument, tensor: Tensor, parts: Sequence[Tensor]) -> Iterator[Argument]:
    """What stands in the place of an argument."""
    if a is tensor:
        yield from parts
    elif isinstance(a, Scales) and a.tensor is tensor:
        yield from (Scales(part, a.first) for part in parts)
    else:
        yield a


def _scales(tensor: Tensor, part: Tensor, of: Part, at: affine.Linear) -> dict[str, Part]:
    """The scales of a part: the same part of the tensor's, or all of these."""
    made = {}
    for i, level in enumerate(tensor.levels or ()):
        name, block = scale_name(tensor.name, i), level.block[of.axis]
        whole = Part(name, of.axis, 0, 1, False, "")
        own = Part(name, of.axis, of.number, of.count, of.by_turns, index(affine.divide(at, max(block, 1))))
        made[scale_name(part.name, i)] = whole if block == WHOLE else own
    return made


def _found(tensor: Tensor, every: Sequence[Index]) -> tuple[int, str, bool, list[Index]] | None:
    """(the index that has the parts, its dimension, whether by turns, and where each part is read, in their order);
    None where a tensor is not read in parts that are all of it and do not meet, or no views are these."""
    several = list(dict.fromkeys(every))
    axes = [axis for axis in range(len(tensor.extents)) if len({i[axis] for i in several}) > 1]
    if len(axes) != 1 or tensor.index or tensor.groups:
        return None
    (axis,), count = axes, len(several)
    for by_turns, told in ((False, _run), (True, _turn)):
        found = {x: i for i in several if (x := told(i[axis], count)) is not None}
        dim = next((dim for _, dim in found), "")
        if found.keys() == {(number, dim) for number in range(count)}:
            views = not (by_turns and axis == len(tensor.extents) - 1)
            views &= all(_cut(level, axis, by_turns) for level in tensor.levels or ())
            return (axis, dim, by_turns, [found[number, dim] for number in range(count)]) if views else None
    return None


def _run(i: affine.Linear, _count: int) -> tuple[int, str] | None:
    """(2, n) of n + 2 * size(n)."""
    dims = sorted(affine.direct_dims(i))
    if len(dims) != 1:
        return None
    size = affine.Size(dims[0])
    number = dict(i.terms).get(size, 0)
    run = affine.add(affine.atom(affine.Dim(dims[0])), affine.times(affine.atom(size), number))
    return (number, dims[0]) if i == run else None


def _turn(i: affine.Linear, count: int) -> tuple[int, str] | None:
    """(1, n) of 2 * n + 1, where there are two parts."""
    dims = sorted(affine.direct_dims(i))
    if len(dims) != 1:
        return None
    turn = affine.add(affine.times(affine.atom(affine.Dim(dims[0])), count), affine.constant(i.constant))
    return (i.constant, dims[0]) if i == turn else None


def _cut(level: Level, axis: int, by_turns: bool) -> bool:
    """Whether the scales of parts are views, too: they lie as the tensor does, and no block is of several parts."""
    block = level.block[axis]
    return block == WHOLE or (level.layout in ("row", "col") and not (by_turns and block > 1))
