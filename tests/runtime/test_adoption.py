"""What a caller may pass as a tensor, and how it is read: DLPack, array interfaces, numpy, torch."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalec.errors import ArgumentError
from scalec.runtime import dlpack
from scalec.runtime.array import DeviceArray
from scalec.runtime.kernel import Kernel
from scalec.runtime.tensors import TensorView, adopt, stream_handle
from tests.runtime.fake import FakeDevice, Tensor, simple_spec

GPU = ("cuda", 0)


def view(value: object, stream: int = 0) -> TensorView:
    return adopt("X", value, stream, lambda _: GPU)


class Producer:
    """A DLPack producer around a capsule."""

    def __init__(self, capsule: object, versions: bool = True) -> None:
        self.capsule, self.versions, self.asked = capsule, versions, []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **arguments: object) -> object:
        if not self.versions and "max_version" in arguments:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.asked.append(arguments)
        return self.capsule


def legacy_capsule(strides: bool = True, code: int = 10, lanes: int = 1) -> tuple[object, object]:
    """A DLManagedTensor of shape [3, 4], strides [8, 1], built by hand; and what keeps it alive."""
    shape, steps = (ctypes.c_int64 * 2)(3, 4), (ctypes.c_int64 * 2)(8, 1)
    pointer = ctypes.POINTER(ctypes.c_int64)
    managed = dlpack.DLManagedTensor()
    managed.dl_tensor.data = 0x7000
    managed.dl_tensor.device = dlpack.DLDevice(dlpack.CUDA, 1)
    managed.dl_tensor.ndim = 2
    managed.dl_tensor.dtype = dlpack.DLDataType(code, 8, lanes)
    managed.dl_tensor.shape = ctypes.cast(shape, pointer)
    if strides:
        managed.dl_tensor.strides = ctypes.cast(steps, pointer)
    managed.dl_tensor.byte_offset = 16
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(managed), b"dltensor", None), (managed, shape, steps)


def test_a_legacy_capsule():
    capsule, keep = legacy_capsule()
    producer = Producer(capsule, versions=False)
    found = view(producer, stream=0)
    assert found[:6] == (0x7010, (3, 4), (8, 1), "e4m3", ("cuda", 1), "dlpack")
    assert producer.asked == [{"stream": 1}]  # 1 is how DLPack names the legacy default stream
    view(producer, stream=99)
    assert producer.asked[-1] == {"stream": 99}
    del keep


def test_a_capsule_without_strides_is_dense():
    capsule, keep = legacy_capsule(strides=False)
    assert view(Producer(capsule)).strides == (4, 1)
    del keep


def test_types_that_the_language_lacks_are_named():
    for code, lanes, name in ((2, 1, "float8"), (10, 4, "DLPack type code 10 of bits 8x4")):
        capsule, keep = legacy_capsule(code=code, lanes=lanes)
        assert view(Producer(capsule)).dtype == name
        del keep


def test_a_versioned_capsule_says_what_is_read_only():
    for read_only in (False, True):
        capsule = dlpack.make(None, 0x40, (2,), (1,), "bf16", (2, 0), versioned=True, read_only=read_only)
        found = view(Producer(capsule))
        assert (found.dtype, found.read_only, found.place) == ("bf16", read_only, GPU)


def test_what_is_no_capsule_is_refused():
    with pytest.raises(ArgumentError, match="X cannot be read through DLPack: not an unconsumed DLPack capsule"):
        view(Producer(object()))


def test_a_capsule_that_nobody_takes_frees_what_it_keeps():
    class Owner:
        pass

    before = len(dlpack._kept)
    for versioned in (False, True):
        capsule = dlpack.make(Owner(), 0x40, (2,), (1,), "f32", (2, 0), versioned)
        assert len(dlpack._kept) == before + 1
        del capsule
        gc.collect()
        assert len(dlpack._kept) == before


@given(
    st.lists(st.integers(0, 2**40), max_size=5),
    st.sampled_from(sorted(name for name, (_, bits) in dlpack.TYPES.items() if bits >= 8)),
    st.booleans(),
    st.integers(1, 2**60),
)
def test_capsules_round_trip(shape, dtype, versioned, pointer):
    strides = dlpack.dense_strides(tuple(shape))
    strides = tuple(min(s, 2**62) for s in strides)
    parsed = dlpack.parse(dlpack.make(None, pointer, tuple(shape), strides, dtype, (2, 3), versioned))
    assert parsed == (pointer, tuple(shape), strides, dtype, 2, 3, False)


def test_numpy_takes_our_arrays():
    device = FakeDevice(place=("cpu", 0))
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = DeviceArray.from_host(device, data, "f32")
    assert np.array_equal(np.from_dlpack(array), data)
    assert np.array_equal(array.numpy(), data)
    address = array.pointer
    taken = np.from_dlpack(array)
    del array
    gc.collect()
    assert device.freed == []  # numpy's array keeps ours alive
    del taken
    gc.collect()
    assert device.freed == [address]


def test_our_arrays_are_adopted():
    array = DeviceArray(FakeDevice(), (4, 6), "bf16", stream=5)
    found = view(array)
    assert (found.pointer, found.shape, found.dtype, found.ready) == (array.pointer, (4, 6), "bf16", 5)
    with pytest.raises(ArgumentError, match="an array of int64 is not one of f32"):
        DeviceArray.from_host(FakeDevice(), np.zeros(3, np.int64), "f32")


def test_bits_come_back_as_the_type_that_means_them():
    import ml_dtypes

    bits = np.array([[0x3F80, 0x4000]], np.uint16)
    array = DeviceArray.from_host(FakeDevice(), bits, "bf16")
    assert array.numpy().dtype == ml_dtypes.bfloat16
    assert array.numpy().astype(float).tolist() == [[1.0, 2.0]]
    assert DeviceArray.from_host(FakeDevice(), np.zeros((2, 2), np.uint8), "e2m1").numpy().dtype == np.uint8
    assert DeviceArray(FakeDevice(), (0, 3), "f32").numpy().shape == (0, 3)


@pytest.mark.parametrize(
    ("typestr", "dtype"), [("<f4", "f32"), ("<V2", "bf16"), ("|u1", "uint8"), ("|i1", "i8"), ("<f8", "<f8")]
)
def test_array_interface(typestr, dtype):
    found = view(Tensor((2, 3), typestr, strides=(5, 1), at=64, stream=2))
    assert (found.dtype, found.strides, found.place, found.ready) == (dtype, (5, 1), GPU, 2)


def test_numpy_arrays():
    import ml_dtypes

    array = np.zeros((4, 6), ml_dtypes.float8_e4m3fn)[:, ::2]
    found = view(array)
    assert found[1:5] == ((4, 3), (6, 2), "e4m3", ("cpu", 0))
    assert found.pointer == array.ctypes.data


def test_streams():
    class Protocol:
        __cuda_stream__ = (0, 11)

    class Cupy:
        ptr = 12

    class Torch:
        cuda_stream = 13

    class Bindings:
        def __int__(self) -> int:
            return 14

    assert [stream_handle(s) for s in (10, Protocol(), Cupy(), Torch(), Bindings())] == [10, 11, 12, 13, 14]


def torch_kernel(device: FakeDevice) -> Kernel:
    return Kernel(simple_spec(), b"", device=device)


def test_torch_tensors():
    import torch

    device = FakeDevice(place=("cpu", 0))
    kernel = torch_kernel(device)
    a, b = torch.zeros(64, 32, dtype=torch.bfloat16), torch.zeros(32, 96, dtype=torch.bfloat16)
    bias = torch.zeros(96)
    c = kernel(2, a, b, bias)
    assert (type(c), c.dtype, tuple(c.shape)) == (torch.Tensor, torch.float32, (64, 96))
    p = device.launches[0].parameters
    assert p == [2.0, a.data_ptr(), b.data_ptr(), 96, bias.data_ptr(), c.data_ptr(), 32]
    assert kernel(2, a, b, bias, out=c) is c
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
        found = view(torch.zeros(2, 2, dtype=torch.uint8).view(getattr(torch, name)))
        assert found.dtype == {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float8_e8m0fnu": "ue8m0"}[name]
    with pytest.raises(ArgumentError, match="A is not a dense tensor"):
        kernel(2, a.float().to_sparse(), b, bias)
    with pytest.raises(ArgumentError, match="A is a nested tensor"):
        kernel(2, torch.nested.nested_tensor([a, a[:3]]), b, bias)
    with pytest.raises(ArgumentError, match="B is f32, expected bf16"):
        kernel(2, a, b.float(), bias)


def test_torch_takes_our_arrays():
    import torch

    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    array = DeviceArray.from_host(FakeDevice(place=("cpu", 0)), data, "f32")
    assert torch.equal(torch.from_dlpack(array), torch.from_numpy(data))
