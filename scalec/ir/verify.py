"""What the verifiers of both dialects share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps

from scalec.ir.mlir import ext, ir


def fail(op: ir.OpView, message: str) -> bool:
    """Reports `message` at the op and returns False, what a verifier returns on refusal."""
    op.location.emit_error(f"'{op.operation.name}' op {message}")
    return False


@cache
def _attributes(kind: type[ir.OpView]) -> list[str]:
    return [f.name for f in kind._fields if isinstance(f, ext.AttributeDef)]


def verifier(check: Callable[[ir.OpView], bool]) -> staticmethod:
    """A verifier that says so where hand-written IR lacks what the accessors need: segment sizes, attributes."""

    @wraps(check)
    def verify(op: ir.OpView) -> bool:
        attributes = op.operation.attributes
        if op._ODS_OPERAND_SEGMENTS and "operandSegmentSizes" not in attributes:
            return fail(op, "needs operandSegmentSizes: how many operands each group has")
        missing = [name for name in _attributes(type(op)) if name not in attributes]
        if missing:
            return fail(op, f"lacks attribute {', '.join(missing)}")
        try:
            return check(op)
        except (ValueError, TypeError, KeyError) as error:  # a cast of the bindings, or what it would have caught
            return fail(op, f"has an attribute of another kind than expected: {error}")

    return staticmethod(verify)
