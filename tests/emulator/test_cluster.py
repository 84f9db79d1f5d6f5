"""Stores between the CTAs of a cluster, and launch control."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import Out, module, run_ptx

SEEDS = range(5)

# every thread of a CTA stores its number plus 100 * rank into the other CTA, which waits for 128 bytes
REMOTE = """
    .shared .align 16 .b8 buf[128];
    .shared .align 8 .b64 bar;
    mov.u32 %r1, %tid.x;
    mov.u32 %r8, %cluster_ctarank;
    mov.b32 %r2, bar;
    mov.b32 %r3, buf;
    ld.param.u64 %rd2, [p0];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;
READY:
    bar.warp.sync -1;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    xor.b32 %r9, %r8, 1;
    mapa.shared::cluster.u32 %r10, %r3, %r9;
    mapa.shared::cluster.u32 %r11, %r2, %r9;
    shl.b32 %r12, %r1, 2;
    add.u32 %r10, %r10, %r12;
    mad.lo.u32 %r13, %r8, 100, %r1;
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r10], %r13, [%r11];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    add.u32 %r14, %r3, %r12;
    ld.shared.u32 %r15, [%r14];
    mad.lo.u32 %r16, %r8, 128, %r12;
    cvt.u64.u32 %rd5, %r16;
    add.u64 %rd5, %rd2, %rd5;
    st.global.u32 [%rd5], %r15;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""
ONE = ".param .u64 p0"


def run_remote(body: str, seed: int, **options: Any) -> np.ndarray:
    out = Out(256)
    run_ptx(module(body, ONE), [out], grid=(2, 1, 1), cluster=(2, 1, 1), seed=seed, **options)
    return out.view(np.uint32).reshape(2, 32)


@pytest.mark.parametrize("seed", SEEDS)
def test_st_async(seed):
    np.testing.assert_array_equal(run_remote(REMOTE, seed), np.arange(32) + np.array([[100], [0]]))


def test_sixteen_bytes_at_once():
    """One lane of eight stores what it and the next three would."""
    store = "    .reg .b128 %q1; .reg .pred %p3; and.b32 %r17, %r1, 3; setp.ne.u32 %p3, %r17, 0;\n"
    store += "    add.u32 %r18, %r13, 1; add.u32 %r19, %r13, 2; add.u32 %r20, %r13, 3;\n"
    store += "    mov.b64 %rd7, {%r13, %r18}; mov.b64 %rd8, {%r19, %r20}; mov.b128 %q1, {%rd7, %rd8};\n"
    store += "    @!%p3 st.async.shared::cluster.mbarrier::complete_tx::bytes.b128 [%r10], %q1, [%r11];\n"
    wide = "".join(store if "st.async" in line else line for line in REMOTE.splitlines(keepends=True))
    for seed in SEEDS:
        np.testing.assert_array_equal(run_remote(wide, seed), np.arange(32) + np.array([[100], [0]]))


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("    @!%p2 bra WAIT;\n    add", "    add", {"in-flight", "race", "uninitialised"}),
        ("_, [%r2], 128;", "_, [%r2], 132;", {"deadlock"}),
        ("mapa.shared::cluster.u32 %r11, %r2, %r9;", "mov.b32 %r11, %r2;", {"barrier"}),
        ("add.u32 %r10, %r10, %r12;", "add.u32 %r10, %r10, 4;", {"in-flight", "race"}),
    ],
)
def test_st_async_done_wrong(old, new, kinds):
    assert REMOTE.count(old) == 1
    found = set()
    for seed in SEEDS:
        try:
            run_remote(REMOTE.replace(old, new), seed)
        except Finding as finding:
            found.add(finding.kind)
    assert found
    assert found <= kinds


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cta_waits_for_a_store_to_it_before_it_exits(seed):
    """Found too where it happens to land before."""
    one = REMOTE.replace("    st.async", "    @!%p1 st.async").replace("_, [%r2], 128;", "_, [%r2], 4;")
    begin, rest = one.split("WAIT:\n")
    wait, _ = rest.split("    add.u32 %r14")
    end = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"
    run_remote(f"{begin}WAIT:\n{wait}{end}", seed)
    long = "    mov.u32 %r14, 2000;\nAGAIN:\n    sub.u32 %r14, %r14, 1;\n    setp.ne.u32 %p2, %r14, 0;\n"
    long += "    @%p2 bra AGAIN;\n"
    with pytest.raises(Finding, match="exits") as caught:
        run_remote(begin + long + end, seed)
    assert caught.value.kind in ("race", "in-flight")


