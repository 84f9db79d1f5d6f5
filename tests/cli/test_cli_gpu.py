"""`scalec run` and `scalec bench` on a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalec.bench.contenders import BLOCK, TENSORWISE
from scalec.bench.suites import BF16, BOTH_FP8, ROW_FP8
from tests.cli.cli_programs import FP8

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("m", [1, 7, 200])
@pytest.mark.parametrize(
    "program",
    [FP8, "C[m,n] = A[m,k]@B[n,k]", "C[m,n]:f32 += alpha * (A[m,k]@B[n,k] scale(1x128:f32@col,128x128)) + bias[n]"],
)
def test_run(invoke, program, m):
    result = invoke("run", program, "--dim", f"m={m},n=512,k=512")
    assert result.exit_code == 0, result.stderr
    assert float(result.stdout.splitlines()[1].split()[1]) < 3e-6


def test_bench(invoke, tmp_path):
    path = tmp_path / "result.json"
    short = ("--rounds", "5", "--sustained", "2", "--block-ms", "20")
    result = invoke("bench", FP8, "--dim", "m=256,n=1024,k=1024", *short, "-o", str(path))
    assert result.exit_code == 0, result.stderr
    (shape,) = json.loads(path.read_text())["shapes"]
    assert list(shape["contenders"]) == ["scalec", BLOCK, TENSORWISE]
    assert set(shape["checks"]) == {"scalec", BLOCK}
    for contender in shape["contenders"].values():
        for timed in (contender, contender["sustained"]):
            low, high = timed["quartiles_us"]
            assert 0 < low <= timed["median_us"] <= high


def test_bench_pads_rows_for_torch(invoke):
    result = invoke("bench", "--dim", "m=1,n=1024,k=1024", "--rounds", "3", "--sustained", "0", "-o", "-")
    assert result.exit_code == 0, result.stderr
    (shape,) = json.loads(result.stdout)["shapes"]
    assert len(shape["contenders"]) == 3
    assert max(shape["checks"].values()) < 3e-6
    assert "sustained" not in shape["contenders"]["scalec"]


@pytest.mark.parametrize("source", [BOTH_FP8, ROW_FP8, BF16])
def test_bench_of_other_programs(invoke, source):
    result = invoke("bench", source, "--dim", "m=256,n=512,k=1024", "--rounds", "3", "--sustained", "0", "-o", "-")
    assert result.exit_code == 0, result.stderr
    (shape,) = json.loads(result.stdout)["shapes"]
    baseline = list(shape["contenders"])[1]
    assert baseline.startswith("cuBLASLt, C += in place" if source == BOTH_FP8 else "torch.")
    assert {"scalec", baseline} <= set(shape["checks"])


def test_bench_with_triton(invoke):
    pytest.importorskip("triton")
    file = str(Path(__file__).parents[2] / "benchmarks" / "block_fp8_triton.py")
    for m in (1, 24, 64, 100, 300):  # a row of its configurations each
        arguments = ("--dim", f"m={m},n=1088,k=1024", "--rounds", "3", "--sustained", "0", "--contenders", file)
        result = invoke("bench", *arguments, "-o", "-")
        assert result.exit_code == 0, result.stderr
        (shape,) = json.loads(result.stdout)["shapes"]
        assert shape["contenders"]["Triton"]["variant"]
        assert shape["checks"]["Triton"] < 3e-6
