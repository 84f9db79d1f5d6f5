"""wgmma.mma_async.sp: products of every type with A from shared memory and from registers, and what is found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import Out, module, run_ptx
from tests.emulator.refusals import ptxas
from tests.emulator.sparse import Sparse, register_words, sparse
from tests.emulator.test_fragments import A, accumulator_formula, place
from tests.emulator.test_mma import draw

N = 16
FRAGMENTS = {16: "m16n8k16 bf16", 32: "m16n8k8 tf32", 8: "m16n8k32 e4m3"}
# A, B, D, bits, K, elements in a chunk, lanes of a quad that give metadata
TYPES = {
    "f16": ("f16", "f16", "f32", 16, 32, 4, 2),
    "bf16": ("bf16", "bf16", "f32", 16, 32, 4, 2),
    "tf32": ("tf32", "tf32", "f32", 32, 16, 2, 2),
    "fp8": ("e4m3", "e5m2", "f32", 8, 64, 4, 4),
    "int8": ("s8", "u8", "s32", 8, 64, 4, 4),
}
FLAGS = {"f16": ", 1, 1, 0, 0", "bf16": ", 1, 1, 0, 0", "tf32": ", 1, 1", "fp8": ", 1, 1", "int8": ""}


def core_matrices(codes: np.ndarray, bits: int) -> np.ndarray:
    """K-major without a swizzle: 8 rows of 16 bytes after another, those along K first."""
    raw = codes.astype(f"u{bits // 8}").view(np.uint8)
    rows, size = raw.shape
    return np.ascontiguousarray(raw.reshape(rows // 8, 8, size // 16, 16).swapaxes(1, 2))


def kernel(name: str, selector: int, registers: bool = False, target: str = "sm_90a") -> str:
    """p0: A as it lies in shared memory, p1: B, p2: a word of metadata for each thread, p3: D, p4: registers of A."""
    a, b, d, _, k, _, _ = TYPES[name]
    operand = "{%r40, %r41, %r42, %r43}" if registers else "%rd10"
    flags = FLAGS[name].replace("0, 0", "0" if registers else "0, 0")
    return module(
        f"""
    .shared .align 1024 .b8 sa[2048];
    .shared .align 1024 .b8 sb[1024];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, sa;
    mov.u32 %r3, sb;
    ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r1, 16, %rd1;
    mad.lo.u32 %r4, %r1, 16, %r2;
    ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd1];
    st.shared.v4.b32 [%r4], {{%r10, %r11, %r12, %r13}};
    ld.param.u64 %rd1, [p1]; mad.wide.u32 %rd1, %r1, 8, %rd1;
    mad.lo.u32 %r4, %r1, 8, %r3;
    ld.global.v2.b32 {{%r10, %r11}}, [%rd1];
    st.shared.v2.b32 [%r4], {{%r10, %r11}};
    ld.param.u64 %rd1, [p2]; mad.wide.u32 %rd1, %r1, 4, %rd1;
    ld.global.b32 %r20, [%rd1];
    ld.param.u64 %rd1, [p4]; mad.wide.u32 %rd1, %r1, 16, %rd1;
    ld.global.v4.b32 {{%r40, %r41, %r42, %r43}}, [%rd1];
    fence.proxy.async.shared::cta;
    bar.sync 0;
    shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd10, %r5; or.b64 %rd10, %rd10, 0x1000080000;
    shr.u32 %r5, %r3, 4; cvt.u64.u32 %rd11, %r5; or.b64 %rd11, %rd11, 0x2000080000;
    mov.u32 %r30, 0; mov.u32 %r31, 0; mov.u32 %r32, 0; mov.u32 %r33, 0;
    mov.u32 %r34, 0; mov.u32 %r35, 0; mov.u32 %r36, 0; mov.u32 %r37, 0;
    setp.eq.u32 %p1, %r1, %r1;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sp.sync.aligned.m64n{N}k{k}.{d}.{a}.{b}
        {{%r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37}}, {operand}, %rd11, %r20, {selector}, %p1{flags};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    ld.param.u64 %rd1, [p3]; mad.wide.u32 %rd1, %r1, 32, %rd1;
    st.global.v4.b32 [%rd1], {{%r30, %r31, %r32, %r33}};
    st.global.v4.b32 [%rd1+16], {{%r34, %r35, %r36, %r37}};
    """,
        ", ".join(f".param .u64 p{i}" for i in range(5)),
        target,
    )


def launch(name: str, a: Sparse, b: np.ndarray, metadata: np.ndarray, text: str) -> np.ndarray:
    """D (64, N)."""
    _, _, d, bits, *_ = TYPES[name]
    count, formula = A[FRAGMENTS[bits]][2:]
    fragments = [place(a.codes[16 * w : 16 * w + 16], bits, count, formula) for w in range(4)]
    held = np.ascontiguousarray(np.stack(fragments).swapaxes(1, 2))  # warp, lane, register
    out = Out(64 * N * 4)
    arguments = [core_matrices(a.codes, bits), core_matrices(b, bits), metadata, out, held]
    run_ptx(text, arguments, block=(128, 1, 1))
    words = out.view(np.float32 if d == "f32" else np.int32).reshape(4, 32, N // 8, 4)
    found = np.zeros((64, N))
    for warp, lane, tile, i in np.ndindex(words.shape):
        row, column = accumulator_formula(i, lane >> 2, lane % 4)
        found[16 * warp + row, 8 * tile + column] = words[warp, lane, tile, i]
    return found


def case(name: str, selector: int = 0, seed: int = 0) -> tuple[Sparse, np.ndarray, np.ndarray, np.ndarray]:
    """A, B's values and codes (N, K), and the metadata (4, 32)."""
    a_type, b_type, _, _, k, chunk, threads = TYPES[name]
    a, (b, codes) = sparse(a_type, 64, k, chunk, seed), draw(b_type, (N, k), seed + 9)
    words = [register_words(a.metadata[16 * w :][:16], threads, selector, seed + w) for w in range(4)]
    return a, b, codes, np.stack(words)


