"""PTX text -> Module (PTX ISA, chapters 4, 5 and 11: syntax, state spaces, directives)."""

from __future__ import annotations

from scalec.emulator.body import Body
from scalec.emulator.declarations import LINKAGE, SPACES, Declarations
from scalec.emulator.findings import NotModelled, PtxSyntaxError
from scalec.emulator.program import Function, Module, Variable
from scalec.emulator.tokens import Token, integer_of, tokens_of


def parse(text: str) -> Module:
    """The module of a PTX text, the bodies of its functions unread: one that nobody needs may hold anything.

    Raises:
        PtxSyntaxError: the text is not PTX; the message names the line and what was found.
        NotModelled: a directive that the emulator does not know.
    """
    return _Parser(text).module()


class _Parser(Declarations):
    def __init__(self, text: str) -> None:
        super().__init__(tokens_of(text))
        self.out = Module("")

    def module(self) -> Module:
        while self.token.kind != "end":
            word = self.next().text
            if word == ".version":
                major, _, minor = self.token.text.partition(".")
                if self.token.kind != "number" or None in (integer_of(major), integer_of(minor or "0")):
                    raise self.error(f"got {self.shown}, expected a version such as 8.7")
                self.next()
            elif word == ".target":
                self.out.target = self.next().text
                while self.take(","):
                    self.next()
            elif word == ".address_size":
                if self.integer() != 64:
                    raise NotModelled(".address_size other than 64", f"line {self.token.line}")
            elif word in (".file", ".section", ".pragma", ".loc"):
                self.skip_directive(word)
            elif word.startswith(".") and (word[1:] in LINKAGE | SPACES or word in (".entry", ".func")):
                self.at -= 1
                self.declaration()
            elif word == ".alias":
                first, _, second, _ = self.next().text, self.next(), self.next().text, self.next()
                if second not in self.out.functions:
                    raise self.error(f"{first[:40]} is an alias of {second[:40]!r}, which is no function")
                self.out.functions[first] = self.out.functions[second]
            elif word != ";":
                self.at -= 1
                raise self.error(f"got {self.shown}, expected a directive of the module")
        if not self.out.target:
            raise PtxSyntaxError("the text has no .target directive", "line 1")
        return self.out

    def declaration(self) -> None:
        linkage: set[str] = set()
        while self.token.text[1:] in LINKAGE:
            linkage.add(self.next().text[1:])
        if self.take(".entry"):
            self.read_function(entry=True)
        elif self.take(".func"):
            self.read_function(entry=False)
        else:
            self.out.variables += self.variables(extern="extern" in linkage)

    def read_function(self, entry: bool) -> None:
        returns = self.parameters() if not entry and self.peek("(") else []
        function = Function(self.next().text, entry, returns=returns)
        function.params = self.parameters() if self.peek("(") else []
        while not self.peek("{") and not self.peek(";"):
            word = self.next().text
            if word == ".pragma":
                self.skip_directive(word)
                continue
            values = []
            while self.token.kind == "number":
                values.append(self.integer())
                self.take(",")
            function.directives[word.lstrip(".")] = tuple(values)
        if self.take(";"):
            self.out.functions.setdefault(function.name, function)
            return
        self.need("{")
        body = self.braces()
        function.unread = lambda: Body(body, function).read()
        self.out.functions[function.name] = function

    def braces(self) -> list[Token]:
        """What stands up to the closing brace, which is taken, and an end behind it."""
        start, depth = self.at, 1
        while depth:
            kind, text, _ = self.tokens[self.at]
            if kind == "end":
                raise self.error("the function has no closing brace")
            if text == "{":
                depth += 1
            elif text == "}":
                depth -= 1
            self.at += 1
        last = self.tokens[self.at - 1]
        return [*self.tokens[start : self.at], Token("end", "the end of the function", last.line)]

    def parameters(self) -> list[Variable]:
        self.need("(")
        found: list[Variable] = []
        while not self.take(")"):
            if self.peek("_"):
                self.next()
            else:
                found += self.declared()
            self.take(",")
        return found
