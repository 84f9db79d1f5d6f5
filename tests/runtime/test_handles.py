"""Where torch's tensors are, by its stable functions of C: where they are looked for, and what is not relied on."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest
import torch

from scalec.runtime import dlpack, handles, ready, torch_calls
from scalec.runtime.handles import Handles
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, simple_spec
from tests.runtime.test_torch_calls import launched, operands, slots

NONE = Handles()


@pytest.fixture
def there():
    found = torch_calls._handles(torch)
    if not any(found):
        pytest.skip("this torch has no such functions, or keeps tensors elsewhere")
    return found


def test_this_torch_has_them():
    """Of torch 2.10 and later on Linux it is known: otherwise a call would take 0.2 µs more and nobody would see it."""
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    if version >= (2, 10) and sys.platform == "linux":
        assert all(torch_calls._handles(torch))


def test_they_say_what_tensors_say(there):
    memory = torch.zeros(4096, dtype=torch.uint8)
    types = [getattr(torch, name) for name in ("float32", "bfloat16", "float8_e4m3fn", "int8", "uint8")]
    tensors = [memory[64 * i :][:2048].view(t)[i:].as_strided((3, 1, 2), (50, 7, 3)) for i, t in enumerate(types)]
    tensors += [memory[7], memory[:0], memory[:96].view(8, 12).t(), torch.nn.Parameter(memory[9:].float())]
    for t in tensors:
        assert handles.look(there, t) == (t.data_ptr(), tuple(t.shape), tuple(t.stride()))


class Object:
    """What an object of torch's is to the search: the address of something (here of an object) in a word of it."""

    __slots__ = ("a", "b", "of")

    def __init__(self, a: object, b: object, of: object) -> None:
        self.a, self.b, self.of = a, b, id(of)

    @property
    def _cdata(self) -> int:
        return self.of


X, Y = object(), object()
IN_A, IN_B, IN_BOTH, NOWHERE = Object(X, Y, X), Object(X, Y, Y), Object(X, X, X), Object(X, X, Y)


@pytest.mark.parametrize(
    ("objects", "place"),
    [((IN_A,), 0), ((IN_B, Object(X, Y, Y)), 8), ((IN_A, IN_B), None), ((IN_BOTH,), None), ((IN_A, NOWHERE), None),
     ((NOWHERE,), None), ((), None)],
)  # fmt: skip
def test_one_place_for_all(objects, place):
    found = handles.find(torch, objects)
    if place is None:
        assert found == NONE
    elif any(torch_calls._handles(torch)):
        assert found.offset == object.__basicsize__ + place
        type_at = ctypes.c_uint64.from_address(id(objects[0]) + found.type_offset)
        assert type_at.value == id(Object)


def test_without_the_functions(there, monkeypatch):
    varied = torch_calls._varied(torch)
    assert handles.find(torch, varied) == there
    with monkeypatch.context() as without:
        without.setattr(handles.Handles, "_fields", ("data_ptr", "dim", "sizes", "none such"))
        assert handles.find(torch, varied) == NONE
    with monkeypatch.context() as without:
        without.setattr(torch._C, "__file__", "/nowhere/_C.so")
        assert handles.find(torch, varied) == NONE
    with monkeypatch.context() as without:
        without.delattr(handles.os, "RTLD_NOLOAD")
        assert handles.find(torch, varied) == NONE
    monkeypatch.setattr(handles.sys.implementation, "name", "pypy")
    assert handles.find(torch, varied) == NONE


def number_of(name: str) -> int:
    library = ctypes.CDLL(torch._C.__file__)
    return ctypes.cast(getattr(library, f"aoti_torch_get_{name}"), ctypes.c_void_p).value or 0


@pytest.mark.parametrize(
    "wrong",
    [{"data_ptr": "storage_size"}, {"dim": "numel"}, {"sizes": "strides"}, {"strides": "sizes"}],
    ids=["data_ptr", "dim", "sizes", "strides"],
)
@pytest.mark.parametrize("exchange", [True, False])
def test_what_says_something_else_is_not_used(there, monkeypatch, wrong, exchange):
    """Functions of torch's that are not those: found out, so that DLPack is asked, or each tensor."""
    false = there._replace(**{field: number_of(name) for field, name in wrong.items()})
    monkeypatch.setattr(handles, "find", lambda *_: false)
    monkeypatch.setattr(ready, "OFTEN", 1)
    if not exchange:
        monkeypatch.setattr(torch_calls, "_exchange", lambda _torch: dlpack.Exchange(0, 0))
    torch_calls._handles.cache_clear()
    try:
        assert torch_calls._handles(torch) == NONE
        asked = torch_calls.asked(torch, [torch.zeros(3)], [torch.zeros(2, 3)], True, lambda: (), int, 0)
        assert (asked.handles, bool(asked.exchange)) == (NONE, exchange and bool(torch_calls._exchange(torch).find))
        device = FakeDevice(place=("cpu", 0), native=True)
        kernel, given, out = Kernel(simple_spec(), b"", device=device), operands(), torch.zeros(64, 96)
        for tensors in (given, given, given, operands()):
            kernel(2, *tensors, out=out)
            assert launched(device)[:-2] == [2.0, *slots(tensors, out)]
        assert device.launches[-1].native
    finally:
        torch_calls._handles.cache_clear()


