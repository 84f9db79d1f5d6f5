"""What was read from a file, checked against the types of the dataclasses that are made of it.

One mechanism for all that scalec reads: kernel specs, cache entries and notes, manifests, tuning databases, journals.

    class Launch: threads: Annotated[int, within(1, 1024)]
    read(Launch, parse(b'{"threads": 0}'))    FormatError: threads: 0, expected 1 to 1024

Types that a field may have: int, float, bool, str, None, Any, unions of these, dict with str as keys, tuple, NamedTuple
(an array in JSON), dataclass, and Annotated with checks.
"""

from __future__ import annotations

import json
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from scalec.errors import FormatError

T = TypeVar("T")
Check = Callable[[Any], str]
"""Says what is expected of a value of the right type, "" where it is that."""


@cache
def within(low: int, high: int) -> Check:
    """A number from `low` to `high`."""
    return lambda value: "" if low <= value <= high else f"{low} to {high}"


def matching(pattern: str, what: str) -> Check:
    """A text that a regular expression describes as a whole."""
    fits = re.compile(pattern).fullmatch
    return lambda value: "" if fits(value) else what


def some(values: tuple[Any, ...]) -> str:
    """One value or several."""
    return "" if values else "at least one"


def ordered(ends: tuple[int, int]) -> str:
    """Sizes from one to another."""
    return "" if 0 <= ends[0] <= ends[1] else "a range, its smaller end first"


def one_of(values: Iterable[Any]) -> Check:
    known = tuple(values)
    return lambda value: "" if value in known else f"one of {', '.join(map(repr, known))}"


def parse(text: bytes | str) -> Any:
    """What a JSON document says. A name twice in an object, NaN and infinities are none.

    Raises:
        FormatError: it is no such document, or nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
    except RecursionError:
        raise FormatError("nested too deeply") from None
    except FormatError:
        raise
    except (TypeError, ValueError) as error:  # no text, no UTF-8, a number of 4,301 digits
        raise FormatError(f"not JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        raise FormatError(f"{_shown(next(n for n in names if names.count(n) > 1))} is there twice")
    return made


def _no_number(text: str) -> Any:
    raise FormatError(f"{text} is no number here")


def read(kind: type[T], value: Any) -> T:
    """A value of type `kind` of what `parse` gave.

    Raises:
        FormatError: it is none, with the path to the first fault.
    """
    return _reader(kind)(value)


Reader = Callable[[Any], Any]


@cache
def _reader(kind: Any) -> Reader:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _checked(_reader(arguments[0]), arguments[1:])
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is dict:
        return _mapping(_reader(arguments[1]))
    if origin is tuple:
        return _array(_reader(arguments[0])) if arguments[1:] == (...,) else _fixed(tuple, arguments)
    if kind is Any:
        return lambda value: value
    if kind in _PLAIN:
        return _plain(*_PLAIN[kind])
    hints = typing.get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):
        needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
        return _record(kind, {f.name: _reader(hints[f.name]) for f in fields(kind)}, needed)
    return _fixed(kind, tuple(hints.values()))  # a NamedTuple


_PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    str: ((str,), "a text"),
    type(None): ((type(None),), "null"),
}


def _plain(kinds: tuple[type, ...], expected: str) -> Reader:
    def check(value: Any) -> Any:
        if type(value) not in kinds:  # True is an int to isinstance
            raise _fault(value, expected)
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _fault(value, "whole characters") from None
        elif isinstance(value, (int, float)) and float in kinds and not abs(value) <= sys.float_info.max:  # NaN too
            raise _fault(value, "a finite number")
        return value

    return check


def _checked(inner: Reader, checks: tuple[Check, ...]) -> Reader:
    def check(value: Any) -> Any:
        made = inner(value)
        for one in checks:
            expected = one(made)
            if expected:
                raise _fault(value, expected)
        return made

    return check


def _union(arguments: tuple[Any, ...]) -> Reader:
    readers = [_reader(a) for a in arguments]

    def check(value: Any) -> Any:
        wanted = []
        for one in readers:
            try:
                return one(value)
            except FormatError as fault:
                wanted.append(fault.wanted)
        raise _fault(value, " or ".join(wanted))

    return check


def _mapping(inner: Reader) -> Reader:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise _fault(value, "an object")
        return {name(key): _at(f".{key}", inner, entry) for key, entry in value.items()}

    name = _reader(str)
    return check


def _array(inner: Reader) -> Reader:
    def check(value: Any) -> Any:
        if type(value) is not list:
            raise _fault(value, "an array")
        return tuple([_at(f"[{i}]", inner, entry) for i, entry in enumerate(value)])

    return check


def _fixed(kind: Any, arguments: tuple[Any, ...]) -> Reader:
    readers = [_reader(a) for a in arguments]

    def check(value: Any) -> Any:
        if type(value) is not list or len(value) != len(readers):
            raise _fault(value, f"an array of {len(readers)}")
        made = [_at(f"[{i}]", one, entry) for i, (one, entry) in enumerate(zip(readers, value, strict=True))]
        return tuple(made) if kind is tuple else kind(*made)

    return check


def _record(kind: Any, readers: dict[str, Reader], needed: set[str]) -> Reader:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise _fault(value, "an object")
        if not value.keys() <= readers.keys():
            raise FormatError(f"no field {_shown(next(n for n in value if n not in readers))}")
        if not needed <= value.keys():
            raise FormatError(f"{min(needed - value.keys())} is missing")
        return kind(**{name: _at(f".{name}", readers[name], entry) for name, entry in value.items()})

    return check


def _at(step: str, inner: Reader, value: Any) -> Any:
    try:
        return inner(value)
    except FormatError as fault:
        raise fault.under(step) from None


def _fault(value: Any, expected: str) -> FormatError:
    return FormatError(_shown(value), wanted=expected)


def _shown(value: Any) -> str:
    """A short text of a value, however large or deep."""
    if isinstance(value, (dict, list, tuple)):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 100:
        return f"an integer of {value.bit_length()} bits"
    return ascii(value[:60] + "..." if isinstance(value, str) and len(value) > 60 else value)
