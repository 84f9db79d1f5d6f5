"""Each refusal of a call, with its full message; nothing is launched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalec.abi import Argument, Extent, TensorSpec
from scalec.errors import ArgumentError
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, Tensor, gemm_spec, gemm_tensors, simple_spec

GB = 1 << 30

# name: (operands that replace those of gemm_tensors, keyword arguments, message)
REFUSED = {
    "rank": (
        {"A": Tensor((2, 128, 1024))},
        {},
        "A has 3 dimensions, expected 2\n  got: A of shape [2, 128, 1024]\n  expected: A[m,k]\n"
        "  fix: A.reshape(...) with 2 indices",
    ),
    "k differs": (
        {"B": Tensor((512, 1000), at=GB)},
        {},
        "B has k = 1000, A has k = 1024\n  got: B of shape [512, 1000]\n  expected: B[n,k] with k = 1024\n"
        "  fix: give both one k: cut, pad or transpose the one that is wrong",
    ),
    "blocks": (
        {"A_scale": Tensor((256, 7), "<f4", at=GB)},
        {},
        "A_scale has extent 7 along index 1 (ceil(k/128)), expected 8 (k = 1024)\n"
        "  got: A_scale of shape [256, 7]\n  expected: A_scale[m,ceil(k/128)], here [256, 8]; A has k = 1024\n"
        "  fix: pass A_scale of that shape: cut, pad or transpose it, or the tensor that gave the sizes",
    ),
    "result's shape": (
        {},
        {"out": Tensor((256, 500), "<V2", at=4096)},
        "C has n = 500, B has n = 512\n  got: C of shape [256, 500]\n  expected: C[m,n] with n = 512\n"
        "  fix: give both one n: cut, pad or transpose the one that is wrong",
    ),
    "dtype": (
        {"A": Tensor((256, 1024), "<V2")},
        {},
        "A is bf16, expected e4m3\n  got: A of shape [256, 1024] and type bf16\n"
        "  expected: e4m3 (float8_e4m3fn), or its bytes as uint8\n  fix: convert A, or declare it A[m,k]:bf16",
    ),
    "dtype unknown to the language": (
        {"A_scale": Tensor((256, 8), "<f8", at=GB)},
        {},
        "A_scale is <f8, expected f32\n  got: A_scale of shape [256, 8] and type <f8\n"
        "  expected: f32 (float32)\n  fix: convert A_scale",
    ),
    "type of a scale": (
        {"A_scale": Tensor((256, 8), "<f2", at=GB)},
        {},
        "A_scale is f16, expected f32\n  got: A_scale of shape [256, 8] and type f16\n  expected: f32 (float32)\n"
        "  fix: convert A_scale, or give the scales of A that type in scale(...), as in BLOCK:f16",
    ),
    "type that no program multiplies": (
        {"A": Tensor((256, 1024), "<i4")},
        {},
        "A is i32, expected e4m3\n  got: A of shape [256, 1024] and type i32\n"
        "  expected: e4m3 (float8_e4m3fn), or its bytes as uint8\n  fix: convert A",
    ),
    "columns of scales": (
        {"A_scale": Tensor((256, 8), "<f4", strides=(1, 256), at=GB)},
        {},
        "A_scale is not contiguous along index 1 (ceil(k/128))\n  got: strides (1, 256)\n"
        "  expected: a stride of 1 along index 1\n  fix: A_scale.contiguous(), or declare these scales @col",
    ),
    "transposed": (
        {"B": Tensor((512, 1024), strides=(1, 512), at=GB)},
        {},
        "B is not contiguous along index 1 (k)\n  got: strides (1, 512)\n"
        "  expected: a stride of 1 along index 1\n  fix: B.contiguous()",
    ),
    "address": (
        {"A": Tensor((256, 1024), at=0x10000008)},
        {},
        "A begins at address 0x10000008, not a multiple of 16 bytes\n  got: 8 bytes past one\n"
        "  expected: an address that is a multiple of 16\n  fix: A.clone() (numpy: A.copy())",
    ),
    "row stride": (
        {"A": Tensor((256, 1024), strides=(1030, 1))},
        {},
        "A has a stride of 1030 elements (1030 bytes) along index 0 (m), not a multiple of 16 bytes\n"
        "  got: strides (1030, 1)\n  expected: a stride along index 0 (m) that is a multiple of 16 elements\n"
        "  fix: A.contiguous(), or a stride of 1040 elements",
    ),
    "broadcast": (
        {"A": Tensor((256, 1024), strides=(0, 1))},
        {},
        "A has a stride of 0 elements along index 0 (m)\n  got: strides (0, 1) of shape [256, 1024]\n"
        "  expected: at least 1\n  fix: A.contiguous()",
    ),
    "backwards": (
        {"A_scale": Tensor((256, 8), "<f4", strides=(-8, 1), at=GB)},
        {},
        "A_scale has a stride of -8 elements along index 0 (m)\n  got: strides (-8, 1) of shape [256, 8]\n"
        "  expected: at least 1\n  fix: A_scale.contiguous()",
    ),
    "result over itself": (
        {},
        {"out": Tensor((256, 512), "<V2", strides=(256, 1), at=4096)},
        "C has a stride of 256 elements along index 0 (m)\n  got: strides (256, 1) of shape [256, 512]\n"
        "  expected: at least 512: results must not overlap\n  fix: another out=",
    ),
    "NULL": (
        {"A": Tensor((256, 1024), at=0)},
        {},
        "A is NULL\n  got: address 0\n  expected: memory\n  fix: allocate A before the call",
    ),
    "overlap": (
        {},
        {"out": Tensor((256, 512), "<V2", at=0x10000000 + 1024)},
        "C overlaps A in memory\n  got: C at 0x10000400 (262144 bytes), A at 0x10000000 (262144 bytes)\n"
        "  expected: a result in memory of its own\n  fix: give another out=, or A.clone() (numpy: A.copy())",
    ),
    "read-only": (
        {},
        {"out": Tensor((256, 512), "<V2", at=4096, read_only=True)},
        "C is read-only\n  got: memory that forbids writing (cuda array interface)\n"
        "  expected: memory that the kernel may write\n  fix: another out=",
    ),
    "not a tensor": (
        {"A": [1, 2]},
        {},
        "A is not a tensor\n  got: builtins.list\n"
        "  expected: a torch tensor, or an object with __dlpack__ or __cuda_array_interface__\n"
        "  fix: torch.as_tensor(A), on the device of the other tensors",
    ),
    "None": ({"B": None}, {}, "B is None\n  expected: a tensor\n  fix: allocate B before the call"),
    "unknown name": (
        {},
        {"bias": 1},
        "C has no argument 'bias'\n  expected: A, B, A_scale, B_scale, C\n  fix: leave 'bias' out",
    ),
    "two results given": (
        {},
        {"out": Tensor((1,)), "C": Tensor((1,))},
        "C is given twice\n  got: as out= and as C, two tensors\n  expected: each result once\n"
        "  fix: leave C or out= out",
    ),
    "odd byte strides": (
        {"A_scale": type("Odd", (), {"__cuda_array_interface__": {
            "shape": (256, 8), "typestr": "<f4", "strides": (33, 4), "data": (GB, False), "version": 3}})()},
        {},
        "A_scale has strides that are no multiple of its 4-byte elements\n  got: strides of (33, 4) bytes\n"
        "  expected: elements side by side, as in an array of their own\n  fix: a copy of A_scale without gaps",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name):
    changed, named, message = REFUSED[name]
    device = FakeDevice()
    kernel = Kernel(gemm_spec(), b"", device=device)
    with pytest.raises(ArgumentError) as caught:
        kernel(*(gemm_tensors() | changed).values(), **named)
    assert str(caught.value) == message
    assert device.launches == []


def refusal(kernel, *operands, **named):
    with pytest.raises(ArgumentError) as caught:
        kernel(*operands, **named)
    return str(caught.value)


@pytest.mark.parametrize(("at", "stride", "text"), [
    (4104, 512, "C begins at address 0x1008, not a multiple of 16 bytes\n  got: 8 bytes past one\n"
                "  expected: an address that is a multiple of 16\n  fix: another out="),
    (4096, 516, "C has a stride of 516 elements (1032 bytes) along index 0 (m), not a multiple of 16 bytes\n"
                "  got: strides (516, 1)\n  expected: a stride along index 0 (m) that is a multiple of 8 elements\n"
                "  fix: a stride of 520 elements"),
])  # fmt: skip
def test_rows_of_a_result_that_are_stored_whole(at: int, stride: int, text: str):
    spec = gemm_spec()
    spec = replace(spec, results=tuple(replace(t, align=16) for t in spec.results))
    out = Tensor((256, 512), "<V2", strides=(stride, 1), at=at)
    told = refusal(Kernel(spec, b"", device=FakeDevice()), *gemm_tensors().values(), out=out)
    less = "or a kernel with epilogue=direct, or, if nothing is contracted, one that is not told n, which asks for less"
    assert told == f"{text}, {less}"


def test_an_index_is_i32_alone():
    e = TensorSpec("e", "i32", (Extent("m"),), align=4)
    spec = gemm_spec()
    kernel = Kernel(replace(spec, operands=(*spec.operands, e)), b"", device=FakeDevice())
    assert refusal(kernel, *gemm_tensors().values(), Tensor((256,), "<f4")).endswith("\n  fix: convert e")


def test_an_operand_that_lies_transposed():
    kernel = Kernel(gemm_spec(n=512, k=1024), b"", device=FakeDevice())
    turned = gemm_tensors() | {"B": Tensor((1024, 512), at=GB)}
    assert refusal(kernel, *turned.values()) == (
        "B has n = 1024, the kernel was compiled for n = 512\n  got: B of shape [1024, 512]\n"
        "  expected: B[n,k] with n = 512\n  fix: pass B.mT.contiguous(), or declare it B[k,n] if it is meant so; "
        "else compile with n = 1024, or without n in dims to leave it open"
    )
    other = gemm_tensors() | {"B": Tensor((1024, 1024), at=GB)}
    assert "B[k,n]" not in refusal(kernel, *other.values())


@pytest.mark.parametrize(("columns", "fix"), [
    (1024, "pack B (scalec.reference.storage), whose elements seem to have a byte each; else compile with k = 2048, "),
    (256, "compile with k = 512, "),
])  # fmt: skip
def test_elements_of_4_bits_in_a_byte_each(columns: int, fix: str):
    spec = gemm_spec(n=512, k=1024)
    a, b, *scales = spec.operands
    kernel = Kernel(replace(spec, operands=(a, replace(b, dtype="e2m1"), *scales)), b"", device=FakeDevice())
    told = refusal(kernel, *(gemm_tensors() | {"B": Tensor((512, columns), "|u1", at=GB)}).values())
    assert told.startswith(f"B has k = {2 * columns}, the kernel was compiled for k = 1024\n")
    assert f"\n  got: B of shape [512, {columns}], 2 elements in 1 byte\n" in told
    assert told.endswith(f"\n  fix: {fix}or without k in dims to leave it open")


def test_counts_and_duplicates():
    kernel = Kernel(gemm_spec(), b"", device=FakeDevice())
    t = [*gemm_tensors().values()]
    assert refusal(kernel, *t, t[0]) == (
        "C takes 4 arguments, 5 were given\n  expected: A, B, A_scale, B_scale\n  fix: give a result as out="
    )
    assert refusal(kernel, t[0]) == (
        "missing arguments B, A_scale, B_scale\n  expected: A, B, A_scale, B_scale\n"
        "  fix: pass B too, in this order or by name"
    )
    assert "missing argument B_scale\n" in refusal(kernel, *t[:3])
    assert refusal(kernel, *t, A=t[0]) == (
        "A is given twice\n  got: by position and by name\n  expected: each argument once\n  fix: leave A=... out"
    )


def test_compiled_sizes():
    kernel = Kernel(gemm_spec(n=512, k=7168), b"", device=FakeDevice())
    assert refusal(kernel, **gemm_tensors(k=7000)) == (
        "A has k = 7000, the kernel was compiled for k = 7168\n  got: A of shape [256, 7000]\n"
        "  expected: A[m,k] with k = 7168\n"
        "  fix: compile with k = 7000, or without k in dims to leave it open"
    )


def test_a_row_that_tma_cannot_stride():
    kernel = Kernel(gemm_spec(), b"", device=FakeDevice())
    assert refusal(kernel, **gemm_tensors(k=7169)) == (
        "A: k = 7169 is not a multiple of 16 bytes for e4m3\n  got: rows of 7169 bytes\n"
        "  expected: a stride along index 0 (m) that is a multiple of 16 elements\n"
        "  fix: pad the rows of A to 7184 bytes: give a view of 7169 columns of a tensor that has 7184"
    )


def test_a_row_of_a_size_fixed_at_compile_time_that_tma_cannot_stride():
    device = FakeDevice()
    kernel = Kernel(gemm_spec(k=100), b"", device=device)
    assert refusal(kernel, **gemm_tensors(k=100)) == (
        "A: k = 100 is not a multiple of 16 bytes for e4m3\n  got: rows of 100 bytes\n"
        "  expected: a stride along index 0 (m) that is a multiple of 16 elements\n"
        "  fix: pad the rows of A to 112 bytes: give a view of 100 columns of a tensor that has 112"
    )
    padded = {name: Tensor((rows, 100), strides=(112, 1), at=at) for name, rows, at in (("A", 256, GB), ("B", 512, 0))}
    padded["B"] = Tensor((512, 100), strides=(112, 1), at=2 * GB)
    kernel(**(gemm_tensors(k=100) | padded))
    assert device.launches[0].parameters[0].strides == (112,)


def test_a_view_of_padded_rows_is_taken():
    device = FakeDevice()
    t = gemm_tensors(k=7169)
    views = {name: Tensor((rows, 7169), strides=(7184, 1), at=at) for name, rows, at in (("A", 256, GB), ("B", 512, 0))}
    views["B"] = Tensor((512, 7169), strides=(7184, 1), at=2 * GB)
    t["A_scale"] = Tensor((256, 57), "<f4", at=5 * GB)
    Kernel(gemm_spec(), b"", device=device)(**(t | views))
    assert device.launches[0].parameters[0].strides == (7184,)


def test_devices():
    device = FakeDevice()
    kernel = Kernel(gemm_spec(), b"", device=device)
    device.places[GB] = ("cpu", 0)
    device.places[2 * GB] = ("cuda", 3)
    on_cpu, elsewhere = Tensor((512, 1024), at=GB), Tensor((512, 1024), at=2 * GB)
    assert refusal(kernel, **(gemm_tensors() | {"B": on_cpu})) == (
        "B is on the CPU\n  expected: a tensor on cuda:0 (Fake H200)\n  fix: B.cuda()"
    )
    assert refusal(kernel, **(gemm_tensors() | {"B": elsewhere})) == (
        "B is on cuda:3, A is on cuda:0\n  expected: all tensors on one device\n  fix: B.to('cuda:0')"
    )


def test_numpy_arrays_are_on_the_cpu():
    import numpy as np

    kernel = Kernel(gemm_spec(), b"", device=FakeDevice())
    assert refusal(kernel, **(gemm_tensors() | {"A": np.zeros((256, 1024), np.uint8)})) == (
        "A is on the CPU\n  expected: a tensor on cuda:0 (Fake H200)\n"
        "  fix: a tensor of torch or cupy there, or SCALEC_DEVICE=emulator"
    )


def test_numpy_arrays_are_put_right_by_numpy():
    import numpy as np

    kernel = Kernel(gemm_spec(), b"", device=FakeDevice(place=("cpu", 0)))
    t = {name: np.zeros(tensor.__cuda_array_interface__["shape"], "u1") for name, tensor in gemm_tensors().items()}
    t |= {
        "A": np.zeros((1024, 256), np.uint8).T,
        "A_scale": np.zeros((256, 8), "f4"),
        "B_scale": np.zeros((4, 8), "f4"),
    }
    assert refusal(kernel, **t).endswith("\n  fix: numpy.ascontiguousarray(A)")


def test_columns_of_one_buffer_do_not_overlap():
    device = FakeDevice()
    kernel = Kernel(simple_spec(), b"", device=device)
    rows = 1024  # elements of 2 bytes; A has columns 0 to 31, C (4 bytes each) would have those from byte 1024 on
    b, bias = Tensor((32, 96), "<V2", at=1 << 33), Tensor((96,), "<f4", at=1 << 34)
    # A must be without gaps for this kernel, so B, whose stride it is told, shares the buffer
    b = Tensor((64, 96), "<V2", strides=(rows, 1), at=0x1000)
    a = Tensor((64, 64), "<V2", at=1 << 35)
    spec = simple_spec()
    arguments = (*spec.arguments, type(spec.arguments[0])("stride", "C", axis=0))
    kernel = Kernel(simple_spec(arguments=arguments), b"", device=device)
    kernel(1, a, b, bias, out=Tensor((64, 96), "<f4", strides=(rows // 2, 1), at=0x1000 + 1024))
    assert len(device.launches) == 1
    out = Tensor((64, 96), "<f4", strides=(rows // 2, 1), at=0x1000 + 128)
    assert refusal(kernel, 1, a, b, bias, out=out).startswith("C overlaps B in memory")


# shape and strides of two tensors of f32, and how many bytes lie from the first to the second: whether they overlap
BATCHES = {
    "columns of all rows": ((4, 8, 8), (256, 32, 1), 32, False),
    "columns of some rows": ((4, 8, 8), (512, 32, 1), 32, True),  # every other row of 16 begins a batch: may
    "columns that meet": ((4, 8, 8), (256, 32, 1), 28, True),
    "adjacent batches": ((4, 8, 1), (1, 16, 1), 16, False),  # where n = 1 a column of the buffer is a batch
    "adjacent batches that meet": ((4, 8, 1), (1, 16, 1), 8, True),
}


@pytest.mark.parametrize("name", BATCHES)
def test_columns_of_batches(name: str) -> None:
    shape, strides, shift, overlap = BATCHES[name]
    extents = tuple(Extent(dim) for dim in "bmn")
    told = (Argument("pointer", "x"), Argument("stride", "x", axis=0), Argument("stride", "x", axis=1))
    simple, device = simple_spec(), FakeDevice()
    spec = replace(
        simple_spec(arguments=(*told, *(replace(a, tensor="C") for a in told))),
        dims=dict.fromkeys("bmn"),
        operands=(TensorSpec("x", "f32", extents, align=4),),
        results=(TensorSpec("C", "f32", extents, align=4),),
        launch=replace(simple.launch, tiles=(("m", 8, 1), ("n", 8, 1), ("b", 1, 1))),
        flops=(),
    )
    kernel, at = Kernel(spec, b"", device=device), 0x10000000
    x, out = Tensor(shape, "<f4", strides, at=at), Tensor(shape, "<f4", strides, at=at + shift)
    if overlap:
        assert refusal(kernel, x, out=out).startswith("C overlaps x in memory")
    else:
        kernel(x, out=out)
    assert len(device.launches) == (not overlap)


def test_gaps_that_the_kernel_is_not_told_of():
    kernel = Kernel(simple_spec(), b"", device=FakeDevice())
    a, b, bias = Tensor((64, 32), "<V2", (40, 1)), Tensor((32, 96), "<V2", at=1 << 33), Tensor((96,), "<f4", at=1 << 34)
    assert refusal(kernel, 1, a, b, bias) == (
        "A has a stride of 40 elements along index 0 (m), the kernel needs 32\n  got: strides (40, 1)\n"
        "  expected: strides (32, 1)\n  fix: A.contiguous()"
    )


def test_numbers():
    kernel = Kernel(simple_spec(), b"", device=FakeDevice())
    tensors = Tensor((64, 32), "<V2"), Tensor((32, 96), "<V2", at=1 << 33), Tensor((96,), "<f4", at=1 << 34)
    assert refusal(kernel, Tensor((1,), "<f4"), *tensors) == (
        "alpha is not a number\n  got: Tensor\n  expected: a Python number\n  fix: alpha=float(alpha)"
    )
    fix = "fix: alpha=1.0, or another number"
    assert refusal(kernel, "2", *tensors) == f"alpha is not a number\n  got: str\n  expected: a Python number\n  {fix}"
    assert refusal(kernel, None, *tensors) == f"alpha is None\n  expected: a number\n  {fix}"
