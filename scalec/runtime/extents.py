"""The sizes of a call: what the shapes of its tensors say of every dimension, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from scalec.abi import MOST_CTAS, PADDED_BOX, KernelSpec, Limit, TensorSpec
from scalec.errors import ArgumentError
from scalec.formats import ELEMENT_TYPES, WORDS
from scalec.reads import Reads
from scalec.runtime.checks import contiguous, seen, written
from scalec.runtime.stored import align_up, elements, stored_shape
from scalec.runtime.tensors import TensorView
from scalec.sizes import MOST, Range


class Called(Protocol):
    """What tensors of a call are checked by: fields of a KernelSpec, which programs that no kernel runs have too."""

    @property
    def dims(self) -> Mapping[str, int | None]: ...
    @property
    def ranges(self) -> Mapping[str, tuple[int, int]]: ...
    @property
    def limits(self) -> Mapping[str, Limit]: ...
    @property
    def operands(self) -> tuple[TensorSpec, ...]: ...
    @property
    def results(self) -> tuple[TensorSpec, ...]: ...
    @property
    def reads(self) -> tuple[Reads, ...]: ...


def bind_dims(spec: Called, views: Mapping[str, TensorView]) -> dict[str, int]:
    """The size of every dimension, from the shapes of the tensors given and the sizes fixed at compile time."""
    dims: dict[str, int] = {}
    giver: dict[str, str] = {}
    tensors = [t for t in (*spec.operands, *spec.results) if t.name in views]
    for t in tensors:
        if t.layout != "blocked":
            _check_rank(t, views[t.name])
    # whole bytes of packed elements may be of several numbers of them, the fewer bits the more: those are asked last
    axes = [(t, axis) for t in tensors if t.layout != "blocked" for axis in range(len(t.shape))]
    for t, axis in sorted(axes, key=lambda x: (_packed(*x), -min(ELEMENT_TYPES[x[0].dtype].bits, 8))):
        view, e = views[t.name], t.shape[axis]
        if _packed(t, axis):
            _solve(tensors, views, dims, giver, packed=False)
        if not e.dim or e.divisor != 1:
            continue
        size = elements(t, axis, view)
        fixed = spec.dims.get(e.dim)
        if (
            fixed is not None
            and size != fixed
            and stored_shape(t, {**_ones(t), e.dim: fixed})[axis] != _extent(axis, view)
        ):
            raise ArgumentError(
                f"{t.name} has {e.dim} = {size}, the kernel was compiled for {e.dim} = {fixed}",
                got=seen(t, view) + _density(t, axis),
                expected=f"{written(t)} with {e.dim} = {fixed}",
                fix=_other_size(t, axis, view, spec.dims, size),
            )
        size = size if fixed is None else fixed
        known = dims.setdefault(e.dim, size)
        if known != size and stored_shape(t, {**_ones(t), e.dim: known})[axis] != _extent(axis, view):
            raise ArgumentError(
                f"{t.name} has {e.dim} = {size}, {giver[e.dim]} has {e.dim} = {dims[e.dim]}",
                got=seen(t, view),
                expected=f"{written(t)} with {e.dim} = {dims[e.dim]}",
                fix=f"give both one {e.dim}: cut, pad or transpose the one that is wrong",
            )
        giver.setdefault(e.dim, t.name)
        within = spec.ranges.get(e.dim)
        if within is not None and not Range(*within).has(known):
            limit = spec.limits.get(e.dim)
            why = f"and {limit.reason}" if limit else f"the kernel was compiled for {e.dim} = {Range(*within)}"
            raise ArgumentError(
                f"{t.name} has {e.dim} = {known}, {why}",
                got=seen(t, view),
                expected=f"{written(t)} with {e.dim} from {within[0]} to {within[1]}",
                fix=limit.fix
                if limit
                else f"compile with a range that has {known}, or without {e.dim} in dims to leave it open",
            )
        if size > MOST:
            raise ArgumentError(
                f"{t.name} has {e.dim} = {size}",
                got=seen(t, view),
                expected=f"at most {MOST}: kernels count in 32 bits",
                fix=f"call it for parts of {e.dim}",
            )
    dims.update({name: size for name, size in spec.dims.items() if size is not None})
    _solve(tensors, views, dims, giver)
    for t, axis in sorted(axes, key=lambda x: x[0].shape[x[1]].unit):  # what has the smallest says most
        e = t.shape[axis]
        if e.dim and e.dim not in dims and e.divisor > 1:  # of pages alone: as many as they have
            dims[e.dim], giver[e.dim] = elements(t, axis, views[t.name]) * e.divisor, t.name
        left = [x for x in e.terms if x.dim not in dims]
        if len(left) == 1 and left[0].factor > 0:  # of words, or blocks of groups, alone: as many as they have
            (term,) = left
            others = e.size + sum(x.value(dims) for x in e.terms if x is not term)
            size = max(0, (elements(t, axis, views[t.name]) - others) // term.factor * term.divisor - term.offset)
            dims[term.dim], giver[term.dim] = size, t.name
    for t in (*spec.operands, *spec.results):
        for dim in (dim for e in t.shape for dim in e.names):
            if dim not in dims:
                raise ArgumentError(
                    f"no argument tells the size of {dim}, which {written(t)} needs",
                    got=f"{dim} in {t.name} alone",
                    expected=f"a size of {dim} when the program is compiled, or a tensor that has it",
                    fix=f"compile with dims={{{dim!r}: ...}}",
                )
    for t in tensors:
        if t.layout == "blocked":
            _check_blocked(t, views[t.name], dims)
        else:
            _check_shape(t, views[t.name], dims, giver)
    return dims


def _density(t: TensorSpec, axis: int) -> str:
    """How many elements of an axis lie in how many bytes, where that is not one in each."""
    if not _packed(t, axis):
        return ""
    bits = ELEMENT_TYPES[t.dtype].bits
    bytes_ = math.lcm(bits, 8) // 8
    return f", {8 * bytes_ // bits} elements in {bytes_} byte{'s'[: bytes_ > 1]}"


def _other_size(t: TensorSpec, axis: int, view: TensorView, fixed: Mapping[str, int | None], size: int) -> str:
    """What to do about a tensor of another size than the kernel was compiled for."""
    dim = t.shape[axis].dim
    leave = f"compile with {dim} = {size}, or without {dim} in dims to leave it open"
    if _packed(t, axis) and _extent(axis, view) == fixed[dim]:
        return f"pack {t.name} (scalec.reference.storage), whose elements seem to have a byte each; else {leave}"
    if _transposed(t, view, fixed):
        *outer, row, column = map(str, t.shape)
        other = f"{t.name}[{','.join((*outer, column, row))}]"
        return f"pass {contiguous(f'{t.name}.mT', view)}, or declare it {other} if it is meant so; else {leave}"
    return leave


def _transposed(t: TensorSpec, view: TensorView, fixed: Mapping[str, int | None]) -> bool:
    """Whether the sizes fixed at compile time are those of the last two indices in each other's places."""
    last = t.shape[-2:]
    if len(last) < 2 or ELEMENT_TYPES[t.dtype].bits < 8 or any(not e.dim or e.divisor != 1 for e in last):
        return False
    swapped = zip(last, reversed(view.shape[-2:]), strict=True)
    return all(fixed.get(e.dim) in (None, size) for e, size in swapped)


