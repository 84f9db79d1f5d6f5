"""Release and acquire through memory: PTX ISA 8.8, 9.7.13.4. Threads pass a message, and are judged for it."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import module, run_ptx

# p0: the message and, 64 bytes on, the flag; p1: where the reader puts what it read. Writer and reader are one warp of
# each of two CTAs, or the two warps of one.
MESSAGE = """
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];
    {who} mov.u32 %r9, %laneid; setp.ne.u32 %p9, %r9, 0; @%p9 bra done;
    setp.ne.u32 %p0, %r0, 0; @%p0 bra reader;
    st.global.b32 [%rd0], 42;
    {write}
    bra done;
reader:
    {read}
    setp.eq.u32 %p1, %r1, 0; @%p1 bra reader;
    {after}
    ld.global.b32 %r2, [%rd0];
    st.global.b32 [%rd1], %r2;
done:
"""
# where the two are: what tells them apart, launch, the narrowest scope that includes both
PLACES = {
    "cta": ("mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5;", {"block": (64, 1, 1)}, "cta"),
    "cluster": ("mov.u32 %r0, %cluster_ctarank;", {"grid": (2, 1, 1), "cluster": (2, 1, 1)}, "cluster"),
    "grid": ("mov.u32 %r0, %ctaid.x;", {"grid": (2, 1, 1)}, "gpu"),
}
NARROWER = {"cluster": "cta", "gpu": "cluster"}


def send(place: str, write: str, read: str, after: str = "") -> None:
    """Runs the message with some seeds; every one must deliver it."""
    who, launch, scope = PLACES[place]
    text = MESSAGE.format(who=who, write=write, read=read, after=after).replace("SCOPE", scope)
    for seed in range(4):
        memory, out = np.zeros(32, np.uint32), np.zeros(1, np.uint32)
        run_ptx(module(text), [memory, out], seed=seed, **launch)
        assert out.tolist() == [42]


def races(place: str, write: str, read: str, after: str = "") -> bool:
    with pytest.raises(Finding) as found:
        send(place, write, read, after)
    assert "written by" in found.value.message
    return found.value.kind == "race"


RELEASE = "st.release.SCOPE.global.b32 [%rd0+64], 1;"
ACQUIRE = "ld.acquire.SCOPE.global.b32 %r1, [%rd0+64];"
RELAXED_WRITE = "st.relaxed.SCOPE.global.b32 [%rd0+64], 1;"
RELAXED_READ = "ld.relaxed.SCOPE.global.b32 %r1, [%rd0+64];"
everywhere = pytest.mark.parametrize("place", PLACES)


@everywhere
def test_release_and_acquire(place):
    send(place, RELEASE, ACQUIRE)


@everywhere
def test_relaxed_flags_need_fences_on_both_sides(place):
    fence = "fence.acq_rel.SCOPE;"
    send(place, fence + RELAXED_WRITE, RELAXED_READ, fence)
    send(place, fence + RELAXED_WRITE, ACQUIRE)
    send(place, RELEASE, RELAXED_READ, fence)
    assert races(place, RELAXED_WRITE, RELAXED_READ)
    assert races(place, fence + RELAXED_WRITE, RELAXED_READ)
    assert races(place, RELAXED_WRITE, RELAXED_READ, fence)
    # a fence after the flag, or before the read of it, is none between message and flag
    assert races(place, RELAXED_WRITE + fence, RELAXED_READ, fence)
    assert races(place, fence + RELAXED_WRITE, fence + RELAXED_READ)


@everywhere
def test_kinds_of_fences(place):
    send(place, "fence.sc.SCOPE;" + RELAXED_WRITE, RELAXED_READ, "fence.sc.SCOPE;")
    send(place, "fence.release.SCOPE;" + RELAXED_WRITE, RELAXED_READ, "fence.acquire.SCOPE;")
    send(place, "membar.gl;" + RELAXED_WRITE, RELAXED_READ, "membar.gl;")
    send(place, "fence.SCOPE;" + RELAXED_WRITE, RELAXED_READ, "fence.SCOPE;")
    assert races(place, "fence.acquire.SCOPE;" + RELAXED_WRITE, RELAXED_READ, "fence.acquire.SCOPE;")
    assert races(place, "fence.release.SCOPE;" + RELAXED_WRITE, RELAXED_READ, "fence.release.SCOPE;")


@everywhere
def test_volatile_is_relaxed(place):
    write, read = "st.volatile.global.b32 [%rd0+64], 1;", "ld.volatile.global.b32 %r1, [%rd0+64];"
    send(place, "membar.gl;" + write, read, "membar.gl;")
    assert races(place, write, read)


@everywhere
def test_atomics_release_and_acquire(place):
    send(place, "red.release.SCOPE.global.add.u32 [%rd0+64], 1;", ACQUIRE)
    send(
        place,
        "atom.acq_rel.SCOPE.global.exch.b32 %r3, [%rd0+64], 1;",
        "atom.acquire.SCOPE.global.or.b32 %r1, [%rd0+64], 0;",
    )
    send(
        place,
        "atom.release.SCOPE.global.cas.b32 %r3, [%rd0+64], 0, 1;",
        "atom.acq_rel.SCOPE.global.add.u32 %r1, [%rd0+64], 0;",
    )
    # atom's default is .relaxed
    assert races(place, "red.global.add.u32 [%rd0+64], 1;", ACQUIRE)


@pytest.mark.parametrize("place", ["cluster", "grid"])
def test_scopes_must_include_the_other_side(place):
    narrow = NARROWER[PLACES[place][2]]
    assert races(place, RELEASE.replace("SCOPE", narrow), ACQUIRE)
    assert races(place, RELEASE, ACQUIRE.replace("SCOPE", narrow))
    assert races(place, f"fence.acq_rel.{narrow};" + RELAXED_WRITE, ACQUIRE)
    assert races(place, RELEASE, RELAXED_READ, f"fence.acq_rel.{narrow};")


def test_weak_flags_race():
    with pytest.raises(Finding) as found:
        send("cta", "st.global.b32 [%rd0+64], 1;", RELAXED_READ)
    assert found.value.kind == "race"


def test_a_flag_in_shared_memory():
    text = module(
        """mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5; mov.u32 %r1, %laneid; setp.ne.u32 %p2, %r1, 0;
        ld.param.u64 %rd1, [p1];
        mov.u32 %r5, %tid.x; setp.eq.u32 %p3, %r5, 0; @%p3 st.shared.b32 [flag], 0; bar.sync 0;
        @%p2 bra done; setp.ne.u32 %p0, %r0, 0; @%p0 bra reader;
        st.shared.b32 [data], 42; st.release.cta.shared::cta.b32 [flag], 1; bra done;
        reader: ld.acquire.cta.shared.b32 %r2, [flag]; setp.eq.u32 %p1, %r2, 0; @%p1 bra reader;
        ld.shared.b32 %r3, [data]; st.global.b32 [%rd1], %r3; done:""",
        head=".shared .align 4 .b8 data[4]; .shared .align 4 .b8 flag[4];",
    )
    for seed in range(4):
        out = np.zeros(1, np.uint32)
        run_ptx(text, [np.zeros(1), out], block=(64, 1, 1), seed=seed)
        assert out.tolist() == [42]


CHAIN = """
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %ctaid.x; mov.u32 %r9, %laneid;
    setp.ne.u32 %p9, %r9, 0; @%p9 bra done; setp.eq.u32 %p0, %r0, 1; @%p0 bra second; setp.eq.u32 %p0, %r0, 2;
    @%p0 bra third;
    st.global.b32 [%rd0], 42; st.release.gpu.global.b32 [%rd0+64], 1; bra done;
