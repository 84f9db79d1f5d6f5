"""What one shape gave: times and errors of each contender. Plain data, no torch."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OURS = "scalec"


@dataclass(frozen=True)
class Timing:
    """Times of one contender."""

    samples: tuple[float, ...]  # microseconds a launch, one for each round

    @property
    def median(self) -> float:
        """Microseconds."""
        return statistics.median(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile, in microseconds."""
        if len(self.samples) < 2:
            return self.median, self.median
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return low, high


@dataclass(frozen=True)
class Row:
    """The result of one shape.

    Attributes:
        dims: sizes.
        flops: floating-point operations of one call.
        bytes: bytes that one call must move.
        schedule: the kernel's schedule.
        sets: input sets in rotation.
        timings: by contender, scalec first and then what others are compared with first, each replay after a pause.
        diffs: error of each contender against float32 on dequantised inputs; empty where torch cannot say.
        sustained: by contender, without any pause; empty where that was not measured.
        variants: for each contender of several variants, the one that was fastest and so was timed.
        label: what has this shape: a model and its projection.
        published: by source, times of the baseline over those of a kernel that this run did not measure.
    """

    dims: dict[str, int]
    flops: int
    bytes: int
    schedule: str
    sets: int
    timings: dict[str, Timing]
    diffs: dict[str, float]
    sustained: dict[str, Timing] = field(default_factory=dict)
    variants: dict[str, str] = field(default_factory=dict)
    label: str = ""
    published: Mapping[str, float] = field(default_factory=dict)

    @property
    def baseline(self) -> str:
        """The contender that others are compared with; scalec where it has none."""
        return next((name for name in self.timings if name != OURS), OURS)

    def ratio(self, name: str, *, sustained: bool = False) -> float:
        """How many times as fast scalec is as `name`: the ratio of medians."""
        timings = self.sustained if sustained else self.timings
        return timings[name].median / timings[OURS].median

    def over_baseline(self, name: str, *, sustained: bool = False) -> float:
        """How many times as fast `name` is as the baseline."""
        return self.ratio(self.baseline, sustained=sustained) / self.ratio(name, sustained=sustained)

    def to_json(self) -> dict[str, Any]:
        """The row as `benchmarks/results/README.md` describes it."""
        return {
            "dims": self.dims,
            **({"of": self.label} if self.label else {}),
            "bytes": self.bytes,
            "schedule": self.schedule,
            "input_sets": self.sets,
            "checks": self.diffs,
            **({"published": dict(self.published)} if self.published else {}),
            "contenders": {name: self._contender(name, t) for name, t in self.timings.items()},
        }

    def _contender(self, name: str, t: Timing) -> dict[str, Any]:
        made: dict[str, Any] = {"variant": self.variants[name]} if name in self.variants else {}
        made |= self._timed(t)
        made["gbytes_per_s"] = round(self.bytes / t.median / 1e3, 1)
        made["ratio"] = round(self.ratio(name), 4)
        if name in self.sustained:
            made["sustained"] = {
                **self._timed(self.sustained[name]),
                "ratio": round(self.ratio(name, sustained=True), 4),
            }
        return made

    def _timed(self, t: Timing) -> dict[str, Any]:
        return {
            "median_us": round(t.median, 3),
            "quartiles_us": [round(q, 3) for q in t.quartiles],
            "tflops": round(self.flops / t.median / 1e6, 1),
        }
