"""cp.async.bulk.tensor and cp.reduce.async.bulk.tensor (PTX ISA 9.7.9.27.5.2, 9.7.9.27.5.3), tiled modes and im2col."""

from __future__ import annotations

import numpy as np

from scalec.emulator.findings import Finding, NotModelled, PtxSyntaxError
from scalec.emulator.instructions.bulk import receivers, spaces
from scalec.emulator.instructions.table import Decoder, Source, Step, op
from scalec.emulator.instructions.tensormap import current_map
from scalec.emulator.layouts import tensor_copy
from scalec.emulator.layouts.bulk_reduction import TENSOR_REDUCTIONS, reduce
from scalec.emulator.machine import bulk, mbarrier
from scalec.emulator.machine.access import locate
from scalec.emulator.machine.cta import Cta
from scalec.emulator.machine.memory import RANK_SHIFT, Segment
from scalec.emulator.machine.pieces import fill, pick, pieces
from scalec.emulator.machine.warp import Warp
from scalec.emulator.program import Address, Instruction, Vector

_DIMS = ("1d", "2d", "3d", "4d", "5d")
_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_OFFSET = (1 << RANK_SHIFT) - 1


def _map_operand(instruction: Instruction, decoder: Decoder, at: int) -> tuple[Source, list[Source]]:
    """[map, {c0, c1, ...}]: the map's address and the coordinates."""
    operand = instruction.operands[at]
    parts = operand.parts if isinstance(operand, Address) else ()
    point = next(iter(parts), None)
    if not isinstance(point, Vector):
        raise PtxSyntaxError(f"got {operand}, expected [tensorMap, {{coordinates}}]")
    return decoder.address(operand), [decoder.source(e, "s32") for e in point.elements]


def _gathered(instruction: Instruction) -> bool:
    for modifier in instruction.modifiers:
        if modifier.startswith("im2col::w"):
            raise NotModelled("im2col::w copies")
    return instruction.has("tile::gather4") or instruction.has("tile::scatter4")


def _offsets(instruction: Instruction, decoder: Decoder) -> list[Source] | None:
    """Of a load in im2col mode, what it adds along the dimensions of pixels; None of one in a tiled mode."""
    if not instruction.has("im2col"):
        return None
    operand = instruction.operands[3] if len(instruction.operands) > 3 else None
    if not isinstance(operand, Vector):
        raise PtxSyntaxError(f"got {operand}, expected {{offsets}} of the pixels behind [mbarrier]")
    return [decoder.source(e, "b16") for e in operand.elements]


def _signed(value: int) -> int:
    """Of 16 bits: the ISA gives offsets no sign; CUTLASS's are not negative."""
    return (value & 0xFFFF ^ 0x8000) - 0x8000


