"""`scalec bench` without a GPU: refusals, the choice of kernels, the report."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest

from scalec.bench import method, provenance, report
from scalec.bench.result import OURS, Row, Timing
from scalec.bench.suites import SUITES, Suite
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
    [
        ["--rounds", "0"],
        ["--rounds", "x"],
        ["--sustained", "-1"],
        ["--block-ms", "0"],
        ["--suite", "bf16", "--dim", "m=1"],
        ["--dim", "m"],
    ],
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


def test_programs_of_several_launches_of_a_bundle(invoke, tmp_path):
    """All launches are timed: none of them alone is the program."""
    folder, source = str(tmp_path / "kernels"), "D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]"
    assert invoke("compile", source, "--target", "sm_90a", "--dim", "n=4096,k=64", "--bundle", folder).exit_code == 0
    make, sizes = bench.from_bundle(folder, source), {"m": 64, "n": 4096, "k": 64}
    found = make(sizes)
    assert (found.spec.source, len(found.kernels)) == (source, 2)
    with pytest.raises(ScalecError, match=r"no kernel of .* runs m=64, n=512, k=64"):
        make({**sizes, "n": 512})


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


def cells(table, column: int) -> list[str]:
    return [str(cell) for cell in table.columns[column].cells]


def test_table_of_sustained_and_published():
    plain = report.table([row(10, 20)])
    one = replace(
        row(10, 20),
        sustained={OURS: Timing((12.0,)), OTHER: Timing((18.0,))},
        variants={OTHER: "fast"},
        published={"DeepGEMM": 1.3},
    )
    made = report.table([one, row(10, 20)])
    assert len(made.columns) == len(plain.columns) + 4
    assert cells(made, 1) == [OURS, f"{OTHER}, fast", "DeepGEMM", OURS, OTHER]
    headers = [str(c.header) for c in made.columns]
    base, held = headers.index("over base"), headers.index("sustained us")
    assert cells(made, base) == ["2.000", "1.000", "1.30", "2.000", "1.000"]
    assert cells(made, held) == ["12.00", "18.00", "", "", ""]
    assert cells(made, held + 2) == ["", "1.500", "", "", ""]
    assert cells(made, held + 3) == ["1.500", "1.000", "", "", ""]


def test_json_of_sustained_and_published():
    one = replace(
        row(10, 20),
        sustained={OURS: Timing((12.0,)), OTHER: Timing((18.0,))},
        variants={OTHER: "fast"},
        label="a layer",
        published={"DeepGEMM": 1.3},
    )
    data = one.to_json()
    assert (data["of"], data["published"]) == ("a layer", {"DeepGEMM": 1.3})
    assert data["contenders"][OTHER]["variant"] == "fast"
    held = data["contenders"][OTHER]["sustained"]
    assert (held["median_us"], held["ratio"]) == (18.0, 1.5)
    assert held["tflops"] == pytest.approx(2 * 64 * 128 * 256 / 18e-6 / 1e12, abs=0.05)
    assert not {"of", "published"} & set(row(10, 20).to_json())


def test_means_of_groups():
    rows = [row(10, 20), row(10, 5, m=128), row(10, 80, m=256)]
    groups = {"small": (rows[0].dims, rows[1].dims), "nowhere": ({"m": 7, "n": 7, "k": 7},)}
    means = report.grouped_means(rows, groups)
    assert means == {
        "all": {"shapes": 3, "burst": {OTHER: pytest.approx(2.0)}},
        "small": {"shapes": 2, "burst": {OTHER: pytest.approx(1.0)}},
    }
    assert report.mean_lines(rows, groups) == [
        f"geometric mean over 3 shapes: 2.000 times as fast as {OTHER}",
        f"geometric mean over small, 2 shapes: 1.000 times as fast as {OTHER}",
    ]


def test_means_leave_out_what_a_shape_lacks():
    without = replace(row(10, 20), timings={OURS: Timing((1.0,))})
    assert report.geometric_means([row(10, 20), without]) == {}
    assert report.geometric_means([]) == {}


SHAPES = Suite(
    FP8, tuple({"m": m, "n": 128, "k": 256} for m in (1, 2, 3)), groups={"one": ({"m": 1, "n": 128, "k": 256},)}
)


@pytest.fixture
def measured(monkeypatch):
    """`measure` with a GPU that gives every shape but m = 2 a row."""
    fake = ModuleType("scalec.bench.shape")

    def bench_shape(kernel, spec, sizes, **more):
        if sizes["m"] == 2:
            raise ScalecError("the kernel's result is wrong")
        return row(10, 20, m=sizes["m"])

    fake.__dict__.update(
        bench_shape=bench_shape, require_gpu=lambda: None, Effort=lambda *counts: SimpleNamespace(counts=counts)
    )
    monkeypatch.setitem(sys.modules, "scalec.bench.shape", fake)
    monkeypatch.setattr(provenance, "of_machine", lambda: {"date": "2026-11-21 10:00"})
    spec = SimpleNamespace(dropped=(), target="sm_90a", source=FP8)

    def run(suite: Suite, output: str) -> None:
        make = lambda dims: SimpleNamespace(spec=spec)  # noqa: E731
        bench.measure(make, suite, rounds=3, sustained=2, block_seconds=0.1, output=output)

    return run


def test_a_shape_that_fails_does_not_cost_the_others(measured, tmp_path, capsys):
    path = tmp_path / "result.json"
    with pytest.raises(ScalecError, match="1 of 3 shapes failed") as error:
        measured(SHAPES, str(path))
    assert "m=2, n=128, k=256" in str(error.value)
    data = json.loads(path.read_text())
    assert [s["dims"]["m"] for s in data["shapes"]] == [1, 3]
    assert "is wrong" in data["failed"]["m=2, n=128, k=256"]
    assert data["geometric_means"]["one"]["shapes"] == 1
    assert "of which the first 33 ms do not count" in data["method"]
    out, err = capsys.readouterr()
    assert "2/3: m=2" in err
    assert "geometric mean over 2 shapes: 2.000" in out


def test_the_file_is_written_after_each_shape(measured, tmp_path, monkeypatch):
    path, seen = tmp_path / "result.json", []
    monkeypatch.setattr(bench, "write_result", lambda text, to: seen.append(len(json.loads(text)["shapes"])))
    with pytest.raises(ScalecError):
        measured(SHAPES, str(path))
    assert seen == [1, 1, 2]


def test_a_single_shape_fails_as_it_did(measured, tmp_path):
    with pytest.raises(ScalecError, match="result is wrong"):
        measured(Suite(FP8, SHAPES.shapes[1:2]), str(tmp_path / "r.json"))


def test_contenders_of_a_file(tmp_path):
    path = tmp_path / "more.py"
    path.write_text(
        """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Theirs:
    sizes: dict

def contenders(spec, dims):
    return {"theirs": Theirs(dims)}
"""
    )
    found = bench.load_contenders(str(path))(None, {"m": 1})  # type: ignore[arg-type]
    assert found["theirs"].sizes == {"m": 1}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "expected: a Python file"),
        ("x = 1\n", "a function contenders"),
        ("import no_such_module\n", "no_such_module"),
    ],
)
def test_files_without_contenders(tmp_path, text, said):
    path = tmp_path / "more.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ScalecError) as error:
        bench.load_contenders(str(path))
    assert said in str(error.value)
