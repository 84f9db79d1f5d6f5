"""Ops of `tile` for what one iteration of a loop leaves to the next in registers."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op
from scalec.ir.tile_types import RelayType
from scalec.ir.verify import refuse


class StartRelayOp(Op, name="start_relay"):
    """Room for a value of a type, where nothing is at first."""

    result: ext.Result[RelayType]


class LeaveOp(Op, name="leave"):
    """Leaves a value there, in place of the one that was."""

    relay: ext.Operand[RelayType]
    value: ext.Operand[Any]

    verify_invariants = staticmethod(lambda op: _alike(op, op.relay, op.value.type))


class LeftOp(Op, name="left"):
    """What was left there last."""

    relay: ext.Operand[RelayType]
    result: ext.Result[Any]

    verify_invariants = staticmethod(lambda op: _alike(op, op.relay, op.result.type))


def _alike(op: ir.OpView, relay: ir.Value, wanted: ir.Type) -> None:
    """Refuses a type that is not that of what is put there."""
    put = {str(use.owner.opview.value.type) for use in relay.uses if use.owner.operation.name == "tile.leave"}
    if not put <= {str(wanted)}:
        refuse(f"is of {wanted}, and the relay of {' and '.join(sorted(put))}")
