"""mma.sync (PTX ISA 9.7.14.5.14): matrix products of a warp."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scalec.emulator import exact
from scalec.emulator.findings import Finding, NotModelled, PtxSyntaxError
from scalec.emulator.instructions.table import Decoder, Sink, Source, Step, op, uniform
from scalec.emulator.layouts import fragments
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction, Operand, Vector
from scalec.emulator.tensor import decode, multiply, scaled

Matrix = Callable[[np.ndarray], np.ndarray]

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_SCALE_VECTOR = re.compile(r"scale_vec::([124])X")
_FLOAT8 = ("e4m3", "e5m2")
_FLOAT864 = (*_FLOAT8, "e3m2", "e2m3", "e2m1")
_SCALE_TYPES = ("ue8m0", "ue4m3")
_BLACKWELL = ("sm_120a", "sm_120f", "sm_121a", "sm_121f")


@dataclass(frozen=True)
class _Kind:
    """A row of the tables of types and shapes: 9.7.14.1, 9.7.14.5.14.

    Attributes:
        types: of A and B; mixed ones are legal if there are several.
        shapes: K -> registers of A; B has half as many.
        results: types of C and D.
        targets: that have it; () for all since sm_80.
        scales: factors in a row -> types of the factors (table 36); the first count is the default, if `default`.
    """

    types: tuple[str, ...]
    shapes: dict[int, int]
    results: tuple[str, ...]
    targets: tuple[str, ...] = ()
    scales: dict[int, tuple[str, ...]] | None = None
    default: bool = True


_SINCE_89 = ("sm_89", "sm_9", "sm_1")
_KINDS = {
    "": (
        _Kind(("f16",), {8: 2, 16: 4}, ("f16", "f32")),
        _Kind(("bf16",), {8: 2, 16: 4}, ("f32",)),
        _Kind(("tf32",), {4: 2, 8: 4}, ("f32",)),
        _Kind(_FLOAT8, {16: 2, 32: 4}, ("f16", "f32"), _SINCE_89),
        _Kind(("s8", "u8"), {16: 2, 32: 4}, ("s32",)),
    ),
    "kind::f8f6f4": (_Kind(_FLOAT864, {32: 4}, ("f16", "f32"), _BLACKWELL),),
    "kind::mxf8f6f4": (_Kind(_FLOAT864, {32: 4}, ("f32",), _BLACKWELL, {1: ("ue8m0",)}),),
    "kind::mxf4": (_Kind(("e2m1",), {64: 4}, ("f32",), _BLACKWELL, {2: ("ue8m0",)}),),
    "kind::mxf4nvf4": (
        _Kind(("e2m1",), {64: 4}, ("f32",), _BLACKWELL, {2: ("ue8m0",), 4: ("ue4m3", "ue8m0")}, default=False),
    ),
}


@op("mma.sync")
def mma(instruction: Instruction, decoder: Decoder) -> Step:
    """mma.sync.aligned.m16n8kK.row.col{.kind}{.block_scale}: 9.7.14.5.14."""
    found = next(filter(None, map(_SHAPE.fullmatch, instruction.modifiers)), None)
    if found is None:
        raise NotModelled(instruction.name, instruction.where)
    if instruction.types[0] == "f64":
        return _doubles(instruction, decoder, *map(int, found.groups()))
    allowed = ("sync", "aligned", found.group(), "row", "col", "satfinite", "block_scale")
    scale_names = [m for m in instruction.modifiers if _SCALE_VECTOR.fullmatch(m)]
    decoder.only(instruction, allowed, _KINDS, scale_names, _SCALE_TYPES)
    if not instruction.has("row", "col") or found.group(1, 2) != ("16", "8") or len(instruction.types) < 4:
        raise NotModelled(instruction.name, instruction.where)
    name = next((m for m in instruction.modifiers if m in _KINDS), "")
    result, a_type, b_type, c_type = instruction.types[:4]
    kind, k = _kind(instruction, name, a_type), int(found[3])
    if b_type not in kind.types or k not in kind.shapes or result not in kind.results or c_type != result:
        raise Finding("illegal", f"{instruction.name}: no such combination of shape and types (PTX ISA 9.7.14.5.14)")
    if kind.targets:
        decoder.need_target(*kind.targets)
    count = kind.shapes[k]
    operands = instruction.operands
    puts, get_c = _accumulators(decoder, operands[0], operands[3], result)
    get_a = _registers(decoder, operands[1], count, "A")
    get_b = _registers(decoder, operands[2], count // 2, "B")
    fragment_a, fragment_b = fragments.operand_a(count), fragments.operand_b(count // 2)
    fragment_c = fragments.accumulator(8, 16 if result == "f16" else 32)
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[result]
    scales = _scales(instruction, decoder, kind)
    packed = kind.scales is not None and "e2m1" in kind.types and len(kind.types) == 1
    saturate, operations = instruction.has("satfinite"), 16 * 8 * k

    def run(warp: Warp) -> None:
        warp.need_converged(instruction.name, whole=True)
        a = decode(fragment_a.matrix(get_a(warp)), a_type, packed)
        b = decode(fragment_b.matrix(get_b(warp)), b_type, packed)
        c = fragment_c.matrix(get_c(warp)).view(dtype)
        if scales is None:
            mode = warp.machine.options.tensor_core
            d = multiply(a, b, c, a_type, result, mode, b_kind=b_type, instruction="mma", saturate=saturate)
        else:
            of_a, of_b, stype = scales(warp)
            d = multiply(scaled(a, of_a, stype), scaled(b, of_b, stype), c, "", result)
        for put, word in zip(puts, fragment_c.registers(d), strict=True):
            put(warp, word)
        warp.machine.stats.counts["tensor operations"] += operations

    return run


def _kind(instruction: Instruction, name: str, a_type: str) -> _Kind:
    for kind in _KINDS[name]:
        if a_type in kind.types and instruction.has("block_scale") == (kind.scales is not None):
            return kind
    raise NotModelled(instruction.name, instruction.where)


def _registers(decoder: Decoder, operand: Operand | None, count: int, what: str) -> Source:
    """uint32 (count, 32) of a vector operand; B may be one register without braces."""
    elements = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(elements) != count:
        raise PtxSyntaxError(f"{len(elements)} registers of {what}, expected {count}")
    sources = [decoder.source(e, "b32") for e in elements]
    return lambda warp: np.stack([source(warp) for source in sources])


def _accumulators(decoder: Decoder, d: Operand | None, c: Operand | None, result: str) -> tuple[list[Sink], Source]:
    count = 2 if result == "f16" else 4
    puts = decoder.sinks(d, "b32")
    if len(puts) != count:
        raise PtxSyntaxError(f"{len(puts)} registers of D, expected {count}")
    return puts, _registers(decoder, c, count, "C")


def _scales(
    instruction: Instruction, decoder: Decoder, kind: _Kind
) -> Callable[[Warp], tuple[np.ndarray, np.ndarray, str]] | None:
    """The scale factors of A (16, count) and B (8, count), and their type: 9.7.14.3."""
    if kind.scales is None:
        return None
    given = next(filter(None, map(_SCALE_VECTOR.fullmatch, instruction.modifiers)), None)
    count = int(given[1]) if given else next(iter(kind.scales)) if kind.default else 0
    stype = next((m for m in instruction.modifiers if m in _SCALE_TYPES), "")
    if stype not in kind.scales.get(count, ()):
        raise Finding(
            "illegal",
            f"{instruction.name}: scale factors .{stype} with {given.group() if given else 'no .scale_vec'}",
            expected=" or ".join(f".scale_vec::{n}X of .{t}" for n, types in kind.scales.items() for t in types),
        )
    sides = []
    for matrix, data, selector in zip("ab", instruction.operands[4::2], instruction.operands[5::2], strict=True):
        if not isinstance(selector, Vector) or len(selector.elements) != 2:
            raise PtxSyntaxError(f"got {selector}, expected {{byte-id-{matrix}, thread-id-{matrix}}}")
        byte, thread = (decoder.source(e, "u16") for e in selector.elements)
        sides.append((matrix, decoder.source(data, "b32"), byte, thread))

    def get(warp: Warp) -> tuple[np.ndarray, np.ndarray, str]:
        a, b = (
            fragments.scale_factors(
                data(warp),
                matrix,
                count,
                uniform(warp, byte(warp), f"byte-id-{matrix}"),
                uniform(warp, thread(warp), f"thread-id-{matrix}"),
            )
            for matrix, data, byte, thread in sides
        )
        return a, b, stype

    return get


# -- f64 ---------------------------------------------------------------------------------------------------------------

_ROUNDINGS = ("rn", "rz", "rm", "rp")
_DOUBLE_REGISTERS = {(8, 4): (1, 1), (16, 4): (2, 1), (16, 8): (4, 2), (16, 16): (8, 4)}  # (M, K) -> of A, of B


def _doubles(instruction: Instruction, decoder: Decoder, m: int, n: int, k: int) -> Step:
    """f64: each step an fma, in the order of K: 9.7.14.5.2, .6, .7, .8 (fragments), 9.7.14.5.14."""
    decoder.only(instruction, "sync", "aligned", f"m{m}n{n}k{k}", "row", "col", _ROUNDINGS)
    if n != 8 or (m, k) not in _DOUBLE_REGISTERS or set(instruction.types) != {"f64"}:
        raise NotModelled(instruction.name, instruction.where)
    if m == 16:
        decoder.need_target("sm_9", "sm_1")
    fma = exact.operation("fma", next((r for r in _ROUNDINGS if instruction.has(r)), "rn"))
    counts = (*_DOUBLE_REGISTERS[m, k], m // 4)
    vectors = [x.elements if isinstance(x, Vector) else (x,) for x in instruction.operands]
    if [len(v) for v in vectors] != [counts[2], *counts]:
        raise PtxSyntaxError(f"{instruction.name} with {', '.join(str(len(v)) for v in vectors)} registers")
    puts = [decoder.sink(e, "f64") for e in vectors[0]]
    get_a, get_b, get_c = ([decoder.source(e, "f64") for e in v] for v in vectors[1:])
    lane = np.arange(32)
    group, thread = lane // 4, lane % 4

    def run(warp: Warp) -> None:
        warp.need_converged(instruction.name, whole=True)
        a, b, c = np.zeros((m, k)), np.zeros((k, 8)), np.zeros((m, 8))
        for i, get in enumerate(get_a):
            rows, columns = (group, thread) if m == 8 else (group + 8 * (i % 2), thread + 4 * (i // 2))
            a[rows, columns] = get(warp)
        for i, get in enumerate(get_b):
            b[thread + 4 * i, group] = get(warp)
        places = [(group + 8 * (i // 2), 2 * thread + i % 2) for i in range(counts[2])]
        for place, get in zip(places, get_c, strict=True):
            c[place] = get(warp)
        for j in range(k):
            left, right = np.broadcast_arrays(a[:, j, None], b[j])
            c = fma(left, right, c)
        for put, place in zip(puts, places, strict=True):
            put(warp, c[place])
        warp.machine.stats.counts["tensor operations"] += m * n * k

    return run
