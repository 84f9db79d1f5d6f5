"""Rows that end in half a byte: in which sums what lies behind them meets zeros."""

from __future__ import annotations

from scalec.errors import UnsupportedError
from scalec.passes.problem.types import Problem


def check_half_bytes(product: Problem, whole: Problem) -> None:
    """Refuses a product whose rows end so where the sum of the `whole` problem goes on behind them, and converted
    operands that both do: one alone meets zeros.

    Raises:
        UnsupportedError: with the place of the contraction.
    """
    k, fix = product.k, f"pad {product.k.name} with zeros in both operands"
    others = [d.name for d in whole.dims[3:] if d not in (k, *whole.outer)]
    if others and product.half_bytes:
        raise UnsupportedError(
            f"rows of {k.name} = {k.size} end in half a byte, and sums run over {others[0]} too",
            expected=f"an even {k.name}",
            fix=fix,
            place=product.written,
        )
    packed = [x for x in (product.lhs, product.rhs) if x.stored.bits < 8]
    if product.converts and len(packed) > 1 and k.size is not None and k.size * packed[0].stored.bits % 8:
        raise UnsupportedError(
            f"rows of {k.name} = {k.size} end in half a byte, of {packed[0].name} and of {packed[1].name}",
            expected=f"an even {k.name}",
            fix=fix,
            place=product.written,
        )
