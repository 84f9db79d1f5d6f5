"""How consumer warps share a tile: a way for each kind of kernel."""

from __future__ import annotations

from math import prod
from typing import Protocol

from scalec.errors import ScheduleError
from scalec.ir.schedule import Schedule
from scalec.passes.plan.warps import LEAST_COLUMNS, MAX_WARPGROUPS, PROMOTED_COLUMNS, TENSOR, WARPS
from scalec.passes.problem.types import Problem
from scalec.targets import MmaShape

Pair = tuple[int, int]

SWIZZLED = 32
"""Bytes of the narrowest swizzle, of which rows of a tile that is contiguous along N are multiples (`no_panels`)."""


class Sharing(Protocol):
    """What is asked of it. `who` share a tile: warpgroups or warps, as each has an accumulator."""

    who = "warps"

    def warpgroups(self, family: MmaShape, tile: tuple[int, ...], promote: int, results: int) -> int:
        """How many share a tile, where nobody has decided it."""
        ...

    def warps(self, problem: Problem, tile: tuple[int, ...], warpgroups: int) -> Pair:
        """How warps of so many warpgroups lie along M and along N, where nobody has decided it."""
        ...

    def units(self, warpgroups: int, warps: Pair) -> Pair:
        """Those who have an accumulator each, warpgroups or warps, along M and along N."""
        ...

    def steps(self, family: MmaShape, warpgroups: int, warps: Pair) -> Pair:
        """Of which a tile's rows and columns are multiples."""
        ...

    def misfit(self, family: MmaShape, tile: tuple[int, ...], warpgroups: int, warps: Pair) -> str:
        """Why they cannot share a tile, "" where they can."""
        ...

    def check_warps(self, problem: Problem, schedule: Schedule, warpgroups: int) -> None:
        """Refuses `warps` that so many warpgroups cannot have."""

    def check_rows(self, problem: Problem, schedule: Schedule, warpgroups: int) -> None:
        """Refuses a tile whose rows they cannot share."""
        m, rows, step = problem.family.m, schedule.tile[0], self.steps(problem.family, warpgroups, schedule.warps)[0]
        if rows % step:
            raise ScheduleError(
                f"tile M = {rows} is not a multiple of {step} ({m} rows for each of {step // m} {self.who})",
                fix=f"tile M = {-(-rows // step) * step}, or other {self.who}",
            )

    def check_columns(self, problem: Problem, schedule: Schedule) -> None:
        """Refuses a tile whose columns no instruction has, or warps cannot share."""
        columns, ctas = schedule.tile[1], schedule.cta_group
        if columns not in (widths := problem.family.columns(ctas)):
            raise ScheduleError(
                f"tile N = {columns} is not a width of the tensor-core instruction"
                + (f" of {ctas} CTAs" if ctas > 1 else ""),
                expected=problem.family.columns_said(ctas),
                fix=f"tile N = {min(widths, key=lambda n: abs(n - columns))}",
            )


class Warpgroups(Sharing):
    """Warpgroups share the rows, in whole waves."""

    who = "warpgroups"

    def warpgroups(self, family: MmaShape, tile: tuple[int, ...], promote: int, results: int) -> int:
        """The most, up to three: 256 rows are two waves for each of two."""
        return next((w for w in range(MAX_WARPGROUPS, 1, -1) if tile[0] % (family.m * w) == 0), 1)

    def warps(self, problem: Problem, tile: tuple[int, ...], warpgroups: int) -> Pair:
        return WARPS * warpgroups, 1

    def units(self, warpgroups: int, warps: Pair) -> Pair:
        return warpgroups, 1

    def steps(self, family: MmaShape, warpgroups: int, warps: Pair) -> Pair:
        return family.m * warpgroups, 1

    def misfit(self, family: MmaShape, tile: tuple[int, ...], warpgroups: int, warps: Pair) -> str:
        rows = family.m * warpgroups
        return f"rows that {warpgroups} warpgroups cannot share in waves of {family.m}" if tile[0] % rows else ""

    def check_warps(self, problem: Problem, schedule: Schedule, warpgroups: int) -> None:
        along_m, along_n = schedule.warps
        if schedule.warps != (WARPS * warpgroups, 1):
            what = f"{problem.target.name} multiplies for whole warpgroups, which share M"
            raise ScheduleError(
                f"warps = {along_m}x{along_n}, and {what}",
                expected=f"{WARPS * warpgroups}x1",
                fix="leave warps out, and decide warpgroups",
            )


