"""Data movement between registers (PTX ISA 9.7.9): mov, cvta, mapa, isspacep, getctarank."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import NotModelled, PtxSyntaxError
from scalec.emulator.instructions.table import DTYPES, Decoder, Step, applied, interleaved, op
from scalec.emulator.machine.memory import RANK_SHIFT, WINDOWS
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import TYPE_BITS, Instruction, Vector

_OFFSET = (1 << RANK_SHIFT) - 1


@op("mov")
def mov(instruction: Instruction, decoder: Decoder) -> Step:
    """mov: 9.7.9.1 and 9.7.9.2; with a vector on one side it packs or unpacks, first element lowest."""
    decoder.only(instruction)
    (kind,) = instruction.types
    to, source = instruction.operands
    if isinstance(source, Vector):
        return _pack(instruction, decoder, kind)
    if isinstance(to, Vector):
        return _unpack(instruction, decoder, kind)
    get, put = decoder.source(source, kind), decoder.sink(to, kind)
    return lambda warp: put(warp, get(warp))


def _part(kind: str, count: int) -> str:
    if TYPE_BITS[kind] % count:
        raise PtxSyntaxError(f"{count} elements do not make up a .{kind}")
    return f"b{TYPE_BITS[kind] // count}"


def _pack(instruction: Instruction, decoder: Decoder, kind: str) -> Step:
    to, source = instruction.operands
    assert isinstance(source, Vector)
    part = _part(kind, len(source.elements))
    gets = [decoder.source(e, part) for e in source.elements]
    put = decoder.sink(to, kind)

    def pack(warp: Warp) -> None:
        parts = interleaved(*[get(warp) for get in gets])
        put(warp, parts.view(np.uint64) if kind == "b128" else parts.view(DTYPES[kind])[..., 0])

    return pack


def _unpack(instruction: Instruction, decoder: Decoder, kind: str) -> Step:
    to, source = instruction.operands
    assert isinstance(to, Vector)
    part = _part(kind, len(to.elements))
    puts = [decoder.sink(e, part) for e in to.elements]
    get = decoder.source(source, kind)
    dtype = DTYPES[part]

    def unpack(warp: Warp) -> None:
        parts = np.ascontiguousarray(get(warp)).view(dtype)
        if kind == "b128":
            parts = parts.reshape(-1)
        for i, put in enumerate(puts):
            put(warp, parts[..., i :: len(puts)].copy())

    return unpack


@op("cvta")
def cvta(instruction: Instruction, decoder: Decoder) -> Step:
    """cvta{.to}.space: 9.7.9.22; between a window's address and the generic one."""
    decoder.only(instruction, "to", "global", "shared", "local", "param", "const", "shared::cta", "shared::cluster")
    kind = instruction.types[-1]
    space = next(m.split("::")[0] for m in instruction.modifiers if m.split("::")[0] in (*WINDOWS, "global"))
    get, put = decoder.source(instruction.operands[1], kind), decoder.sink(instruction.operands[0], kind)
    window = WINDOWS.get(space, 0)
    base = np.uint64(-window % (1 << 64) if instruction.has("to") else window)
    return applied(lambda a: a + base, put, get)


@op("mapa")
def mapa(instruction: Instruction, decoder: Decoder) -> Step:
    """mapa{.space}: 9.7.9.24; the same offset in the shared memory of another CTA of the cluster."""
    decoder.only(instruction, "shared::cluster")
    kind = instruction.types[-1]
    to, source, rank = instruction.operands
    get, put, which = decoder.source(source, kind), decoder.sink(to, kind), decoder.source(rank, "u32")
    dtype = DTYPES[kind]
    keep = ~np.array(((1 << 32) - 1) & ~_OFFSET, dtype)
    return applied(lambda a, n: (a & keep) | (n.astype(dtype) << dtype.type(RANK_SHIFT)), put, get, which)


@op("getctarank")
def getctarank(instruction: Instruction, decoder: Decoder) -> Step:
    """getctarank{.space}: 9.7.9.25."""
    decoder.only(instruction, "shared::cluster")
    kind = instruction.types[-1]
    get, put = decoder.source(instruction.operands[1], kind), decoder.sink(instruction.operands[0], "u32")
    low, shift = DTYPES[kind].type((1 << 32) - 1), DTYPES[kind].type(RANK_SHIFT)
    return applied(lambda a: ((a & low) >> shift).astype(np.uint32), put, get)


@op("isspacep")
def isspacep(instruction: Instruction, decoder: Decoder) -> Step:
    """isspacep.space: 9.7.9.21."""
    space = next(m for m in instruction.modifiers)
    get, put = decoder.source(instruction.operands[1], "u64"), decoder.sink(instruction.operands[0], "pred")
    if space.split("::")[0] not in (*WINDOWS, "global"):
        raise NotModelled(instruction.name)

    def test(warp: Warp) -> None:
        high = get(warp) >> np.uint64(32)
        windows = {name: high == np.uint64(base >> 32) for name, base in WINDOWS.items()}
        if space == "global":
            inside = ~np.logical_or.reduce(list(windows.values()))
        else:
            inside = windows[space.split("::")[0]]
            if space in ("shared", "shared::cta"):
                inside = inside & ((get(warp) & np.uint64(0xFFFFFFFF)) >> np.uint64(RANK_SHIFT) == warp.cta.rank)
        put(warp, inside)

    return test
