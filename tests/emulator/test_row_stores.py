"""Rows of turned results that begin at any byte: put together in shared memory and stored by sectors, bit for bit the
reference's, whatever they begin and end at; and the search for the group of a tile."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.emulator.pointwise import TARGETS, Values, bit_equal, fault_is_found, ran

RANGE = "for m in off[g]:off[g+1] apart"
BLOCKED = f"T[k,m]:e4m3 scale(1x32:ue8m0@blocked) = X[m,k] {RANGE}"
IN_GROUPS = {
    "bf16, 256 rows a tile": BLOCKED,
    "f32, 128 rows": f"T[k,m]:e4m3 scale(1x32:ue8m0@blocked) = X[m,k]:f32 {RANGE}",
    "1x128": f"T[k,m]:e5m2 scale(1x128) = X[m,k] * w[g] {RANGE}",
    "blocks of rows of threads": f"T[k,m]:e4m3 scale(32x32) = X[m,k] {RANGE}",
    "both orders": f"Q[m,k]:e4m3 scale(128x128) = X[m,k] {RANGE}; T[k,m]:e4m3 scale(128x128) = X[m,k] {RANGE}",
    "batches": f"T[b,k,m]:e4m3 scale(1x1x64) = X[b,m,k] {RANGE}",
    "and 16 bits": f"T[k,m]:e4m3 scale(1x32) = X[m,k] {RANGE}; U[k,m] = X[m,k] {RANGE}",
}
OFFSETS = [  # tiles that are full, cut, of a row; that begin and end at any byte, within one sector, and none
    (544, [0, 256, 512, 544]),
    (545, [0, 255, 256, 257, 545]),
    (531, [7, 7, 270, 271, 530]),
    (576, [16, 48, 60, 61, 63, 350, 350]),
    (300, [1, 300]),
    (33, [33, 33]),
]


def with_offsets(offsets: list[int], values: Values) -> None:
    """NaN in all rows that are no group's."""
    values["off"] = np.array(offsets, np.int32)
    rows = values["X"].reshape(-1, *values["X"].shape[-2:])
    rows[:, : offsets[0]] = rows[:, offsets[-1] :] = np.nan


@pytest.mark.once("name", "offsets")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "offsets"), OFFSETS)
@pytest.mark.parametrize("name", IN_GROUPS)
def test_groups(name: str, m: int, offsets: list[int], target: str) -> None:
    dims = {"m": m, "k": 40 + m % 3, "g": len(offsets) - 1} | ({"b": 2} if "b," in IN_GROUPS[name] else {})
    bit_equal(IN_GROUPS[name], dims, ("k", "")[m % 2], target, change=partial(with_offsets, offsets))


@pytest.mark.parametrize("more", ["", f"; U[k,m]:f32 = X[m,k] {RANGE}"])
@pytest.mark.parametrize("target", TARGETS)
def test_blocks_of_128_columns(target: str, more: str) -> None:
    """sm_120a has no shared memory for 256 rows of as many, nor, beside f32, for rows that are put together."""
    source, dims = f"T[k,m]:e4m3 scale(128x128) = X[m,k] {RANGE}{more}", {"m": 140, "k": 40, "g": 3}
    bit_equal(source, dims, "k", target, change=partial(with_offsets, [3, 3, 4, 139]))


TURNED = ["bf16", "f32", "e4m3", "f16", "mxfp8", "mxfp6", "nvfp4", "mxfp4", "e5m2 scale(1x128)", "e4m3 scale(32x32)"]


@pytest.mark.once("result", "m")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("m", [130, 131, 156, 257])
@pytest.mark.parametrize("result", TURNED)
def test_rows_of_any_length(result: str, m: int, target: str) -> None:
    """Each begins at another byte."""
    m -= m % 4 if "6" in result and "16" not in result else m % 2 if "4" in result[-1:] else 0
    bit_equal(f"T[k,m]:{result} = X[m,k]", {"m": m, "k": 66}, "", target)


@pytest.mark.parametrize("element", ["bf16", "f32"])
def test_whole_sectors_are_written_once(element: str) -> None:
    """A row of 256 bytes has parts of two sectors and 7 whole ones, one of 128 bytes 3, and of scales 4 bytes each. By
    single elements each of a warp's stores had parts of 5."""
    source, dims = BLOCKED.replace("X[m,k]", f"X[m,k]:{element}"), {"m": 544, "k": 64, "g": 1}
    every = []
    for first in (0, 3):
        *_, stats = ran(source, dims, "k", "sm_90a", change=partial(with_offsets, [first, first + 512]))
        every.append(stats.counts["global sectors written"])
        assert not stats.counts.get("bank conflicts")
    rows = 2 if element == "bf16" else 4
    assert every[1] - every[0] == 64 * rows


@pytest.mark.parametrize("groups", [1, 31, 32, 33, 1000, 1100])
def test_a_tile_finds_its_group_among_many(groups: int) -> None:
    """Most of one row, some of none and a few of many: up to 31 are found by one step, 1055 by two."""
    rng = np.random.default_rng(groups)
    sizes = rng.integers(0, 2, groups) * (rng.integers(0, 40, groups) == 0) * rng.integers(1, 150, groups)
    offsets = np.concatenate([[2], 2 + np.cumsum(sizes)])
    dims = {"m": int(offsets[-1]) + 3, "k": 16, "g": groups}
    bit_equal(BLOCKED, dims, "k", "sm_90a", change=partial(with_offsets, offsets.tolist()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(r"vote\.sync\.all\.pred P, P", "vote.sync.any.pred P, P", id="one row of the warp is aligned"),
        pytest.param(r"shf\.r\.wrap\.b32", "shf.l.wrap.b32", id="bytes that are shifted the other way"),
    ],
)
def test_a_row_that_is_put_together_wrongly_is_found(old: str, new: str) -> None:
    source, dims = "T[k,m]:e4m3 scale(1x128) = X[m,k]", {"m": 136, "k": 64}
    fault_is_found(source, dims, "k", old, new)


def test_a_group_that_is_not_looked_for_is_found() -> None:
    def change(values: dict[str, Any]) -> None:
        with_offsets([0, 9, 40, 77], values)

    old, new = r"brev\.b32 (\S+), (\S+);", r"mov.b32 \1, \2;"
    fault_is_found(BLOCKED, {"m": 77, "k": 64, "g": 3}, "k", old, new, change=change)
