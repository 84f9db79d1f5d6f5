"""Products of a consumer: slices of a stage, out of shared memory or of registers, and their promotion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalec.ir.mlir import ir
from scalec.ir.tile_types import shape_of
from scalec.passes.emit.factors import Factors, Fetched, Known
from scalec.passes.emit.handles import Handles
from scalec.passes.emit.operand_bodies import Held, Key
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.converted import (
    added_to_zeros,
    brings_zeros,
    elements_interleaved,
    in_registers,
    interleaves,
    made_smaller,
    slices_of,
    takes_adjacent,
)


@dataclass(frozen=True)
class Made:
    """Of which scales A's elements are made, what is known of these, and which one alone, of a row's, counts
    (`tile.converted`). Or what their bodies take: what is held of the tile, what belongs to the stage's elements of K,
    and how many of these there are, if not all (`tile.transformed`)."""

    scales: str = ""
    known: ir.Value | None = None
    only: int | None = None
    held: Held | None = None
    along_k: dict[Key, ir.Value] = field(default_factory=dict)
    inside: ir.Value | None = None


@dataclass(frozen=True)
class Block:
    """A K block of promoted sums: where they go, and what is known of it."""

    w: Work
    fetched: Fetched
    accumulator: ir.Value
    partial: ir.Value  # the sums that are promoted
    column0: ir.Value  # the tile's first column as scales of B count them
    following: ir.Value | None = None  # the K element of the next block, None where none follows
    seen: ir.Value | None = None  # what scales A has, where its elements are addends


@dataclass(frozen=True)
class Go:
    """One of a block's products: of a wave, of columns from one on, of a slice of so many of K."""

    wave: int
    column: int
    slice_: int
    slices: int

    def part(self, number: int, count: int) -> Go:
        """Of a part of its slice, of so many."""
        return Go(self.wave, self.column, self.slice_ * count + number, self.slices * count)


@dataclass
class Beneath:
    """Factors that were read under products of a block: those of its slice, by wave, and all of them."""

    factors: list[tuple[ir.Value | None, ir.Value | None]] = field(default_factory=list)
    known: Known = field(default_factory=dict)


