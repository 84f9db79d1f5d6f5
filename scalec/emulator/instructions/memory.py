"""Loads and stores (PTX ISA 9.7.9.8 to 9.7.9.11): ld, ld.global.nc, ldu, st."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalec.emulator.findings import Apart, Finding, PtxSyntaxError
from scalec.emulator.instructions.table import DTYPES, Decoder, Source, Step, op
from scalec.emulator.machine import access, banks, stores, strong
from scalec.emulator.machine.crew import Crew
from scalec.emulator.machine.memory import RANK_SHIFT, WINDOWS
from scalec.emulator.machine.order import LAUNCH
from scalec.emulator.machine.signals import YIELD, Yield
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import TYPE_BITS, Address, Imm, Instruction, Operand, Reg, Vector

SPACES = (
    "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry", "param::func",
)  # fmt: skip
SCOPES = tuple(strong.SCOPES)
HINTS = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified",
    "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
    "L2::evict_normal", "L2::evict_first", "L2::evict_last", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B",
)  # fmt: skip
_MOST_BULK = 1 << 24  # bytes of st.bulk (9.7.9.13)
SECTOR = 32
"""Bytes that a cache fetches at once."""
_STRONG = ("relaxed", "acquire", "release", "volatile", "mmio")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_WINDOW_OF = {base >> 32: name for name, base in WINDOWS.items()}


def named_space(instruction: Instruction) -> tuple[str, bool]:
    """The state space that an instruction names ("" for generic), and whether only the CTA's own shared memory is."""
    name = next((m for m in instruction.modifiers if m in SPACES), "")
    return name.split("::")[0], name in ("shared", "shared::cta")


def scope_of(instruction: Instruction) -> int:
    """The scope as a number of strong.SCOPES; .volatile and .mmio are of sys, atom's default is gpu."""
    name = next((m for m in instruction.modifiers if m in SCOPES), "")
    return strong.SCOPES[name] if name else strong.SCOPES["sys" if instruction.has("volatile") else "gpu"]


def _is_strong(instruction: Instruction) -> bool:
    return any(m in _STRONG for m in instruction.modifiers)


def space_now(space: str, warp: Warp, addresses: np.ndarray) -> str:
    """The state space of an access, for generic addresses that of the first active lane."""
    return space or _WINDOW_OF.get(int(addresses[np.argmax(warp.mask)]) >> 32, "global")


def own_shared(warp: Warp, addresses: np.ndarray) -> None:
    """Raises Finding("bounds") when a lane names another CTA's shared memory in the window ::cta."""
    if len(warp.cta.cluster.ctas) == 1:
        return  # there is no other, and the bounds are checked anyway
    foreign = (addresses >> RANK_SHIFT != warp.cta.rank) & warp.mask
    if foreign.any():
        lane = int(np.argmax(foreign))
        raise Finding(
            "bounds",
            f"lane {lane}: shared address {int(addresses[lane]):#x} is not in the CTA's own shared memory",
            expected="an address of the window .shared::cta",
            fix=".shared::cluster for an address of another CTA",
        )


def counted(space: str, warp: Warp, addresses: np.ndarray, size: int, *, to_memory: bool) -> None:
    """Adds an access of the active lanes to the launch's counters; of several state spaces, for the first lane's."""
    now = space_now(space, warp, addresses)
    path = f"registers -> {now}" if to_memory else f"{now} -> registers"
    warp.machine.stats.bytes[path] += size * (32 if warp.full else int(np.count_nonzero(warp.mask)))
    if now == "shared":
        banks.count(warp, addresses, size)
    elif now == "global" and to_memory:
        there = addresses if warp.full else addresses[np.flatnonzero(warp.mask)]
        warp.machine.stats.counts[stores.WRITTEN] += stores.sectors(there, size)


