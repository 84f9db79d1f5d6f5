"""`scalec bench` without a GPU: refusals, the choice of kernels, the report."""

from __future__ import annotations

import json

import pytest

from scalec.bench import method, provenance, report
from scalec.bench.result import OURS, Row, Timing
from scalec.bench.suites import SUITES, get_suite
from scalec.commands import bench
from scalec.errors import DeviceError, ScalecError
from tests.cli.cli_programs import FP8

OTHER = "torch"


def row(ours: float, other: float, m: int = 64) -> Row:
    timings = {OURS: Timing((ours, ours + 1, ours - 1)), OTHER: Timing((other,))}
    return Row({"m": m, "n": 128, "k": 256}, 2 * m * 128 * 256, 1 << 20, "tile=...", 3, timings, {OURS: 1.4e-6})


def test_without_torch_it_says_what_to_do(invoke, monkeypatch):
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    result = invoke("bench")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "needs torch" in result.stderr
    assert "pip install" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--rounds", "0"], ["--rounds", "x"], ["--suite", "bf16", "--dim", "m=1"], ["--dim", "m"]],
)
def test_misuse(invoke, arguments):
    assert invoke("bench", *arguments).exit_code == 2


def test_unknown_suite(invoke):
    result = invoke("bench", "--suite", "nope")
    assert result.exit_code == 1
    assert "hopper-fp8" in result.stderr


def test_suites_have_a_size_for_every_dimension():
    from scalec.compiler import compile_source

    for suite in SUITES.values():
        assert all(set(shape) == {"m", "n", "k"} for shape in suite.shapes)
        compile_source(suite.source, dims=suite.shapes[0], until="scale")
    assert len(get_suite("hopper-fp8").shapes) == 44


def test_kernels_of_a_bundle(invoke, tmp_path):
    folder = str(tmp_path / "kernels")
    for sizes in ("n=512,k=256", "m=64,n=512,k=256", "n=512,k=512"):
        assert invoke("compile", FP8, "--dim", sizes, "--bundle", folder).exit_code == 0
    make = bench.from_bundle(folder, FP8.replace(" ", ""))
    assert make({"m": 64, "n": 512, "k": 256}).spec.dims == {"m": 64, "n": 512, "k": 256}
    assert make({"m": 65, "n": 512, "k": 256}).spec.dims == {"m": None, "n": 512, "k": 256}
    with pytest.raises(ScalecError, match=r"no kernel of .* runs m=1, n=1, k=1"):
        make({"m": 1, "n": 1, "k": 1})
    with pytest.raises(ScalecError, match="no kernel"):
        bench.from_bundle(folder, "C[m,n] = A[m,k]@B[n,k]")({"m": 64, "n": 512, "k": 256})
    assert set(provenance.read(folder)) == {"version", "commit"}


def test_a_bundle_holds_one_kernel_of_a_kind(invoke, tmp_path):
    folder = str(tmp_path / "kernels")
    for _ in range(2):
        assert invoke("compile", FP8, "--dim", "n=512,k=256", "--bundle", folder).exit_code == 0
    assert len(json.loads((tmp_path / "kernels" / "manifest.json").read_text())["kernels"]) == 1


def test_no_bundle(monkeypatch, invoke, tmp_path):
    monkeypatch.setattr(bench, "require_torch", lambda: None)
    result = invoke("bench", "--load", str(tmp_path))
    assert result.exit_code == 1
    assert "no bundle" in result.stderr


def test_require_torch(monkeypatch):
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    with pytest.raises(DeviceError):
        bench.require_torch()


def test_timing():
    timing = Timing((5.0, 1.0, 2.0, 3.0, 4.0))
    assert timing.median == 3.0
    assert timing.quartiles == (2.0, 4.0)
    assert Timing((7.0,)).quartiles == (7.0, 7.0)


def test_rotation_exceeds_the_l2():
    assert method.sets_in_rotation(1) == method.MOST_SETS
    for size in (1 << 20, 100 << 20, 300 << 20):
        count = method.sets_in_rotation(size)
        assert count >= 2
        assert count * size >= 256 << 20


def test_ratios():
    rows = [row(10, 20), row(10, 5, m=128)]
    assert rows[0].ratio(OTHER) == 2.0
    assert report.geometric_means(rows) == {OTHER: pytest.approx(1.0)}
    data = rows[0].to_json()["contenders"]
    assert data[OTHER]["ratio"] == 2.0
    assert data[OURS] == {
        "median_us": 10,
        "quartiles_us": [9.5, 10.5],
        "tflops": pytest.approx(2 * 64 * 128 * 256 / 10e-6 / 1e12, abs=0.05),
        "gbytes_per_s": pytest.approx((1 << 20) / 10e-6 / 1e9, abs=0.05),
        "ratio": 1.0,
    }


def test_document(monkeypatch):
    machine = {"date": "2026-11-21 10:00", "gpu": "a GPU", "driver": "1", "torch": "2", "cuda": "13"}
    monkeypatch.setattr(provenance, "of_machine", lambda: machine)
    text = report.document([row(10, 12)], FP8, "sm_90a", method.summary(31, 0, 0.1), {"version": "0", "commit": "abc"})
    data = json.loads(text)
    for key in (*machine, "version", "commit", "expression", "method", "shapes", "geometric_mean_ratio"):
        assert key in data
    assert data["geometric_mean_ratio"] == {OTHER: 1.2}
    assert data["shapes"][0]["dims"] == {"m": 64, "n": 128, "k": 256}


def test_table_has_a_line_for_each_contender():
    assert report.table([row(10, 20), row(10, 5)]).row_count == 4
