"""Everything elementwise that follows a contraction, in one map; scales constant along K go there too."""

from __future__ import annotations

from functools import reduce
from typing import Any

from scalec.formats import LAYOUTS, NUMBERS, WHOLE, element_spelled
from scalec.ir.mlir import arith, ir
from scalec.ir.scale import GranularityAttr, apart_in, block_of, dims_read, element, maps_of
from scalec.passes.base import programs
from scalec.passes.fuse.indices import access, settle, used
from scalec.passes.fuse.ranges import carry, carry_to_scatter, narrow, tied, union
from scalec.passes.fuse.rewrite import build_map, computed, erase_unused, inline, key, read
from scalec.passes.problem.contraction import contractions, family_of
from scalec.passes.problem.sources import below, is_op, rounded_to
from scalec.targets import Target


class FuseEpilogue:
    """Leaves one `scale.map` for each result, and on operands only the scales that vary along K.

    A sum over K of (a * s) * (b * t), where s and t are constant along K, is (the sum of a * b) * (s * t): one
    multiplication for each result instead of one for each product. Scales are multiplied with each other before they
    multiply the sum, as where they are promoted: left ones, then right ones, inner level first; those of whole tensors
    last, multiplied with each other once and not for each result. Blocks as written say which these are: by extents, a
    row's result would depend on how many rows there are. A map that reads another map at its own points takes the
    other's body in.

        %a = scale.dequantize(%A, %s) {granularity = #scale.granularity<array<i64: 1, -1>, "f32", "row">}
        %t = scale.contract(%a, %B)
        %u = scale.map(read %t, read %bias) ({ ^(%x, %y): %z = addf %x, %y; yield %z })
        %c = scale.map(read %u) ({ ^(%x): %z = truncf %x; yield %z })
    -->
        %t = scale.contract(%A, %B)
        %v = scale.read(%s) {map = (m, n, k) -> (m, 0)}
        %c = scale.map(read %t, %v, read %bias)
               ({ ^(%x, %s, %y): %p = mulf %x, %s; %q = addf %p, %y; %z = truncf %q; yield %z })

    A scale that the tensor core's instruction applies itself stays where it is the operand's only one.

    Indices read from memory and ragged ranges go to the head of the function first, once each, so that what reads them
    can move. A scale of B[e[m/128],n,k] is read in the map at that index; one of B[g,n,k], with m in off[g]:off[g+1],
    at the g of the range, which the map has then. Maps of equal ranges, or of which one has none, are merged, and the
    contraction, its maps and a scatter behind them have the same ranges, but those over K.

    An inner map with `else` is merged where it is read within its range, or alone: what fills it then becomes what the
    body makes of that. What cannot be merged (another access, different ranges of one dimension) stays as it
    is, and so do scales that no map reads (ue4m3, packed, ...).
    """

    name = "fuse-epilogue"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            block = function.body.blocks[0]
            settle(block)
            found = contractions(function)
            operands = [{key(below(x)) for x in (op.lhs, op.rhs)} for op in found]
            for contract in found:
                self._hoist(contract, target, bool(set.intersection(*operands)))
            for contract in contractions(function):
                carry(contract)
            while any(self._merge(op) for op in block.operations if op.operation.name == "scale.map"):
                pass
            erase_unused(block)
            for op in [op for op in block.operations if op.operation.name == "scale.scatter"]:
                carry_to_scatter(op)
            for contract in contractions(function):
                narrow(contract)

    def _hoist(self, contract: Any, target: Target, by_extents: bool) -> None:
        """Moves scales constant along K from the operands into a map right behind the contraction; `by_extents`: those
        of one block that K happens to have, too. Of contractions that share nothing the sums may be added up, and have
        scales along K alike."""
        family = family_of(contract, target)
        in_mma = {s.type for s in family.scales} if family is not None else set()
        lhs_map, rhs_map, result_map = maps_of(contract.maps)
        symbols = list(contract.symbols)
        lhs, rhs, result = (dims_read(m, symbols) for m in (lhs_map, rhs_map, result_map))
        summed = (lhs | rhs) - result - tied(contract)
        hoisted: list[tuple[Any, ir.AffineMap]] = []
        groups: list[list[int]] = [[], [], []]  # scales of blocks along K; constant along K; of whole tensors
        for slot, where in enumerate((lhs_map, rhs_map)):
            levels, value = [], contract.operation.operands[slot]
            while not isinstance(value.owner, ir.Block) and value.owner.name == "scale.dequantize":
                levels.insert(0, value.owner.opview)
                value = value.owner.opview.values
            at = [_scale_map(level, where) for level in levels]
            told = [dims_read(_scale_map(level, where, written=True), symbols) for level in levels]
            stay = [
                i
                for i, level in enumerate(levels)
                # of a sum within one block what elementwise expressions read moves, and not bytes
                if (dims_read(at[i], symbols) if by_extents and _type(level) in NUMBERS else told[i]) & summed
                or not _readable(level)
                or rounded_to(level)
            ]
            stay = stay or [i for i, level in enumerate(levels) if _type(level) in in_mma][:1]
            moved = [i for i in range(len(levels)) if i not in stay]
            if not moved:
                continue
            for i in moved:
                groups[0 if told[i] & summed else 1 if told[i] else 2].append(len(hoisted))
                hoisted.append((levels[i].scales, at[i]))
            with ir.InsertionPoint(contract):
                for i in stay:
                    copy = levels[i].operation.clone()
                    copy.operands[0] = value
                    value = copy.results[0]
            contract.operation.operands[slot] = value
        if not hoisted:
            return
        uses = [use.owner for use in contract.result.uses]
        with ir.InsertionPoint.after(contract), contract.location:
            views = [read(contract.result, result_map, symbols)]
            own = [views[0].owner.operation]
            views += [read(scales, at, symbols) for scales, at in hoisted]

            def product(values: list[Any]) -> Any:
                result, *scales = [values[0], *map(_as_f32, values[1:])]
                along, constant, whole = ([scales[i] for i in group] for group in groups)
                if whole:
                    constant.append(reduce(arith.mulf, whole))
                return reduce(arith.mulf, [reduce(arith.mulf, x) for x in (along, constant) if x], result)

            (where,), mine = used([result_map], symbols)
            scaled = build_map(views, (where, mine), [], contract.result.type, product)
        if uses:
            contract.result.replace_all_uses_except(scaled.result, own)

    def _merge(self, op: Any) -> bool:
        """Takes into `op` the body of one map that it reads at that map's own points."""
        for view in op.views:
            source = view.owner.opview.source
            if isinstance(source.owner, ir.Block) or source.owner.name != "scale.map":
                continue
            inner = source.owner.opview
            domains = _together(view.owner.opview, inner, op)
            otherwise = None if domains is None else _filled(inner, op)
            if domains is None or otherwise is None:
                continue
            mine = list(op.views)
            takes = [_reads(v, inner) and access(v.owner.opview) == access(inner) for v in mine]
            with ir.InsertionPoint(op), op.location:

                def body(values: list[Any], inner: Any = inner, takes: list[bool] = takes) -> Any:
                    taken = len(inner.views)
                    outer = values[taken:]
                    computed = inline(inner, values[:taken])
                    return inline(op, [computed if take else outer.pop(0) for take in takes])

                others = [v for v, take in zip(mine, takes, strict=True) if not take]
                merged = build_map([*inner.views, *others], access(op), domains, op.result.type, body, like=op)
                for number in otherwise:
                    merged.operation.attributes["otherwise"] = ir.FloatAttr.get(ir.F32Type.get(), number)
            op.result.replace_all_uses_with(merged.result)
            op.operation.erase()
            return True
        return False


