"""What a trampoline's block holds: its words, and what is written into parameters. scalec.runtime.trampoline fills it,
the code of scalec.runtime.trampoline_code reads it."""

from __future__ import annotations

CONSTANT, TENSOR_MAP, POINTER, F32, U64 = range(5)
"""What is written into a parameter at each launch: nothing, a tensor's address (into a tensor map; by itself), or a
number as f32 or as a 64-bit integer."""

CONFIG, ATTRIBUTE = 56, 72  # bytes of a CUlaunchConfig and of a CUlaunchAttribute (cuda.h, 64-bit)

FIELDS = (
    *("launch", "replace", "current", "context", "function", "tensors", "operands", "slots", "bytes"),
    *("check", "check_results", "checks", "refused", "address", "exchange", "wrote", "allocate", "stream", "ordinal"),
    *("work_stream", "device", "none", "tensors_at", "slots_at", "parameters_at", "attributes_at"),
    *("data_ptr", "dim", "sizes", "strides", "offset", "type_offset"),
)
"""The words that a trampoline's block begins with; those that end in `at` say where something begins in it. Python's
objects are those that are called, `ordinal` and `none`; `device` is two integers of 32 bits."""
HEAD = 8 * len(FIELDS)
TENSOR, SLOT = 5, 4
"""Words that the block has for each tensor and parameter: see scalec.runtime.trampoline_code."""
