"""Operands with zero points: `(B[n,k]:u4 - Z[n,k/128]:u4)` and `(B[n,k]:u4 - 8)`, to the right or the left of `@`."""

from __future__ import annotations

from typing import cast

from scalec.frontend import affine, ast, scales
from scalec.frontend.diagnostics import Source, one_of
from scalec.frontend.names import Names
from scalec.frontend.program import Read, Subtract, Tensor
from scalec.zero_points import RANGES, SHIFTED


class ZeroPoints:
    """Reads such operands."""

    def __init__(self, source: Source, names: Names) -> None:
        self.source, self.names = source, names

    def of(self, node: ast.Node) -> ast.Binary | None:
        """The node, where it is a tensor of small integers less something; else it is an elementwise expression."""
        if not isinstance(node, ast.Binary) or node.operator != "-" or not isinstance(node.left, ast.Tensor):
            return None
        known = self.names.tensors.get(node.left.name.text)
        said = node.left.type.text if node.left.type else known.type if known else ""
        return node if said in SHIFTED else None

    def number(self, node: ast.Binary, values: Read) -> Subtract:
        """With one zero point for all."""
        right, name = node.right, cast(Tensor, values.source).name
        value = float(right.text) if isinstance(right, ast.Number) else 0.5
        most = RANGES["i8"][1]
        if not value.is_integer() or value > most:
            said = self.source.text[right.span[0] : right.span[1]]
            raise self.source.error(
                right.span,
                f"{said} is no zero point of {name}",
                got=said,
                expected=f"an integer from 0 to {most}, or a tensor of {one_of(RANGES)}",
                fix="round it"
                if isinstance(right, ast.Number) and value <= most
                else f"write one tensor: {name}[...] - Z[...]",
            )
        return Subtract(node.span, values.dims, values, int(value), ())

    def tensor(self, node: ast.Binary, values: Read, zeros: Read) -> Subtract:
        """With zero points in memory; of the values' type where no other is said."""
        of, tensor, right = cast(Tensor, values.source), zeros.source, cast(ast.Tensor, node.right)
        if not isinstance(tensor, Tensor):
            raise self.source.error(
                right.span,
                f"the zero points of {of.name} are computed",
                got=f"{right.name.text}, which a statement defines",
                expected="a number, or a tensor that is given",
            )
        if not tensor.type:
            scales.say(self.source, tensor, right.span, of.type)
        if tensor.type not in RANGES or tensor.levels:
            raise self.source.error(
                right.span,
                f"{tensor.name} is {tensor.type}{' with scales' * bool(tensor.levels)}, and zero points are integers",
                got=tensor.type,
                expected=one_of(RANGES),
                fix=f"round {tensor.name} and store it as {of.type}; where that loses too much, multiply it by the "
                "scales, and subtract its product with the other operand's sums after the call",
            )
        blocks = []
        for position, index in enumerate(zeros.index):
            found = [(axis, block) for axis, i in enumerate(values.index) if (block := _block(index, i))]
            if not found or found[0][0] in (axis for axis, _ in blocks):
                written = ", ".join(map(str, values.index))
                usual = ", ".join(map(str, [*values.index[:-1], affine.divide(values.index[-1], 128)]))
                raise self.source.error(
                    right.indices[position].span,
                    f"{tensor.name} is indexed by {index}, and {of.name} by {written}",
                    got=str(index),
                    expected=f"each of {written} at most once, or divided by a number",
                    fix=f"write {tensor.name}[{usual}]",
                )
            blocks.append(found[0])
            if affine.symbols(index):
                self.names.as_many[tensor, position] = of, *found[0]
        return Subtract(node.span, values.dims, values, zeros, tuple(blocks))


def _block(index: affine.Linear, of: affine.Linear) -> int:
    """How many adjacent values of the index `of` have one of `index`; 0 where it is another index."""
    if index == of:
        return 1
    if index.constant or len(index.terms) != 1:
        return 0
    atom, coefficient = index.terms[0]
    if not isinstance(atom, affine.Quotient) or atom.ceiling or atom.value != of:
        return 0
    return atom.divisor if coefficient == 1 else 0
