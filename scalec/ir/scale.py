"""The `scale` dialect: what to compute.

A program is one `func.func`. Its attribute `scale.dims = ["m", "n", "k"]` names the program's dimensions, and every
affine map of every op is over these dimensions, in this order. Values are tensors; a temporary is an f32 tensor that
never reaches memory. Arguments carry `scale.name` (what the user calls it), `scale.shape` (an affine map from the
dimensions to the extents, e.g. `(m, n, k) -> (m, k ceildiv 128)`) and `scale.layout`; where elements lie in another
order within each eight, or 128, of the last index, `scale.order`: which of these each is. A scalar is a plain f32
argument with a name. Results carry `scale.name`, `scale.shape` and, where they accumulate into the argument of the
same name, `scale.inout`. The decisions of the passes are the function's `scale.schedule`. Its `scale.ranges` says
between which sizes dynamic dimensions lie, where that is known: what is a choice is made for the largest.

An index that is itself read from memory (`B[e[m/128], n, k]`) is a `!scale.symbol`: `scale.index` reads it, and the
ops that use it take it among their `symbols`; the i-th is symbol `s_i` of every map of that op, so B's map is
`(m, n, k)[s0] -> (s0, n, k)`. IRDL gives all operands of one variadic group one type: hence symbols, views and
subsets as types, where upstream dialects would take tensors of any type.
"""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Mapping, Sequence
from typing import Any

from scalec.formats import WIDE
from scalec.ir.mlir import ext, ir
from scalec.ir.verify import refuse, verifier
from scalec.sizes import Range


class Scale(ext.Dialect, name="scale"):
    """What to compute, on tensors, with scales."""


class SymbolType(Scale.Type, name="symbol"):
    """An index read from memory, one value for each point of the iteration space, or the size of a dimension."""


class ViewType(Scale.Type, name="view"):
    """A tensor or scalar seen from each point of the iteration space (broadcast by index)."""


class SubsetType(Scale.Type, name="subset"):
    """The points that a ragged range leaves: `for m in off[g]:off[g+1]`."""


class GranularityAttr(Scale.Attribute, name="granularity"):
    """`#scale.granularity<array<i64: 1, 128>, "f32", "row">`: block shape (-1: whole dimension), scale type, layout.

    The block has one entry for each index of the tensor it scales. The type is a name of scalec.formats.ELEMENT_TYPES
    (ue4m3 has no MLIR type of its own); the layout one of scalec.formats.LAYOUTS.
    """

    block: Any
    type: ir.StringAttr
    layout: ir.StringAttr


class ScheduleAttr(Scale.Attribute, name="schedule"):
    """`#scale.schedule<{tile = array<i64: 256, 128, 128>, stages = 3 : i64}>`: see scalec.ir.schedule."""

    fields: ir.DictAttr


# ---------------------------------------------------------------------------------------------- reading attributes


def program_dims(op: ir.OpView) -> list[str]:
    """Names of the dimensions of the program that `op` is or stands in."""
    parent = op.operation
    while parent is not None and parent.name != "func.func":
        parent = parent.operation.parent
    if parent is None or "scale.dims" not in parent.operation.attributes:
        return []
    return [ir.StringAttr(a).value for a in ir.ArrayAttr(parent.operation.attributes["scale.dims"])]


def write_ranges(function: ir.OpView, ranges: Mapping[str, Range]) -> None:
    """Notes in `scale.ranges = {m = array<i64: 1, 64>}` where dynamic dimensions lie; nothing where that is unknown."""
    if ranges:
        made = {name: ir.DenseI64ArrayAttr.get(list(r)) for name, r in ranges.items()}
        function.operation.attributes["scale.ranges"] = ir.DictAttr.get(made)


def ranges_of(function: ir.OpView) -> dict[str, Range]:
    """The ranges that dynamic dimensions lie in, where that is known."""
    attributes = function.operation.attributes
    if "scale.ranges" not in attributes:
        return {}
    return {a.name: Range(*ir.DenseI64ArrayAttr(a.attr)) for a in ir.DictAttr(attributes["scale.ranges"])}


def facts_of(function: ir.OpView, key: str, position: int) -> dict[str, ir.Attribute]:
    """What a function says of an argument ("arg_attrs") or a result ("res_attrs"); nothing where it says nothing."""
    attributes = function.attributes
    return {a.name: a.attr for a in attributes[key][position]} if key in attributes else {}


