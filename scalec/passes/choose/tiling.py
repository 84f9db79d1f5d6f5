"""The tile of one CTA, the cluster, and how often sums leave the tensor core."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from scalec.errors import ApartError, ScalecError, ScheduleError, UnsupportedError
from scalec.ir.schedule import Request
from scalec.model.cost import Costs, Load, costs_of, seconds
from scalec.model.space import ranked
from scalec.passes.base import Decision
from scalec.passes.choose import every_tile
from scalec.passes.choose.promotion import promotion
from scalec.passes.choose.refusals import Clusters, Refused, blocks_too_wide, no_sharing, way_out, widest_blocks
from scalec.passes.plan.draft import draft
from scalec.passes.plan.gather import no_gather, no_shared_gather
from scalec.passes.plan.parts import cluster_ctas, clusters_of, no_memory
from scalec.passes.plan.resources import deepest
from scalec.passes.plan.shared_blocks import sharing
from scalec.passes.plan.shared_memory import stages_that_fit
from scalec.passes.plan.tiles import PAIR, keeps_sides, misfit, must_swap, narrow_boxes, no_group, no_halves, no_swap
from scalec.passes.problem.types import ASSUMED, Problem
from scalec.targets import WAVES


@dataclass(frozen=True)
class Candidate:
    """A tile (M, N) of one CTA, the share of a fast tile's rate that it reaches with all SMs busy, and how many CTAs
    multiply together."""

    m: int
    n: int
    efficiency: float
    ctas: int = 1


# Predicted: by bytes that warps load of shared memory for a product, 1/rows + 1/columns of a warp.
_REGISTERS = (
    Candidate(128, 128, 1.00),
    Candidate(128, 64, 0.85),
    Candidate(64, 128, 0.85),
    Candidate(64, 64, 0.70),
    Candidate(32, 128, 0.65),
    Candidate(32, 64, 0.50),
    Candidate(128, 32, 0.45),
    Candidate(16, 128, 0.40),
    Candidate(128, 16, 0.30),
    Candidate(64, 32, 0.30),
    Candidate(64, 16, 0.20),
)

# Predicted: by bytes that L2 gives for a product. Of one CTA, whose A another takes from the same copy, 1/2n + 1/m; of
# two that multiply together, each with half of B, 1/n + 1/2m. The line through the former's values has the latter's,
# down to 128x64, below which it would be 0; at 128x128 both copy as much, and two take less of shared memory.
_TENSOR = (
    Candidate(128, 256, 1.10, 2),
    Candidate(128, 192, 1.03, 2),
    Candidate(128, 128, 0.91, 2),
    Candidate(128, 64, 0.50, 2),
    Candidate(128, 32, 0.25, 2),
    Candidate(128, 256, 1.00),
    Candidate(128, 192, 0.97),
    Candidate(128, 128, 0.90),
    Candidate(128, 64, 0.70),
    Candidate(128, 32, 0.40),
    Candidate(128, 16, 0.25),
)

CANDIDATES = {"mma": _REGISTERS, "tcgen05": _TENSOR}
"""By kind of kernel, of kinds whose launches nobody has measured (scalec.model.cost)."""

COLUMNS = 16
"""Columns that a warp takes, or an instruction has, multiples of."""


def candidates(problem: Problem) -> Iterator[Candidate]:
    """Those of the problem's kind of kernel, of other columns where they would cut blocks of the result's scales."""
    step = math.lcm(problem.block_columns, COLUMNS)
    for c in CANDIDATES[problem.kind.name]:
        columns = c.n if c.n % problem.block_columns == 0 else c.n // step * step or step
        yield replace(c, n=columns, efficiency=c.efficiency * min(1, columns / c.n))


@dataclass(frozen=True)
class ChooseTiling(Decision):
    """Decides `swap`, `tile`, `cluster`, `cta_group` and `promote`, and with them `split` where launches of the kind of
    kernel were measured: of the schedules in scalec.model.space the first that fits, ranked by scalec.model.cost.

    Of other kinds the candidate that keeps the tensor cores busy the shortest. A launch takes ceil(clusters of tiles /
    clusters that run at once) waves, each as long as one tile takes; the candidates must fit registers and shared
    memory. Two CTAs along N share their A tile where N has two tiles; two that multiply together lie along M. FP8 sums
    leave the tensor core every 128 of K (its accumulator keeps fewer bits than FP32), 16-bit ones at the end.

    Attributes:
        spare: registers that a consumer thread must have beyond those that are estimated: where ptxas spilled, the
            compiler asks for more.
        search: the first of SEARCHES that looks for a tile.

        #scale.schedule<{}>
    -->
        #scale.schedule<{tile = array<i64: 256, 128, 128>, cluster = array<i64: 1, 2>, cta_group = 1 : i64,
                         promote = 128 : i64}>
    """

    spare: int = 0
    search: str = "listed"

    name = "choose-tiling"

    def choose(self, problem: Problem, given: Request) -> Request:
        return choose(problem, given, self.spare, self.search)


SEARCHES = ("listed", "every", "roomiest")
"""Where a tile is looked for, one after the other: among those listed here and in scalec.model.space; among all that
the instructions can have; and among these again whatever is estimated, as ptxas is the judge: the one that leaves a
thread the most registers. So every program has one that has a tile at all."""


def choose(problem: Problem, given: Request, spare: int = 0, search: str = SEARCHES[0]) -> Request:
    """The request with tile, cluster, cta_group and promote decided. Arguments are those of `ChooseTiling`: with
    `spare` registers no other search than `search` follows, which is for the compiler to ask for.

    Raises:
        ScheduleError: the fields decided leave no candidate.
        UnsupportedError: nothing is decided, and the target has no tile for the program.
    """
    if not problem.whole_pages and any(x.pages for x in (problem.lhs, problem.rhs)):
        try:
            return choose(replace(problem, whole_pages=True), given, spare, search)
        except ScalecError:
            if spare > 0 and search != SEARCHES[-1]:
                raise
    if given.parts is None and (given.split or 1) > 1 and no_memory(problem):
        given = given.with_fields(parts="cluster")
    # CTAs share blocks along columns, which are rows where the transposed result is computed
    able = given.cluster is None and given.swap != 1 and not must_swap(problem)
    ways = list(sharing(problem)) if able else []
    if ways:
        plan, refusals = _in_cluster(ways, given, spare, search)
        if plan is None:
            raise no_sharing(ways, refusals)
        return plan
    try:
        plan = _alone(problem, given, spare, search)
        return _narrower(problem, given, plan, spare, search) if able and given.tile is None else plan
    except ScalecError:
        ways = list(sharing(problem, whole=False)) if able and spare <= 0 and search == SEARCHES[0] else []
        plan, _ = _in_cluster(ways, given, spare, search)
        if plan is None:
            raise
        return plan


def _narrower(problem: Problem, given: Request, plan: Request, spare: int, search: str) -> Request:
    """One of `narrower`, if launches of the kind of kernel were measured to be faster by NARROWER; else `plan`."""
    other, _ = _in_cluster(narrower(problem, plan), given, spare, search)
    if other is None:
        return plan
    costs = costs_of(problem, plan.promote or 0)

    def predicted(request: Request) -> float:
        seen = problem.seen_by(request)
        return seconds(seen, draft(seen, request), Load.of(seen), costs) if costs is not None else 0.0

    return other if predicted(other) < NARROWER * predicted(plan) else plan


def narrower(problem: Problem, plan: Request) -> Clusters:
    """Where narrower tiles than a plan's are looked at, of CTAs of a cluster that share a block of a result's scales: a
    tile has all rows, such a block is what keeps it from being narrower, and launches of the kind of kernel were
    measured."""
    blocks = [r.scale.block for r in problem.results if r.scale is not None]
    m, n = (plan.tile or (0, 0))[:2]
    measured = costs_of(problem, plan.promote or 0) is not None
    if not measured or plan.swap or n // problem.panes not in blocks or m < problem.sizes()[problem.m.name]:
        return []
    return list(sharing(problem, whole=False))


NARROWER = 0.9
"""Of the predicted time."""


def _alone(problem: Problem, given: Request, spare: int, search: str) -> Request:
    """`choose`, of tiles that have whole blocks of results' scales."""
    seen = problem.transposed() if must_swap(problem) else problem
    depth = given.tile[2] if given.tile is not None else 0
    promote = promotion(seen, depth) if given.promote is None else given.promote
    costs = costs_of(problem, promote)
    swap = given.swap if given.swap is not None else int(_swaps(problem, given))
    ways = _both_ways(problem, given, swap)
    if not any(every_tile.has_whole_blocks(way) for way, _ in ways):
        raise blocks_too_wide(ways[0][0])
    seen = ways[0][0]
    if given.tile is not None:
        return _finished(seen, given, swap, given.tile, _ctas_of(seen, given, given.tile), promote)
    tile_k, refused = deepest(problem), Refused()
    if search == "listed":
        if costs is not None:
            plan = _fastest(problem, given, tile_k, promote, spare, costs, refused)
        else:
            plan = _first(seen, given, swap, tile_k, promote, spare, refused)
        if plan is not None:
            return plan
    if search == "every" or (search == "listed" and spare <= 0):
        fitting = list(every_tile.fitting(ways, tile_k, promote, spare))
        if fitting:
            return _of_every(*min(fitting, key=lambda way: _cost_of(*way)))
    if search == "roomiest" or spare <= 0:
        others = Refused()
        way = every_tile.roomiest(ways, tile_k, promote, spare, others.add)
        if way is not None:
            return _of_every(*way)
        refused = refused if refused.tiles else others
    raise _none_fits(problem, given, refused, retried=spare > 0)


