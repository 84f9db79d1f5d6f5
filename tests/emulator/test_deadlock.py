"""What is said where no warp can go on, and of asynchronous operations that others overtook."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import module, run_ptx

# Warp 0 waits for a barrier that counts two arrivals, of which one comes; warp 1 for one that nobody arrives at; warps
# 2 and 3 for all the CTA's threads.
SHORT = """
    .shared .align 8 .b8 bars[16]; .shared .align 128 .b8 room[1024];
    mov.u32 %r0, %tid.x; mov.u32 %r1, bars; setp.ne.u32 %p0, %r0, 0; shr.u32 %r2, %r0, 5;
    @%p0 bra READY;
    mbarrier.init.shared.b64 [%r1], 2; mbarrier.init.shared.b64 [%r1+8], 1;
    READY: bar.sync 1;
    setp.eq.u32 %p1, %r2, 0; @%p1 bra FIRST;
    setp.eq.u32 %p1, %r2, 1; @%p1 bra SECOND;
    bar.sync 0;
    ret;
    FIRST: @%p0 bra WAIT; mbarrier.arrive.shared.b64 %rd0, [%r1];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra WAIT; bar.sync 0; ret;
    SECOND: mbarrier.try_wait.parity.shared.b64 %p2, [%r1+8], 0; @!%p2 bra SECOND; bar.sync 0;
"""


@pytest.mark.parametrize("seed", range(3))
def test_the_barrier_that_is_short_comes_first(seed):
    with pytest.raises(Finding) as caught:
        run_ptx(module(SHORT, ""), [], grid=(40, 1, 1), block=(128, 1, 1), seed=seed, sms=40)
    assert caught.value.kind == "deadlock"
    first, waiters, *rest = str(caught.value).splitlines()
    assert "no warp can go on: mbarrier at 0 of the shared memory of CTA 0: phase 0" in first
    assert "lacks 1 of 2 arrivals and 0 bytes; arrived: CTA 0 warp 0" in first
    assert "and so in CTA 1-39" in first
    assert "warp 0 of CTA 0 and 39 of other CTAs, all lanes" in waiters
    places = [number for number, line in enumerate(rest) if "mbarrier at 8" in line or "barrier 0 of CTA" in line]
    assert [("mbarrier at 8" in rest[number]) for number in places] == [True, False]
    assert len(rest) <= 18
    assert len(str(caught.value)) < 2000


def test_many_barriers():
    """Every thread waits for one of its own."""
    body = """
        .shared .align 8 .b8 bars[1024];
        mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 3; mov.u32 %r2, bars; add.u32 %r1, %r1, %r2;
        mbarrier.init.shared.b64 [%r1], 3; mbarrier.arrive.shared.b64 %rd0, [%r1];
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra WAIT;
    """
    with pytest.raises(Finding) as caught:
        run_ptx(module(body, ""), [], block=(128, 1, 1), seed=5)
    assert len(str(caught.value).splitlines()) <= 20
    assert len(str(caught.value)) < 3000


OVERTAKEN = """
    .shared .align 8 .b8 bar[8]; .shared .align 128 .b8 room[1024];
    mov.u32 %r0, %tid.x; mov.u32 %r1, bar; mov.u32 %r2, room; setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
    READY: bar.sync 0; setp.gt.u32 %p1, %r0, 31; @%p1 bra SECOND; ld.param.u64 %rd1, [p0];
    @%p0 bra WAIT; mbarrier.arrive.expect_tx.shared.b64 %rd0, [%r1], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 1024, [%r1];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra WAIT; bar.arrive 3, 64; ret;
    SECOND: mov.u32 %r4, 0;
    LOOP: add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 4000; @%p3 bra LOOP; ld.shared.b32 %r3, [%r2+16]; bar.sync 3, 64;
"""


def test_a_copy_is_called_one():
    """Warp 1 reads what a copy has brought, and has not waited for it."""
    said = set()
    for seed in range(8):
        with pytest.raises(Finding) as caught:
            run_ptx(module(OVERTAKEN, ".param .u64 p0"), [np.zeros(256, "u4")], block=(64, 1, 1), seed=seed)
        said.add((caught.value.kind, "cp.async.bulk.shared::cluster.global" in caught.value.message))
        if caught.value.kind == "race":
            assert "was written by the asynchronous operation of line" in caught.value.message
            assert "issued by CTA 0 warp 0" in caught.value.message
            assert caught.value.fix == "wait for its completion"
    assert ("race", True) in said
    assert ("race", False) not in said
