"""Several results of one contraction, against the numpy reference: on a GPU, twice between guards."""

from __future__ import annotations

import pytest

import scalec
from scalec.checking.item import run_item
from scalec.checking.programs import Item
from tests.gpu.programs import SEVERAL

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("schedule", ["", "epilogue=direct", "swap=1", "split=2"])
@pytest.mark.parametrize("name", SEVERAL)
def test_program(torch, name: str, schedule: str) -> None:
    source, n, k = SEVERAL[name]
    target = scalec.compile("C[m,n] = A[m,k] @ B[n,k]").spec.target
    launches = tuple({"m": m, "n": n, "k": k} for m in (1, 77, 640, 2053))
    result = run_item(Item(name, source, target, schedule, launches))
    assert result.kind == "pass", result.message
