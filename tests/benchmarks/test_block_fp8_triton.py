"""benchmarks/block_fp8_triton.py: compiled by Triton without a GPU, run in the emulator. Needs Triton and torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from scalec.emulator.launch import launch, load
from scalec.emulator.layouts import tensor_map
from scalec.emulator.machine.memory import GlobalMemory, Segment
from scalec.emulator.machine.options import Options

triton = pytest.importorskip("triton")
pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("triton_cache")]  # Triton and its ptxas take their time
block_fp8 = import_module("benchmarks.block_fp8_triton")

EVERY = sorted({c for _, some in block_fp8.CONFIGS for c in some}, key=str)
SWIZZLES = (0, 32, 64, 128)  # bytes, by Triton's number


def compiled(config: Any) -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    m, n = config.m, config.n
    constants = {"a_scale_m": 1, "BLOCK_M": m, "BLOCK_N": n, "GROUP_M": 8, "SWAP": config.swap}
    types = {
        "a": f"tensordesc<fp8e4nv[{m},128]>", "b": f"tensordesc<fp8e4nv[{n},128]>", "c": f"tensordesc<bf16[{m},{n}]>",
        "a_scale": "*fp32", "b_scale": "*fp32", **dict.fromkeys(("M", "N", "K", "a_scale_k", "b_scale_n"), "i32"),
    }  # fmt: skip
    names = block_fp8.block_fp8.arg_names
    signature = {name: types.get(name, "constexpr") for name in names}
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in ("a_scale", "b_scale", "N", "K")}
    source = ASTSource(block_fp8.block_fp8, signature, constants, aligned)
    options = {"num_warps": config.warps, "num_stages": config.stages}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def put(memory: GlobalMemory, array: np.ndarray, name: str, *, blank: bool = False) -> Segment:
    segment = memory.allocate(array.nbytes, name)
    segment.data[:] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    segment.written[:] = not blank
    return segment


def descriptor(segment: Segment, shape: tuple[int, int], element: str, itemsize: int, meta: Any) -> list[Any]:
    """The parameters of a host descriptor: tensor map, extents, strides in elements."""
    box, swizzle = tuple(reversed(meta["block_size"])), SWIZZLES[meta["swizzle"]]
    strides = (itemsize * shape[1],)
    made = tensor_map.TensorMap(element, segment.base, (shape[1], shape[0]), strides, box, swizzle=swizzle)
    return [tensor_map.encode(made), *shape, shape[1], 1]


@pytest.mark.parametrize("config", EVERY, ids=str)
def test_in_the_emulator(config):
    m, n, k = config.m + 3, config.n + 64, 512 - 16  # tiles that the result ends in, and a K block
    rng, e4m3 = np.random.default_rng(1), ml_dtypes.float8_e4m3fn
    a, b = ((50 * rng.standard_normal((rows, k))).astype(e4m3) for rows in (m, n))
    sa = np.exp(rng.standard_normal((m, 4))).astype(np.float32)
    sb = np.exp(rng.standard_normal((-(-n // 128), 4))).astype(np.float32)
    wide_b = np.repeat(np.repeat(sb, 128, 0)[:n], 128, 1)[:, :k]
    expected = (a.astype(float) * np.repeat(sa, 128, 1)[:, :k]) @ (b.astype(float) * wide_b).T

    kernel, memory = compiled(config), GlobalMemory()
    loaded, meta = load(kernel.asm["ptx"], memory), kernel.metadata.tensordesc_meta
    c = put(memory, np.zeros((m, n), ml_dtypes.bfloat16), "C", blank=True)
    values = [
        *descriptor(put(memory, a, "A"), (m, k), "u8", 1, meta[0]),
        *descriptor(put(memory, b, "B"), (n, k), "u8", 1, meta[1]),
        *descriptor(c, (m, n), "bf16", 2, meta[2]),
        put(memory, sa.T, "A_scale").base, put(memory, sb, "B_scale").base, m, n, k, m, 4,
        *(memory.allocate(128, name, 128).base for name in ("global scratch", "profile scratch")),
    ]  # fmt: skip
    grid = (-(-m // config.m) * -(-n // config.n), 1, 1)
    threads, shared = (32 * config.warps, 1, 1), kernel.metadata.shared
    launch(loaded, "block_fp8", grid, threads, values, shared_bytes=shared, options=Options(seed=2))

    found = c.data.view(ml_dtypes.bfloat16).reshape(m, n).astype(float)
    assert ((found - expected) ** 2).sum() / (found**2 + expected**2).sum() < 3e-6
    assert np.abs(found - expected).max() < 2**-7 * np.abs(expected).max()


def test_rows_of_configurations():
    for m in (1, 16, 17, 64, 65, 16384):
        assert {c.m for c in block_fp8.configs(m)} <= {16, 32, 64, 128}
    assert all(c.m >= 16 and 128 % c.n == 0 for c in EVERY)
    assert block_fp8.configs(16) != block_fp8.configs(17)
