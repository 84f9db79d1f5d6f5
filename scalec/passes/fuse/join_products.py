"""Products that are added to each other become one sum."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

from scalec.ir.mlir import arith, ir
from scalec.ir.scale import AddOp, dims_in, dims_read, map_of, maps_of
from scalec.passes.base import programs
from scalec.passes.fuse.indices import access, used
from scalec.passes.fuse.ranges import readers
from scalec.passes.fuse.rewrite import build_map, erase_unused, key, read
from scalec.passes.problem.contraction import contractions
from scalec.passes.problem.sources import below
from scalec.targets import Target

_ADDS = ("arith.addf", "arith.subf")


@dataclass(frozen=True)
class Use:
    """What one map does with the sums of a contraction: `chain` are the ops on the way to what it yields, one after the
    other, each with the operand that it has them in. The first `own` of them are computed of these sums alone before
    they are added to others, and `negated` if they are subtracted there."""

    op: Any
    value: Any
    chain: tuple[tuple[Any, int], ...]
    own: int = 0
    negated: bool = False

    @staticmethod
    def of(op: Any, contract: Any) -> Use:
        position = [view.owner.opview.source for view in op.views].index(contract.result)
        value = own = op.body.blocks[0].arguments[position]
        chain: list[tuple[Any, int]] = []
        while len(uses := list(value.uses)) == 1 and uses[0].owner.name != "scale.yield":
            user = uses[0].owner.opview
            chain.append((user, [key(x) for x in user.operands].index(key(value))))
            value = user.result
        return Use(op, own, tuple(chain))

    @property
    def root(self) -> Any:
        """The sum that the contraction's is a term of as it is; None where it is of none."""
        return _sum_along(self.chain)

    def meets(self, other: Use) -> Any:
        """The sum in which what is computed of it meets what is computed of another; None where they meet otherwise."""
        theirs = {key(op.result) for op, _ in other.chain}
        number = next((i for i, (op, _) in enumerate(self.chain) if key(op.result) in theirs), None)
        if number is None or self.chain[number][0].operation.name not in _ADDS:
            return None
        return _sum_along(self.chain[number + 1 :]) or key(self.chain[number][0].result)

    def within(self, root: Any) -> Use | None:
        """Its use as a term of the sum `root`, behind what is computed of it before; None where it is no term."""
        added = _added(root)
        for number, (op, place) in enumerate(self.chain):
            if key(op.result) in added:
                negated = op.operation.name == "arith.subf" and place == 1
                return Use(self.op, self.value, self.chain, number, negated)
        return None

    @property
    def computed(self) -> bool:
        """Whether something is computed of the sums before they are added to others."""
        return self.own > 0 or self.negated

    @property
    def term(self) -> Any:
        """What is added to the others, the sums themselves or what is computed of them."""
        return self.chain[self.own - 1][0].result if self.own else self.value

    def said(self) -> tuple[Any, ...]:
        """What is computed of it, equal for equal computations."""

        def of(value: Any) -> Any:
            if key(value) == key(self.value):
                return "sums"
            if isinstance(value.owner, ir.Block):
                view = self.op.views[value.arg_number].owner.opview
                return key(view.source), *map(str, access(view))
            attributes = {x: str(value.owner.attributes[x]) for x in value.owner.attributes}
            return value.owner.name, str(attributes), *map(of, value.owner.operands)

        return self.negated, of(self.term)


class JoinProducts:
    """Adds up contractions before a map reads them: one accumulator then sums the terms of all of them.

    So it is where the map adds it to the others, at its own points, and uses it nowhere else; what else is added may
    stand between. Of any of them something may be computed before: the sum then has a map of that contraction as a
    term. Each map has contractions and sums of its own: `cse` then leaves one of those that are equal. Contractions of
    one left operand (of the two the one without the last index of what the map computes) stay as they are: their right
    operands lie side by side in a tile.

        %t = scale.contract(%A, %B)
        %u = scale.contract(%D, %E)
        %c = scale.map(read %t, read %u, read %s, read %bias)
               ({ ^(%x, %y, %s, %z): %p = mulf %s, %y; %v = addf %x, %p; %w = addf %v, %z; yield %w })
    -->
        %t = scale.contract(%A, %B)
        %u = scale.contract(%D, %E)
        %v = scale.map(read %u, read %s) ({ ^(%y, %s): %p = mulf %s, %y; yield %p })
        %s = scale.add(%t, %v)
        %c = scale.map(read %s, read %bias) ({ ^(%x, %z): %w = addf %x, %z; yield %w })
    """

    name = "join-products"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in programs(module):
            _take_apart(function)
            while _join_one(function):
                pass
            erase_unused(function.body.blocks[0])


