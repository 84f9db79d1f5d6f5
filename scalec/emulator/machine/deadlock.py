"""The report of a launch in which no warp can go on: what is waited for, the likely cause first, and who waits.

A barrier that completes in part is the likely cause: somebody who counts for it came short. A barrier of threads comes
last where those who have not come to it wait for another one themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scalec.emulator.findings import Finding

if TYPE_CHECKING:
    from scalec.emulator.machine.signals import Condition
    from scalec.emulator.machine.warp import Warp
    from scalec.emulator.program import Instruction

_CONDITIONS, _PLACES = 6, 2  # what is told, and of each: a report of at most twenty lines
_WIDTH = 48  # characters of an instruction
_CTA = re.compile(r"CTA (\d+)")

Waiter = tuple[int, str, "Warp", str]  # instruction, lanes, warp, what it waits for


@dataclass
class _Alike:
    """Conditions of several CTAs that lack the same: the first one's text, where the others are, and who waits."""

    text: str
    waiters: list[Waiter] = field(default_factory=list)
    ctas: list[int] = field(default_factory=list)


def report(parked: Iterable[Warp], code: Sequence[Instruction]) -> Finding:
    """The finding; its kind is that of what is waited for."""
    waiters: dict[Condition, list[Waiter]] = {}
    for warp in sorted(parked, key=lambda w: (w.cta.number, w.index)):
        for (pc, mask), signal in warp.blocked.items():
            lanes = warp.lanes_text(np.frombuffer(mask, bool))
            waiters.setdefault(signal.condition, []).append((pc, lanes, warp, signal.what))
    groups: dict[tuple, _Alike] = {}
    for condition in sorted(waiters, key=lambda condition: condition.rank()):
        text, who = condition.describe(), waiters[condition]
        lacks = _CTA.sub("", text.partition("; arrived")[0])
        alike = groups.setdefault((lacks, *sorted({(pc, lanes) for pc, lanes, *_ in who})), _Alike(text))
        alike.waiters += who
        alike.ctas += map(int, _CTA.findall(text)[:1])
    lines = []
    for number, alike in enumerate([*groups.values()][:_CONDITIONS]):
        others = f" (and so in CTA {_runs(sorted(set(alike.ctas[1:])))})" if alike.ctas[1:] else ""
        lines.append(("    " if number else "") + alike.text + others)
        lines += [f"      awaited {line}" for line in _places(alike.waiters, code)]
    rest = [*groups.values()][_CONDITIONS:]
    if rest:
        warps = {warp for alike in rest for _, _, warp, _ in alike.waiters}
        lines.append(f"    ... and {len(rest)} more, which {len(warps)} warps wait for")
    kinds = {condition.kind for condition in waiters} - {"deadlock"}
    return Finding(
        min(kinds, default="deadlock"),
        "no warp can go on: " + "\n".join(lines),
        expected="every barrier phase completes",
    )


def _places(waiters: Sequence[Waiter], code: Sequence[Instruction]) -> list[str]:
    """Who waits, by instruction and lanes."""
    groups: dict[tuple[int, str, str], list[Warp]] = {}
    for pc, lanes, warp, what in waiters:
        groups.setdefault((pc, lanes, what), []).append(warp)
    shown = [
        f"by {_warps(warps)}, {lanes}, at line {code[pc].line} ({_cut(code[pc].text)}), {what}"
        for (pc, lanes, what), warps in groups.items()
    ]
    more = len(shown) - _PLACES
    return shown[:_PLACES] + ([f"at {more} more places"] if more > 0 else [])


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _warps(warps: Sequence[Warp]) -> str:
    """E.g. "warps 4-7 of CTA 0", and how many more."""
    by_cta: dict[int, list[int]] = {}
    for warp in warps:
        by_cta.setdefault(warp.cta.number, []).append(warp.index)
    (cta, found), *others = by_cta.items()
    plural = "s" * (len(found) > 1)
    rest = f" and {sum(len(found) for _, found in others)} of other CTAs" if others else ""
    return f"warp{plural} {_runs(found)} of CTA {cta}{rest}"


def _runs(numbers: Sequence[int]) -> str:
    """E.g. "0,4-7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
