"""Warpgroups that take whole tiles by turns: whose a stage is, and positions that pass over other warpgroups' tiles."""

from __future__ import annotations

from dataclasses import replace

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.state import COMMON, State


@COMMON.lowers("tile.warpgroup")
def warpgroup(s: State, op: ir.OpView) -> None:
    s.values[op.result] = s.turn


@COMMON.lowers("tile.of_turn")
def of_turn(s: State, op: ir.OpView) -> None:
    b, ring, depth = s.b, s.get(op.ring), tile.int_of(op.ring.owner.opview.depth)
    s.values[op.result] = replace(ring, full=b.add(ring.full, b.mul(s.get(op.turn).stage.get(), 8 * depth)))
    if op.ring in s.remote_empty:
        s.remote_empty[op.result] = s.remote_empty[op.ring]


@COMMON.lowers("tile.skip")
def skip(s: State, op: ir.OpView) -> None:
    """What a peek has seen was another warpgroup's stage."""
    b, c, count = s.b, s.get(op.cursor), s.get(op.count)
    at = b.add(c.stage.get(), count)
    rounds = b.div(at, c.depth)
    c.stage.set(b.sub(at, b.mul(rounds, c.depth)))
    if c.rounds is None:
        c.phase.set(b.xor(c.phase.get(), b.and_(rounds, 1)))
    if c.ready is not None:
        c.ready.set(0)


@COMMON.lowers("tile.skip_windows")
def skip_windows(s: State, op: ir.OpView) -> None:
    """Also from within a window, of which the next `open_window` leaves the rest."""
    w = s.get(op.window)
    w.at.set(s.b.add(w.at.get(), s.b.mul(s.get(op.count), w.blocks)))
