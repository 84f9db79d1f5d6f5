"""Errors of the public API's arguments have three parts: what was found, what was expected, and the fix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import autograd, layouts
from scalec.abi import TensorSpec
from scalec.errors import ScalecError
from scalec.runtime import bundle
from scalec.runtime.array import DeviceArray
from scalec.runtime.dispatch import Program
from scalec.runtime.emulated import EmulatedDevice
from scalec.runtime.kernel import Kernel
from scalec.runtime.signature import Signature
from tests.runtime.fake import FakeDevice, Tensor, gemm_spec, gemm_tensors, simple_spec

GB = 1 << 30
X = np.ones((4, 64), np.float32)
BATCH, BYTES = X[None], X.astype(np.uint8)


api: Any = scalec  # whose annotations forbid what is called here


def kernel(**sizes: int) -> Any:
    return Kernel(gemm_spec(**sizes), b"", device=FakeDevice())


class Broken:
    """A tensor of a library whose attributes raise."""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        if name not in self.facts:
            raise AttributeError(name)
        return self.facts[name]


def raises(*_: Any, **__: Any) -> Any:
    raise RuntimeError("gone")


class Unreadable:
    __cuda_array_interface__ = property(raises)


def called(*given: Any, spec: Any = None, **named: Any) -> Any:
    """A call of a dense kernel, with these in place of its own."""
    kernel = Kernel(spec or gemm_spec(), b"", device=FakeDevice())
    return kernel(*given, **(named if given else gemm_tensors() | named))


def scalar(value: Any) -> Any:
    t, spec = gemm_tensors(), gemm_spec()
    alpha = TensorSpec("alpha", "f32", (), scalar=True)
    spec = simple_spec(operands=(alpha, *spec.operands), results=spec.results, dims=spec.dims)
    return called(value, *t.values(), spec=spec)


def quantised(**named: Any) -> Any:
    return scalec.quantize(**({"x": X, "format": "mxfp8"} | named))


def bundled(manifest: str) -> Any:
    """The bundle of a folder with this manifest."""
    Path("manifest.json").write_text(manifest)
    return bundle.load(".")


def mapped(**changes: Any) -> Any:
    """A spec whose first argument, a tensor map, is none."""
    spec = gemm_spec()
    first, *others = spec.arguments
    return Signature.of(replace(spec, arguments=(replace(first, **changes), *others)))


TABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "a program that is no text": (lambda: api.compile(3), "int"),
    "a size that is none": (lambda: api.compile("C[m,n] = A[m,k] @ B[n,k]", dims={"m": -1}), "m = -1"),
    "sizes that are none": (lambda: api.compile("C[m,n] = A[m,k] @ B[n,k]", dims=[1]), r"\[1\]"),
    "an argument of another type": (lambda: api.grad(3), "source = 3"),
    "too few arguments": (lambda: api.grad(), "source"),
    "gradients of nothing": (lambda: autograd.differentiable("C[m,n]:f32 = A[m,k]:i8 @ B[n,k]:i8"), "A, B"),
    "scales of rows": (lambda: layouts.blocked_by_group(X, np.array([0, 4])), "float32"),
    "scales of columns": (lambda: layouts.columns_by_group(X, np.array([0, 4]), 64, 32, "packed"), "packed"),
    "words of weights": (lambda: layouts.awq_weights(X, X, X), "qweight"),
    "shapes of weights": (
        lambda: layouts.awq_weights(X.astype(np.int32), X.astype(np.int32), X),
        r"\(4, 64\)",
    ),
    "a gate of another shape": (lambda: scalec.silu_mul_quantize(X, X[:, :32], "mxfp8"), r"\(4, 64\), \(4, 32\)"),
    "a flag": (lambda: quantised(both=1), "both = 1"),
    "a layout": (lambda: quantised(layout=7), "layout = 7"),
    "a format": (lambda: quantised(format=None), "format = None"),
    "few indices": (lambda: quantised(x=X[0], batched=True), "1 indices"),
    "two libraries": (lambda: scalec.silu_mul_quantize(X, torch_ones(), "mxfp8"), "ndarray"),
    "no scale2": (lambda: scalec.dequantize(BYTES, BYTES, "nvfp4"), "no scale2"),
    "scale2": (lambda: quantised(scale2=1.0), "scale2"),
    "scale2 of no number": (lambda: quantised(format="nvfp4", scale2="x"), "'x'"),
    "rows and offsets": (lambda: quantised(rows=1, offsets=1), "both"),
    "rows alone": (lambda: quantised(rows=np.ones(1, np.int32)), "batched=False"),
    "offsets of a batch": (lambda: quantised(x=BATCH, batched=True, offsets=1), "3 indices"),
    "rows of a float": (lambda: quantised(x=BATCH, batched=True, rows=np.ones(1)), "float64"),
    "a seed": (lambda: quantised(seed=-1), "seed = -1"),
    "an array of another size": (lambda: DeviceArray.from_host(FakeDevice(), X, "bf16"), "4 bytes"),
    "a bundle of nothing": (lambda: bundle.write("nowhere", []), r"\[\]"),
    "a bundle's path": (lambda: api.load(3), "3"),
    "a bundle without a manifest": (lambda: bundled("[]"), "manifest"),
    "a bundle of another version": (lambda: bundled('{"version": 7, "kernels": []}'), "version 7"),
    "a bundle that cannot be read": (lambda: scalec.load(__file__), Path(__file__).name),
    "no such program": (lambda: bundle.Bundle({"C": Program("C", [kernel()])})["D"], "'D'"),
    "several programs": (lambda: bundle.Bundle({})(), "0 programs"),
    "no kernel that fits": (
        lambda: Program("C", [kernel(k=k) for k in (64, 128)])(**gemm_tensors()),
        r"A \[256, 1024\]",
    ),
    "an unknown name": (lambda: called(bias=1), "bias"),
    "given twice": (lambda: called(*gemm_tensors().values(), A=1), "by position and by name"),
    "missing": (lambda: called(1), "B, A_scale, B_scale"),
    "too many results": (lambda: called(out=(1, 2)), "2 results"),
    "a result given twice": (lambda: called(out=Tensor((1,)), C=Tensor((1,))), "out= and as C"),
    "no number": (lambda: scalar("2"), "str"),
    "None for a number": (lambda: scalar(None), "None"),
    "a number beyond f32": (lambda: scalar(1e300), "1e.300"),
    "a number that raises": (lambda: scalar(Broken(__float__=raises)), "Broken"),
    "NULL": (lambda: called(A=Tensor((256, 1024), at=0)), "address 0"),
    "two sizes": (lambda: called(B=Tensor((512, 1000), at=GB)), "k = 1000"),
    "a size beyond 32 bits": (lambda: called(A=Tensor((1 << 31, 1024), at=GB)), str(1 << 31)),
    "a rank": (lambda: called(A=Tensor((2, 128, 1024))), r"\[2, 128, 1024\]"),
    "an extent": (lambda: called(A_scale=Tensor((256, 7), "<f4", at=GB)), r"\[256, 7\]"),
    "no tensor": (lambda: called(A=[1, 2]), "builtins.list"),
    "None for a tensor": (lambda: called(A=None), "None"),
    "what cannot be read": (lambda: called(A=Unreadable()), "gone"),
    "an interface that is none": (lambda: called(A=Broken(__cuda_array_interface__={"version": 9})), "version|shape"),
    "a device that raises": (lambda: called(A=Broken(__dlpack__=raises, __dlpack_device__=raises)), "gone"),
    "a capsule that raises": (lambda: called(A=Broken(__dlpack__=raises)), "gone"),
    "a masked array": (lambda: quantised(x=np.ma.masked_array(X)), "mask"),
    "no stream": (lambda: called(stream="s"), "str"),
    "another GPU": (lambda: Kernel(gemm_spec(), b"").load(FakeDevice(capability=(10, 0))), "sm_100"),
    "no PTX": (lambda: Kernel(gemm_spec(), b"").load(EmulatedDevice("sm_90a")), "without it"),
    "no device": (lambda: kernel().load(3), "3"),
    "a map of no tensor": (lambda: mapped(tensor="Z"), "'Z'"),
    "memory of nobody": (lambda: EmulatedDevice("sm_90a").download(64, 4, 0), "0x40"),
}


def torch_ones() -> Any:
    import torch

    return torch.ones((4, 64))


@pytest.mark.parametrize("name", TABLE)
def test_three_parts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, found = TABLE[name]
    with pytest.raises(ScalecError, match=found) as caught:
        call()
    assert caught.value.expected
    assert caught.value.fix