def order_of(facts: Mapping[str, ir.Attribute]) -> tuple[int, ...]:
    """Of what is said of an argument which of each so many of its last index each element in memory is, nothing in
    order."""
    return tuple(ir.DenseI64ArrayAttr(facts["scale.order"])) if "scale.order" in facts else ()


def values_returned(function: ir.OpView) -> list[ir.Value]:
    """What a function returns, in order."""
    block = function.body.blocks[0]
    return list(block.operations[len(block.operations) - 1].operands)


def sizes_of(function: ir.OpView) -> dict[int, int]:
    """Sizes of a program's dimensions that are known, by position: extents of arguments and results, and of what is
    computed, which has dimensions that no tensor tells, such as t of `table[s, t/64]` alone."""
    seen, arguments = [], list(function.body.blocks[0].arguments)
    for values, key in ((arguments, "arg_attrs"), (values_returned(function), "res_attrs")):
        for i, value in enumerate(values):
            if "scale.shape" in (facts := facts_of(function, key, i)):
                seen.append((value, map_of(facts["scale.shape"])))
    for op in function.body.blocks[0].operations:
        if op.operation.name in ("scale.contract", "scale.reduce"):
            seen.append((op.result, maps_of(op.maps)[-1]))
        elif op.operation.name == "scale.map":
            seen.append((op.result, map_of(op.map)))
    found: dict[int, int] = {}
    for value, where in seen:
        for axis, e in enumerate(where.results):
            if isinstance(e, ir.AffineDimExpr) and rank(value) and not value.type.is_dynamic_dim(axis):
                found.setdefault(e.position, value.type.get_dim_size(axis))
    return found


def maps_of(attribute: ir.Attribute) -> list[ir.AffineMap]:
    return [map_of(a) for a in ir.ArrayAttr(attribute)]


def map_of(attribute: ir.Attribute) -> ir.AffineMap:
    return ir.AffineMapAttr(attribute).value


def block_of(granularity: ir.Attribute) -> list[int]:
    """The block shape of a granularity, -1 for a whole dimension."""
    return list(ir.DenseI64ArrayAttr(GranularityAttr(granularity).block))


def _leaves(m: ir.AffineMap, kind: type) -> set[int]:
    """Positions of the dimensions, or of the symbols, that a map reads."""
    found, stack = set(), list(m.results)
    while stack:
        e = stack.pop()
        if isinstance(e, kind):
            found.add(e.position)
        elif isinstance(e, ir.AffineBinaryExpr):
            stack += [e.lhs, e.rhs]
    return found


def dims_in(m: ir.AffineMap) -> set[int]:
    """Positions of the dimensions that a map reads."""
    return _leaves(m, ir.AffineDimExpr)


def written(e: ir.AffineExpr, dims: Sequence[str], symbols: Sequence[str] = ()) -> str:
    """An index expression as the language writes it: `n/128*192 + n%128`. `symbols`: what is read from memory, if that
    is known."""
    if isinstance(e, ir.AffineDimExpr):
        return str(dims[e.position])
    if isinstance(e, ir.AffineConstantExpr):
        return str(e.value)
    if isinstance(e, ir.AffineSymbolExpr):
        return str(symbols[e.position]) if symbols else "an index read from memory"
    left, right = (written(x, dims, symbols) for x in (e.lhs, e.rhs))
    if isinstance(e, ir.AffineAddExpr):
        return f"{left} - {right[:-3]}" if right.endswith("*-1") else f"{left} + {right}".replace("+ -", "- ")
    if isinstance(e, ir.AffineCeilDivExpr):
        return f"ceil({left}/{right})"
    operator = "*" if isinstance(e, ir.AffineMulExpr) else "%" if isinstance(e, ir.AffineModExpr) else "/"
    return (f"({left})" if isinstance(e.lhs, ir.AffineAddExpr) else left) + operator + right


def apart_in(op: ir.OpView) -> list[str]:
    """Names of the dimensions along which groups of what a dequantize scales have blocks of their own."""
    attributes = op.operation.attributes
    return [ir.StringAttr(a).value for a in ir.ArrayAttr(attributes["apart"])] if "apart" in attributes else []


def element(t: ir.Type) -> ir.Type:
    """Element type of a tensor; a scalar's own type."""
    return t.element_type if isinstance(t, ir.RankedTensorType) else t


def symbols_in(m: ir.AffineMap) -> set[int]:
    """Positions of the symbols that a map reads."""
    return _leaves(m, ir.AffineSymbolExpr)