def _shape(instruction: Instruction, operand: Operand | None) -> tuple[str, int, list[Operand | None]]:
    """Type of an element, their number, and the registers."""
    (kind,) = instruction.types
    count = next((_VECTORS[m] for m in instruction.modifiers if m in _VECTORS), 1)
    elements: list[Operand | None] = list(operand.elements) if isinstance(operand, Vector) else [operand]
    if len(elements) != count:
        raise PtxSyntaxError(f"got {len(elements)} registers, expected {count}")
    return kind, count, elements


def _runs(elements: list[Operand | None]) -> list[tuple[int, int]]:
    """(first, end) of the runs of elements that are not `_`."""
    runs: list[tuple[int, int]] = []
    for i, element in enumerate(elements):
        if element is not None:
            if runs and runs[-1][1] == i:
                runs[-1] = (runs[-1][0], i + 1)
            else:
                runs.append((i, i + 1))
    return runs


def _place(instruction: Instruction, decoder: Decoder, operand: Operand | None) -> tuple[Source, str, bool]:
    space, own = named_space(instruction)
    named = decoder.space(operand, space)
    # an address written as a number or a variable cannot be another CTA's
    own = own and isinstance(operand, Address) and not isinstance(operand.base, Imm)
    return decoder.address(operand), named, own


def _aligned(warp: Warp, addresses: np.ndarray, size: int) -> None:
    wrong = (addresses & (size - 1) != 0) & warp.mask
    if wrong.any():
        lane = int(np.argmax(wrong))
        raise Finding(
            "alignment",
            f"lane {lane} accesses {size} bytes at {int(addresses[lane]):#x}",
            expected=f"a multiple of {size}",
        )


@op("ld", "ldu")
def ld(instruction: Instruction, decoder: Decoder) -> Step:
    """ld: 9.7.9.8; ld.global.nc: 9.7.9.9; ldu: 9.7.9.10.

    Results narrower than their registers are extended by the type's sign. Cache operators, eviction priorities,
    prefetch sizes and cache policies change nothing. A strong load that may be polling lets other warps run.
    """
    decoder.only(instruction, SPACES, SCOPES, HINTS, "weak", *_STRONG, *_VECTORS)
    to, where = instruction.operands[:2]
    kind, count, elements = _shape(instruction, to)
    address, space, own = _place(instruction, decoder, where)
    each = TYPE_BITS[kind] // 8
    size, runs = each * count, _runs(elements)
    puts = [decoder.sink(e, kind if kind[0] in "us" else f"b{TYPE_BITS[kind]}") for e in elements]
    is_strong, acquire, scope = _is_strong(instruction), instruction.has("acquire"), scope_of(instruction)
    dtype = DTYPES[kind] if kind[0] in "us" else np.dtype(f"u{min(8, each)}")
    whole = runs == [(0, count)]
    read_only = instruction.has("nc")
    result: Yield | None = YIELD if is_strong and decoder.kernel.may_poll(instruction) else None

    def together(crew: Crew) -> None:
        if not whole or each == 16 or (is_strong and strong.published(crew.machine, "shared")):
            raise Apart
        addresses = access.of_all(crew, address(crew))
        if own:
            own_shared(crew, addresses)
        mask = np.broadcast_to(crew.mask, addresses.shape)
        raw = access.load_together(crew, space, addresses, mask, size, unchanged=read_only, strong=is_strong)
        stores.count(crew, space, addresses, mask, size, "{} -> registers")
        parts = raw.view(dtype)
        for i, put in enumerate(puts):
            put(crew, np.ascontiguousarray(parts[..., i]))

    def step(warp: Warp | Crew) -> Yield | None:
        if isinstance(warp, Crew):
            return together(warp)
        addresses = address(warp)
        if own:
            own_shared(warp, addresses)
        counted(space, warp, addresses, size, to_memory=False)
        holes: list[access.Hole] = []
        if whole:
            raw = access.load(warp, space, addresses, size, atomic=is_strong, holes=holes)
        else:
            _aligned(warp, addresses, size)
            raw = np.zeros((32, size), np.uint8)
            for first, end in runs:
                gaps: list[access.Hole] = []
                raw[:, first * each : end * each] = access.load(
                    warp, space, addresses + first * each, (end - first) * each, atomic=is_strong, holes=gaps
                )
                holes += [(lanes, np.pad(b, ((0, 0), (first * each, size - end * each))), t) for lanes, b, t in gaps]
        if is_strong:
            strong.read(warp, space, addresses, each, scope, acquire=acquire)
        elif read_only:
            _unchanged(warp, space, addresses, size)
        if each == 16:
            puts[0](warp, raw.view(np.uint64))
        elif count == 1:
            puts[0](warp, raw.view(dtype)[:, 0])
        else:
            for put, part in zip(puts, np.ascontiguousarray(raw.view(dtype).T), strict=True):
                put(warp, part)
        if holes:
            _undefined(warp, elements, each, kind, holes)
            return YIELD  # it goes on with care
        return result

    return step


