"""Floating-point arithmetic (PTX ISA 9.7.3, 9.7.4 half precision, 9.7.5 mixed precision), scalar and packed.

A packed operand is its two elements one after the other: (64,) where a scalar has (32,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations, product

import numpy as np

from scalec.emulator import arithmetic
from scalec.emulator.arithmetic import BF16, F16, F32, F64, ROUNDINGS, SIGN, U16, UNSIGNED, flush, relu, saturate
from scalec.emulator.findings import NotModelled
from scalec.emulator.instructions.table import Decoder, Source, Step, applied, op
from scalec.emulator.program import Instruction, Operand

ELEMENTS = {"f16": F16, "f16x2": F16, "bf16": BF16, "bf16x2": BF16, "f32": F32, "f32x2": F32, "f64": F64}
MODERN = ("sm_100", "sm_101", "sm_103", "sm_110", "sm_120", "sm_121")  # what PTX ISA calls sm_100 or higher

Compute = Callable[..., np.ndarray]


def spellings(operation: str, kinds: tuple[str, ...], *groups: tuple[str, ...], needs: bool = False) -> Iterator[str]:
    """The names operation{.group}{.group}.kind, with at most one of each group in any order (ptxas takes any).

    `needs`: one of the first group must be there. A member of a group such as "xorsign.abs" is two modifiers.
    """
    choices = [g if needs and i == 0 else ("", *g) for i, g in enumerate(groups)]
    for kind in kinds:
        for chosen in product(*choices):
            for order in permutations([c for c in chosen if c]):
                yield ".".join((operation, *order, kind))


def elements(decoder: Decoder, operand: Operand | None, kind: str) -> Source:
    """The value of an operand as elements: (32,), or (64,) of a packed type."""
    get = decoder.source(operand, kind)
    if not kind.endswith("x2"):
        return get
    dtype = ELEMENTS[kind]
    return lambda warp: get(warp).view(dtype)


def rounding(instruction: Instruction) -> str:
    return next((m for m in instruction.modifiers if m in ROUNDINGS), "rn")


def finished(instruction: Instruction, compute: Compute) -> Compute:
    """`compute` with the instruction's .sat and .relu."""
    for modifier, function in (("sat", saturate), ("relu", relu)):
        if instruction.has(modifier):
            compute = _then(compute, function)
    return compute


def flushing(instruction: Instruction, compute: Compute) -> Compute:
    """`compute` with the instruction's .ftz, where no rounding takes place near the subnormal numbers."""
    if not instruction.has("ftz"):
        return compute
    return lambda *operands: flush(compute(*[flush(x) for x in operands]))


def _then(first: Compute, second: Compute) -> Compute:
    return lambda *operands: second(first(*operands))


def steps(instruction: Instruction, decoder: Decoder, compute: Compute, *kinds: str) -> Step:
    """The step of d = compute(a, ...), with d and operands of the types `kinds` (the last one for all the rest)."""
    to, *operands = instruction.operands
    kinds = (*kinds, *(kinds[-1:] * (len(operands) + 1 - len(kinds))))
    put = decoder.sink(to, kinds[0])
    gets = [elements(decoder, x, kind) for x, kind in zip(operands, kinds[1:], strict=True)]
    return applied(compute, put, *gets)


def expect(instruction: Instruction, *counts: int) -> None:
    """Raises NotModelled unless the number of operands is one of `counts`."""
    if len(instruction.operands) not in counts:
        raise NotModelled(f"{instruction.name} with {len(instruction.operands)} operands", instruction.where)


# -- sums and products -------------------------------------------------------------------------------------------------

_FTZ, _SAT, _RELU = ("ftz",), ("sat",), ("relu",)
_HALVES, _BRAINS = ("f16", "f16x2"), ("bf16", "bf16x2")


def _arithmetic(instruction: Instruction, decoder: Decoder, name: str) -> Step:
    """d = a + b, a - b, a * b, or a * b + c: 9.7.3.3 to 9.7.3.7 and 9.7.4.1 to 9.7.4.4."""
    expect(instruction, 4 if name == "fma" else 3)
    kind = instruction.types[-1]
    if kind == "f32x2":
        decoder.need_target(*MODERN)
    compute = arithmetic.operation(name, ELEMENTS[kind], rounding(instruction), instruction.has("ftz"))
    return steps(instruction, decoder, finished(instruction, compute), kind)


for _name in ("add", "sub", "mul"):
    op(
        *spellings(_name, ("f32",), ROUNDINGS, _FTZ, _SAT),
        *spellings(_name, ("f32x2",), ROUNDINGS, _FTZ),
        *spellings(_name, ("f64",), ROUNDINGS),
        *spellings(_name, _HALVES, ("rn",), _FTZ, _SAT),
        *spellings(_name, _BRAINS, ("rn",)),
    )(partial(_arithmetic, name=_name))
