"""Results whose last index is computed: columns that go around gaps, of which no byte is touched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.emulator.running import run_on
from tests.tiers import fields

LIMIT = 2e-5
TARGETS = ("sm_90a", "sm_100a", "sm_120a")
EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Program:
    """A program with tails in all its dimensions, and another size of the gapped one, which copies can store."""

    source: str
    dims: dict[str, int]
    gapped: str = "n"
    whole: int = 384


MIDDLE, END = ((EXAMPLES / f"head_splits{name}.scale").read_text().strip() for name in ("", "_end"))
PROGRAMS = {
    "gaps in the middle of a head": Program(MIDDLE, {"m": 70, "n": 300, "k": 200}),
    "at its end": Program(END, {"m": 70, "n": 301, "k": 256}),
    "in front of it": Program(
        "D[m, n/128*192 + n%128 + 64]:f32 = A[m,k] @ B[n,k] + x[n]", {"m": 130, "n": 200, "k": 72}
    ),
    "odd ones": Program("D[m, n + (n+1)/3]:f32 = relu(A[m,k] @ B[n,k])", {"m": 33, "n": 100, "k": 64}),
    "narrow ones": Program("D[m, n/8*12 + n%8]:f16 = A[m,k] @ B[n,k]", {"m": 70, "n": 140, "k": 64}),
    "batches": Program(
        "D[b, m, n/64*80 + n%64] = A[b,m,k] @ B[b,n,k] * r[b,m/4]", {"b": 2, "m": 70, "n": 140, "k": 64}
    ),
    "along M": Program("D[n, m/32*48 + m%32] = A[m,k] @ B[n,k]", {"m": 150, "n": 70, "k": 64}, gapped="m"),
    "several of N": Program(
        "D[s, h, d + d/64*64] = X[s,k] @ W[h,d,k]", {"s": 70, "h": 2, "d": 100, "k": 64}, gapped="d", whole=128
    ),
}  # fmt: skip


@pytest.mark.once("target", "name", "known")
@pytest.mark.parametrize("known", ["open", "known", "whole"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, target: str, known: str) -> None:
    p = PROGRAMS[name]
    dims = p.dims | ({p.gapped: p.whole} if known == "whole" else {})
    fixed = () if known == "open" else (p.gapped, "k")
    run_on(p.source, dims, fixed, 3, LIMIT, target=target, times=1 if known == "open" else 2)


BULK, TAIL = "epilogue=bulk", 192  # one head of `END` and half of one: its extent has 64 columns that no point reaches
SCHEDULES = [
    (BULK, "sm_90a", 384),
    (f"{BULK}, tile=64x128x128", "sm_90a", TAIL),
    (f"{BULK}, tile=128x128x128", "sm_100a", TAIL),
    (f"{BULK}, tile=64x128x128", "sm_120a", TAIL),
    ("epilogue=direct, tile=64x128x128", "sm_90a", TAIL),
    ("consumers=pingpong, tile=64x64x128", "sm_90a", 384),
    ("split=2", "sm_90a", 384),
    ("split=2, parts=memory", "sm_100a", 384),
    (f"{BULK}, staged=1", "sm_120a", 384),
    (f"{BULK}, warpgroups=2", "sm_100a", 384),
]


@pytest.mark.once("target", touches=lambda schedule, **_: fields(schedule))
@pytest.mark.parametrize(("schedule", "target", "columns"), SCHEDULES)
def test_schedule(schedule: str, target: str, columns: int) -> None:
    run_on(f"{END} with {schedule}", {"m": 70, "n": columns, "k": 512}, ("n", "k"), 5, LIMIT, target=target)
