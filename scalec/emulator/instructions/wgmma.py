"""wgmma (PTX ISA 9.7.15): asynchronous matrix products of a warpgroup, sm_90a.

Each warp of the four computes its own 16 rows. The products of a warp happen in order, at a time that the seed draws
between the instruction and the wait for its group; until then the accumulators hold garbage, and they, the registers of
A, and the shared memory of the operands are in use.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scalec.emulator.findings import Finding, NotModelled, PtxSyntaxError
from scalec.emulator.instructions.table import Decoder, Grouped, Source, Step, op, uniform
from scalec.emulator.layouts import fragments
from scalec.emulator.layouts.shared_matrix import Descriptor, operand_addresses
from scalec.emulator.layouts.sparse import (
    DISTINCT,
    HALVES,
    check_selector,
    expand,
    find_malformed,
    ignored_lanes,
    register_metadata,
)
from scalec.emulator.machine.access import need_written, operand_pieces
from scalec.emulator.machine.pieces import Pieces, pick
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction, Operand, Reg, Vector, named
from scalec.emulator.tensor import OPERANDS, decode, multiply, multiply_sparse

_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
# 9.7.15.2, table of supported types: K is 256 bits of the operands
_TYPES = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "e4m3": ("f16", "f32"),
    "e5m2": ("f16", "f32"),
    "s8": ("s32",),
    "u8": ("s32",),
}


class _State:
    """The wgmma of a warp.

    Attributes:
        agent: place in the order; its clock counts groups, from 1.
        fenced: whether there was a wgmma.fence yet.
        queue: (group, product to compute) not done.
        groups: the committed groups that were not waited for; `open` is the next one's number.
        chain: accumulator register -> shape of the product in flight or last made on it without a touch between.
        used: register -> group that uses it.
        issued: instructions so far, and a hash of which: the four warps must agree.
        last: what the last product had in common with those that may follow it in a chain: `_check_registers`.
        made: the result of a product that its registers do not hold yet.
    """

    def __init__(self, warp: Warp) -> None:
        self.agent = warp.cta.cluster.order.add(f"wgmma of {warp.name}")
        self.fenced = False
        self.open = 1
        self.groups: list[int] = []
        self.queue: list[tuple[int, Callable[[], None]]] = []
        self.chain: dict[int, str] = {}
        self.used: dict[int, int] = {}
        self.issued = self.trace = 0
        self.last: object = None
        self.made: _Made | None = None


class _Made(NamedTuple):
    """Accumulators that have been computed."""

    warps: list[Warp]  # whose they are, of these states
    states: list[_State]
    form: object  # the registers, and the shape
    matrix: np.ndarray  # (16 * warps, n)
    put: Callable[[list[Warp], np.ndarray], None]  # puts it into the registers

    def settle(self) -> None:
        """The registers hold it."""
        self.put(self.warps, self.matrix)
        self.taken()

    def taken(self) -> np.ndarray:
        for state in self.states:
            state.made = None
        return self.matrix


def _state(warp: Warp) -> _State:
    state = warp.units.get("wgmma")
    if state is None:
        state = warp.units["wgmma"] = _State(warp)
        warp.settle = lambda: _release(warp, state, state.open)
        warp.units.setdefault("at exit", []).append(_check_exit)
    return state


def _check_exit(warp: Warp) -> None:
    """All products are waited for, and the warps of a warpgroup have executed the same ones."""
    state = _state(warp)
    if state.groups or state.queue:
        raise Finding(
            "wgmma", f"{warp.name} exits with wgmma in flight", expected="wgmma.commit_group and wgmma.wait_group 0"
        )
    group = warp.cta.warps[warp.index // 4 * 4 :][:4]
    if all(w.done for w in group):
        traces = [w.units["wgmma"].trace if "wgmma" in w.units else 0 for w in group]
        if len(set(traces)) > 1:
            counts = [w.units["wgmma"].issued if "wgmma" in w.units else 0 for w in group]
            raise Finding(
                "divergence",
                f"the warps of warpgroup {warp.index // 4} of CTA {warp.cta.number} executed different wgmma"
                f" ({', '.join(map(str, counts))} of them)",
                expected="all four warps execute the same wgmma instructions",
            )


def _need_group(warp: Warp, instruction: Instruction) -> None:
    warp.need_converged(instruction.name, whole=True)
    if warp.index // 4 * 4 + 4 > len(warp.cta.warps):
        raise Finding(
            "divergence",
            f"{instruction.name} in warp {warp.index} of {len(warp.cta.warps)}",
            expected="a warpgroup: four warps, the first's index a multiple of 4",
        )


@op("wgmma.fence")
def fence(instruction: Instruction, decoder: Decoder) -> Step:
    """wgmma.fence.sync.aligned: 9.7.15.7.1: orders register accesses before the products that follow."""
    decoder.need_target("sm_90a")

    def run(warp: Warp) -> None:
        _need_group(warp, instruction)
        state = _state(warp)
        state.fenced = True
        warp.touched.clear()

    return run


@op("wgmma.commit_group")
def commit(instruction: Instruction, decoder: Decoder) -> Step:
    """wgmma.commit_group.sync.aligned: 9.7.15.7.2."""

    def run(warp: Warp) -> None:
        _need_group(warp, instruction)
        state = _state(warp)
        state.groups.append(state.open)
        state.open += 1

    return run


@op("wgmma.wait_group")
def wait(instruction: Instruction, decoder: Decoder) -> Step:
    """wgmma.wait_group.sync.aligned N: 9.7.15.7.3: all but the N youngest groups are complete."""
    allowed = decoder.integer(instruction.operands[0])

    def run(warp: Warp) -> None:
        _need_group(warp, instruction)
        state = _state(warp)
        if len(state.groups) <= allowed:
            return
        upto = state.groups[len(state.groups) - 1 - allowed]
        state.groups = [g for g in state.groups if g > upto]
        _release(warp, state, upto)
        warp.agent.seen[state.agent] = max(int(warp.agent.seen[state.agent]), upto)

    return run


def _release(warp: Warp, state: _State, upto: int) -> None:
    """The products of the groups so far are made, and their registers free."""
    _compute(state, upto)
    for register in [r for r, group in state.used.items() if group <= upto]:
        del state.used[register]
        warp.inflight.pop(register, None)


def _compute(state: _State, upto: int) -> None:
    while state.queue and state.queue[0][0] <= upto:
        state.queue.pop(0)[1]()
    if state.made is not None:
        state.made.settle()


@op("wgmma.mma_async")
def mma(instruction: Instruction, decoder: Decoder) -> Step:
    """wgmma.mma_async{.sp}.sync.aligned.shape.dtype.atype.btype: 9.7.15.5, 9.7.15.6."""
    decoder.need_target("sm_90a")
    found = next(filter(None, map(_SHAPE.fullmatch, instruction.modifiers)), None)
    if found is None:
        raise NotModelled(instruction.name)
    n, k, fold = int(found[1]), int(found[2]), 2 if instruction.has("sp") else 1
    shape = found.group()
    decoder.only(instruction, "mma_async", "sp", "sync", "aligned", shape, "satfinite")
    result, a_type, b_type = instruction.types
    _check_shape(instruction, n, k // fold, result, a_type, b_type)
    operands = list(instruction.operands)
    sparse = _Sparse.of(a_type, operands[3:5], decoder) if fold == 2 else None
    del operands[3 : 3 + 2 * (fold - 1)]
    registers, put, get = _accumulators(operands[0], decoder, result, n)
    a_registers: list[Source] = []
    a_indices: list[int] = []
    a_descriptor: Source | None = None
    if isinstance(operands[1], Vector):
        a_registers = [decoder.source(e, "b32") for e in operands[1].elements]
        a_indices = [e.index for e in operands[1].elements if isinstance(e, Reg)]
        if len(a_registers) != 4:
            raise PtxSyntaxError(f"{len(a_registers)} registers of A, expected 4")
    else:
        a_descriptor = decoder.source(operands[1], "b64")
    b_descriptor = decoder.source(operands[2], "b64")
    scale_d = decoder.source(operands[3], "pred") if len(operands) > 3 else None
    flags = [decoder.integer(o) for o in operands[4:]]
    signs, transposed = _flags(instruction, flags, a_descriptor is not None, a_type)
    text = f"wgmma at line {instruction.line}"
    identity = hash(instruction.line)
    used = (*registers, *a_indices)
    chained, flying = dict.fromkeys(registers, shape + result), dict.fromkeys(used, text)
    form = (tuple(registers), shape + result)
    every = frozenset(used) if sparse is None else frozenset((*used, *sparse.indices))
    bits = OPERANDS[a_type].bits
    saturate = instruction.has("satfinite")

    def judged(warps: list[Warp]) -> Callable[[], None] | None:
        """One warp, or the four of a warpgroup: what issues it, where nothing is wrong; None if these do not agree."""
        states, words = [], []
        for warp in warps:
            _need_group(warp, instruction)
            states.append(_state(warp))
            _check_registers(warp, states[-1], form, a_indices, every)
            word_a = 0 if a_descriptor is None else uniform(warp, a_descriptor(warp), "the descriptor of A")
            word_b = uniform(warp, b_descriptor(warp), "the descriptor of B")
            accumulate = True if scale_d is None else bool(uniform(warp, scale_d(warp), "scale-d"))
            words.append((word_a, word_b, accumulate))
        metadata = None if sparse is None else sparse.metadata(warps)
        word_a, word_b, accumulate = words[0]
        if any(each != words[0] for each in words):
            return None
        first, machine, shared = warps[0].index % 4 * 16, warps[0].machine, warps[0].cta.shared
        order = warps[0].cta.cluster.order
        rows = slice(first, first + 16 * len(warps))
        place_a = (word_a, 64, k // fold, bits, bool(transposed[0]))
        a_bytes, extent = _bytes(*place_a, rows.start, rows.stop) if a_descriptor is not None else (None, (0, 0))
        if a_bytes is not None:
            _judge_operand(warps, a_bytes, *extent)
        b_bytes, extent = _bytes(word_b, n, k, bits, bool(transposed[1]), 0, n)
        _judge_operand(warps, b_bytes, *extent)
        size = 0 if a_bytes is None else a_bytes.size
        a_values = np.array([[source(warp) for source in a_registers] for warp in warps])

        def product() -> None:
            for state in states:  # of all it is the turn, and of what stands before it
                while any(other is product for _, other in state.queue):
                    before = state.queue.pop(0)[1]
                    if before is not product:
                        before()
            a = fragments.operand_a(4).matrix(a_values) if a_bytes is None else pick(shared.data, a_bytes)
            a, b = a.reshape(rows.stop - first, -1), pick(shared.data, b_bytes).reshape(n, -1)
            matrix_a, matrix_b = decode(a, a_type), decode(b, b_type)
            if signs != (1, 1):
                matrix_a = matrix_a * (signs[0] * signs[1])
            made = states[0].made  # of a chain the registers need not hold but the last
            if made is not None and (made.form, made.warps) == (form, warps):
                c = made.taken() if accumulate else None
            else:
                for state in states:
                    if state.made is not None:
                        state.made.settle()
                c = get(warps) if accumulate else None
            mode = machine.options.tensor_core
            if metadata is None:
                c = multiply(matrix_a, matrix_b, c, a_type, result, mode, b_kind=b_type, saturate=saturate)
            else:
                parts = expand(matrix_a, metadata)
                c = multiply_sparse(*parts, matrix_b, c, a_type, result, b_kind=b_type, saturate=saturate)
            made = _Made(warps, states, form, c, put)
            for state in states:
                state.made = made

        def issue() -> None:
            for at, state in zip(range(rows.start, rows.stop, 16), states, strict=True):
                if a_bytes is not None:
                    machine.judge.note_read(shared, _bytes(*place_a, at, at + 16)[0], order, state.agent, state.open)
                machine.judge.note_read(shared, b_bytes, order, state.agent, state.open)
            machine.stats.bytes["shared -> tensor core"] += size + b_bytes.size * len(warps)
            for warp, state in zip(warps, states, strict=True):
                state.queue.append((state.open, product))
                state.issued += 1
                state.trace = hash((state.trace, identity))
                state.last = form
                state.chain.update(chained)
                state.used.update(dict.fromkeys(used, state.open))
                warp.inflight.update(flying)
            machine.stats.counts["wgmma"] += len(warps)
            machine.stats.counts["tensor operations"] += 16 * n * k * len(warps)
            if machine.random.random() < 0.5:
                _compute(states[0], states[0].open)

        return issue

    def run(warp: Warp) -> None:
        issue = judged([warp])
        assert issue is not None  # a warp agrees with itself
        issue()

    def together(warps: list[Warp]) -> list[Warp]:
        groups = defaultdict[int, list[Warp]](list)
        for warp in warps:
            groups[warp.index // 4].append(warp)
        found = [(group, judged(group)) for group in groups.values() if len(group) == 4]
        agreeing = [(group, issue) for group, issue in found if issue is not None]
        for _, issue in agreeing:
            issue()
        return [warp for group, _ in agreeing for warp in group]

    return Grouped(run, together, {} if sparse is None else sparse.ignored)


class _Sparse(NamedTuple):
    """The metadata of a sparse A: 9.7.15.6.1.

    Attributes:
        source, indices: the register.
        threads: lanes of a quad that give it; selector: which.
        legal: the values that mean something.
    """

    source: Source
    indices: list[int]
    threads: int
    selector: int
    legal: frozenset[int]

    @staticmethod
    def of(a_type: str, operands: Sequence[Operand | None], decoder: Decoder) -> _Sparse:
        threads, selector = 4 if OPERANDS[a_type].bits == 8 else 2, decoder.integer(operands[1])
        check_selector(threads, selector)
        indices = sorted(named(operands[:1]))
        legal = HALVES if a_type == "tf32" else DISTINCT
        return _Sparse(decoder.source(operands[0], "b32"), indices, threads, selector, legal)

    @property
    def ignored(self) -> dict[int, np.ndarray]:
        """The register, and the lanes that do not give metadata."""
        return dict.fromkeys(self.indices, ignored_lanes(self.threads, self.selector))

    def metadata(self, warps: list[Warp]) -> np.ndarray:
        """uint8 (16 * warps, chunks), read when the product is issued: of the registers that may not be touched before
        the wait it is none (9.7.15.7.3), and CUTLASS's main loops load the next while products are in flight."""
        words = np.stack([self.source(warp) for warp in warps])
        codes = register_metadata(words, self.threads, self.selector).reshape(16 * len(warps), -1)
        found = find_malformed(codes, self.legal, warps[0].index % 4 * 16)
        if found is not None:
            warps[0].machine.report(found)
        return codes


