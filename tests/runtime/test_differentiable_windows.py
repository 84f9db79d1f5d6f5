"""Gradients in torch of products with a window for each row, and with ranges of what is summed."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.runtime.test_differentiable import Case, against_autograd  # noqa: E402

pytestmark = pytest.mark.usefixtures("ptx_alone", "on_the_emulator")

LOW, HIGH, OFF = [0, 3, 9, 9, 20], [24, 8, 9, 24, 24], [0, 17, 17, 35]

GROUP = [0] * 17 + [2] * 18


def _inside(low: Any, high: Any) -> Any:
    t = torch.arange(24)
    return (t >= low[:, None]) & (t < high[:, None])


CASES = {
    "windows": Case(
        "L[q,t] = relu(Q[q,d] @ K[t,d]) * w[q] for t in lo[q]:hi[q] else 0",
        {"Q": (5, 64), "K": (24, 64), "w": (5,), "lo": LOW, "hi": HIGH},
        lambda q, k, w, lo, hi: torch.where(_inside(lo, hi), torch.relu(q @ k.T) * w[:, None], 0),
    ),
    "windows that no result fills": Case(
        "L[q,t] = Q[q,d] @ K[t,d] for t in lo[q]:hi[q]",
        {"Q": (5, 64), "K": (24, 64), "lo": LOW, "hi": HIGH},
        lambda q, k, lo, hi: torch.where(_inside(lo, hi), q @ k.T, 0),
    ),
    "reduced in windows": Case(
        "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h]) for t in lo[q]:hi[q] else 0",
        {"Q": (5, 16, 64), "K": (24, 64), "W": (5, 16), "lo": LOW, "hi": HIGH},
        lambda q, k, w, lo, hi: torch.where(_inside(lo, hi), (torch.relu(q @ k.T) * w[..., None]).sum(1), 0),
    ),
    "a batch last": Case(
        "C[m,n,b] = A[b,m,k] @ B[b,n,k]",
        {"A": (8, 24, 64), "B": (8, 16, 64)},
        lambda a, b: (a @ b.mT).permute(1, 2, 0),
    ),
    "sums of what each group has": Case(
        "Y[m,n] = X[m,n] * w[g] + b[g,n] * r[m] for m in off[g]:off[g+1]",
        {"X": (35, 24), "w": (3,), "b": (3, 24), "r": (35,), "off": OFF},
        lambda x, w, b, r, off: x * w[GROUP, None] + b[GROUP] * r[:, None],
    ),
    "up to each row": Case(
        "L[b,q,t] = Q[b,q,d] @ K[b,t,d] for t < q+1 else 0",
        {"Q": (2, 24, 64), "K": (2, 24, 64)},
        lambda q, k: (q @ k.mT).tril(),
    ),
    "ranges of what is summed": Case(
        "C[g,m,n] = A[m,k] @ B[n,k] for k in off[g]:off[g+1]",
        {"A": (24, 40), "B": (32, 40), "off": OFF},
        lambda a, b, off: torch.stack(
            [a[:, i:j] @ b[:, i:j].T for i, j in zip(off[:-1].tolist(), off[1:].tolist(), strict=True)]
        ),
    ),
}


@pytest.mark.once("name", "target")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_autograd_in_float64(name: str, target: str):
    against_autograd(CASES[name], target, 1.2e-2)
