"""mma.sp: values through every shape and type, block scales, the metadata's lanes and values, what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled
from tests.emulator.refusals import ptxas
from tests.emulator.sparse import Sparse, register_words, sparse
from tests.emulator.test_fragments import A, place
from tests.emulator.test_mma import accumulators, draw, program, run

# A's fragment is that of a dense product of half of K: its name, K, lanes of a quad that give metadata, A, B, D, .kind
CASES = [
    ("m16n8k8 bf16", 16, 1, "f16", "f16", "f32", ""),
    ("m16n8k16 bf16", 32, 2, "f16", "f16", "f16", ""),
    ("m16n8k16 bf16", 32, 2, "bf16", "bf16", "f32", ""),
    ("m16n8k4 tf32", 8, 1, "tf32", "tf32", "f32", ""),
    ("m16n8k8 tf32", 16, 2, "tf32", "tf32", "f32", ""),
    ("m16n8k32 e4m3", 64, 4, "s8", "u8", "s32", ""),
    ("m16n8k32 e4m3", 64, 4, "e4m3", "e5m2", "f32", ""),
    ("m16n8k32 e4m3", 64, 4, "e2m1", "e3m2", "f16", "kind::f8f6f4."),
    ("m16n8k32 e4m3", 64, 4, "e2m3", "e2m1", "f32", "kind::f8f6f4."),
]
SCALED = {  # .kind and so on -> the type of A and B, factors in a row, the type of these, and factors as (code, value)
    "kind::mxf8f6f4.block_scale.scale_vec::1X": ("e4m3", 1, "ue8m0", ((0x7F, 1.0), (0x81, 4.0), (0x7E, 0.5))),
    "kind::mxf4.block_scale.scale_vec::2X": ("e2m1", 2, "ue8m0", ((0x7F, 1.0), (0x81, 4.0), (0x7E, 0.5))),
    "kind::mxf4nvf4.block_scale.scale_vec::4X": ("e2m1", 4, "ue4m3", ((0x38, 1.0), (0x48, 4.0), (0x3C, 1.5))),
}


def b_registers(codes: np.ndarray, bits: int) -> np.ndarray:
    """B (8, K): a register holds 4 bytes of K of a column, the next one those 16 bytes further."""
    each = 32 // bits
    count = codes.shape[1] * 8 // 32

    def formula(i: int, group: int, thread: int) -> tuple[int, int]:
        return group, thread * each + i % each + 4 * each * (i // each)

    return place(codes, bits, count, formula)


def text(form: str, opcode: str, k: int, d: str, selector: int, ordered: bool = True, tail: str = "", **given) -> str:
    name = "sp::ordered_metadata" if ordered else "sp"
    bits, _, count, _ = A[form]
    counts = (count * bits // 32, count * bits // 32, 2 if d == "f16" else 4)
    made = program(f"m16n8k{k}.row.col.{opcode}", counts, f", %sa, {selector}{tail}", **given)
    return made.replace("mma.sync.aligned", f"mma.{name}.sync.aligned")


def drawn(form: str, k: int, a_type: str, b_type: str, chunk: int) -> tuple[Sparse, np.ndarray, np.ndarray, np.ndarray]:
    """A, B (8, K), and both as registers."""
    bits, _, count, formula = A[form]
    a, (b, codes_b) = sparse(a_type, 16, k, chunk, 3), draw(b_type, (8, k), 4)
    shift = [2 if t == "e2m1" and bits == 8 else 0 for t in (a_type, b_type)]  # bits 2 to 5 of a container
    codes = place(a.codes << np.uint64(shift[0]), bits, count, formula)
    return a, b, codes, b_registers(codes_b << np.uint64(shift[1]), bits)


def case(number: int, selector: int, **given) -> tuple[Sparse, np.ndarray, list[np.ndarray], str]:
    form, k, threads, a_type, b_type, d, kind = CASES[number]
    a, b, *codes = drawn(form, k, a_type, b_type, 2 if a_type == "tf32" else 4)
    words = register_words(a.metadata, threads, selector)
    target = "sm_120a" if kind else "sm_90a"
    made = text(form, f"{kind}{d}.{a_type}.{b_type}.{d}", k, d, selector, target=target, **given)
    return a, b, [*codes, words], made


@pytest.mark.parametrize(("number", "selector"), [(n, s) for n, x in enumerate(CASES) for s in range(4 // x[2])])
def test_products(number: int, selector: int) -> None:
    a, b, (codes_a, codes_b, words), made = case(number, selector)
    d = CASES[number][5]
    c = np.random.default_rng(5).integers(-8, 8, (16, 8)).astype(float)
    found = run(made, codes_a, codes_b, accumulators(c, d), words)
    np.testing.assert_array_equal(found, accumulators(a.dense @ b.T + c, d))


def test_the_spelling_of_cutlass(tmp_path: Path) -> None:
    """The modifiers in another order, the metadata in braces (example 80)."""
    a, b, (codes_a, codes_b, words), made = case(8, 0)
    made = made.replace("mma.sp::ordered_metadata.sync.aligned.", "mma.sync.aligned.kind::f8f6f4.sp::ordered_metadata.")
    made = made.replace("row.col.kind::f8f6f4.", "row.col.").replace(", %sa, 0;", ", {%sa}, 0x0;")
    assert "{%sa}, 0x0" in made
    found = run(made, codes_a, codes_b, np.zeros((4, 32), np.uint32), words)
    np.testing.assert_array_equal(found, accumulators(a.dense @ b.T, "f32"))
    taken(made, "sm_120a", tmp_path)


@pytest.mark.parametrize("kind", SCALED)
def test_block_scales(kind: str) -> None:
    type_, count, scale, factors = SCALED[kind]
    form, k, chunk = ("m16n8k64 e2m1", 128, 8) if type_ == "e2m1" else ("m16n8k32 e4m3", 64, 4)
    a, b, codes_a, codes_b = drawn(form, k, type_, type_, chunk)
    rng = np.random.default_rng(1)
    chosen = rng.integers(0, 3, (16, count))
    words = np.zeros(32, np.uint32)
    for row in range(16):  # lanes 0 and 1 of a quad have its two rows
        word = sum(factors[chosen[row, i]][0] << 8 * i for i in range(count))
        words[4 * (row % 8) + row // 8] = word
    one = sum(factors[1][0] << 8 * i for i in range(count))
    made = text(form, f"{kind}.f32.{type_}.{type_}.f32.{scale}", k, "f32", 0, target="sm_120a",
                tail=", %sb, {0, 0}, %r9, {0, 0}", setup=f"mov.b32 %r9, {one};")  # fmt: skip
    scaled = a.dense * np.repeat(np.array([v for _, v in factors])[chosen], k // count, axis=1)
    found = run(made, codes_a, codes_b, np.zeros((4, 32), np.uint32), register_words(a.metadata, 4, 0), words)
    np.testing.assert_array_equal(found, accumulators(4.0 * scaled @ b.T, "f32"))


@pytest.mark.parametrize("ordered", [True, False])
def test_falling_indices(ordered: bool) -> None:
    """.sp::ordered_metadata forbids them, .sp does not."""
    a, b, (codes_a, codes_b, words), made = case(2, 0, ordered=ordered)
    first = int(a.metadata[0, 0])
    words[0] = words[0] & ~np.uint32(15) | np.uint32(first >> 2 | first % 4 << 2)
    zero = np.zeros((4, 32), np.uint32)
    if ordered:
        with pytest.raises(Finding, match="chunk 0 of row 0"):
            run(made, codes_a, codes_b, zero, words)
        return
    expected = a.dense.copy()
    expected[0, [first % 4, first >> 2]] = expected[0, [first >> 2, first % 4]]
    np.testing.assert_array_equal(run(made, codes_a, codes_b, zero, words), accumulators(expected @ b.T, "f32"))


@pytest.mark.parametrize(("number", "code"), [(0, 0b0101), (4, 0b1100), (6, 0)])
def test_malformed_metadata(number: int, code: int) -> None:
    _, _, (codes_a, codes_b, words), made = case(number, 0, ordered=False)
    words[8] = words[8] & ~np.uint32(0xF0) | np.uint32(code << 4)
    with pytest.raises(Finding, match=f"metadata of {code:#06b} for chunk 1 of row 2 "):
        run(made, codes_a, codes_b, np.zeros((4, 32), np.uint32), words)


def test_the_wrong_selector_takes_other_threads_metadata() -> None:
    a, b, (codes_a, codes_b, words), _ = case(0, 2)
    other = register_words(sparse("f16", 16, 16, seed=8).metadata, 1, 1)
    words = np.where(np.arange(32) % 4 == 1, other, words)
    zero, expected = np.zeros((4, 32), np.uint32), accumulators(a.dense @ b.T, "f32")
    np.testing.assert_array_equal(run(case(0, 2)[3], codes_a, codes_b, zero, words), expected)
    assert (run(case(0, 1)[3], codes_a, codes_b, zero, words) != expected).any()


@pytest.mark.parametrize("counted", [True, False])
def test_lanes_that_are_not_counted_need_no_metadata(counted: bool) -> None:
    a, b, (codes_a, codes_b, words), made = case(0, 3)
    test = f"and.b32 %r5, %r0, 3; setp.{'eq' if counted else 'ne'}.u32 %p2, %r5, 3;"
    made = made.replace("ld.global.b32 %sa", f"{test} @%p2 ld.global.b32 %sa")
    zero = np.zeros((4, 32), np.uint32)
    if counted:
        np.testing.assert_array_equal(run(made, codes_a, codes_b, zero, words), accumulators(a.dense @ b.T, "f32"))
        return
    with pytest.raises(Finding, match="register %sa has no value"):
        run(made, codes_a, codes_b, zero, words)


def test_what_is_not_stored_of_a_meets_no_nan() -> None:
    a, b, (codes_a, codes_b, words), made = case(2, 0)
    codes_b[0, 0] = 0x7FC0  # column 0, K = 0 and 1: NaN and 0
    b[0, :2] = 0
    found = run(made, codes_a, codes_b, np.zeros((4, 32), np.uint32), words).view(np.float32)
    expected = np.where((a.dense[:, :1] != 0) & (np.arange(8) == 0), np.nan, a.dense @ b.T)
    wanted = accumulators(expected, "f32").view(np.float32)
    np.testing.assert_array_equal(found, wanted)
    assert 0 < np.isnan(found).sum() < 16


def test_what_is_refused() -> None:
    zero, four = np.zeros(32, np.uint32), np.zeros((4, 32), np.uint32)
    for opcode, k, d, selector, error in (
        ("f32.f16.f16.f32", 32, "f32", 2, "sparsity selector of 2"),
        ("f32.e4m3.e4m3.f32", 64, "f32", 1, "sparsity selector of 1"),
        ("f32.f16.f16.f32", 64, "f32", 0, "no such combination"),
        ("f32.e4m3.e4m3.f32", 32, "f32", 0, "no such combination"),
        ("s32.s8.s8.s32", 32, "s32", 0, "m16n8k32 of 8 bits"),
    ):
        made = text("m16n8k16 bf16", opcode, k, d, selector)
        with pytest.raises((Finding, NotModelled), match=error):
            run(made, four, four, four, zero)
    made = text("m16n8k32 e4m3", "kind::f8f6f4.f32.e4m3.e4m3.f32", 64, "f32", 0, ordered=False, target="sm_120a")
    with pytest.raises(Finding, match="ordered_metadata alone"):
        run(made, four, four, four, zero)


def test_ptxas_takes_them(tmp_path: Path) -> None:
    for number in range(len(CASES)):
        taken(case(number, 0)[3], "sm_120a" if CASES[number][6] else "sm_90a", tmp_path)


def taken(made: str, target: str, folder: Path) -> None:
    path = folder / "k.ptx"
    path.write_text(made)
    command = [ptxas(), f"-arch={target}", path, "-o", folder / "k.cubin"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
