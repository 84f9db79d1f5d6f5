"""Rows that end in half a byte: in which sums what lies behind them meets zeros."""

from __future__ import annotations

from scalec.errors import UnsupportedError
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem


def cut_converted(product: Problem) -> list[Operand]:
    """The operands of which the other half is zeroed on its way to what is multiplied: where both are stored so, all
    that are converted plainly. A scale that is folded in may make infinity of it, so that one zero is not enough."""
    k, both = product.k.size, (product.lhs, product.rhs)
    if not product.converts or k is None or not all(x.stored.bits < 8 and k * x.stored.bits % 8 for x in both):
        return []
    able = [x.converted and x.zeros is None and not (x.transformed or x.others or x.in_words or x.turned) for x in both]
    if product.range_of_k is not None or not all(x or y.folded is None for x, y in zip(able, both, strict=True)):
        return []
    return [x for x, y in zip(both, able, strict=True) if y]


def check_half_bytes(product: Problem, whole: Problem) -> None:
    """Refuses a product whose rows end so where the sum of the `whole` problem goes on behind them, and converted
    operands that both do and are not cut (`cut_converted`): one alone meets zeros.

    Raises:
        UnsupportedError: with the place of the contraction.
    """
    k, fix = product.k, f"pad {product.k.name} with zeros in both operands"
    others = [d.name for d in whole.dims[3:] if d not in (k, *whole.outer)]
    cut = cut_converted(product)
    if others and (product.half_bytes or cut):
        raise UnsupportedError(
            f"rows of {k.name} = {k.size} end in half a byte, and sums run over {others[0]} too",
            expected=f"an even {k.name}",
            fix=fix,
            place=product.written,
        )
    packed = [x for x in (product.lhs, product.rhs) if x.stored.bits < 8]
    less = [x for x in packed if x.turned and x.zeros is not None]
    if less and len(packed) > 1 and k.size is None:  # which tells an odd one, too
        (other,) = (x for x in packed if x is not less[0])
        if not other.turned:
            raise UnsupportedError(
                f"rows of {other.name} may end in half a byte, and {less[0].name} is less its zero points there",
                got=f"{k.name} of unknown size",
                expected=f"a size of {k.name} that is given",
                fix=f"give {k.name} in dims",
                place=product.written,
            )
    cut = [] if len(whole.products) > 1 else cut
    if product.converts and not cut and len(packed) > 1 and k.size is not None and k.size * packed[0].stored.bits % 8:
        raise UnsupportedError(
            f"rows of {k.name} = {k.size} end in half a byte, of {packed[0].name} and of {packed[1].name}",
            expected=f"an even {k.name}",
            fix=fix,
            place=product.written,
        )
