"""Bundles: written, read and run, also where there is no compiler."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import scalec
from scalec.errors import ArgumentError, ScalecError
from scalec.runtime import bundle, dispatch
from scalec.runtime.kernel import Kernel
from scalec.targets import get_target
from tests.runtime.fake import FakeDevice, gemm_spec, gemm_tensors, simple_spec


def kernel(cubin: bytes = b"cubin", **dims: int) -> Kernel:
    return Kernel(gemm_spec(**dims), cubin)


def test_a_bundle_of_one_is_callable(tmp_path):
    files = bundle.write(tmp_path / "b", [kernel()])
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == sorted(p.name for p in files)
    device = FakeDevice()
    loaded = bundle.load(tmp_path / "b", device)
    c = loaded(*gemm_tensors().values())
    assert c.shape == (256, 512)
    assert device.launches[0].function == ("C", b"cubin")
    assert (list(loaded), len(loaded), repr(loaded)) == (["C"], 1, "Bundle(C)")
    assert loaded["C"].kernels[0].spec == gemm_spec()


def test_the_specialisation_is_picked_by_the_sizes(tmp_path):
    made = [kernel(b"any"), kernel(b"k", k=1024), kernel(b"nk", n=512, k=1024)]
    bundle.write(tmp_path, made)
    device = FakeDevice()
    loaded = bundle.load(tmp_path, device)
    for sizes in ({}, {"n": 640}, {"k": 2048}):
        loaded["C"](**gemm_tensors(**sizes))
    assert [x.function[1] for x in device.launches] == [b"nk", b"k", b"any"]


def test_no_specialisation_fits(tmp_path):
    bundle.write(tmp_path, [kernel(b"1", k=1024), kernel(b"2", n=512, k=2048)])
    with pytest.raises(ArgumentError) as caught:
        bundle.load(tmp_path, FakeDevice())(**gemm_tensors(k=512))
    assert str(caught.value) == (
        "no kernel of C is compiled for these shapes\n"
        "  got: A [256, 512], B [512, 512], A_scale [256, 4], B_scale [4, 4]\n"
        "  expected: one of: n = 512, k = 2048 (sm_90a); k = 1024 (sm_90a)"
    )


def test_the_target_is_picked_by_the_gpu(tmp_path, monkeypatch):
    row = replace(get_target("sm_90a"), name="sm_100a", capability=(10, 0))
    monkeypatch.setitem(dispatch.TARGETS, "sm_100a", row)
    bundle.write(tmp_path, [kernel(b"90"), Kernel(replace(gemm_spec(), target="sm_100a"), b"100")])
    for capability, cubin in ((9, 0), b"90"), ((10, 0), b"100"):
        device = FakeDevice(capability=capability)
        bundle.load(tmp_path, device)(**gemm_tensors())
        assert device.launches[0].function[1] == cubin


def test_several_programs(tmp_path):
    bundle.write(tmp_path, {"gemm": kernel(), "scaled": Kernel(simple_spec(), b"2")})
    loaded = bundle.load(tmp_path)
    assert list(loaded) == ["gemm", "scaled"]
    with pytest.raises(ArgumentError, match="the bundle has 2 programs"):
        loaded()
    with pytest.raises(KeyError, match="no kernel 'C' in the bundle; it has gemm, scaled"):
        loaded["C"]
    bundle.write(tmp_path / "unnamed", [kernel(), Kernel(simple_spec(), b"2")])
    assert list(bundle.load(tmp_path / "unnamed")) == ["C", "C_2"]


def test_kernels_are_added_and_replaced(tmp_path):
    bundle.write(tmp_path, [kernel(b"old", k=1024)])
    bundle.write(tmp_path, [kernel(b"other", k=2048)])
    bundle.write(tmp_path, [kernel(b"new", k=1024)])
    found = bundle.load(tmp_path)["C"].kernels
    assert sorted(k.cubin for k in found) == [b"new", b"other"]
    assert len(list(tmp_path.glob("*.cubin"))) == 2


def test_what_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(ScalecError, match="no bundle in"):
        scalec.load(tmp_path)
    with pytest.raises(ScalecError, match="a bundle of no kernels"):
        bundle.write(tmp_path, [])
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(ScalecError, match="is not a bundle's manifest"):
        scalec.load(tmp_path)
    (tmp_path / "manifest.json").write_text('{"version": 7, "kernels": []}')
    with pytest.raises(ScalecError, match="is a bundle of version 7"):
        scalec.load(tmp_path)


def test_damage_is_found(tmp_path):
    bundle.write(tmp_path, [kernel()])
    (cubin,) = tmp_path.glob("*.cubin")
    cubin.write_bytes(b"cubim")
    with pytest.raises(ScalecError, match="is damaged"):
        scalec.load(tmp_path)
    cubin.unlink()
    with pytest.raises(ScalecError, match="cannot be read"):
        scalec.load(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    cubin.write_bytes(b"cubin")
    manifest["kernels"][0]["spec"]["launch"] = {}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ScalecError, match="not a scalec kernel spec"):
        scalec.load(tmp_path)


ALONE = """
import sys
FORBIDDEN = {"torch_mlir", "mlir", "llvmlite", "lark", "click", "rich", "platformdirs", "filelock"}
FORBIDDEN |= {"ml_dtypes", "torch"}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FORBIDDEN:
            raise ImportError(f"{name} is forbidden here")
sys.meta_path.insert(0, Blocker())
import scalec
kernels = scalec.load(sys.argv[1])
from fake import FakeDevice, gemm_tensors
kernel = kernels["C"].kernels[0]
kernel.fixed = FakeDevice()
c = kernels(**gemm_tensors())
print(c.shape, c.numpy().dtype, len(kernel.fixed.launches))
"""


def test_it_runs_without_the_compiler(tmp_path):
    bundle.write(tmp_path, [kernel()])
    done = subprocess.run(
        [sys.executable, "-c", ALONE, tmp_path], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    assert (done.stderr, done.stdout) == ("", "(256, 512) uint16 1\n")
