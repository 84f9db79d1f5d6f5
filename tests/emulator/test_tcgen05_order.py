"""The judge of tensor memory: programs that are right, and what is said when a part of them is taken out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.tcgen05_kernels import (
    WAIT,
    core_matrices,
    descriptor,
    epilogue,
    image,
    load_out,
    prologue,
    registers,
    run,
)

SEEDS = range(5)
RNG = np.random.default_rng(6)
A, B = RNG.standard_normal((128, 16)).astype(np.float16), RNG.standard_normal((16, 16)).astype(np.float16)
DATA, (AT_A, AT_B) = image([core_matrices(A.view(np.uint8)), core_matrices(B.view(np.uint8))])
PRODUCT = A.astype(np.float64) @ B.astype(np.float64).T
WORD = 1 << 4 | 16 >> 3 << 17 | 128 >> 4 << 24  # f16, f32 accumulator, 128 x 16
MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd4, %rd5, %r25, %p5;"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
DESCRIPTORS = descriptor("%rd4", AT_A, 128, 256) + descriptor("%rd5", AT_B, 128, 256)
SETUP = f"""
    setp.ne.u32 %p5, 0, 0;
    setp.eq.u32 %p6, 0, 0;
    mov.b32 %r25, {WORD};
    {DESCRIPTORS}
"""

# thread 0 multiplies, all load, thread 0 multiplies once more into the same cells, all load again
TWICE = f"""{prologue(DATA.size, 32)}
    {SETUP}
    @%p3 bra ISSUED;
    {MMA}
    {COMMIT} [%r4];
ISSUED:
    {WAIT}
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {registers(100, 16)}, [%r9];
    tcgen05.wait::ld.sync.aligned;
    {BEFORE} // loaded
    bar.sync 0;
    @%p3 bra AGAIN;
    {AFTER} // to overwrite
    {MMA.replace("%p5", "%p6")}
    {COMMIT} [%r4];
AGAIN:
    bar.warp.sync -1;
SECOND:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4], 1;
    @!%p4 bra SECOND;
    {AFTER} // second
    {load_out(16)}
    {epilogue(32)}"""


def values(body: str, seed: int, **options: Any) -> np.ndarray:
    return run(body, DATA, 128 * 16 * 4, seed=seed, **options)[0].view(np.float32).reshape(128, 16)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_products_are_clean_whatever_the_seed(seed):
    np.testing.assert_allclose(values(TWICE, seed), 2 * PRODUCT, rtol=1e-5, atol=1e-5)


ORDER = [
    (f"    {MMA}\n    {COMMIT} [%r4];\nISSUED", f"    {MMA}\nISSUED", "deadlock", "1 of 1 arrivals"),
    (f"    {MMA}\n    {COMMIT} [%r4];\nISSUED", f"    {COMMIT} [%r4];\n    {MMA}\nISSUED",
     "tensor-memory|uninitialised", "tcgen05.commit|never written"),
    ("    @!%p4 bra WAIT;\n    tcgen05.fence::after_thread_sync;", "    @!%p4 bra WAIT;", "tensor-memory",
     "tcgen05.fence::after_thread_sync"),
    ("    fence.proxy.async.shared::cta;", "", "proxy", "fence.proxy.async"),
    (f"    tcgen05.wait::ld.sync.aligned;\n    {BEFORE} // loaded", f"    {BEFORE}", "tensor-memory", "wait::ld"),
    (f"    {BEFORE} // loaded", "", "tensor-memory", "tcgen05.fence::before_thread_sync"),
    (f"    {AFTER} // to overwrite", "", "tensor-memory", "tcgen05.fence::after_thread_sync"),
    (f"    {BEFORE} // loaded\n    bar.sync 0;", f"    {BEFORE}", "tensor-memory|deadlock",
     "wait::ld|tcgen05.commit after it|phase 2"),
    (f"    {AFTER} // second", "", "tensor-memory", "tcgen05.fence::after_thread_sync"),
    ("[%r4], 1;\n    @!%p4", "[%r4], 0;\n    @!%p4", "tensor-memory", "tcgen05.commit after it|wait::ld"),
    ("    tcgen05.wait::ld.sync.aligned;\n    mov.u32 %r22", "    mov.u32 %r22", "load-wait", "dealloc"),
    (epilogue(32).split(BEFORE)[1].split("@%p2")[0] + "@%p2 bra END;", "@%p2 bra END;", "tensor-memory", "dealloc"),
    ("    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 32;", "", "tensor-memory", "exits with"),
    ("sync.aligned.b32 %r8, 32;", "sync.aligned.b32 %r8, 64;", "tensor-memory", "an allocation of the CTA: "),
    ("setp.ne.u32 %p5, 0, 0;", "setp.eq.u32 %p5, 0, 0;", "uninitialised", "enable-input-d"),
    (f"mov.b32 %r25, {WORD};", f"mov.b32 %r25, {WORD | 1 << 3};", "descriptor", "saturate"),
    ("[%r8], %rd4, %rd5, %r25, %p5;", "[%r8+24], %rd4, %rd5, %r25, %p5;", "tensor-memory|bounds", "not alloc|reaches"),
    ("[%r8], %rd4, %rd5, %r25, %p5;", "[%r9+2097152], %rd4, %rd5, %r25, %p5;", "alignment", "lane 32"),
    (str(1 << 46 | 128 >> 4 << 16 | 256 >> 4 << 32), str(128 >> 4 << 16 | 256 >> 4 << 32), "descriptor", "46-48"),
]  # fmt: skip


def test_a_load_before_the_end_that_nobody_waits_for():
    """CUTLASS's kernels use the registers and have a barrier. Without that barrier nothing is in order."""
    bare = TWICE.replace("    tcgen05.wait::ld.sync.aligned;\n    mov.u32 %r22", "    mov.u32 %r22")
    kernel, end = bare.rsplit("bar.sync 0;", 1)
    for seed in SEEDS:
        np.testing.assert_allclose(values(bare, seed, check=frozenset()), 2 * PRODUCT, rtol=1e-5, atol=1e-5)
        with pytest.raises(Finding, match="dealloc") as caught:
            values(kernel + end, seed, check=frozenset())
        assert caught.value.kind == "tensor-memory"


