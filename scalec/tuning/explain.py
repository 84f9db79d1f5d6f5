"""Which schedule a program gets and why: each decision with what decided it, and what a launch is predicted to take.

What is explained are the passes' decisions. Where ptxas then spills, the compiler chooses again and says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from scalec import frontend
from scalec.compiler import decisions, placed
from scalec.errors import ScalecError, ScheduleError
from scalec.formats import ELEMENT_TYPES
from scalec.ir import context as contexts
from scalec.ir import schedule as schedules
from scalec.ir.schedule import LANES, Request, Schedule
from scalec.measured.database import Entry
from scalec.meetings import FAN_IN, meetings
from scalec.model import cost, scale_words, space
from scalec.model.predict import Prediction, cycles_of_tile
from scalec.passes.base import programs
from scalec.passes.choose.scheduler import choice
from scalec.passes.plan.converted import in_registers, no_registers, registers_make
from scalec.passes.plan.counting import partial_words
from scalec.passes.plan.gather import copied_by_threads
from scalec.passes.plan.loaded_inputs import loaded_inputs, no_loaded_inputs
from scalec.passes.plan.parts import cluster_ctas, no_meeting, part_columns
from scalec.passes.plan.resources import no_bulk, no_bulk_scales, part_owners, scale_copy, scale_warps, units
from scalec.passes.plan.shared_blocks import together
from scalec.passes.plan.shared_memory import SharedPlan
from scalec.passes.plan.swizzle import no_bulk_epilogue, no_turned_epilogue, not_worth_turning
from scalec.passes.plan.tensor_columns import scale_copies, scale_slots
from scalec.passes.plan.warps import PROMOTED_COLUMNS
from scalec.passes.problem.products import in_order
from scalec.passes.problem.result import Reduced, Result
from scalec.passes.problem.types import Problem
from scalec.sizes import Range, Size
from scalec.targets import Target, get_target
from scalec.tuning import groups, reordered
from scalec.tuning.fused import fused

_SCHEDULE = re.compile(r"( of| with)? \w+=[\w]+(, \w+=[\w]+)*")
"""A schedule in a message: it stands elsewhere."""


F32 = ELEMENT_TYPES["f32"]


@dataclass(frozen=True)
class Explanation:
    """A kernel's schedule."""

    dims: dict[str, Size]  # sizes that are fixed
    assumed: dict[str, int]  # sizes that the predictions assume of dimensions that are not
    schedule: Schedule  # every decision
    reasons: dict[str, str]  # by field, or by fields that are decided together
    predictions: tuple[Prediction, ...]  # one for each size of M asked for
    tuned: Entry | None = None  # what the tuning database had for the program
    # what rides on the product, and what that saves, at the first of the sizes predicted for.
    fused: tuple[str, ...] = ()
    # where the program takes several (scalec.launches): the program of each, and the bytes between them.
    launches: tuple[str, ...] = ()


def explain(
    source: str, target: str, dims: Mapping[str, Size], schedule: Mapping[str, str], rows: Sequence[int] = ()
) -> Explanation:
    """Decides the schedule of a program and explains it.

    Args:
        source: the program's text.
        target: a row of scalec.targets.
        dims: sizes of dimensions to fix, or ranges, at whose upper ends it is explained.
        schedule: decisions as text, over those of a `with` clause.
        rows: sizes of M to predict for, where M stays dynamic.

    Raises:
        ScalecError: a refusal of the front end or of a pass; `rows` for an M that is fixed, or outside its range.
    """
    row = get_target(target)
    with contexts.context(), placed(source):
        module = frontend.build(source, dims)
        given = schedules.asked(next(programs(module)), schedule)
        taken: list[Entry] = []
        problem, chosen = decisions(module, row, given, found=taken.append)
        entry = taken[0] if taken else None
        m = problem.dims[0]
        if rows and m.size is not None:
            raise ScalecError(
                f"{m.name} is fixed",
                got=f"{m.name} = {m.size} and sizes to predict for",
                fix=f"leave {m.name} out of --dim",
            )
        within = dims.get(m.name)
        beyond = [size for size in rows if isinstance(within, Range) and not within.has(size)]
        if beyond:
            raise ScalecError(
                f"{m.name} = {beyond[0]} lies outside {within}, for which the kernel is compiled",
                fix=f"predict for sizes from {within}, or give another range of {m.name}",
            )
        typical = problem.sizes()
        assumed = {d.name: typical[d.name] for d in problem.dims if d.size is None}
        sizes = [typical | {m.name: size * m.inner} for size in rows] or [typical]
        reasons = _reasons(problem, given, chosen, Prediction.of(problem, chosen, typical), entry)
        if given.tile is None and (entry is None or "tile" not in entry.schedule):
            others = _ranked(problem, given, chosen) or _neighbours(module, row, given, chosen, typical)
            reasons["tile"] += "; " + others
            if (costs := cost.costs_of(problem, chosen.promote)) and (
                told := reordered.gain(problem, given, chosen, costs)
            ):
                reasons["converters"] = f"{reasons.get('converters', '')}; {told}"
        if rows:
            assumed.pop(m.name, None)
        predictions = tuple(Prediction.of(problem, chosen, s) for s in sizes)
        rides = tuple(fused(problem, sizes[0]))
    return Explanation(dict(dims), assumed, chosen, reasons, predictions, entry, rides)


