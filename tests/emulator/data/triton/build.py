"""What one kernel is compiled with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Build:
    """One kernel, its parameters and options."""

    name: str  # of the PTX file, before the target
    kernel: Any
    # parameter -> Triton's type (":16": divisible by 16), or the value of a constexpr; or a function of the target that
    # gives them.
    arguments: dict[str, Any] | Callable[[int], dict[str, Any]]
    targets: tuple[int, ...] = (90, 100, 120)  # compute capabilities
    warps: int = 4
    stages: int = 2
    ctas: int = 1
    gluon: bool = False
