"""docs/instructions.md is current, lists every instruction that the emulator knows, and holds nothing but PTX."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scalec.emulator.instructions import table
from scalec.lowering import ptxas as assembler
from tests import instruction_table
from tests.emulator.refusals import ptxas


@pytest.fixture(autouse=True)
def _unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decoded here counts for no test of the instructions themselves (tests/instructions.py)."""
    monkeypatch.setattr(table, "_TABLE", dict(table._TABLE))


def test_current() -> None:
    assert instruction_table.PATH.read_text() == instruction_table.document(), (
        "python -m tests.instruction_table writes it"
    )


def test_no_form_is_an_error() -> None:
    """What is refused is refused by name, never as a mistake of the program."""
    wrong = {text: said for text, said in instruction_table.answers().items() if any("ERROR" in s for s in said)}
    assert not wrong


def test_every_row_of_the_emulator_has_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    met = set()

    class Watched(dict):
        def get(self, key, default=None):
            if key in self:
                met.add((key.partition(".")[0], self[key][0]))
            return super().get(key, default)

    monkeypatch.setattr(table, "_TABLE", Watched(table._TABLE))
    instruction_table.answers()
    assert {(name.partition(".")[0], function) for name, (function, _) in table._TABLE.items()} <= met


@pytest.mark.once
@pytest.mark.parametrize("mark", ["", "pair"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_ptxas_takes_every_form(target: str, mark: str, tmp_path: Path) -> None:
    chosen = [
        form
        for form in instruction_table.forms()
        if form.target == target and "later" not in form.marks and ("pair" in form.marks) == (mark == "pair")
    ]
    if not chosen:
        return
    _takes(ptxas(), target, [instance for form in chosen for instance in form.instances], tmp_path)


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_a_later_ptxas_takes_the_later_forms(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALEC_PTXAS", raising=False)
    if tuple(map(int, assembler.version().split(".")[:2])) < (13, 2):  # the first to know PTX 9.2
        pytest.skip(f"ptxas {assembler.version()}")
    later = [form for form in instruction_table.forms() if form.target == target and "later" in form.marks]
    _takes(assembler.find(), target, [instance for form in later for instance in form.instances], tmp_path, "9.2")


def _takes(program: str | Path, target: str, lines: list[str], folder: Path, version: str = "9.0") -> None:
    path = folder / "forms.ptx"
    path.write_text(instruction_table.module(target, lines, version))
    command = [program, f"-arch={target}", path, "-o", folder / "forms.cubin"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    said = run.stdout + run.stderr
    refused = [
        f"{lines[int(n) - instruction_table.FIRST]} {why}" for n, why in re.findall(r"line (\d+); error\s*: (.*)", said)
    ]
    assert not refused
    assert run.returncode == 0, said
