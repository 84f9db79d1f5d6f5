"""What must have begun, ended, or been made known before something is used: CTAs of a cluster, the launch before, an
mbarrier's initialisation, a tensor map that the kernel changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalec.emulator.findings import SILENT, Finding
from tests.emulator import tcgen05_kernels
from tests.emulator.harness import Out, module, run_ptx
from tests.emulator.tcgen05_kernels import epilogue, prologue

SEEDS = range(6)
HEAD = """.shared .align 1024 .b8 buf[4096]; .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd3, %r1, 4, %rd2;
    mad.wide.u32 %rd4, %r1, 4, %rd1; setp.eq.u32 %p1, %r1, 0; mov.u32 %r3, buf; mov.u32 %r4, bar;
"""


def kinds(body: str, *, ctas: int = 1, threads: int = 64, head: str = HEAD, target: str = "sm_90a", **options: Any):
    """The finding under each seed, or ""."""
    found = []
    for seed in SEEDS:
        try:
            data = np.zeros(4096, np.uint32)
            run_ptx(module(head + body, target=target), [data, Out(4096)], grid=(ctas, 1, 1), cluster=(ctas, 1, 1),
                    block=(threads, 1, 1), seed=seed, **options)  # fmt: skip
            found.append("")
        except Finding as finding:
            found.append(finding.kind)
    return found


CLEAN = [""] * len(SEEDS)
MEET = "barrier.cluster.arrive{}.aligned; barrier.cluster.wait.aligned;"
REMOTE = """mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1; mapa.shared::cluster.u32 %r6, %r3, %r5;
    @%p1 st.shared::cluster.u32 [%r6], 1;"""


@pytest.mark.parametrize("relaxed", ["", ".relaxed"])
def test_the_memory_of_a_cta_that_may_not_have_begun(relaxed: str) -> None:
    end = MEET.format("")
    assert kinds(MEET.format(relaxed) + REMOTE + end, ctas=2) == CLEAN
    assert kinds(REMOTE + end, ctas=2) == ["cluster-start"] * len(SEEDS)


def test_one_warp_has_met_the_other_ctas_and_tells_another() -> None:
    meet = "setp.ge.u32 %p2, %r1, 32; barrier.cluster.arrive.relaxed.aligned; @%p2 bra ON;"
    told = meet + "barrier.cluster.wait.aligned; ON: bar.sync 0;"
    use = "setp.eq.u32 %p1, %r1, 32;" + REMOTE + "@!%p2 bra OFF; barrier.cluster.wait.aligned; OFF:" + MEET.format("")
    assert kinds(told + use, ctas=2) == CLEAN
    assert set(kinds(told.replace("bar.sync 0;", "") + use, ctas=2)) == {"cluster-start"}


def test_a_pair_meets_before_it_allocates() -> None:
    early = prologue(2048, 64, group=2)
    start = early.replace(tcgen05_kernels.MEET, "")
    assert early != start
    options = {"ctas": 2, "threads": 128, "head": "", "target": "sm_100a"}
    assert kinds(early + epilogue(64, group=2), **options) == CLEAN
    assert kinds(start + epilogue(64, group=2), **options) == ["cluster-start"] * len(SEEDS)


COPY = """@!%p1 bra GO; mbarrier.init.shared.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 64, [%r4];
    GO: bar.sync 0; W: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0; @!%p3 bra W;"""


def test_an_initialisation_that_an_asynchronous_copy_does_not_see() -> None:
    assert kinds(COPY) == CLEAN
    without = COPY.replace("fence.mbarrier_init.release.cluster;", "")
    assert kinds(without) == ["init-fence"] * len(SEEDS)
    assert kinds(without, check=frozenset()) == CLEAN  # Triton's kernels have none within a CTA
    assert kinds(COPY.replace("fence.mbarrier_init.release.cluster", "fence.proxy.async.shared::cta")) == CLEAN


FENCE = "fence.mbarrier_init.release.cluster;"
ARRIVE = (
    "@!%p1 bra GO; mbarrier.init.shared.b64 [%r4], 1; fence.mbarrier_init.release.cluster; GO: bar.warp.sync -1;"
    + MEET.format(".relaxed")
    + """mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1; mapa.shared::cluster.u32 %r6, %r4, %r5;
    @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6]; bar.sync 0;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4], 0; @!%p3 bra W;"""
    + MEET.format("")
)


def test_threads_of_another_cta_arrive_at_an_mbarrier() -> None:
    """CUTLASS initialises the one that tells of the end of tensor memory behind its fence, before a relaxed arrival."""
    assert kinds(ARRIVE, ctas=2) == CLEAN
    without = ARRIVE.replace(FENCE, "")
    assert set(kinds(without, ctas=2)) == {"relaxed-barrier"}
    assert set(kinds(without, ctas=2, check=SILENT - {"relaxed-barrier"})) == {"init-fence"}
    assert kinds(without, ctas=2, check=frozenset()) == CLEAN
    assert set(kinds(without.replace(".relaxed", ""), ctas=2)) == {"init-fence"}
    alone = without.replace(MEET.format(".relaxed"), "")
    assert "barrier" in kinds(alone, ctas=2, check=frozenset())


SETS_UP = prologue(2048, 64).replace("bar.sync 0;", MEET.format(".relaxed")).replace(FENCE, "")
TMEM = {"threads": 128, "head": "", "target": "sm_100a"}


def test_the_address_of_tensor_memory_behind_a_relaxed_arrival() -> None:
    """DeepGEMM's kernels for pairs publish it so."""
    end = epilogue(64)
    assert set(kinds(SETS_UP + end, **TMEM)) == {"relaxed-barrier"}
    assert kinds(SETS_UP + end, check=frozenset(), **TMEM) == CLEAN
    assert set(kinds(SETS_UP.replace(MEET.format(".relaxed"), "") + end, check=frozenset(), **TMEM)) <= {
        "race",
        "uninitialised",
    }


