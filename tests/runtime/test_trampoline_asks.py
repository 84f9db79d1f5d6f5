"""What a trampoline asks of torch: in which order, what it makes of the answers, and of functions of C."""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any

import pytest

from scalec.runtime import dlpack
from scalec.runtime.trampoline import Asked
from tests.runtime.native import PLACES, STREAM_AT, Driver, call, made

pytest.importorskip("llvmlite")

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
