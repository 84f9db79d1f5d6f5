"""PTX as data: modules, functions, variables, instructions and their operands (PTX ISA, chapters 4 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from scalec.emulator.tokens import written

TYPE_BITS = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "b128": 128,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "f16x2": 32,
    "bf16x2": 32,
    "tf32": 32,
    "u16x2": 32,
    "s16x2": 32,
    "f32x2": 64,
    "b4": 4,
    "b6": 6,
    "e4m3": 8,
    "e5m2": 8,
    "e3m2": 8,
    "e2m3": 8,
    "e2m1": 8,
    "ue8m0": 8,
    "e4m3x2": 16,
    "e5m2x2": 16,
    "e3m2x2": 16,
    "e2m3x2": 16,
    "e2m1x2": 8,
    "ue8m0x2": 16,
    "e4m3x4": 32,
    "e5m2x4": 32,
    "e3m2x4": 32,
    "e2m3x4": 32,
    "e2m1x4": 16,
}

CODE = 6 << 56
"""Where the addresses of functions begin."""


@dataclass(frozen=True)
class Reg:
    """A register: its place in the function's register list, its name and declared type; `negated` for `!p`."""

    index: int
    name: str
    type: str
    negated: bool = False


@dataclass(frozen=True)
class Special:
    """A predefined register, e.g. %tid.x."""

    name: str


@dataclass(frozen=True)
class Imm:
    """A constant: `value` is an int, or the bits of a float whose width is `float_bits` (0: an integer)."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True)
class Symbol:
    """The address of a variable, or a function, plus `offset` bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Label:
    """A place in the code: the index of the instruction that it stands before."""

    name: str
    target: int


@dataclass(frozen=True)
class Vector:
    """{a, b, ...}; an element `_` is None."""

    elements: tuple[Operand | None, ...]


@dataclass(frozen=True)
class Address:
    """[base+offset], or with further parts as of tensor copies: [map, {c0, c1}] has parts ({c0, c1},)."""

    base: Reg | Symbol | Imm
    offset: int = 0
    parts: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Pair:
    """d|p: two results; an element `_` is None."""

    first: Operand | None
    second: Operand | None


@dataclass(frozen=True)
class Group:
    """(a, b): arguments or results of a call."""

    elements: tuple[Operand, ...]


Operand = Reg | Special | Imm | Symbol | Label | Vector | Address | Pair | Group

# whose first operand is no result, though it may be a register
_NO_RESULT = {"bar", "barrier", "bra", "brx", "nanosleep", "pmevent", "setmaxnreg"}
_NO_RESULT_OF = {"tcgen05": ("dealloc",)}
_TWO_RESULTS = ("tcgen05.ld.red",)  # what was loaded, and the least or greatest of it


def named(operands: Iterable[Operand | None]) -> set[int]:
    """The indices of all registers that operands name."""
    found: set[int] = set()
    todo: list[Operand | None] = list(operands)
    for operand in todo:  # which grows
        if operand is None:
            continue
        if isinstance(operand, Reg):
            found.add(operand.index)
        elif isinstance(operand, Address):
            todo += (operand.base, *operand.parts)
        elif isinstance(operand, Vector | Group):
            todo += operand.elements
        elif isinstance(operand, Pair):
            todo += (operand.first, operand.second)
    return found


def is_full(operand: Operand | None) -> bool:
    """Whether it is the constant that names all lanes of a warp."""
    return isinstance(operand, Imm) and operand.value & 0xFFFFFFFF == 0xFFFFFFFF


T = TypeVar("T")


