"""The table opcode -> function, and what those functions decode operands with.

A function of the table takes an instruction and a Decoder and returns a step: a function of a warp that executes it for
the active lanes (`warp.mask`). It is found by the longest dotted prefix of the instruction's name, so that
"cp.async.bulk" and "cp.async" are two rows. It checks the modifiers when it decodes, once; its step does nothing that
could be done there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from scalec.emulator.dataflow import writes
from scalec.emulator.findings import EmulatorError, Finding, NotModelled, PtxSyntaxError
from scalec.emulator.machine.signals import Signal
from scalec.emulator.program import (
    TYPE_BITS,
    Address,
    Imm,
    Instruction,
    Label,
    Operand,
    Pair,
    Reg,
    Special,
    Symbol,
    Vector,
)

if TYPE_CHECKING:
    from scalec.emulator.machine.kernel import Kernel
    from scalec.emulator.machine.warp import Warp

Step = Callable[["Warp"], Signal | None]
Source = Callable[["Warp"], np.ndarray]
Sink = Callable[["Warp", np.ndarray], None]
Decode = Callable[[Instruction, "Decoder"], Step]

_TABLE: dict[str, tuple[Decode, bool]] = {}
SPECIALS: dict[str, Callable[[Warp], np.ndarray | int]] = {}
"""Of the predefined registers, what a warp's lanes read, or one number for all."""
_FUNCTIONS: dict[str, Step] = {}

_NOT_MODELLED = {
    **dict.fromkeys(("tex", "tld4", "txq", "istypep"), "textures"),
    **dict.fromkeys(("suld", "sust", "sured", "suq"), "surfaces"),
    **dict.fromkeys(("stacksave", "stackrestore", "alloca"), "a stack that grows"),
    "multimem": "addresses that stand for memory of several GPUs",
    "wmma": "matrices whose registers the ISA leaves open; mma.sync, ldmatrix and stmatrix are modelled",
}
"""Why what has no row has none, by opcode."""

DTYPES: dict[str, np.dtype] = {
    "pred": np.dtype(bool),
    **{f"{k}{bits}": np.dtype(f"{'i' if k == 's' else 'u'}{bits // 8}") for k in "bus" for bits in (8, 16, 32, 64)},
    "f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8"), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16x2": np.dtype("u4"), "bf16x2": np.dtype("u4"), "u16x2": np.dtype("u4"), "s16x2": np.dtype("u4"),
    "f32x2": np.dtype("u8"), "tf32": np.dtype("f4"), "b128": np.dtype("u8"),
    **{t: np.dtype("u1") for t in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "ue8m0", "e2m1x2")},
    **{t: np.dtype("u2") for t in ("e4m3x2", "e5m2x2", "e3m2x2", "e2m3x2", "ue8m0x2", "e2m1x4")},
    **{t: np.dtype("u4") for t in ("e4m3x4", "e5m2x4", "e3m2x4", "e2m3x4")},
}  # fmt: skip


_UNSIGNED = {kind: DTYPES.get(f"u{max(bits, 8)}", DTYPES["b128"]) for kind, bits in TYPE_BITS.items()}
"""What registers hold a type's bits in: of b128 two of 64."""


class Grouped:
    """A step that several warps of a CTA can do at once.

    Attributes:
        together: the step of some of them, which it returns; each of the others must do it by itself.
        ignored: register -> bool (32,), the lanes in which it is not looked at.
    """

    def __init__(
        self,
        step: Step,
        together: Callable[[list[Warp]], list[Warp]],
        ignored: Mapping[int, np.ndarray] = MappingProxyType({}),
    ) -> None:
        self.step, self.together, self.ignored = step, together, ignored

    def __call__(self, warp: Warp) -> Signal | None:
        return self.step(warp)


class Merging(ABC):
    """A step that one for several instructions can stand for, in a run (instructions/batch.py)."""

    form: Any  # what these have in common, hashable

    @abstractmethod
    def __call__(self, warp: Warp) -> Signal | None: ...

    @abstractmethod
    def merged(self, steps: list[Any]) -> Step:
        """The step that does what all of these do, this one among them; none of them reads what another one writes."""


def op(*names: str, own_guard: bool = False) -> Callable[[Decode], Decode]:
    """Puts a decoding function into the table under dotted prefixes; `own_guard`: it handles @p by itself."""

    def add(function: Decode) -> Decode:
        for name in names:
            if name in _TABLE and _TABLE[name][0] is not function:
                raise ValueError(f"two functions for {name}")
            _TABLE[name] = (function, own_guard)
        return function

    return add


def known_functions() -> frozenset[str]:
    """Names of the functions without a body whose meaning is known."""
    return frozenset(_FUNCTIONS)


def functions() -> dict[str, Step]:
    return _FUNCTIONS


