"""What a usual run has of a sweep, and that CI skips nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import tiers
from tests.reach import Case, Lowered, cases
from tests.repeats import added, chosen, text
from tests.tiers import LONG, REPEATS, covering, fields, of_share, repeats

ROOT = Path(__file__).parents[1]

CASES = """
import pytest

@pytest.mark.once("a", "b")
@pytest.mark.parametrize("b", ["x", "y"])
@pytest.mark.parametrize("a", [1, 2, 3])
def test_product(a, b): ...

@pytest.mark.once("a", touches=lambda a, schedule: schedule)
@pytest.mark.parametrize(("a", "schedule"), [(1, ["t"]), (1, ["t", "s"]), (2, ["t"]), (1, ["s"])])
def test_rows(a, schedule): ...

@pytest.mark.once
@pytest.mark.parametrize("a", [1, 2, 3])
def test_one(a): ...
"""
SKIPPED = """
import pytest

def test_by_itself(): pytest.skip("no such tool")

@pytest.mark.skipif(True, reason="no such tool")
def test_by_a_mark(): ...

@pytest.mark.xfail(strict=True)
def test_that_fails_as_it_should(): assert False

@pytest.mark.gpu
def test_of_a_gpu(): pytest.skip("no GPU")
"""


def run(folder: Path, text: str, *arguments: str, **environment: str) -> str:
    """What pytest says of a file, under this project's conftest.py and markers."""
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c",
               str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-m", "", *arguments, str(folder)]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False).stdout


def test_a_usual_run_has_each_value_once(tmp_path: Path) -> None:
    found = run(tmp_path, CASES, "-q", "--collect-only", "-m", "not thorough")
    assert [line.partition("::")[2] for line in found.splitlines() if "::" in line] == [
        "test_product[1-x]", "test_product[2-y]", "test_product[3-x]", "test_rows[1-schedule1]",
        "test_rows[2-schedule2]", "test_one[1]",
    ]  # fmt: skip


def test_cases_that_add_most_come_first_and_others_are_spread() -> None:
    some = [{"a"}, {"a", "b"}, {"b", "c"}]
    assert covering(some, some) == [1, 2]
    pairs = [{i, ("seed", s)} for i in range(4) for s in range(2)]
    assert covering(pairs, pairs) == [0, 3, 4, 7]
    assert covering([pair - {0, 1, 2, 3} for pair in pairs], pairs) == [0, 3]
    assert covering([set(), set()], [{1}, {2}]) == [0]


def test_a_share_of_the_thorough_cases(tmp_path: Path) -> None:
    found = run(tmp_path, CASES, "-q", "--collect-only", TEST_SHARE="1/3")
    assert [line.partition("::")[2] for line in found.splitlines() if "::" in line] == [
        "test_product[1-x]", "test_product[1-y]", "test_product[2-y]", "test_product[3-x]", "test_rows[1-schedule0]",
        "test_rows[1-schedule1]", "test_rows[2-schedule2]", "test_one[1]", "test_one[3]",
    ]  # fmt: skip


def test_shares_are_disjoint_and_hold_all() -> None:
    items: list[Any] = [Item(str(i)) for i in range(7)]
    for item in items[1:]:
        item.add_marker(pytest.mark.thorough)
    shares = [[item.nodeid for item in of_share(items, (i, 3))] for i in range(3)]
    assert shares == [["0", "3", "6"], ["0", "1", "4"], ["0", "2", "5"]]
    assert of_share(items, (0, 1)) == items


def test_fields_of_schedules() -> None:
    assert fields("tile=64x64x64, split=2") == ["tile", "split"]
    assert fields(("C[m,n]:f32 += A[m,k] @ B[n,k]", "swap=1, order=m", (1, 2, 3))) == ["swap", "order"]


@pytest.mark.parametrize(
    ("environment", "outcome"), [({"CI": "1"}, "1 failed, 1 skipped, 1 xfailed, 1 error"), ({}, "3 skipped, 1 xfailed")]
)
def test_nothing_but_a_gpu_is_a_reason_to_skip_in_ci(environment: dict[str, str], outcome: str, tmp_path: Path) -> None:
    assert outcome in run(tmp_path, SKIPPED, **environment)


def test_a_module_that_is_skipped_fails_in_ci(tmp_path: Path) -> None:
    text = "import pytest\npytest.importorskip('there_is_no_such_module')"
    assert "skipped in CI" in run(tmp_path, text, CI="1")


ADDS = """
from tests.emulator.harness import module, run_ptx

def test_add(): run_ptx(module("add.u32 %r0, 1, 1;", ""), [])
"""


