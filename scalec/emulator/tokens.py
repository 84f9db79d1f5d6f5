"""PTX text -> tokens, and the cursor over them that the parser reads with (PTX ISA, chapter 4: lexical elements)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from scalec.emulator.findings import PtxSyntaxError

_BETWEEN = r"(?:\s++|//[^\n]*+|/\*.*?\*/)*+"
# what stands before it, then the token, the most frequent kind first: word, mark, number, string
_TOKEN = re.compile(
    rf"""({_BETWEEN})
      ([.%$_A-Za-z][\w$.]*(?:::\w[\w.]*)*
      |[][{{}}()<>,;:@!|+*=~&^/?-]
      |0[fF][0-9a-fA-F]{{8}}|0[dD][0-9a-fA-F]{{16}}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|[0-9]+U?
      |"(?:[^"\\]|\\.)*"
      |\Z)""",
    re.VERBOSE | re.DOTALL,
)
# by the first character; all others begin words
_KINDS = {**dict.fromkeys("][{}()<>,;:@!|+*=~&^/?-", "mark"), **dict.fromkeys("0123456789", "number"), '"': "string"}


class Token(NamedTuple):
    """One of a text, with the line where it begins."""

    kind: str
    text: str
    line: int


def _tokens(text: str) -> list[Token]:
    tokens, line = [], 1
    found = _TOKEN.findall(text)
    if sum(map(len, chain.from_iterable(found))) < len(text):
        raise _no_token(text)
    for between, token in found:
        if "\n" in between:
            line += between.count("\n")
        if token:
            kind = _KINDS.get(token[0], "word")
            tokens.append(Token(kind, token, line))
            if kind == "string":
                line += token.count("\n")
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

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0

    @property
    def token(self) -> Token:
        """The one that comes next."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """Takes it."""
        token = self.tokens[self.at]
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
            raise self.error(f"got {self.token.text!r}, expected {text!r}")

    def error(self, message: str) -> PtxSyntaxError:
        """Of the line that the parser has come to."""
        return PtxSyntaxError(message, f"line {self.token.line}")

    def integer(self) -> int:
        """Takes an integer, with its sign."""
        sign = -1 if self.take("-") else 1
        token = self.next()
        if token.kind != "number":
            self.at -= 1
            raise self.error(f"got {token.text!r}, expected an integer")
        return sign * integer_of(token.text)


def integer_of(text: str) -> int:
    """The integer that a token writes (PTX ISA 4.5.1)."""
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    return int(text, 8) if len(text) > 1 and text[0] == "0" and text.isdigit() else int(text)


def float_bits(value: float, size: int) -> int:
    """The bits of a number in `size` bytes, 4 or 8."""
    return int.from_bytes(struct.pack("<d" if size == 8 else "<f", value), "little")


def written(tokens: Iterable[str]) -> str:
    """Tokens as a line for people."""
    text = " ".join(tokens)
    for mark in (",", ";", "]", ")", "}", "+", "|"):
        text = text.replace(f" {mark}", mark)
    for mark in ("[", "(", "{", "@", "!", "+", "|", "-"):
        text = text.replace(f"{mark} ", mark)
    return text
