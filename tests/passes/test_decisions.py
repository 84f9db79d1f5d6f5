"""What each pass that decides fields of a schedule decides, by itself (decisions.txt), and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalec.errors import ScalecError, ScheduleError
from scalec.frontend import build
from scalec.ir import schedule as schedules
from scalec.ir.schedule import Request
from scalec.passes.base import Decision, programs
from scalec.passes.pipeline import FUSE, PIPELINE, find, run_pipeline
from scalec.targets import get_target

PROGRAMS: dict[str, str] = {}
TEXT = (Path(__file__).parent / "decisions.txt").read_text()


def cases() -> Iterator[Any]:
    """(passes, target, program, sizes, what is given, what is decided) of each row, for each target."""
    passes, targets = "", []
    for line in TEXT.splitlines():
        if " on sm_" in line:
            passes, _, rest = line.partition(" on ")
            targets = rest.split()
        elif " = " in line and not line.startswith((" ", "#")):
            name, _, PROGRAMS[name] = line.partition(" = ")
        elif " | " in line:
            program, sizes, given, decided = (cell.strip() for cell in line.split("|"))
            for target in targets:
                yield pytest.param(passes, target, program, sizes, given, decided, id=f"{target} {passes} {line}")


def after(passes: str, target: str, program: str, sizes: str, given: str) -> Request:
    """What is decided of a program behind some passes, each of which is the first of its kind."""
    source, row = PROGRAMS[program], get_target(target)
    names = dict.fromkeys(re.findall(r"\b[gmnk]\b", source))
    dims = {d: int(size) for d, size in zip(names, sizes.split("x"), strict=True) if size != "?"}
    module = build(f"{source} with {given}" if given else source, dims)
    run_pipeline(module, row, passes=find([*FUSE, *passes.split(",")]))
    return schedules.read(next(programs(module)))


@pytest.mark.parametrize(("passes", "target", "program", "sizes", "given", "decided"), list(cases()))
def test_decided(passes: str, target: str, program: str, sizes: str, given: str, decided: str) -> None:
    made = after(passes, target, program, sizes, given).texts()
    alone, wanted = decided.startswith("only"), dict(re.findall(r"(\w+)=(\w+)", decided))
    assert (made if alone else {field: made.get(field) for field in wanted}) == wanted


@pytest.mark.parametrize("step", [x for x in PIPELINE if isinstance(x, Decision) and x.needs], ids=lambda x: x.name)
def test_what_must_be_decided_before(step: Decision) -> None:
    with pytest.raises(ScheduleError, match=f"schedule field {', '.join(step.needs)} is not decided"):
        after(step.name, "sm_90a", "fp8", "4096x7168x2048", "")


@pytest.mark.parametrize(
    ("step", "given", "message"),
    [
        (
            "choose-tiling",
            "warpgroups=3, registers=24x32",
            r"no tile fits sm_90a with warpgroups=3, registers=24x32\n(?s:.*)and 33 more: rows that 3 warpgroups "
            "cannot share in waves of 64; (?s:.*)and 9 more: more than the 32 registers of a consumer thread",
        ),
        (
            "choose-stages",
            "tile=512x256x128, promote=128, warpgroups=2, epilogue=bulk",
            r"do not fit into shared memory\n  got: A 131072 \+ B 65536 \+ C 262144 \+ A_scale 32768 \+ barriers 32 = "
            r"491552 bytes\n  expected: at most 232448 bytes on sm_90a",
        ),
    ],
)
def test_refused(step: str, given: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        after(step, "sm_90a", "fp8", "4096x7168x2048", given)


def test_roles_come_first() -> None:
    module = build(PROGRAMS["fp8"], {})
    with pytest.raises(ScalecError, match=r"the contraction has no roles(?s:.*)run the pass infer-roles first"):
        run_pipeline(module, get_target("sm_90a"), passes=find(["choose-tiling"]))


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [("consumers", "turns", "one of cooperative, pingpong"), ("permute_n", "8", "0, 16 or 32 (columns)")],
)
def test_values_that_a_field_cannot_have(field: str, value: str, expected: str) -> None:
    with pytest.raises(ScheduleError, match=f"schedule field {field} cannot be '{value}'") as error:
        schedules.parse_field(field, value)
    assert error.value.expected == expected
