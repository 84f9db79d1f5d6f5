"""Affine index expressions in a normal form, with the bounds that follow from the dimensions' extents.

Two expressions are equal exactly when their normal forms are: this is how the resolver sees that two uses of a tensor
give it one shape. Symbols are indices read from memory. Nothing here needs an MLIR context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

LIMIT = 2**31 - 1  # coefficients and constants: products of two fit the 64-bit arithmetic of affine maps


class TooLarge(Exception):
    """A coefficient or constant beyond LIMIT."""


@dataclass(frozen=True)
class Dim:
    """A dimension of the program."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Size:
    """The size of a dimension, the same at each point."""

    name: str

    def __str__(self) -> str:
        return f"size({self.name})"


@dataclass(frozen=True)
class Symbol:
    """An element of an i32 tensor, used as an index."""

    tensor: str
    index: tuple[Linear, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.index))}]"


@dataclass(frozen=True)
class Quotient:
    """`value / divisor`, rounded down, or up where `ceiling`."""

    value: Linear
    divisor: int
    ceiling: bool = False

    def __str__(self) -> str:
        text = f"{_tight(self.value)}/{self.divisor}"
        return f"ceil({text})" if self.ceiling else text


@dataclass(frozen=True)
class Remainder:
    """`value % divisor`, never negative."""

    value: Linear
    divisor: int

    def __str__(self) -> str:
        return f"{_tight(self.value)}%{self.divisor}"


Atom = Dim | Size | Symbol | Quotient | Remainder


