"""`scalec grad`: the programs of a program's gradients."""

from __future__ import annotations

from collections.abc import Sequence


def print_gradients(
    source: str,
    wrt: Sequence[str] | None,
    quantize: str | None,
    types: dict[str, str],
    once: Sequence[str],
    *,
    straight_through: bool,
) -> None:
    """Prints them, with comments that say what each reads.

    Raises:
        ScalecError: what scalec.grad refuses.
    """
    from scalec.gradients import grad

    made = grad(source, wrt=wrt, quantize=quantize, types=types, straight_through=straight_through, once=once)
    print(made, end="")