# each CTA arrives at an mbarrier of the other one
LATE = """
    .shared .align 8 .b64 bar;
    mov.u32 %r8, %cluster_ctarank;
    mov.u32 %r1, %tid.x;
    mov.b32 %r2, bar;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.warp.sync -1;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    xor.b32 %r9, %r8, 1;
    mapa.shared::cluster.u32 %r11, %r2, %r9;
    @%p1 bra END;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];
END:
    TAIL
"""


MEET = "bar.warp.sync -1;\n barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;"


def test_the_last_use_must_be_known_before_the_exit():
    for seed in SEEDS:
        run_ptx(module(LATE.replace("TAIL", MEET), ONE), [Out(4)], grid=(2, 1, 1), cluster=(2, 1, 1), seed=seed)
        with pytest.raises(Finding) as caught:
            run_ptx(module(LATE.replace("TAIL", ""), ONE), [Out(4)], grid=(2, 1, 1), cluster=(2, 1, 1), seed=seed)
        assert caught.value.kind in ("race", "bounds")


def test_a_phase_tells_of_a_relaxed_arrival_in_it():
    """Whoever has seen it complete may exit, as CTAs of a pair do that hand accumulators back (9.7.16.6.4.4); so may
    who has met the other one, whose barrier releases."""
    relaxed = LATE.replace("arrive.release.cluster", "arrive.relaxed.cluster")
    wait = "WAIT:\n    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n    @!%p2 bra WAIT;\n"
    for seed in SEEDS:
        launch = {"grid": (2, 1, 1), "cluster": (2, 1, 1), "seed": seed}
        for tail in (wait, MEET):
            run_ptx(module(relaxed.replace("TAIL", tail), ONE), [Out(4)], **launch)
        with pytest.raises(Finding, match="exit") as caught:
            run_ptx(module(relaxed.replace("TAIL", ""), ONE), [Out(4)], **launch)
        assert caught.value.kind in ("race", "bounds")


# each CTA writes its index and that of who it was that did so, and goes on with the CTAs that have not begun
CONTROL = """
    .shared .align 16 .b8 response[16];
    .shared .align 8 .b64 bar;
    mov.b32 %r2, bar;
    mov.b32 %r3, response;
    ld.param.u64 %rd2, [p0];
    mov.u32 %r5, %ctaid.x;
    mov.u32 %r12, %ctaid.x;
    mov.b32 %r7, 0;
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
NEXT:
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r3], [%r2];
    mul.wide.u32 %rd3, %r5, 4;
    add.u64 %rd3, %rd2, %rd3;
    st.global.u32 [%rd3], %r5;
    st.global.u32 [%rd3+44], %r12;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r7;
    @!%p2 bra WAIT;
    xor.b32 %r7, %r7, 1;
    ld.shared.v2.b64 {%rd4, %rd5}, [%r3];
    mov.b128 %q1, {%rd4, %rd5};
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;
    @!%p3 bra END;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r5, %r10, %r11, _}, %q1;
    fence.proxy.async.shared::cta;
    bra NEXT;
END:
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_launch_control_visits_every_cta_once(seed):
    out = Out(2 * 4 * 11)
    stats = run_ptx(module(CONTROL, ONE, target="sm_100a"), [out], grid=(11, 1, 1), block=(1, 1, 1), seed=seed)
    np.testing.assert_array_equal(out.view(np.uint32)[:11], np.arange(11))
    # each request takes a CTA over, but the last of each that began
    assert stats.bytes["launch control -> shared"] == 16 * 11


def test_a_request_may_fail_while_there_are_clusters():
    """Those then begin by themselves: more than the four that do at the start."""
    began = []
    for seed in SEEDS:
        out = Out(2 * 4 * 11)
        run_ptx(module(CONTROL, ONE, target="sm_100a"), [out], grid=(11, 1, 1), block=(1, 1, 1), seed=seed)
        who = out.view(np.uint32)[11:]
        began.append(int((who == np.arange(11)).sum()))
        assert set(who.tolist()) <= set(np.flatnonzero(who == np.arange(11)).tolist())
    assert max(began) > 4
    assert min(began) < 11


def test_a_response_is_fenced_before_the_next_request_overwrites_it():
    bare = CONTROL.replace("    fence.proxy.async.shared::cta;\n", "")
    assert bare != CONTROL
    with pytest.raises(Finding) as caught:
        run_ptx(module(bare, ONE, target="sm_100a"), [Out(88)], grid=(11, 1, 1), block=(1, 1, 1))
    assert caught.value.kind == "proxy"


# two requests at the same time, of which both may fail
TWO = """
    .shared .align 16 .b8 response[32];
    .shared .align 8 .b64 bar;
    mov.b32 %r2, bar;
    mov.b32 %r3, response;
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 32;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r3], [%r2];
    add.u32 %r4, %r3, 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r4], [%r2];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    ld.shared.v2.b64 {%rd4, %rd5}, [%r4];
    mov.b128 %q1, {%rd4, %rd5};
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;
    selp.u32 %r5, 1, 0, %p3;
    ld.param.u64 %rd2, [p0];
    st.global.u32 [%rd2], %r5;
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_request_beside_one_that_fails_is_none_after_it(seed):
    """What is undefined is a request after a failure that the CTA has observed."""
    out = Out(4)
    run_ptx(module(TWO, ONE, target="sm_100a"), [out], block=(1, 1, 1), seed=seed)
    assert out.view(np.uint32)[0] == 0


