"""Programs that autograd goes through, on the emulator, against autograd in float64; and under torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad  # noqa: E402

import scalec  # noqa: E402
from scalec.errors import ArgumentError  # noqa: E402
from scalec.layouts import inverse, offsets_of, places  # noqa: E402

BF16 = torch.bfloat16


@dataclass(frozen=True)
class Case:
    """A program, its arguments (shapes of bf16, numbers, or index tensors as lists), and the same in torch."""

    source: str
    arguments: dict[str, Any]
    same: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)
    none: tuple[str, ...] = ()


def _ragged(a: Any, b: Any, off: Any) -> Any:
    rows = [a[i:j] @ b[g].T for g, (i, j) in enumerate(pairwise(off))]
    return torch.cat([*rows, torch.zeros(len(a) - int(off[-1]), b.shape[1], dtype=torch.float64)])


def _gated(g: Any, u: Any) -> Any:
    return torch.nn.functional.silu(g) * u


def _masked(a: Any, b: Any, rows: Any) -> Any:
    keep = torch.arange(a.shape[1])[None, :, None] < rows[:, None, None]
    return torch.where(keep, a @ b.mT, 0)


def _blocks(a: Any, b: Any, e: Any) -> Any:
    group = e.long().repeat_interleave(16)[: len(a)]
    made = torch.einsum("mk,mnk->mn", a, b[group.clamp(min=0)])
    return torch.where((group < 0)[:, None], 0, made)


def _quantised_product(*operands: Any) -> Any:
    """Straight through: the gradient of what is multiplied is that of what it is rounded from."""
    made = []
    for x in operands:
        values, scale = scalec.quantize(x.detach().float(), "1x32")
        stands_for = scalec.dequantize(values, scale, "1x32", dtype="f32").double()
        made.append(x + (stands_for - x).detach())
    return made[0] @ made[1].T


CASES = {
    "dense": Case(
        "C[m,n] = gelu(alpha * A[m,k]@B[n,k] + bias[n]) + R[m,n]",
        {"alpha": 0.5, "A": (24, 64), "B": (32, 64), "bias": (32,), "R": (24, 32)},
        lambda alpha, a, b, bias, r: torch.nn.functional.gelu(alpha * (a @ b.T) + bias) + r,
    ),
    "gated": Case(
        "G[m,n] = X[m,k] @ V[n,k]; U[m,n] = X[m,k] @ W[n,k]; H[m,n] = silu(G)*U",
        {"X": (24, 64), "V": (32, 64), "W": (32, 64)},
        lambda x, v, w: torch.nn.functional.silu(x @ v.T) * (x @ w.T),
    ),
    "gated, of halves": Case(
        "G[m,n] = X[m,k] @ W[n,k] + b[n]; U[m,n] = X[m,k] @ W[n+size(n),k] + b[n+size(n)]; H[m,n] = silu(G)*U",
        {"X": (24, 64), "W": (40, 64), "b": (40,)},  # parts of b begin at no multiple of 16 bytes
        lambda x, w, b: _gated(x @ w[:20].T + b[:20], x @ w[20:].T + b[20:]),
    ),
    "gated, by turns": Case(
        "G[m,n] = X[m,k] @ W[2*n,k]; U[m,n] = X[m,k] @ W[2*n+1,k]; H[m,n] = silu(G)*U",
        {"X": (24, 64), "W": (64, 64)},
        lambda x, w: _gated(x @ w[::2].T, x @ w[1::2].T),
    ),
    "gated, of halves of columns": Case(
        "G[m,n] = X[m,k] @ W[k,n]; U[m,n] = X[m,k] @ W[k,n+size(n)]; H[m,n] = silu(G)*U",
        {"X": (24, 64), "W": (64, 48)},
        lambda x, w: _gated(x @ w[:, :24], x @ w[:, 24:]),
    ),
    "a gate without a product": Case(
        "H[m,n] = silu(T[m,n]) * T[m,n+size(n)]", {"T": (24, 64)}, lambda t: _gated(t[:, :32], t[:, 32:])
    ),
    "groups, of halves": Case(
        "G[m,n] = X[m,k] @ W[g,n,k] for m in off[g]:off[g+1]; U[m,n] = X[m,k] @ W[g,n+size(n),k] for m in"
        " off[g]:off[g+1]; H[m,n] = silu(G)*U",
        {"X": (40, 64), "W": (3, 64, 64), "off": [0, 17, 17, 35]},
        lambda x, w, off: _gated(_ragged(x, w[:, :32], off), _ragged(x, w[:, 32:], off)),
    ),
    "f32": Case(
        "C[m,n]:f32 = A[m,k] @ B[k,n]; S[m]:f32 = sum[k](A[m,k]^2)",
        {"A": (24, 64), "B": (64, 32)},
        lambda a, b: (a @ b, (a * a).sum(1)),
    ),
    "causal": Case(
        "T[m,n] = X[m,n] for n < m+1 else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M));"
        " Y[m,n] = exp(T - M) / S * w[n] * s[0]",
        {"X": (24, 64), "w": (64,), "s": (1,)},
        lambda x, w, s: torch.softmax(x + torch.full((24, 64), -torch.inf).triu(1), 1) * w * s,
    ),
    "norm": Case(
        "S[m] = sum[k](X[m,k]^2); Y[m,k] = X[m,k] * w[k] / sqrt(S/64 + 0.001)",
        {"X": (24, 64), "w": (64,)},
        lambda x, w: x * w / ((x * x).sum(1, keepdim=True) / 64 + 0.001).sqrt(),
        {"dims": {"k": 64}},
    ),
    "ragged": Case(
        "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]",
        {"A": (40, 64), "B": (3, 32, 64), "off": [0, 17, 17, 35]},
        _ragged,
    ),
    "masked": Case(
        "C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]",
        {"A": (3, 24, 64), "B": (3, 32, 64), "rows": [24, 0, 5]},
        _masked,
    ),
    "blocks": Case(
        "C[m,n] = A[m,k] @ B[e[m/16],n,k]",
        {"A": (40, 64), "B": (3, 32, 64), "e": [0, 2, 2]},
        _blocks,
    ),
    "computed indices": Case(
        "C[m,n] = A[m,k] @ B[n,k] * r[m/16%2,n] + x[n%24]",
        {"A": (40, 64), "B": (32, 64), "r": (2, 32), "x": (24,)},
        lambda a, b, r, x: a @ b.T * r[torch.arange(40) // 16 % 2] + x[torch.arange(32) % 24],
    ),
    "a bias of groups": Case(
        "C[m,n] = U[m,n] + x[e[m/16],n]",
        {"U": (40, 32), "x": (3, 32), "e": [0, 2, 2]},
        lambda u, x, e: u + x[e.long().repeat_interleave(16)[:40]],
    ),
    "quantised anew": Case(
        "C[m,n] = quantize(A[m,k], e4m3, 1x32) @ quantize(B[n,k], e4m3, 1x32)",
        {"A": (40, 64), "B": (32, 64)},
        _quantised_product,
        {"straight_through": True},
    ),
    "gathered": Case(
        "C[m,n] = A[idx[m],k] @ B[n,k]",
        {"A": (7, 64), "idx": [3, 1, 3, -1, 6, 3, 0, 1], "B": (32, 64)},
        lambda a, idx, b: torch.where((idx < 0)[:, None], 0, a[idx.long().clamp(min=0)]) @ b.T,
        {"most": {"idx": 3}},
    ),
    "experts": Case(
        "G[m,n] = X[idx[m],k] @ V[g,n,k] for m in off[g]:off[g+1]; U[m,n] = X[idx[m],k] @ W[g,n,k]"
        " for m in off[g]:off[g+1]; H[m,n] = silu(G)*U",
        {"X": (7, 64), "idx": [3, 1, 3, 6, 3, 0, 1], "V": (3, 32, 64), "off": [0, 2, 2, 6], "W": (3, 32, 64)},
        lambda x, idx, v, off, w: (
            torch.nn.functional.silu(_ragged(x[idx.long()], v, off)) * _ragged(x[idx.long()], w, off)
        ),
        {"most": {"idx": 3}},
    ),
    "scattered once": Case(
        "C[m,n] = A[idx[m],k] @ B[n,k]",
        {"A": (7, 64), "idx": [3, 1, 6, 0], "B": (32, 64)},
        lambda a, idx, b: a[idx.long()] @ b.T,
        {"once": "idx"},
    ),
    "scattered behind a range": Case(
        "C[m,n] = U[m,n] * x[idx[m],n] for m < rows[0]",
        {"U": (6, 32), "x": (3, 32), "idx": [2, 0, 2, 0, 2, 0], "rows": [4]},
        lambda u, x, idx, rows: torch.where(torch.arange(6)[:, None] < 4, u * x[idx.long()], 0),
        {"most": {"idx": 3}},
    ),
    "range of sizes": Case(
        "C[m,n] = relu(A[m,k] @ B[n,k])",
        {"A": (24, 64), "B": (32, 64)},
        lambda a, b: torch.relu(a @ b.T),
        {"dims": {"m": "1:64"}},
    ),
}


pytestmark = pytest.mark.usefixtures("ptx_alone", "on_the_emulator")


def made(case: Case, seed: int = 0) -> list[Any]:
    torch.manual_seed(seed)
    values = []
    for v in case.arguments.values():
        if isinstance(v, tuple):
            values.append(torch.randn(v).to(BF16).requires_grad_())
        else:
            values.append(torch.tensor(v, dtype=torch.int32) if isinstance(v, list) else v)
    return values


def gradients(results: Any, leaves: list[Any], seed: int = 1) -> list[Any]:
    """The gradients of leaves, of results that each have a random one."""
    results = results if isinstance(results, tuple) else (results,)
    generator = torch.Generator().manual_seed(seed)
    given = [torch.randn(r.shape, generator=generator).to(BF16).to(r.dtype) for r in results]
    return list(torch.autograd.grad(results, leaves, given))


def close(got: list[Any], wanted: list[Any], limit: float = 8e-3) -> None:
    for g, w in zip(got, wanted, strict=True):
        assert g.shape == w.shape
        assert g.dtype == BF16
        assert w.norm() > 0
        assert float((g.double() - w).norm() / w.norm()) < limit
        assert float((g.double() - w).abs().max() / w.abs().max()) < 2 * limit


def against_autograd(case: Case, target: str = "sm_90a", limit: float = 8e-3) -> None:
    layer = scalec.differentiable(case.source, target, **case.options)
    values = made(case)
    leaves = [v for v in values if isinstance(v, torch.Tensor) and v.requires_grad]
    exact = [v.detach().double().requires_grad_() if any(v is x for x in leaves) else v for v in values]
    results, wanted = layer(*values), case.same(*exact)
    several = zip(results, wanted, strict=True) if isinstance(results, tuple) else [(results, wanted)]
    for c, w in several:
        assert float(((c - w).norm() / w.norm()).detach()) < 4e-3
    close(
        gradients(results, leaves),
        gradients(wanted, [e for e in exact if isinstance(e, torch.Tensor) and e.requires_grad]),
        limit,
    )


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_autograd_in_float64(name: str):
    against_autograd(CASES[name])


def _left_out(made: Any, index: list[int], block: int = 1) -> Any:
    """Zeros at the rows that a negative index leaves out: these are not written, whatever reaches them."""
    there = torch.tensor(index).repeat_interleave(block)[: made.shape[0]] >= 0
    return torch.where(there[:, None], made, 0)


IDX = [3, -1, 0, 2, -1, 4, 3, 1]
LEFT_OUT = {
    "an input beside a product": (
        "C[m,n] = A[m,k] @ B[n,k] + x[idx[m],n]",
        {"A": (8, 64), "B": (32, 64), "x": (5, 32), "idx": IDX},
        lambda a, b, x, idx: _left_out(a @ b.T + x[idx.long()], IDX),
    ),
    "a bias of gathered rows": (
        "C[m,n] = gelu(A[idx[m],k] @ B[n,k] + bias[n])",
        {"A": (5, 64), "idx": IDX, "B": (32, 64), "bias": (32,)},
        lambda a, idx, b, bias: _left_out(torch.nn.functional.gelu(a[idx.long()] @ b.T + bias), IDX),
    ),
    "elementwise": (
        "C[m,n] = x[idx[m],n] * w[n] + z[m,n]",
        {"x": (5, 32), "idx": IDX, "w": (32,), "z": (8, 32)},
        lambda x, idx, w, z: _left_out(x[idx.long()] * w + z, IDX),
    ),
    "blocks": (
        "C[m,n] = A[m,k] @ B[e[m/16],n,k] + z[m,n]",
        {"A": (40, 64), "B": (3, 32, 64), "e": [0, 1, -1], "z": (40, 32)},
        lambda a, b, e, z: _left_out(
            torch.einsum("mk,mnk->mn", a, b[e.long().repeat_interleave(16)[:40]]) + z, [0, 1, -1], 16
        ),
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_a_negative_index_leaves_out_has_no_gradient(name: str):
    source, arguments, same = LEFT_OUT[name]
    case = Case(source, arguments, same, {"most": {"idx": 4}} if "idx" in arguments else {})
    values = made(case)
    leaves = [v for v in values if v.is_floating_point()]
    exact = [v.detach().double().requires_grad_() if v.is_floating_point() else v for v in values]
    layer = scalec.differentiable(source, "sm_90a", **case.options)
    assert list(layer.gradients.left_out) == ["dC"]
    got = torch.autograd.grad(layer(*values).float().sum(), leaves)
    wanted = torch.autograd.grad(same(*exact).sum(), [e for e in exact if e.is_floating_point()])
    close(list(got), list(wanted), 1.2e-2)


NORMS = {
    "softmax": (
        "T[m,k] = s[0]*X[m,k]; M[m] = max[k](T); S[m] = sum[k](exp(T-M)); Y[m,k] = exp(T-M) / S",
        {"s": (1,), "X": (9, 64)},
        lambda s, x: torch.softmax(s * x, 1),
    ),
    "layer norm": (
        "U[m] = sum[k](X[m,k])/64; V[m] = sum[k]((X[m,k]-U)^2)/64; Y[m,k] = (X[m,k]-U) / sqrt(V + 0.001) * w[k] + b[k]",
        {"X": (9, 64), "w": (64,), "b": (64,)},
        lambda x, w, b: torch.nn.functional.layer_norm(x, (64,), w, b, 0.001),
    ),
    "largest": (
        "R[m] = max[k](silu(X[m,k]*w[k]) * w[k])",
        {"X": (9, 64), "w": (64,)},
        lambda x, w: (torch.nn.functional.silu(x * w) * w).amax(1),
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str):
    source, arguments, same = NORMS[name]
    values = made(Case(source, arguments, same))
    if name == "largest":  # several elements that are it share its gradient
        with torch.no_grad():
            values[0][:, 5:8], values[1][5:8] = 4, 1.5
    exact = [v.detach().double().requires_grad_() for v in values]
    got = gradients(scalec.differentiable(source, "sm_120a")(*values), values)
    close(got, gradients(same(*exact), exact), 1.2e-2)


@pytest.mark.parametrize(
    ("quantize", "m", "n", "near"), [(None, 33, 75, 1e-2), ("mxfp8", 18, 64, 6e-2)], ids=["bf16", "both orders"]
)
def test_rows_of_gradients_may_begin_anywhere(quantize: str | None, m: int, n: int, near: float):
    layer = scalec.differentiable("C[m,n] = A[m,k] @ B[n,k]", "sm_90a", quantize=quantize)
    a, b = (torch.randn(rows, 64).to(BF16).requires_grad_() for rows in (m, n))
    made = layer(a, b)
    d = torch.randn_like(made)
    made.backward(d)
    for found, same in [(a.grad, d.double() @ b.double()), (b.grad, d.double().T @ a.double())]:
        assert found.is_contiguous()
        assert (found.double() - same).norm() <= near * same.norm()


def test_a_gradient_that_reads_the_index_needs_no_zeros():
    gathered = "C[m,n] = A[idx[m],k] @ B[g,n,k] for m in off[g]:off[g+1]"
    assert not scalec.grad(gathered).left_out
    assert "# dC: zeros where idx is negative" in str(scalec.grad("C[m,n] = x[idx[m],n] + z[m,n]"))


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("name", ["gated", "gated, by turns", "groups, of halves"])
@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_on_other_targets(target: str, name: str):
    case = CASES[name]
    values = made(case)
    exact = [v.detach().double().requires_grad_() if v.is_floating_point() else v for v in values]
    layer = scalec.differentiable(case.source, target)
    leaves, exact_leaves = ([v for v in x if v.requires_grad] for x in (values, exact))
    close(gradients(layer(*values), leaves), gradients(case.same(*exact), exact_leaves))


def test_a_part_that_no_result_depends_on_has_zeros():
    source = "G[m,n] = X[m,k] @ W[n,k]; U[m,n] = X[m,k] @ W[n+size(n),k]; H[m,n] = gelu(G); I[m,n] = U"
    layer = scalec.differentiable(source, "sm_90a", wrt="W", results="H")
    x, w = torch.randn(24, 64).to(BF16), torch.randn(64, 64).to(BF16).requires_grad_()
    layer(x, w)[0].float().sum().backward()
    assert w.grad is not None
    assert w.grad[:32].abs().min() > 0
    assert (w.grad[32:] == 0).all()


@pytest.mark.once("name", "dynamic")
@pytest.mark.parametrize("name", ["dense", "ragged", "gathered", "gated, of halves", "gated, by turns"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_it_is_the_same(name: str, dynamic: bool):
    torch._dynamo.reset()
    case = CASES[name]
    layer = scalec.differentiable(case.source, "sm_90a", **case.options)
    compiled = torch.compile(lambda *x: layer(*x) * 2, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    values = made(case)
    leaves = [v for v in values if isinstance(v, torch.Tensor) and v.requires_grad]
    for got, wanted in zip(gradients(compiled(*values), leaves), gradients(layer(*values) * 2, leaves), strict=True):
        assert torch.equal(got, wanted)


def test_opcheck():
    values = made(CASES["gated"])
    layer = scalec.differentiable(CASES["gated"].source, "sm_90a")
    found = torch.library.opcheck(layer.op, tuple(values))
    assert set(found.values()) == {"SUCCESS"}


def test_what_is_kept_is_saved_once_and_only_what_is_read():
    layer = scalec.differentiable("C[m,n] = relu(A[m,k] @ B[n,k])", "sm_90a")
    a, b = torch.randn(24, 64).to(BF16).requires_grad_(), torch.randn(32, 64).to(BF16)
    saved: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        c = layer(a, b)
    assert [tuple(t.shape) for t in saved] == [(32, 64), (24, 32)]  # B, for dA alone, and what relu is of
    assert saved[0].data_ptr() == b.data_ptr()
    c.sum().backward()  # of a gradient that has no memory of its own: expanded
    assert a.grad is not None


def test_a_module_trains():
    layer = scalec.differentiable("C[m,n] = tanh(A[m,k] @ B[n,k])", "sm_90a")
    torch.manual_seed(0)
    x, y = torch.randn(32, 64).to(BF16), torch.randn(32, 16).sign().to(BF16) * 0.5
    w = torch.nn.Parameter(torch.randn(16, 64).to(BF16) / 8)
    losses = []
    for _ in range(6):
        loss = (layer(x, w) - y).float().square().mean()
        loss.backward()
        with torch.no_grad():
            w -= w.grad
            w.grad = None
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_what_has_no_gradient_is_refused_at_the_call():
    layer = scalec.differentiable("C[m,n] = A[m,k] @ B[n,k] scale(none, 128x128)", "sm_90a")
    a, b, scale = torch.randn(8, 128).to(BF16), torch.randn(128, 128).to(torch.float8_e4m3fn), torch.ones(1, 1)
    assert layer(a.requires_grad_(), b, scale).requires_grad
    with pytest.raises(ArgumentError, match="B_scale requires grad, and has no gradient here"):
        layer(a, b, scale.requires_grad_())


def test_the_gradient_of_a_gradient_is_refused():
    layer = scalec.differentiable("C[m,n] = A[m,k] @ B[n,k]", "sm_90a")
    a, b = (torch.randn(16, 64).to(BF16).requires_grad_() for _ in "ab")
    for values in ((a, b), (a, b.detach())):
        with pytest.raises(ArgumentError, match="the gradient of a gradient is asked for"):
            torch.autograd.grad(layer(*values).float().square().sum(), a, create_graph=True)


DUAL = {
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "of vmap": lambda f, x: torch.func.jvp(torch.vmap(f), (x[None],), (x[None],)),
    "in vmap": lambda f, x: torch.vmap(lambda y: torch.func.jvp(f, (y,), (y,)))(x[None]),
    "compiled": lambda f, x: torch.compile(f, backend="eager")(forward_ad.make_dual(x, x)),
    "by itself": lambda f, x: f(forward_ad.make_dual(x, x)),
}
"""Ways in which torch's forward mode comes to a function."""


