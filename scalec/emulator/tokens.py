"""PTX text -> tokens, and the cursor over them that the parser reads with (PTX ISA, chapter 4: lexical elements)."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from scalec.emulator.findings import PtxSyntaxError

_BETWEEN = r"(?:\s++|//[^\n]*+|/\*.*?\*/)*+"
# what stands before it, then the token, the most frequent kind first: word, mark, number, string; a string, or a
# comment, that does not end is the rest of the text
_TOKEN = re.compile(
    rf"""({_BETWEEN})
      ([%$_A-Za-z][\w$.]*(?:::\w[\w.]*)*|\.[\w$]*(?:::\w+)*
      |/\*.*+
      |[][{{}}()<>,;:@!|+*=~&^/?-]
      |0[fF][0-9a-fA-F]{{8}}|0[dD][0-9a-fA-F]{{16}}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|[0-9]+U?
      |"(?:[^"\\]|\\.)*+(?:"|\Z)
      |\Z)""",
    re.VERBOSE | re.DOTALL,
)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL).fullmatch
# by the first character; all others begin words
_KINDS = {**dict.fromkeys("][{}()<>,;:@!|+*=~&^/?-", "mark"), **dict.fromkeys("0123456789", "number"), '"': "string"}

MOST_BITS = 64
"""Of an integer constant (PTX ISA 4.5.1)."""

F32_MAX = (2 - 2**-24) * 2.0**127
"""The last number that is rounded to one of f32."""


class Token(NamedTuple):
    """One of a text, with the line where it begins."""

    kind: str
    text: str
    line: int


def tokens_of(text: str) -> list[Token]:
    """All of a text, and one of kind "end". A directive stands for itself: `.reg.b16` is two, as `.reg .b16` is.

    Raises:
        PtxSyntaxError: characters that begin no token.
    """
    tokens, line, new = [], 1, tuple.__new__  # Token() itself takes thrice as long
    found = _TOKEN.findall(text)
    if sum(map(len, chain.from_iterable(found))) < len(text):
        raise _no_token(text)
    for between, token in found:
        if "\n" in between:
            line += between.count("\n")
        if token:
            kind = _KINDS.get(token[0], "word")
            tokens.append(new(Token, (kind, token, line)))
            if kind == "string":
                line += token.count("\n")
    if tokens and (tokens[-1].text.startswith("/*") or (tokens[-1].kind == "string" and not _STRING(tokens[-1].text))):
        raise PtxSyntaxError(f"{tokens[-1].text[:40]!r} has no end", f"line {tokens[-1].line}")
    tokens.append(Token("end", "the end of the text", line))
    return tokens


def _no_token(text: str) -> PtxSyntaxError:
    """What findall has passed over."""
    at = 0
    for match in _TOKEN.finditer(text):
        if match.start() != at:
            break
        at = match.end()
    at = len(text) - len(re.sub(_BETWEEN, "", text[at:], count=1, flags=re.DOTALL))
    return PtxSyntaxError(f"character {text[at]!r} begins no PTX token", f"line {text.count(chr(10), 0, at) + 1}")


class Cursor:
    """The tokens of a text, and where a parser stands among them."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def token(self) -> Token:
        """The one that comes next."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """Takes it; refuses the text where there is none."""
        token = self.tokens[self.at]
        if token.kind == "end":
            raise self.error("the text ends too early")
        self.at += 1
        return token

    def peek(self, text: str) -> bool:
        """Whether it is this one."""
        return self.tokens[self.at].text == text

    def take(self, text: str) -> bool:
        """Whether it was this one, which is then taken."""
        if self.tokens[self.at].text != text:
            return False
        self.at += 1
        return True

    def need(self, text: str) -> None:
        """Takes this one, or refuses the text."""
        if not self.take(text):
            raise self.error(f"got {self.shown}, expected {text!r}")

    def error(self, message: str) -> PtxSyntaxError:
        """Of the line that the parser has come to."""
        return PtxSyntaxError(message, f"line {self.token.line}")

    def integer(self) -> int:
        """Takes an integer, with its sign."""
        sign = -1 if self.take("-") else 1
        token = self.next()
        if token.kind != "number":
            self.at -= 1
            raise self.error(f"got {self.shown}, expected an integer")
        return sign * self.number(token)

    def number(self, token: Token) -> int:
        """The integer that a token writes."""
        value = integer_of(token.text)
        if value is None:
            raise PtxSyntaxError(
                f"{token.text[:40]} is no integer of {MOST_BITS} bits (PTX ISA 4.5.1)", f"line {token.line}"
            )
        return value

    @property
    def shown(self) -> str:
        """The token that comes next, for people."""
        return repr(self.token.text[:40])


def integer_of(text: str) -> int | None:
    """The integer that a token writes (PTX ISA 4.5.1); None where it has more bits than any, or wrong digits."""
    text = text.rstrip("U")
    base = {"0x": 16, "0b": 2}.get(text[:2].lower(), 8 if len(text) > 1 and text[0] == "0" else 10)
    try:
        value = int(text, base) if len(text) <= MOST_BITS + 2 else None
    except ValueError:
        return None
    return value if value is not None and value < 1 << MOST_BITS else None


def float_bits(value: float, size: int) -> int:
    """The bits of a number in `size` bytes, 4 or 8; an infinity's where it is too large for them."""
    if size == 4 and abs(value) > F32_MAX:
        value = math.copysign(math.inf, value)
    return int.from_bytes(struct.pack("<d" if size == 8 else "<f", value), "little")


def written(tokens: Iterable[str]) -> str:
    """Tokens as a line for people."""
    text = " ".join(tokens)
    for mark in (",", ";", "]", ")", "}", "+", "|"):
        text = text.replace(f" {mark}", mark)
    for mark in ("[", "(", "{", "@", "!", "+", "|", "-"):
        text = text.replace(f"{mark} ", mark)
    return text
