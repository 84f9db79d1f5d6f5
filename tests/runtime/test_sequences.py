"""Programs of several launches where there is no compiler: bundles, and pickles of them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

import scalec
from scalec.errors import ScalecError
from scalec.runtime import bundle
from scalec.runtime.sequence import Sequence


def test_a_bundle_has_all_launches(tmp_path: Path) -> None:
    """Kernels of each launch, and how they follow one another; written again, it has no more."""
    kernel = scalec.compile("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", "sm_90a")
    assert isinstance(kernel, Sequence)
    other = scalec.compile("C[m,n] = A[m,k] @ B[n,k]", "sm_90a")
    for _ in range(2):
        bundle.write(tmp_path, [kernel, other])
    loaded = scalec.load(tmp_path)
    assert sorted(loaded) == ["C", "D"]
    found = loaded["D"]
    assert isinstance(found, Sequence)
    assert found.spec == kernel.spec
    assert [k.cubin for k in found.kernels] == [k.cubin for k in kernel.kernels]
    assert pickle.loads(pickle.dumps(kernel)).spec == kernel.spec


def test_a_bundle_without_a_kernel_that_it_names(tmp_path: Path) -> None:
    bundle.write(tmp_path, [scalec.compile("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", "sm_90a")])
    path = tmp_path / bundle.MANIFEST
    manifest = json.loads(path.read_text())
    manifest["sequences"][0]["launches"][1] = "E"
    path.write_text(json.dumps(manifest))
    with pytest.raises(ScalecError) as refusal:
        scalec.load(tmp_path)
    assert "no kernel 'E'" in refusal.value.got