def _undefined(warp: Warp, elements: list[Operand | None], each: int, kind: str, holes: list[access.Hole]) -> None:
    """What was loaded of bytes without a value has none: see machine/poison.py."""
    for lanes, missing, text in holes:
        for i, element in enumerate(elements):
            mine = missing[:, i * each : (i + 1) * each]
            if isinstance(element, Reg) and mine.any():
                bits = np.zeros_like(warp.kernel.initial_registers[element.index])
                raw = np.zeros((32, max(each, bits.dtype.itemsize)), np.uint8)
                raw[lanes, :each] = mine * np.uint8(0xFF)
                if kind[0] == "s":  # the sign goes into all bits above
                    raw[raw.any(axis=1)] = 0xFF
                if bits.ndim > 1 or raw.shape[1] == bits.dtype.itemsize:
                    bits = raw.view(bits.dtype).reshape(bits.shape)
                warp.undefined.add(element.index, bits, f"it was loaded at line {_line(warp)}, where {text}")


def _line(warp: Warp) -> int:
    return warp.kernel.code[warp.pc - 1].line


def _unchanged(warp: Warp, space: str, addresses: np.ndarray, size: int) -> None:
    """Bytes that ld.global.nc reads must not be written while the kernel runs (9.7.9.9)."""
    for segment, _, offsets in access.split(warp, space, addresses, size):
        at = offsets[:, None] + np.arange(size)
        epochs = segment.shadow.writer[at]
        written = (epochs != 0) & (epochs != LAUNCH)
        if written.any():
            where = np.argwhere(written)[0]
            writer = warp.cta.cluster.order.describe(int(epochs[tuple(where)]))
            raise Finding(
                "proxy",
                f"{segment.place(int(at[tuple(where)]))} is read by ld.global.nc, and {writer} wrote it in this launch",
                expected="bytes that nobody writes while the kernel runs",
                fix="ld.global without .nc",
            )


def _values(decoder: Decoder, elements: list[Operand | None], kind: str) -> Callable[[Warp], np.ndarray]:
    """What is stored: uint8 (..., 32, bytes); zeros for `_`."""
    each = TYPE_BITS[kind] // 8
    bits = f"b{TYPE_BITS[kind]}"
    gets = [None if e is None else decoder.bits(e, kind) for e in elements]
    if each == 16 and gets[0] is not None:
        wide = gets[0]
        return lambda warp: np.ascontiguousarray(wide(warp)).view(np.uint8)
    if len(gets) == 1 and gets[0] is not None:
        only = gets[0]
        return lambda warp: np.ascontiguousarray(only(warp))[..., None].view(np.uint8)

    def stacked(warp: Warp) -> np.ndarray:
        found = [None if get is None else get(warp) for get in gets]
        shape = np.broadcast_shapes(*(each.shape for each in found if each is not None))
        out = np.zeros((*shape, len(gets)), DTYPES[bits])
        for i, each in enumerate(found):
            if each is not None:
                out[..., i] = each
        return out.view(np.uint8)

    return stacked


