"""How long a kernel takes, predicted from the target's documented rates. Never a measurement.

The model: a launch takes waves of CTAs, one CTA on an SM, each wave as long as the slowest of what an SM does for a
tile (tensor instructions, shared memory, promotion in FP32, scales that threads rearrange), all of it overlapped; or,
if longer, as long as L2 or device memory take for all its bytes, each tensor crossing the latter once. Filling and
draining pipelines, latencies and clocks that fall under load are not in it: a prediction is what the documents promise,
and kernels are slower. Where launches of the kind of kernel were measured, cost.py's estimate stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from scalec.formats import ELEMENT_TYPES
from scalec.ir.schedule import Schedule
from scalec.model import cost, scale_words
from scalec.passes.plan.parts import cluster_ctas
from scalec.passes.plan.resources import units
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem
from scalec.targets import Target

LABEL = "predicted from documented rates, not measured"
"""What stands beside every prediction."""

QUANTISED = 0.1
"""Share of the SMs' time lost to the last wave from which on a launch is said to be bound by it."""


@dataclass(frozen=True)
class Prediction:
    """What one launch is predicted to take."""

    # of the contraction's dimensions by their names in the program, in the order of Problem.dims; of two that a tile
    # walks as one, `q*h`, their product.
    sizes: dict[str, int]
    tiles: int  # tiles of the result, or where K is split their parts: one CTA's work each
    waves: int  # rounds in which the SMs work on them
    busy: float  # share of the waves' places, one for each SM, that have a tile or part
    flop: int  # floating-point operations of the contraction
    bytes: int  # that cross device memory if every tensor does once
    l2_bytes: int  # from L2 to the SMs
    times: dict[str, float]  # seconds that each resource takes by itself
    launch: float  # seconds of the launch
    # (clock in Hz, seconds) where power leaves the SMs no more (`Rates.sustained`); None where that is not known.
    sustained: tuple[float, float] | None
    # seconds by the model that was fitted to measured launches of this kind of kernel (scalec.model.cost); None where
    # none was measured.
    fitted: float | None
    bound: str  # what the time is bound by: a key of `times`, or "wave quantisation"

    @property
    def seconds(self) -> float:
        """The predicted time, of documented rates alone."""
        return self.launch + max(self.times.values())

    @property
    def flop_per_second(self) -> float:
        return self.flop / self.seconds

    @staticmethod
    def of(problem: Problem, schedule: Schedule, sizes: Mapping[str, int]) -> Prediction:
        """The prediction for a schedule.

        Args:
            problem: as the schedule sees it (scalec.passes.base.problem_of).
            sizes: of every dimension of the contraction, by name.
        """
        rates, sms = problem.target.rates, problem.target.sms
        m, n = (sizes[d.name] * d.panes for d in (problem.m, problem.n))
        walks, (k, sums) = problem.walks(sizes), cost.run_of(problem, sizes)
        along_m, along_n = (_ceil(size, extent) for size, extent in zip((m, n), schedule.tile[:2], strict=True))
        clusters = walks * _ceil(along_m, schedule.cluster[0]) * _ceil(along_n, schedule.cluster[1])
        split = schedule.split
        alone = 1 if schedule.parts == "cluster" else split  # clusters of a tile
        size = cluster_ctas(schedule.cluster, split, schedule.parts)
        waves = _ceil(clusters * alone, problem.target.at_once(size))
        tiles = walks * along_m * along_n * split
        longest = _ceil(sums * _ceil(k, schedule.tile[2]), split) * schedule.tile[2]  # K of a part
        stays = schedule.run if schedule.stationary else 1
        l2_bytes = (
            problem.lhs.stored.bytes(walks * m * sums * k) * _ceil(along_n, schedule.cluster[1])
            + problem.rhs.stored.bytes(walks * n * sums * k) * _ceil(along_m, schedule.cluster[0] * stays)
            + sum(r.element.bytes(problem.held(r.coords, sizes)) for r in problem.bodies)
        )
        if alone > 1:  # sums of the parts, stored and loaded once each
            l2_bytes += 2 * 4 * tiles * prod(schedule.tile[:2])
        moved = memory_bytes(problem, sizes)
        in_sm = {name: waves * c / rates.clock for name, c in cycles_of_tile(problem, schedule, longest).items()}
        times = {**in_sm, "L2": l2_bytes / rates.l2, rates.memory_kind: moved / rates.memory}
        clock = rates.sustained_clock(*(_rated(problem, x) for x in (problem.lhs, problem.rhs)))
        slower = max(*times.values(), *(t * rates.clock / (clock or rates.clock) for t in in_sm.values()))
        busy = tiles / (waves * sms)
        costs = cost.costs_of(problem, schedule.promote)
        load = cost.Load.of(problem.transposed() if problem.swapped else problem, sizes)
        slowest = max(times, key=lambda name: times[name])
        quantised = slowest in in_sm and 1 - busy > QUANTISED
        return Prediction(
            sizes={d.name + f"*{d.within}" * bool(d.within): sizes[d.name] for d in problem.dims},
            tiles=tiles,
            waves=waves,
            busy=busy,
            flop=load.flop,
            bytes=moved,
            l2_bytes=l2_bytes,
            times=times,
            launch=rates.launch,
            sustained=None if clock is None else (clock, rates.launch + slower),
            fitted=None if costs is None else cost.seconds(problem, schedule, load, costs),
            bound="wave quantisation" if quantised else slowest,
        )