@pytest.mark.parametrize("way", DUAL)
@pytest.mark.parametrize("made", [scalec.compile, scalec.differentiable])
def test_forward_mode_is_refused(made: Any, way: str):
    """torch takes the derivative of an op that has none for 0."""
    kernel = made("C[m,n] = A[m,k] @ B[n,k]", target="sm_90a")
    a, b = torch.randn(16, 64).to(BF16), torch.randn(16, 64).to(BF16)
    with forward_ad.dual_level() if way in ("compiled", "by itself") else nullcontext():
        with pytest.raises(Exception, match="A has a tangent, and a kernel has no derivative in forward mode"):
            DUAL[way](lambda x: kernel(x, b), a)
        assert torch.equal(kernel(a, b), kernel(a, b))  # what is not dual is as ever
    primal, tangent = torch.func.jvp(lambda x: kernel(a, b) * x, (a[:, :16],), (b[:, :16],))
    assert torch.equal(primal, kernel(a, b) * a[:, :16])
    assert torch.equal(tangent, kernel(a, b) * b[:, :16])


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("C[m,n]:f32 += A[m,k] @ B[n,k]", {}, "C is added to in place"),
        ("C[m,n] = A[idx[m],k] @ B[n,k]", {}, "how often one row is read is not known"),
        ("C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3", {}, "no input of this program has a gradient in torch"),
        ("C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3", {}, "those with scales may be quantised here"),
        ("C[m,n] = A[m,k] @ B[n,k]", {"quantize": "deepseek"}, "did you mean deepseek_v3"),
        ("C[m,n] = A[m,k] @ B[n,k]", {"target": "sm_1"}, "sm_1"),
        ("C[m,n] = A[m,k] @ B[n,k]", {"most": {"idx": 1}}, "most names idx, which is no index tensor"),
        ("C[m,n] = A[idx[m],k] @ B[n,k]", {"most": {"idx": 0}}, "most gives idx: 0"),
    ],
)
def test_wrong_programs_are_refused(source: str, options: dict[str, Any], message: str):
    with pytest.raises(scalec.ScalecError) as caught:
        scalec.differentiable(source, **{"target": "sm_90a", **options})
    assert message in str(caught.value)