def _take_apart(function: Any) -> None:
    """Gives each map that reads a contraction one of its own, since what it adds that to is its own."""
    found = contractions(function)
    for contract in found if len(found) > 1 else []:
        last = contract.operation
        for op in _readers(contract)[1:]:
            with ir.InsertionPoint.after(last):
                last = last.clone()
            with ir.InsertionPoint(op):
                for place, view in enumerate(op.views):
                    at = view.owner.opview
                    if at.source == contract.result:
                        op.operation.operands[place] = read(last.results[0], map_of(at.map), list(at.symbols))


def _join_one(function: Any) -> bool:
    """Adds up the first contractions that can be; False where there are none. The maps that read them are then others:
    what was found of further ones is gone."""
    uses = [(x, [Use.of(op, x) for op in _readers(x)]) for x in contractions(function)]
    found: dict[tuple[Any, ...], list[tuple[Any, list[Use]]]] = {}
    for contract, mine in uses:
        roots = tuple(x.root for x in mine)
        if mine and all(root is not None for root in roots):
            found.setdefault(roots, []).append((contract, mine))
    together = [x for terms in found.values() if len(terms) > 1 for x, _ in terms]
    alone = [(x, mine) for x, mine in uses if x not in together]
    for (_, one), (_, other) in combinations([x for x in alone if x[1]], 2):
        meeting = tuple(x.meets(y) for x, y in zip(one, other, strict=False)) if len(one) == len(other) else (None,)
        if all(root is not None for root in meeting):
            found.setdefault(meeting, [])
    for roots, terms in found.items():
        others = [(x, made) for x, mine in alone if (made := _within(mine, roots)) and made[0].computed]
        every = [*terms, *sorted(others, key=lambda x: x[1][0].negated)]
        alike = len({str(list(maps_of(x.maps)[2].results)) for x, _ in every}) == 1  # else each has points of its own
        if alike and len({_left(x) for x, _ in every}) > 1:
            _join(terms, every[len(terms) :])
            return True
    return False


def _readers(contract: Any) -> list[Any]:
    """The maps that read a contraction, in the order of the program, where nothing else does."""
    order = list(contract.operation.block.operations)
    return sorted(readers(contract, alone=True), key=lambda op: [x.operation for x in order].index(op.operation))


def _within(mine: list[Use], roots: tuple[Any, ...]) -> list[Use]:
    """The uses of a contraction as a term of each of some sums, of all that is computed the same; else none."""
    if len(mine) != len(roots):
        return []
    made = [x.within(root) for x, root in zip(mine, roots, strict=True)]
    found = [x for x in made if x is not None]
    alike = len(found) == len(made) and len({x.said() for x in found}) == 1
    return found if alike and not any(_contracted(x.term, x) for x in found) else []


def _contracted(value: Any, use: Use) -> bool:
    """Whether a value of a body is computed of another contraction."""
    if isinstance(value.owner, ir.Block):
        source = use.op.views[value.arg_number].owner.opview.source
        return key(value) != key(use.value) and not isinstance(source.owner, ir.Block)
    return any(_contracted(x, use) for x in value.owner.operands)


def _sum_along(chain: tuple[tuple[Any, int], ...]) -> Any:
    """The last of the additions that a chain begins with; None where it begins otherwise."""
    root = None
    for op, place in chain:
        if op.operation.name not in _ADDS or (op.operation.name == "arith.subf" and place):
            break
        root = key(op.result)
    return root


def _added(root: Any) -> set[Any]:
    """The additions that a sum is made by."""
    found, open_ = set(), [root]
    while open_:
        value = open_.pop()
        if isinstance(value.owner, ir.Block) or value.owner.name not in _ADDS:
            continue
        found.add(key(value))
        operands = list(value.owner.operands)[: 1 if value.owner.name == "arith.subf" else 2]
        open_ += [x for x in operands if len(list(x.uses)) == 1]
    return found


