"""Copies in im2col mode (PTX ISA 5.5.4, 9.7.9.27.5.2), as the convolutions of CUTLASS and Triton have them."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator.findings import SILENT, Finding
from scalec.emulator.launch import launch, load
from scalec.emulator.layouts.tensor_map import TensorMap, encode
from scalec.emulator.machine.memory import GlobalMemory
from scalec.emulator.machine.options import Options
from tests.emulator.harness import module

MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
BODY = f"""
    .shared .align 128 .b8 buf[144];
    .shared .align 8 .b64 bar;
    mov.b32 %r1, buf;
    mov.b32 %r2, bar;
    mov.u32 %r3, %cluster_ctarank;
    mov.u32 %r4, %tid.x;
    mov.b64 %rd1, p0;
    mov.b64 %rd2, p1;
    cvta.param.u64 %rd1, %rd1;
    cvta.param.u64 %rd2, %rd2;
    setp.eq.u32 %p1, %r4, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r2], 144;
    {MEET}
    setp.eq.and.u32 %p2, %r3, 0, %p1;
    mov.b32 %r5, -1;
    mov.b32 %r6, 4;
    mov.b32 %r7, 0;
    mov.b16 %h1, 2;
    mov.b16 %h2, 1;
    mov.b16 %h3, 3;
    @%p2 cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster
        [%r1], [%rd1, {{%r6, %r5, %r7, %r7}}], [%r2], {{%h1, %h2}}, %h3;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], 0;
    @!%p3 bra WAIT;
    @%p1 cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%rd2, {{%r7, %r7, %r7, %r3}}], [%r1];
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group 0;
    {MEET}
"""
PARAMS = ".param .align 64 .b8 p0[128], .param .align 64 .b8 p1[128]"


def run(body: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(images, what came of them): u32 [n, h, w, c]."""
    memory = GlobalMemory()
    images = np.arange(2 * 4 * 5 * 8, dtype=np.uint32).reshape(2, 4, 5, 8)
    source, target = memory.allocate(images.nbytes, "images"), memory.allocate(2 * 9 * 16, "columns")
    source.data[:] = images.reshape(-1).view(np.uint8)
    source.written[:] = True
    maps = (
        TensorMap("u32", source.base, (8, 5, 4, 2), (32, 160, 640), (4, 9), lower=(-1, 0), upper=(-3, -1)),
        TensorMap("u32", target.base, (4, 3, 3, 2), (16, 48, 144), (4, 9), lower=(0, 0), upper=(0, 0)),
    )
    launch(
        load(module(body, PARAMS), memory), "k", (2, 1, 1), (32, 1, 1), [encode(m) for m in maps], cluster=(2, 1, 1),
        options=Options(seed=seed, check=frozenset(SILENT)),
    )  # fmt: skip
    return images, target.data.view(np.uint32).reshape(2, 9, 4)


@pytest.mark.parametrize("seed", range(3))
def test_a_column_of_pixels(seed: int) -> None:
    """Loaded once for both CTAs, moved by (2, 1), and stored as nine pixels of an image of each."""
    images, found = run(BODY, seed)
    # pixels w = -1 to 1, h = 0 to 2, moved to w = 1 to 3, h = 1 to 3
    expected = images[0, 1:4, 1:4, 4:].reshape(9, 4)
    assert (found == expected).all()


def test_offsets_are_needed() -> None:
    """And a map in the mode of the copy."""
    with pytest.raises(Finding, match="1 im2col offsets with a tensor map of rank 4"):
        run(BODY.replace("{%h1, %h2}", "{%h1}"), 0)
    with pytest.raises(Finding, match="a copy in tiled mode with a tensor map of im2col mode"):
        run(BODY.replace("im2col_no_offs", "tile"), 0)
