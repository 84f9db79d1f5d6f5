"""All that scalec does in a process, at random, in several threads at the same time; each result must be the right one.

    SCALEC_DEVICE=emulator python -m tests.runtime.stress FOLDER TIMES SEED

A process of its own, as what goes wrong among threads ends the interpreter.
"""

from __future__ import annotations

import ctypes
import faulthandler
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec import compiler
from scalec.abi import KernelSpec
from scalec.errors import SourceError
from scalec.frontend import build
from scalec.ir import context
from scalec.reference import make, run
from scalec.runtime import bundle, emulated
from scalec.runtime.kernel import Kernel
from scalec.sizes import Range
from scalec.tuning.explain import explain
from scalec.tuning.journal import Journal
from scalec.tuning.tuner import Job, tune
from tests.tuning.test_tuner import MadeUp, one_by_one

THREADS = 8
N, K = 16, 128
SPLIT = {"split": "2", "tile": "64x16x64"}
RECIPES: list[tuple[str, str, dict[str, int], dict[str, str]]] = [
    ("C[m,n]:f32 = A[m,k] @ B[n,k]", "sm_120a", {"n": N, "k": K}, SPLIT),
    ("C[m,n]:f32 = A[m,k] @ B[n,k]", "sm_90a", {"n": N, "k": K}, {}),
    ("C[m,n] = gelu(A[m,k] @ B[n,k] + bias[n])", "sm_90a", {"k": 256}, {}),
    ("C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128)", "sm_100a", {"n": 256, "k": 256}, {}),
    ("C[m,n]:mxfp8 = A[m,k]:mxfp8 @ B[n,k]:mxfp8", "sm_120a", {"n": 128, "k": 128}, {}),
]


class Stress:
    """What is asked of scalec, each as a method that raises where the answer is not the one of a thread alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        made = [compiler.compile_source(*r, tuned=False) for r in RECIPES]
        self.expected: list[tuple[str, bytes | None, KernelSpec | None]] = [(m.ptx, m.cubin, m.spec) for m in made]
        self.schedules = [str(m.schedule) for m in made]
        self.kernels = [Kernel(m.spec, m.cubin or b"", ptx=m.ptx) for m in made[:2] if m.spec is not None]
        bundle.write(folder / "bundle", self.kernels[1:])
        self.b = whole(random.Random(0), N)
        self.job = Job(RECIPES[3][0], "sm_90a", {"n": 256, "k": 256}, Range(16, 16), candidates=1)

    def compile(self, drawn: random.Random) -> None:
        at = drawn.randrange(len(RECIPES))
        made = scalec.compile(*RECIPES[at], cache=drawn.random() < 0.3, tuning=False)
        assert (made.ptx, made.cubin, made.spec) == self.expected[at], RECIPES[at]

    def refused(self, drawn: random.Random) -> None:
        with pytest.raises(SourceError, match="<program>:1:23: the program ends too early"):
            scalec.compile(f"C[m,n] = A[m,k] @ B[n,{drawn.choice('pqr')}", "sm_90a", cache=False)

    def decide(self, drawn: random.Random) -> None:
        at = drawn.randrange(len(RECIPES))
        source, target, dims, schedule = RECIPES[at]
        assert str(compiler.decide(source, target, dims, schedule, tuned=False)[0]) == self.schedules[at]
        assert str(explain(source, target, dims, schedule).schedule) == self.schedules[at]

    def refer(self, drawn: random.Random) -> None:
        source, _, dims, _ = RECIPES[3]
        with context.context():
            program, sizes = build(source, dims), {**dims, "m": 3}
            values = make(program, sizes, seed=drawn.randrange(99))
            (result,) = run(program, values, dims=sizes).values()
        assert np.isfinite(result.astype(np.float32)).all()

    def call(self, drawn: random.Random, which: Callable[..., object] | None = None) -> None:
        a = whole(drawn, drawn.randrange(1, 80))
        out = np.full((len(a), N), np.nan, np.float32)
        (which or drawn.choice(self.kernels))(a, self.b, out=out)
        np.testing.assert_array_equal(out, a.astype(np.float32) @ self.b.astype(np.float32).T)

    def bind(self, drawn: random.Random) -> None:
        a = whole(drawn, 5)
        out = np.empty((5, N), np.float32)
        bound = drawn.choice(self.kernels).bind(a, self.b, out=out)
        for _ in range(2):
            out.fill(np.nan)
            bound()
            np.testing.assert_array_equal(out, a.astype(np.float32) @ self.b.astype(np.float32).T)

    def load(self, drawn: random.Random) -> None:
        loaded = scalec.load(self.folder / "bundle")["C"].kernels[0]  # without PTX, which the emulator needs
        self.call(drawn, Kernel(loaded.spec, loaded.cubin, ptx=self.kernels[1].ptx))

    def tune(self, drawn: random.Random) -> None:
        file = self.folder / f"{threading.get_ident()}-{drawn.randrange(10**9)}"
        found = tune(self.job, MadeUp({}), one_by_one, lambda identity, what: Journal(file, identity, what))
        assert [(f.m, f.us) for f in found] == [(self.job.m, 10.0)]

    def emulate(self, drawn: random.Random) -> None:
        ptx, _, spec = self.expected[0]
        assert spec is not None
        device = emulated.EmulatedDevice(spec.target)
        device.options = replace(device.options, seed=drawn.randrange(99))
        self.call(drawn, Kernel(spec, b"", ptx=ptx, device=device))


def whole(drawn: random.Random, rows: int) -> np.ndarray:
    return np.random.default_rng(drawn.randrange(10**9)).integers(-4, 5, (rows, K)).astype(ml_dtypes.bfloat16)


ASKED = (
    Stress.compile, Stress.refused, Stress.decide, Stress.refer, Stress.call, Stress.bind, Stress.load, Stress.tune,
    Stress.emulate,
)  # fmt: skip


def tell_native_frames() -> None:
    """Has a crash tell its native frames; faulthandler then tells those of Python and ends the process."""
    faulthandler.enable()
    bindings = next(module for name, module in sys.modules.items() if name.endswith("._mlir_libs"))
    (library,) = Path(str(bindings.__file__)).parent.glob("lib*CAPI.so")
    tell = ctypes.CDLL(str(library))["_ZN4llvm3sys28PrintStackTraceOnErrorSignalENS_9StringRefEb"]
    tell.argtypes, tell.restype = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_bool), None
    tell(b"", 0, False)


def main(folder: str, times: str, seed: str) -> None:
    """Asks TIMES times in all; the exit status says whether each answer was right."""
    tell_native_frames()
    stress = Stress(Path(folder))
    sys.setswitchinterval(1e-4)
    left = iter(range(int(times)))
    wrong: list[BaseException] = []

    def work() -> None:
        for i in left:
            drawn = random.Random(f"{seed} {i}")
            what = Stress.compile if i < THREADS else drawn.choice(ASKED)  # all make their contexts at once
            try:
                what(stress, drawn)
            except BaseException as error:
                error.add_note(f"{what.__name__}, {i} of seed {seed}")
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"{times} times in {THREADS} threads, {len(wrong)} wrong")
    if wrong:
        raise wrong[0]


if __name__ == "__main__":
    main(*sys.argv[1:])
