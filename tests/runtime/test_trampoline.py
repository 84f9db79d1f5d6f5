"""Launches in one call of native code: what they give the driver, what they leave to the ordinary way, who may call."""

from __future__ import annotations

import ctypes
import gc
import struct
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace
from typing import Any

import pytest

from scalec.errors import ArgumentError
from scalec.runtime import ready, trampoline
from scalec.runtime.kernel import Kernel
from scalec.runtime.trampoline import F32, POINTER, TENSOR_MAP, U64, Slot
from tests.runtime.fake import FakeDevice, gemm_spec
from tests.runtime.test_workspace import split_spec

torch = pytest.importorskip("torch")

CONFIG = struct.pack("7I4xQQI4x", 132, 1, 1, 384, 1, 1, 200000, 0, 0, 1)
ATTRIBUTES = struct.pack("I4xI60x", 6, 1)
STREAM_AT, ATTRS_AT = 32, 40


class Driver:
    """Driver functions in Python: what they were given, and what they answer."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.context, self.status, self.replaced = 0x100, 0, 0
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self.functions = (
            ctypes.CFUNCTYPE(number, *[pointer] * 4)(self.launch),
            ctypes.CFUNCTYPE(number, pointer, ctypes.c_uint64)(self.replace),
            ctypes.CFUNCTYPE(number, ctypes.POINTER(ctypes.c_uint64))(self.current),
        )
        self.sizes: list[int] = []

    @property
    def entries(self) -> trampoline.Driver:
        return trampoline.Driver(*[ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self.functions])

    def launch(self, config: int, function: int, table: int, extra: int | None) -> int:
        pointers = (ctypes.c_void_p * len(self.sizes)).from_address(table)
        values = [ctypes.string_at(p or 0, size) for p, size in zip(pointers, self.sizes, strict=True)]
        made = ctypes.string_at(config, 56)
        attributes = ctypes.string_at(struct.unpack_from("Q", made, ATTRS_AT)[0], 72)
        self.launches.append((made, attributes, function, values, extra, [p or 0 for p in pointers]))
        return self.status

    def replace(self, tensor_map: int, address: int) -> int:
        ctypes.c_uint64.from_address(tensor_map).value = address
        return self.replaced

    def current(self, context: Any) -> int:
        context[0] = self.context
        return 0


@pytest.fixture
def driver():
    return Driver()


MAP = bytes(range(128))
SLOTS = [
    Slot(b"\1\2\3\4"),
    Slot(MAP, TENSOR_MAP, 0),
    Slot(bytes(8), POINTER, 2),
    Slot(bytes(4), F32, 0),
    Slot(bytes(8), U64, 1),
    Slot(MAP, TENSOR_MAP, 1),
]
PLACES = (0x1000, 0x2000, 0x3000)


def made(driver: Driver, slots=SLOTS, spans=(256, 256, 256), aligns=(16, 16, 4), address_of=int, **changes) -> Any:
    driver.sizes = [len(s.data) for s in slots]
    fields: dict[str, Any] = {"context": 0x100, "function": 0x400, "config": CONFIG, "attributes": ATTRIBUTES} | changes
    return trampoline.make(
        driver.entries, slots=slots, spans=spans, aligns=aligns, operands=2, address_of=address_of, **fields
    )


def test_what_the_driver_is_given(driver):
    launch = made(driver)
    assert launch(7, PLACES, (0.1, 1 << 63)) == 0
    ((config, attributes, function, values, extra, pointers),) = driver.launches
    assert config[:STREAM_AT] == CONFIG[:STREAM_AT]
    assert struct.unpack_from("Q", config, STREAM_AT) == (7,)
    assert config[ATTRS_AT + 8 :] == CONFIG[ATTRS_AT + 8 :]
    assert (attributes, function, extra) == (ATTRIBUTES, 0x400, None)
    assert values == [
        b"\1\2\3\4",
        struct.pack("Q", 0x1000) + MAP[8:],
        struct.pack("Q", 0x3000),
        struct.pack("f", 0.1),
        struct.pack("Q", 1 << 63),
        struct.pack("Q", 0x2000) + MAP[8:],
    ]
    assert [p % 64 for p in (pointers[1], pointers[5])] == [0, 0]
    assert [p % len(s.data) for p, s in zip(pointers, SLOTS, strict=True) if len(s.data) < 128] == [0] * 4


def test_a_launch_leaves_nothing_to_the_next(driver):
    launch = made(driver)
    for at in (PLACES, (0x9000, 0x7000, 0x5000), PLACES):
        launch(at[0], at, (at[1] / 3, at[2]))
    first, other, again = [(x[0][:ATTRS_AT], x[3]) for x in driver.launches]
    assert first == again != other


@pytest.mark.parametrize(
    ("places", "fits"),
    [
        ((0x1000, 0x2000, 0x3004), True),
        ((0x1000, 0x1000, 0x3000), True),  # operands may be one
        ((0x1000, 0x2000, 0x2100), True),
        ((0x1000, 0x2000, 0x1F00), True),
        ((0, 0x2000, 0x3000), False),
        ((0x1000, 0x2000, 0), False),
        ((0x1008, 0x2000, 0x3000), False),
        ((0x1000, 0x2000, 0x3002), False),
        ((0x1000, 0x2000, 0x2000), False),
        ((0x1000, 0x2000, 0x20FC), False),
        ((0x1000, 0x2000, 0x1F04), False),
        ((0x2000, 0x1000, 0x20FC), False),
    ],
)
def test_what_may_be_wrong_is_left_to_the_ordinary_way(driver, places, fits):
    assert (made(driver)(0, places, (1.0, 1)) == 0) == fits
    assert len(driver.launches) == fits


def test_what_the_driver_refuses(driver):
    launch = made(driver)
    driver.context = 0x200
    assert launch(0, PLACES, (1.0, 1)) == trampoline.OTHERWISE
    driver.context, driver.replaced = 0x100, 1
    assert launch(0, PLACES, (1.0, 1)) == trampoline.OTHERWISE
    assert not driver.launches
    driver.replaced, driver.status = 0, 719
    assert launch(0, PLACES, (1.0, 1)) == 719


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((-1, PLACES, (1.0, 1)), OverflowError),
        ((0, PLACES[:2], (1.0, 1)), IndexError),
        ((0, (1, 2, "x"), (1.0, 1)), ValueError),
        ((0, (0x1000, 0x2000, -4), (1.0, 1)), OverflowError),
        ((0, PLACES, ()), IndexError),
        ((0, PLACES, ("x", 1)), TypeError),
        ((0, PLACES, (1.0, 1.0)), TypeError),
        ((0, list(PLACES), (1.0, 1)), SystemError),
    ],
)
def test_wrong_arguments_raise(driver, arguments, error):
    with pytest.raises(error):
        made(driver)(*arguments)
    assert not driver.launches
    assert made(driver)(0, PLACES) == trampoline.OTHERWISE


def test_what_cannot_be_one(driver):
    assert made(driver, spans=(256, 0, 256)) is None
    assert made(driver, aligns=(16, 12, 4)) is None
    assert made(driver, slots=[Slot(bytes(40000))]) is None
    assert made(driver, config=CONFIG[:-8]) is None
    assert made(driver, attributes=ATTRIBUTES[:-8]) is None


def test_nothing_leaks(driver):
    class Number:
        def __call__(self, tensor: Any) -> int:
            return tensor.at

    class Held:
        def __init__(self, at: int) -> None:
            self.at = at

    number, tensors, scalars = Number(), tuple(map(Held, PLACES)), (0.1, 1 << 40)
    launch, gone = made(driver, address_of=number), weakref.ref(number)
    every = (number, *tensors, tensors, *scalars, scalars, *PLACES)
    launch(0, tensors, scalars)
    before = [sys.getrefcount(x) for x in every]
    for _ in range(1000):
        launch(1 << 50, tensors, scalars)
    assert [sys.getrefcount(x) for x in every] == before
    del number, every
    assert gone() is not None
    del launch
    gc.collect()
    assert gone() is None


def test_other_threads_run_during_a_launch(driver):
    """The driver may wait, for room in a queue or for a callback in Python; nanosleep stands for it here."""
    config = struct.pack("qq", 0, 200_000_000) + bytes(trampoline.CONFIG - 16)  # the first argument: 0.2 s
    entries = driver.entries
    sleep = ctypes.cast(ctypes.CDLL(None).nanosleep, ctypes.c_void_p).value
    launch = trampoline.make(entries._replace(launch=sleep or 0), 0x100, 0, config, b"", (), (1,), (1,), 1, int)
    assert launch is not None
    turns = []

    def turn() -> None:
        end = time.monotonic() + 0.19
        while time.monotonic() < end:
            turns.append(time.monotonic())

    thread = threading.Thread(target=turn)
    start = time.monotonic()
    thread.start()
    assert launch(0, (1,), ()) == 0
    assert time.monotonic() - start >= 0.2
    thread.join()
    assert any(0.03 < t - start < 0.17 for t in turns)


def operands(at: int = 0) -> list[Any]:
    a, b = (torch.zeros(rows, 256, dtype=torch.float8_e4m3fn) for rows in (64, 128))
    return [a, b, torch.zeros(64, 2), torch.zeros(1, 2)]


def test_threads_that_call_at_once_launch_their_own_tensors():
    device = FakeDevice(place=("cpu", 0), native=True)
    kernel = Kernel(gemm_spec(), b"", device=device)
    kernel.bind(*operands(), out=torch.zeros(64, 128).bfloat16())  # all loaded
    wanted, device.run = [], lambda _launch: time.sleep(0)

    def call() -> None:
        given, out = operands(), torch.zeros(64, 128).bfloat16()
        bound = kernel.bind(*given, out=out)
        wanted.append((given, out))
        for _ in range(50):
            bound()

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(x.native for x in device.launches)
    seen = [(p[0].address, p[1].address, p[2], p[4], p[6]) for p in (x.parameters for x in device.launches)]
    each = [tuple(t.data_ptr() for t in (*given, out)) for given, out in wanted]
    assert sorted(seen) == sorted(each * 50)


def test_it_is_made_for_a_kernel_that_is_called_often():
    device = FakeDevice(place=("cpu", 0), native=True)
    kernel, given = Kernel(gemm_spec(), b"", device=device), operands()
    for _ in range(ready.OFTEN + 4):
        kernel(*given)
    natives = [x.native for x in device.launches]
    assert natives == [False] * (natives.index(True)) + [True] * (len(natives) - natives.index(True))
    assert ready.OFTEN <= natives.index(True) <= ready.OFTEN + 1


def test_a_kernel_in_parts_has_its_streams_workspace(monkeypatch):
    monkeypatch.setattr(ready, "OFTEN", 1)
    device = FakeDevice(place=("cpu", 0), native=True)
    kernel, given = Kernel(split_spec(), b"", device=device), operands()
    for _ in range(2):
        for stream in (0, 7):
            for _ in range(4):
                kernel(*given, stream=stream)
    used = {(x.stream, x.native, *x.parameters[-2:]) for x in device.launches}
    (zero,), (seven,) = ({u for u in used if u[0] == stream and u[1]} for stream in (0, 7))
    assert zero[2:] != seven[2:]
    assert {u[2:] for u in used if u[0] == 0} == {zero[2:]}


@pytest.mark.parametrize("way", ["context", "status"])
def test_what_it_cannot_launch_is_launched_otherwise(way):
    device = FakeDevice(place=("cpu", 0), native=True)
    kernel, given = Kernel(gemm_spec(), b"", device=device), operands()
    bound = kernel.bind(*given, out=torch.zeros(64, 128).bfloat16())
    bound()
    setattr(device, {"context": "current"}.get(way, way), 0x200)
    bound()
    assert [x.native for x in device.launches] == [True, False]
    assert device.launches[0].parameters == device.launches[1].parameters


def test_columns_of_one_buffer_are_no_overlap():
    """The quick test of ranges cannot tell; the whole one says that they are apart."""
    device = FakeDevice(place=("cpu", 0), native=True)
    spec = gemm_spec()
    kernel = Kernel(replace(spec, results=(replace(spec.results[0], dtype="e4m3", align=1),)), b"", device=device)
    buffer = torch.zeros(64, 512, dtype=torch.float8_e4m3fn)
    given = operands()
    given[0] = buffer[:, :256]
    bound = kernel.bind(*given, out=buffer[:, 256:384])
    bound()
    assert [x.native for x in device.launches] == [False]
    with pytest.raises(ArgumentError, match="C overlaps A in memory"):
        kernel.bind(*given, out=buffer[:, 255:383])


def refused(*_: Any) -> None:
    raise PermissionError("no memory that is executed")


@pytest.mark.parametrize("lacks", ["llvmlite", "executable memory"])
def test_without_trampolines_calls_are_prepared(monkeypatch, lacks):
    if lacks == "llvmlite":
        monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    else:
        monkeypatch.setattr(trampoline.mmap, "mmap", refused)
    trampoline._factory.cache_clear()
    try:
        device = FakeDevice(place=("cpu", 0), native=True)
        kernel, given = Kernel(gemm_spec(), b"", device=device), operands()
        bound = kernel.bind(*given, out=torch.zeros(64, 128).bfloat16())
        for _ in range(ready.OFTEN + 4):
            kernel(*given), bound()
        assert {x.native for x in device.launches} == {False}
    finally:
        trampoline._factory.cache_clear()


def test_importing_and_calling_seldom_needs_no_llvmlite():
    code = (
        "import sys, torch\n"
        "from tests.runtime.fake import FakeDevice, gemm_spec\n"
        "from tests.runtime.test_trampoline import operands\n"
        "from scalec.runtime.kernel import Kernel\n"
        "kernel, given = Kernel(gemm_spec(), b'', device=FakeDevice(place=('cpu', 0), native=True)), operands()\n"
        "for _ in range(8): kernel(*given)\n"
        "assert 'llvmlite' not in sys.modules\n"
        "for _ in range(16): kernel(*given)\n"
        "assert 'llvmlite' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
