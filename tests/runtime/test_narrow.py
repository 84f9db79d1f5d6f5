"""Packed 4- and 6-bit operands, copies that pad them, and scales in packed and blocked layouts: what calls accept."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from scalec.abi import PADDED, TILES, Argument, Extent, KernelSpec, Launch, TensorSpec
from scalec.errors import ArgumentError, UnsupportedError
from scalec.reference import to_layout
from scalec.runtime import dlpack
from scalec.runtime.array import DeviceArray
from scalec.runtime.kernel import Kernel
from scalec.runtime.tensors import LIBRARY_NAMES, adopt
from tests.runtime.fake import FakeDevice, K, M, N, Tensor

GB = 1 << 30
A_MAP, B_MAP = Argument("tensor_map", "A", box=(128, 64), swizzle=128), Argument("pointer", "B")
BLOCKS, WORDS = Extent("k", 32), Extent("k", 128)


def spec_of(a: TensorSpec, *arguments: Argument) -> KernelSpec:
    """C[m,n] = A @ B[n,k]:e4m3 of one more tensor's making: A as given, B bytes by a pointer, C by a pointer."""
    b, c = TensorSpec("B", "e4m3", (N, K), align=1), TensorSpec("C", "f32", (M, N), align=4)
    return KernelSpec(
        source="",
        target="sm_120a",
        entry="C",
        dims={"m": None, "n": None, "k": None},
        operands=(a, b),
        results=(c,),
        arguments=(*arguments, B_MAP, Argument("pointer", "C"), Argument("stride", "B", axis=0)),
        launch=Launch(384, 1000, 1, (("m", 64, 1), ("n", 64, 1))),
    )


def launched(spec: KernelSpec, a: Any, k: int, n: int = 8, **named: Any) -> list[Any]:
    """The parameters of a launch."""
    device = FakeDevice(capability=(12, 0))
    Kernel(spec, b"", device=device)(a, Tensor((n, k), at=2 * GB), **named)
    return device.launches[-1].parameters


def refused(spec: KernelSpec, a: Any, k: int) -> str:
    with pytest.raises(ArgumentError) as caught:
        launched(spec, a, k)
    return str(caught.value)


# --------------------------------------------------------------------------------------------------- packed elements


def packed_spec(dtype: str, element: str = "") -> KernelSpec:
    a = TensorSpec("A", dtype, (M, K), align=32 if element else 16)
    return spec_of(a, replace(A_MAP, element=element))


@pytest.mark.parametrize(
    ("dtype", "k", "bytes_"), [("e2m1", 256, 128), ("i4", 256, 128), ("e3m2", 256, 192), ("e2m3", 128, 96)]
)
def test_packed_elements_are_mapped_as_bytes(dtype, k, bytes_):
    for typestr in ("|u1", "|i1"):
        found = launched(packed_spec(dtype), Tensor((70, bytes_), typestr), k)[0]
        assert (found.element, found.extents, found.strides) == ("u8", (bytes_, 70), (bytes_,))


@pytest.mark.parametrize(("dtype", "k", "bytes_"), [("e2m1", 256, 128), ("e3m2", 256, 192), ("e2m3", 128, 96)])
def test_copies_that_pad_count_elements(dtype, k, bytes_):
    found = launched(packed_spec(dtype, PADDED), Tensor((70, bytes_)), k)[0]
    assert (found.element, found.extents) == ("b4x16_p64" if dtype == "e2m1" else "b6x16_p32", (k, 70))
    assert (found.strides, found.box, found.swizzle) == ((bytes_,), (128, 64), 128)
    one_row = launched(packed_spec(dtype, PADDED), Tensor((1, bytes_), strides=(5, 1)), k)[0]
    assert (one_row.extents, one_row.strides) == ((k, 1), (bytes_,))


