"""Bound calls: what they launch, what they check and when, what they follow, how torch and the emulator see them."""

from __future__ import annotations

import ctypes
import gc
import weakref

import pytest
import torch

import scalec
from scalec.abi import TensorSpec
from scalec.errors import ArgumentError
from scalec.runtime import torch_calls
from scalec.runtime.bundle import Program
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, M, N, Tensor, gemm_spec, gemm_tensors, simple_spec
from tests.runtime.test_torch_calls import CHANGES, fresh, launched, operands


@pytest.fixture(params=["prepared", "native"])
def device(request):
    return FakeDevice(place=("cpu", 0), native=request.param == "native")


@pytest.fixture
def kernel(device):
    return Kernel(simple_spec(), b"", device=device)


def result(m: int = 64, n: int = 96):
    return torch.zeros(m, n)


def test_it_launches_what_a_call_does(device, kernel):
    given, out = operands(), result()
    bound = kernel.bind(2.5, *given, out=out)
    assert device.launches == []
    for _ in range(3):
        assert bound() is out is bound.out
        assert device.launches[-1].native == device.native
        assert launched(device) == fresh(simple_spec(), (2.5, *given), out=out)
    by_name = kernel.bind(2.5, bias=given[2], B=given[1], A=given[0], C=out)
    by_name()
    assert launched(device) == fresh(simple_spec(), (2.5, *given), out=out)
    assert repr(bound).startswith("Bound(Kernel(C[m,n] <- alpha, A[m,k]")


def test_a_bound_call_is_quick(device, kernel, monkeypatch):
    """It goes neither the way of a call unlike any before, nor through the arguments of a call."""
    bound = kernel.bind(1, *operands(), out=result())
    for name in ("__call__", "_first", "_otherwise"):
        monkeypatch.setattr(Kernel, name, lambda *_, **__: pytest.fail("not quick"))
    bound()
    bound()
    assert len(device.launches) == 2


def test_arguments_are_checked_when_they_are_bound(device, kernel):
    a, b, bias = operands()
    buffer, weight = torch.zeros(64 * 96), torch.zeros(96, requires_grad=True)
    wrong = [
        ((1, a, b), {"out": result()}, "missing argument bias"),
        ((1, a, b, bias), {}, "no result is given to bind: each call would write C elsewhere"),
        ((1, a, b, bias), {"out": result(63)}, "C has m = 63, A has m = 64"),
        ((1, a, b.float(), bias), {"out": result()}, "B is f32, expected bf16"),
        ((1e39, a, b, bias), {"out": result()}, "alpha is too large for f32"),
        ((1, a, b, buffer[:96]), {"out": buffer.view(64, 96)}, "C overlaps bias in memory"),
        ((1, a, b, weight), {"out": result()}, "bias requires grad"),
    ]
    for given, named, message in wrong:
        with pytest.raises(ArgumentError, match=message.replace("[", r"\[")):
            kernel.bind(*given, **named)
    with pytest.raises(ArgumentError) as caught:
        kernel.bind(1, a, b, bias)
    assert caught.value.fix == "out=C"
    assert device.launches == []


def test_it_keeps_what_it_is_bound_to(kernel):
    given, out = operands(), result()
    refs = [weakref.ref(t) for t in (*given, out)]
    bound = kernel.bind(1, *given, out=out)
    del given, out
    gc.collect()
    assert all(r() is not None for r in refs)
    bound()
    del bound
    gc.collect()
    assert [r() for r in refs] == [None] * 4


def _stored(a):
    a.untyped_storage().resize_(2 * a.untyped_storage().nbytes())


def _elsewhere(a):
    a.set_(torch.zeros(64 * 32, dtype=torch.bfloat16), 0, (64, 32), (32, 1))


def _gone(a):
    a.untyped_storage().resize_(0)


