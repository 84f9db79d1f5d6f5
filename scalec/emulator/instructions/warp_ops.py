"""Exchange and agreement between the lanes of a warp (PTX ISA 9.7.9.6, 9.7.13.9 to 9.7.13.14).

shfl.sync, vote.sync, activemask, match.sync, redux.sync, elect.sync. Each but activemask waits, on hardware, for the
threads that its membermask names; here lanes that part meet again at the next point that all must pass, so that a named
lane which is elsewhere when the instruction executes is a finding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator.findings import Finding
from scalec.emulator.instructions.table import DTYPES, Decoder, Sink, Source, Step, op
from scalec.emulator.machine.warp import LANES, Warp
from scalec.emulator.program import Imm, Instruction, is_full

_LANES = LANES.astype(np.uint32)
_BITS = np.uint32(1) << _LANES
_ALL = 0xFFFFFFFF
_UNDEFINED = {4: np.uint32(0xFFF8CDCD), 8: np.uint64(0xFFF8CDCDCDCDCDCD)}  # what a lane reads that gives nothing


def ballot(lanes: np.ndarray) -> int:
    """Bool (32,) -> the number with those bits."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def lanes_of(number: int) -> np.ndarray:
    """A 32-bit mask -> bool (32,)."""
    return np.unpackbits(np.array(number & _ALL, "<u4").reshape(1).view(np.uint8), bitorder="little").view(bool)


def _check(warp: Warp, name: str, number: int, having: np.ndarray) -> None:
    """Lanes that `having` marks execute with the membermask `number`."""
    named = lanes_of(number)
    outside = having & ~named
    if outside.any():
        raise Finding(
            "divergence",
            f"{warp.lanes_text(outside)} execute {name} with the membermask {number:#x}, which lacks them",
            expected="a membermask with every thread that executes the instruction",
        )
    missing = named & warp.live & ~having
    if missing.any():
        raise Finding(
            "divergence",
            f"the membermask {number:#x} of {name} names {warp.lanes_text(missing)}, "
            + ("which are elsewhere" if (missing & ~warp.mask).any() else "which give another mask"),
            expected="every thread that the membermask names executes the instruction with the same membermask",
        )


def members(instruction: Instruction, decoder: Decoder, at: int) -> Callable[[Warp], list[np.ndarray]]:
    """The groups of active lanes that execute with one membermask, checked: most often one group, all active lanes.

    Raises:
        Finding: divergence, by the function returned.
    """
    operand = instruction.operands[at]
    mask = decoder.source(operand, "u32")
    all_lanes = is_full(operand)
    name = instruction.name

    def groups(warp: Warp) -> list[np.ndarray]:
        if all_lanes and warp.full:
            return [warp.mask]
        chosen = mask(warp)[warp.mask]
        if (chosen == chosen[0]).all():
            _check(warp, name, int(chosen[0]), warp.mask)
            return [warp.mask]
        found = []
        for number in np.unique(chosen).tolist():
            having = warp.mask & (mask(warp) == number)
            _check(warp, name, number, having)
            found.append(having)
        return found

    return groups


# -- shfl --------------------------------------------------------------------------------------------------------------


