"""The walk from a program's results to its inputs: what each value's gradient is, as an expression.

A result C has the gradient dC, which is given. Statements are visited in reverse; the gradient of a temporary is the
sum of what its uses give. An elementwise function passes its share on (derivatives.py), a contraction makes programs of
its own (products.py), and what reaches an input is written down there (leaves.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from scalec.frontend import affine
from scalec.frontend.affine import of_dims
from scalec.frontend.program import Apply, Contract, Range, Read, Reduce, Rounded, Statement, Tensor, Value
from scalec.gradients import derivatives, products
from scalec.gradients.expressions import (
    apply,
    below,
    children,
    is_number,
    minus,
    number,
    over,
    plus,
    read,
    times,
)
from scalec.gradients.kept import Kept
from scalec.gradients.leaves import summed, write
from scalec.gradients.outside import at_else
from scalec.gradients.places import along, in_blocks
from scalec.gradients.steps import LeftOut, MadeIndex, Points
from scalec.gradients.text import in_order
from scalec.gradients.trace import FLOATS, Made, Share, Trace, is_float8


@dataclass
class Backward(Trace):
    """One walk."""

    adjoints: dict[int, Value] = field(default_factory=dict)  # by statement, of temporaries

    def walk(self) -> None:
        """From the last statement to the first."""
        for s in reversed(self.program.statements):
            adjoint = self.adjoints.get(id(s)) if s.temporary else self._given(s)
            if adjoint is not None and not is_number(adjoint, 0):
                self.back(s.value, adjoint, s, frozenset(s.dims))
        write(self)

    def computed_again(self) -> list[tuple[Kept, Made]]:
        """The steps of what is not kept, though the gradient reads it."""
        every = [k for k in (self.keeper.chosen or {}).values() if k.again]
        return [
            (
                k,
                Made(
                    [Statement(k.tensor, of_dims(k.dims), k.dims, k.value, False, k.statement.ranges)],
                    {k.tensor.name: ""},
                    True,
                ),
            )
            for k in every
        ]

    def back(self, v: Value, adjoint: Value, s: Statement, space: frozenset[str]) -> None:
        """Passes on the gradient `adjoint` of a value of statement `s`, one at each point of `space`."""
        if is_number(adjoint, 0) or not self.needed(v):
            return
        if isinstance(v, (Read, Contract)):
            self._check_outside(v, adjoint, s, space)
        if isinstance(v, Read):
            self.reached(v, adjoint, space)
        elif isinstance(v, Apply):
            for a, share in zip(v.arguments, derivatives.shares(adjoint, v), strict=True):
                self.back(a, share, s, space)
        elif isinstance(v, Rounded):
            self.back(v.value, adjoint, s, space)
        elif isinstance(v, Reduce):
            if v.kind != "sum":
                adjoint, space = self._shared_out(v, adjoint, space)
            self.back(v.value, adjoint, s, space | v.value.dims)
        elif isinstance(v, Contract):
            for p in products.back(self, v, adjoint, s):
                if isinstance(p.to, Read):
                    self.reached(p.to, p.adjoint, p.space, p.ranges)
                else:
                    self.back(p.to, p.adjoint, s, p.space)
        else:
            raise self.error(v.span, "zero points have no gradient", "integers", "an operand without them", "")

    def _shared_out(self, v: Reduce, adjoint: Value, space: frozenset[str]) -> tuple[Value, frozenset[str]]:
        """The gradient of each element that a `max` or `min` is of, and its points: those that it is share its
        gradient, as torch has it. It is found again, of the same elements: what is computed is stored before, in f32,
        as two kernels may compute the same to other bits."""
        none, of, chain, source = {"max": -math.inf, "min": math.inf}[v.kind], v.value, [], "of"
        while isinstance(of, Read):
            if not isinstance(of.source, Statement):
                source = of.source.name
                break
            chain.append(of.source)
            of = of.source.value  # X of `T[m,n] = X[m,n] for n < m+1 else -inf`
        for x in (x.source for x in below(v.value) if isinstance(x, Read) and isinstance(x.source, Statement)):
            if x.otherwise not in (None, none if x in chain else None):
                raise self.error(
                    v.span,
                    f"{v.kind}[...] of what is {x.otherwise:g} outside a range has no gradient here",
                    f"{x.tensor.name} else {x.otherwise:g}",
                    f"what has no else, or is {none:g} there itself",
                    f"write the range, with else {none:g}, behind a temporary that is all that {v.kind}[...] is of",
                )
        kept = tuple(d for d in in_order(v.value) if d in v.dims)
        index = of_dims(kept) or (affine.constant(0),)
        name = self.fresh(f"{v.kind}_{source}")
        if adjoint.dims - v.dims - self.linked(v.dims):  # it is broadcast where it is used
            share = Share(of_dims(kept), adjoint, space)
            adjoint, space = summed(self, self.fresh(f"d{name}"), "f32", share, ""), v.dims
        if isinstance(of, Read):
            of = v.value
        else:
            self.keeper.compare(v.value)
            of = self.keeper.of(v.value)
        if not isinstance(of, Read):
            at = of_dims(tuple(in_order(v.value)))
            of = read(self.emit(self.fresh(f"of_{v.kind}"), "f32", at, v.value), at)
        found = self.emit(name, "f32", index, Reduce(v.span, v.dims, v.kind, of))
        is_it = minus(number(1), apply("sign", apply("abs", minus(of, read(found, index)))))
        count = Reduce(v.span, v.dims, "sum", is_it)
        each = self.emit(self.fresh(f"d{name}_each"), "f32", index, over(adjoint, count))
        return times(read(each, index), is_it), space

    def reached(self, v: Read, adjoint: Value, space: frozenset[str], ranges: tuple[Range, ...] = ()) -> None:
        """Notes what a use of a tensor, a scalar or a temporary gives it."""
        if not isinstance(v.source, Statement):
            self.shares.setdefault(v.source.name, []).append(Share(v.index, adjoint, space, ranges, v.source.name))
            return
        share, key = Share(v.index, adjoint, space), id(v.source)
        if adjoint.dims - v.dims - self.linked(v.dims):  # it is broadcast where it is used
            adjoint = summed(self, self.fresh(f"d{v.source.tensor.name}"), "f32", share, "")
        self.all_there(v, space - v.dims - self.linked(v.dims), share.value.dims)
        self.adjoints[key] = plus(self.adjoints[key], adjoint) if key in self.adjoints else adjoint

    def _check_outside(self, v: Read | Contract, adjoint: Value, s: Statement, space: frozenset[str]) -> None:
        """Refuses what gets something where a temporary has the value behind its `else`: steps have its range."""
        mine = {r.dim for r in s.ranges} | (
            v.dims if isinstance(v, Read) and isinstance(v.source, Statement) else set()
        )
        for t in (x.source for x in below(s.value) if isinstance(x, Read) and isinstance(x.source, Statement)):
            there = {r.dim for r in t.ranges} - mine & (space | adjoint.dims)
            if t.otherwise is not None and there and at_else(adjoint) != 0:
                raise self.error(
                    v.span,
                    f"the gradient of this has points outside the range of {', '.join(sorted(there))}",
                    f"{t.tensor.name}, which is {t.otherwise:g} there",
                    "a factor that is 0 there, as what has else 0, or exp of what has else -inf",
                    "give the results the range too, or leave this input out of wrt",
                )

    def _given(self, s: Statement) -> Value | None:
        """The gradient of a result, as its index says."""
        if s.tensor.name not in self.options.results or not self.needed(s.value):
            return None
        if any(x.outer is s for x in self.program.statements):  # a scale: what it is of is rounded
            return None
        tensor, span = s.tensor, s.tensor.span
        if s.copies:
            what = f"{tensor.name} is scales that are copied, and has no gradient"
            raise self.error(span, what, tensor.element, "a result that is computed", "give the program without it")
        integer = tensor.element not in FLOATS and not is_float8(tensor)
        if integer:
            raise self.error(
                span,
                f"{tensor.name} is of integers and has no gradient",
                tensor.element,
                "a floating-point result",
                "give the program without it",
            )
        if (tensor.levels or tensor.element not in FLOATS) and not self.options.straight_through:
            raise self.error(
                span,
                f"{tensor.name} is quantised, and rounding has no gradient",
                f"{tensor.name} of {tensor.element}{' with scales' if tensor.levels else ''}",
                "a result of bf16, f16 or f32",
                "straight_through=True takes the gradient of what is stored for that of what is rounded",
            )
        name = self.given.get(tensor.name) or self.fresh(f"d{tensor.name}")
        self.given[tensor.name] = name
        element = tensor.element if tensor.element in FLOATS else "bf16"
        if left_out := tuple(self._left_out(s)):
            self.left_out[name] = left_out
        given = read(Tensor(name, span, list(tensor.extents), element), s.index)
        if any(affine.symbols(i) and not affine.read(i) for i in s.index):
            at = of_dims(s.dims)
            index = tuple(self._gathered(tensor.name, axis, i) for axis, i in enumerate(s.index))
            given = read(self.emit(self.fresh(f"{name}_{s.dims[-1]}"), element, at, read(given.source, index)), at)
        if not s.hadamard:
            return given
        at = of_dims(s.dims)  # the transform is its own transpose
        back = self.emit(self.fresh(f"{name}_h"), element, at, given, ranged=bool(s.ranges), hadamard=s.hadamard)
        return read(back, at)

    def _gathered(self, tensor: str, axis: int, i: affine.Linear) -> affine.Linear:
        """An index of a result, by an index tensor where it is computed of what is read from memory: t - lo[q]."""
        if not affine.symbols(i) or affine.read(i):
            return i
        dims = tuple(sorted(affine.dims(i)))
        name = self.fresh(f"{tensor}_at")
        lengths = tuple(along(self, d) for d in dims)
        self.indices[name] = MadeIndex(
            "computed", str(i).replace(" ", ""), tensor, axis, points=Points((axis,), (i,), dims, lengths, "")
        )
        return affine.atom(affine.Symbol(name, of_dims(dims)))

    def _left_out(self, s: Statement) -> Iterator[LeftOut]:
        """The points of a result at which the index of one input leaves out what another one gets a gradient of."""
        axis = {affine.plain(i): a for a, i in enumerate(s.index)}
        reads = [x for x in below(s.value) if isinstance(x, Read)]
        for x in dict.fromkeys(x for r in reads for i in r.index for x in affine.symbols(i)):
            found = [in_blocks(i) for i in x.index]
            if all(f is not None and f[0] in axis and not f[2] for f in found) and self._reached_beside(s.value, x):
                yield LeftOut(x.tensor, tuple((axis[f[0]], f[1]) for f in found if f is not None))

    def _reached_beside(self, v: Value, x: affine.Symbol) -> bool:
        """Whether some input whose gradient is asked for is neither read at an index nor multiplied by what is."""
        if not self.needed(v):
            return False
        if isinstance(v, Contract):
            return all(x not in affine.symbols(i) for r in below(v) if isinstance(r, Read) for i in r.index)
        if isinstance(v, Read) and not isinstance(v.source, Statement):
            return all(x not in affine.symbols(i) for i in v.index)
        return any(self._reached_beside(c, x) for c in children(v))
