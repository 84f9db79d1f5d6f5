"""Comparison and selection (PTX ISA 9.7.6, and 9.7.7 for half precision): set, setp, selp, slct."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator.findings import NotModelled, PtxSyntaxError
from scalec.emulator.instructions.table import DTYPES, Decoder, Source, Step, applied, op
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import TYPE_BITS, Instruction, Operand

Compare = Callable[[np.ndarray, np.ndarray], np.ndarray]

_BOOL: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip
# 9.7.6.2 "setp" and 9.3.1 "Comparisons": lo, ls, hi, hs are the unsigned names
_ORDERED: dict[str, Compare] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def _ne(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a < b) | (a > b)  # false where one is NaN, unlike !=


# floats: the plain operators are false where an operand is NaN, those with u true (9.3.1.2)
_FLOAT: dict[str, Compare] = {
    "eq": np.equal, "ne": _ne, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "equ": lambda a, b: ~_ne(a, b), "neu": np.not_equal, "ltu": lambda a, b: ~(a >= b), "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b), "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: (a == a) & (b == b), "nan": lambda a, b: (a != a) | (b != b),
}  # fmt: skip
OPERATORS = tuple({**_ORDERED, **_FLOAT})
_ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C00, "bf16x2": 0x3F80}


def flush(value: np.ndarray) -> np.ndarray:
    """Subnormal float32 values become zeros of their sign."""
    bits = value.view(np.uint32)
    return np.where(bits & np.uint32(0x7F800000) == 0, bits & np.uint32(0x80000000), bits).view(np.float32)


def _flush_half(value: np.ndarray) -> np.ndarray:
    bits = value.view(np.uint16)
    return np.where(bits & np.uint16(0x7C00) == 0, bits & np.uint16(0x8000), bits).view(np.float16)


def _bf16(value: np.ndarray) -> np.ndarray:
    """bfloat16 bits (uint16) -> float32."""
    return (value.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _comparable(kind: str, ftz: bool) -> tuple[str, Callable[[np.ndarray], np.ndarray] | None]:
    """The type that an operand is fetched as, and what makes it a thing that numpy compares: (32,), or (64,) for x2."""
    if kind == "bf16":
        return "u16", _bf16
    if kind == "bf16x2":
        return "u32", lambda v: _bf16(v.view(np.uint16))
    if kind == "f16x2":
        return "u32", (lambda v: _flush_half(v.view(np.float16))) if ftz else lambda v: v.view(np.float16)
    if kind == "f16" and ftz:
        return kind, _flush_half
    if kind == "f32" and ftz:
        return kind, flush
    return kind, None


def _compare(instruction: Instruction, decoder: Decoder, kind: str) -> Callable[[Warp], np.ndarray]:
    """a CmpOp b of operands 1 and 2."""
    name = next((m for m in instruction.modifiers if m in OPERATORS), "")
    function = (_FLOAT if "f" in kind else _ORDERED).get(name)
    if function is None:
        raise PtxSyntaxError(f"the comparison .{name} does not exist for .{kind}")
    if name in ("lo", "ls", "hi", "hs") and kind[0] == "s":
        raise PtxSyntaxError(f"the unsigned comparison .{name} with .{kind}")
    fetched, prepare = _comparable(kind, instruction.has("ftz"))
    a, b = (decoder.source(s, fetched) for s in instruction.operands[1:3])
    if prepare is None:
        return lambda warp: function(a(warp), b(warp))
    return lambda warp: function(prepare(a(warp)), prepare(b(warp)))


def _combination(instruction: Instruction, decoder: Decoder) -> tuple[Callable, Source] | None:
    name = next((m for m in instruction.modifiers if m in _BOOL), None)
    return (_BOOL[name], decoder.source(instruction.operands[3], "pred")) if name else None


@op("setp")
def setp(instruction: Instruction, decoder: Decoder) -> Step:
    """setp.CmpOp{.BoolOp}{.ftz}.type p{|q}, a, b{, c}: 9.7.6.2, 9.7.7.2.

    p = BoolOp(a CmpOp b, c) and q = BoolOp(!(a CmpOp b), c); of the x2 types, p is of the low halves, q of the high.
    """
    decoder.only(instruction, "ftz", OPERATORS, _BOOL)
    (kind,) = instruction.types
    first, second = decoder.pair(instruction.operands[0])
    test, combination = _compare(instruction, decoder, kind), _combination(instruction, decoder)
    if combination is None and second is None and not kind.endswith("x2"):
        only = decoder.sink(first, "pred")
        return lambda warp: only(warp, test(warp))
    put, put_second = decoder.sink(first, "pred"), decoder.sink(second, "pred")
    both = kind.endswith("x2")

    def step(warp: Warp) -> None:
        p = test(warp)
        p, q = (p[..., 0::2].copy(), p[..., 1::2].copy()) if both else (p, ~p)
        if combination is not None:
            combine, c = combination
            with_c = c(warp)
            p, q = combine(p, with_c), combine(q, with_c)
        put(warp, p)
        put_second(warp, q)

    return step


@op("set")
def set_value(instruction: Instruction, decoder: Decoder) -> Step:
    """set.CmpOp{.BoolOp}{.ftz}.dtype.stype d, a, b{, c}: 9.7.6.1, 9.7.7.1: all ones, or 1.0 in a float; else zero."""
    decoder.only(instruction, "ftz", OPERATORS, _BOOL)
    result, kind = instruction.types
    put = decoder.sink(instruction.operands[0], result)
    test, combination = _compare(instruction, decoder, kind), _combination(instruction, decoder)
    pairs = kind.endswith("x2")
    element = np.dtype("u2") if pairs or result in ("f16", "bf16") else DTYPES[f"u{TYPE_BITS[result]}"]
    if result in _ONE:
        one = element.type(_ONE[result])
    elif result == "f32":
        one = np.uint32(0x3F800000)
    elif result[0] in "us":
        one = element.type((1 << 8 * element.itemsize) - 1)
    else:
        raise NotModelled(f".{result} as the result of set")
    zero = element.type(0)

    def step(warp: Warp) -> None:
        chosen = test(warp)
        if combination is not None:
            combine, c = combination
            with_c = c(warp)
            chosen = combine(chosen, np.repeat(with_c, 2) if pairs else with_c)
        value = np.where(chosen, one, zero)
        put(warp, value.view(np.uint32) if pairs else value)

    return step


@op("selp")
def selp(instruction: Instruction, decoder: Decoder) -> Step:
    """selp.type d, a, b, c: 9.7.6.3."""
    decoder.only(instruction)
    (kind,) = instruction.types
    to, *sources, condition = instruction.operands
    return applied(np.where, decoder.sink(to, kind), decoder.source(condition, "pred"), *_bits(decoder, sources, kind))


def _bits(decoder: Decoder, operands: list[Operand | None], kind: str) -> list[Source]:
    return [decoder.bits(x, kind) for x in operands]


@op("slct")
def slct(instruction: Instruction, decoder: Decoder) -> Step:
    """slct{.ftz}.dtype.{s32,f32} d, a, b, c: 9.7.6.4: a where c >= 0, which -0.0 is and NaN is not."""
    decoder.only(instruction, "ftz")
    kind, tested = instruction.types
    to, *sources, condition = instruction.operands
    prepare = flush if instruction.has("ftz") else np.asarray
    gets = decoder.source(condition, tested), *_bits(decoder, sources, kind)
    return applied(lambda c, a, b: np.where(prepare(c) >= 0, a, b), decoder.sink(to, kind), *gets)
