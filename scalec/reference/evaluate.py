"""What a program means: any `scale` module, run in numpy and float64 on dequantised inputs.

Everything follows from the definitions in scalec/ir/scale.py. Points outside a domain, and points that a negative
symbol skips, are unwritten: NaN in a float result. A skipped point of a dimension that is summed adds nothing; a sum
over an empty range is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec.arguments import checked
from scalec.errors import ScalecError
from scalec.formats import WHOLE, Granularity, padded_to
from scalec.ir import context as ir_context
from scalec.ir.mlir import ir
from scalec.ir.scale import apart_in, dims_in, map_of, maps_of
from scalec.reference import laid, rounding, zero_points
from scalec.reference.bind import (
    Signature,
    arguments_of,
    bind_sizes,
    extent_at,
    find_program,
    granularity_of,
    signatures,
    whole_words,
)
from scalec.reference.body import constant, element_name, evaluate_body
from scalec.reference.contract import contract
from scalec.reference.packing import Count, from_layout, numpy_dtype
from scalec.reference.quantize import HAS_NAN, Places, block_shape, cast, counted, encode_scale, round_to, scale_shape
from scalec.reference.space import (
    Access,
    Domain,
    Factor,
    Space,
    Tensor,
    evaluate,
    point_mask,
    regions,
    symbols_in,
    varying,
)

Array = NDArray[Any]

CHUNK = 1 << 20  # points of a map, reduction or scatter that are in memory at once


class Results(dict[str, Array]):
    """The results by name.

    Attributes:
        written: for each result, which of its elements have a value: those that the program writes, and all of a result
            that is added to.
        reached: for each result, which of its elements the program writes or adds to; the others keep their bytes.
        scales: for each quantised result, the name of its scales' result, their granularity, and for each axis along
            which groups are apart `_Run.places` of it.
        copied: the type and layout of each result of scales that are copied.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, Array] = {}
        self.reached: dict[str, Array] = {}
        self.scales: dict[str, tuple[str, Granularity, Places]] = {}
        self.copied: dict[str, Granularity] = {}


@checked
def run(
    module: ir.Module | str,
    arguments: Mapping[str, Any] | Sequence[Any],
    results_in: Mapping[str, Any] | None = None,
    *,
    dims: Mapping[str, Count] | None = None,
    exact: bool = False,
) -> Results:
    """Runs a `scale` module.

    Args:
        module: a module with one program, or its text.
        arguments: arrays by name or in order: ml_dtypes or numpy arrays with one element an entry, or the raw bytes
            (4-bit types: two a byte); scales in their granularity's layout; scalars as numbers. An operand of type
            tf32 is read as the f32 it is stored as.
        results_in: the result buffers, by name: only their shapes are read, where a dimension or the extent of a
            scattered result is in no argument. `+=` reads the argument of the result's name.
        dims: sizes of dimensions that no shape tells.
        exact: leave out all rounding to result types, but not that of computed operands. Results are then float64:
            what would be stored, before it is rounded. Of a quantised result the values are those divided by the
            (rounded) scales, and the scales are one float64 a block, row-major.

    Returns:
        the results by name, in their types' dtypes (scales in their layout), NaN where nothing is written (0 where
        the type has no NaN: `written` tells).

    Raises:
        ArgumentError: an argument is missing or does not fit, or a dimension's size is not told by any.
        ScalecError: an index outside a tensor, or an op that the reference does not know.
    """
    if isinstance(module, str):
        with ir_context.context():
            return run(ir_context.parse(module), arguments, results_in, dims=dims, exact=exact)
    with module.context, ir.Location.unknown():
        return _Run(find_program(module), arguments, results_in or {}, dims, exact).results()