def _in_cluster(
    ways: Clusters, given: Request, spare: int, search: str
) -> tuple[Request | None, dict[tuple[int, int], ScalecError]]:
    """With a cluster whose CTAs share blocks of a result that no tile has, and for which there is a tile: where
    launches of the kind of kernel were measured the fastest, else the smallest; None where there is none. Why the
    others cannot be."""
    found, refusals = list[tuple[float, Request]](), dict[tuple[int, int], ScalecError]()
    for shared, cluster in ways:
        try:
            plan = choose(shared, given.with_fields(cluster=cluster), spare, search)
        except (ScheduleError, UnsupportedError) as error:
            refusals[cluster] = error
            continue
        costs = costs_of(shared, plan.promote or 0)
        time = 0.0 if costs is None else seconds(shared, draft(shared, plan), Load.of(shared), costs)
        found.append((time, plan))
    return min(found, key=lambda x: x[0], default=(0.0, None))[1], refusals


def _first(
    problem: Problem, given: Request, swap: int, tile_k: int, promote: int, spare: int, refused: Refused
) -> Request | None:
    """Of the listed tiles that fit the one that keeps the tensor cores busy the shortest, None where none fits."""
    fitting = _fitting(problem, given, tile_k, promote, spare, refused)
    if not fitting:
        return None
    best = min(fitting, key=lambda c: cost(problem, given, c))
    own = given.with_fields(cta_group=best.ctas)
    tile = (best.m, best.n, _depth(problem, own, (best.m, best.n, tile_k), promote))
    return _finished(problem, given, swap, tile, best.ctas, promote)


