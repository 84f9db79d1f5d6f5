"""Launches of data/triton/matmul_kernels.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.emulator.operands import DTYPES, operand, product, scaled
from tests.emulator.programs import Expected, Given, blank

Maker = Callable[[Mapping[str, Any]], Callable[[np.random.Generator], Given]]


def constant(row: Mapping[str, Any], name: str) -> int:
    return int(row["constants"][name])


def kind_of(row: Mapping[str, Any], argument: str) -> str:
    """The element type of a pointer or a tensor map."""
    kind = row["arguments"][argument]
    return kind[1:].partition(":")[0] if kind[0] == "*" else kind.partition("<")[2].partition("[")[0]


def _plain(tiles: tuple[int, int], steps: int, ragged: bool = False) -> Maker:
    """matmul on `tiles` tiles and `steps` steps of K, less a few rows, columns and elements of K if ragged."""

    def make(row: Mapping[str, Any]) -> Callable[[np.random.Generator], Given]:
        def give(rng: np.random.Generator) -> Given:
            bm, bn, bk = (constant(row, name) for name in ("BM", "BN", "BK"))
            m, n = tiles[0] * bm - 3, tiles[1] * bn - 5
            k = steps * bk - (7 if ragged else 16)
            pitch = k + 3 if ragged else k + 16
            n_contiguous = row["constants"].get("bn") == "1"
            a_kind = kind_of(row, "a")
            a, b = operand(rng, m, k, a_kind), operand(rng, n, k, a_kind)
            out = DTYPES[kind_of(row, "c")]
            c_pitch = -(-n // 16) * 16
            a_memory, c_memory = blank((m, pitch), a.dtype), np.zeros((m, c_pitch), out)
            a_memory[:, :k] = a
            if n_contiguous:
                b_memory = blank((k, c_pitch), a.dtype)
                b_memory[:, :n] = b.T
            else:
                b_memory = blank((n, pitch), a.dtype)
                b_memory[:, :k] = b
            accumulator = {"fp16": np.float16, "fp64": np.float64}.get(row["constants"]["ACCUMULATOR"], np.float32)
            values, tolerance = product(a, b, out, accumulator)
            want, slack = np.zeros(c_memory.shape), np.zeros(c_memory.shape)
            want[:, :n], slack[:, :n] = values, tolerance
            pitches = {"bn": pitch, "bk": c_pitch, "am": pitch, "cm": c_pitch}
            return Given(
                {"a": a_memory, "b": b_memory, "c": c_memory, "m": m, "n": n, "k": k, **pitches},
                {"c": Expected(want, slack)},
                tiles,
            )

        return give

    return make


def _scaled(tiles: tuple[int, int] = (2, 2), steps: int = 2) -> Maker:
    def make(row: Mapping[str, Any]) -> Callable[[np.random.Generator], Given]:
        def give(rng: np.random.Generator) -> Given:
            bm, bn, bk, group = (constant(row, name) for name in ("BM", "BN", "BK", "GROUP"))
            m, n, k = tiles[0] * bm, tiles[1] * bn, steps * bk
            a = scaled(rng, m, k, row["constants"]["A_FORMAT"], group)
            b = scaled(rng, n, k, row["constants"]["B_FORMAT"], group)
            values, tolerance = product(a.values, b.values, np.float32)
            return Given(
                {
                    "a": a.data, "b": b.data, "a_scale": a.scales, "b_scale": b.scales, "c": blank((m, n), np.float32),
                    "m": m, "n": n, "k": k, "am": a.data.shape[1], "bn": b.data.shape[1], "cm": n, "sm": k // group,
                },
                {"c": Expected(values, tolerance)},
                tiles,
            )  # fmt: skip

        return give

    return make


def _descriptors(row: Mapping[str, Any]) -> Callable[[np.random.Generator], Given]:
    """A last tile that lies partly outside, in every direction."""

    def give(rng: np.random.Generator) -> Given:
        bm, bn, bk, count = (constant(row, name) for name in ("BM", "BN", "BK", "PROGRAMS"))
        kind = kind_of(row, "a")
        m, n, k = 2 * bm - 8, 2 * bn - 16, 3 * bk - 16
        a, b = operand(rng, m, k, kind), operand(rng, n, k, kind)
        if kind == "fp8e4nv":  # what e4m3 holds of the sums: small ones, some below its normal numbers
            a, b = ((x.astype(np.float32) / 16).astype(x.dtype) for x in (a, b))
        values, tolerance = product(a, b, a.dtype)
        if kind == "fp8e4nv":
            values = np.clip(values, -448, 448)
            tolerance += 2.0**-10
        c = blank((m, n), a.dtype)
        return Given({"a": a, "b": b, "c": c, "m": m, "n": n, "k": k}, {"c": Expected(values, tolerance)}, (count,))

    return give


def _host_descriptors(tiles: tuple[int, int], steps: int) -> Maker:
    def make(row: Mapping[str, Any]) -> Callable[[np.random.Generator], Given]:
        def give(rng: np.random.Generator) -> Given:
            bm, bn, bk = (constant(row, name) for name in ("BM", "BN", "BK"))
            kind = kind_of(row, "a_map")
            m, n, k = tiles[0] * bm - 1, tiles[1] * bn - 16, steps * bk - 16
            a, b = operand(rng, m, k, kind), operand(rng, n, k, kind)
            values, tolerance = product(a, b, np.float32)
            transposed = row["constants"]["B_TRANSPOSED"] == "True"
            b_memory = b if transposed else np.ascontiguousarray(b.T)
            c = blank((m, n), np.float32)
            return Given(
                {"a_map": a, "b_map": b_memory, "c_map": c, "k": k}, {"c_map": Expected(values, tolerance)}, tiles
            )

        return give

    return make


def _specialized(row: Mapping[str, Any]) -> Callable[[np.random.Generator], Given]:
    def give(rng: np.random.Generator) -> Given:
        bm, bn, bk = (constant(row, name) for name in ("BM", "BN", "BK"))
        m, n, k = bm, 2 * bn, 5 * bk
        a, b = operand(rng, m, k, "fp16"), operand(rng, n, k, "fp16")
        values, tolerance = product(a, b, np.float32)
        c = blank((m, n), np.float32)
        return Given({"a_map": a, "b_map": b, "c": c, "n": n, "k": k}, {"c": Expected(values, tolerance)}, (1, 2))

    return give


def _attention(row: Mapping[str, Any]) -> Callable[[np.random.Generator], Given]:
    def give(rng: np.random.Generator) -> Given:
        rows, step, d = (constant(row, name) for name in ("BQ", "BK", "D"))
        dtype = DTYPES["bf16"]
        q = rng.standard_normal((2 * rows, d)).astype(dtype)
        k, v = (rng.standard_normal((3 * step, d)).astype(dtype) for _ in range(2))
        scale = np.float32(0.25)
        scores = q.astype(np.float64) @ k.astype(np.float64).T * float(scale)
        weights = np.exp2(scores - scores.max(1, keepdims=True))
        values = weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)
        # the weights are rounded to bf16 before the second product
        share = weights / weights.sum(1, keepdims=True)
        tolerance = share @ np.abs(v.astype(np.float64)) * 2.0**-8 + 1e-5
        out = blank(values.shape, np.float32)
        return Given(
            {"q": q, "k": k, "v": v, "out": out, "keys": len(k), "scale": scale},
            {"out": Expected(values, tolerance)},
            (2,),
        )

    return give


MAKERS: dict[str, Maker] = {
    "matmul_bf16": _plain((2, 2), 4),
    "matmul_f16": _plain((1, 2), 3),
    "matmul_f16_f16": _plain((1, 2), 3),
    "matmul_e4m3": _plain((2, 1), 4),
    "matmul_e5m2": _plain((1, 1), 2),
    "matmul_tf32": _plain((1, 2), 3),
    "matmul_bf16_ragged": _plain((2, 2), 3, ragged=True),
    "matmul_bf16_nmajor": _plain((1, 2), 4),
    "matmul_e4m3_nmajor": _plain((1, 1), 3),
    "matmul_bf16_1warp": _plain((2, 2), 3),
    "matmul_e4m3_1warp": _plain((1, 2), 3),
    "matmul_tf32_2warps": _plain((1, 2), 3),
    "matmul_f64": _plain((1, 2), 3),
    "matmul_bf16_8warps": _plain((1, 1), 3),
    "matmul_mxfp8": _scaled(),
    "matmul_mxfp8_e5m2": _scaled((1, 2)),
    "matmul_mxfp4": _scaled(),
    "matmul_mxfp8_mxfp4": _scaled((1, 2)),
    "matmul_mxfp4_mxfp8": _scaled((1, 2)),
    "matmul_nvfp4": _scaled(),
    "matmul_mxfp8_1warp": _scaled((2, 2), 3),
    "matmul_nvfp4_1warp": _scaled((2, 2), 3),
    "matmul_descriptors_bf16": _descriptors,
    "matmul_descriptors_e4m3": _descriptors,
    "matmul_descriptors_specialized": _descriptors,
    "matmul_host_bf16": _host_descriptors((2, 1), 3),
    "matmul_host_e4m3": _host_descriptors((1, 2), 3),
    "matmul_host_clusters": _host_descriptors((1, 2), 2),
    "matmul_warp_specialized": _specialized,
    "attention_bf16": _attention,
}
