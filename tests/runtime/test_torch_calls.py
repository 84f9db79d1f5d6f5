"""Calls with nothing but torch's tensors: what is known from an earlier call, and what must never be taken for it."""

from __future__ import annotations

import copy
import ctypes
import gc
import math
import pickle
import weakref
from dataclasses import replace

import pytest
import torch

from scalec.abi import Argument, TensorSpec
from scalec.errors import ArgumentError
from scalec.runtime import dlpack, ready, torch_calls
from scalec.runtime.bundle import Program
from scalec.runtime.handles import Handles
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, K, M, gemm_spec, simple_spec


def operands(m: int = 64, n: int = 96, k: int = 32) -> list:
    return [torch.zeros(m, k, dtype=torch.bfloat16), torch.zeros(k, n, dtype=torch.bfloat16), torch.zeros(n)]


def launched(device: FakeDevice) -> list:
    """Parameters and grid of the last launch."""
    last = device.launches[-1]
    return [*last.parameters, last.grid, last.stream]


def fresh(spec, given, **named) -> list:
    """What the same call launches that is the first of its kernel; a refusal as its message."""
    device = FakeDevice(place=("cpu", 0))
    try:
        Kernel(spec, b"", device=device)(*given, **named)
    except ArgumentError as error:
        return [str(error)]
    return launched(device)


@pytest.mark.usefixtures("ways")
def test_repeated_calls_are_known(device, quick):
    kernel, given, out = Kernel(simple_spec(), b"", device=device), operands(), torch.zeros(64, 96)
    kernel(2, *given), kernel(2, *given, out=out)
    quick(kernel)
    for _ in range(3):
        c = kernel(2, *given)
        assert (c.shape, c.stride(), c.dtype) == ((64, 96), (96, 1), torch.float32)
        assert launched(device)[:-2] == [2.0, *slots(given, c)]
        assert kernel(3.5, *given, out=out) is out
        assert launched(device)[:-2] == [3.5, *slots(given, out)]
    other = operands()  # elsewhere
    c = kernel(2, *other)
    assert launched(device)[:-2] == [2.0, *slots(other, c)]


def slots(given, c) -> list:
    a, b, bias = given
    return [a.data_ptr(), b.data_ptr(), b.stride(0), bias.data_ptr(), c.data_ptr(), a.shape[1]]


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("results", [1, 2])
def test_a_repeated_call_is_one_of_native_code(monkeypatch, results):
    """It goes no way in Python: neither that of a call unlike the last one, nor that without a trampoline."""
    monkeypatch.setattr(ready, "OFTEN", 1)
    device, spec = FakeDevice(place=("cpu", 0), native=True), simple_spec()
    pair = (*spec.results, TensorSpec("S", "f32", (M,), align=4))[:results]
    kernel, given = Kernel(replace(spec, results=pair), b"", device=device), operands()
    out = torch.zeros(64, 96) if results == 1 else (torch.zeros(64, 96), torch.zeros(64))
    for _ in range(2):
        kernel(2, *given), kernel(2, *given, out=out)

    def forbid(*_: object) -> None:
        raise AssertionError("another way")

    for name in ("_general", "_otherwise"):
        monkeypatch.setattr(kernel, name, forbid)
    for name in ("call", "call_otherwise"):
        monkeypatch.setattr(ready.Ready, name, forbid)
    other = operands()  # elsewhere
    for tensors in (given, other):
        made = kernel(2, *tensors)
        assert kernel(3, *tensors, out=out) is out
        assert [x.native for x in device.launches[-2:]] == [True, True]
        first = made if results == 1 else made[0]
        assert device.launches[-2].parameters == [2.0, *slots(tensors, first)]
        assert len({id(made)} | {id(out)}) == 2


@pytest.mark.usefixtures("ways")
def test_shapes_by_turns_are_known(device, quick):
    kernel = Kernel(simple_spec(), b"", device=device)
    calls = [operands(m, n) for m, n in ((64, 96), (200, 96), (200, 160), (1, 1))]
    for given in calls:
        kernel(1, *given)
    quick(kernel)
    for given in [*calls, *reversed(calls)]:
        c = kernel(1, *given)
        assert c.shape == (given[0].shape[0], given[1].shape[1])
        assert launched(device)[1:-2] == slots(given, c)
        tiles = math.ceil(c.shape[0] / 64) * math.ceil(c.shape[1] / 64)
        assert device.launches[-1].grid == tiles


