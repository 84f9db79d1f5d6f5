"""Operands in words of adjacent K, as GPTQ stores weights: `B[k/8,n,k%8]`, on all targets."""

from __future__ import annotations

import pytest

import scalec
from scalec.checking.launch import made_up
from scalec.errors import ScheduleError, SourceError
from scalec.formats import WORDS
from tests.emulator.running import TARGETS, refusals, run_on
from tests.emulator.test_several_results import run

GPTQ = "C[m,n]:f32 = A[m,k]:f16 @ (B[k/8,n,k%8]:u4 - (Z[k/128,n]:u4 + 1)) scale(none, 1x128:f16@col)"

PROGRAMS = {
    "plain": "C[m,n]:f32 = A[m,k]:bf16 @ B[k/8,n,k%8]:u4",
    "signed": "C[m,n]:f32 = A[m,k]:f16 @ B[k/8,n,k%8]:i4 scale(none, 1x64:bf16)",
    "floats": "C[m,n]:f32 = A[m,k]:bf16 @ B[k/8,n,k%8]:e2m1",
    "GPTQ": GPTQ,
    "gptq_v2": GPTQ.replace(" + 1", " - 0"),
    "one zero point": "C[m,n]:f32 = A[m,k]:bf16 @ (B[k/8,n,k%8]:u4 - 8) scale(none, 1x128:f16@col)",
    "e4m3": "C[m,n]:f32 += A[m,k]:e4m3 @ (B[k/8,n,k%8]:u4 - (Z[k/128,n]:u4 + 1)) scale(1x128, 1x128:f16)",
    "e4m3, one": "C[m,n]:f32 = A[m,k]:e4m3 @ (B[k/8,n,k%8]:u4 - 8) scale(1x128, 1x128:f16)",
    "tf32": "C[m,n]:f32 = A[m,k]:tf32 @ (B[k/8,n,k%8]:u4 - Z[k/32,n]:i8) scale(none, 1x32:f16)",
    "nvfp4": "C[m,n]:f32 = A[m,k]:bf16 @ B[k/8,n,k%8]:nvfp4",
    "mxfp4": "C[m,n]:f32 = A[m,k]:bf16 @ B[k/8,n,k%8]:mxfp4",
    "folded": "C[m,n]:f32 = A[m,k]:f16 @ (B[k/8,n,k%8]:u4 - Z[n,k/16]) scale(none, 1x32:ue4m3)",
    "of fine blocks": "C[m,n]:f32 = A[m,k]:bf16 @ (B[k/8,n,k%8]:u4 - Z[n,k/48]:i4) scale(none, 1x64)",
    "left": "C[m,n]:f32 = (A[k/8,m,k%8]:u4 - (Z[k/64,m] - 8)) @ B[n,k]:bf16 scale(1x64:bf16, none)",
    "both": "C[m,n]:f32 = A[m,k]:e2m1 @ (B[k/8,n,k%8]:u4 - Z[k/64,n]) scale(1x64, none)",
}

SIZES: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"m": 80, "n": 144, "k": 416}, ("n", "k")),
    ({"m": 1, "n": 272, "k": 156}, ("m", "n", "k")),
    ({"m": 130, "n": 20, "k": 544}, ()),
    ({"m": 1, "n": 1, "k": 32}, ()),
    ({"m": 3, "n": 9, "k": 0}, ()),
]
"""Sizes, and which of them the kernel knows: tails of tiles, and of words."""


