"""Whether consumer warpgroups share each tile or take whole tiles by turns."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.passes.base import decide
from scalec.targets import Target


class ChooseConsumers:
    """Decides `consumers` where the search of schedules (scalec.model.space) has not: that they share each tile. Where
    sums are promoted, turns took 1.09 to 1.36 times as long with tiles of 128x128, and longer with others (H200,
    2026-11-21, FP8 1x128 by 128x128, four sizes).

        #scale.schedule<{tile = array<i64: 128, 128, 128>, ...}>
    -->
        #scale.schedule<{..., consumers = "cooperative"}>
    """

    name = "choose-consumers"

    def run(self, module: ir.Module, target: Target) -> None:
        decide(module, target, lambda _, given: given.with_fields(consumers=DEFAULT), needs=("tile",))


DEFAULT = "cooperative"
