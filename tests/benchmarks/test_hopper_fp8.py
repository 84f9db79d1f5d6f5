"""benchmarks/hopper_fp8.py without a GPU: its bundles, and what it does without Triton."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks import hopper_fp8
from scalec.bench.suites import BLOCK_FP8, Suite
from scalec.commands.bench import from_bundle

SIZES = ({"m": 1, "n": 256, "k": 256}, {"m": 300, "n": 256, "k": 256})


def test_a_bundle_has_a_kernel_for_each_shape(tmp_path, monkeypatch):
    monkeypatch.setenv("SCALEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(hopper_fp8, "get_suite", lambda name: Suite(BLOCK_FP8, SIZES))
    folder = str(tmp_path / "kernels")
    result = CliRunner().invoke(hopper_fp8.main, ["--write-bundle", folder])
    assert result.exit_code == 0, result.output
    make = from_bundle(folder, BLOCK_FP8)
    assert [make(dict(sizes)).spec.dims for sizes in SIZES] == list(SIZES)
    assert (tmp_path / "kernels" / "provenance.json").exists()


@pytest.mark.parametrize(("arguments", "triton"), [([], True), (["--no-triton"], False)])
def test_what_is_measured(monkeypatch, arguments, triton):
    calls = []
    monkeypatch.setattr(hopper_fp8, "bench_program", lambda *_, **options: calls.append(options))
    monkeypatch.setattr(hopper_fp8, "find_spec", lambda name: object())
    more = ["--bundle", "DIR", "--rounds", "3", "--sustained", "2", "--block-ms", "50", "-o", "out.json"]
    result = CliRunner().invoke(hopper_fp8.main, [*arguments, *more])
    assert result.exit_code == 0, result.output
    (options,) = calls
    assert options == {
        "suite": "hopper-fp8", "bundle": "DIR", "output": "out.json",
        "rounds": 3, "sustained": 2, "block_seconds": 0.05,
        "contenders": [str(hopper_fp8.TRITON)] if triton else [],
    }  # fmt: skip
    assert hopper_fp8.TRITON.is_file()


def test_without_triton_it_says_so(monkeypatch):
    calls = []
    monkeypatch.setattr(hopper_fp8, "bench_program", lambda *_, **options: calls.append(options["contenders"]))
    monkeypatch.setattr(hopper_fp8, "find_spec", lambda name: None)
    result = CliRunner().invoke(hopper_fp8.main, [])
    assert calls == [[]]
    assert "Triton is not installed" in result.stderr
