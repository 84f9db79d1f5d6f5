"""Variables and constants of a PTX text (PTX ISA, chapters 4.5 and 5): what modules and functions declare alike."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from scalec.emulator.program import TYPE_BITS, Imm, Symbol, Variable
from scalec.emulator.tokens import Cursor, Token, float_bits

SPACES = {"reg", "local", "shared", "global", "const", "param", "tex"}
LINKAGE = {"visible", "extern", "weak", "common"}

# Limits of ours, beyond what any kernel has: a text that exceeds one is refused, instead of taking all memory.
MOST_DEPTH = 64  # braces and brackets inside each other
MOST_BYTES = 1 << 30  # of variables in .global


class Declarations(Cursor):
    """A cursor that reads variables, their initialisers, and constants."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.depth = 0

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What stands in braces or brackets."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self.error(f"more than {MOST_DEPTH} braces and brackets inside each other")
        yield
        self.depth -= 1

    def skip_directive(self, word: str) -> None:
        line = self.tokens[self.at - 1].line
        if word == ".section":
            while not self.take("{"):
                self.next()
            while not self.take("}"):
                self.next()
        elif word == ".pragma":
            while not self.take(";"):
                self.next()
        else:
            while self.token.line == line and self.token.kind != "end":
                self.next()

    def variables(self, extern: bool = False) -> list[Variable]:
        """One declaration statement of variables that are not registers, up to its semicolon."""
        found = self.declared(extern, several=True)
        self.take(";")
        return found

    def declared(self, extern: bool = False, *, several: bool = False) -> list[Variable]:
        """One variable, or all that a statement names."""
        space = self.next().text[1:].split("::")[0]
        align, kind, width, pointer = 0, "", 1, False
        while self.token.text.startswith("."):
            word = self.next().text[1:]
            if word == "ptr":
                pointer = True  # an .align after it is that of what the pointer points to (PTX ISA 5.1.6.4)
            elif word == "align":
                value = self.integer()
                align = align if pointer else value
            elif word in ("v2", "v4", "v8"):
                width = int(word[1:])
            elif word in TYPE_BITS:
                kind = word
            elif word not in ("global", "const", "shared", "local", "attribute", "managed", "unified"):
                self.at -= 1
                raise self.error(f"got {self.shown}, expected a type")
        if kind not in TYPE_BITS or align < 0 or align & (align - 1):
            raise self.error(f"a variable of type {kind or 'none'}, a multiple of {align}")
        size = max(1, TYPE_BITS[kind] // 8) * width
        found = []
        while True:
            name = self.next().text
            count, unsized = 1, False
            while self.take("["):
                if self.peek("]"):
                    unsized = True
                else:
                    count *= self.integer()
                self.need("]")
            init, relocations = (None, ())
            if self.take("="):
                init, relocations = self.initialiser(size // width)
            total = size * count
            if unsized:
                total = len(init) if init else 0
            if not len(init or b"") <= total <= MOST_BYTES:
                given = f", {len(init)} of them given" if init else ""
                raise self.error(f"{name[:40]} has {total} bytes{given}: the emulator takes up to {MOST_BYTES}")
            if init is not None:
                init = init.ljust(total, b"\0")
            bare = extern and unsized
            found.append(Variable(name, space, align or size, total, init, tuple(relocations), bare, kind, pointer))
            if not (several and self.take(",")):
                return found

    def initialiser(self, size: int) -> tuple[bytes, list[tuple[int, Symbol, bool]]]:
        data, relocations = bytearray(), []

        def element() -> None:
            if self.take("{"):
                with self.inside():
                    while not self.take("}"):
                        element()
                        self.take(",")
                return
            if self.token.kind == "word":
                generic = self.take("generic")
                if generic:
                    self.need("(")
                symbol = Symbol(self.next().text, self.offset())
                if generic:
                    self.need(")")
                if size != 8:
                    raise self.error(f"an address in {size} bytes, expected 8")
                relocations.append((len(data), symbol, generic))
                data.extend(bytes(size))
                return
            value = self.constant()
            bits = value.value
            if value.float_bits == 64 and size == 4:
                bits = float_bits(struct.unpack("<d", struct.pack("<Q", bits))[0], 4)
            data.extend((bits & ((1 << 8 * size) - 1)).to_bytes(size, "little"))

        element()
        return bytes(data), relocations

    # -- functions -------------------------------------------------------------------------------------------------
    def offset(self) -> int:
        total = 0
        while self.peek("+") or self.peek("-"):
            sign = -1 if self.next().text == "-" else 1
            total += sign * self.integer()
        return total

    def constant(self) -> Imm:
        if self.take("~"):
            with self.inside():
                return Imm(~self.constant().value)
        sign = -1 if self.take("-") else 1
        if self.token.kind != "number":
            raise self.error(f"got {self.shown}, expected a number")
        token = self.next()
        text = token.text
        if text[:2].lower() == "0f":
            return Imm(int(text[2:], 16) ^ (0x80000000 if sign < 0 else 0), 32)
        if text[:2].lower() == "0d":
            return Imm(int(text[2:], 16) ^ (1 << 63 if sign < 0 else 0), 64)
        if "." in text or ("e" in text.lower() and text[:2].lower() != "0x"):
            return Imm(float_bits(sign * float(text), 8), 64)
        return Imm(sign * self.number(token))
