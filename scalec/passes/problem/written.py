"""What a program writes: its results, in which order their indices are, and which leave gaps or lie apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, ElementType, element_spelled
from scalec.ir.location import place_of
from scalec.ir.mlir import ir
from scalec.ir.scale import dims_in, element, map_of, maps_of
from scalec.passes.problem.access import Gaps
from scalec.passes.problem.contraction import contractions
from scalec.passes.problem.gaps import dimension_of, gaps_of
from scalec.passes.problem.lookups import Lookups
from scalec.passes.problem.reduced import MEET, in_a_tile, reduce_of
from scalec.passes.problem.result import Result
from scalec.passes.problem.scatter import before_scatter, distance_of, order_of
from scalec.passes.problem.sources import before_transform, computed_of, is_op, of_inputs, reduction_of
from scalec.targets import Target


def element_of(value: Any, name: str) -> ElementType:
    """The row of a value's element type.

    Raises:
        UnsupportedError: an MLIR type that the language has no name for.
    """
    spelled = str(element(value.type))
    row = element_spelled(spelled)
    if row is not None:
        return row
    raise UnsupportedError(
        f"{name} has element type {spelled}",
        expected=", ".join(ELEMENT_TYPES),
        fix=f"convert {name} to one of these",
        place=place_of(value),
    )


@dataclass(frozen=True)
class Written:
    """A result of the function."""

    name: str  # what the user calls it
    index: int  # position among the function's results; its scales, if it has any, follow it
    value: Any  # what is returned; `final`: what it is rounded from
    final: Any
    quantize: Any  # the op that does so block by block, None where none does
    scatter: Any = None  # the op that writes what is computed where indices out of memory say, None where none does
    rounds: Any = None  # the op that rounds the values, `quantize` or another; None where the map does
    # the op that takes the value over an index of the contraction, where tiles meet for it; else None.
    reduce: Any = None
    transformed: bool = False  # whether what is computed is transformed before that


class WrittenReader(Lookups):
    """The walk over one function, what it returns; each method refuses what it cannot represent."""

    target: Target

    def written(self) -> list[Written]:
        """The results of the contraction, in order."""
        returned, found, index = self.returned, [], 0
        while index < len(returned):
            value = returned[index]
            self.check_alone(value)
            if index in self.folded():
                index += 1
                continue
            last = None if isinstance(value.owner, ir.Block) else value.owner.opview
            facts = self.facts("res_attrs", index)
            otherwise = ir.StringAttr(self.function.attributes["sym_name"]).value if not index else f"result {index}"
            quantize = last if last is not None and last.operation.name == "scale.quantize" else None
            count = 1
            if quantize is not None and returned[index : index + 2] == list(quantize.operation.results):
                count = 2
            rounds = quantize or (value.owner.opview if is_op(value, "scale.round") else None)
            final, scatter = before_scatter(value if rounds is None else rounds.input)
            final, transformed = before_transform(final)
            self.check_alone(final)
            name = self.name(facts, otherwise)
            found.append(Written(name, index, value, final, quantize, scatter, rounds, transformed=transformed))
            index += count
        if MEET not in self.function.attributes and in_a_tile(
            [x.final for x in found], self.target, self.product_ranges()
        ):
            return found
        return [replace(x, reduce=reduce_of(x.final)) for x in found]

    def check_alone(self, final: Any) -> None:
        """Refuses what is computed of a contraction and of a reduction of arguments."""
        op = reduction_of(final)
        read = computed_of(final.owner.opview) if op is not None and of_inputs(op) else []
        if any(not isinstance(x.owner, ir.Block) and not is_op(x, "scale.reduce") for x in read):
            raise UnsupportedError(
                "a result is computed of the contraction and of a reduction beside it",
                expected="one of the two: the reduction is known when all that it is of has passed by",
                fix="return both, and compute the rest in a program of its own",
                place=place_of(final),
            )

    def product_ranges(self) -> set[Any]:
        """The ranges of products over dimensions that their points have."""
        every = [(d, dims_in(maps_of(x.maps)[2])) for x in contractions(self.function) for d in x.domains]
        return {ir.Value(d) for d, where in every if self.dims.index(ir.StringAttr(d.owner.opview.dim).value) in where}

    def folded(self) -> dict[int, Any]:
        """The results that are computed of a reduction of arguments, by their positions."""
        found = {i: reduction_of(value) for i, value in enumerate(self.returned)}
        return {i: self.returned[i] for i, op in found.items() if op is not None and of_inputs(op)}

    def result_order(self, contract: Any) -> list[str]:
        """The indices of the results in memory, outermost first; of those computed around gaps the dimension. Of
        several orders the first of a result whose rows have to lie side by side, else of one that is scattered.

        Raises:
            UnsupportedError: another one is computed, or the results have not the same ones.
        """
        written = [x for x in self.written() if x.reduce is None]
        if not self.written():
            raise UnsupportedError("the program has no result", expected="one or more", place=place_of(contract))
        if not written:
            return self.results_of(maps_of(contract.maps)[2])
        orders = [self.indices_of(x, contract)[0] for x in written]
        for x, order in zip(written, orders, strict=True):
            if sorted(order) != sorted(orders[0]):
                first, other = f"{written[0].name}[{', '.join(orders[0])}]", f"{x.name}[{', '.join(order)}]"
                raise UnsupportedError(
                    f"{first} and {other} are results of one contraction, with different indices",
                    expected=f"{x.name}[{', '.join(orders[0])}]: the same indices",
                    fix=f"give {x.name} a program of its own",
                    place=place_of(x.value),
                )
        every = list(zip(written, orders, strict=True))
        needed, wanted = ([o for x, o in every if asks(x)] for asks in (self.by_rows, lambda x: x.scatter is not None))
        return [*needed, *wanted, *orders][0]

    @staticmethod
    def by_rows(x: Written) -> bool:
        """Whether a result is written by several elements of a row at once."""
        several = x.quantize is not None or x.rounds is not None or x.transformed
        return several or element_of(x.value, x.name).bits < 8

    def tile_order(self, contract: Any, roles: dict[str, list[str]]) -> list[str]:
        """The indices of the results, of which the last is one of a tile: batches that lie side by side go first."""
        order = self.result_order(contract)
        tiled = [i for i, x in enumerate(order, 1) if x in (*roles["m"], *roles["n"])]
        return [*order[tiled[-1] :], *order[: tiled[-1]]] if tiled else order

    def indices_of(self, result: Written, contract: Any) -> tuple[list[str], Gaps | None]:
        """The indices of one result, and the gaps along the last one."""
        final, where, op = result.final, maps_of(contract.maps)[2], result.scatter
        if not isinstance(final.owner, ir.Block) and final.owner.name == "scale.map":
            where = map_of(final.owner.opview.map)
        if op is not None and list(maps_of(op.maps)[0].results) == list(where.results) and distance_of(op) is None:
            return order_of(self, op, result.name)
        order, name = self.results_of(where), result.name
        *others, last = where.results
        if all(isinstance(e, ir.AffineDimExpr) for e in where.results):
            return order, None
        dim, gaps = dimension_of(last, len(self.dims)), gaps_of(last)
        if all(isinstance(e, ir.AffineDimExpr) for e in others) and dim is not None and gaps is not None:
            return [*order[:-1], self.dims[dim]], gaps
        names = self.results_of(maps_of(contract.maps)[2])
        plain = ", ".join(names)
        raise UnsupportedError(
            f"{name}[{', '.join(order)}] has a computed index",
            expected=f"{name}[{plain}], or its last index x written as x + size*((x + phase)/every), with numbers for "
            "these: gaps of one size, equally far apart",
            fix=f"write {name}[{plain}], and move it to its places after the call",
            place=place_of(final),
        )

    def check_gaps(self, result: Result, place: Any) -> None:
        """Refuses a result that is not written around gaps: they would tear bytes, or blocks that share a scale."""
        name, at, bits, gaps = result.name, ", ".join(x.dim for x in result.coords), result.element.bits, result.gaps
        assert gaps is not None
        if bits < 8 and (bits != 4 or any(x % 2 for x in gaps.numbers)):
            raise UnsupportedError(
                f"{name} is {result.element.name}, and its index is computed: it is written around gaps",
                expected="whole bytes" + ": gaps of an even size that begin at an even index" * (bits == 4),
                fix=f"write {name}[{at}], and move it after the call",
                place=place,
            )

    def check_blocks(self, result: Result, block: int, place: Any) -> None:
        """Refuses gaps that tear blocks of a result that share a scale."""
        gaps, dim = result.gaps, result.dims[1]
        if gaps is None or not any(x % block for x in gaps.numbers):
            return
        first = gaps.every - gaps.phase % gaps.every
        raise UnsupportedError(
            f"{result.name} is quantised in blocks of {block} along {dim}, and its gaps tear some",
            got=f"gaps of {gaps.size} every {gaps.every} of {dim}, {first} in front of the first",
            expected=f"multiples of {block}: {block} adjacent elements of a row of {result.name} then share a scale",
            fix=f"say smaller blocks, or give {result.name} f32, bf16 or f16 and quantise it after the call",
            place=place,
        )

    def check_strided(self, result: Result, written: Written, place: Any) -> None:
        """Refuses a result whose rows do not lie side by side, and that is not written element by element."""
        name, order = result.name, [x.dim for x in result.coords]
        wanted = ", ".join([*(x for x in order if x != result.dims[1]), result.dims[1]])
        fix = f"write {name}[{wanted}], and transpose it after the call"
        if self.by_rows(written) and result.lookup_of(result.dims[1]) == order[-1]:
            several = (
                "quantised, rounded by chance or transformed" if result.element.bits >= 8 else "of less than a byte"
            )
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] is {several}, and each {result.dims[1]} goes where {order[-1]} says",
                expected="columns of whole bytes, each stored alone: adjacent ones do not stay together",
                fix=f"write {name}[{', '.join([*order[:-1], result.dims[1]])}], and move its columns after the call, "
                "or give it bf16 or f16",
                place=place,
            )
        if self.by_rows(written):
            raise UnsupportedError(
                f"{name}[{', '.join(order)}] is contiguous along {order[-1]}, and is quantised, rounded by chance, "
                f"transformed, or of less than a byte, along {result.dims[1]}",
                expected=f"{result.dims[1]} last",
                fix=fix,
                place=place,
            )
