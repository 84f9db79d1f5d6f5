"""The contractions of a program, what their operands are made of, and as which element types they are multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from scalec import zero_points
from scalec.formats import (
    ADDENDS,
    CONVERTED,
    ELEMENT_TYPES,
    FOLDED,
    NAMED,
    PACKED_BITS,
    WHOLE,
    WHOLE_SUMS,
    element_spelled,
)
from scalec.ir.mlir import ir
from scalec.ir.scale import GranularityAttr, block_of, dims_in, dims_read, element, maps_of
from scalec.passes.problem.operand import (
    FOLDED_STEP,
    PROMOTED_BITS,
    PROMOTION_BLOCK,
    TURNED,
    WHOLE_STEP,
    promotion_step,
)
from scalec.passes.problem.sources import computed_of, is_op, rounded_to, unscaled, where_of
from scalec.passes.problem.zero_points import bounds_of
from scalec.targets import MmaShape, Target
from scalec.zero_points import converts


def contractions(function: Any) -> list[Any]:
    return [op for op in function.body.blocks[0].operations if op.operation.name == "scale.contract"]


def sums_of(contract: Any) -> Any:
    """What holds the sums of a contraction: its result, or the `scale.add` that this, or what is computed of it, is a
    term of."""
    uses = [use.owner for use in contract.result.uses]
    values = [v for x in uses if x.name == "scale.read" for v in (u.owner.results[0] for u in x.results[0].uses)]
    uses += [use.owner for v in values for use in v.uses]
    added = [x.opview for x in uses if x.name == "scale.add"]
    return added[0].result if added else contract.result


def terms_of(contract: Any) -> list[Any]:
    """The contractions of one sum with a contraction, in order."""
    sums = sums_of(contract)
    return [contracted(x) for x in sums.owner.opview.terms] if is_op(sums, "scale.add") else [contract]


def contracted(term: Any) -> Any:
    """The contraction that a term of a `scale.add` is, or is computed of."""
    read = computed_of(term.owner.opview) if is_op(term, "scale.map") else [term]
    return next(x.owner.opview for x in read if is_op(x, "scale.contract"))


def computed_terms(contract: Any) -> dict[int, Any]:
    """Of a sum of contractions the `scale.map`s that compute terms of one of them each, by their places."""
    sums = sums_of(contract)
    terms = list(sums.owner.opview.terms) if is_op(sums, "scale.add") else []
    return {place: x.owner.opview for place, x in enumerate(terms) if is_op(x, "scale.map")}


def family_of(contract: Any, target: Target) -> MmaShape | None:
    """The tensor-core family that multiplies a contraction's operands, or None."""
    return multiplied_as(contract, target)[0]


def multiplied_as(contract: Any, target: Target) -> tuple[MmaShape | None, tuple[str, str]]:
    """The tensor-core family of a contraction's operands, None where there is none, and the element types as which it
    multiplies them: those that they have below their scales. Where no family takes these, or their scales, others to
    which they convert without rounding: first those without which sums would be promoted more than once in
    PROMOTION_BLOCK of K, as each time costs what the product of 32 of K does; then the narrowest."""
    sides = _Side.of(contract, 0), _Side.of(contract, 1)
    scales = {level.type for side in sides for level in side.levels} & target.scale_types()
    own = sides[0].element, sides[1].element
    found: list[tuple[bool, int, MmaShape, tuple[str, str]]] = []
    pairs = [*product(sides[0].ways, sides[1].ways)]
    for pair in [own] if WHOLE_SUMS.issuperset(own) and own in pairs else pairs:
        family = target.mma_for(*pair, scales)
        ways = [side.applied(family, x) for side, x in zip(sides, pair, strict=True)] if family is not None else []
        if family is None or not all(ways) or not all(x.reads(family, y) for x, y in zip(sides, pair, strict=True)):
            continue
        if len(sides[0].natively(family, pair[0]) | sides[1].natively(family, pair[1])) > 1:
            continue
        if pair == own:
            return family, own
        found.append(("finely" in ways, sum(ELEMENT_TYPES[x].bits for x in pair), family, pair))
    if not found:
        return target.mma_for(*own, scales), own
    return min(found, key=lambda way: way[:2])[2:]


