"""Rows of a benchmark as a table for people and as JSON for `benchmarks/results/`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import exp, log
from typing import Any

from rich.table import Table

from scalec.bench import method, provenance
from scalec.bench.result import OURS, Row


def table(rows: Sequence[Row]) -> Table:
    """One line for each contender of each shape; `ratio` is how many times as fast scalec is."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    numbers = ("us", "quartiles", "TFLOP/s", "GB/s", "ratio", "diff")
    for name in ("shape", "kernel", *numbers):
        made.add_column(name, justify="right" if name in numbers else "left", no_wrap=True)
    for row in rows:
        shape = ",".join(f"{k}={v}" for k, v in row.dims.items())
        for name, t in row.timings.items():
            low, high = t.quartiles
            made.add_row(
                shape if name == OURS else "",
                name,
                f"{t.median:.2f}",
                f"{low:.2f}-{high:.2f}",
                f"{row.flops / t.median / 1e6:.0f}",
                f"{row.bytes / t.median / 1e3:.0f}",
                "" if name == OURS else f"{row.ratio(name):.3f}",
                f"{row.diffs[name]:.1e}" if name in row.diffs else "",
            )
    return made


def geometric_means(rows: Sequence[Row]) -> dict[str, float]:
    """The geometric mean of the ratio, for each contender that all rows have."""
    common = [n for n in rows[0].timings if n != OURS and all(n in r.timings for r in rows)] if rows else []
    return {n: exp(sum(log(r.ratio(n)) for r in rows) / len(rows)) for n in common}


def document(rows: Sequence[Row], source: str, target: str, rounds: int, compiler: dict[str, str]) -> str:
    """The JSON that `benchmarks/results/README.md` describes."""
    data: dict[str, Any] = {
        **provenance.of_machine(),
        **compiler,
        "target": target,
        "expression": source,
        "method": f"{method.SUMMARY}; median and quartiles of {rounds}",
        "geometric_mean_ratio": {n: round(r, 4) for n, r in geometric_means(rows).items()},
        "shapes": [row.to_json() for row in rows],
    }
    return json.dumps(data, indent=1)
