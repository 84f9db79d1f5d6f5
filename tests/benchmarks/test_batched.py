"""benchmarks/batched.py without a GPU: its shapes, its contenders, what it compiles and writes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from benchmarks import batched
from benchmarks.batched import COPY, DEFAULT, PROGRAMS, Program
from scalec import compiler
from scalec.bench.contraction import contraction, reference
from scalec.bench.result import OURS, Row, Timing
from scalec.errors import ScalecError
from scalec.tuning.build import build
from tests.bench.test_contenders import spec

shape, inputs_of = import_module("scalec.bench.shape"), import_module("scalec.bench.inputs")

HEADS = PROGRAMS["heads-fp8"].source
SIZES = {"b": 5, "h": 2, "r": 256, "d": 136}


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


def test_data_of_operands_that_are_converted() -> None:
    """Random bytes, and nothing to check them by: torch has no arithmetic for them."""
    made = spec(PROGRAMS["fp8-nvfp4"].source, {"m": 8, "n": 16, "k": 128})
    values = inputs_of.make_inputs(made, {"m": 8, "n": 16, "k": 128}, 3, device="cpu").values
    shapes = {name: (tuple(x.shape), x.dtype) for name, x in values.items()}
    assert shapes["B"] == ((16, 64), torch.uint8)
    assert shapes["B_scale"] == ((16, 8), torch.uint8)
    assert shapes["A"] == ((8, 128), torch.float8_e4m3fn)
    assert 0x30 <= int(values["B_scale"].min()) <= int(values["B_scale"].max()) < 0x48
    assert contraction(made, {"m": 8, "n": 16, "k": 128}) is None


def test_importing_it_imports_no_torch() -> None:
    code = "import sys, benchmarks.batched; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_shape_has_a_kernel() -> None:
    assert sum(len(p.shapes) for p in PROGRAMS.values()) == 231
    for program in PROGRAMS.values():
        for dims in (program.shapes[0], program.shapes[-1]):
            assert compiler.decide(program.source, "sm_90a", dims)[0].tile, dims


@pytest.mark.parametrize("name", ["heads-fp8", "sums-bf16"])
def test_contenders(name: str) -> None:
    dims = {d: s for d, s in {**SIZES, "m": 8, "n": 16, "k": 128}.items() if d in PROGRAMS[name].source}
    made = spec(PROGRAMS[name].source, dims)
    inputs, what = inputs_of.make_inputs(made, dims, 3, device="cpu"), contraction(made, dims)
    assert what is not None
    product = reference(what, inputs.values)
    found = batched.in_bf16(made, dims)
    assert list(found) == (["torch.bmm (cuBLAS), bf16 operands"] if name == "heads-fp8" else [])
    for contender in found.values():
        assert 1e-8 < shape.usable("theirs", contender, inputs, product)[""] < 1e-5
    (copy,) = batched.copy(made, dims).values()
    for way in copy.variants.values():
        copied = way(inputs)()
        assert isinstance(copied, torch.Tensor)
        assert 0 <= 2 * copied.nbytes - inputs.bytes() < 2 * batched.PAGE
        assert copied.nbytes % batched.PAGE == 0  # of other sizes the driver's copies are slower

    def kernel(*operands: torch.Tensor, out: torch.Tensor) -> None:
        out += product if what.accumulates else product - out

    result = inputs.outputs[made.results[0].name]
    before = result.clone()
    (other,) = batched.others({DEFAULT: None, "unroll=1": kernel})(made, dims).values()
    assert shape.usable("theirs", other, inputs, product)[""] < 1e-5
    assert torch.equal(result, before)


def test_what_is_compiled(monkeypatch) -> None:
    small = Program(HEADS, (SIZES, {**SIZES, "b": 9}))
    monkeypatch.setattr(batched, "PROGRAMS", {"small": small})
    recipes: list[Any] = []

    @contextmanager
    def pool(workers: int | None = None) -> Iterator[Any]:
        def run(wanted: Any) -> Iterator[Any]:
            recipes.extend(wanted)
            yield from ((r, build(r) if dict(r.dims)["b"] == 5 else "ptxas: no") for r in reversed(recipes))

        yield run

    monkeypatch.setattr("scalec.tuning.build.pool", pool)
    made = batched.compiled(["small"], 1)
    assert made["small", 1] == "ptxas: no"
    kernels = made["small", 0]
    assert not isinstance(kernels, str)
    assert len(recipes) == 6
    assert len(kernels) == 2  # the best ranked is what the compiler chooses
    first, second = (k.spec.schedule for k in kernels.values())
    assert (next(iter(kernels)), first != second) == (DEFAULT, True)
    assert first == str(compiler.decide(HEADS, "sm_90a", SIZES)[0])


def test_what_is_written(monkeypatch, tmp_path) -> None:
    def bench_shape(kernel: Any, spec: Any, dims: dict[str, int], **how: Any) -> Row:
        if dims["m"] == 2:
            raise ScalecError("the kernel's result is wrong")
        timings = {OURS: Timing((2.0, 4.0)), COPY: Timing((1.5,))}
        return Row(dims, 10, 20, "tile=1", 2, timings, {OURS: 1e-6})

    class Kernel:
        spec = None

    monkeypatch.setattr(shape, "require_gpu", lambda: None)
    monkeypatch.setattr(shape, "bench_shape", bench_shape)
    monkeypatch.setattr("scalec.bench.provenance.of_machine", lambda: {"gpu": "none"})
    every = {("groups-fp8", i): {DEFAULT: Kernel} for i in range(2)} | {("groups-fp8", 2): "does not compile"}
    monkeypatch.setattr(batched, "compiled", lambda programs, count: every)
    out = tmp_path / "out.json"
    result = CliRunner().invoke(batched.main, ["--only", "groups-fp8", "-o", str(out)])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert lines[0]["us"] == {OURS: 3.0, COPY: 1.5}
    assert lines[0]["ratio"] == {COPY: 0.5}
    (program,) = json.loads(out.read_text())["programs"]
    assert [s.get("failed", "") for s in program["shapes"]] == ["", "the kernel's result is wrong", "does not compile"]
    assert program["shapes"][0]["contenders"][COPY]["median_us"] == 1.5
    assert CliRunner().invoke(batched.main, ["--only", "none such"]).exit_code == 2
