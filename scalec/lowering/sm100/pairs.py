"""Pairs of CTAs that multiply together: their ranks in the cluster differ in the last bit (PTX ISA 9.7.16.5.1)."""

from __future__ import annotations

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.state import Ring, State
from scalec.lowering.sm100.table import TABLE


@TABLE.lowers("tile.pair_rank")
def pair_rank(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.b.and_(s.rank, 1)


@TABLE.lowers("tile.leader")
def leader(s: State, op: ir.OpView) -> None:
    """In the leader it is the CTA's own ring, by its address in the cluster."""
    b, ring = s.b, s.get(op.ring)
    even = b.and_(s.rank, ~1 & 0xFFFFFFFF)
    at = b.op("nvvm.mapa", [ir.Type.parse("!llvm.ptr<7>")], [b.address(3, ring.full), even])
    full = b.op("llvm.ptrtoint", [b.i32], [at])
    depth = tile.int_of(op.ring.owner.opview.depth)
    s.values[op.result] = Ring(full, b.add(full, 8 * depth), of_leader=True)


def pair_mask(s: State) -> ir.Value:
    """The CTAs of this one's pair, as a mask of ranks in the cluster."""
    b = s.b
    if s.ctas == 2:
        return b.constant(3, b.i16)
    even = b.and_(s.rank, ~1 & 0xFFFFFFFF)
    return b.op("arith.trunci", [b.i16], [b.op("arith.shli", [b.i32], [b.constant(3), even])])
