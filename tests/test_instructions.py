"""docs/instructions.md is current, lists every instruction that the emulator knows, and holds nothing but PTX."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scalec.emulator.instructions import table
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
    lines = [instance for form in chosen for instance in form.instances]
    path = tmp_path / "forms.ptx"
    path.write_text(instruction_table.module(target, lines))
    command = [ptxas(), f"-arch={target}", path, "-o", tmp_path / "forms.cubin"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    said = run.stdout + run.stderr
    refused = [
        f"{lines[int(n) - instruction_table.FIRST]} {why}" for n, why in re.findall(r"line (\d+); error\s*: (.*)", said)
    ]
    assert not refused
    assert run.returncode == 0, said
