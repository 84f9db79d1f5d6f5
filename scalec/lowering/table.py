"""The table op → function that lowering is: each target's module registers one small function for each tile op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalec.errors import UnsupportedError
from scalec.ir.mlir import ir

Lower = Callable[[Any, ir.OpView], None]


class Table:
    """op name → function(state, op). `state.values` maps tile values to whatever their functions made of them.

    `settles`: whether a role's values are made when its threads have the role's registers.
    """

    def __init__(self, target: str, settles: bool = False) -> None:
        self.target, self.settles = target, settles
        self._functions: dict[str, Lower] = {}

    def extended(self, target: str, settles: bool = False) -> Table:
        """A table for `target` that begins with the functions of this one."""
        made = Table(target, settles or self.settles)
        made._functions = dict(self._functions)
        return made

    def lowers(self, *names: str) -> Callable[[Lower], Lower]:
        """Registers the decorated function for ops of these names."""

        def register(function: Lower) -> Lower:
            for name in names:
                self._functions[name] = function
            return function

        return register

    def one(self, state: Any, op: ir.OpView) -> None:
        """Lowers one op.

        Raises:
            UnsupportedError: an op without a function on this target.
        """
        function = self._functions.get(op.operation.name)
        if function is None:
            raise UnsupportedError(
                f"{op.operation.name} has no lowering for {self.target}", fix="choose a target that has one"
            )
        function(state, op)

    def block(self, state: Any, block: ir.Block) -> None:
        """Lowers the ops of a block in order."""
        for op in block.operations:
            self.one(state, op)
