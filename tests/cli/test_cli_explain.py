"""`scalec explain`: what it prints, its JSON, and that a prediction is called one."""

from __future__ import annotations

import json
import re

import pytest

from scalec.bench.suites import PEERS, SUITES
from tests.cli.cli_programs import FP8

LABEL = "predicted from documented rates, not measured"


def test_one_shape(invoke):
    result = invoke("explain", FP8, "--dim", "m=4096,n=7168,k=2048")
    assert (result.exit_code, result.stderr) == (0, "")
    title, header, row, *_ = result.stdout.splitlines()
    assert title == f"{FP8} on sm_90a: {LABEL}"
    assert header.split()[:4] == ["m", "n", "k", "tile"]
    assert row.split()[:4] == ["4096", "7168", "2048", "128x256x128"]
    for word in ("stages=", "cluster=2x1", "7 waves", "bytes of 232448", "bound by tensor issue"):
        assert word in result.stdout


@pytest.mark.parametrize(
    ("source", "dims", "lines"),
    [
        ("C[m,n] = A[m,k] @ B[n,k]", "m=1000,n=1000,k=2000", []),
        ("H[m,n]:mxfp8 = silu(X[m,k] @ V[n,k]) * (X[m,k] @ W[n,k])", "m=1000,n=1024,k=2000",
         ["X is read once for V and W: 4.0 MB less", "H is quantised from the f32 sums: 8.2 MB less"]),
        ("T[m,n] = A[m,k] @ B[n,k]; C[m,n] = gelu(T); R[m]:f32 = max[n](abs(T)); D[m,n] = T", "m=1000,n=1000,k=2000",
         ["C is computed of the sums in registers: 4.0 MB less", "D is computed of the sums in registers: 2.0 MB less",
          "R is reduced from the sums in registers: 2.0 MB less"]),
        ("T[m,n] = A[m,k] @ B[n,k]; M[m] = max[n](T); R[m]:f32 = M; S[m]:f32 = sum[n](exp(T - M))",
         "m=1000,n=1000,k=2000",
         ["S and R are reduced from the sums in registers: 2.0 MB less"]),
        ("D[m,n]:f32 = A[m,k]:bf16 @ B[n,k]:tf32; S[m]:f32 = sum[k](A[m,k]^2)", "m=1000,n=24,k=2000",
         ["S is reduced as A passes by: 4.0 MB less", "A is made tf32 on its way: 16.0 MB less"]),
        ("L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h])", "q=100,h=64,d=64,t=1000",
         ["L is the sum over h of sums in registers, which are not written: 25.6 MB less"]),
        ("C[m,n] = A[m,k] @ B[n,k] + D[m,r] @ E[n,r]", "m=1000,n=1000,k=2000,r=16",
         ["D @ E is added up in the same place: 4.0 MB less"]),
    ],
)  # fmt: skip
def test_what_rides_on_the_product(invoke, source, dims, lines):
    result = invoke("explain", source, "--dim", dims)
    assert result.exit_code == 0, result.stderr
    assert re.findall("in one kernel: (.*)", result.stdout) == lines


def test_how_tiles_have_a_sum_of_exponentials(invoke):
    source = "T[m,n] = A[m,k] @ B[n,k]; M[m] = max[n](T); R[m]:f32 = M; S[m]:f32 = sum[n](exp(T - M))"
    result = invoke("explain", source, "--dim", "m=1000,n=1000,k=2000", "--target", "sm_120a")
    assert "R and S are of the same sums: a tile leaves 1024 bytes in memory" in result.stdout
    assert "S is summed relative to a tile's own largest, which R is made of too; where tiles meet," in result.stdout


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ("C[m,n] = A[m,k] @ B[n,k] - alpha * (D[m,r] @ E[n,r])", "sm_90a",
         "sums of D @ E come first, of which something is computed with alpha; then those of A @ B are added\n"),
        ("C[m,n] = A[m,k] @ B[n,k] - D[m,r] @ E[n,r]", "sm_100a",
         "sums of D @ E come first, of which something is computed; then those of A @ B are added, in accumulators"),
        ("C[m,n] = A[m,k] @ B[n,k] + D[m,r] @ E[n,r]", "sm_90a", ""),
    ],
)  # fmt: skip
def test_what_is_computed_of_one_product_that_is_added_up(invoke, source, target, told):
    found = invoke("explain", source, "--target", target, "--dim", "n=1024,k=1024,r=64").stdout
    assert (f"; {told}" in found) if told else ("come first" not in found)


