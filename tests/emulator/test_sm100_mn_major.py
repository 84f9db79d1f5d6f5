"""Operands with M or N contiguous on sm_100a: the tensor core reads them so, and no thread transposes."""

from __future__ import annotations

import pytest

import scalec
from scalec.errors import ScheduleError
from tests.emulator.running import Ran, refusals, run_on
from tests.tiers import fields

STORED = {"A": "A[k,m]{0} @ B[n,k]{1}", "B": "A[m,k]{0} @ B[k,n]{1}", "both": "A[k,m]{0} @ B[k,n]{1}"}
DEEP = {"bf16": 176, "f16": 176, "e4m3": 336, "e5m2": 336, "tf32": 84}
"""A K of two or three K tiles, the last not whole."""

# m, n, k: tails of m and n within a panel and a tile, those of k within a K tile and within an instruction
TAILS = [(72, 136, 80), (136, 144, 208), (200, 264, 176), (16, 48, 336)]


def run(source: str, dims: tuple[int, int, int], seed: int, limit: float, fixed: tuple[str, ...] = ("n", "k")) -> Ran:
    m, n, k = dims
    return run_on(source, {"m": m, "n": n, "k": k}, fixed, seed, limit, target="sm_100a")


def product(stored: str, a: str, b: str = "") -> str:
    return STORED[stored].format(f":{a}", f":{b or a}")


