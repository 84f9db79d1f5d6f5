"""What a fused program asks of a dense two-dimensional contraction kernel, as plain data.

The passes that decide and the one that emits `tile` read these dataclasses instead of walking the IR; what such a
kernel cannot take is refused here, once, with its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, LAYOUTS, WHOLE, ElementType
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, block_of, dims_in, element, map_of, maps_of
from scalec.targets import Target

PROMOTION_BLOCK = 128
"""K elements that one scale step promotes: the block of the FP8 formats, and one K tile of 128 bytes."""


@dataclass(frozen=True)
class Dim:
    """A dimension of the program; `size` is None where it stays dynamic, `position` its place in `scale.dims`."""

    name: str
    size: int | None
    position: int

    def tiles(self, extent: int, assumed: int) -> int:
        """Tiles of `extent` that cover the dimension, or `assumed` elements where its size is unknown."""
        return -(-(assumed if self.size is None else self.size) // extent)


@dataclass(frozen=True)
class Scale:
    """An f32 scale that varies along K: one for each `rows` x `k` block of its operand.

    Attributes:
        argument_index: position among the function's arguments.
        name: what the user calls it.
        rows: rows (of A) or columns of the product (of B) in a block; WHOLE where one block spans all.
        k: K elements of a block, a multiple of PROMOTION_BLOCK.
        layout: "row" or "col" (rows contiguous).
    """

    argument_index: int
    name: str
    rows: int
    k: int
    layout: str


@dataclass(frozen=True)
class Operand:
    """A or B.

    Attributes:
        argument_index: position among the function's arguments.
        name: what the user calls it.
        element: its element type.
        rows: name of its dimension that is not K.
        contiguous: "k", or the name of `rows` for an operand stored with K outermost.
        scales: its scales that vary along K, innermost level first.
    """

    argument_index: int
    name: str
    element: ElementType
    rows: str
    contiguous: str
    scales: tuple[Scale, ...]


@dataclass(frozen=True)
class Index:
    """One index of an access: `dim floordiv divisor`, or the constant 0 where `dim` is empty."""

    dim: str
    divisor: int = 1


@dataclass(frozen=True)
class EpilogueInput:
    """A view that the epilogue's body reads beside the accumulator.

    Attributes:
        argument_index: position among the function's arguments.
        name: what the user calls it.
        element: its element type.
        kind: "row" (depends on M alone), "col" (on N alone), "both" or "scalar".
        index: where it is read, one entry an axis; empty for a scalar argument.
        layout: "row" or "col", the layout of the argument.
        view: position among the map's views, and so among the body's arguments.
        value: the function's argument.
    """

    argument_index: int
    name: str
    element: ElementType
    kind: str
    index: tuple[Index, ...]
    layout: str
    view: int
    value: Any


@dataclass(frozen=True)
class Result:
    """The tensor that the kernel writes: `dims` is (M, N) by name. `inout`: it is also read, being accumulated into."""

    name: str
    element: ElementType
    dims: tuple[str, str]
    inout: bool


@dataclass(frozen=True)
class Problem:
    """result[m, n] = epilogue(sum over k of lhs[m, k] * rhs[n, k], inputs).

    `contraction` and `epilogue` are the ops `scale.contract` and `scale.map` (None where the f32 sums are the
    result); `accumulators` are the positions of the accumulator among the epilogue's views.
    """

    target: Target
    m: Dim
    n: Dim
    k: Dim
    lhs: Operand
    rhs: Operand
    contraction: Any
    epilogue: Any
    accumulators: tuple[int, ...]
    inputs: tuple[EpilogueInput, ...]
    result: Result

    @property
    def has_scales(self) -> bool:
        """Whether any scale varies along K, so that sums must be promoted block by block."""
        return bool(self.lhs.scales or self.rhs.scales)

    @staticmethod
    def of(function: Any, target: Target) -> Problem:
        """Reads a fused program.

        Raises:
            UnsupportedError: it is not a dense two-dimensional contraction that `target` has instructions for.
        """
        return _Reader(function, target).problem()


def contractions(function: Any) -> list[Any]:
    """The contractions of a program, in order."""
    return [op for op in function.body.blocks[0].operations if op.operation.name == "scale.contract"]


def element_of(value: Any, name: str) -> ElementType:
    """The row of a value's element type.

    Raises:
        UnsupportedError: an MLIR type that the language has no name for.
    """
    spelled = str(element(value.type))
    for row in ELEMENT_TYPES.values():
        if row.mlir == spelled:
            return row
    raise UnsupportedError(f"{name} has element type {spelled}", expected=", ".join(ELEMENT_TYPES))


class _Reader:
    """The walk over one function; each method refuses what it cannot represent."""

    def __init__(self, function: Any, target: Target) -> None:
        self.target = target
        self.function = function
        self.block = function.body.blocks[0]
        self.dims = [ir.StringAttr(a).value for a in function.attributes["scale.dims"]]
        self.arguments = list(self.block.arguments)

    def problem(self) -> Problem:
        contract = self.contraction()
        roles = self.roles(contract)
        lhs_map, rhs_map, _ = maps_of(contract.maps)
        m, n, k = (self.dim(roles[role], contract) for role in ("m", "n", "k"))
        lhs = self.operand(contract.lhs, lhs_map, m, k, "left")
        rhs = self.operand(contract.rhs, rhs_map, n, k, "right")
        self.instruction(lhs, rhs)
        epilogue, accumulators, inputs, result = self.epilogue(contract, m, n)
        return Problem(self.target, m, n, k, lhs, rhs, contract, epilogue, accumulators, inputs, result)

    def contraction(self) -> Any:
        known = ("scale.contract", "scale.dequantize", "scale.map", "scale.read", "func.return")
        what = {
            "scale.reduce": "a reduction beside the contraction",
            "scale.quantize": "a quantised result",
            "scale.scatter": "a scattered result",
            "scale.index": "an index read from memory",
            "scale.domain": "a ragged range",
        }
        for op in self.block.operations:
            name = op.operation.name
            if name not in known:
                raise UnsupportedError(
                    f"{what.get(name, name)} has no kernel on {self.target.name} yet",
                    got=name,
                    expected="one dense contraction with an elementwise epilogue",
                    fix="compute it outside the program",
                )
        found = contractions(self.function)
        if len(found) != 1:
            raise UnsupportedError(
                f"the program has {len(found)} contractions",
                expected="exactly one in a program",
                fix="one program for each contraction",
            )
        return found[0]

    def roles(self, contract: Any) -> dict[str, str]:
        attributes = contract.operation.attributes
        if "roles" not in attributes:
            raise UnsupportedError("the contraction has no roles", fix="run the pass infer-roles first")
        roles = {entry.name: [ir.StringAttr(a).value for a in entry.attr] for entry in attributes["roles"]}
        if roles["batch"]:
            raise UnsupportedError(
                f"batch dimensions ({', '.join(roles['batch'])}) have no kernel on {self.target.name} yet",
                expected="result[m, n] = A[m, k] @ B[n, k]",
                fix="call the program once for each batch entry",
            )
        for role in ("m", "n", "k"):
            if len(roles[role]) != 1:
                raise UnsupportedError(
                    f"the contraction has {len(roles[role])} {role.upper()} dimensions",
                    got=f"[{', '.join(roles[role])}]",
                    expected="exactly one",
                    fix="give each operand two indices: view adjacent dimensions as one",
                )
        return {role: names[0] for role, names in roles.items() if names}

    def dim(self, name: str, contract: Any) -> Dim:
        """The dimension and the first static extent that an operand or the result has for it."""
        position, size = self.dims.index(name), None
        for value, where in zip((contract.lhs, contract.rhs, contract.result), maps_of(contract.maps), strict=True):
            for axis, expression in enumerate(where.results):
                bare = isinstance(expression, ir.AffineDimExpr) and expression.position == position
                if bare and size is None and not value.type.is_dynamic_dim(axis):
                    size = value.type.get_dim_size(axis)
        return Dim(name, size, position)

    def results_of(self, where: ir.AffineMap) -> list[str]:
        """The dimensions of a map of bare dimensions, or the expressions as text."""
        return [self.dims[e.position] if isinstance(e, ir.AffineDimExpr) else str(e) for e in where.results]

    def argument(self, value: Any, what: str) -> tuple[int, str, str]:
        """(position, name, layout) of a value that must be an argument of the function."""
        for position, argument in enumerate(self.arguments):
            if argument == value:
                facts = self.facts("arg_attrs", position)
                layout = ir.StringAttr(facts["scale.layout"]).value if "scale.layout" in facts else "row"
                return position, self.name(facts, f"argument {position}"), layout
        raise UnsupportedError(
            f"{what} is computed by the program ({value.owner.name})",
            expected="an argument",
            fix="compute it in a program of its own and pass its result",
        )

    def facts(self, attribute: str, position: int) -> dict[str, Any]:
        attributes = self.function.attributes
        return {e.name: e.attr for e in attributes[attribute][position]} if attribute in attributes else {}

    @staticmethod
    def name(facts: dict[str, Any], otherwise: str) -> str:
        return ir.StringAttr(facts["scale.name"]).value if "scale.name" in facts else otherwise

    def operand(self, value: Any, where: ir.AffineMap, rows: Dim, k: Dim, side: str) -> Operand:
        levels = []
        while not isinstance(value.owner, ir.Block) and value.owner.name == "scale.dequantize":
            levels.insert(0, value.owner.opview)
            value = value.owner.opview.values
        index, name, _ = self.argument(value, f"the {side} operand")
        order = self.results_of(where)
        if order == [k.name, rows.name]:
            reason = self.no_mn_major(element_of(value, name))
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] is contiguous along {rows.name}: {reason}",
                expected=f"{name}[{rows.name}, {k.name}]: contiguous along {k.name}",
                fix=f"store {name} as [{rows.name}, {k.name}]: {name}.t().contiguous()",
            )
        if order != [rows.name, k.name]:
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] is not a matrix of two dimensions",
                expected=f"{name}[{rows.name}, {k.name}]",
            )
        if len(levels) > 1:
            raise UnsupportedError(
                f"{name} has {len(levels)} levels of scales that vary along {k.name}", expected="one level"
            )
        scales = tuple(self.scale(op, name, rows, k, side) for op in levels)
        return Operand(index, name, element_of(value, name), rows.name, "k", scales)

    def no_mn_major(self, element: ElementType) -> str:
        """Why an operand of this type cannot be stored with K outermost."""
        family = self.target.mma_for(element.name, element.name)
        if family is not None and family.reads_mn_major:
            return f"the tensor core could read {element.name} so, but there is no kernel for it yet"
        return f"the tensor core of {self.target.name} reads {element.name} contiguous along K only"

    def scale(self, op: Any, operand: str, rows: Dim, k: Dim, side: str) -> Scale:
        index, name, _ = self.argument(op.scales, f"the scale of {operand}")
        granularity = GranularityAttr(op.granularity)
        along_rows, along_k = block_of(granularity)
        kind, layout = ir.StringAttr(granularity.type).value, ir.StringAttr(granularity.layout).value
        if kind != "f32" or str(element(op.scales.type)) != "f32":
            raise UnsupportedError(
                f"{name} is of type {kind} and varies along {k.name}",
                expected="f32",
                fix=f"convert {name} to f32 before the call",
            )
        if layout not in LAYOUTS[:2]:
            raise UnsupportedError(f"{name} has layout {layout}", expected="row or col")
        if along_k % PROMOTION_BLOCK or along_k < PROMOTION_BLOCK:
            raise UnsupportedError(
                f"{name} has one scale for each {along_k} elements of {k.name}",
                expected=f"a multiple of {PROMOTION_BLOCK}, or the whole of {k.name}",
            )
        # one instruction covers 64 rows of A and, of a thread's accumulators, columns of B in groups of 8
        step = 64 if side == "left" else 8
        if along_rows not in (1, WHOLE) and along_rows % step:
            raise UnsupportedError(
                f"{name} has one scale for each {along_rows} elements of {rows.name}",
                expected=f"1, a multiple of {step}, or the whole of {rows.name}",
            )
        if along_rows > 1 and rows.size is not None and along_rows >= rows.size:
            along_rows = WHOLE
        return Scale(index, name, along_rows, along_k, layout)

    def instruction(self, lhs: Operand, rhs: Operand) -> None:
        if self.target.mma_for(lhs.element.name, rhs.element.name) is None:
            families = sorted("/".join(sorted(family.operands)) for family in self.target.mma)
            raise UnsupportedError(
                f"{self.target.name} has no tensor-core instruction for these operands",
                got=f"{lhs.name}: {lhs.element.name}, {rhs.name}: {rhs.element.name}",
                expected=" or ".join(families) + " on both sides",
            )
        for operand in (lhs, rhs):
            if operand.scales and operand.element.bits != 8:
                raise UnsupportedError(
                    f"{operand.name} is {operand.element.name} with scales that vary along k",
                    expected="8-bit operands, or scales constant along k",
                    fix=f"fold {operand.scales[0].name} into {operand.name} before the call",
                )

    def epilogue(self, contract: Any, m: Dim, n: Dim) -> tuple[Any, tuple[int, ...], tuple[EpilogueInput, ...], Result]:
        returned = list(self.block.operations)[-1].operation.operands
        if len(returned) != 1:
            raise UnsupportedError(
                f"the program has {len(returned)} results", expected="one", fix="one program for each result"
            )
        facts = self.facts("res_attrs", 0)
        name = self.name(facts, ir.StringAttr(self.function.attributes["sym_name"]).value)
        final = returned[0]
        result = Result(name, element_of(final, name), (m.name, n.name), "scale.inout" in facts)
        order = self.results_of(maps_of(contract.maps)[2])
        if final == contract.result:  # read through a map, the order of its indices does not matter
            if order != [m.name, n.name]:
                raise UnsupportedError(
                    "the contraction's result is not indexed by M then N",
                    got=f"[{', '.join(order)}]",
                    expected=f"[{m.name}, {n.name}]: the left operand's dimension first",
                    fix="swap the operands of @",
                )
            return None, (), (), result
        if isinstance(final.owner, ir.Block) or final.owner.name != "scale.map":
            raise UnsupportedError(f"{name} is not computed from the contraction", expected="a map of it")
        op = final.owner.opview
        if len(op.domains) or len(op.symbols):
            raise UnsupportedError(f"{name} is written through a ragged range or an index read from memory")
        if self.results_of(map_of(op.map)) != [m.name, n.name]:
            raise UnsupportedError(
                f"{name}[{', '.join(self.results_of(map_of(op.map)))}] is not indexed by M then N",
                expected=f"{name}[{m.name}, {n.name}]",
                fix="swap the operands of @",
            )
        accumulators, inputs = [], []
        for position, view in enumerate(op.views):
            read = view.owner.opview
            if read.source == contract.result and map_of(read.map) == maps_of(contract.maps)[2]:
                accumulators.append(position)
            else:
                inputs.append(self.input(read, position, name, m, n))
        return op, tuple(accumulators), tuple(inputs), result

    def input(self, read: Any, position: int, result: str, m: Dim, n: Dim) -> EpilogueInput:
        if read.operation.name != "scale.read" or len(read.symbols):
            raise UnsupportedError(f"{result} reads through an index read from memory")
        index, name, layout = self.argument(read.source, f"an input of {result}'s elementwise expression")
        where = map_of(read.map)
        reads = {self.dims[d] for d in dims_in(where)}
        if reads - {m.name, n.name}:
            raise UnsupportedError(
                f"{name} is read along {', '.join(sorted(reads - {m.name, n.name}))} in the elementwise expression",
                expected=f"indices among {m.name}, {n.name}",
            )
        kind = {(True, False): "row", (False, True): "col", (True, True): "both", (False, False): "scalar"}
        return EpilogueInput(
            index,
            name,
            element_of(read.source, name),
            kind[m.name in reads, n.name in reads],
            tuple(self.index(e, name) for e in where.results),
            layout,
            position,
            read.source,
        )

    def index(self, e: Any, name: str) -> Index:
        if isinstance(e, ir.AffineDimExpr):
            return Index(self.dims[e.position])
        if isinstance(e, ir.AffineConstantExpr) and e.value == 0:
            return Index("")
        if isinstance(e, ir.AffineFloorDivExpr):
            inner, divisor = e.lhs, e.rhs
            if isinstance(inner, ir.AffineDimExpr) and isinstance(divisor, ir.AffineConstantExpr):
                return Index(self.dims[inner.position], divisor.value)
        raise UnsupportedError(f"{name} is read at {e}", expected="a dimension, a dimension divided by a number, or 0")