NEXT = 3
"""Tiles that come after the one that was chosen, where schedules are ranked."""


def _ranked(problem: Problem, given: Request, chosen: Schedule) -> str:
    """How the tiles that are ranked next compare, where launches of the kind of kernel were measured; else ""."""
    costs = cost.costs_of(problem, chosen.promote)
    if costs is None:
        return ""
    stated = problem.transposed() if problem.swapped else problem
    first, found = 0.0, {}
    for seconds, plan, reason in space.ranked(stated, given, chosen.tile[2], chosen.promote, costs):
        if reason:
            continue
        first = first or seconds
        way = f"{'x'.join(map(str, plan.tile or ()))}{' swapped' if plan.swap else ''}"
        if (plan.tile, plan.swap) != (chosen.tile, chosen.swap):
            found.setdefault(way, seconds / first)
        if len(found) == NEXT:
            break
    told = ", ".join(f"{way} {ratio:.2f}" for way, ratio in found.items())
    return f"next by the fitted model, in times as long: {told}" if told else "no other goes"


def _neighbours(module: Any, row: Target, given: Request, chosen: Schedule, sizes: Mapping[str, int]) -> str:
    """The tiles twice and half as tall or wide: how their prediction compares, or why they cannot be."""
    m, n, k = chosen.tile
    problem, schedule = decisions(module, row, given)
    here, found = Prediction.of(problem, schedule, sizes).seconds, []
    given = given.with_fields(swap=chosen.swap, **({"convert": chosen.convert} if problem.converts else {}))
    for tile in ((2 * m, n, k), (m, 2 * n, k), (m // 2, n, k), (m, n // 2, k)):
        name = "x".join(map(str, tile))
        try:
            problem, schedule = decisions(module, row, given.with_fields(tile=tile))
            found.append(
                f"{name} is predicted to take {Prediction.of(problem, schedule, sizes).seconds / here:.2f} times"
            )
        except ScheduleError as error:
            found.append(f"{name} does not go ({_SCHEDULE.sub('', error.message)})")
    return ", ".join(found)


def _reasons(
    problem: Problem, given: Request, chosen: Schedule, typical: Prediction, entry: Entry | None
) -> dict[str, str]:
    """Why each field is what it is; "given" where the program or the user decided it, "measured" where the tuning
    database did."""
    target = problem.target
    made = {
        "swap": _swap(problem),
        "tile": f"{_tiles(problem, typical)} in {_count(typical.waves, 'wave')} keep {typical.busy:.0%} of "
        f"{target.sms} SMs busy" + (f"; {few}" if (few := groups.expected(problem, chosen, typical.sizes)) else ""),
        "cluster": _cluster(problem, chosen),
        "cta_group": _cta_group(problem, chosen),
        "parts": _parts(problem, chosen),
        "stages": f"{SharedPlan.of(problem, chosen)} of {target.shared_bytes}",
        "consumers": _consumers(chosen),
        "warps": _warps(problem, chosen),
        "convert": _where_converted(problem, chosen),
        "converters": _converted(problem, chosen),
        "promote": _sums(problem, chosen),
        "mma_n": _goes(chosen),
        "scale_path": _scale_path(problem, chosen),
        "scale_copier": _scale_copier(problem, chosen),
        "adds" if chosen.adds == "loaded" else "inputs": _inputs(problem, chosen),
        "epilogue": "; ".join(filter(None, (_epilogue(problem, chosen), _reductions(problem, chosen, typical)))),
        "scheduler": _scheduler(problem, chosen),
        "order": _order(problem, chosen),
    }
    decided, measured = given.decided(), entry.schedule if entry is not None else {}
    for name in measured:
        made.setdefault(name, "")
    if entry is not None and "tile" in measured:
        made["tile"] = f"{entry.told}; {made['tile']}"

    def why(name: str, text: str) -> str:
        by = "given" if name in decided else "measured" if name in measured else ""
        return "; ".join(part for part in (by, text) if part)

    return {name: why(name, text) for name, text in made.items() if text or name in measured}


def _swap(problem: Problem) -> str:
    if not problem.swapped:
        return ""
    rows, columns, fold = problem.m.name, problem.n.name, problem.column_fold
    first = f"the fields below have {rows} first"
    if fold is not None and fold.along == columns:
        return f"the transposed result is computed: {problem.names} reduces {fold.dim}, indices of columns, {first}"
    return f"the transposed result is computed: few {columns} are columns of a tile, {first}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number != 1 else "")


def _tiles(problem: Problem, typical: Prediction) -> str:
    """How many tiles there are, and of how many points of Problem.outer."""
    point, walks = _point(problem), prod(typical.sizes[d.name] for d in problem.outer)
    told = _count(typical.tiles, "tile") + (f", {typical.tiles // walks} for each {point}," if point else "")
    as_one = ", ".join(f"{dim} with {other}" for dim, other in problem.spans)
    return told + (f" (walked as one where strides allow: {as_one})" if as_one else "")


def _point(problem: Problem) -> str:
    """What one point of Problem.outer is called, of those that no tile walks over; "" without any."""
    within = {other for _, other in problem.spans}
    return " and ".join(d.name for d in problem.outer if d.name not in within)


def _cluster(problem: Problem, chosen: Schedule) -> str:
    along_m, along_n = chosen.cluster
    halves = chosen.cta_group
    shared = [f"two CTAs along {problem.m.name} multiply together"] if halves > 1 else []
    shared += [f"{along_n} CTAs along {problem.n.name} take one copy of {problem.lhs.name}"] if along_n > 1 else []
    shared += [f"as no tile has a block of it, {reason}"] if (reason := together(problem)) else []
    if along_m > halves:
        of = " half" if halves > 1 else ""
        shared.append(f"{along_m // halves} CTAs along {problem.m.name} take one copy of{of} {problem.rhs.name}")
    if shared:
        return ", ".join(shared)
    if problem.target.max_cluster < 2:
        return f"{problem.target.name} has no multicast to gain from"
    sides = zip((problem.m, problem.n), chosen.tile, strict=False)
    if all(d.largest is not None and d.largest <= extent for d, extent in sides):
        return f"one tile{f' for each {point}' if (point := _point(problem)) else ''}: nothing to share"
    return (
        "each CTA copies tiles of its own: to share copies would not be faster by the same reckoning, or does not fit"
    )


def _parts(problem: Problem, chosen: Schedule) -> str:
    if chosen.split == 1:
        return ""
    if chosen.parts == "cluster":
        first = "the first" if part_owners(problem, chosen) == 1 else "the first two"
        ctas = cluster_ctas(chosen.cluster, chosen.split, chosen.parts)
        return f"{ctas} CTAs are a cluster, and the sums of parts go to the shared memory of {first}"
    if chosen.parts == "columns":
        some = part_columns(chosen.tile[1], chosen.split)
        return f"where all CTAs of a tile run they wait for each other, and add {some} columns each"
    reason = no_meeting(problem, chosen.cluster, chosen.split, chosen.scheduler)
    reason = reason or "a cluster of all parts has no room for their sums, or not all run at once"
    if len(meetings(chosen.split)) > 1 and not problem.kind.tensor_memory:
        return f"{FAN_IN} parts meet at a time, and the last CTA to come goes on with their sum; {reason}"
    return f"the last CTA of a tile adds the sums of all; {reason}"


def _cta_group(problem: Problem, chosen: Schedule) -> str:
    if chosen.cta_group == 2:
        return f"each of two CTAs copies half of {problem.rhs.name}, and the tensor cores of both read both halves"
    if not problem.family.pair_n:
        return ""
    if problem.m.largest is not None and problem.m.largest <= problem.family.m:
        return f"one tile along {problem.m.name}: nothing to multiply together"
    return "one CTA multiplies by itself: two together would not be faster by the same reckoning, or do not go"


def _consumers(chosen: Schedule) -> str:
    if chosen.consumers != "pingpong":
        return ""
    return f"{chosen.warpgroups} warpgroups take whole tiles by turns: one stores its results while another multiplies"


def _warps(problem: Problem, chosen: Schedule) -> str:
    rows, columns = chosen.tile[0] // chosen.warps[0], chosen.tile[1] // chosen.warps[1]
    if problem.kind.tensor_memory:
        told = f"{_count(chosen.warpgroups, 'warpgroup')} to write results: {rows} rows by {columns} columns a warp"
        if chosen.promote and chosen.tile[1] > PROMOTED_COLUMNS:
            return f"{told}, whose sums a thread holds"
        return told if chosen.warpgroups != 1 else f"{told}; two share them likewise, which nobody has measured"
    if problem.kind.warps > 1:
        sharing = units(problem, chosen)[0]
        who = f"{sharing} warpgroups multiply together" if sharing > 1 else "a warpgroup multiplies"
        named = [x for x in (problem.lhs, problem.rhs) if copied_by_threads(problem, x)]
        rows_of = " and ".join(f"of {x.name} that {x.gathered} names" for x in named)
        if problem.k_lookups:
            along = " and ".join(x.name for x in problem.k_lookups)
            copied = " and ".join(x.name for x in named)
            rows_of = f"of {copied} for each {problem.k.name} that {along} names"
        return f"{who}, {rows} rows a warp" + (f"; another copies the rows {rows_of}" if named else "")
    return f"each warp multiplies {rows}x{columns} of the tile by itself"


def _where_converted(problem: Problem, chosen: Schedule) -> str:
    """Where operands become what is multiplied."""
    if in_registers(chosen):
        beside = f"; warps make that of {problem.rhs.name} in shared memory" if problem.rhs.converted else ""
        if problem.lhs.addends:
            twice = problem.lhs.addends > 1
            beside = ", twice: as two addends of each element" if twice else ", over a power of two of each K block"
        return (
            f"consumers make what is multiplied of {problem.lhs.name} in registers, out of which wgmma takes it{beside}"
        )
    return no_registers(problem, chosen) if problem.converts else ""


def _converted(problem: Problem, chosen: Schedule) -> str:
    """What becomes of operands between copies and products."""
    told = []
    for x in (problem.lhs, problem.rhs):
        warps = "consumers" if registers_make(problem, chosen, x) else "warps"
        if x.made is not None:
            times, to = f" times {x.folded.name}" if x.folded is not None else "", x.rounded and x.rounded.name
            scales = f"scales of {x.made.type} for each {x.made.k} of {problem.k.name}"
            told.append(f"warps quantise {x.name} ({x.stored.name}){times} anew, to {to} with {scales}")
        elif x.rounded is not None:
            told.append(f"warps compute what is multiplied of {x.name} ({x.stored.name}), rounded to {x.rounded.name}")
        elif x.stored != x.element:
            folded = f", times {x.folded.name}" if x.folded is not None else ""
            folded += {1: ", over a power of two of each K block", 2: ", as the sum of two"}.get(x.addends, "")
            less = " in words" * x.in_words + ("" if x.zeros is None else f" less {x.zeros.told}")
            told.append(f"{warps} make {x.element.name} of {x.name} ({x.stored.name}){less}{folded}")
        elif x.turned:
            told.append(f"warps turn {x.name}, so that {problem.k.name} is contiguous")
        elif x.wrapped:
            told.append(f"a warp makes K blocks of {x.name} whole, of which groups of {problem.k.name} begin anywhere")
        elif x.shifted:
            told.append(f"warps shift rows of {x.name}, of which groups of {problem.k.name} begin anywhere")
        elif x.converted:
            told.append(f"warps read {x.name}, and write it again as it is")
        if x.folds:
            told.append(f"the same warps reduce {x.name} to {' and '.join(f.name for f in x.folds)}")
    return "; ".join(told)


def _sums(problem: Problem, chosen: Schedule) -> str:
    return "; ".join(filter(None, (_promoted(problem, chosen), _term(problem, chosen))))


def _term(problem: Problem, chosen: Schedule) -> str:
    """What is computed of the sums of one product before those of others are added."""
    if not problem.terms:
        return ""
    named = [f"{x.lhs.name} @ {x.rhs.name}" for x in map(problem.products.__getitem__, in_order(problem))]
    first, others = (" and ".join(x) for x in (named[: len(problem.terms)], named[len(problem.terms) :]))
    read = " and ".join(dict.fromkeys(x.name for term in problem.terms for r in term.results for x in r.inputs))
    apart = ", in accumulators of their own" * (problem.kind.tensor_memory and not chosen.promote)
    behind = f"then those of {others} are added" if others else "then they are added up"
    computed = "something is computed" + " of each" * (len(problem.terms) > 1) + f" with {read}" * bool(read)
    return f"sums of {first} come first, of which {computed}; {behind}{apart}"


def _promoted(problem: Problem, chosen: Schedule) -> str:
    if not chosen.promote:
        return "no scale is left for FP32, and the tensor core's own sums are wide enough"
    scales = [s.name for o in (problem.lhs, problem.rhs) for s in o.promoted]
    if scales:
        return f"{' and '.join(scales)} change along {problem.k.name} and are applied in FP32"
    return "the tensor core's sums are short: FP32 takes over"


def _goes(chosen: Schedule) -> str:
    if not chosen.mma_n:
        return "waves of rows one by one, each while the one before is reduced" if chosen.stationary else ""
    count = chosen.tile[1] // chosen.mma_n
    if chosen.stationary:
        return f"{_count(count, 'product')} of a wave's columns, each while the one before is reduced"
    return f"{_count(count, 'product')} of a wave's columns, whose partial sums a thread has registers for one by one"


def _scale_path(problem: Problem, chosen: Schedule) -> str:
    told = scale_words.reasons(problem, chosen)
    counted = scale_words.instructions(problem, chosen)
    if counted:
        _, count = scale_warps(problem, chosen)
        tensor = cycles_of_tile(problem, chosen, chosen.tile[2])["tensor issue"]
        told.append(
            f"{count} warps issue about {counted:.0f} instructions each for a K block, whose products take "
            f"{tensor:.0f} clocks (predicted: {counted / tensor:.0%} of a scheduler's clocks, no waits)"
        )
    promoted = [s for o in (problem.lhs, problem.rhs) for s in o.promoted if s.rows == 1 and not s.made]
    if promoted and not told:
        reason = no_bulk_scales(problem, chosen.tile) or "scale_path=thread"
        return "tensor copies bring the scales" if chosen.scale_path == "bulk" else f"by threads: {reason}"
    for scale in promoted:
        bulk = scale_copy(problem, scale, chosen) != "thread"
        reason = no_bulk(problem, scale) or "scale_path=thread"
        told.append(f"tensor copies bring {scale.name}" if bulk else f"threads bring {scale.name}: {reason}")
    return "; ".join(told)


def _scale_copier(problem: Problem, chosen: Schedule) -> str:
    copies = scale_copies(problem, chosen)
    if not copies:
        return ""
    told = f"{copies} copies to tensor memory for {chosen.tile[2] // problem.family.k} products of a K block"
    if chosen.scale_copier:
        return f"{told}: a warp of its own makes them, up to {scale_slots(problem, chosen)} K blocks ahead"
    return f"{told}: the thread that issues these makes them too"


def _epilogue(problem: Problem, chosen: Schedule) -> str:
    if not problem.results:
        return ""
    leaves = "leaves" if len(problem.results) == 1 else "leave"
    if chosen.epilogue == "bulk":
        told = f"{problem.names} {leaves} through shared memory by tensor copies"
        if chosen.adds == "loaded":
            there = [x.name for r in problem.results for x in loaded_inputs(problem, chosen, r)]
            told += f", {there[0]} into its place" if there else ", and what is there comes by them meanwhile"
        if chosen.permute_n:
            columns = chosen.permute_n // LANES
            told += f"; {problem.rhs.name}'s rows come permuted, for threads to have {columns} adjacent columns"
        return told
    if chosen.epilogue == "rows":
        return f"{problem.names} {leaves} through shared memory, out of which threads store rows"
    if chosen.epilogue == "turned":
        is_, it = ("is", "it") if len(problem.results) == 1 else ("are", "them")
        return f"{problem.names} {is_} turned in shared memory: threads store rows of {it}"
    if problem.swapped:
        reason = no_turned_epilogue(problem) or not_worth_turning(problem, chosen)
        return f"{problem.names} {leaves} from registers{f': {reason}' if reason else ''}"
    why = no_bulk_epilogue(problem, chosen) or "a staged tile would cost stages, or has no tensor copy"
    return f"{problem.names} {leaves} from registers: {why}"


def _inputs(problem: Problem, chosen: Schedule) -> str:
    """Who brings what results are computed of at each row and column."""
    read = dict.fromkeys(x.name for r in problem.results for x in r.inputs if x.kind == "both" and x is not r.added)
    brought = dict.fromkeys(x.name for r in problem.results for x in loaded_inputs(problem, chosen, r))
    if not read:
        return ""
    told = f"tensor copies bring {' and '.join(brought)} while a tile is multiplied" if brought else ""
    if left := [name for name in read if name not in brought]:
        why = "" if brought else no_loaded_inputs(problem, chosen)
        told += f"{'; ' * bool(told)}threads load {' and '.join(left)}{f': {why}' if why else ''}"
    return told


def _reductions(problem: Problem, chosen: Schedule, typical: Prediction) -> str:
    """What is reduced of the sums of results, and what a kernel of its own would read instead."""
    if not problem.reductions:
        return ""
    each_of = [(r, r.reduced) for r in problem.reductions if r.reduced is not None]
    named = [x.name for r, reduced in each_of for x in (*reduced.beside, r)]
    names, over = " and ".join(named), " and ".join(dict.fromkeys(reduced.over for _, reduced in each_of))
    powers = [(r, reduced) for r, reduced in each_of if reduced.kind == "sum_exp"]
    told = "".join(f"; {_relative(r, reduced)}" for r, reduced in powers)
    read = f"{problem.results[0].name}, " if problem.results else f"the product in {F32.name}, "
    element = problem.results[0].element if problem.results else F32
    saved = element.bytes(prod(typical.sizes[d.name] for d in (problem.m, problem.n, *problem.outer)))
    each = 4 * partial_words(problem, chosen)
    return (
        f"{names} {'is' if len(named) == 1 else 'are'} of the same sums: a tile leaves {each} bytes in "
        f"memory, and the last one along {over} puts them together; a kernel of its own would read {read}"
        f"{saved / 1e6:.1f} MB{told}"
    )


def _relative(result: Result, reduced: Reduced) -> str:
    """How tiles that meet have a sum of exponentials."""
    rides = f", which {' and '.join(x.name for x in reduced.beside)} is made of too" if reduced.beside else ""
    return (
        f"{result.name} is summed relative to a tile's own largest{rides}; where tiles meet, a sum is multiplied by "
        "exp of how far that is below the largest of all"
    )


def _scheduler(problem: Problem, chosen: Schedule) -> str:
    scheduler, reason = choice(problem, chosen)
    reason += f": {groups.FOUND}" if problem.queued else ""
    return reason if scheduler == chosen.scheduler else f"{scheduler} would be chosen: {reason}"


def _order(problem: Problem, chosen: Schedule) -> str:
    inner, outer = (problem.m, problem.n) if chosen.order == "n" else (problem.n, problem.m)
    told = f"tiles follow each other along {inner.name} within {chosen.band} along {outer.name}, which stay in L2"
    if chosen.run > 1:
        keeps = f"what is read for each of {problem.n.name}" + f", and a tile of {problem.rhs.name}" * chosen.stationary
        told = f"{told}; a cluster takes up to {chosen.run} along {problem.m.name} in a row, and keeps {keeps}"
    return f"{told}; all of one {point} before the next" if (point := _point(problem)) else told
