"""One warp finds what there is to do and posts it, item by item; the other roles take items in their order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_checks import maker
from scalec.ir.tile_control import run_of
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.control import WAIT
from scalec.lowering.common.launch import alone
from scalec.lowering.common.state import COMMON, Cursor, State
from scalec.lowering.common.walk import RUNS, Walk, divided, point_of

END = 0xFFFFFFFF
"""The first word of an item behind the last one: no row or column begins there."""

WARP_LANES = 32

COUNTED = 8
"""Groups of a lane whose tiles are counted together, before any is dealt out: it waits for memory once for all."""

OF_RUN = 1
"""Tiles' time that a run of tiles takes beside its own, as a cluster's share of all counts it: until what is read for
each column is there, and the first product."""

_SHUFFLE = {kind: f"#nvvm<shfl_kind {kind}>" for kind in ("idx", "up")}


@dataclass(frozen=True)
class Items:
    """A ring of items: the shared address of the first, and the words of one."""

    first: ir.Value | int
    words: int

    def at(self, s: State, c: Cursor) -> ir.Value:
        return s.b.add(self.first, s.b.mul(c.stage.get(), 4 * self.words))

    @property
    def vectors(self) -> list[range]:
        """Words that one instruction moves."""
        return [range(i, i + tile.ITEM_ALIGN // 4) for i in range(0, self.words, tile.ITEM_ALIGN // 4)]


@COMMON.lowers("tile.items")
def items(s: State, op: ir.OpView) -> None:
    s.values[op.result] = Items(s.b.add(s.shared, tile.int_of(op.offset)), tile.int_of(op.result.type.words))


def _vector(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}"


@COMMON.lowers("tile.post")
def post(s: State, op: ir.OpView) -> None:
    """One lane stores and arrives: an arrive releases its own thread's stores (PTX ISA 9.7.13.15.13). As there are 2^n
    slots, bits of what follows a slot are the next one, and whether that is the first."""
    b, c, ring, slots = s.b, s.get(op.cursor), s.get(op.ring), s.get(op.items)
    offset = b.shl(c.stage.get(), 3)
    b.asm(WAIT, [], [b.add(ring.empty, offset), b.xor(c.phase.get(), 1)])
    values = [s.get(v) for v in op.values] or [END] * slots.words
    address = slots.at(s, c)

    def put() -> None:
        for words in slots.vectors:
            names = [f"${1 + i}" for i in range(len(words))]
            operands = [b.add(address, 4 * words[0]), *(values[i] for i in words)]
            b.asm(f"st.shared.v{len(words)}.b32 [$0], {_vector(names)};", [], operands)
        b.asm("mbarrier.arrive.shared::cta.b64 _, [$0];", [], [b.add(ring.full, offset)])

    if alone(op):
        put()
    else:
        with b.when(b.compare("eq", s.lane, 0)):
            put()
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    following = b.add(c.stage.get(), 1)
    c.phase.set(b.xor(c.phase.get(), b.shr(following, c.depth.bit_length() - 1)))
    c.stage.set(b.and_(following, c.depth - 1))


@COMMON.lowers("tile.work")
def work(s: State, op: ir.OpView) -> None:
    b, c, ring, slots, one = s.b, s.get(op.cursor), s.get(op.ring), s.get(op.items), alone(op)
    block = op.body.blocks[0]
    taken = [b.variable(b.i32, END) for _ in range(slots.words)]
    arguments, told = list(block.arguments), tile.optional(op, "runs", ())
    runs = b.variable(b.i32, 0) if told else None
    apart = [i for i in told if any(True for _ in arguments[i].uses)]

    ahead = (x for x in block.operations if x.operation.name == "tile.read_ahead")
    keeps = any(
        made is not None and tile.str_of(made.kind) == "col" for made in (maker(x.input, "tile.input") for x in ahead)
    )
    within = any(x.operation.name == "tile.next_item" for x in block.operations)

    def here(value: ir.Value) -> ir.Value:
        """LLVM would put what only the next item needs where this one ends."""
        return b.asm("", [b.i32], [value], tied=1, memory=False)[0] if within else value

    def count(now: list[ir.Value]) -> None:
        """Another run, where a word is another that tells runs apart; those alone that something here depends on."""
        if runs is not None and apart:
            differ = [b.compare("ne", taken[i].get(), now[i]) for i in apart]
            runs.set(here(b.add(runs.get(), b.select(reduce(b.or_, differ), b.constant(1), 0))))

    def take() -> None:
        now: list[ir.Value] = []
        offset, address = b.shl(c.stage.get(), 3), slots.at(s, c)
        b.asm(WAIT, [], [b.add(ring.full, offset), c.phase.get()])
        for words in slots.vectors:
            names = [f"${i}" for i in range(len(words))]
            text = f"ld.shared.v{len(words)}.b32 {_vector(names)}, [${len(words)}];"
            found = b.asm(text, [b.i32] * len(words), [b.add(address, 4 * words[0])])
            for value in found:
                # the same in all lanes, and known to be so: the loop over items stays uniform
                now.append(value if one else shuffled(b, value, 0))
        count(now)
        for variable, value in zip(taken, now, strict=True):
            variable.set(value)
        barrier, first = b.add(ring.empty, offset), None
        if not one:  # behind the reads of all lanes, which have shuffled what they read
            b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
            first = b.compare("eq", s.lane, 0)
        b.asm("mbarrier.arrive.shared::cta.b64 _, [$0];", [], [barrier], only=first)
        following = b.add(c.stage.get(), 1)
        wraps = b.compare("eq", following, c.depth)
        c.phase.set(here(b.xor(c.phase.get(), b.select(wraps, b.constant(1), 0))))
        c.stage.set(here(b.select(wraps, b.constant(0), following)))

    def body() -> None:
        for argument, word in zip(arguments, taken, strict=True):
            s.values[argument] = word.get()
        around, s.dealt, s.run = s.dealt, True, None if runs is None else runs.get()
        s.of_run = {s.values[x] for x in arguments[1:]} if keeps else set()
        s.takes = take
        s.table.block(s, block)
        s.dealt, s.run, s.takes = around, None, None
        if not within:
            take()

    take()
    b.loop(lambda: b.compare("ne", taken[0].get(), END), body)


@COMMON.lowers("tile.next_item")
def next_item(s: State, op: ir.OpView) -> None:
    assert s.takes is not None
    s.takes()


@COMMON.lowers("tile.own_row")
def own_row(s: State, op: ir.OpView) -> None:
    rows = len(s.get(op.accumulator).waves) * s.geometry.wave
    s.values[op.result] = s.b.mul(s.unit(0), rows)


def shuffled(b: Builder, value: ir.Value, lane: ir.Value | int) -> ir.Value:
    """What `lane` has, in all lanes."""
    kind = ir.Attribute.parse(_SHUFFLE["idx"])
    return b.op("nvvm.shfl.sync", [b.i32], [b.constant(-1), value, b.value(lane), b.constant(31)], kind=kind)


@COMMON.lowers("tile.load_index")
def load_index(s: State, op: ir.OpView) -> None:
    b, at = s.b, s.b.constant(0, s.b.i64)
    for index, stride in zip(op.at, op.strides, strict=True):
        at = b.add(at, b.mul(b.widen(s.get(index)), s.get(stride)))
    address = b.integer(b.offset(s.get(op.source), at, b.i32))
    s.values[op.result] = b.asm("ld.global.b32 $0, [$1];", [b.i32], [address])[0]


AT_ONCE = 8
"""Blocks of a run that are looked at together: loads that wait for memory, or L1, at the same time."""


@COMMON.lowers("tile.run")
def run(s: State, op: ir.OpView) -> None:
    """Each lane's own run; lanes go on until the last one has come to its end, so that the warp stays together."""
    b, at, blocks = s.b, s.b.value(s.get(op.at)), s.b.value(s.get(op.blocks))

    def values(number: ir.Value) -> list[ir.Value]:
        s.values[op.values.blocks[0].arguments[0]] = number
        *ops, last = list(op.values.blocks[0].operations)
        for inner in ops:
            s.table.one(s, inner)
        return [s.get(x) for x in last.values]

    own = values(at)

    def same(number: ir.Value) -> ir.Value:
        equal = [b.compare("eq", x, y) for x, y in zip(own, values(number), strict=True)]
        return reduce(b.and_, equal)

    one, zero = b.constant(1), b.constant(0)
    first = b.compare("eq", at, 0)
    within = b.and_(same(b.select(first, zero, b.sub(at, 1))), b.compare("ne", at, 0))
    behind = b.variable(b.i32, b.add(at, 1))
    goes = b.variable(b.i32, b.select(within, zero, one))

    def further() -> None:
        count, going = zero, goes.get()
        for i in range(AT_ONCE):
            number = b.add(behind.get(), i)
            there = b.compare("lt", number, blocks)
            alike = b.and_(there, same(b.select(there, number, at)))
            going = b.select(alike, going, zero)
            count = b.add(count, going)
        behind.set(b.add(behind.get(), count))
        goes.set(going)

    b.loop(lambda: b.compare("ne", ballot(b, b.compare("ne", goes.get(), 0)), 0), further)
    s.values[op.begins] = b.compare("eq", b.select(within, one, zero), 0)
    s.values[op.behind] = behind.get()