for _name in ("fma", "mad"):  # mad of floats is fma since sm_20 (9.7.3.7)
    op(
        *spellings(_name, ("f32",), ROUNDINGS, _FTZ, _SAT, needs=True),
        *spellings(_name, ("f64",), ROUNDINGS, needs=True),
    )(partial(_arithmetic, name="fma"))
op(
    *spellings("fma", ("f32x2",), ROUNDINGS, _FTZ, needs=True),
    *spellings("fma", _HALVES, ("rn",), _FTZ, ("sat", "relu"), needs=True),
    *spellings("fma", _BRAINS, ("rn",), _RELU, needs=True),
)(partial(_arithmetic, name="fma"))

_OUT_OF_BOUNDS = np.uint16(0x7FF7)  # the OOB NaN of both formats, of either sign: measured on an H200


@op(*spellings("fma", (*_HALVES, *_BRAINS), ("rn.oob",), _RELU, needs=True))
def fma_oob(instruction: Instruction, decoder: Decoder) -> Step:
    """fma.rn.oob: +0 where a or b is the NaN that tensor copies put in the place of what is out of bounds: 9.7.4.4."""
    kind = instruction.types[-1]
    dtype = ELEMENTS[kind]
    compute = finished(instruction, arithmetic.operation("fma", dtype))
    positive = ~SIGN[dtype]

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        outside = ((a.view(U16) & positive) == _OUT_OF_BOUNDS) | ((b.view(U16) & positive) == _OUT_OF_BOUNDS)
        return np.where(outside, np.uint16(0), compute(a, b, c).view(U16)).view(dtype)

    return steps(instruction, decoder, run, kind)


def _rounded(name: str) -> Iterator[str]:
    yield from spellings(name, ("f32",), ROUNDINGS, _FTZ, needs=True)
    yield from spellings(name, ("f64",), ROUNDINGS, needs=True)


@op(*_rounded("rcp"))
def rcp(instruction: Instruction, decoder: Decoder) -> Step:
    """rcp.rnd: 9.7.3.13."""
    kind = instruction.types[-1]
    divide = arithmetic.operation("div", ELEMENTS[kind], rounding(instruction), instruction.has("ftz"))
    one = ELEMENTS[kind].type(1)
    return steps(instruction, decoder, finished(instruction, lambda a: divide(np.full_like(a, one), a)), kind)


@op(*_rounded("div"), *_rounded("sqrt"))
def div_sqrt(instruction: Instruction, decoder: Decoder) -> Step:
    """div.rnd, sqrt.rnd: 9.7.3.8, 9.7.3.15."""
    kind = instruction.types[-1]
    compute = arithmetic.operation(instruction.opcode, ELEMENTS[kind], rounding(instruction), instruction.has("ftz"))
    return steps(instruction, decoder, finished(instruction, compute), kind)


@op(
    *(f"{n}.{k}" for n in ("add", "sub", "fma") for k in ("f32.f16", "f32.bf16")),
    *(s for n in ("add", "sub", "fma") for s in spellings(n, ("f32.f16", "f32.bf16"), ROUNDINGS, _SAT)),
)
def mixed(instruction: Instruction, decoder: Decoder) -> Step:
    """add, sub, fma of f32 with narrower a (and b): 9.7.5.1 to 9.7.5.3."""
    decoder.need_target(*MODERN)
    kind, narrow = instruction.types
    compute = arithmetic.operation(instruction.opcode, F32, rounding(instruction))
    many = 2 if instruction.opcode == "fma" else 1
    return steps(instruction, decoder, finished(instruction, compute), kind, *[narrow] * many, kind)


# -- minimum, maximum, sign and class ----------------------------------------------------------------------------------


