"""`scalec tune` without a GPU: what it refuses, what it lists and forgets, its table and its plot."""

from __future__ import annotations

import json
import sys
import types
from xml.etree import ElementTree

import pytest

from scalec.commands import tune as command
from scalec.errors import ScalecError
from scalec.measured import database
from scalec.measured.database import Entry
from scalec.sizes import Range
from scalec.tuning.tuner import Found, Job
from tests.early import without_what_follows

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
JOB = Job(FP8, "sm_90a", {"n": 7168, "k": 2048}, Range(1, 32))
FACTS = {"gpu": "Made-up GPU", "date": "2026-11-21 20:00", "driver": "1"}


def found(low: int, high: int, us: float) -> Found:
    times = {"default": 10.0, "torch": 12.5}
    schedule = {"swap": "1", "tile": "64x16x128", "cluster": "1x1", "split": "4", "stages": "8", "order": "n"}
    return Found(Range(low, high), high, "tile=64x16x128", schedule, us, 10.0, 4.0, 2 * high * 7168 * 2048, times,
                 ("torch",))  # fmt: skip


FOUND = [found(1, 16, 8.0), found(17, 32, 10.0)]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The user's file; nothing is shipped."""
    monkeypatch.setattr(database, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("SCALEC_TUNING", str(tmp_path / "tuning.json"))
    return tmp_path / "tuning.json"


def entry(m: tuple[int, int]) -> Entry:
    return Entry("sm_90a", "bf16 program", 7168, 2048, Range(*m), {"order": "m"}, {"tile": "64x16x128"},
                 {"us": 7.1, "gpu": "Made-up GPU", "date": "2026-11-21"})  # fmt: skip


@pytest.fixture
def torch_without_gpu(monkeypatch):
    """A torch that sees no GPU."""
    fake = types.ModuleType("torch")
    fake.cuda = types.SimpleNamespace(is_available=lambda: False)  # type: ignore[attr-defined]
    fake.__spec__ = types.SimpleNamespace(name="torch")  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "torch", fake)


def test_without_a_gpu(invoke, torch_without_gpu) -> None:
    result = invoke("tune", FP8, "--dim", "n=7168,k=2048", "--m", "1:64")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "error: tuning measures, and there is no CUDA GPU that torch can use\n"
        "  fix: run it on a machine with one; `scalec explain` predicts without\n"
    )


def test_the_emulator_measures_nothing(invoke, on_the_emulator) -> None:
    result = invoke("tune", FP8, "--dim", "n=7168,k=2048", "--m", "1:64")
    assert result.exit_code == 1
    assert "in the emulator nothing takes the time that it takes on a GPU" in result.stderr