def lookup(instruction: Instruction) -> tuple[Decode, bool]:
    """The row of an instruction.

    Raises:
        NotModelled: there is none.
    """
    prefix = instruction.name
    while prefix:
        found = _TABLE.get(prefix)
        if found:
            return found
        prefix = prefix.rpartition(".")[0]
    reason = _NOT_MODELLED.get(instruction.opcode, "")
    raise NotModelled(instruction.name + (f": {reason}" if reason else ""), instruction.where)


def decode(instruction: Instruction, decoder: Decoder, watched: frozenset[int] = frozenset()) -> Step:
    """The step of an instruction, with its guard. That of an instruction which is not modelled is refused when reached.

    Args:
        watched: those of its registers that asynchronous tensor instructions use too.

    Raises:
        EmulatorError: it cannot be executed; `where` is set.
    """
    try:
        function, own_guard = lookup(instruction)
        step = function(instruction, decoder)
    except NotModelled as error:
        step, own_guard = Refused(error.message), False
    except EmulatorError as error:
        error.where = error.where or instruction.where
        if not (isinstance(error, Finding) and error.kind in decoder.kernel.passed):
            raise
        return lambda warp: None
    except (ValueError, TypeError, LookupError, AttributeError) as error:  # fewer operands, or of another kind
        wrong = f"operands or modifiers that {instruction.name[:40]} has not"
        raise PtxSyntaxError(wrong, instruction.where) from error
    if watched:
        step = _watched(step, watched)
    if instruction.guard is None or own_guard:
        return step
    return _guarded(step, decoder.source(instruction.guard, "pred"))


