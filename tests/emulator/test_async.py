"""mbarriers, bulk copies and their judge: a pipeline that is right, and what is said when a part of it is taken out."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import Out, module, run_ptx

SEEDS = range(6)

# 128 threads; thread 0 loads 4096 bytes, all add 1 to every word, thread 0 stores them
PIPELINE = """
    .shared .align 1024 .b8 buf[4096];
    .shared .align 8 .b64 bar;
    mov.u32 %r1, %tid.x;
    mov.b32 %r2, bar;
    mov.b32 %r3, buf;
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    @%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 4096;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 4096, [%r2];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    shl.b32 %r4, %r1, 5;
    add.u32 %r4, %r3, %r4;
    mov.u32 %r5, 0;
LOOP:
    ld.shared.u32 %r6, [%r4];
    add.u32 %r6, %r6, 1;
    st.shared.u32 [%r4], %r6;
    add.u32 %r4, %r4, 4;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p3, %r5, 8;
    @%p3 bra LOOP;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r3], 4096;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
"""


def run_pipeline(body: str, seed: int) -> np.ndarray:
    data, out = np.arange(1024, dtype=np.uint32), Out(4096)
    run_ptx(module(body), [data, out], block=(128, 1, 1), seed=seed)
    assert out.written is not None
    assert out.written.all()
    return out.view(np.uint32)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_pipeline_is_clean_whatever_the_seed(seed):
    np.testing.assert_array_equal(run_pipeline(PIPELINE, seed), np.arange(1, 1025))


@pytest.mark.parametrize(
    ("old", "new", "kind", "says"),
    [
        ("    fence.proxy.async.shared::cta;\n", "", "proxy", "fence"),
        ("    bar.sync 0;\n    @%p1 bra END;", "    @%p1 bra END;", "race", "warp"),
        ("    bar.sync 0;\n    @%p1 bra WAIT;", "    @%p1 bra WAIT;", "barrier", "mbarrier"),
        ("[%r2], 4096;\n    cp", "[%r2], 4080;\n    cp", "deadlock|barrier|race|in-flight", "mbarrier"),
        ("[%r2], 4096;\n    cp", "[%r2], 4112;\n    cp", "deadlock", "16 bytes"),
        ("mbarrier.init.shared.b64 [%r2], 1", "mbarrier.init.shared.b64 [%r2], 2", "deadlock", "1 of 2 arrivals"),
        ("%p2, [%r2], 0;", "%p2, [%r2], 1;", "in-flight|race|uninitialised", "mbarrier|never written"),
        ("    cp.async.bulk.wait_group 0;\n", "", "exit-read", "wait_group"),
        ("    mbarrier.init.shared.b64 [%r2], 1;\n", "", "barrier", "mbarrier.init"),
        ("[%rd2], [%r3], 4096;", "[%rd2], [%r3], 4104;", "alignment", "16"),
        ("[%rd2], [%r3], 4096;", "[%rd2+16], [%r3], 4096;", "bounds", "argument 1"),
    ],
)
def test_a_part_taken_out_is_found(old, new, kind, says):
    assert PIPELINE.count(old) == 1
    broken = PIPELINE.replace(old, new)
    for seed in SEEDS:
        with pytest.raises(Finding) as caught:
            run_pipeline(broken, seed)
        assert caught.value.kind in kind.split("|"), caught.value
        assert any(word in str(caught.value) for word in says.split("|")), caught.value
        assert "line" in caught.value.where or caught.value.kind in ("deadlock", "in-flight", "exit-read"), caught.value


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fence_is_for_what_came_before_it(seed):
    """Also where nothing but the fence stands between that and what came after."""
    fence, store = "    fence.proxy.async.shared::cta;\n", "    st.shared.u32 [%r4], %r6;\n"
    early = PIPELINE.replace(fence, "").replace(store, f"{fence}{store}")
    with pytest.raises(Finding) as caught:
        run_pipeline(early, seed)
    assert caught.value.kind == "proxy"


def test_a_wait_that_is_not_repeated_is_found_by_some_seed():
    broken = PIPELINE.replace("    @!%p2 bra WAIT;\n", "")
    kinds = []
    for seed in SEEDS:
        try:
            run_pipeline(broken, seed)
        except Finding as finding:
            kinds.append(finding.kind)
    assert kinds
    assert set(kinds) <= {"in-flight", "race", "uninitialised"}


ARRIVES = "    mbarrier.arrive.shared.b64 _, [%r2];\n"
WAITS = """WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
"""


@pytest.mark.parametrize("between", [WAITS, ""], ids=["waits", "does not"])
def test_a_phase_completes_that_somebody_waited_for_the_one_before(between: str):
    begin = "    .shared .align 8 .b64 bar;\n    mov.b32 %r2, bar;\n    mbarrier.init.shared.b64 [%r2], 1;\n"
    body = module(f"{begin}{ARRIVES}{between}{ARRIVES}")
    if between:
        run_ptx(body, [Out(8), Out(8)], block=(1, 1, 1))
        return
    with pytest.raises(Finding, match="nobody has waited for phase 0") as found:
        run_ptx(body, [Out(8), Out(8)], block=(1, 1, 1))
    assert found.value.kind == "barrier"


def test_a_deadlock_names_every_waiting_warp():
    broken = PIPELINE.replace("mbarrier.init.shared.b64 [%r2], 1", "mbarrier.init.shared.b64 [%r2], 2")
    with pytest.raises(Finding) as caught:
        run_pipeline(broken, 0)
    assert "warps 0-3 of CTA 0, all lanes" in caught.value.message
    assert "parity 0" in caught.value.message


CP_ASYNC = """
    .shared .align 16 .b8 buf[2048];
    mov.u32 %r1, %tid.x;
    mov.b32 %r3, buf;
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    shl.b32 %r4, %r1, 4;
    add.u32 %r5, %r3, %r4;
    cvt.u64.u32 %rd3, %r4;
    add.u64 %rd4, %rd1, %rd3;
    cp.async.cg.shared.global [%r5], [%rd4], 16;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    xor.b32 %r6, %r4, 2032;
    add.u32 %r7, %r3, %r6;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r7];
    add.u64 %rd5, %rd2, %rd3;
    st.global.v4.u32 [%rd5], {%r10, %r11, %r12, %r13};
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_cp_async(seed):
    data, out = np.arange(512, dtype=np.uint32), Out(2048)
    run_ptx(module(CP_ASYNC), [data, out], block=(128, 1, 1), seed=seed)
    np.testing.assert_array_equal(out.view(np.uint32).reshape(128, 4), data.reshape(128, 4)[::-1])


