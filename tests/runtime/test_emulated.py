"""The emulator as a device: calls on host tensors, what it refuses, what it says of itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.emulator.findings import EmulatorError
from scalec.errors import DeviceError
from scalec.runtime import devices, dlpack, emulated
from scalec.runtime.array import DeviceArray
from scalec.runtime.kernel import Kernel

BF16 = "C[m,n]:f32 = A[m,k] @ B[n,k]"


pytestmark = pytest.mark.usefixtures("on_the_emulator")


@pytest.fixture(scope="module")
def kernel():
    return scalec.compile(BF16, target="sm_90a", dims={"n": 16, "k": 32})


def operands(m: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return tuple(rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((m, 32), (16, 32)))


def test_numpy_arrays_in_and_out(kernel):
    a, b = operands()
    got = kernel(a, b)
    assert (type(got), got.dtype) == (np.ndarray, np.float32)
    np.testing.assert_array_equal(got, a.astype(float) @ b.astype(float).T)
    got += 1  # its own memory
    assert kernel(a[:0], b).shape == (0, 16)


def test_numpy_has_the_types_of_quantised_results():
    source = "C[m,n]:{} = A[m,k] @ B[n,k]"
    a, b = (np.ones((rows, 64), ml_dtypes.bfloat16) for rows in (3, 32))
    values, scales = scalec.compile(source.format("mxfp8"), "sm_90a", {"n": 32, "k": 64})(a, b)
    assert (values.dtype, values.shape) == (ml_dtypes.float8_e4m3fn, (3, 32))
    assert (scales.dtype, scales.shape) == (ml_dtypes.float8_e8m0fnu, (3, 1))
    assert (values.astype(np.float32) * scales.astype(np.float32) == 64).all()
    values, scales = scalec.compile(source.format("mxfp4"), "sm_90a", {"n": 32, "k": 64})(a, b)
    assert (values.dtype, values.shape) == (np.uint8, (3, 16))
    assert (values == values[0, 0]).all()
    assert scales.dtype == ml_dtypes.float8_e8m0fnu


class Foreign:
    """An array of another library, with DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **named: object) -> object:
        return dlpack.make(
            self.array, self.array.ctypes.data, self.array.shape, (self.array.shape[1], 1), "bf16", (1, 0)
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_other_and_mixed_arrays_in(kernel):
    torch = pytest.importorskip("torch")
    a, b = operands()
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    for given in ((Foreign(a), Foreign(b)), (Foreign(a), b), (a, Foreign(b))):
        got = kernel(*given)
        assert type(got) is DeviceArray
        assert "emulator" in repr(got)
        for read in (np.asarray(got), np.from_dlpack(got), np.array(got, np.float64), torch.from_dlpack(got).numpy()):
            np.testing.assert_array_equal(read, expected)
        with pytest.raises(ValueError, match="read by a copy"):
            np.asarray(got, copy=False)
        np.testing.assert_array_equal(kernel(a, b, out=got).numpy(), expected)
    for given in ((torch.from_numpy(a.view(np.uint16)).view(torch.bfloat16), b), (a, torch.ones(16, 32).bfloat16())):
        assert type(kernel(*given)) is torch.Tensor


def test_results_keep_the_strides_that_the_kernel_gave_them():
    array = DeviceArray(emulated.EmulatedDevice("sm_90a"), (3, 5), "e5m2", strides=(1, 16))
    array.device.upload(array.pointer, bytes(range(67)), 0)
    got = array.numpy()
    assert (got.strides, got.dtype) == ((1, 16), ml_dtypes.float8_e5m2)
    assert got.view(np.uint8)[2, 4] == 66


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
        np.testing.assert_array_equal(kernel(a, b), a.astype(float) @ b.astype(float).T)


def test_a_finding_is_an_error_that_names_instruction_and_thread(kernel):
    broken = kernel.ptx.replace("wgmma.wait_group.sync.aligned", "// wgmma.wait_group.sync.aligned")
    assert broken != kernel.ptx
    with pytest.raises(DeviceError, match=r"the emulator stopped C: in-flight: .*wgmma") as caught:
        Kernel(kernel.spec, b"", ptx=broken)(*operands())
    assert "line " in caught.value.got
    assert "warp" in caught.value.got
    assert "wgmma.wait_group" in caught.value.fix


@pytest.mark.parametrize("end", [KeyboardInterrupt(), EmulatorError("PTX", "no")], ids=["Ctrl-C", "refused"])
def test_a_launch_that_came_to_no_end_leaves_no_counters_to_the_next(monkeypatch, end):
    split = scalec.compile(BF16, target="sm_90a", dims={"n": 16, "k": 128}, schedule={"split": 2, "parts": "memory"})
    a, b = (np.ones((rows, 128), ml_dtypes.bfloat16) for rows in (8, 16))

    def interrupted(loaded, *_, **__):
        counters = next(s for s in loaded.memory.segments() if s.name == "the counters of the tiles")
        counters.data[0] = 1  # the first part of the only tile is there
        raise end

    with monkeypatch.context() as patch:
        patch.setattr(emulated, "emulate", interrupted)
        with pytest.raises((KeyboardInterrupt, DeviceError)):
            split(a, b)
    assert (split(a, b) == 128).all()


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