@dataclass(frozen=True)
class Linear:
    """constant + sum of coefficient * atom; terms sorted by spelling, no coefficient zero."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int = 0

    def __str__(self) -> str:
        parts = [str(a) if c == 1 else f"{a}*{c}" for a, c in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


def _tight(value: Linear) -> str:
    alone = len(value.terms) == 1 and value.constant == 0 and value.terms[0][1] == 1
    return str(value) if alone else f"({value})"


def _linear(terms: Mapping[Atom, int], constant: int) -> Linear:
    if any(abs(c) > LIMIT for c in (*terms.values(), constant)):
        raise TooLarge
    return Linear(tuple(sorted(((a, c) for a, c in terms.items() if c), key=lambda t: str(t[0]))), constant)


def constant(value: int) -> Linear:
    """A constant.

    Raises:
        TooLarge: beyond LIMIT.
    """
    return _linear({}, value)


def atom(a: Atom) -> Linear:
    """One atom alone."""
    return Linear(((a, 1),))


def of_dims(dims: Iterable[str]) -> tuple[Linear, ...]:
    """Dimensions as an index."""
    return tuple(atom(Dim(d)) for d in dims)


def add(a: Linear, b: Linear) -> Linear:
    terms = dict(a.terms)
    for t, c in b.terms:
        terms[t] = terms.get(t, 0) + c
    return _linear(terms, a.constant + b.constant)


def times(a: Linear, factor: int) -> Linear:
    return _linear({t: c * factor for t, c in a.terms}, a.constant * factor)


def divide(a: Linear, divisor: int, ceiling: bool = False) -> Linear:
    """a / divisor, rounded down or up; the divisor is positive."""
    if all(c % divisor == 0 for _, c in a.terms) and a.constant % divisor == 0:
        return _linear({t: c // divisor for t, c in a.terms}, a.constant // divisor)
    if not a.terms:
        return constant(-(-a.constant // divisor) if ceiling else a.constant // divisor)
    # (m + h*64 + 32)/16 is m/16 + h*4 + 2
    whole = Linear(tuple((t, c // divisor) for t, c in a.terms if c % divisor == 0), 0)
    whole = add(whole, constant(a.constant // divisor if a.constant % divisor == 0 else 0))
    return add(atom(Quotient(add(a, times(whole, -divisor)), divisor, ceiling)), whole)


def remainder(a: Linear, divisor: int) -> Linear:
    """a % divisor; the divisor is positive."""
    if not a.terms:
        return constant(a.constant % divisor)
    return constant(0) if divisor == 1 else atom(Remainder(a, divisor))


def plain(a: Linear) -> str | None:
    """The name of the dimension that `a` is, or None where it is anything else."""
    if len(a.terms) == 1 and a.constant == 0 and a.terms[0][1] == 1 and isinstance(a.terms[0][0], Dim):
        return a.terms[0][0].name
    return None


def read(a: Linear) -> bool:
    """Whether `a` is an index read from memory, and nothing is done with it."""
    return len(a.terms) == 1 and a.constant == 0 and a.terms[0][1] == 1 and isinstance(a.terms[0][0], Symbol)


def _atoms(a: Linear) -> Iterator[Atom]:
    for t, _ in a.terms:
        yield t
        if isinstance(t, Quotient | Remainder):
            yield from _atoms(t.value)


def symbols(a: Linear) -> list[Symbol]:
    """The symbols of `a` itself (not those that index another symbol's tensor), each once."""
    return list(dict.fromkeys(t for t in _atoms(a) if isinstance(t, Symbol)))


def sizes(a: Linear) -> list[Size]:
    """The sizes that `a` depends on, each once."""
    return list(dict.fromkeys(t for t in _atoms(a) if isinstance(t, Size)))


def direct_dims(a: Linear) -> set[str]:
    """The dimensions that `a` reads itself."""
    return {t.name for t in _atoms(a) if isinstance(t, Dim)}


def dims(a: Linear) -> set[str]:
    """The dimensions that `a` depends on, through symbols too."""
    found = direct_dims(a)
    for s in symbols(a):
        for i in s.index:
            found |= dims(i)
    return found


def within(a: Linear, inner: Linear, name: str) -> Linear | None:
    """What `a` is of another index, with a dimension `name` for that: of (n + 64)/8 within n + 64 it is i/8. None where
    it reads anything else."""
    if a == inner:
        return atom(Dim(name))
    total, rest = constant(a.constant), dict[Atom, int]()
    for t, c in a.terms:
        found = within(t.value, inner, name) if isinstance(t, Quotient | Remainder) else None
        if found is None:
            rest[t] = c
        elif isinstance(t, Remainder):
            total = add(total, times(remainder(found, t.divisor), c))
        elif isinstance(t, Quotient):
            total = add(total, times(divide(found, t.divisor, t.ceiling), c))
    if not rest:
        return total
    own, some = dict(inner.terms), next(iter(rest))
    factor = rest[some] // own[some] if some in own else 0
    if rest != {t: c * factor for t, c in own.items()}:
        return None
    return add(total, times(add(atom(Dim(name)), constant(-inner.constant)), factor))


def put(a: Linear, name: str, inner: Linear) -> Linear:
    """`a` with another index in the place of a dimension."""
    total = constant(a.constant)
    for t, c in a.terms:
        found = atom(t)
        if t == Dim(name):
            found = inner
        elif isinstance(t, Remainder):
            found = remainder(put(t.value, name, inner), t.divisor)
        elif isinstance(t, Quotient):
            found = divide(put(t.value, name, inner), t.divisor, t.ceiling)
        total = add(total, times(found, c))
    return total


def step(a: Linear, by: int) -> int | None:
    """By how much `a` grows where its dimensions do by a number, None where that differs. Without sizes, or symbols."""
    total = 0
    for t, c in a.terms:
        own = by if isinstance(t, Dim) else None
        if isinstance(t, Quotient | Remainder):
            inner = step(t.value, by)
            if inner is None or inner % t.divisor:
                return None
            own = inner // t.divisor if isinstance(t, Quotient) else 0
        if own is None:
            return None
        total += c * own
    return total


def _bound(a: Linear, upper: bool) -> Linear:
    total = constant(a.constant)
    for t, c in a.terms:
        total = add(total, times(_atom_bound(t, upper == (c > 0)), c))
    return total


def _atom_bound(t: Atom, upper: bool) -> Linear:
    if isinstance(t, Dim):
        return add(atom(t), constant(-1)) if upper else constant(0)
    if isinstance(t, Size):
        return atom(Dim(t.name))  # as extents count, in which a dimension stands for its size
    if isinstance(t, Remainder):
        return constant(t.divisor - 1 if upper else 0)
    if isinstance(t, Quotient):
        if not upper:
            return divide(_bound(t.value, False), t.divisor)
        # floor(u / d) = ceil((u + 1) / d) - 1: the form in which an extent n gives ceil(n / d)
        return add(divide(add(_bound(t.value, True), constant(1)), t.divisor, ceiling=True), constant(-1))
    raise TypeError(f"{t} has no bound")


def extent(a: Linear) -> Linear | None:
    """One more than the largest value of `a` over the program's dimensions; None where a symbol decides it."""
    return None if symbols(a) else add(_bound(a, True), constant(1))


def least(a: Linear) -> Linear | None:
    """The smallest value of `a` over the program's dimensions; None where a symbol decides it."""
    return None if symbols(a) else _bound(a, False)


def covers(a: Linear, b: Linear) -> bool:
    """Whether the extent `a` is at least `b`, whatever the sizes are."""
    more = add(a, times(b, -1))
    return more.constant >= 0 and all(c > 0 for _, c in more.terms)


def value(a: Linear, sizes: Mapping[str, int]) -> int | None:
    """`a` with the dimensions of `sizes` put in, None where it needs another one or a symbol."""
    total = a.constant
    for t, c in a.terms:
        if isinstance(t, Dim | Size):
            v = sizes.get(t.name)
        elif isinstance(t, Symbol):
            v = None
        else:
            v = value(t.value, sizes)
            if v is not None:
                if isinstance(t, Remainder):
                    v %= t.divisor
                else:
                    v = -(-v // t.divisor) if t.ceiling else v // t.divisor
        if v is None:
            return None
        total += c * v
    return total
