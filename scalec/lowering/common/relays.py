"""What one iteration of a loop leaves to the next: each register of a value as a mutable local."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common.state import COMMON, State


@dataclass
class Relay:
    """`held`: a value's structure, with variables in place of its registers; None where nothing was put there."""

    held: Any = None


@COMMON.lowers("tile.start_relay")
def start_relay(s: State, op: ir.OpView) -> None:
    s.values[op.result] = Relay()


@COMMON.lowers("tile.leave")
def leave(s: State, op: ir.OpView) -> None:
    room, value = s.get(op.relay), s.get(op.value)
    if room.held is None:
        room.held = _mapped(value, lambda x: s.b.variable(x.type) if isinstance(x, ir.Value) else x)
    _set(room.held, value)


@COMMON.lowers("tile.left")
def left(s: State, op: ir.OpView) -> None:
    s.values[op.result] = _mapped(s.get(op.relay).held, lambda x: x.get() if isinstance(x, Variable) else x)


def _mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A value with its leaves replaced: of lists, tuples and dataclasses."""
    if isinstance(value, list | tuple):
        return type(value)(_mapped(x, leaf) for x in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _mapped(getattr(value, f.name), leaf) for f in fields(value)})
    return leaf(value)


def _set(held: Any, value: Any) -> None:
    """Sets each variable to the register in its place."""
    if isinstance(held, list | tuple):
        for mine, own in zip(held, value, strict=True):
            _set(mine, own)
    elif is_dataclass(held):
        for f in fields(held):
            _set(getattr(held, f.name), getattr(value, f.name))
    elif isinstance(held, Variable):
        held.set(value)
