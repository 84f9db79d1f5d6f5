"""Arguments to tensors, and dimension sizes from their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec.errors import ArgumentError, ScalecError
from scalec.formats import Granularity
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, block_of, map_of
from scalec.reference.body import element_name
from scalec.reference.packing import FOUR_BITS, WORD, decode, from_order, from_words
from scalec.reference.space import Space, evaluate
from scalec.suggestions import did_you_mean

Array = NDArray[Any]


@dataclass(frozen=True)
class Signature:
    """One argument or result of a program."""

    name: str  # `scale.name`, or arg0, result0, ... where hand-written IR has none
    element: str  # name of the element type
    shape: ir.AffineMap | None  # `scale.shape`, the extents over the dimensions; None where not given
    static: tuple[int | None, ...]  # the type's extents, None where dynamic; () for a scalar
    layout: str  # `scale.layout`
    tensor: bool  # False for a scalar
    inout: bool  # whether it accumulates into the argument of the same name
    # `scale.order`: which of each so many of the last index each element in memory is; () in order
    order: tuple[int, ...] = ()

    @property
    def whole(self) -> int:
        """Elements of which the last index has a multiple in memory: those of a word, or of an order; else 1."""
        return WORD if self.layout == "words" else max(1, len(self.order))


def find_program(module: ir.Module) -> ir.OpView:
    """The one function of a module that has `scale.dims`."""
    for op in module.body.operations:
        if op.operation.name == "func.func" and "scale.dims" in op.operation.attributes:
            return op
    raise ScalecError("the module has no program", expected="a func.func with the attribute scale.dims")


def _signature(t: ir.Type, attributes: Mapping[str, ir.Attribute], default: str) -> Signature:
    ranked = isinstance(t, ir.RankedTensorType)
    static = tuple(None if t.is_dynamic_dim(i) else t.get_dim_size(i) for i in range(t.rank)) if ranked else ()
    text = {k: ir.StringAttr(attributes[k]).value for k in ("scale.name", "scale.layout") if k in attributes}
    return Signature(
        name=text.get("scale.name", default),
        element=element_name(t.element_type if ranked else t),
        shape=map_of(attributes["scale.shape"]) if "scale.shape" in attributes else None,
        static=static,
        layout=text.get("scale.layout", "row"),
        tensor=ranked,
        inout="scale.inout" in attributes,
        order=tuple(ir.DenseI64ArrayAttr(attributes["scale.order"])) if "scale.order" in attributes else (),
    )


def signatures(program: ir.OpView) -> tuple[list[Signature], list[Signature]]:
    attributes = program.operation.attributes
    kind = ir.FunctionType(ir.TypeAttr(attributes["function_type"]).value)

    def read(types: Sequence[ir.Type], key: str, default: str) -> list[Signature]:
        rows = [dict_of(a) for a in ir.ArrayAttr(attributes[key])] if key in attributes else [{} for _ in types]
        return [_signature(t, row, f"{default}{i}") for i, (t, row) in enumerate(zip(types, rows, strict=True))]

    return read(kind.inputs, "arg_attrs", "arg"), read(kind.results, "res_attrs", "result")


def dict_of(attribute: ir.Attribute) -> dict[str, ir.Attribute]:
    return {named.name: named.attr for named in ir.DictAttr(attribute)}


def granularity_of(attribute: ir.Attribute) -> Granularity:
    g = GranularityAttr(attribute)
    return Granularity(tuple(block_of(g)), ir.StringAttr(g.type).value, ir.StringAttr(g.layout).value)


def arguments_of(arguments: Mapping[str, Any] | Sequence[Any], expected: Sequence[Signature]) -> list[Array]:
    """The arguments as arrays of their element types' dtypes, in order.

    Raises:
        ArgumentError: naming the argument that is missing, unknown, or of the wrong dtype or rank.
    """
    names = [s.name for s in expected]
    if isinstance(arguments, Mapping):
        for name in names:
            if name not in arguments:
                raise ArgumentError(f"argument {name} is missing", got=", ".join(arguments), expected=", ".join(names))
        for name in arguments:
            if name not in names:
                raise ArgumentError(
                    f"argument {name} is unknown", got=name, expected=", ".join(names), fix=did_you_mean(name, names)
                )
        given = [arguments[name] for name in names]
    else:
        given = list(arguments)
        if len(given) != len(expected):
            raise ArgumentError("wrong number of arguments", got=str(len(given)), expected=str(len(expected)))
    out = []
    for value, s in zip(given, expected, strict=True):
        a = np.asarray(value)
        if not s.tensor:
            out.append(a.astype(np.float64).reshape(()))
            continue
        if s.element == "i32" and a.dtype.kind in "iu":
            a = a.astype(np.int32, copy=False)
        if s.layout == "words" and a.dtype.itemsize == 4:
            a = np.ascontiguousarray(a)[..., None].view(np.uint8)
        elif s.element in FOUR_BITS and s.layout == "row" and a.dtype.kind in "iu" and a.dtype.itemsize == 4:
            a = np.ascontiguousarray(a).view(np.uint8)
        try:
            a = decode(a, s.element)
        except ScalecError as error:
            raise ArgumentError(f"argument {s.name}: {error.message}", got=error.got, expected=error.expected) from None
        rank = len(s.static) + (s.layout == "words")
        if a.ndim != rank and s.layout in ("row", "col", "words"):
            raise ArgumentError(f"argument {s.name}", got=f"rank {a.ndim}", expected=f"rank {rank}")
        if s.layout == "words":
            if a.shape[-1] != WORD:
                raise ArgumentError(f"argument {s.name}", got=f"words of {a.shape[-1]}", expected=f"of {WORD} elements")
            a = from_words(a)
        if s.order:
            if a.shape[-1] % s.whole:
                raise ArgumentError(f"argument {s.name}", got=f"{a.shape[-1]} elements", expected=f"whole {s.whole}")
            a = from_order(a, s.order)
        out.append(a)
    return out


def whole_words(s: Signature, a: Array, sizes: Sequence[int | None]) -> Array:
    """An argument without what its last words have behind the last element."""
    return a if s.whole == 1 or s.shape is None else a[..., : extent_at(s.shape.results[-1], sizes)]


def free_extent(e: ir.AffineExpr) -> bool:
    """Whether `scale.shape` leaves this extent open (a pool of pages, a number of experts)."""
    return isinstance(e, ir.AffineSymbolExpr) or (isinstance(e, ir.AffineConstantExpr) and e.value <= 0)


def extent_at(e: ir.AffineExpr, sizes: Sequence[int | None]) -> int | None:
    """An extent for given dimension sizes, at least 0; None where it is open or a size that it needs is unknown."""
    if _open(e) or any(sizes[d] is None for d in _dims(e)):
        return None
    points = tuple(np.array([0 if n is None else n], np.int64) for n in sizes)
    return max(0, int(evaluate(e, Space(points), ()).ravel()[0]))


def _leaves(e: ir.AffineExpr) -> list[ir.AffineExpr]:
    return [*_leaves(e.lhs), *_leaves(e.rhs)] if isinstance(e, ir.AffineBinaryExpr) else [e]


def _open(e: ir.AffineExpr) -> bool:
    return free_extent(e) or any(isinstance(x, ir.AffineSymbolExpr) for x in _leaves(e))


def _dims(e: ir.AffineExpr) -> set[int]:
    return {x.position for x in _leaves(e) if isinstance(x, ir.AffineDimExpr)}


def _solve(e: ir.AffineExpr, extent: int, sizes: Sequence[int | None]) -> tuple[int, int, bool] | None:
    """(dimension, its size, whether no other size fits) where exactly one size in an extent is unknown."""
    unknown = [d for d in _dims(e) if sizes[d] is None]
    if _open(e) or len(unknown) != 1:
        return None
    (dim,) = unknown
    # extents never shrink as a dimension grows: the largest size that fits, by doubling and halving
    low, high = 0, 1

    def at(n: int) -> int:
        value = extent_at(e, [n if i == dim else s for i, s in enumerate(sizes)])
        assert value is not None
        return value

    while at(high) <= extent:
        low, high = high, 2 * high
        if high > 1 << 40:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle) <= extent else (low, middle)
    return dim, low, low == 0 or at(low - 1) < extent


def solve_sizes(sizes: list[int | None], extents: Sequence[tuple[ir.AffineExpr, int]]) -> None:
    """Fills in the unknown `sizes` that the extents tell, those with a single solution first."""
    for exact in (True, False):
        progress = True
        while progress:
            progress = False
            for e, n in extents:
                found = _solve(e, n, sizes)
                if found and (found[2] or not exact):
                    sizes[found[0]] = found[1]
                    progress = True


def bind_sizes(
    names: Sequence[str], shaped: Sequence[tuple[Signature, Sequence[int]]], dims: Mapping[str, int] | None
) -> list[int | None]:
    """Sizes of the dimensions `names` from the shapes of arguments (and of results, where given).

    An extent that fits one size only (`m`, `g + 1`) is used first; where a dimension appears only as
    `t ceildiv 64`, the largest size that fits is taken. None for a dimension that nothing tells.

    Raises:
        ArgumentError: naming a tensor whose shape contradicts the others or its type.
    """
    sizes: list[int | None] = [None if dims is None or n not in dims else int(dims[n]) for n in names]
    known = [(s, tuple(shape)) for s, shape in shaped if s.tensor and s.layout in ("row", "col", "words")]
    for s, shape in known:
        if s.whole == 1 and any(want is not None and want != got for want, got in zip(s.static, shape, strict=True)):
            want = "x".join("?" if n is None else str(n) for n in s.static)
            raise ArgumentError(f"argument {s.name} has the wrong shape", got="x".join(map(str, shape)), expected=want)
    told = [[*zip(s.shape.results, shape, strict=True)][: -1 if s.whole > 1 else None] for s, shape in known if s.shape]
    solve_sizes(sizes, [x for axes in told for x in axes])
    solve_sizes(sizes, [(s.shape.results[-1], shape[-1]) for s, shape in known if s.shape and s.whole > 1])
    for s, shape in known:
        for axis, (e, n) in enumerate(zip(s.shape.results, shape, strict=True) if s.shape else ()):
            want = extent_at(e, sizes)
            if want is not None and axis == len(shape) - 1:
                want += -want % s.whole  # the last word may be partial
            if want is not None and want != n:
                bound = ", ".join(f"{d} = {v}" for d, v in zip(names, sizes, strict=True) if v is not None)
                raise ArgumentError(
                    f"argument {s.name} does not fit the others: extent {axis} is {e} with {bound}",
                    got=str(n),
                    expected=str(want),
                )
    return sizes
