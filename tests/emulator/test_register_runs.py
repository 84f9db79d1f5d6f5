"""Runs of tiles whose columns' operand stays in registers of the warps that multiply: some rows of a tile are
multiplied while others are folded, the next tile's first beside this one's last."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS
from scalec.checking.launch import made_up
from scalec.errors import ScheduleError
from scalec.frontend import build
from scalec.ir import context
from tests.emulator.running import refusals
from tests.emulator.test_fold_columns import AWAY, FP8, launched

FORMS = {
    "FP8": FP8,
    "BF16": "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[t,d]) * W[q,h]:f32)",
    "scales that threads bring": "L[q,t]:f32 = sum[h](relu(Q[q,h,d]:mxfp4 @ K[t,d]:mxfp4) * W[q,h]:f32)",
    "scales of one side by a copy": (
        "L[q,t]:f32 = sum[h](relu(Q[q,h,d]:e4m3 @ K[t,d]:e4m3 scale(1x1x32:ue8m0, 1x32:ue8m0@packed)) * W[q,h]:f32)"
    ),
    "nothing of rows and columns": "L[q,t] = max[h](Q[q,h,d]:e5m2 @ K[t,d]:e4m3)",
}
SCHEDULES = {
    "tile=128x128, warps=4x2": (5, 9 * 128 - 3, 64, 1),
    "tile=64x32, warps=2x2": (4, 20 * 64 - 7, 16, 1),
    "tile=128x64, warps=2x2": (3, 5 * 128, 32, 1),
    "tile=64x64, warps=2x2, run=2": (7, 64 + 9, 8, 2),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("fields", SCHEDULES)
def test_runs(fields: str, name: str) -> None:
    """Two goes of rows, and four, of one reduction of a warp and several; windows that have few tiles of a run."""
    q, t, h, sms = SCHEDULES[fields]
    d = 64 if name == "BF16" else 128
    tile, rest = fields.split(",", 1)
    source = f"{FORMS[name]} {AWAY} with {tile}x{d},{rest}, stationary=1"
    compared(source, {"q": q, "t": t, "h": h, "d": d}, sms)


def compared(source: str, dims: dict[str, int], sms: int) -> None:
    """Compares a launch with the reference where the window is; around it nothing is written."""
    values, _ = made_up(source, dims, 6)
    q, t = dims["q"], dims["t"]
    low = (np.arange(q) * 97 % t).astype(np.int32)
    values = {**values, "lo": low, "hi": np.minimum(low + t // 2, t).astype(np.int32)}
    with context.context():
        expected = reference.run(build(source, dims), values, dims=dims, exact=True)["L"].astype(np.float32)
    got, at = launched(source, "sm_120a", dims, values, FILLS[0], sms), np.arange(t)
    inside = (values["lo"][:, None] <= at) & (at < values["hi"][:, None])
    assert np.allclose(got[inside], expected[inside], rtol=1e-2, atol=1e-2 * np.abs(expected[inside]).max())
    assert np.isnan(got[~inside]).all()


REFUSED = {
    "tile=64x128x128, warps=4x2": "a warp's 16 rows of a tile are one go",
    "tile=128x128x64": "more than one block of 64",
    "tile=128x128x128, mma_n=64": "leave mma_n out",
}


test_schedules_that_cannot_be = refusals(
    REFUSED.items(), ScheduleError, "sm_120a", {"h": 64, "d": 128}, within=FP8 + " with {}, stationary=1"
)


TRANSPOSED = "L[q,t]:f32 = sum[h](relu(Q[q,h,d] @ K[d,t]) * W[q,h]:f32)"


def test_operands_that_are_transposed_do_not_stay() -> None:
    kernel = scalec.compile(TRANSPOSED, target="sm_120a", dims={"h": 64, "d": 64})
    assert "stationary=0" in str(kernel.spec.schedule)
    with pytest.raises(ScheduleError, match="stationary=1"):
        scalec.compile(f"{TRANSPOSED} with tile=128x128x64, stationary=1", target="sm_120a", dims={"h": 64, "d": 64})
