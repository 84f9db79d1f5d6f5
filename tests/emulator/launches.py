"""Kernels launched several times on one emulated device: what they give, what they leave, and what is found.

For kernels of which CTAs meet in a workspace: how many run at once, and the seed, decide who comes first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import scalec
from scalec import reference
from scalec.checking.launch import upload
from scalec.emulator.findings import Finding
from scalec.errors import DeviceError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel

MOST = 100_000
"""Instructions of a warp, of which none of these kernels executes a tenth: one that does waits in vain."""

WRONG = "wrong"


@cache
def compiled(target: str, source: str, dims: tuple[tuple[str, int], ...]) -> Kernel:
    return scalec.compile(source, target=target, dims=dict(dims))


def made(target: str, source: str, dims: dict[str, int], seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """Arguments, and the exact result."""
    with context.context():
        program = build(source, dims)
        values = reference.make(program, dims, seed=seed)
        (expected,) = reference.run(program, values, dims=dims, exact=True).values()
    return values, expected


class Recording(emulated.EmulatedDevice):
    """An emulated device that remembers what was reserved for workspaces, in order."""

    def __init__(self, target: str, sms: int, seed: int) -> None:
        super().__init__(target)
        self.sms, self.options = sms, replace(self.options, seed=seed, sms=sms, max_instructions=MOST)
        self.made: list[tuple[int, int]] = []

    def reserve(self, size: int) -> int:
        address = super().reserve(size)
        self.made.append((address, size))
        return address


def outcome(
    kernel: Kernel, values: dict[str, Any], dims: dict[str, int], seed: int, sms: int, launches: int = 1
) -> list[np.ndarray]:
    """The results of launches in a row, every byte of which is written by its launch; counters are 0 behind each."""
    device = Recording(kernel.spec.target, sms, seed)
    runner = Kernel(kernel.spec, kernel.cubin, ptx=kernel.ptx, device=device)
    found = []
    for _ in range(launches):
        arguments, (out,) = upload(device, kernel.spec, values, dims)
        segment = device.memory.find(out.pointer)
        assert segment is not None
        if not kernel.spec.results[0].inout:
            segment.written[:] = False
        runner(*arguments, out=out)
        rows = np.arange(dims["m"])[:, None] * out.strides[0] * out.itemsize
        at = rows + np.arange(dims["n"] * out.itemsize)
        assert segment.written[at].all(), "part of the result was not written"
        found.append(out.numpy())
        sizes = kernel.spec.launch.workspace(dims)
        assert [size for _, size in device.made] == [size for size in sizes if size]
        for address, size in device.made[1:]:
            assert device.download(address, size, 0) == bytes(size), "a counter was left"
    return found


def found_as(
    kernel: Kernel, values: dict[str, Any], dims: dict[str, int], seed: int, sms: int, expected: np.ndarray,
    limit: float,
) -> str:  # fmt: skip
    """The kind of the finding, WRONG where there is none and a result is, "" where all is right."""
    try:
        results = outcome(kernel, values, dims, seed, sms, 2)
    except DeviceError as error:
        return error.__cause__.kind if isinstance(error.__cause__, Finding) else str(error)
    except AssertionError:
        return WRONG
    return WRONG if max(reference.diff(x.astype(np.float64), expected) for x in results) > limit else ""