class _Run:
    """One evaluation: `values` maps each SSA value to a Tensor, an Access (view or symbol) or a Domain."""

    def __init__(
        self,
        program: ir.OpView,
        arguments: Mapping[str, Any] | Sequence[Any],
        results_in: Mapping[str, Any],
        dims: Mapping[str, int] | None,
        exact: bool,
    ) -> None:
        self.exact = exact
        self.names = [ir.StringAttr(a).value for a in program.operation.attributes["scale.dims"]]
        self.inputs, self.outputs = signatures(program)
        self.block = program.operation.regions[0].blocks[0]
        arrays = arguments_of(arguments, self.inputs)
        self.arrays = {s.name: a for s, a in zip(self.inputs, arrays, strict=True)}
        shaped = [(s, a.shape) for s, a in zip(self.inputs, arrays, strict=True)]
        shaped += [(s, np.shape(results_in[s.name])) for s in self.outputs if s.name in results_in]
        self.sizes, self.values = bind_sizes(self.names, shaped, dims), dict[Any, Any]()
        self.apart: dict[str, Domain] = {}  # ranges of whose groups each has blocks of its own, by dimension
        for x, s, a in zip(self.block.arguments, self.inputs, arrays, strict=True):
            self.values[x] = Tensor(whole_words(s, a, self.sizes), name=s.name)
        self.quantized: list[tuple[Any, Any, Granularity, Places]] = []  # values, their scales
        self.laid: dict[Any, Array] = {}  # of results of scales that are copied, which of these are written
        self.result_shapes: dict[Any, tuple[int | None, ...]] = {}  # extents that only a result tells: scattered ones
        returned = self.block.operations[len(self.block.operations) - 1].operation.operands
        self.signatures = dict(zip([*self.block.arguments, *returned], [*self.inputs, *self.outputs], strict=True))
        for value, s in zip(returned, self.outputs, strict=True):
            if s.name in results_in:
                self.result_shapes[value] = np.shape(results_in[s.name])
            elif s.inout and s.name in self.arrays:
                self.result_shapes[value] = self.arrays[s.name].shape
            elif s.shape is not None:
                self.result_shapes[value] = tuple(extent_at(e, self.sizes) for e in s.shape.results)

    def results(self) -> Results:
        out = Results()
        for op in self.block.operations:
            name = op.operation.name
            if name == "func.return":
                names = {value: s.name for value, s in zip(op.operation.operands, self.outputs, strict=True)}
                for value, s in zip(op.operation.operands, self.outputs, strict=True):
                    result: Tensor = self.values[value]
                    out[s.name], out.written[s.name] = self._store(result, s)
                    reached = self.laid.get(value, result.written)
                    out.reached[s.name] = out.written[s.name] if reached is None else reached
                out.copied = laid.kinds(self.block, names)
                known = [x for x in self.quantized if x[0] in names and x[1] in names]
                out.scales = {names[v]: (names[of], g, places) for v, of, g, places in known}
            elif name == "arith.constant":
                self.values[op.operation.results[0]] = Tensor(np.asarray(constant(op)), name="a constant")
            elif name in _OPS:
                _OPS[name](self, op)
            else:
                raise ScalecError(f"the reference has no {name}", expected="one of " + ", ".join(_OPS))
        return out

    def _store(self, value: Tensor, s: Signature) -> tuple[Array, Array]:
        data = value.data if isinstance(value.data, np.ndarray) and not value.factors else value.dense()
        written = np.ones(data.shape, bool) if value.written is None else value.written
        if s.inout and s.name in self.arrays:
            data = np.where(written, data, self.arrays[s.name].astype(np.float64))
            written = np.ones(data.shape, bool)
        if self.exact:
            return np.where(written, data.astype(np.float64), np.nan), written
        if data.dtype != numpy_dtype(s.element):
            data = encode_scale(data, s.element) if s.element == "ue8m0" else cast(data, s.element)
        if not written.all():
            data = data.copy()
            data[~written] = np.nan if s.element in (*HAS_NAN, "ue8m0") else 0
        return data, written

    # ------------------------------------------------------------------------------------------------- helpers

    def symbols(self, op: ir.OpView) -> tuple[Access, ...]:
        return tuple(self.values[v] for v in op.symbols)

    def domains(self, op: ir.OpView) -> list[Domain]:
        return [self.values[v] for v in op.domains]

    def access(self, value: ir.Value, m: ir.AffineMap, symbols: tuple[Access, ...]) -> Access:
        return Access(self.values[value], m, symbols)

    def axis_of(self, value: ir.Value, dim: str) -> int:
        """The axis of a result, or of an argument, scaled or not, that runs along a dimension."""
        while value not in self.signatures:
            value = value.owner.operands[0]
        shape = self.signatures[value].shape
        assert shape is not None
        own = [isinstance(e, ir.AffineDimExpr) and e.position == self.names.index(dim) for e in shape.results]
        return own.index(True)

    def places_of(self, op: ir.OpView, value: ir.Value, g: Granularity, shape: Sequence[int]) -> Places:
        """`places` of each axis of a value along which its op says that groups are apart."""
        dims = {self.axis_of(value, d): d for d in apart_in(op)}
        return {axis: self.places(d, shape[axis], padded_to(g.block, g.layout, axis)) for axis, d in dims.items()}

    def places(self, dim: str, extent: int, padded: int) -> tuple[int, Array]:
        """How many elements of a dimension are counted where each group's begin at a multiple of `padded`, and which of
        these each of `extent` is; -1 for those of no group, which nothing reads."""
        domain = self.apart[dim]
        groups = self.space(domain.bound_dims())
        lower, upper = (b.ravel() for b in domain.bounds(groups))
        place = np.full(extent, -1)
        for g, (low, high) in enumerate(zip(lower, upper, strict=True)):
            inside = np.arange(max(0, low), max(0, min(high, extent)))
            place[inside] = inside - low + (low // padded + g) * padded
        return (-(-extent // padded) + len(lower)) * padded, place

    def space(self, used: set[int]) -> Space:
        """All points of the `used` dimensions; the others do not vary."""
        points = []
        for d, (name, size) in enumerate(zip(self.names, self.sizes, strict=True)):
            if d not in used:
                points.append(np.arange(1))
            elif size is not None:
                points.append(np.arange(size))
            else:
                raise ScalecError(
                    f"the size of dimension {name} is in no argument's shape",
                    fix=f"pass dims={{'{name}': ...}} or the result buffer as results_in",
                )
        return Space(tuple(points))

    def extents(self, value: ir.Value, target: Access, space: Space) -> tuple[int, ...]:
        """Extents of an op's result: from its type, a result buffer, or the largest index that is written."""
        quantised = [use.owner.results[0] for use in value.uses if use.owner.name in ("scale.quantize", "scale.round")]
        t, told = value.type, self.result_shapes.get(quantised[0] if quantised else value)
        found = []
        for axis, e in enumerate(target.map.results):
            if not t.is_dynamic_dim(axis):
                found.append(t.get_dim_size(axis))
            elif told is not None and told[axis] is not None:
                found.append(told[axis])
            else:
                index = evaluate(e, space, target.symbol_values(space))
                found.append(int(index.max()) + 1 if index.size else 0)
        return tuple(found)

    def reached(self, value: ir.Value, shape: tuple[int, ...], spanned: Sequence[int] = ()) -> Array:
        """Which elements of a result with so many are written, as if each dimension without any had one point, and
        nothing were left out of the `spanned` axes."""
        op = value.owner
        while op.name not in ("scale.map", "scale.scatter"):  # what is transformed
            op = op.operands[0].owner
        found, skips = np.zeros(shape, bool), self.values[op.result].skips
        own = map_of(op.map) if op.name == "scale.map" else maps_of(op.maps)[1]
        target = Access(Tensor(found), own, self.symbols(op))
        kept = target.dims()
        along = [ir.AffineMap.get(own.n_dims, own.n_symbols, [own.results[axis]]) for axis in spanned]
        whole = set[int]().union(*map(dims_in, along))
        skips = tuple(x for x in skips if not ({x.dim} if isinstance(x, Domain) else x.dims()) & whole)
        space = self.space(
            kept.union(*(x.bound_dims() | {x.dim} if isinstance(x, Domain) else x.dims() for x in skips))
        )
        for axis, e in enumerate(target.map.results):
            for d in dims_in(ir.AffineMap.get(target.map.n_dims, target.map.n_symbols, [e])):
                space = space if space.size(d) or not shape[axis] else space.with_points(d, np.arange(1))
        mask = np.ones((1,) * len(self.names), bool)
        for skip in skips:
            if skip.skip_dims() <= kept:
                outside = skip.skip_mask(space)
                mask = mask & ~outside.all(axis=tuple(varying(outside) - kept), keepdims=True)
        *at, chosen = np.broadcast_arrays(*target.indices(space), mask)
        found[tuple(i[chosen] for i in at)] = True
        return found

    def output(
        self, value: ir.Value, m: ir.AffineMap, symbols: tuple[Access, ...], space: Space, fill: float
    ) -> Access:
        """A result to fill, nothing of it written yet, seen through its map."""
        empty = Access(Tensor(np.zeros(())), m, symbols)
        shape = self.extents(value, empty, space)
        return Access(Tensor(np.full(shape, fill), written=np.zeros(shape, bool), name="the result"), m, symbols)


def _index(run: _Run, op: ir.OpView) -> None:
    run.values[op.result] = run.access(op.tensor, map_of(op.map), run.symbols(op))


def _size(run: _Run, op: ir.OpView) -> None:
    size = run.sizes[run.names.index(ir.StringAttr(op.dim).value)]
    if size is None:
        raise ScalecError(f"the size of dimension {op.dim} is in no argument's shape")
    none = ir.AffineMap.get(len(run.names), 0, [])
    run.values[op.result] = Access(Tensor(np.asarray(size, np.int64), name=f"size({op.dim})"), none, ())


def _read(run: _Run, op: ir.OpView) -> None:
    run.values[op.result] = run.access(op.source, map_of(op.map), run.symbols(op))


def _domain(run: _Run, op: ir.OpView) -> None:
    dim = run.names.index(ir.StringAttr(op.dim).value)
    domain = run.values[op.result] = Domain(dim, map_of(op.lower), map_of(op.upper), run.symbols(op))
    if "apart" in op.operation.attributes:
        run.apart[run.names[dim]] = domain


def _dequantize(run: _Run, op: ir.OpView) -> None:
    g = granularity_of(op.granularity)
    values, scales = run.values[op.values], run.values[op.scales]
    shape = values.data.shape
    block, places = block_shape(g, shape), run.places_of(op, op.values, g, shape)
    each = from_layout(scales.data, g.layout, scale_shape(block, counted(shape, places)), g.type)
    factor = Factor(each, block, tuple(size == WHOLE for size in g.block), {a: at for a, (_, at) in places.items()})
    made = Tensor(values.data, (*values.factors, factor), values.written, values.name)
    if (to := element_name(op.result.type.element_type)) != "f32":  # once, of the product that float64 has exactly
        made = Tensor(round_to(made.dense(), to), (), values.written, values.name)
    run.values[op.result] = made


def _contract(run: _Run, op: ir.OpView) -> None:
    maps, symbols, domains = maps_of(op.maps), run.symbols(op), run.domains(op)
    lhs, rhs = run.access(op.lhs, maps[0], symbols), run.access(op.rhs, maps[1], symbols)
    used = lhs.dims() | rhs.dims() | Access(Tensor(np.zeros(())), maps[2], symbols).dims()
    for d in domains:
        used |= {d.dim} | d.bound_dims()
    space = run.space(used)
    out = run.output(op.result, maps[2], symbols, space, 0.0)
    contract(lhs, rhs, out, domains, space)
    kept = out.dims()
    skips = tuple(x for x in _skips([lhs, rhs, out], domains) if x.skip_dims() <= kept)
    run.values[op.result] = replace(out.tensor, skips=skips)


def _assign(out: Access, space: Space, mask: Array, values: Array) -> None:
    """Writes values (over the space) to the points of the result that the mask leaves."""
    index = np.broadcast_arrays(*out.indices(space), mask & ~out.behind(space), values)
    *at, chosen, data = index
    target, written = out.tensor.data, out.tensor.written
    assert written is not None
    if not at:
        if chosen.any():
            target[...], written[...] = data.ravel()[0], True
        return
    where = tuple(i[chosen] for i in at)
    if any(i.size and (i.min() < 0 or i.max() >= n) for i, n in zip(where, target.shape, strict=True)):
        got = "x".join(str(int(i.max()) + 1) for i in where)
        raise ScalecError("the result is written outside its bounds", got=got, expected=f"{target.shape}")
    target[where], written[where] = data[chosen], True


def _map(run: _Run, op: ir.OpView) -> None:
    symbols, domains = run.symbols(op), run.domains(op)
    views = [run.values[v] for v in op.views]
    target = Access(Tensor(np.zeros(())), map_of(op.map), symbols)
    kept = target.dims()
    used = kept.union(*(v.dims() for v in views), *({d.dim} | d.bound_dims() for d in domains))
    space = run.space(used)
    out = run.output(op.result, map_of(op.map), symbols, space, np.nan)
    block, outer = op.body.blocks[0], {v: t.data for v, t in run.values.items() if isinstance(t, Tensor)}
    exact = run.exact and not _multiplied(op.result)
    for box, masked in regions(space, domains, kept):
        for cell in _each(box, {d for d in used - kept if box.size(d) != 1}):
            for piece in cell.chunks(kept, CHUNK):
                if any(piece.size(d) == 0 for d in used):
                    continue
                mask = point_mask(views, masked, piece, kept)
                for s in out.skipped(piece):
                    mask = mask & ~s
                values = evaluate_body(block, [v.values(piece) for v in views], outer, exact)
                _assign(out, piece, mask, values.reshape((1,) * len(piece.points)) if not values.ndim else values)
    data, written = out.tensor.data, out.tensor.written
    assert written is not None
    skips = _skips([*views, out], domains)
    if "otherwise" in op.operation.attributes:
        data[~written] = ir.FloatAttr(op.operation.attributes["otherwise"]).value
        written[...], skips = True, ()
    run.values[op.result] = Tensor(data, written=None if written.all() else written, skips=skips)


def _multiplied(value: ir.Value) -> bool:
    """Whether a contraction multiplies it: what it is rounded to is then no result's type, but part of the program."""
    return any(use.owner.name == "scale.contract" for use in value.uses)


def _skips(accesses: Sequence[Access], domains: Sequence[Domain]) -> tuple[Access | Domain, ...]:
    """What leaves points of an op unwritten: indices that its accesses use, ranges, and what left out what it reads."""
    own = [a.symbols[i] for a in accesses for i in sorted(symbols_in(a.map))]
    return (*own, *domains, *(x for a in accesses for x in a.tensor.skips))


def _each(space: Space, dims: set[int]) -> list[Space]:
    """One box for each point of `dims`."""
    boxes = [space]
    for d in sorted(dims):
        boxes = [b.with_points(d, np.array([p])) for b in boxes for p in b.points[d]]
    return boxes


REDUCTIONS: dict[str, tuple[np.ufunc, float]] = {
    "sum": (np.add, 0.0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}


def _reduce(run: _Run, op: ir.OpView) -> None:
    kind = ir.StringAttr(op.kind).value
    if kind == "sum_exp":  # which passes write
        _reduced(run, op, "max")
    _reduced(run, op, kind.removesuffix("_exp"), run.values[op.result] if kind == "sum_exp" else None)


def _reduced(run: _Run, op: ir.OpView, kind: str, largest: Any = None) -> None:
    """A reduction; with the `largest` of its terms of exp(term - that)."""
    maps, symbols, domains = maps_of(op.maps), run.symbols(op), run.domains(op)
    combine, identity = REDUCTIONS[kind]
    source = run.access(op.input, maps[0], symbols)
    kept = Access(Tensor(np.zeros(())), maps[1], symbols).dims()
    ranges = [*domains, *(x for x in source.tensor.skips if isinstance(x, Domain))]
    space = run.space((kept | source.dims()).union(*({d.dim} | d.bound_dims() for d in ranges)))
    out = run.output(op.result, maps[1], symbols, space, identity)
    reduced = source.dims() - kept
    whole = Access(replace(source.tensor, written=None), source.map, source.symbols)
    for box, masked in regions(space, domains, kept):
        for piece in box.chunks(kept, CHUNK // max(1, int(np.prod([box.size(d) for d in reduced]))) + 1):
            if any(piece.size(d) == 0 for d in kept):
                continue
            # what is left out along what is summed over leaves terms out: a sum of none is written too
            mask = point_mask([whole], masked, piece, kept)
            for skip in source.tensor.skips:
                if skip.skip_dims() <= kept:
                    outside = skip.skip_mask(piece)
                    mask = mask & ~outside.all(axis=tuple(varying(outside) - kept), keepdims=True)
            values = source.values(piece)
            if largest is not None:
                values = np.exp(values - Access(largest, maps[1], symbols).values(piece))
            absent = np.zeros((1,) * len(piece.points), bool)
            for s in source.skipped(piece):
                absent = absent | s
            missing = source.missing(piece)
            values = np.where(absent if missing is None else absent | missing, identity, values)
            axes = tuple(d for d in sorted(reduced) if d < values.ndim)
            part = combine.reduce(values, axis=axes, keepdims=True, initial=identity)
            before = Access(Tensor(out.tensor.data), out.map, symbols).values(piece)
            _assign(out, piece, mask, combine(before, part))
    written = out.tensor.written
    assert written is not None
    skips = tuple(x for x in _skips([source], domains) if x.skip_dims() <= kept)
    run.values[op.result] = Tensor(out.tensor.data, written=None if written.all() else written, skips=skips)


def _scatter(run: _Run, op: ir.OpView) -> None:
    maps, symbols, domains = maps_of(op.maps), run.symbols(op), run.domains(op)
    source = run.access(op.input, maps[0], symbols)
    target = Access(Tensor(np.zeros(())), maps[1], symbols)
    kept = source.dims() | target.dims()
    used = kept.union(*({d.dim} | d.bound_dims() for d in domains))
    space = run.space(used)
    out = run.output(op.result, maps[1], symbols, space, np.nan)
    for box, masked in regions(space, domains, kept):
        for piece in box.chunks(kept, CHUNK):
            if any(piece.size(d) == 0 for d in used):
                continue
            mask = point_mask([source], masked, piece, kept)
            for s in out.skipped(piece):
                mask = mask & ~s
            _assign(out, piece, mask, source.values(piece))
    written = out.tensor.written
    assert written is not None
    skips = _skips([source, out], domains)
    run.values[op.result] = Tensor(out.tensor.data, written=None if written.all() else written, skips=skips)


_OPS: dict[str, Callable[[_Run, ir.OpView], None]] = {
    "scale.index": _index,
    "scale.size": _size,
    "scale.read": _read,
    "scale.domain": _domain,
    "scale.dequantize": _dequantize,
    "scale.contract": _contract,
    "scale.map": _map,
    "scale.reduce": _reduce,
    "scale.scatter": _scatter,
    **rounding.OPS,
    **laid.OPS,
    **zero_points.OPS,
}
