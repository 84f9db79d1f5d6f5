"""ldmatrix and stmatrix (PTX ISA 9.7.14.5.15, 9.7.14.5.16): matrices of 8 rows of 16 bytes, spread over a warp."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import NotModelled, PtxSyntaxError
from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.machine import access, banks
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_ROW_BYTES = 16


def _count(instruction: Instruction) -> int:
    if not instruction.has("m8n8") or not instruction.has("b16"):
        raise NotModelled(instruction.name)
    return _COUNTS[next(m for m in instruction.modifiers if m in _COUNTS)]


def _rows(warp: Warp, count: int) -> np.ndarray:
    """bool (32,): the lanes whose addresses are rows."""
    lanes = np.zeros(32, bool)
    lanes[: 8 * count] = True
    return lanes & warp.mask


@op("ldmatrix")
def ldmatrix(instruction: Instruction, decoder: Decoder) -> Step:
    """ldmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}.shared.b16: lane l holds elements 2(l%4), +1 of row l/4."""
    decoder.only(instruction, "sync", "aligned", "m8n8", _COUNTS, "trans", "shared", "shared::cta")
    count, transposed = _count(instruction), instruction.has("trans")
    space = "shared" if instruction.has("shared") or instruction.has("shared::cta") else ""
    puts = decoder.sinks(instruction.operands[0], "b32")
    where = decoder.address(instruction.operands[1])
    if len(puts) != count:
        raise PtxSyntaxError(f"{instruction.name} with {len(puts)} registers")

    def run(warp: Warp) -> None:
        warp.need_converged(instruction.name)
        mask, full = warp.mask, warp.full
        addresses = where(warp)
        warp.set_mask(_rows(warp, count))
        try:
            banks.count(warp, addresses, _ROW_BYTES)
            rows = access.load(warp, space, addresses, _ROW_BYTES)[: 8 * count]
        finally:
            warp.mask, warp.full = mask, full
        elements = rows.view(np.uint16).reshape(count, 8, 8)
        if transposed:
            elements = np.ascontiguousarray(elements.transpose(0, 2, 1))
        words = elements.view(np.uint32).reshape(count, 32)
        for put, word in zip(puts, words, strict=True):
            put(warp, word)

    return run


@op("stmatrix")
def stmatrix(instruction: Instruction, decoder: Decoder) -> Step:
    """stmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}.shared.b16: the reverse of ldmatrix."""
    decoder.only(instruction, "sync", "aligned", "m8n8", _COUNTS, "trans", "shared", "shared::cta")
    count, transposed = _count(instruction), instruction.has("trans")
    space = "shared" if instruction.has("shared") or instruction.has("shared::cta") else ""
    where = decoder.address(instruction.operands[0])
    gets = decoder.sources(instruction.operands[1], "b32")
    if len(gets) != count:
        raise PtxSyntaxError(f"{instruction.name} with {len(gets)} registers")

    def run(warp: Warp) -> None:
        warp.need_converged(instruction.name)
        words = np.stack([get(warp) for get in gets])
        elements = words.view(np.uint16).reshape(count, 8, 8)
        if transposed:
            elements = np.ascontiguousarray(elements.transpose(0, 2, 1))
        rows = np.zeros((32, _ROW_BYTES), np.uint8)
        rows[: 8 * count] = elements.view(np.uint8).reshape(8 * count, _ROW_BYTES)
        mask, full = warp.mask, warp.full
        addresses = where(warp)
        warp.set_mask(_rows(warp, count))
        try:
            banks.count(warp, addresses, _ROW_BYTES)
            access.store(warp, space, addresses, rows)
        finally:
            warp.mask, warp.full = mask, full

    return run
