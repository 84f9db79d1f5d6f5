"""docs/instructions.md, what the emulator executes of PTX; `python -m tests.instruction_table` writes it anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scalec.emulator.findings import EmulatorError
from scalec.emulator.flow import inline_calls
from scalec.emulator.instructions.table import Decoder, Refused, decode, known_functions
from scalec.emulator.launch import load
from scalec.emulator.machine.kernel import Kernel
from scalec.emulator.machine.memory import GlobalMemory

FORMS = Path(__file__).parent / "instruction_forms.txt"
PATH = Path(__file__).parents[1] / "docs" / "instructions.md"
DEFAULT = "sm_100a"
FIRST = 14

HEAD = """# What the emulator executes

Every instruction of chapter 9.7 of the [PTX ISA](https://docs.nvidia.com/cuda/parallel-thread-execution/) 9.2 and its
forms. What is refused stops a run when it is reached, by its name; a kernel may hold such instructions on paths that no
launch takes. `{a,b}` stands for a or b; operands are of the registers' sizes: h 16 bits, r 32, d 64, q 128, p a
predicate. `python -m tests.instruction_table` writes this table, by decoding each form, and tests/test_instructions.py
checks that the table is current.

"""
_REGISTER = re.compile(r"(?<![\w.%:])([hrdqpc])(?![\w:])")
_NAMES = {"h": "%h", "r": "%r", "d": "%rd", "q": "%q", "p": "%p", "c": "%c"}


@dataclass
class Form:
    """A line of FORMS."""

    section: str  # e.g. "9.7.1 Integer arithmetic"
    text: str  # as written, without its marks
    target: str
    marks: tuple[str, ...]
    instances: list[str] = field(default_factory=list)  # the instructions that the text stands for


def forms() -> list[Form]:
    """All of FORMS."""
    found, section = [], ""
    for line in FORMS.read_text().splitlines():
        if line.startswith("# "):
            section = line[2:]
        elif not line.startswith("//"):
            text, _, marks = line.partition(" @ ")
            given = marks.split()
            target = next((m for m in given if m.startswith("sm_")), DEFAULT)
            instances = [_operands(instance) for instance in _expanded(text)]
            found.append(Form(section, text, target, tuple(m for m in given if m != target), instances))
    return found


def _expanded(text: str) -> Iterator[str]:
    """The name with one of each pair of braces; those of the operands are PTX's."""
    name, space, operands = text.partition(" ")
    braces = re.search(r"\{([^{}]*)\}", name)
    if braces is None:
        yield text
        return
    for choice in braces[1].split(","):
        yield from _expanded(f"{name[: braces.start()]}{choice}{name[braces.end() :]}{space}{operands}")


def _operands(instance: str) -> str:
    """With registers, each another one of its size."""
    name, space, operands = instance.partition(" ")
    count = iter(range(1000))
    return name + space + _REGISTER.sub(lambda found: f"{_NAMES[found[1]]}{next(count)}", operands) + ";"


def module(target: str, lines: list[str], version: str = "9.0") -> str:
    """A module whose entry `forms` holds the lines, the first at line FIRST."""
    return "\n".join(
        [
            f".version {version}",
            f".target {target}",
            ".address_size 64",
            ".func f() { ret; }",
            ".global .align 16 .b8 gmem[64];",
            ".visible .entry empty() { ret; }",
            ".visible .entry forms() {",
            ".reg .pred %p<64>; .reg .b8 %c<64>; .reg .b16 %h<64>; .reg .b32 %r<64>;",
            ".reg .b64 %rd<64>; .reg .b128 %q<64>;",
            ".shared .align 16 .b8 smem[64];",
            "P: .callprototype (.param .b32 _) _ ();",
            "T: .branchtargets L, L;",
            "L:",
            *lines,
            "ret; }",
        ]
    )


def refusals(target: str, lines: list[str]) -> list[str]:
    """For each instruction of a target why the emulator refuses it, "" where it does not."""
    loaded = load(module(target, lines), GlobalMemory())
    kernel = Kernel(loaded.module, "empty", (128, 1, 1), 0, loaded.symbols)
    function = loaded.module.function("forms")
    assert function is not None
    kernel.function = inline_calls(loaded.module, function, known_functions())
    kernel.shared_layout = [(function.variables[0], 0)]
    decoder, found = Decoder(kernel), [""] * len(lines)
    for instruction in kernel.function.code[:-1]:
        try:
            step = decode(instruction, decoder)
        except EmulatorError as error:
            found[instruction.line - FIRST] = f"ERROR {error.message}"
        else:
            if isinstance(step, Refused):
                found[instruction.line - FIRST] = step.message
    return found


def answers() -> dict[str, list[str]]:
    """For each form, by its text, why the emulator refuses each of its instances; "" where it does not."""
    groups: dict[str, list[Form]] = {}
    for form in forms():
        groups.setdefault(form.target, []).append(form)
    found: dict[str, list[str]] = {}
    for target, group in groups.items():
        said = iter(refusals(target, [instance for form in group for instance in form.instances]))
        found |= {form.text: [next(said) for _ in form.instances] for form in group}
    return found


def document() -> str:
    """All of docs/instructions.md."""
    said, section, lines = answers(), "", [HEAD.rstrip("\n")]
    for form in forms():
        if form.section != section:
            section = form.section
            lines += ["", f"## {section}", "", "| form | emulator |", "|---|---|"]
        of = "" if form.target == DEFAULT else f" ({form.target})"
        written = form.text.replace("|", "\\|")
        lines.append(f"| `{written}`{of} | {_cell(form, said[form.text])} |")
    return "\n".join(lines) + "\n"


def _cell(form: Form, reasons: list[str]) -> str:
    """modelled, refused with the reason if that says more than the instruction's name, or which instances are."""
    refused = [reason for reason in reasons if reason]
    if not refused:
        return "modelled"
    names = {instance.partition(" ")[0].rstrip(";") for instance in form.instances}
    said = next((refused[0].removeprefix(name) for name in names if refused[0].startswith(name)), refused[0])
    said = "" if said.partition(" of ")[2] in names else said.removeprefix(": ")
    why = f": {said}" if said else ""
    if len(refused) == len(reasons):
        return f"refused{why}"
    parts = [i.partition(" ")[0] for i, reason in zip(form.instances, reasons, strict=True) if reason]
    return f"modelled, but `{'`, `'.join(parts)}`{why}"


if __name__ == "__main__":
    PATH.write_text(document())
