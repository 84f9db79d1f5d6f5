"""tcgen05.mma (PTX ISA 9.7.16.10.9): products, with and without block scaling, of one CTA or of a pair.

What a product reads and writes is judged when it is issued; it happens when the pipe comes to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from scalec.emulator.findings import Finding, NotModelled, PtxSyntaxError
from scalec.emulator.instructions.table import Decoder, Source, Step, op
from scalec.emulator.instructions.tcgen05_alloc import GROUPS, cta_group
from scalec.emulator.instructions.tcgen05_copy import shared_operand
from scalec.emulator.layouts import instruction_descriptor
from scalec.emulator.layouts.instruction_descriptor import BITS, InstructionDescriptor
from scalec.emulator.layouts.scale_factors import (
    SCALE_VECTORS,
    rows_in_cta,
    scale_bytes,
    scale_cells,
    split_scale_address,
)
from scalec.emulator.layouts.shared_matrix import Descriptor, operand_addresses
from scalec.emulator.layouts.sparse import (
    HALVES,
    ORDERED,
    aligned,
    expand,
    find_malformed,
    metadata_cells,
    tensor_metadata,
)
from scalec.emulator.layouts.tensor_memory import (
    COLUMNS,
    accumulator_cells,
    check_lane,
    disabled_lanes,
    operand_cells,
    split_address,
)
from scalec.emulator.machine import tensor_pipe
from scalec.emulator.machine.access import operand_pieces
from scalec.emulator.machine.cta import Cta
from scalec.emulator.machine.pieces import Pieces, pick
from scalec.emulator.machine.tensor_memory import Access, Placed, Write, placed
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Address, Instruction, Operand, Vector
from scalec.emulator.tensor_tcgen05 import ROW_BYTES, elements, multiply

_KINDS = tuple(f"kind::{k}" for k in ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"))
_SCALE_SIZES = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
_COLLECTORS = tuple(
    f"collector::{buffer}::{use}"
    for buffer in ("a", "b0", "b1", "b2", "b3")
    for use in ("fill", "use", "lastuse", "discard")
)  # hints: the operand is in memory, too


@dataclass(frozen=True)
class _Form:
    """What the instruction says, whatever its operands hold."""

    kind: str
    group: int
    qualifier: str
    ws: bool
    sparse: bool

    @property
    def scaled(self) -> bool:
        return self.kind in SCALE_VECTORS


@dataclass(frozen=True)
class _Call:
    """The operands of one issue: `a` is a descriptor, or with `a_tensor` an address; `metadata`: of a sparse A."""

    d: int
    a: int
    a_tensor: bool
    b: int
    scales: tuple[int, int] | None
    accumulate: bool
    scale_d: int
    disabled: np.ndarray | None
    metadata: int


@op("tcgen05.mma")
def mma(instruction: Instruction, decoder: Decoder) -> Step:
    """tcgen05.mma{.ws}{.sp}.cta_group.kind{.block_scale{.scale_vectorsize}}{.collector_usage}
    [d-tmem], a-desc | [a-tmem], b-desc, idesc, {disable-output-lane,} enable-input-d {, scale-input-d}; block-scaled:
    ..., idesc, [scale-A-tmem], [scale-B-tmem], enable-input-d: 9.7.16.10.9.1; .sp: [sp-meta-tmem] behind b-desc,
    9.7.16.10.9.2; .ws: 9.7.16.10.9.3."""
    if instruction.has("kind::i8"):
        decoder.need_target("sm_100", "sm_101", "sm_110")
    decoder.only(instruction, "mma", "ws", "sp", "block_scale", GROUPS, _KINDS, _SCALE_SIZES, _COLLECTORS)
    kind = next(m for m in instruction.modifiers if m in _KINDS).removeprefix("kind::")
    qualifier = next((m for m in instruction.modifiers if m in _SCALE_SIZES), "")
    form = _Form(kind, cta_group(instruction, decoder), qualifier, instruction.has("ws"), instruction.has("sp"))
    if form.ws and form.sparse:
        raise NotModelled("sparse products of tcgen05.mma.ws")
    if form.scaled != instruction.has("block_scale"):
        raise PtxSyntaxError(f"{instruction.name}: .block_scale belongs to {', '.join(SCALE_VECTORS)}")
    operands = list(instruction.operands)
    d = decoder.address(operands[0])
    a_tensor = isinstance(operands[1], Address)
    if a_tensor and form.ws:
        raise NotModelled("matrix A of tcgen05.mma.ws in tensor memory")
    if a_tensor and form.sparse:
        raise NotModelled("matrix A of tcgen05.mma.sp in tensor memory")
    a = decoder.address(operands[1]) if a_tensor else decoder.source(operands[1], "b64")
    metadata = decoder.address(operands.pop(3)) if form.sparse else None
    b, descriptor = decoder.source(operands[2], "b64"), decoder.source(operands[3], "b32")
    rest = operands[4:]
    scales = [decoder.address(rest.pop(0)) for _ in range(2)] if form.scaled else []
    disabled = _disabled(rest.pop(0), decoder, form) if isinstance(rest[0], Vector) else []
    accumulate = decoder.source(rest.pop(0), "pred")
    if rest and form.ws:
        raise NotModelled("a zero-column mask of tcgen05.mma.ws")
    scale_d = decoder.integer(rest.pop(0)) if rest else 0

    def run(warp: Warp) -> None:
        words, places = descriptor(warp), [s(warp) for s in scales]
        masks = [s(warp) for s in disabled]
        ds, as_, bs, flags = d(warp), a(warp), b(warp), accumulate(warp)
        sparse_at = ds if metadata is None else metadata(warp)
        for lane in np.flatnonzero(warp.mask).tolist():
            found = instruction_descriptor.decode(
                int(words[lane]), form.kind, form.group, form.qualifier, form.ws, form.sparse
            )
            call = _Call(
                int(ds[lane]),
                int(as_[lane]),
                a_tensor,
                int(bs[lane]),
                (int(places[0][lane]), int(places[1][lane])) if places else None,
                bool(flags[lane]),
                scale_d,
                disabled_lanes([int(m[lane]) for m in masks]) if masks else None,
                int(sparse_at[lane]),
            )
            _issue(warp, lane, instruction, form, found, call)

    return run


def _disabled(operand: Operand | None, decoder: Decoder, form: _Form) -> list[Source]:
    """The words of disable-output-lane: 9.7.16.10.9.1."""
    assert isinstance(operand, Vector)
    if len(operand.elements) != 4 * form.group:
        raise PtxSyntaxError(f"{len(operand.elements)} words of disable-output-lane, expected {4 * form.group}")
    return [decoder.source(e, "b32") for e in operand.elements]


class _Part:
    """One CTA's part of a product: its rows of A and D, and its columns of B.

    Attributes:
        d: cells of D, (M / cta_group, N).
        a: bytes in shared memory, M / cta_group rows of 32, or cells, (copies, M / cta_group, 8).
        b: bytes in shared memory, N / cta_group rows of 32, or of 64 beside a sparse A.
        metadata: cells (M / cta_group, 1 or 2) of a sparse A, a lane to each row.
        a_used, b_used: those of them that hold elements.
        scales: cells (4, rows) of the scale factors of A and of B.
    """

    def __init__(self, cta: Cta, found: InstructionDescriptor, form: _Form, call: _Call) -> None:
        self.cta, self.memory = cta, tensor_pipe.memory(cta)
        m, n, group = found.m, found.n, form.group
        lane, column = split_address(call.d)
        check_lane(lane, m, group, "D", form.ws)
        self.d = placed(accumulator_cells, (m, n, group, form.ws), lane, column, "matrix D of tcgen05.mma")
        self.a: Pieces | np.ndarray | Placed
        if call.a_tensor:
            if found.transpose_a:
                raise Finding("descriptor", "matrix A lies in tensor memory and is transposed", expected="K-major A")
            lane, column = split_address(call.a)
            check_lane(lane, m, group, "A")
            self.a = placed(operand_cells, (m, group), lane, column, "matrix A of tcgen05.mma")
        else:
            self.a = _bytes(call.a, m // group, found.a_type, found.transpose_a)
            self.a_used = _used(self.a, found.a_type, form, found.transpose_a)
        self.b = _bytes(call.b, n // group, found.b_type, found.transpose_b, 2 if form.sparse else 1)
        self.metadata: Placed | None = None
        if found.selector is not None:
            shape, lane, column = (m, group, found.kind, found.selector), *split_address(call.metadata)
            self.metadata = placed(metadata_cells, shape, *aligned(lane, column), "the metadata of tcgen05.mma.sp")
        self.b_used = _used(self.b, found.b_type, form, found.transpose_b)
        self.scales: list[Placed] = []
        if call.scales:
            for address, rows in zip(call.scales, rows_in_cta(m, n, group), strict=True):
                at = split_scale_address(address)
                self.scales.append(placed(scale_cells, (rows,), 0, at, "the scale factors of tcgen05.mma"))


@lru_cache(maxsize=512)  # a loop comes to the same stages again
def _bytes(word: int, rows: int, type_: str, transposed: bool, fold: int = 1) -> Pieces | np.ndarray:
    """Where the 32 bytes of each row of an operand lie, or `fold` times 32."""
    bits = max(8, BITS[type_])
    addresses = operand_addresses(Descriptor.tcgen05(word), rows, fold * ROW_BYTES * 8 // bits, bits, transposed)
    return operand_pieces(addresses, transposed)


def _used(at: Pieces | np.ndarray, type_: str, form: _Form, transposed: bool) -> Pieces | np.ndarray:
    """The bytes that hold elements: 16 of 4 or 6 bits are contiguous and padded to 16 bytes, but for the kinds that
    have nothing else (9.7.16.10.4.4 to 9.7.16.10.4.6)."""
    if BITS[type_] >= 8 or form.kind.startswith("mxf4"):
        return at
    if isinstance(at, Pieces):
        return at.offsets()[..., : 2 * BITS[type_]]
    whole = at.reshape(-1, 16, at.shape[1]) if transposed else at.reshape(len(at), -1, 16).swapaxes(1, 2)
    return whole[:, : 2 * BITS[type_]]


def _issue(
    warp: Warp, lane: int, instruction: Instruction, form: _Form, found: InstructionDescriptor, call: _Call
) -> None:
    state, machine = tensor_pipe.state(warp), warp.machine
    parts = [_Part(cta, found, form, call) for cta in tensor_pipe.pair(warp, form.group)]
    thread = state.issue(lane, f"line {instruction.line}")
    accumulator = (call.d, found.m, found.n, form)
    stats = machine.stats.bytes
    for number, part in enumerate(parts):
        operand = Access(state, "tcgen05.mma", "operand")
        if isinstance(part.a, Placed):
            part.memory.reads(part.a, operand)
            stats["tensor memory -> tensor core"] += 4 * part.a.flat.size
        else:
            shared_operand(warp, part.cta, thread, part.a_used, "matrix A of tcgen05.mma", "shared -> tensor core")
        shared_operand(warp, part.cta, thread, part.b_used, "matrix B of tcgen05.mma", "shared -> tensor core")
        if part.metadata is not None:
            part.memory.reads(part.metadata, replace(operand, what="tcgen05.mma (metadata)"))
        for cells, what in zip(part.scales, ("A", "B"), strict=False):
            part.memory.reads(cells, replace(operand, what=f"tcgen05.mma (scale_{what})"))
        result = Access(state, "tcgen05.mma (matrix D)", "accumulator", accumulator)
        kept = part.d
        if call.disabled is not None:
            off = call.disabled[number][part.d.flat // COLUMNS]
            kept = Placed(part.d.flat[~off], part.d.columns)
        if kept.flat.size:
            if call.accumulate:
                part.memory.reads(kept, result)
            part.memory.overwrites(kept, result, read=call.accumulate)
            part.memory.note_write(kept, Write(thread, thread.count, accumulator))
        for cells in (*part.scales, part.a, part.metadata):
            if isinstance(cells, Placed):
                part.memory.note_read(cells, thread, thread.count)
    text = f"{instruction.where}\n      issued by {warp.name} lane {lane}"
    tensor_pipe.pipe(warp, form.group).push(text, lambda: _compute(found, form, call, parts))
    machine.stats.counts["tcgen05.mma"] += 1
    machine.stats.counts["tensor operations"] += found.m * found.n * found.k


def _compute(found: InstructionDescriptor, form: _Form, call: _Call, parts: Sequence[_Part]) -> None:
    """The product itself, on what its operands hold now."""
    width = ROW_BYTES * (2 if form.sparse else 1)
    b = np.concatenate([pick(p.cta.shared.data, p.b).reshape(-1, width) for p in parts])
    b_codes = elements(b, found.b_type, form.kind, transposed=found.transpose_b)
    results = []
    for part in parts:
        if isinstance(part.a, Placed):
            words = part.memory.read(part.a)  # (copies, rows, 8)
            copies = np.ascontiguousarray(words).view(np.uint8).reshape(*words.shape[:2], ROW_BYTES)
        else:
            copies = pick(part.cta.shared.data, part.a).reshape(1, -1, ROW_BYTES)
        in_tensor_memory = isinstance(part.a, Placed)
        a_codes = elements(
            copies, found.a_type, form.kind, tensor_memory=in_tensor_memory, transposed=found.transpose_a
        )
        stored = None
        if part.metadata is not None:
            bits = tensor_metadata(part.memory.read(part.metadata))
            wrong = find_malformed(bits, HALVES if found.kind == "tf32" else ORDERED | {0x6})
            if wrong is not None:
                part.cta.machine.report(wrong)
            dense, stored = expand(a_codes[0], bits)
            a_codes = dense[None]
        old = part.memory.read(part.d) if call.accumulate else None
        scale_a = scale_b = None
        if part.scales:
            scale_a, scale_b = (
                scale_bytes(part.memory.read(cells), found.factors, scale_id, what)
                for cells, scale_id, what in zip(
                    part.scales, (found.scale_a_id, found.scale_b_id), ("A", "B"), strict=True
                )
            )
        width = found.n // len(a_codes)
        blocks = []
        for i, codes in enumerate(a_codes):
            mine = slice(i * width, (i + 1) * width)
            blocks.append(
                multiply(
                    found,
                    codes,
                    b_codes[mine],
                    None if old is None else old[:, mine],
                    scale_a=scale_a,
                    scale_b=None if scale_b is None else scale_b[mine],
                    scale_d=call.scale_d,
                    stored=stored,
                )
            )
        results.append(np.concatenate(blocks, 1) if len(blocks) > 1 else blocks[0])
    for number, (part, result) in enumerate(zip(parts, results, strict=True)):
        if call.disabled is None:
            part.memory.write(part.d, result)
        else:
            on = ~call.disabled[number][part.d.flat // COLUMNS]
            part.memory.words[part.d.flat[on]] = result[on]
