"""What the verifiers of both dialects share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from scalec.ir.mlir import ir


def fail(op: ir.OpView, message: str) -> bool:
    """Reports `message` at the op and returns False, what a verifier returns on refusal."""
    op.location.emit_error(f"'{op.operation.name}' op {message}")
    return False


def verifier(check: Callable[[ir.OpView], bool]) -> staticmethod:
    """A verifier that says so where hand-written IR lacks the segment sizes that the accessors need."""

    @wraps(check)
    def verify(op: ir.OpView) -> bool:
        if op._ODS_OPERAND_SEGMENTS and "operandSegmentSizes" not in op.operation.attributes:
            return fail(op, "needs operandSegmentSizes: how many operands each group has")
        return check(op)

    return staticmethod(verify)