def axis_and_block(e: ir.AffineExpr) -> tuple[int, int] | None:
    """Of `i` or `i floordiv block` the position of i, and the block; None of another expression."""
    if isinstance(e, ir.AffineFloorDivExpr) and isinstance(e.rhs, ir.AffineConstantExpr):
        return (e.lhs.position, e.rhs.value) if isinstance(e.lhs, ir.AffineDimExpr) else None
    return (e.position, 1) if isinstance(e, ir.AffineDimExpr) else None


def dims_read(m: ir.AffineMap, symbols: Sequence[ir.Value]) -> set[int]:
    """Positions of the dimensions that a map depends on: its own, and those its symbols are read at."""
    found = dims_in(m)
    for position in symbols_in(m):
        index = symbols[position].owner.opview
        if index.operation.name != "scale.size":
            found |= dims_read(map_of(index.map), list(index.symbols))
    return found


def dims_of_domains(domains: Sequence[ir.Value]) -> set[int]:
    """Positions of the dimensions that the bounds of `domains` depend on: `g` of `for m in off[g]:off[g+1]`."""
    found: set[int] = set()
    for subset in domains:
        domain = subset.owner.opview
        for bound in (domain.lower, domain.upper):
            found |= dims_read(map_of(bound), list(domain.symbols))
    return found


def rank(value: ir.Value) -> int:
    """Rank of a tensor value, 0 for a scalar."""
    return value.type.rank if isinstance(value.type, ir.RankedTensorType) else 0


# --------------------------------------------------------------------------------------------------- verification


def _check_maps(op: ir.OpView, maps: Sequence[ir.AffineMap], ranks: Sequence[int]) -> None:
    """Every map is over the program's dims and as many symbols as the op has; result counts match the ranks."""
    dims, symbols = len(program_dims(op)), len(op.symbols)
    if len(maps) != len(ranks):
        refuse(f"has {len(maps)} maps, expected {len(ranks)}")
    for position, (m, want) in enumerate(zip(maps, ranks, strict=True)):
        if m.n_dims != dims:
            refuse(f"map {position} has {m.n_dims} dimensions, expected {dims} (the program's dims)")
        if m.n_symbols != symbols:
            refuse(f"map {position} has {m.n_symbols} symbols, expected {symbols} (the op's symbols)")
        if len(m.results) != want:
            refuse(f"map {position} has {len(m.results)} results, expected {want} (the tensor's rank)")


def check_block(op: ir.OpView, granularity: ir.Attribute, want: int) -> None:
    """A granularity has an entry above 0, or -1, for each index."""
    block = block_of(granularity)
    if len(block) != want:
        refuse(f"granularity {block} has {len(block)} entries, expected {want} (the tensor's rank)")
    if any(b == 0 or b < -1 for b in block):
        refuse(f"granularity {block} must have entries > 0, or -1 for a whole dimension")


# ------------------------------------------------------------------------------------------------------ operations


class IndexOp(Scale.Operation, name="index"):
    """An index read from memory: tensor[map], an i32 tensor read at each point of the iteration space."""

    tensor: ext.Operand[Any]
    symbols: Sequence[ext.Operand[SymbolType]]
    result: ext.Result[SymbolType]
    map: Any

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        if str(element(op.tensor.type)) != "i32":
            refuse(f"reads a tensor of i32, got {op.tensor.type}")
        _check_maps(op, [map_of(op.map)], [rank(op.tensor)])


class SizeOp(Scale.Operation, name="size"):
    """The size of the dimension `dim`, in an index: `W[n + size(n), k]`. The pass `take-views` leaves none."""

    result: ext.Result[SymbolType]
    dim: ir.StringAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        dims = program_dims(op)
        if ir.StringAttr(op.dim).value not in dims:
            refuse(f"dim {op.dim} is not one of the program's dimensions ({', '.join(dims)})")


class ReadOp(Scale.Operation, name="read"):
    """A tensor (or, with an empty map, a scalar) seen from each point of the iteration space: source[map]."""

    source: ext.Operand[Any]
    symbols: Sequence[ext.Operand[SymbolType]]
    result: ext.Result[ViewType]
    map: Any

    verify_invariants = verifier(lambda op: _check_maps(op, [map_of(op.map)], [rank(op.source)]))