class Refused:
    """The step of what is not modelled. A kernel may hold instructions that a launch never reaches: a path for other
    shapes, a call before a trap."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __call__(self, warp: Warp) -> None:
        raise NotModelled(self.message)


def _watched(step: Step, registers: frozenset[int]) -> Step:
    """Judges, and remembers, the use of registers that an asynchronous tensor instruction may be using."""

    def run(warp: Warp) -> Signal | None:
        if warp.inflight and not registers.isdisjoint(warp.inflight):
            if warp.machine.ignores("in-flight"):  # the wait that ptxas would put here, with warning C7517
                warp.settle()
                return step(warp)
            index = next(iter(registers & warp.inflight.keys()))
            raise Finding(
                "in-flight",
                f"register {warp.kernel.function.registers[index][0]} is used while in use by {warp.inflight[index]}",
                expected="a wait for the operation before its registers are touched",
                fix="wgmma.wait_group before this instruction",
            )
        warp.touched |= registers
        return step(warp)

    return run


def _guarded(step: Step, guard: Source) -> Step:
    def run(warp: Warp) -> Signal | None:
        mask, full = warp.mask, warp.full
        chosen = guard(warp) & mask
        lanes = chosen.tobytes()  # on 32 lanes faster than numpy's any() and all()
        if 1 not in lanes:
            return None
        if full and 0 not in lanes:
            return step(warp)
        warp.mask, warp.full = chosen, False
        try:
            return step(warp)
        finally:
            warp.mask, warp.full = mask, full

    return run


class Decoder:
    """Turns operands into functions of a warp.

    Sources return arrays of 32 lanes with the dtype of DTYPES[type] ("b" types: unsigned; packed x2 types: the unsigned
    integer that holds them); they must not be changed in place. Sinks take 32 lanes, of which the active ones are kept.
    Of several warps at once (machine/crew.py) both are (warps, 32), or (32,) where these agree.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.pc = 0  # of the instruction that is being decoded

    def result_matters(self, instruction: Instruction) -> bool:
        """Whether anything behind the instruction reads its results."""
        return bool(writes(instruction) & self.kernel.looked_at[self.pc])

    def only(self, instruction: Instruction, *allowed: str | Container[str]) -> None:
        """Raises NotModelled for a modifier that is neither a type nor among `allowed`."""
        for modifier in instruction.modifiers:
            if modifier not in TYPE_BITS and not any(
                modifier == each if isinstance(each, str) else modifier in each for each in allowed
            ):
                raise NotModelled(f".{modifier} of {instruction.name}", instruction.where)

    # -- sources ---------------------------------------------------------------------------------------------------

    def source(self, operand: Operand | None, kind: str) -> Source:
        """The value of an operand as a type.

        Raises:
            PtxSyntaxError: the operand is no value of that type.
        """
        if isinstance(operand, Reg):
            return self._register(operand, kind)
        if isinstance(operand, Imm):
            constant = self.constant(operand, kind)
            return lambda warp: constant
        if isinstance(operand, Special):
            function = SPECIALS.get(operand.name)
            if function is None:
                raise NotModelled(f"the register {operand.name}")
            dtype = DTYPES[kind]

            def read(warp: Warp) -> np.ndarray:
                value = np.asarray(function(warp))
                return (np.broadcast_to(value, 32) if value.ndim == 0 else value).astype(dtype)

            return read
        if isinstance(operand, Symbol):
            return self._symbol(operand, kind)
        if isinstance(operand, Vector) and len(operand.elements) == 1:
            return self.source(operand.elements[0], kind)
        raise PtxSyntaxError(f"got {operand}, expected a value of type .{kind}")

    def _register(self, register: Reg, kind: str) -> Source:
        at, dtype = register.index, DTYPES[kind]
        have, want = TYPE_BITS[register.type], TYPE_BITS[kind]
        if kind == "pred" or register.type == "pred":
            if kind != register.type:
                raise PtxSyntaxError(f"register {register.name} is .{register.type}, the instruction needs .{kind}")
            if register.negated:
                return lambda warp: ~warp.registers[at]
            return lambda warp: warp.registers[at]
        unsigned = _UNSIGNED[kind]
        if have < want:
            raise PtxSyntaxError(f"register {register.name} has {have} bits, the instruction needs {want}")
        if have > max(want, 8):
            return lambda warp: warp.registers[at].astype(unsigned).view(dtype)
        if dtype == unsigned:
            return lambda warp: warp.registers[at]
        return lambda warp: warp.registers[at].view(dtype)

    def constant(self, operand: Imm, kind: str) -> np.ndarray:
        """A constant as 32 lanes of a type (PTX ISA 4.5)."""
        return _constant(operand.value, operand.float_bits, kind)

    def bits(self, operand: Operand | None, kind: str) -> Source:
        """A value of a type as unsigned bits: constants are read as the type says, registers as bits."""
        bits = f"b{TYPE_BITS[kind]}"
        if not isinstance(operand, Imm):
            return self.source(operand, bits)
        constant = self.constant(operand, kind).view(DTYPES[bits])
        return lambda warp: constant

    def integer(self, operand: Operand | None) -> int:
        """The value of a constant operand.

        Raises:
            PtxSyntaxError: it is not a constant.
        """
        if not isinstance(operand, Imm):
            raise PtxSyntaxError(f"got {operand}, expected a constant")
        return operand.value

    def _symbol(self, symbol: Symbol, kind: str) -> Source:
        space, address = self.kernel.symbol(symbol.name)
        dtype = DTYPES[kind]
        address += symbol.offset
        if space == "shared":
            return lambda warp: np.full(32, warp.cta.shared.base + warp.cta.shared.start + address).astype(dtype)
        constant = np.full(32, address).astype(dtype)
        return lambda warp: constant

    def address(self, operand: Operand | None) -> Source:
        """The address of [base+offset] in the state space that the instruction names: int64 (32,)."""
        if not isinstance(operand, Address):
            raise PtxSyntaxError(f"got {operand}, expected an address in brackets")
        base, offset = operand.base, operand.offset
        if isinstance(base, Symbol):
            return self.source(Symbol(base.name, base.offset + offset), "s64")
        if isinstance(base, Imm):
            constant = np.full(32, base.value + offset, np.int64)
            return lambda warp: constant
        at = base.index
        if TYPE_BITS[base.type] == 64:
            if not offset:
                return lambda warp: warp.registers[at].view(np.int64)
            return lambda warp: warp.registers[at].view(np.int64) + offset
        if not offset:
            return lambda warp: warp.registers[at].astype(np.int64)
        step = np.uint32(offset & 0xFFFFFFFF)  # 32-bit addresses wrap round: nvcc makes use of it
        return lambda warp: (warp.registers[at] + step).astype(np.int64)

    def space(self, operand: Operand | None, named: str) -> str:
        """The state space of an address: that which the instruction names, or that of the variable; "" for generic."""
        if named == "param" and isinstance(operand, Address) and isinstance(operand.base, Symbol):
            return self.kernel.symbol(operand.base.name)[0]  # "local" for the arguments of calls
        return named

    def sources(self, operand: Operand | None, kind: str) -> list[Source]:
        """The elements of a vector, or the one value of a scalar."""
        if isinstance(operand, Vector):
            return [self.source(e, kind) for e in operand.elements]
        return [self.source(operand, kind)]

    # -- sinks -----------------------------------------------------------------------------------------------------

    def sink(self, operand: Operand | None, kind: str) -> Sink:
        """Where a result of a type goes; `_` takes it nowhere. Narrow results are extended by their sign."""
        if operand is None:
            return lambda warp, value: None
        if not isinstance(operand, Reg):
            raise PtxSyntaxError(f"got {operand}, expected a register")
        at, have, want = operand.index, TYPE_BITS[operand.type], TYPE_BITS[kind]
        if (kind == "pred") != (operand.type == "pred"):
            raise PtxSyntaxError(f"register {operand.name} is .{operand.type}, the result is .{kind}")
        if have < want:
            raise PtxSyntaxError(f"register {operand.name} has {have} bits, the result {want}")
        if have == 128:
            return self._wide_sink(operand, kind)
        canonical = DTYPES["pred"] if kind == "pred" else _UNSIGNED[operand.type]
        dtype = DTYPES[kind]
        extend = have > max(want, 8)
        wide = np.dtype(f"i{have // 8}") if dtype.kind == "i" else canonical
        narrow = dtype if dtype.kind == "i" else _UNSIGNED[kind]

        def put(warp: Warp, value: np.ndarray) -> None:
            if value.dtype is not canonical:
                value = value.view(canonical)
            warp.registers[at] = value if warp.full else np.where(warp.mask, value, warp.registers[at])

        if extend:
            return lambda warp, value: put(warp, value.view(narrow).astype(wide))
        return put

    def _wide_sink(self, register: Reg, kind: str) -> Sink:
        """Into a 128-bit register go results of 128 bits alone, as uint64 (32, 2)."""
        if kind != "b128":
            raise PtxSyntaxError(f"register {register.name} is .{register.type}, the result is .{kind}")
        at = register.index

        def put(warp: Warp, value: np.ndarray) -> None:
            warp.registers[at] = value if warp.full else np.where(warp.mask[:, None], value, warp.registers[at])

        return put

    def sinks(self, operand: Operand | None, kind: str) -> list[Sink]:
        """One sink for each element of a vector, or for the one register of a scalar."""
        if isinstance(operand, Vector):
            return [self.sink(e, kind) for e in operand.elements]
        return [self.sink(operand, kind)]

    def pair(self, operand: Operand | None) -> tuple[Operand | None, Operand | None]:
        """d|p, or d alone."""
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)

    def label(self, operand: Operand | None) -> int:
        if not isinstance(operand, Label):
            raise PtxSyntaxError(f"got {operand}, expected a label")
        return operand.target

    def need_target(self, *families: str) -> None:
        """Raises Finding("illegal") unless the module's target begins with one of e.g. "sm_90a", "sm_100", "sm_120"."""
        if not self.kernel.module.target.startswith(families) and "illegal" not in self.kernel.passed:
            raise Finding(
                "illegal",
                f"the instruction needs {' or '.join(families)}, the module is for {self.kernel.module.target}",
            )


