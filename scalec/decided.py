"""What the compiler decides for a program, and how long it predicts that this takes: by that programs that may take
several launches are compared (scalec.launches)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalec.errors import ScheduleError
from scalec.formats import ELEMENT_TYPES
from scalec.sizes import Size

if TYPE_CHECKING:
    from scalec.ir.schedule import Schedule
    from scalec.passes.problem.types import Operand, Problem

APART = 3e-6
"""Seconds that a launch in front of a product takes beyond its bytes. H100, 2026-11-28: 16 and 256 rows of bf16
quantised by 1x128 before 8192x8192 and 7168x2048 took 3.3 to 4.2 us."""

MEMORY = 0.68
"""What an H100's memory has of the H200's that predictions are of: the slower one is what counts for more bytes."""


@dataclass(frozen=True)
class Decided:
    """What the compiler decides for a program.

    Attributes:
        problem, schedule: the program, as that sees it.
        shared: the results whose rows CTAs of a cluster share, unless the cluster was asked for.
        alone: whether one kernel is asked for: it was said where operands are converted, or that results are the same
            whatever M is, of which launches before depend.
    """

    problem: Problem
    schedule: Schedule
    shared: list[str]
    alone: bool = False

    @staticmethod
    def of(
        source: str, target: str, dims: Mapping[str, Size] | None, schedule: Mapping[str, str] | None, tuned: bool
    ) -> Decided:
        """Arguments are those of `scalec.launches.launches`."""
        from scalec import compiler

        problem, chosen, given = compiler.decided(source, target, dims, schedule, tuned=tuned)
        shared = [r.name for r in problem.results if r.scale is not None and r.scale.ctas > 1]
        shared = shared if given.cluster is None else []
        return Decided(problem, chosen, shared, given.convert is not None or bool(given.invariant))

    @property
    def free(self) -> int:
        """Registers that a consumer thread keeps free, estimated."""
        from scalec.passes.plan.registers import free_registers

        return free_registers(self.problem, self.schedule)

    @property
    def multiplied(self) -> list[Operand]:
        """The operands of all products."""
        return [y for x in self.problem.products for side in (x.lhs, x.rhs) for y in side.panes]

    def seconds(self, given: Mapping[str, int] | None = None) -> float:
        """The predicted time of a launch, at sizes given for dimensions of any size."""
        from scalec.model.predict import Prediction

        prediction = Prediction.of(self.problem, self.schedule, self.problem.sizes(given))
        return prediction.seconds if prediction.fitted is None else prediction.fitted

    def before(self, name: str, bits: int, given: Mapping[str, int]) -> float:
        """The predicted time of a launch that makes elements of an operand of so many bits, those of the kernel if 0:
        infinite, unless all of its sizes but M are known. Of what is looked up it makes all that there is."""
        from scalec.passes.problem.access import elements

        operand = next((x for x in self.multiplied if x.name == name), None)
        if operand is None:  # a view of a part of it, which no launch before makes
            return math.inf
        read = {c.dim for c in operand.coords}
        dims = [d for d in self.problem.dims if d.name in read - {self.problem.m.name}]
        dims += [d for x in self.problem.lookups if x.name in read for d in x.extents]
        if any(d.size is None for d in dims):
            return math.inf
        count = elements(operand.coords, self.problem.sizes(given))
        moved = count * (operand.stored.bits + (bits or operand.element.bits)) / 8
        return APART + moved / (MEMORY * self.problem.target.rates.memory)

    def is_slower(self, other: Callable[[], Decided]) -> bool:
        """Whether this takes longer than another program, of which one result in f32 is then read and quantised."""
        if not self.shared:
            return False
        from scalec.passes.problem.access import elements

        try:
            apart = other()
        except ScheduleError:  # of fields that the other cannot have
            return False
        rates, (result,) = self.problem.target.rates, (r for r in self.problem.results if r.name in self.shared[:1])
        count = elements(result.coords, self.problem.sizes())
        moved = ELEMENT_TYPES["f32"].bytes(count) + result.element.bytes(count)
        return apart.seconds() + rates.launch + moved / rates.memory < self.seconds()