@pytest.mark.once("target", "name", "size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(target: str, name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    run_on(PROGRAMS[name], dims, fixed, 3, 1e-5, target=target)


MORE: list[tuple[str, dict[str, int], str]] = [
    ("C[b,m,n]:f32 = A[b,m,k]:bf16 @ (B[b,k/8,n,k%8]:u4 - (Z[b,k/32,n] + 1)) scale(none, 1x64:f16@col)", {"b": 3}, ""),
    ("C[b,m,n]:f32 = A[b,m,k]:bf16 @ B[k/8,n,k%8]:i4", {"b": 3}, ""),
    (
        "C[m,n]:f32 = A[m,k]:bf16 @ (B[k/8,n,k%8]:u4 - Z[k/32,n]) scale(none, 1x64@col) for n in lo[0]:hi[0] by 4",
        {},
        "",
    ),
    ("C[m,h,n]:f32 = A[m,k]:bf16 @ B[h,k/8,n,k%8]:i4", {"h": 2}, ""),
    ("C[m,n]:f32 = A[m,b,k]:bf16 @ (B[b,k/8,n,k%8]:u4 - Z[b,k/32,n])", {"b": 2}, ""),
    (
        "C[m,n]:f32 = A[m,k]:e4m3 @ (B[e[m/16],k/8,n,k%8]:u4 - (Z[e[m/16],k/32,n] + 1)) scale(1x128, 1x128:f16)",
        {"B_0": 3},
        "",
    ),
    (
        "C[m,n]:f32 = A[m,k]:bf16 @ (B[g,k/8,n,k%8]:u4 - (Z[g,k/32,n] + 1)) scale(none, 1x64) for m in off[g]:off[g+1]",
        {"g": 3},
        "",
    ),
    ("C[m,n]:f32 = A[idx[m],k]:bf16 @ (B[k/8,n,k%8]:u4 - (Z[k/32,n] + 1)) scale(none, 1x128)", {"A_0": 50}, ""),
    (
        "H[m,n] = silu(X[m,k]:bf16 @ (V[k/8,n,k%8]:u4 - 8) scale(none, 1x64)) * (X[m,k]:bf16 @ (W[k/8,n,k%8]:u4 - 8) "
        "scale(none, 1x64))",
        {},
        "",
    ),
    (
        "H[m,n]:f32 = silu(X[m,k]:f16 @ (V[k/8,n,k%8]:u4 - (Z[k/32,n] + 1)) scale(none, 1x64)) * "
        "(X[m,k]:f16 @ (W[k/8,n,k%8]:u4 - (Y[k/32,n] + 1)) scale(none, 1x64))",
        {},
        "",
    ),
    (
        "G[m,n] = X[m,k] @ (W[k/8,n,k%8]:u4 - 8); U[m,n] = X[m,k] @ (W[k/8,n+size(n),k%8]:u4 - 8); "
        "H[m,n]:f32 = silu(G) * U",
        {},
        "",
    ),
    ("C[m,n]:f32 = A[m,k] @ (B[k/8,n,k%8]:u4 - 8) scale(none, 1x64) + D[m,r] @ E[n,r]", {"r": 24}, ""),
    ("C[m,n]:f32 = A[m,k]:bf16 @ B[k/8,n,k%8]:i4 + D[m,r]:bf16 @ E[r/8,n,r%8]:i4", {"r": 20}, ""),
    ("C[n,m]:f32 = (B[k/8,n,k%8]:u4 - (Z[k/32,n] + 1)) @ A[m,k]:bf16", {}, ""),
    ("C[m,n]:e4m3 scale(1x128) = A[m,k]:bf16 @ B[k/8,n,k%8]:i4", {}, ""),
    ("C[m,n] = relu(A[m,k]:bf16 @ B[k/8,n,k%8]:i4 + b[n])", {}, ""),
    ("C[m,n]:f32 = A[m,k] @ (B[k/8,n,k%8]:u4 - (Z[k/32,n] + 1)) with split=2", {}, "k"),
    ("C[m,n]:f32 = A[m,k] @ (B[k/8,n,k%8]:u4 - (Z[k/32,n] + 1)) with swap=1", {}, ""),
    ("C[m,n]:f32 = A[m,k] @ (B[k/8,n,k%8]:u4 - (Z[k/32,n] + 1)) scale(none, 1x64) with converters=1", {}, ""),
    ("C[m,n]:f32 = A[m,k] @ B[k/8,n,k%8]:nvfp4 with tile=128x96x64", {}, ""),  # strips of no whole warpgroup
    ("C[m,n]:f32 = A[m,k] @ (B[k/8,n,k%8]:u4 - Z[k/32,n]) with tile=128x64x32", {}, ""),
    ("C[m,n]:f32 = A[m,k]:e4m3 @ (B[k/8,n,k%8]:u4 - Z[k/32,n]) with tile=128x48x64", {}, ""),
]


@pytest.mark.once("target", "number")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(MORE)))
def test_other_programs(number: int, target: str) -> None:
    source, more, fixed = MORE[number]
    run(source, target, {"m": 40, "n": 144, "k": 156, **more}, fixed)