def test_copies_that_pad_need_whole_boxes():
    message = refused(packed_spec("e2m1", PADDED), Tensor((70, 96)), 192)
    assert message == (
        "A: k = 192 is not a multiple of 128, which copies that give each element of e2m1 a byte need\n"
        "  got: rows of 192 elements (96 bytes)\n"
        "  expected: rows of a multiple of 128 elements (cuTensorMapEncodeTiled)\n"
        "  fix: pad k with zeros to 256, in every tensor that has it"
    )
    assert "A: k = 127 is not a multiple of 128" in refused(packed_spec("e2m1", PADDED), Tensor((70, 64)), 127)


def test_copies_that_pad_need_32_bytes():
    spec = packed_spec("e3m2", PADDED)
    at = Tensor((70, 96), at=GB + 16)
    assert "A begins at address 0x40000010, not a multiple of 32 bytes" in refused(spec, at, 128)
    assert "a stride of 112 elements (112 bytes)" in refused(spec, Tensor((70, 96), strides=(112, 1)), 128)
    launched(packed_spec("e3m2"), Tensor((70, 96), strides=(112, 1)), 128)


@pytest.mark.parametrize(
    ("tensor", "argument", "got"),
    [
        ({"dtype": "e4m3"}, {}, "elements of e4m3"),
        ({}, {"box": (64, 64)}, r"a box \(64, 64\)"),
        ({}, {"swizzle": 64}, "a swizzle of 64 bytes"),
        ({"align": 16}, {}, "an alignment of 16 bytes"),
        ({}, {"tensor": "C"}, "elements of f32"),
    ],
)
def test_maps_that_no_driver_makes(tensor, argument, got):
    a = TensorSpec(**{"name": "A", "dtype": "e2m1", "shape": (M, K), "align": 32, **tensor})
    with pytest.raises(UnsupportedError, match=f"pads elements\n  got: {got}"):
        Kernel(spec_of(a, replace(A_MAP, element=PADDED, **argument)), b"")


WIDE = TensorSpec("A", "tf32", (M, K))


def test_maps_of_32_byte_atoms():
    found = launched(spec_of(WIDE, replace(A_MAP, box=(32, 64), atom=32)), Tensor((70, 96), "<f4"), 96)[0]
    assert (found.element, found.swizzle, found.atom) == ("f32", 128, 32)