def multiplied_as_addends(contract: Any, target: Target) -> tuple[MmaShape | None, tuple[str, str]]:
    """Likewise where each element of one operand, times its scale, is a sum of some of the type that the other one has
    (ADDENDS), and all are multiplied; None where there is no such operand."""
    sides = _Side.of(contract, 0), _Side.of(contract, 1)
    scales = {level.type for side in sides for level in side.levels} & target.scale_types()
    for one, other in (sides, sides[::-1]):
        made = next((ADDENDS[one.element, x][0] for x in one.along_k if (one.element, x) in ADDENDS), None)
        family = target.mma_for(made, made, scales) if made is not None and made == other.element else None
        plain = all(x.k_major and x.zeros is None and not any(y.rounded for y in x.levels) for x in (one, other))
        if family is not None and plain and len(one.along_k) == 1 and other.applied(family, other.element):
            return family, (other.element, other.element)
    return None, (sides[0].element, sides[1].element)


def elements_of(contract: Any) -> tuple[str, str]:
    """The element types of a contraction's operands below their scales."""
    return _Side.of(contract, 0).element, _Side.of(contract, 1).element


def levels_of(value: Any) -> list[Any]:
    """The scales of an operand, innermost level first: `scale.dequantize` ops."""
    levels: list[Any] = []
    while not isinstance(value.owner, ir.Block) and value.owner.name == "scale.dequantize":
        levels.insert(0, value.owner.opview)
        value = value.owner.opview.values
    return levels


def scale_type(level: Any) -> str:
    """The element type of the scales of a `scale.dequantize`."""
    return ir.StringAttr(GranularityAttr(level.granularity).type).value


def subtraction(value: Any) -> Any:
    """The `scale.subtract` of an operand below its scales, None where it has no zero points."""
    while is_op(value, "scale.dequantize"):
        value = value.owner.opview.values
    return value.owner.opview if is_op(value, "scale.subtract") else None


@dataclass(frozen=True)
class _Level:
    """Scales of an operand: their element type, and along K the elements of a block, WHOLE where all have one; whether
    they are of rows that are gathered along K; the type to which elements times them are rounded, "" for none."""

    type: str
    k: int
    named: bool = False
    rounded: str = ""


