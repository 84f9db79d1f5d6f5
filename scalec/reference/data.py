"""Inputs for a program, made so that a wrong scale index shows.

Every row, every chunk of 64 rows and every K block has its own magnitude, spread over several powers of two: public
kernels passed checks on plain normal data with wrong scale slices. Scales at the strides of likely mistakes (next
row, block, core matrix, chunk, tile) rarely meet; that no two of thousands nearly coincide is not promised, nor
possible (tests/reference/test_data.py has the measured shares). Operands are then quantised for real, by
`scalec.reference.quantize`. Index tensors are valid, with empty groups and skipped entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec.arguments import checked
from scalec.errors import ScalecError
from scalec.formats import Granularity, padded_to
from scalec.ir.mlir import ir
from scalec.ir.scale import apart_in, dims_read, map_of, maps_of
from scalec.reference.bind import Signature, extent_at, find_program, granularity_of, signatures, solve_sizes
from scalec.reference.packing import Count, numpy_dtype, to_layout, to_order, to_words
from scalec.reference.quantize import block_shape, cast, encode_scale, quantize, scale_shape, spread
from scalec.reference.space import Space, evaluate

Array = NDArray[Any]

CHUNK_ROWS = 64  # rows of one warpgroup's wgmma: the chunk that a wrong row offset is off by
K_BLOCK = 64  # along the last index of a tensor without scales
SPREAD = 5  # magnitudes cycle through this many powers of two; coprime to the power-of-two strides of tiles
STEPS = (2, 1, 3, 4)  # how far one block along the last, second last, ... index moves in that cycle


@dataclass
class _Use:
    """What the program does with an index tensor.

    Attributes:
        pool: extents of the tensor axes that it indexes; the smallest bounds its entries.
        scatter: whether results are written where it says: entries must differ.
        lower: the dimensions it is the lower bound of, with the tensor of the upper bound.
        upper: the dimensions it is the upper bound of, with the tensor of the lower bound or None.
    """

    pool: list[ir.AffineExpr] = field(default_factory=list)
    scatter: bool = False
    lower: list[tuple[str, str]] = field(default_factory=list)
    upper: list[tuple[str, str | None]] = field(default_factory=list)


@dataclass
class _Zeros:
    """Zero points of a tensor: in a tensor, at a map of the other's indices, each `number` more than is stored, or that
    number."""

    tensor: Signature | None
    map: ir.AffineMap | None
    number: int = 0


class _Program:
    """What `make` needs to know of a program: signatures, scales of each operand, uses of each index tensor."""

    def __init__(self, module: ir.Module) -> None:
        program = find_program(module)
        self.dims = [ir.StringAttr(a).value for a in program.operation.attributes["scale.dims"]]
        self.inputs, self.outputs = signatures(program)
        block = program.operation.regions[0].blocks[0]
        self.sources: dict[Any, Signature] = dict(zip(block.arguments, self.inputs, strict=True))
        self.levels: dict[str, list[tuple[str, Granularity]]] = {}
        self.zeros: dict[str, _Zeros] = {}  # of each tensor that has them, its zero points
        self.outer: set[str] = set()  # given scales of whole results
        self.apart: dict[str, list[str]] = {}  # of each tensor, the dimensions whose groups have blocks of their own
        self.groups: dict[str, int] = {}  # by such a dimension, the position of the one that tells its groups apart
        self.random: set[str] = set()  # what random bits are made of
        self.copied: dict[str, Granularity] = {}  # scales that are
        self.uses: dict[str, _Use] = {}
        self.symbols: dict[Any, str] = {}
        self.rising: dict[str, int] = {}  # the axis of offsets along which the groups of a range follow one another
        self.steps: dict[str, int] = {}  # what the bounds of a dimension's range are promised to be multiples of
        returned = block.operations[len(block.operations) - 1].operation.operands
        self.results = dict(zip(returned, self.outputs, strict=True))
        for op in block.operations:  # what is scattered before it is quantised has the extents of the result
            if op.operation.name in ("scale.quantize", "scale.round") and op.operation.results[0] in self.results:
                self.results[op.input] = self.results[op.operation.results[0]]
        for op in block.operations:
            self._visit(op)

    def _visit(self, op: ir.OpView) -> None:
        name = op.operation.name
        if name == "scale.dequantize":
            source = self.sources.get(op.values)
            scales = self.sources.get(op.scales)
            if source is not None:
                self.sources[op.result] = source
            if source is not None and scales is not None:
                levels = self.levels.setdefault(source.name, [])
                if all(known != scales.name for known, _ in levels):
                    levels.append((scales.name, granularity_of(op.granularity)))
                if apart := apart_in(op):
                    self.apart[source.name] = apart
        elif name == "scale.subtract":
            source, attributes = self.sources.get(op.values), op.operation.attributes
            if source is not None:
                self.sources[op.result] = source
                said = "plus" if len(op.zeros) else "number"
                number = ir.IntegerAttr(attributes[said]).value if said in attributes else 0
                if len(op.zeros):
                    self.zeros[source.name] = _Zeros(self.sources[op.zeros[0]], map_of(attributes["map"]), number)
                else:
                    self.zeros[source.name] = _Zeros(None, None, number)
        elif name == "scale.quantize":
            if (source := self.sources.get(op.input)) is not None:  # an operand that is quantised anew
                self.sources[op.values] = source
            self.outer |= {self.sources[v].name for v in op.outer if v in self.sources}
            self.random |= {self.symbols[v] for v in op.words}
        elif name == "scale.round":
            self.random |= {self.symbols[v] for v in op.words}
        elif name == "scale.lay":
            maps = maps_of(op.maps)
            self.copied[self.sources[op.input].name] = granularity_of(op.kinds[0])
            self._maps(op, [(op.input, maps[0]), (op.result, maps[1])])
        elif name == "scale.index":
            self.symbols[op.result] = self.sources[op.tensor].name
            self._maps(op, [(op.tensor, map_of(op.map))])
        elif name == "scale.read":
            self._maps(op, [(op.source, map_of(op.map))])
        elif name == "scale.contract":
            maps = maps_of(op.maps)
            self._maps(op, [(op.lhs, maps[0]), (op.rhs, maps[1])])
        elif name == "scale.reduce":
            self._maps(op, [(op.input, maps_of(op.maps)[0])])
        elif name == "scale.scatter":
            maps = maps_of(op.maps)
            self._maps(op, [(op.input, maps[0]), (op.result, maps[1])])
        elif name == "scale.domain":
            self._bounds(op)

    def _use(self, symbol: ir.Value) -> _Use:
        return self.uses.setdefault(self.symbols[symbol], _Use())

    def _maps(self, op: ir.OpView, accesses: Sequence[tuple[ir.Value, ir.AffineMap]]) -> None:
        symbols = list(op.symbols)
        for value, m in accesses:
            known = self.sources.get(value) or self.results.get(value)
            for axis, e in enumerate(m.results):
                if isinstance(e, ir.AffineSymbolExpr):
                    use = self._use(symbols[e.position])
                    use.scatter |= value not in self.sources
                    if known is not None and known.shape is not None:
                        use.pool.append(known.shape.results[axis])

    def _bounds(self, op: ir.OpView) -> None:
        symbols, dim = list(op.symbols), ir.StringAttr(op.dim).value
        if "apart" in op.operation.attributes:
            (self.groups[dim],) = dims_read(map_of(op.lower), symbols)
        if "by" in op.operation.attributes:
            self.steps[dim] = ir.IntegerAttr(op.operation.attributes["by"]).value
        found = []
        for m in (map_of(op.lower), map_of(op.upper)):
            e = m.results[0]
            found.append(symbols[e.position] if isinstance(e, ir.AffineSymbolExpr) else None)
        lower, upper = (None if s is None else self.symbols[s] for s in found)
        if lower is not None and lower == upper:
            ends = [map_of(s.owner.opview.map).results for s in found if s is not None]
            differ = [axis for axis, (one, other) in enumerate(zip(*ends, strict=True)) if one != other]
            self.rising[lower] = differ[0] if differ else 0
        if found[0] is not None and upper is not None:
            self._use(found[0]).lower.append((dim, upper))
        if found[1] is not None:
            self._use(found[1]).upper.append((dim, lower))


def _magnitude(shape: Sequence[int], block: Sequence[int], rng: np.random.Generator) -> Array:
    """A power of two an element, float32, broadcastable to `shape`: own to its block, its row and its chunk."""
    cycle: Any = int(rng.integers(SPREAD))
    rank = len(shape)
    for axis, (n, b) in enumerate(zip(shape, block, strict=True)):
        step = STEPS[(rank - 1 - axis) % len(STEPS)]
        lay = (-1,) + (1,) * (rank - 1 - axis)
        cycle = cycle + (np.arange(n, dtype=np.int32) // b * step).astype(np.int8 if n // b < 30 else np.int32).reshape(
            lay
        )
    rows = np.arange(shape[-2]) if rank > 1 else np.zeros(1, np.int64)
    alone = rank > 1 and block[-2] == 1
    if alone:  # a chunk moves the same cycle: a cycle of its own would cancel it at some strides
        cycle = cycle + (rows // CHUNK_ROWS * 2)[:, None]
    exponent = np.asarray(cycle % SPREAD, np.int8) - SPREAD // 2
    if rank > 1 and not alone:  # rows that share a block's scale differ within it
        exponent = exponent + ((rows + rows // CHUNK_ROWS) % 3 - 1).astype(np.int8)[:, None]
    return np.exp2(exponent.astype(np.float32))


def _floats(shape: tuple[int, ...], block: Sequence[int], rng: np.random.Generator) -> Array:
    x = rng.standard_normal(shape, np.float32) * _magnitude(shape, block, rng)
    # f32 scales are no powers of two: each block has a factor of its own
    factors = np.exp2(rng.uniform(-0.5, 0.5, scale_shape(block, shape))).astype(np.float32)
    x *= spread(factors, block, shape)
    return x


def _calibrated(program: _Program, sizes: Sequence[int | None], rng: np.random.Generator, exact: bool) -> float:
    """A scale of a whole result for which few of its blocks' scales saturate or are 0: it grows as sums over what the
    result does not have."""
    indices = [e for s in program.outputs if s.shape is not None for e in s.shape.results]
    kept = {e.position for e in indices if isinstance(e, ir.AffineDimExpr)}
    reduced = np.prod([float(n) for d, n in enumerate(sizes) if n and d not in kept])
    value = np.sqrt(reduced) / 16 * np.exp2(rng.uniform(0, 1))
    return float(np.exp2(np.round(np.log2(value)))) if exact else float(value)


def _integers(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return rng.integers(-2, 3, shape, dtype=np.int8).astype(np.float32)


def _operand(
    s: Signature,
    shape: tuple[int, ...],
    levels: Sequence[tuple[str, Granularity]],
    rng: np.random.Generator,
    exact: bool,
    groups: Mapping[int, int],
) -> dict[str, Array]:
    """A tensor and, where it has levels, its scales. Along some axes so many `groups` have blocks of their own: it is
    the beginning of one that has whole blocks for each, so that all that pads them has scales of some blocks, too."""
    if groups:
        return _apart(s, shape, levels, rng, exact, groups)
    if not levels:
        block = (1,) * (len(shape) - 1) + (K_BLOCK,)
        if exact:
            return {s.name: cast(_integers(shape, rng), s.element)}
        x = _floats(shape, block[len(block) - len(shape) :], rng)
        return {s.name: cast(x * 16 if s.element == "i8" else x, s.element)}
    granularities = [g for _, g in levels]
    if exact:
        out = {s.name: cast(_integers(shape, rng), s.element)}
        for name, g in levels:
            block = block_shape(g, shape)
            blocks = scale_shape(block, shape)
            cycle = np.indices(blocks).sum(axis=0) + (np.indices(blocks)[-2] // CHUNK_ROWS if len(blocks) > 1 else 0)
            out[name] = to_layout(encode_scale(np.exp2((cycle + rng.integers(3)) % 3 - 1.0), g.type), g.layout)
        return out
    q = quantize(_floats(shape, block_shape(granularities[0], shape), rng), s.element, granularities)
    return {s.name: q.values, **{name: a for (name, _), a in zip(levels, q.memory(), strict=True)}}


def _shifted(
    s: Signature, made: dict[str, Array], zeros: _Zeros, full: tuple[int, ...], rng: np.random.Generator
) -> None:
    """Adds zero points to a tensor's elements, which are then less them what they were, or as near as the type has; and
    makes those zero points: each row and block has its own."""
    low, high = _CODES[s.element]
    shift: Any = zeros.number
    if zeros.tensor is not None:
        assert zeros.map is not None
        if zeros.tensor.name not in made:
            least, most = _CODES[zeros.tensor.element]
            made[zeros.tensor.name] = rng.integers(least, most + 1, full).astype(numpy_dtype(zeros.tensor.element))
        points = Space(tuple(np.arange(n) for n in made[s.name].shape))
        at = tuple(evaluate(e, points, ()) for e in zeros.map.results)
        shift = made[zeros.tensor.name].astype(np.int32)[at] + zeros.number
    codes = np.clip(made[s.name].astype(np.int32) + shift, low, high)
    made[s.name] = codes.astype(np.int8).astype(numpy_dtype(s.element))


def _in_memory(s: Signature, a: Array) -> Array:
    """In words, or in an order, of which the last have all bits where no element is."""
    if s.whole == 1:
        return a
    whole = np.full((*a.shape[:-1], a.shape[-1] + -a.shape[-1] % s.whole), 0xF, np.uint8)
    whole[..., : a.shape[-1]] = a.view(np.uint8)
    stored = whole.view(a.dtype)
    return to_words(stored) if s.layout == "words" else to_order(stored, s.order)


_CODES = {"u4": (0, 15), "i4": (-8, 7), "i8": (-20, 36)}
"""Between what elements and zero points are made: of 8 bits some beyond those of 4."""


def _apart(
    s: Signature,
    shape: tuple[int, ...],
    levels: Sequence[tuple[str, Granularity]],
    rng: np.random.Generator,
    exact: bool,
    groups: Mapping[int, int],
) -> dict[str, Array]:
    """`_operand` with groups."""

    def counted(g: Granularity) -> tuple[int, ...]:
        padded = [padded_to(g.block, g.layout, axis) if axis in groups else 1 for axis in range(len(shape))]
        return tuple(
            n if p == 1 else (-(-n // p) + groups[a]) * p for a, (n, p) in enumerate(zip(shape, padded, strict=True))
        )

    whole = tuple(map(max, zip(*(counted(g) for _, g in levels), strict=True)))
    plain = [(name, replace(g, layout="row")) for name, g in levels]
    made = _operand(s, whole, plain, rng, exact, {})
    made[s.name] = np.ascontiguousarray(made[s.name][tuple(map(slice, shape))])
    for name, g in levels:
        own = scale_shape(block_shape(g, shape), counted(g))
        made[name] = to_layout(np.ascontiguousarray(made[name][tuple(map(slice, own))]), g.layout)
    return made


def _with_skips(a: Array, rng: np.random.Generator) -> Array:
    """About one entry in eight -1; none of fewer than four."""
    if a.size >= 4:
        a.ravel()[rng.permutation(a.size)[: max(1, a.size // 8)]] = -1
    return a


def _offsets(shape: tuple[int, ...], size: int, align: int, rng: np.random.Generator) -> Array:
    """Bounds of contiguous groups: sorted, from 0, with an empty group, up to `size` or (half the time) before it."""
    groups = shape[-1] - 1
    top = size if rng.integers(2) else size - size // 16
    cuts = np.sort(rng.integers(0, top // align + 1, (*shape[:-1], max(groups - 1, 0))) * align, axis=-1)
    if groups >= 3:
        cuts[..., 1] = cuts[..., 0]
    ends = np.full((*shape[:-1], 1), top // align * align if top < size else size)
    return np.concatenate([np.zeros_like(ends), cuts, ends], axis=-1)[..., : shape[-1]].astype(np.int32)


def _index(
    name: str, program: _Program, sizes: Sequence[int | None], shape: tuple[int, ...], made: Mapping[str, Array],
    align: Mapping[str, int], rng: np.random.Generator,
) -> Array:  # fmt: skip
    use = program.uses.get(name, _Use())
    for dim, other in use.lower:
        size = sizes[program.dims.index(dim)] or 0
        if other == name:
            axis = program.rising.get(name, len(shape) - 1)
            last = (*shape[:axis], *shape[axis + 1 :], shape[axis])
            return np.ascontiguousarray(np.moveaxis(_offsets(last, size, align.get(dim, 1), rng), -1, axis))
        step = align.get(dim, 1)
        return (rng.integers(0, size // 2 + 1, shape) // step * step).astype(np.int32)
    for dim, other in use.upper:
        size = sizes[program.dims.index(dim)] or 0
        low = made[other] if other is not None and other in made else np.zeros(shape, np.int32)
        if low.shape != shape:  # bounds of other indices: above all that this one may belong to
            low = np.full(shape, low.max(initial=0), np.int32)
        high = rng.integers(low, size + 1, shape).astype(np.int32)
        if high.size >= 2:  # an empty range and a full one
            at = rng.permutation(high.size)
            high.ravel()[at[0]], high.ravel()[at[1]] = low.ravel()[at[0]], size
        step = align.get(dim, 1)
        return np.where(high == size, high, np.maximum(low, high // step * step)).astype(np.int32)
    extents = [n for e in use.pool if (n := extent_at(e, sizes)) is not None]
    pool, count = min(extents, default=1), int(np.prod(shape))
    if not pool:  # a tensor without rows: all entries skip
        return np.full(shape, -1, np.int32)
    if use.scatter:
        entries = np.full(max(count, pool), -1, np.int32)
        entries[:pool] = rng.permutation(pool)
        return _with_skips(entries[:count].reshape(shape), rng)
    if len(shape) > 1 and count <= pool:  # a page table: no two sequences share a page
        return _with_skips(rng.permutation(pool)[:count].astype(np.int32).reshape(shape), rng)
    return _with_skips(rng.integers(0, pool, shape).astype(np.int32), rng)


def _shape(s: Signature, sizes: Sequence[int | None]) -> tuple[int | None, ...]:
    if s.shape is None:
        return s.static
    found = [extent_at(e, sizes) for e in s.shape.results]
    return tuple(n if n is not None else fixed for n, fixed in zip(found, s.static, strict=True))


def _groups(program: _Program, s: Signature, sizes: Sequence[int | None]) -> dict[int, int]:
    """Along which axes of a tensor groups have blocks of their own, and how many groups there are."""
    found: dict[int, int] = {}
    for name in program.apart.get(s.name, ()):
        assert s.shape is not None
        position, count = program.dims.index(name), sizes[program.groups[name]]
        along = [isinstance(e, ir.AffineDimExpr) and e.position == position for e in s.shape.results]
        found[along.index(True)] = count or 0
    return found


def _fill_pools(program: _Program, sizes: list[int | None]) -> None:
    """A size for each dimension that only an index tensor reaches: as many as that tensor has entries."""
    entries = {s.name: _shape(s, sizes) for s in program.inputs}
    for name, use in program.uses.items():
        shape = entries.get(name, ())
        if any(n is None for n in shape):
            continue
        count = max(1, int(np.prod([n for n in shape if n is not None])))
        for e in use.pool:
            if isinstance(e, ir.AffineDimExpr) and sizes[e.position] is None:
                sizes[e.position] = count


@checked
def make(
    module: ir.Module,
    dims: Mapping[str, Count] | None = None,
    seed: Count = 0,
    *,
    exact: bool = False,
    align: Mapping[str, Count] | None = None,
) -> dict[str, Array]:
    """Arguments for a program.

    Args:
        module: a `scale` module with `scale.name` and `scale.shape` on its arguments (what the front end builds).
        dims: sizes of the dimensions, in elements. Static extents need none; a dimension that only an index tensor
            reaches (`B_0` of `B[e[m/128],n,k]`) defaults to as many as that tensor has entries.
        seed: of numpy's Generator; the same seed makes the same arguments.
        exact: small integers and scales that are powers of two: every product and sum is exact in f32, so that
            results compare bit for bit.
        align: for a dimension of ragged groups, what their bounds are a multiple of; else what the program promises.

    Returns:
        an array for each argument, by name and in order: ml_dtypes or numpy, one element an entry
        (`scalec.reference.storage` packs 4-bit ones); scales in their granularity's layout; a scalar as a 0-d
        float32.

    Raises:
        ScalecError: where a size is missing.
    """
    program = _Program(module)
    rng = np.random.default_rng(seed)
    sizes: list[int | None] = [(dims or {}).get(d) for d in program.dims]
    known = [
        (e, n)
        for s in program.inputs + program.outputs
        if s.shape is not None
        for e, n in zip(s.shape.results, s.static, strict=True)
        if n is not None
    ]
    solve_sizes(sizes, known)
    _fill_pools(program, sizes)
    scales = {name for levels in program.levels.values() for name, _ in levels}
    made: dict[str, Array] = {}
    for s in program.inputs:
        if s.name in scales or s.name in made:
            continue
        shape = _shape(s, sizes)
        if any(n is None for n in shape):
            unknown = [d for d, n in zip(program.dims, sizes, strict=True) if n is None]
            raise ScalecError(
                f"the shape of {s.name} needs more sizes", got=f"none for {', '.join(unknown)}", fix="give them in dims"
            )
        full = tuple(n for n in shape if n is not None)
        if s.name in program.copied:  # powers of two that all types of scales have
            g = program.copied[s.name]
            each = np.exp2(rng.integers(-6, 9, (*full[:-1], full[-1] * (4 if g.layout == "packed" else 1))) * 1.0)
            made[s.name] = to_layout(encode_scale(each, g.type), g.layout)
        elif not s.tensor:
            made[s.name] = np.asarray(0.5 if exact else rng.uniform(0.5, 1.5), np.float32)
        elif s.name in program.outer:
            made[s.name] = np.full(full, _calibrated(program, sizes, rng, exact), np.float32)
        elif s.name in program.random:
            made[s.name] = rng.integers(-(1 << 31), 1 << 31, full).astype(np.int32)
        elif s.element == "i32" and s.name in program.uses:
            made[s.name] = _index(s.name, program, sizes, full, made, {**program.steps, **(align or {})}, rng)
        else:
            levels = program.levels.get(s.name, ())
            zeros = program.zeros.get(s.name)
            signed = s if zeros is None else replace(s, element="i4")
            made.update(_operand(signed, full, levels, rng, exact, _groups(program, s, sizes)))
            if zeros is not None:
                own = () if zeros.tensor is None else _shape(zeros.tensor, sizes)
                if any(n is None for n in own):
                    raise ScalecError(f"the shape of {s.name}'s zero points needs more sizes", fix="give them in dims")
                _shifted(s, made, zeros, tuple(n for n in own if n is not None), rng)
    return {s.name: _in_memory(s, made[s.name]) for s in program.inputs}
