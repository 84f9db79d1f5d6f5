"""tcgen05 with .cta_group::2: one thread multiplies with the shared and tensor memory of both CTAs of a pair."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from scalec.emulator.findings import SILENT, Finding
from tests.emulator.tcgen05_kernels import (
    MEET,
    WAIT,
    core_matrices,
    descriptor,
    epilogue,
    image,
    load_out,
    prologue,
    run,
    scale_source,
)

SEEDS = range(5)
RNG = np.random.default_rng(7)
E4M3 = ml_dtypes.float8_e4m3fn
COMMIT = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r4], %h1;"


def pair(kind: str, word: int, n: int, out: int, at_a: int, at_b: int, size: int, *, sbo: int = 256, steps: int = 1,
         before: str = "", more: str = "") -> str:  # fmt: skip
    """CTA 0's thread 0 multiplies, and commits to the mbarriers of both; every CTA stores `out` columns."""
    lines = ""
    for step in range(steps):
        lines += f"""
    tcgen05.mma.cta_group::2.kind::{kind} [%r8], %rd4, %rd5, %r25{more}, {"%p6" if step else "%p5"};
    add.u32 %r25, %r25, {1 << 29 | 1 << 4};
    add.u64 %rd4, %rd4, 16;
    add.u64 %rd5, %rd5, 16;"""
    return f"""{prologue(size, 128, 2)}
    mov.u32 %r30, %cluster_ctarank;
    setp.ne.u32 %p7, %r30, 0;
    or.pred %p8, %p7, %p3;
    @%p8 bra ISSUED;
    setp.ne.u32 %p5, 0, 0;
    setp.eq.u32 %p6, 0, 0;
    mov.b32 %r25, {word};
    mov.b16 %h1, 3;
    {descriptor("%rd4", at_a, 128, sbo)}
    {descriptor("%rd5", at_b, 128, sbo)}
    {before}
    {lines}
    {COMMIT}
ISSUED:
    {WAIT}
    {load_out(out)}
    {epilogue(128, 2)}"""


