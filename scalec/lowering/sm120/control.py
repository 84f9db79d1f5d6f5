"""Loops and waits whose form on sm_120a is another."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common import control
from scalec.lowering.common.state import Cursor, State
from scalec.lowering.sm120.table import TABLE

# without a hint of time: with one, each wait has a second test and a sleep in line (ptxas 13.0: 10 to 20 cycles of
# issue, of about 1040 a K block)
_WAIT = """{
.reg .pred P1;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 P1, [$0], $1;
@!P1 bra WAIT;
}"""


@dataclass
class WaitingCursor(Cursor):
    """A cursor that also has the address of the full barrier that it will wait for: `first` is that of stage 0."""

    first: ir.Value
    barrier: Variable


@TABLE.lowers("tile.cursor")
def cursor(s: State, op: ir.OpView) -> None:
    """Where a role waits at a cursor, for each stage, the barrier's address is kept too: found at the wait, it would
    delay it."""
    control.cursor(s, op)
    waits = [use.owner for use in op.result.uses if use.owner.operation.name == "tile.wait"]
    c = s.get(op.result)
    if waits and c.rounds is None:
        first = s.get(waits[0].opview.ring).full
        s.values[op.result] = WaitingCursor(c.depth, c.stage, c.phase, c.ready, first, s.b.variable(s.b.i32, first))


@TABLE.lowers("tile.advance")
def advance(s: State, op: ir.OpView) -> None:
    control.advance(s, op)
    c = s.get(op.cursor)
    if isinstance(c, WaitingCursor):
        c.barrier.set(s.b.add(c.first, s.b.shl(c.stage.get(), 3)))


@TABLE.lowers("tile.wait")
def wait(s: State, op: ir.OpView) -> None:
    c = s.get(op.cursor)
    if not isinstance(c, WaitingCursor):
        control.wait(s, op)
        return
    s.b.asm(_WAIT, [], [c.barrier.get(), c.phase.get()])


@TABLE.lowers("tile.steps")
def steps(s: State, op: ir.OpView) -> None:
    """Tested at the end, so that the test stands beside the wait that begins the next round: one break, not two."""
    b = s.b
    start, step, unroll = tile.int_of(op.start), tile.int_of(op.step), tile.int_of(op.unroll)
    k, at = s.get(op.k), b.variable(b.i32, start)
    body, bodies = control.bodies_of(s, op, at)

    def looped(bodies, count: int) -> None:
        more = lambda: b.compare("lt", b.add(at.get(), (count - 1) * step), k)  # noqa: E731
        with b.when(more()):
            b.loop_once(bodies, more)

    if isinstance(k, int):
        rounds = max(0, -(-(k - start) // step))
        if rounds >= unroll:
            b.loop_once(bodies, lambda: b.compare("lt", b.add(at.get(), (unroll - 1) * step), k))
        for _ in range(rounds % unroll):
            body()
        return
    if unroll > 1:
        looped(bodies, unroll)
    looped(body, 1)
