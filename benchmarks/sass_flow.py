"""SASS as nvdisasm prints it: instructions with their control words, the flow between them, and its loops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

CLASSES = {
    "tensor": "HMMA QMMA OMMA IMMA DMMA HGMMA QGMMA IGMMA UTCHMMA UTCQMMA UTCOMMA UTCIMMA",
    "LDSM": "LDSM",
    "LDS": "LDS",
    "STSM": "STSM",
    "STS": "STS",
    "tensor memory": "LDTM STTM UTCCP UTCBAR",
    "global": "LD LDG LDGSTS LDGDEPBAR LDC LDCU ST STG",
    "local": "LDL STL",
    "TMA": "UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH",
    "mbarrier": "SYNCS NANOSLEEP",
    "sync": "BAR WARPSYNC BSSY BSYNC DEPBAR WARPGROUP FENCE MEMBAR YIELD ELECT VOTE VOTEU",
    "branch": "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT",
    "NOP": "NOP",
    "MOV": "MOV CS2R S2R S2UR",
    "UMOV": "UMOV",
    "R2UR": "R2UR",
    "convert": "F2FP F2F F2I I2F I2FP",
    "shuffle": "SHFL",
    "FP32": "FFMA FFMA2 FMUL FMUL2 FADD FADD2",
}
"""Classes of instructions, by the opcode up to its first dot; see `Instruction.kind` for the others."""

_KINDS = {opcode: name for name, opcodes in CLASSES.items() for opcode in opcodes.split()}


@dataclass(frozen=True)
class Instruction:
    """One SASS instruction.

    Attributes:
        address: byte offset in its function.
        guard: the predicate it runs under, e.g. "!P0"; "" without one.
        opcode: with its modifiers, e.g. "LDSM.16.M88.4".
        operands: the rest of its text.
        control: the upper 64 of its 128 bits, where ptxas writes how it is to be issued.
    """

    address: int
    guard: str
    opcode: str
    operands: str
    control: int

    @property
    def stall(self) -> int:
        """Cycles before the warp may issue its next instruction: bits 105 to 108 of the 128."""
        return self.control >> 41 & 0xF

    @property
    def board(self) -> int:
        """The scoreboard that counts it until its results are there, 7 for none: bits 110 to 112 of the 128."""
        return self.control >> 46 & 7

    @property
    def awaited(self) -> int:
        """The six scoreboards that it waits for, a bit each: bits 116 to 121 of the 128."""
        return self.control >> 52 & 0x3F

    @property
    def stem(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def kind(self) -> str:
        """Its class: one of CLASSES, else "uniform" (a warp's own arithmetic) or "ALU"."""
        if self.guard == "!UPT":  # never runs: ptxas's filler
            return "NOP"
        if self.opcode.startswith("IMAD.MOV"):
            return "MOV"
        return _KINDS.get(self.stem, "uniform" if self.stem.startswith("U") else "ALU")

    @property
    def targets(self) -> list[str]:
        """The labels that it names."""
        return re.findall(r"\.L_[\w$]+", self.operands)

    @property
    def conditional(self) -> bool:
        """Whether the next instruction may run after it though it is a jump: a guard, or a condition as an operand."""
        return self.guard not in ("", "PT", "UPT") or not re.fullmatch(r"(`\(\S+\))?", self.operands)


@dataclass(frozen=True)
class Function:
    """A function's instructions in order of address, and the position that each label stands before."""

    name: str
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


_SECTION = re.compile(r"^\.text\.(\S+):")
_LABEL = re.compile(r"^([\w.$]+):\s*$")
_FIRST = re.compile(
    r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:@(?P<guard>!?U?P\w)\s+)?(?P<opcode>[^\s;]+)\s*(?P<operands>[^;]*?)\s*;"
    r"\s*/\* 0x[0-9a-f]{16} \*/"
)
_SECOND = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/")


def parse(text: str) -> list[Function]:
    """Reads what `nvdisasm -c -hex` prints."""
    found: list[tuple[str, list[Instruction], dict[str, int]]] = []
    first: re.Match[str] | None = None
    for line in text.splitlines():
        if section := _SECTION.match(line):
            found.append((section[1], [], {}))
        elif not found:
            continue
        elif label := _LABEL.match(line):
            found[-1][2][label[1]] = len(found[-1][1])
        elif matched := _FIRST.match(line):
            first = matched
        elif first and (second := _SECOND.match(line)):
            fields = first["guard"] or "", first["opcode"], first["operands"]
            found[-1][1].append(Instruction(int(first["address"], 16), *fields, int(second[1], 16)))
            first = None
    return [Function(name, tuple(code), labels) for name, code, labels in found if code]


def architecture(text: str) -> str:
    """The target that a disassembly names, e.g. "sm_120a"; "" where it names none."""
    named = re.search(r"^\s*\.target\s+(sm_\w+)", text, re.MULTILINE)
    return named[1] if named else ""


def successors(function: Function) -> list[list[int]]:
    """For each instruction, the positions of those that may run next."""
    code, labels = function.instructions, function.labels
    joins: dict[str, list[int]] = {}  # where the threads meet again that a barrier register holds
    following = []
    for i, x in enumerate(code):
        targets = [labels[name] for name in x.targets if name in labels]
        falls_through = True
        if x.stem == "BSSY":
            joins[x.operands.partition(",")[0]] = targets
            targets = []
        elif x.stem == "BSYNC":
            targets = joins.get(x.operands, [])
            falls_through = x.guard != "" or not targets
        elif x.stem in ("BRA", "JMP"):
            falls_through = x.conditional
        elif x.stem in ("EXIT", "RET", "BRX", "BRXU", "JMX", "JMXU", "KILL"):
            falls_through = x.guard != ""
        else:
            targets = []
        following.append(sorted({*targets, *([i + 1] if falls_through else [])} & set(range(len(code)))))
    return following


def _reverse_postorder(following: Sequence[Sequence[int]]) -> list[int]:
    order, seen, open_ = [], {0}, [(0, iter(following[0]))]
    while open_:
        at, rest = open_[-1]
        new = next((i for i in rest if i not in seen), None)
        if new is None:
            order.append(at)
            open_.pop()
        else:
            seen.add(new)
            open_.append((new, iter(following[new])))
    return order[::-1]


def natural_loops(following: Sequence[Sequence[int]]) -> dict[int, set[int]]:
    """The loops of a flow graph whose entry is node 0: for each header, the nodes of its loop.

    An edge to a node that dominates its source closes a loop. Loops of one header are one.
    """
    order = _reverse_postorder(following)
    before: dict[int, list[int]] = {i: [] for i in order}
    for i in order:
        for j in following[i]:
            before[j].append(i)
    dominators = dict.fromkeys(order, -1) | {0: 1}  # a set is an integer, node i its bit i
    changed = True
    while changed:
        changed = False
        for i in order[1:]:
            common = -1
            for j in before[i]:
                common &= dominators[j]
            common |= 1 << i
            changed |= common != dominators[i]
            dominators[i] = common
    loops: dict[int, set[int]] = {}
    for i in order:
        for header in following[i]:
            if dominators[i] >> header & 1:
                body, reach = loops.setdefault(header, {header}), [i]
                while reach:
                    j = reach.pop()
                    if j not in body:
                        body.add(j)
                        reach += before[j]
    return loops
