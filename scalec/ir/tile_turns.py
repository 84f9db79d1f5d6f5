"""Ops of `tile` for warpgroups that take whole tiles by turns: one stores its results while another multiplies."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, maker
from scalec.ir.tile_types import I32, CursorType, RingType, WindowType, int_of
from scalec.ir.verify import Count, Depth, Offset, Several, refuse


class TurnRingOp(Op, name="turn_ring"):
    """A ring whose stages go to `turns` warpgroups, a tile's to one of them, at byte `offset`: for each warpgroup full
    barriers of its own, one a stage, then one empty barrier a stage.

    A warpgroup that waits for its next stage may be any number of rounds of the ring ahead: a barrier that filled for
    others too would tell it no more than the parity of a round. Those who fill stages, and those who wait for them,
    say whose they are by `of_turn`.
    """

    result: ext.Result[RingType]
    offset: Offset
    depth: Depth
    full: Count
    empty: Count
    turns: Several


class OfTurnOp(Op, name="of_turn"):
    """The ring as the warpgroup sees it that `turn`, a cursor of as many stages as there are turns, is at."""

    ring: ext.Operand[RingType]
    turn: ext.Operand[CursorType]
    result: ext.Result[RingType]

    def verify_invariants(op: ir.OpView) -> None:
        ring, turn = op.ring.owner, maker(op.turn, "tile.cursor")
        if isinstance(ring, ir.Block) or ring.name != "tile.turn_ring":
            refuse("ring is not made by tile.turn_ring, which has barriers for each turn")
        if turn is not None and int_of(turn.depth) != int_of(ring.opview.turns):
            refuse(f"turn goes through {int_of(turn.depth)}, the ring has {int_of(ring.opview.turns)} turns")


class WarpgroupOp(Op, name="warpgroup"):
    """Index of this warpgroup within its role."""

    result: ext.Result[I32]


class SkipOp(Op, name="skip"):
    """Moves the cursor on by `count` stages, which are other warpgroups', or nobody's who walks so."""

    cursor: ext.Operand[CursorType]
    count: ext.Operand[I32]


class SkipWindowsOp(Op, name="skip_windows"):
    """Moves on by `count` windows, which are other warpgroups'; the next `open_window` opens the one behind them."""

    window: ext.Operand[WindowType]
    count: ext.Operand[I32]
