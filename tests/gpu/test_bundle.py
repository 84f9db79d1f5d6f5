"""A bundle on a machine with a GPU and nothing but numpy and cuda-bindings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import scalec
from scalec.runtime import bundle

pytestmark = pytest.mark.gpu

SOURCE = "C[m,n]:f32 = A[m,k]:f16 @ B[n,k]:f16"

PROGRAM = '''
import importlib.abc, sys

ALLOWED = {"scalec", "numpy", "cuda", "__main__"}


class Blocker(importlib.abc.MetaPathFinder):
    """Refuses every package that a bundle must not need."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "torch_mlir", "mlir", "llvmlite", "lark", "click", "rich", "platformdirs",
                                  "filelock", "ml_dtypes"}:
            raise ImportError(f"{name} is not on this machine")
        return None


sys.meta_path.insert(0, Blocker())

import numpy as np
import scalec
from scalec.runtime import driver
from scalec.runtime.array import DeviceArray

kernel = scalec.load(sys.argv[1])
rng = np.random.default_rng(0)
a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((70, 256), (136, 256)))
device = driver.device()
result = kernel(*(DeviceArray.from_host(device, x, "f16") for x in (a, b)))
assert np.array_equal(result.numpy(), a.astype(np.float32) @ b.astype(np.float32).T)
print("right")
'''


def test_load_needs_only_numpy_and_cuda(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.driver")
    bundle.write(tmp_path / "b", [scalec.compile(SOURCE, target="sm_90a", dims={"n": 136, "k": 256})])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "b")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "right"
