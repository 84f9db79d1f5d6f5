"""Random structured sparse matrices, their metadata, and where registers hold it: written from the ISA's text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.emulator.test_mma import DTYPES, draw


@dataclass
class Sparse:
    """A sparse A."""

    dense: np.ndarray  # float64 (rows, K)
    values: np.ndarray  # what is stored of it, float64 (rows, K / 2)
    codes: np.ndarray  # of the values, uint64
    metadata: np.ndarray  # uint8 (rows, chunks), 4 bits of each chunk


def sparse(kind: str, rows: int, k: int, chunk: int = 4, seed: int = 0) -> Sparse:
    """Of each chunk of 4 elements two, of 8 two pairs, of 2 one."""
    rng = np.random.default_rng(seed)
    values, codes = draw(kind, (rows, k // 2), seed + 1)
    values, codes = np.where(values == 0, 1, values), np.where(values == 0, draw_one(kind), codes)
    dense, metadata = np.zeros((rows, k)), np.zeros((rows, k // chunk), np.uint8)
    for row in range(rows):
        for at in range(k // chunk):
            part = values[row, at * chunk // 2 : (at + 1) * chunk // 2]
            if chunk == 2:
                place = rng.integers(2)
                dense[row, 2 * at + place] = part[0]
                metadata[row, at] = (0b0100, 0b1110)[place]
                continue
            first, second = sorted(rng.choice(4, 2, replace=False))
            for i, index in enumerate((first, second)):
                size = chunk // 4
                start = at * chunk + index * size
                dense[row, start : start + size] = part[i * size : (i + 1) * size]
            metadata[row, at] = first | second << 2
    return Sparse(dense, values, codes, metadata)


def draw_one(kind: str) -> int:
    """The code of 1."""
    one = np.ones(1).astype(DTYPES[kind])
    return int(one.view(f"u{one.itemsize}")[0])


def register_words(metadata: np.ndarray, threads: int, selector: int, seed: int = 0) -> np.ndarray:
    """The metadata registers of a warp's 32 lanes, for its 16 rows; garbage in lanes that are not counted."""
    words = np.random.default_rng(seed).integers(0, 1 << 32, 32, dtype=np.uint32)
    for group in range(8):
        for thread in range(threads):
            low, high = metadata[group], metadata[group + 8]
            if threads == 4:
                nibbles = (high if thread % 2 else low)[8 * (thread // 2) :][:8]
            else:
                nibbles = [*low[4 * thread :][:4], *high[4 * thread :][:4]]
            word = sum(int(x) << 4 * i for i, x in enumerate(nibbles))
            words[4 * group + selector * threads + thread] = word
    return words
