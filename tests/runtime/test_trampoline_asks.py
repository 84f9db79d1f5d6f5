"""What a trampoline asks of torch: in which order, what it makes of the answers, and of functions of C."""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any

import pytest

from scalec.runtime import dlpack
from scalec.runtime.handles import Handles
from scalec.runtime.trampoline import Asked
from tests.runtime.native import PLACES, STREAM_AT, Driver, call, made

A, B, C = PLACES


@pytest.fixture
def driver():
    return Driver()


def recorder(log: list, name: str, answer: Any) -> Any:
    """A function that notes its name and arguments, and answers, or raises."""

    def ask(*given: Any) -> Any:
        log.append((name, *given))
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def test_what_it_asks_in_which_order(driver):
    log = driver.log
    asked = Asked(
        check=recorder(log, "check", True),
        check_results=recorder(log, "check results", 1),
        refused=recorder(log, "refused", False),
        address=lambda t: log.append(("address", t)) or t,
        wrote=recorder(log, "wrote", None),
        allocate=recorder(log, "allocate", (0x5000,)),
        stream=recorder(log, "stream", 9),
        ordinal=3,
    )
    launch = made(driver, asked=asked)
    assert call(launch, stream=None) == (C,)
    where = [("address", t) for t in PLACES]
    given = [("check", A, B), ("check results", C), ("refused",), *where, ("stream", 3), ("wrote", (C,)), "launch"]
    assert log == given
    assert struct.unpack_from("Q", driver.launches[-1][0], STREAM_AT) == (9,)
    log.clear()
    assert launch((A, B), None, (1.0, 1), 5) == (0x5000,)
    where[2] = ("address", 0x5000)
    assert log == [("check", A, B), ("refused",), ("allocate",), *where, ("wrote", (0x5000,)), "launch"]
    assert driver.launches[-1][3][2] == struct.pack("Q", 0x5000)
    assert made(driver)((A, B), None, (1.0, 1), 0) is None  # nothing allocates


def test_what_it_asks_of_the_same_objects_each_time(driver):
    """Checks with arguments of their own, one after the other, after types and sizes, and no other checks."""
    told, tensors = Told(), tuple(Held(*form) for form in FORMS)
    for answers, wanted in ((True, True), None), ((True, False), False), ((False, True), False):
        log: list = []
        checks = [
            (recorder(log, f"{i}", x), some)
            for i, x, some in zip((0, 1), answers, (tensors[:2], tensors[2:]), strict=True)
        ]
        launch = made(driver, asked=told.asks(checks=checks, refused=recorder(log, "refused", False)))
        assert call(launch, tensors) == (tensors[2:] if wanted is None else wanted)
        asked = [("0", *tensors[:2]), ("1", tensors[2]), ("refused",)]
        assert log == asked[: 3 if all(answers) else 2 if answers[0] else 1]
    raises = made(driver, asked=told.asks(checks=[(recorder([], "", MemoryError("torch")), tensors)]))
    with pytest.raises(MemoryError, match="torch"):
        call(raises, tensors)
    other = (*tensors[:2], Held(C, (4,), (2,)))
    assert call(made(driver, asked=told.asks(checks=[(pytest.fail, ("asked",))])), other) is False


@pytest.mark.parametrize("name", ["check", "check_results", "refused"])
def test_what_is_not_like_those_it_was_made_for(driver, name):
    log: list = []
    ways: dict[str, Any] = {"address": recorder(log, "address", A), "wrote": recorder(log, "wrote", None)}
    wrong = made(driver, asked=Asked(**ways, **{name: recorder([], name, name == "refused")}))
    assert call(wrong) is False
    with pytest.raises(RuntimeError, match="torch"):
        call(made(driver, asked=Asked(**ways, **{name: recorder([], name, RuntimeError("torch"))})))
    assert not driver.launches
    assert not log


@pytest.mark.parametrize("name", ["wrote", "allocate", "stream", "address"])
def test_what_is_asked_may_raise(driver, name):
    ways: dict[str, Any] = {name: recorder([], name, MemoryError(name))}
    with pytest.raises(MemoryError, match=name):
        made(driver, asked=Asked(**ways))((A, B), None if name == "allocate" else (C,), (1.0, 1), None)
    assert not driver.launches


def test_nothing_is_told_or_made_where_it_cannot_launch(driver):
    log: list = []
    ways = {"wrote": recorder(log, "wrote", None), "allocate": recorder(log, "allocate", (C,))}
    launch = made(driver, asked=Asked(**ways))
    driver.context = 0x200
    assert call(launch) is None
    assert launch((A, B), None, (1.0, 1), 0) is None
    driver.context = 0x100
    assert call(launch, (A, B, A)) is None
    assert not log


