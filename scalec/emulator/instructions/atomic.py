"""Atomic operations (PTX ISA 9.7.13.5, 9.7.13.6): atom, red.

Lanes that name the same address follow one another in the order of their numbers; the ISA leaves that order open. What
the lanes find in memory is loaded once, computed lane after lane where they meet, and stored once.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from scalec.emulator import arithmetic
from scalec.emulator.findings import NotModelled, PtxSyntaxError
from scalec.emulator.instructions.compare import flush
from scalec.emulator.instructions.memory import SCOPES, SPACES, counted, named_space, own_shared, scope_of, space_now
from scalec.emulator.instructions.table import DTYPES, Decoder, Sink, Step, op
from scalec.emulator.machine import access, strong
from scalec.emulator.machine.signals import YIELD, Yield
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import TYPE_BITS, Address, Imm, Instruction, Operand, Vector

Combine = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

_OPERATIONS = ("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_INTEGER: dict[str, Combine] = {
    "and": lambda r, s, t: r & s,
    "or": lambda r, s, t: r | s,
    "xor": lambda r, s, t: r ^ s,
    "exch": lambda r, s, t: s,
    "add": lambda r, s, t: r + s,
    "inc": lambda r, s, t: np.where(r >= s, r.dtype.type(0), r + r.dtype.type(1)),
    "dec": lambda r, s, t: np.where((r == 0) | (r > s), s, r - r.dtype.type(1)),
    "min": lambda r, s, t: np.minimum(r, s),
    "max": lambda r, s, t: np.maximum(r, s),
    "cas": lambda r, s, t: np.where((r == s).all(axis=1, keepdims=True), t, r),
}
_NAN = {2: 0x7FFF, 4: 0x7FFFFFFF}
_QUIET64, _NAN64 = np.uint64(1 << 51), np.uint64(0xFFF8 << 48)


def _float(name: str, kind: str) -> Combine:
    """add, min or max of floats given as their bits; sums are rounded to nearest even.

    NaN results are canonical, except those of f64: see `_double`.

    Half precision is computed in float32, from which rounding a sum once more changes nothing: 24 bits are more than
    twice 11 and two.
    """
    bits = np.dtype("u2") if "16" in kind else DTYPES[f"u{TYPE_BITS[kind]}"]
    narrow = np.dtype(ml_dtypes.bfloat16) if kind.startswith("bf16") else np.dtype(f"f{bits.itemsize}")
    wide = np.dtype("f4") if bits.itemsize == 2 else narrow
    function = {"add": np.add, "min": arithmetic.minimum, "max": arithmetic.maximum}.get(name)
    if function is None or (kind in ("f32", "f64") and name != "add"):
        raise NotModelled(f".{name} of .{kind}")
    if kind == "f64":
        return _double

    def combine(r: np.ndarray, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        result = function(r.view(narrow).astype(wide), s.view(narrow).astype(wide))
        return np.where(np.isnan(result), canonical, result.astype(narrow).view(bits))

    canonical = bits.type(_NAN[bits.itemsize])
    return combine


def _double(r: np.ndarray, s: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The sum of float64 in shared memory. NaN results are left open by the ISA; these are an H200's.

    A NaN operand goes through, made quiet, memory's before the register's; infinities of both signs give the NaN with
    the sign set. In global memory it is the register's before memory's, and neither is changed.
    """
    x, y = r.view(np.float64), s.view(np.float64)
    result = x + y
    nan = np.where(np.isnan(x), r | _QUIET64, np.where(np.isnan(y), s | _QUIET64, _NAN64))
    return np.where(np.isnan(result), nan, result.view(np.uint64))


def _double_in_global(r: np.ndarray, s: np.ndarray, t: np.ndarray) -> np.ndarray:
    result = _double(r, s, t)
    return np.where(np.isnan(s.view(np.float64)), s, np.where(np.isnan(r.view(np.float64)), r, result))


