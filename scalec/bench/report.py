"""Rows of a benchmark as a table for people and as JSON for `benchmarks/results/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp, log
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from rich.table import Table

from scalec.bench import method, provenance
from scalec.bench.result import OURS, Row

Groups = Mapping[str, Sequence[Mapping[str, int]]]
"""Shapes by the name of their group."""


def table(rows: Sequence[Row]) -> Table:
    """One line for each contender of each shape, and one for each published ratio.

    `ratio` is how many times as fast scalec is; `over base` how many times as fast the contender is as the first one
    after scalec, the baseline. A published ratio stands under `over base`.
    """
    sustained = any(row.sustained for row in rows)
    numbers = ("us", "quartiles", "TFLOP/s", "GB/s", "ratio", "over base")
    numbers += (*(("sustained us", "TFLOP/s", "ratio", "over base") if sustained else ()), "diff")
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("shape", "kernel", *numbers):
        made.add_column(name, justify="right" if name in numbers else "left", no_wrap=True)
    for row in rows:
        shape = ",".join(f"{k}={v}" for k, v in row.dims.items())
        for name in row.timings:
            variant = f", {row.variants[name]}" if name in row.variants else ""
            error = f"{row.diffs[name]:.1e}" if name in row.diffs else ""
            cells = [*_burst(row, name), *(_sustained(row, name) if sustained else ()), error]
            made.add_row(shape if name == OURS else "", f"{name}{variant}", *cells)
        for source, ratio in row.published.items():
            made.add_row("", source, "", "", "", "", "", f"{ratio:.2f}")
    return made


def _burst(row: Row, name: str) -> list[str]:
    t = row.timings[name]
    low, high = t.quartiles
    return [
        f"{t.median:.2f}",
        f"{low:.2f}-{high:.2f}",
        f"{row.flops / t.median / 1e6:.0f}",
        f"{row.bytes / t.median / 1e3:.0f}",
        "" if name == OURS else f"{row.ratio(name):.3f}",
        f"{row.over_baseline(name):.3f}",
    ]


def _sustained(row: Row, name: str) -> list[str]:
    if name not in row.sustained:
        return [""] * 4
    us = row.sustained[name].median
    return [
        f"{us:.2f}",
        f"{row.flops / us / 1e6:.0f}",
        "" if name == OURS else f"{row.ratio(name, sustained=True):.3f}",
        f"{row.over_baseline(name, sustained=True):.3f}",
    ]


def geometric_means(rows: Sequence[Row], *, sustained: bool = False) -> dict[str, float]:
    """The geometric mean of the ratio, for each contender that all rows have."""
    timings = [row.sustained if sustained else row.timings for row in rows]
    common = [n for n in timings[0] if n != OURS and all(n in t for t in timings)] if rows else []
    return {n: exp(sum(log(r.ratio(n, sustained=sustained)) for r in rows) / len(rows)) for n in common}


def grouped_means(rows: Sequence[Row], groups: Groups) -> dict[str, dict[str, Any]]:
    """For all rows and for each group of which there are some: how many, and the geometric means of their ratios.

    The dictionaries hold "shapes", "burst" and, where it was measured, "sustained".
    """
    chosen = {"all": list(rows)}
    chosen |= {name: [row for row in rows if row.dims in [dict(s) for s in shapes]] for name, shapes in groups.items()}
    made: dict[str, dict[str, Any]] = {}
    for name, some in chosen.items():
        if some:
            made[name] = {"shapes": len(some), "burst": geometric_means(some)}
            if means := geometric_means(some, sustained=True):
                made[name]["sustained"] = means
    return made


def mean_lines(rows: Sequence[Row], groups: Groups) -> list[str]:
    """`grouped_means` in words, a line for each contender of each group."""
    lines = []
    for group, means in grouped_means(rows, groups).items():
        count = f"{means['shapes']} shape{'s' if means['shapes'] > 1 else ''}"
        over = f"{count}" if group == "all" else f"{group}, {count}"
        for name, ratio in means["burst"].items():
            held = means.get("sustained", {}).get(name)
            more = f" ({held:.3f} sustained)" if held is not None else ""
            lines.append(f"geometric mean over {over}: {ratio:.3f}{more} times as fast as {name}")
    return lines


def document(
    rows: Sequence[Row],
    source: str,
    target: str,
    how: str,
    compiler: Mapping[str, str],
    *,
    groups: Groups | None = None,
    failed: Mapping[str, str] | None = None,
) -> str:
    """The JSON that `benchmarks/results/README.md` describes.

    Args:
        source: the program.
        how: `method.summary` of the run.
        compiler: as `provenance.of_compiler`.
        groups: of shapes that have means of their own.
        failed: by shape, why it was not measured.
    """
    data: dict[str, Any] = {
        **provenance.of_machine(),
        **compiler,
        "target": target,
        "expression": source,
        "method": how,
        "geometric_mean_ratio": _rounded(geometric_means(rows)),
        "geometric_means": {
            group: {key: _rounded(value) if key != "shapes" else value for key, value in means.items()}
            for group, means in grouped_means(rows, groups or {}).items()
        },
        **({"failed": dict(failed)} if failed else {}),
        "shapes": [row.to_json() for row in rows],
    }
    return json.dumps(data, indent=1)


def report(
    cases: Iterable[Mapping[str, Any]], named: Callable[[Mapping[str, Any], str], str], rounds: int, output: str | None
) -> None:
    """Prints a line of JSON for each case as soon as there is one, then the geometric means of their ratios.

    Args:
        cases: each with `ratio`, by contender, where it did not fail; its `quartiles` are not printed.
        named: what the mean that a contender's ratio in a case counts for is called.
        rounds: measurements of each contender.
        output: where all of it is written, if anywhere.
    """
    found: list[Mapping[str, Any]] = []
    ratios: dict[str, list[float]] = {}
    for case in cases:
        found.append(case)
        for contender, ratio in case.get("ratio", {}).items():
            ratios.setdefault(named(case, contender), []).append(ratio)
        print(json.dumps({k: v for k, v in case.items() if k != "quartiles"}), flush=True)
    means = _rounded({name: geometric_mean(of) for name, of in ratios.items()})
    print(json.dumps({"geometric_means": means}))
    if output:
        head = {**provenance.of_machine(), **provenance.of_compiler(), "method": method.summary(rounds, 0, 0)}
        text = json.dumps({**head, "geometric_means": means, "cases": found}, indent=1)
        Path(output).write_text(text + "\n", encoding="utf-8")


def _rounded(means: Mapping[str, float]) -> dict[str, float]:
    return {name: round(ratio, 4) for name, ratio in means.items()}
