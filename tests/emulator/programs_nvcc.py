"""Launches of data/nvcc: each function here makes the case of the kernel of its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from tests.emulator import nvcc_arithmetic, nvcc_async, nvcc_control, nvcc_memory, nvcc_tensor_cores
from tests.emulator.programs import DATA, Case, Program, cuda_index

CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    **nvcc_control.CASES,
    **nvcc_memory.CASES,
    **nvcc_arithmetic.CASES,
    **nvcc_async.CASES,
    **nvcc_tensor_cores.CASES,
}


def programs() -> Iterable[Program]:
    for name, row in cuda_index().items():
        yield Program(
            name, DATA / "nvcc" / row["file"], row["entry"], row["target"], (1, 1, 1),
            tuple(row["block"]), tuple(row["cluster"]), row["shared"], CASES[row["entry"]],
        )  # fmt: skip
