"""From an operand of a contraction to an Operand, with its scales; what no kernel takes of it is refused here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import CONVERTED, ELEMENT_TYPES, LAYOUTS, NUMBERS, PACKED_BITS, WHOLE, WHOLE_SUMS, WORDS
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, apart_in, block_of, dims_in, dims_read, element, map_of, symbols_in
from scalec.ir.scale import written as spelled
from scalec.passes.problem.access import Coord, Dim
from scalec.passes.problem.bodies import elements_of
from scalec.passes.problem.contraction import (
    applied_by,
    finest,
    levels_of,
    multiplied_as,
    multiplied_as_addends,
    subtraction,
)
from scalec.passes.problem.gather import GATHERED_BITS
from scalec.passes.problem.lookups import pads
from scalec.passes.problem.named_scales import NamedScales
from scalec.passes.problem.operand import (
    FOLDED_STEP,
    PROMOTED_BITS,
    PROMOTION_BLOCK,
    QUANTISED_STEP,
    TURNED,
    Operand,
    Scale,
    as_f32,
    promotion_step,
)
from scalec.passes.problem.sources import below, quantization, unscaled
from scalec.passes.problem.words import exchanged, order_along, without_type
from scalec.passes.problem.written import element_of
from scalec.passes.problem.zero_points import ZeroPoints, bounds_of, read_zero_points
from scalec.targets import ATOM, MOST_INDICES, PADDED_ALIGN, PADDED_ROW, MmaShape, Target

Side = tuple[Any, ir.AffineMap, str]
"""An operand of the contraction, its map, and where it stands: "left" or "right"."""

NEW = ("f32", "ue8m0")
"""Types of the scales that kernels quantise operands by."""

ROWS_OF_PAGE = 8
"""Rows that the pattern of a swizzle has (PTX ISA 5.5.7), at a multiple of which a box of several begins in a tile.
Rows of other pages are copied one by one."""


class OperandReader(NamedScales):
    """The walk over the operands of a contraction, whose `symbols` are indices read from memory."""

    symbols: list[Any]

    def multiplied_as(self, contract: Any, target: Target) -> tuple[MmaShape | None, tuple[str, str]]:
        """The instructions of a contraction, and as which types it multiplies its operands."""
        return multiplied_as_addends(contract, target) if self.addends else multiplied_as(contract, target)

    def check_named(self, contract: Any, batch: list[str], operand: Side) -> None:
        """Refuses an operand of which an index from memory names another matrix for each of a `batch` dimension, which
        else would be one of the other operand's rows."""
        value, where, side = operand
        for index in (contract.symbols[i].owner.opview for i in sorted(symbols_in(where))):
            own = dims_read(map_of(index.map), list(index.symbols)) - dims_in(where)
            if each := next((self.dims[d] for d in sorted(own) if self.dims[d] in batch), ""):
                (_, name, _), tensor = self.argument(below(value), f"the {side} operand"), self.tensor(index.tensor)
                at = ",".join(spelled(e, self.dims) for e in map_of(index.map).results)
                several = f"{tensor}[{each}/64] or {tensor}[{each}/64 + 1]"
                expected = f"one for several of {each}, as {several} names it, or a range"
                fix = f"sort {each} by it, and write for {each} in off[g]:off[g+1] with {name} at g; or compute the "
                fix += "index of each block before the call"
                if dims_read(map_of(index.map), list(index.symbols)) & dims_in(where):  # pages
                    expected = f"an index of the other operand and the result beside {each}, whose rows have one matrix"
                    fix = f"view {each} as two indices there, {each} and h, of an h of 1 where each {each} has its own"
                raise UnsupportedError(
                    f"{name} is read at {tensor}[{at}], another matrix for each {each}",
                    expected=expected,
                    fix=fix,
                    place=place_of(contract),
                )

    def operand(
        self,
        value: Any,
        where: ir.AffineMap,
        side: str,
        rows: Dim,
        k: Dim,
        family: MmaShape | None,
        promoted: int,
        multiplied: str,
    ) -> Operand:
        levels, quantize, new = levels_of(value), quantization(value), []
        if quantize is not None:
            new, value = levels, quantize.input
            levels = levels_of(value)
        subtract, computed = subtraction(value), unscaled(value)
        value, body = elements_of(self, computed, quantize is None)
        index, name, layout = self.argument(value, f"the {side} operand")
        order = self.results_of(where, self.symbols)
        stored = element_of(value, name)
        rounded = element_of(quantize.values if quantize is not None else computed, name) if body or new else None
        element = ELEMENT_TYPES.get(multiplied, rounded or stored)
        paged, page, pages = self.page_of(where, self.symbols, rows.name)
        if page:
            order[paged] = rows.name
        paged_k, page_k, pages_k = self.page_of(where, self.symbols, k.name)
        if page_k:
            order[paged_k] = k.name
        others = [e for axis, e in enumerate(where.results) if axis not in (paged, paged_k)]
        if not all(isinstance(e, ir.AffineDimExpr | ir.AffineSymbolExpr) for e in others):
            number = next((e for e in others if isinstance(e, ir.AffineConstantExpr)), None)
            such = f"a copy or a view of {name} that is indexed so"
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] has a computed index",
                expected="indices that are dimensions",
                fix=without_type(name, order)
                or "pass " + (such if number is None else f"a view of {name} without the index {number}"),
                place=place_of(value),
            )
        transposed = order[-1] == rows.name
        if not transposed and order[-1] != k.name:
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] is contiguous along {order[-1]}, and the other operand along {k.name}",
                expected=f"one of {rows.name} and {k.name} last",
                fix=f"store {name} with {k.name} last",
                place=place_of(value),
            )
        if transposed and page:
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] has pages of {rows.name}, and is contiguous along it",
                expected=f"{k.name} last: copies bring a page row by row",
                fix=f"store {name} with {k.name} last",
                place=place_of(value),
            )
        summed = k.name if k.name in order else self.row_of(where, self.symbols, k.name, value)
        row = rows.name if page else self.row_of(where, self.symbols, rows.name, value)
        own = family or self.target.mma_for(element.name, element.name)  # what does not go together is told later
        reads = own is not None and own.reads_transposed(element.name) and stored == element and rounded is None
        turns = transposed and stored.name in TURNED and rounded is None and (stored == element or stored.bits == 8)
        if summed != k.name and not ((reads or turns) and stored.bits in GATHERED_BITS):
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] is read through memory along {k.name}, which is summed",
                got=stored.name,
                expected="bf16, f16, e4m3 or e5m2",
                fix=f"gather {name} by a program of its own, as X[m,n] = {name}[idx[m],n]",
                place=place_of(value),
            )
        named = tuple(
            self.named_scale(op, order, name, (rows, k, summed), (stored, element)) for op in levels if summed != k.name
        )
        turned = transposed and not reads and family is not None and stored.name in TURNED and row == rows.name
        turned = turned and (stored.bits > PACKED_BITS or (stored != element and rounded is None))
        packed = rounded is None and stored.bits == PACKED_BITS
        unknown = family is None and (packed or element.name in WHOLE_SUMS)  # what is wrong is told later
        if transposed and not (reads or turned or unknown) and (own is not None or stored.name in CONVERTED):
            reason = f"the tensor core of {self.target.name} reads {element.name} contiguous along K only"
            last = ", ".join([*(x for x in order if x != k.name), k.name])
            copy = f"{name}.t()" if len(order) == 2 else f"{name}.transpose({order.index(k.name)}, {len(order) - 1})"
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] is contiguous along {rows.name}: {reason}",
                expected=f"{name}[{last}]: contiguous along {k.name}",
                fix=f"store {name} as [{last}]" + ("" if layout == WORDS else f": {copy}.contiguous()"),
                place=place_of(value),
            )
        if len(levels) > 1:
            for op in levels if quantize is None and summed == k.name else ():
                self.check_scale_type(op, name, self.blocks(op, order)[k.name], k, family)
            raise UnsupportedError(
                f"{name} has {len(levels)} levels of scales that vary along {k.name}",
                expected="one level",
                fix="multiply the levels into one tensor of scales before the call",
                place=place_of(levels[1].scales),
            )
        seen, gathered = rows, "" if row == rows.name else row
        if gathered:  # as many as the tensor has, whatever the tile's dimension has
            seen, promoted = replace(self.extent_of(self.arguments[index], order.index(row)), name=row), 1
        bounds = bounds_of(subtract) if subtract is not None else None
        folding = [
            QUANTISED_STEP
            if quantize is not None
            else FOLDED_STEP * applied_by(x, stored.name, element.name, bounds, addends=self.addends)
            for x in levels
        ]
        scales = named + tuple(
            self.scale(op, order, name, seen, k, promoted, family, folded, page).of_rows(gathered or pages)
            for op, folded in zip(levels, folding, strict=True)
            if not named
        )
        scales += tuple(self.new_scale(op, quantize, order, name, (seen, k), family) for op in new)
        bits = element.bits if family is None else family.shared_bits(element, transposed and not turned)
        align = PADDED_ALIGN if bits > element.bits else self.target.tma_align
        atom = family.transposed_atom if family is not None and transposed and not turned else ATOM
        coords = tuple(
            self.noted(self.symbols[e.position], self.arguments[index], axis)
            if isinstance(e, ir.AffineSymbolExpr)
            else Coord(x, modulus=page)
            if axis == paged
            else Coord(x, modulus=page_k)
            if axis == paged_k
            else self.spanned(Coord(x), (rows,))
            for axis, (e, x) in enumerate(zip(where.results, order, strict=True))
        )
        if len(coords) > MOST_INDICES:
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] has {len(order)} indices, and copies take {MOST_INDICES}",
                expected=f"at most {MOST_INDICES}",
                fix=f"view adjacent indices of {name} as one, or call the program for each {order[0]}",
                place=place_of(value),
            )
        made = Operand(index, name, stored, element, rows.name, order[-1], scales, bits, align, atom, coords, gathered)
        made = replace(made, turned=turned, rounded=rounded, body=body, page=page)
        made = replace(made, in_words=layout == WORDS, order=order_along(self.function, made, k, place_of(value)))
        made = replace(made, gathered=pages) if page % ROWS_OF_PAGE else replace(made, pages=pages)
        made = replace(made, gathered_k=summed if summed != k.name else "", pages_k=pages_k, page_k=page_k)
        return replace(made, zeros=self.zero_points(subtract, made, (rows.name, k.name), order))

    def zero_points(
        self, subtract: Any, operand: Operand, names: tuple[str, str], order: list[str]
    ) -> ZeroPoints | None:
        """Those of an operand; `names`: of the rows and the K of a tile."""
        if subtract is None:
            return None
        argument = (-1, "")
        if len(subtract.zeros):
            argument = self.argument(subtract.zeros[0], f"the zero points of {operand.name}")[:2]
        if (operand.gathered or operand.pages or operand.inner > 1) and argument[1]:
            rows = operand.gathered and not operand.page
            what = f"gathered by {operand.gathered}" if rows else "of pages, or has rows of two indices"
            raise UnsupportedError(
                f"{operand.name}[{', '.join(order)}] is {what}, and has zero points",
                expected="zero points that are a number, or rows in order",
                fix=f"subtract {argument[1]} before the call, or pass the gathered rows",
                place=place_of(subtract.zeros[0]),
            )
        return read_zero_points(subtract, argument, order, operand.coords, names)

    @staticmethod
    def blocks(op: Any, order: list[str]) -> dict[str, int]:
        """Elements of a block of a `scale.dequantize` along each index of its operand."""
        block = block_of(GranularityAttr(op.granularity))
        return dict(zip(order, [1] * (len(order) - len(block)) + block, strict=True))

    def layout(self, op: Any, name: str, operand: str, order: list[str], rows: Dim, k: Dim) -> str:
        """The layout of a scale as the kernel sees it: "row" where K is contiguous, "col" where rows are. `rows` is
        called as the operand's index of rows is."""
        layout = ir.StringAttr(GranularityAttr(op.granularity).layout).value
        last = order[-2:] if layout != "row" else order[-1:]
        if layout != "row" and set(last) != {rows.name, k.name}:
            raise UnsupportedError(
                f"{name} has layout {layout}, and the last two indices of {operand} are {' and '.join(last)}",
                expected=f"{rows.name} and {k.name} last: a tile has blocks of these",
                fix=f"reorder {name} before the call and leave out @{layout}",
                place=place_of(op.scales),
            )
        if order[-1] == k.name:
            return layout
        layouts = {"row": "col", "col": "row"}
        if layout not in layouts:
            raise UnsupportedError(
                f"{name} has layout {layout}, and {operand}[{', '.join(order)}] is contiguous along {rows.name}",
                expected="row or col: there is no such tiling of scales with K outermost",
                fix=f"reorder {name} before the call and leave out @{layout}",
                place=place_of(op.scales),
            )
        return layouts[layout]

    def scale(
        self,
        op: Any,
        order: list[str],
        operand: str,
        rows: Dim,
        k: Dim,
        promoted: int,
        family: MmaShape | None,
        folded: int,
        page: int,
    ) -> Scale:
        """One of an operand's scales; `folded`: where its conversion applies it, of how many elements of K blocks are
        multiples, else 0."""
        index, name, _ = self.argument(op.scales, f"the scale of {operand}")
        blocks = self.blocks(op, order)
        along_rows, along_k = blocks[rows.name], blocks[k.name]
        in_mma = not folded and self.check_scale_type(op, operand, along_k, k, family)
        granularity, place = GranularityAttr(op.granularity), place_of(op.scales)
        kind = ir.StringAttr(granularity.type).value
        apart = set(apart_in(op))
        if in_mma and k.size is not None and along_k >= k.size and k.name not in apart:
            along_k = WHOLE
        step = promotion_step(family or self.target.mma[0])
        whole = along_k == WHOLE and not in_mma and k.size is not None  # each index summed beside k has its own
        if whole:
            along_k = k.size or 0
        if folded:
            step, promoted = folded, 1
        if in_mma:
            step = (family.scale_block(kind) if family is not None else 0) or 1
        if not (in_mma and along_k == WHOLE) and (along_k % step or along_k < step):
            least = finest(element_of(unscaled(op.values), operand).name, self.target)
            step = least if not in_mma and along_k % least else step
            other = exchanged([*blocks.values()], order.index(rows.within or rows.name), order.index(k.name), step)
            raise UnsupportedError(
                f"{name} has one scale for "
                + (
                    f"all of {k.name}{f' = {k.size}' * whole}, and others elsewhere in the sum"
                    if along_k == WHOLE or whole
                    else f"each {along_k} elements of {k.name}"
                ),
                expected=f"a multiple of {step}"
                + ("" if whole else f", or the whole of {k.name}{', of known size' * (along_k == WHOLE)}"),
                fix=f"say {other}, as {operand} has {k.name} before {rows.name}"
                if other
                else f"quantise {operand} in blocks of {step} along {k.name}, or fold {name} into {operand} "
                "before the call and pass it as bf16",
                place=place,
            )
        step = 1 if in_mma else promoted
        if along_rows not in (1, WHOLE) and along_rows % step:
            raise UnsupportedError(
                f"{name} has one scale for each {along_rows} elements of {rows.name}",
                expected=f"1, a multiple of {step}, or the whole of {rows.name}",
                fix=f"repeat each scale {along_rows} times before the call and say 1x{along_k}",
                place=place,
            )
        if along_rows > 1 and rows.size is not None and along_rows >= rows.size and rows.name not in apart:
            along_rows = WHOLE
        layout = self.layout(op, name, operand, order, rows, k)
        if page and (along_rows != 1 or layout != "row"):
            raise UnsupportedError(
                f"{name} varies along {k.name}, and {operand} has pages of {rows.name}",
                got=f"one for each {along_rows} of {rows.name}, layout {layout}",
                expected=f"one for each {rows.name}, in rows",
                fix=f"leave out @{layout}, and repeat scales along {rows.name} before the call",
                place=place,
            )
        padded = pads(op, order)
        coords = tuple(
            Coord()
            if size == WHOLE
            else Coord(x, modulus=page)
            if page and x == rows.name
            else self.spanned(Coord(x, size, apart=pad), (rows,))
            for (x, size), pad in zip(blocks.items(), padded, strict=True)
        )
        axes = (order.index(rows.within or rows.name), order.index(k.name))
        if rows.within and (layout != "row" or axes[0] != order.index(rows.name) + 1):
            raise UnsupportedError(
                f"{name} varies along {k.name}, and a tile walks {rows.within} and {rows.name} of {operand} as one",
                got=f"{operand}[{', '.join(order)}], layout {layout}",
                expected=f"{operand}[..., {rows.name}, {rows.within}, {k.name}] with scales that lie as these do",
                fix=f"reorder {operand} and its scales before the call",
                place=place,
            )
        return Scale(index, name, along_rows, along_k, layout, kind, in_mma, axes, coords, folded=bool(folded))

    def new_scale(
        self, op: Any, quantize: Any, order: list[str], operand: str, tile: tuple[Dim, Dim], family: MmaShape | None
    ) -> Scale:
        """The scale of an operand that is quantised anew; `tile`: the dimensions of its rows and K."""
        (rows, k), blocks, place = tile, self.blocks(op, order), place_of(quantize)
        if op.scales != quantize.scales:
            name = self.argument(op.scales, f"the scale of {operand}")[1]
            raise UnsupportedError(
                f"{operand} is quantised anew, and {name} multiplies all of that",
                expected=f"scales of f32, bf16 or f16, or scales that vary along {k.name}",
                fix=f"convert {name} to f32 before the call",
                place=place,
            )
        granularity = GranularityAttr(op.granularity)
        kind = ir.StringAttr(granularity.type).value
        step = max(QUANTISED_STEP, promotion_step(family or self.target.mma[0]))
        along_k, others = blocks[k.name], [size for x, size in blocks.items() if x != k.name]
        if kind not in NEW or set(others) - {1} or along_k < step or PROMOTION_BLOCK % along_k:
            sizes = [n for n in range(step, PROMOTION_BLOCK + 1, step) if PROMOTION_BLOCK % n == 0]
            text = "x".join("all" if size == WHOLE else str(size) for size in blocks.values())
            raise UnsupportedError(
                f"{operand} is quantised anew in blocks of {text}, with scales of {kind}",
                expected=f"blocks along {k.name} alone, of {' or '.join(map(str, sizes))} elements, with scales of "
                f"{' or '.join(NEW)}: those of a K tile, for each of its rows",
                fix=f"write 1x{PROMOTION_BLOCK}, or quantise {operand} by a program of its own, as "
                f"Q[m,k]:e4m3 scale(1xk) = {operand}[m,k]",
                place=place,
            )
        axes = order.index(rows.within or rows.name), order.index(k.name)
        coords = tuple(Coord(x, size) for x, size in blocks.items())
        return Scale(-1, f"quantize({operand})", 1, along_k, "row", kind, axes=axes, coords=coords, made=True)

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
        usual = family or self.target.mma[0]  # what does not go together is told later
        step, promoted = finest(element_of(unscaled(op.values), operand).name, self.target), usual.kind.promotes
        stored, number = str(element(op.scales.type)), kind in NUMBERS
        if kind not in promoted or (stored != kind if number else stored in NUMBERS):
            said = f":{kind}" + ("" if layout == "row" else f"@{layout}")
            fix = f"convert {name} to f32 before the call and leave out {said}"
            if along_k != WHOLE and along_k % step:
                fix = f"fold {name} into {operand} before the call and pass {operand} as bf16"
            blocks = dict.fromkeys(promoted, step) | {s.type: s.block for s in (family.scales if family else ())}
            kinds = {each: " or ".join(t for t, size in blocks.items() if size == each) for each in blocks.values()}
            expected = "; or ".join(
                f"{types} scales, one for each {each} elements of {k.name}, a multiple, or all"
                for each, types in kinds.items()
            )
            message = f"{name} is {kind}, which scales have no kernel for on {self.target.name}"
            if applied:
                message = f"{name} is {kind}, which {self.target.name} has no instruction for with these operands"
            raise UnsupportedError(message, expected=expected, fix=fix, place=place)
        if number and layout not in LAYOUTS[:2]:
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
        if alone is not None:
            message = f"{target.name} has no tensor-core instruction for {alone.element.name}"
        else:
            message = f"{target.name} has no tensor-core instruction that multiplies {a} by {b}"
        return UnsupportedError(
            message,
            got=f"{lhs.name}: {a}, {rhs.name}: {b}",
            expected=" or ".join(families) + " on both sides",
            fix=f"convert {' and '.join([lhs.name, rhs.name])} to one of these before the call"
            if a == b
            else f"{as_f32(lhs, rhs)}convert {(alone or rhs).name} before the call",
            place=place_of(self.arguments[(alone or rhs).argument_index]),
        )

    def check_scales(self, lhs: Operand, rhs: Operand, k: Dim, family: MmaShape) -> None:
        """Refuses scales that the operands' instruction cannot go with."""
        for operand in (lhs, rhs):
            applied = operand.scale_in_mma
            unknown = () if applied is None or family.scale_block(applied.type) else (applied,)
            bits = (operand.rounded or operand.stored).bits
            if applied is not None and unknown and bits <= PROMOTED_BITS:
                raise UnsupportedError(
                    f"{applied.name} is {applied.type}, which {self.target.name} has no instruction for with products "
                    f"of {operand.element.name}",
                    expected="f32 or bf16 or f16",
                    fix=f"convert {applied.name} to f32 before the call and leave out :{applied.type}",
                    place=place_of(self.arguments[applied.argument_index]),
                )
            if refused := unknown or (operand.promoted if bits > PROMOTED_BITS else ()):
                able = {*CONVERTED, *(name for family in self.target.mma for name in family.operands)}
                known = {ELEMENT_TYPES[name].bits for name in able}
                *some, last = (str(bits) for bits in sorted(known) if bits <= PROMOTED_BITS)
                raise UnsupportedError(
                    f"{operand.name} is {operand.stored.name} with scales that vary along {k.name}",
                    expected=(f"{'-, '.join(some)}- or " if some else "") + f"{last}-bit operands, or scales constant "
                    f"along {k.name}",
                    fix=f"fold {refused[0].name} into {operand.name} before the call",
                    place=place_of(self.arguments[refused[0].argument_index]),
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
        name, row, step = operand.name, operand.stored, PADDED_ROW
        if operand.padded and inner.size is not None and inner.size % step:
            raise UnsupportedError(
                f"{inner.name} = {inner.size} is not a multiple of {step}, which the copies that pad {row.name} to a "
                "byte need",
                got=f"{name}: {row.name}, rows of {inner.size} elements",
                expected=f"{inner.name} a multiple of {step}",
                fix=f"pad {inner.name} to {-(-inner.size // step) * step} with zeros"
                + ("" if operand.mn_major else ", in both operands"),
                place=place_of(self.arguments[operand.argument_index]),
            )
