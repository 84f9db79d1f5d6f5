"""Logic and shifts (PTX ISA 9.7.8): and, or, xor, not, cnot, lop3, shf, shl, shr."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator.findings import PtxSyntaxError
from scalec.emulator.instructions.table import DTYPES, Decoder, Step, applied, op
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import TYPE_BITS, Imm, Instruction

_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@op("and", "or", "xor")
def logic(instruction: Instruction, decoder: Decoder) -> Step:
    """and, or, xor: 9.7.8.1 to 9.7.8.3, on predicates too."""
    decoder.only(instruction)
    (kind,) = instruction.types
    to, *operands = instruction.operands
    a, b = (decoder.source(x, kind) for x in operands)
    return applied(_LOGIC[instruction.opcode], decoder.sink(to, kind), a, b)


@op("not", "cnot")
def invert(instruction: Instruction, decoder: Decoder) -> Step:
    """not, cnot: 9.7.8.4, 9.7.8.5; cnot is 1 for zero and 0 for all else."""
    decoder.only(instruction)
    (kind,) = instruction.types
    get, put = decoder.source(instruction.operands[1], kind), decoder.sink(instruction.operands[0], kind)
    dtype = DTYPES[kind]
    return applied(np.invert if instruction.opcode == "not" else lambda a: (a == 0).astype(dtype), put, get)


# -- lop3 --------------------------------------------------------------------------------------------------------------

# the functions of two operands, by the four bits of their table: bit 2b+c is the value at (b, c)
_TWO: tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], ...] = (
    lambda b, c: np.zeros_like(b),
    lambda b, c: ~(b | c),
    lambda b, c: c & ~b,
    lambda b, c: ~b,
    lambda b, c: b & ~c,
    lambda b, c: ~c,
    np.bitwise_xor,
    lambda b, c: ~(b & c),
    np.bitwise_and,
    lambda b, c: ~(b ^ c),
    lambda b, c: c,
    lambda b, c: c | ~b,
    lambda b, c: b,
    lambda b, c: b | ~c,
    np.bitwise_or,
    lambda b, c: np.full_like(b, -1 & 0xFFFFFFFF),
)


def table(lut: int) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """The function of three operands whose table lut is: bit 4a+2b+c is the value at (a, b, c) (9.7.8.6)."""
    without, with_a = _TWO[lut & 15], _TWO[lut >> 4]
    if without is with_a:
        return lambda a, b, c: without(b, c)
    if lut & 15 == ~lut >> 4 & 15:
        return lambda a, b, c: a ^ without(b, c)
    if lut & 15 == 0:
        return lambda a, b, c: a & with_a(b, c)
    if lut >> 4 == 15:
        return lambda a, b, c: a | without(b, c)

    def function(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        zero = without(b, c)
        return zero ^ (a & (zero ^ with_a(b, c)))

    return function


@op("lop3")
def lop3(instruction: Instruction, decoder: Decoder) -> Step:
    """lop3{.BoolOp}.b32: 9.7.8.6."""
    decoder.only(instruction, "and", "or")
    lut = decoder.integer(instruction.operands[4])
    if not 0 <= lut <= 255:
        raise PtxSyntaxError(f"got {lut} for the table of lop3, expected 0 to 255")
    function = table(lut)
    to, predicate = decoder.pair(instruction.operands[0])
    put = decoder.sink(to, "b32")
    a, b, c = (decoder.source(s, "b32") for s in instruction.operands[1:4])
    if not instruction.has("or") and not instruction.has("and"):
        return applied(function, put, a, b, c)
    combine = np.logical_or if instruction.has("or") else np.logical_and
    put_predicate, q = decoder.sink(predicate, "pred"), decoder.source(instruction.operands[5], "pred")

    def step(warp: Warp) -> None:
        result = function(a(warp), b(warp), c(warp))
        chosen = combine(result != 0, q(warp))
        put(warp, result)
        put_predicate(warp, chosen)

    return step


# -- shifts ------------------------------------------------------------------------------------------------------------


@op("shl", "shr")
def shift(instruction: Instruction, decoder: Decoder) -> Step:
    """shl, shr: 9.7.8.8, 9.7.8.9; amounts above the width count as the width, as numpy's shifts do."""
    decoder.only(instruction)
    (kind,) = instruction.types
    bits = TYPE_BITS[kind]
    to, source, amount = instruction.operands
    get, put, by = decoder.source(source, kind), decoder.sink(to, kind), decoder.source(amount, "u32")
    function = np.left_shift if instruction.opcode == "shl" else np.right_shift
    dtype = DTYPES[kind]
    if isinstance(amount, Imm):
        fixed = np.full(32, min(amount.value & 0xFFFFFFFF, bits), dtype)
        return applied(lambda a: function(a, fixed), put, get)
    if bits == 32:
        # as signed numbers, amounts from 2**31 are negative, which numpy's shifts take for too large as well
        return applied(lambda a, n: function(a, n.view(dtype)), put, get, by)
    limit = np.uint32(bits)
    return applied(lambda a, n: function(a, np.minimum(n, limit).astype(dtype)), put, get, by)


@op("shf")
def funnel(instruction: Instruction, decoder: Decoder) -> Step:
    """shf.{l,r}.{clamp,wrap}.b32: 9.7.8.7; 32 bits of the 64 that are b (high) and a (low), shifted."""
    decoder.only(instruction, "l", "r", "clamp", "wrap")
    a, b, c = (decoder.source(s, "u32") for s in instruction.operands[1:4])
    put = decoder.sink(instruction.operands[0], "b32")
    left, clamp = instruction.has("l"), instruction.has("clamp")
    high = np.uint64(32)

    def shifted(a: np.ndarray, b: np.ndarray, by: np.ndarray) -> np.ndarray:
        by = np.minimum(by, np.uint32(32)) if clamp else by & np.uint32(31)
        both = b.astype(np.uint64) << high | a
        return (both << by >> high if left else both >> by).astype(np.uint32)

    return applied(shifted, put, a, b, c)
