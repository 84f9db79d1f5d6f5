"""Our dialects' classes are found by the bindings without a search."""

from __future__ import annotations

import sys

import pytest

from scalec import compiler


def test_no_op_makes_the_bindings_import_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that they do not find they look for again at every op: 3200 times in a compilation."""
    sought = []

    class Watch:
        @staticmethod
        def find_spec(name: str, path: object, target: object = None) -> None:
            sought.append(name)

    def compile_one() -> None:
        compiler.compile_source("C[m,n] = A[m,k] @ B[n,k]", "sm_120a", {"n": 64, "k": 64})

    compile_one()  # after which all that is imported late has been
    monkeypatch.setattr(sys, "meta_path", [Watch, *sys.meta_path])
    compile_one()
    assert [name for name in sought if name.endswith((".tile", ".scale"))] == []
