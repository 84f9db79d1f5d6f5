"""What a compiled kernel says about itself: plain data, written by the compiler, read by the runtime.

No IR and no GPU is needed to read it; `to_json` and `from_json` are how it travels in the cache and in bundles.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Annotated, Any

from scalec import schema
from scalec.errors import FormatError
from scalec.formats import ELEMENT_TYPES
from scalec.meetings import COUNTER_BYTES, tile_counters
from scalec.reads import Reads
from scalec.schema import matching, one_of, within
from scalec.sizes import MOST

SHARED = "scalec_shared"
"""The symbol of a kernel's shared memory."""

PADDED = "padded"
"""Element of a tensor map whose copies pad: sixteen packed elements of 4 or 6 bits, then as many bytes as make 16.

So 8-bit and packed operands have rows of one length in shared memory; ldmatrix (.b4x16_p64, .b6x16_p32) unpacks them.
PTX ISA 5.5.1.1.1; CUDA driver API, CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B and _16U6_ALIGN16B, whose rules these are:
"""
PADDED_BOX = 128  # elements of a box along the contiguous index, and what its extent is a multiple of
PADDED_ALIGN = 32  # bytes that the address and the strides are multiples of
PADDED_SWIZZLES = (0, 128)

TILES = "tiles"
"""Element of a tensor map over a `blocked` tensor as it lies: eight bytes, TILE_WORDS of them a tile of 128x4 scales.
Tiles along the last index follow each other along the map's first dimension, its second one counts rows of tiles. So
as many tiles as a kernel takes at once are one box, of at most 256 elements along a dimension (CUDA driver API,
cuTensorMapEncodeTiled: boxDim)."""
TILE_WORDS = 64

PARAMETERS: dict[str, int] = {
    "tensor_map": 128,
    "pointer": 8,
    "dim": 4,
    "size": 4,
    "stride": 8,
    "scalar": 4,
    "parts": 8,
    "counters": 8,
}
"""Kinds of parameters (see Argument), and bytes of each."""

Count = Annotated[int, within(0, MOST)]
Positive = Annotated[int, within(1, MOST)]
Signed = Annotated[int, within(-MOST, MOST)]
Bytes = Annotated[int, within(0, 1 << 62)]

MOST_CTAS = 2**31 - 1
"""CTAs of a grid (CUDA programming guide, technical specifications: x-dimension of a grid), and so the most tiles."""

# PTX ISA 4.4: an identifier is a letter, or _ $ % and at least one more character; WARP_SZ is predefined
_TAKEN = frozenset({"_", "WARP_SZ", SHARED})


def entry_name(name: str) -> str:
    """The symbol of a kernel that the program calls `name`: the name itself, unless it cannot be one in PTX."""
    return f"scalec_entry_{name}" if name in _TAKEN else name