@pytest.mark.parametrize(("old", "new", "kind", "says"), ORDER)
def test_a_part_taken_out_is_found(old, new, kind, says):
    assert old in TWICE
    broken = TWICE.replace(old, new, 1)
    for seed in SEEDS:
        with pytest.raises(Finding) as caught:
            values(broken, seed)
        assert caught.value.kind in kind.split("|"), caught.value
        assert any(word in str(caught.value) for word in says.split("|")), caught.value
        assert caught.value.where or caught.value.kind == "deadlock", caught.value


def test_a_wait_that_is_not_repeated_is_found_by_some_seed():
    broken = TWICE.replace("    @!%p4 bra WAIT;\n", "")
    kinds = []
    for seed in SEEDS:
        try:
            values(broken, seed)
        except Finding as finding:
            kinds.append(finding.kind)
    assert kinds
    assert set(kinds) <= {"tensor-memory", "uninitialised"}


def test_without_fences_a_program_lives_by_release_and_acquire():
    """As Triton's do; but Options.tensor_fences asks for them."""
    bare = TWICE.replace(BEFORE, "").replace(AFTER, "")
    for seed in SEEDS:
        np.testing.assert_allclose(values(bare, seed), 2 * PRODUCT, rtol=1e-5, atol=1e-5)
    with pytest.raises(Finding, match="after_thread_sync"):
        values(bare, 0, tensor_fences=True)
    half = TWICE.replace(f"{AFTER} // second", "")
    np.testing.assert_allclose(values(half, 0, tensor_fences=False), 2 * PRODUCT, rtol=1e-5, atol=1e-5)


def test_a_relaxed_wait_needs_the_fence():
    """The pattern of 9.7.16.6.4.2, example 2."""
    relaxed = TWICE.replace("try_wait.parity.shared", "try_wait.parity.relaxed.cluster.shared")
    for seed in SEEDS:
        np.testing.assert_allclose(values(relaxed, seed), 2 * PRODUCT, rtol=1e-5, atol=1e-5)
    bare = relaxed.replace(BEFORE, "").replace(AFTER, "")
    with pytest.raises(Finding, match="after_thread_sync"):
        values(bare, 0)


def test_behind_a_relaxed_barrier_tensor_memory_is_freed_by_who_fenced():
    """As DeepGEMM's kernels end (9.7.16.6.4.4)."""
    kernel, end = TWICE.rsplit("bar.sync 0;", 1)
    relaxed = f"{kernel}barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;{end}"
    for seed in SEEDS:
        np.testing.assert_allclose(values(relaxed, seed), 2 * PRODUCT, rtol=1e-5, atol=1e-5)
    kept, bare = relaxed.rsplit(BEFORE, 1)
    with pytest.raises(Finding, match="dealloc"):
        values(kept + bare, 0)


# -- shared memory -----------------------------------------------------------------------------------------------------

