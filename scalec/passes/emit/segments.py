"""Parts of a tile's K that are summed by themselves: something is computed of one product before others are added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from scalec.ir.mlir import arith, ir
from scalec.passes.emit.reductions import Reductions
from scalec.passes.emit.tensors import Work
from scalec.passes.plan.parts import segments, sharers, stored_parts
from scalec.passes.problem.products import in_order

FEW = 8
"""K blocks whose loop ptxas may walk without one."""


class Segments(Reductions):
    """Sums each segment of a tile's K (`Problem.segments`), and takes it into the tile's sums."""

    second: ir.Value | None = None

    @property
    def whole(self) -> bool:
        """Whether a tile's sums are i32 until all of K is in them."""
        return self.problem.family.whole_sums and not self.schedule.promote

    def to_f32(self, sums: Sequence[ir.Value]) -> None:
        """Behind the last product: sums of whole numbers are rounded once."""
        for each in sums if self.problem.family.whole_sums else ():
            self.e.op("tile.to_f32", operands=[each])

    def segments(self, w: Work) -> list[Work]:
        """The work of each. No product is over nothing, as its K would be walked as one zero."""
        p, e = self.problem, self.e
        if p.segments == 1:
            return [w]
        if self.segments_meet:
            return [self.of_blocks(w, blocks) for blocks in segments(p, self.schedule)]
        first = [self.length_of(p.products[x]) for x in in_order(p)[: p.segments - 1]]
        made, k0, left = [], None, w.k
        for length in first:
            made.append(replace(w, k=length, k0=k0))
            left = e.arith("arith.subi", left, length)
            k0 = length if k0 is None else e.arith("arith.addi", k0, length)
        return [*made, replace(w, k=left, k0=k0)]

    @property
    def segments_meet(self) -> bool:
        """Whether each segment's sums are those of several parts of K, which meet before anything is computed."""
        return self.schedule.split > 1 and bool(self.problem.terms)

    def of_blocks(self, w: Work, blocks: range) -> Work:
        """What a part of K has of these K blocks of a tile: maybe nothing."""
        e, depth = self.e, self.schedule.tile[2]
        assert w.k0 is not None
        first = e.arith("arith.maxui", w.k0, e.i32(blocks.start * depth))
        end = e.arith("arith.minui", e.arith("arith.addi", w.k0, w.k), e.i32(blocks.stop * depth))
        return replace(w, k=e.arith("arith.subi", e.arith("arith.maxui", first, end), first), k0=first)

    @contextmanager
    def if_there(self, part: Work) -> Iterator[None]:
        """What is done for a segment of which a part of K may have nothing."""
        e = self.e
        with e.region("tile.when", [e.compare("lt", e.i32(0), part.k)]) if self.segments_meet else nullcontext():
            yield

    def summing(self, w: Work, accumulator: ir.Value) -> Iterator[tuple[int, Work, ir.Value]]:
        """(its number, its work, where its sums go) of each segment, which is summed meanwhile."""
        for number, part in enumerate(self.segments(w)):
            with self.if_there(part):
                sums = self.into(number, accumulator)
                yield number, part, sums
                if self.segments_meet:
                    self.store_segment(number, sums, w)
                else:
                    self.summed(number, sums, accumulator, w)

    def second_accumulator(self, kind: ir.Type) -> None:
        """Registers for sums of which something is computed before they are added to others."""
        self.second = self.e.op("tile.fragment", [kind]).result if len(self.problem.terms) > 1 else None

    def clear(self, sums: ir.Value) -> None:
        """Sums of nothing yet; where they are promoted, several products have the same registers by turns. A loop of
        many K blocks has no first one that ptxas could know."""
        depth, s = self.problem.depth, self.schedule
        few = depth is not None and depth <= FEW * s.tile[2]
        by_turns: dict[str, Any] = {"apart": s.mma_n or s.tile[1]} if s.promote and few else {}
        self.e.op("tile.clear", operands=[sums], **by_turns)

    def into(self, number: int, accumulator: ir.Value) -> ir.Value:
        """Where the sums of a segment of K lie, which has 0 there."""
        if self.segments_meet:
            self.clear(accumulator)
            return accumulator
        sums = self.apart(number, accumulator)
        if sums is not accumulator:
            self.clear(sums)
        return sums

    def apart(self, number: int, accumulator: ir.Value) -> ir.Value:
        """Where a segment's sums are when something is computed of them: not where those before it are."""
        return self.second if self.second is not None and 0 < number < len(self.problem.terms) else accumulator

    def summed(self, number: int, sums: ir.Value, accumulator: ir.Value, w: Work) -> None:
        """Behind a segment of K: something is computed of its `sums`, and they are added to those of others."""
        if number < len(self.problem.terms):
            self.compute_term(number, sums, w)
        if sums is not accumulator:
            read = self.e.op("tile.input_sums", [self.e.type("operand")], [sums]).result
            operands = [accumulator, w.m0, w.n0, w.m_end, w.n_end, read]
            with self.e.region("tile.epilogue", operands, (ir.F32Type.get(),) * 2) as block:
                self.e.op("tile.yield", operands=[arith.addf(*block.arguments)])

    def store_segment(self, number: int, sums: ir.Value, w: Work, piece: int = 0, pieces: int = 1) -> None:
        """A piece of a part's sums of a segment goes to memory."""
        part = self.e.arith("arith.addi", w.part, self.e.i32(number)) if number else w.part
        operands, split = [sums, self.workspace()[0], part, w.number], stored_parts(self.problem, self.schedule)
        self.e.op("tile.store_part", operands=operands, split=split, piece=piece, pieces=pieces)

    def add_segment(
        self, number: int, sums: ir.Value, w: Work, piece: int = 0, pieces: int = 1, adds: bool = False
    ) -> None:
        """That of all parts comes from there; `adds`: to what the accumulator has."""
        own, split = sharers(self.problem, self.schedule)[number], stored_parts(self.problem, self.schedule)
        some = (own.start + number, own.stop + number) if self.segments_meet else None
        operands, how = [sums, self.workspace()[0], w.number], {"adds": adds, "some": some, "whole": self.whole}
        self.e.op("tile.add_parts", operands=operands, split=split, piece=piece, pieces=pieces, **how)

    def add_segments(self, accumulator: ir.Value, w: Work) -> None:
        """The sums of all parts of a tile, of one segment after the other."""
        for number in range(self.problem.segments):
            sums = self.apart(number, accumulator)
            self.add_segment(number, sums, w, adds=number > 0 and sums is accumulator)
            self.summed(number, sums, accumulator, w)