class DomainOp(Scale.Operation, name="domain"):
    """The points whose dimension `dim` lies in [lower, upper): both affine in the dims and the symbols.

    Optional integer attributes are promises, for speed alone: both bounds are multiples of `by`, apart from an end at
    the extent, and about `about` points lie between them. The optional unit attribute `apart` says that the points
    between off[g] and off[g+1] are a group of their own: what scales tensors counts blocks from there (DequantizeOp).
    """

    symbols: Sequence[ext.Operand[SymbolType]]
    result: ext.Result[SubsetType]
    dim: ir.StringAttr
    lower: Any
    upper: Any

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        dims = program_dims(op)
        if ir.StringAttr(op.dim).value not in dims:
            refuse(f"dim {op.dim} is not one of the program's dimensions ({', '.join(dims)})")
        _check_maps(op, [map_of(op.lower), map_of(op.upper)], [1, 1])


class DequantizeOp(Scale.Operation, name="dequantize"):
    """result[i] = values[i] * scales[i / block]: an f32 view of a scaled operand. Two levels are two of these. A result
    of 16 bits is that product rounded to nearest, ties to even.

    `scales` has one extent for each index of `values`: ceil(extent / block), 1 for a whole dimension. Its layout is
    the granularity's.

    Along a dimension of the optional array `apart` of names each group of the range of that dimension which is `apart`
    has blocks of its own. Scales are those of values that have index i of group g, in off[g]:off[g+1], at
    i - off[g] + (off[g] / P + g) * P instead, and an extent of (ceil(extent / P) + groups) * P there, P being
    `scalec.formats.padded_to`.
    """

    values: ext.Operand[Any]
    scales: ext.Operand[Any]
    result: ext.Result[Any]
    granularity: GranularityAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        check_block(op, op.granularity, rank(op.values))
        if not isinstance(op.scales.type, ir.RankedTensorType):
            refuse(f"scales must be a tensor, got {op.scales.type}")
        if rank(op.result) != rank(op.values) or str(element(op.result.type)) not in ("f32", *WIDE):
            refuse(f"result must be a tensor of f32, or 16 bits, of rank {rank(op.values)}, got {op.result.type}")


class SubtractOp(Scale.Operation, name="subtract"):
    """result[i] = values[i] - (zeros[map(i)] + plus): an f32 view of integers less their zero points, before their
    scales.

    `map`, an optional attribute, goes from the indices of `values` to those of `zeros`; each of its results is computed
    of one of these, each index at most once. `plus` is an optional integer attribute. Without `zeros` the zero point is
    `number`, another.
    """

    values: ext.Operand[Any]
    zeros: Sequence[ext.Operand[Any]]
    result: ext.Result[Any]

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        attributes, indices = op.operation.attributes, rank(op.values)
        if rank(op.result) != indices or str(element(op.result.type)) != "f32":
            refuse(f"result must be an f32 tensor of rank {indices}, got {op.result.type}")
        if not all(isinstance(element(x.type), ir.IntegerType) for x in (op.values, *op.zeros)):
            refuse(f"subtracts from {op.values.type}, expected integers less integers")
        if len(op.zeros) != int("map" in attributes) or len(op.zeros) == int("number" in attributes):
            refuse(f"has {len(op.zeros)} tensors of zero points, expected one and a map, or a number")
        if "plus" in attributes and not len(op.zeros):
            refuse("adds to zero points, and has a number")
        if not len(op.zeros):
            return
        m = map_of(attributes["map"])
        if m.n_dims != indices or m.n_symbols or len(m.results) != rank(op.zeros[0]):
            refuse(f"map {m} for {op.values.type} and zero points {op.zeros[0].type}")
        read = [frozenset(dims_in(ir.AffineMap.get(indices, 0, [e]))) for e in m.results]
        if any(len(x) != 1 for x in read) or len(set(read)) < len(read):
            refuse(f"map {m}, expected indices that are each computed of one of the values'")


class ContractOp(Scale.Operation, name="contract"):
    """result[maps[2]] = sum over the dims absent there of lhs[maps[0]] * rhs[maps[1]], accumulated in f32.

    A dimension that a domain's bounds read may stand in one operand alone, where it is summed over (`m` lies in one
    group `g` only), or in the result alone (`for k in off[g]:off[g+1]`: one product for each `g`).

    A scaled operand is the result of `scale.dequantize`, one with zero points that of `scale.subtract`. `roles`, once
    inferred, is a dictionary attribute {batch, group, m, n, k} of arrays of dimension names
    (scalec.passes.fuse.infer_roles).
    """

    lhs: ext.Operand[Any]
    rhs: ext.Operand[Any]
    symbols: Sequence[ext.Operand[SymbolType]]
    domains: Sequence[ext.Operand[SubsetType]]
    result: ext.Result[Any]
    maps: ir.ArrayAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        maps = maps_of(op.maps)
        _check_maps(op, maps, [rank(op.lhs), rank(op.rhs), rank(op.result)])
        if str(element(op.result.type)) != "f32":
            refuse(f"accumulates in f32, got a result of {element(op.result.type)}")
        symbols = list(op.symbols)
        lhs, rhs, result = (dims_read(m, symbols) for m in maps)
        missing = result - lhs - rhs - dims_of_domains(list(op.domains))
        if missing:
            names = ", ".join(program_dims(op)[d] for d in sorted(missing))
            refuse(f"result dimension {names} is in neither operand")
        if not lhs & rhs - result:
            refuse("contracts no dimension: none is in both operands and absent from the result")