def test_without_torch(invoke, monkeypatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert "tuning needs torch" in invoke("tune", FP8, "--m", "1:64").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--m", "1:8"], "Missing argument 'EXPR'"),
        ([FP8], "Missing option '--m'"),
        ([FP8, "--m", "8:1"], "the range 8:1 has no sizes"),
        ([FP8, "--m", "many"], "'many' is no number in digits, nor a range such as 1:4096"),
        ([FP8, "--m", "1:8", "--rounds", "0"], "0 is not in the range 1<=x<="),
        ([FP8, "--m", "1:8", "--workers", "0"], "0 is not in the range"),
    ],
)
def test_misuse(invoke, arguments: list[str], message: str) -> None:
    result = invoke("tune", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_list_and_forget(invoke, own) -> None:
    assert "no measured schedules" in invoke("tune", "--list").stderr
    database.write(own, [entry((1, 16)), entry((17, 32)), entry((33, 64))])
    lines = invoke("tune", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["1", "2", "3"]
    assert "bf16 program" in lines[1]
    assert "1:16" in lines[1]
    assert "order=m" in lines[1]
    assert "2 forgotten, 1 left" in invoke("tune", "--forget", "1,3").stderr
    assert [e.m for e in database.read(own)] == [Range(17, 32)]
    wrong = invoke("tune", "--forget", "2")
    assert (wrong.exit_code, "all, or numbers from 1 to 1" in wrong.stderr) == (1, True)
    wrong = invoke("tune", "--forget", "1" * 5000)
    assert (wrong.exit_code, "expected: all, or numbers from 1 to 1" in wrong.stderr) == (1, True)
    both = invoke("tune", "--list", "--forget", "1")
    assert (both.exit_code, "--list and --forget each do nothing else" in both.stderr) == (2, True)
    invoke("tune", "--forget", "all")
    assert database.read(own) == []


def test_the_table(capsys, own) -> None:
    command.report(JOB, FOUND, command.Files(), FACTS)
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["m", "schedule", "us", "default", "us", "gain", "TFLOP/s", "of", "roofline", "torch"]
    assert out[1].split()[0] == "1:16"
    assert "swap=1, tile=64x16x128, cluster=1x1, split=4, stages=8" in out[1]
    assert out[1].split()[-6:] == ["8.00", "10.00", "25.0%", "59", "50%", "12.50"]


def test_json(tmp_path, capsys, own) -> None:
    command.report(JOB, FOUND, command.Files(output=str(tmp_path / "out.json")), FACTS)
    data = json.loads((tmp_path / "out.json").read_text())
    assert (data["gpu"], data["dims"], [r["us"] for r in data["ranges"]]) == (
        "Made-up GPU", {"n": 7168, "k": 2048}, [8.0, 10.0])  # fmt: skip


@pytest.mark.thorough  # needs matplotlib, of the extra `check`
def test_plot(tmp_path, capsys, own) -> None:
    command.report(JOB, FOUND, command.Files(plot=str(tmp_path / "out.svg")), FACTS)
    drawn = (tmp_path / "out.svg").read_text()
    texts = [e.text for e in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"tuned", "default", "torch", "roofline (documents)", "m", "us"} <= set(texts)
    assert any("Made-up GPU" in str(text) for text in texts)


def test_a_plot_without_matplotlib_is_refused_before_anything_is_measured(own, monkeypatch) -> None:
    monkeypatch.setattr(command, "require_gpu", lambda: None)
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    with pytest.raises(ScalecError, match="a plot needs matplotlib"):
        command.tune_program(JOB, command.Files(plot="out.svg"))


def test_progress_without_a_terminal_is_lines(capsys) -> None:
    with command.progress_bar() as progress:
        for i in range(31):
            progress("compiling", i, 30)
    lines = capsys.readouterr().err.splitlines()
    assert 10 <= len(lines) <= 12
    assert lines[-1] == "compiling: 30 of 30"


def test_ranges_of_sizes_at_other_commands(invoke, tmp_path) -> None:
    assert "m = 1:8 is a range, and `run` needs one size" in invoke("run", FP8, "--dim", "m=1:8").stderr
    assert "m = 1:8 is a range, and `bench` needs one size" in invoke("bench", FP8, "--dim", "m=1:8").stderr
    told = invoke("explain", FP8, "--dim", "n=2112,k=7168,m=1:16").stdout
    assert "at m=16" in told
    assert "swap=1" in told
    with without_what_follows(["tile"]):
        several = invoke("compile", FP8, "--dim", "n=2112,k=7168,m=1:300", "--emit", "tile")
        invoke("compile", FP8, "--dim", "n=2112,k=7168,m=9:300", "--emit", "tile", "-o", f"{tmp_path}/out/")
    assert "kernels need a folder\n  got: m=1:" in several.stderr
    assert several.stderr.splitlines()[1].endswith(":300")
    names = [p.name.removesuffix(".tile.mlir") for p in (tmp_path / "out").iterdir()]
    parts = sorted(tuple(map(int, name.removeprefix("C-m").split("-"))) for name in names)
    assert len(parts) > 1
    assert (parts[0][0], parts[-1][1]) == (9, 300)
    assert [low for low, _ in parts[1:]] == [high + 1 for _, high in parts[:-1]]


def test_a_range_makes_the_kernels_of_a_bundle(invoke, tmp_path) -> None:
    from scalec.runtime import bundle

    def ranges() -> list[tuple[int, int]]:
        return [k.spec.ranges["m"] for k in bundle.load(tmp_path / "b")["C"].kernels]

    def whole(parts: list[tuple[int, int]]) -> bool:
        """Whether ranges follow each other from 1 to 100."""
        return [low for low, _ in parts] == [1, *(high + 1 for _, high in parts[:-1])] and parts[-1][1] == 100

    invoke("compile", FP8, "--dim", "n=2112,k=7168,m=1:100", "--bundle", f"{tmp_path}/b")
    assert len(ranges()) > 1
    assert whole(ranges())
    again = ("--schedule", "tile=64x64x128")  # other parts of the range, whose kernels replace the first ones
    invoke("compile", FP8, "--dim", "n=2112,k=7168,m=1:100", "--bundle", f"{tmp_path}/b", *again)
    assert whole(ranges())


def test_of_several_launches_the_first_is_tuned(invoke, monkeypatch) -> None:
    jobs: list[Job] = []
    monkeypatch.setattr(command, "require_gpu", lambda: None)
    monkeypatch.setattr(command, "tune_program", lambda job, *_, **__: jobs.append(job))
    source = "D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]"
    for n, launches in ((4096, 2), (64, 1)):
        result = invoke("tune", source, "--target", "sm_90a", "--dim", f"n={n},k=1024", "--m", "64:64")
        assert result.exit_code == 0
        assert ("launch 1 of 2 is tuned" in result.stderr) == (launches > 1)
    assert [job.source for job in jobs] == ["D_f32[m,n]:f32 = A[m,k] @ B[n,k]", source]