def applied(function: Callable[..., np.ndarray], put: Sink, *gets: Source) -> Step:
    """The step that puts what a function makes of one operand, two or three."""
    if len(gets) == 1:
        (get,) = gets
        return lambda warp: put(warp, function(get(warp)))
    if len(gets) == 2:
        left, right = gets
        return lambda warp: put(warp, function(left(warp), right(warp)))
    a, b, c = gets
    return lambda warp: put(warp, function(a(warp), b(warp), c(warp)))


@lru_cache(maxsize=4096)  # a kernel has few of them, many times
def _constant(value: int, float_bits: int, kind: str) -> np.ndarray:
    lanes = _lanes(value, float_bits, kind)
    lanes.flags.writeable = False
    return lanes


def _lanes(value: int, float_bits: int, kind: str) -> np.ndarray:
    dtype = DTYPES[kind]
    bits = max(8, TYPE_BITS[kind])
    if float_bits and dtype.kind not in "ub":
        source = np.dtype("f8") if float_bits == 64 else np.dtype("f4")
        return np.full(32, np.array(value, f"u{float_bits // 8}").view(source).astype(dtype))
    if float_bits == 64 and bits == 32:  # a double constant where 32 untyped bits are wanted
        return np.full(32, np.array(value, "u8").view("f8").astype("f4").view("u4"))
    if kind == "pred":
        return np.full(32, bool(value))
    raw = np.array(value & ((1 << bits) - 1), f"u{bits // 8}")
    if dtype.kind in "fV" and not float_bits:
        raise PtxSyntaxError(f"integer constant {value} for an operand of type .{kind}")
    return np.full(32, raw).view(dtype)


def interleaved(*parts: np.ndarray) -> np.ndarray:
    """Elements side by side in a wider register: each (..., 32) -> (..., 32, number of parts)."""
    both = np.empty((*np.broadcast(*parts).shape, len(parts)), parts[0].dtype)
    for i, part in enumerate(parts):
        both[..., i] = part
    return both


def uniform(warp: Warp, value: np.ndarray, what: str) -> int:
    """The one value that all active lanes hold.

    Raises:
        Finding: divergence, when they differ.
    """
    chosen = value.reshape(-1) if warp.full else value[warp.mask]
    first = chosen[0]
    if 1 in (chosen != first).tobytes():
        text = f"{what} differs between the lanes: {sorted(set(chosen.tolist()))[:4]}"
        warp.machine.report(Finding("divergence", text))
    return int(first)
