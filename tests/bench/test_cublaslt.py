"""What cuBLASLt is called with; the library is one that notes its calls, and checks what the real one does."""

from __future__ import annotations

import ctypes

import pytest
import torch

from scalec.bench import cublaslt
from scalec.bench.cublaslt import HeuristicResult, Library, Problem
from scalec.errors import ScalecError

SIZES = {3: 4, 4: 4, 17: 8, 18: 8, 25: 1, 31: 4, 32: 4}
"""Bytes of the attributes of an operation, as cublasLt.h says; the library refuses others."""


def _at(pointer, kind):
    return ctypes.cast(pointer, ctypes.POINTER(kind)).contents


class Fake:
    """Functions of a cuBLASLt in Python, which ctypes calls as it would the library's."""

    def __init__(self, version: int = 130100, algorithms: int = 3, status: int = 0) -> None:
        self.version, self.offered, self.status = version, algorithms, status
        self.attributes: dict[int, bytes] = {}
        self.layouts: dict[int, tuple[int, ...]] = {}
        self.alive: set[int] = set()
        self.calls: list[tuple] = []

    def __getattr__(self, name: str):
        if not name.startswith("cublasLt"):
            raise AttributeError(name)
        result, arguments = cublaslt.SIGNATURES[name]
        made = ctypes.CFUNCTYPE(result, *arguments)(getattr(self, f"do_{name.removeprefix('cublasLt')}"))
        setattr(self, name, made)
        return made

    def _create(self, place) -> int:
        number = len(self.alive) + 1000 * (1 + len(self.layouts))
        _at(place, ctypes.c_void_p).value = number
        self.alive.add(number)
        return number

    def do_GetVersion(self):
        return self.version

    def do_GetStatusString(self, status):
        return b"not supported"

    def do_Create(self, place):
        self._create(place)
        return 0

    def do_MatmulDescCreate(self, place, compute, scale):
        assert (compute, scale) == (68, 0)
        self._create(place)
        return 0

    def do_MatmulPreferenceCreate(self, place):
        self._create(place)
        return 0

    def do_MatrixLayoutCreate(self, place, *layout):
        self.layouts[self._create(place)] = layout
        return 0

    def _destroy(self, handle):
        self.alive.remove(handle)
        return 0

    do_MatmulDescDestroy = do_MatmulPreferenceDestroy = do_MatrixLayoutDestroy = _destroy

    def do_MatmulDescSetAttribute(self, handle, attribute, value, size):
        if SIZES[attribute] != size:
            return 7
        self.attributes[attribute] = ctypes.string_at(value, size)
        return 0

    def do_MatmulPreferenceSetAttribute(self, handle, attribute, value, size):
        return 0 if (attribute, size) == (1, 8) else 7

    def do_MatmulAlgoGetHeuristic(self, handle, operation, a, b, c, d, preference, asked, found, count):
        assert c == d
        array = ctypes.cast(found, ctypes.POINTER(HeuristicResult))
        for i in range(min(asked, self.offered)):
            array[i].algorithm.data[0] = 100 + i
        if self.offered > 1:
            array[1].workspace = cublaslt.WORKSPACE_BYTES + 1
        _at(count, ctypes.c_int).value = min(asked, self.offered)
        return 0

    def do_Matmul(self, handle, operation, alpha, a, la, b, lb, beta, c, lc, d, ld, algorithm, space, size, stream):
        one, two = (_at(p, ctypes.c_float).value for p in (alpha, beta))
        layouts = [self.layouts[p] for p in (la, lb, lc, ld)]
        self.calls.append((one, two, (a, b, c, d), layouts, _at(algorithm, ctypes.c_uint64).value, size, stream))
        return self.status


@pytest.fixture(autouse=True)
def stream(monkeypatch):
    class Stream:
        cuda_stream = 77

    monkeypatch.setattr(torch.cuda, "current_stream", Stream)