def _finished(
    problem: Problem, given: Request, swap: int, tile: tuple[int, int, int], ctas: int, promote: int
) -> Request:
    """With a tile, and the cluster that goes with it."""
    cluster = _cluster(problem, given, tile[1], ctas)
    return given.with_fields(swap=swap, tile=tile, cluster=cluster, cta_group=ctas, promote=promote)


def _both_ways(problem: Problem, given: Request, swap: int) -> list[every_tile.Way]:
    """The program and its transpose, as far as what is decided leaves the choice; by `swap` first."""
    other = not no_swap(problem) and not must_swap(problem) and not keeps_sides(given) and given.swap is None
    ways = []
    for way in (swap, 1 - swap) if other else (swap,):
        own = given.with_fields(swap=way)
        ways.append((problem.turned_for(own), own))
    return ways


def _of_every(problem: Problem, plan: Request) -> Request:
    """With the cluster that goes with a tile that is not listed."""
    seen = draft(problem, plan)
    return plan.with_fields(cluster=_cluster(problem, plan, seen.tile[1], seen.cta_group))


def _cost_of(problem: Problem, plan: Request) -> float:
    """What `cost` says of a tile that is not listed."""
    seen = draft(problem, plan)
    m, n, _ = seen.tile
    return cost(problem, plan, Candidate(m, n, every_tile.efficiency(m, n), seen.cta_group))


