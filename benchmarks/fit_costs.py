"""Fits the constants of scalec/model/cost.py to measured schedules, and says how well the model ranks.

    python benchmarks/fit_costs.py benchmarks/results/*-schedules-fp8*.json            judges the constants as they are
    python benchmarks/fit_costs.py benchmarks/results/*-schedules-fp8*.json --fit      fits them (needs scipy)

Judged at each shape: whether the schedule that was the fastest is among the first five of the model, and how much
slower its first one is. Fitted are the logarithms of the times, mostly relative to the other schedules of their shape,
and those of fast schedules most: slow ones need only be told from them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import exp, log
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.schedules import problem_of
from scalec.ir import context as contexts
from scalec.ir.schedule import Schedule, from_mapping
from scalec.model.cost import FITTED, Costs, Load, kind_of, seconds
from scalec.passes.plan.draft import draft
from scalec.targets import get_target

FIRST = 5
ABSOLUTE = 0.35
"""Weight of a time's own error, beside that of its ratio to the others of its shape."""


@dataclass(frozen=True)
class Shape:
    """One shape: for each schedule the problem as it sees it, the schedule, and the microseconds that were measured."""

    sizes: tuple[int, int, int]
    load: Load
    schedules: tuple[tuple[Any, Schedule, float], ...]

    def predicted(self, costs: Costs) -> list[float]:
        """Microseconds by the model."""
        return [1e6 * seconds(problem, schedule, self.load, costs) for problem, schedule, _ in self.schedules]


@dataclass(frozen=True)
class Judgement:
    """How well constants rank.

    Attributes:
        shapes: how many.
        first_five: share of the shapes whose fastest schedule is among the first five.
        slower: geometric mean of the first schedule's time over the fastest one's.
        worst: the largest of these.
    """

    shapes: int
    first_five: float
    slower: float
    worst: float


def read(path: Path, every: int = 1) -> tuple[tuple[str, str], list[Shape]]:
    """The kind of kernel that a file of benchmarks/schedules.py is of, and `every` so many-th of its shapes."""
    data = json.loads(path.read_text())
    target, kind, found = get_target("sm_90a"), ("", ""), []
    with contexts.context():
        for m, n, k, rows in data["points"][::every]:
            problem = problem_of(data["expression"], {"m": m, "n": n, "k": k}, target)
            turned = problem.transposed()
            kind = kind_of(problem, data["promote"])
            every, (*names, _) = [], data["columns"][3]
            for *texts, us in rows:
                given = dict(zip(names, texts, strict=True), promote=str(data["promote"]))
                seen = turned if given["swap"] == "1" else problem
                every.append((seen, draft(seen, from_mapping(given)), us))
            found.append(Shape((m, n, k), Load.of(problem), tuple(every)))
    return kind, found


PRIOR = 8
"""Schedules of no error that each tile's own factor is averaged with."""

LEAST = 0.02
"""Difference from 1 from which on a tile has a factor of its own."""


def judge(shapes: Sequence[Shape], costs: Costs) -> Judgement:
    """How well `costs` rank the schedules of these shapes."""
    among, ratios = 0, []
    for shape in shapes:
        ranked = [us for _, us in sorted(zip(shape.predicted(costs), (x[2] for x in shape.schedules), strict=True))]
        ratios.append(ranked[0] / min(ranked))
        among += min(ranked[:FIRST]) == min(ranked)
    mean = exp(sum(map(log, ratios)) / len(ratios))
    return Judgement(len(shapes), among / len(shapes), mean, max(ratios))


def fit(shapes: Sequence[Shape], start: Costs) -> Costs:
    """The constants that fit best, from `start` on; those that are 0 there stay so."""
    import numpy as np
    from scipy.optimize import least_squares

    values = {f.name: getattr(start, f.name) for f in fields(Costs) if f.name != "tiles"}
    free = [name for name, value in values.items() if value > 0]
    measured = [np.log([us for _, _, us in s.schedules]) for s in shapes]
    weights = [1 / (1 + 6 * (np.exp(t - t.min()) - 1)) for t in measured]

    def costs_at(logs: Any) -> Costs:
        return Costs(**{**values, **dict(zip(free, map(float, np.exp(logs)), strict=True))})

    def relative(costs: Costs) -> Iterator[tuple[Any, Any, Any]]:
        """Of each shape: errors, those relative to their mean, and weights."""
        for shape, t, w in zip(shapes, measured, weights, strict=True):
            r = np.log(shape.predicted(costs)) - t
            yield r, r - (w * r).sum() / w.sum(), w

    def residuals(logs: Any) -> Any:
        return np.concatenate([x for r, rr, w in relative(costs_at(logs)) for x in (w * rr, ABSOLUTE * w * r)])

    first = np.log([values[name] for name in free])
    made = costs_at(least_squares(residuals, first, loss="soft_l1", f_scale=0.04, max_nfev=20).x)
    keys = [[(s.swap or 0, *s.tile[:2]) for _, s, _ in shape.schedules] for shape in shapes]
    logs = dict.fromkeys((key for some in keys for key in some), 0.0)
    for _ in range(10):  # a tile's own error moves its shapes' means
        sums = {key: [0.0, PRIOR] for key in logs}
        for some, (_, rr, w) in zip(keys, relative(made), strict=True):
            for key, error, weight in zip(some, rr, w, strict=True):
                sums[key][0] += weight * error
                sums[key][1] += weight
        logs = {key: logs[key] - sums[key][0] / sums[key][1] for key in logs}
        made = replace(made, tiles={key: round(exp(v), 2) for key, v in logs.items()})
    return replace(made, tiles={key: v for key, v in sorted(made.tiles.items()) if abs(v - 1) >= LEAST})


def written(costs: Costs) -> str:
    """The constants to three digits, as scalec/model/cost.py has them."""
    numbers = ", ".join(f"{f.name}={getattr(costs, f.name):.3g}" for f in fields(Costs) if f.name != "tiles")
    return f"{numbers}, tiles={dict(costs.tiles)}"


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--fit", "fitting", is_flag=True, help="Fit the constants, and print them.")
def main(files: tuple[Path, ...], fitting: bool) -> None:
    kinds = {}
    for path in files:
        kind, shapes = read(path)
        kinds.setdefault(kind, []).extend(shapes)
        click.echo(f"{path.name}: {judge(shapes, FITTED[kind])}")
    for kind, shapes in kinds.items():
        click.echo(f"{kind}: {judge(shapes, FITTED[kind])}")
        if fitting:
            found = fit(shapes, FITTED[kind])
            click.echo(f"fitted: {judge(shapes, found)}\n{written(found)}")


if __name__ == "__main__":
    main()