def cycles_of_tile(problem: Problem, schedule: Schedule, k: int) -> dict[str, float]:
    """Clocks that each part of an SM takes for one tile of so much K: whole K blocks, and rows beyond the edge."""
    family, rates = problem.family, problem.target.rates
    bm, bn, bk = schedule.tile
    blocks = _ceil(k, bk)
    multiplies = bm * bn * bk * blocks
    along_m, along_n = units(problem, schedule)
    instructions = multiplies / (along_m * along_n * family.m * family.n[0] * family.k)  # of one warp
    tensor = 2 * multiplies / rates.flop_per_clock(*(_rated(problem, x) for x in (problem.lhs, problem.rhs)))
    parts = {
        "tensor issue": max(tensor, instructions * rates.issue_cycles),
        "shared memory": blocks * shared_bytes(problem, schedule) / rates.shared,
    }
    if schedule.promote:
        parts["promotion"] = bm * bn * _ceil(k, schedule.promote) * _promotion(problem) / rates.fp32
    words = scale_words.instructions(problem, schedule)
    if words:
        parts["scale words"] = blocks * words
    return parts


def _rated(problem: Problem, operand: Operand) -> str:
    """The element type at whose rate an operand is multiplied: narrow ones that are padded to a byte, as bytes are."""
    narrow = operand.element.bits < problem.family.container_bits
    return "e4m3" if narrow else operand.element.name


def shared_bytes(problem: Problem, schedule: Schedule) -> int:
    """Bytes of shared memory that tensor instructions, or the loads before them, read in a K block.

    What copies write there is left out: with it, the 192x128 tile of the H200 could not keep its tensor cores 94 %
    busy, as it does (8192x8192x8192 FP8, 2026-11-21).
    """
    bm, bn, bk = schedule.tile
    a, b = bm * problem.lhs.shared_bytes(bk), bn * problem.rhs.shared_bytes(bk)
    if not problem.kind.loads_operands:  # each instruction reads its rows of A and the B that is here
        return a + b * (bm // problem.family.m) // schedule.cta_group
    along_m, along_n = units(problem, schedule)  # each warp loads its rows and its columns
    return a * along_n + b * along_m


def _promotion(problem: Problem) -> int:
    """FP32 instructions for each sum that is promoted: one more where its scale is its own, and as long as two for the
    conversion of one that is i32 (CUDA guide, "Arithmetic Instructions": 64 an SM in a clock)."""
    own = problem.lhs.promoted and any(s.rows == 1 for s in problem.rhs.promoted)
    return (2 if own else 1) + 2 * problem.family.whole_sums


def memory_bytes(problem: Problem, sizes: Mapping[str, int]) -> int:
    """Bytes of all tensors: operands, scales, zero points, what the epilogue reads, and the results (twice those that
    are added to)."""
    results, sides = problem.bodies, [x for p in problem.products for x in (p.lhs, *p.rhs.panes)]
    read = [(x.stored, x.coords) for x in sides]
    read += [(ELEMENT_TYPES[s.type], s.coords) for x in sides for s in x.scales if not s.made]
    read += [(ELEMENT_TYPES[x.zeros.type], x.zeros.coords) for x in sides if x.zeros is not None and x.zeros.name]
    read += list(
        {(x.name, x.coords): (x.element, x.coords) for r in results for x in r.inputs if x.name != r.name}.values()
    )
    read += [(s.outer.element, s.outer.coords) for r in results if (s := r.scale) is not None and s.outer is not None]
    written = sum(r.element.bytes(problem.held(r.coords, sizes)) * (2 if r.inout else 1) for r in results)
    return sum(x.bytes(problem.held(coords, sizes)) for x, coords in read) + written


def _ceil(size: int, extent: int) -> int:
    return -(-size // extent)


def rates_of(target: Target) -> dict[str, object]:
    """The rates behind a prediction, as plain data."""
    r = target.rates
    return {
        "part": r.part,
        "source": r.source,
        "clock_ghz": r.clock / 1e9,
        "sustained_clock_ghz": {", ".join(sorted(types)): round(clock / 1e9, 3) for types, clock in r.sustained},
        "memory": r.memory_kind,
        "memory_gbytes_per_s": r.memory / 1e9,
        "l2_gbytes_per_s": r.l2 / 1e9,
        "flop_per_clock_and_sm": {", ".join(sorted(types)): rate for types, rate in r.tensor},
        "sms": target.sms,
        "launch_us": r.launch * 1e6,
    }
