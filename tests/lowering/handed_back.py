"""Loads of shared memory that are under way when a warp tells that it has read: no emulated load is, only hardware's.

ptxas waits for a load where its result is used, and an arrival at an mbarrier is no use. Whoever is told may then have
a copy overwrite what has not been loaded yet (docs/notes/toolchain.md). Two halves find that. An emulated launch says
which loads' bytes a copy overwrites, and which of the reader's arrivals that is ordered behind (`HandOver`). Machine
code says whether the load is sure to be complete there (`under_way`). Lines of the PTX tie the two together.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.sass_flow import Function, Instruction, parse, successors
from scalec.commands.sass import find
from scalec.emulator import launch
from scalec.emulator.machine import crew, judge, order, warp
from scalec.emulator.machine.pieces import fill, pick
from scalec.lowering import ptxas

_LOADS = ("LDS", "LDSM")
_TELLS = (
    "SYNCS.ARRIVE",
    "BAR",
    "UCGABAR_ARV",
    "UTMALDG",
    "UBLKCP",
    "LDGSTS",
)  # the last three: the reader's own copies


class HandOver(NamedTuple):
    """Lines of a load and of what told that it is done; `passed`: how often the latter ran in between, 2 for more."""

    load: int
    tell: int
    passed: int


class Watch:
    """Looks at launches of the emulator.

    Attributes:
        found: of each PTX text.
    """

    def __init__(self) -> None:
        self.found: dict[str, set[HandOver]] = defaultdict(set)
        self._texts: dict[int, tuple[str, Any]] = {}
        self._text = ""
        self._crew: Any = None
        self._write: tuple[Any, Any] = None, None
        self._begin()

    def _begin(self) -> None:
        self._warps: dict[tuple[int, int], Any] = {}  # by order and place in it
        self._told: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)  # likewise: clock -> line
        self._read: dict[tuple[int, int, int], tuple[Any, np.ndarray, np.ndarray]] = {}  # bytes' lines and clocks

    def _line(self, reader: Any) -> int:
        if self._crew is not None and reader in self._crew.warps:
            reader = self._crew
        return reader.kernel.code[reader.pc - 1].line

    @contextmanager
    def on(self) -> Generator[Watch]:
        """While it looks."""
        parse_, machine, init, execute = launch.parse, launch.Machine, warp.Warp.__init__, crew.Crew.execute
        note_read, join = judge.Judge.note_read, order.View.join
        writes, note_pending = judge.Judge.writes, judge.Judge.note_pending

        def parses(text: str) -> Any:
            made = parse_(text)
            self._texts[id(made)] = text, made
            return made

        def begins(kernel: Any, *rest: Any) -> Any:
            self._begin()
            self._text = self._texts[id(kernel.module)][0]
            return machine(kernel, *rest)

        def is_made(made: Any, cta: Any, *rest: Any) -> None:
            init(made, cta, *rest)
            self._warps[id(cta.cluster.order), made.agent.index] = made

        def executes(made: Any, run: Any) -> bool:
            self._crew = made
            try:
                return execute(made, run)
            finally:
                self._crew = None

        def reads(of: Any, segment: Any, at: Any, among: Any, agent: int, clock: int, **how: Any) -> None:
            note_read(of, segment, at, among, agent, clock, **how)
            reader = self._warps.get((id(among), agent))
            if segment.space == "shared" and reader is not None:
                key, size = (id(segment), id(among), agent), segment.data.size
                _, lines, clocks = self._read.setdefault(
                    key, (segment, np.zeros(size, np.int32), np.zeros(size, np.int32))
                )
                fill(lines, at, self._line(reader))
                fill(clocks, at, clock)

        def joins(to: Any, other: Any) -> None:
            join(to, other)
            reader = self._warps.get((id(other.order), other.index)) if type(other) is order.Agent else None
            if reader is not None:
                self._told[id(other.order), other.index][int(other.seen[other.index])] = self._line(reader)

        def writes_(of: Any, segment: Any, at: Any, among: Any, view: Any, **how: Any) -> None:
            writes(of, segment, at, among, view, **how)
            self._write = among, view

        def pends(of: Any, segment: Any, at: Any, operation: int) -> None:
            note_pending(of, segment, at, operation)
            self._overwritten(segment, at, *self._write)

        with (
            patch.object(launch, "parse", parses),
            patch.object(launch, "Machine", begins),
            patch.object(warp.Warp, "__init__", is_made),
            patch.object(crew.Crew, "execute", executes),
            patch.object(crew, "_WARM", 1 << 60),  # a batch of instructions has one line
            patch.object(judge.Judge, "note_read", reads),
            patch.object(judge.Judge, "writes", writes_),
            patch.object(judge.Judge, "note_pending", pends),
            patch.object(order.View, "join", joins),
        ):
            yield self

    def _overwritten(self, segment: Any, at: Any, among: Any, view: Any) -> None:
        """By an asynchronous operation, which is issued by who has observed `view`."""
        for (place, whose, agent), (_, lines, clocks) in self._read.items():
            if (place, whose) != (id(segment), id(among)) or not (read := pick(lines, at)).any():
                continue
            seen, told = int(view.seen[agent]), self._told[whose, agent]
            own = getattr(view, "index", -1) == agent
            tell = self._line(self._warps[whose, agent]) if own else told[seen]
            for line, clock in {*zip(read.ravel().tolist(), pick(clocks, at).ravel().tolist(), strict=True)} - {(0, 0)}:
                if line:
                    passed = sum(told.get(x) == tell for x in range(clock, seen))
                    self.found[self._text].add(HandOver(line, tell, min(passed, 2)))
            fill(lines, at, 0)


def under_way(function: Function, load: int, tells: Collection[int], passed: int = 0) -> list[Instruction]:
    """Of the instructions at `tells` those at which a load may not be complete, when so many of them have been passed.

    A load is complete when its scoreboard was waited for, or that of a later load: they come in order, and ptxas gives
    one of several a scoreboard.
    """
    code, following = function.instructions, successors(function)
    own = code[load].board
    known: dict[tuple[int, int], frozenset[int]] = {}
    work = [(i, 0, frozenset({own} - {7})) for i in following[load]]
    found = set[int]()
    while work:
        at, count, boards = work.pop()
        before = known.get((at, count))
        if before is not None and before <= boards:
            continue
        known[at, count] = boards = boards if before is None else boards & before
        x = code[at]
        emptied = re.match(r"SB(\d), 0x0\b", x.operands) if x.stem == "DEPBAR" else None
        awaited = x.awaited | (1 << int(emptied[1]) if emptied else 0)
        if x.stem in ("MEMBAR", "FENCE") or any(awaited >> board & 1 for board in boards):
            continue
        if at in tells:
            if count == passed:
                found.add(at)
                continue
            count += 1
        if x.stem in _LOADS and x.board < 7 and not x.guard:
            boards |= {x.board}
        work += [(i, count, boards) for i in following[at]]
    return [code[i] for i in sorted(found)]


def early(ptx: str, target: str, hand_overs: Collection[HandOver]) -> list[tuple[HandOver, Instruction]]:
    """Those whose load may be under way, and at which instruction. Of a load that ptxas left out, or put together with
    another one, nothing is known."""
    function, lines = _with_lines(ptx, target)
    code, found = function.instructions, list[tuple[HandOver, Instruction]]()
    for x in sorted(hand_overs):
        tells = [i for i, y in enumerate(code) if lines[i] == x.tell and y.opcode.startswith(_TELLS)]
        for i, y in enumerate(code):
            if lines[i] == x.load and y.stem in _LOADS:
                found += [(x, at) for at in under_way(function, i, tells, x.passed)]
    return found


def _with_lines(ptx: str, target: str) -> tuple[Function, list[int]]:
    """Machine code, and of each instruction its line in the PTX."""
    (disassembler, _), text = find("nvdisasm"), ""
    with ptxas.scratch() as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        subprocess.run([ptxas.find(), f"-arch={target}", "-lineinfo", source, "-o", cubin], check=True)
        made = subprocess.run([disassembler, "-c", "-hex", "-gp", cubin], check=True, capture_output=True, text=True)
        text = made.stdout
    (function,) = parse(text)
    line, of = 0, dict[int, int]()
    for x in re.finditer(
        r'^\s*//## File "\.nv_debug_ptx_txt", line (\d+)|^\s+/\*([0-9a-f]{4,})\*/\s', text, re.MULTILINE
    ):
        if x[1]:
            line = int(x[1])
        else:
            of[int(x[2], 16)] = line
    return function, [of[x.address] for x in function.instructions]