@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize(("name", "selector"), [(n, s) for n in TYPES for s in range(4 // TYPES[n][6])])
def test_products(name: str, selector: int, registers: bool) -> None:
    a, b, codes, words = case(name, selector)
    found = launch(name, a, codes, words, kernel(name, selector, registers))
    np.testing.assert_array_equal(found, a.dense @ b.T)


def test_what_is_not_stored_of_a_meets_no_nan() -> None:
    a, b, codes, words = case("f16")
    column = np.flatnonzero(a.dense[5] == 0)[0]
    codes[3, column] = 0x7E00
    found = launch("f16", a, codes, words, kernel("f16", 0))
    expected = a.dense @ b.T
    untouched = a.dense[:, column] == 0
    np.testing.assert_array_equal(found[untouched, 3], (expected - a.dense[:, [column]] * b[3, column])[untouched, 3])
    assert np.isnan(found[~untouched, 3]).all()
    assert np.isfinite(np.delete(found, 3, axis=1)).all()


@pytest.mark.parametrize("name", ["f16", "tf32"])
def test_the_wrong_selector_takes_other_threads_metadata(name: str) -> None:
    a, b, codes, words = case(name, 1)
    other = case(name, 0, seed=77)[3]  # sound metadata, of another matrix, where selector 0 looks
    mixed = np.where(np.arange(32) % 4 < 2, other, words)
    np.testing.assert_array_equal(launch(name, a, codes, mixed, kernel(name, 1)), a.dense @ b.T)
    assert (launch(name, a, codes, mixed, kernel(name, 0)) != a.dense @ b.T).any()


@pytest.mark.parametrize(
    ("name", "code"), [("f16", 0b0101), ("bf16", 0), ("fp8", 0b1111), ("int8", 0b1010), ("tf32", 8)]
)
def test_malformed_metadata(name: str, code: int) -> None:
    a, _, codes, words = case(name)
    lane = 4 * 3 + 1  # group 3: row 3 or 11 of warp 2
    words[2, lane] = words[2, lane] & ~np.uint32(0xF0) | np.uint32(code << 4)
    with pytest.raises(Finding, match=f"metadata of {code:#06b} for chunk") as found:
        launch(name, a, codes, words, kernel(name, 0))
    assert f"row {32 + (11 if TYPES[name][6] == 4 else 3)} " in str(found.value)


def test_falling_indices_are_not_forbidden() -> None:
    """9.7.15.6.1 forbids equal ones alone."""
    a, b, codes, words = case("f16")
    first = a.metadata[0, 0]
    words[0, 0] = words[0, 0] & ~np.uint32(15) | np.uint32(first >> 2 | first % 4 << 2)
    expected = a.dense.copy()
    expected[0, [first % 4, first >> 2]] = expected[0, [first >> 2, first % 4]]
    np.testing.assert_array_equal(launch("f16", a, codes, words, kernel("f16", 0)), expected @ b.T)


@pytest.mark.parametrize("counted", [True, False])
def test_lanes_that_are_not_counted_need_no_metadata(counted: bool) -> None:
    a, b, codes, words = case("f16", 1)
    load = "ld.global.b32 %r20, [%rd1];"
    test = f"and.b32 %r21, %r1, 2; setp.{'ne' if counted else 'eq'}.u32 %p2, %r21, 0;"
    text = kernel("f16", 1).replace(load, f"{test} @%p2 {load}")
    if counted:
        np.testing.assert_array_equal(launch("f16", a, codes, words, text), a.dense @ b.T)
        return
    with pytest.raises(Finding, match="register %r20 has no value in lanes 2"):
        launch("f16", a, codes, words, text)


@pytest.mark.parametrize(("name", "selector"), [("f16", 2), ("tf32", 3), ("fp8", 1), ("int8", 1)])
def test_no_such_selector(name: str, selector: int) -> None:
    a, _, codes, words = case(name)
    with pytest.raises(Finding, match=f"sparsity selector of {selector}"):
        launch(name, a, codes, words, kernel(name, selector))


def test_bytes_and_registers_are_judged() -> None:
    a, _, codes, words = case("f16")
    text = kernel("f16", 0)
    with pytest.raises(Finding) as found:
        launch("f16", a, codes, words, text.replace("fence.proxy.async.shared::cta;", ""))
    assert found.value.kind == "proxy"
    fence = "wgmma.fence.sync.aligned;"
    with pytest.raises(Finding, match="r20 was used by other instructions"):
        launch("f16", a, codes, words, text.replace(fence, f"{fence} add.u32 %r20, %r20, 0;"))
    for at in (0, 2044):  # the first and the last bytes of the compressed A, written after the fence
        late = text.replace("setp.eq.u32 %p1", f"st.shared.u32 [%r2+{at}], 0; setp.eq.u32 %p1")
        with pytest.raises(Finding) as found:
            launch("f16", a, codes, words, late)
        assert found.value.kind in ("proxy", "race")


def test_ptxas_takes_them(tmp_path: Path) -> None:
    for name in TYPES:
        for registers in (False, True):
            path = tmp_path / f"{name}{registers}.ptx"
            path.write_text(kernel(name, 0, registers))
            command = [ptxas(), "-arch=sm_90a", path, "-o", tmp_path / "k.cubin"]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stdout + run.stderr