class Alone(Sharing):
    """Each warp multiplies rows and columns of its own."""

    def warpgroups(self, family: MmaShape, tile: tuple[int, ...], promote: int, results: int) -> int:
        two = [(along, 2 * WARPS // along) for along in (1, 2, 4, 8)]
        return 2 if any(not self.misfit(family, tile, 2, warps) for warps in two) else 1

    def warps(self, problem: Problem, tile: tuple[int, ...], warpgroups: int) -> Pair:
        """So that they load the least of shared memory, and so that each has whole blocks of the result's scales, or a
        part of one, and all columns that become one; of several contractions columns that copies bring to be turned, or
        in panels."""
        warps = WARPS * warpgroups
        ways = [(along, warps // along) for along in range(1, warps + 1) if warps % along == 0]
        fitting = [w for w in ways if not self.misfit(problem.family, tile, warpgroups, w)]
        if problem.panes > 1 and (problem.rhs.turned or problem.rhs.mn_major):
            row = problem.target.tma_align if problem.rhs.turned else SWIZZLED
            step = problem.panes * 8 * row // problem.rhs.stored.bits
            fitting = [w for w in fitting if tile[1] // w[1] % step == 0] or fitting
        block = problem.block
        if problem.swapped:
            whole = [w for w in fitting if tile[0] // w[0] % block == 0]
        else:
            whole = [w for w in fitting if tile[1] // w[1] % block == 0 or block % (tile[1] // w[1]) == 0]
        if problem.column_fold is not None and problem.column_fold.along == problem.n.name:
            whole = [w for w in fitting if tile[1] // w[1] % problem.column_fold.size == 0]
        fitting = whole or fitting
        return min(fitting or ways, key=lambda w: (tile[0] // w[0] + tile[1] // w[1], w[0]))

    def units(self, warpgroups: int, warps: Pair) -> Pair:
        return warps

    def steps(self, family: MmaShape, warpgroups: int, warps: Pair) -> Pair:
        return family.m * warps[0], 2 * family.n[0] * warps[1]  # one ldmatrix loads the columns of two instructions

    def misfit(self, family: MmaShape, tile: tuple[int, ...], warpgroups: int, warps: Pair) -> str:
        if warps[0] * warps[1] != WARPS * warpgroups:
            return f"{warps[0]}x{warps[1]} warps, of {warpgroups} warpgroups that have {WARPS * warpgroups}"
        steps = self.steps(family, warpgroups, warps)
        for extent, step, count, what in zip(tile, steps, warps, ("rows", "columns"), strict=False):
            if extent % step:
                return f"{what} that {count} warps cannot share by {step // count}"
        return ""

    def check_warps(self, problem: Problem, schedule: Schedule, warpgroups: int) -> None:
        (along_m, along_n), wanted = schedule.warps, self.warps(problem, schedule.tile, warpgroups)
        if along_m * along_n != (count := prod(wanted)):
            raise ScheduleError(
                f"warps = {along_m}x{along_n} are {along_m * along_n} warps, {schedule.warpgroups} warpgroups have "
                f"{count}",
                fix=f"warps={wanted[0]}x{wanted[1]}",
            )

    def check_columns(self, problem: Problem, schedule: Schedule) -> None:
        columns, along_n = schedule.tile[1], schedule.warps[1]
        step = self.steps(problem.family, schedule.warpgroups, schedule.warps)[1]
        if columns % step:
            raise ScheduleError(
                f"tile N = {columns} is not a multiple of {step} ({step // along_n} columns for each of "
                f"{along_n} warps)",
                fix=f"tile N = {-(-columns // step) * step}, or other warps",
            )


class Quarters(Sharing):
    """Each warp of a warpgroup has its own quarter of the rows in tensor memory (PTX ISA 9.7.16.8.1), and warpgroups
    share the columns."""

    def warpgroups(self, family: MmaShape, tile: tuple[int, ...], promote: int, results: int) -> int:
        """One, or two where K blocks are added up and a thread of one has no registers for a tile's columns, or with
        several results for twice as many."""
        wide = promote and tile[1] > PROMOTED_COLUMNS // min(results, 2)
        return 2 if wide and not self.misfit(family, tile, 2, (WARPS, 2)) else 1

    def warps(self, problem: Problem, tile: tuple[int, ...], warpgroups: int) -> Pair:
        return WARPS, warpgroups

    def units(self, warpgroups: int, warps: Pair) -> Pair:
        return WARPS, warpgroups

    def steps(self, family: MmaShape, warpgroups: int, warps: Pair) -> Pair:
        return family.m, LEAST_COLUMNS * warpgroups if warpgroups > 1 else 1

    def misfit(self, family: MmaShape, tile: tuple[int, ...], warpgroups: int, warps: Pair) -> str:
        if warpgroups not in TENSOR:
            return f"{warpgroups} warpgroups, and sums in tensor memory are for {' or '.join(map(str, TENSOR))}"
        uneven = tile[1] % self.steps(family, warpgroups, warps)[1]
        return f"columns that {warpgroups} warpgroups cannot share by {LEAST_COLUMNS}" if uneven else ""

    def check_warps(self, problem: Problem, schedule: Schedule, warpgroups: int) -> None:
        family, tile, warpgroups, warps = problem.family, schedule.tile, schedule.warpgroups, schedule.warps
        if reason := self.misfit(family, tile, warpgroups, warps):
            known, step = warpgroups in TENSOR, self.steps(family, warpgroups, warps)[1]
            raise ScheduleError(
                f"a tile of {reason}" if known else reason,
                got=f"tile N = {tile[1]}, warpgroups = {warpgroups}",
                fix=f"tile N = {-(-tile[1] // step) * step}, or warpgroups=1" if known else "warpgroups=1",
            )
        if warps != (wanted := self.warps(problem, tile, warpgroups)):
            raise ScheduleError(
                f"warps = {warps[0]}x{warps[1]}, and each warp of a warpgroup reads a quarter of the rows in tensor "
                "memory: warpgroups share columns",
                expected=f"{wanted[0]}x{wanted[1]}",
                fix="leave warps out, and decide warpgroups",
            )

    def check_rows(self, problem: Problem, schedule: Schedule, warpgroups: int) -> None:
        m, rows = problem.family.m, schedule.tile[0]
        if rows != m:
            pair = rows == 2 * m and problem.family.pair_n
            raise ScheduleError(
                f"tile M = {rows}, and one instruction sums {m} rows in tensor memory",
                fix=f"tile M = {m}" + (", cta_group=2 for two CTAs that multiply together" if pair else ""),
            )


SHARING: dict[str, Sharing] = {"wgmma": Warpgroups(), "mma": Alone(), "tcgen05": Quarters()}
"""By kind of kernel."""
