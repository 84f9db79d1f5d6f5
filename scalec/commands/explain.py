"""`scalec explain`: the schedule that a program gets, with reasons and predictions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scalec.bench.suites import get_suite
from scalec.commands.output import plain_table, print_table, write_result
from scalec.errors import ScalecError
from scalec.sizes import Range, Size, fixed, ranges
from scalec.targets import get_target

if TYPE_CHECKING:
    from rich.table import Table

    from scalec.model.predict import Prediction
    from scalec.tuning.explain import Explanation


def explain_program(
    source: str | None,
    target: str | None,
    dims: Mapping[str, Size],
    schedule: Mapping[str, str],
    *,
    rows: Sequence[int] = (),
    suite: str | None = None,
    as_json: bool = False,
) -> None:
    """Explains the schedule at the sizes `dims`, for each size of M in `rows`, or at each shape of a suite; where a
    dimension has a range, each part of it that has a schedule of its own.

    Raises:
        ScalecError: a refusal of the compiler, an unknown suite, or neither program nor suite.
    """
    from scalec.api import default_target, launches
    from scalec.frontend.cut_reductions import multiplies
    from scalec.launches import told
    from scalec.model.predict import LABEL
    from scalec.tuning.explain import Explanation, explain

    shapes: Sequence[Mapping[str, Size]] = (dims,)
    if suite is not None:
        chosen = get_suite(suite)
        source, shapes = source or chosen.source, chosen.shapes
    if source is None:
        raise ScalecError("no program", fix="give EXPR, or --suite")
    name = target or default_target()
    found = list[Explanation]()
    for shape in shapes:
        every = launches(source, name, shape, schedule, made={}, doubtful=True)
        first = every.texts[every.main]
        if len(every.texts) > 1 and not multiplies(first):
            print("\n".join([f"{source.strip()} on {name}, which has no schedule:", *told(every, fixed(shape))]))
            return
        sizes, decisions = every.sizes(every.main, shape), every.schedule(every.main, schedule)
        for part, some in _parts(first, name, sizes, decisions, rows):
            one = explain(first, name, part, decisions, some)
            found.append(replace(one, launches=told(every, one.predictions[0].sizes | one.assumed | fixed(part))))
    if as_json:
        write_result(json.dumps(document(source, name, found), indent=1), None)
        return
    print(f"{source.strip()} on {name}: {LABEL}")
    print_table(table(found))
    for one in found:
        print_reasons(one, name)


def _parts(
    source: str, target: str, dims: Mapping[str, Size], schedule: Mapping[str, str], rows: Sequence[int]
) -> list[tuple[Mapping[str, Size], Sequence[int]]]:
    """The parts of the range in `dims`, each with the `rows` that lie in it; those without, where rows are asked for,
    are left out."""
    if not ranges(dims):
        return [(dims, rows)]
    from scalec import compiler, ladder

    dim, whole = ladder.only(dims)
    if not all(map(whole.has, rows)) or (rows and compiler.decide(source, target, dims, schedule)[1][0] != dim):
        return [(dims, rows)]  # refused, or predicted for any part
    parts = [(part, [size for size in rows if part.has(size)]) for part in ladder.rungs(source, target, dims, schedule)]
    return [({**dims, dim: part}, some) for part, some in parts if some or not rows]


def document(source: str, target: str, found: Sequence[Explanation]) -> dict[str, Any]:
    """What `--json` writes."""
    from scalec.model.predict import LABEL, rates_of

    return {
        "label": LABEL,
        "target": target,
        "expression": source,
        "rates": rates_of(get_target(target)),
        "kernels": [
            {
                "dims": {name: size if isinstance(size, int) else str(size) for name, size in one.dims.items()},
                "assumed": one.assumed,
                "schedule": str(one.schedule),
                "tuned": one.tuned.to_json() if one.tuned is not None else None,
                "reasons": one.reasons,
                "fused": list(one.fused),
                "launches": list(one.launches),
                "predictions": [_prediction(p) for p in one.predictions],
            }
            for one in found
        ],
    }


def _prediction(p: Prediction) -> dict[str, Any]:
    return {
        "sizes": p.sizes,
        "tiles": p.tiles,
        "waves": p.waves,
        "busy": round(p.busy, 4),
        "flop": p.flop,
        "bytes": p.bytes,
        "l2_bytes": p.l2_bytes,
        "predicted_us": round(p.seconds * 1e6, 3),
        "predicted_tflops": round(p.flop_per_second / 1e12, 1),
        "sustained_us": None if p.sustained is None else round(p.sustained[1] * 1e6, 3),
        "fitted_us": None if p.fitted is None else round(p.fitted * 1e6, 3),
        "predicted_bound": p.bound,
        "predicted_us_by_resource": {name: round(t * 1e6, 3) for name, t in p.times.items()},
    }


def table(found: Sequence[Explanation]) -> Table:
    """One line for each prediction."""
    numbers = ("stages", "waves", "busy", "MB", "GFLOP", "predicted us", "predicted TFLOP/s", "fitted us")
    sizes = tuple(found[0].predictions[0].sizes)
    made = plain_table(*sizes, "tile", *numbers, "predicted bound", right=(*sizes, *numbers))
    for one in found:
        for p in one.predictions:
            made.add_row(
                *(_shown(one, name, size) for name, size in p.sizes.items()),
                "x".join(map(str, one.schedule.tile)),
                str(one.schedule.stages),
                str(p.waves),
                f"{p.busy:.0%}",
                f"{p.bytes / 1e6:.1f}",
                f"{p.flop / 1e9:.1f}",
                f"{p.seconds * 1e6:.1f}",
                f"{p.flop_per_second / 1e12:.0f}",
                "-" if p.fitted is None else f"{p.fitted * 1e6:.1f}",
                p.bound,
            )
    return made


def _shown(one: Explanation, name: str, size: int) -> str:
    """A size, what a group has of one in the mean, or the range at whose upper end the prediction is."""
    given = one.dims.get(name)
    if isinstance(given, int) and given != size:
        return f"{size} of {given}"
    return str(given) if isinstance(given, Range) and one.assumed.get(name) == size else str(size)


def print_reasons(one: Explanation, target: str) -> None:
    """The schedule of one kernel, a line for each reason, and what the predictions are made of."""
    from scalec.model.predict import LABEL

    sizes = ", ".join(f"{name}={size}" for name, size in one.dims.items()) or "no size fixed"
    print(f"\n{sizes} on {target}")
    rest = {name: f"{name}={text}" for name, text in one.schedule.texts().items()}
    shown = {name: rest.pop(name) for name in one.reasons}
    width = max(len(text) for text in shown.values())
    for name, reason in one.reasons.items():
        print(f"  {shown[name]:{width}}  {reason}")
    print(f"  also: {', '.join(rest.values())}")
    for line in one.fused:
        print(f"  in one kernel: {line}")
    for line in one.launches:
        print(f"  {line}")
    if one.assumed:
        print("  assumed: " + ", ".join(f"{name}={size}" for name, size in one.assumed.items()))
    for p in one.predictions:
        parts = ", ".join(f"{name} {t * 1e6:.1f}" for name, t in p.times.items())
        at = ", ".join(f"{name}={size}" for name, size in p.sizes.items() if not isinstance(one.dims.get(name), int))
        print(f"  {LABEL}{f', at {at}' if at else ''}: {p.seconds * 1e6:.1f} us, bound by {p.bound} (us: {parts})")
        if p.sustained is not None:
            clock, seconds = p.sustained
            print(f"  predicted at {clock / 1e9:.2f} GHz, which power leaves large products: {seconds * 1e6:.1f} us")
        if p.fitted is not None:
            print(f"  predicted by a model fitted to measured launches: {p.fitted * 1e6:.1f} us")
