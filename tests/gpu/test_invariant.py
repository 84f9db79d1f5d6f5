"""`with invariant` on a GPU: rows are bit-equal whatever M is, fixed or not, at the shapes of decode."""

from __future__ import annotations

import pytest

import scalec
from tests.gpu.test_dense import FP8, quantised

pytestmark = pytest.mark.gpu

MOST = 300
ROWS = (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 191, 192, 193, 256, 257, MOST)
SHAPES = [(2112, 7168), (7168, 2048), (24576, 1536), (4096, 4096)]
BF16 = "C[m,n]:f32 = A[m,k] @ B[n,k]"


def cancelling(torch, m: int, n: int, k: int) -> list:
    """Operands of bf16 whose products span many powers of two and cancel: sums show the order they were taken in."""
    torch.manual_seed(k)
    return [torch.randn(r, k, device="cuda").mul(torch.randint(-8, 9, (r, k), device="cuda").exp2()).bfloat16()
            for r in (m, n)]  # fmt: skip


@pytest.mark.parametrize("program", [FP8, FP8.replace("C[m,n]", "C[m,n]:f32"), BF16, f"{FP8} with split=4"])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_bit_equal(torch, program: str, shape: tuple[int, int]) -> None:
    n, k = shape
    source = f"{program}, invariant" if " with " in program else f"{program} with invariant"
    if program == BF16:
        arguments = cancelling(torch, MOST, n, k)
        by_row = (True, False)
    else:
        arguments, _, _ = quantised(torch, MOST, n, k)
        by_row = (True, False, True, False)  # A, B, A_scale, B_scale
    dynamic = scalec.compile(source, dims={"n": n, "k": k})
    whole = dynamic(*arguments)
    for m in ROWS:
        few = [a[:m] if rows else a for a, rows in zip(arguments, by_row, strict=True)]
        fixed = scalec.compile(source, dims={"m": m, "n": n, "k": k})
        for kernel in (dynamic, fixed):
            assert torch.equal(kernel(*few), whole[:m]), f"m = {m}: {kernel.spec.schedule}"


def test_the_data_show_the_order(torch) -> None:
    n, k = SHAPES[0]
    arguments = cancelling(torch, MOST, n, k)
    one, other = (scalec.compile(f"{BF16} with split={s}", dims={"n": n, "k": k})(*arguments) for s in (1, 4))
    assert not torch.equal(one, other)
