"""Lowering of `tile` to nvvm and llvm for sm_120a: ldmatrix and mma.sync, beside what all targets share."""

from scalec.lowering.sm120 import control, multiply  # noqa: F401 - they fill the table
from scalec.lowering.sm120.table import TABLE

__all__ = ["TABLE"]
