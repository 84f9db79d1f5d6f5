"""tcgen05.ld, tcgen05.st, tcgen05.wait (PTX ISA 9.7.16.8): between tensor memory and the registers of a warp.

Loads and stores may happen at any moment until they are waited for; as no access out of order passes the judge, they
happen here at once. Registers may be used right after a load, before the wait: true register dependencies are kept
(9.7.16.6.4.5), and Triton's programs rely on it. The wait is for what happens to tensor memory next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from scalec.emulator import arithmetic
from scalec.emulator.findings import Apart, Finding, PtxSyntaxError
from scalec.emulator.instructions.table import DTYPES, Decoder, Step, op, uniform
from scalec.emulator.instructions.tcgen05_alloc import TARGETS
from scalec.emulator.layouts.tensor_memory import (
    COLUMNS,
    PARTITION,
    REGISTERS,
    check_warp,
    pack,
    register_cells,
    split_address,
    unpack,
)
from scalec.emulator.machine import tensor_pipe
from scalec.emulator.machine.crew import Crew
from scalec.emulator.machine.signals import YIELD, Signal
from scalec.emulator.machine.tensor_memory import Access, Placed, TensorMemory, Write, among, placed
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction, Operand, Reg, Vector

_REDUCING = ("red", "min", "max", "abs", "NaN")
_REPEAT = re.compile(r"x(\d+)")
_ORDER = (1, 0, 2)  # (threads, registers, halves) -> (registers, threads, halves)


def _shape(instruction: Instruction, decoder: Decoder, packing: str) -> tuple[str, int, bool]:
    """Shape, repeat, and whether 16-bit halves are packed."""
    decoder.need_target(*TARGETS)
    repeats = [f"x{1 << i}" for i in range(8)]
    decoder.only(instruction, "ld", "st", "sync", "aligned", REGISTERS, repeats, packing, _REDUCING)
    shape = next((m for m in instruction.modifiers if m in REGISTERS), "")
    repeat = next((int(m[1:]) for m in instruction.modifiers if _REPEAT.fullmatch(m)), 0)
    if not shape or not repeat:
        raise PtxSyntaxError(f"{instruction.name} lacks a shape or .x1 to .x128")
    return shape, repeat, instruction.has(packing)


def _elements(operand: Operand | None, count: int, name: str) -> Sequence[Operand | None]:
    elements = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(elements) != count:
        raise PtxSyntaxError(f"{len(elements)} registers for {name}, expected {count} (tables 49 and 50)")
    return elements


def _cells(warp: Warp, address: int, shape: str, arguments: tuple, what: str) -> Placed:
    lane, column = split_address(address)
    quarter = warp.index % 4
    if lane < PARTITION and quarter:  # the lanes that a warp reaches are its own, whatever the field says
        finding = Finding(
            "lane-field",
            f"{what} of {warp.name} at lane {lane}, which warp 0 of a warpgroup reaches",
            expected=f"lanes {PARTITION * quarter} to {PARTITION * quarter + PARTITION - 1} (9.7.16.8.1)",
            fix=f"add {PARTITION * quarter} << 16, the warp's first lane, to the address",
        )
        warp.machine.report(finding)
        lane += PARTITION * quarter
    check_warp(shape, lane, warp.index)
    return placed(register_cells, arguments, lane, column, what, _ORDER)


def _reduction(instruction: Instruction, decoder: Decoder) -> Callable[[np.ndarray], np.ndarray] | None:
    """uint32 (registers, 32) -> (32,), of tcgen05.ld.red: the least or greatest of what each lane loads."""
    if not instruction.has("red"):
        return None
    decoder.need_target("sm_101", "sm_103", "sm_110")
    (kind,) = instruction.types
    if kind in ("u32", "s32"):
        whole = np.min if instruction.has("min") else np.max
        return lambda words: whole(words.view(DTYPES[kind]), axis=0).view(np.uint32)
    compute = arithmetic.minimum if instruction.has("min") else arithmetic.maximum
    magnitudes, spread = instruction.has("abs"), instruction.has("NaN")

    def extreme(words: np.ndarray) -> np.ndarray:
        values = (words & np.uint32(0x7FFFFFFF) if magnitudes else words).view(np.float32)
        absent = np.isnan(values)
        result = reduce(compute, values).view(np.uint32)
        return np.where(absent.any(axis=0) if spread else absent.all(axis=0), np.uint32(0x7FFFFFFF), result)

    return extreme


@op("tcgen05.ld")
def load(instruction: Instruction, decoder: Decoder) -> Step:
    """tcgen05.ld{.red}.sync.aligned.shape.num{.pack::16b}.type r,{ redval,} [taddr]{, immHalfSplitoff}: 9.7.16.8.3."""
    shape, repeat, packed = _shape(instruction, decoder, "pack::16b")
    reduction = _reduction(instruction, decoder)
    results, operands = instruction.operands[0], instruction.operands[2 if reduction else 1 :]
    split = decoder.integer(operands[1]) if shape == "16x32bx2" else 0
    if reduction and (shape not in ("32x32b", "16x32bx2") or repeat < 2):
        raise Finding("illegal", f"{instruction.name}: no such shape", expected=".32x32b or .16x32bx2, from .x2 on")
    arguments = (shape, repeat, packed, split)
    count = register_cells(*arguments).lanes.shape[1]
    elements = _elements(results, count, instruction.name)
    sinks = [decoder.sink(e, "b32") for e in elements]
    reduced = decoder.sink(instruction.operands[1], "b32") if reduction else None
    where = decoder.address(operands[0])
    text = f"line {instruction.line}"

    def loaded(warp: Warp, address: int) -> tuple[Placed, np.ndarray]:
        """Of one warp the cells, and the words: (registers, 32)."""
        state, memory = tensor_pipe.state(warp), tensor_pipe.memory(warp.cta)
        cells = _cells(warp, address, shape, arguments, "tcgen05.ld")
        memory.reads(cells, Access(state, "tcgen05.ld", "ld"), need_written=reduction is not None)
        memory.note_read(cells, state.loads, state.load_clock)
        state.load(text)
        warp.machine.stats.bytes["tensor memory -> registers"] += 4 * cells.flat.size
        return cells, pack(memory.read(cells))

    def together(crew: Crew) -> None:
        addresses, memory = where(crew), tensor_pipe.memory(crew.cta)
        every = np.broadcast_to(addresses, (len(crew.warps), 32))
        if not crew.full or np.count_nonzero(every != every[:, :1]):
            raise Apart
        found = [loaded(warp, int(address)) for warp, address in zip(crew.warps, every[:, 0], strict=True)]
        if not all(among(memory.written, cells).all() for cells, _ in found):
            raise Apart
        words = np.stack([words for _, words in found], axis=1)
        for sink, lanes in zip(sinks, words if len(found) > 1 else words[:, 0], strict=True):
            sink(crew, lanes)
        if reduction and reduced:
            reduced(crew, np.stack([reduction(words) for _, words in found]).reshape(-1, 32))

    def run(warp: Warp | Crew) -> Signal | None:
        if isinstance(warp, Crew):
            return together(warp)
        warp.need_converged(instruction.name, whole=True)
        memory = tensor_pipe.memory(warp.cta)
        cells, words = loaded(warp, uniform(warp, where(warp), "the address of tcgen05.ld"))
        for sink, lanes in zip(sinks, words, strict=True):
            sink(warp, lanes)
        if reduction and reduced:
            reduced(warp, reduction(words))
        if reduction is None and not among(memory.written, cells).all() and not warp.machine.ignores("uninitialised"):
            _undefined(warp, elements, memory, cells, text)
            return YIELD  # it goes on with care
        return None

    return run


def _undefined(warp: Warp, elements: Sequence[Operand | None], memory: TensorMemory, cells: Placed, text: str) -> None:
    """What was loaded of cells without a value has none: see machine/poison.py."""
    missing = ~memory.written[cells.flat]
    words = pack(np.where(missing, np.uint32(0xFFFFFFFF), np.uint32(0)))
    lane, column = divmod(int(cells.flat[missing][0]), COLUMNS)
    why = f"it was loaded at {text}, where lane {lane}, column {column} of {memory.name} was never written"
    for element, bits in zip(elements, words, strict=True):
        if isinstance(element, Reg) and bits.any():
            dtype = warp.kernel.initial_registers[element.index].dtype
            warp.undefined.add(element.index, np.ascontiguousarray(bits).view(dtype), why)


@op("tcgen05.st")
def store(instruction: Instruction, decoder: Decoder) -> Step:
    """tcgen05.st.sync.aligned.shape.num{.unpack::16b}.b32 [taddr], {immHalfSplitoff,} r: 9.7.16.8.4."""
    shape, repeat, packed = _shape(instruction, decoder, "unpack::16b")
    operands = instruction.operands
    split = decoder.integer(operands[1]) if shape == "16x32bx2" else 0
    arguments = (shape, repeat, packed, split)
    count = register_cells(*arguments).lanes.shape[1]
    elements = _elements(operands[-1], count, instruction.name)
    sources = [decoder.source(e, "b32") for e in elements]
    where = decoder.address(operands[0])
    text = f"line {instruction.line}"

    def run(warp: Warp) -> None:
        warp.need_converged(instruction.name, whole=True)
        state, memory = tensor_pipe.state(warp), tensor_pipe.memory(warp.cta)
        address = uniform(warp, where(warp), "the address of tcgen05.st")
        cells = _cells(warp, address, shape, arguments, "tcgen05.st")
        memory.overwrites(cells, Access(state, "tcgen05.st", "st"))
        state.stores.texts[state.store_clock] = text
        memory.note_write(cells, Write(state.stores, state.store_clock))
        if warp.undefined.kept is not None:
            memory.written[cells.flat] = warp.undefined.kept.T[..., None]
        values = np.stack([source(warp) for source in sources])
        memory.write(cells, unpack(values, packed))
        warp.machine.stats.bytes["registers -> tensor memory"] += 4 * cells.flat.size

    return run


@op("tcgen05.wait::ld", "tcgen05.wait::st")
def wait(instruction: Instruction, decoder: Decoder) -> Step:
    """tcgen05.wait::ld, tcgen05.wait::st: 9.7.16.8.5: the warp's loads, or stores, so far are complete."""
    decoder.only(instruction, "wait::ld", "wait::st", "sync", "aligned")
    decoder.need_target(*TARGETS)
    loads = instruction.has("wait::ld")

    def run(warp: Warp) -> None:
        warp.need_converged(instruction.name)
        state = tensor_pipe.state(warp)
        if loads:
            state.waited(state.loads, state.load_clock)
            state.load_clock += 1
        else:
            state.waited(state.stores, state.store_clock)
            state.store_clock += 1

    return run