def test_strides_and_gpus_by_turns_are_known(device, quick, monkeypatch):
    """Of one shape: four strides on each of eight GPUs, which strides stand for here."""
    monkeypatch.setattr(torch.Tensor, "get_device", lambda t: (t.stride(0) - 32) // 4)
    kernel = Kernel(
        simple_spec(arguments=(Argument("stride", "A", axis=0), *simple_spec().arguments)), b"", device=device
    )
    calls = [[torch.zeros(64, 32 + more, dtype=torch.bfloat16)[:, :32], *operands()[1:]] for more in range(32)]
    for given in calls:
        kernel(1, *given)
    quick(kernel)
    for given in [*calls, *reversed(calls)]:
        c = kernel(1, *given)
        assert launched(device)[:-2] == [given[0].stride(0), 1.0, *slots(given, c)]


def _resized(a):
    a.resize_(32, 32)


def _set(a):
    a.set_(torch.zeros(64 * 32, dtype=torch.bfloat16), 0, (64, 32), (32, 1))


def _transposed(a):
    a.set_(torch.zeros(64 * 32, dtype=torch.bfloat16), 0, (64, 32), (1, 64))


def _data(a):
    a.data = torch.zeros(64, 40, dtype=torch.bfloat16)[:, :32]


def _type(a):
    a.data = torch.zeros(64, 32)


def _strided(a):
    a.as_strided_((64, 32), (16, 1))


def _turned(a):
    a.t_()


CHANGES = [_resized, _set, _transposed, _data, _type, _strided, _turned]


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("given_out", [False, True], ids=["allocated", "given"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__[1:])
def test_a_tensor_that_was_changed_in_place_is_another(device, change, given_out):
    """The same Python objects, and where the memory is the same too, other shapes, strides or types."""
    kernel, given = Kernel(simple_spec(), b"", device=device), operands()
    named = {"out": torch.zeros(64, 96)} if given_out else {}
    for _ in range(3):
        kernel(1, *given, **named)
    before = len(device.launches)
    change(given[0])
    wanted = fresh(simple_spec(), (1, *given), **named)
    if len(wanted) == 1:
        with pytest.raises(ArgumentError) as caught:
            kernel(1, *given, **named)
        assert [str(caught.value)] == wanted
        assert len(device.launches) == before
        return
    kernel(1, *given, **named)
    got = launched(device)
    if not given_out:
        got[5], wanted[5] = 0, 0  # the result's address
    assert got == wanted


RESULTS = {
    "elsewhere": lambda: torch.ones(64, 96),
    "padded": lambda: torch.zeros(64, 128)[:, :96],
    "rows": lambda: torch.zeros(65, 96),
    "columns": lambda: torch.zeros(96, 64).t(),
    "rank": lambda: torch.zeros(64 * 96),
    "type": lambda: torch.zeros(64, 96).bfloat16(),
    "lazy": lambda: torch._neg_view(torch.zeros(64, 96)),
    "device": lambda: torch.empty(64, 96, device="meta"),
    "gradient": lambda: torch.zeros(64, 96, requires_grad=True),
    "nothing": lambda: 7,
    "several": lambda: [torch.zeros(64, 96)] * 2,
    "one": lambda: [torch.zeros(64, 96)],
}


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_unlike_the_one_known(device, name):
    """What is given to write is taken, or refused, as if it were the first."""
    kernel, given, out, other = (
        Kernel(simple_spec(), b"", device=device),
        operands(),
        torch.zeros(64, 96),
        RESULTS[name](),
    )
    for _ in range(3):
        kernel(1, *given, out=out)
    before, wanted = len(device.launches), fresh(simple_spec(), (1, *given), out=other)
    if name in ("elsewhere", "one"):
        assert kernel(1, *given, out=other) is (other[0] if name == "one" else other)
        assert launched(device) == wanted
        assert len(device.launches) == before + 1
        return
    with pytest.raises(ArgumentError) as caught:
        kernel(1, *given, out=other)
    assert [str(caught.value)] == wanted
    assert len(device.launches) == before


@pytest.mark.usefixtures("ways")
def test_scalars_are_told_apart_by_their_bits(device):
    kernel, given, out = Kernel(simple_spec(), b"", device=device), operands(), torch.zeros(64, 96)
    for _ in range(2):
        for alpha in (0.0, -0.0, 1, 1.5, float("nan")):
            for _ in range(2):
                kernel(alpha, *given, out=out)
            seen = device.launches[-1].parameters[0]
            assert (str(seen), math.copysign(1, seen)) == (str(float(alpha)), math.copysign(1, alpha))
    with pytest.raises(ArgumentError, match="alpha is too large for f32"):
        kernel(1e39, *given, out=out)


@pytest.mark.usefixtures("ways")
def test_a_wrong_number_of_arguments_is_refused_after_a_right_one(device):
    kernel, given = Kernel(simple_spec(), b"", device=device), operands()
    out = torch.zeros(64, 96)
    kernel(1, *given), kernel(1, *given, out=out)
    for wrong in ((1, *given[:2]), (1, *given, given[0])):
        with pytest.raises(ArgumentError, match=r"missing argument bias|takes 4 arguments, 5 were given"):
            kernel(*wrong)
        with pytest.raises(ArgumentError, match=r"missing argument bias|takes 4 arguments, 5 were given"):
            kernel(*wrong, out=out)
    with pytest.raises(ArgumentError, match="A is not a tensor"):
        kernel(1, 7, *given[1:])
    with pytest.raises(ArgumentError, match="A is None"):
        kernel(1, None, *given[1:])


@pytest.mark.usefixtures("ways")
def test_one_tensor_given_twice(device):
    square = (TensorSpec("A", "bf16", (M, K), align=2), TensorSpec("B", "bf16", (M, K), align=2))
    spec = simple_spec(operands=square, arguments=simple_spec().arguments[1:3])
    spec = replace(spec, results=(TensorSpec("C", "f32", (M,), align=4),), launch=replace(spec.launch, tiles=()))
    kernel, a, b = Kernel(spec, b"", device=device), torch.zeros(8, 8).bfloat16(), torch.zeros(8, 8).bfloat16()
    for x, y in ((a, a), (a, b), (a, a), (b, b)):
        kernel(x, y)
        assert device.launches[-1].parameters == [x.data_ptr(), y.data_ptr()]


@pytest.mark.usefixtures("ways")
def test_autograd_learns_what_was_overwritten(device):
    kernel, given = Kernel(simple_spec(), b"", device=device), operands()
    x = torch.ones(64, 96, requires_grad=True)
    for _ in range(3):
        saved = torch.ones(64, 96)
        y = (x * saved).sum()
        kernel(1, *given, out=saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


@pytest.mark.usefixtures("ways")
def test_lazy_views_are_refused(device):
    kernel, given = Kernel(simple_spec(), b"", device=device), operands()
    for _ in range(2):
        with pytest.raises(ArgumentError, match="bias is a lazy view: its memory holds other values"):
            kernel(1, *given[:2], torch._neg_view(given[2]))
        kernel(1, *given)


def test_a_stream_that_is_given(device, quick):
    kernel, given, out = Kernel(simple_spec(), b"", device=device), operands(), torch.zeros(64, 96)
    kernel(1, *given), kernel(1, *given, out=out)
    quick(kernel)
    kernel(1, *given, stream=5), kernel(1, *given, out=out, stream=7)
    assert [x.stream for x in device.launches] == [0, 0, 5, 7]
    with pytest.raises(ArgumentError, match="stream is not a CUDA stream"):
        kernel(1, *given, stream="fast")


def test_results_are_allocated_with_their_strides(device):
    spec = gemm_spec()
    result = replace(spec.results[0], align=16)
    kernel = Kernel(
        replace(spec, results=(result, replace(result, name="D", dtype="f32", align=4))), b"", device=device
    )
    m, n, k = 6, 129, 256
    given = [torch.zeros(m, k), torch.zeros(n, k), torch.zeros(m, 2), torch.zeros(2, 2)]
    given[:2] = [t.to(torch.float8_e4m3fn) for t in given[:2]]
    for _ in range(3):
        c, d = kernel(*given)
        assert (c.shape, c.stride(), c.dtype) == ((m, n), (136, 1), torch.bfloat16)
        assert (d.shape, d.stride(), d.dtype) == ((m, n), (129, 1), torch.float32)  # nothing tells its strides
        again = kernel(*given, out=(c, d))
        assert again[0] is c
        assert again[1] is d
    known = torch_calls.allocator(torch, [((2, 3), (4, 1), "e2m1")], torch.device("cpu"))
    assert [(t.shape, t.stride(), t.dtype) for t in known()] == [((2, 3), (4, 1), torch.uint8)]


def test_a_program_remembers_its_choice_by_shape(device, monkeypatch):
    fixed = [{"m": 64}, {"k": 32}, {}]
    dims = [dict.fromkeys("mnk") | sizes for sizes in fixed]
    program = Program("C", [Kernel(simple_spec(dims=d, entry=f"C{i}"), b"", device=device) for i, d in enumerate(dims)])
    cases = [(operands(64), "C0"), (operands(8), "C1"), (operands(8, k=16), "C2"), (operands(64, k=16), "C0")]
    searched = []
    fitting = Program._fitting
    monkeypatch.setattr(Program, "_fitting", lambda *given: searched.append(1) or fitting(*given))
    for _ in range(3):
        for given, name in cases:
            program(1, *given)
            assert device.launches[-1].function[0] == name
    assert len(searched) == len(cases)
    with pytest.raises(ArgumentError, match="missing argument bias"):
        program(1, *cases[0][0][:2])


def test_no_tensor_of_an_earlier_call_is_kept_alive(device):
    kernel, given = Kernel(simple_spec(), b"", device=device), operands()
    refs = [weakref.ref(t) for t in (*given, kernel(1, *given))]
    del given
    gc.collect()
    assert [r() for r in refs] == [None] * 4


def test_torch_without_its_internals(device, monkeypatch):
    """The public ways give the same; torch's guards, where they are no longer what they were, are not used."""
    monkeypatch.setattr(torch._C._dynamo.guards, "TensorGuards", lambda *_, **__: None)
    monkeypatch.delattr(torch._C._dynamo.guards, "_empty_strided_cpu")
    monkeypatch.delattr(torch._C, "_increment_version")
    monkeypatch.setattr(torch.autograd.graph, "increment_version", lambda t: t.add_(0))
    monkeypatch.delattr(torch.Tensor, "__dlpack_c_exchange_api__", raising=False)
    monkeypatch.setattr(torch_calls, "_handles", lambda _torch: Handles())
    torch_calls._guards.cache_clear(), torch_calls._exchange.cache_clear()
    try:
        assert torch_calls._guards(torch) is None
        assert torch_calls._exchange(torch) == (0, 0)
        test_repeated_calls_are_known(device, lambda _: None)
        test_autograd_learns_what_was_overwritten(device)
    finally:
        torch_calls._guards.cache_clear(), torch_calls._exchange.cache_clear()


def test_an_exchange_that_says_something_else_is_not_used(monkeypatch):
    """It is compared with what tensors say themselves: once for torch, and again for the tensors of each plan."""
    real = dlpack.look
    tensor = torch.zeros(64, 32)
    assert torch_calls._seen(torch_calls._exchange(torch), [tensor])
    for i, wrong in ((0, 0), (1, (64, 33)), (2, (32, 2))):
        monkeypatch.setattr(
            dlpack, "look", lambda e, t, i=i, wrong=wrong: (*real(e, t)[:i], wrong, *real(e, t)[i + 1 :])
        )
        assert not torch_calls._seen(torch_calls._exchange(torch), [tensor])
        assert torch_calls._exchange.__wrapped__(torch) == (0, 0)
        ways = (lambda: (), lambda _: 0, 0)
        assert torch_calls.asked(torch, [tensor], [tensor.clone()], True, *ways).exchange == 0
    for capsule in (None, 7, tensor.__dlpack__()):
        assert dlpack.exchange(capsule) == (0, 0)
    for major, found in ((1, (8, 9)), (2, (0, 0))):
        api = dlpack.DLPackExchangeAPI(major, 3, None, 5, 6, 7, 8, 9)
        capsule = dlpack._new(ctypes.addressof(api), b"dlpack_exchange_api", None)
        assert dlpack.exchange(capsule) == found


def test_a_copy_of_a_module_has_the_same_kernel(device):
    kernel = Kernel(simple_spec(), b"cubin", ptx="ptx")
    Kernel(simple_spec(), b"", device=device)(1, *operands())
    assert copy.deepcopy({"k": kernel})["k"] is kernel
    again = pickle.loads(pickle.dumps(kernel))
    assert (again.spec, again.cubin, again.ptx) == (kernel.spec, b"cubin", "ptx")
    assert again.serial != kernel.serial


def test_sums_of_nothing_take_the_ordinary_way(device):
    kernel = Kernel(simple_spec(), b"", device=device)
    for k in (0, 0, 0, 32, 32, 0, 32):
        a, b, bias = operands(k=k)
        c = kernel(0.5, a, b, bias)
        (zeros,) = device.reserved
        scalar, at_a, at_b, _, at_bias, at_c, walked, *_ = launched(device)
        assert (at_bias, at_c, scalar) == (bias.data_ptr(), c.data_ptr(), 0.5)
        assert (at_a, at_b, walked) == ((a.data_ptr(), b.data_ptr(), k) if k else (zeros, zeros, 1))
        assert not (device.launches[-1].native and k == 0)
    bound = kernel.bind(0.5, *operands(k=0), out=torch.empty(64, 96))
    for _ in range(3):
        bound()
        assert launched(device)[1] == zeros
