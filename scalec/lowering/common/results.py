"""Tiles of results, and of what they are computed of, that are loaded into shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import CLUSTER, SHARED
from scalec.lowering.common.copies import MapView
from scalec.lowering.common.staging import Load, Staging, store_box
from scalec.lowering.common.state import COMMON, State


def _boxes(s: State, op: ir.OpView, boxes: ir.Value) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """(first column, first row, shared address) of the op's box of each warpgroup or warp, whose own slots lie one
    behind the other."""
    b, (along_m, along_n), (rows, columns) = s.b, s.geometry.units, tile.ints_of(op.tile)
    (width, tall), cursor = tile.shape_of(boxes.type), s.get(op.cursor)
    own = tile.stage_bytes(op.staging.type) // (along_m * along_n)
    slot = b.add(s.get(op.staging).base, b.mul(cursor.at(), own // cursor.depth))
    down, across = divmod(tile.int_of(op.index), columns // along_n // width)
    for unit in range(along_m * along_n):
        n, m = divmod(unit, along_m)
        x = b.add(s.get(op.n0), n * columns // along_n + across * width)
        y = b.add(s.get(op.m0), m * rows // along_m + down * tall)
        yield x, y, b.add(slot, unit * own)


EVICT_FIRST = 0x12F0000000000000
"""What `createpolicy.fractional.L2::evict_first` makes (PTX ISA, createpolicy), as CUTLASS has it: as a constant."""


def _once(s: State, op: ir.OpView) -> list[ir.Value]:
    """The cache policy of a copy, if it has one."""
    return [s.b.constant(EVICT_FIRST, s.b.i64)] if "once" in op.operation.attributes else []


@COMMON.lowers("tile.load_box")
def load_box(s: State, op: ir.OpView) -> None:
    b, space = s.b, CLUSTER if s.target.max_cluster > 1 else SHARED  # as tile.copy
    barrier = b.address(SHARED, b.add(s.get(op.ring).full, b.shl(s.get(op.cursor).at(), 3)))
    source = MapView.of(s, op.source)
    for x, y, address in _boxes(s, op, op.source):
        b.op(
            "nvvm.cp.async.bulk.tensor.shared.cluster.global",
            [],
            [b.value(v) for v in (b.address(space, address), source.map, x, y, *source.at, barrier, *_once(s, op))],
            isCTAOnly=ir.BoolAttr.get(space == SHARED),
            mode=ir.Attribute.parse("#nvvm.tma_load_mode<tile>"),
            operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, 1, 2 + len(source.at), 1, 0, 0, len(_once(s, op)), 0]),
        )


@COMMON.lowers("tile.store_result")
def store_result(s: State, op: ir.OpView) -> None:
    b = s.b
    target = MapView.of(s, op.target)
    for x, y, address in _boxes(s, op, op.target):
        store_box(s, target, b.address(SHARED, address), x, y, policy=_once(s, op))
    b.op("nvvm.cp.async.bulk.commit.group", [], [])


@COMMON.lowers("tile.await_stores")
def await_stores(s: State, op: ir.OpView) -> None:
    group = ir.IntegerAttr.get(s.b.i32, tile.int_of(op.pending))
    s.b.op("nvvm.cp.async.bulk.wait_group", [], [], group=group, read=ir.UnitAttr.get())


@COMMON.lowers("tile.add_loaded")
def add_loaded(s: State, op: ir.OpView) -> None:
    """All loads of the box first. Each thread makes its own writes known to copies, and one arrives for the warp."""
    b, fragment, cursor = s.b, s.get(op.accumulator), s.get(op.cursor)
    staging = Staging.of(s, op)
    slot = b.mul(cursor.at(), staging.tall * staging.pitch)
    staging = replace(staging, at=b.add(staging.at, slot))
    down, across = divmod(tile.int_of(op.index), staging.columns // staging.width)
    together = staging.tall // staging.rows
    load = Load(range(down * together, (down + 1) * together), range(across, across + 1), 0, 0)
    places = list(staging.pairs(s, fragment, load))
    there = [b.asm(f"ld.shared.v2.f32 {{$0, $1}}, [$2 + {below}];", [b.f32] * 2, [at]) for at, below, _ in places]
    for (at, below, registers), loaded in zip(places, there, strict=True):
        sums = [b.op("llvm.fadd", [b.f32], [r.get(), x]) for r, x in zip(registers, loaded, strict=True)]
        b.asm(f"st.shared.v2.f32 [$0 + {below}], {{$1, $2}};", [], [at, *sums])
    _hand_back(s, b.add(s.get(op.ring).empty, b.shl(cursor.at(), 3)))


def _hand_back(s: State, first: ir.Value, slots: int = 1) -> None:
    """What this thread has written is made known to copies, and a warp's slots are handed back at barriers from the
    `first` on."""
    b = s.b
    b.asm("fence.proxy.async.shared::cta;")
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    for i in range(slots):
        text = f"@$1 mbarrier.arrive.shared::cta.b64 _, [$0{f' + {8 * i}' * bool(i)}];"
        b.asm(text, [], [first, b.compare("eq", s.lane, 0)])


@COMMON.lowers("tile.put_result")
def put_result(s: State, op: ir.OpView) -> None:
    """All boxes behind one fence."""
    staging = Staging.of(s, op)
    for load in staging.loads():
        staging.put(s, s.get(op.accumulator), load)
    slots = len(s.get(op.accumulator).waves) * staging.rows // staging.tall * staging.columns // staging.width
    _hand_back(s, s.b.value(s.get(op.ring).empty), slots)