@dataclass(frozen=True)
class Term:
    """`factor * ceil((dim + offset) / divisor)`."""

    dim: str
    factor: Signed = 1
    offset: Signed = 0
    divisor: Positive = 1

    def value(self, dims: Mapping[str, int]) -> int:
        return -(-(dims[self.dim] + self.offset) // self.divisor) * self.factor

    def __str__(self) -> str:
        inner = self.dim + (f" {'-' if self.offset < 0 else '+'} {abs(self.offset)}" if self.offset else "")
        if self.divisor != 1:
            inner = f"ceil({f'({inner})' if self.offset else inner}/{self.divisor})"
        elif self.offset and self.factor != 1:
            inner = f"({inner})"
        return inner if self.factor == 1 else f"{self.factor}*{inner}"


@dataclass(frozen=True)
class Extent:
    """One extent of a tensor: `ceil(dim / divisor)`; where `dim` is empty the number `size`, or with `terms` the sum of
    these and of `size`, at least 0: that of a tensor whose index is computed."""

    dim: str = ""
    divisor: Positive = 1
    size: Signed = 0
    terms: tuple[Term, ...] = ()

    def value(self, dims: Mapping[str, int]) -> int:
        if self.terms:
            return max(0, self.size + sum(term.value(dims) for term in self.terms))
        return -(-dims[self.dim] // self.divisor) if self.dim else self.size

    @property
    def tells(self) -> str:
        """The dimension whose size the extent tells (`size_of`): `g` of `g`, `g + 1` and `2*g`; "" where it tells
        none."""
        if not self.terms:
            return self.dim if self.divisor == 1 else ""
        first = self.terms[0]
        return first.dim if len(self.terms) == 1 and first.factor > 0 and first.divisor == 1 else ""

    def size_of(self, extent: int) -> int:
        """The size of the dimension that it `tells`: where none has this extent, the largest with a smaller one."""
        return (extent - self.size) // self.terms[0].factor - self.terms[0].offset if self.terms else extent

    @property
    def unit(self) -> int:
        """How many sizes of a dimension have one extent, at most."""
        return max((term.divisor for term in self.terms), default=self.divisor)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.dim,) if self.dim else tuple(term.dim for term in self.terms)

    def __str__(self) -> str:
        if self.terms:
            parts = [*map(str, self.terms), *([str(self.size)] if self.size else [])]
            return " + ".join(parts).replace("+ -", "- ")
        if not self.dim:
            return str(self.size)
        return self.dim if self.divisor == 1 else f"ceil({self.dim}/{self.divisor})"


@dataclass(frozen=True)
class TensorSpec:
    """A tensor (or, with no extents and `scalar`, a number) that the caller passes or receives.

    Attributes:
        name: what the user calls it.
        dtype: element type by its language name (see scalec.formats).
        shape: its extents, outermost first.
        layout: "row" (last index contiguous), "col" (first of the last two contiguous: stored as its transpose, seen
            through a tensor of this shape whose strides say so), "packed" (as "col", of i32 that hold four ue8m0 of
            consecutive blocks each; `shape` counts the i32), "blocked" (`shape` counts the scales; in memory the
            last two indices are padded to whole tiles of 128x4 bytes, without gaps) or "words" (the last index counts
            elements of a word of 32 bits; words of the index before lie beside each other).
        align: bytes that its address and its outer strides must be multiples of.
        scalar: a Python number rather than a tensor.
        inout: a result that is also read (`+=`): the caller must give it.
        partial: a result of which elements may keep what they hold: around gaps of a computed index, outside a range,
            where an index read from memory is negative, or that no entry of a scatter names. The caller must give that
            too.
        counted: of a result the dimensions of which an index is counted from where memory says (t of L[q, t - lo[q]]),
            which are not among its extents: without points of one nothing is written.
    """

    name: str
    dtype: Annotated[str, one_of(ELEMENT_TYPES)]
    shape: tuple[Extent, ...]
    layout: str = "row"
    align: Positive = 16
    scalar: bool = False
    inout: bool = False
    partial: bool = False
    counted: tuple[str, ...] = ()

    @property
    def contiguous(self) -> int:
        """The axis that the layout makes contiguous."""
        rank = len(self.shape)
        return rank - 2 if self.layout in ("col", "packed") and rank > 1 else rank - 1

    @property
    def given(self) -> bool:
        """Whether this result must be given by the caller."""
        return self.inout or self.partial


@dataclass(frozen=True)
class View:
    """A part of an operand, which the kernel takes as a tensor of its own.

    Attributes:
        name: what arguments call it.
        tensor: the operand.
        shape: its extents, in the order of the operand's.
        first: for each axis the index of the operand that its index 0 is; what is divided there is so without a rest.
        steps: for each axis how many indices of the operand lie between two of its own.
    """

    name: str
    tensor: str
    shape: tuple[Extent, ...]
    first: tuple[Extent, ...]
    steps: tuple[Positive, ...]


def permuted_rows(within: int, rows: int) -> tuple[tuple[int, int], ...]:
    """(extent, rows from one to the next) of the dimensions, innermost first, in which a tensor map counts `rows` rows
    that it permutes (Argument.permuted): e, q, h, and groups of `within`."""
    return (2, 1), (4, within // 4), (within // 8, 2), (rows // within, within)


@dataclass(frozen=True)
class Argument:
    """One parameter of the entry function, in order.

    Attributes:
        kind: "tensor_map" (a 128-byte CUtensorMap by value, over `tensor`), "pointer" (address of `tensor`), "dim"
            (i32 size of dimension `dim`, as kernels walk it: 1 where it is 0), "size" (likewise, as the caller has it),
            "stride" (i64: elements between consecutive indices `axis` of `tensor`),
            "scalar" (f32 value of scalar `tensor`), "parts" and "counters" (addresses of the two areas of the
            launch's workspace, see Launch).
        tensor: name of the tensor, of a view of one, or of the scalar.
        dim: name of the dimension.
        axis: the tensor's axis that a stride speaks of.
        box: tensor map: extents of one copy, innermost first.
        swizzle: tensor map: bytes of the swizzle, 0 for none.
        atom: tensor map: bytes that the swizzle keeps together: 16, or with one of 128 bytes 32.
        element: tensor map: how it sees the tensor. "": as its type, as bytes where that has 8 bits or fewer: packed
            elements stay packed, and the box counts their bytes along the first dimension. PADDED: as 4- or 6-bit
            elements that the copy pads, and the box counts elements. TILES: a `blocked` tensor, see there. WORDS: as
            the words of a tensor of that layout, of which the last index is none of `axes`.
        axes: tensor map: the tensor's axes that its dimensions are, innermost (contiguous) first; empty: all, as they
            lie in memory.
        permuted: tensor map: rows within which copies change the order, 0: none. Of each W rows, number W/4 q + 2h + e
            comes as number 8h + 2q + e (e < 2, q < 4, h < W/8). The tensor has two indices, the box the extents of the
            contiguous one, of e, q, h, and of groups of W rows.

    Unless rows are permuted, the rank of a tensor map is the length of `box`.
    A pointer's tensor must have no gap along an outer axis that no "stride" argument speaks of.
    """

    kind: Annotated[str, one_of(PARAMETERS)]
    tensor: str = ""
    dim: str = ""
    axis: Count = 0
    box: tuple[Positive, ...] = ()
    swizzle: Count = 0
    atom: Positive = 16
    element: str = ""
    permuted: Count = 0
    axes: tuple[Count, ...] = ()


@dataclass(frozen=True)
class Launch:
    """How to launch the entry function.

    The grid is one-dimensional: min(units, clusters that run at once) * cluster CTAs, or with `one_each` units *
    cluster, where units = split * product over `tiles` of ceil(ceil(dim / tile) / cluster CTAs along it), and of a
    dimension that is `apart` as many more as it has groups.

    Where K is split, the parts of a tile meet in a workspace: `part_bytes` of sums for each part of each tile, which
    need not hold anything, and for each tile as many counters of 4 bytes as `tile_counters` says, 0 before the first
    launch and after each. Two launches that may run at the same time need workspaces of their own.

    Attributes:
        threads: threads of a CTA.
        shared_bytes: dynamic shared memory.
        cluster: CTAs of a cluster, in all.
        tiles: (dim, tile extent, cluster CTAs along it) for each tiled dimension.
        split: parts of K of one tile, each the work of a CTA of its own.
        part_bytes: of the workspace, for each part of each tile, rounded up; 0 where no sums meet there.
        partial_bytes: of the workspace, behind all parts, for each tile's partial results of reductions, of operands
            too; 0 without.
        arrivals: counters of each tile for these, behind those of parts.
        bands: the tiles that have partial results, as a product, where these are not all that `tiles` says: of ranges.
        dependent: the most multiplications of a launch that may begin while the kernel before it in its stream still
            runs, for whose end the kernel then waits itself; 0 where it does not.
        sums: (dim, step) of the dimensions of K, where these are several: a kernel counts the product of their sizes,
            each rounded up to a multiple of its step, in 32 bits. Without a contraction, of what is summed over.
        added: likewise of each product whose sums are added to those, which then are in `sums` in any case.
        spans: (dim, other), a dimension along which tiles run and one of which a tile has one index, that are walked as
            one where the strides of all tensors allow (scalec.runtime.spans).
        apart: (dim, groups), a dimension that is tiled by groups, each from where it begins.
        numbered: the dimensions of each result that is rounded by chance, in the order of its indices: an element has
            random bits by its row, counted through all but the last, and four neighbours in a row by one number.
        one_each: whether a cluster of its own is launched for each tile or part, which running clusters may take over.
    """

    threads: Annotated[int, within(1, 1024)]
    shared_bytes: Count
    cluster: Annotated[int, within(1, 16)]
    tiles: tuple[tuple[str, Positive, Positive], ...]
    split: Positive = 1
    part_bytes: Count = 0
    partial_bytes: Count = 0
    arrivals: Count = 0
    bands: tuple[Extent, ...] = ()
    one_each: bool = False
    dependent: Bytes = 0
    sums: tuple[tuple[str, Positive], ...] = ()
    added: tuple[tuple[tuple[str, Positive], ...], ...] = ()
    spans: tuple[tuple[str, str], ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    numbered: tuple[tuple[str, ...], ...] = ()

    @property
    def by_element(self) -> bool:
        """Whether sums are taken element by element, of none too: contractions walk blocks of K, one at least."""
        return bool(self.sums) and all(step == 1 for _, step in self.sums)

    def length(self, dims: Mapping[str, int]) -> int:
        """What `sums` and `added` count."""
        return sum(math.prod(-(-dims[dim] // step) * step for dim, step in x) for x in (self.sums, *self.added))

    def units(self, dims: Mapping[str, int]) -> int:
        """How many clusters' worth of tiles, or parts of them, there are, given the sizes of the dimensions."""
        more = {dim: dims[groups] if dims[dim] else 0 for dim, groups in self.apart}
        tiles = (-(-dims[dim] // (tile * along)) + more.get(dim, 0) for dim, tile, along in self.tiles)
        return self.split * math.prod(tiles)

    def ctas(self, dims: Mapping[str, int]) -> int:
        """CTAs that would have a tile, or a part of one, each; MOST_CTAS is what a kernel counts up to."""
        return self.units(dims) * self.cluster

    def workspace(self, dims: Mapping[str, int]) -> tuple[int, int]:
        """Bytes of the workspace's parts and of its counters, given the sizes of the dimensions; (0, 0) for none."""
        parts = self.ctas(dims)
        counters = self.arrivals + (tile_counters(self.split) if self.part_bytes else 0)
        tiles = math.prod(x.value(dims) for x in self.bands) if self.bands else parts // self.split
        return parts * self.part_bytes + tiles * self.partial_bytes, tiles * counters * COUNTER_BYTES

    def grid(self, dims: Mapping[str, int], clusters: int) -> int:
        """CTAs to launch where `clusters` clusters run at once."""
        units = self.units(dims)
        return (units if self.one_each else min(units, clusters)) * self.cluster


@dataclass(frozen=True)
class Dropped:
    """A schedule that the compiler tried and did not ship: all its fields, and what was wrong with its kernel."""

    schedule: str
    reason: str


@dataclass(frozen=True)
class Limit:
    """Why a program takes no larger size of a dimension, and what who has one can do."""

    reason: str
    fix: str


@dataclass(frozen=True)
class KernelSpec:
    """Everything the runtime knows of a kernel.

    Attributes:
        source: the program text.
        target: ptxas architecture.
        entry: name of the entry function in the cubin.
        dims: size of each dimension fixed at compile time (of 0, the kernel takes any); None where it stays dynamic. In
            the program's order.
        ranges: (smallest, largest) size of a dynamic dimension that the kernel is for; absent: any.
        limits: of ranges that come of the program, and not of who compiled it, why they end.
        operands: what the caller passes, in positional order.
        results: what the caller receives.
        arguments: parameters of the entry function.
        launch: how to launch it.
        schedule: the decided schedule, as text for people.
        flops: dims whose product, times two, is the floating-point operations of the contraction, or of the sum of a
            program without one; empty where there is neither.
        panes: contractions of so many operations each.
        dropped: schedules that were tried before, in order.
        reads: what is read from memory to know what to compute; empty for a program without such indices and ranges.
        views: parts of operands that arguments speak of.
    """

    source: str
    target: Annotated[str, matching(r"sm_[0-9]{2,4}[a-z]?", "an architecture of ptxas, as sm_90a")]
    entry: Annotated[str, matching(r"[a-zA-Z][a-zA-Z0-9_$]*|[_$%][a-zA-Z0-9_$]+", "an identifier of PTX")]
    dims: dict[str, Count | None]
    operands: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]
    arguments: tuple[Argument, ...]
    launch: Launch
    schedule: str = ""
    flops: tuple[str, ...] = field(default=())
    panes: Count = 1
    dropped: tuple[Dropped, ...] = ()
    ranges: dict[str, tuple[Positive, Positive]] = field(default_factory=dict)
    reads: tuple[Reads, ...] = ()
    views: tuple[View, ...] = ()
    limits: dict[str, Limit] = field(default_factory=dict)

    def to_json(self) -> str:
        """A JSON document; `from_json` gives back an equal spec."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    @staticmethod
    def from_json(text: str) -> KernelSpec:
        """Reads what `to_json` wrote.

        Raises:
            FormatError (a ValueError): another version, or not a kernel spec.
        """
        return KernelSpec.of(schema.parse(text))

    @staticmethod
    def of(data: Any) -> KernelSpec:
        """The spec of what a JSON document says; raises what `from_json` does."""
        if type(data) is not dict or data.get("version") != VERSION:
            raise FormatError(f"not a scalec kernel spec of version {VERSION}")
        try:
            spec = schema.read(KernelSpec, {name: value for name, value in data.items() if name != "version"})
            _check(spec)
        except FormatError as fault:
            raise FormatError(f"not a scalec kernel spec: {fault}") from None
        return spec


def _check(spec: KernelSpec) -> None:
    """Refuses a spec that speaks of what it does not have.

    Raises:
        FormatError: a name that is not there, or is there twice; an axis beyond a tensor's; a range without sizes; a
            dimension that is walked as one with itself, or that is fixed and walked as one with another.
    """
    tensors = {t.name: t for t in (*spec.operands, *spec.results)}
    if len(tensors) != len(spec.operands) + len(spec.results):
        raise FormatError("two tensors of one name")
    used = chain(
        (dim for t in (*tensors.values(), *spec.views) for e in t.shape for dim in e.names),
        (dim for view in spec.views for e in view.first for dim in e.names),
        (a.dim for a in spec.arguments if a.kind in ("dim", "size")),
        (dim for dim, _, _ in spec.launch.tiles),
        (dim for x in (spec.launch.sums, *spec.launch.added) for dim, _ in x),
        chain(*spec.launch.spans, *spec.launch.apart, *spec.launch.numbered),
        spec.flops,
        spec.ranges,
        (dim for reads in spec.reads for entry in reads.entries for dim in entry.dims),
        (domain.dim for reads in spec.reads for domain in reads.domains),
    )
    for dim in used:
        if dim not in spec.dims:
            raise FormatError(f"no dimension {dim!r}", wanted=", ".join(spec.dims))
    for dim, (low, high) in spec.ranges.items():
        if low > high or spec.dims[dim] is not None:
            raise FormatError(
                f"a range {low}:{high} of {dim}", wanted="one with sizes, of a dimension that is not fixed"
            )
    for dim in spec.limits:
        if dim not in spec.ranges:
            raise FormatError(f"a limit of {dim}", wanted="one of a dimension with a range")
    for pair in spec.launch.spans:
        if len({*pair}) < 2 or any(spec.dims[dim] is not None for dim in pair):
            raise FormatError(f"{pair[0]} and {pair[1]} walked as one", wanted="two dimensions that are not fixed")
    if any(e.size < 0 and not e.terms for t in tensors.values() for e in t.shape):
        raise FormatError("an extent below 0", wanted="0 or more")
    _check_views(spec, tensors)
    tensors |= {view.name: tensors[view.tensor] for view in spec.views}
    for a in spec.arguments:
        if a.kind in ("tensor_map", "pointer", "stride", "scalar"):
            t = tensors.get(a.tensor)
            if t is None or t.scalar != (a.kind == "scalar"):
                raise FormatError(
                    f"a parameter of kind {a.kind} for {a.tensor!r}", wanted=f"one of {', '.join(tensors)}"
                )
            for axis in (a.axis,) if a.kind == "stride" else a.axes:
                if axis >= len(t.shape):
                    raise FormatError(f"axis {axis} of {a.tensor}, which has {len(t.shape)}")
    for reads in spec.reads:
        _check_reads(reads, tensors, {t.name for t in spec.operands})


def _check_views(spec: KernelSpec, tensors: Mapping[str, TensorSpec]) -> None:
    """Refuses a part of what is no tensor operand, or one of a name that something has."""
    operands = {t.name for t in spec.operands if not t.scalar}
    for i, view in enumerate(spec.views):
        ranks = {len(view.shape), len(view.first), len(view.steps)}
        if view.tensor not in operands or ranks != {len(tensors[view.tensor].shape)}:
            raise FormatError(f"a part of {view.tensor!r}", wanted="one of an operand, with as many indices")
        if view.name in tensors or view.name in (other.name for other in spec.views[:i]):
            raise FormatError("two tensors of one name")


def _check_reads(reads: Reads, tensors: Mapping[str, TensorSpec], operands: set[str]) -> None:
    for entry in reads.entries:
        t = tensors.get(entry.tensor)
        if t is None or t.name not in operands or t.dtype != "i32" or len(t.shape) != len(entry.coords):
            raise FormatError(f"an index {entry}", wanted="one of an i32 operand, a coordinate for each of its axes")
    for lookup in reads.lookups:
        t = tensors.get(lookup.tensor)
        if t is None or lookup.axis >= len(t.shape):
            raise FormatError(f"{lookup.entry} as index {lookup.axis} of {lookup.tensor!r}, which has no such one")
        if any(axis >= len(lookup.entry.coords) for axis in lookup.once or ()):
            raise FormatError(f"axes {lookup.once} of {lookup.entry.tensor}, which has {len(lookup.entry.coords)}")


VERSION = 14