@pytest.mark.parametrize("change", [*CHANGES, _stored, _elsewhere, _gone], ids=lambda f: f.__name__[1:])
def test_tensors_that_are_changed_in_place_are_followed_or_refused(device, kernel, change):
    """As a call with them is: never the memory, or the sizes, of before."""
    given, out = operands(), result()
    bound = kernel.bind(1, *given, out=out)
    bound()
    change(given[0])
    for _ in range(2):
        before = len(device.launches)
        wanted = fresh(simple_spec(), (1, *given), out=out)
        if len(wanted) == 1:
            with pytest.raises(ArgumentError) as caught:
                bound()
            assert [str(caught.value)] == wanted
            assert len(device.launches) == before
        else:
            bound()
            assert launched(device) == wanted


def test_the_type_of_each_tensor_is_followed(device):
    """Guards see four of the five at a time."""
    given = [torch.zeros(rows, 1024, dtype=torch.float8_e4m3fn) for rows in (4, 256)]
    given += [torch.zeros(rows, 8) for rows in (4, 2)]
    out = torch.zeros(4, 256, dtype=torch.bfloat16)
    bound = Kernel(gemm_spec(), b"", device=device).bind(*given, out=out)
    for t in (*given, out):
        before, other = t.data, torch.int16 if t.element_size() == 1 else torch.float64
        t.data = torch.empty_strided(t.shape, t.stride(), dtype=other)
        launches = len(device.launches)
        with pytest.raises(ArgumentError, match="expected"):
            bound()
        assert len(device.launches) == launches
        t.data = before
        bound()
        assert device.launches[-1].native == device.native


def test_a_result_elsewhere_is_followed(device, kernel):
    given, out = operands(), result()
    bound = kernel.bind(1, *given, out=out)
    bound()
    out.data = result()
    assert bound() is out
    assert launched(device) == fresh(simple_spec(), (1, *given), out=out)
    out.data = torch.zeros(96).expand(64, 96)
    with pytest.raises(ArgumentError, match="C has a stride of 0 elements"):
        bound()


def test_what_comes_to_require_grad_is_refused(kernel):
    given = operands()
    bound = kernel.bind(1, *given, out=result())
    bound()
    given[1].requires_grad_()
    with pytest.raises(ArgumentError, match="B requires grad"):
        bound()
    with torch.no_grad():
        bound()


def test_autograd_learns_what_was_overwritten(kernel):
    x, saved = torch.ones(64, 96, requires_grad=True), torch.ones(64, 96)
    bound = kernel.bind(1, *operands(), out=saved)
    for _ in range(2):
        y = (x * saved).sum()
        bound()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


@pytest.mark.parametrize("native", [False, True])
def test_streams(device, monkeypatch, native):
    """Torch's current one at each call, or the one it is bound with; a trampoline asks without Python where it can."""
    now, places = iter(range(10, 20)), []

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))
    def work_stream(kind, ordinal, handle):
        places.append((kind, ordinal))
        handle[0] = next(now)
        return 0

    where = ctypes.cast(work_stream, ctypes.c_void_p).value if native else 0
    exchange = torch_calls._exchange(torch)._replace(work_stream=where)
    monkeypatch.setattr(torch_calls, "_exchange", lambda _torch: exchange)
    monkeypatch.setattr(torch_calls, "stream_of", lambda *_: lambda _ordinal: next(now))
    kernel = Kernel(simple_spec(), b"", device=device)
    given, out = operands(), result()
    current, given_one = kernel.bind(1, *given, out=out), kernel.bind(1, *given, out=out, stream=7)
    for bound in (current, given_one, current, given_one):
        bound()
    assert [x.stream for x in device.launches] == [10, 7, 11, 7]
    assert places == [(1, 0)] * (2 if native and device.native else 0)
    with pytest.raises(ArgumentError, match="stream is not a CUDA stream"):
        kernel.bind(1, *given, out=out, stream="fast")


def test_tensors_of_another_library(device):
    device = FakeDevice(native=device.native)
    kernel, given = Kernel(gemm_spec(), b"", device=device), gemm_tensors()
    given["A"] = Tensor((256, 1024), stream=9)
    out = Tensor((256, 512), "<V2", at=0x4000)
    bound = kernel.bind(**given, out=out, stream=5)
    assert (device.launches, device.ordered) == ([], [])
    assert bound() is out
    assert bound() is out
    assert device.ordered == [(9, 5)] * 2  # what made A is waited for each time
    assert [x.stream for x in device.launches] == [5, 5]


