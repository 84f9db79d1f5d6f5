"""A kernel made ready to run: decoded instructions, where paths join, and where its variables lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from scalec.emulator import dataflow
from scalec.emulator.findings import Finding, NotModelled, PtxSyntaxError
from scalec.emulator.flow import END, inline_calls, joins, leaving, successors_of
from scalec.emulator.instructions.table import Decoder, Grouped, Step, decode, known_functions
from scalec.emulator.machine import crew, poison
from scalec.emulator.program import TYPE_BITS, Function, Instruction, Module, Variable

_GARBAGE = {8: np.uint8(0xCD), 16: np.uint16(0xCDCD), 32: np.uint32(0xFFF8CDCD), 64: np.uint64(0xFFF8CDCDCDCDCDCD)}
_TOGETHER = {"aligned", "sync"}  # modifiers of what the lanes of a warp execute together
_PARAM_LIMIT = 32764  # bytes of kernel parameters, PTX ISA 5.2.6 (sm_70 and later, PTX 8.1)
_LOCAL_LIMIT = 512 << 10  # bytes of a thread (CUDA programming guide, technical specifications)


@dataclass(frozen=True)
class Facts:
    """What a target allows.

    Attributes:
        shared_bytes: of shared memory that a CTA may have, dynamic and static.
        registers: 32-bit registers of an SM.
        features: "sm_90a", ... for what only some targets have.
    """

    name: str
    shared_bytes: int
    registers: int = 65536
    max_threads: int = 1024
    max_cluster: int = 16


# CUDA C++ Programming Guide, "Technical specifications per compute capability": shared memory per block, less 1 KB of
# the system's
TARGETS = {
    "sm_90": Facts("sm_90", 227 * 1024),
    "sm_90a": Facts("sm_90a", 227 * 1024),
    "sm_100": Facts("sm_100", 227 * 1024),
    "sm_100a": Facts("sm_100a", 227 * 1024),
    "sm_100f": Facts("sm_100f", 227 * 1024),
    "sm_103a": Facts("sm_103a", 227 * 1024),
    "sm_120": Facts("sm_120", 99 * 1024, max_cluster=8),
    "sm_120a": Facts("sm_120a", 99 * 1024, max_cluster=8),
    "sm_120f": Facts("sm_120f", 99 * 1024, max_cluster=8),
    "sm_80": Facts("sm_80", 163 * 1024, max_cluster=1),
    "sm_89": Facts("sm_89", 99 * 1024, max_cluster=1),
}


class Kernel:
    """An entry of a module, decoded for one launch shape.

    Attributes:
        steps: for each instruction, a function of the warp that executes it; plain: the same, but that nobody judges
            how it uses the registers of asynchronous tensor instructions, `shared_registers`.
        code: the instructions, for messages; ends: for each the first one from there on that is no part of a run.
        registers: per instruction, the indices of the registers that it names: `writes`, if it has results, of
            those, and `reads`, of its guard and the others.
        joins: per instruction, where paths that part there meet; leaving: whether only the thread's end is ahead.
        shared_layout: (variable, offset behind the system's bytes) of every shared variable.
        shared_bytes: static and dynamic; dynamic_bytes: the part that the launch gives.
        param_offsets: of the entry's parameters in the parameter segment.
        local_bytes: per thread.
        invalidates: whether there is an mbarrier.inval.
        passed: kinds of findings that do not stop the run.
    """

    def __init__(
        self,
        module: Module,
        entry: str,
        block: tuple[int, int, int],
        shared_bytes: int,
        symbols: dict[str, int],
        passed: frozenset[str] = frozenset(),
    ) -> None:
        if module.target not in TARGETS:
            raise NotModelled(f"target {module.target}; the emulator knows {', '.join(TARGETS)}")
        self.facts = TARGETS[module.target]
        self.module, self.block, self.passed = module, block, passed
        self.threads = block[0] * block[1] * block[2]
        function = module.function(entry)
        if function is None or not function.entry:
            entries = [f.name for f in module.functions.values() if f.entry]
            raise PtxSyntaxError(f"the module has no entry {entry!r}; it has {', '.join(entries) or 'none'}")
        self._check_block(function)
        function = inline_calls(module, function, known_functions())
        self.function, self.code = function, function.code
        self.joins, self.leaving = joins(function), leaving(function)
        self._lay_out(module, function, shared_bytes)
        self.symbols = symbols
        self.initial_registers = [_garbage(kind) for _, kind in function.registers]
        self.reads, self.writes = [i.reads for i in function.code], [i.writes for i in function.code]
        self.registers = [a | b for a, b in zip(self.reads, self.writes, strict=True)]
        shared = frozenset[int]().union(*(r for i, r in zip(function.code, self.registers, strict=True) if _tensor(i)))
        decoder = Decoder(self)
        self.shared_registers = shared
        self.plain: list[Step] = [decode(i, decoder) for decoder.pc, i in enumerate(function.code)]
        self.steps = [
            decode(i, decoder, shared & named) if shared & named and not _tensor(i) else step
            for decoder.pc, (i, named, step) in enumerate(zip(function.code, self.registers, self.plain, strict=True))
        ]
        self.unwritten, noted = poison.tracked(self)
        for pc, registers in noted.items():
            self.steps[pc] = poison.noting(self.steps[pc], self.code[pc], registers)
        self.defined = list(self.steps)  # the steps of warps whose registers all have values
        for pc, registers in self.unwritten.items():
            self.steps[pc] = poison.entering(self, pc, self.steps[pc], registers)
        self.grouped = {pc: step.together for pc, step in enumerate(self.steps) if isinstance(step, Grouped)}
        self.invalidates = any(i.opcode == "mbarrier" and i.has("inval") for i in function.code)
        self.ends = crew.ends(function.code, self.unwritten.keys() | noted, self.may_poll)
        self._runs: dict[tuple[int, int], crew.Run] = {}

    @cached_property
    def careful(self) -> list[Step]:
        """The steps of warps with undefined bits in their registers."""
        return [poison.careful(self, pc, step, self.unwritten.get(pc, [])) for pc, step in enumerate(self.defined)]

    @cached_property
    def looked_at(self) -> list[int]:
        """For each instruction the set (dataflow) of registers whose values are looked at behind it."""
        return dataflow.looked_at(self.function)

    @cached_property
    def deciding(self) -> frozenset[int]:
        """The registers on whose values it may depend where control goes."""
        return dataflow.deciding(self.function)

    def may_poll(self, load: Instruction) -> bool:
        """Whether a warp may repeat a strong load until another warp has written what it waits for."""
        return not self.deciding.isdisjoint(load.writes)

    def meeting(self, pc: int) -> int:
        """The first instruction that all paths from `pc` come to and that lanes execute together; END for none."""
        pc = self.joins[pc]
        while pc != END and not self.together(pc):
            pc = self.joins[pc]
        return pc

    def together(self, pc: int) -> bool:
        """Whether lanes execute an instruction together."""
        return self.code[pc].opcode == "bar" or not _TOGETHER.isdisjoint(self.code[pc].modifiers)

    def run(self, start: int, end: int) -> crew.Run:
        """The run of these instructions, none of them behind ends[start]."""
        found = self._runs.get((start, end))
        if found is None:
            found = self._runs[start, end] = crew.Run(self, start, end)
        return found

    @cached_property
    def live(self) -> list[int]:
        """For each instruction, the registers whose values it, or one that may come after it, uses: a bit for each."""
        code = self.code
        follow = successors_of(self.function)
        reads, keeps = list[int](), list[int]()
        for pc, instruction in enumerate(code):
            result = crew.in_runs(instruction) and not instruction.guard  # otherwise what it writes may be an address
            reads.append(_bits(self.reads[pc] if result else self.registers[pc]))
            keeps.append(~_bits(self.writes[pc]) if result else -1)
        live, before = [0] * (len(code) + 1), None
        while live != before:
            before = live.copy()
            for pc in reversed(range(len(code))):
                after = 0
                for place in follow[pc]:
                    after |= live[place]
                live[pc] = reads[pc] | after & keeps[pc]
        return live

    def _check_block(self, function: Function) -> None:
        required = function.directives.get("reqntid")
        if required:
            wanted = (*required, 1, 1)[:3]
            if wanted != self.block and "resources" not in self.passed:
                raise Finding("resources", f"launched with blocks of {self.block} threads, .reqntid says {wanted}")
        limit = function.directives.get("maxntid")
        most = int(np.prod(limit)) if limit else self.facts.max_threads
        if self.threads > most and "resources" not in self.passed:
            raise Finding("resources", f"launched with {self.threads} threads a CTA, at most {most} are allowed")

    def _lay_out(self, module: Module, function: Function, dynamic_bytes: int) -> None:
        variables = [*module.variables, *function.variables]
        self.shared_layout, at = _laid_out(v for v in variables if v.space == "shared" and not v.extern)
        for variable in (v for v in variables if v.space == "shared" and v.extern):
            # every extern array begins where the dynamic memory begins (CUDA C++ Programming Guide, "__shared__")
            start = -(-at // variable.align) * variable.align
            self.shared_layout.append((variable, start))
        extern = [offset for v, offset in self.shared_layout if v.extern]
        self.dynamic_bytes = dynamic_bytes
        self.shared_bytes = (max(extern) if extern else at) + dynamic_bytes
        if self.shared_bytes > self.facts.shared_bytes and "resources" not in self.passed:
            raise Finding(
                "resources",
                f"{self.shared_bytes} bytes of shared memory a CTA, {self.facts.name} has {self.facts.shared_bytes}",
            )
        params, self.param_bytes = _laid_out(function.params)
        self.param_offsets = {param.name: at for param, at in params}
        if self.param_bytes > _PARAM_LIMIT and "resources" not in self.passed:
            raise Finding("resources", f"{self.param_bytes} bytes of parameters, at most {_PARAM_LIMIT} are allowed")
        # .param variables declared in the body carry the arguments of calls; they are as private as .local
        own, size = _laid_out(v for v in function.variables if v.space in ("local", "param"))
        self.local_offsets, self.local_bytes = {variable.name: at for variable, at in own}, size
        if size > _LOCAL_LIMIT and "resources" not in self.passed:
            raise Finding("resources", f"{size} bytes of local memory a thread, at most {_LOCAL_LIMIT} are allowed")

    def symbol(self, name: str) -> tuple[str, int]:
        """State space and address of a variable, "code" and that of a function; a shared variable's is counted from the
        start of the CTA's variables.

        Raises:
            PtxSyntaxError: there is no such variable.
        """
        if name in self.param_offsets:
            return "param", self.param_offsets[name]
        if name in self.local_offsets:
            return "local", self.local_offsets[name]
        for variable, offset in self.shared_layout:
            if variable.name == name:
                return "shared", offset
        for variable in self.module.variables:
            if variable.name == name and name in self.symbols:
                return variable.space, self.symbols[name]
        code = self.module.code_address(name)
        if code is not None:
            return "code", code
        raise PtxSyntaxError(f"no variable {name!r}")


def _laid_out(variables: Iterable[Variable]) -> tuple[list[tuple[Variable, int]], int]:
    """Variables one after the other, each with where it begins, and where the last one ends."""
    found, at = [], 0
    for variable in variables:
        at = -(-at // variable.align) * variable.align
        found.append((variable, at))
        at += variable.size
    return found, at


def _bits(registers: frozenset[int]) -> int:
    return sum(1 << register for register in registers)


@cache
def _garbage(kind: str) -> np.ndarray:
    """What a register holds that was never written."""
    bits = TYPE_BITS[kind]
    if kind == "pred":
        return np.zeros(32, bool)
    if bits == 128:
        return np.full((32, 2), _GARBAGE[64])
    return np.full(32, _GARBAGE[max(bits, 8)])


def _tensor(instruction: Instruction) -> bool:
    """Whether it is one of the instructions whose registers stay in use after it: these judge them by themselves.

    Those of tcgen05.ld do not, as true register dependencies are kept without a wait (9.7.16.6.4.5)."""
    return instruction.opcode == "wgmma" and instruction.modifiers[:1] == ("mma_async",)