def _flushing(combine: Combine) -> Combine:
    """float32 sums in global memory flush subnormal inputs and results (9.7.13.5)."""

    def flushed(r: np.ndarray, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        r, s = (flush(v.view(np.float32)).view(np.uint32) for v in (r, s))
        return flush(combine(r, s, t).view(np.float32)).view(np.uint32)

    return flushed


@op("atom", "red")
def atom(instruction: Instruction, decoder: Decoder) -> Step:
    """atom{.sem}{.scope}{.space}.op{.vec}.type d, [a], b{, c}: 9.7.13.5; red, without d: 9.7.13.6."""
    decoder.only(
        instruction, SPACES[:4], SCOPES, _OPERATIONS, _VECTORS,
        "relaxed", "acquire", "release", "acq_rel", "noftz", "L2::cache_hint",
    )  # fmt: skip
    (kind,) = instruction.types
    name = next((m for m in instruction.modifiers if m in _OPERATIONS), None)
    if name is None:
        raise PtxSyntaxError(f"{instruction.name} names no operation")
    operands = list(instruction.operands)
    result = operands.pop(0) if instruction.opcode == "atom" else None
    where, b = operands[:2]
    c = operands[2] if name == "cas" else None
    count = next((_VECTORS[m] for m in instruction.modifiers if m in _VECTORS), 1)
    each = TYPE_BITS[kind] // 8
    size = each * count
    element = DTYPES[kind] if kind[0] in "us" else np.dtype("u2") if "16" in kind else np.dtype(f"u{min(8, each)}")
    values = _gather(decoder, b, kind, count, element)
    others = _gather(decoder, c, kind, count, element) if c is not None else values
    combine = _float(name, kind) if "f" in kind and name not in ("exch", "cas") else _INTEGER[name]
    in_global = combine
    if name == "add" and kind == "f32":
        in_global = _flushing(combine)
    elif name == "add" and kind == "f64":
        in_global = _double_in_global
    sinks = _sinks(decoder, result, kind, count)
    space, own = named_space(instruction)
    own = own and isinstance(where, Address) and not isinstance(where.base, Imm)
    address = decoder.address(where)
    scope = scope_of(instruction)
    acquire, release = (any(m in (half, "acq_rel") for m in instruction.modifiers) for half in ("acquire", "release"))
    register = np.dtype(f"u{min(8, each)}")
    outcome: Yield | None = YIELD if result is not None else None  # it may be spinning on what it reads

    def step(warp: Warp) -> Yield | None:
        addresses = address(warp)
        if own:
            own_shared(warp, addresses)
        counted(space, warp, addresses, size, to_memory=True)
        old = access.load(warp, space, addresses, size, atomic=True).view(element)
        strong.read(warp, space, addresses, size, scope, acquire=acquire)
        function = combine if combine is in_global or space_now(space, warp, addresses) == "shared" else in_global
        found, new = _serialise(warp, addresses, old, values(warp), others(warp), function)
        access.store(warp, space, addresses, np.ascontiguousarray(new).view(np.uint8), atomic=True)
        strong.wrote(warp, space, addresses, size, scope, release=release, atomic=True)
        if each == 16 and result is not None:
            sinks[0](warp, found)
        elif result is not None:
            parts = np.ascontiguousarray(found).view(register).reshape(32, count)
            for i, put in enumerate(sinks):
                put(warp, parts[:, i].copy())
        return outcome

    return step


def _serialise(
    warp: Warp, addresses: np.ndarray, old: np.ndarray, b: np.ndarray, c: np.ndarray, combine: Combine
) -> tuple[np.ndarray, np.ndarray]:
    """What each lane finds, and what stands at its address when all are done: like `old`, (32, elements)."""
    lanes = np.flatnonzero(warp.mask)
    _, slot = np.unique(addresses[lanes], return_inverse=True)
    order = np.argsort(slot, kind="stable")
    first = np.searchsorted(slot[order], slot[order])
    turn = np.empty(len(lanes), np.int64)  # how many lower lanes have the same address
    turn[order] = np.arange(len(lanes)) - first
    current = np.zeros((int(slot.max()) + 1, old.shape[1]), old.dtype)
    current[slot] = old[lanes]
    found = old.copy()
    for number in range(int(turn.max()) + 1):
        now = turn == number
        who, at = lanes[now], slot[now]
        found[who] = current[at]
        current[at] = combine(current[at], b[who], c[who])
    new = old.copy()
    new[lanes] = current[slot]
    return found, new


def _gather(
    decoder: Decoder, operand: Operand | None, kind: str, count: int, element: np.dtype
) -> Callable[[Warp], np.ndarray]:
    """The elements of an operand: (32, elements) of `element`."""
    if count > 1 and not (isinstance(operand, Vector) and len(operand.elements) == count):
        raise PtxSyntaxError(f"got {operand}, expected {count} registers in braces")
    parts = operand.elements if isinstance(operand, Vector) else (operand,)
    gets = [decoder.source(x, kind) if kind == "b128" else decoder.bits(x, kind) for x in parts]
    if len(gets) == 1:
        only = gets[0]
        return lambda warp: np.ascontiguousarray(only(warp)).reshape(32, -1).view(element)
    return lambda warp: np.stack([get(warp) for get in gets], axis=1).view(element)


def _sinks(decoder: Decoder, operand: Operand | None, kind: str, count: int) -> list[Sink]:
    parts = operand.elements if isinstance(operand, Vector) else [operand] * count
    return [decoder.sink(part, kind if kind[0] in "us" else f"b{TYPE_BITS[kind]}") for part in parts]
