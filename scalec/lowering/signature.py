"""The kernel spec: what callers pass, what the kernel's parameters are made of, how it is launched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scalec import abi
from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, PER_WORD, WORDS
from scalec.ir import scale, tile
from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.ir.tile_control import parts_of
from scalec.lowering.reads import counted, partial
from scalec.lowering.reads import reads as reads_of
from scalec.passes.plan.counting import partial_words
from scalec.passes.plan.fold_parts import fold_counters, fold_words
from scalec.passes.plan.pointwise import Spread
from scalec.passes.plan.reductions import band_counters, bands
from scalec.passes.problem.operand import Product
from scalec.passes.problem.pointwise import Pointwise
from scalec.passes.problem.types import Problem
from scalec.reads import Reads


def _text(attributes: dict[str, ir.Attribute], name: str, otherwise: str = "") -> str:
    return ir.StringAttr(attributes[name]).value if name in attributes else otherwise


def _extent(e: ir.AffineExpr, dims: list[str], tensor: str) -> abi.Extent:
    if isinstance(e, ir.AffineDimExpr):
        return abi.Extent(dims[e.position])
    if isinstance(e, ir.AffineConstantExpr):
        return abi.Extent(size=e.value)
    if isinstance(e, ir.AffineCeilDivExpr):
        inner, divisor = e.lhs, e.rhs.value
        while isinstance(inner, ir.AffineCeilDivExpr):  # ceil(ceil(k/32)/4) is ceil(k/128)
            inner, divisor = inner.lhs, divisor * inner.rhs.value
        if isinstance(inner, ir.AffineDimExpr):
            return abi.Extent(dims[inner.position], divisor=divisor)
    found = _terms(e, dims)
    if found is not None:
        return abi.Extent(size=found[1], terms=found[0])
    raise UnsupportedError(
        f"{tensor} has an extent of {scale.written(e, dims)}",
        expected="a dimension, a number, ceil(dimension/number), or a sum of multiples of these",
        fix=f"index {tensor} by dimensions alone, or by one divided by a number",
    )


def _terms(e: ir.AffineExpr, dims: list[str]) -> tuple[tuple[abi.Term, ...], int] | None:
    """An extent as a sum of terms and a number, None where it is none."""
    if isinstance(e, ir.AffineDimExpr):
        return (abi.Term(dims[e.position]),), 0
    if isinstance(e, ir.AffineConstantExpr):
        return (), e.value
    left = _terms(e.lhs, dims) if isinstance(e, ir.AffineBinaryExpr) else None
    right = _terms(e.rhs, dims) if isinstance(e, ir.AffineBinaryExpr) else None
    if left is None or right is None:
        return None
    if isinstance(e, ir.AffineAddExpr):
        return (*left[0], *right[0]), left[1] + right[1]
    if right[0]:
        return None
    (terms, constant), by = left, right[1]
    if isinstance(e, ir.AffineMulExpr):
        return tuple(replace(t, factor=t.factor * by) for t in terms), constant * by
    whole = len(terms) == 1 and terms[0].factor > 0 and by % terms[0].factor == 0
    if isinstance(e, ir.AffineCeilDivExpr) and whole:  # ceil((2*ceil(n/16) + 3)/128) is ceil((n + 2*16)/(64*16))
        (term,) = terms
        offset = term.offset - (-constant // term.factor) * term.divisor
        return (replace(term, factor=1, offset=offset, divisor=by // term.factor * term.divisor),), 0
    return None


def _extents(m: ir.AffineMap, dims: list[str], tensor: str, layout: str, order: int) -> tuple[abi.Extent, ...]:
    """The extents of a tensor in memory: as the program indexes it, but in words [k/8, n, 8] for [n, k], or of the
    last index a multiple of what has an `order`, unless that is 0."""
    extents = list(m.results)
    if order:
        extents[-1] = ir.AffineExpr.get_mul(ir.AffineExpr.get_ceil_div(extents[-1], order), order)
    if layout == WORDS:
        *outer, rows, k = extents
        extents = [*outer, ir.AffineExpr.get_ceil_div(k, PER_WORD), rows, ir.AffineExpr.get_constant(PER_WORD)]
    return tuple(_extent(e, dims, tensor) for e in extents)


# a type name that MLIR has no type of its own for is told by its first row (e4m3 before ue4m3)
_NAMES = {t.mlir: t.name for t in reversed(ELEMENT_TYPES.values())}


def tensors(
    function: ir.OpView,
) -> tuple[tuple[abi.TensorSpec, ...], tuple[abi.TensorSpec, ...], tuple[abi.View, ...]]:
    """(operands, results, parts of operands) of a program; alignments are not known yet (1)."""
    dims = scale.program_dims(function)
    block = function.body.blocks[0]

    scales = {
        op.scales: ir.StringAttr(scale.GranularityAttr(op.granularity).type).value
        for op in block.operations
        if op.operation.name in ("scale.dequantize", "scale.quantize")
    }
    for op in (x for x in block.operations if x.operation.name == "scale.lay"):
        for value, kind in zip((op.input, op.result), op.kinds, strict=True):
            scales[value] = ir.StringAttr(scale.GranularityAttr(kind).type).value

    def dtype(value: ir.Value) -> str:
        """The language's name: MLIR has one type for e4m3 and ue4m3, and granularities say which it is."""
        name = _NAMES[str(scale.element(value.type))]
        said = scales.get(value, name)
        return said if ELEMENT_TYPES[said].mlir == ELEMENT_TYPES[name].mlir else name

    def specs(values: Sequence[ir.Value], key: str, result: bool = False) -> list[abi.TensorSpec]:
        made = []
        for i, value in enumerate(values):
            t, facts = value.type, scale.facts_of(function, key, i)
            shape, name = (), _text(facts, "scale.name", f"argument{i}")
            layout = _text(facts, "scale.layout", "row")
            if isinstance(t, ir.RankedTensorType):
                shape = _extents(scale.map_of(facts["scale.shape"]), dims, name, layout, len(scale.order_of(facts)))
            made.append(
                abi.TensorSpec(
                    name=name,
                    dtype=dtype(value),
                    shape=shape,
                    layout=layout,
                    align=1,
                    scalar=not isinstance(t, ir.RankedTensorType),
                    inout="scale.inout" in facts,
                    partial=result and (partial(value) or any(e.terms for e in shape)),
                    counted=counted(value, dims) if result else (),
                )
            )
        return made

    results = specs(scale.values_returned(function), "res_attrs", result=True)
    given = {r.name for r in results if r.inout}
    operands, parts = [], []
    for i, t in enumerate(specs(list(block.arguments), "arg_attrs")):
        facts = scale.facts_of(function, "arg_attrs", i)
        if "scale.of" not in facts:
            operands.append(t)
            continue
        of, steps = _text(facts, "scale.of"), tuple(ir.DenseI64ArrayAttr(facts["scale.steps"]))
        first = tuple(_extent(e, dims, t.name) for e in scale.map_of(facts["scale.first"]).results)
        if t.layout == WORDS:  # from a row on, and all of K
            *outer, row, k = zip(first, steps, strict=True)
            first, steps = zip(*outer, k, row, (abi.Extent(), 1), strict=True)
        parts.append(abi.View(t.name, of, t.shape, first, steps))
        # what scales are is said where they are read, which is where their part is
        operands = [replace(x, dtype=t.dtype) if x.name == of else x for x in operands]
    return tuple(t for t in operands if t.name not in given), tuple(results), tuple(parts)


