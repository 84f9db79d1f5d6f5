"""The judge and the scheduler: correct programs that must pass under every seed, beside wrong ones that must not."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from scalec.emulator.machine.order import Agent, Order, View
from tests.emulator.harness import Out, module, run_ptx

SEEDS = range(6)

# %rd1 and %rd2: the two arrays; %rd3: this thread's element of the second; %r1: thread, %r2: lane, %p1: thread 0
HEAD = """.shared .align 1024 .b8 buf[4096]; .shared .align 8 .b64 bar; .shared .align 8 .b64 bar2;
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %laneid;
    mad.wide.u32 %rd3, %r1, 4, %rd2; setp.eq.u32 %p1, %r1, 0; mov.u32 %r3, buf; setp.lt.u32 %p2, %r2, 16;
"""
DELAY = """mov.u32 %r90, 0; DELAY{0}: add.u32 %r90, %r90, 1; setp.lt.u32 %p9, %r90, 900; @%p9 bra DELAY{0};"""
INIT = """@!%p1 bra READY; mbarrier.init.shared.b64 [bar], 1; mbarrier.init.shared.b64 [bar2], 1;
    fence.mbarrier_init.release.cluster; {} READY: {};"""
COPY = """mbarrier.arrive.expect_tx.shared.b64 _, [{0}], 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf+{1}], [%rd1], 64, [{0}];"""


def wait(label: str, bar: str = "bar") -> str:
    return f"{label}: mbarrier.try_wait.parity.shared.b64 %p8, [{bar}], 0; @!%p8 bra {label};"


def spin(label: str) -> str:
    return f"{label}: ld.acquire.gpu.global.u32 %r80, [%rd1+128]; setp.eq.u32 %p8, %r80, 0; @%p8 bra {label};"


def run(body: str, seed: int, threads: int = 32, ctas: int = 1, **options: object) -> np.ndarray:
    """What the threads left in their elements of the second array; ctas > 1: as one cluster."""
    out = np.zeros(threads, np.uint32)
    run_ptx(
        module(HEAD + body), [np.zeros(64, np.uint32), out], block=(threads, 1, 1), grid=(ctas, 1, 1),
        cluster=(ctas, 1, 1), seed=seed, max_instructions=100_000, **options,
    )  # fmt: skip
    return out


def kinds(body: str, threads: int = 32, ctas: int = 1) -> set[str]:
    """The findings under the seeds."""
    found = set()
    for seed in SEEDS:
        try:
            run(body, seed, threads, ctas)
            found.add("none")
        except Finding as finding:
            found.add(finding.kind)
    return found


# -- barriers and threads that have exited -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("delay", ["", DELAY.format(1)], ids=["early", "late"])
def test_a_barrier_of_all_threads_does_not_wait_for_those_that_exit(seed, delay):
    body = f"setp.lt.u32 %p3, %r1, 64; @%p3 bra STAY; {delay} ret; STAY: bar.sync 0; st.global.u32 [%rd3], 1;"
    assert run(body, seed, 128).tolist() == [1] * 64 + [0] * 64


def test_a_barrier_with_a_count_waits_for_those_that_exit():
    body = "setp.ge.u32 %p3, %r1, 64; @%p3 ret; bar.sync 0, 128;"
    assert kinds(body, 128) == {"deadlock"}


def test_a_thread_that_arrives_and_exits_counts_once():
    body = "setp.lt.u32 %p3, %r1, 64; @%p3 bra S; bar.arrive 1, {0}; ret; S: bar.sync 1, {0};"
    assert kinds(body.format(128), 128) == {"none"}
    assert kinds(body.format(160), 128) == {"deadlock"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "sync", ["barrier.sync 0;", "barrier.sync 0, 64;", "barrier.cluster.arrive; barrier.cluster.wait;"]
)
def test_lanes_wait_at_barriers_while_others_of_their_warp_exit(seed, first, sync):
    stay, leave = f"{sync} st.global.u32 [%rd3], 1; ret;", f"{DELAY.format(1)} ret;"
    body = f"@!%p2 bra HIGH; {stay} HIGH: {leave}" if first else f"@%p2 bra LOW; {leave} LOW: {stay}"
    assert run(body, seed, 64, 2).tolist() == ([1] * 16 + [0] * 16) * 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cta_arrives_at_the_cluster_barrier_and_exits(seed):
    body = f"""mov.u32 %r4, %cluster_ctarank; setp.eq.u32 %p3, %r4, 0; @%p3 bra STAY;
        barrier.cluster.arrive.aligned; ret;
        STAY: {DELAY.format(1)} barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned; st.global.u32 [%rd3], 1;"""
    assert run(body, seed, 32, 2).tolist() == [1] * 32


# -- barriers on diverged paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "sync", ["barrier.sync 1;", "barrier.sync 1, 64;", "barrier.cluster.arrive; barrier.cluster.wait;"]
)
def test_both_paths_of_a_warp_come_to_a_barrier(seed, sync):
    body = f"@%p2 bra LOW; {sync} bra END; LOW: {sync} END: st.global.u32 [%rd3], 1;"
    assert run(body, seed, 64).tolist() == [1] * 64


@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_that_ends_within_a_warp(seed):
    body = "bar.sync 0; @%p2 bra LOW; barrier.sync 1; bra END; LOW: barrier.sync 1; END: st.global.u32 [%rd3], 1;"
    assert run(body, seed, 56).tolist() == [1] * 56


def test_an_aligned_barrier_on_a_diverged_path():
    assert kinds("@%p2 bra LOW; bar.sync 1; bra END; LOW: bar.sync 1; END:", 64) == {"divergence"}


def test_an_arrival_twice_at_the_cluster_barrier():
    assert kinds("barrier.cluster.arrive; @%p2 bra END; barrier.cluster.arrive; END:", ctas=2) == {"barrier"}
    assert kinds("@%p2 barrier.cluster.arrive; barrier.cluster.wait;") == {"barrier"}


@pytest.mark.parametrize("seed", range(12))
def test_a_barrier_is_used_by_other_warps_before_the_first_has_gone_on(seed):
    body = """shr.u32 %r4, %r1, 5; setp.ge.u32 %p3, %r4, 2; @%p3 bra OTHERS; setp.eq.u32 %p3, %r4, 1; @%p3 bra WRITER;
        bar.sync 1, 64; ld.shared.u32 %r5, [buf]; st.global.u32 [%rd3], %r5; ret;
        WRITER: st.shared.u32 [buf], 5; bar.sync 1, 64; bar.arrive 2, 96; ret;
        OTHERS: bar.sync 2, 96; bar.red.popc.u32 %r5, 1, 64, %p1; st.global.u32 [%rd3], %r5;"""
    assert run(body, seed, 128).tolist() == [5] * 32 + [0] * 96
    # what the others did before their use of it, the first has not observed
    wrong = body.replace("bar.sync 2, 96;", "bar.sync 2, 96; @%p2 st.shared.u32 [buf+4], 5;")
    with pytest.raises(Finding) as caught:
        run(wrong.replace("ld.shared.u32 %r5, [buf];", "ld.shared.u32 %r5, [buf+4];"), seed, 128)
    assert caught.value.kind in ("race", "uninitialised")


@pytest.mark.parametrize("seed", SEEDS)
def test_bar_warp_sync_in_different_places(seed):
    body = """mov.u32 %r4, 0; @%p2 bra LOW;
        HIGH: bar.warp.sync -1; add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 5; @%p3 bra HIGH; bra END;
        LOW: bar.warp.sync -1; add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 5; @%p3 bra LOW;
        END: st.global.u32 [%rd3], %r4;"""
    assert run(body, seed).tolist() == [5] * 32
    once_more = body.replace("%r4, 5; @%p3 bra LOW", "%r4, 6; @%p3 bra LOW")
    with pytest.raises(Finding, match="lanes 16-31 of CTA 0 warp 0 are elsewhere") as caught:
        run(once_more, seed)
    assert caught.value.kind == "divergence"


def test_bar_warp_sync_does_not_wait_for_lanes_that_exit():
    assert kinds("@%p2 bra LOW; bar.warp.sync -1; ret; LOW: ret;") == {"none"}


# -- waiting for oneself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_two_paths_of_a_warp_wait_for_copies(seed):
    body = INIT.format(COPY.format("bar", 0) + COPY.format("bar2", 64), "bar.warp.sync -1") + (
        f"@%p2 bra LOW; {wait('A')} bra END; LOW: {wait('B', 'bar2')} END: st.global.u32 [%rd3], 1;"
    )
    assert run(body, seed).tolist() == [1] * 32


def test_two_paths_of_a_warp_wait_forever():
    body = INIT.format("", "bar.warp.sync -1") + f"@%p2 bra LOW; {wait('A')} bra END; LOW: {wait('B', 'bar2')} END:"
    for seed in SEEDS:
        with pytest.raises(Finding) as caught:
            run(body, seed)
        assert caught.value.kind == "deadlock"
        assert "lanes 0-15, at line" in caught.value.message
        assert "lanes 16-31, at line" in caught.value.message


@pytest.mark.parametrize("seed", SEEDS)
def test_an_outer_path_runs_while_the_inner_ones_wait(seed):
    # lanes 0-7 and 8-15 wait for what lanes 16-31 do
    body = (
        INIT.format("", "bar.warp.sync -1")
        + f"""@!%p2 bra HIGH; setp.lt.u32 %p3, %r2, 8; @%p3 bra LOW;
        {wait("A")} bra INNER; LOW: {wait("B")} INNER: st.global.u32 [%rd3], 1; bra END;
        HIGH: setp.eq.u32 %p4, %r2, 31; @%p4 mbarrier.arrive.shared.b64 _, [bar]; END:"""
    )
    assert run(body, seed).tolist() == [1] * 16 + [0] * 16


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("pause", ["", DELAY.format(1)], ids=["busy", "pausing"])
def test_a_warp_spins_until_another_has_its_copy(seed, pause):
    body = (
        INIT.format(COPY.format("bar", 0), "bar.sync 0")
        + f"""setp.ge.u32 %p3, %r1, 32; @%p3 bra SPIN;
        {wait("A")} @%p1 st.release.gpu.global.u32 [%rd1+128], 1; ret; SPIN: {pause}
        ld.acquire.gpu.global.u32 %r80, [%rd1+128]; setp.eq.u32 %p8, %r80, 0; @%p8 bra SPIN; st.global.u32 [%rd3], 1;"""
    )
    assert run(body, seed, 64).tolist() == [0] * 32 + [1] * 32


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("fetch", [False, True], ids=["load", "atom"])
def test_lanes_spin_until_others_of_their_warp_have_their_copy(seed, first, fetch):
    spinning = spin("SPIN")
    if fetch:
        spinning = spinning.replace(
            "ld.acquire.gpu.global.u32 %r80, [%rd1+128]", "atom.acquire.gpu.add.u32 %r80, [%rd1+128], 0"
        )
    body = (
        INIT.format(COPY.format("bar", 0), "bar.warp.sync -1")
        + f"""@{"" if first else "!"}%p2 bra OTHER;
        {wait("A")} setp.eq.u32 %p4, %r2, {16 if first else 0}; @%p4 st.release.gpu.global.u32 [%rd1+128], 1; bra END;
        OTHER: {spinning} st.global.u32 [%rd3], 1; END:"""
    )
    assert run(body, seed).sum() == 16


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("threads", [12, 40])
@pytest.mark.parametrize("after", ["", "bar.sync 0;", "bar.warp.sync -1; bar.sync 0;"], ids=["end", "bar", "both"])
def test_a_lock_that_lanes_of_a_warp_take_in_turn(seed, threads, after):
    """Threads of a warp make progress by themselves (CUDA C++ Programming Guide, "Independent Thread Scheduling"): who
    has the lock goes on though others of its warp spin for it."""
    body = f"""LOCK: atom.acquire.gpu.global.cas.b32 %r80, [%rd1+64], 0, 1; setp.ne.u32 %p8, %r80, 0; @%p8 bra LOCK;
        ld.relaxed.gpu.global.u32 %r5, [%rd1+68]; add.u32 %r5, %r5, 1; st.relaxed.gpu.global.u32 [%rd1+68], %r5;
        atom.release.gpu.global.exch.b32 %r81, [%rd1+64], 0; {after} st.global.u32 [%rd3], %r5;"""
    assert sorted(run(body, seed, threads).tolist()) == list(range(1, threads + 1))


def test_a_lock_that_is_never_given_back():
    body = """LOCK: atom.acquire.gpu.global.cas.b32 %r80, [%rd1+64], 0, 1; setp.ne.u32 %p8, %r80, 0; @%p8 bra LOCK;
        st.global.u32 [%rd3], 1;"""
    with pytest.raises(Finding, match="has executed") as caught:
        run_ptx(module(HEAD + body), [np.zeros(64, np.uint32), np.zeros(32, np.uint32)], max_instructions=1000)
    assert caught.value.kind == "deadlock"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("wake", [spin("B"), wait("B", "bar2")], ids=["spin", "wait"])
def test_a_look_at_a_barrier_is_not_a_wait(seed, wake):
    body = (
        INIT.format("", "bar.sync 0")
        + f"""setp.ge.u32 %p3, %r1, 32; @%p3 bra B;
        mbarrier.try_wait.parity.shared.b64 %p5, [bar], 0; @!%p1 bra NEXT; mbarrier.arrive.shared.b64 _, [bar2];
        st.release.gpu.global.u32 [%rd1+128], 1; NEXT: @%p5 bra END; {wait("A")} bra END;
        {wake} setp.eq.u32 %p4, %r1, 32; @%p4 mbarrier.arrive.shared.b64 _, [bar]; END: st.global.u32 [%rd3], 1;"""
    )
    assert run(body, seed, 64).tolist() == [1] * 64


# -- the order's vectors -----------------------------------------------------------------------------------------------


def test_more_mbarriers_than_the_vectors_had_places_for():
    body = """.shared .align 8 .b8 many[8192]; mov.u32 %r4, many; mov.u32 %r5, 0; @!%p1 ret;
        L: mbarrier.init.shared.b64 [%r4], 1; mbarrier.arrive.shared.b64 _, [%r4];
        mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0; add.u32 %r4, %r4, 8; add.u32 %r5, %r5, 1;
        setp.lt.u32 %p4, %r5, 1000; @%p4 bra L; st.global.u32 [%rd3], %r5;"""
    assert run(body, 0)[0] == 1000


def test_every_thread_copies_out():
    body = """shl.b32 %r4, %r1, 4; add.u32 %r5, %r3, %r4; cvt.u64.u32 %rd4, %r4; add.u64 %rd4, %rd2, %rd4;
        st.shared.v4.u32 [%r5], {%r1, %r1, %r1, %r1}; fence.proxy.async;
        cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r5], 16; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;"""
    out = Out(16 * 256)
    run_ptx(module(HEAD + body), [np.zeros(1, np.uint32), out], block=(256, 1, 1))
    assert out.view(np.uint32).tolist() == np.repeat(np.arange(256), 4).tolist()


def test_views_grow_with_the_agents():
    order = Order(1, 2)
    first, second, view = Agent(order, "a"), Agent(order, "b"), order.view()
    early = View(order.capacity)
    third = Agent(order, "c")
    assert len(first.seen) == len(second.seen) == len(third.seen) == len(view.seen) == order.capacity == 4
    third.release(early)
    second.join(early)
    assert second.seen[third.index] == 1
    assert order.first_unseen(np.array([third.epoch]), second.seen) == third.epoch
    first.join(View(2))
    assert len(first.seen) == 4


def test_epochs_of_a_launch_of_many_clusters():
    order = Order(300_000, 2)
    agent = Agent(order, "a")
    assert 0 < agent.epoch < 1 << 63
    assert order.describe(agent.epoch) == "a"
