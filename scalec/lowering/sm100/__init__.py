"""Lowering of `tile` to nvvm and llvm for sm_100a: tensor memory and tcgen05, beside what all targets share."""

from scalec.lowering.sm100 import multiply, scale_words, tensor_memory  # noqa: F401 - they fill the table
from scalec.lowering.sm100.table import TABLE

__all__ = ["TABLE"]
