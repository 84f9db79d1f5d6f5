"""mbarriers used wrongly although the run happens to come out right: found under most seeds, or all."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import module, run_ptx

SEEDS = range(8)

# 128 threads; %r1: thread, %p1: thread 0, %p2: warp 0; %rd3: this thread's element of the second array
HEAD = """.shared .align 16 .b8 buf[1024]; .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd3, %r1, 4, %rd2;
    setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32; mov.u32 %r3, buf; shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4;
    @%p1 mbarrier.init.shared.b64 [bar], {count}; fence.proxy.async; bar.sync 0;
"""
SPIN = "{0}: mbarrier.try_wait.parity.shared.b64 %p8, [bar], {1}; @!%p8 bra {0};"
DELAY = "mov.u32 %r90, 0; D: add.u32 %r90, %r90, 1; setp.lt.u32 %p9, %r90, 2000; @%p9 bra D;"


def kinds(body: str, count: int = 128, threads: int = 128, seeds: range = SEEDS) -> list[str]:
    """The finding under each seed, or ""."""
    found = []
    for seed in seeds:
        try:
            out = np.zeros(threads, np.uint32)
            run_ptx(module(HEAD.format(count=count) + body), [np.arange(64, dtype=np.uint32), out],
                    block=(threads, 1, 1), seed=seed)  # fmt: skip
            found.append("")
        except Finding as finding:
            found.append(finding.kind)
    return found


def test_one_arrival_too_few() -> None:
    """127 of 128: lane 31 of the last warp may come when the others have long gone on."""
    body = "mbarrier.arrive.shared.b64 _, [bar];" + SPIN.format("W", 0)
    assert kinds(body) == [""] * len(SEEDS)
    assert kinds(body, count=127) == ["barrier"] * len(SEEDS)


def test_more_drop_out_than_there_are() -> None:
    """With the kind ignored the run goes on, as if those who are too many had not come."""
    body = "mbarrier.arrive_drop.shared.b64 _, [bar]; bar.sync 0;"
    assert kinds(body, count=100) == ["barrier"] * len(SEEDS)
    given = [np.zeros(1), np.zeros(128, np.uint32)]
    run_ptx(module(HEAD.format(count=100) + body), given, block=(128, 1, 1), ignore=frozenset({"barrier"}))


def test_a_barrier_that_every_lane_initialises() -> None:
    body = "mbarrier.arrive.shared.b64 _, [bar];" + SPIN.format("W", 0)
    head = HEAD.replace("@%p1 mbarrier.init", "@%p2 mbarrier.init").format(count=128) + body
    with pytest.raises(Finding, match="where an mbarrier is that CTA 0 warp 0 initialised") as found:
        run_ptx(module(head), [np.zeros(1), np.zeros(128, np.uint32)], block=(128, 1, 1))
    assert found.value.kind == "barrier"


def test_initialised_anew_where_it_was_invalidated() -> None:
    done = "mbarrier.arrive.shared.b64 _, [bar];" + SPIN.format("W", 0) + "bar.sync 0; @!%p1 bra END;"
    again = "mbarrier.init.shared.b64 [bar], 1; END:"
    assert kinds(done + "mbarrier.inval.shared.b64 [bar];" + again) == [""] * len(SEEDS)
    assert kinds(done + again) == ["barrier"] * len(SEEDS)


@pytest.mark.parametrize("slow", ["", "@!%p2 bra E;" + DELAY + "E:"], ids=["together", "apart"])
def test_invalidated_beside_a_wait_of_another_warp(slow: str) -> None:
    done = "mbarrier.arrive.shared.b64 _, [bar];" + SPIN.format("W", 0) + slow
    inval = "{} @%p1 mbarrier.inval.shared.b64 [bar];"
    assert kinds(done + inval.format("bar.sync 0;")) == [""] * len(SEEDS)
    assert kinds(done + inval.format("")) == ["barrier"] * len(SEEDS)


def test_invalidated_while_bytes_are_on_their_way() -> None:
    body = """@!%p1 bra END; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 64, [bar];
        {} mbarrier.inval.shared.b64 [bar]; END:"""
    assert kinds(body.format(SPIN.format("W", 0)), count=1) == [""] * len(SEEDS)
    assert set(kinds(body.format(""), count=1)) == {"barrier"}


@pytest.mark.parametrize("wait", ["try_wait", "test_wait"])
@pytest.mark.parametrize("threads", [64, 128])
def test_an_answer_that_nobody_looks_at_is_no_wait(wait: str, threads: int) -> None:
    """The other warps' stores have long been done when the first one reads them, and nothing says so."""
    store = "@%p2 bra READ; st.shared.u32 [%r4], %r1; mbarrier.arrive.shared.b64 _, [bar]; bra END; READ:" + DELAY
    read = "ld.shared.u32 %r5, [%r4 + 128]; st.global.u32 [%rd3], %r5; END:"
    asked = SPIN.format("W", 0).replace("try_wait", wait)
    looked = asked.replace("W: ", "").replace("@!%p8 bra W;", "@%p8 bra GO; GO:")
    count = threads - 32
    assert kinds(store + asked + read, count, threads) == [""] * len(SEEDS)
    found = kinds(store + asked.replace("@!%p8 bra W;", "") + read, count, threads)
    assert "" not in found
    assert set(found) <= {"race", "uninitialised"}
    # looked at, and to no effect: found where the answer may still have been no
    assert any(kinds(store + looked + read, count, threads, range(24)))


def test_a_parity_in_a_register_of_sums() -> None:
    """Such a register is judged with those of products, and the answer is looked at as elsewhere."""
    body = """
    mov.u32 %r80, 0; mbarrier.arrive.shared.b64 _, [bar];
    W: mbarrier.try_wait.parity.shared.b64 %p8, [bar], %r80; @!%p8 bra W;
    .shared .align 1024 .b8 sa[4096];
    mov.u32 %r5, sa; shr.u32 %r5, %r5, 4; cvt.u64.u32 %rd10, %r5; or.b64 %rd10, %rd10, 0x1000080000;
    mad.lo.u32 %r6, %r1, 32, 0; mov.u32 %r7, sa; add.u32 %r7, %r7, %r6; mov.u32 %r8, 0;
    st.shared.v4.b32 [%r7], {%r8, %r8, %r8, %r8}; st.shared.v4.b32 [%r7+16], {%r8, %r8, %r8, %r8};
    fence.proxy.async; bar.sync 0;
    mov.u32 %r81, 0; mov.u32 %r82, 0; mov.u32 %r83, 0; setp.eq.u32 %p3, %r1, %r1;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r80, %r81, %r82, %r83}, %rd10, %rd10, %p3, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    st.global.b32 [%rd3], %r80;
    """
    assert kinds(body) == [""] * len(SEEDS)