def test_launch_control_is_not_of_hopper():
    with pytest.raises(Finding, match="needs sm_100"):
        run_ptx(module(CONTROL, ONE), [Out(88)], block=(1, 1, 1))


def test_a_request_after_a_refusal():
    again = CONTROL.replace("@!%p3 bra END;\n    clusterlaunchcontrol", "@%p3 clusterlaunchcontrol")
    assert again != CONTROL
    with pytest.raises(Finding, match="after one that failed") as caught:
        run_ptx(module(again, ONE, target="sm_100a"), [Out(88)], block=(1, 1, 1))
    assert caught.value.kind == "illegal"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_relaxed_arrival_publishes_what_was_fenced(seed):
    relaxed = REMOTE.replace("barrier.cluster.arrive.aligned", "barrier.cluster.arrive.relaxed.aligned", 1)
    np.testing.assert_array_equal(run_remote(relaxed, seed), np.arange(32) + np.array([[100], [0]]))


def test_a_relaxed_arrival_publishes_nothing_else():
    relaxed = REMOTE.replace("barrier.cluster.arrive.aligned", "barrier.cluster.arrive.relaxed.aligned", 1)
    for seed in SEEDS:
        for kind, options in (("relaxed-barrier", {}), ("proxy", {"check": frozenset()})):
            with pytest.raises(Finding) as caught:
                run_remote(relaxed.replace("    fence.mbarrier_init.release.cluster;\n", ""), seed, **options)
            assert caught.value.kind == kind


def test_the_ctas_of_a_cluster_are_drawn_on_request() -> None:
    """Of a cluster of 2 x 2, the places in the grid by rank; %cluster_ctaid is of the rank."""
    body = """.reg .b32 %c<8>; ld.param.u64 %rd1, [p0]; mov.u32 %r1, %cluster_ctarank;
    mov.u32 %c1, %ctaid.x; mov.u32 %c2, %ctaid.y;
    mad.lo.u32 %c3, %c2, 2, %c1;
    mov.u32 %c4, %cluster_ctaid.x; mov.u32 %c5, %cluster_ctaid.y;
    mad.lo.u32 %c6, %c5, 2, %c4; mad.lo.u32 %c3, %c6, 10, %c3; mad.wide.u32 %rd2, %r1, 4, %rd1;
    st.global.u32 [%rd2], %c3;"""

    def places(seed: int, check: frozenset[str]) -> tuple[int, ...]:
        out, shape = Out(16), (2, 2, 1)
        run_ptx(
            module(body, ".param .u64 p0"), [out], seed=seed, check=check, grid=shape, cluster=shape, block=(1, 1, 1)
        )
        return tuple(int(x) for x in out.view(np.uint32))

    assert {places(seed, frozenset()) for seed in range(6)} == {(0, 11, 22, 33)}
    drawn = {places(seed, frozenset({"cta-ids"})) for seed in range(6)}
    assert len(drawn) > 2
    assert all(sorted(x % 10 for x in p) == [0, 1, 2, 3] and [x // 10 for x in p] == [0, 1, 2, 3] for p in drawn)