def sizes(function: ir.OpView) -> dict[str, int | None]:
    """Size of each dimension of the program, None where it is dynamic."""
    known = scale.sizes_of(function)
    return {name: known.get(position) for position, name in enumerate(scale.program_dims(function))}


@dataclass(frozen=True)
class Interface:
    """What is known of a program's calls before its kernel is: fields of scalec.abi.KernelSpec, but that alignments of
    tensors are not known yet (1)."""

    source: str
    target: str
    operands: tuple[abi.TensorSpec, ...]
    results: tuple[abi.TensorSpec, ...]
    views: tuple[abi.View, ...]
    dims: dict[str, int | None]
    ranges: dict[str, tuple[int, int]]
    reads: tuple[Reads, ...]
    limits: dict[str, abi.Limit] = field(default_factory=dict)

    def limited(self, most: Mapping[str, tuple[int, abi.Limit]]) -> Interface:
        """With the largest sizes of further dimensions that the program takes, and why."""
        ranges = {name: (1, size) for name, (size, _) in most.items()}
        limits = {name: limit for name, (_, limit) in most.items()}
        return replace(self, ranges=self.ranges | ranges, limits=self.limits | limits)

    @staticmethod
    def of(function: ir.OpView, source: str, target: str) -> Interface:
        """That of a fused program; a dimension whose range ends at 0 is one of size 0."""
        within = scale.ranges_of(function)
        dims = sizes(function) | {name: 0 for name, x in within.items() if not x.high}
        ranges = {name: (low, high) for name, (low, high) in within.items() if high}
        return Interface(source, target, *tensors(function), dims, ranges, reads_of(function))

    def spec(
        self, kernel: ir.OpView, launch: abi.Launch, schedule: str, flops: tuple[str, ...], panes: int = 1
    ) -> abi.KernelSpec:
        """The spec of a `tile.kernel`; `launch`, `schedule`, `flops` and `panes` are those of scalec.abi.KernelSpec.

        Raises:
            UnsupportedError: a part of a tensor begins where the kernel cannot read.
        """
        sources = [{a.name: a.attr for a in ir.DictAttr(d)} for d in kernel.arguments]
        arguments = tuple(
            abi.Argument(
                kind=_text(d, "kind"),
                tensor=_text(d, "tensor"),
                dim=_text(d, "dim"),
                axis=tile.int_of(d["axis"]),
                box=tile.ints_of(d["box"]),
                swizzle=tile.int_of(d["swizzle"]),
                atom=tile.int_of(d["atom"]),
                element=_text(d, "element"),
                permuted=tile.int_of(d["permuted"]),
                axes=tile.ints_of(d["axes"]),
            )
            for d in sources
        )
        align: dict[str, int] = {}
        of = {view.name: view.tensor for view in self.views}
        for a, d in zip(arguments, sources, strict=True):
            least, whole = abi.PADDED_ALIGN if a.element == abi.PADDED else 1, of.get(a.tensor, a.tensor)
            align[whole] = max(align.get(whole, 1), tile.int_of(d["align"]), least)
        for view in self.views:
            _check_begin(view, next(t for t in self.operands if t.name == view.tensor), align.get(view.tensor, 1))

        def aligned(t: abi.TensorSpec) -> abi.TensorSpec:
            return replace(t, align=max(1, ELEMENT_TYPES[t.dtype].bits // 8, align.get(t.name, 1)))

        return abi.KernelSpec(
            source=self.source,
            target=self.target,
            entry=tile.str_of(kernel.sym_name),
            dims=self.dims,
            operands=tuple(map(aligned, self.operands)),
            results=tuple(map(aligned, self.results)),
            arguments=arguments,
            launch=launch,
            schedule=schedule,
            flops=flops,
            panes=panes,
            ranges=self.ranges,
            reads=self.reads,
            views=self.views,
            limits=self.limits,
        )


def _check_begin(view: abi.View, tensor: abi.TensorSpec, align: int) -> None:
    """Refuses a part of a tensor that begins, along the contiguous index, where the kernel cannot read, whatever the
    sizes are."""
    bits, inner = ELEMENT_TYPES[tensor.dtype].bits, view.first[tensor.contiguous]
    if tensor.layout == "blocked" or inner.names or inner.size * bits % (8 * align) == 0:
        return
    raise UnsupportedError(
        f"{view.name} begins at element {inner.size} of the contiguous index of {view.tensor}",
        expected=f"a multiple of {8 * align // bits} elements, {align} bytes",
        fix=f"pass a copy of that part of {view.tensor} as a tensor of its own",
    )


def launch_of(kernel: ir.OpView, problem: Problem, schedule: Schedule) -> abi.Launch:
    """How the kernel of a contraction is launched."""
    (bm, bn, bk), (cm, cn), split, segments = schedule.tile, schedule.cluster, schedule.split, problem.segments
    m, n, together, (dim, block) = problem.m, problem.n, parts_of(kernel), problem.blocks
    along = {m.name: (bm, cm), n.name: (bn // problem.panes, cn)}
    if dim and block % (whole := math.prod(along[dim])):  # each block's last tile has fewer rows, or its only one
        along[dim] = block // -(-block // whole), 1

    def summed(x: Product | Problem) -> tuple[tuple[str, int], ...]:
        return ((x.k.name, bk), *((d.name, 1) for d in x.summed))

    spans = problem.spans + problem.permuted_spans
    chances = [r.chance for r in problem.results if r.chance is not None] if spans else []
    return abi.Launch(
        threads=tile.int_of(kernel.threads),
        shared_bytes=tile.int_of(kernel.shared_bytes),
        cluster=cm * cn * together,
        tiles=(
            *((d.name, along[d.name][0] // d.inner, along[d.name][1]) for d in (m, n)),
            *((d.name, 1, 1) for d in problem.outer),
        ),
        split=split // together,
        part_bytes=-(-bm * bn * 4 * (split + segments - 1) // split) if split > together else 0,  # f32
        partial_bytes=4 * (partial_words(problem, schedule) + fold_words(problem, schedule)),
        arrivals=band_counters(problem, schedule) + fold_counters(problem, schedule),
        bands=bands(problem, schedule),
        one_each=schedule.scheduler == "dynamic",
        dependent=schedule.dependent << 30,
        sums=summed(problem) if problem.summed or problem.added else (),
        added=tuple(map(summed, problem.added)),
        spans=spans,
        numbered=tuple(tuple(d.name for d in x.extents if d.name) for x in chances),
    )


def launch_of_spread(problem: Pointwise, spread: Spread) -> abi.Launch:
    """How the kernel of a program without a contraction is launched: tiles of a result's last two indices, one of each
    other. A CTA has one tile: as many run on an SM as have room, so that loads of one are on their way while others
    compute."""
    *outer, rows = [*problem.rows] or [None]
    high, wide = spread.rows * spread.blocks[0], spread.columns * spread.blocks[1]
    tiles = [*((d.name, 1, 1) for d in outer if d), *([(rows.name, high, 1)] if rows else [])]
    summed = [problem.columns.name] * problem.spans
    return abi.Launch(
        threads=spread.threads,
        shared_bytes=spread.shared_bytes(problem),
        cluster=1,
        tiles=tuple(tiles) if problem.spans else (*tiles, (problem.columns.name, wide, 1)),
        one_each=True,
        apart=tuple((d.dim, d.group) for d in problem.by_tile),
        sums=tuple((dim, 1) for dim in dict.fromkeys([*summed, *(r.dim.name for r in problem.reductions)])),
    )


def flops_of(problem: Problem, reads: Sequence[Reads]) -> tuple[str, ...]:
    """The dimensions whose product is a contraction's multiplications."""
    # groups that follow one another have a dimension between them, and not each all of it
    shared = {dim for x in reads for domain in x.domains if domain.rises is not None for dim in domain.dims}
    m, n = problem.m, problem.n
    outer = [d.name for d in problem.outer if d.name not in shared]
    within = [d.within for d in (m, n) if d.within]
    return (m.name, n.name, problem.k.name, *outer, *(d.name for d in problem.summed), *within)
