"""Any name of the language may be that of a result or an operand; the entry's symbol is one that PTX allows."""

from __future__ import annotations

import pytest

from scalec.compiler import compile_source

# what PTX keeps for itself, the symbol of our shared memory, and names that mean something to LLVM, PTX or CUDA
NAMES = ["_", "WARP_SZ", "scalec_shared", "__", "wgmma", "add", "malloc", "vprintf", "memcpy", "llvm", "b32", "func"]


@pytest.mark.parametrize("name", NAMES)
def test_results(name: str) -> None:
    made = compile_source(f"{name}[m,n] = A[m,k]@B[n,k]", dims={"n": 64, "k": 64})
    assert made.spec is not None
    assert made.cubin is not None
    assert made.spec.results[0].name == name
    assert made.spec.entry == (f"scalec_entry_{name}" if name in NAMES[:3] else name)
    assert f".entry {made.spec.entry}(" in made.ptx
    assert made.spec.entry.encode() in made.cubin


@pytest.mark.parametrize("name", NAMES[:4])
def test_operands_and_dimensions(name: str) -> None:
    source = f"C[m,n] = {name}[m,k]@B[n,k] scale(1x128,128x128)"
    assert compile_source(source, dims={"n": 64, "k": 128}).cubin
    assert compile_source(f"C[{name},n] = x*A[{name},k]@B[n,k]", dims={"n": 64, "k": 64}).cubin