class Exchange:
    """A library's functions of C, in Python: of tensors (address, byte offset, extents, strides)."""

    def __init__(self) -> None:
        self.sizes: list[Any] = []
        self.device: Any = None
        number, view, stream = ctypes.c_int, ctypes.POINTER(dlpack.DLTensor), ctypes.POINTER(ctypes.c_uint64)
        self.functions = (
            ctypes.PYFUNCTYPE(number, ctypes.py_object, view)(self.find),
            ctypes.PYFUNCTYPE(number, number, number, stream)(self.work_stream),
        )

    def asked(self, **changes: Any) -> Asked:
        find, work = (ctypes.cast(f, ctypes.c_void_p).value for f in self.functions)
        never = recorder([], "", AssertionError("asked in Python"))
        fields = {"address": never, "stream": never, "exchange": find, "work_stream": work, "device": (2, 5)} | changes
        return Asked(extents=[(4, 8), (), (3,)], strides=[(16, 1), (), (2,)], **fields)

    def find(self, tensor: Any, view: Any) -> int:
        made = view.contents
        made.data, made.byte_offset, *sizes = tensor
        self.sizes = [(ctypes.c_int64 * max(1, len(x)))(*x) for x in sizes]
        made.ndim = len(sizes[0])
        made.shape, made.strides = (ctypes.cast(x, ctypes.POINTER(ctypes.c_int64)) for x in self.sizes)
        return 0

    def work_stream(self, kind: int, index: int, stream: Any) -> int:
        self.device, stream[0] = (kind, index), 77
        return 0


GIVEN = ((A - 64, 64, (4, 8), (16, 1)), (B, 0, (), ()), (C, 0, (3,), (2,)))


def test_address_and_sizes_in_one_call_and_the_stream(driver):
    exchange = Exchange()
    launch = made(driver, asked=exchange.asked())
    results = GIVEN[2:]
    assert launch(GIVEN[:2], results, (1.0, 1), None) is results
    config, _, _, values, *_ = driver.launches[-1]
    assert struct.unpack_from("Q", config, STREAM_AT) == (77,)
    assert exchange.device == (2, 5)
    assert [values[i][:8] for i in (1, 5, 2)] == [struct.pack("Q", x) for x in PLACES]
    asked = exchange.asked(allocate=lambda: results)
    assert made(driver, asked=asked)(GIVEN[:2], None, (1.0, 1), 5) is results
    assert len(driver.launches) == 2


@pytest.mark.parametrize(
    ("place", "sizes"),
    [(0, ((4, 9), (16, 1))), (0, ((5, 8), (16, 1))), (0, ((4, 8), (8, 1))), (0, ((4, 8), (16, 2))), (0, ((4,), (16,))),
     (0, ((4, 8, 1), (16, 1, 1))), (1, ((1,), (1,))), (2, ((2,), (2,))), (2, ((3,), (1,))), (2, ((), ()))],
)  # fmt: skip
def test_other_sizes_are_not_launched(driver, place, sizes):
    tensors = list(GIVEN)
    tensors[place] = (*tensors[place][:2], *sizes)
    exchange = Exchange()
    launch, results = made(driver, asked=exchange.asked()), tuple(tensors[2:])
    before = sys.getrefcount(results)
    for _ in range(100):
        assert launch(tuple(tensors[:2]), results, (1.0, 1), None) is False
    assert sys.getrefcount(results) == before
    assert not driver.launches


@pytest.mark.parametrize("name", ["exchange", "work_stream"])
def test_a_librarys_functions_may_fail(driver, name):
    import llvmlite.binding as llvm

    assert made(driver) is not None  # llvmlite is ready
    code = "declare ptr @PyErr_NoMemory() define i32 @fails() { %none = call ptr @PyErr_NoMemory() ret i32 -1 }"
    llvm.add_symbol("PyErr_NoMemory", ctypes.cast(ctypes.pythonapi.PyErr_NoMemory, ctypes.c_void_p).value)
    machine = llvm.Target.from_default_triple().create_target_machine()
    with llvm.create_mcjit_compiler(llvm.parse_assembly(code), machine) as engine:
        engine.finalize_object()
        exchange = Exchange()
        asked = exchange.asked(**{name: engine.get_function_address("fails")})
        with pytest.raises(MemoryError):
            call(made(driver, asked=asked), GIVEN, stream=None)
    assert not driver.launches