second:
    ld.relaxed.gpu.global.b32 %r1, [%rd0+64]; setp.eq.u32 %p1, %r1, 0; @%p1 bra second;
    {pass_on} bra done;
third:
    ld.relaxed.gpu.global.b32 %r1, [%rd0+64]; setp.ne.u32 %p1, %r1, 2; @%p1 bra third;
    ld.acquire.gpu.global.b32 %r1, [%rd0+64]; ld.global.b32 %r2, [%rd0]; st.global.b32 [%rd1], %r2;
done:
"""


def test_atomics_keep_what_was_released_before_them():
    for seed in range(4):
        out = np.zeros(1, np.uint32)
        text = module(CHAIN.format(pass_on="red.relaxed.gpu.global.add.u32 [%rd0+64], 1;"))
        run_ptx(text, [np.zeros(32, np.uint32), out], grid=(3, 1, 1), seed=seed)
        assert out.tolist() == [42]
    # a plain store takes its place
    text = module(CHAIN.format(pass_on="st.relaxed.gpu.global.b32 [%rd0+64], 2;"))
    with pytest.raises(Finding) as found:
        run_ptx(text, [np.zeros(32, np.uint32), np.zeros(1, np.uint32)], grid=(3, 1, 1))
    assert found.value.kind == "race"


LAST = """
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r2, %r1, 64, %r0; mad.wide.u32 %rd2, %r2, 4, %rd1; st.global.b32 [%rd2], %r2;
    {barrier}
    setp.ne.u32 %p0, %r0, 0; @%p0 bra joined;
    atom.{sem}.gpu.global.add.u32 %r3, [%rd0], 1; st.shared.b32 [count], %r3;
joined:
    bar.sync 0; ld.shared.b32 %r4, [count]; setp.ne.u32 %p1, %r4, 2; @%p1 bra done;
    mov.u32 %r5, 0; mad.wide.u32 %rd3, %r0, 4, %rd1;
    ld.global.b32 %r6, [%rd3]; ld.global.b32 %r7, [%rd3+256]; ld.global.b32 %r8, [%rd3+512];
    add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8; bar.sync 0; st.global.b32 [%rd3], %r6;