def ballot(b: Builder, value: ir.Value) -> ir.Value:
    """Of which lanes a value holds, a bit each."""
    text = "{\n.reg .pred P1;\nsetp.ne.b32 P1, $1, 0;\nvote.sync.ballot.b32 $0, P1, 0xFFFFFFFF;\n}"
    return b.asm(text, [b.i32], [b.select(value, b.constant(1), 0)])[0]


@dataclass(frozen=True)
class Range:
    """Of a group of each lane: its range, its tiles, and those of all that are looked at together up to it; inverses of
    its walk that are its own."""

    low: Variable
    high: Variable
    own: Variable
    until: Variable
    inverses: list[Variable]

    @property
    def words(self) -> list[ir.Value]:
        return [x.get() for x in (self.low, self.high, self.own, self.until, *self.inverses)]


@COMMON.lowers("tile.clamp")
def clamp(s: State, op: ir.OpView) -> None:
    s.values[op.result] = _clamped(s.b, *(s.get(x) for x in (op.value, op.low, op.high)))


def _clamped(b: Builder, value: ir.Value, low: ir.Value | int, high: ir.Value | int) -> ir.Value:
    return b.pure("max.s32 $0, $1, $2;", b.i32, b.pure("min.s32 $0, $1, $2;", b.i32, value, high), low)


