"""Loops and waits whose form on sm_120a is another."""

from __future__ import annotations

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.state import State
from scalec.lowering.sm120.table import TABLE

# without a hint of time: with one, each wait has a second test and a sleep in line (ptxas 13.0: 10 to 20 cycles of
# issue, of about 1040 a K block)
_WAIT = """{
.reg .pred P1;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 P1, [$0], $1;
@!P1 bra WAIT;
}"""


@TABLE.lowers("tile.wait")
def wait(s: State, op: ir.OpView) -> None:
    b, c = s.b, s.get(op.cursor)
    s.b.asm(_WAIT, [], [b.add(s.get(op.ring).full, b.shl(c.stage.get(), 3)), c.phase.get()])


@TABLE.lowers("tile.steps")
def steps(s: State, op: ir.OpView) -> None:
    """Tested at the end, so that the test stands beside the wait that begins the next round: one break, not two."""
    b = s.b
    start, step, unroll = tile.int_of(op.start), tile.int_of(op.step), tile.int_of(op.unroll)
    k, block = s.get(op.k), op.body.blocks[0]
    at = b.variable(b.i32, start)

    def body() -> None:
        s.values[block.arguments[0]] = at.get()
        s.table.block(s, block)
        at.set(b.add(at.get(), step))

    def bodies() -> None:
        s.unrolled = unroll
        for _ in range(unroll):
            body()
        s.unrolled = 1

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