class computed_once(Generic[T]):
    """functools.cached_property without the lock that it takes before Python 3.12, a tenth of the time of decoding."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute

    def __get__(self, instance: Any, owner: type) -> T:
        value = vars(instance)[self.compute.__name__] = self.compute(instance)
        return value


@dataclass(frozen=True)
class Instruction:
    """One instruction."""

    opcode: str  # the first word, e.g. "cp"
    modifiers: tuple[str, ...]  # the words after it, e.g. ("async", "bulk", "shared::cluster")
    guard: Reg | None  # the register of @p, or None; `negated` in it for @!p
    operands: tuple[Operand | None, ...]  # in the order written; None for `_`
    line: int  # 1-based, in the PTX text
    words: tuple[str, ...]  # all of its tokens

    @computed_once
    def name(self) -> str:
        return ".".join((self.opcode, *self.modifiers))

    def has(self, *modifiers: str) -> bool:
        """Whether all of `modifiers` are among the instruction's."""
        return all(m in self.modifiers for m in modifiers)

    @computed_once
    def results(self) -> tuple[Operand | None, ...]:
        """The operands whose registers it writes: the first one, if any, or two (tcgen05.ld.red)."""
        opcode, operands = self.opcode, self.operands
        if not operands or isinstance(operands[0], Address):
            return ()
        if opcode == "call":
            return operands[:1] if isinstance(operands[0], Group) else ()
        if opcode in _NO_RESULT and not self.has("red"):
            return ()
        if self.modifiers[:1] and self.modifiers[0] in _NO_RESULT_OF.get(opcode, ()):
            return ()
        return operands[: 2 if self.name.startswith(_TWO_RESULTS) else 1]

    @computed_once
    def reads(self) -> frozenset[int]:
        """The registers that it reads. (wgmma reads its accumulators, too, or not: they are not among them.)"""
        return frozenset(named((self.guard, *self.operands[len(self.results) :])))

    @computed_once
    def writes(self) -> frozenset[int]:
        """The registers of its results."""
        return frozenset(named(self.results))

    @computed_once
    def types(self) -> tuple[str, ...]:
        """The modifiers that are types, in order."""
        return tuple(m for m in self.modifiers if m in TYPE_BITS)

    @computed_once
    def text(self) -> str:
        """As written, on one line."""
        return written(self.words)

    @computed_once
    def where(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(frozen=True)
class Variable:
    """A variable: `size` bytes at a multiple of `align` in state space `space`."""

    name: str
    space: str
    align: int
    size: int
    init: bytes | None = None  # the bytes it starts with, or None
    # byte offset in init -> the symbol whose 64-bit (generic or plain) address stands there.
    relocations: tuple[tuple[int, Symbol, bool], ...] = ()
    extern: bool = False  # an `extern .shared` array, whose size the launch gives
    type: str = ""  # of its elements, e.g. "u64"
    pointer: bool = False  # it has .ptr


@dataclass
class Function:
    """A .entry or .func.

    Attributes:
        params: in order; of space "param".
        returns: of a .func.
        registers: name and type of each register, by index.
        code: the instructions; labels are resolved into indices of it.
        variables: .local, .shared, .const, .global and .param variables declared inside.
        directives: e.g. {"reqntid": (384, 1, 1), "explicitcluster": ()}.
        tables: .branchtargets lists, name -> labels.
        unread: gives the function with its body (registers, code, variables and tables); None: this one has it.
    """

    name: str
    entry: bool
    params: list[Variable] = field(default_factory=list)
    returns: list[Variable] = field(default_factory=list)
    registers: list[tuple[str, str]] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    tables: dict[str, tuple[Label, ...]] = field(default_factory=dict)
    unread: Callable[[], Function] | None = None


@dataclass
class Module:
    """A PTX file."""

    target: str  # e.g. "sm_90a"
    functions: dict[str, Function] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)

    def function(self, name: str) -> Function | None:
        """The function of a name, its body read.

        Raises:
            PtxSyntaxError, NotModelled: by the parser of bodies.
        """
        function = self.functions.get(name)
        if function is not None and function.unread is not None:
            function = self.functions[name] = function.unread()
        return function

    def code_address(self, name: str) -> int | None:
        """What stands for the address of a function: one that no memory has; None if there is no such function."""
        return CODE + 16 * [*self.functions].index(name) if name in self.functions else None
