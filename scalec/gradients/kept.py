"""Which activations are kept: the fewest values of products and sums that what is differentiated can be computed of.

Of `C = gelu(alpha*A@B + b)` the gradient reads what gelu is of. That, and not the product, is kept, as all that reads
the product reads it there. Where a product is read in two ways, it is kept itself, and what is elementwise computed
again. A value that a result of the program has anyway is read there. Some of several products that one accumulator adds
up are computed again, as no kernel has these sums by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scalec.frontend.affine import of_dims
from scalec.frontend.program import (
    Apply,
    Contract,
    Program,
    Quantized,
    Read,
    Reduce,
    Rounded,
    Scales,
    Statement,
    Tensor,
    Value,
)
from scalec.gradients.expressions import below, bounds, group_of, read, rewritten
from scalec.gradients.steps import Part
from scalec.gradients.text import Writer, in_order


@dataclass(eq=False)
class Kept:
    """A value that the forward program keeps in `tensor`, over `dims`."""

    value: Value
    dims: tuple[str, ...]
    tensor: Tensor
    statement: Statement
    result: bool = False  # whether the program has it as a result anyway
    used: bool = False
    again: bool = False  # whether a step computes it again


class Keeper:
    """Finds what is to be kept. The gradient is made twice: once to see what it reads, once with what is kept of it."""

    def __init__(
        self, program: Program, fresh: dict[str, str], types: Mapping[str, str], parts: Mapping[str, Part]
    ) -> None:
        self.program, self.fresh, self.types, self.parts = program, fresh, types, parts
        self.opaque = {
            id(v): s for s in program.statements for v in below_own(s.value) if isinstance(v, (Contract, Reduce))
        }
        self.inputs = {a.name for a in program.arguments if not isinstance(a, Scales)}
        self.wanted: dict[str, Value] = {}
        self.compared: set[str] = set()
        self.chosen: dict[str, Kept] | None = None

    def of(self, v: Value) -> Value:
        """`v` with reads of what is kept in place of products and sums of the program."""
        return self._of(self.expanded(v))

    def _of(self, v: Value) -> Value:
        if not self._parts(v):
            return v
        if self.chosen is None:
            if self._forward(v) and self._affine(v) and self._as_large(v):
                self.wanted[self.key(v)] = v
                return v
        elif (kept := self.chosen.get(self.key(v))) is not None:
            kept.used = True
            return read(kept.tensor, of_dims(kept.dims))
        if isinstance(v, Apply):
            return Apply(v.span, v.dims, v.function, tuple(map(self._of, v.arguments)), v.exponent)
        if isinstance(v, Reduce):  # of the gradient itself
            return Reduce(v.span, v.dims, v.kind, self._of(v.value))
        return v

    def expanded(self, v: Value) -> Value:
        """`v` with temporaries written out."""

        def change(x: Value) -> Value | None:
            if id(x) in self.opaque:
                return x
            if isinstance(x, Read) and isinstance(x.source, Statement):
                return self.expanded(x.source.value)
            return None

        return rewritten(v, change)

    def key(self, v: Value) -> str:
        """What two values that are the same have in common."""
        return Writer().value(v)

    def _parts(self, v: Value) -> set[int]:
        """The products and sums of the program in a value."""
        return {id(x) for x in below(v) if id(x) in self.opaque}

    def _forward(self, v: Value) -> bool:
        """Whether a value is the program's own, with nothing of a gradient in it."""
        sources = [x.source for x in below(v) if isinstance(x, Read)]
        return all(isinstance(x, Statement) or x.name in self.inputs for x in sources)

    def _affine(self, v: Value) -> bool:
        """Whether a value has its products and sums in sums, and in products with what has none, alone."""
        if id(v) in self.opaque:
            return True
        if not isinstance(v, Apply):
            return False
        with_parts = [a for a in v.arguments if self._parts(a)]
        if v.function in ("+", "-", "negate"):
            return all(map(self._affine, with_parts))
        if v.function in ("*", "/") and len(with_parts) == 1:
            return self._affine(with_parts[0]) and (v.function == "*" or with_parts[0] is v.arguments[0])
        return False

    def _as_large(self, v: Value) -> bool:
        """Whether no sum in a value has fewer elements than the value: x[m,n] - M[m] is computed again of M."""
        return all(v.dims <= x.dims for x in below(v) if id(x) in self.opaque and isinstance(x, Reduce))

    def choose(self) -> None:
        """Decides, after the first time."""
        wanted = {k: v for k, v in self.wanted.items() if v.dims}  # one number is found again: no result lies beside it
        values = {k: v for k, v in wanted.items() if self._result(k) or not self._added(v)}
        while True:
            count: dict[int, int] = {}
            for v in values.values():
                for part in self._parts(v):
                    count[part] = count.get(part, 0) + 1
            again = [
                k for k, v in values.items() if id(v) not in self.opaque and any(count[p] > 1 for p in self._parts(v))
            ]
            if not again:
                break
            for k in again:
                nodes = {id(x): x for x in below(values.pop(k)) if id(x) in self.opaque}
                values |= {self.key(x): x for x in nodes.values()}
        self.chosen = {k: self._kept(k, v) for k, v in values.items()}

    def compare(self, v: Value) -> None:
        """Notes that steps look which elements of a value are equal: what it is made of is kept in f32."""
        self.compared |= {self.key(x) for x in below(self.expanded(v))}

    def _exact(self, key: str, v: Value) -> bool:
        return isinstance(v, Reduce) or key in self.compared

    def _added(self, v: Value) -> bool:
        """Whether a value has some products of a sum of the program, and not all, which have no operand in common."""
        mine = self._products(v)
        for s in self.program.statements:
            for x in below(self.expanded(s.value)):
                every = self._products(x)
                if isinstance(x, Apply) and x.function in ("+", "-") and mine.keys() < every.keys():
                    apart = [{self.key(side) for side in (c.left, c.right)} for c in every.values()]
                    if not set.intersection(*apart):
                        return True
        return False

    def _products(self, v: Value) -> dict[str, Contract]:
        return {self.key(x): x for x in below(v) if isinstance(x, Contract) and id(x) in self.opaque}

    def _kept(self, key: str, v: Value) -> Kept:
        part = min(self._parts(v), key=lambda p: [id(x) for x in below(v)].index(p))
        s = self.opaque[part]
        dims = v.dims - {
            group_of(r) for r in s.ranges if r.dim in v.dims and group_of(r) not in s.dims
        }  # a row has one
        order = s.dims if set(s.dims) == dims else tuple(d for d in in_order(v) if d in dims)
        order = tuple(order) or tuple(sorted(dims))
        if (t := self._result(key)) is not None and (t.tensor.element == "f32" or not self._exact(key, v)):
            return Kept(v, t.dims, t.tensor, t, result=True)
        temporary = next(
            (t for t in self.program.statements if t.temporary and self.key(self.expanded(t.value)) == key), None
        )
        again = _reduced_in_windows(s, part)
        name = temporary.tensor.name if temporary else f"{s.tensor.name}_in"
        name = self._name(name if again else f"{name}_kept")
        element = s.tensor.element if not s.temporary and not s.tensor.levels else ""
        results = [t.tensor.element for t in self.program.statements if not t.temporary and not t.tensor.levels]
        element = element or next((e for e in results if e in ("bf16", "f16", "f32")), "bf16")
        element = "f32" if self._exact(key, v) else element if element in ("bf16", "f16", "f32") else "bf16"
        tensor = Tensor(name, (0, 0), [None] * len(order), self.types.get(name, element))
        return Kept(v, order, tensor, temporary or s, again=again)

    def _result(self, key: str) -> Statement | None:
        """The program's result that has a value anyway."""
        for t in self.program.statements:
            plain_result = not t.temporary and not t.accumulate and not t.tensor.levels and t.index == of_dims(t.dims)
            if plain_result and t.otherwise is None and self.key(self.expanded(t.value)) == key:
                return t
        return None

    def _name(self, name: str) -> str:
        while name in self.fresh:
            name += "_"
        self.fresh[name] = "result"
        return name

    def used(self) -> list[Kept]:
        """What the gradient read in the end."""
        return [k for k in (self.chosen or {}).values() if k.used]

    def forward(self) -> tuple[str, tuple[str, ...]]:
        """The program with what is kept as results, and their names; "" where it is the program as it is."""
        kept = [k for k in self.used() if not k.result and not k.again]
        if not kept:
            return "", ()
        statements = list(self.program.statements)
        further = []
        for k in kept:
            if self.key(self.expanded(k.statement.value)) == self.key(k.value) and k.statement.temporary:
                source = k.statement
            else:
                source = self._lifted(k, statements)
            further.append(Statement(k.tensor, of_dims(k.dims), k.dims, read(source, of_dims(k.dims)), False))
        every, writer = [*statements, *further], Writer(self.parts)
        every = [s for s in every if not s.temporary or _read(s, every)]
        lines = list(map(writer.statement, every))
        settings = ", ".join(f"{name}={value}" for name, value in self.program.settings.items())
        text = "\n".join(lines) + (f" with {settings}" if settings else "")
        return text, tuple(k.tensor.name for k in kept)

    def _lifted(self, k: Kept, statements: list[Statement]) -> Statement:
        """A temporary of its own for a value that stands within a statement, in front of the first that reads it: maybe
        one made so before, of a value that this one is within."""
        tensor = Tensor(self._name(k.tensor.name.removesuffix("_").removesuffix("_kept")), (0, 0), [None] * len(k.dims))
        at = statements.index(next(s for s in statements if s.tensor is k.statement.tensor))
        key, s = self.key(k.value), k.statement
        made = Statement(tensor, of_dims(k.dims), k.dims, k.value, False, s.ranges, temporary=True)

        def change(v: Value) -> Value | None:
            if isinstance(v, (Apply, Contract, Reduce)) and self.key(self.expanded(v)) == key:
                return read(made, of_dims(k.dims))
            return v if isinstance(v, Contract) else None

        for i, t in enumerate(statements):
            value = rewritten(t.value, change)
            has = frozenset(t.dims).union(*(x.dims for x in below_own(value)))
            ranges = tuple(r for r in t.ranges if bounds(r) | {r.dim} <= has)  # else it is made's
            statements[i] = replace(t, value=value, ranges=ranges)
        statements.insert(next((i for i, t in enumerate(statements) if _read(made, [t])), at), made)
        return made


def _reduced_in_windows(s: Statement, part: int) -> bool:
    """Whether a product is reduced in its own statement, whose result has windows that are filled outside, or lie at
    computed indices: no kernel writes it there beside that."""
    reduced = any(id(x) == part for r in below_own(s.value) if isinstance(r, Reduce) for x in below_own(r.value))
    windows = any(group_of(r) is None and bounds(r) for r in s.ranges)
    return reduced and windows and (s.otherwise is not None or s.index != of_dims(s.dims))


def _read(s: Statement, every: list[Statement]) -> bool:
    """Whether a statement reads the temporary `s`."""
    nodes = (x for t in every for x in below_own(t.value) if isinstance(x, Read))
    return any(isinstance(x.source, Statement) and x.source.tensor is s.tensor for x in nodes)


def below_own(v: Value) -> list[Value]:
    """The nodes of a statement's value; those of the temporaries that it reads are their statements'."""
    found, stack = [], [v]
    while stack:
        x = stack.pop()
        found.append(x)
        if isinstance(x, Apply):
            stack += x.arguments
        elif isinstance(x, Contract):
            stack += (x.left, x.right)
        elif isinstance(x, (Reduce, Rounded, Quantized)):
            stack.append(x.value)
    return found