WAIT = "griddepcontrol.launch_dependents; griddepcontrol.wait; "


@pytest.mark.parametrize(
    "use",
    [
        "ld.global.u32 %r9, [%rd4];", "ld.global.nc.u32 %r9, [%rd4];", "st.global.u32 [%rd3], 5;",
        "atom.global.add.u32 %r9, [%rd1], 1;", COPY,
    ],
    ids=["load", "load.nc", "store", "atom", "copy"],
)  # fmt: skip
def test_global_memory_before_the_launch_before_has_ended(use: str) -> None:
    assert kinds(WAIT + use) == CLEAN
    late = use + WAIT
    without = WAIT.replace("griddepcontrol.wait;", "") + use
    assert kinds(late) == kinds(without) == ["dependent"] * len(SEEDS)
    assert kinds(late, check=frozenset()) == CLEAN  # it may be what the launch before leaves alone
    assert kinds(use) == CLEAN
    assert kinds(use, dependent=True) == ["dependent"] * len(SEEDS)


def test_one_thread_waits_for_the_launch_before_and_tells_the_others() -> None:
    body = "@%p1 griddepcontrol.wait; bar.sync 0; ld.global.u32 %r9, [%rd4]; st.global.u32 [%rd3], %r9;"
    assert kinds(body) == CLEAN
    assert set(kinds(body.replace("bar.sync 0;", ""))) == {"dependent"}


MAP = """@!%p1 bra GO; tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;
    fence.proxy.tensormap::generic.release.gpu; GO: bar.sync 0;
    fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"""


def test_a_tensor_map_is_released_before_it_is_acquired() -> None:
    assert kinds(MAP) == CLEAN
    assert kinds(MAP.replace("fence.proxy.tensormap::generic.release.gpu;", "")) == ["proxy"] * len(SEEDS)
    early = MAP.replace("tensormap.replace", "fence.proxy.tensormap::generic.release.gpu; tensormap.replace", 1)
    early = early.replace("    fence.proxy.tensormap::generic.release.gpu; GO", "    GO")
    assert kinds(early) == ["proxy"] * len(SEEDS)


@pytest.mark.parametrize(("address", "found"), [(0, ""), (64, "bounds")])
def test_a_fence_of_no_tensor_map(address: int, found: str) -> None:
    """CUTLASS's grouped products acquire address 0 where they have no C (example 68)."""
    body = f"mov.u64 %rd5, {address}; fence.proxy.tensormap::generic.acquire.gpu [%rd5], 128;"
    assert set(kinds(body)) == {found}
