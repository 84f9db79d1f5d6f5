"""Parts of K whose CTAs are a cluster: sums meet in the shared memory of the first ones, in the order of the parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common.control import WAIT, advance, behind
from scalec.lowering.common.parts import VECTOR
from scalec.lowering.common.state import COMMON, State

WAIT_FOR_CLUSTER = WAIT.replace("try_wait.parity", "try_wait.parity.acquire.cluster")
"""What comes from other CTAs, and room for what goes to them (PTX ISA 8.5: scopes)."""


def _remote(s: State, address: ir.Value | int, part: ir.Value | int) -> ir.Value:
    """The address in the cluster's shared memory of what is at `address` in that of the CTA with a part."""
    return at_rank(s, address, s.b.add(s.rank, s.b.mul(part, s.ctas)))


def at_rank(s: State, address: ir.Value | int, rank: ir.Value | int) -> ir.Value:
    """Likewise of the CTA of a rank."""
    b = s.b
    pointer = b.op("nvvm.mapa", [ir.Type.parse("!llvm.ptr<7>")], [b.address(3, address), b.value(rank)])
    return b.op("llvm.ptrtoint", [b.i32], [pointer])


@dataclass(frozen=True)
class Meeting:
    """Where this unit's sums of a tile meet."""

    s: State
    sums: list[Variable]  # this thread's
    owner: ir.Value | int  # the part in whose CTA they do
    first: ir.Value  # where this thread's sums of the first other part are there

    @staticmethod
    def of(s: State, op: ir.OpView) -> Meeting:
        """Units belong to the owners by turns."""
        b, owners = s.b, tile.int_of(op.owners)
        sums = [v for wave in s.get(op.accumulator).waves for v in wave]
        unit = s.unit_index if prod(s.geometry.units) > 1 else 0
        owner = b.and_(b.value(unit), 1) if owners > 1 else 0
        room = b.mul(b.shr(b.value(unit), 1) if owners > 1 else unit, (tile.int_of(op.split) - 1) * _bytes(s, sums))
        thread = b.mul(b.and_(s.thread, _threads(s) - 1), 4 * VECTOR)
        return Meeting(s, sums, owner, b.add(b.add(s.get(op.sums).base, room), thread))

    def groups(self, others: int) -> Iterator[tuple[int, list[Variable]]]:
        """(offset in bytes, sums) of each VECTOR of the next part, of the one after it, ..."""
        for part in range(others):
            for i in range(0, len(self.sums), VECTOR):
                yield part * _bytes(self.s, self.sums) + 4 * i * _threads(self.s), self.sums[i : i + VECTOR]

    def send(self, op: ir.OpView) -> None:
        """As this thread of the unit; the owner is not one of the others."""
        s, b, part = self.s, self.s.b, self.s.get(op.part)
        before = b.select(b.compare("lt", self.owner, part), b.sub(part, 1), part)
        to = b.add(_remote(s, self.first, self.owner), b.mul(before, _bytes(s, self.sums)))
        barrier = _remote(s, s.get(op.ring).full, self.owner)
        text = "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
        for offset, group in self.groups(1):
            b.asm(f"{text} [$0 + {offset}], {{$2, $3, $4, $5}}, [$1];", [], [to, barrier, *(v.get() for v in group)])

    def add(self, others: int, whole: bool) -> ir.Value:
        """Those of part 0 or 1, which this one's are added to first, then of the following. The last one loaded."""
        b, x, added = self.s.b, self.s.b.constant(0.0), self.s.b.added(whole)
        for offset, group in self.groups(others):
            text = f"ld.shared.v4.f32 {{$0, $1, $2, $3}}, [$4 + {offset}];"
            for v, x in zip(group, b.asm(text, [b.f32] * VECTOR, [self.first]), strict=True):
                v.set(added(v.get(), x))
        return x


def _threads(s: State) -> int:
    """Of a unit."""
    return 32 * s.geometry.warps


def _bytes(s: State, sums: list[Variable]) -> int:
    """Of a unit's sums of one part."""
    return 4 * len(sums) * _threads(s)


@COMMON.lowers("tile.sum_in_cluster")
def sum_in_cluster(s: State, op: ir.OpView) -> None:
    """Sums go in the order of registers, neighbouring threads' to neighbouring 16 bytes, and each thread finds of every
    part what the thread of its number sent."""
    b, split, owners = s.b, tile.int_of(op.split), tile.int_of(op.owners)
    at, part, c = Meeting.of(s, op), s.get(op.part), s.get(op.cursor)
    units, full, empty = prod(s.geometry.units), s.get(op.ring).full, s.get(op.ring).empty

    def send() -> None:  # a fresh barrier counts as complete, so that nobody waits before the first tile
        b.asm(WAIT_FOR_CLUSTER, [], [empty, b.xor(c.phase.get(), 1)])
        at.send(op)

    def add() -> None:
        each = (split - 1) * _bytes(s, at.sums)
        expected = [len(range(owner, units, owners)) * each for owner in range(owners)]
        bytes = b.select(b.compare("eq", part, 0), b.constant(expected[0]), expected[-1]) if owners > 1 else expected[0]
        with b.when(b.compare("eq", s.thread, b.mul(part, _threads(s)) if owners > 1 else 0)):
            b.asm("mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [$0], $1;", [], [full, b.value(bytes)])
        b.asm(WAIT_FOR_CLUSTER, [], [full, c.parity(b)])
        last = at.add(split - 1, "whole" in op.operation.attributes)
        assert s.goes_on is not None
        with b.when(s.goes_on()):  # else nobody sends again, and the others may be gone
            b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
            # a sole owner sends nothing: nobody would wait for phases of its own (compute-sanitizer: missing wait)
            first = 1 if owners == 1 else 0
            with b.when(b.compare("lt", s.lane, split - first)):
                theirs = _remote(s, empty, b.add(s.lane, first))
                arrival = behind(s, theirs, [last])  # as tile.release
                b.asm("mbarrier.arrive.shared::cluster.b64 _, [$0];", [], [arrival])

    s.values[op.result] = mine = b.compare("eq", part, at.owner)
    b.either(mine, add, send)
    advance(s, op)
