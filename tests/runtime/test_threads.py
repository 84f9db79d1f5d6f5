"""What several threads do at the same time: each gets what it would get alone."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from scalec.runtime.plan import remember
from scalec.runtime.workspace import Workspaces
from tests.runtime.fake import FakeDevice

THREADS = 8


@pytest.fixture(autouse=True)
def _turns_taken_often(on_the_emulator):
    """The emulator, among threads that take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Runs `work` of each thread's number, all at the same time; raises what one of them raised."""
    raised: list[BaseException] = []
    start = threading.Barrier(threads)

    def one(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            raised.append(error)

    running = [threading.Thread(target=one, args=(i,)) for i in range(threads)]
    for t in running:
        t.start()
    for t in running:
        t.join()
    if raised:
        raise raised[0]


def whole(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(ml_dtypes.bfloat16)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) @ b.astype(np.float32).T


@pytest.fixture(scope="module")
def split() -> Kernel:
    return scalec.compile(
        "C[m,n]:f32 = A[m,k] @ B[n,k]", "sm_120a", {"n": 16, "k": 128}, {"split": 2, "tile": "64x16x64"}
    )


def test_a_kernel_on_tensors_of_each_thread(split):
    b = whole(99, 16, 128)
    given = [whole(i, 5 + i, 128) for i in range(THREADS)]

    def work(number: int) -> None:
        a = given[number]
        out = np.full((len(a), 16), np.nan, np.float32)
        split(a, b, out=out)
        np.testing.assert_array_equal(out, product(a, b))

    together(work)


def test_operands_that_share_memory(split):
    x = whole(1, 16, 128)
    for a in (x[:8], x[8:], x):
        out = np.full((len(a), 16), np.nan, np.float32)
        split(a, x, out=out)
        np.testing.assert_array_equal(out, product(a, x))


def test_a_result_between_the_columns_of_an_operand():
    kernel = scalec.compile("C[m,n]:bf16 = A[m,k] @ B[n,k]", "sm_120a", {"n": 16, "k": 64})
    x, b = whole(1, 8, 80), whole(2, 16, 64)
    expected = product(x[:, :64], b).astype(ml_dtypes.bfloat16)
    kernel(x[:, :64], b, out=x[:, 64:])
    np.testing.assert_array_equal(x[:, 64:].astype(np.float32), expected.astype(np.float32))


def test_nothing_of_a_launch_is_kept(split):
    device = emulated.device("sm_120a")
    a, b = whole(1, 8, 128), whole(2, 16, 128)
    out = np.zeros((8, 16), np.float32)
    split(a, b, out=out)
    assert device.memory.find(a.ctypes.data) is None
    gone = [weakref.ref(x) for x in (a, b, out)]
    del a, b, out
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3


def test_a_cache_with_an_end():
    kept: dict[tuple[int, int], int] = {}

    def work(number: int) -> None:
        for i in range(150_000):  # of which one or two would meet another thread
            remember(kept, (number, i), i, 16)

    sys.setswitchinterval(1e-6)
    together(work)
    assert 16 <= len(kept) < 16 + THREADS


def test_threads_on_one_stream_have_one_workspace():
    class Slow(FakeDevice):
        def reserve(self, size: int) -> int:
            time.sleep(0.01)
            return super().reserve(size)

    device = Slow()
    workspaces = Workspaces(device)
    found = set()
    together(lambda _: found.add(workspaces.of(0, (64, 4))))
    assert len(found) == 1
    assert len(device.reserved) == 2


@pytest.mark.parametrize("times", [4, pytest.param(1000, marks=pytest.mark.thorough)])
def test_everything_at_the_same_time(tmp_path, times):
    given = os.environ | {"SCALEC_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "tests.runtime.stress", str(tmp_path), str(times), "0"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # all of it: a crash tells its place first and then every thread's
    assert done.stdout == f"{times} times in {THREADS} threads, 0 wrong\n"


@pytest.mark.thorough
def test_a_crash_tells_its_native_frames():
    code = "import ctypes; from tests.runtime import stress; stress.tell_native_frames(); ctypes.string_at(8)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    native, _, python = done.stderr.partition("Fatal Python error: Segmentation fault")
    assert "_ctypes" in native
    assert "in string_at" in python


FORKS = """
import os, signal, threading
from scalec.ir import context
with context.context():
    pass
context._idle.clear()
held = threading.Event()
def hold():
    with context._making:
        held.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
if (child := os.fork()) == 0:
    signal.alarm(20)
    with context.context():
        os._exit(0)
os._exit(os.waitpid(child, 0)[1])
"""


def test_a_process_forked_while_a_thread_makes_a_context_makes_its_own():
    """As a worker of a DataLoader would be: the lock that the thread held stays locked in it for ever."""
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_torch_tensors_and_ops_of_each_thread():
    torch = pytest.importorskip("torch")
    kernels = [scalec.compile("C[m,n]:f32 = A[m,k] @ B[n,k]", "sm_90a", {"n": 16, "k": 64}) for _ in range(4)]
    b = torch.randint(-4, 5, (16, 64)).bfloat16()

    def work(number: int) -> None:
        a = torch.randint(-4, 5, (3 + number, 64)).bfloat16()
        for call in (kernels[number % 4], kernels[number % 4].op):
            assert torch.equal(call(a, b), a.float() @ b.float().t())

    together(work)
