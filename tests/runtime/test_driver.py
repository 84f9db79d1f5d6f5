"""Launches through cuda-bindings, whose driver calls are recorded: no driver is needed."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver as bindings

from scalec.errors import DeviceError
from scalec.runtime import driver as driver_module
from scalec.runtime.device import TensorMap
from scalec.runtime.driver import CudaDevice, GpuFacts
from scalec.runtime.trampoline import Asked, Slot

OURS, THEIRS = 0x100, 0x200


class Driver(SimpleNamespace):
    """cuda.bindings.driver: its types, and calls that succeed unless `fails` says otherwise."""

    def __init__(self) -> None:
        super().__init__(current=OURS, launches=[], encoded=[], pushed=[], fails=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(bindings, name)

    def cuCtxGetCurrent(self) -> Any:
        return bindings.CUresult.CUDA_SUCCESS, bindings.CUcontext(self.current)

    def cuCtxPushCurrent(self, context: Any) -> Any:
        self.pushed.append(self.current)
        self.current = int(context)
        return (bindings.CUresult.CUDA_SUCCESS,)

    def cuCtxPopCurrent(self) -> Any:
        self.current = self.pushed.pop()
        return bindings.CUresult.CUDA_SUCCESS, bindings.CUcontext(OURS)

    def cuTensorMapEncodeTiled(self, *fields: Any) -> Any:
        self.encoded.append(fields)
        return bindings.CUresult.CUDA_SUCCESS, bindings.CUtensorMap()

    def cuLaunchKernelEx(self, config: Any, function: Any, table: int, extra: int) -> Any:
        c = config
        pointers = (ctypes.c_void_p * 2).from_address(table)
        values = [ctypes.c_int32.from_address(p).value for p in pointers]
        grid, block = (c.gridDimX, c.gridDimY, c.gridDimZ), (c.blockDimX, c.blockDimY, c.blockDimZ)
        dependent = [int(a.value.programmaticStreamSerializationAllowed) for a in c.attrs[: c.numAttrs]]
        shape = (function, grid, block, c.sharedMemBytes, int(c.hStream), dependent, values, self.current, extra)
        self.launches.append(shape)
        return (bindings.CUresult(self.fails),)

    def cuGetErrorName(self, status: Any) -> Any:
        return bindings.CUresult.CUDA_SUCCESS, b"CUDA_ERROR_OF_TEST"

    def cuGetErrorString(self, status: Any) -> Any:
        return bindings.CUresult.CUDA_SUCCESS, b"made up"


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr("scalec.runtime.driver._cuda", lambda: made)
    return made


@pytest.fixture
def device(driver):
    return CudaDevice(GpuFacts(0, "NVIDIA Test", (9, 0), 132, "sm_90a"), bindings.CUcontext(OURS))


def test_a_tensor_map_moves_in_a_thread_that_has_no_context(driver, device):
    """The H200's driver refuses the call there with CUDA_ERROR_INVALID_CONTEXT (2026-11-23)."""
    moved = []

    def replace(tensor_map: Any, address: int) -> Any:
        moved.append((driver.current, address))
        return (bindings.CUresult(0 if driver.current == OURS else 201),)

    driver.cuTensorMapReplaceAddress, driver.current = replace, 0
    device.mover(ctypes.create_string_buffer(128))(0x1000)
    assert moved == [(0, 0x1000), (OURS, 0x1000)]
    assert driver.current == 0


@pytest.mark.parametrize("dependent", [False, True])
def test_a_launch(driver, device, dependent):
    slots = [ctypes.c_int32(5), ctypes.c_int32(6)]
    launch = device.prepare("f", 132, 384, 200000, slots, dependent=dependent)
    attributes = [1] if dependent else []
    for stream in (0, 7, 0):
        slots[1].value += 1
        launch(stream)
        assert driver.launches[-1] == (
            "f", (132, 1, 1), (384, 1, 1), 200000, stream, attributes, [5, slots[1].value], OURS, 0
        )  # fmt: skip


@pytest.mark.parametrize(
    ("bytes_", "atom", "name"), [(0, 16, "NONE"), (32, 16, "32B"), (128, 16, "128B"), (128, 32, "128B_ATOM_32B")]
)
def test_a_tensor_map(driver, device, bytes_, atom, name):
    device.encode(TensorMap("f32", 1 << 20, (64, 40), (256,), (32, 16), bytes_, atom))
    (element, rank, address, _, _, box, steps, _, swizzle, *_) = driver.encoded[-1]
    assert (element.name, rank, address) == ("CU_TENSOR_MAP_DATA_TYPE_FLOAT32", 2, 1 << 20)
    assert ([int(x) for x in box], [int(x) for x in steps]) == ([32, 16], [1, 1])
    assert swizzle.name == f"CU_TENSOR_MAP_SWIZZLE_{name}"


