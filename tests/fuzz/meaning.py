"""What a text may give: every statement over the space of all its indices, in float64, with the largest error of each
element. See bounds.py, whose steps these are; shares nothing with the front end nor the reference but their formats."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalec.formats import ELEMENT_TYPES, WHOLE, Granularity
from scalec.reference import dequantize, from_layout, round_to
from scalec.reference.quantize import block_amax, block_shape, scale_shape, spread
from scalec.reference.stochastic import random_bits
from tests.fuzz import bounds
from tests.fuzz.bounds import LARGEST, LEAST, ROUND, SPAN, Bounded, Slack
from tests.fuzz.case import Operand, Tree
from tests.fuzz.groups import apart
from tests.fuzz.language import NAMES, WORDS, Program, Range, Statement, every, multiplied, places, zeros_of
from tests.fuzz.steps import apply, exponentials, folded, transformed

Array = NDArray[Any]
Names = frozenset[str]
Skip = tuple[Names, Array]
"""Where points are left out, over the space, and what dimensions say so."""


@dataclass
class Terms:
    """Of a sum that contains one of products: how large the terms are together, the largest power of two that all of
    them are multiples of, and how many they are."""

    magnitude: Array
    quantum: float
    count: int


@dataclass
class Value:
    """Numbers over the space, with an axis for each of the program's dimensions, 1 long where nothing depends on it."""

    dims: Names  # those that something depends on, whatever their extents
    of: Bounded  # the numbers and their errors
    skips: tuple[Skip, ...] = ()  # what leaves points out
    terms: Terms | None = None  # of a sum that contains one of products as it is


class Lookup:
    """An index tensor: what it says at an index, less than 0 where the index is, or lies outside."""

    def __init__(self, array: Array) -> None:
        self.array = array.astype(np.int64)

    def __getitem__(self, at: Any) -> Array:
        at = np.broadcast_arrays(*(at if isinstance(at, tuple) else (at,)))
        inside = np.ones(at[0].shape, bool)
        for i, n in zip(at, self.array.shape, strict=True):
            inside &= (i >= 0) & (i < n)
        if not self.array.size:
            return np.full(at[0].shape, -1)
        clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(at, self.array.shape, strict=True))
        return np.where(inside, self.array[clipped], -1)