COPY = "cp.async.cg.shared.global [%r5], [%rd4], 16;"


def test_cp_async_reads_no_more_than_it_is_told() -> None:
    """Zeros stand for what it does not: thread i reads i % 24 bytes, 16 at most, of memory that ends there."""
    size = "rem.u32 %r9, %r1, 24;\n    min.u32 %r9, %r9, 16;\n    "
    out, data = Out(2048), np.arange(1, 2049).astype(np.uint8)[: 127 * 16 + 127 % 24]
    run_ptx(module(CP_ASYNC.replace(COPY, size + COPY.replace("16;", "16, %r9;"))), [data, out], block=(128, 1, 1))
    rows = np.zeros((128, 16), np.uint8)
    rows.reshape(-1)[: len(data)] = data
    rows[np.arange(16) >= np.minimum(np.arange(128) % 24, 16)[:, None]] = 0
    np.testing.assert_array_equal(out.view(np.uint8).reshape(128, 16), rows[::-1])


def test_cp_async_of_an_ignored_source_reads_nothing() -> None:
    """Nor is its address one: every third thread has none."""
    where = "rem.u32 %r9, %r1, 3;\n    setp.eq.u32 %p1, %r9, 0;\n    @%p1 add.u64 %rd4, %rd4, 0x7000000000000000;\n    "
    out, data = Out(2048), np.arange(512, dtype=np.uint32)
    body = CP_ASYNC.replace(COPY, where + COPY.replace("16;", "16, %p1;"))
    run_ptx(module(body), [data, out], block=(128, 1, 1))
    rows = np.where((np.arange(128) % 3 == 0)[:, None], 0, data.reshape(128, 4))
    np.testing.assert_array_equal(out.view(np.uint32).reshape(128, 4), rows[::-1])


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("    cp.async.wait_group 0;\n", ("in-flight", "race")),
        ("    bar.sync 0;\n", ("in-flight", "race", "uninitialised")),
    ],
)
def test_cp_async_without_a_wait(line, kinds):
    assert CP_ASYNC.count(line) == 1
    for seed in SEEDS:
        with pytest.raises(Finding) as caught:
            run_ptx(module(CP_ASYNC.replace(line, "")), [np.arange(512, dtype=np.uint32), Out(2048)],
                    block=(128, 1, 1), seed=seed)  # fmt: skip
        assert caught.value.kind in kinds


# a cluster of two: rank 0 multicasts to both, each tells the other that it is done
MULTICAST = """
    .shared .align 1024 .b8 buf[1024];
    .shared .align 8 .b64 bar;
    mov.u32 %r1, %tid.x;
    mov.b32 %r2, bar;
    mov.b32 %r3, buf;
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    mov.u32 %r8, %cluster_ctarank;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;
READY:
    bar.warp.sync -1;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    setp.ne.u32 %p4, %r8, 0;
    or.pred %p5, %p4, %p1;
    @%p5 bra WAIT;
    mov.b16 %h1, 3;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r3], [%rd1], 1024, [%r2], %h1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    shl.b32 %r4, %r1, 5;
    add.u32 %r4, %r3, %r4;
    ld.shared.u32 %r6, [%r4];
    mov.u32 %r9, %ctaid.x;
    shl.b32 %r9, %r9, 7;
    shl.b32 %r10, %r1, 2;
    add.u32 %r9, %r9, %r10;
    cvt.u64.u32 %rd5, %r9;
    add.u64 %rd5, %rd2, %rd5;
    st.global.u32 [%rd5], %r6;
    barrier.cluster.arrive;
    barrier.cluster.wait;
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_multicast_in_a_cluster(seed):
    data, out = np.arange(256, dtype=np.uint32), Out(512)
    run_ptx(module(MULTICAST), [data, out], grid=(4, 1, 1), cluster=(2, 1, 1), seed=seed)
    data_rows = np.tile(data[::8], (4, 1))
    np.testing.assert_array_equal(out.view(np.uint32).reshape(4, 32)[:, :], data_rows)


def test_without_the_fence_other_ctas_may_not_see_the_initialisation():
    hidden = MULTICAST.replace("    fence.mbarrier_init.release.cluster;\n", "")
    for seed in SEEDS:
        with pytest.raises(Finding, match="initialisation was not fenced"):
            run_ptx(module(hidden), [np.arange(256, dtype=np.uint32), Out(256)], grid=(2, 1, 1), cluster=(2, 1, 1),
                    seed=seed)  # fmt: skip


def test_multicast_before_the_cluster_is_ready_is_found():
    early = MULTICAST.replace("    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n", "")
    for seed in SEEDS:
        with pytest.raises(Finding) as caught:
            run_ptx(module(early), [np.arange(256, dtype=np.uint32), Out(256)], grid=(2, 1, 1), cluster=(2, 1, 1),
                    seed=seed)  # fmt: skip
        assert caught.value.kind in ("barrier", "deadlock", "bounds"), caught.value
