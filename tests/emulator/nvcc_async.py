"""Launches of data/nvcc/async.cu."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from tests.emulator.nvcc_control import case
from tests.emulator.programs import Case, Expected, Pointer, TensorMap, blank


def tensor_map(name: str, array: np.ndarray, element: str, box: tuple[int, ...], swizzle: int = 0) -> TensorMap:
    """A map over all of an array; the box is given as the array's shape is, outermost dimension first."""
    return TensorMap(
        name, element, tuple(reversed(array.shape)), tuple(reversed(array.strides))[1:], tuple(reversed(box)), swizzle
    )


def _bulk_copy(rng: np.random.Generator) -> Case:
    pieces = 5
    x = rng.integers(-999, 999, (pieces, 64)).astype(np.int32)
    arrays = {"x": x, "out": blank(x.shape, np.int32)}
    return case(arrays, {"out": Expected(3 * x[:, ::-1])}, np.int32(pieces))


def _bulk_reductions(rng: np.random.Generator) -> Case:
    i, block = np.arange(64)[:, None], np.arange(4)[None, :]
    start = rng.integers(-20, 40, 64)
    arrays = {
        "sums": np.full(64, 0.25, np.float32),
        "least": start.astype(np.int32),
        "bits": rng.integers(0, 2**32, 64, np.uint64).astype(np.uint32),
        "brains": np.full(64, 16, ml_dtypes.bfloat16),
    }
    words = (0x9E3779B9 * (i + 64 * block)) & 0xFFFFFFFF
    want = {
        "sums": 0.25 + (0.5 * (i + block)).sum(1),
        "least": np.minimum(start, ((i * 37 + block * 11) % 64 - 20).min(1)),
        "bits": arrays["bits"].astype(np.int64) ^ np.bitwise_xor.reduce(words, 1),
        "brains": np.full(64, 16.0 + 1 + 2 + 4 + 8),
    }
    return case(arrays, {name: Expected(value) for name, value in want.items()}, grid=4)


def _cluster_reduction(rng: np.random.Generator) -> Case:
    x = rng.integers(-999, 999, (2, 4, 32)).astype(np.int32)
    return case({"x": x, "out": blank((2, 32), np.int32)}, {"out": Expected(1000 + x.sum(1))}, grid=8)


def _neighbours(rng: np.random.Generator) -> Case:
    rounds = 5
    x = rng.integers(-999, 999, (2, 4, 64)).astype(np.int32)
    # after so many rounds a block holds the tile of the block that many before it; each reads the one opposite
    held = np.roll(x, rounds, 1) + rounds
    want = held[:, np.arange(4) ^ 2, ::-1]
    return case({"x": x, "out": blank(x.shape, np.int32)}, {"out": Expected(want)}, np.int32(rounds), grid=8)


def _distributed_histogram(rng: np.random.Generator) -> Case:
    n = 700
    x = rng.integers(0, 1000, n).astype(np.int32)
    want = np.bincount(x & 31, minlength=32)
    return case({"x": x, "out": blank(32, np.int32)}, {"out": Expected(want)}, np.int32(n), grid=2)


def _remote_stores(rng: np.random.Generator) -> Case:
    x = rng.integers(-(2**30), 2**30, (2, 32)).astype(np.int32)
    want = np.zeros((2, 224), np.int64)
    for block in range(2):
        value = x[1 - block].astype(np.int64)
        want[block, :128] = (value[:, None] + np.arange(4)).reshape(-1)
        want[block, 128:192] = np.stack([np.arange(32), value], 1).reshape(-1)
        want[block, 192:] = -value
    return case({"x": x, "out": blank((2, 224), np.int32)}, {"out": Expected(want)}, grid=2)


def _remote_arrivals(rng: np.random.Generator) -> Case:
    rounds = 7
    want = np.array([*(round_ * 10 + (round_ & 1) for round_ in range(rounds)), rounds])
    return case({"log": blank(rounds + 1, np.int32)}, {"log": Expected(want)}, np.int32(rounds), grid=2)


def _ring_pipeline(rng: np.random.Generator) -> Case:
    """Two blocks of 32 rows, the last rows and columns outside of the tensor."""
    steps = 7
    x = rng.integers(-50, 50, (60, steps * 16 - 4)).astype(np.float32)
    padded = np.zeros((64, steps * 16))
    padded[: x.shape[0], : x.shape[1]] = x
    tiles = padded.reshape(2, 32, steps, 16) * np.arange(1, 17)
    want = np.stack([tiles[:, :, :, warp::3].sum((2, 3)) for warp in range(3)], 1)
    arrays = {"x": x, "out": blank(want.shape, np.float32)}
    parameters = [tensor_map("x", x, "f32", (32, 16), 64), Pointer("out"), np.int32(steps)]
    return Case(arrays, parameters, {"out": Expected(want)}, frozenset({"out"}), (2, 1, 1))


