"""The body of a function: its statements, registers, labels, instructions and operands (PTX ISA, chapters 4 and 9)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from scalec.emulator.declarations import LINKAGE, SPACES, Declarations
from scalec.emulator.findings import NotModelled, PtxSyntaxError
from scalec.emulator.program import (
    TYPE_BITS,
    Address,
    Function,
    Group,
    Imm,
    Instruction,
    Label,
    Operand,
    Pair,
    Reg,
    Special,
    Symbol,
    Variable,
    Vector,
)
from scalec.emulator.tokens import Token

_SPECIAL = re.compile(
    r"%(n?tid|n?ctaid|n?clusterid|cluster_n?cta(id|rank)|laneid|n?warpid|n?smid|gridid|is_explicit_cluster"
    r"|lanemask_\w+|clock(64|_hi)?|globaltimer(_lo|_hi)?|pm\d+(_64)?|envreg\d+|(total|dynamic|aggr)_smem_size"
    r"|reserved_smem_\w+|current_graph_exec)(\.[xyzw])?$"
)

MOST_REGISTERS = 1 << 18
"""That a function declares. Like MOST_DEPTH a limit of ours, beyond what any kernel has."""
MOST_DIGITS = 10  # at the end of a register's name


@dataclass
class _Scope:
    registers: dict[str, Reg] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int, str]] = field(default_factory=dict)  # prefix -> (first index, count, type)
    labels: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # variables declared in this scope -> their unique names


class Body(Declarations):
    """Reads the body of one function, behind its opening brace."""

    def __init__(self, tokens: list[Token], function: Function) -> None:
        super().__init__(tokens)
        self.function = replace(function, registers=[], code=[], variables=[], tables={}, unread=None)
        self.scopes = [_Scope()]
        self.pending: list[tuple[int, list[_Scope]]] = []  # instructions whose labels wait for the end of the function

    def read(self) -> Function:
        """The function, with registers, code, variables and tables.

        Raises:
            PtxSyntaxError: it is not PTX.
            NotModelled: a directive that the emulator does not know.
        """
        for param in [*self.function.params, *self.function.returns]:
            if param.space == "reg":
                self.add_register(param.name, "b64" if param.size == 8 else "b16" if param.size == 2 else "b32")
        self.block()
        self.resolve_labels()
        return self.function

    def block(self) -> None:
        """The statements of a function or an inner scope, up to its closing brace, whose opening one is taken."""
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
            elif token.text.startswith(".") and token.text[1:].split("::")[0] in SPACES | LINKAGE:
                while self.token.text[1:] in LINKAGE:
                    self.next()
                for variable in self.variables():
                    self.declare(variable)
            elif self.tokens[self.at + 1].text == ":":
                name = self.next().text
                self.next()
                if self.token.text == ".branchtargets":
                    self.branch_targets(name)
                elif self.token.text in (".callprototype", ".calltargets"):  # the call that names it is refused
                    while not self.take(";"):
                        self.next()
                else:
                    self.scopes[-1].labels[name] = len(self.function.code)
            else:
                self.instruction()

    def declare(self, variable: Variable) -> None:
        """A variable of the function; one in an inner scope gets a name that no other has."""
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
        self.scopes[-1].registers[name] = Reg(len(self.function.registers), name, kind)
        self.function.registers.append((name, kind))

    def branch_targets(self, name: str) -> None:
        self.next()
        labels = []
        while not self.take(";"):
            labels.append(Label(self.next().text, -1))
            self.take(",")
        self.function.tables[name] = tuple(labels)
        self.scopes[-1].names[name] = name

    def resolve_labels(self) -> None:
        code = self.function.code
        whole = self.scopes[0].labels
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
