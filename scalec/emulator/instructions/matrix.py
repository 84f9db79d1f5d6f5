"""ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14.5.15 to 17): matrices of rows of 16 bytes, spread over a warp."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from scalec.emulator.findings import Apart, Finding, NotModelled, PtxSyntaxError
from scalec.emulator.instructions.convert_packed import BLACKWELL
from scalec.emulator.instructions.table import Decoder, Step, op
from scalec.emulator.layouts import fragments
from scalec.emulator.layouts.fragments import ROW_BYTES
from scalec.emulator.machine import access, banks
from scalec.emulator.machine.crew import Crew
from scalec.emulator.machine.memory import WINDOWS
from scalec.emulator.machine.stores import stored
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Instruction

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_SHAPES = ("m8n8", "m16n16", "m8n16", "m16n8")
_SPACES = ("shared", "shared::cta")
_PACKED = {"b4x16_p64": 8, "b6x16_p32": 12}  # source format -> bytes of a row that hold elements


@dataclass(frozen=True)
class _Form:
    """What the modifiers say."""

    shape: str
    transposed: bool
    registers: int  # of the instruction
    rows: int  # that lanes 0, 1, ... give addresses of
    packed: str  # the source format, or ""
    space: str
    lanes: np.ndarray  # bool (32,): of the rows


def _form(instruction: Instruction, decoder: Decoder, legal: dict[tuple[str, str], tuple[str, ...]]) -> _Form:
    """
    Args:
        legal: (shape, type or source format) -> the counts that it has.
    """
    decoder.only(instruction, "sync", "aligned", _SHAPES, _COUNTS, "trans", _SPACES, "b8x16", _PACKED)
    shape = next((m for m in instruction.modifiers if m in _SHAPES), "")
    count = next((m for m in instruction.modifiers if m in _COUNTS), "")
    packed = next((m for m in instruction.modifiers if m in _PACKED), "")
    if bool(packed) != instruction.has("b8x16"):
        raise NotModelled(instruction.name, instruction.where)
    kind = packed or next(iter(instruction.types), "")
    if count not in legal.get((shape, kind), ()):
        raise Finding("illegal", f"{instruction.name}: no such combination of shape, number and type")
    if shape != "m8n8":
        decoder.need_target(*BLACKWELL)
    transposed = instruction.has("trans")
    fragment = fragments.row_fragment(shape, transposed)
    rows = fragment.shape[0] * _COUNTS[count]
    space = "shared" if any(instruction.has(s) for s in _SPACES) else ""
    return _Form(shape, transposed, len(fragment.rows) * _COUNTS[count], rows, packed, space, np.arange(32) < rows)


@contextmanager
def _rows(warp: Warp, form: _Form, addresses: np.ndarray) -> Iterator[None]:
    """Only the lanes whose addresses are rows take part."""
    mask, full = warp.mask, warp.full
    warp.set_mask(form.lanes & mask)
    try:
        chosen = addresses[warp.mask]
        if form.space == "" and (chosen >> 32 != WINDOWS["shared"] >> 32).any():
            raise Finding("illegal", "a row that is not in shared memory", expected="addresses in shared memory")
        if (chosen % ROW_BYTES).any():
            lane = int(np.flatnonzero(warp.mask & (addresses % ROW_BYTES != 0))[0])
            raise Finding(
                "alignment", f"lane {lane} names a row at {int(addresses[lane]):#x}", expected="a multiple of 16"
            )
        banks.count(warp, addresses, ROW_BYTES)
        yield
    finally:
        warp.mask, warp.full = mask, full


_LOADS = {
    ("m8n8", "b16"): ("x1", "x2", "x4"),
    ("m16n16", "b8"): ("x1", "x2"),
    **{("m16n16", source): ("x1", "x2") for source in _PACKED},
    **{("m8n16", source): ("x1", "x2", "x4") for source in _PACKED},
}


@op("ldmatrix")
def ldmatrix(instruction: Instruction, decoder: Decoder) -> Step:
    """ldmatrix.sync.aligned.shape.num{.trans}{.shared}.type: 9.7.14.5.15."""
    form = _form(instruction, decoder, _LOADS)
    puts = decoder.sinks(instruction.operands[0], "b32")
    where = decoder.address(instruction.operands[1])
    if len(puts) != form.registers:
        raise PtxSyntaxError(f"{instruction.name} with {len(puts)} registers, expected {form.registers}")
    size = _PACKED.get(form.packed, ROW_BYTES)  # the padding is not read

    def together(crew: Crew) -> None:
        named = access.of_all(crew, where(crew))[..., : form.rows]
        if not crew.full or form.space == "" or (named % ROW_BYTES).any():
            raise Apart
        rows = access.load_together(crew, form.space, named, np.ones(named.shape, bool), size, unchanged=False)
        banks.count_lanes(crew.machine, named, np.arange(form.rows), ROW_BYTES)
        if form.packed:
            rows = fragments.decompress(rows, form.packed)
        words = fragments.load_rows(rows, form.shape, form.transposed).reshape(*rows.shape[:-2], -1, 32)
        for put, word in zip(puts, np.ascontiguousarray(np.moveaxis(words, -2, 0)), strict=True):
            put(crew, word)

    def run(warp: Warp | Crew) -> None:
        if isinstance(warp, Crew):
            together(warp)
            return
        warp.need_converged(instruction.name, whole=True)
        addresses = where(warp)
        with _rows(warp, form, addresses):
            rows = access.load(warp, form.space, addresses, size)[: form.rows]
        if form.packed:
            rows = fragments.decompress(rows, form.packed)
        for put, word in zip(puts, fragments.load_rows(rows, form.shape, form.transposed), strict=True):
            put(warp, word)

    return run


_STORES = {("m8n8", "b16"): ("x1", "x2", "x4"), ("m16n8", "b8"): ("x1", "x2", "x4")}


@op("stmatrix")
def stmatrix(instruction: Instruction, decoder: Decoder) -> Step:
    """stmatrix.sync.aligned.shape.num{.trans}{.shared}.type: 9.7.14.5.16."""
    decoder.need_target("sm_9", "sm_1")
    form = _form(instruction, decoder, _STORES)
    where = decoder.address(instruction.operands[0])
    gets = decoder.sources(instruction.operands[1], "b32")
    if len(gets) != form.registers:
        raise PtxSyntaxError(f"{instruction.name} with {len(gets)} registers, expected {form.registers}")

    def together(crew: Crew) -> None:
        if not crew.full or form.space == "":
            raise Apart
        addresses, words = where(crew), np.broadcast_arrays(*(get(crew) for get in gets))
        rows = fragments.store_rows(np.stack(words, axis=-2), form.shape, form.transposed)
        rows = rows.reshape(*words[0].shape[:-1], form.rows, ROW_BYTES)
        crew.stores.append(stored(crew, form.space, False, addresses[..., : form.rows], rows, slice(form.rows)))

    def run(warp: Warp | Crew) -> None:
        if isinstance(warp, Crew):
            together(warp)
            return
        warp.need_converged(instruction.name, whole=True)
        words = np.stack([get(warp) for get in gets])
        rows = np.zeros((32, ROW_BYTES), np.uint8)
        rows[: form.rows] = fragments.store_rows(words, form.shape, form.transposed)
        addresses = where(warp)
        with _rows(warp, form, addresses):
            access.store(warp, form.space, addresses, rows)

    return run


@op("movmatrix")
def movmatrix(instruction: Instruction, decoder: Decoder) -> Step:
    """movmatrix.sync.aligned.m8n8.trans.b16 d, a: 9.7.14.5.17; of a lane's two elements the lower is the left one."""
    if instruction.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise NotModelled(instruction.name)
    put, get = decoder.sink(instruction.operands[0], "b32"), decoder.source(instruction.operands[1], "b32")

    def run(warp: Warp) -> None:
        warp.need_converged(instruction.name, whole=True)
        rows = np.ascontiguousarray(get(warp)).view(np.uint16).reshape(8, 8)
        put(warp, np.ascontiguousarray(rows.T).reshape(-1).view(np.uint32))

    return run
