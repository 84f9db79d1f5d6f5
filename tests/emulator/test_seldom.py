"""Instructions that no kernel here has: where an address lies, hints, transactions by hand, what is added in the
shared memory of another CTA, a break point."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from tests.emulator.harness import Out, module, run_ptx

ONE = ".param .u64 p0"


def test_where_an_address_lies() -> None:
    """PTX ISA 9.7.9.21 and 9.7.9.25, of a global variable, a shared one, and that of the other CTA."""
    tests = "".join(
        f"isspacep.{space} %p0, %rd{address}; selp.u32 %r{4 + i}, {1 << i}, 0, %p0; or.b32 %r3, %r3, %r{4 + i};"
        for i, (space, address) in enumerate(
            (space, address) for space in ("global", "shared::cta", "shared::cluster") for address in (1, 2, 3)
        )
    )
    body = f"""
    .shared .align 8 .b64 x;
    ld.param.u64 %rd0, [p0]; mov.u64 %rd1, %rd0;
    mov.u64 %rd2, x; cvta.shared.u64 %rd2, %rd2;
    mov.u32 %r0, %cluster_ctarank; xor.b32 %r1, %r0, 1;
    mapa.u64 %rd3, %rd2, %r1;
    getctarank.u64 %r2, %rd3; shl.b32 %r2, %r2, 16;
    mov.b32 %r3, %r2; {tests}
    mul.wide.u32 %rd4, %r0, 4; add.u64 %rd4, %rd0, %rd4;
    st.global.u32 [%rd4], %r3;
    """
    out = Out(8)
    run_ptx(module(body, ONE), [out], grid=(2, 1, 1), block=(1, 1, 1), cluster=(2, 1, 1))
    lies = 0b110_010_001  # from the last test to the first
    assert out.view(np.uint32).tolist() == [1 << 16 | lies, lies]


def test_hints_change_nothing() -> None:
    """9.7.9.15 to 9.7.9.17, 9.7.9.27.4.2, 9.7.19.3."""
    body = """
    ld.param.u64 %rd0, [p0];
    prefetchu.L1 [%rd0]; applypriority.global.L2::evict_normal [%rd0], 128; pmevent 1;
    discard.global.L2 [%rd0 + 128], 128;
    cp.async.bulk.prefetch.L2.global [%rd0], 128;
    """
    data = np.arange(64, dtype=np.uint32)
    run_ptx(module(body, ONE), [data], block=(1, 1, 1))
    assert data[:32].tolist() == list(range(32))  # what is discarded may have any value


def test_a_range_that_is_asked_for_exists() -> None:
    body = "ld.param.u64 %rd0, [p0]; cp.async.bulk.prefetch.L2.global [%rd0], 144;"
    with pytest.raises(Finding) as found:
        run_ptx(module(body, ONE), [np.zeros(32, np.uint32)], block=(1, 1, 1))
    assert found.value.kind == "bounds"


@pytest.mark.parametrize(("completed", "kind"), [(16, None), (12, "deadlock")])
def test_a_transaction_completed_by_hand(completed: int, kind: str | None) -> None:
    """9.7.13.15.10: the phase ends with the last of the bytes that were expected."""
    body = f"""
    .shared .align 8 .b64 bar;
    mov.b32 %r0, bar;
    mbarrier.init.shared.b64 [%r0], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r0], 16;
    mbarrier.complete_tx.shared.b64 [%r0], {completed};
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], 0;
    @!%p0 bra WAIT;
    """
    if kind is None:
        run_ptx(module(body, ONE), [Out(4)], block=(1, 1, 1))
        return
    with pytest.raises(Finding) as found:
        run_ptx(module(body, ONE), [Out(4)], block=(1, 1, 1))
    assert found.value.kind == kind


def test_what_is_added_in_the_shared_memory_of_another_cta() -> None:
    """9.7.13.8: red.async; both lanes of a CTA add to one word of the other's, which waits for the bytes of both."""
    body = """
    .shared .align 8 .b64 bar;
    .shared .align 8 .b32 sum;
    ld.param.u64 %rd0, [p0];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;
    mov.b32 %r3, bar; mov.b32 %r4, sum; setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    @%p1 st.shared.u32 [%r4], 1000;
    @%p1 fence.mbarrier_init.release.cluster;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 8;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r5, %r4, %r2; mapa.shared::cluster.u32 %r6, %r3, %r2;
    mad.lo.u32 %r7, %r1, 100, 1; add.u32 %r7, %r7, %r0;
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r5], %r7, [%r6];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r3], 0;
    @!%p0 bra WAIT;
    ld.shared.u32 %r8, [%r4];
    mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd0, %rd1;
    @%p1 st.global.u32 [%rd1], %r8;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """
    out = Out(8)
    run_ptx(module(body, ONE), [out], grid=(2, 1, 1), block=(2, 1, 1), cluster=(2, 1, 1))
    assert out.view(np.uint32).tolist() == [1000 + 101 + 102, 1000 + 1 + 2]


@pytest.mark.parametrize("opcode", ["trap", "brkpt"])
def test_a_stop_is_a_finding(opcode: str) -> None:
    with pytest.raises(Finding, match=f"executes {opcode} in") as found:
        run_ptx(module(f"{opcode};", ONE), [Out(4)], block=(1, 1, 1))
    assert found.value.kind == "illegal"