def _packed(t: TensorSpec, axis: int) -> bool:
    """Whether elements along an axis share bytes."""
    return ELEMENT_TYPES[t.dtype].bits < 8 and axis == t.contiguous


def _solve(
    tensors: Sequence[TensorSpec],
    views: Mapping[str, TensorView],
    dims: dict[str, int],
    giver: dict[str, str],
    packed: bool = True,
) -> None:
    """Adds the sizes that only an extent like `g + 1` tells: there are as many groups as offsets, less one. `packed`:
    extents along which elements share bytes, which may be of several sizes, tell too."""
    for t in tensors:
        for axis, e in enumerate(t.shape):
            if not packed and _packed(t, axis):
                continue
            if not e.terms or not e.tells or e.tells in dims or len(views[t.name].shape) != len(t.shape):
                continue
            size = e.size_of(elements(t, axis, views[t.name]))
            if size < 0:
                raise ArgumentError(
                    f"{t.name} has extent {views[t.name].shape[axis]} along index {axis} ({e})",
                    got=seen(t, views[t.name]),
                    expected=f"{written(t)}, at least {e.value({e.tells: 0})}",
                    fix=f"pass {t.name} with one more: it has both ends of each group",
                )
            dims[e.tells], giver[e.tells] = size, t.name


def check_tiles(spec: KernelSpec, dims: Mapping[str, int], walked: Mapping[str, int] | None = None) -> None:
    """Refuses sizes of more tiles than a kernel counts, where it walks `walked`, else `dims`."""
    walked = walked or dims
    length = spec.launch.length(walked)
    if length > MOST:
        raise ArgumentError(
            f"{spec.entry} would sum over {length} products",
            got=", ".join(f"{dim} = {dims[dim]}" for x in (spec.launch.sums, *spec.launch.added) for dim, _ in x),
            expected=f"at most {MOST}: a kernel counts them in 32 bits",
            fix="call it for parts of a dimension, with +=",
        )
    ctas = spec.launch.ctas(walked)
    if ctas > MOST_CTAS:
        sizes = ", ".join(f"{dim} = {dims[dim]}" for dim, _, _ in spec.launch.tiles)
        tiles = "x".join(str(tile) for _, tile, _ in spec.launch.tiles)
        raise ArgumentError(
            f"{spec.entry} would have {ctas} tiles of {tiles}",
            got=sizes,
            expected=f"at most {MOST_CTAS}, the largest grid",
            fix="call it for parts of a dimension",
        )


