"""Calls on the fake device: what is launched, with which arguments, and what is kept between calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalec.abi import Argument, Extent, TensorSpec
from scalec.errors import ArgumentError, DeviceError, UnsupportedError
from scalec.runtime.array import DeviceArray
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, K, M, N, Tensor, gemm_spec, gemm_tensors, simple_spec


@pytest.fixture
def device():
    return FakeDevice()


@pytest.fixture
def gemm(device):
    return Kernel(gemm_spec(), b"cubin", device=device)


def test_the_launch(device, gemm):
    given = gemm_tensors()
    c = gemm(*given.values())
    assert isinstance(c, DeviceArray)
    assert (c.shape, c.strides, c.dtype, c.nbytes) == ((256, 512), (512, 1), "bf16", 256 * 512 * 2)
    (launch,) = device.launches
    assert (launch.function, launch.threads, launch.shared_bytes, launch.stream) == (("C", b"cubin"), 384, 200000, 0)
    assert launch.grid == 1 * 4 * 2
    a, b, a_scale, a_stride, b_scale, b_stride, pointer, c_stride, m = launch.parameters
    assert (a.element, a.address, a.extents, a.strides) == ("u8", 0x10000000, (1024, 256), (1024,))
    assert (a.box, a.swizzle) == ((128, 64), 128)
    assert (b.extents, b.strides, b.box) == ((1024, 512), (1024,), (128, 128))
    assert (a_scale, a_stride, b_stride) == (0x10000000 + (2 << 30), 8, 8)
    assert (b_scale, pointer, c_stride, m) == (0x10000000 + (3 << 30), c.pointer, 512, 256)


def test_the_grid_is_persistent(device, gemm):
    gemm(*gemm_tensors(m=4096, n=7168).values())
    assert device.launches[-1].grid == 132


def test_names_and_streams(device, gemm):
    t = gemm_tensors()

    class Stream:
        def __cuda_stream__(self):
            return 0, 77

    gemm(t["A"], B_scale=t["B_scale"], B=t["B"], A_scale=t["A_scale"], stream=Stream())
    gemm(**t, stream=5)
    assert [x.stream for x in device.launches] == [77, 5]
    with pytest.raises(ArgumentError, match="stream is not a CUDA stream"):
        gemm(**t, stream="fast")


def test_the_given_result_is_written_and_returned(device, gemm):
    out = Tensor((256, 512), "<V2", strides=(1024, 1), at=0x4000)
    assert gemm(*gemm_tensors().values(), out=out) is out
    assert gemm(*gemm_tensors().values(), C=out) is out
    assert gemm(*gemm_tensors().values(), out=(out,)) is out
    assert [x.parameters[-3:] for x in device.launches] == [[0x4000, 1024, 256]] * 3


def test_a_repeated_call_prepares_nothing_anew(device, gemm):
    out = Tensor((256, 512), "<V2", at=0x4000)
    for _ in range(3):
        gemm(*gemm_tensors().values(), out=out)
    # one for these tensors, and one that can be moved
    assert (device.prepared, len(device.encoded), len(device.launches), device.loads) == (2, 4, 3, ["C"])
    for prepared in (2, 3, 3):  # other addresses: moved, then kept with the same tensor maps
        gemm(*gemm_tensors().values(), out=Tensor((256, 512), "<V2", at=0x8000))
        assert (device.prepared, len(device.encoded) - device.moved) == (prepared, 4)
    gemm(*gemm_tensors(m=128).values(), out=Tensor((128, 512), "<V2", at=0x8000))  # another shape
    assert (device.prepared, len(device.encoded) - device.moved, device.loads) == (5, 8, ["C"])


def test_a_moved_launch_is_that_of_new_parameters(device, gemm):
    """Each of many launches has the addresses of its own tensors, in every parameter, as one prepared for them has."""
    places = [0x100000 * (1 + i) for i in range(6)]
    for at in (0x90000000, *places, *places):  # prepared, moved, and prepared again
        given = gemm_tensors(at=at)
        gemm(*given.values(), out=Tensor((256, 512), "<V2", at=at + 0x80000))
    _, *launches = device.launches
    moved, prepared = launches[: len(places)], launches[len(places) :]
    assert device.moved == 2 * len(places)
    assert [x.parameters for x in moved] == [x.parameters for x in prepared]
    assert len({str(x.parameters) for x in moved}) == len(places)


def test_what_stays_where_it_was_is_not_moved(device, gemm):
    """Weights stay, activations move; a refused call between two others leaves nothing half moved."""
    b = Tensor((512, 1024), at=7 << 30)

    def call(at: int, out: int) -> list:
        given = gemm_tensors(at=at) | {"B": b}
        gemm(*given.values(), out=Tensor((256, 512), "<V2", at=out))
        return device.launches[-1].parameters

    def wanted(at: int, out: int) -> list:
        found = FakeDevice()
        given = gemm_tensors(at=at) | {"B": b}
        Kernel(gemm_spec(), b"", device=found)(*given.values(), out=Tensor((256, 512), "<V2", at=out))
        return found.launches[-1].parameters

    call(1 << 30, 8 << 30)
    moves = []
    for i, (at, out) in enumerate([(2, 8), (2, 9), (3, 9), (1, 9), (3, 10), (2, 12)]):
        before = device.moved
        assert call(at << 30, out << 30) == wanted(at << 30, out << 30)
        moves.append(device.moved - before)
        if i == 2:
            with pytest.raises(ArgumentError, match="C begins at address"):
                call(4 << 30, (9 << 30) + 1)
    assert moves == [2, 0, 1, 1, 1, 1]  # tensor maps: A's and at first B's


@pytest.mark.parametrize(
    ("at", "message"), [(0, "C is NULL"), (0x8001, "not a multiple of"), (0x20_0000, "C overlaps A in memory")]
)
def test_a_moved_launch_is_checked(device, gemm, at, message):
    gemm(*gemm_tensors(at=0x20_0000).values(), out=Tensor((256, 512), "<V2", at=0x4000))
    before = len(device.launches)
    with pytest.raises(ArgumentError, match=message):
        gemm(*gemm_tensors(at=0x20_0000).values(), out=Tensor((256, 512), "<V2", at=at))
    assert len(device.launches) == before


def test_small_launches_may_begin_before_the_one_before_them_has_ended(device):
    """Up to `dependent` multiplications, 128 * 512 * 1024 here; kept launchers and moved ones alike."""
    spec = gemm_spec()
    spec = replace(spec, launch=replace(spec.launch, dependent=128 * 512 * 1024))
    kernel = Kernel(spec, b"cubin", device=device)
    for m in (64, 128, 129):
        for at in (0x4000, 0x4000, 0x80000, 0x80000):
            kernel(*gemm_tensors(m=m).values(), out=Tensor((m, 512), "<V2", at=at))
    assert [x.dependent for x in device.launches] == [True] * 8 + [False] * 4


def test_launchers_kept_are_bounded(device, gemm):
    for i in range(600):
        gemm(*gemm_tensors().values(), out=Tensor((256, 512), "<V2", at=(8 << 30) + 1024 * 1024 * i))
    (loaded,) = gemm._loaded.values()
    (plan,) = loaded.plans.values()
    assert len(plan.launchers) <= 256
    assert len(device.launches) == 600


def test_no_rows_launch_nothing(device, gemm):
    c = gemm(*gemm_tensors(m=0).values())
    assert (c.shape, c.numpy().shape, device.launches) == ((0, 512), (0, 512), [])


def test_sums_of_nothing_are_given_zeros_of_the_kernels_own(device, gemm):
    for at in (0, 1 << 40, 1 << 40):  # libraries give tensors without elements any address, NULL among others
        gemm(**gemm_tensors(k=0, at=at))
    gemm(**gemm_tensors(m=64, k=0))
    ((zeros, size),) = device.reserved.items()
    assert size == 511 * 16 + 1  # a byte of each of B's rows, which are 16 bytes apart
    assert not any(device.download(zeros, size, 0))
    for launch, rows in zip(device.launches, (256, 256, 256, 64), strict=True):
        a, b, a_scale, _, b_scale, _, _, _, m = launch.parameters
        assert (a.address, a.extents, a.strides, a.box) == (zeros, (1, rows), (16,), (128, 64))
        assert (b.address, b.extents, b.strides) == (zeros, (1, 512), (16,))
        assert (a_scale, b_scale, m, launch.grid) == (zeros, zeros, rows, 8)
    gemm(**gemm_tensors(m=4096, k=0))
    assert [size for _, size in device.reserved.items()] == [511 * 16 + 1, 4095 * 16 + 1]
    gemm(**gemm_tensors())
    assert (device.launches[-1].parameters[0].address, device.launches[-1].parameters[0].extents) == (
        1 << 28,
        (1024, 256),
    )


def test_what_else_a_sum_of_nothing_reads_must_be_there(device):
    kernel = Kernel(simple_spec(), b"", device=device)
    operands = 0.5, Tensor((64, 0), "<V2", at=0), Tensor((0, 96), "<V2", at=0)
    kernel(*operands, Tensor((96,), "<f4"))
    assert device.launches[-1].parameters[-1] == 1  # k, as the kernel walks it
    with pytest.raises(ArgumentError, match="bias is NULL"):
        kernel(*operands, Tensor((96,), "<f4", at=0))
    with pytest.raises(ArgumentError, match=r"B has k = 0, A has k = 32|k = 32"):
        kernel(0.5, Tensor((64, 32), "<V2"), *operands[2:], Tensor((96,), "<f4"))


def test_no_sum_of_nothing_where_the_kernel_has_another_size(device):
    kernel = Kernel(gemm_spec(k=1024), b"", device=device)
    with pytest.raises(ArgumentError, match="A has k = 0, the kernel was compiled for k = 1024"):
        kernel(**gemm_tensors(k=0))
    with pytest.raises(ArgumentError, match="A has k = 1024, the kernel was compiled for k = 0"):
        Kernel(gemm_spec(k=0), b"", device=device)(**gemm_tensors())


def test_work_of_another_stream_is_waited_for(device, gemm):
    t = gemm_tensors() | {"A": Tensor((256, 1024), stream=9), "B": Tensor((512, 1024), at=1 << 33, stream=1)}
    for _ in range(2):
        gemm(**t, stream=7)
    assert device.ordered == [(9, 7), (0, 7)] * 2


def test_results_are_freed_in_stream_order(device, gemm):
    c = gemm(*gemm_tensors().values(), stream=3)
    address = c.pointer
    assert c.__cuda_array_interface__["stream"] == 3
    del c
    assert device.freed == [address]


def test_scalars_and_pointers(device):
    kernel = Kernel(simple_spec(), b"", device=device)
    a, b, bias = Tensor((64, 32), "<V2"), Tensor((32, 96), "<V2", (128, 1), 1 << 33), Tensor((96,), "<f4", at=1 << 34)
    c = kernel(2, a, b, bias)
    kernel(alpha=0.5, A=a, B=b, bias=bias)
    first, second = device.launches
    assert first.parameters == [2.0, 0x10000000, 1 << 33, 128, 1 << 34, c.pointer, 32]
    assert second.parameters[0] == 0.5


def test_accumulated_results_must_be_given(device):
    c = TensorSpec("C", "f32", (M, N), align=4, inout=True)
    kernel = Kernel(simple_spec(results=(c,)), b"", device=device)
    a, b, bias = Tensor((64, 32), "<V2"), Tensor((32, 96), "<V2", at=1 << 33), Tensor((96,), "<f4", at=1 << 34)
    out = Tensor((64, 96), "<f4", at=1 << 35)
    assert kernel(1, a, b, bias, out) is out
    assert kernel(1, a, b, bias, C=out) is out
    with pytest.raises(ArgumentError) as caught:
        kernel(1, a, b, bias)
    assert str(caught.value) == (
        "C is accumulated into (+=) and must be given\n  expected: memory with what it holds before the call\n"
        "  fix: C=tensor, or out=tensor"
    )


def test_two_results(device):
    results = (TensorSpec("C", "f32", (M, N), align=4), TensorSpec("S", "f32", (M,), align=4))
    kernel = Kernel(simple_spec(results=results), b"", device=device)
    given = 1, Tensor((64, 32), "<V2"), Tensor((32, 96), "<V2", at=1 << 33), Tensor((96,), "<f4", at=1 << 34)
    c, s = kernel(*given)
    assert (c.shape, s.shape) == ((64, 96), (64,))
    with pytest.raises(ArgumentError, match="out has 1 results, C has 2"):
        kernel(*given, out=c)
    with pytest.raises(ArgumentError, match="S is not given"):
        kernel(*given, C=c)


def test_column_layout(device):
    spec = gemm_spec()
    scale = replace(spec.operands[2], layout="col", align=16)
    arguments = (Argument("tensor_map", "A_scale", box=(64, 1)), *spec.arguments[:2], *spec.arguments[4:])
    operands = (*spec.operands[:2], scale, spec.operands[3])
    kernel = Kernel(replace(spec, operands=operands, arguments=arguments), b"", device=device)
    t = gemm_tensors()
    with pytest.raises(ArgumentError) as caught:
        kernel(**t)
    assert str(caught.value) == (
        "A_scale is not contiguous along index 0 (m)\n"
        "  got: strides (8, 1)\n"
        "  expected: a stride of 1 along index 0 (layout col)\n"
        "  fix: A_scale.transpose(-1, -2).contiguous().transpose(-1, -2)"
    )
    kernel(**(t | {"A_scale": Tensor((256, 8), "<f4", strides=(1, 260), at=1 << 33)}))
    made = device.launches[-1].parameters[0]
    assert (made.element, made.extents, made.strides, made.box) == ("f32", (256, 8), (1040,), (64, 1))


def test_rows_are_padded_where_a_result_needs_it(device):
    spec = gemm_spec()
    result = replace(spec.results[0], align=16)
    arguments = (*spec.arguments[:6], Argument("tensor_map", "C", box=(64, 64), swizzle=128), spec.arguments[-1])
    kernel = Kernel(replace(spec, results=(result,), arguments=arguments), b"", device=device)
    c = kernel(*gemm_tensors(n=513).values())
    assert (c.shape, c.strides) == ((256, 513), (520, 1))
    assert device.launches[-1].parameters[-2].strides == (1040,)


def test_one_row_has_no_stride(device, gemm):
    t = gemm_tensors(m=1)
    kernel_input = Tensor((1, 1024), strides=(1, 1))
    gemm(**(t | {"A": kernel_input, "A_scale": Tensor((1, 8), "<f4", strides=(3, 1), at=1 << 33)}))
    parameters = device.launches[-1].parameters
    assert (parameters[0].extents, parameters[0].strides, parameters[3]) == ((1024, 1), (1024,), 8)


def test_three_dimensions(device):
    batch = TensorSpec("A", "bf16", (M, K, N))
    spec = simple_spec(
        operands=(batch,),
        results=(TensorSpec("C", "f32", (M,), align=4),),
        arguments=(Argument("tensor_map", "A", box=(64, 8, 1), swizzle=128),),
        launch=replace(simple_spec().launch, tiles=(("m", 1, 1),)),
    )
    Kernel(spec, b"", device=device)(Tensor((3, 5, 64), "<V2", strides=(640, 64, 1)))
    made = device.launches[0].parameters[0]
    assert (made.element, made.extents, made.strides) == ("bf16", (64, 5, 3), (128, 1280))


def test_a_scale_of_a_whole_tensor_may_have_any_rank(device):
    one = TensorSpec("S", "f32", (Extent(size=1), Extent(size=1)), align=4)
    spec = simple_spec(operands=(*simple_spec().operands[1:], one), arguments=(Argument("pointer", "S"),))
    kernel = Kernel(spec, b"", device=device)
    rest = Tensor((64, 32), "<V2"), Tensor((32, 96), "<V2", at=1 << 33), Tensor((96,), "<f4", at=1 << 34)
    for shape in ((), (1,), (1, 1), (1, 1, 1)):
        kernel(*rest, Tensor(shape, "<f4", at=1 << 35))
    assert [x.parameters for x in device.launches] == [[1 << 35]] * 4
    with pytest.raises(ArgumentError, match="S has 1 dimensions, expected 2"):
        kernel(*rest, Tensor((2,), "<f4", at=1 << 35))


def test_packed_types_are_bytes(device):
    spec = simple_spec(
        operands=(TensorSpec("A", "e2m1", (M, K)),),
        results=(TensorSpec("C", "f32", (M,), align=4),),
        arguments=(Argument("tensor_map", "A", box=(64, 8)), Argument("dim", dim="k")),
        launch=replace(simple_spec().launch, tiles=(("m", 1, 1),)),
    )
    Kernel(spec, b"", device=device)(Tensor((4, 64)))
    made, k = device.launches[0].parameters
    assert (made.element, made.extents, k) == ("u8", (64, 4), 128)


def test_another_gpu_is_refused():
    kernel = Kernel(gemm_spec(), b"", device=FakeDevice(name="Fake B200", capability=(10, 0)))
    with pytest.raises(DeviceError) as caught:
        kernel(*gemm_tensors().values())
    assert str(caught.value) == (
        "C is compiled for sm_90a, Fake B200 is sm_100\n"
        "  expected: H100, H200, GH200\n"
        "  fix: compile it for this GPU, run it on one of those, or on the emulator with SCALEC_DEVICE=emulator"
    )


def test_unknown_layouts_and_arguments_are_refused():
    scale = TensorSpec("S", "ue8m0", (M,), layout="spiral")
    with pytest.raises(UnsupportedError, match="S has layout 'spiral'"):
        Kernel(simple_spec(operands=(scale,)), b"")
    with pytest.raises(UnsupportedError, match="kernel argument of kind 'texture'"):
        Kernel(simple_spec(arguments=(Argument("texture"),)), b"")


def test_it_says_what_it_is(gemm):
    assert (
        repr(gemm)
        == "Kernel(C[m,n] <- A[m,k], B[n,k], A_scale[m,ceil(k/128)], B_scale[ceil(n/128),ceil(k/128)]; sm_90a)"
    )