def test_the_threads_context_is_ours_in_a_launch_and_its_own_after_it(driver, device):
    launch = device.prepare("f", 1, 32, 0, [ctypes.c_int32(5), ctypes.c_int32(6)])
    for current in (THEIRS, 0, OURS):
        driver.current = current
        launch(0)
        assert driver.launches[-1][-2] == OURS
        assert (driver.current, driver.pushed) == (current, [])


def test_a_refused_launch_says_why(driver, device):
    launch = device.prepare("f", 132, 384, 200000, [ctypes.c_int32(5), ctypes.c_int32(6)])
    driver.fails = 1
    for current in (OURS, THEIRS):
        driver.current = current
        with pytest.raises(DeviceError) as caught:
            launch(0)
        assert str(caught.value).startswith("cuLaunchKernelEx of 132 CTAs of 384 threads, 200000 bytes shared failed")
        assert "CUDA_ERROR_OF_TEST made up (1)" in caught.value.got
        assert driver.current == current


@pytest.mark.parametrize("dependent", [False, True])
def test_a_trampoline_is_given_the_same_launch(driver, device, monkeypatch, dependent):
    """Grid, threads, bytes and attributes are those of cuda-bindings' own structure; the addresses, the driver's."""
    seen, asked = [], []

    def launch(config: int, function: int, table: int, extra: Any) -> int:
        made = bindings.CUlaunchConfig(_ptr=config)
        shape = (made.gridDimX, made.gridDimY, made.gridDimZ, made.blockDimX, made.blockDimY, made.blockDimZ)
        seen.append((*shape, made.sharedMemBytes, int(made.hStream), function))
        count, at = ctypes.c_uint32.from_address(config + 48).value, ctypes.c_uint64.from_address(config + 40).value
        seen.append([bindings.CUlaunchAttribute(_ptr=at + 72 * i) for i in range(count)])
        for attribute in seen[-1]:
            seen.append((attribute.id, int(attribute.value.programmaticStreamSerializationAllowed)))
        return 0

    def current(context: Any) -> int:
        context[0] = OURS
        return 0

    functions = {
        b"cuLaunchKernelEx": ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(launch),
        b"cuTensorMapReplaceAddress": ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0),
        b"cuCtxGetCurrent": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))(current),
    }

    def address(name: bytes, version: int, flags: int) -> Any:
        asked.append((name, version, flags))
        status = bindings.CUresult.CUDA_SUCCESS
        return status, ctypes.cast(functions[name], ctypes.c_void_p).value, status

    monkeypatch.setattr(driver, "cuGetProcAddress", address, raising=False)
    monkeypatch.setattr(driver_module, "_entries", driver_module._entries.__wrapped__)
    function = bindings.CUfunction(0x400)
    made = device.trampoline(function, 132, 384, 200000, [Slot(bytes(4))], (), (), 0, Asked(), dependent)
    assert made((), (), (), 7) == ()
    assert seen[0] == (132, 1, 1, 384, 1, 1, 200000, 7, 0x400)
    wanted = bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    assert seen[2:] == ([(wanted, 1)] if dependent else [])
    assert {x[1:] for x in asked} == {(12000, 1)}
    monkeypatch.setattr(
        driver, "cuGetProcAddress", lambda *_: (bindings.CUresult.CUDA_ERROR_NOT_FOUND, 0, None), raising=False
    )
    assert device.trampoline(function, 132, 384, 200000, [Slot(bytes(4))], (), (), 0, Asked()) is None


def test_the_name_of_a_gpu_ends_at_the_first_zero(driver):
    """An H200's came with 53 zeros and 64 spaces behind it."""
    done = bindings.CUresult.CUDA_SUCCESS
    driver.cuDeviceGet = lambda ordinal: (done, ordinal)
    driver.cuDeviceGetName = lambda size, handle: (done, b"NVIDIA H200" + bytes(53) + b" " * 64)
    driver.cuDeviceGetAttribute = lambda key, handle: (done, 9)
    assert driver_module.facts.__wrapped__(0).name == "NVIDIA H200"