def _ones(t: TensorSpec) -> dict[str, int]:
    return {dim: 1 for e in t.shape for dim in e.names}


def _extent(axis: int, view: TensorView) -> int:
    return view.shape[axis] if view.shape else 1


def _check_rank(t: TensorSpec, view: TensorView) -> None:
    if len(view.shape) == len(t.shape):
        return
    words = f"pass its words as int32 {[str(e) for e in t.shape[:-1]]}".replace("'", "") if t.layout == WORDS else ""
    raise ArgumentError(
        f"{t.name} has {len(view.shape)} dimensions, expected {len(t.shape)}",
        got=seen(t, view),
        expected=written(t) if t.shape else f"{t.name} with one element",
        fix=words or f"{t.name}.reshape(...) with {len(t.shape)} indices",
    )


def _check_shape(t: TensorSpec, view: TensorView, dims: Mapping[str, int], giver: Mapping[str, str]) -> None:
    if not t.shape:
        return
    for axis, (size, found) in enumerate(zip(stored_shape(t, dims), view.shape, strict=True)):
        if size == found:
            continue
        e = t.shape[axis]
        names = dict.fromkeys(e.names)
        because = f" ({', '.join(f'{dim} = {dims[dim]}' for dim in names)})" if names else ""
        told = "".join(f"; {giver[dim]} has {dim} = {dims[dim]}" for dim in names if giver.get(dim, t.name) != t.name)
        raise ArgumentError(
            f"{t.name} has extent {found} along index {axis} ({e}), expected {size}{because}",
            got=seen(t, view),
            expected=f"{written(t)}, here {list(stored_shape(t, dims))}{told}",
            fix=f"pass {t.name} of that shape: cut, pad or transpose it, or the tensor that gave the sizes",
        )


def _check_blocked(t: TensorSpec, view: TensorView, dims: Mapping[str, int]) -> None:
    """Refuses anything but whole tiles; their holders give them any shape: flat, a matrix, or five indices."""
    stored, found = stored_shape(t, dims), math.prod(view.shape)
    if found == math.prod(stored):
        return
    scales = "x".join(str(e.value(dims)) for e in t.shape)
    raise ArgumentError(
        f"{t.name} has {found} scales, its 128x4 tiles (layout blocked) have {math.prod(stored)}",
        got=seen(t, view),
        expected=f"{scales} scales padded to whole tiles: {list(stored)} without gaps, in any shape of that size",
        fix="pad them with zeros to whole tiles, or say @row in the program, which takes them as they are",
    )


def check_padded(t: TensorSpec, dims: Mapping[str, int]) -> None:
    """Refuses extents that a copy which pads each 16 elements to 16 bytes does not take (see abi.PADDED)."""
    inner = t.shape[t.contiguous]
    extent = inner.value(dims)
    if extent % PADDED_BOX:
        raise ArgumentError(
            f"{t.name}: {inner} = {extent} is not a multiple of {PADDED_BOX}, which copies that give each element of"
            f" {t.dtype} a byte need",
            got=f"rows of {extent} elements ({ELEMENT_TYPES[t.dtype].bytes(extent)} bytes)",
            expected=f"rows of a multiple of {PADDED_BOX} elements (cuTensorMapEncodeTiled)",
            fix=f"pad {inner} with zeros to {align_up(extent, PADDED_BOX)}, in every tensor that has it",
        )
