"""A launch whose tensors lie elsewhere each time: one set of parameters, whose addresses are replaced.

Making the parameters anew costs an encoding of every tensor map; a caller who allocates for each call would pay that
each time. Tensor maps are told a new address instead (CUDA driver API, cuTensorMapReplaceAddress).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

from scalec.runtime import checks
from scalec.runtime.device import Launcher, Parameter

Move = Callable[[int], None]
Mover = Callable[[ctypes.Array], Move]


class Moved:
    """The parameters of one plan, for one launch at a time.

    Args:
        mover: the device's.
        forms: the plan's tensors, in the order of addresses.
        operands: how many of them are operands; the others are results.
        slots: the launch's parameters, bound to some addresses.
        tensors: for each slot the tensor (its place in `forms`) whose address it holds, -1 where it holds none.
        numbers: for each slot what sets it from the scalars and the workspace; None where it holds neither.
    """

    def __init__(
        self,
        mover: Mover,
        forms: Sequence[Any],
        operands: int,
        slots: Sequence[Parameter],
        tensors: Sequence[int],
        numbers: Sequence[Callable[[Any, Any], Any] | None],
        launcher: Launcher,
    ) -> None:
        self._forms, self._operands, self._launcher = tuple(forms), operands, launcher
        self._lock = threading.Lock()
        moves = []
        for slot, tensor in zip(slots, tensors, strict=True):
            if tensor >= 0:
                moves.append((tensor, mover(slot) if isinstance(slot, ctypes.Array) else _setter(slot)))
        self._moves: tuple[tuple[int, Move], ...] = tuple(moves)
        self._numbers = tuple((slot, n) for slot, n in zip(slots, numbers, strict=True) if n is not None)
        self._spans = tuple((f.span, f.spec.align) for f in self._forms)

    def launch(self, addresses: Sequence[int], scalars: Any, workspace: Any, stream: int) -> None:
        """Launches with the tensors at `addresses`.

        Raises:
            ArgumentError: NULL, alignment, or a result that overlaps another tensor.
        """
        self._check(addresses)
        with self._lock:  # the driver copies the parameters before the launch returns
            for tensor, move in self._moves:
                move(addresses[tensor])
            for slot, number in self._numbers:
                slot.value = number(scalars, workspace)  # pyright: ignore[reportAttributeAccessIssue]
            self._launcher(stream)

    def _check(self, addresses: Sequence[int]) -> None:
        spans = self._spans
        for i, address in enumerate(addresses):
            span, align = spans[i]
            if span and (not address or address % align):
                checks.check_address(self._forms[i].spec, address)
        for i in range(self._operands, len(addresses)):
            start, end = addresses[i], addresses[i] + spans[i][0]
            for j in range(i):
                if addresses[j] < end and start < addresses[j] + spans[j][0]:
                    checks.check_overlap(self._forms[j], addresses[j], self._forms[i], addresses[i])


def _setter(slot: Any) -> Move:
    def move(address: int) -> None:
        slot.value = address

    return move
