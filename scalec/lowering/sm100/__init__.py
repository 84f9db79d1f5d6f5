"""Lowering of `tile` to nvvm and llvm for sm_100a and sm_103a: tensor memory and tcgen05, beside what all share."""

from scalec.lowering.sm100 import arithmetic, multiply, pairs, scale_words, store, tensor_memory  # noqa: F401 - they fill the table
from scalec.lowering.sm100.table import TABLE

TABLES = (TABLE, TABLE.extended("sm_103a"))

__all__ = ["TABLES"]