def halves(a: np.ndarray, b: np.ndarray, *scales: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """The images of both CTAs: each has half of the rows of A and of B."""
    images, offsets = [], []
    for half in range(2):
        mine = [core_matrices(np.ascontiguousarray(np.split(x, 2)[half]).view(np.uint8)) for x in (a, b)]
        whole, offsets = image([*mine, *(np.split(scale_source(scales[0]), 2)[half : half + 1] if scales else []),
                                *(scale_source(s) for s in scales[1:])])  # fmt: skip
        images.append(whole)
    return np.concatenate(images), offsets


A, B = RNG.standard_normal((256, 16)).astype(np.float16), RNG.standard_normal((64, 16)).astype(np.float16)
PRODUCT = A.astype(np.float64) @ B.astype(np.float64).T
DATA, (AT_A, AT_B) = halves(A, B)
WORD = 1 << 4 | 64 >> 3 << 17 | 256 >> 4 << 24
WHOLE = pair("f16", WORD, 64, 64, AT_A, AT_B, DATA.size // 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_256_rows(seed):
    """Layout A: each CTA has 128 rows of D, and all its columns."""
    found, stats = run(WHOLE, DATA, 256 * 64 * 4, ctas=2, seed=seed)
    np.testing.assert_allclose(found.view(np.float32).reshape(256, 64), PRODUCT, rtol=1e-5, atol=1e-5)
    assert stats.counts["tcgen05.mma"] == 1
    assert stats.bytes["shared -> tensor core"] == (256 + 64) * 32


def test_128_rows():
    """Layout B: each CTA has 64 rows; the second half of the columns lies in lanes 64 to 127."""
    data, (at_a, at_b) = halves(A[:128], B)
    word = 1 << 4 | 64 >> 3 << 17 | 128 >> 4 << 24
    found, _ = run(pair("f16", word, 64, 32, at_a, at_b, data.size // 2), data, 256 * 32 * 4, ctas=2)
    parts = found.view(np.float32).reshape(2, 2, 64, 32)  # CTA, half of the columns, row, column
    rows = parts.transpose(0, 2, 1, 3).reshape(128, 64)
    np.testing.assert_allclose(rows, PRODUCT[:128], rtol=1e-5, atol=1e-5)


def test_block_scaled():
    """Each CTA has the scale factors of its rows of A, and of all columns of B; one thread copies them in both."""
    a, b = RNG.standard_normal((256, 128)).astype(E4M3), RNG.standard_normal((64, 128)).astype(E4M3)
    sa, sb = (RNG.integers(122, 133, (rows, 4)).astype(np.uint8) for rows in (256, 64))
    data, (at_a, at_b, at_sa, at_sb) = halves(a, b, sa, sb)
    copy = "\n    tcgen05.cp.cta_group::2.32x128b.warpx4 [%r8+{}], {};"
    before = descriptor("%rd6", at_sa, 16, 128) + descriptor("%rd7", at_sb, 16, 128)
    before += copy.format(64, "%rd6") + copy.format(68, "%rd7")
    word = 1 << 23 | 64 >> 3 << 17 | 256 >> 7 << 27
    body = pair("mxf8f6f4.block_scale.block32", word, 64, 64, at_a, at_b, data.size // 2, sbo=1024, steps=4,
                before=before, more=", [%r8+64], [%r8+68]")  # fmt: skip
    found, stats = run(body, data, 256 * 64 * 4, ctas=2)
    full_a = a.astype(np.float64) * np.repeat(2.0 ** (sa.astype(float) - 127), 32, 1)
    full_b = b.astype(np.float64) * np.repeat(2.0 ** (sb.astype(float) - 127), 32, 1)
    np.testing.assert_allclose(found.view(np.float32).reshape(256, 64), full_a @ full_b.T, rtol=1e-5, atol=1e-3)
    assert stats.bytes["shared -> tensor memory"] == 2 * 2 * 512


SYNC = "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"


@pytest.mark.parametrize(
    ("old", "new", "kind", "says"),
    [
        # without it CTA 1's operands, its tensor memory and its mbarrier are used too early
        (f"    bar.warp.sync -1;\n    {SYNC}", "    bar.warp.sync -1;\n    bar.sync 0;",
         "race|barrier|tensor-memory|uninitialised|bounds|deadlock", "CTA 1|CTA rank|peer"),
        ("mov.b16 %h1, 3;", "mov.b16 %h1, 1;", "deadlock", "CTA 1"),
        ("fence.mbarrier_init.release.cluster;", "", "proxy", "mbarrier"),
        ("fence.proxy.async.shared::cta;", "", "proxy", "fence.proxy.async"),
        ("or.pred %p8, %p7, %p3;", "or.pred %p8, %p3, %p3;", "race|tensor-memory|barrier|deadlock", ""),
        ("@!%p4 bra WAIT;\n    tcgen05.fence::after_thread_sync;", "@!%p4 bra WAIT;", "tensor-memory",
         "after_thread_sync"),
    ],
)  # fmt: skip
def test_a_part_taken_out(old, new, kind, says):
    assert WHOLE.count(old) == 1
    broken = WHOLE.replace(old, new)
    for seed in SEEDS:
        with pytest.raises(Finding) as caught:
            run(broken, DATA, 256 * 64 * 4, ctas=2, seed=seed)
        assert caught.value.kind in kind.split("|"), caught.value
        assert any(word in str(caught.value) for word in says.split("|")), caught.value


def test_registers_that_were_used_and_a_relaxed_barrier():
    """No tcgen05.wait::ld before the columns are freed: tcgen05.fence::before_thread_sync and a relaxed barrier tell
    that the loads were issued (DeepGEMM's BF16 products with f32 results); without the fence nothing does."""
    relaxed = SYNC.replace("arrive", "arrive.relaxed")
    start, end = WHOLE.rsplit(SYNC, 1)
    body = start.replace("tcgen05.wait::ld.sync.aligned;", "") + relaxed + end
    size, rest = 256 * 64 * 4, frozenset(SILENT) - {"load-wait"}
    for seed in SEEDS:
        run(body, DATA, size, ctas=2, seed=seed, check=rest)
        with pytest.raises(Finding, match="dealloc frees") as caught:
            run(body, DATA, size, ctas=2, seed=seed)
        assert caught.value.kind == "load-wait"
        with pytest.raises(Finding, match="dealloc frees") as caught:
            run(body.replace("tcgen05.fence::before_thread_sync;", ""), DATA, size, ctas=2, seed=seed, check=rest)
        assert caught.value.kind == "tensor-memory"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_end_needs_no_cluster_barrier(seed):
    """Deallocation needs the own accesses to be complete; nobody uses the peer's tensor memory any more."""
    old = f"{SYNC}\n    @%p2 bra END;"
    assert WHOLE.count(old) == 1
    run(WHOLE.replace(old, "bar.sync 0;\n    @%p2 bra END;"), DATA, 256 * 64 * 4, ctas=2, seed=seed)


def test_a_pair_is_needed():
    with pytest.raises(Finding, match="no peer"):
        run(WHOLE, DATA, 256 * 64 * 4)


def test_both_ctas_allocate():
    """CTA 1 never comes: CTA 0 waits for it."""
    alone = """
    .shared .align 8 .b32 slot;
    mov.b32 %r5, slot;
    mov.u32 %r30, %cluster_ctarank;
    setp.ne.u32 %p7, %r30, 0;
    barrier.cluster.arrive.relaxed.aligned;
    barrier.cluster.wait.aligned;
    @%p7 bra END;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r5], 32;
END:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    """
    with pytest.raises(Finding, match=r"the peer CTA at tcgen05\.alloc") as caught:
        run(alone, np.zeros(2048, np.uint8), 4, ctas=2)
    assert caught.value.kind == "deadlock"


@pytest.mark.parametrize("seed", range(12))
def test_a_product_right_behind_the_allocation(seed):
    """Both CTAs have their columns when one goes on, as both allocate together (9.7.16.7.1): CUTLASS's example 75 with
    clusters of 2x1 waits for no more than the own CTA's address."""
    before, after = WHOLE.split(MEET)
    start, end = after.index("@%p3 bra INITIALISED;"), after.index("ALLOCATED:")
    early = after[:start] + after[end:].replace(SYNC, "bar.sync 0;", 1)
    run(before + after[start:end] + SYNC + early, DATA, 256 * 64 * 4, ctas=2, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_allocations_of_a_pair(seed):
    """Two each; a dealloc may go ahead of the peer's, but the next one does not."""
    body = """
    .shared .align 8 .b32 slot[2];
    mov.b32 %r5, slot;
    ld.param.u64 %rd2, [p1];
    mov.u32 %r30, %cluster_ctarank;
    mul.wide.u32 %rd3, %r30, 8;
    add.u64 %rd2, %rd2, %rd3;
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p2, %r1, 32;
    barrier.cluster.arrive.relaxed.aligned;
    barrier.cluster.wait.aligned;
    @%p2 bra END;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r5], 128;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r5+4], 64;
    ld.shared.v2.u32 {%r8, %r9}, [%r5];
    st.global.v2.u32 [%rd2], {%r8, %r9};
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r8, 128;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r9, 64;
END:
    """
    found, _ = run(body, np.zeros(2048, np.uint8), 16, ctas=2, seed=seed)
    (first, second), peer = found[:2].tolist(), found[2:].tolist()
    assert peer == [first, second]
    assert second + 64 <= first or first + 128 <= second
    counts = "mov.b32 %r5, slot; mov.u32 %r31, %cluster_ctarank; add.u32 %r31, %r31, 1; shl.b32 %r31, %r31, 5;"
    different = body.replace("mov.b32 %r5, slot;", counts).replace("[%r5+4], 64", "[%r5+4], %r31")
    with pytest.raises(Finding, match=r"while CTA [01] warp 0 of the peer CTA executes"):
        run(different, np.zeros(2048, np.uint8), 16, ctas=2, seed=seed)
