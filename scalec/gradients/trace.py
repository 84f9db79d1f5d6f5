"""What the walk through a program makes: steps, their names, the ranges that they have, and what is at hand already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES
from scalec.frontend import affine
from scalec.frontend.affine import Linear, of_dims
from scalec.frontend.diagnostics import Source, Span
from scalec.frontend.program import (
    Apply,
    Contract,
    Program,
    Range,
    Read,
    Reduce,
    Scalar,
    Statement,
    Tensor,
    Value,
    pads,
    reads_in,
)
from scalec.gradients.cancelled import cancelled, extreme
from scalec.gradients.expressions import below, bounds, children, group_of, read, rewritten
from scalec.gradients.kept import Keeper, below_own
from scalec.gradients.recipes import Recipe
from scalec.gradients.steps import LeftOut, MadeIndex
from scalec.gradients.text import Writer, in_order, program

FLOATS = ("bf16", "f16", "f32", "tf32")
NAMED = 10
"""Characters that an expression has at least which a temporary stands for, where it is there twice."""


@dataclass(frozen=True)
class Options:
    """What the caller of scalec.grad said."""

    wrt: frozenset[str]
    types: Mapping[str, str]
    straight_through: bool
    once: frozenset[str]
    turned: frozenset[str]
    covered: frozenset[str]
    results: frozenset[str]
    recipe: Recipe | None
    sources: Mapping[str, str]


@dataclass(frozen=True)
class Share:
    """What one use of an input adds to its gradient: at `index`, the sum of `value` over the dimensions of `space` that
    the index has not, within `ranges`."""

    index: tuple[Linear, ...]
    value: Value
    space: frozenset[str]
    ranges: tuple[Range, ...] = ()
    of: str = ""
    """The input, "" of a temporary."""
    done: frozenset[str] = frozenset()
    """The dimensions whose ranges steps before have had."""


@dataclass
class Made:
    """A step before it is known what its arguments are: its statements, temporaries first, and by the name of each
    result the input whose gradient that is, or ""."""

    statements: list[Statement]
    of: dict[str, str]
    zeroed: bool

    @property
    def results(self) -> list[Statement]:
        return [s for s in self.statements if not s.temporary]

    @property
    def reads(self) -> set[str]:
        """The names of the tensors that it reads, but for indices."""
        return {tensor.name for s in self.statements for tensor, _ in reads_in(s.value)}

    @property
    def text(self) -> str:
        return program(Writer(), self.statements)


@dataclass
class Trace:
    """What one walk makes; `keeper` says what may be read of the forward program."""

    source: Source
    program: Program
    options: Options
    keeper: Keeper
    names: dict[str, str]
    made: list[Made] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)
    indices: dict[str, MadeIndex] = field(default_factory=dict)
    shares: dict[str, list[Share]] = field(default_factory=dict)
    left_out: dict[str, tuple[LeftOut, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ranges = self._ranges()
        self.cancelled = cancelled(s for s in self.program.statements if s.tensor.name in self.options.results)
        self.at_hand: dict[str, Tensor] = {}  # by what they are, tensors that steps have made
        self.counts: dict[tuple[str, int], str] = {}  # by tensor and index, what counts its elements along that
        self.rows: dict[tuple[str, int], str] = {}  # by tensor and index, what all of it is counted by
        # by operand and index, those that are given along that too, and which of the operand's indices that is
        self.layouts: dict[tuple[str, str, int], tuple[Tensor, int]] = {}
        self.filled: dict[str, frozenset[str]] = {}  # by what is zeros outside of windows, the dimensions of these
        self.hadamard = 0  # of the product at hand, elements along its sum that are transformed together
        self.transformed: dict[str, int] = {}  # likewise, of what is given so
        self.signs: dict[str, Tensor] = {}  # by dimension
        self.seed = ""
        self.values: dict[str, Read] = {}  # by what they are of, gradients that steps have made

    def all_there(self, v: Value, over: frozenset[str], has: frozenset[str]) -> None:
        """Refuses a gradient that is summed over what nothing in it depends on: as many times the same."""
        if missing := sorted(over - has):
            raise self.error(
                v.span,
                f"the gradient of this is the same for all {missing[0]}, and is summed over {missing[0]}",
                f"a sum over {missing[0]} of what has no {missing[0]}",
                "what depends on it",
                f"multiply by the number of {missing[0]} after the sum, or leave this input out of wrt",
            )

    def needed(self, v: Value) -> bool:
        """Whether a value depends on an input whose gradient is asked for."""
        stack = [v]
        while stack:
            v = stack.pop()
            if isinstance(v, Read) and self._wanted(v.source):
                return True
            if not (extreme(v) and Writer().value(v) in self.cancelled):
                stack += children(v)
        return False

    def _wanted(self, source: Tensor | Scalar | Statement) -> bool:
        return not isinstance(source, Statement) and source.name in self.options.wrt

    # ------------------------------------------------------------------------------------------------------- steps

    def emit(
        self,
        name: str,
        element: str,
        index: Sequence[Linear],
        value: Value,
        *,
        of: str = "",
        ranges: tuple[Range, ...] = (),
        levels: tuple = (),
        ranged: bool = False,
        done: frozenset[str] = frozenset(),
        otherwise: float | None = None,
        hadamard: int = 0,
        by_chance: bool = False,
    ) -> Tensor:
        """A step of one statement; what it makes. `ranged`: later steps read it outside of its ranges too. `done`: the
        dimensions whose ranges steps before have had. `otherwise`: what it is outside of its ranges. `hadamard`:
        elements that are transformed together before. `by_chance`: whether it is rounded so."""
        element = "f32" if element == "tf32" else element  # as which it is stored
        tensor = Tensor(name, (0, 0), [None] * len(index), element, levels or None)
        if self.keeper.chosen is None:
            self.keeper.of(value)
            return tensor
        kept = frozenset(d for i in index for d in affine.dims(i))
        value = self._numbers_apart(self._at_hand(self.keeper.of(value)), kept)
        used = kept | {d for x in below(value) for d in x.dims}
        sides = [side for x in below(value) if isinstance(x, Contract) for side in (x.left, x.right)]
        for side in (x for x in sides if isinstance(x, Read)):
            done |= self.filled.get(side.source.name, frozenset()) if isinstance(side.source, Tensor) else frozenset()
        ranged = bool(of) or ranged or otherwise is not None or len(levels) > 1
        found = self._attached(used, kept, ranges, value, done, all_of=len(levels) > 1)
        apart = self._apart(value)
        left = (r for r in found if r.dim not in apart and (ranged or self._must(r, value, kept)))
        attached = (*left, *apart.values())
        reads = [i for x in below(value) if isinstance(x, Read) for i in x.index]
        symbols = [x for i in (*index, *reads) for x in affine.symbols(i)]  # a negative one skips a point, or a term
        skipped = any(frozenset(d for i in x.index for d in affine.dims(i)) <= kept for x in symbols)
        dims = tuple(d for i in index for d in sorted(affine.dims(i)))
        if not of and not levels and element != "f32" and isinstance(value, Apply):
            self.values[Writer().value(value)] = read(tensor, tuple(index))
        statements, value = self._named(value)
        words = (self._seed(),) if by_chance else ()
        s = Statement(tensor, tuple(index), dims, value, False, attached, otherwise, words=words, hadamard=hadamard)
        statements.append(s)
        zeroed = skipped or (otherwise is None and any(r.dim in kept for r in attached))
        self.made.append(Made(statements, {name: of}, zeroed))
        return tensor

    def _apart(self, value: Value) -> dict[str, Range]:
        """By dimension the ranges that a step has with groups apart: those of the program whose groups an operand that
        the step reads has scales of its own for. What steps make has scales of all of a dimension.

        Raises:
            UnsupportedError: it reads such an operand beside one that a step made, and both have blocks along it.
        """
        read_ = [x for x in below(value) if isinstance(x, Read) and isinstance(x.source, Tensor)]
        found = dict[str, Range]()
        for x in read_:
            tensor = cast(Tensor, x.source)
            axes = {axis for level in tensor.levels or () for axis in pads(tensor, level)}
            found |= {tensor.groups[axis].dim: tensor.groups[axis] for axis in axes}
        for x in read_:
            tensor = cast(Tensor, x.source)
            for axis, i in enumerate(x.index):
                blocks = [level.block[axis] for level in tensor.levels or () if len(level.block) == len(x.index)]
                if found.keys() & affine.dims(i) and axis not in tensor.groups and any(b != 1 for b in blocks):
                    raise UnsupportedError(
                        f"{tensor.name} has scales of all of {', '.join(affine.dims(i))}, beside those of groups apart",
                        got=", ".join(str(r) for r in found.values()),
                        expected="scales of single rows in the program, as 1x128, where its groups are apart",
                        fix="leave quantize out, or wrt of what needs both",
                    )
        return found

    def _at_hand(self, value: Value) -> Value:
        """`value` with what steps have made in place of what computes it again."""

        def change(x: Value) -> Value | None:
            return self.values.get(Writer().value(x)) if isinstance(x, Apply) else None

        return rewritten(value, change)

    def _numbers_apart(self, value: Value, kept: frozenset[str]) -> Value:
        """`value` with reads of steps of their own in place of sums that are one number, over what this step keeps."""
        zero = (affine.constant(0),)

        def change(x: Value) -> Value | None:
            if not isinstance(x, Reduce) or x.dims or not x.value.dims & kept or x.value.dims & self.ranges.keys():
                return None
            return read(self.once_made(f"number {Writer().value(x)}", f"{x.kind}_all", "f32", zero, x), zero)

        return rewritten(value, change)

    def _named(self, value: Value) -> tuple[list[Statement], Value]:
        """The temporaries of a step, which name what stands in it twice, and `value` with these."""
        made, names = [], set(self.names)
        while True:
            texts: dict[str, list[Value]] = {}
            for x in below_own(value):
                if isinstance(x, Apply) and x.dims and not any(isinstance(y, (Contract, Reduce)) for y in below(x)):
                    texts.setdefault(Writer().value(x), []).append(x)
            again = sorted((t for t, xs in texts.items() if len(xs) > 1 and len(t) >= NAMED), key=len)
            if not again:
                return made, value
            x = texts[again[0]][0]
            name = next(n for n in (*"uvwxyz", *(f"u{i}" for i in range(99))) if n not in names)
            names.add(name)
            dims = tuple(in_order(x))
            index, tensor = of_dims(dims), Tensor(name, (0, 0), [None] * len(dims))
            s = Statement(tensor, index, dims, x, False, temporary=True)
            made.append(s)
            value = _with(value, again[0], read(s, index))

    def _must(self, r: Range, value: Value, kept: frozenset[str]) -> bool:
        """Whether a step that later ones read needs a range: these have it themselves, so what lies outside does not
        matter, unless it is summed or multiplied; or the range alone says of which group a point is, whose index the
        value has."""
        group = bounds(r) & frozenset(d for x in below(value) for d in x.dims)
        reads = [i for x in below(value) if isinstance(x, Read) for i in x.index]
        outside = any(affine.symbols(i) and not affine.read(i) for i in reads)  # L[q, t - lo[q]] has no such element
        sums = any(isinstance(x, (Contract, Reduce)) for x in below(value))
        return r.dim not in kept or bool(group - kept) or outside or sums

    def _seed(self) -> Linear:
        """What no other step rounds by."""
        if not self.seed:
            self.seed = self.fresh("seed")
        count = self.indices[self.seed].block + 1 if self.seed in self.indices else 1
        self.indices[self.seed] = MadeIndex("seed", "", "", 0, count)
        return affine.atom(affine.Symbol(self.seed, (affine.constant(count - 1),)))

    def _attached(
        self,
        used: frozenset[str],
        kept: frozenset[str],
        own: tuple[Range, ...],
        value: Value,
        done: frozenset[str],
        *,
        all_of: bool = False,
    ) -> list[Range]:
        """The ranges of a step over these dimensions: those of the program, or one that the step has of its own.
        `all_of`: of what is a number of all that there is, too."""
        found = [r for r in own if r.dim in used]
        for dim, r in self.ranges.items():
            if dim not in used - done or any(o.dim == dim for o in own):
                continue
            if not bounds(r) <= used:
                if dim in self.options.covered and dim in kept:
                    continue
                elementwise = not any(isinstance(x, (Contract, Reduce)) for x in below(value))
                if all_of:
                    found.append(r)
                    continue
                if elementwise and dim in kept:
                    continue  # what lies outside is read by nobody; an input's gradient is refused in leaves.py
                raise UnsupportedError(
                    f"the range of {dim} reads {', '.join(sorted(bounds(r) - used))}, which a gradient over"
                    f" {', '.join(sorted(used))} does not have",
                    got=f"for {dim} in {r.lower}:{r.upper}",
                    expected="a range whose bounds read indices of each tensor that it is of",
                    fix=f"leave that input out of wrt, or say that groups have every {dim}: covered='{dim}'",
                )
            found.append(r)
        return found

    def fresh(self, name: str) -> str:
        """A name that nothing has yet, as close to this one as can be."""
        while name in self.names:
            name += "_"
        self.names[name] = "tensor"
        return name

    def once_made(
        self, key: str, name: str, element: str, index: Sequence[Linear], value: Value, **more: object
    ) -> Tensor:
        """As `emit`, once for all that asks for the same."""
        if key not in self.at_hand:
            self.at_hand[key] = self.emit(self.fresh(name), element, index, value, **more)  # pyright: ignore[reportArgumentType]
        return self.at_hand[key]

    def element_of(self, name: str, usual: str) -> str:
        """The type of a gradient: what the caller said, else the usual one."""
        return self.options.types.get(name, usual)

    # ------------------------------------------------------------------------------------------------------- ranges

    def _ranges(self) -> dict[str, Range]:
        """The range of each dimension that has one, which is the same wherever the dimension is."""
        found: dict[str, Range] = {}
        for s in self.program.statements:
            for r in s.ranges:
                bare = Range((0, 0), r.dim, r.lower, r.upper, r.promises)
                if found.setdefault(r.dim, bare) != bare:
                    raise self.error(
                        r.span,
                        f"{r.dim} has two ranges in this program",
                        "another range in an earlier statement",
                        "one range for each index",
                        "take the gradients of two programs",
                    )
        for s in self.program.statements:
            here = {r.dim for r in s.ranges} | {d for t in _temporaries(s.value) for d in t.dims}
            for dim in found:
                if dim not in here and dim in {d for x in below(s.value) for d in x.dims} | set(s.dims):
                    raise self.error(
                        s.tensor.span,
                        f"{s.tensor.name} has {dim} without the range that another statement has",
                        f"all of {dim}",
                        "one range for each index",
                        "take the gradients of two programs",
                    )
        return found

    def linked(self, dims: frozenset[str], own: tuple[Range, ...] = ()) -> frozenset[str]:
        """The dimensions of which the ranges of these say one index a point: g of `m in off[g]:off[g+1]`. What results
        and temporaries have as well, as m of Y[m,n] where `n < len[m]`, is one of many at a point, but for offsets."""
        every = [*own, *(r for d, r in self.ranges.items() if d not in {o.dim for o in own})]
        written = frozenset(d for s in self.program.statements for i in s.index for d in affine.dims(i))
        return frozenset(x for r in every if r.dim in dims for x in bounds(r) if x not in written or x == group_of(r))

    def error(self, span: Span, why: str, got: str, expected: str, fix: str) -> Exception:
        """A refusal with its place."""
        return self.source.error(span, why, got=got, expected=expected, fix=fix)


def _with(value: Value, text: str, instead: Read) -> Value:
    """`value` with a temporary for each expression that reads so."""
    return rewritten(value, lambda x: instead if isinstance(x, Apply) and Writer().value(x) == text else None)


def is_float8(tensor: Tensor) -> bool:
    return ELEMENT_TYPES[tensor.element].name.startswith("e")


def _temporaries(v: Value) -> list[Statement]:
    """The temporaries that a value reads, through others too."""
    return [x.source for x in below(v) if isinstance(x, Read) and isinstance(x.source, Statement)]


def order_of(v: Contract, s: Statement) -> tuple[str, ...]:
    """The dimensions of a contraction, in the order in which its gradient is written."""
    if set(s.dims) == v.dims:
        return s.dims
    return tuple(d for d in dict.fromkeys((*in_order(v.left), *in_order(v.right))) if d in v.dims)
