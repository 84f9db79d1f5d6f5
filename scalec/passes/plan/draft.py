"""Drafts: what becomes of a request where nobody decides more, so that what it needs and may have can be asked."""

from __future__ import annotations

from math import prod
from typing import Any

from scalec.ir.schedule import Request, Schedule
from scalec.passes.plan.converted import in_registers, warps_make
from scalec.passes.plan.copier import copier_for
from scalec.passes.plan.joined_folds import halves_folds
from scalec.passes.plan.registers import free_registers
from scalec.passes.plan.resources import fitting_registers, path_of_scales, register_file, threads
from scalec.passes.plan.sharing import SHARING
from scalec.passes.plan.warps import CONVERTING, MAX_WARPGROUPS, WARPS, most_converters, registers_for, too_wide
from scalec.passes.problem.types import Problem

PINGPONG = 2
"""Warpgroups that take tiles by turns, unless decided: as long as the epilogue is shorter than the products, two keep
the tensor core busy."""

PLAINEST: dict[str, Any] = {
    "swap": 0, "cluster": (1, 1), "cta_group": 1, "split": 1, "parts": "memory", "stages": 0, "swizzle_a": 0,
    "swizzle_b": 0, "consumers": "cooperative", "convert": "shared", "converters": 0, "registers": (0, 0),
    "scale_copier": 0, "permute_n": 0, "promote": 0, "mma_n": 0, "early_wait": 0, "unroll": 1, "epilogue": "direct",
    "staged": 0, "panels": 0, "adds": "memory", "inputs": 0, "scheduler": "static", "dependent": 0, "order": "n",
    "band": 1, "run": 1, "stationary": 0,
}  # fmt: skip
"""What a draft has where nothing is decided and nothing follows from the tile: what a kernel does without. 0 `stages`:
as many as whoever asks tries."""


def draft(problem: Problem, given: Request) -> Schedule:
    """A schedule with the fields of `given`, whose tile is decided, and what follows from these.

    Raises:
        ScheduleError: the tile is not.
    """
    tile = given.tile
    if tile is None:
        raise given.undecided("tile")
    shared, several = SHARING[problem.kind.name], max(1, len(problem.results))
    promote = given.promote or 0
    several_take = 2 if halves_folds(problem, tile, promote) else 0
    warpgroups = given_warpgroups(given) or several_take or shared.warpgroups(problem.family, tile, promote, several)
    sharing = 1 if given.consumers == "pingpong" else warpgroups
    values: dict[str, Any] = {
        **PLAINEST,
        "swizzle_c": max(problem.target.swizzles),
        "warpgroups": warpgroups,
        "warps": given.warps or shared.warps(problem, tile, sharing),
        "scale_path": given.scale_path or path_of_scales(problem, tile),
        **({"convert": "registers"} if problem.lhs.in_fragments else {}),
        **given.decided(),
        "invariant": given.invariant,
    }
    made = Schedule(**values)
    if given.scale_copier is None and (copier := copier_for(problem, made)):
        made = made.with_fields(scale_copier=copier)
    if warps_make(problem, made) and given.converters != 0:
        return _converting(problem, given, made)
    registers = given.registers or fitting_registers(problem, made, registers_for(problem, made))
    return made.with_fields(registers=registers)


LOADED = 32
"""Columns of sums whose registers A takes that consumers convert, of two instructions."""

LEAST_COLUMNS = 16
"""Of a tile whose B one warpgroup converts beside A in registers: it took 0.88 to 0.98 of two's time (e4m3 by nvfp4,
mxfp4 and nvfp4 by themselves, one and 16 rows of 8192x8192), of 64 columns 1.00 to 1.08 (H100, 2026-11-27)."""

ENOUGH = 16
"""Registers that a consumer thread keeps free, estimated, beside those who convert."""


def _converting(problem: Problem, given: Request, made: Schedule) -> Schedule:
    """With the most converters beside which consumers find the registers that they need: two where tiles are small, and
    each takes long for its conversion. With many columns one keeps up: tiles of 256x128 took as long with two (bf16 by
    nvfp4, H100, 2026-11-25)."""
    able = CONVERTING[problem.kind.name]
    most = 1 if in_registers(made) and made.tile[1] <= LEAST_COLUMNS else most_converters(problem)
    counts = [given.converters] if given.converters else range(most, 0, -1)
    tried = made
    for count in counts:
        known = able.get((made.warpgroups, count)) or (able[1, 1] if count == counts[-1] else ())
        for registers in known:
            tried = made.with_fields(converters=count)
            tried = tried.with_fields(registers=given.registers or fitting_registers(problem, tried, registers))
            entering = threads(problem, tried)
            columns = (tried.mma_n or tried.tile[1]) + LOADED * in_registers(tried)
            wide = too_wide(problem, columns, entering)
            held = register_file(problem, tried) <= problem.target.entry_registers(entering) * entering
            if held and not wide and free_registers(problem, tried) >= ENOUGH:
                return tried
    return tried


def given_warpgroups(given: Request) -> int | None:
    """The warpgroups that are decided, by their number or by that of their warps; None where neither says it."""
    if given.consumers == "pingpong" and not given.warpgroups:
        return PINGPONG
    if given.warpgroups or given.warps is None:
        return given.warpgroups
    count, rest = divmod(prod(given.warps), WARPS)
    return count if not rest and 1 <= count <= MAX_WARPGROUPS else None
