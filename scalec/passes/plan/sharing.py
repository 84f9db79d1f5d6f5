"""How consumer warps share a tile: a way for each kind of kernel."""

from __future__ import annotations

from typing import Protocol

from scalec.passes.plan.warps import LEAST_COLUMNS, MAX_WARPGROUPS, PROMOTED_COLUMNS, TENSOR, WARPS
from scalec.passes.problem.types import Problem
from scalec.targets import MmaShape

Pair = tuple[int, int]


class Sharing(Protocol):
    """What is asked of it."""

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


class Warpgroups:
    """Warpgroups share the rows, in whole waves."""

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


class Alone:
    """Each warp multiplies rows and columns of its own."""

    def warpgroups(self, family: MmaShape, tile: tuple[int, ...], promote: int, results: int) -> int:
        two = [(along, 2 * WARPS // along) for along in (1, 2, 4, 8)]
        return 2 if any(not self.misfit(family, tile, 2, warps) for warps in two) else 1

    def warps(self, problem: Problem, tile: tuple[int, ...], warpgroups: int) -> Pair:
        """So that they load the least of shared memory, and so that each has whole blocks of the result's scales, or a
        part of one, and all columns that become one."""
        warps = WARPS * warpgroups
        ways = [(along, warps // along) for along in range(1, warps + 1) if warps % along == 0]
        fitting = [w for w in ways if not self.misfit(problem.family, tile, warpgroups, w)]
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


class Quarters:
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


SHARING: dict[str, Sharing] = {"wgmma": Warpgroups(), "mma": Alone(), "tcgen05": Quarters()}
"""By kind of kernel."""