def test_no_rows_launch_nothing(device, kernel):
    bound = kernel.bind(1, *operands(0), out=result(0))
    assert bound() is bound.out
    assert device.launches == []


def test_two_results_and_accumulation(device):
    pair = (TensorSpec("C", "f32", (M, N), align=4), TensorSpec("S", "f32", (M,), align=4))
    kernel = Kernel(simple_spec(results=pair), b"", device=device)
    outs = (result(), torch.zeros(64))
    bound = kernel.bind(1, *operands(), out=outs)
    made = bound()
    assert made[0] is outs[0]
    assert made[1] is outs[1]
    summed = Kernel(simple_spec(results=(TensorSpec("C", "f32", (M, N), align=4, inout=True),)), b"", device=device)
    with pytest.raises(ArgumentError, match="must be given"):
        summed.bind(1, *operands())
    assert summed.bind(1, *operands(), outs[0])() is outs[0]


def test_a_program_binds_the_kernel_of_its_sizes(device):
    """And asks again once the sizes are others."""
    parts = [("C0", (1, 64)), ("C1", (65, 512))]
    kernels = [Kernel(simple_spec(entry=e, ranges={"m": r}), b"", device=device) for e, r in parts]
    program, given, out = Program("C", kernels), operands(64), result(64)
    bound = program.bind(1, *given, out=out)
    bound()
    a, c = operands(100)[0], result(100)
    given[0].data, out.data = a, c
    bound()
    assert [x.function[0] for x in device.launches] == ["C0", "C1"]
    assert device.launches[-1].parameters[1] == a.data_ptr()


# ----------------------------------------------------------------------------------------- torch's graphs, the emulator


@pytest.fixture
def emulated(on_the_emulator):
    torch._dynamo.reset()
    return scalec.compile("C[m,n] = A[m,k] @ B[n,k]", target="sm_90a", dims={"n": 64, "k": 128})


def buffers(m: int = 8) -> list:
    torch.manual_seed(m)
    return [torch.randn(m, 128).bfloat16(), torch.randn(64, 128).bfloat16(), torch.zeros(m, 64).bfloat16()]


def test_on_the_emulator(emulated):
    a, b, c = buffers()
    bound = emulated.bind(a, b, out=c)
    assert not c.any()
    for seed in range(3):
        a.copy_(torch.randn(8, 128, generator=torch.Generator().manual_seed(seed)))
        assert bound() is c
        assert torch.equal(c, emulated(a, b))
    a.set_(torch.randn(8, 128).bfloat16())
    assert torch.equal(bound(), emulated(a, b))


def test_torch_compile_sees_one_op(emulated):
    a, b, c = buffers()
    bound, seen = emulated.bind(a, b, out=c), []

    def backend(module, _example):
        seen.append([str(n.target) for n in module.graph.nodes if n.op == "call_function"])
        return module

    def run(x):
        bound()
        return x + c

    x = torch.randn(8, 64).bfloat16()
    compiled = torch.compile(run, fullgraph=True, backend=backend)
    wanted = emulated(a, b)
    c.zero_()
    assert torch.equal(compiled(x), x + wanted)
    assert torch.equal(c, wanted)
    assert [len([t for t in graph if t.startswith("scalec.")]) for graph in seen] == [1]


def test_torch_compile_sees_it_where_it_is_quick(device, kernel):
    """A call that would launch by itself outside: inside it is an op all the same."""
    given, out = operands(), result()
    bound = kernel.bind(2.5, *given, out=out)
    bound()
    torch._dynamo.reset()

    def run(x):
        return bound() + x

    assert torch.equal(torch.compile(run, fullgraph=True, backend="eager")(out), out)
    assert len(device.launches) == 2
    assert launched(device) == fresh(simple_spec(), (2.5, *given), out=out)
    assert not device.launches[-1].native


def test_a_dispatch_mode_sees_it(emulated):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    a, b, c = buffers()
    bound = emulated.bind(a, b, out=c)
    with Log():
        bound()
    assert [s for s in seen if s.startswith("scalec.")]
