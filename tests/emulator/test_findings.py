"""Kinds of findings: each can be passed over, those on which the ISA is silent are asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalec.emulator.findings import KINDS, SILENT, Finding
from scalec.emulator.machine.options import Options
from tests.emulator.harness import Out, module, run_ptx
from tests.emulator.tcgen05_kernels import epilogue, prologue, registers

HEAD = """.shared .align 1024 .b8 buf[4096]; .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd3, %r1, 4, %rd2;
    setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 16; mov.u32 %r3, buf; shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4;
    setp.eq.u32 %p4, %r1, %r1;
"""
LAST = "st.global.u32 [%rd3], 7;"
COPY_OUT = """st.shared.u32 [%r4], %r1; {} bar.sync 0; @!%p1 bra DONE;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 128; cp.async.bulk.commit_group; {} DONE: """


def launch(body: str, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """The first array, of 64 words, and the 32 words of the second."""
    data, out = np.zeros(64, np.uint32), np.zeros(32, np.uint32)
    block = (64 if "ret" in body else 32, 1, 1)
    run_ptx(module(HEAD + body), [data, out], **{"max_instructions": 10_000, "block": block, **options})
    return data, out


# kind -> a body that has such a finding and goes on
WRONG = {
    "in-flight": """@!%p1 bra GO; mbarrier.init.shared.b64 [bar], 1; fence.proxy.async; GO: bar.warp.sync -1;
        @!%p1 bra GO2;
        mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 64, [bar]; GO2:
        bar.warp.sync -1; st.shared.u32 [buf+4], 1;
        W: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra W;""" + LAST,
    "proxy": COPY_OUT.format("", "cp.async.bulk.wait_group 0;") + LAST,
    "race": "st.shared.u32 [buf], %r1; setp.gt.u32 %p5, %r1, 31; @%p5 ret; " + LAST,
    "deadlock": "@!%p1 bra GO; mbarrier.init.shared.b64 [bar], 2; GO: bar.warp.sync -1; " + LAST
    + "W: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra W;",
    "barrier": "@%p1 mbarrier.init.shared.b64 [bar], 1; bar.warp.sync -1;"
    " mbarrier.arrive.shared.b64 _, [bar], 2; " + LAST,
    "bounds": "ld.global.u32 %r9, [%rd1+8192]; st.global.u32 [%rd1+8192], 1; " + LAST,
    "alignment": "ld.global.u32 %r9, [%rd1+2]; " + LAST,
    "uninitialised": "ld.shared.u32 %r9, [%r4]; st.global.u32 [%rd1], %r9; " + LAST,
    "divergence": "@%p2 bra LOW; bar.sync 0; LOW: " + LAST,
    "registers": "setmaxnreg.dec.sync.aligned.u32 64; setmaxnreg.dec.sync.aligned.u32 96; " + LAST,
    "resources": ".shared .align 16 .b8 much[300000]; " + LAST,
    "illegal": "tcgen05.fence::after_thread_sync; " + LAST,
}  # fmt: skip


def test_every_kind_is_known() -> None:
    assert set(KINDS) > SILENT
    lines = (Path(__file__).parents[2] / "docs" / "emulator.md").read_text().splitlines()
    assert {line.split("`")[1] for line in lines if line.startswith("| `") and line.count(" | ") == 3} == SILENT


@pytest.mark.parametrize("kind", WRONG)
def test_a_kind_that_is_ignored_does_not_stop_the_run(kind: str) -> None:
    for seed in range(3):
        with pytest.raises(Finding) as found:
            launch(WRONG[kind], seed=seed)
        assert found.value.kind == kind
        _, out = launch(WRONG[kind], seed=seed, ignore=frozenset({kind}))
        assert out.tolist() == [7] * 32
    others = frozenset(KINDS) - {kind}
    with pytest.raises(Finding):
        launch(WRONG[kind], ignore=others)


@pytest.mark.parametrize("seed", range(4))
def test_a_bulk_store_happens_though_nobody_waits_for_it(seed: int) -> None:
    """What is committed is written: after the last CTA, too, and whatever is ignored."""
    body = COPY_OUT.format("fence.proxy.async;", "")
    with pytest.raises(Finding) as found:
        launch(body, seed=seed)
    assert found.value.kind == "exit-read"
    for options in ({"check": frozenset()}, {"ignore": frozenset({"exit-read", "in-flight"})}):
        data, _ = launch(body, seed=seed, **options)
        assert data[:32].tolist() == list(range(32))


LOAD = f"tcgen05.ld.sync.aligned.32x32b.x4.b32 {registers(100, 4)}, [%r8]; tcgen05.wait::ld.sync.aligned;"


def test_the_lane_field_of_a_warp_that_reaches_other_lanes() -> None:
    stores = "".join(f"st.global.u32 [%rd9+{4 * i}], %r{100 + i};" for i in range(4))
    body = (
        prologue(2048, 32)
        + f"""
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r9], {{%r1, %r1, %r1, %r1}}; tcgen05.wait::st.sync.aligned;
    {LOAD} mul.wide.u32 %rd9, %r1, 16; add.u64 %rd9, %rd2, %rd9; {stores}"""
        + epilogue(32)
    )

    def run(check: frozenset[str]) -> np.ndarray:
        out = Out(128 * 16)
        text = module(body, target="sm_100a")
        run_ptx(text, [np.zeros(2048, np.uint8), out], block=(128, 1, 1), check=check)
        return out.view(np.uint32)

    assert run(frozenset()).tolist() == np.repeat(np.arange(128), 4).tolist()
    with pytest.raises(Finding, match="at lane 0, which warp 0 of a warpgroup reaches") as found:
        run(frozenset({"lane-field"}))
    assert found.value.kind == "lane-field"


@pytest.mark.parametrize(
    "make", [lambda: Options(ignore=frozenset({"races"})), lambda: Options(check=frozenset({"race"}))]
)
def test_words_that_are_no_kind(make: Callable[[], Options]) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()
