"""Stream-K: whole tiles, then an equal share of the K blocks of the others; a tile's shares meet in memory."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.abi import COUNTER_BYTES
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common.control import Walk
from scalec.lowering.common.parts import BARRIER, VECTOR, Piece, pointer_of, thread_of, threads_of
from scalec.lowering.common.state import COMMON, State

NUMBER = 1 << 16
"""What taking a number adds to a tile's counter; below are those who have stored their sums."""


@dataclass(frozen=True)
class Shares:
    """A line of units that is dealt out in shares, the first `longer` of `length` + 1, the others of `length`."""

    length: ir.Value
    longer: ir.Value

    def first(self, s: State, share: ir.Value) -> ir.Value:
        """Its first unit."""
        return s.b.add(s.b.mul(share, self.length), s.b.min(share, self.longer))

    def of(self, s: State, unit: ir.Value) -> ir.Value:
        """The share that has a unit."""
        b, longer = s.b, s.b.add(self.length, 1)
        behind = b.mul(self.longer, longer)
        among = b.add(self.longer, b.div(b.sub(unit, behind), self.length))
        return b.select(b.compare("lt", unit, behind), b.div(unit, longer), among)


@dataclass(frozen=True)
class At:
    """Where a CTA is: `count` of the `units` of tile `index` of the line, in share `mine`."""

    shares: Shares
    mine: ir.Value
    index: ir.Value
    count: ir.Value
    units: int


@COMMON.lowers("tile.stream")
def stream(s: State, op: ir.OpView) -> None:
    b, walk, units = s.b, Walk.of(s, op), tile.int_of(op.units)
    clusters = b.div(b.special("nctaid_x"), s.ctas)
    mine = b.div(b.special("ctaid_x"), s.ctas)
    total = b.value(walk.clusters(s))
    waves = b.div(total, clusters)
    rest = b.sub(total, b.mul(waves, clusters))
    cut = b.add(rest, b.select(b.compare("eq", waves, 0), b.constant(0), clusters))
    cut = b.select(b.compare("eq", rest, 0), b.constant(0), cut)
    whole = b.sub(total, cut)
    line = b.mul(cut, units)
    length = b.div(line, clusters)
    shares = Shares(length, b.sub(line, b.mul(length, clusters)))
    at = b.variable(b.i32, shares.first(s, mine))
    end = shares.first(s, b.add(mine, 1))
    unit = b.variable(b.i32, mine)
    block = op.body.blocks[0]

    def body() -> None:
        t, place = unit.get(), at.get()
        is_whole = b.compare("lt", t, whole)
        index = b.div(place, units)
        first = b.sub(place, b.mul(index, units))
        count = b.select(is_whole, b.constant(units), b.min(b.sub(b.constant(units), first), b.sub(end, place)))
        s.values[block.arguments[2]] = b.select(is_whole, b.constant(0), first)
        s.values[block.arguments[3]] = count
        corner = walk.corner(s, b.select(is_whole, t, b.add(whole, index)))
        s.values[block.arguments[0]], s.values[block.arguments[1]] = corner
        s.stream = At(shares, mine, index, count, units)
        s.table.block(s, block)
        s.stream = None
        unit.set(b.add(t, b.select(is_whole, clusters, b.constant(0))))
        at.set(b.add(place, b.select(is_whole, b.constant(0), count)))

    b.loop(lambda: b.or_(b.compare("lt", unit.get(), whole), b.compare("lt", at.get(), end)), body)


_AWAIT = """{
.reg .pred P;
.reg .b32 R;
WAIT:
ld.acquire.gpu.global.u32 R, [$0];
and.b32 R, R, 0xFFFF;
setp.lt.u32 P, R, $1;
@P bra WAIT;
st.relaxed.gpu.global.u32 [$0], 0;
}"""


@COMMON.lowers("tile.sum_shares")
def sum_shares(s: State, op: ir.OpView) -> None:
    b, at = s.b, s.stream
    last = b.variable(b.i32, 1)
    with b.when(b.compare("ne", at.count, at.units)):
        _exchange(s, op, at, last)
    s.values[op.result] = b.compare("ne", last.get(), 0)


def _exchange(s: State, op: ir.OpView, at: At, last: Variable) -> None:
    """A tile that is cut, at the end of one of its shares.

    The last to take a number waits for those alone who took one before: they run, and wait for nobody. What all
    consumers stored happens before the first thread's release, by the barrier between them, and its acquire before what
    they load, by the next one (PTX ISA 8.9: causality order).
    """
    b, threads, thread = s.b, threads_of(s), thread_of(s)
    begins = b.mul(at.index, at.units)
    first = at.shares.of(s, begins)
    others = b.sub(at.shares.of(s, b.add(begins, at.units - 1)), first)
    counter = b.widen(b.add(b.mul(at.index, s.ctas), s.rank))
    counter = b.add(pointer_of(s, op.counters), b.mul(counter, b.constant(COUNTER_BYTES, b.i64)))
    taken = b.variable(b.i32, 0xFFFFFFFF)
    with b.when(b.compare("eq", thread, 0)):
        text = f"atom.relaxed.gpu.global.add.u32 $0, [$1], {NUMBER};"
        taken.set(b.shr(b.asm(text, [b.i32], [counter])[0], NUMBER.bit_length() - 1))
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    text = (
        f"{{\n.reg .pred P, Q;\nsetp.eq.u32 P, $1, $2;\nbar.red.or.pred Q, {BARRIER}, {threads}, P;\n"
        "selp.b32 $0, 1, 0, Q;\n}"
    )
    last.set(b.asm(text, [b.i32], [taken.get(), others])[0])
    is_last, many = b.compare("ne", last.get(), 0), b.compare("gt", others, 1)

    piece = Piece(s, [v for wave in s.get(op.accumulator).waves for v in wave], 1, 0, 1)
    # shares and tiles of the line, counted together: of two pieces one after the other one of both is the next
    stride = s.ctas * piece.part_bytes
    base = b.add(b.mul(b.add(first, at.index), s.ctas), s.rank)
    base = b.mul(b.widen(base), b.constant(piece.part_bytes, b.i64))
    base = b.add(b.add(pointer_of(s, op.parts), base), b.widen(b.mul(thread, 4 * VECTOR)))

    def place(share: ir.Value) -> ir.Value:
        return b.add(base, b.mul(b.widen(share), b.constant(stride, b.i64)))

    with b.when(b.or_(b.compare("eq", last.get(), 0), many)):
        piece.store_at(place(b.sub(at.mine, first)))
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    b.asm(f"bar.sync {BARRIER}, {threads};")
    with b.when(b.compare("eq", thread, 0)):
        b.either(
            is_last,
            lambda: b.asm(_AWAIT, [], [counter, others]),
            lambda: b.asm("red.release.gpu.global.add.u32 [$0], 1;", [], [counter]),
        )
    with b.when(is_last):
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        b.asm(f"bar.sync {BARRIER}, {threads};")
        other = b.select(b.compare("eq", at.mine, first), b.constant(1), 0)
        low = b.select(many, b.constant(0), other)
        high = b.select(many, others, other)
        for v in piece.sums:
            v.set(b.select(many, b.constant(0.0, b.f32), v.get()))
        piece.add_each(b.variable(b.i64, place(low)), b.add(place(high), b.constant(stride, b.i64)), stride)
