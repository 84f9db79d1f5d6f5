"""Programs whose gradients are checked against those of what dense.py makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scalec import reference
from scalec.formats import Granularity


@dataclass(frozen=True)
class Case:
    """A program, and the sizes; options of scalec.grad; `rounds` where steps round to bf16 whatever the program's types
    are; arguments that are `given`."""

    text: str
    dims: Mapping[str, int]
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)


def i(*entries: Any) -> Any:
    """An index tensor."""
    return np.array(entries, np.int32)


MNK = {"m": 7, "n": 6, "k": 5}
MN = {"m": 7, "n": 6}
RAGGED = {"m": 11, "n": 6, "k": 5, "g": 4, "B_0": 4}
G = {"g": 3}
OFF, LEN = {"off": i(0, 3, 3, 6)}, {"len": i(0, 3, 6, 1, 2, 5, 4)}
ROW = np.array([[5, 2], [0, 7], [1, 6], [4, 3]], np.int32)

CASES = [
    Case("C[m,n] = A[m,k] @ B[n,k]", MNK),
    Case("C[m,n] = A[m,k] @ B[k,n]", MNK),
    Case("C[m,n] = A[k,m] @ B[k,n]", MNK),
    Case("C[n,m] = A[k,m] @ B[n,k]", MNK),
    Case("Z[b,h,d] = X[b,h,r] @ Y[h,d,r]", {"b": 3, "h": 2, "d": 4, "r": 5}),
    Case("C[m,n] = A[b,m,k] @ B[b,n,k]", {"b": 3, **MNK}),
    Case("C[b,s,h,d] = A[b,s,k] @ W[h,d,k]", {"b": 2, "s": 3, "h": 2, "d": 4, "k": 5}),
    Case("C[b,s,n] = alpha[b] * (A[b,s,k] @ B[b,n,k])", {"b": 2, "s": 3, "n": 4, "k": 5}),
    Case("C[m] = A[m,k] @ B[k]", {"m": 7, "k": 5}),
    Case("C[b] = A[b,k] @ B[b,k]", {"b": 7, "k": 5}),
    Case("C[m,n]:f32 += A[m,k] @ B[n,k]", MNK),
    Case("D[s,m,n] = A[m,s,k] @ B[n,s,k]", dict(s=2, **MNK)),
    Case("C[m,n] = gelu(alpha * A[m,k]@B[n,k] + bias[n]) * gate[m]", MNK),
    Case("C[m,n] = relu(A[m,k] @ B[n,k] + alpha * (D[m,r] @ E[n,r]))", {"r": 3, **MNK}),
    Case("C[m,n] = relu(A[m,k]@B[n,k] + b[n]) + R[m,n]", MNK),
    Case("C[m,n] = max(A[m,k]@B[n,k], 0)^2 - 2*x[m]", MNK),
    Case("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T * sigmoid(T + b[n])", MNK),
    Case("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = tanh(T)/(1 + exp(-abs(T)))", MNK),
    Case("C[m,n] = A[m,k]@B[n,k] + D[m,j]@E[n,j]", {**MNK, "j": 4}),
    Case("P[m,n] = A[m,k] @ B[n,k] + b[n]; C[m,n] = P; D[m,n] = relu(P); S[m]:f32 = sum[n](P*P)", MNK),
    Case("G[m,n] = X[m,k] @ Wg[n,k]; U[m,n] = X[m,k] @ Wu[n,k]; H[m,n] = silu(G)*U", MNK),
    Case("G[m,n] = X[m,k] @ W[n,k]; U[m,n] = X[m,k] @ W[n+size(n),k]; H[m,n] = silu(G)*U", MNK),
    Case("G[m,n] = X[m,k] @ W[2*n,k]; U[m,n] = X[m,k] @ W[2*n+1,k]; H[m,n] = silu(G)*U", MNK),
    Case("H[m,n] = silu(X[m,k] @ W[k,n] + b[n]) * (X[m,k] @ W[k,n+size(n)] + b[n+size(n)])", MNK),
    Case(
        "T[m,n] = X[m,k] @ W[n,k]; U[m,n] = X[m,k] @ W[n+2*size(n),k]; V[m,n] = X[m,k] @ W[n+size(n),k];"
        " H[m,n] = silu(T) * U + V",
        MNK,
    ),
    Case("G[m,n] = X[m,k] @ W[2*n+1,k]; U[m,n] = X[m,k] @ W[2*n,k]; H[m,n] = G; I[m,n] = U", MNK, {"results": "H"}),
    Case("H[b,m,n] = silu(X[b,m,k] @ W[b,n,k]) * (X[b,m,k] @ W[b,n+size(n),k])", {"b": 2, **MNK}),
    Case("H[m,n] = silu(T[m,n]) * T[m,n+size(n)]", MN),
    Case("H[m,n] = silu(T[2*m,n]) * T[2*m+1,n] * w[n]", MN),
    Case(
        "G[m,n] = X[m,k] @ W[g,n,k] for m in off[g]:off[g+1]; U[m,n] = X[m,k] @ W[g,n+size(n),k] for m in"
        " off[g]:off[g+1]; H[m,n] = silu(G)*U",
        {"m": 11, "n": 6, "k": 5, "g": 4},
    ),
    Case(
        "G[m,n] = X[m,k] @ W[e[m/4],2*n,k]; U[m,n] = X[m,k] @ W[e[m/4],2*n+1,k]; H[m,n] = silu(G)*U",
        {**MNK, "m": 18, "W_0": 3},
    ),
    Case("L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h])", {"q": 5, "t": 6, "h": 3, "d": 4}),
    Case("C[m,n] = silu(A[m,k]) @ B[n,k]", MNK, rounds=True),
    Case("C[m,n] = (A[m,k] * r[m] * w[k]) @ B[n,k]", MNK, rounds=True),
    Case("D[m,n]:f32 = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k]^2)", MNK),
    Case("C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]", RAGGED),
    Case("C[m,n] = alpha[g]*(A[m,k] @ B[g,n,k]) + bias[g,n] for m in off[g]:off[g+1]", RAGGED),
    Case(
        "Y[m,k] = A[idx[m],k] * w[g] + v[g,k] for m in off[g]:off[g+1]",
        {"m": 7, "k": 5, "g": 3, "A_0": 4},
        given={"idx": i(3, 1, 3, 0, 1, 3, 2)},
    ),
    Case("C[m,n] = (relu(A[m,k] * w[g])):bf16 @ B[g,n,k] for m in off[g]:off[g+1]", RAGGED),
    Case("Y[m,n] = X[m,n] * w[n] * r[g,n] for m in off[g]:off[g+1]", {**MN, "g": 3}),
    Case("D[g,n]:f32 = sum[m](x[m,n] * y[m,n]) * w[g] for m in off[g]:off[g+1]", {**MN, "g": 3}),
    Case("S[m] = sum[n](X[m,n] * w[n]) for n < len[m]", MN),
    Case("C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]", {"g": 3, **MNK}),
    Case("C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g] else 0", {"g": 3, **MNK}),
    Case("C[g,m,n] = A[m,k] @ B[n,k] for k in off[g]:off[g+1]", {**MNK, "k": 11, "g": 3}),
    Case("C[g,m,n] = alpha[g] * (A[m,k] @ B[n,k]) for k in off[g]:off[g+1]", {**MNK, "k": 11, "g": 3}),
    Case("C[m,n] = A[m,k] @ B[e[m/4],n,k]", {**MNK, "m": 18, "B_0": 3}),
    Case("C[m,n] = A[m,k] @ B[e[m],n,k]", {**MNK, "B_0": 3}),
    Case("C[m,n] = A[idx[m],k] @ B[n,k]", {**MNK, "A_0": 4}),
    Case(
        "G[m,n] = A[idx[m],k] @ B[n,k]; U[m,n] = A[idx[m],k] @ D[n,k]; H[m,n] = silu(G)*U",
        {**MNK, "A_0": 4},
        given={"idx": i(3, 1, 3, 0, 1, 3, 2)},
    ),
    Case(
        "Z[t,n] = sum[j](w[t,j] * A[row[t,j],n])",
        {"t": 4, "j": 2, "n": 6, "A_0": 8},
        {"once": "row"},
        given={"row": ROW},
    ),
    Case(
        "Z[t,n] = sum[j](w[t,j] * A[row[t,j],n])",
        {"t": 4, "j": 2, "n": 6, "A_0": 5},
        given={"row": np.array([[4, 2], [0, -1], [2, 2], [2, 4]], np.int32)},
    ),
    Case("C[b,m,n] = A[idx[b,m],k] @ B[n,k]", {"b": 2, **MNK, "A_0": 4}),
    Case("Y[m] = X[m,t[m]] * w[m]", {"m": 7, "X_1": 5}, given={"t": i(3, 1, 3, 0, -1, 3, 2)}),
    Case("Y[m,n] = exp(X[m,n]) * X[m,t[m]]", MN, given={"t": i(3, 1, 3, 0, -1, 3, 2)}),
    Case("C[m,n] = A[m,k] @ B[n,k] + x[2*n] + y[n/4,n%4]", MNK),
    Case("C[m,n] = A[idx[m],k] @ B[g,n,k] for m in off[g]:off[g+1]", {**RAGGED, "A_0": 4}),
    Case(
        "C[m,n] = r[m] * (A[m,k] @ B[g,n,k]) + x[m,n] for m in off[g]:off[g+1]",
        RAGGED,
        {"covered": "m"},
        given={"off": i(0, 3, 3, 10, 11)},
    ),
    Case("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = relu(T); R[m]:f32 = max[n](abs(T))", MNK, {"results": "C"}),
    Case("C[m,n] = A[idx[m],k] @ B[e[m/4],n,k]", {**MNK, "m": 18, "A_0": 5, "B_0": 3}),
    Case("C[m,n] = A[m,k] @ B[n,k] + x[idx[m],n]", {**MNK, "x_0": 4}),
    Case("C[m,n] = (A[m,k] @ B[n,k] + x[n%4]) * r[m/3,n]", MNK),
    Case("C[m,n] = silu(T[m/2%3,n/4]) * U[m,n] + x[m%8/2] + y[n%2]*y[n%2]", {"m": 11, "n": 6}),
    Case(
        "C[m,n] = alpha[e[m/4]] * (A[m,k] @ B[e[m/4],n,k]) * r[m] + bias[e[m/4],n]",
        {**MNK, "m": 18, "B_0": 3, "alpha_0": 3, "bias_0": 3},
    ),
    Case("C[m,n] = U[m,n] * T[idx[m],n%4] for m < rows[0]", {**MN, "T_0": 4}, given={"rows": i(5)}),
    Case("C[m,n] = U[m,n] + T[idx[m],n%4]", {**MN, "T_0": 9}, {"once": "idx"}, given={"idx": i(3, 1, 8, 0, 7, 4, 2)}),
    Case("C[idx[m],n] = A[m,k] @ B[n,k]", {**MNK, "C_0": 9}),
    Case("L[q,t] = Q[q,d] @ K[t,d] for t in lo[q]:hi[q] else 0", {"q": 5, "t": 6, "d": 4}),
    Case("L[q,t] = relu(Q[q,d] @ K[t,d]) * w[q] for t in lo[q]:hi[q]", {"q": 5, "t": 6, "d": 4}),
    Case("C[m,n] = relu(A[m,k] @ B[g,n,k] + bias[g,n]) * w[g] for m in off[g]:off[g+1]", RAGGED),
    Case("Y[m,n] = A[idx[m],n] * w[n] * s[0] for n < len[m]", {**MN, "A_0": 4}),
    Case("Y[m,n] = X[m,n] * w[n] * r[g] for m in off[g]:off[g+1] for n < len[m]", {**MN, "g": 3}, {"wrt": ["w", "r"]}),
    Case("C[m,n] = silu(G[m,n]) * U[m,n] + x[n]", MN),
    Case("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = relu(T); D[n,m]:f32 = T*T", MNK),
    Case("Q[m,n] = silu(X[m,n]) * w[n]; T[n,m] = silu(X[m,n]) * r[m]", MN),
    Case("Y[m,n] = x[m,n] * w[n] / (s + abs(x[m,n])) + b[m]", MN),
    Case("R[m] = sqrt(sum[n](x[m,n]^2) + 0.5)", MN),
    Case("R[m] = max[n](x[m,n]) * w[m]; Q[m] = min[n](x[m,n])", MN),
    Case("S[0]:f32 = max[m,n](x[m,n]) * w[0] + b[0]", MN),
    Case("M[m] = max[n](s*x[m,n]); S[m] = sum[n](exp(s*x[m,n] - M)); Y[m,n] = exp(s*x[m,n] - M) / S", MN),
    Case("R[m] = max[n](abs(x[m,n])); Y[m,n] = x[m,n] * w[n] / R", MN),
    Case("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T; R[m] = max[n](T * w[n]); Q[m] = min[n](T)", MNK),
    Case(
        "S[0]:f32 = max[m,n](x[m,n]) * w[0] + b[0]; E[0]:f32 = sum[m](y[m]^2 * exp(w[0] * b[0])) * exp(w[0] * b[0])", MN
    ),
    Case("C[m,n] = y[m,n] * max[j](x[j])", {**MN, "j": 5}),
    Case("C[m,n] = y[m,n] * exp(sum[j](x[j] * w[j]))", {**MN, "j": 5}),
    Case("C[m,n] = min(y[m,n], inf) + x[n]", MN),
    Case("C[m,n] = y[m,n] * max[j](x[m,j])", {**MN, "j": 5}),
    Case("M[m] = max[n](x[m,n]); S[m] = sum[n](exp(x[m,n] - M)); Y[m,n] = exp(x[m,n] - M) / S", MN),
    Case(
        "T[m,n] = x[m,n] for n < m+1 else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M));"
        " Y[m,n] = exp(T - M) / S * w[n]",
        MN,
    ),
    Case(
        "U[m] = sum[n](x[m,n])/6; V[m] = sum[n]((x[m,n] - U)^2)/6;"
        " Y[m,n] = (x[m,n] - U) / sqrt(V + 0.001) * w[n] + b[n]",
        MN,
    ),
    Case("S[m] = sum[k](X[m,k]^2); Y[m,k] = X[m,k] * w[k] / sqrt(S[m]/5 + 0.001)", {"m": 7, "k": 5}),
    Case("C[b,m,n] = a[b,m,n] + bias[n] * scale_of[b]", {"b": 3, **MN}),
    Case("C[m,n] = max(a[m,n], b[m,n], c[n]) - min(a[m,n], b[m,n])", MN),
    Case("C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128)", {"m": 5, "n": 130, "k": 140}, rounds=True),
    Case(
        "C[m,n] = gelu(quantize(A[m,k], e4m3, 1x128) @ quantize(B[n,k], e4m3, 1x128) + b[n])",
        {"m": 5, "n": 130, "k": 140},
        {"straight_through": True},
        rounds=True,
    ),
    Case(
        "C[m,n] = quantize(silu(A[m,k]) * w[k], e4m3, 1x64) @ quantize(B[e[m/4],n,k], e5m2, 1x64:ue8m0)",
        {"m": 18, "n": 6, "k": 40, "B_0": 3},
        {"straight_through": True, "wrt": ["A", "B"]},
        rounds=True,
    ),
    Case(
        "C[m,n] = quantize(relu(A[idx[m],k]) * w[k], e4m3, 1x64) @ B[n,k]",
        {"m": 18, "n": 6, "k": 70, "A_0": 5},
        {"straight_through": True},
        rounds=True,
    ),
    Case("C[m,n] = A[idx[m],k] @ quantize(B[n,k], e4m3, 1x64)", {**MNK, "A_0": 4}, {"wrt": "A"}, rounds=True),
]

MORE = [
    Case("Q[m,k]:bf16 = hadamard(X[m,k] * w[k], 16)", {"m": 5, "k": 48}),
    Case("T[k,m]:bf16 = hadamard(X[m,k] * r[m], 16); Y[m,k] = X[m,k] * w[k]", {"m": 32, "k": 5}),
    Case(
        "C[m,n]:bf16 = hadamard(gelu(A[m,k] @ B[n,k]), 16); S[m]:f32 = sum[n](gelu(A[m,k] @ B[n,k]))", {**MNK, "n": 40}
    ),
    Case("S[0]:f32 = sum[m](x[m] * y[m]) * w[1]", {"m": 7}),
    Case("Z[m,j] = X[m,t[m,j]] * w[j]", {"m": 3, "j": 2, "X_1": 5}, given={"t": i((0, 4), (2, 2), (1, -1))}),
    Case("C[m,n] = T[m/2%3,n] * T[m%3,n] * U[m,n]", MN),
    Case("C[m,n] = U[m,n] * T[m, n/4*6 + n%4]", {"m": 3, "n": 8}),
    Case("C[m,n] = A[m,k] @ B[n,k] * x[2*n] + y[n/4,n%4]", MNK),
    Case("C[m,n] = X[m,k] @ W[n+2,k] + y[m+1] * z[n/2,m%3]", MNK),
    Case("Y[m,n] = X[m,n]^2 * X[m,t[m]] for m < rows[0]", MN, given={"t": i(3, 1, 3, 0, -1, 3, 2), "rows": i(5)}),
    Case("Y[m,n] = A[idx[m],n] * A[m,n]", MN, given={"idx": i(3, 1, 3, 0, 1, -1, 2)}),
    Case(
        "C[m,n] = A[idx[m],n] * A[out[m],n]",
        {**MN, "A_0": 4},
        given={"idx": i(3, 1, 3, 0, 1, -1, 2), "out": i(0, 1, 0, 0, 3, 1, -1)},
    ),
    Case(
        "Z[t,n] = sum[j](w[t,j] * A[row[t,j],n] * v[t,j,n]) * b[n] + x[t,n]",
        {"t": 4, "j": 2, "n": 6, "A_0": 5},
        given={"row": np.array([[4, 2], [0, -1], [2, 2], [2, 4]], np.int32)},
    ),
    Case(
        "Y[t,j,n] = A[row[t,j],n]*w[g] for t in off[g]:off[g+1]",
        {"t": 4, "j": 2, "n": 6, "A_0": 5, "g": 3},
        given={"row": np.array([[4, 2], [0, -1], [2, 2], [2, 4]], np.int32), "off": i(0, 2, 2, 4)},
    ),
    # ranges, groups, gathered and scattered rows, several results, computed operands
    Case(
        "Y[m,n] = X[m,n] * w[g,n] * v[n] for m in off[g]:off[g+1] for n < len[m]",
        {**MN, **G},
        {"wrt": ["w", "v"]},
        given={**OFF, **LEN},
    ),
    Case(
        "L[q,t - lo[q]]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h]) for t in lo[q]:hi[q]",
        {"q": 5, "t": 6, "h": 3, "d": 4},
    ),
    Case(
        "L[q,t]:f32 = sum[h](exp(Q[q,h,d] @ K[t,d] / 4) * W[q,h]) * y[q] for t in lo[q]:hi[q]",
        {"q": 5, "t": 6, "h": 3, "d": 4},
    ),
    Case("Y[m,n] = X[m,n]*w[n] + r[m] for n < len[m]", MN, given=LEN),
    Case("Y[m,n] = X[m,n]*w[n]*r[m] for n < len[m] else 0", MN, given=LEN),
    Case("Y[m,n] = X[m,n]*w[n] for n < len[m] else 2", MN, given=LEN),
    Case("S[m] = sum[n](X[m,n]*w[n])*r[m] for n < len[m]", MN, given=LEN),
    Case("S[m] = sum[n](X[m,n]^2 * w) for n < len[m]", MN, given=LEN),
    Case("S[m] = max[n](X[m,n]) * w[m] for n < len[m]", MN, given={"len": i(1, 3, 6, 1, 2, 5, 4)}),
    Case(
        "Y[m,n] = X[m,n]*w[n]*s[0] for n in lo[m]:hi[m]",
        MN,
        given={"lo": i(0, 1, 2, 3, 0, 0, 5), "hi": i(6, 3, 2, 5, 1, 0, 6)},
    ),
    Case("T[m,n] = X[m,n] for n < len[m] else 0; S[m] = sum[n](T*T*w[n])", MN, given=LEN),
    Case("T[m,n] = X[m,n]*v[n] for n < len[m] else 0; Y[m,n] = T*w[n]", MN, given=LEN),
    Case(
        "T[m,n] = X[m,n] for n < len[m] else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M));"
        " Y[m,n] = exp(T - M) / S",
        MN,
        given={"len": i(1, 3, 6, 1, 2, 5, 4)},
    ),
    Case(
        "T[m,n] = X[m,n] for n < len[m]; M[m] = max[n](T); S[m] = sum[n](exp(T - M)); Y[m,n] = exp(T - M) / S",
        MN,
        given={"len": i(1, 3, 6, 1, 2, 5, 4)},
    ),
    Case("Y[m,n] = X[m,n]*w[n] for n < len[m] else 0; Z[m,n] = X[m,n]*v[n] for n < len[m] else 0", MN, given=LEN),
    Case("Y[m,n] = X[m,n]*w[n] for n < len[m]; S[m] = sum[n](X[m,n]^2) for n < len[m]", MN, given=LEN),
    Case(
        "C[m,n] = A[m,k] @ B[n,k] for m < rows[0] for n < cols[m]",
        MNK,
        given={"rows": i(5), "cols": i(0, 3, 6, 1, 2, 5, 4)},
    ),
    Case("Y[m,n] = X[m,n]*w[n]*r[m] for m < rows[0] for n < m+1", MN, given={"rows": i(5)}),
    Case("Y[m,n] = X[m,n]*w[n]*r[m] for n < m+1", MN),
    Case("Y[m,n] = X[m,n]*w[n]*r[m] for n < m+1 else 0", MN),
    Case("S[m] = sum[n](X[m,n]*w[n]) for n < m+1", MN),
    Case("S[m] = sum[n](X[m,n]*w[n]) for n < m/2", MN),
    Case("T[m,n] = X[m,n] for n < m+1; S[m] = sum[n](exp(T)); Y[m,n] = exp(T)/S*w[n]", MN),
    Case(
        "T[m,n] = X[m,n] for n < m+1 else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M)); Y[m,n] = exp(T - M) / S",
        MN,
    ),
    Case(
        "M[m] = max[n](X[m,n]) for n < m+1; S[m] = sum[n](exp(X[m,n] - M)) for n < m+1;"
        " Y[m,n] = exp(X[m,n] - M) / S for n < m+1",
        MN,
    ),
    Case("S[m] = sum[n](exp(X[m,n])) for n < m+1; Y[m,n] = exp(X[m,n]) / S for n < m+1 else 0", MN),
    Case("L[q,t] = Q[q,d] @ K[t,d] for t < q+1 else 0", {"q": 5, "t": 6, "d": 4}),
    Case("L[q,t] = Q[q,d] @ K[t,d] for t < q+1", {"q": 5, "t": 6, "d": 4}),
    Case("L[b,q,t] = Q[b,q,d] @ K[b,t,d] * s for t < q+1", {"b": 2, "q": 5, "t": 6, "d": 4}),
    Case(
        "L[q,t] = relu(Q[q,d] @ K[t,d] + b[t]) * w[q] for t in lo[q]:hi[q] else 0",
        {"q": 5, "t": 6, "d": 4},
        given={"lo": i(0, 1, 2, 3, 0), "hi": i(6, 3, 2, 5, 1)},
    ),
    Case("L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h]) for t < q+1", {"q": 5, "t": 6, "d": 4, "h": 3}),
    Case(
        "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h]) for t in lo[q]:hi[q] else 0",
        {"q": 5, "t": 6, "d": 4, "h": 3},
        given={"lo": i(0, 1, 2, 3, 0), "hi": i(6, 3, 2, 5, 1)},
    ),
    Case("Y[m,n] = X[m,n]*w[n] for m < rows[0]", MN, given={"rows": i(5)}),
    Case("Y[m,n] = X[m,n]*w[n] for m < rows[0] else 0", MN, given={"rows": i(5)}),
    Case("C[m,n] = A[m,k] @ B[n,k] + b[n] for m < rows[0]", MNK, given={"rows": i(5)}),
    Case("C[m,n] = A[m,k] @ B[n,k] + b[n] for m < rows[0] else 0", MNK, given={"rows": i(5)}),
    Case(
        "C[g,m,n] = silu(A[g,m,k] @ B[g,n,k] + b[g,n])*r[g,m] for m < rows[g]", {**MNK, **G}, given={"rows": i(7, 0, 3)}
    ),
    Case(
        "T[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]; C[g,m,n] = relu(T); R[g,m]:f32 = sum[n](T*T)",
        {**MNK, **G},
        given={"rows": i(7, 0, 3)},
    ),
    Case("C[m,n] = A[m,k] @ B[n,k] for k < len[0]", MNK, given={"len": i(3)}),
    Case(
        "T[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]; C[m,n] = relu(T); R[m]:f32 = sum[n](T*T)",
        {**MNK, **G},
        given=OFF,
    ),
    Case("C[m,n] = (A[m,k]*w[k]) @ B[g,n,k] for m in off[g]:off[g+1]", {**MNK, **G}, given=OFF, rounds=True),
    Case("C[m,n] = A[m,k] @ B[g,n,k] + D[m,r] @ E[g,n,r] for m in off[g]:off[g+1]", {**MNK, **G, "r": 2}, given=OFF),
    Case("Y[m,n] = X[m,n]*w[g]*v[n] + b[g,n]*r[m] for m in off[g]:off[g+1]", {**MN, **G}, given=OFF),
    Case("D[g,n]:f32 = sum[m](X[m,n] * w[g] * r[m]) for m in off[g]:off[g+1]", {**MN, **G}, given=OFF),
    Case("D[g]:f32 = sum[m](X[m] * Y[m])*w[g] for m in off[g]:off[g+1]", {**MN, **G}, given=OFF),
    Case("S[m]:f32 = sum[n](X[m,n]*w[g,n]) for m in off[g]:off[g+1]", {**MN, **G}, given=OFF),
    Case(
        "S[m] = sum[n](X[m,n]^2) for m in off[g]:off[g+1];"
        " Y[m,n] = X[m,n]*w[g,n]/sqrt(S + 0.1) for m in off[g]:off[g+1]",
        {**MN, **G},
        given=OFF,
    ),
    Case(
        "C[g,m,n] = w[g]*(A[m,k] @ B[n,k]) + D[m,n] for k in off[g]:off[g+1]",
        {**MNK, **G},
        given={"off": i(0, 2, 2, 4)},
    ),
    Case("C[g,m,n] = (A[k,m] @ B[k,n])*b[g,n] for k in off[g]:off[g+1]", {**MNK, **G}, given={"off": i(0, 2, 2, 4)}),
    Case(
        "C[g,m,n] = A[idx[k],m] @ B[k,n] for k in off[g]:off[g+1]",
        {**MNK, **G, "A_0": 4},
        given={"off": i(0, 2, 2, 4), "idx": i(3, 1, 0, 3, 2)},
    ),
    Case(
        "C[out[m],n] = A[idx[m],k] @ B[n,k]",
        {**MNK, "A_0": 4, "C_0": 9},
        given={"idx": i(3, 1, 3, 0, 1, -1, 2), "out": i(8, 1, 0, -1, 4, 5, 2)},
    ),
    Case(
        "C[out[m],n] = A[idx[m],k] @ B[g,n,k] for m in off[g]:off[g+1]",
        {**MNK, **G, "A_0": 4, "C_0": 9},
        given={**OFF, "idx": i(3, 1, 3, 0, 1, -1, 2), "out": i(8, 1, 0, -1, 4, 5, 2)},
    ),
    Case("C[idx[m],n] = A[idx[m],k] @ B[n,k]", {**MNK, "A_0": 9, "C_0": 9}, given={"idx": i(8, 1, 0, -1, 4, 5, 2)}),
    Case(
        "C[out[m],n] = w[m]*(A[idx[m],k] @ B[n,k]) + b[n]",
        {**MNK, "A_0": 4, "C_0": 9},
        given={"idx": i(3, 1, 3, 0, 1, 1, 2), "out": i(8, 1, 0, -1, 4, 5, 2)},
    ),
    Case(
        "C[out[m],n] = A[m,k] @ B[n,k] + x[out[m],n]",
        {**MNK, "C_0": 9, "x_0": 9},
        given={"out": i(8, 1, 0, -1, 4, 5, 2)},
    ),
    Case(
        "Y[out[m],n] = X[idx[m],n]*w[n]*r[m]",
        {**MN, "X_0": 4, "Y_0": 9},
        given={"idx": i(3, 1, 3, 0, 1, -1, 2), "out": i(8, 1, 0, -1, 4, 5, 2)},
    ),
    Case(
        "Y[out[m],n] = X[idx[m],n]*w[g] for m in off[g]:off[g+1]",
        {**MN, **G, "X_0": 4, "Y_0": 9},
        given={**OFF, "idx": i(3, 1, 3, 0, 1, -1, 2), "out": i(8, 1, 0, -1, 4, 5, 2)},
    ),
    Case(
        "Y[out[m],n] = X[idx[m],n]*w[n]",
        {**MN, "X_0": 9, "Y_0": 9},
        {"once": ["idx", "out"]},
        given={"idx": i(3, 1, 8, 0, 4, -1, 2), "out": i(8, 1, 0, -1, 4, 5, 2)},
    ),
    Case(
        "Y[m,n] = X[idx[m],n]*w[n] + x[idx[m],n]^2", {**MN, "X_0": 4, "x_0": 4}, given={"idx": i(3, 1, 3, 0, 1, -1, 2)}
    ),
    Case("Y[m,n] = X[idx[m],n]*w[n]; Z[m,n] = X[idx[m],n]^2", {**MN, "X_0": 4}, given={"idx": i(3, 1, 3, 0, 1, -1, 2)}),
    Case("Y[m,n] = X[idx[m],n]*w[n] for n < len[m]", {**MN, "X_0": 4}, given={**LEN, "idx": i(3, 1, 3, 0, 1, -1, 2)}),
    Case("S[m] = sum[n](X[idx[m],n]*w[n])", {**MN, "X_0": 4}, given={"idx": i(3, 1, 3, 0, 1, -1, 2)}),
    Case(
        "T[m,n] = A[idx[m],k] @ B[n,k]; C[m,n] = T*b[n]; R[m]:f32 = sum[n](T)",
        {**MNK, "A_0": 4},
        given={"idx": i(3, 1, 3, 0, 1, -1, 2)},
    ),
    Case(
        "Z[t,n] = sum[j](w[t,j] * A[row[t,j],n]) * b[n] + x[t,n]",
        {"t": 4, "j": 2, "n": 6, "A_0": 8},
        {"once": "row"},
        given={"row": ROW},
    ),
    Case(
        "Z[t,n] = sum[j](w[t,j] * A[row[t,j],n] * v[t,j,n])",
        {"t": 4, "j": 2, "n": 6, "A_0": 8},
        {"once": "row"},
        given={"row": ROW},
    ),
    Case(
        "C[m,n] = A[idx[m],k] @ B[e[m/4],n,k] * s[e[m/4]]",
        {**MNK, "m": 10, "A_0": 5, "B_0": 3, "s_0": 3},
        given={"e": i(0, 2, 2), "idx": i(3, 1, 3, 0, 1, -1, 2, 4, 4, 0)},
    ),
    Case(
        "C[out[m],n] = A[m,k] @ B[e[m/4],n,k] + b[e[m/4],n]",
        {**MNK, "m": 10, "C_0": 12, "B_0": 3, "b_0": 3},
        given={"e": i(0, 2, -1), "out": i(8, 1, 0, -1, 4, 5, 2, 11, 3, 7)},
    ),
    Case("Y[m,n] = X[m,n]*w[e[m/4]]*v[n]", {"m": 10, "n": 3, "w_0": 4}, given={"e": i(0, 2, 2)}),
    Case("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = T + x[n]; D[n,m] = relu(T)*y[m]", MNK),
    Case("G[m,n] = X[m,k] @ V[n,k]; U[m,n] = X[m,k] @ W[n,k]; H[m,n] = silu(G)*U; K[m,n] = G*b[n]", MNK),
    Case(
        "G[m,n] = X[m,k] @ V[n,k] + D[m,r] @ E[n,r]; U[m,n] = X[m,k] @ W[n,k] + D[m,r] @ F[n,r]; H[m,n] = silu(G)*U",
        {**MNK, "r": 2},
    ),
    Case("R[m] = sum[k](X[m,k]^2); Y[m,k] = X[m,k]*w[k]/sqrt(R + eps); T[k,m] = X[m,k]/sqrt(R + 1)", {"m": 4, "k": 5}),
    Case("S[k] = max[m](X[m,k])*w[k]; Z[k]:f32 = sum[m](X[m,k]^2)", {"m": 4, "k": 5}),
    Case("S[0]:f32 = sum[n](x[n] * y[n]); M[0]:f32 = max[n](x[n])", {"n": 5}),
    Case("C[m,n] = A[m,k] @ B[n,k]; S[m]:f32 = sum[k](A[m,k]^2*w[k]); M[m]:f32 = max[k](A[m,k])", MNK),
    Case("C[m,n] = (A[m,k] * r[m] * w[k]) @ B[n,k]; S[m]:f32 = sum[k]((A[m,k] * w[k])^2)", MNK, rounds=True),
    Case("D[s,m,n] = A[m,s,k] @ B[n,s,k]; S[s,m]:f32 = sum[k](A[m,s,k]^2)", {**MNK, "s": 2}),
    Case("R[m,b] = sqrt(sum[n]((A[b,m,k] @ B[b,n,k])^2) / 128 + 1)", {**MNK, "b": 2}),
    Case("T[m,n] = A[m,k] @ B[n,k]; R[m]:f32 = sum[n](T*T)*2; Z[n]:f32 = sum[m](T*w[m,n])", MNK),
    Case("C[m,n] = A[m,k] @ B[n,k] + x[n%4]*r[m/3] for m < rows[0]", MNK, given={"rows": i(5)}),
    Case("D[m, n/4*6 + n%4] = A[m,k] @ B[n,k] + b[n]", {**MNK, "n": 8}),
    Case("D[m, n/4*6 + n%4] = X[m,n]*w[n]", MN),
    Case("C[m,n] = A[m,k] @ B[n,k] + R[m, n/4*6 + n%4]*x[n]", MNK, {"wrt": ["A", "B", "x"]}),
    Case("C[n,m] = A[m,k] @ B[n,k] + x[m]", MNK),
    Case("C[m,n,b] = A[b,m,k] @ B[b,n,k]*w[b]", {**MNK, "b": 2}),
    Case("T[m,n] = X[m,n]*r[m] for n < len[m] else 0; Y[m,n] = silu(T)*w[n]", MN, given=LEN),
    Case("T[m,n] = X[m,n]*r[m] for n < len[m] else 0; U[m,n] = T*v[n]; Y[m,n] = U*w[n]; Z[m,n] = U + 1", MN, given=LEN),
    Case(
        "T[m,n] = X[m,n]*r[m] for n < len[m] else -inf; S[m] = sum[n](exp(T)); Y[m,n] = exp(T)/S*w[n]",
        MN,
        given={"len": i(1, 3, 6, 1, 2, 5, 4)},
    ),
    Case("T[m,n] = X[m,n] for n < m+1 else 0; Y[m,n] = T*(A[m,k] @ B[n,k])", MNK),
    Case("T[m,n] = A[m,k] @ B[n,k] for n < m+1 else 0; Y[m,n] = relu(T)*w[n]; Z[m,n] = T*T", MNK),
    Case(
        "T[m,n] = A[m,k] @ B[n,k] for m < rows[0] else 0; Y[m,n] = relu(T)*w[n] + b[n] for m < rows[0]",
        MNK,
        given={"rows": i(4)},
    ),
    Case(
        "T[m,n] = s*X[m,n] + b[m,n] for n < m+1 else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M));"
        " Y[m,n] = exp(T - M) / S; L[m] = M",
        MN,
    ),
    Case(
        "M[m] = max[n](X[m,n]); S[m] = sum[n](exp(s*(X[m,n] - M))) + 0.5;"
        " Y[m,n] = exp(s*(X[m,n] - M)) / S * max[j](z[j]*z[j])",
        {**MN, "j": 3},
    ),
    Case("M[m] = min[n](s*X[m,n]*r[m]); Y[m,n] = sqrt(exp(M - s*X[m,n]*r[m])) * exp(-0.5*M)", MN, {"wrt": ["X", "r"]}),
    Case(
        "M[m,h] = max(max[n](s*X[m,h,n]), z[h]); S[m,h] = sum[n](exp(s*X[m,h,n] - M)) + exp(z[h] - M);"
        " P[m,h,n] = exp(s*X[m,h,n] - M) / S",
        {**MN, "h": 3},
    ),
    Case("M[m] = max(max[n](x[m,n]*w[n]), z[m], 0.1); Y[m,n] = x[m,n] - M*w[n]", MN),
    Case("S[m] = sum[n](X[m,n]*Z[m,n]); Y[m,n] = X[m,n] * (Z[m,n] - S)", MN),
    Case("S[m] = sum[n](exp(s*X[m,n])); M[m] = max[n](X[m,n]^2/S); Y[m,n] = exp(s*X[m,n]) * M", MN),
    Case("S[m] = sum[n](tanh(x[m,n]*w)); Y[m,n] = x[m,n]*w + y[m,n]*S*w; Z[0]:f32 = sum[n](v[n]^2*w)", MN),
    Case("R[m] = max[n](X[m,n]*w[n]) for n < len[m]", MN, given={"len": i(1, 3, 6, 1, 2, 5, 4)}),
    Case("C[m,n] = A[m,k] @ B[n,k]; M[m] = max[k](A[m,k]^2*w[k])", MNK),
    Case("T[m,n] = X[m,n] for n < len[m] else 2; S[m] = sum[n](T*w[n]) + b[m]", MN, {"wrt": ["X", "b"]}, given=LEN),
]


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
