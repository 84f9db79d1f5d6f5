"""Integers less zero points: `(B[n,k]:u4 - Z[n,k/128]:u4)`, `(B[n,k]:u4 - (Z[k/128,n]:u4 + 1))` and `(B[n,k]:u4 - 8)`,
to the right or the left of `@`, or times their scales in an elementwise expression, `(B[n,k]:u4 - 8) scale(1x128)`."""

from __future__ import annotations

from typing import NoReturn, cast

from scalec.frontend import affine, ast, scales
from scalec.frontend.diagnostics import Source, one_of
from scalec.frontend.names import Names
from scalec.frontend.program import POINT, Read, Subtract, Tensor
from scalec.zero_points import MOST, RANGES, SHIFTED


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

    def integers_of(self, node: ast.Node) -> ast.Binary | None:
        """Likewise where a type stands behind it: with a tensor of other than integers it is computed elementwise."""
        found = self.of(node)
        zeros = self.parts(found.right)[0] if found is not None else None
        known = self.names.tensors.get(zeros.name.text) if zeros is not None else None
        said = zeros.type.text if zeros is not None and zeros.type else known.type if known else ""
        return found if said in ("", *RANGES) else None

    def none(self, node: ast.Shifted) -> Exception:
        """That scales stand behind a bracket that has no zero points."""
        said = self.source.text[slice(*node.value.span)]
        return self.source.error(
            node.scale.span,
            f"scale(...) stands behind ({said}), which is no tensor of integers less its zero points",
            got=self.source.text[slice(*node.scale.span)],
            expected=f"a tensor of {one_of(SHIFTED)} less zero points, as in (B[n,k]:u4 - 8) scale(1x128)",
            fix="write scale(...) behind the tensor that has these scales, or multiply by a tensor of scales",
        )

    @staticmethod
    def parts(node: ast.Node) -> tuple[ast.Tensor | None, ast.Node | None, int]:
        """Of what is subtracted the tensor, and a number that is added to it, or taken away where the sign is -1: of
        `Z[n] - 1` these two and -1. None where there is no such."""
        if isinstance(node, ast.Tensor):
            return node, None, 1
        if isinstance(node, ast.Number):
            return None, node, 1
        if isinstance(node, ast.Binary) and node.operator in "+-":
            left, right = node.left, node.right
            if isinstance(left, ast.Tensor) and isinstance(right, ast.Number):
                return left, right, 1 if node.operator == "+" else -1
            if isinstance(right, ast.Tensor) and isinstance(left, ast.Number) and node.operator == "+":
                return right, left, 1
        return None, None, 1

    def number(self, node: ast.Binary, number: ast.Node | None, name: str) -> int:
        """A number that all zero points are, or that is added to them."""
        said = number or node.right
        value = float(number.text) if isinstance(number, ast.Number) else 0.5
        if value.is_integer() and value <= MOST:
            return int(value)
        text = self.source.text[said.span[0] : said.span[1]]
        raise self.source.error(
            said.span,
            f"{text} is no zero point of {name}",
            got=text,
            expected=f"an integer from 0 to {MOST}, or a tensor of {one_of(RANGES)}, plus or less such a number",
            fix="round it"
            if number is not None and value <= MOST
            else f"write one tensor: {name}[...] - Z[...], or {name}[...] - (Z[...] + 1)",
        )

    def tensor(self, node: ast.Binary, right: ast.Tensor, values: Read, zeros: Read, plus: int) -> Subtract:
        """With zero points in memory; of the values' type where no other is said."""
        of, tensor = cast(Tensor, values.source), zeros.source
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
        at: list[tuple[int, affine.Linear]] = []
        for position, index in enumerate(zeros.index):
            found = next((x for axis, i in enumerate(values.index) if (x := _computed(index, axis, i))), None)
            taken = found is not None and found[0] in (axis for axis, _ in at)
            block = _block(found[1]) if found is not None else 0
            if found is None or taken or (affine.symbols(index) and not block):
                self._refuse(values, zeros, right, position)
            at.append(found)
            if affine.symbols(index):
                self.names.as_many[tensor, position] = of, found[0], block
        return Subtract(node.span, values.dims, values, zeros, tuple(at), plus)

    def _refuse(self, values: Read, zeros: Read, right: ast.Tensor, position: int) -> NoReturn:
        """An index of zero points that follows from none of the operand's."""
        of, name, index = cast(Tensor, values.source), cast(Tensor, zeros.source).name, zeros.index[position]
        written = ", ".join(map(str, values.index))
        usual = ", ".join(map(str, [*values.index[:-1], affine.divide(values.index[-1], 128)]))
        what = "each of {} at most once, or computed of one of these"
        if affine.symbols(index):
            what = "each of {} at most once, or divided by a number"
        raise self.source.error(
            right.indices[position].span,
            f"{name} is indexed by {index}, and {of.name} by {written}",
            got=str(index),
            expected=what.format(written),
            fix=f"write {name}[{usual}]",
        )


def _computed(index: affine.Linear, axis: int, of: affine.Linear) -> tuple[int, affine.Linear] | None:
    """An index as computed of the index `of` of an axis, None where it follows from another."""
    found = affine.within(index, of, POINT)
    return (axis, found) if found is not None and affine.dims(found) == {POINT} else None


def _block(at: affine.Linear) -> int:
    """How many adjacent indices have one of what is computed of these, where no more than that is; else 0."""
    if at == affine.atom(affine.Dim(POINT)):
        return 1
    atom, coefficient = at.terms[0]
    if not isinstance(atom, affine.Quotient) or atom.ceiling or not affine.plain(atom.value):
        return 0
    return atom.divisor if len(at.terms) == coefficient == 1 and not at.constant else 0
