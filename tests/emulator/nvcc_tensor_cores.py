"""Launches of data/nvcc/tensor_cores.cu, warpgroup.cu and block_scaled.cu."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.emulator.nvcc_arithmetic import table
from tests.emulator.nvcc_async import tensor_map
from tests.emulator.nvcc_control import case
from tests.emulator.operands import E2M1, operand, product, scaled
from tests.emulator.programs import Case, Expected, Pointer, blank


def _mma(kind: str, k: int, start: bool) -> Callable[[np.random.Generator], Case]:
    def make(rng: np.random.Generator) -> Case:
        a, b = operand(rng, 16, k, kind), operand(rng, 8, k, kind)
        values, tolerance = product(a, b, np.float32)
        if start:  # the accumulators begin as 1, 2 in the upper rows and 3, 4 in the lower
            begin = np.where(np.arange(16)[:, None] < 8, 1, 3) + np.arange(8) % 2
            values, tolerance = values + begin, tolerance + 1e-6
        return case({"a": a, "b": b, "c": blank((16, 8), np.float32)}, {"c": Expected(values, tolerance)})

    return make


def _wgmma_plain(rng: np.random.Generator) -> Case:
    a, b = operand(rng, 64, 32, "bf16"), operand(rng, 16, 32, "bf16")
    values, tolerance = product(a, b, np.float32)
    return case({"a": a, "b": b, "c": blank((64, 16), np.float32)}, {"c": Expected(values, tolerance)})


def _wgmma_swizzled(rng: np.random.Generator) -> Case:
    a, b = operand(rng, 64, 64, "bf16"), operand(rng, 16, 64, "bf16")
    values, tolerance = product(a, b, np.float32)
    turned = np.ascontiguousarray(b.T)
    arrays = {"a": a, "b": turned, "c": blank((64, 16), np.float32)}
    parameters = [tensor_map("a", a, "bf16", (64, 64), 128), Pointer("b"), Pointer("c")]
    return Case(arrays, parameters, {"c": Expected(100 - values, tolerance + 1e-4)}, frozenset({"c"}))


def _wgmma_registers(rng: np.random.Generator) -> Case:
    a, b = operand(rng, 64, 32, "fp8e4nv"), operand(rng, 16, 32, "fp8e4nv")
    values, tolerance = product(a, b, np.float32)
    # an H200 keeps fewer bits of FP8 sums; either is right here
    loose = tolerance + (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)).T) * 2.0**-12
    return case({"a": a, "b": b, "c": blank((64, 16), np.float32)}, {"c": Expected(values, loose)})


def _wgmma_sparse_steps(rng: np.random.Generator) -> Case:
    a = operand(rng, 128, 16, "bf16")
    b = np.stack([operand(rng, 16, 16, "bf16") for _ in range(2)])
    first, second = (product(a, part, np.float32) for part in b)
    values, tolerance = np.stack([first[0], -second[0]]), np.stack([first[1], second[1]])
    return case({"a": a, "b": b, "c": blank((2, 128, 16), np.float32)}, {"c": Expected(values, tolerance)})


def _scales(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(121, 134, shape).astype(np.uint8)


def _scaled_f8f6f4(rng: np.random.Generator) -> Case:
    a = operand(rng, 16, 32, "fp8e4nv")
    codes4, codes6 = rng.integers(0, 16, (8, 32)).astype(np.uint8), rng.integers(0, 64, (8, 32)).astype(np.uint8)
    e3m2 = table(3, 2)
    six = np.concatenate([e3m2, -e3m2])[codes6]
    a_scales, b_scales = _scales(rng, (16,)), _scales(rng, (8,))
    factor = 2.0 ** (a_scales[:, None].astype(np.float64) - 127)
    results = [
        product(a.astype(np.float64) * factor, b * 2.0 ** (b_scales[:, None].astype(np.float64) - 127), np.float32)
        for b in (E2M1[codes4], six)
    ]
    # the second product is added to the first
    values, tolerance = (np.stack(parts).cumsum(0) for parts in zip(*results, strict=True))
    arrays = {"as": a, "b4": codes4 << 2, "b6": codes6, "a_scales": a_scales, "b_scales": b_scales}
    return case({**arrays, "c": blank((2, 16, 8), np.float32)}, {"c": Expected(values, tolerance)})


def _scaled_fp4(group: int, start: float) -> Callable[[np.random.Generator], Case]:
    def make(rng: np.random.Generator) -> Case:
        a, b = scaled(rng, 16, 64, "e2m1", group), scaled(rng, 8, 64, "e2m1", group)
        values, tolerance = product(a.values, b.values, np.float32)
        arrays = {"as": a.data, "bs": b.data, "a_scales": a.scales, "b_scales": b.scales}
        return case(
            {**arrays, "c": blank((16, 8), np.float32)}, {"c": Expected(values + start, tolerance + 1e-6 * start)}
        )

    return make


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "mma_bf16": _mma("bf16", 16, True),
    "mma_e4m3": _mma("fp8e4nv", 32, False),
    "mma_tf32": _mma("fp32", 8, False),
    "wgmma_plain": _wgmma_plain,
    "wgmma_swizzled": _wgmma_swizzled,
    "wgmma_registers": _wgmma_registers,
    "wgmma_sparse_steps": _wgmma_sparse_steps,
    "scaled_f8f6f4": _scaled_f8f6f4,
    "scaled_mxf4": _scaled_fp4(32, 1.0),
    "scaled_nvf4": _scaled_fp4(16, 0.0),
}