def test_maps_that_nobody_knows():
    blocked = TensorSpec("A", "ue8m0", (M, BLOCKS), layout="blocked")
    for spec, message in (
        (packed_spec("e2m1", "strided"), "the tensor map of A has elements 'strided'"),
        (spec_of(WIDE, replace(A_MAP, atom=64)), "has a swizzle of 128 bytes that keeps 64 together"),
        (spec_of(WIDE, replace(A_MAP, swizzle=64, atom=32)), "has a swizzle of 64 bytes that keeps 32 together"),
        (spec_of(blocked, A_MAP), "the tensor map of A has elements '' and layout blocked"),
        (
            spec_of(blocked, replace(A_MAP, element=TILES)),
            "the tensor map of A is over tiles.*\n  got: axes \\(\\) of 2 ind",
        ),
        (packed_spec("e2m1", TILES), "the tensor map of A has elements 'tiles' and layout row"),
        (spec_of(blocked, replace(A_MAP, tensor="Z")), "a tensor map over 'Z', which is no tensor"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            Kernel(spec, b"")


def test_elements_that_are_not_packed_are_refused():
    for value, dtype, expected in (
        (np.zeros((70, 128), ml_dtypes.float4_e2m1fn), "e2m1", "2 elements in 1 byte, as uint8"),
        (np.zeros((70, 128), ml_dtypes.int4), "i4", "2 elements in 1 byte, as uint8"),
        (np.zeros((70, 128), ml_dtypes.float6_e3m2fn), "e3m2", "4 elements in 3 bytes, as uint8"),
    ):
        device = FakeDevice(place=("cpu", 0), capability=(12, 0))
        with pytest.raises(ArgumentError, match=f"A is {value.dtype}, expected {dtype}\n") as caught:
            Kernel(packed_spec(dtype), b"", device=device)(value, np.zeros((8, 128), ml_dtypes.float8_e4m3fn))
        assert f"expected: {dtype} packed, {expected}" in str(caught.value)
        assert "fix: pack A" in str(caught.value)


@pytest.mark.parametrize(("dtype", "bytes_", "elements"), [("e2m1", 96, 192), ("e3m2", 150, 200), ("e2m3", 96, 128)])
def test_another_size_is_told_in_elements(dtype, bytes_, elements):
    message = refused(packed_spec(dtype), Tensor((70, bytes_)), 256)
    assert f"A has k = {elements}, B has k = 256\n  got: A of shape [70, {bytes_}]" in message


def test_bytes_that_hold_one_element_less():
    """Bytes alone do not tell an odd number of elements; B does."""
    spec = replace(
        packed_spec("e2m1"), operands=(TensorSpec("A", "e2m1", (M, K), align=1), packed_spec("e2m1").operands[1])
    )
    device = FakeDevice(capability=(12, 0))
    spec = replace(spec, arguments=(Argument("pointer", "A"), *spec.arguments[1:], Argument("dim", dim="k")))
    kernel = Kernel(spec, b"", device=device)
    kernel(Tensor((70, 64)), Tensor((8, 127), at=2 * GB))
    assert device.launches[-1].parameters[-1] == 127
    with pytest.raises(ArgumentError, match="A has k = 128, B has k = 126"):
        kernel(Tensor((70, 64)), Tensor((8, 126), at=2 * GB))


def test_six_bits_tell_what_four_do_not():
    """129 bytes are 257 or 258 elements of 4 bits, 193 bytes 257 of 6."""
    a, b = (TensorSpec(name, element, (x, K), align=1) for name, element, x in (("A", "e2m1", M), ("B", "e3m2", N)))
    spec = replace(packed_spec("e2m1"), operands=(a, b))
    device = FakeDevice(capability=(12, 0))
    spec = replace(spec, arguments=(Argument("pointer", "A"), *spec.arguments[1:], Argument("dim", dim="k")))
    Kernel(spec, b"", device=device)(Tensor((70, 129)), Tensor((8, 193), at=2 * GB))
    assert device.launches[-1].parameters[-1] == 257


def test_rows_tell_what_bytes_do_not():
    """63 bytes are 83 or 84 elements of 6 bits; another tensor has 83 rows, though of 4 bits."""
    a, b = (TensorSpec(*x, align=1) for x in (("A", "e3m2", (M, K)), ("B", "e2m1", (K, N))))
    spec = replace(packed_spec("e2m1"), operands=(a, b))
    device = FakeDevice(capability=(12, 0))
    spec = replace(spec, arguments=(Argument("pointer", "A"), *spec.arguments[1:], Argument("dim", dim="k")))
    Kernel(spec, b"", device=device)(Tensor((70, 63)), Tensor((83, 4), at=2 * GB))
    assert device.launches[-1].parameters[-1] == 83


def test_torch_has_bytes_of_two():
    assert LIBRARY_NAMES["float4_e2m1fn_x2"] == "e2m1"
    assert not {"float4_e2m1fn", "float6_e3m2fn", "float6_e2m3fn"} & set(LIBRARY_NAMES)  # ml_dtypes': a byte each
    import torch

    value = torch.zeros(70, 128, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    found = adopt("A", value, 0, lambda _: ("cpu", 0))
    assert (found.dtype, found.shape) == ("e2m1", (70, 128))


# ------------------------------------------------------------------------------------------ packed elements by DLPack


def exported(dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], lanes: int = 1, flags: int = 0) -> Any:
    """What parse makes of a capsule whose type has `lanes`, and which says `flags`."""
    capsule = dlpack.make(None, 0x40, shape, strides, dtype, (2, 0), versioned=True)
    managed = next(reversed(dlpack._kept.values()))[0]
    managed.dl_tensor.dtype.lanes, managed.flags = lanes, flags
    assert isinstance(managed, ctypes.Structure)
    return dlpack.parse(capsule)


def test_dlpack_counts_elements_and_we_count_bytes():
    assert exported("e2m1", (3, 64), (64, 1))[1:4] == ((3, 32), (32, 1), "e2m1")
    assert exported("i4", (3, 64), (64, 1))[1:4] == ((3, 32), (32, 1), "i4")
    assert exported("e3m2", (3, 64), (64, 1))[1:4] == ((3, 48), (48, 1), "e3m2")
    assert exported("e2m1", (64, 3), (1, 64))[1:4] == ((32, 3), (1, 32), "e2m1")
    assert exported("e2m1", (3, 32), (32, 1), lanes=2)[1:4] == ((3, 32), (32, 1), "e2m1")  # float4_e2m1fn_x2
    with pytest.raises(ValueError, match=r"elements of 4 bits with shape .*: rows are not whole bytes"):
        exported("e2m1", (3, 63), (63, 1))


def test_dlpack_elements_that_take_a_byte_each():
    assert exported("e2m1", (3, 64), (64, 1), flags=dlpack.SUBBYTE_PADDED)[1:4] == (
        (3, 64),
        (64, 1),
        "e2m1 in a byte each",
    )


# ------------------------------------------------------------------------------------------------------------ scales


def scales_spec(layout: str, mapped: bool = False) -> KernelSpec:
    dtype, extents = ("i32", (M, WORDS)) if layout == "packed" else ("ue8m0", (M, BLOCKS))
    scale = TensorSpec("S", dtype, extents, layout, 16)
    how = Argument("tensor_map", "S", box=(64, 1)) if mapped else Argument("pointer", "S")
    spec = spec_of(TensorSpec("A", "e4m3", (M, K), align=1), Argument("pointer", "A"), how)
    stride = () if mapped or layout == "blocked" else (Argument("stride", "S", axis=len(extents) - 1),)
    return replace(spec, operands=(*spec.operands, scale), arguments=(*spec.arguments, *stride))


def call(spec: KernelSpec, scales: Any, m: int = 130, k: int = 200) -> Any:
    return launched(spec, Tensor((m, k)), k, S=scales)


def refusal(spec: KernelSpec, scales: Any, m: int = 130, k: int = 200) -> str:
    with pytest.raises(ArgumentError) as caught:
        call(spec, scales, m, k)
    return str(caught.value)


def test_packed_scales_have_contiguous_rows():
    """As DeepGEMM's get_mn_major_tma_aligned_packed_ue8m0_tensor makes them: 130 rows, columns 132 apart."""
    for typestr in ("<i4", "<u4"):
        scales = Tensor((130, 2), typestr, strides=(1, 132), at=3 * GB)
        assert call(scales_spec("packed"), scales)[-1] == 132
        found = call(scales_spec("packed", mapped=True), scales)[1]
        assert (found.element, found.extents, found.strides, found.box) == ("i32", (130, 2), (528,), (64, 1))


def test_packed_scales_of_the_reference_are_taken():
    codes = np.zeros((130, 7), ml_dtypes.float8_e8m0fnu)
    made = to_layout(codes, "packed")
    assert (made.dtype, made.shape, made.strides) == (np.int32, (130, 2), (4, 528))
    device = FakeDevice(place=("cpu", 0), capability=(12, 0))
    a, b = np.zeros((130, 200), np.uint8), np.zeros((8, 200), np.uint8)
    Kernel(scales_spec("packed"), b"", device=device)(a, b, made)
    assert device.launches[-1].parameters[-1] == 132
    made = to_layout(codes, "blocked")
    for shape in ((256, 8), (2048,), (2, 2, 32, 4, 4)):
        Kernel(scales_spec("blocked"), b"", device=device)(a, b, made.reshape(shape))


def test_packed_scales_that_do_not_fit():
    spec = scales_spec("packed")
    assert refusal(spec, Tensor((130, 7), at=3 * GB)) == (
        "S is uint8, expected i32\n  got: S of shape [130, 7] and type uint8\n"
        "  expected: int32 of four ue8m0 each (layout packed)\n  fix: pack S, or declare its scales @row"
    )
    assert "S has extent 7 along index 1 (ceil(k/128)), expected 2 (k = 200)" in refusal(
        spec, Tensor((130, 7), "<i4", strides=(1, 132), at=3 * GB)
    )
    assert refusal(spec, Tensor((130, 2), "<i4", at=3 * GB)) == (
        "S is not contiguous along index 0 (m)\n  got: strides (2, 1)\n"
        "  expected: a stride of 1 along index 0 (layout packed)\n"
        "  fix: S.transpose(-1, -2).contiguous().transpose(-1, -2)"
    )
    assert "S: m = 130 is not a multiple of 16 bytes for i32" in refusal(
        spec, Tensor((130, 2), "<i4", strides=(1, 130), at=3 * GB)
    )


@pytest.mark.parametrize("shape", [(256, 8), (2048,), (2, 2, 512), (2, 2, 32, 4, 4), (4, 512)])
def test_blocked_scales_have_any_shape(shape):
    assert call(scales_spec("blocked"), Tensor(shape, at=3 * GB))[1] == 3 * GB


def test_blocked_scales_that_do_not_fit():
    spec = scales_spec("blocked")
    assert refusal(spec, Tensor((130, 7), at=3 * GB)) == (
        "S has 910 scales, its 128x4 tiles (layout blocked) have 2048\n  got: S of shape [130, 7]\n"
        "  expected: 130x7 scales padded to whole tiles: [256, 8] without gaps, in any shape of that size\n"
        "  fix: pad them with zeros to whole tiles, or say @row in the program, which takes them as they are"
    )
    assert "S is not contiguous\n  got: strides (16, 1) of shape [256, 8]" in refusal(
        spec, Tensor((256, 8), strides=(16, 1), at=3 * GB)
    )
    assert "S is f32, expected ue8m0" in refusal(spec, Tensor((256, 8), "<f4", at=3 * GB))
    assert "not a multiple of 16 bytes" in refusal(spec, Tensor((256, 8), at=3 * GB + 4))


@pytest.mark.parametrize("shape", [(256, 8), (2048,), (2, 2, 32, 4, 4)])
def test_tiles_are_seen_as_they_lie(shape):
    """Two tiles along K of 200 are 128 words of 8 bytes, side by side; rows of tiles are 1024 bytes apart."""
    spec = scales_spec("blocked")
    boxed = Argument("tensor_map", "S", box=(64, 2), element=TILES)
    spec = replace(spec, arguments=tuple(boxed if a.tensor == "S" else a for a in spec.arguments))
    found = call(spec, Tensor(shape, at=3 * GB))[1]
    assert (found.element, found.address, found.swizzle) == ("u64", 3 * GB, 0)
    assert (found.extents, found.strides, found.box) == ((128, 2), (1024,), (64, 2))


def test_each_batch_has_tiles_of_its_own():
    spec = scales_spec("blocked")
    batched = replace(spec.operands[-1], shape=(Extent(size=3), M, BLOCKS))
    spec = replace(spec, operands=(*spec.operands[:-1], batched))
    call(spec, Tensor((3, 256, 8), at=3 * GB))
    assert "[3, 256, 8] without gaps" in refusal(spec, Tensor((384, 8), at=3 * GB))


def test_results_in_tiles_are_allocated_whole():
    spec = scales_spec("blocked")
    result = TensorSpec("D_scale", "ue8m0", (M, Extent("n", 32)), "blocked", align=16)
    spec = replace(spec, results=(*spec.results, result), arguments=(*spec.arguments, Argument("pointer", "D_scale")))
    kernel = Kernel(spec, b"", device=FakeDevice(capability=(12, 0)))
    _, made = kernel(Tensor((130, 200)), Tensor((40, 200), at=2 * GB), Tensor((2048,), at=3 * GB))
    assert isinstance(made, DeviceArray)
    assert (made.shape, made.strides) == ((256, 4), (4, 1))
