"""Registers that a consumer thread needs, estimated: ptxas is the judge."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir.schedule import Schedule
from scalec.passes.plan.column_factors import factor_registers
from scalec.passes.plan.joined_folds import joins_folds
from scalec.passes.plan.resources import result_columns, units
from scalec.passes.plan.tensor_columns import by_parts, parts_taken, taken_apart, taken_columns
from scalec.passes.problem.result import EpilogueInput
from scalec.passes.problem.types import Problem
from scalec.targets import WAVES

ACCUMULATORS = 128
"""Accumulators of a thread in the largest tiles (256x128 of two warpgroups)."""

OVERHEAD_REGISTERS = 32
"""Registers of a consumer thread beside accumulators: addresses, scales, loop state. The largest that lets the
192x128 tile (64 + 64 accumulators at 160 registers) through, which ran without spills: H200, 2026-11-21."""

NARROW_OVERHEAD = 24
"""Likewise where `mma_n` is decided, and threads hold few factors (column_factors.py): 192x176 (88 + 44)
leaves 28 of 160, 256x160 (160 + 40) at 224 registers leaves 24, and neither spilled (ptxas 13.0, 2026-11-21)."""


ADDENDS_REGISTERS = 28
"""Likewise of two slices of A that consumers make addends of: 256x96 (96 + 48) and 128x192 by 96 (96 + 48) spilled at
200 registers, 128x192 (96 + 96) at 224; 128x128 (64 + 64) at 200 and 128x160 (80 + 80) at 224 did not (ptxas 13.0,
2026-11-27)."""


@dataclass(frozen=True)
class Registers:
    """Registers of one consumer thread, estimated."""

    accumulators: int  # FP32 sums of its part of the tile
    partials: int  # FP32 sums of the wave that is being promoted, or that a result is computed in; 0 without either
    slices: int = 0  # operands, where the tensor core takes them from registers
    beside: int = OVERHEAD_REGISTERS  # what a thread needs beside these

    @property
    def total(self) -> int:
        return self.accumulators + self.partials + self.slices + self.beside

    @staticmethod
    def of(problem: Problem, schedule: Schedule) -> Registers:
        """For the tile of a schedule, shared by its warps.

        A warpgroup promotes wave by wave, `mma_n` columns at a time or all of them; a warp all its sums, and it holds
        two slices of A and of B. Of several results all but the last take a copy of the sums, which are then promoted;
        out of tensor memory each takes its own.
        """
        (rows, columns, _), (along_m, along_n) = schedule.tile, schedule.warps
        return ESTIMATES[problem.kind.name](problem, schedule, rows // along_m, columns // along_n)


def _of_warpgroups(problem: Problem, schedule: Schedule, rows: int, columns: int) -> Registers:
    sums, wave = rows * columns // 32, problem.family.m // problem.kind.warps
    beside = NARROW_OVERHEAD if schedule.mma_n else OVERHEAD_REGISTERS
    promoted = (schedule.mma_n or columns) * wave // 32 if schedule.promote else 0
    apart = sums * (len(problem.terms) > 1)
    slices = ADDENDS_REGISTERS * min(1, problem.lhs.addends)
    return Registers(sums, max(promoted + apart, sums * (len(problem.results) > 1)), slices, beside)


def _of_warps(problem: Problem, schedule: Schedule, rows: int, columns: int) -> Registers:
    sums, apart = rows * columns // 32, len(problem.terms) > 1
    copies = max(bool(schedule.promote) + apart, len(problem.results) > 1)
    if schedule.stationary:  # all of B's slices stay, of A two of one instruction's rows
        slices = schedule.tile[2] // problem.family.k
        return Registers(sums, 0, slices * columns // 4 + problem.family.m // 2)
    return Registers(sums, sums * copies, 2 * (rows // 4 + columns // 4))


def _out_of_tensor_memory(problem: Problem, schedule: Schedule, rows: int, columns: int) -> Registers:
    promote, each = schedule.promote, columns if schedule.promote else columns // problem.panes
    count = 1 if joins_folds(problem, schedule) else parts_taken(problem, each, promote)
    taken = count * taken_columns(problem, each, promote)
    if not promote:
        return Registers(taken_apart(problem, promote) * taken, 0)
    apart = columns * (len(problem.terms) > 1)
    return Registers(columns, max(taken + apart, columns * (len(problem.results) > 1)))


ESTIMATES = {"wgmma": _of_warpgroups, "mma": _of_warps, "tcgen05": _out_of_tensor_memory}
"""By kind of kernel, for a warp's rows and columns of a tile."""


SPLIT_REGISTERS = 16
"""Registers beyond OVERHEAD_REGISTERS where parts of K meet in memory: of kernels with 192 accumulators and partial
sums in 232 registers 28 of 120 that split K spilled, and none of 32 that did not (ptxas 13.0, 2026-11-21); of 95 whose
parts meet in a cluster three, which spill whole too (gelu in f32; 2026-11-29)."""


