"""Parts of K: their sums meet in memory, and are added in the order of the parts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common.state import COMMON, State
from scalec.meetings import ALONE, COUNTER_BYTES, FAN_IN, meetings, tile_counters

BARRIER = 8
"""Named barrier of all consumers: above those of the units (state.py), below those of warps that share blocks of a
result's scales (quantize.py), at most six; below 16 (PTX ISA 9.7.13.1)."""

VECTOR = 4
"""f32 that a thread moves at once: neighbouring threads then move neighbouring 16 bytes."""

AHEAD = 64
"""f32 of several parts that a thread loads together, at the most."""

FIELD = 7
"""Bits of each field of the counter of `tile.add_columns`: MAX_SPLIT is 64."""


@dataclass(frozen=True)
class Piece:
    """A fragment's sums in the workspace: piece `index` of as many as a tile's sums of a thread come in.

    Sums are moved in the order of registers: each thread finds in every part what the thread of its number stored.
    """

    s: State
    sums: list[Variable]
    split: int
    index: int
    pieces: int
    whole: bool

    @staticmethod
    def of(s: State, op: ir.OpView, index: int = 0, pieces: int = 1) -> Piece:
        sums = [v for wave in s.get(op.accumulator).waves for v in wave]
        return Piece(s, sums, tile.int_of(op.split), index, pieces, "whole" in op.operation.attributes)

    @property
    def part_bytes(self) -> int:
        """Of all pieces of a part."""
        return 4 * threads_of(self.s) * len(self.sums) * self.pieces

    @property
    def groups(self) -> list[tuple[int, list[Variable]]]:
        """(offset in bytes, sums) of each VECTOR."""
        first = self.index * 4 * threads_of(self.s) * len(self.sums)
        steps = range(0, len(self.sums), VECTOR)
        return [(first + 4 * threads_of(self.s) * i, self.sums[i : i + VECTOR]) for i in steps]

    def first(self, parts: ir.Value, number: ir.Value) -> ir.Value:
        """Address of this thread's sums in part 0 of a tile."""
        b = self.s.b
        thread = self.s.thread
        first = b.add(pointer_of(self.s, parts), b.mul(number, b.constant(self.split * self.part_bytes, b.i64)))
        return b.add(first, b.widen(b.mul(thread, 4 * VECTOR)))

    def columns(self, sums: list[Variable], waves: int) -> list[tuple[int, list[Variable]]]:
        """`groups` of the first columns of a fragment, whose sums are these: eight columns of a wave's rows are one
        VECTOR."""
        every, own = self.groups, len(sums) // waves
        steps = range(0, len(sums), VECTOR)
        at = [i // own * (len(every) // waves) + i % own // VECTOR for i in steps]
        return [(every[g][0], sums[i : i + VECTOR]) for g, i in zip(at, steps, strict=True)]

    def store(self, first: ir.Value, part: ir.Value) -> None:
        b = self.s.b
        mine = b.add(first, b.mul(b.widen(part), b.constant(self.part_bytes, b.i64)))
        for offset, group in self.groups:
            operands = [mine, *(v.get() for v in group)]
            b.asm(f"st.global.v4.f32 [$0 + {offset}], {{$1, $2, $3, $4}};", [], operands)

    def add_all(self, first: ir.Value, groups: list[tuple[int, list[Variable]]]) -> None:
        """The sums of all parts, in their order: so many at a time as AHEAD loads are, on their way together."""
        b, added = self.s.b, self.s.b.added(self.whole)
        rounds = -(-self.split * len(groups) * VECTOR // AHEAD)
        count = -(-self.split // rounds)
        if count == 1:
            self.add(first, groups=groups)
            return
        at, step = b.variable(b.i64, first), self.part_bytes
        for v in (v for _, group in groups for v in group):
            v.set(0.0)

        def add(count: int) -> None:
            address = at.get()
            loaded = []
            for part, (offset, group) in product(range(count), groups):
                text = f"ld.global.v4.f32 {{$0, $1, $2, $3}}, [$4 + {part * step + offset}];"
                loaded.append((group, b.asm(text, [b.f32] * VECTOR, [address])))
            for group, values in loaded:
                for v, x in zip(group, values, strict=True):
                    v.set(added(v.get(), x))
            at.set(b.add(address, b.constant(count * step, b.i64)))

        end = b.add(first, b.constant(self.split // count * count * step, b.i64))
        b.loop_once(lambda: add(count), lambda: b.compare("lt", at.get(), end))
        if self.split % count:
            add(self.split % count)

    def add(
        self,
        first: ir.Value,
        count: ir.Value | int | None = None,
        apart: int = 1,
        groups: list[tuple[int, list[Variable]]] | None = None,
        adds: bool = False,
    ) -> None:
        """The sums of `count` parts, or of all, each `apart` from the one before, in their order; `adds`: to what the
        registers have."""
        b, groups = self.s.b, self.groups if groups is None else groups
        added = b.added(self.whole)
        at = b.variable(b.i64, first)
        step, count = apart * self.part_bytes, self.split if count is None else count
        length = b.constant(count * step, b.i64) if isinstance(count, int) else b.mul(b.widen(count), step)
        end = b.add(first, length)
        for v in (v for _, group in groups for v in group if not adds):
            v.set(0.0)

        def add_part() -> None:
            address = at.get()
            for offset, group in groups:
                text = f"ld.global.v4.f32 {{$0, $1, $2, $3}}, [$4 + {offset}];"
                for v, x in zip(group, b.asm(text, [b.f32] * VECTOR, [address]), strict=True):
                    v.set(added(v.get(), x))
            at.set(b.add(address, b.constant(step, b.i64)))

        b.loop_once(add_part, lambda: b.compare("lt", at.get(), end))


@dataclass(frozen=True)
class Crew:
    """The threads that have a tile's sums: all consumers, or the warpgroup whose turn it is."""

    barrier: ir.Value | int  # the named barrier at which they alone meet
    threads: int  # how many they are
    thread: ir.Value  # this one's number among them

    @staticmethod
    def of(s: State) -> Crew:
        if s.geometry.turns == 1:
            return Crew(BARRIER, threads_of(s), s.thread)
        threads = 32 * s.geometry.warps
        own = s.once("own thread", lambda: s.b.and_(s.tid, threads - 1))
        return Crew(s.once("own barrier", lambda: s.b.add(s.turn, 1)), threads, own)  # as State.unit_barrier has it

    def meet(self, s: State) -> None:
        if isinstance(self.barrier, int):
            s.b.asm(f"bar.sync {self.barrier}, {self.threads};")
        else:
            s.b.asm(f"bar.sync $0, {self.threads};", [], [self.barrier])


def threads_of(s: State) -> int:
    """All consumers."""
    return 32 * s.geometry.warps * prod(s.geometry.units)


def pointer_of(s: State, source: ir.Value) -> ir.Value:
    return s.b.integer(s.get(source))


def count_arrivals(s: State, counters: ir.Value, number: ir.Value, split: ir.Value | int) -> ir.Value:
    """Whether this CTA's part, or tile, is the last to arrive of `split` that have counter `number`.

    What all consumers stored happens before the first thread's release, by the barrier between them, and its acquire
    before what they load, by the next one (PTX ISA 8.9: causality order). The increment wraps from split - 1 to 0, so
    that the last to arrive also readies the counter for the next launch.
    """
    b, crew = s.b, Crew.of(s)
    before = split - 1 if isinstance(split, int) else b.sub(split, 1)
    given = [] if isinstance(before, int) else [before]
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    crew.meet(s)
    arrived = b.variable(b.i32, 0)
    with b.when(b.compare("eq", crew.thread, 0)):
        counter = b.add(pointer_of(s, counters), b.mul(number, b.constant(COUNTER_BYTES, b.i64)))
        text = "atom.acq_rel.gpu.global.inc.u32 $0, [$1], " + (f"{before};" if isinstance(before, int) else "$2;")
        arrived.set(b.asm(text, [b.i32], [counter, *given])[0])
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    own = [] if isinstance(crew.barrier, int) else [crew.barrier]
    text = (
        f"{{\n.reg .pred P, Q;\nsetp.eq.u32 P, $1, {'$2' if given else before};\n"
        f"bar.red.or.pred Q, {f'${2 + len(given)}' if own else crew.barrier}, {crew.threads}, P;\n"
        "selp.b32 $0, 1, 0, Q;\n}"
    )
    return b.compare("ne", b.asm(text, [b.i32], [arrived.get(), *given, *own])[0], 0)


@COMMON.lowers("tile.sum_parts")
def sum_parts(s: State, op: ir.OpView) -> None:
    b, piece = s.b, Piece.of(s, op)
    number = b.widen(s.get(op.number))
    first = piece.first(op.parts, number)
    piece.store(first, s.get(op.part))
    if piece.split > ALONE:
        s.values[op.result] = _sum_by_steps(s, op, piece, first)
        return
    s.values[op.result] = last = count_arrivals(s, op.counters, number, piece.split)
    with b.when(last):
        piece.add_all(first, piece.groups)


def _sum_by_steps(s: State, op: ir.OpView, piece: Piece, first: ir.Value) -> ir.Value:
    """Whether this CTA has the sum of all parts, which meet FAN_IN at a time.

    Of those that meet the last to arrive adds all, in their order, and stores the sum in the place of the first, which
    nobody else reads any more: as the part that it is in the next step. So no order of arrival shows, and none waits.
    """
    b, left = s.b, meetings(piece.split)
    done = b.variable(b.i32, 0)
    counter = b.mul(b.widen(s.get(op.number)), b.constant(tile_counters(piece.split), b.i64))

    def meet(step: int, node: ir.Value, counter: ir.Value) -> None:
        """Step `step`, as number `node` of those that are left in it; their counters begin at `counter`."""
        count, apart = left[step], FAN_IN**step
        groups = -(-count // FAN_IN)
        group = b.shr(node, FAN_IN.bit_length() - 1)
        size: ir.Value | int = FAN_IN
        if count % FAN_IN:
            size = count if groups == 1 else b.min(b.sub(count, b.mul(group, FAN_IN)), FAN_IN)
        with b.when(count_arrivals(s, op.counters, b.add(counter, b.widen(group)), size)):
            begin = b.mul(group, FAN_IN * apart)
            at = b.add(first, b.mul(b.widen(begin), b.constant(piece.part_bytes, b.i64)))
            piece.add(at, size, apart)
            if groups == 1:
                done.set(1)
                return
            piece.store(at, b.constant(0))
            meet(step + 1, group, b.add(counter, b.constant(groups, b.i64)))

    meet(0, s.get(op.part), counter)
    return b.compare("ne", done.get(), 0)


@COMMON.lowers("tile.begin_part")
def begin_part(s: State, op: ir.OpView) -> None:
    b = s.b
    counter = b.add(pointer_of(s, op.counters), b.mul(b.widen(s.get(op.number)), b.constant(COUNTER_BYTES, b.i64)))
    with b.when(b.compare("eq", Crew.of(s).thread, 0)):
        b.asm("red.relaxed.gpu.global.add.u32 [$0], 1;", [], [counter])


@COMMON.lowers("tile.add_columns")
def add_columns(s: State, op: ir.OpView) -> None:
    """The tile's counter has four numbers of CTAs, of FIELD bits each: those that have begun, that have stored their
    sums, that wait, and that look at the counter no more, of which the last one clears it.

    Who waits has seen that all have begun, so all run, and none of them needs anything of who waits before its sums are
    stored. Whether all wait is in the number that all see at last, so that all share the columns, or none.
    """
    b, piece, crew, split = s.b, Piece.of(s, op), Crew.of(s), tile.int_of(op.split)
    number, part = b.widen(s.get(op.number)), s.get(op.part)
    counter = b.add(pointer_of(s, op.counters), b.mul(number, b.constant(COUNTER_BYTES, b.i64)))
    first = piece.first(op.parts, number)
    begun, stored, waits, left = (1 << i * FIELD for i in range(4))

    def of(word: ir.Value, field: int) -> ir.Value:
        return b.and_(b.shr(word, field.bit_length() - 1), (1 << FIELD) - 1)

    lead = b.compare("eq", crew.thread, 0)
    seen, shares, alone, gone = (b.variable(b.i32, 0) for _ in range(4))
    with b.when(lead):  # on its way while the sums are stored
        seen.set(b.asm("ld.relaxed.gpu.global.u32 $0, [$1];", [b.i32], [counter])[0])
    piece.store(first, part)
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    crew.meet(s)
    with b.when(lead):
        stays = b.compare("eq", of(seen.get(), begun), split)
        given = b.select(stays, b.constant(stored + waits), b.constant(stored + left))
        before = b.asm("atom.acq_rel.gpu.global.add.u32 $0, [$1], $2;", [b.i32], [counter, given])[0]
        word = b.variable(b.i32, b.add(before, given))
        b.loop(
            lambda: b.and_(stays, b.compare("ne", of(word.get(), stored), split)),
            lambda: word.set(b.asm("ld.acquire.gpu.global.u32 $0, [$1];", [b.i32], [counter])[0]),
        )
        every = b.compare("eq", of(word.get(), waits), split)
        shares.set(b.op("arith.extui", [b.i32], [every]))
        last = b.compare("eq", of(before, stored), split - 1)
        alone.set(b.op("arith.extui", [b.i32], [b.and_(last, b.compare("ne", of(word.get(), waits), split))]))
        gone.set(before)
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    all_share, one = _agreed(s, crew, shares.get()), _agreed(s, crew, alone.get())

    columns, fragment = tile.shape_of(op.columns.type)[1], s.get(op.columns)
    whole = tile.shape_of(op.accumulator.type)[1]
    sums = [v for wave in fragment.waves for v in wave]
    groups, count = piece.columns(sums, len(fragment.waves)), whole // columns
    own = part  # other units than the first take other columns, as there are often more parts than these
    if (units := s.geometry.units[0]) > 1:
        own = b.op("arith.remui", [b.i32], [b.add(part, b.mul(s.unit(0), split // units)), b.constant(split)])
    at = b.variable(b.i32, b.select(all_share, own, b.select(one, b.constant(0), b.constant(count))))
    step = b.select(all_share, b.constant(split), b.constant(1))
    block = op.body.blocks[0]

    def add() -> None:
        behind = b.mul(b.widen(at.get()), b.constant(columns // 8 * 4 * VECTOR * threads_of(s), b.i64))
        piece.add_all(b.add(first, behind), groups)
        s.values[block.arguments[0]] = b.mul(at.get(), columns)
        s.table.block(s, block)
        at.set(b.add(at.get(), step))

    b.loop(lambda: b.compare("lt", at.get(), count), add)
    with b.when(lead):  # behind all that its warp would wait for
        with b.when(b.compare("eq", of(seen.get(), begun), split)):
            gone.set(b.asm(f"atom.relaxed.gpu.global.add.u32 $0, [$1], {left};", [b.i32], [counter])[0])
        with b.when(b.compare("eq", of(gone.get(), left), split - 1)):
            b.asm("st.relaxed.gpu.global.u32 [$0], 0;", [], [counter])


def _agreed(s: State, crew: Crew, value: ir.Value) -> ir.Value:
    """Whether a thread of the crew has a number that is not 0."""
    b, own = s.b, [] if isinstance(crew.barrier, int) else [crew.barrier]
    text = (
        "{\n.reg .pred P, Q;\nsetp.ne.u32 P, $1, 0;\n"
        f"bar.red.or.pred Q, {'$2' if own else crew.barrier}, {crew.threads}, P;\nselp.b32 $0, 1, 0, Q;\n}}"
    )
    return b.compare("ne", b.asm(text, [b.i32], [value, *own])[0], 0)


@COMMON.lowers("tile.store_part")
def store_part(s: State, op: ir.OpView) -> None:
    piece = Piece.of(s, op, tile.int_of(op.piece), tile.int_of(op.pieces))
    piece.store(piece.first(op.parts, s.b.widen(s.get(op.number))), s.get(op.part))


@COMMON.lowers("tile.last_part")
def last_part(s: State, op: ir.OpView) -> None:
    s.values[op.result] = count_arrivals(s, op.counters, s.b.widen(s.get(op.number)), tile.int_of(op.split))


@COMMON.lowers("tile.add_parts")
def add_parts(s: State, op: ir.OpView) -> None:
    b, piece, more = s.b, Piece.of(s, op, tile.int_of(op.piece), tile.int_of(op.pieces)), op.operation.attributes
    low, high = tile.ints_of(more["some"]) if "some" in more else (0, piece.split)
    first = piece.first(op.parts, b.widen(s.get(op.number)))
    if low:
        first = b.add(first, b.constant(low * piece.part_bytes, b.i64))
    piece.add(first, high - low, adds="adds" in more)
