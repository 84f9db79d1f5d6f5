"""Ops that quantise their operands themselves: what they keep, and their results and gradients, on the emulator."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import scalec  # noqa: E402
from scalec.errors import ArgumentError  # noqa: E402
from scalec.runtime import differentiable  # noqa: E402

FP8 = "Y[m,n] = X[m,k] @ W[n,k] scale(1x128,128x128)"
GIVEN = {"X": "bf16", "W": "f32"}

pytestmark = pytest.mark.usefixtures("ptx_alone", "on_the_emulator")


def of(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    """Rows whose magnitudes differ."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(shape, generator=generator) * torch.exp(torch.randn((*shape[:-1], 1), generator=generator))
    return rows.to(dtype).requires_grad_()


def off(found: Any, exact: Any) -> float:
    return float((found.detach().double() - exact.detach()).norm() / exact.detach().norm())


def kept(call: Any, *arguments: Any) -> tuple[Any, set[tuple[tuple[int, ...], Any]]]:
    """What a call returns, and the shapes and types of what autograd keeps of it."""
    found = []

    def keep(t: Any) -> Any:
        found.append((tuple(t.shape), t.dtype))
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        return call(*arguments), set(found)


@pytest.mark.once
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_activations_are_kept_quantised_once(target: str):
    layer = scalec.differentiable(FP8, target, {"n": 128, "k": 256}, quantize="deepseek_v3", quantized_from=GIVEN)
    x, w, dy = of((48, 256), torch.bfloat16, 1), of((128, 256), torch.float32, 2), of((48, 128), torch.bfloat16, 3)
    y, saved = kept(layer, x, w)
    weight = (256, 128) if target == "sm_90a" else (128, 256)  # whose FP8 products read what is summed contiguous
    blocks = tuple(size // 128 for size in weight)
    assert saved == {
        ((256, 48), torch.float8_e4m3fn),
        ((256, 1), torch.float32),
        (weight, torch.float8_e4m3fn),
        (blocks, torch.float32),
    }
    product: Any = scalec.compile(FP8, target, {"n": 128, "k": 256})
    (q, q_scale), (r, r_scale) = scalec.quantize(x.detach(), "1x128"), scalec.quantize(w.detach(), "128x128")
    assert torch.equal(y, product(q, r, q_scale, r_scale))
    dx, dw = torch.autograd.grad(y, (x, w), dy)
    assert (dx.dtype, dw.dtype) == (torch.bfloat16, torch.float32)
    exact = dy.double() @ w.double(), dy.double().T @ x.double()
    assert max(off(dx, exact[0]), off(dw, exact[1])) < 0.05


def test_rows_of_experts_that_are_gathered():
    source = "Y[m,n] = X[idx[m],k]:mxfp8 @ W[g,n,k]:mxfp8 for m in off[g]:off[g+1]"
    layer = scalec.differentiable(
        source, "sm_100a", quantize="mxfp8", quantized_from=GIVEN, most={"idx": 2}, types={"dX_rows": "f32"}
    )
    x, w = of((7, 64), torch.bfloat16, 1), of((3, 32, 64), torch.float32, 2)
    idx, ends = torch.tensor([3, 1, 6, 0, 3, 2, 5, 1], dtype=torch.int32), [0, 3, 3, 8]
    y, saved = kept(layer, x, idx, w, torch.tensor(ends, dtype=torch.int32))
    assert not {shape for shape, dtype in saved if dtype in (torch.bfloat16, torch.float32)}
    rows, of_groups = x.double()[idx.long()], w.double()
    exact = torch.cat([rows[i:j] @ of_groups[g].T for g, (i, j) in enumerate(pairwise(ends))])
    assert off(y, exact) < 0.06
    dy = of((8, 32), torch.bfloat16, 3)
    wanted = torch.autograd.grad(exact, (x, w), dy.double())
    for found, same in zip(torch.autograd.grad(y, (x, w), dy), wanted, strict=True):
        assert found.dtype == same.dtype
        assert off(found, same.double()) < 0.08


def test_a_sum_that_no_recipe_quantises():
    """Gradients then read what the operands stand for, in bf16."""
    product = FP8.partition(" = ")[2]
    layer = scalec.differentiable(f"Y[m,n] = relu({product})", "sm_90a", quantized_from=GIVEN)
    x, w, dy = of((24, 128), torch.bfloat16, 1), of((64, 128), torch.float32, 2), of((24, 64), torch.bfloat16, 3)
    (q, p), (r, s) = scalec.quantize(x.detach(), "1x128"), scalec.quantize(w.detach(), "128x128")
    a, b = scalec.dequantize(q, p, "1x128", dtype="f32"), scalec.dequantize(r, s, "128x128", dtype="f32")
    y = layer(x, w)
    there = (y.detach() > 0) * dy.double()
    dx, dw = torch.autograd.grad(y, (x, w), dy)
    assert off(dx, there @ b.double()) < 8e-3
    assert off(dw, there.T @ a.double()) < 8e-3


def test_torch_takes_it_for_an_op():
    torch._dynamo.reset()
    layer = scalec.differentiable(FP8, "sm_90a", {"n": 128, "k": 128}, quantize="deepseek_v3", quantized_from=GIVEN)
    x, w, dy = of((32, 128), torch.bfloat16, 1), of((128, 128), torch.float32, 2), of((32, 128), torch.bfloat16, 3)
    tests = ["test_autograd_registration", "test_faketensor"]  # the others compare FP8, which torch does not on a CPU
    assert torch.library.opcheck(layer.op, (x, w), test_utils=tests) == dict.fromkeys(tests, "SUCCESS")
    compiled: Any = torch.compile(lambda *tensors: layer(*tensors), fullgraph=True, backend="aot_eager")
    for found, same in zip(*(torch.autograd.grad(f(x, w), (x, w), dy) for f in (compiled, layer)), strict=True):
        assert torch.equal(found, same)


@pytest.mark.parametrize(
    ("source", "said", "message"),
    [
        (FP8, {"Y": "bf16"}, "quantized_from names Y, which is no operand with scales"),
        ("Y[m,n] = X[m,k] @ W[n,k]", {"X": "bf16"}, "quantized_from names X, which is no operand with scales"),
        (FP8, {"X": "e5m2"}, "quantized_from gives X: 'e5m2'"),
        (
            "Y[m,n] = X[m,k]:e4m3 @ W[n,k]:e4m3 scale(1x128*1xk,1x128)",
            {"X": "bf16"},
            "X has scales of two levels, the second of which is not one f32",
        ),
    ],
)
def test_refusals(source: str, said: dict[str, str], message: str):
    with pytest.raises(ArgumentError, match=message):
        scalec.grad(source, quantized_from=said)


def test_an_operand_whose_other_order_nobody_makes_is_refused():
    """Else backward would have nothing to read."""
    source = "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8"
    options: dict[str, Any] = {"quantize": "mxfp8", "wrt": "A"}
    with pytest.raises(ArgumentError, match="dA reads B_n, which is B with another index last"):
        scalec.differentiable(source, "sm_100a", {"n": 64, "k": 64}, quantized_from={"A": "bf16"}, **options)
    layer = scalec.differentiable(
        source, "sm_100a", {"n": 64, "k": 64}, quantized_from={"A": "bf16", "B": "f32"}, **options
    )
    with pytest.raises(ArgumentError, match=r"A is torch.float32, and is quantised of bf16"):
        layer(torch.zeros(8, 64), torch.zeros(64, 64))


def test_a_transposed_operand_is_copied_whatever_is_known():
    """Where K is, rows of it begin at no multiple of 16 bytes, and are copied for that."""
    x, w = of((256, 40), torch.bfloat16, 1).T, of((128, 256), torch.float32, 2)
    for dims in ({}, {"k": 256}):
        layer = scalec.differentiable(FP8, "sm_90a", dims, quantize="deepseek_v3", quantized_from=GIVEN)
        assert torch.equal(layer(x, w), layer(x.contiguous(), w))


def test_what_does_not_fit_is_called_as_the_caller_does():
    layer = scalec.differentiable(FP8, "sm_90a", {"n": 128, "k": 256}, quantize="deepseek_v3", quantized_from=GIVEN)
    with pytest.raises(ArgumentError, match=r"^X has k = 128, the kernel was compiled for k = 256") as refusal:
        layer(of((40, 128), torch.bfloat16, 1), of((128, 256), torch.float32, 2))
    assert "X_bf16" not in str(refusal.value)


@pytest.mark.once
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_what_nothing_is_differentiated_through_is_quantised_in_its_own_order(target: str, monkeypatch):
    torch._dynamo.reset()
    layer = scalec.differentiable(FP8, target, {"n": 128, "k": 256}, quantize="deepseek_v3", quantized_from=GIVEN)
    x, w = of((48, 256), torch.bfloat16, 1), of((128, 256), torch.float32, 2)
    y, made = layer(x, w), []
    launched = differentiable.launched
    monkeypatch.setattr(
        differentiable, "launched", lambda k, named: made.append(len(k.spec.results)) or launched(k, named)
    )
    with torch.no_grad():
        assert torch.equal(layer(x, w), y)
    assert torch.equal(layer(x.detach(), w.detach()), y)
    compiled: Any = torch.compile(lambda *tensors: layer(*tensors), fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert torch.equal(compiled(x, w), y)
    assert made == 3 * [2, 2, 1]  # elements and scales of each operand, and the product


def test_nothing_is_kept_where_nothing_is_differentiated():
    layer = scalec.differentiable("C[m,n] = gelu(A[m,k] @ B[n,k])", "sm_90a", {"n": 64, "k": 64})
    a, b = of((16, 64), torch.bfloat16, 1), of((64, 64), torch.bfloat16, 2)
    assert layer.gradients.kept
    made = layer.alone(a.detach(), b.detach())
    assert made.shape == (16, 64)
    assert torch.equal(made, layer(a, b))
    assert torch.library.opcheck(layer.alone, (a.detach(), b.detach()), test_utils="test_faketensor")
