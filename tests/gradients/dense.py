"""What a resolved program computes, in torch's float64 over the space of all indices: autograd has its gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from scalec import reference
from scalec.formats import Granularity
from scalec.frontend import affine
from scalec.frontend.program import (
    Apply,
    Constant,
    Contract,
    Program,
    Quantized,
    Range,
    Read,
    Reduce,
    Rounded,
    Scalar,
    Statement,
    Value,
)

Names = frozenset[str]
Points = tuple[torch.Tensor, np.ndarray, Names]
"""Values over the space, an axis a dimension, 1 where nothing depends on it; where they are; their dimensions."""

FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "+": torch.add,
    "-": torch.sub,
    "*": torch.mul,
    "/": torch.div,
    "negate": torch.neg,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    **{name: getattr(torch, name) for name in ("relu", "sigmoid", "tanh", "exp", "sqrt", "abs", "sign")},
}
FOLDS: dict[str, tuple[float, Callable[..., torch.Tensor]]] = {
    "sum": (0.0, torch.sum),
    "max": (-np.inf, torch.amax),
    "min": (np.inf, torch.amin),
}


class Dense:
    """One program at sizes: of tensors by name, those of integers as numpy arrays."""

    def __init__(self, program: Program, sizes: Mapping[str, int], values: Mapping[str, Any]) -> None:
        self.dims, self.sizes, self.values = list(program.dims), sizes, values
        self.everywhere = np.ones([1] * len(self.dims), bool)
        self.made: dict[int, Points] = {}
        self.within: tuple[np.ndarray, Names] = self.everywhere, frozenset()  # of the statement at hand

    # ------------------------------------------------------------------------------------------------------ indices

    def along(self, dim: str) -> np.ndarray:
        return np.arange(self.sizes[dim]).reshape([-1 if d == dim else 1 for d in self.dims])

    def index(self, i: affine.Linear) -> tuple[np.ndarray, np.ndarray]:
        """An index at every point, and where it is one."""
        at, there = np.full(self.everywhere.shape, i.constant), self.everywhere
        for atom, factor in i.terms:
            value, own = self.atom(atom)
            at, there = at + factor * value, there & own
        return at, there

    def atom(self, a: affine.Atom) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(a, affine.Dim):
            return self.along(a.name), self.everywhere
        if isinstance(a, affine.Size):
            return np.full(self.everywhere.shape, self.sizes[a.name]), self.everywhere
        if isinstance(a, affine.Symbol):
            tensor = np.asarray(self.values[a.tensor], np.int64)
            at, there = self.place(a.index, tensor.shape)
            found = tensor[tuple(at)]
            return found, there & (found >= 0)
        at, there = self.index(a.value)
        if isinstance(a, affine.Remainder):
            return at % a.divisor, there
        return -(-at // a.divisor) if a.ceiling else at // a.divisor, there

    def place(self, index: Sequence[affine.Linear], shape: Sequence[int]) -> tuple[list[np.ndarray], np.ndarray]:
        """Where a tensor is read or written, and at which points it is."""
        found, there = [], self.everywhere
        for i, extent in zip(index, shape, strict=True):
            at, own = self.index(i)
            there = there & own & (at >= 0) & (at < extent)
            found.append(np.clip(at, 0, extent - 1))
        return list(np.broadcast_arrays(*found)), there

    def inside(self, ranges: Iterable[Range]) -> tuple[np.ndarray, Names]:
        """Which points ranges have, and what says so."""
        there, dims = self.everywhere, frozenset[str]()
        for r in ranges:
            at, low, high = self.along(r.dim), self.index(r.lower)[0], self.index(r.upper)[0]
            there = there & (at >= low) & (at < high)
            dims |= {r.dim} | affine.dims(r.lower) | affine.dims(r.upper)
        return there, dims

    # ------------------------------------------------------------------------------------------------------- values

    def value(self, v: Value, kept: Names) -> Points:
        """A value at every point; `kept`: what no product sums over."""
        if isinstance(v, Constant):
            return torch.tensor(v.number, dtype=torch.float64).reshape(self.everywhere.shape), self.everywhere, Names()
        if isinstance(v, Read):
            return self.read(v)
        if isinstance(v, Rounded):
            return self.value(v.value, kept)
        if isinstance(v, Quantized):
            return self.quantized(v, kept)
        if isinstance(v, (Reduce, Contract)):
            return self.summed(v, kept)
        assert isinstance(v, Apply)
        found = [self.value(a, kept) for a in v.arguments]
        xs, there = [x for x, _, _ in found], self.everywhere
        for _, own, _ in found:
            there = there & own
        return self.applied(v, xs), there, Names().union(*(d for _, _, d in found))

    def applied(self, v: Apply, xs: list[torch.Tensor]) -> torch.Tensor:
        if v.function == "power":
            return xs[0] ** v.exponent
        if v.function in ("max", "min"):
            pair, made = {"max": torch.maximum, "min": torch.minimum}[v.function], xs[0]
            for x in xs[1:]:
                made = pair(*torch.broadcast_tensors(made, x))
            return made
        return FUNCTIONS[v.function](*xs)

    def read(self, v: Read, given: torch.Tensor | None = None) -> Points:
        if isinstance(v.source, Statement):
            before = self.within
            found = self.statement(v.source)
            self.within = before
            return found
        tensor: torch.Tensor = self.values[v.source.name] if given is None else given
        if isinstance(v.source, Scalar):
            return tensor.reshape(self.everywhere.shape), self.everywhere, Names()
        at, there = self.place(v.index, tensor.shape)
        found = torch.where(torch.tensor(there), tensor[tuple(torch.tensor(a) for a in at)], 0.0)
        return found, there, Names(d for i in v.index for d in affine.dims(i))

    def quantized(self, v: Quantized, kept: Names) -> Points:
        """What stands in the place of a value, with the gradient of the value."""
        level = Granularity(v.level.block, v.level.type)

        def through(x: torch.Tensor) -> torch.Tensor:
            made = reference.quantize(x.detach().numpy().astype(np.float32), v.element, [level])
            return x + (torch.tensor(reference.dequantize(made.values, made.scales, v.element, [level])) - x).detach()

        if v.tensor is not None:
            assert isinstance(v.value, Read)
            return self.read(v.value, through(self.values[v.tensor.name]))
        x, there, dims = self.value(v.value, kept)
        axes = [self.dims.index(d) for i in v.index for d in affine.dims(i)]  # of idx[m] each m has its own blocks
        full = x.expand([self.sizes[d] if i in axes else 1 for i, d in enumerate(self.dims)])
        order = [*axes, *(i for i in range(x.dim()) if i not in axes)]
        made = through(full.permute(order).reshape([full.shape[i] for i in axes]))
        back = made.reshape([full.shape[i] for i in order]).permute([order.index(i) for i in range(x.dim())])
        return back, there, dims

    def summed(self, v: Reduce | Contract, kept: Names) -> Points:
        """A reduction, or the sum of products over all that is not kept; terms that are left out are none."""
        inside, ranged = self.within
        if isinstance(v, Reduce):
            over = v.value.dims - v.dims
            x, own, dims = self.value(v.value, kept | over)
            inside = inside if ranged & over else self.everywhere
        else:
            (a, one, left), (b, other, right) = self.value(v.left, kept), self.value(v.right, kept)
            x, own, dims = a * b, one & other, left | right
            over = (dims | ranged) - kept
        there, ranged = own & inside, ranged if inside is not self.everywhere else Names()
        axes = [self.dims.index(d) for d in over]
        shape = list(np.broadcast_shapes(x.shape, there.shape))
        for axis in axes:
            shape[axis] = self.sizes[self.dims[axis]]
        none, fold = FOLDS[v.kind if isinstance(v, Reduce) else "sum"]
        terms = torch.where(torch.tensor(np.broadcast_to(there, shape)), x.expand(shape), none)
        made = fold(terms, dim=axes, keepdim=True) if axes else terms
        beside = tuple(i for i, d in enumerate(self.dims) if d not in kept)  # which says which terms there are
        return made, np.asarray(own.any(axis=beside, keepdims=True)), (dims | ranged) - over

    # --------------------------------------------------------------------------------------------------- statements

    def statement(self, s: Statement) -> Points:
        if id(s) not in self.made:
            self.made[id(s)] = self._statement(s)
        return self.made[id(s)]

    def _statement(self, s: Statement) -> Points:
        dims = Names(d for i in s.index for d in affine.dims(i))
        tied = Names(x for r in s.ranges if r.dim in dims for x in affine.dims(r.lower) | affine.dims(r.upper)) - dims
        self.within = self.inside(s.ranges)
        x, there, depends = self.value(s.value, dims | tied)
        for r in s.ranges:
            own, told = self.inside([r])
            there = there & own if told <= dims | tied else there
        if tied:  # each row has one group, or none
            axes = [self.dims.index(d) for d in tied]
            inside = torch.tensor(there)
            x = torch.where(inside, x, 0.0).sum(axes, keepdim=True)
            there = np.asarray(there.any(axis=tuple(axes), keepdims=True))
        if s.otherwise is not None:
            x, there = torch.where(torch.tensor(there), x, s.otherwise), self.everywhere
        return x, there, depends - tied

    def transformed(self, s: Statement, x: torch.Tensor) -> torch.Tensor:
        """Each so many along the last index times a matrix of Hadamard's; what is missing of the last ones is 0."""
        axis = self.dims.index(affine.plain(s.index[-1]) or "")
        size, matrix = x.shape[axis], torch.ones(1, 1, dtype=torch.float64)
        while len(matrix) < s.hadamard:
            matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64), matrix)
        rows = torch.nn.functional.pad(x.movedim(axis, -1), (0, -size % s.hadamard))
        made = (rows.unflatten(-1, (-1, s.hadamard)) @ matrix).flatten(-2) / s.hadamard**0.5
        return made[..., :size].movedim(-1, axis)

    def result(self, s: Statement, shape: tuple[int, ...]) -> tuple[torch.Tensor, np.ndarray]:
        """A result of this shape, and which of its elements are written."""
        x, there, _ = self.statement(s)
        x = self.transformed(s, x) if s.hadamard else x
        at, own = self.place(s.index, shape)
        full = np.broadcast_shapes(at[0].shape, x.shape, there.shape)
        kept = np.broadcast_to(there & own, full)
        where = tuple(np.broadcast_to(a, full)[kept] for a in at)
        written = np.zeros(shape, bool)
        written[where] = True
        made = torch.zeros(shape, dtype=torch.float64)
        places = tuple(map(torch.tensor, where))
        return made.index_put(places, x.expand(full)[torch.tensor(kept)]), written
