"""Schedules for tests of what is planned from them."""

from __future__ import annotations

from typing import Any

from scalec.ir.schedule import Schedule
from scalec.passes.plan.draft import PLAINEST


def plain(**fields: Any) -> Schedule:
    """A schedule of these fields, which is as plain as can be elsewhere: of two warpgroups that share the rows."""
    rest = {"swizzle_c": 128, "warpgroups": 2, "warps": (8, 1), "scale_path": "thread", "invariant": None}
    return Schedule(**{**PLAINEST, **rest, **fields})