done:
"""


def test_the_last_cta_sees_what_all_threads_of_the_others_wrote():
    """A counter as of parts of K: barriers carry every thread's writes to the one that releases, and back."""

    def run(barrier: str, sem: str, seed: int) -> np.ndarray:
        out = np.zeros(192, np.uint32)
        text = module(LAST.format(barrier=barrier, sem=sem), head=".shared .align 4 .b8 count[4];")
        run_ptx(text, [np.zeros(1, np.uint32), out], grid=(3, 1, 1), block=(64, 1, 1), seed=seed)
        return out

    for seed in range(4):
        assert run("bar.sync 0;", "acq_rel", seed)[:64].tolist() == [192 + 3 * i for i in range(64)]
    for barrier, sem in (("bar.sync 0;", "relaxed"), ("bar.sync 0;", "release")):
        with pytest.raises(Finding) as found:
            run(barrier, sem, 0)
        assert found.value.kind == "race", (barrier, sem)


# a warp of each of two CTAs: the first stores a word in its shared memory and arrives at the second's barrier, relaxed
NEXT_DOOR = """
    .shared .align 8 .b64 bar;
    .shared .align 4 .b32 word;
    ld.param.u64 %rd1, [p1]; mov.u32 %r0, %cluster_ctarank; mov.u32 %r9, %laneid;
    mov.b32 %r2, bar; mov.b32 %r3, word;
    setp.ne.u32 %p9, %r9, 0; setp.ne.u32 %p0, %r0, 0;
    @%p9 bra MET;
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
MET:
    bar.warp.sync -1;
    barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
    @%p9 bra DONE;
    @%p0 bra READER;
    st.shared.b32 [%r3], 42;
    fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
    mapa.shared::cluster.u32 %r4, %r2, 1;
    mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r4];
    bra DONE;
READER:
    mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p1, [%r2], 0;
    @!%p1 bra READER;
    fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
    mapa.shared::cluster.u32 %r5, %r3, 0;
    ld.shared::cluster.b32 %r6, [%r5];
    st.global.b32 [%rd1], %r6;
DONE:
    bar.warp.sync -1;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""


def test_proxy_fences_of_one_way_release_and_acquire():
    """PTX ISA 9.7.13.4: .release and .acquire make patterns of relaxed operations, as those of fences of threads do."""
    launch = {"grid": (2, 1, 1), "block": (32, 1, 1), "cluster": (2, 1, 1)}
    for seed in range(4):
        out = np.zeros(1, np.uint32)
        run_ptx(module(NEXT_DOOR), [out, out], seed=seed, **launch)
        assert out.tolist() == [42]
    for side in ("release", "acquire"):
        lines = NEXT_DOOR.splitlines(keepends=True)
        bare = "".join(line for line in lines if f"async::generic.{side}" not in line)
        with pytest.raises(Finding) as found:
            run_ptx(module(bare), [np.zeros(1, np.uint32)] * 2, **launch)
        assert found.value.kind == "race"


# two warps: the first stores a word and completes a transaction by hand, as schedulers of CUTLASS end their tiles
BY_HAND = """
    .shared .align 8 .b64 bar;
    .shared .align 4 .b32 word;
    ld.param.u64 %rd1, [p1]; mov.u32 %r0, %tid.x;
    mov.b32 %r2, bar; mov.b32 %r3, word;
    setp.ne.u32 %p0, %r0, 0; setp.ne.u32 %p1, %r0, 32;
    @%p0 bra MET;
    mbarrier.init.shared.b64 [%r2], 1;
    mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r2], 4;
MET:
    bar.sync 0;
    @%p0 bra OTHER;
    st.shared.b32 [%r3], 42;
    fence.release.sync_restrict::shared::cta.cluster;
    mbarrier.complete_tx.shared::cta.relaxed.cluster.b64 [%r2], 4;
    bra DONE;
OTHER:
    @%p1 bra DONE;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    ld.shared.b32 %r6, [%r3];
    st.global.b32 [%rd1], %r6;
DONE:
"""


def test_a_transaction_completed_by_hand_publishes_what_a_fence_did():
    for seed in range(4):
        out = np.zeros(1, np.uint32)
        run_ptx(module(BY_HAND), [out, out], block=(64, 1, 1), seed=seed)
        assert out.tolist() == [42]
        bare = BY_HAND.replace("fence.release.sync_restrict::shared::cta.cluster;", "")
        with pytest.raises(Finding) as found:
            run_ptx(module(bare), [np.zeros(1, np.uint32)] * 2, block=(64, 1, 1), seed=seed)
        assert found.value.kind == "race"
