"""Results by bulk copies, issued without branches: of a few columns each, as they come out of tensor memory."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.lowering.common.copies import MapView
from scalec.lowering.common.staging import Staging, instruction
from scalec.lowering.common.state import State
from scalec.lowering.sm100.multiply import issuer
from scalec.lowering.sm100.table import TABLE


class Staged(Staging):
    """Its addresses are made once for the role: each part of a tile is stored behind a branch of its own, and what is
    made behind one is made again behind the next (of a warp for 32 columns, 44 instructions, and 37 so, when parts had
    32; ptxas 13.0)."""

    def place(self, s: State, across: int, above: int) -> ir.Value:
        return s.once(("staged", self.at, across, above), lambda: super(Staged, self).place(s, across, above))

    @staticmethod
    def once(s: State, op: ir.OpView) -> Staged:
        key = ("staged", op.staging, str(op.target.type), s.get(op.accumulator).columns)
        return s.once(key, lambda: Staged.of(s, op))


@TABLE.lowers("tile.store")
def store(s: State, op: ir.OpView) -> None:
    """One thread issues copies, predicated as products are: a branch would cost as much as a copy. All threads commit
    groups and wait for their own, which but for that thread's are empty (PTX ISA 9.7.9.25.3)."""
    b, fragment, staging = s.b, s.get(op.accumulator), Staged.once(s, op)
    view = MapView.of(s, op.target)
    target, x = b.integer(view.map), staging.first_column(s, op)
    for load in staging.loads():
        b.asm(f"cp.async.bulk.wait_group.read {load.pending};")
        s.unit_barrier()
        staging.put(s, fragment, load)
        b.asm("fence.proxy.async.shared::cta;")
        s.unit_barrier()
        for columns, y, source in staging.boxes(s, op, load):
            at = [staging.column(s, op, b.add(x, columns)), y, *view.at]
            inside = staging.inside(s, op, x, columns)
            issues = issuer(s) if inside is None else b.and_(issuer(s), inside)
            b.asm(f"@${len(at) + 2} {instruction(op, len(at))}", [], [target, *at, source, issues])
        b.asm("cp.async.bulk.commit_group;")


@TABLE.lowers("tile.drain")
def drain(s: State, op: ir.OpView) -> None:
    s.b.asm("cp.async.bulk.wait_group 0;")
