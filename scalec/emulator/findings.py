"""What stops a run: a mistake of the program under test, or something that the emulator does not model."""

from __future__ import annotations


class EmulatorError(Exception):
    """Anything that stops an emulated run.

    Attributes:
        message: what is wrong, with the values found.
        where: the PTX line, its number, and the thread, e.g. "line 120: ld.shared.b32 %r1, [%r2]; cta 0 warp 3 lane 5".
    """

    def __init__(self, message: str, where: str = "") -> None:
        self.message = message
        self.where = where
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message}\n  at {self.where}" if self.where else self.message


class NotModelled(EmulatorError):
    """The program uses an instruction, a modifier or a combination that the emulator does not execute."""

    def __str__(self) -> str:
        return "not modelled: " + super().__str__()


class PtxSyntaxError(EmulatorError):
    """The text is not PTX as the emulator understands it; `where` names the line."""


class Apart(EmulatorError):
    """Warps that go together cannot execute this together: each does so by itself, and says what is wrong, if any."""

    def __init__(self) -> None:
        super().__init__("apart")


class Finding(EmulatorError):
    """A mistake of the program under test.

    Attributes:
        kind: what sort of mistake: a name of `KINDS`.
        expected: what should have held or come first.
        fix: what would mend it.
    """

    def __init__(self, kind: str, message: str, *, expected: str = "", fix: str = "", where: str = "") -> None:
        if kind not in KINDS:
            raise ValueError(f"no such kind of finding: {kind}")
        self.kind = kind
        self.expected = expected
        self.fix = fix
        super().__init__(message, where)

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}"]
        lines += [
            f"  {name}: {text}"
            for name, text in (("at", self.where), ("expected", self.expected), ("fix", self.fix))
            if text
        ]
        return "\n".join(lines)


KINDS = {
    "in-flight": "bytes or registers used while an asynchronous operation still reads or writes them",
    "proxy": "accesses of two proxies to the same bytes without a proxy fence between them",
    "race": "two warps access the same bytes, one of them writes, and nothing orders them",
    "deadlock": "no warp can go on",
    "barrier": "wrong use of a barrier: counts, phases, initialisation",
    "bounds": "an access outside of every allocation, or past a limit of the target",
    "alignment": "an address that is not a multiple of what the access needs",
    "uninitialised": "bytes read that were never written",
    "divergence": "an instruction for whole warps executed by a part of one",
    "descriptor": "reserved bits or illegal values in a descriptor, or in a tensor map",
    "wgmma": "registers of wgmma used without the fence or the wait that the ISA asks for",
    "tensor-memory": "tensor memory used unallocated, too early, or not freed",
    "registers": "setmaxnreg outside of its limits or beyond the pool",
    "resources": "more shared memory, threads or registers than the target has",
    "illegal": "an instruction or a combination that the ISA or the target does not allow",
    "cluster-start": "memory of a CTA used that may not have begun",
    "exit-read": "a CTA exits while its bulk copies may still read its shared memory",
    "lane-field": "the address of tcgen05.ld or .st has lane 0 in a warp that reaches other lanes",
    "init-fence": "an asynchronous copy completes on an mbarrier whose initialisation was not fenced",
    "relaxed-barrier": "relaxed arrivals alone publish an mbarrier, or the address of tensor memory",
    "load-wait": "tensor memory freed after tcgen05.ld and a barrier, with no tcgen05.wait::ld before that",
    "first-column": "the first tcgen05.alloc is taken to give column 0: drawn from the seed instead",
    "cta-ids": "%ctaid of a CTA is taken to follow from its %cluster_ctarank: drawn from the seed instead",
    "dependent": "global memory used before griddepcontrol.wait, while the launch before may still use it",
}
SILENT = {
    "exit-read", "lane-field", "init-fence", "relaxed-barrier", "load-wait", "first-column", "cta-ids", "dependent",
}  # fmt: skip
"""Kinds that are looked for on request alone (`Options.check`): the ISA is silent, or says less than its neighbours do,
and kernels in production rely on it. docs/emulator.md has the words."""