@pytest.mark.thorough
@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_usual_run_without_an_instruction_fails(processes: str, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(ADDS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\naddopts = --import-mode=importlib")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-n", processes]
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "1 passed" in done.stdout
    assert "no test ran mul.f32, a row" in done.stdout
    assert "no test ran add.u32," not in done.stdout
    command += ["-k", "add"]
    assert subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode == 0


def test_what_reaches_most_for_its_time_is_usual_and_all_is_reached() -> None:
    given = {"dear": (9, "abcd"), "quick": (1, "ab"), "same": (1.1, "ab"), "other": (3, "c"), "cheap": (0.1, "a")}
    cases = [Case(name, seconds, True, frozenset(reached)) for name, (seconds, reached) in given.items()]
    assert chosen(cases) == {"cheap", "dear"}  # what "quick" and "other" have is there with "dear", too
    assert chosen(cases[1:]) == {"cheap", "quick", "other"}
    targets = [Case("other target", 5, True, frozenset({"a", Lowered("sm_90a", "c"), Lowered("sm_90a", "d")}))]
    assert chosen([*cases, *targets]) == chosen(cases)
    assert chosen([*cases, replace(targets[0], seconds=0.5)]) == {*chosen(cases), "other target"}
    assert chosen(cases, cheap=2) == {"cheap", "quick", "same", "other", "dear"}
    several = [Case(f"test[{seconds}]", seconds, True, frozenset("a")) for seconds in (0.15, 0.12, 0.18)]
    assert chosen([*cases, *several]) == {*chosen(cases), "test[0.12]"}


def test_a_list_says_what_is_not_usual() -> None:
    names = ["a.py::one[1]", "a.py::one[x, [y] ]", "a.py::two", "b.py::three[1]", "b.py::three[2]", "c.py::four"]
    written = text(names, {"a.py::one[1]", "c.py::four"})
    assert repeats(written) == {"a.py::one[x, [y] ]", "a.py::two", "b.py::three"}
    more = added(written, ["c.py::four", "a.py::one[2]", "a.py::five[[z]]"])
    assert repeats(more) == {*repeats(written), "c.py::four", "a.py::one[2]", "a.py::five[[z]]"}
    assert added(more, []) == more


@pytest.mark.parametrize("path", [REPEATS, LONG])
def test_the_list_names_tests_that_there_are(path: Path) -> None:
    for name in repeats(path.read_text()):
        file, _, function = name.partition("[")[0].rpartition("::")
        there = re.search(rf"^(def {function}\(|{function} = )", (ROOT / file).read_text(), re.MULTILINE)
        assert there, f"{name}, in {path.name}, was renamed or is no more"


class Item:
    """A case that has no more than a name and markers."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.markers: list[Any] = []

    def add_marker(self, marker: Any) -> None:
        self.markers.append(marker)

    def get_closest_marker(self, name: str) -> Any:
        return next((m for m in self.markers if m.name == name), None)


def test_a_listed_case_is_thorough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "REPEATS", tmp_path / "list.txt")
    tiers.REPEATS.write_text("a.py\n  one\n    [x]\n  two\n")
    items = [Item(name) for name in ("a.py::one[x]", "a.py::one[y]", "a.py::two[x]", "a.py::other", "b.py::two")]
    items[2].add_marker(pytest.mark.thorough)
    tiers.mark(items)
    assert [[m.name for m in item.markers] for item in items] == [
        ["thorough", "repeats"], [], ["thorough"], [], [],
    ]  # fmt: skip


REACHES = """
import subprocess, sys
from scalec.formats import FORMATS

def test_one():
    import scalec
    kernel = scalec.compile("C[m,n] = A[m,k] @ B[n,k]", target="sm_90a")

def test_no_more(): pass

def test_process(): subprocess.run([sys.executable, "-c", ""], check=True)
"""


@pytest.mark.thorough
def test_what_a_case_reaches(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    told = run(tmp_path, REACHES, "-p", "tests.reach", "-q", TEST_REACH=str(tmp_path / "left"), SCALEC_CACHE="0")
    assert "3 passed" in told
    one, none, process = sorted(cases(tmp_path / "left"), key=lambda c: c.name != "test_it.py::test_one")
    assert one.seconds > none.seconds
    assert {"sm_90a", ("sm_90a", "tile=#"), ("sm_90a", "tile.mma"), "test_it.py"} <= one.reached
    blocks = {str(x).partition(":")[0] for x in one.reached}
    assert {"scalec.api", "scalec.passes.pipeline", "scalec.lowering.builder"} <= blocks
    assert none.reached == {"test_it.py"}
    assert process.reached == {"test_it.py", "test_it.py::test_process"}


def test_ci_runs_both_tiers() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    assert "export CI=1" in text
    assert "-m 'thorough and not gpu'" in text
