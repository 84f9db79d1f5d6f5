"""What is refused of an operand that is computed names what it is computed of, and which indices that lacks."""

from __future__ import annotations

import pytest

from scalec.compiler import compile_source
from scalec.errors import ScalecError

GROUPS = "@ B[g,n,k] for m in off[g]:off[g+1]"
REFUSED = {
    f"C[m,n] = (A[m,k] * w[g,k]):bf16 {GROUPS}": "an operand with the indices m, k, g is computed of A[m, k], which "
    "lacks g and w[g, k], which lacks m",
    f"C[m,n] = (A[m,k] * w[g,k]) {GROUPS}": "got: no tensor that has g, k, m: A[m, k] lacks g, w[g, k] lacks m",
    "C[m,n] = (A[m,k] + D[m,k]):bf16 @ B[n,k]": "is computed of A[m, k] and D[m, k], which have all its indices",
    "C[m,n] = (A[m,k] + D[m,k]) @ B[n,k]": "got: A[m, k] and D[m, k], which have all its indices",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_lacks_an_index_is_named(source: str) -> None:
    with pytest.raises(ScalecError) as refused:
        compile_source(source, "sm_90a", until="tile")
    assert REFUSED[source] in str(refused.value)
