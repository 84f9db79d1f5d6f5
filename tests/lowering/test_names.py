"""Any name of the language may be that of a result or an operand; the entry's symbol is one that PTX allows."""

from __future__ import annotations

import pytest

from scalec import compiler
from scalec.compiler import compile_source
from scalec.lowering.ptxas import Assembled

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


# M, N, K and a batch by place: contiguous along K, along M and N, in each order of the result, with scales of each kind
RENAMED = {
    "along M and N": "C[{0},{1}] = A[{2},{0}] @ B[{2},{1}]",
    "along M and N, with scales": "C[{1},{0}]:f32 = A[{2},{0}]:e4m3 @ B[{2},{1}]:e4m3 scale(32x1:ue8m0,32x1:ue8m0@col)",
    "along M": "C[{3},{0},{1}] = A[{3},{2},{0}] @ B[{3},{1},{2}] + x[{0}]",
    "along K": "C[{1},{3},{0}] += A[{3},{0},{2}]@B[{3},{1},{2}] scale({0}x128,1x{2}) * x[{1}/2,{0}%4]",
    "quantised": "C[{0},{1}]:mxfp8 = A[{0},{2}] @ B[{1},{2}]",
    "two of K": "C[{0},{1}]:f32 = A[{3},{0},{2}] @ B[{1},{3},{2}]",
}


@pytest.mark.once("name", "target", "names")
@pytest.mark.parametrize("names", ["kmnb", "nkmb", "bnmk"])
@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", RENAMED)
def test_what_dimensions_are_called_is_all_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str, target: str, names: str
) -> None:
    monkeypatch.setattr(compiler.ptxas, "assemble", lambda *_: Assembled(b"", 0))

    def ptx(names: str) -> str:
        sizes = {names[i]: size for i, size in ((1, 64), (2, 256), (3, 3)) if f"{{{i}}}" in RENAMED[name]}
        return compile_source(RENAMED[name].format(*names), target, sizes).ptx

    assert ptx(names) == ptx("mnkb")