def _readable(level: Any) -> bool:
    """Whether a map can read scales: they lie as their indices say, and their type in MLIR is theirs (not ue4m3's)."""
    if apart_in(level) or is_op(level.scales, "scale.quantize"):  # of an operand that is quantised: in no memory
        return False
    stored = element_spelled(str(element(level.scales.type)))
    plain = ir.StringAttr(GranularityAttr(level.granularity).layout).value in LAYOUTS[:2]
    return plain and stored is not None and _type(level) == stored.name


def _type(level: Any) -> str:
    """The element type of the scales of a dequantize."""
    return ir.StringAttr(GranularityAttr(level.granularity).type).value


def _reads(view: Any, op: Any) -> bool:
    return view.owner.opview.source == op.result


def _together(view: Any, inner: Any, op: Any) -> list[Any] | None:
    """The ranges of the map `op` with `inner` in it, where the `view` of `op` reads what `inner` computes at the very
    point that it computes it for, everywhere; else None."""
    where, symbols = access(inner)
    if symbols or access(view) != (where, []):
        return None
    return union(op.domains, inner.domains)


def _filled(inner: Any, op: Any) -> list[float] | None:
    """What `op` with `inner` in it writes outside of its ranges instead of what it writes there now, if anything; None
    where that is no number, as it reads what fills `inner` beside what differs from point to point."""
    if "otherwise" not in inner.operation.attributes or set(map(ir.Value, inner.domains)) <= set(
        map(ir.Value, op.domains)
    ):
        return []
    if len(op.views) > 1 or len(op.domains):
        return None
    number = computed(op, ir.FloatAttr(inner.operation.attributes["otherwise"]).value)
    return None if number is None else [number]


def _scale_map(level: Any, where: ir.AffineMap, written: bool = False) -> ir.AffineMap:
    """Where the scale of a dequantize is read, the values being read at `where`; `written`: by its blocks alone,
    whatever the extents are."""
    block, at = block_of(level.granularity), []
    for axis, (size, index) in enumerate(zip(block, where.results, strict=True)):
        extent = None if level.values.type.is_dynamic_dim(axis) else level.values.type.get_dim_size(axis)
        if size == WHOLE or (extent is not None and size >= extent and not written):
            at.append(ir.AffineConstantExpr.get(0))
        else:
            at.append(index if size == 1 else ir.AffineExpr.get_floor_div(index, ir.AffineConstantExpr.get(size)))
    return ir.AffineMap.get(where.n_dims, where.n_symbols, at)


def _as_f32(value: Any) -> Any:
    f32 = ir.F32Type.get()
    return value if element(value.type) == f32 else arith.extf(f32, value)
