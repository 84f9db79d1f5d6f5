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


def test_a_bundle_of_scales_seen_the_other_way_round(tmp_path: Path) -> None:
    program = "C[m,n] = A[m,k] @ B[k,n] scale(1x128, 128x128)"
    kernel = scalec.compile(program, "sm_90a", {"m": 8192, "n": 8192, "k": 8192})
    assert isinstance(kernel, Sequence)
    bundle.write(tmp_path, [kernel])
    found = scalec.load(tmp_path)["C"]
    assert isinstance(found, Sequence)
    assert found.turned == kernel.turned == (("B_turned_scale", "B_scale"),)
    assert found.spec == kernel.spec
    path = tmp_path / bundle.MANIFEST
    manifest = json.loads(path.read_text())
    manifest["sequences"][0]["turned"] = [["B_turned_scale", "A_scale"]]
    path.write_text(json.dumps(manifest))
    with pytest.raises(ScalecError, match="not a bundle's manifest"):
        scalec.load(tmp_path)


def test_a_bundle_without_a_kernel_that_it_names(tmp_path: Path) -> None:
    bundle.write(tmp_path, [scalec.compile("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", "sm_90a")])
    path = tmp_path / bundle.MANIFEST
    manifest = json.loads(path.read_text())
    del manifest["kernels"][1]
    path.write_text(json.dumps(manifest))
    with pytest.raises(ScalecError) as refusal:
        scalec.load(tmp_path)
    assert "no kernel 'D, launch 2'" in refusal.value.got


def test_a_damaged_row_of_a_sequence_is_found(tmp_path: Path) -> None:
    """Whatever in it is another text: two operands of one type that have changed places would be wrong numbers."""
    bundle.write(tmp_path, [scalec.compile("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", "sm_90a")])
    path = tmp_path / bundle.MANIFEST
    text = path.read_text()
    for field, other in (
        ("operands", ["B", "A"]),
        ("results", ["D_scale", "D"]),
        ("launches", ["D, launch 1"]),
        ("source", "D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k] "),
        ("name", "E"),
        ("launches", []),
    ):
        manifest = json.loads(text)
        assert manifest["sequences"][0][field] != other
        manifest["sequences"][0][field] = other
        path.write_text(json.dumps(manifest))
        with pytest.raises(ScalecError) as refusal:
            scalec.load(tmp_path)
        assert str(path) in refusal.value.message
        assert "sequences[0]" in refusal.value.got
    path.write_text(text)
    assert list(scalec.load(tmp_path)) == ["D"]
