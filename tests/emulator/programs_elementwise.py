"""Launches of data/triton/elementwise_kernels.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from tests.emulator.operands import E2M1
from tests.emulator.programs import Expected, Given, blank

Give = Callable[[np.random.Generator], Given]


def _spread(rng: np.random.Generator, count: int, low: int = -20, high: int = 20) -> np.ndarray:
    """float32 of many magnitudes, some zeros of both signs among them."""
    values = rng.standard_normal(count) * 2.0 ** rng.integers(low, high, count)
    values[rng.integers(0, count, count // 32)] = 0.0
    values[rng.integers(0, count, count // 32)] = -0.0
    return values.astype(np.float32)


def _narrow(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        n = 512 + 272
        x = _spread(rng, n)
        x[:4] = 448.0, 464.0, -1e9, 65520.0  # the largest e4m3, a tie above it, far too large, the first f16 infinity
        # cvt.rn.satfinite saturates (PTX ISA 9.7.9.21), as float16's own conversion does not
        four = np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn)
        five = np.clip(x, -57344, 57344).astype(ml_dtypes.float8_e5m2)
        brain = x.astype(ml_dtypes.bfloat16)
        with np.errstate(over="ignore"):
            half = x.astype(np.float16)
        with np.errstate(invalid="ignore"):
            total = four.astype(np.float32) + five.astype(np.float32) + brain.astype(np.float32)
            total = total + half.astype(np.float32)
        want = {"e4m3": four, "e5m2": five, "bf16": brain, "f16": half, "back": total}
        return Given(
            {"x": x, "n": n, **{name: blank(n, value.dtype) for name, value in want.items()}},
            {name: Expected(value.astype(np.float64)) for name, value in want.items()},
            (2,),
        )

    return give


def _round_toward_zero(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        n = 256 + 100
        x = _spread(rng, n, -12, 12)
        bits = x.view(np.uint32)
        brain = (bits & np.uint32(0xFFFF0000)).view(np.float32)
        # e5m2 is the upper byte of float16
        with np.errstate(over="ignore"):
            half = x.astype(np.float16)
        half = np.where(np.abs(half.astype(np.float32)) > np.abs(x), np.nextafter(half, np.float16(0)), half)
        five = (half.view(np.uint16) >> 8).astype(np.uint8).view(ml_dtypes.float8_e5m2)
        return Given(
            {"x": x, "n": n, "bf16": blank(n, ml_dtypes.bfloat16), "e5m2": blank(n, ml_dtypes.float8_e5m2)},
            {"bf16": Expected(brain.astype(np.float64)), "e5m2": Expected(five.astype(np.float64))},
            (2,),
        )

    return give


def _quantize_mxfp4(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        rows, columns = 16, 256
        x = rng.standard_normal((rows, columns)) * np.repeat(2.0 ** rng.integers(-9, 9, (rows, columns // 32)), 32, 1)
        x = x.astype(np.float32)
        groups = x.reshape(rows, columns // 32, 32)
        top = np.abs(groups).max(2)
        codes = (top.view(np.uint32) >> 23).astype(np.int64) - 2
        unit = groups / (2.0 ** (codes - 127.0))[:, :, None]
        # to the nearest of 0 0.5 1 1.5 2 3 4 6, ties to an even code, no further than 6
        values, magnitude = E2M1[:8], np.minimum(np.abs(unit), 6.0)
        distance = np.abs(magnitude[..., None] - values)
        nearest = distance.min(-1, keepdims=True)
        ties = (distance == nearest) & (np.arange(8) % 2 == 0)
        near = np.where(ties.any(-1), ties.argmax(-1), (distance == nearest).argmax(-1))
        code = (near | (unit.view(np.int64) < 0) << 3).astype(np.uint8).reshape(rows, columns)
        packed = code[:, ::2] | code[:, 1::2] << 4
        return Given(
            {
                "x": x, "columns": columns,
                "packed": blank((rows, columns // 2), np.uint8), "scales": blank((rows, columns // 32), np.uint8),
            },
            {"packed": Expected(packed), "scales": Expected(codes)},
            (2, 2),
        )  # fmt: skip

    return give


def softmax(rows: int, columns: int) -> Give:
    def give(rng: np.random.Generator) -> Given:
        x = (rng.standard_normal((rows, columns)) * 3).astype(np.float32)
        power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True).astype(np.float64))
        want = power / power.sum(1, keepdims=True)
        out = blank(x.shape, np.float32)
        return Given({"x": x, "out": out, "columns": columns}, {"out": Expected(want, want * 2e-5 + 1e-9)}, (rows,))

    return give


def _reductions(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        rows, columns = 8, 256
        x = (rng.standard_normal((rows, columns)) * 2.0 ** rng.integers(-4, 5, (rows, 1))).astype(np.float32)
        integers = rng.integers(-(2**31), 2**31, (rows, columns), np.int64).astype(np.int32)
        totals = integers.astype(np.int64).sum(1).astype(np.int32)
        return Given(
            {
                "x": x, "integers": integers, "columns": columns,
                "sums": blank(rows, np.float32), "tops": blank(rows, np.float32),
                **{name: blank(rows, np.int32) for name in ("places", "totals", "ors")},
            },
            {
                "sums": Expected(x.sum(1, dtype=np.float64), np.abs(x).sum(1) * 1e-6),
                "tops": Expected(x.max(1).astype(np.float64)),
                "places": Expected(x.argmax(1)),
                "totals": Expected(totals),
                "ors": Expected(np.bitwise_xor.reduce(integers, 1)),
            },
            (2,),
        )  # fmt: skip

    return give


def _integer_extremes(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        x = rng.integers(-(2**31), 2**31, (3, 256), np.int64).astype(np.int32)
        return Given(
            {"x": x, "least": blank(3, np.int32), "most": blank(3, np.int32)},
            {"least": Expected(x.min(1)), "most": Expected(x.max(1))},
            (3,),
        )

    return give


def _scan_and_sort(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        x = rng.integers(-1000, 1000, (2, 128)).astype(np.int32)
        return Given(
            {"x": x, "sums": blank(x.shape, np.int32), "ordered": blank(x.shape, np.int32)},
            {"sums": Expected(x.cumsum(1)), "ordered": Expected(np.sort(x, 1))},
            (2,),
        )

    return give


def _atomics(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        n, keys, count = 300, 16, 3
        # multiples of an eighth: every order of additions gives the same float32, and bfloat16 for the few of a key
        x = rng.integers(-40, 40, n).astype(np.float32) / 8
        key = rng.integers(0, keys, n).astype(np.int32)
        whole = np.trunc(x).astype(np.int32)
        total, top, bits = np.zeros(keys, np.float32), np.full(keys, -9, np.int32), np.zeros(keys, np.int64)
        bottom, brain = np.full(keys, 9, np.float32), np.zeros(keys, ml_dtypes.bfloat16)
        want = [value.astype(np.float64) for value in (total, top, bottom, brain)]
        np.add.at(want[0], key, x)
        np.maximum.at(want[1], key, whole)
        np.minimum.at(want[2], key, x)
        np.add.at(want[3], key, x)
        np.bitwise_or.at(bits, key, np.int64(1) << (np.arange(n) % 32))
        # 128 threads in each of three programs: the first counter goes up by one for each program, the third collects
        tickets = np.zeros(3, np.int32)
        largest = np.zeros(keys)
        np.add.at(largest, key, np.abs(x))
        return Given(
            {
                "x": x, "keys": key, "total": total, "top": top, "bottom": bottom, "brain": brain, "n": n,
                "bits": np.zeros(keys, np.int32), "tickets": tickets,
            },
            {
                "total": Expected(want[0]),
                "top": Expected(want[1].astype(np.int64)),
                "bottom": Expected(want[2]),
                "brain": Expected(want[3], largest / 8),
                "bits": Expected(bits.astype(np.int32)),
                "tickets": Expected(np.array([count, 0, 3])),
            },
            (count,),
        )  # fmt: skip

    return give


def _histogram(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        x = rng.integers(0, 32, 512).astype(np.int32)
        return Given(
            {"x": x, "out": np.zeros(32, np.int32), "n": 512}, {"out": Expected(np.bincount(x, minlength=32))}, (2,)
        )

    return give


def _mathematics(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        n = 200
        x = (rng.standard_normal(n) * 4).astype(np.float32)
        y = (rng.standard_normal(n) * 2.0 ** rng.integers(-6, 7, n)).astype(np.float32)
        a, b = x.astype(np.float64), y.astype(np.float64)
        want = np.stack([
            np.exp(a), np.log(np.abs(a) + 1), np.sqrt(np.abs(a)), a / b, a * b + a, np.floor(a) + np.ceil(b),
            np.sin(a), np.tanh(a), 1 / np.sqrt(np.abs(b)), np.clip(a, -0.5, 0.5),
        ])  # fmt: skip
        slack = np.abs(want) * 2.0**-20 + 2.0**-22
        slack[[2, 3]] = np.abs(want[[2, 3]]) * 2.0**-24  # .rn: half a unit in the last place
        slack[4] = np.abs(want[4]) * 2.0**-24
        slack[9] = 0
        return Given({"x": x, "y": y, "out": blank((10, n), np.float32), "n": n}, {"out": Expected(want, slack)}, (2,))

    return give


def _integers(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        n = 200
        x = rng.integers(-(2**31), 2**31, n, np.int64)
        y = rng.integers(-(2**31), 2**31, n, np.int64) >> rng.integers(0, 28, n)
        y[y == 0] = 7
        y[y == -1] = 11
        long = x * 1000003
        quotient = np.trunc(x / y).astype(np.int64)
        # float64 holds quotients of 51 bits only near: exact by Python's own integers
        pairs = zip(long.tolist(), y.tolist(), strict=True)
        far = np.array([abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in pairs])
        x32, y32 = x.astype(np.int32), y.astype(np.int32)
        leading = np.array([32 - int(v).bit_length() for v in y32.view(np.uint32)])
        ones = np.array([int(v).bit_count() for v in x32.view(np.uint32)])
        want = np.stack([
            quotient, x - quotient * y, far, long - far * y,
            ((x & 0xFFFFFFFF).astype(np.uint64) * (y & 0xFFFFFFFF).astype(np.uint64) >> np.uint64(32)).astype(np.int64),
            (x32 ^ (y32 << 3)).astype(np.int64), (x32 >> (y32 & 31)).astype(np.int64), ones + leading,
            (x & 0xFFFFFFFF) + x.astype(np.int8), np.where(x > y, long, -long),
        ])  # fmt: skip
        # umulhi gives 32 bits that the kernel widens as signed
        want[4] = want[4].astype(np.int32)
        return Given({"x": x32, "y": y32, "out": blank((10, n), np.int64), "n": n}, {"out": Expected(want)}, (2,))

    return give


def philox4x32(seed: int, offsets: np.ndarray) -> np.ndarray:
    """The first word of Philox-4x32-10 (Salmon et al., SC 2011) with counters (offset, 0, 0, 0)."""
    words = [offsets.astype(np.uint64), *(np.zeros(len(offsets), np.uint64) for _ in range(3))]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (second >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]), second & low,
            (first >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]), first & low,
        ]  # fmt: skip
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0].astype(np.uint32).view(np.int32)


def _philox(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        seed = int(rng.integers(0, 2**62))
        want = philox4x32(seed, np.arange(512))
        return Given({"seed": seed, "out": blank(512, np.int32)}, {"out": Expected(want)}, (2,))

    return give


def _transpose(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        x = rng.integers(0, 2**16, (128, 64)).astype(np.uint16)
        out = blank((64, 128), np.uint16)
        return Given({"x": x, "out": out, "rows": 128, "columns": 64}, {"out": Expected(x.T)}, (2, 2))

    return give


MAKERS: dict[str, Callable[[Mapping[str, Any]], Give]] = {
    "narrow": _narrow,
    "round_toward_zero": _round_toward_zero,
    "quantize_mxfp4": _quantize_mxfp4,
    "softmax": lambda _: softmax(3, 500),
    "reductions": _reductions,
    "integer_extremes": _integer_extremes,
    "scan_and_sort": _scan_and_sort,
    "atomics": _atomics,
    "histogram": _histogram,
    "mathematics": _mathematics,
    "integers": _integers,
    "philox": _philox,
    "transpose": _transpose,
}