def _fastest(
    problem: Problem, given: Request, tile_k: int, promote: int, spare: int, costs: Costs, refused: Refused
) -> Request | None:
    """Of the plans that fit the one that takes the shortest by the measured costs of its kind of kernel, None where
    none fits.

    Tiles larger than one that covers a dimension are looked at where what is decided needs them: 192 rows for three
    warpgroups, whatever M is.
    """
    for larger in (False, True):
        refused.tiles.clear()
        for _, plan, reason in ranked(problem, given, tile_k, promote, costs, spare, larger):
            if not reason:
                return plan
            refused.add(reason, plan)
    return None


def _groups(problem: Problem, given: Request) -> tuple[int, ...]:
    """How many CTAs may multiply together: what is decided, else two as well where M has two tiles for them.

    One where what is decided does not exist: check-schedule says so.
    """
    family = problem.family
    if given.cta_group is not None:
        return (given.cta_group,) if family.columns(given.cta_group) else (1,)
    able = not no_group(problem, 2) and problem.target.max_cluster >= 2
    pairs = able and (given.cluster or PAIR)[0] % 2 == 0
    return (1, 2) if pairs and problem.m.tiles(family.m, ASSUMED) >= 2 else (1,)


def _ctas_of(problem: Problem, given: Request, tile: tuple[int, int, int]) -> int:
    """How many CTAs multiply a decided tile together: as takes the fewest waves, then copies the fewest rows."""

    def key(ctas: int) -> tuple[int, float, int]:
        along_m, along_n = _cluster(problem, given, tile[1], ctas)
        return _waves(problem, given, tile, ctas), tile[0] / along_n + tile[1] / along_m, -ctas

    able = [g for g in _groups(problem, given) if g == 1 or not no_halves(problem, tile, g)]
    return min(able, key=key, default=given.cta_group or 1)


DEEP = 4
"""Stages with which copies are far enough ahead: where memory is the bound, a shallower K tile makes up for fewer."""


WORDS_OF_K = 128
"""K that a word of four scales is of, where blocks have 32 elements: a K tile has whole words."""


def _depth(problem: Problem, given: Request, tile: tuple[int, int, int], promote: int) -> int:
    """K of a tile: the widest swizzle's, or half where that is all of K, and where it leaves fewer than DEEP stages and
    memory is the bound.

    Half the depth costs 3 % of the issue slots (sum of stall counts of the loop, 1.06 against 1.03 times the tensor
    core's, ptxas 13.0 for sm_120a), which a kernel that waits for memory does not need.
    """
    halves = tile[2] // 2
    if promote or problem.lhs.padded or problem.rhs.padded:
        return tile[2]
    short = problem.depth is not None and problem.depth <= halves and halves % WORDS_OF_K == 0
    if not problem.kind.loads_operands and not (problem.kind.tensor_memory and short):
        return tile[2]
    if given.invariant and not short:  # what the bound is depends on M
        return tile[2]
    plan = draft(problem, given.with_fields(tile=tile))
    if narrow_boxes(problem, halves) or no_gather(problem, plan.with_fields(tile=(*tile[:2], halves))):
        return tile[2]
    if short:  # the other half would be products of zeros
        return halves
    return tile[2] if stages_that_fit(problem, plan) >= DEEP or not _memory_bound(problem) else halves


def _memory_bound(problem: Problem) -> bool:
    """Whether operands and result, moved once, take longer than the products, all SMs busy, by the documented rates."""
    target, load = problem.target, Load.of(problem)
    rate = target.rates.flop_per_clock(problem.lhs.element.name, problem.rhs.element.name)
    return load.bytes / target.rates.memory > load.flop / (rate * target.rates.clock * target.sms)