def _left(contract: Any) -> tuple[Any, str]:
    """The operand without the last index of what a map computes of a contraction, and where it is read."""
    at = map_of(readers(contract)[0].map)
    last = dims_in(ir.AffineMap.get(at.n_dims, at.n_symbols, [at.results[-1]]))
    pairs = list(zip((contract.lhs, contract.rhs), maps_of(contract.maps), strict=False))
    value, where = next((x for x in pairs if not last & dims_read(x[1], list(contract.symbols))), pairs[0])
    return key(below(value)), str(where)


def _join(terms: list[tuple[Any, list[Use]]], others: list[tuple[Any, list[Use]]]) -> None:
    """One sum of contractions, in front of the maps that read them; of `others` of what is computed of them."""
    every = [*terms, *others]
    with ir.InsertionPoint(every[0][1][0].op), every[len(terms) - 1][0].location:
        minus = every[0][1][0].negated  # that stays, before the sum
        added = [x.result for x, _ in terms] + [_computed(x, mine[0], mine[0].negated != minus) for x, mine in others]
        total = AddOp(added, every[0][0].result.type).result
    for number, op in enumerate([use.op for use in every[0][1]]):
        kept, *left = [uses[number] for _, uses in every]
        gone, place = {key(x.term) for x in left}, kept.value.arg_number
        value = op.body.blocks[0].operations[len(op.body.blocks[0].operations) - 1].operands[0]
        needed = _reads(value, gone, {key(kept.term): place})
        with ir.InsertionPoint(op), op.location:
            views = {i: op.views[i] for i in needed}
            at = views[place].owner.opview
            views[place] = read(total, map_of(at.map), list(at.symbols))

            def body(
                given: list[Any],
                value: Any = value,
                needed: list[int] = needed,
                gone: set[Any] = gone,
                kept: Use = kept,
            ) -> Any:
                there = dict(zip(needed, given, strict=True))
                return _emit(value, there, gone, {key(kept.term): there[kept.value.arg_number]})

            made = build_map(list(views.values()), access(op), list(op.domains), op.result.type, body, like=op)
        op.result.replace_all_uses_with(made.result)
        op.operation.erase()


def _computed(contract: Any, use: Use, negated: bool) -> Any:
    """What is computed of a contraction before it is added to others, at its points, or the opposite of that."""
    if not (use.own or negated):
        return contract.result
    needed = _reads(use.term, set(), {})

    def body(given: list[Any]) -> Any:
        made = _emit(use.term, dict(zip(needed, given, strict=True)), set(), {})
        return arith.negf(made) if negated else made

    (where,), symbols = used([maps_of(contract.maps)[2]], contract.symbols)
    views = [use.op.views[i] for i in needed]
    return build_map(views, (where, symbols), list(use.op.domains), contract.result.type, body).result


def _reads(value: Any, gone: set[Any], taken: dict[Any, int]) -> list[int]:
    """The arguments of a body that a value is computed of, without what is `gone`; of what is `taken` the one given."""
    if key(value) in gone:
        return []
    if key(value) in taken:
        return [taken[key(value)]]
    if isinstance(value.owner, ir.Block):
        return [value.arg_number]
    return list(dict.fromkeys(i for x in value.owner.operands for i in _reads(x, gone, taken)))


def _emit(value: Any, given: dict[int, Any], gone: set[Any], made: dict[Any, Any]) -> Any:
    """Computes a value of a body at the insertion point, of `given` arguments; None of what is `gone`, which sums that
    it is a term of are without."""
    if key(value) in gone:
        return None
    if key(value) in made:
        return made[key(value)]
    if isinstance(value.owner, ir.Block):
        return given[value.arg_number]
    operands = [_emit(x, given, gone, made) for x in value.owner.operands]
    there = [x for x in operands if x is not None]
    if len(there) < len(operands):
        negated = value.owner.name == "arith.subf" and there and operands[0] is None
        made[key(value)] = arith.negf(there[0]) if negated else there[0] if there else None
        return made[key(value)]
    copy = value.owner.clone()
    for place, x in enumerate(operands):
        copy.operands[place] = x
    made[key(value)] = copy.results[0]
    return copy.results[0]
