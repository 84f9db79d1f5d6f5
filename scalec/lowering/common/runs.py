"""Runs of tiles of the same columns, of which each begins while the results of the one before are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_runs import begun_of
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.fold_columns import Held, ends_of
from scalec.lowering.common.state import COMMON, Buffer, Cursor, State


@dataclass(frozen=True)
class Slot(Buffer):
    """A tile of which one stage is meant, that of a cursor of its own."""

    own: Cursor

    def behind(self, b: Builder, cursor: Cursor, unit: int = 1) -> ir.Value | int:
        """How far that one is behind the first, whatever the cursor of the others."""
        return super().behind(b, self.own, unit)


@COMMON.lowers("tile.slot")
def slot(s: State, op: ir.OpView) -> None:
    s.values[op.result] = Slot(**vars(s.get(op.tile)), own=s.get(op.cursor))


@COMMON.lowers("tile.reached")
def reached(s: State, op: ir.OpView) -> None:
    """Rows that a window begins before, and ends behind, in whole tiles of the cluster."""
    b, step = s.b, tile.ints_of(op.tile)[0] * tile.ints_of(op.cluster)[0]
    first, end = s.get(op.first), s.get(op.end)
    low, high = (b.op("arith.maxsi", [b.i32], [b.value(x), b.constant(0)]) for x in ends_of(s, op)())
    begin = b.div(first, step)  # of the cluster's tiles in a row
    tiles = b.div(b.sub(end, first), step)
    left = b.min(_beyond(b, b.div(low, step), begin), tiles)
    right = b.min(_beyond(b, b.div(b.add(high, step - 1), step), begin), tiles)
    right = b.op("arith.maxui", [b.i32], [b.value(right), b.value(left)])
    for result, count in ((op.low, left), (op.high, right)):
        s.values[result] = b.add(first, b.mul(count, step))


def _beyond(b: Builder, x: Any, least: Any) -> ir.Value | int:
    """How far a number is above another, 0 where it is below."""
    return b.sub(b.op("arith.maxui", [b.i32], [b.value(x), b.value(least)]), least)


@COMMON.lowers("tile.run_tiles")
def rows(s: State, op: ir.OpView) -> None:
    b, (body, ahead) = s.b, (next(iter(op.body.blocks)), list(op.ahead.blocks))
    row, end, step = b.variable(b.i32, s.get(op.first)), s.get(op.end), tile.int_of(op.step)

    def at(block: ir.Block, m0: ir.Value) -> None:
        s.values[next(iter(block.arguments))] = m0
        s.table.block(s, block)

    def on() -> ir.Value:
        return b.add(row.get(), step)

    if not ahead:

        def alone() -> None:
            at(body, row.get())
            row.set(on())

        b.loop(lambda: b.compare("lt", row.get(), end), alone)
        return
    settled = next(iter(op.settled.blocks))

    def begins(m0: ir.Value) -> list[Held]:
        """Begins a tile; what it reads."""
        at(ahead[0], m0)
        return [s.get(x) for x in begun_of(ahead[0]) or ()]

    with b.when(b.compare("lt", row.get(), end)):
        kept = [_Kept(b, held) for held in begins(row.get())]
        s.table.block(s, settled)

        def one(begin: Callable[[], list[Held]] | None) -> None:
            s.values.update({x: k.get() for x, k in zip(list(body.arguments)[1:], kept, strict=True)})
            made: list[Held] = []
            s.begins = None if begin is None else lambda: made.extend(begin())
            at(body, row.get())
            s.begins = None
            for k, held in zip(kept, made, strict=False):
                k.set(held)
            row.set(on())
            if begin is not None:
                s.table.block(s, settled)

        b.loop(lambda: b.compare("lt", on(), end), lambda: one(lambda: begins(on())))
        one(None)


@COMMON.lowers("tile.begun")
def begun(s: State, op: ir.OpView) -> None:
    """Says what there is."""


@COMMON.lowers("tile.behind")
def behind(s: State, op: ir.OpView) -> None:
    """Else ptxas issues products behind the sums that are to be computed beside them (ptxas 13.0)."""
    b, c = s.b, s.get(op.cursor)
    # a test may fail whatever is so (PTX ISA 9.7.13.15.16): either is -0, as launches have one layer of CTAs
    zero = s.once("-0", lambda: b.or_(b.special("ctaid_z"), -(1 << 31)))
    test = "mbarrier.test_wait.parity.shared::cta.b64 P1, [$1], $2;"
    text = f"{{\n.reg .pred P1;\n{test}\nselp.b32 $0, 0x80000000, $3, P1;\n}}"
    barrier = b.add(s.get(op.ring).full, b.shl(c.at(), 3))
    s.values[op.result] = b.asm(text, [b.f32], [barrier, c.parity(b), zero])[0]


@COMMON.lowers("tile.ahead")
def ahead(s: State, op: ir.OpView) -> None:
    if s.begins is not None:
        s.begins()


class _Kept:
    """Values that a tile reads for the next one, in registers over the end of a loop."""

    def __init__(self, b: Builder, held: Held) -> None:
        self._b, self._held = b, held
        self._registers: dict[ir.Value, Variable] = {v: b.variable(v.type, v) for v in _each(held)}

    def get(self) -> Held:
        """As they are now."""
        now = {v: x.get() for v, x in self._registers.items()}
        return Held([[[now[v] for v in values] for values in wave] for wave in self._held.waves])

    def set(self, held: Held) -> None:
        """Those of the next tile."""
        for old, new in zip(_each(self._held), _each(held), strict=True):
            self._registers[old].set(new)


def _each(held: Held) -> list[ir.Value]:
    return [v for wave in held.waves for values in wave for v in values]
