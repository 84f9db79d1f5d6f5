"""Lowering of `tile` to nvvm and llvm for sm_90a: wgmma, beside what all targets share."""

from scalec.lowering.sm90 import converted, multiply, powers, transformed  # noqa: F401 - it fills the table
from scalec.lowering.sm90.table import TABLE

__all__ = ["TABLE"]
