"""Draws schedules: fields of weights.py, of which those that cannot be are left out when they are refused."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from scalec.formats import ELEMENT_TYPES
from scalec.targets import TARGETS
from tests.fuzz.case import Case
from tests.fuzz.weights import CONVERTERS, FIELD_VALUES, WAYS, pick
from tests.fuzz.written import Written

Drawn = TypeVar("Drawn", Case, Written)


def schedule(random: Random, case: Case | Written) -> dict[str, str]:
    """Some fields, of which those that cannot be are left out when they are refused: any, or ways that are seldom taken
    with what each of them asks for, two or three together."""
    drawn = {}
    if random.random() < 0.5:
        for way in random.sample(sorted(WAYS), random.choice((1, 2, 2, 3))):
            drawn |= {name: random.choice(values) for name, values in WAYS[way].items() if name not in drawn}
        return drawn
    if random.random() < 0.5:
        drawn["tile"] = _tile(random, case)
    for name in random.sample(sorted(FIELD_VALUES), random.choice((1, 2, 3, 4, 5))):
        drawn[name] = pick(random, FIELD_VALUES[name])
    return drawn


def told(random: Random, case: Drawn) -> Drawn:
    """A case with a schedule, all of whose sizes the compiler knows: much that is seldom chosen asks for that."""
    if not case.schedule or case.ranges or random.random() < 0.4:
        return case
    return case.but(known=tuple(case.launches[0]), launches=case.launches[:1])


def converted(random: Random, case: Case | Written, fields: dict[str, str]) -> dict[str, str]:
    """A schedule with what converts operands, where no instruction takes their types as they are."""
    elements = [x.element for x in case.operands[:2]]
    if not elements or TARGETS[case.target].mma_for(elements[0], elements[-1]) is not None:
        return fields
    if case.target == "sm_90a" and random.random() < 0.4:
        right = ELEMENT_TYPES[elements[0]].bits > ELEMENT_TYPES[elements[-1]].bits
        fields = {k: v for k, v in fields.items() if random.random() < 0.5}  # so that fewer refuse it
        return fields | {"convert": "registers", "converters": "0"} | ({"swap": "1"} if right else {})
    if fields and random.random() < 0.5:
        return fields | {"converters": pick(random, CONVERTERS)}
    return fields


def _tile(random: Random, case: Case | Written) -> str:
    family = TARGETS[case.target].mma_for(case.operands[0].element, case.operands[1].element)
    step = 32 if family is None else max(32, family.m)
    rows = step * (1 if step == 128 else random.choice((1, 1, 2, 2, 3, 4)))
    columns = random.choice((8, 16, 16, 24, 32, 32, 48, 64, 64, 80, 96, 128, 176, 192, 256))
    bits = max(x.bits for x in case.operands)
    k = random.choice((1, 2, 2, 2, 4)) * 512 // {6: 8}.get(bits, bits)  # mostly 128 bytes of a row
    return f"{rows}x{columns}x{k}"
