"""docs/instructions.md is current, lists every instruction that the emulator knows, and holds nothing but PTX."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scalec.emulator.findings import KINDS, SILENT, EmulatorError
from scalec.emulator.instructions import table
from scalec.lowering import ptxas as assembler
from tests import instruction_table
from tests.emulator.harness import run_ptx
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


# mbarriers in shared memory, 256 bytes apart
_BARRIERS = "mov.u32 %r99, smem; mov.u32 %r98, %tid.x; setp.ne.u32 %p63, %r98, 0; @%p63 bra GO; " + " ".join(
    f"mbarrier.init.shared.b64 [%r99+{256 * i}], 1;" for i in range(1, 9)
)
_REGISTERS = {
    "addresses": "add.u32 %r{0}, %r99, {1}; mov.u64 %rd{0}, gmem;",
    "numbers": "mov.u32 %r{0}, 0x3F8000{0:02d}; mov.u64 %rd{0}, 0x3FF00000000000{0:02d};",
}


@pytest.mark.thorough
@pytest.mark.parametrize("what", _REGISTERS)
def test_what_is_modelled_is_executed(what: str) -> None:
    """One instance of each form by four warps, whatever is found of it: that is all it ends by."""
    given = _REGISTERS[what] + " mov.u16 %h{0}, 0x3C{0:02d}; cvt.u8.u16 %c{0}, %h{0}; setp.eq.u32 %p{0}, 1, 1;"
    given += " mov.b128 %q{0}, {{%rd{0}, %rd{0}}};"
    registers = " ".join(given.format(i, 256 * i) for i in range(12))
    said = instruction_table.answers()
    for form in instruction_table.forms():
        instance = next((x for x, why in zip(form.instances, said[form.text], strict=True) if not why), None)
        if instance is None:
            continue
        lines = [_BARRIERS, "fence.proxy.async; GO: bar.sync 0;", registers, instance]
        try:
            text = instruction_table.module(form.target, lines).replace("L:\n", "").replace("ret; }", "L: ret; }")
            text = text.replace("smem[64]", "smem[4096]").replace("gmem[64]", "gmem[4096]").replace("%r<64>", "%r<300>")
            run_ptx(text, [], entry="forms", block=(128, 1, 1), ignore=frozenset(KINDS) - frozenset(SILENT))
        except EmulatorError:
            pass
