"""What one shape gave: times and errors of each contender. Plain data, no torch."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

OURS = "scalec"


@dataclass(frozen=True)
class Timing:
    """Times of one contender.

    Attributes:
        samples: microseconds a launch, one for each round.
    """

    samples: tuple[float, ...]

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
        timings: by contender, scalec first.
        diffs: error of each contender against float32 on dequantised inputs; empty where torch cannot say.
    """

    dims: dict[str, int]
    flops: int
    bytes: int
    schedule: str
    sets: int
    timings: dict[str, Timing]
    diffs: dict[str, float]

    def ratio(self, name: str) -> float:
        """How many times as fast scalec is as `name`: the ratio of medians."""
        return self.timings[name].median / self.timings[OURS].median

    def to_json(self) -> dict[str, Any]:
        """The row as `benchmarks/results/README.md` describes it."""
        return {
            "dims": self.dims,
            "bytes": self.bytes,
            "schedule": self.schedule,
            "input_sets": self.sets,
            "checks": self.diffs,
            "contenders": {
                name: {
                    "median_us": round(t.median, 3),
                    "quartiles_us": [round(q, 3) for q in t.quartiles],
                    "tflops": round(self.flops / t.median / 1e6, 1),
                    "gbytes_per_s": round(self.bytes / t.median / 1e3, 1),
                    "ratio": round(self.ratio(name), 4),
                }
                for name, t in self.timings.items()
            },
        }
