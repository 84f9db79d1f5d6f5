"""Launches of data/triton/gluon_matmul_kernels.py and gluon_copy_kernels.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.emulator.operands import DTYPES, operand, product, scaled
from tests.emulator.programs import Expected, Given, blank
from tests.emulator.programs_elementwise import softmax
from tests.emulator.programs_matmul import Maker, constant, kind_of

Give = Callable[[np.random.Generator], Given]


def box(row: Mapping[str, Any], argument: str) -> tuple[int, ...]:
    """The block that a tensor descriptor moves, outermost dimension first."""
    inner = row["arguments"][argument].partition("[")[2].partition("]")[0]
    return tuple(int(part) for part in inner.split(","))


def _matmul(tiles: tuple[int, int], steps: int) -> Maker:
    """Tiles from the boxes of a_map, b_map; c by a tensor map or through a pointer with pitch n."""

    def make(row: Mapping[str, Any]) -> Give:
        def give(rng: np.random.Generator) -> Given:
            kind = kind_of(row, "a_map")
            rows_are_k = row["constants"].get("B_ROWS_ARE_K") == "True"
            bm, bk = box(row, "a_map")
            bn = box(row, "b_map")[1 if rows_are_k else 0]
            ragged = "c_map" in row["arguments"]
            m, n = tiles[0] * bm - 3 * ragged, tiles[1] * bn - 16 * ragged
            k = steps * bk - 16 * ragged
            a, b = operand(rng, m, k, kind), operand(rng, n, k, kind)
            c_name = "c_map" if ragged else "c"
            out = DTYPES[kind_of(row, c_name)]
            values, tolerance = product(a, b, out)
            if out == np.float16:
                values, tolerance = np.clip(values, -65504, 65504), tolerance + 2.0**-24
            b_memory = np.ascontiguousarray(b.T) if rows_are_k else b
            return Given(
                {"a_map": a, "b_map": b_memory, c_name: blank((m, n), out), "n": n, "k": k},
                {c_name: Expected(values, tolerance)},
                tiles,
            )

        return give

    return make


def packed_scales(scales: np.ndarray) -> np.ndarray:
    """(rows, groups) as tcgen05.cp takes them: (1, rows / 128, groups / 4, 2, 256).

    In a block of 512 bytes, row r and group g of 128 by 4 lie at byte 16 (r mod 32) + 4 (r div 32) + g: PTX ISA
    9.7.16.10.7 "Scale factor" layouts, 32x128b with .warpx4.
    """
    rows, groups = scales.shape
    blocks = scales.reshape(rows // 128, 4, 32, groups // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(blocks).reshape(1, rows // 128, groups // 4, 2, 256)


def _scaled(tiles: tuple[int, int], steps: int) -> Maker:
    def make(row: Mapping[str, Any]) -> Give:
        def give(rng: np.random.Generator) -> Given:
            a_format, b_format = row["constants"]["A_FORMAT"], row["constants"]["B_FORMAT"]
            group = constant(row, "GROUP")
            bm, bn = box(row, "a_map")[0], box(row, "b_map")[0]
            bk = box(row, "a_map")[1] * (2 if a_format == "e2m1" else 1)
            m, n, k = tiles[0] * bm, tiles[1] * bn, steps * bk
            a, b = scaled(rng, m, k, a_format, group), scaled(rng, n, k, b_format, group)
            values, tolerance = product(a.values, b.values, np.float32)
            return Given(
                {
                    "a_map": a.data, "b_map": b.data, "a_scale_map": packed_scales(a.scales),
                    "b_scale_map": packed_scales(b.scales), "c_map": blank((m, n), np.float32), "k": k,
                },
                {"c_map": Expected(values, tolerance)},
                tiles,
            )  # fmt: skip

        return give

    return make


def _tma_copy(row: Mapping[str, Any]) -> Give:
    """A box that begins outside of x, and lands partly outside of out."""

    def give(rng: np.random.Generator) -> Given:
        dtype = DTYPES[kind_of(row, "x_map")]
        rows, columns = box(row, "x_map")
        x = rng.integers(1, 100, (rows + 5, 2 * columns)).astype(dtype)
        out = np.zeros((2 * rows, columns + 16), dtype)
        from_i, from_j, to_i, to_j = -3, columns // 2 + 16, rows + 7, 32
        tile = np.zeros((rows, columns), np.float64)
        for i in range(rows):
            for j in range(columns):
                if 0 <= i + from_i < x.shape[0] and 0 <= j + from_j < x.shape[1]:
                    tile[i, j] = float(x[i + from_i, j + from_j])
        want = np.zeros(out.shape, np.float64)
        for i in range(rows):
            for j in range(columns):
                if 0 <= i + to_i < out.shape[0] and 0 <= j + to_j < out.shape[1]:
                    want[i + to_i, j + to_j] = tile[i, j]
        return Given(
            {"x_map": x, "out_map": out, "from_i": from_i, "from_j": from_j, "to_i": to_i, "to_j": to_j},
            {"out_map": Expected(want)},
        )

    return give


def _tma_atomics(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        rows, columns = box(row, "x_map")
        x = rng.integers(-1000, 1000, (3, rows, columns)).astype(np.int32)
        start = rng.integers(-500, 500, (rows, columns)).astype(np.int32)
        return Given(
            {
                "x_map": x.reshape(3 * rows, columns), "sum_map": start.copy(), "top_map": start.copy(),
                "bits_map": start.copy(),
            },
            {
                "sum_map": Expected(start + 3 * x.sum(0)),
                "top_map": Expected(np.maximum(start, x.max(0))),
                "bits_map": Expected(start | np.bitwise_or.reduce(x, 0)),
            },
            (3,),
        )  # fmt: skip

    return give


def _add_specialized(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        rows, columns = 60, 7 * 32 - 8
        a, b = (rng.standard_normal((rows, columns)).astype(np.float32) for _ in range(2))
        want = (a.astype(np.float64) + 2.0 * b.astype(np.float64)).astype(np.float32)
        return Given(
            {"a_map": a, "b_map": b, "out_map": blank(a.shape, np.float32), "columns": columns},
            {"out_map": Expected(want.astype(np.float64))},
            (2,),
        )

    return give


def _cluster_transpose(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        x = rng.standard_normal((32, 32)).astype(np.float32)
        return Given({"x": x, "out": blank(x.shape, np.float32)}, {"out": Expected(x.T.astype(np.float64))})

    return give


def _remote_store(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        x = rng.integers(-(2**30), 2**30, 256).astype(np.int32)
        return Given({"x": x, "out": blank(256, np.int32)}, {"out": Expected(x + 1)})

    return give


def _gather_rows(row: Mapping[str, Any]) -> Give:
    """One row beyond the last, and two that nobody may see."""

    def give(rng: np.random.Generator) -> Given:
        dtype, count, columns = DTYPES["bf16"], 32, 64
        x = rng.integers(-99, 99, (50, 96)).astype(dtype)
        rows = rng.integers(0, 50, count).astype(np.int32)
        rows[5], at = 57, 16
        places = rng.permutation(48)[:count].astype(np.int32)
        places[9] = 60
        out = np.zeros((48, columns), dtype)
        want = np.zeros(out.shape)
        for source, target in zip(rows, places, strict=True):
            if target < 48:
                want[target] = x[source, at : at + columns].astype(np.float64) if source < 50 else 0
        return Given(
            {"x_map": x, "out_map": out, "rows": rows, "places": places, "at_column": at}, {"out_map": Expected(want)}
        )

    return give


def _tensor_memory(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        rows, columns = constant(row, "BM"), constant(row, "BN")
        x = rng.standard_normal((rows, columns)).astype(np.float32)
        want = np.concatenate([x.reshape(-1), 2 * x[:, columns // 2 :].reshape(-1)])
        return Given({"x": x, "out": blank(want.size, np.float32)}, {"out": Expected(want.astype(np.float64))})

    return give


def _packed_arithmetic(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        n = 1024
        x, y, z = ((rng.standard_normal(n) * 2.0 ** rng.integers(-9, 9, n)).astype(np.float32) for _ in range(3))
        a, b, c = (value.astype(np.float64) for value in (x, y, z))
        # a product of two float32 is exact in float64; its sum with a third rounds twice, a little beyond half a unit
        want = np.stack([a + b, a * b, a * b + c, a - c])
        rounded = want.astype(np.float32).astype(np.float64)
        slack = np.zeros(want.shape)
        slack[2] = np.abs(want[2]) * 2.0**-23
        out = blank((4, n), np.float32)
        return Given({"x": x, "y": y, "z": z, "out": out, "n": n}, {"out": Expected(rounded, slack)}, (2,))

    return give


def _launch_control(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        blocks, size = 11, constant(row, "BLOCK")
        start = rng.integers(0, 9, blocks * size).astype(np.int32)
        want = start + np.repeat(np.arange(1, blocks + 1), size)
        return Given({"counts": start}, {"counts": Expected(want)}, (blocks,))

    return give


def _async_copies(row: Mapping[str, Any]) -> Give:
    def give(rng: np.random.Generator) -> Given:
        size, steps = constant(row, "BLOCK"), constant(row, "STEPS")
        # small integers, whose sums are exact
        x, y = (rng.integers(-9, 9, (2, steps, size)).astype(np.float32) for _ in range(2))
        factor = np.where(np.arange(size) < size // 2, y, 1)
        return Given(
            {"x": x, "y": y, "out": blank((2, size), np.float32)},
            {"out": Expected((x * factor).sum(1).astype(np.float64))},
            (2,),
        )

    return give


MAKERS: dict[str, Maker] = {
    "gluon_wgmma_bf16": _matmul((1, 2), 5),
    "gluon_wgmma_f16_kn": _matmul((2, 1), 4),
    "gluon_wgmma_e4m3": _matmul((1, 2), 4),
    "gluon_wgmma_bf16_registers": _matmul((1, 2), 5),
    "gluon_wgmma_e4m3_registers": _matmul((1, 1), 4),
    "gluon_wgmma_specialized": _matmul((2, 1), 5),
    "gluon_wgmma_multicast": _matmul((1, 2), 3),
    "gluon_tcgen05_bf16": _matmul((1, 2), 5),
    "gluon_tcgen05_m64": _matmul((2, 1), 4),
    "gluon_tcgen05_e4m3": _matmul((1, 2), 4),
    "gluon_tcgen05_tf32": _matmul((1, 1), 5),
    "gluon_tcgen05_tensor_memory_a": _matmul((1, 2), 4),
    "gluon_tcgen05_specialized": _matmul((1, 2), 5),
    "gluon_tcgen05_pair_bf16": _matmul((1, 2), 3),
    "gluon_tcgen05_pair_m128": _matmul((2, 1), 3),
    "gluon_tcgen05_mxfp8": _scaled((1, 2), 2),
    "gluon_tcgen05_mxfp4": _scaled((1, 1), 2),
    "gluon_tcgen05_nvfp4": _scaled((1, 1), 3),
    "gluon_tcgen05_mxfp8_mxfp4": _scaled((1, 1), 2),
    "gluon_tcgen05_mxfp4_mxfp8": _scaled((1, 1), 2),
    "gluon_tcgen05_mxfp8_pair": _scaled((1, 1), 2),
    "gluon_tcgen05_nvfp4_pair": _scaled((1, 1), 2),
    "gluon_tma_copy_bf16": _tma_copy,
    "gluon_tma_copy_f32_64": _tma_copy,
    "gluon_tma_copy_u8_32": _tma_copy,
    "gluon_tma_atomics": _tma_atomics,
    "gluon_add_specialized": _add_specialized,
    "gluon_cluster_softmax": lambda _: softmax(2, 1001),
    "gluon_cluster_transpose": _cluster_transpose,
    "gluon_remote_store": _remote_store,
    "gluon_gather_rows": _gather_rows,
    "gluon_tensor_memory_128_32x32b_16x64b": _tensor_memory,
    "gluon_tensor_memory_128_16x128b_16x256b": _tensor_memory,
    "gluon_tensor_memory_64_16x256b_16x128b": _tensor_memory,
    "gluon_tensor_memory_64_16x64b_32x32b": _tensor_memory,
    "gluon_packed_arithmetic": _packed_arithmetic,
    "gluon_launch_control": _launch_control,
    "gluon_async_copies": _async_copies,
}
