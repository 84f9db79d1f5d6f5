"""Ops of `tile` for warpgroups that take whole tiles by turns: one stores its results while another multiplies."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import at_least, maker
from scalec.ir.tile_types import I32, CursorType, RingType, Tile, WindowType, int_of
from scalec.ir.verify import fail, verifier


class TurnRingOp(Tile.Operation, name="turn_ring"):
    """A ring whose stages go to `turns` warpgroups, a tile's to one of them, at byte `offset`: for each warpgroup full
    barriers of its own, one a stage, then one empty barrier a stage.

    A warpgroup that waits for its next stage may be any number of rounds of the ring ahead: a barrier that filled for
    others too would tell it no more than the parity of a round. Those who fill stages, and those who wait for them,
    say whose they are by `of_turn`.
    """

    result: ext.Result[RingType]
    offset: ir.IntegerAttr
    depth: ir.IntegerAttr
    full: ir.IntegerAttr
    empty: ir.IntegerAttr
    turns: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        if int_of(op.offset) % 8:
            return fail(op, f"offset {int_of(op.offset)} is not a multiple of 8, the size of a barrier")
        if int_of(op.depth) > 32:
            return fail(op, f"depth is {int_of(op.depth)}, expected at most 32: the rounds of the stages are bits")
        return at_least(op, 0, "offset") and at_least(op, 1, "depth", "full", "empty") and at_least(op, 2, "turns")


class OfTurnOp(Tile.Operation, name="of_turn"):
    """The ring as the warpgroup sees it that `turn`, a cursor of as many stages as there are turns, is at."""

    ring: ext.Operand[RingType]
    turn: ext.Operand[CursorType]
    result: ext.Result[RingType]

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        ring, turn = op.ring.owner, maker(op.turn, "tile.cursor")
        if isinstance(ring, ir.Block) or ring.name != "tile.turn_ring":
            return fail(op, "ring is not made by tile.turn_ring, which has barriers for each turn")
        if turn is not None and int_of(turn.depth) != int_of(ring.opview.turns):
            return fail(op, f"turn goes through {int_of(turn.depth)}, the ring has {int_of(ring.opview.turns)} turns")
        return True


class WarpgroupOp(Tile.Operation, name="warpgroup"):
    """Index of this warpgroup within its role."""

    result: ext.Result[I32]


class SkipOp(Tile.Operation, name="skip"):
    """Moves the cursor on by `count` stages, which are other warpgroups', or nobody's who walks so."""

    cursor: ext.Operand[CursorType]
    count: ext.Operand[I32]


class SkipWindowsOp(Tile.Operation, name="skip_windows"):
    """Moves on by `count` windows, which are other warpgroups'; the next `open_window` opens the one behind them."""

    window: ext.Operand[WindowType]
    count: ext.Operand[I32]
