"""What the kernel spec says of indices and ranges that a program reads from memory, and of what stays unwritten."""

from __future__ import annotations

import pytest

from scalec.frontend import build
from scalec.ir.context import context
from scalec.lowering import reads, signature

RAGGED, MASKED = "for m in off[g]:off[g+1]", "for m < rows[g]"
ALONG_K = "for k in off[g]:off[g+1]"


def told(source: str) -> tuple[str, list[str]]:
    """Results that are partly written, and lookups and ranges as text."""
    with context():
        module = build(source)
        function = module.body.operations[0]
        _, results, _ = signature.tensors(function)
        found = reads.reads(function)
    text = []
    for read in found:
        for x in read.lookups:
            once = "" if x.once is None else f", once{''.join(f' along {axis}' for axis in x.once)}"
            text.append(f"{x.entry} of {x.tensor} {x.axis}{once}")
        for domain in read.domains:
            rises = "" if domain.rises is None else f", rises along {domain.rises}"
            text.append(f"{domain.low} <= {domain.dim} < {domain.high}{rises}")
    return " ".join(r.name for r in results if r.partial), text


OFFSETS = "off[g] <= m < off[g+1], rises along 0"


@pytest.mark.parametrize(
    ("source", "partial", "text"),
    [
        ("C[m,n] = A[m,k] @ B[n,k]", "", []),
        ("D[m,n]:mxfp8 = A[m,k] @ B[n,k]", "", []),
        ("D[m, n/8*12 + n%8]:f32 = A[m,k] @ B[n,k]", "D", []),
        ("C[m,n] = A[m,k] @ B[e[m/128],n,k] scale(1x128,1x128x128)", "C", ["e[m/128] of B 0"]),
        ("D[m,n]:mxfp8 = A[m,k]:mxfp8 @ B[e[m/128],n,k]:mxfp8", "D D_scale", ["e[m/128] of B 0"]),
        ("C[m,n] = A[m,k] @ B[e[m/16+1],n,k]", "C", ["e[(m+16)/16] of B 0"]),
        (f"C[m,n] = A[m,k] @ B[g,n,k] {RAGGED}", "C", [OFFSETS]),
        (f"C[m,n] = A[m,k] @ B[g,n,k] {RAGGED} else 0", "", [OFFSETS]),
        (f"C[m,n] += A[m,k] @ B[g,n,k] {RAGGED}", "C", [OFFSETS]),
        (f"D[m,n]:mxfp8 = A[m,k] @ B[g,n,k] {RAGGED}", "D D_scale", [OFFSETS]),
        (f"C[g,m,n] = A[g,m,k] @ B[g,n,k] {MASKED}", "C", ["0 <= m < rows[g]"]),
        ("C[m,n] = A[m,k] @ B[n,k] for m < rows[0]", "C", ["0 <= m < rows[0]"]),
        (f"C[g,m,n]:f32 = A[m,k] @ B[n,k] {ALONG_K}", "", ["off[g] <= k < off[g+1], rises along 0"]),
        (f"C[g,m,n]:f32 += A[m,k] @ B[n,k] {ALONG_K}", "", ["off[g] <= k < off[g+1], rises along 0"]),
        ("L[q,t]:f32 = Q[q,d] @ K[t,d] for t in lo[q]:hi[q] else -inf", "", ["lo[q] <= t < hi[q]"]),
        ("C[m,n] = A[idx[m],k] @ B[n,k]", "C", ["idx[m] of A 0"]),
        ("C[m,n] = A[idx[m],k] @ B[n,k] scale(1x128, 128x128)", "C", ["idx[m] of A 0"]),
        ("C[m,n] = relu(A[idx[m],k]) @ B[n,k]", "C", ["idx[m] of A 0"]),
        ("C[m,n] = A[m,k] @ (w[k] * B[e[m/128],n,k]):bf16", "C", ["e[m/128] of B 0"]),
        ("C[idx[m],n] = A[m,k] @ B[n,k]", "C", ["idx[m] of C 0, once"]),
        ("C[idx[m],n]:f32 += A[m,k] @ B[n,k]", "C", ["idx[m] of C 0, once", "idx[m] of C 0"]),
        ("D[idx[m],n]:mxfp8 = A[m,k] @ B[n,k]", "D D_scale", ["idx[m] of D 0, once", "idx[m] of D_scale 0, once"]),
        ("C[b,idx[b,m],n] = A[b,m,k] @ B[n,k]", "C", ["idx[b,m] of C 1, once along 0"]),
        (f"C[to[m],n] = A[from[m],k] @ B[g,n,k] {RAGGED}", "C", ["to[m] of C 0, once", "from[m] of A 0", OFFSETS]),
        ("L[s,t]:f32 = Q[s,d] @ K[table[s,t/64],t%64,d]", "L", ["table[s,t/64] of K 0"]),
    ],
)
def test_reads(source: str, partial: str, text: list[str]) -> None:
    assert told(source) == (partial, text)


def test_what_is_left_out_of_a_sum_leaves_nothing_unwritten() -> None:
    assert told("C[m,n] = A[m,idx[k]] @ B[n,k]") == ("", ["idx[k] of A 1"])
    assert told("C[m,n] = A[m,idx[k]] @ B[n,k] for m < rows[0]")[0] == "C"


def test_a_sum_of_gathered_rows_is_written_whatever_the_indices_are() -> None:
    combine = "Y[t,n] = sum[j](w[t,j] * D[inv[t,j],n])"
    assert told(combine) == ("", ["inv[t,j] of D 0"])
    assert told("Y[t,n] = sum[j](D[inv[t,j],n])")[0] == ""
    assert told("Y[t,n] = sum[j](w[t,j] * D[e[t],n])")[0] == "Y"
    assert told("Y[t,n] = w[t] * D[e[t],n]")[0] == "Y"