def free_registers(problem: Problem, schedule: Schedule) -> int:
    """Registers that a consumer thread keeps free, estimated."""
    in_memory = schedule.split > 1 and schedule.parts != "cluster"
    parted = SPLIT_REGISTERS if in_memory and problem.kind.warpgroup_sums else 0
    own = READ_REGISTERS * reads_of_own(problem) if problem.kind.warpgroup_sums else 0
    need = Registers.of(problem, schedule).total + parted + own + factor_registers(problem, schedule)
    return schedule.registers[1] - need - fold_registers(problem, schedule)


FEW_FREE = 16
"""Registers that are free where what a fold reads of a thread's rows, or of a window, is read ahead: four at most each,
which it would need behind the products too."""


def fold_registers(problem: Problem, schedule: Schedule) -> int:
    """Registers of a thread that has what a fold reads for each of its columns, before the products: a quarter of them
    for each input. 192x192 spilled without them (ptxas 13.0, 2026-11-26)."""
    joined = joins_folds(problem, schedule)
    if (
        problem.column_fold is None
        or not (problem.kind.warpgroup_sums or joined or schedule.stationary)
        or schedule.promote
        or problem.panes > 1
    ):
        return 0
    inputs = sum(x.kind == "col" for r in problem.results for x in r.inputs)
    return inputs * schedule.tile[1] // units(problem, schedule)[1] // (1 if joined else 4)


def sums_of_thread(problem: Problem, schedule: Schedule) -> int:
    """FP32 sums that a consumer thread holds at once."""
    return Registers.of(problem, schedule).accumulators


def most_accumulators(problem: Problem) -> int:
    """Accumulators of a thread beside which the epilogue of `problem` still finds registers.

    Where N is not known, what is read at a row and a column of its own (`+ R[m,n]`, `+=`) is read one element at a
    time, and ptxas keeps the offset of each of a thread's columns. Of the kernels tried that read so, all 44 spilled at
    256x128, 18 of 20 at 128x256, and all 4 that read three such tensors at 128x128 (ptxas 13.5, 2026-11-21).

    Blocks of scales along a tile's rows: each column has a scale and addresses of its own. On sm_90a all 3 kernels
    tried with 128 accumulators spilled, and none of 4 with 64 (ptxas 13.0, 2026-11-21).
    """
    if problem.swapped and any(r.scale is not None for r in problem.results):
        return 64
    return {0: ACCUMULATORS, 1: 64, 2: 64}.get(reads_of_own(problem), 32)


def crowded(problem: Problem, schedule: Schedule) -> bool:
    """Whether the epilogue reads elements one by one beside more sums than it finds registers with."""
    if not reads_of_own(problem):
        return False
    own = result_columns(problem, schedule) // units(problem, schedule)[1]
    apart = taken_apart(problem, schedule.promote)
    sums = apart * taken_columns(problem, own, 0) if by_parts(problem, schedule) else sums_of_thread(problem, schedule)
    return sums > most_accumulators(problem)


READ_REGISTERS = 40
"""Registers beyond OVERHEAD_REGISTERS of each tensor that is read so: with one, 192x128 spilled, and 192x64 with three,
which leave 0 and 64 of 160; 128x128 and 128x64, which leave 72 and 136 of 232, did not (ptxas 13.0, 2026-11-21)."""


STAGED_NARROW = 32
"""Registers beyond OVERHEAD_REGISTERS of results of 8 bits that warps stage beside promotion: 128x128, which leaves 24
of 232, spilled in all 8 kernels tried (e4m3, mxfp8, fp8_block, blocked e5m2; scales of 1x128 by 128x128 and by 1x128),
and 128x64, which leaves 96, did not (sm_120a, ptxas 13.0, 2026-11-21)."""


def staging_registers(problem: Problem, epilogue: str | None, promote: int) -> int:
    """Registers of a thread that staging takes, where it is not decided that results leave directly."""
    staged = epilogue != "direct" and not problem.swapped
    narrow = problem.kind.warps == 1 and any(r.element.bits == 8 for r in problem.results)
    return STAGED_NARROW if promote and staged and narrow else 0


def reads_of_own(problem: Problem) -> int:
    """Tensors that an epilogue reads at a row and a column of its own, where N is not known; 0 where it is."""
    if problem.n.size is not None:
        return 0
    m = problem.m.name  # what is read at m/64, m/128, ... is one for all the rows of a wave

    def own(x: EpilogueInput) -> bool:
        return x.kind == "both" and all(i.divisor < WAVES["registers"] for i in x.coords if i.dim == m)

    return max(sum(map(own, r.inputs)) for r in problem.bodies)
