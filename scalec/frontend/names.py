"""Names: which are dimensions, tensors, scalars and results, and what shape the indices give each tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalec.errors import SourceError
from scalec.frontend import affine, ast
from scalec.frontend.affine import LIMIT, Linear, TooLarge
from scalec.frontend.diagnostics import Source, Span, one_of, spelled
from scalec.frontend.program import Argument, Scalar, Scales, Statement, Tensor, scale_name
from scalec.suggestions import did_you_mean

FUNCTIONS = {  # name: fewest arguments, most
    "relu": (1, 1),
    "gelu": (1, 1),
    "silu": (1, 1),
    "sigmoid": (1, 1),
    "tanh": (1, 1),
    "exp": (1, 1),
    "sqrt": (1, 1),
    "abs": (1, 1),
    "sign": (1, 1),
    "min": (2, 64),
    "max": (2, 64),
}
STOCHASTIC, HADAMARD = "stochastic", "hadamard"
"""What is done with all of a statement's right side: it is rounded by chance, it is transformed."""
SIZE = "size"
"""What an index calls the size of a dimension by: `size(n)`."""
REDUCTIONS = ("sum", "max", "min")
MAX_EXTENT = 2**40 - 1  # the largest dimension that a tensor map can describe is 2^32; extents are 64-bit in MLIR
KEYWORDS = ("for", "in", "else", "scale", "quantize", "with", "inf")


