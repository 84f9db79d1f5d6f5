"""emit-tile: a fused program with a full schedule becomes a `tile.kernel`.

    func.func @C(...) attributes {scale.schedule = #scale.schedule<{tile = [256, 128, 128], stages = 3, ...}>} {
      %t = scale.contract(...)  ...  return }
    -->
    tile.kernel @C {
      %A_tiles = tile.shared   %B_tiles = tile.shared   %ring = tile.ring   tile.sync "cluster"
      tile.role "consumer" { tile.tiles { clear; tile.steps { wait; mma; release; promote }; epilogue; store } }
      tile.role "producer" { tile.warp { tile.tiles { tile.steps { acquire; expect; copy A; copy B; advance } } } }
    }

It decides nothing: every number is read from the schedule or from the shared-memory plan.
"""

from __future__ import annotations

from typing import Any, cast

from scalec.abi import entry_name
from scalec.ir import schedule as schedules
from scalec.ir.context import IRError
from scalec.ir.mlir import ir
from scalec.passes.base import problem_of, programs
from scalec.passes.emit.consumer import Consumer
from scalec.passes.emit.copied_scales import CopyingKernel
from scalec.passes.emit.folding import FoldingKernel
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.meeting import MeetingKernel
from scalec.passes.emit.pointwise import PointwiseKernel
from scalec.passes.emit.producer import Producer
from scalec.passes.emit.register_runs import RegisterRuns
from scalec.passes.emit.registers import RegisterConsumer
from scalec.passes.emit.runs import RunRoles
from scalec.passes.emit.tensor import TensorConsumer
from scalec.passes.plan.parts import cluster_ctas
from scalec.passes.plan.pointwise import Spread
from scalec.passes.plan.resources import launch_registers, threads
from scalec.passes.plan.shared_memory import SharedPlan
from scalec.passes.plan.streams import stagger
from scalec.passes.problem import read_pointwise
from scalec.passes.problem.contraction import contractions
from scalec.targets import Target


class EmitTile:
    """Builds the kernel; takes no decision. `spilled`: how often a program without a contraction has done so, with the
    registers that its plan says, and with some more; then it has as many as ptxas likes."""

    name = "emit-tile"

    def __init__(self, spilled: int = 0) -> None:
        self.spilled = spilled

    def run(self, module: ir.Module, target: Target) -> None:
        """Replaces the program by its kernel.

        Raises:
            IRError: the module has no program.
            ScheduleError: a field of the schedule is not decided.
            UnsupportedError: an epilogue or element type that no kernel is built for.
        """
        functions = list(programs(module))
        if not functions:
            raise IRError(
                "the module has no program",
                expected="a func.func with scale.dims",
                fix="print one with scalec compile --emit scale",
            )
        for function in functions:
            if not contractions(function):
                problem = read_pointwise.read(function, target)
                spread = Spread.of(problem)
                with ir.InsertionPoint(function):
                    kind = FoldingKernel if problem.folds else MeetingKernel
                    several = problem.folds or problem.meets or spread.down * spread.along > 1
                    made = CopyingKernel if problem.copies else kind if several else PointwiseKernel
                    made(problem, spread, function, spread.registers(problem, self.spilled)).build()
                function.operation.erase()
                continue
            schedule = schedules.read(function).complete()
            problem = problem_of(function, target, schedule)
            with ir.InsertionPoint(function):
                kernel = (RUNS if schedule.stationary else KERNELS)[problem.kind.name]
                kernel(problem, schedule, SharedPlan.of(problem, schedule), function).build()
            function.operation.erase()


class Kernel(Producer, Consumer):
    """A kernel with its two roles, whose tensor core reads shared memory."""

    def meet(self, h: Handles) -> None:
        """All threads of the cluster meet when its barriers are ready; of rows that it makes zero those of a CTA do."""
        cleared = any(side.brought < side.copied for side in self.sides)
        if cleared and cluster_ctas(self.schedule.cluster, self.schedule.split, self.schedule.parts) > 1:
            self.e.op("tile.sync", scope="cta", releases=1)
        self.e.op("tile.sync", scope="cluster", releases=0)

    def build(self) -> None:
        """Emits the kernel at the insertion point."""
        e, s = self.e, self.schedule
        optional = {"parts": s.split * (s.parts == "cluster"), "registers": launch_registers(self.problem, s)}
        name = entry_name(ir.StringAttr(self.function.attributes["sym_name"]).value)
        made = e.op(
            "tile.kernel",
            regions=1,
            sym_name=name,
            threads=threads(self.problem, s),
            cluster=s.cluster,
            shared_bytes=self.plan.total,
            arguments=ir.ArrayAttr.get([]),
            **cast("dict[str, Any]", {name: value for name, value in optional.items() if value}),
        )
        self.body = made.regions[0].blocks.append()
        with ir.InsertionPoint(self.body):
            h = self.handles()
            self.meet(h)
            if s.dependent:
                e.op("tile.depend")
            if cycles := stagger(self.problem, s):
                e.op("tile.stagger", cycles=cycles)
            with e.region("tile.role", label="consumer", warps=(0, self.consumers), registers=s.registers[1]):
                h.fill = self.fill
                self.consumer(h)
                h.fill = None
            low = self.consumers
            with e.region("tile.role", label="producer", warps=(low, low + 4), registers=s.registers[0]):
                self.producer(h)
                self.count_tiles(h)
            if self.producers > 1:
                with e.region("tile.role", label="scales", warps=(low + 4, low + 8), registers=s.registers[0]):
                    self.scales(h)
            low += 4 * self.producers
            if self.converters:
                warps = low, low + 4 * self.converters
                with e.region("tile.role", label="converter", warps=warps, registers=s.registers[0]):
                    self.convert(h)
                low += 4 * self.converters
            if self.by_threads:
                with e.region("tile.role", label="gatherer", warps=(low, low + 4), registers=s.registers[0]):
                    self.gather(h)
            if self.ends_together:
                e.op("tile.sync", scope="cluster", releases=int(not self.stays))
            self.give_back(h)
        made.attributes["arguments"] = e.arguments_attribute()


class RegisterKernel(Kernel, RegisterConsumer):
    """A kernel whose tensor core reads registers."""

    consumer = RegisterConsumer.consumer


class TensorKernel(TensorConsumer, Kernel):
    """A kernel whose tensor core reads shared memory and sums in tensor memory: one more warp issues its products."""


class RunKernel(RunRoles, Kernel):
    """A kernel whose columns' operand stays for a run of tiles."""


class RegisterRunKernel(RegisterRuns, Kernel):
    """Likewise in registers."""


KERNELS: dict[str, type[Kernel]] = {"wgmma": Kernel, "mma": RegisterKernel, "tcgen05": TensorKernel}
"""By kind of kernel."""

RUNS: dict[str, type[Kernel]] = {"wgmma": RunKernel, "mma": RegisterRunKernel}
"""Likewise of those whose columns' operand stays."""
