"""Machine code of programs without a contraction: loads and stores of 16 bytes, nothing spilled."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.pointwise import PROGRAMS, K
from benchmarks.sass_flow import Instruction, parse
from scalec.commands.sass import disassemble
from scalec.compiler import compile_source

TARGETS = ("sm_90a", "sm_100a", "sm_120a")

EVERY = PROGRAMS | {
    "both 1x128": "Q[m,k]:e4m3 scale(1x128) = X[m,k]; T[k,m]:e4m3 scale(1x128) = X[m,k]",
    "requantised, turned": "T[k,m]:e4m3 scale(1x128) = X[m,k]:e4m3 scale(1x128)",
    "gathered mxfp8": "Q[m,k]:mxfp8 = X[idx[m],k]",
    "gathered, turned": "T[k,m]:e4m3 scale(1x128) = X[idx[m],k] * w[m]",
    "scattered": "Y[idx[m],k] = X[m,k]",
}

NARROW = {"quantise nvfp4": 8, "quantise f32": 8, "quantise mxfp6": 4, "turned mxfp6": 4}
"""Bytes of the widest stores of those whose threads have less of a row than 16 bytes, or 12, 24."""
HALF = {"dequantise": 8, "dequantise u4": 4, "dequantise GPTQ": 4}
"""Bytes of the widest loads of those whose threads have 16 bytes of the wider elements that they store."""
BESIDE = {"quantise nvfp4": 1, "dequantise": 2, "requantised, turned": 2, "gathered mxfp8": 1, "scattered": 1}
BESIDE |= {"gathered, turned": 4, "gathered": 1, "gathered 1x128": 1, "gathered gate": 1, "scattered mxfp8": 1}
BESIDE |= {"ragged mxfp8": 2, "ragged gathered": 3, "ragged turned": 1, "masked 1x128": 1}
BESIDE |= {"dequantise u4": 4, "dequantise GPTQ": 4, "dequantise AWQ": 18}
"""Narrower loads that there are: scales, zero points, the second level, indices, offsets, weights; of these alone."""

_WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}


def bytes_of(x: Instruction) -> int:
    """What a load or a store moves for a thread."""
    return next((n for name, n in _WIDTHS.items() if name in x.opcode.split(".")), 4)


@pytest.mark.thorough
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EVERY)
def test_loads_and_stores_are_wide(name: str, target: str, toolchain: None) -> None:
    made = compile_source(EVERY[name], target, {"k": K})
    assert made.cubin is not None
    (function,) = parse(disassemble(made.cubin, encoding=True))
    assert not [x for x in function.instructions if x.kind == "local"]
    loads, stores = (Counter(bytes_of(x) for x in function.instructions if x.stem == s) for s in ("LDG", "STG"))
    widest = HALF.get(name, 16)
    assert max(loads) == widest
    assert loads.total() - loads[widest] <= BESIDE.get(name, 0), loads
    assert max(stores) == NARROW.get(name, 16), stores
