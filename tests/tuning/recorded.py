"""Measured kernels of benchmarks/results, and what the model predicts for them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from scalec.model.predict import Prediction
from scalec.tuning.explain import explain

ROOT = Path(__file__).parents[2]
SUITES = ("h200-hopper-fp8", "h200-hopper-fp8-col", "h200-hopper-fp8-decode", "h200-bf16")


@dataclass(frozen=True)
class Recorded:
    """One shape: what it moved (bytes), what it took (microseconds), and the prediction."""

    bytes: int
    us: float
    prediction: Prediction

    @property
    def ratio(self) -> float:
        """Measured over predicted time."""
        return self.us / (self.prediction.seconds * 1e6)


def recorded(suite: str) -> list[Recorded]:
    data = json.loads((ROOT / "benchmarks" / "results" / f"2026-11-21-{suite}.json").read_text())
    found = []
    for shape in data["shapes"]:
        # fields younger than a measurement had the value that leaves the kernel as it was
        schedule = {"swap": "0"} | dict(field.split("=") for field in shape["schedule"].split(", "))
        schedule["band"] = schedule.pop("group")  # its name of then
        one = explain(data["expression"], data["target"], shape["dims"], schedule)
        us = shape["contenders"]["scalec"]["median_us"]
        found.append(Recorded(shape["bytes"], us, one.predictions[0]))
    return found


def geometric_mean(values: list[float]) -> float:
    return exp(sum(log(v) for v in values) / len(values))


def line(suite: str) -> str:
    """The row of the table in docs/architecture.md."""
    ratios = [r.ratio for r in recorded(suite)]
    mean = geometric_mean(ratios)
    spread = geometric_mean([max(r / mean, mean / r) for r in ratios])
    return f"| {suite} | {mean:.2f} | {spread:.2f} | {min(ratios):.2f} | {max(ratios):.2f} |"
