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
class Stream:
    """A CTA's walk.

    Attributes:
        units: of K, of a tile.
        whole, share, longer: as `tile.stream` has them.
        mine: this CTA's cluster.
        unit: the next tile that is not cut.
        at, end: on the line, in this CTA's share.
    """

    units: int
    whole: ir.Value
    share: ir.Value
    longer: ir.Value
    mine: ir.Value
    unit: Variable
    at: Variable
    end: ir.Value

    def index(self, s: State) -> ir.Value:
        """The tile of the line where the CTA is."""
        return s.b.div(self.at.get(), self.units)

    def is_whole(self, s: State) -> ir.Value:
        """Whether the CTA is at a tile that is not cut."""
        return s.b.compare("lt", self.unit.get(), self.whole)

    def share_of(self, s: State, unit: ir.Value) -> ir.Value:
        """The share that has a unit of the line."""
        b, longer = s.b, s.b.add(self.share, 1)
        behind = b.mul(self.longer, longer)
        among = b.add(self.longer, b.div(b.sub(unit, behind), self.share))
        return b.select(b.compare("lt", unit, behind), b.div(unit, longer), among)


@COMMON.lowers("tile.stream")
def stream(s: State, op: ir.OpView) -> None:
    b, walk, units = s.b, Walk.of(s, op), tile.int_of(op.units)
    whole, share, longer = (s.get(v) for v in (op.whole, op.share, op.longer))
    clusters, mine = (b.div(b.special(name), s.ctas) for name in ("nctaid_x", "ctaid_x"))

    def start(number: ir.Value) -> ir.Value:
        return b.add(b.mul(number, share), b.min(number, longer))

    at, unit, end = b.variable(b.i32, start(mine)), b.variable(b.i32, mine), start(b.add(mine, 1))
    block = op.body.blocks[0]

    def body() -> None:
        s.stream = walked = Stream(units, whole, share, longer, mine, unit, at, end)
        is_whole, index = walked.is_whole(s), walked.index(s)
        begins = b.sub(at.get(), b.mul(index, units))
        count = b.min(b.sub(b.constant(units), begins), b.sub(end, at.get()))
        count = b.select(is_whole, b.constant(units), count)
        corner = walk.corner(s, b.select(is_whole, unit.get(), b.add(whole, index)))
        # of which LLVM is not to know that it is small: it would keep an address for each block of an iteration
        first = b.asm("mov.b32 $0, $1;", [b.i32], [b.select(is_whole, b.constant(0), begins)], memory=False)[0]
        values = (*corner, first, count)
        s.values.update(zip(block.arguments, values, strict=True))
        s.table.block(s, block)
        s.stream = None
        unit.set(b.add(unit.get(), b.select(is_whole, clusters, b.constant(0))))
        at.set(b.add(at.get(), b.select(is_whole, b.constant(0), count)))

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
    begins = b.mul(at.index(s), at.units)
    ends = b.add(begins, at.units)
    ended = b.min(at.end, ends)
    last = b.variable(b.i32, 1)
    cut = b.or_(b.compare("ne", at.at.get(), begins), b.compare("ne", ended, ends))
    with b.when(b.and_(b.compare("ge", at.unit.get(), at.whole), cut)):
        _exchange(s, op, at, last)
    s.values[op.result] = b.compare("ne", last.get(), 0)


def _exchange(s: State, op: ir.OpView, at: Stream, last: Variable) -> None:
    """At the end of what a CTA has of a tile that is cut.

    The last to take a number waits for those alone who took one before: they run, and wait for nobody. What all
    consumers stored happens before the first thread's release, by the barrier between them, and its acquire before what
    they load, by the next one (PTX ISA 8.9: causality order).
    """
    b, threads, thread, index, mine = s.b, threads_of(s), thread_of(s), at.index(s), at.mine
    begins = b.mul(index, at.units)
    first = at.share_of(s, begins)
    others = b.sub(at.share_of(s, b.add(begins, at.units - 1)), first)
    counter = b.widen(b.add(b.mul(index, s.ctas), s.rank))
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
    # shares and tiles of the line are numbered together: from one place to the next, one of the two is the next
    stride = s.ctas * piece.part_bytes
    base = b.add(b.mul(b.add(first, index), s.ctas), s.rank)
    base = b.mul(b.widen(base), b.constant(piece.part_bytes, b.i64))
    base = b.add(b.add(pointer_of(s, op.parts), base), b.widen(b.mul(thread, 4 * VECTOR)))

    def place(share: ir.Value) -> ir.Value:
        return b.add(base, b.mul(b.widen(share), b.constant(stride, b.i64)))

    with b.when(b.or_(b.compare("eq", last.get(), 0), many)):
        piece.store_at(place(b.sub(mine, first)))
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    b.asm(f"bar.sync {BARRIER}, {threads};")
    with b.when(b.compare("eq", thread, 0)):
        with b.when(is_last):
            b.asm(_AWAIT, [], [counter, others])
        with b.when(b.compare("eq", last.get(), 0)):
            b.asm("red.release.gpu.global.add.u32 [$0], 1;", [], [counter])
    with b.when(is_last):
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        b.asm(f"bar.sync {BARRIER}, {threads};")
        other = b.select(b.compare("eq", mine, first), b.constant(1), 0)
        low = b.select(many, b.constant(0), other)
        high = b.select(many, others, other)
        for v in piece.sums:
            v.set(b.select(many, b.constant(0.0, b.f32), v.get()))
        piece.add_each(b.variable(b.i64, place(low)), b.add(place(high), b.constant(stride, b.i64)), stride)
