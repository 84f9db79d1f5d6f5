"""Branches of one condition become one: what the later does stands behind what the earlier does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scalec.ir.mlir import ir


def around(block: ir.Block) -> Iterator[ir.Block]:
    """A block, and those around it, as far as branches and loops go."""
    while True:
        yield block
        owner = block.owner.operation
        if not owner.name.startswith("scf."):
            return
        block = owner.block


def join(first: Any, second: Any) -> bool:
    """Puts what a branch does behind what the one before does, and what it is computed of before both, if it can: where
    that depends on nothing but what was there before the first. The second is then gone."""
    first, second = first.operation, second.operation
    into, inner = (x.regions[0].blocks[0] for x in (first, second))
    before = list(around(first.block))
    place = {op.operation: i for i, op in enumerate(first.block.operations)}
    own, moved = set(_within(inner)), dict[Any, None]()

    def there(value: ir.Value) -> bool:
        """Whether a value is before both, or what makes it can be moved there."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return owner in before
        owner = owner.operation
        if owner in own or owner in moved or place.get(owner, len(place)) < place[first]:
            return True
        if owner not in place and owner.block in before:
            return True
        if owner == first or not _pure(owner) or not all(map(there, owner.operands)):
            return False
        moved[owner] = None
        return True

    if not all(there(v) for op in inner.operations for v in _operands(op)):
        return False
    for op in moved:
        op.move_before(first)
    last = list(into.operations)[-1].operation
    for op in list(inner.operations)[:-1]:
        op.operation.move_before(last)
    second.erase()
    return True


def _within(block: ir.Block) -> Iterator[Any]:
    """The ops of a block, with those in them."""
    for op in block.operations:
        yield op.operation
        for region in op.operation.regions:
            for inner in region.blocks:
                yield from _within(inner)


def _operands(op: Any) -> list[ir.Value]:
    """Those of an op and of all that is in it."""
    inner = (o for region in op.operation.regions for block in region.blocks for o in block.operations)
    return [*op.operation.operands, *(v for o in inner for v in _operands(o))]


def _pure(op: Any) -> bool:
    """Whether an op depends on its operands alone."""
    if op.name == "llvm.inline_asm":
        return "has_side_effects" not in op.attributes and "memory" not in str(op.attributes["constraints"])
    return op.name.startswith("arith.") or op.name in _OF_VALUES


_OF_VALUES = ("llvm.getelementptr", "llvm.ptrtoint", "llvm.inttoptr", "llvm.extractvalue", "llvm.bitcast")
