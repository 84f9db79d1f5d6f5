"""`scalec grad`: the programs of a program's gradients."""

from __future__ import annotations

from typing import Any


def print_gradients(source: str, **said: Any) -> None:
    """Prints them, with comments that say what each reads; `said` is what scalec.grad is told.

    Raises:
        ScalecError: what scalec.grad refuses.
    """
    from scalec.gradients import grad

    print(grad(source, **said), end="")
