"""Dot products of packed integers and extended precision (PTX ISA 9.7.1.23, 9.7.1.24, 9.7.2).

The carry of 9.7.2 is the condition code register of each thread, `warp.units["carry"]`: bool (32,). Differences are
sums with the complement, as in hardware: they leave a carry where they do not borrow. The ISA speaks of a borrow, which
only programs see that mix sums and differences in one chain; an H200 gives them what is given here.
"""

from __future__ import annotations

import numpy as np

from scalec.emulator.instructions.integer import INTEGERS, names, product, unsigned
from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import TYPE_BITS, Instruction


@op("dp4a", "dp2a")
def dot(instruction: Instruction, decoder: Decoder) -> Step:
    """dp4a, dp2a: 9.7.1.23, 9.7.1.24; c plus four products of bytes, or two of 16-bit elements with bytes."""
    decoder.only(instruction, "lo", "hi")
    first, second = instruction.types
    four = instruction.opcode == "dp4a"
    element = np.dtype(("i" if first == "s32" else "u") + ("1" if four else "2"))
    byte = np.dtype("i1" if second == "s32" else "u1")
    a, b, c = (decoder.source(s, "u32") for s in instruction.operands[1:4])
    put = decoder.sink(instruction.operands[0], "u32")
    part = slice(None) if four else slice(2, 4) if instruction.has("hi") else slice(0, 2)

    def step(warp: Warp) -> None:
        x = np.ascontiguousarray(a(warp)).view(element).reshape(32, -1).astype(np.int64)
        y = np.ascontiguousarray(b(warp)).view(byte).reshape(32, 4)[:, part].astype(np.int64)
        put(warp, ((x * y).sum(axis=1) + c(warp)).astype(np.uint32))

    return step


_WORDS = ("u32", "s32", "u64", "s64")
_NO_CARRY = np.zeros(32, bool)


def _keep(warp: Warp, carry: np.ndarray) -> None:
    if not warp.full:
        carry = np.where(warp.mask, carry, warp.units.get("carry", _NO_CARRY))
    warp.units["carry"] = carry


def _sum(warp: Warp, a: np.ndarray, b: np.ndarray, with_carry: bool) -> tuple[np.ndarray, np.ndarray]:
    """a + b, with the carry in if asked for; and the carry out."""
    total = a + b
    carry = total < a
    if with_carry:
        more = total + warp.units.get("carry", _NO_CARRY).astype(total.dtype)
        carry, total = carry | (more < total), more
    return total, carry


@op(*names("add.cc", _WORDS), "addc")
@op(*names("sub.cc", _WORDS), "subc")
def carried(instruction: Instruction, decoder: Decoder) -> Step:
    """add.cc, addc{.cc}, sub.cc, subc{.cc}: 9.7.2.1 to 9.7.2.4."""
    decoder.only(instruction, "cc")
    kind = unsigned(instruction.types[0])
    put = decoder.sink(instruction.operands[0], kind)
    a, b = (decoder.source(s, kind) for s in instruction.operands[1:3])
    reads, writes = instruction.opcode in ("addc", "subc"), instruction.has("cc")
    add = instruction.opcode.startswith("add")

    def step(warp: Warp) -> None:
        x, y = a(warp), b(warp)
        if add:
            result, carry = _sum(warp, x, y, reads)
        elif reads:
            result, carry = _sum(warp, x, ~y, True)
        else:
            result, carry = x - y, x >= y
        put(warp, result)
        if writes:
            _keep(warp, carry)

    return step


@op(*(f"mad.{part}.cc.{kind}" for part in ("lo", "hi") for kind in _WORDS), "madc")
def mad_carried(instruction: Instruction, decoder: Decoder) -> Step:
    """mad.{lo,hi}.cc, madc.{lo,hi}{.cc}: 9.7.2.5, 9.7.2.6; a half of the product plus c, plus the carry."""
    decoder.only(instruction, "lo", "hi", "cc")
    (kind,) = instruction.types
    assert kind in INTEGERS
    function, source, _ = product(instruction, kind)
    wide = f"u{TYPE_BITS[kind]}"
    put = decoder.sink(instruction.operands[0], kind)
    a, b = (decoder.source(s, source) for s in instruction.operands[1:3])
    c = decoder.source(instruction.operands[3], wide)
    reads, writes = instruction.opcode == "madc", instruction.has("cc")

    def step(warp: Warp) -> None:
        addend = c(warp)
        result, carry = _sum(warp, function(a(warp), b(warp)).view(addend.dtype), addend, reads)
        put(warp, result)
        if writes:
            _keep(warp, carry)

    return step
