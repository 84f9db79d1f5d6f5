"""Programs with groups as ops of torch's, on the emulator: what they say that they write, shapes without memory, and
calls that torch.compile reads as one graph."""

from __future__ import annotations

from itertools import cycle

import pytest

import scalec
from scalec.runtime.kernel import Kernel
from scalec.runtime.sequence import Sequence

torch = pytest.importorskip("torch")

from scalec.bench.inputs import make_inputs  # noqa: E402

ROWS, OF_K = "for m in off[g]:off[g+1]", "for k in off[g]:off[g+1]"
FP8, BLOCK = "scale(1x128,1x128x128)", "e4m3 scale(1x32:ue8m0@blocked)"
SIZES = {"m": 48, "n": 64, "k": 128, "g": 3, "A_0": 40, "B_0": 3, "C_0": 60, "D_0": 60, "t": 10, "j": 2}

PROGRAMS = {
    "whole blocks": f"C[m,n] = A[m,k] @ B[e[m/128],n,k] {FP8}",
    "blocks of 8": "C[m,n] = A[m,k] @ B[e[m/8],n,k]",
    "masked": "C[g,m,n] = A[g,m,k] @ B[g,n,k] scale(1x1x128,1x128x128) for m < rows[g]",
    "masked @col": "C[g,m,n] = A[g,m,k] @ B[g,n,k] scale(1x1x128@col,1x128x128) for m < rows[g] about 20",
    "ragged": f"C[m,n] = A[m,k] @ B[g,n,k] {FP8} {ROWS}",
    "ragged, a promise": f"C[m,n] = A[m,k] @ B[g,n,k] {ROWS} by 16",
    "ragged, apart": f"C[m,n] = A[m,k] @ B[g,n,k] scale(128x128,1x128x128) {ROWS} apart",
    "ragged, of 4 bits": f"C[m,n] = A[m,k]:nvfp4 @ B[g,n,k]:nvfp4 {ROWS}",
    "ragged, converted": f"C[m,n] = A[m,k]:bf16 @ B[g,n,k]:i4 scale(none,1x1x64:bf16) {ROWS}",
    "ragged, +=": f"C[m,n]:f32 += A[m,k] @ B[g,n,k] {ROWS}",
    "gathered": "C[m,n] = A[idx[m],k] @ B[n,k]",
    "gathered, ragged": f"C[m,n] = A[idx[m],k] @ B[g,n,k] {FP8} {ROWS}",
    "gathered, whole blocks": f"C[m,n] = A[idx[m],k] @ B[e[m/128],n,k] {FP8}",
    "scattered": "C[idx[m],n] = A[m,k] @ B[n,k]",
    "scattered, weighed": f"C[idx[m],n] = r[m] * (A[m,k] @ B[g,n,k]) {ROWS}",
    "scattered, +=": f"C[idx[m],n]:f32 += A[m,k] @ B[g,n,k] {ROWS}",
    "gathered and scattered": f"C[to[m],n] = A[idx[m],k] @ B[g,n,k] {ROWS}",
    "along K": f"C[g,m,n] = A[m,k] @ B[n,k] scale(1x128@col,1x128@col) {OF_K}",
    "along K, +=": f"C[g,m,n]:f32 += A[m,k] @ B[n,k] {OF_K}",
    "along K, apart": f"C[g,m,n]:f32 += A[m,k] @ B[n,k] scale(1x128@col,1x128@col) {OF_K} by 16 apart",
    "along K, by M and N": f"C[g,m,n]:f32 = A[k,m] @ B[k,n] {OF_K}",
    "mxfp8 result": f"D[m,n]:mxfp8 = A[m,k] @ B[g,n,k] {ROWS}",
    "nvfp4 result": "D[m,n]:nvfp4 = A[m,k] @ B[e[m/16],n,k]",
    "masked result": "D[g,m,n]:mxfp8 = A[g,m,k] @ B[g,n,k] for m < rows[g]",
    "scattered result": f"D[idx[m],n]:mxfp8 = A[m,k] @ B[g,n,k] {ROWS}",
    "result by tiles of groups": f"D[m,n]:{BLOCK} = A[m,k] @ B[g,n,k] {ROWS} apart",
    "result by rows": f"D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[g,n,k] {ROWS}",
    "gated": f"H[m,n]:e4m3 scale(1x32) = silu(A[m,k] @ V[g,n,k]) * (A[m,k] @ W[g,n,k]) {ROWS}",
    "several results": f"T[m,n] = A[m,k] @ B[g,n,k] {ROWS}; C[m,n] = T; D[m,n]:mxfp8 = T; S[m]:f32 = max[n](T)",
    "head splits": f"D[m, n/32*48 + n%32] = A[m,k] @ B[g,n,k] {ROWS}",
    "combine": "Y[t,n] = sum[j](w[t,j]:f32 * D[inv[t,j],n])",
}
WHOLE = ("along K", "along K, by M and N", "combine")
"""Those that write all of their result, which a call may leave to be allocated."""
TWO = "D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]"
"""Two launches where n is not known."""


@pytest.fixture(autouse=True)
def _dynamo_anew(on_the_emulator: None) -> None:
    torch._dynamo.reset()


def call(source: str, target: str, known: str) -> tuple[Kernel | Sequence, list, list]:
    """A kernel, its operands and its results."""
    kernel = scalec.compile(source, target=target, dims={d: SIZES[d] for d in known})
    made = make_inputs(kernel.spec, {d: SIZES[d] for d in kernel.spec.dims}, 1, "cpu")
    operands = [made.values[t.name] for t in kernel.spec.operands]
    return kernel, operands, [made.outputs[r.name] for r in kernel.spec.results]


def need_right(kernel: Kernel | Sequence, operands: list, results: list, allocates: bool) -> None:
    """opcheck passes, exactly the results are mutated, and a compiled call writes what another one does."""
    op, names = kernel.op, [r.name for r in kernel.spec.results]
    assert sorted(op.overloads()) == ["default", "out"][: 1 + allocates]
    calls = (
        [(op.out, [*operands, *results]), (op.default, operands)] if allocates else [(op.default, operands + results)]
    )
    for overload, given in calls:
        schema = overload._schema
        written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        assert written == ([] if overload is not calls[0][0] else names)
        tests = ["test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
        if all(x.element_size() > 1 for x in given):  # torch compares no FP8 on the CPU
            tests.append("test_schema")
        assert torch.library.opcheck(overload, given, test_utils=tests) == dict.fromkeys(tests, "SUCCESS")

    @torch.compile(backend="aot_eager", fullgraph=True)
    def compiled(operands: list, outs: tuple) -> list:
        kernel(*operands, out=outs)
        return [x.view(torch.uint8) + 0 for x in outs]

    plain, made = (tuple(x.clone() for x in results) for _ in range(2))
    kernel(*operands, out=plain)
    copies = compiled(operands, made)
    for x, y, copy in zip(plain, made, copies, strict=True):
        assert torch.equal(x.view(torch.uint8), y.view(torch.uint8))
        assert torch.equal(x.view(torch.uint8), copy)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "target"), [*zip(PROGRAMS, cycle(("sm_90a", "sm_100a", "sm_120a")), strict=False)])
def test_the_op_of_groups(name: str, target: str) -> None:
    need_right(*call(PROGRAMS[name], target, "n" if name == "combine" else "nk"), allocates=name in WHOLE)


@pytest.mark.thorough
def test_the_op_of_two_launches() -> None:
    kernel, operands, results = call(TWO, "sm_90a", "k")
    assert isinstance(kernel, Sequence)
    need_right(kernel, operands, results, allocates=False)
