"""Launches in one call of native code: what they give the driver, what they leave to the ordinary way, who may call."""

from __future__ import annotations

import ctypes
import gc
import itertools
import struct
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch

from scalec.errors import ArgumentError
from scalec.runtime import ready, torch_calls, trampoline
from scalec.runtime.kernel import Kernel
from scalec.runtime.trampoline import Asked, Slot
from tests.runtime.fake import FakeDevice, gemm_spec
from tests.runtime.native import ATTRIBUTES, ATTRS_AT, CONFIG, MAP, PLACES, SLOTS, STREAM_AT, Driver, call, made
from tests.runtime.test_workspace import split_spec


@pytest.fixture
def driver():
    return Driver()


def test_what_the_driver_is_given(driver):
    results = PLACES[2:]
    assert made(driver)(PLACES[:2], results, (0.1, 1 << 63), 7) is results
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
        struct.pack("Q", 0x2240) + MAP[8:],
        struct.pack("Q", 0x1018),
    ]
    assert [p % 64 for p in (pointers[1], pointers[5])] == [0, 0]
    assert [p % len(s.data) for p, s in zip(pointers, SLOTS, strict=True) if len(s.data) < 128] == [0] * 5


def test_a_launch_leaves_nothing_to_the_next(driver):
    launch = made(driver)
    for at in (PLACES, (0x9000, 0x7000, 0x5000), PLACES):
        call(launch, at, (at[1] / 3, at[2]), at[0])
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
    assert call(made(driver), places) == (places[2:] if fits else None)
    assert len(driver.launches) == fits


def test_what_the_driver_refuses(driver):
    launch = made(driver)
    driver.context = 0x200
    assert call(launch) is None
    driver.context, driver.replaced = 0x100, 1
    assert call(launch) is None
    assert not driver.launches
    driver.replaced, driver.status = 0, 719
    assert call(launch) is None
    assert len(driver.launches) == 1


A, B, C = PLACES


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (((A, B), (C,), (1.0, 1), -1), OverflowError),
        (((A, B), (C,), (1.0, 1), "x"), TypeError),
        (((1, "x"), (C,), (1.0, 1), 0), ValueError),
        (((A, B), (-4,), (1.0, 1), 0), OverflowError),
        (((A, B), (C,), (), 0), IndexError),
        (((A, B), (C,), ("x", 1), 0), TypeError),
        (((A, B), (C,), (1.0, 1.0), 0), TypeError),
        (((A, B), (C,), [1.0, 1], 0), SystemError),
    ],
)
def test_wrong_arguments_raise(driver, arguments, error):
    with pytest.raises(error):
        made(driver)(*arguments)
    assert not driver.launches


@pytest.mark.parametrize(
    ("operands", "results"),
    [((A,), (C,)), ((A, B, C), (C,)), ((A, B), ()), ((A, B), (C, C)), ([A, B], (C,)), ((A, B), [C])],
)
def test_as_many_tensors_as_it_was_made_for_or_none(driver, operands, results):
    """In tuples: what else a caller may give, the ordinary way understands or refuses."""
    never = Asked(check=lambda *_: pytest.fail("asked"), check_results=lambda *_: True)
    assert made(driver, asked=Asked())(operands, results, (1.0, 1), 0) is False
    if len(operands) != 2 or isinstance(operands, list):
        assert made(driver, asked=never)(operands, results, (1.0, 1), 0) is False
    assert made(driver)((A, B), (C,), (1.0, 1)) is None  # an argument short
    assert not driver.launches


def test_what_cannot_be_one(driver):
    assert made(driver, spans=(256, 0, 256)) is None
    assert made(driver, aligns=(16, 12, 4)) is None
    assert made(driver, slots=[Slot(bytes(40000))]) is None
    assert made(driver, config=CONFIG[:-8]) is None
    assert made(driver, attributes=ATTRIBUTES[:-8]) is None


