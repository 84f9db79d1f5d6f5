"""`tile` to a cubin: one module per target, then LLVM, then ptxas. Takes no decision."""

from __future__ import annotations

from collections.abc import Callable

from scalec.errors import UnsupportedError
from scalec.ir.mlir import ir
from scalec.lowering import sm90

TARGETS: dict[str, Callable[[ir.OpView], ir.Module]] = {"sm_90a": sm90.lower}


def check(target: str) -> None:
    """Refuses a target that `tile` cannot be lowered for.

    Raises:
        UnsupportedError: no lowering for `target`.
    """
    if target not in TARGETS:
        raise UnsupportedError(f"no lowering for {target}", expected=", ".join(TARGETS), fix="name one of these")


def lower(kernel: ir.OpView, target: str) -> ir.Module:
    """The nvvm/llvm module of a `tile.kernel`.

    Raises:
        UnsupportedError: no lowering for `target`, or for one of the kernel's ops on it.
    """
    check(target)
    return TARGETS[target](kernel)