def operands(dtype=torch.float8_e4m3fn):
    m, n, k = 8, 32, 256
    a, b = torch.zeros(m, k, dtype=dtype), torch.zeros(n, k + 16, dtype=dtype)[:, :k]
    c = torch.zeros(m, n + 4)[:, :n]
    return a, b, c, ("1x128", torch.zeros(2, m).t()), ("128x128", torch.zeros(1, 4)[:, :2].t())


def test_sizes_of_structures():
    assert ctypes.sizeof(cublaslt.Algorithm) == 64
    assert ctypes.sizeof(HeuristicResult) == 96
    assert (HeuristicResult.workspace.offset, HeuristicResult.state.offset) == (64, 72)


def test_a_row_major_product_is_the_column_major_one_of_the_operands_exchanged():
    fake = Fake()
    a, b, c, a_scale, b_scale = operands()
    problem = Problem(Library(fake), a, b, c, (a_scale, b_scale))
    first, third = problem.algorithms(ctypes.c_void_p(5))
    assert (first.data[0], third.data[0]) == (100, 102)  # the second wants more memory than there is
    assert problem.launch(ctypes.c_void_p(5), third, torch.zeros(9, dtype=torch.uint8))() is c
    ((alpha, beta, places, layouts, algorithm, size, stream),) = fake.calls
    assert (alpha, beta) == (1, 1)
    assert places == (b.data_ptr(), a.data_ptr(), c.data_ptr(), c.data_ptr())
    assert layouts == [(28, 256, 32, 272), (28, 256, 8, 256), (0, 32, 8, 36), (0, 32, 8, 36)]
    assert (algorithm, size, stream) == (102, 9, 77)
    got = {attribute: int.from_bytes(value, "little") for attribute, value in fake.attributes.items()}
    assert got == {3: 1, 4: 0, 17: b_scale[1].data_ptr(), 18: a_scale[1].data_ptr(), 25: 0, 31: 5, 32: 4}


def test_without_scales_no_mode_is_set():
    fake = Fake()
    a, b, c, _, _ = operands(torch.bfloat16)
    Problem(Library(fake), a, b, c, None)
    assert sorted(fake.attributes) == [3, 4]
    assert {layout[0] for layout in fake.layouts.values()} == {14, 0}


def test_objects_live_as_long_as_a_launch():
    fake = Fake()
    a, b, c, *scales = operands()
    problem = Problem(Library(fake), a, b, c, tuple(scales))
    run = problem.launch(ctypes.c_void_p(5), cublaslt.Algorithm(), torch.zeros(1, dtype=torch.uint8))
    del problem
    assert len(fake.alive) == 4
    run()
    del run
    assert not fake.alive


@pytest.mark.filterwarnings("ignore:memory leak in callback")  # of the text that the library says
def test_refusals():
    a, b, c, *scales = operands()
    with pytest.raises(ScalecError, match="no scales of blocks"):
        Library(Fake(version=120803))
    with pytest.raises(ScalecError, match="no algorithm"):
        Problem(Library(Fake(algorithms=0)), a, b, c, tuple(scales)).algorithms(ctypes.c_void_p(5))
    problem = Problem(Library(Fake(status=15)), a, b, c, tuple(scales))
    run = problem.launch(ctypes.c_void_p(5), cublaslt.Algorithm(), torch.zeros(1, dtype=torch.uint8))
    with pytest.raises(ScalecError, match="status 15: not supported"):
        run()
    with pytest.raises(ScalecError, match="A is not row-major"):
        Problem(Library(Fake()), a.t(), b, c, None)
    with pytest.raises(ScalecError, match="not called with this type"):
        Problem(Library(Fake()), a.view(torch.uint8), b, c, None)


def test_a_library_without_a_function():
    class Empty:
        pass

    with pytest.raises(ScalecError, match="has no cublasLtGetVersion"):
        Library(Empty())  # type: ignore[arg-type]