@dataclass(frozen=True)
class _Side:
    """An operand of a contraction: its element type, "" where the language has no name for it; whether it is contiguous
    along K; its scales; between what its zero points lie, where it has some."""

    element: str
    k_major: bool
    levels: tuple[_Level, ...]
    zeros: tuple[int, int] | None

    @staticmethod
    def of(contract: Any, slot: int) -> _Side:
        lhs, rhs, result = maps_of(contract.maps)
        value = contract.operation.operands[slot]
        where = where_of(value, (lhs, rhs)[slot])
        kept = {x.position for x in result.results if isinstance(x, ir.AffineDimExpr)}
        summed = [isinstance(x, ir.AffineDimExpr) and x.position not in kept for x in where.results]
        symbols, left = list(contract.symbols), dims_in(result)
        gathered = [
            isinstance(x, ir.AffineSymbolExpr)
            and not dims_read(ir.AffineMap.get(where.n_dims, where.n_symbols, [x]), symbols) <= left
            for x in where.results
        ]

        def level(op: Any) -> _Level:
            blocks = block_of(GranularityAttr(op.granularity))
            along = [x for x, k in zip(reversed(blocks), reversed(summed), strict=False) if k]
            kind = scale_type(op)
            if named := [x for x, k in zip(reversed(blocks), reversed(gathered), strict=False) if k and x != WHOLE]:
                return _Level(kind, named[0], True)
            new = is_op(op.scales, "scale.quantize")  # which warps find, as f32, whatever they are rounded to
            return _Level("f32" if new else kind, along[0] if along else WHOLE, rounded=rounded_to(op))

        levels, subtract = tuple(map(level, levels_of(value))), subtraction(value)
        row = element_spelled(str(element(unscaled(value).type)))
        zeros = bounds_of(subtract) if subtract is not None else None
        return _Side(row.name if row is not None else "", bool(summed) and summed[-1], levels, zeros)

    @property
    def ways(self) -> tuple[str, ...]:
        """The element types as which it may be multiplied."""
        if rounded := tuple(level.rounded for level in self.levels if level.rounded):
            able = converts(self.element, *self.zeros) if self.zeros is not None else CONVERTED.get(self.element, ())
            reads = self.k_major or TURNED.get(self.element) == PACKED_BITS
            return tuple(x for x in rounded if reads and x in able)
        if self.zeros is not None:
            return converts(self.element, *self.zeros)
        able = self.k_major or TURNED.get(self.element) in (PACKED_BITS, 8)
        return (self.element, *(CONVERTED.get(self.element, ()) if able else ()))

    def reads(self, family: MmaShape, multiplied: str) -> bool:
        """Whether it can be multiplied as that: of 4 bits with M or N contiguous as another type, if not as it is."""
        turned = not self.k_major and TURNED.get(multiplied) == PACKED_BITS
        return not turned or multiplied != self.element or family.reads_transposed(multiplied)

    @property
    def along_k(self) -> list[str]:
        """The types of its scales that change along K."""
        return [level.type for level in self.levels if level.k != WHOLE]

    def natively(self, family: MmaShape, multiplied: str) -> set[str]:
        """The types of its scales that the instruction applies, which takes one type for both sides."""
        types = {level.type for level in self.levels if level.k != WHOLE and not level.named}
        return {x for x in types if multiplied == self.element and family.scale_block(x)}

    def applied(self, family: MmaShape, multiplied: str) -> str:
        """How its scales that change along K are applied where it is multiplied as that; "" where some are not."""
        ways = [self._applied(level, family, multiplied) for level in self.levels if level.k != WHOLE]
        return "" if not all(ways) else "finely" if "finely" in ways else "plainly"

    def _applied(self, level: _Level, family: MmaShape, multiplied: str) -> str:
        if level.named:
            return "plainly" * (multiplied in NAMED.get((self.element, level.type), ()))
        if multiplied == self.element and (block := family.scale_block(level.type)):
            return "" if level.k % block else "plainly"
        folded = level.rounded == multiplied or folds(self.element, level.type, multiplied, self.zeros)
        if folded and level.k % FOLDED_STEP == 0:
            return "plainly"
        promotes = level.type in family.kind.promotes and level.k % promotion_step(family) == 0
        if not promotes or ELEMENT_TYPES[self.element].bits > PROMOTED_BITS:
            return ""
        if level.k % PROMOTION_BLOCK == 0:
            return "plainly"
        # tf32 is multiplied at an eighth of FP8's rate, in tiles of WHOLE_STEP, and would be promoted for each 8 of K
        return "" if multiplied == "tf32" and level.k % WHOLE_STEP else "finely"


def finest(stored: str, target: Target) -> int:
    """The least number that blocks of promoted scales along K are multiples of, whatever elements are multiplied as."""
    ways = {stored, *CONVERTED.get(stored, ())} - {"tf32"}
    able = [promotion_step(family) for family in target.mma if family.operands & ways]
    return min(able, default=PROMOTION_BLOCK)


def applied_by(op: Any, stored: str, multiplied: str, zeros: tuple[int, int] | None, *, addends: bool) -> bool:
    """Whether the conversion of an operand applies the scales of a `scale.dequantize` too: it rounds, or `folds`."""
    return bool(rounded_to(op)) or folds(stored, scale_type(op), multiplied, zeros, addends=addends)


def folds(stored: str, scale: str, multiplied: str, zeros: tuple[int, int] | None, *, addends: bool = False) -> bool:
    """Whether the conversion of an operand applies its scales of a type too, without rounding. `zeros`: between what
    its zero points lie, None where it has none; `addends`: whether it makes a sum of each (ADDENDS)."""
    if addends and ADDENDS.get((stored, scale), ("", 0))[0] == multiplied:
        return True
    if zeros is not None:
        return zero_points.folds(stored, scale, multiplied, *zeros)
    return multiplied in FOLDED.get((stored, scale), ())
