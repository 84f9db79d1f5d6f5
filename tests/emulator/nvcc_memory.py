"""Launches of data/nvcc/memory.cu."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from tests.emulator.nvcc_control import case
from tests.emulator.programs import Case, Expected, blank


def _reduce_sum(rng: np.random.Generator) -> Case:
    n = 3000
    x = rng.integers(-1000, 1000, n).astype(np.int32)
    total = np.array([17], np.int32)
    return case({"x": x, "total": total}, {"total": Expected(np.array([17 + x.sum()]))}, np.int32(n), grid=3)


def _dot_product(rng: np.random.Generator) -> Case:
    n = 500
    x, y = (rng.integers(-20, 20, (3, n)).astype(np.float32) / 4 for _ in range(2))  # exact sums
    want = (x.astype(np.float64) * y).sum(1)
    return case({"x": x, "y": y, "out": blank(3, np.float32)}, {"out": Expected(want)}, np.int32(n), grid=3)


def _transpose_tile(rng: np.random.Generator) -> Case:
    x = rng.standard_normal((50, 70)).astype(np.float32)
    result = case(
        {"x": x, "out": blank((70, 50), np.float32)},
        {"out": Expected(x.T.astype(np.float64))},
        np.int32(50),
        np.int32(70),
    )
    result.grid = (3, 2, 1)
    return result


def _named_barriers(rng: np.random.Generator) -> Case:
    rounds = 7
    x = rng.integers(-100, 100, (rounds, 64)).astype(np.int32)
    buffers = x * np.arange(1, rounds + 1)[:, None]
    want = buffers[:, :32] + buffers[:, 63:31:-1]
    arrays = {"x": x, "out": blank((rounds, 32), np.int32)}
    return case(arrays, {"out": Expected(want)}, np.int32(rounds))


def _uneven_barrier(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 1000, 128).astype(np.int32)
    x[:4] = [4, 7, 9, 2]  # the second and the third warp
    top = 2 * int(x[32:96].max())
    want = np.where(np.isin(np.arange(128) // 32, (1, 2)), top + np.arange(128) // 32, -(np.arange(128) % 32))
    return case({"x": x, "out": blank(128, np.int32)}, {"out": Expected(want)})


def _shared_atomics(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 1000, 128).astype(np.int32)
    bins = x & 7
    want = np.zeros(36, np.int64)
    for value, bin_, thread in zip(x.tolist(), bins.tolist(), range(128), strict=True):
        want[bin_] += value
        want[8 + bin_] = max(want[8 + bin_] or -1000, value)
        want[16 + bin_] |= 1 << (thread & 31)
        want[24 + bin_] ^= value
    for bin_ in range(8):
        if not (bins == bin_).any():
            want[8 + bin_] = -1000
    want[16:24] = want[16:24].astype(np.int32)
    # 128 steps round a circle of seven, up and down, from 5
    want[32:34] = (5 + 128) % 7, (5 - 128) % 7
    wide = int(x.sum()) << 33
    want[34:36] = np.array([wide & 0xFFFFFFFF, wide >> 32], np.int64).astype(np.int32)
    return case({"x": x, "out": blank(36, np.int32)}, {"out": Expected(want)})


def _global_atomics(rng: np.random.Generator) -> Case:
    n = 256
    x = rng.integers(1, 4000, n).astype(np.int32)
    i = np.arange(n)
    cells = np.array([0, 5000, -1, 100000], np.int32)
    product = 3
    for value in x.tolist():
        product = product * (2 * (value & 3) + 1) % 2**64
    floats = np.zeros(6)
    np.add.at(floats, i & 3, 0.25 * (x & 15))
    floats[4:] = 0.5 * n, int((x & 1).sum())
    halves = np.zeros((4, 2))
    np.add.at(halves[:, 0], i & 3, x & 3)
    halves[:, 1] = n / 4
    arrays = {
        "cells": cells,
        "floats": np.zeros(6, np.float32),
        "halves": np.zeros((4, 2), np.float16),
        "brains": np.zeros(2, ml_dtypes.bfloat16),
        "wide": np.array([5, 3], np.uint64),
        "x": x,
        "seen": np.zeros(n // 32, np.uint32),
    }
    want = {
        "cells": np.array([n, x.min(), np.bitwise_and.reduce(x | 0xFF), 100000 - x.sum()]),
        "floats": floats,
        "halves": halves,
        "brains": np.full(2, n / 2),
        "seen": np.full(n // 32, 0xFFFFFFFF),
    }
    expected = {name: Expected(value) for name, value in want.items()}
    expected["wide"] = Expected(np.array([int(x.max()) << 20, product], np.uint64).view(np.int64))
    return case(arrays, expected, grid=2)


def _counting_sort(rng: np.random.Generator) -> Case:
    n = 700
    x = rng.integers(0, 16, n).astype(np.int32)
    return case({"x": x, "out": blank(n, np.int32)}, {"out": Expected(np.sort(x))}, np.int32(n))


def _message(rng: np.random.Generator) -> Case:
    blocks, generation = 6, 3
    sums = np.cumsum(np.arange(1, blocks + 1) + generation)
    before = np.concatenate([[0], sums[:-1]])
    arrays = {
        "flags": np.zeros(blocks, np.int32),
        "values": blank(blocks, np.int32),
        "out": blank((blocks, 64), np.int32),
    }
    want = {"flags": np.ones(blocks), "values": sums, "out": before[:, None] * 100 + np.arange(64)}
    return case(arrays, {name: Expected(value.astype(np.int64)) for name, value in want.items()}, grid=blocks)


def _cp_async_pipeline(rng: np.random.Generator) -> Case:
    pieces, last = 5, 40
    x = rng.integers(-9, 9, (pieces, 64, 8)).astype(np.float32)
    rows = x.astype(np.float64).copy()
    rows[-1, last:, 1:4] = 0  # of the last piece's later rows only one element of the first four is copied
    rows[:, :, 7] = 0  # copied with a length of 0
    want = (rows[:, ::-1] * np.arange(1, 9)).sum((0, 2))
    return case({"x": x, "out": blank(64, np.float32)}, {"out": Expected(want)}, np.int32(pieces), np.int32(last))


def _cp_async_barrier(rng: np.random.Generator) -> Case:
    rounds = 5
    x = rng.integers(-99, 99, (rounds, 256)).astype(np.int32)
    at = (np.arange(64)[:, None] * 5 + np.arange(4) * 64) & 255
    want = x[:, at].sum((0, 2))
    return case({"x": x, "out": blank(64, np.int32)}, {"out": Expected(want)}, np.int32(rounds))


# matrix m, row r of matrix_loads and matrix_stores lies at so many 16-byte units
ROW = (np.arange(8)[None, :] * 5 + np.arange(4)[:, None] * 11) % 64


def _matrix_loads(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 2**32, 256, np.uint64).astype(np.uint32)
    units = x.view(np.uint16).reshape(64, 8)  # 16-byte units of eight elements
    matrices = units[ROW]  # (4, 8, 8)

    def registers(matrix: np.ndarray) -> np.ndarray:
        """Lane l holds elements 2 (l mod 4) and the next of row l / 4."""
        return np.ascontiguousarray(matrix).view(np.uint32).reshape(32)

    plain = [registers(matrix) for matrix in matrices]
    turned = [registers(matrix.T) for matrix in matrices]
    want = np.concatenate([plain[0], *turned[:2], *plain, *turned])
    return case({"x": x, "out": blank(352, np.uint32)}, {"out": Expected(want)})


def _matrix_stores(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 2**32, (4, 32), np.uint64).astype(np.uint32)
    units = np.zeros((128, 8), np.uint16)
    for m in range(4):
        units[ROW[m]] = x[m].view(np.uint16).reshape(8, 8)
    for m in range(2):
        units[64 + ROW[m]] = x[m].view(np.uint16).reshape(8, 8).T
    want = units.reshape(-1).view(np.uint32)
    return case({"x": x, "out": blank(512, np.uint32)}, {"out": Expected(want)})


def _vector_copies(rng: np.random.Generator, use_shared: bool) -> Case:
    x = rng.integers(0, 256, 2048).astype(np.uint8)
    tile = x.copy()
    tile[:1024] = x[:1024].view(np.uint32).reshape(64, 4)[:, ::-1].reshape(-1).view(np.uint8)
    source = tile if use_shared else x
    want = np.zeros(1472, np.uint8)
    want[:1024] = source[:1024].reshape(64, 16)[::-1].reshape(-1)
    at = (np.arange(64)[:, None] * 32 + np.arange(32) * 5) & 2047
    want[1024:1152] = source.view(np.int8)[at].sum(1).astype(np.int16).view(np.uint8)
    want[1152:1216] = source[2047 - np.arange(64)]
    want[1216:] = x.view(np.uint32)[np.arange(64) * 3].view(np.uint8)
    return case({"x": x, "out": blank(1472, np.uint8)}, {"out": Expected(want)}, np.int32(use_shared))


def _prefix_sums(rng: np.random.Generator) -> Case:
    x = rng.integers(-99, 99, (2, 256)).astype(np.int32)
    return case({"x": x, "out": blank(x.shape, np.int32)}, {"out": Expected(x.cumsum(1))}, grid=2)


def _stencil(rng: np.random.Generator) -> Case:
    n = 150
    x = rng.integers(-64, 64, n).astype(np.float32)
    want = np.convolve(x.astype(np.float64), [0.0625, 0.25, 0.375, 0.25, 0.0625], "same")
    return case({"x": x, "out": blank(n, np.float32)}, {"out": Expected(want)}, np.int32(n), grid=3)


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "reduce_sum": _reduce_sum,
    "dot_product": _dot_product,
    "transpose_tile": _transpose_tile,
    "named_barriers": _named_barriers,
    "uneven_barrier": _uneven_barrier,
    "shared_atomics": _shared_atomics,
    "global_atomics": _global_atomics,
    "counting_sort": _counting_sort,
    "message": _message,
    "cp_async_pipeline": _cp_async_pipeline,
    "cp_async_barrier": _cp_async_barrier,
    "matrix_loads": _matrix_loads,
    "matrix_stores": _matrix_stores,
    "vector_copies": lambda rng: _vector_copies(rng, bool(rng.integers(0, 2))),
    "prefix_sums": _prefix_sums,
    "stencil": _stencil,
}
