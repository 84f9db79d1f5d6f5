"""Programs whose gradients are checked, each with the same mathematics in torch, written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import einsum
from torch.nn.functional import gelu, silu

from scalec import reference
from scalec.formats import Granularity


@dataclass(frozen=True)
class Case:
    """A program, the same in torch (of its arguments by name, in float64), and the sizes; `rounds` where steps round to
    bf16 whatever the program's types are; arguments that are `given`."""

    text: str
    same: Callable[[Any], torch.Tensor | tuple[torch.Tensor, ...]]
    dims: Mapping[str, int]
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)


def groups(t: Any, low: str = "off") -> list[slice]:
    """The rows of each group."""
    off = t[low].tolist()
    return [slice(a, b) for a, b in pairwise(off)]


def _ragged(t: Any) -> torch.Tensor:
    c = torch.zeros(len(t.A), t.B.shape[1], dtype=torch.float64)
    return torch.cat([c[: int(t.off[0])], *(t.A[s] @ t.B[g].T for g, s in enumerate(groups(t))), c[int(t.off[-1]) :]])


def _alpha_ragged(t: Any) -> torch.Tensor:
    c = torch.zeros(len(t.A), t.B.shape[1], dtype=torch.float64)
    parts = [t.alpha[g] * (t.A[s] @ t.B[g].T) + t.bias[g] for g, s in enumerate(groups(t))]
    return torch.cat([c[: int(t.off[0])], *parts, c[int(t.off[-1]) :]])


def _weighted_rows(t: Any) -> torch.Tensor:
    x = _gathered(t.A, t.idx)
    off, parts = t.off.tolist(), [x[s] * t.w[g] + t.v[g] for g, s in enumerate(groups(t))]
    return torch.cat([x[: off[0]] * 0, *parts, x[off[-1] :] * 0])


def _of_groups(t: Any) -> torch.Tensor:
    off, parts = t.off.tolist(), [t.X[s] * t.w * t.r[g] for g, s in enumerate(groups(t))]
    return torch.cat([t.X[: off[0]] * 0, *parts, t.X[off[-1] :] * 0])


def _up_to(t: Any) -> torch.Tensor:
    return _below(t.X * t.w, t.len).sum(1)


def _below(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(x.shape[1])[None] < ends[:, None], x, 0.0)


def _weighted_operands(t: Any) -> torch.Tensor:
    c = torch.zeros(len(t.A), t.B.shape[1], dtype=torch.float64)
    off, parts = t.off.tolist(), [torch.relu(t.A[s] * t.w[g]) @ t.B[g].T for g, s in enumerate(groups(t))]
    return torch.cat([c[: off[0]], *parts, c[off[-1] :]])


def _masked(t: Any) -> torch.Tensor:
    rows = torch.arange(t.A.shape[1])[None, :, None] < t.rows[:, None, None]
    return torch.where(rows, einsum("gmk,gnk->gmn", t.A, t.B), 0.0)


def _of_k(t: Any) -> torch.Tensor:
    return torch.stack([t.A[:, s] @ t.B[:, s].T for s in groups(t)])


def _blocks(t: Any, block: int) -> torch.Tensor:
    e = t.e.long().repeat_interleave(block)[: len(t.A)]
    c = einsum("mk,mnk->mn", t.A, t.B[e.clamp(min=0)])
    return torch.where((e < 0)[:, None], 0.0, c)


def _of_blocks(t: Any) -> torch.Tensor:
    e = t.e.long().repeat_interleave(4)[: len(t.A)]
    c = t.alpha[e][:, None] * _blocks(t, 4) * t.r[:, None] + t.bias[e]
    return torch.where((e < 0)[:, None], 0.0, c)


def _quantised(x: torch.Tensor, element: Any, *block: int, type: Any = "f32") -> torch.Tensor:
    """What is multiplied of an operand, whose gradient is that of the operand."""
    scales = [Granularity(block, type)]
    made = reference.quantize(x.detach().numpy().astype(np.float32), element, scales)
    stands_for = torch.tensor(reference.dequantize(made.values, made.scales, element, scales))
    return x + (stands_for - x).detach()