def added_up(s: State, value: ir.Value) -> ir.Value:
    """What the lanes up to this one have together."""
    b, kind = s.b, ir.Attribute.parse(_SHUFFLE["up"])
    for step in (1, 2, 4, 8, 16):
        below = b.op("nvvm.shfl.sync", [b.i32], [b.constant(-1), value, b.constant(step), b.constant(0)], kind=kind)
        value = b.add(value, b.select(b.compare("ge", s.lane, step), below, 0))
    return value


@COMMON.lowers("tile.ragged_tiles")
def ragged_tiles(s: State, op: ir.OpView) -> None:
    """Lanes have a group each, or each so-many-th of several: a prefix sum of their tiles says which one the cluster's
    next tile is in."""
    b, walk, axis = s.b, Walk.of(s, op), "mn".index(tile.str_of(op.axis))
    groups, sizes, block = s.get(op.groups), [s.get(x) for x in op.outer], op.body.blocks[0]
    most = run_of(op)
    extent, along = s.get((op.m, op.n)[axis]), walk.tile[axis] * walk.cluster[axis]
    clusters = b.div(b.special("nctaid_x"), s.cluster_ctas)
    shared, own = walk.hastened(s).inverses, walk.changing(axis)
    first, run = b.div(b.special("ctaid_x"), s.cluster_ctas), None
    whole, empty = "whole" in op.operation.attributes, tile.optional(op, "empty", 0)
    if most > 1 and not whole:  # fewer where clusters would not have RUNS of them, if all ranges were whole
        each = b.mul(b.mul(groups, b.ceildiv(extent, along)), walk.blocks[1 - axis])
        for size in sizes:
            each = b.mul(each, size)
        run = b.op("arith.maxui", [b.i32], [b.min(b.div(each, b.mul(clusters, RUNS)), most), b.constant(1)])
        first = b.mul(first, run)
    unit, chunk, before = (b.variable(b.i32, x) for x in (first, 0, 0))
    left = None if run is None else b.variable(b.i32, run)

    def unknown(count: int) -> list[Variable]:
        return [b.variable(b.i32, 0) for _ in range(count)]

    every = [Range(*unknown(4), inverses=unknown(len(own))) for _ in range(tile.int_of(op.each))]

    def of_group(length: ir.Value | int) -> tuple[Walk, ir.Value | int]:
        """The tiles of a group of `length` rows or columns: their order at one point of `outer`, and at how many."""
        blocks = list(walk.blocks)
        tiles = b.ceildiv(length, along)
        tiles = b.max(tiles, 1) if empty else tiles
        blocks[axis] = b.add(tiles, b.min(tiles, OF_RUN)) if whole else tiles
        return replace(walk, blocks=(blocks[0], blocks[1])), b.mul(*blocks)

    def read(group: ir.Value) -> tuple[ir.Value, ir.Value]:
        s.values[op.bounds.blocks[0].arguments[0]] = b.min(group, b.sub(groups, 1))
        *ops, last = list(op.bounds.blocks[0].operations)
        for inner in ops:
            s.table.one(s, inner)
        return b.value(s.get(last.low)), b.value(s.get(last.high))

    def counted(ends: tuple[ir.Value, ir.Value]) -> tuple[ir.Value, ir.Value, Walk, ir.Value]:
        """A group's range, within what there is, its walk, and how many tiles it has, if it is one."""
        low = _clamped(b, ends[0], 0, extent)
        high = _clamped(b, ends[1], low, extent)
        order, count = of_group(b.sub(high, low))
        for size in sizes:
            count = b.mul(count, size)
        return low, high, order, count

    def share() -> ir.Value:
        """Begins with the cluster's share of all tiles; the tile behind its last. Each lane counts those of a part of
        the groups, and the cluster looks at groups from where the part begins that its first tile is in."""
        tiles, number, part = b.variable(b.i32, 0), b.variable(b.i32, 0), b.ceildiv(groups, WARP_LANES)
        mine = b.mul(s.lane, part)

        def count() -> None:
            numbers = [b.add(number.get(), i) for i in range(COUNTED)]
            found = [read(b.add(mine, x)) for x in numbers]
            for x, ends in zip(numbers, found, strict=True):
                there = b.and_(b.compare("lt", x, part), b.compare("lt", b.add(mine, x), groups))
                tiles.set(b.add(tiles.get(), b.select(there, counted(ends)[3], 0)))
            number.set(b.add(number.get(), COUNTED))

        b.loop(lambda: b.compare("lt", number.get(), part), count)
        until = added_up(s, tiles.get())
        each, more = divided(b, shuffled(b, until, WARP_LANES - 1), clusters)
        begin = b.add(b.mul(first, each), b.min(first, more))
        beyond = b.pure("brev.b32 $0, $1;", b.i32, ballot(b, b.compare("lt", begin, until)))
        lane = b.min(b.pure("clz.b32 $0, $1;", b.i32, beyond), WARP_LANES - 1)
        unit.set(begin)
        chunk.set(b.mul(lane, part))
        before.set(shuffled(b, b.sub(until, tiles.get()), lane))
        return b.add(b.add(begin, each), b.select(b.compare("lt", first, more), b.constant(1), 0))

    def look() -> None:
        first = b.add(chunk.get(), s.lane)
        numbers = [first, *(b.add(first, i * WARP_LANES) for i in range(1, len(every)))]
        before: ir.Value | None = None
        for group, ends, mine in zip(numbers, [read(x) for x in numbers], every, strict=True):
            until = count_in(group, ends, mine, before)
            before = shuffled(b, until, 31) if mine is not every[-1] else None

    def count_in(group: ir.Value, ends: tuple[ir.Value, ir.Value], mine: Range, before: ir.Value | None) -> ir.Value:
        """A lane's group, behind groups of so many tiles; the tiles up to it."""
        low, high, order, count = counted(ends)
        inverses = order.hastened(s).inverses
        for variable, i in zip(mine.inverses, own, strict=True):
            variable.set(inverses[i])
        count = b.select(b.compare("lt", group, groups), count, 0)
        until = added_up(s, count)
        until = until if before is None else b.add(until, before)
        for variable, value in ((mine.low, low), (mine.high, high), (mine.own, count), (mine.until, until)):
            variable.set(value)
        return until

    def here() -> None:
        within = b.sub(unit.get(), before.get())
        beyond = [ballot(b, b.compare("lt", within, x.until.get())) for x in every]
        lanes, words, skipped = beyond[-1], every[-1].words, b.constant((len(every) - 1) * WARP_LANES)
        for i in reversed(range(len(every) - 1)):
            some = b.compare("ne", beyond[i], 0)
            lanes, skipped = b.select(some, beyond[i], lanes), b.select(some, b.constant(i * WARP_LANES), skipped)
            words = [b.select(some, x, y) for x, y in zip(every[i].words, words, strict=True)]
        found = b.pure("brev.b32 $0, $1;", b.i32, lanes)
        found = b.pure("clz.b32 $0, $1;", b.i32, found)
        low, high, tiles, until, *inverses = (shuffled(b, x, found) for x in words)
        t = b.sub(within, b.sub(until, tiles))
        order, each = of_group(b.sub(high, low))
        made = dict(zip(own, inverses, strict=True))
        order = replace(order, inverses=tuple(made.get(i, x) for i, x in enumerate(shared)))
        arguments, begins = list(block.arguments), low
        if empty > 1:
            none = b.compare("eq", low, high)
            low = b.select(none, b.mul(b.div(low, empty), empty), low)
            high = b.select(none, low, high)
        s.values[arguments[2]], s.values[arguments[3]] = begins, high
        s.values[arguments[4]] = b.add(b.add(chunk.get(), skipped) if len(every) > 1 else chunk.get(), found)
        if sizes:
            t = point_of(s, arguments[5 : 5 + len(sizes)], sizes, each, t)
        if end is not None:  # as many tiles of the same columns as are left of them, and of the share
            place, column = order.place(s, t)
            longest = b.sub(most + OF_RUN, b.min(place, OF_RUN))
            taken = b.min(b.min(b.sub(order.blocks[0], place), b.sub(end, unit.get())), longest)
            row, stop = (b.sub(b.max(x, OF_RUN), OF_RUN) for x in (place, b.add(place, taken)))
            corner = order.first(s, row, column)
            s.values[arguments[0]], s.values[arguments[1]] = b.add(corner[0], low), corner[1]
            s.values[arguments[-1]] = b.add(low, b.mul(stop, along))
            with b.when(b.compare("lt", row, stop)):
                s.table.block(s, block)
            unit.set(b.add(unit.get(), taken))
            return
        corner = list(order.corner(s, t))
        corner[axis] = b.add(corner[axis], low)
        s.values[arguments[0]], s.values[arguments[1]] = corner
        s.table.block(s, block)
        if left is None or run is None:
            unit.set(b.add(unit.get(), clusters))
            return
        last = b.compare("eq", left.get(), 1)
        unit.set(b.add(b.add(unit.get(), 1), b.select(last, b.mul(b.sub(clusters, 1), run), 0)))
        left.set(b.select(last, run, b.sub(left.get(), 1)))

    def further() -> None:
        before.set(b.add(before.get(), shuffled(b, every[-1].until.get(), 31)))
        chunk.set(b.add(chunk.get(), WARP_LANES * len(every)))
        with b.when(b.compare("lt", chunk.get(), groups)):
            look()

    def either() -> None:
        b.either(
            b.compare("lt", b.sub(unit.get(), before.get()), shuffled(b, every[-1].until.get(), 31)), here, further
        )

    def goes_on() -> ir.Value:
        more = b.compare("lt", chunk.get(), groups)
        return more if end is None else b.and_(more, b.compare("lt", unit.get(), end))

    end = share() if whole else None
    with b.when(b.compare("lt", 0, groups)):
        look()
    b.loop(goes_on, either)
