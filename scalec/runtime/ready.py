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
        duals: says whether tensors may be dual (torch_calls.duals).
        wrote: tells autograd that the results given were written.
        given: whether a call is given the results.
        trampoline: makes the call in one call of native code, where there is one by now.
    """

    __slots__ = (
        "_launches",
        "_torch",
        "address",
        "alike",
        "allocate",
        "duals",
        "given",
        "ordinal",
        "plan",
        "stream",
        "tracing",
        "trampoline",
        "wrote",
    )

    def __init__(self, torch: Any, plan: Plan, tensors: Sequence[Any]) -> None:
        device = tensors[0].device
        self._torch, self.plan, self.given = torch, plan, len(tensors) == plan.count
        self.alike, self.address = torch_calls.alike(torch, tensors), torch.Tensor.data_ptr
        self.stream, self.ordinal = torch_calls.stream_of(torch, device), device.index or 0
        self.tracing, self.duals = torch.compiler.is_dynamo_compiling, torch_calls.duals(torch)
        self.wrote = torch_calls.writer(torch)
        forms = [(form.shape, form.strides, form.spec.dtype) for form in plan.results]
        self.allocate = torch_calls.allocator(torch, forms, device)
        self.trampoline: Trampoline | None = None
        self._launches = 0

    def call(
        self, operands: tuple[Any, ...], outs: tuple[Any, ...] | None, scalars: tuple[float, ...], stream: int | None
    ) -> tuple[Any, ...] | None:
        """Launches and gives the results; None, and nothing is launched, where the tensors are unlike those known.

        Args:
            operands: those that are tensors.
            outs: the results; None where they are to be allocated.
            stream: None for torch's current one.

        Raises:
            ArgumentError: NULL, alignment, or a result that overlaps another tensor.
            DeviceError: the driver refused the launch.
        """
        if self.trampoline is not None:
            made = self.trampoline(operands, outs, scalars, stream)
            if made is False:
                return None
            if made:
                return made
        else:
            tensors = (*operands, *(outs if self.given and outs is not None else ()))
            if torch_calls.nested(tensors) or not self.alike(*tensors):
                return None
        return self.call_otherwise(operands, outs, scalars, stream)

    def call_otherwise(
        self, operands: tuple[Any, ...], outs: tuple[Any, ...] | None, scalars: tuple[float, ...], stream: int | None
    ) -> tuple[Any, ...]:
        """The call of tensors that are alike, without the trampoline."""
        if outs is None:
            outs = self.allocate()
        elif self.given:
            self.wrote(outs)
        if stream is None:
            stream = self.stream(self.ordinal)
        key = (stream, *map(self.address, operands), *map(self.address, outs), *packed(scalars))
        launcher = self.plan.launchers.get(key)
        if launcher is not None:
            launcher(stream)
        else:
            self.plan.launch(key, scalars)
        self._launches += 1
        if self._launches == OFTEN:
            self.hasten(operands, outs)
        return outs

    def forgo(self) -> None:
        """Never makes a trampoline, and uses none."""
        self.trampoline, self._launches = None, OFTEN

    def hasten(self, operands: Sequence[Any], outs: Sequence[Any], bound: bool = False) -> None:
        """Makes the trampoline now, where there can be one, from the tensors of a call that is alike; `bound` says that
        all calls have these very ones."""
        if self.trampoline is None:
            ways = self.given, self.allocate, self.stream, self.ordinal
            self.trampoline = self.plan.trampoline(torch_calls.asked(self._torch, operands, outs, *ways, bound))
