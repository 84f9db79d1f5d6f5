"""How the parts of a tile whose K is split meet, and tiles of which a reduction is."""

from __future__ import annotations

COUNTER_BYTES = 4
"""Of a counter of a tile whose K is split."""

ALONE = 32
"""Parts of a tile that its last CTA adds by itself, one after the other."""

FAN_IN = 4
"""Of a tile of more parts, as many meet at a time, and go on as one: a CTA that adds all of them reads no faster than
one SM does. With parts of 128x192 sums each part then took 1.2 µs (H200, 2026-11-24)."""


SECTION, FEW_TILES = 8, 16
"""Tiles of a reduction that meet at a time, where they are more than FEW_TILES: the last one of a section puts these
together while others are multiplied, so that the last one of all reads a number of each section. Before, sums of
exponentials beside bf16 of 8192x8192x4096, 64 tiles of 192x128 a row, took 1115 µs, 722 since, 725 and 744
with sections of 16 and 32; the product alone 698 (H200, 2026-11-30)."""


def meetings(split: int) -> list[int]:
    """How many are left of a tile's parts before each step in which they meet, FAN_IN at a time: of 64 parts 64, 16 and
    4. One step where the last CTA adds all."""
    left = [split]
    while split > ALONE and left[-1] > FAN_IN:
        left.append(-(-left[-1] // FAN_IN))
    return left


def numbers_of(kind: str) -> int:
    """f32 that a tile has of each row, or column, of a reduction: of the sum of exp(x - the largest x) both, as the
    largest of all tiles is known when all have met."""
    return 2 if kind == "sum_exp" else 1


def tile_counters(split: int) -> int:
    """Counters of a tile: one for those that meet."""
    return sum(-(-left // FAN_IN) for left in meetings(split)) if split > ALONE else 1
