"""Tiles of sequences that a queue deals out in shares, of which the queries' stay (`stationary`, sm_90a)."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.launch import made_up
from scalec.errors import ScheduleError
from scalec.frontend import build
from scalec.ir import context
from tests.emulator.test_fold_columns import launched
from tests.emulator.test_pages import FP8

TOKENS = FP8.replace(" else -inf", "").replace("L[s,t]", "L[s,u,t]").replace("[s,h", "[s,u,h")
KEPT = np.frombuffer(b"\x5a" * 4, np.float32)[0]

FEW = [600, 0, 129, 1, 512, 257, 0, 600, 384]
"""Of whole tiles and not, of none, more than a CTA's share."""


def many() -> list[int]:
    """More sequences than a warp looks at together, most of no length."""
    draw, lengths = np.random.default_rng(3), np.zeros(150, int)
    lengths[draw.permutation(150)[:40]] = draw.integers(1, 601, 40)
    return lengths.tolist()


def compared(tokens: int, fields: str, sms: int, lengths: list[int], factors: float = 1.0) -> None:
    """Against the reference, by so many CTAs. Of `factors` of a row below 0 terms are computed one by one."""
    dims = {"s": len(lengths), "t": 600, "d": 128, "h": 16, "K_0": 12, "u": tokens}
    source = f"{TOKENS} with {fields}"
    values, _ = made_up(source, dims, 5)
    scales = values["K_scale"] * np.where(np.arange(values["K_scale"].shape[1]) % 3, 1, factors)[:, None]
    values |= {"len": np.array(lengths, np.int32), "table": abs(values["table"]), "K_scale": scales.astype(np.float32)}
    with context.context():
        results = reference.run(build(source, dims), values, dims=dims, exact=True)
    expected, reached = results["L"], results.written["L"]
    assert (reached.sum(2) == np.array(lengths)[:, None]).all()
    got = launched(source, "sm_90a", dims, values, 0x5A, sms)
    assert (got[~reached] == KEPT).all()
    largest = np.abs(expected[reached]).max(initial=1e-30)
    assert np.abs(got - expected)[reached].max(initial=0) < 1e-2 * largest


def test_few_sequences() -> None:
    """Goes are waves of rows; the second CTA's share begins within a sequence."""
    compared(2, "tile=256x32x128, stationary=1, cluster=1x1", 2, [300, 0, 600, 1], -1.0)


CASES = [
    (2, "tile=256x32x128", 2, FEW, -1.0),
    (2, "tile=256x32x128", 100, FEW, 1.0),
    (1, "tile=256x16x128", 3, FEW, 1.0),
    (2, "tile=256x32x128, mma_n=16", 5, many(), 1.0),
    (2, "tile=256x32x128, run=2", 5, many(), -1.0),
    (4, "tile=128x64x128", 1, FEW, 1.0),
    (4, "tile=128x64x128, stages=2", 4, FEW, -1.0),
    (4, "tile=128x32x128", 4, FEW, 1.0),
    (3, "tile=128x48x128", 3, FEW, 1.0),
    (4, "tile=64x64x128, run=2", 2, FEW, 1.0),
    (4, "tile=192x64x128, warpgroups=3", 2, FEW, 1.0),
    (4, "tile=128x64x128, cluster=2x1", 6, FEW, 1.0),
    (4, "tile=128x32x128, cluster=1x2", 6, FEW, 1.0),
    (2, "tile=128x32x128", 5, many(), 1.0),
    (2, "tile=128x32x128", 100, many(), 1.0),
    (2, "tile=256x32x128", 3, [0] * 9, 1.0),
    (2, "tile=256x32x128", 130, [600], 1.0),
]


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(len(CASES)))
def test_shares(number: int) -> None:
    """Of one CTA and of more than there are tiles, which then have nothing to do; shares that end within a sequence or
    with one; several columns of tiles, of which a CTA's share may have parts; clusters."""
    tokens, fields, sms, lengths, factors = CASES[number]
    compared(
        tokens, f"{fields}, stationary=1" + ("" if "cluster" in fields else ", cluster=1x1"), sms, lengths, factors
    )


def test_what_is_chosen() -> None:
    """Several tokens, whose products bind, have shares, in goes of whole waves; one, which memory binds, has not."""
    dims = {"h": 64, "d": 128}
    several = scalec.compile(TOKENS, target="sm_90a", dims={**dims, "u": 2}).spec.schedule
    one = scalec.compile(FP8.replace(" else -inf", ""), target="sm_90a", dims=dims).spec.schedule
    assert all(x in several for x in ("tile=256x128x128", "mma_n=0", "stationary=1"))
    assert all(x in one for x in ("run=1,", "stationary=0"))


def test_where_there_is_none() -> None:
    """Blocks of rows are no range; nor do other targets have runs of what a queue deals out."""
    blocks = "L[m,q]:f32 = sum[h](relu(A[m,k] @ B[e[m/128],q,h,k]))"
    for source, target, dims in (
        (f"{blocks} with stationary=1", "sm_90a", {"h": 64, "q": 4, "k": 64}),
        (f"{TOKENS} with stationary=1", "sm_120a", {"d": 128, "h": 64, "u": 2}),
    ):
        with pytest.raises(ScheduleError, match="no range of rows"):
            scalec.compile(source, target=target, dims=dims)


@pytest.mark.parametrize("fields", ["order=m", "band=2"])
def test_shares_are_of_one_column(fields: str) -> None:
    """Other orders and bands have no shares: none are chosen, and those that are asked for are refused."""
    source, dims = f"{TOKENS} with {fields}", {"h": 32, "d": 128}
    kernel = scalec.compile(source, target="sm_90a", dims=dims)
    assert "stationary=0" in kernel.spec.schedule
    with pytest.raises(ScheduleError, match=f"(?s)stationary=1 is not possible.*{fields}"):
        scalec.compile(f"{source}, stationary=1, tile=256x64x128", target="sm_90a", dims=dims)
