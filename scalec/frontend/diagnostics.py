"""Places in a program's text, and refusals that point at them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scalec.errors import Place, SourceError

Span = tuple[int, int]  # offsets into the text: first character, one past the last


@dataclass(frozen=True)
class Source:
    """A program's text and what its user calls it (a file, or "<program>")."""

    text: str
    name: str

    def place(self, span: Span) -> Place:
        """The place of `span`, cut to its first line. Characters that no terminal shows as one column become "?"."""
        start, end = max(0, min(span[0], len(self.text))), min(max(span), len(self.text))
        begin = self.text.rfind("\n", 0, start) + 1
        number = self.text.count("\n", 0, start) + 1
        line = self.line(number)
        width = max(1, min(end, begin + len(line)) - start)
        return Place(self.name, number, start - begin + 1, width, line)

    def line(self, number: int) -> str:
        """A line by its number, from 1, with "?" for characters that no terminal shows as one column."""
        lines = self.text.split("\n")[number - 1 : number]
        return "".join(c if " " <= c <= "~" else " " if c in "\t\r\f" else "?" for c in "".join(lines))

    def shown(self, place: Place | None) -> Place | None:
        """`place`, which a location of the IR gave, with its line's text."""
        return None if place is None else replace(place, text=self.line(place.line))

    def error(self, span: Span, message: str, *, got: str = "", expected: str = "", fix: str = "") -> SourceError:
        """A refusal that points at `span`."""
        return SourceError(message, place=self.place(span), got=got, expected=expected, fix=fix)


def one_of(names: Iterable[str]) -> str:
    """`one of a, b, c`."""
    return "one of " + ", ".join(names)


def spelled(count: int, noun: str, plural: str = "") -> str:
    """`1 index`, `2 indices`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
