"""Blocks of columns that CTAs of a cluster share: their rows' largest magnitudes meet in the shared memory of each."""

from __future__ import annotations

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.control import advance
from scalec.lowering.common.meeting import WAIT_FOR_CLUSTER, at_rank
from scalec.lowering.common.state import State

_LOADED = 4  # f32 of one load


def ctas_of(op: ir.OpView) -> int:
    """CTAs that share a block."""
    given = op.operation.attributes.get("ctas")
    return 1 if given is None else tile.int_of(given)


def meet(s: State, op: ir.OpView, own: list[tuple[ir.Value, ir.Value, ir.Value]]) -> list[ir.Value]:
    """Of each row the largest of what all CTAs, and their units along the columns, have of it. `own`: the row, what
    this lane has of it, and whether this lane sends it.

    A row's numbers lie side by side, one for each CTA and unit. Everybody sends to all CTAs, its own too, so that each
    waits for as many bytes. Warps arrive as well: what they send may take the place of what they have read two tiles
    before, and st.async by itself orders nothing that its thread has done (PTX ISA 9.7.9.12: a weak operation). With
    `.release.cluster` these arrivals would wait for all of a thread's memory, as those of `tile.release` would.
    """
    b, ctas, along_n, c = s.b, ctas_of(op), s.geometry.units[1], s.get(op.cursor)
    rows, count = tile.int_of(op.operation.attributes["rows"]), ctas * along_n
    place = b.add(b.add(s.shared, tile.int_of(op.exchange)), b.mul(c.at(), 4 * rows * count))
    full = b.add(s.get(op.ring).full, b.shl(c.at(), 3))
    with b.when(b.compare("eq", s.thread, 0)):
        text = f"mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [$0], {4 * rows * count};"
        b.asm(text, [], [full])
    unit = b.add(b.mul(b.value(s.rank), along_n), s.unit(1)) if along_n > 1 else b.value(s.rank)
    first = [b.mul(b.sub(row, s.get(op.m0)), 4 * count) for row, _, _ in own]
    for cta in range(ctas):
        theirs, barrier = (at_rank(s, x, cta) for x in (b.add(place, b.shl(unit, 2)), full))
        for at, (_, value, sends) in zip(first, own, strict=True):
            text = "@$3 st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [$0], $1, [$2];"
            b.asm(text, [], [b.add(theirs, at), value, barrier, sends])
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    with b.when(b.compare("lt", s.lane, ctas)):
        b.asm("mbarrier.arrive.shared::cluster.b64 _, [$0];", [], [at_rank(s, full, s.lane)])
    b.asm(WAIT_FOR_CLUSTER, [], [full, c.parity(b)])
    made = []
    for at in first:
        largest = None
        for i in range(0, count, _LOADED):
            width = min(_LOADED, count - i)
            names = ", ".join(f"${j}" for j in range(width))
            text = f"ld.shared.v{width}.f32 {{{names}}}, [${width} + {4 * i}];"
            for x in b.asm(text, [b.f32] * width, [b.add(place, at)]):
                largest = x if largest is None else b.pure("max.NaN.f32 $0, $1, $2;", b.f32, largest, x)
        assert largest is not None
        made.append(largest)
    advance(s, op)
    return made