@op("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
def copy(instruction: Instruction, decoder: Decoder) -> Step:
    """Either direction: only copies into shared memory complete on an mbarrier."""
    return (_load if instruction.has("mbarrier::complete_tx::bytes") else _store)(instruction, decoder)


def _load(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.bulk.tensor.Nd.shared.global [dst], [map, {c}], [mbarrier]{, mask}."""
    gathered = _gathered(instruction)
    modes = ("tile", "tile::gather4", "im2col")
    decoder.only(
        instruction,
        ("async", "bulk", "tensor", "shared::cluster", "shared::cta", "global", *modes, *_DIMS),
        ("mbarrier::complete_tx::bytes", "multicast::cluster", "cta_group::1", "cta_group::2", "L2::cache_hint"),
    )
    spaces(instruction)
    operands = instruction.operands
    target, (map_at, coordinates) = decoder.address(operands[0]), _map_operand(instruction, decoder, 1)
    barrier = decoder.address(operands[2])
    pixels = _offsets(instruction, decoder)
    mask_at = 3 if pixels is None else 4
    mask = decoder.source(operands[mask_at], "b16") if instruction.has("multicast::cluster") else None
    pairs = instruction.has("cta_group::2")
    narrow = instruction.has("shared::cluster") and decoder.kernel.module.target.startswith("sm_120")

    def run(warp: Warp) -> None:
        maps, targets, barriers = map_at(warp), target(warp), barrier(warp)
        places = [c(warp) for c in coordinates]
        aside = None if pixels is None else [c(warp) for c in pixels]
        masks = mask(warp) if mask else None
        for lane in np.flatnonzero(warp.mask).tolist():
            tensor_map = current_map(warp, int(maps[lane]))
            if narrow:
                tensor_copy.check_cluster_destination(tensor_map)
            point = [int(place[lane]) for place in places]
            offsets = None if aside is None else [_signed(int(c[lane])) for c in aside]
            address = int(targets[lane]) & 0xFFFFFFFF
            moved = tensor_copy.box(tensor_map, point, address & _OFFSET, gathered=gathered, offsets=offsets)
            source = _source(warp, moved)
            at, order = _shared_place(moved, address & _OFFSET)
            goes = []
            for cta in receivers(warp, address, None if masks is None else int(masks[lane])):
                locate(warp.cta.cluster, "shared", cta.rank << RANK_SHIFT | address & _OFFSET, _extent(at, address))
                completes = _barrier(warp, cta, int(barriers[lane]), masks is not None, pairs)
                goes.append(bulk.Target(cta, at, completes, moved.transaction_bytes))

            def data(
                tensor_map=tensor_map, point=point, address=address, source=source, order=order, offsets=offsets
            ) -> np.ndarray:
                def read(addresses: np.ndarray, count: int) -> np.ndarray:
                    assert source is not None
                    segment, at = source
                    return pick(segment.data, at).reshape(len(addresses), count)

                place = address & _OFFSET
                loaded = tensor_copy.load(tensor_map, point, place, read, gathered=gathered, offsets=offsets)
                if order is None:
                    return loaded.data
                out = np.empty_like(loaded.data)
                out[order] = loaded.data
                return out.reshape(-1)

            bulk.into_shared(warp, [source] if source else [], data, goes, "global -> shared (tensor)")

    return run


def _barrier(warp: Warp, cta: Cta, address: int, multicast: bool, pairs: bool) -> mbarrier.MBarrier:
    """Which mbarrier is told: that at the address; of a multicast, that at its offset in the receiver, or, with
    cta_group::2, in the CTA of the receiver's pair which the address names (9.7.9.27.5.2)."""
    rank = (address & 0xFFFFFFFF) >> RANK_SHIFT
    if multicast:
        rank = (cta.rank & ~1) | (rank & 1) if pairs else cta.rank
    elif rank != cta.rank and not (pairs and rank ^ 1 == cta.rank):
        raise Finding(
            "barrier",
            f"a copy into CTA rank {cta.rank} that completes on an mbarrier of rank {rank}",
            expected="destination and mbarrier in the same CTA (or, with .cta_group::2, the same pair)",
        )
    own = rank << RANK_SHIFT | address & _OFFSET
    return mbarrier.find(warp.cta.cluster, "shared", own, warp)


def _source(warp: Warp, moved: tensor_copy.Box) -> bulk.Bytes | None:
    """The bytes of global memory that a box reads or writes; None if all of it is out of bounds."""
    addresses = moved.run_addresses
    if not len(addresses):
        return None
    low, high = int(addresses.min()), int(addresses.max()) + moved.run_bytes
    segment, offset = _tensor_segment(warp, low, high)
    first = int(addresses[0])
    if len(addresses) == 1 or (first == low and (np.diff(addresses) == moved.run_bytes).all()):
        return segment, slice(offset, offset + len(addresses) * moved.run_bytes)
    return segment, pieces(addresses - segment.base, moved.run_bytes)


def _tensor_segment(warp: Warp, low: int, high: int) -> tuple[Segment, int]:
    try:
        return locate(warp.cta.cluster, "global", low, high - low)
    except Finding as finding:
        finding.message = f"the tensor map reaches {finding.message}"
        raise


def _shared_place(moved: tensor_copy.Box, address: int) -> tuple[slice | np.ndarray, np.ndarray | None]:
    """The bytes of a CTA's shared memory that a box fills: a range, with the place of each piece in it, or offsets."""
    offsets = moved.shared_offsets.reshape(-1)
    size = offsets.size * moved.piece
    if not int(offsets.min()) and int(offsets.max()) + moved.piece == size:
        return slice(address, address + size), offsets // moved.piece
    return address + offsets[:, None] + np.arange(moved.piece), None


def _extent(at: slice | np.ndarray, address: int) -> int:
    end = at.stop if isinstance(at, slice) else int(at.max()) + 1
    return end - (address & _OFFSET)


def _store(instruction: Instruction, decoder: Decoder) -> Step:
    """cp.async.bulk.tensor.Nd.global.shared::cta [map, {c}], [src], and cp.reduce.async.bulk.tensor."""
    gathered = _gathered(instruction)
    modes = ("tile", "tile::scatter4", "im2col_no_offs")
    decoder.only(
        instruction,
        ("async", "bulk", "tensor", "reduce", "shared::cta", "global", *modes, "bulk_group", *_DIMS),
        ("L2::cache_hint", *_OPERATIONS),
    )
    offsets = () if instruction.has("im2col_no_offs") else None
    operation = next((m for m in instruction.modifiers if m in _OPERATIONS), None)
    (map_at, coordinates), origin = _map_operand(instruction, decoder, 0), decoder.address(instruction.operands[1])

    def run(warp: Warp) -> None:
        maps, origins = map_at(warp), origin(warp)
        places = [c(warp) for c in coordinates]
        for same in bulk.alike(warp, [maps, origins, *places], apart=operation is not None):
            lane = same[0]
            tensor_map = current_map(warp, int(maps[lane]))
            point = [int(place[lane]) for place in places]
            address = int(origins[lane]) & 0xFFFFFFFF
            start = address & _OFFSET
            moved = tensor_copy.box(tensor_map, point, start, gathered=gathered, storing=True, offsets=offsets)
            target = _source(warp, moved)
            shared, _ = locate(warp.cta.cluster, "shared", address, 16)
            if shared is not warp.cta.shared:
                raise Finding("bounds", "a tensor store from another CTA's shared memory", expected="the own CTA's")
            kept = _kept(moved)
            locate(warp.cta.cluster, "shared", address, int(moved.shared_offsets.max()) + moved.piece)
            sources = [(shared, pieces(start + kept, moved.piece))] if len(kept) else []

            def read(tensor_map=tensor_map, point=point, start=start, shared=shared) -> np.ndarray:
                def bytes_at(offsets: np.ndarray, count: int) -> np.ndarray:
                    return pick(shared.data, pieces(start + offsets, count)).reshape(len(offsets), count)

                return tensor_copy.store(tensor_map, point, start, bytes_at, gathered=gathered, offsets=offsets).data

            def write(data: np.ndarray, target=target, kind=tensor_map.element) -> None:
                if target is None:
                    return
                segment, at = target
                old = pick(segment.data, at)
                new = data.reshape(old.shape)
                if operation is not None:
                    new = reduce(operation, kind, old, new, TENSOR_REDUCTIONS)
                fill(segment.data, at, new)

            bulk.out_of_shared(
                warp,
                same,
                sources,
                read,
                [target] if target else [],
                write,
                "shared -> global (tensor)",
                reduces=operation is not None,
            )

    return run


def _kept(moved: tensor_copy.Box) -> np.ndarray:
    """Offsets of the pieces of a store that hold bytes in bounds."""
    if moved.low == moved.high:
        return moved.shared_offsets[:0].reshape(-1)
    first, last = moved.low // moved.piece, -(-moved.high // moved.piece)
    return moved.shared_offsets[moved.rows_in_bounds, first:last].reshape(-1)
