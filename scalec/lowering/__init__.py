"""`tile` to a cubin: one folder per target, then LLVM, then ptxas. Takes no decision."""

from __future__ import annotations

from scalec.errors import UnsupportedError
from scalec.ir.mlir import ir
from scalec.lowering import sm90, sm100, sm120
from scalec.lowering.common import kernel as kernels
from scalec.targets import TARGETS

TABLES = {t.target: t for t in (sm90.TABLE, *sm100.TABLES, sm120.TABLE)}


def check(target: str) -> None:
    """Refuses a target that `tile` cannot be lowered for.

    Raises:
        UnsupportedError: no lowering for `target`.
    """
    if target not in TABLES:
        raise UnsupportedError(f"no lowering for {target}", expected=", ".join(TABLES), fix="name one of these")


def lower(kernel: ir.OpView, target: str) -> ir.Module:
    """The nvvm/llvm module of a `tile.kernel`.

    Raises:
        UnsupportedError: no lowering for `target`, or for one of the kernel's ops on it.
    """
    check(target)
    return kernels.lower(kernel, TARGETS[target], TABLES[target])