def source_lanes(mode: str, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lane that each lane reads, and whether it is in range (9.7.9.6, the semantics)."""
    lane, by = LANES, (b & np.uint32(31)).astype(np.int64)
    clamp, segment = (c & np.uint32(31)).astype(np.int64), (c >> np.uint32(8) & np.uint32(31)).astype(np.int64)
    low = lane & segment
    limit = low | (clamp & ~segment)
    if mode == "up":
        j = lane - by
        valid = j >= limit
    else:
        j = lane + by if mode == "down" else lane ^ by if mode == "bfly" else low | (by & ~segment)
        valid = j <= limit
    return np.where(valid, j, lane), valid


@op("shfl.sync")
def shfl(instruction: Instruction, decoder: Decoder) -> Step:
    """shfl.sync.mode.b32 d{|p}, a, b, c, membermask: 9.7.9.6.

    What is read from a lane that does not take part is undefined: here a fixed pattern, which is a NaN as a float.
    """
    decoder.only(instruction, "sync", "up", "down", "bfly", "idx")
    mode = next(m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx"))
    first, second = decoder.pair(instruction.operands[0])
    put, put_valid = decoder.sink(first, "b32"), decoder.sink(second, "pred")
    a = decoder.source(instruction.operands[1], "b32")
    b, c = (decoder.source(s, "u32") for s in instruction.operands[2:4])
    groups = members(instruction, decoder, 4)
    fixed = None
    if isinstance(instruction.operands[2], Imm) and isinstance(instruction.operands[3], Imm):
        fixed = source_lanes(mode, *(decoder.constant(s, "u32") for s in instruction.operands[2:4]))  # type: ignore[arg-type]

    def step(warp: Warp) -> None:
        parts = groups(warp)
        j, valid = fixed or source_lanes(mode, b(warp), c(warp))
        value = a(warp)
        result = np.take(value, j, axis=-1) if fixed else value[j]  # in order of lanes, as views of halves ask
        if not warp.full or len(parts) > 1:
            given = np.zeros(32, bool)
            for part in parts:
                given |= part & part[j]
            result = np.where(given, result, _UNDEFINED[4])
        put(warp, result)
        if second is not None:
            put_valid(warp, valid)

    return step


# -- votes and matches -------------------------------------------------------------------------------------------------


def _spread(warp: Warp, put: Sink, parts: list[np.ndarray], dtype: np.dtype, value: Callable) -> None:
    """Gives each group of lanes the one value that a function of the group makes."""
    if len(parts) == 1:
        put(warp, np.full(32, value(parts[0]), dtype))
        return
    result = np.zeros(32, dtype)
    for part in parts:
        result[part] = value(part)
    put(warp, result)


_VOTES: dict[str, Callable[[np.ndarray], bool]] = {
    "all": lambda chosen: bool(chosen.all()),
    "any": lambda chosen: bool(chosen.any()),
    "uni": lambda chosen: bool(chosen.all() or not chosen.any()),
}


@op("vote.sync")
def vote(instruction: Instruction, decoder: Decoder) -> Step:
    """vote.sync.{all,any,uni}.pred, vote.sync.ballot.b32: 9.7.13.9."""
    decoder.only(instruction, "sync", "ballot", *_VOTES)
    a = decoder.source(instruction.operands[1], "pred")
    groups = members(instruction, decoder, 2)
    if instruction.has("ballot"):
        put, dtype = decoder.sink(instruction.operands[0], "b32"), np.dtype("u4")

        def count(warp: Warp) -> None:
            value = a(warp)
            _spread(warp, put, groups(warp), dtype, lambda part: ballot(value & part))

        return count
    put, dtype = decoder.sink(instruction.operands[0], "pred"), np.dtype(bool)
    agree = next(f for name, f in _VOTES.items() if instruction.has(name))

    def step(warp: Warp) -> None:
        value = a(warp)
        _spread(warp, put, groups(warp), dtype, lambda part: agree(value[part]))

    return step


@op("activemask")
def activemask(instruction: Instruction, decoder: Decoder) -> Step:
    """activemask.b32: 9.7.13.11."""
    decoder.only(instruction)
    put = decoder.sink(instruction.operands[0], "b32")
    return lambda warp: put(warp, np.full(32, ballot(warp.mask), np.uint32))


@op("match.any.sync", "match.sync.any", "match.all.sync", "match.sync.all")
def match(instruction: Instruction, decoder: Decoder) -> Step:
    """match.any.sync: the lanes that hold the same value; match.all.sync d{|p}: all lanes if they agree: 9.7.13.10."""
    decoder.only(instruction, "sync", "any", "all")
    first, second = decoder.pair(instruction.operands[0])
    put, put_agree = decoder.sink(first, "b32"), decoder.sink(second, "pred")
    a = decoder.source(instruction.operands[1], instruction.types[0])
    groups = members(instruction, decoder, 2)
    every = instruction.has("all")

    def step(warp: Warp) -> None:
        value = a(warp)
        result = np.zeros(32, np.uint32)
        for part in groups(warp):
            same = (value[:, None] == value) & part
            if every:
                result[part] = ballot(part) if same[part][0][part].all() else 0
            else:
                result[part] = (same * _BITS).sum(axis=1, dtype=np.uint32)[part]
        put(warp, result)
        if second is not None:
            put_agree(warp, result != 0)

    return step


# -- redux and elect ---------------------------------------------------------------------------------------------------


def _float_extreme(smallest: bool, nan: bool) -> Callable[[np.ndarray], np.uint32]:
    """The least or greatest of float32 values, -0.0 below +0.0, as bits."""

    def reduce(bits: np.ndarray) -> np.uint32:
        absent = (bits & np.uint32(0x7FFFFFFF)) > 0x7F800000
        if absent.all() or (nan and absent.any()):
            return np.uint32(0x7FFFFFFF)
        kept = bits[~absent].view(np.int32)
        order = np.where(kept < 0, kept ^ np.int32(0x7FFFFFFF), kept)  # integers in the order of the floats
        at = order.argmin() if smallest else order.argmax()
        return kept[at : at + 1].view(np.uint32)[0]

    return reduce


@op("redux.sync")
def redux(instruction: Instruction, decoder: Decoder) -> Step:
    """redux.sync.op.type d, a, membermask: 9.7.13.12; add wraps; the f32 forms are of sm_100."""
    decoder.only(instruction, "sync", "add", "min", "max", "and", "or", "xor", "abs", "NaN")
    (kind,) = instruction.types
    name = next(m for m in instruction.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    groups = members(instruction, decoder, 2)
    put: Sink
    if kind == "f32":
        decoder.need_target("sm_100", "sm_103")
        put, a = decoder.sink(instruction.operands[0], "b32"), decoder.source(instruction.operands[1], "b32")
        reduce = _float_extreme(name == "min", instruction.has("NaN"))
        if instruction.has("abs"):
            a = _without_sign(a)
        dtype = np.dtype("u4")
    else:
        put, a = decoder.sink(instruction.operands[0], kind), decoder.source(instruction.operands[1], kind)
        dtype = DTYPES[kind]
        function = {
            "add": np.add, "min": np.minimum, "max": np.maximum,
            "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
        }[name]  # fmt: skip
        reduce = (lambda values: np.add.reduce(values, dtype=dtype)) if name == "add" else function.reduce

    def step(warp: Warp) -> None:
        value = a(warp)
        _spread(warp, put, groups(warp), dtype, lambda part: reduce(value[part]))

    return step


def _without_sign(source: Source) -> Source:
    return lambda warp: source(warp) & np.uint32(0x7FFFFFFF)


@op("elect.sync")
def elect(instruction: Instruction, decoder: Decoder) -> Step:
    """elect.sync d|p, membermask: 9.7.13.14. The ISA leaves open who leads; here it is the lowest lane of the mask."""
    decoder.only(instruction, "sync")
    first, second = decoder.pair(instruction.operands[0])
    put, put_leader = decoder.sink(first, "b32"), decoder.sink(second, "pred")
    groups = members(instruction, decoder, 1)

    def step(warp: Warp) -> None:
        parts = groups(warp)
        leader = np.zeros(32, bool)
        for part in parts:
            leader[np.argmax(part)] = True
        if first is not None:
            _spread(warp, put, parts, np.dtype("u4"), np.argmax)
        put_leader(warp, leader)

    return step