@pytest.mark.once("stored", "element", "seed")
@pytest.mark.parametrize(
    ("element", "seed"), [*((t, s) for t in ("bf16", "e4m3", "tf32") for s in range(3)), ("f16", 3), ("e5m2", 3)]
)
@pytest.mark.parametrize("stored", STORED)
def test_types(stored: str, element: str, seed: int) -> None:
    m, n, k = TAILS[seed]
    if element in ("e4m3", "e5m2"):  # rows of M and N are multiples of 16 bytes
        m, n = -(-m // 16) * 16, -(-n // 16) * 16
    run(f"C[m,n]:f32 = {product(stored, element)}", (m, n, k), seed, 1e-9, ("n", "k") if seed else ())


@pytest.mark.once("stored", "element")
@pytest.mark.parametrize("element", ["f16", "e5m2"])
@pytest.mark.parametrize("stored", STORED)
def test_bf16_results(stored: str, element: str) -> None:
    run(f"C[m,n] = {product(stored, element)}", (144, 80, DEEP[element]), 4, 3e-6)


# panels of each width, one of them and several; K tiles from one instruction to the most that a copy brings
@pytest.mark.once("element", "k", touches=lambda schedule, **_: fields(schedule))
@pytest.mark.parametrize(
    "schedule",
    [
        "tile=128x64x{4}, swizzle_a=64, swizzle_b=32",
        "tile=128x256x{2}, swizzle_a=32, swizzle_b=64",
        "tile=128x256x{2}, swizzle_a=128, swizzle_b=128, stages=2",
        "tile=128x96x{8}",
        "tile=128x160x{1}, stages=2, order=m",
        "tile=128x32x{3}, swizzle_a=64, stages=3",
        "tile=128x64x256, swizzle_b=32, stages=2",
    ],
)
@pytest.mark.parametrize(("element", "k"), [("bf16", 16), ("e4m3", 32)])
def test_panels(element: str, k: int, schedule: str) -> None:
    text = schedule.format(*(k * i for i in range(9)))
    run(f"C[m,n]:f32 = {product('both', element)} with {text}", (112, 176, DEEP[element]), 5, 1e-9)


# its panels are 32 rows of 128 bytes, whatever the tile; beside K-major tiles of any swizzle
@pytest.mark.once("stored", touches=lambda schedule, **_: fields(schedule))
@pytest.mark.parametrize(
    ("stored", "schedule"),
    [
        ("both", "tile=128x32x32"),
        ("both", "tile=128x256x8, stages=2"),
        ("both", "tile=128x160x64, stages=2, order=m"),
        ("both", "tile=128x32x96, stages=2"),
        ("A", "tile=128x48x16, swizzle_b=64"),
        ("B", "tile=128x224x8, swizzle_a=32"),
        ("both", "tile=128x64x32, cluster=2x1, stages=3, scheduler=dynamic"),
        ("both", "tile=128x96x32, cluster=1x2, split=2"),
    ],
)
def test_panels_of_32_byte_atoms(stored: str, schedule: str) -> None:
    ran = run(f"C[m,n]:f32 = {product(stored, 'tf32')} with {schedule}", (260, 176, 300), 5, 1e-9)
    maps = {a.tensor: (a.swizzle, a.atom) for a in ran.kernel.spec.arguments if a.kind == "tensor_map"}
    assert all(maps[x] == (128, 32) for x in ("AB" if stored == "both" else stored))
    assert all(maps[x][1] == 16 for x in "AB" if stored not in (x, "both"))


@pytest.mark.once("stored", "element")
@pytest.mark.parametrize("element", ["bf16", "e4m3", "tf32"])
@pytest.mark.parametrize("stored", ["A", "B"])
def test_few_rows_are_columns_of_the_transposed_result(stored: str, element: str) -> None:
    run(f"C[m,n]:f32 = {product(stored, element)} with swap=1", (16, 144, DEEP[element]), 6, 1e-9)


SCALES = {"A": "{0}, 1x32:ue8m0", "B": "1x32:ue8m0, {0}", "both": "{0}, {0}"}


@pytest.mark.once("stored", "scale")
@pytest.mark.parametrize("scale", ["32x1:ue8m0", "96x1:ue8m0@col", "64x8:ue8m0", "kx1:ue8m0"])
@pytest.mark.parametrize("stored", STORED)
def test_block_scales(stored: str, scale: str) -> None:
    text = f"{product(stored, 'e4m3', 'e5m2')} scale({SCALES[stored].format(scale)})"
    run(f"C[m,n]:f32 = {text}", (144, 80, 336), 7, 1e-9, () if "@" in scale else ("n", "k"))


def test_scales_of_rows() -> None:
    run(f"C[m,n]:f32 = {product('both', 'e4m3')} scale(kx1, kx8)", (144, 160, 336), 7, 1e-9)


# 4 and 6 bits only K-major, padded to a byte, beside 8 bits that are not
@pytest.mark.once("stored", "scales")
@pytest.mark.parametrize("scales", ["", "scale({0}:ue8m0, {1}:ue8m0)"])
@pytest.mark.parametrize(("stored", "a", "b"), [("A", "e4m3", "e2m1"), ("B", "e3m2", "e5m2"), ("B", "e2m1", "e4m3")])
def test_beside_padded_elements(stored: str, a: str, b: str, scales: str) -> None:
    scales = scales.format(*(("32x1", "1x32") if stored == "A" else ("1x32", "32x1")))
    run(f"C[m,n]:f32 = {product(stored, a, b)} {scales}", (144, 80, 256), 8, 1e-9)


def test_fused() -> None:
    run("C[m,n] += relu(A[k,m] @ B[k,n] + bias[n]) * 0.5", (72, 136, 336), 8, 5e-6)
    run("C[m,n] = alpha * gelu(A[m,k] @ B[k,n]) + R[m,n]", (72, 136, 336), 9, 5e-6)


@pytest.mark.parametrize(("stored", "bits"), [("A", 1 << 15), ("B", 1 << 16), ("both", 3 << 15)])
def test_the_instruction_transposes(stored: str, bits: int) -> None:
    source = f"C[m,n]:f32 = {product(stored, 'bf16')} with tile=128x64x64"
    ptx = scalec.compile(source, target="sm_100a", dims={"n": 256, "k": 256}).ptx
    f32, bf16 = 1 << 4, 1 << 7 | 1 << 10
    assert f", {f32 | bf16 | bits | 64 // 8 << 17 | 128 // 16 << 24};" in ptx
    assert not any(x in ptx for x in ("ldmatrix", "ld.shared.v", "st.shared"))


test_refused = refusals(
    [
        # of the elements that a byte pads, and of packed ones, none is transposed
        ("A[k,m]:e2m3 @ B[n,k]:e4m3", r"A\[k, m\] .* reads e2m3 contiguous along K only"),
        ("A[m,k]:e4m3 @ B[k,n]:e3m2", r"B\[k, n\] .* reads e3m2 contiguous along K only"),
    ],
    target="sm_100a",
    dims={"n": 256, "k": 256},
    within="C[m,n]:f32 = {}",
)


NO_PANELS = ": no swizzle divides it\n  fix: tile N a multiple of "


@pytest.mark.parametrize(
    ("element", "schedule", "message"),
    [
        ("e4m3", "tile=128x48x64", f"a tile of 48 of n, 48 bytes of B{NO_PANELS}32"),
        ("tf32", "tile=128x48x32", f"a tile of 48 of n, 192 bytes of B{NO_PANELS}32"),
        ("tf32", "tile=128x96x32, cta_group=2, cluster=2x1", f"a tile of 48 of n, 192 bytes of B{NO_PANELS}64"),
        (
            "tf32",
            "tile=128x64x32, swizzle_b=64",
            "a row of the tile of B, contiguous along n, is 256 bytes and swizzle_b = 64\n"
            "  expected: a divisor of the row: a box of the bulk copy is as wide as the swizzle\n"
            "  fix: swizzle_b=128",
        ),
    ],
)
def test_tiles_that_are_no_panels(element: str, schedule: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        scalec.compile(f"C[m,n] = {product('B', element)} with {schedule}", target="sm_100a")
    assert str(refusal.value) == message
