"""Whether the last waves of tiles are dealt out in equal shares of K blocks."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.passes.base import decide
from scalec.targets import Target


class ChooseStreamK:
    """Decides `stream_k`: 0 where nothing decided it before.

    choose-tiling decides it with the tile where space.STREAM_K has more than 0; the last wave's loss depends on both.

        #scale.schedule<{tile = array<i64: 256, 128, 128>, cluster = array<i64: 1, 2>, split = 1 : i64, ...}>
    -->
        #scale.schedule<{..., stream_k = 0 : i64}>
    """

    name = "choose-stream-k"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, lambda _, schedule: schedule.with_fields(stream_k=schedule.stream_k or 0))
