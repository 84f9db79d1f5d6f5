"""Quantised results on a GPU: bit for bit the reference's quantising of the f32 result of the same kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import scalec
from scalec.formats import ELEMENT_TYPES
from scalec.reference.packing import from_layout, unpack4
from scalec.reference.quantize import quantize, quantize_given, scale_shape
from scalec.runtime.kernel import Kernel
from tests.emulator.quantised import codes, parsed, same

pytestmark = pytest.mark.gpu

PROGRAMS = {"f32": "D[m,n]{} = A[m,k] @ B[n,k] scale(1x128,128x128)", "bf16": "D[m,n]{} = A[m,k] @ B[n,k]"}
RESULTS = [
    "mxfp8",
    "mxfp8_e5m2",
    "fp8_block",
    "e4m3 scale(1x64@col)",
    "e4m3 scale(1x32:ue8m0@packed)",
    "mxfp4",
    "e2m1 scale(1x16:ue4m3)",
    "nvfp4",
    "e4m3 scale(1x64:f32*tensor)",
]
WHOLES = (0.2, 0.3, -0.7, 3e-5)  # no powers of two: reciprocals and products are rounded


@pytest.mark.parametrize("dims", [{"m": 333, "n": 2112, "k": 1024}, {"m": 1000, "n": 1168, "k": 640}])
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_bits(torch, guarded: Callable, program: str, result: str, dims: dict[str, int]) -> None:
    depth = 128 if program == "f32" else 64
    bits_are_the_references(torch, guarded, program, result, dims, f"tile=128x128x{depth}")


@pytest.mark.parametrize(
    ("result", "settings"),
    [
        ("nvfp4", "tile=192x96x128"),
        ("mxfp4", "tile=128x160x128"),
        ("nvfp4", "tile=64x32x128, permute_n=0"),
        ("e4m3 scale(1x16)", "tile=128x112x128"),
        ("nvfp4", "tile=64x96x128, consumers=pingpong"),
        ("mxfp4", "tile=128x96x128, split=2, parts=cluster"),
    ],
)
def test_rows_that_no_swizzle_divides(torch, guarded: Callable, result: str, settings: str) -> None:
    kernel = bits_are_the_references(torch, guarded, "f32", result, {"m": 333, "n": 2112, "k": 1024}, settings)
    assert "swizzle_c=0" in kernel.spec.schedule
    assert "epilogue=bulk" in kernel.spec.schedule


@pytest.mark.parametrize(
    ("result", "settings"),
    [
        ("nvfp4", "tile=64x16x128"),
        ("mxfp4", "tile=128x24x128, cluster=2x1"),
        ("mxfp8", "tile=64x48x128"),
        ("fp8_block", "tile=128x16x128, cluster=1x1"),
        ("e4m3 scale(1x16)", "tile=256x16x128"),
        ("mxfp8", "tile=64x16x128, split=2, parts=cluster"),
        ("nvfp4", "tile=64x8x128"),
    ],
)
def test_turned(torch, guarded: Callable, result: str, settings: str) -> None:
    dims, fields = {"m": 45, "n": 2112, "k": 1024}, f"swap=1, epilogue=turned, {settings}"
    kernel = bits_are_the_references(torch, guarded, "f32", result, dims, fields)
    assert "epilogue=turned" in kernel.spec.schedule


def bits_are_the_references(
    torch, guarded: Callable, program: str, result: str, dims: dict[str, int], fields: str
) -> Kernel:
    element, g, second = parsed(result)
    fixed, text, settings = {d: dims[d] for d in ("n", "k")}, PROGRAMS[program], f" with {fields}"
    plain = scalec.compile(text.format(":f32") + settings, dims=fixed)
    kernel = scalec.compile(text.format(f":{result}") + settings, dims=fixed)
    torch.manual_seed(dims["m"])
    m, n, k = (dims[d] for d in "mnk")
    wide = [
        torch.randn(rows, k, device="cuda") * torch.exp2(torch.randint(-6, 6, (rows, 1), device="cuda"))
        for rows in (m, n)
    ]
    if program == "bf16":
        a, b = (x.bfloat16() for x in wide)
        a[3], a[5, 1], a[7, 0] = 0, float("nan"), float("inf")
        arguments = [a, b]
    else:
        a, b = (x.clamp(-448, 448).to(torch.float8_e4m3fn) for x in wide)
        blocks = -(-k // 128)
        scales = [torch.rand(rows, blocks, device="cuda") + 0.1 for rows in (m, -(-n // 128))]
        arguments = [a, b, *scales]
    sums, intact = guarded((m, n), torch.float32)
    plain(*arguments, out=sums)
    kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e2m1": torch.float4_e2m1fn_x2}
    bytes_ = n * ELEMENT_TYPES[element].bits // 8
    values = torch.full((m, bytes_), 0x7F, dtype=torch.uint8, device="cuda").view(kinds[element])
    count = -(-n // g.block[-1])
    if g.layout == "packed":
        memory = torch.full((-(-count // 4), -(-m // 4) * 4), -1, dtype=torch.int32, device="cuda").T[:m]
    elif g.layout == "col":
        memory = torch.full((count, -(-m // 4) * 4), -1.0, dtype=torch.float32, device="cuda").T[:m]
    else:
        kind = torch.float32 if g.type == "f32" else torch.uint8
        memory = torch.full((m, count), 0xFF, dtype=torch.uint8, device="cuda").to(kind)
        named = {"ue8m0": torch.float8_e8m0fnu, "ue4m3": torch.float8_e4m3fn}
        memory = memory.view(named[g.type]) if kind == torch.uint8 else memory
    results = []
    whole = WHOLES[(dims["m"] // 333 + len(program)) % len(WHOLES)]
    if second:
        arguments.append(torch.tensor([[whole]], device="cuda"))
    for _ in range(2):
        kernel(*arguments, out=(values, memory))
        torch.cuda.synchronize()
        stored = memory.view(torch.uint8) if g.type != "f32" and g.layout == "row" else memory
        results.append((values.view(torch.uint8).cpu().numpy().copy(), stored.cpu().numpy().copy()))
    assert all(np.array_equal(x, y, equal_nan=x.dtype == np.float32) for x, y in zip(*results, strict=True))
    assert intact()
    with np.errstate(all="ignore"):
        numbers = sums.cpu().numpy()
        wanted = quantize_given(numbers, element, g, whole) if second else quantize(numbers, element, [g])
    found = results[0][1]
    if g.layout == "packed":
        found = from_layout(found, "packed", scale_shape((1, g.block[-1]), (m, n)), g.type)
    same(codes(found), codes(wanted.scales[0]), f"scales of {result}")
    got = results[0][0]
    got = unpack4(got, n) if ELEMENT_TYPES[element].bits < 8 else got.view(wanted.values.dtype)
    same(codes(got), codes(wanted.values), result)
    return kernel
