"""Rows that groups share out by offsets: which group a row, or a tile of rows, belongs to."""

from __future__ import annotations

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.items import ballot, shuffled
from scalec.lowering.common.state import COMMON, State


@COMMON.lowers("tile.find_group")
def find_group(s: State, op: ir.OpView) -> None:
    """A binary search: of the offsets at which groups begin, `some` are at or below the index, and the next `step` are
    looked at. Unsigned: a negative offset is above any index."""
    b, groups, at = s.b, s.b.value(s.get(op.groups)), s.b.value(s.get(op.at))
    base, stride = b.integer(s.get(op.offsets)), b.mul(s.get(op.stride), 4)
    some, low = b.variable(b.i32, 0), b.variable(b.i32, 0)
    zeros = b.pure("clz.b32 $0, $1;", b.i32, groups)  # 32 of no groups: a shift by as many gives 0
    step = b.variable(b.i32, b.pure("shr.u32 $0, 0x80000000, $1;", b.i32, zeros))

    def offset(number: ir.Value, there: ir.Value) -> ir.Value:
        """An offset, 0 where it is not to be read."""
        address = b.add(base, b.mul(b.widen(number), stride))
        return b.asm("@$2 ld.global.b32 $0, [$1];", [b.i32], [address, there, 0], tied=1)[0]

    def look() -> None:
        further = b.add(some.get(), step.get())
        there = b.compare("le", further, groups)
        found = offset(b.sub(further, 1), there)
        begun = b.and_(there, b.compare("le", found, at))
        some.set(b.select(begun, further, some.get()))
        low.set(b.select(begun, found, low.get()))
        step.set(b.shr(step.get(), 1))

    b.loop(lambda: b.compare("ne", step.get(), 0), look)
    begun = b.compare("ne", some.get(), 0)
    s.values[op.group] = b.select(begun, b.sub(some.get(), 1), 0)
    s.values[op.low] = low.get()
    s.values[op.inside] = b.and_(begun, b.compare("lt", at, offset(some.get(), begun)))


@COMMON.lowers("tile.group_of_tile")
def group_of_tile(s: State, op: ir.OpView) -> None:
    """A search by a warp: its lanes look at 32 groups that lie `step` apart, then at those between the last of these
    that has begun and the next. So up to 31 groups take one load, a thousand two, one waiting for the other. Unsigned,
    and of offsets that fall no group that has not begun."""
    b, groups, at, rows = s.b, s.b.value(s.get(op.groups)), s.b.value(s.get(op.at)), tile.int_of(op.rows)
    base, stride = b.integer(s.get(op.offsets)), b.mul(s.get(op.stride), 4)
    some, low, high = (b.variable(b.i32, 0) for _ in range(3))
    last = b.sub(31, b.pure("clz.b32 $0, $1;", b.i32, b.max(groups, 1)))
    step = b.variable(b.i32, b.op("arith.shli", [b.i32], [b.constant(1), b.mul(b.div(last, 5), 5)]))

    def look() -> None:
        number = b.add(some.get(), b.sub(b.mul(step.get(), b.add(s.lane, 1)), 1))
        address = b.add(base, b.mul(b.widen(number), stride))
        (found,) = b.asm("@$2 ld.global.b32 $0, [$1];", [b.i32], [address, b.compare("le", number, groups), 0], tied=1)
        begins = b.mul(b.add(b.div(found, rows), number), rows)
        begun = ballot(b, b.and_(b.compare("lt", number, groups), b.compare("le", begins, at)))
        turned = b.pure("brev.b32 $0, $1;", b.i32, b.xor(begun, -1))
        count = b.pure("clz.b32 $0, $1;", b.i32, turned)  # of those that have begun, up to the first that has not
        before = shuffled(b, found, b.sub(b.max(count, 1), 1))
        low.set(b.select(b.compare("eq", count, 0), low.get(), before))
        high.set(shuffled(b, found, b.min(count, 31)))
        some.set(b.add(some.get(), b.mul(count, step.get())))
        step.set(b.shr(step.get(), 5))

    b.loop(lambda: b.compare("ne", step.get(), 0), look)
    begun = b.compare("ne", some.get(), 0)
    s.values[op.group] = b.select(begun, b.sub(some.get(), 1), 0)
    s.values[op.low], s.values[op.high] = low.get(), b.select(begun, high.get(), 0)