@op(
    *(
        s
        for n in ("min", "max")
        for s in (
            *spellings(n, ("f32",), _FTZ, ("NaN",), ("xorsign.abs", "abs")),
            *spellings(n, ("f64",)),
            *spellings(n, _HALVES, _FTZ, ("NaN",), ("xorsign.abs",)),
            *spellings(n, _BRAINS, ("NaN",), ("xorsign.abs",)),
        )
    )
)
def extremum(instruction: Instruction, decoder: Decoder) -> Step:
    """min, max: 9.7.3.11, 9.7.3.12, 9.7.4.7, 9.7.4.8; three operands and .abs alone since sm_100."""
    kind = instruction.types[-1]
    dtype = ELEMENTS[kind]
    three = len(instruction.operands) == 4
    expect(instruction, 3, *((4,) if kind == "f32" and not instruction.has("xorsign") else ()))
    if three:
        decoder.need_target(*MODERN)
    elif instruction.has("abs") and not instruction.has("xorsign"):
        raise NotModelled(f"{instruction.name} with two operands", instruction.where)
    pick = arithmetic.minimum if instruction.opcode == "min" else arithmetic.maximum
    wide = dtype if dtype in (F32, F64) else F32
    poison, xorsign, absolute = instruction.has("NaN"), instruction.has("xorsign"), instruction.has("abs")

    def compute(*operands: np.ndarray) -> np.ndarray:
        values = [x.astype(wide) for x in operands] if wide is not dtype else operands
        if absolute:
            values = [np.abs(x) for x in values]
        result = pick(values[0], values[1])
        if three:
            result = pick(result, values[2])
        if poison:
            for x in values:
                nan = x != x
                if 1 in nan.tobytes():
                    result = np.where(nan, wide.type(np.nan), result)
        if wide is not dtype:
            result = result.astype(dtype)
        result = canonical(result)
        if xorsign:
            bits = UNSIGNED[dtype]
            sign = (operands[0].view(bits) ^ operands[1].view(bits)) & SIGN[dtype]
            sign = np.where(np.isnan(result), bits.type(0), sign)
            result = (result.view(bits) | sign).view(dtype)
        return result

    canonical = arithmetic.canonical32 if dtype == F32 else arithmetic.quiet if dtype == F64 else arithmetic.canonical
    if kind == "f32" and not (three or poison or absolute):
        return steps(instruction, decoder, flushing(instruction, lambda a, b: canonical(pick(a, b))), kind)
    return steps(instruction, decoder, flushing(instruction, compute), kind)


@op(*(s for n in ("abs", "neg") for s in (*spellings(n, ("f32", *_HALVES), _FTZ), *spellings(n, ("f64", *_BRAINS)))))
def sign(instruction: Instruction, decoder: Decoder) -> Step:
    """abs, neg: 9.7.3.9, 9.7.3.10, 9.7.4.5, 9.7.4.6; a NaN becomes the canonical one, and of f64 passes through."""
    expect(instruction, 2)
    kind = instruction.types[-1]
    dtype = ELEMENTS[kind]
    bits, bit = UNSIGNED[dtype], SIGN[dtype]
    negate = instruction.opcode == "neg"
    canonical = arithmetic.canonical32 if dtype == F32 else arithmetic.canonical

    def compute(a: np.ndarray) -> np.ndarray:
        result = ((a.view(bits) ^ bit) if negate else (a.view(bits) & ~bit)).view(dtype)
        return canonical(result)

    def compute_double(a: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(a), arithmetic.quiet(a), -a if negate else np.abs(a))

    return steps(instruction, decoder, flushing(instruction, compute_double if dtype == F64 else compute), kind)


@op("copysign.f32", "copysign.f64")
def copysign(instruction: Instruction, decoder: Decoder) -> Step:
    """copysign d, a, b: the sign of a, the rest of b: 9.7.3.2."""
    expect(instruction, 3)
    kind = instruction.types[-1]
    dtype = ELEMENTS[kind]
    bits, bit = UNSIGNED[dtype], SIGN[dtype]
    return steps(instruction, decoder, lambda a, b: ((a.view(bits) & bit) | (b.view(bits) & ~bit)).view(dtype), kind)


_CLASSES: dict[str, Callable[[np.ndarray, np.unsignedinteger], np.ndarray]] = {
    # of the bits without sign, and infinity's: 9.7.3.1; zero is counted as normal
    "finite": lambda bits, infinity: bits < infinity,
    "infinite": lambda bits, infinity: bits == infinity,
    "number": lambda bits, infinity: bits <= infinity,
    "notanumber": lambda bits, infinity: bits > infinity,
    "normal": lambda bits, infinity: (bits < infinity) & (((bits & infinity) != 0) | (bits == 0)),
    "subnormal": lambda bits, infinity: ((bits & infinity) == 0) & (bits != 0),
}


@op(*(f"testp.{c}.{k}" for c in _CLASSES for k in ("f32", "f64")))
def testp(instruction: Instruction, decoder: Decoder) -> Step:
    """testp.class: 9.7.3.1."""
    expect(instruction, 2)
    kind = instruction.types[-1]
    dtype = ELEMENTS[kind]
    test = _CLASSES[instruction.modifiers[0]]
    unsigned, positive, infinity = UNSIGNED[dtype], ~SIGN[dtype], arithmetic.INFINITY[dtype]
    return steps(instruction, decoder, lambda a: test(a.view(unsigned) & positive, infinity), "pred", kind)