class Meaning:
    """Of a program at sizes, on tensors by name; `functions`: as if sums of products were exact."""

    def __init__(
        self, program: Program, sizes: dict[str, int], values: dict[str, Any], functions: bool = False
    ) -> None:
        self.program, self.sizes, self.functions = program, sizes, functions
        self.values = values | {n: unpacked(program, n, values[n], sizes) for n in program.eights if n in values}
        self.made = {s.result.name: s for s in program.statements}
        self.axes = {d: i for i, d in enumerate(program.dims)}
        self.names = frozenset(self.axes)
        self.space: dict[str, Any] = {d: self.along(np.arange(sizes[d]), d) for d in program.dims}
        self.space["size"] = np.size  # of a dimension: its points
        self.space |= {name: Lookup(values[name]) for name in program.lookups}
        self.reads: dict[str, Array] = {}
        self.sums: dict[tuple[int, Names], Value] = {}

    def along(self, points: Array, dim: str) -> Array:
        return points.reshape([-1 if d == dim else 1 for d in self.program.dims])

    # ------------------------------------------------------------------------------------------------------- indices

    def index(self, text: str) -> tuple[Names, Array]:
        """An index at every point, and what it depends on."""
        dims = frozenset(NAMES.findall(text)) & self.names
        found = eval(text.replace("/", "//"), {"__builtins__": {}}, dict(self.space))
        return dims, np.asarray(found) + np.zeros([1] * len(self.axes), np.int64)

    def access(self, index: tuple[str, ...], extents: tuple[int, ...]) -> tuple[Names, tuple[Array, ...], list[Skip]]:
        """Where a tensor is read at every point, and where it is not."""
        dims, at, skips = frozenset[str](), [], []
        for text, extent in zip(index, extents, strict=True):
            own, points = self.index(text)
            dims |= own
            if "[" in text:
                skips.append((own, (points < 0) | (points >= extent)))
                skips += [(own, self.index(x)[1] < 0) for x in re.findall(r"\w+\[[^][]*\]", text)]
            at.append(np.clip(points, 0, max(extent - 1, 0)))
        return dims, tuple(at), skips

    def domain(self, r: Range | None) -> list[Skip]:
        """Where a range leaves points out."""
        if r is None:
            return []
        (low, a), (high, b) = self.index(r.low), self.index(r.high)
        at = self.space[r.dim]
        return [(low | high | {r.dim}, (at < a) | (at >= b))]

    # ------------------------------------------------------------------------------------------------------- leaves

    def tensor(self, name: str, index: tuple[str, ...], array: Array, left: list[Skip]) -> Value:
        """A tensor's numbers; `left` is what the statement leaves out, so that nothing there is read."""
        dims, at, skips = self.access(index, array.shape)
        if 0 in array.shape:
            return Value(dims, Bounded(np.zeros([1] * len(self.axes))), tuple(skips))
        read = self.reads.setdefault(name, np.zeros(array.shape, bool))
        outside: Array = np.zeros((), bool)
        for _, mask in (*skips, *left):
            outside = np.asarray(outside | mask)
        *at_all, kept = np.broadcast_arrays(*at, ~outside) if at else (~outside,)
        if at:
            read[tuple(i[kept] for i in at_all)] = True
        return Value(dims, Bounded(array[at] if at else array.reshape([1] * len(self.axes))), tuple(skips))

    def operand(self, tree: Tree, side: str, s: Statement, left: list[Skip]) -> Value:
        """One side of a contraction: what its scales and zero points make of it, or its expression."""
        tensors = self.program.tensors
        if tree[0] == "tensor":
            return self.tensor(tree[1], tree[2], self.dequantized(tensors[tree[1]], side, s.range), left)
        if tree[0] == "quantize":
            name = multiplied(tree)
            index = next(t[2] for t in every(tree) if t[0] == "tensor" and t[1] == name)  # of this part of the tensor
            values, scales = self.quantized(tree, side)
            made = self.tensor(name, index, values * scales, left)
            # an infinite scale makes NaN of 0, and of sums of 0 and others infinity
            loose = self.tensor(name, index, np.where(np.isinf(scales), np.inf, 0.0), left)
            return Value(made.dims, Bounded(made.of.value, loose.of.value), made.skips)
        zeros = zeros_of(tree, tensors)
        if tree[0] == "rounded" and (zeros is not None or tree[1][0] == "tensor"):
            of, kind = tree[1:]
            exact = self.operand(of, side, s, left)
            return Value(exact.dims, Bounded(round_to(exact.of.value, kind)), exact.skips)
        if zeros is None:
            if tree[0] != "rounded":
                tree = ("rounded", tree, tensors[multiplied(tree)].element)
            return self.tree(tree, s, bounds.slacks("f32"), left, frozenset())
        _, name, index, _ = tree[1]
        x = self.tensor(name, index, self.values[name].astype(np.float64), left)
        each = self.tensor(name, index, self.factors(tensors[name], side, s.range), left)
        less = self.tree(zeros, s, bounds.slacks("f32"), left, frozenset())
        return Value(x.dims, Bounded((x.of.value - less.of.value) * each.of.value), (*x.skips, *less.skips))

    def quantized(self, tree: Tree, side: str) -> tuple[Array, Array]:
        """The elements of a tensor that is quantised anew, and what multiplies each: new scales, and those of the
        tensor that span new blocks."""
        _, _, element, level = tree
        x, zeros = self.program.tensors[multiplied(tree)], zeros_of(tree, self.program.tensors)
        given, shape = self.values[x.name], self.values[x.name].shape
        inner, outer = tree[1], np.ones(shape)
        values = given.astype(np.float64) - float(zeros[1]) if zeros else self.computed(inner, x)
        for g, suffix in zip(x.granularities(side), ("_scale", "_scale2"), strict=False):
            each = self.factor(x, g, self.values[x.name + suffix], shape, None)
            if g.tensor or g.block[-1] == WHOLE:
                outer = outer * each
            else:
                values = values * each
        block, most = block_shape(level.granularity(), shape), ELEMENT_TYPES[element].max
        with np.errstate(all="ignore"):
            values = values.astype(np.float32)
            largest = block_amax(np.abs(values), block).astype(np.float64)
            if level.type == "ue8m0":
                power = np.floor(np.log2(np.where(largest > 0, largest, 1))) - np.floor(np.log2(most))
                scale = np.exp2(np.clip(np.where(largest > 0, power, -127), -127, 127))
                scale = np.where(np.isnan(largest), np.nan, np.where(np.isinf(largest), 2.0**127, scale))
            else:
                scale = np.maximum((largest / most).astype(np.float32), np.float32(2.0**-126))
                scale = np.where(largest == 0, 1.0, scale)
            scale = spread(scale, block, shape)
            made = round_to(values * (1 / scale).astype(np.float32), element)
        return made, scale * outer

    def computed(self, tree: Tree, x: Operand) -> Array:
        """What a tensor is before it is quantised anew: an expression whose every step f32 holds once rounded."""
        if tree[0] != "tensor":
            inner = [Bounded(self.computed(t, x)) for t in tree[1:]]
            made = bounds.INFIX[tree[0]](*inner) if tree[0] in bounds.INFIX else bounds.EXACT[tree[0]](*inner)
            return made.value.astype(np.float32).astype(np.float64)
        array, index = self.values[tree[1]].astype(np.float64), tree[2]
        return array if tree[1] == x.name else array.reshape([-1 if i in index else 1 for i in x.index])

    def dequantized(self, x: Operand, side: str, r: Range | None) -> Array:
        with np.errstate(all="ignore"):
            return dequantize(self.values[x.name], [], x.element, []) * self.factors(x, side, r)

    def factors(self, x: Operand, side: str, r: Range | None) -> Array:
        """The product of a tensor's scales at each element, exactly."""
        shape = self.values[x.name].shape
        made = np.ones(shape)
        for level, suffix in zip(x.granularities(side), ("_scale", "_scale2"), strict=False):
            made = made * self.factor(x, level, self.values[x.name + suffix], shape, r)
        return made

    def factor(self, x: Operand, g: Granularity, scales: Array, shape: tuple[int, ...], r: Range | None) -> Array:
        ones = np.ones(shape, np.float32).astype(self.values[x.name].dtype)
        axis = x.index.index(r.dim) if r is not None and r.apart and r.dim in x.index else None
        if r is None or axis is None or g.tensor:
            return dequantize(ones, [scales], x.element, [g])
        if not shape[axis]:  # there are scales of groups of nothing
            return np.ones(shape)
        block = block_shape(g, shape)
        at, extent = apart(g, shape, axis, self.values[r.high.partition("[")[0]])
        counted = tuple(extent if a == axis else n for a, n in enumerate(shape))
        each = from_layout(scales, g.layout, scale_shape(block, counted), g.type).astype(np.float64)
        places = [(np.maximum(at, 0) if a == axis else np.arange(n)) // block[a] for a, n in enumerate(shape)]
        return each[np.ix_(*places)]

    @cached_property
    def span(self) -> dict[str, float]:
        """How far scales of a tensor are above and below 1 at most, as powers of two."""
        found = {}
        for name, side in self.program.sides.items():
            each = np.abs(self.factors(self.program.tensors[name], side, None)) if self.plain() else np.ones(1)
            usable = np.where(np.isfinite(each) & (each > 0), each, 1.0)
            found[name] = float(np.abs(np.log2(usable)).max(initial=0))
        for tree in (t for s in self.program.statements for t in every(s.tree) if t[0] == "quantize"):
            scales = self.quantized(tree, self.program.sides[multiplied(tree)])[1]
            usable = np.where(np.isfinite(scales) & (scales > 0), scales, 1.0)
            found[multiplied(tree)] += float(np.abs(np.log2(usable)).max(initial=0))
        return found

    def plain(self) -> bool:
        """Whether no range gives blocks of scales to each group."""
        return not any(s.range and s.range.apart for s in self.program.statements)

    # ------------------------------------------------------------------------------------------------------- steps

    def tree(self, tree: Tree, s: Statement, slack: Slack, left: list[Skip], kept: Names) -> Value:
        op, *rest = tree
        own = {"tensor": self._tensor, "name": self._name, "@": self._contraction, "fold": self._fold,
               "hadamard": self._hadamard}.get(op)  # fmt: skip
        if own is not None:
            return own(tree, s, slack, left, kept)
        if op == "scaled":
            less = zeros_of(rest[0], self.program.tensors) is not None
            return self.operand(rest[0], "lhs", s, left) if less else self.tree(rest[0], s, slack, left, kept)
        if op == "stochastic":  # bounds of what is rounded: `result` has the bits
            return self.tree(rest[0], s, slack, left, kept)
        if op == "number":
            return Value(frozenset(), Bounded(np.full([1] * len(self.axes), float(np.float32(rest[0])))))
        inner = [self.tree(t, s, slack, left, kept) for t in rest if isinstance(t, tuple)]
        dims, skips = frozenset().union(*(x.dims for x in inner)), tuple(k for x in inner for k in x.skips)
        made = apply(op, [x.of for x in inner], rest, slack)
        if op not in ("+", "-") or len(inner) < 2 or self.functions or not any(x.terms for x in inner):
            return Value(dims, made, skips)
        terms = together(inner)
        if all(self.multiplied(t) for t in rest):  # products that are added up are one sum, in any order
            made = Bounded(made.value, summed(made.value, sum((x.of.error for x in inner), np.zeros(())), terms))
        return Value(dims, made, skips, terms)

    def multiplied(self, tree: Tree) -> bool:
        """Whether something is computed of a product."""
        below = every(tree)
        names = {t[1] for t in below if t[0] in ("name", "tensor")} & self.made.keys()
        return any(t[0] == "@" for t in below) or any(self.multiplied(self.made[n].tree) for n in names)

    def _tensor(self, tree: Tree, s: Statement, slack: Slack, left: list[Skip], kept: Names) -> Value:
        if tree[1] in self.made:
            return self.statement(self.made[tree[1]], slack)
        name, index, x = *tree[1:3], self.program.tensors[tree[1]]
        made = self.tensor(name, index, self.values[name].astype(np.float64), left)
        for g, suffix in zip(x.granularities("lhs"), ("_scale", "_scale2"), strict=False):
            each = self.tensor(
                name, index, self.factor(x, g, self.values[name + suffix], self.values[name].shape, None), left
            )
            made = Value(made.dims, bounds.INFIX["*"](made.of, each.of), made.skips)
        return made

    def _name(self, tree: Tree, s: Statement, slack: Slack, left: list[Skip], kept: Names) -> Value:
        if tree[1] in self.made:
            return self.statement(self.made[tree[1]], slack)
        return Value(frozenset(), Bounded(np.full([1] * len(self.axes), float(self.values[tree[1]]))))

    def _contraction(self, tree: Tree, s: Statement, slack: Slack, left: list[Skip], kept: Names) -> Value:
        known = self.sums.get((id(tree), kept))
        if known is None:
            lhs, rhs = (self.operand(t, side, s, left) for t, side in zip(tree[1:3], ("lhs", "rhs"), strict=True))
            names = [t[1] for x in tree[1:3] for t in every(x) if t[0] == "tensor" and t[1] in self.program.sides]
            known = self.contract(lhs, rhs, left, kept, names)
            self.sums[id(tree), kept] = known
        return known

    def contract(self, lhs: Value, rhs: Value, left: list[Skip], kept: Names, names: list[str]) -> Value:
        """The sums of products over all that is not kept; terms that are left out are 0."""
        skips = (*lhs.skips, *rhs.skips, *left)
        dims = lhs.dims | rhs.dims | frozenset().union(*(d for d, _ in left))
        summed = (dims & self.names) - kept
        mask: Array = np.ones([1] * len(self.axes), bool)
        for _, outside in skips:
            mask = mask & ~outside
        a, b = (np.where(mask, x.of.value, 0.0) for x in (lhs, rhs))
        ea, eb = (np.where(mask, x.of.error, 0.0) for x in (lhs, rhs))
        anything = [
            self.einsum(np.isinf(e).astype(float), mask + 0.0, summed) > 0 for e in (ea, eb) if np.isinf(e).any()
        ]
        ea, eb = (np.where(np.isinf(e), 0.0, e) for e in (ea, eb))
        finite = [np.where(np.isfinite(x), np.abs(x), 0) for x in (a, b)]
        value, magnitude = self.einsum(a, b, summed), self.einsum(finite[0], finite[1], summed)
        terms = int(np.prod([float(self.sizes[d]) for d in summed]))
        exact = (magnitude <= 2.0**24 * bounds.grid(a, b)) & ~(ea.any() or eb.any())
        off = np.zeros(())
        if ea.any() or eb.any():
            off = self.einsum(finite[0], eb, summed) + self.einsum(ea, finite[1] + eb, summed)
        error = np.where(exact, 0.0, off + (terms + 8) * (ROUND * magnitude + LEAST))
        error = np.where(np.isfinite(value) | np.isinf(error), error, 0.0)
        loose = (magnitude + error > LARGEST) | (sum(self.span.get(n, 0.0) for n in set(names)) > SPAN)
        for other in anything:
            loose = loose | other
        if names and not self.scales_are_numbers(names):  # of sums over nothing these may make NaN
            loose = loose | ~self.einsum(mask * np.ones_like(a), np.ones_like(b) * mask, summed).astype(bool)
        own = tuple((d, m) for d, m in skips if d <= kept)
        quantum = 0.0 if ea.any() or eb.any() else bounds.grid(a, b)
        of = Bounded(value, np.where(loose, np.inf, 0.0 if self.functions else error))
        return Value((lhs.dims | rhs.dims) & kept, of, own, Terms(magnitude, quantum, terms))

    def scales_are_numbers(self, names: list[str]) -> bool:
        found = [self.values[n + x] for n in names for x in ("_scale", "_scale2") if n + x in self.values]
        largest = [np.abs(x.astype(np.float64)).max(initial=1) for x in found if x.dtype.kind != "i"]
        return bool(np.prod(largest) <= LARGEST)

    def einsum(self, a: Array, b: Array, summed: Names) -> Array:
        """The sum over some dimensions of the product; of those of extent 1 too."""
        letters = {i: chr(97 + i) for i in range(len(self.axes))}
        spell = ["".join(letters[i] for i, n in enumerate(x.shape) if n != 1) for x in (a, b)]
        full = np.broadcast_shapes(a.shape, b.shape)
        out = [i for d, i in self.axes.items() if d not in summed and full[i] != 1]
        made = np.einsum(f"{spell[0]},{spell[1]}->{''.join(letters[i] for i in out)}",
                         *(x.reshape([n for n in x.shape if n != 1]) for x in (a, b)), optimize=True)  # fmt: skip
        once = float(np.prod([self.sizes[d] for d in summed if full[self.axes[d]] == 1], initial=1.0))
        return made.reshape([full[i] if i in out else 1 for i in range(len(full))]) * once

    def _fold(self, tree: Tree, s: Statement, slack: Slack, left: list[Skip], kept: Names) -> Value:
        _, how, dims, inner = tree
        x = self.tree(inner, s, slack, left, kept | frozenset(dims))
        if how == "sum" and inner[0] == "exp" and inner[1][0] == "-":
            x = replace(x, of=exponentials(x.of))
        axes = tuple(self.axes[d] for d in dims)
        outside: Array = np.zeros([1] * len(self.axes), bool)
        ranges = [(own, mask) for own, mask in left if own & set(dims)]  # of what is reduced
        for own, mask in (*x.skips, *ranges):
            if not own <= kept:
                outside = np.asarray(outside | mask)
        shape = [self.sizes[d] if i in axes else 1 for d, i in self.axes.items()]
        none = {"sum": 0.0, "max": -np.inf, "min": np.inf}[how]
        value = np.where(outside, none, x.of.value) + np.zeros(shape)
        error = np.where(outside, 0.0, x.of.error) + np.zeros(shape)
        of = folded(how, value, error, axes, none)
        depends = x.dims.union(*(own for own, _ in ranges)) - set(dims)
        return Value(depends, of, tuple((d, m) for d, m in x.skips if d <= kept))

    def _hadamard(self, tree: Tree, s: Statement, slack: Slack, left: list[Skip], kept: Names) -> Value:
        x, last = self.tree(tree[1], s, slack, left, kept), s.result.index[-1]
        shape = list(x.of.value.shape)
        shape[self.axes[last]] = self.sizes[last]
        of = Bounded(np.broadcast_to(x.of.value, shape), np.broadcast_to(x.of.error, shape))
        return Value(x.dims | {last}, transformed(of, self.axes[last]), x.skips)

    # ------------------------------------------------------------------------------------------------------- results

    def statement(self, s: Statement, slack: Slack) -> Value:
        """What a statement makes, over the dimensions of its result."""
        dims = frozenset(n for i in s.result.index for n in NAMES.findall(i)) & self.names
        left = self.domain(s.range)
        # a range ties a group to the row that it is of: each row has one group, or none
        tied = (left[0][0] if s.range is not None and s.range.dim in dims else frozenset()) - dims
        made = self.tree(s.tree, s, slack, left, dims | tied)
        skips: tuple[Skip, ...] = (*made.skips, *((d, m) for d, m in left if d <= dims | tied))
        if tied:
            axes = tuple(self.axes[d] for d in tied)
            outside: Array = np.zeros([1] * len(self.axes), bool)
            for _, mask in skips:
                outside = np.asarray(outside | mask)
            shape = np.broadcast_shapes(outside.shape, made.of.value.shape)
            value, error = (np.where(outside, 0.0, x) + np.zeros(shape) for x in (made.of.value, made.of.error))
            gone = outside.all(axis=axes, keepdims=True)
            of = Bounded(value.sum(axis=axes, keepdims=True), error.sum(axis=axes, keepdims=True))
            own = frozenset().union(*(d for d, _ in skips)) - tied
            made, skips = Value(dims, of), ((own, np.asarray(gone)),)
        if s.otherwise:
            outside: Array = np.zeros([1] * len(self.axes), bool)
            for _, mask in skips:
                outside = np.asarray(outside | mask)
            other = float(np.float32(s.otherwise))
            of = Bounded(np.where(outside, other, made.of.value), np.where(outside, 0.0, made.of.error))
            return Value(dims, of)
        return Value(dims, made.of, tuple(skips), made.terms)

    def result(self, s: Statement, shape: tuple[int, ...]) -> Bounded:
        """What is written to a result of this shape, and `asked`: which of its elements are."""
        with np.errstate(all="ignore"):
            made = self.statement(s, bounds.slacks(s.result.element))
            _, at, skips = self.access(s.result.index, shape)
            outside: Array = np.zeros([1] * len(self.axes), bool)
            for _, mask in (*made.skips, *skips):
                outside = np.asarray(outside | mask)
            *places, value, error, kept = np.broadcast_arrays(*at, made.of.value, made.of.error, ~outside)
            asked, stored = np.zeros(shape, bool), Bounded(np.zeros(shape))
            where = tuple(i[kept] for i in places)
            asked[where] = True
            stored.value[where] = value[kept]
            stored.error = np.zeros(shape)
            stored.error[where] = error[kept]
            if s.adds:
                stored = bounds.INFIX["+"](stored, Bounded(self.values[s.result.name].astype(np.float64)))
            stored.asked = asked
            if s.tree[0] == "stochastic":
                stored.bits = random_bits(shape, [int(self.values[name][at]) for name, at in s.tree[2]])
            return stored


def unpacked(program: Program, name: str, array: Array, sizes: dict[str, int]) -> Array:
    """A tensor in words, or in an order, as rows of its last index."""
    how, n = program.eights[name], sizes[program.tensors[name].index[-1]]
    if how != WORDS:
        return array[..., places(how, n)]
    at = np.arange(n)
    return np.moveaxis(array[..., at // 8, :, at % 8], 0, -1)


def stored(program: Program, name: str, mask: Array, shape: tuple[int, ...]) -> Array:
    """A mask of a tensor's rows as the tensor is stored; of what no row has it is False."""
    how, at = program.eights.get(name, ""), np.arange(mask.shape[-1])
    made = np.zeros(shape, bool)
    if how == WORDS:
        made[..., at // 8, :, at % 8] = np.moveaxis(mask, -1, 0)
    else:
        made[..., places(how, mask.shape[-1]) if how else at] = mask
    return made


def together(values: list[Value]) -> Terms:
    """The terms of a sum of some; of one that is no sum of products itself all of it is a term."""
    found = []
    for x in values:
        size = np.where(np.isfinite(x.of.value), np.abs(x.of.value), 0) + np.where(np.isinf(x.of.error), 0, x.of.error)
        quantum = 0.0 if x.of.error.any() else bounds.grid(x.of.value)
        found.append(x.terms or Terms(size, quantum, 1))
    return Terms(
        sum((x.magnitude for x in found), np.zeros(())), min(x.quantum for x in found), sum(x.count for x in found)
    )


def summed(value: Array, error: Array, terms: Terms) -> Array:
    """The largest error of a sum in any order, of terms that have one."""
    exact = (error == 0) & (terms.magnitude <= 2.0**24 * terms.quantum)
    error = np.where(exact, 0.0, error + (terms.count + 8) * (ROUND * terms.magnitude + LEAST))
    error = np.where(np.isfinite(value) | np.isinf(error), error, 0.0)
    return np.where(terms.magnitude + error > LARGEST, np.inf, error)