def _check_shape(instruction: Instruction, n: int, k: int, result: str, a_type: str, b_type: str) -> None:
    same = a_type == b_type or (a_type in ("e4m3", "e5m2") and b_type in ("e4m3", "e5m2"))
    same = same or (a_type in ("s8", "u8") and b_type in ("s8", "u8"))
    if a_type not in _TYPES or not same:
        raise NotModelled(f"wgmma of .{a_type} and .{b_type}")
    whole = a_type not in ("s8", "u8") or n in (8, 24) or n % 16 == 0
    if result not in _TYPES[a_type] or k * OPERANDS[a_type].bits != 256 or n % 8 or not 8 <= n <= 256 or not whole:
        raise Finding("illegal", f"{instruction.name}: no such shape for these types (PTX ISA 9.7.15.2)")


def _flags(
    instruction: Instruction, flags: list[int], a_shared: bool, kind: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    """imm-scale-a, imm-scale-b (f types), imm-trans-a (A in shared memory), imm-trans-b (16-bit types)."""
    if kind in ("s8", "u8"):
        return (1, 1), (0, 0)
    signs = (flags[0], flags[1]) if len(flags) > 1 else (1, 1)
    if set(signs) - {1, -1}:
        raise PtxSyntaxError(f"imm-scale of {signs}, expected 1 or -1")
    rest = flags[2:]
    transposed = (rest[0], rest[1]) if a_shared and len(rest) > 1 else (0, rest[0]) if rest else (0, 0)
    if any(transposed) and OPERANDS[kind].bits != 16:
        raise Finding("illegal", f"{instruction.name}: only 16-bit types may be transposed")
    return signs, transposed


def _accumulators(
    operand: Operand | None, decoder: Decoder, kind: str, n: int
) -> tuple[list[int], Callable[[list[Warp], np.ndarray], None], Callable[[list[Warp]], np.ndarray]]:
    """Register indices of D; a function that puts (16 * warps, n) into them, and one that gets it."""
    if not isinstance(operand, Vector):
        raise PtxSyntaxError(f"got {operand}, expected a vector of accumulators")
    indices = [e.index for e in operand.elements if isinstance(e, Reg)]
    count = n // 2 if kind != "f16" else n // 4
    if len(indices) != count:
        raise PtxSyntaxError(f"{len(indices)} accumulators, expected {count}")
    dtype = {"f32": np.float32, "s32": np.int32, "f16": np.float16}[kind]
    fragment = fragments.accumulator(n, 8 * np.dtype(dtype).itemsize)
    for element in operand.elements:
        decoder.source(element, "b32")

    def get(warps: list[Warp]) -> np.ndarray:
        words = np.concatenate([warp.registers[i] for warp in warps for i in indices])  # np.stack takes 5 times as long
        return fragment.matrix(words.reshape(len(warps), -1, 32)).reshape(-1, n).view(dtype)

    def put(warps: list[Warp], matrix: np.ndarray) -> None:
        for warp, words in zip(warps, fragment.registers(matrix.reshape(len(warps), 16, n)), strict=True):
            for index, lanes in zip(indices, words, strict=True):
                warp.registers[index] = lanes

    return indices, put, get


def _check_registers(
    warp: Warp, state: _State, form: tuple[tuple[int, ...], str], a_indices: list[int], every: frozenset[int]
) -> None:
    """`form`: the accumulators and their shape; `every`: all registers that the product uses."""
    (registers, shape), name, report = form, warp.kernel.function.registers, warp.machine.report
    if not state.fenced:
        report(
            Finding(
                "wgmma",
                "the first wgmma.mma_async comes before any wgmma.fence",
                expected="wgmma.fence before the first wgmma of a kernel (PTX ISA 9.7.15.7.1)",
            )
        )
    touched = warp.touched & every
    if touched:
        report(
            Finding(
                "wgmma",
                f"register {name[next(iter(touched))][0]} was used by other instructions, without a wgmma.fence after",
                expected="wgmma.fence between other accesses of a register and the wgmma that uses it",
                fix="wgmma.fence.sync.aligned before this instruction",
            )
        )
    for register in a_indices:
        if register in state.chain and register in state.used:
            report(Finding("in-flight", f"register {name[register][0]} of A is the result of a wgmma in flight"))
    for register in registers if state.last != form else ():
        if register in state.used and state.chain.get(register) != shape:
            report(
                Finding(
                    "wgmma",
                    f"accumulator {name[register][0]} is in use by a wgmma of another shape",
                    expected="wgmma.wait_group and wgmma.fence between products of different shapes",
                )
            )


@lru_cache(maxsize=1024)  # a loop comes to the same stages again
def _bytes(
    word: int, rows: int, k: int, bits: int, transposed: bool, first: int, end: int
) -> tuple[Pieces | np.ndarray, tuple[int, int]]:
    """Where the bytes of an operand's rows from first to end lie in shared memory, and the first and last of them."""
    addresses = operand_addresses(Descriptor.wgmma(word), rows, k, bits, transposed)[first:end]
    return operand_pieces(addresses, transposed), (int(addresses.min()), int(addresses.max()))


def _judge_operand(warps: list[Warp], at: Pieces | np.ndarray, low: int, high: int) -> None:
    """The bytes of an operand are read now, or later."""
    cta = warps[0].cta
    shared, machine = cta.shared, cta.machine
    if low < shared.start or high >= shared.size:
        raise Finding(
            "bounds", f"the operand reaches from {low:#x} to {high:#x} of shared memory of {shared.size} bytes"
        )
    views = [warp.agent for warp in warps]
    if not machine.judge.reads(shared, at, cta.cluster.order, *views, asynchronous=True):
        need_written(warps[0], shared, at)
