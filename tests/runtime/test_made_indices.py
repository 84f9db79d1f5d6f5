"""Gradients in torch of inputs that are read at indices which several points share, and at computed ones."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import scalec  # noqa: E402
from tests.runtime.test_differentiable import Case, against_autograd, gradients, made  # noqa: E402

pytestmark = pytest.mark.usefixtures("ptx_alone", "on_the_emulator")

ROW = [[4, 2], [0, -1], [2, 2], [2, 4]]
PICKED = [3, 1, 3, 63, -1, 3, 2]


def _combined(w: Any, y: Any, row: Any) -> Any:
    return (torch.where((row < 0)[..., None], 0, y[row.long().clamp(min=0)]) * w[..., None]).sum(1)


def _picked(x: Any, at: Any) -> Any:
    return torch.where(at < 0, 0, x.gather(1, at.long().clamp(min=0)[:, None])[:, 0])


CASES = {
    "a weighted sum of rows": Case(
        "Z[t,n] = sum[j](w[t,j] * Y[row[t,j],n])",
        {"w": (4, 2), "Y": (5, 64), "row": ROW},
        _combined,
        {"most": {"row": 4}},
    ),
    "gathered rows of batches": Case(
        "C[b,m,n] = A[idx[b,m],k] @ B[n,k]",
        {"A": (5, 64), "idx": [[3, 1, 3], [0, 3, 2]], "B": (32, 64)},
        lambda a, idx, b: a[idx.long()] @ b.T,
        {"most": {"idx": 3}},
    ),
    "a picked element": Case(
        "Y[m] = X[m,t[m]] * w[m]",
        {"X": (7, 64), "t": PICKED, "w": (7,)},
        lambda x, t, w: _picked(x, t) * w,
    ),
    "a picked element, and all": Case(
        "Y[m,n] = X[m,n] * X[m,t[m]]",
        {"X": (7, 64), "t": PICKED},
        lambda x, t: x * _picked(x, t)[:, None],
    ),
    "each second element": Case(
        "C[m,n] = A[m,k] @ B[n,k] + x[2*n] + y[n/8,n%8]",
        {"A": (24, 64), "B": (32, 64), "x": (63,), "y": (4, 8)},
        lambda a, b, x, y: a @ b.T + x[::2] + y.reshape(-1),
    ),
    "twice by turns, and around gaps": Case(
        "Y[m,n] = U[m,n] * T[m/2%3,n] * T[m%3,n] + R[m, n/8*12 + n%8]",
        {"U": (7, 32), "T": (3, 32), "R": (7, 44)},
        lambda u, t, r: (
            u * t[torch.arange(7) // 2 % 3] * t[torch.arange(7) % 3]
            + r[:, torch.arange(32) // 8 * 12 + torch.arange(32) % 8]
        ),
    ),
}


@pytest.mark.once("name", "target")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_autograd_in_float64(name: str, target: str):
    against_autograd(CASES[name], target, 1.2e-2)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["a weighted sum of rows", "a picked element, and all", "each second element"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_it_is_the_same(name: str, dynamic: bool):
    torch._dynamo.reset()
    case = CASES[name]
    layer = scalec.differentiable(case.source, "sm_90a", **case.options)
    compiled = torch.compile(lambda *x: layer(*x) * 2, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    values = made(case)
    leaves = [v for v in values if v.requires_grad]
    for got, wanted in zip(gradients(compiled(*values), leaves), gradients(layer(*values) * 2, leaves), strict=True):
        assert torch.equal(got, wanted)


def test_how_often_a_row_is_read_is_asked_for_and_held_to():
    case = CASES["a weighted sum of rows"]
    with pytest.raises(scalec.ArgumentError, match="Y is read at row, and how often one row is read is not known"):
        scalec.differentiable(case.source, "sm_90a")
    values = made(case)
    result = scalec.differentiable(case.source, "sm_90a", most={"row": 3})(*values)
    with pytest.raises(RuntimeError, match="names a row more than 3 times"):
        result.float().sum().backward()