def _multicast_tiles(rng: np.random.Generator) -> Case:
    steps = 5
    x = rng.integers(-50, 50, (64, steps * 32)).astype(np.int32)
    want = np.zeros((4, 64), np.int64)
    for block in range(4):
        rows = x[block // 2 * 32 :][:32].reshape(32, steps, 32)
        for step in range(steps):
            tile = rows[:, step].reshape(16, 64)
            want[block] += (tile * (np.arange(16)[:, None] if block % 2 else 1)).sum(0)
    arrays = {"x": x, "out": blank(want.shape, np.int32)}
    parameters = [tensor_map("x", x, "s32", (16, 32)), Pointer("out"), np.int32(steps)]
    return Case(arrays, parameters, {"out": Expected(want)}, frozenset({"out"}), (4, 1, 1))


def _box(array: np.ndarray, start: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """A box of an array, zeros where it is outside."""
    out = np.zeros(shape, array.dtype)
    for index in np.ndindex(*shape):
        at = tuple(s + i for s, i in zip(start, index, strict=True))
        if all(0 <= a < n for a, n in zip(at, array.shape, strict=True)):
            out[index] = array[at]
    return out


def _tensor_ranks(rng: np.random.Generator) -> Case:
    shapes = {"one": (40,), "three": (5, 4, 12), "four": (3, 2, 3, 8), "five": (1, 2, 2, 3, 8)}
    boxes = {"one": (32,), "three": (4, 4, 8), "four": (2, 2, 4, 4), "five": (1, 2, 2, 2, 4)}
    starts = {"one": (-4,), "three": (1, -1, 4), "four": (2, 0, 1, 0), "five": (0, -1, 1, 0, 4)}
    arrays = {name: rng.integers(1, 10**6, shape).astype(np.int32) for name, shape in shapes.items()}
    pieces = {name: _box(arrays[name], starts[name], boxes[name]) for name in shapes}
    flat = np.concatenate([pieces[name].reshape(-1) for name in ("one", "three", "four")])
    arrays["to_one"], arrays["to_five"] = np.zeros(220, np.int32), np.zeros((2, 2, 2, 3, 8), np.int32)
    five = np.zeros(arrays["to_five"].shape, np.int32)
    for index in np.ndindex(*boxes["five"]):
        at = tuple(s + i for s, i in zip((1, 0, 0, 1, 0), index, strict=True))
        if all(a < n for a, n in zip(at, five.shape, strict=True)):
            five[at] = pieces["five"][index]
    parameters: list = [tensor_map(name, arrays[name], "s32", boxes[name]) for name in shapes]
    parameters.append(tensor_map("to_one", arrays["to_one"], "s32", (32,)))
    parameters.append(tensor_map("to_five", arrays["to_five"], "s32", boxes["five"]))
    return Case(arrays, parameters, {"to_one": Expected(flat[:220]), "to_five": Expected(five)})


def _tensor_reductions(rng: np.random.Generator) -> Case:
    row, column, block = np.ogrid[:8, :32, :3]
    arrays = {
        "sums": rng.integers(0, 9, (9, 24)).astype(np.float32),
        "most": rng.integers(0, 101, (6, 36)).astype(np.uint32),
        "halves": np.full((6, 56), 0.5, np.float16),
    }
    sums, most = arrays["sums"].astype(np.float64), arrays["most"].astype(np.int64)
    added = (row + 0.25 * column + block).sum(2)  # (8, 32), its corner at row 2, column 4
    sums[2:9, 4:24] += added[:7, :20]
    largest = ((row * 29 + column * 7 + block * 13) % 101).max(2)  # at row 3, column 8
    most[3:6, 8:36] = np.maximum(most[3:6, 8:36], largest[:3, :28])
    halves = 0.5 + 3 * (1 + np.arange(6)[:, None] / 8) * np.ones((1, 56))
    parameters: list = [
        tensor_map("sums", arrays["sums"], "f32", (8, 32)),
        tensor_map("most", arrays["most"], "u32", (8, 32)),
        tensor_map("halves", arrays["halves"], "f16", (8, 64)),
    ]
    want = {"sums": Expected(sums), "most": Expected(most), "halves": Expected(halves)}
    return Case(arrays, parameters, want, grid=(3, 1, 1))


def _barrier_counts(rng: np.random.Generator) -> Case:
    rounds = 3
    want = np.array([96 * 95 // 2] * rounds + [64 + 2 + 5 - 32])
    return case({"out": blank(rounds + 1, np.int32)}, {"out": Expected(want)}, np.int32(rounds))


def _replaced_map(rng: np.random.Generator) -> Case:
    rows, columns, blocks = 10, 20, 3
    x = rng.integers(1, 10**6, (rows, columns)).astype(np.int32)
    other = np.zeros((16, 16), np.int32)
    want = np.stack([_box(x, (4, 8 * block), (8, 8)) for block in range(blocks)])
    arrays = {"other": other, "room": np.zeros((blocks, 128), np.uint8), "x": x, "out": blank(want.shape, np.int32)}
    parameters = [
        tensor_map("other", other, "s32", (8, 8)), Pointer("room"), Pointer("x"), Pointer("out"),
        np.int32(columns), np.int32(rows),
    ]  # fmt: skip
    # what stands in the room is nobody's business
    return Case(arrays, parameters, {"out": Expected(want)}, frozenset({"out"}), (blocks, 1, 1), frozenset({"room"}))


def _dependent(rng: np.random.Generator) -> Case:
    x = rng.integers(-999, 999, 64).astype(np.int32)
    return case({"x": x, "out": blank(64, np.int32)}, {"out": Expected(x + 1)}, grid=2)


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "bulk_copy": _bulk_copy,
    "bulk_reductions": _bulk_reductions,
    "cluster_reduction": _cluster_reduction,
    "neighbours": _neighbours,
    "distributed_histogram": _distributed_histogram,
    "remote_stores": _remote_stores,
    "remote_arrivals": _remote_arrivals,
    "ring_pipeline": _ring_pipeline,
    "multicast_tiles": _multicast_tiles,
    "tensor_ranks": _tensor_ranks,
    "tensor_reductions": _tensor_reductions,
    "barrier_counts": _barrier_counts,
    "replaced_map": _replaced_map,
    "dependent": _dependent,
}
