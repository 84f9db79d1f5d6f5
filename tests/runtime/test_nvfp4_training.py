"""A linear layer by the recipe `nvfp4` in torch: what its op runs is what the reference makes of the texts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import scalec  # noqa: E402
from scalec.gradients.steps import SIGNS  # noqa: E402
from tests.gradients.running import _ran, backward, forward  # noqa: E402
from tests.gradients.test_nvfp4 import LINEAR  # noqa: E402

pytestmark = pytest.mark.usefixtures("ptx_alone", "on_the_emulator")

GIVEN = {"X": "bf16", "W": "f32"}
M, N, K = 48, 64, 32


def layer(target: str) -> Any:
    return scalec.differentiable(LINEAR, target, quantize="nvfp4", quantized_from=GIVEN)


def drawn(m: int = M) -> tuple[Any, Any, Any]:
    torch.manual_seed(3)
    x, w, d = torch.randn(m, K).bfloat16(), torch.randn(N, K), torch.randn(m, N).bfloat16()
    return x.requires_grad_(), w.requires_grad_(), d


def ran(op: Any, x: Any, w: Any, d: Any, seed: int) -> tuple[Any, ...]:
    y = op(x, w)
    torch.manual_seed(seed)
    return (y.detach(), *torch.autograd.grad(y, (x, w), d))


@pytest.mark.once("target")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_it_is_what_the_reference_makes_of_the_texts(target: str):
    x, w, d = drawn()
    op = layer(target)
    y, dx, dw = ran(op, x, w, d, 5)
    torch.manual_seed(5)
    seed = torch.randint(-(2**31), 2**31, (2,)).int().numpy()
    values: dict[str, Any] = {
        "X_bf16": x.detach().float().numpy().astype(ml_dtypes.bfloat16),
        "W_f32": w.detach().numpy(),
    }
    values["signs"] = np.resize(SIGNS, M).astype(ml_dtypes.bfloat16)
    for s in op.gradients.quantisers:
        values |= _ran(s.text, {n: values[n] for n in s.reads}, {}, {})
    wanted = backward(
        op.gradients,
        values,
        {"dY": d.float().numpy().astype(ml_dtypes.bfloat16)},
        {},
        {"seed": seed, "signs": values["signs"]},
    )
    for found, exact in ((y, forward(op.gradients, values, {})["Y"]), (dx, wanted["X"]), (dw, wanted["W"])):
        limit = 1e-2 * np.abs(exact.astype(np.float32)).max()
        np.testing.assert_allclose(found.float().numpy(), exact.astype(np.float32), rtol=0, atol=limit)
    for found, near in ((dx, d.double() @ w.detach().double()), (dw, d.double().T @ x.detach().double())):
        assert float((found.double() - near).norm() / near.norm()) < 0.25


@pytest.mark.thorough
def test_each_backward_has_bits_of_its_own_and_torch_says_which():
    x, w, d = drawn()
    op = layer("sm_90a")
    one, again, other = (ran(op, x, w, d, seed) for seed in (5, 5, 6))
    assert all(torch.equal(*pair) for pair in zip(one, again, strict=True))
    assert [torch.equal(*pair) for pair in zip(one, other, strict=True)] == [True, False, False]
    with torch.no_grad():  # another kernel, of the same operands
        assert torch.equal(op(x, w), one[0])


def test_rows_that_are_no_whole_blocks_are_refused():
    x, w, _ = drawn(40)
    with pytest.raises(scalec.ArgumentError, match="X has 40 m, of which 16 at a time are transformed together"):
        layer("sm_90a")(x, w)


@pytest.mark.thorough
def test_compiled_it_is_the_same():
    torch._dynamo.reset()
    x, w, d = drawn()
    op = layer("sm_90a")
    compiled: Any = torch.compile(lambda *tensors: op(*tensors), fullgraph=True, backend="aot_eager")
    assert all(torch.equal(*pair) for pair in zip(ran(op, x, w, d, 5), ran(compiled, x, w, d, 5), strict=True))
