"""What a self-test found: rows for people, a document to attach to a bug report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from scalec.checking.item import Result
from scalec.checking.programs import Item

COLUMNS = ("program", "schedule", "result", "max error", "us", "predicted us", "")


def rows(found: Iterable[tuple[Item, Result]]) -> list[tuple[str, ...]]:
    """One for each program: how its kernels did, the worst error, or what was timed. Each failure has a row."""
    made: list[tuple[str, ...]] = []
    by_name: dict[str, list[Result]] = {}
    for item, result in found:
        if result.failed:
            error = f"{result.error:.1e}" if result.error else ""
            made.append((item.name, item.schedule or "default", result.kind, error, "", "", result.message))
        elif result.kind == "timed":
            sizes = ",".join(f"{d}={n}" for d, n in item.launches[0].items())
            made.append((item.name, sizes, result.kind, "", _us(result.measured), _us(result.predicted), ""))
        if not item.timed:
            by_name.setdefault(item.name, []).append(result)
    summed = []
    for name, results in by_name.items():
        passed = [r for r in results if r.kind == "pass"]
        if all(r.kind == "unsupported" for r in results):
            summed.append((name, "", "not on this target", "", "", "", ""))
        elif passed:
            count = f"{len(passed)} of {len(results)} schedule{'s' * (len(results) > 1)}"
            summed.append((name, count, "pass", f"{max(r.error for r in passed):.1e}", "", "", ""))
    return summed + made


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def summary(found: Sequence[tuple[Item, Result]], skipped: int) -> str:
    """One line: how many kernels did what."""
    kinds = Counter(result.kind for _, result in found)
    parts = [f"{count} {kind}" for kind, count in kinds.most_common()]
    return ", ".join(parts + [f"{skipped} not run"] * bool(skipped))


def document(
    found: Sequence[tuple[Item, Result]], skipped: Sequence[Item], where: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """What is written as JSON: where it ran, every item with its result, and the items that were not run."""
    return {
        **where,
        "seconds": round(seconds, 1),
        "pass": not skipped and not any(result.failed for _, result in found),
        "kernels": [{**asdict(item), **asdict(result)} for item, result in found],
        "not_run": [asdict(item) for item in skipped],
    }