class AddOp(Scale.Operation, name="add"):
    """result = the sum of `terms`, point by point: contractions that one accumulator sums.

    Each term is a contraction's result that nothing else reads, but one may be what a map computes of that
    (scalec.passes.fuse.join_products).
    """

    terms: Sequence[ext.Operand[Any]]
    result: ext.Result[Any]

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        terms = list(op.terms)
        if len(terms) < 2 or any(str(x.type) != str(op.result.type) for x in terms):
            refuse(f"adds {', '.join(str(x.type) for x in terms)}, expected two or more {op.result.type}")


class MapOp(Scale.Operation, name="map"):
    """result[map] = body(views...): elementwise; the body works on scalars and ends in `scale.yield`.

    Block arguments have the element types of what the views read. `otherwise`, an optional float attribute, fills
    the result's points outside the domains (`else -inf`); without it they are not written.
    """

    views: Sequence[ext.Operand[ViewType]]
    symbols: Sequence[ext.Operand[SymbolType]]
    domains: Sequence[ext.Operand[SubsetType]]
    result: ext.Result[Any]
    map: Any
    body: ext.Region

    verify_invariants = verifier(lambda op: _check_maps(op, [map_of(op.map)], [rank(op.result)]))

    @verifier
    def verify_region_invariants(op: ir.OpView) -> None:
        blocks = list(op.body.blocks)
        if len(blocks) != 1:
            refuse(f"body has {len(blocks)} blocks, expected 1")
        want = [str(element(v.owner.operands[0].type)) for v in op.views]
        got = [str(a.type) for a in blocks[0].arguments]
        if want != got:
            refuse(f"body takes ({', '.join(got)}), expected ({', '.join(want)}), the views' element types")
        last = blocks[0].operations[len(blocks[0].operations) - 1]
        if last.operation.name != "scale.yield":
            refuse(f"body ends in {last.operation.name}, expected scale.yield")
        yielded, wanted = str(last.operation.operands[0].type), str(element(op.result.type))
        if yielded != wanted:
            refuse(f"body yields {yielded}, expected {wanted}, the result's element type")


class ReduceOp(Scale.Operation, name="reduce"):
    """result[maps[1]] = sum, max or min (`kind`) of input[maps[0]] over the dims absent from maps[1]; or `sum_exp`: the
    sum of exp(x - the max of all x), as `sum-exponentials` writes it."""

    input: ext.Operand[Any]
    symbols: Sequence[ext.Operand[SymbolType]]
    domains: Sequence[ext.Operand[SubsetType]]
    result: ext.Result[Any]
    maps: ir.ArrayAttr
    kind: ir.StringAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> None:
        if ir.StringAttr(op.kind).value not in ("sum", "max", "min", "sum_exp"):
            refuse(f"kind is {op.kind}, expected sum, max, min or sum_exp")
        _check_maps(op, maps_of(op.maps), [rank(op.input), rank(op.result)])


class ScatterOp(Scale.Operation, name="scatter"):
    """result[maps[1]] = input[maps[0]], where maps[1] may hold symbols: `C[idx[m], n] = ...`.

    A negative index is skipped; result points that no index names are not written.
    """

    input: ext.Operand[Any]
    symbols: Sequence[ext.Operand[SymbolType]]
    domains: Sequence[ext.Operand[SubsetType]]
    result: ext.Result[Any]
    maps: ir.ArrayAttr

    verify_invariants = verifier(lambda op: _check_maps(op, maps_of(op.maps), [rank(op.input), rank(op.result)]))


class YieldOp(Scale.Operation, name="yield", traits=[ir.IsTerminatorTrait]):
    """Ends the body of `scale.map`."""

    value: ext.Operand[Any]
