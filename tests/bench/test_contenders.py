"""Which contenders a kernel gets; needs no torch."""

from __future__ import annotations

import pytest

from scalec.abi import KernelSpec
from scalec.bench.contenders import BLOCK, FAST, IN_PLACE, SLOW, TENSORWISE, TWO_KERNELS, contenders
from scalec.bench.contraction import contraction
from scalec.bench.suites import BF16, BLOCK_FP8, BLOCK_FP8_COL, BOTH_FP8, ROW_FP8
from scalec.compiler import compile_source

DIMS = {"m": 64, "n": 512, "k": 256}
BMM, EINSUM = "torch.bmm (cuBLAS)", "torch.einsum (cuBLAS)"


def spec(source: str, dims: dict[str, int]) -> KernelSpec:
    found = compile_source(source, target="sm_90a", dims=dims, until="nvvm").spec
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (BLOCK_FP8, [BLOCK, TENSORWISE]),
        (BLOCK_FP8_COL, [BLOCK, TENSORWISE]),
        (BOTH_FP8, [IN_PLACE, TWO_KERNELS, "torch._scaled_mm 1x128 by 1x128 (cuBLASLt)", TENSORWISE]),
        (BOTH_FP8.replace(":f32 +=", ":f32 ="), ["torch._scaled_mm 1x128 by 1x128 (cuBLASLt)", TENSORWISE]),
        (BOTH_FP8.replace(":f32 +=", " +="), ["torch._scaled_mm 1x128 by 1x128 (cuBLASLt)", TENSORWISE]),
        (ROW_FP8.replace(" =", ":f32 +="), ["torch._scaled_mm rows", TENSORWISE]),
        (BF16.replace(" =", ":f32 +="), [IN_PLACE, TWO_KERNELS, "torch.mm (cuBLASLt)"]),
        (ROW_FP8, ["torch._scaled_mm rows", TENSORWISE]),
        ("C[m,n] = A[m,k]@B[n,k] scale(tensor,tensor)", ["torch._scaled_mm tensor (cuBLASLt)"]),
        (BF16, ["torch.mm (cuBLASLt)"]),
        ("C[m,n] = A[m,k]@B[n,k] scale(1x128,1xk)", []),
        ("C[n,m] = A[m,k]@B[n,k]", ["torch.einsum (cuBLAS)"]),
        ("C[n,m] = A[m,k]@B[n,k] scale(1x128,128x128)", []),
        ("C[m,n] = alpha * (A[m,k]@B[n,k] scale(1x128,128x128))", []),
        ("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128) + bias[n]", []),
        ("C[m,n] = relu(A[m,k]@B[n,k])", []),
        ("C[m,n]:f32 += 2 * (A[m,k]@B[n,k] scale(1x128,128x128))", []),
    ],
)
def test_by_granularity(source, names):
    assert list(contenders(spec(source, DIMS), DIMS)) == names


def test_a_block_as_long_as_k_is_a_block_first():
    dims = DIMS | {"k": 128}
    assert list(contenders(spec(BLOCK_FP8, dims), dims)) == [BLOCK, TENSORWISE]


def test_tensorwise_is_the_better_of_both_accumulations_and_only_timed():
    found = contenders(spec(BLOCK_FP8, DIMS), DIMS)
    assert list(found[TENSORWISE].variants) == [SLOW, FAST]
    assert not found[TENSORWISE].checked
    assert list(found[BLOCK].variants) == [""]
    assert found[BLOCK].checked


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("C[g,m,n] = A[g,m,k]@B[g,n,k]", [BMM]),
        ("C[m,g,n]:f32 += A[m,g,k]@B[g,n,k]", [BMM]),
        ("C[g,m,n] = A[g,m,k]@B[n,k]", [EINSUM]),
        ("C[g,h,m,n] = A[g,m,h,k]@B[h,g,n,k]", [EINSUM]),
        ("C[m,n] = A[g,m,k]@B[g,n,k]", [EINSUM]),
        ("C[g,m,n] = A[g,m,k]@B[g,n,k] scale(1x128,128x128)", []),
        ("C[g,m,n] = A[g,m,k]@B[g,n,k] scale(tensor,tensor)", []),
        ("C[g,m,n] = A[g,m,k]@B[g,n,k] + x[n]", []),
    ],
)
def test_of_batches(source: str, names: list[str]) -> None:
    dims = {"g": 2, "h": 3, **DIMS}
    assert list(contenders(spec(source, {d: s for d, s in dims.items() if d in source}), dims)) == names


def test_what_adds_is_of_several_algorithms_and_compared_as_a_sum():
    found = contenders(spec(BOTH_FP8, DIMS), DIMS)
    assert [contender.adds for contender in found.values()] == [True, True, False, False]
    assert len(found[IN_PLACE].variants) == 8
    assert found[IN_PLACE].checked


def test_what_the_contraction_is():
    what = contraction(spec(BOTH_FP8, DIMS), DIMS)
    assert what is not None
    assert (what.a, what.b, what.accumulates) == ("A", "B", True)
    assert what.shapes == ((64, 256), (512, 256))
    assert (what.dense, what.batch, what.equation) == (True, "", "ab,cb->ac")
    assert what.blocks == ((1, 128), (1, 128))
    rows = contraction(spec(ROW_FP8, DIMS), DIMS)
    assert rows is not None
    assert (rows.blocks, rows.accumulates) == (((1, 256), (1, 256)), False)
