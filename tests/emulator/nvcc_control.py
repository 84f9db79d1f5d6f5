"""Launches of data/nvcc/control.cu; what must come out is computed thread by thread, in Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.emulator.programs import Case, Expected, Pointer, blank

FULL = 0xFFFFFFFF


def signed(value: int) -> int:
    """32 bits as an int has them."""
    return (value & FULL) - ((value & 0x80000000) << 1)


def truncated(value: int, divisor: int) -> int:
    """C's division."""
    return abs(value) // abs(divisor) * (1 if (value < 0) == (divisor < 0) else -1)


def case(arrays: dict[str, np.ndarray], want: dict[str, Expected], *more: np.generic, grid: int = 1) -> Case:
    """Parameters are the arrays in order, then `more`; arrays that are filled with 0xFF and expected are outputs."""
    outputs = frozenset(name for name in want if (arrays[name].reshape(-1).view(np.uint8) == 0xFF).all())
    return Case(arrays, [*(Pointer(name) for name in arrays), *more], want, outputs, (grid, 1, 1))


def _collatz(rng: np.random.Generator) -> Case:
    n = 150
    x = rng.integers(1, 3000, n).astype(np.uint32)
    x[[7, 80]] = 0, 1

    def steps(value: int) -> int:
        count = 0
        while value != 1:
            if value == 0:
                return -1
            value = 3 * value + 1 if value & 1 else value >> 1
            count += 1
        return count

    want = np.array([steps(int(value)) for value in x])
    return case({"x": x, "steps": blank(n, np.int32)}, {"steps": Expected(want)}, np.int32(n), grid=3)


def _nested(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 14, 192).astype(np.int32)

    def run(i: int, limit: int) -> int:
        total = 0
        for a in range(limit):
            if a % 3 == i % 3:
                continue
            for b in range(a, 2 * limit, 1 + (i & 3)):
                if (a * b + i) % 7 == 5:
                    break
                total += a ^ b
                if total > 4000:
                    total -= 4000
                    if i & 8:
                        return total
            total += total.bit_count()
        return total

    want = np.array([run(i, int(limit)) + 31 * 16 for i, limit in enumerate(x)])
    return case({"x": x, "out": blank(192, np.int32)}, {"out": Expected(want)}, grid=2)


def _dispatch(rng: np.random.Generator) -> Case:
    x = rng.integers(-(2**31), 2**31, 128, np.int64).astype(np.int32)

    def run(i: int, value: int) -> int:
        unsigned = value & FULL
        result = {
            0: 17,
            1: value * 5,
            2: value**3,
            3: -value,
            4: value ^ 0x55,
            5: value ^ 0x55,
            6: truncated(value, 3),
            7: 2 * value + 1,
            8: 32 - unsigned.bit_length(),
            9: int(f"{unsigned:032b}"[::-1], 2),
            10: value - truncated(value, 11) * 11,
        }.get(value & 15, 1000 + (value & 15))
        return signed(result + (i**3 if value & 1 else 2 * i))

    return case(
        {"x": x, "out": blank(128, np.int32)},
        {"out": Expected(np.array([run(i, int(v)) for i, v in enumerate(x)]))},
        grid=2,
    )


def _sort_local(rng: np.random.Generator) -> Case:
    x = rng.integers(-500, 500, (32, 24)).astype(np.int16)
    return case({"x": x, "out": blank(x.shape, np.int16)}, {"out": Expected(np.sort(x, 1))})