def test_nothing_leaks(driver):
    """References to what it is given, keeps and asks, whichever way a call ends."""

    class Way:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def __call__(self, *given: Any) -> Any:
            return given[0].at if given and isinstance(given[0], Held) else self.answer

    class Held:
        def __init__(self, at: int) -> None:
            self.at = at

    a, b, c = map(Held, PLACES)
    operands, results, scalars, stream = (a, b), (c,), (0.1, 1 << 40), 1 << 50
    address, allocate, current, fine = Way(None), Way(results), Way(stream), Way(True)
    refused = Way(False)
    ways = Asked(fine, fine, (), refused, address, wrote=fine, allocate=allocate, stream=current, ordinal=1 << 50)
    launch, gone = made(driver, asked=ways), weakref.ref(address)
    every = (a, b, c, operands, results, scalars, stream, None, False, *ways, *PLACES)
    # launched; another context; tensors unlike; an overlap; an error
    ends = ((0x100, True, B), (0, True, B), (0x100, False, B), (0x100, True, C), (0x100, True, "x"))

    def calls(launch: Any) -> None:
        for given, handle, (context, answer, at) in itertools.product((results, None), (stream, None), ends):
            driver.context, fine.answer, b.at = context, answer, at
            try:
                launch(operands, given, scalars, handle)
            except TypeError:
                assert at == "x"
        driver.launches.clear()
        driver.log.clear()

    calls(launch)
    before = [sys.getrefcount(x) for x in every]
    for _ in range(300):
        calls(launch)
    changes = [sys.getrefcount(x) - y for x, y in zip(every, before, strict=True)]
    assert max(map(abs, changes)) < 100  # None and False have other users
    del every, ways, address
    assert gone() is not None
    del launch
    gc.collect()
    assert gone() is None


def test_other_threads_run_during_a_launch(driver):
    """The driver may wait, for room in a queue or for a callback in Python; nanosleep stands for it here."""
    config = struct.pack("qq", 0, 200_000_000) + bytes(trampoline.CONFIG - 16)  # the first argument: 0.2 s
    entries = driver.entries
    sleep = ctypes.cast(ctypes.CDLL(None).nanosleep, ctypes.c_void_p).value
    launch = trampoline.make(entries._replace(launch=sleep or 0), 0x100, 0, config, b"", (), (1,), (1,), 1, Asked())
    assert launch is not None
    turns = []

    def turn() -> None:
        end = time.monotonic() + 0.19
        while time.monotonic() < end:
            turns.append(time.monotonic())

    thread = threading.Thread(target=turn)
    start = time.monotonic()
    thread.start()
    assert launch((1,), (), (), 0) == ()
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
    monkeypatch.setattr(torch_calls, "stream_of", lambda *_: lambda _ordinal: 7)  # torch's current one
    bound = kernel.bind(*given, out=torch.zeros(64, 128).bfloat16())
    bound()
    assert (device.launches[-1].stream, device.launches[-1].native) == (7, True)
    assert tuple(device.launches[-1].parameters[-2:]) == seven[2:]


@pytest.mark.parametrize("way", ["context", "status"])
@pytest.mark.parametrize("kind", ["bound", "given", "allocated"])
def test_what_it_cannot_launch_is_launched_otherwise(monkeypatch, way, kind):
    """The trampoline is asked once; in another context it does not reach the driver."""
    monkeypatch.setattr(ready, "OFTEN", 1)
    device = FakeDevice(place=("cpu", 0), native=True)
    kernel, given, out = Kernel(gemm_spec(), b"", device=device), operands(), torch.zeros(64, 128).bfloat16()
    bound = kernel.bind(*given, out=out)
    launch = {"bound": bound, "given": lambda: kernel(*given, out=out), "allocated": lambda: kernel(*given)}[kind]
    launch(), launch(), launch()
    assert device.launches[-1].native
    setattr(device, {"context": "current"}.get(way, way), 0x200)
    monkeypatch.setattr(kernel, "_general", lambda *_: pytest.fail("it was known"))
    before, tried, version = len(device.launches), device.tried, out._version
    made = launch()
    assert [x.native for x in device.launches[before:]] == [False]
    assert device.tried - tried == (way == "status")
    assert device.launches[-1].parameters[:-3] == device.launches[-2].parameters[:-3]
    assert device.launches[-1].parameters[-3] == made.data_ptr()
    assert out._version > version or kind == "allocated"


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