SWAP = 32
"""Rows up to which they are columns of the transposed result: a tile may be 16 columns wide, but is 64 rows high at the
least. From sm_90a, where the fitted model decides by now: H200, 2026-11-21, FP8 1x128 by 128x128, 7168x2048, times as
fast as cuBLASLt: 1.51 against 0.94 at one row, 1.40 against 1.05 at 16; at 64 rows 1.20 against 1.22, and 1.31 against
1.69 at 2112x7168."""


def _swaps(problem: Problem, given: Request) -> bool:
    """Whether the transposed result is computed: few rows, which instructions are narrower than high for.

    Not where a field was decided that would change its meaning, nor where results are to leave by bulk copies of rows,
    nor where blocks of the result's scales ask for more rows of each warp than narrow tiles have.
    """
    if must_swap(problem):
        return True
    if given.convert in ("registers", "addends"):
        return not problem.lhs.converted
    if problem.kind.warps == 1 and problem.block > problem.family.m:
        return False
    if keeps_sides(given):
        return False
    return problem.m.largest is not None and problem.m.largest <= SWAP and not no_swap(problem)


def _fitting(
    problem: Problem, given: Request, tile_k: int, promote: int, spare: int, refused: Refused
) -> list[Candidate]:
    """The candidates that fit."""
    found = []
    for c in candidates(problem):
        if c.ctas not in _groups(problem, given):
            continue
        if (problem.m.largest or c.m) <= max(WAVES["registers"], problem.family.m) < c.m:
            continue
        own = given.with_fields(tile=(c.m, c.n, tile_k), cta_group=c.ctas, promote=promote)
        reason = misfit(problem, own, spare)
        if reason:
            refused.add(reason, own)
        else:
            found.append(c)
    return found


def _none_fits(problem: Problem, given: Request, refused: Refused, retried: bool) -> ScalecError:
    got, what = str(refused), f"no tile fits {problem.target.name}"
    if not given.decided() and not retried:
        said = {"got": got, "expected": "a tile for which none of these holds", "fix": way_out(problem)}
        if (widest := widest_blocks(problem)) is not None:
            return ApartError(what, result=widest.name, place=problem.place, **said)
        return UnsupportedError(what, place=problem.place, **said)
    if not got and given.parts == "cluster":
        got = f"parts=cluster: {every_tile.cannot_meet(problem, given)}"
    alone = [name for name in given.decided() if _has_any(problem, given.with_fields(**{name: None}))]
    return ScheduleError(
        f"{what} with {given}",
        got=got,
        expected="a tile for which none of these holds",
        fix=f"leave {' or '.join(alone)} out" if alone else "decide tile too, or leave more to the compiler",
    )


def _has_any(problem: Problem, given: Request) -> bool:
    """Whether a tile goes with what is decided."""
    swap = given.swap if given.swap is not None else int(_swaps(problem, given))
    promote = promotion(problem) if given.promote is None else given.promote
    ways = _both_ways(problem, given, swap)
    return every_tile.roomiest(ways, deepest(problem), promote, 0, lambda *_: None) is not None


def cost(problem: Problem, given: Request, candidate: Candidate) -> float:
    """How long a launch takes, in units of one accumulator element at the fastest tile's rate."""
    waves = _waves(problem, given, (candidate.m, candidate.n), candidate.ctas)
    return waves * candidate.m * candidate.n / candidate.efficiency


def _waves(problem: Problem, given: Request, tile: tuple[int, ...], ctas: int) -> int:
    """Rounds in which the SMs work on all tiles."""
    along_m, along_n = _cluster(problem, given, tile[1], ctas)
    return -(-clusters_of(problem, tile, (along_m, along_n)) // problem.target.at_once(along_m * along_n))


def _cluster(problem: Problem, given: Request, tile_n: int, ctas: int) -> tuple[int, int]:
    if given.cluster is not None or ctas > 1:
        return given.cluster or PAIR
    pair = cluster_ctas((1, 2), given.split or 1, given.parts or "memory")
    able = problem.target.max_cluster >= pair and not no_shared_gather(problem, (1, 2))
    return (1, 2) if problem.n.tiles(tile_n, ASSUMED) >= 2 and able else (1, 1)
