"""What texts may look like: a form is a row with holes, which are filled from rows of other tables.

`{l A[m,k]}`, `{r B[n,k]}` and `{s}` are the operands and the scales of a row of PAIRS, the same throughout a text; for the
others see holes.py.
"""

# ruff: noqa: E501  (a row of the table of forms is as long as its text)
from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Form:
    """What a text may look like."""

    text: str  # with holes
    weight: int = 2  # how often it is drawn
    # of dimensions other than a size of weights.SIZE: a row of EXTENTS.
    sizes: dict[str, str] = field(default_factory=dict)
    pairs: str = "any"  # the rows of PAIRS that its operands may be; "" where it has none
    targets: tuple[str, ...] = ()  # those that it is for, all where none is given
    k: str = "k"  # what its text calls the dimension that is summed over
    step: int = 1  # multiples that K is of
    straight_through: bool = False  # whether it is drawn a step of its gradients


BLACKWELL = ("sm_100a", "sm_103a", "sm_120a")


HEADS = {"h": "heads", "q": "queries", "s": "few"}
ROWS = " for m in off[g]:off[g+1]"
GROUP = {"g": "groups"}
ROW = {"m": "rows", "n": "wide"}

FORMS: dict[str, Form] = {
    "gated": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[n,k]}{s})", 4),
    "interleaved": Form("G[m,n] = {l X[m,k]} @ {r W[2*n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[2*n+1,k]}{s})", 3),
    "halves": Form("G[m,n] = {l X[m,k]} @ {r W[n,k]}{s}; H[m,n]{q} = {fn}(G + b[n]) * ({l X[m,k]} @ {r W[n+size(n),k]}{s} +"
                   " b[n+size(n)])", 2),
    "halves of blocks": Form("C[m,n]{t} = ({l A[m,k]} @ {r W[e[m/{B}],n+size(n),k]}{s}) * b[n+size(n)]", 1, {}, "grouped"),
    "interleaved rows": Form("G[m,n] = {l X[m,k]} @ {r W[g,2*n,k]}{s}" + ROWS + "; H[m,n]{q} = {fn}(G + b[g,2*n]) *"
                             " ({l X[m,k]} @ {r W[g,2*n+1,k]}{s} + b[g,2*n+1])" + ROWS, 1, GROUP, "grouped"),
    "a part": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n+128,k]}{s})}", 1),
    "written twice": Form("C[m,n]{t} = {of ({l A[m,k]} @ {r B[n,k]}{s})}; D[m,n]{q1} = {of1 ({l A[m,k]} @ {r B[n,k]}{s})}"),
    "gated, written twice": Form("H[m,n]{t} = {fn}({l X[m,k]} @ {r V[n,k]}{s}) * ({l X[m,k]} @ {r W[n,k]}{s}); R[m]{rt} ="
                                 " {back {red}[n]({fn}({l X[m,k]} @ {r V[n,k]}{s}) * ({l X[m,k]} @ {r W[n,k]}{s}))}", 1),
    "added, written twice": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n]{t} = T + {maybe ({l D[m,j]} @ {r E[n,j]}{s})}; F[m,n]{q1}"
                                 " = {of1 (T + {maybe ({l D[m,j]} @ {r E[n,j]}{s})})}", 2, {}, "added"),
    "added, another in each": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; U[m,n] = {l D[m,j]} @ {r E[n,j]}{s}; C[m,n]{t} = T + {fac U};"
                                   " F[m,n]{t1} = T + {fac1 U}", 1, {}, "added"),
    "in both orders": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n]{q} = {of T}; D[n,m]{t1} = {of1 T}", 1),
    "gaps in both orders": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[n,m + m/24*8]{t} = {of T}; D[m,n + n/32*16]{t1} = {of1 T}"),
    "rows in both orders": Form("T[m,n] = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS + "; C[m,n]{t} = {of T}; D[n,m]{t1} = {of1 T}",
                                1, GROUP, "grouped"),
    "a batch last": Form("C[m,n,b]{t} = {of ({l A[b,m,k]} @ {r B[b,n,k]}{s})}", 1, {"b": "few"}),
    "panes": Form("P[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; Q[m,n] = {l X[m,k]} @ {r W[n,k]}{s};"
                  " C[m,n]{t} = {of P}; D[m,n]{t1} = {of1 Q}"),
    "three": Form("C[m,n]{t} = ({l X[m,k]} @ {r U[n,k]}{s}) + ({l X[m,k]} @ {r V[n,k]}{s}) * {fn}({l X[m,k]} @ {r W[n,k]}{s})"),
    "added": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s} + {l D[m,j]} @ {r E[n,j]}{s})}", 3, {}, "added"),
    "added groups": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[e[m/{B}],n,k]}{s} + {l D[m,j]} @ {r E[f[m/{B}],n,j]}{s})}", 2, {}, "added"),
    "added rows": Form("C[m,n]{t} = {l A[m,k]} @ {r B[g,n,k]}{s} + {l D[m,j]} @ {r E[g,n,j]}{s}" + ROWS, 2, GROUP, "added"),
    "added thrice": Form("C[m,n]{add}= {l A[m,k]} @ {r B[n,k]}{s} + x[m] + {l D[m,k]} @ {r E[n,k]}{s} + {l F[m,j]} @ {r G[n,j]}{s}",
                         1, {}, "added"),
    "added batches": Form("C[b,m,n]{t} = {l A[b,m,k]} @ {r B[n,k]}{s} + {l D[m,j]} @ {r E[b,n,j]}{s}", 1, {"b": "few"}, "added"),
    "added converted": Form("C[m,n]{q} = {of (A[m,k]:bf16 @ B[n,k]:{w} + D[m,j]:bf16 @ E[n,j]:bf16)}", 4, {}, "", step=2),
    "added converted, groups": Form("C[m,n]{t} = A[m,k]:bf16 @ B[e[m/{B}],n,k]:{w} + D[m,j]:bf16 @ E[f[m/{B}],n,j]:bf16", 2, {}, "",
                                    step=2),
    "added reduced": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s} + {l D[m,j]} @ {r E[n,j]}{s}; C[m,n]{t} = {of T};"
                          " R[m]{rt} = {back {red}[n]({term T})}", 1, {}, "added"),
    "factor": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s} + {fac ({l D[m,j]} @ {r E[n,j]}{s})})}", 5, {}, "added"),
    "factor of the first": Form("C[m,n]{q} = {of ({fac ({l A[m,k]} @ {r B[n,k]}{s})} + {l D[m,j]} @ {r E[n,j]}{s})}", 3, {}, "added"),
    "difference": Form("C[m,n]{add}= {l A[m,k]} @ {r B[n,k]}{s} + x[n] - {l D[m,j]} @ {r E[n,j]}{s}", 2, {}, "added"),
    "factor of three": Form("C[m,n]{t} = {l A[m,k]} @ {r B[n,k]}{s} + {fac ({l D[m,j]} @ {r E[n,j]}{s})} + {l F[m,k]} @ {r G[n,k]}{s}",
                            2, {}, "added"),
    "factor, columns last": Form("C[n,m]{t} = {l A[m,k]} @ {r B[n,k]}{s} + r[m] * ({l D[m,j]} @ {r E[n,j]}{s})", 1, {}, "added"),
    "factor, batches": Form("C[b,m,n]{t} = {l A[b,m,k]} @ {r B[b,n,k]}{s} + s[b]:f32 * ({l D[b,m,j]} @ {r E[b,n,j]}{s})", 2,
                            {"b": "few"}, "added"),
    "factor, groups": Form("C[m,n]{q} = {l A[m,k]} @ {r B[n,k]}{s} + {fac ({l D[m,j]} @ {r E[e[m/{B}],n,j]}{s})}", 2, {}, "added"),
    "factor, groups' own": Form("C[m,n]{t} = {l A[m,k]} @ {r B[n,k]}{s} + s[e[m/{B}]]:f32 * ({l D[m,j]} @ {r E[e[m/{B}],n,j]}{s})", 1, {},
                                "added"),
    "factor, rows": Form("C[m,n]{t} = {l A[m,k]} @ {r B[g,n,k]}{s} + s[g]:f32 * ({l D[m,j]} @ {r E[g,n,j]}{s})" + ROWS, 2, GROUP, "added"),
    "factor, two results": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s} + {fac ({l D[m,j]} @ {r E[n,j]}{s})}; C[m,n]{q} = T; F[m,n]{q1} ="
                                " {of T}", 2, {}, "added"),
    "factor, reduced": Form("T[m,n] = {fac ({l A[m,k]} @ {r B[n,k]}{s})} + {l D[m,j]} @ {r E[n,j]}{s}; C[m,n]{t} = T; R[m]{rt} ="
                            " {back {red}[n]({term T})}", 2, {}, "added"),
    "factor, by chance": Form("C[m,n]{pq} = {pc {l A[m,k]} @ {r B[n,k]}{s} + {fac ({l D[m,j]} @ {r E[n,j]}{s})}}", 1, {}, "added"),
    "factor, scattered": Form("C[idx[m],n]{q} = {l A[m,k]} @ {r B[n,k]}{s} + {fac ({l D[m,j]} @ {r E[n,j]}{s})}", 1, {}, "added"),
    "factor, several sums": Form("C[m,n]{t} = {l A[m,b,k]} @ {r B[n,b,k]}{s} + {fac ({l D[m,c,j]} @ {r E[n,c,j]}{s})}", 1,
                                 {"b": "few", "c": "few"}, "plain"),
    "factor, converted": Form("C[m,n]{q} = {fac (A[m,k]:bf16 @ B[n,k]:{w})} + D[m,j]:bf16 @ E[n,j]:bf16", 3, {}, "", step=2),
    "factor of 16 bits": Form("C[m,n]{q} = A[m,k]:bf16 @ B[n,k]:{w1} + {fac (D[m,j]:bf16 @ E[n,j]:bf16)}", 3, {}, "", step=2),
    "factor, scales": Form("C[m,n]{t} = A[m,k] @ B[n,k]{sc} + D[m,j]:e4m3 @ E[n,j]:e4m3", 2, {}, ""),
    "added, zero points": Form("C[m,n]{t} = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n,k/32]) scale(none, 1x32:f16) + {maybe (D[m,j]:bf16 @"
                               " E[n,j]:bf16)}", 1, {}, "", step=2),
    "added, left converted": Form("C[m,n]{t} = A[m,k]:{narrow} @ B[n,k]:bf16 + D[m,j]:bf16 @ E[n,j]:bf16", 1, {}, "", step=2),
    "added, gathered": Form("C[m,n]{q} = {l A[idx[m],k]} @ {r B[n,k]}{s} + {maybe ({l D[m,j]} @ {r E[n,j]}{s})}", 2, {}, "plain"),
    "added, gathered both": Form("C[m,n]{t} = {l A[idx[m],k]} @ {r B[n,k]}{s} + {maybe ({l D[jdx[m],j]} @ {r E[n,j]}{s})}", 2, {}, "plain"),
    "added, gathered adapter": Form("C[m,n]{t} = {l A[m,k]} @ {r B[n,k]}{s} + {maybe ({l D[idx[m],j]} @ {r E[n,j]}{s})}", 1, {}, "plain"),
    "added, gathered converted": Form("C[m,n]{t} = A[idx[m],k]:bf16 @ B[n,k]:{narrow} + D[m,j]:bf16 @ E[e[m/{B}],n,j]:bf16", 1, {}, "", step=2),
    "added, there and back": Form("C[idx[m],n]:f32 += {l A[idx[m],k]} @ {r B[n,k]}{s} + {l D[idx[m],j]} @ {r E[n,j]}{s}", 1, {}, "plain"),
    "factors": Form("C[m,n]{q} = {of ({fac ({l A[m,k]} @ {r B[n,k]}{s})} + {fac1 ({l D[m,j]} @ {r E[n,j]}{s})})}", 3, {}, "added"),
    "factors, less": Form("C[m,n]{add}= x[n] - {l A[m,k]} @ {r B[n,k]}{s} - {fac ({l D[m,j]} @ {r E[n,j]}{s})}", 1, {}, "added"),
    "factors of three": Form("C[m,n]{t} = {fac ({l A[m,k]} @ {r B[n,k]}{s})} + {fac1 ({l D[m,j]} @ {r E[n,j]}{s})} + {maybe ({l F[m,k]} @"
                             " {r G[n,k]}{s})}", 2, {}, "added"),
    "factors, converted": Form("C[m,n]{q} = A[m,k]:bf16 @ B[n,k]:{w1} + {fac ({fn}(D[m,j]:bf16 @ E[n,j]:bf16))}", 2, {}, "", step=2),
    "added bytes": Form("C[m,n]{q} = {of (A[m,k] @ B[n,k] scale({sb}) + {maybe (D[m,j] @ E[n,j] scale({sb1}))})}", 3, {}, ""),
    "added, bytes of one": Form("C[m,n]{q} = {of (A[m,k] @ B[n,k] scale({sb}) + {maybe (D[m,j]:e4m3 @ E[n,j]:e4m3)})}", 2, {}, ""),
    "added, scales unlike": Form("C[m,n]{q} = {of (A[m,k] @ B[n,k] scale({sf}) + {maybe (D[m,j] @ E[n,j] scale({sf1}))})}", 3, {}, ""),
    "added, types unlike": Form("C[m,n]{q} = {of (A[m,k] @ B[n,k] scale({sb}) + {maybe (D[m,j]:bf16 @ E[n,j]:bf16)})}", 1, {}, ""),
    "gated from the left": Form("G[m,n] = {l V[m,k]} @ {r X[n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l W[m,k]} @ {r X[n,k]}{s})", 3),
    "gated, columns last": Form("G[m,n] = {l X[m,k]} @ {r V[k,n]}{s}; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[k,n]}{s})", 2, {}, "plain"),
    "gated adapters": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s} + {l D[m,j]} @ {r E[n,j]}{s}; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @"
                           " {r W[n,k]}{s} + {l D[m,j]} @ {r F[n,j]}{s})", 2, {}, "added"),
    "gated adapters, factors": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s} + {fac ({l D[m,j]} @ {r E[n,j]}{s})}; H[m,n]{q} = {fn}(G) *"
                                    " ({l X[m,k]} @ {r W[n,k]}{s} + {fac ({l D[m,j]} @ {r F[n,j]}{s})})", 3, {}, "added"),
    "gated adapters, rows": Form("G[m,n] = {l X[m,k]} @ {r V[g,n,k]}{s} + {l D[m,j]} @ {r E[g,n,j]}{s}" + ROWS + "; H[m,n]{t} = {fn}(G) *"
                                 " ({l X[m,k]} @ {r W[g,n,k]}{s} + {l D[m,j]} @ {r F[g,n,j]}{s})" + ROWS, 1, GROUP, "added"),
    "gated adapters, converted": Form("G[m,n] = X[m,k]:bf16 @ V[n,k]:{narrow} + D[m,j]:bf16 @ E[n,j]:bf16; H[m,n]{t} = {fn}(G) *"
                                      " (X[m,k]:bf16 @ W[n,k]:{narrow} + D[m,j]:bf16 @ F[n,j]:bf16)", 1, {}, "", step=2),
    "two sums": Form("C[m,n] = {fn}({l A[m,k]} @ {r B[n,k]}{s} + {l D[m,k]} @ {r E[n,k]}{s}) * ({l F[m,j]} @ {r G[n,j]}{s} + {l H[m,j]} @"
                     " {r I[n,j]}{s})", 1, {}, "plain"),
    "converted": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 4, {}, "converted"),
    "converted, blocks": Form("C[m,n]{q} = {l A[m,k]} @ {r B[e[m/{B}],n,k]}{s}", 1, {}, "converted"),
    "converted, rows": Form("C[m,n]{t} = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS + "{promise}", 1, GROUP, "converted"),
    "converted, gated": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[n,k]}{s})", 1, {}, "converted"),
    "stored": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 4, {}, "stored"),
    "stored, blocks": Form("C[m,n]{q} = {l A[m,k]} @ {r B[e[m/{B}],n,k]}{s}", 2, {}, "stored"),
    "stored, rows": Form("C[m,n]{t} = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS + "{promise}", 1, GROUP, "stored"),
    "stored, masked": Form("C[g,m,n]{t} = {l A[g,m,k]} @ {r B[g,n,k]}{s} for m < rows[g]", 1, GROUP, "stored"),
    "stored, gathered": Form("C[m,n]{t} = {l A[idx[m],k]} @ {r B[n,k]}{s}", 1, {}, "stored"),
    "stored, batches": Form("C[b,m,n]{t} = {of ({l A[b,m,k]} @ {r B[b,n,k]}{s})}", 1, {"b": "few"}, "stored"),
    "stored, gated": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[n,k]}{s})", 1, {}, "stored"),
    "stored, parts of K": Form("C[g,m,n]{add}= {l A[m,k]} @ {r B[n,k]}{s} for k in off[g]:off[g+1]{by}", 1, GROUP, "stored"),
    "stored, gated parts of K": Form("G[g,m,n] = {l X[m,k]} @ {r V[n,k]}{s} for k in off[g]:off[g+1]; H[g,m,n]{t} = {fn}(G) *"
                                     " ({l X[m,k]} @ {r W[n,k]}{s}) for k in off[g]:off[g+1]", 1, GROUP, "stored"),
    "stored, adapters": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s} + {maybe (D[m,j]:bf16 @ E[n,j]:bf16)})}", 1, {}, "stored"),
    "rounded": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 3, {}, "rounded"),
    "rounded, blocks": Form("C[m,n]{q} = {l A[m,k]} @ {r B[e[m/{B}],n,k]}{s}", 1, {}, "rounded"),
    "rounded, rows": Form("C[m,n]{t} = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS, 1, GROUP, "rounded"),
    "rounded, gathered": Form("C[m,n]{t} = {l A[idx[m],k]} @ {r B[n,k]}{s}", 1, {}, "rounded"),
    "rounded, gated": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[n,k]}{s})", 1, {}, "rounded"),
    "rounded, parts of K": Form("C[g,m,n]{add}= {l A[m,k]} @ {r B[n,k]}{s} for k in off[g]:off[g+1]{by}", 1, GROUP, "rounded"),
    "rounded, written twice": Form("C[m,n]{t} = {of ({l A[m,k]} @ {r B[n,k]}{s})}; D[m,n]{q1} = {of1 ({l A[m,k]} @ {r B[n,k]}{s})}", 1, {}, "rounded"),
    "zero points": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 2, {}, "zeros"),
    "zero points, blocks": Form("C[m,n]{q} = {l A[m,k]} @ {r B[e[m/{B}],n,k]}{s}", 2, {}, "zeros"),
    "zero points, rows": Form("C[m,n]{t} = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS, 1, GROUP, "zeros"),
    "computed, gathered": Form("C[m,n]{q} = {of ((A[idx[m],k] * wk[k]) @ abs(B[e[m/{B}],n,k]))}", 2, {}, ""),
    "computed, gathered rows": Form("C[m,n]{t} = silu(A[idx[m],k]:e4m3):bf16 @ relu(B[g,n,k])" + ROWS, 1, GROUP, ""),
    "zero points, gathered": Form("C[m,n]{t} = {l A[idx[m],k]} @ {r B[n,k]}{s}", 1, {}, "zeros"),
    "promised rows": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[g,n,k]}{s})}" + ROWS + "{promise}", 3, GROUP, "grouped"),
    "promised counts": Form("C[g,m,n]{q} = {l A[g,m,k]} @ {r B[g,n,k]}{s} for m < rows[g]{promise}", 2, GROUP, "grouped"),
    "first rows": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})} for m < rows[0]{promise}", 2, {}, "grouped"),
    "some rows": Form("C[m,n]{t} = {l A[m,k]} @ {r B[n,k]}{s} for m in lo[0]:hi[0]", 1, {}, "grouped"),
    "some columns": Form("C[m,n]{t} = {l A[m,k]} @ {r B[n,k]}{s} for n in lo[0]:hi[0]", 1, {}, "grouped"),
    "scattered batches": Form("C[b,idx[m],n]{q} = {l A[b,m,k]} @ {r B[n,k]}{s}", 1, {"b": "few"}, "plain"),
    "scattered by two": Form("C[b,idx[b,m],n]{q} = {l A[b,m,k]} @ {r B[b,n,k]}{s}", 1, {"b": "few"}, "plain"),
    "gathered batches": Form("C[b,m,n]{t} = {l A[b,idx[b,m],k]} @ {r B[n,k]}{s}", 1, {"b": "few"}, "plain"),
    "gathered by two": Form("C[b,m,n]{t} = {l A[idx[b,m],k]} @ {r B[b,n,k]}{s}", 1, {"b": "few"}, "plain"),
    "parts of operands": Form("C[m,n]{q} = {l A[m,k+128]} @ {r B[n+size(n),k]}{s}", 1, {}, "grouped"),
    "parts without a product": Form("Y[m,n]{p} = {fn}(X[m,n]{input}) * X[m,n+size(n)]", 2, {"n": "wide"}, ""),
    "rows by turns": Form("Y[m,n]{p} = {fn}(X[2*m,n]{input}) * X[2*m+1,n]", 1, {"n": "wide"}, ""),
    "quantised anew, others": Form("C[m,n]{t} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 3, {}, "blocks"),
    "quantised anew, batches": Form("C[b,m,n]{t} = {l A[b,m,k]} @ {r B[b,n,k]}{s}", 1, {"b": "few"}, "blocks"),
    "quantised anew, added to": Form("C[m,n]:f32 += {l A[idx[m],k]} @ {r B[e[m/{B}],n,k]}{s}", 1, {}, "anew"),
    "computed, batches": Form("C[b,m,n]{t} = (A[b,m,k] * wk[b,k] * r[b,m]:f32) @ B[b,n,k]", 1, {"b": "few"}, ""),
    "computed, reduced": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}; C[m,n]{t} = T; R[m]{rt} = {back {red}[n]({term T})}", 1, {}, "computed"),
    "window of pages": Form("C[s,q,t]{t} = {of ({l Q[s,q,d]} @ {r K[table[s,t/{P}],t%{P},d]}{s})} for t in lo[s]:hi[s]", 1, HEADS,
                            "plain", k="d"),
    "ranges without a product": Form("Q[m,n]{p} = {of X[m,n]{input}} for m in lo[0]:hi[0]", 1, {"n": "wide"}, ""),
    "windows without a product": Form("Q[g,m,n]{p} = {fn}(X[g,m,n]{input}) for m in lo[g]:hi[g]", 1, GROUP | {"n": "wide"}, ""),
    "columns without a product": Form("Y[m,n]{t} = {of X[m,n]{input}} for n in lo[m]:hi[m]", 2, {"n": "wide"}, ""),
    "filled without a product": Form("Q[m,n]{p} = {of X[m,n]{input}} for n < len[m] else 2", 2, {"n": "wide"}, ""),
    "filled rows without a product": Form("Q[m,n]{q} = {fn}(X[m,n]{input}); P[m,n]{t} = {of X[m,n]} for m < rows[0] else 0", 1,
                                          {"n": "wide"}, ""),
    "gated rows": Form("G[m,n] = {l X[m,k]} @ {r V[g,n,k]}{s}" + ROWS + "; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[g,n,k]}{s})"
                       + ROWS, 2, GROUP, "grouped"),
    "gated blocks": Form("G[m,n] = {l X[m,k]} @ {r V[e[m/{B}],n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @"
                         " {r W[e[m/{B}],n,k]}{s})", 2, {}, "grouped"),
    "gated batch": Form("G[b,m,n] = {l X[b,m,k]} @ {r V[b,n,k]}{s}; H[b,m,n]{t} = {fn}(G) * ({l X[b,m,k]} @ {r W[b,n,k]}{s})",
                        1, {"b": "few"}),
    "gated reduced": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; U[m,n] = {l X[m,k]} @ {r W[n,k]}{s}; H[m,n]{t} = G * U;"
                          " R[m]:f32 = {red}[n]({term G})", 1),
    "logits": Form("L[q,t]{t} = {red}[h]({head ({l Q[q,h,d]} @ {r K[t,d]}{s})})", 3, HEADS, "grouped", k="d"),
    "window": Form("L[q,t]{t} = {red}[h]({head ({l Q[q,h,d]} @ {r K[t,d]}{s})}) for t in lo[q]:hi[q] else {else}", 4, HEADS,
                   "grouped", k="d"),
    "counted": Form("L[s,t]{t} = {red}[h]({head ({l Q[s,h,d]} @ {r K[s,t,d]}{s})}) for t < len[s] else {else}", 2, HEADS,
                    "grouped", k="d"),
    "window of many": Form("L[q,t]{t} = {red}[h]({head ({l Q[q,h,d]} @ {r K[t,d]}{s})}) for t in lo[q]:hi[q] else {else}", 1,
                           {"h": "many", "q": "queries"}, "grouped", k="d"),
    "causal": Form("C[m,n]{t} = {of ({l A[m,k]} @ {r B[n,k]}{s})} for n in m-70:m+1 else 0", 1, {}, "grouped"),
    "filled before": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s} for n < len[m] else 2; C[m,n]{t} = relu(T) - 1; D[m,n]{t1} = {of1 T}"
                          " for n < len[m]", 1, {}, "grouped"),
    "causal heads": Form("L[q,t]{t} = {red}[h]({head ({l Q[q,h,d]} @ {r K[t,d]}{s})}) for t < q/2+9", 1, HEADS, "grouped", k="d"),
    "scores of pages": Form("C[s,q,t]{t} = {of ({l Q[s,q,d]} @ {r K[table[s,t/{P}],t%{P},d]}{s})}", 1, HEADS, "plain", k="d"),
    "open window": Form("L[q,t]{t} = {red}[h]({head ({l Q[q,h,d]} @ {r K[t,d]}{s})}) for t < hi[q]", 1, HEADS, "grouped", k="d"),
    "sums of pages": Form("O[s,h,d]{t} = {of (P[s,h,t] @ V[table[s,t/64],t%64,d])} for t < len[s]", 2, HEADS, "plain", k="t"),
    "pages": Form("L[s,t]{t} = {red}[h]({head ({l Q[s,h,d]} @ {r K[table[s,t/{P}],t%{P},d]}{s})}) for t < len[s] else {else}", 4,
                  HEADS, "plain", k="d"),
    "all pages": Form("L[s,t]{t} = {red}[h]({head ({l Q[s,h,d]} @ {r K[table[s/2,t/{P}],t%{P},d]}{s})})", 1, HEADS, "plain", k="d"),
    "compressed": Form("L[q, t - lo[q]]{t} = {red}[h]({head ({l Q[q,h,d]} @ {r K[t,d]}{s})}) for t in lo[q]:hi[q]", 4, HEADS,
                       "grouped", k="d"),
    "compressed batches": Form("L[s, t - lo[s]]{t} = {red}[h]({head ({l Q[s,h,d]} @ {r K[s,t,d]}{s})}) for t in lo[s]:hi[s]", 1,
                               HEADS, "grouped", k="d"),
    "compressed rows": Form("L[t - lo[q], q]{t} = {red}[h](relu({l Q[q,h,d]} @ {r K[t,d]}{s})) + x[q] for t in lo[q]:hi[q]", 1,
                            HEADS, "grouped", k="d"),
    "compressed beside": Form("T[q,t] = {red}[h]({head ({l Q[q,h,d]} @ {r K[t,d]}{s})}); L[q, t - lo[q]]{t} = T * y[q] for t in"
                              " lo[q]:hi[q]; M[q,t]{t1} = T for t in lo[q]:hi[q]", 1, HEADS, "grouped", k="d"),
    "compressed offsets": Form("L[q, t - off[q]]{t} = {red}[h](abs({l Q[q,h,d]} @ {r K[t,d]}{s})) for t in off[q]:off[q+1]", 1,
                               HEADS, "grouped", k="d"),
    "pages, a range": Form("L[s,t]{t} = {red}[h]({head ({l Q[s,h,d]} @ {r K[table[s,t/{P}],t%{P},d]}{s})}) for t in lo[s]:hi[s]{pages}{or}", 5,
                           HEADS, "paged", k="d"),
    "pages, tokens": Form("L[s,q,t]{t} = {red}[h]({heads ({l Q[s,q,h,d]} @ {r K[table[s,t/{P}],t%{P},d]}{s})}){ends}{or}", 5, HEADS, "paged", k="d"),
    "pages, flat tokens": Form("L[s,t]{t} = {red}[h]({head ({l Q[s,h,d]} @ {r K[table[s/2,t/{P}],t%{P},d]}{s})}) for t in lo[s]:hi[s]{pages}{or}", 3,
                               HEADS, "paged", k="d"),
    "tokens": Form("L[s,q,t]{t} = {red}[h]({heads ({l Q[s,q,h,d]} @ {r K[s,t,d]}{s})}){ends}{or}", 3, HEADS, "paged", k="d"),
    "compressed pages": Form("L[s, t - lo[s]]{t} = {red}[h]({head ({l Q[s,h,d]} @ {r K[table[s,t/{P}],t%{P},d]}{s})}) for t in lo[s]:hi[s]{pages}", 5,
                             HEADS, "paged", k="d"),
    "compressed pages, several": Form("T[s,t] = {red}[h]({head ({l Q[s,h,d]} @ {r K[table[s,t/{P}],t%{P},d]}{s})}); L[s, t - lo[s]]{t} = T * y[s,t]"
                                      " for t in lo[s]:hi[s]; M[s,t]{t1} = T for t in lo[s]:hi[s]", 2, HEADS, "paged", k="d"),
    "compressed pages, tokens": Form("L[s, q, t - lo[s,q]]{t} = {red}[h]({heads ({l Q[s,q,h,d]} @ {r K[table[s,t/{P}],t%{P},d]}{s})}) for t in"
                                     " lo[s,q]:hi[s,q]", 3, HEADS, "paged", k="d"),
    "compressed tokens": Form("L[s, q, t - lo[s]]{t} = {red}[h]({heads ({l Q[s,q,h,d]} @ {r K[s,t,d]}{s})}) for t in lo[s]:hi[s]", 2, HEADS,
                              "paged", k="d"),
    "compressed, scales": Form("L[q, t - lo[q]]{t} = {red}[h]({head ({l Q[q,h,d]} @ {r K[t,d]}{s})}) for t in lo[q]:hi[q]", 4, HEADS,
                               "paged", k="d"),
    "scores of pages, a range": Form("C[s,q,t]{t} = {of ({l Q[s,q,d]} @ {r K[table[s,t/{P}],t%{P},d]}{s})}{ends}{pages}{or}", 3, HEADS, "paged", k="d"),
    "sums of pages, a range": Form("O[s,h,d]{t} = {of (P[s,h,t] @ V[table[s,t/64],t%64,d])} for t in lo[s]:hi[s]", 2, HEADS, "plain", k="t"),
    "unlike": Form("C[m,n]{q} = {of (A[m,k] @ B[n,k] scale({sf}) + {fac ({un})})}", 3, {}, ""),
    "unlike the first": Form("C[m,n]{q} = {of ({un} + {fac (A[m,k] @ B[n,k] scale({sf}))})}", 2, {}, ""),
    "unlike, groups": Form("C[m,n]{q} = {of (A[m,k] @ B[e[m/{B}],n,k] scale(1x128, 128x128) + {maybe (D[m,j]:bf16 @ E[n,j]:bf16)})}",
                           2, {}, ""),
    "unlike, rows": Form("C[m,n]{q} = {of (A[m,k] @ B[g,n,k] scale(1x128, 128x128) + {maybe (D[m,j]:bf16 @ E[g,n,j]:bf16)})}" + ROWS, 2,
                         GROUP, ""),
    "unlike, masked": Form("C[g,m,n]{q} = A[g,m,k] @ B[g,n,k] scale(1x128, 128x128) + {maybe (D[g,m,j]:bf16 @ E[g,n,j]:bf16)} for m < rows[g]",
                           1, GROUP, ""),
    "unlike, batches": Form("C[b,m,n]{q} = A[b,m,k] @ B[b,n,k] scale(1x128, 128x128) + {maybe (D[b,m,j]:bf16 @ E[n,j]:bf16)}", 2, {"b": "few"}, ""),
    "unlike, gathered": Form("C[m,n]{q} = {of (A[idx[m],k] @ B[n,k] scale(1x128, 128x128) + {fac ({un})})}", 2, {}, ""),
    "unlike, scattered": Form("C[idx[m],n]{q} = A[m,k] @ B[n,k] scale({sf}) + {maybe ({un})}", 2, {}, ""),
    "unlike, several": Form("T[m,n] = A[m,k] @ B[n,k] scale({sf}) + {fac ({un})}; C[m,n]{q} = {of T}; R[m]{rt} = {back {red}[n]({term T})};"
                            " F[m,n]{t1} = {of1 T}", 3, {}, ""),
    "unlike, added to": Form("C[m,n]:f32 += A[m,k] @ B[n,k] scale({sf}) + {fac ({un})}", 2, {}, ""),
    "unlike, gaps": Form("C[m,n + n/32*16]{t} = {of (A[m,k] @ B[n,k] scale({sf}) + {maybe ({un})})}", 1, {}, ""),
    "unlike, columns last": Form("C[n,m]{q} = A[m,k] @ B[n,k] scale({sf}) + {maybe ({un})}", 1, {}, ""),
    "unlike, thrice": Form("C[m,n]{t} = A[m,k] @ B[n,k] scale({sf}) + {fac ({un})} + {maybe (F[m,k]:f16 @ G[n,k]:f16)}", 2, {}, ""),
    "unlike, gated": Form("G[m,n] = X[m,k] @ V[n,k] scale({sf}) + {maybe (D[m,j]:bf16 @ E[n,j]:bf16)}; H[m,n]{q} = {fn}(G) * (X[m,k] @ W[n,k]"
                          " scale({sf}) + {maybe (D[m,j]:bf16 @ F[n,j]:bf16)})", 2, {}, ""),
    "panes, gathered": Form("P[m,n] = {l X[idx[m],k]} @ {r V[n,k]}{s}; Q[m,n] = {l X[idx[m],k]} @ {r W[n,k]}{s}; C[m,n]{t} = {of P};"
                            " D[m,n]{t1} = {of1 Q}", 2, {}, "grouped"),
    "gated, gathered": Form("G[m,n] = {l X[idx[m],k]} @ {r V[n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[idx[m],k]} @ {r W[n,k]}{s})", 2, {}, "grouped"),
    "gated, gathered blocks": Form("G[m,n] = {l X[idx[m],k]} @ {r V[e[m/{B}],n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[idx[m],k]} @"
                                   " {r W[e[m/{B}],n,k]}{s})", 2, {}, "grouped"),
    "gated, gathered rows": Form("G[m,n] = {l X[idx[m],k]} @ {r V[g,n,k]}{s}" + ROWS + "; H[m,n]{q} = {fn}(G) * ({l X[idx[m],k]} @"
                                 " {r W[g,n,k]}{s})" + ROWS, 2, GROUP, "grouped"),
    "gated, scattered": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; H[idx[m],n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[n,k]}{s}) * x[idx[m],n]", 2, {},
                             "grouped"),
    "gated, in one tensor, gathered": Form("G[m,n] = {l X[idx[m],k]} @ {r W[n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[idx[m],k]} @"
                                           " {r W[n+size(n),k]}{s})", 2, {}, "grouped"),
    "panes, reduced": Form("P[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; Q[m,n] = {l X[m,k]} @ {r W[n,k]}{s}; C[m,n]{q} = P * {fn}(Q); R[m]{rt} ="
                           " {back {red}[n]({term P})}; Z[n]:f32 = {red1}[m]({term1 Q})", 3),
    "reduced, several": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n]{q} = T; D[m,n]{q1} = {of T}; R[m]{rt} = {back {red}[n]({term T})};"
                             " Z[n]:f32 = {red1}[m]({term1 T})", 3),
    "reduced batches": Form("T[b,m,n] = {l A[b,m,k]} @ {r B[b,n,k]}{s}; C[b,m,n]{q} = {of T}; R[b,m]{rt} = {back {red}[n]({term T})}; Z[b,n]:f32"
                            " = {red1}[m]({term1 T})", 2, {"b": "few"}),
    "reduced, gaps": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n + n/32*16]{t} = {of T}; Z[n]{rt} = {back {red}[m]({term T})}", 2),
    "gaps beside": Form("P[m,n] = {l B[m,k]} @ {r A[n,k]}{s}; Q[m,n] = {l E[m,k]} @ {r A[n,k]}{s}; C[m,n + n/32*16]{t} = {of P}; D[m,n]{t1} ="
                        " {of1 Q}", 3, {}, "plain"),
    "gaps beside, further on": Form("P[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; Q[m,n] = {l X[m,k]} @ {r W[n,k]}{s}; C[m,n + (n+16)/32*8]{t} = {of P};"
                                    " D[m,n + n/64*32]{t1} = {of1 Q}", 2, {}, "plain"),
    "inputs": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})} {op} {full}", 6),
    "inputs, columns last": Form("C[n,m]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})} {op} {full}", 2),
    "inputs, added to": Form("C[m,n]:f32 += ({l A[m,k]} @ {r B[n,k]}{s}) {op} {full}", 2),
    "inputs, two": Form("C[m,n]{q} = ({l A[m,k]} @ {r B[n,k]}{s}) {op} {full} {op1} z[m,n]{input}", 2),
    "inputs, batches": Form("C[b,m,n]{q} = {of ({l A[b,m,k]} @ {r B[b,n,k]}{s})} {op} {y y[b,m,n]}", 2, {"b": "few"}),
    "inputs, rows": Form("C[m,n]{q} = ({l A[m,k]} @ {r B[g,n,k]}{s}) {op} {full} + z[g,n]{input}" + ROWS, 3, GROUP, "grouped"),
    "inputs, columns": Form("C[m,n]{t} = ({l A[m,k]} @ {r B[n,k]}{s}) {op} y[m,n]{input} for n in lo[0]:hi[0]{promise}", 2, {"n": "wide"}, "grouped"),
    "inputs, blocks": Form("C[m,n]{q} = ({l A[m,k]} @ {r B[e[m/{B}],n,k]}{s}) {op} {full}", 3, {}, "grouped"),
    "inputs, masked": Form("C[g,m,n]{q} = ({l A[g,m,k]} @ {r B[g,n,k]}{s}) {op} {y y[g,m,n]} for m < rows[g]", 2, GROUP, "grouped"),
    "inputs, gathered": Form("C[m,n]{q} = ({l A[idx[m],k]} @ {r B[n,k]}{s}) {op} {y y[idx[m],n]}", 2, {}, "grouped"),
    "inputs, scattered": Form("C[idx[m],n]{q} = ({l A[m,k]} @ {r B[n,k]}{s}) {op} {y z[idx[m],n]} {op1} {full}", 3, {}, "grouped"),
    "inputs, gated": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[n,k]}{s}) {op} {full}", 3),
    "inputs, gated rows": Form("G[m,n] = {l X[m,k]} @ {r V[g,n,k]}{s}" + ROWS + "; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[g,n,k]}{s}) {op}"
                               " {full}" + ROWS, 1, GROUP, "grouped"),
    "inputs, a part": Form("C[m,n]{q} = ({l A[m,k]} @ {r B[n,k]}{s}) {op} y[m,n+size(n)]{input} {op1} z[m+size(m),n]", 2),
    "reduced groups": Form("T[m,n] = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS + "; C[m,n]{t} = {of T}; R[m]{rt} ="
                           " {back {red}[n]({term T})}; S[m]:f32 = {red1}[n]({term1 T})", 2, GROUP, "grouped"),
    "reduced groups alone": Form("R[m]{rt} = {red}[n](abs({l A[m,k]} @ {r B[g,n,k]}{s}))" + ROWS, 1, GROUP, "grouped"),
    "first rows, filled": Form("C[m,n]{t} = {of ({l A[m,k]} @ {r B[n,k]}{s})} for m < rows[0] else 0", 1, {}, "grouped"),
    "columns of rows": Form("C[m,n]{t} = {of ({l A[m,k]} @ {r B[n,k]}{s})} for n in lo[m]:hi[m] else -inf", 1, {}, "grouped"),
    "reduced masked": Form("T[g,m,n] = {l A[g,m,k]} @ {r B[g,n,k]}{s} for m < rows[g]; C[g,m,n]{t} = {of T}; R[m,g]{rt} ="
                           " {back {red}[n]({term T})}", 2, GROUP, "grouped"),
    "reduced windows": Form("T[g,m,n] = {l A[g,m,k]} @ {r B[g,n,k]}{s} for m in lo[g]:hi[g]; C[g,m,n]{t} = T; R[g,m]{rt} ="
                            " {back {red}[n]({term T})} for m in lo[g]:hi[g]", 1, GROUP, "grouped"),
    "reduced blocks": Form("T[m,n] = {l A[m,k]} @ {r B[e[m/{B}],n,k]}{s}; C[m,n]{t} = {of T}; R[m]{rt} = {back {red}[n]({term T})}",
                           2, {}, "grouped"),
    "reduced gathered": Form("T[m,n] = {l A[idx[m],k]} @ {r B[n,k]}{s}; C[m,n]{t} = {of T}; R[m]{rt} = {back {red}[n]({term T})}",
                             2, {}, "grouped"),
    "reduced gathered blocks": Form("T[m,n] = {l A[idx[m],k]} @ {r B[e[m/{B}],n,k]}{s}; C[m,n]{t} = T; R[m]{rt} ="
                                    " {back {red}[n]({term T})}", 1, {}, "grouped"),
    "reduced scattered": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[idx[m],n]{t} = {of T}; R[m]{rt} = {back {red}[n]({term T})}",
                              1, {}, "grouped"),
    "reduced parts": Form("T[g,m,n] = {l A[m,k]} @ {r B[n,k]}{s} for k in off[g]:off[g+1]{by}; R[g,m]{rt} = {back {red}[n]({term T})};"
                          " S[n,g]:f32 = {red1}[m]({term1 T})", 2, GROUP, "grouped"),
    "reduced columns of blocks": Form("S[b,n]{rt} = {red}[m](relu({l A[b,m,k]} @ {r B[e[b/2],n,k]}{s}))", 1, {"b": "few"}, "grouped"),
    "reduced columns of groups": Form("T[n,m] = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS + "; C[n,m]{t} = T; R[m]{rt} = {red}[n](T)",
                                      1, GROUP, "grouped"),
    "reduced rows of groups": Form("T[m,n] = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS + "; C[m,n]{t} = {of T}; R[g,n]{rt} ="
                                   " {back {red}[m]({term T})}" + ROWS, 2, GROUP, "grouped"),
    "reduced rows masked": Form("T[g,m,n] = {l A[g,m,k]} @ {r B[g,n,k]}{s} for m < rows[g]; C[g,m,n]{t} = T; R[n,g]{rt} ="
                                " {back {red}[m]({term T})} for m < rows[g]", 1, GROUP, "grouped"),
    "reduced rows gathered": Form("T[m,n] = {l A[idx[m],k]} @ {r B[n,k]}{s}; C[m,n]{t} = {of T}; R[n]{rt} = {back {red}[m]({term T})}",
                                  1, {}, "grouped"),
    "reduced": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n]{q} = {of T}; R[m]{rt} = {back {red}[n]({term T})}", 4),
    "reduced rows": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n]{t} = {of T}; Z[n]{rt} = {back {red}[m]({term T})}", 2),
    "reduced both": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n]{t} = {of T}; R[m]:f32 = {red}[n]({term T});"
                         " Z[n]:f32 = {red1}[m]({term1 T})", 2),
    "reduced alone": Form("R[m,b]{rt} = {back {red}[n]({term ({l A[b,m,k]} @ {r B[b,n,k]}{s})})}", 2, {"b": "few"}, "plain"),
    "two reductions": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; R[m]:f32 = {red}[n]({term T}); S[m]{rt} = {back {red1}[n]({term1 T})}"),
    "exponentials": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n]{q} = {of T}; M[m] = max[n]({term T}); R[m]:f32 = M; S[m]{rt} ="
                         " {back sum[n](exp({term T} - M))}", 3),
    "exponentials alone": Form("M[m,b] = max[n]({l A[b,m,k]} @ {r B[b,n,k]}{s}); S[b,m]:f32 = sum[n](exp({l A[b,m,k]} @ {r B[b,n,k]}{s}"
                               " - M[m,b]))", 2, {"b": "few"}, "plain"),
    "exponentials, rows": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; N[n] = max[m]({term T}); Z[n]{rt} = sum[m](exp({term T} - N)) + N;"
                               " R[m]:f32 = {red1}[n]({term1 T})", 2),
    "exponentials of groups": Form("T[m,n] = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS + "; C[m,n]{t} = {of T}; M[m] = max[n](T); R[m]{rt} = M;"
                                   " S[m]:f32 = sum[n](exp(T - M))", 1, GROUP, "grouped"),
    "product by chance": Form("C[m,n]{pq} = {pc {of ({l A[m,k]} @ {r B[n,k]}{s})}}", 4),
    "product by chance, columns last": Form("C[n,m]{pq} = {pc {l A[m,k]} @ {r B[n,k]}{s}}", 1, {}, "plain"),
    "product by chance, rows": Form("C[m,n]{pq} = {pc {l A[m,k]} @ {r B[g,n,k]}{s}}" + ROWS, 2, GROUP, "grouped"),
    "product by chance, masked": Form("C[g,m,n]{pq} = {pc {l A[g,m,k]} @ {r B[g,n,k]}{s}} for m < rows[g]", 1, GROUP, "grouped"),
    "product by chance, batches": Form("C[b,m,n]{pq} = {pc {l A[b,m,k]} @ {r B[b,n,k]}{s}}", 1, {"b": "few"}),
    "product by chance, scattered": Form("C[idx[m],n]{pq} = {pc {l A[m,k]} @ {r B[n,k]}{s}}", 2, {}, "grouped"),
    "product by chance, gathered": Form("C[m,n]{pq} = {pc {l A[idx[m],k]} @ {r B[e[m/{B}],n,k]}{s}}", 1, {}, "grouped"),
    "product by chance, gated": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; H[m,n]{pq} = {pc {fn}(G) * ({l X[m,k]} @ {r W[n,k]}{s})}", 2),
    "product by chance, twice": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n]{pq} = {pc T}; D[m,n]{t} = T; F[m,n]{pq1} ="
                                     " {pc1 {of T}}", 2),
    "product by chance, added": Form("C[m,n]{pq} = {pc {l A[m,k]} @ {r B[n,k]}{s} + {l D[m,j]} @ {r E[n,j]}{s}}", 1, {}, "added"),
    "whole rows": Form("C[m,n]:e4m3 scale(1x{n}) = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 2, {"n": "row"}),
    "whole rows of groups": Form("C[m,n]:e5m2 scale(1x{n}) = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS, 1, {"n": "row"} | GROUP, "grouped"),
    "long rows": Form("C[m,n]{row} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 3),
    "long rows, known": Form("C[m,n]{row} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 2, {"n": "long"}),
    "long rows of batches": Form("C[b,m,n]{row} = {l A[b,m,k]} @ {r B[n,k]}{s}", 1, {"b": "few"}),
    "long rows of groups": Form("C[m,n]{row} = {l A[idx[m],k]} @ {r B[g,n,k]}{s}" + ROWS, 2, GROUP, "grouped"),
    "long rows of blocks": Form("C[m,n]{row} = {of ({l A[m,k]} @ {r B[e[m/{B}+1],n,k]}{s})}", 1, {}, "grouped"),
    "long rows, masked": Form("T[g,m,n] = {l A[g,m,k]} @ {r B[g,n,k]}{s} for m < rows[g]; C[g,m,n]{row} = {of T}", 2, GROUP, "grouped"),
    "long rows, windows": Form("C[g,m,n]{row} = {l A[g,m,k]} @ {r B[g,n,k]}{s} for m in lo[g]:hi[g]", 1, GROUP, "grouped"),
    "long rows, gathered": Form("C[m,n]{row} = {of ({l A[idx[m],k]} @ {r B[e[m/{B}],n,k]}{s})}", 3, {}, "grouped"),
    "long rows, scattered": Form("C[idx[m],n]{row} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 2, {}, "grouped"),
    "long rows, gated": Form("G[m,n] = {l X[idx[m],k]} @ {r V[g,n,k]}{s}" + ROWS + "; U[m,n] = {l X[idx[m],k]} @ {r W[g,n,k]}{s}" + ROWS
                             + "; H[m,n]{row} = {fn}(G) * U", 2, GROUP, "grouped"),
    "long rows, several": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n]{t} = T; D[m,n]{row} = {of T}; F[m,n]{row1} = {fn}(T)", 2),
    "long rows, reduced": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; D[m,n]{row} = T; R[m]{rt} = {back {red}[n]({term T})}", 1),
    "long rows, added to": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[m,n]:f32 += T; D[m,n]{row} = {of T}", 2),
    "long rows, parts of K": Form("C[g,m,n]{row} = {l A[m,k]} @ {r B[n,k]}{s} for k in off[g]:off[g+1]{by}", 1, GROUP, "grouped"),
    "long rows by chance": Form("C[m,n]{row} = stochastic({of ({l A[m,k]} @ {r B[n,k]}{s})}, seed[0])", 1),
    "long rows of adapters": Form("C[m,n]{row} = {of ({l A[m,k]} @ {r B[n,k]}{s} + {maybe ({l D[m,j]} @ {r E[n,j]}{s})})}", 1, {}, "added"),
    "rows anew": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 4, {}, "whole"),
    "rows anew, batches": Form("C[b,m,n]{t} = {l A[b,m,k]} @ {r B[n,k]}{s}", 1, {"b": "few"}, "whole"),
    "rows anew, groups": Form("C[m,n]{t} = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS, 2, GROUP, "whole"),
    "rows anew, blocks": Form("C[m,n]{t} = {l A[m,k]} @ {r B[e[m/{B}],n,k]}{s}", 1, {}, "whole"),
    "rows anew, gated": Form("G[m,n] = {l X[m,k]} @ {r V[n,k]}{s}; H[m,n]{q} = {fn}(G) * ({l X[m,k]} @ {r W[n,k]}{s})", 2, {}, "whole"),
    "rows anew, added to": Form("C[m,n]:f32 += {l A[m,k]} @ {r B[n,k]}{s}", 1, {}, "whole"),
    "rows anew, and a result": Form("C[m,n]{row} = {l A[m,k]} @ {r B[n,k]}{s}", 2, {}, "whole"),
    "gathered": Form("C[m,n]{q} = {of ({l A[idx[m],k]} @ {r B[n,k]}{s})}", 3, {}, "grouped"),
    "gathered along K": Form("C[m,n]{q} = {of (A[idx[k],m]{half} @ B[k,n]{half})}", 2, {}, ""),
    "gathered along K, of 8 bits": Form("C[m,n]{q} = {of (A[idx[k],m]:e4m3 @ B[jdx[k],n]:e5m2)}", 1, {}, ""),
    "gathered along K, groups": Form("C[g,m,n]{add}= A[idx[k],m]{half} @ B[k,n]{half} for k in off[g]:off[g+1]{by}", 2, GROUP, ""),
    "gathered along K, scales": Form("C[m,n]{q} = {of (A[idx[k],m]:e4m3 @ B[k,n]:e4m3 scale(none, 128x1))}", 1, {}, ""),
    "gathered along K, scales of groups": Form("C[g,m,n]{add}= A[k,m]:e4m3 @ B[idx[k],n]:e5m2 scale(32x1:ue8m0, tensor) for k in off[g]:off[g+1]{by}",
                                               1, GROUP, ""),
    "gathered along K, scales of rows": Form("C[m,n]{t} = {of (A[idx[k],m]:e4m3 @ B[k,n]:bf16 scale(1x32:ue8m0, none))}", 1, {}, ""),
    "gathered along K, scales of both": Form("C[g,m,n]{add}= A[idx[k],m]:e4m3 @ B[jdx[k],n]:e5m2 scale(1x128:ue8m0, 1x16:ue8m0@col)"
                                             " for k in off[g]:off[g+1]{by}", 1, GROUP, ""),
    "gathered along K, both": Form("C[b,m,n]{t} = A[jdx[k],b,m]{half} @ B[idx[b,k],n]{half}", 1, {"b": "few"}, ""),
    "gathered columns": Form("C[m,n]{t} = {of ({l A[m,k]} @ {r B[idx[n],k]}{s})}", 1, {}, "grouped"),
    "gathered groups": Form("C[m,n]{q} = {l A[idx[m],k]} @ {r B[g,n,k]}{s}" + ROWS, 3, GROUP, "grouped"),
    "blocks further on": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[e[m/{B}+1],n,k]}{s})} * w[e[m/{B}+1],n]", 1, {}, "grouped"),
    "gathered blocks": Form("C[m,n]{q} = {l A[idx[m],k]} @ {r B[e[m/{B}],n,k]}{s}", 2, {}, "grouped"),
    "scattered": Form("C[idx[m],n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 3, {}, "grouped"),
    "scattered added": Form("C[idx[m],n]:f32 += {l A[m,k]} @ {r B[n,k]}{s} + z[idx[m],n]:f32", 2, {}, "grouped"),
    "scattered groups": Form("C[idx[m],n]{q} = r[m] * ({l A[m,k]} @ {r B[g,n,k]}{s})" + ROWS, 2, GROUP, "grouped"),
    "scattered columns": Form("C[m,idx[n]]{t} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 1, {}, "grouped"),
    "scattered columns added": Form("C[n,idx[m]]:f32 += {l A[m,k]} @ {r B[n,k]}{s} + z[n,idx[m]]:f32", 1, {}, "grouped"),
    "scattered beside": Form("T[m,n] = {l A[m,k]} @ {r B[n,k]}{s}; C[idx[m],n]{t} = {of T}; D[m,n]{t1} = T", 2, {}, "grouped"),
    "there and back": Form("C[p[m],n]{t} = {l A[idx[m],k]} @ {r B[n,k]}{s}", 1, {}, "grouped"),
    "rows' own": Form("C[m,n]{t} = alpha[g] * ({l A[m,k]} @ {r B[g,n,k]}{s}) + bias[g,n]" + ROWS, 2, GROUP, "grouped"),
    "parts of K": Form("C[g,m,n]{add}= {l A[m,k]} @ {r B[n,k]}{s} for k in off[g]:off[g+1]{by}", 3, GROUP, "grouped"),
    "weight gradient": Form("C[g,m,n]{add}= {l A[k,m]} @ {r B[k,n]} for k in off[g]:off[g+1]", 3, GROUP, "plain"),
    "K apart": Form("C[g,m,n]{t} = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x32:ue8m0{lay}, 1x32:ue8m0{lay})"
                    " for k in off[g]:off[g+1]{by} apart", 3, GROUP, "", BLACKWELL),
    "K apart 4": Form("C[g,m,n]{t} = A[m,k]:mxfp4 @ B[n,k]:mxfp4 for k in off[g]:off[g+1]{even} apart", 1, GROUP, "",
                      BLACKWELL, step=32),
    "K apart 90": Form("C[g,m,n]{add}= A[m,k] @ B[n,k] scale(1x128@col, 1x128@col) for k in off[g]:off[g+1]{by} apart", 1,
                       GROUP, ""),
    "rows apart": Form("C[m,n]{t} = A[m,k]:e4m3 @ B[g,n,k]:e4m3 scale(1x32:ue8m0{lay}, 1x1x32:ue8m0@blocked)" + ROWS + " apart",
                       3, GROUP, "", BLACKWELL),
    "operand folded": Form("D[m,n]{t} = {l A[m,k]} @ {r B[n,k]}; S[m]{rt} = {back sum[k]({term_k A[m,k]})}", 3, {}, "fold"),
    "operand's largest": Form("D[m,n]{t} = {l A[m,k]} @ {r B[n,k]}; S[m]{rt} = {red}[k]({term_k A[m,k]}); Z[n]:f32 = {red1}[k](B[n,k])",
                              1, {}, "fold"),
    "operand's parts": Form("D[s,m,n]:f32 = {l A[m,s,k]} @ {r B[n,s,k]}; S[s,m]:f32 = sum[k](A[m,s,k]^2)", 1, {"s": "few"}, "fold"),
    "rows of groups folded": Form("D[m,n]{t} = {l A[m,k]} @ {r B[g,n,k]}" + ROWS + "; S[m]{rt} = {red}[k]({term_k A[m,k]})" + ROWS,
                                  1, GROUP, "fold"),
    "gathered rows folded": Form("D[m,n]{t} = {l A[idx[m],k]} @ {r B[n,k]}; S[m]{rt} = {red}[k]({term_k A[idx[m],k]})", 1, {}, "fold"),
    "computed": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]})}", 3, {}, "computed"),
    "quantised anew": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 3, {}, "anew"),
    "quantised anew, groups": Form("C[m,n]{q} = {l A[m,k]} @ {r B[g,n,k]}{s}" + ROWS, 1, GROUP, "anew"),
    "quantised anew, blocks": Form("C[m,n]{q} = {l A[m,k]} @ {r B[e[m/{B}],n,k]}{s}", 1, {}, "anew"),
    "quantised anew, gathered": Form("C[m,n]{q} = {of ({l A[idx[m],k]} @ {r B[n,k]}{s})}", 1, {}, "anew"),
    "norm": Form("C[m,n]{t} = (A[m,k] * wk[k]) @ B[n,k]; S[m]:f32 = sum[k]((A[m,k] * wk[k])^2)", 1, {}, ""),
    "plain": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 4),
    "batches": Form("C[b,m,n]{t} = {of ({l A[b,m,k]} @ {r B[b,n,k]}{s})}", 2, {"b": "few"}),
    "combined": Form("Y[t,n]{t} = {red}[j](w[t,j]:f32 * D[inv[t,j],n]{input})", 3, {"j": "few", "n": "wide"}, ""),
    "picked": Form("Y[m,t]{t} = {red}[j](D[m,inv[t,j]]{input})", 2, {"j": "few"}, ""),
    "averaged": Form("Y[t,n]{t} = sum[j](D[t,j,n]{input}) / 4", 1, {"j": "few", "n": "wide"}, ""),
    "elementwise": Form("C[m,n]{t} = {fn}(G[m,n]) * U[m,n]{input} + x[n%64]", 2, {"n": "wide"}, ""),
    "a row and a column": Form("Y[b,m,n]{p} = {fn}(x[n]{input}) * r[b,m]", 2, {"b": "few", "n": "wide"}, ""),
    "copied": Form("C[m,n]{t} = {of G[idx[m],n]{input}}", 2, {"n": "wide"}, ""),
    "columns": Form("S[n]{t} = {back {red}[m]({term X[m,n]})}", 1, {"n": "wide"}, ""),
    "columns, each of its range": Form("S[n]{t} = {back {red}[m]({term X[m,n]})} for m < len[n]", 1, {"n": "wide"}, ""),
    "groups of a vector": Form("S[g]{t} = {back {red}[m]({term X[m]})}" + ROWS, 1, GROUP, ""),
    "weights": Form("W[n,k]{q} = {of {weights}}", 3, {}, "", step=128),
    "weights, turned": Form("W[k,n]{q} = {of {weights}}", 2, {}, "", step=128),
    "weights, both": Form("W[n,k]{q} = {weights}; S[n]{rt} = {red}[k]({weights})", 1, {}, "", step=128),
    "blocks of columns": Form("Y[m,n]{q} = {fn}(X[m,n]{input}) * x[n/16] + Z[m,n/32]:e2m1", 2, {"n": "wide"}, ""),
    "quantised": Form("Q[m,n]{q} = {of X[m,n]{input}}", 3, {"n": "wide"}, ""),
    "quantised twice": Form("Q[m,n]{q} = {fn}(X[m,n]{input}); P[m,n]{q1} = {of X[m,n]}", 2, {"n": "wide"}, ""),
    "quantised columns": Form("Q[m,n]{several} = {of X[m,n]{input}}" + ROWS + "{word}", 4, GROUP | {"n": "wide"}, ""),
    "quantised columns, turned": Form("Q[m,n]{b} = {of X[m,n]{input}}" + ROWS + " apart; T[n,m]{columns} = {of1 X[m,n]{input}}" + ROWS
                                      + " apart", 3, GROUP | {"n": "wide"}, ""),
    "quantised columns, masked": Form("Q[g,m,n]{several} = {of X[g,m,n]{input}} for m < rows[g]", 2, GROUP | {"n": "wide"}, ""),
    "quantised columns, gathered": Form("Q[m,n]{several} = {of X[idx[m],n]{input}}", 2, {"n": "wide"}, ""),
    "columns, windows": Form("S[n]{rt} = {back {red}[m]({term X[m,n]{input}} * w[m])} for m in lo[n]:hi[n]", 2, {"n": "wide"}, ""),
    "columns, causal": Form("S[n]{rt} = {back {red}[m]({term X[m,n]{input}})} for m < n+1", 1, {"n": "wide"}, ""),
    "causal, one row": Form("Y[m,n]{t} = {of X[m,n]{input}} for n < {end}", 2, {"n": "wide"}, ""),
    "causal, filled": Form("Q[m,n]{p} = {of X[m,n]{input}} for n < {end} else {else}", 2, {"n": "wide"}, ""),
    "causal rows": Form("R[m]{rt} = {back {red}[n]({term X[m,n]{input}})} for n < {end}", 2, {"n": "wide"}, ""),
    "causal softmax": Form("T[m,n] = X[m,n]{input} for n < {end} else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M));"
                           " Y[m,n]{p} = exp(T - M) / S", 3, {"n": "wide"}, ""),
    "causal, several": Form("T[m,n] = {of X[m,n]{input}} for n < {end} else {else}; Y[m,n]{t} = T; R[m]{rt} = {red}[n]({term T}); Z[m,n]{q1}"
                            " = {fn}(T) * y[m,n]", 2, {"n": "wide"}, ""),
    "ragged softmax": Form("T[m,n] = {of X[m,n]{input}}{window} else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M)); Y[m,n]{p} ="
                           " exp(T - M) / S", 4, ROW, ""),
    "ragged softmax, several": Form("T[m,n] = X[m,n]{input}{window} else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M)); Y[m,n]{p} = exp(T - M)"
                                    " / S; Z[m,n]{q1} = T; R[m]{rt} = {back {red}[n](abs(T))}", 4, ROW, ""),
    "ragged softmax, narrow": Form("T[m,n] = X[m,n]{input}{window} else -inf; M[m] = max[n](T); S[m] = sum[n](exp(T - M)); Y[m,n]{p} ="
                                   " exp(T - M) / S; Z[m,n]{q1} = {fn}(T - M)", 2, {"m": "rows"}, ""),
    "softmax, gathered": Form("M[m] = max[n](X[idx[m],n]{input}); S[m] = sum[n](exp(X[idx[m],n] - M)); Y[m,n]{p} = exp(X[idx[m],n] - M) / S", 2,
                              ROW, ""),
    "softmax, scattered": Form("M[m] = max[n](X[m,n]{input}); S[m] = sum[n](exp(X[m,n] - M)); Y[idx[m],n]{p} = exp(X[m,n] - M) / S", 2, ROW, ""),
    "norm, masked": Form("R[g,m] = sum[n](X[g,m,n]^2) for m < rows[g]; Y[g,m,n]{p} = X[g,m,n]{input} * x[n] / sqrt(R/64 + 1) for m < rows[g]", 3,
                         GROUP | {"n": "wide"}, ""),
    "norm, masked, several": Form("R[g,m] = sum[n](X[g,m,n]^2) for m < rows[g]; Y[g,m,n]{q} = X[g,m,n]{input} / sqrt(R/64 + 1) for m < rows[g]; Z[g,m,n]{q1} ="
                                  " {of R} * X[g,m,n] for m < rows[g]", 2, GROUP | {"n": "wide"}, ""),
    "norm, groups": Form("R[m] = sum[n](X[m,n]^2)" + ROWS + "; Y[m,n]{p} = X[m,n]{input} * w[n] / sqrt(R/64 + 1)" + ROWS, 3, GROUP | ROW, ""),
    "norm, gathered": Form("R[m] = sum[n](X[idx[m],n]^2); Y[m,n]{p} = X[idx[m],n]{input} / sqrt(R/64 + 1); Z[m,n]{q1} = X[idx[m],n]", 3,
                           ROW, ""),
    "norm of parts": Form("U[m] = sum[n](X[m,n]); V[m] = max[n](abs(X[m,n])); Y[m,n]{p} = (X[m,n]{input} - U/64) / max(V, 1); Z[m,n]{q1} = {fn}(X[m,n]"
                          " * V)", 3, ROW, ""),
    "norm, filled": Form("T[m,n] = {of X[m,n]{input}}{window} else {else}; R[m] = sum[n](T*T); Y[m,n]{p} = T / sqrt(R/64 + 1); Z[m,n]{q1} = T", 4,
                         ROW, ""),
    "norm, both orders": Form("R[m] = sum[n](X[m,n]^2); Y[m,n]{b} = X[m,n]{input} / sqrt(R/64 + 1); T[n,m]{b1} = X[m,n] / sqrt(R/64 + 1)", 2,
                              ROW, ""),
    "straight through": Form("C[m,n] = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 3, {}, "anew", step=128, straight_through=True),
    "straight through, blocks": Form("C[m,n] = {l A[m,k]} @ {r B[e[m/{B}],n,k]}{s}", 2, {}, "anew", step=128, straight_through=True),
    "straight through, whole": Form("C[m,n] = {of ({l A[m,k]} @ {r B[n,k]}{s})}", 1, {}, "whole", step=128, straight_through=True),
    "straight through, result": Form("C[m,n]{q} = {of ({l A[m,k]} @ {r B[g,n,k]}{s})}" + ROWS, 2, GROUP, "grouped", step=128,
                                     straight_through=True),
    "quantised rows": Form("Q[idx[m],n]{q} = {of X[m,n]{input}}", 2, {"n": "wide"}, ""),
    "by chance": Form("Q[m,n]{p} = {chance {of X[m,n]{input}}}", 4, {"n": "wide"}, ""),
    "by chance, any": Form("Q[m,n]{p} = {chance {of X[m,n]{input}}}", 2, {}, ""),
    "by chance twice": Form("Q[m,n]{p} = {chance X[m,n]{input}}; P[m,n]{p1} = {chance1 {of X[m,n]}}; O[m,n]{t} = X[m,n]", 2,
                            {"n": "wide"}, ""),
    "by chance, turned": Form("Q[m,n]{b} = {turned X[m,n]{input}}; T[n,m]{b1} = {turned1 X[m,n] * x[m]}", 2, {"n": "wide"}, ""),
    "by chance, scattered": Form("Q[idx[m],n]{p} = {chance {of X[m,n]{input}}}", 2, {"n": "wide"}, ""),
    "by chance, masked": Form("Q[g,m,n]{p} = {chance {of X[g,m,n]{input}}} for m < rows[g]", 2, GROUP | {"n": "wide"}, ""),
    "by chance, gathered": Form("Q[b,m,n]{p} = {chance {fn}(X[idx[b,m],n]{input})}", 1, {"b": "few", "n": "wide"}, ""),
    "by chance, norm": Form("R[m] = sum[n](X[m,n]^2); Y[m,n]{p} = {chance X[m,n] * x[n] / sqrt(R/64 + 1)}", 2, {"n": "wide"}, ""),
    "by chance, step": Form("V[m,n]{p} = {chance W[m,n]{input} - alpha * X[m,n]:f32}", 1, {"n": "wide"}, ""),
    "dequantised": Form("Y[m,n]{rt} = {of X[m,n]{d}}", 4, {"n": "wide"}, ""),
    "dequantised, any": Form("Y[m,n]{rt} = {fn}(X[m,n]{d}) + y[m,n]", 2, {}, ""),
    "requantised": Form("Q[m,n]{p} = {of X[m,n]{d}}", 3, {"n": "wide"}, ""),
    "dequantised, gathered": Form("Q[m,n]{p} = {fn}(X[idx[m],n]{d})", 2, {"n": "wide"}, ""),
    "softmax": Form("M[m] = max[n](X[m,n]{input}); S[m] = sum[n](exp(X[m,n] - M)); Y[m,n]{p} = exp(X[m,n] - M) / S", 6, {"n": "wide"}, ""),
    "transformed": Form("Q[m,n]:f32 = hadamard({of X[m,n]{input}}, 16); P[m,n]{t} = X[m,n]", 1, {"n": "wide"}, ""),
    "whole rows, quantised": Form("Q[m,n]{p} = {of X[m,n]{input}}", 2, {}, ""),
    "row": Form("R[m]{rt} = {back {red}[n]({fn}(X[m,n]{input}) * w[n])}", 2, {"n": "wide"}, ""),
    "row's norm": Form("R[m] = sum[n](X[m,n]^2); Y[m,n]{q} = X[m,n] * x[n] / sqrt(R/64 + 1)", 2, {"n": "wide"}, ""),
}  # fmt: skip
"""What a text may look like, by name."""
