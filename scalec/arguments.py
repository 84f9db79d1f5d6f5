"""Arguments of public functions, held against their annotations before anything is done with them.

    @checked
    def cast(x: ArrayLike, element: Element) -> Array: ...

    cast(1.5, "e9m9")    ArgumentError: cast: element = 'e9m9', expected one of 'f32', 'tf32', ...

Annotations that are understood: int, float, str, bool, None, Any, unions of these, ArrayLike and NDArray (of numbers),
Mapping, dict, Sequence and tuple of one type, Callable, protocols, other classes, and Annotated with the checks of
scalec.schema. Numbers may be numpy's, but no bool is one.
"""

from __future__ import annotations

import collections.abc
import inspect
import operator
import types
import typing
from collections.abc import Callable
from dataclasses import fields
from functools import cache, wraps
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

from scalec.errors import ArgumentError, shown

P = ParamSpec("P")
R = TypeVar("R")

Found = Callable[[Any], str]
"""Says what is expected of a value, "" where it is that."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which refuses arguments that are not what its annotations say.

    Raises:
        ArgumentError: one is not, by name; or there are too few, or too many.
    """
    signature = inspect.signature(function)

    @cache  # annotations may name what is imported later
    def expectations() -> dict[str, Found]:
        hints = typing.get_type_hints(function, include_extras=True)
        return {name: _expectation(hints[name]) for name in signature.parameters if name in hints}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            fix = f"leave out what {function.__name__} does not take, and give what has no default"
            raise ArgumentError(f"{function.__name__}: {error}", expected=str(signature), fix=fix) from None
        for name, expected in expectations().items():
            if name in given:
                _hold(f"{function.__name__}: {name}", given[name], expected)
        return function(*args, **kwargs)

    return call


def check_fields(made: Any) -> None:
    """Refuses a dataclass whose fields are not what their annotations say.

    Raises:
        ArgumentError: one is not, by name.
    """
    hints = typing.get_type_hints(type(made), include_extras=True)
    for f in fields(made):
        _hold(f"{type(made).__name__}: {f.name}", getattr(made, f.name), _expectation(hints[f.name]))


def _hold(name: str, value: Any, expected: Found) -> None:
    wanted = expected(value)
    if wanted:
        got, fix = f"type {type(value).__qualname__}", f"pass {wanted}; convert what you have before the call"
        raise ArgumentError(f"{name} = {shown(value)}", got=got, expected=wanted, fix=fix)


@cache
def _expectation(kind: Any) -> Found:
    if kind == ArrayLike:
        return _numbers
    if hasattr(kind, "__value__"):  # `type NDArray[...] = ...`, as numpy 2.5 has it from Python 3.12 on
        return _expectation(kind.__value__)
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or isinstance(kind, TypeVar):
        return lambda value: ""
    if origin is Annotated:
        return _all(_expectation(inner[0]), *inner[1:])
    if origin in (Union, types.UnionType):
        return _any([_expectation(a) for a in inner])
    if origin is np.ndarray:
        return lambda value: _numbers(value) if isinstance(value, np.ndarray) else "an array of numpy's"
    if origin in (collections.abc.Mapping, dict):
        return _mapping(_expectation(inner[0]), _expectation(inner[1]))
    if origin in (collections.abc.Sequence, tuple):
        return _sequence(_expectation(inner[0]))
    if origin is collections.abc.Callable:
        return lambda value: "" if callable(value) else "a function"
    if getattr(kind, "_is_protocol", False):
        names = sorted(n for n in vars(kind) if not n.startswith("_"))
        return lambda value: "" if all(hasattr(value, n) for n in names) else f"an object with {', '.join(names)}"
    if kind in (int, float):
        return _integer if kind is int else _number
    return lambda value: "" if isinstance(value, kind) else f"a value of type {kind.__qualname__}"


def _integer(value: Any) -> str:
    try:
        operator.index(value)
    except TypeError:
        return "an integer"
    return "an integer" if isinstance(value, (bool, np.bool_)) else ""


def _number(value: Any) -> str:
    try:
        known = not isinstance(value, (bool, np.bool_, str, bytes)) and float(value) is not None
    except Exception:  # whatever an object of a library's raises
        known = False
    return "" if known else "a number"


def _numbers(value: Any) -> str:
    try:
        dtype = np.asarray(value).dtype
    except Exception:  # whatever an object of a library's raises
        return "an array of numbers"
    plain = dtype.kind in "biuf" or (dtype.kind == "V" and dtype.names is None and dtype.type is not np.void)
    return "" if plain else "an array of numbers"


def _all(first: Found, *others: Found) -> Found:
    def check(value: Any) -> str:
        return first(value) or next(filter(None, (other(value) for other in others)), "")

    return check


def _any(kinds: list[Found]) -> Found:
    def check(value: Any) -> str:
        wanted = [one(value) for one in kinds]
        return "" if "" in wanted else " or ".join(wanted)

    return check


def _mapping(key: Found, entry: Found) -> Found:
    def check(value: Any) -> str:
        if not isinstance(value, collections.abc.Mapping):
            return "a mapping"
        wrong = next(((k, w) for k, v in value.items() if (w := key(k) or entry(v))), None)
        return f"a mapping, {shown(wrong[0])} in it {wrong[1]}" if wrong else ""

    return check


def _sequence(entry: Found) -> Found:
    def check(value: Any) -> str:
        if not isinstance(value, collections.abc.Sequence) or isinstance(value, (str, bytes)):
            return "a sequence"
        wrong = next(((i, w) for i, v in enumerate(value) if (w := entry(v))), None)
        return f"a sequence, number {wrong[0]} of it {wrong[1]}" if wrong else ""

    return check
