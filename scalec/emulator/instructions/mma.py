"""mma.sync (PTX ISA 9.7.14.5.14) and mma.sp (9.7.14.6.3): matrix products of a warp."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scalec.emulator import exact
from scalec.emulator.findings import Finding, NotModelled, PtxSyntaxError
from scalec.emulator.instructions.table import Decoder, Merging, Sink, Source, Step, op, uniform
from scalec.emulator.layouts import fragments
from scalec.emulator.layouts.sparse import (
    DISTINCT,
    HALVES,
    ORDERED,
    check_selector,
    expand,
    find_malformed,
    ignored_lanes,
    register_metadata,
)
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction, Operand, Vector, named
from scalec.emulator.tensor import OPERANDS, decode, multiply, multiply_sparse, scaled, scaled_unit

if TYPE_CHECKING:
    from scalec.emulator.machine.kernel import Kernel

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_SCALE_VECTOR = re.compile(r"scale_vec::([124])X")
_SPARSE = ("sp", "sp::ordered_metadata")
_FLOAT8 = ("e4m3", "e5m2")
_FLOAT864 = (*_FLOAT8, "e3m2", "e2m3", "e2m1")
_SCALE_TYPES = ("ue8m0", "ue4m3")
_RESULTS = {"f32": np.float32, "f16": np.float16, "s32": np.int32}
_AHEAD = 128  # instructions behind a product among which others are looked for
_ENDS = ("bra", "brx", "ret", "exit", "trap", "call")  # where other instructions may come next than those that follow
_BLACKWELL = ("sm_120a", "sm_120f", "sm_121a", "sm_121f")


@dataclass(frozen=True)
class _Kind:
    """A row of the tables of types and shapes: 9.7.14.1, 9.7.14.5.14."""

    types: tuple[str, ...]  # of A and B; mixed ones are legal if there are several
    shapes: dict[int, int]  # K -> registers of A; B has half as many
    results: tuple[str, ...]  # types of C and D
    targets: tuple[str, ...] = ()  # that have it; () for all since sm_80
    # factors in a row -> types of the factors (table 36); the first count is the default, if `default`.
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


@op("mma.sync", "mma.sp", "mma.sp::ordered_metadata")
def mma(instruction: Instruction, decoder: Decoder) -> Step:
    """mma{.sp}.sync.aligned.m16n8kK.row.col{.kind}{.block_scale}: 9.7.14.5.14, 9.7.14.6.3."""
    found = next(filter(None, map(_SHAPE.fullmatch, instruction.modifiers)), None)
    if found is None:
        raise NotModelled(instruction.name, instruction.where)
    if instruction.types[0] == "f64":
        return _doubles(instruction, decoder, *map(int, found.groups()))
    allowed = ("sync", "aligned", *_SPARSE, found.group(), "row", "col", "satfinite", "block_scale")
    scale_names = [m for m in instruction.modifiers if _SCALE_VECTOR.fullmatch(m)]
    decoder.only(instruction, allowed, _KINDS, scale_names, _SCALE_TYPES)
    if not instruction.has("row", "col") or found.group(1, 2) != ("16", "8") or len(instruction.types) < 4:
        raise NotModelled(instruction.name, instruction.where)
    name = next((m for m in instruction.modifiers if m in _KINDS), "")
    result, a_type, b_type, c_type = instruction.types[:4]
    kind, k = _kind(instruction, name, a_type), int(found[3])
    operands, metadata = list(instruction.operands), None
    fold = 2 if any(m in _SPARSE for m in instruction.modifiers) else 1  # a sparse A is half of K
    shapes = {fold * k: count for k, count in kind.shapes.items()}
    if name and instruction.has("sp"):
        raise Finding("illegal", f"{instruction.name}: .{name} has .sp::ordered_metadata alone (PTX ISA 9.7.14.6.3)")
    if fold == 2 and OPERANDS[a_type].bits == 8 and not name:
        shapes = _without_pairs(instruction, shapes, k, a_type)
    if b_type not in kind.types or k not in shapes or result not in kind.results or c_type != result:
        raise Finding("illegal", f"{instruction.name}: no such combination of shape and types (PTX ISA 9.7.14.5.14)")
    if kind.targets:
        decoder.need_target(*kind.targets)
    count = shapes[k]
    packed = kind.scales is not None and "e2m1" in kind.types and len(kind.types) == 1
    if fold == 2:
        metadata = _Metadata.of(instruction, decoder, k // (8 if packed else 2 if a_type == "tf32" else 4), a_type)
        del operands[4:6]
    puts, sums = decoder.sinks(operands[0], "b32"), 2 if result == "f16" else 4
    if len(puts) != sums:
        raise PtxSyntaxError(f"{len(puts)} registers of D, expected {sums}")
    gets = (
        _registers(decoder, operands[1], count, "A"),
        _registers(decoder, operands[2], count * fold // 2, "B"),
        _registers(decoder, operands[3], sums, "C"),
    )
    form = _Form(
        instruction.name,
        (a_type, b_type, result),
        fragments.operand_a(count),
        fragments.operand_b(count * fold // 2),
        fragments.accumulator(8, 16 if result == "f16" else 32),
        packed,
        instruction.has("satfinite"),
        16 * 8 * k,
        *_scale_form(instruction, kind),
        metadata is not None,
    )
    scales = _scales(operands[4:], decoder) if form.factors else None
    keys = ((*operands[1:2], *operands[4:6], *instruction.operands[4:6]), (*operands[2:3], *operands[6:8]))
    return _Product(form, gets, puts, scales, metadata, keys)


@dataclass(frozen=True)
class _Form:
    """What all instructions of one name share.

    Attributes:
        types: of A, B and the result.
        a, b, c: where their elements lie in registers.
        packed: two elements to a byte.
        operations: multiplications.
        factors: scale factors in a row, 0 without scales; scale_type: theirs.
        sparse: half of A is stored.
    """

    name: str
    types: tuple[str, str, str]
    a: fragments.Fragment
    b: fragments.Fragment
    c: fragments.Fragment
    packed: bool
    saturate: bool
    operations: int
    factors: int
    scale_type: str
    sparse: bool


class _Product(Merging):
    """The step of an instruction, which computes those that follow with it.

    One product alone costs mostly numpy's overhead. Until the next jump a warp's registers are changed by the
    instructions that stand there, so products whose operands none of these writes can be computed at once. Each puts
    its result when its turn comes: nobody sees a difference.

    Attributes:
        gets: the registers of A, of B and of C.
        scales: the data, byte and thread selectors of A's factors and of B's.
        metadata: of a sparse A.
        keys: the operands that A is made of, and those of B.
        ignored: register -> bool (32,), the lanes in which it is not looked at.
        together: warp.end -> this product and those that are computed with it.
    """

    def __init__(
        self,
        form: _Form,
        gets: tuple[list[Source], list[Source], list[Source]],
        puts: list[Sink],
        scales: tuple[_Selected, _Selected] | None,
        metadata: _Metadata | None,
        keys: tuple[tuple[Operand | None, ...], tuple[Operand | None, ...]],
    ) -> None:
        self.form, self.gets, self.puts, self.scales = form, gets, puts, scales
        self.metadata, self.keys = metadata, keys
        self.ignored = {} if metadata is None else metadata.ignored
        self.together: dict[int, _Together] = {}

    def __call__(self, warp: Warp) -> None:
        warp.need_converged(self.form.name, whole=True)
        ahead = warp.units.setdefault("ahead", {})
        words = ahead.pop(warp.pc, None)
        if words is None:
            together = self.together.get(warp.end)
            if together is None:
                together = self.together[warp.end] = _Together.of(self, warp.kernel, warp.pc - 1, warp.end)
            try:
                words, *others = together.compute(warp)
            except Finding:  # by this product or one of the others: then that raises it when its turn comes
                words, *others = _Together([(warp.pc, self)]).compute(warp)
            ahead.update(zip(together.turns[1:], others, strict=False))
        for put, word in zip(self.puts, words, strict=True):
            put(warp, word)
        warp.machine.stats.counts["tensor operations"] += self.form.operations * (warp.mask.size // 32)

    def merged(self, steps: list[_Product]) -> Step:
        together = _Together([(0, step) for step in steps])
        operations = self.form.operations * len(steps)

        def run(warp: Warp) -> None:
            for step, words in zip(steps, together.compute(warp), strict=True):
                for put, word in zip(step.puts, words, strict=True):
                    put(warp, word)
            warp.machine.stats.counts["tensor operations"] += operations * (warp.mask.size // 32)

        return run


class _Together:
    """Products that are computed at once, each operand only once.

    Attributes:
        turns: warp.pc when each product runs.
    """

    def __init__(self, products: list[tuple[int, _Product]]) -> None:
        self.turns = [pc for pc, _ in products]
        steps = [product for _, product in products]
        self.form = steps[0].form
        self.c = [get for step in steps for get in step.gets[2]]
        self.sides: list[list[_Product]] = []
        self.pairs: list[np.ndarray] = []
        for side in range(2):
            firsts: dict[object, int] = {}
            which = [firsts.setdefault(s.keys[side], i) for i, s in enumerate(steps)]
            order = sorted(firsts.values())
            self.sides.append([steps[i] for i in order])
            self.pairs.append(np.array([order.index(i) for i in which]))

    @staticmethod
    def of(first: _Product, kernel: Kernel, pc: int, end: int) -> _Together:
        """The product at pc, and those of the same name before `end` that nothing between them hinders."""
        products, written = [(pc + 1, first)], set[int]()
        for at in range(pc, min(pc + _AHEAD, end, len(kernel.code))):
            step, code = kernel.steps[at], kernel.code[at]
            if code.opcode in _ENDS:
                break
            if at > pc and isinstance(step, _Product) and step.form == first.form:
                if not written.isdisjoint(kernel.reads[at]):
                    break
                products.append((at + 1, step))
            written |= kernel.writes[at]
        return _Together(products)

    def compute(self, warp: Warp) -> np.ndarray:
        """uint32 (products, registers, 32), or (products, registers, warps, 32) of several warps.

        Raises:
            Finding: by the selectors of scale factors, and by metadata that means nothing.
        """
        form = self.form
        a_type, b_type, result = form.types
        a, stored, unit_a = self._operand(warp, 0, a_type, form.a)
        b, _, unit_b = self._operand(warp, 1, b_type, form.b)
        c = _matrices(warp, self.c, len(self.turns), form.c).view(_RESULTS[result])
        mode = warp.machine.options.tensor_core
        warps = np.arange(warp.mask.size // 32)[:, None]
        pairs = [(warps * len(side) + which).reshape(-1) for side, which in zip(self.sides, self.pairs, strict=True)]
        kind = "" if form.factors else a_type
        given: dict[str, Any] = {"b_kind": b_type, "saturate": form.saturate, "unit": unit_a * unit_b}
        if stored is not None:
            d = multiply_sparse(a, stored, b, c, kind, result, (pairs[0], pairs[1]), **given)
        else:
            d = multiply(a, b, c, kind, result, mode, instruction="mma", pairs=(pairs[0], pairs[1]), **given)
        words = form.c.registers(d)
        if warp.mask.ndim == 1:
            return words
        return np.ascontiguousarray(np.moveaxis(words.reshape(len(warps), len(self.turns), -1, 32), 0, 2))

    def _operand(
        self, warp: Warp, side: int, kind: str, fragment: fragments.Fragment
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """The matrices of A (side 0) or B, scaled where there are scales; of a sparse A what is stored; the unit of
        scaled ones."""
        form, steps = self.form, self.sides[side]
        sources = [get for s in steps for get in s.gets[side]]
        matrix = decode(_matrices(warp, sources, len(steps), fragment), kind, form.packed)
        stored = None
        if form.sparse and side == 0:
            codes = np.stack([s.metadata.codes(warp) for s in steps if s.metadata], axis=-3)
            matrix, stored = expand(matrix, codes.reshape(len(matrix), *codes.shape[-2:]))
        if not form.factors:
            return matrix, stored, 0.0
        each = [s.scales[side].factors(warp, form.factors) for s in steps if s.scales]
        factors = np.stack(np.broadcast_arrays(*each), axis=-3)  # the warps, if there are several, come first
        factors = np.broadcast_to(factors, (*warp.mask.shape[:-1], *factors.shape[-3:]))
        factors = factors.reshape(-1, *factors.shape[-2:])
        return scaled(matrix, factors, form.scale_type), stored, scaled_unit(kind, factors, form.scale_type)


def _matrices(warp: Warp, sources: list[Source], count: int, fragment: fragments.Fragment) -> np.ndarray:
    """(count, rows, columns) out of the registers of each; of several warps (warps * count, rows, columns)."""
    words = [get(warp) for get in sources]
    if warp.mask.ndim == 1:
        return fragment.matrix(np.concatenate(words).reshape(count, -1, 32))
    together = np.empty((len(warp.mask), len(words), 32), np.uint32)
    for i, word in enumerate(words):
        together[:, i] = word
    return fragment.matrix(together.reshape(len(together) * count, -1, 32))


def _kind(instruction: Instruction, name: str, a_type: str) -> _Kind:
    for kind in _KINDS[name]:
        if a_type in kind.types and instruction.has("block_scale") == (kind.scales is not None):
            return kind
    raise NotModelled(instruction.name, instruction.where)


def _without_pairs(instruction: Instruction, shapes: dict[int, int], k: int, a_type: str) -> dict[int, int]:
    """Of 8-bit types those shapes in which all four lanes of a quad give metadata."""
    if k == 32 and a_type in ("s8", "u8"):  # which bits of a pair of lanes are whose, only a figure says
        raise NotModelled(f"{instruction.name}: the metadata of m16n8k32 of 8 bits", instruction.where)
    return {64: shapes[64]}


@dataclass(frozen=True)
class _Metadata:
    """The metadata of a sparse A: 9.7.14.6.1."""

    source: Source
    threads: int  # lanes of a quad that give it
    selector: int  # which
    legal: frozenset[int]  # the values that mean something
    ignored: dict[int, np.ndarray]  # the register, and the lanes that do not give metadata: bool (32,)

    @staticmethod
    def of(instruction: Instruction, decoder: Decoder, chunks: int, a_type: str) -> _Metadata:
        source, selector = instruction.operands[4:6]
        threads, chosen = chunks // 4, decoder.integer(selector)
        check_selector(threads, chosen)
        ordered = ORDERED if instruction.has("sp::ordered_metadata") else DISTINCT
        ignored = dict.fromkeys(named([source]), ignored_lanes(threads, chosen))
        legal = HALVES if a_type == "tf32" else ordered
        return _Metadata(decoder.source(source, "b32"), threads, chosen, legal, ignored)

    def codes(self, warp: Warp) -> np.ndarray:
        """uint8 (..., 16, chunks)."""
        words = np.broadcast_to(self.source(warp), warp.mask.shape)
        codes = register_metadata(words, self.threads, self.selector)
        for each in codes.reshape(-1, *codes.shape[-2:]):
            found = find_malformed(each, self.legal)
            if found is not None:
                warp.machine.report(found)
        return codes


def _registers(decoder: Decoder, operand: Operand | None, count: int, what: str) -> list[Source]:
    """The registers of a vector operand; B may be one register without braces."""
    elements = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(elements) != count:
        raise PtxSyntaxError(f"{len(elements)} registers of {what}, expected {count}")
    return [decoder.source(e, "b32") for e in elements]


def _scale_form(instruction: Instruction, kind: _Kind) -> tuple[int, str]:
    """Scale factors in a row, and their type: 9.7.14.3."""
    if kind.scales is None:
        return 0, ""
    given = next(filter(None, map(_SCALE_VECTOR.fullmatch, instruction.modifiers)), None)
    count = int(given[1]) if given else next(iter(kind.scales)) if kind.default else 0
    stype = next((m for m in instruction.modifiers if m in _SCALE_TYPES), "")
    if stype not in kind.scales.get(count, ()):
        raise Finding(
            "illegal",
            f"{instruction.name}: scale factors .{stype} with {given.group() if given else 'no .scale_vec'}",
            expected=" or ".join(f".scale_vec::{n}X of .{t}" for n, types in kind.scales.items() for t in types),
        )
    return count, stype


@dataclass(frozen=True)
class _Selected:
    """The scale factors of a matrix, "a" or "b": a register, and which of its bytes and lanes hold them."""

    matrix: str
    data: Source
    byte: Source
    thread: Source

    def factors(self, warp: Warp, count: int) -> np.ndarray:
        """uint8 (16, count) of A, (8, count) of B."""
        byte, thread = (
            uniform(warp, get(warp), f"{what}-id-{self.matrix}")
            for what, get in (("byte", self.byte), ("thread", self.thread))
        )
        return fragments.scale_factors(self.data(warp), self.matrix, count, byte, thread)


def _scales(operands: Sequence[Operand | None], decoder: Decoder) -> tuple[_Selected, _Selected]:
    sides = []
    for matrix, data, selector in zip("ab", operands[::2], operands[1::2], strict=True):
        if not isinstance(selector, Vector) or len(selector.elements) != 2:
            raise PtxSyntaxError(f"got {selector}, expected {{byte-id-{matrix}, thread-id-{matrix}}}")
        byte, thread = (decoder.source(e, "u16") for e in selector.elements)
        sides.append(_Selected(matrix, decoder.source(data, "b32"), byte, thread))
    return sides[0], sides[1]


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
