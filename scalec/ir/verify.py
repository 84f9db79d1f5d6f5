"""What the verifiers of both dialects share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

from scalec.ir.mlir import ext, ir
from scalec.targets import WARPGROUP


class Flag(ir.IntegerAttr):
    able, expected = range(2), "0 or 1"


class Natural(ir.IntegerAttr):
    able, expected = range(sys.maxsize), "at least 0"


class Count(ir.IntegerAttr):
    able, expected = range(1, sys.maxsize), "at least 1"


class Several(ir.IntegerAttr):
    able, expected = range(2, sys.maxsize), "at least 2"


class Offset(ir.IntegerAttr):
    """Of barriers in shared memory."""

    able, expected = range(0, sys.maxsize, 8), "a multiple of 8, the size of a barrier"


class Depth(ir.IntegerAttr):
    """Of a ring of which who waits keeps the parity of each stage's next round."""

    able, expected = range(1, 33), "1 to 32: the rounds of the stages are bits"


class Sharers(ir.IntegerAttr):
    """Threads of a warpgroup that share a row."""

    able, expected = tuple(x for x in range(1, WARPGROUP + 1) if WARPGROUP % x == 0), f"a divisor of {WARPGROUP}"


class Power(ir.IntegerAttr):
    able, expected = tuple(1 << x for x in range(31)), "a power of two"


class Few(ir.IntegerAttr):
    able, expected = (1, 2), "1 or 2"


class Transaction(ir.IntegerAttr):
    """Bytes that a barrier can expect (PTX ISA 9.7.13.15, mbarrier: range of the tx-count)."""

    able, expected = range(1, 1 << 20), f"1 to {(1 << 20) - 1}"


class Axis(ir.StringAttr):
    able, expected = ("m", "n"), "m or n"


class Reduction(ir.StringAttr):
    """What is computed of several values; "max" and "min" pass NaN on."""

    able, expected = ("sum", "max", "min"), "sum, max, min"


class Meeting(Reduction):
    """Likewise of what tiles that meet have; "sum_exp" is the sum of exp(x - the largest x)."""

    able, expected = (*Reduction.able, "sum_exp"), f"{Reduction.expected}, sum_exp"


class _Refused(Exception):
    """What a verifier says of an op that it refuses."""


def refuse(message: str) -> NoReturn:
    """Refuses the op that is verified."""
    raise _Refused(message)


@cache
def _attributes(kind: type[ir.OpView]) -> dict[str, Any]:
    return {f.name: f.constraint for f in kind._fields if isinstance(f, ext.AttributeDef)}


def verifier(*checks: Callable[[ir.OpView], object]) -> staticmethod:
    """A verifier of what these refuse. It says so where hand-written IR lacks what the accessors need, segment sizes
    or attributes."""

    def verify(op: ir.OpView) -> bool:
        attributes, wanted = op.operation.attributes, _attributes(type(op))
        try:
            if op._ODS_OPERAND_SEGMENTS and "operandSegmentSizes" not in attributes:
                refuse("needs operandSegmentSizes: how many operands each group has")
            missing = [name for name in wanted if name not in attributes]
            if missing:
                refuse(f"lacks attribute {', '.join(missing)}")
            for name, kind in wanted.items():
                if hasattr(kind, "able") and (value := kind(attributes[name]).value) not in kind.able:
                    shown = f'"{value}"' if isinstance(value, str) else value
                    refuse(f"{name} is {shown}, expected {kind.expected}")
            for check in checks:
                check(op)
            return True
        except _Refused as refused:
            said = str(refused)
        except (ValueError, TypeError, KeyError) as error:  # a cast of the bindings, or what it would have caught
            said = f"has an attribute of another kind than expected: {error}"
        op.location.emit_error(f"'{op.operation.name}' op {said}")
        return False

    return staticmethod(verify)
