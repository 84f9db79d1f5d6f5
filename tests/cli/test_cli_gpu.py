"""`scalec run` and `scalec bench` on a GPU."""

from __future__ import annotations

import json

import pytest

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
    result = invoke("bench", FP8, "--dim", "m=256,n=1024,k=1024", "--rounds", "5", "-o", str(path))
    assert result.exit_code == 0, result.stderr
    (shape,) = json.loads(path.read_text())["shapes"]
    assert {"scalec", "torch._scaled_mm block (cuBLASLt)"} == set(shape["contenders"])
    for contender in shape["contenders"].values():
        low, high = contender["quartiles_us"]
        assert 0 < low <= contender["median_us"] <= high


def test_bench_pads_rows_for_torch(invoke):
    result = invoke("bench", "--dim", "m=1,n=1024,k=1024", "--rounds", "3", "-o", "-")
    assert result.exit_code == 0, result.stderr
    (shape,) = json.loads(result.stdout)["shapes"]
    assert len(shape["contenders"]) == 2
    assert max(shape["checks"].values()) < 3e-6
