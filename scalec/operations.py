"""What a call of a kernel computes, by its sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from scalec.abi import KernelSpec


def operations(spec: KernelSpec, sizes: Mapping[str, int]) -> int:
    """Floating-point operations of one call at these sizes; 0 where `flops` is empty."""
    return 2 * multiplications(spec, sizes) if spec.flops else 0


def multiplications(spec: KernelSpec, sizes: Mapping[str, int]) -> int:
    """The multiplications of one call at these sizes."""
    added = spec.launch.added
    summed = [dim for dim, _ in spec.launch.sums] if added else []
    others = math.prod(sizes[dim] for dim in spec.flops if dim not in summed)
    own = [summed, *([dim for dim, _ in x] for x in added)]
    return spec.panes * others * sum(math.prod(sizes[dim] for dim in x) for x in own)