class Names:
    """The names of one program, filled in the order of the text.

    Attributes:
        arguments: the function's arguments, in order.
        defined: what the statements so far define.
        current: the statement that is being read, None between two.
    """

    def __init__(self, source: Source, sizes: Mapping[str, int]) -> None:
        self.source = source
        self.sizes = sizes
        self.kinds: dict[str, str] = {}
        self.tensors: dict[str, Tensor] = {}
        self.scalars: dict[str, Scalar] = {}
        self.arguments: list[Argument] = []
        self.defined: dict[str, Statement] = {}
        self.current: Statement | None = None
        self.dim_spans: dict[str, Span] = {}
        self.size_spans: dict[str, Span] = {}
        # extents that only indices from memory reach, with which of another tensor each goes, and how many of that
        # each covers: (tensor, position, block)
        self.as_many: dict[tuple[Tensor, int], tuple[Tensor, int, int]] = {}
        # extents that only constant indices have reached: the tensor is at least that large
        self._at_least: frozenset[tuple[Tensor, int]] = frozenset()
        # a (tensor, position) stands where an extent that only indices from memory reach takes its dimension
        self._dims: list[str | tuple[Tensor, int]] = []

    @property
    def copies(self) -> bool:
        """Whether the statement that is being read copies scales."""
        return self.current is not None and self.current.copies

    def claim(self, name: str, kind: str, span: Span) -> None:
        """Notes that `name` is a `kind`; refuses a name that is something else already."""
        taken = KEYWORDS if kind == "dimension" else (*KEYWORDS, *FUNCTIONS, *REDUCTIONS, STOCHASTIC, HADAMARD)
        had = "word of the language" if name in taken else self.kinds.setdefault(name, kind)
        if had != kind:
            raise self.source.error(
                span,
                f"{name} is two things",
                got=f"{name}, {_a(had)}, as {_a(kind)}",
                expected="one name for each dimension, tensor and scalar",
                fix=f"rename one of the two, e.g. {name}_",
            )

    # ----------------------------------------------------------------------------------------------------- indices

    def index(self, node: ast.Node) -> Linear:
        """An index expression in normal form."""
        try:
            return self._index(node)
        except TooLarge:
            raise self.source.error(
                node.span,
                "this index has too large a number",
                got=self.source.text[node.span[0] : node.span[1]],
                expected=f"factors and constants up to {LIMIT}",
            ) from None

    def _index(self, node: ast.Node) -> Linear:
        if isinstance(node, ast.IndexConstant):
            if len(node.digits) > 10:
                raise TooLarge
            return affine.constant(int(node.digits))
        if isinstance(node, ast.IndexName):
            return affine.atom(self.dim(node.text, node.span))
        if isinstance(node, ast.IndexNegate):
            return affine.times(self._index(node.value), -1)
        if isinstance(node, ast.IndexSize):
            return affine.atom(self._size(node))
        if isinstance(node, ast.IndexRead):
            self.no_size(node, f"an index of {node.name.text}, which is an index itself")
            tensor = self.tensor(node.name, len(node.indices), node.span)
            tensor.index = True
            return affine.atom(affine.Symbol(tensor.name, self.indices(tensor, node.indices)))
        if isinstance(node, ast.IndexBinary):
            return self._combine(node, self._index(node.left), self._index(node.right))
        raise TypeError(f"{node} is no index expression")  # the grammar has no other

    def _combine(self, node: ast.IndexBinary, left: Linear, right: Linear) -> Linear:
        if node.operator == "+":
            return affine.add(left, right)
        if node.operator == "-":
            return affine.add(left, affine.times(right, -1))
        if node.operator == "*":
            if left.terms and right.terms:
                raise self.source.error(
                    node.span,
                    "an index is multiplied by an index",
                    got=f"({left}) * ({right})",
                    expected="a product with an integer",
                )
            return affine.times(left, right.constant) if left.terms else affine.times(right, left.constant)
        if right.terms or right.constant <= 0:
            what = "divided" if node.operator == "/" else "reduced modulo"
            raise self.source.error(
                node.right.span, f"an index is {what} by {right}", got=str(right), expected="a positive integer"
            )
        return (affine.divide if node.operator == "/" else affine.remainder)(left, right.constant)

    def dim(self, name: str, span: Span) -> affine.Dim:
        """The dimension `name`, new or known."""
        self.claim(name, "dimension", span)
        if name not in self.dim_spans:
            self.dim_spans[name] = span
            self._dims.append(name)
        return affine.Dim(name)

    def _size(self, node: ast.IndexSize) -> affine.Size:
        """`size(n)`, of a dimension that the program has too: `finish_dims` asks."""
        if node.function.text != SIZE:
            raise self.source.error(
                node.function.span,
                f"{node.function.text} is no function of an index",
                got=f"{node.function.text}({node.dim.text})",
                expected=f"{SIZE}({node.dim.text}), the size of a dimension",
                fix=did_you_mean(node.function.text, (SIZE,)),
            )
        self.claim(node.dim.text, "dimension", node.dim.span)
        self.size_spans.setdefault(node.dim.text, node.dim.span)
        return affine.Size(node.dim.text)

    def no_size(self, root: ast.Node, where: str, *ranges: ast.Range) -> None:
        """Refuses the size of a dimension where no kernel could have it: anywhere but in an index of a tensor that is
        read."""
        found = next((n for n in ast.walk(root, *ranges) if isinstance(n, ast.IndexSize)), None)
        if found is not None:
            where = "the range of an index" if any(found in ast.walk(r) for r in ranges) else where
            said = self.source.text[found.span[0] : found.span[1]]
            raise self.source.error(
                found.span,
                f"{said} stands in {where}",
                got=said,
                expected="a size in the indices of a tensor that is read, as in W[n + size(n), k]",
                fix="write the number, or pass a view of the tensor",
            )

    def indices(self, tensor: Tensor, nodes: Sequence[ast.Node]) -> tuple[Linear, ...]:
        """The indices of one use of `tensor`, which give it its extents."""
        found = []
        for position, node in enumerate(nodes):
            before = len(self._dims)
            index = self.index(node)
            found.append(index)
            self._check_sign(tensor, node, index)
            try:
                self._widen(tensor, position, node, index)
            except TooLarge:
                raise self._too_large(tensor, node, index) from None
            if tensor.extents[position] is None and (tensor, position) not in self._dims:
                self._dims.insert(before, (tensor, position))
        self._check_twice(tensor, nodes, found)
        return tuple(found)

    def _check_sign(self, tensor: Tensor, node: ast.Node, index: Linear) -> None:
        least = affine.least(index)
        low = None if least is None else affine.value(least, self.sizes)
        if low is not None and low < 0:
            raise self.source.error(
                node.span,
                f"an index of {tensor.name} is negative",
                got=f"{index}, which starts at {low}",
                expected="0 or more at every point",
            )

    def _widen(self, tensor: Tensor, position: int, node: ast.Node, index: Linear) -> None:
        """Makes `tensor` large enough for one more use; two uses may differ by a constant (`off[g]`, `off[g+1]`), or by
        what one of them has more (`W[n,k]`, `W[n+size(n),k]`)."""
        had, extent = tensor.extents[position], affine.extent(index)
        if extent is None or extent == had:
            return
        if (affine.value(extent, self.sizes) or 0) > MAX_EXTENT:
            raise self._too_large(tensor, node, extent)
        place = (tensor, position)
        if had is None or (place in self._at_least and (extent.terms or extent.constant > had.constant)):
            tensor.extents[position] = extent
            self._at_least = self._at_least - {place} if index.terms else self._at_least | {place}
        elif not index.terms and (had.terms or extent.constant <= had.constant):
            return  # `A[0,k]` beside `A[m,k]`
        elif extent.terms and extent.terms == had.terms:
            tensor.extents[position] = max(had, extent, key=lambda e: e.constant)
        elif extent.terms and had.terms and (affine.covers(extent, had) or affine.covers(had, extent)):
            tensor.extents[position] = extent if affine.covers(extent, had) else had
        else:
            raise self.source.error(
                node.span,
                f"{tensor.name} would have two shapes",
                got=f"extent {extent} at this index, and {had} before",
                expected="the same index of every use of a tensor over the same dimension",
                fix="give one of the two tensors another name",
            )

    def _too_large(self, tensor: Tensor, node: ast.Node, index: Linear) -> SourceError:
        return self.source.error(
            node.span,
            f"{tensor.name} is too large",
            got=f"{index} at this index",
            expected=f"factors and constants up to {LIMIT}, extents up to {MAX_EXTENT}",
        )

    def _check_twice(self, tensor: Tensor, nodes: Sequence[ast.Node], index: Sequence[Linear]) -> None:
        for position, i in enumerate(index):
            name = affine.plain(i)
            others = [j for p, j in enumerate(index) if p != position and name in affine.direct_dims(j)]
            if name is not None and others:
                raise self.source.error(
                    nodes[position].span,
                    f"index {name} is twice in {tensor.name}",
                    got=f"{tensor.name}[{', '.join(map(str, index))}]",
                    expected="each index once in a tensor",
                    fix="split it, as in X[t/64, t%64], or name two indices",
                )

    # ----------------------------------------------------------------------------------------- tensors and scalars

    def tensor(self, name: ast.Name, count: int, span: Span) -> Tensor:
        """The tensor in memory that `name` is, new or known, used with `count` indices."""
        if name.text in self.defined:
            raise self.source.error(
                name.span,
                f"{name.text} is computed here and cannot be an index",
                got=f"{name.text}, which a statement defines",
                expected="an i32 tensor that is given",
            )
        self._not_itself(name)
        self.claim(name.text, "tensor", name.span)
        tensor = self.tensors.get(name.text)
        if tensor is None:
            self._not_empty(name, count, span)
            tensor = self.tensors[name.text] = Tensor(name.text, name.span, [None] * count)
            self.arguments.append(tensor)
        self.check_rank(name.text, span, count, len(tensor.extents))
        return tensor

    def _not_empty(self, name: ast.Name, count: int, span: Span) -> None:
        if count == 0:
            raise self.source.error(
                span,
                f"{name.text} has no index",
                got=f"{name.text}[]",
                expected="at least one index",
                fix=f"a scalar is a name alone: {name.text}",
            )

    def _not_itself(self, name: ast.Name) -> None:
        if self.current is not None and name.text == self.current.tensor.name:
            raise self.source.error(
                name.span,
                f"{name.text} is read by the statement that defines it",
                got=f"{name.text} on both sides",
                expected="each name defined once, before it is used",
                fix=f"accumulate into it with {name.text}[...] += ...",
            )

    def check_rank(self, name: str, span: Span, got: int, want: int) -> None:
        """Refuses a use with another number of indices."""
        if got != want:
            raise self.source.error(
                span,
                f"{name} has another number of indices",
                got=spelled(got, "index", "indices"),
                expected=f"{want}, as at its first use",
            )

    def scalar(self, name: ast.Name) -> Scalar:
        """The scalar `name`, new or known."""
        self._not_itself(name)
        kind = self.kinds.get(name.text)
        if kind == "tensor":
            raise self.source.error(
                name.span,
                f"{name.text} is a tensor and stands without its indices",
                got=name.text,
                expected=f"{name.text}[...] with {spelled(len(self.tensors[name.text].extents), 'index', 'indices')}",
            )
        if kind == "dimension":
            raise self.source.error(
                name.span,
                f"{name.text} is a dimension, not a value",
                got=name.text,
                expected="a scalar, a number or a tensor",
                fix=f"pass a scalar of another name, e.g. {name.text}_size",
            )
        self.claim(name.text, "scalar", name.span)
        if name.text not in self.scalars:
            self.scalars[name.text] = Scalar(name.text, name.span)
            self.arguments.append(self.scalars[name.text])
        return self.scalars[name.text]

    def define(self, target: ast.Target) -> Tensor:
        """A new name on the left of `=`."""
        name = target.name
        kind = self.kinds.get(name.text)
        if kind in ("tensor", "scalar"):
            raise self.source.error(
                name.span,
                f"{name.text} is used before it is defined",
                got=f"{name.text} in an earlier statement",
                expected="a definition above the first use",
                fix="move this statement up, or rename one of the two",
            )
        if kind == "result":
            raise self.source.error(
                name.span,
                f"{name.text} is defined twice",
                got=f"a second {name.text}",
                expected="one statement for each name",
                fix="rename one of the two",
            )
        self.claim(name.text, "result", name.span)
        self._not_empty(name, len(target.indices), target.span)
        return Tensor(name.text, name.span, [None] * len(target.indices))

    def place_scales(self, tensor: Tensor) -> None:
        """Makes the scales of `tensor` arguments, where it has some that are not yet."""
        if tensor.levels and not any(isinstance(a, Scales) and a.tensor is tensor for a in self.arguments):
            self.claim_scales(tensor)
            self.arguments.append(Scales(tensor))

    def claim_scales(self, tensor: Tensor, levels: int = 2) -> None:
        """Takes the names of the scales of `tensor`, those of so many levels at most."""
        for level in range(len((tensor.levels or ())[:levels])):
            self.claim(scale_name(tensor.name, level), f"scale of {tensor.name}", tensor.span)

    # ------------------------------------------------------------------------------------------------------- at the end

    def finish_dims(self) -> list[str]:
        """All dimensions in order. An extent that only indices from memory reach becomes one, named `<tensor>_<i>`."""
        for name, span in self.size_spans.items():
            if name not in self.dim_spans:
                raise self.source.error(
                    span,
                    f"{name} is no dimension of this program",
                    got=f"{SIZE}({name})",
                    expected=one_of(list(self.dim_spans)),
                    fix=did_you_mean(name, list(self.dim_spans)),
                )
        order: list[str] = []
        for d in self._dims:
            if isinstance(d, str):
                order.append(d)
            elif d[0].extents[d[1]] is None and d not in self.as_many:
                tensor, position = d
                name = f"{tensor.name}_{position}"
                self.claim(name, f"extent {position} of {tensor.name}", tensor.span)
                tensor.extents[position] = affine.atom(affine.Dim(name))
                order.append(name)
        for (tensor, position), (other, axis, block) in self.as_many.items():
            if tensor.extents[position] is None and (extent := other.extents[axis]) is not None:
                tensor.extents[position] = affine.divide(extent, block, ceiling=True)
        for name in self.sizes:
            check_dim(name, order)
        return order


def check_dim(name: str, dims: Sequence[str]) -> None:
    """Refuses the size of what is no dimension."""
    if name not in dims:
        raise SourceError(
            f"dims gives {name!r}, which is no dimension of this program",
            got=f"{name!r}",
            expected=one_of(dims),
            fix=did_you_mean(str(name), dims),
        )


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
