"""Copies into shared memory, and scales fetched into registers, on sm_90a."""

from __future__ import annotations

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import CLUSTER, SHARED
from scalec.lowering.sm90.state import TABLE, Buffer, State


@TABLE.lowers("tile.shared")
def shared(s: State, op: ir.OpView) -> None:
    s.values[op.result] = Buffer(s.b.add(s.shared, tile.int_of(op.offset)), op.result.type)


@TABLE.lowers("tile.copy")
def copy(s: State, op: ir.OpView) -> None:
    b, cursor = s.b, s.get(op.cursor)
    multicast = tile.int_of(op.multicast) and s.ctas > 1
    barrier = b.add(s.get(op.ring).full, b.shl(cursor.stage.get(), 3))
    target = s.get(op.target).address(b, cursor)

    def issue() -> None:
        operands = [b.address(CLUSTER, target), s.get(op.source), s.get(op.x), s.get(op.y), b.address(SHARED, barrier)]
        operands = [b.value(v) for v in operands]
        if multicast:
            operands.append(b.constant((1 << s.ctas) - 1, b.i16))
        b.op(
            "nvvm.cp.async.bulk.tensor.shared.cluster.global",
            [],
            operands,
            isCTAOnly=ir.BoolAttr.get(False),
            mode=ir.Attribute.parse("#nvvm.tma_load_mode<tile>"),
            operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, 1, 2, 1, 0, int(bool(multicast)), 0, 0]),
        )

    if multicast:
        with b.when(b.compare("eq", s.rank, 0)):
            issue()
    else:
        issue()


@TABLE.lowers("tile.copy_rows")
def copy_rows(s: State, op: ir.OpView) -> None:
    b = s.b
    count = tile.shape_of(op.target.type)[1]
    base = b.add(s.get(op.target).address(b, s.get(op.cursor)), b.shl(s.lane, 2))
    column = _scaled(s, b.div(s.get(op.k0), tile.int_of(op.block)), s.get(op.k_stride))
    source = b.offset(s.get(op.source), column, b.f32)
    last = b.sub(s.get(op.rows), 1)
    for first in range(0, count, 32):
        row = b.min(b.add(s.get(op.row0), b.add(s.lane, first)), last)
        address = b.offset(source, _scaled(s, row, s.get(op.row_stride)), b.f32)
        operands = [b.add(base, 4 * first), b.op("llvm.ptrtoint", [b.i64], [address])]
        guard = ""
        if first + 32 > count:
            operands.append(b.compare("lt", s.lane, count - first))
            guard = "@$2 "
        b.asm(f"{guard}cp.async.ca.shared.global [$0], [$1], 4;", [], operands)


def _scaled(s: State, index: ir.Value | int, stride: ir.Value | int) -> ir.Value:
    """index * stride as i64."""
    b = s.b
    wide = b.widen(index)
    return wide if isinstance(stride, int) and stride == 1 else b.mul(wide, stride)


@TABLE.lowers("tile.scalars")
def scalars(s: State, op: ir.OpView) -> None:
    s.values[op.result] = [s.b.variable(s.b.f32, 0.0) for _ in range(tile.int_of(op.count))]


@TABLE.lowers("tile.fetch")
def fetch(s: State, op: ir.OpView) -> None:
    """Predicated loads, no branch (rule 3): they are issued between a wgmma and its promotion."""
    b = s.b
    k0 = s.get(op.k0)
    inside = b.compare("lt", k0, s.get(op.k))
    column = _scaled(s, b.div(k0, tile.int_of(op.k_block)), s.get(op.k_stride))
    source = b.offset(s.get(op.source), column, b.f32)
    row0, last = s.get(op.row0), b.sub(s.get(op.rows), 1)
    own = tile.int_of(op.own)
    if own:
        row0 = b.add(row0, b.mul(s.warpgroup, own))
    for i, room in enumerate(s.get(op.into)):
        row = b.div(b.min(b.add(row0, i * tile.int_of(op.spacing)), last), tile.int_of(op.row_block))
        address = b.offset(source, _scaled(s, row, s.get(op.row_stride)), b.f32)
        pointer = b.op("llvm.ptrtoint", [b.i64], [address])
        loaded = b.asm("@$2 ld.global.nc.f32 $0, [$1];", [b.f32], [pointer, inside, room.get()], tied=1)
        room.set(loaded[0])