@pytest.mark.once("told")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1] about 20",
            r"; 20 of m are expected in a group, \d+% of its",
        ),
        ("C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g] about 96", r"; 96 of m are expected in a group, \d+% of its"),
        ("C[m,n] = A[m,k] @ B[e[m/8],n,k]", r"; \d+ of m are expected in a group, \d+% of its tiles is empty"),
        ("C[g,m,n] = A[g,m,k] @ B[g,n,k] for m < rows[g]", ""),
        ("C[m,n] = A[m,k] @ B[n,k]", ""),
    ],
)
def test_what_groups_are_expected_to_have(invoke, source, told, target):
    found = invoke("explain", source, "--target", target, "--dim", "m=2048,n=1024,k=1024").stdout
    assert re.search(told, found) if told else ("expected in a group" not in found)
    assert ("a warp finds tiles ahead of the others, 0.06 to 0.22 us each" in found) == (
        "[g" in source or "e[" in source
    )


def test_the_operand_that_stays_for_a_run_has_its_name(invoke):
    source = "L[q,t]:f32 = sum[h](relu(Q[q,h,d]:e4m3 @ K[t,d]:e4m3) * W[q,h])"
    found = invoke("explain", source, "--dim", "h=64,d=128").stdout
    assert "stationary=1" in found
    assert "keeps what is read for each of q, and a tile of Q" in found


def test_the_target_is_the_one_that_compile_takes(invoke, monkeypatch):
    monkeypatch.setenv("SCALEC_TARGET", "sm_120a")
    assert f"{FP8} on sm_120a: " in invoke("explain", FP8, "--dim", "m=64,n=256,k=256").stdout


@pytest.mark.parametrize(
    ("dims", "schedule", "reasons"),
    [
        ("m=64,n=64,k=512", "tile=64x64x128,cluster=1x1,split=1", ("cluster=1x1  .*one tile: nothing to share",)),
        ("m=64,n=2112,k=7168", "tile=64x32x128,cluster=1x1,split=2",
         ("cluster=1x1  .*each CTA copies tiles of its own", "parts=cluster  .*2 CTAs .* memory of the first\n")),
        ("m=256,n=2112,k=7168", "tile=128x64x128,cluster=1x1,split=2",
         ("parts=cluster  .*2 CTAs .* of the first two\n",)),
        ("m=256,n=4096,k=7168", "tile=128x256x128,cluster=1x1,split=2",
         ("parts=memory  .*has no room for their sums",)),
        ("m=64,n=512,k=7168", "tile=64x64x128,cluster=1x1,split=9",
         ("parts=memory  .*clusters of 9 CTAs, of at most 8",)),
        ("m=64,n=512,k=7168", "tile=64x64x128,cluster=1x1,split=3,parts=columns",
         ("parts=columns  .*wait for each other, and add 32 columns each",)),
    ],
)  # fmt: skip
def test_why_copies_and_sums_go_where_they_do(invoke, dims: str, schedule: str, reasons: tuple[str, ...]) -> None:
    found = invoke("explain", FP8, "--dim", dims, "--schedule", f"{schedule},swap=0").stdout
    for reason in reasons:
        assert re.search(reason, found), found


def test_no_time_stands_without_its_label(invoke):
    result = invoke("explain", FP8, "--dim", "n=7168,k=2048", "--m", "1,64,4096")
    assert result.exit_code == 0
    times = [line for line in result.stdout.splitlines() if " us" in line]
    assert len(times) == 10  # the table's header, and for each m what documents promise, power leaves, the model says
    assert all("predicted" in line for line in times)
    assert sum("by a model fitted to measured launches" in line for line in times) == 3