def _gathered(x: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
    return torch.where((idx < 0).view(-1, *[1] * (x.dim() - 1)), 0.0, x[idx.long().clamp(min=0)])


def _scattered(t: Any) -> torch.Tensor:
    made = torch.zeros(t.rows, t.B.shape[0], dtype=torch.float64)
    keep = t.idx >= 0
    return made.index_put((t.idx[keep].long(),), (t.A @ t.B.T)[keep])


def _windows(t: Any) -> torch.Tensor:
    at = torch.arange(t.K.shape[0])[None]
    return torch.where((at >= t.lo[:, None]) & (at < t.hi[:, None]), t.Q @ t.K.T, 0.0)


def _gate(t: Any) -> torch.Tensor:
    return silu(t.X @ t.Wg.T) * (t.X @ t.Wu.T)


def _lightning(t: Any) -> torch.Tensor:
    return (torch.relu(einsum("qhd,td->qht", t.Q, t.K)) * t.W[:, :, None]).sum(1)


def _gelu_of_all(t: Any) -> torch.Tensor:
    return gelu(t.alpha * (t.A @ t.B.T) + t.bias) * t.gate[:, None]


def _two(t: Any) -> tuple[torch.Tensor, ...]:
    p = t.A @ t.B.T + t.b
    return p, torch.relu(p), (p * p).sum(1)


MNK = {"m": 7, "n": 6, "k": 5}
MN = {"m": 7, "n": 6}
RAGGED = {"m": 11, "n": 6, "k": 5, "g": 4, "B_0": 4}

CASES = [
    # contractions
    Case("C[m,n] = A[m,k] @ B[n,k]", lambda t: t.A @ t.B.T, MNK),
    Case("C[m,n] = A[m,k] @ B[k,n]", lambda t: t.A @ t.B, MNK),
    Case("C[m,n] = A[k,m] @ B[k,n]", lambda t: t.A.T @ t.B, MNK),
    Case("C[n,m] = A[k,m] @ B[n,k]", lambda t: (t.A.T @ t.B.T).T, MNK),
    Case(
        "Z[b,h,d] = X[b,h,r] @ Y[h,d,r]", lambda t: einsum("bhr,hdr->bhd", t.X, t.Y), {"b": 3, "h": 2, "d": 4, "r": 5}
    ),
    Case("C[m,n] = A[b,m,k] @ B[b,n,k]", lambda t: einsum("bmk,bnk->mn", t.A, t.B), {"b": 3, **MNK}),
    Case(
        "C[b,s,h,d] = A[b,s,k] @ W[h,d,k]",
        lambda t: einsum("bsk,hdk->bshd", t.A, t.W),
        {"b": 2, "s": 3, "h": 2, "d": 4, "k": 5},
    ),
    Case(
        "C[b,s,n] = alpha[b] * (A[b,s,k] @ B[b,n,k])",
        lambda t: t.alpha[:, None, None] * einsum("bsk,bnk->bsn", t.A, t.B),
        {"b": 2, "s": 3, "n": 4, "k": 5},
    ),
    Case("C[m] = A[m,k] @ B[k]", lambda t: t.A @ t.B, {"m": 7, "k": 5}),
    Case("C[b] = A[b,k] @ B[b,k]", lambda t: (t.A * t.B).sum(1), {"b": 7, "k": 5}),
    Case("C[m,n]:f32 += A[m,k] @ B[n,k]", lambda t: t.C + t.A @ t.B.T, MNK),
    Case("D[s,m,n] = A[m,s,k] @ B[n,s,k]", lambda t: einsum("msk,nsk->smn", t.A, t.B), dict(s=2, **MNK)),
    # epilogues
    Case("C[m,n] = gelu(alpha * A[m,k]@B[n,k] + bias[n]) * gate[m]", _gelu_of_all, MNK),
    Case(
        "C[m,n] = relu(A[m,k] @ B[n,k] + alpha * (D[m,r] @ E[n,r]))",
        lambda t: torch.relu(t.A @ t.B.T + t.alpha * (t.D @ t.E.T)),
        {"r": 3, **MNK},
    ),
    Case("C[m,n] = relu(A[m,k]@B[n,k] + b[n]) + R[m,n]", lambda t: torch.relu(t.A @ t.B.T + t.b) + t.R, MNK),
    Case(
        "C[m,n] = max(A[m,k]@B[n,k], 0)^2 - 2*x[m]",
        lambda t: torch.clamp(t.A @ t.B.T, min=0) ** 2 - 2 * t.x[:, None],
        MNK,
    ),
    Case(
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T * sigmoid(T + b[n])",
        lambda t: (y := t.A @ t.B.T) * torch.sigmoid(y + t.b),
        MNK,
    ),
    Case(
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = tanh(T)/(1 + exp(-abs(T)))",
        lambda t: torch.tanh(y := t.A @ t.B.T) / (1 + torch.exp(-torch.abs(y))),
        MNK,
    ),
    Case("C[m,n] = A[m,k]@B[n,k] + D[m,j]@E[n,j]", lambda t: t.A @ t.B.T + t.D @ t.E.T, {**MNK, "j": 4}),
    Case("P[m,n] = A[m,k] @ B[n,k] + b[n]; C[m,n] = P; D[m,n] = relu(P); S[m]:f32 = sum[n](P*P)", _two, MNK),
    Case("G[m,n] = X[m,k] @ Wg[n,k]; U[m,n] = X[m,k] @ Wu[n,k]; H[m,n] = silu(G)*U", _gate, MNK),
    Case("L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h])", _lightning, {"q": 5, "t": 6, "h": 3, "d": 4}),
    # operands that are computed
    Case("C[m,n] = silu(A[m,k]) @ B[n,k]", lambda t: silu(t.A) @ t.B.T, MNK, rounds=True),
    Case("C[m,n] = (A[m,k] * r[m] * w[k]) @ B[n,k]", lambda t: (t.A * t.r[:, None] * t.w) @ t.B.T, MNK, rounds=True),
    Case("D[m,n]:f32 = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k]^2)", lambda t: (t.A @ t.B.T, (t.A**2).sum(1)), MNK),
    # groups, ranges and indices
    Case("C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]", _ragged, RAGGED),
    Case("C[m,n] = alpha[g]*(A[m,k] @ B[g,n,k]) + bias[g,n] for m in off[g]:off[g+1]", _alpha_ragged, RAGGED),
    Case(
        "Y[m,k] = A[idx[m],k] * w[g] + v[g,k] for m in off[g]:off[g+1]",
        _weighted_rows,
        {"m": 7, "k": 5, "g": 3, "A_0": 4},
        given={"idx": np.array([3, 1, 3, 0, 1, 3, 2], np.int32)},
    ),
    Case(
        "C[m,n] = (relu(A[m,k] * w[g])):bf16 @ B[g,n,k] for m in off[g]:off[g+1]",
        _weighted_operands,
        RAGGED,
    ),
    Case("Y[m,n] = X[m,n] * w[n] * r[g,n] for m in off[g]:off[g+1]", _of_groups, {**MN, "g": 3}),
    Case(
        "D[g,n]:f32 = sum[m](x[m,n] * y[m,n]) * w[g] for m in off[g]:off[g+1]",
        lambda t: torch.stack([(t.x[s] * t.y[s]).sum(0) for s in groups(t)]) * t.w[:, None],
        {**MN, "g": 3},
    ),
    Case("S[m] = sum[n](X[m,n] * w[n]) for n < len[m]", _up_to, MN),
    Case("C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]", _masked, {"g": 3, **MNK}),
    Case("C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g] else 0", _masked, {"g": 3, **MNK}),
    Case("C[g,m,n] = A[m,k] @ B[n,k] for k in off[g]:off[g+1]", _of_k, {**MNK, "k": 11, "g": 3}),
    Case(
        "C[g,m,n] = alpha[g] * (A[m,k] @ B[n,k]) for k in off[g]:off[g+1]",
        lambda t: t.alpha[:, None, None] * _of_k(t),
        {**MNK, "k": 11, "g": 3},
    ),
    Case("C[m,n] = A[m,k] @ B[e[m/4],n,k]", lambda t: _blocks(t, 4), {**MNK, "m": 18, "B_0": 3}),
    Case("C[m,n] = A[m,k] @ B[e[m],n,k]", lambda t: _blocks(t, 1), {**MNK, "B_0": 3}),
    Case("C[m,n] = A[idx[m],k] @ B[n,k]", lambda t: _gathered(t.A, t.idx) @ t.B.T, {**MNK, "A_0": 4}),
    Case(
        "G[m,n] = A[idx[m],k] @ B[n,k]; U[m,n] = A[idx[m],k] @ D[n,k]; H[m,n] = silu(G)*U",
        lambda t: silu(_gathered(t.A, t.idx) @ t.B.T) * (_gathered(t.A, t.idx) @ t.D.T),
        {**MNK, "A_0": 4},
        given={"idx": np.array([3, 1, 3, 0, 1, 3, 2], np.int32)},  # none is left out: what is kept has every row
    ),
    Case(
        "Z[t,n] = sum[j](w[t,j] * A[row[t,j],n])",
        lambda t: einsum("tj,tjn->tn", t.w, t.A[t.row.long()]),
        {"t": 4, "j": 2, "n": 6, "A_0": 8},
        {"once": "row"},
        given={"row": np.array([[5, 2], [0, 7], [1, 6], [4, 3]], np.int32)},
    ),
    Case(
        "C[m,n] = A[idx[m],k] @ B[g,n,k] for m in off[g]:off[g+1]",
        lambda t: torch.cat(
            [_gathered(t.A, t.idx)[s] @ t.B[g].T for g, s in enumerate(groups(t))]
            + [torch.zeros(len(t.idx) - int(t.off[-1]), t.B.shape[1])]
        ),
        {**RAGGED, "A_0": 4},
    ),
    Case(
        "C[m,n] = r[m] * (A[m,k] @ B[g,n,k]) + x[m,n] for m in off[g]:off[g+1]",
        lambda t: t.r[:, None] * _ragged(t) + t.x,
        RAGGED,
        {"covered": "m"},
        given={"off": np.array([0, 3, 3, 10, 11], np.int32)},
    ),
    Case(
        "T[m,n] = A[m,k] @ B[n,k]; C[m,n] = relu(T); R[m]:f32 = max[n](abs(T))",
        lambda t: torch.relu(t.A @ t.B.T),
        MNK,
        {"results": "C"},
    ),
    Case(
        "C[m,n] = A[idx[m],k] @ B[e[m/4],n,k]",
        lambda t: _blocks(SimpleNamespace(A=_gathered(t.A, t.idx), B=t.B, e=t.e), 4),
        {**MNK, "m": 18, "A_0": 5, "B_0": 3},
    ),
    Case("C[m,n] = A[m,k] @ B[n,k] + x[idx[m],n]", lambda t: t.A @ t.B.T + _gathered(t.x, t.idx), {**MNK, "x_0": 4}),
    Case(
        "C[m,n] = (A[m,k] @ B[n,k] + x[n%4]) * r[m/3,n]",
        lambda t: (t.A @ t.B.T + t.x[torch.arange(6) % 4]) * t.r[torch.arange(7) // 3],
        MNK,
    ),
    Case(
        "C[m,n] = silu(T[m/2%3,n/4]) * U[m,n] + x[m%8/2] + y[n%2]*y[n%2]",
        lambda t: (
            silu(t.T[torch.arange(11) // 2 % 3][:, torch.arange(6) // 4]) * t.U
            + (t.x[torch.arange(11) % 8 // 2])[:, None]
            + t.y[torch.arange(6) % 2] ** 2
        ),
        {"m": 11, "n": 6},
    ),
    Case(
        "C[m,n] = alpha[e[m/4]] * (A[m,k] @ B[e[m/4],n,k]) * r[m] + bias[e[m/4],n]",
        _of_blocks,
        {**MNK, "m": 18, "B_0": 3, "alpha_0": 3, "bias_0": 3},
    ),
    Case(
        "C[m,n] = U[m,n] * T[idx[m],n%4] for m < rows[0]",
        lambda t: t.U * _gathered(t.T, t.idx)[:, torch.arange(6) % 4] * (torch.arange(7)[:, None] < int(t.rows[0])),
        {**MN, "T_0": 4},
        given={"rows": np.array([5], np.int32)},
    ),
    Case(
        "C[m,n] = U[m,n] + T[idx[m],n%4]",
        lambda t: t.U + t.T[t.idx.long()][:, torch.arange(6) % 4],
        {**MN, "T_0": 9},
        {"once": "idx"},
        given={"idx": np.array([3, 1, 8, 0, 7, 4, 2], np.int32)},
    ),
    Case("C[idx[m],n] = A[m,k] @ B[n,k]", _scattered, {**MNK, "C_0": 9}),
    Case("L[q,t] = Q[q,d] @ K[t,d] for t in lo[q]:hi[q] else 0", _windows, {"q": 5, "t": 6, "d": 4}),
    Case(
        "L[q,t] = relu(Q[q,d] @ K[t,d]) * w[q] for t in lo[q]:hi[q]",
        lambda t: torch.relu(_windows(t)) * t.w[:, None],
        {"q": 5, "t": 6, "d": 4},
    ),
    Case(
        "L[q,t - lo[q]]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h]) for t in lo[q]:hi[q]",
        lambda t: _below(
            torch.stack([x.roll(-low) for x, low in zip(_lightning(t), t.lo.tolist(), strict=True)]), t.hi - t.lo
        ),
        {"q": 5, "t": 6, "h": 3, "d": 4},
    ),
    Case(
        "C[m,n] = relu(A[m,k] @ B[g,n,k] + bias[g,n]) * w[g] for m in off[g]:off[g+1]",
        lambda t: torch.cat(
            [t.A[: int(t.off[0]), :1] * t.bias[:1] * 0]
            + [torch.relu(t.A[s] @ t.B[g].T + t.bias[g]) * t.w[g] for g, s in enumerate(groups(t))]
            + [t.A[int(t.off[-1]) :, :1] * t.bias[:1] * 0]
        ),
        RAGGED,
    ),
    Case(
        "Y[m,n] = A[idx[m],n] * w[n] * s[0] for n < len[m]",
        lambda t: _below(_gathered(t.A, t.idx), t.len) * t.w * t.s,
        {**MN, "A_0": 4},
    ),
    Case(
        "Y[m,n] = X[m,n] * w[n] * r[g] for m in off[g]:off[g+1] for n < len[m]",
        lambda t: _below(_of_groups(t), t.len),
        {**MN, "g": 3},
        {"wrt": ["w", "r"]},
    ),
    # without a contraction
    Case("C[m,n] = silu(G[m,n]) * U[m,n] + x[n]", lambda t: silu(t.G) * t.U + t.x, MN),
    Case(
        "Y[m,n] = x[m,n] * w[n] / (s + abs(x[m,n])) + b[m]", lambda t: t.x * t.w / (t.s + t.x.abs()) + t.b[:, None], MN
    ),
    Case("R[m] = sqrt(sum[n](x[m,n]^2) + 0.5)", lambda t: ((t.x**2).sum(1) + 0.5).sqrt(), MN),
    Case("R[m] = max[n](x[m,n]) * w[m]; Q[m] = min[n](x[m,n])", lambda t: (t.x.amax(1) * t.w, t.x.amin(1)), MN),
    Case(
        "S[0]:f32 = max[m,n](x[m,n]) * w[0] + b[0]; E[0]:f32 = sum[m](y[m]^2 * exp(w[0] * b[0])) * exp(w[0] * b[0])",
        lambda t: (t.x.amax() * t.w + t.b, (t.y**2).sum() * torch.exp(2 * t.w * t.b)),
        MN,
    ),
    Case("C[m,n] = y[m,n] * max[j](x[j])", lambda t: t.y * t.x.amax(), {**MN, "j": 5}),
    Case("C[m,n] = y[m,n] * exp(sum[j](x[j] * w[j]))", lambda t: t.y * (t.x * t.w).sum().exp(), {**MN, "j": 5}),
    Case("C[m,n] = min(y[m,n], inf) + x[n]", lambda t: t.y + t.x, MN),
    Case("C[m,n] = y[m,n] * max[j](x[m,j])", lambda t: t.y * t.x.amax(1, keepdim=True), {**MN, "j": 5}),
    Case(
        "M[m] = max[n](x[m,n]); S[m] = sum[n](exp(x[m,n] - M)); Y[m,n] = exp(x[m,n] - M) / S",
        lambda t: torch.softmax(t.x, 1),
        MN,
    ),
    Case(
        "T[m,n] = x[m,n] for n < m+1 else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M));"
        " Y[m,n] = exp(T - M) / S * w[n]",
        lambda t: torch.softmax(t.x + torch.full((7, 6), -np.inf, dtype=torch.float64).triu(1), 1) * t.w,
        MN,
    ),
    Case(
        "U[m] = sum[n](x[m,n])/6; V[m] = sum[n]((x[m,n] - U)^2)/6;"
        " Y[m,n] = (x[m,n] - U) / sqrt(V + 0.001) * w[n] + b[n]",
        lambda t: torch.nn.functional.layer_norm(t.x, (6,), t.w, t.b, 0.001),
        MN,
    ),
    Case(
        "S[m] = sum[k](X[m,k]^2); Y[m,k] = X[m,k] * w[k] / sqrt(S[m]/5 + 0.001)",
        lambda t: t.X * t.w / ((t.X**2).sum(1, keepdim=True) / 5 + 0.001).sqrt(),
        {"m": 7, "k": 5},
    ),
    Case(
        "C[b,m,n] = a[b,m,n] + bias[n] * scale_of[b]",
        lambda t: t.a + t.bias * t.scale_of[:, None, None],
        {"b": 3, **MN},
    ),
    Case(
        "C[m,n] = max(a[m,n], b[m,n], c[n]) - min(a[m,n], b[m,n])",
        lambda t: torch.maximum(torch.maximum(t.a, t.b), t.c) - torch.minimum(t.a, t.b),
        MN,
    ),
    # operands that are quantised
    Case(
        "C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128)",
        lambda t: t.A @ t.B.T,
        {"m": 5, "n": 130, "k": 140},
        rounds=True,
    ),
]


QUANTISED_ANEW = [
    Case(
        "C[m,n] = gelu(quantize(A[m,k], e4m3, 1x128) @ quantize(B[n,k], e4m3, 1x128) + b[n])",
        lambda t: gelu(_quantised(t.A, "e4m3", 1, 128) @ _quantised(t.B, "e4m3", 1, 128).T + t.b),
        {"m": 5, "n": 130, "k": 140},
        {"straight_through": True},
        rounds=True,
    ),
    Case(
        "C[m,n] = quantize(silu(A[m,k]) * w[k], e4m3, 1x64) @ quantize(B[e[m/4],n,k], e5m2, 1x64:ue8m0)",
        lambda t: _blocks(
            SimpleNamespace(
                A=_quantised(silu(t.A) * t.w, "e4m3", 1, 64), B=_quantised(t.B, "e5m2", 1, 1, 64, type="ue8m0"), e=t.e
            ),
            4,
        ),
        {"m": 18, "n": 6, "k": 40, "B_0": 3},
        {"straight_through": True, "wrt": ["A", "B"]},
        rounds=True,
    ),
    Case(
        "C[m,n] = A[idx[m],k] @ quantize(B[n,k], e4m3, 1x64)",
        lambda t: _gathered(t.A, t.idx) @ _quantised(t.B, "e4m3", 1, 64).T,
        {**MNK, "A_0": 4},
        {"wrt": "A"},  # which takes no leave
        rounds=True,
    ),
]
CASES += QUANTISED_ANEW


def dequantised(values: Mapping[str, Any], text: str) -> dict[str, Any]:
    """What the operands stand for, in float64, and the arguments that are no scales."""
    found = {}
    for name, v in values.items():
        if name.endswith("_scale"):
            continue
        if (scale := values.get(f"{name}_scale")) is not None:
            block = (1, 128) if name == "A" else (128, 128)
            v = reference.dequantize(v, [scale], "e4m3", [Granularity(block)])
        found[name] = v if np.asarray(v).dtype == np.int32 else np.asarray(v, np.float64)
    return found
