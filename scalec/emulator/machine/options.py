"""What a launch may be told beside its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scalec.emulator.findings import KINDS, SILENT
from scalec.emulator.stats import Stats


@dataclass(frozen=True)
class Options:
    """How a launch is run.

    Attributes:
        seed: of all that the ISA leaves open: the order of warps, when asynchronous work happens.
        ignore: kinds of findings that do not stop the run: what they forbid happens as if it were allowed, or, where
            there is nothing that could happen (an address outside of all memory), the instruction has no effect.
        check: kinds of findings.SILENT to look for.
        tensor_core: "exact" (FP32 accumulation) or "hopper" (what an H200 does).
        sms: how many CTAs of a launch run at the same time, at the least one cluster.
        tensor_fences: whether tcgen05.fence is demanded where the ISA's patterns have it; None: if the kernel has any.
        max_instructions: that the launch may execute, per warp; beyond, it is taken for endless.
        part: (i, n): of the clusters, those whose number leaves i when divided by n.
        dependent: whether the launch before may still run until griddepcontrol.wait (programmatic dependent launch);
            None: if the kernel has any griddepcontrol. What it then uses too early is of the kind "dependent".
        progress: called every so many turns with what the launch has counted so far.
    """

    seed: int = 0
    ignore: frozenset[str] = frozenset()
    check: frozenset[str] = frozenset()
    tensor_core: str = "exact"
    sms: int = 4
    tensor_fences: bool | None = None
    max_instructions: int = 20_000_000
    part: tuple[int, int] = (0, 1)
    dependent: bool | None = None
    progress: Callable[[Stats], None] | None = None

    def __post_init__(self) -> None:
        for name, kinds, known in (("ignore", self.ignore, set(KINDS)), ("check", self.check, SILENT)):
            if not kinds <= known:
                raise ValueError(f"{name}: got {', '.join(sorted(kinds - known))}, expected {', '.join(sorted(known))}")

    @property
    def passed(self) -> frozenset[str]:
        """Kinds of findings that do not stop the run."""
        return self.ignore | (SILENT - self.check)