class Multiplier(Factors):
    """What a consumer does with a stage that has come."""

    def mma(
        self,
        h: Handles,
        accumulator: ir.Value,
        cursor: ir.Value,
        a_wave: int,
        wave: int,
        accumulate: int,
        column: int = 0,
        slice_: int = 0,
        slices: int = 1,
        made: Made | None = None,
        by_turns: bool = False,
    ) -> None:
        if in_registers(self.schedule):
            each = slices_of(self.problem, self.schedule) // slices
            parts = [(slice_ * each + i, a_wave, wave) for i in range(each)]
            for _ in self.multiply_converted(h, accumulator, cursor, parts, each * slices, accumulate, column, made):
                pass
            return
        operands = [accumulator, h.tiles["A"], h.tiles["B"], cursor]
        which: dict[str, Any] = {"a_wave": a_wave, "wave": wave, "waves": self.waves, "column": column}
        which["by_turns"] = by_turns or None
        which |= {f"{x.label.lower()}_mn": True for x in self.sides if x.operand.mn_major}
        if slices > 1:
            which["slice"] = (slice_, slices)
        self.e.op("tile.mma", operands=operands, **which, accumulate=accumulate)

    def multiply_converted(
        self,
        h: Handles,
        accumulator: ir.Value,
        cursor: ir.Value,
        parts: list[tuple[int, int, int]],
        count: int,
        accumulate: int,
        column: int = 0,
        made: Made | None = None,
    ) -> Iterator[int]:
        """Products of slices of a stage, so many of which it is: each a slice, a wave of A and one of the accumulator.
        One is multiplied while the next is converted, into other registers, which nobody multiplies any more, and the
        one behind it loaded; a lone one's registers are those of the next stage's too. Yields the number of a product
        when at most that one is under way."""
        begun: set[int] = set()
        together = self.loaded_together(count)
        loaded: dict[tuple[int, int], ir.Value] = {}

        def load(slice_: int, wave: int) -> ir.Value:
            key = slice_ // together, wave
            if key not in loaded:
                loaded[key] = self.load_stored(h, cursor, *key, count // together)
            return loaded[key]

        for number, (slice_, a_wave, wave) in enumerate(parts):
            stored = load(slice_, a_wave)
            for after, other, _ in parts[number + 1 :][:1]:
                load(after, other)
            adds = int(accumulate or wave in begun)
            begun.add(wave)
            part = slice_ % together, together
            if made is not None and made.held is not None:
                a = self.transformed(stored, made, made.held, part, (slice_, count), a_wave)
            else:
                a = self.converted(stored, made, part)
            self.mma_converted(h, accumulator, cursor, a, wave, adds, column, (slice_, count))
            self.e.op("tile.mma_wait", operands=[accumulator], pending=min(1, len(parts) - 1))
            yield number

    def loaded_together(self, count: int) -> int:
        """Slices of a stage, so many of which it is, that a thread loads at once."""
        if not takes_adjacent(self.problem, self.schedule):
            return 1
        return max(1, elements_interleaved(self.sides[0].operand) * count // self.schedule.tile[2])

    def load_stored(self, h: Handles, cursor: ir.Value, slice_: int, wave: int, count: int) -> ir.Value:
        """A slice of a wave of A as it is stored, in registers."""
        side = self.sides[0]
        factors = [h.scale_tiles[side.label]] if side.operand.folded is not None else []
        stored, made = (ir.Type.parse(x.mlir) for x in (side.operand.stored, side.operand.element))
        kind = self.e.multiplicand("a", self.wave, self.schedule.tile[2] // count, stored)
        where: dict[str, Any] = {"a_wave": wave, "waves": self.waves, "number": slice_, "count": count}
        where |= {"words": side.operand.addends > 0, "interleaved": interleaves(self.problem, self.schedule)}
        where["fragments"] = side.operand.in_fragments
        where["in_words"] = side.operand.in_words
        operands = [h.tiles[side.label], cursor, factors, h.zeros.get(side.label)]
        made = ir.TypeAttr.get(made)
        return self.e.op("tile.load_stored", [kind], operands, made=made, **where).result

    def converted(self, loaded: ir.Value, of: Made | None = None, slice_: tuple[int, int] = (0, 1)) -> ir.Value:
        """A slice of it as it is multiplied."""
        of = of or Made()
        rows, depth = shape_of(loaded.type)
        depth //= slice_[1]
        made = self.e.multiplicand("a", rows, depth, ir.Type.parse(self.sides[0].operand.element.mlir))
        how: dict[str, Any] = {"scales": of.scales or None, "slice": slice_ if slice_[1] > 1 else None, "only": of.only}
        operand = self.sides[0].operand
        if brings_zeros(self.problem, self.schedule, operand):
            how["added"] = added_to_zeros(operand)
        elif operand.zeros is not None:
            how["less"] = operand.zeros.number
        how["smaller"] = made_smaller(self.problem, self.schedule, operand) > 0 or None
        return self.e.op("tile.converted", [made], [loaded, of.known], **how).result

    def transformed(
        self, loaded: ir.Value, of: Made, held: Held, part: tuple[int, int], slice_: tuple[int, int], wave: int
    ) -> ir.Value:
        """A slice of a wave as it is multiplied, of elements that bodies take: a part of what was loaded."""
        operand, (rows, depth) = self.sides[0].operand, shape_of(loaded.type)
        made = self.e.multiplicand("a", rows, depth // part[1], ir.Type.parse(operand.element.mlir))
        how: dict[str, Any] = {"slice": part if part[1] > 1 else None, "wave": wave}
        how["first"] = slice_[0] * self.schedule.tile[2] // slice_[1]
        within = [] if of.inside is None else [of.inside]
        return self.with_bodies("tile.transformed", [loaded, within], operand, held, of.along_k, (made,), **how).result

    def mma_converted(
        self,
        h: Handles,
        accumulator: ir.Value,
        cursor: ir.Value,
        a: ir.Value,
        wave: int,
        accumulate: int,
        column: int,
        slice_: tuple[int, int],
    ) -> None:
        some: dict[str, Any] = {"b_mn": self.sides[1].operand.mn_major, "slice": slice_ if slice_[1] > 1 else None}
        operands = [accumulator, a, h.tiles["B"], cursor]
        which: dict[str, Any] = {"wave": wave, "column": column, "accumulate": accumulate}
        self.e.op("tile.mma_converted", operands=operands, **which, **some)

    def go(self, h: Handles, cursor: ir.Value, block: Block, go: Go, made: Made | None = None) -> None:
        """One of a block's products."""
        self.mma(h, block.partial, cursor, go.wave, 0, 0, go.column, go.slice_, go.slices, made)

    def arrive(self, block: Block) -> None:
        """Waits for it."""
        self.e.op("tile.mma_wait", operands=[block.partial], pending=0)
        self.to_f32([block.partial])

    def promote(self, block: Block, go: Go, factors: tuple[ir.Value | None, ...], exponent: int = 0) -> None:
        """That, times a power of two."""
        power, operands = exponent or None, [block.accumulator, block.partial, *factors]
        self.e.op("tile.promote", operands=operands, wave=go.wave, column=go.column, exponent=power)

    def release(
        self,
        h: Handles,
        cursor: ir.Value,
        lag: int = 0,
        unless: ir.Value | None = None,
        a: Sequence[ir.Value] = (),
        b: Sequence[ir.Value] = (),
        sums: ir.Value | None = None,
    ) -> None:
        """`a`, `b`: registers that were loaded of the stage; `sums`: of what was."""
        self.e.op("tile.release", operands=[h.ring, cursor, unless, a, b, sums], lag=lag)
