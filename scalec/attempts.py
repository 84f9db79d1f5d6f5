"""What is tried when ptxas spills, or slows, the kernel that was chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from scalec.errors import SlowKernelError
from scalec.ir.schedule import Request, Schedule
from scalec.passes.choose.tiling import SEARCHES
from scalec.passes.plan.mma_n import LEAST

FEW = 12
"""Registers that one K block in an iteration may save: of 20 kernels with promotion that spilled at unroll = 2 and
256x128, unroll = 1 cured those that had spilled 1, 5, 6 and 10; the others had spilled 2 to 96 (ptxas 13.5,
2026-11-21). It cured 128x256 with a max of rows, which had spilled 11, and took 0.77 of the time of 256x64 (FP8,
4096x7168x2048; H200, 2026-11-30)."""

UNROLLED, SEVERAL = 2, 32
"""K blocks in an iteration that are tried, with promotion, where more spilled up to so many registers: 21 to 28 with a
max, or a sum of exponentials, of rows beside FP8 of 192x128, none then (ptxas 13.0, 2026-11-30)."""

ACROSS = "m"
"""The order of tiles that is tried before one K block an iteration: with it 128x256 with a max of rows, which had
spilled 11 registers, spilled none, and took 0.92 of the time of one K block, with a sum of exponentials 0.90 (FP8,
4096x7168x2048; of 1024 rows 0.91 and 0.91; H200, 2026-11-30)."""


class Made(Protocol):
    """What is known of the kernel that was chosen (scalec.compiler.Compilation)."""

    schedule: Schedule | None
    free: int
    step: int
    narrower: tuple[int, ...]
    looped: int
    folds: bool
    most: tuple[int, int] | None
    fullest: tuple[int, int] | None
    converting: tuple[int, int] | None


@dataclass(frozen=True)
class Attempt:
    """What an attempt decides beside the user: `unroll`, `order`, `scheduler`, `adds`, `inputs`, `mma_n`, `permute_n`,
    `epilogue`, `registers`, `stationary`, `convert`, `split`, those that a tile must leave `spare`, of which ptxas has
    refused less than `least`, in which `search` it is looked for, whether the tuning database is asked, how often it
    has `spilled` without a schedule, whether tiles that have all of an index are too `crowded` to reduce it, and which
    last resorts were `tried`."""

    unroll: int | None = None
    order: str | None = None
    scheduler: str | None = None
    adds: str | None = None
    inputs: int | None = None
    mma_n: int | None = None
    permute_n: int | None = None
    epilogue: str | None = None
    registers: tuple[int, int] | None = None
    stationary: int | None = None
    convert: str | None = None
    split: int | None = None
    spare: int = 0
    search: str = SEARCHES[0]
    least: int = 1
    tuned: bool = True
    spilled: int = 0
    crowded: bool = False
    tried: tuple[str, ...] = ()

    def further(self, given: Request, made: Made) -> Attempt | None:
        """The next attempt, where there is no tile for this one, the user decided `given`, and what was `made` before
        is slow."""
        # what spilled is an estimate too: any tile that leaves more than the one before
        more = max(self.least, made.free + 1)
        if self.spare > more:
            return replace(self, spare=more)
        later = SEARCHES[SEARCHES.index(self.search) + 1 :]
        if later:
            return replace(self, search=later[0], spare=more)
        return self._last(given, made)

    def _last(self, given: Request, made: Made) -> Attempt | None:
        """The next last resort, each tried once; None where none is left."""
        slow = made.schedule
        last = {
            "fullest": ("registers", made.fullest if given.registers is None else None),
            "converting": ("registers", made.converting if given.registers is None else None),
            "epilogue": ("epilogue", "direct" if not given.epilogue and slow and slow.epilogue != "direct" else None),
            "convert": ("convert", "shared" if self.convert is None and slow and slow.convert != "shared" else None),
            "split": ("split", 1 if given.split is None and slow and slow.split > 1 else None),
            "crowded": ("crowded", made.folds),
        }  # converted in shared memory tiles may be others, without `swap` too
        for name, (field, value) in last.items():
            if value and name not in self.tried:
                kept = Attempt(tuned=self.tuned, convert=self.convert, crowded=self.crowded, tried=(*self.tried, name))
                return replace(kept, **{field: value})
        return None

    def after(self, slow: SlowKernelError, given: Request, made: Made) -> Attempt | None:
        """The next attempt, where what was `made` is slow and the user decided `given`; None where nothing is left."""
        spilled = made.schedule
        assert spilled is not None
        if given.scheduler is None and spilled.scheduler == "dynamic":  # a guess, which is not to cost a tile
            return replace(self, scheduler="static")
        if given.stationary is None and spilled.stationary:  # likewise
            return replace(self, stationary=0)
        most, has = made.most, spilled.registers
        if given.registers is None and most and has and most != has and min(most[0] - has[0], most[1] - has[1]) >= 0:
            return replace(self, registers=most)  # launches that leave some to the next are not to cost a tile
        if given.unroll is None and made.looped:  # all of a tile's in a row, which is not to cost it
            return replace(self, unroll=made.looped)
        # nothing spilled: a remark, as on a remainder's loop that takes over accumulators (C7514)
        few = not slow.spilled or (spilled.promote and slow.spilled <= FEW)
        alone = spilled.warpgroups == 1  # whose tiles the model knows from kernels with one K block an iteration
        if given.unroll is None and spilled.unroll > UNROLLED and spilled.promote and slow.spilled <= SEVERAL:
            return replace(self, unroll=UNROLLED)
        # an order that is said is of a program that is not transposed, and would choose others' tiles
        across = spilled.order == "n" and given.order is None and self.order is None and not spilled.swap
        if across and spilled.promote and spilled.unroll == UNROLLED and 0 < slow.spilled <= FEW:
            return replace(self, order=ACROSS)
        if given.unroll is None and spilled.unroll > 1 and (few or alone or given.tile is not None):
            return replace(self, unroll=1, order=None)
        mma_n = next((n for n in made.narrower if n >= LEAST), None)
        if given.mma_n is None and self.mma_n is None and spilled.inputs and few and mma_n:  # 128x256, f32 beside f32
            return replace(self, unroll=None, mma_n=mma_n)
        if given.epilogue is None and spilled.epilogue in ("rows", "turned"):  # seldom the cause: TURNED_SUMS
            return replace(self, epilogue="direct")
        if given.adds is None and spilled.adds == "loaded":
            return replace(self, unroll=None, adds="memory")
        if given.tile is not None:
            if given.mma_n is None and mma_n:
                return replace(self, unroll=None, mma_n=mma_n)
            if given.permute_n is None and spilled.permute_n:
                return replace(self, unroll=None, permute_n=0)
            return replace(self, unroll=None, inputs=0) if given.inputs is None and spilled.inputs else None
        if self.tried and self.tried[-1] in ("fullest", "converting", "epilogue"):  # which leave the tiles as they were
            return self._last(given, made)
        least = max(1, self.spare + 1)
        spare = max(least, made.free + max(made.step, slow.spilled))
        return replace(self, unroll=None, order=None, epilogue=None, registers=None, spare=spare, least=least)
