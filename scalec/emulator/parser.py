"""PTX text -> Module (PTX ISA, chapters 4, 5 and 11: syntax, state spaces, directives)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from scalec.emulator.findings import NotModelled, PtxSyntaxError
from scalec.emulator.program import (
    TYPE_BITS,
    Address,
    Function,
    Group,
    Imm,
    Instruction,
    Label,
    Module,
    Operand,
    Pair,
    Reg,
    Special,
    Symbol,
    Variable,
    Vector,
)
from scalec.emulator.tokens import Cursor, Token, float_bits, integer_of

_SPACES = {"reg", "local", "shared", "global", "const", "param", "tex"}
_LINKAGE = {"visible", "extern", "weak", "common"}
_SPECIAL = re.compile(
    r"%(n?tid|n?ctaid|n?clusterid|cluster_n?cta(id|rank)|laneid|n?warpid|n?smid|gridid|is_explicit_cluster"
    r"|lanemask_\w+|clock(64|_hi)?|globaltimer(_lo|_hi)?|pm\d+(_64)?|envreg\d+|(total|dynamic|aggr)_smem_size"
    r"|reserved_smem_\w+|current_graph_exec)(\.[xyzw])?$"
)

# Limits of ours, beyond what any kernel has: a text that exceeds one is refused, instead of taking all memory.
MOST_DEPTH = 64  # braces and brackets inside each other
MOST_REGISTERS = 1 << 18  # that a function declares
MOST_BYTES = 1 << 30  # of variables in .global
MOST_DIGITS = 10  # at the end of a register's name


@dataclass
class _Scope:
    registers: dict[str, Reg] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int, str]] = field(default_factory=dict)  # prefix -> (first index, count, type)
    labels: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # variables declared in this scope -> their unique names


def parse(text: str) -> Module:
    """The module of a PTX text.

    Raises:
        PtxSyntaxError: the text is not PTX; the message names the line and what was found.
        NotModelled: a directive that the emulator does not know.
    """
    return _Parser(text).module()


class _Parser(Cursor):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scopes: list[_Scope] = []
        self.function: Function | None = None
        self.pending: list[tuple[int, list[_Scope]]] = []  # instructions whose labels wait for the end of the function
        self.depth = 0
        self.out = Module((0, 0), "")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What stands in braces or brackets."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self.error(f"more than {MOST_DEPTH} braces and brackets inside each other")
        yield
        self.depth -= 1

    # -- the module ------------------------------------------------------------------------------------------------

    def module(self) -> Module:
        while self.token.kind != "end":
            word = self.next().text
            if word == ".version":
                major, _, minor = self.token.text.partition(".")
                numbers = integer_of(major), integer_of(minor or "0")
                if self.token.kind != "number" or None in numbers:
                    raise self.error(f"got {self.shown}, expected a version such as 8.7")
                self.next()
                self.out.version = (numbers[0] or 0, numbers[1] or 0)
            elif word == ".target":
                self.out.target = self.next().text
                while self.take(","):
                    self.next()
            elif word == ".address_size":
                if self.integer() != 64:
                    raise NotModelled(".address_size other than 64", f"line {self.token.line}")
            elif word in (".file", ".section", ".pragma", ".loc"):
                self.skip_directive(word)
            elif word.startswith(".") and (word[1:] in _LINKAGE | _SPACES or word in (".entry", ".func")):
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

    def declaration(self) -> None:
        linkage: set[str] = set()
        while self.token.text[1:] in _LINKAGE:
            linkage.add(self.next().text[1:])
        if self.take(".entry"):
            self.read_function(entry=True)
        elif self.take(".func"):
            self.read_function(entry=False)
        else:
            self.out.variables += self.variables(extern="extern" in linkage)

    def variables(self, extern: bool = False) -> list[Variable]:
        """One declaration statement of variables that are not registers, up to its semicolon."""
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
            found.append(Variable(name, space, align or size, total, init, tuple(relocations), extern and unsized))
            if not self.take(","):
                break
        self.take(";")
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
        self.function, self.scopes, self.pending = function, [_Scope()], []
        for param in [*function.params, *function.returns]:
            if param.space == "reg":
                self.add_register(param.name, "b64" if param.size == 8 else "b16" if param.size == 2 else "b32")
        self.block()
        self.resolve_labels()
        self.out.functions[function.name] = function

    def parameters(self) -> list[Variable]:
        self.need("(")
        found: list[Variable] = []
        while not self.take(")"):
            if self.peek("_"):
                self.next()
            else:
                found += self.variables_one()
            self.take(",")
        return found

    def variables_one(self) -> list[Variable]:
        """One parameter: like a variable, but a comma ends it."""
        start = self.at
        depth = 0
        end = start
        while depth >= 0 and not (self.tokens[end].text in (",", ")") and depth == 0):
            depth += {"[": 1, "]": -1}.get(self.tokens[end].text, 0)
            if self.tokens[end].kind == "end":
                raise self.error("the text ends within parameters")
            end += 1
        self.tokens.insert(end, Token("mark", ";", self.tokens[end].line))
        return self.variables()

    def block(self) -> None:
        """The statements of a function or an inner scope, up to its closing brace, whose opening one is taken."""
        assert self.function is not None
        while not self.take("}"):
            token = self.token
            if token.kind == "end":
                raise self.error("the function has no closing brace")
            if self.take(";"):
                continue
            if self.take("{"):
                self.scopes.append(_Scope())
                with self.inside():
                    self.block()
                self.scopes.pop()
            elif token.text == ".reg":
                self.next()
                self.registers()
            elif token.text in (".loc", ".pragma", ".file"):
                self.next()
                self.skip_directive(token.text)
            elif token.text.startswith(".") and token.text[1:] in _SPACES | _LINKAGE:
                while self.token.text[1:] in _LINKAGE:
                    self.next()
                for variable in self.variables():
                    self.declare(variable)
            elif self.tokens[self.at + 1].text == ":":
                name = self.next().text
                self.next()
                if self.token.text == ".branchtargets":
                    self.branch_targets(name)
                elif self.token.text in (".callprototype", ".calltargets"):
                    raise NotModelled("calls through a pointer", f"line {token.line}")
                else:
                    self.scopes[-1].labels[name] = len(self.function.code)
            else:
                self.instruction()

    def declare(self, variable: Variable) -> None:
        """A variable of the function; one in an inner scope gets a name that no other has."""
        assert self.function is not None
        taken = {v.name for v in self.function.variables}
        name = variable.name
        while name in taken:
            name += "'"
        self.scopes[-1].names[variable.name] = name
        self.function.variables.append(replace(variable, name=name))

    def registers(self) -> None:
        kind, width = "", 1
        while self.token.text.startswith("."):
            word = self.next().text[1:]
            if word in ("v2", "v4"):
                raise NotModelled("vector registers", f"line {self.token.line}")
            kind = word
        if kind not in TYPE_BITS or width != 1:
            raise self.error(f"got .{kind}, expected a type of registers")
        while True:
            name = self.next().text
            if self.take("<"):
                count = self.integer()
                self.need(">")
                assert self.function is not None
                first = len(self.function.registers)
                if not 0 <= count <= MOST_REGISTERS - first:
                    raise self.error(
                        f"{name[:40]}<{count}> after {first} registers: the emulator has {MOST_REGISTERS} a function"
                    )
                self.function.registers += [(f"{name}{i}", kind) for i in range(count)]
                self.scopes[-1].ranges[name] = (first, count, kind)
            else:
                self.add_register(name, kind)
            if not self.take(","):
                break
        self.need(";")

    def add_register(self, name: str, kind: str) -> None:
        assert self.function is not None
        self.scopes[-1].registers[name] = Reg(len(self.function.registers), name, kind)
        self.function.registers.append((name, kind))

    def branch_targets(self, name: str) -> None:
        assert self.function is not None
        self.next()
        labels = []
        while not self.take(";"):
            labels.append(Label(self.next().text, -1))
            self.take(",")
        self.function.tables[name] = tuple(labels)
        self.scopes[-1].names[name] = name

    def resolve_labels(self) -> None:
        assert self.function is not None
        code = self.function.code
        whole: dict[str, int] = {}
        for at, scopes in self.pending:
            instruction = code[at]

            def fix(operand: Operand | None, scopes: list[_Scope] = scopes, at: int = at) -> Operand | None:
                if isinstance(operand, Symbol) and not operand.offset:
                    for scope in reversed(scopes):
                        if operand.name in scope.labels:
                            return Label(operand.name, scope.labels[operand.name])
                    if code[at].opcode == "bra":
                        raise PtxSyntaxError(f"no label {operand.name!r}", code[at].where)
                return operand

            code[at] = replace(instruction, operands=tuple(fix(o) for o in instruction.operands))
            whole.update(scopes[0].labels)
            if (
                instruction.opcode == "brx"
                and getattr(instruction.operands[-1], "name", "") not in self.function.tables
            ):
                raise PtxSyntaxError("brx through what is no .branchtargets", instruction.where)
        for name, labels in self.function.tables.items():
            missing = next((label.name for label in labels if label.name not in whole), None)
            if missing is not None:
                raise self.error(f"no label {missing[:40]!r}, which {name[:40]} has")
            self.function.tables[name] = tuple(Label(label.name, whole[label.name]) for label in labels)

    # -- instructions ----------------------------------------------------------------------------------------------

    def instruction(self) -> None:
        assert self.function is not None
        start, line = self.at, self.token.line
        guard = None
        if self.take("@"):
            negated = self.take("!")
            found = self.operand()
            if not isinstance(found, Reg):
                raise self.error("the guard is not a predicate register")
            guard = replace(found, negated=negated)
        word = self.next()
        if word.kind != "word" or word.text.startswith((".", "%")):
            self.at -= 1
            raise self.error(f"got {self.shown}, expected an instruction")
        opcode, *modifiers = word.text.split(".")
        operands: list[Operand | None] = []
        while not self.take(";"):
            operands.append(self.operand())
            while self.token.text.startswith(".") and self.token.kind == "word":  # e.g. ".unified" after an address
                modifiers += self.next().text[1:].split(".")
            if not self.take(",") and not self.peek(";"):
                raise self.error(f"got {self.shown}, expected ',' or ';'")
        words = tuple([t.text for t in self.tokens[start : self.at]])
        self.function.code.append(Instruction(opcode, tuple(modifiers), guard, tuple(operands), line, words))
        if opcode in ("bra", "brx"):
            to = operands[-1] if operands else None
            if not isinstance(to, Symbol) or to.offset:
                raise PtxSyntaxError(f"{opcode} to what is no label", f"line {line}")
            self.pending.append((len(self.function.code) - 1, list(self.scopes)))
            if opcode == "brx" and isinstance(operands[-1], Symbol):
                pass  # the table's name stays a symbol

    def operand(self) -> Operand | None:
        first = self.simple()
        if self.take("|"):
            return Pair(first, self.simple())
        return first

    def simple(self) -> Operand | None:
        token = self.tokens[self.at]
        if token.kind == "word":
            self.at += 1
            return None if token.text == "_" else self.named(token)
        if token.kind == "number" or token.text in ("-", "~"):
            return self.constant()
        with self.inside():
            return self.bracketed()

    def bracketed(self) -> Operand | None:
        if self.take("{"):
            elements = []
            while not self.take("}"):
                elements.append(self.simple())
                self.take(",")
            return Vector(tuple(elements))
        if self.take("["):
            return self.address()
        if self.take("("):
            elements = []
            while not self.take(")"):
                found = self.simple()
                if found is not None:
                    elements.append(found)
                self.take(",")
            return Group(tuple(elements))
        if self.take("!"):
            found = self.simple()
            if not isinstance(found, Reg):
                raise self.error("'!' stands before something that is not a register")
            return replace(found, negated=True)
        raise self.error(f"got {self.shown}, expected an operand")

    def named(self, token: Token) -> Operand:
        name = token.text
        for scope in reversed(self.scopes):
            if name in scope.registers:
                return scope.registers[name]
            if name in scope.names:
                return Symbol(scope.names[name], self.offset())
            if not scope.ranges:
                continue
            stem = name.rstrip("0123456789")
            if stem != name:
                # a prefix may itself end in digits ("%r1_<3>" does not, "%f2<3>" might): the longest one wins
                for cut in range(len(name) - 1, max(len(stem), len(name) - MOST_DIGITS) - 1, -1):
                    if name[:cut] in scope.ranges:
                        first, count, kind = scope.ranges[name[:cut]]
                        number = int(name[cut:])
                        if number >= count:
                            raise self.error(f"{name} is past the {count} registers declared as {name[:cut]}<{count}>")
                        found = scope.registers[name] = Reg(first + number, name, kind)
                        return found
        if name.startswith("%"):
            if _SPECIAL.match(name):
                return Special(name)
            raise self.error(f"register {name[:40]} is not declared")
        if name == "WARP_SZ":
            return Imm(32)
        return Symbol(name, self.offset())

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

    def address(self) -> Address:
        base = self.simple()
        if not isinstance(base, Reg | Symbol | Imm):
            raise self.error("an address begins with a register, a variable or a constant")
        offset = self.offset()
        parts: list[Operand] = []
        while self.take(","):
            part = self.simple()
            if part is not None:
                parts.append(part)
        self.need("]")
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), offset + base.offset
        return Address(base, offset, tuple(parts))
