"""benchmarks/quantise_triton.py: compiled by Triton (3.6 and 3.9) without a GPU, run in the emulator. Needs Triton and
torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from scalec.emulator.launch import launch, load
from scalec.emulator.machine.memory import GlobalMemory
from scalec.emulator.machine.options import Options
from scalec.formats import FORMATS
from scalec.reference.packing import storage
from scalec.reference.quantize import quantize
from tests.benchmarks.test_block_fp8_triton import put

triton = pytest.importorskip("triton")
pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("triton_cache")]  # Triton and its ptxas take their time
module = import_module("benchmarks.quantise_triton")

BF16 = ml_dtypes.bfloat16
WHOLE = 0.25  # a power of two: what is divided by it is exact
COLUMNS = (4160, 70)  # a step and a part of one, in rows of whole 16 bytes; a ragged block, in others


def values(format_: str, columns: int) -> np.ndarray:
    """Rows of bf16: magnitudes far apart within a block; what is halfway; what saturates; large; small; zeros."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((6, columns)) * np.exp(rng.standard_normal((6, columns)))
    x[0] *= 2.0 ** rng.integers(-20, 20, columns)
    # halves of steps of e2m1 and e4m3, times numbers of four bits: scales of nvfp4, and powers of two
    halves = rng.choice([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6, 7, 9.5, 0.0, -2.5, -5], columns)
    block = FORMATS[format_].result[0].block[-1]
    x[1] = halves * (rng.integers(8, 16, -(-columns // block)) / 8).repeat(block)[:columns]
    x[2] = rng.uniform(-1.99, 1.99, columns)  # up to 8 or 512 times a scale that is a power of two
    x[3] *= 1e30 if format_ != "fp8_block" else 1e9
    x[4] *= 1e-39 if format_.startswith("mx") else 1e-3  # subnormal numbers, and subnormal scales of nvfp4
    x[4, columns // 2 :] *= 1e-2  # which are 0 here
    x[5, : columns // 2] = 0.0
    x[5, ::3] *= -0.0
    return x.astype(BF16)


def quantised(kernel: Any, x: np.ndarray, out: tuple[np.ndarray, ...], block: int, types: dict[str, str]) -> Any:
    """What a kernel writes, as arrays like those of `out`; one program a row, so that it takes more than a step."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    four = kernel is module._quantise4
    bits = 4 if four else 8
    count = x.shape[1] // 2 if four else x.shape[1]
    names = kernel.arg_names
    constants = {"MX": out[1].dtype == ml_dtypes.float8_e8m0fnu, "BLOCK": block, "WIDTH": module.WIDTH[bits]}
    if four and "whole" not in types:
        constants["whole"] = None
    signature = {name: types.get(name, "constexpr") for name in names}
    aligned = ["x", "values", "scales", *(["pairs" if four else "columns"] if count % 16 == 0 else [])]
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    warps = {"num_warps": 8} | ({"maxnreg": 32} if four else {})
    source = ASTSource(kernel, signature, constants, attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=warps)

    memory = GlobalMemory()
    loaded = load(compiled.asm["ptx"], memory)
    segments = [put(memory, array, name, blank=True) for array, name in zip(out, ("values", "scales"), strict=True)]
    arguments = [put(memory, x, "x").base, *(s.base for s in segments)]
    if "whole" in types:
        arguments.append(put(memory, np.array([WHOLE], np.float32), "whole").base)
    arguments += [count, 1, *(memory.allocate(128, name, 128).base for name in ("global scratch", "profile scratch"))]
    shared, threads = compiled.metadata.shared, (32 * warps["num_warps"], 1, 1)
    grid = (len(x), 1, 1)
    launch(loaded, kernel.__name__, grid, threads, arguments, shared_bytes=shared, options=Options(seed=2))
    assert all(s.written.all() for s in segments)
    return [s.data.view(array.dtype).reshape(array.shape) for s, array in zip(segments, out, strict=True)]


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("format_", ["mxfp4", "nvfp4", "mxfp8"])
def test_bytes_are_the_references(format_, columns):
    x, format = values(format_, columns), FORMATS[format_]
    exact = x.astype(float) / (WHOLE if format_ == "nvfp4" else 1)
    expected = quantize(exact, format.element, format.result[:1])
    wanted = (storage(expected.values), expected.scales[0])
    four = format.element == "e2m1"
    types = {"x": "*i32" if four else "*bf16", "values": "*u8" if four else "*fp8e4nv", "scales": "*u8"}
    types |= dict.fromkeys(("pairs", "columns", "parts"), "i32") | ({"whole": "*fp32"} if format_ == "nvfp4" else {})
    kernel = module._quantise4 if four else module._quantise
    found = quantised(kernel, x, wanted, format.result[0].block[-1], types)
    np.testing.assert_array_equal(found[1].view(np.uint8), wanted[1].view(np.uint8))
    np.testing.assert_array_equal(found[0].view(np.uint8), wanted[0].view(np.uint8))


@pytest.mark.parametrize("columns", COLUMNS)
def test_f32_scales_are_close(columns):
    """Quotients are not rounded to nearest there, so what lies halfway may go either way."""
    x, format = values("fp8_block", columns), FORMATS["fp8_block"]
    expected = quantize(x.astype(float), "e4m3", format.result)
    types = {"x": "*bf16", "values": "*fp8e4nv", "scales": "*fp32", "columns": "i32", "parts": "i32"}
    found = quantised(module._quantise, x, (expected.values, expected.scales[0]), 128, types)
    np.testing.assert_allclose(found[1], expected.scales[0], rtol=2**-21)
    apart = found[0].view(np.uint8).astype(int) - expected.values.view(np.uint8)
    assert np.abs(apart).max() <= 1
    assert (apart == 0).mean() > 0.99
