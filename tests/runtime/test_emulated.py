"""The emulator as a device: calls on host tensors, what it refuses, what it says of itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.errors import DeviceError
from scalec.runtime import devices, emulated
from scalec.runtime.kernel import Kernel

BF16 = "C[m,n]:f32 = A[m,k] @ B[n,k]"


@pytest.fixture(autouse=True)
def on_the_emulator(monkeypatch):
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")


@pytest.fixture(scope="module")
def kernel():
    return scalec.compile(BF16, target="sm_90a", dims={"n": 16, "k": 32})


def operands(m: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return tuple(rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((m, 32), (16, 32)))


def test_numpy_arrays_in_a_device_array_out(kernel):
    a, b = operands()
    got = kernel(a, b)
    np.testing.assert_array_equal(got.numpy(), a.astype(float) @ b.astype(float).T)
    assert "emulator" in repr(got)


def test_the_result_given(kernel):
    a, b = operands()
    out = np.full((8, 16), np.nan, np.float32)
    assert kernel(a, b, out=out) is out
    np.testing.assert_array_equal(out, a.astype(float) @ b.astype(float).T)


def test_torch_tensors_on_the_host(kernel):
    import torch

    a, b = (torch.from_numpy(x.astype(np.float32)).bfloat16() for x in operands())
    got = kernel(a, b)
    assert got.dtype == torch.float32
    assert torch.equal(got, a.float() @ b.float().t())


def test_memory_that_moves_between_calls(kernel):
    for m in (8, 3, 8, 70):
        a, b = operands(m)
        np.testing.assert_array_equal(kernel(a, b).numpy(), a.astype(float) @ b.astype(float).T)


def test_a_finding_is_an_error_that_names_instruction_and_thread(kernel):
    broken = kernel.ptx.replace("wgmma.wait_group.sync.aligned", "// wgmma.wait_group.sync.aligned")
    assert broken != kernel.ptx
    with pytest.raises(DeviceError, match=r"the emulator stopped C: in-flight: .*wgmma") as caught:
        Kernel(kernel.spec, b"", ptx=broken)(*operands())
    assert "line " in caught.value.got
    assert "warp" in caught.value.got
    assert "wgmma.wait_group" in caught.value.fix


def test_a_kernel_without_its_ptx_is_refused(kernel):
    with pytest.raises(DeviceError, match="runs PTX, and C came without it"):
        Kernel(kernel.spec, kernel.cubin)(*operands())


def test_the_device_says_what_it_is():
    device = emulated.device("sm_90a")
    assert device is emulated.device("sm_90a")
    assert (device.place, device.capability, device.image) == (("cpu", 0), (9, 0), "ptx")
    with pytest.raises(DeviceError, match="no memory of the emulator"):
        device.download(0x1234, 4, 0)


def test_freed_memory_is_gone():
    device = emulated.EmulatedDevice("sm_90a")
    address = device.allocate(64, 0)
    device.upload(address, bytes(range(64)), 0)
    assert device.download(address + 8, 2, 0) == b"\x08\x09"
    device.free(address, 0)
    with pytest.raises(DeviceError):
        device.download(address, 1, 0)


def test_where_there_is_no_gpu_the_emulator_runs_and_says_so_once(monkeypatch):
    monkeypatch.setenv("SCALEC_DEVICE", "")
    monkeypatch.setattr(devices, "_lacks_gpu", lambda: "no NVIDIA driver on this machine")
    devices._warn.cache_clear()
    with pytest.warns(RuntimeWarning, match="no NVIDIA driver on this machine: kernels run on scalec's emulator"):
        assert devices.default("sm_90a") is emulated.device("sm_90a")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        devices.default("sm_90a")