def test_arguments_are_named():
    layer = scalec.differentiable("C[m,n] = alpha * A[m,k] @ B[n,k]", "sm_90a")
    a, b = torch.randn(16, 64).to(BF16), torch.randn(16, 64).to(BF16)
    assert torch.equal(layer(2.0, B=b, A=a), layer(2.0, a, b))
    for operands, named, message in [
        ((2.0, a), {}, "not those of the program"),
        ((2.0, a, b, b), {}, "not those of the program"),
        ((2.0, a), {"X": b}, "not those of the program"),
        ((2.0, a.numpy(force=True) if a.dtype != BF16 else [1], b), {}, "A is of type list"),
        (("2", a, b), {}, "alpha"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            layer(*operands, **named)


def test_places_and_offsets():
    index = torch.tensor([3, 1, 3, -1, 0, 3], dtype=torch.int32)
    assert inverse(index, 5, 3).tolist() == [[4, -1, -1], [1, -1, -1], [-1, -1, -1], [0, 2, 5], [-1, -1, -1]]
    assert inverse(index[:0], 2, 1).tolist() == [[-1], [-1]]
    with pytest.raises(RuntimeError, match="more than 2 times"):
        inverse(index, 5, 2)
    assert places(3, 7, 1, 3).tolist() == [[0, 3, 6], [1, 4, -1], [2, 5, -1]]
    assert places(4, 10, 2, 3).tolist() == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, -1, -1], [-1] * 4]
    assert places(4, 7, 2).tolist() == [[0, 1], [2, 3], [4, 5], [6, -1]]
    assert places(2, 0, 1, 2).tolist() == [[-1], [-1]]
    assert places(0, 0, 4).tolist() == []
    groups = torch.tensor([0, 0, 2, -1], dtype=torch.int32)
    assert offsets_of(groups, 4, 16, 60).tolist() == [0, 32, 32, 48, 48]
    assert offsets_of(groups[:3], 4, 16, 40).tolist() == [0, 32, 32, 40, 40]
    with pytest.raises(RuntimeError, match="not in their order"):
        offsets_of(groups.flip(0), 4, 16, 60)