@op("st")
def st(instruction: Instruction, decoder: Decoder) -> Step:
    """st: 9.7.9.11; the lowest bits of registers that are wider than the type."""
    decoder.only(instruction, SPACES, SCOPES, HINTS, "weak", *_STRONG, *_VECTORS)
    where, source = instruction.operands[:2]
    kind, count, elements = _shape(instruction, source)
    address, space, own = _place(instruction, decoder, where)
    each = TYPE_BITS[kind] // 8
    size, runs = each * count, _runs(elements)
    values = _values(decoder, elements, kind)
    is_strong, release, scope = _is_strong(instruction), instruction.has("release"), scope_of(instruction)
    whole = runs == [(0, count)]

    def step(warp: Warp | Crew) -> None:
        addresses = address(warp)
        if isinstance(warp, Crew):
            warp.stores.append(stores.stored(warp, space, own, addresses, values(warp)))
            return
        if own:
            own_shared(warp, addresses)
        counted(space, warp, addresses, size, to_memory=True)
        data = values(warp)
        if whole:
            access.store(warp, space, addresses, data, atomic=is_strong)
        else:
            _aligned(warp, addresses, size)
            for first, end in runs:
                part = data[:, first * each : end * each]
                access.store(warp, space, addresses + first * each, part, atomic=is_strong)
        if is_strong:
            strong.wrote(warp, space, addresses, each, scope, release=release, atomic=False)

    return step


@op("prefetch")
def prefetch(instruction: Instruction, decoder: Decoder) -> Step:
    """prefetch{.space}.level [a]: a hint (9.7.9.15); what it asks for must exist, and is counted by sectors."""
    space, _ = named_space(instruction)
    where = decoder.address(instruction.operands[0])

    def run(warp: Warp) -> None:
        addresses = where(warp)
        for address in {int(a) for a in addresses[warp.mask]}:
            segment, _ = access.locate(warp.cta.cluster, space, address, 1)
            if segment.space == "global":
                warp.machine.stats.prefetched.add(address // SECTOR)

    return run


@op("st.bulk")
def st_bulk(instruction: Instruction, decoder: Decoder) -> Step:
    """st.bulk{.weak}{.shared::cta} [a], size, 0: 9.7.9.13; zeros to so many bytes of the CTA's own shared memory."""
    decoder.need_target("sm_100", "sm_103", "sm_120")
    decoder.only(instruction, "bulk", "weak", "shared::cta")
    where, size, value = instruction.operands
    if decoder.integer(value):
        raise PtxSyntaxError(f"st.bulk of {decoder.integer(value)}, expected 0")
    address, space, count = decoder.address(where), named_space(instruction)[0], decoder.source(size, "u64")

    def step(warp: Warp) -> None:
        addresses, counts, judge = address(warp), count(warp), warp.machine.judge
        if not space and space_now("", warp, addresses) != "shared":
            raise Finding("bounds", "st.bulk to another memory", expected="the shared memory of the own CTA")
        own_shared(warp, addresses if space else addresses - WINDOWS["shared"])
        for lane in np.flatnonzero(warp.mask).tolist():
            first, length = int(addresses[lane]), int(counts[lane])
            if length % 8 or length > _MOST_BULK:
                raise Finding(
                    "illegal", f"st.bulk of {length} bytes", expected=f"a multiple of 8, at most {_MOST_BULK}"
                )
            if first % 8:
                raise Finding("alignment", f"lane {lane}: st.bulk at {first:#x}", expected="a multiple of 8")
            if length:
                segment, offset = access.locate(warp.cta.cluster, space, first, length)
                at = slice(offset, offset + length)
                judge.writes(segment, at, warp.cta.cluster.order, warp.agent, own=warp.agent.index)
                segment.data[at], segment.written[at] = 0, True
                judge.note_write(segment, at, warp.agent.epoch, generic=True)
                warp.machine.stats.bytes["registers -> shared"] += length

    return step