@pytest.mark.parametrize("cluster", ["2x1", "1x2"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_clusters_share_words(target: str, cluster: str) -> None:
    run(f"{GPTQ} with cluster={cluster}", target, {"m": 300, "n": 272, "k": 156})


test_refused = refusals(
    [
        ("C[m,n] = A[m,k] @ B[k/8,idx[n],k%8]:i4", "in words of 8 k: idx[n] names what is read of it"),
        ("C[m,n] = A[m,k] @ B[t[n/8],k/8,n%8,k%8]:i4", "in words of 8 k: t[n/8] names what is read of it"),
        ("C[g,m,n] = A[m,k] @ B[k/8,n,k%8]:i4 for k in off[g]:off[g+1]", "a range of k may begin within one"),
        ("C[m,n] = A[m,k] @ relu(B[k/8,n,k%8]:i4):bf16", "B"),
        ("C[m,n] = A[m,k]:e2m1 @ B[k/8,n,k%8]:e2m1", "multiplies e2m1 as it is stored", "sm_100a"),
        ("C[m,n,b] = A[m,k,b] @ B[n,k/8,b,k%8]:i4", "b"),
        ("C[m,n] = A[k/8,m,k%8]:i4 @ (B[k/8,n,k%8]:u4 - 8)", "whose last may be partial"),
        ("C[m,n] = A[k/8,m,k%8]:i4 @ B[k/8,n,k%8]:i4", "fix: pad k with zeros to 24 in both", {"k": 20}),
        ("G[m,n] = X[m,k] @ W[k/8,2*n,k%8]:i4", "words of adjacent ones lie beside each other"),
        ("C[m,k] = A[m,n] @ B[k/8,n,k%8]:i4", "tiles have rows of k"),
        ("C[m,n] = A[m,k] @ B[n/8,k,n%8]:i4", "tiles have rows of n"),
        ("C[m,n] = A[m,k] @ B[k/8,n,k%8]", "fix: say a type of 4 bits, B[k/8, n, k%8]:u4, if it is in words"),
        ("C[m,n] = A[m,k] @ (B[k/8,n,k%8] - 8)", "fix: say a type of 4 bits, B[k/8, n, k%8]:u4, if it is in words"),
        ("C[b,m,n] = A[b,m,k] @ B[b,n,k] scale(1x1x128, 1x128x1)", "fix: quantise B in blocks of 16 along k"),
        ("C[b,m,n] = A[b,m,k] @ B[b,k,n]:e4m3 scale(1x1x128, 1x128)", "fix: say 128x1, as B has k before n"),
    ]
)


IN_REGISTERS = [x for x in PROGRAMS if x != "tf32"]
TILES = ("", ", tile=128x8x128", ", tile=128x128x128", ", tile=256x64x128, consumers=pingpong")


@pytest.mark.once("name", "size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("name", IN_REGISTERS)
def test_in_registers(name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    run_on(f"{PROGRAMS[name]} with convert=registers, swap={int(name != 'left')}", dims, fixed, 3, 1e-5)


@pytest.mark.once("name", "tile")
@pytest.mark.parametrize("name", ["GPTQ", "nvfp4", "signed"])
@pytest.mark.parametrize("tile", TILES)
def test_tiles_in_registers(name: str, tile: str) -> None:
    """B's rows are interleaved where they are few, and then words are swizzled."""
    dims = {"m": 30, "n": 272, "k": 412}
    source = f"{PROGRAMS[name]} with convert=registers, swap=1{tile}"
    ran = run_on(source, dims, (), 3, 1e-5)
    (words,) = [a for a in ran.kernel.spec.arguments if a.element == WORDS]
    assert (words.swizzle, words.box[0] == 32) == ((128, True) if "128x8x128" in tile else (0, False))


@pytest.mark.parametrize(
    ("target", "schedule"),
    [
        ("sm_90a", "convert=registers, swap=1, tile=128x8x128"),
        ("sm_90a", "convert=registers, swap=1, tile=128x64x128"),
        ("sm_90a", "convert=shared, swap=1, tile=128x8x64"),
        ("sm_100a", "tile=128x64x64"),
        ("sm_120a", "tile=128x64x64"),
    ],
)
def test_no_words_meet_in_a_bank(target: str, schedule: str) -> None:
    ran = run_on(f"{GPTQ} with {schedule}", {"m": 16, "n": 256, "k": 256}, (), 3, 1e-5, target=target)
    assert ran.stats.counts["bank conflicts"] == 0


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        ("C[b,m,n]:f32 = A[b,m,k]:bf16 @ (B[b,k/8,n,k%8]:u4 - (Z[b,k/32,n] + 1)) scale(none, 1x64:f16@col)", {"b": 3}),
        ("C[m,n]:f32 = A[m,k]:bf16 @ (B[e[m/16],k/8,n,k%8]:u4 - (Z[e[m/16],k/32,n] + 1))", {"B_0": 3}),
        ("C[m,n]:f32 = A[m,k]:bf16 @ B[g,k/8,n,k%8]:i4 scale(none, 1x64) for m in off[g]:off[g+1]", {"g": 3}),
        ("C[m,n]:e4m3 scale(1x128) = A[m,k]:bf16 @ B[k/8,n,k%8]:i4", {}),
    ],
)
def test_other_programs_in_registers(source: str, shape: dict[str, int]) -> None:
    run(f"{source} with convert=registers, swap=1", "sm_90a", {"m": 40, "n": 144, "k": 156, **shape})


def test_shallow_tiles_are_refused() -> None:
    with pytest.raises(ScheduleError, match="B is in words, of which consumers take 64 of k and 32 rows"):
        scalec.compile(f"{GPTQ} with convert=registers, swap=1, tile=128x8x32", target="sm_90a")


def test_addends_are_of_rows() -> None:
    source = "C[m,n] = A[m,k]:e4m3 @ B[k/8,n,k%8]:e2m1 scale(1x128, 1x32:ue8m0)"
    assert "convert=addends" not in scalec.compile(source, target="sm_90a").spec.schedule
    with pytest.raises(ScheduleError, match="each as it lies in memory"):
        scalec.compile(f"{source} with convert=addends, swap=1", target="sm_90a")


@pytest.mark.parametrize("operands", ["A[m,k] @ B[k/8,n,k%8]:int4", "A[m,k]:s8 @ B[k/8,n,k%8]:i4"])
def test_a_type_that_there_is_not_is_refused_as_elsewhere(operands: str) -> None:
    with pytest.raises(SourceError, match=r"(int4|s8) is not a type"):
        scalec.compile(f"C[m,n] = {operands}", target="sm_90a")


def test_words_of_no_rows_are_made_up() -> None:
    made, _ = made_up("C[m,n]:f32 = A[m,k]:bf16 @ B[k/8,n,k%8]:i4", {"m": 3, "n": 0, "k": 16}, 3)
    assert made["B"].shape == (2, 0, 8)