REUSED = f"""{prologue(DATA.size, 32)}
    {SETUP}
    @%p3 bra ISSUED;
    {MMA}
    {COMMIT} [%r4];
ISSUED:
    {WAIT}
    mov.b32 %r40, 0;
    shl.b32 %r41, %r1, 5;
    add.u32 %r41, %r41, %r3;
    st.shared.u32 [%r41], %r40;
    {load_out(16)}
    {epilogue(32)}"""


def test_operands_may_be_overwritten_after_the_wait_alone():
    np.testing.assert_allclose(values(REUSED, 0), PRODUCT, rtol=1e-5, atol=1e-5)
    stores = REUSED[REUSED.index("    mov.b32 %r40") : REUSED.index("    tcgen05.ld")]
    early = REUSED.replace(stores, "").replace("ISSUED:", f"ISSUED:\n    bar.sync 0;\n{stores}")
    for seed in SEEDS:
        with pytest.raises(Finding) as caught:
            values(early, seed)
        assert caught.value.kind == "race"
        assert "a tcgen05 operation of CTA 0 warp 0 lane 0" in str(caught.value)


# -- pipelined pairs ---------------------------------------------------------------------------------------------------

# warp 1 copies A into tensor memory, 32 bytes of each row; thread 0 multiplies with it
HANDED = f"""{prologue(DATA.size, 64)}
    {SETUP}
    setp.ne.u32 %p7, %r1, 32;
    @%p7 bra COPIED;
    tcgen05.cp.cta_group::1.128x256b [%r8+32], %rd4;
COPIED:
    {BEFORE} // copied
    bar.sync 0;
    @%p3 bra ISSUED;
    {AFTER} // to multiply
    {MMA.replace("%rd4", "[%r8+32]")}
    {COMMIT} [%r4];
ISSUED:
    {WAIT}
    {load_out(16)}
    {epilogue(64)}"""


def test_a_copy_and_a_product_of_two_threads():
    """9.7.16.6.4.3: a pipelined pair needs no wait between the threads, but the fences."""
    for seed in SEEDS:
        # the copy itself is not waited for: thread 0's commit tracks its own operations only
        with pytest.raises(Finding) as caught:
            values(HANDED, seed)
        assert caught.value.kind == "tensor-memory"
        assert "tcgen05.dealloc" in str(caught.value)
    own = f"    {COMMIT} [%r4];\nCOPIED:"
    whole = HANDED.replace("COPIED:", own).replace("init.shared.b64 [%r4], 1;", "init.shared.b64 [%r4], 2;")
    parts = [
        (f"    {BEFORE} // copied\n", ("tensor-memory",)),
        (f"    {AFTER} // to multiply\n", ("tensor-memory",)),
        (f"    {BEFORE} // copied\n    bar.sync 0;\n", ("tensor-memory", "uninitialised")),
    ]
    for seed in SEEDS:
        np.testing.assert_allclose(values(whole, seed), PRODUCT, rtol=1e-5, atol=1e-5)
        for line, kinds in parts:
            assert line in whole
            with pytest.raises(Finding) as caught:
                values(whole.replace(line, ""), seed)
            assert caught.value.kind in kinds
            assert "tcgen05.mma" in str(caught.value)


def second(line: str) -> str:
    return TWICE.replace(f"    {MMA}\n", f"    {MMA}\n    {line}\n", 1)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (MMA.replace("%rd4", "[%r8]"), "the result of a product is no operand of the next"),
        (f"mov.b32 %r26, {WORD - (1 << 17)};" + MMA.replace("%r25, %p5", "%r26, %p6"), "same accumulator and shape"),
        ("tcgen05.cp.cta_group::1.128x128b [%r8], %rd4;", "tcgen05.cp overwrites lane 0, column"),
    ],
)
def test_what_is_not_pipelined(line, says):
    with pytest.raises(Finding) as caught:
        values(second(line), 0)
    assert caught.value.kind == "tensor-memory"
    assert says in str(caught.value)


def test_a_store_is_waited_for_before_the_load():
    body = f"""{prologue(2048, 32)}
    mov.b32 %r40, 5;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {{%r40}};
    tcgen05.wait::st.sync.aligned;
    {load_out(1)}
    {epilogue(32)}"""
    empty = np.zeros(2048, np.uint8)
    np.testing.assert_array_equal(run(body, empty, 512)[0], 5)
    with pytest.raises(Finding, match=r"tcgen05\.wait::st"):
        run(body.replace("    tcgen05.wait::st.sync.aligned;\n", ""), empty, 512)
