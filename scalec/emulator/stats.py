"""What a run counts as it goes: instructions, bytes by path, tensor instructions, bank conflicts, waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalec.emulator.machine.kernel import Kernel
    from scalec.emulator.program import Instruction

_TENSOR = ("wgmma.mma_async", "mma", "tcgen05.mma", "wmma.mma")
# instruction class -> opcodes, or dotted prefixes; the first that fits
_CLASSES = {
    "tensor": _TENSOR,
    "tensor, other": ("wgmma", "tcgen05"),
    "matrix load and store": ("ldmatrix", "stmatrix"),
    "asynchronous copy": ("cp", "tensormap", "st.async", "red.async"),
    "barrier": ("mbarrier", "bar", "barrier", "fence", "membar", "griddepcontrol", "clusterlaunchcontrol"),
    "memory": ("ld", "st", "atom", "red", "prefetch", "multimem"),
    "lanes": ("shfl", "vote", "match", "redux", "elect", "activemask"),
    "control": ("bra", "brx", "ret", "exit", "call", "trap", "setmaxnreg", "nanosleep"),
    "conversion": ("cvt",),
    "move": ("mov", "selp", "prmt", "cvta", "mapa", "ld.param"),
}


class Stats:
    """The counters of a launch.

    Attributes:
        executed: instruction index -> how often a warp executed it.
        runs: (first, end) of straight runs of instructions -> the same, until `spread` adds it to `executed`.
        bytes: path, e.g. "global -> shared (bulk)" -> bytes.
        counts: anything else, by name.
        waits: what warps were put aside for -> how often.
        prefetched: addresses of sectors of 32 bytes that prefetch asked for, divided by 32.
    """

    def __init__(self) -> None:
        self.executed: defaultdict[int, int] = defaultdict(int)
        self.runs: Counter[tuple[int, int]] = Counter()
        self.bytes: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.prefetched: set[int] = set()

    def spread(self) -> None:
        for (first, end), times in self.runs.items():
            for pc in range(first, end):
                self.executed[pc] += times
        self.runs.clear()

    def add(self, other: Stats) -> None:
        """What another part of the same launch counted."""
        for pc, times in other.executed.items():
            self.executed[pc] += times
        self.runs.update(other.runs)
        self.bytes.update(other.bytes)
        self.counts.update(other.counts)
        self.waits.update(other.waits)
        self.prefetched |= other.prefetched

    def report(self, kernel: Kernel) -> dict[str, Any]:
        """All of it, ready for JSON: see the keys."""
        classes: Counter[str] = Counter()
        for pc, times in self.executed.items():
            classes[class_of(kernel.code[pc])] += times
        return {
            "warp instructions": sum(self.executed.values()),
            "by class": dict(classes.most_common()),
            "tensor loops": self._loops(kernel),
            "bytes": dict(sorted(self.bytes.items())),
            "counts": dict(sorted(self.counts.items())),
            "waits": dict(self.waits.most_common()),
        }

    def _loops(self, kernel: Kernel) -> list[dict[str, Any]]:
        """The innermost loops that hold tensor instructions, one pass of which is a K block in a kernel with a K loop:
        how often they ran, and what a warp executes in a pass."""
        ranges = sorted(_back_edges(kernel), key=lambda r: r[1] - r[0])
        found: list[tuple[int, int]] = []
        for first, last in ranges:
            holds = any(class_of(kernel.code[pc]) == "tensor" for pc in range(first, last + 1))
            if holds and not any(first <= begin and end <= last for begin, end in found):
                found.append((first, last))
        loops = []
        for first, last in sorted(found):
            passes = max(self.executed.get(pc, 0) for pc in range(first, last + 1) if kernel.code[pc].opcode == "bra")
            body: Counter[str] = Counter()
            for pc in range(first, last + 1):
                body[class_of(kernel.code[pc])] += self.executed.get(pc, 0)
            if passes:
                lines = [kernel.code[first].line, kernel.code[last].line]
                per_pass = {name: round(times / passes, 2) for name, times in body.most_common() if times}
                loops.append({"lines": lines, "passes": passes, "instructions in a pass": per_pass})
        return loops


def class_of(instruction: Instruction) -> str:
    """The class that an instruction is counted in; "arithmetic" where no other fits."""
    name = instruction.name
    for title, prefixes in _CLASSES.items():
        if any(name == p or name.startswith(p + ".") for p in prefixes):
            return title
    return "arithmetic"


def _back_edges(kernel: Kernel) -> list[tuple[int, int]]:
    """(first, last) instruction of every loop, as jumps backwards show them."""
    edges = []
    for pc, instruction in enumerate(kernel.code):
        if instruction.opcode == "bra":
            target = getattr(instruction.operands[0], "target", pc + 1)
            if target <= pc:
                edges.append((target, pc))
    return edges
