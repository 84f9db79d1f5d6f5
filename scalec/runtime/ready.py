"""What a call with nothing but torch's tensors needs, where they are as those of an earlier call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalec.runtime import torch_calls
from scalec.runtime.plan import Plan, packed
from scalec.runtime.trampoline import Trampoline

OFTEN = 16
"""Launches after which a trampoline is made, if not asked for before: the first of a process takes some 50 ms (the
import of llvmlite and its code), each about 0.1 ms."""


class Ready:
    """What is known of such a call.

    Attributes:
        plan: of the tensors.
        alike: says whether tensors are so.
        address: torch's data_ptr.
        allocate: makes the results on torch's current stream.
        stream: torch's current stream on the GPU `ordinal`.
        tracing: whether torch.compile is reading the code that asks.
        wrote: tells autograd that the results given were written.
        trampoline: launches in one call, where there is one by now.
    """

    __slots__ = (
        "_launches",
        "address",
        "alike",
        "allocate",
        "ordinal",
        "plan",
        "stream",
        "tracing",
        "trampoline",
        "wrote",
    )

    def __init__(self, torch: Any, plan: Plan, tensors: Sequence[Any]) -> None:
        device = tensors[0].device
        self.plan = plan
        self.alike, self.address = torch_calls.alike(torch, tensors), torch.Tensor.data_ptr
        self.stream, self.ordinal = torch_calls.stream_of(torch, device), device.index or 0
        self.tracing = torch.compiler.is_dynamo_compiling
        self.wrote = torch_calls.writer(torch)
        forms = [(form.shape, form.strides, form.spec.dtype) for form in plan.results]
        self.allocate = torch_calls.allocator(torch, forms, device)
        self.trampoline: Trampoline | None = None
        self._launches = 0

    def launch(self, stream: int, tensors: tuple[Any, ...], scalars: tuple[float, ...]) -> None:
        """Launches, by the trampoline if that can.

        Raises:
            ArgumentError: NULL, alignment, or a result that overlaps another tensor.
            DeviceError: the driver refused the launch.
        """
        trampoline = self.trampoline
        if trampoline is None or trampoline(stream, tensors, scalars):
            self.launch_otherwise(stream, tensors, scalars)

    def launch_otherwise(self, stream: int, tensors: tuple[Any, ...], scalars: tuple[float, ...]) -> None:
        """Launches without the trampoline."""
        key = (stream, *map(self.address, tensors), *packed(scalars))
        launcher = self.plan.launchers.get(key)
        if launcher is not None:
            launcher(stream)
        else:
            self.plan.launch(key, scalars)
        self._launches += 1
        if self._launches == OFTEN:
            self.hasten()

    def forgo(self) -> None:
        """Never makes a trampoline, and uses none."""
        self.trampoline, self._launches = None, OFTEN

    def hasten(self) -> None:
        """Makes the trampoline now, where there can be one."""
        if self.trampoline is None:
            self.trampoline = self.plan.trampoline(self.address)
