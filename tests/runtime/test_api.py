"""scalec.compile, its environment variables, and what importing scalec costs."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

import scalec
from scalec import api, env
from scalec.errors import ArgumentError, DeviceError, ScalecError, ScheduleError, UnsupportedError
from scalec.runtime import driver
from tests.runtime.fake import gemm_spec, machine_code


@pytest.fixture
def compilations(tmp_path, monkeypatch):
    """A compiler that only notes what it is asked."""
    monkeypatch.setenv("SCALEC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SCALEC_TUNING", "off")
    asked = []

    def compile_source(source, target=None, dims=None, schedule=None, tuned=True, on_drop=None):
        asked.append((source, target, dims, schedule))
        return types.SimpleNamespace(spec=gemm_spec(), cubin=machine_code(gemm_spec()), ptx="ptx", texts={}, tuned=None)

    fake = types.ModuleType("scalec.compiler")
    fake.compile_source = compile_source  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "scalec.compiler", fake)
    monkeypatch.setattr(scalec, "compiler", fake, raising=False)
    return asked


def test_a_second_compilation_is_a_hit(compilations):
    for _ in range(2):
        kernel = scalec.compile("C[m,n] = A[m,k]@B[n,k]", "sm_90a", {"k": 128}, {"tile": (128, 128, 64), "stages": 4})
    assert compilations == [("C[m,n] = A[m,k]@B[n,k]", "sm_90a", {"k": 128}, {"tile": "128x128x64", "stages": "4"})]
    assert (kernel.spec, kernel.cubin, kernel.ptx) == (gemm_spec(), machine_code(gemm_spec()), "ptx")
    scalec.compile("C[m,n] = A[m,k]@B[n,k]", "sm_90a", {"k": 256})
    assert len(compilations) == 2


def test_without_the_cache(compilations, tmp_path, monkeypatch):
    scalec.compile("C[m,n] = A[m,k]@B[n,k]", "sm_90a", cache=False)
    monkeypatch.setenv("SCALEC_CACHE", "0")
    scalec.compile("C[m,n] = A[m,k]@B[n,k]", "sm_90a")
    assert len(compilations) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [-1, 2**31, 1.5, "7", True, None])
def test_sizes_are_natural_numbers(compilations, size):
    with pytest.raises(ArgumentError, match="dims: k = "):
        scalec.compile("C[m,n] = A[m,k]@B[n,k]", "sm_90a", {"k": size})


PROGRAM = "C[m,n] = A[m,k]@B[n,k]"
KINDS = [
    ({"source": 3}, "source is of type int\n  got: 3\n  expected: a program's text, as 'C[m,n] = A[m,k]@B[n,k]'"),
    ({"source": None}, "source is of type NoneType\n  got: None\n  expected: a program's text"),
    ({"source": Path("gemm.scale")}, "fix: pass its text: path.read_text()"),
    ({"target": 90}, "target is of type int\n  got: 90\n  expected: a target's name, as 'sm_90a'"),
    ({"target": ["sm_90a"]}, "target is of type list\n  got: ['sm_90a']"),
    ({"dims": [("k", 2)]}, "dims is of type list\n  got: [('k', 2)]\n  expected: a mapping, as {'k': 2048}"),
    ({"dims": "k=2"}, "dims is of type str\n  got: 'k=2'\n  expected: a mapping, as {'k': 2048}"),
    ({"dims": {3: 4}}, "a name in dims is of type int\n  got: 3\n  expected: strings, as {'k': 2048}"),
    ({"dims": {"k": 2.0}}, "dims: k = 2.0 is no size\n  got: type float\n  expected: an integer from 0 to 2147483647\n"
     "  fix: k = 2"),
    ({"dims": {"k": True}}, "dims: k = True is no size\n  got: True\n  expected: an integer from 0 to 2147483647"),
    ({"dims": {"k": None}}, "expected: an integer from 0 to 2147483647\n  fix: leave k out of dims"),
    ({"schedule": "stages=3"}, "schedule is of type str\n  got: 'stages=3'\n  expected: a mapping, as {'stages': 5}"),
    ({"schedule": {5: 3}}, "a name in schedule is of type int"),
]  # fmt: skip


@pytest.mark.parametrize("given", ["1:64", (1, 64), [1, 64]])
def test_a_range_as_text_or_pair(given):
    program = scalec.compile(PROGRAM, "sm_90a", {"m": given, "n": 64, "k": 64}, {"tile": "64x16x64"})
    assert [k.spec.ranges for k in program.kernels] == [{"m": (1, 64)}]


@pytest.mark.parametrize(("changed", "message"), KINDS)
def test_arguments_of_another_kind(compilations, changed, message):
    with pytest.raises(ArgumentError) as caught:
        scalec.compile(**({"source": PROGRAM, "target": "sm_90a"} | changed))
    assert message in str(caught.value)
    assert compilations == []


def test_a_decision_that_is_no_number(monkeypatch):
    with pytest.raises(ScheduleError) as caught:
        scalec.compile(PROGRAM, "sm_90a", schedule={"stages": 3.5}, cache=False)
    assert str(caught.value) == (
        "schedule field stages cannot be '3.5'\n  expected: an integer from 2 to 32\n  fix: e.g. stages=4"
    )


def test_targets(compilations, monkeypatch):
    with pytest.raises(UnsupportedError, match="unknown target 'sm_1'"):
        scalec.compile("C[m,n] = A[m,k]@B[n,k]", "sm_1")
    monkeypatch.setenv("SCALEC_TARGET", "sm_2")
    with pytest.raises(UnsupportedError, match="unknown target 'sm_2'"):
        scalec.compile("C[m,n] = A[m,k]@B[n,k]")
    monkeypatch.setenv("SCALEC_TARGET", "sm_90a")
    assert api.default_target() == "sm_90a"


def test_the_gpu_decides_the_target(monkeypatch):
    monkeypatch.delenv("SCALEC_TARGET", raising=False)
    monkeypatch.setattr(api, "_may_have_gpu", lambda: True)
    for target, chosen in (("sm_120a", "sm_120a"), ("", "sm_90a")):
        gpu = driver.GpuFacts(0, "GPU", (9, 0), 132, target)
        monkeypatch.setattr(driver, "detect", lambda gpu=gpu: gpu)
        assert api.default_target() == chosen
    monkeypatch.setattr(driver, "detect", lambda: None)
    assert api.default_target() == "sm_90a"


def test_a_machine_is_asked_once_whether_it_may_have_a_gpu(monkeypatch):
    """Calls of quantisers ask for the target each time."""
    monkeypatch.delenv("SCALEC_TARGET", raising=False)
    asked = []
    monkeypatch.setattr(api.os.path, "exists", lambda path: bool(asked.append(path)))
    api._may_have_gpu.cache_clear()
    assert [api.default_target() for _ in range(3)] == ["sm_90a"] * 3
    assert asked == ["/dev/nvidiactl", "/dev/dxg"]
    api._may_have_gpu.cache_clear()


def test_variables(monkeypatch):
    names = [v.name for v in env.FIELDS]
    assert names == [
        "SCALEC_CACHE_DIR",
        "SCALEC_CACHE",
        "SCALEC_CACHE_LIMIT",
        "SCALEC_TARGET",
        "SCALEC_DEVICE",
        "SCALEC_PTXAS",
        "SCALEC_TUNING",
        "SCALEC_CHECK",
    ]
    monkeypatch.setenv("SCALEC_CACHE", " maybe ")
    with pytest.raises(ScalecError) as caught:
        env.CACHE.get()
    assert str(caught.value) == (
        "the environment variable SCALEC_CACHE cannot be 'maybe'\n  got: SCALEC_CACHE=maybe\n"
        "  expected: 0 or 1\n  fix: unset SCALEC_CACHE for the default (1)"
    )
    assert env.describe()[1].value == "maybe"
    for text, value in (("", True), ("1", True), ("0", False)):
        monkeypatch.setenv("SCALEC_CACHE", text)
        assert env.CACHE.get() is value
    for text, value in (("", False), ("1", True), ("0", False)):
        monkeypatch.setenv("SCALEC_CHECK", text)
        assert env.CHECK.get() is value
    for text, value in (("", 1 << 30), ("0", 0), ("5000", 5000), ("2k", 2048), ("500M", 500 << 20), ("3T", 3 << 40)):
        monkeypatch.setenv("SCALEC_CACHE_LIMIT", text)
        assert env.CACHE_LIMIT.get() == value
    for text in ("-1", "M", "5X", "1.5G", "1" * 99, "²G"):
        monkeypatch.setenv("SCALEC_CACHE_LIMIT", text)
        with pytest.raises(ScalecError, match="expected: bytes, or K, M, G or T of them") as caught:
            env.CACHE_LIMIT.get()
        assert caught.value.fix == "unset SCALEC_CACHE_LIMIT for the default (1G)"


def test_no_other_module_reads_our_variables():
    pattern = "environ"
    found = subprocess.run(
        ["grep", "-rlE", pattern, "--include=*.py", str(api.__file__).removesuffix("api.py") + "runtime"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == ""


def test_cuda_bindings_missing(monkeypatch):
    driver._cuda.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(DeviceError, match="running a kernel needs cuda-bindings") as caught:
        driver.device()
    assert caught.value.fix == "pip install 'scalec[gpu]'"
    assert driver.detect() is None
    driver._cuda.cache_clear()


def test_importing_scalec_imports_nothing_heavy():
    code = (
        "import sys, time; t = time.process_time(); import scalec; t = time.process_time() - t\n"
        "heavy = ('numpy', 'torch', 'torch_mlir', 'llvmlite', 'lark', 'click', 'rich', 'cuda', 'dataclasses', 'json')\n"
        "print(t < 0.03, [m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"


def test_public_names():
    assert scalec.reference.__name__ == "scalec.reference"
    assert {"compile", "load", "reference", "Kernel"} <= set(dir(scalec))
    assert scalec.ArgumentError is ArgumentError
    with pytest.raises(AttributeError, match="module 'scalec' has no attribute 'complie'"):
        scalec.complie  # noqa: B018
