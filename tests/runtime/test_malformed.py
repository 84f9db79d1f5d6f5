"""Tensors whose memory does not hold what a kernel would read there, and objects that break the protocol they claim:
each is refused by its name, as operand and as result, and nothing runs."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.errors import ArgumentError, DeviceError
from scalec.runtime import dlpack, driver
from scalec.runtime.dispatch import Program
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, Tensor, simple_spec


@pytest.fixture(scope="module")
def scaled() -> Kernel:
    dims = {"n": 16, "k": 128}
    return scalec.compile("C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x128, 1xk) + bias[n]:f32", "sm_90a", dims)


@pytest.fixture(autouse=True)
def on_the_emulator(monkeypatch):
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    monkeypatch.setattr(driver, "locate", lambda _: ("cpu", 0))


def operands(m: int = 4) -> dict[str, Any]:
    return {
        "A": np.ones((m, 128), ml_dtypes.float8_e4m3fn),
        "B": np.ones((16, 128), ml_dtypes.float8_e4m3fn),
        "A_scale": np.full((m, 1), 0.5, np.float32),
        "B_scale": np.full((16, 1), 2.0, np.float32),
        "bias": np.ones(16, np.float32),
    }


def field(rows: int, columns: int) -> np.ndarray:
    return np.ones((rows, columns), [("value", "<f4"), ("tag", "<i2")])["value"]


def beside(array: np.ndarray) -> np.ndarray:
    """The same at an address that is no multiple of its elements."""
    raw = np.zeros(array.nbytes + 8, np.uint8)
    start = -raw.ctypes.data % 4 + 1
    found = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[:] = array
    return found


# name: (argument, what replaces it, words of the refusal)
ARRAYS = {
    "big endian": ("bias", np.full((16,), 2, ">f4"), "bias has the other byte order\n  got: dtype '>f4'"),
    "a field": ("A_scale", field(4, 1), "A_scale has strides that are no multiple of its 4-byte elements"),
    "fields": ("bias", field(16, 1)[:, 0], "no multiple of its 4-byte elements\n  got: strides of (6,) bytes"),
    "records": ("A_scale", np.ones((4, 1), [("value", "<f4")]), "A_scale is an array of records"),
    "masked": ("A_scale", np.ma.ones((4, 1), "f4"), "A_scale is a masked array"),
    "no bytes": ("A_scale", np.ones((4, 1), "V0"), "A_scale"),
    "objects": ("A_scale", np.ones((4, 1), object), "A_scale is object, expected f32"),
    "times": ("A_scale", np.ones((4, 1), "m8[s]"), "A_scale is timedelta64"),
    "misaligned": ("bias", beside(np.full((16,), 2, "f4")), "bias begins at address"),
    "broadcast": ("bias", np.broadcast_to(np.float32(2), (16,)), "bias is not contiguous along index 0"),
    "turned": ("A", np.ones((4, 128), ml_dtypes.float8_e4m3fn)[:, ::-1], "A is not contiguous along index 1"),
    "upside down": ("A", np.ones((4, 128), ml_dtypes.float8_e4m3fn)[::-1], "A has a stride of -128 elements"),
    "two steps": ("bias", np.full((32,), 2, "f4")[::2], "bias is not contiguous along index 0"),
    "read-only result": ("out", np.frombuffer(bytes(256), "f4").reshape(4, 16), "C is read-only"),
    "big endian result": ("out", np.zeros((4, 16), ">f4"), "C has the other byte order"),
    "a result in a field": ("out", field(4, 16), "C has strides that are no multiple of its 4-byte elements"),
    "one row for all": ("out", np.lib.stride_tricks.as_strided(np.zeros(16, "f4"), (4, 16), (0, 4)), "overlap"),
    "overlapping rows": ("out", np.lib.stride_tricks.as_strided(np.zeros(64, "f4"), (4, 16), (32, 4)), "overlap"),
    "a result upside down": ("out", np.zeros((4, 16), "f4")[::-1], "C has a stride of -16 elements"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(scaled, name):
    which, value, message = ARRAYS[name]
    before = value.tobytes()
    with pytest.raises(ArgumentError) as caught:
        scaled(**(operands() | {which: value}))
    assert message in str(caught.value)
    assert str(caught.value).count("\n  ")  # found, expected or the fix
    assert value.tobytes() == before


def test_strides_of_single_elements_mean_nothing(scaled):
    given = operands(1)
    out = np.zeros((1, 16), np.float32)
    scaled(**(given | {"A_scale": field(1, 1)}), out=out)
    assert (out == 257).all()


class Says:
    """An object with these attributes; an exception among them is raised."""

    def __init__(self, **attributes: Any) -> None:
        self.attributes = attributes

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("attributes", {}).get(name)
        if isinstance(found, Exception):
            raise found
        if found is None:
            raise AttributeError(name)
        return found


def interface(**changed: Any) -> Says:
    facts = {"shape": (4, 1), "typestr": "<f4", "data": (0x10000000, False), "version": 3}
    made = {key: value for key, value in (facts | changed).items() if value is not ...}
    return Says(__cuda_array_interface__=made)


def tensor(data: int = 0x10000000, code: int = 2, bits: int = 32, lanes: int = 1, ndim: int = 2,
           shape: tuple[int, ...] | None = (4, 1), major: int | None = None, name: bytes = b"dltensor", kind: int = 1,
           strides: tuple[int, ...] | None = None) -> Says:  # fmt: skip
    """A producer of one capsule, made by hand."""

    def numbers(values: tuple[int, ...] | None) -> Any:
        array = None if values is None else (ctypes.c_int64 * len(values))(*values)
        kept.append(array)
        return ctypes.cast(array, ctypes.POINTER(ctypes.c_int64))

    kept: list[Any] = []
    described = dlpack.DLTensor(data, dlpack.DLDevice(kind, 0), ndim, dlpack.DLDataType(code, bits, lanes),
                                numbers(shape), numbers(strides), 0)  # fmt: skip
    if major is None:
        managed: Any = dlpack.DLManagedTensor(described, None, None)
    else:
        managed = dlpack.DLManagedTensorVersioned(major, 0, None, None, 0, described)
    kept += [managed, name]
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = new(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(managed), name, None)
    return Says(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (kind, 0), kept=kept)


def raises(error: Exception) -> Any:
    def call(*_args: Any, **_named: Any) -> Any:
        raise error

    return call


OBJECTS = {
    "interface raises": (Says(__cuda_array_interface__=RuntimeError("gone")), "raises RuntimeError: gone"),
    "interface is a list": (Says(__cuda_array_interface__=[1]), "no 'version' in [1]"),
    "interface is empty": (Says(__cuda_array_interface__={"a": 1}), "no 'version'"),
    **{f"no {key}": (interface(**{key: ...}), f"no {key!r}") for key in ("shape", "typestr", "data", "version")},
    "version 9": (interface(version=9), "version = 9\n  expected: version: 0 to 3"),
    "version as text": (interface(version="3"), "version = '3'"),
    "shape a number": (interface(shape=4), "shape = 4\n  expected: shape: a tuple of sizes"),
    "shape of texts": (interface(shape=("4", "1")), "shape = ('4', '1')"),
    "shape negative": (interface(shape=(-4, 1)), "shape = (-4, 1)"),
    "shape overlong": (interface(shape=(1,) * 99), "shape = (1, 1"),
    "shape beyond": (interface(shape=(2**70, 1)), "shape = (1180591620717411303424, 1)"),
    "shape large": (interface(shape=(2**40, 1)), "A_scale has m = 1099511627776"),
    "strides too few": (interface(strides=(4,)), "strides: 2 of them"),
    "strides of texts": (interface(strides=("a", "b")), "strides = ('a', 'b')"),
    "strides between": (interface(strides=(6, 4)), "no multiple of its 4-byte elements"),
    "typestr nonsense": (interface(typestr="float"), "typestr = 'float'"),
    "typestr a number": (interface(typestr=4), "typestr = 4"),
    "typestr without bytes": (interface(typestr="|V0", strides=(0, 0)), "A_scale"),
    "typestr big endian": (interface(typestr=">f4"), "A_scale has the other byte order"),
    "typestr of records": (interface(typestr="|V8"), "A_scale is |V8, expected f32"),
    "data a number": (interface(data=4), "data = 4"),
    "data negative": (interface(data=(-4, False)), "data = (-4, False)"),
    "data a text": (interface(data=("4", False)), "data = ('4', False)"),
    "data none": (interface(data=(None, False)), "A_scale is NULL"),
    "mask": (interface(mask=object()), "None: no kernel reads a mask"),
    "stream a text": (interface(stream="s"), "stream = 's'"),
    "dlpack raises": (Says(__dlpack__=raises(RuntimeError("lost"))), "cannot be read through DLPack: lost"),
    "dlpack is no function": (Says(__dlpack__=4), "cannot be read through DLPack"),
    "dlpack attribute raises": (Says(__dlpack__=KeyError("x")), "__dlpack__ raises KeyError"),
    "dlpack gives nothing": (Says(__dlpack__=lambda **_: None), "not an unconsumed DLPack capsule"),
    **{
        f"device {name}": (Says(__dlpack__=lambda **_: None, __dlpack_device__=device), "does not say where it is")
        for name, device in {"a number": lambda: 4, "texts": lambda: ("a", "b"), "three": lambda: (1, 2, 3),
                             "raises": raises(OSError("x")), "no function": (2, 0)}.items()
    },
    "capsule used": (tensor(name=b"used_dltensor"), "not an unconsumed DLPack capsule"),
    "capsule of version 2": (tensor(major=2, name=b"dltensor_versioned"), "DLPack version 2.0"),
    "capsule without a shape": (tensor(shape=None), "2 dimensions and no shape"),
    "capsule of -1 dimensions": (tensor(ndim=-1), "-1 dimensions"),
    "capsule of many dimensions": (tensor(ndim=10**6), "1000000 dimensions"),
    "capsule negative": (tensor(shape=(4, -1)), "(4, -1) has a negative extent"),
    "capsule of lanes": (tensor(lanes=4, bits=8), "A_scale is float8x4, expected f32"),
    "capsule of a type": (tensor(code=99), "A_scale is DLPack type code 99 of bits 32, expected f32"),
    "capsule at NULL": (tensor(data=0), "A_scale is NULL"),
    "capsule elsewhere": (tensor(kind=7), "A_scale is on dlpack:7"),
    "capsule upside down": (tensor(strides=(-1, 1)), "A_scale has a stride of -1"),
    "float raises": (Says(__float__=ValueError("x")), "A_scale is not a tensor"),
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_objects(scaled, name):
    value, message = OBJECTS[name]
    program = Program("C", [scaled, scaled])
    for call in (scaled, program, lambda **given: scaled.bind(**given, out=np.zeros((4, 16), np.float32))):
        with pytest.raises(ArgumentError) as caught:
            call(**(operands() | {"A_scale": value}))
        assert message in str(caught.value)
        assert "A_scale" in str(caught.value)


@pytest.mark.parametrize("stride", [2**50, 2**58, 2**61])
def test_memory_that_cannot_be_there(scaled, stride):
    value = tensor(data=0x7FFF_FFFF_0000, strides=(stride, 1))
    with pytest.raises(DeviceError, match=r"has no memory to judge .* bytes of A_scale in"):
        scaled(**(operands() | {"A_scale": value}))


def test_results_that_are_no_arrays(scaled):
    for value, message in OBJECTS.values():
        with pytest.raises(ArgumentError):
            scaled(**operands(), out=value)
        assert message


def test_a_gpu_asks_them_too(monkeypatch):
    kernel = Kernel(simple_spec(), b"", device=FakeDevice())
    given = Tensor((64, 32), "<V2"), Tensor((32, 96), "<V2", at=1 << 33), Tensor((96,), "<f4", at=1 << 34)
    for value, _ in OBJECTS.values():
        for at in range(3):
            changed = [value if i == at else t for i, t in enumerate(given)]
            with pytest.raises(ArgumentError):
                kernel(2, *changed)
        with pytest.raises(ArgumentError):
            kernel(value, *given)


def test_streams_that_are_none(scaled):
    broken = [Says(__cuda_stream__=value) for value in (4, raises(OSError("x")), (0,), lambda: (0, "a"))]
    for stream in [*broken, Says(__cuda_stream__=KeyError("x")), "a stream", object()]:
        with pytest.raises(ArgumentError, match="stream is not a CUDA stream"):
            scaled(**operands(), stream=stream)
