"""What the ISA leaves open and the seed draws: where things lie, and who comes when."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import Finding
from scalec.emulator.layouts.tensor_memory import COLUMNS
from scalec.emulator.machine.machine import Machine
from tests.emulator.harness import Out, module, run_ptx
from tests.emulator.tcgen05_kernels import epilogue, prologue

SEEDS = range(8)


def numbers(body: str, seed: int, *, ctas: int = 1, cluster: int = 1, target: str = "sm_90a", threads: int = 32):
    """What thread 0 of each CTA left in its word: [%rd2 + 4 %ctaid.x]."""
    out = Out(4 * ctas)
    text = module(body, target=target)
    run_ptx(text, [np.zeros(8192, np.uint8), out], grid=(ctas, 1, 1), cluster=(cluster, 1, 1), block=(threads, 1, 1),
            seed=seed)  # fmt: skip
    return out.view(np.uint32).tolist()


PUT = "mul.wide.u32 %rd9, %r50, 4; add.u64 %rd9, %rd2, %rd9; @!%p3 st.global.u32 [%rd9], {};"


@pytest.mark.parametrize("columns", [32, 128, 512])
def test_the_columns_of_an_allocation(columns: int) -> None:
    body = prologue(2048, columns) + "mov.u32 %r50, %ctaid.x;" + PUT.format("%r8") + epilogue(columns)
    found = {numbers(body, seed, target="sm_100a", threads=128)[0] for seed in SEEDS}
    assert all(at % columns == 0 and at + columns <= COLUMNS for at in found)
    assert len(found) > (1 if columns < COLUMNS else 0)


def test_pieces_that_get_smaller_always_find_room() -> None:
    """512 columns in four pieces, wherever the first ones lie."""
    sizes = (256, 128, 64, 64)
    start = prologue(2048, 256)
    alloc = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5], 256;"
    every = "".join(
        alloc.replace("256", str(size)) + f"bar.warp.sync -1; ld.shared.u32 %r6{i}, [%r5]; bar.warp.sync -1;"
        for i, size in enumerate(sizes)
    )
    free = "".join(f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6{i}, {size};" for i, size in enumerate(sizes))
    for seed in SEEDS:
        numbers(start.replace(alloc, every) + "@%p2 bra END; " + free + "END:", seed, target="sm_100a", threads=128)


def test_both_ctas_of_a_pair_get_the_same_columns() -> None:

    body = prologue(2048, 64, group=2) + "mov.u32 %r50, %ctaid.x;" + PUT.format("%r8") + epilogue(64, group=2)
    found = [numbers(body, seed, ctas=4, cluster=2, target="sm_100a", threads=128) for seed in SEEDS]
    assert all(a == b and c == d for a, b, c, d in found)
    assert len({a for a, *_ in found}) > 1


@pytest.mark.parametrize("align", [16, 1024, 4096])
def test_where_shared_memory_begins(align: int) -> None:
    body = f""".shared .align {align} .b8 buf[64]; ld.param.u64 %rd2, [p1]; mov.u32 %r0, %tid.x;
        setp.ne.u32 %p3, %r0, 0; mov.u32 %r50, %ctaid.x; mov.u32 %r1, buf; st.shared.u32 [buf], 1;""" + PUT.format(
        "%r1"
    )
    found = {numbers(body, seed)[0] for seed in SEEDS}
    assert all(at % max(align, 1024) == 0 for at in found)
    assert len(found) > 1
    taken_for_granted = body.replace("st.shared.u32 [buf]", f"st.shared.u32 [{max(align, 1024)}]")
    seed = next(s for s in SEEDS if numbers(body, s)[0] != max(align, 1024))
    with pytest.raises(Finding) as caught:
        numbers(taken_for_granted, seed)
    assert caught.value.kind == "bounds"


def test_the_order_in_which_clusters_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clusters at once: of each wave of two, either may begin first, and none before the wave before it."""
    began: list[int] = []
    start = Machine._start

    def noted(self: Machine, number: int, positions: list[tuple[int, int, int]]) -> None:
        began.append(number)
        start(self, number, positions)

    monkeypatch.setattr(Machine, "_start", noted)
    body = "ld.param.u64 %rd2, [p1]; mov.u32 %r50, %ctaid.x; setp.ne.u32 %p3, %r50, %r50;" + PUT.format("%r50")
    orders = set()
    for seed in SEEDS:
        began.clear()
        assert numbers(body, seed, ctas=8, cluster=2) == list(range(8))
        orders.add(tuple(began))
        assert [sorted(began[:2]), sorted(began[2:])] == [[0, 1], [2, 3]]
    assert len(orders) > 1
