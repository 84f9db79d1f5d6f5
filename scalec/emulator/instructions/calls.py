"""Calls of the functions that have no body in PTX but a meaning (PTX ISA 9.7.12.6): vprintf, __assertfail.

Calls of functions with a body stand in line (flow.py). These two are the CUDA device run-time's: vprintf takes a format
and the generic address of its arguments, each at a multiple of its size; __assertfail takes message, file, line,
function and the size of a character.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import numpy as np

from scalec.emulator.findings import Finding, NotModelled, PtxSyntaxError
from scalec.emulator.flow import callee
from scalec.emulator.instructions.table import Decoder, Source, Step, functions, op
from scalec.emulator.machine import access
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Group, Instruction, Operand, Symbol

_LONGEST = 4096  # bytes of a text, after which no end is looked for
_DIRECTIVE = re.compile(rb"%[-+ #0]*(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXcsaAeEfFgGp%])")

Function = Callable[[Warp, list[np.ndarray]], "np.ndarray | None"]


@op("call")
def call(instruction: Instruction, decoder: Decoder) -> Step:
    """call{.uni} {(result),} name, (arguments)."""
    decoder.only(instruction, "uni")
    name = callee(instruction)
    if name is None:
        raise NotModelled("a call through a pointer")
    if name not in functions():
        raise NotModelled(f"a call of {name}, which has no body")
    at = next(i for i, o in enumerate(instruction.operands) if isinstance(o, Symbol))
    function: Function = functions()[name]  # type: ignore[assignment]
    results, arguments = (
        next((o.elements for o in part if isinstance(o, Group)), ())
        for part in (instruction.operands[:at], instruction.operands[at + 1 :])
    )
    gets = [_argument(decoder, a) for a in arguments]
    put = _result(decoder, results[0]) if results else None

    def step(warp: Warp) -> None:
        value = function(warp, [get(warp) for get in gets])
        if put is not None and value is not None:
            put(warp, value)

    return step


def _argument(decoder: Decoder, operand: Operand) -> Source:
    """uint64 (32,): an argument, from a register or the .param variable that carries it."""
    if not isinstance(operand, Symbol):
        get = decoder.source(operand, "u64" if getattr(operand, "type", "").endswith("64") else "u32")
        return lambda warp: get(warp).astype(np.uint64)
    space, address = decoder.kernel.symbol(operand.name)
    size = next(v.size for v in decoder.kernel.function.variables if v.name == operand.name)
    where = np.full(32, address, np.int64)

    def load(warp: Warp) -> np.ndarray:
        raw = np.zeros((32, 8), np.uint8)
        raw[:, :size] = access.load(warp, space, where, size)
        return raw.view(np.uint64)[:, 0]

    return load


def _result(decoder: Decoder, operand: Operand) -> Callable[[Warp, np.ndarray], None]:
    if not isinstance(operand, Symbol):
        return decoder.sink(operand, "u32")
    space, address = decoder.kernel.symbol(operand.name)
    where = np.full(32, address, np.int64)
    return lambda warp, value: access.store(warp, space, where, value.view(np.uint8).reshape(32, 4))


def _read(warp: Warp, lane: int, address: int, size: int) -> bytes:
    """Bytes at a generic address, as one lane reads them."""
    mask, full = warp.mask, warp.full
    warp.set_mask(np.arange(32) == lane)
    try:
        return access.load(warp, "", np.full(32, address, np.int64), size)[lane].tobytes()
    finally:
        warp.mask, warp.full = mask, full


def _text(warp: Warp, lane: int, address: int) -> bytes:
    found = bytearray()
    while len(found) < _LONGEST:
        byte = _read(warp, lane, address + len(found), 1)
        if byte == b"\0":
            break
        found += byte
    return bytes(found)


def _format(warp: Warp, lane: int, form: bytes, buffer: int) -> tuple[str, int]:
    """The text of a printf, and the number of its arguments."""
    at = count = 0

    def take(size: int) -> bytes:
        nonlocal at, count
        at = -(-at // size) * size + size
        count += 1
        return _read(warp, lane, buffer + at - size, size)

    def integer(size: int, signed: bool) -> int:
        return int.from_bytes(take(size), "little", signed=signed)

    def replace(match: re.Match[bytes]) -> bytes:
        whole, length, letter = match.group(), match.group(3) or b"", match.group(4).decode()
        if letter == "%":
            return b"%"
        stars = tuple(integer(4, True) for part in match.groups()[:2] if part == b"*")
        plain = (whole[: len(whole) - len(length) - 1] + whole[-1:]).decode()
        if letter in "aA":
            raise NotModelled(f"%{letter} of printf")
        if letter == "s":
            return (plain % (*stars, _text(warp, lane, integer(8, False)).decode("utf-8", "replace"))).encode()
        if letter == "p":
            return f"{integer(8, False):#x}".encode()
        if letter in "eEfFgG":
            return (plain % (*stars, float(np.frombuffer(take(8), np.float64)[0]))).encode()
        bits = 64 if length in (b"ll", b"l", b"j", b"z", b"t") else {b"hh": 8, b"h": 16}.get(length, 32)
        value = integer(bits // 8 if bits > 32 else 4, False) & ((1 << bits) - 1)
        if letter in "di" and value >> (bits - 1):
            value -= 1 << bits
        if letter == "c":
            value &= 0xFF
        return (plain.replace("u", "d") % (*stars, value)).encode()

    return _DIRECTIVE.sub(replace, form).decode("utf-8", "replace"), count


def vprintf(warp: Warp, arguments: list[np.ndarray]) -> np.ndarray:
    """Prints what each active lane has to say on stdout; the result is the number of arguments.

    Raises:
        PtxSyntaxError: other than two arguments.
    """
    if len(arguments) != 2:
        raise PtxSyntaxError(f"got {len(arguments)} arguments of vprintf, expected 2")
    result = np.zeros(32, np.uint32)
    for lane in np.flatnonzero(warp.mask).tolist():
        form, buffer = (int(a[lane]) for a in arguments)
        text, result[lane] = _format(warp, lane, _text(warp, lane, form), buffer)
        sys.stdout.write(text)
    sys.stdout.flush()
    return result


def assertfail(warp: Warp, arguments: list[np.ndarray]) -> None:
    """Raises Finding("illegal") with the assertion's text and place."""
    lane = int(np.argmax(warp.mask))
    message, file, line, function = (int(a[lane]) for a in arguments[:4])
    message, file, function = (
        _text(warp, lane, a).decode("utf-8", "replace") if a else "?" for a in (message, file, function)
    )
    raise Finding("illegal", f"{file}:{line}: {function}: the kernel's assertion `{message}` failed in lane {lane}")


functions().update({"vprintf": vprintf, "__assertfail": assertfail})  # type: ignore[dict-item]