def test_each_plans_own_tensors_are_tried(there, monkeypatch):
    """Not only those that torch was tried with."""
    tensor, ways = torch.zeros(64, 32), (True, lambda: (), int, 0)
    assert torch_calls.asked(torch, [tensor], [tensor.clone()], *ways).handles == there
    real = handles.look
    for i, wrong in ((0, 0), (1, (64, 33)), (2, (32, 2))):
        lie = lambda h, t, i=i, wrong=wrong: (*real(h, t)[:i], wrong, *real(h, t)[i + 1 :])  # noqa: E731
        monkeypatch.setattr(handles, "look", lie)
        assert torch_calls.asked(torch, [tensor], [tensor.clone()], *ways).handles == NONE
    monkeypatch.setattr(handles, "look", real)

    class Other(torch.Tensor):
        pass

    other = tensor.clone().as_subclass(Other)
    assert torch_calls.asked(torch, [tensor], [other], *ways).handles == NONE


def known(n: int = 3):
    """A kernel, its device, and what was called so often that its calls are native."""
    device = FakeDevice(place=("cpu", 0), native=True)
    kernel, given, out = Kernel(simple_spec(), b"", device=device), operands(), torch.zeros(64, 96)
    for _ in range(n):
        kernel(2, *given, out=out)
    assert device.launches[-1].native
    return kernel, device, given, out


@pytest.mark.parametrize("one", ["operand", "result"])
def test_a_tensor_that_tells_no_address_is_refused_as_torch_refuses_it(there, monkeypatch, one):
    """Guards take it for an ordinary one; what torch's function answers is no address."""
    monkeypatch.setattr(ready, "OFTEN", 1)
    kernel, device, given, out = known()
    throws = given[0] if one == "operand" else out
    torch._C._set_throw_on_mutable_data_ptr(throws)
    with pytest.raises(RuntimeError) as expected:
        throws.data_ptr()
    monkeypatch.setattr(kernel, "_general", lambda *_: pytest.fail("guards took it"))
    before = len(device.launches)
    with pytest.raises(RuntimeError, match=str(expected.value)[:20]):
        kernel(2, *given, out=out)
    assert len(device.launches) == before


def test_objects_of_another_type_are_not_looked_into(there, monkeypatch):
    """Where torch has no guards, or one tensor is given twice, and whatever they hold."""
    monkeypatch.setattr(ready, "OFTEN", 1)
    monkeypatch.setattr(torch_calls, "_guards", lambda _torch: None)
    kernel, device, given, out = known()

    class Other(torch.Tensor):
        pass

    bias = torch.nn.Parameter(given[2], requires_grad=False)
    for other in (given[2].clone().as_subclass(Other), bias):
        before = len(device.launches)
        kernel(2, *given[:2], other, out=out)
        assert not device.launches[before].native
        assert launched(device)[:-2] == [2.0, *slots([*given[:2], other], out)]
    for other in (7, None, object(), (1, 2), "bias"):
        with pytest.raises(Exception, match="bias"):
            kernel(2, *given[:2], other, out=out)


@pytest.mark.once
@pytest.mark.parametrize(("often", "native"), [(1, True), (9, True), (1, False)])
@pytest.mark.parametrize(
    "call", ["kernel(2, nested, *given[1:], out=out)", "kernel(2, *given, out=nested)", "kernel(2, *bad, stream=7)"]
)
def test_a_nested_tensor_does_not_end_the_process(there, often, native, call):
    """torch's guards would: they ask for strides, which it has not, and let the exception of C++ go."""
    code = (
        "import torch\n"
        "from scalec.runtime import ready\n"
        f"ready.OFTEN = {often}\n"
        "from tests.runtime.test_handles import Kernel, FakeDevice, operands, simple_spec\n"
        "kernel = Kernel(simple_spec(), b'', device=FakeDevice(place=('cpu', 0), native="
        f"{native}))\n"
        "given, out = operands(), torch.zeros(64, 96)\n"
        "for _ in range(3): kernel(2, *given, out=out); kernel(2, *given)\n"
        f"assert [r.trampoline is not None for (r,) in kernel._ready.values()] == [{often == 1 and native}] * 2\n"
        "nested = torch.nested.nested_tensor([torch.zeros(32), torch.zeros(32)], dtype=torch.bfloat16)\n"
        "bad = [nested, *given[1:]]\n"
        f"try: {call}\n"
        "except Exception as error: print('refused', error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.startswith("refused")
