"""A launch whose tensors lie elsewhere each time: one set of parameters, whose addresses are replaced.

Making the parameters anew costs an encoding of every tensor map; a caller who allocates for each call would pay that
each time. Tensor maps are told a new address instead (CUDA driver API, cuTensorMapReplaceAddress); what stays where it
was, as weights do, is left alone.
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
        self._forms, self._launcher = tuple(forms), launcher
        self._lock = threading.Lock()
        moves: dict[int, list[Move]] = {}
        for slot, tensor in zip(slots, tensors, strict=True):
            if tensor >= 0:
                move = mover(slot) if isinstance(slot, ctypes.Array) else _setter(slot)
                moves.setdefault(tensor, []).append(move)
        self._moves = tuple((tensor, tuple(of)) for tensor, of in moves.items())
        self._numbers = tuple((slot, n) for slot, n in zip(slots, numbers, strict=True) if n is not None)
        self._at = [-1] * len(self._forms)  # where each tensor of the parameters is
        self._spans = tuple(f.span for f in self._forms)
        self._aligned = tuple((i, f.spec.align) for i, f in enumerate(self._forms) if f.span)
        # results against all before them
        self._pairs = tuple((i, j) for i in range(operands, len(self._forms)) for j in range(i))

    def launch(self, addresses: Sequence[int], scalars: Any, workspace: Any, stream: int) -> None:
        """Launches with the tensors at `addresses`.

        Raises:
            ArgumentError: NULL, alignment, or a result that overlaps another tensor.
        """
        for i, align in self._aligned:
            if not addresses[i] or addresses[i] % align:
                checks.check_address(self._forms[i].spec, addresses[i])
        spans = self._spans
        for i, j in self._pairs:
            apart = addresses[i] - addresses[j]
            if -spans[i] < apart < spans[j]:
                checks.check_overlap(self._forms[j], addresses[j], self._forms[i], addresses[i])
        at = self._at
        with self._lock:  # the driver copies the parameters before the launch returns
            for tensor, moves in self._moves:
                address = addresses[tensor]
                if at[tensor] != address:
                    at[tensor] = -1  # until all have moved
                    for move in moves:
                        move(address)
                    at[tensor] = address
            for slot, number in self._numbers:
                slot.value = number(scalars, workspace)  # pyright: ignore[reportAttributeAccessIssue]
            self._launcher(stream)


def _setter(slot: Any) -> Move:
    def move(address: int) -> None:
        slot.value = address

    return move
