"""tcgen05.cp (PTX ISA 9.7.16.9.2): from shared memory into tensor memory; tcgen05.shift is not modelled."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from scalec.emulator.findings import Finding, NotModelled
from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.instructions.tcgen05_alloc import GROUPS, cta_group
from scalec.emulator.layouts.shared_matrix import Descriptor, operand_addresses
from scalec.emulator.layouts.tensor_memory import copy_cells, decompress, split_address
from scalec.emulator.machine import tensor_pipe
from scalec.emulator.machine.access import need_written, operand_pieces
from scalec.emulator.machine.cta import Cta
from scalec.emulator.machine.pieces import Pieces, pick
from scalec.emulator.machine.tensor_memory import Access, Write, placed
from scalec.emulator.machine.tensor_pipe import Thread
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

_SHAPES = ("128x256b", "4x256b", "128x128b", "64x128b", "32x128b")
_MULTICASTS = ("warpx2::02_13", "warpx2::01_23", "warpx4")
_FORMATS = ("b6x16_p32", "b4x16_p64")


def shared_operand(
    warp: Warp, cta: Cta, thread: Thread, at: Pieces | np.ndarray, what: str, path: str, *, whole: bool = True
) -> None:
    """Judges bytes of a CTA's shared memory as read by the async proxy, for the operation that a thread has issued.

    `whole`: all of them must have been written.

    Raises:
        Finding: bounds, in-flight, race, proxy, uninitialised.
    """
    shared, machine, order = cta.shared, warp.machine, warp.cta.cluster.order
    low, end = at.extent if isinstance(at, Pieces) else (int(at.min()), int(at.max()) + 1)
    if low < shared.start or end > shared.size:
        raise Finding(
            "bounds", f"{what} reaches from {low:#x} to {end - 1:#x} of {shared.name}, of {shared.size} bytes",
            expected="addresses in the shared memory that the launch gave",
        )  # fmt: skip
    known = machine.judge.reads(shared, at, order, warp.agent, asynchronous=True)
    machine.judge.note_read(shared, at, order, thread.agent, thread.count)
    if whole and not known:
        need_written(warp, shared, at)
    machine.stats.bytes[path] += at.size


@lru_cache(maxsize=512)  # a loop comes to the same stages again
def _source(word: int, rows: int, row_bytes: int) -> Pieces | np.ndarray:
    """Where the bytes of a copy's source lie."""
    return operand_pieces(operand_addresses(Descriptor.tcgen05(word), rows, row_bytes, 8), mn_major=False)


@op("tcgen05.cp")
def copy(instruction: Instruction, decoder: Decoder) -> Step:
    """tcgen05.cp.cta_group.shape{.multicast}{.b8x16.src_fmt} [taddr], s-desc.

    With .cta_group::2 each CTA of the pair copies from its own shared memory into its own tensor memory.
    """
    decoder.only(instruction, "cp", "b8x16", GROUPS, _SHAPES, _MULTICASTS, _FORMATS)
    group = cta_group(instruction, decoder)
    shape = next(m for m in instruction.modifiers if m in _SHAPES)
    multicast = next((m for m in instruction.modifiers if m in _MULTICASTS), "")
    source_format = next((m for m in instruction.modifiers if m in _FORMATS), "")
    _, rows, words = copy_cells(shape, multicast).lanes.shape
    where, source = decoder.address(instruction.operands[0]), decoder.source(instruction.operands[1], "b64")

    def one(warp: Warp, lane: int, address: int, word: int) -> None:
        state = tensor_pipe.state(warp)
        row, column = split_address(address)
        at = _source(word, rows, 4 * words)
        cells = placed(copy_cells, (shape, multicast), row, column, "tcgen05.cp")
        text = f"{instruction.where}\n      issued by {warp.name} lane {lane}"
        ctas = tensor_pipe.pair(warp, group)
        thread = state.issue(lane, f"line {instruction.line}")
        for cta in ctas:
            # kernels copy whole blocks of scale factors of which products take a part; what is decompressed is whole
            whole, path = bool(source_format), "shared -> tensor memory"
            shared_operand(warp, cta, thread, at, "the source of tcgen05.cp", path, whole=whole)
            memory = tensor_pipe.memory(cta)
            memory.overwrites(cells, Access(state, "tcgen05.cp", "cp"))
            memory.note_write(cells, Write(thread, thread.count))
            if not whole:
                memory.written[cells.flat] = pick(cta.shared.written, at).reshape(rows, words, 4).all(axis=-1)

        def happen() -> None:
            for cta in ctas:
                data = pick(cta.shared.data, at).reshape(rows, -1)
                if source_format:
                    data = decompress(data.reshape(rows, -1, 16), source_format).reshape(rows, -1)
                tensor_pipe.memory(cta).write(cells, np.ascontiguousarray(data).view("<u4"))

        tensor_pipe.pipe(warp, group).push(text, happen)
        warp.machine.stats.counts["tcgen05.cp"] += 1

    def run(warp: Warp) -> None:
        addresses, sources = where(warp), source(warp)
        for lane in np.flatnonzero(warp.mask).tolist():
            one(warp, lane, int(addresses[lane]), int(sources[lane]))

    return run


@op("tcgen05.shift")
def shift(instruction: Instruction, decoder: Decoder) -> Step:
    raise NotModelled("tcgen05.shift: rows of tensor memory moved by one")
