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
        tensors: for each slot the tensor (its place in `forms`) whose address it holds, and what is added to that;
            -1 where it holds none.
        numbers: for each slot what sets it from the scalars and the workspace; None where it holds neither.
    """

    def __init__(
        self,
        mover: Mover,
        forms: Sequence[Any],
        operands: int,
        slots: Sequence[Parameter],
        tensors: Sequence[tuple[int, int]],
        numbers: Sequence[Callable[[Any, Any], Any] | None],
        launcher: Launcher,
    ) -> None:
        self._forms, self._launcher = tuple(forms), launcher
        self._lock = threading.Lock()
        moves: list[list[Move]] = [[] for _ in self._forms]
        for slot, (tensor, behind) in zip(slots, tensors, strict=True):
            if tensor >= 0:
                move = mover(slot) if isinstance(slot, ctypes.Array) else _setter(slot)
                moves[tensor].append(_behind(move, behind) if behind else move)
        self._spans = tuple(f.span for f in self._forms)
        self._moves = tuple((i, f.span, f.spec.align, tuple(moves[i])) for i, f in enumerate(self._forms))
        self._numbers = tuple((slot, n) for slot, n in zip(slots, numbers, strict=True) if n is not None)
        self._at = [-1] * len(self._forms)  # where each tensor of the parameters is, if it has been checked
        # results against all before them
        self._operands = operands
        self._pairs = tuple((i, j) for i in range(operands, len(self._forms)) for j in range(i))

    def launch(self, addresses: Sequence[int], scalars: Any, workspace: Any, stream: int) -> None:
        """Launches with the tensors at `addresses`.

        Raises:
            ArgumentError: NULL, alignment, or a result that overlaps another tensor.
        """
        at, spans = self._at, self._spans
        for i, j in self._pairs:
            if -spans[i] < addresses[i] - addresses[j] < spans[j]:
                checks.check_overlap(self._forms[j], addresses[j], self._forms[i], addresses[i])
        with self._lock:  # the driver copies the parameters before the launch returns
            for i, span, align, moves in self._moves:
                address = addresses[i]
                if at[i] != address:
                    if span and (not address or address % align):
                        checks.check_address(self._forms[i].spec, address, i >= self._operands)
                    at[i] = -1  # until all have moved
                    for move in moves:
                        move(address)
                    at[i] = address
            for slot, number in self._numbers:
                slot.value = number(scalars, workspace)  # pyright: ignore[reportAttributeAccessIssue]
            self._launcher(stream)


def _behind(move: Move, bytes: int) -> Move:
    return lambda address: move(address + bytes)


def _setter(slot: Any) -> Move:
    def move(address: int) -> None:
        slot.value = address

    return move
