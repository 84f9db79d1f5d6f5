"""Emitting `tile` ops: attributes from Python values, regions as contexts, kernel parameters on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.targets import ATOM

_PREDICATES = {"eq": 0, "lt": 6}  # arith.cmpi; lt unsigned


Step = tuple[ir.OpView, list[ir.Value]]
"""An op of an elementwise body, and its operands."""

Operands = Sequence[ir.Value | Sequence[ir.Value] | None]
"""What an op takes: a list of those that come in any number, and None for one that is left out."""


@dataclass(frozen=True)
class Source:
    """Where a kernel parameter's value comes from: the fields of scalec.abi.Argument, and the alignment it needs."""

    kind: str
    tensor: str = ""
    dim: str = ""
    axis: int = 0
    box: tuple[int, ...] = ()
    swizzle: int = 0
    atom: int = ATOM
    element: str = ""
    permuted: int = 0
    axes: tuple[int, ...] = ()
    align: int = 0


def attribute(value: Any) -> ir.Attribute:
    """A Python int, str or tuple of ints as an attribute, True as a unit attribute; attributes as they are."""
    if isinstance(value, ir.Attribute):
        return value
    if value is True:
        return ir.UnitAttr.get()
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    return ir.DenseI64ArrayAttr.get(list(value))


def _swizzle(bytes: int, atom: int) -> ir.Attribute:
    return attribute(bytes if atom == ATOM else (bytes, atom))


@cache
def _in_groups() -> frozenset[str]:
    """The ops whose operands come in groups, of which each has a size of its own."""
    return frozenset(x.OPERATION_NAME for x in tile.Tile.operations if x._ODS_OPERAND_SEGMENTS)


class Emitter:
    """Emits ops at the current insertion point and collects the kernel's parameters."""

    def __init__(self) -> None:
        self._parameters: dict[Source, ir.Value] = {}

    # ------------------------------------------------------------------------------------------------------------ ops

    def op(
        self,
        name: str,
        results: Sequence[ir.Type] = (),
        operands: Operands = (),
        *,
        regions: int = 0,
        **attributes: Any,
    ) -> ir.Operation:
        """One operation; an attribute that is False or None is left out."""
        made = {k: attribute(v) for k, v in attributes.items() if v is not None and v is not False}
        if name in _in_groups():
            groups = [x if isinstance(x, (list, tuple)) else [] if x is None else [x] for x in operands]
            made["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(list(map(len, groups)))
            operands = [x for group in groups for x in group]
        return ir.Operation.create(name, list(results), list(operands), made, regions=regions)

    @contextmanager
    def region(
        self,
        name: str,
        operands: Operands = (),
        arguments: Sequence[ir.Type] = (),
        results: Sequence[ir.Type] = (),
        **attributes: Any,
    ) -> Iterator[ir.Block]:
        """An operation with one region of one block, whose body is emitted inside the `with`."""
        made = self.op(name, results, operands, regions=1, **attributes)
        block = made.regions[0].blocks.append(*arguments)
        with ir.InsertionPoint(block):
            yield block

    def arith(self, name: str, *operands: ir.Value) -> ir.Value:
        return self.op(name, [operands[0].type], operands).result

    def compare(self, predicate: str, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.op("arith.cmpi", [ir.IntegerType.get_signless(1)], [a, b], predicate=_PREDICATES[predicate]).result

    def cursor(self, depth: int) -> ir.Value:
        """A position in a ring of so many stages, at the first one."""
        return self.op("tile.cursor", [self.type("position")], depth=depth).result

    def negated(self, condition: ir.Value) -> ir.Value:
        """Whether a condition (i1) does not hold."""
        return self.arith("arith.xori", condition, self.i1(1))

    def i32(self, value: int) -> ir.Value:
        return self._constant(value, 32)

    def i1(self, value: int) -> ir.Value:
        return self._constant(value, 1)

    def i64(self, value: int) -> ir.Value:
        return self._constant(value, 64)

    def _constant(self, value: int, width: int) -> ir.Value:
        type = ir.IntegerType.get_signless(width)
        return self.op("arith.constant", [type], value=ir.IntegerAttr.get(type, value)).result

    # ---------------------------------------------------------------------------------------------------------- types

    def type(self, name: str) -> ir.Type:
        """A `tile` type without parameters."""
        return ir.Type.parse(f"!tile.{name}")

    def descriptor(self, box: tuple[int, ...], element: ir.Type, swizzle: int, atom: int = ATOM) -> ir.Type:
        return tile.DescriptorType.get(attribute(box), element, _swizzle(swizzle, atom))

    def buffer(self, shape: tuple[int, int], element: ir.Type, swizzle: int, stages: int, atom: int = ATOM) -> ir.Type:
        return tile.SharedType.get(attribute(tuple(shape)), element, _swizzle(swizzle, atom), attribute(stages))

    def accumulator(self, rows: int, columns: int, space: str = "registers") -> ir.Type:
        return tile.FragmentType.get(attribute((rows, columns)), attribute(space))

    def sums(self, shape: tuple[int, int], slots: int) -> ir.Type:
        return tile.SumsType.get(attribute(tuple(shape)), attribute(slots))

    def responses(self, stages: int) -> ir.Type:
        return tile.ResponsesType.get(attribute(stages))

    def items(self, words: int, slots: int) -> ir.Type:
        return tile.ItemsType.get(attribute(words), attribute(slots))

    def multiplicand(self, side: str, rows: int, depth: int, element: ir.Type) -> ir.Type:
        return tile.MultiplicandType.get(attribute((rows, depth)), element, attribute(side))

    def words(self, side: str, words: int, rows: int) -> ir.Type:
        return tile.WordsType.get(attribute((words, rows)), attribute(side))

    def memory(self, tensor: ir.Type) -> ir.Type:
        """The memref that a tensor argument is to threads; outer strides come as parameters of their own."""
        shape = [
            ir.MemRefType.get_dynamic_size() if tensor.is_dynamic_dim(i) else tensor.get_dim_size(i)
            for i in range(tensor.rank)
        ]
        return ir.MemRefType.get(shape, tensor.element_type)

    # ----------------------------------------------------------------------------------------------------- parameters

    def parameter(self, body: ir.Block, type: ir.Type, source: Source) -> ir.Value:
        """The kernel's parameter for `source`, added to its block the first time it is asked for."""
        if source not in self._parameters:
            self._parameters[source] = body.add_argument(type, ir.Location.unknown())
        return self._parameters[source]

    def arguments_attribute(self) -> ir.Attribute:
        """`arguments` of the kernel: one dictionary for each parameter."""
        return ir.ArrayAttr.get(
            [ir.DictAttr.get({k: attribute(v) for k, v in vars(source).items()}) for source in self._parameters]
        )


def copied(op: ir.OpView, operands: list[ir.Value]) -> ir.Value:
    """The same op of other operands, at the insertion point."""
    attributes = {k: op.operation.attributes[k] for k in op.operation.attributes}
    return ir.Operation.create(op.operation.name, [op.result.type], operands, attributes).result