def _warp_votes(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 1000, 64).astype(np.int32)
    x[5] = 3
    x[32:] = rng.integers(501, 900, 32)
    want = np.zeros((64, 8), np.int64)
    for i in range(64):
        warp = [int(value) for value in x[i // 32 * 32 :][:32]]
        over = [value > 500 for value in warp]
        want[i] = [
            sum((value & 1) << lane for lane, value in enumerate(warp)),
            3 in warp,
            all(value < 900 for value in warp),
            max(warp),
            min(warp),
            np.bitwise_or.reduce(warp),
            np.bitwise_and.reduce([value | 1 for value in warp]),
            (all(over) or not any(over)) + 32,
        ]
    return case({"x": x, "out": blank((64, 8), np.uint32)}, {"out": Expected(want)})


def _warp_shuffles(rng: np.random.Generator) -> Case:
    x = rng.integers(-10000, 10000, 64).astype(np.int32)
    want = np.zeros((6, 64), np.int64)
    for i in range(64):
        lane, warp = i % 32, x[i // 32 * 32 :][:32].astype(np.int64)
        want[0, i] = warp[(lane * 7 + 3) % 32]
        want[1, i] = warp[max(lane - 3, lane if lane < 3 else 0)]
        want[2, i] = warp[lane + 5 if lane % 16 + 5 < 16 else lane]
        want[3, i] = warp[lane ^ 9]
        want[4, i] = warp[: lane + 1].sum()
        want[5, i] = signed(int(warp[lane ^ 1]) * 1000000007 >> 7)
    return case({"x": x, "out": blank((6, 64), np.int32)}, {"out": Expected(want)})


def _warp_matches(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 6, 64).astype(np.int32)
    x[40] = 700  # so that the second warp is not alike in its upper bits
    want = np.zeros((64, 3), np.int64)
    for i in range(64):
        warp = x[i // 32 * 32 :][:32]
        same = sum(int(value == x[i]) << lane for lane, value in enumerate(warp))
        alike = len({int(value) >> 8 for value in warp}) == 1
        want[i] = same, FULL * alike, alike + 2 * same.bit_count()
    return case({"x": x, "out": blank((64, 3), np.uint32)}, {"out": Expected(want)})


def _divergent_shuffles(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 1000, 64).astype(np.int32)
    result = np.zeros(64, np.int64)
    for start in (0, 32):
        warp = x[start : start + 32]
        odd = [lane for lane in range(32) if warp[lane] & 1]
        even = [lane for lane in range(32) if not warp[lane] & 1]
        half = [lane for lane in even if warp[lane] & 2]
        for place, lane in enumerate(odd):
            result[start + lane] = warp[odd[0]] + place
        for lane in even:
            result[start + lane] = sum(int(warp[other]) for other in even)
        for lane in half:
            result[start + lane] -= half[-1]
    want = result + result[np.arange(64) ^ 1]
    return case({"x": x, "out": blank(64, np.int32)}, {"out": Expected(want)})


def _compact(rng: np.random.Generator) -> Case:
    x = rng.integers(-500, 500, 128).astype(np.int32)
    x[99] = 77
    kept = x[x > 0]
    want = np.full(128, -1)
    want[: len(kept)] = kept
    out = np.full(128, -1, np.int32)
    code = len(kept) + 1000 * int((x == 77).any()) + 10000 * int((x < 500).all())
    arrays = {"x": x, "out": out, "count": blank(1, np.int32)}
    return case(arrays, {"out": Expected(want), "count": Expected(np.array([code]))})


def _block_shape(rng: np.random.Generator) -> Case:
    want = np.zeros((12, 60, 4), np.int64)
    for block in range(12):
        place = block % 2 + 10 * (block // 2 % 3) + 100 * (block // 6)
        for thread in range(60):
            want[block, thread] = thread % 4 + 10 * (thread // 4 % 3) + 100 * (thread // 12), place, thread % 32, 12
    result = case({"out": blank(want.shape, np.int32)}, {"out": Expected(want)})
    result.grid = (2, 3, 2)
    return result


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "collatz": _collatz,
    "nested": _nested,
    "dispatch": _dispatch,
    "sort_local": _sort_local,
    "warp_votes": _warp_votes,
    "warp_shuffles": _warp_shuffles,
    "warp_matches": _warp_matches,
    "divergent_shuffles": _divergent_shuffles,
    "compact": _compact,
    "block_shape": _block_shape,
}