class Held:
    """A tensor of a library that tells by handles: an object, and a word in it that says which."""

    __slots__ = ("at", "handle", "sizes", "strides")

    def __init__(self, at: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.at, self.sizes, self.strides, self.handle = at, sizes, strides, self


class Other(Held):
    __slots__ = ()


class Told:
    """A library's functions of handles, in Python; each may fail."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.asked: list[tuple[str, Any]] = []
        self.fails = ""
        number, pointer = ctypes.c_int32, ctypes.c_void_p
        self.functions = [
            ctypes.PYFUNCTYPE(number, pointer, pointer)(lambda handle, to, name=name: self.tell(name, handle, to))
            for name in ("data_ptr", "dim", "sizes", "strides")
        ]
        held = Held(0, (), ())
        words = range(object.__basicsize__, Held.__basicsize__, 8)
        (self.offset,) = (at for at in words if ctypes.c_uint64.from_address(id(held) + at).value == id(held))

    def tell(self, name: str, handle: int, to: int) -> int:
        held = ctypes.py_object.from_address(handle).value
        self.asked.append((name, held))
        values = {"data_ptr": held.at, "dim": len(held.sizes)}
        if name in ("sizes", "strides"):
            numbers = getattr(held, name)
            self.kept = [*self.kept[-8:], (ctypes.c_int64 * max(1, len(numbers)))(*numbers)]
            values[name] = ctypes.addressof(self.kept[-1])
        if name != self.fails:
            ctypes.c_uint64.from_address(to).value = values[name]
        return int(name == self.fails)

    def asks(self, **changes: Any) -> Asked:
        found = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self.functions]
        handles = Handles(*found, offset=self.offset, type_offset=object.__basicsize__ - 8)
        never = recorder([], "", AssertionError("asked in Python"))
        fields: dict[str, Any] = {"address": never, "exchange": 1, "types": (Held, Held, Held)} | changes
        return Asked(handles=handles, extents=[(4, 8), (), (3,)], strides=[(16, 1), (), (2,)], **fields)


FORMS = ((A, (4, 8), (16, 1)), (B, (), ()), (C, (3,), (2,)))


def test_what_functions_of_handles_tell(driver):
    """It is asked in place of DLPack's exchange."""
    told, tensors = Told(), tuple(Held(*form) for form in FORMS)
    check = {"check": recorder(driver.log, "check", True), "check_results": recorder(driver.log, "check", True)}
    launch, results = made(driver, asked=told.asks(**check)), tensors[2:]
    assert launch(tensors[:2], results, (1.0, 1), 5) is results
    assert driver.log == [("check", *tensors[:2]), ("check", *results), "launch"]
    assert [driver.launches[-1][3][i][:8] for i in (1, 5, 2)] == [struct.pack("Q", x) for x in PLACES]
    assert launch(tensors[:2], None, (1.0, 1), 5) is None  # nothing allocates
    elsewhere = (Held(0x5000, *FORMS[2][1:]),)
    asked = told.asks(allocate=lambda: elsewhere)
    assert made(driver, asked=asked)(tensors[:2], None, (1.0, 1), 5) is elsewhere
    assert driver.launches[-1][3][2] == struct.pack("Q", 0x5000)


@pytest.mark.parametrize(
    ("place", "sizes"),
    [(0, ((4, 9), (16, 1))), (0, ((5, 8), (16, 1))), (0, ((4, 8), (8, 1))), (0, ((4,), (16,))),
     (0, ((4, 8, 1), (16, 1, 1))), (1, ((1,), (1,))), (2, ((2,), (2,))), (2, ((3,), (1,))), (2, ((), ()))],
)  # fmt: skip
@pytest.mark.parametrize("given", [True, False])
def test_other_sizes_that_handles_tell(driver, place, sizes, given):
    """They are seen before anything else is asked; those of results that are allocated, after."""
    told, forms = Told(), list(FORMS)
    forms[place] = (forms[place][0], *sizes)
    tensors = [Held(*form) for form in forms]
    results = tuple(tensors[2:])
    checks = [(), ("check",)][place == 2]
    ways = {"check": recorder(driver.log, "check", True), "check_results": recorder(driver.log, "results", True)}
    launch = made(driver, asked=told.asks(**ways, allocate=lambda: results))
    before = sys.getrefcount(results)
    for _ in range(100):
        driver.log.clear()
        assert launch(tuple(tensors[:2]), results if given else None, (1.0, 1), 0) is False
        assert tuple(x[0] for x in driver.log) == checks
    assert sys.getrefcount(results) == before
    assert not any(name == "data_ptr" and held is tensors[place] for name, held in told.asked)
    assert not driver.launches


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("given", [True, False])
def test_what_is_of_another_type_is_not_looked_into(driver, place, given):
    told = Told()
    others = [Other(*FORMS[place]), 7, None, object(), (), "x"]
    for other in others:
        tensors = [Held(*form) for form in FORMS]
        tensors[place] = other
        results = tuple(tensors[2:])
        launch = made(driver, asked=told.asks(allocate=lambda results=results: results))
        assert launch(tuple(tensors[:2]), results if given else None, (1.0, 1), 0) is False
        assert all(type(held) is Held for _, held in told.asked)
    assert not driver.launches


@pytest.mark.parametrize("name", ["data_ptr", "dim", "sizes", "strides"])
def test_functions_of_handles_may_tell_nothing(driver, name):
    """Of sizes: like none that is known. Of the address: the ordinary way says what is wrong."""
    told, tensors = Told(), tuple(Held(*form) for form in FORMS)
    told.fails = name
    results = tensors[2:]
    before = sys.getrefcount(results)
    for _ in range(100):
        answer = made(driver, asked=told.asks())(tensors[:2], results, (1.0, 1), 0)
        assert answer is (None if name == "data_ptr" else False)
    assert sys.getrefcount(results) == before
    assert not driver.launches