def test_sizes_that_are_not_known_are_assumed_aloud(invoke):
    assert "assumed: m=4096, n=4096\n" in invoke("explain", FP8, "--dim", "k=2048").stdout
    assert "assumed" not in invoke("explain", FP8, "--dim", "n=512,k=2048", "--m", "64").stdout


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_the_peers_shapes_as_json(invoke, target):
    result = invoke("explain", "--suite", "peers", "--target", target, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    data = json.loads(result.stdout)
    assert (data["label"], data["target"]) == (LABEL, target)
    assert data["rates"]["source"]
    assert [kernel["dims"] for kernel in data["kernels"]] == list(PEERS)
    for kernel in data["kernels"]:
        assert "tile=" in kernel["schedule"]
        assert {"tile", "cluster", "stages", "epilogue"} <= set(kernel["reasons"])
        (p,) = kernel["predictions"]
        assert p["sizes"] == kernel["dims"]
        slowest = max(p["predicted_us_by_resource"].values())
        assert p["predicted_us"] == pytest.approx(slowest + data["rates"]["launch_us"], abs=2e-3)
        assert p["predicted_bound"] in (*p["predicted_us_by_resource"], "wave quantisation")


@pytest.mark.parametrize(
    ("target", "dims", "schedule", "reason"),
    [
        ("sm_90a", "m=16384,n=16384,k=2048", "tile=128x128x128", "static  sm_90a has no cluster launch control"),
        ("sm_100a", "n=16384,k=2048", "tile=128x256x128", "static  m not known"),
        (
            "sm_100a",
            "m=4096,n=7168,k=2048",
            "tile=128x256x128",
            "static  in 6.1 waves SMs drift apart by less than a tile",
        ),
        (
            "sm_100a",
            "m=16384,n=16384,k=2048",
            "tile=128x256x128",
            "dynamic  of 55.4 waves, the last one's tiles go to the SMs that",
        ),
        (
            "sm_100a",
            "m=4096,n=7168,k=2048",
            "tile=128x256x128,scheduler=dynamic",
            "dynamic  given; static would be chosen: in 6.1",
        ),
    ],
)
def test_who_deals_out_the_tiles(invoke, target, dims, schedule, reason):
    options = ("--target", target, "--dim", dims, "--schedule", f"{schedule},cluster=1x1")
    result = invoke("explain", "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3", *options)
    assert result.exit_code == 0, result.stderr
    assert f"scheduler={reason}" in result.stdout


@pytest.mark.parametrize(("result", "told"), [(":mxfp8", 4), (":nvfp4", 8), ("", None)])
def test_rows_that_come_permuted(invoke, result, told):
    text = invoke("explain", f"D[m,n]{result} = A[m,k] @ B[n,k]", "--dim", "m=4096,n=7168,k=2048").stdout
    assert "D leaves through shared memory by tensor copies" in text
    columns = re.search(r"; B's rows come permuted, for threads to have (\d) adjacent columns", text)
    assert (columns and int(columns[1])) == told


def test_the_tiles_that_are_ranked_next(invoke):
    result = invoke("explain", FP8, "--dim", "m=4096,n=7168,k=2048")
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("  tile="))
    told = line.partition("next by the fitted model, in times as long: ")[2].split(", ")
    assert len(told) == 3
    assert line.split()[0].removeprefix("tile=") not in line.partition("; ")[2]
    ratios = [float(one.split()[-1]) for one in told]
    assert ratios == sorted(ratios)
    assert ratios[0] >= 1


def test_a_schedule_that_is_given(invoke):
    result = invoke("explain", FP8, "--dim", "m=4096,n=7168,k=2048", "--schedule", "tile=128x128x128")
    assert "tile=128x128x128  given; " in result.stdout


def test_a_program_at_a_suites_shapes(invoke):
    result = invoke("explain", "C[m,n] = A[m,k]@B[n,k]", "--suite", "bf16")
    assert result.exit_code == 0
    assert result.stdout.count(" on sm_90a") == 1 + len(SUITES["bf16"].shapes)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--suite", "peers", "--dim", "m=1"],
        ["--suite", "peers", "--m", "1"],
        [FP8, "--m", "0"],
        [FP8, "--m", "x"],
        [FP8, "--target", "sm_1"],
    ],
)
def test_misuse(invoke, arguments):
    assert invoke("explain", *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no program"),
        (["--suite", "nope"], "no suite 'nope'"),
        ([FP8, "--dim", "m=64", "--m", "1"], "m is fixed"),
        (["C[m,n] = A[m,k]:e3m2@B[n,k]:e3m2", "--target", "sm_90a"], "e3m2"),
    ],
)
def test_refusals(invoke, arguments, message):
    result = invoke("explain", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


def test_what_is_converted_is_said(invoke) -> None:
    dims = ["--target", "sm_90a", "--dim", "m=16,n=512,k=512"]
    shown = invoke("explain", "C[m,n] = A[k,m]:e4m3 @ B[n,k]:e4m3 scale(128x1,128x128)", *dims).stdout
    assert "warps turn A, so that k is contiguous" in shown
    shown = invoke("explain", "C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4", *dims).stdout
    assert "consumers make bf16 of B (e2m1), times B_scale\n" in shown
    assert "no scale is left for FP32" in shown
