"""Ops of `tile` about launches: kernels that begin before the one before them has ended, and clusters that take over
the work of one that has not begun (cluster launch control)."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, StageOp, in_step
from scalec.ir.tile_types import I32, RESPONSE_BYTES, CursorType, ResponsesType, RingType, int_of
from scalec.ir.verify import Count, refuse


class DependOp(Op, name="depend"):
    """All threads: lets the next kernel of the stream be launched, and waits until the one before this has ended and
    what it wrote is there. Before it, nothing may be read or written that another kernel writes."""


class StaggerOp(Op, name="stagger"):
    """All threads: the launch's cluster number i goes on i times `cycles` of the SM's clock later."""

    cycles: Count


class ResponsesOp(Op, name="responses"):
    """Room for responses in shared memory, from byte `offset` on: a stage of its ring each."""

    result: ext.Result[ResponsesType]
    offset: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        offset, stages = int_of(op.offset), int_of(op.result.type.stages)
        if offset % RESPONSE_BYTES or offset < 0:
            refuse(f"offset {offset} is not a multiple of {RESPONSE_BYTES}, the size of a response")
        if stages <= 0:
            refuse(f"has {stages} stages, expected at least 1")


class TryCancelOp(StageOp, name="try_cancel"):
    """One thread of each CTA: asks for the work of a cluster that has not begun; the response comes to the stage of
    every CTA of the cluster. The first of them asks, once all have handed the stage back to it (`query_cancel`)."""

    responses: ext.Operand[ResponsesType]

    verify_invariants = staticmethod(lambda op: _once_a_tile(op))


class QueryCancelOp(Op, name="query_cancel"):
    """Reads the response of the stage, which is full, and hands the stage back to the cluster's first CTA.

    Its result is the number of the cluster whose work this one takes over, all ones where there is none: `tile.tiles`
    then goes on with that cluster's tile, or ends.
    """

    following: ext.Result[I32]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    responses: ext.Operand[ResponsesType]

    verify_invariants = staticmethod(lambda op: _once_a_tile(op))


def _once_a_tile(op: ir.OpView) -> None:
    """Refuses an op that does not stand in the body of `tile.tiles` itself, or there in one thread of a warp, and one
    whose cursor goes through other stages than its responses."""
    parent = op.operation.parent
    if parent is not None and parent.name == "tile.elect" and op.operation.name == "tile.try_cancel":
        parent = parent.parent
    if parent is None or parent.name != "tile.tiles":
        refuse("is not in the body of a tile.tiles")
    in_step(op, None, op.responses)
