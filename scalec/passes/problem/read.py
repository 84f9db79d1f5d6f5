"""From a fused program to a Problem. What no kernel takes is refused here, once, with its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, LAYOUTS, WHOLE, ElementType
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, block_of, element, maps_of, ranges_of
from scalec.passes.problem.contraction import contractions, family_of
from scalec.passes.problem.epilogue import EpilogueReader, element_of
from scalec.passes.problem.types import PROMOTION_BLOCK, Dim, Operand, Problem, Scale
from scalec.targets import ATOM, PADDED_ALIGN, PADDED_ROW, MmaShape, Target

NO_KERNEL = {
    "scale.reduce": ("a reduction beside the contraction", "compute it outside the program"),
    "scale.scatter": ("a scattered result", "write the result densely and scatter it after the call"),
    "scale.index": ("an index read from memory", "gather what it reads before the call"),
    "scale.domain": ("a ragged range", "call the program once for each range, on views of the tensors"),
}
"""Ops of `scale` that no kernel has yet: what a message calls them, and what can be done instead."""


class Reader(EpilogueReader):
    """The walk over one function; each method refuses what it cannot represent."""

    def problem(self) -> Problem:
        contract = self.contraction()
        roles = self.roles(contract)
        lhs_map, rhs_map, _ = maps_of(contract.maps)
        m, n, k = (self.dim(roles[role], contract) for role in ("m", "n", "k"))
        family = family_of(contract, self.target)
        lhs = self.operand(contract.lhs, lhs_map, m, k, "left", family)
        rhs = self.operand(contract.rhs, rhs_map, n, k, "right", family)
        if family is None:
            raise self.no_instruction(lhs, rhs)
        self.check_scales(lhs, rhs, family)
        for operand, rows in ((lhs, m), (rhs, n)):
            self.check_rows(operand, rows if operand.mn_major else k)
        epilogue, accumulators, inputs, result = self.epilogue(contract, m, n)
        return Problem(self.target, family, m, n, k, lhs, rhs, contract, epilogue, accumulators, inputs, result)

    def contraction(self) -> Any:
        known = ("scale.contract", "scale.dequantize", "scale.map", "scale.read", "scale.quantize", "func.return")
        others = [op for op in self.block.operations if op.operation.name not in known]
        if others:  # a scatter is told before the index that it reads
            op = next((o for o in others if o.operation.name == "scale.scatter"), others[0])
            what, fix = NO_KERNEL.get(op.operation.name, (op.operation.name, "compute it outside the program"))
            raise UnsupportedError(
                f"{what} has no kernel on {self.target.name} yet",
                expected="one dense contraction with an elementwise epilogue",
                fix=fix,
                place=place_of(op),
            )
        found = contractions(self.function)
        if len(found) != 1:
            raise UnsupportedError(
                f"the program has {len(found)} contractions",
                expected="exactly one in a program",
                fix="one program for each contraction" if found else "compute it without scalec",
                place=place_of(found[1] if found else self.function),
            )
        return found[0]

    def roles(self, contract: Any) -> dict[str, str]:
        attributes = contract.operation.attributes
        if "roles" not in attributes:
            raise UnsupportedError(
                "the contraction has no roles", fix="run the pass infer-roles first", place=place_of(contract)
            )
        roles = {entry.name: [ir.StringAttr(a).value for a in entry.attr] for entry in attributes["roles"]}
        if roles["batch"]:
            raise UnsupportedError(
                f"batch dimensions ({', '.join(roles['batch'])}) have no kernel on {self.target.name} yet",
                expected="result[m, n] = A[m, k] @ B[n, k]",
                fix="call the program once for each batch entry",
                place=place_of(contract),
            )
        for role in ("m", "n", "k"):
            if len(roles[role]) != 1:
                raise UnsupportedError(
                    f"the contraction has {len(roles[role])} {role.upper()} dimensions",
                    got=", ".join(roles[role]) or "none",
                    expected="exactly one",
                    fix="give each operand two indices: view adjacent dimensions as one"
                    if roles[role]
                    else "view a vector as a matrix of one row: give it an index that the result has too",
                    place=place_of(contract),
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
        within = ranges_of(self.function).get(name)
        return Dim(name, size, position, within.high if within else None)

    def operand(
        self, value: Any, where: ir.AffineMap, rows: Dim, k: Dim, side: str, family: MmaShape | None
    ) -> Operand:
        levels = []
        while not isinstance(value.owner, ir.Block) and value.owner.name == "scale.dequantize":
            levels.insert(0, value.owner.opview)
            value = value.owner.opview.values
        index, name, _ = self.argument(value, f"the {side} operand")
        order = self.results_of(where)
        transposed = order == [k.name, rows.name]
        element = element_of(value, name)
        own = family or self.target.mma_for(element.name, element.name)  # what does not go together is told later
        if transposed and not (own is not None and own.takes_transposed(element.name)):
            reason = self.no_mn_major(element)
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] is contiguous along {rows.name}: {reason}",
                expected=f"{name}[{rows.name}, {k.name}]: contiguous along {k.name}",
                fix=f"store {name} as [{rows.name}, {k.name}]: {name}.t().contiguous()",
                place=place_of(value),
            )
        if not transposed and order != [rows.name, k.name]:
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] is not a matrix of two dimensions",
                expected=f"{name}[{rows.name}, {k.name}]",
                fix=f"pass a copy or a view of {name} that is indexed so",
                place=place_of(value),
            )
        blocks = [tuple(block_of(GranularityAttr(op.granularity)))[:: -1 if transposed else 1] for op in levels]
        if len(levels) > 1:
            for op, block in zip(levels, blocks, strict=True):
                self.check_scale_type(op, name, block[1], k, family)
            raise UnsupportedError(
                f"{name} has {len(levels)} levels of scales that vary along {k.name}",
                expected="one level",
                fix="multiply the levels into one tensor of scales before the call",
                place=place_of(levels[1].scales),
            )
        scales = tuple(self.scale(op, b, name, rows, k, side, family) for op, b in zip(levels, blocks, strict=True))
        if transposed:
            scales = tuple(self.transposed(s, name, rows, k) for s in scales)
        bits = element.bits if family is None else family.shared_bits(element, transposed)
        align = PADDED_ALIGN if bits > element.bits else self.target.tma_align
        atom = family.transposed_atom if family is not None and transposed else ATOM
        return Operand(index, name, element, rows.name, rows.name if transposed else "k", scales, bits, align, atom)

    def transposed(self, scale: Scale, operand: str, rows: Dim, k: Dim) -> Scale:
        """A scale of an operand with K outermost, read as [rows, K]."""
        layouts = {"row": "col", "col": "row"}
        if scale.layout not in layouts:
            raise UnsupportedError(
                f"{scale.name} has layout {scale.layout}, and {operand}[{k.name}, {rows.name}] is contiguous along "
                f"{rows.name}",
                expected="row or col: there is no such tiling of scales with K outermost",
                fix=f"reorder {scale.name} before the call and leave out @{scale.layout}",
                place=place_of(self.arguments[scale.argument_index]),
            )
        return replace(scale, layout=layouts[scale.layout], axes=scale.axes[::-1])

    def no_mn_major(self, element: ElementType) -> str:
        """Why an operand of this type cannot be stored with K outermost."""
        family = self.target.mma_for(element.name, element.name)
        if family is not None and family.reads_transposed(element.name):
            return f"the tensor core could read {element.name} so, but there is no kernel for it yet"
        return f"the tensor core of {self.target.name} reads {element.name} contiguous along K only"

    def scale(
        self,
        op: Any,
        block: tuple[int, ...],
        operand: str,
        rows: Dim,
        k: Dim,
        side: str,
        family: MmaShape | None,
    ) -> Scale:
        index, name, _ = self.argument(op.scales, f"the scale of {operand}")
        along_rows, along_k = block
        in_mma = self.check_scale_type(op, operand, along_k, k, family)
        granularity, place = GranularityAttr(op.granularity), place_of(op.scales)
        kind, layout = ir.StringAttr(granularity.type).value, ir.StringAttr(granularity.layout).value
        if in_mma and k.size is not None and along_k >= k.size:
            along_k = WHOLE
        step = PROMOTION_BLOCK
        if in_mma:
            step = (family.scale_block(kind) if family is not None else 0) or 1
        if not (in_mma and along_k == WHOLE) and (along_k % step or along_k < step):
            raise UnsupportedError(
                f"{name} has one scale for each {along_k} elements of {k.name}",
                expected=f"a multiple of {step}, or the whole of {k.name}",
                fix=f"quantise {operand} in blocks of {step} along {k.name}, or fold {name} into {operand} "
                "before the call and pass it as bf16",
                place=place,
            )
        # promotion: one instruction covers its rows of A and, of a thread's accumulators, columns of B in groups of 8
        step = 1 if in_mma else (family or self.target.mma[0]).m if side == "left" else 8
        if along_rows not in (1, WHOLE) and along_rows % step:
            raise UnsupportedError(
                f"{name} has one scale for each {along_rows} elements of {rows.name}",
                expected=f"1, a multiple of {step}, or the whole of {rows.name}",
                fix=f"repeat each scale {along_rows} times before the call and say 1x{along_k}",
                place=place,
            )
        if along_rows > 1 and rows.size is not None and along_rows >= rows.size:
            along_rows = WHOLE
        return Scale(index, name, along_rows, along_k, layout, kind, in_mma)

    def check_scale_type(self, op: Any, operand: str, along_k: int, k: Dim, family: MmaShape | None) -> bool:
        """Refuses scales that no kernel reads; whether the instruction applies this one, else it is promoted.

        A type that another family applies passes where this one applies none, or where there is none: what is wrong
        then is the operand, which is told later.
        """
        _, name, _ = self.argument(op.scales, f"the scale of {operand}")
        granularity, place = GranularityAttr(op.granularity), place_of(op.scales)
        kind, layout = ir.StringAttr(granularity.type).value, ir.StringAttr(granularity.layout).value
        applied = frozenset(s.type for s in family.scales) if family is not None else frozenset()
        if kind in (applied or (self.target.scale_types() if family is None or along_k != WHOLE else ())):
            return True
        if kind != "f32" or str(element(op.scales.type)) != "f32":
            said = f":{kind}" + ("" if layout == "row" else f"@{layout}")
            fix = f"convert {name} to f32 before the call and leave out {said}"
            if along_k != WHOLE and along_k % PROMOTION_BLOCK:
                fix = f"fold {name} into {operand} before the call and pass {operand} as bf16"
            blocks = [("f32", PROMOTION_BLOCK), *((s.type, s.block) for s in (family.scales if family else ()))]
            expected = "; or ".join(
                f"{type} scales, one for each {size} elements of {k.name}, a multiple, or all" for type, size in blocks
            )
            message = f"{name} is {kind}, which scales have no kernel for on {self.target.name}"
            if applied:
                message = f"{name} is {kind}, which {self.target.name} has no instruction for with these operands"
            raise UnsupportedError(
                message,
                expected=expected,
                fix=fix,
                place=place,
            )
        if layout not in LAYOUTS[:2]:
            raise UnsupportedError(
                f"{name} has layout {layout}",
                expected="row or col",
                fix=f"reorder {name} before the call and leave out @{layout}",
                place=place,
            )
        return False

    def no_instruction(self, lhs: Operand, rhs: Operand) -> UnsupportedError:
        """That the target cannot multiply the two."""
        target, (a, b) = self.target, (lhs.element.name, rhs.element.name)
        families = sorted("/".join(sorted(operands)) for operands in target.operand_sets())
        alone = next((o for o in (lhs, rhs) if not any(o.element.name in f.operands for f in target.mma)), None)
        if a == b and a in target.no_kernel:
            message = f"{target.name} multiplies {a}, but scalec has no kernel for it yet"
        elif alone is not None and alone.element.name not in target.no_kernel:
            message = f"{target.name} has no tensor-core instruction for {alone.element.name}"
        else:
            message = f"{target.name} has no tensor-core instruction that multiplies {a} by {b}"
        return UnsupportedError(
            message,
            got=f"{lhs.name}: {a}, {rhs.name}: {b}",
            expected=" or ".join(families) + " on both sides",
            fix=f"convert {' and '.join([lhs.name, rhs.name])} to one of these before the call"
            if a == b
            else f"convert {(alone or rhs).name} before the call",
            place=place_of(self.arguments[(alone or rhs).argument_index]),
        )

    def check_scales(self, lhs: Operand, rhs: Operand, family: MmaShape) -> None:
        """Refuses scales that the operands' instruction cannot go with."""
        widest = self.target.swizzles[0] * 8 // PROMOTION_BLOCK  # a promoted block of a row is one row of the swizzle
        for operand in (lhs, rhs):
            if operand.scales and operand.element.bits > widest:
                known = {ELEMENT_TYPES[name].bits for family in self.target.mma for name in family.operands}
                *some, last = (str(bits) for bits in sorted(known) if bits <= widest)
                raise UnsupportedError(
                    f"{operand.name} is {operand.element.name} with scales that vary along k",
                    expected=(f"{'-, '.join(some)}- or " if some else "") + f"{last}-bit operands, or scales constant "
                    "along k",
                    fix=f"fold {operand.scales[0].name} into {operand.name} before the call",
                    place=place_of(self.arguments[operand.scales[0].argument_index]),
                )
        a, b = lhs.scale_in_mma, rhs.scale_in_mma
        if a is not None and b is not None and a.type != b.type:
            raise UnsupportedError(
                f"{a.name} is {a.type} and {b.name} is {b.type}: the tensor core of {self.target.name} takes scales of "
                "one type for both sides",
                expected=" or ".join(s.type for s in family.scales) + " on both sides",
                fix=f"quantise {lhs.name} or {rhs.name} again, with the other's scales",
                place=place_of(self.arguments[b.argument_index]),
            )

    def check_rows(self, operand: Operand, inner: Dim) -> None:
        """Refuses an extent that the rows of an operand whose copies pad it, contiguous along `inner`, cannot have."""
        name, row, step = operand.name, operand.element, PADDED_ROW
        if operand.padded and inner.size is not None and inner.size % step:
            raise UnsupportedError(
                f"{inner.name} = {inner.size} is not a multiple of {step}, which the copies that pad {row.name} to a "
                "byte need",
                got=f"{name}: {row.name}, rows of {inner.size} elements",
                expected=f"{inner.name} a multiple of {step}",
                fix=f"pad {inner.name} to {-(-inner.size // step) * step} with zeros"
                + (", in both operands" if operand.contiguous == "k" else ""),
                place=place_of(self.arguments[operand.argument_index]),
            )


def read(function: Any, target: Target) -> Problem:
    """Reads a fused program.

    Raises:
        UnsupportedError: it is not a dense two-dimensional contraction that `target` has instructions for.
    """
    return Reader(function, target).problem()
